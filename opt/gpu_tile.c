/*
 * GPU schedule of maps with an operand that is contiguous along another axis than the result: a
 * transpose, alone or within what follows it.
 *
 * A block computes a square of the two axes. It brings the operand's elements to shared memory,
 * consecutive threads along the operand's axis, and then computes with consecutive threads along
 * the result's. The tile's rows are padded so that both ways meet all banks.
 */
#include <stdlib.h>
#include <string.h>
#include "sched.h"

enum { SIDE = 32, ROWS = 8, READS = 4, WORTH = 8 };

typedef struct Tiled {
	KB *kb;
	Module *m;
	Frame f;
	Nest nest;
	Node *slow, *last;     /* the axes: the operands' contiguous one, the result's */
	Node *reads[READS], *tile[READS];
	int n;
	Node *tx, *ty;         /* the thread's place: in a row; which row of ROWS */
	Node *row0, *col0;     /* where the block's square begins along slow, last */
} Tiled;

/* Is e evaluated wherever the body is? */
static bool
unconditional(const Node *body, const Node *e)
{
	int i;

	if (body == e)
		return true;
	if (!contains(body, e))
		return false;
	for (i = 0; i < (body->code == O_SELECT ? 1 : body->nin); i++)
		if (unconditional(body->in[i], e))
			return true;
	return false;
}

static bool
reads_in_index(const Node *read)
{
	Node **list;
	int i, k, n;
	bool yes = false;

	for (i = 1; i < read->nin && !yes; i++) {
		list = topo_scalar(read->in[i], &n);
		for (k = 0; k < n && !yes; k++)
			yes = list[k]->code == O_READ;
		free(list);
	}
	return yes;
}

/* The axis, not the last, along which the read is contiguous; NULL if it is none that a tile helps. */
static Node *
across(Tiled *q, Node *read)
{
	Node *c, *axis;
	int i;

	if (is_packed(q->kb->s, read->in[0]) || reads_in_index(read) || !contains(read, q->last)
	 || !(c = elem_stride(q->kb, read, q->last)) || is_intv(c, 1) || is_intv(c, 0)
	 || (const_or(c, SIDE) < WORTH && const_or(c, SIDE) > -WORTH)
	 || !unconditional(q->nest.body, read))
		return NULL;
	for (i = 0; i + 1 < q->nest.n; i++) {
		axis = q->nest.axis[i];
		c = contains(read, axis) ? elem_stride(q->kb, read, axis) : NULL;
		if (c && is_intv(c, 1))
			return const_or(axis->in[0], SIDE) >= WORTH ? axis : NULL;
	}
	return NULL;
}

static bool
find_reads(Tiled *q)
{
	Node **list, *axis;
	int i, n;

	if (q->nest.n < 2 || !body_is_plain(q->nest.body))
		return false;
	q->last = q->nest.axis[q->nest.n - 1];
	if (const_or(q->last->in[0], SIDE) < WORTH)
		return false;
	list = topo_scalar(q->nest.body, &n);
	for (i = 0; i < n && q->n < READS; i++)
		if (list[i]->code == O_READ && (axis = across(q, list[i]))
		 && (!q->slow || q->slow == axis)) {
			q->slow = axis;
			q->reads[q->n++] = list[i];
		}
	free(list);
	return q->n > 0;
}

/* The block's square; the axes that are not of it get their values. */
static void
place_block(Tiled *q)
{
	Module *m = q->m;
	Node *axes[MAX_RANK * 2 + 2], *digit[MAX_RANK * 2], *square[2], *n;
	Map map = {0};
	int i, k = 0;

	for (i = 0; i < q->nest.n; i++)
		if (q->nest.axis[i] != q->slow && q->nest.axis[i] != q->last)
			axes[k++] = q->nest.axis[i];
	n = axes_product(m, k, axes);
	square[0] = x_axis(m, x_ceildiv(m, q->slow->in[0], x_idx(m, SIDE)));
	square[1] = x_axis(m, x_ceildiv(m, q->last->in[0], x_idx(m, SIDE)));
	axes[k] = square[0], axes[k + 1] = square[1];
	q->f = gpu_frame(q->kb, x_mul(m, n, axes_product(m, 2, square)), SIDE * ROWS);
	digits(m, &map, k + 2, axes, q->f.bid);
	for (i = 0; i < k; i++)
		digit[i] = map_get(&map, axes[i]);
	q->row0 = l_let(m, q->f.thread, x_muli(m, map_get(&map, square[0]), SIDE));
	q->col0 = l_let(m, q->f.thread, x_muli(m, map_get(&map, square[1]), SIDE));
	map_free(&map);
	map = (Map){0};
	for (i = 0; i < k; i++)
		map_put(&map, axes[i], l_let(m, q->f.thread, digit[i]));
	for (i = 0; i < q->n; i++)
		q->reads[i] = subst(m, q->reads[i], &map, false);
	for (i = 0; i < rank_of(q->nest.out); i++)
		q->nest.out_idx[i] = subst(m, q->nest.out_idx[i], &map, false);
	q->nest.body = subst(m, q->nest.body, &map, false);
	map_free(&map);
	q->tx = l_let(m, q->f.thread, x_mod(m, q->f.tid, x_idx(m, SIDE)));
	q->ty = l_let(m, q->f.thread, x_fdiv(m, q->f.tid, x_idx(m, SIDE)));
}

/* Calls for each of the thread's elements, with its row and column in the square, under the
 * condition that they are inside. */
typedef void Element(Tiled *, Region *, Node *row, Node *col, Map *at);

static void
each_element(Tiled *q, bool along_slow, Element *element)
{
	Module *m = q->m;
	Node *s = x_axis(m, x_idx(m, SIDE / ROWS)), *row, *col, *i, *j;
	Region *in = region_new(m, NULL), *own = region_new(m, NULL);
	Map at = {0};

	row = x_add(m, x_muli(m, s, ROWS), q->ty);
	col = along_slow ? row : q->tx;
	row = along_slow ? q->tx : row;
	i = x_add(m, q->row0, row), j = x_add(m, q->col0, col);
	map_put(&at, q->slow, i);
	map_put(&at, q->last, j);
	element(q, own, row, col, &at);
	l_when(m, in, x_and(m, x_lt(m, i, q->slow->in[0]), x_lt(m, j, q->last->in[0])), own, NULL);
	l_for(m, q->f.thread, F_UNROLL, s, in);
	map_free(&at);
}

static void
bring(Tiled *q, Region *r, Node *row, Node *col, Map *at)
{
	Module *m = q->m;
	int i;

	for (i = 0; i < q->n; i++)
		l_store(m, r, q->tile[i], 2, (Node *[]){col, row},
			legalize(m, to_storage(m, kb_emit(q->kb, r, subst(m, q->reads[i], at, false)))));
}

static void
compute(Tiled *q, Region *r, Node *row, Node *col, Map *at)
{
	Module *m = q->m;
	Node *idx[MAX_RANK], *e, *v;
	Map tiles = {0};
	int i;

	for (i = 0; i < q->n; i++) {
		v = l_load(m, q->tile[i], 2, (Node *[]){col, row});
		map_put(&tiles, q->reads[i], from_storage(m, dtype_of(q->reads[i]->in[0]), v));
	}
	e = subst(m, subst(m, q->nest.body, &tiles, false), at, false);
	map_free(&tiles);
	for (i = 0; i < rank_of(q->nest.out); i++)
		idx[i] = subst(m, q->nest.out_idx[i], at, false);
	kb_store(q->kb, r, q->nest.out, idx, kb_emit(q->kb, r, e));
}

Kernel *
tile_gpu(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Tiled q = {.kb = &kb, .m = s->m, .nest = nest_of(&kb, g->members[0])};
	DType d;
	int i;

	if (!find_reads(&q)) {
		map_free(&kb.buf);
		return NULL;
	}
	place_block(&q);
	for (i = 0; i < q.n; i++) {
		d = storage_type(dtype_of(q.reads[i]->in[0]));
		q.tile[i] = gpu_shared(&kb, &q.f, "tile", d, 2, (Node *[]){x_idx(s->m, SIDE),
			x_idx(s->m, SIDE + (dtypes[d].bits < 32 ? 32 / dtypes[d].bits : 1))});
	}
	each_element(&q, true, bring);
	l_barrier(s->m, q.f.thread);
	each_element(&q, false, compute);
	kb.k->flops = SIDE * SIDE * element_cost(q.nest.body);
	return gpu_close(&kb, &q.f,
		arena_printf(s->m->arena, "class=map, threads=%d, tile=[%d,%d]", SIDE * ROWS, SIDE, SIDE));
}
