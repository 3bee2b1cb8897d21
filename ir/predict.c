/*
 * What a kernel's statements ask of the machine, phase by phase (clocks.c makes times of it). Each
 * outermost serial loop is a phase; all that stands beside them is one more.
 *
 *   matrix   matrix instructions; fp32, special: those of functions weighed
 *   shared   passes over the banks; l2: sectors of global memory, each request's own
 *   dram     buffers that the second cache holds together are fetched once; of others, what the
 *            blocks that run at once do not share
 *   latency  loads of a region are waited for together, before the next step of the serial loops
 *            around it; asynchronous copies as many steps ahead as groups may be under way
 *
 * Not seen: address arithmetic (hoisted by the compilers), hits of the first cache, data-dependent
 * addresses (taken as 0), atomics.
 */
#include <stdlib.h>
#include <string.h>
#include "predict.h"

/* Instructions of operations that are more than one: of the plain units, of the special ones. */
static const struct { OpCode op; double plain, special; } costs[] = {
	{O_DIV, 8, 1}, {O_REM, 30, 1}, {O_SQRT, 8, 1}, {O_EXP, 12, 0}, {O_LOG, 16, 0}, {O_LOG1P, 20, 1},
	{O_EXPM1, 16, 0}, {O_POW, 40, 0}, {O_SIN, 24, 0}, {O_COS, 24, 0}, {O_TAN, 30, 1},
	{O_ASIN, 24, 1}, {O_ACOS, 24, 1}, {O_ATAN, 24, 1}, {O_SINH, 20, 1}, {O_COSH, 20, 1},
	{O_TANH, 18, 1}, {O_ASINH, 30, 1}, {O_ACOSH, 30, 1}, {O_ATANH, 30, 1}, {O_ERF, 22, 0},
	{O_LGAMMA, 60, 1}, {O_EX2, 0, 1}, {O_SIN_FAR, 200, 0}, {O_COS_FAR, 200, 0}, {O_TAN_FAR, 200, 1},
};

enum { MAX_LANES = 64, MOST_BYTES = 16, SECTOR = 32, BANKS = 32, MAX_PHASES = 64, MAX_SAMPLE = 256 };

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
	Phase phases[MAX_PHASES], *in;   /* the first is what stands beside serial loops */
	int nphases;
	bool piped;            /* copies are asynchronous */
	/* bytes of boxes that other warps have brought for the products that come: they run at once */
	double boxes;
	/* sums over a block */
	double flops, matrix_flops, ideal_sectors, sectors, ideal_waves;
	Map touched;           /* global buffers -> Touch */
	Node *bid;             /* the grid's first axis */
	int64_t sample;        /* blocks that run at once, MAX_SAMPLE at most */
	Launch launch;
	Node *unknown;
} Count;

/* Bytes of a buffer that a block accesses, and that one of many which run together adds. */
typedef struct Touch { double all, own; } Touch;

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

/* n accesses of size bytes, at most MOST_BYTES: the blocks of `unit` bytes they touch. */
static int
units_touched(const int64_t *at, int n, int size, int unit)
{
	int64_t v[MAX_LANES * (MOST_BYTES + 1)];
	int i, k = 0;
	int64_t u;

	for (i = 0; i < n; i++)
		for (u = at[i] / unit; u <= (at[i] + size - 1) / unit; u++)
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

/* Of the blocks that run at once, how many different places the first thread accesses, as a
 * share of the blocks: what they do not share. */
static double
unshared(Count *c, const Node *at)
{
	int64_t v[MAX_SAMPLE], here, first;
	int i;

	if (!c->bid || c->sample < 2)
		return 1;
	here = ((Num *)map_get(&c->env, c->bid))->i;
	first = here - c->sample / 2 < 0 ? 0 : here - c->sample / 2;
	for (i = 0; i < c->sample; i++) {
		bind(c, c->bid, first + i);
		v[i] = at_lane(c, at, 0, 0);
	}
	bind(c, c->bid, here);
	return (double)distinct(v, (int)c->sample) / (double)c->sample;
}

static void
touch(Count *c, const Node *buffer, const Node *at, double bytes)
{
	Touch *t = map_get(&c->touched, buffer);

	if (!t)
		map_put(&c->touched, buffer, t = NEW(c->m, Touch));
	t->all += bytes;
	t->own += bytes * unshared(c, at);
}

/* Accesses of so many bytes a lane, `times` in all, where `active` has lanes. */
static void
reach_lanes(Count *c, const Node *buffer, const Node *e, int bytes, double times)
{
	int64_t at[MAX_LANES], size = dtypes[buffer->type->dtype].bits / 8;
	double moved = 0, sectors = 0;
	int w, l, n;

	for (w = 0; w < WARPS; w++) {
		for (l = n = 0; l < c->t->warp; l++)
			if (c->active[w] >> l & 1 && (at[n] = at_lane(c, e, w, l) * size) >= 0)
				n++;               /* below 0: the side of a choice that is not taken */
		if (!n || c->share[w] == 0)
			continue;
		c->in->issued += times * c->share[w];
		if (buffer->type->space == SP_SHARED) {
			c->in->passes += times * c->share[w] * passes(at, n, bytes);
			c->ideal_waves += times * c->share[w]
				* ((units_touched(at, n, bytes, 4) + BANKS - 1) / BANKS);
			continue;
		}
		sectors += times * c->share[w] * units_touched(at, n, bytes, SECTOR);
		c->ideal_sectors += times * c->share[w]
			* ((units_touched(at, n, bytes, (int)size) * (int)size + SECTOR - 1) / SECTOR);
		moved += times * c->share[w] * n * bytes;
	}
	c->sectors += sectors;
	c->in->l2 += sectors * SECTOR;
	if (moved > 0)
		touch(c, buffer, e, moved);
}

static bool
in_memory(const Node *buffer)
{
	return buffer->type->space == SP_GLOBAL || buffer->type->space == SP_SHARED;
}

static void
reach(Count *c, const Node *buffer, Node *const *idx)
{
	int size = dtypes[buffer->type->dtype].bits / 8, bytes = size;
	double times = c->times;
	Node *e;

	if (!in_memory(buffer))
		return;
	e = flat(c, buffer, idx);
	if (as_vector(c, e)) {
		times /= (double)value(c, c->vector->in[0]).i;
		bytes = size * (int)value(c, c->vector->in[0]).i;
		bytes = bytes > MOST_BYTES ? MOST_BYTES : bytes;
	}
	reach_lanes(c, buffer, e, bytes, times);
}

/* ---- statements ------------------------------------------------------------------------------ */

static void
count_work(Count *c, const Node *e, double times)
{
	double scale = e->type->dtype == DT_F64 || e->in[0]->type->dtype == DT_F64 ? 2 : 1;
	double special = 0;
	size_t i;

	for (i = 0; i < sizeof costs / sizeof *costs && costs[i].op != e->code; i++)
		;
	if (i < sizeof costs / sizeof *costs) {
		special = costs[i].special;
		scale *= costs[i].plain;
	}
	c->in->plain += times * scale;
	c->in->special += times * special;
	c->in->issued += times * (scale > special ? scale : special);
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

static double
active_lanes(const Count *c)
{
	double n = 0;
	int w;

	for (w = 0; w < WARPS; w++)
		n += c->share[w] * __builtin_popcountll(c->active[w]);
	return n;
}

static void
part(Count *c, const Node *e, bool *loads)
{
	if (e->code == O_LOAD) {
		*loads |= e->in[0]->type->space == SP_GLOBAL;
		reach(c, e->in[0], e->in + 1);
	} else if (e->code == O_FOLD)
		c->in->issued += 2 * 5 * c->times * active_warps(c);
	else if (is_work(e)) {
		count_work(c, e, c->times * active_warps(c));
		c->flops += (e->code == O_MULADD
			|| e->code == O_FMA ? 2 : e->code == O_DOT4 ? 8 : 1) * c->times * active_lanes(c);
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
	Phase *in = c->in;

	if (n <= 0)
		return;
	bind(c, axis, f->n == F_VECTOR || f->n == F_UNROLL ? 0 : n / 2);
	switch (f->n) {
	case F_GRID_X:
		c->bid = (Node *)axis;
		break;
	case F_GRID_Y: case F_GRID_Z:
		break;
	case F_BLOCK:
		c->tid = (Node *)axis;
		break;
	case F_VECTOR:
		c->vector = (Node *)axis;
		c->times *= (double)n;
		break;
	case F_UNROLL:
		c->times *= (double)n;
		break;
	default:
		c->times *= (double)n;
		c->serial *= (double)n;
		if (in == c->phases && c->nphases < MAX_PHASES)
			c->in = &c->phases[c->nphases++];
	}
	region(c, f->regions[0]);
	c->in = in;
	c->times = times;
	c->serial = serial;
	c->vector = (Node *)vector;
}

/* Keeps the lanes where the condition is as it should be. */
static void
narrow(Count *c, const Node *cond, bool holds)
{
	uint64_t yes;
	int w, l;

	for (w = 0; w < WARPS; w++) {
		for (l = 0, yes = 0; l < c->t->warp; l++)
			if (c->active[w] >> l & 1)
				yes |= (uint64_t)((at_lane(c, cond, w, l) != 0) == holds) << l;
		c->active[w] = yes;
	}
}

/* How many warps' first lanes go where the condition is as it should be. */
static double
warps_where(Count *c, const Node *cond, bool holds)
{
	double n = 0;
	int w;

	for (w = 0; w < c->warps; w++) {
		bind(c, c->tid, (int64_t)w * c->t->warp);
		n += (value(c, cond).i != 0) == holds;
	}
	return n;
}

/* Where the two warps part, one stands for all that go its way. */
static void
part_ways(Count *c, const Node *cond, bool holds, const uint64_t *before)
{
	int w = c->active[0] ? 0 : 1;

	if (c->tid && before[0] && before[1] && c->active[w] && !c->active[!w])
		c->share[w] = warps_where(c, cond, holds);
}

static void
when(Count *c, const Node *s)
{
	uint64_t all[WARPS];
	double share[WARPS];
	int k;

	memcpy(all, c->active, sizeof all);
	memcpy(share, c->share, sizeof share);
	for (k = 0; k < s->nregions; k++) {
		memcpy(c->active, all, sizeof all);
		narrow(c, s->in[0], !k);
		part_ways(c, s->in[0], !k, all);
		if (active_warps(c) > 0)
			region(c, s->regions[k]);
		memcpy(c->share, share, sizeof share);
	}
	memcpy(c->active, all, sizeof all);
}

/* One place of a move, if it is in memory. */
static void
move_spot(Count *c, const Node *s, int k, double times)
{
	Spot at = l_spot(s, k);

	if (in_memory(at.buffer))
		reach_lanes(c, at.buffer, flat(c, at.buffer, at.idx), (int)s->n, times);
}

/* Where in its buffer the box begins. */
static Node *
box_element(Count *c, const TensorMap *t, Node *const *at)
{
	Node *e = t->offset;
	int i;

	for (i = 0; i < t->rank; i++)
		e = x_add(c->m, e, x_mul(c->m, at[i], t->stride[i]));
	return e;
}

static void
move_box(Count *c, const Node *s)
{
	Spot from = l_spot(s, 1);
	double bytes = c->times * (double)s->n;
	int i = 0;

	while (c->k->maps[i].view != from.buffer)
		i++;
	c->boxes += bytes;
	c->sectors += bytes / SECTOR, c->ideal_sectors += bytes / SECTOR;
	touch(c, c->k->bufs[c->k->maps[i].buf], box_element(c, &c->k->maps[i], from.idx), bytes);
	if (!c->piped)
		c->phases->waits += block_clocks;
	c->piped = true;
}

/* Does it load from global memory what the thread waits for? Zeros come from nowhere. */
static bool
move(Count *c, const Node *s)
{
	const Node *cond = l_move_cond(s), *from = l_spot(s, 1).buffer;
	uint64_t all[WARPS];

	if (from->type->space == SP_MAP) {
		move_box(c, s);
		return false;
	}
	move_spot(c, s, 0, c->times);
	memcpy(all, c->active, sizeof all);
	if (cond)
		narrow(c, cond, true);
	move_spot(c, s, 1, c->times);
	memcpy(c->active, all, sizeof all);
	return from->type->space == SP_GLOBAL && strcmp(s->name, move_kinds[MOVE_ASYNC]) != 0;
}

/* Groups of copies are waited for in turn; before the first, a block starts. */
static void
wait_for_copies(Count *c, const Node *s)
{
	if (!c->piped)
		c->phases->waits += block_clocks;
	c->piped = true;
	if (c->serial > 1)
		c->in->waits += c->serial * load_clocks / (double)(s->n + 1);
}

/* By warp groups, four warps each; tiles are read from shared memory, the first factor's unless
 * registers hold it. */
static void
multiply_group(Count *c, const Node *s, Node *const *by)
{
	const Mma *x = mma_find(s->name);
	double n = c->times * (double)(int)(active_warps(c) / 4), columns = (double)value(c, by[0]).i;
	double rows = l_spot(s, 1).buffer->type->space == SP_REG ? 0 : x->m;
	double flops = n * 2 * x->m * columns * x->k,
		read = (rows + columns) * x->k * dtypes[x->type].bits / 8;

	c->in->matrix += n * mma_clocks(c->t, x) * columns / x->n;
	c->in->issued += n * 4;
	c->in->passes += n * read / 128 + c->boxes / 128;
	c->ideal_waves += n * read / 128 + c->boxes / 128;
	c->in->l2 += c->boxes;
	c->boxes = 0;
	c->flops += flops;
	c->matrix_flops += flops;
}

static void
multiply(Count *c, const Node *s)
{
	const Mma *x = mma_find(s->name);
	double n = c->times * active_warps(c);
	Node *const *by;

	if (l_numbers(s, &by)) {
		multiply_group(c, s, by);
		return;
	}
	c->in->matrix += n * mma_clocks(c->t, x);
	c->in->issued += n;
	c->flops += n * 2 * x->m * x->n * x->k;
	c->matrix_flops += n * 2 * x->m * x->n * x->k;
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
	case O_BARRIER: c->in->waits += c->times * barrier_clocks; break;
	case O_MOVE: return move(c, s);
	case O_WAIT: wait_for_copies(c, s); break;
	case O_MMA: multiply(c, s); break;
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
	c->in->waits += loads ? c->serial * load_clocks : 0;
}

/* ---- time ------------------------------------------------------------------------------------ */

static double
least(double a, double b)
{
	return a < b ? a : b;
}

/* Bytes of the buffers, each once, nothing beyond what is accessed; and those that memory moves. */
static double
compulsory(Count *c, double *moved)
{
	double sum = 0, again = 0, once, size, blocks = c->launch.blocks;
	int i;

	for (i = 0; i < c->k->nbufs; i++) {
		Touch *t = map_get(&c->touched, c->k->bufs[i]);
		if (!t)
			continue;
		size = (double)value(c, c->k->bufs[i]->in[0]).i *
			dtypes[c->k->bufs[i]->type->dtype].bits / 8;
		once = least(size, t->all * blocks);
		sum += once;
		again += t->own * blocks > once ? t->own * blocks - once : 0;
	}
	*moved = sum <= (double)c->t->l2 ? sum : sum + again * (1 - (double)c->t->l2 / sum);
	return sum;
}

static void
times(Count *c, Prediction *p)
{
	const Machine *t = c->t;
	double by[N_RESOURCES] = {0}, l2 = c->sectors * SECTOR, waves = 0, most = launch_us, start,
		ideal, mma;
	double hz = t->ghz * 1e3 /* cycles a us */;
	int i;

	p->bytes = compulsory(c, &p->dram_bytes);
	for (i = 0; i < c->nphases; i++) {
		c->phases[i].dram = l2 > 0 ? c->phases[i].l2 / l2 * p->dram_bytes / c->launch.blocks : 0;
		waves += c->phases[i].passes;
	}
	start = c->piped ? 0 : (block_clocks - load_clocks) / hz;
	p->us = launch_us + start + work_us(t, &c->launch, c->phases, c->nphases, by);
	p->limit = "launch";
	for (i = 0; i < N_RESOURCES; i++)
		if (by[i] > most)
			most = by[i], p->limit = resources[i];
	p->flops = c->flops * c->launch.blocks;
	p->matrix_flops = c->matrix_flops * c->launch.blocks;
	p->blocks = c->launch.blocks;
	p->occupancy = least(1,
		gpu_resident(t, &c->launch) * c->launch.warps * t->warp / t->threads_unit);
	p->sector_ratio = c->ideal_sectors > 0 ? c->sectors / c->ideal_sectors : 1;
	p->wavefront_ratio = c->ideal_waves > 0 ? waves / c->ideal_waves : 1;
	mma = p->matrix_flops / (t->fp16_clk * hz * t->units);
	ideal = (p->flops - p->matrix_flops) / (t->fp32_clk * hz * t->units);
	ideal = mma > ideal ? mma : ideal;
	double streamed = p->bytes / (t->gbs * 1e3);
	p->roofline_share = (streamed > ideal ? streamed : ideal) / p->us;
}

bool
kernel_predict(Module *m, const Kernel *k, const Machine *t, int registers, Prediction *p,
	Node **unknown)
{
	Count c = {.m = m, .t = t, .k = k, .times = 1, .serial = 1, .nphases = 1};
	double at_once;
	int i;

	c.in = c.phases;
	c.launch = (Launch){.blocks = 1, .warps = (k->block + t->warp - 1) / t->warp,
		.shared = k->shared, .registers = registers};
	for (i = 0; i < k->nsyms; i++)
		bind(&c, k->syms[i], value(&c, k->args[i]).i);
	for (i = 0; i < 3; i++)
		c.launch.blocks *= k->grid[i] ? (double)value(&c, k->grid[i]).i : 1;
	at_once = least(c.launch.blocks, gpu_resident(t, &c.launch) * t->units);
	c.sample = (int64_t)least(at_once, MAX_SAMPLE);
	c.warps = c.launch.warps;
	c.share[0] = 1, c.share[1] = c.warps - 1;
	for (i = 0; i < WARPS; i++)
		c.active[i] = t->warp == 64 ? UINT64_MAX : ((uint64_t)1 << t->warp) - 1;
	if (k->block < t->warp)
		c.active[0] = ((uint64_t)1 << k->block) - 1;
	*p = (Prediction){.limit = "launch"};
	if (c.launch.blocks >= 1)
		region(&c, k->body);
	times(&c, p);
	map_free(&c.env);
	map_free(&c.memo);
	map_free(&c.touched);
	*unknown = c.unknown;
	return !c.unknown;
}
