/*
 * Panels: a factor's columns copied to the kernel's scratch memory, as the tiles that use them in
 * turn want them: contiguous along the lanes, and spelled out where they are stored as something
 * narrower (tile.c has the tiles). Columns of which each lies in one piece are copied by squares, whose
 * loops a target can transpose in registers.
 */
#include <stdlib.h>
#include <string.h>
#include "sched.h"

typedef struct Panel { Node *tensor, *e, *n, *n0, *idx[MAX_RANK]; int rank; } Panel;

Node *
kb_scratch(KB *kb, Region *r, const char *name, DType d, int n, const int64_t *extent)
{
	Module *m = kb->m;
	Node *ext[MAX_RANK];
	int64_t size = dtypes[d].bits < 8 ? 1 : dtypes[d].bits / 8;
	int i;

	for (i = 0; i < n; i++) {
		ext[i] = x_idx(m, extent[i]);
		size = sat_mul(size, extent[i]);
	}
	size = (size + 63) / 64 * 64;
	kb->k->scratch = x_addi(m, kb->k->scratch ? kb->k->scratch : x_idx(m, 0), size);
	return l_alloc(m, r, l_buffer(m, name, d, SP_STACK, n, ext));
}

Node *
inner_tensor(Module *m, const char *name, DType d, int n, const int64_t *extent)
{
	Node *ext[MAX_RANK];
	int i;

	for (i = 0; i < n; i++)
		ext[i] = x_idx(m, extent[i]);
	return t_param(m, name, ty_tensor(m, d, n, ext), 0);
}

static void
copy_column(KB *kb, Region *r, Node *j, void *ctx)
{
	const Panel *p = ctx;
	Module *m = kb->m;
	Node *col = x_add(m, p->n0, j), *e = subst1(m, p->e, p->n, col), *idx[MAX_RANK];

	e = x_select(m, x_lt(m, col, p->n->in[0]), e, x_int(m, e->type->dtype, 0));
	memcpy(idx, p->idx, sizeof idx);
	idx[p->rank - 1] = col;
	local_store(kb, r, map_get(&kb->local, p->tensor), idx, kb_emit(kb, r, e));
}

int64_t
panel_bytes(const Contraction *c, const int64_t *red)
{
	int64_t n = sat_mul(c->nr, dtypes[c->eb->type->dtype].bits / 8);
	int i;

	for (i = 0; i < c->nred && n >= 0; i++)
		n = red[i] > 0 ? sat_mul(n, red[i]) : -1;
	return c->nred < MAX_RANK ? n : -1;
}

/* ---- transposed ------------------------------------------------------------------------------ */

/* A vector of columns from j on in lanes, at step k of the innermost sum; with those past the last
 * one zero, or all there. */
static void
copy_lanes(KB *kb, Region *r, const Panel *p, Node *j, Node *k, int w, bool zeros)
{
	Module *m = kb->m;
	Panel at = *p;
	Node *v = x_axis(m, x_idx(m, w)), *col, *idx[MAX_RANK];
	Region *in = region_new(m, NULL);

	at.e = subst1(m, p->e, p->idx[p->rank - 2], k);
	at.idx[p->rank - 2] = k;
	kb->in_vector = w;
	if (zeros)
		copy_column(kb, in, x_add(m, j, v), &at);
	else {
		col = x_add(m, p->n0, x_add(m, j, v));
		memcpy(idx, at.idx, sizeof idx);
		idx[p->rank - 1] = col;
		local_store(kb, in, map_get(&kb->local, p->tensor), idx, kb_emit(kb, in, subst1(m, at.e, p->n, col)));
	}
	kb->in_vector = 0;
	l_for(m, r, F_VECTOR, v, in);
}

/* A vector of columns, all there: squares of as many steps as lanes, and the last steps. */
static Region *
copy_squares(KB *kb, const Panel *p, Node *j, int w)
{
	Module *m = kb->m;
	Node *depth = p->idx[p->rank - 2]->in[0], *n = x_fdiv(m, depth, x_idx(m, w)), *i = x_axis(m, n),
		*u = x_axis(m, x_idx(m, w)), *done = x_muli(m, n, w), *k = x_axis(m, x_sub(m, depth, done));
	Region *r = region_new(m, NULL), *square = region_new(m, NULL), *in = region_new(m, NULL);

	copy_lanes(kb, in, p, j, x_add(m, x_muli(m, i, w), u), w, false);
	l_for(m, square, F_UNROLL, u, in);
	l_for(m, r, F_SERIAL, i, square);
	if (!is_intv(k->in[0], 0)) {
		in = region_new(m, NULL);
		copy_lanes(kb, in, p, j, x_add(m, done, k), w, false);
		l_for(m, r, F_SERIAL, k, in);
	}
	return r;
}

/* A vector of columns that end within it, or before. */
static Region *
copy_last(KB *kb, const Panel *p, Node *j, int w)
{
	Module *m = kb->m;
	Node *k = x_axis(m, p->idx[p->rank - 2]->in[0]);
	Region *r = region_new(m, NULL), *in = region_new(m, NULL);

	copy_lanes(kb, in, p, j, k, w, true);
	l_for(m, r, F_SERIAL, k, in);
	return r;
}

/* Do the steps of the innermost sum lie side by side in all that e reads, and the columns apart? */
static bool
wants_squares(KB *kb, const Contraction *c, int w)
{
	Node *last = c->red[c->nred - 1], *k, *n, **list;
	int64_t depth = const_or(last->in[0], w);
	int i, count, squares = 0;
	bool ok = w >= 2 && depth >= w && c->nr % w == 0;

	list = topo_scalar(c->eb, &count);
	for (i = 0; i < count && ok; i++) {
		ok = list[i]->code != O_REDUCE && list[i]->code != O_ITER;
		if (list[i]->code != O_READ || (!contains(list[i], last) && !contains(list[i], c->n)))
			continue;
		k = elem_stride(kb, list[i], last);
		n = elem_stride(kb, list[i], c->n);
		ok = ok && k && n && is_intv(k, 1) && !is_intv(n, 1) && !map_get(&kb->local, list[i]->in[0]);
		squares += ok && !is_intv(n, 0);
	}
	free(list);
	return ok && squares == 1;
}

static void
copy_transposed(KB *kb, Region *r, const Panel *p, int nr, int w)
{
	Module *m = kb->m;
	Node *i = x_axis(m, x_idx(m, nr / w)), *j = x_muli(m, i, w),
		*full = x_le(m, x_add(m, p->n0, x_addi(m, j, w)), p->n->in[0]);
	Region *in = region_new(m, NULL);

	l_when(m, in, full, copy_squares(kb, p, j, w), copy_last(kb, p, j, w));
	l_for(m, r, F_SERIAL, i, in);
}

void
copy_panel(KB *kb, Region *r, Contraction *c, Node *n0, const int64_t *red)
{
	Module *m = kb->m;
	int64_t extent[MAX_RANK];
	Panel p = {.e = c->eb, .n = c->n, .n0 = n0, .rank = c->nred + 1};
	Local *l = NEW(m, Local);
	Region *in = r, *q;
	int i, w = lanes_of(kb->s, c->reduce->type->dtype);
	bool squares = wants_squares(kb, c, w);

	memcpy(extent, red, sizeof *red * (size_t)c->nred);
	extent[c->nred] = c->nr;
	p.tensor = inner_tensor(m, "panel", c->eb->type->dtype, p.rank, extent);
	l->buffer = kb_scratch(kb, r, "panel", storage_type(c->eb->type->dtype), p.rank, extent);
	l->base[c->nred] = n0;
	for (l->n = 0; l->n < p.rank; l->n++)
		l->dim[l->n] = l->n;
	map_put(&kb->local, p.tensor, l);
	for (i = 0; i < c->nred; i++) {
		p.idx[i] = x_axis(m, kb_emit(kb, in, c->red[i]->in[0]));
		p.e = subst1(m, p.e, c->red[i], p.idx[i]);
		if (squares && i == c->nred - 1)
			break;
		q = region_new(m, NULL);
		l_for(m, in, F_SERIAL, p.idx[i], q);
		in = q;
	}
	if (squares)
		copy_transposed(kb, in, &p, c->nr, w);
	else
		vector_loop(kb, in, x_idx(m, c->nr), w, copy_column, &p);
	memcpy(p.idx, c->red, sizeof *c->red * (size_t)c->nred);
	p.idx[c->nred] = c->n;
	c->b = c->eb = x_read(m, p.tensor, p.idx);
}
