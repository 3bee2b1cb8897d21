/*
 * Signals: Fourier transforms and mel weights, computed in f64 and rounded once. Transforms are
 * sums with factors from a table of one turn, exact in the index.
 */
#include <math.h>
#include "ops.h"

/* [length, 2]: cosine and sine of each part of a turn. */
static Node *
turn(Module *m, Node *length)
{
	Node *axes[2] = {x_axis(m, length), x_axis(m, x_idx(m, 2))}, *a;

	a = x2(m, O_DIV, x_mul(m, x_flt(m, DT_F64, 2 * M_PI), x_cast(m, DT_F64, axes[0])),
		x_cast(m, DT_F64, length));
	return t_tensor(m, 2, axes,
		x_select(m, x_eq(m, axes[1], x_idx(m, 0)), x1(m, O_COS, a), x1(m, O_SIN, a)));
}

/*
 * The real (part 0) or imaginary (part 1) of re + i im turned by k * n / length, backwards unless
 * inverse; im NULL: 0.
 */
static Node *
turned(Module *m, Node *table, Node *length, Node *kn, Node *re, Node *im, Node *part, bool inverse)
{
	Node *at = x_mod(m, kn, length), *c, *s, *r, *i;

	c = x_read(m, table, (Node *[]){at, x_idx(m, 0)});
	s = x_read(m, table, (Node *[]){at, x_idx(m, 1)});
	if (!inverse)
		s = x1(m, O_NEG, s);
	r = x_mul(m, re, c);
	i = x_mul(m, re, s);
	if (im) {
		r = x_sub(m, r, x_mul(m, im, s));
		i = x_add(m, i, x_mul(m, im, c));
	}
	return x_select(m, x_eq(m, part, x_idx(m, 0)), r, i);
}

static Node *
f64_read(Module *m, Node *x, Node **idx, int part)
{
	idx[rank_of(x) - 1] = x_idx(m, part);
	return x_cast(m, DT_F64, x_read(m, x, idx));
}

/* Is the last dimension 2? NULL after an error. */
static Node *
is_complex(Build *b, Node *x)
{
	Module *m = b->m;
	Node *last, *two, *one;

	if (rank_of(x) < 2)
		return fail(b, "the operand has %d dimensions, needs 2", rank_of(x));
	last = dim_of(x, rank_of(x) - 1);
	two = x_eq(m, last, x_idx(m, 2));
	one = x_eq(m, last, x_idx(m, 1));
	require(m, x_or(m, one, two), b->loc, "the last of %d dimensions is %s, must be 1 or 2",
		rank_of(x),
		expr_print(m, last));
	return two;
}

/* The imaginary part at idx; NULL where there is none. */
static Node *
imaginary(Module *m, Node *x, Node **idx, Node *complex)
{
	return is_intv(complex, 0) ? NULL
		: x_select(m, complex, f64_read(m, x, idx, 1), x_flt(m, DT_F64, 0));
}

/* The axis may be known only when the program runs: then it is chosen among all. */
static Node *
build_dft(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *axis, *on[MAX_RANK], *dim, *len, *axes[MAX_RANK], *idx[MAX_RANK], *n, *k,
		*zero = x_idx(m, 0), *e;
	bool inverse = attr_int(b, "inverse") != 0, half = attr_int(b, "onesided") != 0;
	int rank = rank_of(x), d;
	Node *complex = is_complex(b, x), *found = x_bool(m, false), *out, *used, *im, *table;

	if (!complex)
		return NULL;
	if (half)
		require(m, inverse ? complex : x_not(m, complex), b->loc,
			"onesided needs a real operand, or with inverse a complex one");
	axis = b->in[2] ? x_cast(m, DT_INDEX, scalar_arg(m, b->in[2])) : x_idx(m, -2);
	for (dim = zero, d = rank - 1; d-- > 0;) {
		on[d] = x_any_axis(m, axis, d, rank);
		found = x_or(m, found, on[d]);
		dim = x_select(m, on[d], dim_of(x, d), dim);
	}
	require(m, found, b->loc, "the axis is outside [%d, %d] or is the last", -rank, rank - 2);
	len = b->in[1] ? extent(m, x_cast(m, DT_INDEX, scalar_arg(m, b->in[1])))
		: half && inverse ? x_muli(m, x_addi(m, dim, -1), 2) : dim;
	require(m, x_lt(m, zero, len), b->loc, "the length is %s", expr_print(m, len));
	out = half && !inverse ? x_addi(m, x_fdiv(m, len, x_idx(m, 2)), 1) : len;
	used = x_min(m, dim, half && inverse ? x_addi(m, x_fdiv(m, len, x_idx(m, 2)), 1) : len);
	n = x_axis(m, used);
	for (k = zero, d = rank - 1; d-- > 0;) {
		axes[d] = x_axis(m, x_select(m, on[d], out, dim_of(x, d)));
		idx[d] = x_select(m, on[d], n, axes[d]);
		k = x_select(m, on[d], axes[d], k);
	}
	axes[rank - 1] = x_axis(m, x_idx(m, half && inverse ? 1 : 2));
	table = turn(m, len);
	im = imaginary(m, x, idx, complex);
	e = turned(m, table, len, x_mul(m, k, n), f64_read(m, x, idx, 0), im, axes[rank - 1], inverse);
	/* the half that is not given mirrors the one that is */
	if (half && inverse)
		e = x_select(m, x_or(m, x_eq(m, n, zero), x_eq(m, x_muli(m, n, 2), len)), e,
			x_add(m, e, e));
	e = x_reduce(m, COMB_SUM, 1, &n, e);
	if (inverse)
		e = x2(m, O_DIV, e, x_cast(m, DT_F64, len));
	return t_tensor(m, rank, axes, x_cast(m, dtype_of(x), e));
}

static Node *
build_stft(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *win = b->in[2], *step, *len, *frames, *axes[4], *idx[3], *n, *out, *w, *re,
		*im, *e;
	Node *complex;

	if (rank_of(x) != 3 || (win && rank_of(win) != 1))
		return fail(b, "the signal has %d dimensions, must have 3; the window must have 1",
			rank_of(x));
	if (!(complex = is_complex(b, x)))
		return NULL;
	step = x_cast(m, DT_INDEX, scalar_arg(m, b->in[1]));
	len = b->in[3] ? extent(m, x_cast(m, DT_INDEX, scalar_arg(m, b->in[3]))) : win ? dim_of(win, 0)
		: dim_of(x, 1);
	require(m, x_and(m, x_lt(m, x_idx(m, 0), step), x_lt(m, x_idx(m, 0), len)), b->loc,
		"frame_step and frame_length must be positive");
	if (win)
		require(m, x_eq(m, dim_of(win, 0), len), b->loc, "the window has %s elements, a frame %s",
			expr_print(m, dim_of(win, 0)), expr_print(m, len));
	require(m, x_le(m, len, dim_of(x, 1)), b->loc, "a frame has %s elements, the signal %s",
		expr_print(m, len),
		expr_print(m, dim_of(x, 1)));
	frames = x_addi(m, x_fdiv(m, x_sub(m, dim_of(x, 1), len), step), 1);
	out = attr_int(b, "onesided") ? x_addi(m, x_fdiv(m, len, x_idx(m, 2)), 1) : len;
	axes[0] = idx[0] = x_axis(m, dim_of(x, 0));
	axes[1] = x_axis(m, extent(m, frames));
	axes[2] = x_axis(m, out);
	axes[3] = x_axis(m, x_idx(m, 2));
	n = x_axis(m, len);
	idx[1] = x_add(m, x_mul(m, axes[1], step), n);
	w = win ? x_cast(m, DT_F64, x_read(m, win, &n)) : NULL;
	re = f64_read(m, x, idx, 0);
	im = imaginary(m, x, idx, complex);
	re = w ? x_mul(m, re, w) : re;
	im = w && im ? x_mul(m, im, w) : im;
	e = turned(m, turn(m, len), len, x_mul(m, axes[2], n), re, im, axes[3], false);
	return t_tensor(m, 4, axes, x_cast(m, dtype_of(x), x_reduce(m, COMB_SUM, 1, &n, e)));
}

/* [bins + 2]: the spectrogram bins at which the triangles begin, peak and end. */
static Node *
mel_points(Build *b, Node *bins, Node *dft)
{
	Module *m = b->m;
	DType c = DT_F64;
	Node *lo, *hi, *i, *n = x_addi(m, bins, 2), *step, *e, *k = x_flt(m, c, 700);

	lo = x1(m, O_LOG1P, x2(m, O_DIV, x_cast(m, c, scalar_arg(m, b->in[3])), k));
	hi = x1(m, O_LOG1P, x2(m, O_DIV, x_cast(m, c, scalar_arg(m, b->in[4])), k));
	i = x_axis(m, n);
	step = x2(m, O_DIV, x_sub(m, hi, lo), x_cast(m, c, n));          /* mel / 2595 * ln 10 */
	e = x_add(m, x_mul(m, x_cast(m, c, i), step), lo);
	e = x_mul(m, k, x1(m, O_EXPM1, e));
	e = x_mul(m, x_cast(m, c, x_addi(m, dft, 1)), e);
	e = x1(m, O_FLOOR, x2(m, O_DIV, e, x_cast(m, c, scalar_arg(m, b->in[2]))));
	return t_tensor(m, 1, &i, x_cast(m, DT_I64, e));
}

static Node *
build_mel(Build *b)
{
	Module *m = b->m;
	Node *bins = extent(m, x_cast(m, DT_INDEX, scalar_arg(m, b->in[0]))), *dft, *axes[2], *at, *p,
		*lo, *mid, *hi, *j;
	DType d = dtype_of_onnx((int)attr_int(b, "output_datatype"));
	Node *up, *down, *rise, *fall, *e;

	if (d == DT_NONE || dtypes[d].bits == 0 || dtypes[d].cls == 'C')
		return fail(b, "output_datatype %lld is no type of numbers",
			(long long)attr_int(b, "output_datatype"));
	dft = extent(m, x_cast(m, DT_INDEX, scalar_arg(m, b->in[1])));
	p = mel_points(b, bins, dft);
	axes[0] = x_axis(m, x_addi(m, x_fdiv(m, dft, x_idx(m, 2)), 1));
	axes[1] = at = x_axis(m, bins);
	lo = x_cast(m, DT_INDEX, x_read(m, p, &at));
	at = x_addi(m, axes[1], 1);
	mid = x_cast(m, DT_INDEX, x_read(m, p, &at));
	at = x_addi(m, axes[1], 2);
	hi = x_cast(m, DT_INDEX, x_read(m, p, &at));
	j = axes[0];
	rise = x_sub(m, mid, lo);
	fall = x_sub(m, hi, mid);
	up = x2(m, O_DIV, x_cast(m, DT_F64, x_sub(m, j, lo)), x_cast(m, DT_F64, rise));
	up = x_select(m, x_eq(m, rise, x_idx(m, 0)), x_flt(m, DT_F64, 1), up);
	down = x2(m, O_DIV, x_cast(m, DT_F64, x_sub(m, hi, j)), x_cast(m, DT_F64, fall));
	e = x_select(m, x_and(m, x_le(m, lo, j), x_le(m, j, mid)), up, x_flt(m, DT_F64, 0));
	e = x_select(m, x_and(m, x_le(m, mid, j), x_lt(m, j, hi)), down, e);
	return t_tensor(m, 2, axes, x_cast(m, d, e));
}

const Op ops_signal[] = {
	BUILD("dft", "DFT", 20, "(x: float, length: idx?, axis: i64?) {inverse: int = 0,"
		" onesided: int = 0} -> y", build_dft,
		"discrete Fourier transform"),
	BUILD("stft", "STFT", 17,
	"(x: float, step: idx, window: x?, length: step?) {onesided: int = 1} -> y", build_stft,
		"Fourier transforms of windows of a signal"),
	BUILD("mel_weight_matrix", "MelWeightMatrix", 17,
	"(bins: idx, length: bins, rate: bins, low: float, high: low)"
		" {output_datatype: int = 1} -> y", build_mel,
		"triangles that weight a spectrum by mel bands"),
	{0}
};
