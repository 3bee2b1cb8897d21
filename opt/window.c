/*
 * CPU schedule of the class window: reductions over the taps of a window without reuse across the
 * lanes (depthwise convolution, pooling).
 *
 * The lanes run along the contiguous axis of the result (channels); a register tile of ROWS places
 * along the axis before it has an accumulator each, so that the latency of the operation is hidden,
 * and what a tap has for all places (a weight) is read once for them. The last axis of the window
 * is written out. All that follows in the definition is applied to the tile in registers.
 *
 * The last tile is moved back to end at the last place where there are at least ROWS (some are then
 * computed twice, with equal results); fewer are taken one by one.
 */
#include <math.h>
#include <stdlib.h>
#include "sched.h"

enum { MAX_TILE = 14, SPARE = 4, MAX_TAPS = 1024, MAX_WRITTEN = 128, MIN_PLACES = 3,
	IN_REGISTERS = 8 };    /* how many times as fast as what element_units is about */

typedef struct Window {
	Nest nest;
	Node *red, *lanes, *x; /* the reduction; axes of the lanes and of the places in a tile */
	int rows;              /* of the tile */
	Node *tile;            /* its number along x */
	int w;                 /* lanes of a vector */
} Window;

/* The only loop of the body, a reduction over constant taps; NULL: it is another. */
static Node *
tap_reduction(Node *body)
{
	Node *red = only_reduction(body);
	int64_t taps = 1;
	int i;

	if (!red)
		return NULL;
	for (i = 0; i + 1 < red->nin; i++)
		taps = sat_mul(taps, const_or(red->in[i]->in[0], MAX_TAPS + 1));
	return taps > 1 && taps <= MAX_TAPS && dtypes[red->type->dtype].bits >= 32 ? red : NULL;
}

/* Is something read at an index that both the axis and a tap move? */
static bool
slides_along(const Node *red, const Node *axis)
{
	Node **list;
	int i, k, d, n;
	bool yes = false;

	list = topo_scalar(red->in[red->nin - 1], &n);
	for (i = 0; i < n; i++)
		for (k = 1; list[i]->code == O_READ && k < list[i]->nin; k++)
			for (d = 0; d + 1 < red->nin && contains(list[i]->in[k], axis); d++)
				yes |= contains(list[i]->in[k], red->in[d]);
	free(list);
	return yes;
}

/* Places of a tile: what divides the extent, or equal parts of it. */
static int
tile_rows_for(const Machine *mach, int64_t extent)
{
	int regs = mach->vector_regs ? mach->vector_regs : 16, most = regs - SPARE, i;
	int64_t parts;

	most = most > MAX_TILE ? MAX_TILE : most < 1 ? 1 : most;
	if (extent <= 0)
		return most < 8 ? most : 8;
	for (i = most; i >= most / 2 && i > 0; i--)
		if (extent % i == 0)
			return i;
	parts = (extent + most - 1) / most;
	return (int)((extent + parts - 1) / parts);
}

static bool
window_of(KB *kb, Node *t, Window *c)
{
	*c = (Window){.nest = nest_of(kb, t)};
	if (c->nest.n < 2 || wants_rows(kb, &c->nest) || !(c->red = tap_reduction(c->nest.body)))
		return false;
	c->lanes = c->nest.axis[c->nest.n - 1];
	c->x = c->nest.axis[c->nest.n - 2];
	c->rows = tile_rows_for(kb->s->mach, const_or(c->x->in[0], 0));
	c->w = lanes_of(kb->s, widest_type(c->nest.body));
	return c->w > 1 && c->rows >= MIN_PLACES && contains(c->red, c->lanes)
		&& slides_along(c->red, c->x);
}

/* ---- the tile -------------------------------------------------------------------------------- */

typedef struct Places { const Window *c; Node *x0; int rows; } Places;

static void
each_place(KB *kb, Region *r, const Places *p, Region **in, Node **i)
{
	*in = region_new(kb->m, NULL);
	*i = x_axis(kb->m, x_idx(kb->m, p->rows));
	l_for(kb->m, r, F_UNROLL, *i, *in);
}

/* acc[i] = acc[i] comb a tap's value, for all taps */
static void
add_taps(KB *kb, Region *r, const Places *p, const Node *red, Node *acc)
{
	Module *m = kb->m;
	Node *body = red->in[red->nin - 1], *axis, *i, *v;
	Region *q;
	int k;

	for (k = 0; k + 1 < red->nin; k++) {
		axis = x_axis(m, red->in[k]->in[0]);
		body = subst1(m, body, red->in[k], axis);
		q = region_new(m, NULL);
		l_for(m, r, k + 2 == red->nin && const_or(axis->in[0], 1) * p->rows <= MAX_WRITTEN
			? F_UNROLL : F_SERIAL, axis, q);
		r = q;
	}
	each_place(kb, r, p, &q, &i);
	v = kb_emit(kb, q, subst1(m, body, p->c->x, x_add(m, p->x0, i)));
	l_store(m, q, acc, 1, &i, accumulate(kb, (Comb)red->n, l_load(m, acc, 1, &i), v));
}

static void
window_body(KB *kb, Region *r, Node *lane, void *ctx)
{
	const Places *p = ctx;
	const Window *c = p->c;
	Module *m = kb->m;
	Node *red = subst1(m, c->red, c->lanes, lane), *rows = x_idx(m, p->rows), *acc, *i, *e,
		*idx[MAX_RANK];
	DType d = red->type->dtype;
	Region *q;
	int k;

	acc = l_alloc(m, r, l_buffer(m, "acc", d, SP_REG, 1, &rows));
	each_place(kb, r, p, &q, &i);
	l_store(m, q, acc, 1, &i, x_comb_identity(m, (Comb)red->n, d));
	add_taps(kb, r, p, red, acc);
	each_place(kb, r, p, &q, &i);
	e = subst1(m, subst1(m, c->nest.body, c->lanes, lane), red, l_let(m, q, l_load(m, acc, 1, &i)));
	e = subst1(m, e, c->x, x_add(m, p->x0, i));
	for (k = 0; k < rank_of(c->nest.out); k++)
		idx[k] = subst1(m, subst1(m, c->nest.out_idx[k], c->lanes, lane), c->x,
			x_add(m, p->x0, i));
	kb_store(kb, q, c->nest.out, idx, kb_emit(kb, q, e));
}

static void
places(KB *kb, Region *r, const Window *c, Node *x0, int rows)
{
	Places p = {c, x0, rows};

	vector_loop(kb, r, c->lanes->in[0], c->w, window_body, &p);
}

static void
window_tile(KB *kb, Region *r, void *ctx)
{
	const Window *c = ctx;
	Module *m = kb->m;
	Node *extent = c->x->in[0], *rows = x_idx(m, c->rows), *x0 = x_mul(m, c->tile, rows), *x;
	Region *many, *few, *q;
	int64_t v;
	bool known = is_int(extent, &v) && v >= c->rows;

	if (known && v % c->rows == 0) {
		places(kb, r, c, l_let(m, r, x0), c->rows);
		return;
	}
	many = known ? r : region_new(m, NULL);
	places(kb, many, c, l_let(m, many, x_min(m, x0, x_sub(m, extent, rows))), c->rows);
	if (known)
		return;
	few = region_new(m, NULL), q = region_new(m, NULL);
	x = x_axis(m, extent);
	places(kb, q, c, x, 1);
	l_for(m, few, F_SERIAL, x, q);
	l_when(m, r, x_le(m, rows, extent), many, few);
}

Kernel *
window_cpu(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Region *body = region_new(m, NULL), *in = region_new(m, NULL);
	Node *tiles, *units, *unit, *axes[MAX_RANK * 2];
	Map map = {0};
	Window c;
	double work;
	int i, n;

	if (g->n > 1 || g->members[0]->code != O_TENSOR || !window_of(&kb, g->members[0], &c))
		return NULL;
	tiles = x_axis(m, x_ceildiv(m, c.x->in[0], x_idx(m, c.rows)));
	n = c.nest.n - 2;
	for (i = 0; i < n; i++)
		axes[i] = c.nest.axis[i];
	axes[n++] = tiles;
	units = axes_product(m, n, axes);
	unit = kb_units(&kb, g, in, units);
	digits(m, &map, n, axes, unit);
	for (i = 0; i < n; i++)
		map_put(&map, axes[i], l_let(m, in, map_get(&map, axes[i])));
	c.tile = map_get(&map, tiles);
	c.red = subst(m, c.red, &map, false);
	c.nest.body = subst(m, c.nest.body, &map, false);
	for (i = 0; i < rank_of(c.nest.out); i++)
		c.nest.out_idx[i] = subst(m, c.nest.out_idx[i], &map, false);
	map_free(&map);
	kb_versions(&kb, in, c.nest.body, window_tile, &c);
	work = element_units(g->members[0]) * c.rows / IN_REGISTERS;
	kb.k->flops = element_cost(c.nest.body) * c.rows * (double)const_or(c.lanes->in[0], 64);
	kb.k->cost = x_muli(m, c.lanes->in[0], (int64_t)ceil(work));
	kb_parallel(&kb, body, in);
	return kb_finish(&kb, body,
		arena_printf(m->arena, "class=window, tile=[%d,%d]", c.rows, c.w));
}
