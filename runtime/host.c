/*
 * Routines for what is not data-parallel (abi.h, TCC_HOST): sequences, optionals and maps here,
 * strings in host_string.c. Values live in memory of the run and are never changed once made, so
 * they may share elements.
 */
#include <stdlib.h>
#include <string.h>
#include "host.h"

int64_t host_fail(TccContext *ctx, const char *what)
{
	tcc_fail(&ctx->err, TCC_BAD_DATA, "%s", what);
	ctx->run.status = ctx->err.code;
	return 0;
}

int64_t host_deliver(TccContext *ctx, int64_t dst, const void *from, uint64_t bytes)
{
	const TccSlot *s = &ctx->slots[dst];
	void *kept = NULL;
	if (from && !s->host) {                 /* an upload may read it later */
		kept = tcc_run_alloc(ctx, bytes, true);
		if (kept)
			memcpy(kept, from, bytes);
		from = kept;
	}
	if (from)
		tcc_move(ctx, s->p, s->host, from, true, bytes);
	return 0;
}

const void *host_bytes(TccContext *ctx, int64_t buffer, uint64_t bytes)
{
	const TccSlot *s = &ctx->slots[buffer];
	void *copy;
	if (s->host)
		return s->p;
	copy = tcc_run_alloc(ctx, bytes, true);
	return copy && !tcc_move(ctx, copy, true, s->p, false, bytes) ? copy : NULL;
}

/* --- random numbers ------------------------------------------------------------------------ */

/* Matsumoto and Nishimura's generator, 1998; two words make a double of 53 bits. */
typedef struct Mersenne {
	uint32_t s[624];
	int at;
} Mersenne;

static uint32_t mersenne_word(Mersenne *g)
{
	uint32_t *s = g->s, y;
	for (int k = 0; g->at == 624 && k < 624; k++) {
		y = (s[k] & 0x80000000u) | (s[(k + 1) % 624] & 0x7fffffffu);
		s[k] = s[(k + 397) % 624] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
	}
	g->at %= 624;
	y = s[g->at++];
	y ^= y >> 11;
	y ^= y << 7 & 0x9d2c5680u;
	y ^= y << 15 & 0xefc60000u;
	return y ^ y >> 18;
}

int64_t do_mersenne(TccContext *ctx, const int64_t *a)
{
	Mersenne g = {.s = {(uint32_t)a[2]}, .at = 624};
	double *r = tcc_run_alloc(ctx, (uint64_t)a[1] * sizeof *r, true);
	for (int k = 1; k < 624; k++)
		g.s[k] = 1812433253u * (g.s[k - 1] ^ g.s[k - 1] >> 30) + (uint32_t)k;
	for (int64_t i = 0; r && i < a[1]; i++) {
		uint32_t high = mersenne_word(&g) >> 5;
		r[i] = (high * 67108864.0 + (mersenne_word(&g) >> 6)) / 9007199254740992.0;
	}
	return host_deliver(ctx, a[0], r, (uint64_t)a[1] * sizeof *r);
}

/* --- sequences and optionals ------------------------------------------------------------- */

static const TccValue *value_of(const TccContext *ctx, int64_t buffer)
{
	static const TccValue none;
	const TccValue *v = ctx->slots[buffer].value;
	return v ? v : &none;
}

static TccValue *new_value(TccContext *ctx, int64_t dst)
{
	TccValue *v = tcc_run_alloc(ctx, sizeof *v, true);
	if (v)
		ctx->slots[dst].value = v;
	return v;
}

static TccValue *new_sequence(TccContext *ctx, int64_t dst, uint32_t dtype, uint64_t n)
{
	TccValue *v = new_value(ctx, dst);
	TccValue *items = tcc_run_alloc(ctx, n * sizeof *items, true);
	if (!v || !items)
		return NULL;
	*v = (TccValue){.kind = TCC_SEQUENCE, .dtype = dtype};
	v->u.seq.n = n;
	v->u.seq.items = items;
	return v;
}

/* A tensor with a copy of a buffer's content, on the device for a device model. */
static bool snapshot(TccContext *ctx, TccValue *v, int64_t buffer, int64_t rank,
                     const int64_t *dims)
{
	const TccSlot *s = &ctx->slots[buffer];
	uint32_t dtype = ctx->inst->buffers[buffer].dtype;
	uint64_t bytes;
	if (rank < 0 || rank > TCC_MAX_RANK || !tcc_tensor_size(dtype, (int)rank, dims, NULL, &bytes))
		return host_fail(ctx, "a tensor's size is negative or overflows");
	int64_t *shape = tcc_run_alloc(ctx, rank * sizeof *shape, true);
	void *data = tcc_run_alloc(ctx, bytes, s->host);
	if (!shape || !data || tcc_move(ctx, data, s->host, s->p, s->host, bytes))
		return false;
	if (rank)
		memcpy(shape, dims, rank * sizeof *dims);
	*v = (TccValue){.kind = TCC_TENSOR, .dtype = dtype};
	tcc_tensor_set(&v->u.tensor, dtype, (int)rank, shape, data);
	if (!s->host)
		v->u.tensor.device_type = tcc_ops(ctx)->device_type;
	return true;
}

/* Makes a view buffer the tensor's memory, uploading it if kernels cannot read it. */
static int64_t view(TccContext *ctx, int64_t buffer, const TccValue *v)
{
	const TccTensor *t = &v->u.tensor;
	uint64_t bytes;
	if (v->kind != TCC_TENSOR || !tcc_tensor_size(v->dtype, t->ndim, t->shape, NULL, &bytes))
		return host_fail(ctx, "a value is not the tensor that the model expects there");
	bool host = t->device_type == TCC_DEV_CPU;
	TccSlot s = {.p = tcc_tensor_data(t), .size = bytes, .host = host};
	if (host && ctx->inst->dev && v->dtype != TCC_STRING) {
		s.p = tcc_run_alloc(ctx, bytes, false);
		s.host = false;
		if (!s.p || tcc_move(ctx, s.p, false, tcc_tensor_data(t), true, bytes))
			return 0;
	}
	ctx->slots[buffer] = s;
	return 0;
}

/* Element `pos` of a sequence, counted from the end when negative; NULL: the error is set. */
static const TccValue *element(TccContext *ctx, int64_t seq, int64_t pos)
{
	const TccValue *v = value_of(ctx, seq);
	int64_t n = v->kind == TCC_SEQUENCE ? (int64_t)v->u.seq.n : 0;
	if (pos < 0)
		pos += n;
	if (pos < 0 || pos >= n) {
		host_fail(ctx, "a position is outside of its sequence");
		return NULL;
	}
	return &v->u.seq.items[pos];
}

/* The sizes of a tensor that has this rank, and these sizes but where they are -1, to dst. */
static int64_t put_shape(TccContext *ctx, int64_t dst, const TccValue *v, int64_t rank,
                         const int64_t *want)
{
	if (!v)
		return 0;
	if (v->kind != TCC_TENSOR || v->u.tensor.ndim != rank)
		return host_fail(ctx, v->kind == TCC_NONE ? "an optional value is absent"
		                 : "a value has another rank than the model expects");
	for (int64_t d = 0; d < rank; d++)
		if (want[d] >= 0 && want[d] != v->u.tensor.shape[d])
			return host_fail(ctx, "a value has other sizes than the model expects");
	return host_deliver(ctx, dst, rank ? v->u.tensor.shape : NULL, (uint64_t)rank * 8);
}

int64_t do_seq_new(TccContext *ctx, const int64_t *a)
{
	new_sequence(ctx, a[0], (uint32_t)a[1], 0);
	return 0;
}

int64_t do_seq_len(TccContext *ctx, const int64_t *a)
{
	const TccValue *v = value_of(ctx, a[1]);
	int64_t n = v->kind == TCC_SEQUENCE ? (int64_t)v->u.seq.n : 0;
	return host_deliver(ctx, a[0], &n, sizeof n);
}

int64_t do_seq_insert(TccContext *ctx, const int64_t *a)
{
	const TccValue *old = value_of(ctx, a[1]);
	int64_t n = old->kind == TCC_SEQUENCE ? (int64_t)old->u.seq.n : 0;
	int64_t pos = a[2] == INT64_MAX ? n : a[2] < 0 ? a[2] + n : a[2];
	if (pos < 0 || pos > n)
		return host_fail(ctx, "a position is outside of its sequence");
	TccValue *v = new_sequence(ctx, a[0], ctx->inst->buffers[a[3]].dtype, n + 1);
	if (!v || !snapshot(ctx, &v->u.seq.items[pos], a[3], a[4], a + 5))
		return 0;
	if (pos)
		memcpy(v->u.seq.items, old->u.seq.items, pos * sizeof *v);
	if (n > pos)
		memcpy(v->u.seq.items + pos + 1, old->u.seq.items + pos, (n - pos) * sizeof *v);
	return 0;
}

int64_t do_seq_erase(TccContext *ctx, const int64_t *a)
{
	const TccValue *gone = element(ctx, a[1], a[2]);
	if (!gone)
		return 0;
	const TccValue *old = value_of(ctx, a[1]);
	uint64_t n = old->u.seq.n, pos = gone - old->u.seq.items;
	TccValue *v = new_sequence(ctx, a[0], old->dtype, n - 1);
	if (!v)
		return 0;
	memcpy(v->u.seq.items, old->u.seq.items, pos * sizeof *v);
	memcpy(v->u.seq.items + pos, gone + 1, (n - 1 - pos) * sizeof *v);
	return 0;
}

int64_t do_seq_shape(TccContext *ctx, const int64_t *a)
{
	return put_shape(ctx, a[0], element(ctx, a[1], a[2]), a[3], a + 4);
}

int64_t do_seq_at(TccContext *ctx, const int64_t *a)
{
	const TccValue *v = element(ctx, a[1], a[2]);
	return v ? view(ctx, a[0], v) : 0;
}

/*
 * Copies the box of `n` outer rows of `bytes` each; rows lie `dst_step` and `src_step` apart. Where
 * the memory is a device's, a copy a row.
 */
static bool copy_rows(TccContext *ctx, uint8_t *dst, uint64_t dst_step, bool dst_host,
                      const uint8_t *src, uint64_t src_step, bool src_host, uint64_t n,
                      uint64_t bytes)
{
	if (dst_step == bytes && src_step == bytes)
		return !tcc_move(ctx, dst, dst_host, src, src_host, n * bytes);
	for (uint64_t i = 0; i < n; i++)
		if (tcc_move(ctx, dst + i * dst_step, dst_host, src + i * src_step, src_host, bytes))
			return false;
	return true;
}

static uint64_t unit_of(uint32_t dtype)
{
	return dtype == TCC_STRING ? sizeof(TccStr) : (uint64_t)tcc_dtype_bits(dtype) / 8;
}

static uint64_t product(const int64_t *dims, int64_t from, int64_t to)
{
	uint64_t n = 1;
	for (; from < to; from++)
		n *= (uint64_t)dims[from];
	return n;
}

/* One part of a tensor, [from, from + len) along the axis, as a value of its own. */
static bool part(TccContext *ctx, TccValue *v, const int64_t *a, int64_t from, int64_t len)
{
	const TccSlot *s = &ctx->slots[a[1]];
	int64_t axis = a[2], rank = a[6];
	int64_t *shape = tcc_run_alloc(ctx, (uint64_t)(rank + 1) * sizeof *shape, true);
	const int64_t *dims = a + 7;
	uint32_t dtype = ctx->inst->buffers[a[1]].dtype;
	uint64_t unit = unit_of(dtype);
	uint64_t outer = product(dims, 0, axis), inner = product(dims, axis + 1, rank) * unit;
	uint8_t *data = tcc_run_alloc(ctx, outer * len * inner, s->host);
	if (!shape || !data || !copy_rows(ctx, data, len * inner, s->host, s->p + from * inner,
	                                  dims[axis] * inner, s->host, outer, len * inner))
		return false;
	memcpy(shape, dims, rank * sizeof *shape);
	shape[axis] = len;
	if (!a[3]) {
		memmove(shape + axis, shape + axis + 1, (rank - axis - 1) * sizeof *shape);
		rank--;
	}
	*v = (TccValue){.kind = TCC_TENSOR, .dtype = dtype};
	tcc_tensor_set(&v->u.tensor, dtype, (int)rank, shape, data);
	if (!s->host)
		v->u.tensor.device_type = tcc_ops(ctx)->device_type;
	return true;
}

int64_t do_seq_split(TccContext *ctx, const int64_t *a)
{
	int64_t n = a[5], total = a[7 + a[2]], from = 0, sum = 0;
	const int64_t *sizes = host_bytes(ctx, a[4], (n < 0 ? 1 : n) * sizeof *sizes);
	if (!sizes)
		return 0;
	for (int64_t i = 0; i < n; i++)
		if (sizes[i] < 0 || __builtin_add_overflow(sum, sizes[i], &sum))
			return host_fail(ctx, "a part of a split has a negative size");
	if (n >= 0 && sum != total)
		return host_fail(ctx, "the parts of a split do not make up the axis");
	if (n < 0 && sizes[0] < 1)
		return host_fail(ctx, "a part of a split has no element");
	int64_t chunk = n < 0 ? sizes[0] : 0, count = n < 0 ? total / chunk + (total % chunk > 0) : n;
	TccValue *v = new_sequence(ctx, a[0], ctx->inst->buffers[a[1]].dtype, count);
	for (int64_t i = 0; v && i < count; i++) {
		int64_t len = n >= 0 ? sizes[i] : total - from < chunk ? total - from : chunk;
		if (!part(ctx, &v->u.seq.items[i], a, from, len))
			break;
		from += len;
	}
	return 0;
}

/* Does v fit beside `first` in a concatenation? */
static bool alike(const TccValue *first, const TccValue *v, int64_t rank, int64_t free_axis)
{
	bool ok = v->kind == TCC_TENSOR && v->dtype == first->dtype && v->u.tensor.ndim == rank;
	for (int64_t d = 0; ok && d < rank; d++)
		ok = d == free_axis || v->u.tensor.shape[d] == first->u.tensor.shape[d];
	return ok;
}

int64_t do_seq_cat_shape(TccContext *ctx, const int64_t *a)
{
	const TccValue *v = value_of(ctx, a[1]), *e = element(ctx, a[1], 0);
	int64_t axis = a[2], rank = a[4], dims[TCC_MAX_RANK + 1];
	if (!e)
		return 0;
	for (uint64_t i = 0; i < v->u.seq.n; i++)
		if (!alike(e, e + i, rank, a[3] ? -1 : axis))
			return host_fail(ctx, "tensors of a sequence do not fit together");
	memcpy(dims, e->u.tensor.shape, axis * sizeof *dims);
	dims[axis] = a[3] ? (int64_t)v->u.seq.n : 0;
	for (uint64_t i = 0; !a[3] && i < v->u.seq.n; i++)
		if (__builtin_add_overflow(dims[axis], e[i].u.tensor.shape[axis], &dims[axis]))
			return host_fail(ctx, "a size overflows");
	for (int64_t d = axis + !a[3]; d < rank; d++)
		dims[d + !!a[3]] = e->u.tensor.shape[d];
	return host_deliver(ctx, a[0], dims, (rank + !!a[3]) * sizeof *dims);
}

int64_t do_seq_cat(TccContext *ctx, const int64_t *a)
{
	const TccValue *v = value_of(ctx, a[1]), *e = v->u.seq.items;
	const TccSlot *to = &ctx->slots[a[0]];
	int64_t axis = a[2], at = 0, along = 0;
	uint64_t unit, outer, inner;
	uint32_t dtype = ctx->inst->buffers[a[0]].dtype;
	if (v->kind != TCC_SEQUENCE || !v->u.seq.n || ctx->run.status)
		return 0;
	unit = unit_of(dtype);
	outer = product(e->u.tensor.shape, 0, axis);
	inner = product(e->u.tensor.shape, axis + !a[3], e->u.tensor.ndim) * unit;
	for (uint64_t i = 0; i < v->u.seq.n; i++)
		along += a[3] ? 1 : e[i].u.tensor.shape[axis];
	for (uint64_t i = 0; i < v->u.seq.n; i++) {
		const TccTensor *t = &e[i].u.tensor;
		int64_t len = a[3] ? 1 : t->shape[axis];
		if (!copy_rows(ctx, to->p + at * inner, along * inner, to->host, tcc_tensor_data(t),
		               len * inner, t->device_type == TCC_DEV_CPU, outer, len * inner))
			break;
		at += len;
	}
	return 0;
}

int64_t do_value_none(TccContext *ctx, const int64_t *a)
{
	ctx->slots[a[0]].value = NULL;
	return 0;
}

int64_t do_value_has(TccContext *ctx, const int64_t *a)
{
	uint8_t has = value_of(ctx, a[1])->kind != TCC_NONE;
	return host_deliver(ctx, a[0], &has, 1);
}

int64_t do_value_move(TccContext *ctx, const int64_t *a)
{
	ctx->slots[a[0]].value = ctx->slots[a[1]].value;
	return 0;
}

int64_t do_value_take(TccContext *ctx, const int64_t *a)
{
	if (value_of(ctx, a[1])->kind == TCC_NONE)
		return host_fail(ctx, "an optional value is absent");
	return do_value_move(ctx, a);
}

int64_t do_value_wrap(TccContext *ctx, const int64_t *a)
{
	TccValue *v = new_value(ctx, a[0]);
	if (v)
		snapshot(ctx, v, a[1], a[2], a + 3);
	return 0;
}

int64_t do_value_shape(TccContext *ctx, const int64_t *a)
{
	return put_shape(ctx, a[0], value_of(ctx, a[1]), a[2], a + 3);
}

int64_t do_value_get(TccContext *ctx, const int64_t *a)
{
	return view(ctx, a[0], value_of(ctx, a[1]));
}

/* --- maps -------------------------------------------------------------------------------- */

/* A rank-1 tensor over memory that exists; len is its shape. */
static TccValue vector(uint32_t dtype, int64_t *len, void *data)
{
	TccValue v = {.kind = TCC_TENSOR, .dtype = dtype};
	tcc_tensor_set(&v.u.tensor, dtype, 1, len, data);
	return v;
}

int64_t do_zipmap(TccContext *ctx, const int64_t *a)
{
	const TccBuffer *b = ctx->inst->buffers;
	uint32_t dtype = b[a[2]].dtype;
	const TccSlot *scores = &ctx->slots[a[2]];
	int64_t n = a[3], dims[] = {n, a[4]}, *len = tcc_run_alloc(ctx, sizeof *len, true);
	uint64_t bytes, row;
	if (!tcc_tensor_size(dtype, 2, dims, NULL, &bytes))
		return host_fail(ctx, "a map's size is negative or overflows");
	uint8_t *copy = tcc_run_alloc(ctx, bytes, true);
	TccValue *parts = tcc_run_alloc(ctx, (uint64_t)(n + 1) * sizeof *parts, true);
	TccValue *v = new_sequence(ctx, a[0], TCC_NODTYPE, n);
	if (!len || !copy || !parts || !v || tcc_move(ctx, copy, true, scores->p, scores->host, bytes))
		return 0;
	*len = a[4];
	row = n ? bytes / n : 0;
	parts[n] = vector(b[a[1]].dtype, len, ctx->slots[a[1]].p);
	for (int64_t i = 0; i < n; i++) {
		parts[i] = vector(dtype, len, copy + row * i);
		v->u.seq.items[i] = (TccValue){.kind = TCC_MAP, .dtype = dtype};
		v->u.seq.items[i].u.map.keys = &parts[n];
		v->u.seq.items[i].u.map.values = &parts[i];
	}
	return 0;
}

typedef struct Key {
	TccStr s;
	int64_t i;
	uint64_t at;
} Key;

static int by_number(const void *x, const void *y)
{
	int64_t a = ((const Key *)x)->i, b = ((const Key *)y)->i;
	return (a > b) - (a < b);
}

static int by_string(const void *x, const void *y)
{
	const Key *a = x, *b = y;
	uint64_t n = a->s.size < b->s.size ? a->s.size : b->s.size;
	int c = n ? memcmp(a->s.data, b->s.data, n) : 0;
	return c ? c : (a->s.size > b->s.size) - (a->s.size < b->s.size);
}

/* The keys in ascending order; NULL: there are none, or the error is set. */
static const Key *sorted_keys(TccContext *ctx, const TccValue *v, uint64_t *n)
{
	*n = v->kind == TCC_MAP ? tcc_tensor_count(&v->u.map.keys->u.tensor) : 0;
	Key *k = *n ? tcc_run_alloc(ctx, *n * sizeof *k, true) : NULL;
	const void *data = *n ? tcc_tensor_data(&v->u.map.keys->u.tensor) : NULL;
	bool strings = *n && v->u.map.keys->dtype == TCC_STRING;
	for (uint64_t i = 0; k && i < *n; i++)
		k[i] = strings ? (Key){.s = ((const TccStr *)data)[i], .at = i}
		               : (Key){.i = tcc_element_int(v->u.map.keys->dtype, data, i), .at = i};
	if (k)
		qsort(k, *n, sizeof *k, strings ? by_string : by_number);
	return k;
}

int64_t do_map_len(TccContext *ctx, const int64_t *a)
{
	const TccValue *v = value_of(ctx, a[1]);
	int64_t n = v->kind == TCC_MAP ? (int64_t)tcc_tensor_count(&v->u.map.keys->u.tensor) : 0;
	return host_deliver(ctx, a[0], &n, sizeof n);
}

/* Elements of one of a map's two tensors, in the order of the keys. */
static int64_t map_part(TccContext *ctx, int64_t dst, const TccValue *v, const TccValue *from)
{
	uint64_t n, unit;
	const Key *k = sorted_keys(ctx, v, &n);
	uint32_t dtype = ctx->inst->buffers[dst].dtype;
	if (!k)
		return 0;
	if (from->kind != TCC_TENSOR || from->dtype != dtype || tcc_tensor_count(&from->u.tensor) != n)
		return host_fail(ctx, "a map is not of the type that the model expects");
	unit = unit_of(dtype);
	uint8_t *to = dtype == TCC_STRING ? (uint8_t *)host_result(ctx, dst, (int64_t)n)
	                                  : tcc_run_alloc(ctx, n * unit, true);
	for (uint64_t i = 0; to && i < n; i++)
		memcpy(to + i * unit,
		       (const uint8_t *)tcc_tensor_data(&from->u.tensor) + k[i].at * unit, unit);
	return dtype == TCC_STRING ? 0 : host_deliver(ctx, dst, to, n * unit);
}

int64_t do_map_keys(TccContext *ctx, const int64_t *a)
{
	const TccValue *v = value_of(ctx, a[1]);
	return map_part(ctx, a[0], v, v->u.map.keys);
}

int64_t do_map_values(TccContext *ctx, const int64_t *a)
{
	const TccValue *v = value_of(ctx, a[1]);
	return map_part(ctx, a[0], v, v->u.map.values);
}

/* --- the table --------------------------------------------------------------------------- */

static int64_t (*const routines[])(TccContext *, const int64_t *) = {
#define ROUTINE(name, lib, args) [TCC_HOST_##name] = do_##name,
	TCC_HOST(ROUTINE)
#undef ROUTINE
};

int64_t tcc_host_call(TccContext *ctx, int64_t fn, const int64_t *args)
{
	if (fn >= TCC_NHOST)
		return tcc_function_call(ctx, (uint64_t)fn - TCC_NHOST, args);
	if (fn < 0 || !routines[fn])
		return host_fail(ctx, "the model calls a routine that this runtime does not have");
	int64_t v = routines[fn](ctx, args);
	return ctx->run.status ? 0 : v;
}
