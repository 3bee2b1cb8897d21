/*
 * Forests by intervals. The conditions on a feature cut its values into intervals, in each of which
 * every one of them has one outcome, whatever its kind. A table holds, for each interval, which
 * leaves these outcomes leave, a bit each. A row's leaves are then the bits that are left by the
 * intervals of all its features: one row of the table a feature, and-ed, with no node looked at
 * (QuickScorer's masks, Lucchese et al., SIGIR 2015, and-ed in advance).
 *
 * The table grows with conditions times leaves; cut into groups of trees, with intervals of their
 * own, it shrinks by their number, at the price of more lookups. A tree has a word for each 32
 * leaves; trees of like size form a group.
 *
 * An interval is (cut before, its cut]; behind the last cut there is one more, then that of NaN.
 * The number of cuts below x is found in two steps, in blocks of cuts and then within one, by
 * counting: x <= cut is false for NaN even of the infinity that fills up the blocks, so that NaN
 * counts most.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "trees.h"

enum {
	BITS = 32, LINE = 16,
	MAX_GROUPS = 16,
	MAX_TABLES = 1 << 22,  /* bytes of all groups' */
	MAX_WEIGHTS = 1 << 22, MAX_CUTS = 1 << 20,
	/* costs in steps of masks for one place, see forest_by_masks; of a line: */
	KEYS_COST = 4, AND_COST = 4, LOOKUP_COST = 40,
	FEATURE_COST = 20, ROW_COST = 8, GROUP_COST = 200,
	TABLE_COST = 1 << 19   /* bytes that make each line of the table dearer by a line's cost */
};

typedef struct Cut { int32_t feature; double at; } Cut;

/* Its cuts. */
typedef struct Feature { int32_t feature; int64_t from, to; } Feature;

/* Trees of columns from..to-1 of the layout. */
typedef struct Group {
	int64_t from, to, width, parts, leaves;
	int64_t nfeatures, nrows;            /* with a condition in them; of the table */
	double cost, bytes;
} Group;

struct Intervals {
	const TreeList *list;
	DType c;
	Layout at;             /* of trees, by order */
	int64_t *order;        /* trees by leaves */
	Cut *cuts;             /* sorted, distinct */
	int64_t ncuts;
	int64_t *first, *cut;  /* of a span: its cuts */
	int *seen, stamp;      /* of a cut: when it was last */
	Feature *feature;      /* those that are asked for, in order */
	int64_t nfeatures, most;       /* most: cuts of a feature */
	Group group[MAX_GROUPS];
	int ngroups;
};

/* ---- cuts ------------------------------------------------------------------------------------ */

static int64_t
cuts_of(const Intervals *v, const TreeNode *n)
{
	const double *set = v->list->f->members + (int64_t)n->value;
	int64_t k = 0;

	if (n->mode != MEMBER)
		return n->mode == EQ || n->mode == NEQ ? 2 : 1;
	while (!isnan(set[k]))
		k++;
	return k ? 2 * k : 1;
}

/* Cut k of a condition. Where nothing is to be cut it is below all. */
static double
cut_of(const Intervals *v, const TreeNode *n, int64_t k)
{
	bool below = n->mode == LT || n->mode == GTE || k % 2;
	double x = num_round(v->c, n->mode != MEMBER ? n->value
		: v->list->f->members[(int64_t)n->value + k / 2]).f;

	if (below && !isnan(x))
		x = below_threshold(v->c, x);
	return isnan(x) ? -INFINITY : x;
}

static int
by_cut(const void *x, const void *y)
{
	const Cut *a = x, *b = y;

	return a->feature != b->feature ? (a->feature < b->feature ? -1 : 1)
		: (a->at > b->at) - (a->at < b->at);
}

/* All conditions' cuts in their order, or their places among the sorted ones, in v->cut. */
static bool
list_cuts(Intervals *v, bool sorted)
{
	const TreeList *l = v->list;
	int64_t i, k, n = 0;

	for (i = 0; i < l->nspans; v->first[++i] = n) {
		const TreeNode *t = &l->f->nodes[l->spans[i].node];
		for (k = cuts_of(v, t); k-- > 0; n++) {
			Cut c = {t->feature, cut_of(v, t, k)};
			if (n == MAX_CUTS)
				return false;
			if (sorted)
				v->cut[n] = (Cut *)bsearch(&c, v->cuts, (size_t)v->ncuts, sizeof c, by_cut)
					- v->cuts;
			else
				v->cuts[n] = c;
		}
	}
	v->ncuts = sorted ? v->ncuts : n;
	return true;
}

static void
find_features(Module *m, Intervals *v)
{
	Feature *f = v->feature = NEWN(m, Feature, v->ncuts + 1);
	int64_t i;

	for (i = 0; i < v->ncuts; i++) {
		if (i == 0 || v->cuts[i].feature != v->cuts[i - 1].feature)
			f[v->nfeatures++] = (Feature){v->cuts[i].feature, i, i};
		f[v->nfeatures - 1].to = i + 1;
		if (i + 1 - f[v->nfeatures - 1].from > v->most)
			v->most = i + 1 - f[v->nfeatures - 1].from;
	}
}

static bool
find_cuts(Module *m, Intervals *v)
{
	int64_t i, n = 0;

	v->first = NEWN(m, int64_t, v->list->nspans + 1);
	v->cuts = NEWN(m, Cut, MAX_CUTS);
	if (!list_cuts(v, false))
		return false;
	v->cut = NEWN(m, int64_t, v->ncuts + 1);
	qsort(v->cuts, (size_t)v->ncuts, sizeof *v->cuts, by_cut);
	for (i = 0; i < v->ncuts; i++)
		if (n == 0 || by_cut(&v->cuts[n - 1], &v->cuts[i]) != 0)
			v->cuts[n++] = v->cuts[i];
	v->ncuts = n;
	v->seen = NEWN(m, int, n + 1);
	find_features(m, v);
	return list_cuts(v, true);
}

/* Does the condition hold for x? */
static bool
holds(const Intervals *v, const TreeNode *n, double x)
{
	double t = num_round(v->c, n->value).f;
	const double *p;

	if (isnan(x) && n->missing_true)
		return true;
	switch (n->mode) {
	case LEQ: return x <= t;
	case LT: return x < t;
	case GTE: return x >= t;
	case GT: return x > t;
	case EQ: return x == t;
	case NEQ: return x != t;
	default: break;
	}
	for (p = v->list->f->members + (int64_t)n->value; !isnan(*p); p++)
		if (x == num_round(v->c, *p).f)
			return true;
	return false;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static int64_t
in_lines(int64_t n)
{
	return (n + LINE - 1) / LINE * LINE;
}

static bool
in_group(const Intervals *v, const Group *g, int64_t k)
{
	return v->at.column[k] >= g->from && v->at.column[k] < g->to;
}

/* Marks the cuts of the group's trees. */
static void
mark_cuts(Intervals *v, const Group *g)
{
	const TreeList *l = v->list;
	int64_t k, i;

	v->stamp++;
	for (k = 0; k < l->f->ntrees; k++)
		if (in_group(v, g, k))
			for (i = v->first[l->first_span[v->order[k]]];
			     i < v->first[l->first_span[v->order[k] + 1]]; i++)
				v->seen[v->cut[i]] = v->stamp;
}

/* Cuts of a block, such that there are no more blocks than that; most + 1 must have room. */
static int64_t
block_of(int64_t most)
{
	int64_t b = LINE;

	while (b * b < most + 1)
		b *= 2;
	return b;
}

static int64_t
blocks_of(int64_t most)
{
	return (most + block_of(most)) / block_of(most);
}

static int64_t
counts_of(const Intervals *v)                   /* of cuts below a value: from 0, of NaN most */
{
	return blocks_of(v->most) * block_of(v->most) + 1;
}

static Group
group_of(Intervals *v, int64_t from, int64_t to)
{
	const TreeList *l = v->list;
	Group g = {.from = from, .to = to, .width = in_lines(to - from)};
	int64_t i, n, k, words;
	double lines;

	mark_cuts(v, &g);
	for (k = 0; k < v->nfeatures; k++) {
		for (i = v->feature[k].from, n = 0; i < v->feature[k].to; i++)
			n += v->seen[i] == v->stamp;
		g.nfeatures += n > 0;
		g.nrows += n > 0 ? n + 2 : 0;
	}
	for (i = 0; i < l->f->ntrees; i++) {
		n = l->first_leaf[v->order[i] + 1] - l->first_leaf[v->order[i]];
		if (in_group(v, &g, i) && n > g.leaves)
			g.leaves = n;
	}
	g.parts = (g.leaves + BITS - 1) / BITS;
	words = g.parts * v->at.rows * g.width;
	g.bytes = 4 * ((double)g.nrows * (double)words + (double)(g.nfeatures * counts_of(v)));
	lines = (double)words / LINE * (1 + (g.bytes < 1 << 20 ? g.bytes : 1 << 20) / TABLE_COST);
	g.cost = GROUP_COST + (double)g.nfeatures * (ROW_COST + AND_COST * lines)
		+ LOOKUP_COST * (double)(l->f->ntargets * g.width) / LINE;
	return g;
}

/* Groups of least cost; ends are multiples of some lines. */
static bool
make_groups(Intervals *v)
{
	int64_t n = v->at.columns, step = in_lines((n + MAX_GROUPS - 1) / MAX_GROUPS), i, j;
	Group best[MAX_GROUPS + 1], g;
	double cost[MAX_GROUPS + 1] = {0}, bytes = 0;

	for (j = 1; (j - 1) * step < n; j++)
		for (i = 0, cost[j] = INFINITY; i < j; i++) {
			g = group_of(v, i * step, j * step < n ? j * step : n);
			if (cost[i] + g.cost < cost[j]) {
				cost[j] = cost[i] + g.cost;
				best[j] = g;
			}
		}
	for (j--; j > 0; j = best[j].from / step) {
		v->group[v->ngroups++] = best[j];
		bytes += best[j].bytes;
		if (best[j].nfeatures == 0
		 || v->list->f->ntargets * best[j].width > MAX_WEIGHTS / best[j].leaves)
			return false;
	}
	return bytes <= MAX_TABLES;
}

typedef struct Sized { int64_t tree, leaves; } Sized;

static int
by_leaves(const void *x, const void *y)
{
	const Sized *a = x, *b = y;

	return a->leaves != b->leaves ? (a->leaves < b->leaves ? -1 : 1)
		: (a->tree > b->tree) - (a->tree < b->tree);
}

/* Trees by leaves, and the targets that they give to. */
static void
order_trees(Module *m, Intervals *v, int64_t *target)
{
	const TreeList *l = v->list;
	int64_t n = l->f->ntrees, i;
	Sized *s = NEWN(m, Sized, n);

	for (i = 0; i < n; i++)
		s[i] = (Sized){i, l->first_leaf[i + 1] - l->first_leaf[i]};
	qsort(s, (size_t)n, sizeof *s, by_leaves);
	for (i = 0; i < n; i++) {
		v->order[i] = s[i].tree;
		target[i] = leaves_target(l, l->first_leaf[s[i].tree], l->first_leaf[s[i].tree + 1]);
	}
}

Intervals *
find_intervals(Module *m, const TreeList *list, DType c, double *cost)
{
	Intervals *v = NEW(m, Intervals);
	int64_t n = list->f->ntrees, i, *target = NEWN(m, int64_t, n);

	*v = (Intervals){.list = list, .c = c, .order = NEWN(m, int64_t, n)};
	order_trees(m, v, target);
	v->at = lay_rows(m, target, n, list->f->ntargets);
	if (!find_cuts(m, v) || !make_groups(v))
		return NULL;
	*cost = (double)v->nfeatures * (FEATURE_COST
		+ KEYS_COST * (double)(in_lines(blocks_of(v->most)) + block_of(v->most)) / LINE);
	for (i = 0; i < v->ngroups; i++)
		*cost += v->group[i].cost;
	return v;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Bits a..z-1 of the word whose first is `from`. */
static uint32_t
bits(int64_t from, int64_t a, int64_t z)
{
	uint64_t lo = a <= from ? 0 : a - from >= BITS ? BITS : (uint64_t)(a - from),
		hi = z <= from ? 0 : z - from >= BITS ? BITS : (uint64_t)(z - from);

	return (uint32_t)(((UINT64_C(1) << hi) - 1) & ~((UINT64_C(1) << lo) - 1));
}

/* What node s of tree k leaves of the tree's words in the table row, if x lies in its interval. */
static void
rule_out(const Intervals *v, const Group *g, const Span *s, int64_t first, double x, uint32_t *word)
{
	bool yes = holds(v, &v->list->f->nodes[s->node], x);
	int64_t a = (yes ? s->mid : s->lo) - first, z = (yes ? s->hi : s->mid) - first, p;

	for (p = a / BITS; p * BITS < z; p++)
		word[p * v->at.rows * g->width] &= ~bits(p * BITS, a, z);
}

static int64_t
place_of(const Intervals *v, const Group *g, int64_t k)
{
	return v->at.row[k] * g->width + v->at.column[k] - g->from;
}

/* Fills the words of the k'th tree; row: each feature's first. What it does not ask for leaves
 * all. */
static void
fill_tree(const Intervals *v, const Group *g, const int64_t *row, int64_t k, uint32_t *table)
{
	const TreeList *l = v->list;
	int64_t tree = v->order[k], first = l->first_leaf[tree], n = l->first_leaf[tree + 1] - first,
		places = v->at.rows * g->width, size = g->parts * places, r, p, i, s;
	uint32_t *own = table + place_of(v, g, k);

	for (r = 0; r < g->nrows; r++)
		for (p = 0; p < g->parts; p++)
			own[r * size + p * places] = bits(p * BITS, 0, n);
	for (s = l->first_span[tree]; s < l->first_span[tree + 1]; s++) {
		const Cut *any = &v->cuts[v->cut[v->first[s]]];
		for (i = 0; v->feature[i].feature != any->feature; i++)
			;
		own = table + place_of(v, g, k) + row[i] * size;
		for (r = v->feature[i].from; r < v->feature[i].to; r++)
			if (v->seen[r] == v->stamp) {
				rule_out(v, g, &l->spans[s], first, v->cuts[r].at, own);
				own += size;
			}
		rule_out(v, g, &l->spans[s], first, INFINITY, own);
		rule_out(v, g, &l->spans[s], first, NAN, own + size);
	}
}

/* [rows, words]: parts by places. Where no tree stands the first leaf is left. */
static Node *
left_table(Module *m, const Intervals *v, const Group *g, const int64_t *row)
{
	int64_t dims[2] = {g->nrows, g->parts * v->at.rows * g->width}, k, i;
	Data *d = data_new(m, DT_I32, dims[0] * dims[1], NULL);
	uint32_t *table = (uint32_t *)d->bytes;

	for (i = 0; i < dims[0] * dims[1]; i++)
		table[i] = i % dims[1] < v->at.rows * g->width;
	for (k = 0; k < v->list->f->ntrees; k++)
		if (in_group(v, g, k))
			fill_tree(v, g, row, k, table);
	return t_const(m, DT_I32, 2, dims, d);
}

/* Of a group: which features it asks for, their rows by the count of cuts, what these leave. */
typedef struct Tables { Node *which, *row, *left; } Tables;

/* The row of each count of f's cuts, the first of which is `row`. Returns the next feature's. */
static int64_t
count_rows(const Intervals *v, const Feature *f, int64_t row, int32_t *of)
{
	int64_t last = counts_of(v) - 1, i, n = f->to - f->from;

	for (i = 0; i < n; i++) {
		of[i] = (int32_t)row;
		row += v->seen[f->from + i] == v->stamp;
	}
	for (; i < last; i++)
		of[i] = (int32_t)row;
	of[last] = (int32_t)row + 1;
	return row + 2;
}

static Tables
make_tables(Module *m, Intervals *v, const Group *g)
{
	int64_t *row = NEWN(m, int64_t, v->nfeatures), dims[2] = {g->nfeatures, counts_of(v)}, k, i,
		n = 0,
		at = 0;
	Data *which = data_new(m, DT_I32, dims[0], NULL),
		*rows = data_new(m, DT_I32, dims[0] * dims[1], NULL);

	mark_cuts(v, g);
	for (k = 0; k < v->nfeatures; k++) {
		const Feature *f = &v->feature[k];
		for (i = f->from; i < f->to && v->seen[i] != v->stamp; i++)
			;
		if (i == f->to)
			continue;
		row[k] = at;
		at = count_rows(v, f, at, (int32_t *)rows->bytes + n * dims[1]);
		((int32_t *)which->bytes)[n++] = (int32_t)k;
	}
	return (Tables){n == v->nfeatures ? NULL : t_const(m, DT_I32, 1, dims, which),
		t_const(m, DT_I32, 2, dims, rows), left_table(m, v, g, row)};
}

/* ---- what is computed ------------------------------------------------------------------------ */

static Node *
index_of(Module *m, Node *e)
{
	return x_cast(m, DT_INDEX, e);
}

/* [features, blocks, keys of one]: the cuts of each feature, then infinity. */
static Node *
key_table(Module *m, const Intervals *v)
{
	int64_t b = block_of(v->most), n = blocks_of(v->most), dims[3] = {v->nfeatures, n, b}, k, i;
	Data *d = data_new(m, v->c, v->nfeatures * n * b, NULL);

	for (i = 0; i < v->nfeatures * n * b; i++)
		data_set((void *)d->bytes, v->c, i, (Num){.f = INFINITY});
	for (k = 0; k < v->nfeatures; k++)
		for (i = v->feature[k].from; i < v->feature[k].to; i++)
			data_set((void *)d->bytes, v->c, k * n * b + i - v->feature[k].from,
				(Num){.f = v->cuts[i].at});
	return t_const(m, v->c, 3, dims, d);
}

/* [features, some lines]: the last key of each block but the last, then infinity. */
static Node *
pivot_table(Module *m, const Intervals *v, Node *keys)
{
	int64_t b = block_of(v->most), n = blocks_of(v->most), dims[2] = {v->nfeatures, in_lines(n)}, k,
		i;
	Data *d = data_new(m, v->c, dims[0] * dims[1], NULL);

	for (k = 0; k < dims[0]; k++)
		for (i = 0; i < dims[1]; i++)
			data_set((void *)d->bytes, v->c, k * dims[1] + i, i >= n - 1 ? (Num){.f = INFINITY}
				: data_get(definition(keys)->data, v->c, (k * n + i) * b + b - 1));
	return t_const(m, v->c, 2, dims, d);
}

/* x of the row and the k'th feature that is asked for. */
static Node *
value_of(Module *m, const Intervals *v, Node *x, Node *const *axes)
{
	Node *idx[2] = {axes[0], axes[1]};
	Data *d = data_new(m, DT_I32, v->nfeatures, NULL);
	int64_t i;

	for (i = 0; i < v->nfeatures; i++)
		((int32_t *)d->bytes)[i] = v->feature[i].feature;
	if (v->feature[v->nfeatures - 1].feature >= v->nfeatures)
		idx[1] = index_of(m, x_read(m, t_const(m, DT_I32, 1, &v->nfeatures, d), &axes[1]));
	return x_cast(m, v->c, x_read(m, x, idx));
}

/* How many keys are not at or above y (for NaN all); their last index is counted over. */
static Node *
count_below(Module *m, Node *y, Node *keys, Node **at)
{
	int last = rank_of(keys) - 1;

	at[last] = x_axis(m, dim_of(keys, last));
	return x_reduce(m, COMB_SUM, 1, &at[last], x_select(m, x_le(m, y, x_read(m, keys, at)),
		x_int(m, DT_I32, 0), x_int(m, DT_I32, 1)));
}

/* [n, features]: how many cuts are below; of NaN more than there are. */
static Node *
cut_counts(Module *m, const Intervals *v, Node *x)
{
	int64_t b = block_of(v->most), n = blocks_of(v->most);
	Node *keys = key_table(m, v), *dims[2] = {dim_of(x, 0), x_idx(m, v->nfeatures)}, *axes[2],
		*at[3],
		*block = NULL, *e;

	axes_new(m, 2, dims, axes);
	if (n > 1) {
		at[0] = axes[1];
		e = count_below(m, value_of(m, v, x, axes), pivot_table(m, v, keys), at);
		block = t_tensor(m, 2, axes, x_min(m, e, x_int(m, DT_I32, n - 1)));
		axes_new(m, 2, dims, axes);
		block = x_read(m, block, axes);
	}
	at[0] = axes[1];
	at[1] = block ? index_of(m, block) : x_idx(m, 0);
	e = count_below(m, value_of(m, v, x, axes), keys, at);
	if (block)
		e = x_add(m, e, x_mul(m, block, x_int(m, DT_I32, b)));
	return t_tensor(m, 2, axes, e);
}

/* [n, words] of a group: which leaves are left. */
static Node *
leaves_left(Module *m, const Group *g, const Tables *t, Node *counts)
{
	Node *axes[2], *f = x_axis(m, x_idx(m, g->nfeatures)), *at[2];

	axes_new(m, 2, (Node *[]){dim_of(counts, 0), dim_of(t->left, 1)}, axes);
	at[0] = axes[0];
	at[1] = t->which ? index_of(m, x_read(m, t->which, &f)) : f;
	at[1] = index_of(m, x_read(m, counts, at));
	at[0] = f;
	at[0] = index_of(m, x_read(m, t->row, at));
	at[1] = axes[1];
	return t_tensor(m, 2, axes, x_reduce(m, COMB_AND, 1, &f, x_read(m, t->left, at)));
}

/* The number of the leaf that the row reaches in the tree that stands at the place of so many. */
static Node *
leaf_number(Module *m, const Group *g, Node *left, int64_t places, Node *row, Node *place)
{
	Node *part = g->parts > 1 ? x_axis(m, x_idx(m, g->parts)) : x_idx(m, 0),
		*at[2] = {row, x_add(m, x_muli(m, part, places), place)}, *e = x_read(m, left, at), *n;

	n = x1(m, O_POPCNT, x_sub(m, e, x_int(m, DT_I32, 1)));
	if (g->parts == 1)
		return n;
	n = x_add(m, n, x_mul(m, x_cast(m, DT_I32, part), x_int(m, DT_I32, BITS)));
	n = x_select(m, x_eq(m, e, x_int(m, DT_I32, 0)), x_int(m, DT_I32, INT32_MAX), n);
	return x_reduce(m, COMB_MIN, 1, &part, n);
}

/* What a group's trees give to the row and the target. Leaf numbers that several targets need are a
 * tensor of their own. */
static Node *
group_sum(Build *b, Intervals *v, const Group *g, Node *counts, Comb comb, Node *row, Node *target)
{
	Module *m = b->m;
	Tables t = make_tables(m, v, g);
	const TreeList *l = v->list;
	int64_t places = v->at.rows * g->width, k, n = 0;
	Node *left = leaves_left(m, g, &t, counts), *tree = x_axis(m, x_idx(m, g->width)),
		*idx[3] = {target, tree}, *at[2], *leaf;
	Laid *laid = NEWN(m, Laid, l->f->ntrees);

	if (v->at.rows == 1 && l->f->ntargets > 1) {
		axes_new(m, 2, (Node *[]){dim_of(counts, 0), tree->in[0]}, at);
		leaf = t_tensor(m, 2, at, leaf_number(m, g, left, places, at[0], at[1]));
		leaf = x_read(m, leaf, (Node *[]){row, tree});
	} else
		leaf = leaf_number(m, g, left, places, row, x_add(m, x_muli(m, target, g->width), tree));
	idx[2] = x_min(m, x_max(m, index_of(m, leaf), x_idx(m, 0)), x_idx(m, g->leaves - 1));
	for (k = 0; k < l->f->ntrees; k++)
		if (in_group(v, g, k))
			laid[n++] = (Laid){l->first_leaf[v->order[k]],
				l->first_leaf[v->order[k] + 1] - l->first_leaf[v->order[k]], place_of(v, g, k)};
	return x_reduce(m, comb, 1, &tree, x_read(m, lay_weights(m, l, laid, n,
		&(WeightTable){v->at.rows, g->width, g->leaves, v->c, comb}), idx));
}

Node *
forest_by_intervals(Build *b, Intervals *v, Node *x, Comb comb)
{
	Module *m = b->m;
	Node *axes[2] = {x_axis(m, dim_of(x, 0)), x_axis(m, x_idx(m, v->list->f->ntargets))},
		*counts = cut_counts(m, v, x), *sum = NULL, *e;
	int i;

	for (i = 0; i < v->ngroups; i++) {
		e = group_sum(b, v, &v->group[i], counts, comb, axes[0], axes[1]);
		sum = sum ? x_comb(m, comb, sum, e) : e;
	}
	return t_tensor(m, 2, axes, sum);
}
