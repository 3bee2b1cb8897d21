/* Arithmetic on values, scalars or vectors: integers and floats. */
#include <string.h>
#include "llvm.h"

/* ---- integers -------------------------------------------------------------------------------- */

Val
widen(Fn *f, Val v, unsigned bits, bool sign)
{
	Ty t = vec_of(LLVMIntTypeInContext(f->cx, bits), val_lanes(v));
	unsigned have = val_bits(v);

	if (have == bits)
		return v;
	if (have > bits)
		return LLVMBuildTrunc(f->b, v, t, "");
	return sign ? LLVMBuildSExt(f->b, v, t, "") : LLVMBuildZExt(f->b, v, t, "");
}

bool
fits32(const Node *e)
{
	return e->lo >= INT32_MIN && e->hi <= INT32_MAX;
}

Val
divmod(Fn *f, OpCode op, DType d, Node *na, Node *nb, Val a, Val b)
{
	bool sign = dt_signed(d), floored = op == O_FLOORDIV || op == O_MOD;
	bool want_q = op == O_DIV || op == O_FLOORDIV;
	bool nonneg = !sign || (na->lo >= 0 && nb->lo >= 0);
	bool nonzero = nb->lo > 0 || nb->hi < 0,
		may_m1 = sign && !nonneg && nb->lo <= -1 && nb->hi >= -1;
	Val zero = like_int(f, b, 0), one = like_int(f, b, 1), is0 = NULL, ism1 = NULL, q, r, fix, bad;
	int64_t v;

	if (floored && is_int(nb, &v) && v > 0 && (v & (v - 1)) == 0 && sign)
		return want_q ? LLVMBuildAShr(f->b, a, like_int(f, b, __builtin_ctzll((uint64_t)v)), "")
			: LLVMBuildAnd(f->b, a, like_int(f, b, v - 1), "");
	if (!nonzero) {
		is0 = LLVMBuildICmp(f->b, LLVMIntEQ, b, zero, "");
		b = LLVMBuildSelect(f->b, is0, one, b, "");
	}
	if (may_m1 && d != DT_INDEX) {
		/* x / -1 = -x, x rem -1 = 0, without the trap of MIN / -1 */
		ism1 = LLVMBuildICmp(f->b, LLVMIntEQ, b, like_int(f, b, -1), "");
		b = LLVMBuildSelect(f->b, ism1, one, b, "");
	}
	q = nonneg ? LLVMBuildUDiv(f->b, a, b, "") : LLVMBuildSDiv(f->b, a, b, "");
	r = LLVMBuildSub(f->b, a, LLVMBuildMul(f->b, q, b, ""), "");
	if (floored && !nonneg) {
		bad = LLVMBuildAnd(f->b, LLVMBuildICmp(f->b, LLVMIntNE, r, zero, ""),
			LLVMBuildICmp(f->b, LLVMIntSLT, LLVMBuildXor(f->b, r, b, ""), zero, ""), "");
		fix = LLVMBuildSelect(f->b, bad, one, zero, "");
		q = LLVMBuildSub(f->b, q, fix, "");
		r = LLVMBuildAdd(f->b, r, LLVMBuildSelect(f->b, bad, b, zero, ""), "");
	}
	if (ism1) {
		q = LLVMBuildSelect(f->b, ism1, LLVMBuildNeg(f->b, a, ""), q, "");
		r = LLVMBuildSelect(f->b, ism1, zero, r, "");
	}
	if (want_q)
		return is0 ? LLVMBuildSelect(f->b, is0, zero, q, "") : q;
	return is0 ? LLVMBuildSelect(f->b, is0, zero, r, "") : r;
}

Val
shift(Fn *f, OpCode op, DType d, Val a, Val b)
{
	int bits = (int)val_bits(a);
	Val in = LLVMBuildICmp(f->b, LLVMIntULT, b, like_int(f, b, bits), "");
	Val safe = LLVMBuildSelect(f->b, in, b,
		like_int(f, b, op == O_SHR && dt_signed(d) ? bits - 1 : 0), "");
	Val r;

	if (op == O_SHR && dt_signed(d))
		return LLVMBuildAShr(f->b, a, safe, "");
	r = op == O_SHL ? LLVMBuildShl(f->b, a, safe, "") : LLVMBuildLShr(f->b, a, safe, "");
	return LLVMBuildSelect(f->b, in, r, like_int(f, a, 0), "");
}

Val
compare(Fn *f, OpCode op, DType d, Val a, Val b)
{
	static const LLVMIntPredicate ip[2][4] = {{LLVMIntULT, LLVMIntULE, LLVMIntEQ, LLVMIntNE},
		{LLVMIntSLT, LLVMIntSLE, LLVMIntEQ, LLVMIntNE}};
	static const LLVMRealPredicate fp[4] = {LLVMRealOLT, LLVMRealOLE, LLVMRealOEQ, LLVMRealUNE};
	int i = op == O_LT ? 0 : op == O_LE ? 1 : op == O_EQ ? 2 : 3;

	if (dt_float(d))
		return LLVMBuildFCmp(f->b, fp[i], a, b, "");
	return LLVMBuildICmp(f->b, ip[dt_signed(d)][i], a, b, "");
}

/* ---- floats ---------------------------------------------------------------------------------- */

bool
x86(const Machine *t)
{
	return strncmp(t->triple, "x86_64", 6) == 0;
}

/* AVX-512's range instruction knows that -0 < +0, but prefers numbers to NaN: 3 instructions where
 * LLVM's own expansion has 6. NULL if the machine or the width has none. */
static Val
by_range(Fn *f, bool max, DType d, Val a, Val b)
{
	static const struct { DType d; int lanes; const char *name; } rows[] = {
		{DT_F32, 16, "llvm.x86.avx512.mask.range.ps.512"},
			{DT_F32, 8, "llvm.x86.avx512.mask.range.ps.256"},
		{DT_F32, 4, "llvm.x86.avx512.mask.range.ps.128"},
		{DT_F64, 8, "llvm.x86.avx512.mask.range.pd.512"},
		{DT_F64, 4, "llvm.x86.avx512.mask.range.pd.256"},
		{DT_F64, 2, "llvm.x86.avx512.mask.range.pd.128"},
	};
	Ty i32 = LLVMInt32TypeInContext(f->cx), mask = LLVMIntTypeInContext(f->cx, 8);
	Val in[6], r, nan;
	size_t i;

	if (!x86(f->t) || !machine_has(f->t, "avx512dq") || !machine_has(f->t, "avx512vl")
	 || LLVMIsConstant(a)
	 || LLVMIsConstant(b))
		return NULL;
	for (i = 0; i < sizeof rows / sizeof *rows; i++)
		if (rows[i].d == d && rows[i].lanes == val_lanes(a))
			break;
	if (i == sizeof rows / sizeof *rows)
		return NULL;
	if (rows[i].lanes == 16)
		mask = LLVMIntTypeInContext(f->cx, 16);
	in[0] = a;
	in[1] = b;
	in[2] = LLVMConstInt(i32, max ? 5 : 4, false);   /* maximum or minimum, with its own sign */
	in[3] = LLVMGetPoison(LLVMTypeOf(a));
	in[4] = LLVMConstAllOnes(mask);
	in[5] = LLVMConstInt(i32, 4, false);             /* the current rounding: nothing rounds */
	r = intrinsic(f, rows[i].name, NULL, NULL, rows[i].lanes * dtypes[d].bits == 512 ? 6 : 5, in);
	nan = LLVMBuildFCmp(f->b, LLVMRealUNO, a, b, "");
	return LLVMBuildSelect(f->b, nan, LLVMBuildFAdd(f->b, a, b, ""), r, "");
}

Val
minmax(Fn *f, bool max, DType d, Val a, Val b)
{
	Val c;

	if (dt_float(d) && is_vec(a) && (c = by_range(f, max, d, a, b)))
		return c;
	if (dt_float(d))
		return intr2(f, max ? "llvm.maximum" : "llvm.minimum", a, b);
	if (d == DT_BOOL)
		return max ? LLVMBuildOr(f->b, a, b, "") : LLVMBuildAnd(f->b, a, b, "");
	c = compare(f, O_LT, d, a, b);
	return LLVMBuildSelect(f->b, c, max ? b : a, max ? a : b, "");
}

/* Without SSE4.1 the rounding functions are library calls, and RISC-V's vectors change the rounding
 * mode for each: through integers, exact below 2^23 (2^52); beyond, the value itself. */
static Val
round_by_int(Fn *f, OpCode op, DType d, Val x)
{
	Val big = like_flt(f, x, d == DT_F32 ? 8388608.0 : 4503599627370496.0);
	Val ax = intr1(f, "llvm.fabs", x), one = like_flt(f, x, 1), zero = like_flt(f, x, 0), t, c;
	Ty it = vec_of(LLVMIntTypeInContext(f->cx, (unsigned)dtypes[d].bits), val_lanes(x));

	if (op == O_RINT) {
		t = LLVMBuildFSub(f->b, LLVMBuildFAdd(f->b, ax, big, ""), big, "");
	} else {
		c = LLVMBuildFCmp(f->b, LLVMRealOLT, ax, big, "");
		t = LLVMBuildSelect(f->b, c, x, zero, "");
		t = LLVMBuildSIToFP(f->b, LLVMBuildFPToSI(f->b, t, it, ""), LLVMTypeOf(x), "");
		if (op != O_TRUNC) {
			c = LLVMBuildFCmp(f->b, op == O_FLOOR ? LLVMRealOGT : LLVMRealOLT, t, x, "");
			c = LLVMBuildSelect(f->b, c, one, zero, "");
			t = op == O_FLOOR ? LLVMBuildFSub(f->b, t, c, "") : LLVMBuildFAdd(f->b, t, c, "");
		}
	}
	t = intr2(f, "llvm.copysign", t, x);
	return LLVMBuildSelect(f->b, LLVMBuildFCmp(f->b, LLVMRealOLT, ax, big, ""), t, x, "");
}

Val
rounding(Fn *f, OpCode op, DType d, Val x)
{
	if ((x86(f->t) && !machine_has(f->t, "sse4.1")) || (is_vec(x) && machine_has(f->t, "v")))
		return round_by_int(f, op, d, x);
	return intr1(f, op == O_FLOOR ? "llvm.floor" : op == O_CEIL ? "llvm.ceil"
		: op == O_TRUNC ? "llvm.trunc" : "llvm.roundeven", x);
}

/* s = a + b, *e = what the rounding lost (Knuth). */
static Val
two_sum(Fn *f, Val a, Val b, Val *e)
{
	Val s = LLVMBuildFAdd(f->b, a, b, ""), bb = LLVMBuildFSub(f->b, s, a, "");

	*e = LLVMBuildFAdd(f->b, LLVMBuildFSub(f->b, a, LLVMBuildFSub(f->b, s, bb, ""), ""),
		LLVMBuildFSub(f->b, b, bb, ""), "");
	return s;
}

/* f32 fma on a machine without: the product is exact in f64, the sum is rounded to odd there, so
 * that the rounding to f32 is the only one (Boldo, Melquiond: Emulation of FMA). */
static Val
fma_by_double(Fn *f, Val a, Val b, Val c)
{
	int n = val_lanes(a);
	Ty dt = vec_of(LLVMDoubleTypeInContext(f->cx), n),
		it = vec_of(LLVMInt64TypeInContext(f->cx), n);
	Val p = LLVMBuildFMul(f->b, LLVMBuildFPExt(f->b, a, dt, ""), LLVMBuildFPExt(f->b, b, dt, ""),
		""), e, s;
	Val i, up, one, fix, inexact, even, finite;

	s = two_sum(f, p, LLVMBuildFPExt(f->b, c, dt, ""), &e);
	i = LLVMBuildBitCast(f->b, s, it, "");
	one = like_int(f, i, 1);
	inexact = LLVMBuildFCmp(f->b, LLVMRealONE, e, like_flt(f, e, 0), "");
	even = LLVMBuildICmp(f->b, LLVMIntEQ, LLVMBuildAnd(f->b, i, one, ""), like_int(f, i, 0), "");
	finite = LLVMBuildFCmp(f->b, LLVMRealOLT, intr1(f, "llvm.fabs", s), like_flt(f, s, 1e300), "");
	/* away from zero when the error has the sum's sign, else towards it: the odd neighbour */
	up = LLVMBuildICmp(f->b, LLVMIntSGE,
		LLVMBuildXor(f->b, i, LLVMBuildBitCast(f->b, e, it, ""), ""),
		like_int(f, i, 0), "");
	fix = LLVMBuildSelect(f->b, up, one, like_int(f, i, -1), "");
	fix = LLVMBuildSelect(f->b,
		LLVMBuildAnd(f->b, LLVMBuildAnd(f->b, inexact, even, ""), finite, ""),
		fix, like_int(f, i, 0), "");
	s = LLVMBuildBitCast(f->b, LLVMBuildAdd(f->b, i, fix, ""), dt, "");
	return LLVMBuildFPTrunc(f->b, s, LLVMTypeOf(a), "");
}

Val
fused(Fn *f, OpCode op, DType d, Val a, Val b, Val c)
{
	bool has = machine_fma(f->t);

	if (!dt_float(d))
		return LLVMBuildAdd(f->b, LLVMBuildMul(f->b, a, b, ""), c, "");
	if (has)
		return intrinsic(f, "llvm.fma", LLVMTypeOf(a), NULL, 3, (Val[]){a, b, c});
	if (op == O_FMA && d == DT_F32)
		return fma_by_double(f, a, b, c);
	return LLVMBuildFAdd(f->b, LLVMBuildFMul(f->b, a, b, ""), c, "");
}
