/*
 * Convolutions, in the form of contract.c. The result is computed by groups, [n, group, channel of
 * the group, spatial], so that indices stay affine, and reshaped.
 */
#include <string.h>
#include "ops.h"

/* x: [n, c, spatial], w: [k, c / group, spatial]. */
typedef struct Conv {
	Node *x, *w, *groups, *cg, *kg;  /* input and output channels of a group */
	int n;                 /* spatial dimensions */
	Window win[MAX_RANK];
} Conv;

static bool
conv_shape(Build *b, Node *x, Node *w, bool transposed, Conv *c)
{
	Module *m = b->m;
	int64_t group = attr_int(b, "group"), k, given;
	const int64_t *v;
	int n, i;

	*c = (Conv){.x = x, .w = w, .n = rank_of(x) - 2};
	if (rank_of(x) < 3 || rank_of(x) != rank_of(w) || rank_of(x) + 2 > MAX_RANK) {
		fail(b, "the operand has %d dimensions, the weights %d; both need the same number,"
			" at least 3",
			rank_of(x), rank_of(w));
		return false;
	}
	if (group < 1 || group > 1 << 30) {
		fail(b, "group is %lld", (long long)group);
		return false;
	}
	c->groups = x_idx(m, group);
	Node *in = dim_of(x, 1), *out = dim_of(w, transposed ? 1 : 0),
		*wc = dim_of(w, transposed ? 0 : 1);
	require(m, x_eq(m, x_mod(m, transposed ? wc : out, c->groups), x_idx(m, 0)), b->loc,
		"%s channels, group %lld", expr_print(m, transposed ? wc : out), (long long)group);
	require(m, x_eq(m, in, transposed ? wc : x_mul(m, wc, c->groups)), b->loc,
		"the operand has %s channels, the weights %s, group is %lld", expr_print(m, in),
		expr_print(m, wc),
		(long long)group);
	c->cg = transposed ? x_fdiv(m, wc, c->groups) : wc;
	c->kg = transposed ? out : x_fdiv(m, out, c->groups);
	if (attr_ints(b, "kernel_shape", &n, &v) && n > 0) {
		if (n != c->n) {
			fail(b, "kernel_shape has %d entries, the weights %d spatial dimensions", n, c->n);
			return false;
		}
		for (i = 0; i < n; i++) {
			given = v[i];
			require(m, x_eq(m, dim_of(w, i + 2), x_idx(m, given)), b->loc,
				"kernel_shape has %lld where the weights have %s", (long long)given,
				expr_print(m, dim_of(w, i + 2)));
		}
	}
	for (i = 0; i < c->n; i++)
		if (is_int(dim_of(w, i + 2), &k) && k < 1) {
			fail(b, "the kernel is empty");
			return false;
		}
	return true;
}

static bool
conv_args(Build *b, Node *x, Node *w, Conv *c)
{
	return conv_shape(b, x, w, false, c)
		&& windows(b, c->n, x->type->dims + 2, w->type->dims + 2, false, c->win);
}

/* a * b + c where a may be the constant 1's axis: the channel k of group g. */
static Node *
channel(Module *m, Node *group, Node *per, Node *k)
{
	return x_add(m, x_mul(m, group, per), k);
}

/* Axes of the grouped result: n, group, channel of the group, spatial. */
static int
conv_axes(Module *m, const Conv *c, Node **axes)
{
	int i;

	axes[0] = x_axis(m, dim_of(c->x, 0));
	axes[1] = x_axis(m, c->groups);
	axes[2] = x_axis(m, c->kg);
	for (i = 0; i < c->n; i++)
		axes[3 + i] = x_axis(m, c->win[i].out);
	return 3 + c->n;
}

/* The element of an operand that is read for a place of the
 * window: red[0] the channel, then the kernel. */
static Node *
window_read(Module *m, const Conv *c, Node *xp, Node *const *axes, Node *const *red)
{
	Node *idx[MAX_RANK];
	int i;

	idx[0] = axes[0];
	idx[1] = channel(m, axes[1], c->cg, red[0]);
	for (i = 0; i < c->n; i++)
		idx[2 + i] = x_add(m, x_muli(m, axes[3 + i], c->win[i].stride),
			x_muli(m, red[1 + i], c->win[i].dilation));
	return x_read(m, xp, idx);
}

static Node *
weight_read(Module *m, const Conv *c, Node *const *axes, Node *const *red)
{
	Node *idx[MAX_RANK];
	int i;

	idx[0] = channel(m, axes[1], c->kg, axes[2]);
	for (i = 0; i <= c->n; i++)
		idx[1 + i] = red[i];
	return x_read(m, c->w, idx);
}

static void
conv_red(Module *m, const Conv *c, Node **red)
{
	int i;

	red[0] = x_axis(m, c->cg);
	for (i = 0; i < c->n; i++)
		red[1 + i] = x_axis(m, c->win[i].k);
}

/* The sum of products over the grouped axes, in the accumulator's type. */
static Node *
conv_sum(Module *m, const Conv *c, Node *fill, Node **axes)
{
	Node *red[MAX_RANK], *xp = window_padded(m, c->x, c->n, c->win, fill), *x;

	conv_axes(m, c, axes);
	conv_red(m, c, red);
	x = window_read(m, c, xp, axes, red);
	return sum_of_products(m, acc_type(dtype_of(c->x)), c->n + 1, red, x,
		weight_read(m, c, axes, red));
}

/* [n, g, k, spatial] as [n, g * k, spatial]. */
static Node *
ungrouped(Module *m, Node *t)
{
	Node *dims[MAX_RANK];
	int i;

	dims[0] = dim_of(t, 0);
	dims[1] = x_mul(m, dim_of(t, 1), dim_of(t, 2));
	for (i = 3; i < rank_of(t); i++)
		dims[i - 1] = dim_of(t, i);
	return reshape(m, t, rank_of(t) - 1, dims);
}

static bool
check_bias(Build *b, Node *bias, const Conv *c)
{
	Node *n = x_mul(b->m, c->groups, c->kg);

	if (rank_of(bias) != 1) {
		fail(b, "the bias has %d dimensions, must have 1", rank_of(bias));
		return false;
	}
	require(b->m, x_eq(b->m, dim_of(bias, 0), n), b->loc,
		"the bias has %s elements for %s channels",
		expr_print(b->m, dim_of(bias, 0)), expr_print(b->m, n));
	return true;
}

/* The grouped sum as type d, with its bias. */
static Node *
conv_result(Build *b, const Conv *c, Node *bias, DType d, int rank, Node **axes, Node *sum)
{
	Module *m = b->m;
	Node *t, *at;

	if (!bias)
		return ungrouped(m, t_tensor(m, rank, axes, x_cast(m, d, sum)));
	if (!check_bias(b, bias, c))
		return NULL;
	t = t_tensor(m, rank, axes, sum);
	axes_new(m, rank, t->type->dims, axes);
	at = channel(m, axes[1], c->kg, axes[2]);
	sum = x_add(m, x_read(m, t, axes), x_cast(m, sum->type->dtype, x_read(m, bias, &at)));
	return ungrouped(m, t_tensor(m, rank, axes, x_cast(m, d, sum)));
}

static Node *
build_conv(Build *b)
{
	Module *m = b->m;
	DType d = dtype_of(b->in[0]);
	Node *axes[MAX_RANK + 1], *sum;
	Conv c;

	if (!conv_args(b, b->in[0], b->in[1], &c))
		return NULL;
	sum = conv_sum(m, &c, x_int(m, d, 0), axes);
	return conv_result(b, &c, b->in[2], d, 3 + c.n, axes, sum);
}

/* A zero point or scale that may have one value for each output channel. */
static Node *
channel_param(Build *b, const Conv *c, Node *t, Node *const *axes)
{
	Module *m = b->m;
	Node *at = channel(m, axes[1], c->kg, axes[2]);

	if (rank_of(t) != 1 || is_intv(dim_of(t, 0), 1))
		return scalar_arg(m, t);
	expect_dim(b, "a zero point or scale", dim_of(t, 0), x_mul(m, c->groups, c->kg), false);
	return x_read(m, t, &at);
}

/* What the windows of the padded operand sum to, over [n, g, spatial]. */
static Node *
window_sums(Module *m, const Conv *c, Node *xp, Node *const *at)
{
	Node *axes[MAX_RANK + 1], *red[MAX_RANK], *keep[MAX_RANK], *idx[MAX_RANK], *e;
	int i, n = 0, rank = conv_axes(m, c, axes);

	conv_red(m, c, red);
	e = x_reduce(m, COMB_SUM, c->n + 1, red, x_cast(m, DT_I32, window_read(m, c, xp, axes, red)));
	for (i = 0; i < rank; i++)
		if (i != 2) {
			idx[n] = at[i];
			keep[n++] = axes[i];
		}
	return x_read(m, t_tensor(m, n, keep, e), idx);
}

static Node *
weight_sums(Module *m, const Conv *c, Node *const *at)
{
	Node *axes[3], *red[MAX_RANK], *e;

	axes[1] = x_axis(m, c->groups);
	axes[2] = x_axis(m, c->kg);
	conv_red(m, c, red);
	e = x_reduce(m, COMB_SUM, c->n + 1, red, x_cast(m, DT_I32, weight_read(m, c, axes, red)));
	return x_read(m, t_tensor(m, 2, axes + 1, e), at + 1);
}

/* The convolution of (x - zx) with (w - zw), distributed as in integer_product; padding holds
 * zx. */
static Node *
integer_conv(Build *b, const Conv *c, Node *zx, Node *zw, Node **axes)
{
	Module *m = b->m;
	DType dx = dtype_of(c->x);
	Node *fill = zx ? scalar_arg(m, zx) : x_int(m, dx, 0), *xp, *e, *t, *a, *w, *count;
	int i, rank = 3 + c->n;

	e = conv_sum(m, c, fill, axes);
	t = t_tensor(m, rank, axes, e);
	axes_new(m, rank, t->type->dims, axes);
	e = x_read(m, t, axes);
	a = x_cast(m, DT_I32, fill);
	w = zw ? x_cast(m, DT_I32, channel_param(b, c, zw, axes)) : x_int(m, DT_I32, 0);
	if (!is_zero(a))
		e = x_sub(m, e, x_mul(m, a, weight_sums(m, c, axes)));
	if (is_zero(w))
		return e;
	xp = window_padded(m, c->x, c->n, c->win, fill);
	e = x_sub(m, e, x_mul(m, w, window_sums(m, c, xp, axes)));
	if (is_zero(a))
		return e;
	for (count = c->cg, i = 0; i < c->n; i++)
		count = x_mul(m, count, c->win[i].k);
	return x_add(m, e, x_mul(m, x_cast(m, DT_I32, count), x_mul(m, a, w)));
}

static Node *
build_conv_integer(Build *b)
{
	Node *axes[MAX_RANK + 1], *e;
	Conv c;

	if (!conv_args(b, b->in[0], b->in[1], &c))
		return NULL;
	e = integer_conv(b, &c, b->in[2], b->in[3], axes);
	return ungrouped(b->m, t_tensor(b->m, 3 + c.n, axes, e));
}

static Node *
build_qlinear_conv(Build *b)
{
	Module *m = b->m;
	Node **in = b->in, *axes[MAX_RANK + 1], *e, *scale, *at;
	Conv c;

	if (!conv_args(b, in[0], in[3], &c) || (in[8] && !check_bias(b, in[8], &c)))
		return NULL;
	e = integer_conv(b, &c, in[2], in[5], axes);
	at = channel(m, axes[1], c.kg, axes[2]);
	if (in[8])
		e = x_add(m, e, x_read(m, in[8], &at));
	scale = x_mul(m, scalar_arg(m, in[1]), channel_param(b, &c, in[4], axes));
	scale = x2(m, O_DIV, scale, scalar_arg(m, in[6]));
	e = requantized(m, e, scale, scalar_arg(m, in[7]));
	return ungrouped(m, t_tensor(m, 3 + c.n, axes, e));
}

/* ---- transposed convolution ------------------------------------------------------------------ */

/* Sizes and the pads at the beginning: out and begin of each window.
 * given_pads: an operand, NULL: the attribute. */
static bool
transposed_sizes(Build *b, Conv *c, Node *given_pads)
{
	Module *m = b->m;
	int64_t stride[MAX_RANK], dilation[MAX_RANK], pads[2 * MAX_RANK], extra[MAX_RANK],
		shape[MAX_RANK];
	const char *a = attr_str(b, "auto_pad");
	bool upper = strcmp(a, "SAME_UPPER") == 0, lower = strcmp(a, "SAME_LOWER") == 0, given;
	Node *total, *half, *zero = x_idx(m, 0), **pad = NULL;
	const int64_t *v;
	int i, n;

	if (given_pads && !list_arg(b, given_pads, "Pads", &n, &pad))
		return false;
	if (given_pads && n != 2 * c->n)
		return fail(b, "Pads has %d elements, must have %d", n, 2 * c->n) != NULL;
	if (!upper && !lower && *a && strcmp(a, "NOTSET") && strcmp(a, "VALID"))
		return fail(b, "auto_pad is \"%s\"", a) != NULL;
	if (!window_attrs(b, c->n, stride, dilation, pads)
	 || !spatial_attr(b, "output_padding", c->n, 0, extra))
		return false;
	given = attr_ints(b, "output_shape", &n, &v) && n > 0;
	for (i = 0; given && i < c->n; i++) {
		if (n != c->n && n != c->n + 2)              /* some exporters give all dimensions */
			return fail(b, "output_shape has %d entries, must have %d", n, c->n) != NULL;
		shape[i] = v[n - c->n + i];
	}
	for (i = 0; i < c->n; i++) {
		Window *w = &c->win[i];
		if (extra[i] < 0 || extra[i] > 1 << 30 || pads[i] < 0 || pads[c->n + i] < 0)
			return fail(b, "pads and output_padding must be in [0, 2^30]") != NULL;
		*w = (Window){.in = dim_of(c->x, 2 + i), .k = dim_of(c->w, 2 + i), .stride = stride[i],
			.dilation = dilation[i]};
		total = x_muli(m, x_addi(m, w->in, -1), w->stride);
		total = x_addi(m, x_add(m, total, window_span(m, w)), extra[i]);
		if (given || upper || lower) {
			w->out = given ? x_idx(m, shape[i]) : x_muli(m, w->in, w->stride);
			total = x_max(m, x_sub(m, total, w->out), zero);
			half = x_fdiv(m, total, x_idx(m, 2));
			w->begin = upper ? half : x_sub(m, total, half);
		} else {
			if (strcmp(a, "VALID") == 0)
				pads[i] = pads[c->n + i] = 0;
			w->begin = pad ? pad[i] : x_idx(m, pads[i]);
			w->out = x_sub(m, x_sub(m, total, w->begin),
				pad ? pad[c->n + i] : x_idx(m, pads[c->n + i]));
		}
		require(m, x_le(m, zero, w->out), b->loc, "spatial dimension %d of the result is negative",
			i);
	}
	return true;
}

/*
 * With stride s, result element q * s + p (counted before the pads are cut off) is the sum over
 * taps t of x[q - t * d] * w[p + t * s], where d is the dilation if s is 1 and else 1: a
 * convolution for each phase p < s, without products by inserted zeros. The weights are padded to
 * whole taps.
 */
typedef struct Phases { Node *q, *taps, *pad; int64_t s, d; bool whole; } Phases;

static Phases
phases_of(Module *m, const Window *w)
{
	Phases p = {.s = w->stride, .d = w->stride == 1 ? w->dilation : 1};
	Node *s = x_idx(m, p.s);

	p.taps = x_ceildiv(m, w->k, s);
	p.whole = is_intv(x_mod(m, w->k, s), 0);
	p.pad = x_muli(m, x_addi(m, p.taps, -1), p.d);
	p.q = x_ceildiv(m, x_add(m, w->out, w->begin), s);
	return p;
}

/* x with p.pad zeros before and as many elements as the taps reach. */
static Node *
phase_input(Module *m, const Conv *c, const Phases *p, Node *x)
{
	Node *axes[MAX_RANK], *idx[MAX_RANK], *in = x_bool(m, true), *reach;
	bool any = false;
	int i;

	for (i = 0; i < 2; i++)
		idx[i] = axes[i] = x_axis(m, dim_of(x, i));
	for (i = 0; i < c->n; i++) {
		reach = x_add(m, p[i].q, p[i].pad);
		if (is_intv(p[i].pad, 0) && prove_le(m, reach, dim_of(x, 2 + i))) {
			idx[2 + i] = axes[2 + i] = x_axis(m, dim_of(x, 2 + i));
			continue;
		}
		any = true;
		axes[2 + i] = x_axis(m, reach);
		idx[2 + i] = x_sub(m, axes[2 + i], p[i].pad);
		in = x_and(m, in, x_and(m, x_le(m, x_idx(m, 0), idx[2 + i]),
			x_lt(m, idx[2 + i], dim_of(x, 2 + i))));
	}
	if (!any)
		return x;
	return t_tensor(m, rank_of(x), axes,
		x_select(m, in, x_read(m, x, idx), x_int(m, dtype_of(x), 0)));
}

/*
 * The weights as [c, taps, column], zeros where a tap is not whole: the phases and the channels of
 * a group are one axis of columns, as products like it, the channels moving fastest.
 */
static Node *
phase_weights(Module *m, const Conv *c, const Phases *p)
{
	Node *axes[MAX_RANK], *idx[MAX_RANK], *in = x_bool(m, true), *columns = c->kg, *rest, *s;
	int i;

	for (i = 0; i < c->n; i++)
		columns = x_muli(m, columns, p[i].s);
	idx[0] = axes[0] = x_axis(m, dim_of(c->w, 0));
	rest = axes[1 + c->n] = x_axis(m, columns);
	idx[1] = x_mod(m, rest, c->kg);
	rest = x_fdiv(m, rest, c->kg);
	for (i = c->n; i-- > 0; rest = x_fdiv(m, rest, s)) {
		s = x_idx(m, p[i].s);
		axes[1 + i] = x_axis(m, p[i].taps);
		idx[2 + i] = x_add(m, x_mod(m, rest, s), x_mul(m, axes[1 + i], s));
		if (!p[i].whole)
			in = x_and(m, in, x_lt(m, idx[2 + i], dim_of(c->w, 2 + i)));
	}
	return t_tensor(m, 2 + c->n, axes,
		x_select(m, in, x_read(m, c->w, idx), x_int(m, dtype_of(c->w), 0)));
}

/* x with stride - 1 zeros between its elements: the case of both stride and dilation. */
static Node *
zeros_between(Module *m, Conv *c)
{
	Node *axes[MAX_RANK], *idx[MAX_RANK], *in = x_bool(m, true), *zero = x_idx(m, 0), *s;
	int i;

	for (i = 0; i < 2; i++)
		idx[i] = axes[i] = x_axis(m, dim_of(c->x, i));
	for (i = 0; i < c->n; i++) {
		Window *w = &c->win[i];
		s = x_idx(m, w->stride);
		axes[2 + i] = x_axis(m, x_max(m, x_addi(m, x_mul(m, x_addi(m, w->in, -1), s), 1), zero));
		idx[2 + i] = x_fdiv(m, axes[2 + i], s);
		in = x_and(m, in, x_eq(m, x_mod(m, axes[2 + i], s), zero));
		w->stride = 1;
	}
	return t_tensor(m, 2 + c->n, axes,
		x_select(m, in, x_read(m, c->x, idx), x_int(m, dtype_of(c->x), 0)));
}

/* [n, group, q, column]: the phases' convolutions. */
static Node *
phase_sums(Module *m, const Conv *c, const Phases *p, Node *x)
{
	Node *w = phase_weights(m, c, p), *axes[MAX_RANK], *red[MAX_RANK], *xi[MAX_RANK], *wi[MAX_RANK],
		*sum;
	int i;

	xi[0] = axes[0] = x_axis(m, dim_of(c->x, 0));
	axes[1] = x_axis(m, c->groups);
	axes[2 + c->n] = wi[1 + c->n] = x_axis(m, dim_of(w, 1 + c->n));
	red[0] = x_axis(m, c->cg);
	xi[1] = wi[0] = is_intv(c->groups, 1) ? red[0] : channel(m, axes[1], c->cg, red[0]);
	for (i = 0; i < c->n; i++) {
		axes[2 + i] = x_axis(m, p[i].q);
		wi[1 + i] = red[1 + i] = x_axis(m, p[i].taps);
		xi[2 + i] = x_add(m, x_sub(m, axes[2 + i], x_muli(m, red[1 + i], p[i].d)), p[i].pad);
	}
	sum = sum_of_products(m, acc_type(dtype_of(c->x)), c->n + 1, red, x_read(m, x, xi),
		x_read(m, w, wi));
	return t_tensor(m, 3 + c->n, axes, sum);
}

static Node *
conv_transposed(Build *b, Node *pads, Node *bias)
{
	Module *m = b->m;
	DType d = dtype_of(b->in[0]);
	Node *x, *axes[MAX_RANK], *at[MAX_RANK], *column, *sum, *place, *s;
	Phases p[MAX_RANK];
	bool both = false;
	Conv c;
	int i;

	if (!conv_shape(b, b->in[0], b->in[1], true, &c) || !transposed_sizes(b, &c, pads))
		return NULL;
	for (i = 0; i < c.n; i++)
		both |= c.win[i].stride > 1 && c.win[i].dilation > 1;
	x = both ? zeros_between(m, &c) : c.x;
	for (i = 0; i < c.n; i++)
		p[i] = phases_of(m, &c.win[i]);
	conv_axes(m, &c, axes);
	memcpy(at, axes, 2 * sizeof *at);
	column = x_idx(m, 0);
	for (i = 0; i < c.n; i++) {
		place = x_add(m, axes[3 + i], c.win[i].begin);
		s = x_idx(m, p[i].s);
		at[2 + i] = x_fdiv(m, place, s);
		column = x_add(m, x_mul(m, column, s), x_mod(m, place, s));
	}
	at[2 + c.n] = x_add(m, x_mul(m, column, c.kg), axes[2]);
	sum = x_read(m, phase_sums(m, &c, p, phase_input(m, &c, p, x)), at);
	if (bias) {
		if (!check_bias(b, bias, &c))
			return NULL;
		place = channel(m, axes[1], c.kg, axes[2]);
		sum = x_add(m, sum, x_cast(m, acc_type(d), x_read(m, bias, &place)));
	}
	return ungrouped(m, t_tensor(m, 3 + c.n, axes, x_cast(m, d, sum)));
}

static Node *build_conv_transpose(Build *b)         { return conv_transposed(b, NULL, b->in[2]); }
static Node *build_conv_transpose_dynamic(Build *b) { return conv_transposed(b, b->in[2], b->in[3]);
	}

/* ---- deformable convolution ------------------------------------------------------------------ */

/* x at row y and column z, in type f32 or f64: bilinear, zero outside. */
static Node *
bilinear(Module *m, Node *x, Node *n, Node *c, Node *y, Node *z)
{
	DType d = y->type->dtype;
	Node *y0 = x1(m, O_FLOOR, y), *z0 = x1(m, O_FLOOR, z), *fy = x_sub(m, y, y0),
		*fz = x_sub(m, z, z0);
	Node *one = x_int(m, d, 1), *zero = x_idx(m, 0), *sum = NULL, *w, *in, *idx[4];
	int i, k;

	for (i = 0; i < 2; i++)
		for (k = 0; k < 2; k++) {
			idx[0] = n;
			idx[1] = c;
			idx[2] = x_addi(m, x_cast(m, DT_INDEX, x_cast(m, DT_I64, y0)), i);
			idx[3] = x_addi(m, x_cast(m, DT_INDEX, x_cast(m, DT_I64, z0)), k);
			in = x_and(m, x_and(m, x_le(m, zero, idx[2]), x_lt(m, idx[2], dim_of(x, 2))),
				x_and(m, x_le(m, zero, idx[3]), x_lt(m, idx[3], dim_of(x, 3))));
			w = x_mul(m, i ? fy : x_sub(m, one, fy), k ? fz : x_sub(m, one, fz));
			w = x_select(m, in, x_mul(m, w, x_cast(m, d, x_read(m, x, idx))), x_int(m, d, 0));
			sum = sum ? x_add(m, sum, w) : w;
		}
	return sum;
}

static bool
deform_args(Build *b, Conv *c, int64_t groups)
{
	Module *m = b->m;
	Node *x = b->in[0], *off = b->in[2], *mask = b->in[4], *taps;
	int i;

	if (rank_of(x) != 4 || rank_of(off) != 4 || (mask && rank_of(mask) != 4))
		return unsupported(b, "only two spatial dimensions are supported") != NULL;
	if (groups < 1 || groups > 1 << 30)
		return fail(b, "offset_group is %lld", (long long)groups) != NULL;
	if (!conv_args(b, x, b->in[1], c))
		return false;
	require(m, x_eq(m, x_mod(m, dim_of(x, 1), x_idx(m, groups)), x_idx(m, 0)), b->loc,
		"%s channels, offset_group %lld", expr_print(m, dim_of(x, 1)), (long long)groups);
	taps = x_muli(m, x_mul(m, c->win[0].k, c->win[1].k), groups);
	require(m, x_eq(m, dim_of(off, 1), x_muli(m, taps, 2)), b->loc,
		"the offset has %s channels, must have %s",
		expr_print(m, dim_of(off, 1)), expr_print(m, x_muli(m, taps, 2)));
	if (mask)
		require(m, x_eq(m, dim_of(mask, 1), taps), b->loc, "the mask has %s channels, must have %s",
			expr_print(m, dim_of(mask, 1)), expr_print(m, taps));
	for (i = 2; i < 4; i++) {
		require(m, x_eq(m, dim_of(off, i), c->win[i - 2].out), b->loc,
			"the offset has %s elements for %s places",
			expr_print(m, dim_of(off, i)), expr_print(m, c->win[i - 2].out));
		if (mask)
			require(m, x_eq(m, dim_of(mask, i), c->win[i - 2].out), b->loc,
				"the mask has %s elements for %s places", expr_print(m, dim_of(mask, i)),
				expr_print(m, c->win[i - 2].out));
	}
	return true;
}

/* The operand sampled for every place and tap: [n, c, kernel, spatial]. */
static Node *
deform_samples(Build *b, const Conv *c, DType acc, int64_t groups)
{
	Module *m = b->m;
	Node *x = b->in[0], *s[6], *idx[4], *pos[2], *og, *tap, *e;
	int i;

	for (i = 0; i < 2; i++) {
		s[i] = x_axis(m, dim_of(x, i));
		s[2 + i] = x_axis(m, c->win[i].k);
		s[4 + i] = x_axis(m, c->win[i].out);
	}
	og = x_fdiv(m, s[1], x_fdiv(m, dim_of(x, 1), x_idx(m, groups)));
	tap = x_add(m, x_mul(m, x_add(m, x_mul(m, og, c->win[0].k), s[2]), c->win[1].k), s[3]);
	idx[0] = s[0];
	idx[2] = s[4];
	idx[3] = s[5];
	for (i = 0; i < 2; i++) {
		idx[1] = x_addi(m, x_muli(m, tap, 2), i);
		e = x_add(m, x_muli(m, s[4 + i], c->win[i].stride),
			x_muli(m, s[2 + i], c->win[i].dilation));
		pos[i] = x_add(m, x_cast(m, acc, x_sub(m, e, c->win[i].begin)),
			x_cast(m, acc, x_read(m, b->in[2], idx)));
	}
	e = bilinear(m, x, s[0], s[1], pos[0], pos[1]);
	idx[1] = tap;
	if (b->in[4])
		e = x_mul(m, e, x_cast(m, acc, x_read(m, b->in[4], idx)));
	return t_tensor(m, 6, s, e);
}

static Node *
build_deform_conv(Build *b)
{
	Module *m = b->m;
	DType d = dtype_of(b->in[0]), acc = acc_type(d);
	int64_t groups = attr_int(b, "offset_group");
	Node *samples, *axes[MAX_RANK], *red[3], *idx[6], *sum;
	Conv c;
	int i;

	if (!deform_args(b, &c, groups))
		return NULL;
	samples = deform_samples(b, &c, acc, groups);
	conv_axes(m, &c, axes);
	conv_red(m, &c, red);
	idx[0] = axes[0];
	idx[1] = channel(m, axes[1], c.cg, red[0]);
	for (i = 0; i < 2; i++) {
		idx[2 + i] = red[1 + i];
		idx[4 + i] = axes[3 + i];
	}
	sum = sum_of_products(m, acc, 3, red, x_read(m, samples, idx), weight_read(m, &c, axes, red));
	return conv_result(b, &c, b->in[3], d, 5, axes, sum);
}

#define CONV "auto_pad: str = \"NOTSET\", dilations: ints?, group: int = 1, kernel_shape: ints?"

const Op ops_conv[] = {
	BUILD("conv", "Conv", 22,
		"(x: float, w: x, bias: x?) {" CONV ", pads: ints?, strides: ints?} -> y",
		build_conv, "convolution"),
	BUILD("conv_integer", "ConvInteger", 10, "(x: i8|u8, w: i8|u8, x_zero: x?, w_zero: w?)"
		" {" CONV ", pads: ints?, strides: ints?} -> y", build_conv_integer,
		"convolution of bytes less their zero points"),
	BUILD("qlinear_conv", "QLinearConv", 10,
	"(x: i8|u8, x_scale: f32, x_zero: x, w: i8|u8, w_scale: f32,"
		" w_zero: w, y_scale: f32, y_zero: i8|u8, bias: i32?) {" CONV ", pads: ints?,"
		" strides: ints?} -> y",
		build_qlinear_conv, "quantized convolution"),
	BUILD("conv_transpose", "ConvTranspose", 22,
	"(x: float, w: x, bias: x?) {" CONV ", output_padding: ints?,"
		" output_shape: ints?, pads: ints?, strides: ints?} -> y", build_conv_transpose,
		"transposed convolution"),
	BUILD("conv_transpose_dynamic_pads", "com.microsoft:ConvTransposeWithDynamicPads", 1,
	"(x: float, w: x, pads: i64?, bias: x?)"
		" {" CONV ", output_padding: ints?, strides: ints?} -> y", build_conv_transpose_dynamic,
		"transposed convolution, its pads an operand"),
	BUILD("deform_conv", "DeformConv", 22,
	"(x: float, w: x, offset: x, bias: x?, mask: x?) {dilations: ints?,"
		" group: int = 1, kernel_shape: ints?, offset_group: int = 1, pads: ints?, strides: ints?}"
		" -> y",
		build_deform_conv, "convolution that samples at learned offsets"),
	{0}
};
