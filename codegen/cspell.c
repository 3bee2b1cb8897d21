/*
 * Spelling: one expression as C text, with the parentheses that it needs. What has a name (cexpr.c)
 * is printed as its name.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cprint.h"
#include "ir/machine.h"

/* ---- names and types ------------------------------------------------------------------------- */

/* Arithmetic on values that fit 32 bits. */
static bool of_narrow(CFn *c, const Node *n)
{
	int from = n->code == O_SELECT;

	switch (n->code) {
	case O_SYM: return n->def && cfn_narrow(c, n->def);
	case O_AXIS: case O_LET: return cfn_narrow(c, n->in[0]);
	case O_ADD: case O_SUB: case O_MUL: case O_FLOORDIV: case O_MOD: case O_MIN: case O_MAX:
	case O_SELECT:
		for (int k = from; k < n->nin; k++)
			if (!cfn_narrow(c, n->in[k]))
				return false;
		return true;
	default: return false;
	}
}

/* Does an index fit 32 bits: by its range, or since the plan has checked the sizes that make it
 * up? */
bool cfn_narrow(CFn *c, const Node *n)
{
	if (n->lo >= INT32_MIN && n->hi <= INT32_MAX)
		return true;
	if (!c->index32 || n->type->dtype != DT_INDEX)
		return false;
	const void *known = map_get(&c->narrow, n);
	bool yes = known ? known == c : of_narrow(c, n);
	if (!known)
		map_put(&c->narrow, n, yes ? (void *)c : (void *)n);
	return yes;
}

const char *cstorage(DType d)
{
	switch (d) {
	case DT_BOOL: case DT_U2: case DT_U4: return "u8";
	case DT_I2: case DT_I4: return "i8";
	case DT_INDEX: return "i64";
	case DT_C64: return "u64";
	default: return dt_float(d) && dtypes[d].bits <= 8 ? "u8" : dtypes[d].text;
	}
}

const char *ctype(CFn *c, const Node *n)
{
	DType d = n->type->dtype;
	if (d == DT_INDEX)
		return c->f->gpu && cfn_narrow(c, n) ? "i32" : "i64";
	return d == DT_BOOL ? "i32" : cstorage(d);
}

/* ---- literals -------------------------------------------------------------------------------- */

static void put_double(FILE *o, double x, bool single)
{
	char s[64];
	for (int p = 1; p <= 17; p++) {
		snprintf(s, sizeof s, "%.*g", p, x);
		bool plain = fabs(x) < 1e-4 || fabs(x) >= 1e6 || !strchr(s, 'e');
		if (plain && (single ? strtof(s, NULL) == (float)x : strtod(s, NULL) == x))
			break;
	}
	fprintf(o, "%s%s%s", s, strpbrk(s, ".e") ? "" : ".0", single ? "f" : "");
}

static void put_int(FILE *o, DType d, int64_t i)
{
	bool wide = dtypes[d].bits == 64 && (i > INT32_MAX || i < INT32_MIN);
	if (d == DT_U64 || d == DT_U32)
		fprintf(o, "%llu%s", (unsigned long long)i, d == DT_U64 ? "ull" : "u");
	else if (i == INT64_MIN)
		fputs("(-9223372036854775807ll - 1)", o);
	else if (i == INT32_MIN)
		fputs("(-2147483647 - 1)", o);
	else
		fprintf(o, "%lld%s", (long long)i, wide ? "ll" : "");
}

void c_literal(CFile *f, FILE *o, DType d, Num v)
{
	if (d == DT_C128) {
		fputs(f->gpu ? "tcc_c128_zero()" : "(c128){ 0, 0 }", o);
	} else if (!dt_float(d)) {
		put_int(o, d, v.i);
	} else if (dt_small(d)) {
		uint16_t bits = 0;
		data_set(&bits, d, 0, v);
		fprintf(o, "0x%x", bits);
	} else if (isfinite(v.f)) {
		put_double(o, v.f, d == DT_F32);
	} else if (d == DT_F32) {
		uint32_t bits;
		data_set(&bits, d, 0, v);
		fprintf(o, "%s%s(0x%x)", bits >> 31 ? "-" : "", c_help(f, "tcc_as_f32", DT_NONE),
			bits & INT32_MAX);
	} else {
		uint64_t bits;
		data_set(&bits, d, 0, v);
		fprintf(o, "%s%s(0x%llxll)", bits >> 63 ? "-" : "", c_help(f, "tcc_as_f64", DT_NONE),
			(unsigned long long)(bits & INT64_MAX));
	}
}

/* ---- operations ------------------------------------------------------------------------------ */

static void open_paren(CFn *c, bool yes) { if (yes) fputc('(', c->o); }
static void close_paren(CFn *c, bool yes) { if (yes) fputc(')', c->o); }

static void call_n(CFn *c, const char *fn, int n, Node *const *in)
{
	fprintf(c->o, "%s(", fn);
	for (int k = 0; k < n; k++) {
		if (k)
			fputs(", ", c->o);
		cx(c, in[k], P_COND);
	}
	fputc(')', c->o);
}

static void infix(CFn *c, Node *a, const char *op, Node *b, int p, int prec)
{
	open_paren(c, prec > p);
	cx(c, a, p);
	fprintf(c->o, " %s ", op);
	cx(c, b, p + 1);
	close_paren(c, prec > p);
}

static bool minus_one_times(const Node *n, Node **rest)
{
	if (n->code != O_MUL || n->type->dtype != DT_INDEX)
		return false;
	for (int k = 0; k < 2; k++)
		if (is_intv(n->in[k], -1)) {
			*rest = n->in[1 - k];
			return true;
		}
	return false;
}

/* a + b of index type: negative terms become subtractions. */
static void index_sum(CFn *c, Node *a, Node *b, int prec)
{
	Node *rest;
	int64_t v;

	if (minus_one_times(a, &rest) && !minus_one_times(b, &rest)) {
		Node *t = a;
		a = b;
		b = t;
	}
	bool b_inline = cx_leaf(b) || !cx_inst(c, b, c->at) || !cx_inst(c, b, c->at)->name;
	if (is_int(b, &v) && v < 0 && v > INT64_MIN) {
		open_paren(c, prec > P_ADD);
		cx(c, a, P_ADD);
		fputs(" - ", c->o);
		put_int(c->o, DT_INDEX, -v);
		close_paren(c, prec > P_ADD);
	} else if (b_inline && minus_one_times(b, &rest)) {
		infix(c, a, "-", rest, P_ADD, prec);
	} else {
		infix(c, a, "+", b, P_ADD, prec);
	}
}

/* Index arithmetic in 32 bits where result and operands fit, else in 64. */
static void index_op(CFn *c, Node *n, const char *op, int p, int prec)
{
	Node *a = n->in[0], *b = n->in[1];
	bool wide_in = !cfn_narrow(c, a) || !cfn_narrow(c, b), wide = wide_in || !cfn_narrow(c, n);
	bool back = c->f->gpu && wide && cfn_narrow(c, n), first = c->f->gpu && wide && !wide_in;

	if (back)
		fputs("(i32)", c->o);
	open_paren(c, back);
	if (first) {
		open_paren(c, !back && prec > p);
		fputs("(i64)", c->o);
		cx(c, a, P_UNARY);
		fprintf(c->o, " %s ", op);
		cx(c, b, p + 1);
		close_paren(c, !back && prec > p);
	} else if (n->code == O_ADD) {
		index_sum(c, a, b, back ? P_NONE : prec);
	} else {
		infix(c, a, op, b, p, back ? P_NONE : prec);
	}
	close_paren(c, back);
}

static const char *unsigned_of(DType d)
{
	static const char *const by[] = { "u8", "u16", "u32", "u64" };
	int bits = dtypes[d].bits;
	return by[bits <= 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3];
}

/* + - * of a wrapping integer type. */
static void wrap_op(CFn *c, Node *n, const char *op, int p, int prec)
{
	DType d = n->type->dtype;
	int bits = dtypes[d].bits;
	int64_t max = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
	bool exact = dt_signed(d) && n->lo > -max - 1 && n->hi < max;   /* it cannot wrap */

	if (exact || (bits >= 32 && !dt_signed(d))) {
		infix(c, n->in[0], op, n->in[1], p, prec);
		return;
	}
	open_paren(c, prec > P_UNARY);
	fprintf(c->o, "(%s)(", cstorage(d));
	if (bits >= 32 || (bits == 16 && n->code == O_MUL)) {
		const char *u = bits == 16 ? "u32" : unsigned_of(d);
		fprintf(c->o, "(%s)", u);
		cx(c, n->in[0], P_UNARY);
		fprintf(c->o, " %s (%s)", op, u);
		cx(c, n->in[1], P_UNARY);
	} else {
		infix(c, n->in[0], op, n->in[1], p, P_NONE);
	}
	fputc(')', c->o);
	close_paren(c, prec > P_UNARY);
}

static DType helper_type(CFn *c, const Node *n)
{
	DType d = n->type->dtype;
	if (d != DT_INDEX)
		return d;
	for (int k = 0; k < n->nin; k++)
		if (!cfn_narrow(c, n->in[k]))
			return DT_I64;
	return c->f->gpu && cfn_narrow(c, n) ? DT_I32 : DT_I64;
}

static void helper_op(CFn *c, Node *n, const char *name)
{
	call_n(c, c_help(c->f, name, helper_type(c, n)), n->nin, n->in);
}

static void arith(CFn *c, Node *n, const char *op, int p, int prec)
{
	DType d = n->type->dtype;
	if (d == DT_INDEX)
		index_op(c, n, op, p, prec);
	else if (d == DT_F16)                    /* machine_half_op: of the dialect */
		call_n(c, arena_printf(c->f->m->arena, "tcc_%s_f16", n->op->name), n->nin, n->in);
	else if (dt_float(d))
		infix(c, n->in[0], op, n->in[1], p, prec);
	else
		wrap_op(c, n, op, p, prec);
}

/* Integer quotients and remainders: C's operators where signs allow it. */
static void quotient(CFn *c, Node *n, int prec)
{
	Node *a = n->in[0], *b = n->in[1];
	DType d = n->type->dtype;
	bool floor = n->code == O_FLOORDIV || n->code == O_MOD;
	bool rem = n->code == O_REM || n->code == O_MOD;
	bool plain = floor ? a->lo >= 0 && b->lo > 0 && d != DT_U64 : b->lo > 0 && d != DT_U64;
	static const char *const name[2][2] = { { "div", "rem" }, { "floordiv", "mod" } };

	if (plain && d == DT_INDEX) {
		index_op(c, n, rem ? "%" : "/", P_MUL, prec);
	} else if (plain && dtypes[d].bits >= 32) {
		infix(c, a, rem ? "%" : "/", b, P_MUL, prec);
	} else if (dtypes[d].cls == 'U') {
		helper_op(c, n, rem ? "rem" : "div");
	} else {
		helper_op(c, n, name[floor][rem]);
	}
}

/* A minimum with a constant: a comparison that keeps NaN and orders zeros. */
static bool min_max_const(CFn *c, Node *n, int prec)
{
	bool max = n->code == O_MAX;
	for (int k = 0; k < 2; k++) {
		Node *v = n->in[k], *x = n->in[1 - k];
		CInst *t;
		if (v->code != O_NUM || isnan(v->num.f) ||
				!(cx_leaf(x) || ((t = cx_inst(c, x, c->at)) && t->name)))
			continue;
		bool zero = v->num.f == 0 && signbit(v->num.f) == !max;
		open_paren(c, prec > P_COND);
		cx(c, x, P_REL + 1);
		fputs(max ? zero ? " <= " : " < " : zero ? " >= " : " > ", c->o);
		cx(c, v, P_REL + 1);
		fputs(" ? ", c->o);
		cx(c, v, P_COND + 1);
		fputs(" : ", c->o);
		cx(c, x, P_COND);
		close_paren(c, prec > P_COND);
		return true;
	}
	return false;
}

static void min_max(CFn *c, Node *n, int prec)
{
	if (!c->f->gpu && dt_float(n->type->dtype) && min_max_const(c, n, prec))
		return;
	helper_op(c, n, n->code == O_MIN ? "min" : "max");
}

static void logic(CFn *c, Node *n, int prec)
{
	static const struct { OpCode op; const char *bits, *text; int p, pl; } ops[] = {
		{ O_AND, "&", "&&", P_AND, P_LAND }, { O_OR, "|", "||", P_OR, P_LOR },
		{ O_XOR, "^", "^", P_XOR, P_XOR } };
	int k = n->code == O_AND ? 0 : n->code == O_OR ? 1 : 2;
	/* skipping a load costs a branch */
	bool lazy = n->type->dtype == DT_BOOL && !cx_impure(c, n->in[1]);
	int p = lazy ? ops[k].pl : ops[k].p;
	/* compilers warn of mixed operators that lean on C's precedence */
	int in = lazy && n->code != O_XOR ? P_EQ : P_UNARY;

	open_paren(c, prec > p || (prec > P_COND && prec != p));
	cx(c, n->in[0], n->in[0]->code == n->code && n->in[0]->type == n->type ? p : in);
	fprintf(c->o, " %s ", lazy ? ops[k].text : ops[k].bits);
	cx(c, n->in[1], n->in[1]->code == n->code && n->in[1]->type == n->type ? p : in);
	close_paren(c, prec > p || (prec > P_COND && prec != p));
}

static void compare(CFn *c, Node *n, int prec)
{
	const char *op = n->code == O_LT ? "<" : n->code == O_LE ? "<=" : n->code == O_EQ ? "==" : "!=";
	int p = n->code == O_LT || n->code == O_LE ? P_REL : P_EQ;
	open_paren(c, prec > p);
	cx(c, n->in[0], P_REL + 1);
	fprintf(c->o, " %s ", op);
	cx(c, n->in[1], P_REL + 1);
	close_paren(c, prec > p);
}

static void not_or_neg(CFn *c, Node *n, int prec)
{
	DType d = n->type->dtype;
	bool cast = d != DT_BOOL && !dt_float(d) && d != DT_INDEX && dtypes[d].bits < 32;

	if (n->code == O_NEG && dt_signed(d) && d != DT_INDEX) {
		helper_op(c, n, "neg");
		return;
	}
	open_paren(c, prec > P_UNARY);
	if (cast)
		fprintf(c->o, "(%s)", cstorage(d));
	fputs(n->code == O_NEG ? "-" : d == DT_BOOL ? "!" : "~", c->o);
	cx(c, n->in[0], P_POST);
	close_paren(c, prec > P_UNARY);
}

static void shift(CFn *c, Node *n, int prec)
{
	Node *by = n->in[1];
	DType d = n->type->dtype;
	bool left = n->code == O_SHL;

	if (by->lo >= 0 && by->hi < dtypes[d].bits &&
			(!left || (!dt_signed(d) && dtypes[d].bits >= 32)))
		infix(c, n->in[0], left ? "<<" : ">>", by, P_SHIFT, prec > P_COND ? P_POST : prec);
	else
		helper_op(c, n, left ? "shl" : "shr");
}

static void choose(CFn *c, Node *n, int prec)
{
	CInst *t = cx_inst(c, n, c->at);
	int at = c->at, then_scope = t ? t->then_scope : -1, else_scope = t ? t->else_scope : -1;

	open_paren(c, prec > P_COND);
	cx(c, n->in[0], P_COND + 1);
	fputs(" ? ", c->o);
	c->at = then_scope >= 0 ? then_scope : at;
	cx(c, n->in[1], P_COND + 1);
	fputs(" : ", c->o);
	c->at = else_scope >= 0 ? else_scope : at;
	cx(c, n->in[2], P_COND);
	c->at = at;
	close_paren(c, prec > P_COND);
}

static void cast(CFn *c, Node *n, int prec)
{
	Node *a = n->in[0];
	DType to = n->type->dtype, from = a->type->dtype;
	bool plain_from = !dt_small(from), plain_to = !dt_small(to);

	if (to == DT_BOOL && (!dt_float(from) || plain_from)) {
		open_paren(c, prec > P_EQ);
		cx(c, a, P_REL + 1);
		fputs(dt_float(from) ? from == DT_F32 ? " != 0.0f" : " != 0.0" : " != 0", c->o);
		close_paren(c, prec > P_EQ);
	} else if ((dt_float(from) && !dt_float(to)) || !plain_from || !plain_to) {
		call_n(c, c_convert(c->f, from, to), 1, n->in);
	} else {
		open_paren(c, prec > P_UNARY);
		fprintf(c->o, "(%s)", ctype(c, n));
		cx(c, a, P_UNARY);
		close_paren(c, prec > P_UNARY);
	}
}

static void bits(CFn *c, Node *n, int prec)
{
	Node *a = n->in[0];
	DType to = n->type->dtype, from = a->type->dtype;

	if (to == DT_F32 || to == DT_F64) {
		fprintf(c->o, "%s(", c_help(c->f, to == DT_F32 ? "tcc_as_f32" : "tcc_as_f64", DT_NONE));
		fprintf(c->o, "(%s)", to == DT_F32 ? "i32" : "i64");
		cx(c, a, P_UNARY);
		fputc(')', c->o);
		return;
	}
	open_paren(c, prec > P_UNARY);
	fprintf(c->o, "(%s)", cstorage(to));
	if (from == DT_F32 || from == DT_F64)
		call_n(c, c_help(c->f, from == DT_F32 ? "tcc_as_i32" : "tcc_as_i64", DT_NONE), 1, n->in);
	else
		cx(c, a, P_UNARY);
	close_paren(c, prec > P_UNARY);
}

static void popcnt(CFn *c, Node *n, int prec)
{
	DType d = n->type->dtype;
	bool wide = dtypes[d].bits == 64;
	open_paren(c, prec > P_UNARY);
	fprintf(c->o, "(%s)%s((%s)", cstorage(d), c_help(c->f, wide ? "tcc_popc_u64" : "tcc_popc_u32",
		DT_NONE), unsigned_of(d));
	cx(c, n->in[0], P_UNARY);
	fputc(')', c->o);
	close_paren(c, prec > P_UNARY);
}

static void bound(CFn *c, Node *n)
{
	if (!c->k || !c->k->nerrors) {
		helper_op(c, n, "clamp");
		return;
	}
	fprintf(c->o, "%s(", c_help(c->f, "bound", helper_type(c, n)));
	cx(c, n->in[0], P_COND);
	fputs(", ", c->o);
	cx(c, n->in[1], P_COND);
	fprintf(c->o, ", err, %lld)", (long long)n->n + 1);
}

static void muladd(CFn *c, Node *n, int prec)
{
	DType d = n->type->dtype;
	const char *u = dtypes[d].bits == 16 ? "u32" : unsigned_of(d);

	if (dt_float(d)) {
		helper_op(c, n, c->f->gpu ? "fma" : "muladd");
		return;
	}
	open_paren(c, prec > P_UNARY);
	fprintf(c->o, "(%s)((%s)", ctype(c, n), u);
	cx(c, n->in[0], P_UNARY);
	fprintf(c->o, " * (%s)", u);
	cx(c, n->in[1], P_UNARY);
	fprintf(c->o, " + (%s)", u);
	cx(c, n->in[2], P_UNARY);
	fputc(')', c->o);
	close_paren(c, prec > P_UNARY);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* A register tile that is spread over the threads of a block: its last index is dropped. */
static bool distributed(CFn *c, const Node *buf)
{
	return map_get(&c->spread, buf) != NULL;
}

/* The element of a buffer, as an expression that can be assigned to. */
void cx_element(CFn *c, Node *buf, int n, Node *const *idx)
{
	const char *name = map_get(&c->names, buf);

	if (!name) {
		cfile_error(c->f, "a buffer that is used outside its life");
		return;
	}
	fputs(name, c->o);
	if (distributed(c, buf))
		n--;
	if (buf->type->space == SP_REG || n < 2) {
		for (int k = 0; k < n; k++) {
			fputc('[', c->o);
			cx(c, idx[k], P_NONE);
			fputc(']', c->o);
		}
		if (c->lane_priv && map_get(c->lane_priv, buf))
			fprintf(c->o, "[%s]", c->lane_name);
		return;
	}
	/* ((i*e1 + j)*e2 + k), without leading zeros */
	int first = 0;
	while (first < n - 1 && is_intv(idx[first], 0))
		first++;
	fputc('[', c->o);
	for (int k = first + 2; k < n; k++)
		fputc('(', c->o);
	cx(c, idx[first], first < n - 1 ? P_MUL : P_NONE);
	for (int k = first + 1; k < n; k++) {
		fputs(" * ", c->o);
		cx(c, buf->in[k], P_MUL + 1);
		fputs(" + ", c->o);
		cx(c, idx[k], P_ADD + 1);
		if (k < n - 1)
			fputc(')', c->o);
	}
	fputc(']', c->o);
}

/* Threads that a fold on a GPU goes over: the tile's last extent. */
static int64_t fold_width(const Node *buf)
{
	int64_t n = 0;
	return buf->nin && is_int(buf->in[buf->nin - 1], &n) ? n : 0;
}

/* Shuffles need whole warps, and then all of the block's, or part of one, of a power of two. */
static bool foldable(CFn *c, const Node *buf, int64_t apart)
{
	int64_t n = fold_width(buf), warp = cfile_warp(c->f);
	return n > 0 && n * apart <= warp ? (n & (n - 1)) == 0
		: apart == 1 && n % warp == 0 && c->k && n == c->k->block;
}

/* Operands: buffer, axis, indices; the last of these may be the axis itself. */
static void fold(CFn *c, Node *n)
{
	Node *buf = n->in[0];
	int rank = n->nin - 2 == buf->nin ? buf->nin - 1 : n->nin - 2;
	const char *name = map_get(&c->names, buf);
	char fn[32];

	if (c->f->gpu && !foldable(c, buf, n->num.i))
		cfile_error(c->f, "a fold over threads that are no whole warps");
	snprintf(fn, sizeof fn, "fold_%s", comb_names[n->n]);
	fprintf(c->o, "%s(", c_help(c->f, fn, buf->type->dtype));
	if (c->f->gpu && fold_width(buf) > cfile_warp(c->f))
		fprintf(c->o, "fold_%s, ", cstorage(buf->type->dtype));
	else if (c->f->gpu)
		fputs("0, ", c->o);
	fputs(name ? name : "?", c->o);
	for (int k = 2; k < rank + 2; k++) {
		fputc('[', c->o);
		cx(c, n->in[k], P_NONE);
		fputc(']', c->o);
	}
	fputs(", ", c->o);
	if (c->f->gpu)
		fprintf(c->o, "%lld, %lld", (long long)fold_width(buf), (long long)n->num.i);
	else
		cx(c, buf->in[buf->nin - 1], P_COND);
	fputc(')', c->o);
}

/* ---- one expression -------------------------------------------------------------------------- */

void cx_spell(CFn *c, Node *n, int prec)
{
	DType d = n->type->dtype;
	const char *lane = map_get(&c->lanes, n);

	if (lane) {
		fputs(lane, c->o);
		return;
	}
	switch (n->code) {
	case O_ADD: arith(c, n, "+", P_ADD, prec); break;
	case O_SUB: arith(c, n, "-", P_ADD, prec); break;
	case O_MUL: arith(c, n, "*", P_MUL, prec); break;
	case O_DIV: case O_REM: case O_FLOORDIV: case O_MOD:
		if (!dt_float(d))
			quotient(c, n, prec);
		else if (n->code == O_DIV)
			infix(c, n->in[0], "/", n->in[1], P_MUL, prec);
		else
			helper_op(c, n, "fmod");
		break;
	case O_MIN: case O_MAX: min_max(c, n, prec); break;
	case O_NEG: case O_NOT: not_or_neg(c, n, prec); break;
	case O_ABS: helper_op(c, n, "abs"); break;
	case O_LT: case O_LE: case O_EQ: case O_NE: compare(c, n, prec); break;
	case O_AND: case O_OR: case O_XOR: logic(c, n, prec); break;
	case O_SHL: case O_SHR: shift(c, n, prec); break;
	case O_SELECT: choose(c, n, prec); break;
	case O_CAST: cast(c, n, prec); break;
	case O_BITS: bits(c, n, prec); break;
	case O_SQRT: case O_FLOOR: case O_CEIL: case O_TRUNC: case O_RINT: case O_FMA: case O_DOT4:
		helper_op(c, n, n->op->name);
		break;
	case O_MULADD: muladd(c, n, prec); break;
	case O_POPCNT: popcnt(c, n, prec); break;
	case O_BOUND: bound(c, n); break;
	case O_LOAD: cx_element(c, n->in[0], n->nin - 1, n->in + 1); break;
	case O_FOLD: fold(c, n); break;
	default:
		if (n->code < O_NUM)
			call_n(c, c_math(c->f, n->code, d), n->nin, n->in);
		else
			cfile_error(c->f, n->op->name);
	}
}

void cx(CFn *c, Node *n, int prec)
{
	CInst *t;
	const char *name;

	if (n->code == O_NUM) {
		bool neg = dt_float(n->type->dtype) ? signbit(n->num.f) && !dt_small(n->type->dtype) :
			n->num.i < 0 && n->type->dtype != DT_U64;
		open_paren(c, neg && prec > P_ADD);
		c_literal(c->f, c->o, n->type->dtype, n->num);
		close_paren(c, neg && prec > P_ADD);
	} else if (cx_leaf(n)) {
		name = map_get(&c->names, n);
		if (!name)
			cfile_error(c->f, n->name ? n->name : n->op->name);
		fputs(name ? name : "?", c->o);
	} else if ((t = cx_inst(c, n, c->at)) && t->name) {
		fputs(t->name, c->o);
	} else {
		cx_spell(c, n, prec);
	}
}

/* ---- divisibility ---------------------------------------------------------------------------- */

int64_t known_divisor(const Node *n)
{
	int64_t a, b, v;

	switch (n->code) {
	case O_NUM:
		v = n->num.i & 63;
		return v ? v & -v : 64;
	case O_ADD: case O_SUB: case O_MIN: case O_MAX:
		a = known_divisor(n->in[0]);
		b = known_divisor(n->in[1]);
		return a < b ? a : b;
	case O_SELECT:
		a = known_divisor(n->in[1]);
		b = known_divisor(n->in[2]);
		return a < b ? a : b;
	case O_MUL:
		a = known_divisor(n->in[0]) * known_divisor(n->in[1]);
		return a < 64 ? a : 64;
	case O_LET: case O_CAST:
		return n->in[0]->type->dtype == DT_INDEX ? known_divisor(n->in[0]) : 1;
	default:
		return 1;
	}
}

Node *cx_first_lanes(Module *m, Node *cond, Node *axis)
{
	Node *coef, *rest;

	if ((cond->code != O_LT && cond->code != O_LE) || cond->in[0]->type->dtype != DT_INDEX ||
			contains(cond->in[1], axis) || !linear_in(m, cond->in[0], axis, &coef, &rest) ||
			!is_intv(coef, 1))
		return NULL;
	return x_addi(m, x_sub(m, cond->in[1], rest), cond->code == O_LE);
}
