/*
 * GPU schedules, in SIMT form: a grid loop over blocks, a block loop over threads.
 *
 * map: a thread an element (four where the innermost extent allows 128-bit accesses), consecutive
 * threads on consecutive elements of the result's storage; gpu_tile.c where operands lie across.
 * row: gpu_row.c; columns: gpu_columns.c.
 * contract: gpu_contract.c; of few rows: gpu_few.c.
 * attention: attend_wgmma.c, attend_mma.c, attend_gpu.c; of few rows: gpu_decode.c.
 * order: gpu_order.c, scatter.c.
 * scan: gpu_scan.c.
 */
#include <stdlib.h>
#include <string.h>
#include "sched.h"

enum { THREADS = 256, LONG_SUM = 32 };

Frame
gpu_frame(KB *kb, Node *blocks, int threads)
{
	Module *m = kb->m;
	Frame f = {
		.body = region_new(m, NULL), .block = region_new(m, NULL), .thread = region_new(m, NULL)};

	f.bid = x_axis(m, blocks);
	f.tid = x_axis(m, x_idx(m, threads));
	kb->k->grid[0] = blocks;
	kb->k->grid[1] = kb->k->grid[2] = x_idx(m, 1);
	kb->k->block = threads;
	return f;
}

Kernel *
gpu_close(KB *kb, Frame *f, const char *schedule)
{
	l_for(kb->m, f->block, F_BLOCK, f->tid, f->thread);
	l_for(kb->m, f->body, F_GRID_X, f->bid, f->block);
	return kb_finish(kb, f->body, schedule);
}

Node *
gpu_shared(KB *kb, Frame *f, const char *name, DType d, int n, Node *const *ext)
{
	int64_t size = dtypes[d].bits / 8;
	int i;

	for (i = 0; i < n; i++)
		size *= const_or(ext[i], 1);
	kb->k->shared += (size + 15) / 16 * 16;
	return l_alloc(kb->m, f->block, l_buffer(kb->m, name, d, SP_SHARED, n, ext));
}

/* ---- vectors --------------------------------------------------------------------------------- */

static int64_t
gcd(int64_t a, int64_t b)
{
	int64_t t;

	while (b)
		t = a % b, a = b, b = t;
	return a < 0 ? -a : a;
}

/* A number that divides the expression whatever its axes and symbols are; 0 if it is 0. */
static int64_t
divisor(const Node *e)
{
	int64_t v;

	if (is_int(e, &v))
		return v;
	switch (e->code) {
	case O_ADD: case O_SUB: case O_MIN: case O_MAX:
		return gcd(divisor(e->in[0]), divisor(e->in[1]));
	case O_MUL: return sat_mul(divisor(e->in[0]), divisor(e->in[1]));
	default: return 1;
	}
}

bool
divisible(const Node *e, int w)
{
	return divisor(e) % w == 0;
}

bool
in_vectors(Module *m, Node *addr, Node *axis, int w)
{
	Node *coef, *rest;

	return divisible(axis->in[0], w) && linear_in(m, addr, axis, &coef, &rest) && is_intv(coef, 1)
		&& divisible(rest, w);
}

/* Does the comparison come out alike for w lanes of the axis, the first one's place being
 * divisible by w? */
static bool
same_for_lanes(Module *m, const Node *e, Node *axis, int w)
{
	Node *coef, *rest;

	return (e->code == O_LT || e->code == O_LE) && e->in[0]->type->dtype == DT_INDEX
		&& contains(e, axis) && linear_in(m, x_sub(m, e->in[0], e->in[1]), axis, &coef, &rest)
		&& is_intv(coef, e->code == O_LT ? 1 : -1) && divisible(rest, w);
}

Node *
by_vectors(Module *m, Node *e, Node *axis, int w)
{
	Map map = {0};
	Node **list;
	int i, n;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++)
		if (same_for_lanes(m, list[i], axis, w))
			map_put(&map, list[i], subst1(m, list[i], axis, x_idx(m, 0)));
	e = map.n ? subst(m, e, &map, false) : e;
	free(list);
	map_free(&map);
	return e;
}

int
vector_of(int bytes)
{
	return bytes >= 8 ? 2 : bytes >= 2 ? 4 : 8;
}

/* ---- map ------------------------------------------------------------------------------------- */

static void
element(KB *kb, Region *r, Nest *nest, Node *flat, Node *v, int lanes)
{
	Module *m = kb->m;
	Map map = {0};
	Node *idx[MAX_RANK], *e;
	int d;

	digits(m, &map, nest->n, nest->axis, flat);
	for (d = 0; d < rank_of(nest->out); d++)
		idx[d] = subst(m, nest->out_idx[d], &map, false);
	e = subst(m, nest->body, &map, false);
	kb_store(kb, r, nest->out, idx, kb_emit(kb, r, v ? by_vectors(m, e, v, lanes) : e));
	map_free(&map);
}

/* Elements that a thread has: four where the innermost extent allows 128-bit accesses. */
static int
map_lanes(const Nest *nest)
{
	return nest->n && const_or(nest->axis[nest->n - 1]->in[0], 1) % 4 == 0
		&& dtypes[storage_type(dtype_of(nest->out))].bits <= 32 && body_is_plain(nest->body) ? 4 : 1;
}

/* The elements of thread number `unit` of those that have the map. */
static void
map_elements(KB *kb, Region *r, Nest *nest, Node *unit, int lanes)
{
	Module *m = kb->m;
	Node *n = axes_product(m, nest->n, nest->axis), *v;
	Region *in = region_new(m, NULL), *rv;

	if (lanes == 1)
		element(kb, in, nest, unit, NULL, 1);
	else {
		v = x_axis(m, x_idx(m, lanes));
		rv = region_new(m, NULL);
		element(kb, rv, nest, x_add(m, x_muli(m, unit, lanes), v), v, lanes);
		l_for(m, in, F_VECTOR, v, rv);
	}
	l_when(m, r, x_lt(m, x_muli(m, unit, lanes), n), in, NULL);
}

/* Of one map, or of several, whose blocks follow each other. */
static Kernel *
map_gpu(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Nest *nest = NEWN(m, Nest, g->n);
	Node *end = x_idx(m, 0), **first = NEWN(m, Node *, g->n + 1), *unit;
	Region *at, *in, *rest;
	int *lanes = NEWN(m, int, g->n), i;
	double cost = 0;
	Frame f;

	for (i = 0; i < g->n; i++) {
		nest[i] = nest_of(&kb, g->members[i]);
		lanes[i] = map_lanes(&nest[i]);
		first[i] = end;
		end = x_add(m, end, x_ceildiv(m, axes_product(m, nest[i].n, nest[i].axis),
			x_idx(m, THREADS * lanes[i])));
		cost += lanes[i] * element_cost(nest[i].body) / g->n;
	}
	first[g->n] = end;
	f = gpu_frame(&kb, end, THREADS);
	for (i = 0, at = f.thread; i < g->n; i++, at = rest) {
		in = i + 1 < g->n ? region_new(m, NULL) : at;
		rest = region_new(m, NULL);
		unit = l_let(m, in, x_add(m, x_muli(m, x_sub(m, f.bid, first[i]), THREADS), f.tid));
		map_elements(&kb, in, &nest[i], unit, lanes[i]);
		if (in != at)
			l_when(m, at, x_lt(m, f.bid, first[i + 1]), in, rest);
	}
	kb.k->flops = THREADS * cost;
	return gpu_close(&kb, &f, g->n > 1
		? arena_printf(m->arena, "class=map, threads=%d, beside=%d", THREADS, g->n)
		: arena_printf(m->arena, "class=map, threads=%d, lanes=%d", THREADS, lanes[0]));
}

/* Are there too few elements for a thread each to fill the device? */
static bool
few_elements(const Sched *s, const Node *t)
{
	double count = 1;
	int i;

	for (i = 0; i < rank_of(t); i++)
		count *= (double)likely_extent(s->m, dim_of(t, i));
	return count < s->mach->units * THREADS;
}

/* Are there too few elements for a thread each to fill the device, with long sums that threads
 * could share? */
static bool
long_sums(const Sched *s, const Node *t)
{
	Node *red = only_reduction(t->in[t->nin - 1]);
	double depth = 1;
	int i;

	for (i = 0; red && i + 1 < red->nin; i++)
		depth *= (double)likely_extent(s->m, red->in[i]->in[0]);
	return red && depth >= LONG_SUM && few_elements(s, t);
}

/* By warp groups if they can, always or where sizes allow it; by warps; by threads. */
static Kernel *
attend(Sched *s, Group *g)
{
	Kernel *groups = attention_wgmma(s, g), *k;

	if (groups && !groups->fits)
		return groups;
	k = attention_mma(s, g);
	k = k ? k : attention_gpu(s, g);
	if (!groups)
		return k;
	groups->otherwise = k;
	return groups;
}

Kernel *
schedule_gpu(Sched *s, Group *g)
{
	Kernel *k;

	if (g->attends)
		return attend(s, g);
	if (g->beside)
		return map_gpu(s, g);
	if ((g->few || g->n == 1) && (k = few_gpu(s, g)))
		return k;
	if (g->n > 1 && (k = decode_gpu(s, g)))
		return k;
	if (g->n > 1)
		return rows_gpu(s, g);
	if ((k = contract_gpu(s, g)) || (k = order_gpu(s, g)) || (k = scan_gpu(s, g)))
		return k;
	if (long_rows(s, g->members[0]) || long_sums(s, g->members[0])) {
		g->nouter = rank_of(g->members[0]);
		return rows_gpu(s, g);
	}
	if (few_elements(s, g->members[0]) && (k = columns_gpu(s, g)))
		return k;
	return (k = tile_gpu(s, g)) ? k : map_gpu(s, g);
}
