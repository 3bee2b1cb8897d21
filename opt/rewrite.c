/* Rewriting a whole module: operands before users, shared nodes once. */
#include <stdlib.h>
#include <string.h>
#include "opt.h"

enum { MAX_IN = 64 };

const Type *
map_type(Module *m, const Type *t, Map *done)
{
	Node *dims[MAX_RANK];
	const Type **elem, *r;
	int i;

	if (t->kind == T_TENSOR) {
		for (i = 0; i < t->rank; i++)
			dims[i] = subst(m, t->dims[i], done, false);
		return ty_tensor(m, t->dtype, t->rank, dims);
	}
	if (t->kind == T_TUPLE) {
		elem = NEWN(m, const Type *, t->rank + 1);
		for (i = 0; i < t->rank; i++)
			elem[i] = map_type(m, t->elem[i], done);
		r = ty_tuple(m, t->rank, elem);
		return r;
	}
	return t;
}

static Region *
map_region(Module *m, Region *r, Map *done)
{
	Region *q = region_new(m, r->name);
	int i;

	q->nparams = r->nparams;
	q->params = NEWN(m, Node *, r->nparams + 1);
	for (i = 0; i < r->nparams; i++)
		q->params[i] = map_get(done, r->params[i]);
	for (i = 0; i < r->nresults; i++)
		region_add(m, q, r->results[i] ? map_get(done, r->results[i]) : NULL);
	return q;
}

static Node *rewrite_definition(Module *, Node *, Map *done);

Node *
rebuild_node(Module *m, Node *n, Node **in, Map *done)
{
	Node t, *r, *def;
	int i, rank;

	switch (n->code) {
	case O_READ:
		return x_read(m, in[0], in + 1);
	case O_REDUCE:
		return x_reduce(m, (Comb)n->n, n->nin - 1, in, in[n->nin - 1]);
	case O_ITER:
		return x_iter(m, in[0], in[1], in[2], in[3]);
	case O_AXIS:
		return x_axis(m, in[0]);
	case O_TENSOR:
		r = attr_find(n->attrs, "block")
			? t_tensor_with(m, n->nin - 1, in, in[n->nin - 1], n->attrs)
			: t_tensor(m, n->nin - 1, in, in[n->nin - 1]);
		break;
	case O_SCATTER:
		rank = rank_of(n);
		i = n->nin - rank - 3;
		r = t_scatter(m, (Comb)n->n, in[0], i, in + 1, in + 1 + i, in[n->nin - 2], in[n->nin - 1]);
		break;
	case O_TUPLE:
		return t_tuple(m, n->nin, in);
	case O_RESULT:
		return t_result(m, in[0], (int)n->n);
	default:
		if (n->code < O_NUM)
			return x_op(m, n->code, n->nin, in, n->type->dtype);
		def = n->code == O_GRAPH && n->def ? rewrite_definition(m, n->def, done) : NULL;
		t = *n;
		t.in = in;
		t.type = def ? def->type : n->type->kind == T_SCALAR ? n->type : map_type(m, n->type, done);
		t.def = NULL;
		t.elems = NULL;
		t.nneeds = 0;
		if (n->nregions) {
			t.regions = NEWN(m, Region *, n->nregions);
			for (i = 0; i < n->nregions; i++)
				t.regions[i] = map_region(m, n->regions[i], done);
		}
		r = node_make(m, t);
		if (def && !r->def) {
			r->def = def;
			if (r->type->kind == T_TENSOR)
				infer_elems(m, r);
		}
	}
	if (n->attrs && r->attrs != n->attrs && r->code == n->code)
		r = node_with(m, r, n->attrs);
	if (!r->loc)
		r->loc = n->loc;
	return r;
}

const Attr no_attrs = {0};

static Node *
annotated(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	const Attr *a = map_get(ctx, n);
	Node *r;

	if (!a)
		return NULL;
	r = node_with(m, rebuild_node(m, n, in, done), a == &no_attrs ? NULL : a);
	if (!r->loc)
		r->loc = n->loc;
	return r;
}

void
annotate(Module *m, Map *attrs)
{
	if (attrs->n)
		rewrite_module(m, false, annotated, attrs);
}

static bool
changed_region(const Node *n, Map *done)
{
	int i, k;

	for (i = 0; i < n->nregions; i++) {
		for (k = 0; k < n->regions[i]->nparams; k++)
			if (map_get(done, n->regions[i]->params[k]) != n->regions[i]->params[k])
				return true;
		for (k = 0; k < n->regions[i]->nresults; k++)
			if (n->regions[i]->results[k]
			 && map_get(done, n->regions[i]->results[k]) != n->regions[i]->results[k])
				return true;
	}
	return false;
}

/* Types of loops, branches and routines mention nodes that nothing else may: visit those first. */
static void
type_roots(Module *m, const Type *t, Vec *v)
{
	int i;

	if (t->kind == T_TENSOR)
		for (i = 0; i < t->rank; i++)
			vec_push(m, v, t->dims[i]);
	else if (t->kind == T_TUPLE)
		for (i = 0; i < t->rank; i++)
			type_roots(m, t->elem[i], v);
}

static Node **
order(Module *m, Region *main, bool defs, int *n)
{
	Vec roots = {0};
	Node **list;
	int i;

	for (i = 0; i < main->nparams; i++) {
		vec_push(m, &roots, main->params[i]);
		type_roots(m, main->params[i]->type, &roots);
	}
	for (i = 0; i < m->requires.n; i++)
		vec_push(m, &roots, ((Require *)m->requires.at[i])->cond);
	for (i = 0; i < main->nresults; i++)
		vec_push(m, &roots, main->results[i]);
	list = topo((Node **)roots.at, roots.n, defs, n);
	for (i = 0, roots.n = 0; i < *n; i++)
		if (list[i]->nregions || list[i]->code == O_PARAM || list[i]->code == O_HOST)
			type_roots(m, list[i]->type, &roots);
	for (i = 0; i < main->nparams; i++)
		vec_push(m, &roots, main->params[i]);
	for (i = 0; i < m->requires.n; i++)
		vec_push(m, &roots, ((Require *)m->requires.at[i])->cond);
	for (i = 0; i < main->nresults; i++)
		vec_push(m, &roots, main->results[i]);
	free(list);
	return topo((Node **)roots.at, roots.n, defs, n);
}

/* The node with what it is made of replaced; fn may be NULL. */
static Node *
rewrite_node(Module *m, Node *n, Map *done, Rewriter *fn, void *ctx)
{
	Node *buf[MAX_IN], **in = n->nin <= MAX_IN ? buf : NEWN(m, Node *, n->nin), *r;
	bool changed = changed_region(n, done);
	int k;

	for (k = 0; k < n->nin; k++) {
		in[k] = n->in[k] ? map_get(done, n->in[k]) : NULL;
		changed |= in[k] != n->in[k];
	}
	if (n->code == O_HOST || n->code == O_PARAM)   /* their sizes are no operands */
		changed |= map_type(m, n->type, done) != n->type;
	if (n->code == O_SYM && n->def)
		n->def = map_get(done, n->def);
	r = fn ? fn(m, n, in, done, ctx) : NULL;
	return r ? r : changed ? rebuild_node(m, n, in, done) : n;
}

/* A definition where the graph alone is rewritten: its operands are done. */
static Node *
rewrite_definition(Module *m, Node *def, Map *done)
{
	Node **list;
	int i, n;

	if (!map_get(done, def)) {
		list = topo(&def, 1, true, &n);
		for (i = 0; i < n; i++)
			if (!map_get(done, list[i]))
				map_put(done, list[i], rewrite_node(m, list[i], done, NULL, NULL));
		free(list);
	}
	return map_get(done, def);
}

void
rewrite_module(Module *m, bool defs, Rewriter *fn, void *ctx)
{
	Node **list;
	Map done = {0};
	Require *q;
	int i, n;

	list = order(m, m->main, defs, &n);
	for (i = 0; i < n; i++)
		if (!map_get(&done, list[i]))
			map_put(&done, list[i], rewrite_node(m, list[i], &done, fn, ctx));
	for (i = 0; i < m->main->nresults; i++)
		m->main->results[i] = map_get(&done, m->main->results[i]);
	for (i = 0; i < m->requires.n; i++) {
		q = m->requires.at[i];
		q->cond = map_get(&done, q->cond);
	}
	free(list);
	map_free(&done);
}

Node *
element_of(Module *m, Node *t, Node *const *idx)
{
	Map map = {0};
	Node *e;
	int i;

	for (i = 0; i < rank_of(t); i++)
		map_put(&map, t->in[i], idx[i]);
	e = subst(m, t->in[t->nin - 1], &map, true);
	map_free(&map);
	return e;
}

Node *
replace_reductions(Module *m, Node *t, Reducer *fn, void *ctx)
{
	Node **list, *r = t, *v;
	Map map = {0};
	int i, n;

	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_REDUCE && (v = fn(m, list[i], ctx)))
			map_put(&map, list[i], v);
	free(list);
	if (map.n) {
		r = t_tensor(m, t->nin - 1, t->in, subst(m, t->in[t->nin - 1], &map, false));
		r->loc = t->loc;
	}
	map_free(&map);
	return r;
}

bool
from_constants(Node *t, int steps)
{
	Node **list;
	int i, n;
	bool ok = t->code == O_TENSOR && steps > 0;

	if (definition(t)->code == O_CONST)
		return true;
	if (!ok)
		return false;
	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n && ok; i++)
		ok = list[i]->code != O_READ || from_constants(list[i]->in[0], steps - 1);
	free(list);
	return ok;
}
