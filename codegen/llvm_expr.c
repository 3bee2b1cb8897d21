/*
 * Scalar expressions, as scalars or as vectors over the lanes of a vector loop. Operations follow
 * scalar.def to the letter: guards where LLVM's own are undefined, no fast-math, no contraction
 * but muladd, and never an intrinsic that the machine would call a library for.
 */
#include <math.h>
#include <string.h>
#include "llvm.h"

/* ---- types and constants -------------------------------------------------------------------- */

bool
is_vec(Val v)
{
	return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind;
}

Ty
vec_of(Ty t, int lanes)
{
	return lanes ? LLVMVectorType(t, (unsigned)lanes) : t;
}

Ty
reg_type(Fn *f, DType d)
{
	if (d == DT_F32)
		return LLVMFloatTypeInContext(f->cx);
	if (d == DT_F64)
		return LLVMDoubleTypeInContext(f->cx);
	if (d == DT_BOOL)
		return LLVMInt1TypeInContext(f->cx);
	return LLVMIntTypeInContext(f->cx, (unsigned)dtypes[d].bits);
}

Ty
mem_type(LLVMContextRef cx, DType d)
{
	if (d == DT_F32)
		return LLVMFloatTypeInContext(cx);
	if (d == DT_F64)
		return LLVMDoubleTypeInContext(cx);
	return LLVMIntTypeInContext(cx, dtypes[d].bits < 8 ? 8 : (unsigned)dtypes[d].bits);
}

Val
i64c(Fn *f, int64_t v)
{
	return LLVMConstInt(LLVMInt64TypeInContext(f->cx), (uint64_t)v, true);
}

static Ty
elem_of(Val v)
{
	Ty t = LLVMTypeOf(v);

	return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t;
}

static int
lanes_of(Val v)
{
	return is_vec(v) ? (int)LLVMGetVectorSize(LLVMTypeOf(v)) : 0;
}

static unsigned
bits_of(Val v)
{
	return LLVMGetIntTypeWidth(elem_of(v));
}

Val
splat(Fn *f, Val v, int lanes)
{
	Ty t;
	Val u;

	if (!lanes || is_vec(v))
		return v;
	t = vec_of(LLVMTypeOf(v), lanes);
	u = LLVMBuildInsertElement(f->b, LLVMGetPoison(t), v, i64c(f, 0), "");
	return LLVMBuildShuffleVector(f->b, u, LLVMGetPoison(t),
		LLVMConstNull(vec_of(LLVMInt32TypeInContext(f->cx), lanes)), "");
}

/* An integer constant of the type of v. */
static Val
like_int(Fn *f, Val v, int64_t k)
{
	return splat(f, LLVMConstInt(elem_of(v), (uint64_t)k, true), lanes_of(v));
}

static Val
like_flt(Fn *f, Val v, double k)
{
	return splat(f, LLVMConstReal(elem_of(v), k), lanes_of(v));
}

static Val
num(Fn *f, DType d, Num n)
{
	uint64_t bits = 0;

	if (!dt_float(d))
		return LLVMConstInt(reg_type(f, d), (uint64_t)n.i, true);
	data_set(&bits, d, 0, n);
	if (d == DT_F32)
		return LLVMConstBitCast(LLVMConstInt(LLVMInt32TypeInContext(f->cx), bits, false), reg_type(f, d));
	if (d == DT_F64)
		return LLVMConstReal(reg_type(f, d), n.f);
	return LLVMConstInt(reg_type(f, d), bits, false);
}

Val
bug(Fn *f, const char *what)
{
	if (!f->why)
		f->why = what;
	return LLVMGetPoison(LLVMInt64TypeInContext(f->cx));
}

Block
new_block(Fn *f, const char *name)
{
	return LLVMAppendBasicBlockInContext(f->cx, f->fn, name);
}

Val
intrinsic(Fn *f, const char *name, Ty o1, Ty o2, int n, Val *args)
{
	Ty o[2] = {o1, o2};
	unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
	size_t no = o2 ? 2 : o1 ? 1 : 0;
	Val fn = LLVMGetIntrinsicDeclaration(f->mod, id, o, no);

	return LLVMBuildCall2(f->b, LLVMIntrinsicGetType(f->cx, id, o, no), fn, args, (unsigned)n, "");
}

static Val
intr1(Fn *f, const char *name, Val a)
{
	return intrinsic(f, name, LLVMTypeOf(a), NULL, 1, &a);
}

static Val
intr2(Fn *f, const char *name, Val a, Val b)
{
	return intrinsic(f, name, LLVMTypeOf(a), NULL, 2, (Val[]){a, b});
}

/* ---- what varies over the vector loop ---------------------------------------------------------- */

bool
varies(Fn *f, Node *e)
{
	const Mem *mem;
	void *known;
	bool v = false;
	int i;

	if (!f->vaxis || e->code == O_NUM || e->code == O_SYM)
		return false;
	if (e->code == O_AXIS)
		return e == f->vaxis;
	known = map_get(&f->varies, e);
	if (known)
		return known == (void *)2;
	if (e->code == O_LOAD) {
		mem = map_get(&f->mem, e->in[0]);
		v = mem && mem->lanes;
	}
	for (i = e->code == O_LOAD || e->code == O_FOLD; i < e->nin && !v; i++)
		v = varies(f, e->in[i]);
	map_put(&f->varies, e, (void *)(v ? (intptr_t)2 : (intptr_t)1));
	return v;
}

static bool
has_effect_n(Node *e, int depth)
{
	int i;

	switch (e->code) {
	case O_LOAD:
		if (e->in[0]->type->space == SP_REG)
			break;
		return true;
	case O_BOUND:
		return true;
	case O_BUFFER: case O_NUM: case O_SYM: case O_AXIS: case O_LET: case O_CALL: case O_FOLD:
		return false;
	default:
		break;
	}
	if (depth > 64)
		return true;
	for (i = 0; i < e->nin; i++)
		if (has_effect_n(e->in[i], depth + 1))
			return true;
	return false;
}

/* Trees of a thousand nodes count as having effects: the answer is only about what may be hoisted. */
bool
has_effect(Node *e)
{
	return e->size > 1000 || has_effect_n(e, 0);
}

/* ---- memo ------------------------------------------------------------------------------------ */

static bool
stable(Fn *f, Node *e)
{
	const Mem *mem;
	void *known;
	bool s = true;
	int i;

	switch (e->code) {
	case O_NUM: case O_SYM: case O_AXIS: case O_LET: case O_CALL: case O_BUFFER:
		return true;
	case O_FOLD:
		return false;
	case O_LOAD:
		mem = map_get(&f->mem, e->in[0]);
		if (!mem || !mem->fixed)
			return false;
		break;
	default:
		break;
	}
	known = map_get(&f->stable, e);
	if (known)
		return known == (void *)2;
	for (i = 0; i < e->nin && s; i++)
		s = stable(f, e->in[i]);
	map_put(&f->stable, e, (void *)(s ? (intptr_t)2 : (intptr_t)1));
	return s;
}

Mark
memo_mark(Fn *f)
{
	return (Mark){f->kept.n, f->passing.n};
}

static void
forget(Fn *f, struct MemoLog *l, int n)
{
	while (l->n > n)
		map_put(&f->memo, l->at[--l->n], NULL);
}

void
memo_undo(Fn *f, Mark m)
{
	forget(f, &f->kept, m.kept);
	forget(f, &f->passing, m.passing);
}

void
memo_next(Fn *f)
{
	forget(f, &f->passing, 0);
}

static void
memo_put(Fn *f, Node *e, Val v)
{
	struct MemoLog *l = stable(f, e) ? &f->kept : &f->passing;

	if (l->n == l->cap) {
		Node **old = l->at;

		l->cap = l->cap ? l->cap * 2 : 256;
		l->at = arena_alloc(f->m->arena, sizeof *l->at * (size_t)l->cap);
		if (l->n)
			memcpy(l->at, old, sizeof *l->at * (size_t)l->n);
	}
	l->at[l->n++] = e;
	map_put(&f->memo, e, v);
}

/* ---- integers -------------------------------------------------------------------------------- */

/* An integer vector or scalar in another width. */
static Val
widen(Fn *f, Val v, unsigned bits, bool sign)
{
	Ty t = vec_of(LLVMIntTypeInContext(f->cx, bits), lanes_of(v));
	unsigned have = bits_of(v);

	if (have == bits)
		return v;
	if (have > bits)
		return LLVMBuildTrunc(f->b, v, t, "");
	return sign ? LLVMBuildSExt(f->b, v, t, "") : LLVMBuildZExt(f->b, v, t, "");
}

static bool
fits32(const Node *e)
{
	return e->lo >= INT32_MIN && e->hi <= INT32_MAX;
}

static Val
divmod(Fn *f, OpCode op, DType d, Node *na, Node *nb, Val a, Val b)
{
	bool sign = dt_signed(d), floored = op == O_FLOORDIV || op == O_MOD;
	bool want_q = op == O_DIV || op == O_FLOORDIV;
	bool nonneg = !sign || (na->lo >= 0 && nb->lo >= 0);
	bool nonzero = nb->lo > 0 || nb->hi < 0, may_m1 = sign && !nonneg && nb->lo <= -1 && nb->hi >= -1;
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

static Val
shift(Fn *f, OpCode op, DType d, Val a, Val b)
{
	int bits = (int)bits_of(a);
	Val in = LLVMBuildICmp(f->b, LLVMIntULT, b, like_int(f, b, bits), "");
	Val safe = LLVMBuildSelect(f->b, in, b, like_int(f, b, op == O_SHR && dt_signed(d) ? bits - 1 : 0), "");
	Val r;

	if (op == O_SHR && dt_signed(d))
		return LLVMBuildAShr(f->b, a, safe, "");
	r = op == O_SHL ? LLVMBuildShl(f->b, a, safe, "") : LLVMBuildLShr(f->b, a, safe, "");
	return LLVMBuildSelect(f->b, in, r, like_int(f, a, 0), "");
}

static Val
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

/* ---- floats ----------------------------------------------------------------------------------- */

static bool
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
		{DT_F32, 16, "llvm.x86.avx512.mask.range.ps.512"}, {DT_F32, 8, "llvm.x86.avx512.mask.range.ps.256"},
		{DT_F32, 4, "llvm.x86.avx512.mask.range.ps.128"}, {DT_F64, 8, "llvm.x86.avx512.mask.range.pd.512"},
		{DT_F64, 4, "llvm.x86.avx512.mask.range.pd.256"}, {DT_F64, 2, "llvm.x86.avx512.mask.range.pd.128"},
	};
	Ty i32 = LLVMInt32TypeInContext(f->cx), mask = LLVMIntTypeInContext(f->cx, 8);
	Val in[6], r, nan;
	size_t i;

	if (!x86(f->t) || !machine_has(f->t, "avx512dq") || !machine_has(f->t, "avx512vl") || LLVMIsConstant(a)
	 || LLVMIsConstant(b))
		return NULL;
	for (i = 0; i < sizeof rows / sizeof *rows; i++)
		if (rows[i].d == d && rows[i].lanes == lanes_of(a))
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

static Val
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
	Ty it = vec_of(LLVMIntTypeInContext(f->cx, (unsigned)dtypes[d].bits), lanes_of(x));

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

static Val
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
	int n = lanes_of(a);
	Ty dt = vec_of(LLVMDoubleTypeInContext(f->cx), n), it = vec_of(LLVMInt64TypeInContext(f->cx), n);
	Val p = LLVMBuildFMul(f->b, LLVMBuildFPExt(f->b, a, dt, ""), LLVMBuildFPExt(f->b, b, dt, ""), ""), e, s;
	Val i, up, one, fix, inexact, even, finite;

	s = two_sum(f, p, LLVMBuildFPExt(f->b, c, dt, ""), &e);
	i = LLVMBuildBitCast(f->b, s, it, "");
	one = like_int(f, i, 1);
	inexact = LLVMBuildFCmp(f->b, LLVMRealONE, e, like_flt(f, e, 0), "");
	even = LLVMBuildICmp(f->b, LLVMIntEQ, LLVMBuildAnd(f->b, i, one, ""), like_int(f, i, 0), "");
	finite = LLVMBuildFCmp(f->b, LLVMRealOLT, intr1(f, "llvm.fabs", s), like_flt(f, s, 1e300), "");
	/* away from zero when the error has the sum's sign, else towards it: the odd neighbour */
	up = LLVMBuildICmp(f->b, LLVMIntSGE, LLVMBuildXor(f->b, i, LLVMBuildBitCast(f->b, e, it, ""), ""),
		like_int(f, i, 0), "");
	fix = LLVMBuildSelect(f->b, up, one, like_int(f, i, -1), "");
	fix = LLVMBuildSelect(f->b, LLVMBuildAnd(f->b, LLVMBuildAnd(f->b, inexact, even, ""), finite, ""),
		fix, like_int(f, i, 0), "");
	s = LLVMBuildBitCast(f->b, LLVMBuildAdd(f->b, i, fix, ""), dt, "");
	return LLVMBuildFPTrunc(f->b, s, LLVMTypeOf(a), "");
}

static Val
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

/* ---- casts -------------------------------------------------------------------------------------- */

/* f16 conversion in hardware? */
static bool
native_half(const Machine *t)
{
	return machine_has(t, "f16c") || strncmp(t->triple, "aarch64", 7) == 0;
}

static Val
bf16_to_f32(Fn *f, Val v)
{
	Ty ft = vec_of(LLVMFloatTypeInContext(f->cx), lanes_of(v));

	v = widen(f, v, 32, false);
	return LLVMBuildBitCast(f->b, LLVMBuildShl(f->b, v, like_int(f, v, 16), ""), ft, "");
}

/* Nearest even; NaN stays NaN. */
static Val
f32_to_bf16(Fn *f, Val v)
{
	Ty it = vec_of(LLVMInt32TypeInContext(f->cx), lanes_of(v));
	Val i = LLVMBuildBitCast(f->b, v, it, ""), nan = LLVMBuildFCmp(f->b, LLVMRealUNO, v, v, "");
	Val hi = LLVMBuildLShr(f->b, i, like_int(f, i, 16), ""), r;

	r = LLVMBuildAdd(f->b, LLVMBuildAnd(f->b, hi, like_int(f, i, 1), ""), like_int(f, i, 0x7fff), "");
	r = LLVMBuildLShr(f->b, LLVMBuildAdd(f->b, i, r, ""), like_int(f, i, 16), "");
	r = LLVMBuildSelect(f->b, nan, LLVMBuildOr(f->b, hi, like_int(f, i, 0x40), ""), r, "");
	return widen(f, r, 16, false);
}

/* f16 bits -> f32 by integers: the exponent is rebased by a multiplication, which also normalises
 * subnormals; infinity and NaN get the exponent of f32. */
static Val
f16_to_f32(Fn *f, Val v)
{
	int n = lanes_of(v);
	Ty ft = vec_of(LLVMFloatTypeInContext(f->cx), n), it = vec_of(LLVMInt32TypeInContext(f->cx), n);
	Val w, mag, sign, x, special;

	if (native_half(f->t)) {
		v = LLVMBuildBitCast(f->b, v, vec_of(LLVMHalfTypeInContext(f->cx), n), "");
		return LLVMBuildFPExt(f->b, v, ft, "");
	}
	w = widen(f, v, 32, false);
	mag = LLVMBuildShl(f->b, LLVMBuildAnd(f->b, w, like_int(f, w, 0x7fff), ""), like_int(f, w, 13), "");
	sign = LLVMBuildShl(f->b, LLVMBuildAnd(f->b, w, like_int(f, w, 0x8000), ""), like_int(f, w, 16), "");
	x = LLVMBuildFMul(f->b, LLVMBuildBitCast(f->b, mag, ft, ""),
		like_flt(f, LLVMGetPoison(ft), 0x1p112), "");
	x = LLVMBuildBitCast(f->b, x, it, "");
	special = LLVMBuildICmp(f->b, LLVMIntUGE, mag, like_int(f, mag, 0x7c00 << 13), "");
	x = LLVMBuildSelect(f->b, special, LLVMBuildOr(f->b, mag, like_int(f, mag, 0x7f800000), ""), x, "");
	return LLVMBuildBitCast(f->b, LLVMBuildOr(f->b, x, sign, ""), ft, "");
}

/* Nearest even. Subnormal results: adding 0.5 aligns the significand so that the addition rounds. */
static Val
f32_to_f16(Fn *f, Val v)
{
	int n = lanes_of(v);
	Ty ft = LLVMTypeOf(v), it = vec_of(LLVMInt32TypeInContext(f->cx), n);
	Val i, sign, mag, r, lsb, sub, big, nan;

	if (native_half(f->t)) {
		v = LLVMBuildFPTrunc(f->b, v, vec_of(LLVMHalfTypeInContext(f->cx), n), "");
		return LLVMBuildBitCast(f->b, v, vec_of(LLVMInt16TypeInContext(f->cx), n), "");
	}
	i = LLVMBuildBitCast(f->b, v, it, "");
	sign = LLVMBuildAnd(f->b, LLVMBuildLShr(f->b, i, like_int(f, i, 16), ""), like_int(f, i, 0x8000), "");
	mag = LLVMBuildAnd(f->b, i, like_int(f, i, 0x7fffffff), "");
	lsb = LLVMBuildAnd(f->b, LLVMBuildLShr(f->b, mag, like_int(f, i, 13), ""), like_int(f, i, 1), "");
	r = LLVMBuildAdd(f->b, mag, LLVMBuildAdd(f->b, lsb, like_int(f, i, 0xfff - (112 << 23)), ""), "");
	r = LLVMBuildLShr(f->b, r, like_int(f, i, 13), "");
	sub = LLVMBuildFAdd(f->b, LLVMBuildBitCast(f->b, mag, ft, ""), like_flt(f, v, 0.5), "");
	sub = LLVMBuildSub(f->b, LLVMBuildBitCast(f->b, sub, it, ""), like_int(f, i, 0x3f000000), "");
	r = LLVMBuildSelect(f->b, LLVMBuildICmp(f->b, LLVMIntULT, mag, like_int(f, i, 113 << 23), ""), sub, r, "");
	big = LLVMBuildICmp(f->b, LLVMIntUGE, mag, like_int(f, i, 0x477ff000), "");
	r = LLVMBuildSelect(f->b, big, like_int(f, i, 0x7c00), r, "");
	nan = LLVMBuildICmp(f->b, LLVMIntUGT, mag, like_int(f, i, 0x7f800000), "");
	r = LLVMBuildSelect(f->b, nan, LLVMBuildOr(f->b, LLVMBuildLShr(f->b, mag, like_int(f, i, 13), ""),
		like_int(f, i, 0x7e00), ""), r, "");
	return widen(f, LLVMBuildOr(f->b, LLVMBuildAnd(f->b, r, like_int(f, r, 0x7fff), ""), sign, ""), 16, false);
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

	return LLVMBuildSelect(f->b, LLVMBuildFCmp(f->b, above ? LLVMRealOLT : LLVMRealOGT, v, b, ""), v, b, "");
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
 * To an integer of at most 16 bits: clamped as a float, then through i32. LLVM makes scalar code of
 * the saturating conversion to vectors of such integers. Rounding (quantization) is one with the
 * conversion where the machine has that for vectors.
 */
static Val
float_to_narrow(Fn *f, DType to, Node *e)
{
	int bits = dtypes[to].bits;
	double lo = dt_signed(to) ? -ldexp(1, bits - 1) : 0, hi = lo + ldexp(1, bits) - 1, plus = 0;
	Node *r = dtype_of(e) == DT_F32 && x86(f->t) && varies(f, e) ? rounded(e, &plus) : NULL;
	Val v = ex(f, r ? r : e), x;
	Ty i32 = vec_of(LLVMInt32TypeInContext(f->cx), lanes_of(v));

	x = clamp_float(f, clamp_float(f, v, lo - plus, false), hi - plus, true);
	if (lo < 0)                              /* a NaN became lo */
		x = LLVMBuildSelect(f->b, LLVMBuildFCmp(f->b, LLVMRealUNO, v, v, ""), like_flt(f, v, -plus), x, "");
	x = r ? intrinsic(f, "llvm.lrint", i32, LLVMTypeOf(v), 1, &x) : LLVMBuildFPToSI(f->b, x, i32, "");
	if (plus != 0)
		x = LLVMBuildAdd(f->b, x, like_int(f, x, (int64_t)plus), "");
	return widen(f, x, (unsigned)bits, true);
}

/* Truncates, saturates, NaN to 0. */
static Val
float_to_int(Fn *f, DType to, Node *e)
{
	Val v;

	if (dtypes[to].bits <= 16)
		return float_to_narrow(f, to, e);
	v = ex(f, e);
	return intrinsic(f, dt_signed(to) ? "llvm.fptosi.sat" : "llvm.fptoui.sat",
		vec_of(reg_type(f, to), lanes_of(v)), LLVMTypeOf(v), 1, &v);
}

/* Is the type held as the integer of its bits? */
static bool
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

static Val
cast(Fn *f, Node *e)
{
	DType to = dtype_of(e), from = dtype_of(e->in[0]);
	Val v, zero;
	Ty t;
	Node *x;

	if ((from == DT_F32 || from == DT_F64) && dt_int(to) && to != DT_INDEX)
		return float_to_int(f, to, e->in[0]);
	v = ex(f, e->in[0]);
	if (to == from)
		return v;
	t = vec_of(reg_type(f, to), lanes_of(v));
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
	if (to == DT_INDEX && is_vec(v) && bits_of(v) <= 32 && fits32(e))
		return widen(f, v, 32, dt_signed(from));
	return widen(f, v, (unsigned)dtypes[to].bits, dt_signed(from));
}

static Val
bits(Fn *f, Node *e)
{
	Val v = ex(f, e->in[0]);
	Ty t = vec_of(reg_type(f, dtype_of(e)), lanes_of(v));

	if (dtype_of(e) == DT_BOOL)
		return LLVMBuildICmp(f->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
	if (dtype_of(e->in[0]) == DT_BOOL)
		return widen(f, v, (unsigned)dtypes[dtype_of(e)].bits, false);
	return LLVMTypeOf(v) == t ? v : LLVMBuildBitCast(f->b, v, t, "");
}

/* ---- select -------------------------------------------------------------------------------------- */

/* One side of a select in its own block; the block that it ends in is returned. */
static Block
side(Fn *f, Block at, Block join, Node *e, int lanes, DType d, Val *v)
{
	Mark mark = memo_mark(f);
	Block end;

	LLVMPositionBuilderAtEnd(f->b, at);
	*v = ex(f, e);
	if (d == DT_INDEX && is_vec(*v))
		*v = widen(f, *v, 64, true);
	*v = splat(f, *v, lanes);
	end = LLVMGetInsertBlock(f->b);
	LLVMBuildBr(f->b, join);
	memo_undo(f, mark);
	return end;
}

static Val
select_branch(Fn *f, Node *e, Val c)
{
	Block a = new_block(f, "then"), b = new_block(f, "else"), join = new_block(f, "join"), ends[2];
	int lanes = varies(f, e->in[1]) || varies(f, e->in[2]) ? f->lanes : 0;
	Val v[2], phi;

	LLVMBuildCondBr(f->b, c, a, b);
	ends[0] = side(f, a, join, e->in[1], lanes, dtype_of(e), &v[0]);
	ends[1] = side(f, b, join, e->in[2], lanes, dtype_of(e), &v[1]);
	LLVMPositionBuilderAtEnd(f->b, join);
	phi = LLVMBuildPhi(f->b, LLVMTypeOf(v[0]), "");
	LLVMAddIncoming(phi, v, ends, 2);
	return phi;
}

/* Both operands as vectors if either is, of one width if they are indices. */
static void
agree(Fn *f, DType d, Val *a, Val *b)
{
	int n = is_vec(*a) ? lanes_of(*a) : lanes_of(*b);

	*a = splat(f, *a, n);
	*b = splat(f, *b, n);
	if (d == DT_INDEX && bits_of(*a) != bits_of(*b)) {
		*a = widen(f, *a, 64, true);
		*b = widen(f, *b, 64, true);
	}
}

/* A varying condition: a side that loads does so under the condition as its mask. */
static Val
select_mask(Fn *f, Node *e, Val c)
{
	Val old = f->mask, a, b;
	Node *x = e->in[1], *y = e->in[2];
	Mark mark;

	if (x->code == O_LOAD && !has_effect(y) && dtype_of(x) != DT_INDEX) {
		b = splat(f, ex(f, y), f->lanes);
		mark = memo_mark(f);
		f->mask = old ? LLVMBuildAnd(f->b, old, c, "") : c;
		a = splat(f, ld(f, x, b), f->lanes);
		memo_undo(f, mark);
		f->mask = old;
		return varies(f, x) ? a : LLVMBuildSelect(f->b, c, a, b, "");
	}
	mark = memo_mark(f);
	f->mask = old ? LLVMBuildAnd(f->b, old, c, "") : c;
	a = ex(f, x);
	memo_undo(f, mark);
	c = LLVMBuildNot(f->b, c, "");
	f->mask = old ? LLVMBuildAnd(f->b, old, c, "") : c;
	b = ex(f, y);
	memo_undo(f, mark);
	f->mask = old;
	agree(f, dtype_of(e), &a, &b);
	return LLVMBuildSelect(f->b, c, splat(f, b, f->lanes), splat(f, a, f->lanes), "");
}

/* Can the address be computed whether or not the load is wanted? */
static bool
plain_address(Node *load)
{
	int k;

	for (k = 1; k < load->nin; k++)
		if (has_effect(load->in[k]))
			return false;
	return true;
}

static Val
select_(Fn *f, Node *e)
{
	Val c = ex(f, e->in[0]), a, b;
	Node *x = e->in[1], *y = e->in[2];

	if (has_effect(x) || has_effect(y)) {
		if (is_vec(c))
			return select_mask(f, e, c);
		if (x->code == O_LOAD && y->code == O_NUM && !f->mask && plain_address(x))
			return ld_or(f, x, c, y);
		return select_branch(f, e, c);
	}
	a = ex(f, x);
	b = ex(f, y);
	if (is_vec(a) || is_vec(b) || is_vec(c)) {
		agree(f, dtype_of(e), &a, &b);
		a = splat(f, a, f->lanes);
		b = splat(f, b, f->lanes);
	}
	return LLVMBuildSelect(f->b, c, a, b, "");
}

/* ---- bound ------------------------------------------------------------------------------------------ */

/* Stores 1 + the node's number where `bad` holds for any lane that runs. */
static void
report(Fn *f, Val bad, int64_t code)
{
	Block err = new_block(f, "bad"), on = new_block(f, "on");
	Val any = bad;

	if (is_vec(bad)) {
		if (f->mask)
			bad = LLVMBuildAnd(f->b, bad, f->mask, "");
		any = intrinsic(f, "llvm.vector.reduce.or", LLVMTypeOf(bad), NULL, 1, &bad);
	} else if (f->mask) {
		any = intrinsic(f, "llvm.vector.reduce.or", LLVMTypeOf(f->mask), NULL, 1, &f->mask);
		any = LLVMBuildAnd(f->b, any, bad, "");
	}
	LLVMBuildCondBr(f->b, any, err, on);
	LLVMPositionBuilderAtEnd(f->b, err);
	LLVMBuildStore(f->b, LLVMConstInt(LLVMInt32TypeInContext(f->cx), (uint64_t)code + 1, false), f->err);
	LLVMBuildBr(f->b, on);
	LLVMPositionBuilderAtEnd(f->b, on);
}

static Val
bound(Fn *f, Node *e)
{
	Val i = ex(f, e->in[0]), n = ex(f, e->in[1]), bad, last;
	DType d = dtype_of(e);

	agree(f, d, &i, &n);
	bad = LLVMBuildICmp(f->b, LLVMIntUGE, i, n, "");
	if (f->err)
		report(f, bad, e->n);
	last = LLVMBuildSub(f->b, n, like_int(f, n, 1), "");
	/* in range it is the index itself; else 0 or the last */
	return LLVMBuildSelect(f->b, bad,
		LLVMBuildSelect(f->b, LLVMBuildICmp(f->b, LLVMIntSLT, i, like_int(f, i, 0), ""),
			like_int(f, i, 0), last, ""), i, "");
}

/* ---- the switch over operations ------------------------------------------------------------------------ */

static Val
index_arith(Fn *f, Node *e, Val a, Val b)
{
	bool vec = is_vec(a) || is_vec(b);
	unsigned w = !vec || !fits32(e) ? 64 : 32;
	int n = is_vec(a) ? lanes_of(a) : lanes_of(b);

	if (vec) {
		a = splat(f, widen(f, a, w, true), n);
		b = splat(f, widen(f, b, w, true), n);
	}
	switch (e->code) {
	case O_ADD: return vec ? LLVMBuildAdd(f->b, a, b, "") : LLVMBuildNSWAdd(f->b, a, b, "");
	case O_SUB: return vec ? LLVMBuildSub(f->b, a, b, "") : LLVMBuildNSWSub(f->b, a, b, "");
	default: return vec ? LLVMBuildMul(f->b, a, b, "") : LLVMBuildNSWMul(f->b, a, b, "");
	}
}

static Val
narrow_index(Fn *f, Node *x, Val v)
{
	return is_vec(v) && bits_of(v) == 64 && fits32(x) ? widen(f, v, 32, true) : v;
}

static Val
lane_numbers(Fn *f)
{
	Val k[256];
	int i;

	for (i = 0; i < f->lanes; i++)
		k[i] = LLVMConstInt(LLVMInt32TypeInContext(f->cx), (uint64_t)i, false);
	return LLVMConstVector(k, (unsigned)f->lanes);
}

/* A comparison of indices that differ by a multiple of 1 or -1 of the vector axis: the lane numbers
 * against one scalar. NULL if it is not of that form. */
static Val
lane_compare(Fn *f, Node *e)
{
	Node *coef, *rest, *diff;
	Val limit, c;
	int64_t k;

	if ((e->code != O_LT && e->code != O_LE) || !f->vaxis || dtype_of(e->in[0]) != DT_INDEX || !varies(f, e))
		return NULL;
	diff = x_sub(f->m, e->in[0], e->in[1]);
	if (!linear_in(f->m, diff, f->vaxis, &coef, &rest) || !is_int(coef, &k) || (k != 1 && k != -1)
	 || varies(f, rest))
		return NULL;
	/* k = 1: v + rest < 0; k = -1: rest - v < 0, that is not v < rest + 1 */
	if (k == 1)
		rest = x_muli(f->m, rest, -1);
	if ((k == 1) == (e->code == O_LE))
		rest = x_addi(f->m, rest, 1);
	rest = x_max(f->m, x_min(f->m, rest, x_idx(f->m, f->lanes)), x_idx(f->m, 0));
	limit = LLVMBuildTrunc(f->b, ex_index(f, rest), LLVMInt32TypeInContext(f->cx), "");
	c = LLVMBuildICmp(f->b, LLVMIntULT, lane_numbers(f), splat(f, limit, f->lanes), "");
	return k == 1 ? c : LLVMBuildNot(f->b, c, "");
}

/* ---- products of bytes ------------------------------------------------------------------------- */

/* The machine's instruction for a whole vector (VPDPBUSD), or NULL. */
static Val
dot4_vector(Fn *f, Val acc, Val a, Val b)
{
	static const char *const names[] = {"llvm.x86.avx512.vpdpbusd.128", "llvm.x86.avx512.vpdpbusd.256",
		"llvm.x86.avx512.vpdpbusd.512"};
	int lanes = lanes_of(a), i = lanes == 4 ? 0 : lanes == 8 ? 1 : 2;
	Val in[3] = {acc, a, b}, fn;
	Ty type, params[3];
	unsigned id;

	if (!x86(f->t) || !machine_dot4(f->t) || (lanes != 4 && lanes != 8 && lanes != 16))
		return NULL;
	id = LLVMLookupIntrinsicID(names[i], strlen(names[i]));
	if (!id)
		return NULL;
	fn = LLVMGetIntrinsicDeclaration(f->mod, id, NULL, 0);
	type = LLVMIntrinsicGetType(f->cx, id, NULL, 0);
	LLVMGetParamTypes(type, params);
	for (i = 0; i < 3; i++)
		in[i] = LLVMBuildBitCast(f->b, in[i], params[i], "");
	return LLVMBuildCall2(f->b, type, fn, in, 3, "");
}

/* acc + dot4(a, b); acc may be NULL. */
static Val
dot4(Fn *f, Node *acc, Node *e)
{
	Val a = ex(f, e->in[0]), b = ex(f, e->in[1]), c, r, x, y;
	int i;

	agree(f, DT_I32, &a, &b);
	c = acc ? ex(f, acc) : LLVMConstNull(LLVMTypeOf(a));
	agree(f, DT_I32, &a, &c);
	agree(f, DT_I32, &b, &c);
	r = is_vec(a) ? dot4_vector(f, c, a, b) : NULL;
	if (r)
		return r;
	for (r = c, i = 0; i < 4; i++) {
		x = LLVMBuildAnd(f->b, LLVMBuildLShr(f->b, a, like_int(f, a, 8 * i), ""), like_int(f, a, 255), "");
		y = LLVMBuildAShr(f->b, LLVMBuildShl(f->b, b, like_int(f, b, 24 - 8 * i), ""), like_int(f, b, 24), "");
		r = LLVMBuildAdd(f->b, r, LLVMBuildMul(f->b, x, y, ""), "");
	}
	return r;
}

static Val
binary(Fn *f, Node *e)
{
	DType d = dtype_of(e->in[0]);
	Val a = lane_compare(f, e), b;
	bool fl = dt_float(d);

	if (a)
		return a;
	if (e->code == O_DOT4)
		return dot4(f, NULL, e);
	if (e->code == O_ADD && (e->in[0]->code == O_DOT4 || e->in[1]->code == O_DOT4))
		return dot4(f, e->in[e->in[0]->code == O_DOT4], e->in[e->in[0]->code != O_DOT4]);
	a = ex(f, e->in[0]);
	b = ex(f, e->in[1]);
	if (d == DT_INDEX && (e->code == O_ADD || e->code == O_SUB || e->code == O_MUL))
		return index_arith(f, e, a, b);
	if (d == DT_INDEX) {
		a = narrow_index(f, e->in[0], a);
		b = narrow_index(f, e->in[1], b);
		if (is_vec(a) && !is_vec(b) && fits32(e->in[1]))
			b = widen(f, b, bits_of(a), true);
		if (is_vec(b) && !is_vec(a) && fits32(e->in[0]))
			a = widen(f, a, bits_of(b), true);
	}
	agree(f, d, &a, &b);
	switch (e->code) {
	case O_ADD: return fl ? LLVMBuildFAdd(f->b, a, b, "") : LLVMBuildAdd(f->b, a, b, "");
	case O_SUB: return fl ? LLVMBuildFSub(f->b, a, b, "") : LLVMBuildSub(f->b, a, b, "");
	case O_MUL: return fl ? LLVMBuildFMul(f->b, a, b, "") : LLVMBuildMul(f->b, a, b, "");
	case O_DIV: return fl ? LLVMBuildFDiv(f->b, a, b, "") : divmod(f, O_DIV, d, e->in[0], e->in[1], a, b);
	case O_REM: case O_FLOORDIV: case O_MOD:
		return fl ? float_rem(f, d, a, b) : divmod(f, e->code, d, e->in[0], e->in[1], a, b);
	case O_MIN: case O_MAX: return minmax(f, e->code == O_MAX, d, a, b);
	case O_LT: case O_LE: case O_EQ: case O_NE: return compare(f, e->code, d, a, b);
	case O_AND: return LLVMBuildAnd(f->b, a, b, "");
	case O_OR: return LLVMBuildOr(f->b, a, b, "");
	case O_XOR: return LLVMBuildXor(f->b, a, b, "");
	case O_SHL: case O_SHR: return shift(f, e->code, d, a, b);
	default: return bug(f, "a binary operation");
	}
}

static Val
unary(Fn *f, Node *e)
{
	DType d = dtype_of(e);
	Val a = ex(f, e->in[0]);
	bool fl = dt_float(d);

	switch (e->code) {
	case O_NEG: return fl ? LLVMBuildFNeg(f->b, a, "") : LLVMBuildNeg(f->b, a, "");
	case O_ABS:
		if (fl)
			return intr1(f, "llvm.fabs", a);
		return dt_signed(d) ? LLVMBuildSelect(f->b, LLVMBuildICmp(f->b, LLVMIntSLT, a, like_int(f, a, 0), ""),
			LLVMBuildNeg(f->b, a, ""), a, "") : a;
	case O_NOT: return LLVMBuildNot(f->b, a, "");
	case O_SQRT: return intr1(f, "llvm.sqrt", a);
	case O_FLOOR: case O_CEIL: case O_TRUNC: case O_RINT: return fl ? rounding(f, e->code, d, a) : a;
	case O_POPCNT: return intr1(f, "llvm.ctpop", a);
	default: return bug(f, "a unary operation");
	}
}

Val
combine(Fn *f, Comb c, DType d, Val a, Val b)
{
	bool fl = dt_float(d);

	switch (c) {
	case COMB_SUM: return fl ? LLVMBuildFAdd(f->b, a, b, "") : LLVMBuildAdd(f->b, a, b, "");
	case COMB_PROD: return fl ? LLVMBuildFMul(f->b, a, b, "") : LLVMBuildMul(f->b, a, b, "");
	case COMB_MIN: return minmax(f, false, d, a, b);
	case COMB_MAX: return minmax(f, true, d, a, b);
	case COMB_AND: return LLVMBuildAnd(f->b, a, b, "");
	case COMB_OR: return LLVMBuildOr(f->b, a, b, "");
	default: return bug(f, "a combiner");
	}
}

/* An operation on narrow floats: in f32, rounded once. */
static Val
in_f32(Fn *f, Node *e)
{
	Node *in[3], *r;
	int i;

	for (i = 0; i < e->nin; i++)
		in[i] = x_cast(f->m, DT_F32, e->in[i]);
	r = x_op(f->m, e->code, e->nin, in, DT_NONE);
	return ex(f, dtype_of(e) == DT_BOOL ? r : x_cast(f->m, dtype_of(e), r));
}

static Val
make(Fn *f, Node *e)
{
	Node *x;
	Val v[3];
	int n;

	switch (e->code) {
	case O_NUM: return num(f, dtype_of(e), e->num);
	case O_AXIS: return e == f->vaxis ? lane_numbers(f) : bug(f, "an axis outside its loop");
	case O_SYM: return bug(f, "a symbol that is not the kernel's");
	case O_LET: case O_CALL: return plan_value(f, e);
	case O_LOAD: return ld(f, e, NULL);
	case O_FOLD: return fold(f, e);
	case O_SELECT: return select_(f, e);
	case O_CAST: return cast(f, e);
	case O_BITS: return bits(f, e);
	case O_BOUND: return bound(f, e);
	default: break;
	}
	if (e->code < O_NUM && as_bits(dtype_of(e->in[0])))
		return in_f32(f, e);
	switch (e->code) {
	case O_FMA: case O_MULADD:
		for (n = 0; n < 3; n++)
			v[n] = ex(f, e->in[n]);
		agree(f, dtype_of(e), &v[0], &v[1]);
		agree(f, dtype_of(e), &v[1], &v[2]);
		agree(f, dtype_of(e), &v[0], &v[2]);
		return fused(f, e->code, dtype_of(e), v[0], v[1], v[2]);
	default:
		break;
	}
	if (e->code >= O_GRAPH || e->code >= O_NUM)
		return bug(f, e->op->name);
	if (e->code >= O_EXP) {
		x = math_expand(f->m, e->code, e->nin, e->in);
		return x && x != e ? ex(f, x) : bug(f, e->op->name);
	}
	return e->nin == 1 ? unary(f, e) : binary(f, e);
}

Val
ex(Fn *f, Node *e)
{
	Val v;

	if (e->code == O_AXIS || e->code == O_SYM || e->code == O_LET || e->code == O_CALL)
		if ((v = map_get(&f->env, e)))
			return v;
	if ((v = map_get(&f->memo, e)))
		return v;
	v = make(f, e);
	if (e->code != O_NUM)
		memo_put(f, e, v);
	return v;
}

Val
ex_lanes(Fn *f, Node *e)
{
	return splat(f, ex(f, e), f->lanes);
}

Val
ex_index(Fn *f, Node *e)
{
	return widen(f, ex(f, e), 64, dt_signed(dtype_of(e)));
}
