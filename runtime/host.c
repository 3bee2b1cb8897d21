/*
 * Routines for what is not data-parallel: sequences, optionals, maps, strings (abi.h, TCC_HOST).
 * Values live in memory of the run and are never changed once made, so they may share elements.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "rt.h"

static int64_t fail(TccContext *ctx, const char *what)
{
	tcc_fail(&ctx->err, TCC_BAD_DATA, "%s", what);
	ctx->run.status = ctx->err.code;
	return 0;
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
		return fail(ctx, "a tensor's size is negative or overflows");
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
		return fail(ctx, "a value is not the tensor that the model expects there");
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
		fail(ctx, "a position is outside of its sequence");
		return NULL;
	}
	return &v->u.seq.items[pos];
}

static int64_t axis_of(TccContext *ctx, const TccValue *v, int64_t axis)
{
	if (!v)
		return 0;
	if (v->kind != TCC_TENSOR || axis < 0 || axis >= v->u.tensor.ndim)
		return fail(ctx, "a value has another rank than the model expects");
	return v->u.tensor.shape[axis];
}

static int64_t do_seq_new(TccContext *ctx, const int64_t *a)
{
	new_sequence(ctx, a[0], (uint32_t)a[1], 0);
	return 0;
}

static int64_t do_seq_len(TccContext *ctx, const int64_t *a)
{
	const TccValue *v = value_of(ctx, a[0]);
	return v->kind == TCC_SEQUENCE ? (int64_t)v->u.seq.n : 0;
}

static int64_t do_seq_insert(TccContext *ctx, const int64_t *a)
{
	const TccValue *old = value_of(ctx, a[1]);
	int64_t n = old->kind == TCC_SEQUENCE ? (int64_t)old->u.seq.n : 0, pos = a[2];
	if (pos < 0)
		pos += n;
	if (pos < 0 || pos > n)
		return fail(ctx, "a position is outside of its sequence");
	TccValue *v = new_sequence(ctx, a[0], ctx->inst->buffers[a[3]].dtype, n + 1);
	if (!v || !snapshot(ctx, &v->u.seq.items[pos], a[3], a[4], a + 5))
		return 0;
	if (pos)
		memcpy(v->u.seq.items, old->u.seq.items, pos * sizeof *v);
	if (n > pos)
		memcpy(v->u.seq.items + pos + 1, old->u.seq.items + pos, (n - pos) * sizeof *v);
	return 0;
}

static int64_t do_seq_erase(TccContext *ctx, const int64_t *a)
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

static int64_t do_seq_rank(TccContext *ctx, const int64_t *a)
{
	const TccValue *v = element(ctx, a[0], a[1]);
	return v && v->kind == TCC_TENSOR ? v->u.tensor.ndim : 0;
}

static int64_t do_seq_dim(TccContext *ctx, const int64_t *a)
{
	return axis_of(ctx, element(ctx, a[0], a[1]), a[2]);
}

static int64_t do_seq_at(TccContext *ctx, const int64_t *a)
{
	const TccValue *v = element(ctx, a[1], a[2]);
	return v ? view(ctx, a[0], v) : 0;
}

static int64_t do_value_none(TccContext *ctx, const int64_t *a)
{
	ctx->slots[a[0]].value = NULL;
	return 0;
}

static int64_t do_value_has(TccContext *ctx, const int64_t *a)
{
	return value_of(ctx, a[0])->kind != TCC_NONE;
}

static int64_t do_value_move(TccContext *ctx, const int64_t *a)
{
	ctx->slots[a[0]].value = ctx->slots[a[1]].value;
	return 0;
}

static int64_t do_value_wrap(TccContext *ctx, const int64_t *a)
{
	TccValue *v = new_value(ctx, a[0]);
	if (v)
		snapshot(ctx, v, a[1], a[2], a + 3);
	return 0;
}

static int64_t do_value_rank(TccContext *ctx, const int64_t *a)
{
	const TccValue *v = value_of(ctx, a[0]);
	return v->kind == TCC_TENSOR ? v->u.tensor.ndim : 0;
}

static int64_t do_value_dim(TccContext *ctx, const int64_t *a)
{
	return axis_of(ctx, value_of(ctx, a[0]), a[1]);
}

static int64_t do_value_get(TccContext *ctx, const int64_t *a)
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

static int64_t do_zipmap(TccContext *ctx, const int64_t *a)
{
	const TccBuffer *b = ctx->inst->buffers;
	uint32_t dtype = b[a[2]].dtype;
	const TccSlot *scores = &ctx->slots[a[2]];
	int64_t n = a[3], dims[] = {n, a[4]}, *len = tcc_run_alloc(ctx, sizeof *len, true);
	uint64_t bytes, row;
	if (!tcc_tensor_size(dtype, 2, dims, NULL, &bytes))
		return fail(ctx, "a map's size is negative or overflows");
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

/* --- strings ----------------------------------------------------------------------------- */

static const TccStr *strings(const TccContext *ctx, int64_t buffer)
{
	return (const TccStr *)(const void *)ctx->slots[buffer].p;
}

static bool equal(TccStr a, TccStr b)
{
	return a.size == b.size && !(a.size && memcmp(a.data, b.data, a.size));
}

/* Puts a result made on the host into dst. */
static int64_t deliver(TccContext *ctx, int64_t dst, const void *from, uint64_t bytes)
{
	const TccSlot *s = &ctx->slots[dst];
	if (from)
		tcc_move(ctx, s->p, s->host, from, true, bytes);
	return 0;
}

static int64_t do_str_equal(TccContext *ctx, const int64_t *a)
{
	const TccStr *x = strings(ctx, a[1]), *y = strings(ctx, a[3]);
	uint8_t *r = tcc_run_alloc(ctx, a[5], true);
	for (int64_t i = 0; r && i < a[5]; i++)
		r[i] = equal(x[i * a[2]], y[i * a[4]]);
	return deliver(ctx, a[0], r, a[5]);
}

static int64_t do_str_concat(TccContext *ctx, const int64_t *a)
{
	const TccStr *x = strings(ctx, a[1]), *y = strings(ctx, a[3]);
	uint64_t bytes = 0;
	if (tcc_slot_fit(ctx, a[0], a[5] * sizeof *x))
		return 0;
	for (int64_t i = 0; i < a[5]; i++)
		bytes += x[i * a[2]].size + y[i * a[4]].size;
	char *to = tcc_run_alloc(ctx, bytes, true);
	TccStr *r = (TccStr *)(void *)ctx->slots[a[0]].p;
	for (int64_t i = 0; to && i < a[5]; i++) {
		TccStr p = x[i * a[2]], q = y[i * a[4]];
		r[i] = (TccStr){to, p.size + q.size};
		if (p.size)
			memcpy(to, p.data, p.size);
		if (q.size)
			memcpy(to + p.size, q.data, q.size);
		to += r[i].size;
	}
	return 0;
}

/* What a kernel left in a buffer, where the host can read it; NULL after an error. */
static const void *on_host(TccContext *ctx, int64_t buffer, uint64_t bytes)
{
	const TccSlot *s = &ctx->slots[buffer];
	void *copy;
	if (s->host)
		return s->p;
	copy = tcc_run_alloc(ctx, bytes, true);
	return copy && !tcc_move(ctx, copy, true, s->p, false, bytes) ? copy : NULL;
}

static int64_t do_str_where(TccContext *ctx, const int64_t *a)
{
	const TccStr *x = strings(ctx, a[3]), *y = strings(ctx, a[5]);
	const uint8_t *c = on_host(ctx, a[1], a[2] ? a[7] : 1);
	if (!c || tcc_slot_fit(ctx, a[0], a[7] * sizeof *x))
		return 0;
	TccStr *r = (TccStr *)(void *)ctx->slots[a[0]].p;
	for (int64_t i = 0; i < a[7]; i++)
		r[i] = c[i * a[2]] ? x[i * a[4]] : y[i * a[6]];
	return 0;
}

static int64_t do_str_take(TccContext *ctx, const int64_t *a)
{
	const TccStr *x = strings(ctx, a[1]);
	const int64_t *at = on_host(ctx, a[3], a[4] * sizeof *at);
	if (!at || tcc_slot_fit(ctx, a[0], a[4] * sizeof *x))
		return 0;
	TccStr *r = (TccStr *)(void *)ctx->slots[a[0]].p;
	for (int64_t i = 0; i < a[4]; i++)
		r[i] = at[i] >= 0 && at[i] < a[2] ? x[at[i]] : (TccStr){0};
	return 0;
}

static uint64_t hash_str(TccStr s)
{
	uint64_t h = 0xcbf29ce484222325;
	for (uint64_t i = 0; i < s.size; i++)
		h = (h ^ (uint8_t)s.data[i]) * 0x100000001b3;
	return h ^ h >> 29;
}

static int64_t do_str_find(TccContext *ctx, const int64_t *a)
{
	const TccStr *x = strings(ctx, a[1]), *t = strings(ctx, a[3]);
	int64_t n = a[2], m = a[4];
	uint64_t size = 8;
	while (size < 2 * (uint64_t)m)
		size *= 2;
	int64_t *r = tcc_run_alloc(ctx, n * sizeof *r, true);
	int64_t *table = tcc_run_alloc(ctx, size * sizeof *table, true);  /* 1 + place, 0: empty */
	if (!r || !table)
		return 0;
	for (int64_t i = 0; i < m; i++) {
		uint64_t h = hash_str(t[i]) & (size - 1);
		while (table[h] && !equal(t[table[h] - 1], t[i]))
			h = (h + 1) & (size - 1);
		if (!table[h])
			table[h] = i + 1;
	}
	for (int64_t i = 0; i < n; i++) {
		uint64_t h = hash_str(x[i]) & (size - 1);
		while (table[h] && !equal(t[table[h] - 1], x[i]))
			h = (h + 1) & (size - 1);
		r[i] = table[h] - 1;
	}
	return deliver(ctx, a[0], r, n * sizeof *r);
}

/* Number syntax must not follow the program's locale. Returns what to give to c_locale_end. */
typedef struct Locale {
	locale_t c, old;
} Locale;

static Locale c_locale_begin(void)
{
	Locale l = {.c = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
	if (l.c)
		l.old = uselocale(l.c);
	return l;
}

static void c_locale_end(Locale l)
{
	if (l.c) {
		uselocale(l.old);
		freelocale(l.c);
	}
}

static bool parse(TccStr s, uint32_t dtype, void *to)
{
	char buf[400], *end;
	if (s.size >= sizeof buf || !s.size)
		return false;
	memcpy(buf, s.data, s.size);
	buf[s.size] = 0;
	switch (dtype) {
	case TCC_F32: *(float *)to = strtof(buf, &end); break;
	case TCC_F64: *(double *)to = strtod(buf, &end); break;
	case TCC_I64: *(int64_t *)to = strtoll(buf, &end, 10); break;
	default: return false;
	}
	return end != buf && !*end;
}

static int64_t do_str_parse(TccContext *ctx, const int64_t *a)
{
	uint32_t dtype = ctx->inst->buffers[a[0]].dtype;
	uint64_t size = tcc_dtype_bits(dtype) / 8;
	const TccStr *x = strings(ctx, a[1]);
	uint8_t *r = tcc_run_alloc(ctx, a[2] * size, true);
	bool ok = r;
	Locale l = c_locale_begin();
	for (int64_t i = 0; ok && i < a[2]; i++)
		ok = parse(x[i], dtype, r + i * size);
	c_locale_end(l);
	if (r && !ok)
		return fail(ctx, "a string is not a number");
	return deliver(ctx, a[0], r, a[2] * size);
}

/* The shortest digits that read back as v, laid out as Python does. */
static int format_float(char *buf, size_t size, double v, bool single)
{
	char e[40];
	int digits = 0, exponent;
	if (isnan(v) || isinf(v))
		return snprintf(buf, size, "%s", isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
	do
		snprintf(e, sizeof e, "%.*e", digits, v);
	while (++digits < 18 && (single ? strtof(e, NULL) != (float)v : strtod(e, NULL) != v));
	exponent = atoi(strchr(e, 'e') + 1);
	if (exponent < -4 || exponent >= 16)
		return snprintf(buf, size, "%s", e);
	int places = digits - 1 - exponent;
	return snprintf(buf, size, "%.*f", places < 1 ? 1 : places, v);
}

static int format(char *buf, size_t size, uint32_t dtype, const void *data, int64_t i)
{
	if (dtype == TCC_BOOL)
		return snprintf(buf, size, "%s", ((const uint8_t *)data)[i] ? "True" : "False");
	if (dtype == TCC_U64)
		return snprintf(buf, size, "%" PRIu64, ((const uint64_t *)data)[i]);
	double v = tcc_element(dtype, data, i);
	TccDtypeInfo info = {0};
	tcc_dtype_info(dtype, &info);
	bool integer = info.code <= 1;
	return integer ? snprintf(buf, size, "%" PRId64, tcc_element_int(dtype, data, i))
	               : format_float(buf, size, v, dtype != TCC_F64);
}

static int64_t do_str_format(TccContext *ctx, const int64_t *a)
{
	const TccSlot *s = &ctx->slots[a[1]];
	uint32_t dtype = ctx->inst->buffers[a[1]].dtype;
	uint64_t bytes = (a[2] * (uint64_t)tcc_dtype_bits(dtype) + 7) / 8;
	void *data = s->host ? s->p : tcc_run_alloc(ctx, bytes, true);
	if (!data || tcc_slot_fit(ctx, a[0], a[2] * sizeof(TccStr)))
		return 0;
	if (!s->host && tcc_move(ctx, data, true, s->p, false, bytes))
		return 0;
	TccStr *r = (TccStr *)(void *)ctx->slots[a[0]].p;
	Locale l = c_locale_begin();
	for (int64_t i = 0; i < a[2]; i++) {
		char buf[64];
		int n = format(buf, sizeof buf, dtype, data, i);
		char *to = tcc_run_alloc(ctx, n, true);
		if (!to)
			break;
		memcpy(to, buf, n);
		r[i] = (TccStr){to, n};
	}
	c_locale_end(l);
	return 0;
}

/* --- the table --------------------------------------------------------------------------- */

static int64_t (*const routines[])(TccContext *, const int64_t *) = {
#define ROUTINE(name, args) [TCC_HOST_##name] = do_##name,
	TCC_HOST(ROUTINE)
#undef ROUTINE
};

int64_t tcc_host_call(TccContext *ctx, int64_t fn, const int64_t *args)
{
	if (fn < 0 || fn >= TCC_NHOST)
		return fail(ctx, "the model calls a routine that this runtime does not have");
	int64_t v = routines[fn](ctx, args);
	return ctx->run.status ? 0 : v;
}
