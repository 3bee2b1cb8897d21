/*
 * Attention on a CPU with lanes across queries (attend_cpu.c has the blocks): a tile of scores is
 * keys by queries. Keys are then read as they lie, each element for all lanes, only the block's
 * queries are copied, once for all keys; and maxima, exponentials and sums of the softmax are those
 * of each lane, with nothing to combine across them. What the softmax is of (scale, mask) is
 * computed on the tile in registers, and what is stored is
 *
 *	exps[k][q] = x, then exp(x - max)
 *
 * whose second product has its lanes along the values' columns, as with lanes along the keys.
 *
 * It takes scores that stay within the kernel. What they meet and lies apart for queries side by
 * side (a bias for each query and key, with the keys together) is copied for each block, by squares
 * of it that are transposed.
 */
#include <stdlib.h>
#include "attend_cpu.h"

/* Keys whose maximum is found in a tree; bytes of the queries' copy; vectors of a tile;
 * reads that are copied. */
enum { TREE = 8, MAX_QUERIES = 1 << 17, WIDE = 4, MAX_APART = 4 };

/* ---- form ------------------------------------------------------------------------------------ */

/* What the softmax is of, over the score's axes and in terms of its sum of products. */
static Node *
softmax_operand(Flash *f)
{
	Module *m = f->m;
	const Attention *a = &f->a;
	Node **list, *body = subst(m, a->score->in[a->score->nin - 1], &f->score, false),
		*x = attend_at_row(f, a->x, a->score->in[a->row]);
	Map map = {0};
	int i, n;

	x = subst1(m, x, a->key, a->score->in[a->nouter]);
	list = topo_scalar(x, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_READ && list[i]->in[0] == a->score)
			map_put(&map, list[i], body);
	free(list);
	x = x_cast(m, f->type, subst(m, x, &map, false));
	map_free(&map);
	return x;
}

/* Does the read vary from query to query, and do they not lie side by side in memory? */
static bool
lies_apart(Flash *f, Node *read, const Node *row)
{
	Node *stride = contains(read, row) ? elem_stride(f->kb, read, (Node *)row) : NULL;

	return contains(read, row) && !(stride && (is_intv(stride, 0) || is_intv(stride, 1)));
}

/* The reads beside the sum that lie apart, none in another one; how many, MAX_APART + 1 for more. */
static int
apart(Flash *f, Node **read)
{
	const Attention *a = &f->a;
	Node **list, *row = a->score->in[a->row],
		*rest = subst1(f->m, f->x, f->across.reduce, x_int(f->m, f->type, 0));
	int i, k, n, count = 0;

	list = topo_scalar(rest, &n);
	for (i = n; i-- > 0 && count <= MAX_APART;) {
		if (list[i]->code != O_READ || !lies_apart(f, list[i], row))
			continue;
		for (k = 0; k < count && !contains(read[k], list[i]); k++)
			;
		if (k == count)
			read[count++] = list[i];
	}
	free(list);
	return count;
}

/* Does e read anything for a query that lies beside what it reads for the next? */
static bool
reads_row(Flash *f, Node *e)
{
	Node **list, *row = f->a.score->in[f->a.row];
	int i, n;
	bool yes = false;

	e = subst1(f->m, e, f->across.reduce, x_int(f->m, f->type, 0));
	list = topo_scalar(e, &n);
	for (i = 0; i < n && !yes; i++)
		yes = list[i]->code == O_READ && contains(list[i], row) && !map_get(&f->kb->local, list[i]->in[0]);
	free(list);
	return yes;
}

static int64_t
depths(const Contraction *c, int64_t *red)
{
	int64_t depth = 1;
	int i;

	for (i = 0; i < c->nred; i++) {
		red[i] = const_or(c->red[i]->in[0], -1);
		depth = red[i] > 0 ? sat_mul(depth, red[i]) : INT64_MAX;
	}
	return depth;
}

/* Its tile for so many vectors of queries, or less. */
static void
pick_tile(Flash *f, Contraction *c, int vectors)
{
	int lanes = lanes_of(f->kb->s, f->type);

	pick_registers(f->kb->s, c, &(Tiling){.d = f->type, .sums = 1, .parts = 1,
		.m = const_or(f->a.key->in[0], 0), .n = (int64_t)vectors * lanes});
	if (c->nr > vectors * lanes)
		c->nr = vectors * lanes;
}

bool
across_fits(Flash *f, const Group *g)
{
	const Attention *a = &f->a;
	Contraction *c = &f->across;
	Module *m = f->m;
	Node *row = a->score->in[a->row], *read[MAX_APART + 1];
	int64_t red[MAX_RANK];
	int lanes = lanes_of(f->kb->s, f->type), vectors = f->rows / lanes;

	if (scores_leave(g, a) || !contraction_along(f->kb->s, a->score, row, c) || c->whole != c->reduce
	 || c->unit || c->reduce->type->dtype != f->type
	 || depths(c, red) > MAX_QUERIES / (f->rows * (int64_t)dtypes[c->eb->type->dtype].bits / 8))
		return false;
	c->ea = subst(m, c->ea, &f->score, false);
	c->eb = subst(m, c->eb, &f->score, false);
	c->b = subst(m, c->b, &f->score, false);
	c->whole = c->reduce = subst(m, c->reduce, &f->score, false);
	pick_tile(f, c, vectors < WIDE ? vectors : WIDE);
	f->rest = *c;
	f->rest.nr = f->rows % c->nr;
	if (f->rest.nr)
		pick_tile(f, &f->rest, f->rest.nr / lanes);
	f->x = softmax_operand(f);
	return apart(f, read) <= MAX_APART;
}

/* ---- scores ---------------------------------------------------------------------------------- */

void
across_open(Flash *f, Region *r)
{
	Contraction c = f->across;
	int64_t red[MAX_RANK];

	depths(&c, red);
	c.nr = f->rows;
	copy_panel(f->kb, r, &c, f->q0, red);
	f->queries = c.b;
}

/* What the softmax is of, with copies of what lies apart for the block's queries and keys. */
static Node *
copy_apart(Flash *f, Region *r)
{
	const Attention *a = &f->a;
	Module *m = f->m;
	Node *read[MAX_APART + 1], *key = a->score->in[a->nouter], *k = x_axis(m, f->nkeys), *at;
	Map map = {0};
	int64_t keys = f->keys;
	int i, n = apart(f, read);

	for (i = 0; i < n && i < MAX_APART; i++) {
		Contraction c = {.reduce = f->across.reduce, .n = a->score->in[a->row], .nr = f->rows,
			.nred = 1, .red = {k}, .eb = subst1(m, read[i], key, x_add(m, f->k0, k))};

		copy_panel(f->kb, r, &c, f->q0, &keys);
		at = x_sub(m, key, f->k0);
		map_put(&map, read[i], subst1(m, c.b, k, at));
	}
	at = subst(m, f->x, &map, false);
	map_free(&map);
	return at;
}

/* Tiles of the queries [first, first + count). */
static void
score_columns(Flash *f, Region *r, const Contraction *shape, Node *x, Node *first, Node *count)
{
	const Attention *a = &f->a;
	Contraction c = *shape;
	Node *q = a->score->in[a->row], *k = a->score->in[a->nouter];
	Tile t = {.c = &c, .t = f->exps, .m = k, .base = f->k0, .body = x, .padded = true,
		.past_end = f->past_end, .idx = {q, k}};

	c.b = c.eb = f->queries;
	attend_tiles(f, r, &t, first, count, f->nkeys, NULL);
}

void
across_scores(Flash *f, Region *r)
{
	Module *m = f->m;
	int wide = f->rows / f->across.nr * f->across.nr;
	Node *full = x_idx(m, wide), *x = copy_apart(f, r);
	Region *rest;

	f->past_end = !reads_row(f, x);
	if (!f->rest.nr) {
		score_columns(f, r, &f->across, x, f->q0, f->nrows);
		return;
	}
	score_columns(f, r, &f->across, x, f->q0, x_min(m, full, f->nrows));
	rest = region_new(m, NULL);
	score_columns(f, rest, &f->rest, x, x_add(m, f->q0, full), x_sub(m, f->nrows, full));
	l_when(m, r, x_lt(m, full, f->nrows), rest, NULL);
}

/* ---- softmax --------------------------------------------------------------------------------- */

/* a if b is not above it, a NaN in b included: the sum of exponentials has it. */
static Node *
higher(Module *m, Node *a, Node *b)
{
	return x_select(m, x_lt(m, a, b), b, a);
}

static Node *
exp_at(Flash *f, Node *q, Node *k)
{
	return x_read(f->m, f->exps, (Node *[]){x_add(f->m, f->q0, q), x_add(f->m, f->k0, k)});
}

/* best = max(best, x of n keys from k on) */
static void
raise(Flash *f, Region *r, Node *best, Node *q, Node *k, int n)
{
	Module *m = f->m;
	Node *x[TREE], *zero = x_idx(m, 0);
	int i, s;

	for (i = 0; i < n; i++)
		x[i] = l_let(m, r, kb_emit(f->kb, r, exp_at(f, q, x_addi(m, k, i))));
	for (s = 1; s < n; s *= 2)
		for (i = 0; i + s < n; i += 2 * s)
			x[i] = l_let(m, r, higher(m, x[i], x[i + s]));
	attend_set(f, r, best, zero, higher(m, attend_cell(f, best, zero), x[0]));
}

/* The largest of a row's x, and what there was. */
static Node *
row_max(Flash *f, Region *r, Node *q)
{
	Module *m = f->m;
	Node *one = x_idx(m, 1), *zero = x_idx(m, 0), *k, *trees = x_fdiv(m, f->nkeys, x_idx(m, TREE)),
		*done = x_muli(m, trees, TREE),
		*best = l_alloc(m, r, l_buffer(m, "best", f->type, SP_REG, 1, &one));
	Region *in;

	attend_set(f, r, best, zero, attend_cell(f, f->max, q));
	in = attend_loop(f, r, trees, &k);
	raise(f, in, best, q, x_muli(m, k, TREE), TREE);
	in = attend_loop(f, r, x_sub(m, f->nkeys, done), &k);
	raise(f, in, best, q, x_add(m, done, k), 1);
	return l_let(m, r, attend_cell(f, best, zero));
}

/* Leaves exp(x - shift) in the row's x; their sum. */
static Node *
row_exps(Flash *f, Region *r, Node *q, Node *shift)
{
	Module *m = f->m;
	Node *one = x_idx(m, 1), *zero = x_idx(m, 0), *k, *e,
		*sum = l_alloc(m, r, l_buffer(m, "sum", f->type, SP_REG, 1, &one));
	Region *in;

	attend_set(f, r, sum, zero, x_int(m, f->type, 0));
	in = attend_loop(f, r, f->nkeys, &k);
	e = kb_emit(f->kb, in, math_exp_low(m, x_sub(m, exp_at(f, q, k), shift)));
	e = l_let(m, in, e);
	local_store(f->kb, in, map_get(&f->kb->local, f->exps),
		(Node *[]){x_add(m, f->q0, q), x_add(m, f->k0, k)}, e);
	attend_set(f, in, sum, zero, x_add(m, attend_cell(f, sum, zero), e));
	return attend_cell(f, sum, zero);
}

/* As long as all x are -inf nothing is subtracted from them, as with lanes along the keys. */
static void
softmax_lane(KB *kb, Region *r, Node *q, void *ctx)
{
	Flash *f = ctx;
	Module *m = kb->m;
	Node *low = x_comb_identity(m, COMB_MAX, f->type), *new, *shift, *rise;

	new = row_max(f, r, q);
	shift = l_let(m, r, x_select(m, x_eq(m, new, low), x_int(m, f->type, 0), new));
	rise = l_let(m, r, kb_emit(kb, r, math_exp_low(m, x_sub(m, attend_cell(f, f->max, q), shift))));
	attend_set(f, r, f->sum, q,
		x_add(m, x_mul(m, attend_cell(f, f->sum, q), rise), row_exps(f, r, q, shift)));
	attend_set(f, r, f->rise, q, rise);
	attend_set(f, r, f->max, q, new);
}

void
across_softmax(Flash *f, Region *r)
{
	Module *m = f->m;
	int lanes = lanes_of(f->kb->s, f->type);
	Node *n = f->past_end ? x_muli(m, x_ceildiv(m, f->nrows, x_idx(m, lanes)), lanes) : f->nrows;

	vector_loop(f->kb, r, n, lanes, softmax_lane, f);
}
