/*
 * Element-wise operators: a scalar expression over broadcast operands.
 *
 * Floats narrower than f32 round after each operation, in the order of the operator's ONNX
 * function. exp(x) - 1 is spelled expm1 where the function subtracts: equal over the reals, right
 * near 0.
 */
#include <math.h>
#include <string.h>
#include "ops.h"

/* A tensor over the operands' broadcast dims; f makes its body from an element of each (NULL:
 * absent). */
static Node *
map(Build *b, Node *(*f)(Build *, Node **))
{
	Node *dims[MAX_RANK], *axes[MAX_RANK], **x = NEWN(b->m, Node *, b->nin + 1), *body;
	int rank, i;

	if (!dims_broadcast(b->m, b->nin, b->in, &rank, dims, b->loc))
		return NULL;
	axes_new(b->m, rank, dims, axes);
	for (i = 0; i < b->nin; i++)
		x[i] = b->in[i] ? x_bread(b->m, b->in[i], rank, axes) : NULL;
	body = f(b, x);
	return body ? t_tensor(b->m, rank, axes, body) : NULL;
}

/* The same for strings: a routine of the runtime, whose operands
 * are of one size or single elements. */
Node *
string_map(Build *b, const char *name, const char *args, DType result)
{
	Node *dims[MAX_RANK], *axes[MAX_RANK], **in = NEWN(b->m, Node *, b->nin + 1);
	int rank, i;

	if (!dims_broadcast(b->m, b->nin, b->in, &rank, dims, b->loc))
		return NULL;
	for (i = 0; i < b->nin; i++) {
		axes_new(b->m, rank, dims, axes);
		in[i] = is_intv(numel(b->m, b->in[i]), 1) ? b->in[i]
			: t_tensor(b->m, rank, axes, x_bread(b->m, b->in[i], rank, axes));
	}
	return t_host(b->m, name, args, ty_tensor(b->m, result, rank, dims), b->nin, in);
}

/* ---- several operands ------------------------------------------------------------------------ */

static Node *
fold(Build *b, OpCode op, Node **x)
{
	Node *r = x[0];
	int i;

	for (i = 1; i < b->nin; i++)
		if (x[i])
			r = x2(b->m, op, r, x[i]);
	return r;
}

static Node *sum_of(Build *b, Node **x) { return fold(b, O_ADD, x); }
static Node *min_of(Build *b, Node **x) { return fold(b, O_MIN, x); }
static Node *max_of(Build *b, Node **x) { return fold(b, O_MAX, x); }
static Node *build_sum(Build *b) { return map(b, sum_of); }
static Node *build_min(Build *b) { return map(b, min_of); }
static Node *build_max(Build *b) { return map(b, max_of); }

static Node *
mean_of(Build *b, Node **x)
{
	int i, n = 0;

	for (i = 0; i < b->nin; i++)
		n += x[i] != NULL;
	return x2(b->m, O_DIV, fold(b, O_ADD, x), x_int(b->m, x[0]->type->dtype, n));
}

static Node *build_mean(Build *b) { return map(b, mean_of); }

/* ---- powers ---------------------------------------------------------------------------------- */

/* Square and multiply from the exponent's top bit; a negative exponent gives 1/x^|y| truncated. */
static Node *
int_pow(Module *m, Node *x, Node *y)
{
	DType d = x->type->dtype;
	Node *axis = x_axis(m, x_idx(m, 64)), *carry = x_carry(m, d), *one = x_int(m, d, 1), *sq,
		*bit, *p, *odd, *inv;
	int64_t v;

	if (is_int(y, &v) && v >= 0 && v <= 4) {
		for (p = one; v > 0; v--)
			p = x_mul(m, p, x);
		return p;
	}
	y = x_cast(m, DT_I64, y);
	sq = x_mul(m, carry, carry);
	bit = x2(m, O_SHR, y, x_cast(m, DT_I64, x_sub(m, x_idx(m, 63), axis)));
	bit = x_ne(m, x_and(m, bit, x_int(m, DT_I64, 1)), x_int(m, DT_I64, 0));
	p = x_iter(m, axis, carry, one, x_select(m, bit, x_mul(m, sq, x), sq));
	if (y->lo >= 0)
		return p;
	odd = x_ne(m, x_and(m, y, x_int(m, DT_I64, 1)), x_int(m, DT_I64, 0));
	inv = x_select(m, x_and(m, x_eq(m, x, x_int(m, d, -1)), x_not(m, odd)), one,
		x_select(m, x_eq(m, x1(m, O_ABS, x), one), x, x_int(m, d, 0)));
	return x_select(m, x_lt(m, y, x_int(m, DT_I64, 0)), inv, p);
}

static Node *
pow_of(Build *b, Node **x)
{
	DType d = x[0]->type->dtype, e = x[1]->type->dtype, c;

	if (dt_int(d) && dt_int(e))
		return int_pow(b->m, x[0], x[1]);
	c = dt_int(d) || d == DT_F64 ? DT_F64 : DT_F32;
	return x_cast(b->m, d, x2(b->m, O_POW, x_cast(b->m, c, x[0]), x_cast(b->m, c, x[1])));
}

static Node *build_pow(Build *b) { return map(b, pow_of); }

/* The sign of a remainder is the dividend's (fmod=1) or the divisor's; so is that of a zero. */
static Node *
mod_of(Build *b, Node **x)
{
	Module *m = b->m;
	DType d = x[0]->type->dtype;
	Node *zero = x_int(m, d, 0), *r;

	if (!dt_float(d))
		return x2(m, attr_int(b, "fmod") ? O_REM : O_MOD, x[0], x[1]);
	r = x2(m, O_REM, x[0], x[1]);
	if (attr_int(b, "fmod"))
		return r;
	return x_select(m, x_eq(m, r, zero),
		x_select(m, x_lt(m, x[1], zero), x_flt(m, d, -0.0), zero),
		x_select(m, x2(m, O_XOR, x_lt(m, r, zero), x_lt(m, x[1], zero)), x_add(m, r, x[1]),
		r));
}

static Node *build_mod(Build *b) { return map(b, mod_of); }

static Node *
shift_of(Build *b, Node **x)
{
	return x2(b->m, strcmp(attr_str(b, "direction"), "LEFT") == 0 ? O_SHL : O_SHR, x[0], x[1]);
}

static Node *
build_shift(Build *b)
{
	const char *s = attr_str(b, "direction");

	if (strcmp(s, "LEFT") && strcmp(s, "RIGHT"))
		return fail(b, "direction is \"%s\", must be LEFT or RIGHT", s);
	return map(b, shift_of);
}

static Node *eq_of(Build *b, Node **x) { return x_eq(b->m, x[0], x[1]); }

static Node *
build_equal(Build *b)
{
	return dtype_of(b->in[0]) == DT_STRING
		? string_map(b, "str_equal", "d 0 S0 1 S1 N", DT_BOOL) : map(b, eq_of);
}

static Node *
select_of(Build *b, Node **x)
{
	return x_select(b->m, x[0], x[1], x[2]);
}

static Node *
build_where(Build *b)
{
	return dtype_of(b->in[1]) == DT_STRING
		? string_map(b, "str_where", "d 0 S0 1 S1 2 S2 N", DT_STRING) : map(b, select_of);
}

/* ---- casts ----------------------------------------------------------------------------------- */

/* float8: the magnitude from which (`at`: or at which) a value rounds past the largest finite one,
 * and
 * the bits of what then stands for it if it is not to saturate. */
static const struct { DType d; double limit; bool at; int bits; bool sign; } f8_over[] = {
	{DT_F8E4M3FN,   464,   false, 0x7f, true},
	{DT_F8E4M3FNUZ, 248,   true,  0x80, false},
	{DT_F8E5M2,     61440, true,  0x7c, true},
	{DT_F8E5M2FNUZ, 61440, true,  0x80, false},
};

static Node *
cast_wrap_f8(Module *m, DType to, Node *x)
{
	DType d = dt_float(x->type->dtype) ? x->type->dtype : DT_F32;
	Node *mag, *over, *v, *neg;
	size_t i;

	for (i = 0; i < sizeof f8_over / sizeof *f8_over && f8_over[i].d != to; i++)
		;
	if (i == sizeof f8_over / sizeof *f8_over || dtypes[d].bits <= 8)
		return x_cast(m, to, x);
	x = x_cast(m, d, x);
	mag = x1(m, O_ABS, x);
	over = x_flt(m, d, f8_over[i].limit);
	over = f8_over[i].at ? x_le(m, over, mag) : x_lt(m, over, mag);
	v = x_int(m, DT_U8, f8_over[i].bits);
	if (f8_over[i].sign) {
		neg = x_int(m, DT_U8, f8_over[i].bits | 0x80);
		v = x_select(m, x_lt(m, x, x_int(m, d, 0)), neg, v);
	}
	return x_bits(m, to, x_select(m, over, v, x_bits(m, DT_U8, x_cast(m, to, x))));
}

/* A power of two, its exponent in 8 bits, from the bits of an f32. Up: away from zero; nearest:
 * ties up. */
static Node *
cast_e8m0(Module *m, Node *x, const char *mode, bool saturate)
{
	DType u = DT_U32;
	Node *bits = x_bits(m, u, x1(m, O_ABS, x_cast(m, DT_F32, x))), *e, *r,
		*nan = x_int(m, u, 255), *inf;
	uint32_t add = strcmp(mode, "up") == 0 ? 0x7fffff : strcmp(mode, "down") == 0 ? 0
		: 0x400000;

	inf = x_int(m, u, 0x7f800000);
	e = x2(m, O_SHR, x_add(m, bits, x_int(m, u, add)), x_int(m, u, 23));
	r = x_min(m, e, saturate ? x_int(m, u, 254) : nan);
	if (!saturate)
		r = x_select(m, x_eq(m, bits, x_int(m, u, 0)), nan, r);
	r = x_select(m, x_lt(m, inf, bits), nan, r);
	return x_bits(m, DT_F8E8M0, x_cast(m, DT_U8, r));
}

static Node *
cast_to(Build *b, DType to, Node *x)
{
	bool saturate = attr_int(b, "saturate") != 0;

	/* these wrap, as numpy's do */
	if (dt_float(x->type->dtype) && dt_int(to) && dtypes[to].bits < 8)
		x = x_cast(b->m, DT_I32, x);
	if (to == DT_F8E8M0 && x->type->dtype != DT_F8E8M0)
		return cast_e8m0(b->m, x, attr_str(b, "round_mode"), saturate);
	return saturate ? x_cast(b->m, to, x) : cast_wrap_f8(b->m, to, x);
}

static Node *
cast_tensor(Build *b, DType to)
{
	Node *x = b->in[0], *axes[MAX_RANK];
	DType from = dtype_of(x);

	if (dtypes[to].cls == 'C' || dtypes[from].cls == 'C')
		return unsupported(b, "complex numbers cannot be cast");
	if (from == to)
		return x;
	if (to == DT_STRING)
		return t_host(b->m, "str_format", "d 0 N", ty_tensor(b->m, to, rank_of(x), x->type->dims),
			1, &x);
	if (from == DT_STRING) {                 /* numbers narrower than these by way of them */
		from = dt_float(to) ? to == DT_F32 ? to : DT_F64 : to == DT_U64 ? to : DT_I64;
		if (!dt_float(to) && !dt_int(to))
			return unsupported(b, "strings cannot be cast to %s", dtypes[to].text);
		x = t_host(b->m, "str_parse", "d 0 N", ty_tensor(b->m, from, rank_of(x), x->type->dims), 1,
			&x);
		if (from == to)
			return x;
	}
	axes_new(b->m, rank_of(x), x->type->dims, axes);
	return t_tensor(b->m, rank_of(x), axes, cast_to(b, to, x_read(b->m, x, axes)));
}

static Node *
build_cast(Build *b)
{
	DType to = dtype_of_onnx((int)attr_int(b, "to"));

	if (to == DT_NONE)
		return unsupported(b, "element type %lld is not known",
			(long long)attr_int(b, "to"));
	return cast_tensor(b, to);
}

static Node *build_cast_like(Build *b) { return cast_tensor(b, dtype_of(b->in[1])); }

static Node *
build_bitcast(Build *b)
{
	DType to = dtype_of_onnx((int)attr_int(b, "to")), from = dtype_of(b->in[0]);
	Node *axes[MAX_RANK];

	if (to == DT_NONE || dtypes[to].bits == 0 || dtypes[from].bits == 0)
		return unsupported(b, "no bits of these types are known");
	if (dtypes[to].bits != dtypes[from].bits)
		return fail(b, "%s has %d bits, %s has %d", dtypes[from].text, dtypes[from].bits,
			dtypes[to].text, dtypes[to].bits);
	axes_new(b->m, rank_of(b->in[0]), b->in[0]->type->dims, axes);
	return t_tensor(b->m, rank_of(b->in[0]), axes,
		x_bits(b->m, to, x_read(b->m, b->in[0], axes)));
}

/* ---- the rest -------------------------------------------------------------------------------- */

static Node *build_identity(Build *b) { return b->in[0]; }

#define U_F "(x: float) {} -> y"
#define B_N "(a: num, b: a) {} -> y"
#define B_I "(a: int, b: a) {} -> y"
#define B_B "(a: bool, b: a) {} -> y"
#define V_N "(x: num, rest: x*) {} -> y"
#define V_F "(x: float, rest: x*) {} -> y"

const Op ops_elementwise[] = {
	/* arithmetic */
	ELEM("add",        "Add",        14, B_N, "a + b", "sum"),
	ELEM("sub",        "Sub",        14, B_N, "a - b", "difference"),
	ELEM("mul",        "Mul",        14, B_N, "a * b", "product"),
	ELEM("div",        "Div",        14, B_N, "a / b", "quotient; integers truncate"),
	ELEM("neg",        "Neg",        13, "(x: num) {} -> y", "-x", "negation"),
	ELEM("abs",        "Abs",        13, "(x: num) {} -> y", "abs(x)", "magnitude"),
	ELEM("sign",       "Sign",       13, "(x: num) {} -> y", "x > 0 ? 1 : x < 0 ? -1 : x",
		"1, 0 or -1"),
	ELEM("reciprocal", "Reciprocal", 13, U_F, "1 / x", "1 / x"),
	BUILD("mod",       "Mod",        28, "(a: num, b: a) {fmod: int = 0} -> y", build_mod,
		"remainder"),
	BUILD("pow",       "Pow",        15, "(x: num, y: num) {} -> z", build_pow,
		"power, in the base's type"),
	BUILD("min",       "Min",        13, V_N, build_min, "minimum; NaN if any is NaN"),
	BUILD("max",       "Max",        13, V_N, build_max, "maximum; NaN if any is NaN"),
	BUILD("sum",       "Sum",        13, V_F, build_sum, "sum of all operands"),
	BUILD("mean",      "Mean",       13, V_F, build_mean, "mean of all operands"),
	ELEM("sqrt",       "Sqrt",       13, U_F, "sqrt(x)", "square root"),
	ELEM("exp",        "Exp",        13, U_F, "exp(x)", "exponential"),
	ELEM("log",        "Log",        13, U_F, "log(x)", "natural logarithm"),
	ELEM("erf",        "Erf",        13, U_F, "erf(x)", "error function"),
	ELEM("floor",      "Floor",      13, U_F, "floor(x)", "round down"),
	ELEM("ceil",       "Ceil",       13, U_F, "ceil(x)", "round up"),
	ELEM("round",      "Round",      22, U_F, "rint(x)", "round to nearest, ties to even"),
	/* trigonometry */
	ELEM("sin",        "Sin",        22, U_F, "sin(x)", "sine"),
	ELEM("cos",        "Cos",        22, U_F, "cos(x)", "cosine"),
	ELEM("tan",        "Tan",        22, U_F, "tan(x)", "tangent"),
	ELEM("asin",       "Asin",       22, U_F, "asin(x)", "arc sine"),
	ELEM("acos",       "Acos",       22, U_F, "acos(x)", "arc cosine"),
	ELEM("atan",       "Atan",       22, U_F, "atan(x)", "arc tangent"),
	ELEM("sinh",       "Sinh",       22, U_F, "sinh(x)", "hyperbolic sine"),
	ELEM("cosh",       "Cosh",       22, U_F, "cosh(x)", "hyperbolic cosine"),
	ELEM("tanh",       "Tanh",       13, U_F, "tanh(x)", "hyperbolic tangent"),
	ELEM("asinh",      "Asinh",      22, U_F, "asinh(x)", "inverse hyperbolic sine"),
	ELEM("acosh",      "Acosh",      22, U_F, "acosh(x)", "inverse hyperbolic cosine"),
	ELEM("atanh",      "Atanh",      22, U_F, "atanh(x)", "inverse hyperbolic tangent"),
	/* activations */
	ELEM("relu",       "Relu",       14, "(x: num) {} -> y", "max(x, 0)", "max(x, 0)"),
	ELEM("sigmoid",    "Sigmoid",    13, U_F, "1 / (1 + exp(-x))", "logistic function"),
	ELEM("leaky_relu", "LeakyRelu",  16, "(x: float) {alpha: float = 0.01} -> y",
		"x < 0 ? alpha * x : x", "x, or alpha x below 0"),
	ELEM("prelu",      "PRelu",      16, "(x: num, slope: x) {} -> y", "x < 0 ? slope * x : x",
		"x, or slope x below 0"),
	ELEM("elu",        "Elu",        22, "(x: float) {alpha: float = 1} -> y",
		"x < 0 ? alpha * expm1(x) : x", "x, or alpha (e^x - 1) below 0"),
	ELEM("selu",       "Selu",       22, "(x: float) {alpha: float = 1.6732631921768188,"
		" gamma: float = 1.0507010221481323} -> y",
		"x < 0 ? gamma * (alpha * expm1(x)) : gamma * x", "scaled elu"),
	ELEM("celu",       "Celu",       28, "(x: float) {alpha: float = 1} -> y",
		"max(x, 0) + min(alpha * expm1(x / alpha), 0)", "continuously differentiable elu"),
	ELEM("gelu",       "Gelu",       20, "(x: float) {approximate: str = \"none\"} -> y",
		"approximate == \"tanh\""
		" ? 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * (x * x * x))))"
		" : 0.5 * x * (1 + erf(x * 0.7071067811865476))",
			"x times the normal distribution function"),
	ELEM("hard_sigmoid", "HardSigmoid", 22,
		"(x: float) {alpha: float = 0.2, beta: float = 0.5} -> y",
		"max(min(x * alpha + beta, 1), 0)", "alpha x + beta within 0 and 1"),
	ELEM("hard_swish", "HardSwish",  22, U_F,
		"x * max(min(x * 0.16666667163372040 + 0.5, 1), 0)", "x hard_sigmoid(x, 1/6)"),
	ELEM("mish",       "Mish",       22, U_F, "x * tanh(softplus(x))", "x tanh(softplus(x))"),
	ELEM("swish",      "Swish",      24, "(x: float) {alpha: float = 1} -> y",
		"x / (1 + exp(-(alpha * x)))", "x sigmoid(alpha x)"),
	ELEM("swiglu",     "SwiGLU",     28, "(a: float, b: a) {alpha: float = 1} -> y",
		"a / (1 + exp(-(alpha * a))) * b", "swish(a) b"),
	ELEM("softplus",   "Softplus",   22, U_F, "max(x, 0) + log1p(exp(-abs(x)))",
		"log(1 + e^x)"),
	ELEM("softsign",   "Softsign",   22, U_F, "x / (1 + abs(x))", "x / (1 + |x|)"),
	ELEM("thresholded_relu", "ThresholdedRelu", 22, "(x: float) {alpha: float = 1} -> y",
		"x > alpha ? x : 0", "x above alpha, else 0"),
	ELEM("shrink",     "Shrink",     9,  "(x: num) {bias: float = 0, lambd: float = 0.5} -> y",
		"v = cast(x, f64); cast(v < -lambd ? v + bias : v > lambd ? v - bias : 0, type(x))",
		"x moved toward 0 by bias, 0 within lambd"),
	ELEM("clip",       "Clip",       13, "(x: num, min: x?, max: x?) {} -> y",
		"a = has(min) ? max(x, min) : x; has(max) ? min(a, max) : a",
			"x within min and max"),
	/* comparison and logic */
	BUILD("equal",     "Equal",      19, "(a: data, b: a) {} -> y", build_equal, "equality"),
	ELEM("less",       "Less",       13, B_N, "a < b", "less"),
	ELEM("less_or_equal", "LessOrEqual", 16, B_N, "a <= b", "less or equal"),
	ELEM("greater",    "Greater",    13, B_N, "a > b", "greater"),
	ELEM("greater_or_equal", "GreaterOrEqual", 16, B_N, "a >= b", "greater or equal"),
	ELEM("and",        "And",        7,  B_B, "a & b", "both"),
	ELEM("or",         "Or",         7,  B_B, "a | b", "either"),
	ELEM("xor",        "Xor",        7,  B_B, "xor(a, b)", "exactly one"),
	ELEM("not",        "Not",        1,  "(x: bool) {} -> y", "!x", "negation"),
	ELEM("is_nan",     "IsNaN",      20, U_F, "isnan(acc(x))", "is it NaN?"),
	ELEM("is_inf",     "IsInf",      20,
		"(x: float) {detect_negative: int = 1, detect_positive: int = 1} -> y",
		"v = acc(x); detect_positive ? (detect_negative ? abs(v) == inf : v == inf)"
		" : detect_negative ? v == -inf : v < v", "is it infinite?"),
	BUILD("where",     "Where",      16, "(c: bool, x: data, y: x) {} -> z", build_where,
		"c ? x : y"),
	/* bits */
	BUILD("bit_shift", "BitShift",   28, "(x: int, y: x) {direction: str} -> z", build_shift,
		"shift by y bits"),
	ELEM("bitwise_and", "BitwiseAnd", 18, B_I, "a & b", "bitwise and"),
	ELEM("bitwise_or", "BitwiseOr",  18, B_I, "a | b", "bitwise or"),
	ELEM("bitwise_xor", "BitwiseXor", 18, B_I, "xor(a, b)", "bitwise exclusive or"),
	ELEM("bitwise_not", "BitwiseNot", 18, "(x: int) {} -> y", "!x", "bitwise complement"),
	/* types */
	BUILD("cast",      "Cast",       28,
		"(x: data) {round_mode: str = \"up\", saturate: int = 1, to: int} -> y", build_cast,
		"conversion"),
	BUILD("cast_like", "CastLike",   25,
		"(x: data, like: data) {round_mode: str = \"up\", saturate: int = 1} -> y",
		build_cast_like, "conversion to the type of another tensor"),
	BUILD("bitcast",   "BitCast",    26, "(x: any) {to: int} -> y", build_bitcast,
		"the same bits as another type"),
	BUILD("identity",  "Identity",   25, "(x: any) {} -> y", build_identity, "the operand"),
	{0}
};
