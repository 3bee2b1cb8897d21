/*
 * Determinants and inverses of square matrices, by elimination in f64 with the largest pivot of a
 * column.
 */
#include <string.h>
#include "ops.h"

/* Matrices of more rows, or of a number known only at run time, are eliminated in a loop. */
enum { WRITTEN_OUT = 64 };

/* One round on the carried tensors, of which the last is the matrices [batch..., n, columns]. */
typedef void (*Step)(Module *, Node **carried, Node *k);

static Node *
looped(Build *b, int n, Node *const *init, Node *rounds, Step step)
{
	Module *m = b->m;
	Region *r = region_new(m, "step");
	Node *trip = t_param(m, "round", ty_tensor(m, DT_I64, 0, NULL), 0), *carried[2];
	int i;

	r->nparams = n + 1;
	r->params = NEWN(m, Node *, n + 1);
	r->params[0] = trip;
	for (i = 0; i < n; i++)
		carried[i] = r->params[i + 1] = t_param(m, "part", init[i]->type, i + 1);
	step(m, carried, x_cast(m, DT_INDEX, x_read(m, trip, NULL)));
	region_add(m, r, t_scalar(m, DT_BOOL, (Num){.i = 1}));
	for (i = 0; i < n; i++)
		region_add(m, r, carried[i]);
	return loop_build(b, t_scalar_expr(m, DT_I64, rounds), NULL, n, init, r);
}

/* Takes the step for each k below rounds; false after an error. */
static bool
steps(Build *b, int n, Node **carried, Node *rounds, Step step)
{
	int64_t k, known;
	Node *loop;
	int i;

	if (is_int(rounds, &known) && known <= WRITTEN_OUT) {
		for (k = 0; k < known; k++)
			step(b->m, carried, x_idx(b->m, k));
		return true;
	}
	if (!(loop = looped(b, n, carried, rounds, step)))
		return false;
	for (i = 0; i < n; i++)
		carried[i] = t_result(b->m, loop, i);
	return true;
}

/* The operand's number of rows, which is that of its columns; NULL after an error. */
static Node *
square(Build *b)
{
	Node *x = b->in[0];
	int r = rank_of(x);
	int64_t n;

	if (r < 2)
		return fail(b, "the operand has %d dimensions, needs 2", r);
	require(b->m, x_eq(b->m, dim_of(x, r - 1), dim_of(x, r - 2)), b->loc,
		"the matrices are %s by %s",
		expr_print(b->m, dim_of(x, r - 2)), expr_print(b->m, dim_of(x, r - 1)));
	return dim_of(x, is_int(dim_of(x, r - 1), &n) ? r - 1 : r - 2);
}

/* The magnitude of a row's element in column k, less than any where the row is done with. */
static Node *
magnitude(Module *m, Node *a, Node *const *batch, Node *row, Node *k)
{
	Node *idx[MAX_RANK];
	int r = rank_of(a) - 2;

	memcpy(idx, batch, sizeof *idx * (size_t)r);
	idx[r] = row;
	idx[r + 1] = k;
	return x_select(m, x_le(m, k, row), x1(m, O_ABS, x_read(m, a, idx)), x_flt(m, DT_F64, -1));
}

/* i64[batch...]: the first row from k on whose element in column
 * k is the largest; with a NaN the last row. */
static Node *
pivots(Module *m, Node *a, Node *k)
{
	Node *ax[MAX_RANK], *i, *best, *v, *last;
	int r = rank_of(a) - 2;

	axes_new(m, r, a->type->dims, ax);
	i = x_axis(m, dim_of(a, r));
	best = t_tensor(m, r, ax, x_reduce(m, COMB_MAX, 1, &i, magnitude(m, a, ax, i, k)));
	axes_new(m, r, a->type->dims, ax);
	i = x_axis(m, dim_of(a, r));
	v = x_eq(m, magnitude(m, a, ax, i, k), x_read(m, best, ax));
	last = x_cast(m, DT_I64, x_addi(m, dim_of(a, r), -1));
	v = x_select(m, v, x_cast(m, DT_I64, i), last);
	return t_tensor(m, r, ax, x_reduce(m, COMB_MIN, 1, &i, v));
}

static Node *
pivot_at(Module *m, Node *pivot, Node *const *batch, Node *rows)
{
	return x2(m, O_BOUND, x_cast(m, DT_INDEX, x_read(m, pivot, batch)), rows);
}

/*
 * carried: determinants [batch...] and [batch..., n, n]. The pivot's row is exchanged with row k,
 * and its multiples are taken from those below. The determinant is multiplied by the pivot, negated
 * by an exchange.
 */
static void
eliminate(Module *m, Node **carried, Node *k)
{
	Node *det = carried[0], *a = carried[1], *pivot = pivots(m, a, k), *ax[MAX_RANK],
		*idx[MAX_RANK];
	Node *zero = x_flt(m, DT_F64, 0), *v, *p, *piv, *f, *row;
	int r = rank_of(a) - 2;

	axes_new(m, r, a->type->dims, ax);
	memcpy(idx, ax, sizeof *idx * (size_t)r);
	idx[r] = p = pivot_at(m, pivot, ax, dim_of(a, r));
	idx[r + 1] = k;
	piv = x_read(m, a, idx);
	v = x_select(m, x_eq(m, p, k), piv, x1(m, O_NEG, piv));
	carried[0] = t_tensor(m, r, ax, x_mul(m, x_read(m, det, ax), v));

	axes_new(m, r + 2, a->type->dims, ax);
	memcpy(idx, ax, sizeof *idx * (size_t)(r + 2));
	idx[r] = p = pivot_at(m, pivot, ax, dim_of(a, r));
	idx[r + 1] = k;
	piv = x_read(m, a, idx);
	idx[r] = row = x_select(m, x_eq(m, ax[r], k), p, x_select(m, x_eq(m, ax[r], p), k, ax[r]));
	f = x_read(m, a, idx);
	f = x_select(m, x_eq(m, piv, zero), zero, x2(m, O_DIV, f, piv));
	idx[r] = p;
	idx[r + 1] = ax[r + 1];
	v = x_mul(m, f, x_read(m, a, idx));
	idx[r] = row;
	v = x_select(m, x_lt(m, k, ax[r]), x_sub(m, x_read(m, a, idx), v), x_read(m, a, idx));
	carried[1] = t_tensor(m, r + 2, ax, v);
}

static Node *
build_det(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *n = square(b), *axes[MAX_RANK], *carried[2];
	int r = rank_of(x) - 2;

	if (!n)
		return NULL;
	axes_new(m, r, x->type->dims, axes);
	carried[0] = t_tensor(m, r, axes, x_flt(m, DT_F64, 1));
	axes_new(m, r, x->type->dims, axes);
	axes[r] = x_axis(m, n);
	axes[r + 1] = x_axis(m, n);
	carried[1] = t_tensor(m, r + 2, axes, x_cast(m, DT_F64, x_read(m, x, axes)));
	if (!steps(b, 2, carried, n, eliminate))
		return NULL;
	axes_new(m, r, x->type->dims, axes);
	return t_tensor(m, r, axes, x_cast(m, dtype_of(x), x_read(m, carried[0], axes)));
}

/*
 * Gauss and Jordan on [batch..., n, 2 n]: the pivot's row goes to row k, divided by the pivot, and
 * its multiples are taken from all others.
 */
static void
jordan(Module *m, Node **carried, Node *k)
{
	Node *a = carried[0], *pivot = pivots(m, a, k), *ax[MAX_RANK], *idx[MAX_RANK], *p, *piv, *self,
		*f, *v;
	int r = rank_of(a) - 2;

	axes_new(m, r + 2, a->type->dims, ax);
	memcpy(idx, ax, sizeof *idx * (size_t)(r + 2));
	idx[r] = p = pivot_at(m, pivot, ax, dim_of(a, r));
	idx[r + 1] = k;
	piv = x_read(m, a, idx);
	idx[r + 1] = ax[r + 1];
	self = x2(m, O_DIV, x_read(m, a, idx), piv);
	idx[r] = x_select(m, x_eq(m, ax[r], p), k, ax[r]);
	idx[r + 1] = k;
	f = x_read(m, a, idx);
	idx[r + 1] = ax[r + 1];
	v = x_sub(m, x_read(m, a, idx), x_mul(m, f, self));
	carried[0] = t_tensor(m, r + 2, ax, x_select(m, x_eq(m, ax[r], k), self, v));
}

static Node *
build_inverse(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *n = square(b), *a, *axes[MAX_RANK], *idx[MAX_RANK], *e;
	int r = rank_of(x);

	if (!n)
		return NULL;
	axes_new(m, r - 2, x->type->dims, axes);
	axes[r - 2] = x_axis(m, n);
	axes[r - 1] = x_axis(m, x_muli(m, n, 2));
	e = x_eq(m, axes[r - 1], x_add(m, axes[r - 2], n));
	e = x_select(m, e, x_flt(m, DT_F64, 1), x_flt(m, DT_F64, 0));
	e = x_select(m, x_lt(m, axes[r - 1], n), x_cast(m, DT_F64, x_read(m, x, axes)), e);
	a = t_tensor(m, r, axes, e);
	if (!steps(b, 1, &a, n, jordan))
		return NULL;
	axes_new(m, r, x->type->dims, axes);
	memcpy(idx, axes, sizeof *idx * (size_t)r);
	idx[r - 1] = x_add(m, axes[r - 1], n);
	return t_tensor(m, r, axes, x_cast(m, dtype_of(x), x_read(m, a, idx)));
}

const Op ops_matrix[] = {
	BUILD("det", "Det", 22, "(x: float) {} -> y", build_det, "determinants of square matrices"),
	BUILD("inverse", "com.microsoft:Inverse", 1, "(x: float) {} -> y", build_inverse,
	"inverse matrices"),
	{0}
};
