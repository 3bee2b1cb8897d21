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
 * How many parts depends on the machine's units and the sizes alone, so results do not vary from
 * run to run. Needs the tensor level after producers are inlined; leaves such tensors as above.
 */
#include <stdlib.h>
#include "sched.h"

/* The tile that a block is taken to compute; the depth from which on a sum is cut, for adding the
 * parts takes a launch and a trip through memory; elements of depth that a part has at least;
 * most parts. */
enum { TILE_M = 32, TILE_N = 64, MIN_DEPTH = 3072, MIN_PART = 768, MAX_PARTS = 8 };

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

/* The parts' sums, over axis s and the tensor's axes. */
static Node *
partial_sums(Module *m, const Node *t, const Contraction *c, Node *axis, int parts)
{
	Node *axes[MAX_RANK + 1], *red[MAX_RANK], *e = c->reduce->in[c->reduce->nin - 1], *p;
	Node *size = x_fdiv(m, axis->in[0], x_idx(m, parts)), *part = x_axis(m, x_idx(m, parts));
	Map map = {0};
	int i, n = t->nin - 1;

	axes[0] = part;
	for (i = 0; i < n; i++)
		map_put(&map, t->in[i], axes[i + 1] = x_axis(m, t->in[i]->in[0]));
	for (i = 0; i + 1 < c->reduce->nin; i++) {
		red[i] = x_axis(m, c->reduce->in[i] == axis ? size : c->reduce->in[i]->in[0]);
		map_put(&map, c->reduce->in[i], c->reduce->in[i] == axis
			? x_add(m, x_mul(m, part, size), red[i]) : red[i]);
	}
	p = t_tensor(m, n + 1, axes, x_reduce(m, COMB_SUM, c->reduce->nin - 1, red, subst(m, e, &map,
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

static Node *
split_node(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Split *q = ctx;
	Node *t, *axis, *p, *idx[MAX_RANK + 1], *r = NULL;
	Contraction c;
	int parts, i;

	if (n->code != O_TENSOR || n->nin - 1 >= MAX_RANK || !map_get(&q->by_rows, n)
	 || (t = rebuild_node(m, n, in, done))->code != O_TENSOR || !contraction_of(&q->s, t, &c))
		return NULL;
	axis = axis_of(&c);
	parts = parts_of(&q->s, t, &c, axis);
	if (parts < 2)
		return NULL;
	p = partial_sums(m, t, &c, axis, parts);
	p->loc = n->loc;
	for (i = 0; i + 1 < t->nin; i++)
		idx[i + 1] = t->in[i];
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
