/* Poolings: reductions over windows that slide over the spatial dimensions of [n, c, spatial]. */
#include <string.h>
#include "ops.h"

typedef struct Pool {
	Node *x;
	int n;                 /* spatial dimensions */
	Window win[MAX_RANK];
	Node *axes[MAX_RANK], *red[MAX_RANK];    /* of the result; of the window */
} Pool;

static bool
pool_args(Build *b, Pool *p)
{
	Node *x = b->in[0], *kernel[MAX_RANK];

	*p = (Pool){.x = x, .n = rank_of(x) - 2};
	if (p->n < 1) {
		fail(b, "the operand has %d dimensions, needs at least 3", rank_of(x));
		return false;
	}
	return window_kernel(b, p->n, kernel)
		&& windows(b, p->n, x->type->dims + 2, kernel, attr_int(b, "ceil_mode") != 0, p->win);
}

static void
pool_axes(Module *m, Pool *p)
{
	int i;

	for (i = 0; i < 2; i++)
		p->axes[i] = x_axis(m, dim_of(p->x, i));
	for (i = 0; i < p->n; i++) {
		p->axes[2 + i] = x_axis(m, p->win[i].out);
		p->red[i] = x_axis(m, p->win[i].k);
	}
}

/* Where the window's element stands, from the first element that windows reach. */
static Node *
position(Module *m, const Pool *p, int i)
{
	return x_add(m, x_muli(m, p->axes[2 + i], p->win[i].stride),
		x_muli(m, p->red[i], p->win[i].dilation));
}

static Node *
pool_read(Module *m, const Pool *p, Node *padded)
{
	Node *idx[MAX_RANK];
	int i;

	memcpy(idx, p->axes, 2 * sizeof *idx);
	for (i = 0; i < p->n; i++)
		idx[2 + i] = position(m, p, i);
	return x_read(m, padded, idx);
}

/* The reduction of f(element) over the windows; f NULL: of the element. */
static Node *
pooled(Module *m, Pool *p, Comb c, Node *fill, Node *(*f)(Module *, Node *, int64_t), int64_t arg)
{
	Node *xp = window_padded(m, p->x, p->n, p->win, fill), *e;

	pool_axes(m, p);
	e = pool_read(m, p, xp);
	return x_reduce(m, c, p->n, p->red, f ? f(m, e, arg) : e);
}

/* ---- the maximum and where it stands --------------------------------------------------------- */

static Node *
element_fill(Module *m, DType d)
{
	return x_comb_identity(m, COMB_MAX, d);
}

/*
 * The flat index of the first element of each window that equals its maximum: the smallest index
 * among them. Column-major indices, if asked for, come from that one's row-major ones.
 */
static Node *
max_places(Module *m, Pool *p, Node *maxima, bool columns)
{
	Node *x = p->x, *idx[MAX_RANK], *in = x_bool(m, true), *flat, *e, *hit, *rest, *size, *t;
	int i;

	pool_axes(m, p);
	memcpy(idx, p->axes, 2 * sizeof *idx);
	flat = x_idx(m, 0);
	for (i = 0; i < p->n; i++) {
		Node *dim = dim_of(x, 2 + i);
		idx[2 + i] = x_sub(m, position(m, p, i), p->win[i].begin);
		in = x_and(m, in, x_and(m, x_le(m, x_idx(m, 0), idx[2 + i]), x_lt(m, idx[2 + i], dim)));
		flat = x_add(m, x_mul(m, flat, dim), idx[2 + i]);
	}
	e = x_read(m, x, idx);
	hit = x_eq(m, e, x_read(m, maxima, p->axes));
	if (dt_float(dtype_of(x)))
		hit = x_or(m, hit, x_ne(m, e, e));
	e = x_select(m, x_select(m, in, hit, x_bool(m, false)), x_cast(m, DT_I64, flat),
		x_int(m, DT_I64, INT64_MAX));
	t = t_tensor(m, 2 + p->n, p->axes, x_reduce(m, COMB_MIN, p->n, p->red, e));
	pool_axes(m, p);
	flat = x_read(m, t, p->axes);
	for (size = x_idx(m, 1), i = 0; i < p->n; i++)
		size = x_mul(m, size, dim_of(x, 2 + i));
	if (columns && p->n > 1) {
		Node *out = x_int(m, DT_I64, 0), *at[MAX_RANK];
		for (rest = flat, i = p->n; i-- > 0;) {
			Node *dim = x_cast(m, DT_I64, dim_of(x, 2 + i));
			at[i] = i ? x_mod(m, rest, dim) : rest;
			rest = x_fdiv(m, rest, dim);
		}
		for (i = p->n; i-- > 0;)
			out = x_add(m, x_mul(m, out, x_cast(m, DT_I64, dim_of(x, 2 + i))), at[i]);
		flat = out;
	}
	rest = x_add(m, x_mul(m, p->axes[0], dim_of(x, 1)), p->axes[1]);
	flat = x_add(m, flat, x_cast(m, DT_I64, x_mul(m, rest, size)));
	return t_tensor(m, 2 + p->n, p->axes, flat);
}

static Node *
build_max_pool(Build *b)
{
	Module *m = b->m;
	Node *e, *out[2] = {NULL, NULL};
	Pool p;

	if (!pool_args(b, &p))
		return NULL;
	e = pooled(m, &p, COMB_MAX, element_fill(m, dtype_of(p.x)), NULL, 0);
	out[0] = t_tensor(m, 2 + p.n, p.axes, e);
	out[1] = max_places(m, &p, out[0], attr_int(b, "storage_order") != 0);
	return t_tuple(m, 2, out);
}

/* ---- averages -------------------------------------------------------------------------------- */

/* How many elements of window i lie within [-before, in + after). */
static Node *
taps_within(Module *m, const Pool *p, int i, Node *before, Node *after)
{
	const Window *w = &p->win[i];
	Node *start = x_sub(m, x_muli(m, p->axes[2 + i], w->stride), w->begin),
		*d = x_idx(m, w->dilation);
	Node *first, *last, *zero = x_idx(m, 0);

	first = x_max(m, x_ceildiv(m, x_sub(m, x_sub(m, zero, before), start), d), zero);
	last = x_fdiv(m, x_sub(m, x_addi(m, x_add(m, w->in, after), -1), start), d);
	last = x_min(m, x_addi(m, last, 1), w->k);
	return x_max(m, x_sub(m, last, first), zero);
}

static Node *
build_average_pool(Build *b)
{
	Module *m = b->m;
	DType d = dtype_of(b->in[0]), acc = acc_type(d);
	Node *count = x_idx(m, 1), *zero = x_idx(m, 0), *e;
	bool pads_count = attr_int(b, "count_include_pad") != 0, padded;
	Pool p;
	int i;

	if (!pool_args(b, &p))
		return NULL;
	e = window_padded(m, p.x, p.n, p.win, x_int(m, d, 0));
	padded = e != p.x;
	pool_axes(m, &p);
	e = x_reduce(m, COMB_SUM, p.n, p.red, x_cast(m, acc, pool_read(m, &p, e)));
	for (i = 0; i < p.n; i++) {
		const Window *w = &p.win[i];
		bool whole = !padded || (pads_count && !w->ceil);
		count = x_mul(m, count, whole ? w->k : taps_within(m, &p, i, pads_count ? w->begin : zero,
			pads_count ? w->end : zero));
	}
	e = x2(m, O_DIV, e, x_cast(m, acc, count));
	return t_tensor(m, 2 + p.n, p.axes, x_cast(m, d, e));
}

/* ---- norms ----------------------------------------------------------------------------------- */

static Node *
magnitude_power(Module *m, Node *e, int64_t p)
{
	DType acc = acc_type(e->type->dtype);

	e = x_cast(m, acc, e);
	if (p == 2)
		return x_mul(m, e, e);
	e = x1(m, O_ABS, e);
	return p == 1 ? e : x2(m, O_POW, e, x_int(m, acc, p));
}

static Node *
magnitude_root(Module *m, Node *sum, int64_t p)
{
	DType d = sum->type->dtype;

	if (p == 1)
		return sum;
	return p == 2 ? x1(m, O_SQRT, sum) : x2(m, O_POW, sum, x_flt(m, d, 1.0 / (double)p));
}

static bool
norm_order(Build *b, int64_t *p)
{
	*p = attr_int(b, "p");
	return *p >= 1 || fail(b, "p is %lld, must be positive", (long long)*p) != NULL;
}

static Node *
build_lp_pool(Build *b)
{
	Module *m = b->m;
	DType d = dtype_of(b->in[0]);
	Node *e;
	int64_t order;
	Pool p;

	if (!norm_order(b, &order) || !pool_args(b, &p))
		return NULL;
	e = pooled(m, &p, COMB_SUM, x_int(m, d, 0), magnitude_power, order);
	return t_tensor(m, 2 + p.n, p.axes, x_cast(m, d, magnitude_root(m, e, order)));
}

/* ---- over all of the spatial dimensions ------------------------------------------------------ */

static bool
global_args(Build *b, Pool *p, Node **e)
{
	Module *m = b->m;
	Node *x = b->in[0], *idx[MAX_RANK];
	int i;

	*p = (Pool){.x = x, .n = rank_of(x) - 2};
	if (p->n < 1)
		return fail(b, "the operand has %d dimensions, needs at least 3", rank_of(x)) != NULL;
	for (i = 0; i < rank_of(x); i++) {
		idx[i] = x_axis(m, dim_of(x, i));
		p->axes[i] = i < 2 ? idx[i] : x_axis(m, x_idx(m, 1));
		if (i >= 2)
			p->red[i - 2] = idx[i];
	}
	*e = x_read(m, x, idx);
	return true;
}

static Node *
build_global_average(Build *b)
{
	Module *m = b->m;
	DType d = dtype_of(b->in[0]), acc = acc_type(d);
	Node *e, *count = x_idx(m, 1);
	Pool p;
	int i;

	if (!global_args(b, &p, &e))
		return NULL;
	for (i = 0; i < p.n; i++)
		count = x_mul(m, count, p.red[i]->in[0]);
	e = x_reduce(m, COMB_SUM, p.n, p.red, x_cast(m, acc, e));
	return t_tensor(m, 2 + p.n, p.axes, x_cast(m, d, x2(m, O_DIV, e, x_cast(m, acc, count))));
}

static Node *
build_global_max(Build *b)
{
	Node *e;
	Pool p;

	if (!global_args(b, &p, &e))
		return NULL;
	return t_tensor(b->m, 2 + p.n, p.axes, x_reduce(b->m, COMB_MAX, p.n, p.red, e));
}

static Node *
build_global_lp(Build *b)
{
	Module *m = b->m;
	DType d = dtype_of(b->in[0]);
	int64_t order;
	Node *e;
	Pool p;

	if (!norm_order(b, &order) || !global_args(b, &p, &e))
		return NULL;
	e = x_reduce(m, COMB_SUM, p.n, p.red, magnitude_power(m, e, order));
	return t_tensor(m, 2 + p.n, p.axes, x_cast(m, d, magnitude_root(m, e, order)));
}

/* ---- regions of interest --------------------------------------------------------------------- */

/* C's round(): halves away from zero. */
static Node *
round_away(Module *m, Node *x)
{
	DType d = x->type->dtype;
	Node *half = x_flt(m, d, 0.5), *up = x1(m, O_FLOOR, x_add(m, x, half)),
		*down = x1(m, O_CEIL, x_sub(m, x, half));

	return x_select(m, x_lt(m, x, x_int(m, d, 0)), down, up);
}

static Node *
to_index(Module *m, Node *x)
{
	return x_cast(m, DT_INDEX, x_cast(m, DT_I64, x));
}

/*
 * The maximum over each of pooled_shape bins of a region [batch, x1, y1, x2, y2]; 0 for an empty
 * bin. A bin's elements are picked out of the whole picture: its extent is known only in the
 * kernel.
 */
static Node *
build_max_roi_pool(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *rois = b->in[1], *axes[4], *red[2], *idx[4], *at[2], *e,
		*in = x_bool(m, true), *any, *top;
	DType d = dtype_of(x), c = acc_type(d);
	const int64_t *shape;
	double scale = attr_float(b, "spatial_scale");
	int n, i;

	if (rank_of(x) != 4 || rank_of(rois) != 2)
		return fail(b, "the operand has %d dimensions, the regions %d; needed are 4 and 2",
			rank_of(x), rank_of(rois));
	if (!attr_ints(b, "pooled_shape", &n, &shape) || n != 2 || shape[0] < 1 || shape[1] < 1)
		return fail(b, "pooled_shape must be two positive integers");
	require(m, x_eq(m, dim_of(rois, 1), x_idx(m, 5)), b->loc,
		"a region has %s numbers, must have 5",
		expr_print(m, dim_of(rois, 1)));
	axes[0] = at[0] = x_axis(m, dim_of(rois, 0));
	axes[1] = x_axis(m, dim_of(x, 1));
	at[1] = x_idx(m, 0);
	idx[0] = x2(m, O_BOUND, to_index(m, x_cast(m, c, x_read(m, rois, at))), dim_of(x, 0));
	idx[1] = axes[1];
	any = x_bool(m, true);
	for (i = 0; i < 2; i++) {
		Node *lo, *hi, *len, *first, *last, *dim = dim_of(x, 2 + i), *zero = x_idx(m, 0), *size;
		axes[2 + i] = x_axis(m, x_idx(m, shape[i]));
		idx[2 + i] = red[i] = x_axis(m, dim);
		at[1] = x_idx(m, i == 0 ? 2 : 1);
		lo = round_away(m, x_mul(m, x_cast(m, c, x_read(m, rois, at)), x_flt(m, c, scale)));
		at[1] = x_idx(m, i == 0 ? 4 : 3);
		hi = round_away(m, x_mul(m, x_cast(m, c, x_read(m, rois, at)), x_flt(m, c, scale)));
		len = x_max(m, x_add(m, x_sub(m, hi, lo), x_int(m, c, 1)), x_int(m, c, 1));
		size = x2(m, O_DIV, len, x_int(m, c, shape[i]));
		first = x1(m, O_FLOOR, x_mul(m, x_cast(m, c, axes[2 + i]), size));
		last = x1(m, O_CEIL, x_mul(m, x_cast(m, c, x_addi(m, axes[2 + i], 1)), size));
		first = x_max(m, to_index(m, x_add(m, first, lo)), zero);
		last = x_min(m, to_index(m, x_add(m, last, lo)), dim);
		in = x_and(m, in, x_and(m, x_le(m, first, red[i]), x_lt(m, red[i], last)));
		any = x_and(m, any, x_lt(m, x_min(m, first, dim), last));
	}
	top = x_comb_identity(m, COMB_MAX, d);
	e = x_reduce(m, COMB_MAX, 2, red, x_select(m, in, x_read(m, x, idx), top));
	return t_tensor(m, 4, axes, x_select(m, any, e, x_int(m, d, 0)));
}

#define WINDOW "auto_pad: str = \"NOTSET\", ceil_mode: int = 0, dilations: ints?," \
	" kernel_shape: ints"

const Op ops_pool[] = {
	BUILD("max_pool", "MaxPool", 22,
		"(x: float|i8|u8) {" WINDOW ", pads: ints?, storage_order: int = 0,"
		" strides: ints?} -> y, indices?", build_max_pool, "maximum over windows"),
	BUILD("average_pool", "AveragePool", 22,
	"(x: float) {" WINDOW ", count_include_pad: int = 0, pads: ints?,"
		" strides: ints?} -> y", build_average_pool, "mean over windows"),
	BUILD("lp_pool", "LpPool", 22,
	"(x: float) {" WINDOW ", p: int = 2, pads: ints?, strides: ints?} -> y",
		build_lp_pool, "p-norm over windows"),
	BUILD("global_average_pool", "GlobalAveragePool", 22, "(x: float) {} -> y",
	build_global_average,
		"mean over the spatial dimensions"),
	BUILD("global_max_pool", "GlobalMaxPool", 22, "(x: float) {} -> y", build_global_max,
		"maximum over the spatial dimensions"),
	BUILD("global_lp_pool", "GlobalLpPool", 22, "(x: float) {p: int = 2} -> y", build_global_lp,
		"p-norm over the spatial dimensions"),
	BUILD("max_roi_pool", "MaxRoiPool", 22,
	"(x: float, rois: x) {pooled_shape: ints, spatial_scale: float = 1} -> y",
		build_max_roi_pool, "maximum over the bins of regions"),
	{0}
};
