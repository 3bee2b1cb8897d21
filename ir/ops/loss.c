/* Losses, and the steps of gradient descent. */
#include <string.h>
#include "ops.h"

/* ---- negative log likelihood ----------------------------------------------------------------- */

typedef struct Loss { Node *x, *target, *weight; bool ignores; int64_t ignored; } Loss;

/* The weight of the target at the axes, in type c; 0 where it is ignored. */
static Node *
target_weight(Build *b, const Loss *l, DType c, Node *const *axes)
{
	Module *m = b->m;
	Node *t = x_cast(m, DT_INDEX, x_read(m, l->target, axes)), *w = x_int(m, c, 1), *at;

	if (l->weight) {
		at = x2(m, O_BOUND, t, dim_of(l->weight, 0));
		w = x_cast(m, c, x_read(m, l->weight, &at));
	}
	return l->ignores ? x_select(m, x_eq(m, t, x_idx(m, l->ignored)), x_int(m, c, 0), w) : w;
}

static Node *
target_loss(Build *b, const Loss *l, DType c, Node *const *axes)
{
	Module *m = b->m;
	Node *t = x_cast(m, DT_INDEX, x_read(m, l->target, axes)), *idx[MAX_RANK], *e,
		*w = target_weight(b, l, c, axes);
	int i;

	idx[0] = axes[0];
	idx[1] = x2(m, O_BOUND, t, dim_of(l->x, 1));
	for (i = 2; i < rank_of(l->x); i++)
		idx[i] = axes[i - 1];
	e = x1(m, O_NEG, x_cast(m, c, x_read(m, l->x, idx)));
	if (w->code != O_NUM)
		e = x_mul(m, e, w);
	return l->ignores ? x_select(m, x_eq(m, t, x_idx(m, l->ignored)), x_int(m, c, 0), e) : e;
}

static Node *
build_nll(Build *b)
{
	Module *m = b->m;
	const char *how = attr_str(b, "reduction");
	const Attr *ignore = attr_find(b->attrs, "ignore_index");
	Loss l = {b->in[0], b->in[1], b->in[2], ignore != NULL, ignore ? ignore->i : 0};
	DType d = dtype_of(l.x), c = acc_type(d);
	Node *axes[MAX_RANK], *e, *w;
	int rank = rank_of(l.target), i;

	if (strcmp(how, "mean") && strcmp(how, "sum") && strcmp(how, "none"))
		return fail(b, "reduction is \"%s\", must be mean, sum or none", how);
	if (rank_of(l.x) < 2 || rank != rank_of(l.x) - 1 || (l.weight && rank_of(l.weight) != 1))
		return fail(b, "the operand has %d dimensions, the target %d", rank_of(l.x), rank);
	for (i = 0; i < rank; i++)
		require(m, x_eq(m, dim_of(l.target, i), dim_of(l.x, i ? i + 1 : 0)), b->loc,
			"the target has %s elements at axis %d, the operand %s",
			expr_print(m, dim_of(l.target, i)), i,
			expr_print(m, dim_of(l.x, i ? i + 1 : 0)));
	axes_new(m, rank, l.target->type->dims, axes);
	e = target_loss(b, &l, c, axes);
	if (strcmp(how, "none") == 0)
		return t_tensor(m, rank, axes, x_cast(m, d, e));
	e = x_reduce(m, COMB_SUM, rank, axes, e);
	if (strcmp(how, "mean") == 0) {
		axes_new(m, rank, l.target->type->dims, axes);
		w = target_weight(b, &l, c, axes);
		w = w->code == O_NUM ? x_cast(m, c, numel(m, l.target))
			: x_reduce(m, COMB_SUM, rank, axes, w);
		e = x2(m, O_DIV, e, w);
	}
	return t_tensor(m, 0, NULL, x_cast(m, d, e));
}

/* ---- training -------------------------------------------------------------------------------- */

/* One tensor that is trained: x, its gradient, and its state; out: the new x and the new state. */
typedef struct Step { Build *b; DType d; Node *r, *t, *x, *g, *s[2], *out[3]; } Step;

static Node *
hyper(Step *s, const char *name)
{
	return x_flt(s->b->m, s->d, attr_float(s->b, name));
}

static void
adagrad(Step *s)
{
	Module *m = s->b->m;
	Node *r, *h;

	r = x_add(m, x_flt(m, DT_F64, 1),
		x_mul(m, x_cast(m, DT_F64, s->t), x_flt(m, DT_F64, attr_float(s->b, "decay_factor"))));
	r = x_cast(m, s->d, x2(m, O_DIV, x_cast(m, DT_F64, s->r), r));
	h = x_add(m, s->s[0], x_mul(m, s->g, s->g));
	s->out[0] = x_sub(m, s->x,
		x2(m, O_DIV, x_mul(m, r, s->g), x_add(m, x1(m, O_SQRT, h), hyper(s, "epsilon"))));
	s->out[1] = h;
}

/* 1 - base^t, in f64. */
static Node *
decay(Step *s, const char *base)
{
	Module *m = s->b->m;
	Node *p = x2(m, O_POW, x_flt(m, DT_F64, attr_float(s->b, base)), x_cast(m, DT_F64, s->t));

	return x_sub(m, x_flt(m, DT_F64, 1), p);
}

static void
adam(Step *s)
{
	Module *m = s->b->m;
	Node *one = x_int(m, s->d, 1), *a = hyper(s, "alpha"), *b = hyper(s, "beta"), *v, *h, *r, *x;

	v = x_add(m, x_mul(m, a, s->s[0]), x_mul(m, x_sub(m, one, a), s->g));
	h = x_add(m, x_mul(m, b, s->s[1]), x_mul(m, x_sub(m, one, b), x_mul(m, s->g, s->g)));
	r = x_cast(m, DT_F64, s->r);
	r = x_select(m, x_lt(m, x_int(m, DT_I64, 0), s->t),
		x2(m, O_DIV, x_mul(m, r, x1(m, O_SQRT, decay(s, "beta"))), decay(s, "alpha")), r);
	x = x2(m, O_DIV, v, x_add(m, x1(m, O_SQRT, h), hyper(s, "epsilon")));
	x = x_sub(m, s->x, x_mul(m, x_cast(m, s->d, r), x));
	s->out[0] = x_mul(m, x_sub(m, one, hyper(s, "norm_coefficient_post")), x);
	s->out[1] = v;
	s->out[2] = h;
}

static void
momentum(Step *s)
{
	Module *m = s->b->m;
	Node *one = x_int(m, s->d, 1), *a = hyper(s, "alpha"), *b, *v;

	b = x_select(m, x_lt(m, x_int(m, DT_I64, 0), s->t), hyper(s, "beta"), one);
	v = x_add(m, x_mul(m, a, s->s[0]), x_mul(m, b, s->g));
	s->out[1] = v;
	if (strcmp(attr_str(s->b, "mode"), "nesterov") == 0)
		v = x_add(m, s->g, x_mul(m, a, v));
	s->out[0] = x_sub(m, s->x, x_mul(m, x_cast(m, s->d, s->r), v));
}

/* Operands: r, t, then all x, all gradients, all of each state; results: all x, all of each
 * state. */
static Node *
trained(Build *b, int states, void (*step)(Step *))
{
	Module *m = b->m;
	int n = (b->nin - 2) / (2 + states), i, k, rank;
	Node **out = NEWN(m, Node *, n * (1 + states) + 1), **in = b->in + 2, *axes[MAX_RANK];

	if (n < 1 || b->nin != 2 + n * (2 + states))
		return fail(b, "%d operands, must be 2 and a multiple of %d", b->nin, 2 + states);
	for (i = 0; i < n; i++) {
		Step s = {.b = b, .d = dtype_of(in[i])};
		rank = rank_of(in[i]);
		axes_new(m, rank, in[i]->type->dims, axes);
		for (k = 1; k < 2 + states; k++) {
			Node *t = in[k * n + i];
			if (rank_of(t) != rank || dtype_of(t) != s.d)
				return fail(b, "operand %d differs from tensor %d in type or rank", 2 + k * n + i,
					i);
			for (int j = 0; j < rank; j++)
				require(m, x_eq(m, dim_of(t, j), dim_of(in[i], j)), b->loc,
					"operand %d differs from tensor %d in shape",
					2 + k * n + i, i);
		}
		s.r = scalar_arg(m, b->in[0]);
		s.t = scalar_arg(m, b->in[1]);
		s.x = x_read(m, in[i], axes);
		s.g = x_add(m, x_mul(m, hyper(&s, "norm_coefficient"), s.x), x_read(m, in[n + i], axes));
		for (k = 0; k < states; k++)
			s.s[k] = x_read(m, in[(2 + k) * n + i], axes);
		step(&s);
		for (k = 0; k < 1 + states; k++)
			out[k * n + i] = t_tensor(m, rank, axes, s.out[k]);
	}
	return t_tuple(m, n * (1 + states), out);
}

static Node *build_adagrad(Build *b) { return trained(b, 1, adagrad); }
static Node *build_adam(Build *b) { return trained(b, 2, adam); }

static Node *
build_momentum(Build *b)
{
	const char *mode = attr_str(b, "mode");

	if (strcmp(mode, "standard") && strcmp(mode, "nesterov"))
		return fail(b, "mode is \"%s\", must be standard or nesterov", mode);
	return trained(b, 1, momentum);
}

#define TRAIN "(r: f32|f64, t: i64, rest: f32|f64*)"

const Op ops_loss[] = {
	BUILD("negative_log_likelihood_loss", "NegativeLogLikelihoodLoss", 22,
		"(x: float, target: idx, weight: x?)"
		" {ignore_index: int?, reduction: str = \"mean\"} -> loss", build_nll,
		"minus the target's weighted element"),
	COMP("softmax_cross_entropy_loss", "SoftmaxCrossEntropyLoss", 13,
	"(x: float, target: idx, weight: x?)"
		" {ignore_index: int?, reduction: str = \"mean\"} -> loss, log_prob?",
		"p = log_softmax(x, axis=1);"
		"negative_log_likelihood_loss(p, target, weight, ignore_index=ignore_index,"
		" reduction=reduction), p",
		"negative log likelihood of softmax"),
	BUILD("adagrad", "ai.onnx.preview.training:Adagrad", 1,
	TRAIN " {decay_factor: float = 0, epsilon: float = 1e-6,"
		" norm_coefficient: float = 0} -> y*", build_adagrad, "a step of Adagrad"),
	BUILD("adam", "ai.onnx.preview.training:Adam", 1,
	TRAIN " {alpha: float = 0.9, beta: float = 0.999,"
		" epsilon: float = 1e-6, norm_coefficient: float = 0, norm_coefficient_post: float = 0} ->"
		" y*", build_adam,
		"a step of Adam"),
	BUILD("momentum", "ai.onnx.preview.training:Momentum", 1,
	TRAIN " {alpha: float, beta: float, mode: str,"
		" norm_coefficient: float} -> y*", build_momentum, "a step of descent with momentum"),
	{0}
};
