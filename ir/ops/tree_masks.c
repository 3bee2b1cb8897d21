/*
 * Trees of few leaves without walks. Each inner node says which leaves its outcome rules out: a
 * mask of bits if its condition holds, another if not. The masks of all nodes of a tree together
 * leave the one leaf that a row reaches, so that a row's leaf is a reduction, of equal length for
 * all trees, without branches and without addresses that depend on it (QuickScorer, Lucchese et
 * al., SIGIR 2015, which has one mask a node and takes the first leaf that is left).
 *
 * Leaves are taken 32 at once, in the order of a walk from the left: a part of a tree has the nodes
 * above its leaves. A row that reaches none of them leaves none. Conditions are all brought to the
 * form y <= t, false for NaN, where y is a feature or its negation.
 */
#include <math.h>
#include <stdlib.h>
#include "trees.h"

enum {
	BITS = 32,
	LINE = 16,             /* places of a table that fill a cache line and most vectors */
	MAX_DEPTH = 64, MAX_NODES = 1 << 17,   /* of all parts */
	MAX_WEIGHTS = 1 << 22,
	LINE_COST = 16,        /* steps that are worth what follows them, */
	BIN_COST = 10 * LINE   /* and places' steps, a further sum */
};

/* A part's nodes stand from first on among the entries, its leaves among the leaves. */
typedef struct Entry { int64_t node; uint32_t if_true, if_false; } Entry;
typedef struct Part { int64_t first, n, leaf; int nleaves; } Part;

typedef struct Masks {
	Build *b;
	const Forest *f;
	const TreeList *list;
	Part *parts;
	Entry *entries;
	int64_t nparts, nentries;
	bool full;             /* too many */
} Masks;

/* Columns from..to-1 of parts by length: a reduction of as many steps as the longest takes. */
typedef struct Bin { int64_t from, to, steps, width; } Bin;    /* width: places of a row */

/* ---- conditions ------------------------------------------------------------------------------ */

/* The condition as y <= t: y is -x if negated; if turned, its outcomes change places. */
typedef struct Test { double t; bool negated, turned; } Test;

static bool
test_of(const TreeNode *n, DType c, Test *r)
{
	double t = num_round(c, n->value).f;
	bool less = n->mode == LEQ || n->mode == LT, strict = n->mode == LT || n->mode == GT;

	if (n->mode > GT || isnan(t))
		return false;
	if (n->missing_true) {                   /* its negation is the one that is false for NaN */
		less = !less;
		strict = !strict;
	}
	*r = (Test){less ? t : -t, !less, n->missing_true};
	if (strict)
		r->t = below_threshold(c, r->t);
	return true;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Bits from leaf a to leaf z of the part. */
static uint32_t
bits(const Part *p, int64_t a, int64_t z)
{
	uint32_t r = 0;

	for (a = a < p->leaf ? p->leaf : a; a < z && a < p->leaf + p->nleaves; a++)
		r |= (uint32_t)1 << (a - p->leaf);
	return r;
}

static void
add_part(Masks *k, int64_t tree, int64_t leaf, int nleaves)
{
	const TreeList *list = k->list;
	Part *p = &k->parts[k->nparts++];
	uint32_t all;
	int64_t i;

	*p = (Part){.first = k->nentries, .leaf = leaf, .nleaves = nleaves};
	all = bits(p, leaf, leaf + nleaves);
	for (i = list->first_span[tree]; i < list->first_span[tree + 1]; i++) {
		const Span *s = &list->spans[i];
		if (s->hi <= leaf || s->lo >= leaf + nleaves)
			continue;
		if (k->nentries == MAX_NODES) {
			k->full = true;
			return;
		}
		k->entries[k->nentries++] = (Entry){s->node, all & ~bits(p, s->mid, s->hi),
			all & ~bits(p, s->lo, s->mid)};
	}
	if (list->first_span[tree] == list->first_span[tree + 1])       /* a lone leaf */
		k->entries[k->nentries++] = (Entry){-1, all, all};
	p->n = k->nentries - p->first;
}

static int
by_length(const void *x, const void *y)
{
	const Part *a = x, *b = y;

	return a->n != b->n ? (a->n < b->n ? -1 : 1) : (a->first > b->first) - (a->first < b->first);
}

static bool
make_parts(Masks *k)
{
	int64_t i, from, to, n;

	for (i = 0; i < k->f->ntrees && !k->full; i++) {
		to = k->list->first_leaf[i + 1];
		for (from = k->list->first_leaf[i]; from < to && !k->full; from += n) {
			n = to - from < BITS ? to - from : BITS;
			add_part(k, i, from, (int)n);
		}
	}
	qsort(k->parts, (size_t)k->nparts, sizeof *k->parts, by_length);
	return !k->full;
}

/* ---- places ---------------------------------------------------------------------------------- */

/* Where the parts stand, a column's longest first of all. */
static Layout
lay_parts(const Masks *k, int64_t *length)
{
	Module *m = k->b->m;
	int64_t *target = NEWN(m, int64_t, k->nparts + 1), i, *c;
	Layout y;

	for (i = 0; i < k->nparts; i++)
		target[i] = leaves_target(k->list, k->parts[i].leaf,
			k->parts[i].leaf + k->parts[i].nleaves);
	y = lay_rows(m, target, k->nparts, k->f->ntargets);
	for (i = 0; i < k->nparts; i++) {
		c = &length[y.column[i]];
		*c = k->parts[i].n > *c ? k->parts[i].n : *c;
	}
	return y;
}

/* ---- bins ------------------------------------------------------------------------------------ */

static int64_t
in_lines(int64_t n)
{
	return (n + LINE - 1) / LINE * LINE;
}

static int64_t
bin_cost(const Layout *y, const int64_t *length, int64_t from, int64_t to)
{
	return from == to ? 0
		: (in_lines(to - from) * (length[to - 1] + LINE_COST) + BIN_COST) * y->rows;
}

/* The next column from i on before which a bin may end: between lengths. */
static int64_t
next_cut(const Layout *y, const int64_t *length, int64_t i)
{
	for (i++; i < y->columns && length[i] == length[i - 1]; i++)
		;
	return i;
}

/* Columns of like length together, in at most three bins. Returns their cost. */
static int64_t
make_bins(const Layout *y, const int64_t *length, Bin *bin)
{
	int64_t i, j, c, n = y->columns, best = INT64_MAX, cut[4] = {0, 0, 0, n};

	for (i = 0; i < n; i = next_cut(y, length, i))
		for (j = i; j < n; j = next_cut(y, length, j)) {
			c = bin_cost(y, length, 0, i) + bin_cost(y, length, i, j) + bin_cost(y, length, j, n);
			if (c < best) {
				best = c;
				cut[1] = i, cut[2] = j;
			}
		}
	for (i = 0; i < 3; i++)
		bin[i] = (Bin){cut[i], cut[i + 1], cut[i + 1] > cut[i] ? length[cut[i + 1] - 1] : 0,
			in_lines(cut[i + 1] - cut[i])};
	return best;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Does the part stand in the bin? Then at which of its places. */
static bool
in_bin(const Layout *y, const Bin *b, int64_t part, int64_t *place)
{
	*place = y->row[part] * b->width + y->column[part] - b->from;
	return y->column[part] >= b->from && y->column[part] < b->to;
}

/* [targets, places of a row, leaves and none] */
static Node *
weight_table(Masks *k, const Layout *y, const Bin *b, DType c, Comb comb)
{
	Module *m = k->b->m;
	Laid *laid = NEWN(m, Laid, k->nparts + 1);
	int64_t i, n = 0, place;

	for (i = 0; i < k->nparts; i++)
		if (in_bin(y, b, i, &place))
			laid[n++] = (Laid){k->parts[i].leaf, k->parts[i].nleaves, place};
	return lay_weights(m, k->list, laid, n, &(WeightTable){y->rows, b->width, BITS + 1, c, comb});
}

typedef struct Tables {
	Node *feature, *threshold, *if_false, *change;   /* change: bits in which if_true differs */
	bool negated;
	int64_t features;
} Tables;

/* Tables [steps, places]; what no part fills changes nothing. Bit 31 of a feature: it and not its
 * negation is compared. */
static bool
make_tables(Masks *k, const Layout *y, const Bin *b, DType c, Tables *t)
{
	Module *m = k->b->m;
	int64_t dims[2] = {b->steps, y->rows * b->width}, n = dims[0] * dims[1], i, s, at, place;
	Data *d[4] = {data_new(m, DT_I32, n, NULL), data_new(m, c, n, NULL),
		data_new(m, DT_I32, n, NULL), data_new(m, DT_I32, n, NULL)};

	for (i = 0; i < n; i++) {
		data_set((void *)d[1]->bytes, c, i, (Num){.f = NAN});
		((int32_t *)d[2]->bytes)[i] = -1;
	}
	for (i = 0; i < k->nparts; i++)
		for (s = 0; s < k->parts[i].n && in_bin(y, b, i, &place); s++) {
			const Entry *e = &k->entries[k->parts[i].first + s];
			const TreeNode *node = e->node < 0 ? NULL : &k->f->nodes[e->node];
			Test test = {NAN, false, false};
			at = s * dims[1] + place;
			if (node && !test_of(node, c, &test))
				return false;
			t->negated |= test.negated;
			if (node && node->feature >= t->features)
				t->features = node->feature + 1;
			((uint32_t *)d[0]->bytes)[at] = (node ? (uint32_t)node->feature : 0)
				| (uint32_t)!test.negated << 31;
			data_set((void *)d[1]->bytes, c, at, (Num){.f = test.t});
			((uint32_t *)d[2]->bytes)[at] = test.turned ? e->if_true : e->if_false;
			((uint32_t *)d[3]->bytes)[at] = e->if_true ^ e->if_false;
		}
	t->feature = t_const(m, DT_I32, 2, dims, d[0]);
	t->threshold = t_const(m, c, 2, dims, d[1]);
	t->if_false = t_const(m, DT_I32, 2, dims, d[2]);
	t->change = t_const(m, DT_I32, 2, dims, d[3]);
	return true;
}

/* y with its sign turned where f has no bit 31. */
static Node *
turn_sign(Module *m, Node *y, Node *f)
{
	DType c = y->type->dtype, d = c == DT_F64 ? DT_I64 : DT_I32;
	Node *s = x_and(m, x1(m, O_NOT, f), x_int(m, DT_I32, INT32_MIN));

	if (d == DT_I64)
		s = x2(m, O_SHL, x_cast(m, d, s), x_int(m, d, 32));
	return x_bits(m, c, x2(m, O_XOR, x_bits(m, d, y), s));
}

/* The number of the leaf that the row reaches in the part that stands at the place; BITS: none. */
static Node *
leaf_number(Module *m, const Tables *t, Node *x, DType c, Node *row, Node *place)
{
	Node *step = x_axis(m, dim_of(t->feature, 0)), *at[2] = {step, place}, *idx[2] = {row}, *y, *f,
		*e;
	int64_t range = 1;

	while (range < t->features)
		range *= 2;
	f = x_read(m, t->feature, at);
	idx[1] = x_min(m, x_cast(m, DT_INDEX, x_and(m, f, x_int(m, DT_I32, range - 1))),
		x_idx(m, t->features > 0 ? t->features - 1 : 0));
	y = x_cast(m, c, x_read(m, x, idx));
	if (t->negated)
		y = turn_sign(m, y, f);
	e = x_select(m, x_le(m, y, x_read(m, t->threshold, at)), x_read(m, t->change, at),
		x_int(m, DT_I32, 0));
	e = x_reduce(m, COMB_AND, 1, &step, x2(m, O_XOR, x_read(m, t->if_false, at), e));
	return x1(m, O_POPCNT, x_sub(m, e, x_int(m, DT_I32, 1)));
}

/* What a bin's parts give to the row and the target; NULL: no masks will do. Leaf numbers that
 * several targets need are a tensor of their own. */
static Node *
bin_sum(Masks *k, const Layout *y, const Bin *b, Node *x, DType c, Comb comb, Node *row,
	Node *target)
{
	Module *m = k->b->m;
	Tables t = {.features = 0};
	Node *part = x_axis(m, x_idx(m, b->width)), *idx[3] = {target, part}, *at[2], *leaf;

	if (k->f->ntargets * b->width > MAX_WEIGHTS / (BITS + 1) || !make_tables(k, y, b, c, &t))
		return NULL;
	if (y->rows == 1 && k->f->ntargets > 1) {
		axes_new(m, 2, (Node *[]){dim_of(x, 0), part->in[0]}, at);
		leaf = t_tensor(m, 2, at, leaf_number(m, &t, x, c, at[0], at[1]));
		leaf = x_read(m, leaf, (Node *[]){row, part});
	} else
		leaf = leaf_number(m, &t, x, c, row, x_add(m, x_muli(m, target, b->width), part));
	idx[2] = x_min(m, x_max(m, x_cast(m, DT_INDEX, leaf), x_idx(m, 0)), x_idx(m, BITS));
	return x_reduce(m, comb, 1, &part, x_read(m, weight_table(k, y, b, c, comb), idx));
}

Node *
forest_by_masks(Build *b, const TreeList *list, Node *x, DType c, Comb comb, double below)
{
	Module *m = b->m;
	const Forest *f = list->f;
	Masks k = {.b = b, .f = f, .list = list};
	Node *axes[2] = {x_axis(m, dim_of(x, 0)), x_axis(m, x_idx(m, f->ntargets))}, *sum = NULL, *e;
	Layout y;
	Bin bin[3];
	int64_t *length;
	int i;

	if (f->depth > MAX_DEPTH)
		return NULL;
	k.entries = NEWN(m, Entry, MAX_NODES + 1);
	k.parts = NEWN(m, Part, MAX_NODES);
	if (!make_parts(&k))
		return NULL;
	length = NEWN(m, int64_t, k.nparts + 1);
	y = lay_parts(&k, length);
	if ((double)make_bins(&y, length, bin) > below)
		return NULL;
	for (i = 0; i < 3; i++) {
		if (bin[i].from == bin[i].to)
			continue;
		e = bin_sum(&k, &y, &bin[i], x, c, comb, axes[0], axes[1]);
		if (!e)
			return NULL;
		sum = sum ? x_comb(m, comb, sum, e) : e;
	}
	return t_tensor(m, 2, axes, sum);
}
