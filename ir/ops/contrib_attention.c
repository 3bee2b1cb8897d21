/* com.microsoft: attention of projected operands, and with the projection. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "attention.h"

/* ---- projections ----------------------------------------------------------------------------- */

Node *
biased_columns(Build *b, Node *x, Node *bias, int64_t heads, Node *first, Node *bias_from,
	Node *size)
{
	Module *m = b->m;
	Node *y = split_heads(b, x, heads, first, size), *ax[4], *col;

	if (!bias)
		return y;
	axes_new(m, 4, y->type->dims, ax);
	col = x_add(m, x_add(m, x_mul(m, ax[1], size), ax[3]), bias_from);
	return t_tensor(m, 4, ax, x_add(m, x_read(m, y, ax), x_read(m, bias, &col)));
}

static Node *
biased_heads(Build *b, Node *x, Node *bias, int64_t heads, Node *bias_from, Node *size)
{
	return biased_columns(b, x, bias, heads, x_idx(b->m, 0), bias_from, size);
}

/* ---- masks ----------------------------------------------------------------------------------- */

typedef struct Mask {
	Node *mask, *bias, *past;      /* past: keys before this call's, an index */
	bool causal;
	double filter;
} Mask;

/* 0, or the filter value where the mask hides key j. Ranks:
 * 1 lengths (and starts), 2 keys, 3 pairs. */
static Node *
hidden(Att *a, Node *n, Node *i, Node *j)
{
	Module *m = a->b->m;
	Mask *k = a->arg;
	Node *t = k->mask, *zero = x_int(m, DT_F32, 0), *f = x_flt(m, DT_F32, k->filter),
		*B = dim_of(a->q, 0), *v, *at;

	if (rank_of(t) == 1) {
		v = x_lt(m, j, x_cast(m, DT_INDEX, x_read(m, t, &n)));
		if (!is_intv(x_eq(m, dim_of(t, 0), B), 1)) {    /* ends, then perhaps starts */
			at = x_sub(m, x_add(m, n, dim_of(t, 0)), B);
			at = x_cast(m, DT_INDEX, x_read(m, t, &at));
			at = x_select(m, x_eq(m, dim_of(t, 0), B), x_idx(m, 0), at);
			v = x_and(m, v, x_le(m, at, j));
		}
		return x_select(m, v, zero, f);
	}
	v = rank_of(t) == 2 ? x_read(m, t, (Node *[]){n, j}) : x_read(m, t, (Node *[]){n, i, j});
	return x_select(m, x_lt(m, x_int(m, v->type->dtype, 0), v), zero, f);
}

static Node *
mask_of(Att *a, Node *n, Node *h, Node *i, Node *j)
{
	Module *m = a->b->m;
	Mask *k = a->arg;
	DType d = dtype_of(a->q);
	Node *e = k->mask ? hidden(a, n, i, j) : NULL, *at[4] = {n, h, i, j}, *after;
	int c;

	if (k->causal) {
		after = x_lt(m, x_add(m, i, k->past), j);
		e = x_select(m, after, x_flt(m, DT_F32, -FLT_MAX), e ? e : x_int(m, DT_F32, 0));
	}
	if (e)
		e = x_cast(m, d, e);
	for (c = 0; k->bias && c < 2; c++)
		at[c] = is_intv(dim_of(k->bias, c), 1) ? x_idx(m, 0) : at[c];
	if (k->bias)
		return e ? x_add(m, x_read(m, k->bias, at), e) : x_read(m, k->bias, at);
	return e ? e : x_int(m, d, 0);
}

static bool
mask_args(Build *b, Mask *k, Node *mask, Node *bias)
{
	*k = (Mask){.mask = mask, .bias = bias, .past = x_idx(b->m, 0),
		.causal = attr_int(b, "unidirectional") != 0,
		.filter = attr_float(b, "mask_filter_value")};
	if (mask && (rank_of(mask) < 1 || rank_of(mask) > 3))
		return unsupported(b, "a mask of %d dimensions", rank_of(mask)) != NULL;
	if (bias && rank_of(bias) != 4)
		return fail(b, "the attention bias has %d dimensions, must have 4", rank_of(bias)) != NULL;
	return true;
}

/* Checks the shapes, now that operands and their past are known. */
static void
use_mask(Att *a, Mask *k)
{
	Build *b = a->b;
	Module *m = b->m;
	Node *B = dim_of(a->q, 0), *H = dim_of(a->q, 1), *S = dim_of(a->q, 2), *T = dim_of(a->k, 2), *n;
	int r = k->mask ? rank_of(k->mask) : 0;

	if (r == 1) {
		n = dim_of(k->mask, 0);
		require(m, x_or(m, x_eq(m, n, B), x_eq(m, n, x_muli(m, B, 2))), b->loc,
			"the mask has %s lengths for %s sequences",
			expr_print(m, n), expr_print(m, B));
	}
	if (r == 2)
		expect_shape(b, "the mask", k->mask, 2, (Node *[]){B, T});
	if (r == 3)
		expect_shape(b, "the mask", k->mask, 3, (Node *[]){B, S, T});
	if (k->bias) {
		expect_dim(b, "the attention bias", dim_of(k->bias, 0), B, true);
		expect_dim(b, "the attention bias", dim_of(k->bias, 1), H, true);
		expect_dim(b, "the attention bias", dim_of(k->bias, 2), S, false);
		expect_dim(b, "the attention bias", dim_of(k->bias, 3), T, false);
	}
	a->arg = k;
	if (k->mask || k->bias || k->causal)
		a->bias = mask_of;
}

int64_t
head_count(Build *b, const char *name)
{
	int64_t n = attr_int(b, name);

	if (n >= 1 && n <= 1 << 20)
		return n;
	fail(b, "%s is %lld", name, (long long)n);
	return 0;
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* Keys and values stacked: [2, B, N, T, H]; part 0 or 1. */
static Node *
stacked_part(Module *m, Node *past, int part)
{
	Node *ax[4], *idx[5];

	for (int i = 0; i < 4; i++)
		idx[i + 1] = ax[i] = x_axis(m, dim_of(past, i + 1));
	idx[0] = x_idx(m, part);
	return t_tensor(m, 4, ax, x_read(m, past, idx));
}

static Node *
stacked(Module *m, Node *k, Node *v)
{
	Node *ax[5];

	ax[0] = x_axis(m, x_idx(m, 2));
	for (int i = 0; i < 4; i++)
		ax[i + 1] = x_axis(m, dim_of(k, i));
	return t_tensor(m, 5, ax,
		x_select(m, x_eq(m, ax[0], x_idx(m, 0)), x_read(m, k, ax + 1), x_read(m, v, ax + 1)));
}

/* From the projection [B, S, D + D + DV]. */
static Node *
projected_attention(Build *b, Node *qkv, Node *mask, Node *past, Node *bias)
{
	Module *m = b->m;
	int64_t heads = head_count(b, "num_heads");
	const int64_t *sizes;
	Node *d[3], *size[3], *out[2];
	Mask k;
	Att a = {.b = b, .softmax = dtype_of(qkv), .scale = attr_float(b, "scale")};
	int n, i;

	if (!heads || !mask_args(b, &k, mask, bias))
		return NULL;
	if (attr_int(b, "do_rotary") || attr_int(b, "past_present_share_buffer"))
		return unsupported(b, "do_rotary and past_present_share_buffer");
	attr_ints(b, "qkv_hidden_sizes", &n, &sizes);
	if (n != 0 && n != 3)
		return fail(b, "qkv_hidden_sizes has %d entries, must have 3", n);
	for (i = 0; i < n; i++)
		if (sizes[i] < heads || sizes[i] > 1 << 24)
			return fail(b, "qkv_hidden_sizes has the entry %lld", (long long)sizes[i]);
	for (i = 0; i < 3; i++) {
		d[i] = n ? x_idx(m, sizes[i]) : x_fdiv(m, dim_of(qkv, 2), x_idx(m, 3));
		size[i] = x_fdiv(m, d[i], x_idx(m, heads));
		require(m, x_eq(m, x_muli(m, size[i], heads), d[i]), b->loc, "%s columns for %lld heads",
			expr_print(m, d[i]),
			(long long)heads);
	}
	require(m, x_eq(m, x_add(m, x_add(m, d[0], d[1]), d[2]), dim_of(qkv, 2)), b->loc,
		"the projection has %s columns",
		expr_print(m, dim_of(qkv, 2)));
	a.q = split_heads(b, qkv, heads, x_idx(m, 0), size[0]);
	a.k = split_heads(b, qkv, heads, d[0], size[1]);
	a.v = split_heads(b, qkv, heads, x_add(m, d[0], d[1]), size[2]);
	if (past) {
		if (rank_of(past) != 5)
			return fail(b, "past has %d dimensions, must have 5", rank_of(past));
		expect_dim(b, "past", dim_of(past, 0), x_idx(m, 2), false);
		k.past = dim_of(past, 3);
		a.k = append(m, stacked_part(m, past, 0), a.k, b->loc);
		a.v = append(m, stacked_part(m, past, 1), a.v, b->loc);
	}
	use_mask(&a, &k);
	if (!attention(&a))
		return NULL;
	out[0] = join_heads(m, &a, true);
	out[1] = stacked(m, a.k, a.v);
	return t_tuple(m, 2, out);
}

static Node *
build_ms_attention(Build *b)
{
	Node *x = call(b, "matmul", 2, b->in, NULL);

	if (x && b->in[2])
		x = call(b, "add", 2, (Node *[]){x, b->in[2]}, NULL);
	if (!x)
		return NULL;
	if (rank_of(x) != 3)
		return fail(b, "the projection has %d dimensions, must have 3", rank_of(x));
	return projected_attention(b, x, b->in[3], b->in[4], b->in[5]);
}

static Node *
build_qattention(Build *b)
{
	Node **in = b->in, *x;

	x = call(b, "matmul_integer_to_float", 7,
		(Node *[]){in[0], in[1], in[3], in[4], in[6], in[7], in[2]}, NULL);
	if (!x)
		return NULL;
	if (rank_of(x) != 3)
		return fail(b, "the projection has %d dimensions, must have 3", rank_of(x));
	return projected_attention(b, x, in[5], in[8], NULL);
}

/* ---- MultiHeadAttention ---------------------------------------------------------------------- */

static Node *
build_multi_head(Build *b)
{
	Module *m = b->m;
	Node **in = b->in, *size, *vsize, *dq, *out[4];
	int64_t heads = head_count(b, "num_heads");
	Mask k;
	Att a = {.b = b, .softmax = dtype_of(in[0]), .scale = attr_float(b, "scale")};
	Node *n = x_idx(m, heads);

	if (!heads || !mask_args(b, &k, in[4], in[5]))
		return NULL;
	if (rank_of(in[0]) != 3 || !in[1] || !in[2] || in[8] || in[9])
		return unsupported(b, "packed or shared operands; query must be [batch, sequence, hidden], key and value given");
	if (rank_of(in[1]) != rank_of(in[2]) || (rank_of(in[1]) != 3 && rank_of(in[1]) != 4))
		return unsupported(b, "key and value of %d and %d dimensions", rank_of(in[1]),
			rank_of(in[2]));
	if (!in[6] != !in[7])
		return fail(b, "past_key and past_value must be given together");
	dq = dim_of(in[0], 2);
	size = x_fdiv(m, dq, n);
	require(m, x_eq(m, x_muli(m, size, heads), dq), b->loc, "%s columns for %lld heads",
		expr_print(m, dq), (long long)heads);
	a.q = biased_heads(b, in[0], in[3], heads, x_idx(m, 0), size);
	if (in[3] && rank_of(in[3]) != 1)
		return fail(b, "the bias has %d dimensions, must have 1", rank_of(in[3]));
	if (rank_of(in[1]) == 3) {
		vsize = x_fdiv(m, dim_of(in[2], 2), n);
		expect_dim(b, "the key", dim_of(in[1], 2), dq, false);
		expect_dim(b, "the value", dim_of(in[2], 2), x_muli(m, vsize, heads), false);
		if (in[3])
			expect_dim(b, "the bias", dim_of(in[3], 0),
				x_add(m, x_muli(m, dq, 2), dim_of(in[2], 2)), false);
		a.k = biased_heads(b, in[1], in[3], heads, dq, size);
		a.v = biased_heads(b, in[2], in[3], heads, x_muli(m, dq, 2), vsize);
	} else {
		a.k = in[1];
		a.v = in[2];
		if (in[3])
			expect_dim(b, "the bias", dim_of(in[3], 0), x_muli(m, dq, 3), false);
	}
	if (in[6]) {
		k.past = dim_of(in[6], 2);
		a.k = append(m, in[6], a.k, b->loc);
		a.v = append(m, in[7], a.v, b->loc);
	}
	use_mask(&a, &k);
	if (!attention(&a))
		return NULL;
	out[0] = join_heads(m, &a, true);
	out[1] = a.k;
	out[2] = a.v;
	out[3] = ungroup(m, a.biased);
	return t_tuple(m, 4, out);
}

/* ---- DecoderMaskedMultiHeadAttention --------------------------------------------------------- */

/*
 * One new token of each row. Rows are beams of sequences: where `from` [sequences, beams, places]
 * is given, it names the beam whose cache holds a place's key. P: places in the cache that count,
 * NULL: all of them.
 */
typedef struct Decoder { Node *P, *from, *beams; } Decoder;

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

static bool
decoder_self(Build *b, Decoder *d, Att *a, Node *size, Node **out)
{
	Module *m = b->m;
	Node **in = b->in, *past[2] = {in[5], in[6]}, *new[2] = {a->k, a->v};
	bool shared = attr_int(b, "past_present_share_buffer") != 0;
	int i;

	for (i = 0; i < 2; i++) {
		if (past[i] && rank_of(past[i]) != 4)
			return fail(b, "a past has %d dimensions, must have 4", rank_of(past[i])) != NULL;
		if (past[i])
			expect_shape(b, "a past", past[i], 4,
				(Node *[]){dim_of(a->q, 0), dim_of(a->q, 1), dim_of(past[0], 2),
				i ? dim_of(new[1], 3) : size});
	}
	if (!past[0] != !past[1] || (shared && (!past[0] || !in[7])))
		return fail(b, "past_key, past_value and, for shared buffers, past_sequence_length go together") != NULL;
	if (shared) {
		d->P = extent(m, x_cast(m, DT_INDEX, scalar_arg(m, in[7])));
		require(m, x_lt(m, d->P, dim_of(past[0], 2)), b->loc,
			"%s places of a cache of %s are taken", expr_print(m, d->P),
			expr_print(m, dim_of(past[0], 2)));
	}
	if (in[9]) {
		if (rank_of(in[9]) != 3)
			return fail(b, "cache_indirection has %d dimensions, must have 3",
				rank_of(in[9])) != NULL;
		d->from = in[9];
		d->beams = dim_of(in[9], 1);
		expect_dim(b, "the rows", dim_of(a->q, 0), x_mul(m, dim_of(in[9], 0), d->beams), false);
	}
	a->k = decoder_keys(b, d, past[0], new[0]);
	a->v = decoder_keys(b, d, past[1], new[1]);
	out[1] = shared ? decoder_cache(m, d->P, past[0], new[0]) : a->k;
	out[2] = shared ? decoder_cache(m, d->P, past[1], new[1]) : a->v;
	return true;
}

static Node *
build_decoder_masked(Build *b)
{
	Module *m = b->m;
	Node **in = b->in, *size, *dq, *dv, *out[4] = {NULL}, *k = in[1] ? in[1] : in[0],
		*v = in[2] ? in[2] : in[0], *n;
	int64_t heads = head_count(b, "num_heads");
	Att a = {.b = b, .softmax = dtype_of(in[0]), .scale = attr_float(b, "scale")};
	Decoder d = {0};
	Mask mask;

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
		if (!decoder_self(b, &d, &a, size, out))
			return NULL;
	}
	use_mask(&a, &mask);
	if (!attention(&a))
		return NULL;
	out[0] = join_heads(m, &a, true);
	out[3] = ungroup(m, a.biased);
	return t_tuple(m, 4, out);
}

const Op ops_contrib_attention[] = {
	BUILD("ms_attention", MS("Attention"), 1,
		"(x: float, w: x, bias: x?, mask_index: i32?, past: x?, attention_bias: x?,"
		" past_length: i32?) {do_rotary: int = 0, mask_filter_value: float = -10000, num_heads: int,"
		" past_present_share_buffer: int = 0, qkv_hidden_sizes: ints?, rotary_embedding_dim: int = 0, scale: float = 0,"
		" unidirectional: int = 0} -> y, present?", build_ms_attention,
		"attention with its projection"),
	BUILD("qattention", MS("QAttention"), 1,
	"(x: i8|u8, w: i8|u8, bias: float, x_scale: bias, w_scale: bias,"
		" mask_index: i32?, x_zero: x?, w_zero: w?, past: bias?) {do_rotary: int = 0, mask_filter_value: float = -10000,"
		" num_heads: int, past_present_share_buffer: int = 0, scale: float = 0, unidirectional: int = 0} -> y, present?",
		build_qattention, "attention with a quantized projection"),
	BUILD("multi_head_attention", MS("MultiHeadAttention"), 1,
	"(q: float, k: q?, v: q?, bias: q?, padding_mask: i32?,"
		" attention_bias: q?, past_key: q?, past_value: q?, past_length: i32?, cache_indirection: i32?)"
		" {mask_filter_value: float = -10000, num_heads: int, scale: float = 0, unidirectional: int = 0}"
		" -> y, present_key?, present_value?, qk?", build_multi_head,
		"attention of projected operands"),
	BUILD("decoder_masked_multi_head_attention", MS("DecoderMaskedMultiHeadAttention"), 1,
	"(q: float, k: q?, v: q?,"
		" mask_index: i32?, attention_bias: q?, past_key: q?, past_value: q?, past_length: i32?, beam_width: i32?,"
		" cache_indirection: i32?, bias: q?) {mask_filter_value: float = -10000, num_heads: int, output_qk: int = 0,"
		" past_present_share_buffer: int = 0, scale: float = 0} -> y, present_key?, present_value?, qk?",
		build_decoder_masked, "attention of one new token a row, with beams"),
	{0}
};
