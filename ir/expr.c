/*
 * Scalars: the constructors simplify, so that equal expressions meet as one pointer. Index
 * arithmetic is index.c's.
 */
#include <stdlib.h>
#include <string.h>
#include "poly.h"

enum { NAME_SIZE = 5 };

/* ---- ranges ---------------------------------------------------------------------------------- */

static void
dtype_range(DType d, int64_t *lo, int64_t *hi)
{
	int bits = dtypes[d].bits;

	*lo = INT64_MIN;
	*hi = INT64_MAX;
	if (d == DT_BOOL)
		*lo = 0, *hi = 1;
	else if (dtypes[d].cls == 'U' && bits < 64)
		*lo = 0, *hi = ((int64_t)1 << bits) - 1;
	else if (dtypes[d].cls == 'I' && bits < 64)
		*lo = -((int64_t)1 << (bits - 1)), *hi = ((int64_t)1 << (bits - 1)) - 1;
}

int64_t
ifloordiv(int64_t a, int64_t b)
{
	int64_t q;

	if (b == 0)
		return 0;
	if (b == -1)
		return a == INT64_MIN ? a : -a;
	q = a / b;
	return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

void
mul_range(int64_t al, int64_t ah, int64_t bl, int64_t bh, int64_t *lo, int64_t *hi)
{
	int64_t v[4] = {sat_mul(al, bl), sat_mul(al, bh), sat_mul(ah, bl), sat_mul(ah, bh)};
	int i;

	*lo = *hi = v[0];
	for (i = 1; i < 4; i++)
		*lo = imin(*lo, v[i]), *hi = imax(*hi, v[i]);
}

/* The least 2^n - 1 that is not below v, which is not negative. */
static int64_t
low_ones(int64_t v)
{
	return v ? (int64_t)(~0ull >> __builtin_clzll((uint64_t)v)) : 0;
}

/* The range of an operation on integers, before wrapping. */
static void
op_range(OpCode op, int nin, Node *const *in, DType d, int64_t *lo, int64_t *hi)
{
	int64_t al = in[0]->lo, ah = in[0]->hi, bl = nin > 1 ? in[1]->lo : 0,
		bh = nin > 1 ? in[1]->hi : 0;
	int64_t dl, dh;

	dtype_range(d, &dl, &dh);
	*lo = dl;
	*hi = dh;
	switch (op) {
	case O_ADD: *lo = sat_add(al, bl); *hi = sat_add(ah, bh); break;
	case O_SUB:
		*lo = bh == INT64_MIN ? INT64_MAX : sat_add(al, -bh);
		*hi = bl == INT64_MIN ? INT64_MAX : sat_add(ah, -bl);
		break;
	case O_MUL: mul_range(al, ah, bl, bh, lo, hi); break;
	case O_MIN: *lo = imin(al, bl); *hi = imin(ah, bh); break;
	case O_MAX: *lo = imax(al, bl); *hi = imax(ah, bh); break;
	case O_NEG:
		*lo = ah == INT64_MIN ? INT64_MAX : -ah;
		*hi = al == INT64_MIN ? INT64_MAX : -al;
		break;
	case O_ABS: *lo = al >= 0 ? al : 0; *hi = imax(ah, al == INT64_MIN ? INT64_MAX : -al); break;
	case O_FLOORDIV: case O_DIV:
		if (bl > 0 && (op == O_FLOORDIV || al >= 0)) {
			*lo = imin(ifloordiv(al, bl), ifloordiv(al, bh));
			*hi = imax(ifloordiv(ah, bl), ifloordiv(ah, bh));
		} else if (al >= 0 && bl >= 0) {
			*lo = 0;
			*hi = ah;
		}
		break;
	case O_MOD: case O_REM:
		if (bl >= 0 && (op == O_MOD || al >= 0)) {
			*lo = 0;
			*hi = bh > 0 ? bh - 1 : 0;
			if (al >= 0)
				*hi = imin(*hi, ah);
		}
		break;
	case O_AND:
		if (al >= 0 || bl >= 0) {
			*lo = 0;
			*hi = al < 0 ? bh : bl < 0 ? ah : imin(ah, bh);
		}
		break;
	case O_OR: case O_XOR:
		if (al >= 0 && bl >= 0) {
			*lo = 0;
			*hi = low_ones(imax(ah, bh));
		}
		break;
	case O_SELECT: *lo = imin(in[1]->lo, in[2]->lo); *hi = imax(in[1]->hi, in[2]->hi); break;
	case O_BOUND: *lo = 0; *hi = imax(bh - 1, 0); break;
	case O_POPCNT: *lo = 0; *hi = dtypes[d].bits; break;
	case O_CAST:
		if (dtypes[in[0]->type->dtype].cls != 'F') {
			*lo = al;
			*hi = ah;
		}
		break;
	default: break;
	}
	if (d != DT_INDEX && (*lo < dl || *hi > dh || *lo > *hi))   /* may wrap */
		*lo = dl, *hi = dh;
}

/* ---- making nodes ---------------------------------------------------------------------------- */

static Node *
raw_op(Module *m, OpCode op, int nin, Node *const *in, DType d)
{
	Node t = {.op = core_op(op), .type = ty_scalar(m, d), .nin = nin, .in = (Node **)in};

	if (dtypes[d].cls == 'F')
		t.lo = INT64_MIN, t.hi = INT64_MAX;
	else
		op_range(op, nin, in, d, &t.lo, &t.hi);
	return node_make(m, t);
}

Node *
raw2(Module *m, OpCode op, Node *a, Node *b)
{
	Node *in[2] = {a, b};
	bool cmp = op == O_LT || op == O_LE || op == O_EQ || op == O_NE;

	return raw_op(m, op, 2, in, cmp ? DT_BOOL : a->type->dtype);
}

Node *
x_num(Module *m, DType d, Num v)
{
	Node t = {.op = core_op(O_NUM), .type = ty_scalar(m, d), .num = v};

	if (dtypes[d].cls == 'F')
		t.lo = INT64_MIN, t.hi = INT64_MAX;
	else if (d == DT_U64 && v.i < 0)
		dtype_range(d, &t.lo, &t.hi);
	else
		t.lo = t.hi = v.i;
	return node_make(m, t);
}

Node *
x_int(Module *m, DType d, int64_t v)
{
	return x_num(m, d, dt_float(d) ? num_round(d, (double)v) : num_cast(d, DT_I64, (Num){.i = v}));
}

Node *
x_flt(Module *m, DType d, double v)
{
	return x_num(m, d, dt_float(d) ? num_round(d, v) : num_cast(d, DT_F64, (Num){.f = v}));
}

Node *
x_idx(Module *m, int64_t v)
{
	return x_num(m, DT_INDEX, (Num){.i = v});
}

Node *
x_bool(Module *m, bool v)
{
	return x_num(m, DT_BOOL, (Num){.i = v});
}

Node *
x_axis(Module *m, Node *extent)
{
	Node t = {.op = core_op(O_AXIS), .type = ty_scalar(m, DT_INDEX), .nin = 1, .in = &extent,
		.n = m->nextid++, .lo = 0,
		.hi = imax(extent->hi == INT64_MAX ? extent->hi : extent->hi - 1, 0)};

	return node_make(m, t);
}

Node *
x_sym(Module *m, const char *name, int64_t lo, int64_t hi)
{
	Node t = {.op = core_op(O_SYM), .type = ty_scalar(m, DT_INDEX), .lo = lo, .hi = hi};

	t.name = intern(m, name ? name : arena_printf(m->arena, "s%lld", (long long)m->nextid++));
	return node_make(m, t);
}

Node *
x_named(Module *m, Node *e)
{
	Node *s;

	if (e->size <= NAME_SIZE || e->code == O_SYM)
		return e;
	s = map_get(&m->named, e);
	if (!s) {
		s = x_sym(m, NULL, e->lo, e->hi);
		s->def = e;
		map_put(&m->named, e, s);
	}
	return s;
}

Node *
x_carry(Module *m, DType d)
{
	Node t = {.op = core_op(O_CARRY), .type = ty_scalar(m, d), .n = m->nextid++};

	dtype_range(d, &t.lo, &t.hi);
	return node_make(m, t);
}

bool
is_int(const Node *e, int64_t *v)
{
	if (!e || e->code != O_NUM || dtypes[e->type->dtype].cls == 'F')
		return false;
	*v = e->num.i;
	return true;
}

bool
is_intv(const Node *e, int64_t v)
{
	int64_t x;

	return is_int(e, &x) && x == v;
}

static bool
is_flt(const Node *e, double v)
{
	return e->code == O_NUM && dt_float(e->type->dtype) && memcmp(&e->num.f, &v, sizeof v) == 0;
}

Node *
x_raw(Module *m, OpCode op, int nin, Node *const *in, DType d)
{
	Node *e = raw_op(m, op, nin, in, d);
	Poly *p;

	if (d != DT_INDEX || (op != O_ADD && op != O_SUB))
		return e;
	p = malloc(sizeof *p);
	poly_of(p, e);
	if (!p->bad)
		sharpen(e, p);
	free(p);
	return e;
}

/* ---- simplification -------------------------------------------------------------------------- */

static bool
commutes(OpCode op)
{
	return op == O_ADD || op == O_MUL || op == O_MIN || op == O_MAX || op == O_AND || op == O_OR
		|| op == O_XOR
		|| op == O_EQ || op == O_NE;
}

static Node *
index_op2(Module *m, OpCode op, Node *a, Node *b)
{
	switch (op) {
	case O_ADD: case O_SUB: case O_MUL:
		return index_arith(m, op, a, b);
	case O_FLOORDIV: case O_MOD:
		return index_divmod(m, op == O_FLOORDIV, a, b);
	case O_DIV: case O_REM:
		if (a->lo >= 0 && b->lo >= 0)
			return index_divmod(m, op == O_DIV, a, b);
		return NULL;
	case O_MIN:
		return prove_le(m, a, b) ? a : prove_le(m, b, a) ? b : NULL;
	case O_MAX:
		return prove_le(m, a, b) ? b : prove_le(m, b, a) ? a : NULL;
	case O_LT:
		return prove_lt(m, a, b) ? x_bool(m, true) : prove_le(m, b, a) ? x_bool(m, false) : NULL;
	case O_LE:
		return prove_le(m, a, b) ? x_bool(m, true) : prove_lt(m, b, a) ? x_bool(m, false) : NULL;
	case O_EQ: case O_NE:
		if (prove_eq(m, a, b))
			return x_bool(m, op == O_EQ);
		if (prove_lt(m, a, b) || prove_lt(m, b, a))
			return x_bool(m, op == O_NE);
		return NULL;
	default:
		return NULL;
	}
}

static Node *
bool_op2(Module *m, OpCode op, Node *a, Node *b)
{
	Node *t;

	if (op == O_AND || op == O_OR) {
		if (a->code == O_NUM)
			t = a, a = b, b = t;
		if (b->code == O_NUM)
			return (op == O_AND) == (b->num.i != 0) ? a : b;
		if (a == b)
			return a;
	}
	if ((op == O_EQ || op == O_NE || op == O_XOR) && b->code == O_NUM)
		return (op == O_EQ) == (b->num.i != 0) ? a : x1(m, O_NOT, a);
	return NULL;
}

/* Where 64-bit and 32-bit integers are casts of index expressions that fit, compute in index. */
static Node *
as_index(Module *m, Node *e)
{
	if (e->code == O_CAST && e->in[0]->type->dtype == DT_INDEX)
		return e->in[0]->lo >= e->lo && e->in[0]->hi <= e->hi ? e->in[0] : NULL;
	return e->code == O_NUM ? x_idx(m, e->num.i) : NULL;
}

static Node *
lift_to_index(Module *m, OpCode op, Node *a, Node *b)
{
	Node *x = as_index(m, a), *y = as_index(m, b), *r;
	DType d = a->type->dtype;
	int64_t lo, hi;

	if (!x || !y || (a->code == O_NUM && b->code == O_NUM) || d == DT_U64)
		return NULL;
	switch (op) {
	case O_DIV: case O_REM:
		if (x->lo < 0 || y->lo < 0)
			return NULL;
		op = op == O_DIV ? O_FLOORDIV : O_MOD;
		break;
	case O_ADD: case O_SUB: case O_MUL: case O_FLOORDIV: case O_MOD: case O_MIN: case O_MAX:
	case O_LT: case O_LE: case O_EQ: case O_NE:
		break;
	default:
		return NULL;
	}
	r = x2(m, op, x, y);
	if (r->type->dtype == DT_BOOL)
		return r;
	dtype_range(d, &lo, &hi);
	if (r->lo < lo || r->hi > hi || r->lo == INT64_MIN || r->hi == INT64_MAX)
		return NULL;
	return x_cast(m, d, r);
}

static Node *
int_op2(Module *m, OpCode op, Node *a, Node *b)
{
	Node *r = lift_to_index(m, op, a, b);

	if (r)
		return r;
	if ((op == O_ADD || op == O_SUB || op == O_OR || op == O_XOR || op == O_SHL || op == O_SHR)
	 && is_intv(b, 0))
		return a;
	if ((op == O_MUL || op == O_DIV || op == O_FLOORDIV) && is_intv(b, 1))
		return a;
	if ((op == O_MUL || op == O_AND) && is_intv(b, 0))
		return b;
	if ((op == O_MIN || op == O_MAX) && a == b)
		return a;
	if (a->type->dtype != DT_U64) {
		if (op == O_LT && (a->hi < b->lo || a->lo >= b->hi))
			return x_bool(m, a->hi < b->lo);
		if (op == O_LE && (a->hi <= b->lo || a->lo > b->hi))
			return x_bool(m, a->hi <= b->lo);
		if ((op == O_EQ || op == O_NE) && (a->hi < b->lo || a->lo > b->hi))
			return x_bool(m, op == O_NE);
	}
	if ((op == O_EQ || op == O_LE || op == O_NE || op == O_LT) && a == b)
		return x_bool(m, op == O_EQ || op == O_LE);
	return NULL;
}

/* Bit-exact identities only (NaN payloads aside). */
static Node *
float_op2(OpCode op, Node *a, Node *b)
{
	if ((op == O_MUL || op == O_DIV) && is_flt(b, 1.0))
		return a;
	if ((op == O_SUB && is_flt(b, 0.0)) || (op == O_ADD && is_flt(b, -0.0)))
		return a;
	if ((op == O_MIN || op == O_MAX) && a == b)
		return a;
	return NULL;
}

/* Made of sizes and constants only, no element read? Arithmetic on sizes is taken not to overflow
 * i32. */
static bool
sizes_only(Node *e)
{
	Node **list;
	bool ok = true;
	int i, n;

	if (e->size > 256)
		return false;
	list = topo_scalar(e, &n);
	for (i = 0; i < n && ok; i++)
		ok = list[i]->code != O_READ && list[i]->code != O_REDUCE && list[i]->code != O_ITER
			&& list[i]->code != O_CARRY && list[i]->code != O_AXIS;
	free(list);
	return ok;
}

/* Conversion of an index or wide integer expression to index: arithmetic moves inside. */
static Node *
cast_to_index(Module *m, Node *e)
{
	Node *in[3];
	int i;

	switch (e->code) {
	case O_CAST:
		if (e->in[0]->type->dtype == DT_INDEX && ((e->in[0]->lo >= e->lo && e->in[0]->hi <= e->hi)
		 || (e->type->dtype == DT_I32 && sizes_only(e->in[0]))))
			return e->in[0];
		return NULL;
	case O_ADD: case O_SUB: case O_MUL: case O_DIV: case O_REM: case O_FLOORDIV: case O_MOD:
	case O_MIN:
	case O_MAX: case O_NEG:
		if (e->type->dtype != DT_I64 && (e->type->dtype != DT_I32 || !sizes_only(e)))
			return NULL;
		for (i = 0; i < e->nin; i++)
			in[i] = x_cast(m, DT_INDEX, e->in[i]);
		return x_op(m, e->code, e->nin, in, DT_INDEX);
	case O_SELECT:
		return x_select(m, e->in[0], x_cast(m, DT_INDEX, e->in[1]), x_cast(m, DT_INDEX, e->in[2]));
	default:
		return NULL;
	}
}

static Node *
simplify_cast(Module *m, DType to, Node *e)
{
	DType from = e->type->dtype, mid;
	Node *r;

	if (to == from)
		return e;
	if (to == DT_INDEX && dt_int(from) && (r = cast_to_index(m, e)))
		return r;
	if (e->code != O_CAST)
		return NULL;
	mid = from;
	from = e->in[0]->type->dtype;
	if (dt_int(from) && dt_int(mid) && dt_int(to) && mid != DT_U64) {
		int64_t lo, hi;
		dtype_range(mid, &lo, &hi);
		if (e->in[0]->lo >= lo && e->in[0]->hi <= hi && from != DT_U64)
			return x_cast(m, to, e->in[0]);
	}
	/* a pair through a float that holds every value of the first type */
	if (dt_float(mid) && ((mid == DT_F64 && (from == DT_F32 || from == DT_F16 || from == DT_BF16))
	 || (mid == DT_F32 && (from == DT_F16 || from == DT_BF16))) && dt_float(to))
		return x_cast(m, to, e->in[0]);
	if (from == DT_BOOL && to == DT_BOOL)
		return e->in[0];
	return NULL;
}

static Node *
fold(Module *m, OpCode op, int nin, Node *const *in, DType d)
{
	Num v[3], r;
	int i;

	for (i = 0; i < nin; i++) {
		if (in[i]->code != O_NUM)
			return NULL;
		v[i] = in[i]->num;
	}
	return num_eval(op, d, in[op == O_SELECT ? 1 : 0]->type->dtype, v, &r) ? x_num(m, d, r) : NULL;
}

Node *
x_select(Module *m, Node *c, Node *a, Node *b)
{
	Node *in[3] = {c, a, b};

	if (c->code == O_NUM)
		return c->num.i ? a : b;
	if (a == b)
		return a;
	if (c->code == O_NOT)
		return x_select(m, c->in[0], b, a);
	if (a->type->dtype == DT_BOOL) {
		if (is_intv(a, 1) && is_intv(b, 0))
			return c;
		if (is_intv(a, 0) && is_intv(b, 1))
			return x_not(m, c);
	}
	/* nested selects on one condition */
	if (a->code == O_SELECT && a->in[0] == c)
		return x_select(m, c, a->in[1], b);
	if (b->code == O_SELECT && b->in[0] == c)
		return x_select(m, c, a, b->in[2]);
	return raw_op(m, O_SELECT, 3, in, a->type->dtype);
}

static DType
result_type(OpCode op, Node *const *in, DType to)
{
	switch (scalar_ops[op].result) {
	case 'B': return DT_BOOL;
	case '1': return in[1]->type->dtype;
	case 'T': return to;
	case 'f': return DT_F32;
	default: return in[0]->type->dtype;
	}
}

Node *
x_op(Module *m, OpCode op, int nin, Node *const *in, DType to)
{
	DType d = result_type(op, in, to), x = in[0]->type->dtype;
	Node *r = NULL, *a = in[0], *b = nin > 1 ? in[1] : NULL, *t;

	if (op == O_SELECT)
		return x_select(m, in[0], in[1], in[2]);
	if ((r = fold(m, op, nin, in, d)))
		return r;
	if (op == O_CAST)
		r = simplify_cast(m, d, a);
	else if (op == O_BITS)
		r = d == x ? a : a->code == O_BITS ? x_bits(m, d, a->in[0]) : NULL;
	else if (op == O_NOT)
		r = a->code == O_NOT ? a->in[0] : NULL;
	else if (op == O_NEG && x == DT_INDEX)
		r = index_arith(m, O_SUB, x_idx(m, 0), a);
	else if (op == O_BOUND) {
		if (x == DT_INDEX && a->lo >= 0 && prove_lt(m, a, b))
			r = a;
	} else if (op == O_ABS && dtypes[x].cls != 'F' && a->lo >= 0)
		r = a;
	else if (nin == 2) {
		if (commutes(op) && (a->code == O_NUM
		 || (b->code != O_NUM && dtypes[x].cls != 'F' && !before(a, b))))
			t = a, a = b, b = t;
		if (x == DT_INDEX)
			r = index_op2(m, op, a, b);
		else if (x == DT_BOOL)
			r = bool_op2(m, op, a, b);
		else if (dt_int(x))
			r = int_op2(m, op, a, b);
		else if (dt_float(x))
			r = float_op2(op, a, b);
		if (!r && a == b && x == DT_INDEX && (op == O_EQ || op == O_LE))
			r = x_bool(m, true);
		if (!r)
			return raw_op(m, op, 2, (Node *[]){a, b}, d);
	}
	return r ? r : raw_op(m, op, nin, in, d);
}

Node *
x1(Module *m, OpCode op, Node *a)
{
	return x_op(m, op, 1, &a, a->type->dtype);
}

Node *
x2(Module *m, OpCode op, Node *a, Node *b)
{
	Node *in[2] = {a, b};

	return x_op(m, op, 2, in, a->type->dtype);
}

Node *
x_cast(Module *m, DType to, Node *a)
{
	return x_op(m, O_CAST, 1, &a, to);
}

Node *
x_bits(Module *m, DType to, Node *a)
{
	return x_op(m, O_BITS, 1, &a, to);
}

Node *
x_addi(Module *m, Node *a, int64_t v)
{
	return x_add(m, a, x_idx(m, v));
}

Node *
x_muli(Module *m, Node *a, int64_t v)
{
	return x_mul(m, a, x_idx(m, v));
}

Node *
x_ceildiv(Module *m, Node *a, Node *b)
{
	return x_fdiv(m, x_addi(m, x_add(m, a, b), -1), b);
}

Node *
x_comb(Module *m, Comb c, Node *a, Node *b)
{
	static const OpCode op[] = {[COMB_SUM] = O_ADD, [COMB_PROD] = O_MUL, [COMB_MIN] = O_MIN,
		[COMB_MAX] = O_MAX, [COMB_AND] = O_AND, [COMB_OR] = O_OR};

	return c == COMB_SET ? b : x2(m, op[c], a, b);
}

Node *
x_comb_identity(Module *m, Comb c, DType d)
{
	int64_t lo, hi;

	dtype_range(d, &lo, &hi);
	switch (c) {
	case COMB_PROD: case COMB_AND:
		return c == COMB_AND && d != DT_BOOL ? x_int(m, d, -1) : x_int(m, d, 1);
	case COMB_MIN:
		return dt_float(d) ? x_flt(m, d, __builtin_inf()) : d == DT_U64 ? x_int(m, d, -1)
			: x_int(m, d, hi);
	case COMB_MAX:
		return dt_float(d) ? x_flt(m, d, -__builtin_inf()) : d == DT_U64 ? x_int(m, d, 0)
			: x_int(m, d, lo);
	default:
		return x_int(m, d, 0);
	}
}

/* Axes of extent 1 vanish; a body that is empty for sure is the identity. */
/* What a sum of integers can be, unless it may wrap. */
static void
sum_range(Node *sum)
{
	const Node *body = sum->in[sum->nin - 1];
	int64_t lo = imin(body->lo, 0), hi = imax(body->hi, 0);
	int i;

	if (!dt_int(body->type->dtype))
		return;
	for (i = 0; i + 1 < sum->nin; i++) {
		lo = sat_mul(lo, sum->in[i]->in[0]->hi);
		hi = sat_mul(hi, sum->in[i]->in[0]->hi);
	}
	if (lo >= sum->lo && hi <= sum->hi && lo != INT64_MIN && hi != INT64_MAX)
		sum->lo = lo, sum->hi = hi;
}

Node *
x_reduce(Module *m, Comb c, int naxes, Node *const *axes, Node *body)
{
	Node *in[MAX_RANK * 2 + 1], t = {0};
	int i, n = 0;

	for (i = 0; i < naxes; i++)
		if (is_intv(axes[i]->in[0], 0))
			return x_comb_identity(m, c, body->type->dtype);
	for (i = 0; i < naxes; i++)
		if (is_intv(axes[i]->in[0], 1))
			body = subst1(m, body, axes[i], x_idx(m, 0));
		else
			in[n++] = axes[i];
	if (n == 0)
		return body;
	if ((c == COMB_MIN || c == COMB_MAX || c == COMB_AND || c == COMB_OR) && body->code == O_NUM) {
		for (i = 0; i < n && in[i]->in[0]->lo > 0; i++)
			;
		if (i == n)
			return body;
	}
	in[n] = body;
	t = (Node){.op = core_op(O_REDUCE), .type = body->type, .nin = n + 1, .in = in, .n = c};
	dtype_range(body->type->dtype, &t.lo, &t.hi);
	if (c == COMB_MIN || c == COMB_MAX) {
		Node *id = x_comb_identity(m, c, body->type->dtype);
		t.lo = imin(body->lo, id->lo);
		t.hi = imax(body->hi, id->hi);
	} else if (c == COMB_SUM)
		sum_range(&t);
	return node_make(m, t);
}

Node *
x_iter(Module *m, Node *axis, Node *carry, Node *init, Node *step)
{
	Node *in[4] = {axis, carry, init, step};
	Node t = {.op = core_op(O_ITER), .type = init->type, .nin = 4, .in = in};

	if (is_intv(axis->in[0], 0))
		return init;
	dtype_range(init->type->dtype, &t.lo, &t.hi);
	return node_make(m, t);
}
