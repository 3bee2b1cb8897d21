/*
 * GPU schedule of the class contract on matrix units: sums of products of narrow types (f16, bf16,
 * tf32 with leave, bytes), accumulated in f32 or i32, as an implicit matrix product; convolutions
 * are the same with other addresses.
 *
 * A block of warps computes a tile of the result, rows x columns; the result lies along its
 * columns. The depth advances in steps. Of each step both factors' tiles stand in shared memory, in
 * one of several stages, so that copies of later steps are under way while this one is multiplied:
 * asynchronously where the machine can and addresses allow, else through registers, which are
 * filled before the products and emptied after them. One barrier a step.
 *
 * How tiles are stored and fragments are read: gpu_part.c.
 *
 * At the end the accumulators pass through the same shared memory, in slices of rows, so that what
 * follows the sum is computed along the result (gpu_contract.c).
 */
#include <stdlib.h>
#include <string.h>
#include "gpu_mma.h"

enum { GROUP = 8, MIN_DEPTH = 16 };   /* GROUP: as gpu_pick.c has it */

/* ---- what can be done ------------------------------------------------------------------------ */

static bool
usable(Mm *q, double depth)
{
	Gemm *g = &q->g;
	Node *mul = g->c.reduce->in[g->c.reduce->nin - 1];
	DType d = factor_type(q->a.s->e);

	q->x = q->t.x = machine_mma(g->kb->s->mach, d, factor_type(q->b.s->e));
	if (mul->code != O_MUL || !q->x
	 || q->x->acc != g->c.reduce->type->dtype || depth < MIN_DEPTH)
		return false;
	if (!part_plain(&q->t, &q->a, q->a.s->e) || !part_plain(&q->t, &q->b, q->b.s->e))
		return false;
	return q->t.round == (d == DT_F32);
}

bool
takes_depth(const Sched *s, const Contraction *c)
{
	const Mma *x = machine_mma(s->mach, factor_type(c->ea), factor_type(c->eb));
	Node *mul = c->reduce->in[c->reduce->nin - 1];

	if (!x || mul->code != O_MUL || x->acc != c->reduce->type->dtype
	 || (x->type == DT_F32 && mul->in[0]->code != O_TF32))
		return false;
	return dtypes[x->type].bits != 16 || !machine_has(s->mach, "ldmatrix");
}

/* ---- products ------------------------------------------------------------------------------- */

static void
multiply(Mm *q, Region *r, Node *stage)
{
	Module *m = q->g.m;
	int size = dtypes[q->x->type].bits / 8;
	Node *kb = x_axis(m, x_idx(m, q->bk * size / q->t.block_bytes));
	Node *ks = x_axis(m, x_idx(m, q->t.block_bytes / (q->x->k * size)));
	Node *i = x_axis(m, x_idx(m, q->a.span / q->x->m)), *j = x_axis(m, x_idx(m, q->b.span / q->x->n));
	Region *rb = region_new(m, NULL), *rs = region_new(m, NULL), *ri = region_new(m, NULL),
		*rj = region_new(m, NULL);
	Node *fa[2], *fb[2];

	part_read(&q->t, &q->a, rb, stage, kb);
	part_read(&q->t, &q->b, rb, stage, kb);
	part_at(&q->t, &q->a, i, ks, fa);
	part_at(&q->t, &q->b, j, ks, fb);
	l_mma(m, rj, q->x->name, (Spot){q->acc, (Node *[]){i, j, x_idx(m, 0)}},
		(Spot){q->a.fragment, fa}, (Spot){q->b.fragment, fb});
	l_for(m, ri, F_UNROLL, j, rj);
	l_for(m, rs, F_UNROLL, i, ri);
	l_for(m, rb, F_UNROLL, ks, rs);
	l_for(m, r, F_UNROLL, kb, rb);
}

void
mm_clear(Mm *q, Region *r)
{
	Module *m = q->g.m;
	Node *i = x_axis(m, q->acc->in[0]), *j = x_axis(m, q->acc->in[1]), *e = x_axis(m, q->acc->in[2]);
	Region *ri = region_new(m, NULL), *rj = region_new(m, NULL), *re = region_new(m, NULL);

	l_store(m, re, q->acc, 3, (Node *[]){i, j, e}, x_int(m, q->acc->type->dtype, 0));
	l_for(m, rj, F_UNROLL, e, re);
	l_for(m, ri, F_UNROLL, j, rj);
	l_for(m, r, F_UNROLL, i, ri);
}

/* ---- the steps ------------------------------------------------------------------------------- */

void
mm_bind_step(Mm *q, Region *r, Node *step)
{
	Module *m = q->g.m;
	Contraction *c = &q->g.c;
	Node *rest = x_fdiv(m, step, q->per);
	int i;

	q->a.k0 = q->b.k0 = l_let(m, r, x_muli(m, q->g.flat || c->nred == 1 ? step : x_mod(m, step, q->per), q->bk));
	for (i = c->nred - 1; !q->g.flat && i-- > 0;) {
		map_put(&q->g.at, c->red[i], l_let(m, r, i ? x_mod(m, rest, c->red[i]->in[0]) : rest));
		rest = x_fdiv(m, rest, c->red[i]->in[0]);
	}
}

static void
fetch_both(Mm *q, Region *r, Node *step, Node *stage)
{
	mm_bind_step(q, r, step);
	part_fetch(&q->t, &q->a, r, stage);
	part_fetch(&q->t, &q->b, r, stage);
}

static void
put_both(Mm *q, Region *r, Node *stage)
{
	part_put(&q->t, &q->a, r, stage);
	part_put(&q->t, &q->b, r, stage);
}

static void
sum_up(Mm *q, Region *r)
{
	Module *m = q->g.m;
	Node *step = x_axis(m, q->total), *ahead = x_addi(m, step, q->stages - 1), *more, *stage;
	Region *in = region_new(m, NULL), *then;
	bool async = q->a.async || q->b.async, staged = !q->a.async || !q->b.async;
	int i;

	for (i = 0; i < q->stages - 1; i++) {
		then = region_new(m, NULL);
		fetch_both(q, then, x_idx(m, i), x_idx(m, i));
		put_both(q, then, x_idx(m, i));
		gpu_where(m, r, x_lt(m, x_idx(m, i), q->total), then);
		if (async)
			l_commit(m, r);
	}
	if (async)
		l_wait(m, in, q->stages - 2);
	l_barrier(m, in);
	more = x_lt(m, ahead, q->total);
	stage = x_mod(m, ahead, x_idx(m, q->stages));
	then = region_new(m, NULL);
	fetch_both(q, then, ahead, stage);
	gpu_where(m, in, more, then);
	if (async)
		l_commit(m, in);
	multiply(q, in, x_mod(m, step, x_idx(m, q->stages)));
	then = region_new(m, NULL);
	put_both(q, then, stage);
	if (staged)
		gpu_where(m, in, more, then);
	l_for(m, r, F_SERIAL, step, in);
}

/* ---- storing --------------------------------------------------------------------------------- */

/* Elements beside each other in a lane's fragment of C. */
static int
acc_lanes(const Mma *x)
{
	return layout_at(x->c, 'c', 0, 1) == 1 ? 2 : 1;
}

/* How many lanes at most meet in a bank when a warp stores its elements into rows of so many words. */
static int
conflicts(const Mma *x, int words)
{
	int lanes = 32 / acc_lanes(x), hits[32] = {0}, l, w, most = 0;

	for (l = 0; l < lanes; l++)
		for (w = 0; w < acc_lanes(x); w++) {
			int bank = (layout_at(x->c, 'r', l, w) * words + layout_at(x->c, 'c', l, w)) % 32;
			if (++hits[bank] > most)
				most = hits[bank];
		}
	return most;
}

int
mm_row_words(const Mma *x, int columns)
{
	static const int pads[] = {0, 4, 8, 16};
	int i, best = 0;

	for (i = 1; i < 4; i++)
		if (conflicts(x, columns + pads[i]) < conflicts(x, columns + pads[best]))
			best = i;
	return columns + pads[best];
}

typedef struct Slice { Mm *q; Node *s; int tiles, words; } Slice;

/* The row of the block's tile that row y of the slice is. */
static Node *
slice_row(void *ctx, Node *y)
{
	Slice *x = ctx;
	Module *m = x->q->g.m;
	int t = x->q->x->m;
	Node *warp = x_fdiv(m, y, x_idx(m, x->tiles * t)), *in = x_mod(m, y, x_idx(m, x->tiles * t));

	in = x_add(m, in, x_muli(m, x->s, x->tiles * t));
	return x_add(m, x_muli(m, warp, x->q->a.span), in);
}

static Node *
slice_sum(void *ctx, Node *y, Node *x)
{
	Slice *s = ctx;
	Module *m = s->q->g.m;
	Node *at = x_add(m, x_muli(m, y, s->words), x);

	return x_bits(m, s->q->acc->type->dtype, l_load(m, s->q->t.memory, 1, &at));
}

void
mm_spread(Mm *q, Region *r, const Spread *s)
{
	Module *m = q->g.m;
	const Mma *x = q->x;
	int lanes = acc_lanes(x);
	Node *i = x_axis(m, x_idx(m, s->ni)), *j = x_axis(m, x_idx(m, s->nj));
	Node *e = x_axis(m, x_idx(m, q->acc_elems / lanes)), *v = x_axis(m, x_idx(m, lanes)), *el, *y, *c, *at;
	Region *ri = region_new(m, NULL), *rj = region_new(m, NULL), *re = region_new(m, NULL), *rv;

	rv = lanes > 1 ? region_new(m, NULL) : re;
	el = x_muli(m, e, lanes);
	y = x_add(m, x_add(m, s->row, x_muli(m, i, s->step)), layout_node(m, x->c, 'r', q->t.lane, el));
	c = x_add(m, x_add(m, s->column, x_muli(m, j, x->n)), layout_node(m, x->c, 'c', q->t.lane, el));
	at = x_add(m, x_muli(m, y, s->words), c);
	if (lanes > 1)
		at = x_add(m, at, v), el = x_add(m, el, v);
	l_store(m, rv, s->memory, 1, &at, x_bits(m, DT_U32, l_load(m, q->acc, 3,
		(Node *[]){x_add(m, s->i0, i), x_add(m, s->j0, j), el})));
	if (lanes > 1)
		l_for(m, re, F_VECTOR, v, rv);
	l_for(m, rj, F_UNROLL, e, re);
	l_for(m, ri, F_UNROLL, j, rj);
	l_for(m, r, F_UNROLL, i, ri);
}

/* The warp's part of the slice to shared memory. */
static void
spread(Mm *q, Region *r, const Slice *s)
{
	Module *m = q->g.m;
	int64_t columns = const_or(q->acc->in[1], 0);

	mm_spread(q, r, &(Spread){.memory = q->t.memory, .i0 = x_muli(m, s->s, s->tiles), .j0 = x_idx(m, 0),
		.row = x_muli(m, x_fdiv(m, q->warp, x_idx(m, q->wn)), s->tiles * q->x->m), .column = q->b.first,
		.ni = s->tiles, .nj = (int)columns, .step = q->x->m, .words = s->words});
}

/* Instructions' rows of a warp in a slice, so that it fits the words; 0: not even one. */
static int
slice_tiles(const Mm *q, int words)
{
	int all = q->a.span / q->x->m, t;

	for (t = all; t > 0; t--)
		if (all % t == 0 && q->wm * t * q->x->m * mm_row_words(q->x, q->b.s->width) <= words)
			return t;
	return 0;
}

static void
finish(Mm *q, Region *r, int tiles)
{
	Module *m = q->g.m;
	Slice s = {.q = q, .tiles = tiles, .words = mm_row_words(q->x, q->b.s->width)};
	Region *in = region_new(m, NULL);

	s.s = x_axis(m, x_idx(m, q->a.span / q->x->m / tiles));
	l_barrier(m, in);
	spread(q, in, &s);
	l_barrier(m, in);
	gemm_write(&q->g, in, &(SumTile){.slow = q->a.s, .fast = q->b.s,
		.rows = q->wm * tiles * q->x->m, .row = slice_row, .sum = slice_sum, .ctx = &s});
	l_for(m, r, F_UNROLL, s.s, in);
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* Bytes of reads in what follows the sum that go along both factors' axes, an element. */
static double
read_beside(const Mm *q)
{
	Node **list;
	double bytes = 0;
	int i, k, n;

	list = topo_scalar(q->g.nest.body, &n);
	for (i = 0; i < n; i++) {
		if (list[i]->code != O_READ || contains(q->g.c.reduce, list[i]))
			continue;
		for (k = 0; k < q->a.s->n && !contains(list[i], q->a.s->axes[k]); k++)
			;
		bytes += k < q->a.s->n ? dtypes[list[i]->type->dtype].bits / 8.0 : 0;
	}
	free(list);
	return bytes;
}

Product
mm_product(const Mm *q)
{
	const Gemm *g = &q->g;
	double all = gemm_extent(g->m, g->c.nred, g->c.red), last = (double)likely_extent(g->m, g->depth);
	double read = read_beside(q);

	return (Product){.mach = g->kb->s->mach, .x = q->x,
		.m = gemm_extent(g->m, q->a.s->n, q->a.s->axes), .n = gemm_extent(g->m, q->b.s->n, q->b.s->axes),
		.batch = gemm_extent(g->m, g->nbatch, g->batch), .outer = all / last, .depth = last,
		.size = q->a.size, .own_m = q->a.own, .own_n = q->b.own, .lane_words = q->t.lane_words,
		.async_m = q->a.async, .async_n = q->b.async,
		.loose_m = q->a.loose, .loose_n = q->b.loose, .reads_result = read > 0,
		.result_bytes = read + dtypes[dtype_of(g->nest.out)].bits / 8.0};
}

/* Bytes of depth that a step takes: a row of 64 or 128, whole blocks, less where the depth is less. */
static int
step_bytes(const Mm *q, double depth, int size)
{
	int bytes = q->t.matrices ? 64 : 128;

	while (bytes > q->t.block_bytes && bytes / 2 >= depth * size)
		bytes /= 2;
	return bytes < q->t.block_bytes ? q->t.block_bytes : bytes;
}

/* Elements of depth up to which steps may be made deeper. */
static int
deepest(const Mm *q, const Node *last)
{
	return (int)const_or(last, 4 * q->bk) < q->bk ? q->bk : (int)const_or(last, 4 * q->bk);
}

static void
take_tile(Mm *q, const MmaTile *t)
{
	q->a.s->width = t->m, q->b.s->width = t->n;
	q->wm = t->wm, q->wn = t->wn;
	q->bk = q->a.depth = q->b.depth = t->bk;
	q->stages = t->stages;
	q->warps = q->wm * q->wn;
	q->g.threads = q->t.threads = q->warps * q->g.kb->s->mach->warp;
	q->a.span = t->m / q->wm, q->b.span = t->n / q->wn;
	q->acc_elems = 1 << layout_bits(q->x->c, true);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* GROUP rows of tiles are walked column by column, so that blocks that run together read the same of both
 * factors. */
void
mm_locate(Mm *q, Region *r, Node *t, Node *nm, Node *nn)
{
	Gemm *g = &q->g;
	Module *m = g->m;
	Node *tiles = x_mul(m, nm, nn), *in = g->nbatch ? x_mod(m, t, tiles) : t;
	Node *per = x_muli(m, nn, GROUP), *first = x_muli(m, x_fdiv(m, in, per), GROUP), *high;
	int i;

	high = x_min(m, x_sub(m, nm, first), x_idx(m, GROUP));
	in = x_mod(m, in, per);
	q->a.s->block = l_let(m, r, x_add(m, first, x_mod(m, in, high)));
	q->b.s->block = l_let(m, r, x_fdiv(m, in, high));
	digits(m, &g->at, g->nbatch, g->batch, x_fdiv(m, t, tiles));
	for (i = 0; i < g->nbatch; i++)
		map_put(&g->at, g->batch[i], l_let(m, r, map_get(&g->at, g->batch[i])));
}

/* Which part of the block's tile the thread's warp has. */
static void
locate_warp(Mm *q)
{
	Gemm *g = &q->g;
	Module *m = g->m;
	Node *warp = x_idx(m, g->kb->s->mach->warp);

	q->t.lane = l_let(m, g->f.thread, x_mod(m, g->f.tid, warp));
	q->warp = l_let(m, g->f.thread, x_fdiv(m, g->f.tid, warp));
	q->a.first = l_let(m, g->f.thread,
		x_muli(m, x_fdiv(m, q->warp, x_idx(m, q->wn)), q->a.span));
	q->b.first = l_let(m, g->f.thread,
		x_muli(m, x_mod(m, q->warp, x_idx(m, q->wn)), q->b.span));
}

static const char *
described(const Mm *q)
{
	const Part *a = &q->a, *b = &q->b;

	return arena_printf(q->g.m->arena, "class=contract, mma=%s, block=[%d,%d,%d], warps=[%d,%d], "
		"stages=%d, units=[%d%s,%d%s]", q->x->name, a->s->width, b->s->width, q->bk, q->wm, q->wn,
		q->stages, a->loose ? a->size : a->unit, a->async ? " async" : "",
		b->loose ? b->size : b->unit, b->async ? " async" : "");
}

static Kernel *
emit(Mm *q, double depth)
{
	Gemm *g = &q->g;
	Module *m = g->m;
	Node *nm = x_ceildiv(m, q->a.s->extent, x_idx(m, q->a.s->width));
	Node *nn = x_ceildiv(m, q->b.s->extent, x_idx(m, q->b.s->width)), *words, *ext[3];
	int total, tiles, least;

	g->f = gpu_frame(g->kb, x_mul(m, x_mul(m, nm, nn), axes_product(m, g->nbatch, g->batch)), g->threads);
	q->t.tid = g->f.tid;
	part_lay_out(&q->t, &q->a);
	part_lay_out(&q->t, &q->b);
	q->b.base = q->a.words;
	q->t.stage_words = q->a.words + q->b.words;
	total = q->t.stage_words * q->stages;
	least = q->wm * q->x->m * mm_row_words(q->x, q->b.s->width);
	words = x_idx(m, total = total > least ? total : least);
	tiles = slice_tiles(q, total);
	q->t.memory = gpu_shared(g->kb, &g->f, "tiles", DT_U32, 1, &words);
	mm_locate(q, g->f.thread, g->f.bid, nm, nn);
	locate_warp(q);
	ext[0] = x_idx(m, q->a.span / q->x->m), ext[1] = x_idx(m, q->b.span / q->x->n);
	ext[2] = x_idx(m, q->acc_elems);
	q->acc = l_alloc(m, g->f.thread, l_buffer(m, "acc", q->x->acc, SP_REG, 3, ext));
	part_allocate(&q->t, &q->a, &g->f, "fa", "ra");
	part_allocate(&q->t, &q->b, &g->f, "fb", "rb");
	mm_clear(q, g->f.thread);
	sum_up(q, g->f.thread);
	finish(q, g->f.thread, tiles);
	g->kb->k->flops = 2.0 * q->a.s->width * q->b.s->width * depth;
	map_free(&g->at);
	return gpu_close(g->kb, &g->f, described(q));
}

static void
depth_of(Mm *q, Part *p)
{
	p->red = q->g.c.red, p->nred = q->g.c.nred;
	p->flat = q->g.flat;
	p->extent = q->g.depth;
	p->depth = q->bk;
	p->at = &q->g.at;
}

void
mm_depth(Mm *q, bool flat)
{
	Gemm *g = &q->g;

	g->flat = flat;
	g->depth = flat ? axes_product(g->m, g->c.nred, g->c.red) : g->c.red[g->c.nred - 1]->in[0];
	depth_of(q, &q->a);
	depth_of(q, &q->b);
}

void
mm_steps(Mm *q)
{
	Gemm *g = &q->g;
	Node *outer = g->flat ? x_idx(g->m, 1) : axes_product(g->m, g->c.nred - 1, g->c.red);

	q->per = x_ceildiv(g->m, g->depth, x_idx(g->m, q->bk));
	q->total = x_mul(g->m, outer, q->per);
}

Kernel *
mma_gpu(Gemm *gemm)
{
	Mm q = {.g = *gemm};
	Gemm *g = &q.g;
	double depth = gemm_extent(g->m, g->c.nred, g->c.red);
	Node *last = g->c.red[g->c.nred - 1]->in[0];
	Kernel *groups;
	Product p;
	MmaTile tile;
	int64_t c;

	q.a.s = g->rows_last ? &g->b : &g->a;
	q.b.s = g->rows_last ? &g->a : &g->b;
	q.t.kb = g->kb, q.t.m = g->m;
	if (!usable(&q, depth))
		return NULL;
	part_blocks(&q.t, &q.a, &q.b);
	q.bk = step_bytes(&q, depth, q.a.size) / q.a.size;
	mm_depth(&q, g->c.nred > 1 && is_int(last, &c) && c % q.bk && c < 4 * q.bk);
	part_storage(&q.t, &q.a);
	part_storage(&q.t, &q.b);
	p = mm_product(&q);
	if (!pick_tile(&p, q.bk, g->flat ? q.bk : deepest(&q, last), &tile))
		return NULL;
	groups = wgmma_gpu(&q, tile_us(&p, &tile));
	if (groups && !groups->fits)
		return groups;
	take_tile(&q, &tile);
	mm_steps(&q);
	if (!groups)
		return emit(&q, depth);
	groups->otherwise = emit(&q, depth);
	return groups;
}
