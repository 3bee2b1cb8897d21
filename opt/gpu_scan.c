/*
 * GPU schedule of running combinations: an element combines those before it in its segment of the
 * axis (ir/ops/order.c writes long axes so). A block brings segments to shared memory and combines
 * over distances that double; each element is read once, not once for each that follows it.
 *
 * The running axis becomes segment and place. A tensor has this class if its one reduction goes up
 * to the place, and reads by the segment and its own axis alone.
 */
#include <stdlib.h>
#include <string.h>
#include "sched.h"

enum { LONGEST = 128, COLUMNS = 8, THREADS = 256 };

typedef struct Scan {
	KB *kb;
	Module *m;
	Frame f;
	Node *t, *body, *red;  /* in terms of segment and place */
	int on;                /* the running dimension */
	Node *segment, *place; /* axes */
	int length;            /* of a segment, a power of two */
	bool contiguous;       /* in memory along the running axis */
	int columns;           /* segments of a block */
	Node *q, *inside;      /* the thread's place; has it a segment? */
	Node *idx[MAX_RANK];   /* of its element */
	Node *sums;            /* shared, [columns][length], or transposed */
	Node *col;
} Scan;

/* Of the body, if it is its only loop and over one axis. */
static Node *
axis_reduction(Node *body)
{
	Node *red = only_reduction(body);

	return red && red->nin == 2 ? red : NULL;
}

/* A power of two that the axis is divided by in e; 0: none. */
static int
segment_length(Node *e, const Node *axis)
{
	Node **list;
	int64_t v, length = 0;
	int i, n;

	list = topo_scalar(e, &n);
	for (i = 0; i < n && !length; i++)
		if ((list[i]->code == O_FLOORDIV || list[i]->code == O_MOD) && list[i]->in[0] == axis
		 && is_int(list[i]->in[1], &v) && v > 1 && v <= LONGEST && !(v & (v - 1)))
			length = v;
	free(list);
	return (int)length;
}

/* Splits the axis into segments of so many places; does the reduction run so? */
static bool
runs_in(Scan *s, Node *axis, Node *red, int length)
{
	Module *m = s->m;
	Node *n = axis->in[0], *v;

	s->length = length;
	s->segment = x_axis(m, x_ceildiv(m, n, x_idx(m, length)));
	s->place = x_axis(m, x_idx(m, length));
	v = n->hi <= length ? s->place : x_add(m, x_muli(m, s->segment, length), s->place);
	s->red = subst1(m, red, axis, v);
	s->body = subst1(m, s->t->in[s->t->nin - 1], axis, v);
	return s->red->in[0]->in[0] == s->place
		&& !contains(subst1(m, s->red->in[1], s->red->in[0], x_idx(m, 0)), s->place);
}

static bool
scan_of(Module *m, Node *t, Scan *s)
{
	Node *red, *axis;
	int i, length;

	*s = (Scan){.m = m, .t = t};
	if (t->code != O_TENSOR || !(red = axis_reduction(t->in[t->nin - 1])))
		return false;
	for (i = 0; i + 1 < t->nin; i++) {
		axis = t->in[i];
		if (!contains(red->in[0]->in[0], axis))
			continue;
		s->on = i;
		for (length = 2; length < LONGEST && length < axis->in[0]->hi; length *= 2)
			;
		if (axis->in[0]->hi > LONGEST)
			length = segment_length(t->in[t->nin - 1], axis);
		return length >= 8 && runs_in(s, axis, red, length);
	}
	return false;
}

bool
is_scan(Module *m, Node *t)
{
	Scan s;

	return scan_of(m, t, &s);
}

static Node *
cell_of(Scan *s, Node *place)
{
	Node *idx[2] = {s->contiguous ? s->col : place, s->contiguous ? place : s->col};

	return l_load(s->m, s->sums, 2, idx);
}

static void
store_cell(Scan *s, Region *r, Node *place, Node *v)
{
	Node *idx[2] = {s->contiguous ? s->col : place, s->contiguous ? place : s->col};

	l_store(s->m, r, s->sums, 2, idx, v);
}

/* Threads of a block take `columns` segments; those that follow each other in memory are in
 * consecutive threads. Other axes get their values. */
static void
place_threads(Scan *s)
{
	Module *m = s->m;
	Storage *st = storage_of(s->kb->s, s->t);
	Node *axes[MAX_RANK + 1], *n, *unit, *width;
	Map map = {0};
	int i, d, k = 0;

	s->contiguous = st->order[rank_of(s->t) - 1] == s->on;
	s->columns = s->contiguous ? THREADS / s->length : COLUMNS;
	for (i = 0; i < rank_of(s->t); i++) {
		d = st->order[i];
		axes[k++] = d == s->on ? s->segment : s->t->in[d];
	}
	n = axes_product(m, k, axes);
	s->f = gpu_frame(s->kb, x_ceildiv(m, n, x_idx(m, s->columns)), s->columns * s->length);
	width = x_idx(m, s->contiguous ? s->length : s->columns);
	s->q = l_let(m, s->f.thread, s->contiguous ? x_mod(m, s->f.tid, width)
		: x_fdiv(m, s->f.tid, width));
	s->col = l_let(m, s->f.thread, s->contiguous ? x_fdiv(m, s->f.tid, width)
		: x_mod(m, s->f.tid, width));
	unit = l_let(m, s->f.thread, x_add(m, x_muli(m, s->f.bid, s->columns), s->col));
	s->inside = x_lt(m, unit, n);
	digits(m, &map, k, axes, unit);
	for (i = 0; i < k; i++) {
		n = l_let(m, s->f.thread, map_get(&map, axes[i]));
		s->body = subst1(m, s->body, axes[i], n);
		s->idx[st->order[i]] = n;
		s->segment = axes[i] == s->segment ? n : s->segment;
	}
	map_free(&map);
	s->red = axis_reduction(s->body);
}

/* The element of this thread, unless nothing comes after it. */
static void
bring_element(Scan *s, DType d)
{
	Module *m = s->m;
	Region *in = region_new(m, NULL);
	Node *next = x_addi(m, x_add(m, x_muli(m, s->segment, s->length), s->q), 1), *e;

	store_cell(s, s->f.thread, s->q, x_comb_identity(m, (Comb)s->red->n, d));
	e = subst1(m, s->red->in[1], s->red->in[0], s->q);
	store_cell(s, in, s->q, x_cast(m, d, kb_emit(s->kb, in, e)));
	l_when(m, s->f.thread, x_and(m, s->inside, x_lt(m, next, dim_of(s->t, s->on))), in, NULL);
	l_barrier(m, s->f.thread);
}

static void
combine(Scan *s, DType d)
{
	Module *m = s->m;
	Node *one = x_idx(m, 1), *zero = x_idx(m, 0), *acc;
	Region *in;
	int far;

	acc = l_alloc(m, s->f.thread, l_buffer(m, "acc", d, SP_REG, 1, &one));
	for (far = 1; far < s->length; far *= 2) {
		in = region_new(m, NULL);
		l_store(m, s->f.thread, acc, 1, &zero, cell_of(s, s->q));
		l_store(m, in, acc, 1, &zero, x_comb(m, (Comb)s->red->n,
			cell_of(s, x_addi(m, s->q, -far)), l_load(m, acc, 1, &zero)));
		l_when(m, s->f.thread, x_le(m, x_idx(m, far), s->q), in, NULL);
		l_barrier(m, s->f.thread);
		store_cell(s, s->f.thread, s->q, l_load(m, acc, 1, &zero));
		l_barrier(m, s->f.thread);
	}
}

/* The element's value, its reduction being what the threads before it have combined. */
static void
finish(Scan *s, DType d)
{
	Module *m = s->m;
	Region *in = region_new(m, NULL);
	Node *before, *e;

	before = x_select(m, x_lt(m, x_idx(m, 0), s->q), cell_of(s, x_addi(m, s->q, -1)),
		x_comb_identity(m, (Comb)s->red->n, d));
	e = subst1(m, s->body, s->red, x_cast(m, s->red->type->dtype, before));
	e = kb_emit(s->kb, in, subst1(m, e, s->place, s->q));
	s->idx[s->on] = x_add(m, x_muli(m, s->segment, s->length), s->q);
	kb_store(s->kb, in, s->t, s->idx, e);
	l_when(m, s->f.thread, x_and(m, s->inside, x_lt(m, s->idx[s->on], dim_of(s->t, s->on))), in,
		NULL);
}

Kernel *
scan_gpu(Sched *sched, Group *g)
{
	KB kb = kb_new(sched, g->loc);
	Scan s;
	DType d;

	if (!scan_of(sched->m, g->members[0], &s)) {
		map_free(&kb.buf);
		return NULL;
	}
	s.kb = &kb;
	place_threads(&s);
	d = storage_type(s.red->type->dtype);
	s.sums = gpu_shared(&kb, &s.f, "sums", d, 2, s.contiguous
		? (Node *[]){x_idx(s.m, s.columns), x_idx(s.m, s.length)}
		: (Node *[]){x_idx(s.m, s.length), x_idx(s.m, s.columns)});
	bring_element(&s, d);
	combine(&s, d);
	finish(&s, d);
	kb.k->flops = s.columns * s.length * 8.0;
	return gpu_close(&kb, &s.f, arena_printf(s.m->arena, "class=scan, threads=%d, length=%d",
		s.columns * s.length, s.length));
}
