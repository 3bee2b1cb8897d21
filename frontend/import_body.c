/*
 * Subgraphs as regions: the types of their parameters follow from the operands, and where a value
 * is carried from round to round, from what holds for every round.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/import.h"

/*
 * How an operator's subgraph relates to its operands.
 *   lead: inputs before the operands'; skip: operands before those that are carried
 *   carried parameters may change their shape from round to round
 *   scans: the last inputs are slices of operands, made from the number of the round
 */
typedef struct BodyForm {
	int lead, skip, carried, scans;
	bool maps;           /* inputs are elements of those operands that are sequences */
	/* of the inputs; `holds`: a condition that is true whenever the body runs */
	const Type **types;
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
			v = b->in[i]->type->kind != T_SEQ ? b->in[i]
				: graph_op(im->m, row_of("", "SequenceAt"), 2,
				(Node *[]){ b->in[i], r->params[0] }, NULL, 1, 0, NULL, b->loc);
		else
			v = r->params[n] = t_param(im->m, g->in[i].name, b->types[i], n), n++;
		if (!v)
			return NULL;
		env_bind(im, &e, g->in[i].name, v);
	}
	r->nparams = n;
	if (!bind_initializers(im, g, &e))
		return NULL;
	import_nodes(im, g, &e, 0, false);
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

const OnnxAttr *form_attr(const Form *f, const char *name)
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
	diag_error(im->om->diag, X_INVALID, f->loc, "its %s has %d inputs, expected %d", g->attr,
		g->nin,
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
		diag_error(im->om->diag, X_INVALID, f->loc, "num_scan_inputs does not fit %d inputs",
			f->nin);
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
			diag_error(im->om->diag, X_INVALID, f->loc, "scan input %d has no axis %" PRId64, k,
				axis);
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
	if (!q || !k || q->type->kind != T_TENSOR || k->type->kind != T_TENSOR || rank_of(q) != 4 ||
		rank_of(k) != 4)
		return true;                 /* an operand that is missing or unfit is reported */
	Node *dims[4] = { dim_of(q, 0), dim_of(q, 1), dim_of(q, 2), dim_of(k, 2) };
	DType d = p && p->kind == OA_INT ? dtype_of_onnx((int)p->i[0]) : dt_small(dtype_of(q)) ? DT_F32
		: dtype_of(q);
	b->types[0] = ty_tensor(im->m, d, 4, dims);
	return true;
}

typedef bool BodyTypes(Import *, const Form *, const OnnxGraph *, BodyForm *);

/* Operators whose subgraphs have inputs. */
static const struct { const char *op; BodyTypes *types; } forms[] = {
	{ "Loop", loop_types },
	{ "Scan", scan_types },
	{ "SequenceMap", map_types },
	{ "FlexAttention", flex_types },
};

/* Types of the subgraph's parameters as the operands say them. */
static bool body_types(Import *im, const Form *f, const OnnxGraph *g, BodyForm *b)
{
	BodyTypes *types = NULL;
	bool ok;

	*b = (BodyForm){ .in = f->in, .loc = f->loc,
		.types = NEWN(im->m, const Type *, f->nin + g->nin + 2) };
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		if (!strcmp(f->op, forms[i].op)) {
			types = forms[i].types;
			break;
		}
	ok = types ? types(im, f, g, b) : fits_count(im, f, g, 0);
	for (int i = 0; ok && i < g->nin; i++)
		if (!b->types[i]) {
			diag_error(im->om->diag, X_INVALID, f->loc, "an operand of its %s is left out",
				g->attr);
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
			bool same = freed || in->dims[d] == out->dims[d] ||
				prove_eq(m, in->dims[d], out->dims[d]);
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

void attempt_begin(Attempt *a, const Import *im)
{
	a->im = *im;
	a->im.missing = (Names){ 0 };
	a->im.order = (Vec){ 0 };
	a->loud = im->om->diag;
	a->quiet = *a->loud;
	a->quiet.out = NULL;
	a->quiet.sink = NULL;
	a->quiet.quiet = true;
	im->om->diag = im->m->diag = &a->quiet;
}

bool attempt_end(Attempt *a)
{
	a->im.om->diag = a->im.m->diag = a->loud;
	return a->im.order.n == 0 && a->quiet.errors == a->loud->errors;
}

/* Makes the body without a sound. NULL if anything is wrong with it. */
static Region *try_region(Import *im, const OnnxGraph *g, Env *e, const BodyForm *b)
{
	Attempt a;

	attempt_begin(&a, im);
	Region *r = import_region(&a.im, g, e, b);
	return attempt_end(&a) ? r : NULL;
}

/* A body that carries values is made again until its types hold for every round: each time at
 * least one of their dimensions is set free, so it ends. */
Region *import_body(Import *im, const Form *f, const OnnxGraph *g, Env *e)
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

/* One body for all rounds, with the carried values' ranks kept? */
bool rounds_agree(Import *im, const Form *f, const OnnxGraph *g, Env *e)
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
