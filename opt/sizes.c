/*
 * Sizes that only run-time data give: every element of a tensor that some extent reads becomes a
 * symbol (its def is the read), so that kernels see symbols alone and the host plan reads each
 * element once.
 */
#include <stdlib.h>
#include "sched.h"

static Node *
name_read(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Sched *s = ctx;
	Node *sym = map_get(&s->sizereads, n), *r;

	(void)done;
	if (n->code != O_READ || !sym)
		return NULL;
	r = x_read(m, in[0], in + 1);
	if (r->code != O_READ)
		return r;
	sym->def = r;
	return x_cast(m, n->type->dtype, sym);
}

/* Needs the tensor level. */
void
name_sizes(Sched *s)
{
	Node **list, **e, *sym;
	int i, k, n, ne, found = 0;

	list = topo(s->m->main->results, s->m->main->nresults, false, &n);
	for (i = 0; i < n; i++) {
		if (list[i]->code != O_AXIS)
			continue;
		e = topo_scalar(list[i]->in[0], &ne);
		for (k = 0; k < ne; k++)
			if (e[k]->code == O_READ && dt_int(e[k]->type->dtype) && !map_get(&s->sizereads, e[k])) {
				sym = x_sym(s->m, NULL, e[k]->lo, e[k]->hi);
				map_put(&s->sizereads, e[k], sym);
				found++;
			}
		free(e);
	}
	free(list);
	if (found)
		rewrite_module(s->m, false, name_read, s);
	map_free(&s->sizereads);
}
