/*
 * Scalar expressions, as scalars or as vectors over the lanes of a vector loop. Operations follow
 * scalar.def to the letter: guards where LLVM's own are undefined, no fast-math, no contraction
 * but muladd, and never an intrinsic that the machine would call a library for.
 */
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

int
val_lanes(Val v)
{
	return is_vec(v) ? (int)LLVMGetVectorSize(LLVMTypeOf(v)) : 0;
}

unsigned
val_bits(Val v)
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
Val
like_int(Fn *f, Val v, int64_t k)
{
	return splat(f, LLVMConstInt(elem_of(v), (uint64_t)k, true), val_lanes(v));
}

Val
like_flt(Fn *f, Val v, double k)
{
	return splat(f, LLVMConstReal(elem_of(v), k), val_lanes(v));
}

static Val
num(Fn *f, DType d, Num n)
{
	uint64_t bits = 0;

	if (!dt_float(d))
		return LLVMConstInt(reg_type(f, d), (uint64_t)n.i, true);
	data_set(&bits, d, 0, n);
	if (d == DT_F32)
		return LLVMConstBitCast(LLVMConstInt(LLVMInt32TypeInContext(f->cx), bits, false),
			reg_type(f, d));
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

Val
intr1(Fn *f, const char *name, Val a)
{
	return intrinsic(f, name, LLVMTypeOf(a), NULL, 1, &a);
}

Val
intr2(Fn *f, const char *name, Val a, Val b)
{
	return intrinsic(f, name, LLVMTypeOf(a), NULL, 2, (Val[]){a, b});
}

/* ---- what varies over the vector loop -------------------------------------------------------- */

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

/* Trees of a thousand nodes count as having effects: the answer is only about what may be
 * hoisted. */
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

/* ---- select ---------------------------------------------------------------------------------- */

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
	int n = is_vec(*a) ? val_lanes(*a) : val_lanes(*b);

	*a = splat(f, *a, n);
	*b = splat(f, *b, n);
	if (d == DT_INDEX && val_bits(*a) != val_bits(*b)) {
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

/* The dear operations are functions of their own, called lane by lane. */
static bool
dear(Node *e)
{
	return e->code >= O_SIN_FAR && e->code <= O_TAN_FAR;
}

static Val
dear_function(Fn *f, OpCode op, DType d)
{
	const char *name = arena_printf(f->m->arena, "%s.%s", core_op(op)->name, dtypes[d].text);
	Val fn = LLVMGetNamedFunction(f->mod, name);
	Fn g = {.t = f->t, .k = f->k};
	Node *x = x_carry(f->m, d);
	Ty t = reg_type(f, d);

	if (fn)
		return fn;
	fn_begin(&g, f->c, name, LLVMFunctionType(t, &t, 1, false));
	LLVMSetVisibility(g.fn, LLVMDefaultVisibility);
	LLVMSetLinkage(g.fn, LLVMInternalLinkage);
	map_put(&g.memo, x, LLVMGetParam(g.fn, 0));
	LLVMBuildRet(g.b, ex(&g, math_expand(f->m, op, 1, &x)));
	fn_end(&g, name);
	return g.fn;
}

static Val
dear_call(Fn *f, Node *e)
{
	Val fn = dear_function(f, e->code, dtype_of(e)), x = ex(f, e->in[0]), r, k, y;
	Ty t = reg_type(f, dtype_of(e)), ft = LLVMFunctionType(t, &t, 1, false);
	int i;

	if (!is_vec(x))
		return LLVMBuildCall2(f->b, ft, fn, &x, 1, "");
	r = LLVMGetPoison(LLVMTypeOf(x));
	for (i = 0; i < val_lanes(x); i++) {
		k = i64c(f, i);
		y = LLVMBuildExtractElement(f->b, x, k, "");
		r = LLVMBuildInsertElement(f->b, r, LLVMBuildCall2(f->b, ft, fn, &y, 1, ""), k, "");
	}
	return r;
}

/* The dear side is computed where any lane takes it. */
static Val
select_dear(Fn *f, Node *e, Val c)
{
	Val b = ex(f, e->in[2]), any = c, v[2], phi;
	Block far = new_block(f, "far"), join = new_block(f, "join"), ends[2];
	int lanes = varies(f, e->in[1]) || varies(f, e->in[2]) || is_vec(c) ? f->lanes : 0;
	Mark mark = memo_mark(f);

	v[0] = splat(f, b, lanes);
	if (is_vec(c))
		any = intrinsic(f, "llvm.vector.reduce.or", LLVMTypeOf(c), NULL, 1, &c);
	ends[0] = LLVMGetInsertBlock(f->b);
	LLVMBuildCondBr(f->b, any, far, join);
	LLVMPositionBuilderAtEnd(f->b, far);
	v[1] = LLVMBuildSelect(f->b, c, splat(f, ex(f, e->in[1]), lanes), v[0], "");
	memo_undo(f, mark);
	ends[1] = LLVMGetInsertBlock(f->b);
	LLVMBuildBr(f->b, join);
	LLVMPositionBuilderAtEnd(f->b, join);
	phi = LLVMBuildPhi(f->b, LLVMTypeOf(v[0]), "");
	LLVMAddIncoming(phi, v, ends, 2);
	return phi;
}

static Val
select_(Fn *f, Node *e)
{
	Val c = ex(f, e->in[0]), a, b;
	Node *x = e->in[1], *y = e->in[2];

	if (dear(x))
		return select_dear(f, e, c);
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

/* ---- bound ----------------------------------------------------------------------------------- */

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
	LLVMBuildStore(f->b, LLVMConstInt(LLVMInt32TypeInContext(f->cx), (uint64_t)code + 1, false),
		f->err);
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

/* ---- the switch over operations -------------------------------------------------------------- */

static Val
index_arith(Fn *f, Node *e, Val a, Val b)
{
	bool vec = is_vec(a) || is_vec(b);
	unsigned w = !vec || !fits32(e) ? 64 : 32;
	int n = is_vec(a) ? val_lanes(a) : val_lanes(b);

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
	return is_vec(v) && val_bits(v) == 64 && fits32(x) ? widen(f, v, 32, true) : v;
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

	if ((e->code != O_LT && e->code != O_LE) || !f->vaxis || dtype_of(e->in[0]) != DT_INDEX
	 || !varies(f, e))
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

/* ---- products of bytes ----------------------------------------------------------------------- */

/* The call of an intrinsic of LLVM's on operands of as many bits as its own, as i32. */
static Val
call_bytes(Fn *f, const char *name, Val *in, int n)
{
	unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
	Ty type, params[3];
	Val fn = LLVMGetIntrinsicDeclaration(f->mod, id, NULL, 0);
	int i;

	type = LLVMIntrinsicGetType(f->cx, id, NULL, 0);
	LLVMGetParamTypes(type, params);
	for (i = 0; i < n; i++)
		in[i] = LLVMBuildBitCast(f->b, in[i], params[i], "");
	return LLVMBuildCall2(f->b, type, fn, in, (unsigned)n, "");
}

/* The same of an intrinsic for any type. */
static Val
call_neon(Fn *f, const char *name, Val acc, Val a, Val b)
{
	Ty bytes = LLVMVectorType(LLVMInt8TypeInContext(f->cx), 16), over[2] = {LLVMTypeOf(acc), bytes};
	unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
	Val in[3] = {acc, LLVMBuildBitCast(f->b, a, bytes, ""), LLVMBuildBitCast(f->b, b, bytes, "")};

	return LLVMBuildCall2(f->b, LLVMIntrinsicGetType(f->cx, id, over, 2),
		LLVMGetIntrinsicDeclaration(f->mod, id, over, 2), in, 3, "");
}

/*
 * USDOT, or SDOT of a - 128, that is with its highest bits flipped: then 128 times b's sum is
 * missing, which depends on no row.
 */
static Val
dot4_neon(Fn *f, Val acc, Val a, Val b)
{
	Val high = like_int(f, a, (int32_t)0x80808080u), sum;

	if (machine_has(f->t, "i8mm"))
		return call_neon(f, "llvm.aarch64.neon.usdot", acc, a, b);
	sum = call_neon(f, "llvm.aarch64.neon.sdot", LLVMConstNull(LLVMTypeOf(b)), b, high);
	acc = call_neon(f, "llvm.aarch64.neon.sdot", acc, LLVMBuildXor(f->b, a, high, ""), b);
	return LLVMBuildSub(f->b, acc, sum, "");
}

/* Bytes 0 and 2 of each element, or 1 and 3, in 16 bits each. */
static Val
every_other(Fn *f, Val v, bool odd, bool is_signed)
{
	Val s = LLVMBuildBitCast(f->b, v,
		LLVMVectorType(LLVMInt16TypeInContext(f->cx), 2 * (unsigned)val_lanes(v)), "");

	if (!is_signed)
		return odd ? LLVMBuildLShr(f->b, s, like_int(f, s, 8), "")
			: LLVMBuildAnd(f->b, s, like_int(f, s, 255), "");
	if (!odd)
		s = LLVMBuildShl(f->b, s, like_int(f, s, 8), "");
	return LLVMBuildAShr(f->b, s, like_int(f, s, 8), "");
}

/*
 * PMADDWD of the even bytes and of the odd ones, which is exact. (PMADDUBSW takes them as they are,
 * but saturates: 255 * 127 * 2 is more than 16 bits hold.)
 */
static Val
dot4_words(Fn *f, int i, Val acc, Val a, Val b)
{
	static const char *const names[] = {"llvm.x86.sse2.pmadd.wd", "llvm.x86.avx2.pmadd.wd",
		"llvm.x86.avx512.pmaddw.d.512"};
	Val in[2];
	int odd;

	for (odd = 0; odd < 2; odd++) {
		in[0] = every_other(f, a, odd, false);
		in[1] = every_other(f, b, odd, true);
		acc = LLVMBuildAdd(f->b, acc, call_bytes(f, names[i], in, 2), "");
	}
	return acc;
}

/* By the machine's instruction for a whole vector (VPDPBUSD and others), or NULL. */
static Val
dot4_vector(Fn *f, Val acc, Val a, Val b)
{
	static const char *const names[] = {"llvm.x86.avx512.vpdpbusd.128",
		"llvm.x86.avx512.vpdpbusd.256",
		"llvm.x86.avx512.vpdpbusd.512"};
	int lanes = val_lanes(a), i = lanes == 4 ? 0 : lanes == 8 ? 1 : 2, parts = machine_dot4(f->t);
	Val in[3] = {acc, a, b};

	if (!parts || (lanes != 4 && lanes != 8 && lanes != 16) || 32 * lanes > f->t->vector_bits)
		return NULL;
	if (!x86(f->t))
		return dot4_neon(f, acc, a, b);
	return parts == 1 ? call_bytes(f, names[i], in, 3) : dot4_words(f, i, acc, a, b);
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
		x = LLVMBuildAnd(f->b, LLVMBuildLShr(f->b, a, like_int(f, a, 8 * i), ""),
			like_int(f, a, 255), "");
		y = LLVMBuildAShr(f->b, LLVMBuildShl(f->b, b, like_int(f, b, 24 - 8 * i), ""),
			like_int(f, b, 24), "");
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
			b = widen(f, b, val_bits(a), true);
		if (is_vec(b) && !is_vec(a) && fits32(e->in[0]))
			a = widen(f, a, val_bits(b), true);
	}
	agree(f, d, &a, &b);
	switch (e->code) {
	case O_ADD: return fl ? LLVMBuildFAdd(f->b, a, b, "") : LLVMBuildAdd(f->b, a, b, "");
	case O_SUB: return fl ? LLVMBuildFSub(f->b, a, b, "") : LLVMBuildSub(f->b, a, b, "");
	case O_MUL: return fl ? LLVMBuildFMul(f->b, a, b, "") : LLVMBuildMul(f->b, a, b, "");
	case O_DIV: return fl ? LLVMBuildFDiv(f->b, a, b, "")
		: divmod(f, O_DIV, d, e->in[0], e->in[1], a, b);
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
		return dt_signed(d) ? LLVMBuildSelect(f->b,
			LLVMBuildICmp(f->b, LLVMIntSLT, a, like_int(f, a, 0), ""),
			LLVMBuildNeg(f->b, a, ""), a, "") : a;
	case O_NOT: return LLVMBuildNot(f->b, a, "");
	case O_SQRT: return intr1(f, "llvm.sqrt", a);
	case O_FLOOR: case O_CEIL: case O_TRUNC: case O_RINT: return fl ? rounding(f, e->code, d, a)
		: a;
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
	case O_CAST: return ex_cast(f, e);
	case O_BITS: return ex_bits(f, e);
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
	if (dear(e) && dtype_of(e) == DT_F64)
		return dear_call(f, e);
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
