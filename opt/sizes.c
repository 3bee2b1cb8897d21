/*
 * Sizes that only run-time data give: every conversion of tensor elements to index, and every
 * condition on them, that some extent uses becomes a symbol (its def is its value), so that kernels
 * see symbols alone and the host plan reads each element once. What is computed from floats is left
 * to a kernel.
 */
#include <stdlib.h>
#include "sched.h"

static bool
reads(Node *e, bool *floats)
{
	Node **list;
	int i, n;
	bool yes = false;

	*floats = false;
	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++) {
		yes |= list[i]->code == O_READ;
		*floats |= dt_float(list[i]->type->dtype);
	}
	free(list);
	return yes;
}

static Node *
name_size(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Sched *s = ctx;
	Node *sym = map_get(&s->sizereads, n), *e, *t;
	bool floats, cond = n->type->dtype == DT_BOOL;

	if (!sym)
		return NULL;
	e = cond ? rebuild_node(m, n, in, done) : in[0];
	if (!reads(e, &floats))
		return cond ? e : x_cast(m, DT_INDEX, e);
	if (floats) {
		t = t_scalar_expr(m, DT_I64, e);
		e = x_read(m, t, NULL);
	}
	sym->def = x_cast(m, DT_INDEX, e);
	return cond ? x_ne(m, sym, x_idx(m, 0)) : sym;
}

/* A conversion to index, or a condition under which index expressions are chosen. */
static void
name(Sched *s, Node *e, int *found)
{
	bool floats, cond = e->type->dtype == DT_BOOL;

	if (map_get(&s->sizereads, e) || !reads(e, &floats))
		return;
	map_put(&s->sizereads, e, x_sym(s->m, NULL, cond ? 0 : e->lo, cond ? 1 : e->hi));
	++*found;
}

int
find_sizes(Sched *s)
{
	Node **list, **e;
	int i, k, n, ne, found = 0;

	list = topo(s->m->main->results, s->m->main->nresults, false, &n);
	for (i = 0; i < n; i++) {
		if (list[i]->code != O_AXIS)
			continue;
		e = topo_scalar(list[i]->in[0], &ne);
		for (k = 0; k < ne; k++)
			if (e[k]->code == O_CAST && e[k]->type->dtype == DT_INDEX)
				name(s, e[k], &found);
			else if (e[k]->code == O_SELECT && e[k]->type->dtype == DT_INDEX)
				name(s, e[k]->in[0], &found);
		free(e);
	}
	free(list);
	return found;
}

/* Needs the tensor level; leaves extents that read no tensor. */
bool
pass_sizes(Module *m)
{
	Sched s = sched_open(m);

	if (find_sizes(&s))
		rewrite_module(m, false, name_size, &s);
	sched_close(&s);
	return m->diag->errors == 0;
}
