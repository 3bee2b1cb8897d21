/*
 * The one reader of tensors: whatever field the data stand in, they come out complete, checked and
 * laid out as raw_data lays them out.
 */
#include <inttypes.h>
#include <string.h>

#include "frontend/frontend.h"

typedef enum Store { S_NONE, S_F32, S_I32, S_I64, S_F64, S_U64, S_STR } Store;

/*
 * per: elements in one entry of the typed field; bits: of an element
 * wide: entries in the typed field for one element (complex)
 */
static const struct ElemType { const char *name; int bits; Store store; int per, wide;
	} elem_types[] = {
	/* code  name             bits  store  per wide */
	[1]  = { "float32",         32, S_F32, 1, 1 },
	[2]  = { "uint8",            8, S_I32, 1, 1 },
	[3]  = { "int8",             8, S_I32, 1, 1 },
	[4]  = { "uint16",          16, S_I32, 1, 1 },
	[5]  = { "int16",           16, S_I32, 1, 1 },
	[6]  = { "int32",           32, S_I32, 1, 1 },
	[7]  = { "int64",           64, S_I64, 1, 1 },
	[8]  = { "string",           0, S_STR, 1, 1 },
	[9]  = { "bool",             8, S_I32, 1, 1 },
	[10] = { "float16",         16, S_I32, 1, 1 },
	[11] = { "float64",         64, S_F64, 1, 1 },
	[12] = { "uint32",          32, S_U64, 1, 1 },
	[13] = { "uint64",          64, S_U64, 1, 1 },
	[14] = { "complex64",       64, S_F32, 1, 2 },
	[15] = { "complex128",     128, S_F64, 1, 2 },
	[16] = { "bfloat16",        16, S_I32, 1, 1 },
	[17] = { "float8e4m3fn",     8, S_I32, 1, 1 },
	[18] = { "float8e4m3fnuz",   8, S_I32, 1, 1 },
	[19] = { "float8e5m2",       8, S_I32, 1, 1 },
	[20] = { "float8e5m2fnuz",   8, S_I32, 1, 1 },
	[21] = { "uint4",            4, S_I32, 2, 1 },
	[22] = { "int4",             4, S_I32, 2, 1 },
	[23] = { "float4e2m1",       4, S_I32, 2, 1 },
	[24] = { "float8e8m0",       8, S_I32, 1, 1 },
	[25] = { "uint2",            2, S_I32, 4, 1 },
	[26] = { "int2",             2, S_I32, 4, 1 },
	[27] = { "float6e2m3",       6, S_I32, 1, 1 },
	[28] = { "float6e3m2",       6, S_I32, 1, 1 },
};
enum { ELEM_BOOL = 9, ELEM_INT64 = 7, ELEM_STRING = 8,
	N_ELEM_TYPES = sizeof elem_types / sizeof *elem_types };

/* Beyond it a dense form is refused: a tiny file must not fill the memory. */
static const int64_t MAX_DENSE = (int64_t)1 << 31;

const char *onnx_type_name(int code)
{
	return code > 0 && code < N_ELEM_TYPES ? elem_types[code].name : NULL;
}

int onnx_type_bits(int code)
{
	return onnx_type_name(code) ? elem_types[code].bits : 0;
}

#define BAD(om, ...) (diag_error((om)->diag, X_INVALID, NULL, __VA_ARGS__), false)

/* count and size of t from its dims; "4*2^80 bytes" must not wrap. */
static bool measure(OnnxModel *om, const char *what, size_t ndims, const int64_t *dims,
	OnnxTensor *t)
{
	int64_t product = 1, bits;   /* of the dims that are not 0: strides must not overflow either */

	t->rank = (int)ndims;
	t->dims = arena_dup(om->m->arena, dims, ndims * sizeof *dims);
	t->count = 1;
	for (size_t i = 0; i < ndims; i++) {
		if (dims[i] < 0)
			return BAD(om, "%s: dimension %zu is %" PRId64, what, i, dims[i]);
		if (dims[i] && !mul_ok(product, dims[i], &product))
			return BAD(om, "%s: element count overflows 64 bits", what);
		t->count = dims[i] && t->count ? product : 0;
	}
	if (!mul_ok(t->count, elem_types[t->type].bits, &bits))
		return BAD(om, "%s: size overflows 64 bits", what);
	t->size = (size_t)(bits / 8 + (bits % 8 != 0));
	return true;
}

/* ---- typed fields --------------------------------------------------------------------------- */

static size_t stored(const TensorFields *f, Store s)
{
	switch (s) {
	case S_F32: return f->nf32;
	case S_I32: return f->ni32;
	case S_I64: return f->ni64;
	case S_F64: return f->nf64;
	case S_U64: return f->nu64;
	case S_STR: return f->nstr;
	default: return 0;
	}
}

static const char *store_name(Store s)
{
	static const char *const names[] = {
		"no field", "float_data", "int32_data", "int64_data", "double_data", "uint64_data",
		"string_data",
	};
	return names[s];
}

/* Narrow elements, each (or a byte of them) in an int32 entry, signed or as bits. */
static bool narrow(OnnxModel *om, const TensorFields *f, OnnxTensor *t, const struct ElemType *e)
{
	int bits = e->bits * e->per;
	uint8_t *to = arena_alloc(om->m->arena, t->size);

	for (size_t i = 0; i < f->ni32; i++) {
		int64_t v = f->i32[i], lo = -((int64_t)1 << (bits - 1)), hi = ((int64_t)1 << bits) - 1;
		if (v < lo || v > hi)
			return BAD(om, "%s: int32_data[%zu] is %" PRId64 ", which is no %s", f->what, i, v,
				e->name);
		if (e->bits == 6) {
			unsigned at = (unsigned)(i % 4 * 6), word = (unsigned)(v & 63) << (at % 8);
			size_t byte = i / 4 * 3 + at / 8;
			to[byte] |= (uint8_t)word;
			if (word >> 8)
				to[byte + 1] |= (uint8_t)(word >> 8);
		} else if (bits == 8)
			to[i] = (uint8_t)v;
		else
			memcpy(to + 2 * i, &(uint16_t){ (uint16_t)v }, 2);
	}
	t->data = to;
	return true;
}

static bool narrow_u32(OnnxModel *om, const TensorFields *f, OnnxTensor *t)
{
	uint32_t *to = arena_alloc(om->m->arena, t->size);

	for (size_t i = 0; i < f->nu64; i++) {
		if (f->u64[i] > UINT32_MAX)
			return BAD(om, "%s: uint64_data[%zu] is %" PRIu64 ", which is no uint32", f->what, i,
				f->u64[i]);
		to[i] = (uint32_t)f->u64[i];
	}
	t->data = to;
	return true;
}

static bool typed(OnnxModel *om, const TensorFields *f, OnnxTensor *t)
{
	const struct ElemType *e = &elem_types[t->type];
	size_t have = stored(f, e->store), need;
	int64_t n = t->count;

	if (e->wide == 2 && !mul_ok(n, 2, &n))
		return BAD(om, "%s: element count overflows 64 bits", f->what);
	need = (size_t)(n / e->per + (n % e->per != 0));
	if (have != need) {
		for (Store s = S_F32; have == 0 && s <= S_STR; s++)
			if (s != e->store && stored(f, s))
				return BAD(om, "%s: its data are in %s, but those of %s belong in %s", f->what,
					store_name(s), e->name, store_name(e->store));
		return BAD(om, "%s: %zu entries in %s for %" PRId64 " %s (%zu entries)", f->what, have,
			store_name(e->store), t->count, e->name, need);
	}
	switch (e->store) {
	case S_F32: t->data = f->f32; return true;
	case S_I64: t->data = f->i64; return true;
	case S_F64: t->data = f->f64; return true;
	case S_STR: t->strings = f->str; return true;
	case S_U64:
		t->data = f->u64;
		return e->bits == 64 || narrow_u32(om, f, t);
	default:
		t->data = f->i32;
		return e->bits == 32 || narrow(om, f, t, e);
	}
}

/* ---- raw and external data ------------------------------------------------------------------ */

static bool raw(OnnxModel *om, const TensorFields *f, OnnxTensor *t)
{
	if (f->raw.n != t->size)
		return BAD(om, "%s: %zu bytes of data for %" PRId64 " %s (%zu bytes)", f->what, f->raw.n,
			t->count, elem_types[t->type].name, t->size);
	t->data = f->raw.p;
	return true;
}

/* Consumers load elements where they lie, and a bool is 0 or 1. */
static void normalize(OnnxModel *om, OnnxTensor *t)
{
	size_t align = (size_t)elem_types[t->type].bits / 8;
	const uint8_t *p = t->data;
	bool odd = align > 1 && (uintptr_t)p % align;

	for (size_t i = 0; t->type == ELEM_BOOL && !odd && i < t->size; i++)
		odd = p[i] > 1;
	if (!odd)
		return;
	uint8_t *q = arena_dup(om->m->arena, p, t->size);
	for (size_t i = 0; t->type == ELEM_BOOL && i < t->size; i++)
		q[i] = q[i] != 0;
	t->data = q;
	t->file = NULL;
}

static bool tensor_data(OnnxModel *om, const TensorFields *f, OnnxTensor *t)
{
	size_t entries = f->nf32 + f->ni32 + f->ni64 + f->nf64 + f->nu64 + f->nstr;

	if (f->external && t->type == ELEM_STRING)
		return BAD(om, "%s: strings cannot be external data", f->what);
	if (f->external)
		return extern_data(om, f, t->size, t);
	if (f->raw.n && t->type == ELEM_STRING)
		return BAD(om, "%s: strings cannot be raw data", f->what);
	if (f->raw.n && entries)
		return BAD(om, "%s: data both raw and in a typed field", f->what);
	if (f->has_raw && !entries)
		return t->type == ELEM_STRING ? typed(om, f, t) : raw(om, f, t);
	return typed(om, f, t);
}

OnnxTensor *tensor_read(OnnxModel *om, const TensorFields *f)
{
	OnnxTensor *t = NEW(om->m, OnnxTensor);

	t->name = f->name;
	t->type = f->type;
	if (!onnx_type_name(f->type)) {
		if (f->type == 0)
			diag_error(om->diag, X_INVALID, NULL, "%s: element type is missing", f->what);
		else
			diag_error(om->diag, X_UNSUPPORTED, NULL, "%s: unknown element type %d", f->what,
			f->type);
		return NULL;
	}
	if (f->segment) {
		diag_error(om->diag, X_UNSUPPORTED, NULL, "%s: data in segments", f->what);
		return NULL;
	}
	if (!measure(om, f->what, f->ndims, f->dims, t) || !tensor_data(om, f, t))
		return NULL;
	if (t->data && t->size)
		normalize(om, t);
	return t;
}

/* ---- sparse tensors ------------------------------------------------------------------------- */

/* The i-th value's position, -1 if it is none. */
static int64_t position(const OnnxTensor *t, const OnnxTensor *indices, int64_t i)
{
	const int64_t *at = indices->data;
	int64_t flat = 0;

	if (indices->rank == 1)
		return at[i] >= 0 && at[i] < t->count ? at[i] : -1;
	at += i * t->rank;
	for (int d = 0; d < t->rank; d++) {
		if (at[d] < 0 || at[d] >= t->dims[d])
			return -1;
		flat = flat * t->dims[d] + at[d];
	}
	return flat;
}

static bool sparse_fits(OnnxModel *om, const char *what, const OnnxTensor *values,
	const OnnxTensor *indices, size_t ndims)
{
	if (values->rank != 1)
		return BAD(om, "%s: sparse values must be a vector, have rank %d", what, values->rank);
	if (indices->type != ELEM_INT64)
		return BAD(om, "%s: sparse indices must be int64, are %s", what,
			onnx_type_name(indices->type));
	if ((indices->rank != 1 && indices->rank != 2) || indices->dims[0] != values->dims[0]
			|| (indices->rank == 2 && indices->dims[1] != (int64_t)ndims))
		return BAD(om, "%s: sparse indices of this shape do not fit %" PRId64 " values of rank %zu",
			what, values->count, ndims);
	return true;
}

static bool sparse_fill(OnnxModel *om, const char *what, OnnxTensor *t, const OnnxTensor *values,
	const OnnxTensor *indices)
{
	size_t width = (size_t)elem_types[t->type].bits / 8;
	uint8_t *to = arena_alloc(om->m->arena, t->size);
	int64_t last = -1;

	for (int64_t i = 0; i < values->count; i++) {
		int64_t at = position(t, indices, i);
		if (at < 0)
			return BAD(om, "%s: sparse index %" PRId64 " is outside the shape", what, i);
		if (at <= last)
			return BAD(om, "%s: sparse indices are not ascending at %" PRId64, what, i);
		memcpy(to + (size_t)at * width, (const uint8_t *)values->data + (size_t)i * width, width);
		last = at;
	}
	t->data = to;
	return true;
}

OnnxTensor *tensor_dense(OnnxModel *om, const char *what, const OnnxTensor *values,
	const OnnxTensor *indices, size_t ndims, const int64_t *dims)
{
	OnnxTensor *t = NEW(om->m, OnnxTensor);

	t->name = values->name;
	t->type = values->type;
	if (!measure(om, what, ndims, dims, t) || !sparse_fits(om, what, values, indices, ndims))
		return NULL;
	if (elem_types[t->type].bits % 8 || t->type == ELEM_STRING) {
		diag_error(om->diag, X_UNSUPPORTED, NULL, "%s: sparse tensor of %s", what,
			elem_types[t->type].name);
		return NULL;
	}
	if (t->size > (size_t)MAX_DENSE) {
		diag_error(om->diag, X_UNSUPPORTED, NULL, "%s: sparse tensor of %zu bytes when dense; the "
			"limit is %" PRId64, what, t->size, MAX_DENSE);
		return NULL;
	}
	return sparse_fill(om, what, t, values, indices) ? t : NULL;
}
