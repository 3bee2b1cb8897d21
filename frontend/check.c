/*
 * The structure of a decoded model: names are defined once and before use (or can be sorted so),
 * graphs produce what they promise, operator sets are known. Reports everything it finds, sets each
 * node's version and leaves every graph's nodes in an order that respects their uses.
 *
 * A name in a subgraph means the innermost definition around it; a subgraph may shadow.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "frontend/frontend.h"

/* Newest known version of each domain that has versions. */
static const OnnxOpset newest[] = {
	{ "", 28 }, { "ai.onnx.ml", 5 }, { "ai.onnx.training", 1 }, { "ai.onnx.preview", 1 },
	{ "ai.onnx.preview.training", 1 },
};
enum { MAX_ERRORS = 100 };   /* a hostile file could have millions */

/* ---- places --------------------------------------------------------------------------------- */

static const char *own_name(const OnnxNode *n)
{
	if (*n->name)
		return n->name;
	for (int i = 0; i < n->nout; i++)
		if (*n->out[i])
			return n->out[i];
	return n->name;
}

/* "block", or "outer/then_branch/block" within subgraphs, "function/block" in a function's body. */
static const char *path_of(OnnxModel *om, const OnnxNode *n)
{
	const OnnxGraph *g = n->graph;

	if (g && g->owner)
		return arena_printf(om->m->arena, "%s/%s/%s", path_of(om, g->owner), g->attr, own_name(n));
	if (g && g->function && !n->call)
		return arena_printf(om->m->arena, "%s/%s", g->function->name, own_name(n));
	return own_name(n);
}

const Loc *node_loc(OnnxModel *om, const OnnxNode *n)
{
	return loc_new(om->m, intern(om->m, path_of(om, n)), n->op, n->index);
}

const char *node_text(OnnxModel *om, const OnnxNode *n)
{
	return arena_printf(om->m->arena, "%s '%s' (node %d)", n->op, path_of(om, n), n->index);
}

void node_error(OnnxModel *om, const OnnxNode *n, int code, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (om->diag->errors >= MAX_ERRORS)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	diag_error(om->diag, code, n ? node_loc(om, n) : NULL, "%s", text);
}

/* An error of a graph as a whole: of the node that holds it, or of the model. */
#define graph_error(om, g, ...) node_error(om, (g)->owner, X_INVALID, __VA_ARGS__)

/* ---- operator sets -------------------------------------------------------------------------- */

static int64_t newest_of(const char *domain)
{
	for (size_t i = 0; i < sizeof newest / sizeof *newest; i++)
		if (!strcmp(newest[i].domain, domain))
			return newest[i].version;
	return 0;
}

static const char *domain_text(const char *domain)
{
	return *domain ? domain : "ai.onnx";
}

static void check_opsets(OnnxModel *om, int n, const OnnxOpset *list)
{
	if (n > ONNX_MAX_LIST)
		diag_error(om->diag, X_INVALID, NULL, "%d operator sets are imported; the limit is %d", n,
			ONNX_MAX_LIST);
	for (int i = 0; i < n && n <= ONNX_MAX_LIST; i++) {
		int64_t max = newest_of(list[i].domain), v = list[i].version;
		if (v < 0 || v > INT32_MAX || (v == 0 && max))
			diag_error(om->diag, X_INVALID, NULL, "opset %" PRId64 " of %s is no version", v,
				domain_text(list[i].domain));
		else if (max && v > max)
			diag_error(om->diag, X_UNSUPPORTED, NULL, "opset %" PRId64 " of %s is newer than the "
				"newest known (%" PRId64 ")", v, domain_text(list[i].domain), max);
	}
}

/* The last import of a domain counts, as elsewhere. */
static bool imported(int n, const OnnxOpset *list, const char *domain, int *version)
{
	for (int i = n < ONNX_MAX_LIST ? n - 1 : -1; i >= 0; i--)
		if (list[i].domain == domain) {
			*version = (int)list[i].version;
			return true;
		}
	return false;
}

/* What is not imported: version 1 in files older than imports (IR version 3), else the newest. */
static int version_of(OnnxModel *om, const OnnxFunction *fn, const char *domain)
{
	int v;

	if ((fn && imported(fn->nopset, fn->opset, domain, &v))
			|| imported(om->nopset, om->opset, domain, &v))
		return v;
	v = om->ir_version < 3 || !newest_of(domain) ? 1 : (int)newest_of(domain);
	if (om->ir_version >= 3 && newest_of(domain))
		diag_warn(om->diag, NULL, "no opset of %s is imported; assuming %d", domain_text(domain),
			v);
	OnnxOpset *list = NEWN(om->m, OnnxOpset, om->nopset + 1);
	memcpy(list + 1, om->opset, sizeof *list * (size_t)om->nopset);
	list[0] = (OnnxOpset){ domain, v };
	om->opset = list;
	om->nopset++;
	return v;
}

/* ---- definitions ---------------------------------------------------------------------------- */

/* Where a value comes from; node NULL: an input or initializer of the graph. */
typedef struct Def { OnnxNode *node; int at; bool input; } Def;

typedef struct Edge { int user, maker; } Edge;

typedef struct Scope Scope;
struct Scope {
	Scope *up;
	OnnxGraph *g;
	Names defs;
	int at;            /* the node being looked at, or within whose subgraph we are */
	Edge *edge;        /* uses of a node's result by another of this graph */
	int nedge, cap;
	bool unsorted;
	bool excuse;       /* a tensor could not be read and was reported: no second message */
};

static void add_edge(OnnxModel *om, Scope *s, int user, int maker)
{
	if (s->nedge == s->cap) {
		Edge *e = NEWN(om->m, Edge, s->cap ? s->cap * 2 : 64);
		if (s->nedge)
			memcpy(e, s->edge, sizeof *e * (size_t)s->nedge);
		s->edge = e;
		s->cap = s->cap ? s->cap * 2 : 64;
	}
	s->edge[s->nedge++] = (Edge){ user, maker };
	s->unsorted |= maker >= user;
}

static void define(OnnxModel *om, Scope *s, const char *name, Def def)
{
	const Def *old = names_get(&s->defs, name);

	if (!old) {
		Def *d = NEW(om->m, Def);
		*d = def;
		names_put(om->m, &s->defs, name, d);
	} else if (def.node)
		node_error(om, def.node, X_INVALID,
			"value \"%s\" is defined a second time; %s defines it too",
			name, old->node ? node_text(om, old->node) : old->input ? "an input"
			: "an initializer");
	else if (!old->input)
		graph_error(om, s->g, "initializer \"%s\" stands twice", name);
	else if (def.input)
		graph_error(om, s->g, "graph input \"%s\" stands twice", name);
}

static void define_all(OnnxModel *om, Scope *s)
{
	OnnxGraph *g = s->g;

	for (int i = 0; i < g->nin; i++) {
		if (*g->in[i].name)
			define(om, s, g->in[i].name, (Def){ .input = true });
		else
			graph_error(om, g, "graph input %d has no name", i);
	}
	Names inits = { 0 };
	for (int i = 0; i < g->ninit; i++) {
		const char *name = g->init[i] ? g->init[i]->name : NULL;
		s->excuse |= !g->init[i];
		if (name && !*name)
			graph_error(om, g, "initializer %d has no name", i);
		if (!name || !*name)
			continue;
		if (names_get(&inits, name))
			graph_error(om, g, "initializer \"%s\" stands twice", name);
		else if (!names_get(&s->defs, name))
			define(om, s, name, (Def){ 0 });
		names_put(om->m, &inits, name, g->init[i]);
	}
	for (int i = 0; i < g->nnode; i++)
		for (int k = 0; k < g->node[i]->nout; k++)
			if (*g->node[i]->out[k])
				define(om, s, g->node[i]->out[k], (Def){ .node = g->node[i], .at = i });
}

/* False if no scope defines it. A use of another node's result is a dependence at the level where
 * that node stands. */
static bool use(OnnxModel *om, Scope *s, const char *name)
{
	for (; s; s = s->up) {
		const Def *d = names_get(&s->defs, name);
		if (d && d->node && s->at < s->g->nnode)
			add_edge(om, s, s->at, d->at);
		if (d)
			return true;
	}
	return false;
}

/* ---- order ---------------------------------------------------------------------------------- */

/* By node: the makers of what it uses are maker[first[i]] to maker[first[i + 1] - 1]. */
typedef struct Uses { int *first, *maker; } Uses;

static Uses uses_of(OnnxModel *om, const Scope *s)
{
	int n = s->g->nnode;
	Uses u = { NEWN(om->m, int, n + 2), NEWN(om->m, int, s->nedge + 1) };

	for (int i = 0; i < s->nedge; i++)
		u.first[s->edge[i].user + 2]++;
	for (int i = 0; i < n; i++)
		u.first[i + 2] += u.first[i + 1];
	for (int i = 0; i < s->nedge; i++)
		u.maker[u.first[s->edge[i].user + 1]++] = s->edge[i].maker;
	return u;
}

/* Depth-first from each node in file order, so that what is in order stays as it is. */
static void sort(OnnxModel *om, Scope *s)
{
	enum { NEW_, OPEN, DONE };
	int n = s->g->nnode, nout = 0;
	Uses u = uses_of(om, s);
	int *next = NEWN(om->m, int, n), *stack = NEWN(om->m, int, n);
	char *state = arena_alloc(om->m->arena, (size_t)n + 1);
	OnnxNode **sorted = NEWN(om->m, OnnxNode *, n);

	for (int root = 0; root < n; root++) {
		int depth = 0;
		if (state[root] != NEW_)
			continue;
		stack[depth++] = root;
		state[root] = OPEN;
		while (depth) {
			int i = stack[depth - 1];
			if (next[i] < u.first[i + 1] - u.first[i]) {
				int k = u.maker[u.first[i] + next[i]++];
				if (state[k] == OPEN)
					node_error(om, s->g->node[i], X_INVALID, "the nodes form a cycle: this one "
						"needs the result of %s, which needs its result",
						node_text(om, s->g->node[k]));
				if (state[k] != NEW_)
					continue;
				state[k] = OPEN;
				stack[depth++] = k;
			} else {
				state[i] = DONE;
				sorted[nout++] = s->g->node[i];
				depth--;
			}
		}
	}
	s->g->node = sorted;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static void check_graph(OnnxModel *, OnnxGraph *, Scope *up);

static bool is_param(const OnnxFunction *fn, const char *name)
{
	for (int i = 0; i < fn->nparam; i++)
		if (fn->param[i].name == name)
			return true;
	return false;
}

static void check_attrs(OnnxModel *om, OnnxNode *n, Scope *s)
{
	const OnnxFunction *fn = n->graph->function;

	if (n->nattr > ONNX_MAX_LIST)
		node_error(om, n, X_INVALID, "%d attributes; the limit is %d", n->nattr, ONNX_MAX_LIST);
	for (int i = 0; i < n->nattr && n->nattr <= ONNX_MAX_LIST; i++) {
		OnnxAttr *a = &n->attr[i];
		for (int k = 0; k < i; k++)
			if (n->attr[k].name == a->name)
				node_error(om, n, X_INVALID, "attribute \"%s\" stands twice", a->name);
		if (*a->ref && !fn)
			node_error(om, n, X_INVALID, "attribute \"%s\" refers to \"%s\", but only a function's "
				"body may refer", a->name, a->ref);
		else if (*a->ref && !is_param(fn, a->ref))
			node_error(om, n, X_INVALID,
				"attribute \"%s\" refers to \"%s\", which function %s does "
				"not have", a->name, a->ref, fn->name);
		for (int k = 0; (a->kind == OA_GRAPH || a->kind == OA_GRAPHS) && k < a->n; k++)
			check_graph(om, a->g[k], s);
	}
}

static void check_node(OnnxModel *om, OnnxNode *n, Scope *s)
{
	if (!*n->op)
		node_error(om, n, X_INVALID, "the node has no operator");
	n->version = version_of(om, n->graph->function, n->domain);
	for (int i = 0; i < n->nin; i++)
		if (*n->in[i] && !use(om, s, n->in[i]) && !s->excuse)
			node_error(om, n, X_INVALID, "value \"%s\" is not defined by any node, input or "
				"initializer", n->in[i]);
	check_attrs(om, n, s);
}

static void check_graph(OnnxModel *om, OnnxGraph *g, Scope *up)
{
	Scope s = { .up = up, .g = g, .excuse = up && up->excuse };

	define_all(om, &s);
	for (s.at = 0; s.at < g->nnode; s.at++)
		check_node(om, g->node[s.at], &s);
	for (int i = 0; i < g->nout; i++) {
		if (!*g->out[i].name)
			graph_error(om, g, "graph output %d has no name", i);
		else if (!use(om, &s, g->out[i].name) && !s.excuse)
			graph_error(om, g, "graph output \"%s\" is not produced", g->out[i].name);
	}
	if (s.unsorted)
		sort(om, &s);
}

/* ---- functions and the model ---------------------------------------------------------------- */

static const char *function_key(OnnxModel *om, const char *domain, const char *name,
	const char *overload)
{
	return intern(om->m, arena_printf(om->m->arena, "%s\n%s\n%s", domain, name, overload));
}

OnnxFunction *function_of(OnnxModel *om, const OnnxNode *n)
{
	return om->nfunction ? names_get(&om->functions,
		function_key(om, n->domain, n->op, n->overload))
		: NULL;
}

static void check_function(OnnxModel *om, OnnxFunction *f)
{
	const char *key = function_key(om, f->domain, f->name, f->overload);

	if (names_get(&om->functions, key))
		diag_error(om->diag, X_INVALID, NULL, "function %s of domain \"%s\" stands twice", f->name,
			f->domain);
	names_put(om->m, &om->functions, key, f);
	if (f->nparam > ONNX_MAX_LIST)
		diag_error(om->diag, X_INVALID, NULL, "function %s has %d attributes; the limit is %d",
			f->name, f->nparam, ONNX_MAX_LIST);
	for (int i = 0; i < f->nparam && f->nparam <= ONNX_MAX_LIST; i++)
		for (int k = 0; k < i; k++)
			if (f->param[i].name == f->param[k].name)
				diag_error(om->diag, X_INVALID, NULL,
					"attribute \"%s\" of function %s stands twice",
					f->param[i].name, f->name);
	check_opsets(om, f->nopset, f->opset);
	check_graph(om, f->body, NULL);
}

bool onnx_check(OnnxModel *om)
{
	if (om->ir_version < 1)
		diag_error(om->diag, X_INVALID, NULL, "not a valid ONNX model: IR version %" PRId64,
			om->ir_version);
	else if (om->ir_version > ONNX_MAX_IR)
		diag_error(om->diag, X_UNSUPPORTED, NULL, "IR version %" PRId64 " is newer than the newest "
			"known (%d)", om->ir_version, ONNX_MAX_IR);
	check_opsets(om, om->nopset, om->opset);
	for (int i = 0; i < om->nfunction; i++)
		check_function(om, &om->function[i]);
	if (om->graph)
		check_graph(om, om->graph, NULL);
	return om->diag->errors == 0;
}
