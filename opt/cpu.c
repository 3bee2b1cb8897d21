/*
 * CPU schedules of the classes map and row.
 *
 * map: the axes in the order of the result's storage; neighbours that every address walks as one
 * are merged; the innermost becomes vectors, the rest is split over threads.
 * Several results of the same axes without reductions are one such loop.
 * row: one parallel loop over the shared outer axes; the members one after another, their rows in
 * registers or in private memory; reductions along contiguous axes in lanes (loops.c).
 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sched.h"

enum { BLOCK = 2048, MAX_STACK = 1 << 18, MAX_SUMS = 4, MAX_SUM_SIZE = 32 };

/* ---- merging axes ---------------------------------------------------------------------------- */

/* Does the axis count for more than the addresses of reads: in a guard, as a value? */
static bool
outside_reads(Node *e, Node *axis)
{
	Node **list;
	Map uses = {0};
	int i, k, n;
	bool yes;

	list = topo_scalar(e, &n);
	map_put(&uses, axis, axis);
	for (i = 0; i < n; i++)
		for (k = 0; list[i]->code != O_READ && k < list[i]->nin; k++)
			if (list[i]->in[k] && map_get(&uses, list[i]->in[k]))
				map_put(&uses, list[i], axis);
	free(list);
	yes = map_get(&uses, e) != NULL;
	map_free(&uses);
	return yes;
}

static bool
walks_as_one(Module *m, Node *addr, Node *outer, Node *inner)
{
	Node *co, *ci, *r;

	return linear_in(m, addr, outer, &co, &r) && linear_in(m, addr, inner, &ci, &r)
		&& co == x_mul(m, ci, inner->in[0]);
}

/* Does the axis index the dimension of t that is stored in blocks? Past its extent the address is
 * another. */
static bool
in_blocks(KB *kb, Node *t, Node *const *idx, const Node *axis)
{
	const Storage *st = storage_of(kb->s, t);

	return st->block && contains(idx[st->order[rank_of(t) - 1]], axis);
}

static bool
address_walks_as_one(KB *kb, Node *t, Node *const *idx, Node *outer, Node *inner)
{
	return !in_blocks(kb, t, idx, outer) && !in_blocks(kb, t, idx, inner)
		&& walks_as_one(kb->m, kb_address(kb, t, idx), outer, inner);
}

/* Do all reads of the body walk axes k and k + 1 as one? */
static bool
reads_merge(KB *kb, Nest *nest, int k)
{
	Node *outer = nest->axis[k], *inner = nest->axis[k + 1], **list;
	int i, j, n;
	bool ok = true;

	list = topo_scalar(nest->body, &n);
	for (i = 0; i < n && ok; i++)
		if (list[i]->code == O_READ) {
			ok = address_walks_as_one(kb, list[i]->in[0], list[i]->in + 1, outer, inner);
			/* x_read would fold an index of a dim of 1 */
			for (j = 1; j < list[i]->nin && ok; j++)
				ok = !is_intv(dim_of(list[i]->in[0], j - 1), 1) || !contains(list[i]->in[j], inner);
		} else if (list[i]->code == O_REDUCE || list[i]->code == O_ITER)
			for (j = 0; j < list[i]->nin - 1 && ok; j++)
				ok = list[i]->in[j]->code != O_AXIS || (!contains(list[i]->in[j]->in[0], outer)
					&& !contains(list[i]->in[j]->in[0], inner));
	free(list);
	return ok;
}

static bool
mergeable(KB *kb, Nest *nest, int k)
{
	Node *outer = nest->axis[k], *inner = nest->axis[k + 1];

	return !outside_reads(nest->body, outer) && !outside_reads(nest->body, inner)
		&& address_walks_as_one(kb, nest->out, nest->out_idx, outer, inner)
		&& reads_merge(kb, nest, k);
}

static void
drop_axis(Nest *nest, int k, Node *merged)
{
	int i;

	nest->axis[k] = merged;
	for (i = k + 1; i + 1 < nest->n; i++)
		nest->axis[i] = nest->axis[i + 1];
	nest->n--;
}

static void
merge(KB *kb, Nest *nest, int k)
{
	Module *m = kb->m;
	Node *outer = nest->axis[k], *inner = nest->axis[k + 1],
		*f = x_axis(m, x_mul(m, outer->in[0], inner->in[0]));
	Map map = {0};
	int i;

	map_put(&map, outer, x_idx(m, 0));
	map_put(&map, inner, f);
	nest->body = subst(m, nest->body, &map, false);
	for (i = 0; i < rank_of(nest->out); i++)
		nest->out_idx[i] = subst(m, nest->out_idx[i], &map, false);
	map_free(&map);
	drop_axis(nest, k, f);
}

/* A read in terms of the merged axis f: its own digits, unless the address walks both axes as
 * one. */
static Node *
read_merged(KB *kb, Node *read, Node *outer, Node *inner, Node *f)
{
	Module *m = kb->m;
	Map map = {0};
	bool one = address_walks_as_one(kb, read->in[0], read->in + 1, outer, inner);
	int j;

	for (j = 1; j < read->nin; j++)
		one &= !is_intv(dim_of(read->in[0], j - 1), 1) || !contains(read->in[j], inner);
	map_put(&map, outer, one ? x_idx(m, 0) : x_fdiv(m, f, inner->in[0]));
	map_put(&map, inner, one ? f : x_mod(m, f, inner->in[0]));
	read = subst(m, read, &map, false);
	map_free(&map);
	return read;
}

/* Do all reads in e walk the axes as one, and nothing else depend on them? */
static bool
merges_within(KB *kb, Node *e, Node *outer, Node *inner)
{
	Nest part = {.n = 2, .axis = {outer, inner}, .body = e};

	return !outside_reads(e, outer) && !outside_reads(e, inner) && reads_merge(kb, &part, 0);
}

bool
merge_rows(KB *kb, Nest *nest, int k, Node *core)
{
	Module *m = kb->m;
	Node *outer = nest->axis[k], *inner = nest->axis[k + 1], *f, **list;
	Map map = {0};
	int i, n;

	if (!merges_within(kb, core, outer, inner))
		return false;
	f = x_axis(m, x_mul(m, outer->in[0], inner->in[0]));
	list = topo_scalar(nest->body, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_READ)
			map_put(&map, list[i], read_merged(kb, list[i], outer, inner, f));
	free(list);
	map_put(&map, outer, x_fdiv(m, f, inner->in[0]));
	map_put(&map, inner, x_mod(m, f, inner->in[0]));
	nest->body = subst(m, nest->body, &map, false);
	for (i = 0; i < rank_of(nest->out); i++)
		nest->out_idx[i] = subst(m, nest->out_idx[i], &map, false);
	map_free(&map);
	drop_axis(nest, k, f);
	return true;
}

/* Axes of extent 1 vanish, the others stand in the order of the result's storage and merge. */
Nest
nest_of(KB *kb, Node *t)
{
	Storage *st = storage_of(kb->s, t);
	Nest nest = {.out = t, .body = t->in[t->nin - 1]};
	Map map = {0};
	int i, d;

	for (i = 0; i < rank_of(t); i++) {
		d = st->order[i];
		if (is_intv(dim_of(t, d), 1))
			map_put(&map, t->in[d], x_idx(kb->m, 0));
		else
			nest.axis[nest.n++] = t->in[d];
		nest.out_idx[d] = is_intv(dim_of(t, d), 1) ? x_idx(kb->m, 0) : t->in[d];
	}
	nest.body = subst(kb->m, nest.body, &map, false);
	map_free(&map);
	for (i = nest.n - 2; i >= 0; i--)
		if (mergeable(kb, &nest, i))
			merge(kb, &nest, i);
	return nest;
}

/* ---- map ------------------------------------------------------------------------------------- */

typedef struct MapCtx { Nest *nest; Node *axis, *extent; int lanes; } MapCtx;

static void
map_body(KB *kb, Region *r, Node *i, void *ctx)
{
	MapCtx *c = ctx;
	Nest *nest = c->nest;
	Node *idx[MAX_RANK], *body = c->axis ? subst1(kb->m, nest->body, c->axis, i) : nest->body;
	int d;

	for (d = 0; d < rank_of(nest->out); d++)
		idx[d] = c->axis ? subst1(kb->m, nest->out_idx[d], c->axis, i) : nest->out_idx[d];
	kb_store(kb, r, nest->out, idx, kb_emit(kb, r, body));
}

/* The loop over the innermost axis, or the one element. */
static void
map_loop(KB *kb, Region *r, void *ctx)
{
	MapCtx *c = ctx;

	if (c->axis)
		vector_loop(kb, r, c->extent, c->lanes, map_body, c);
	else
		map_body(kb, r, NULL, c);
}

/* Replaces the axes by the digits of p. */
static Node *
decode(KB *kb, Nest *nest, int n, Node *p)
{
	Module *m = kb->m;
	Map map = {0};
	int d;

	digits(m, &map, n, nest->axis, p);
	nest->body = subst(m, nest->body, &map, false);
	for (d = 0; d < rank_of(nest->out); d++)
		nest->out_idx[d] = subst(m, nest->out_idx[d], &map, false);
	map_free(&map);
	return p;
}

static bool
has_code(Node *e, OpCode a, OpCode b)
{
	Node **list;
	int i, n;
	bool yes = false;

	list = topo_scalar(e, &n);
	for (i = 0; i < n && !yes; i++)
		yes = list[i]->code == a || list[i]->code == b;
	free(list);
	return yes;
}

/* The extent of loops in a body, for the cost of one element. */
static bool
is_loop(const Node *e)
{
	return e->code == O_REDUCE || e->code == O_ITER;
}

enum { GUESS = 128 };                    /* a loop's extent that is not known */

static double
own_trips(const Node *loop)
{
	double t = 1;
	int k;

	for (k = 0; k < loop->nin - 1; k++)
		if (loop->in[k]->code == O_AXIS)
			t *= (double)const_or(loop->in[k]->in[0], GUESS);
	return t;
}

/* The most steps of a loop of the expression, those of the loops around it not counted. */
static double
loop_trips(Node *e)
{
	Node **list;
	double trips = 1, t;
	int i, n;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++)
		if (is_loop(list[i]) && (t = own_trips(list[i])) > trips)
			trips = t;
	free(list);
	return trips;
}

/* The steps of the loop of the expression that has the most of them, those of the loops around it
 * counted; which it is, NULL: there is none. */
static double
all_trips(Node *e, Node **which)
{
	Node **list;
	double most = 1, t;
	int i, k, n;

	*which = NULL;
	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++) {
		if (!is_loop(list[i]))
			continue;
		for (t = own_trips(list[i]), k = 0; k < n; k++)
			if (k != i && is_loop(list[k]) && contains(list[k], list[i]))
				t *= own_trips(list[k]);
		*which = t > most || !*which ? list[i] : *which;
		most = t > most ? t : most;
	}
	free(list);
	return most;
}

/* Is the extent known before the kernel runs? */
static bool
is_size(Node *extent)
{
	return !has_code(extent, O_READ, O_AXIS);
}

/* Units of work, in which extents that are not known were guessed, of elements of t with those that
 * they will have. */
static Node *
actual_units(Module *m, Node *t, double units)
{
	Node *body = t->in[t->nin - 1], *most, **list, *e = x_idx(m, (int64_t)ceil(units)), *axis;
	int i, k, n;

	all_trips(body, &most);
	list = topo_scalar(body, &n);
	for (i = 0; i < n && most; i++)
		for (k = 0; k < list[i]->nin - 1 && is_loop(list[i]) && contains(list[i], most); k++) {
			axis = list[i]->in[k];
			if (axis->code == O_AXIS && axis->in[0]->code != O_NUM && is_size(axis->in[0]))
				e = x_ceildiv(m, x_mul(m, e, axis->in[0]), x_idx(m, GUESS));
		}
	free(list);
	return e;
}

double
element_cost(Node *body)
{
	bool loop;

	return body_cost(body, &loop) * loop_trips(body) / 4 + 0.25;
}

/* What threads are shared out by (runtime/launch.c: some 30 in a nanosecond): the work of one
 * element, or its traffic at some 60 bytes in a nanosecond; loops read again what is near. */
double
element_units(Node *t)
{
	Node **list, *body = t->in[t->nin - 1], *most;
	double trips = loop_trips(body), work = element_cost(body) * all_trips(body, &most) / trips,
		bytes = dtypes[dtype_of(t)].bits / 8.0;
	bool loop = !body_is_plain(body);
	int i, n;

	list = topo_scalar(body, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_READ && definition(list[i]->in[0])->code != O_CONST)
			bytes += dtypes[list[i]->type->dtype].bits / 8.0 * (loop ? trips / 4 : 1);
	free(list);
	return work + bytes / 2;
}

/* Is the reduction inside another one? */
static bool
is_nested(const Node *red, int n, Node *const *list)
{
	int i;

	for (i = 0; i < n; i++)
		if (list[i]->code == O_REDUCE && list[i] != red && contains(list[i], red))
			return true;
	return false;
}

/* Does a reduction of the body read along a contiguous axis, and more than `last` is one? */
static bool
reduces_along(KB *kb, Node *body, Node *last)
{
	Node **list, *red, *c;
	int i, j, n, rows = 0, cols = 0;

	list = topo_scalar(body, &n);
	for (i = 0; i < n; i++) {
		if (list[i]->code != O_REDUCE || is_nested(list[i], n, list))
			continue;
		red = contiguous_last(kb, list[i]);
		red = red->in[red->nin - 2];
		for (j = 0; j < n; j++) {
			if (list[j]->code != O_READ || !contains(list[j], red))
				continue;
			c = elem_stride(kb, list[j], red);
			rows += c && is_intv(c, 1) && const_or(red->in[0], 64) >= 8;
			c = last ? elem_stride(kb, list[j], last) : NULL;
			cols += c && (is_intv(c, 1) || is_intv(c, 0));
			cols -= c && c->lo > 1;
		}
	}
	free(list);
	return rows > cols;
}

bool
wants_rows(KB *kb, Nest *nest)
{
	return reduces_along(kb, nest->body, nest->n ? nest->axis[nest->n - 1] : NULL);
}

bool
body_is_plain(Node *body)
{
	return !has_code(body, O_REDUCE, O_ITER);
}

bool
long_rows(Sched *s, Node *t)
{
	KB kb = kb_new(s, NULL);
	Nest nest = nest_of(&kb, t);
	bool yes = wants_rows(&kb, &nest) && loop_trips(nest.body) >= 64;

	map_free(&kb.buf);
	return yes;
}

static Kernel *
schedule_map(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Nest nest = nest_of(&kb, g->members[0]);
	Region *body = region_new(m, NULL), *in = region_new(m, NULL);
	Node *p, *ext, *axis, *inner, *total;
	int w = lanes_of(s, widest_type(nest.body));
	bool rows = wants_rows(&kb, &nest);
	double cost = element_cost(nest.body), work = element_units(g->members[0]), units = 1;
	MapCtx c = {.nest = &nest, .lanes = w};
	int64_t e;

	if (nest.n == 0 || rows) {
		ext = axes_product(m, nest.n, nest.axis);
		p = kb_units(&kb, g, in, ext);
		decode(&kb, &nest, nest.n, p);
		kb_versions(&kb, in, nest.body, map_loop, &c);
		kb.k->flops = cost;
	} else {
		axis = nest.axis[nest.n - 1];
		inner = axis->in[0];
		nest.n--;
		ext = axes_product(m, nest.n, nest.axis);
		if (!is_int(inner, &e) || e > 2 * BLOCK) {     /* long rows: blocks of them */
			Node *nb = x_ceildiv(m, inner, x_idx(m, BLOCK)), *blk, *base, *len;
			total = x_mul(m, ext, nb);
			p = kb_units(&kb, g, in, total);
			blk = nest.n ? x_mod(m, p, nb) : p;
			decode(&kb, &nest, nest.n, nest.n ? x_fdiv(m, p, nb) : p);
			base = l_let(m, in, x_muli(m, blk, BLOCK));
			len = l_let(m, in, x_min(m, x_idx(m, BLOCK), x_sub(m, inner, base)));
			len->lo = 0;
			len->hi = BLOCK;
			c.axis = axis;
			nest.body = subst1(m, nest.body, axis, x_add(m, axis, base));
			for (int d = 0; d < rank_of(nest.out); d++)
				nest.out_idx[d] = subst1(m, nest.out_idx[d], axis, x_add(m, axis, base));
			c.extent = len;
			kb_versions(&kb, in, nest.body, map_loop, &c);
			units = BLOCK;
			kb.k->cost = x_mul(m, x_min(m, x_idx(m, BLOCK), inner),
				actual_units(m, g->members[0], work));
		} else {
			p = kb_units(&kb, g, in, ext);
			decode(&kb, &nest, nest.n, p);
			c.axis = axis;
			c.extent = inner;
			kb_versions(&kb, in, nest.body, map_loop, &c);
			units = (double)e;
		}
		kb.k->flops = cost * units;
	}
	if (!kb.k->cost)
		kb.k->cost = actual_units(m, g->members[0], work * units);
	kb_parallel(&kb, body, in);
	return kb_finish(&kb, body,
		arena_printf(m->arena, "class=%s, lanes=%d", rows ? "row" : "map", w));
}

/* ---- row ------------------------------------------------------------------------------------- */

typedef struct RowCtx {
	Node *t, *body, **idx, *axis;
	int last, lanes;
	Local *local;
	bool global;
} RowCtx;

static void
row_body(KB *kb, Region *r, Node *i, void *ctx)
{
	RowCtx *c = ctx;
	Node *idx[MAX_RANK],
		*v = kb_emit(kb, r, c->axis ? subst1(kb->m, c->body, c->axis, i) : c->body);

	memcpy(idx, c->idx, sizeof *idx * (size_t)rank_of(c->t));
	if (c->axis)
		idx[c->last] = i;
	if (c->local && c->local->buffer)
		local_store(kb, r, c->local, idx, v);
	if (c->global)
		kb_store(kb, r, c->t, idx, v);
}

/*
 * Lanes for results along the axis that are sums (or the like) of w lanes at once: several vectors
 * share what a step computes for all, like the place of a row that is looked up.
 */
static int
lanes_of_sums(KB *kb, Node *body, Node *axis, int w)
{
	Node **list, *stride;
	int i, n, most = MAX_SUMS * w;
	int64_t ext;
	bool shared = false, plain = body->code == O_REDUCE && body->size <= MAX_SUM_SIZE
		&& is_int(axis->in[0], &ext);

	if (!plain)
		return w;
	list = topo_scalar(body, &n);
	for (i = 0; i < n && plain; i++) {
		if (list[i]->code != O_READ)
			continue;
		stride = contains(list[i], axis) ? elem_stride(kb, list[i], axis) : NULL;
		plain = !contains(list[i], axis) || (stride && is_intv(stride, 1));
		shared |= !contains(list[i], axis);
	}
	free(list);
	while (plain && shared && 2 * w <= most && ext % (2 * w) == 0)
		w *= 2;
	return w;
}

/* The loop over the innermost axis, or the one element. */
static void
row_loop(KB *kb, Region *r, void *ctx)
{
	RowCtx *c = ctx;

	if (c->axis)
		vector_loop(kb, r, dim_of(c->t, c->last),
			reduces_along(kb, c->body, c->axis) ? 1
				: lanes_of_sums(kb, c->body, c->axis, c->lanes), row_body, c);
	else
		row_body(kb, r, NULL, c);
}

/* Room for a row of t on the stack, NULL where there is none. */
static Local *
row_buffer(KB *kb, Region *r, Node *t, int nouter, int64_t *stack)
{
	DType d = storage_type(dtype_of(t));
	int64_t size = dtypes[d].bits / 8, e;
	Local *l;
	int i;

	for (i = nouter; i < rank_of(t); i++) {
		if (!is_int(dim_of(t, i), &e))
			return NULL;
		size = sat_mul(size, e);
	}
	if (size > MAX_STACK - *stack)
		return NULL;
	l = NEW(kb->m, Local);
	for (i = nouter; i < rank_of(t); i++)
		l->dim[l->n++] = i;
	l->buffer = l_alloc(kb->m, r,
		l_buffer(kb->m, "row", d, SP_STACK, l->n, t->type->dims + nouter));
	*stack += (size + 63) / 64 * 64;
	return l;
}

/* A member of one element an outer point. */
static void
row_scalar(KB *kb, Region *r, Node *t, Node *body, Node **idx, bool local)
{
	Local *l = NEW(kb->m, Local);

	l->value = l_let(kb->m, r, kb_emit(kb, r, body));
	if (!local)
		kb_store(kb, r, t, idx, l->value);
	map_put(&kb->local, t, l);
}

/* A member's loops over its inner axes in the order of memory, what has no extent left out. */
static void
row_loops(KB *kb, Region *r, Node *t, int nouter, Node *body, Node **idx, Local *l)
{
	Module *m = kb->m;
	RowCtx c = {.t = t, .idx = idx, .local = l, .global = !l};
	int dims[MAX_RANK], i, d, n = 0;
	Region *q;

	for (i = 0; i < rank_of(t); i++) {
		d = l ? i : storage_of(kb->s, t)->order[i];
		if (d < nouter)
			continue;
		if (is_intv(dim_of(t, d), 1)) {
			idx[d] = x_idx(m, 0);
			body = subst1(m, body, t->in[d], idx[d]);
		} else
			dims[n++] = d;
	}
	for (i = 0; i + 1 < n; i++) {
		idx[dims[i]] = x_axis(m, dim_of(t, dims[i]));
		body = subst1(m, body, t->in[dims[i]], idx[dims[i]]);
		q = region_new(m, NULL);
		l_for(m, r, F_SERIAL, idx[dims[i]], q);
		r = q;
	}
	c.body = body;
	c.lanes = lanes_of(kb->s, widest_type(body));
	c.last = n ? dims[n - 1] : 0;
	c.axis = n ? t->in[c.last] : NULL;
	kb_versions(kb, r, body, row_loop, &c);
}

static void
row_member(KB *kb, Region *r, Node *t, int nouter, Node **shared, bool local, int64_t *stack)
{
	Module *m = kb->m;
	Map map = {0};
	Node *idx[MAX_RANK], *body;
	Local *l;
	int i;

	for (i = 0; i < nouter; i++) {
		idx[i] = is_intv(dim_of(t, i), 1) ? x_idx(m, 0) : shared[i];
		map_put(&map, t->in[i], idx[i]);
	}
	body = subst(m, t->in[t->nin - 1], &map, false);
	map_free(&map);
	if (rank_of(t) == nouter) {
		row_scalar(kb, r, t, body, idx, local);
		return;
	}
	l = local ? row_buffer(kb, r, t, nouter, stack) : NULL;
	row_loops(kb, r, t, nouter, body, idx, l);
	if (l)
		map_put(&kb->local, t, l);
}

static Kernel *
schedule_rows(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Region *body = region_new(m, NULL), *in = region_new(m, NULL);
	Node *shared[MAX_RANK], *rest, *ext, *n = x_idx(m, 1), *size;
	int64_t stack = 0;
	int i, k;
	double cost = 0, units;

	for (i = 0; i < g->nouter; i++)
		n = x_mul(m, n, dim_of(g->members[0], i));
	rest = kb_units(&kb, g, in, n);
	for (i = g->nouter; i-- > 0;) {
		ext = dim_of(g->members[0], i);
		shared[i] = l_let(m, in, i ? x_mod(m, rest, ext) : rest);
		rest = x_fdiv(m, rest, ext);
	}
	/* lets are listed last axis first; each is a digit of p */
	for (k = 0; k < g->n; k++) {
		row_member(&kb, in, g->members[k], g->nouter, shared, g->local[k], &stack);
		units = 1;
		size = actual_units(m, g->members[k], element_units(g->members[k]));
		for (i = g->nouter; i < rank_of(g->members[k]); i++) {
			units *= const_or(dim_of(g->members[k], i), 128);
			size = x_mul(m, size, dim_of(g->members[k], i));
		}
		kb.k->cost = kb.k->cost ? x_add(m, kb.k->cost, size) : size;
		cost += units * element_cost(g->members[k]->in[g->members[k]->nin - 1]);
	}
	kb.k->flops = cost;
	kb.k->scratch = stack ? x_idx(m, stack) : NULL;
	kb_parallel(&kb, body, in);
	return kb_finish(&kb, body,
		arena_printf(m->arena, "class=row, members=%d, outer=%d", g->n, g->nouter));
}

/* ---- several results element by element ------------------------------------------------------ */

/* Has each member one element an outer point, without loops? */
static bool
are_elements(const Group *g)
{
	int k;

	for (k = 0; k < g->n; k++)
		if (rank_of(g->members[k]) != g->nouter
		 || !body_is_plain(g->members[k]->in[g->members[k]->nin - 1]))
			return false;
	return g->nouter > 0;
}

/* The members at the outer axes' values, axis `along` counted from base. */
typedef struct Elements { Group *g; Node **shared, *base; int along; } Elements;

static void
elements_body(KB *kb, Region *r, Node *i, void *ctx)
{
	const Elements *e = ctx;
	int64_t stack = 0;
	int k;

	e->shared[e->along] = x_add(kb->m, e->base, i);
	for (k = 0; k < e->g->n; k++)
		row_member(kb, r, e->g->members[k], e->g->nouter, e->shared, e->g->local[k], &stack);
}

static Kernel *
schedule_elements(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Region *body = region_new(m, NULL), *in = region_new(m, NULL);
	Node *t = g->members[0], *shared[MAX_RANK], *outer[MAX_RANK], *rest, *n = x_idx(m, 1), *len, *blocks;
	Elements c = {.g = g, .shared = shared, .along = storage_of(s, t)->order[g->nouter - 1]};
	int i, k, w = INT_MAX, lanes;
	int64_t e;
	double cost = 0, work = 0;

	for (k = 0; k < g->n; k++) {
		lanes = lanes_of(s,
			widest_along(g->members[k]->in[g->members[k]->nin - 1], g->members[k]->in[c.along]));
		w = lanes < w ? lanes : w;
		cost += element_cost(g->members[k]->in[g->members[k]->nin - 1]);
		work += element_units(g->members[k]);
	}
	len = dim_of(t, c.along);
	blocks = is_int(len, &e) && e <= 2 * BLOCK ? n : x_ceildiv(m, len, x_idx(m, BLOCK));
	for (i = 0; i < g->nouter; i++)
		outer[i] = i == c.along ? blocks : dim_of(t, i);
	for (i = 0; i < g->nouter; i++)
		n = x_mul(m, n, outer[i]);
	rest = kb_units(&kb, g, in, n);
	for (i = g->nouter; i-- > 0;) {
		shared[i] = l_let(m, in, i ? x_mod(m, rest, outer[i]) : rest);
		rest = x_fdiv(m, rest, outer[i]);
	}
	c.base = x_muli(m, shared[c.along], BLOCK);
	if (!is_intv(blocks, 1)) {
		len = l_let(m, in, x_min(m, x_idx(m, BLOCK), x_sub(m, len, c.base)));
		len->lo = 0;
		len->hi = BLOCK;
	}
	vector_loop(&kb, in, len, w, elements_body, &c);
	kb.k->flops = cost * (double)const_or(len, BLOCK);
	kb.k->cost = x_muli(m, is_intv(blocks, 1) ? len : x_idx(m, BLOCK), (int64_t)ceil(work));
	kb_parallel(&kb, body, in);
	return kb_finish(&kb, body, arena_printf(m->arena, "class=map, members=%d, lanes=%d", g->n, w));
}

Kernel *
schedule_cpu(Sched *s, Group *g)
{
	Kernel *k;

	if (g->attends)
		return attention_cpu(s, g);
	if (g->n > 1)
		return are_elements(g) ? schedule_elements(s, g) : schedule_rows(s, g);
	if ((k = transform_cpu(s, g)) || (k = contract_cpu(s, g)) || (k = order_cpu(s, g))
	 || (k = window_cpu(s, g)))
		return k;
	return schedule_map(s, g);
}
