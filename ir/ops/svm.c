/* ai.onnx.ml: support vector machines, in libsvm's form. */
#include <string.h>
#include <strings.h>
#include "ml.h"

typedef enum Kind { K_LINEAR, K_POLY, K_RBF, K_SIGMOID } Kind;
typedef struct Svm { Kind kind; double gamma, coef0, degree; } Svm;

static bool
svm_attrs(Build *b, Svm *s)
{
	static const char *const names[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
	const Attr *p = attr_find(b->attrs, "kernel_params");
	const char *kind = attr_str(b, "kernel_type");
	int i;

	*s = (Svm){0};
	for (i = 0; i < 4 && strcasecmp(kind, names[i]); i++)
		;
	if (i == 4)
		return fail(b, "kernel_type \"%s\" is not known", kind) != NULL;
	s->kind = (Kind)i;
	if (p && p->n >= 3) {
		s->gamma = p->fs[0];
		s->coef0 = p->fs[1];
		s->degree = p->fs[2];
	}
	return true;
}

static Node *
svm_finish(Module *m, const Svm *s, Node *dot)
{
	Node *e = x_add(m, x_mul(m, dot, x_flt(m, DT_F32, s->gamma)), x_flt(m, DT_F32, s->coef0));

	return s->kind == K_POLY ? x2(m, O_POW, e, x_flt(m, DT_F32, s->degree)) : s->kind == K_SIGMOID
		? x1(m, O_TANH, e) : dot;
}

/* The kernel of each row of x with each row of v: [n, rows of v]. */
static Node *
svm_kernel(Build *b, const Svm *s, Node *x, Node *v)
{
	Module *m = b->m;
	Node *axes[2], *k, *xi[2], *vi[2], *e, *t;

	if (s->kind != K_RBF) {
		t = ml_affine(b, x, v, NULL);
		axes_new(m, 2, t->type->dims, axes);
		return t_tensor(m, 2, axes, svm_finish(m, s, x_read(m, t, axes)));
	}
	require(m, x_eq(m, dim_of(x, 1), dim_of(v, 1)), b->loc, "%s features for vectors of %s",
		expr_print(m, dim_of(x, 1)),
		expr_print(m, dim_of(v, 1)));
	axes[0] = xi[0] = x_axis(m, dim_of(x, 0));
	axes[1] = vi[0] = x_axis(m, dim_of(v, 0));
	xi[1] = vi[1] = k = x_axis(m, dim_of(v, 1));
	e = x_sub(m, x_cast(m, DT_F32, x_read(m, x, xi)), x_read(m, v, vi));
	e = x_reduce(m, COMB_SUM, 1, &k, x_mul(m, e, e));
	return t_tensor(m, 2, axes, x1(m, O_EXP, x_mul(m, x_flt(m, DT_F32, -s->gamma), e)));
}

static Node *
support_vectors(Build *b, int64_t n)
{
	int64_t count = attr_len(b, "support_vectors"), dims[2] = {n, n > 0 ? count / n : 0};

	if (n < 1 || count == 0 || count % n)
		return fail(b, "%lld numbers for %lld support vectors", (long long)count, (long long)n);
	return attr_const(b, "support_vectors", DT_F32, 2, dims);
}

static Node *
build_svm_regressor(Build *b)
{
	Module *m = b->m;
	int64_t n = attr_int(b, "n_supports"), one[2] = {1, attr_len(b, "coefficients")};
	Node *x = feature_rows(b, b->in[0]), *v, *w, *s, *rho, *axes[2], *e;
	Post post;
	Svm svm;

	if (!x || !svm_attrs(b, &svm) || !post_attr(b, &post))
		return NULL;
	if (one[1] == 0 || attr_len(b, "rho") < 1)
		return fail(b, "coefficients or rho are missing");
	w = attr_const(b, "coefficients", DT_F32, 2, one);
	rho = x_flt(m, DT_F32, attr_find(b->attrs, "rho")->fs[0]);
	if (n > 0) {
		if (!(v = support_vectors(b, n)))
			return NULL;
		x = svm_kernel(b, &svm, x, v);
	}
	s = ml_affine(b, x, w, NULL);
	axes_new(m, 2, s->type->dims, axes);
	e = x_add(m, x_read(m, s, axes), rho);
	if (attr_int(b, "one_class"))
		e = x_select(m, x_lt(m, x_int(m, DT_F32, 0), e), x_int(m, DT_F32, 1), x_int(m, DT_F32, -1));
	return post_transform(b, post, t_tensor(m, 2, axes, e));
}

/* Scores of the pairs (i < j) of classes, [n, pairs]: dense
 * weights over all vectors, from libsvm's form. */
static Node *
pair_weights(Build *b, int64_t classes, const int64_t *per_class, int64_t vectors)
{
	const Attr *c = attr_find(b->attrs, "coefficients");
	int64_t pairs = classes * (classes - 1) / 2, dims[2] = {pairs, vectors}, i, j, k, p = 0, si, sj;
	Data *d = data_new(b->m, DT_F32, pairs * vectors, NULL);
	float *w = (float *)d->bytes;

	for (si = i = 0; i < classes; si += per_class[i++])
		for (sj = si + per_class[i], j = i + 1; j < classes; sj += per_class[j++], p++) {
			for (k = 0; k < per_class[i]; k++)
				w[p * vectors + si + k] = (float)c->fs[(j - 1) * vectors + si + k];
			for (k = 0; k < per_class[j]; k++)
				w[p * vectors + sj + k] = (float)c->fs[i * vectors + sj + k];
		}
	return t_const(b->m, DT_F32, 2, dims, d);
}

/* [pairs, 2]: the classes of each pair. */
static Node *
pair_table(Module *m, int64_t classes)
{
	int64_t pairs = classes * (classes - 1) / 2, dims[2] = {pairs, 2}, i, j, p = 0;
	Data *d = data_new(m, DT_I32, pairs * 2, NULL);
	int32_t *t = (int32_t *)d->bytes;

	for (i = 0; i < classes; i++)
		for (j = i + 1; j < classes; j++) {
			t[p++] = (int32_t)i;
			t[p++] = (int32_t)j;
		}
	return t_const(m, DT_I32, 2, dims, d);
}

/* How many pairs each class wins: [n, classes]. */
static Node *
pair_votes(Module *m, Node *scores, Node *table, int64_t classes)
{
	Node *axes[2], *p = x_axis(m, dim_of(table, 0)), *idx[2], *win, *at[2] = {p, x_idx(m, 0)}, *i,
		*j;

	axes[0] = idx[0] = x_axis(m, dim_of(scores, 0));
	axes[1] = x_axis(m, x_idx(m, classes));
	idx[1] = p;
	i = x_read(m, table, at);
	at[1] = x_idx(m, 1);
	j = x_read(m, table, at);
	win = x_lt(m, x_int(m, DT_F32, 0), x_read(m, scores, idx));
	win = x_eq(m, x_select(m, win, i, j), x_cast(m, DT_I32, axes[1]));
	return t_tensor(m, 2, axes, x_reduce(m, COMB_SUM, 1, &p, x_cast(m, DT_F32, win)));
}

/* r[n, i, j]: the probability of class i rather than j, by Platt's sigmoid on the pair's score. */
static Node *
pair_probabilities(Build *b, Node *scores, int64_t classes)
{
	Module *m = b->m;
	int64_t pairs = classes * (classes - 1) / 2;
	Node *pa = attr_const(b, "prob_a", DT_F32, 1, &pairs),
		*pb = attr_const(b, "prob_b", DT_F32, 1, &pairs);
	Node *axes[3], *lo, *hi, *p, *idx[2], *one = x_int(m, DT_F32, 1), *e, *k = x_idx(m, classes);

	if (!pa || !pb)
		return NULL;
	axes[0] = x_axis(m, dim_of(scores, 0));
	axes[1] = x_axis(m, k);
	axes[2] = x_axis(m, k);
	lo = x_min(m, axes[1], axes[2]);
	hi = x_max(m, axes[1], axes[2]);
	/* the pairs before (lo, hi) in the order (0,1), (0,2) ... (1,2) ... */
	p = x_fdiv(m, x_mul(m, lo, x_sub(m, x_muli(m, k, 2), x_addi(m, lo, 1))), x_idx(m, 2));
	p = x_addi(m, x_add(m, p, x_sub(m, hi, lo)), -1);
	idx[0] = axes[0];
	idx[1] = p;
	e = x_add(m, x_mul(m, x_read(m, scores, idx), x_read(m, pa, &p)), x_read(m, pb, &p));
	e = x_sub(m, one, ml_logistic(m, e));
	e = x_min(m, x_max(m, e, x_flt(m, DT_F32, 1e-7)), x_flt(m, DT_F32, 1 - 1e-7));
	e = x_select(m, x_lt(m, axes[1], axes[2]), e, x_sub(m, one, e));
	e = x_select(m, x_eq(m, axes[1], axes[2]), x_int(m, DT_F32, 0), e);
	return t_tensor(m, 3, axes, e);
}

/* Q of Wu, Lin and Weng's second method: Q[i,i] = sum of r[j,i]^2, Q[i,j] = -r[j,i] r[i,j]. */
static Node *
coupling(Module *m, Node *r)
{
	Node *axes[3], *j, *idx[3], *swap[3], *on, *off;

	axes_new(m, 3, r->type->dims, axes);
	j = x_axis(m, dim_of(r, 1));
	idx[0] = swap[0] = axes[0];
	idx[1] = j;
	idx[2] = axes[1];
	on = x_read(m, r, idx);
	on = x_reduce(m, COMB_SUM, 1, &j, x_mul(m, on, on));
	swap[1] = axes[2];
	swap[2] = axes[1];
	off = x1(m, O_NEG, x_mul(m, x_read(m, r, swap), x_read(m, r, axes)));
	return t_tensor(m, 3, axes, x_select(m, x_eq(m, axes[1], axes[2]), on, off));
}

/*
 * Their iteration, a coordinate a round: round t of k updates class t mod k; each k-th begins by
 * computing Qp and p'Qp anew and ends those rows whose error is small. Carried: p, Qp, p'Qp, done.
 */
typedef struct Coupling {
	Module *m;
	int64_t classes;
	Node *q, *n, *k;             /* Q [n, k, k]; its sizes */
	Node *t, *start;             /* the class of the round; is it the first one? */
	Node *p, *qp, *pqp, *done;
	Node *step;                  /* [n]: by how much p[t] grows */
} Coupling;

/* The sum over j of a[row, j] * b[row, i, j], or of a[row, j] * b[row, j] where i is NULL. */
static Node *
row_product(const Coupling *c, Node *row, Node *i, Node *a, Node *b)
{
	Module *m = c->m;
	Node *j = x_axis(m, c->k), *at[3] = {row, i ? i : j, j};

	return x_reduce(m, COMB_SUM, 1, &j,
		x_mul(m, x_read(m, a, (Node *[]){row, j}), x_read(m, b, at)));
}

/* Each k-th round: Qp, p'Qp, and which rows are done, from p alone. */
static void
begin_round(Coupling *c)
{
	Module *m = c->m;
	Node *ax[2], *row, *j, *e;

	axes_new(m, 2, (Node *[]){c->n, c->k}, ax);
	e = row_product(c, ax[0], ax[1], c->p, c->q);
	c->qp = t_tensor(m, 2, ax, x_select(m, c->start, e, x_read(m, c->qp, ax)));
	row = x_axis(m, c->n);
	e = row_product(c, row, NULL, c->p, c->qp);
	c->pqp = t_tensor(m, 1, &row, x_select(m, c->start, e, x_read(m, c->pqp, &row)));
	row = x_axis(m, c->n);
	j = x_axis(m, c->k);
	e = x_sub(m, x_read(m, c->qp, (Node *[]){row, j}), x_read(m, c->pqp, &row));
	e = x_reduce(m, COMB_MAX, 1, &j, x1(m, O_ABS, e));
	e = x_lt(m, e, x_flt(m, DT_F32, 0.005 / (double)c->classes));
	c->done = t_tensor(m, 1, &row, x_or(m, x_read(m, c->done, &row), x_and(m, c->start, e)));
}

/* Q[row, t, t] and (Qp)[row, t] */
static Node *
pivot(const Coupling *c, Node *row)
{
	return x_read(c->m, c->q, (Node *[]){row, c->t, c->t});
}

static Node *
slope(const Coupling *c, Node *row)
{
	return x_read(c->m, c->qp, (Node *[]){row, c->t});
}

/* p[t] grows by the step; all is divided by what p then sums to. */
static void
update(Coupling *c)
{
	Module *m = c->m;
	Node *one = x_int(m, DT_F32, 1), *zero = x_int(m, DT_F32, 0), *ax[2], *row, *e, *d, *qp;

	row = x_axis(m, c->n);
	e = x2(m, O_DIV, x_sub(m, x_read(m, c->pqp, &row), slope(c, row)), pivot(c, row));
	c->step = t_tensor(m, 1, &row, x_select(m, x_read(m, c->done, &row), zero, e));
	axes_new(m, 2, (Node *[]){c->n, c->k}, ax);
	d = x_read(m, c->step, ax);
	e = x_add(m, x_read(m, c->p, ax), x_select(m, x_eq(m, ax[1], c->t), d, zero));
	c->p = t_tensor(m, 2, ax, x2(m, O_DIV, e, x_add(m, one, d)));
	axes_new(m, 2, (Node *[]){c->n, c->k}, ax);
	d = x_read(m, c->step, ax);
	e = x_read(m, c->q, (Node *[]){ax[0], c->t, ax[1]});
	e = x_add(m, x_read(m, c->qp, ax), x_mul(m, d, e));
	qp = t_tensor(m, 2, ax, x2(m, O_DIV, e, x_add(m, one, d)));
	row = x_axis(m, c->n);
	d = x_read(m, c->step, &row);
	e = x_add(m, x_mul(m, d, pivot(c, row)), x_mul(m, x_int(m, DT_F32, 2), slope(c, row)));
	e = x_add(m, x_read(m, c->pqp, &row), x_mul(m, d, e));
	e = x2(m, O_DIV, x2(m, O_DIV, e, x_add(m, one, d)), x_add(m, one, d));
	c->pqp = t_tensor(m, 1, &row, e);
	c->qp = qp;
}

/* Equal chances, zeros, zeros, none done. */
static void
couple_init(const Coupling *c, Node **init)
{
	Module *m = c->m;
	Node *value[4] = {x_flt(m, DT_F32, 1.0 / (double)c->classes), x_int(m, DT_F32, 0),
		x_int(m, DT_F32, 0), x_bool(m, false)}, *ax[2];

	for (int i = 0; i < 4; i++) {
		axes_new(m, 2, (Node *[]){c->n, c->k}, ax);
		init[i] = t_tensor(m, i < 2 ? 2 : 1, ax, value[i]);
	}
}

static Node *
coupled(Build *b, Node *r, int64_t classes)
{
	Module *m = b->m;
	Coupling c = {.m = m, .classes = classes, .q = coupling(m, r), .n = dim_of(r, 0),
		.k = x_idx(m, classes)};
	Region *body = region_new(m, "couple");
	Node *init[4], *trip, *row, *go, *loop;
	int i;

	couple_init(&c, init);
	body->nparams = 5;
	body->params = NEWN(m, Node *, 5);
	body->params[0] = trip = t_param(m, "round", ty_tensor(m, DT_I64, 0, NULL), 0);
	for (i = 0; i < 4; i++)
		body->params[1 + i] = t_param(m, "s", init[i]->type, 1 + i);
	c.t = x_mod(m, x_cast(m, DT_INDEX, x_read(m, trip, NULL)), c.k);
	c.start = x_eq(m, c.t, x_idx(m, 0));
	c.p = body->params[1], c.qp = body->params[2];
	c.pqp = body->params[3], c.done = body->params[4];
	begin_round(&c);
	update(&c);
	row = x_axis(m, c.n);
	go = x_not(m, x_reduce(m, COMB_AND, 1, &row, x_read(m, c.done, &row)));
	region_add(m, body, t_tensor(m, 0, NULL, go));
	for (i = 0; i < 4; i++)
		region_add(m, body, (Node *[]){c.p, c.qp, c.pqp, c.done}[i]);
	loop = loop_build(b, t_ints(m, 1, (int64_t[]){100 * classes}), NULL, 4, init, body);
	return loop ? t_result(m, loop, 0) : NULL;
}

/* Score [n, 1] from the first column. */
static Node *
first_column(Module *m, Node *s)
{
	Node *axes[2] = {x_axis(m, dim_of(s, 0)), x_axis(m, x_idx(m, 1))};

	return t_tensor(m, 2, axes, x_read(m, s, axes));
}

static Node *
build_svm_classifier(Build *b)
{
	Module *m = b->m;
	Node *labels = class_labels(b, "classlabels_ints", "classlabels_strings"), *x, *s, *v, *w,
		*votes, *rho;
	const Attr *per = attr_find(b->attrs, "vectors_per_class"), *r = attr_find(b->attrs, "rho");
	int64_t classes = labels ? dim_of(labels, 0)->num.i : 0, vectors = 0, i,
		pairs = classes * (classes - 1) / 2;
	Svm svm;
	Post post;

	x = labels ? feature_rows(b, b->in[0]) : NULL;
	if (!x || !svm_attrs(b, &svm) || !post_attr(b, &post))
		return NULL;
	for (i = 0; per && i < per->n; i++) {
		if (per->is[i] < 0 || per->is[i] > 1 << 24)
			return fail(b, "vectors_per_class has the entry %lld", (long long)per->is[i]);
		vectors += per->is[i];
	}
	if (vectors == 0) {
		w = ml_coefficients(b, classes);
		if (!w || !r || r->n < 1)
			return w ? fail(b, "rho is missing") : NULL;
		s = ml_affine(b, x, w, NULL);
		Node *axes[2];
		axes_new(m, 2, s->type->dims, axes);
		s = t_tensor(m, 2, axes, x_add(m, x_read(m, s, axes), x_flt(m, DT_F32, r->fs[0])));
		return ml_by_argmax(b, labels, s, post_transform(b, post, s));
	}
	if (classes < 2 || classes > 4096 || per->n != classes ||
		attr_len(b, "coefficients") != (classes - 1) * vectors)
		return fail(b, "%d counts of vectors and %d coefficients for %lld classes", per->n,
			attr_len(b, "coefficients"),
			(long long)classes);
	if (pairs * vectors > 1 << 27)
		return unsupported(b, "%lld pairs of classes with %lld vectors", (long long)pairs,
			(long long)vectors);
	if (!r || r->n != pairs)
		return fail(b, "rho has %d entries, must have %lld", r ? r->n : 0, (long long)pairs);
	if (!(v = support_vectors(b, vectors)))
		return NULL;
	rho = attr_const(b, "rho", DT_F32, 1, &pairs);
	s = ml_affine(b, svm_kernel(b, &svm, x, v), pair_weights(b, classes, per->is, vectors), rho);
	votes = pair_votes(m, s, pair_table(m, classes), classes);
	if (attr_len(b, "prob_a") == 0)
		return ml_by_argmax(b, labels, votes,
			classes == 2 ? two_columns(b, post, first_column(m, s), post == POST_NONE)
			: post_transform(b, post, s));
	v = pair_probabilities(b, s, classes);
	s = v ? coupled(b, v, classes) : NULL;
	return s ? ml_by_argmax(b, labels, votes, post_transform(b, post, s)) : NULL;
}

#define ML_NUM "f32|f64|i64|i32"
#define POST "post_transform: str = \"NONE\""

const Op ops_svm[] = {
	BUILD("svm_regressor", "ai.onnx.ml:SVMRegressor", 1,
		"(x: " ML_NUM ") {coefficients: floats?, kernel_params: floats?,"
		" kernel_type: str = \"LINEAR\", n_supports: int = 0, one_class: int = 0, " POST ","
		" rho: floats?,"
		" support_vectors: floats?} -> y", build_svm_regressor, "support vector regression"),
	BUILD("svm_classifier", "ai.onnx.ml:SVMClassifier", 1,
	"(x: " ML_NUM ") {classlabels_ints: ints?,"
		" classlabels_strings: strs?, coefficients: floats?, kernel_params: floats?,"
		" kernel_type: str = \"LINEAR\", " POST ","
		" prob_a: floats?, prob_b: floats?, rho: floats?, support_vectors: floats?,"
		" vectors_per_class: ints?} -> y, z",
		build_svm_classifier, "support vector classification: labels, scores"),
	{0}
};
