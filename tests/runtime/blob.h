/* A writer of meta blobs, and what plans written by hand use. */
#include <stdlib.h>
#include <string.h>
#include "runtime/rt.h"

#define TRY(call) do { int32_t rc_ = (call); if (rc_) return rc_; } while (0)

typedef struct Blob {
	_Alignas(8) uint8_t bytes[1 << 14];
	uint32_t size;
} Blob;

static TccString put_string(Blob *b, const char *s)
{
	uint32_t at = b->size;
	memcpy(b->bytes + at, s, strlen(s) + 1);
	b->size += strlen(s) + 1;
	return at;
}

static TccTable put_rows(Blob *b, const void *rows, uint32_t n, size_t size)
{
	b->size = (b->size + 7) / 8 * 8;
	TccTable t = {b->size, n};
	if (n)
		memcpy(b->bytes + b->size, rows, n * size);
	b->size += n * size;
	return t;
}

#define PUT_ROWS(b, rows) put_rows(b, rows, TCC_COUNT(rows), sizeof *(rows))

static TccPort port(Blob *b, const char *name, uint32_t dtype, int rank, uint32_t dims,
                    uint32_t buffer)
{
	TccString s = put_string(b, name);
	return (TccPort){
		.name = s, .ident = s, .kind = TCC_TENSOR, .dtype = dtype, .rank = rank, .dims = dims,
		.buffer = buffer, .default_offset = TCC_NO_DEFAULT,
	};
}

static TccBuffer buffer(Blob *b, uint32_t cls, uint32_t dtype, const char *name)
{
	return (TccBuffer){
		.cls = cls, .dtype = dtype, .alias = -1, .name = put_string(b, name),
		.size = TCC_NO_SIZE, .offset = TCC_NO_SIZE,
	};
}
