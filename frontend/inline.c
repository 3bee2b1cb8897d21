/*
 * Model-local functions: every call is replaced by a copy of the body in which inputs and outputs
 * have the caller's names, inner values are called after the path of calls, and attribute
 * references have their values. What a call would grow to is counted first, so that a small file
 * with functions doubling functions is refused without being built.
 */
#include <inttypes.h>
#include <string.h>

#include "frontend/frontend.h"

typedef struct Inliner {
	OnnxModel *om;
	Names used;       /* every name of a value, so that new ones are new */
	Names paths;      /* of calls: how often each was used */
} Inliner;

/* One copy of a body. */
typedef struct Copy Copy;
struct Copy {
	Inliner *in;
	const OnnxNode *call;        /* NULL: a graph handed over as an attribute, copied as it is */
	const OnnxFunction *fn;
	const char *path;            /* prefix of inner names */
	Names names;                 /* body's name to caller's; "" for an operand left out */
	const Copy *up;              /* subgraph: the copy around it */
};

static OnnxGraph *copy_graph(Copy *, const OnnxGraph *, OnnxNode *owner);
static void inline_graph(Inliner *, OnnxGraph *);

static bool holds_graphs(const OnnxAttr *a)
{
	return a->kind == OA_GRAPH || a->kind == OA_GRAPHS;
}

/* ---- how large ------------------------------------------------------------------------------ */

static int64_t count_graph(OnnxModel *, const OnnxGraph *, int depth);

/* Nodes that a call becomes; 0 after an error. */
static int64_t count_function(OnnxModel *om, const OnnxNode *n, OnnxFunction *f, int depth)
{
	if (f->total > 0)
		return f->total;
	if (f->total < 0) {
		node_error(om, n, X_INVALID, "function %s calls itself", f->name);
		return 0;
	}
	f->total = -1;
	f->total = sat_add(count_graph(om, f->body, depth + 1), 1);
	return f->total;
}

/* depth: of subgraphs and calls together; the recursions after this one need no other bound. */
static int64_t count_graph(OnnxModel *om, const OnnxGraph *g, int depth)
{
	int64_t n = g->nnode;

	if (depth > 2 * ONNX_MAX_NEST) {
		diag_error(om->diag, X_INVALID, NULL,
			"functions and subgraphs nested too deeply (limit %d)",
			2 * ONNX_MAX_NEST);
		return 0;
	}

	for (int i = 0; i < g->nnode; i++) {
		const OnnxNode *node = g->node[i];
		OnnxFunction *f = function_of(om, node);
		if (f)
			n = sat_add(n, count_function(om, node, f, depth));
		for (int k = 0; k < node->nattr; k++)
			for (int j = 0; holds_graphs(&node->attr[k]) && j < node->attr[k].n; j++)
				n = sat_add(n, count_graph(om, node->attr[k].g[j], depth + 1));
	}
	return n;
}

static void collect(Inliner *in, const OnnxGraph *g)
{
	Module *m = in->om->m;

	for (int i = 0; i < g->nin; i++)
		names_put(m, &in->used, g->in[i].name, &in->used);
	for (int i = 0; i < g->ninit; i++)
		names_put(m, &in->used, g->init[i]->name, &in->used);
	for (int i = 0; i < g->nnode; i++) {
		const OnnxNode *n = g->node[i];
		for (int k = 0; k < n->nout; k++)
			names_put(m, &in->used, n->out[k], &in->used);
		for (int k = 0; k < n->nattr; k++)
			for (int j = 0; holds_graphs(&n->attr[k]) && j < n->attr[k].n; j++)
				collect(in, n->attr[k].g[j]);
	}
}

/* ---- copying -------------------------------------------------------------------------------- */

static const char *fresh(Copy *c, const char *name)
{
	Module *m = c->in->om->m;
	const char *s = intern(m, arena_printf(m->arena, "%s/%s", c->path, name));

	for (int i = 1; names_get(&c->in->used, s); i++)
		s = intern(m, arena_printf(m->arena, "%s/%s_%d", c->path, name, i));
	names_put(m, &c->in->used, s, c->in);
	return s;
}

static const char *renamed(const Copy *c, const char *name)
{
	for (const Copy *k = c; k; k = k->up) {
		const char *to = names_get(&k->names, name);
		if (to)
			return to;
	}
	return name;
}

/* A definition within the copy gets a new name for the rest of it. */
static const char *defined(Copy *c, const char *name)
{
	if (!c->call || !*name)
		return name;
	const char *to = fresh(c, name);
	names_put(c->in->om->m, &c->names, name, (void *)to);
	return to;
}

static const OnnxAttr *attr_named(int n, const OnnxAttr *list, const char *name)
{
	for (int i = 0; i < n; i++)
		if (list[i].name == name)
			return &list[i];
	return NULL;
}

/* The value of a function's attribute in this call; NULL: left out and without a default. */
static const OnnxAttr *argument(const Copy *c, const char *name)
{
	const OnnxAttr *a = attr_named(c->call->nattr, c->call->attr, name);

	if (!a)
		a = attr_named(c->fn->nparam, c->fn->param, name);
	return a && a->kind != OA_NONE ? a : NULL;
}

/* False if the attribute is left out. Graphs from the caller keep the caller's names. */
static bool copy_attr(Copy *c, const OnnxAttr *a, OnnxNode *node, OnnxAttr *to)
{
	Copy verbatim = { .in = c->in }, *how = c;

	*to = *a;
	if (*a->ref) {
		const OnnxAttr *v = argument(c, a->ref);
		if (v && a->kind != OA_NONE && v->kind != a->kind)
			node_error(c->in->om, c->call, X_INVALID, "attribute \"%s\" has not the type that "
				"function %s uses it with", a->ref, c->fn->name);
		if (!v)
			return false;
		*to = *v;
		to->name = a->name;
		how = &verbatim;
	}
	if (!holds_graphs(to))
		return true;
	to->g = NEWN(c->in->om->m, OnnxGraph *, to->n);
	for (int i = 0; i < to->n; i++) {
		const OnnxGraph *g = *a->ref ? argument(c, a->ref)->g[i] : a->g[i];
		to->g[i] = copy_graph(how, g, node);
		to->g[i]->attr = to->name;
	}
	return true;
}

static OnnxNode *copy_node(Copy *c, const OnnxNode *n, OnnxGraph *g)
{
	Module *m = c->in->om->m;
	OnnxNode *to = arena_dup(m->arena, n, sizeof *n);

	to->graph = g;
	if (c->call) {
		to->call = c->call;
		to->from = c->fn;
		if (*n->name)
			to->name = intern(m, arena_printf(m->arena, "%s/%s", c->path, n->name));
	}
	to->in = NEWN(m, const char *, n->nin);
	for (int i = 0; i < n->nin; i++)
		to->in[i] = renamed(c, n->in[i]);
	to->attr = NEWN(m, OnnxAttr, n->nattr);
	to->nattr = 0;
	for (int i = 0; i < n->nattr; i++)
		to->nattr += copy_attr(c, &n->attr[i], to, &to->attr[to->nattr]);
	to->out = NEWN(m, const char *, n->nout);
	for (int i = 0; i < n->nout; i++)
		to->out[i] = renamed(c, n->out[i]);
	return to;
}

static OnnxGraph *copy_graph(Copy *outer, const OnnxGraph *g, OnnxNode *owner)
{
	Module *m = outer->in->om->m;
	OnnxGraph *to = arena_dup(m->arena, g, sizeof *g);
	Copy inner = *outer, *c = &inner;

	inner.names = (Names){ 0 };
	inner.up = outer;
	to->owner = owner;
	to->in = arena_dup(m->arena, g->in, sizeof *g->in * (size_t)g->nin);
	for (int i = 0; i < g->nin; i++)
		to->in[i].name = defined(c, g->in[i].name);
	to->init = NEWN(m, OnnxTensor *, g->ninit);
	for (int i = 0; i < g->ninit; i++) {
		const char *name = g->init[i]->name;
		to->init[i] = arena_dup(m->arena, g->init[i], sizeof *g->init[i]);
		to->init[i]->name = names_get(&c->names, name) ? renamed(c, name) : defined(c, name);
	}
	for (int i = 0; i < g->nnode; i++)
		for (int k = 0; k < g->node[i]->nout; k++)
			defined(c, g->node[i]->out[k]);
	to->node = NEWN(m, OnnxNode *, g->nnode);
	for (int i = 0; i < g->nnode; i++)
		to->node[i] = copy_node(c, g->node[i], to);
	to->out = arena_dup(m->arena, g->out, sizeof *g->out * (size_t)g->nout);
	for (int i = 0; i < g->nout; i++)
		to->out[i].name = renamed(c, g->out[i].name);
	return to;
}

/* ---- calls ---------------------------------------------------------------------------------- */

static bool call_fits(OnnxModel *om, const OnnxNode *n, const OnnxFunction *f)
{
	int errors = om->diag->errors;

	if (n->nin > f->body->nin)
		node_error(om, n, X_INVALID, "%d inputs, but function %s has %d", n->nin, f->name,
			f->body->nin);
	if (n->nout > f->body->nout)
		node_error(om, n, X_INVALID, "%d outputs, but function %s has %d", n->nout, f->name,
			f->body->nout);
	for (int i = 0; i < n->nattr; i++)
		if (!attr_named(f->nparam, f->param, n->attr[i].name))
			node_error(om, n, X_INVALID, "function %s has no attribute \"%s\"", f->name,
				n->attr[i].name);
	return om->diag->errors == errors;
}

/* An output that no node of its own can be named after: an input, or an output again. */
static OnnxNode *alias(Copy *c, OnnxGraph *g, const char *from, const char *to)
{
	Module *m = c->in->om->m;
	OnnxNode *n = NEW(m, OnnxNode);
	const char **names = NEWN(m, const char *, 2);

	names[0] = from;
	names[1] = to;
	*n = (OnnxNode){
		.op = intern(m, "Identity"), .domain = intern(m, ""), .overload = intern(m, ""),
		.name = intern(m, ""), .nin = 1, .in = names, .nout = 1, .out = names + 1, .version = 1,
		.index = c->call->index, .graph = g, .call = c->call, .from = c->fn,
	};
	return n;
}

static void expand(Copy *c, Vec *list, OnnxGraph *g)
{
	const OnnxNode *call = c->call;
	const OnnxGraph *body = c->fn->body;
	Module *m = c->in->om->m;
	Names outs = { 0 };   /* body's name to the call's output */

	for (int i = 0; i < body->nin; i++)
		names_put(m, &c->names, body->in[i].name,
			(void *)(i < call->nin ? call->in[i] : intern(m, "")));
	for (int i = 0; i < call->nout; i++)
		if (*call->out[i] && !names_get(&outs, body->out[i].name))
			names_put(m, &outs, body->out[i].name, (void *)call->out[i]);
	for (int i = 0; i < body->nnode; i++)
		for (int k = 0; k < body->node[i]->nout; k++) {
			const char *name = body->node[i]->out[k];
			const char *to = *name ? names_get(&outs, name) : NULL;
			if (to)
				names_put(m, &c->names, name, (void *)to);
			else
				defined(c, name);
		}
	for (int i = 0; i < body->nnode; i++)
		vec_push(m, list, copy_node(c, body->node[i], g));
	for (int j = 0; j < call->nout; j++) {
		const char *from = renamed(c, body->out[j].name);
		if (!*from && *call->out[j])
			node_error(c->in->om, call, X_INVALID, "output \"%s\" of function %s is an input that "
				"the call leaves out", body->out[j].name, c->fn->name);
		else if (*call->out[j] && from != call->out[j])
			vec_push(m, list, alias(c, g, from, call->out[j]));
	}
}

/* The call's own name, numbered where several calls share one. */
static const char *call_path(Inliner *in, const OnnxNode *n)
{
	Module *m = in->om->m;
	const char *base = *n->name ? n->name : intern(m, n->op);
	intptr_t times = (intptr_t)names_get(&in->paths, base);

	names_put(m, &in->paths, base, (void *)(times + 1));
	return times ? arena_printf(m->arena, "%s_%d", base, (int)times) : base;
}

static void inline_node(Inliner *in, OnnxNode *n, Vec *list, OnnxGraph *g)
{
	Module *m = in->om->m;
	const OnnxFunction *f = function_of(in->om, n);
	Vec body = { 0 };

	if (!f) {
		vec_push(m, list, n);
		for (int i = 0; i < n->nattr; i++)
			for (int k = 0; holds_graphs(&n->attr[i]) && k < n->attr[i].n; k++)
				inline_graph(in, n->attr[i].g[k]);
		return;
	}
	if (!call_fits(in->om, n, f))
		return;
	Copy c = { .in = in, .call = n, .fn = f, .path = call_path(in, n) };
	expand(&c, &body, g);
	for (int i = 0; i < body.n; i++)
		inline_node(in, body.at[i], list, g);
}

static void inline_graph(Inliner *in, OnnxGraph *g)
{
	Vec list = { 0 };

	for (int i = 0; i < g->nnode; i++)
		inline_node(in, g->node[i], &list, g);
	g->node = (OnnxNode **)list.at;
	g->nnode = list.n;
}

bool onnx_inline(OnnxModel *om)
{
	Inliner in = { .om = om };
	int64_t n;

	if (!om->nfunction)
		return true;
	n = count_graph(om, om->graph, 0);
	if (om->diag->errors)
		return false;
	if (n > ONNX_MAX_NODES) {
		diag_error(om->diag, X_UNSUPPORTED, NULL,
			"the model's functions would grow to more than %d "
			"nodes", ONNX_MAX_NODES);
		return false;
	}
	collect(&in, om->graph);
	inline_graph(&in, om->graph);
	return om->diag->errors == 0;
}
