/*
 * Expansions of the mathematical functions in the operations that every target spells: branch-free,
 * with constants for tables, so that they vectorise and fuse like any other expression.
 *
 * Conventions. muladd may be fused or not: a product that must be exact has factors short enough,
 * and error terms use add, sub and mul, which are never contracted. Selects that clamp keep NaN in
 * the operand that is returned when the comparison is false. A power of two is built from the low
 * bits of x + 1.5 * 2^mantissa, which also rounds x to an integer. In f32, functions whose argument
 * reduction or logarithm needs more bits (sin, pow, asinh ...) take them from f64.
 * Sources: the scheme of fdlibm (log, asin, sin), of Cephes (atan), of N. Juffa (erf).
 *
 * sin, cos and tan subtract multiples of a three-part pi/2 where that is exact enough; elsewhere
 * (|x| > 5e7; f64 also nearer than 2^-28 to a multiple) they choose sin_far, cos_far, tan_far,
 * which multiply by as many bits of 2/pi as matter (Payne and Hanek). No more than a branch stands
 * for these where they are not chosen: a target calls them.
 */
#include <math.h>

#include "ir/ir.h"

#define POLY(N, doc, ...) static const double N[] = { __VA_ARGS__ };
#include "ir/math.def"
#undef POLY
#define COEF(N) N, (int)(sizeof N / sizeof *N)

/* The floating type computed in and its bits. */
typedef struct X {
	Module *m;
	DType f, u;
	int mant, bias;
	int64_t one, sign;     /* bits of 1.0 and of -0.0 */
	double magic;          /* 1.5 * 2^mant */
} X;

static const X f32_kind = { NULL, DT_F32, DT_U32, 23, 127, 0x3f800000, 0x80000000, 0x1.8p23 };
static const X f64_kind = { NULL, DT_F64, DT_U64, 52, 1023, 0x3ff0000000000000, INT64_MIN,
	0x1.8p52 };

static X kind_of(Module *m, DType d)
{
	X x = d == DT_F32 ? f32_kind : f64_kind;
	x.m = m;
	return x;
}

static bool f32(const X *x)
{
	return x->f == DT_F32;
}

/* ---- shorthands ---------------------------------------------------------------------------- */

static Node *k(const X *x, double v) { return x_flt(x->m, x->f, v); }
static Node *ku(const X *x, int64_t v) { return x_int(x->m, x->u, v); }
static Node *add(const X *x, Node *a, Node *b) { return x2(x->m, O_ADD, a, b); }
static Node *sub(const X *x, Node *a, Node *b) { return x2(x->m, O_SUB, a, b); }
static Node *mul(const X *x, Node *a, Node *b) { return x2(x->m, O_MUL, a, b); }
static Node *quo(const X *x, Node *a, Node *b) { return x2(x->m, O_DIV, a, b); }
static Node *addk(const X *x, Node *a, double v) { return add(x, a, k(x, v)); }
static Node *mulk(const X *x, Node *a, double v) { return mul(x, a, k(x, v)); }
static Node *mad(const X *x, Node *a, Node *b, Node *c)
{
	return x_op(x->m, O_MULADD, 3, (Node *[]){ a, b, c }, x->f);
}
static Node *madk(const X *x, Node *a, double b, Node *c) { return mad(x, a, k(x, b), c); }
static Node *neg(const X *x, Node *a) { return x1(x->m, O_NEG, a); }
static Node *mag(const X *x, Node *a) { return x1(x->m, O_ABS, a); }
static Node *root(const X *x, Node *a) { return x1(x->m, O_SQRT, a); }
static Node *lt(const X *x, Node *a, Node *b) { return x_lt(x->m, a, b); }
static Node *ltk(const X *x, Node *a, double b) { return x_lt(x->m, a, k(x, b)); }
static Node *eqk(const X *x, Node *a, double b) { return x_eq(x->m, a, k(x, b)); }
static Node *sel(const X *x, Node *c, Node *a, Node *b) { return x_select(x->m, c, a, b); }
static Node *bits(const X *x, Node *a) { return x_bits(x->m, x->u, a); }
static Node *value(const X *x, Node *a) { return x_bits(x->m, x->f, a); }
static Node *both(const X *x, OpCode op, Node *a, int64_t b) { return x2(x->m, op, a, ku(x, b)); }

/* lo and hi are returned where x is beyond them, NaN where it is NaN. */
static Node *at_most(const X *x, Node *a, double hi)
{
	return sel(x, lt(x, k(x, hi), a), k(x, hi), a);
}

static Node *at_least(const X *x, Node *a, double lo)
{
	return sel(x, ltk(x, a, lo), k(x, lo), a);
}

/* |a| with the sign of s */
static Node *copysign_of(const X *x, Node *a, Node *s)
{
	Node *m = both(x, O_AND, bits(x, a), ~x->sign);
	return value(x, x2(x->m, O_OR, m, both(x, O_AND, bits(x, s), x->sign)));
}

static Node *poly(const X *x, Node *t, const double *c, int n)
{
	Node *p = k(x, c[n - 1]);
	for (int i = n - 2; i >= 0; i--)
		p = mad(x, p, t, k(x, c[i]));
	return p;
}

/* t + t z P(z), z = t^2 */
static Node *odd(const X *x, Node *t, const double *c, int n)
{
	Node *z = mul(x, t, t);
	return mad(x, mul(x, t, z), poly(x, z, c, n), t);
}

/* ---- exponential --------------------------------------------------------------------------- */

/* 2^n for the integer n in the low bits of x + magic */
static Node *pow2_of(const X *x, Node *t)
{
	return value(x, both(x, O_ADD, both(x, O_SHL, bits(x, t), x->mant), x->one));
}

/* x = 2n ln 2 + r, s = 2^n: twice, so that s is a normal number wherever s*s*e^r is not zero or
 * infinite, and the last product rounds. |r| < 0.694. */
static Node *exp_split(const X *x, Node *a, Node **s)
{
	Node *t = madk(x, a, 0x1.71547652b82fep-1, k(x, x->magic));
	Node *n = addk(x, t, -x->magic);
	*s = pow2_of(x, t);
	if (f32(x))
		return madk(x, n, -0x1.7f7d1cp-19, madk(x, n, -0x1.62e4p+0, a));
	return madk(x, n, -0x1.9ef35793c7673p-40, madk(x, n, -0x1.62e42fefa2p+0, a));
}

/* e^r - 1 on exp_split's range */
static Node *expm1_poly(const X *x, Node *r)
{
	Node *q = f32(x) ? poly(x, r, COEF(EXP_F32)) : poly(x, r, COEF(EXP_F64));
	return mad(x, mul(x, r, r), q, r);
}

static Node *exp_clamp(const X *x, Node *a)
{
	return f32(x) ? at_least(x, at_most(x, a, 90), -104) : at_least(x, at_most(x, a, 711), -746);
}

/* scale * e^a, without overflow before its time; plus a correction to a, or NULL */
static Node *exp_scaled(const X *x, Node *a, Node *low, double scale)
{
	Node *s, *r = exp_split(x, exp_clamp(x, a), &s);
	if (low)
		r = add(x, r, low);
	Node *p = addk(x, expm1_poly(x, r), 1);
	if (scale != 1)
		p = mulk(x, p, scale);
	return mul(x, mul(x, p, s), s);
}

/* f32 only, -87 < a < 88: one product by the power of two */
static Node *exp_short(const X *x, Node *a)
{
	Node *t = madk(x, a, 0x1.715476p+0, k(x, x->magic)), *n = addk(x, t, -x->magic);
	Node *r = madk(x, n, -0x1.7f7d1cp-20, madk(x, n, -0x1.62e4p-1, a));
	Node *p = mad(x, mul(x, r, r), poly(x, r, COEF(EXP_HALF_F32)), r);
	return mul(x, addk(x, p, 1), pow2_of(x, t));
}

/* The exponent's bias stands in the magic number, so that n's low bits alone are the power of
 * two; n = -127 makes that 0. */
Node *
math_exp_low(Module *m, Node *a)
{
	X f = kind_of(m, a->type->dtype), *x = &f;

	if (!f32(x))
		return exp_scaled(x, a, NULL, 1);
	a = at_least(x, a, -88);
	Node *t = madk(x, a, 0x1.715476p+0, k(x, x->magic + x->bias)),
		*n = addk(x, t, -x->magic - x->bias);
	Node *r = madk(x, n, -0x1.7f7d1cp-20, madk(x, n, -0x1.62e4p-1, a));
	return mul(x, mad(x, r, poly(x, r, COEF(EXP_LOW_F32)), k(x, 1)),
		value(x, both(x, O_SHL, bits(x, t), x->mant)));
}

/* s*s*(q+1) - 1 as s * (s*q + (s - 1/s)) */
static Node *expm1_of(const X *x, Node *a)
{
	Node *s, *r = exp_split(x, at_least(x, at_most(x, a, f32(x) ? 89 : 710), -60), &s);
	Node *si = value(x, x2(x->m, O_SUB, ku(x, 2 * x->one), bits(x, s)));
	Node *e = mul(x, mad(x, s, expm1_poly(x, r), sub(x, s, si)), s);
	return sel(x, eqk(x, a, 0), a, e);
}

/* ---- logarithm ----------------------------------------------------------------------------- */

/* a = 2^e * (1 + f), 1+f in [sqrt(1/2), sqrt(2)); a positive, finite, subnormal or not */
static Node *log_split(const X *x, Node *a, Node **e)
{
	int64_t half = f32(x) ? 0x3f3504f3 : 0x3fe6a09e667f3bcd;
	int64_t frac = ((int64_t)1 << x->mant) - 1;
	double two = ldexp(1, x->mant), least = ldexp(1, 1 - x->bias);
	Node *tiny = ltk(x, a, least);
	Node *u = bits(x, sel(x, tiny, mulk(x, a, 4 * two), a));
	u = both(x, O_ADD, u, x->one - half);
	Node *m = value(x, both(x, O_ADD, both(x, O_AND, u, frac), half));
	int64_t whole = x->one + ((int64_t)x->mant << x->mant);         /* bits of 2^mant */
	Node *biased = both(x, O_OR, both(x, O_SHR, u, x->mant), whole);
	Node *bias = sel(x, tiny, k(x, two + x->bias + x->mant + 2), k(x, two + x->bias));
	*e = sub(x, value(x, biased), bias);
	return addk(x, m, -1);
}

/* r where a is positive and finite; the others as C's log */
static Node *log_special(const X *x, Node *a, Node *r)
{
	Node *rest = sel(x, eqk(x, a, 0), k(x, -INFINITY), k(x, NAN));
	r = sel(x, ltk(x, a, INFINITY), r, a);
	return sel(x, lt(x, k(x, 0), a), r, rest);
}

static Node *log_f32(const X *x, Node *a)
{
	Node *e, *f = log_split(x, a, &e), *z = mul(x, f, f);
	Node *r = mul(x, mul(x, f, z), poly(x, f, COEF(LOG_F32)));
	r = madk(x, e, 0x1.7f7d1cp-20, r);
	r = add(x, f, madk(x, z, -0.5, r));
	return log_special(x, a, madk(x, e, 0x1.62e4p-1, r));
}

static Node *log_f64(const X *x, Node *a)
{
	Node *e, *f = log_split(x, a, &e), *s = quo(x, f, addk(x, f, 2)), *z = mul(x, s, s);
	Node *half = mulk(x, mul(x, f, f), 0.5);
	Node *r = mul(x, z, poly(x, z, COEF(LOG_F64)));
	Node *t = madk(x, e, 0x1.9ef35793c7673p-41, mul(x, s, add(x, half, r)));
	t = sub(x, f, sub(x, half, t));
	return log_special(x, a, madk(x, e, 0x1.62e42fefa2p-1, t));
}

static Node *log_of(const X *x, Node *a)
{
	return f32(x) ? log_f32(x, a) : log_f64(x, a);
}

/* In f64, to 2^-36: for what is then rounded to f32. No special values. */
static Node *log_wide(const X *x, Node *a)
{
	Node *e, *f = log_split(x, a, &e), *s = quo(x, f, addk(x, f, 2));
	Node *z = mul(x, s, s), *p = mad(x, z, poly(x, z, COEF(LOG_WIDE)), k(x, 2));
	return madk(x, e, M_LN2, mul(x, s, p));
}

/* With u = 1 + x rounded: log(u) * x / (u - 1), whose last factor undoes the rounding (Kahan). */
static Node *log1p_of(const X *x, Node *a)
{
	Node *u = addk(x, a, 1);
	Node *r = mul(x, a, quo(x, log_of(x, u), addk(x, u, -1)));
	r = sel(x, eqk(x, u, 1), a, r);
	return sel(x, eqk(x, u, INFINITY), u, r);
}

/* ---- power --------------------------------------------------------------------------------- */

/* r = |a|^b made C's pow(a, b) */
static Node *pow_special(const X *x, Node *a, Node *b, Node *r)
{
	Module *m = x->m;
	Node *half = mulk(x, b, 0.5);
	Node *whole = x_eq(m, x1(m, O_TRUNC, b), b);
	Node *isodd = x_and(m, whole, x_ne(m, x1(m, O_TRUNC, half), half));
	Node *flip = sel(x, isodd, both(x, O_AND, bits(x, a), x->sign), ku(x, 0));
	r = value(x, x2(m, O_XOR, bits(x, r), flip));
	Node *bad = x_and(m, x_and(m, ltk(x, a, 0), x_ne(m, a, k(x, -INFINITY))), x_not(m, whole));
	r = sel(x, bad, k(x, NAN), r);
	r = sel(x, x_or(m, x_ne(m, a, a), x_ne(m, b, b)), k(x, NAN), r);
	return sel(x, x_or(m, eqk(x, a, 1), eqk(x, b, 0)), k(x, 1), r);
}

/* log |a| with its limits, times b; 0 where |a| = 1 also for an infinite b */
static Node *log_limits(const X *x, Node *a, Node *log)
{
	log = sel(x, eqk(x, a, 0), k(x, -INFINITY), log);
	return sel(x, eqk(x, a, INFINITY), a, log);
}

static Node *pow_f32(const X *x, Node *a, Node *b)
{
	X d = kind_of(x->m, DT_F64);
	Node *base = x_cast(x->m, DT_F64, mag(x, a)), *e = x_cast(x->m, DT_F64, b);
	Node *p = mul(&d, e, log_limits(&d, base, log_wide(&d, base)));
	p = mulk(&d, sel(&d, eqk(&d, base, 1), k(&d, 0), p), 0x1.71547652b82fep+0);
	p = at_least(&d, at_most(&d, p, 200), -200);
	Node *t = addk(&d, p, d.magic), *f = sub(&d, p, addk(&d, t, -d.magic));
	Node *r = mul(&d, mad(&d, f, poly(&d, f, COEF(EXP2_WIDE)), k(&d, 1)), pow2_of(&d, t));
	return pow_special(x, a, b, x_cast(x->m, DT_F32, r));
}

/* An unevaluated sum with |lo| <= ulp(hi)/2. */
typedef struct Two { Node *hi, *lo; } Two;

static Two fast_sum(const X *x, Node *a, Node *b)     /* |a| >= |b| */
{
	Node *s = add(x, a, b);
	return (Two){ s, sub(x, b, sub(x, s, a)) };
}

static Two split(const X *x, Node *a)                 /* 26 bits and the rest */
{
	Node *hi = value(x, both(x, O_AND, bits(x, a), ~(int64_t)0x7ffffff));
	return (Two){ hi, sub(x, a, hi) };
}

static Two product(const X *x, Node *a, Node *b)      /* exact (Dekker) */
{
	Two p = split(x, a), q = split(x, b);
	Node *h = mul(x, a, b);
	Node *l = sub(x, mul(x, p.hi, q.hi), h);
	l = add(x, l, mul(x, p.hi, q.lo));
	l = add(x, l, mul(x, p.lo, q.hi));
	return (Two){ h, add(x, l, mul(x, p.lo, q.lo)) };
}

/* log a to 2^-64: with s = f/(2+f), z = s^2: e ln 2 + 2s + s z (2/3 + z P(z)) */
static Two log_two(const X *x, Node *a)
{
	Node *e, *f = log_split(x, a, &e);
	Two den = fast_sum(x, k(x, 2), f);
	Node *s = quo(x, f, den.hi);
	Two back = product(x, s, den.hi);
	Node *rest = sub(x, sub(x, sub(x, f, back.hi), back.lo), mul(x, s, den.lo));
	Node *slo = quo(x, rest, den.hi);
	Two z = product(x, s, s);
	Node *zlo = add(x, z.lo, mulk(x, mul(x, s, slo), 2));
	Node *q = mul(x, z.hi, poly(x, z.hi, COEF(LOG_TWO)));
	Two w = fast_sum(x, k(x, 0x1.5555555555555p-1), addk(x, q, 0x1.5555555555555p-55));
	Two c = product(x, s, z.hi);
	Node *clo = add(x, c.lo, add(x, mul(x, s, zlo), mul(x, slo, z.hi)));
	Two t = product(x, c.hi, w.hi);
	Node *tlo = add(x, t.lo, add(x, mul(x, c.hi, w.lo), mul(x, clo, w.hi)));
	Two r = fast_sum(x, mulk(x, s, 2), t.hi);
	r.lo = add(x, r.lo, add(x, tlo, mulk(x, slo, 2)));
	Two n = fast_sum(x, mulk(x, e, 0x1.62e42fefa2p-1), r.hi);
	Node *big = add(x, n.lo, add(x, r.lo, mulk(x, e, 0x1.9ef35793c7673p-41)));
	Node *none = eqk(x, e, 0);
	return fast_sum(x, sel(x, none, r.hi, n.hi), sel(x, none, r.lo, big));
}

static Node *pow_f64(const X *x, Node *a, Node *b)
{
	Node *base = mag(x, a), *unit = eqk(x, base, 1);
	Two l = log_two(x, base);
	Node *lim = log_limits(x, base, l.hi);
	Two p = product(x, l.hi, b);
	Node *hi = sel(x, unit, k(x, 0), mul(x, lim, b));
	Node *low = add(x, p.lo, mul(x, l.lo, b));
	low = sel(x, x_and(x->m, ltk(x, mag(x, hi), 800), x_not(x->m, unit)), low, k(x, 0));
	return pow_special(x, a, b, exp_scaled(x, hi, low, 1));
}

/* ---- trigonometric ------------------------------------------------------------------------- */

/* f32: x = q pi/2 + r in f64, q in the low bits of t */
static Node *quarter_f32(const X *d, Node *a, Node **t)
{
	*t = madk(d, a, M_2_PI, k(d, d->magic));
	Node *n = addk(d, *t, -d->magic);
	Node *r = madk(d, n, -0x1.921fb54p+0, a);
	r = madk(d, n, -0x1.10b461p-30, r);
	return madk(d, n, -0x1.a62633145c06ep-58, r);
}

/* f64: r as a sum of two */
static Two quarter_f64(const X *x, Node *a, Node **t)
{
	*t = madk(x, a, M_2_PI, k(x, x->magic));
	Node *n = addk(x, *t, -x->magic);
	Node *r = sub(x, a, mulk(x, n, 0x1.921fb54p+0));
	Node *w = mulk(x, n, 0x1.10b461p-30), *h = sub(x, r, w);
	Node *l = sub(x, sub(x, sub(x, r, h), w), mulk(x, n, 0x1.a62633145c06ep-58));
	return fast_sum(x, h, l);
}

/* sin and cos of r.hi + r.lo; r.lo may be NULL */
static Node *sin_poly(const X *x, Two r)
{
	Node *z = mul(x, r.hi, r.hi);
	Node *p = f32(x) ? poly(x, z, COEF(SIN_F32)) : poly(x, z, COEF(SIN_F64));
	Node *t = mul(x, mul(x, r.hi, z), p);
	return add(x, r.hi, r.lo ? add(x, t, r.lo) : t);
}

static Node *cos_poly(const X *x, Two r)
{
	Node *z = mul(x, r.hi, r.hi);
	Node *p = f32(x) ? poly(x, z, COEF(COS_F32)) : poly(x, z, COEF(COS_F64));
	Node *t = mad(x, mul(x, z, z), p, mulk(x, z, -0.5));
	return addk(x, r.lo ? sub(x, t, mul(x, r.hi, r.lo)) : t, 1);
}

/* x less the multiple of pi/2 whose number is in q; NULL or where that is too inexact */
typedef struct Quarter { Two r; Node *q, *far; } Quarter;

static Quarter quarter_near(const X *x, Node *a)
{
	X d = kind_of(x->m, DT_F64);
	Node *t, *far = lt(x, k(x, 5e7), mag(x, a));
	Two r = { 0 };
	if (f32(x)) {
		r.hi = x_cast(x->m, DT_F32, quarter_f32(&d, x_cast(x->m, DT_F64, a), &t));
	} else {
		r = quarter_f64(x, a, &t);
		Node *close = x_and(x->m, ltk(x, mag(x, r.hi), 0x1p-28), lt(x, k(x, 0.5), mag(x, a)));
		far = x_or(x->m, far, close);
	}
	return (Quarter){ r, x_cast(x->m, x->u, bits(&d, t)), far };
}

/* 2/pi in binary, after 64 zeros */
static const uint64_t two_over_pi[] = { 0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0,
	0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c,
	0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
	0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
	0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08,
	0x56033046fc7b6bab };

enum { PI_WORDS = sizeof two_over_pi / sizeof *two_over_pi, LIMBS = 6 };

static Node *low32(const X *x, Node *u) { return both(x, O_AND, u, 0xffffffff); }
static Node *high32(const X *x, Node *u) { return both(x, O_SHR, u, 32); }
static Node *plus(const X *x, Node *a, Node *b) { return x2(x->m, O_ADD, a, b); }
static Node *times(const X *x, Node *a, Node *b) { return x2(x->m, O_MUL, a, b); }

/* limb[0..5]: the 192 bits of two_over_pi from bit s on, 32 each */
static void window(const X *x, Node *s, Node **limb)
{
	Node *w[PI_WORDS], *shift = both(x, O_AND, s, 63);
	int n = PI_WORDS;
	for (int i = 0; i < n; i++)
		w[i] = ku(x, (int64_t)two_over_pi[i]);
	for (int bit = 16; bit; bit /= 2) {            /* leaves the four words from s / 64 on */
		Node *set = x_ne(x->m, both(x, O_AND, s, 64 * bit), ku(x, 0));
		for (int i = 0; i < 3 + bit && i + bit < n; i++)
			w[i] = sel(x, set, w[i + bit], w[i]);
		n = 3 + bit;
	}
	for (int i = 0; i < LIMBS / 2; i++) {
		Node *rest = x2(x->m, O_SHR, w[i + 1], x2(x->m, O_SUB, ku(x, 64), shift));
		Node *u = x2(x->m, O_OR, x2(x->m, O_SHL, w[i], shift), rest);
		limb[2 * i] = high32(x, u);
		limb[2 * i + 1] = low32(x, u);
	}
}

/* f[0..3]: |a| 2/pi modulo 4 as a fraction of 4, 32 bits each; |a| >= 1/2. With a = m 2^e, the
 * bits of 2/pi before e - 2 give whole multiples. */
static void turns(const X *x, Node *a, Node **f)
{
	Node *u = bits(x, mag(x, a)), *l[LIMBS], *carry = ku(x, 0);
	Node *m = both(x, O_OR, both(x, O_AND, u, ((int64_t)1 << 52) - 1), (int64_t)1 << 52);
	Node *hi = high32(x, m), *lo = low32(x, m);
	window(x, both(x, O_SUB, both(x, O_SHR, u, 52), 1075 + 2 - 64), l);
	for (int i = LIMBS - 2; i >= 0; i--) {
		Node *p = times(x, lo, l[i]);
		Node *t = plus(x, plus(x, carry, low32(x, p)), times(x, hi, l[i + 1]));
		carry = plus(x, high32(x, t), high32(x, p));
		if (i < 4)
			f[i] = low32(x, t);
	}
}

/* The same as quarter_near, of any |a| >= 1/2, r.hi to half a unit. */
static Quarter quarter_far(const X *x, Node *a)
{
	Node *f[4], *d[4], *minus = ltk(x, a, 0);
	turns(x, a, f);
	Node *top = x2(x->m, O_OR, both(x, O_SHL, f[0], 32), f[1]);
	Node *q = both(x, O_SHR, both(x, O_ADD, top, (int64_t)1 << 61), 62);
	top = x_cast(x->m, DT_I64, x2(x->m, O_SUB, top, both(x, O_SHL, q, 62)));
	d[0] = x_cast(x->m, DT_F64, x2(x->m, O_SHR, top, x_int(x->m, DT_I64, 32)));    /* signed */
	for (int i = 1; i < 4; i++)
		d[i] = x_cast(x->m, DT_F64, f[i]);
	Two t = fast_sum(x, mulk(x, d[0], 0x1p-30), mulk(x, d[1], 0x1p-62));
	t = fast_sum(x, t.hi, add(x, t.lo, mulk(x, d[2], 0x1p-94)));
	t.lo = add(x, t.lo, mulk(x, d[3], 0x1p-126));
	Two r = product(x, t.hi, k(x, 0x1.921fb54442d18p+0));
	Node *low = add(x, mulk(x, t.hi, 0x1.1a62633145c07p-54), mulk(x, t.lo, 0x1.921fb54442d18p+0));
	r = fast_sum(x, r.hi, add(x, r.lo, low));
	return (Quarter){ { sel(x, minus, neg(x, r.hi), r.hi), sel(x, minus, neg(x, r.lo), r.lo) },
		sel(x, minus, x2(x->m, O_SUB, ku(x, 0), q), q), NULL };
}

/* shift: 1 for the cosine */
static Node *sin_quarter(const X *x, Quarter a, int shift)
{
	Node *q = shift ? both(x, O_ADD, a.q, shift) : a.q;
	Node *swap = x_ne(x->m, both(x, O_AND, q, 1), ku(x, 0));
	Node *v = sel(x, swap, cos_poly(x, a.r), sin_poly(x, a.r));
	Node *flip = both(x, O_SHL, both(x, O_AND, q, 2), f32(x) ? 30 : 62);
	return value(x, x2(x->m, O_XOR, bits(x, v), flip));
}

static Node *tan_quarter(const X *x, Quarter a)
{
	Node *s = sin_poly(x, a.r), *c = cos_poly(x, a.r);
	Node *swap = x_ne(x->m, both(x, O_AND, a.q, 1), ku(x, 0));
	return quo(x, sel(x, swap, neg(x, c), s), sel(x, swap, s, c));
}

static Node *trig_quarter(const X *x, OpCode op, Quarter a)
{
	return op == O_TAN ? tan_quarter(x, a) : sin_quarter(x, a, op == O_COS);
}

static Node *trig_of(const X *x, OpCode op, Node *a)
{
	Quarter near = quarter_near(x, a);
	Node *v = trig_quarter(x, op, near);
	if (op != O_COS)
		v = sel(x, eqk(x, a, 0), a, v);
	return sel(x, near.far, x1(x->m, op - O_SIN + O_SIN_FAR, a), v);
}

static Node *trig_far(const X *x, OpCode op, Node *a)
{
	if (f32(x))
		return x_cast(x->m, DT_F32, x1(x->m, op, x_cast(x->m, DT_F64, a)));
	Node *v = trig_quarter(x, op - O_SIN_FAR + O_SIN, quarter_far(x, a));
	return sel(x, ltk(x, mag(x, a), INFINITY), v, k(x, NAN));
}

static Node *atan_of(const X *x, Node *a)
{
	Node *t = mag(x, a), *big = lt(x, k(x, 0x1.3504f333f9de6p+1), t);
	Node *mid = lt(x, k(x, 0x1.a827999fcef32p-2), t);
	Node *num = sel(x, big, k(x, -1), sel(x, mid, addk(x, t, -1), t));
	Node *den = sel(x, big, t, sel(x, mid, addk(x, t, 1), k(x, 1)));
	Node *w = quo(x, num, den);
	w = f32(x) ? odd(x, w, COEF(ATAN_F32)) : odd(x, w, COEF(ATAN_F64));
	double hi = f32(x) ? 0x1.921fb6p+0 : 0x1.921fb54442d18p+0;
	double lo = f32(x) ? -0x1.777a5cp-25 : 0x1.1a62633145c07p-54;
	Node *low = sel(x, big, k(x, lo), sel(x, mid, k(x, lo / 2), k(x, 0)));
	Node *high = sel(x, big, k(x, hi), sel(x, mid, k(x, hi / 2), k(x, 0)));
	return copysign_of(x, add(x, high, add(x, w, low)), a);
}

static Node *asin_odd(const X *x, Node *t)
{
	return f32(x) ? odd(x, t, COEF(ASIN_F32)) : odd(x, t, COEF(ASIN_F64));
}

/* Beyond 1/2: asin a = pi/2 - 2 asin sqrt((1-a)/2). */
static Node *asin_of(const X *x, Node *a)
{
	Node *t = mag(x, a), *big = lt(x, k(x, 0.5), t);
	Node *s = root(x, mulk(x, sub(x, k(x, 1), t), 0.5));
	Node *v = asin_odd(x, sel(x, big, s, t));
	double hi = f32(x) ? 0x1.921fb6p+0 : 0x1.921fb54442d18p+0;
	double lo = f32(x) ? -0x1.777a5cp-25 : 0x1.1a62633145c07p-54;
	Node *far = sub(x, k(x, hi), sub(x, mulk(x, v, 2), k(x, lo)));
	return copysign_of(x, sel(x, big, far, v), a);
}

static Node *acos_of(const X *x, Node *a)
{
	Node *t = mag(x, a), *big = lt(x, k(x, 0.5), t), *minus = ltk(x, a, 0);
	Node *s = root(x, mulk(x, sub(x, k(x, 1), t), 0.5));
	Node *v = asin_odd(x, sel(x, big, s, t));
	double hi = f32(x) ? 0x1.921fb6p+0 : 0x1.921fb54442d18p+0;
	double lo = f32(x) ? -0x1.777a5cp-25 : 0x1.1a62633145c07p-54;
	Node *v2 = mulk(x, v, 2);
	Node *far = sel(x, minus, sub(x, k(x, 2 * hi), sub(x, v2, k(x, 2 * lo))), v2);
	Node *sv = copysign_of(x, v, a);
	Node *near = sub(x, k(x, hi), sub(x, sv, k(x, lo)));
	return sel(x, big, far, near);
}

/* ---- hyperbolic ---------------------------------------------------------------------------- */

static Node *tanh_of(const X *x, Node *a)
{
	Node *t = mag(x, a), *r;
	if (f32(x)) {
		Node *e = exp_short(x, mulk(x, at_most(x, t, 10), 2));
		r = sub(x, k(x, 1), quo(x, k(x, 2), addk(x, e, 1)));
		r = sel(x, ltk(x, t, 0.55), odd(x, t, COEF(TANH_F32)), r);
	} else {
		Node *e = expm1_of(x, mulk(x, at_most(x, t, 20), 2));
		r = quo(x, e, addk(x, e, 2));
	}
	return copysign_of(x, r, a);
}

static Node *sinh_of(const X *x, Node *a)
{
	Node *t = mag(x, a), *h = exp_scaled(x, t, NULL, 0.5);
	Node *r = sub(x, h, quo(x, k(x, 0.25), h));
	Node *s = f32(x) ? odd(x, t, COEF(SINH_F32)) : odd(x, t, COEF(SINH_F64));
	return copysign_of(x, sel(x, ltk(x, t, 1), s, r), a);
}

static Node *cosh_of(const X *x, Node *a)
{
	Node *h = exp_scaled(x, mag(x, a), NULL, 0.5);
	return add(x, h, quo(x, k(x, 0.25), h));
}

/* f32: log(t + sqrt(t^2 + c)) in f64, where nothing overflows or cancels */
static Node *area_wide(const X *x, Node *t, double c)
{
	X d = kind_of(x->m, DT_F64);
	Node *w = x_cast(x->m, DT_F64, t);
	Node *s = root(&d, addk(&d, mul(&d, w, w), c));
	return x_cast(x->m, DT_F32, log_wide(&d, add(&d, w, s)));
}

/* f64: log(2t) beyond 2^60, where log1p(t) is log(t) */
static Node *area_log(const X *x, Node *t, Node *small)
{
	Node *big = lt(x, k(x, 0x1p60), t);
	Node *r = log1p_of(x, sel(x, big, t, small));
	return add(x, r, sel(x, big, k(x, M_LN2), k(x, 0)));
}

static Node *asinh_of(const X *x, Node *a)
{
	Node *t = mag(x, a), *r;
	if (f32(x)) {
		r = sel(x, ltk(x, t, 0x1p-13), t, area_wide(x, t, 1));
		r = sel(x, ltk(x, t, INFINITY), r, t);
	} else {
		Node *z = mul(x, t, t), *s = addk(x, root(x, addk(x, z, 1)), 1);
		r = area_log(x, t, add(x, t, quo(x, z, s)));
	}
	return copysign_of(x, r, a);
}

static Node *acosh_of(const X *x, Node *a)
{
	Node *r;
	if (f32(x)) {
		r = sel(x, ltk(x, a, INFINITY), area_wide(x, a, -1), a);
	} else {
		Node *t = addk(x, a, -1);
		r = area_log(x, a, add(x, t, root(x, mul(x, t, addk(x, t, 2)))));
	}
	return sel(x, ltk(x, a, 1), k(x, NAN), r);
}

static Node *atanh_of(const X *x, Node *a)
{
	Node *t = mag(x, a), *r;
	if (f32(x)) {
		X d = kind_of(x->m, DT_F64);
		Node *w = x_cast(x->m, DT_F64, t);
		Node *l = log_wide(&d, quo(&d, addk(&d, w, 1), sub(&d, k(&d, 1), w)));
		r = x_cast(x->m, DT_F32, mulk(&d, l, 0.5));
		r = sel(x, ltk(x, t, 0x1p-13), t, r);
		r = sel(x, ltk(x, t, 1), r, sel(x, eqk(x, t, 1), k(x, INFINITY), k(x, NAN)));
	} else {
		r = mulk(x, log1p_of(x, quo(x, mulk(x, t, 2), sub(x, k(x, 1), t))), 0.5);
		r = sel(x, lt(x, k(x, 1), t), k(x, NAN), r);
	}
	return copysign_of(x, r, a);
}

/* ---- error function, gamma ----------------------------------------------------------------- */

static Node *erf_of(const X *x, Node *a)
{
	Node *t = mag(x, a), *z, *near, *far;
	if (f32(x)) {
		z = mul(x, t, t);
		near = mad(x, t, poly(x, z, COEF(ERF_F32)), t);
		t = at_most(x, t, 4);
		far = exp_short(x, mul(x, t, poly(x, t, COEF(ERFC_F32))));
		near = sel(x, ltk(x, t, 0.92), near, sub(x, k(x, 1), far));
	} else {
		t = at_most(x, t, 6);
		z = mul(x, t, t);
		near = mad(x, t, poly(x, z, COEF(ERF_F64)), t);
		Node *v = addk(x, quo(x, k(x, 1), addk(x, t, 2)), -0.229);
		far = mul(x, exp_scaled(x, neg(x, z), NULL, 1), poly(x, v, COEF(ERFC_F64)));
		near = sel(x, ltk(x, t, 1), near, sub(x, k(x, 1), far));
	}
	return copysign_of(x, near, a);
}

/* |sin(pi a)| */
static Node *sin_pi(const X *x, Node *a)
{
	Node *f = mag(x, sub(x, a, x1(x->m, O_RINT, a)));
	Two r = { mulk(x, f, M_PI), NULL }, c = { mulk(x, sub(x, k(x, 0.5), f), M_PI), NULL };
	return sel(x, ltk(x, f, 0.25), sin_poly(x, r), cos_poly(x, c));
}

/* Stirling's series at y >= 8, brought there by y = x (x+1) ... (x+7) / ..., and for negative x
 * the reflection lgamma(x) = log(pi / |x sin(pi x)|) - lgamma(-x). Absolute error some 1e-15. */
static Node *lgamma_f64(const X *x, Node *a)
{
	static const double series[] = { 1. / 12, -1. / 360, 1. / 1260, -1. / 1680, 1. / 1188,
		-691. / 360360, 1. / 156, -3617. / 122400 };
	Node *t = mag(x, a), *small = ltk(x, t, 8), *minus = ltk(x, a, 0);
	Node *w = sel(x, small, t, k(x, 1)), *p = addk(x, w, 1);
	for (int i = 2; i < 8; i++)
		p = mul(x, p, addk(x, w, i));
	p = sel(x, small, p, k(x, 1));
	Node *y = sel(x, small, addk(x, t, 8), t), *i = quo(x, k(x, 1), y);
	Node *s = mul(x, i, poly(x, mul(x, i, i), COEF(series)));
	Node *l = sub(x, mul(x, addk(x, y, -0.5), addk(x, log_of(x, y), -1)),
		k(x, 0.5 - 0.91893853320467274178));
	l = add(x, l, s);
	Node *sine = mul(x, sel(x, small, k(x, 1), t), sin_pi(x, t));
	Node *q = sel(x, minus, quo(x, mulk(x, p, M_PI), sine), mul(x, p, w));
	Node *tiny = ltk(x, t, 0x1p-100);                      /* -log t */
	q = log_of(x, sel(x, tiny, t, q));
	Node *r = sel(x, minus, sub(x, q, l), sub(x, l, q));
	r = sel(x, tiny, neg(x, q), r);
	Node *pole = x_and(x->m, x_eq(x->m, x1(x->m, O_TRUNC, a), a), x_le(x->m, a, k(x, 0)));
	pole = x_or(x->m, pole, eqk(x, t, INFINITY));
	r = sel(x, x_or(x->m, eqk(x, a, 1), eqk(x, a, 2)), k(x, 0), r);
	return sel(x, pole, k(x, INFINITY), r);
}

static Node *lgamma_of(const X *x, Node *a)
{
	X d = kind_of(x->m, DT_F64);
	if (f32(x))
		return x_cast(x->m, DT_F32, lgamma_f64(&d, x_cast(x->m, DT_F64, a)));
	return lgamma_f64(x, a);
}

/* 2^n 2^f with n whole, f in [-1/2, 1/2]; 0 where n would be below -126. */
static Node *ex2_of(const X *x, Node *a)
{
	Node *y = at_least(x, a, -127), *t = addk(x, y, x->magic);
	Node *f = sub(x, y, addk(x, t, -x->magic));

	return mul(x, poly(x, f, COEF(EX2_SHORT)), pow2_of(x, t));
}

/* To 10 bits of fraction; infinities and NaN as they are. */
static Node *tf32_of(const X *x, Node *a)
{
	Node *u = bits(x, a), *r = both(x, O_AND, both(x, O_ADD, u, 0x1000), 0xffffe000);
	Node *special = x_le(x->m, ku(x, 0x7f800000), both(x, O_AND, u, 0x7fffffff));

	return f32(x) ? sel(x, special, a, value(x, r)) : a;
}

/* ---- the table ----------------------------------------------------------------------------- */

Node *math_expand(Module *m, OpCode op, int nin, Node *const *in)
{
	DType d = in[0]->type->dtype;
	X kind = kind_of(m, d), *x = &kind;
	if (d != DT_F32 && d != DT_F64)
		return NULL;
	switch (op) {
	case O_EXP: return exp_scaled(x, in[0], NULL, 1);
	case O_LOG: return log_of(x, in[0]);
	case O_LOG1P: return log1p_of(x, in[0]);
	case O_EXPM1: return expm1_of(x, in[0]);
	case O_POW:
		if (nin != 2)
			return NULL;
		return f32(x) ? pow_f32(x, in[0], in[1]) : pow_f64(x, in[0], in[1]);
	case O_SIN: case O_COS: case O_TAN: return trig_of(x, op, in[0]);
	case O_SIN_FAR: case O_COS_FAR: case O_TAN_FAR: return trig_far(x, op, in[0]);
	case O_ASIN: return asin_of(x, in[0]);
	case O_ACOS: return acos_of(x, in[0]);
	case O_ATAN: return atan_of(x, in[0]);
	case O_SINH: return sinh_of(x, in[0]);
	case O_COSH: return cosh_of(x, in[0]);
	case O_TANH: return tanh_of(x, in[0]);
	case O_ASINH: return asinh_of(x, in[0]);
	case O_ACOSH: return acosh_of(x, in[0]);
	case O_ATANH: return atanh_of(x, in[0]);
	case O_ERF: return erf_of(x, in[0]);
	case O_LGAMMA: return lgamma_of(x, in[0]);
	case O_EX2: return ex2_of(x, in[0]);
	case O_TF32: return tf32_of(x, in[0]);
	default: return NULL;
	}
}

Node *math_half(Module *m, OpCode op, DType d, Node *a)
{
	X kind = kind_of(m, DT_F32), *x = &kind;
	Node *t;
	if (op != O_ERF || (d != DT_F16 && d != DT_BF16))
		return NULL;
	t = at_least(x, at_most(x, a, 2.75), -2.75);
	return mul(x, t, poly(x, mul(x, t, t), COEF(ERF_HALF)));
}

double math_ulp(OpCode op, DType d)
{
	/* measured by tests/ir/test_math.c, rounded up */
	static const struct { OpCode op; double f32, f64; } row[] = {
		{ O_EXP, 2, 2 }, { O_LOG, 2, 2 }, { O_LOG1P, 3, 4 }, { O_EXPM1, 3, 4 },
		{ O_POW, 1, 3 }, { O_SIN, 2, 2 }, { O_COS, 2, 2 }, { O_TAN, 4, 4 },
		{ O_SIN_FAR, 2, 2 }, { O_COS_FAR, 2, 2 }, { O_TAN_FAR, 4, 4 },
		{ O_ASIN, 3, 4 }, { O_ACOS, 3, 4 }, { O_ATAN, 3, 4 },
		{ O_SINH, 3, 4 }, { O_COSH, 3, 4 }, { O_TANH, 2, 4 },
		{ O_ASINH, 1, 4 }, { O_ACOSH, 1, 4 }, { O_ATANH, 1, 4 },
		{ O_ERF, 2, 4 }, { O_LGAMMA, 2, 64 },        /* in units of 1 where it is smaller */
	};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		if (row[i].op == op)
			return d == DT_F64 ? row[i].f64 : row[i].f32;
	return 0;
}

/* ---- narrow floats ------------------------------------------------------------------------- */

/* ebits and mbits of a format, its bias, largest finite code, NaN; inf: overflow gives infinity;
 * keep: has -0 and a sign on NaN. */
typedef struct Narrow {
	DType code;
	int ebits, mbits, bias;
	uint32_t max, nan;
	bool inf, keep;
} Narrow;

static const Narrow *narrow_of(DType d)
{
	static const Narrow rows[] = {
		[DT_F16] =        { DT_U16, 5, 10, 15,  0x7bff, 0x7e00, true,  true },
		[DT_F8E4M3FN] =   { DT_U8,  4,  3, 7,   0x7e,   0x7f,   false, true },
		[DT_F8E4M3FNUZ] = { DT_U8,  4,  3, 8,   0x7f,   0x80,   false, false },
		[DT_F8E5M2] =     { DT_U8,  5,  2, 15,  0x7b,   0x7e,   false, true },
		[DT_F8E5M2FNUZ] = { DT_U8,  5,  2, 16,  0x7f,   0x80,   false, false },
		[DT_F4E2M1] =     { DT_U8,  2,  1, 1,   0x7,    0x8,    false, true },
	};
	return d < sizeof rows / sizeof *rows && rows[d].mbits ? &rows[d] : NULL;
}

/* The code of an f32 in a u32. */
static Node *encode(const X *x, const Narrow *f, DType d, Node *a)
{
	Module *m = x->m;
	int shift = 23 - f->mbits;
	Node *u = bits(x, a), *t = both(x, O_AND, u, 0x7fffffff);
	/* normal: round half to even at the cut, a carry walks into the exponent */
	Node *even = both(x, O_AND, both(x, O_SHR, t, shift), 1);
	Node *r = x2(m, O_ADD, both(x, O_ADD, t, (1 << (shift - 1)) - 1), even);
	r = both(x, O_SUB, both(x, O_SHR, r, shift), (127 - f->bias) << f->mbits);
	/* subnormal: adding a number whose last place is the format's smallest one rounds */
	double least = ldexp(1, 1 - f->bias), big = ldexp(1, 24 - f->bias - f->mbits);
	Node *s = addk(x, mag(x, a), big);
	s = x2(m, O_SUB, bits(x, s), bits(x, k(x, big)));
	r = sel(x, x_lt(m, t, bits(x, k(x, least))), s, r);
	r = sel(x, x_lt(m, ku(x, f->max), r), ku(x, f->inf ? f->max + 1 : f->max), r);
	Node *isnan = x_lt(m, ku(x, 0x7f800000), t);
	int width = f->ebits + f->mbits;
	Node *sign = both(x, O_SHL, both(x, O_SHR, u, 31), width);
	if (!f->keep) {
		sign = sel(x, x_eq(m, r, ku(x, 0)), ku(x, 0), sign);
		return sel(x, isnan, ku(x, f->nan), x2(m, O_OR, r, sign));
	}
	if (d == DT_F4E2M1)
		return sel(x, isnan, ku(x, f->nan), x2(m, O_OR, r, sign));
	return x2(m, O_OR, sel(x, isnan, ku(x, f->nan), r), sign);
}

/* The f32 of a code in a u32: the exponent moved in place, then corrected by a power of two, which
 * also gives subnormals their value. */
static Node *decode(const X *x, const Narrow *f, DType d, Node *c)
{
	Module *m = x->m;
	int width = f->ebits + f->mbits;
	Node *t = both(x, O_AND, c, (1 << width) - 1), *sign = both(x, O_SHR, c, width);
	Node *v = value(x, both(x, O_SHL, t, 23 - f->mbits));
	Node *r = bits(x, mulk(x, v, ldexp(1, 127 - f->bias)));
	int64_t inf = d == DT_F16 ? 0x7c00 : d == DT_F8E5M2 ? 0x7c : 0;
	if (inf) {
		r = sel(x, x_eq(m, t, ku(x, inf)), ku(x, 0x7f800000), r);
		r = sel(x, x_lt(m, ku(x, inf), t), ku(x, 0x7fc00000), r);
	} else if (d == DT_F8E4M3FN) {
		r = sel(x, x_eq(m, t, ku(x, f->nan)), ku(x, 0x7fc00000), r);
	}
	r = x2(m, O_OR, r, both(x, O_SHL, sign, 31));
	if (!f->keep)
		r = sel(x, x_eq(m, c, ku(x, f->nan)), ku(x, 0x7fc00000), r);
	return value(x, r);
}

static Node *encode_bf16(const X *x, Node *a)
{
	Module *m = x->m;
	Node *u = bits(x, a), *even = both(x, O_AND, both(x, O_SHR, u, 16), 1);
	Node *r = both(x, O_SHR, x2(m, O_ADD, both(x, O_ADD, u, 0x7fff), even), 16);
	Node *quiet = both(x, O_OR, both(x, O_SHL, both(x, O_SHR, u, 31), 15), 0x7fc0);
	return sel(x, x_lt(m, ku(x, 0x7f800000), both(x, O_AND, u, 0x7fffffff)), quiet, r);
}

/* Powers of two; rounds up, drops the sign. */
static Node *encode_e8m0(const X *x, Node *a)
{
	Module *m = x->m;
	Node *t = both(x, O_AND, bits(x, a), 0x7fffffff);
	Node *r = both(x, O_SHR, both(x, O_ADD, t, 0x7fffff), 23);
	r = sel(x, x_lt(m, ku(x, 254), r), ku(x, 254), r);
	r = sel(x, x_le(m, t, ku(x, 0x400000)), ku(x, 0), r);
	return sel(x, x_le(m, ku(x, 0x7f800000), t), ku(x, 255), r);
}

static Node *decode_e8m0(const X *x, Node *c)
{
	Node *r = both(x, O_SHL, c, 23);
	r = sel(x, x_eq(x->m, c, ku(x, 0)), ku(x, 0x400000), r);
	return value(x, sel(x, x_eq(x->m, c, ku(x, 255)), ku(x, 0x7fc00000), r));
}

Node *math_cast(Module *m, DType to, DType from, Node *in)
{
	X kind = kind_of(m, DT_F32), *x = &kind;
	DType d = to == DT_F32 ? from : to;
	const Narrow *f = narrow_of(d);
	DType code = dtypes[d].bits == 16 ? DT_U16 : DT_U8;
	if ((to == DT_F32) == (from == DT_F32) || !dt_small(d))
		return NULL;
	if (to == DT_F32) {
		Node *c = x_cast(m, DT_U32, d == DT_F4E2M1 ? in : x_bits(m, code, in));
		return f ? decode(x, f, d, c) : d == DT_F8E8M0 ? decode_e8m0(x, c)
			: value(x, both(x, O_SHL, c, 16));
	}
	Node *c = f ? encode(x, f, d, in) : d == DT_F8E8M0 ? encode_e8m0(x, in) : encode_bf16(x, in);
	c = x_cast(m, code, c);
	return d == DT_F4E2M1 ? c : x_bits(m, d, c);
}
