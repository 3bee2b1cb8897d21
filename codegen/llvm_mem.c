/*
 * Loads, stores and folds. In a vector loop an address that is linear in the loop's axis becomes a
 * vector access (coefficient 1), a reversed or every-second one (-1, 2), or a scalar one that is
 * splat (0); everything else gathers and scatters. Addresses are summed from the outermost loop
 * inwards with the constant last, so that LICM hoists what it can and CSE meets equal parts.
 * An unrolled loop around a vector loop that would gather what lies side by side for the former is a
 * transpose in registers.
 */
#include <stdlib.h>
#include <string.h>
#include "llvm.h"

typedef enum AccessKind { UNIFORM, CONTIGUOUS, REVERSED, EVERY_SECOND, STRIDED, ANY } AccessKind;
typedef struct Access { AccessKind kind; Node *rest, *coef; } Access;

static Ty
i32t(Fn *f)
{
	return LLVMInt32TypeInContext(f->cx);
}

static DType
buf_dtype(const Node *buf)
{
	return buf->type->dtype;
}

/* The row-major flat index. */
static Node *
flat(Fn *f, Node *buf, int n, Node *const *idx)
{
	Node *e = idx[0];
	int i;

	for (i = 1; i < n; i++)
		e = x_add(f->m, x_mul(f->m, e, buf->in[i]), idx[i]);
	return e;
}

static bool
split(Fn *f, Node *e, Access *a)
{
	int64_t c;

	if (!linear_in(f->m, e, f->vaxis, &a->coef, &a->rest) || varies(f, a->coef) || varies(f, a->rest))
		return false;
	a->kind = STRIDED;
	if (is_int(a->coef, &c))
		a->kind = c == 0 ? UNIFORM : c == 1 ? CONTIGUOUS : c == -1 ? REVERSED
			: c == 2 ? EVERY_SECOND : STRIDED;
	return true;
}

static Access
access_of(Fn *f, Node *e)
{
	Access a = {UNIFORM, e, NULL};

	if (!f->vaxis || !varies(f, e))
		return a;
	if (split(f, e, &a))
		return a;
	/* with the unrolled axes' present values a floordiv or mod may vanish */
	if (f->nconsts && split(f, subst(f->m, e, &f->consts, false), &a))
		return a;
	return (Access){ANY, e, NULL};
}

/* ---- addresses ---------------------------------------------------------------------------------- */

enum { INNERMOST = 1 << 20, MAX_TERMS = 64, MAX_TRANSPOSE = 64 };

/* The deepest loop whose variable the expression uses. */
static int
depth_of(Fn *f, Node *e)
{
	int d = 0, k, i;

	switch (e->code) {
	case O_NUM: case O_SYM:
		return 0;
	case O_AXIS: case O_LET: case O_CALL:
		return (int)(intptr_t)map_get(&f->depth, e);
	case O_LOAD: case O_FOLD:
		return INNERMOST;
	default:
		if (e->size > 200)
			return INNERMOST;
		for (i = 0; i < e->nin; i++) {
			k = depth_of(f, e->in[i]);
			d = k > d ? k : d;
		}
		return d;
	}
}

static int
terms(Node *e, Node **t, int n)
{
	if (e->code == O_ADD && n < MAX_TERMS - 1)
		return terms(e->in[1], t, terms(e->in[0], t, n));
	if (n < MAX_TERMS)
		t[n++] = e;
	return n;
}

/* &base[e] for a uniform index, counted in elements of type t. */
static Val
address(Fn *f, Val p, Ty t, Node *e)
{
	Node *term[MAX_TERMS];
	int depth[MAX_TERMS], n = terms(e, term, 0), i, j, d;
	int64_t constant = 0;
	Val v[MAX_TERMS], sum;

	if (n == MAX_TERMS) {
		term[0] = e;
		n = 1;
	}
	for (i = j = 0; i < n; i++) {
		sum = ex_index(f, term[i]);
		if (LLVMIsAConstantInt(sum)) {
			constant += LLVMConstIntGetSExtValue(sum);
			continue;
		}
		v[j] = sum;
		depth[j++] = depth_of(f, term[i]);
	}
	for (n = j; n; n = j) {
		for (d = depth[0], i = 1; i < n; i++)
			d = depth[i] < d ? depth[i] : d;
		for (sum = NULL, i = j = 0; i < n; i++)
			if (depth[i] == d)
				sum = sum ? LLVMBuildNSWAdd(f->b, sum, v[i], "") : v[i];
			else {
				depth[j] = depth[i];
				v[j++] = v[i];
			}
		p = LLVMBuildGEP2(f->b, t, p, &sum, 1, "");
	}
	if (constant) {
		sum = i64c(f, constant);
		p = LLVMBuildGEP2(f->b, t, p, &sum, 1, "");
	}
	return p;
}

static Mem *
mem_of(Fn *f, Node *buf)
{
	Mem *m = map_get(&f->mem, buf);

	if (!m)
		bug(f, "a buffer that is neither a parameter nor allocated");
	return m;
}

Val
place_of(Fn *f, Node *buffer, Node *const *idx)
{
	const Mem *m = mem_of(f, buffer);

	return m ? address(f, m->base, m->elem, flat(f, buffer, buffer->nin, idx)) : NULL;
}

/* Into the second cache; what the kernel writes into the first one, no other core keeping it. */
void
prefetch(Fn *f, Node *s)
{
	const Mem *m = mem_of(f, s->in[0]);
	Val p, v[3];
	int i;

	if (!m || m->lanes)
		return;
	p = address(f, m->base, m->elem, s->in[1]);
	for (i = 0; i < 3; i++)
		v[i] = LLVMConstInt(i32t(f), (unsigned long long[]){!m->fixed, m->fixed ? 2 : 3, 1}[i], false);
	intrinsic(f, "llvm.prefetch", LLVMTypeOf(p), NULL, 4, (Val[]){p, v[0], v[1], v[2]});
}

static Ty
unit(const Mem *m)
{
	return vec_of(m->elem, m->lanes);
}

static Val
annotate(Fn *f, const Mem *m, Val inst)
{
	if (m->scope) {
		LLVMSetMetadata(inst, f->md_scope, LLVMMetadataAsValue(f->cx, m->scope));
		LLVMSetMetadata(inst, f->md_noalias, LLVMMetadataAsValue(f->cx, m->noalias));
	}
	return inst;
}

/* ---- between memory and registers ------------------------------------------------------------------ */

static Val
to_reg(Fn *f, DType d, Val v)
{
	Ty t = is_vec(v) ? vec_of(reg_type(f, d), (int)LLVMGetVectorSize(LLVMTypeOf(v))) : reg_type(f, d);

	if (d == DT_BOOL)
		return LLVMBuildICmp(f->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
	return dtypes[d].bits < 8 ? LLVMBuildTrunc(f->b, v, t, "") : v;
}

static Val
to_mem(Fn *f, DType d, Val v)
{
	Ty t = is_vec(v) ? vec_of(mem_type(f->cx, d), (int)LLVMGetVectorSize(LLVMTypeOf(v)))
		: mem_type(f->cx, d);

	if (LLVMTypeOf(v) == t)
		return v;
	if (d == DT_INDEX)
		return LLVMBuildSExt(f->b, v, t, "");
	return dt_signed(d) ? LLVMBuildSExt(f->b, v, t, "") : LLVMBuildZExt(f->b, v, t, "");
}

static int
elem_bytes(DType d)
{
	return dtypes[d].bits < 8 ? 1 : dtypes[d].bits / 8;
}

static void
set_align(Fn *f, Val call, unsigned arg, int bytes)
{
	unsigned k = LLVMGetEnumAttributeKindForName("align", 5);

	LLVMAddCallSiteAttribute(call, arg + 1, LLVMCreateEnumAttribute(f->cx, k, (uint64_t)bytes));
}

static Val
all_lanes(Fn *f)
{
	return LLVMConstAllOnes(vec_of(LLVMInt1TypeInContext(f->cx), f->lanes));
}

/* A constant in memory: what a guarded load reads when its guard is false. */
static Val
constant_at(Fn *f, DType d, Node *n, int lanes)
{
	Val v = to_mem(f, d, splat(f, ex(f, n), lanes)), g;
	uint64_t bits = 0;
	char name[64];

	if (!LLVMIsConstant(v))
		return NULL;
	if (dt_float(d))
		data_set(&bits, d, 0, n->num);
	else
		bits = (uint64_t)n->num.i;
	snprintf(name, sizeof name, "else.%s.%d.%llx", dtypes[d].text, lanes, (unsigned long long)bits);
	g = LLVMGetNamedGlobal(f->mod, name);
	if (g)
		return g;
	g = LLVMAddGlobal(f->mod, LLVMTypeOf(v), name);
	LLVMSetInitializer(g, v);
	LLVMSetGlobalConstant(g, true);
	LLVMSetLinkage(g, LLVMPrivateLinkage);
	LLVMSetUnnamedAddress(g, LLVMGlobalUnnamedAddr);
	return g;
}

/* ---- loads -------------------------------------------------------------------------------------------- */

static Val
plain_load(Fn *f, const Mem *m, Ty t, Val p, int align)
{
	Val v = LLVMBuildLoad2(f->b, t, p, "");

	LLVMSetAlignment(v, (unsigned)align);
	return annotate(f, m, v);
}

static Val
mem_passthru(Fn *f, DType d, Ty t, Val passthru)
{
	return passthru ? to_mem(f, d, passthru) : LLVMConstNull(t);
}

static Val
vector_load(Fn *f, const Mem *m, DType d, Val p, Val passthru)
{
	Ty t = vec_of(m->elem, f->lanes);
	Val v;

	if (!f->mask)
		return plain_load(f, m, t, p, elem_bytes(d));
	v = intrinsic(f, "llvm.masked.load", t, LLVMTypeOf(p), 3,
		(Val[]){p, f->mask, mem_passthru(f, d, t, passthru)});
	set_align(f, v, 0, elem_bytes(d));
	return annotate(f, m, v);
}

static Val
gather(Fn *f, const Mem *m, DType d, Val ptrs, Val passthru)
{
	Ty t = vec_of(m->elem, f->lanes);
	Val v = intrinsic(f, "llvm.masked.gather", t, LLVMTypeOf(ptrs), 3, (Val[]){ptrs,
		f->mask ? f->mask : all_lanes(f), mem_passthru(f, d, t, passthru)});

	set_align(f, v, 0, elem_bytes(d));
	return annotate(f, m, v);
}

/* A scalar load under a lane mask: reads a zero instead when no lane runs. */
static Val
any_lane_load(Fn *f, const Mem *m, DType d, Val p)
{
	Val any = intrinsic(f, "llvm.vector.reduce.or", LLVMTypeOf(f->mask), NULL, 1, &f->mask);
	Val zero = constant_at(f, d, x_num(f->m, d, (Num){0}), 0);

	p = LLVMBuildSelect(f->b, any, p, zero, "");
	return plain_load(f, m, m->elem, p, elem_bytes(d));
}

static Val
reverse(Fn *f, Val v)
{
	Val k[256];
	int i;

	for (i = 0; i < f->lanes; i++)
		k[i] = LLVMConstInt(i32t(f), (uint64_t)(f->lanes - 1 - i), false);
	return LLVMBuildShuffleVector(f->b, v, LLVMGetPoison(LLVMTypeOf(v)),
		LLVMConstVector(k, (unsigned)f->lanes), "");
}

/* Elements p[0], p[2] ... : two loads, the second one element early so that it ends at the last. */
static Val
every_second(Fn *f, const Mem *m, DType d, Val p)
{
	Ty t = vec_of(m->elem, f->lanes);
	Val off = i64c(f, f->lanes - 1), k[256], a, b;
	int i, n = f->lanes;

	a = plain_load(f, m, t, p, elem_bytes(d));
	b = plain_load(f, m, t, LLVMBuildGEP2(f->b, m->elem, p, &off, 1, ""), elem_bytes(d));
	for (i = 0; i < n; i++)
		k[i] = LLVMConstInt(i32t(f), (uint64_t)(2 * i < n ? 2 * i : n + 2 * i - (n - 1)), false);
	return LLVMBuildShuffleVector(f->b, a, b, LLVMConstVector(k, (unsigned)n), "");
}

/* Pointers of the lanes of a strided or any access. */
static Val
pointers(Fn *f, const Mem *m, Access a)
{
	Val k[256], p, i;
	int64_t c;
	int l;

	if (a.kind == ANY) {
		i = ex_lanes(f, a.rest);
		return LLVMBuildGEP2(f->b, m->elem, m->base, &i, 1, "");
	}
	p = address(f, m->base, m->elem, a.rest);
	if (is_int(a.coef, &c) && c > INT32_MIN / 256 && c < INT32_MAX / 256) {
		for (l = 0; l < f->lanes; l++)
			k[l] = LLVMConstInt(i32t(f), (uint64_t)(c * l), true);
		i = LLVMConstVector(k, (unsigned)f->lanes);
	} else {
		for (l = 0; l < f->lanes; l++)
			k[l] = i64c(f, l);
		i = LLVMBuildMul(f->b, splat(f, ex_index(f, a.coef), f->lanes),
			LLVMConstVector(k, (unsigned)f->lanes), "");
	}
	return LLVMBuildGEP2(f->b, m->elem, p, &i, 1, "");
}

/* Pointers into a lanes' own tile at a varying index: lane last. */
static Val
private_pointers(Fn *f, const Mem *m, Node *e)
{
	Val i = ex_lanes(f, e), k[256];
	int l;

	i = LLVMBuildIntCast2(f->b, i, vec_of(LLVMInt64TypeInContext(f->cx), f->lanes), true, "");
	for (l = 0; l < f->lanes; l++)
		k[l] = i64c(f, l);
	i = LLVMBuildMul(f->b, i, splat(f, i64c(f, f->lanes), f->lanes), "");
	i = LLVMBuildAdd(f->b, i, LLVMConstVector(k, (unsigned)f->lanes), "");
	return LLVMBuildGEP2(f->b, m->elem, m->base, &i, 1, "");
}

/* ---- permutations ---------------------------------------------------------------------------- */

/* Instructions that take any element of one register, or of two, for each lane. */
typedef struct Permute { int bits, lanes; const char *feature, *one, *two; } Permute;
static const Permute permutes[] = {
	{32, 16, "avx512f", "llvm.x86.avx512.permvar.si.512", "llvm.x86.avx512.vpermi2var.d.512"},
	{32, 8, "avx2", "llvm.x86.avx2.permd", NULL},
	{64, 8, "avx512f", "llvm.x86.avx512.permvar.di.512", "llvm.x86.avx512.vpermi2var.q.512"},
};

static const Permute *
permute_for(Fn *f, DType d, int64_t count)
{
	size_t i;

	for (i = 0; i < sizeof permutes / sizeof *permutes && x86(f->t); i++) {
		const Permute *p = &permutes[i];
		if (dtypes[d].bits == p->bits && f->lanes == p->lanes && machine_has(f->t, p->feature)
		 && count <= (p->two ? 2 : 1) * p->lanes)
			return p;
	}
	return NULL;
}

/* The varying and the uniform terms of an index. */
static void
split_terms(Fn *f, Node *e, Node **varying, Node **uniform)
{
	Node *t[MAX_TERMS];
	int i, n = terms(e, t, 0);

	*varying = *uniform = x_idx(f->m, 0);
	for (i = 0; i < n; i++)
		if (varies(f, t[i]))
			*varying = x_add(f->m, *varying, t[i]);
		else
			*uniform = x_add(f->m, *uniform, t[i]);
}

/* Bits of the lanes from `from` on that are below count and, where that is given, the index limit. */
static Val
lanes_below(Fn *f, int from, int lanes, int64_t count, Node *limit)
{
	Ty bit = LLVMInt1TypeInContext(f->cx);
	Val k[64], v;
	int i;

	for (i = 0; i < lanes; i++)
		k[i] = LLVMConstInt(bit, from + i < count, false);
	v = LLVMConstVector(k, (unsigned)lanes);
	if (!limit)
		return v;
	for (i = 0; i < lanes; i++)
		k[i] = i64c(f, from + i);
	return LLVMBuildAnd(f->b, v, LLVMBuildICmp(f->b, LLVMIntSLT, LLVMConstVector(k, (unsigned)lanes),
		splat(f, LLVMBuildSExt(f->b, ex_index(f, limit), LLVMInt64TypeInContext(f->cx), ""), lanes),
		""), "");
}

/* Elements p[from] on, `lanes` of them, of which those of the mask may be read; zeros if no lane
 * runs. */
static Val
some_elements(Fn *f, const Mem *m, Val p, int from, int lanes, Val mask, DType d)
{
	Ty t = vec_of(m->elem, lanes);
	Val v, off = i64c(f, from);

	p = LLVMBuildGEP2(f->b, m->elem, p, &off, 1, "");
	if (f->mask)
		p = LLVMBuildSelect(f->b, intrinsic(f, "llvm.vector.reduce.or", LLVMTypeOf(f->mask), NULL, 1,
			&f->mask), p, constant_at(f, d, x_num(f->m, d, (Num){0}), lanes), "");
	v = intrinsic(f, "llvm.masked.load", t, LLVMTypeOf(p), 3, (Val[]){p, mask, LLVMConstNull(t)});
	set_align(f, v, 0, elem_bytes(d));
	return annotate(f, m, v);
}

static Node *
buffer_size(Fn *f, Node *buf)
{
	Node *n = x_idx(f->m, 1);
	int i;

	for (i = 0; i < buf->nin; i++)
		n = x_mul(f->m, n, buf->in[i]);
	return n;
}

/* A lookup among so few elements that registers hold them, NULL if it is none. Lanes that do not
 * run get any of them. What may lie beyond the buffer is not read, though the range says so. */
static Val
permuted(Fn *f, Node *buf, const Mem *m, DType d, Node *index)
{
	Node *varying, *uniform, *left;
	const Permute *row;
	int64_t count;
	Ty t;
	Val p, in[3], r;
	int k;

	split_terms(f, index, &varying, &uniform);
	count = varying->hi < 64 ? varying->hi + 1 : 64;
	if (varying->lo != 0 || !(row = permute_for(f, d, count)))
		return NULL;
	left = x_sub(f->m, buffer_size(f, buf), uniform);
	if (prove_le(f->m, x_idx(f->m, count), left))
		left = NULL;
	t = vec_of(LLVMIntTypeInContext(f->cx, (unsigned)row->bits), row->lanes);
	p = address(f, m->base, m->elem, uniform);
	in[1] = LLVMBuildIntCast2(f->b, ex_lanes(f, varying), t, true, "");
	for (k = 0; k * row->lanes < count; k++)
		in[2 * k] = LLVMBuildBitCast(f->b, some_elements(f, m, p, k * row->lanes, row->lanes,
			lanes_below(f, k * row->lanes, row->lanes, count, left), d), t, "");
	r = count > row->lanes ? intrinsic(f, row->two, NULL, NULL, 3, in)
		: intrinsic(f, row->one, NULL, NULL, 2, in);
	return LLVMBuildBitCast(f->b, r, vec_of(m->elem, row->lanes), "");
}

static Val
back(Fn *f, const Mem *m, Val p)
{
	Val off = i64c(f, 1 - f->lanes);

	return LLVMBuildGEP2(f->b, m->elem, p, &off, 1, "");
}

Val
ld(Fn *f, Node *e, Val passthru)
{
	Node *buf = e->in[0];
	DType d = buf_dtype(buf);
	Mem *m = mem_of(f, buf);
	Access a;
	Val p, v;

	if (!m)
		return LLVMGetPoison(reg_type(f, d));
	a = access_of(f, flat(f, buf, e->nin - 1, e->in + 1));
	if (m->lanes && a.kind == UNIFORM) {
		p = address(f, m->base, unit(m), a.rest);
		return to_reg(f, d, plain_load(f, m, unit(m), p, elem_bytes(d)));
	}
	if (m->lanes)
		return to_reg(f, d, gather(f, m, d, private_pointers(f, m, flat(f, buf, e->nin - 1, e->in + 1)), passthru));
	switch (a.kind) {
	case UNIFORM:
		p = address(f, m->base, m->elem, a.rest);
		v = f->mask && buf->type->space != SP_REG ? any_lane_load(f, m, d, p)
			: plain_load(f, m, m->elem, p, elem_bytes(d));
		break;
	case CONTIGUOUS:
		p = address(f, m->base, m->elem, a.rest);
		/* registers are read whole: a masked load would keep them in memory */
		v = buf->type->space == SP_REG ? plain_load(f, m, vec_of(m->elem, f->lanes), p, elem_bytes(d))
			: vector_load(f, m, d, p, passthru);
		break;
	case REVERSED:
		if (f->mask) {
			v = gather(f, m, d, pointers(f, m, a), passthru);
			break;
		}
		v = reverse(f, vector_load(f, m, d, back(f, m, address(f, m->base, m->elem, a.rest)), NULL));
		break;
	case EVERY_SECOND:
		if (!f->mask) {
			v = every_second(f, m, d, address(f, m->base, m->elem, a.rest));
			break;
		}
		/* fall through */
	default:
		if (a.kind == ANY && !passthru && (v = permuted(f, buf, m, d, a.rest)))
			break;
		v = gather(f, m, d, pointers(f, m, a), passthru);
		break;
	}
	return to_reg(f, d, v);
}

Val
ld_or(Fn *f, Node *e, Val cond, Node *other)
{
	Node *buf = e->in[0];
	DType d = buf_dtype(buf);
	Mem *m = mem_of(f, buf);
	Access a;
	Val p, q, v, old;

	if (!m)
		return LLVMGetPoison(reg_type(f, d));
	a = access_of(f, flat(f, buf, e->nin - 1, e->in + 1));
	if (!m->lanes && (a.kind == UNIFORM || a.kind == CONTIGUOUS)) {
		int lanes = a.kind == CONTIGUOUS ? f->lanes : 0;

		q = constant_at(f, d, other, lanes);
		p = LLVMBuildSelect(f->b, cond, address(f, m->base, m->elem, a.rest), q, "");
		v = plain_load(f, m, vec_of(m->elem, lanes), p, elem_bytes(d));
		return to_reg(f, d, v);
	}
	old = f->mask;
	q = ex_lanes(f, other);
	f->mask = splat(f, cond, f->lanes);
	v = ld(f, e, q);
	f->mask = old;
	return m->lanes ? LLVMBuildSelect(f->b, cond, v, q, "") : v;
}

/* ---- stores ---------------------------------------------------------------------------------------------- */

/* Can the statement run for all lanes at once? Two lanes must not meet in one element. */
bool
st_vector_ok(Fn *f, Node *s)
{
	Node *buf = s->in[0], *value = s->in[s->nin - 1];
	Mem *m = map_get(&f->mem, buf);
	Access a;

	if (!m)
		return false;
	a = access_of(f, flat(f, buf, s->nin - 2, s->in + 1));
	if (m->lanes)
		return true;
	if (a.kind == UNIFORM)
		return !f->mask && !varies(f, value);
	return true;
}

static void
plain_store(Fn *f, const Mem *m, Val v, Val p, int align)
{
	Val s = LLVMBuildStore(f->b, v, p);

	LLVMSetAlignment(s, (unsigned)align);
	annotate(f, m, s);
}

static void
vector_store(Fn *f, const Mem *m, DType d, Val v, Val p)
{
	Val s;

	if (!f->mask) {
		plain_store(f, m, v, p, elem_bytes(d));
		return;
	}
	s = intrinsic(f, "llvm.masked.store", LLVMTypeOf(v), LLVMTypeOf(p), 3, (Val[]){v, p, f->mask});
	set_align(f, s, 1, elem_bytes(d));
	annotate(f, m, s);
}

static void
scatter(Fn *f, const Mem *m, DType d, Val v, Val ptrs)
{
	Val s = intrinsic(f, "llvm.masked.scatter", LLVMTypeOf(v), LLVMTypeOf(ptrs), 3,
		(Val[]){v, ptrs, f->mask ? f->mask : all_lanes(f)});

	set_align(f, s, 1, elem_bytes(d));
	annotate(f, m, s);
}

/* The lanes' own registers under a mask: the others keep theirs. */
static void
private_store(Fn *f, const Mem *m, DType d, Val v, Val p)
{
	Val old, mask = f->mask;

	v = splat(f, v, f->lanes);
	if (mask) {
		old = plain_load(f, m, LLVMTypeOf(v), p, elem_bytes(d));
		v = LLVMBuildSelect(f->b, mask, v, old, "");
	}
	plain_store(f, m, v, p, elem_bytes(d));
}

void
st(Fn *f, Node *s)
{
	Node *buf = s->in[0];
	DType d = buf_dtype(buf);
	Mem *m = mem_of(f, buf);
	Val v;
	Access a;

	if (!m)
		return;
	v = to_mem(f, d, ex(f, s->in[s->nin - 1]));
	a = access_of(f, flat(f, buf, s->nin - 2, s->in + 1));
	if (m->lanes && a.kind == UNIFORM) {
		private_store(f, m, d, v, address(f, m->base, unit(m), a.rest));
		return;
	}
	if (m->lanes) {
		scatter(f, m, d, splat(f, v, f->lanes), private_pointers(f, m,
			flat(f, buf, s->nin - 2, s->in + 1)));
		return;
	}
	if (a.kind == UNIFORM) {
		if (is_vec(v)) {
			bug(f, "a store of all lanes to one place");
			return;
		}
		plain_store(f, m, v, address(f, m->base, m->elem, a.rest), elem_bytes(d));
		return;
	}
	v = splat(f, v, f->lanes);
	if (a.kind == CONTIGUOUS && buf->type->space == SP_REG) {
		private_store(f, m, d, v, address(f, m->base, m->elem, a.rest));
	} else if (a.kind == CONTIGUOUS) {
		vector_store(f, m, d, v, address(f, m->base, m->elem, a.rest));
	} else if (a.kind == REVERSED && !f->mask) {
		vector_store(f, m, d, reverse(f, v), back(f, m, address(f, m->base, m->elem, a.rest)));
	} else {
		scatter(f, m, d, v, pointers(f, m, a));
	}
}

/* ---- transposes ------------------------------------------------------------------------------------------ */

/* Exchanges the bit `size` of the rows' numbers with that of the places in them. */
static void
exchange(Fn *f, Val *row, int n, int size)
{
	Val low[MAX_TRANSPOSE], high[MAX_TRANSPOSE], a, b;
	int i, j;

	for (j = 0; j < n; j++) {
		low[j] = LLVMConstInt(i32t(f), (uint64_t)(j & size ? n + j - size : j), false);
		high[j] = LLVMConstInt(i32t(f), (uint64_t)(j & size ? n + j : j + size), false);
	}
	for (i = 0; i < n; i++) {
		if (i & size)
			continue;
		a = row[i], b = row[i + size];
		row[i] = LLVMBuildShuffleVector(f->b, a, b, LLVMConstVector(low, (unsigned)n), "");
		row[i + size] = LLVMBuildShuffleVector(f->b, a, b, LLVMConstVector(high, (unsigned)n), "");
	}
}

/* A loop over u, v to t[to(u) + v] of what lanes would gather, and lanes over u load. */
typedef struct Transpose { Mem *t; DType d; Node *u, *v, *value, *to; int n; } Transpose;

/* Do all loads in e lie side by side along u, in buffers that are only read, and one apart along v? */
static bool
reads_columns(Fn *f, const Transpose *t)
{
	Node **list, *e, *step, *rest;
	const Mem *m;
	int i, n, count = 0;
	int64_t k;
	bool ok = true;

	list = topo_scalar(t->value, &n);
	for (i = 0; i < n && ok; i++) {
		ok = list[i]->code != O_FOLD && list[i]->code != O_BOUND && list[i]->code != O_CALL;
		if (list[i]->code != O_LOAD)
			continue;
		m = map_get(&f->mem, list[i]->in[0]);
		e = flat(f, list[i]->in[0], list[i]->nin - 1, list[i]->in + 1);
		ok = m && m->fixed && !m->lanes && linear_in(f->m, e, t->v, &step, &rest) && !contains(step, t->u)
			&& linear_in(f->m, rest, t->u, &e, &rest) && is_int(e, &k) && k >= 0 && k <= 1;
		count += ok && k == 1 && !(is_int(step, &k) && k < 2);
	}
	free(list);
	return ok && count == 1;
}

static bool
transpose_of(Fn *f, Node *loop, Transpose *t)
{
	Node *inner = loop->regions[0]->nresults == 1 ? loop->regions[0]->results[0] : NULL, *put, *one;
	int64_t n;

	if (loop->n != F_UNROLL || f->vaxis || f->run || !inner || inner->code != O_FOR
	 || inner->n != F_VECTOR || inner->regions[0]->nresults != 1)
		return false;
	put = inner->regions[0]->results[0];
	t->u = loop->in[0], t->v = inner->in[0];
	if (put->code != O_STORE || !is_int(t->v->in[0], &n) || t->u->in[0] != t->v->in[0] || n < 2
	 || n > MAX_TRANSPOSE || (n & (n - 1)))
		return false;
	t->n = (int)n, t->d = buf_dtype(put->in[0]), t->value = put->in[put->nin - 1];
	t->t = map_get(&f->mem, put->in[0]);
	return t->t && !t->t->lanes && put->in[0]->type->space != SP_REG
		&& elem_bytes(t->d) * 8 * t->n <= f->t->vector_bits
		&& linear_in(f->m, flat(f, put->in[0], put->nin - 2, put->in + 1), t->v, &one, &t->to)
		&& is_intv(one, 1) && reads_columns(f, t);
}

bool
transposed(Fn *f, Node *loop)
{
	Transpose t;
	Val row[MAX_TRANSPOSE];
	Node *e;
	int i, size;

	if (!transpose_of(f, loop, &t))
		return false;
	f->vaxis = t.u;
	f->lanes = t.n;
	for (i = 0; i < t.n; i++) {
		e = subst1(f->m, t.value, t.v, x_idx(f->m, i));
		row[i] = to_mem(f, t.d, splat(f, ex(f, e), t.n));
	}
	map_free(&f->varies);
	f->vaxis = NULL;
	f->lanes = 0;
	for (size = 1; size < t.n; size *= 2)
		exchange(f, row, t.n, size);
	for (i = 0; i < t.n; i++)
		plain_store(f, t.t, row[i], address(f, t.t->base, t.t->elem,
			subst1(f->m, t.to, t.u, x_idx(f->m, i))), elem_bytes(t.d));
	return true;
}

/* ---- folds -------------------------------------------------------------------------------------------------- */

static Val
half(Fn *f, Val v, int n, int from)
{
	Val k[256];
	int i;

	for (i = 0; i < n; i++)
		k[i] = LLVMConstInt(i32t(f), (uint64_t)(from + i), false);
	return LLVMBuildShuffleVector(f->b, v, LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(k, (unsigned)n), "");
}

/* Halves are combined with halves, then pairs; what does not halve goes one by one. The order
 * depends on the extent only. */
Val
fold(Fn *f, Node *e)
{
	Node *buf = e->in[0], *axis = e->in[1], *idx[MAX_RANK + 1];
	DType d = buf_dtype(buf);
	Mem *m = mem_of(f, buf);
	int64_t n = 0, i;
	Val v, r, p;
	int k;

	if (!m || !is_int(axis->in[0], &n) || n < 1 || n > 256 || e->nin - 2 > MAX_RANK) {
		bug(f, "a fold over an axis without a small constant extent");
		return LLVMGetPoison(reg_type(f, d));
	}
	for (k = 0; k < e->nin - 2; k++)
		idx[k] = e->in[k + 2];
	idx[k] = x_idx(f->m, 0);
	p = address(f, m->base, m->elem, flat(f, buf, e->nin - 1, idx));
	v = to_reg(f, d, plain_load(f, m, vec_of(m->elem, (int)n), p, elem_bytes(d)));
	for (; n > 1 && n % 2 == 0; n /= 2)
		v = combine(f, (Comb)e->n, d, half(f, v, (int)n / 2, 0), half(f, v, (int)n / 2, (int)n / 2));
	r = LLVMBuildExtractElement(f->b, v, i64c(f, 0), "");
	for (i = 1; i < n; i++)
		r = combine(f, (Comb)e->n, d, r, LLVMBuildExtractElement(f->b, v, i64c(f, i), ""));
	return r;
}

Val
local(Fn *f, Ty t, const char *name)
{
	Block here = LLVMGetInsertBlock(f->b);
	Val a;

	LLVMPositionBuilderAtEnd(f->b, f->entry);
	a = LLVMBuildAlloca(f->b, t, name);
	LLVMSetAlignment(a, 64);
	LLVMPositionBuilderAtEnd(f->b, here);
	return a;
}
