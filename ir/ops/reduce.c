/* Reductions, and what is composed of them. */
#include "ops.h"

int
axis_attr(Build *b, const char *name, int rank)
{
	int64_t a = attr_int(b, name);

	if (a < -rank || a >= rank) {
		fail(b, "%s %lld is outside [%d, %d]", name, (long long)a, -rank, rank - 1);
		return -1;
	}
	return (int)(a < 0 ? a + rank : a);
}

bool
axes_mask(Build *b, Node *operand, const char *attr, int rank, bool all_if_empty, Node **on)
{
	Module *m = b->m;
	const int64_t *v;
	Node **e, *none = x_idx(m, rank), *len, *there, *in;
	int i, d, n = 0;

	if (operand) {
		if (!short_list(b, operand, "axes", rank, none, &n, &e))
			return false;
	} else if (attr && attr_ints(b, attr, &n, &v)) {
		e = NEWN(m, Node *, n + 1);
		for (i = 0; i < n; i++)
			e[i] = x_idx(m, v[i]);
	}
	len = operand && rank_of(operand) == 1 ? dim_of(operand, 0) : x_idx(m, n);
	for (i = 0; i < n; i++) {
		there = x_lt(m, x_idx(m, i), len);
		in = x_and(m, x_le(m, x_idx(m, -rank), e[i]), x_lt(m, e[i], x_idx(m, rank)));
		require(m, x_or(m, x_not(m, there), in), b->loc, "an axis is outside [%d, %d]", -rank,
			rank - 1);
	}
	for (d = 0; d < rank; d++) {
		on[d] = x_and(m, x_bool(m, all_if_empty), x_eq(m, len, x_idx(m, 0)));
		for (i = 0; i < n; i++)
			on[d] = x_or(m, on[d], x_any_axis(m, e[i], d, rank));
	}
	return true;
}

/* Half types accumulate in f32. */
static Node *
reduce_over(Module *m, Comb c, int n, Node *const *axes, Node *body)
{
	DType d = body->type->dtype;

	if (dt_small(d) && (c == COMB_SUM || c == COMB_PROD))
		return x_cast(m, d, x_reduce(m, c, n, axes, x_cast(m, DT_F32, body)));
	return x_reduce(m, c, n, axes, body);
}

Node *
sum_over(Module *m, int n, Node *const *axes, Node *body)
{
	return reduce_over(m, COMB_SUM, n, axes, body);
}

/* ---- the reductions -------------------------------------------------------------------------- */

/*
 * The axes of a reduction of x to nout dimensions: all, or those that are not reduced. An axis
 * known only at run time that keeps its place in the result has extent on ? 1 : dim, and is reduced
 * over on ? dim : 1.
 */
typedef struct Axes { int nout, nred; Node *out[MAX_RANK], *red[MAX_RANK], *idx[MAX_RANK]; } Axes;

/* Axes known only at run time that are dropped: the k-th that stays becomes the k-th of the
 * result. */
static Axes
axes_dropped(Module *m, Node *x, Node *const *on, int nout)
{
	Axes a = {.nout = nout};
	Node *one = x_idx(m, 1), *zero = x_idx(m, 0), *before[MAX_RANK], *sum = zero, *dim, *at;
	int i, k;

	for (i = 0; i < rank_of(x); i++) {
		before[i] = sum;
		sum = x_add(m, sum, x_select(m, on[i], zero, one));
	}
	for (k = 0; k < nout; k++) {
		for (dim = one, i = rank_of(x); i-- > 0;) {
			at = x_and(m, x_not(m, on[i]), x_eq(m, before[i], x_idx(m, k)));
			dim = x_select(m, at, dim_of(x, i), dim);
		}
		a.out[k] = x_axis(m, dim);
	}
	for (i = 0; i < rank_of(x); i++) {
		a.red[a.nred++] = x_axis(m, x_select(m, on[i], dim_of(x, i), one));
		for (at = zero, k = nout; k-- > 0;)
			at = x_select(m, x_eq(m, before[i], x_idx(m, k)), a.out[k], at);
		a.idx[i] = x_select(m, on[i], a.red[i], at);
	}
	return a;
}

static Axes
axes_of(Module *m, Node *x, Node *const *on, int nout)
{
	Axes a = {0};
	Node *one = x_idx(m, 1), *dim;
	bool keep = nout == rank_of(x);
	int i;

	for (i = 0; i < rank_of(x) && !keep; i++)
		if (on[i]->code != O_NUM)
			return axes_dropped(m, x, on, nout);
	for (i = 0; i < rank_of(x); i++) {
		dim = dim_of(x, i);
		if (is_intv(on[i], 0)) {
			a.idx[i] = a.out[a.nout++] = x_axis(m, dim);
		} else if (is_intv(on[i], 1)) {
			if (keep)
				a.out[a.nout++] = x_axis(m, one);
			a.idx[i] = a.red[a.nred++] = x_axis(m, dim);
		} else {
			a.out[a.nout++] = x_axis(m, x_select(m, on[i], one, dim));
			a.red[a.nred++] = x_axis(m, x_select(m, on[i], dim, one));
			a.idx[i] = x_select(m, on[i], a.red[a.nred - 1], a.out[a.nout - 1]);
		}
	}
	return a;
}

/* A reduction of f(element), finished by g; both may be absent. */
typedef struct Form {
	Comb comb;
	bool real;             /* computes in f64 where the elements are integers */
	Node *(*f)(Module *, Node *element);
	Node *(*g)(Module *, Node *result, Node *count);
} Form;

static Node *square(Module *m, Node *x) { return x_mul(m, x, x); }
static Node *magnitude(Module *m, Node *x) { return x1(m, O_ABS, x); }
static Node *root(Module *m, Node *s, Node *n) { (void)n; return x1(m, O_SQRT, s); }
static Node *logarithm(Module *m, Node *s, Node *n) { (void)n; return x1(m, O_LOG, s); }

static Node *
quotient(Module *m, Node *s, Node *n)
{
	return x2(m, O_DIV, s, x_cast(m, s->type->dtype, n));
}

static DType
form_type(const Form *f, DType d)
{
	if (dt_float(d))
		return dt_small(d) && f->comb != COMB_MAX && f->comb != COMB_MIN ? DT_F32 : d;
	return f->real ? DT_F64 : d;
}

static Node *
reduce(Module *m, const Form *f, Node *x, Node *const *on, int nout)
{
	Axes a = axes_of(m, x, on, nout);
	DType d = dtype_of(x), c = form_type(f, d);
	Node *e = x_cast(m, c, x_read(m, x, a.idx)), *count = x_idx(m, 1);
	int i;

	for (i = 0; i < a.nred; i++)
		count = x_mul(m, count, a.red[i]->in[0]);
	e = x_reduce(m, f->comb, a.nred, a.red, f->f ? f->f(m, e) : e);
	return t_tensor(m, a.nout, a.out, x_cast(m, d, f->g ? f->g(m, e, count) : e));
}

/* Which axes are on, and how many dimensions the result has. */
static bool
reduce_args(Build *b, Node **on, int *nout)
{
	Module *m = b->m;
	int rank = rank_of(b->in[0]), i, n = 0;
	bool noop = attr_int(b, "noop_with_empty_axes") != 0;
	Node **e, *reduced = x_idx(m, 0);

	*nout = rank;
	if (!axes_mask(b, b->in[1], NULL, rank, !noop, on))
		return false;
	if (attr_int(b, "keepdims") != 0)
		return true;
	for (i = 0; i < rank; i++)
		reduced = x_add(m, reduced, x_select(m, on[i], x_idx(m, 1), x_idx(m, 0)));
	if (reduced->code == O_NUM) {
		*nout = rank - (int)reduced->num.i;
		return true;
	}
	if (!list_arg(b, b->in[1], "axes", &n, &e))
		return false;
	if (n > rank)
		return fail(b, "%d axes of %d", n, rank) != NULL;
	require(m, x_eq(m, reduced, x_idx(m, n)), b->loc, "an axis is named twice");
	*nout = rank - n;
	return true;
}

static Node *
build_form(Build *b, const Form *f)
{
	Node *on[MAX_RANK];
	int nout;

	return reduce_args(b, on, &nout) ? reduce(b->m, f, b->in[0], on, nout) : NULL;
}

static Node *build_sum(Build *b)  { return build_form(b, &(Form){COMB_SUM, false, NULL, NULL}); }
static Node *build_prod(Build *b) { return build_form(b, &(Form){COMB_PROD, false, NULL, NULL}); }
static Node *build_mean(Build *b) { return build_form(b, &(Form){COMB_SUM, false, NULL, quotient});
	}
static Node *build_l1(Build *b) { return build_form(b, &(Form){COMB_SUM, false, magnitude, NULL}); }
static Node *build_l2(Build *b) { return build_form(b, &(Form){COMB_SUM, true, square, root}); }
static Node *build_squares(Build *b) { return build_form(b, &(Form){COMB_SUM, false, square, NULL});
	}
static Node *build_log_sum(Build *b) { return build_form(b,
	&(Form){COMB_SUM, true, NULL, logarithm}); }

static Node *
build_max(Build *b)
{
	bool truth = dtype_of(b->in[0]) == DT_BOOL;

	return build_form(b, &(Form){truth ? COMB_OR : COMB_MAX, false, NULL, NULL});
}

static Node *
build_min(Build *b)
{
	bool truth = dtype_of(b->in[0]) == DT_BOOL;

	return build_form(b, &(Form){truth ? COMB_AND : COMB_MIN, false, NULL, NULL});
}

/* max + log(sum(exp(x - max))), where an infinite maximum is not subtracted. */
static Node *
build_log_sum_exp(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *on[MAX_RANK], *top, *e, *t, *finite;
	DType d = dtype_of(x), c = form_type(&(Form){.comb = COMB_SUM, .real = true}, d);
	int nout;
	Axes a;

	if (!reduce_args(b, on, &nout))
		return NULL;
	top = reduce(m, &(Form){.comb = COMB_MAX}, x, on, nout);
	a = axes_of(m, x, on, nout);
	t = x_cast(m, c, x_read(m, top, a.out));
	finite = x_lt(m, x1(m, O_ABS, t), x_flt(m, c, __builtin_inf()));
	t = dt_float(d) ? x_select(m, finite, t, x_int(m, c, 0)) : t;
	e = x_sub(m, x_cast(m, c, x_read(m, x, a.idx)), t);
	e = x_reduce(m, COMB_SUM, a.nred, a.red, x1(m, O_EXP, e));
	return t_tensor(m, a.nout, a.out, x_cast(m, d, x_add(m, t, x1(m, O_LOG, e))));
}

#define RED(types) "(x: " types ", axes: i64?) {keepdims: int = 1, noop_with_empty_axes: int = 0}" \
	" -> y"

const Op ops_reduce[] = {
	BUILD("reduce_sum",  "ReduceSum",  13, RED("num"), build_sum,  "sum over axes"),
	BUILD("reduce_prod", "ReduceProd", 18, RED("num"), build_prod, "product over axes"),
	BUILD("reduce_max",  "ReduceMax",  20, RED("num|bool"), build_max,  "maximum over axes"),
	BUILD("reduce_min",  "ReduceMin",  20, RED("num|bool"), build_min,  "minimum over axes"),
	BUILD("reduce_mean", "ReduceMean", 18, RED("num"), build_mean, "mean over axes"),
	BUILD("reduce_l1",   "ReduceL1",   18, RED("num"), build_l1,   "sum of magnitudes over axes"),
	BUILD("reduce_l2",   "ReduceL2",   18, RED("num"), build_l2,
	"root of the sum of squares over axes"),
	BUILD("reduce_sum_square", "ReduceSumSquare", 18, RED("num"), build_squares,
	"sum of squares over axes"),
	BUILD("reduce_log_sum", "ReduceLogSum", 28, RED("num"), build_log_sum,
	"logarithm of the sum over axes"),
	BUILD("reduce_log_sum_exp", "ReduceLogSumExp", 28, RED("num"), build_log_sum_exp,
		"logarithm of the sum of exponentials over axes"),
	COMP("softmax", "Softmax", 13, "(x: float) {axis: int = -1} -> y",
		"e = exp(x - reduce_max(x, [axis])); e / reduce_sum(e, [axis])",
		"exp(x) normalised along an axis"),
	COMP("log_softmax", "LogSoftmax", 13, "(x: float) {axis: int = -1} -> y",
		"s = x - reduce_max(x, [axis]); s - log(reduce_sum(exp(s), [axis]))",
		"logarithm of softmax"),
	{0}
};
