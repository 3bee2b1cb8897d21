/*
 * split: long sums of products whose result is small leave most of a GPU idle. The sum is cut into
 * parts, each summed by blocks of its own, and the parts are added in order:
 *
 *	t[i, j] = f(sum (k: K) a b)
 *	  -> p[s, i, j] = sum (k: K/S) a b, k + s K/S for k;   t[i, j] = f(p[0, i, j] + p[1, i, j] + ..)
 *
 * The parts are added where t is read, by rows: what reads it reduces along one (a norm), so that
 * its kernel takes t in, and no launch is added. Else the sum stays whole.
 *
 * So do long reductions of any kind where there are few of them (a norm over a whole picture, a maximum over
 * all): theirs is cut into as many parts as give each unit some, and reduced in two kernels.
 *
 *	t[i] = f(max (k: K) e)  ->  p[i, s] = max (k: K/S) e at k + s K/S;   t[i] = f(max (s: S) p[i, s])
 *
 * How many parts depends on the machine's units and the sizes alone, so results do not vary from
 * run to run. Needs the tensor level after producers are inlined; leaves such tensors as above.
 */
#include <stdlib.h>
#include "few.h"

/* The tile that a block is taken to compute; the depth from which on a sum is cut, for adding the
 * parts takes a launch and a trip through memory; elements of depth that a part has at least;
 * most parts. */
enum { TILE_M = 32, TILE_N = 64, MIN_DEPTH = 3072, MIN_PART = 768, MAX_PARTS = 8 };

/* Of other reductions: elements of a part at least; parts for each unit. */
enum { ROW_PART = 1 << 12, PER_UNIT = 2 };

static double
likely_blocks(Module *m, const Node *t, const Contraction *c)
{
	double rows = 1, columns = 1, batch = 1, n;
	bool a, b;
	int i;

	for (i = 0; i + 1 < t->nin; i++) {
		n = (double)likely_extent(m, t->in[i]->in[0]);
		a = contains(c->ea, t->in[i]), b = contains(c->eb, t->in[i]);
		*(a && b ? &batch : a ? &rows : &columns) *= n;
	}
	return batch * (double)(int64_t)((rows + TILE_M - 1) / TILE_M)
		* (double)(int64_t)((columns + TILE_N - 1) / TILE_N);
}

/* In how many parts the summed axis is cut: a power of two that divides it. */
static int
parts_of(Sched *s, const Node *t, const Contraction *c, const Node *axis)
{
	double blocks = likely_blocks(s->m, t, c), depth = 1;
	int64_t extent = const_or(axis->in[0], 0);
	int i, parts = 1;

	for (i = 0; i < c->nred; i++)
		depth *= (double)const_or(c->red[i]->in[0], 1);
	while (depth >= MIN_DEPTH && parts < MAX_PARTS && blocks * parts * 2 <= s->mach->units
		&& depth / (parts * 2) >= MIN_PART
	 && extent % (parts * 2 * 32) == 0)
		parts *= 2;
	return parts;
}

/* The longest summed axis. */
static Node *
axis_of(const Contraction *c)
{
	Node *best = NULL;
	int i;

	for (i = 0; i < c->nred; i++)
		if (!best || const_or(c->red[i]->in[0], 0) > const_or(best->in[0], 0))
			best = c->red[i];
	return best;
}

/* What the parts of the tensor's reduction r give, over s and the tensor's axes; or, s last, over those that
 * have more than one element, and s, so that who reads the parts has them side by side. idx: the reader's. */
static Node *
parts_tensor(Module *m, const Node *t, const Node *r, Node *axis, int parts, bool last, Node **idx)
{
	Node *axes[MAX_RANK + 1], *red[MAX_RANK], *e = r->in[r->nin - 1], *p;
	Node *size = x_fdiv(m, axis->in[0], x_idx(m, parts)), *part = x_axis(m, x_idx(m, parts));
	Map map = {0};
	int i, k = 0, n = t->nin - 1;

	if (!last)
		axes[k++] = part;
	for (i = 0; i < n; i++) {
		bool drop = last && is_intv(t->in[i]->in[0], 1);
		Node *own = drop ? x_idx(m, 0) : x_axis(m, t->in[i]->in[0]);
		map_put(&map, t->in[i], own);
		if (!drop)
			idx[k] = t->in[i], axes[k++] = own;
	}
	if (last)
		axes[k++] = part;
	for (i = 0; i + 1 < r->nin; i++) {
		red[i] = x_axis(m, r->in[i] == axis ? size : r->in[i]->in[0]);
		map_put(&map, r->in[i], r->in[i] == axis
			? x_add(m, x_mul(m, part, size), red[i]) : red[i]);
	}
	p = t_tensor(m, k, axes, x_reduce(m, (Comb)r->n, r->nin - 1, red, subst(m, e, &map,
		false)));
	map_free(&map);
	return p;
}

typedef struct Split {
	Sched s;
	Map by_rows;           /* tensor -> itself: it is read by reductions that are no products */
} Split;

static void
note_reads(Split *q, Node *t)
{
	Node **list, *body = t->in[t->nin - 1];
	int i, k, n;

	if (body_is_plain(body) || holds_product(q->s.mach, t, NULL))
		return;
	list = topo_scalar(body, &n);
	for (i = 0; i < n; i++)
		for (k = 0; list[i]->code == O_READ && k < n; k++)
			if (list[k]->code == O_REDUCE && contains(list[k], list[i]))
				map_put(&q->by_rows, list[i]->in[0], list[i]->in[0]);
	free(list);
}

static void
find_rows(Split *q)
{
	Module *m = q->s.m;
	Node **list;
	int i, n;

	list = topo(m->main->results, m->main->nresults, false, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_TENSOR)
			note_reads(q, list[i]);
	free(list);
}

/* ---- long rows ------------------------------------------------------------------------------------ */

/* Is it a reduction of the tensor's own axes, of what no product makes (attention has a form of its own)? */
static bool
is_long(Split *q, const Node *t, Node *r)
{
	Node **list;
	double depth = 1;
	int i, k, n;
	bool yes = r->n <= COMB_MAX;

	for (i = 0; i + 1 < r->nin; i++)
		depth *= (double)const_or(r->in[i]->in[0], 0);
	if (!yes || depth < LONG_ROW)
		return false;
	list = topo_scalar(r, &n);
	for (i = 0; i < n && yes; i++) {
		if (list[i]->code == O_REDUCE)
			yes = list[i] == r;
		else if (list[i]->code == O_READ)
			yes = list[i]->in[0]->code != O_TENSOR || !holds_product(q->s.mach, list[i]->in[0], NULL);
		else if (list[i]->code == O_AXIS) {
			for (k = 0; k + 1 < t->nin && t->in[k] != list[i]; k++)
				;
			yes = k + 1 < t->nin;
			for (k = 0; k + 1 < r->nin; k++)
				yes |= r->in[k] == list[i];
		}
	}
	free(list);
	return yes;
}

/* The largest divisor of the extent that is not above most. */
static int
divisor(int64_t extent, int64_t most)
{
	int64_t d = most < extent ? most : extent;

	while (d > 1 && extent % d)
		d--;
	return (int)d;
}

/* In how many parts r, one of `rows`, is cut along *axis; 1: it stays whole. */
static int
row_parts(Split *q, const Node *r, double rows, Node **axis)
{
	double depth = 1, most;
	int i, parts, best = 1;

	for (i = 0; i + 1 < r->nin; i++)
		depth *= (double)const_or(r->in[i]->in[0], 1);
	most = PER_UNIT * q->s.mach->units / rows;
	if (most > depth / ROW_PART)
		most = depth / ROW_PART;
	for (i = 0; i + 1 < r->nin && most >= 2; i++)
		if ((parts = divisor(const_or(r->in[i]->in[0], 1), (int64_t)most)) > best)
			best = parts, *axis = r->in[i];
	return 4 * best >= most ? best : 1;
}

/* The same, stored row-major: threads that add the parts up lie along them. */
static Node *
in_order(Module *m, Node *t)
{
	int64_t order[MAX_RANK];
	int i, n = rank_of(t);

	for (i = 0; i < n; i++)
		order[i] = i;
	return node_with(m, t, attrs_add(m, t->attrs, (Attr){.name = "order", .kind = A_INTS, .n = n, .is = order}));
}

static Node *
cut_row(Split *q, Node *t, Node *r, double rows)
{
	Module *m = q->s.m;
	Node *axis = NULL, *p, *s, *idx[MAX_RANK + 1];
	int parts = row_parts(q, r, rows, &axis);

	if (parts < 2)
		return t;
	p = in_order(m, parts_tensor(m, t, r, axis, parts, true, idx));
	p->loc = t->loc;
	idx[rank_of(p) - 1] = s = x_axis(m, x_idx(m, parts));
	s = x_reduce(m, (Comb)r->n, 1, &s, x_read(m, p, idx));
	p = t_tensor(m, t->nin - 1, t->in, subst1(m, t->in[t->nin - 1], r, s));
	p->loc = t->loc;
	return p;
}

/* Needs a tensor over few elements; its long reductions are cut. */
static Node *
cut_rows(Split *q, Node *t)
{
	Node **list;
	double rows = 1;
	int i, n;

	for (i = 0; i + 1 < t->nin; i++)
		rows *= (double)likely_extent(q->s.m, t->in[i]->in[0]);
	if (t->nin - 1 >= MAX_RANK || 2 * rows > q->s.mach->units)
		return t;
	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_REDUCE && is_long(q, t, list[i]))
			t = cut_row(q, t, list[i], rows);
	free(list);
	return t;
}

static Node *
split_node(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Split *q = ctx;
	Node *t, *axis, *p, *idx[MAX_RANK + 1], *r = NULL;
	Contraction c;
	Few f;
	int parts, i;

	if (n->code != O_TENSOR || (t = rebuild_node(m, n, in, done))->code != O_TENSOR || few_of(m, t, &f))
		return NULL;
	if (!holds_product(q->s.mach, t, NULL))
		return (r = cut_rows(q, t)) == t ? NULL : r;
	if (n->nin - 1 >= MAX_RANK || !map_get(&q->by_rows, n) || !contraction_of(&q->s, t, &c))
		return NULL;
	axis = axis_of(&c);
	parts = parts_of(&q->s, t, &c, axis);
	if (parts < 2)
		return NULL;
	p = parts_tensor(m, t, c.reduce, axis, parts, false, idx);
	p->loc = n->loc;
	for (i = 0; i < parts; i++) {
		idx[0] = x_idx(m, i);
		r = r ? x_add(m, r, x_read(m, p, idx)) : x_read(m, p, idx);
	}
	r = t_tensor(m, t->nin - 1, t->in, subst1(m, t->in[t->nin - 1], c.reduce, r));
	r->loc = n->loc;
	return r;
}

bool
pass_split(Module *m)
{
	Split q = {.s = sched_open(m)};

	if (q.s.gpu) {
		find_rows(&q);
		rewrite_module(m, false, split_node, &q);
	}
	map_free(&q.by_rows);
	sched_close(&q.s);
	return true;
}
