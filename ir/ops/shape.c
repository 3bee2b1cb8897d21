/*
 * Shapes: the same elements in other dims, dims as values, and tensors made from dims.
 *
 * Every list (shape, axes, starts, pads ...) may be known only when the program runs: the rows take
 * its elements as expressions, and a constant is the case in which they fold.
 */
#include <stdlib.h>
#include <string.h>
#include "ops.h"

/* Far beyond any dimension, and far from overflow when a dimension is added. */
static const int64_t far = (int64_t)1 << 42;

/* ---- what the families share ----------------------------------------------------------------- */

static bool
has_read(Node *e)
{
	Node **list;
	bool found = false;
	int i, n;

	list = topo_scalar(e, &n);
	for (i = 0; i < n && !found; i++)
		found = list[i]->code == O_READ;
	free(list);
	return found;
}

Node *
extent(Module *m, Node *e)
{
	int64_t v;

	if (is_int(e, &v))
		return v < 0 ? x_idx(m, 0) : e;
	return e->lo < 0 && has_read(e) ? x_max(m, e, x_idx(m, 0)) : e;
}

Node *
saturate(Module *m, Node *e)
{
	int64_t v;

	if (is_int(e, &v))
		return v > far ? x_idx(m, far) : v < -far ? x_idx(m, -far) : e;
	if ((e->lo < -far || e->hi > far) && has_read(e))
		return x_min(m, x_max(m, e, x_idx(m, -far)), x_idx(m, far));
	return e;
}

Node *
wrap_index(Module *m, Node *i, Node *dim)
{
	return x_select(m, x_lt(m, i, x_idx(m, 0)), x_add(m, i, dim), i);
}

Node *
scalar_arg(Module *m, Node *t)
{
	Node *zero[MAX_RANK];
	int i;

	for (i = 0; i < MAX_RANK; i++)
		zero[i] = x_idx(m, 0);
	return x_read(m, t, zero);
}

const char *
inputs_named(Build *b, Node *t)
{
	Module *m = b->m;
	const char *text = "";
	int n, i, k;
	Node **list = topo(&t, 1, true, &n);

	for (k = 0; k < m->main->nparams; k++)
		for (i = 0; i < n; i++)
			if (list[i] == m->main->params[k])
				text = arena_printf(m->arena, "%s%s '%s'", text, *text ? "," : " of",
					list[i]->name);
	free(list);
	return text;
}

bool
list_arg(Build *b, Node *t, const char *what, int *n, Node ***e)
{
	if (rank_of(t) > 1) {
		fail(b, "%s has %d dimensions, must have one", what, rank_of(t));
		return false;
	}
	if (index_elems(b->m, t, n, e))
		return true;
	unsupported(b, "the length of %s is known only at run time; fix it with --shape or --freeze%s",
		what, inputs_named(b, t));
	return false;
}

static Node *
element(Module *m, Node *t, int i)
{
	Node *at = x_idx(m, i);

	return x_cast(m, DT_INDEX, x_read(m, t, &at));
}

bool
list_of(Build *b, Node *t, const char *what, int n, Node ***e)
{
	int i, have;

	if (rank_of(t) == 1 && dim_of(t, 0)->code != O_NUM) {
		require(b->m, x_eq(b->m, dim_of(t, 0), x_idx(b->m, n)), b->loc,
			"%s has %s entries, must have %d", what,
			expr_print(b->m, dim_of(t, 0)), n);
		*e = NEWN(b->m, Node *, n + 1);
		for (i = 0; i < n; i++)
			(*e)[i] = element(b->m, t, i);
		return true;
	}
	return list_arg(b, t, what, &have, e) &&
		(have == n || fail(b, "%s has %d entries, must have %d", what, have, n));
}

bool
short_list(Build *b, Node *t, const char *what, int most, Node *none, int *n, Node ***e)
{
	Module *m = b->m;
	Node *len;
	int i;

	if (rank_of(t) != 1 || (len = dim_of(t, 0))->code == O_NUM)
		return list_arg(b, t, what, n, e);
	require(m, x_le(m, len, x_idx(m, most)), b->loc, "%s has %s entries, at most %d can be used",
		what,
		expr_print(m, len), most);
	*e = NEWN(m, Node *, most + 1);
	for (i = 0; i < most; i++)
		(*e)[i] = x_select(m, x_lt(m, x_idx(m, i), len), element(m, t, i), none);
	*n = most;
	return true;
}

Node *
x_any_axis(Module *m, Node *axis, int d, int rank)
{
	return x_or(m, x_eq(m, axis, x_idx(m, d)), x_eq(m, axis, x_idx(m, d - rank)));
}

bool
axes_in(Build *b, int rank, int n, Node *const *axes, Node *len)
{
	Module *m = b->m;
	Node *in;
	int i;

	for (i = 0; i < n; i++) {
		in = x_and(m, x_le(m, x_idx(m, -rank), axes[i]), x_lt(m, axes[i], x_idx(m, rank)));
		if (len)
			in = x_or(m, x_le(m, len, x_idx(m, i)), in);
		require(m, in, b->loc, "an axis is outside [%d, %d]", -rank, rank - 1);
	}
	return true;
}

bool
axes_arg(Build *b, Node *t, const char *attr, int rank, int want, int *n, Node ***axes)
{
	const int64_t *v;
	int i, k;

	*axes = NULL;
	if (t && want >= 0 && rank_of(t) == 1 && dim_of(t, 0)->code != O_NUM) {
		*n = want;
		if (!list_of(b, t, "axes", want, axes))
			return false;
	} else if (t) {
		if (!list_arg(b, t, "axes", n, axes))
			return false;
	} else if (attr && attr_ints(b, attr, &k, &v)) {
		*n = k;
		*axes = NEWN(b->m, Node *, k + 1);
		for (i = 0; i < *n; i++)
			(*axes)[i] = x_idx(b->m, v[i]);
	}
	return !*axes || axes_in(b, rank, *n, *axes, NULL);
}

/* ---- reshape --------------------------------------------------------------------------------- */

Node *
x_product(Module *m, int n, Node *const *d)
{
	Node *p = x_idx(m, 1);
	int i;

	for (i = 0; i < n; i++)
		p = x_mul(m, p, d[i]);
	return p;
}

/* x's indices within a group of its axes that holds the same elements as the group y of the
 * result's. */
static void
unravel(Module *m, int nx, Node *const *dims, Node **idx, int ny, Node *const *y)
{
	Node *flat = x_idx(m, 0);
	int i;

	for (i = 0; i < ny; i++)
		flat = x_add(m, x_mul(m, flat, y[i]->in[0]), y[i]);
	for (i = nx; i-- > 1;) {
		idx[i] = x_mod(m, flat, dims[i]);
		flat = x_fdiv(m, flat, dims[i]);
	}
	if (nx)
		idx[0] = flat;
}

/* The smallest leading groups with equal products; all of both if there are none. */
static void
next_group(Module *m, int nx, Node *const *dx, int ny, Node *const *y, int *gx, int *gy)
{
	Node *dy[MAX_RANK], *px, *py;
	int i, j, sum;

	for (i = 0; i < ny; i++)
		dy[i] = y[i]->in[0];
	for (sum = 2; sum < nx + ny; sum++)
		for (i = 1; i < sum && i <= nx; i++) {
			j = sum - i;
			if (j > ny)
				continue;
			px = x_product(m, i, dx);
			py = x_product(m, j, dy);
			if (px == py || prove_eq(m, px, py)) {
				*gx = i;
				*gy = j;
				return;
			}
		}
	*gx = nx;
	*gy = ny;
}

/*
 * The elements of x in row-major order as a tensor of other dims. Axes are matched in groups of
 * equal product, so that what does not change keeps its index; extents of 1 belong to no group.
 */
Node *
reshape(Module *m, Node *x, int rank, Node *const *dims)
{
	Node *axes[MAX_RANK], *y[MAX_RANK], *dx[MAX_RANK], *sub[MAX_RANK], *idx[MAX_RANK];
	int where[MAX_RANK], nx = 0, ny = 0, gx, gy, i, x0, y0;

	axes_new(m, rank, dims, axes);
	for (i = 0; i < rank; i++)
		if (!is_intv(dims[i], 1))
			y[ny++] = axes[i];
	for (i = 0; i < rank_of(x); i++)
		if (is_intv(dim_of(x, i), 1)) {
			idx[i] = x_idx(m, 0);
		} else {
			where[nx] = i;
			dx[nx++] = dim_of(x, i);
		}
	for (x0 = y0 = 0; x0 < nx; x0 += gx, y0 += gy) {
		next_group(m, nx - x0, dx + x0, ny - y0, y + y0, &gx, &gy);
		unravel(m, gx, dx + x0, sub + x0, gy, y + y0);
	}
	for (i = 0; i < nx; i++)
		idx[where[i]] = sub[i];
	return t_tensor(m, rank, axes, x_read(m, x, idx));
}

/* Is e made of sizes alone (not a constant, no element read at run time)? A size of 0 says that the
 * tensor is empty; it is no request to copy another size. */
static bool
is_size(Node *e)
{
	return e->code != O_NUM && !has_read(e);
}

/*
 * The dims of a Reshape. 0 copies the operand's (unless allowzero), -1 is what is left: copied dims
 * cancel before the division, so that an empty tensor keeps its other dims.
 */
static bool
reshape_dims(Build *b, int n, Node *const *e, Node **dims)
{
	Module *m = b->m;
	Node *x = b->in[0], *zero = x_idx(m, 0), *minus = x_idx(m, -1), *one = x_idx(m, 1);
	Node *copied[MAX_RANK], *free_[MAX_RANK], *total = one, *rest = one, *left, *nfree = zero;
	bool allowzero = attr_int(b, "allowzero") != 0, size;
	int i;

	for (i = 0; i < n; i++) {
		size = is_size(e[i]);
		copied[i] = allowzero || size ? x_bool(m, false) : x_eq(m, e[i], zero);
		if (i >= rank_of(x)) {
			require(m, x_not(m, copied[i]), b->loc,
				"dimension %d of the shape is 0: the operand has only %d", i,
				rank_of(x));
			copied[i] = x_bool(m, false);
		}
		free_[i] = size ? x_bool(m, false) : x_eq(m, e[i], minus);
		require(m, size ? x_le(m, zero, e[i]) : x_le(m, minus, e[i]), b->loc,
			"dimension %d of the shape is %s", i, expr_print(m, e[i]));
		nfree = x_add(m, nfree, x_select(m, free_[i], one, zero));
		if (allowzero)
			require(m, x_not(m, x_and(m, free_[i], x_eq(m, x_product(m, n, e), zero))),
				b->loc, "the shape has both 0 and -1");
		rest = x_mul(m, rest,
			x_select(m, x_or(m, copied[i], free_[i]), one, extent(m, e[i])));
	}
	for (i = 0; i < rank_of(x); i++)
		total = x_mul(m, total, i < n ? x_select(m, copied[i], one, dim_of(x, i))
			: dim_of(x, i));
	require(m, x_le(m, nfree, one), b->loc, "the shape has more than one -1");
	left = x_named(m, x_fdiv(m, total, rest));
	require(m, x_eq(m, x_select(m, x_eq(m, nfree, one), x_mul(m, left, rest), rest), total),
		b->loc, "%s elements cannot take this shape", expr_print(m, numel(m, x)));
	for (i = 0; i < n; i++)
		dims[i] = x_select(m, free_[i], left, i < rank_of(x)
			? x_select(m, copied[i], dim_of(x, i), extent(m, e[i])) : extent(m, e[i]));
	return true;
}

static Node *
build_reshape(Build *b)
{
	Node **e, *dims[MAX_RANK];
	int n;

	if (!list_arg(b, b->in[1], "the shape", &n, &e))
		return NULL;
	if (n > MAX_RANK)
		return unsupported(b, "more than %d dimensions", MAX_RANK);
	return reshape_dims(b, n, e, dims) ? reshape(b->m, b->in[0], n, dims) : NULL;
}

static Node *
build_flatten(Build *b)
{
	Node *x = b->in[0], *dims[2];
	int rank = rank_of(x), axis = (int)attr_int(b, "axis");

	if (axis < -rank || axis > rank)
		return fail(b, "axis %d is outside [%d, %d]", axis, -rank, rank);
	axis += axis < 0 ? rank : 0;
	dims[0] = x_product(b->m, axis, x->type->dims);
	dims[1] = x_product(b->m, rank - axis, x->type->dims + axis);
	return reshape(b->m, x, 2, dims);
}

/* before[d]: how many of the marks before d are set, as an expression. */
static void
ranks(Module *m, int n, Node *const *mark, Node **before)
{
	Node *sum = x_idx(m, 0);
	int i;

	for (i = 0; i < n; i++) {
		before[i] = sum;
		sum = x_add(m, sum, x_select(m, mark[i], x_idx(m, 1), x_idx(m, 0)));
	}
}

/* list[at] where list's entry k is chosen by at == rank[k] among those that are marked. */
static Node *
pick(Module *m, int n, Node *const *mark, Node *const *rank, Node *const *list, Node *at)
{
	Node *r = list[n - 1];
	int i;

	for (i = n; i-- > 0;)
		r = x_select(m, x_and(m, mark[i], x_eq(m, rank[i], at)), list[i], r);
	return r;
}

/* x with those axes dropped where `gone` holds; `left` stay. */
static Node *
drop_axes(Build *b, Node *const *gone, int left)
{
	Module *m = b->m;
	Node *x = b->in[0], *keep[MAX_RANK] = {0}, *rank[MAX_RANK], *axes[MAX_RANK], *idx[MAX_RANK];
	int n = rank_of(x), i;

	for (i = 0; i < n; i++)
		keep[i] = x_not(m, gone[i]);
	ranks(m, n, keep, rank);
	for (i = 0; i < left; i++)
		axes[i] = x_axis(m, pick(m, n, keep, rank, x->type->dims, x_idx(m, i)));
	for (i = 0; i < n; i++) {
		Node *r = x_idx(m, 0);
		int k;
		for (k = 0; k < left; k++)
			r = x_select(m, x_eq(m, rank[i], x_idx(m, k)), axes[k], r);
		idx[i] = x_select(m, keep[i], r, x_idx(m, 0));
	}
	return t_tensor(m, left, axes, x_read(m, x, idx));
}

static Node *
build_squeeze(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *gone[MAX_RANK], **axes;
	int n = 0, rank = rank_of(x), i, d, left = rank;

	if (!axes_arg(b, b->in[1], NULL, rank, -1, &n, &axes))
		return NULL;
	if (n > rank)
		return fail(b, "%d axes to drop of %d", n, rank);
	for (d = 0; d < rank; d++) {
		gone[d] = x_bool(m, !axes && is_intv(dim_of(x, d), 1));
		for (i = 0; axes && i < n; i++)
			gone[d] = x_or(m, gone[d], x_any_axis(m, axes[i], d, rank));
		require(m, x_or(m, x_not(m, gone[d]), x_eq(m, dim_of(x, d), x_idx(m, 1))), b->loc,
			"axis %d has extent %s, not 1", d, expr_print(m, dim_of(x, d)));
		left -= !axes && is_intv(gone[d], 1);
		if (!axes && !is_intv(dim_of(x, d), 1))
			require(m, x_ne(m, dim_of(x, d), x_idx(m, 1)), b->loc,
				"dimension %d is 1 and would be dropped;"
				" a program for that needs it fixed with --shape", d);
	}
	if (!axes)
		return drop_axes(b, gone, left);
	for (left = rank - n, d = i = 0; d < rank; d++)        /* an axis named twice counts once */
		i += gone[d]->code == O_NUM ? (int)gone[d]->num.i : 1000;
	return drop_axes(b, gone, i < 1000 ? rank - i : left);
}

static Node *
build_unsqueeze(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *old[MAX_RANK], *rank[MAX_RANK], *axes[MAX_RANK], *idx[MAX_RANK], **e,
		*dim;
	int n, r = rank_of(x), i, k, d;

	if (!list_arg(b, b->in[1], "axes", &n, &e))
		return NULL;
	if (r + n > MAX_RANK)
		return unsupported(b, "more than %d dimensions", MAX_RANK);
	for (k = 0; k < r + n; k++) {
		old[k] = x_bool(m, true);
		for (i = 0; i < n; i++)
			old[k] = x_and(m, old[k], x_not(m, x_any_axis(m, e[i], k, r + n)));
	}
	for (i = 0; i < n; i++)
		require(m,
			x_and(m, x_le(m, x_idx(m, -r - n), e[i]), x_lt(m, e[i], x_idx(m, r + n))),
			b->loc, "an axis is outside [%d, %d]", -r - n, r + n - 1);
	ranks(m, r + n, old, rank);
	for (k = d = 0; k < r + n; k++)
		d += is_intv(old[k], 1);
	if (d > r)
		return fail(b, "an axis is named twice");
	for (k = 0; k < r + n; k++) {
		dim = x_idx(m, 1);
		for (d = 0; d < r; d++)
			dim = x_select(m, x_and(m, old[k], x_eq(m, rank[k], x_idx(m, d))),
				dim_of(x, d), dim);
		axes[k] = x_axis(m, dim);
	}
	for (d = 0; d < r; d++)
		idx[d] = pick(m, r + n, old, rank, axes, x_idx(m, d));
	return t_tensor(m, r + n, axes, x_read(m, x, idx));
}

/* ---- dims as values -------------------------------------------------------------------------- */

static Node *
build_shape(Build *b)
{
	Node *x = b->in[0];
	int64_t start = attr_int(b, "start"), end = attr_find(b->attrs, "end") ? attr_int(b, "end")
		: rank_of(x);
	int64_t n = rank_of(x);

	start = start < 0 ? start + n : start;
	end = end < 0 ? end + n : end;
	start = start < 0 ? 0 : start > n ? n : start;
	end = end < 0 ? 0 : end > n ? n : end;
	if (end <= start)
		return t_ints(b->m, 0, NULL);
	return t_exprs(b->m, DT_I64, (int)(end - start), x->type->dims + start);
}

static Node *
build_size(Build *b)
{
	return t_scalar_expr(b->m, DT_I64, numel(b->m, b->in[0]));
}

/* ---- making tensors -------------------------------------------------------------------------- */

static Node *
build_constant_of_shape(Build *b)
{
	Module *m = b->m;
	const Attr *a = attr_find(b->attrs, "value");
	Node **e, *axes[MAX_RANK], *v = a ? scalar_arg(m, a->t) : x_flt(m, DT_F32, 0);
	int n, i;

	if (!list_arg(b, b->in[0], "the shape", &n, &e))
		return NULL;
	if (n > MAX_RANK)
		return unsupported(b, "more than %d dimensions", MAX_RANK);
	for (i = 0; i < n; i++) {
		require(m, x_le(m, x_idx(m, 0), e[i]), b->loc, "dimension %d is negative", i);
		axes[i] = x_axis(m, extent(m, e[i]));
	}
	return t_tensor(m, n, axes, v);
}

/* An index expression for a scalar that kernels compute: read from a tensor unless it is a
 * constant. */
Node *
computed_index(Module *m, Node *scalar)
{
	Node *t = t_scalar_expr(m, DT_I64, scalar);

	infer_elems(m, t);
	return x_cast(m, DT_INDEX, x_read(m, t, NULL));
}

static Node *
build_range(Build *b)
{
	Module *m = b->m;
	Node *v[3], *n, *axis, *zero;
	DType d = dtype_of(b->in[0]), c;
	int i;

	c = dt_small(d) && attr_int(b, "stash_type") == 1 ? DT_F32 : d;
	for (i = 0; i < 3; i++)
		v[i] = scalar_arg(m, b->in[i]);
	if (dt_float(d)) {
		for (i = 0; i < 3; i++)
			v[i] = x_cast(m, c, v[i]);
		n = x1(m, O_CEIL, x2(m, O_DIV, x_sub(m, v[1], v[0]), v[2]));
		n = computed_index(m, x_cast(m, DT_I64, x_max(m, n, x_int(m, c, 0))));
	} else {
		Node *x[3];
		for (i = 0; i < 3; i++)
			x[i] = saturate(m, x_cast(m, DT_INDEX, v[i]));
		zero = x_idx(m, 0);
		require(m, x_ne(m, x[2], zero), b->loc, "delta is 0");
		n = x_select(m, x_lt(m, zero, x[2]), x_ceildiv(m, x_sub(m, x[1], x[0]), x[2]),
			x_ceildiv(m, x_sub(m, x[0], x[1]), x_sub(m, zero, x[2])));
	}
	axis = x_axis(m, x_max(m, n, x_idx(m, 0)));
	return t_tensor(m, 1, &axis,
		x_cast(m, d, x_add(m, v[0], x_mul(m, x_cast(m, c, axis), v[2]))));
}

static Node *
build_eye_like(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *axes[2];
	DType d = attr_find(b->attrs, "dtype") ? dtype_of_onnx((int)attr_int(b, "dtype"))
		: dtype_of(x);

	if (rank_of(x) != 2)
		return fail(b, "the operand has %d dimensions, must have 2", rank_of(x));
	if (d == DT_NONE || dtypes[d].bits == 0)
		return fail(b, "unknown element type");
	axes_new(m, 2, x->type->dims, axes);
	return t_tensor(m, 2, axes,
		x_select(m, x_eq(m, x_sub(m, axes[1], axes[0]), x_idx(m, attr_int(b, "k"))),
		x_int(m, d, 1), x_int(m, d, 0)));
}

static Node *
build_trilu(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *axes[MAX_RANK], *k, *diff, *in;
	int rank = rank_of(x);

	if (rank < 2)
		return fail(b, "the operand has %d dimensions, needs 2", rank);
	k = b->in[1] ? saturate(m, x_cast(m, DT_INDEX, scalar_arg(m, b->in[1]))) : x_idx(m, 0);
	axes_new(m, rank, x->type->dims, axes);
	diff = x_sub(m, axes[rank - 1], axes[rank - 2]);
	in = attr_int(b, "upper") ? x_le(m, k, diff) : x_le(m, diff, k);
	return t_tensor(m, rank, axes,
		x_select(m, in, x_read(m, x, axes), x_int(m, dtype_of(x), 0)));
}

const Op ops_shape[] = {
	BUILD("reshape",     "Reshape",   25, "(x: any, shape: i64) {allowzero: int = 0} -> y",
		build_reshape, "the same elements in other dims"),
	BUILD("flatten",     "Flatten",   25, "(x: any) {axis: int = 1} -> y", build_flatten,
		"two dims, split at an axis"),
	BUILD("squeeze",     "Squeeze",   25, "(x: any, axes: i64?) {} -> y", build_squeeze,
		"drops axes of extent 1"),
	BUILD("unsqueeze",   "Unsqueeze", 25, "(x: any, axes: i64) {} -> y", build_unsqueeze,
		"inserts axes of extent 1"),
	BUILD("shape",       "Shape",     25, "(x: any) {end: int?, start: int = 0} -> y",
		build_shape, "the dims"),
	BUILD("size",        "Size",      25, "(x: any) {} -> y", build_size,
		"the number of elements"),
	BUILD("constant_of_shape", "ConstantOfShape", 25, "(shape: i64) {value: tensor?} -> y",
		build_constant_of_shape, "one value in every element"),
	BUILD("range",       "Range",     27,
		"(start: num, limit: start, delta: start) {stash_type: int = 1} -> y", build_range,
		"start, start + delta ... below limit"),
	BUILD("eye_like",    "EyeLike",   22, "(x: data) {dtype: int?, k: int = 0} -> y",
		build_eye_like, "ones on a diagonal"),
	BUILD("trilu",       "Trilu",     14, "(x: any, k: i64?) {upper: int = 1} -> y",
		build_trilu, "a triangle, zeros elsewhere"),
	{0}
};
