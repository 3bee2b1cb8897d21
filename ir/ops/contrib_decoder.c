/* com.microsoft: attention of decoders with beams and caches. */
#include <math.h>
#include <string.h>
#include "attention.h"

/* ---- DecoderMaskedMultiHeadAttention --------------------------------------------------------- */

/*
 * One new token of each row. Rows are beams of sequences: where `from` [sequences, beams, places]
 * is given, it names the beam whose cache holds a place's key. P: places in the cache that count,
 * NULL: all of them.
 */
typedef struct Decoder {
	Node *past[2], *length, *from; /* keys and values [B, N, T, H]; operands, or NULL */
	bool shared;                   /* the new key is put into the cache, at place length */
	Node *P, *beams;
} Decoder;

/* The new key or value [B, N, 1, H] behind those in the cache. */
static Node *
decoder_keys(Build *b, const Decoder *d, Node *past, Node *new)
{
	Module *m = b->m;
	Node *P = d->P ? d->P : past ? dim_of(past, 2) : x_idx(m, 0), *ax[4], *at[4], *e, *row;

	axes_new(m, 4, (Node *[]){dim_of(new, 0), dim_of(new, 1), x_addi(m, P, 1), dim_of(new, 3)}, ax);
	memcpy(at, ax, sizeof at);
	at[2] = x_idx(m, 0);
	e = x_read(m, new, at);
	if (!past)
		return t_tensor(m, 4, ax, e);
	at[2] = ax[2];
	if (d->from) {
		row = x_fdiv(m, ax[0], d->beams);
		at[0] = x_cast(m, DT_INDEX,
			x_read(m, d->from, (Node *[]){row, x_mod(m, ax[0], d->beams), ax[2]}));
		at[0] = x2(m, O_BOUND, x_add(m, x_mul(m, row, d->beams), at[0]), dim_of(past, 0));
	}
	return t_tensor(m, 4, ax, x_select(m, x_lt(m, ax[2], P), x_read(m, past, at), e));
}

/* The cache with the new key at place P. */
static Node *
decoder_cache(Module *m, Node *P, Node *past, Node *new)
{
	Node *ax[4], *at[4];

	axes_new(m, 4, past->type->dims, ax);
	memcpy(at, ax, sizeof at);
	at[2] = x_idx(m, 0);
	return t_tensor(m, 4, ax,
		x_select(m, x_eq(m, ax[2], P), x_read(m, new, at), x_read(m, past, ax)));
}

/* a's keys and values, so far the new ones, become those of the cache and the new ones. */
static bool
decoder_self(Build *b, Decoder *d, Att *a)
{
	Module *m = b->m;
	Node **past = d->past;
	int i;

	for (i = 0; i < 2; i++) {
		if (past[i] && rank_of(past[i]) != 4)
			return fail(b, "a past has %d dimensions, must have 4", rank_of(past[i])) != NULL;
		if (past[i])
			expect_shape(b, "a past", past[i], 4,
				(Node *[]){dim_of(a->q, 0), dim_of(a->q, 1), dim_of(past[0], 2),
				dim_of(i ? a->v : a->q, 3)});
	}
	if (!past[0] != !past[1] || (d->shared && (!past[0] || !d->length)))
		return fail(b, "past_key, past_value and, for shared buffers, past_sequence_length"
			" go together") != NULL;
	if (d->shared) {
		d->P = extent(m, x_cast(m, DT_INDEX, scalar_arg(m, d->length)));
		require(m, x_lt(m, d->P, dim_of(past[0], 2)), b->loc,
			"%s places of a cache of %s are taken", expr_print(m, d->P),
			expr_print(m, dim_of(past[0], 2)));
	}
	if (d->from) {
		if (rank_of(d->from) != 3)
			return fail(b, "cache_indirection has %d dimensions, must have 3",
				rank_of(d->from)) != NULL;
		d->beams = dim_of(d->from, 1);
		expect_dim(b, "the rows", dim_of(a->q, 0), x_mul(m, dim_of(d->from, 0), d->beams),
			false);
	}
	a->k = decoder_keys(b, d, past[0], a->k);
	a->v = decoder_keys(b, d, past[1], a->v);
	return true;
}

static Node *
build_decoder_masked(Build *b)
{
	Module *m = b->m;
	Node **in = b->in, *size, *dq, *dv, *new[2], *out[4] = {NULL}, *k = in[1] ? in[1] : in[0],
		*v = in[2] ? in[2] : in[0], *n;
	int64_t heads = head_count(b, "num_heads");
	Att a = {.b = b, .softmax = dtype_of(in[0]), .scale = attr_float(b, "scale")};
	Decoder d = {.past = {in[5], in[6]}, .length = in[7], .from = in[9],
		.shared = attr_int(b, "past_present_share_buffer") != 0};
	Mask mask;
	int i;

	if (!heads || !mask_args(b, &mask, in[3], in[4]))
		return NULL;
	n = x_idx(m, heads);
	if (rank_of(in[0]) != 3 || !in[1] != !in[2] || (in[1] && rank_of(in[1]) != rank_of(in[2]))
	 || (rank_of(k) != 3 && rank_of(k) != 4) || (in[10] && rank_of(in[10]) != 1))
		return fail(b, "query, key, value or bias have unfit dimensions");
	expect_dim(b, "the sequence", dim_of(in[0], 1), x_idx(m, 1), false);
	dq = in[1] ? dim_of(in[0], 2) : x_fdiv(m, dim_of(in[0], 2), x_idx(m, 3));
	size = x_fdiv(m, dq, n);
	require(m, x_eq(m, x_muli(m, size, heads), dq), b->loc, "%s columns for %lld heads",
		expr_print(m, dq), (long long)heads);
	a.q = biased_columns(b, in[0], in[10], heads, x_idx(m, 0), x_idx(m, 0), size);
	if (rank_of(k) == 4) {
		a.k = k;
		a.v = v;
	} else {
		dv = in[2] ? dim_of(in[2], 2) : dq;
		a.k = biased_columns(b, k, in[10], heads, in[1] ? x_idx(m, 0) : dq, dq, size);
		a.v = biased_columns(b, v, in[10], heads, in[2] ? x_idx(m, 0) : x_muli(m, dq, 2),
			x_muli(m, dq, 2), x_fdiv(m, dv, n));
		new[0] = a.k;
		new[1] = a.v;
		if (!decoder_self(b, &d, &a))
			return NULL;
		for (i = 0; i < 2; i++)
			out[1 + i] = d.shared ? decoder_cache(m, d.P, d.past[i], new[i]) : i ? a.v : a.k;
	}
	use_mask(&a, &mask);
	if (!attention(&a))
		return NULL;
	out[0] = join_heads(m, &a, true);
	out[3] = ungroup(m, a.biased);
	return t_tuple(m, 4, out);
}

/* ---- DecoderMaskedSelfAttention -------------------------------------------------------------- */

/*
 * Keys of the cache [2, B, N, T, H] lie in memory as [B, N, H / x, T, x], x elements being 16
 * bytes: key t's element h has place (h / x, t, h % x), counted through the T * H of a head.
 */
static int64_t
key_block(DType d)
{
	return 128 / dtypes[d].bits;
}

static Node *
blocked_keys(Module *m, Node *past)
{
	Node *ax[4], *at[5], *x = x_idx(m, key_block(dtype_of(past))), *T = dim_of(past, 3),
		*H = dim_of(past, 4), *place;

	axes_new(m, 4, past->type->dims + 1, ax);
	place = x_add(m, x_mul(m, x_fdiv(m, ax[3], x), T), ax[2]);
	place = x_add(m, x_mul(m, place, x), x_mod(m, ax[3], x));
	at[0] = x_idx(m, 0);
	at[1] = ax[0];
	at[2] = ax[1];
	at[3] = x_fdiv(m, place, H);
	at[4] = x_mod(m, place, H);
	return t_tensor(m, 4, ax, x_read(m, past, at));
}

static Node *
plain_values(Module *m, Node *past)
{
	Node *ax[4];

	axes_new(m, 4, past->type->dims + 1, ax);
	return t_tensor(m, 4, ax,
		x_read(m, past, (Node *[]){x_idx(m, 1), ax[0], ax[1], ax[2], ax[3]}));
}

/* The cache with the new key and value [B, N, 1, H] at place P. */
static Node *
blocked_cache(Module *m, Node *P, Node *past, Node *k, Node *v)
{
	Node *ax[5], *x = x_idx(m, key_block(dtype_of(past))), *T = dim_of(past, 3), *place, *is_key,
		*t, *h, *e;

	axes_new(m, 5, past->type->dims, ax);
	place = x_add(m, x_mul(m, ax[3], dim_of(past, 4)), ax[4]);
	h = x_mul(m, x_fdiv(m, place, x_mul(m, T, x)), x);
	h = x_add(m, h, x_mod(m, place, x));
	t = x_mod(m, x_fdiv(m, place, x), T);
	is_key = x_eq(m, ax[0], x_idx(m, 0));
	e = x_select(m, is_key, x_read(m, k, (Node *[]){ax[1], ax[2], x_idx(m, 0), h}),
		x_read(m, v, (Node *[]){ax[1], ax[2], x_idx(m, 0), ax[4]}));
	return t_tensor(m, 5, ax, x_select(m, x_eq(m, x_select(m, is_key, t, ax[3]), P), e,
		x_read(m, past, ax)));
}

static Node *
build_decoder_self(Build *b)
{
	Module *m = b->m;
	Node **in = b->in, *x = call2(b, "add", call2(b, "matmul", in[0], in[1]), in[2]), *past = in[4],
		*D, *size, *new[2], *out[2];
	int64_t heads = head_count(b, "num_heads"), block = key_block(dtype_of(in[0]));
	Att a = {.b = b, .softmax = dtype_of(in[0]), .scale = attr_float(b, "scale")};
	Decoder d = {.length = in[6], .from = in[8], .shared = true};
	Mask mask;

	if (!x || !heads || !mask_args(b, &mask, in[3], in[5]))
		return NULL;
	if (rank_of(x) != 3 || rank_of(past) != 5)
		return fail(b, "the projection has %d dimensions, past %d, must have 3 and 5", rank_of(x),
			rank_of(past));
	if (!attr_int(b, "past_present_share_buffer") || attr_int(b, "do_rotary"))
		return unsupported(b, "past and present in different buffers, and rotary embeddings");
	expect_dim(b, "the sequence", dim_of(x, 1), x_idx(m, 1), false);
	D = x_fdiv(m, dim_of(x, 2), x_idx(m, 3));
	size = x_fdiv(m, D, x_idx(m, heads));
	require(m, x_and(m, x_eq(m, x_muli(m, size, 3 * heads), dim_of(x, 2)),
		x_eq(m, x_mod(m, size, x_idx(m, block)), x_idx(m, 0))), b->loc,
		"%s columns for %lld heads of whole 16 bytes", expr_print(m, dim_of(x, 2)),
		(long long)heads);
	expect_dim(b, "past", dim_of(past, 0), x_idx(m, 2), false);
	expect_dim(b, "past", dim_of(past, 4), size, false);
	a.q = split_heads(b, x, heads, x_idx(m, 0), size);
	a.k = new[0] = split_heads(b, x, heads, D, size);
	a.v = new[1] = split_heads(b, x, heads, x_muli(m, D, 2), size);
	d.past[0] = blocked_keys(m, past);
	d.past[1] = plain_values(m, past);
	if (!decoder_self(b, &d, &a))
		return NULL;
	use_mask(&a, &mask);
	if (!attention(&a))
		return NULL;
	out[0] = join_heads(m, &a, true);
	out[1] = blocked_cache(m, d.P, past, new[0], new[1]);
	return t_tuple(m, 2, out);
}

/* ---- DecoderAttention ------------------------------------------------------------------------ */

/* Flags that a run may know only: of cross attention, and whether the cache is used. */
typedef struct Flags { Node *cross, *cached, *masked; } Flags;

/* What keys and values are projected from, [T, B, D]: the key, or, without cross, the query. */
static Node *
decoder_source(Build *b, const Flags *f)
{
	Module *m = b->m;
	Node **in = b->in, *ax[3];

	ax[0] = x_axis(m, x_select(m, f->cross, dim_of(in[1], 0), dim_of(in[0], 0)));
	ax[1] = x_axis(m, dim_of(in[0], 1));
	ax[2] = x_axis(m, dim_of(in[0], 2));
	return t_tensor(m, 3, ax, x_select(m, f->cross, x_read(m, in[1], ax), x_read(m, in[0], ax)));
}

/* Keys or values [B, N, T, H]: the cache's, the new ones behind them, or the new ones. */
static Node *
decoder_side(Build *b, const Flags *f, Node *cache, Node *new)
{
	Module *m = b->m;
	Node *past, *ax[4], *at[4], *T;

	if (!cache)
		return new;
	past = x_select(m, f->cached, dim_of(cache, 2), x_idx(m, 0));
	T = x_select(m, x_and(m, f->cached, f->cross), past, x_add(m, past, dim_of(new, 2)));
	axes_new(m, 4, (Node *[]){dim_of(new, 0), dim_of(new, 1), T, dim_of(new, 3)}, ax);
	memcpy(at, ax, sizeof at);
	at[2] = x_sub(m, ax[2], past);
	return t_tensor(m, 4, ax, x_select(m, x_lt(m, ax[2], past), x_read(m, cache, ax),
		x_read(m, new, at)));
}

/* The filter value where a key is padding. */
static Node *
padding_bias(Att *a, Node *n, Node *h, Node *i, Node *j)
{
	Module *m = a->b->m;
	Flags *f = a->arg;
	DType d = dtype_of(a->q);
	Node *hide = x_read(m, a->b->in[5], (Node *[]){n, j});

	(void)h, (void)i;
	return x_select(m, x_and(m, f->masked, hide),
		x_flt(m, d, attr_float(a->b, "mask_filter_value")), x_int(m, d, 0));
}

static bool
decoder_args(Build *b, int64_t heads)
{
	Module *m = b->m;
	Node **in = b->in, *B = dim_of(in[0], 1), *D = dim_of(in[0], 2), *N = x_idx(m, heads);
	int i;

	expect_dim(b, "the key", dim_of(in[1], 1), B, false);
	expect_dim(b, "the key", dim_of(in[1], 2), D, false);
	expect_shape(b, "q_weight", in[2], 2, (Node *[]){D, D});
	expect_shape(b, "kv_weight", in[3], 2, (Node *[]){D, x_muli(m, D, 2)});
	expect_dim(b, "the bias", dim_of(in[4], 0), x_muli(m, D, 3), false);
	require(m, x_eq(m, x_mod(m, D, N), x_idx(m, 0)), b->loc, "%s columns for %lld heads",
		expr_print(m, D), (long long)heads);
	for (i = 6; i < 8 && in[i]; i++)
		expect_shape(b, "a cache", in[i], 4,
			(Node *[]){B, N, dim_of(in[6], 2), x_fdiv(m, D, N)});
	return true;
}

static Node *
build_decoder_attention(Build *b)
{
	static const int ranks[] = {3, 3, 2, 2, 1, 2, 4, 4};
	static const char perm[] = "perm=[1, 0, 2]";
	Module *m = b->m;
	Node **in = b->in, *q, *kv, *D, *size, *y, *out[3], *zero = x_idx(m, 0);
	int64_t heads = head_count(b, "num_heads");
	Flags f = {.cross = scalar_arg(m, in[8]), .masked = scalar_arg(m, in[11])};
	Att a = {.b = b, .softmax = dtype_of(in[0]), .arg = &f};
	int i;

	for (i = 0; i < 8; i++)
		if (in[i] && rank_of(in[i]) != ranks[i])
			return fail(b, "operand %d has %d dimensions, must have %d", i, rank_of(in[i]),
				ranks[i]);
	if (!heads || !decoder_args(b, heads))
		return NULL;
	f.cached = x_and(m, scalar_arg(m, in[9]), scalar_arg(m, in[10]));
	if (!in[6] || !in[7])
		require(m, x_not(m, f.cached), b->loc, "use_past needs key_cache and value_cache");
	D = dim_of(in[0], 2);
	size = x_fdiv(m, D, x_idx(m, heads));
	q = call(b, "transpose", 1, (Node *[]){call2(b, "matmul", in[0], in[2])}, perm);
	kv = call(b, "transpose", 1,
		(Node *[]){call2(b, "matmul", decoder_source(b, &f), in[3])}, perm);
	if (!q || !kv)
		return NULL;
	a.q = biased_columns(b, q, in[4], heads, zero, zero, size);
	a.k = biased_columns(b, kv, in[4], heads, zero, D, size);
	a.v = biased_columns(b, kv, in[4], heads, D, x_muli(m, D, 2), size);
	out[1] = a.k = decoder_side(b, &f, in[7] ? in[6] : NULL, a.k);
	out[2] = a.v = decoder_side(b, &f, in[6] ? in[7] : NULL, a.v);
	if (in[5]) {
		require(m, x_or(m, x_not(m, f.masked), x_and(m, x_eq(m, dim_of(in[5], 0), dim_of(q, 0)),
			x_eq(m, dim_of(in[5], 1), dim_of(a.k, 2)))), b->loc,
			"key_padding_mask is for %s keys of %s", expr_print(m, dim_of(in[5], 1)),
			expr_print(m, dim_of(a.k, 2)));
		a.bias = padding_bias;
	} else
		require(m, x_not(m, f.masked), b->loc, "there is no key_padding_mask");
	if (!attention(&a))
		return NULL;
	y = join_heads(m, &a, true);
	out[0] = call(b, "transpose", 1, &y, perm);
	return out[0] ? t_tuple(m, 3, out) : NULL;
}

/* ---- LongformerAttention --------------------------------------------------------------------- */

/* What a query sees: `reach` keys on each side and the global ones, or all keys. */
typedef struct Windows { int64_t reach; bool all; } Windows;

static Node *
window_bias(Att *a, Node *n, Node *h, Node *i, Node *j)
{
	Module *m = a->b->m;
	Windows *w = a->arg;
	Node *at[2] = {n, j}, *e = x_read(m, a->b->in[3], at), *global, *near;

	(void)h;
	if (w->all)
		return e;
	global = x_lt(m, x_int(m, DT_I32, 0), x_read(m, a->b->in[6], at));
	near = x_and(m, x_le(m, x_addi(m, i, -w->reach), j), x_le(m, j, x_addi(m, i, w->reach)));
	return x_select(m, x_or(m, near, global), e, x_flt(m, dtype_of(a->q), -INFINITY));
}

/* Attention with the projection x w + bias of [D, 3 D]: [B, S, D]. */
static Node *
window_attention(Build *b, Windows *w, int64_t heads, Node *weight, Node *bias)
{
	Module *m = b->m;
	Node *x = call2(b, "add", call2(b, "matmul", b->in[0], weight), bias), *D, *size;
	Att a = {.b = b, .softmax = dtype_of(b->in[0]), .bias = window_bias, .arg = w};

	if (!x)
		return NULL;
	D = dim_of(b->in[0], 2);
	size = x_fdiv(m, D, x_idx(m, heads));
	a.q = split_heads(b, x, heads, x_idx(m, 0), size);
	a.k = split_heads(b, x, heads, D, size);
	a.v = split_heads(b, x, heads, x_muli(m, D, 2), size);
	return attention(&a) ? join_heads(m, &a, true) : NULL;
}

static Node *
build_longformer(Build *b)
{
	static const int ranks[] = {3, 2, 1, 2, 2, 1, 2};
	Module *m = b->m;
	Node **in = b->in, *B, *S, *D, *near, *all, *ax[3], *e;
	int64_t heads = head_count(b, "num_heads"), reach = attr_int(b, "window");
	int i;

	for (i = 0; i < 7; i++)
		if (rank_of(in[i]) != ranks[i])
			return fail(b, "operand %d has %d dimensions, must have %d", i, rank_of(in[i]),
				ranks[i]);
	if (!heads)
		return NULL;
	if (reach < 1 || reach > 1 << 30)
		return fail(b, "window is %lld", (long long)reach);
	B = dim_of(in[0], 0);
	S = dim_of(in[0], 1);
	D = dim_of(in[0], 2);
	require(m, x_eq(m, x_mod(m, D, x_idx(m, heads)), x_idx(m, 0)), b->loc,
		"%s columns for %lld heads", expr_print(m, D), (long long)heads);
	for (i = 1; i < 5; i += 3) {
		expect_shape(b, "the weights", in[i], 2, (Node *[]){D, x_muli(m, D, 3)});
		expect_dim(b, "the bias", dim_of(in[i + 1], 0), x_muli(m, D, 3), false);
	}
	expect_shape(b, "the mask", in[3], 2, (Node *[]){B, S});
	expect_shape(b, "the global flags", in[6], 2, (Node *[]){B, S});
	near = window_attention(b, &(Windows){.reach = reach}, heads, in[1], in[2]);
	all = window_attention(b, &(Windows){.all = true}, heads, in[4], in[5]);
	if (!near || !all)
		return NULL;
	axes_new(m, 3, near->type->dims, ax);
	e = x_lt(m, x_int(m, DT_I32, 0), x_read(m, in[6], ax));
	return t_tensor(m, 3, ax, x_select(m, e, x_read(m, all, ax), x_read(m, near, ax)));
}

const Op ops_contrib_decoder[] = {
	BUILD("decoder_masked_multi_head_attention", MS("DecoderMaskedMultiHeadAttention"), 1,
	"(q: float, k: q?, v: q?,"
		" mask_index: i32?, attention_bias: q?, past_key: q?, past_value: q?, past_length: i32?,"
		" beam_width: i32?, cache_indirection: i32?, bias: q?) {mask_filter_value: float = -10000,"
		" num_heads: int, output_qk: int = 0, past_present_share_buffer: int = 0, scale: float = 0}"
		" -> y, present_key?, present_value?, qk?",
		build_decoder_masked, "attention of one new token a row, with beams"),
	BUILD("decoder_masked_self_attention", MS("DecoderMaskedSelfAttention"), 1,
		"(x: float, w: x, bias: x, mask_index: i32?, past: x, attention_bias: x?,"
		" past_length: i32, beam_width: i32?, cache_indirection: i32?) {do_rotary: int = 0,"
		" mask_filter_value: float = -10000, num_heads: int, past_present_share_buffer: int = 0,"
		" scale: float = 0} -> y, present", build_decoder_self,
		"attention of one new token with its projection, keys in blocks"),
	BUILD("decoder_attention", MS("DecoderAttention"), 1,
		"(q: float, k: q, q_weight: q, kv_weight: q, bias: q, key_padding_mask: bool?,"
		" key_cache: q?, value_cache: q?, static_kv: bool, use_past: bool,"
		" has_layer_state: bool, has_key_padding_mask: bool)"
		" {mask_filter_value: float = -10000, num_heads: int} -> y, new_key?, new_value?",
		build_decoder_attention, "self or cross attention with projections, sequence first"),
	BUILD("longformer_attention", MS("LongformerAttention"), 1,
		"(x: float, w: x, bias: x, mask: x, global_w: x, global_bias: x, global: i32)"
		" {num_heads: int, window: int} -> y", build_longformer,
		"attention to near and to global tokens"),
	{0}
};
