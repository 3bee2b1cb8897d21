/*
 * GPU schedule of attention (attend.c), in SIMT form, for what matrix units (attend_mma.c) do not
 * take: a block of threads has a block of query rows of one batch and head, and passes over the
 * keys in blocks. A thread has 4 rows of scores and of sums in registers, by 4 of each 32 keys
 * and columns: 8 threads beside each other have the same rows, so that what a warp reads of
 * either factor is the same for some and in distinct banks.
 *
 * Queries stay in shared memory, if they fit; keys pass through it a part of their depth at a time,
 * values some keys at a time. Threads of the same rows fold maximum and sum among them, so that
 * each holds its rows' statistics in registers. Exponentials go through shared memory, turned, to
 * where they multiply values; groups of 4 rows are rotated by the key, so that no banks are hit
 * twice.
 *
 * Rows and keys past the end are read again from the last ones; such keys count as -inf, such rows
 * are not stored. Blocks of keys that a mask hides from all of the rows are left out.
 */
#include <stdlib.h>
#include <string.h>
#include "attend_form.h"

enum {
	T = 4, GROUP = 8, STEP = GROUP * T,   /* threads of the same rows; keys or columns of theirs */
	ROWS = 32, THREADS = ROWS / T * GROUP,
	DEPTH = 16, PAD = 4,   /* of tiles in shared memory */
	SHARED = 47 * 1024,
	MAX_DEPTH = 512, MAX_SUMS = 256
};

/* How a block is cut. */
typedef struct Cut {
	int keys, columns;     /* in STEPs */
	int64_t depth;         /* of queries and keys */
	bool resident;         /* all of the queries' depth is in shared memory */
} Cut;

typedef struct Simt {
	Flash o;
	Cut cut;
	Node *tx, *ty;         /* the thread's place along keys and columns, along rows */
	Node *q0, *k0;         /* the block's first row and key */
	Node *queries, *keys, *values, *exps;   /* shared: [depth][rows], [depth][keys], ... */
	Node *s, *sums, *max, *sum, *rise, *part;   /* registers */
} Simt;

/* ---- does it fit? ---------------------------------------------------------------------------- */

static int64_t
shared_size(const Cut *c, int size)
{
	int64_t depth = c->resident ? (c->depth + DEPTH - 1) / DEPTH * DEPTH : DEPTH;

	return size * (depth * (ROWS + PAD) + DEPTH * (c->keys * STEP + PAD)
		+ (int64_t)c->keys * STEP * ROWS + DEPTH * (c->columns * STEP + PAD));
}

static bool
cut_of(const Attention *a, Cut *c)
{
	int size = dtypes[a->reduce->type->dtype].bits / 8, i;
	int64_t columns = const_or(a->pv.n->in[0], MAX_SUMS + 1), d;

	*c = (Cut){.keys = size > 4 ? 1 : 2, .depth = 1, .resident = true};
	for (i = 0; i < a->qk.nred; i++) {
		if (!is_int(a->qk.red[i]->in[0], &d) || d <= 0)
			return false;
		c->depth = sat_mul(c->depth, d);
	}
	c->columns = (int)((columns + STEP - 1) / STEP);
	c->resident = shared_size(c, size) <= SHARED;
	return columns <= MAX_SUMS && c->depth <= MAX_DEPTH && shared_size(c, size) <= SHARED;
}

bool
attention_fits_gpu(const Attention *a)
{
	Cut c;

	return a->at && storage_type(a->qk.ea->type->dtype) == a->qk.reduce->type->dtype
		&& a->qk.reduce->type->dtype == a->reduce->type->dtype && cut_of(a, &c);
}

/* ---- loops ----------------------------------------------------------------------------------- */

static Node *
private(Simt *f, const char *name, int n, int x, int y, int z)
{
	Node *ext[3] = {x_idx(f->o.m, x), x_idx(f->o.m, y), x_idx(f->o.m, z)};

	return l_alloc(f->o.m, f->o.f.thread, l_buffer(f->o.m, name, f->o.type, SP_REG, n, ext
		+ 3 - n));
}

static Node *
shared(Simt *f, const char *name, int64_t n, int64_t width)
{
	return gpu_shared(f->o.kb, &f->o.f, name, f->o.type, 2,
		(Node *[]){x_idx(f->o.m, n), x_idx(f->o.m, width)});
}

static Region *
loop(Simt *f, Region *r, ForKind kind, Node *extent, Node **axis)
{
	Region *in = region_new(f->o.m, NULL);

	*axis = x_axis(f->o.m, extent);
	l_for(f->o.m, r, kind, *axis, in);
	return in;
}

static Region *
unroll(Simt *f, Region *r, int n, Node **axis)
{
	return loop(f, r, F_UNROLL, x_idx(f->o.m, n), axis);
}

static Node *
row_at(Simt *f, Node *i)
{
	Module *m = f->o.m;

	return x_add(m, f->q0, x_add(m, x_muli(m, f->ty, T), i));
}

static Node *
at1(Simt *f, Node *buffer, Node *i)
{
	return l_load(f->o.m, buffer, 1, &i);
}

static void
set1(Simt *f, Region *r, Node *buffer, Node *i, Node *v)
{
	l_store(f->o.m, r, buffer, 1, &i, v);
}

/* ---- bringing -------------------------------------------------------------------------------- */

/* What goes to a tile [depth][width + PAD]: e's elements from (d0, o0) on, along the axes `deep`
 * and `own`. */
typedef struct Bring {
	Node *e, *read, *deep, *own, *d0, *o0;
	Node *tile, *t0;       /* from depth t0 of the tile on */
	int depth, width;
} Bring;

/* Elements that travel together along the axis. */
static int
lanes_along(Simt *f, const Bring *b, Node *axis)
{
	int w = vector_of(dtypes[storage_type(dtype_of(b->read->in[0]))].bits / 8);
	Node *addr = kb_address(f->o.kb, b->read->in[0], b->read->in + 1), *e = b->e;

	while (e->code == O_CAST)
		e = e->in[0];
	return e == b->read && !is_packed(f->o.kb->s, b->read->in[0]) && in_vectors(f->o.m, addr,
		axis, w)
		? w : 1;
}

static void
bring(Simt *f, Region *r, const Bring *b)
{
	Module *m = f->o.m;
	Node *stride = elem_stride(f->o.kb, b->read, b->deep), *j, *v, *unit, *k, *x, *e, *own, *d,
		*vk, *vx;
	bool deep = stride && is_intv(stride, 1);
	int w = lanes_along(f, b, deep ? b->deep : b->own), vectors = b->depth * b->width / w,
		count = (vectors + THREADS - 1) / THREADS;
	Node *per = x_idx(m, deep ? b->depth / w : b->width / w);
	Region *in = unroll(f, r, count, &j), *rv = region_new(m, NULL);

	v = x_axis(m, x_idx(m, w));
	unit = x_add(m, x_muli(m, j, THREADS), f->o.f.tid);
	k = deep ? x_muli(m, x_mod(m, unit, per), w) : x_fdiv(m, unit, per);
	x = deep ? x_fdiv(m, unit, per) : x_muli(m, x_mod(m, unit, per), w);
	own = l_let(m, in, w > 1 && !deep
		? x_min(m, x_add(m, b->o0, x), x_addi(m, b->own->in[0], -w))
		: flash_clamp(m, x_add(m, b->o0, x), b->own->in[0]));
	d = x_add(m, b->d0, k);
	vk = deep && w > 1 ? v : x_idx(m, 0), vx = !deep && w > 1 ? v : x_idx(m, 0);
	e = subst1(m, subst1(m, b->e, b->own, x_add(m, own, vx)), b->deep, x_add(m, d, vk));
	e = x_select(m, x_lt(m, d, b->deep->in[0]), e, x_int(m, e->type->dtype, 0));
	l_store(m, w > 1 ? rv : in, b->tile, 2,
		(Node *[]){x_add(m, b->t0, x_add(m, k, vk)), x_add(m, x, vx)},
		kb_emit(f->o.kb, w > 1 ? rv : in, e));
	if (w > 1)
		l_for(m, in, F_VECTOR, v, rv);
}

static void
bring_queries(Simt *f, Region *r, Node *d0, Node *t0)
{
	Module *m = f->o.m;
	Bring b = {.deep = x_axis(m, x_idx(m, f->cut.depth)), .own = x_axis(m, f->o.extent),
		.depth = DEPTH,
		.d0 = d0, .o0 = f->q0, .tile = f->queries, .t0 = t0, .width = ROWS};

	b.e = flash_at(&f->o, flash_factor(&f->o, f->o.a.qk.ea, b.deep), b.own, NULL, NULL);
	b.read = flash_at(&f->o, flash_factor(&f->o, f->o.a.qk.a, b.deep), b.own, NULL, NULL);
	bring(f, r, &b);
}

/* Keys in the order in which the softmax reads their scores. */
static void
bring_keys(Simt *f, Region *r, Node *d0)
{
	Module *m = f->o.m;
	Node *n = f->o.a.score->in[f->o.a.nouter];
	Bring b = {.deep = x_axis(m, x_idx(m, f->cut.depth)), .own = f->o.a.key, .depth = DEPTH,
		.d0 = d0,
		.o0 = f->k0, .tile = f->keys, .t0 = x_idx(m, 0), .width = f->cut.keys * STEP};

	b.e = flash_at(&f->o, flash_factor(&f->o, subst1(m, f->o.a.qk.eb, n, f->o.a.at), b.deep), NULL, NULL,
		NULL);
	b.read = flash_at(&f->o, flash_factor(&f->o, subst1(m, f->o.a.qk.b, n, f->o.a.at), b.deep), NULL, NULL,
		NULL);
	bring(f, r, &b);
}

static void
bring_values(Simt *f, Region *r, Node *d0)
{
	Module *m = f->o.m;
	Bring b = {.deep = f->o.a.key, .own = f->o.column, .depth = DEPTH, .d0 = x_add(m, f->k0, d0),
		.o0 = x_idx(m, 0), .tile = f->values, .t0 = x_idx(m, 0)};

	b.e = subst(m, f->o.a.pv.eb, &f->o.out, false);
	b.read = subst(m, f->o.a.pv.b, &f->o.out, false);
	b.width = f->cut.columns * STEP;
	bring(f, r, &b);
}

/* ---- products -------------------------------------------------------------------------------- */

static Node *
fragment(Simt *f, Region *r, Node *tile, Node *depth, Node *first)
{
	Module *m = f->o.m;
	Node *n = x_idx(m, T), *v = x_axis(m, n),
		*b = l_alloc(m, r, l_buffer(m, "f", f->o.type, SP_REG, 1, &n));
	Region *rv = region_new(m, NULL);

	l_store(m, rv, b, 1, &v, l_load(m, tile, 2, (Node *[]){depth, x_add(m, first, v)}));
	l_for(m, r, F_VECTOR, v, rv);
	return b;
}

/* The thread's first key or column of STEP number n. */
static Node *
first_of(Simt *f, Node *n)
{
	return x_add(f->o.m, x_muli(f->o.m, n, STEP), x_muli(f->o.m, f->tx, T));
}

/* Loops over the thread's T x T elements of each of `steps`. */
static Region *
elements(Simt *f, Region *r, int steps, Node **at)
{
	return unroll(f, unroll(f, unroll(f, r, steps, &at[0]), T, &at[1]), T, &at[2]);
}

/* acc[n][i][j] += a[i] * b[n][j] at one depth; rows: where a's T are, tile: b. */
static void
multiply(Simt *f, Region *r, const Contraction *c, Node *acc, int steps, Node *a, Node *tile,
	Node *depth)
{
	Module *m = f->o.m;
	Node *at[3], *b;

	r = unroll(f, r, steps, &at[0]);
	b = fragment(f, r, tile, depth, first_of(f, at[0]));
	r = unroll(f, unroll(f, r, T, &at[1]), T, &at[2]);
	l_store(m, r, acc, 3, at,
		multiply_add(m, c, at1(f, a, at[1]), at1(f, b, at[2]), l_load(m, acc, 3, at)));
}

/* A loop over the depths of a tile, as many unrolled as leave half of the registers free should a compiler
 * read all of their fragments first: of the T rows and `steps` times T keys or columns. */
static Region *
depths(Simt *f, Region *r, int steps, Node **depth)
{
	Module *m = f->o.m;
	int most = f->o.kb->s->mach->regs_thread / 2, words = dtypes[f->o.type].bits / 32, n = DEPTH;
	Node *outer, *inner;

	while (n > 1 && n * (1 + steps) * T * words > most)
		n /= 2;
	if (n == DEPTH)
		return unroll(f, r, n, depth);
	r = loop(f, r, F_SERIAL, x_idx(m, DEPTH / n), &outer);
	r = unroll(f, r, n, &inner);
	*depth = x_add(m, x_muli(m, outer, n), inner);
	return r;
}

static void
block_scores(Simt *f, Region *r)
{
	Module *m = f->o.m;
	Node *step, *kk, *a, *first, *at[3];
	Region *in = elements(f, r, f->cut.keys, at), *each;

	l_store(m, in, f->s, 3, at, x_int(m, f->o.type, 0));
	in = loop(f, r, F_SERIAL, x_idx(m, (f->cut.depth + DEPTH - 1) / DEPTH), &step);
	first = x_muli(m, step, DEPTH);
	if (!f->cut.resident)
		bring_queries(f, in, first, x_idx(m, 0));
	bring_keys(f, in, first);
	l_barrier(m, in);
	each = depths(f, in, f->cut.keys, &kk);
	a = fragment(f, each, f->queries, f->cut.resident ? x_add(m, first, kk) : kk,
		x_muli(m, f->ty, T));
	multiply(f, each, &f->o.a.qk, f->s, f->cut.keys, a, f->keys, kk);
	l_barrier(m, in);
}

/* Where the exponentials of the thread's rows lie at a key of the block. */
static Node *
turned(Simt *f, Node *key)
{
	Module *m = f->o.m;
	Node *group = x_add(m, f->ty, x_fdiv(m, key, x_idx(m, T)));

	return x_muli(m, x_mod(m, group, x_idx(m, ROWS / T)), T);
}

static void
block_values(Simt *f, Region *r)
{
	Module *m = f->o.m;
	Node *step, *kk, *a, *at[3], *first;
	Region *in = elements(f, r, f->cut.columns, at), *each;

	l_store(m, in, f->sums, 3, at, x_mul(m, l_load(m, f->sums, 3, at), at1(f, f->rise, at[1])));
	in = loop(f, r, F_SERIAL, x_idx(m, f->cut.keys * STEP / DEPTH), &step);
	first = x_muli(m, step, DEPTH);
	bring_values(f, in, first);
	l_barrier(m, in);
	each = depths(f, in, f->cut.columns, &kk);
	a = fragment(f, each, f->exps, x_add(m, first, kk), turned(f, x_add(m, first, kk)));
	multiply(f, each, &f->o.a.pv, f->sums, f->cut.columns, a, f->values, kk);
	l_barrier(m, in);
}

/* ---- softmax --------------------------------------------------------------------------------- */

/* Makes what the softmax is of from the sums in s, and stores scores that others read. */
static void
finish_scores(Simt *f, Region *r)
{
	Module *m = f->o.m;
	Node *at[3], *key;
	Region *in = elements(f, r, f->cut.keys, at);

	key = x_add(m, f->k0, x_add(m, first_of(f, at[0]), at[2]));
	l_store(m, in, f->s, 3, at, flash_score(&f->o, in, l_load(m, f->s, 3, at), row_at(f, at[1]),
		key));
}

/* Combines what row i has in s, and with the threads of the same rows. */
static Node *
fold_row(Simt *f, Region *r, Comb comb, int i)
{
	Module *m = f->o.m;
	Node *v = NULL, *row = x_idx(m, i), *s;
	int j;

	for (j = 0; j < T * f->cut.keys; j++) {
		s = l_load(m, f->s, 3, (Node *[]){x_idx(m, j / T), row, x_idx(m, j % T)});
		v = v ? x_comb(m, comb, v, s) : s;
	}
	l_store(m, r, f->part, 2, (Node *[]){row, f->tx}, legalize(m, v));
	return l_let(m, r, l_fold(m, comb, f->part, f->o.f.tid, 1, &row));
}

/* As long as a row's scores are all -inf nothing is subtracted from them: exponentials of 0. */
static void
block_softmax(Simt *f, Region *r)
{
	Module *m = f->o.m;
	Node *at[3], *old, *new, *shift, *low = x_comb_identity(m, COMB_MAX, f->o.type), *one, *rise;
	Region *in;
	int k;

	for (k = 0; k < T; k++) {
		one = x_idx(m, k);
		new = fold_row(f, r, COMB_MAX, k);
		old = l_let(m, r, at1(f, f->max, one));
		new = l_let(m, r, legalize(m, x_comb(m, COMB_MAX, old, new)));
		shift = l_let(m, r, x_select(m, x_eq(m, new, low), x_int(m, f->o.type, 0), new));
		at[1] = one;
		in = unroll(f, unroll(f, r, f->cut.keys, &at[0]), T, &at[2]);
		l_store(m, in, f->s, 3, at,
			kb_emit(f->o.kb, in, x1(m, O_EXP, x_sub(m, l_load(m, f->s, 3, at), shift))));
		rise = l_let(m, r, kb_emit(f->o.kb, r, x1(m, O_EXP, x_sub(m, old, shift))));
		set1(f, r, f->max, one, new);
		set1(f, r, f->rise, one, rise);
		set1(f, r, f->sum, one,
			x_add(m, x_mul(m, at1(f, f->sum, one), rise), fold_row(f, r, COMB_SUM, k)));
	}
}

/* The exponentials to shared memory, a vector of the thread's rows for each of its keys. */
static void
turn(Simt *f, Region *r)
{
	Module *m = f->o.m;
	Node *at[3], *key;
	Region *rv = region_new(m, NULL);

	r = unroll(f, unroll(f, r, f->cut.keys, &at[0]), T, &at[2]);
	at[1] = x_axis(m, x_idx(m, T));
	key = x_add(m, first_of(f, at[0]), at[2]);
	l_store(m, rv, f->exps, 2,
		(Node *[]){key, x_add(m, turned(f, first_of(f, at[0])), at[1])}, l_load(m, f->s, 3, at));
	l_for(m, r, F_VECTOR, at[1], rv);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static void
open_rows(Simt *f, Region *r)
{
	Module *m = f->o.m;
	Node *i, *zero = x_int(m, f->o.type, 0), *at[3];
	Region *in = unroll(f, r, T, &i);

	set1(f, in, f->max, i, x_comb_identity(m, COMB_MAX, f->o.type));
	set1(f, in, f->sum, i, zero);
	in = elements(f, r, f->cut.columns, at);
	l_store(m, in, f->sums, 3, at, zero);
}

/* The result at row i of the thread and a column. */
static Node *
result(Simt *f, Node *p, Node *i, Node *v, Node *column, Node **idx)
{
	Node *total = l_load(f->o.m, f->sums, 3, (Node *[]){p, i, v});

	return flash_result(&f->o, flash_reduced(&f->o, total, at1(f, f->sum, i), at1(f, f->max, i)),
		row_at(f, i), column, idx);
}

static void
close_rows(Simt *f, Region *r)
{
	Module *m = f->o.m;
	Node *out = f->o.a.out, *p, *i, *v = x_axis(m, x_idx(m, T)), *first, *idx[MAX_RANK], *e;
	int w = vector_of(dtypes[storage_type(dtype_of(out))].bits / 8);
	bool wide = w == T && in_vectors(m, kb_address(f->o.kb, out, out->in), f->o.column, T);
	Region *in = unroll(f, unroll(f, r, f->cut.columns, &p), T, &i), *ok = region_new(m, NULL),
		*rv = region_new(m, NULL), *put = wide ? rv : region_new(m, NULL);

	first = first_of(f, p);
	e = result(f, p, i, v, x_add(m, first, v), idx);
	kb_store(f->o.kb, put, out, idx, kb_emit(f->o.kb, put, e));
	if (!wide)
		l_when(m, rv, x_lt(m, x_add(m, first, v), f->o.column->in[0]), put, NULL);
	l_for(m, ok, wide ? F_VECTOR : F_UNROLL, v, rv);
	l_when(m, in, x_and(m, x_lt(m, row_at(f, i), f->o.extent), x_lt(m, first, f->o.column->in[0])),
		ok, NULL);
}

static void
bind_block(Simt *f, Region *r, Node *blocks)
{
	Module *m = f->o.m;

	f->q0 = l_let(m, r, x_muli(m, x_mod(m, f->o.f.bid, blocks), ROWS));
	f->tx = l_let(m, r, x_mod(m, f->o.f.tid, x_idx(m, GROUP)));
	f->ty = l_let(m, r, x_fdiv(m, f->o.f.tid, x_idx(m, GROUP)));
	flash_bind(&f->o, r, x_fdiv(m, f->o.f.bid, blocks));
}

static void
open_buffers(Simt *f)
{
	Module *m = f->o.m;
	int64_t depth = f->cut.resident ? (f->cut.depth + DEPTH - 1) / DEPTH * DEPTH : DEPTH;
	Node *ext[2] = {x_idx(m, T), x_idx(m, GROUP)};
	int keys = f->cut.keys * STEP;

	f->queries = shared(f, "qs", depth, ROWS + PAD);
	f->keys = shared(f, "ks", DEPTH, keys + PAD);
	f->exps = shared(f, "ps", keys, ROWS);
	f->values = shared(f, "vs", DEPTH, f->cut.columns * STEP + PAD);
	f->part = l_alloc(m, f->o.f.block, l_buffer(m, "part", f->o.type, SP_REG, 2, ext));
	f->s = private(f, "s", 3, f->cut.keys, T, T);
	f->sums = private(f, "sums", 3, f->cut.columns, T, T);
	f->max = private(f, "max", 1, 0, 0, T);
	f->sum = private(f, "sum", 1, 0, 0, T);
	f->rise = private(f, "rise", 1, 0, 0, T);
}

static void
emit(Simt *f)
{
	Module *m = f->o.m;
	Region *r = f->o.f.thread, *in = region_new(m, NULL);
	Node *block, *step, *end;

	open_buffers(f);
	open_rows(f, r);
	if (f->cut.resident) {
		Region *all = loop(f, r, F_SERIAL, x_idx(m, (f->cut.depth + DEPTH - 1) / DEPTH), &step);
		bring_queries(f, all, x_muli(m, step, DEPTH), x_muli(m, step, DEPTH));
	}
	f->o.n = kb_emit(f->o.kb, r, f->o.a.key->in[0]);
	end = flash_end(&f->o, r, f->q0, ROWS);
	block = x_axis(m, x_ceildiv(m, end, x_idx(m, f->cut.keys * STEP)));
	f->k0 = x_muli(m, block, f->cut.keys * STEP);
	block_scores(f, in);
	finish_scores(f, in);
	block_softmax(f, in);
	turn(f, in);
	block_values(f, in);
	l_for(m, r, F_SERIAL, block, in);
	close_rows(f, r);
}

Kernel *
attention_gpu(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Simt f = {0};
	Node *blocks;

	if (!attention_of(s, g->members[g->n - 1], &f.o.a) || !cut_of(&f.o.a, &f.cut))
		return NULL;
	flash_open(&f.o, &kb, g);
	blocks = x_ceildiv(m, f.o.extent, x_idx(m, ROWS));
	f.o.f = gpu_frame(&kb, x_mul(m, blocks, flash_batch(&f.o)), THREADS);
	bind_block(&f, f.o.f.thread, blocks);
	emit(&f);
	kb.k->flops = 2.0 * ROWS * (double)(f.cut.depth + f.cut.columns * STEP)
		* (double)const_or(f.o.a.key->in[0], 128);
	flash_close(&f.o);
	return gpu_close(&kb, &f.o.f,
		arena_printf(m->arena, "class=attention, block=[%d,%d,%d], thread=[%d,%d], threads=%d",
			ROWS,
			f.cut.keys * STEP, DEPTH, T, T * f.cut.columns, THREADS));
}
