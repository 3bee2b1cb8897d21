/* Conversions between types of elements, and their bits. */
#include <math.h>
#include <string.h>
#include "llvm.h"

/* ---- casts ----------------------------------------------------------------------------------- */

/* f16 conversion in hardware? */
static bool
native_half(const Machine *t)
{
	return machine_has(t, "f16c") || strncmp(t->triple, "aarch64", 7) == 0;
}

static Val
bf16_to_f32(Fn *f, Val v)
{
	Ty ft = vec_of(LLVMFloatTypeInContext(f->cx), val_lanes(v));

	v = widen(f, v, 32, false);
	return LLVMBuildBitCast(f->b, LLVMBuildShl(f->b, v, like_int(f, v, 16), ""), ft, "");
}

/* Nearest even; NaN stays NaN. */
static Val
f32_to_bf16(Fn *f, Val v)
{
	Ty it = vec_of(LLVMInt32TypeInContext(f->cx), val_lanes(v));
	Val i = LLVMBuildBitCast(f->b, v, it, ""), nan = LLVMBuildFCmp(f->b, LLVMRealUNO, v, v, "");
	Val hi = LLVMBuildLShr(f->b, i, like_int(f, i, 16), ""), r;

	r = LLVMBuildAdd(f->b, LLVMBuildAnd(f->b, hi, like_int(f, i, 1), ""), like_int(f, i, 0x7fff),
		"");
	r = LLVMBuildLShr(f->b, LLVMBuildAdd(f->b, i, r, ""), like_int(f, i, 16), "");
	r = LLVMBuildSelect(f->b, nan, LLVMBuildOr(f->b, hi, like_int(f, i, 0x40), ""), r, "");
	return widen(f, r, 16, false);
}

/* f16 bits -> f32 by integers: the exponent is rebased by a multiplication, which also normalises
 * subnormals; infinity and NaN get the exponent of f32. */
static Val
f16_to_f32(Fn *f, Val v)
{
	int n = val_lanes(v);
	Ty ft = vec_of(LLVMFloatTypeInContext(f->cx), n), it = vec_of(LLVMInt32TypeInContext(f->cx), n);
	Val w, mag, sign, x, special;

	if (native_half(f->t)) {
		v = LLVMBuildBitCast(f->b, v, vec_of(LLVMHalfTypeInContext(f->cx), n), "");
		return LLVMBuildFPExt(f->b, v, ft, "");
	}
	w = widen(f, v, 32, false);
	mag = LLVMBuildShl(f->b, LLVMBuildAnd(f->b, w, like_int(f, w, 0x7fff), ""), like_int(f, w, 13),
		"");
	sign = LLVMBuildShl(f->b, LLVMBuildAnd(f->b, w, like_int(f, w, 0x8000), ""), like_int(f, w, 16),
		"");
	x = LLVMBuildFMul(f->b, LLVMBuildBitCast(f->b, mag, ft, ""),
		like_flt(f, LLVMGetPoison(ft), 0x1p112), "");
	x = LLVMBuildBitCast(f->b, x, it, "");
	special = LLVMBuildICmp(f->b, LLVMIntUGE, mag, like_int(f, mag, 0x7c00 << 13), "");
	x = LLVMBuildSelect(f->b, special, LLVMBuildOr(f->b, mag, like_int(f, mag, 0x7f800000), ""), x,
		"");
	return LLVMBuildBitCast(f->b, LLVMBuildOr(f->b, x, sign, ""), ft, "");
}

/* Nearest even. Subnormal results: adding 0.5 aligns the significand so that the addition
 * rounds. */
static Val
f32_to_f16(Fn *f, Val v)
{
	int n = val_lanes(v);
	Ty ft = LLVMTypeOf(v), it = vec_of(LLVMInt32TypeInContext(f->cx), n);
	Val i, sign, mag, r, lsb, sub, big, nan;

	if (native_half(f->t)) {
		v = LLVMBuildFPTrunc(f->b, v, vec_of(LLVMHalfTypeInContext(f->cx), n), "");
		return LLVMBuildBitCast(f->b, v, vec_of(LLVMInt16TypeInContext(f->cx), n), "");
	}
	i = LLVMBuildBitCast(f->b, v, it, "");
	sign = LLVMBuildAnd(f->b, LLVMBuildLShr(f->b, i, like_int(f, i, 16), ""),
		like_int(f, i, 0x8000), "");
	mag = LLVMBuildAnd(f->b, i, like_int(f, i, 0x7fffffff), "");
	lsb = LLVMBuildAnd(f->b, LLVMBuildLShr(f->b, mag, like_int(f, i, 13), ""), like_int(f, i, 1),
		"");
	r = LLVMBuildAdd(f->b, mag, LLVMBuildAdd(f->b, lsb, like_int(f, i, 0xfff - (112 << 23)), ""),
		"");
	r = LLVMBuildLShr(f->b, r, like_int(f, i, 13), "");
	sub = LLVMBuildFAdd(f->b, LLVMBuildBitCast(f->b, mag, ft, ""), like_flt(f, v, 0.5), "");
	sub = LLVMBuildSub(f->b, LLVMBuildBitCast(f->b, sub, it, ""), like_int(f, i, 0x3f000000), "");
	r = LLVMBuildSelect(f->b, LLVMBuildICmp(f->b, LLVMIntULT, mag, like_int(f, i, 113 << 23), ""),
		sub, r, "");
	big = LLVMBuildICmp(f->b, LLVMIntUGE, mag, like_int(f, i, 0x477ff000), "");
	r = LLVMBuildSelect(f->b, big, like_int(f, i, 0x7c00), r, "");
	nan = LLVMBuildICmp(f->b, LLVMIntUGT, mag, like_int(f, i, 0x7f800000), "");
	r = LLVMBuildSelect(f->b, nan,
		LLVMBuildOr(f->b, LLVMBuildLShr(f->b, mag, like_int(f, i, 13), ""),
		like_int(f, i, 0x7e00), ""), r, "");
	return widen(f, LLVMBuildOr(f->b, LLVMBuildAnd(f->b, r, like_int(f, r, 0x7fff), ""), sign, ""),
		16, false);
}

static Val
int_to_float(Fn *f, DType from, Ty to, Val v)
{
	return dt_signed(from) ? LLVMBuildSIToFP(f->b, v, to, "") : LLVMBuildUIToFP(f->b, v, to, "");
}

/* v, but not below (above) the bound; NaN becomes the bound. */
static Val
clamp_float(Fn *f, Val v, double bound, bool above)
{
	Val b = like_flt(f, v, bound);

	return LLVMBuildSelect(f->b, LLVMBuildFCmp(f->b, above ? LLVMRealOLT : LLVMRealOGT, v, b, ""),
		v, b, "");
}

/* Is e rint(x), or that plus a small whole number? Then x, and the number. */
static Node *
rounded(Node *e, double *plus)
{
	*plus = 0;
	if (e->code == O_ADD && e->in[1]->code == O_NUM && fabs(e->in[1]->num.f) <= 65535
	 && rint(e->in[1]->num.f) == e->in[1]->num.f) {
		*plus = e->in[1]->num.f;
		e = e->in[0];
	}
	return e->code == O_RINT ? e->in[0] : NULL;
}

/*
 * To an integer of at most 16 bits, as an i32: clamped as a float, then converted. LLVM makes scalar
 * code of the saturating conversion to vectors of such integers. Rounding (quantization) is one with
 * the conversion where the machine has that for vectors.
 */
static Val
float_to_narrow(Fn *f, DType to, Node *e)
{
	int bits = dtypes[to].bits;
	double lo = dt_signed(to) ? -ldexp(1, bits - 1) : 0, hi = lo + ldexp(1, bits) - 1, plus = 0;
	Node *r = dtype_of(e) == DT_F32 && x86(f->t) && varies(f, e) ? rounded(e, &plus) : NULL;
	Val v = ex(f, r ? r : e), x;
	Ty i32 = vec_of(LLVMInt32TypeInContext(f->cx), val_lanes(v));

	x = clamp_float(f, clamp_float(f, v, lo - plus, false), hi - plus, true);
	if (lo < 0)                              /* a NaN became lo */
		x = LLVMBuildSelect(f->b, LLVMBuildFCmp(f->b, LLVMRealUNO, v, v, ""), like_flt(f, v, -plus),
			x, "");
	x = r ? intrinsic(f, "llvm.lrint", i32, LLVMTypeOf(v), 1, &x)
		: LLVMBuildFPToSI(f->b, x, i32, "");
	return plus != 0 ? LLVMBuildAdd(f->b, x, like_int(f, x, (int64_t)plus), "") : x;
}

/* Truncates, saturates, NaN to 0. */
static Val
float_to_int(Fn *f, DType to, Node *e)
{
	Val v;

	if (dtypes[to].bits <= 16)
		return widen(f, float_to_narrow(f, to, e), (unsigned)dtypes[to].bits, true);
	v = ex(f, e);
	return intrinsic(f, dt_signed(to) ? "llvm.fptosi.sat" : "llvm.fptoui.sat",
		vec_of(reg_type(f, to), val_lanes(v)), LLVMTypeOf(v), 1, &v);
}

bool
as_bits(DType d)
{
	return dt_float(d) && d != DT_F32 && d != DT_F64;
}

/* From or to f32 by integer operations; the expansion knows 4-bit floats by their code. */
static Node *
small_cast(Module *m, DType to, DType from, Node *x)
{
	if (from != DT_F32 && to != DT_F32) {    /* which x_cast would join again */
		x = x_cast(m, DT_F32, x);
		return x_raw(m, O_CAST, 1, &x, to);
	}
	if (from == DT_F4E2M1)
		return math_cast(m, to, from, x_bits(m, DT_U4, x));
	x = math_cast(m, to, from, x);
	return to == DT_F4E2M1 && x ? x_bits(m, to, x_cast(m, DT_U4, x)) : x;
}

Val
ex_cast(Fn *f, Node *e)
{
	DType to = dtype_of(e), from = dtype_of(e->in[0]);
	Val v, zero;
	Ty t;
	Node *x = e->in[0];

	if ((from == DT_F32 || from == DT_F64) && dt_int(to) && to != DT_INDEX)
		return float_to_int(f, to, e->in[0]);
	if (dt_int(from) && dtypes[from].bits <= 16 && (to == DT_I32 || to == DT_U32) && x->code == O_CAST
	 && (dtype_of(x->in[0]) == DT_F32 || dtype_of(x->in[0]) == DT_F64))
		return float_to_narrow(f, from, x->in[0]);
	v = ex(f, e->in[0]);
	if (to == from)
		return v;
	t = vec_of(reg_type(f, to), val_lanes(v));
	if (from == DT_BF16 && to == DT_F32)
		return bf16_to_f32(f, v);
	if (from == DT_F32 && to == DT_BF16)
		return f32_to_bf16(f, v);
	if (from == DT_F16 && to == DT_F32)
		return f16_to_f32(f, v);
	if (from == DT_F32 && to == DT_F16)
		return f32_to_f16(f, v);
	if (as_bits(from) || as_bits(to)) {
		x = small_cast(f->m, to, from, e->in[0]);
		return x ? ex(f, x) : bug(f, "a cast of a small float type");
	}
	if (to == DT_BOOL) {
		zero = LLVMConstNull(LLVMTypeOf(v));
		return dt_float(from) ? LLVMBuildFCmp(f->b, LLVMRealUNE, v, zero, "")
			: LLVMBuildICmp(f->b, LLVMIntNE, v, zero, "");
	}
	if (dt_float(from) && dt_float(to))
		return to == DT_F64 ? LLVMBuildFPExt(f->b, v, t, "") : LLVMBuildFPTrunc(f->b, v, t, "");
	if (dt_float(from))
		return float_to_int(f, to, e->in[0]);
	if (dt_float(to))
		return int_to_float(f, from, t, v);
	if (to == DT_INDEX && is_vec(v) && val_bits(v) <= 32 && fits32(e))
		return widen(f, v, 32, dt_signed(from));
	return widen(f, v, (unsigned)dtypes[to].bits, dt_signed(from));
}

Val
ex_bits(Fn *f, Node *e)
{
	Val v = ex(f, e->in[0]);
	Ty t = vec_of(reg_type(f, dtype_of(e)), val_lanes(v));

	if (dtype_of(e) == DT_BOOL)
		return LLVMBuildICmp(f->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
	if (dtype_of(e->in[0]) == DT_BOOL)
		return widen(f, v, (unsigned)dtypes[dtype_of(e)].bits, false);
	return LLVMTypeOf(v) == t ? v : LLVMBuildBitCast(f->b, v, t, "");
}
