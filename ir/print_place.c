/*
 * Which nodes are lines of their own, in which region and order: see print.c.
 */
#include <stdlib.h>
#include <string.h>

#include "ir/print.h"

enum { INLINE = TEXT_INLINE };

Node *pr_view(P *p, Node *n)
{
	if (p->level == LEVEL_GRAPH || !n || (n->type && n->type->kind == T_SCALAR))
		return n;
	return definition(n);
}

/* A symbol that stands for an expression; at the other levels, definitions and the plan make it. */
bool pr_stands_for(P *p, const Node *n)
{
	return n->code == O_SYM && n->def && p->level == LEVEL_TENSOR;
}

/* At loop level: a host expression over tensors, which the plan computes. */
bool pr_reads(Node *e)
{
	int n;
	bool found = false;
	Node **list = topo_scalar(e, &n);
	for (int i = 0; i < n && !found; i++)
		found = list[i]->code == O_READ;
	free(list);
	return found;
}

/* What n needs: operands, dimensions of its type, attributes. Regions aside. */
static void need(Needs *s, Node *n)
{
	if (!n)
		return;
	if (s->n == s->cap)
		s->at = pr_grow(s->at, sizeof *s->at * (size_t)(s->cap = s->cap ? s->cap * 2 : 32));
	s->at[s->n++] = n;
}

static void need_type(Needs *s, const Type *t)
{
	if (!t)
		return;
	for (int i = 0; t->kind == T_TENSOR && i < t->rank; i++)
		if (t->dims[i]->code != O_NUM)
			need(s, t->dims[i]);
	for (int i = 0; t->elem && i < t->rank; i++)
		need_type(s, t->elem[i]);
}

void pr_needs(P *p, Node *n, Needs *s)
{
	s->n = 0;
	for (int i = 0; i < n->nin; i++)
		if (n->code != O_BUFFER || !pr_reads(n->in[i]))
			need(s, pr_view(p, n->in[i]));
	for (const Attr *a = n->attrs; a; a = a->next)
		if (a->kind == A_TENSOR)
			need(s, pr_view(p, a->t));
	if (pr_stands_for(p, n))
		need(s, n->def);
	/* the types of operators follow from their operands */
	if (n->code != O_GRAPH && n->code != O_RESULT && n->type && n->type->kind != T_SCALAR)
		need_type(s, n->type);
}

static bool open_scalar(P *p, Node *n)
{
	if (n->code == O_AXIS || n->code == O_CARRY || n->code == O_LET || n->code == O_CALL ||
			n->code == O_LOAD || n->code == O_FOLD)
		return true;
	for (int i = 0; i < n->nin; i++)
		if (n->in[i] && n->in[i]->type->kind == T_SCALAR && !map_get(&p->closed, n->in[i]))
			return true;
	return false;
}

bool pr_is_line(P *p, Node *n)
{
	if (pr_stands_for(p, n))
		return true;
	if (n->type && n->type->kind == T_SCALAR)
		return n->size > INLINE && map_get(&p->closed, n);
	return n->code != O_PARAM && n->code != O_RESULT && n->code != O_BUFFER &&
		(n->code < O_BUFFER || n->code == O_GRAPH);
}

/* All that the roots need, needs first, regions' contents before their owner. */
void pr_collect(P *p, Walk *w, Node *root)
{
	typedef struct Frame { Node *n, **kids; int nkids, next; } Frame;
	int depth = 0, cap = 64;
	Frame *stack = pr_grow(NULL, sizeof *stack * (size_t)cap);
	Node *n = pr_view(p, root);
	while (n || depth) {
		if (n && !map_get(&w->seen, n)) {
			map_put(&w->seen, n, n);
			pr_needs(p, n, &w->needs);
			for (int r = 0; r < n->nregions; r++) {
				for (int i = 0; i < n->regions[r]->nparams; i++)
					need(&w->needs, n->regions[r]->params[i]);
				for (int i = 0; i < n->regions[r]->nresults; i++)
					need(&w->needs, pr_view(p, n->regions[r]->results[i]));
			}
			if (depth == cap)
				stack = pr_grow(stack, sizeof *stack * (size_t)(cap *= 2));
			Node **kids = pr_grow(NULL, sizeof *kids * (size_t)w->needs.n);
			for (int i = 0; i < w->needs.n; i++)
				kids[i] = w->needs.at[i];
			stack[depth++] = (Frame){ n, kids, w->needs.n, 0 };
		}
		n = NULL;
		if (!depth)
			break;
		Frame *f = &stack[depth - 1];
		if (f->next < f->nkids) {
			n = f->kids[f->next++];
			continue;
		}
		if (f->n->type && f->n->type->kind == T_SCALAR && !open_scalar(p, f->n))
			map_put(&p->closed, f->n, f->n);
		vec_push(p->m, &w->list, f->n);
		free(f->kids);
		depth--;
	}
	free(stack);
}

typedef struct RegionAt { Region *parent; int depth; } RegionAt;

typedef struct Places {
	Map at;                /* by a node of the region -> ... */
	Region **r; RegionAt *info; int n, cap;
} Places;

static RegionAt *region_at(Places *s, const Region *r)
{
	for (int i = s->n; i-- > 0;)
		if (s->r[i] == r)
			return &s->info[i];
	return NULL;
}

static void region_put(Places *s, Region *r, Region *parent)
{
	if (region_at(s, r))
		return;
	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 16;
		s->r = pr_grow(s->r, sizeof *s->r * (size_t)s->cap);
		s->info = pr_grow(s->info, sizeof *s->info * (size_t)s->cap);
	}
	s->r[s->n] = r;
	s->info[s->n++] = (RegionAt){ parent, parent ? region_at(s, parent)->depth + 1 : 0 };
}

static Region *common_region(Places *s, Region *a, Region *b)
{
	while (a != b) {
		RegionAt *x = region_at(s, a), *y = region_at(s, b);
		if (!x || !y)
			return a;
		if (x->depth >= y->depth && x->parent)
			a = x->parent;
		else
			b = y->parent;
	}
	return a;
}

static void used_in(P *p, Places *s, Node *n, Region *r)
{
	Region *old = map_get(&p->home, n);
	if (!r)
		return;
	map_put(&p->home, n, old ? common_region(s, old, r) : r);
}

/* Lines to their regions: users come later in the list, so backwards. */
void pr_place(P *p, Walk *w)
{
	Places s = { 0 };
	region_put(&s, p->m->main, NULL);
	for (int i = w->list.n; i-- > 0;) {
		Node *n = w->list.at[i];
		Region *r = map_get(&p->home, n);
		if (n->code == O_PARAM)
			continue;
		if (!r)
			r = p->m->main;
		map_put(&p->home, n, r);
		for (int k = 0; k < n->nregions; k++) {
			Region *in = n->regions[k];
			region_put(&s, in, r);
			for (int q = 0; q < in->nresults; q++)
				if (in->results[q])
					used_in(p, &s, pr_view(p, in->results[q]), in);
			for (int q = 0; q < in->nparams; q++) {
				w->needs.n = 0;
				need_type(&w->needs, in->params[q]->type);
				for (int j = 0; j < w->needs.n; j++)
					used_in(p, &s, w->needs.at[j], r);
			}
		}
		pr_needs(p, n, &w->needs);
		for (int k = 0; k < w->needs.n; k++)
			used_in(p, &s, w->needs.at[k], r);
	}
	free(s.r);
	free(s.info);
}
