/*
 * The remainder of floats (C's fmod, exact), which no machine has: a function per module and type,
 * called lane by lane. With x = mx 2^ex and y = my 2^ey in integers, the result is
 * (mx 2^(ex-ey) mod my) 2^ey, by as many bits a step as 64-bit integers leave room for.
 */
#include <string.h>
#include "llvm.h"

typedef struct Rem { LLVMContextRef cx; LLVMBuilderRef b; Val fn; Ty ft, it, l; int m; bool wide; } Rem;

static Val
k64(Rem *r, uint64_t v)
{
	return LLVMConstInt(r->l, v, false);
}

/* Magnitude bits of a float as i64. */
static Val
magnitude(Rem *r, Val x)
{
	Val i = LLVMBuildBitCast(r->b, x, r->it, "");

	if (!r->wide)
		i = LLVMBuildZExt(r->b, i, r->l, "");
	return LLVMBuildAnd(r->b, i, k64(r, r->wide ? INT64_MAX : INT32_MAX), "");
}

/* Exponent (1 for subnormals too) and integer significand. */
static void
split(Rem *r, Val u, Val *e, Val *m)
{
	Val field = LLVMBuildLShr(r->b, u, k64(r, (uint64_t)r->m), ""), zero, one = k64(r, 1);
	Val hidden = k64(r, (uint64_t)1 << r->m);

	zero = LLVMBuildICmp(r->b, LLVMIntEQ, field, k64(r, 0), "");
	*e = LLVMBuildSelect(r->b, zero, one, field, "");
	*m = LLVMBuildAnd(r->b, u, k64(r, ((uint64_t)1 << r->m) - 1), "");
	*m = LLVMBuildSelect(r->b, zero, *m, LLVMBuildOr(r->b, *m, hidden, ""), "");
}

static Val
least(Rem *r, Val a, Val b)
{
	return LLVMBuildSelect(r->b, LLVMBuildICmp(r->b, LLVMIntSLT, a, b, ""), a, b, "");
}

/* The significand of the remainder: the loop. */
static Val
reduce(Rem *r, Val mx, Val my, Val n)
{
	Block head = LLVMGetInsertBlock(r->b), in = LLVMAppendBasicBlockInContext(r->cx, r->fn, "step");
	Block out = LLVMAppendBasicBlockInContext(r->cx, r->fn, "done");
	Val first = LLVMBuildURem(r->b, mx, my, ""), pm, pn, s, m2, n2, more;

	LLVMBuildCondBr(r->b, LLVMBuildICmp(r->b, LLVMIntSGT, n, k64(r, 0), ""), in, out);
	LLVMPositionBuilderAtEnd(r->b, in);
	pm = LLVMBuildPhi(r->b, r->l, "");
	pn = LLVMBuildPhi(r->b, r->l, "");
	s = least(r, pn, k64(r, (uint64_t)(63 - r->m)));
	m2 = LLVMBuildURem(r->b, LLVMBuildShl(r->b, pm, s, ""), my, "");
	n2 = LLVMBuildSub(r->b, pn, s, "");
	more = LLVMBuildICmp(r->b, LLVMIntSGT, n2, k64(r, 0), "");
	LLVMBuildCondBr(r->b, more, in, out);
	LLVMAddIncoming(pm, (Val[]){first, m2}, (Block[]){head, in}, 2);
	LLVMAddIncoming(pn, (Val[]){n, n2}, (Block[]){head, in}, 2);
	LLVMPositionBuilderAtEnd(r->b, out);
	s = LLVMBuildPhi(r->b, r->l, "");
	LLVMAddIncoming(s, (Val[]){first, m2}, (Block[]){head, in}, 2);
	return s;
}

/* mx 2^ey as a float with the sign of x. */
static Val
join(Rem *r, Val mx, Val ey, Val x)
{
	unsigned id = LLVMLookupIntrinsicID("llvm.ctlz", 9), cs = LLVMLookupIntrinsicID("llvm.copysign", 13);
	Val ctlz = LLVMGetIntrinsicDeclaration(LLVMGetGlobalParent(r->fn), id, &r->l, 1), s, bits, v;
	Val copysign = LLVMGetIntrinsicDeclaration(LLVMGetGlobalParent(r->fn), cs, &r->ft, 1);

	s = LLVMBuildCall2(r->b, LLVMIntrinsicGetType(r->cx, id, &r->l, 1), ctlz, (Val[]){mx,
		LLVMConstInt(LLVMInt1TypeInContext(r->cx), 0, false)}, 2, "");
	s = least(r, LLVMBuildSub(r->b, s, k64(r, (uint64_t)(63 - r->m)), ""),
		LLVMBuildSub(r->b, ey, k64(r, 1), ""));
	bits = LLVMBuildShl(r->b, LLVMBuildSub(r->b, LLVMBuildSub(r->b, ey, s, ""), k64(r, 1), ""),
		k64(r, (uint64_t)r->m), "");
	bits = LLVMBuildAdd(r->b, LLVMBuildShl(r->b, mx, s, ""), bits, "");
	bits = LLVMBuildSelect(r->b, LLVMBuildICmp(r->b, LLVMIntEQ, mx, k64(r, 0), ""), mx, bits, "");
	v = LLVMBuildBitCast(r->b, LLVMBuildTrunc(r->b, bits, r->it, ""), r->ft, "");
	return LLVMBuildCall2(r->b, LLVMIntrinsicGetType(r->cx, cs, &r->ft, 1), copysign, (Val[]){v, x}, 2, "");
}

static void
body(Rem *r)
{
	Val x = LLVMGetParam(r->fn, 0), y = LLVMGetParam(r->fn, 1), ux, uy, ex, ey, mx, my, inf, bad;
	Block start = LLVMAppendBasicBlockInContext(r->cx, r->fn, ""), nan, small, self, go;

	LLVMPositionBuilderAtEnd(r->b, start);
	nan = LLVMAppendBasicBlockInContext(r->cx, r->fn, "nan");
	small = LLVMAppendBasicBlockInContext(r->cx, r->fn, "compare");
	self = LLVMAppendBasicBlockInContext(r->cx, r->fn, "self");
	go = LLVMAppendBasicBlockInContext(r->cx, r->fn, "go");
	ux = magnitude(r, x);
	uy = magnitude(r, y);
	inf = k64(r, r->wide ? (uint64_t)0x7ff << 52 : (uint64_t)0xff << 23);
	bad = LLVMBuildOr(r->b, LLVMBuildICmp(r->b, LLVMIntEQ, uy, k64(r, 0), ""),
		LLVMBuildICmp(r->b, LLVMIntUGE, ux, inf, ""), "");
	bad = LLVMBuildOr(r->b, bad, LLVMBuildICmp(r->b, LLVMIntUGT, uy, inf, ""), "");
	LLVMBuildCondBr(r->b, bad, nan, small);
	LLVMPositionBuilderAtEnd(r->b, nan);
	LLVMBuildRet(r->b, LLVMConstReal(r->ft, __builtin_nan("")));
	LLVMPositionBuilderAtEnd(r->b, small);
	LLVMBuildCondBr(r->b, LLVMBuildICmp(r->b, LLVMIntULT, ux, uy, ""), self, go);
	LLVMPositionBuilderAtEnd(r->b, self);
	LLVMBuildRet(r->b, x);
	LLVMPositionBuilderAtEnd(r->b, go);
	split(r, ux, &ex, &mx);
	split(r, uy, &ey, &my);
	mx = reduce(r, mx, my, LLVMBuildSub(r->b, ex, ey, ""));
	LLVMBuildRet(r->b, join(r, mx, ey, x));
}

static Val
function(Fn *f, DType d)
{
	const char *name = d == DT_F64 ? "fmod.f64" : "fmod.f32";
	Rem r = {.cx = f->cx, .ft = reg_type(f, d), .l = LLVMInt64TypeInContext(f->cx), .wide = d == DT_F64};
	Val fn = LLVMGetNamedFunction(f->mod, name);

	if (fn)
		return fn;
	r.m = r.wide ? 52 : 23;
	r.it = r.wide ? r.l : LLVMInt32TypeInContext(f->cx);
	r.b = LLVMCreateBuilderInContext(f->cx);
	r.fn = LLVMAddFunction(f->mod, name, LLVMFunctionType(r.ft, (Ty[]){r.ft, r.ft}, 2, false));
	LLVMSetLinkage(r.fn, LLVMInternalLinkage);
	fn_attributes(f, r.fn);
	body(&r);
	LLVMDisposeBuilder(r.b);
	return r.fn;
}

Val
float_rem(Fn *f, DType d, Val a, Val b)
{
	Val fn = function(f, d), r, k, in[2];
	Ty t = LLVMFunctionType(reg_type(f, d), (Ty[]){reg_type(f, d), reg_type(f, d)}, 2, false);
	unsigned i;

	if (!is_vec(a))
		return LLVMBuildCall2(f->b, t, fn, (Val[]){a, b}, 2, "");
	r = LLVMGetPoison(LLVMTypeOf(a));
	for (i = 0; i < LLVMGetVectorSize(LLVMTypeOf(a)); i++) {
		k = i64c(f, i);
		in[0] = LLVMBuildExtractElement(f->b, a, k, "");
		in[1] = LLVMBuildExtractElement(f->b, b, k, "");
		r = LLVMBuildInsertElement(f->b, r, LLVMBuildCall2(f->b, t, fn, in, 2, ""), k, "");
	}
	return r;
}
