/*
 * GPU schedule of the class contract: sums of products with reuse as an implicit matrix product,
 * in SIMT form; those that matrix units can take are gpu_mma.c's. The axes that only the first
 * factor has are its rows, those that only the second has its columns, the summed ones its depth;
 * what is left is a batch.
 *
 * A block computes a tile of the result. Step by step it brings BK deep tiles of both factors to
 * shared memory, the depth outermost, and each thread multiplies 4 values of one by 4 of the other
 * into 16 accumulators. Where addresses allow it, elements travel several at a time. At the end the
 * accumulators pass through shared memory once more, so that what follows the sum in the definition
 * (bias, activation, residual) is written once, and stored along the contiguous axis of the result.
 *
 * Where there are few blocks, teams of threads in each take the steps in turn, and their sums are
 * added as they are read.
 *
 * The last summed axis advances in steps of BK, the others one by one; where it is short, all of
 * them together are taken as one. Rows past the end are read again from the last one and not
 * stored; past the depth zeros are multiplied.
 */
#include <stdlib.h>
#include <string.h>
#include "gpu_contract.h"

enum {
	BK = 16, T = 4, PAD = 4,
	COUNTS = 4,            /* of teams: 1, 2, 4, 8 */
	MIN_STEPS = 8,         /* of a team, where there are several */
	MAX_THREADS = 512
};

/* Tiles to choose from. */
static const struct { int m, n; } shapes[] = {
	{64, 64}, {32, 64}, {64, 32}, {32, 32}, {16, 64}, {64, 16},
};

/* ---- vectors --------------------------------------------------------------------------------- */

static int
size_of(const Node *tensor)
{
	return dtypes[storage_type(dtype_of(tensor))].bits / 8;
}

static bool
in_guard(Node *e, Node *axis)
{
	for (; e->code == O_CAST || e->code == O_SELECT; e = e->in[e->code == O_SELECT])
		if (e->code == O_SELECT && contains(e->in[0], axis))
			return true;
	return false;
}

/* How the tile is brought: along the axis that is contiguous in memory. */
static void
choose_order(Gemm *q, Side *s)
{
	Node *own = s->n ? s->axes[s->n - 1] : NULL, *red = q->c.red[q->c.nred - 1], *axis, *c, *d;
	Node *addr = kb_address(q->kb, s->read->in[0], s->read->in + 1);
	int w = vector_of(size_of(s->read->in[0]));

	c = elem_stride(q->kb, s->read, red);
	d = own ? elem_stride(q->kb, s->read, own) : NULL;
	s->deep = c && is_intv(c, 1) && !(d && is_intv(d, 1));
	axis = s->deep ? red : own;
	s->lanes = axis && !is_packed(q->kb->s, s->read->in[0]) && !in_guard(s->e, axis)
			&& in_vectors(q->m, addr, axis, w)
		? w
		: 1;
}

/* ---- bringing tiles -------------------------------------------------------------------------- */

/* e where ok holds and zero elsewhere; the choice goes to the read, where it may become a
 * vector's. */
static Node *
guarded(Module *m, Node *e, Node *ok)
{
	int64_t v;

	if (e->code == O_CAST)
		return x_cast(m, e->type->dtype, guarded(m, e->in[0], ok));
	if (e->code == O_SELECT && ((is_int(e->in[2], &v) && v == 0) || (e->in[2]->code == O_NUM
	 && dt_float(e->in[2]->type->dtype) && e->in[2]->num.f == 0)))
		return x_select(m, x_and(m, ok, e->in[0]), e->in[1], e->in[2]);
	return x_select(m, ok, e, x_int(m, e->type->dtype, 0));
}

void
gemm_bind_depth(Gemm *q, Map *map, Node *k)
{
	Module *m = q->m;
	int i;

	if (q->flat) {
		digits(m, map, q->c.nred, q->c.red, x_add(m, q->k0, k));
		return;
	}
	for (i = 0; i + 1 < q->c.nred; i++)
		map_put(map, q->c.red[i], map_get(&q->at, q->c.red[i]));
	map_put(map, q->c.red[i], x_add(m, q->k0, k));
}

void
gemm_bind_batch(Gemm *q, Map *map)
{
	int i;

	for (i = 0; i < q->nbatch; i++)
		map_put(map, q->batch[i], map_get(&q->at, q->batch[i]));
}

/* The element of the factor where vector number x of the tile begins, by vectors of w; never
 * past the end. */
static Node *
own_vector(Gemm *q, Side *s, Node *x, int w)
{
	Module *m = q->m;

	x = x_add(m, x_muli(m, s->block, s->width / w), x);
	return x_min(m, x, x_addi(m, x_fdiv(m, s->extent, x_idx(m, w)), -1));
}

/* The row of the tiles that the team has for element k of its step. */
static Node *
depth_row(Gemm *q, Node *k)
{
	return x_add(q->m, x_muli(q->m, q->team, BK), k);
}

static void
bring(Gemm *q, Region *r, Side *s)
{
	Module *m = q->m;
	int w = s->lanes, own_w = s->deep ? 1 : w, vectors = s->width * BK / w,
		count = (vectors + q->team_threads - 1) / q->team_threads;
	Node *per = x_idx(m, s->deep ? BK / w : s->width / w), *j = x_axis(m, x_idx(m, count)),
		*v = x_axis(m, x_idx(m, w));
	Node *unit, *k, *x, *own, *ok, *e, *lane[2];
	Region *rj = region_new(m, NULL), *rv = region_new(m, NULL), *all = rj;
	Map map = {0};
	int i;

	unit = count == 1 ? q->member : x_add(m, x_muli(m, j, q->team_threads), q->member);
	k = s->deep ? x_muli(m, x_mod(m, unit, per), w) : x_fdiv(m, unit, per);
	x = s->deep ? x_fdiv(m, unit, per) : x_mod(m, unit, per);
	lane[0] = w > 1 && s->deep ? v : x_idx(m, 0);
	lane[1] = w > 1 && !s->deep ? v : x_idx(m, 0);
	if (vectors % q->team_threads)
		all = region_new(m, NULL);
	own = l_let(m, count == 1 ? q->f.thread : all, own_vector(q, s, x, own_w));
	gemm_bind_batch(q, &map);
	digits(m, &map, s->n, s->axes, x_add(m, x_muli(m, own, own_w), lane[1]));
	for (i = 0; i < s->n && s->n > 1 && own_w == 1; i++)
		map_put(&map, s->axes[i],
			l_let(m, count == 1 ? q->f.thread : all, map_get(&map, s->axes[i])));
	gemm_bind_depth(q, &map, x_add(m, k, lane[0]));
	ok = x_and(m, q->alive, x_lt(m, x_add(m, q->k0, k), q->depth));
	e = guarded(m, subst(m, s->e, &map, false), ok);
	map_free(&map);
	l_store(m, w > 1 ? rv : all, s->tile, 2,
		(Node *[]){depth_row(q, x_add(m, k, lane[0])), x_add(m, x_muli(m, x, own_w), lane[1])},
		kb_emit(q->kb, w > 1 ? rv : all, e));
	if (w > 1)
		l_for(m, all, F_VECTOR, v, rv);
	if (all != rj)
		l_when(m, rj, x_lt(m, unit, x_idx(m, vectors)), all, NULL);
	if (count > 1)
		l_for(m, r, F_UNROLL, j, rj);
	for (i = 0; count == 1 && i < rj->nresults; i++)
		region_add(m, r, rj->results[i]);
}

/* ---- multiplying ----------------------------------------------------------------------------- */

static Node *
fragment(Gemm *q, Region *r, Side *s, const char *name, Node *kk)
{
	Module *m = q->m;
	Node *n = x_idx(m, T), *v = x_axis(m, n), *f;
	Region *rv = region_new(m, NULL);

	f = l_alloc(m, r, l_buffer(m, name, s->tile->type->dtype, SP_REG, 1, &n));
	l_store(m, rv, f, 1, &v, l_load(m, s->tile, 2,
		(Node *[]){depth_row(q, kk), x_add(m, s->first, v)}));
	l_for(m, r, F_VECTOR, v, rv);
	return f;
}

/* A loop over the thread's 4 x 4 results. */
static void
each_result(Gemm *q, Region *r, Node **i, Node **j, Region *in)
{
	Module *m = q->m;
	Region *ri = region_new(m, NULL);

	l_for(m, ri, F_UNROLL, *j, in);
	l_for(m, r, F_UNROLL, *i, ri);
}

static void
multiply(Gemm *q, Region *r)
{
	Module *m = q->m;
	Node *kk = x_axis(m, x_idx(m, BK)), *i = x_axis(m, x_idx(m, T)), *j = x_axis(m, x_idx(m, T)),
		*fa, *fb, *v;
	Region *rk = region_new(m, NULL), *rj = region_new(m, NULL);

	fa = fragment(q, rk, &q->a, "fa", kk);
	fb = fragment(q, rk, &q->b, "fb", kk);
	v = multiply_add(m, &q->c, l_load(m, fa, 1, &i), l_load(m, fb, 1, &j),
		l_load(m, q->acc, 2, (Node *[]){i, j}));
	l_store(m, rj, q->acc, 2, (Node *[]){i, j}, v);
	each_result(q, rk, &i, &j, rj);
	l_for(m, r, F_UNROLL, kk, rk);
}

static void
clear(Gemm *q, Region *r)
{
	Module *m = q->m;
	Node *i = x_axis(m, x_idx(m, T)), *j = x_axis(m, x_idx(m, T));
	Region *in = region_new(m, NULL);

	l_store(m, in, q->acc, 2, (Node *[]){i, j}, x_int(m, q->acc->type->dtype, 0));
	each_result(q, r, &i, &j, in);
}

/* The depth step by step. */
static void
sum_up(Gemm *q, Region *r)
{
	Module *m = q->m;
	Contraction *c = &q->c;
	Node *per, *all, *round, *step, *outer = x_idx(m, 1), *rest;
	Region *in = region_new(m, NULL);
	int i;

	q->depth = q->flat ? axes_product(m, c->nred, c->red) : c->red[c->nred - 1]->in[0];
	per = x_ceildiv(m, q->depth, x_idx(m, BK));
	if (!q->flat)
		outer = axes_product(m, c->nred - 1, c->red);
	all = x_mul(m, outer, per);
	round = x_axis(m, x_ceildiv(m, all, x_idx(m, q->teams)));
	step = x_add(m, x_muli(m, round, q->teams), q->team);
	q->alive = is_intv(x_mod(m, all, x_idx(m, q->teams)), 0) ? x_bool(m, true) : x_lt(m, step, all);
	q->k0 = l_let(m, in, x_muli(m, is_intv(outer, 1) ? step : x_mod(m, step, per), BK));
	rest = x_fdiv(m, step, per);
	for (i = c->nred - 1; !q->flat && i-- > 0;) {
		map_put(&q->at, c->red[i], l_let(m, in, i ? x_mod(m, rest, c->red[i]->in[0]) : rest));
		rest = x_fdiv(m, rest, c->red[i]->in[0]);
	}
	bring(q, in, &q->a);
	bring(q, in, &q->b);
	l_barrier(m, in);
	multiply(q, in);
	l_barrier(m, in);
	l_for(m, r, F_SERIAL, round, in);
}

/* ---- storing --------------------------------------------------------------------------------- */

/* The accumulators to shared memory, [slow][fast + PAD]. */
static Node *
spread(Gemm *q, Region *r, Side *slow, Side *fast)
{
	Module *m = q->m;
	Node *i = x_axis(m, x_idx(m, T)), *v = x_axis(m, x_idx(m, T)), *sums, *y;
	Region *ri = region_new(m, NULL), *rv = region_new(m, NULL);

	sums = gpu_shared(q->kb, &q->f, "sums", q->acc->type->dtype, 2,
		(Node *[]){x_idx(m, q->teams * slow->width), x_idx(m, fast->width + PAD)});
	y = x_add(m, x_muli(m, q->team, slow->width), x_add(m, slow->first, i));
	l_store(m, rv, sums, 2, (Node *[]){y, x_add(m, fast->first, v)},
		l_load(m, q->acc, 2, q->rows_last ? (Node *[]){v, i} : (Node *[]){i, v}));
	l_for(m, ri, F_VECTOR, v, rv);
	l_for(m, r, F_UNROLL, i, ri);
	l_barrier(m, r);
	return sums;
}

static Node *
same_row(void *ctx, Node *y)
{
	(void)ctx;
	return y;
}

typedef struct Sums { Module *m; Node *at; int teams, rows; } Sums;

static Node *
sum_at(void *ctx, Node *y, Node *x)
{
	Sums *s = ctx;

	Node *sum = NULL, *v;
	int i;

	for (i = 0; i < s->teams; i++) {
		v = l_load(s->m, s->at, 2, (Node *[]){x_addi(s->m, y, i * s->rows), x});
		sum = sum ? x_add(s->m, sum, v) : v;
	}
	return sum;
}

/* Lanes in which the result is stored. */
static int
stored_lanes(Gemm *q, const Side *fast)
{
	Node *addr = kb_address(q->kb, q->nest.out, q->nest.out_idx);
	Node *last = q->nest.axis[q->nest.n - 1];
	int w = vector_of(size_of(q->nest.out));

	return !fast->n || fast->axes[fast->n - 1] != last || !in_vectors(q->m, addr, last, w) ? 1 : w;
}

void
gemm_write(Gemm *q, Region *r, const SumTile *t)
{
	Module *m = q->m;
	Side *fast = t->fast, *slow = t->slow;
	int columns = t->columns ? t->columns : fast->width;
	int w = stored_lanes(q, fast), d, units = t->rows * columns / w;
	int count = (units + q->threads - 1) / q->threads;
	int together = count % 4 == 0 ? 4 : count % 2 == 0 ? 2 : 1;   /* their loads wait for each other only once */
	Node *io = x_axis(m, x_idx(m, count / together)), *iu = x_axis(m, x_idx(m, together)),
		*i = x_add(m, x_muli(m, io, together), iu), *v = x_axis(m, x_idx(m, w)), *per = x_idx(m, columns / w);
	Node *unit = count > 1 ? x_add(m, x_muli(m, i, q->threads), q->f.tid) : q->f.tid;
	Node *x = x_mod(m, unit, per), *y = x_fdiv(m, unit, per), *fx, *fy, *e, *ok, *idx[MAX_RANK];
	Region *ri = region_new(m, NULL), *rv = region_new(m, NULL), *in = region_new(m, NULL),
		*all = region_new(m, NULL);
	Map map = {0};

	fx = x_add(m, x_muli(m, fast->block, fast->width / w), x);
	fx = l_let(m, ri, t->column ? x_add(m, x_fdiv(m, t->column, x_idx(m, w)), fx) : fx);
	fy = l_let(m, ri, x_add(m, x_muli(m, slow->block, slow->width), t->row(t->ctx, y)));
	ok = x_and(m, x_lt(m, x_muli(m, fx, w), fast->extent), x_lt(m, fy, slow->extent));
	if (units % q->threads)
		ok = x_and(m, x_lt(m, unit, x_idx(m, units)), ok);
	x = x_muli(m, x, w), fx = x_muli(m, fx, w);
	if (w > 1)
		x = x_add(m, x, v), fx = x_add(m, fx, v);
	gemm_bind_batch(q, &map);
	digits(m, &map, fast->n, fast->axes, fx);
	digits(m, &map, slow->n, slow->axes, fy);
	map_put(&map, q->c.reduce, t->sum(t->ctx, y, x));
	e = by_vectors(m, subst(m, q->nest.body, &map, false), v, w);
	e = kb_emit(q->kb, w > 1 ? rv : in, e);
	for (d = 0; d < rank_of(q->nest.out); d++)
		idx[d] = subst(m, q->nest.out_idx[d], &map, false);
	map_free(&map);
	kb_store(q->kb, w > 1 ? rv : in, q->nest.out, idx, e);
	if (w > 1)
		l_for(m, in, F_VECTOR, v, rv);
	l_when(m, ri, ok, in, NULL);
	l_for(m, all, F_UNROLL, iu, ri);
	l_for(m, r, F_SERIAL, io, all);
}

static void
finish(Gemm *q, Region *r)
{
	Side *fast = q->rows_last ? &q->a : &q->b, *slow = q->rows_last ? &q->b : &q->a;
	Sums s = {q->m, spread(q, r, slow, fast), q->teams, slow->width};

	gemm_write(q, r, &(SumTile){.slow = slow, .fast = fast, .rows = slow->width, .row = same_row,
		.sum = sum_at, .ctx = &s});
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static double
extent_or(int n, Node *const *axes, double other)
{
	double x = 1;
	int64_t v;
	int i;

	for (i = 0; i < n; i++)
		x *= is_int(axes[i]->in[0], &v) ? (double)v : other;
	return x;
}

double
gemm_extent(Module *m, int n, Node *const *axes)
{
	double x = 1;
	int i;

	for (i = 0; i < n; i++)
		x *= (double)likely_extent(m, axes[i]->in[0]);
	return x;
}

/* Bytes of shared memory: the factors' tiles and the sums of each team. */
static int64_t
shared_bytes(const Gemm *q, int m, int n, int teams)
{
	int64_t factor = dtypes[storage_type(q->c.ea->type->dtype)].bits / 8, sum = dtypes[q->acc->type->dtype].bits / 8;
	int64_t slow = q->rows_last ? n : m, fast = q->rows_last ? m : n;

	return teams * (factor * BK * (m + n + 2 * PAD) + sum * slow * (fast + PAD));
}

/* The shape of least work: what is computed and brought, on as many threads as there are. */
static void
choose_shape(Gemm *q)
{
	double m = extent_or(q->a.n, q->a.axes, 32), n = extent_or(q->b.n, q->b.axes, 32);
	double batch = extent_or(q->nbatch, q->batch, 4), best = -1, blocks, threads, cost;
	double steps = extent_or(q->c.nred, q->c.red, 128) / BK;
	int units = q->kb->s->mach->units ? q->kb->s->mach->units : 64,
		bytes = dtypes[q->acc->type->dtype].bits / 8;
	size_t i;
	int teams;

	for (i = 0; i < sizeof shapes / sizeof *shapes * COUNTS; i++) {
		int bm = shapes[i / COUNTS].m, bn = shapes[i / COUNTS].n;
		teams = 1 << i % COUNTS;
		if (bm * bn * bytes > 16384 || shared_bytes(q, bm, bn, teams) > q->kb->s->mach->smem_block
		 || bm * bn / (T * T) % q->kb->s->mach->warp
		 || (teams > 1 && (steps < MIN_STEPS * teams || bm * bn / (T * T) * teams > MAX_THREADS)))
			continue;
		blocks = batch * (double)((int64_t)(m + bm - 1) / bm)
			* (double)((int64_t)(n + bn - 1) / bn);
		threads = blocks * bm * bn / (T * T) * teams;
		cost = blocks * bm * bn * (1 + 16.0 / bm + 16.0 / bn) * (1 + teams / 64.0);
		if (threads < units * 256.0)
			cost *= units * 256.0 / threads;
		if (best < 0 || cost < best) {
			best = cost;
			q->a.width = bm, q->b.width = bn;
			q->teams = teams;
		}
	}
	q->team_threads = q->a.width * q->b.width / (T * T);
	q->threads = q->team_threads * q->teams;
}

static void
sort_axes(Gemm *q)
{
	Node *ax;
	bool a, b;
	int i;

	for (i = 0; i < q->nest.n; i++) {
		ax = q->nest.axis[i];
		a = contains(q->c.ea, ax), b = contains(q->c.eb, ax);
		if (a && !b)
			q->a.axes[q->a.n++] = ax;
		else if (b && !a)
			q->b.axes[q->b.n++] = ax;
		else
			q->batch[q->nbatch++] = ax;
	}
	q->rows_last = q->a.n && q->a.axes[q->a.n - 1] == q->nest.axis[q->nest.n - 1];
	q->a.e = q->c.ea, q->a.read = q->c.a;
	q->b.e = q->c.eb, q->b.read = q->c.b;
	q->a.extent = axes_product(q->m, q->a.n, q->a.axes);
	q->b.extent = axes_product(q->m, q->b.n, q->b.axes);
}

/* Which tile the block has, and which four of each side the thread. */
static void
locate(Gemm *q, Node *nm, Node *nn)
{
	Module *m = q->m;
	Node *rest = x_fdiv(m, q->f.bid, nn), *per, *x, *y;
	Side *fast = q->rows_last ? &q->a : &q->b, *slow = q->rows_last ? &q->b : &q->a;
	int i, lanes;

	q->b.block = l_let(m, q->f.thread, x_mod(m, q->f.bid, nn));
	q->a.block = l_let(m, q->f.thread, q->nbatch ? x_mod(m, rest, nm) : rest);
	digits(m, &q->at, q->nbatch, q->batch, x_fdiv(m, rest, nm));
	for (i = 0; i < q->nbatch; i++)
		map_put(&q->at, q->batch[i], l_let(m, q->f.thread, map_get(&q->at, q->batch[i])));
	/* 32 threads have up to 8 x 4 of the fours: what they read together lies in distinct banks,
	 * or is the same */
	q->team = q->teams > 1 ? l_let(m, q->f.thread, x_fdiv(m, q->f.tid, x_idx(m, q->team_threads)))
		: x_idx(m, 0);
	q->member = q->teams > 1 ? l_let(m, q->f.thread, x_mod(m, q->f.tid, x_idx(m, q->team_threads)))
		: q->f.tid;
	lanes = fast->width / T < 8 ? fast->width / T : 8;
	per = x_idx(m, fast->width / T / lanes);
	x = x_add(m, x_mod(m, q->member, x_idx(m, lanes)),
		x_muli(m, x_mod(m, x_fdiv(m, q->member, x_idx(m, 32)), per), lanes));
	y = x_add(m, x_mod(m, x_fdiv(m, q->member, x_idx(m, lanes)), x_idx(m, 32 / lanes)),
		x_muli(m, x_fdiv(m, x_fdiv(m, q->member, x_idx(m, 32)), per), 32 / lanes));
	fast->first = l_let(m, q->f.thread, x_muli(m, x, T));
	slow->first = l_let(m, q->f.thread, x_muli(m, y, T));
}

Kernel *
contract_gpu(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Gemm q = {.kb = &kb, .m = m, .nest = nest_of(&kb, g->members[0])};
	Node *view = t_tensor(m, q.nest.n, q.nest.axis, q.nest.body), *four = x_idx(m, T), *nm, *nn, *k;
	Kernel *kernel;
	DType d;
	int64_t c;

	if (view->code != O_TENSOR || !contraction_of(s, view, &q.c) || dt_small(q.c.ea->type->dtype))
		return NULL;
	sort_axes(&q);
	if ((kernel = mma_gpu(&q)))
		return kernel;
	d = storage_type(q.c.ea->type->dtype);
	q.acc = l_buffer(m, "acc", q.c.reduce->type->dtype, SP_REG, 2, (Node *[]){four, four});
	choose_shape(&q);
	k = q.c.red[q.c.nred - 1]->in[0];
	q.flat = q.c.nred > 1 && is_int(k, &c) && c % BK && c < 4 * BK;
	nm = x_ceildiv(m, q.a.extent, x_idx(m, q.a.width));
	nn = x_ceildiv(m, q.b.extent, x_idx(m, q.b.width));
	q.f = gpu_frame(&kb, x_mul(m, x_mul(m, nm, nn), axes_product(m, q.nbatch, q.batch)), q.threads);
	q.a.tile = gpu_shared(&kb, &q.f, "as", d, 2,
		(Node *[]){x_idx(m, q.teams * BK), x_idx(m, q.a.width + PAD)});
	q.b.tile = gpu_shared(&kb, &q.f, "bs", d, 2,
		(Node *[]){x_idx(m, q.teams * BK), x_idx(m, q.b.width + PAD)});
	choose_order(&q, &q.a);
	choose_order(&q, &q.b);
	locate(&q, nm, nn);
	l_alloc(m, q.f.thread, q.acc);
	clear(&q, q.f.thread);
	sum_up(&q, q.f.thread);
	finish(&q, q.f.thread);
	kb.k->flops = 2.0 * q.a.width * q.b.width * extent_or(q.c.nred, q.c.red, 128);
	map_free(&q.at);
	return gpu_close(&kb, &q.f,
		arena_printf(m->arena,
			"class=contract, block=[%d,%d,%d], thread=[%d,%d], teams=%d, lanes=[%d,%d]",
			q.a.width, q.b.width, BK, T, T, q.teams, q.a.lanes, q.b.lanes));
}
