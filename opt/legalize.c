/*
 * Makes a scalar expression legal for code generation (the end of ir/README.md): arithmetic only
 * on bool, i8 to u64, index, f32 and f64. A value of a narrower type is carried in a wide one that
 * holds it exactly, and each operation rounds or wraps once:
 *
 *   f16, bf16, float8s   f32
 *   f4e2m1               f32; in memory its code in a u8
 *   i2, i4 / u2, u4      i8 / u8
 *
 * A chain of operations thus casts f32 -> f16 -> f32 between them: one rounding per operation.
 * Needs any scalar expression; leaves one of the same type (of the storage type for sub-byte
 * types), where narrow floats appear in leaves and casts from and to f32 and bits only; and in sums and
 * products of f16 where the machine has instructions for them.
 */
#include <math.h>
#include <stdlib.h>

#include "ir/ir.h"
#include "opt/opt.h"
#include "ir/machine.h"

static bool sub_byte(DType d)
{
	return dtypes[d].bits > 0 && dtypes[d].bits < 8;
}

static bool narrow(DType d)
{
	return dt_small(d) || sub_byte(d);
}

DType storage_type(DType d)
{
	return d == DT_I2 || d == DT_I4 ? DT_I8 : sub_byte(d) ? DT_U8 : d;
}

Node *to_storage(Module *m, Node *e)
{
	DType d = e->type->dtype;
	if (d == DT_F4E2M1)
		e = x_bits(m, DT_U4, e);
	return x_cast(m, storage_type(d), e);
}

Node *from_storage(Module *m, DType d, Node *e)
{
	if (d == DT_F4E2M1)
		return x_bits(m, d, x_cast(m, DT_U4, e));
	return x_cast(m, d, e);
}

/* ---- wide values --------------------------------------------------------------------------- */

static DType wide_type(DType d)
{
	return dt_small(d) ? DT_F32 : storage_type(d);
}

/* x_cast would see through f32 and cast a narrow leaf directly */
static Node *raw_cast(Module *m, DType to, Node *e)
{
	if (e->code == O_CAST && dt_small(e->in[0]->type->dtype) && e->type->dtype != to)
		return x_raw(m, O_CAST, 1, &e, to);
	return x_cast(m, to, e);
}

/* The f32 value rounded to d, as d; f4e2m1 as its code. */
static Node *to_narrow(Module *m, DType d, Node *f32)
{
	if (d == DT_F4E2M1)
		return math_cast(m, d, DT_F32, f32);
	if (f32->code == O_CAST && f32->in[0]->type->dtype == d)
		return f32->in[0];
	return raw_cast(m, d, f32);
}

static Node *of_narrow(Module *m, DType d, Node *e)
{
	return d == DT_F4E2M1 ? math_cast(m, DT_F32, d, e) : raw_cast(m, DT_F32, e);
}

/* The same of a value of d already: an infinity stays one, where the cast would saturate. */
static Node *hand_over(Module *m, DType d, Node *f32)
{
	Node *r = to_narrow(m, d, f32);
	if (d != DT_F8E5M2 || r->code == O_NUM || r->code != O_CAST || r->in[0] != f32)
		return r;
	Node *inf = x_eq(m, x1(m, O_ABS, f32), x_flt(m, DT_F32, INFINITY));
	Node *minus = x_lt(m, f32, x_flt(m, DT_F32, 0));
	Node *code = x_select(m, minus, x_int(m, DT_U8, 0xfc), x_int(m, DT_U8, 0x7c));
	code = x_select(m, inf, code, x_bits(m, DT_U8, r));
	return x_bits(m, d, code);
}

static Node *round_wide(Module *m, DType d, Node *f32)
{
	return f32->code == O_NUM ? x_num(m, DT_F32, num_round(d, f32->num.f))
		: of_narrow(m, d, to_narrow(m, d, f32));
}

/* The low bits of an i8 or u8, extended. */
static Node *wrap_wide(Module *m, DType d, Node *e)
{
	DType w = e->type->dtype;
	int bits = dtypes[d].bits;
	int64_t lo = dt_signed(d) ? -(1 << (bits - 1)) : 0, hi = lo + (1 << bits) - 1;
	if (e->lo >= lo && e->hi <= hi)
		return e;
	if (!dt_signed(d))
		return x_and(m, e, x_int(m, w, hi));
	Node *sh = x_int(m, w, 8 - bits);
	return x2(m, O_SHR, x2(m, O_SHL, e, sh), sh);
}

/* The node's own value made wide. */
static Node *widen_leaf(Module *m, Node *e)
{
	DType d = e->type->dtype;
	if (e->code == O_NUM)
		return x_num(m, wide_type(d), e->num);
	if (d == DT_F4E2M1)
		return of_narrow(m, d, raw_cast(m, DT_U8, x_bits(m, DT_U4, e)));
	return raw_cast(m, wide_type(d), e);
}

/* ---- casts --------------------------------------------------------------------------------- */

/*
 * f64 to f32 rounded to odd: where it is inexact, the neighbour with the odd last bit. Rounding
 * that to fewer than 23 bits gives the same as rounding the f64 at once.
 */
static Node *f64_to_odd(Module *m, Node *x)
{
	Node *r = x_cast(m, DT_F32, x), *back = x_cast(m, DT_F64, r), *u = x_bits(m, DT_U32, r);
	Node *one = x_int(m, DT_U32, 1);
	Node *below = x_lt(m, x1(m, O_ABS, back), x1(m, O_ABS, x));
	Node *odd = x_ne(m, x_and(m, u, one), x_int(m, DT_U32, 0));
	Node *keep = x_or(m, odd, x_or(m, x_eq(m, back, x), x_ne(m, x, x)));
	Node *step = x_select(m, below, one, x_int(m, DT_U32, -1));
	return x_bits(m, DT_F32, x_select(m, keep, u, x_add(m, u, step)));
}

/* A 64-bit integer as f64, exact but for a trailing bit that says there was something below. */
static Node *int_to_f64_sticky(Module *m, Node *e)
{
	DType d = e->type->dtype;
	bool big = d == DT_U64 || e->hi > 1ll << 53 || e->lo < -(1ll << 53);
	if (!big)
		return x_cast(m, DT_F64, e);
	Node *low = x_and(m, e, x_int(m, d, 0xfff));
	Node *sticky = x_select(m, x_eq(m, low, x_int(m, d, 0)), low, x_int(m, d, 0x800));
	Node *cut = x_or(m, x_and(m, e, x_int(m, d, ~0xfffll)), sticky);
	Node *lim = x_int(m, d, 1ll << 53);
	Node *fits = x_lt(m, e, lim);
	if (d != DT_U64)
		fits = x_and(m, fits, x_lt(m, x1(m, O_NEG, lim), e));
	return x_cast(m, DT_F64, x_select(m, fits, e, cut));
}

/* Anything legal to an f32 that rounds to a narrower float as the value itself would. */
static Node *to_f32_odd(Module *m, Node *e)
{
	DType d = e->type->dtype;
	int64_t exact = 1 << 24;
	if (d == DT_F32)
		return e;
	if (d == DT_INDEX)
		e = x_raw(m, O_CAST, 1, &e, DT_I64), d = DT_I64;
	if (d == DT_BOOL || (dt_int(d) && d != DT_U64 && e->lo >= -exact && e->hi <= exact))
		return x_cast(m, DT_F32, e);
	return f64_to_odd(m, d == DT_F64 ? e : int_to_f64_sticky(m, e));
}

/* w: the legal operand, whose type was from. */
static Node *legal_cast(Module *m, DType to, DType from, Node *w)
{
	if (dt_small(to))
		return round_wide(m, to, to_f32_odd(m, w));
	if (!sub_byte(to))
		return raw_cast(m, to, w);
	if (dt_float(from)) {
		int bits = dtypes[to].bits;
		int64_t lo = dt_signed(to) ? -(1 << (bits - 1)) : 0, hi = lo + (1 << bits) - 1;
		DType s = storage_type(to);
		return x_min(m, x_max(m, x_cast(m, s, w), x_int(m, s, lo)), x_int(m, s, hi));
	}
	return wrap_wide(m, to, x_cast(m, storage_type(to), w));
}

static Node *legal_bits(Module *m, DType to, DType from, Node *w)
{
	if (to == from)
		return w;
	if (sub_byte(to)) {
		/* among i4, u4, f4 through the code in a u8 */
		Node *code = from == DT_F4E2M1 ? math_cast(m, from, DT_F32, w)
			: x_and(m, x_bits(m, DT_U8, w), x_int(m, DT_U8, (1 << dtypes[to].bits) - 1));
		return to == DT_F4E2M1 ? math_cast(m, DT_F32, to, code)
			: wrap_wide(m, to, x_bits(m, storage_type(to), code));
	}
	if (dt_small(from))
		w = hand_over(m, from, w);
	if (dt_small(to))
		return of_narrow(m, to, x_bits(m, to, w));
	return x_bits(m, to, w);
}

/* ---- the walk ------------------------------------------------------------------------------ */

static bool leaf(const Node *e)
{
	switch (e->code) {
	case O_NUM: case O_AXIS: case O_SYM: case O_CARRY: case O_BUFFER: case O_FOLD: case O_LET:
	case O_CALL:
		return true;
	default:
		return e->type->kind != T_SCALAR;
	}
}

/* Does rounding the wide result change nothing? */
static bool exact(OpCode op, DType d)
{
	if (op == O_SELECT || op == O_MIN || op == O_MAX)
		return true;
	bool full = d == DT_F16 || d == DT_BF16;
	return full && (op == O_NEG || op == O_ABS || op == O_FLOOR || op == O_CEIL || op == O_TRUNC ||
		op == O_RINT || op == O_REM);
}

/* A value of the half type d, given as f32. */
static Node *as_half(Module *m, DType d, Node *f32)
{
	return f32->code == O_NUM ? x_num(m, d, f32->num) : to_narrow(m, d, f32);
}

/* The low or high half of a word, a bf16, as f32. */
static Node *half_of(Module *m, Node *word, bool high)
{
	Node *u = x_bits(m, DT_U32, word);
	return x_bits(m, DT_F32, high ? x_and(m, u, x_int(m, DT_U32, 0xffff0000))
		: x2(m, O_SHL, u, x_int(m, DT_U32, 16)));
}

Node *multiply_pairs(Module *m, Node *a, Node *b, Node *acc)
{
	for (int i = 0; i < 2; i++)
		acc = x_op(m, O_MULADD, 3, (Node *[]){half_of(m, a, i), half_of(m, b, i), acc}, DT_F32);
	return acc;
}

/* in: the legal operands, of wide type where the operand is narrow. */
static Node *legal_op(Module *m, Node *e, Node **in)
{
	DType d = e->type->dtype, from = e->in[e->code == O_SELECT ? 1 : 0]->type->dtype;
	if (e->code == O_CAST)
		return legal_cast(m, d, from, in[0]);
	if (e->code == O_BITS)
		return legal_bits(m, d, from, in[0]);
	if (e->code == O_DOT2)
		return multiply_pairs(m, in[0], in[1], x_flt(m, DT_F32, 0));
	if (e->code == O_SHR || e->code == O_SHL)
		if (sub_byte(from) && dt_signed(from))         /* the count is unsigned */
			in[1] = x_and(m, in[1], x_int(m, DT_I8, (1 << dtypes[from].bits) - 1));
	if (e->code == O_POPCNT && sub_byte(from))
		in[0] = x_and(m, in[0], x_int(m, wide_type(from), (1 << dtypes[from].bits) - 1));
	if (machine_half_op(m->machine, e->code, d))
		return of_narrow(m, d, x_op(m, e->code, 2,
			(Node *[]){as_half(m, d, in[0]), as_half(m, d, in[1])}, d));
	Node *r = dt_small(d) ? math_half(m, e->code, d, in[0]) : NULL;
	if (!r)
		r = x_op(m, e->code, e->nin, in, wide_type(d));
	if (dt_small(d))
		return exact(e->code, d) ? r : round_wide(m, d, r);
	return sub_byte(d) ? wrap_wide(m, d, r) : r;
}

/* An iter over a narrow carry gets a wide one. */
static Node *legal_iter(Module *m, Node *e, Node **in)
{
	DType d = e->type->dtype;
	if (!narrow(d))
		return x_iter(m, in[0], e->in[1], in[2], in[3]);
	Node *carry = x_carry(m, wide_type(d)), *of = in[1];
	return x_iter(m, in[0], carry, in[2], subst1(m, in[3], of, carry));
}

static Node *legal_node(Module *m, Node *e, Node **in)
{
	DType d = e->type->dtype;
	Node *r;
	switch (e->code) {
	case O_READ: r = x_read(m, e->in[0], in + 1); break;
	case O_LOAD: r = l_load(m, e->in[0], e->nin - 1, in + 1); break;
	case O_REDUCE:
		/* the float contract: half types accumulate in f32 */
		r = x_reduce(m, (Comb)e->n, e->nin - 1, e->in, in[e->nin - 1]);
		return dt_small(d) ? round_wide(m, d, r) : sub_byte(d) ? wrap_wide(m, d, r) : r;
	case O_ITER: return legal_iter(m, e, in);
	default: return legal_op(m, e, in);
	}
	return narrow(d) ? widen_leaf(m, r) : r;
}

static void *grow(void *p, size_t size)
{
	p = realloc(p, size);
	if (!p)
		abort();
	return p;
}

static Node *legal_visit(Module *m, Map *done, Node *e)
{
	Node *buf[16], **in = e->nin <= 16 ? buf : grow(NULL, sizeof *in * (size_t)e->nin), *r;
	bool same = !narrow(e->type->dtype);
	if (leaf(e)) {
		r = narrow(e->type->dtype) && e->type->kind == T_SCALAR ? widen_leaf(m, e) : e;
	} else {
		for (int i = 0; i < e->nin; i++) {
			Node *x = e->in[i];
			in[i] = x && x->type->kind == T_SCALAR ? map_get(done, x) : x;
			same = same && in[i] == x;
		}
		if (e->code == O_CAST) {
			Node *x = in[0];
			in[0] = rounded_quotient(m, e->type->dtype, x);
			same = same && in[0] == x;
		}
		r = same ? e : legal_node(m, e, in);
	}
	if (in != buf)
		free(in);
	return r;
}

/* Scalars below e, operands first; does not enter tensors and buffers. malloc'ed. */
static Node **scalars_below(Node *e, int *n)
{
	typedef struct Frame { Node *n; int next; } Frame;
	int depth = 0, cap = 64, count = 0, room = 64;
	Frame *stack = grow(NULL, sizeof *stack * cap);
	Node **out = grow(NULL, sizeof *out * room);
	Map seen = { 0 };
	stack[depth++] = (Frame){ e, 0 };
	map_put(&seen, e, e);
	while (depth) {
		Frame *f = &stack[depth - 1];
		if (f->next == f->n->nin || leaf(f->n)) {
			if (count == room)
				out = grow(out, sizeof *out * (size_t)(room *= 2));
			out[count++] = f->n;
			depth--;
			continue;
		}
		Node *c = f->n->in[f->next++];
		if (!c || c->type->kind != T_SCALAR || map_get(&seen, c))
			continue;
		map_put(&seen, c, c);
		if (depth == cap)
			stack = grow(stack, sizeof *stack * (size_t)(cap *= 2));
		stack[depth++] = (Frame){ c, 0 };
	}
	free(stack);
	map_free(&seen);
	*n = count;
	return out;
}

Node *legalize(Module *m, Node *e)
{
	int n;
	Node **list = scalars_below(e, &n);
	Map done = { 0 };
	for (int i = 0; i < n; i++)
		map_put(&done, list[i], legal_visit(m, &done, list[i]));
	Node *r = map_get(&done, e);
	DType d = e->type->dtype;
	map_free(&done);
	free(list);
	return dt_small(d) ? hand_over(m, d, r) : r;
}
