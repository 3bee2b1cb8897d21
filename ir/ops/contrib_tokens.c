/* com.microsoft: hashes, n-grams of token ids, alignments: what
 * language models have beside their layers. */
#include <float.h>
#include <string.h>
#include "ops.h"

/* ---- MurmurHash3 ----------------------------------------------------------------------------- */

static Node *
u32(Module *m, uint32_t v)
{
	return x_int(m, DT_U32, v);
}

static Node *
rotated(Module *m, Node *x, uint32_t r)
{
	return x_or(m, x2(m, O_SHL, x, u32(m, r)), x2(m, O_SHR, x, u32(m, 32 - r)));
}

static Node *
xor_shifted(Module *m, Node *x, uint32_t r)
{
	return x2(m, O_XOR, x, x2(m, O_SHR, x, u32(m, r)));
}

/* MurmurHash3_x86_32 (Austin Appleby, public domain) of n words. */
static Node *
murmur(Module *m, uint32_t seed, int n, Node *const *words)
{
	Node *h = u32(m, seed), *k;
	int i;

	for (i = 0; i < n; i++) {
		k = x_mul(m, rotated(m, x_mul(m, words[i], u32(m, 0xcc9e2d51)), 15), u32(m, 0x1b873593));
		h = rotated(m, x2(m, O_XOR, h, k), 13);
		h = x_add(m, x_mul(m, h, u32(m, 5)), u32(m, 0xe6546b64));
	}
	h = xor_shifted(m, x2(m, O_XOR, h, u32(m, 4 * (uint32_t)n)), 16);
	h = xor_shifted(m, x_mul(m, h, u32(m, 0x85ebca6b)), 13);
	return xor_shifted(m, x_mul(m, h, u32(m, 0xc2b2ae35)), 16);
}

static Node *
build_murmur_hash(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *axes[MAX_RANK], *words[2], *e;
	DType d = attr_int(b, "positive") ? DT_U32 : DT_I32;
	int64_t seed = attr_int(b, "seed");
	int n = dtypes[dtype_of(x)].bits / 32;

	if (seed < 0 || seed > UINT32_MAX)
		return fail(b, "seed is %lld, must be in [0, 2^32)", (long long)seed);
	if (dtype_of(x) == DT_STRING)
		return t_host(m, "str_hash", arena_printf(m->arena, "d 0 N #%lld", (long long)seed),
			ty_tensor(m, d, rank_of(x), x->type->dims), 1, b->in);
	axes_new(m, rank_of(x), x->type->dims, axes);
	e = x_read(m, x, axes);
	e = n == 2 ? x_bits(m, DT_U64, e) : x_bits(m, DT_U32, e);
	words[0] = x_cast(m, DT_U32, e);
	words[1] = n == 2 ? x_cast(m, DT_U32, x2(m, O_SHR, e, x_int(m, DT_U64, 32))) : NULL;
	return t_tensor(m, rank_of(x), axes, x_cast(m, d, murmur(m, (uint32_t)seed, n, words)));
}

/* ---- repeated n-grams ------------------------------------------------------------------------ */

/* Are the n - 1 ids before place i + n - 1 the last n - 1 of all? */
static Node *
repeats(Build *b, Node *ids, Node *starts, int64_t n)
{
	Module *m = b->m;
	Node *ax[2], *j = x_axis(m, x_idx(m, n - 1)), *e;

	ax[0] = x_axis(m, dim_of(ids, 0));
	ax[1] = x_axis(m, starts);
	e = x_add(m, x_addi(m, dim_of(ids, 1), 1 - n), j);
	e = x_eq(m, x_read(m, ids, (Node *[]){ax[0], x_add(m, ax[1], j)}),
		x_read(m, ids, (Node *[]){ax[0], e}));
	return t_tensor(m, 2, ax, n > 1 ? x_reduce(m, COMB_AND, 1, &j, e) : x_bool(m, true));
}

static Node *
build_ngram_repeat_block(Build *b)
{
	Module *m = b->m;
	Node *ids = b->in[0], *scores = b->in[1], *starts, *flags, *ax[2], *idx[2];
	int64_t n = attr_int(b, "ngram_size");

	if (rank_of(ids) != 2 || rank_of(scores) != 2 || n < 1 || n > 1 << 20)
		return fail(b, "ids of %d dimensions, scores of %d, ngram_size %lld", rank_of(ids),
			rank_of(scores), (long long)n);
	expect_dim(b, "the scores", dim_of(scores, 0), dim_of(ids, 0), false);
	starts = x_max(m, x_addi(m, dim_of(ids, 1), 1 - n), x_idx(m, 0));
	flags = repeats(b, ids, starts, n);
	ax[0] = idx[0] = x_axis(m, dim_of(ids, 0));
	ax[1] = x_axis(m, starts);
	idx[1] = x_read(m, ids, (Node *[]){ax[0], x_addi(m, ax[1], n - 1)});
	idx[1] = x2(m, O_BOUND, x_cast(m, DT_INDEX, idx[1]), dim_of(scores, 1));
	return t_scatter(m, COMB_SET, scores, 2, ax, idx, x_flt(m, dtype_of(scores), -__builtin_inf()),
		x_read(m, flags, ax));
}

/* ---- n-gram hashes --------------------------------------------------------------------------- */

/*
 * Ids by [sequence, place], history before place 0. packed: all sequences lie one after the other
 * in one dimension, sequence r in [ends[r], ends[r + 1]).
 */
typedef struct Grams {
	Build *b;
	Node *ids, *past, *segments, *past_segments, *ends, *none, *eos;
	int64_t most, heads;
	bool packed, reset;
} Grams;

/* Which sequence element t of a packed operand is of, as an index. */
static Node *
sequence_of(const Grams *g, Node *t)
{
	Module *m = g->b->m;
	Node *r = x_axis(m, x_addi(m, dim_of(g->ends, 0), -1)), *at, *e;

	at = x_addi(m, r, 1);
	e = x_le(m, x_cast(m, DT_INDEX, x_read(m, g->ends, &at)), t);
	e = x_reduce(m, COMB_SUM, 1, &r, x_select(m, e, x_int(m, DT_I32, 1), x_int(m, DT_I32, 0)));
	return x_min(m, x_cast(m, DT_INDEX, e),
		x_max(m, x_addi(m, dim_of(g->ends, 0), -2), x_idx(m, 0)));
}

/* i32[total]: the sequence of each packed element, and its place there. */
static void
packed_places(const Grams *g, Node **which, Node **place)
{
	Module *m = g->b->m;
	Node *t = x_axis(m, dim_of(g->ids, 0)), *r;

	*which = t_tensor(m, 1, &t, x_cast(m, DT_I32, sequence_of(g, t)));
	t = x_axis(m, dim_of(g->ids, 0));
	r = x_cast(m, DT_INDEX, x_read(m, *which, &t));
	r = x_sub(m, t, x_cast(m, DT_INDEX, x_read(m, g->ends, &r)));
	*place = t_tensor(m, 1, &t, x_cast(m, DT_I32, r));
}

/* An element `back` places before axes[]; from `past` where
 * that lies before the sequence, else `none`. */
static Node *
element_before(const Grams *g, Node *x, Node *past, Node *none, Node *const *seq,
	Node *const *place, int64_t back)
{
	Module *m = g->b->m;
	Node *p = x_addi(m, *place, -back), *at[2] = {*seq, p}, *e = none, *flat;

	if (past)
		e = x_read(m, past, (Node *[]){*seq, x_max(m, x_addi(m, p, g->most - 1), x_idx(m, 0))});
	if (!back && !g->packed)
		return x_read(m, x, at);
	if (g->packed) {
		flat = x_add(m, x_cast(m, DT_INDEX, x_read(m, g->ends, seq)), p);
		return x_select(m, x_le(m, x_idx(m, 0), p), x_read(m, x, &flat), e);
	}
	return x_select(m, x_le(m, x_idx(m, 0), p), x_read(m, x, at), e);
}

/* Sequence and place of the element at axes. */
static void
place_at(const Grams *g, Node *which, Node *places, Node *const *ax, Node **seq, Node **place)
{
	Module *m = g->b->m;

	*seq = g->packed ? x_cast(m, DT_INDEX, x_read(m, which, ax)) : ax[0];
	*place = g->packed ? x_cast(m, DT_INDEX, x_read(m, places, ax)) : ax[1];
}

/* The ids `back` places before, where nothing between them and the element ends a context. */
static Node *
shifted(const Grams *g, Node *which, Node *places, int64_t back)
{
	Module *m = g->b->m;
	Node *ax[2], *seq, *place, *e, *ok = x_bool(m, true), *edge;
	int r = rank_of(g->ids);
	int64_t i;

	axes_new(m, r, g->ids->type->dims, ax);
	place_at(g, which, places, ax, &seq, &place);
	e = element_before(g, g->ids, g->past, g->none, &seq, &place, back);
	for (i = 1; g->reset && i <= back; i++)
		ok = x_and(m, ok, x_ne(m, element_before(g, g->ids, g->past, g->none, &seq, &place, i),
			g->eos));
	for (i = 1; g->segments && i <= back; i++) {
		edge = x_int(m, DT_I32, 0);
		if (!g->past_segments)               /* no edge at or before the first element */
			edge = x_le(m, place, x_idx(m, i - 1));
		else
			edge = x_bool(m, false);
		ok = x_and(m, ok, x_select(m, edge, x_bool(m, true), x_eq(m,
			element_before(g, g->segments, g->past_segments, x_int(m, DT_I32, 0), &seq, &place,
			i - 1),
			element_before(g, g->segments, g->past_segments, x_int(m, DT_I32, 0), &seq, &place,
			i))));
	}
	return t_tensor(m, r, ax, x_select(m, ok, e, g->none));
}

/* The last most - 1 elements of history and sequence; none NULL:
 * of packed sequences that are not empty. */
static Node *
trailing(const Grams *g, Node *x, Node *past, Node *none)
{
	Module *m = g->b->m;
	Node *ax[2], *len, *next, *place;

	ax[0] = x_axis(m, g->packed ? x_addi(m, dim_of(g->ends, 0), -1) : dim_of(x, 0));
	ax[1] = x_axis(m, x_idx(m, g->most - 1));
	len = g->packed ? NULL : dim_of(x, 1);
	if (g->packed) {
		next = x_addi(m, ax[0], 1);
		len = x_sub(m, x_cast(m, DT_INDEX, x_read(m, g->ends, &next)),
			x_cast(m, DT_INDEX, x_read(m, g->ends, ax)));
	}
	place = x_add(m, x_add(m, len, ax[1]), x_idx(m, 1 - g->most));
	next = x_idx(m, 0);
	if (g->packed) {
		len = x_add(m, x_cast(m, DT_INDEX, x_read(m, g->ends, ax)), place);
		next = x_read(m, x, &len);
	} else
		next = x_read(m, x, (Node *[]){ax[0], place});
	if (past)
		none = x_read(m, past, (Node *[]){ax[0],
			x_max(m, x_addi(m, place, g->most - 1), x_idx(m, 0))});
	if (!none) {                                 /* what is missing is as the first element */
		len = x_cast(m, DT_INDEX, x_read(m, g->ends, ax));
		none = x_read(m, x, &len);
	}
	return t_tensor(m, 2, ax, x_select(m, x_le(m, x_idx(m, 0), place), next, none));
}

/* mix % size + offset for each head: [places..., orders * heads]. */
static Node *
hashes(const Grams *g, Node *multipliers, Node *sizes, Node *offsets)
{
	Module *m = g->b->m;
	Node *ax[3], *mix = NULL, *e = NULL, *which = NULL, *places = NULL, *k, *t, *order;
	int r = rank_of(g->ids);
	int64_t i;

	if (g->packed)
		packed_places(g, &which, &places);
	axes_new(m, r, g->ids->type->dims, ax);
	ax[r] = x_axis(m, x_idx(m, (g->most - 1) * g->heads));
	order = x_fdiv(m, ax[r], x_idx(m, g->heads));
	for (i = 0; i < g->most; i++) {
		k = x_idx(m, i);
		t = x_mul(m, x_read(m, shifted(g, which, places, i), ax), x_read(m, multipliers, &k));
		mix = mix ? x2(m, O_XOR, mix, t) : t;
		if (i)
			e = e ? x_select(m, x_lt(m, order, x_idx(m, i - 1)), e, mix) : mix;
	}
	e = x_mod(m, e, x_read(m, sizes, &ax[r]));
	return t_tensor(m, r + 1, ax, offsets ? x_add(m, e, x_read(m, offsets, &ax[r])) : e);
}

static bool
gram_args(Build *b, Grams *g)
{
	Module *m = b->m;
	DType d = dtype_of(b->in[0]);
	int64_t pad = attr_int(b, "pad_id"), most = attr_int(b, "max_ngram_size"),
		heads = attr_int(b, "n_head_per_ngram");

	g->b = b;
	g->most = most;
	g->heads = heads;
	if (most < 2 || most > 64 || heads < 1 || heads > 1 << 20)
		return fail(b, "max_ngram_size %lld, n_head_per_ngram %lld", (long long)most,
			(long long)heads) != NULL;
	if (rank_of(g->ids) != (g->packed ? 1 : 2) || rank_of(b->in[1]) != 1 || rank_of(b->in[2]) != 1)
		return fail(b, "the ids have %d dimensions, multipliers and sizes %d and %d",
			rank_of(g->ids), rank_of(b->in[1]),
			rank_of(b->in[2])) != NULL;
	if ((g->past && rank_of(g->past) != 2) || (g->ends && rank_of(g->ends) != 1))
		return fail(b, "past_ids or cumulative_sequence_length have unfit dimensions") != NULL;
	require(m, x_le(m, x_idx(m, most), dim_of(b->in[1], 0)), b->loc,
		"%s multipliers for n-grams of %lld",
		expr_print(m, dim_of(b->in[1], 0)), (long long)most);
	expect_dim(b, "vocab_sizes", dim_of(b->in[2], 0), x_idx(m, (most - 1) * heads), false);
	if (g->past)
		expect_dim(b, "past_ids", dim_of(g->past, 1), x_idx(m, most - 1), false);
	g->eos = g->eos ? scalar_arg(m, g->eos) : NULL;
	g->none = g->eos ? g->eos : x_int(m, d, pad);
	g->reset = g->eos && attr_int(b, "reset_on_eos") != 0;
	return true;
}

static Node *
build_ngram_hash(Build *b)
{
	Node **in = b->in, *out[2];
	Grams g = {.ids = in[0], .past = in[3], .eos = in[5], .segments = in[6]};

	if (!gram_args(b, &g))
		return NULL;
	if (g.segments && rank_of(g.segments) != 2)
		return fail(b, "segment_ids has %d dimensions, must have 2", rank_of(g.segments));
	if (g.segments)
		expect_shape(b, "segment_ids", g.segments, 2, g.ids->type->dims);
	out[0] = hashes(&g, in[1], in[2], in[4]);
	out[1] = trailing(&g, g.ids, g.past, g.none);
	return t_tuple(b->m, 2, out);
}

/* Trailing ids after each of the first capture_count[r] elements: [sequences, capacity, most -
 * 1]. */
static Node *
captured(const Grams *g, Node *count, int64_t capacity)
{
	Module *m = g->b->m;
	Node *ax[3], *len, *next, *ok, *place;

	ax[0] = x_axis(m, x_addi(m, dim_of(g->ends, 0), -1));
	ax[1] = x_axis(m, x_idx(m, capacity));
	ax[2] = x_axis(m, x_idx(m, g->most - 1));
	next = x_addi(m, ax[0], 1);
	len = x_sub(m, x_cast(m, DT_INDEX, x_read(m, g->ends, &next)),
		x_cast(m, DT_INDEX, x_read(m, g->ends, ax)));
	ok = x_lt(m, ax[1], x_min(m, len, x_cast(m, DT_INDEX, x_read(m, count, ax))));
	place = x_add(m, ax[1], x_addi(m, ax[2], 2 - g->most));
	next = element_before(g, g->ids, g->past, g->none, ax, &place, 0);
	return t_tensor(m, 3, ax,
		x_select(m, ok, next, x_int(m, dtype_of(g->ids), attr_int(g->b, "pad_id"))));
}

static Node *
build_varlen_ngram_hash(Build *b)
{
	Node **in = b->in, *out[4] = {NULL};
	Grams g = {.ids = in[0], .ends = in[3], .past = in[4], .eos = in[6], .segments = in[7],
		.past_segments = in[8],
		.packed = true};
	int64_t capacity = attr_int(b, "state_update_capacity");

	if (!gram_args(b, &g))
		return NULL;
	if (capacity < 0 || capacity > 8 || !in[9] != !capacity)
		return fail(b, "state_update_capacity is %lld; capture_count goes with one in [1, 8]",
			(long long)capacity);
	out[0] = hashes(&g, in[1], in[2], in[5]);
	out[1] = trailing(&g, g.ids, g.past, g.none);
	if (g.segments)
		out[2] = trailing(&g, g.segments, g.past_segments, NULL);
	if (capacity)
		out[3] = captured(&g, in[9], capacity);
	return t_tuple(b->m, 4, out);
}

/* ---- BifurcationDetector --------------------------------------------------------------------- */

/* How many of the predicted tokens are the source's from `from` on. */
static Node *
agreement(Build *b, Node *src, Node *pred, Node *from)
{
	Module *m = b->m;
	Node *i = x_axis(m, x_addi(m, dim_of(pred, 0), -1)), *at, *e,
		*n = x_addi(m, dim_of(pred, 0), -1);

	at = x2(m, O_BOUND, x_add(m, x_cast(m, DT_INDEX, x_read(m, from, NULL)), i), dim_of(src, 0));
	e = x_ne(m, x_read(m, pred, &i), x_read(m, src, &at));
	e = x_select(m, e, x_cast(m, DT_I64, i), x_cast(m, DT_I64, n));
	e = x_min(m, x_reduce(m, COMB_MIN, 1, &i, e), x_cast(m, DT_I64, n));
	return t_scalar_expr(m, DT_I64, e);
}

/* The places p of `src` where the last n tokens of `all` stand: their number and the first one. */
static void
suffix_places(Module *m, Node *src, Node *all, int64_t n, Node **count, Node **first)
{
	Node *p, *j, *e, *hits, *starts = x_max(m, x_addi(m, dim_of(src, 0), 1 - n), x_idx(m, 0));
	Node *before = x_max(m, x_addi(m, dim_of(all, 0), -n), x_idx(m, 0));

	p = x_axis(m, starts);
	j = x_axis(m, x_min(m, x_idx(m, n), dim_of(all, 0)));
	e = x_eq(m, x_read(m, src, (Node *[]){x_add(m, p, j)}),
		x_read(m, all, (Node *[]){x_add(m, before, j)}));
	hits = t_tensor(m, 1, &p, x_reduce(m, COMB_AND, 1, &j, e));
	p = x_axis(m, starts);
	*count = t_scalar_expr(m, DT_I64, x_reduce(m, COMB_SUM, 1, &p,
		x_select(m, x_read(m, hits, &p), x_int(m, DT_I64, 1), x_int(m, DT_I64, 0))));
	p = x_axis(m, starts);
	*first = t_scalar_expr(m, DT_I64, x_reduce(m, COMB_MIN, 1, &p,
		x_select(m, x_read(m, hits, &p), x_cast(m, DT_I64, p), x_int(m, DT_I64, INT64_MAX))));
}

/* The place after the only match of the shortest suffix that has one match; -1 where there is
 * none. */
static Node *
suffix_match(Build *b, Node *src, Node *all)
{
	Module *m = b->m;
	int64_t lo = attr_int(b, "min_ngram_size"), hi = attr_int(b, "max_ngram_size"), n;
	Node *r = x_int(m, DT_I64, -1), *none = x_int(m, DT_I64, -1), *count, *first, *end, *c, *ends;

	for (n = hi; n >= lo; n--) {
		suffix_places(m, src, all, n, &count, &first);
		c = x_read(m, count, NULL);
		end = x_add(m, x_read(m, first, NULL), x_int(m, DT_I64, n));
		ends = x_or(m, x_le(m, x_cast(m, DT_I64, dim_of(src, 0)), end),
			x_eq(m, c, x_int(m, DT_I64, 1)));
		r = x_select(m, x_eq(m, c, x_int(m, DT_I64, 0)), none, x_select(m, ends, end, r));
		r = x_select(m, x_lt(m, dim_of(all, 0), x_idx(m, n)), none, r);
	}
	return r;
}

static Node *
build_bifurcation(Build *b)
{
	Module *m = b->m;
	Node *src = b->in[0], *cur = b->in[1], *from, *pred = b->in[3], *all = cur, *n, *ax, *e, *at,
		*out[2];
	int64_t lo = attr_int(b, "min_ngram_size"), hi = attr_int(b, "max_ngram_size");

	if (rank_of(src) != 1 || rank_of(cur) != 1 || (pred && rank_of(pred) != 1) || lo < 1 ||
		hi < lo || hi > 64)
		return fail(b, "tokens must have one dimension; n-grams of %lld to %lld", (long long)lo,
			(long long)hi);
	if (pred) {
		from = t_scalar_expr(m, DT_I64, scalar_arg(m, b->in[2]));
		infer_elems(m, from);
		n = agreement(b, src, pred, from);
		n = extent(m, x_addi(m, x_cast(m, DT_INDEX, x_read(m, n, NULL)), 1));
		ax = x_axis(m, x_add(m, dim_of(cur, 0), n));
		at = x_sub(m, ax, dim_of(cur, 0));
		e = x_select(m, x_lt(m, ax, dim_of(cur, 0)), x_read(m, cur, &ax), x_read(m, pred, &at));
		all = t_tensor(m, 1, &ax, e);
	}
	out[0] = all;
	ax = x_axis(m, x_idx(m, 1));
	out[1] = t_tensor(m, 1, &ax, suffix_match(b, src, all));
	return t_tuple(m, 2, out);
}

/* ---- embeddings of words by their characters ------------------------------------------------- */

/* The maximum over places of tanh of a convolution over a
 * word's characters; 0 for words without any. */
static Node *
build_word_conv_embedding(Build *b)
{
	Module *m = b->m;
	Node *seq = b->in[0], *w = b->in[1], *bias = b->in[2], *table = b->in[3], *ax[3], *len, *k, *c,
		*e, *conv, *places;
	DType d = dtype_of(w);

	if (rank_of(seq) != 2 || rank_of(w) != 4 || rank_of(bias) != 1 || rank_of(table) != 2)
		return fail(b, "the operands have %d, %d, %d and %d dimensions, must have 2, 4, 1 and 2",
			rank_of(seq), rank_of(w),
			rank_of(bias), rank_of(table));
	expect_dim(b, "the second dimension of W", dim_of(w, 1), x_idx(m, 1), false);
	expect_dim(b, "the last dimension of W", dim_of(w, 3), dim_of(table, 1), false);
	expect_dim(b, "the bias", dim_of(bias, 0), dim_of(w, 0), false);
	require(m, x_le(m, dim_of(w, 2), dim_of(seq, 1)), b->loc, "windows of %s over words of %s",
		expr_print(m, dim_of(w, 2)),
		expr_print(m, dim_of(seq, 1)));
	ax[0] = x_axis(m, dim_of(seq, 0));
	k = x_axis(m, dim_of(seq, 1));
	e = x_lt(m, x_int(m, DT_I32, 0), x_read(m, seq, (Node *[]){ax[0], k}));
	e = x_reduce(m, COMB_SUM, 1, &k, x_select(m, e, x_int(m, DT_I32, 1), x_int(m, DT_I32, 0)));
	len = t_tensor(m, 1, ax,
		x_select(m, x_lt(m, x_int(m, DT_I32, 0), x_read(m, seq, (Node *[]){ax[0], x_idx(m, 0)})), e,
		x_int(m, DT_I32, 0)));
	ax[0] = x_axis(m, dim_of(seq, 0));
	places = x_addi(m, x_sub(m, dim_of(seq, 1), dim_of(w, 2)), 1);
	ax[1] = x_axis(m, places);
	ax[2] = x_axis(m, dim_of(w, 0));
	k = x_axis(m, dim_of(w, 2));
	c = x_axis(m, dim_of(w, 3));
	e = x2(m, O_BOUND, x_cast(m, DT_INDEX, x_read(m, seq, (Node *[]){ax[0], x_add(m, ax[1], k)})),
		dim_of(table, 0));
	e = sum_of_products(m, acc_type(d), 2, (Node *[]){k, c}, x_read(m, table, (Node *[]){e, c}),
		x_read(m, w, (Node *[]){ax[2], x_idx(m, 0), k, c}));
	conv = t_tensor(m, 3, ax, x1(m, O_TANH, x_add(m, e, x_read(m, bias, &ax[2]))));
	ax[0] = x_axis(m, dim_of(seq, 0));
	ax[1] = x_axis(m, dim_of(w, 0));
	k = x_axis(m, places);
	e = x_cast(m, DT_INDEX, x_read(m, len, ax));
	c = x_max(m, x_addi(m, x_sub(m, e, dim_of(w, 2)), 1), x_idx(m, 1));
	c = x_reduce(m, COMB_MAX, 1, &k,
		x_select(m, x_lt(m, k, c), x_read(m, conv, (Node *[]){ax[0], k, ax[1]}),
		x_int(m, d, -1)));
	return t_tensor(m, 2, ax, x_select(m, x_lt(m, x_idx(m, 0), e), c, x_int(m, d, 0)));
}

/* ---- dynamic time warping -------------------------------------------------------------------- */

enum { DIAGONAL, UP, LEFT };

/*
 * One round a diagonal of [rows, cols]: costs of the two before it are carried by row, index i + 1
 * for row i; the step that leads to each cell is stacked: [diagonals, rows].
 */
static Node *
warp_steps(Build *b, Node *x)
{
	Module *m = b->m;
	Node *rows = dim_of(x, 0), *cols = dim_of(x, 1), *init[2], *ax, *trip, *c[3], *d, *j, *e, *i1,
		*inf = x_flt(m, DT_F32,
		__builtin_inf()), *in, *loop;
	Region *body = region_new(m, "body");
	int k;

	/* of diagonals -1 and -2: only the corner before all costs nothing */
	for (k = 0; k < 2; k++) {
		ax = x_axis(m, x_addi(m, rows, 1));
		init[k] = t_tensor(m, 1, &ax,
			k ? x_select(m, x_eq(m, ax, x_idx(m, 0)), x_int(m, DT_F32, 0), inf) : inf);
	}
	body->nparams = 3;
	body->params = NEWN(m, Node *, 3);
	body->params[0] = trip = t_param(m, "round", ty_tensor(m, DT_I64, 0, NULL), 0);
	body->params[1] = t_param(m, "last", init[0]->type, 1);
	body->params[2] = t_param(m, "before", init[1]->type, 2);
	ax = x_axis(m, rows);
	i1 = x_addi(m, ax, 1);
	c[DIAGONAL] = x_read(m, body->params[2], &ax);
	c[UP] = x_read(m, body->params[1], &ax);
	c[LEFT] = x_read(m, body->params[1], &i1);
	e = x_select(m, x_and(m, x_lt(m, c[UP], c[DIAGONAL]), x_lt(m, c[UP], c[LEFT])),
		x_int(m, DT_I32, UP),
		x_int(m, DT_I32, LEFT));
	e = x_select(m, x_and(m, x_lt(m, c[DIAGONAL], c[UP]), x_lt(m, c[DIAGONAL], c[LEFT])),
		x_int(m, DT_I32, DIAGONAL), e);
	Node *steps = t_tensor(m, 1, &ax, e);
	ax = x_axis(m, x_addi(m, rows, 1));
	d = x_addi(m, ax, -1);
	j = x_sub(m, x_cast(m, DT_INDEX, x_read(m, trip, NULL)), d);
	in = x_and(m, x_and(m, x_le(m, x_idx(m, 0), d), x_le(m, x_idx(m, 0), j)), x_lt(m, j, cols));
	e = x_cast(m, DT_INDEX, x_read(m, steps, &d));
	e = x_select(m, x_eq(m, e, x_idx(m, DIAGONAL)), x_read(m, body->params[2], &d),
		x_select(m, x_eq(m, e, x_idx(m, UP)),
		x_read(m, body->params[1], &d), x_read(m, body->params[1], &ax)));
	e = x_select(m, in, x_add(m, e, x_read(m, x, (Node *[]){d, j})), inf);
	region_add(m, body, t_scalar(m, DT_BOOL, (Num){.i = 1}));
	region_add(m, body, t_tensor(m, 1, &ax, e));
	region_add(m, body, body->params[1]);
	region_add(m, body, steps);
	loop = loop_build(b, t_scalar_expr(m, DT_I64, x_addi(m, x_add(m, rows, cols), -1)), NULL, 2,
		init, body);
	return loop ? t_result(m, loop, 2) : NULL;
}

/* Back from the last cell to the first: the cells [length, 2], in that order. */
static Node *
warp_path(Build *b, Node *x, Node *steps)
{
	Module *m = b->m;
	Node *init[1], *ax, *cell, *i, *j, *e, *more, *loop, *zero = x_idx(m, 0), *one = x_idx(m, 1),
		*at[2];
	Region *body = region_new(m, "body");

	ax = x_axis(m, x_idx(m, 2));
	init[0] = t_tensor(m, 1, &ax,
		x_cast(m, DT_I32, x_addi(m, x_select(m, x_eq(m, ax, zero), dim_of(x, 0), dim_of(x, 1)),
		-1)));
	body->nparams = 2;
	body->params = NEWN(m, Node *, 2);
	body->params[0] = t_param(m, "round", ty_tensor(m, DT_I64, 0, NULL), 0);
	body->params[1] = cell = t_param(m, "cell", init[0]->type, 1);
	i = x_cast(m, DT_INDEX, x_read(m, cell, &zero));
	j = x_cast(m, DT_INDEX, x_read(m, cell, &one));
	at[1] = x2(m, O_BOUND, i, dim_of(x, 0));
	at[0] = x2(m, O_BOUND, x_add(m, i, j), dim_of(steps, 0));
	more = t_scalar_expr(m, DT_I32, x_read(m, steps, at));
	ax = x_axis(m, x_idx(m, 2));
	e = x_select(m, x_eq(m, ax, zero), x_int(m, DT_I32, LEFT), x_int(m, DT_I32, UP));
	e = x_select(m, x_eq(m, x_read(m, more, NULL), e), x_int(m, DT_I32, 0), x_int(m, DT_I32, 1));
	init[0]->loc = b->loc;
	Node *next = t_tensor(m, 1, &ax, x_sub(m, x_read(m, cell, &ax), e));
	e = x_and(m, x_le(m, x_int(m, DT_I32, 0), x_read(m, next, &zero)),
		x_le(m, x_int(m, DT_I32, 0), x_read(m, next, &one)));
	region_add(m, body, t_scalar_expr(m, DT_BOOL, e));
	region_add(m, body, next);
	region_add(m, body, cell);
	loop = loop_build(b, NULL, NULL, 1, init, body);
	return loop ? t_result(m, loop, 1) : NULL;
}

static Node *
build_dynamic_time_warping(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *steps, *path, *ax[2], *at[2];
	int r = rank_of(x);

	if (r != 2 && r != 3)
		return fail(b, "the costs have %d dimensions, must have 2", r);
	if (r == 3)
		expect_dim(b, "the first dimension", dim_of(x, 0), x_idx(m, 1), false);
	x = r == 3 ? reshape(m, x, 2, x->type->dims + 1) : x;
	require(m, x_and(m, x_lt(m, x_idx(m, 0), dim_of(x, 0)), x_lt(m, x_idx(m, 0), dim_of(x, 1))),
		b->loc, "there are no costs");
	steps = warp_steps(b, x);
	path = steps ? warp_path(b, x, steps) : NULL;
	if (!path)
		return NULL;
	ax[0] = at[1] = x_axis(m, x_idx(m, 2));
	ax[1] = x_axis(m, dim_of(path, 0));
	at[0] = x_sub(m, x_addi(m, dim_of(path, 0), -1), ax[1]);
	return t_tensor(m, 2, ax, x_read(m, path, at));
}

#define GRAMS "max_ngram_size: int, n_head_per_ngram: int, pad_id: int, reset_on_eos: int = 0"

const Op ops_contrib_tokens[] = {
	BUILD("murmur_hash3", MS("MurmurHash3"), 1,
		"(x: i32|u32|i64|u64|f32|f64|string) {positive: int = 1, seed: int = 0} -> y",
		build_murmur_hash, "32-bit hashes"),
	BUILD("ngram_repeat_block", MS("NGramRepeatBlock"), 1,
	"(ids: i64, scores: f32) {ngram_size: int} -> y",
		build_ngram_repeat_block, "-inf for tokens that would repeat an n-gram"),
	BUILD("ngram_hash_mapping", MS("NGramHashMapping"), 1,
	"(ids: idx, multipliers: ids, vocab_sizes: ids, past_ids: ids?,"
		" head_offsets: ids?, eos: ids?, segment_ids: i32?) {" GRAMS "} -> y, present_ids?",
		build_ngram_hash,
		"hashes of each token's n-grams"),
	BUILD("varlen_ngram_hash_mapping", MS("VarlenNGramHashMapping"), 1,
	"(ids: idx, multipliers: ids, vocab_sizes: ids,"
		" ends: i32, past_ids: ids?, head_offsets: ids?, eos: ids?, segment_ids: i32?,"
		" past_segment_ids: i32?,"
		" capture_count: i32?) {" GRAMS ", state_update_capacity: int = 0}"
		" -> y, present_ids?, present_segment_ids?, state_update?", build_varlen_ngram_hash,
		"hashes of n-grams in sequences one after the other"),
	BUILD("bifurcation_detector", MS("BifurcationDetector"), 1,
	"(src: i64, cur: i64, prev: i64, pred: i64?)"
		" {max_ngram_size: int = 3, min_ngram_size: int = 1} -> tokens, suffix_match",
		build_bifurcation,
		"predicted tokens as far as the source has them, and where their end stands there"),
	BUILD("word_conv_embedding", MS("WordConvEmbedding"), 1,
	"(words: i32, w: f32, bias: f32, table: f32)"
		" {char_embedding_size: int?, conv_window_size: int?, embedding_size: int?} -> y",
		build_word_conv_embedding,
		"words by their characters' embeddings"),
	STRUCT("dynamic_time_warping", MS("DynamicTimeWarping"), 1, "(costs: f32) {} -> path",
	build_dynamic_time_warping,
		"the cheapest path through a matrix of costs"),
	{0}
};
