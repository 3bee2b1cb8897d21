/*
 * fold: tensors that depend on constants alone are computed now, by the module's execute hook (our
 * own code generation, in memory, for one fixed machine, so that constants have the same bytes
 * everywhere). A result much larger than what it comes from stays as it is. Needs the tensor level
 * after inlining; leaves constants.
 */
#include <stdlib.h>
#include "opt.h"

typedef struct Folder { Map closed; Map value; } Folder;

static int64_t
bytes_of(const Node *t)
{
	int64_t dims[MAX_RANK], n = (dtypes[dtype_of(t)].bits + 7) / 8;
	int i;

	if (!const_dims(t, dims))
		return INT64_MAX;
	for (i = 0; i < rank_of(t); i++)
		n = sat_mul(n, dims[i]);
	return n;
}

/* Does every operand, and everything the body reads, come from constants? Bytes read in *in. */
static bool
is_closed(Folder *f, Node *n, int64_t *in)
{
	Node **list, *t;
	int i, k, count;
	bool ok = n->code == O_TENSOR || n->code == O_SCATTER;

	*in = 0;
	for (k = 0; k < n->nin && ok; k++) {
		if (n->in[k]->type->kind != T_SCALAR) {
			ok = n->in[k]->code == O_CONST || map_get(&f->closed, n->in[k]);
			*in = sat_add(*in, bytes_of(n->in[k]));
			continue;
		}
		list = topo_scalar(n->in[k], &count);
		for (i = 0; i < count && ok; i++)
			if (list[i]->code == O_SYM || list[i]->code == O_CARRY)
				ok = list[i]->code == O_CARRY;
			else if (list[i]->code == O_READ) {
				t = list[i]->in[0];
				ok = (t->code == O_CONST && dtype_of(t) != DT_STRING) || map_get(&f->closed, t);
				*in = sat_add(*in, bytes_of(t));
			}
		free(list);
	}
	return ok;
}

static Node *
replace(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Folder *f = ctx;

	(void)m;
	(void)in;
	(void)done;
	return map_get(&f->value, n);
}

/* The closed tensors that something open uses. */
static void
find_roots(Module *m, Folder *f, Node **list, int n, Vec *roots)
{
	Map seen = {0};
	Node **body, *t;
	int i, k, c, j, count, r;

	for (i = 0; i < n; i++) {
		if (map_get(&f->closed, list[i]))
			continue;
		for (r = 0; r < list[i]->nregions; r++)
			for (k = 0; k < list[i]->regions[r]->nresults; k++)
				if ((t = list[i]->regions[r]->results[k]) && map_get(&f->closed, t)
					&& !map_get(&seen, t)) {
					map_put(&seen, t, t);
					vec_push(m, roots, t);
				}
		for (k = 0; k < list[i]->nin; k++) {
			if (!list[i]->in[k] || list[i]->type->kind == T_SCALAR)
				continue;
			if ((t = list[i]->in[k])->type->kind != T_SCALAR) {
				if (map_get(&f->closed, t) && !map_get(&seen, t)) {
					map_put(&seen, t, t);
					vec_push(m, roots, t);
				}
				continue;
			}
			body = topo_scalar(t, &count);
			for (c = 0; c < count; c++)
				for (j = 0; body[c]->code == O_READ && j < 1; j++)
					if (map_get(&f->closed, body[c]->in[0]) && !map_get(&seen, body[c]->in[0])) {
						map_put(&seen, body[c]->in[0], body[c]);
						vec_push(m, roots, body[c]->in[0]);
					}
			free(body);
		}
	}
	for (i = 0; i < m->main->nresults; i++)
		if ((t = m->main->results[i]) && map_get(&f->closed, t) && !map_get(&seen, t)) {
			map_put(&seen, t, t);
			vec_push(m, roots, t);
		}
	map_free(&seen);
}

bool
pass_fold(Module *m)
{
	Folder f = {0};
	Vec roots = {0};
	Node **list, **out;
	int64_t in;
	int i, n;

	if (!m->execute)
		return true;
	list = topo(m->main->results, m->main->nresults, false, &n);
	for (i = 0; i < n; i++)
		if (list[i]->type->kind == T_TENSOR && is_closed(&f, list[i], &in)
		 && bytes_of(list[i]) <= sat_add(sat_mul(in, 4), 1 << 20))
			map_put(&f.closed, list[i], list[i]);
	find_roots(m, &f, list, n, &roots);
	free(list);
	out = NEWN(m, Node *, roots.n + 1);
	if (roots.n && m->execute(m, roots.n, (Node **)roots.at, out)) {
		for (i = 0; i < roots.n; i++)
			if (out[i])
				map_put(&f.value, roots.at[i], out[i]);
		rewrite_module(m, false, replace, &f);
	}
	map_free(&f.closed);
	map_free(&f.value);
	return m->diag->errors == 0;
}
