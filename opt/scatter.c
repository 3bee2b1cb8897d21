/*
 * Scatter: stores at indices that are read, one after the other in the order of the updates, since
 * several may go to one place. Updates that differ in an axis which is itself an index of the
 * result go to different places: on a GPU the threads share those axes out.
 */
#include "sched.h"

enum { THREADS = 256 };

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

/* Stores, or combines with what is there, under the update's condition. */
static void
update(Scatter *q, Region *in)
{
	Module *m = q->kb.m;
	Node *t = q->t, *idx[MAX_RANK], *value, *addr, *old,
		*cond = kb_emit(&q->kb, in, subst(m, t->in[t->nin - 1], &q->at, false));
	Region *then = region_new(m, NULL);
	int i;

	for (i = 0; i < q->rank; i++)
		idx[i] = kb_emit(&q->kb, then,
			x_cast(m, DT_INDEX, subst(m, t->in[1 + q->naxes + i], &q->at, false)));
	value = kb_emit(&q->kb, then, subst(m, t->in[t->nin - 2], &q->at, false));
	if (t->n != COMB_SET) {
		addr = kb_address(&q->kb, t, idx);
		old = from_storage(m, dtype_of(t), l_load(m, kb_buffer(&q->kb, t, true), 1, &addr));
		value = x_comb(m, (Comb)t->n, old, value);
	}
	kb_store(&q->kb, then, t, idx, value);
	l_when(m, in, cond, then, NULL);
}

/* Loops over the axes that have no value yet, around the update. */
static void
updates(Scatter *q, Region *in)
{
	Module *m = q->kb.m;
	Node *own, *axis;
	Region *body;
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
	update(q, in);
}

static Kernel *
on_gpu(Scatter *q)
{
	Module *m = q->kb.m;
	Node *shared[MAX_RANK * 2], *n, *unit;
	int i, k, threads;
	Region *in = region_new(m, NULL);
	Frame f;

	for (i = k = 0; i < q->naxes; i++)
		if (is_index(q, q->t->in[1 + i]))
			shared[k++] = q->t->in[1 + i];
	n = axes_product(m, k, shared);
	threads = const_or(n, THREADS) < THREADS ? q->kb.s->mach->warp : THREADS;
	f = gpu_frame(&q->kb, x_ceildiv(m, n, x_idx(m, threads)), threads);
	unit = l_let(m, f.thread, x_add(m, x_muli(m, f.bid, threads), f.tid));
	digits(m, &q->at, k, shared, unit);
	updates(q, in);
	l_when(m, f.thread, x_lt(m, unit, n), in, NULL);
	q->kb.k->flops = threads;
	return gpu_close(&q->kb, &f, arena_printf(m->arena, "class=order, threads=%d", threads));
}

Kernel *
scatter_kernel(Sched *s, Node *t)
{
	Scatter q = {.kb = kb_new(s, t->loc), .t = t, .rank = rank_of(t)};
	Region *body = region_new(s->m, NULL);
	Kernel *k;

	q.naxes = t->nin - q.rank - 3;
	if (s->gpu)
		k = on_gpu(&q);
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
