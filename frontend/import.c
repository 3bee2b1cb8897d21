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

#include "frontend/frontend.h"

/* An operator without a row: reported once, at its first node, with the number of nodes. */
typedef struct Missing { const OnnxNode *first; int nodes; } Missing;

typedef struct Env Env;
struct Env {
	Names vals;      /* name to Node, or to poison */
	Env *up;
};

/* Which branch an If takes that is open: its branches differ in rank. */
typedef struct Choice Choice;
struct Choice { const OnnxNode *node; bool yes; const Choice *next; };

typedef struct Import {
	OnnxModel *om;
	Module *m;
	Names missing;   /* "domain:op-version" to Missing */
	Vec order;       /* of Missing */
	int64_t *work;   /* nodes imported: bodies within bodies are made several times */
	int forks;       /* attempts around this one: see choose_branch */
	bool settled;    /* no choice was found: the row may say what is wrong */
	const Choice *choices;
	const OnnxNode *open;   /* the open If that stopped an import, and its condition */
	Node *open_cond;
} Import;

enum { MAX_WORK = 4 * ONNX_MAX_NODES };

static Node poison;

/* ---- values --------------------------------------------------------------------------------- */

static Node *lookup(const Env *e, const char *name)
{
	for (; e; e = e->up) {
		Node *n = names_get(&e->vals, name);
		if (n)
			return n;
	}
	return NULL;
}

static void bind(Import *im, Env *e, const char *name, Node *n)
{
	if (*name)
		names_put(im->m, &e->vals, name, n ? n : &poison);
}

static uint64_t hash_string(uint64_t h, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
	return (h ^ 0xff) * 0x100000001b3u;
}

static Data *string_data(OnnxModel *om, const OnnxTensor *t, const Loc *loc)
{
	Data *d = data_new(om->m, DT_STRING, t->count, NULL);
	uint64_t h = 0xcbf29ce484222325u;

	d->strings = NEWN(om->m, const char *, t->count + 1);
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
		h = hash_string(h, s->p, s->n);
	}
	d->hash = h | 1;
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
			diag_error(om->diag, X_UNSUPPORTED, loc, "tensor \"%s\" has %d dimensions; the limit is "
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
			diag_error(im->om->diag, X_UNSUPPORTED, loc, "attribute \"%s\" is no type that is supported", a->name);
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

static bool import_from(Import *, const OnnxGraph *, Env *, int first, bool inlined);

static bool bind_initializers(Import *im, const OnnxGraph *g, Env *e)
{
	bool ok = true;

	for (int i = 0; i < g->ninit; i++) {
		Node *n = names_get(&e->vals, g->init[i]->name);
		if (n)
			continue;
		n = tensor_node(im->om, g->init[i], NULL);
		ok &= n != NULL;
		bind(im, e, g->init[i]->name, n);
	}
	return ok;
}

/* The results; false if one is poisoned. */
static bool add_results(Import *im, const OnnxGraph *g, const Env *e, Region *r)
{
	bool ok = true;

	for (int i = 0; i < g->nout; i++) {
		Node *n = lookup(e, g->out[i].name);
		ok &= n && n != &poison;
		if (ok)
			region_add(im->m, r, n);
	}
	return ok;
}

/*
 * How an operator's subgraph relates to its operands.
 *   lead: inputs before the operands'; skip: operands before those that are carried
 *   carried parameters may change their shape from round to round
 *   scans: the last inputs are slices of operands, made from the number of the round
 */
typedef struct BodyForm {
	int lead, skip, carried, scans;
	bool maps;           /* inputs are elements of those operands that are sequences */
	const Type **types;  /* of the inputs; `holds`: a condition that is true whenever the body runs */
	Node *const *in;
	const OnnxAttr *axes, *backward;
	const Loc *loc;
} BodyForm;

static const Type holds;

static int64_t list_entry(const OnnxAttr *a, int i)
{
	return a && a->kind == OA_INTS && i < a->n ? a->i[i] : 0;
}

/* The slice of operand i that a round sees. */
static Node *scan_slice(Import *im, const BodyForm *b, int i, Node *round)
{
	int k = i - b->carried;
	int64_t axis = list_entry(b->axes, k);

	axis += axis < 0 ? rank_of(b->in[i]) : 0;
	return scan_element(im->m, b->in[i], (int)axis, round, list_entry(b->backward, k) != 0);
}

/* NULL after reporting. */
static Region *import_region(Import *im, const OnnxGraph *g, Env *up, const BodyForm *b)
{
	Env e = { .up = up };
	Region *r = region_new(im->m, g->attr);
	int n = 0;

	r->params = NEWN(im->m, Node *, g->nin + 2);
	if (b->scans || b->maps)
		r->params[n++] = t_param(im->m, "round", ty_tensor(im->m, DT_I64, 0, NULL), 0);
	for (int i = 0; i < g->nin; i++) {
		Node *v;
		if (b->types[i] == &holds)
			v = t_scalar(im->m, DT_BOOL, (Num){ .i = 1 });
		else if (b->scans && i >= b->carried)
			v = scan_slice(im, b, i, r->params[0]);
		else if (b->maps)
			v = b->in[i]->type->kind != T_SEQ ? b->in[i] : graph_op(im->m, row_of("", "SequenceAt"), 2,
				(Node *[]){ b->in[i], r->params[0] }, NULL, 1, 0, NULL, b->loc);
		else
			v = r->params[n] = t_param(im->m, g->in[i].name, b->types[i], n), n++;
		if (!v)
			return NULL;
		bind(im, &e, g->in[i].name, v);
	}
	r->nparams = n;
	if (!bind_initializers(im, g, &e))
		return NULL;
	import_from(im, g, &e, 0, false);
	return add_results(im, g, &e, r) ? r : NULL;
}

/* A tensor's type with one dimension gone (axis from either end); NULL if it has not that many. */
static const Type *without_axis(Module *m, const Type *t, int64_t axis)
{
	Node *dims[MAX_RANK];
	int n = 0;

	axis += axis < 0 ? t->rank : 0;
	if (t->kind != T_TENSOR || axis < 0 || axis >= t->rank)
		return NULL;
	for (int i = 0; i < t->rank; i++)
		if (i != axis)
			dims[n++] = t->dims[i];
	return ty_tensor(m, t->dtype, n, dims);
}

static const OnnxAttr *form_attr(const Form *f, const char *name)
{
	for (int i = 0; i < f->nattr; i++)
		if (!strcmp(f->attr[i].name, name))
			return &f->attr[i];
	return NULL;
}

static bool fits_count(Import *im, const Form *f, const OnnxGraph *g, int want)
{
	if (g->nin == want)
		return true;
	diag_error(im->om->diag, X_INVALID, f->loc, "its %s has %d inputs, expected %d", g->attr, g->nin,
		want);
	return false;
}

static bool loop_types(Import *im, const Form *f, const OnnxGraph *g, BodyForm *b)
{
	b->lead = 2;
	b->skip = 2;
	b->carried = f->nin > 2 ? f->nin - 2 : 0;
	if (!fits_count(im, f, g, 2 + b->carried))
		return false;
	b->types[0] = ty_tensor(im->m, DT_I64, 0, NULL);
	b->types[1] = &holds;
	for (int i = 2; i < f->nin; i++)
		b->types[i] = f->in[i] ? f->in[i]->type : NULL;
	return true;
}

static bool scan_types(Import *im, const Form *f, const OnnxGraph *g, BodyForm *b)
{
	const OnnxAttr *n = form_attr(f, "num_scan_inputs"), *axes = form_attr(f, "scan_input_axes");
	int64_t scans = n && n->kind == OA_INT ? n->i[0] : -1;

	if (scans < 0 || scans > f->nin) {
		diag_error(im->om->diag, X_INVALID, f->loc, "num_scan_inputs does not fit %d inputs", f->nin);
		return false;
	}
	if (!fits_count(im, f, g, f->nin))
		return false;
	b->carried = f->nin - (int)scans;
	b->scans = (int)scans;
	b->axes = axes;
	b->backward = form_attr(f, "scan_input_directions");
	for (int i = 0; i < f->nin; i++) {
		int k = i - b->carried;
		int64_t axis = k < 0 ? 0 : list_entry(axes, k);
		b->types[i] = !f->in[i] ? NULL : k < 0 ? f->in[i]->type
			: without_axis(im->m, f->in[i]->type, axis);
		if (f->in[i] && !b->types[i]) {
			diag_error(im->om->diag, X_INVALID, f->loc, "scan input %d has no axis %" PRId64, k, axis);
			return false;
		}
	}
	return true;
}

static bool map_types(Import *im, const Form *f, const OnnxGraph *g, BodyForm *b)
{
	if (!fits_count(im, f, g, f->nin))
		return false;
	b->maps = true;
	for (int i = 0; i < f->nin; i++)
		b->types[i] = f->in[i] ? f->in[i]->type : NULL;
	return true;
}

/* Both graphs of FlexAttention take [batch, heads, queries, keys] in the softmax's type. */
static bool flex_types(Import *im, const Form *f, const OnnxGraph *g, BodyForm *b)
{
	const OnnxAttr *p = form_attr(f, "softmax_precision");
	Node *q = f->nin > 1 ? f->in[0] : NULL, *k = f->nin > 1 ? f->in[1] : NULL;

	if (!fits_count(im, f, g, 1))
		return false;
	if (!q || !k || q->type->kind != T_TENSOR || k->type->kind != T_TENSOR || rank_of(q) != 4 || rank_of(k) != 4)
		return true;                 /* an operand that is missing or unfit is reported */
	Node *dims[4] = { dim_of(q, 0), dim_of(q, 1), dim_of(q, 2), dim_of(k, 2) };
	DType d = p && p->kind == OA_INT ? dtype_of_onnx((int)p->i[0]) : dt_small(dtype_of(q)) ? DT_F32 : dtype_of(q);
	b->types[0] = ty_tensor(im->m, d, 4, dims);
	return true;
}

/* Types of the subgraph's parameters as the operands say them. */
static bool body_types(Import *im, const Form *f, const OnnxGraph *g, BodyForm *b)
{
	bool ok = true;

	*b = (BodyForm){ .in = f->in, .loc = f->loc, .types = NEWN(im->m, const Type *, f->nin + g->nin + 2) };
	if (!strcmp(f->op, "Loop"))
		ok = loop_types(im, f, g, b);
	else if (!strcmp(f->op, "Scan"))
		ok = scan_types(im, f, g, b);
	else if (!strcmp(f->op, "SequenceMap"))
		ok = map_types(im, f, g, b);
	else if (!strcmp(f->op, "FlexAttention"))
		ok = flex_types(im, f, g, b);
	else
		ok = fits_count(im, f, g, 0);
	for (int i = 0; ok && i < g->nin; i++)
		if (!b->types[i]) {
			diag_error(im->om->diag, X_INVALID, f->loc, "an operand of its %s is left out", g->attr);
			ok = false;
		}
	return ok;
}

/* A carried sequence's type for every round. */
static const Type *widened(Module *m, const Type *in, const Type *out)
{
	if (in->kind == T_OPTIONAL && out->kind == T_SEQ)
		out = ty_of(m, T_OPTIONAL, DT_NONE, out);
	const Type *t = ty_join(m, in, out);
	return t ? t : in;           /* the row says what it thinks of that */
}

/* Where a carried value comes out in another size than it went in, its size becomes a symbol of
 * the body. True if something changed, so that the body must be made again. */
static bool generalize(Import *im, const Region *r, const BodyForm *b)
{
	Module *m = im->m;
	bool changed = false;
	int first = b->lead ? 1 : 0;   /* a loop's first result is its condition */

	for (int i = 0; i < b->carried && first + i < r->nresults; i++) {
		const Type *in = b->types[b->lead + i], *out = r->results[first + i]->type;
		Node *dims[MAX_RANK];
		bool differs = false;
		if (in->kind != T_TENSOR) {
			const Type *t = widened(m, in, out);
			changed |= t != in;
			b->types[b->lead + i] = t;
			continue;
		}
		if (in->kind != T_TENSOR || out->kind != T_TENSOR || in->rank != out->rank)
			continue;   /* the row says what it thinks of that */
		for (int d = 0; d < in->rank; d++) {
			bool freed = in->dims[d] != b->in[b->skip + i]->type->dims[d];
			bool same = freed || in->dims[d] == out->dims[d] || prove_eq(m, in->dims[d], out->dims[d]);
			dims[d] = same ? in->dims[d] : x_sym(m, NULL, 0, INT32_MAX);
			differs |= !same;
		}
		if (!differs)
			continue;
		b->types[b->lead + i] = ty_tensor(m, in->dtype, in->rank, dims);
		changed = true;
	}
	return changed;
}

/* Makes the body without a sound. NULL if anything is wrong with it. */
static Region *try_region(Import *im, const OnnxGraph *g, Env *e, const BodyForm *b)
{
	Diag *d = im->om->diag, quiet = *d;
	Import attempt = *im;

	quiet.out = NULL;
	quiet.sink = NULL;
	quiet.quiet = true;
	attempt.missing = (Names){ 0 };
	attempt.order = (Vec){ 0 };
	im->om->diag = im->m->diag = &quiet;
	Region *r = import_region(&attempt, g, e, b);
	im->om->diag = im->m->diag = d;
	return attempt.order.n == 0 && quiet.errors == d->errors ? r : NULL;
}

/* A body that carries values is made again until its types hold for every round: each time at
 * least one of their dimensions is set free, so it ends. */
static Region *import_body(Import *im, const Form *f, const OnnxGraph *g, Env *e)
{
	BodyForm b;
	Region *r;

	if (!body_types(im, f, g, &b))
		return NULL;
	for (;;) {
		int conditions = im->m->requires.n;
		r = b.carried ? try_region(im, g, e, &b) : NULL;
		if (!r)
			r = import_region(im, g, e, &b);
		else if (generalize(im, r, &b)) {
			im->m->requires.n = conditions;   /* they were about types that do not hold */
			continue;
		}
		region_requires(im->m, conditions, strcmp(f->op, "If") ? NULL : f->in[0],
			!strcmp(g->attr, "then_branch"));
		return r;
	}
}

/* ---- nodes ---------------------------------------------------------------------------------- */

const Op *row_of(const char *domain, const char *op)
{
	const Op *row = op_find_onnx(domain, op);

	/* exporters write fused operators into the standard's domain */
	return row || *domain ? row : op_find_onnx("com.microsoft", op);
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

/* Within what is passed over: its operators at least can be told. */
static void note_within(Import *im, const OnnxNode *n)
{
	for (int i = 0; i < n->nattr; i++)
		for (int k = 0; n->attr[i].kind == OA_GRAPH && k < n->attr[i].n; k++) {
			const OnnxGraph *g = n->attr[i].g[k];
			for (int j = 0; j < g->nnode; j++) {
				if (!is_constant(g->node[j])
						&& !row_of(g->node[j]->domain, upgraded_name(g->node[j])))
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
		diag_error(im->om->diag, X_UNSUPPORTED, node_loc(im->om, n), "unknown operator \"%s\" (domain "
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
		diag_error(im->om->diag, X_INVALID, loc, "a constant has one attribute, this one %d", n->nattr);
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
		diag_error(im->om->diag, X_INVALID, loc, "attribute \"%s\" is no value of a constant", a->name);
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

static Form form_of(Import *im, const OnnxNode *n, Node **in)
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
	for (int i = 0; i < s->nattrs; i++) {
		const OnnxAttr *a = form_attr(f, s->attrs[i].name);
		if (s->attrs[i].kind != A_REGION)
			continue;
		if (!a && !s->attrs[i].required)
			continue;
		if (!a || a->kind != OA_GRAPH) {
			diag_error(im->om->diag, X_INVALID, f->loc, "attribute '%s' must be a graph", s->attrs[i].name);
			return false;
		}
		regions[*n] = import_body(im, f, a->g[0], e);
		if (!regions[(*n)++] && im->om->diag->errors == errors)
			return false;   /* an operator is missing within */
	}
	return im->om->diag->errors == errors;
}

static bool ranks_differ(const Region *a, const Region *b)
{
	for (int i = 0; i < a->nresults && i < b->nresults; i++) {
		const Type *s = a->results[i]->type, *t = b->results[i]->type;
		if (s->kind == T_TENSOR && t->kind == T_TENSOR && s->rank != t->rank)
			return true;
	}
	return false;
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
	const Op *op = row_of(f->node->domain, f->op);
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
	return ok ? graph_op(im->m, op, f->nin, f->in, attrs, f->nout, nregions, regions, f->loc) : NULL;
}

/* ---- conditions known at compile time ------------------------------------------------------- */

static const OnnxGraph *branch_of(const OnnxNode *n, bool yes)
{
	for (int i = 0; i < n->nattr; i++)
		if (n->attr[i].kind == OA_GRAPH
				&& !strcmp(n->attr[i].name, yes ? "then_branch" : "else_branch"))
			return n->attr[i].g[0];
	return NULL;
}

/* The value of a tensor's only element, if it is known. */
static bool element_known(Import *im, Node *t, int64_t *v)
{
	Node *zero[MAX_RANK];

	if (t->type->kind != T_TENSOR)
		return false;
	for (int i = 0; i < rank_of(t); i++) {
		if (!is_intv(dim_of(t, i), 1))
			return false;
		zero[i] = x_idx(im->m, 0);
	}
	return is_int(x_read(im->m, t, zero), v);
}

/* The branch that an If takes, if that is known; the other one may be nonsense for these shapes. */
static const OnnxGraph *taken_branch(Import *im, const OnnxNode *n, Node *cond)
{
	const Choice *c;
	int64_t v;

	for (c = im->choices; c; c = c->next)
		if (c->node == n)
			return branch_of(n, c->yes);
	if (*n->domain || strcmp(n->op, "If") || !cond || cond->type->kind != T_TENSOR
			|| dtype_of(cond) != DT_BOOL || !element_known(im, cond, &v))
		return NULL;
	const OnnxGraph *g = branch_of(n, v != 0);
	return g && g->nin == 0 ? g : NULL;
}

/* False: an If in it is open. */
static bool import_branch(Import *im, const OnnxNode *n, const OnnxGraph *g, Env *e)
{
	Env inner = { .up = e };

	bind_initializers(im, g, &inner);
	if (!import_from(im, g, &inner, 0, true))
		return false;
	for (int i = 0; i < n->nout; i++)
		bind(im, e, n->out[i], i < g->nout ? lookup(&inner, g->out[i].name) : NULL);
	if (n->nout > g->nout)
		node_error(im->om, n, X_INVALID, "it has %d outputs, its %s %d", n->nout, g->attr, g->nout);
	return true;
}

/* ---- loops that are not the same from round to round ----------------------------------------- */

enum { MAX_ROUNDS = 64, MAX_ROUND_NODES = 4096 };

/* One body for all rounds, with the carried values' ranks kept? */
static bool rounds_agree(Import *im, const Form *f, const OnnxGraph *g, Env *e)
{
	BodyForm b;
	int conditions = im->m->requires.n;
	Region *r = body_types(im, f, g, &b) ? try_region(im, g, e, &b) : NULL;
	bool agree = r != NULL;

	im->m->requires.n = conditions;
	for (int i = 0; agree && i < b.carried && i + 1 < r->nresults; i++) {
		const Type *t = b.types[2 + i], *u = r->results[1 + i]->type;
		agree = t->kind != T_TENSOR || u->kind != T_TENSOR || t->rank == u->rank;
	}
	return agree;
}

/*
 * The body of a loop that is written out: its few rounds are known, and their values differ in rank
 * or shape arithmetic needs the round's number (exporters write strided views so). NULL for others.
 */
static const OnnxGraph *body_to_write_out(Import *im, const OnnxNode *n, Node **in, Env *e, int64_t *rounds)
{
	int64_t go = 1;

	if (*n->domain || strcmp(n->op, "Loop") || n->nin < 2 || !in[0] || !element_known(im, in[0], rounds)
			|| (in[1] && !element_known(im, in[1], &go)) || !go)
		return NULL;
	Form f = form_of(im, n, in);
	const OnnxAttr *a = form_attr(&f, "body");
	if (!a || a->kind != OA_GRAPH || *rounds < 1 || *rounds > MAX_ROUNDS
			|| a->g[0]->nnode * *rounds > MAX_ROUND_NODES || a->g[0]->nin != n->nin
			|| a->g[0]->nout < n->nin - 1 || !upgrade(&f) || f.nin != n->nin)
		return NULL;
	return rounds_agree(im, &f, a->g[0], e) ? NULL : a->g[0];
}

/* What the rounds gave, stacked. */
static Node *stacked(Import *im, Node **each, int rounds, const Loc *loc)
{
	const Attr *attrs = attrs_add(im->m, NULL, (Attr){ .name = "axis", .kind = A_INT });
	Node *all = graph_op(im->m, row_of("", "SequenceConstruct"), rounds, each, NULL, 1, 0, NULL, loc);

	attrs = attrs_add(im->m, attrs, (Attr){ .name = "new_axis", .kind = A_INT, .i = 1 });
	return all ? graph_op(im->m, row_of("", "ConcatFromSequence"), 1, &all, attrs, 1, 0, NULL, loc) : NULL;
}

/* False: an If in it is open. */
static bool import_rounds(Import *im, const OnnxNode *n, Node **in, const OnnxGraph *g, int rounds, Env *e)
{
	int carried = n->nin - 2, scans = g->nout - 1 - carried, max = rounds;
	Node **value = NEWN(im->m, Node *, n->nin), **each = NEWN(im->m, Node *, scans * rounds + 1);
	const Loc *loc = node_loc(im->om, n);
	int64_t go = 1;

	memcpy(value, in, sizeof *in * (size_t)n->nin);
	for (int r = 0; r < rounds && go; r++) {
		Env round = { .up = e };
		value[0] = t_scalar(im->m, DT_I64, (Num){ .i = r });
		value[1] = t_scalar(im->m, DT_BOOL, (Num){ .i = 1 });
		for (int i = 0; i < g->nin; i++)
			bind(im, &round, g->in[i].name, value[i]);
		bind_initializers(im, g, &round);
		if (!import_from(im, g, &round, 0, true))
			return false;
		for (int i = 0; i < g->nout; i++) {
			Node *v = lookup(&round, g->out[i].name);
			if (!v || v == &poison)
				rounds = 0;
			else if (i <= carried)
				value[1 + i] = v;
			else
				each[(i - 1 - carried) * max + r] = v;
		}
		if (rounds && !element_known(im, value[1], &go)) {
			diag_error(im->om->diag, X_UNSUPPORTED, loc, "its rounds differ in shape, and how many there "
				"are is known only at run time");
			rounds = 0;
		}
		if (!go)
			rounds = r + 1;
	}
	for (int i = 0; i < n->nout; i++)
		bind(im, e, n->out[i], !rounds ? NULL : i < carried ? value[2 + i]
			: i < carried + scans ? stacked(im, each + (i - carried) * max, rounds, loc) : NULL);
	return true;
}

/* A node that stands for a graph; NULL: what was wrong with it is reported. */
static bool import_expanded(Import *im, const OnnxNode *n, const OnnxGraph *g, Env *e)
{
	for (int i = 0; !g && i < n->nout; i++)
		bind(im, e, n->out[i], NULL);
	return !g || import_branch(im, n, g, e);
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
		node_error(im->om, n, X_INVALID, "tensor \"%s\" is too large: its size overflows 64 bits", name);
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
		bind(im, e, n->out[i], v);
	}
}

/* False if it is an open If, or holds one. */
static bool import_node(Import *im, const OnnxNode *n, Env *e)
{
	Node **in = NEWN(im->m, Node *, n->nin + 1);
	bool poisoned = false, fork = false;

	for (int i = 0; i < n->nin; i++) {
		in[i] = *n->in[i] ? lookup(e, n->in[i]) : NULL;
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
	if (!row_of(n->domain, upgraded_name(n))) {
		note_missing(im, n);
		poisoned = true;
	}
	Node *r = NULL;
	if (poisoned) {
		note_within(im, n);
	} else {
		Form f = form_of(im, n, in);
		r = make_node(im, &f, e, &fork);
	}
	if (!fork)
		bind_results(im, n, r, e);
	return !fork;
}

/*
 * Exporters write "squeeze if this dimension is 1" as an If whose branches differ in rank, followed
 * by nodes that only one of the ranks suits. Where the condition depends on the inputs' shapes
 * alone and exactly one branch lets the rest of the graph be made, that branch is taken and its
 * condition becomes a requirement, checked at entry. Where both do, and the outputs' ranks agree, the
 * rest is made for each.
 */
enum { MAX_FORKS = 6 };

static bool of_shapes(Module *m, Node *cond)
{
	int n;
	Node **list = topo_scalar(cond, &n);
	bool ok = true;

	for (int i = 0; i < n; i++) {
		OpCode c = list[i]->code;
		bool found = false;
		for (int k = 0; c == O_SYM && !found && k < m->symdefs.n; k++)
			found = ((SymDef *)m->symdefs.at[k])->sym == list[i];
		ok &= found || (c != O_SYM && c != O_READ && c != O_AXIS && c != O_CARRY && c != O_REDUCE
			&& c != O_ITER);
	}
	free(list);
	return ok;
}

/*
 * The graph from node `at` on with that branch of the open If taken, as a region that gives the graph's
 * outputs. Made without a sound; NULL if it cannot be made. What it requires holds under the condition.
 */
static Region *rest_of(Import *im, const OnnxGraph *g, Env *e, int at, bool yes)
{
	Diag *d = im->om->diag, quiet = *d;
	Import attempt = *im;
	Env inner = { .up = e };
	Region *r = region_new(im->m, yes ? "then_branch" : "else_branch");
	Choice choice = { im->open, yes, im->choices };
	int conditions = im->m->requires.n;

	quiet.out = NULL;
	quiet.sink = NULL;
	quiet.quiet = true;
	attempt.missing = (Names){ 0 };
	attempt.order = (Vec){ 0 };
	attempt.forks++;
	im->om->diag = im->m->diag = &quiet;
	attempt.choices = &choice;
	bool ok = import_from(&attempt, g, &inner, at, false) && add_results(&attempt, g, &inner, r);
	im->om->diag = im->m->diag = d;
	region_requires(im->m, conditions, im->open_cond, yes);
	return ok && attempt.order.n == 0 && quiet.errors == d->errors ? r : NULL;
}

/* Both ways lead to outputs of the same ranks: the rest of the graph becomes an If itself. */
static bool bind_both(Import *im, const OnnxGraph *g, Env *e, int at, Region **rest)
{
	if (ranks_differ(rest[0], rest[1]))
		return false;
	Node *r = graph_op(im->m, row_of("", "If"), 1, &im->open_cond, NULL, g->nout, 2, rest,
		node_loc(im->om, g->node[at]));
	for (int i = 0; i < g->nout; i++)
		bind(im, e, g->out[i].name, r ? t_result(im->m, r, i) : NULL);
	return true;
}

typedef enum Chosen { CHOSEN_NONE, CHOSEN_ONE, CHOSEN_BOTH } Chosen;

/* Node `at` is or holds an open If. ONE: the choice is noted and the node can be made; BOTH: all is. */
static Chosen choose_branch(Import *im, const OnnxGraph *g, Env *e, int at)
{
	Module *m = im->m;
	Node *zero[MAX_RANK], *cond;
	Region *rest[2] = { NULL, NULL };
	int conditions = m->requires.n;

	for (int i = 0; i < MAX_RANK; i++)
		zero[i] = x_idx(m, 0);
	cond = x_read(m, im->open_cond, zero);
	for (int i = 0; i < 2 && im->forks < MAX_FORKS; i++)
		rest[i] = rest_of(im, g, e, at, i == 0);
	if (rest[0] && rest[1] && bind_both(im, g, e, at, rest))
		return CHOSEN_BOTH;
	m->requires.n = conditions;
	if (!rest[0] == !rest[1] || !of_shapes(m, cond))
		return CHOSEN_NONE;
	bool yes = rest[0] != NULL;
	require(m, yes ? cond : x_not(m, cond), node_loc(im->om, im->open), "inputs of this shape would take "
		"its %s, whose result has not the rank that the rest of the model takes",
		yes ? "else_branch" : "then_branch");
	Choice *c = NEW(m, Choice);
	*c = (Choice){ im->open, yes, im->choices };
	im->choices = c;
	return CHOSEN_ONE;
}

/* inlined: what cannot be chosen here may be where the graph has its place; then false. */
static bool import_from(Import *im, const OnnxGraph *g, Env *e, int first, bool inlined)
{
	bool settled = im->settled;          /* of a node around this graph */

	for (int i = first; i < g->nnode && *im->work < MAX_WORK; i++) {
		if (++*im->work == MAX_WORK)
			diag_error(im->om->diag, X_BUDGET, NULL, "subgraphs nested too deeply: their bodies took "
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
		bind(im, e, name, value ? value : t ? m->main->params[m->main->nparams - 1] : NULL);
	}
	for (int i = 0; i < opt->nfreeze; i++)
		if (!lookup(e, intern(m, opt->freeze[i].name))) {
			diag_error(im->om->diag, X_USAGE, NULL, "--freeze %s: the model has no input of this name",
				opt->freeze[i].name);
			ok = false;
		}
	return ok;
}

/* What the model says of its outputs is not used, but where it is wrong its author may want to know. */
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
	import_from(&im, g, &e, 0, false);
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
