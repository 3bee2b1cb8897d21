/* com.microsoft: attention with a cache of keys that groups of heads share. */
#include <math.h>
#include <string.h>
#include "attention.h"

/* ---- selected keys --------------------------------------------------------------------------- */

bool
selected_args(Build *b, Selected *s, Node *indices, Node *counts, Node *rows, Node *aux)
{
	Module *m = b->m;
	const char *mode = attr_str(b, "attention_mode"), *source = attr_str(b, "selected_kv_source");
	Node *ax[2], *at[2], *keys, *base, *e;

	*s = (Selected){.main = s->main, .window = attr_int(b, "local_window_size"),
		.causal = attr_int(b, "is_causal") != 0, .local = strcmp(mode, "local_plus_selected") == 0};
	if (!(s->local ? !strcmp(source, "auxiliary")
		: !strcmp(mode, "selected_only") && !strcmp(source, "main")))
		return unsupported(b, "attention_mode \"%s\" with keys of \"%s\"", mode, source) != NULL;
	if (s->local && !aux)
		return fail(b, "there is no auxiliary_key") != NULL;
	if (rank_of(indices) != 2 || rank_of(counts) != 1)
		return fail(b, "selected_indices has %d dimensions, selected_counts %d, must have 2 and 1",
			rank_of(indices), rank_of(counts)) != NULL;
	expect_dim(b, "selected_indices", dim_of(indices, 0), rows, false);
	expect_dim(b, "selected_counts", dim_of(counts, 0), rows, false);
	keys = s->local ? aux : s->main;
	axes_new(m, 2, (Node *[]){rows, keys}, ax);
	base = t_tensor(m, 2, ax, x_bool(m, false));
	axes_new(m, 2, indices->type->dims, ax);
	at[0] = ax[0];
	at[1] = x_cast(m, DT_INDEX, x_read(m, indices, ax));
	e = x_lt(m, ax[1], x_cast(m, DT_INDEX, x_read(m, counts, ax)));
	e = x_and(m, e, x_and(m, x_le(m, x_idx(m, 0), at[1]), x_lt(m, at[1], keys)));
	s->seen = t_distinct(m, t_scatter(m, COMB_SET, base, 2, ax, at, x_bool(m, true), e));
	return true;
}

Node *
selected_key(Module *m, const Selected *s, Node *row, Node *p, Node *j)
{
	Node *ok = s->causal ? x_le(m, j, p) : x_bool(m, true);

	if (!s->local)
		return x_and(m, ok, x_read(m, s->seen, (Node *[]){row, j}));
	if (s->window >= 0)
		ok = x_and(m, ok, x_lt(m, x_addi(m, p, -s->window), j));
	return x_select(m, x_lt(m, j, s->main), ok,
		x_read(m, s->seen, (Node *[]){row, x_sub(m, j, s->main)}));
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
	int64_t turned;                /* first element that a rotary embedding turns */
	const Selected *selected;      /* what queries see; or NULL */
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

	if (g->selected)
		ok = selected_key(m, g->selected, x_add(m, x_mul(m, n, g->S), i), p, j);
	else if (g->causal)
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
		return fail(b, "query must have 3 dimensions; key with value, past_key with past_value")
			!= NULL;
	if (attr_int(b, "sliding_window_cache"))
		return unsupported(b, "sliding caches") != NULL;
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

bool
norm_heads(Build *b, Node *q, Node *k, Att *a)
{
	const Attr *eps = with_float(b, NULL, "epsilon", attr_float(b, "qk_norm_epsilon"));

	if (!q != !k)
		return fail(b, "the norms of queries and keys must be given together") != NULL;
	if (!q)
		return true;
	if (rank_of(q) != 1 || rank_of(k) != 1)
		return fail(b, "the norms have %d and %d dimensions, must have 1", rank_of(q), rank_of(k))
			!= NULL;
	expect_shape(b, "the norm of queries", q, 1, (Node *[]){dim_of(a->q, 3)});
	expect_shape(b, "the norm of keys", k, 1, (Node *[]){dim_of(a->k, 3)});
	a->q = call_result(b, "rms_normalization", 2, (Node *[]){a->q, q}, eps, 0);
	a->k = call_result(b, "rms_normalization", 2, (Node *[]){a->k, k}, eps, 0);
	return a->q && a->k;
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
	require(m, x_le(m, x_addi(m, rotated, g->turned), size), b->loc,
		"the caches have %s columns for heads of %s", expr_print(m, dim_of(cos, 1)),
		expr_print(m, size));
	a->q = rotary(b, a->q, cos, sin, group_position, g, il, g->turned, rotated);
	a->k = rotary(b, a->k, cos, sin, group_position, g, il, g->turned, rotated);
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
	if (!group_shapes(b, &g, a.q, a.k) || !norm_heads(b, in[14], in[15], &a))
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

/* ---- DynamicSparseAttention ------------------------------------------------------------------ */

static bool
dynamic_args(Build *b, Group *g, Att *a)
{
	Module *m = b->m;
	Node **in = b->in, *B = dim_of(in[0], 0), *n;
	int i;

	if (rank_of(in[0]) != 3 || !in[1] != !in[2] || !in[3] != !in[4])
		return fail(b, "query must have 3 dimensions; key with value, past_key with past_value")
			!= NULL;
	for (i = 1; i < 7; i++)
		if (in[i] && rank_of(in[i]) != (i < 3 ? 3 : 4))
			return fail(b, "operand %d has %d dimensions", i, rank_of(in[i])) != NULL;
	if (!attr_int(b, "is_causal") || attr_int(b, "rotary_offset") < 0
	 || attr_int(b, "rotary_offset") > 1 << 20)
		return fail(b, "is_causal must be 1, rotary_offset nonnegative") != NULL;
	n = numel(m, in[9]);
	*g = (Group){.lens = reshape(m, in[9], 1, &n), .S = dim_of(in[0], 1), .ids = in[13],
		.sinks = in[16], .smooth = attr_int(b, "smooth_softmax") == 1, .causal = true, .window = -1,
		.turned = attr_int(b, "rotary_offset")};
	expect_dim(b, "seqlens_k", n, B, false);
	if ((g->ids && rank_of(g->ids) != 2) || (g->sinks && rank_of(g->sinks) != 1))
		return fail(b, "position_ids or head_sink have unfit dimensions") != NULL;
	if (g->ids)
		expect_shape(b, "position_ids", g->ids, 2, (Node *[]){B, g->S});
	if (g->sinks)
		expect_shape(b, "head_sink", g->sinks, 1, (Node *[]){dim_of(a->q, 1)});
	for (i = 3; i < 5 && in[i]; i++)
		expect_shape(b, "a cache", in[i], 4,
			(Node *[]){B, dim_of(a->k, 1), dim_of(in[3], 2), dim_of(a->k, 3)});
	return true;
}

/* Keys and values that do not change, behind those of the cache. */
static bool
auxiliary(Build *b, Att *a, Node *k, Node *v)
{
	if (!k)
		return true;
	if (!v && !attr_int(b, "auxiliary_kv_shared"))
		return fail(b, "there is no auxiliary_value") != NULL;
	a->k = append(b->m, a->k, k, b->loc);
	a->v = append(b->m, a->v, v ? v : k, b->loc);
	return true;
}

static Node *
build_dynamic_sparse(Build *b)
{
	Module *m = b->m;
	Node **in = b->in, *size, *total, *out[3];
	int64_t heads = head_count(b, "num_heads"), kv = heads ? head_count(b, "kv_num_heads") : 0;
	Att a = {.b = b, .softmax = acc_type(dtype_of(in[0])), .scale = attr_float(b, "scale"),
		.bias = group_bias, .guards = true};
	Selected chosen = {0};
	Group g;

	if (!heads || !kv)
		return NULL;
	if (rank_of(in[0]) != 3)
		return fail(b, "the query has %d dimensions, must have 3", rank_of(in[0]));
	size = group_operands(b, &a, heads, kv);
	if (!dynamic_args(b, &g, &a) || !norm_heads(b, in[14], in[15], &a))
		return NULL;
	a.arg = &g;
	if (attr_int(b, "do_rotary") == 1 && !group_rotary(b, &a, &g, in[11], in[12], size))
		return NULL;
	total = extent(m, x_cast(m, DT_INDEX, scalar_arg(m, in[10])));
	total = in[3] ? x_max(m, total, dim_of(in[3], 2)) : total;
	a.k = out[1] = present(m, &g, in[3], a.k, total);
	a.v = out[2] = present(m, &g, in[4], a.v, total);
	chosen.main = total;
	if (!selected_args(b, &chosen, in[7], in[8], x_mul(m, dim_of(in[0], 0), g.S),
		in[5] ? dim_of(in[5], 2) : NULL))
		return NULL;
	g.selected = &chosen;
	if (chosen.local && !auxiliary(b, &a, in[5], in[6]))
		return NULL;
	if (g.smooth || g.sinks)
		a.sink = group_sink;
	if (!attention(&a))
		return NULL;
	out[0] = join_heads(m, &a, true);
	return t_tuple(m, 3, out);
}

const Op ops_contrib_group[] = {
	BUILD("group_query_attention", MS("GroupQueryAttention"), 1,
	"(q: float, k: q?, v: q?, past_key: float|i8|u8?, past_value: past_key?,"
		" seqlens: i32, total: i32, cos: q?, sin: q?, position_ids: i64?, attention_bias: q?,"
		" head_sink: q?, k_scale: f32?, v_scale: f32?, q_norm: q?, k_norm: q?) {causal: int = 1,"
		" do_rotary: int = 0, k_quant_type: str?, kv_cache_bit_width: int = 0, kv_num_heads: int,"
		" local_window_size: int = -1, num_heads: int, qk_norm_epsilon: float = 1e-6,"
		" qk_output: int = 0, rotary_interleaved: int = 0, scale: float = 0,"
		" sliding_window_cache: int = 0, smooth_softmax: int = -1, softcap: float = 0,"
		" v_quant_type: str?} -> y, present_key?, present_value?, qk?", build_group_query,
		"attention with a cache of keys shared by heads"),
	BUILD("sparse_attention", MS("SparseAttention"), 1,
	"(q: float, k: q?, v: q?, past_key: q, past_value: q, rows: i32,"
		" columns: i32, total: i32, lengths: i32, cos: q?, sin: q?) {do_rotary: int = 0,"
		" kv_num_heads: int, num_heads: int, rotary_interleaved: int = 0, scale: float = 0,"
		" sparse_block_size: int} -> y, present_key, present_value",
		build_sparse_attention, "causal attention to listed blocks of a cache of keys"),
	BUILD("dynamic_sparse_attention", MS("DynamicSparseAttention"), 1,
		"(q: float, k: q?, v: q?, past_key: q?, past_value: q?, auxiliary_key: q?,"
		" auxiliary_value: q?, indices: i32, counts: i32, seqlens: i32, total: i32, cos: q?,"
		" sin: q?, position_ids: i64?, q_norm: q?, k_norm: q?, head_sink: q?)"
		" {attention_mode: str = \"selected_only\", auxiliary_kv_shared: int = 0,"
		" do_rotary: int = 0, is_causal: int = 1, kv_num_heads: int, local_window_size: int = -1,"
		" num_heads: int, qk_norm_epsilon: float = 1e-6, rotary_interleaved: int = 0,"
		" rotary_offset: int = 0, scale: float = 0, selected_kv_source: str = \"main\","
		" smooth_softmax: int = 0} -> y, present_key?, present_value?", build_dynamic_sparse,
		"attention to selected keys of a cache shared by heads"),
	{0}
};
