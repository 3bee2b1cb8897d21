/*
 * pack: what products read by columns again and again, and is no constant, is copied once into
 * panels (layout.c packs constants when they are compiled). A row of such an operand lies a page or
 * more from the next, so a panel's columns would take a page and a set of the caches for each step
 * of the sum; or its columns do not lie along the lanes at all; or a matrix unit takes the product (unit.c).
 *
 * Needs the tensor level with its kernels; leaves a tensor `with {order, block}` that copies the
 * operand, and the product reading it. Not on a GPU, whose kernels stage tiles in shared memory.
 */
#include <stdlib.h>
#include <string.h>
#include "sched.h"

enum { MIN_ROWS = 16, MANY_ROWS = 64 };   /* that pay a copy along the lanes, and any */

/* A product: the read of its columns, and how the copy lies. */
typedef struct Panel { Node *read; int64_t order[MAX_RANK]; int block; } Panel;

static double
likely_elements(Module *m, int n, Node *const *extents)
{
	double size = 1;
	int i;

	for (i = 0; i < n; i++)
		size *= (double)likely_extent(m, extents[i]);
	return size;
}

/* Rows that each column meets. */
static double
likely_rows(Module *m, const Node *t, const Contraction *c)
{
	double rows = 1;
	int i;

	for (i = 0; i + 1 < t->nin; i++)
		if (contains(c->ea, t->in[i]) && !contains(c->eb, t->in[i]))
			rows *= (double)likely_extent(m, t->in[i]->in[0]);
	return rows;
}

static bool
pays(Sched *s, const Node *t, const Contraction *c)
{
	const Node *b = c->b->in[0];
	double rows = likely_rows(s->m, t, c), bytes = dtypes[dtype_of(b)].bits / 8.0 * c->nr;
	bool along = c->b->in[c->b->nin - 1] == c->n;
	Node *ext[MAX_RANK];
	int i;

	if (definition((Node *)b)->code == O_CONST || dtypes[dtype_of(b)].bits < 8
	 || attr_find(b->attrs, "order"))
		return false;
	if (c->unit)                             /* takes nothing but panels */
		return rows >= MIN_ROWS;
	if (!along)                              /* what a kernel computes can lie along the lanes */
		return rows >= MIN_ROWS && b->code != O_TENSOR;
	for (i = 0; i < c->nred; i++)
		ext[i] = c->red[i]->in[0];
	bytes *= likely_elements(s->m, c->nred, ext);
	bytes *= (double)likely_extent(s->m, c->n->in[0]) / c->nr;
	return rows >= MANY_ROWS && bytes > (double)s->mach->l2 / 2;
}

static Panel *
panel_of(Sched *s, const Group *g)
{
	Contraction c;
	Panel *p;
	int order[MAX_RANK], i;

	if (g->n > 1 || g->members[0]->code != O_TENSOR || !contraction_of(s, g->members[0], &c)
	 || !pays(s, g->members[0], &c) || !panel_order(&c, order))
		return NULL;
	p = NEW(s->m, Panel);
	*p = (Panel){.read = c.b, .block = c.nr};
	for (i = 0; i < rank_of(c.b->in[0]); i++)
		p->order[i] = order[i];
	return p;
}

static Node *
copy_of(Module *m, Node *b, const Panel *p, const Loc *loc)
{
	Node *axes[MAX_RANK], *t;
	const Attr *a;
	int i, rank = rank_of(b);

	for (i = 0; i < rank; i++)
		axes[i] = x_axis(m, dim_of(b, i));
	a = attrs_add(m, NULL,
		(Attr){.name = "order", .kind = A_INTS, .n = rank, .is = (int64_t *)p->order});
	a = attrs_add(m, a, (Attr){.name = "block", .kind = A_INT, .i = p->block});
	t = t_tensor_with(m, rank, axes, x_read(m, b, axes), a);
	t->loc = loc;
	return t;
}

static Node *
packed_node(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	const Panel *p = map_get(ctx, n);
	Node *read, *t;
	Map map = {0};

	if (!p)
		return NULL;
	read = map_get(done, p->read);
	map_put(&map, read, x_read(m, copy_of(m, read->in[0], p, n->loc), read->in + 1));
	t = rebuild_node(m, n, in, done);
	t = node_with(m, t_tensor(m, t->nin - 1, t->in, subst(m, t->in[t->nin - 1], &map, false)),
		n->attrs);
	map_free(&map);
	t->loc = n->loc;
	return t;
}

bool
pass_pack(Module *m)
{
	Sched s = sched_open(m);
	Map panels = {0};
	Vec groups;
	Panel *p;
	int i;

	s.packing = true;
	home_regions(m, &s.home);
	groups = groups_of(&s);
	for (i = 0; i < groups.n && !s.gpu && m->diag->errors == 0; i++)
		if ((p = panel_of(&s, groups.at[i])))
			map_put(&panels, ((Group *)groups.at[i])->members[0], p);
	if (panels.n)
		rewrite_module(m, false, packed_node, &panels);
	map_free(&panels);
	sched_close(&s);
	return m->diag->errors == 0;
}
