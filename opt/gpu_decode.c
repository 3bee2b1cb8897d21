/*
 * GPU schedule of a part of the keys of an attention of few rows (decode.c): memory's speed over
 * keys and values, each read once for all rows of the block that share them.
 *
 * Three phases, between barriers. Scores: `deep` threads share a key's depth, in pieces of vectors
 * side by side, so that a warp reads whole sectors; of the queries, in shared memory, each
 * multiplies its places for all rows, and folds. Softmax: a warp a row, its scores read twice from
 * shared memory. Values: threads side by side have a key's columns in vectors, teams of them keys
 * in turn, whose sums are added in the teams' order. All loads of some keys are made before the
 * first is used.
 */
#include <stdlib.h>
#include "sched.h"
#include "gpu_part.h"

enum {
	THREADS = 128, PIECES = 4,   /* of a key a thread has, if threads are enough */
	KEYS_AHEAD = 2, VALUES_AHEAD = 4,   /* whose loads are under way */
	SHARED = 47 * 1024, GAP = 4,
};

typedef struct Dec {
	KB *kb;
	Module *m;
	Frame f;
	KeyParts p;
	int warp, warps;
	int vec, deep, pieces; /* of a key: elements of a vector, threads, vectors of a thread */
	int wide, across, teams;   /* of values: of a vector, threads of a key, keys at once */
	int64_t most;          /* keys of a part, at most, as buffers have them */
	Node *outer[MAX_RANK]; /* of the block: first value of each outer axis */
	Node *depth;           /* stands for the flat place in the depth */
	Node *count;           /* keys of the part */
	/* shared: [rows][depth]; [rows][keys]; the same; [teams][rows * columns] */
	Node *queries, *sums, *exps, *totals;
} Dec;

/* ---- places ---------------------------------------------------------------------------------- */

/* The block's value of outer axis i at a row; NULL: at the first. */
static Node *
outer_at(const Dec *q, int i, Node *row)
{
	Module *m = q->m;
	int64_t below = 1;
	int k;

	for (k = i + 1; k < q->p.nouter; k++)
		below *= q->p.run[k];
	if (!row || q->p.run[i] == 1)
		return q->outer[i];
	row = x_mod(m, x_fdiv(m, row, x_idx(m, below)), x_idx(m, q->p.run[i]));
	return x_add(m, q->outer[i], row);
}

/* e, over t's axes, at a row and, where t has one more axis or a sum, with `to` for it. */
static Node *
at(const Dec *q, Node *e, const Node *t, Node *row, const Node *from, Node *to)
{
	Map map = {0};
	int i;

	for (i = 0; i < q->p.nouter; i++)
		map_put(&map, t->in[i], outer_at(q, i, row));
	if (from)
		map_put(&map, from, to);
	e = subst(q->m, e, &map, false);
	map_free(&map);
	return e;
}

/* A factor of the scores at a row, key and place of the depth. */
static Node *
factor_at(const Dec *q, Node *e, Node *row, Node *key, Node *place)
{
	const Node *t = q->p.score, *red = q->p.products;
	Map map = {0};

	digits(q->m, &map, red->nin - 1, red->in, place);
	e = subst(q->m, e, &map, false);
	map_free(&map);
	return at(q, e, t, row, t->in[q->p.nouter], key);
}

static Node *
last_key(const Dec *q)
{
	return x_addi(q->m, q->count, -1);
}

static Region *
loop(Dec *q, Region *r, ForKind kind, Node *extent, Node **axis)
{
	Region *in = region_new(q->m, NULL);

	*axis = x_axis(q->m, extent);
	l_for(q->m, r, kind, *axis, in);
	return in;
}

static Region *
unroll(Dec *q, Region *r, int64_t n, Node **axis)
{
	return loop(q, r, F_UNROLL, x_idx(q->m, n), axis);
}

/* A loop over a vector of so many. */
static Region *
lanes(Dec *q, Region *r, int width, Node **v)
{
	return loop(q, r, width > 1 ? F_VECTOR : F_UNROLL, x_idx(q->m, width), v);
}

static Node *
registers(Dec *q, Region *r, const char *name, int64_t n, int64_t width)
{
	Node *ext[2] = {x_idx(q->m, n), x_idx(q->m, width)};

	return l_alloc(q->m, r, l_buffer(q->m, name, DT_F32, SP_REG, 2, ext));
}

static Node *
shared(Dec *q, const char *name, int64_t n, int64_t width)
{
	Node *ext[2] = {x_idx(q->m, n), x_idx(q->m, width)};

	return gpu_shared(q->kb, &q->f, name, DT_F32, 2, ext);
}

static Node *
load(const Dec *q, Node *buffer, Node *i, Node *k)
{
	return l_load(q->m, buffer, 2, (Node *[]){i, k});
}

static void
store(const Dec *q, Region *r, Node *buffer, Node *i, Node *k, Node *v)
{
	l_store(q->m, r, buffer, 2, (Node *[]){i, k}, v);
}

static void
add_product(const Dec *q, Region *r, Node *buffer, Node *i, Node *k, Node *a, Node *b)
{
	Node *sum = accumulate(q->kb, COMB_SUM, load(q, buffer, i, k), x_mul(q->m, a, b));

	store(q, r, buffer, i, k, sum);
}

/* Elements of e that travel together along the axis. */
static int
lanes_along(Dec *q, Node *e, Node *axis)
{
	int w;

	while (e->code == O_CAST)
		e = e->in[0];
	if (e->code != O_READ || is_packed(q->kb->s, e->in[0]))
		return 1;
	w = vector_of(dtypes[storage_type(dtype_of(e->in[0]))].bits / 8);
	return in_vectors(q->m, kb_address(q->kb, e->in[0], e->in + 1), axis, w) ? w : 1;
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* All rows' queries to shared memory, zeros past the depth. */
static void
bring_queries(Dec *q)
{
	Module *m = q->m;
	int64_t width = (int64_t)q->vec * q->deep * q->pieces, n = q->p.rows * width;
	Node *step, *unit, *row, *place, *e, *inside;
	Region *in = loop(q, q->f.thread, F_SERIAL, x_idx(m, (n + THREADS - 1) / THREADS), &step),
		*put = region_new(m, NULL);

	unit = l_let(m, in, x_add(m, x_muli(m, step, THREADS), q->f.tid));
	row = l_let(m, put, x_fdiv(m, unit, x_idx(m, width)));
	place = l_let(m, put, x_mod(m, unit, x_idx(m, width)));
	inside = x_lt(m, place, x_idx(m, q->p.depth));
	e = x_cast(m, DT_F32, factor_at(q, q->p.ea, row, NULL, place));
	e = x_select(m, inside, e, x_int(m, DT_F32, 0));
	store(q, put, q->queries, row, place, kb_emit(q->kb, put, e));
	gpu_where(m, in, x_lt(m, unit, x_idx(m, n)), put);
	l_barrier(m, q->f.thread);
}

/* The key's vector number `piece` of the thread at `lane` to registers; zeros past the depth. */
static void
load_key(Dec *q, Region *r, Node *keys, Node *slot, Node *key, Node *piece, Node *lane)
{
	Module *m = q->m;
	Node *v, *first, *place, *e;
	Region *in = lanes(q, r, q->vec, &v);

	first = x_muli(m, x_add(m, x_muli(m, piece, q->deep), lane), q->vec);
	place = x_add(m, first, v);
	e = x_cast(m, DT_F32, factor_at(q, q->p.eb, NULL, key, place));
	if (q->p.depth % (q->vec * q->deep * q->pieces))
		e = x_select(m, x_lt(m, first, x_idx(m, q->p.depth)), e, x_int(m, DT_F32, 0));
	store(q, in, keys, slot, x_add(m, x_muli(m, piece, q->vec), v), kb_emit(q->kb, in, e));
}

/* sum[u, row] += keys[u] * queries[row], of the thread's places */
static void
multiply_keys(Dec *q, Region *r, Node *keys, Node *acc, Node *lane)
{
	Module *m = q->m;
	Node *piece, *row, *u, *v, *place, *own = registers(q, r, "q", 1, q->vec),
		*zero = x_idx(m, 0);
	Region *rr = unroll(q, unroll(q, r, q->pieces, &piece), q->p.rows, &row), *in;

	place = x_muli(m, x_add(m, x_muli(m, piece, q->deep), lane), q->vec);
	in = lanes(q, rr, q->vec, &v);
	store(q, in, own, zero, v, load(q, q->queries, row, x_add(m, place, v)));
	in = unroll(q, unroll(q, rr, KEYS_AHEAD, &u), q->vec, &v);
	add_product(q, in, acc, x_add(m, x_muli(m, u, q->p.rows), row), lane, load(q, own, zero, v),
		load(q, keys, u, x_add(m, x_muli(m, piece, q->vec), v)));
}

/* The sums of products of all keys and rows, to shared memory. */
static void
sum_keys(Dec *q)
{
	Module *m = q->m;
	int at_once = THREADS / q->deep, i;
	int64_t all = (int64_t)at_once * KEYS_AHEAD;
	Node *step, *u, *piece, *key, *lane, *own, *slot, *keys, *acc, *v;
	Region *in, *r = q->f.thread, *ru, *put;

	lane = l_let(m, r, x_mod(m, q->f.tid, x_idx(m, q->deep)));
	own = l_let(m, r, x_fdiv(m, q->f.tid, x_idx(m, q->deep)));
	keys = registers(q, r, "k", KEYS_AHEAD, (int64_t)q->pieces * q->vec);
	acc = registers(q, q->f.block, "acc", (int64_t)KEYS_AHEAD * q->p.rows, q->deep);
	in = loop(q, r, F_SERIAL, x_ceildiv(m, q->count, x_idx(m, all)), &step);
	ru = unroll(q, in, KEYS_AHEAD, &u);
	key = x_add(m, x_add(m, x_muli(m, step, all), x_muli(m, u, at_once)), own);
	key = l_let(m, ru, x_min(m, key, last_key(q)));
	ru = unroll(q, ru, q->pieces, &piece);
	load_key(q, ru, keys, u, key, piece, lane);
	ru = unroll(q, in, (int64_t)KEYS_AHEAD * q->p.rows, &slot);
	store(q, ru, acc, slot, lane, x_int(m, DT_F32, 0));
	multiply_keys(q, in, keys, acc, lane);
	for (i = 0; i < KEYS_AHEAD * q->p.rows; i++) {
		slot = x_idx(m, i);
		v = l_let(m, in, l_fold(m, COMB_SUM, acc, q->f.tid, 1, &slot));
		put = region_new(m, NULL);
		key = x_add(m, x_addi(m, x_muli(m, step, all), i / q->p.rows * at_once), own);
		store(q, put, q->sums, x_idx(m, i % q->p.rows), key, v);
		l_when(m, in, x_eq(m, lane, x_idx(m, 0)), put, NULL);
	}
	l_barrier(m, r);
}

/* ---- softmax --------------------------------------------------------------------------------- */

/* A warp's loop over the part's keys, and its lanes' accumulator folded. */
typedef struct Row { Node *key, *acc, *lane; Region *in; Comb comb; } Row;

static Row
open_pass(Dec *q, Comb comb, Node *lane)
{
	Module *m = q->m;
	Region *r = q->f.thread;
	Node *step, *zero = x_idx(m, 0);
	Row p = {.comb = comb, .lane = lane, .acc = registers(q, q->f.block, "row", 1, q->warp)};

	store(q, r, p.acc, zero, lane, x_comb_identity(m, comb, DT_F32));
	p.in = loop(q, r, F_SERIAL, x_ceildiv(m, q->count, x_idx(m, q->warp)), &step);
	p.key = l_let(m, p.in, x_add(m, x_muli(m, step, q->warp), lane));
	return p;
}

static Node *
close_pass(Dec *q, Row *p, Node *v)
{
	Module *m = q->m;
	Node *zero = x_idx(m, 0);

	store(q, p->in, p->acc, zero, p->lane,
		accumulate(q->kb, p->comb, load(q, p->acc, zero, p->lane), v));
	return l_let(m, q->f.thread, l_fold(m, p->comb, p->acc, q->f.tid, 1, &zero));
}

static void
store_statistic(Dec *q, Region *r, Node *t, Node *row, Node *v)
{
	Node *idx[MAX_RANK];
	int i;

	for (i = 0; i < q->p.nouter; i++)
		idx[i] = outer_at(q, i, row);
	kb_store(q->kb, r, t, idx, v);
}

/* Row number `row` of the warp's: its scores, their maximum, the exponentials, their sum. Rows past
 * the last one compute that again, for themselves. */
static void
soften_row(Dec *q, Node *row, Node *lane)
{
	Module *m = q->m;
	Node *t = q->p.score, *own = row, *e, *max, *sum, *shift,
		*low = x_comb_identity(m, COMB_MAX, DT_F32);
	Region *r = q->f.thread, *put = region_new(m, NULL);
	Row p;

	if (q->p.rows % q->warps)
		own = l_let(m, r, x_min(m, row, x_idx(m, q->p.rows - 1)));
	p = open_pass(q, COMB_MAX, lane);
	e = x_cast(m, q->p.products->type->dtype, load(q, q->sums, own, p.key));
	e = subst1(m, t->in[t->nin - 1], q->p.products, e);
	e = l_let(m, p.in, kb_emit(q->kb, p.in, at(q, e, t, own, t->in[q->p.nouter], p.key)));
	store(q, p.in, q->exps, row, p.key, e);
	max = close_pass(q, &p, e);
	shift = l_let(m, r, x_select(m, x_eq(m, max, low), x_int(m, DT_F32, 0), max));
	p = open_pass(q, COMB_SUM, lane);
	e = x1(m, O_EXP, x_sub(m, load(q, q->exps, row, p.key), shift));
	e = l_let(m, p.in, kb_emit(q->kb, p.in, e));
	store(q, p.in, q->exps, row, p.key, e);
	sum = close_pass(q, &p, e);
	store_statistic(q, put, q->p.max, own, max);
	store_statistic(q, put, q->p.sum, own, sum);
	own = x_and(m, x_eq(m, lane, x_idx(m, 0)), x_lt(m, row, x_idx(m, q->p.rows)));
	l_when(m, r, own, put, NULL);
}

static void
soften(Dec *q)
{
	Module *m = q->m;
	Node *lane = l_let(m, q->f.thread, x_mod(m, q->f.tid, x_idx(m, q->warp))),
		*own = l_let(m, q->f.thread, x_fdiv(m, q->f.tid, x_idx(m, q->warp)));
	int i;

	for (i = 0; i < q->p.rows; i += q->warps)
		soften_row(q, l_let(m, q->f.thread, x_addi(m, own, i)), lane);
	l_barrier(m, q->f.thread);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void
load_value(Dec *q, Region *r, Node *values, Node *slot, Node *key, Node *inside, Node *column)
{
	Module *m = q->m;
	const KeyParts *p = &q->p;
	Node *v, *e;
	Region *in = lanes(q, r, q->wide, &v);

	e = subst1(m, p->value, p->column, x_add(m, column, v));
	e = at(q, e, p->total, NULL, p->key, key);
	e = x_select(m, inside, x_cast(m, DT_F32, e), x_int(m, DT_F32, 0));
	store(q, in, values, slot, v, kb_emit(q->kb, in, e));
}

/* The team's sums of all rows and of the thread's columns, to shared memory. */
static void
sum_values(Dec *q)
{
	Module *m = q->m;
	Node *step, *u, *row, *v, *key, *inside, *team, *column, *values, *acc, *kept;
	Region *r = q->f.thread, *in, *ru, *put = region_new(m, NULL), *rv;

	team = l_let(m, r, x_fdiv(m, q->f.tid, x_idx(m, q->across)));
	column = l_let(m, r, x_muli(m, x_mod(m, q->f.tid, x_idx(m, q->across)), q->wide));
	values = registers(q, r, "v", VALUES_AHEAD, q->wide);
	kept = registers(q, r, "p", VALUES_AHEAD, 1);
	acc = registers(q, r, "sum", q->p.rows, q->wide);
	rv = unroll(q, unroll(q, r, q->p.rows, &row), q->wide, &v);
	store(q, rv, acc, row, v, x_int(m, DT_F32, 0));
	key = x_ceildiv(m, q->count, x_idx(m, (int64_t)VALUES_AHEAD * q->teams));
	in = loop(q, r, F_SERIAL, key, &step);
	ru = unroll(q, in, VALUES_AHEAD, &u);
	key = x_add(m, x_muli(m, x_add(m, x_muli(m, step, VALUES_AHEAD), u), q->teams), team);
	inside = l_let(m, ru, x_lt(m, key, q->count));
	key = l_let(m, ru, x_min(m, key, last_key(q)));
	load_value(q, ru, values, u, key, inside, column);
	ru = unroll(q, in, VALUES_AHEAD, &u);
	key = x_add(m, x_muli(m, x_add(m, x_muli(m, step, VALUES_AHEAD), u), q->teams), team);
	key = l_let(m, ru, x_min(m, key, last_key(q)));
	rv = unroll(q, ru, q->p.rows, &row);
	store(q, rv, kept, u, x_idx(m, 0), load(q, q->exps, row, key));
	rv = unroll(q, rv, q->wide, &v);
	add_product(q, rv, acc, row, v, load(q, kept, u, x_idx(m, 0)), load(q, values, u, v));
	rv = lanes(q, unroll(q, put, q->p.rows, &row), q->wide, &v);
	column = x_add(m, x_add(m, x_muli(m, row, q->p.columns), column), v);
	store(q, rv, q->totals, team, column, load(q, acc, row, v));
	gpu_where(m, r, x_lt(m, team, x_idx(m, q->teams)), put);
	l_barrier(m, r);
}

/* Adds the teams' sums, neighbours by neighbours. */
static void
add_teams(Dec *q)
{
	Module *m = q->m;
	int64_t n = q->p.rows * q->p.columns;
	Node *step, *unit, *e = NULL, *idx[MAX_RANK];
	Region *in = loop(q, q->f.thread, F_SERIAL, x_idx(m, (n + THREADS - 1) / THREADS), &step),
		*put = region_new(m, NULL);
	int i;

	unit = l_let(m, in, x_add(m, x_muli(m, step, THREADS), q->f.tid));
	for (i = 0; i < q->teams; i++) {
		Node *part = load(q, q->totals, x_idx(m, i), unit);
		e = e ? x_add(m, e, part) : part;
	}
	for (i = 0; i < q->p.nouter; i++)
		idx[i] = outer_at(q, i, x_fdiv(m, unit, x_idx(m, q->p.columns)));
	idx[i] = x_mod(m, unit, x_idx(m, q->p.columns));
	kb_store(q->kb, put, q->p.total, idx, kb_emit(q->kb, put, e));
	gpu_where(m, in, x_lt(m, unit, x_idx(m, n)), put);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* How the threads share keys and values. */
static bool
choose_shape(Dec *q)
{
	const KeyParts *p = &q->p;
	int64_t vectors;

	q->warp = q->kb->s->mach->warp;
	q->warps = THREADS / q->warp;
	q->depth = x_axis(q->m, x_idx(q->m, p->depth));
	q->vec = lanes_along(q, factor_at(q, p->eb, NULL, x_axis(q->m, p->key->in[0]), q->depth),
		q->depth);
	vectors = (p->depth + q->vec - 1) / q->vec;
	for (q->deep = 1; q->deep < q->warp && (int64_t)q->deep * PIECES < vectors;)
		q->deep *= 2;
	q->pieces = (int)((vectors + q->deep - 1) / q->deep);
	q->wide = lanes_along(q, at(q, p->value, p->total, NULL, NULL, NULL), p->column);
	q->across = (int)((p->columns + q->wide - 1) / q->wide);
	q->teams = q->across <= THREADS ? THREADS / q->across : 0;
	q->most = p->key->in[0]->hi;
	if (q->most <= 0 || q->most > SHARED || !q->teams)
		return false;
	vectors = (int64_t)THREADS / q->deep * KEYS_AHEAD;   /* keys of a step */
	vectors = vectors > q->warp ? vectors : q->warp;
	q->most = (q->most + vectors - 1) / vectors * vectors;
	return true;
}

static int
row_slots(const Dec *q)
{
	return (q->p.rows + q->warps - 1) / q->warps * q->warps;
}

static Node *
blocks_along(const Dec *q, int i)
{
	return x_fdiv(q->m, dim_of(q->p.total, i), x_idx(q->m, q->p.run[i]));
}

/* The outer axes' first values, as digits of the block's number, the parts fastest. */
static Node *
bind_outer(Dec *q, Region *r, Node *number)
{
	Module *m = q->m;
	Node *blocks = x_idx(m, 1), *n, *digit;
	int i;

	for (i = q->p.nouter; i-- > 0;) {
		n = blocks_along(q, i);
		blocks = x_mul(m, blocks, n);
		if (!number)
			continue;
		digit = x_mod(m, number, n);
		if (!is_intv(n, 1))
			digit = l_let(m, r, digit);
		q->outer[i] = x_muli(m, digit, q->p.run[i]);
		number = x_fdiv(m, number, n);
	}
	return blocks;
}

Kernel *
decode_gpu(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Dec q = {.kb = &kb, .m = m};
	int i;

	if (!key_parts_group(m, g, &q.p))
		return NULL;
	for (i = 0; i < q.p.nouter; i++)
		q.outer[i] = x_muli(m, x_axis(m, blocks_along(&q, i)), q.p.run[i]);
	if (!choose_shape(&q))
		return NULL;
	q.f = gpu_frame(&kb, bind_outer(&q, NULL, NULL), THREADS);
	bind_outer(&q, q.f.thread, q.f.bid);
	q.count = at(&q, q.p.count, q.p.total, NULL, NULL, NULL);
	q.count = l_let(m, q.f.thread, kb_emit(&kb, q.f.thread, q.count));
	q.queries = shared(&q, "qs", q.p.rows, (int64_t)q.vec * q.deep * q.pieces);
	q.sums = shared(&q, "ss", q.p.rows, q.most + GAP);
	q.exps = shared(&q, "ps", row_slots(&q), q.most + GAP);
	q.totals = shared(&q, "os", q.teams, q.p.rows * q.p.columns);
	if (kb.k->shared > SHARED)
		return NULL;
	bring_queries(&q);
	sum_keys(&q);
	soften(&q);
	sum_values(&q);
	add_teams(&q);
	kb.k->flops = 2.0 * q.p.rows * (double)(q.p.depth + q.p.columns) * (double)q.most;
	return gpu_close(&kb, &q.f, arena_printf(m->arena,
		"class=decode, threads=%d, rows=%d, deep=%d, lanes=[%d,%d], keys=%d", THREADS,
			q.p.rows, q.deep, q.vec,
		q.wide, (int)q.most));
}
