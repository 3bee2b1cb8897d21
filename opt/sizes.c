/*
 * Sizes that only run-time data give: every conversion of tensor elements to index that some extent
 * uses becomes a symbol (its def is the conversion), so that kernels see symbols alone and the host
 * plan reads each element once. What is computed from floats is left to a kernel.
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
	Node *sym = map_get(&s->sizereads, n), *t;
	bool floats;

	(void)done;
	if (!sym)
		return NULL;
	if (!reads(in[0], &floats))
		return x_cast(m, DT_INDEX, in[0]);
	if (floats) {
		t = t_scalar_expr(m, DT_I64, in[0]);
		sym->def = x_cast(m, DT_INDEX, x_read(m, t, NULL));
	} else
		sym->def = x_cast(m, DT_INDEX, in[0]);
	return sym;
}

/* Needs the tensor level. */
void
name_sizes(Sched *s)
{
	Node **list, **e, *sym;
	int i, k, n, ne, found = 0;
	bool floats;

	list = topo(s->m->main->results, s->m->main->nresults, false, &n);
	for (i = 0; i < n; i++) {
		if (list[i]->code != O_AXIS)
			continue;
		e = topo_scalar(list[i]->in[0], &ne);
		for (k = 0; k < ne; k++)
			if (e[k]->code == O_CAST && e[k]->type->dtype == DT_INDEX && !map_get(&s->sizereads, e[k])
			 && reads(e[k], &floats)) {
				sym = x_sym(s->m, NULL, e[k]->lo, e[k]->hi);
				map_put(&s->sizereads, e[k], sym);
				found++;
			}
		free(e);
	}
	free(list);
	if (found)
		rewrite_module(s->m, false, name_size, s);
	map_free(&s->sizereads);
}
