/* Zip archives of .npy members (.npz). Sizes come from the central directory; zip64 is refused. */
#include <stdlib.h>
#include <string.h>
#include "rt.h"

enum {
	END_SIZE = 22, CENTRAL_SIZE = 46, LOCAL_SIZE = 30,
	END_SIG = 0x06054b50, CENTRAL_SIG = 0x02014b50, LOCAL_SIG = 0x04034b50,
	MAX_COMMENT = 65535,
};

static uint32_t u16(const uint8_t *p)
{
	return p[0] | p[1] << 8;
}

static uint32_t u32(const uint8_t *p)
{
	return u16(p) | u16(p + 2) << 16;
}

static int bad(TccErr *err, const char *why)
{
	return tcc_fail(err, TCC_BAD_FILE, "not a valid .npz file: %s", why);
}

uint32_t tcc_crc32(const uint8_t *p, uint64_t n)
{
	uint32_t table[256], crc = 0xffffffff;
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;
		for (int k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ 0xedb88320 : c >> 1;
		table[i] = c;
	}
	while (n--)
		crc = crc >> 8 ^ table[(crc ^ *p++) & 255];
	return ~crc;
}

int tcc_zip_open(TccZip *z, TccBytes file, TccErr *err)
{
	uint64_t at = file.n - END_SIZE;
	*z = (TccZip){.file = file};
	if (file.n < END_SIZE)
		return bad(err, "it is too short");
	uint64_t least = at > MAX_COMMENT ? at - MAX_COMMENT : 0;
	while (u32(file.p + at) != END_SIG)
		if (at-- == least)
			return bad(err, "it has no directory");
	const uint8_t *end = file.p + at;
	z->n = u16(end + 10);
	z->at = u32(end + 16);
	if (z->n == 0xffff || z->at == 0xffffffff)
		return tcc_fail(err, TCC_UNSUPPORTED, "zip64 archives (over 4 GB) are not supported");
	if (u16(end + 4) || u16(end + 8) != z->n)
		return tcc_fail(err, TCC_UNSUPPORTED, "archives in several parts are not supported");
	if (z->at > at)
		return bad(err, "its directory is outside of it");
	return 0;
}

/* The entry of the directory at *at, and *at behind it; NULL: damaged. */
static const uint8_t *next_entry(const TccZip *z, uint64_t *at)
{
	const uint8_t *p = z->file.p + *at;
	uint64_t left = z->file.n - *at;
	if (left < CENTRAL_SIZE || u32(p) != CENTRAL_SIG)
		return NULL;
	uint64_t n = (uint64_t)CENTRAL_SIZE + u16(p + 28) + u16(p + 30) + u16(p + 32);
	if (n > left)
		return NULL;
	*at += n;
	return p;
}

static const uint8_t *entry(const TccZip *z, uint32_t i)
{
	uint64_t at = z->at;
	const uint8_t *c = NULL;
	if (i >= z->n)
		return NULL;
	do
		c = next_entry(z, &at);
	while (c && i--);
	return c;
}

int tcc_zip_name(const TccZip *z, uint32_t i, char *name, size_t size, TccErr *err)
{
	const uint8_t *c = entry(z, i);
	if (!c)
		return bad(err, "its directory is damaged");
	uint32_t n = u16(c + 28);
	if (n >= 4 && !memcmp(c + CENTRAL_SIZE + n - 4, ".npy", 4))
		n -= 4;
	snprintf(name, size, "%.*s", (int)n, (const char *)c + CENTRAL_SIZE);
	return 0;
}

int64_t tcc_zip_find(const TccZip *z, const char *name)
{
	size_t n = strlen(name);
	uint64_t at = z->at;
	for (uint32_t i = 0; i < z->n; i++) {
		const uint8_t *c = next_entry(z, &at);
		if (!c)
			break;
		uint32_t len = u16(c + 28);
		const char *own = (const char *)c + CENTRAL_SIZE;
		bool bare = len == n + 4 && !memcmp(own + n, ".npy", 4);
		if ((len == n || bare) && !memcmp(own, name, n))
			return i;
	}
	return -1;
}

/* Where an entry's data start, or 0. */
static uint64_t data_of(const TccZip *z, uint64_t local)
{
	const TccBytes *f = &z->file;
	if (local > f->n || f->n - local < LOCAL_SIZE || u32(f->p + local) != LOCAL_SIG)
		return 0;
	uint64_t at = local + LOCAL_SIZE + u16(f->p + local + 26) + u16(f->p + local + 28);
	return at <= f->n ? at : 0;
}

int tcc_zip_entry(const TccZip *z, uint32_t i, TccBuf *b, TccErr *err)
{
	const uint8_t *c = entry(z, i);
	*b = (TccBuf){0};
	if (!c)
		return bad(err, "its directory is damaged");
	uint32_t flags = u16(c + 8), method = u16(c + 10), packed = u32(c + 20), size = u32(c + 24);
	if (packed == 0xffffffff || size == 0xffffffff || u32(c + 42) == 0xffffffff)
		return tcc_fail(err, TCC_UNSUPPORTED, "zip64 members (over 4 GB) are not supported");
	if (flags & 1)
		return tcc_fail(err, TCC_UNSUPPORTED, "encrypted archives are not supported");
	if (method != 0 && method != 8)
		return tcc_fail(err, TCC_UNSUPPORTED, "compression method %u is not supported", method);
	uint64_t at = data_of(z, u32(c + 42));
	if (!at || z->file.n - at < packed || (method == 0 && packed != size))
		return bad(err, "a member is outside of it");
	/* deflate never makes more than 1032 times its input */
	if (size / 1040 > packed)
		return bad(err, "a member claims an impossible size");
	uint8_t *to = tcc_buf_add(b, NULL, size);
	if (!to)
		return tcc_no_memory(err, size);
	TccBytes in = {z->file.p + at, packed};
	bool ok = method ? tcc_inflate(in, to, size) : (memcpy(to, in.p, size), true);
	if (!ok || tcc_crc32(to, size) != u32(c + 16)) {
		tcc_buf_free(b);
		return bad(err, ok ? "a member's checksum is wrong" : "a member's data are damaged");
	}
	return 0;
}

/* --- writing ----------------------------------------------------------------------------- */

static void put16(TccBuf *b, uint32_t v)
{
	tcc_buf_add(b, (uint8_t[]){v & 255, v >> 8 & 255}, 2);
}

static void put32(TccBuf *b, uint32_t v)
{
	put16(b, v & 0xffff);
	put16(b, v >> 16);
}

/* The fields that local and central headers share; stored, at the earliest date there is. */
static void put_common(TccBuf *out, uint32_t crc, uint32_t size, uint32_t name_size)
{
	put16(out, 20);
	put16(out, 0);
	put16(out, 0);
	put16(out, 0);
	put16(out, 0x21);
	put32(out, crc);
	put32(out, size);
	put32(out, size);
	put16(out, name_size);
	put16(out, 0);
}

static void put_name(TccBuf *out, const char *name)
{
	tcc_buf_add(out, name, strlen(name));
	tcc_buf_add(out, ".npy", 4);
}

typedef struct Member {
	uint32_t at, crc, size;
} Member;

static int put_member(TccBuf *out, const char *name, const TccValue *v, Member *m, TccErr *err)
{
	TccBuf data = {0};
	int rc = tcc_npy_write(v, &data, err);
	if (!rc && (data.n > 0xfffffff0 - out->n || out->n > 0xfffffff0))
		rc = tcc_fail(err, TCC_UNSUPPORTED, "an .npz of over 4 GB is not written; use .npy");
	if (!rc) {
		*m = (Member){(uint32_t)out->n, tcc_crc32(data.p, data.n), (uint32_t)data.n};
		put32(out, LOCAL_SIG);
		put_common(out, m->crc, m->size, strlen(name) + 4);
		put_name(out, name);
		tcc_buf_add(out, data.p, data.n);
	}
	tcc_buf_free(&data);
	return rc;
}

static void put_directory(TccBuf *out, uint32_t n, const char *const *names, const Member *m)
{
	uint64_t start = out->n;
	for (uint32_t i = 0; i < n; i++) {
		put32(out, CENTRAL_SIG);
		put16(out, 20);
		put_common(out, m[i].crc, m[i].size, strlen(names[i]) + 4);
		put16(out, 0);
		put16(out, 0);
		put16(out, 0);
		put32(out, 0);
		put32(out, m[i].at);
		put_name(out, names[i]);
	}
	uint64_t size = out->n - start;
	put32(out, END_SIG);
	put32(out, 0);
	put16(out, n);
	put16(out, n);
	put32(out, (uint32_t)size);
	put32(out, (uint32_t)start);
	put16(out, 0);
}

int tcc_npz_write(uint32_t n, const char *const *names, const TccValue *values, TccBuf *out,
                  TccErr *err)
{
	int rc = 0;
	Member *m = calloc(n + 1, sizeof *m);
	if (!m)
		return tcc_no_memory(err, n * sizeof *m);
	if (n >= 0xffff)
		rc = tcc_fail(err, TCC_UNSUPPORTED, "too many members for an .npz");
	for (uint32_t i = 0; !rc && i < n; i++)
		rc = strlen(names[i]) > 60000 ? tcc_fail(err, TCC_UNSUPPORTED, "a name is too long")
		                              : put_member(out, names[i], &values[i], &m[i], err);
	if (!rc)
		put_directory(out, n, names, m);
	free(m);
	if (!rc && (out->failed || out->n > 0xfffffffe))
		rc = tcc_no_memory(err, out->n);
	return rc;
}
