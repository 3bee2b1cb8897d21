/*
 * Matrix instructions: where the lanes of a warp hold the elements of A, B and C, and what is
 * computed of them. Formulas over lane l and element e as the vendors state them, written here
 * apart from the compiler's table (ir/mma.def), so that either shows the other's faults.
 *
 * Sources: PTX ISA, "Matrix Fragments for mma" (g = l / 4, q = l % 4); AMD matrix instruction
 * calculator. Products are summed in f32 without an order that a program may rely on; integers wrap.
 */
#include "sim_matrix.h"

#include <string.h>

typedef enum Kind { F16, BF16, TF32, S8, U8 } Kind;
typedef struct At { int i, k; } At;     /* row or column, and depth; of C: row and column */
typedef At Where(int l, int e);

#define PLACE(name, i_, k_) static At name(int l, int e) { return (At){ i_, k_ }; }
/* NVIDIA: A, B by bytes of an element; C */
PLACE(a_2, l / 4 + 8 * (e / 2 % 2), l % 4 * 2 + e % 2 + 8 * (e / 4))
PLACE(b_2, l / 4, l % 4 * 2 + e % 2 + 8 * (e / 2))
PLACE(a_4, l / 4 + 8 * (e % 2), l % 4 + 4 * (e / 2))
PLACE(b_4, l / 4, l % 4 + 4 * e)
PLACE(a_1, l / 4 + 8 * (e / 4 % 2), l % 4 * 4 + e % 4 + 16 * (e / 8))
PLACE(b_1, l / 4, l % 4 * 4 + e % 4 + 16 * (e / 4))
PLACE(ab_8x16, l / 4, l % 4 * 4 + e)
PLACE(c_8, l / 4 + 8 * (e / 2), l % 4 * 2 + e % 2)
/* AMD: A and B by elements that a lane holds of the depth; C */
PLACE(ab_x4, l % 16, l / 16 * 4 + e)
PLACE(ab_x8, l % 16, l / 16 * 8 + e)
PLACE(ab_x16, l % 16, l / 16 * 16 + e)
PLACE(ab_11, l % 16, e)
PLACE(ab_12, l % 16, l / 16 * 4 + e % 4 + 8 * (e / 4))
PLACE(c_mfma, l / 16 * 4 + e, l % 16)
PLACE(c_11, 2 * e + l / 16, l % 16)
PLACE(c_12, l / 16 * 8 + e, l % 16)

static const struct Row {
	const char *name;
	int lanes, m, n, k;
	Kind ka, kb;
	int na, nb, nc;         /* elements a lane holds */
	Where *a, *b, *c;
} rows[] = {
	{ "m16n8k16_f16",       32, 16, 8, 16,  F16, F16, 8, 4, 4,   a_2, b_2, c_8 },
	{ "m16n8k16_bf16",      32, 16, 8, 16,  BF16, BF16, 8, 4, 4,   a_2, b_2, c_8 },
	{ "m16n8k8_tf32",       32, 16, 8, 8,   TF32, TF32, 4, 2, 4,   a_4, b_4, c_8 },
	{ "m16n8k32_s8",        32, 16, 8, 32,  S8, S8, 16, 8, 4,  a_1, b_1, c_8 },
	{ "m16n8k32_u8",        32, 16, 8, 32,  U8, U8, 16, 8, 4,  a_1, b_1, c_8 },
	{ "m16n8k8_f16",        32, 16, 8, 8,   F16, F16, 4, 2, 4,   a_2, b_2, c_8 },
	{ "m8n8k16_s8",         32, 8, 8, 16,   S8, S8, 4, 4, 2,   ab_8x16, ab_8x16, c_8 },
	{ "m8n8k16_u8",         32, 8, 8, 16,   U8, U8, 4, 4, 2,   ab_8x16, ab_8x16, c_8 },
	{ "m16n8k32_u8s8",      32, 16, 8, 32,  U8, S8, 16, 8, 4,  a_1, b_1, c_8 },
	{ "m16n8k32_s8u8",      32, 16, 8, 32,  S8, U8, 16, 8, 4,  a_1, b_1, c_8 },
	{ "m8n8k16_u8s8",       32, 8, 8, 16,   U8, S8, 4, 4, 2,   ab_8x16, ab_8x16, c_8 },
	{ "m8n8k16_s8u8",       32, 8, 8, 16,   S8, U8, 4, 4, 2,   ab_8x16, ab_8x16, c_8 },
	{ "mfma_16x16x16_f16",  64, 16, 16, 16, F16, F16, 4, 4, 4,   ab_x4, ab_x4, c_mfma },
	{ "mfma_16x16x16_bf16", 64, 16, 16, 16, BF16, BF16, 4, 4, 4,   ab_x4, ab_x4, c_mfma },
	{ "mfma_16x16x16_i8",   64, 16, 16, 16, S8, S8, 4, 4, 4,   ab_x4, ab_x4, c_mfma },
	{ "mfma_16x16x32_i8",   64, 16, 16, 32, S8, S8, 8, 8, 4,   ab_x8, ab_x8, c_mfma },
	{ "mfma_16x16x32_f16",  64, 16, 16, 32, F16, F16, 8, 8, 4,   ab_x8, ab_x8, c_mfma },
	{ "mfma_16x16x32_bf16", 64, 16, 16, 32, BF16, BF16, 8, 8, 4,   ab_x8, ab_x8, c_mfma },
	{ "mfma_16x16x64_i8",   64, 16, 16, 64, S8, S8, 16, 16, 4, ab_x16, ab_x16, c_mfma },
	{ "wmma11_f16",         32, 16, 16, 16, F16, F16, 16, 16, 8, ab_11, ab_11, c_11 },
	{ "wmma11_bf16",        32, 16, 16, 16, BF16, BF16, 16, 16, 8, ab_11, ab_11, c_11 },
	{ "wmma11_i8",          32, 16, 16, 16, S8, S8, 16, 16, 8, ab_11, ab_11, c_11 },
	{ "wmma11_u8",          32, 16, 16, 16, U8, U8, 16, 16, 8, ab_11, ab_11, c_11 },
	{ "wmma11_u8i8",        32, 16, 16, 16, U8, S8, 16, 16, 8, ab_11, ab_11, c_11 },
	{ "wmma11_i8u8",        32, 16, 16, 16, S8, U8, 16, 16, 8, ab_11, ab_11, c_11 },
	{ "wmma12_f16",         32, 16, 16, 16, F16, F16, 8, 8, 8,   ab_12, ab_12, c_12 },
	{ "wmma12_bf16",        32, 16, 16, 16, BF16, BF16, 8, 8, 8,   ab_12, ab_12, c_12 },
	{ "wmma12_i8",          32, 16, 16, 16, S8, S8, 8, 8, 8,   ab_x8, ab_x8, c_12 },
	{ "wmma12_u8",          32, 16, 16, 16, U8, U8, 8, 8, 8,   ab_x8, ab_x8, c_12 },
	{ "wmma12_u8i8",        32, 16, 16, 16, U8, S8, 8, 8, 8,   ab_x8, ab_x8, c_12 },
	{ "wmma12_i8u8",        32, 16, 16, 16, S8, U8, 8, 8, 8,   ab_x8, ab_x8, c_12 },
};

enum { MAX_SIDE = 16, MAX_DEPTH = 64 };

static float f16_value(uint16_t h)
{
	union { uint32_t u; float f; } x;
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;

	if (e) {
		x.u = sign | (e == 31 ? 255u << 23 : (e + 112) << 23) | m << 13;
	} else {
		x.f = (float)m * 0x1p-24f;
		x.u |= sign;
	}
	return x.f;
}

static float float_at(const uint32_t *words, int e, Kind kind)
{
	union { uint32_t u; float f; } x;
	uint16_t half = (uint16_t)(words[kind == TF32 ? 0 : e >> 1] >> (e & 1) * 16);

	if (kind == F16)
		return f16_value(half);
	/* the unit drops what tf32 has no bits for */
	x.u = kind == TF32 ? words[e] & ~0x1fffu : (uint32_t)half << 16;
	return x.f;
}

static int32_t byte_at(const uint32_t *words, int e, Kind kind)
{
	uint8_t b = (uint8_t)(words[e >> 2] >> (e & 3) * 8);

	return kind == S8 ? (int8_t)b : b;
}

static void multiply_floats(const struct Row *r, const SimFragments *const *f)
{
	static float a[MAX_SIDE][MAX_DEPTH], b[MAX_DEPTH][MAX_SIDE];    /* under the launch's lock */
	float c[MAX_SIDE][MAX_SIDE] = { { 0 } };

	for (int l = 0; l < r->lanes; l++) {
		for (int e = 0; e < r->na; e++)
			a[r->a(l, e).i][r->a(l, e).k] = float_at(f[l]->a, e, r->ka);
		for (int e = 0; e < r->nb; e++)
			b[r->b(l, e).k][r->b(l, e).i] = float_at(f[l]->b, e, r->kb);
	}
	for (int i = 0; i < r->m; i++)
		for (int k = 0; k < r->k; k++)
			for (int j = 0; j < r->n; j++)
				c[i][j] += a[i][k] * b[k][j];
	for (int l = 0; l < r->lanes; l++)
		for (int e = 0; e < r->nc; e++)
			((float *)f[l]->c)[e] += c[r->c(l, e).i][r->c(l, e).k];
}

static void multiply_bytes(const struct Row *r, const SimFragments *const *f)
{
	static int32_t a[MAX_SIDE][MAX_DEPTH], b[MAX_DEPTH][MAX_SIDE];
	uint32_t c[MAX_SIDE][MAX_SIDE] = { { 0 } };

	for (int l = 0; l < r->lanes; l++) {
		for (int e = 0; e < r->na; e++)
			a[r->a(l, e).i][r->a(l, e).k] = byte_at(f[l]->a, e, r->ka);
		for (int e = 0; e < r->nb; e++)
			b[r->b(l, e).k][r->b(l, e).i] = byte_at(f[l]->b, e, r->kb);
	}
	for (int i = 0; i < r->m; i++)
		for (int k = 0; k < r->k; k++)
			for (int j = 0; j < r->n; j++)
				c[i][j] += (uint32_t)(a[i][k] * b[k][j]);
	for (int l = 0; l < r->lanes; l++)
		for (int e = 0; e < r->nc; e++)
			((uint32_t *)f[l]->c)[e] += c[r->c(l, e).i][r->c(l, e).k];
}

bool sim_matrix(const char *name, int lanes, const SimFragments *const *f)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		if (rows[i].lanes != lanes || strcmp(rows[i].name, name))
			continue;
		if (rows[i].ka < S8)
			multiply_floats(&rows[i], f);
		else
			multiply_bytes(&rows[i], f);
		return true;
	}
	return false;
}

static const SimProduct products[] = {
	{ "wgmma_f16",  2, 16, true,  { F16, F16 } },
	{ "wgmma_bf16", 2, 16, true,  { BF16, BF16 } },
	{ "wgmma_s8",   1, 32, false, { S8, S8 } },
	{ "wgmma_u8",   1, 32, false, { U8, U8 } },
	{ "wgmma_u8s8", 1, 32, false, { U8, S8 } },
	{ "wgmma_s8u8", 1, 32, false, { S8, U8 } },
};

const SimProduct *sim_product(const char *name)
{
	for (size_t i = 0; i < sizeof products / sizeof *products; i++)
		if (!strcmp(products[i].name, name))
			return &products[i];
	return NULL;
}

float sim_matrix_float(const SimProduct *x, const void *at, bool b)
{
	uint32_t word = 0;

	memcpy(&word, at, (size_t)x->size);
	return float_at(&word, 0, (Kind)x->kind[b]);
}

int32_t sim_matrix_byte(const SimProduct *x, const void *at, bool b)
{
	uint32_t word = *(const uint8_t *)at;

	return byte_at(&word, 0, (Kind)x->kind[b]);
}
