/*
 * ai.onnx.preview.training:Gradient, by reverse-mode differentiation of definitions.
 *
 * The importer gives y and the variables, each a node of `variable`, which stands between the
 * differentiated graph and its value. From y back, each tensor's adjoint (y's gradient for it; y's
 * own is 1) is the sum of what its readers give. A reader T[i] = body, with adjoint A[i], gives
 * for a read P[f(i, r)] in its body, r the axes of reductions around it, the sum over all i and r
 * of A[i] times the derivative of the body for that read, at f(i, r). Where f can be solved for
 * axes, that is a tensor over P's dimensions that sums over the other axes; elsewhere a scatter
 * that adds.
 *
 * Conventions where there is no derivative: 0 for steps (floor, comparisons, casts to integers);
 * |x| at 0 has 0; of equal operands of min and max each has half, a constant all (Relu at 0 has
 * 0); elements that are all a reduction's extreme share evenly.
 */
#include <math.h>
#include <stdlib.h>
#include "ops.h"

/* y's gradient for scalar or tensor: `value` where `guard` holds, else 0 (and value is not
 * defined). */
typedef struct Adjoint { Node *guard, *value; } Adjoint;

/* The axes around an expression: of its tensor, then of reductions. */
typedef struct Around { int n; Node **axes; } Around;

typedef struct Grad {
	Build *b;
	Module *m;
	Node *const *x;        /* variables */
	int nx;
	Map depends;           /* nodes, scalars too, that depend on a variable */
	Map pieces;            /* of tensors by their definition, to Vec of tensors to add */
	const Node *tensor;    /* being differentiated, for messages */
	bool failed;
} Grad;

/* An expression within one set of axes: its nodes to Adjoint, its reductions to what stands for
 * them. */
typedef struct Scope {
	Grad *g;
	Around around;
	Map adjoints, reduced;
} Scope;

static void differentiate(Grad *g, Around around, Node *e, Adjoint a);

static void
refuse(Grad *g, const char *what)
{
	const Loc *loc = g->tensor->loc;

	if (!g->failed)
		unsupported(g->b, "the gradient cannot be formed through %s '%s': %s",
			loc && loc->type ? loc->type : "a tensor", loc && loc->name ? loc->name : "?", what);
	g->failed = true;
}

static bool
is_variable(const Grad *g, const Node *n)
{
	int i;

	for (i = 0; i < g->nx; i++)
		if (g->x[i] == n)
			return true;
	return false;
}

/* The definition of a tensor, or the variable that it is. */
static Node *
resolved(const Grad *g, Node *n)
{
	while (n->def && !is_variable(g, n))
		n = n->def;
	return n;
}

static bool
matters(const Grad *g, const Node *n)
{
	return dt_float(n->type->dtype) && map_get(&g->depends, n);
}

/* ---- adjoints of tensors --------------------------------------------------------------------- */

static void
add_piece(Grad *g, Node *t, Node *piece)
{
	Node *key = resolved(g, t);
	Vec *v = map_get(&g->pieces, key);

	if (!v) {
		v = NEW(g->m, Vec);
		map_put(&g->pieces, key, v);
	}
	vec_push(g->m, v, piece);
}

static Node *
summed(Grad *g, Node *t)
{
	Module *m = g->m;
	Vec *v = map_get(&g->pieces, resolved(g, t));
	Node *axes[MAX_RANK], *e = x_int(m, dtype_of(t), 0);
	int i;

	if (v && v->n == 1)
		return v->at[0];
	axes_new(m, rank_of(t), t->type->dims, axes);
	for (i = 0; v && i < v->n; i++)
		e = i ? x_add(m, e, x_read(m, v->at[i], axes)) : x_read(m, v->at[i], axes);
	return t_tensor(m, rank_of(t), axes, e);
}

/* ---- what a read gives ----------------------------------------------------------------------- */

/* Axes solved for: to what; the conditions under which they are; which are left. */
typedef struct Solution { Map map; Node *guard; bool *solved; } Solution;

static int
axis_at(const Around *r, const Node *axis)
{
	int i;

	for (i = 0; i < r->n && r->axes[i] != axis; i++)
		;
	return i < r->n ? i : -1;
}

static void
solve(Module *m, const Around *r, Solution *s, int k, Node *value, Node *when)
{
	Node *extent = subst(m, r->axes[k]->in[0], &s->map, false), *v;
	int i;

	for (i = 0; i < r->n; i++)           /* others were solved for in terms of this one */
		if (s->solved[i] && (v = map_get(&s->map, r->axes[i])))
			map_put(&s->map, r->axes[i], subst1(m, v, r->axes[k], value));
	s->guard = subst1(m, s->guard, r->axes[k], value);
	when = x_and(m, when, x_and(m, x_le(m, x_idx(m, 0), value), x_lt(m, value, extent)));
	s->guard = x_and(m, s->guard, when);
	s->solved[k] = true;
	map_put(&s->map, r->axes[k], value);
}

/*
 * e == p for the open axis of the largest extent in which it is linear with a constant factor;
 * false if there is none.
 */
static bool
solve_linear(Module *m, const Around *r, Solution *s, Node *e, Node *p)
{
	Node *coef, *rest, *best = NULL, *left = NULL;
	int64_t c, factor = 0, size = -1;
	int i, at = -1;

	for (i = 0; i < r->n; i++) {
		if (s->solved[i] || !contains(e, r->axes[i]) || !linear_in(m, e, r->axes[i], &coef, &rest)
		 || !is_int(coef, &c) || !c || r->axes[i]->in[0]->hi <= size)
			continue;
		at = i;
		best = r->axes[i];
		factor = c;
		left = rest;
		size = best->in[0]->hi;
	}
	if (!best)
		return false;
	left = x_sub(m, p, left);
	if (factor < 0)
		left = x_muli(m, left, -1);
	factor = factor < 0 ? -factor : factor;
	solve(m, r, s, at, x_fdiv(m, left, x_idx(m, factor)),
		x_eq(m, x_mod(m, left, x_idx(m, factor)), x_idx(m, 0)));
	return true;
}

static bool
is_open(const Around *r, const Solution *s, const Node *e)
{
	int i;

	for (i = 0; i < r->n; i++)
		if (!s->solved[i] && contains(e, r->axes[i]))
			return true;
	return false;
}

/* The indices solved for axes, those that are an axis first; false where one cannot be. */
static bool
solve_indices(Module *m, const Around *r, Solution *s, int rank, Node *const *idx, Node *const *p)
{
	bool done[MAX_RANK] = {false};
	int d, k, pass;
	Node *e;

	for (pass = 0; pass < 2; pass++)
		for (d = 0; d < rank; d++) {
			if (done[d])
				continue;
			e = subst(m, x_cast(m, DT_INDEX, idx[d]), &s->map, false);
			k = axis_at(r, e);
			if (k >= 0 && !s->solved[k])
				solve(m, r, s, k, p[d], x_bool(m, true));
			else if (pass == 0)
				continue;
			else if (!is_open(r, s, e))
				s->guard = x_and(m, s->guard, x_eq(m, e, p[d]));
			else if (!solve_linear(m, r, s, e, p[d]))
				return false;
			done[d] = true;
		}
	return true;
}

/* The sum at each place of P over the axes that its index leaves open; NULL: it needs a scatter. */
static Node *
gathered(Scope *l, Node *read, Adjoint a)
{
	Module *m = l->g->m;
	Around *r = &l->around;
	Node *t = read->in[0], *p[MAX_RANK], **open = NEWN(m, Node *, r->n + 1), *e;
	Solution s = {.guard = x_bool(m, true), .solved = NEWN(m, bool, r->n + 1)};
	Map left = {0};
	int i, n = 0;

	axes_new(m, rank_of(t), t->type->dims, p);
	if (!solve_indices(m, r, &s, rank_of(t), read->in + 1, p)) {
		map_free(&s.map);
		return NULL;
	}
	for (i = 0; i < r->n; i++)
		if (!s.solved[i]) {
			open[n] = x_axis(m, subst(m, subst(m, r->axes[i]->in[0], &s.map, false), &left, false));
			map_put(&left, r->axes[i], open[n++]);
		}
	e = x_select(m, subst(m, a.guard, &s.map, true), subst(m, a.value, &s.map, true),
		x_int(m, a.value->type->dtype, 0));
	e = subst(m, x_select(m, s.guard, e, x_int(m, a.value->type->dtype, 0)), &left, true);
	if (n)
		e = sum_over(m, n, open, e);
	map_free(&s.map);
	map_free(&left);
	return t_tensor(m, rank_of(t), p, e);
}

static Node *
scattered(Scope *l, Node *read, Adjoint a)
{
	Module *m = l->g->m;
	Around *r = &l->around;
	Node *t = read->in[0], *ax[MAX_RANK], **own = NEWN(m, Node *, r->n + 1), *idx[MAX_RANK], *base;
	DType d = dtype_of(t), acc = dt_small(d) ? DT_F32 : d;
	Map map = {0};
	int i;

	for (i = 0; i < r->n; i++) {
		own[i] = x_axis(m, subst(m, r->axes[i]->in[0], &map, false));
		map_put(&map, r->axes[i], own[i]);
	}
	axes_new(m, rank_of(t), t->type->dims, ax);
	base = t_tensor(m, rank_of(t), ax, x_int(m, acc, 0));
	for (i = 0; i < rank_of(t); i++)
		idx[i] = subst(m, x_cast(m, DT_INDEX, read->in[1 + i]), &map, true);
	base = t_scatter(m, COMB_SUM, base, r->n, own, idx,
		x_cast(m, acc, subst(m, a.value, &map, true)), subst(m, a.guard, &map, true));
	map_free(&map);
	axes_new(m, rank_of(t), t->type->dims, ax);
	return acc == d ? base : t_tensor(m, rank_of(t), ax, x_cast(m, d, x_read(m, base, ax)));
}

static void
give(Scope *l, Node *read, Adjoint a)
{
	Node *piece = gathered(l, read, a);

	add_piece(l->g, read->in[0], piece ? piece : scattered(l, read, a));
}

/* ---- scalars --------------------------------------------------------------------------------- */

/* A value of the level as a tensor over its axes, read where they stand. */
static Node *
kept(Scope *l, Node *e)
{
	Module *m = l->g->m;
	Around *r = &l->around;
	Node **own = NEWN(m, Node *, r->n + 1), *t;
	Map map = {0};
	int i;

	if (r->n > MAX_RANK)
		return e;
	for (i = 0; i < r->n; i++) {
		if (map.n && is_open(r, &(Solution){.solved = NEWN(m, bool, r->n)}, r->axes[i]->in[0])) {
			map_free(&map);
			return e;                    /* an axis whose extent depends on another */
		}
		own[i] = x_axis(m, r->axes[i]->in[0]);
		map_put(&map, r->axes[i], own[i]);
	}
	t = t_tensor(m, r->n, own, subst(m, e, &map, true));
	map_free(&map);
	return x_read(m, t, r->axes);
}

/* The value of a reduction of this level, computed once. */
static Node *
reduction_value(Scope *l, Node *n)
{
	Node *v = map_get(&l->reduced, n);
	const Node *t = l->g->tensor;

	if (!v) {
		if (t->code == O_TENSOR && t->in[t->nin - 1] == n && l->around.n == t->nin - 1)
			v = x_read(l->g->m, (Node *)t, l->around.axes);
		else
			v = kept(l, n);
		map_put(&l->reduced, n, v);
	}
	return v;
}

/* e with the reductions that it has read instead. */
static Node *
shortened(Scope *l, Node *e)
{
	Node **list;
	int i, n;
	bool any = false;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_REDUCE && map_get(&l->adjoints, list[i]))
			any = reduction_value(l, list[i]) != list[i] || any;
	free(list);
	return any ? subst(l->g->m, e, &l->reduced, false) : e;
}

static void
contribute(Scope *l, Node *n, Node *guard, Node *value)
{
	Module *m = l->g->m;
	Adjoint *a = map_get(&l->adjoints, n);
	Node *zero;

	if (!matters(l->g, n))
		return;
	if (!a) {
		a = NEW(m, Adjoint);
		*a = (Adjoint){guard, value};
		map_put(&l->adjoints, n, a);
		return;
	}
	zero = x_int(m, value->type->dtype, 0);
	if (!a->value) {
		*a = (Adjoint){guard, value};
		return;
	}
	*a = (Adjoint){x_or(m, a->guard, guard), x_add(m, x_select(m, a->guard, a->value, zero),
		x_select(m, guard, value, zero))};
}

/* Of min or max of a and b: a's share; equal ones half, but a constant all. */
static Node *
share(Scope *l, Node *a, Node *b, bool max)
{
	Module *m = l->g->m;
	DType d = a->type->dtype;
	Node *wins = max ? x_lt(m, b, a) : x_lt(m, a, b), *half;

	half = matters(l->g, b) ? x_flt(m, d, 0.5) : x_int(m, d, 0);
	return x_select(m, wins, x_int(m, d, 1), x_select(m, x_eq(m, a, b), half, x_int(m, d, 0)));
}

/* The derivative of a function of one operand; NULL: it is 0. */
static Node *
slope(Scope *l, Node *n)
{
	Module *m = l->g->m;
	Node *x = n->in[0];
	DType d = n->type->dtype;
	Node *one = x_int(m, d, 1), *zero = x_int(m, d, 0), *xx = x_mul(m, x, x);

	switch (n->code) {
	case O_NEG: return x_int(m, d, -1);
	case O_ABS: return x_select(m, x_lt(m, zero, x), one,
		x_select(m, x_lt(m, x, zero), x_int(m, d, -1), zero));
	case O_SQRT: return x2(m, O_DIV, x_flt(m, d, 0.5), n);
	case O_EXP: return n;
	case O_LOG: return x2(m, O_DIV, one, x);
	case O_LOG1P: return x2(m, O_DIV, one, x_add(m, one, x));
	case O_EXPM1: return x1(m, O_EXP, x);
	case O_SIN: return x1(m, O_COS, x);
	case O_COS: return x1(m, O_NEG, x1(m, O_SIN, x));
	case O_TAN: return x_add(m, one, x_mul(m, n, n));
	case O_ASIN: return x2(m, O_DIV, one, x1(m, O_SQRT, x_sub(m, one, xx)));
	case O_ACOS: return x2(m, O_DIV, x_int(m, d, -1), x1(m, O_SQRT, x_sub(m, one, xx)));
	case O_ATAN: return x2(m, O_DIV, one, x_add(m, one, xx));
	case O_SINH: return x1(m, O_COSH, x);
	case O_COSH: return x1(m, O_SINH, x);
	case O_TANH: return x_sub(m, one, x_mul(m, n, n));
	case O_ASINH: return x2(m, O_DIV, one, x1(m, O_SQRT, x_add(m, xx, one)));
	case O_ACOSH: return x2(m, O_DIV, one, x1(m, O_SQRT, x_sub(m, xx, one)));
	case O_ATANH: return x2(m, O_DIV, one, x_sub(m, one, xx));
	case O_ERF: return x_mul(m, x_flt(m, d, 2 / sqrt(M_PI)), x1(m, O_EXP, x1(m, O_NEG, xx)));
	case O_TF32: return one;
	case O_FLOOR: case O_CEIL: case O_TRUNC: case O_RINT: return NULL;
	default: refuse(l->g, "a function without a derivative in closed form"); return NULL;
	}
}

/* x^y, with 0 for the logarithm where x is 0. */
static void
power(Scope *l, Node *n, Adjoint a)
{
	Module *m = l->g->m;
	Node *x = n->in[0], *y = n->in[1], *one = x_int(m, n->type->dtype, 1),
		*zero = x_int(m, n->type->dtype, 0), *e;

	e = x_mul(m, y, x2(m, O_POW, x, x_sub(m, y, one)));
	contribute(l, x, a.guard, x_mul(m, a.value, x_select(m, x_eq(m, y, zero), zero, e)));
	if (!matters(l->g, y))
		return;
	e = x_select(m, x_eq(m, x, zero), zero, x_mul(m, n, x1(m, O_LOG, x)));
	contribute(l, y, a.guard, x_mul(m, a.value, e));
}

static void
binary(Scope *l, Node *n, Adjoint a)
{
	Module *m = l->g->m;
	Node *x = n->in[0], *y = n->in[1], *v = a.value;

	switch (n->code) {
	case O_ADD:
	case O_SUB:
		contribute(l, x, a.guard, v);
		contribute(l, y, a.guard, n->code == O_ADD ? v : x1(m, O_NEG, v));
		return;
	case O_MUL:
		contribute(l, x, a.guard, x_mul(m, v, y));
		contribute(l, y, a.guard, x_mul(m, v, x));
		return;
	case O_DIV:
		contribute(l, x, a.guard, x2(m, O_DIV, v, y));
		contribute(l, y, a.guard, x1(m, O_NEG, x2(m, O_DIV, x_mul(m, v, x), x_mul(m, y, y))));
		return;
	case O_REM:
		contribute(l, x, a.guard, v);
		contribute(l, y, a.guard, x1(m, O_NEG, x_mul(m, v, x1(m, O_TRUNC, x2(m, O_DIV, x, y)))));
		return;
	case O_MIN:
	case O_MAX:
		contribute(l, x, a.guard, x_mul(m, v, share(l, x, y, n->code == O_MAX)));
		contribute(l, y, a.guard, x_mul(m, v, share(l, y, x, n->code == O_MAX)));
		return;
	default:
		power(l, n, a);
	}
}

/* Where the element is the extreme, the adjoint shared among all that are. */
static Adjoint
extreme_share(Scope *l, Node *n, Node *const *axes, Node *body, Adjoint a)
{
	Module *m = l->g->m;
	DType d = body->type->dtype, acc = acc_type(d);
	Node *value = reduction_value(l, n), *is = x_eq(m, body, value), *count, *again;
	Map map = {0};
	int i, k = n->nin - 1;
	Node **own = NEWN(m, Node *, k + 1);

	for (i = 0; i < k; i++) {
		own[i] = x_axis(m, subst(m, axes[i]->in[0], &map, false));
		map_put(&map, axes[i], own[i]);
	}
	again = subst(m, is, &map, true);
	map_free(&map);
	count = x_reduce(m, COMB_SUM, k, own, x_select(m, again, x_int(m, acc, 1), x_int(m, acc, 0)));
	count = x_cast(m, d, kept(l, count));
	return (Adjoint){x_and(m, a.guard, is), x2(m, O_DIV, a.value, count)};
}

/* The product of all elements but the one at the axes. */
static Node *
others(Module *m, Node *n, Node *const *axes, Node *body)
{
	int i, k = n->nin - 1;
	Node **own = NEWN(m, Node *, k + 1), *same = x_bool(m, true), *e;
	Map map = {0};

	for (i = 0; i < k; i++) {
		own[i] = x_axis(m, subst(m, axes[i]->in[0], &map, false));
		map_put(&map, axes[i], own[i]);
		same = x_and(m, same, x_eq(m, own[i], axes[i]));
	}
	e = x_select(m, same, x_int(m, body->type->dtype, 1), subst(m, body, &map, true));
	map_free(&map);
	return x_reduce(m, COMB_PROD, k, own, e);
}

static void
reduction(Scope *l, Node *n, Adjoint a)
{
	Module *m = l->g->m;
	int k = n->nin - 1;
	Around in = {l->around.n + k, NEWN(m, Node *, l->around.n + k + 1)};
	Node *body = n->in[k];
	int i;

	for (i = 0; i < in.n; i++)
		in.axes[i] = i < l->around.n ? l->around.axes[i] : n->in[i - l->around.n];
	if (n->n == COMB_MAX || n->n == COMB_MIN)
		a = extreme_share(l, n, n->in, body, a);
	else if (n->n == COMB_PROD)
		a.value = x_mul(m, a.value, others(m, n, n->in, body));
	differentiate(l->g, in, body, a);
}

static void
step_back(Scope *l, Node *n, Adjoint a)
{
	Module *m = l->g->m;
	Node *s, *no = x_bool(m, false);

	switch (n->code) {
	case O_READ:
		give(l, n, a);
		return;
	case O_REDUCE:
		reduction(l, n, a);
		return;
	case O_SELECT:
		contribute(l, n->in[1], x_select(m, a.guard, n->in[0], no), a.value);
		contribute(l, n->in[2], x_select(m, a.guard, x_not(m, n->in[0]), no), a.value);
		return;
	case O_CAST:
		contribute(l, n->in[0], a.guard, x_cast(m, n->in[0]->type->dtype, a.value));
		return;
	case O_FMA:
	case O_MULADD:
		contribute(l, n->in[0], a.guard, x_mul(m, a.value, n->in[1]));
		contribute(l, n->in[1], a.guard, x_mul(m, a.value, n->in[0]));
		contribute(l, n->in[2], a.guard, a.value);
		return;
	default:
		if (n->code < O_NUM && n->nin == 2)
			binary(l, n, a);
		else if (n->code < O_NUM && n->nin == 1 && (s = slope(l, n)))
			contribute(l, n->in[0], a.guard, x_mul(m, a.value, s));
		else if (n->code >= O_NUM)
			refuse(l->g, "it has a scan");
	}
}

/* The nodes of e that matter, operands first, not into reductions, reads or conditions. */
static void
collect(Scope *l, Node *e, Vec *list)
{
	int i;

	if (!matters(l->g, e) || map_get(&l->adjoints, e))
		return;
	map_put(&l->adjoints, e, NEW(l->g->m, Adjoint));
	for (i = e->code == O_SELECT; e->code < O_NUM && i < e->nin; i++)
		collect(l, e->in[i], list);
	vec_push(l->g->m, list, e);
}

/* Hands e's adjoint on to what it is made of. */
static void
differentiate(Grad *g, Around around, Node *e, Adjoint a)
{
	Scope l = {.g = g, .around = around};
	Vec list = {0};
	Adjoint *own;
	int i;

	collect(&l, e, &list);
	contribute(&l, e, a.guard, a.value);
	for (i = list.n; i-- > 0 && !g->failed;) {
		own = map_get(&l.adjoints, list.at[i]);
		if (own->value)
			step_back(&l, list.at[i],
				(Adjoint){shortened(&l, own->guard), shortened(&l, own->value)});
	}
	map_free(&l.adjoints);
	map_free(&l.reduced);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* A scatter's base keeps what is not overwritten; its values get what stands where they went. */
static void
back_scatter(Grad *g, Node *t, Node *adjoint)
{
	Module *m = g->m;
	int rank = rank_of(t), n = t->nin - rank - 3;
	Node *const *axes = t->in + 1, *const *idx = axes + n, *value = t->in[t->nin - 2],
		*cond = t->in[t->nin - 1], *ax[MAX_RANK], *over;
	Around around = {n, (Node **)axes};

	if (t->n != COMB_SUM && t->n != COMB_SET) {
		refuse(g, "a scatter that multiplies or compares");
		return;
	}
	axes_new(m, rank, t->type->dims, ax);
	over = t_scatter(m, COMB_SET, t_tensor(m, rank, ax, x_bool(m, false)), n, axes, idx,
		x_bool(m, true), cond);
	axes_new(m, rank, t->type->dims, ax);
	if (map_get(&g->depends, t->in[0]))
		add_piece(g, t->in[0], t->n == COMB_SUM ? adjoint : t_tensor(m, rank, ax,
			x_select(m, x_read(m, over, ax), x_int(m, dtype_of(t), 0), x_read(m, adjoint, ax))));
	differentiate(g, around, value, (Adjoint){cond, x_read(m, adjoint, idx)});
}

static void
back(Grad *g, Node *t)
{
	Module *m = g->m;
	Node *adjoint = summed(g, t);

	g->tensor = t;
	if (t->code == O_TENSOR)
		differentiate(g, (Around){t->nin - 1, t->in}, t->in[t->nin - 1],
			(Adjoint){x_bool(m, true), x_read(m, adjoint, t->in)});
	else if (t->code == O_SCATTER)
		back_scatter(g, t, adjoint);
	else
		refuse(g, t->code == O_RESULT || t->code == O_LOOP || t->code == O_IF
			? "loops and branches are not differentiated"
			: "it is no arithmetic on tensors");
}

/* Marks what depends on a variable, operands first. */
static void
mark(Grad *g, Node **list, int n)
{
	int i, k, r;
	bool yes;

	for (i = 0; i < n; i++) {
		yes = is_variable(g, list[i]) || (list[i]->def && map_get(&g->depends, list[i]->def));
		for (k = 0; k < list[i]->nin && !yes; k++)
			yes = list[i]->in[k] && map_get(&g->depends, list[i]->in[k]);
		for (r = 0; r < list[i]->nregions; r++)
			for (k = 0; k < list[i]->regions[r]->nresults && !yes; k++)
				yes = map_get(&g->depends, list[i]->regions[r]->results[k]);
		if (yes)
			map_put(&g->depends, list[i], list[i]);
	}
}

static Node *
build_gradient(Build *b)
{
	Module *m = b->m;
	Grad g = {.b = b, .m = m, .x = b->in + 1, .nx = b->nin - 1};
	Node **list, **out = NEWN(m, Node *, b->nin), *axes[MAX_RANK], *y = b->in[0];
	int i, n;

	if (b->nout > g.nx)
		return fail(b, "%d gradients are asked for, of %d variables", b->nout, g.nx);
	list = topo(&y, 1, true, &n);
	mark(&g, list, n);
	axes_new(m, rank_of(y), y->type->dims, axes);
	add_piece(&g, y, t_tensor(m, rank_of(y), axes, x_int(m, dtype_of(y), 1)));
	for (i = n; i-- > 0 && !g.failed;)
		if (map_get(&g.pieces, list[i]) && map_get(&g.depends, list[i]) 
		 && !is_variable(&g, list[i]))
			back(&g, list[i]);
	for (i = 0; i < b->nout && !g.failed; i++)
		out[i] = summed(&g, g.x[i]);
	free(list);
	map_free(&g.depends);
	map_free(&g.pieces);
	return g.failed ? NULL : t_tuple(m, b->nout, out);
}

/* A tensor of its own, whatever is known of the operand. */
static Node *
build_variable(Build *b)
{
	Node *axes[MAX_RANK], *x = b->in[0];

	axes_new(b->m, rank_of(x), x->type->dims, axes);
	return t_tensor_with(b->m, rank_of(x), axes, x_read(b->m, x, axes), b->attrs);
}

const Op ops_gradient[] = {
	STRUCT("gradient", "ai.onnx.preview.training:Gradient", 1, "(y: float, x: float*) {} -> dx*",
		build_gradient, "what a small change of each variable does to the sum of y"),
	BUILD("variable", NULL, 1, "(x: float) {index: int} -> y", build_variable,
		"the operand, as what a gradient is formed for"),
	{0}
};
