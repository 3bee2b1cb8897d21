/*
 * Panels: a factor's columns copied to the kernel's scratch memory, as the tiles that use them in
 * turn want them: contiguous along the lanes, and spelled out where they are stored as something
 * narrower (tile.c has the tiles).
 */
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

void
copy_panel(KB *kb, Region *r, Contraction *c, Node *n0, const int64_t *red)
{
	Module *m = kb->m;
	int64_t extent[MAX_RANK];
	Panel p = {.e = c->eb, .n = c->n, .n0 = n0, .rank = c->nred + 1};
	Local *l = NEW(m, Local);
	Region *in = r, *q;
	int i;

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
		q = region_new(m, NULL);
		l_for(m, in, F_SERIAL, p.idx[i], q);
		in = q;
		p.e = subst1(m, p.e, c->red[i], p.idx[i]);
	}
	vector_loop(kb, in, x_idx(m, c->nr), lanes_of(kb->s, c->reduce->type->dtype), copy_column, &p);
	memcpy(p.idx, c->red, sizeof *c->red * (size_t)c->nred);
	p.idx[c->nred] = c->n;
	c->b = c->eb = x_read(m, p.tensor, p.idx);
}
