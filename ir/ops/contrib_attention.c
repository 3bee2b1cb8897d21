/* com.microsoft: attention and what belongs to it. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "attention.h"

/* ---- projections ----------------------------------------------------------------------------- */

/* Columns of [B, S, ...] from `first` on as [B, heads, S, size],
 * with its part of a bias from column bias_from on. */
static Node *
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

static int64_t
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

/* ---- GroupQueryAttention --------------------------------------------------------------------- */

/* lens[n] + 1 keys in all, S of them new. */
typedef struct Group {
	Node *lens, *S, *bias, *sinks, *ids;
	bool causal, smooth, in_place; /* in_place: what lies past the end of a cache stays */
	int64_t packed;                /* elements of a byte of a quantized cache, 0: it is none */
	int64_t window;
	/* bool[layouts, rows, columns]: what heads see, by blocks; or NULL */
	Node *blocks;
	int64_t size;                  /* of a block */
} Group;

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

/* Layouts are taken in turn by heads. */
static Node *
block_seen(Module *m, const Group *g, Node *h, Node *p, Node *j)
{
	Node *at[3] = {x_mod(m, h, dim_of(g->blocks, 0)), x_fdiv(m, p, x_idx(m, g->size)),
		x_fdiv(m, j, x_idx(m, g->size))}, *in;
	int i;

	for (i = 1, in = x_bool(m, true); i < 3; i++)
		in = x_and(m, in, x_lt(m, at[i], dim_of(g->blocks, i)));
	return x_select(m, in, x_read(m, g->blocks, at), x_bool(m, false));
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
	if (g->blocks)
		ok = x_and(m, ok, block_seen(m, g, h, p, j));
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

/* The cache with the new keys at their places: [B, KH, T, size];
 * 0 past the end, unless it is changed in place. */
static Node *
present(Module *m, Group *g, Node *past, Node *new, Node *total)
{
	Node *ax[4], *idx[4], *p, *e, *zero;
	DType d = past ? dtype_of(past) : dtype_of(new);

	for (int i = 0; i < 4; i++)
		ax[i] = x_axis(m, i == 2 ? total : dim_of(new, i));
	memcpy(idx, ax, sizeof idx);
	zero = x_int(m, d, 0);
	p = past_length(m, g, ax[0]);
	idx[2] = x_sub(m, ax[2], p);
	e = x_and(m, x_le(m, x_idx(m, 0), idx[2]), x_lt(m, idx[2], g->S));
	e = x_select(m, e, x_cast(m, d, x_read(m, new, idx)), g->in_place ? x_read(m, past, ax) : zero);
	if (!past || g->in_place)
		return t_tensor(m, 4, ax, e);
	return t_tensor(m, 4, ax,
		x_select(m, x_lt(m, ax[2], x_min(m, p, dim_of(past, 2))), x_read(m, past, ax),
		x_select(m, x_lt(m, ax[2], p), zero, e)));
}

/* A quantized cache is signed bytes, float8, or, two to a byte, numbers of 4 bits less 8. */
static bool
cache_args(Build *b, Group *g)
{
	static const char *const kinds[] = {"k_quant_type", "v_quant_type"};
	Node **in = b->in;
	int64_t bits = attr_int(b, "kv_cache_bit_width");
	int i;

	if (!in[3] || dtypes[dtype_of(in[3])].bits > 8)
		return (!in[12] && !in[13]) || fail(b, "scales without a quantized cache");
	if (!in[12] || !in[13])
		return fail(b, "a cache of type %s needs k_scale and v_scale",
			dtypes[dtype_of(in[3])].text) != NULL;
	g->packed = dtype_of(in[3]) == DT_U8 ? 2 : 1;
	if (bits && bits != 8 / g->packed)
		return fail(b, "kv_cache_bit_width is %lld for a cache of type %s", (long long)bits,
			dtypes[dtype_of(in[3])].text) != NULL;
	for (i = 0; i < 2; i++) {
		const char *kind = attr_str(b, kinds[i]);
		if (kind && strcmp(kind, "PER_TENSOR") && strcmp(kind, "PER_CHANNEL"))
			return fail(b, "%s is \"%s\" with a quantized cache", kinds[i], kind) != NULL;
		if (rank_of(in[12 + i]) != 4 && !is_intv(numel(b->m, in[12 + i]), 1))
			return fail(b, "the scale of a cache has %d dimensions, must have 4 or one element",
				rank_of(in[12 + i])) != NULL;
	}
	return true;
}

/* The scale of element [ax] of a cache. */
static Node *
cache_scale(Module *m, Node *scale, Node *const *ax)
{
	Node *at[4];
	int i;

	if (rank_of(scale) != 4)
		return scalar_arg(m, scale);
	for (i = 0; i < 4; i++)
		at[i] = is_intv(dim_of(scale, i), 1) ? x_idx(m, 0)
			: x_mul(m, ax[i], x_cast(m, DT_INDEX, x_ne(m, dim_of(scale, i), x_idx(m, 1))));
	return x_read(m, scale, at);
}

static Node *
cache_code(Module *m, Node *x, Node *scale, Node *const *ax, DType d, int64_t bits)
{
	Node *e = x2(m, O_DIV, x_cast(m, DT_F32, x_read(m, x, ax)), cache_scale(m, scale, ax));
	double most = (double)((1 << (bits - 1)) - 1);

	if (dt_float(d))
		return x_cast(m, d, e);
	e = x_min(m, x_max(m, x1(m, O_RINT, e), x_flt(m, DT_F32, -most - 1)), x_flt(m, DT_F32, most));
	return x_cast(m, DT_I32, e);
}

/* Keys or values [B, KH, S, size] as a cache holds them. */
static Node *
cache_encode(Module *m, const Group *g, Node *x, Node *scale, DType d)
{
	Node *ax[4], *at[4], *e, *n;
	int i;

	for (i = 0; i < 4; i++)
		ax[i] = x_axis(m, i < 3 ? dim_of(x, i) : x_fdiv(m, dim_of(x, 3), x_idx(m, g->packed)));
	if (g->packed == 1)
		return t_tensor(m, 4, ax, x_cast(m, d, cache_code(m, x, scale, ax, d, 8)));
	memcpy(at, ax, sizeof at);
	for (i = 1, e = NULL; i >= 0; i--) {
		at[3] = x_addi(m, x_muli(m, ax[3], 2), i);
		n = x_add(m, cache_code(m, x, scale, at, d, 4), x_int(m, DT_I32, 8));
		e = e ? x2(m, O_OR, x2(m, O_SHL, e, x_int(m, DT_I32, 4)), n) : n;
	}
	return t_tensor(m, 4, ax, x_cast(m, d, e));
}

/* Its values again, of `size` each. */
static Node *
cache_decode(Module *m, const Group *g, Node *cache, Node *scale, Node *size, DType d)
{
	Node *ax[4], *at[4], *e;
	int i;

	for (i = 0; i < 4; i++)
		ax[i] = x_axis(m, i < 3 ? dim_of(cache, i) : size);
	memcpy(at, ax, sizeof at);
	at[3] = x_fdiv(m, ax[3], x_idx(m, g->packed));
	e = x_read(m, cache, at);
	if (g->packed == 2) {
		Node *shift = x_cast(m, DT_I32, x_muli(m, x_mod(m, ax[3], x_idx(m, 2)), 4));
		e = x_and(m, x2(m, O_SHR, x_cast(m, DT_I32, e), shift), x_int(m, DT_I32, 15));
		e = x_sub(m, e, x_int(m, DT_I32, 8));
	}
	e = x_mul(m, x_cast(m, DT_F32, e), cache_scale(m, scale, ax));
	return t_tensor(m, 4, ax, x_cast(m, d, e));
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
	if (in[14] || in[15] || attr_int(b, "sliding_window_cache"))
		return unsupported(b, "sliding caches and norms of queries and keys") != NULL;
	if (rank_of(in[5]) > 2 || (in[10] && rank_of(in[10]) != 4) || (in[11] && rank_of(in[11]) != 1))
		return fail(b, "seqlens_k, attention_bias or head_sink have unfit dimensions") != NULL;
	*g = (Group){.lens = in[5], .S = dim_of(in[0], 1), .bias = in[10], .sinks = in[11],
		.ids = in[9],
		.causal = attr_int(b, "causal") != 0, .smooth = attr_int(b, "smooth_softmax") == 1,
		.window = attr_int(b, "local_window_size")};
	if (rank_of(in[5]) != 1) {
		Node *n = numel(b->m, in[5]);
		g->lens = reshape(b->m, in[5], 1, &n);
	}
	expect_dim(b, "seqlens_k", dim_of(g->lens, 0), dim_of(in[0], 0), false);
	return cache_args(b, g);
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
			expect_shape(b, "a cache", in[i], 4,
				(Node *[]){B, dim_of(k, 1), dim_of(in[3], 2), g->packed
				? x_fdiv(b->m, dim_of(k, 3), x_idx(b->m, g->packed)) : dim_of(k, 3)});
	}
	if (g->packed == 2)
		require(b->m, x_eq(b->m, x_mod(b->m, dim_of(k, 3), x_idx(b->m, 2)), x_idx(b->m, 0)),
			b->loc, "two elements are packed to a byte, heads have an odd number");
	for (i = 12; i < 14 && g->packed; i++)
		if (rank_of(in[i]) == 4) {
			expect_dim(b, "the scale of a cache", dim_of(in[i], 0), B, true);
			expect_dim(b, "the scale of a cache", dim_of(in[i], 1), dim_of(k, 1), true);
			expect_dim(b, "the scale of a cache", dim_of(in[i], 2), x_idx(b->m, 1), false);
			expect_dim(b, "the scale of a cache", dim_of(in[i], 3), dim_of(k, 3), true);
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

/* Queries, keys and values of a head each, apart or packed in the query; their common size. */
static Node *
group_operands(Build *b, Att *a, int64_t heads, int64_t kv)
{
	Module *m = b->m;
	Node **in = b->in, *zero = x_idx(m, 0), *size;
	int64_t n = in[1] ? heads : heads + 2 * kv;

	size = x_fdiv(m, dim_of(in[0], 2), x_idx(m, n));
	require(m, x_eq(m, x_muli(m, size, n), dim_of(in[0], 2)), b->loc, "%s columns for %lld heads",
		expr_print(m, dim_of(in[0], 2)), (long long)heads);
	a->q = split_heads(b, in[0], heads, zero, size);
	a->k = split_heads(b, in[1] ? in[1] : in[0], kv, in[1] ? zero : x_muli(m, size, heads), size);
	a->v = split_heads(b, in[2] ? in[2] : in[0], kv, in[2] ? zero : x_muli(m, size, heads + kv),
		size);
	return size;
}

/* Queries and keys turned by their positions; false after an error. */
static bool
group_rotary(Build *b, Att *a, Group *g, Node *cos, Node *sin, Node *size)
{
	Module *m = b->m;
	bool il = attr_int(b, "rotary_interleaved") == 1;
	Node *rotated;

	if (!cos || !sin || rank_of(cos) != 2 || rank_of(sin) != 2)
		return fail(b, "do_rotary needs cos_cache and sin_cache of 2 dimensions") != NULL;
	rotated = x_muli(m, dim_of(cos, 1), 2);
	expect_shape(b, "sin_cache", sin, 2, cos->type->dims);
	require(m, x_le(m, rotated, size), b->loc, "the caches have %s columns for heads of %s",
		expr_print(m, dim_of(cos, 1)), expr_print(m, size));
	a->q = rotary(b, a->q, cos, sin, group_position, g, il, rotated);
	a->k = rotary(b, a->k, cos, sin, group_position, g, il, rotated);
	return true;
}

static Node *
build_group_query(Build *b)
{
	Module *m = b->m;
	Node **in = b->in, *size, *total, *out[4];
	int64_t heads, kv;
	Group g;
	Att a = {.b = b, .softmax = acc_type(dtype_of(in[0])), .scale = attr_float(b, "scale"),
		.softcap = attr_float(b, "softcap"), .bias = group_bias, .arg = &g};

	if (!group_args(b, &g, &heads, &kv))
		return NULL;
	size = group_operands(b, &a, heads, kv);
	if (!group_shapes(b, &g, a.q, a.k))
		return NULL;
	if (attr_int(b, "do_rotary") == 1 && !group_rotary(b, &a, &g, in[7], in[8], size))
		return NULL;
	total = extent(m, x_cast(m, DT_INDEX, scalar_arg(m, in[6])));
	total = in[3] ? x_max(m, total, dim_of(in[3], 2)) : total;
	if (g.packed) {
		a.k = cache_encode(m, &g, a.k, in[12], dtype_of(in[3]));
		a.v = cache_encode(m, &g, a.v, in[13], dtype_of(in[4]));
	}
	out[1] = present(m, &g, in[3], a.k, total);
	out[2] = present(m, &g, in[4], a.v, total);
	a.k = g.packed ? cache_decode(m, &g, out[1], in[12], size, dtype_of(in[0]))
		: as_type(m, out[1], dtype_of(in[0]));
	a.v = g.packed ? cache_decode(m, &g, out[2], in[13], size, dtype_of(in[0]))
		: as_type(m, out[2], dtype_of(in[0]));
	if (g.smooth || g.sinks)
		a.sink = group_sink;
	if (!attention(&a))
		return NULL;
	out[0] = join_heads(m, &a, true);
	out[3] = ungroup(m, attr_int(b, "qk_output") == 2 ? a.probs : a.biased);
	return t_tuple(m, 4, out);
}

/* ---- SparseAttention ------------------------------------------------------------------------- */

/* The blocks that rows in compressed form list: bool[layouts, blocks, blocks]. */
static Node *
listed_blocks(Module *m, Node *rows, Node *cols)
{
	Node *ax[3], *k, *next[2], *e;

	ax[0] = x_axis(m, dim_of(rows, 0));
	ax[1] = x_axis(m, x_addi(m, dim_of(rows, 1), -1));
	ax[2] = x_axis(m, x_addi(m, dim_of(rows, 1), -1));
	k = x_axis(m, dim_of(cols, 1));
	next[0] = ax[0];
	next[1] = x_addi(m, ax[1], 1);
	e = x_and(m, x_le(m, x_cast(m, DT_INDEX, x_read(m, rows, ax)), k),
		x_lt(m, k, x_cast(m, DT_INDEX, x_read(m, rows, next))));
	e = x_and(m, e, x_eq(m, x_cast(m, DT_INDEX, x_read(m, cols, (Node *[]){ax[0], k})), ax[2]));
	return t_tensor(m, 3, ax, x_reduce(m, COMB_OR, 1, &k, e));
}

static Node *
build_sparse_attention(Build *b)
{
	Module *m = b->m;
	Node **in = b->in, *size, *out[3], *ax;
	int64_t heads = head_count(b, "num_heads"), kv = heads ? head_count(b, "kv_num_heads") : 0;
	Group g = {.causal = true, .in_place = true, .window = -1,
		.size = attr_int(b, "sparse_block_size")};
	Att a = {.b = b, .softmax = acc_type(dtype_of(in[0])), .scale = attr_float(b, "scale"),
		.bias = group_bias, .arg = &g};
	int i;

	if (!heads || !kv)
		return NULL;
	if (rank_of(in[0]) != 3 || !in[1] != !in[2] || rank_of(in[5]) != 2 || rank_of(in[6]) != 2
	 || rank_of(in[8]) != 1
	 || g.size < 1)
		return fail(b, "operands have unfit dimensions, or sparse_block_size is %lld",
			(long long)g.size);
	g.S = dim_of(in[0], 1);
	ax = x_axis(m, dim_of(in[8], 0));
	g.lens = t_tensor(m, 1, &ax, x_sub(m, x_read(m, in[8], &ax), x_int(m, DT_I32, 1)));
	g.blocks = listed_blocks(m, in[5], in[6]);
	expect_dim(b, "key_total_sequence_lengths", dim_of(in[8], 0), dim_of(in[0], 0), false);
	expect_dim(b, "block_col_indices", dim_of(in[6], 0), dim_of(in[5], 0), false);
	size = group_operands(b, &a, heads, kv);
	for (i = 1; i < 5; i++) {
		if (in[i] && rank_of(in[i]) != (i < 3 ? 3 : 4))
			return fail(b, "operand %d has %d dimensions", i, rank_of(in[i]));
		if (in[i] && i < 3)
			expect_shape(b, "key or value", in[i], 3,
				(Node *[]){dim_of(in[0], 0), g.S, x_muli(m, size, kv)});
		if (i > 2)
			expect_shape(b, "a cache", in[i], 4,
				(Node *[]){dim_of(in[0], 0), x_idx(m, kv), dim_of(in[3], 2), size});
	}
	if (attr_int(b, "do_rotary") == 1 && !group_rotary(b, &a, &g, in[9], in[10], size))
		return NULL;
	a.k = out[1] = present(m, &g, in[3], a.k, dim_of(in[3], 2));
	a.v = out[2] = present(m, &g, in[4], a.v, dim_of(in[3], 2));
	if (!attention(&a))
		return NULL;
	out[0] = join_heads(m, &a, true);
	return t_tuple(m, 3, out);
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

/* ---- RotaryEmbedding ------------------------------------------------------------------------- */

static Node *
start_position(Module *m, Node *n, Node *s, void *arg)
{
	Node *ids = arg, *zero = x_idx(m, 0);

	if (rank_of(ids) == 2)
		return x_cast(m, DT_INDEX, x_read(m, ids, (Node *[]){n, s}));
	return x_add(m, x_cast(m, DT_INDEX, x_read(m, ids, &zero)), s);
}

/* x [B, S, heads * size] as [B, heads, S, size]; of four dimensions, x itself. */
static Node *
rotary_heads(Build *b, Node *x, Node *rotated)
{
	Module *m = b->m;
	int64_t heads = attr_int(b, "num_heads"), dim = attr_int(b, "rotary_embedding_dim");
	Node *size, *ax[4], *idx[3], *y = x;

	if (rank_of(x) != 3 && rank_of(x) != 4)
		return fail(b, "the operand has %d dimensions, must have 3 or 4", rank_of(x));
	if (rank_of(x) == 3) {
		if (dim && heads < 1)
			return fail(b, "num_heads must be given with rotary_embedding_dim");
		size = heads > 0 ? x_fdiv(m, dim_of(x, 2), x_idx(m, heads)) : rotated;
		ax[0] = idx[0] = x_axis(m, dim_of(x, 0));
		ax[1] = x_axis(m, x_fdiv(m, dim_of(x, 2), size));
		ax[2] = idx[1] = x_axis(m, dim_of(x, 1));
		ax[3] = x_axis(m, size);
		idx[2] = x_add(m, x_mul(m, ax[1], size), ax[3]);
		y = t_tensor(m, 4, ax, x_read(m, x, idx));
	}
	require(m, x_eq(m, x_mul(m, dim_of(y, 1), dim_of(y, 3)),
		rank_of(x) == 3 ? dim_of(x, 2) : x_mul(m, dim_of(x, 1),
		dim_of(x, 3))), b->loc, "%s columns are no whole heads",
		expr_print(m, dim_of(x, rank_of(x) - 1)));
	require(m, x_le(m, rotated, dim_of(y, 3)), b->loc, "the caches turn %s elements of heads of %s",
		expr_print(m, rotated),
		expr_print(m, dim_of(y, 3)));
	return y;
}

/* y [B, heads, S, size] in x's shape. */
static Node *
rotary_result(Module *m, Node *x, Node *y)
{
	Node *ax[4], *idx[4], *dims[3];

	if (rank_of(x) == 4)
		return y;
	idx[0] = ax[0] = x_axis(m, dim_of(y, 0));
	idx[2] = ax[1] = x_axis(m, dim_of(y, 2));
	idx[1] = ax[2] = x_axis(m, dim_of(y, 1));
	idx[3] = ax[3] = x_axis(m, dim_of(y, 3));
	memcpy(dims, x->type->dims, sizeof dims);
	return reshape(m, t_tensor(m, 4, ax, x_read(m, y, idx)), 3, dims);
}

static bool
rotary_args(Build *b)
{
	Node **in = b->in;

	if (attr_int(b, "is_packed_batching") || attr_float(b, "scale") != 1)
		return unsupported(b, "packed batches and scales") != NULL;
	if (rank_of(in[2]) != 2 || rank_of(in[3]) != 2)
		return fail(b, "the caches have %d and %d dimensions, must have 2", rank_of(in[2]),
			rank_of(in[3])) != NULL;
	expect_shape(b, "sin_cache", in[3], 2, in[2]->type->dims);
	return true;
}

static Node *
build_ms_rotary(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *ids = b->in[1], *cos = b->in[2], *x4, *y, *rotated;

	if (!rotary_args(b))
		return NULL;
	if (rank_of(ids) < 1 || rank_of(ids) > 2)
		return fail(b, "position_ids has %d dimensions", rank_of(ids));
	rotated = x_muli(m, dim_of(cos, 1), 2);
	if (!(x4 = rotary_heads(b, x, rotated)))
		return NULL;
	if (rank_of(ids) == 2)
		expect_shape(b, "position_ids", ids, 2, (Node *[]){dim_of(x4, 0), dim_of(x4, 2)});
	y = rotary(b, x4, cos, b->in[3], start_position, ids, attr_int(b, "interleaved") != 0, rotated);
	return rotary_result(m, x, y);
}

/*
 * The cache's rows by three streams of positions [3, B, S]: frequency i is of stream `which`.
 * Sections lie one after the other, or every third frequency is of the second or third while their
 * sections last.
 */
static Node *
section_rows(Build *b, Node *ids, Node *cache, const int64_t *sections)
{
	Module *m = b->m;
	Node *ax[3], *i, *which, *third, *p, *zero = x_idx(m, 0), *one = x_idx(m, 1),
		*two = x_idx(m, 2);

	ax[0] = x_axis(m, dim_of(ids, 1));
	ax[1] = x_axis(m, dim_of(ids, 2));
	ax[2] = i = x_axis(m, dim_of(cache, 1));
	third = x_mod(m, i, x_idx(m, 3));
	if (attr_int(b, "mrope_layout") == 1) {
		which = x_select(m, x_and(m, x_eq(m, third, two), x_lt(m, i, x_idx(m, 3 * sections[2]))),
			two, zero);
		which = x_select(m, x_and(m, x_eq(m, third, one), x_lt(m, i, x_idx(m, 3 * sections[1]))),
			one, which);
	} else {
		which = x_select(m, x_lt(m, i, x_idx(m, sections[0] + sections[1])), one, two);
		which = x_select(m, x_lt(m, i, x_idx(m, sections[0])), zero, which);
	}
	p = x_cast(m, DT_INDEX, x_read(m, ids, (Node *[]){which, ax[0], ax[1]}));
	p = x2(m, O_BOUND, p, dim_of(cache, 0));
	return t_tensor(m, 3, ax, x_read(m, cache, (Node *[]){p, i}));
}

static Node *
build_mrotary(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *ids = b->in[1], *x4, *y, *rotated;
	int64_t layout = attr_int(b, "mrope_layout");
	const int64_t *s;
	int n;

	if (!rotary_args(b))
		return NULL;
	if (!attr_ints(b, "mrope_section", &n, &s) || n != 3 || s[0] < 0 || s[1] < 0 || s[2] < 0
	 || s[0] + s[1] + s[2] > 1 << 20
	 || layout < 0 || layout > 1)
		return fail(b, "mrope_section must be three sizes; mrope_layout is %lld",
			(long long)layout);
	if (rank_of(ids) != 3)
		return fail(b, "position_ids has %d dimensions, must have 3", rank_of(ids));
	expect_dim(b, "the caches", dim_of(b->in[2], 1), x_idx(m, s[0] + s[1] + s[2]), false);
	rotated = x_muli(m, dim_of(b->in[2], 1), 2);
	if (!(x4 = rotary_heads(b, x, rotated)))
		return NULL;
	expect_shape(b, "position_ids", ids, 3, (Node *[]){x_idx(m, 3), dim_of(x4, 0), dim_of(x4, 2)});
	y = rotary(b, x4, section_rows(b, ids, b->in[2], s), section_rows(b, ids, b->in[3], s), NULL,
		NULL,
		attr_int(b, "interleaved") != 0, rotated);
	return rotary_result(m, x, y);
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
	BUILD("group_query_attention", MS("GroupQueryAttention"), 1,
	"(q: float, k: q?, v: q?, past_key: float|i8|u8?, past_value: past_key?,"
		" seqlens: i32, total: i32, cos: q?, sin: q?, position_ids: i64?, attention_bias: q?, head_sink: q?,"
		" k_scale: f32?, v_scale: f32?, q_norm: q?, k_norm: q?) {causal: int = 1, do_rotary: int = 0, k_quant_type: str?,"
		" kv_cache_bit_width: int = 0, kv_num_heads: int, local_window_size: int = -1, num_heads: int,"
		" qk_norm_epsilon: float = 1e-6, qk_output: int = 0, rotary_interleaved: int = 0, scale: float = 0,"
		" sliding_window_cache: int = 0, smooth_softmax: int = -1, softcap: float = 0, v_quant_type: str?}"
		" -> y, present_key?, present_value?, qk?", build_group_query,
		"attention with a cache of keys shared by heads"),
	BUILD("sparse_attention", MS("SparseAttention"), 1,
	"(q: float, k: q?, v: q?, past_key: q, past_value: q, rows: i32,"
		" columns: i32, total: i32, lengths: i32, cos: q?, sin: q?) {do_rotary: int = 0, kv_num_heads: int, num_heads: int,"
		" rotary_interleaved: int = 0, scale: float = 0, sparse_block_size: int} -> y, present_key, present_value",
		build_sparse_attention, "causal attention to listed blocks of a cache of keys"),
	BUILD("decoder_masked_multi_head_attention", MS("DecoderMaskedMultiHeadAttention"), 1,
	"(q: float, k: q?, v: q?,"
		" mask_index: i32?, attention_bias: q?, past_key: q?, past_value: q?, past_length: i32?, beam_width: i32?,"
		" cache_indirection: i32?, bias: q?) {mask_filter_value: float = -10000, num_heads: int, output_qk: int = 0,"
		" past_present_share_buffer: int = 0, scale: float = 0} -> y, present_key?, present_value?, qk?",
		build_decoder_masked, "attention of one new token a row, with beams"),
	BUILD("mrotary_embedding", MS("MRotaryEmbedding"), 1,
	"(x: float, position_ids: i64, cos: x, sin: x) {interleaved: int = 0,"
		" is_packed_batching: int = 0, mrope_layout: int = 0, mrope_section: ints, num_heads: int = 0,"
		" rotary_embedding_dim: int = 0, scale: float = 1} -> y", build_mrotary,
		"pairs of elements turned by three streams of positions"),
	BUILD("ms_rotary_embedding", MS("RotaryEmbedding"), 1,
	"(x: float, position_ids: i64, cos: x, sin: x)"
		" {interleaved: int = 0, is_packed_batching: int = 0, num_heads: int = 0, rotary_embedding_dim: int = 0,"
		" scale: float = 1} -> y", build_ms_rotary,
		"pairs of elements turned by the angle of their position"),
	{0}
};
