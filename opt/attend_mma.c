/*
 * GPU schedule of attention (attend.c) on matrix units (Dao, "FlashAttention-2", 2023). A warp
 * has some query rows, and all keys and columns: scores, statistics and sums of its rows stay in
 * its registers. Queries are read once. Keys and values pass through shared memory in blocks, in
 * two stages, so that the next block is under way while this one is multiplied (gpu_part.c); one
 * barrier a block.
 *
 * The exponentials are the result of one matrix instruction and an operand of the next. Which
 * element lies where is known (mma.def), so they become it without leaving their lanes, whichever
 * way round that works:
 *
 *	straight   S = Q K^T, O = P V          C's rows and columns are A's (NVIDIA)
 *	turned     S^T = K Q^T, O^T = V^T P^T  C's rows and columns are B's (AMD)
 *
 * The keys' order within an instruction's depth is free, as long as the values agree: rows of the
 * keys' tile are read in the order in which they are the operand's depth. What a lane still lacks
 * then (gfx11 holds operands twice), other lanes give it.
 *
 * At the end sums are divided in registers, and pass through shared memory to be stored along the
 * result.
 */
#include <stdlib.h>
#include "attend_mma.h"

/* ---- the blocks of keys ---------------------------------------------------------------------- */

static void
fetch(Mm *q, Region *r, Node *block, Node *stage)
{
	q->sk.block = block;
	q->v.k0 = x_muli(q->o.m, block, q->keys);
	part_fetch(&q->t, &q->k, r, stage);
	part_fetch(&q->t, &q->v, r, stage);
}

static void
put(Mm *q, Region *r, Node *stage)
{
	part_put(&q->t, &q->k, r, stage);
	part_put(&q->t, &q->v, r, stage);
}

/* The queries to shared memory and, if they stay, from there to registers; the first keys and
 * values are under way. */
static void
begin(Mm *q, Region *r, Node *total)
{
	Module *m = q->o.m;
	Node *zero = x_idx(m, 0), *kb, *i;
	Region *first = region_new(m, NULL), *in;

	part_fetch(&q->t, &q->q, r, zero);
	part_put(&q->t, &q->q, r, zero);
	l_commit(m, r);
	fetch(q, first, zero, zero);
	put(q, first, zero);
	gpu_where(m, r, x_lt(m, zero, total), first);
	l_commit(m, r);
	if (!q->resident)
		return;
	l_wait(m, r, 1);
	l_barrier(m, r);
	in = am_unroll(q, am_unroll(q, r, q->depth * am_elem_size(q) / q->t.block_bytes, &kb),
		q->q.span / q->q.own, &i);
	part_read_block(&q->t, &q->q, in, zero, i, kb, x_add(m, x_muli(m, kb, q->q.span / q->q.own),
		i));
}

static void
pass_over(Mm *q, Region *r, Node *total)
{
	Module *m = q->o.m;
	Node *block = x_axis(m, total), *ahead = x_addi(m, block, 1), *stages = x_idx(m, STAGES),
		*stage, *next;
	Region *in = region_new(m, NULL), *then = region_new(m, NULL), *late = region_new(m, NULL);

	l_wait(m, in, 0);
	l_barrier(m, in);
	stage = l_let(m, in, x_mod(m, block, stages));
	next = l_let(m, in, x_mod(m, ahead, stages));
	fetch(q, then, ahead, next);
	gpu_where(m, in, x_lt(m, ahead, total), then);
	l_commit(m, in);
	q->k0 = l_let(m, in, x_muli(m, block, q->keys));
	am_block(q, in, stage);
	put(q, late, next);
	if (late->nresults)
		gpu_where(m, in, x_lt(m, ahead, total), late);
	l_for(m, r, F_SERIAL, block, in);
}

/* ---- storing --------------------------------------------------------------------------------- */

/* Consecutive columns that a lane has in C. */
static int
together(const Mm *q)
{
	int n = 1;

	while (n < 4 && n < q->elems && layout_at(q->t.x->c, am_key_coord(q), 0, n) == n)
		n *= 2;
	return n;
}

/* Lanes that meet in a bank when a warp's first ones store their elements into rows of so many
 * words. */
static int
conflicts(const Mm *q, int row_words)
{
	int hits[32] = {0}, n = together(q), l, e, bank, most = 0;

	for (l = 0; l < 32 / n; l++)
		for (e = 0; e < n; e++) {
			bank = (layout_at(q->t.x->c, am_own_coord(q), l, e) * row_words
				+ layout_at(q->t.x->c, am_key_coord(q), l, e)) % 32;
			if (++hits[bank] > most)
				most = hits[bank];
		}
	return most;
}

int
am_out_words(const Mm *q)
{
	int pad, best = 4;

	for (pad = 8; pad <= 16; pad += 4)
		if (conflicts(q, q->columns + pad) < conflicts(q, q->columns + best))
			best = pad;
	return q->columns + best;
}

void
am_spread(Mm *q, Region *r)
{
	Module *m = q->o.m;
	int n = together(q), e, k;
	Node *i, *j, *v, *at, *column, *sum, *row, *x;
	Region *rv;

	r = am_unroll(q, r, q->tiles, &i);
	for (k = 0; k < q->nstats; k++)
		am_set_stat(q, r, q->sum, i, k, am_fold(q, r, COMB_SUM, am_stat_at(q, q->sum, i, k)));
	r = am_unroll(q, r, q->columns / q->column_tile, &j);
	for (e = 0; e < q->elems; e++) {
		row = flash_clamp(m, am_row_at(q, i, e), q->o.extent);
		sum = flash_reduced(&q->o, am_load3(q, q->sums, i, j, e), am_stat_at(q, q->sum, i, q->stat[e]),
			am_stat_at(q, q->max, i, q->stat[e]));
		am_store3(q, r, q->sums, i, j, e, kb_emit(q->o.kb, r, flash_at(&q->o, sum, row, NULL, NULL)));
	}
	for (e = 0; e < q->elems; e += n) {
		v = x_axis(m, x_idx(m, n));
		rv = region_new(m, NULL);
		column = x_add(m, x_muli(m, j, q->column_tile),
			layout_node(m, q->t.x->c, am_key_coord(q), q->t.lane, x_idx(m, e)));
		at = x_add(m, x_add(m, x_muli(m, am_block_row(q, i, e), am_out_words(q)), column), v);
		x = l_load(m, q->sums, 3, am_spot_of(q, i, j, x_addi(m, v, e), (Node *[3]){0}));
		l_store(m, rv, q->t.memory, 1, &at, x_bits(m, DT_U32, x));
		l_for(m, r, F_VECTOR, v, rv);
	}
}

void
am_write_rows(Mm *q, Region *r)
{
	Module *m = q->o.m;
	Node *out = q->o.a.out, *columns = q->o.column->in[0], *idx[MAX_RANK], *j, *unit, *row,
		*column, *at, *ok, *e;
	int w = vector_of(dtypes[storage_type(dtype_of(out))].bits / 8), rows = q->warps * q->q.span,
		units;
	bool wide = in_vectors(m, kb_address(q->o.kb, out, out->in), q->o.column, w);
	Region *in, *put = region_new(m, NULL), *rv = put;
	Node *v = x_axis(m, x_idx(m, w = wide ? w : 1));

	units = rows * q->columns / w;
	in = am_unroll(q, r, (units + q->t.threads - 1) / q->t.threads, &j);
	unit = x_add(m, x_muli(m, j, q->t.threads), q->t.tid);
	row = x_fdiv(m, unit, x_idx(m, q->columns / w));
	column = x_muli(m, x_mod(m, unit, x_idx(m, q->columns / w)), w);
	ok = x_and(m, x_lt(m, x_add(m, q->q0, row), q->o.extent), x_lt(m, column, columns));
	if (units % q->t.threads)
		ok = x_and(m, x_lt(m, unit, x_idx(m, units)), ok);
	if (w > 1) {
		rv = region_new(m, NULL);
		column = x_add(m, column, v);
	}
	at = x_add(m, x_muli(m, row, am_out_words(q)), column);
	e = flash_result(&q->o, x_bits(m, DT_F32, l_load(m, q->t.memory, 1, &at)), x_add(m, q->q0,
		row), column, idx);
	kb_store(q->o.kb, rv, out, idx, kb_emit(q->o.kb, rv, e));
	if (w > 1)
		l_for(m, put, F_VECTOR, v, rv);
	l_when(m, in, ok, put, NULL);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static const Map nothing;

/* A factor's part over its axes: `read` and what is around it over one axis of its own and one of
 * depth. */
static bool
open_part(Mm *q, Part *p, Side *s, Node *e, Node *own, Node **red, int depth)
{
	p->s = s;
	*s = (Side){.e = e, .axes = {own}, .n = 1, .extent = own->in[0], .block = x_idx(q->o.m, 0)};
	s->read = factor_read(e, true);
	p->red = red, p->nred = 1;
	p->k0 = x_idx(q->o.m, 0), p->extent = red[0]->in[0];
	p->depth = depth;
	p->at = &nothing;
	return s->read && part_plain(&q->t, p, e);
}

bool
am_open_parts(Mm *q, Node **deep)
{
	Module *m = q->o.m;
	Attention *a = &q->o.a;
	Node *own = x_axis(m, q->o.extent), *e;

	e = flash_at(&q->o, flash_factor(&q->o, a->qk.ea, *deep), own, NULL, NULL);
	if (!open_part(q, &q->q, &q->sq, e, own, deep, q->depth))
		return false;
	e = flash_factor(&q->o, subst1(m, a->qk.eb, a->score->in[a->nouter], a->at), *deep);
	if (!open_part(q, &q->k, &q->sk, flash_at(&q->o, e, NULL, NULL, NULL), a->key, deep, q->depth))
		return false;
	e = flash_at(&q->o, a->pv.eb, NULL, NULL, NULL);
	if (!open_part(q, &q->v, &q->sv, e, q->o.column, &a->key, q->keys))
		return false;
	q->sq.block = q->row_block;
	q->sq.width = q->warps * q->q.span;
	q->sk.width = q->keys;
	q->sv.width = q->columns;
	return true;
}

static void
lay_out(Mm *q)
{
	Part *parts[] = {&q->k, &q->v, &q->q};
	int i, at = 0;

	for (i = 0; i < 3; i++) {
		part_storage(&q->t, parts[i]);
		part_lay_out(&q->t, parts[i]);
	}
	q->k.base = 0, q->v.base = q->k.words;
	q->t.stage_words = q->k.words + q->v.words;
	at = STAGES * q->t.stage_words;
	q->q.base = at;
}

static Node *
registers_of(Mm *q, const char *name, DType d, int n, int x, int y, int z)
{
	Module *m = q->o.m;
	Node *ext[3] = {x_idx(m, x), x_idx(m, y), x_idx(m, z)};

	return l_alloc(m, q->o.f.thread, l_buffer(m, name, d, SP_REG, n, ext));
}

void
am_open_registers(Mm *q)
{
	Module *m = q->o.m;
	int keys = q->keys / q->key_tile, columns = q->columns / q->column_tile;
	Node *group = x_idx(m, q->group);

	q->part = l_alloc(m, q->o.f.block, l_buffer(m, "part", DT_F32, SP_REG, 1, &group));
	if (q->half_lane)
		q->word = l_alloc(m, q->o.f.block, l_buffer(m, "word", DT_U32, SP_REG, 1, &group));
	q->s = q->turned ? registers_of(q, "s", DT_F32, 3, keys, q->tiles, q->elems)
		: registers_of(q, "s", DT_F32, 3, q->tiles, keys, q->elems);
	q->sums = q->turned ? registers_of(q, "sums", DT_F32, 3, columns, q->tiles, q->elems)
		: registers_of(q, "sums", DT_F32, 3, q->tiles, columns, q->elems);
	q->p = registers_of(q, "p", DT_U32, 2, q->tiles * q->keys / q->t.x->k,
		q->nsource * am_elem_size(q) / 4, 0);
	q->max = registers_of(q, "max", DT_F32, 2, q->tiles, q->nstats, 0);
	q->sum = registers_of(q, "sum", DT_F32, 2, q->tiles, q->nstats, 0);
	q->rise = registers_of(q, "rise", DT_F32, 2, q->tiles, q->nstats, 0);
	part_allocate(&q->t, &q->q, &q->o.f, "fq", "rq");
}

static void
open_buffers(Mm *q)
{
	int total = q->q.base + q->q.words, out = q->warps * q->q.span * am_out_words(q);
	Node *n = x_idx(q->o.m, total > out ? total : out);

	q->t.memory = gpu_shared(q->o.kb, &q->o.f, "tiles", DT_U32, 1, &n);
	am_open_registers(q);
	part_allocate(&q->t, &q->k, &q->o.f, "fk", "rk");
	part_allocate(&q->t, &q->v, &q->o.f, "fv", "rv");
}

void
am_open_rows(Mm *q, Region *r)
{
	Module *m = q->o.m;
	Node *i;
	int k;

	am_clear(q, r, q->sums, q->columns / q->column_tile);
	r = am_unroll(q, r, q->tiles, &i);
	for (k = 0; k < q->nstats; k++) {
		am_set_stat(q, r, q->max, i, k, x_comb_identity(m, COMB_MAX, DT_F32));
		am_set_stat(q, r, q->sum, i, k, x_int(m, DT_F32, 0));
	}
}

static void
locate(Mm *q, Region *r, Node *blocks)
{
	Module *m = q->o.m;
	int warp = q->t.kb->s->mach->warp;

	q->t.tid = q->o.f.tid;
	q->row_block = l_let(m, r, x_mod(m, q->o.f.bid, blocks));
	q->q0 = x_muli(m, q->row_block, q->warps * q->q.span);
	q->t.lane = l_let(m, r, x_mod(m, q->t.tid, x_idx(m, warp)));
	q->warp = l_let(m, r, x_fdiv(m, q->t.tid, x_idx(m, warp)));
	q->place = l_let(m, r, x_mod(m, x_fdiv(m, q->t.lane, x_idx(m, q->apart)), x_idx(m, q->group)));
	q->q.first = l_let(m, r, x_muli(m, q->warp, q->q.span));
	q->k.first = q->v.first = x_idx(m, 0);
	flash_bind(&q->o, r, x_fdiv(m, q->o.f.bid, blocks));
}

static void
emit(Mm *q, Region *r)
{
	Module *m = q->o.m;
	Node *total;

	lay_out(q);
	open_buffers(q);
	am_open_rows(q, r);
	total = x_ceildiv(m, flash_end(&q->o, r, q->q0, q->warps * q->q.span), x_idx(m, q->keys));
	total = total->code == O_NUM ? total : l_let(m, r, total);
	begin(q, r, total);
	pass_over(q, r, total);
	l_barrier(m, r);
	am_spread(q, r);
	l_barrier(m, r);
	am_write_rows(q, r);
}

Kernel *
attention_mma(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Mm q = {0};
	Node *blocks, *deep;
	Region *r;

	if (!attention_of(s, g->members[g->n - 1], &q.o.a))
		return NULL;
	flash_open(&q.o, &kb, g);
	q.t.kb = &kb, q.t.m = m;
	if (!am_plan(&q, s))
		return NULL;
	blocks = x_ceildiv(m, q.o.extent, x_idx(m, q.warps * q.q.span));
	q.o.f = gpu_frame(&kb, x_mul(m, blocks, flash_batch(&q.o)), q.t.threads);
	r = q.o.f.thread;
	locate(&q, r, blocks);
	q.o.n = kb_emit(&kb, r, q.o.a.key->in[0]);
	deep = x_axis(m, axes_product(m, q.o.a.qk.nred, q.o.a.qk.red));
	if (!am_open_parts(&q, &deep)) {
		flash_close(&q.o);
		return NULL;
	}
	emit(&q, r);
	kb.k->flops = 2.0 * q.warps * q.q.span * (double)(q.depth + q.columns)
		* (double)const_or(q.o.a.key->in[0], 128);
	flash_close(&q.o);
	return gpu_close(&kb, &q.o.f, arena_printf(m->arena,
		"class=attention, mma=%s%s, block=[%d,%d,%d], warps=%d, stages=%d, units=[%d%s,%d%s]",
		q.t.x->name, q.turned ? " turned" : "", q.warps * q.q.span, q.keys, q.depth, q.warps, STAGES, q.k.unit,
		q.k.async ? " async" : "", q.v.unit, q.v.async ? " async" : ""));
}
