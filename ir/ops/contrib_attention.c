/* com.microsoft: attention and what belongs to it. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "attention.h"

/* ---- projections -------------------------------------------------------------------------------- */

/* [B, S, heads * size] as [B, heads, S, size], with its part of a bias from column bias_from on. */
static Node *
biased_heads(Build *b, Node *x, Node *bias, int64_t heads, Node *bias_from, Node *size)
{
	Module *m = b->m;
	Node *y = split_heads(b, x, heads, x_idx(m, 0), size), *ax[4], *col;

	if (!bias)
		return y;
	axes_new(m, 4, y->type->dims, ax);
	col = x_add(m, x_add(m, x_mul(m, ax[1], size), ax[3]), bias_from);
	return t_tensor(m, 4, ax, x_add(m, x_read(m, y, ax), x_read(m, bias, &col)));
}

/* ---- masks ------------------------------------------------------------------------------------------ */

typedef struct Mask {
	Node *mask, *bias, *past;      /* past: keys before this call's, an index */
	bool causal;
	double filter;
} Mask;

/* 0, or the filter value where the mask hides key j. Ranks: 1 lengths (and starts), 2 keys, 3 pairs. */
static Node *
hidden(Att *a, Node *n, Node *i, Node *j)
{
	Module *m = a->b->m;
	Mask *k = a->arg;
	Node *t = k->mask, *zero = x_int(m, DT_F32, 0), *f = x_flt(m, DT_F32, k->filter), *B = dim_of(a->q, 0), *v, *at;

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
	*k = (Mask){.mask = mask, .bias = bias, .past = x_idx(b->m, 0), .causal = attr_int(b, "unidirectional") != 0,
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
		require(m, x_or(m, x_eq(m, n, B), x_eq(m, n, x_muli(m, B, 2))), b->loc, "the mask has %s lengths for %s sequences",
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

static int64_t
head_count(Build *b, const char *name)
{
	int64_t n = attr_int(b, name);

	if (n >= 1 && n <= 1 << 20)
		return n;
	fail(b, "%s is %lld", name, (long long)n);
	return 0;
}

/* ---- Attention ---------------------------------------------------------------------------------------- */

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
	return t_tensor(m, 5, ax, x_select(m, x_eq(m, ax[0], x_idx(m, 0)), x_read(m, k, ax + 1), x_read(m, v, ax + 1)));
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
		require(m, x_eq(m, x_muli(m, size[i], heads), d[i]), b->loc, "%s columns for %lld heads", expr_print(m, d[i]),
			(long long)heads);
	}
	require(m, x_eq(m, x_add(m, x_add(m, d[0], d[1]), d[2]), dim_of(qkv, 2)), b->loc, "the projection has %s columns",
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
	Node **in = b->in, *x = call(b, "matmul_integer", 4, (Node *[]){in[0], in[1], in[6], in[7]}, NULL), *s, *ax[3];
	DType d = dtype_of(in[3]);

	s = x ? call(b, "mul", 2, (Node *[]){in[3], in[4]}, NULL) : NULL;
	if (!s)
		return NULL;
	if (rank_of(x) != 3)
		return fail(b, "the projection has %d dimensions, must have 3", rank_of(x));
	axes_new(b->m, 3, x->type->dims, ax);
	x = t_tensor(b->m, 3, ax, x_cast(b->m, d, x_read(b->m, x, ax)));
	x = call(b, "mul", 2, (Node *[]){x, s}, NULL);
	x = x ? call(b, "add", 2, (Node *[]){x, in[2]}, NULL) : NULL;
	return x ? projected_attention(b, x, in[5], in[8], NULL) : NULL;
}

/* ---- MultiHeadAttention ------------------------------------------------------------------------------------ */

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
		return unsupported(b, "key and value of %d and %d dimensions", rank_of(in[1]), rank_of(in[2]));
	if (!in[6] != !in[7])
		return fail(b, "past_key and past_value must be given together");
	dq = dim_of(in[0], 2);
	size = x_fdiv(m, dq, n);
	require(m, x_eq(m, x_muli(m, size, heads), dq), b->loc, "%s columns for %lld heads", expr_print(m, dq), (long long)heads);
	a.q = biased_heads(b, in[0], in[3], heads, x_idx(m, 0), size);
	if (in[3] && rank_of(in[3]) != 1)
		return fail(b, "the bias has %d dimensions, must have 1", rank_of(in[3]));
	if (rank_of(in[1]) == 3) {
		vsize = x_fdiv(m, dim_of(in[2], 2), n);
		expect_dim(b, "the key", dim_of(in[1], 2), dq, false);
		expect_dim(b, "the value", dim_of(in[2], 2), x_muli(m, vsize, heads), false);
		if (in[3])
			expect_dim(b, "the bias", dim_of(in[3], 0), x_add(m, x_muli(m, dq, 2), dim_of(in[2], 2)), false);
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

/* ---- GroupQueryAttention ------------------------------------------------------------------------------------- */

/* lens[n] + 1 keys in all, S of them new. */
typedef struct Group { Node *lens, *S, *bias, *sinks, *ids; bool causal, smooth; int64_t window; } Group;

static Node *
past_length(Module *m, Group *g, Node *n)
{
	Node *total = x_addi(m, x_cast(m, DT_INDEX, x_read(m, g->lens, &n)), 1);

	return x_max(m, x_sub(m, total, g->S), x_idx(m, 0));
}

static Node *
group_position(Module *m, Node *n, Node *s, void *arg)
{
	Group *g = arg;

	if (g->ids)
		return x_cast(m, DT_INDEX, x_read(m, g->ids, (Node *[]){n, s}));
	return x_add(m, past_length(m, g, n), s);
}

static Node *
group_bias(Att *a, Node *n, Node *h, Node *i, Node *j)
{
	Module *m = a->b->m;
	Group *g = a->arg;
	DType d = dtype_of(a->q);
	Node *p = x_add(m, past_length(m, g, n), i), *ok, *at[4] = {n, h, i, j}, *e, *in;
	int c;

	if (g->causal)
		ok = x_le(m, j, p);
	else
		ok = x_lt(m, j, x_addi(m, x_cast(m, DT_INDEX, x_read(m, g->lens, &n)), 1));
	if (g->window >= 0)
		ok = x_and(m, ok, x_lt(m, x_addi(m, p, -g->window), j));
	e = x_int(m, d, 0);
	if (g->bias) {
		for (c = 0; c < 2; c++)
			at[c] = is_intv(dim_of(g->bias, c), 1) ? x_idx(m, 0) : at[c];
		in = x_lt(m, j, dim_of(g->bias, 3));
		e = x_select(m, in, x_read(m, g->bias, at), e);
	}
	return x_select(m, ok, e, x_flt(m, d, -INFINITY));
}

static Node *
group_sink(Att *a, Node *h)
{
	Group *g = a->arg;

	return g->sinks ? x_read(a->b->m, g->sinks, &h) : x_int(a->b->m, dtype_of(a->q), 0);
}

/* The cache with the new keys at their places: [B, KH, T, size]; 0 past the end. */
static Node *
present(Module *m, Group *g, Node *past, Node *new, Node *total)
{
	Node *ax[4], *idx[4], *p, *e;

	for (int i = 0; i < 4; i++)
		ax[i] = x_axis(m, i == 2 ? total : dim_of(new, i));
	memcpy(idx, ax, sizeof idx);
	p = past_length(m, g, ax[0]);
	idx[2] = x_sub(m, ax[2], p);
	e = x_and(m, x_le(m, x_idx(m, 0), idx[2]), x_lt(m, idx[2], g->S));
	e = x_select(m, e, x_read(m, new, idx), x_int(m, dtype_of(new), 0));
	if (!past)
		return t_tensor(m, 4, ax, e);
	return t_tensor(m, 4, ax, x_select(m, x_lt(m, ax[2], x_min(m, p, dim_of(past, 2))), x_read(m, past, ax),
		x_select(m, x_lt(m, ax[2], p), x_int(m, dtype_of(new), 0), e)));
}

static bool
group_args(Build *b, Group *g, int64_t *heads, int64_t *kv)
{
	Node **in = b->in;

	*heads = head_count(b, "num_heads");
	*kv = *heads ? head_count(b, "kv_num_heads") : 0;
	if (!*heads || !*kv)
		return false;
	if (rank_of(in[0]) != 3 || !in[1] != !in[2] || !in[3] != !in[4])
		return fail(b, "query must have 3 dimensions; key with value, past_key with past_value") != NULL;
	if (in[12] || in[13] || in[14] || in[15] || attr_int(b, "sliding_window_cache"))
		return unsupported(b, "quantized or sliding caches and norms of queries and keys") != NULL;
	if (rank_of(in[5]) > 2 || (in[10] && rank_of(in[10]) != 4) || (in[11] && rank_of(in[11]) != 1))
		return fail(b, "seqlens_k, attention_bias or head_sink have unfit dimensions") != NULL;
	*g = (Group){.lens = in[5], .S = dim_of(in[0], 1), .bias = in[10], .sinks = in[11], .ids = in[9],
		.causal = attr_int(b, "causal") != 0, .smooth = attr_int(b, "smooth_softmax") == 1,
		.window = attr_int(b, "local_window_size")};
	if (rank_of(in[5]) != 1) {
		Node *n = numel(b->m, in[5]);
		g->lens = reshape(b->m, in[5], 1, &n);
	}
	expect_dim(b, "seqlens_k", dim_of(g->lens, 0), dim_of(in[0], 0), false);
	return true;
}

/* What is beside queries, keys and values: caches, ids, biases. */
static bool
group_shapes(Build *b, Group *g, Node *q, Node *k)
{
	Node **in = b->in, *B = dim_of(q, 0), *H = dim_of(q, 1);
	int i;

	for (i = 3; i < 5; i++) {
		if (in[i] && rank_of(in[i]) != 4)
			return fail(b, "a cache has %d dimensions, must have 4", rank_of(in[i])) != NULL;
		if (in[i])
			expect_shape(b, "a cache", in[i], 4, (Node *[]){B, dim_of(k, 1), dim_of(in[3], 2), dim_of(k, 3)});
	}
	if (g->ids && rank_of(g->ids) != 2)
		return fail(b, "position_ids has %d dimensions, must have 2", rank_of(g->ids)) != NULL;
	if (g->ids)
		expect_shape(b, "position_ids", g->ids, 2, (Node *[]){B, g->S});
	if (g->bias) {
		expect_dim(b, "attention_bias", dim_of(g->bias, 0), B, true);
		expect_dim(b, "attention_bias", dim_of(g->bias, 1), H, true);
		expect_dim(b, "attention_bias", dim_of(g->bias, 2), g->S, false);
	}
	if (g->sinks)
		expect_dim(b, "head_sink", dim_of(g->sinks, 0), H, false);
	for (i = 1; i < 3; i++)
		if (in[i]) {
			if (rank_of(in[i]) != 3)
				return fail(b, "key and value must have 3 dimensions") != NULL;
			expect_shape(b, "key or value", in[i], 3, (Node *[]){B, g->S,
				x_mul(b->m, dim_of(k, 1), dim_of(k, 3))});
		}
	return true;
}

static Node *
build_group_query(Build *b)
{
	Module *m = b->m;
	Node **in = b->in, *size, *total, *out[4], *zero = x_idx(m, 0), *rotated;
	int64_t heads, kv;
	bool il = attr_int(b, "rotary_interleaved") == 1;
	Group g;
	Att a = {.b = b, .softmax = acc_type(dtype_of(in[0])), .scale = attr_float(b, "scale"),
		.softcap = attr_float(b, "softcap"), .bias = group_bias, .arg = &g};

	if (!group_args(b, &g, &heads, &kv))
		return NULL;
	size = x_fdiv(m, dim_of(in[0], 2), x_idx(m, in[1] ? heads : heads + 2 * kv));
	require(m, x_eq(m, x_muli(m, size, in[1] ? heads : heads + 2 * kv), dim_of(in[0], 2)), b->loc, "%s columns for %lld heads",
		expr_print(m, dim_of(in[0], 2)), (long long)heads);
	a.q = split_heads(b, in[0], heads, zero, size);
	a.k = split_heads(b, in[1] ? in[1] : in[0], kv, in[1] ? zero : x_muli(m, size, heads), size);
	a.v = split_heads(b, in[2] ? in[2] : in[0], kv, in[2] ? zero : x_muli(m, size, heads + kv), size);
	if (!group_shapes(b, &g, a.q, a.k))
		return NULL;
	if (attr_int(b, "do_rotary") == 1) {
		if (!in[7] || !in[8] || rank_of(in[7]) != 2 || rank_of(in[8]) != 2)
			return fail(b, "do_rotary needs cos_cache and sin_cache of 2 dimensions");
		rotated = x_muli(m, dim_of(in[7], 1), 2);
		expect_shape(b, "sin_cache", in[8], 2, in[7]->type->dims);
		require(m, x_le(m, rotated, size), b->loc, "the caches have %s columns for heads of %s",
			expr_print(m, dim_of(in[7], 1)), expr_print(m, size));
		a.q = rotary(b, a.q, in[7], in[8], group_position, &g, il, rotated);
		a.k = rotary(b, a.k, in[7], in[8], group_position, &g, il, rotated);
	}
	total = extent(m, x_cast(m, DT_INDEX, scalar_arg(m, in[6])));
	total = in[3] ? x_max(m, total, dim_of(in[3], 2)) : total;
	a.k = present(m, &g, in[3], a.k, total);
	a.v = present(m, &g, in[4], a.v, total);
	if (g.smooth || g.sinks)
		a.sink = group_sink;
	if (!attention(&a))
		return NULL;
	out[0] = join_heads(m, &a, true);
	out[1] = a.k;
	out[2] = a.v;
	out[3] = ungroup(m, attr_int(b, "qk_output") == 2 ? a.probs : a.biased);
	return t_tuple(m, 4, out);
}

/* ---- RotaryEmbedding ------------------------------------------------------------------------------------------- */

static Node *
start_position(Module *m, Node *n, Node *s, void *arg)
{
	Node *ids = arg, *zero = x_idx(m, 0);

	if (rank_of(ids) == 2)
		return x_cast(m, DT_INDEX, x_read(m, ids, (Node *[]){n, s}));
	return x_add(m, x_cast(m, DT_INDEX, x_read(m, ids, &zero)), s);
}

static Node *
build_ms_rotary(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *cos = b->in[2], *x4 = x, *y, *size, *rotated = x_muli(m, dim_of(cos, 1), 2), *ax[4], *idx[4];
	int64_t heads = attr_int(b, "num_heads"), dim = attr_int(b, "rotary_embedding_dim");
	Node *dims[3];

	if (attr_int(b, "is_packed_batching") || attr_float(b, "scale") != 1)
		return unsupported(b, "packed batches and scales");
	if (rank_of(cos) != 2 || (rank_of(x) != 3 && rank_of(x) != 4))
		return fail(b, "the operand has %d dimensions, the caches %d", rank_of(x), rank_of(cos));
	if (rank_of(x) == 3) {
		if (dim && heads < 1)
			return fail(b, "num_heads must be given with rotary_embedding_dim");
		size = heads > 0 ? x_fdiv(m, dim_of(x, 2), x_idx(m, heads)) : rotated;
		ax[0] = idx[0] = x_axis(m, dim_of(x, 0));
		ax[1] = x_axis(m, x_fdiv(m, dim_of(x, 2), size));
		ax[2] = idx[1] = x_axis(m, dim_of(x, 1));
		ax[3] = x_axis(m, size);
		idx[2] = x_add(m, x_mul(m, ax[1], size), ax[3]);
		x4 = t_tensor(m, 4, ax, x_read(m, x, idx));
	}
	require(m, x_eq(m, x_mul(m, dim_of(x4, 1), dim_of(x4, 3)), rank_of(x) == 3 ? dim_of(x, 2) : x_mul(m, dim_of(x, 1),
		dim_of(x, 3))), b->loc, "%s columns are no whole heads", expr_print(m, dim_of(x, rank_of(x) - 1)));
	require(m, x_le(m, rotated, dim_of(x4, 3)), b->loc, "the caches have %s columns for heads of %s",
		expr_print(m, dim_of(cos, 1)), expr_print(m, dim_of(x4, 3)));
	if (rank_of(b->in[3]) != 2 || rank_of(b->in[1]) < 1 || rank_of(b->in[1]) > 2)
		return fail(b, "sin_cache has %d dimensions, position_ids %d", rank_of(b->in[3]), rank_of(b->in[1]));
	expect_shape(b, "sin_cache", b->in[3], 2, cos->type->dims);
	if (rank_of(b->in[1]) == 2)
		expect_shape(b, "position_ids", b->in[1], 2, (Node *[]){dim_of(x4, 0), dim_of(x4, 2)});
	y = rotary(b, x4, cos, b->in[3], start_position, b->in[1], attr_int(b, "interleaved") != 0, rotated);
	if (rank_of(x) == 4)
		return y;
	idx[0] = ax[0] = x_axis(m, dim_of(y, 0));
	idx[2] = ax[1] = x_axis(m, dim_of(y, 2));
	idx[1] = ax[2] = x_axis(m, dim_of(y, 1));
	idx[3] = ax[3] = x_axis(m, dim_of(y, 3));
	memcpy(dims, x->type->dims, sizeof dims);
	return reshape(m, t_tensor(m, 4, ax, x_read(m, y, idx)), 3, dims);
}

#define MS(name) "com.microsoft:" name

const Op ops_contrib_attention[] = {
	BUILD("ms_attention", MS("Attention"), 1, "(x: float, w: x, bias: x?, mask_index: i32?, past: x?, attention_bias: x?,"
		" past_length: i32?) {do_rotary: int = 0, mask_filter_value: float = -10000, num_heads: int,"
		" past_present_share_buffer: int = 0, qkv_hidden_sizes: ints?, rotary_embedding_dim: int = 0, scale: float = 0,"
		" unidirectional: int = 0} -> y, present?", build_ms_attention, "attention with its projection"),
	BUILD("qattention", MS("QAttention"), 1, "(x: i8|u8, w: i8|u8, bias: float, x_scale: bias, w_scale: bias,"
		" mask_index: i32?, x_zero: x?, w_zero: w?, past: bias?) {do_rotary: int = 0, mask_filter_value: float = -10000,"
		" num_heads: int, past_present_share_buffer: int = 0, scale: float = 0, unidirectional: int = 0} -> y, present?",
		build_qattention, "attention with a quantized projection"),
	BUILD("multi_head_attention", MS("MultiHeadAttention"), 1, "(q: float, k: q?, v: q?, bias: q?, padding_mask: i32?,"
		" attention_bias: q?, past_key: q?, past_value: q?, past_length: i32?, cache_indirection: i32?)"
		" {mask_filter_value: float = -10000, num_heads: int, scale: float = 0, unidirectional: int = 0}"
		" -> y, present_key?, present_value?, qk?", build_multi_head, "attention of projected operands"),
	BUILD("group_query_attention", MS("GroupQueryAttention"), 1, "(q: float, k: q?, v: q?, past_key: q?, past_value: q?,"
		" seqlens: i32, total: i32, cos: q?, sin: q?, position_ids: i64?, attention_bias: q?, head_sink: q?,"
		" k_scale: f32?, v_scale: f32?, q_norm: q?, k_norm: q?) {causal: int = 1, do_rotary: int = 0, k_quant_type: str?,"
		" kv_cache_bit_width: int = 0, kv_num_heads: int, local_window_size: int = -1, num_heads: int,"
		" qk_norm_epsilon: float = 1e-6, qk_output: int = 0, rotary_interleaved: int = 0, scale: float = 0,"
		" sliding_window_cache: int = 0, smooth_softmax: int = -1, softcap: float = 0, v_quant_type: str?}"
		" -> y, present_key?, present_value?, qk?", build_group_query, "attention with a cache of keys shared by heads"),
	BUILD("ms_rotary_embedding", MS("RotaryEmbedding"), 1, "(x: float, position_ids: i64, cos: x, sin: x)"
		" {interleaved: int = 0, is_packed_batching: int = 0, num_heads: int = 0, rotary_embedding_dim: int = 0,"
		" scale: float = 1} -> y", build_ms_rotary, "pairs of elements turned by the angle of their position"),
	{0}
};
