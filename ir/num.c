/*
 * Element types and scalar arithmetic, exactly as dtypes.def and scalar.def state them. Folding and
 * the evaluator rest on this file; it shares nothing with code generation.
 *
 * f32 computes in float and f64 in double; narrower floats compute in float and round once more,
 * which for + - * / sqrt is the same as rounding once. Mathematical functions: libm in double,
 * then rounded.
 */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "ir/ir.h"

const DTypeInfo dtypes[N_DTYPES] = {
#define DT(N, text, bits, cls, onnx) { text, bits, #cls[0], onnx },
#include "ir/dtypes.def"
#undef DT
};

DType dtype_parse(const char *text)
{
	for (int d = 1; d < N_DTYPES; d++)
		if (!strcmp(dtypes[d].text, text))
			return d;
	return DT_NONE;
}

DType dtype_of_onnx(int code)
{
	for (int d = 1; d < N_DTYPES; d++)
		if (code && dtypes[d].onnx == code)
			return d;
	return DT_NONE;
}

/* ---- formats of the narrow floats ---------------------------------------------------------- */

/* max: bits of the largest finite value; inf: bits of infinity or 0 if there is none, and then
 * what is too large becomes max; nan: bits of NaN, without sign; fnuz: no -0, NaN is 0x80. */
typedef struct Format { int ebits, mbits, bias; uint32_t max, inf, nan; bool fnuz; } Format;

static const Format formats[N_DTYPES] = {
	[DT_F4E2M1] =     { 2,  1,   1, 0x7,    0,      0,      false },
	[DT_F8E4M3FN] =   { 4,  3,   7, 0x7e,   0,      0x7f,   false },
	[DT_F8E4M3FNUZ] = { 4,  3,   8, 0x7f,   0,      0x80,   true },
	[DT_F8E5M2] =     { 5,  2,  15, 0x7b,   0,      0x7e,   false },
	[DT_F8E5M2FNUZ] = { 5,  2,  16, 0x7f,   0,      0x80,   true },
	[DT_F16] =        { 5, 10,  15, 0x7bff, 0x7c00, 0x7e00, false },
	[DT_BF16] =       { 8,  7, 127, 0x7f7f, 0x7f80, 0x7fc0, false },
};

/* Powers of two, 2^-127 (bits 0) to 2^127; 255 is NaN. As ONNX casts: the sign is dropped, what
 * lies between rounds up, an infinity is NaN. */
static uint32_t encode_e8m0(double x)
{
	x = fabs((float)x);
	if (!isfinite(x))
		return 0xff;
	if (x <= 0x1p-127)
		return 0;
	int e;
	double f = frexp(x, &e);
	e += 127 - (f == 0.5);
	return e > 254 ? 254 : e;
}

static double decode_e8m0(uint32_t bits)
{
	return bits == 0xff ? NAN : ldexp(1, (int)bits - 127);
}

static uint32_t encode(DType d, double x)
{
	if (d == DT_F8E8M0)
		return encode_e8m0(x);
	const Format *f = &formats[d];
	uint32_t sign = (uint32_t)!!signbit(x) << (f->ebits + f->mbits);
	if (isnan(x))
		return d == DT_F4E2M1 ? 8 : f->fnuz ? f->nan : f->nan | sign;    /* f4 has no NaN: -0 */
	double a = fabs(x);
	uint32_t bits = f->max + 1;
	if (a < 0x1p128) {
		int e = 0;
		frexp(a, &e);
		e = a == 0 || e - 1 < 1 - f->bias ? 1 - f->bias : e - 1;
		/* the significand in units of its last place; a carry walks into the exponent by itself */
		double k = rint(ldexp(a, f->mbits - e));
		uint64_t wide = ((uint64_t)(e + f->bias - 1) << f->mbits) + (uint64_t)k;
		bits = wide > f->max ? f->max + 1 : (uint32_t)wide;
	}
	if (bits > f->max)
		bits = f->inf ? f->inf : f->max;
	return f->fnuz && !bits ? 0 : bits | sign;
}

static double decode(DType d, uint32_t bits)
{
	if (d == DT_F8E8M0)
		return decode_e8m0(bits);
	const Format *f = &formats[d];
	uint32_t top = 1u << (f->ebits + f->mbits), mag = bits & (top - 1);
	if (f->fnuz ? bits == f->nan : f->nan && mag > (f->inf ? f->inf : f->max) &&
			!(d == DT_F8E5M2 && mag == 0x7c))
		return bits & top && !f->fnuz ? -NAN : NAN;
	int e = mag >> f->mbits;
	uint32_t m = mag & ((1u << f->mbits) - 1);
	double a = ldexp(e ? m + (1u << f->mbits) : m, (e ? e : 1) - f->bias - f->mbits);
	if ((f->inf && mag == f->inf) || (d == DT_F8E5M2 && mag == 0x7c))
		a = INFINITY;
	return bits & top ? -a : a;
}

Num num_round(DType d, double x)
{
	if (d == DT_F32)
		return (Num){ .f = (float)x };
	return (Num){ .f = dt_small(d) ? decode(d, encode(d, x)) : x };
}

/* ---- payloads ------------------------------------------------------------------------------ */

/* The value of the low `bits` bits, extended as the type's sign asks. */
static int64_t wrap(DType d, uint64_t v)
{
	int bits = dtypes[d].bits;
	if (d == DT_BOOL)
		return v != 0;
	if (bits == 64)
		return (int64_t)v;
	v &= (1ull << bits) - 1;
	if (dt_signed(d) && v >> (bits - 1))
		v |= ~0ull << bits;
	return (int64_t)v;
}

/* The value's bit pattern, and back. */
static uint64_t to_bits(DType d, Num n)
{
	if (d == DT_F64) {
		uint64_t u;
		memcpy(&u, &n.f, 8);
		return u;
	}
	if (d == DT_F32) {
		float f = (float)n.f;
		uint32_t u;
		memcpy(&u, &f, 4);
		return u;
	}
	if (d == DT_F8E5M2 && isinf(n.f))           /* only casts saturate */
		return n.f < 0 ? 0xfc : 0x7c;
	if (dt_float(d))
		return encode(d, n.f);
	int bits = dtypes[d].bits;
	return bits >= 64 ? (uint64_t)n.i : (uint64_t)n.i & ((1ull << bits) - 1);
}

static Num of_bits(DType d, uint64_t u)
{
	Num n = { 0 };
	if (d == DT_F64) {
		memcpy(&n.f, &u, 8);
	} else if (d == DT_F32) {
		uint32_t w = (uint32_t)u;
		float f;
		memcpy(&f, &w, 4);
		n.f = f;
	} else if (dt_float(d)) {
		n.f = decode(d, (uint32_t)u);
	} else {
		n.i = wrap(d, u);
	}
	return n;
}

Num data_get(const Data *data, DType d, int64_t k)
{
	int bits = dtypes[d].bits;
	const uint8_t *p = data->bytes;
	uint64_t u = 0;
	if (!dt_number(d))
		return (Num){ 0 };
	if (bits < 8) {
		int per = 8 / bits;
		u = p[k / per] >> (k % per * bits) & ((1u << bits) - 1);
	} else {
		memcpy(&u, p + k * (bits / 8), bits / 8);
	}
	return of_bits(d, u);
}

void data_set(void *bytes, DType d, int64_t k, Num n)
{
	int bits = dtypes[d].bits;
	uint8_t *p = bytes;
	if (!dt_number(d))
		return;
	uint64_t u = d == DT_BOOL ? n.i != 0 : to_bits(d, n);
	if (bits < 8) {
		int per = 8 / bits, at = k % per * bits;
		uint8_t mask = ((1u << bits) - 1) << at;
		p[k / per] = (p[k / per] & ~mask) | (u << at & mask);
	} else {
		memcpy(p + k * (bits / 8), &u, bits / 8);
	}
}

/* ---- casts --------------------------------------------------------------------------------- */

static int64_t float_to_int(DType to, double x)
{
	int bits = dtypes[to].bits;
	if (isnan(x))
		return 0;
	double top = ldexp(1, dt_signed(to) ? bits - 1 : bits), low = dt_signed(to) ? -top : 0;
	x = trunc(x);
	if (x <= low)
		return dt_signed(to) ? (int64_t)low : 0;
	if (x >= top)
		return dt_signed(to) ? (int64_t)((1ull << (bits - 1)) - 1) : wrap(to, ~0ull);
	return dt_signed(to) ? (int64_t)x : (int64_t)(uint64_t)x;
}

static double int_to_float(DType to, DType from, int64_t i)
{
	bool uns = from == DT_U64;
	if (to == DT_F32)
		return uns ? (float)(uint64_t)i : (float)i;
	/* narrower: beyond 2^53 the low bits only say that there is something, so that the conversion
	 * to double is exact and the rounding to the type the only one */
	if (to != DT_F64 && (uns ? (uint64_t)i >> 53 != 0 : i > (1ll << 53) || i < -(1ll << 53)))
		i = (int64_t)(((uint64_t)i & ~0xfffull) | ((i & 0xfff) ? 0x800 : 0));
	return uns ? (double)(uint64_t)i : (double)i;
}

Num num_cast(DType to, DType from, Num n)
{
	if (dt_float(from)) {
		if (to == DT_BOOL)
			return (Num){ .i = n.f != 0 };
		return dt_float(to) ? num_round(to, n.f) : (Num){ .i = float_to_int(to, n.f) };
	}
	if (dt_float(to))
		return num_round(to, int_to_float(to, from, n.i));
	return (Num){ .i = wrap(to, (uint64_t)n.i) };
}

/* ---- operations ---------------------------------------------------------------------------- */

static double float_min(double a, double b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) ? a : b;
	return a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}

static double float_max(double a, double b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) ? a : b;
	return a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}

static bool math_eval(int op, double x, double y, double *r)
{
	int sign;
	switch (op) {
	case O_EXP: *r = exp(x); break;
	case O_EX2: *r = exp2(x); break;
	case O_LOG: *r = log(x); break;
	case O_LOG1P: *r = log1p(x); break;
	case O_EXPM1: *r = expm1(x); break;
	case O_POW: *r = pow(x, y); break;
	case O_SIN: case O_SIN_FAR: *r = sin(x); break;
	case O_COS: case O_COS_FAR: *r = cos(x); break;
	case O_TAN: case O_TAN_FAR: *r = tan(x); break;
	case O_ASIN: *r = asin(x); break;
	case O_ACOS: *r = acos(x); break;
	case O_ATAN: *r = atan(x); break;
	case O_SINH: *r = sinh(x); break;
	case O_COSH: *r = cosh(x); break;
	case O_TANH: *r = tanh(x); break;
	case O_ASINH: *r = asinh(x); break;
	case O_ACOSH: *r = acosh(x); break;
	case O_ATANH: *r = atanh(x); break;
	case O_ERF: *r = erf(x); break;
	case O_LGAMMA: *r = lgamma_r(x, &sign); break;
	default: return false;
	}
	return true;
}

static float tf32(float x)
{
	union { float f; uint32_t u; } v = { .f = x };

	if ((v.u & 0x7f800000) != 0x7f800000)
		v.u = (v.u + 0x1000) & ~0x1fffu;
	return v.f;
}

/* Operations whose exact result is a value of every float type, or that round in the caller. */
static bool exact_eval(int op, double a, double b, double *r)
{
	switch (op) {
	case O_REM: *r = fmod(a, b); break;
	case O_MIN: *r = float_min(a, b); break;
	case O_MAX: *r = float_max(a, b); break;
	case O_NEG: *r = -a; break;
	case O_ABS: *r = fabs(a); break;
	case O_FLOOR: *r = floor(a); break;
	case O_CEIL: *r = ceil(a); break;
	case O_TRUNC: *r = trunc(a); break;
	case O_RINT: *r = rint(a); break;
	default: return false;
	}
	return true;
}

static bool f64_eval(int op, const double *x, double *r)
{
	switch (op) {
	case O_ADD: *r = x[0] + x[1]; break;
	case O_SUB: *r = x[0] - x[1]; break;
	case O_MUL: *r = x[0] * x[1]; break;
	case O_DIV: *r = x[0] / x[1]; break;
	case O_SQRT: *r = sqrt(x[0]); break;
	case O_TF32: *r = x[0]; break;           /* in double nothing is rounded */
	case O_FMA: case O_MULADD: *r = fma(x[0], x[1], x[2]); break;
	default: return false;
	}
	return true;
}

static bool f32_eval(int op, const double *x, double *r)
{
	float a = (float)x[0], b = (float)x[1], c = (float)x[2], f;
	switch (op) {
	case O_ADD: f = a + b; break;
	case O_SUB: f = a - b; break;
	case O_MUL: f = a * b; break;
	case O_DIV: f = a / b; break;
	case O_SQRT: f = sqrtf(a); break;
	case O_TF32: f = tf32(a); break;
	case O_FMA: case O_MULADD: f = fmaf(a, b, c); break;
	default: return false;
	}
	*r = f;
	return true;
}

static bool float_eval(int op, DType d, int nin, const Num *in, Num *out)
{
	double x[3] = { 0 }, r;
	for (int i = 0; i < nin; i++)
		x[i] = in[i].f;
	bool done = exact_eval(op, x[0], x[1], &r) || math_eval(op, x[0], x[1], &r) ||
		(d == DT_F64 ? f64_eval(op, x, &r) : f32_eval(op, x, &r));
	if (!done)
		return false;
	/* one of the operands is a value of the type: casting it could saturate */
	*out = op == O_MIN || op == O_MAX ? (Num){ .f = r } : num_round(d, r);
	return true;
}

static bool float_compare(int op, double a, double b, Num *out)
{
	switch (op) {
	case O_LT: out->i = a < b; break;
	case O_LE: out->i = a <= b; break;
	case O_EQ: out->i = a == b; break;
	case O_NE: out->i = a != b; break;
	default: return false;
	}
	return true;
}

static bool int_compare(int op, bool uns, int64_t a, int64_t b, Num *out)
{
	switch (op) {
	case O_LT: out->i = uns ? (uint64_t)a < (uint64_t)b : a < b; break;
	case O_LE: out->i = uns ? (uint64_t)a <= (uint64_t)b : a <= b; break;
	case O_EQ: out->i = a == b; break;
	case O_NE: out->i = a != b; break;
	default: return false;
	}
	return true;
}

static uint64_t signed_div(int op, int64_t a, int64_t b)
{
	if (b == 0)
		return 0;
	if (b == -1)
		return op == O_DIV || op == O_FLOORDIV ? -(uint64_t)a : 0;
	int64_t q = a / b, r = a % b;
	bool down = r != 0 && (r < 0) != (b < 0);
	switch (op) {
	case O_DIV: return q;
	case O_REM: return r;
	case O_FLOORDIV: return q - down;
	default: return down ? r + b : r;
	}
}

static uint64_t unsigned_div(int op, uint64_t a, uint64_t b)
{
	return b == 0 ? 0 : op == O_DIV || op == O_FLOORDIV ? a / b : a % b;
}

static uint64_t shift(int op, DType d, int64_t a, uint64_t count)
{
	uint64_t width = dtypes[d].bits;
	if (op == O_SHL)
		return count >= width ? 0 : (uint64_t)a << count;
	if (dt_signed(d))
		return a >> (count >= width ? 63 : count);
	return count >= width ? 0 : (uint64_t)a >> count;
}

/* Four unsigned bytes times four signed ones. */
static uint64_t dot4(uint32_t a, uint32_t b)
{
	uint64_t sum = 0;
	for (int i = 0; i < 32; i += 8)
		sum += (uint64_t)((int64_t)(uint8_t)(a >> i) * (int8_t)(b >> i));
	return sum;
}

static bool int_eval(int op, DType d, const Num *in, int nin, Num *out)
{
	int64_t a = in[0].i, b = nin > 1 ? in[1].i : 0, c = nin > 2 ? in[2].i : 0;
	uint64_t ua = a, ub = b, r, width = dtypes[d].bits;
	bool sign = dt_signed(d), less = sign ? a < b : ua < ub;
	switch (op) {
	case O_ADD: r = ua + ub; break;
	case O_SUB: r = ua - ub; break;
	case O_MUL: r = ua * ub; break;
	case O_DIV: case O_REM: case O_FLOORDIV: case O_MOD:
		r = sign ? signed_div(op, a, b) : unsigned_div(op, ua, ub);
		break;
	case O_MIN: r = less ? ua : ub; break;
	case O_MAX: r = less ? ub : ua; break;
	case O_NEG: r = -ua; break;
	case O_ABS: r = sign && a < 0 ? -ua : ua; break;
	case O_AND: r = ua & ub; break;
	case O_OR: r = ua | ub; break;
	case O_XOR: r = ua ^ ub; break;
	case O_NOT: r = d == DT_BOOL ? !ua : ~ua; break;
	case O_SHL: case O_SHR:
		r = shift(op, d, a, width < 64 ? ub & ((1ull << width) - 1) : ub);
		break;
	case O_FLOOR: case O_CEIL: case O_TRUNC: case O_RINT: r = ua; break;
	case O_FMA: case O_MULADD: r = ua * ub + (uint64_t)c; break;
	case O_DOT4: r = dot4((uint32_t)ua, (uint32_t)ub); break;
	case O_POPCNT:
		r = __builtin_popcountll(width < 64 ? ua & ((1ull << width) - 1) : ua);
		break;
	case O_BOUND:
		/* what is out of bounds must be reported when the program runs */
		if (a < 0 || a >= b)
			return false;
		r = ua;
		break;
	default: return false;
	}
	out->i = wrap(d, r);
	return true;
}

/* Two products of bf16, low halves first. */
static double dot2(uint32_t a, uint32_t b)
{
	Num x = of_bits(DT_F32, a << 16), y = of_bits(DT_F32, b << 16);
	Num u = of_bits(DT_F32, a & 0xffff0000), v = of_bits(DT_F32, b & 0xffff0000);
	return x.f * y.f + u.f * v.f;
}

bool num_eval(int op, DType result, DType operand, const Num *in, Num *out)
{
	int nin = op >= 0 && op < O_NUM ? scalar_ops[op].arity : -1;
	Num r = { 0 };
	bool ok = true;
	if (nin < 0 || !dt_number(operand))
		return false;
	if (op == O_SELECT)
		r = in[0].i ? in[1] : in[2];
	else if (op == O_CAST)
		r = num_cast(result, operand, in[0]);
	else if (op == O_BITS)
		r = of_bits(result, to_bits(operand, in[0]));
	else if (op == O_DOT2)
		r = num_round(result, dot2((uint32_t)in[0].i, (uint32_t)in[1].i));
	else if (op >= O_LT && op <= O_NE)
		ok = dt_float(operand) ? float_compare(op, in[0].f, in[1].f, &r)
			: int_compare(op, !dt_signed(operand), in[0].i, in[1].i, &r);
	else
		ok = dt_float(operand) ? float_eval(op, operand, nin, in, &r)
			: int_eval(op, operand, in, nin, &r);
	if (ok)
		*out = r;
	return ok;
}
