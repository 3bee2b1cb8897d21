/*
 * Deflate (RFC 1951), enough for .npz: one call, output of known size. A Huffman code is kept as
 * the number of codes per length and the symbols in the order of their codes; a code is read bit
 * by bit, longest codes being rare. Own code rather than zlib's, so that programs for every
 * target are built from the runtime's sources alone.
 */
#include <string.h>
#include "rt.h"

enum { MAX_BITS = 15, LITERALS = 288, DISTANCES = 30 };

typedef struct Stream {
	const uint8_t *in, *end;
	uint8_t *out;
	uint64_t n, size;
	uint32_t bits;
	int nbits;
	bool failed;
} Stream;

typedef struct Huffman {
	uint16_t count[MAX_BITS + 1];
	uint16_t symbol[LITERALS];
} Huffman;

static uint32_t bits(Stream *s, int n)
{
	while (s->nbits < n) {
		if (s->in == s->end) {
			s->failed = true;
			return 0;
		}
		s->bits |= (uint32_t)*s->in++ << s->nbits;
		s->nbits += 8;
	}
	uint32_t v = s->bits & ((1u << n) - 1);
	s->bits >>= n;
	s->nbits -= n;
	return v;
}

/* Returns a symbol, or -1. */
static int decode(Stream *s, const Huffman *h)
{
	int code = 0, first = 0, index = 0;
	for (int len = 1; len <= MAX_BITS; len++) {
		code |= bits(s, 1);
		if (s->failed)
			return -1;
		int count = h->count[len];
		if (code - count < first)
			return h->symbol[index + code - first];
		index += count;
		first = (first + count) << 1;
		code <<= 1;
	}
	s->failed = true;
	return -1;
}

/* False for lengths that no code has; an incomplete code is allowed where it has one symbol. */
static bool build(Huffman *h, const uint8_t *length, int n)
{
	uint16_t at[MAX_BITS + 1] = {0};
	int left = 1;
	memset(h->count, 0, sizeof h->count);
	for (int i = 0; i < n; i++)
		h->count[length[i]]++;
	if (h->count[0] == n)
		return true;
	for (int len = 1; len <= MAX_BITS; len++) {
		left = 2 * left - h->count[len];
		if (left < 0)
			return false;
	}
	for (int len = 1; len < MAX_BITS; len++)
		at[len + 1] = at[len] + h->count[len];
	for (int i = 0; i < n; i++)
		if (length[i])
			h->symbol[at[length[i]]++] = i;
	return left == 0 || n - h->count[0] == 1;
}

static void stored(Stream *s)
{
	s->bits = 0;
	s->nbits = 0;
	if (s->end - s->in < 4) {
		s->failed = true;
		return;
	}
	uint32_t n = s->in[0] | s->in[1] << 8, check = s->in[2] | s->in[3] << 8;
	s->in += 4;
	if (n != (~check & 0xffff) || (uint64_t)(s->end - s->in) < n || s->size - s->n < n) {
		s->failed = true;
		return;
	}
	if (n)
		memcpy(s->out + s->n, s->in, n);
	s->in += n;
	s->n += n;
}

static void copy_match(Stream *s, uint32_t length, uint32_t distance)
{
	if (distance > s->n || s->size - s->n < length) {
		s->failed = true;
		return;
	}
	for (uint8_t *to = s->out + s->n; length--; to++, s->n++)
		*to = to[-(int64_t)distance];
}

static void codes(Stream *s, const Huffman *lit, const Huffman *dist)
{
	static const uint16_t length_base[] = {
		3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115,
		131, 163, 195, 227, 258,
	};
	static const uint8_t length_extra[] = {
		0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0,
	};
	static const uint16_t distance_base[] = {
		1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537,
		2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577,
	};
	while (!s->failed) {
		int v = decode(s, lit);
		if (v == 256)
			return;
		if (v < 256) {
			if (v < 0 || s->n == s->size)
				s->failed = true;
			else
				s->out[s->n++] = v;
			continue;
		}
		v -= 257;
		if (v >= (int)TCC_COUNT(length_base)) {
			s->failed = true;
			return;
		}
		uint32_t length = length_base[v] + bits(s, length_extra[v]);
		int d = decode(s, dist);
		if (d < 0 || d >= DISTANCES) {
			s->failed = true;
			return;
		}
		uint32_t distance = distance_base[d] + bits(s, d < 2 ? 0 : d / 2 - 1);
		if (!s->failed)
			copy_match(s, length, distance);
	}
}

static void fixed(Stream *s)
{
	Huffman lit, dist;
	uint8_t length[LITERALS];
	memset(length, 8, 144);
	memset(length + 144, 9, 112);
	memset(length + 256, 7, 24);
	memset(length + 280, 8, 8);
	build(&lit, length, LITERALS);
	memset(length, 5, DISTANCES);
	build(&dist, length, DISTANCES);
	codes(s, &lit, &dist);
}

/* The code lengths of a dynamic block, themselves coded. */
static bool lengths(Stream *s, uint8_t *length, int n)
{
	static const uint8_t order[] = {
		16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
	};
	Huffman h;
	uint8_t small[19] = {0};
	int ncodes = bits(s, 4) + 4;
	for (int i = 0; i < ncodes; i++)
		small[order[i]] = bits(s, 3);
	if (s->failed || !build(&h, small, 19))
		return false;
	for (int i = 0; i < n;) {
		int v = decode(s, &h), repeat = 1, value = v;
		if (v < 0)
			return false;
		if (v >= 16) {
			if (v == 16 && !i)
				return false;
			value = v == 16 ? length[i - 1] : 0;
			repeat = v == 16 ? 3 + bits(s, 2) : v == 17 ? 3 + bits(s, 3) : 11 + bits(s, 7);
		}
		if (s->failed || repeat > n - i)
			return false;
		while (repeat--)
			length[i++] = value;
	}
	return true;
}

static void dynamic(Stream *s)
{
	Huffman lit, dist;
	uint8_t length[LITERALS + 32] = {0};
	int nlit = bits(s, 5) + 257, ndist = bits(s, 5) + 1;
	bool ok = nlit <= 286 && ndist <= DISTANCES && lengths(s, length, nlit + ndist) &&
		length[256] && build(&lit, length, nlit) && build(&dist, length + nlit, ndist);
	if (!ok) {
		s->failed = true;
		return;
	}
	codes(s, &lit, &dist);
}

bool tcc_inflate(TccBytes in, uint8_t *out, uint64_t out_n)
{
	Stream s = {.in = in.p, .end = in.p + in.n, .out = out, .size = out_n};
	for (bool last = false; !last && !s.failed;) {
		last = bits(&s, 1);
		switch (bits(&s, 2)) {
		case 0: stored(&s); break;
		case 1: fixed(&s); break;
		case 2: dynamic(&s); break;
		default: s.failed = true;
		}
	}
	return !s.failed && s.n == s.size;
}
