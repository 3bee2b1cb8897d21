/*
 * Gradient: the part of the graph between the tensors named in xs and zs and that named in y, made
 * again with the node's inputs in their places, as operand of the row that differentiates it.
 */
#include <string.h>

#include "frontend/import.h"

/* The graph's nodes, and names of values: needed for y, depending on xs or zs. */
typedef struct Part {
	Import *im;
	const OnnxNode *node;
	const OnnxGraph *g;
	Names leaves, needed, moves;
} Part;

static const OnnxAttr *attr_of(const OnnxNode *n, const char *name)
{
	for (int i = 0; i < n->nattr; i++)
		if (!strcmp(n->attr[i].name, name))
			return &n->attr[i];
	return NULL;
}

static const char *named(Import *im, const OnnxBytes *s)
{
	return intern(im->m, arena_printf(im->m->arena, "%.*s", (int)s->n, s->p));
}

static bool wrong(Part *p, const char *what, const char *name)
{
	node_error(p->im->om, p->node, X_INVALID, what, name);
	return false;
}

/* xs or zs: values in the order of the inputs; false after reporting. */
static bool bind_leaves(Part *p, const OnnxAttr *a, Node **in, int at, Env *e, Node **variables)
{
	for (int i = 0; a && i < a->n; i++) {
		const char *name = named(p->im, &a->s[i]);
		Node *v = in[at + i];
		if (!v)
			return wrong(p, "the value of \"%s\" is left out", name);
		if (variables) {
			const Attr *attrs = attrs_add(p->im->m, NULL,
				(Attr){ .name = "index", .kind = A_INT, .i = i });
			v = graph_op(p->im->m, op_find("variable"), 1, &v, attrs, 1, 0, NULL,
				node_loc(p->im->om, p->node));
			if (!v)
				return false;
			/* what it is known to be is not to be seen through */
			v->elems = v->def->elems = NULL;
			variables[i] = v;
		}
		names_put(p->im->m, &p->leaves, name, v);
		names_put(p->im->m, &p->moves, name, v);
		env_bind(p->im, e, name, v);
	}
	return true;
}

/* Names that the graphs of a node's attributes take from around them count as its inputs. */
static bool any_input(const OnnxNode *n, bool (*fn)(Part *, const char *), Part *p)
{
	bool yes = false;

	for (int i = 0; i < n->nin; i++)
		yes |= *n->in[i] && fn(p, n->in[i]);
	for (int i = 0; i < n->nattr; i++)
		for (int k = 0; n->attr[i].kind == OA_GRAPH && k < n->attr[i].n; k++) {
			const OnnxGraph *g = n->attr[i].g[k];
			for (int j = 0; j < g->nnode; j++)
				yes |= any_input(g->node[j], fn, p);
			for (int j = 0; j < g->nout; j++)
				yes |= fn(p, g->out[j].name);
		}
	return yes;
}

static bool moves(Part *p, const char *name)
{
	return names_get(&p->moves, name) != NULL;
}

static bool need(Part *p, const char *name)
{
	if (!names_get(&p->leaves, name))
		names_put(p->im->m, &p->needed, name, p);
	return false;
}

static bool gives(const OnnxNode *n, const Names *names)
{
	for (int i = 0; i < n->nout; i++)
		if (*n->out[i] && names_get(names, n->out[i]))
			return true;
	return false;
}

/* The nodes that y needs and that depend on the leaves, in order. */
static OnnxGraph *part_of(Part *p, const char *y)
{
	Module *m = p->im->m;
	OnnxGraph *part = NEW(m, OnnxGraph);
	int all = p->g->nnode;

	*part = *p->g;
	part->nnode = part->ninit = 0;
	part->node = NEWN(m, OnnxNode *, p->g->nnode + 1);
	need(p, y);
	for (int i = all; i-- > 0;)
		if (p->g->node[i] != p->node && gives(p->g->node[i], &p->needed))
			any_input(p->g->node[i], need, p);
	for (int i = 0; i < all; i++) {
		OnnxNode *n = p->g->node[i];
		if (n == p->node || !gives(n, &p->needed) || !any_input(n, moves, p))
			continue;
		for (int k = 0; k < n->nout; k++)
			if (*n->out[k] && !names_get(&p->leaves, n->out[k]))
				names_put(m, &p->moves, n->out[k], n);
		part->node[part->nnode++] = n;
	}
	return part;
}

Node *import_gradient(Import *im, const OnnxNode *n, Node **in, Env *e)
{
	Part p = { .im = im, .node = n, .g = n->graph };
	const OnnxAttr *xs = attr_of(n, "xs"), *zs = attr_of(n, "zs"), *y = attr_of(n, "y");
	int nx = xs && xs->kind == OA_STRINGS ? xs->n : 0,
		nz = zs && zs->kind == OA_STRINGS ? zs->n : 0;
	Node **operands = NEWN(im->m, Node *, nx + 1);
	Env inner = { .up = e };

	for (int i = 0; i < n->nattr; i++)
		if (&n->attr[i] != xs && &n->attr[i] != zs && &n->attr[i] != y) {
			node_error(im->om, n, X_UNSUPPORTED, "unknown attribute '%s'", n->attr[i].name);
			return NULL;
		}
	if (!nx || !y || y->kind != OA_STRING || (zs && zs->kind != OA_STRINGS) || n->nin != nx + nz) {
		node_error(im->om, n, X_INVALID,
			"its %d inputs are not the values of those that xs and zs name,"
			" or y names none", n->nin);
		return NULL;
	}
	if (!bind_leaves(&p, xs, in, 0, &inner, operands + 1)
			|| !bind_leaves(&p, zs, in, nx, &inner, NULL))
		return NULL;
	const char *target = named(im, &y->s[0]);
	int errors = im->om->diag->errors;
	if (!import_nodes(im, part_of(&p, target), &inner, 0, true)) {
		node_error(im->om, n, X_UNSUPPORTED,
			"an If between xs and y is open: fix what it depends on with"
			" --shape or --freeze");
		return NULL;
	}
	operands[0] = env_lookup(&inner, target);
	if (!operands[0] || operands[0] == &poison) {
		if (im->om->diag->errors == errors)
			wrong(&p, "y is \"%s\", which is no tensor of its graph, or follows from it", target);
		return NULL;
	}
	return graph_op(im->m, row_of(n->domain, n->op), nx + 1, operands, NULL, n->nout, 0, NULL,
		node_loc(im->om, n));
}
