/*
 * com.microsoft: sequences without their padding, attention over them, and biases by position.
 * Packed rows [tokens, ...] are the real tokens of [batch, sequence], in order; token_offset lists
 * their places there, then those of the padding.
 */
#include <math.h>
#include "attention.h"

/* ---- padding --------------------------------------------------------------------------------- */

/* The counts [batch] within [0, sequence], as indices. */
static Node *
count_of(Module *m, Node *counts, Node *entry, Node *sequence)
{
	Node *n = x_cast(m, DT_INDEX, x_read(m, counts, &entry));

	return x_min(m, x_max(m, n, x_idx(m, 0)), sequence);
}

/* The places below n of tokens, or of padding. */
static Node *
token_places(Build *b, Node *counts, Node *n, Node *sequence, bool padding)
{
	Module *m = b->m;
	Node *at = x_axis(m, n), *e;

	e = x_lt(m, x_mod(m, at, sequence),
		count_of(m, counts, x_fdiv(m, at, sequence), sequence));
	return places_of(b, n, at, padding ? x_not(m, e) : e);
}

static Node *
build_remove_padding(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *counts = b->in[1], *n, *B, *S, *real, *rest, *ax[2], *at[3], *e, *out[4];

	if (rank_of(x) != 3 || rank_of(counts) != 1)
		return fail(b, "the operands have %d and %d dimensions, must have 3 and 1", rank_of(x),
			rank_of(counts));
	B = dim_of(x, 0);
	S = dim_of(x, 1);
	n = x_mul(m, B, S);
	expect_dim(b, "sequence_token_count", dim_of(counts, 0), B, false);
	real = token_places(b, counts, n, S, false);
	rest = token_places(b, counts, n, S, true);
	ax[0] = x_axis(m, dim_of(real, 0));
	ax[1] = at[2] = x_axis(m, dim_of(x, 2));
	e = x2(m, O_BOUND, x_cast(m, DT_INDEX, x_read(m, real, ax)), n);
	at[0] = x_fdiv(m, e, S);
	at[1] = x_mod(m, e, S);
	out[0] = t_tensor(m, 2, ax, x_read(m, x, at));
	axes_new(m, 2, x->type->dims, ax);
	e = x_add(m, x_mul(m, ax[0], S), ax[1]);
	at[0] = x_sub(m, e, dim_of(real, 0));
	e = x_select(m, x_lt(m, e, dim_of(real, 0)), x_read(m, real, &e), x_read(m, rest, at));
	out[1] = t_tensor(m, 2, ax, x_cast(m, DT_I32, e));
	ax[0] = x_axis(m, x_addi(m, B, 1));
	ax[1] = x_axis(m, B);
	e = x_select(m, x_lt(m, ax[1], ax[0]), count_of(m, counts, ax[1], S), x_idx(m, 0));
	e = x_reduce(m, COMB_SUM, 1, &ax[1], x_cast(m, DT_I32, e));
	out[2] = t_tensor(m, 1, ax, e);
	ax[0] = x_axis(m, x_idx(m, 1));
	ax[1] = x_axis(m, B);
	e = x_reduce(m, COMB_MAX, 1, &ax[1], x_cast(m, DT_I32, count_of(m, counts, ax[1], S)));
	out[3] = t_tensor(m, 1, ax, x_max(m, e, x_int(m, DT_I32, 0)));
	return t_tuple(m, 4, out);
}

static bool
offsets_arg(Build *b, Node *x, Node *offsets)
{
	Module *m = b->m;
	Node *n;

	if (rank_of(offsets) != 2)
		return fail(b, "token_offset has %d dimensions, must have 2", rank_of(offsets)) != NULL;
	n = numel(m, offsets);
	require(m, x_le(m, dim_of(x, 0), n), b->loc, "%s tokens in %s places",
		expr_print(m, dim_of(x, 0)), expr_print(m, n));
	return true;
}

/* Where token t lies in [batch, sequence], flat. */
static Node *
token_place(Module *m, Node *offsets, Node *t)
{
	Node *S = dim_of(offsets, 1), *at[2] = {x_fdiv(m, t, S), x_mod(m, t, S)};

	return x2(m, O_BOUND, x_cast(m, DT_INDEX, x_read(m, offsets, at)), numel(m, offsets));
}

/* Rows [tokens, columns] as [batch, sequence, columns], zeros for the padding. */
static Node *
restored(Build *b, Node *x, Node *offsets)
{
	Module *m = b->m;
	Node *dims[3] = {numel(m, offsets), dim_of(x, 1)}, *ax[2], *idx[2], *base;

	axes_new(m, 2, dims, ax);
	base = t_tensor(m, 2, ax, x_int(m, dtype_of(x), 0));
	axes_new(m, 2, x->type->dims, ax);
	idx[0] = token_place(m, offsets, ax[0]);
	idx[1] = ax[1];
	x = t_distinct(m, t_scatter(m, COMB_SET, base, 2, ax, idx, x_read(m, x, ax), NULL));
	dims[0] = dim_of(offsets, 0);
	dims[1] = dim_of(offsets, 1);
	dims[2] = dim_of(x, 1);
	return reshape(m, x, 3, dims);
}

static Node *
build_restore_padding(Build *b)
{
	if (rank_of(b->in[0]) != 2)
		return fail(b, "the operand has %d dimensions, must have 2", rank_of(b->in[0]));
	return offsets_arg(b, b->in[0], b->in[1]) ? restored(b, b->in[0], b->in[1]) : NULL;
}

/* ---- attention ------------------------------------------------------------------------------- */

typedef struct Packed { Node *offsets, *ends, *bias; } Packed;

/* Keys of the padding are hidden. */
static Node *
packed_bias(Att *a, Node *n, Node *h, Node *i, Node *j)
{
	Module *m = a->b->m;
	Packed *p = a->arg;
	DType d = dtype_of(a->q);
	Node *next = x_addi(m, n, 1), *length, *at[4] = {n, h, i, j}, *e = x_int(m, d, 0);
	int c;

	length = x_sub(m, x_read(m, p->ends, &next), x_read(m, p->ends, &n));
	for (c = 0; p->bias && c < 2; c++)
		at[c] = is_intv(dim_of(p->bias, c), 1) ? x_idx(m, 0) : at[c];
	if (p->bias)
		e = x_read(m, p->bias, at);
	return x_select(m, x_lt(m, j, x_cast(m, DT_INDEX, length)), e, x_flt(m, d, -INFINITY));
}

static bool
packed_args(Build *b, Packed *p, Node *x, int first)
{
	Node *B, *S;

	*p = (Packed){.offsets = b->in[first], .ends = b->in[first + 1], .bias = b->in[first + 2]};
	if (!offsets_arg(b, x, p->offsets))
		return false;
	if (rank_of(p->ends) != 1 || (p->bias && rank_of(p->bias) != 4))
		return fail(b, "cumulative_sequence_length or attention_bias has unfit dimensions") != NULL;
	B = dim_of(p->offsets, 0);
	S = dim_of(p->offsets, 1);
	expect_dim(b, "cumulative_sequence_length", dim_of(p->ends, 0), x_addi(b->m, B, 1), false);
	if (p->bias) {
		expect_dim(b, "attention_bias", dim_of(p->bias, 0), B, true);
		expect_dim(b, "attention_bias", dim_of(p->bias, 2), S, false);
		expect_dim(b, "attention_bias", dim_of(p->bias, 3), S, false);
	}
	return true;
}

/* Attention of a's operands; its rows of `tokens` tokens. */
static Node *
packed_attention(Att *a, Packed *p, Node *tokens)
{
	Module *m = a->b->m;
	Node *y, *ax[2], *at[3], *place;

	if (p->bias)
		expect_dim(a->b, "attention_bias", dim_of(p->bias, 1), dim_of(a->q, 1), true);
	a->bias = packed_bias;
	a->arg = p;
	if (!attention(a))
		return NULL;
	y = join_heads(m, a, true);
	ax[0] = x_axis(m, tokens);
	ax[1] = at[2] = x_axis(m, dim_of(y, 2));
	place = token_place(m, p->offsets, ax[0]);
	at[0] = x_fdiv(m, place, dim_of(y, 1));
	at[1] = x_mod(m, place, dim_of(y, 1));
	return t_tensor(m, 2, ax, x_read(m, y, at));
}

/* Columns for queries, keys and values, each in whole heads. */
static bool
column_counts(Build *b, Node *columns, int64_t heads, Node **d)
{
	Module *m = b->m;
	const int64_t *sizes;
	int n, i;

	attr_ints(b, "qkv_hidden_sizes", &n, &sizes);
	if (n != 0 && n != 3)
		return fail(b, "qkv_hidden_sizes has %d entries, must have 3", n) != NULL;
	for (i = 0; i < n; i++)
		if (sizes[i] < heads || sizes[i] > 1 << 24 || sizes[i] % heads)
			return fail(b, "qkv_hidden_sizes has the entry %lld", (long long)sizes[i]) != NULL;
	for (i = 0; i < 3; i++)
		d[i] = n ? x_idx(m, sizes[i]) : x_fdiv(m, columns, x_idx(m, 3));
	require(m, x_and(m, x_eq(m, x_add(m, x_add(m, d[0], d[1]), d[2]), columns),
		x_eq(m, x_mod(m, d[0], x_idx(m, heads)), x_idx(m, 0))), b->loc,
		"the projection has %s columns", expr_print(m, columns));
	return true;
}

static Node *
build_packed_attention(Build *b)
{
	Module *m = b->m;
	Node *x = call2(b, "matmul", b->in[0], b->in[1]), *d[3], *first = x_idx(m, 0), *size[3];
	int64_t heads = head_count(b, "num_heads");
	Att a = {.b = b, .scale = attr_float(b, "scale")};
	Packed p;
	int i;

	if (!(x = call2(b, "add", x, b->in[2])) || !heads)
		return NULL;
	if (rank_of(x) != 2)
		return fail(b, "the projection has %d dimensions, must have 2", rank_of(x));
	if (!packed_args(b, &p, x, 3) || !column_counts(b, dim_of(x, 1), heads, d))
		return NULL;
	a.softmax = dtype_of(x);
	for (i = 0; i < 3; i++)
		size[i] = x_fdiv(m, d[i], x_idx(m, heads));
	x = restored(b, x, p.offsets);
	a.q = split_heads(b, x, heads, first, size[0]);
	a.k = split_heads(b, x, heads, d[0], size[1]);
	a.v = split_heads(b, x, heads, x_add(m, d[0], d[1]), size[2]);
	return packed_attention(&a, &p, dim_of(b->in[0], 0));
}

/* Queries, keys and values as rows, given apart or together. */
static bool
packed_rows(Build *b, int64_t heads, Node **x)
{
	Module *m = b->m;
	Node **in = b->in;
	int i;

	if (!in[1] != !in[2] || rank_of(in[0]) != (in[1] ? 2 : 4)
	 || (in[1] && (rank_of(in[1]) != 2 || rank_of(in[2]) != 2)) || (in[3] && rank_of(in[3]) != 1))
		return fail(b, "query, key, value or bias have unfit dimensions") != NULL;
	if (!in[1]) {
		expect_dim(b, "the heads", dim_of(in[0], 1), x_idx(m, heads), false);
		expect_dim(b, "the packed operands", dim_of(in[0], 2), x_idx(m, 3), false);
	}
	for (i = 0; i < 3; i++) {
		x[i] = in[1] ? in[i] : packed_part(m, in[0], i);
		require(m, x_eq(m, x_mod(m, dim_of(x[i], 1), x_idx(m, heads)), x_idx(m, 0)), b->loc,
			"%s columns for %lld heads", expr_print(m, dim_of(x[i], 1)), (long long)heads);
		expect_dim(b, "an operand", dim_of(x[i], 0), dim_of(x[0], 0), false);
	}
	expect_dim(b, "the key", dim_of(x[1], 1), dim_of(x[0], 1), false);
	if (in[3])
		expect_dim(b, "the bias", dim_of(in[3], 0),
			x_add(m, x_muli(m, dim_of(x[0], 1), 2), dim_of(x[2], 1)), false);
	return true;
}

static Node *
build_packed_multi_head(Build *b)
{
	Module *m = b->m;
	int64_t heads = head_count(b, "num_heads");
	Att a = {.b = b, .scale = attr_float(b, "scale"), .softmax = dtype_of(b->in[0])};
	Node *x[3] = {NULL}, *from = x_idx(m, 0), **to[3] = {&a.q, &a.k, &a.v};
	Packed p;
	int i;

	if (!heads || !packed_rows(b, heads, x) || !packed_args(b, &p, x[0], 4))
		return NULL;
	for (i = 0; i < 3; i++) {
		Node *D = dim_of(x[i], 1), *rows = restored(b, x[i], p.offsets);
		*to[i] = biased_columns(b, rows, b->in[3], heads, x_idx(m, 0), from,
			x_fdiv(m, D, x_idx(m, heads)));
		from = x_add(m, from, D);
	}
	return packed_attention(&a, &p, dim_of(x[0], 0));
}

/* ---- biases by position ---------------------------------------------------------------------- */

/*
 * T5's bucket of key j for query i (arXiv:1910.10683; computed in f32): distances below half of
 * the buckets have one each, longer ones share them by their logarithm up to max_distance.
 */
static Node *
position_bucket(Build *b, Node *i, Node *j, Node *buckets)
{
	Module *m = b->m;
	bool both = attr_int(b, "is_bidirectional") != 0;
	Node *n = both ? x_fdiv(m, buckets, x_idx(m, 2)) : buckets, *few = x_fdiv(m, n, x_idx(m, 2));
	Node *far = x_sub(m, i, j), *e, *ratio, *most = x_flt(m, DT_F32, 0), *start = x_idx(m, 0);

	if (both) {
		start = x_select(m, x_lt(m, i, j), n, start);
		far = x_max(m, far, x_sub(m, j, i));
	} else
		far = x_max(m, far, x_idx(m, 0));
	e = x_cast(m, DT_F32, x_max(m, far, few));
	ratio = x_cast(m, DT_F32, few);
	most = x2(m, O_DIV, x_flt(m, DT_F32, (double)attr_int(b, "max_distance")), ratio);
	e = x2(m, O_DIV, x1(m, O_LOG, x2(m, O_DIV, e, ratio)), x1(m, O_LOG, most));
	e = x_mul(m, e, x_cast(m, DT_F32, x_sub(m, n, few)));
	e = x_min(m, e, x_cast(m, DT_F32, n));       /* the cast is of numbers that it holds */
	e = x_add(m, few, x_cast(m, DT_INDEX, x_cast(m, DT_I32, e)));
	e = x_select(m, x_lt(m, far, few), far, x_min(m, e, x_addi(m, n, -1)));
	return x_add(m, start, e);
}

/* The table's elements lie by columns: those of a head one after the other. */
static Node *
build_relative_bias(Build *b)
{
	Module *m = b->m;
	Node *table = b->in[0], *buckets, *n, *flat, *ax[4], *e, *least;
	int64_t most = attr_int(b, "max_distance");
	int i;

	if (rank_of(table) != 2)
		return fail(b, "the table has %d dimensions, must have 2", rank_of(table));
	buckets = dim_of(table, 0);
	least = x_idx(m, attr_int(b, "is_bidirectional") ? 4 : 2);
	require(m, x_le(m, least, buckets), b->loc, "%s buckets", expr_print(m, buckets));
	n = x_fdiv(m, buckets, least);
	require(m, x_lt(m, n, x_idx(m, most)), b->loc, "max_distance is %lld for %s buckets",
		(long long)most, expr_print(m, buckets));
	n = numel(m, table);
	flat = reshape(m, table, 1, &n);
	ax[0] = x_axis(m, x_idx(m, 1));
	ax[1] = x_axis(m, dim_of(table, 1));
	for (i = 0; i < 2; i++)
		ax[2 + i] = x_axis(m, extent(m, x_cast(m, DT_INDEX, scalar_arg(m, b->in[1 + i]))));
	e = position_bucket(b, ax[2], ax[3], buckets);
	e = x2(m, O_BOUND, x_add(m, x_mul(m, ax[1], buckets), e), n);
	return t_tensor(m, 4, ax, x_read(m, flat, &e));
}

/* 1 / (1 + exp(-sum of half the columns of x [batch, heads, queries, columns])), in f32. */
static Node *
half_gate(Module *m, Node *x, bool second)
{
	Node *ax[4], *half = x_fdiv(m, dim_of(x, 3), x_idx(m, 2)), *k = x_axis(m, half), *e,
		*one = x_flt(m, DT_F32, 1);

	axes_new(m, 3, x->type->dims, ax);
	ax[3] = second ? x_add(m, k, half) : k;
	e = x_reduce(m, COMB_SUM, 1, &k, x_cast(m, DT_F32, x_read(m, x, ax)));
	return t_tensor(m, 3, ax,
		x2(m, O_DIV, one, x_add(m, one, x1(m, O_EXP, x1(m, O_NEG, e)))));
}

static bool
gated_bias_args(Build *b, Node *x, int64_t heads)
{
	Module *m = b->m;
	Node **in = b->in, *N = x_idx(m, heads), *size = x_fdiv(m, dim_of(x, 2), N), *S = dim_of(x, 1),
		*D = dim_of(in[3], 1), *one = x_idx(m, 1);

	require(m, x_eq(m, x_muli(m, size, heads), dim_of(x, 2)), b->loc, "%s columns for %lld heads",
		expr_print(m, dim_of(x, 2)), (long long)heads);
	require(m, x_eq(m, x_mod(m, D, x_idx(m, 2)), x_idx(m, 0)), b->loc,
		"the weights have %s columns, no even number", expr_print(m, D));
	expect_shape(b, "query_bias", in[1], 1, (Node *[]){dim_of(x, 2)});
	expect_shape(b, "rel_pos", in[2], 4, (Node *[]){one, N, S, S});
	expect_shape(b, "the weights", in[3], 2, (Node *[]){size, D});
	expect_shape(b, "the bias", in[4], 1, &D);
	expect_shape(b, "eco_a", in[5], 4, (Node *[]){one, N, one, one});
	return true;
}

static Node *
build_gated_relative_bias(Build *b)
{
	static const int ranks[] = {0, 1, 4, 2, 1, 4};
	Module *m = b->m;
	Node **in = b->in, *x = in[0], *u, *r, *ax[4], *at[4], *e, *zero = x_idx(m, 0), *one;
	int64_t heads = head_count(b, "num_heads");
	int i;

	if (!heads)
		return NULL;
	for (i = 1; i < 6; i++)
		if (rank_of(in[i]) != ranks[i])
			return fail(b, "operand %d has %d dimensions, must have %d", i, rank_of(in[i]),
				ranks[i]);
	if (rank_of(x) != (in[6] ? 2 : 3))
		return fail(b, "the query has %d dimensions", rank_of(x));
	if (in[6] && !offsets_arg(b, x, in[6]))
		return NULL;
	x = in[6] ? restored(b, x, in[6]) : x;
	if (!gated_bias_args(b, x, heads))
		return NULL;
	x = biased_columns(b, x, in[1], heads, zero, zero, dim_of(in[3], 0));
	x = call2(b, "add", call2(b, "matmul", x, in[3]), in[4]);
	if (!x)
		return NULL;
	u = half_gate(m, x, false);
	r = half_gate(m, x, true);
	axes_new(m, 4, (Node *[]){dim_of(x, 0), dim_of(x, 1), dim_of(x, 2), dim_of(x, 2)}, ax);
	at[0] = at[2] = at[3] = zero;
	at[1] = ax[1];
	one = x_flt(m, DT_F32, 1);
	e = x_mul(m, x_read(m, r, ax), x_cast(m, DT_F32, x_read(m, in[5], at)));
	e = x_mul(m, x_read(m, u, ax), x_sub(m, e, one));
	at[2] = ax[2];
	at[3] = ax[3];
	e = x_mul(m, x_add(m, e, x_flt(m, DT_F32, 2)), x_cast(m, DT_F32, x_read(m, in[2], at)));
	return t_tensor(m, 4, ax, x_cast(m, dtype_of(x), e));
}

const Op ops_contrib_packed[] = {
	BUILD("remove_padding", MS("RemovePadding"), 1,
		"(x: float, counts: i32) {} -> y, token_offset, ends, longest", build_remove_padding,
		"the rows of tokens, without those of padding"),
	BUILD("restore_padding", MS("RestorePadding"), 1, "(x: float, token_offset: i32) {} -> y",
		build_restore_padding, "rows of tokens among zeros for the padding"),
	BUILD("packed_attention", MS("PackedAttention"), 1,
		"(x: float, w: x, bias: x, token_offset: i32, ends: i32, attention_bias: x?)"
		" {num_heads: int, qkv_hidden_sizes: ints?, scale: float = 0} -> y",
		build_packed_attention, "attention with its projection, of rows without padding"),
	BUILD("packed_multi_head_attention", MS("PackedMultiHeadAttention"), 1,
		"(q: float, k: q?, v: q?, bias: q?, token_offset: i32, ends: i32, attention_bias: q?)"
		" {mask_filter_value: float = -10000, num_heads: int, scale: float = 0} -> y",
		build_packed_multi_head, "attention of rows without padding"),
	BUILD("relative_position_bias", MS("RelativePositionBias"), 1,
		"(table: float, queries: i64, keys: i64)"
		" {is_bidirectional: int = 0, max_distance: int} -> y", build_relative_bias,
		"scores by the distance of a key"),
	BUILD("gated_relative_position_bias", MS("GatedRelativePositionBias"), 1,
		"(q: float, q_bias: q, scores: q, w: q, bias: q, eco_a: q, token_offset: i32?)"
		" {num_heads: int} -> y", build_gated_relative_bias,
		"scores by position, gated by the query"),
	{0}
};
