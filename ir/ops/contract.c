/*
 * Contractions: matrix products and einsum (convolutions are in conv.c).
 *
 * Each is a tensor whose body is sum(cast? read * cast? read) over indices that are affine in the
 * axes: what schedules of contractions recognise. What would disturb that form stands before it
 * (padding, zero insertion) or after it (bias, scales, the reshape of groups) as a tensor of its
 * own.
 */
#include <string.h>
#include "ops.h"

DType
acc_type(DType d)
{
	if (dt_float(d))
		return dt_small(d) ? DT_F32 : d;
	return dtypes[d].bits < 32 ? DT_I32 : d;
}

Node *
sum_of_products(Module *m, DType acc, int n, Node *const *axes, Node *a, Node *b)
{
	return x_reduce(m, COMB_SUM, n, axes, x_mul(m, x_cast(m, acc, a), x_cast(m, acc, b)));
}

/* ---- matrix products ------------------------------------------------------------------------- */

/* The indices of numpy's matmul: [.., m, k] x [.., k, n], batch dimensions broadcast; 1-D operands
 * lose their axis. */
typedef struct Product {
	int n;                 /* axes of the result */
	Node *axes[MAX_RANK + 2], *k, *x[MAX_RANK], *y[MAX_RANK];
} Product;

/* Index i of the batch dimensions of t, whose last are matrix dimensions. */
static Node *
batch_index(Module *m, Node *t, int i, Node *axis)
{
	Node *dim = dim_of(t, i);

	if (is_intv(dim, 1))
		return x_idx(m, 0);
	if (dim == axis->in[0] || prove_eq(m, dim, axis->in[0]) || dim->code == O_NUM)
		return axis;
	return x_select(m, x_eq(m, dim, x_idx(m, 1)), x_idx(m, 0), axis);
}

static bool
product_axes(Build *b, Node *x, Node *y, Product *p)
{
	Module *m = b->m;
	int rx = rank_of(x), ry = rank_of(y), bx = rx > 2 ? rx - 2 : 0, by = ry > 2 ? ry - 2 : 0, nb, i;
	Node *kx, *ky, *one = x_idx(m, 1);

	if (rx == 0 || ry == 0) {
		fail(b, "operands must have at least one dimension, have %d and %d", rx, ry);
		return false;
	}
	kx = dim_of(x, rx - 1);
	ky = dim_of(y, ry == 1 ? 0 : ry - 2);
	require(m, x_eq(m, kx, ky), b->loc, "the first operand has %s columns, the second %s rows",
		expr_print(m, kx), expr_print(m, ky));
	nb = bx > by ? bx : by;
	for (i = 0; i < nb; i++) {
		Node *dx = i - (nb - bx) >= 0 ? dim_of(x, i - (nb - bx)) : one;
		Node *dy = i - (nb - by) >= 0 ? dim_of(y, i - (nb - by)) : one;
		p->axes[i] = x_axis(m, dim_broadcast(m, dx, dy, b->loc));
	}
	p->n = nb;
	p->k = x_axis(m, kx->code == O_NUM ? kx : ky);
	for (i = 0; i < bx; i++)
		p->x[i] = batch_index(m, x, i, p->axes[nb - bx + i]);
	for (i = 0; i < by; i++)
		p->y[i] = batch_index(m, y, i, p->axes[nb - by + i]);
	if (rx > 1)
		p->x[rx - 2] = p->axes[p->n++] = x_axis(m, dim_of(x, rx - 2));
	if (ry > 1)
		p->y[ry - 1] = p->axes[p->n++] = x_axis(m, dim_of(y, ry - 1));
	p->x[rx - 1] = p->k;
	p->y[ry == 1 ? 0 : ry - 2] = p->k;
	return true;
}

/* The product in the accumulator's type. */
static Node *
product(Module *m, Product *p, Node *x, Node *y)
{
	DType acc = acc_type(dtype_of(x));

	return t_tensor(m, p->n, p->axes,
		sum_of_products(m, acc, 1, &p->k, x_read(m, x, p->x), x_read(m, y, p->y)));
}

static Node *
build_matmul(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *y = b->in[1], *e;
	DType d = dtype_of(x);
	Product p;

	if (!product_axes(b, x, y, &p))
		return NULL;
	e = sum_of_products(m, acc_type(d), 1, &p.k, x_read(m, x, p.x), x_read(m, y, p.y));
	return t_tensor(m, p.n, p.axes, x_cast(m, d, e));
}

/* x * scale in x's type; integers through f64. */
static Node *
scaled(Module *m, Node *x, double scale)
{
	DType d = x->type->dtype;

	if (scale == 1)
		return x;
	if (dt_float(d))
		return x_mul(m, x, x_flt(m, d, scale));
	return x_cast(m, d, x_mul(m, x_cast(m, DT_F64, x), x_flt(m, DT_F64, scale)));
}

/* alpha * A' * B' + beta * C. C broadcasts to the product, not the product to C. */
static Node *
build_gemm(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *y = b->in[1], *c = b->in[2], *axes[2], *k, *kx, *ky, *xi[2], *yi[2], *e,
		*cd;
	bool tx = attr_int(b, "transA") != 0, ty = attr_int(b, "transB") != 0;
	DType d = dtype_of(x), acc = acc_type(d);
	double alpha = attr_float(b, "alpha"), beta = attr_float(b, "beta");
	int i;

	if (rank_of(x) != 2 || rank_of(y) != 2)
		return fail(b, "A and B must have 2 dimensions, have %d and %d", rank_of(x), rank_of(y));
	if (c && rank_of(c) > 2)
		return fail(b, "C has %d dimensions, at most 2 are allowed", rank_of(c));
	kx = dim_of(x, tx ? 0 : 1);
	ky = dim_of(y, ty ? 1 : 0);
	require(m, x_eq(m, kx, ky), b->loc, "A' has %s columns, B' %s rows", expr_print(m, kx),
		expr_print(m, ky));
	axes[0] = x_axis(m, dim_of(x, tx ? 1 : 0));
	axes[1] = x_axis(m, dim_of(y, ty ? 0 : 1));
	k = x_axis(m, kx->code == O_NUM ? kx : ky);
	xi[tx ? 1 : 0] = axes[0];
	xi[tx ? 0 : 1] = yi[ty ? 1 : 0] = k;
	yi[ty ? 0 : 1] = axes[1];
	e = sum_of_products(m, acc, 1, &k, x_read(m, x, xi), x_read(m, y, yi));
	if (!c)
		return t_tensor(m, 2, axes, x_cast(m, d, scaled(m, e, alpha)));
	for (i = 0; i < rank_of(c); i++) {
		cd = dim_of(c, i);
		Node *rd = axes[2 - rank_of(c) + i]->in[0];
		require(m, x_or(m, x_eq(m, cd, x_idx(m, 1)), x_eq(m, cd, rd)), b->loc,
			"C has %s elements where the product has %s", expr_print(m, cd), expr_print(m, rd));
	}
	x = t_tensor(m, 2, axes, e);
	axes_new(m, 2, x->type->dims, axes);
	e = scaled(m, x_read(m, x, axes), alpha);
	e = x_add(m, e, scaled(m, x_cast(m, acc, x_bread(m, c, 2, axes)), beta));
	return t_tensor(m, 2, axes, x_cast(m, d, e));
}

/* ---- integer matrix products ----------------------------------------------------------------- */

/* A zero point or scale of a matmul operand at the given indices of the operand: one value, one a
 * row (rows: of the first operand) or a column, or a tensor of the operand's rank with an extent of
 * 1. */
static Node *
operand_param(Build *b, Node *t, Node *x, Node *const *idx, bool rows)
{
	Module *m = b->m;
	int rank = rank_of(x), lane = rows ? rank - 2 : rank - 1;
	Node *zero = x_idx(m, 0), *at[MAX_RANK];
	int i;

	if (rank_of(t) == rank && rank > 1) {
		for (i = 0; i < rank; i++) {
			expect_dim(b, "a zero point or scale", dim_of(t, i), dim_of(x, i), true);
			at[i] = x_stretched(m, dim_of(t, i), idx[i]);
		}
		return x_read(m, t, at);
	}
	for (i = 0; i < rank_of(t); i++)
		at[i] = zero;
	if (rank_of(t) == 1 && lane >= 0) {
		expect_dim(b, "a zero point or scale", dim_of(t, 0), dim_of(x, lane), true);
		at[0] = x_stretched(m, dim_of(t, 0), idx[lane]);
	}
	return x_read(m, t, at);
}

void
expect_dim(Build *b, const char *what, Node *have, Node *want, bool may_be_one)
{
	Module *m = b->m;
	Node *ok = x_eq(m, have, want);

	if (may_be_one)
		ok = x_or(m, ok, x_eq(m, have, x_idx(m, 1)));
	require(m, ok, b->loc, "%s has %s elements where %s are needed", what, expr_print(m, have),
		expr_print(m, want));
}

void
expect_shape(Build *b, const char *what, Node *t, int rank, Node *const *want)
{
	int i;

	if (rank_of(t) < rank) {
		fail(b, "%s has %d dimensions, must have %d", what, rank_of(t), rank);
		return;
	}
	for (i = 0; i < rank; i++)
		expect_dim(b, what, dim_of(t, i), want[i], false);
}

/* The sum of an operand over k, in type c, over the product's axes that it has. */
static Node *
sum_over_k(Module *m, DType c, Node *x, Node *const *idx, Node *k)
{
	Node *axes[MAX_RANK], *at[MAX_RANK], *red = NULL, *t;
	int i, n = 0;

	for (i = 0; i < rank_of(x); i++) {
		if (idx[i] == k)
			at[i] = red = x_axis(m, k->in[0]);
		else
			at[i] = axes[n++] = x_axis(m, dim_of(x, i));
	}
	t = t_tensor(m, n, axes, x_reduce(m, COMB_SUM, 1, &red, x_cast(m, c, x_read(m, x, at))));
	for (i = n = 0; i < rank_of(x); i++)
		if (idx[i] != k)
			at[n++] = idx[i];
	return x_read(m, t, at);
}

/*
 * sum (a - za)(b - zb) = sum a b - za sum b - zb sum a + k za zb, of bytes in wrapping 32-bit
 * integers: exact, and the product stays a product of bytes. At the axes of p, which are renewed.
 */
static Node *
integer_product(Build *b, Node *x, Node *y, Node *zx, Node *zy, Product *p)
{
	Module *m = b->m;
	DType c = acc_type(dtype_of(x));
	Node *e, *t, *zero = x_int(m, c, 0), *za = zero, *zb = zero;
	Product q;

	if (!product_axes(b, x, y, p))
		return NULL;
	t = product(m, p, x, y);
	if (!product_axes(b, x, y, &q))
		return NULL;
	*p = q;
	if (zx)
		za = x_cast(m, c, operand_param(b, zx, x, p->x, true));
	if (zy)
		zb = x_cast(m, c, operand_param(b, zy, y, p->y, false));
	e = x_read(m, t, p->axes);
	if (!is_zero(za))
		e = x_sub(m, e, x_mul(m, za, sum_over_k(m, c, y, p->y, p->k)));
	if (!is_zero(zb))
		e = x_sub(m, e, x_mul(m, zb, sum_over_k(m, c, x, p->x, p->k)));
	if (!is_zero(za) && !is_zero(zb))
		e = x_add(m, e, x_mul(m, x_cast(m, c, p->k->in[0]), x_mul(m, za, zb)));
	return e;
}

static Node *
build_matmul_integer(Build *b)
{
	Product p;
	Node *e = integer_product(b, b->in[0], b->in[1], b->in[2], b->in[3], &p);

	return e ? t_tensor(b->m, p.n, p.axes, e) : NULL;
}

Node *
requantized(Module *m, Node *e, Node *scale, Node *zero)
{
	DType d = zero->type->dtype;
	Node *v = x_mul(m, x_cast(m, DT_F32, e), scale);

	return x_cast(m, d, dt_float(d) ? v : x_add(m, x1(m, O_RINT, v), x_cast(m, DT_F32, zero)));
}

static Node *
build_qlinear_matmul(Build *b)
{
	Module *m = b->m;
	Node **in = b->in, *e, *sa, *sb, *scale;
	DType c = DT_F32;
	Product p;

	e = integer_product(b, in[0], in[3], in[2], in[5], &p);
	if (!e)
		return NULL;
	sa = x_cast(m, c, operand_param(b, in[1], in[0], p.x, true));
	sb = x_cast(m, c, operand_param(b, in[4], in[3], p.y, false));
	scale = x2(m, O_DIV, x_mul(m, sa, sb), x_cast(m, c, scalar_arg(m, in[6])));
	return t_tensor(m, p.n, p.axes, requantized(m, e, scale, scalar_arg(m, in[7])));
}

/* ---- einsum ---------------------------------------------------------------------------------- */

/* Labels: letters, then the dimensions of the ellipsis. */
enum { LETTERS = 52, LABELS = LETTERS + MAX_RANK };

/* ellipsis: its dims, -1 if none */
typedef struct Term { Node *t; int n, ellipsis, label[MAX_RANK]; } Term;

/* The labels of a term, up to a comma, an arrow or the end;
 * *s moves past them. NULL or what is wrong. */
static const char *
parse_term(const char **s, int rank, int known, Term *t)
{
	int letters = 0, i;
	const char *p;

	for (p = *s; *p && *p != ',' && *p != '-'; p++)
		letters += *p != ' ' && *p != '.';
	t->ellipsis = -1;
	t->n = 0;
	for (p = *s; *p && *p != ',' && *p != '-'; p++) {
		if (*p == ' ')
			continue;
		if (p[0] == '.' && p[1] == '.' && p[2] == '.') {
			if (t->ellipsis >= 0)
				return "a term has two ellipses";
			t->ellipsis = rank >= 0 ? rank - letters : known > 0 ? known : 0;
			if (t->ellipsis < 0 || t->n + t->ellipsis > MAX_RANK)
				return "a term has more labels than its operand dimensions";
			for (i = 0; i < t->ellipsis; i++)
				t->label[t->n++] = LETTERS + i;
			p += 2;
		} else if ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z')) {
			if (t->n == MAX_RANK)
				return "a term has too many labels";
			t->label[t->n++] = *p >= 'a' ? *p - 'a' + 26 : *p - 'A';
		} else
			return "a label is not a letter";
	}
	*s = p;
	return rank >= 0 && t->n != rank
		? "a term's labels differ in number from its operand's dimensions" : NULL;
}

/* Without an arrow: the ellipsis, then the labels that stand once, in the alphabet's order. */
static void
implicit_result(int n, const Term *terms, int ellipsis, Term *out)
{
	int count[LABELS] = {0}, i, k;

	for (i = 0; i < n; i++)
		for (k = 0; k < terms[i].n; k++)
			count[terms[i].label[k]]++;
	for (i = 0; i < ellipsis; i++)
		out->label[out->n++] = LETTERS + i;
	for (i = 0; i < LETTERS && out->n < MAX_RANK; i++)
		if (count[i] == 1)
			out->label[out->n++] = i;
}

static bool
parse_equation(Build *b, Term *terms, Term *out)
{
	const char *s = attr_str(b, "equation"), *error;
	int i, ellipsis = -1;
	bool seen[LABELS] = {false};

	for (i = 0; i < b->nin; i++) {
		error = parse_term(&s, rank_of(b->in[i]), 0, &terms[i]);
		if (error)
			return fail(b, "equation \"%s\": %s", attr_str(b, "equation"), error) != NULL;
		terms[i].t = b->in[i];
		if (terms[i].ellipsis >= 0 && ellipsis >= 0 && terms[i].ellipsis != ellipsis)
			return fail(b, "an ellipsis covers %d dimensions in one term and %d in term %d",
				ellipsis,
				terms[i].ellipsis, i) != NULL;
		if (terms[i].ellipsis >= 0)
			ellipsis = terms[i].ellipsis;
		if (i + 1 < b->nin && *s++ != ',')
			return fail(b, "the equation has %d terms for %d operands", i + 1, b->nin) != NULL;
	}
	*out = (Term){0};
	if (!*s) {
		implicit_result(b->nin, terms, ellipsis, out);
		return true;
	}
	if (s[0] != '-' || s[1] != '>')
		return fail(b, "the equation has more than %d terms", b->nin) != NULL;
	s += 2;
	error = parse_term(&s, -1, ellipsis, out);
	if (error || *s)
		return fail(b, "equation \"%s\": %s", attr_str(b, "equation"),
			error ? error : "text follows the result") != NULL;
	for (i = 0; i < b->nin; i++)
		for (int k = 0; k < terms[i].n; k++)
			seen[terms[i].label[k]] = true;
	for (i = 0; i < out->n; i++)
		if (!seen[out->label[i]])
			return fail(b, "the result has a label that no operand has, or one twice") != NULL;
		else
			seen[out->label[i]] = false;
	return true;
}

static Node *
term_read(Module *m, const Term *t, Node *const *axis)
{
	Node *idx[MAX_RANK];
	int i;

	for (i = 0; i < t->n; i++)
		idx[i] = batch_index(m, t->t, i, axis[t->label[i]]);
	return x_read(m, t->t, idx);
}

/* The product of one or two terms, summed over the labels that are not in `out`. */
static Node *
contract(Build *b, const Term *x, const Term *y, const Term *out, Node *const *dims, DType acc)
{
	Module *m = b->m;
	Node *axis[LABELS] = {NULL}, *axes[MAX_RANK], *red[2 * MAX_RANK], *e;
	int i, k, n = 0;

	for (i = 0; i < out->n; i++) {
		axis[out->label[i]] = axes[i] = x_axis(m, dims[out->label[i]]);
	}
	for (k = 0; k < (y ? 2 : 1); k++)
		for (i = 0; i < (k ? y : x)->n; i++) {
			int l = (k ? y : x)->label[i];
			if (!axis[l])
				red[n++] = axis[l] = x_axis(m, dims[l]);
		}
	e = x_cast(m, acc, term_read(m, x, axis));
	if (y)
		e = x_mul(m, e, x_cast(m, acc, term_read(m, y, axis)));
	return t_tensor(m, out->n, axes, x_reduce(m, COMB_SUM, n, red, e));
}

/* The labels of x and y that are asked for later. */
static bool
pair_labels(const Term *x, const Term *y, const bool *wanted, Term *out)
{
	bool have[LABELS] = {false};
	int i, k;

	out->n = 0;
	for (k = 0; k < 2; k++)
		for (i = 0; i < (k ? y : x)->n; i++) {
			int l = (k ? y : x)->label[i];
			if (wanted[l] && !have[l]) {
				if (out->n == MAX_RANK)
					return false;
				out->label[out->n++] = l;
			}
			have[l] = true;
		}
	return true;
}

static Node *
build_einsum(Build *b)
{
	Module *m = b->m;
	Term *terms = NEWN(m, Term, b->nin + 1), out, x;
	Node *dims[LABELS] = {NULL}, *axes[MAX_RANK], *r;
	DType d, acc;
	int i, k, l;

	while (b->nin > 0 && !b->in[b->nin - 1])
		b->nin--;
	if (b->nin == 0)
		return fail(b, "no operands");
	d = dtype_of(b->in[0]);
	acc = acc_type(d);
	if (!parse_equation(b, terms, &out))
		return NULL;
	for (i = 0; i < b->nin; i++)
		for (k = 0; k < terms[i].n; k++) {
			l = terms[i].label[k];
			Node *dim = dim_of(b->in[i], k);
			dims[l] = dims[l] ? dim_broadcast(m, dims[l], dim, b->loc) : dim;
		}
	x = terms[0];
	for (i = 1; i + 1 < b->nin; i++) {
		bool wanted[LABELS] = {false};
		Term r2 = {0};
		for (k = 0; k < out.n; k++)
			wanted[out.label[k]] = true;
		for (l = i + 1; l < b->nin; l++)
			for (k = 0; k < terms[l].n; k++)
				wanted[terms[l].label[k]] = true;
		if (!pair_labels(&x, &terms[i], wanted, &r2))
			return unsupported(b, "a product of operands has more than %d dimensions", MAX_RANK);
		r2.t = contract(b, &x, &terms[i], &r2, dims, acc);
		x = r2;
	}
	r = contract(b, &x, b->nin > 1 ? &terms[b->nin - 1] : NULL, &out, dims, acc);
	if (acc == d)
		return r;
	axes_new(m, out.n, r->type->dims, axes);
	return t_tensor(m, out.n, axes, x_cast(m, d, x_read(m, r, axes)));
}

const Op ops_contract[] = {
	BUILD("matmul", "MatMul", 13, "(a: num, b: a) {} -> y", build_matmul, "matrix product"),
	BUILD("gemm", "Gemm", 13, "(a: num, b: a, c: a?)"
		" {alpha: float = 1, beta: float = 1, transA: int = 0, transB: int = 0} -> y", build_gemm,
		"alpha a b + beta c"),
	BUILD("matmul_integer", "MatMulInteger", 10,
	"(a: i8|u8, b: i8|u8, a_zero: a?, b_zero: b?) {} -> y",
		build_matmul_integer, "matrix product of bytes less their zero points"),
	BUILD("qlinear_matmul", "QLinearMatMul", 21,
	"(a: num, a_scale: float, a_zero: a, b: num, b_scale: a_scale,"
		" b_zero: b, y_scale: a_scale, y_zero: num) {} -> y", build_qlinear_matmul,
		"quantized matrix product"),
	BUILD("einsum", "Einsum", 28, "(x: num, rest: x*) {equation: str} -> y", build_einsum,
		"sum of products, by Einstein's notation"),
	{0}
};
