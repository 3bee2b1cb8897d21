/*
 * Scatter: stores at indices that are read, in the order of the updates, since several may go to one
 * place. Updates that differ in an axis which is itself an index of the result go to different places.
 *
 * On a GPU those axes are columns that the threads share out. The rest of the updates, a column's
 * rows, goes by chunks of one a thread: each counts those before it in the chunk that have its
 * place, and takes its turn after so many others. The result is that of one after the other; where
 * places differ, as they do most often, a chunk is one turn.
 */
#include "sched.h"

/* Of a block; of its columns at most: one warp's request. */
enum { THREADS = 256, COLUMNS = 32 };

typedef struct Scatter {
	KB kb;
	Node *t;
	int naxes, rank;
	Map at;                /* axes of the updates -> their values */
} Scatter;

/* Is the axis itself an index of the result? */
static bool
is_index(const Scatter *q, const Node *axis)
{
	const Node *e;
	int i;

	for (i = 0; i < q->rank; i++) {
		for (e = q->t->in[1 + q->naxes + i]; e->code == O_CAST; e = e->in[0])
			;
		if (e == axis)
			return true;
	}
	return false;
}

/* The update's place in the result's memory. */
static Node *
place_of(Scatter *q, Region *then)
{
	Module *m = q->kb.m;
	Node *t = q->t, *idx[MAX_RANK];
	int i;

	for (i = 0; i < q->rank; i++)
		idx[i] = kb_emit(&q->kb, then,
			x_cast(m, DT_INDEX, subst(m, t->in[1 + q->naxes + i], &q->at, false)));
	return kb_address(&q->kb, t, idx);
}

static Node *
condition(Scatter *q, Region *in)
{
	return kb_emit(&q->kb, in, subst(q->kb.m, q->t->in[q->t->nin - 1], &q->at, false));
}

/* Stores the update, or combines it with what is there. */
static void
update(Scatter *q, Region *in, Node *addr)
{
	Module *m = q->kb.m;
	Node *t = q->t, *buffer = kb_buffer(&q->kb, t, true), *value, *old;

	value = kb_emit(&q->kb, in, subst(m, t->in[t->nin - 2], &q->at, false));
	if (t->n != COMB_SET) {
		old = from_storage(m, dtype_of(t), l_load(m, buffer, 1, &addr));
		value = x_comb(m, (Comb)t->n, old, value);
	}
	l_store(m, in, buffer, 1, &addr, legalize(m, to_storage(m, value)));
}

/* Loops over the axes that have no value yet, around the update. */
static void
updates(Scatter *q, Region *in)
{
	Module *m = q->kb.m;
	Node *own, *axis, *cond;
	Region *body, *then = region_new(m, NULL);
	int i;

	for (i = 0; i < q->naxes; i++) {
		own = q->t->in[1 + i];
		if (map_get(&q->at, own))
			continue;
		axis = x_axis(m, own->in[0]);
		map_put(&q->at, own, axis);
		body = region_new(m, NULL);
		l_for(m, in, F_SERIAL, axis, body);
		in = body;
	}
	cond = condition(q, in);
	update(q, then, place_of(q, then));
	l_when(m, in, cond, then, NULL);
}

/* ---- GPU ------------------------------------------------------------------------------------- */

/* A thread's share of a chunk: one update of one column. */
typedef struct Turn {
	Scatter *q;
	Frame f;
	int width, rows;       /* of a chunk: columns, updates of each */
	Node *col, *row;       /* the thread's, within the chunk */
	Node *inside;          /* has it an update? */
	Node *place;           /* cell: where its update goes; -1: nowhere */
	Node *places;          /* those of the chunk, shared, [rows][width] */
	Node *before;          /* cell: how many earlier updates of the chunk go there */
} Turn;

static Node *
cell(Module *m, Region *r, const char *name, DType d)
{
	Node *one = x_idx(m, 1);

	return l_alloc(m, r, l_buffer(m, name, d, SP_REG, 1, &one));
}

static void
set(Module *m, Region *r, Node *cell, Node *v)
{
	Node *zero = x_idx(m, 0);

	l_store(m, r, cell, 1, &zero, v);
}

static Node *
get(Module *m, Node *cell)
{
	Node *zero = x_idx(m, 0);

	return l_load(m, cell, 1, &zero);
}

/* Finds the thread's place and tells the others. */
static void
announce(Turn *t, Region *r)
{
	Module *m = t->q->kb.m;
	Node *none = x_int(m, DT_I64, -1), *cond;
	Region *in = region_new(m, NULL), *then = region_new(m, NULL);

	set(m, r, t->place, none);
	cond = condition(t->q, in);
	set(m, then, t->place, x_cast(m, DT_I64, place_of(t->q, then)));
	l_when(m, in, cond, then, NULL);
	l_when(m, r, t->inside, in, NULL);
	l_store(m, r, t->places, 2, (Node *[]){t->row, t->col}, get(m, t->place));
	l_barrier(m, r);
}

/* How many go where this one goes, before it; the most of any in the chunk. */
static Node *
count_before(Turn *t, Region *r)
{
	Module *m = t->q->kb.m;
	Node *j = x_axis(m, t->row), *same, *ext = x_idx(m, THREADS), *part, *most;
	Region *in = region_new(m, NULL);

	set(m, r, t->before, x_int(m, DT_I32, 0));
	same = x_eq(m, l_load(m, t->places, 2, (Node *[]){j, t->col}), get(m, t->place));
	set(m, in, t->before, x_add(m, get(m, t->before),
		x_select(m, same, x_int(m, DT_I32, 1), x_int(m, DT_I32, 0))));
	l_for(m, r, F_SERIAL, j, in);
	part = l_alloc(m, t->f.block, l_buffer(m, "most", DT_I32, SP_REG, 1, &ext));
	l_store(m, r, part, 1, &t->f.tid, x_select(m, x_lt(m, get(m, t->place), x_int(m, DT_I64, 0)),
		x_int(m, DT_I32, 0), get(m, t->before)));
	most = l_let(m, r, l_fold(m, COMB_MAX, part, t->f.tid, 0, &t->f.tid));
	return l_let(m, r, x_cast(m, DT_INDEX, most));
}

static void
take_turns(Turn *t, Region *r, Node *most)
{
	Module *m = t->q->kb.m;
	Node *turn, *mine;
	Region *in = region_new(m, NULL), *then = region_new(m, NULL);

	turn = x_axis(m, x_addi(m, most, 1));
	mine = x_and(m, x_le(m, x_int(m, DT_I64, 0), get(m, t->place)),
		x_eq(m, x_cast(m, DT_INDEX, get(m, t->before)), turn));
	update(t->q, then, l_let(m, then, x_cast(m, DT_INDEX, get(m, t->place))));
	l_when(m, in, mine, then, NULL);
	l_barrier(m, in);
	l_for(m, r, F_SERIAL, turn, in);
}

static Kernel *
on_gpu(Scatter *q)
{
	Module *m = q->kb.m;
	Node *cols[MAX_RANK * 2], *rows[MAX_RANK * 2], *n, *u, *chunk, *col, *row;
	Turn t = {.q = q, .width = 1};
	Region *in = region_new(m, NULL);
	int i, nc = 0, nr = 0;

	for (i = 0; i < q->naxes; i++)
		*(is_index(q, q->t->in[1 + i]) ? &cols[nc++] : &rows[nr++]) = q->t->in[1 + i];
	n = axes_product(m, nc, cols);
	u = axes_product(m, nr, rows);
	while (t.width < COLUMNS && t.width < const_or(n, COLUMNS))
		t.width *= 2;
	t.rows = THREADS / t.width;
	t.f = gpu_frame(&q->kb, x_ceildiv(m, n, x_idx(m, t.width)), THREADS);
	t.col = l_let(m, t.f.thread, x_mod(m, t.f.tid, x_idx(m, t.width)));
	t.row = l_let(m, t.f.thread, x_fdiv(m, t.f.tid, x_idx(m, t.width)));
	t.places = gpu_shared(&q->kb, &t.f, "places", DT_I64, 2,
		(Node *[]){x_idx(m, t.rows), x_idx(m, t.width)});
	t.place = cell(m, t.f.thread, "place", DT_I64);
	t.before = cell(m, t.f.thread, "before", DT_I32);
	chunk = x_axis(m, x_ceildiv(m, u, x_idx(m, t.rows)));
	col = l_let(m, t.f.thread, x_add(m, x_muli(m, t.f.bid, t.width), t.col));
	row = l_let(m, in, x_add(m, x_muli(m, chunk, t.rows), t.row));
	t.inside = x_and(m, x_lt(m, col, n), x_lt(m, row, u));
	digits(m, &q->at, nc, cols, col);
	digits(m, &q->at, nr, rows, row);
	announce(&t, in);
	take_turns(&t, in, count_before(&t, in));
	l_for(m, t.f.thread, F_SERIAL, chunk, in);
	q->kb.k->flops = THREADS;
	return gpu_close(&q->kb, &t.f, arena_printf(m->arena, "class=order, threads=%d, columns=%d",
		THREADS, t.width));
}

/* Updates of different places: a thread each. */
static Kernel *
each_update(Scatter *q)
{
	Module *m = q->kb.m;
	Node *const *axes = q->t->in + 1, *n = axes_product(m, q->naxes, axes), *unit, *cond;
	Frame f = gpu_frame(&q->kb, x_ceildiv(m, n, x_idx(m, THREADS)), THREADS);
	Region *in = region_new(m, NULL), *then = region_new(m, NULL);

	unit = l_let(m, f.thread, x_add(m, x_muli(m, f.bid, THREADS), f.tid));
	digits(m, &q->at, q->naxes, axes, unit);
	cond = condition(q, in);
	update(q, then, place_of(q, then));
	l_when(m, in, cond, then, NULL);
	l_when(m, f.thread, x_lt(m, unit, n), in, NULL);
	q->kb.k->flops = THREADS;
	return gpu_close(&q->kb, &f, arena_printf(m->arena, "class=order, threads=%d", THREADS));
}

Kernel *
scatter_kernel(Sched *s, Node *t)
{
	Scatter q = {.kb = kb_new(s, t->loc), .t = t, .rank = rank_of(t)};
	Region *body = region_new(s->m, NULL);
	Kernel *k;

	q.naxes = t->nin - q.rank - 3;
	if (s->gpu)
		k = attr_find(t->attrs, "distinct") ? each_update(&q) : on_gpu(&q);
	else {
		updates(&q, body);
		q.kb.k->grid[0] = q.kb.k->grid[1] = q.kb.k->grid[2] = x_idx(s->m, 1);
		q.kb.k->block = 1;
		q.kb.k->flops = 1;
		k = kb_finish(&q.kb, body, "class=order");
	}
	map_free(&q.at);
	return k;
}
