/*
 * A checked model to the graph level. Each node becomes one graph_op; a subgraph becomes a region
 * whose nodes refer to what is around it directly. What fails is reported and its results are
 * poisoned: nodes that use them are passed over in silence, so that one run reports every fault of
 * its own and no consequence.
 *
 * Declared shapes of outputs and inner values are never used: exporters get them wrong.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/import.h"

/* An operator without a row: reported once, at its first node, with the number of nodes. */
typedef struct Missing { const OnnxNode *first; int nodes; } Missing;

enum { MAX_WORK = 4 * ONNX_MAX_NODES };

Node poison;

/* ---- values --------------------------------------------------------------------------------- */

Node *env_lookup(const Env *e, const char *name)
{
	for (; e; e = e->up) {
		Node *n = names_get(&e->vals, name);
		if (n)
			return n;
	}
	return NULL;
}

void env_bind(Import *im, Env *e, const char *name, Node *n)
{
	if (*name)
		names_put(im->m, &e->vals, name, n ? n : &poison);
}

static Data *string_data(OnnxModel *om, const OnnxTensor *t, const Loc *loc)
{
	Data *d = data_new(om->m, DT_STRING, t->count, NULL);

	for (int64_t i = 0; i < t->count; i++) {
		const OnnxBytes *s = &t->strings[i];
		if (s->n && memchr(s->p, 0, s->n)) {
			diag_error(om->diag, X_UNSUPPORTED, loc, "string tensor \"%s\": element %" PRId64
				" holds a zero byte", t->name, i);
			return NULL;
		}
		char *copy = arena_alloc(om->m->arena, s->n + 1);
		if (s->n)
			memcpy(copy, s->p, s->n);
		d->strings[i] = copy;
	}
	return d;
}

Node *tensor_node(OnnxModel *om, const OnnxTensor *t, const Loc *loc)
{
	DType d = t ? dtype_of_onnx(t->type) : DT_NONE;
	Data *data;

	if (!t)
		return NULL;
	if (d == DT_NONE || t->rank > MAX_RANK) {
		if (d == DT_NONE)
			diag_error(om->diag, X_UNSUPPORTED, loc, "tensor \"%s\" has element type %s", t->name,
				onnx_type_name(t->type));
		else
			diag_error(om->diag, X_UNSUPPORTED, loc,
			"tensor \"%s\" has %d dimensions; the limit is "
				"%d", t->name, t->rank, MAX_RANK);
		return NULL;
	}
	data = d == DT_STRING ? string_data(om, t, loc)
		: data_new(om->m, d, t->count, t->size ? t->data : NULL);
	if (!data)
		return NULL;
	data->file = t->file;
	data->offset = t->offset;
	return t_const(om->m, d, t->rank, t->dims, data);
}

/* ---- attributes ----------------------------------------------------------------------------- */

/* NULL after reporting: the row's attribute values are C strings. */
static const char *attr_string(Import *im, const Loc *loc, const OnnxAttr *a, int i)
{
	if (a->s[i].n && memchr(a->s[i].p, 0, a->s[i].n)) {
		diag_error(im->om->diag, X_INVALID, loc, "attribute \"%s\" holds a zero byte", a->name);
		return NULL;
	}
	return intern(im->m, arena_printf(im->m->arena, "%.*s", (int)a->s[i].n, a->s[i].p));
}

static bool attr_value(Import *im, const Loc *loc, const OnnxAttr *a, Attr *to)
{
	const char **strs;
	double *fs;

	to->n = a->n;
	switch (a->kind) {
	case OA_INT:
		*to = (Attr){ .name = a->name, .kind = A_INT, .i = a->i[0] };
		return true;
	case OA_FLOAT:
		*to = (Attr){ .name = a->name, .kind = A_FLOAT, .f = a->f[0] };
		return true;
	case OA_STRING:
		*to = (Attr){ .name = a->name, .kind = A_STR, .s = attr_string(im, loc, a, 0) };
		return to->s != NULL;
	case OA_INTS:
		to->kind = A_INTS;
		to->is = a->i;
		return true;
	case OA_FLOATS:
		fs = NEWN(im->m, double, a->n + 1);
		for (int i = 0; i < a->n; i++)
			fs[i] = a->f[i];
		to->kind = A_FLOATS;
		to->fs = fs;
		return true;
	case OA_STRINGS:
		strs = NEWN(im->m, const char *, a->n + 1);
		for (int i = 0; i < a->n; i++)
			if (!(strs[i] = attr_string(im, loc, a, i)))
				return false;
		to->kind = A_STRS;
		to->ss = strs;
		return true;
	case OA_TENSOR:
	case OA_SPARSE:
		*to = (Attr){ .name = a->name, .kind = A_TENSOR, .t = tensor_node(im->om, a->t[0], loc) };
		return to->t != NULL;
	case OA_TYPE:
		*to = (Attr){ .name = a->name, .kind = A_TYPE, .type = value_type(im->om, a->type[0]) };
		if (!to->type)
			diag_error(im->om->diag, X_UNSUPPORTED, loc,
				"attribute \"%s\" is no type that is supported", a->name);
		return to->type != NULL;
	default:
		diag_error(im->om->diag, X_UNSUPPORTED, loc, "attribute \"%s\" is of a kind that is not "
			"supported", a->name);
		return false;
	}
}

static const SigAttr *sig_attr(const Op *op, const char *name)
{
	const Sig *s = op_sig(op);

	for (int i = 0; i < s->nattrs; i++)
		if (!strcmp(s->attrs[i].name, name))
			return &s->attrs[i];
	return NULL;
}

/* An empty list has no kind of its own: some exporters write it as one of integers. */
static bool all_attrs(Import *im, const Form *f, const Op *op, const Attr **list)
{
	bool ok = true;

	*list = NULL;
	for (int i = 0; i < f->nattr; i++) {
		Attr a = { .name = f->attr[i].name };
		const SigAttr *s = sig_attr(op, a.name);
		if (f->attr[i].kind == OA_GRAPH) {
			if (!s || s->kind != A_REGION) {
				diag_error(im->om->diag, X_UNSUPPORTED, f->loc, "unknown attribute '%s'", a.name);
				ok = false;
			}
			continue;
		}
		if (!attr_value(im, f->loc, &f->attr[i], &a)) {
			ok = false;
			continue;
		}
		if (a.kind == A_INTS && a.n == 0 && s && (s->kind == A_FLOATS || s->kind == A_STRS))
			a.kind = s->kind;
		*list = attrs_add(im->m, *list, a);
	}
	return ok;
}

/* ---- regions -------------------------------------------------------------------------------- */

bool bind_initializers(Import *im, const OnnxGraph *g, Env *e)
{
	bool ok = true;

	for (int i = 0; i < g->ninit; i++) {
		Node *n = names_get(&e->vals, g->init[i]->name);
		if (n)
			continue;
		n = tensor_node(im->om, g->init[i], NULL);
		ok &= n != NULL;
		env_bind(im, e, g->init[i]->name, n);
	}
	return ok;
}

/* The results; false if one is poisoned. */
bool add_results(Import *im, const OnnxGraph *g, const Env *e, Region *r)
{
	bool ok = true;

	for (int i = 0; i < g->nout; i++) {
		Node *n = env_lookup(e, g->out[i].name);
		ok &= n && n != &poison;
		if (ok)
			region_add(im->m, r, n);
	}
	return ok;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

const Op *row_of(const char *domain, const char *op)
{
	const Op *row = op_find_onnx(domain, op);

	/* exporters write fused operators into the standard's domain */
	return row || *domain ? row : op_find_onnx("com.microsoft", op);
}

/* The user's operators come first. */
static const Op *any_row(const Import *im, const char *domain, const char *op)
{
	const Op *own = library_find_onnx(im->m, domain, op);

	return own ? own : row_of(domain, op);
}

static void note_missing(Import *im, const OnnxNode *n)
{
	Module *m = im->m;
	const char *key = intern(m, arena_printf(m->arena, "%s:%s-%d", n->domain, n->op, n->version));
	Missing *x = names_get(&im->missing, key);

	if (!x) {
		x = NEW(m, Missing);
		x->first = n;
		names_put(m, &im->missing, key, x);
		vec_push(m, &im->order, x);
	}
	x->nodes++;
}

static bool is_constant(const OnnxNode *n)
{
	return !*n->domain && !strcmp(n->op, "Constant");
}

static bool is_gradient(const OnnxNode *n)
{
	return !strcmp(n->domain, "ai.onnx.preview.training") && !strcmp(n->op, "Gradient");
}

/* Within what is passed over: its operators at least can be told. */
static void note_within(Import *im, const OnnxNode *n)
{
	for (int i = 0; i < n->nattr; i++)
		for (int k = 0; n->attr[i].kind == OA_GRAPH && k < n->attr[i].n; k++) {
			const OnnxGraph *g = n->attr[i].g[k];
			for (int j = 0; j < g->nnode; j++) {
				if (!is_constant(g->node[j])
						&& !any_row(im, g->node[j]->domain, upgraded_name(g->node[j])))
					note_missing(im, g->node[j]);
				note_within(im, g->node[j]);
			}
		}
}

static void report_missing(Import *im)
{
	for (int i = 0; i < im->order.n; i++) {
		const Missing *x = im->order.at[i];
		const OnnxNode *n = x->first;
		diag_error(im->om->diag, X_UNSUPPORTED, node_loc(im->om, n),
			"unknown operator \"%s\" (domain "
			"%s, opset %d)%s", n->op, *n->domain ? n->domain : "ai.onnx", n->version,
			x->nodes > 1 ? arena_printf(im->m->arena, ", in %d nodes", x->nodes) : "");
	}
}

static Node *number_list(Import *im, DType d, int rank, int n, const void *values)
{
	int64_t dim = n;

	return t_const(im->m, d, rank, &dim, data_new(im->m, d, n, values));
}

static Node *constant(Import *im, const OnnxNode *n, const Loc *loc)
{
	const OnnxAttr *a = n->attr;
	bool one;

	if (n->nattr != 1) {
		diag_error(im->om->diag, X_INVALID, loc, "a constant has one attribute, this one %d",
			n->nattr);
		return NULL;
	}
	one = a->kind == OA_FLOAT || a->kind == OA_INT || a->kind == OA_STRING;
	switch (a->kind) {
	case OA_TENSOR:
	case OA_SPARSE:
		return tensor_node(im->om, a->t[0], loc);
	case OA_FLOAT:
	case OA_FLOATS:
		return number_list(im, DT_F32, !one, a->n, a->f);
	case OA_INT:
	case OA_INTS:
		return number_list(im, DT_I64, !one, a->n, a->i);
	case OA_STRING:
	case OA_STRINGS:
		return tensor_node(im->om, &(OnnxTensor){ .name = a->name, .type = 8, .rank = !one,
			.dims = (int64_t[]){ a->n }, .count = a->n, .strings = a->s }, loc);
	default:
		diag_error(im->om->diag, X_INVALID, loc, "attribute \"%s\" is no value of a constant",
			a->name);
		return NULL;
	}
}

static int wanted_outputs(const OnnxNode *n)
{
	int k = n->nout;

	while (k > 1 && !*n->out[k - 1])
		k--;
	return k;
}

Form form_of(Import *im, const OnnxNode *n, Node **in)
{
	Form f = { .om = im->om, .m = im->m, .node = n, .loc = node_loc(im->om, n), .op = n->op,
		.nin = n->nin, .nattr = n->nattr, .nout = wanted_outputs(n) };

	while (f.nin && !in[f.nin - 1])
		f.nin--;
	f.in = NEWN(im->m, Node *, f.nin + FORM_ROOM);
	if (f.nin)
		memcpy(f.in, in, sizeof *in * (size_t)f.nin);
	f.attr = NEWN(im->m, OnnxAttr, f.nattr + FORM_ROOM);
	if (f.nattr)
		memcpy(f.attr, n->attr, sizeof *f.attr * (size_t)f.nattr);
	return f;
}

/* Regions in the order of the row's signature, those that are there; false after reporting. */
static bool all_regions(Import *im, const Form *f, const Op *op, Env *e, int *n, Region **regions)
{
	const Sig *s = op_sig(op);
	int errors = im->om->diag->errors;

	*n = 0;
	if (sig_attr(op, "decoder"))
		return search_regions(im, f, op, e, n, regions);
	for (int i = 0; i < s->nattrs; i++) {
		const OnnxAttr *a = form_attr(f, s->attrs[i].name);
		if (s->attrs[i].kind != A_REGION)
			continue;
		if (!a && !s->attrs[i].required)
			continue;
		if (!a || a->kind != OA_GRAPH) {
			diag_error(im->om->diag, X_INVALID, f->loc, "attribute '%s' must be a graph",
				s->attrs[i].name);
			return false;
		}
		regions[*n] = import_body(im, f, a->g[0], e);
		if (!regions[(*n)++] && im->om->diag->errors == errors)
			return false;   /* an operator is missing within */
	}
	return im->om->diag->errors == errors;
}

/* *fork: it is an open If, and nothing was made. */
static Node *make_node(Import *im, Form *f, Env *e, bool *fork)
{
	const Attr *attrs;
	Region *regions[64];
	int nregions;

	if (!upgrade(f))
		return NULL;
	if (f->result)
		return f->result;
	const Op *own = library_find_onnx(f->m, f->node->domain, f->op);
	const Op *op = own ? own : row_of(f->node->domain, f->op);
	int conditions = im->m->requires.n;
	bool ok = all_attrs(im, f, op, &attrs);
	ok = all_regions(im, f, op, e, &nregions, regions) && ok;
	*fork = ok && !im->settled && nregions == 2 && !strcmp(f->op, "If")
		&& ranks_differ(regions[0], regions[1]);
	if (*fork) {
		im->m->requires.n = conditions;
		im->open = f->node;
		im->open_cond = f->in[0];
		return NULL;
	}
	return ok ? graph_op(im->m, op, f->nin, f->in, attrs, f->nout, nregions, regions, f->loc)
		: NULL;
}

/* ---- graphs --------------------------------------------------------------------------------- */

/* Sizes are 64-bit everywhere behind the frontend. */
static bool fits_64_bits(Import *im, const OnnxNode *n, const char *name, const Node *v)
{
	int64_t count = 1, d;
	bool ok = true;

	if (v->type->kind != T_TENSOR)
		return true;
	for (int i = 0; i < rank_of(v); i++)
		if (is_int(dim_of(v, i), &d))
			ok = (d == 0 || mul_ok(count, d, &count)) && ok;
	ok = ok && mul_ok(count, 128, &d);
	if (!ok)
		node_error(im->om, n, X_INVALID, "tensor \"%s\" is too large: its size overflows 64 bits",
			name);
	return ok;
}

static void bind_results(Import *im, const OnnxNode *n, Node *r, Env *e)
{
	int wanted = wanted_outputs(n);
	bool tuple = r && r->type->kind == T_TUPLE;

	for (int i = 0; i < n->nout; i++) {
		Node *v = NULL;
		if (tuple && i < r->type->rank && i < wanted && r->type->elem[i]->kind != T_VOID)
			v = t_result(im->m, r, i);
		else if (!tuple && i == 0)
			v = r;
		if (r && !v && *n->out[i])
			node_error(im->om, n, X_INVALID, "output %d (\"%s\") does not exist", i, n->out[i]);
		if (v && !fits_64_bits(im, n, n->out[i], v))
			v = NULL;
		env_bind(im, e, n->out[i], v);
	}
}

/* A node that stands for a graph; NULL: what was wrong with it is reported. */
static bool import_expanded(Import *im, const OnnxNode *n, const OnnxGraph *g, Env *e)
{
	for (int i = 0; !g && i < n->nout; i++)
		env_bind(im, e, n->out[i], NULL);
	return !g || import_branch(im, n, g, e);
}

/* False if it is an open If, or holds one. */
static bool import_node(Import *im, const OnnxNode *n, Env *e)
{
	Node **in = NEWN(im->m, Node *, n->nin + 1);
	bool poisoned = false, fork = false;

	for (int i = 0; i < n->nin; i++) {
		in[i] = *n->in[i] ? env_lookup(e, n->in[i]) : NULL;
		poisoned |= in[i] == &poison || (*n->in[i] && !in[i]);
	}
	if (is_constant(n)) {
		Node *c = constant(im, n, node_loc(im->om, n));
		bind_results(im, n, c, e);
		return true;
	}
	const OnnxGraph *branch = poisoned || !n->nin ? NULL : taken_branch(im, n, in[0]);
	if (branch)
		return import_branch(im, n, branch, e);
	if (!poisoned && !*n->domain && !strcmp(n->op, "Scan") && n->version < 9)
		return import_expanded(im, n, scan8_graph(im->om, n), e);
	int64_t rounds;
	const OnnxGraph *body = poisoned ? NULL : body_to_write_out(im, n, in, e, &rounds);
	if (body)
		return import_rounds(im, n, in, body, (int)rounds, e);
	if (!any_row(im, n->domain, upgraded_name(n))) {
		note_missing(im, n);
		poisoned = true;
	}
	Node *r = NULL;
	if (poisoned) {
		note_within(im, n);
	} else if (is_gradient(n)) {
		r = import_gradient(im, n, in, e);
	} else {
		Form f = form_of(im, n, in);
		r = make_node(im, &f, e, &fork);
	}
	if (!fork)
		bind_results(im, n, r, e);
	return !fork;
}

/* inlined: what cannot be chosen here may be where the graph has its place; then false. */
bool import_nodes(Import *im, const OnnxGraph *g, Env *e, int first, bool inlined)
{
	bool settled = im->settled;          /* of a node around this graph */

	for (int i = first; i < g->nnode && *im->work < MAX_WORK; i++) {
		if (++*im->work == MAX_WORK)
			diag_error(im->om->diag, X_BUDGET, NULL,
				"subgraphs nested too deeply: their bodies took "
				"more than %d nodes", MAX_WORK);
		while (!import_node(im, g->node[i], e)) {
			Chosen c = choose_branch(im, g, e, i);
			if (c == CHOSEN_BOTH)
				return true;
			if (c == CHOSEN_NONE && inlined)
				return false;
			im->settled = c == CHOSEN_NONE;
		}
		im->settled = settled;
	}
	return true;
}

/* ---- the model ------------------------------------------------------------------------------ */

static Node *frozen(const ImportOptions *opt, const char *name)
{
	for (int i = 0; i < opt->nfreeze; i++)
		if (!strcmp(opt->freeze[i].name, name))
			return opt->freeze[i].value;
	return NULL;
}

static bool frozen_fits(Import *im, const char *name, const Type *t, const Node *value)
{
	bool ok = t->kind == T_TENSOR && dtype_of(value) == t->dtype && rank_of(value) == t->rank;

	for (int i = 0; ok && i < t->rank; i++) {
		int64_t have, want;
		if (is_int(dim_of(value, i), &have) && is_int(t->dims[i], &want))
			ok = have == want;
	}
	if (!ok)
		diag_error(im->om->diag, X_USAGE, NULL, "--freeze %s: the value's type or shape is not the "
			"input's", name);
	return ok;
}

static void add_param(Import *im, const char *name, const Type *t, int firstdef)
{
	Module *m = im->m;
	Region *r = m->main;
	Node *p = t_param(m, name, t, r->nparams);

	for (int i = firstdef; i < m->symdefs.n; i++)
		((SymDef *)m->symdefs.at[i])->input = r->nparams;
	m->in_names[r->nparams] = name;
	r->params[r->nparams++] = p;
}

static bool import_inputs(Import *im, const ImportOptions *opt, Env *e)
{
	const OnnxGraph *g = im->om->graph;
	ShapeTable *shapes = shapes_new(im->om, opt);
	Module *m = im->m;
	bool ok = true;

	if (!shapes)
		return false;
	m->in_names = NEWN(m, const char *, g->nin + 1);
	m->main->params = NEWN(m, Node *, g->nin + 1);
	for (int i = 0; i < g->nin; i++) {
		const char *name = g->in[i].name;
		Node *value = frozen(opt, name);
		if (!value && is_initializer(g, name)) {
			vec_push(m, &im->om->overridable, (void *)name);
			continue;
		}
		int first = m->symdefs.n;
		const Type *t = shapes_input(shapes, i);
		ok &= t && (!value || frozen_fits(im, name, t, value));
		if (t && !value)
			add_param(im, name, t, first);
		if (value)
			m->symdefs.n = first;
		env_bind(im, e, name, value ? value : t ? m->main->params[m->main->nparams - 1] : NULL);
	}
	for (int i = 0; i < opt->nfreeze; i++)
		if (!env_lookup(e, intern(m, opt->freeze[i].name))) {
			diag_error(im->om->diag, X_USAGE, NULL,
				"--freeze %s: the model has no input of this name",
				opt->freeze[i].name);
			ok = false;
		}
	return ok;
}

/* What the model says of its outputs is not used, but where it is wrong its author may want to
 * know. */
static void compare_declared(Import *im, const OnnxValue *v, const Node *r)
{
	const OnnxType *t = v->type;
	int64_t have;

	if (!t || t->kind != OT_TENSOR || r->type->kind != T_TENSOR)
		return;
	if (t->elem && t->elem != dtypes[dtype_of(r)].onnx)
		diag_warn(im->om->diag, r->loc, "output \"%s\" is declared %s, but is %s", v->name,
			onnx_type_name(t->elem) ? onnx_type_name(t->elem) : "of an unknown type",
			dtypes[dtype_of(r)].text);
	if (t->has_shape && t->rank != rank_of(r))
		diag_warn(im->om->diag, r->loc, "output \"%s\" is declared with %d dimensions, but has %d",
			v->name, t->rank, rank_of(r));
	for (int i = 0; t->has_shape && t->rank == rank_of(r) && i < t->rank; i++)
		if (t->dims[i].value > 0 && is_int(dim_of(r, i), &have) && have != t->dims[i].value)
			diag_warn(im->om->diag, r->loc, "dimension %d of output \"%s\" is declared %" PRId64
				", but is %" PRId64, i, v->name, t->dims[i].value, have);
}

bool onnx_import(OnnxModel *om, const ImportOptions *opt)
{
	static const ImportOptions none;
	int64_t work = 0;
	Import im = { .om = om, .m = om->m, .work = &work };
	Env e = { 0 };
	const OnnxGraph *g = om->graph;
	int errors = om->diag->errors;

	if (!opt)
		opt = &none;
	import_inputs(&im, opt, &e);
	bind_initializers(&im, g, &e);
	import_nodes(&im, g, &e, 0, false);
	om->m->out_names = NEWN(om->m, const char *, g->nout + 1);
	for (int i = 0; i < g->nout; i++)
		om->m->out_names[i] = g->out[i].name;
	bool ok = add_results(&im, g, &e, om->m->main);
	for (int i = 0; ok && om->diag->verbose && i < g->nout; i++)
		compare_declared(&im, &g->out[i], om->m->main->results[i]);
	report_missing(&im);
	if (!ok && om->diag->errors == errors)
		diag_error(om->diag, X_BUG, NULL, "an output cannot be made, and nothing says why; please "
			"report this");
	return om->diag->errors == errors;
}

static const char *stem(Module *m, const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	size_t n = strlen(base);

	if (n > 5 && !strcmp(base + n - 5, ".onnx"))
		n -= 5;
	return intern(m, arena_printf(m->arena, "%.*s", (int)n, base));
}

OnnxModel *onnx_load(Module *m, const char *path, const ImportOptions *opt)
{
	OnnxModel *om = onnx_open(m, path);

	if (!om)
		return NULL;
	m->name = stem(m, path);
	if (onnx_import(om, opt))
		return om;
	onnx_close(om);
	return NULL;
}
