/*
 * GPU schedule of few elements with sums of some length across their rows (the parts of an
 * attention combined): a thread an element would walk down them alone.
 *
 *	t[.., c] = f(sum (s) e(s, c), .., max (s) g(s), ..)
 *
 * A block has a row's columns: threads beside each other have vectors of them, teams of such
 * threads steps of the sums in turn, whose results are combined in the teams' order. What does not
 * depend on the column all of the block's threads reduce first. Steps of the teams are loaded
 * together.
 */
#include <stdlib.h>
#include "sched.h"
#include "gpu_part.h"

enum { THREADS = 128, AHEAD = 4, LANES = 4, MIN_STEPS = 2 };

typedef struct Columns {
	KB *kb;
	Module *m;
	Frame f;
	Node *t, *column;
	int wide, across,
		teams;   /* elements of a vector; threads of a row's columns; teams of these */
	Node *team, *first, *lane; /* the thread's team and first column; an axis over its vector */
	Map at;                    /* the other axes -> the block's row */
	Map done, values;          /* reductions -> what they are; -> their buffer, by columns */
} Columns;

/* ---- the form -------------------------------------------------------------------------------- */

/* Is each reduction computed wherever the element is? Choices hide only those that their conditions
 * have. */
static bool
unguarded(Node **list, int n)
{
	int i, k;

	for (i = 0; i < n; i++)
		for (k = 0; list[i]->code == O_SELECT && k < n; k++)
			if (list[k]->code == O_REDUCE && !contains(list[i]->in[0], list[k])
			 && (contains(list[i]->in[1], list[k]) || contains(list[i]->in[2],
				list[k])))
				return false;
	return true;
}

/* Are the body's loops reductions along an axis, those by columns within no other, one of some
 * length? */
static bool
reduces_columns(Module *m, Node *t, const Node *column)
{
	Node **list;
	bool ok, some = false;
	int i, k, n;

	list = topo_scalar(t->in[t->nin - 1], &n);
	ok = unguarded(list, n);
	for (i = 0; i < n && ok; i++) {
		ok = list[i]->code != O_ITER && (list[i]->code != O_REDUCE || list[i]->nin == 2);
		if (list[i]->code != O_REDUCE || !contains(list[i], column))
			continue;
		some |= likely_extent(m, list[i]->in[0]->in[0]) >= MIN_STEPS;
		for (k = 0; k < n; k++)
			ok &= k == i || list[k]->code != O_REDUCE || !contains(list[k], list[i]);
	}
	free(list);
	return ok && some;
}

static DType
type_of(const Node *red)
{
	return dt_small(red->type->dtype) ? DT_F32 : storage_type(red->type->dtype);
}

/* The contiguous axis, if its extent is a number that a block's threads have in vectors. */
static bool
find_columns(Columns *q, Sched *s)
{
	const Storage *st = storage_of(s, q->t);
	int64_t n;

	if (rank_of(q->t) == 0)
		return false;
	q->column = q->t->in[st->order[rank_of(q->t) - 1]];
	if (!is_int(q->column->in[0], &n) || n < 2)
		return false;
	q->wide = n % LANES == 0 ? LANES : 1;
	q->across = (int)(n / q->wide > THREADS ? THREADS + 1 : n / q->wide);
	q->teams = THREADS / q->across;
	return q->teams >= 2;
}

/* ---- reductions ------------------------------------------------------------------------------ */

static Node *
bound_here(Columns *q, Node *e)
{
	return subst(q->m, subst(q->m, e, &q->done, false), &q->at, false);
}

/* What does not depend on the column, by all threads. */
static Node *
reduce_row(Columns *q, Node *red)
{
	Module *m = q->m;
	DType d = type_of(red);
	Comb c = (Comb)red->n;
	Region *r = q->f.thread, *in = region_new(m, NULL), *some = region_new(m, NULL);
	Node *ext = x_idx(m, THREADS), *acc = l_alloc(m, q->f.block, l_buffer(m, "part", d, SP_REG,
		1, &ext)), *step,
		*n = kb_emit(q->kb, r, red->in[0]->in[0]), *k, *e;

	l_store(m, r, acc, 1, &q->f.tid, x_comb_identity(m, c, d));
	step = x_axis(m, x_ceildiv(m, n, ext));
	k = l_let(m, in, x_add(m, x_muli(m, step, THREADS), q->f.tid));
	e = kb_emit(q->kb, some, subst1(m, bound_here(q, red->in[1]), red->in[0], k));
	l_store(m, some, acc, 1, &q->f.tid, accumulate(q->kb, c, l_load(m, acc, 1, &q->f.tid), e));
	l_when(m, in, x_lt(m, k, n), some, NULL);
	l_for(m, r, F_SERIAL, step, in);
	return x_cast(m, red->type->dtype, l_let(m, r, l_fold(m, c, acc, q->f.tid, 0, NULL)));
}

/* A loop over the thread's vector, for statements of its elements. */
static Region *
lanes(Columns *q, Region *r, Node **v)
{
	Region *in = region_new(q->m, NULL);

	*v = x_axis(q->m, x_idx(q->m, q->wide));
	l_for(q->m, r, q->wide > 1 ? F_VECTOR : F_UNROLL, *v, in);
	return in;
}

/* The team's share of it, to registers acc. */
static void
share_columns(Columns *q, Node *red, Node *acc)
{
	Module *m = q->m;
	Comb c = (Comb)red->n;
	DType d = type_of(red);
	Region *r = q->f.thread, *in = region_new(m, NULL), *ru = region_new(m, NULL), *rv;
	Node *n = kb_emit(q->kb, r, red->in[0]->in[0]), *step, *u, *v, *k, *inside, *e,
		*ext[2] = {x_idx(m, AHEAD), x_idx(m, q->wide)},
		*loads = l_alloc(m, r, l_buffer(m, "e", d, SP_REG, 2, ext));

	step = x_axis(m, x_ceildiv(m, n, x_idx(m, (int64_t)AHEAD * q->teams)));
	u = x_axis(m, x_idx(m, AHEAD));
	k = l_let(m, ru, x_add(m, x_muli(m, x_add(m, x_muli(m, step, AHEAD), u), q->teams),
		q->team));
	inside = l_let(m, ru, x_lt(m, k, n));
	rv = lanes(q, ru, &v);
	e = subst1(m, subst1(m, bound_here(q, red->in[1]), red->in[0], k), q->column, x_add(m,
		q->first, v));
	e = x_select(m, inside, x_cast(m, d, e), x_comb_identity(m, c, d));
	l_store(m, rv, loads, 2, (Node *[]){u, v}, kb_emit(q->kb, rv, e));
	l_for(m, in, F_UNROLL, u, ru);
	u = x_axis(m, x_idx(m, AHEAD));
	ru = region_new(m, NULL);
	rv = lanes(q, ru, &v);
	l_store(m, rv, acc, 1, &v,
		legalize(m, x_comb(m, c, l_load(m, acc, 1, &v), l_load(m, loads, 2, (Node *[]){u,
			v}))));
	l_for(m, in, F_UNROLL, u, ru);
	l_for(m, r, F_SERIAL, step, in);
}

/* What depends on the column, by teams; each thread then has that of its columns in the registers
 * returned. */
static Node *
reduce_columns(Columns *q, Node *red)
{
	Module *m = q->m;
	Comb c = (Comb)red->n;
	DType d = type_of(red);
	Region *r = q->f.thread, *put = region_new(m, NULL), *rv;
	Node *width = x_idx(m, q->wide), *acc = l_alloc(m, r, l_buffer(m, "acc", d, SP_REG, 1,
		&width)), *v, *e = NULL,
		*all = gpu_shared(q->kb, &q->f, "teams", d, 2,
			(Node *[]){x_idx(m, q->teams), q->column->in[0]});
	int i;

	rv = lanes(q, r, &v);
	l_store(m, rv, acc, 1, &v, x_comb_identity(m, c, d));
	share_columns(q, red, acc);
	rv = lanes(q, put, &v);
	l_store(m, rv, all, 2, (Node *[]){q->team, x_add(m, q->first, v)}, l_load(m, acc, 1, &v));
	gpu_where(m, r, x_lt(m, q->team, x_idx(m, q->teams)), put);
	l_barrier(m, r);
	rv = lanes(q, r, &v);
	for (i = 0; i < q->teams; i++) {
		Node *part = l_load(m, all, 2, (Node *[]){x_idx(m, i), x_add(m, q->first, v)});
		e = e ? x_comb(m, c, e, part) : part;
	}
	l_store(m, rv, acc, 1, &v, legalize(m, e));
	return acc;
}

/* All reductions, operands first. */
static void
reduce_all(Columns *q)
{
	Node **list, *red;
	int i, n;

	list = topo_scalar(q->t->in[q->t->nin - 1], &n);
	for (i = 0; i < n; i++) {
		red = list[i];
		if (red->code != O_REDUCE)
			continue;
		if (contains(red, q->column))
			map_put(&q->values, red, reduce_columns(q, red));
		else
			map_put(&q->done, red, reduce_row(q, red));
	}
	for (i = 0; i < n; i++)
		if (map_get(&q->values, list[i]))
			map_put(&q->done, list[i], x_cast(q->m, list[i]->type->dtype,
				l_load(q->m, map_get(&q->values, list[i]), 1, &q->lane)));
	free(list);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* The block's row: of the axes but the columns, the last one fastest. */
static Node *
bind_row(Columns *q, Node *number)
{
	Module *m = q->m;
	Node *blocks = x_idx(m, 1), *axis;
	int i;

	for (i = rank_of(q->t); i-- > 0;) {
		axis = q->t->in[i];
		if (axis == q->column)
			continue;
		if (number) {
			map_put(&q->at, axis, is_intv(axis->in[0], 1) ? x_idx(m, 0)
				: l_let(m, q->f.thread, x_mod(m, number, axis->in[0])));
			number = x_fdiv(m, number, axis->in[0]);
		}
		blocks = x_mul(m, blocks, axis->in[0]);
	}
	return blocks;
}

static void
store_columns(Columns *q)
{
	Module *m = q->m;
	Node *t = q->t, *idx[MAX_RANK], *own = x_add(m, q->first, q->lane), *e;
	Region *put = region_new(m, NULL), *rv = region_new(m, NULL);
	int i;

	for (i = 0; i < rank_of(t); i++)
		idx[i] = t->in[i] == q->column ? own : map_get(&q->at, t->in[i]);
	e = subst1(m, bound_here(q, t->in[t->nin - 1]), q->column, own);
	kb_store(q->kb, rv, t, idx, kb_emit(q->kb, rv, e));
	l_for(m, put, q->wide > 1 ? F_VECTOR : F_UNROLL, q->lane, rv);
	l_when(m, q->f.thread, x_eq(m, q->team, x_idx(m, 0)), put, NULL);
}

Kernel *
columns_gpu(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Columns q = {.kb = &kb, .m = m, .t = g->members[0]};

	if (g->n > 1 || !find_columns(&q, s) || !reduces_columns(m, q.t, q.column))
		return NULL;
	q.f = gpu_frame(&kb, bind_row(&q, NULL), THREADS);
	bind_row(&q, q.f.bid);
	q.team = l_let(m, q.f.thread, x_fdiv(m, q.f.tid, x_idx(m, q.across)));
	q.first = l_let(m, q.f.thread, x_muli(m, x_mod(m, q.f.tid, x_idx(m, q.across)), q.wide));
	q.lane = x_axis(m, x_idx(m, q.wide));
	reduce_all(&q);
	store_columns(&q);
	kb.k->flops = THREADS * 16.0;
	map_free(&q.at);
	map_free(&q.done);
	map_free(&q.values);
	return gpu_close(&kb, &q.f, arena_printf(m->arena,
		"class=columns, threads=%d, teams=%d, lanes=%d", THREADS, q.teams, q.wide));
}
