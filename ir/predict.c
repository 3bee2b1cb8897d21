/*
 * The performance model: counts from the kernel's statements, times from the machine's row, and of
 * all resources the busiest one decides.
 *
 *   per unit    ceil(blocks / units) blocks, r of them at once (registers, shared memory, threads)
 *   fp32        instructions of the plain units, those of functions weighed
 *   shared      passes over the banks, one a cycle
 *   issue       instructions of warps, four a cycle
 *   l2          sectors of global memory, each request's own
 *   dram        bytes of the buffers touched; what does not fit the second cache misses it in
 *               proportion
 *   latency     loads that wait for each other: the steps of serial loops around them
 *
 * Not seen: address arithmetic (hoisted by the compilers), hits of the first cache, data-dependent
 * addresses (taken as 0). Atomics and matrix instructions do not occur yet.
 */
#include <stdlib.h>
#include <string.h>
#include "predict.h"

/* The model's constants, besides the machines' rows. */
static const double
	launch_us = 1.5,       /* between kernels of a captured graph */
	latency = 600,         /* cycles of a load from memory; A100, H100: 500 to 700 measured */
	barrier_cycles = 30,
	dram_share = 0.88,     /* of the bandwidth that a copy reaches */
	l2_bytes = 48,         /* a cycle and unit: 5120 a cycle of the A100's 108 units */
	issues = 4;            /* instructions of warps a cycle and unit */

/* Instructions of operations that are more than one. */
static const struct { OpCode op; double cost; } costs[] = {
	{O_DIV, 8}, {O_REM, 30}, {O_SQRT, 8}, {O_EXP, 12}, {O_LOG, 16}, {O_LOG1P, 20}, {O_EXPM1, 16},
		{O_POW, 40},
	{O_SIN, 24}, {O_COS, 24}, {O_TAN, 30}, {O_ASIN, 24}, {O_ACOS, 24}, {O_ATAN, 24}, {O_SINH, 20},
	{O_COSH, 20}, {O_TANH, 18}, {O_ASINH, 30}, {O_ACOSH, 30}, {O_ATANH, 30}, {O_ERF, 22},
	{O_LGAMMA, 60},
};

enum { MAX_LANES = 64, SECTOR = 32, BANKS = 32 };

/* Two warps stand for all: the first, and one in the middle. */
enum { WARPS = 2 };

typedef struct Count {
	Module *m;
	const Machine *t;
	const Kernel *k;
	Map env;               /* axes, symbols -> Num */
	Map memo;              /* node -> 1 + its place in pool: values while nothing is bound anew */
	Num *pool;
	uint32_t npool, cap;
	Node *tid, *vector;    /* the block's axis; the vector loop's, or NULL */
	int warps;             /* of the block */
	double share[WARPS];   /* how many warps each of the two stands for */
	uint64_t active[WARPS];/* lanes that get here */
	double times, serial;  /* a lane gets here; of them, steps that follow each other */
	/* sums over a block */
	double arith, issued, flops, sectors, ideal_sectors, waves, ideal_waves, steps, barriers;
	Map touched;           /* global buffers -> Num: bytes that all blocks access */
	double blocks;
	Node *unknown;
} Count;

/* ---- values ---------------------------------------------------------------------------------- */

static Num value(Count *c, const Node *e);

static Num
operation(Count *c, const Node *e)
{
	Num in[4] = {{0}}, out = {0};
	int i;

	if (e->code == O_SELECT)
		return value(c, e->in[value(c, e->in[0]).i ? 1 : 2]);
	for (i = 0; i < e->nin && i < 4; i++)
		in[i] = value(c, e->in[i]);
	if (e->code == O_BOUND)
		return in[0].i < 0 ? out : in[0];
	return num_eval(e->code, e->type->dtype, e->in[0]->type->dtype, in, &out) ? out : (Num){0};
}

static void
remember(Count *c, const Node *e, Num v)
{
	Num *pool = c->pool;

	if (c->npool == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 256;
		c->pool = NEWN(c->m, Num, c->cap);
		if (pool)
			memcpy(c->pool, pool, c->npool * sizeof *pool);
	}
	c->pool[c->npool++] = v;
	map_put(&c->memo, e, (void *)(uintptr_t)c->npool);
}

/* What memory holds counts as 0. */
static Num
value(Count *c, const Node *e)
{
	Num v = {0}, *known;

	switch (e->code) {
	case O_NUM: return e->num;
	case O_AXIS: case O_SYM:
		if (!(known = map_get(&c->env, e)) && e->code == O_SYM)
			c->unknown = (Node *)e;
		return known ? *known : v;
	default: break;
	}
	if ((known = map_get(&c->memo, e)))
		return c->pool[(uintptr_t)known - 1];
	v = e->code == O_LET ? value(c, e->in[0]) : e->code < O_NUM ? operation(c, e) : v;
	remember(c, e, v);
	return v;
}

static void
bind(Count *c, const Node *axis, int64_t v)
{
	Num *n = map_get(&c->env, axis);

	if (!n)
		map_put(&c->env, axis, n = NEW(c->m, Num));
	n->i = v;
	map_free(&c->memo);
	c->npool = 0;
}

static int64_t
at_lane(Count *c, const Node *e, int warp, int lane)
{
	int first = warp ? c->warps / 2 : 0;

	bind(c, c->tid, (int64_t)first * c->t->warp + lane);
	return value(c, e).i;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int
by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Sorts; how many differ. */
static int
distinct(int64_t *v, int n)
{
	int i, k = 0;

	qsort(v, (size_t)n, sizeof *v, by_value);
	for (i = 0; i < n; i++)
		if (!i || v[i] != v[i - 1])
			v[k++] = v[i];
	return k;
}

/* n accesses of size bytes: the blocks of `unit` bytes they touch. */
static int
units_touched(const int64_t *at, int n, int size, int unit)
{
	int64_t v[MAX_LANES * 5];
	int i, k = 0;
	int64_t u;

	for (i = 0; i < n; i++)
		for (u = at[i] / unit; u <= (at[i] + size - 1) / unit && k < MAX_LANES * 5; u++)
			v[k++] = u;
	return distinct(v, k);
}

/* Passes that k different words take, one from each bank at a time. */
static int
degree(const int64_t *word, int k)
{
	int of[BANKS] = {0}, most = 0, i;

	for (i = 0; i < k; i++)
		if (++of[word[i] & (BANKS - 1)] > most)
			most = of[word[i] & (BANKS - 1)];
	return most;
}

/* Passes over the banks: accesses of 8 bytes go by half warps, of 16 by quarters, which share a
 * pass where that costs none of them more. */
static int
passes(const int64_t *at, int n, int size)
{
	int group = size <= 4 ? 32 : size <= 8 ? 16 : 8, i, j, b, k, both = 0, waves = 0, had, own;
	int64_t v[MAX_LANES * 8];

	for (i = 0; i < n; i += group) {
		for (j = i, k = both; j < i + group && j < n; j++)
			for (b = 0; b < (size + 3) / 4; b++)
				v[k++] = at[j] / 4 + b;
		had = degree(v, both);
		k = both + distinct(v + both, k - both);
		own = degree(v + both, k - both);
		memcpy(v + k, v, sizeof *v * (size_t)k);
		b = distinct(v + k, k);
		if (both && degree(v + k, b) > (had > own ? had : own)) {
			waves += had;
			memmove(v, v + both, sizeof *v * (size_t)(k - both));
			both = k - both;
		} else {
			memmove(v, v + k, sizeof *v * (size_t)b);
			both = b;
		}
	}
	return waves + degree(v, both);
}

/* The flat element of a buffer. */
static Node *
flat(Count *c, const Node *buffer, Node *const *idx)
{
	Node *f = idx[0];
	int i;

	for (i = 1; i < buffer->nin; i++)
		f = x_add(c->m, x_mul(c->m, f, buffer->in[i]), idx[i]);
	return f;
}

/* One instruction moves a vector's elements if they follow each other. */
static bool
as_vector(Count *c, const Node *at)
{
	int64_t a, b;

	if (!c->vector)
		return false;
	a = at_lane(c, at, 0, 0);
	bind(c, c->vector, 1);
	b = at_lane(c, at, 0, 0);
	bind(c, c->vector, 0);
	return b - a == 1;
}

static void
touch(Count *c, const Node *buffer, double bytes)
{
	double *sum = map_get(&c->touched, buffer);

	if (!sum)
		map_put(&c->touched, buffer, sum = NEW(c->m, double));
	*sum += bytes;
}

static void
reach(Count *c, const Node *buffer, Node *const *idx)
{
	int64_t at[MAX_LANES], size = dtypes[buffer->type->dtype].bits / 8;
	Node *e = buffer->type->space == SP_GLOBAL || buffer->type->space == SP_SHARED
		? flat(c, buffer, idx) : NULL;
	double times = c->times;
	int w, l, n, bytes = (int)size;

	if (!e)
		return;
	if (as_vector(c, e)) {
		times /= (double)value(c, c->vector->in[0]).i;
		bytes = (int)(size * value(c, c->vector->in[0]).i);
		bytes = bytes > 16 ? 16 : bytes;
	}
	for (w = 0; w < WARPS; w++) {
		for (l = n = 0; l < c->t->warp; l++)
			if (c->active[w] >> l & 1 && (at[n] = at_lane(c, e, w, l) * size) >= 0)
				n++;               /* below 0: the side of a choice that is not taken */
		if (!n || c->share[w] == 0)
			continue;
		c->issued += times * c->share[w];
		if (buffer->type->space == SP_SHARED) {
			c->waves += times * c->share[w] * passes(at, n, bytes);
			c->ideal_waves += times * c->share[w]
				* ((units_touched(at, n, bytes, 4) + BANKS - 1) / BANKS);
			continue;
		}
		c->sectors += times * c->share[w] * units_touched(at, n, bytes, SECTOR);
		c->ideal_sectors += times * c->share[w]
			* ((units_touched(at, n, bytes, (int)size) * (int)size + SECTOR - 1) / SECTOR);
		touch(c, buffer, times * c->share[w] * n * bytes);
	}
}

/* ---- statements ------------------------------------------------------------------------------ */

static double
cost_of(const Node *e)
{
	double scale = e->type->dtype == DT_F64 || e->in[0]->type->dtype == DT_F64 ? 2 : 1;
	size_t i;

	for (i = 0; i < sizeof costs / sizeof *costs; i++)
		if (costs[i].op == e->code)
			return scale * costs[i].cost;
	return scale;
}

/* Integers are addresses mostly, but those that data are made of. */
static bool
is_work(const Node *e)
{
	return e->code < O_NUM && e->nin && e->type->kind == T_SCALAR
		&& (dt_float(e->type->dtype) || dt_float(e->in[0]->type->dtype) || e->code == O_DOT4
		|| (e->type->dtype != DT_INDEX && e->type->dtype != DT_BOOL && e->code != O_CAST));
}

static double
active_warps(const Count *c)
{
	double n = 0;
	int w;

	for (w = 0; w < WARPS; w++)
		n += c->active[w] ? c->share[w] : 0;
	return n;
}

static void
part(Count *c, const Node *e, bool *loads)
{
	if (e->code == O_LOAD) {
		*loads |= e->in[0]->type->space == SP_GLOBAL;
		reach(c, e->in[0], e->in + 1);
	} else if (e->code == O_FOLD)
		c->issued += 2 * 5 * c->times * active_warps(c);
	else if (is_work(e)) {
		c->arith += cost_of(e) * c->times * active_warps(c);
		c->flops += (e->code == O_MULADD
			|| e->code == O_FMA ? 2 : e->code == O_DOT4 ? 8 : 1) * c->times;
	}
}

/* What the expression computes, but values of lets; each part once. */
static void
expression(Count *c, const Node *e, Map *seen, bool *loads)
{
	int i;

	if (e->code == O_LET || e->code == O_AXIS || e->code == O_NUM || e->code == O_SYM
	 || e->type->kind != T_SCALAR || map_get(seen, e))
		return;
	map_put(seen, e, (void *)e);
	for (i = 0; i < e->nin; i++)
		expression(c, e->in[i], seen, loads);
	part(c, e, loads);
}

static bool
evaluate(Count *c, const Node *e)
{
	Map seen = {0};
	bool loads = false;

	expression(c, e, &seen, &loads);
	map_free(&seen);
	return loads;
}

static void region(Count *c, const Region *r);

static void
loop(Count *c, const Node *f)
{
	const Node *axis = f->in[0], *vector = c->vector;
	int64_t n = value(c, axis->in[0]).i;
	double times = c->times, serial = c->serial;

	if (n <= 0)
		return;
	bind(c, axis, f->n == F_VECTOR || f->n == F_UNROLL ? 0 : n / 2);
	switch (f->n) {
	case F_GRID_X: case F_GRID_Y: case F_GRID_Z:
		break;
	case F_BLOCK:
		c->tid = (Node *)axis;
		break;
	case F_VECTOR:
		c->vector = (Node *)axis;
		c->times *= (double)n;
		break;
	default:
		c->times *= (double)n;
		c->serial *= f->n == F_UNROLL ? 1 : (double)n;
	}
	region(c, f->regions[0]);
	c->times = times;
	c->serial = serial;
	c->vector = (Node *)vector;
}

static void
when(Count *c, const Node *s)
{
	uint64_t all[WARPS], yes;
	int w, l, k;

	memcpy(all, c->active, sizeof all);
	for (k = 0; k < s->nregions; k++) {
		for (w = 0; w < WARPS; w++) {
			for (l = 0, yes = 0; l < c->t->warp; l++)
				if (all[w] >> l & 1)
					yes |= (uint64_t)((at_lane(c, s->in[0], w, l) != 0) == !k) << l;
			c->active[w] = yes;
		}
		if (active_warps(c) > 0)
			region(c, s->regions[k]);
	}
	memcpy(c->active, all, sizeof all);
}

static bool
statement(Count *c, const Node *s)
{
	bool loads = false;
	int i;

	switch (s->code) {
	case O_FOR: loop(c, s); break;
	case O_WHEN:
		loads = evaluate(c, s->in[0]);
		when(c, s);
		break;
	case O_LET: return evaluate(c, s->in[0]);
	case O_STORE:
		for (i = 1; i < s->nin; i++)
			loads |= evaluate(c, s->in[i]);
		reach(c, s->in[0], s->in + 1);
		break;
	case O_BARRIER: c->barriers += c->serial; break;
	default: break;
	}
	return loads;
}

/* Loads of one region do not wait for each other. */
static void
region(Count *c, const Region *r)
{
	bool loads = false;
	int i;

	for (i = 0; i < r->nresults; i++)
		loads |= statement(c, r->results[i]);
	c->steps += loads ? c->serial : 0;
}

/* ---- time ------------------------------------------------------------------------------------ */

static double
least(double a, double b)
{
	return a < b ? a : b;
}

/* Blocks that a unit holds at once. */
static double
resident(const Count *c, int registers)
{
	const Machine *t = c->t;
	const Kernel *k = c->k;
	double n = t->blocks_unit;

	n = least(n, t->threads_unit / (c->warps * t->warp));
	if (k->shared)
		n = least(n, (double)(t->smem_unit / (k->shared + 1024)));
	if (registers)
		n = least(n, t->regs_unit / ((registers + 7) / 8 * 8 * c->warps * t->warp));
	return n < 1 ? 1 : n;
}

/* Bytes of buffers, each once; nothing beyond what is accessed. */
static double
compulsory(Count *c)
{
	double sum = 0, size;
	int i;

	for (i = 0; i < c->k->nbufs; i++) {
		double *touched = map_get(&c->touched, c->k->bufs[i]);
		size = (double)value(c, c->k->bufs[i]->in[0]).i * dtypes[c->k->bufs[i]->type->dtype].bits / 8;
		sum += touched ? least(size, *touched * c->blocks) : 0;
	}
	return sum;
}

static void
times(Count *c, int registers, Prediction *p)
{
	const Machine *t = c->t;
	double per = c->blocks / t->units, r = resident(c, registers),
		hz = t->ghz * 1e3 /* cycles a us */;
	double l2 = c->sectors * SECTOR * c->blocks, dram, most,
		flops = c->flops * c->warps * t->warp * c->blocks;
	size_t i;

	per = per < 1 ? 1 : (double)(int64_t)(per + 0.999999);
	p->bytes = compulsory(c);
	dram = p->bytes <= (double)t->l2 || l2 < p->bytes ? p->bytes
		: p->bytes + (l2 - p->bytes) * (1 - (double)t->l2 / p->bytes);
	const struct { const char *name; double us; } of[] = {
		{"dram", dram / (dram_share * t->gbs * 1e3)},
		{"l2", l2 / (l2_bytes * hz * t->units)},
		{"fp32", per * c->arith * t->warp * 2 / t->fp32_clk / hz},
		{"shared", per * c->waves / hz},
		{"issue", per * (c->issued + c->arith) / issues / hz},
		{"latency", (double)(int64_t)(per / r + 0.999999)
			* (c->steps * latency + c->barriers * barrier_cycles) / hz},
	};
	p->limit = "launch";
	most = launch_us;
	double busy = 0;
	for (i = 0; i < sizeof of / sizeof *of; i++) {
		busy = of[i].us > busy ? of[i].us : busy;
		if (of[i].us > most)
			most = of[i].us, p->limit = of[i].name;
	}
	p->us = launch_us + 1.5 * latency / hz + busy;
	p->flops = flops;
	p->blocks = c->blocks;
	p->occupancy = least(1, r * c->warps * t->warp / t->threads_unit);
	p->sector_ratio = c->ideal_sectors > 0 ? c->sectors / c->ideal_sectors : 1;
	p->wavefront_ratio = c->ideal_waves > 0 ? c->waves / c->ideal_waves : 1;
	busy = p->bytes / (t->gbs * 1e3);
	most = flops / (t->fp32_clk * hz * t->units);
	p->roofline_share = (busy > most ? busy : most) / p->us;
}

bool
kernel_predict(Module *m, const Kernel *k, const Machine *t, int registers, Prediction *p,
	Node **unknown)
{
	Count c = {.m = m, .t = t, .k = k, .times = 1, .serial = 1, .blocks = 1};
	int i;

	for (i = 0; i < k->nsyms; i++)
		bind(&c, k->syms[i], value(&c, k->args[i]).i);
	for (i = 0; i < 3; i++)
		c.blocks *= k->grid[i] ? (double)value(&c, k->grid[i]).i : 1;
	c.warps = (k->block + t->warp - 1) / t->warp;
	c.share[0] = 1, c.share[1] = c.warps - 1;
	for (i = 0; i < WARPS; i++)
		c.active[i] = t->warp == 64 ? UINT64_MAX : ((uint64_t)1 << t->warp) - 1;
	if (k->block < t->warp)
		c.active[0] = ((uint64_t)1 << k->block) - 1;
	*p = (Prediction){.limit = "launch"};
	if (c.blocks >= 1)
		region(&c, k->body);
	times(&c, registers, p);
	map_free(&c.env);
	map_free(&c.memo);
	map_free(&c.touched);
	*unknown = c.unknown;
	return !c.unknown;
}
