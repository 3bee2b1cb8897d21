/* Writes protobuf by hand, so that tests can say what no library would write. */
#ifndef TEST_WIRE_H
#define TEST_WIRE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct Msg { size_t n; uint8_t b[1 << 16]; } Msg;

static inline void put_varint(Msg *m, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		m->b[m->n++] = (uint8_t)(v | 0x80);
	m->b[m->n++] = (uint8_t)v;
}

static inline void put_int(Msg *m, int field, int64_t v)
{
	put_varint(m, (uint64_t)field << 3);
	put_varint(m, (uint64_t)v);
}

static inline void put_bytes(Msg *m, int field, const void *p, size_t n)
{
	put_varint(m, (uint64_t)field << 3 | 2);
	put_varint(m, n);
	memcpy(m->b + m->n, p, n);
	m->n += n;
}

static inline void put_str(Msg *m, int field, const char *s)
{
	put_bytes(m, field, s, strlen(s));
}

static inline void put_msg(Msg *m, int field, const Msg *sub)
{
	put_bytes(m, field, sub->b, sub->n);
}

static inline void put_pair(Msg *m, int field, const char *key, const char *value)
{
	Msg p = { 0 };

	put_str(&p, 1, key);
	put_str(&p, 2, value);
	put_msg(m, field, &p);
}

#endif
