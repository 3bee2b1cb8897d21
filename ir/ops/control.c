/*
 * Control flow: If, Loop and Scan as the core nodes `if` and `loop`, whose regions the importer
 * builds.
 *
 * Dimensions of their results are expressions outside of the regions: where both branches or all
 * rounds agree, those; where they follow from the condition, a select; else a symbol of its own,
 * which the module lists in `loopsyms` and which the node defines by what it computed.
 */
#include <stdlib.h>
#include <string.h>
#include "ops.h"

/* A new symbol for a dimension of result number `result`. */
static Node *
own_symbol(Module *m, int result, int axis)
{
	LoopSym *s = NEW(m, LoopSym);

	*s = (LoopSym){x_sym(m, NULL, 0, INT32_MAX), result, axis};
	vec_push(m, &m->loopsyms, s);
	return s->sym;
}

static bool
is_own(Module *m, const Node *sym)
{
	int i;

	for (i = 0; i < m->loopsyms.n; i++)
		if (((LoopSym *)m->loopsyms.at[i])->sym == sym)
			return true;
	return false;
}

/*
 * Has the expression a value outside of a region made since node number `since`? What it reads must
 * be there, computed without fault; symbols must not be those of a node inside.
 */
static bool
outside(Module *m, Node *e, uint32_t since)
{
	Node **list, *d;
	bool ok = true;
	int i, n;

	list = topo_scalar(e, &n);
	for (i = 0; i < n && ok; i++) {
		if (list[i]->code == O_SYM && list[i]->def)
			ok = outside(m, list[i]->def, since);
		else if (list[i]->code == O_SYM)
			ok = list[i]->id < since || !is_own(m, list[i]);
		if (list[i]->code == O_READ) {
			d = definition(list[i]->in[0]);
			ok = d->code == O_CONST || list[i]->in[0]->id < since;
		}
	}
	free(list);
	return ok;
}

/* Can the expression be evaluated when a run begins: from inputs and their symbols alone? */
static bool
at_entry(Module *m, Node *e)
{
	Node **list, *x;
	bool ok = true, found;
	int i, k, n;

	list = topo_scalar(e, &n);
	for (i = 0; i < n && ok; i++) {
		x = list[i];
		if (x->code == O_SYM && x->def) {
			ok = at_entry(m, x->def);
			continue;
		}
		if (x->code != O_SYM && x->code != O_READ)
			continue;
		found = x->code == O_READ && definition(x->in[0])->code == O_CONST;
		for (k = 0; x->code == O_SYM && k < m->symdefs.n; k++)
			found |= ((SymDef *)m->symdefs.at[k])->sym == x;
		for (k = 0; x->code == O_READ && k < m->main->nparams; k++)
			found |= m->main->params[k] == definition(x->in[0]);
		ok = found;
	}
	free(list);
	return ok;
}

void
region_requires(Module *m, int from, Node *cond, bool when)
{
	Node *c = cond ? scalar_arg(m, cond) : NULL, *yes = x_bool(m, true);
	int i, n = from;
	Require *q;

	for (i = from; i < m->requires.n; i++) {
		q = m->requires.at[i];
		if (c)
			q->cond = when ? x_select(m, c, q->cond, yes)
				: x_select(m, c, yes, q->cond);
		if (at_entry(m, q->cond))
			m->requires.at[n++] = q;
	}
	m->requires.n = n;
}

/* ---- If -------------------------------------------------------------------------------------- */

/* The type of a sequence or optional that is of either type. */
static const Type *
value_join(Module *m, const Type *a, const Type *b)
{
	if (a->kind == T_OPTIONAL && b->kind == T_SEQ && a->elem[0]->kind == T_SEQ)
		a = a->elem[0];
	if (b->kind == T_OPTIONAL && a->kind == T_SEQ && b->elem[0]->kind == T_SEQ)
		b = b->elem[0];
	return ty_join(m, a, b);
}

static const Type *
if_type(Build *b, Node *cond, int k, const Type *a, const Type *c)
{
	Module *m = b->m;
	const Type *t;
	Node *dims[MAX_RANK];
	uint32_t since = b->in[0]->id + 1;
	int i;

	if (a == c)
		return a;
	if (a->kind != T_TENSOR && (t = value_join(m, a, c)))
		return t;
	if (a->kind != c->kind || a->dtype != c->dtype || a->kind != T_TENSOR) {
		fail(b, "result %d has another type in one branch than in the other", k);
		return NULL;
	}
	if (a->rank != c->rank) {
		unsupported(b,
			"result %d has %d dimensions in one branch and %d in the other, and the"
			" condition is known only at run time; fix what it depends on with --shape"
			" or --freeze%s", k, a->rank, c->rank, inputs_named(b, b->in[0]));
		return NULL;
	}
	for (i = 0; i < a->rank; i++)
		if (a->dims[i] == c->dims[i])
			dims[i] = a->dims[i];
		else if (outside(m, a->dims[i], since) && outside(m, c->dims[i], since))
			dims[i] = x_select(m, cond, a->dims[i], c->dims[i]);
		else
			dims[i] = own_symbol(m, k, i);
	return ty_tensor(m, a->dtype, a->rank, dims);
}

/* Are both sequences of known elements, as many, of the same
 * types and ranks? Their number, else -1. */
static int
same_elements(Node *x, Node *y)
{
	Node **d, **e;
	int n, k, i;

	if (x->type->kind != y->type->kind || !seq_elems(x, &n, &d) || !seq_elems(y, &k, &e) || n != k)
		return -1;
	for (i = 0; i < n; i++)
		if (d[i]->type->kind != T_TENSOR || e[i]->type->kind != T_TENSOR
		 || dtype_of(d[i]) != dtype_of(e[i])
		 || rank_of(d[i]) != rank_of(e[i]))
			return -1;
	return n;
}

static Node *build_if(Build *);

/* Where branches give sequences of as many elements: the same if with those elements as results. */
static Node *
if_of_elements(Build *b, Node *cond)
{
	Module *m = b->m;
	Region *r[2];
	Build inner = *b;
	Node **e, *node, **out, **part;
	int n = b->regions[0]->nresults, *count = NEWN(m, int, n + 1), i, k, s, c, at = 0;
	bool found = false;

	for (i = 0; i < n; i++) {
		count[i] = same_elements(b->regions[0]->results[i], b->regions[1]->results[i]);
		found |= count[i] >= 0;
	}
	if (!found || cond->code == O_NUM)
		return NULL;
	for (s = 0; s < 2; s++) {
		r[s] = region_new(m, b->regions[s]->name);
		for (i = 0; i < n; i++) {
			if (count[i] >= 0)
				seq_elems(b->regions[s]->results[i], &c, &e);
			for (k = 0; k < count[i]; k++)
				region_add(m, r[s], e[k]);
			if (count[i] < 0)
				region_add(m, r[s], b->regions[s]->results[i]);
		}
	}
	inner.regions = r;
	node = build_if(&inner);
	out = NEWN(m, Node *, n + 1);
	for (i = 0; node && i < n; i++) {
		part = NEWN(m, Node *, count[i] + 2);
		for (k = 0; k < count[i]; k++)
			part[k] = t_result(m, node, at++);
		out[i] = count[i] < 0 ? t_result(m, node, at++)
			: seq_value(m, ty_join(m, b->regions[0]->results[i]->type,
				b->regions[1]->results[i]->type), count[i], part);
	}
	return node ? t_tuple(m, n, out) : NULL;
}

static Node *
build_if(Build *b)
{
	Module *m = b->m;
	Region *then = b->regions[0], *other = b->regions[1], *taken;
	Node *cond = scalar_arg(m, b->in[0]);
	const Type **types;
	int i, n = then->nresults;
	int64_t known;

	if (n != other->nresults)
		return fail(b, "the branches have %d and %d results", n, other->nresults);
	if (is_int(cond, &known)) {
		taken = known ? then : other;
		return t_tuple(m, n, taken->results);
	}
	Node *parts = if_of_elements(b, cond);
	if (parts)
		return parts;
	types = NEWN(m, const Type *, n + 1);
	for (i = 0; i < n; i++)
		if (!(types[i] = if_type(b, cond, i, then->results[i]->type,
			other->results[i]->type)))
			return NULL;
	return node_make(m,
		(Node){.op = core_op(O_IF), .type = ty_tuple(m, n, types), .nin = 1, .in = b->in,
		.nregions = 2, .regions = b->regions, .loc = b->loc});
}

/* ---- Loop ------------------------------------------------------------------------------------ */

/* A carried value's type after the loop: the operand's, with own symbols where rounds change a
 * dimension. */
static const Type *
carried_type(Build *b, int k, const Type *init, const Type *param, const Type *result)
{
	const Type *t;
	Node *dims[MAX_RANK];
	int i;

	if (init->kind != T_TENSOR && (t = value_join(b->m, init, result)))
		return t;
	if (init->kind != result->kind || init->dtype != result->dtype) {
		fail(b, "the body gives carried value %d another type", k);
		return NULL;
	}
	if (init->rank != result->rank) {
		unsupported(b, "the body makes the %d dimensions of carried value %d %d",
			init->rank, k, result->rank);
		return NULL;
	}
	for (i = 0; i < init->rank; i++)
		dims[i] = init->dims[i] == param->dims[i] ? init->dims[i] : own_symbol(b->m, k, i);
	return ty_tensor(b->m, init->dtype, init->rank, dims);
}

/* Is it a symbol of the body: a dimension of a parameter that is not the operand's? */
static bool
of_body(const Node *sym, int n, Node *const *init, const Region *body)
{
	const Type *p;
	int i, k;

	for (i = 0; i < n; i++) {
		p = body->params[1 + i]->type;
		for (k = 0; p->kind == T_TENSOR && k < p->rank; k++)
			if (p->dims[k] == sym && p->dims[k] != init[i]->type->dims[k])
				return true;
	}
	return false;
}

static bool
in_body(Node *e, int n, Node *const *init, const Region *body)
{
	Node **list;
	bool found = false;
	int i, count;

	list = topo_scalar(e, &count);
	for (i = 0; i < count && !found; i++)
		if (list[i]->code == O_SYM)
			found = list[i]->def ? in_body(list[i]->def, n, init, body)
				: of_body(list[i], n, init, body);
	free(list);
	return found;
}

static const Type *
scanned_type(Build *b, int k, Node *trips, int ncarried, Node *const *init, const Region *body)
{
	const Type *t = body->results[1 + k]->type;
	uint32_t since = body->params[0]->id;
	Node *dims[MAX_RANK + 1], *d;
	int i;

	if (t->kind != T_TENSOR || t->rank == MAX_RANK) {
		unsupported(b, "scan output %d is no tensor that can be stacked", k);
		return NULL;
	}
	dims[0] = trips ? trips : own_symbol(b->m, k, 0);
	for (i = 0; i < t->rank; i++) {
		d = t->dims[i];
		dims[i + 1] = outside(b->m, d, since) && !in_body(d, ncarried, init, body) ? d
			: own_symbol(b->m, k, i + 1);
	}
	return ty_tensor(b->m, t->dtype, t->rank + 1, dims);
}

/*
 * Where carried value i begins as an empty sequence and each round does no more than append a
 * tensor of the same shape: that tensor, else NULL.
 */
static Node *
appended(Module *m, const Region *body, int i, int ncarried, Node *const *init)
{
	Node *param = body->params[1 + i], *last = definition(body->results[1 + i]), **list, **e, *t;
	bool ok;
	int k, j, n;

	if (!seq_elems(init[i], &n, &e) || n || last->code != O_HOST || strcmp(last->name, "seq_insert")
	 || last->nin != 2
	 || definition(last->in[0]) != param)
		return NULL;
	t = last->in[1];
	ok = t->type->kind == T_TENSOR && rank_of(t) < MAX_RANK;
	for (k = 0; ok && k < rank_of(t); k++)
		ok = outside(m, dim_of(t, k), body->params[0]->id)
			&& !in_body(dim_of(t, k), ncarried, init, body);
	list = topo(body->results, body->nresults, true, &n);
	for (k = 0; ok && k < n; k++)
		for (j = 0; ok && j < list[k]->nin; j++)
			ok = list[k]->in[j] != param || definition(list[k]) == last;
	for (k = 0; ok && k < body->nresults; k++)
		ok = k == 1 + i || definition(body->results[k]) != last;
	free(list);
	return ok ? t : NULL;
}

/* The loop with such sequences as stacked results; *made tells if there are any. */
static Node *
loop_of_stacks(Build *b, Node *trip, Node *cond, int ncarried, Node *const *init, Region *body,
	bool *made)
{
	Module *m = b->m;
	Region *r = region_new(m, body->name);
	Node **from = NEWN(m, Node *, ncarried + 1), **stack = NEWN(m, Node *, ncarried + 1), **out,
		*loop;
	int n = 0, i, k, all = body->nresults - 1, scanned = all - ncarried;

	r->params = NEWN(m, Node *, body->nparams);
	r->params[r->nparams++] = body->params[0];
	region_add(m, r, body->results[0]);
	for (i = 0; i < ncarried; i++)
		if (!(stack[i] = appended(m, body, i, ncarried, init))) {
			from[n++] = init[i];
			r->params[r->nparams++] = body->params[1 + i];
			region_add(m, r, body->results[1 + i]);
		}
	*made = n < ncarried;
	if (!*made)
		return NULL;
	for (i = 0; i < scanned; i++)
		region_add(m, r, body->results[1 + ncarried + i]);
	for (i = 0; i < ncarried; i++)
		if (stack[i])
			region_add(m, r, stack[i]);
	loop = loop_build(b, trip, cond, n, from, r);
	if (!loop)
		return NULL;
	out = NEWN(m, Node *, all + 1);
	for (i = 0, k = 0, n = r->nparams - 1 + scanned; i < all; i++)
		out[i] = i < ncarried && stack[i] ? seq_unstack(m, t_result(m, loop, n++))
			: t_result(m, loop, k++);
	return t_tuple(m, all, out);
}

Node *
loop_build(Build *b, Node *trip, Node *cond, int ncarried, Node *const *init, Region *body)
{
	Module *m = b->m;
	Node **in = NEWN(m, Node *, ncarried + 2), *trips = NULL;
	const Type **types;
	int n = body->nresults - 1, i;
	bool made;

	if (body->nparams != 1 + ncarried || n < ncarried)
		return fail(b, "the body has %d inputs and %d outputs for %d carried values",
			body->nparams - 1, n, ncarried);
	if (dtype_of(body->results[0]) != DT_BOOL)
		return fail(b, "the body's condition is %s, not bool",
			dtypes[dtype_of(body->results[0])].text);
	Node *loop = loop_of_stacks(b, trip, cond, ncarried, init, body, &made);
	if (made)
		return loop;
	if (trip)
		infer_elems(m, trip);
	/* all rounds, unless there is none */
	if (trip && is_intv(scalar_arg(m, body->results[0]), 1)) {
		trips = extent(m, saturate(m, x_cast(m, DT_INDEX, scalar_arg(m, trip))));
		trips = x_max(m, trips, x_idx(m, 0));
		if (cond)
			trips = x_select(m, scalar_arg(m, cond), trips, x_idx(m, 0));
	}
	if (cond && is_intv(scalar_arg(m, cond), 1))
		cond = NULL;
	types = NEWN(m, const Type *, n + 1);
	in[0] = trip;
	in[1] = cond;
	for (i = 0; i < n; i++) {
		types[i] = i < ncarried
			? carried_type(b, i, init[i]->type, body->params[1 + i]->type,
				body->results[1 + i]->type)
			: scanned_type(b, i, trips, ncarried, init, body);
		if (!types[i])
			return NULL;
		if (i < ncarried)
			in[2 + i] = init[i];
	}
	return node_make(m,
		(Node){.op = core_op(O_LOOP), .type = ty_tuple(m, n, types), .nin = ncarried + 2,
		.in = in, .n = ncarried, .nregions = 1,
		.regions = arena_dup(m->arena, &body, sizeof body), .loc = b->loc});
}

static Node *
build_loop(Build *b)
{
	int n = b->nin - 2;

	while (n > 0 && !b->in[1 + n])
		n--;
	return loop_build(b, b->in[0], b->in[1], n, b->in + 2, b->regions[0]);
}

/* ---- Scan ------------------------------------------------------------------------------------ */

Node *
scan_element(Module *m, Node *x, int axis, Node *trip, bool reverse)
{
	Node *axes[MAX_RANK], *idx[MAX_RANK], *t = x_cast(m, DT_INDEX, x_read(m, trip, NULL));
	int i, n = 0;

	for (i = 0; i < rank_of(x); i++)
		if (i != axis)
			idx[i] = axes[n++] = x_axis(m, dim_of(x, i));
	idx[axis] = reverse ? x_sub(m, x_addi(m, dim_of(x, axis), -1), t) : t;
	return t_tensor(m, n, axes, x_read(m, x, idx));
}

/* Entry i of an optional list of flags or axes. */
static int64_t
entry(Build *b, const char *name, int i)
{
	const int64_t *v;
	int n;

	return attr_ints(b, name, &n, &v) && i < n ? v[i] : 0;
}

/* A stacked result with its first axis moved, and perhaps turned round. */
static Node *
place_scanned(Build *b, Node *x, int64_t axis, bool reverse)
{
	Module *m = b->m;
	Node *axes[MAX_RANK], *idx[MAX_RANK];
	int rank = rank_of(x), i, n = 0;

	if (axis < -rank || axis >= rank)
		return fail(b, "a scan output's axis %lld is outside [%d, %d]", (long long)axis,
			-rank, rank - 1);
	axis += axis < 0 ? rank : 0;
	for (i = 0; i < rank; i++)
		axes[i] = x_axis(m, dim_of(x, i == axis ? 0 : ++n));
	for (i = n = 0; i < rank; i++)
		if (i != axis)
			idx[++n] = axes[i];
	idx[0] = reverse ? x_sub(m, x_addi(m, dim_of(x, 0), -1), axes[axis]) : axes[axis];
	return t_tensor(m, rank, axes, x_read(m, x, idx));
}

static Node *
build_scan(Build *b)
{
	Module *m = b->m;
	int64_t scans = attr_int(b, "num_scan_inputs");
	int states = b->nin - (int)scans, i, axis, n;
	Node *length = NULL, *loop, **out, *x;

	if (scans < 1 || states < 0)
		return fail(b, "num_scan_inputs is %lld of %d inputs", (long long)scans, b->nin);
	for (i = 0; i < scans; i++) {
		x = b->in[states + i];
		axis = (int)entry(b, "scan_input_axes", i);
		axis += axis < 0 ? rank_of(x) : 0;
		if (length)
			require(m, x_eq(m, length, dim_of(x, axis)), b->loc,
				"scan inputs have %s and %s elements", expr_print(m, length),
				expr_print(m, dim_of(x, axis)));
		if (!length || dim_of(x, axis)->code == O_NUM)
			length = dim_of(x, axis);
	}
	/* a scan goes on to the end: its body has no condition */
	Region *body = region_new(m, "body"), *r = b->regions[0];
	body->nparams = r->nparams;
	body->params = r->params;
	region_add(m, body, t_scalar(m, DT_BOOL, (Num){.i = 1}));
	for (i = 0; i < r->nresults; i++)
		region_add(m, body, r->results[i]);
	loop = loop_build(b, t_scalar_expr(m, DT_I64, length), NULL, states, b->in, body);
	if (!loop)
		return NULL;
	n = loop->type->rank;
	out = NEWN(m, Node *, n + 1);
	for (i = 0; i < n; i++) {
		out[i] = t_result(m, loop, i);
		if (i >= states)
			out[i] = place_scanned(b, out[i], entry(b, "scan_output_axes", i - states),
				entry(b, "scan_output_directions", i - states) != 0);
		if (!out[i])
			return NULL;
	}
	return t_tuple(m, n, out);
}

const Op ops_control[] = {
	STRUCT("if",   "If",   25, "(cond: bool) {then_branch: region, else_branch: region} -> y*",
		build_if, "one of two graphs"),
	STRUCT("loop", "Loop", 25, "(trip: i64?, cond: bool?, init: any*) {body: region} -> y*",
		build_loop, "a graph again and again, with carried values"),
	STRUCT("scan", "Scan", 25,
		"(init: any*) {body: region, num_scan_inputs: int, scan_input_axes: ints?,"
		" scan_input_directions: ints?, scan_output_axes: ints?, scan_output_directions: ints?} ->"
		" y*",
		build_scan, "a graph for each slice along an axis"),
	{0}
};
