/*
 * Sampling between elements: Resize, GridSample, AffineGrid, RoiAlign, window functions.
 *
 * Resize's coordinates are exact: a scale is a ratio of integers (that of the sizes, or what the
 * bits of a constant float say), so that places and weights come from integer division and no tie
 * is missed. Only scales known at run time compute in double.
 */
#include <math.h>
#include <string.h>
#include "ops.h"

/* ---- resize: one axis ------------------------------------------------------------------------ */

typedef enum Coord { HALF_PIXEL, HALF_PIXEL_SYMMETRIC, PYTORCH_HALF_PIXEL, ALIGN_CORNERS,
	ASYMMETRIC, TF_CROP } Coord;
static const char *const coords[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
	"align_corners", "asymmetric", "tf_crop_and_resize", NULL};
typedef enum Near { ROUND_FLOOR, ROUND_CEIL, FLOOR, CEIL } Near;
static const char *const nears[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil",
	NULL};
typedef enum Mode { NEAREST, LINEAR, CUBIC } Mode;
static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
typedef enum Policy { STRETCH, NOT_LARGER, NOT_SMALLER } Policy;
static const char *const policies[] = {"stretch", "not_larger", "not_smaller", NULL};

/* An axis to be resized: scale p/q, or s (f64) where that is known only at run time (then p is
 * NULL). */
typedef struct Axis { int d; Node *in, *out, *p, *q, *s, *start, *end; } Axis;
/* A coordinate in the operand: num/den, or x (f64) where num is NULL. */
typedef struct Place { Node *num, *den, *x, *outside; } Place;

typedef struct Resize {
	Build *b;
	Coord coord;
	Near near;
	Mode mode;
	bool exclude, antialias;
	double a;
	DType acc;             /* weights and sums */
	int n;
	Axis axis[MAX_RANK];
} Resize;

static int
choice(Build *b, const char *attr, const char *const *names)
{
	const char *s = attr_str(b, attr);
	int i;

	for (i = 0; names[i]; i++)
		if (strcmp(names[i], s) == 0)
			return i;
	fail(b, "%s is \"%s\"", attr, s);
	return -1;
}

static Node *f64(Module *m, Node *i) { return x_cast(m, DT_F64, i); }
static Node *d64(Module *m, double v) { return x_flt(m, DT_F64, v); }

static int64_t
gcd(int64_t a, int64_t b)
{
	int64_t r;

	for (b = b < 0 ? -b : b; b; a = b, b = r)
		r = a % b;
	return a;
}

/* num = a*o + c and den, where a, c and den > 0 are constants. */
static bool
constant_ratio(Module *m, Node *num, Node *den, Node *o, int64_t *a, int64_t *c, int64_t *d)
{
	Node *an, *cn;

	return linear_in(m, num, o, &an, &cn) && is_int(an, a) && is_int(cn, c)
		&& is_int(den, d) && *d > 0;
}

/* num/den without common factors, where they are constants. */
static Place
ratio(Module *m, Node *num, Node *den, Node *o)
{
	int64_t a, c, d, g;

	if (constant_ratio(m, num, den, o, &a, &c, &d)) {
		g = gcd(gcd(d, a), c);
		num = x_add(m, x_muli(m, o, a / g), x_idx(m, c / g));
		den = x_idx(m, d / g);
	}
	return (Place){.num = num, .den = den};
}

/* floor(num / den); a common factor of o's coefficient and den goes. */
static Node *
floor_ratio(Module *m, Node *num, Node *den, Node *o)
{
	int64_t a, c, d, g;

	if (constant_ratio(m, num, den, o, &a, &c, &d)) {
		g = gcd(d, a);
		c = c >= 0 ? c / g : -((-c + g - 1) / g);
		num = x_addi(m, x_muli(m, o, a / g), c);
		den = x_idx(m, d / g);
	}
	return x_fdiv(m, num, den);
}

/* The exact coordinate of output element o. */
static Place
exact_place(Module *m, Coord coord, const Axis *x, Node *o)
{
	Node *p = x->p, *q = x->q, *last = x_addi(m, x->in, -1),
		*odd = x_addi(m, x_muli(m, o, 2), 1), *num, *d, *zero;
	Node *one = x_idx(m, 1);
	Place r;

	zero = x_idx(m, 0);
	switch (coord) {
	case ASYMMETRIC:
		return ratio(m, x_mul(m, o, q), p, o);
	case ALIGN_CORNERS:                          /* o (in - 1) / (in p/q - 1) */
		d = x_sub(m, x_mul(m, x->in, p), q);
		r = ratio(m, x_mul(m, o, x_mul(m, last, q)), d, o);
		num = x_select(m, x_eq(m, d, zero), zero, r.num);
		return (Place){.num = num, .den = x_select(m, x_eq(m, d, zero), one, r.den)};
	case HALF_PIXEL_SYMMETRIC:
		num = x_sub(m, x_sub(m, x_add(m, x_mul(m, odd, q), x_mul(m, x->in, p)), p),
			x_mul(m, x->out, q));
		return ratio(m, num, x_muli(m, p, 2), o);
	default:
		r = ratio(m, x_sub(m, x_mul(m, odd, q), p), x_muli(m, p, 2), o);
		if (coord == PYTORCH_HALF_PIXEL)
			r.num = x_select(m, x_lt(m, one, x->out), r.num, zero);
		return r;
	}
}

static Place
float_place(Module *m, Coord coord, const Axis *x, Node *oi)
{
	Node *o = f64(m, oi), *in = f64(m, x->in), *out = f64(m, x->out), *half = d64(m, 0.5),
		*one = d64(m, 1);
	Node *last = x_sub(m, in, one), *s = x->s ? x->s : x2(m, O_DIV, f64(m, x->p), f64(m, x->q)),
		*v, *w, *wide;

	w = x_mul(m, s, in);
	wide = x_ne(m, w, one);
	v = x_sub(m, x2(m, O_DIV, x_add(m, o, half), s), half);
	switch (coord) {
	case ASYMMETRIC:
		return (Place){.x = x2(m, O_DIV, o, s)};
	case ALIGN_CORNERS:
		return (Place){.x = x_select(m, wide,
			x2(m, O_DIV, x_mul(m, o, last), x_sub(m, w, one)), d64(m, 0))};
	case HALF_PIXEL_SYMMETRIC:
		return (Place){.x = x_add(m,
			x_mul(m, x_mul(m, in, half), x_sub(m, one, x2(m, O_DIV, out, w))), v)};
	case PYTORCH_HALF_PIXEL:
		return (Place){.x = x_select(m, x_lt(m, x_idx(m, 1), x->out), v, d64(m, 0))};
	case TF_CROP: {
		Node *start = f64(m, x->start), *end = f64(m, x->end),
			*size = x_mul(m, x_sub(m, end, start), last);
		v = x_select(m, wide, x2(m, O_DIV, x_mul(m, o, size), x_sub(m, w, one)),
			x_mul(m, size, half));
		v = x_add(m, v, x_mul(m, start, last));
		return (Place){.x = v, .outside = x_or(m, x_lt(m, v, d64(m, 0)), x_lt(m, last, v))};
	}
	default:
		return (Place){.x = v};
	}
}

static Place
place_of(Resize *r, const Axis *x, Node *o)
{
	Module *m = r->b->m;

	return x->p && r->coord != TF_CROP ? exact_place(m, r->coord, x, o)
		: float_place(m, r->coord, x, o);
}

static Node *
clamp_index(Module *m, Node *i, Node *dim)
{
	return x_min(m, x_max(m, i, x_idx(m, 0)), x_addi(m, dim, -1));
}

static Node *
place_floor(Module *m, const Place *c, Node *o)
{
	return c->num ? floor_ratio(m, c->num, c->den, o)
		: x_cast(m, DT_INDEX, x1(m, O_FLOOR, c->x));
}

/* What is above the floor, in [0, 1). */
static Node *
place_ratio(Module *m, const Place *c, DType acc)
{
	if (c->num)
		return x2(m, O_DIV, x_cast(m, acc, x_mod(m, c->num, c->den)),
			x_cast(m, acc, c->den));
	return x_cast(m, acc, x_sub(m, c->x, x1(m, O_FLOOR, c->x)));
}

static Node *
nearest_index(Resize *r, const Axis *x, Node *o, Node **outside)
{
	Module *m = r->b->m;
	Place c = place_of(r, x, o);
	Node *n, *two = x_muli(m, c.den ? c.den : x_idx(m, 1), 2), *half = d64(m, 0.5), *i;

	*outside = c.outside;
	if (c.num) {
		n = x_muli(m, c.num, 2);
		switch (r->near) {
		case ROUND_FLOOR: i = floor_ratio(m, x_addi(m, x_add(m, n, c.den), -1), two, o);
			break;
		case ROUND_CEIL:  i = floor_ratio(m, x_add(m, n, c.den), two, o); break;
		case FLOOR:       i = floor_ratio(m, c.num, c.den, o); break;
		default:          i = floor_ratio(m, x_addi(m, x_add(m, c.num, c.den), -1), c.den,
			o); break;
		}
	} else {
		switch (r->near) {
		case ROUND_FLOOR: n = x1(m, O_CEIL, x_sub(m, c.x, half)); break;
		case ROUND_CEIL:  n = x1(m, O_FLOOR, x_add(m, c.x, half)); break;
		case FLOOR:       n = x1(m, O_FLOOR, c.x); break;
		default:          n = x1(m, O_CEIL, c.x); break;
		}
		i = x_cast(m, DT_INDEX, n);
	}
	return clamp_index(m, i, x->in);
}

/* ---- resize: weights ------------------------------------------------------------------------- */

/* Keys' cubic filter at distance x >= 0: within 1, or within 2. */
static Node *
cubic(Module *m, double a, Node *x, bool inner)
{
	DType d = x->type->dtype;
	Node *v;

	if (inner) {            /* ((a+2)x - (a+3))x^2 + 1 */
		v = x_sub(m, x_mul(m, x_flt(m, d, a + 2), x), x_flt(m, d, a + 3));
		return x_add(m, x_mul(m, x_mul(m, v, x), x), x_flt(m, d, 1));
	}
	v = x_sub(m, x_mul(m, x_flt(m, d, a), x), x_flt(m, d, 5 * a));
	v = x_add(m, x_mul(m, v, x), x_flt(m, d, 8 * a));
	return x_sub(m, x_mul(m, v, x), x_flt(m, d, 4 * a));
}

typedef struct Tap { Node *i, *w; } Tap;

/* The elements that output element o mixes along an axis, and their weights. */
static int
taps_of(Resize *r, const Axis *x, Node *o, Tap *tap, Node **outside)
{
	Module *m = r->b->m;
	Place c = place_of(r, x, o);
	Node *first = place_floor(m, &c, o), *t = place_ratio(m, &c, r->acc),
		*one = x_int(m, r->acc, 1), *sum = NULL;
	Node *zero = x_int(m, r->acc, 0);
	int n = r->mode == CUBIC ? 4 : 2, i;

	*outside = c.outside;
	if (r->mode == CUBIC) {
		first = x_addi(m, first, -1);
		tap[0].w = cubic(m, r->a, x_add(m, t, one), false);
		tap[1].w = cubic(m, r->a, t, true);
		tap[2].w = cubic(m, r->a, x_sub(m, one, t), true);
		tap[3].w = cubic(m, r->a, x_sub(m, x_int(m, r->acc, 2), t), false);
	} else {
		tap[0].w = x_sub(m, one, t);
		tap[1].w = t;
	}
	for (i = 0; i < n; i++) {
		Node *at = x_addi(m, first, i);
		if (r->exclude) {
			Node *in = x_and(m, x_le(m, x_idx(m, 0), at), x_lt(m, at, x->in));
			tap[i].w = x_select(m, in, tap[i].w, zero);
			sum = sum ? x_add(m, sum, tap[i].w) : tap[i].w;
		}
		tap[i].i = clamp_index(m, at, x->in);
	}
	for (i = 0; r->exclude && i < n; i++)
		tap[i].w = x2(m, O_DIV, tap[i].w, sum);
	return n;
}

/* Sum over the axes from k on of weights times x at idx. */
static Node *
mix(Resize *r, Node *x, int k, Tap (*taps)[4], const int *ntaps, Node **idx)
{
	Module *m = r->b->m;
	Node *sum = NULL, *v;
	int i;

	if (k == r->n)
		return x_cast(m, r->acc, x_read(m, x, idx));
	for (i = 0; i < ntaps[k]; i++) {
		idx[r->axis[k].d] = taps[k][i].i;
		v = x_mul(m, taps[k][i].w, mix(r, x, k + 1, taps, ntaps, idx));
		sum = sum ? x_add(m, sum, v) : v;
	}
	return sum;
}

/* A tensor with the axes of r resized at once; outside of the region: *outside. */
static Node *
resize_together(Resize *r, Node *x)
{
	Module *m = r->b->m;
	Node *axes[MAX_RANK], *idx[MAX_RANK], *out = NULL, *o, *v;
	Tap taps[MAX_RANK][4];
	int rank = rank_of(x), ntaps[MAX_RANK], i;

	axes_new(m, rank, x->type->dims, axes);
	for (i = 0; i < r->n; i++)
		axes[r->axis[i].d] = x_axis(m, r->axis[i].out);
	memcpy(idx, axes, sizeof *idx * (size_t)rank);
	for (i = 0; i < r->n; i++) {
		const Axis *a = &r->axis[i];
		if (r->mode == NEAREST)
			idx[a->d] = nearest_index(r, a, axes[a->d], &o);
		else
			ntaps[i] = taps_of(r, a, axes[a->d], taps[i], &o);
		out = !o ? out : out ? x_or(m, out, o) : o;
	}
	v = r->mode == NEAREST ? x_read(m, x, idx) : mix(r, x, 0, taps, ntaps, idx);
	if (out)
		v = x_select(m, out,
			x_flt(m, v->type->dtype, attr_float(r->b, "extrapolation_value")), v);
	return t_tensor(m, rank, axes, v);
}

/* The filter stretched by 1/s: its value at a signed distance already scaled. */
static Node *
filter(Resize *r, Node *x)
{
	Module *m = r->b->m;
	Node *one = d64(m, 1), *zero = d64(m, 0);

	x = x1(m, O_ABS, x);
	if (r->mode == LINEAR)
		return x_max(m, x_sub(m, one, x), zero);
	return x_select(m, x_le(m, x, one), cubic(m, r->a, x, true),
		x_select(m, x_lt(m, x, d64(m, 2)), cubic(m, r->a, x, false), zero));
}

/* With antialiasing: weights [out, taps] first, then a sum over the taps. */
static Node *
resize_antialiased(Resize *r, const Axis *x, Node *t)
{
	Module *m = r->b->m;
	Node *o = x_axis(m, x->out), *k, *first, *frac, *s, *start, *w, *wsum, *axes[MAX_RANK],
		*idx[MAX_RANK], *v, *n, *at;
	int sup = r->mode == LINEAR ? 1 : 2, rank = rank_of(t);
	Place c = place_of(r, x, o);

	s = x_min(m, x->p ? x2(m, O_DIV, f64(m, x->p), f64(m, x->q)) : x->s, d64(m, 1));
	if (x->p)
		start = x_min(m, x_fdiv(m, x_muli(m, x->q, -sup), x->p), x_idx(m, -sup));
	else
		start = computed_index(m,
			x_cast(m, DT_I64, x1(m, O_FLOOR, x2(m, O_DIV, d64(m, -sup), s))));
	start = x_addi(m, start, 1);
	n = x_sub(m, x_idx(m, 2), x_muli(m, start, 2));
	k = x_axis(m, n);
	first = x_add(m, place_floor(m, &c, o), start);
	frac = place_ratio(m, &c, DT_F64);
	w = filter(r, x_mul(m, x_sub(m, f64(m, x_add(m, k, start)), frac), s));
	at = x_add(m, first, k);
	if (r->exclude)
		w = x_select(m, x_and(m, x_le(m, x_idx(m, 0), at), x_lt(m, at, x->in)), w,
			d64(m, 0));
	w = t_tensor(m, 2, (Node *[]){o, k}, w);
	o = x_axis(m, x->out);
	k = x_axis(m, n);
	wsum = t_tensor(m, 1, &o, x_reduce(m, COMB_SUM, 1, &k, x_read(m, w, (Node *[]){o, k})));

	axes_new(m, rank, t->type->dims, axes);
	o = axes[x->d] = x_axis(m, x->out);
	k = x_axis(m, n);
	c = place_of(r, x, o);
	memcpy(idx, axes, sizeof *idx * (size_t)rank);
	idx[x->d] = clamp_index(m, x_add(m, x_add(m, place_floor(m, &c, o), start), k), x->in);
	v = x_cast(m, r->acc, x2(m, O_DIV, x_read(m, w, (Node *[]){o, k}), x_read(m, wsum, &o)));
	v = x_reduce(m, COMB_SUM, 1, &k, x_mul(m, v, x_cast(m, r->acc, x_read(m, t, idx))));
	if (c.outside)
		v = x_select(m, c.outside,
			x_flt(m, r->acc, attr_float(r->b, "extrapolation_value")), v);
	return t_tensor(m, rank, axes, v);
}

/* ---- resize: sizes --------------------------------------------------------------------------- */

/* A positive float as a ratio of integers; false if they would be too large to multiply with. */
static bool
float_ratio(double s, int64_t *p, int64_t *q)
{
	int e;
	double f;

	if (!(s > 0) || s > 1 << 24)
		return false;
	f = frexp(s, &e);
	*p = (int64_t)ldexp(f, 24);
	e -= 24;
	while (*p % 2 == 0)
		*p /= 2, e++;
	if (e < -28)
		return false;
	*q = e < 0 ? (int64_t)1 << -e : 1;
	*p <<= e > 0 ? e : 0;
	return true;
}

static void
scale_from_float(Module *m, Axis *x, Node *s)
{
	int64_t p, q;

	if (s->code == O_NUM && float_ratio(s->num.f, &p, &q)) {
		x->p = x_idx(m, p);
		x->q = x_idx(m, q);
		x->out = x_fdiv(m, x_muli(m, x->in, p), x->q);
		return;
	}
	x->s = f64(m, s);
	x->out = computed_index(m,
		x_cast(m, DT_I64, x1(m, O_FLOOR, x_mul(m, f64(m, x->in), x->s))));
	x->out = extent(m, x->out);
}

/* Sizes that keep the ratio of the sides: the smallest or largest scale for all axes, sizes rounded
 * half up. */
static void
keep_ratio(Module *m, Resize *r, Policy policy)
{
	Node *p = r->axis[0].out, *q = r->axis[0].in, *better, *a, *b;
	int i;

	for (i = 1; i < r->n; i++) {
		a = x_mul(m, r->axis[i].out, q);
		b = x_mul(m, p, r->axis[i].in);
		better = policy == NOT_LARGER ? x_lt(m, a, b) : x_lt(m, b, a);
		p = x_select(m, better, r->axis[i].out, p);
		q = x_select(m, better, r->axis[i].in, q);
	}
	for (i = 0; i < r->n; i++) {
		Axis *x = &r->axis[i];
		x->p = p;
		x->q = q;
		x->out = x_fdiv(m, x_add(m, x_muli(m, x_mul(m, p, x->in), 2), q), x_muli(m, q, 2));
	}
}

static bool
axes_list(Build *b, int rank, int *n, int64_t *axes)
{
	const int64_t *v;
	int i;

	if (!attr_ints(b, "axes", n, &v)) {
		*n = rank;
		for (i = 0; i < rank; i++)
			axes[i] = i;
		return true;
	}
	for (i = 0; i < *n; i++) {
		if (*n > rank || v[i] < -rank || v[i] >= rank) {
			fail(b, "axes do not fit an operand of %d dimensions", rank);
			return false;
		}
		axes[i] = v[i] < 0 ? v[i] + rank : v[i];
	}
	return true;
}

/* The length of a list operand that may be empty, in which case it counts as absent; one that only
 * a run knows must be `want`. */
static bool
list_length(Build *b, Node *t, const char *what, int want, int *n)
{
	int64_t k = want;

	*n = 0;
	if (!t)
		return true;
	if (rank_of(t) != 1)
		return fail(b, "%s has %d dimensions, must have 1", what, rank_of(t)) != NULL;
	if (!is_int(dim_of(t, 0), &k))
		require(b->m, x_eq(b->m, dim_of(t, 0), x_idx(b->m, want)), b->loc,
			"%s has %s entries, must have %d", what,
			expr_print(b->m, dim_of(t, 0)), want);
	*n = (int)(k > 2 * MAX_RANK ? 2 * MAX_RANK + 1 : k);
	return true;
}

static Node *
list_entry(Module *m, Node *t, int k)
{
	Node *i = x_idx(m, k);

	return x_read(m, t, &i);
}

static bool
resize_axes(Build *b, Resize *r)
{
	Module *m = b->m;
	Node *x = b->in[0];
	int64_t axes[MAX_RANK];
	int rank = rank_of(x), n, nroi, nscales, nsizes, i;
	Policy policy = (Policy)choice(b, "keep_aspect_ratio_policy", policies);

	if ((int)policy < 0 || !axes_list(b, rank, &n, axes)
		|| !list_length(b, b->in[1], "roi", r->coord == TF_CROP ? 2 * n : 0, &nroi)
		|| !list_length(b, b->in[2], "scales", n, &nscales)
		|| !list_length(b, b->in[3], "sizes", n, &nsizes))
		return false;
	if ((nscales > 0) == (nsizes > 0) || (nscales + nsizes != n)) {
		fail(b, "%d scales and %d sizes for %d axes: exactly one list must be given",
			nscales, nsizes, n);
		return false;
	}
	if (r->coord == TF_CROP && nroi != 2 * n) {
		fail(b, "roi has %d entries, must have %d", nroi, 2 * n);
		return false;
	}
	for (r->n = i = 0; i < n; i++) {
		Axis *a = &r->axis[r->n++];
		*a = (Axis){.d = (int)axes[i], .in = dim_of(x, (int)axes[i])};
		if (nscales)
			scale_from_float(m, a, list_entry(m, b->in[2], i));
		else {
			a->out = extent(m, x_cast(m, DT_INDEX, list_entry(m, b->in[3], i)));
			a->p = a->out;
			a->q = a->in;
		}
		if (r->coord == TF_CROP) {
			a->start = list_entry(m, b->in[1], i);
			a->end = list_entry(m, b->in[1], n + i);
		}
	}
	if (nsizes && policy != STRETCH)
		keep_ratio(m, r, policy);
	return true;
}

/* Axes that keep their size and all their elements need nothing. */
static void
drop_idle(Resize *r)
{
	int i, n = 0;

	for (i = 0; i < r->n; i++)
		if (r->coord == TF_CROP || r->axis[i].out != r->axis[i].in || !r->axis[i].p
		 || !prove_eq(r->b->m, r->axis[i].p, r->axis[i].q))
			r->axis[n++] = r->axis[i];
	r->n = n;
}

static Node *
resize_all(Resize *r, Node *x)
{
	Resize one = *r;
	double reads = 1;
	int i;

	for (i = 0; i < r->n; i++)
		reads *= r->mode == CUBIC ? 4 : 2;
	if (r->mode == NEAREST || (!r->antialias && reads <= 16))
		return resize_together(r, x);
	for (i = 0; i < r->n; i++) {
		one.n = 1;
		one.axis[0] = r->axis[i];
		x = r->antialias ? resize_antialiased(r, &r->axis[i], x) : resize_together(&one, x);
	}
	return x;
}

static Node *
cast_to_type(Module *m, Node *x, DType d)
{
	Node *axes[MAX_RANK], *v;

	if (dtype_of(x) == d)
		return x;
	axes_new(m, rank_of(x), x->type->dims, axes);
	v = x_read(m, x, axes);
	if (dt_int(d))
		v = x1(m, O_RINT, v);
	return t_tensor(m, rank_of(x), axes, x_cast(m, d, v));
}

static Node *
build_resize(Build *b)
{
	Resize r = {.b = b, .exclude = attr_int(b, "exclude_outside") != 0,
		.antialias = attr_int(b, "antialias") != 0, .a = attr_float(b, "cubic_coeff_a")};
	DType d = dtype_of(b->in[0]);
	int mode = choice(b, "mode", modes),
		coord = choice(b, "coordinate_transformation_mode", coords);
	int near = choice(b, "nearest_mode", nears);

	if (mode < 0 || coord < 0 || near < 0)
		return NULL;
	r.mode = (Mode)mode;
	r.coord = (Coord)coord;
	r.near = (Near)near;
	r.acc = d == DT_F64 || (dt_int(d) && dtypes[d].bits > 16) ? DT_F64 : DT_F32;
	if (r.mode != NEAREST && !dt_float(d) && !dt_int(d))
		return unsupported(b, "elements of type %s cannot be interpolated", dtypes[d].text);
	if (r.mode == NEAREST)
		r.antialias = false;
	if (!resize_axes(b, &r))
		return NULL;
	drop_idle(&r);
	if (r.n == 0)
		return b->in[0];
	return cast_to_type(b->m, resize_all(&r, b->in[0]), d);
}

/* ---- grids ----------------------------------------------------------------------------------- */

typedef enum Padding { ZEROS, BORDER, REFLECTION } Padding;
static const char *const paddings[] = {"zeros", "border", "reflection", NULL};

typedef struct Sample {
	Module *m;
	Mode mode;
	Padding padding;
	bool corners;
	DType f;               /* of coordinates and weights */
	Node *x;
} Sample;

/* v reflected into [lo, hi] as often as it takes. */
static Node *
reflect(Sample *s, Node *v, Node *lo, Node *hi)
{
	Module *m = s->m;
	DType d = v->type->dtype;
	Node *range = x_sub(m, hi, lo), *zero = x_int(m, d, 0), *below = x_lt(m, v, lo), *dist, *n,
		*rest, *even, *r;

	dist = x_select(m, below, x_sub(m, lo, v), x_sub(m, v, hi));
	n = x1(m, O_TRUNC, x2(m, O_DIV, dist, range));
	rest = x_sub(m, dist, x_mul(m, n, range));
	even = x_eq(m, x2(m, O_REM, n, x_int(m, d, 2)), zero);
	r = x_select(m, x_eq(m, below, even), x_add(m, lo, rest), x_sub(m, hi, rest));
	r = x_select(m, x_lt(m, zero, range), r, lo);          /* an axis of one element */
	return x_select(m, x_or(m, below, x_lt(m, hi, v)), r, v);
}

/* What stands at integer place i (a float) along an axis: its index, and whether it counts. */
static Node *
pixel(Sample *s, Node *i, Node *dim, Node **in)
{
	Module *m = s->m;
	Node *k, *n = x_cast(m, s->f, dim), *half = x_flt(m, s->f, s->corners ? 0 : 0.5),
		*one = x_int(m, s->f, 1);

	if (s->padding == REFLECTION)
		i = reflect(s, i, x_sub(m, x_int(m, s->f, 0), half),
			x_sub(m, n, s->corners ? one : half));
	k = x_cast(m, DT_INDEX, i);
	*in = s->padding == ZEROS ? x_and(m, x_le(m, x_idx(m, 0), k), x_lt(m, k, dim))
		: x_bool(m, true);
	return clamp_index(m, k, dim);
}

/* The sum over spatial axis k and those behind it. */
static Node *
sample(Sample *s, int k, Node *const *at, Node **idx, Node *in)
{
	Module *m = s->m;
	Node *dim, *first, *t, *w[4], *one = x_int(m, s->f, 1), *sum = NULL, *v, *inside;
	int n = s->mode == CUBIC ? 4 : s->mode == LINEAR ? 2 : 1, i;

	if (k == rank_of(s->x) - 2) {
		v = x_read(m, s->x, idx);
		if (s->mode != NEAREST)
			v = x_cast(m, s->f, v);
		return x_select(m, in, v, x_int(m, v->type->dtype, 0));
	}
	dim = dim_of(s->x, k + 2);
	first = s->mode == NEAREST ? at[k] : x1(m, O_FLOOR, at[k]);
	t = x_sub(m, at[k], first);
	if (s->mode == CUBIC) {
		first = x_sub(m, first, one);
		w[0] = cubic(m, -0.75, x_add(m, t, one), false);
		w[1] = cubic(m, -0.75, t, true);
		w[2] = cubic(m, -0.75, x_sub(m, one, t), true);
		w[3] = cubic(m, -0.75, x_sub(m, x_int(m, s->f, 2), t), false);
	} else {
		w[0] = x_sub(m, one, t);
		w[1] = t;
	}
	for (i = 0; i < n; i++) {
		idx[k + 2] = pixel(s, i ? x_add(m, first, x_int(m, s->f, i)) : first, dim, &inside);
		v = sample(s, k + 1, at, idx, x_and(m, in, inside));
		if (s->mode == NEAREST)
			return v;
		v = x_mul(m, w[i], v);
		sum = sum ? x_add(m, sum, v) : v;
	}
	return sum;
}

/* A normalised coordinate in elements, before or after it is kept within the borders. */
static Node *
grid_place(Sample *s, Node *v, Node *dim)
{
	Module *m = s->m;
	Node *n = x_cast(m, s->f, dim), *one = x_int(m, s->f, 1), *two = x_int(m, s->f, 2),
		*zero = x_int(m, s->f, 0);
	Node *half = x_flt(m, s->f, s->corners ? 0 : 0.5), *lo = x_sub(m, zero, half), *hi;

	hi = x_sub(m, n, s->corners ? one : half);
	v = x_add(m, x_cast(m, s->f, v), one);
	v = s->corners ? x_mul(m, x2(m, O_DIV, v, two), x_sub(m, n, one))
		: x2(m, O_DIV, x_sub(m, x_mul(m, v, n), one), two);
	if (s->mode == NEAREST)
		v = x1(m, O_RINT, v);
	if (s->padding == BORDER)
		v = x_min(m, x_max(m, v, zero), x_sub(m, n, one));
	return s->padding == REFLECTION ? reflect(s, v, lo, hi) : v;
}

static Node *
build_grid_sample(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *grid = b->in[1], *axes[MAX_RANK], *idx[MAX_RANK], *at[MAX_RANK],
		*in[MAX_RANK], *v;
	int rank = rank_of(x), n = rank - 2, i, mode = choice(b, "mode", modes);
	int padding = choice(b, "padding_mode", paddings);
	DType d = dtype_of(x);
	Sample s = {m, (Mode)mode, (Padding)padding, attr_int(b, "align_corners") != 0,
		d == DT_F64 || dtype_of(grid) == DT_F64 ? DT_F64 : DT_F32, x};

	if (mode < 0 || padding < 0)
		return NULL;
	if (n < 1 || rank_of(grid) != rank)
		return fail(b, "a grid of %d dimensions does not fit an operand of %d",
			rank_of(grid), rank);
	require(m, x_eq(m, dim_of(grid, rank - 1), x_idx(m, n)), b->loc,
		"a place in the grid has %s numbers, must have %d",
		expr_print(m, dim_of(grid, rank - 1)), n);
	if (s.mode != NEAREST && !dt_float(d) && !dt_int(d))
		return unsupported(b, "elements of type %s cannot be interpolated", dtypes[d].text);
	require(m, x_eq(m, dim_of(x, 0), dim_of(grid, 0)), b->loc, "the batch is %s and %s",
		expr_print(m, dim_of(x, 0)), expr_print(m, dim_of(grid, 0)));
	for (i = 0; i < rank; i++)
		axes[i] = x_axis(m, i < 2 ? dim_of(x, i) : dim_of(grid, i - 1));
	in[0] = idx[0] = axes[0];
	idx[1] = axes[1];
	for (i = 0; i < n; i++)
		in[i + 1] = axes[i + 2];
	for (i = 0; i < n; i++) {
		/* a grid's last dimension goes from the innermost axis out */
		in[rank - 1] = x_idx(m, n - 1 - i);
		at[i] = grid_place(&s, x_read(m, grid, in), dim_of(x, i + 2));
	}
	v = sample(&s, 0, at, idx, x_bool(m, true));
	if (dt_int(d) && s.mode != NEAREST)
		v = x1(m, O_TRUNC, v);
	return t_tensor(m, rank, axes, x_cast(m, d, v));
}

/* Where element `axis` of its axis lies in [-1, 1]. Half types round as the function's body
 * does. */
static Node *
axis_place(Module *m, Node *axis, DType d, bool corners)
{
	Node *o = x_cast(m, d, axis), *dim = x_cast(m, d, axis->in[0]), *two = x_int(m, d, 2);
	Node *one = x_int(m, d, 1), *minus = x_int(m, d, -1), *step, *pos;

	dim = corners ? x_sub(m, dim, one) : dim;
	step = x2(m, O_DIV, two, dim);
	if (dt_small(d) && corners)
		pos = x_add(m, minus, x_mul(m, o, step));
	else if (dt_small(d))
		pos = x_add(m, x_add(m, minus, x2(m, O_DIV, step, two)), x_mul(m, o, step));
	else {
		pos = corners ? x_mul(m, o, two) : x_add(m, x_mul(m, o, two), one);
		pos = x_sub(m, x2(m, O_DIV, pos, dim), one);
	}
	/* one element lies at the first corner */
	return corners ? x_select(m, x_lt(m, x_int(m, d, 0), dim), pos, minus) : pos;
}

static Node *
build_affine_grid(Build *b)
{
	Module *m = b->m;
	Node *theta = b->in[0], **size, *axes[MAX_RANK], *r = NULL, *idx[3], *v;
	DType d = dtype_of(theta), f = d == DT_F64 ? DT_F64 : DT_F32;
	bool corners = attr_int(b, "align_corners") != 0;
	int n, k, i;

	if (!list_arg(b, b->in[1], "size", &k, &size))
		return NULL;
	n = k - 2;
	if ((n != 2 && n != 3) || rank_of(theta) != 3)
		return fail(b, "size has %d entries, theta %d dimensions; needed are 4 or 5, and 3",
			k, rank_of(theta));
	axes[0] = x_axis(m, dim_of(theta, 0));
	for (i = 0; i < n; i++)
		axes[i + 1] = x_axis(m, extent(m, size[i + 2]));
	axes[n + 1] = x_axis(m, x_idx(m, n));
	idx[0] = axes[0];
	idx[1] = axes[n + 1];
	for (i = 0; i <= n; i++) {                           /* x, y, z, then 1 */
		idx[2] = x_idx(m, i);
		v = x_cast(m, f, x_read(m, theta, idx));
		if (i < n)
			v = x_mul(m, v, x_cast(m, f, axis_place(m, axes[n - i], d, corners)));
		r = r ? x_add(m, r, v) : v;
	}
	return t_tensor(m, n + 2, axes, x_cast(m, d, r));
}

/* ---- regions of interest --------------------------------------------------------------------- */

typedef struct Roi { Node *low, *high, *wl, *wh, *in; } Roi;

/* Bilinear taps at float place v along an axis of dim elements. */
static Roi
roi_taps(Module *m, Node *v, Node *dim)
{
	DType f = v->type->dtype;
	Node *n = x_cast(m, f, dim), *zero = x_int(m, f, 0), *one = x_int(m, f, 1),
		*last = x_addi(m, dim, -1), *end;
	Roi r;

	r.in = x_and(m, x_le(m, x_int(m, f, -1), v), x_le(m, v, n));
	v = x_max(m, v, zero);
	r.low = x_cast(m, DT_INDEX, x1(m, O_TRUNC, v));
	end = x_le(m, last, r.low);
	r.low = x_min(m, r.low, last);
	r.high = x_min(m, x_addi(m, r.low, 1), last);
	r.wh = x_select(m, end, zero, x_sub(m, v, x_cast(m, f, r.low)));
	r.wl = x_sub(m, one, r.wh);
	return r;
}

/* One spatial axis of the sampling: taps at place `red` of
 * `grid` within bin a; a roi is x1 y1 x2 y2. */
typedef struct RoiAxis { Node *grid, *red; Roi tap; } RoiAxis;

static RoiAxis
roi_axis(Build *b, DType f, int i, int64_t size, Node *roi, Node *a)
{
	Module *m = b->m;
	bool half = strcmp(attr_str(b, "coordinate_transformation_mode"), "half_pixel") == 0;
	int64_t sampling = attr_int(b, "sampling_ratio");
	Node *scale = x_flt(m, f, (float)attr_float(b, "spatial_scale")), *end[2], *len, *bin, *pos;
	RoiAxis r;

	for (int k = 0; k < 2; k++) {
		end[k] = x_read(m, b->in[1], (Node *[]){roi, x_idx(m, 2 * k + 1 - i)});
		end[k] = x_mul(m, x_cast(m, f, end[k]), scale);
		end[k] = x_sub(m, end[k], x_flt(m, f, half ? 0.5 : 0));
	}
	len = x_sub(m, end[1], end[0]);
	if (!half)
		len = x_max(m, len, x_int(m, f, 1));
	bin = x2(m, O_DIV, len, x_int(m, f, size));
	r.grid = sampling > 0 ? x_idx(m, sampling)
		: x_max(m, x_cast(m, DT_INDEX, x1(m, O_CEIL, bin)), x_idx(m, 0));
	r.red = x_axis(m, r.grid);
	pos = x_mul(m, x_add(m, x_cast(m, f, r.red), x_flt(m, f, 0.5)), bin);
	pos = x2(m, O_DIV, pos, x_cast(m, f, r.grid));
	pos = x_add(m, x_add(m, end[0], x_mul(m, x_cast(m, f, a), bin)), pos);
	r.tap = roi_taps(m, pos, dim_of(b->in[0], i + 2));
	return r;
}

/* The four weighted elements around the place, summed or the largest; 0 outside of the picture. */
static Node *
roi_sample(Build *b, DType f, Node *const *a, const Roi *y, const Roi *x, bool avg)
{
	Module *m = b->m;
	Node *idx[4], *w, *v, *sum = NULL;

	idx[0] = x2(m, O_BOUND, x_cast(m, DT_INDEX, x_read(m, b->in[2], a)), dim_of(b->in[0], 0));
	idx[1] = a[1];
	for (int k = 0; k < 4; k++) {
		idx[2] = k < 2 ? y->low : y->high;
		idx[3] = k % 2 ? x->high : x->low;
		w = x_mul(m, k < 2 ? y->wl : y->wh, k % 2 ? x->wh : x->wl);
		v = x_mul(m, w, x_cast(m, f, x_read(m, b->in[0], idx)));
		sum = !sum ? v : avg ? x_add(m, sum, v) : x_max(m, sum, v);
	}
	return x_select(m, x_and(m, y->in, x->in), sum, x_int(m, f, 0));
}

static Node *
build_roi_align(Build *b)
{
	Module *m = b->m;
	static const char *const frames[] = {"half_pixel", "output_half_pixel", NULL},
		*const kinds[] = {"avg", "max", NULL};
	Node *x = b->in[0], *rois = b->in[1], *a[4], *v, *count;
	DType d = dtype_of(x), f = d == DT_F64 ? DT_F64 : DT_F32;
	int kind = choice(b, "mode", kinds), i;
	int64_t size[2] = {attr_int(b, "output_height"), attr_int(b, "output_width")};
	RoiAxis r[2];

	if (choice(b, "coordinate_transformation_mode", frames) < 0 || kind < 0)
		return NULL;
	if (rank_of(x) != 4 || rank_of(rois) != 2 || size[0] < 1 || size[1] < 1)
		return fail(b, "the operands have %d and %d dimensions, must have 4 and 2",
			rank_of(x), rank_of(rois));
	a[0] = x_axis(m, dim_of(rois, 0));
	a[1] = x_axis(m, dim_of(x, 1));
	for (i = 0; i < 2; i++)
		a[i + 2] = x_axis(m, x_idx(m, size[i]));
	for (i = 0; i < 2; i++)
		r[i] = roi_axis(b, f, i, size[i], a[0], a[i + 2]);
	v = roi_sample(b, f, a, &r[0].tap, &r[1].tap, kind == 0);
	v = x_reduce(m, kind == 0 ? COMB_SUM : COMB_MAX, 2, (Node *[]){r[0].red, r[1].red}, v);
	count = x_mul(m, r[0].grid, r[1].grid);
	if (kind == 0)
		v = x2(m, O_DIV, v, x_cast(m, f, x_max(m, count, x_idx(m, 1))));
	else
		v = x_select(m, x_lt(m, x_idx(m, 0), count), v, x_int(m, f, 0));
	return t_tensor(m, 4, a, x_cast(m, d, v));
}

/* ---- window functions ------------------------------------------------------------------------ */

/* a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n), in f32. */
static Node *
window(Build *b, double a0, double a1, double a2)
{
	Module *m = b->m;
	DType d = dtype_of_onnx((int)attr_int(b, "output_datatype")), f = DT_F32;
	Node *n = extent(m, x_cast(m, DT_INDEX, scalar_arg(m, b->in[0]))), *i = x_axis(m, n), *w,
		*v;

	if (d == DT_NONE || (!dt_float(d) && !dt_int(d)))
		return fail(b, "output_datatype %lld is no number",
			(long long)attr_int(b, "output_datatype"));
	w = x_cast(m, f, attr_int(b, "periodic") ? n : x_addi(m, n, -1));
	w = x_mul(m, x_cast(m, f, i), x2(m, O_DIV, x_flt(m, f, 2 * M_PI), w));
	v = x_sub(m, x_flt(m, f, a0), x_mul(m, x_flt(m, f, a1), x1(m, O_COS, w)));
	if (a2 != 0)
		v = x_add(m, v,
			x_mul(m, x_flt(m, f, a2), x1(m, O_COS, x_mul(m, w, x_int(m, f, 2)))));
	return t_tensor(m, 1, &i, x_cast(m, d, v));
}

static Node *build_blackman(Build *b) { return window(b, 0.42, 0.5, 0.08); }
static Node *build_hann(Build *b)     { return window(b, 0.5, 0.5, 0); }
static Node *build_hamming(Build *b)  { return window(b, 25.0 / 46, 21.0 / 46, 0); }

#define WINDOW "(size: idx) {output_datatype: int = 1, periodic: int = 1} -> y"

const Op ops_resize[] = {
	BUILD("resize", "Resize", 19,
		"(x: any, roi: float?, scales: f32?, sizes: i64?) {antialias: int = 0, axes: ints?,"
		" coordinate_transformation_mode: str = \"half_pixel\","
		" cubic_coeff_a: float = -0.75, exclude_outside: int = 0,"
		" extrapolation_value: float = 0, keep_aspect_ratio_policy: str = \"stretch\","
		" mode: str = \"nearest\", nearest_mode: str = \"round_prefer_floor\"} -> y",
		build_resize, "resampled to another size"),
	BUILD("grid_sample", "GridSample", 22,
		"(x: any, grid: float) {align_corners: int = 0, mode: str = \"linear\","
		" padding_mode: str = \"zeros\"} -> y", build_grid_sample,
		"sampled at given places"),
	BUILD("affine_grid", "AffineGrid", 20,
		"(theta: float, size: i64) {align_corners: int = 0} -> grid", build_affine_grid,
		"the places of a transformed image"),
	BUILD("roi_align", "RoiAlign", 22, "(x: float, rois: x, batch_indices: i64)"
		" {coordinate_transformation_mode: str = \"half_pixel\","
		" mode: str = \"avg\", output_height: int = 1, output_width: int = 1,"
		" sampling_ratio: int = 0, spatial_scale: float = 1} -> y", build_roi_align,
		"regions of an image pooled to one size"),
	BUILD("blackman_window", "BlackmanWindow", 17, WINDOW, build_blackman, "Blackman's window"),
	BUILD("hann_window",     "HannWindow",     17, WINDOW, build_hann, "Hann's window"),
	BUILD("hamming_window",  "HammingWindow",  17, WINDOW, build_hamming, "Hamming's window"),
	{0}
};
