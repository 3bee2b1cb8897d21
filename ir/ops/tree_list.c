/* What the forms without walks share: leaves in order, where trees stand, their weights. */
#include <math.h>
#include <string.h>
#include "trees.h"

enum { MAX_NODES = 1 << 17, MAX_DEPTH = 1 << 10 };

/* Leaves below the node are listed, and nodes with theirs; false if there are too many. */
static bool
list_leaves(TreeList *k, int64_t node)
{
	const TreeNode *n = &k->f->nodes[node];
	int64_t s = k->nspans;

	if (n->mode == LEAF) {
		if (k->nleaves < MAX_NODES)
			k->leaves[k->nleaves] = node;
		return k->nleaves++ < MAX_NODES;
	}
	if (s == MAX_NODES)
		return false;
	k->spans[k->nspans++] = (Span){.node = node, .lo = k->nleaves};
	if (!list_leaves(k, n->child[0]))
		return false;
	k->spans[s].mid = k->nleaves;
	if (!list_leaves(k, n->child[1]))
		return false;
	k->spans[s].hi = k->nleaves;
	return true;
}

static void
find_weights(Module *m, TreeList *k)
{
	int64_t i, *last;

	k->head = NEWN(m, int64_t, k->f->nnodes + 1);
	k->next = NEWN(m, int64_t, k->f->nweights + 1);
	for (i = 0; i < k->f->nnodes; i++)
		k->head[i] = -1;
	for (i = k->f->nweights; i-- > 0; *last = i) {
		last = &k->head[k->f->weights[i].leaf];
		k->next[i] = *last;
	}
}

TreeList *
list_forest(Module *m, const Forest *f)
{
	TreeList *k = NEW(m, TreeList);
	int64_t i;

	if (f->depth > MAX_DEPTH || f->ntrees > MAX_NODES)
		return NULL;
	k->f = f;
	k->leaves = NEWN(m, int64_t, MAX_NODES);
	k->spans = NEWN(m, Span, MAX_NODES);
	k->first_leaf = NEWN(m, int64_t, f->ntrees + 1);
	k->first_span = NEWN(m, int64_t, f->ntrees + 1);
	for (i = 0; i < f->ntrees; i++) {
		if (!list_leaves(k, f->roots[i]))
			return NULL;
		k->first_leaf[i + 1] = k->nleaves;
		k->first_span[i + 1] = k->nspans;
	}
	find_weights(m, k);
	return k;
}

double
below_threshold(DType c, double t)
{
	return t == -INFINITY ? NAN : c == DT_F64 ? nextafter(t, -INFINITY)
		: (double)nextafterf((float)t, -INFINITY);
}

int64_t
leaves_target(const TreeList *k, int64_t from, int64_t to)
{
	int64_t own = -1, w, t;

	for (; from < to; from++)
		for (w = k->head[k->leaves[from]]; w >= 0; w = k->next[w]) {
			t = k->f->weights[w].target;
			own = own == -1 || own == t ? t : -2;
		}
	return own;
}

/* Rows, and the longest one. What has no weight goes to any. */
static void
fill_rows(Layout *y, const int64_t *target, int64_t n, int64_t *count)
{
	int64_t i, r, any = 0;

	y->columns = 0;
	memset(count, 0, sizeof *count * (size_t)y->rows);
	for (i = 0; i < n; i++) {
		r = y->rows == 1 ? 0 : target[i];
		y->row[i] = r < 0 ? any++ % y->rows : r;
		if (++count[y->row[i]] > y->columns)
			y->columns = count[y->row[i]];
	}
}

Layout
lay_rows(Module *m, const int64_t *target, int64_t n, int64_t ntargets)
{
	Layout y = {.rows = ntargets, .row = NEWN(m, int64_t, n + 1),
		.column = NEWN(m, int64_t, n + 1)};
	int64_t *count = NEWN(m, int64_t, ntargets), i;

	for (i = 0; i < n; i++)
		if (target[i] == -2)
			y.rows = 1;
	fill_rows(&y, target, n, count);
	if (y.columns * y.rows > 2 * n) {
		y.rows = 1;
		fill_rows(&y, target, n, count);
	}
	for (i = 0; i < n; i++)
		y.column[i] = y.columns - count[y.row[i]]--;
	return y;
}

Node *
lay_weights(Module *m, const TreeList *k, const Laid *laid, int64_t n, const WeightTable *t)
{
	int64_t dims[3] = {k->f->ntargets, t->width, t->leaves}, count = dims[0] * dims[1] * dims[2];
	int64_t i, l, w, at;
	Num none = x_comb_identity(m, t->comb, t->dtype)->num, v;
	Data *d = data_new(m, t->dtype, count, NULL);

	for (i = 0; i < count; i++)
		data_set((void *)d->bytes, t->dtype, i, none);
	for (i = 0; i < n; i++)
		for (l = 0; l < laid[i].n; l++)
			for (w = k->head[k->leaves[laid[i].leaf + l]]; w >= 0; w = k->next[w]) {
				const Weight *x = &k->f->weights[w];
				at = (laid[i].place + (t->rows == 1 ? x->target * t->width : 0)) * dims[2] + l;
				v = data_get(d, t->dtype, at);
				v.f = t->comb == COMB_SUM ? v.f + x->weight : t->comb == COMB_MIN
					? fmin(v.f, x->weight) : fmax(v.f, x->weight);
				data_set((void *)d->bytes, t->dtype, at, num_round(t->dtype, v.f));
			}
	return t_const(m, t->dtype, 3, dims, d);
}
