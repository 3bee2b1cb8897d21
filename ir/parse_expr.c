/*
 * Reading scalars: each operation becomes the node stated (x_raw), checked by scalar_fits; nothing
 * is simplified.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/parse.h"

static Node *unary(P *);

Node *ps_index_expr(P *p)
{
	const char *at = p->start;
	Node *e = ps_expr(p);
	if (e->type->dtype != DT_INDEX) {
		p->start = at;
		ps_bad(p, "an index is expected, this is %s", dtypes[e->type->dtype].text);
	}
	return e;
}

static void full_range(DType d, Node *t)
{
	int bits = dtypes[d].bits;
	t->lo = d == DT_BOOL ? 0 : INT64_MIN;
	t->hi = d == DT_BOOL ? 1 : INT64_MAX;
	if (dt_int(d) && bits < 64) {
		t->lo = dt_signed(d) ? -((int64_t)1 << (bits - 1)) : 0;
		t->hi = ((int64_t)1 << (dt_signed(d) ? bits - 1 : bits)) - 1;
	}
}

Node *ps_raw(P *p, OpCode op, const Type *type, int nin, Node *const *in, int64_t n)
{
	Node t = { .op = core_op(op), .type = type, .nin = nin, .in = (Node **)in, .n = n };
	if (type->kind == T_SCALAR)
		full_range(type->dtype, &t);
	return node_make(p->m, t);
}

static bool same_operands(const Node *e, OpCode op, int nin, Node *const *in)
{
	return e->code == op && e->nin == nin && !memcmp(e->in, in, sizeof *in * (size_t)nin);
}

static Node *literal(P *p, bool minus)
{
	DType d = p->suffix ? dtype_parse(p->suffix) : p->is_float ? DT_F32 : DT_INDEX;
	Num n;
	if (d == DT_NONE || dtypes[d].bits == 0)
		ps_bad(p, "'%s' is no type of a number", p->suffix);
	if (dt_float(d)) {
		double v = strtod(p->str, NULL);
		n = num_round(d, minus ? -v : v);
	} else if (p->is_float || d == DT_BOOL || (!dt_number(d) && strcmp(p->str, "0"))) {
		ps_bad(p, "%s is no %s", p->str, dtypes[d].text);
	} else {
		int64_t v = ps_digits(p, minus, d == DT_U64 && !minus);
		n = num_cast(d, DT_I64, (Num){ .i = v });
		if (n.i != v)
			ps_bad(p, "%s does not fit %s", p->str, dtypes[d].text);
	}
	ps_next(p);
	return x_num(p->m, d, n);
}

/* inf, nan, inf_f64 ...; NULL if the word is none of them */
Node *ps_special(P *p, bool minus)
{
	const char *w = p->str;
	if (p->tok != T_WORD || (strncmp(w, "inf", 3) && strncmp(w, "nan", 3)))
		return NULL;
	if (w[3] && w[3] != '_')
		return NULL;
	DType d = w[3] ? dtype_parse(w + 4) : DT_F32;
	if (d == DT_NONE || !dt_float(d))
		return NULL;
	double v = w[0] == 'i' ? INFINITY : NAN;
	ps_next(p);
	return x_num(p->m, d, (Num){ .f = minus ? -v : v });
}

/* f32#7ff8000000000001: a NaN by the bits of the double that carries it */
static Node *by_bits(P *p, DType d)
{
	uint64_t u = 0;
	int n = 0;
	for (p->s++; ps_hex_digit(*p->s) >= 0 && n < 16; p->s++, n++)
		u = u * 16 + (uint64_t)ps_hex_digit(*p->s);
	double v;
	memcpy(&v, &u, 8);
	if (!dt_float(d) || !n || !isnan(v))
		ps_bad(p, "the bits of a NaN are expected after #");
	ps_next(p);
	return x_num(p->m, d, (Num){ .f = v });
}

Node *ps_axis(P *p)
{
	const char *name = ps_word(p, "an axis's name");
	ps_want(p, ":");
	Node *a = x_axis(p->m, ps_index_expr(p));
	ps_push_local(p, name, a);
	return a;
}

int ps_axis_list(P *p, Node **axes, int max)
{
	int n = 0;
	ps_want(p, "(");
	while (!ps_is(p, ")")) {
		if (n == max)
			ps_bad(p, "more than %d axes", max);
		axes[n++] = ps_axis(p);
		if (!ps_eat(p, ","))
			break;
	}
	ps_want(p, ")");
	return n;
}

/* { let t = e; ... e } */
Node *ps_block(P *p)
{
	int saved = p->nlocals;
	ps_want(p, "{");
	ps_deeper(p);
	while (ps_is(p, "let")) {
		ps_next(p);
		const char *name = ps_word(p, "a name");
		ps_want(p, "=");
		Node *e = ps_expr(p);
		ps_want(p, ";");
		ps_push_local(p, name, e);
	}
	Node *e = ps_expr(p);
	ps_want(p, "}");
	p->depth--;
	p->nlocals = saved;
	return e;
}

int ps_comb(P *p)
{
	for (int i = 0; i <= COMB_OR; i++)
		if (p->tok == T_WORD && !strcmp(p->str, comb_names[i]))
			return i;
	return -1;
}

void ps_check_comb(P *p, int c, DType d)
{
	bool logic = c == COMB_AND || c == COMB_OR;
	if (!dt_number(d) || (logic && dt_float(d)) ||
			(d == DT_BOOL && (c == COMB_SUM || c == COMB_PROD)))
		ps_bad(p, "%s of %s", comb_names[c], dtypes[d].text);
}

static Node *reduce(P *p, int c)
{
	Node *in[MAX_RANK * 2 + 1];
	int saved = p->nlocals, n;
	ps_next(p);
	n = ps_axis_list(p, in, MAX_RANK * 2);
	if (!n || c == COMB_SET)
		ps_bad(p, "a reduction needs axes and a combination");
	in[n] = ps_block(p);
	p->nlocals = saved;
	ps_check_comb(p, c, in[n]->type->dtype);
	Node *e = x_reduce(p->m, c, n, in, in[n]);
	if (same_operands(e, O_REDUCE, n + 1, in) && e->n == c)
		return e;
	return ps_raw(p, O_REDUCE, in[n]->type, n + 1, in, c);
}

/* iter(i: N, c = init) { step } */
static Node *iterate(P *p)
{
	Node *in[4];
	int saved = p->nlocals;
	ps_next(p);
	ps_want(p, "(");
	in[0] = ps_axis(p);
	ps_want(p, ",");
	const char *name = ps_word(p, "the carried value's name");
	ps_want(p, "=");
	int inside = p->nlocals;
	in[2] = ps_expr(p);
	p->nlocals = inside;
	ps_want(p, ")");
	in[1] = x_carry(p->m, in[2]->type->dtype);
	ps_push_local(p, name, in[1]);
	in[3] = ps_block(p);
	p->nlocals = saved;
	if (in[3]->type != in[2]->type)
		ps_bad(p, "the step has another type than the initial value");
	return ps_raw(p, O_ITER, in[2]->type, 4, in, 0);
}

static int scalar_op(const char *name)
{
	for (int i = 0; i < O_NUM; i++)
		if (!strcmp(core_op(i)->name, name))
			return i;
	return -1;
}

static Node *operation(P *p, OpCode op, int n, Node **in, DType to)
{
	char why[200];
	char kind = scalar_ops[op].result;
	DType d = n > (op == O_SELECT) ? in[op == O_SELECT]->type->dtype : DT_NONE;
	DType r = kind == 'B' ? DT_BOOL : kind == 'T' ? to : kind == 'f' ? DT_F32 : d;
	if (!scalar_fits(op, n, in, r, why, sizeof why))
		ps_bad(p, "%s", why);
	return x_raw(p->m, op, n, in, r);
}

static Node *call_op(P *p, OpCode op, DType to)
{
	Node *in[4];
	int n = 0;
	ps_want(p, "(");
	while (!ps_is(p, ")")) {
		if (n == 4)
			ps_bad(p, "too many operands");
		in[n++] = ps_expr(p);
		if (!ps_eat(p, ","))
			break;
	}
	ps_want(p, ")");
	if (!n)
		ps_bad(p, "operands are expected");
	return operation(p, op, n, in, to);
}


/* b[i, j, *](extent): the fold of a distributed tile */
static Node *fold(P *p)
{
	Nodes in = { 0 };
	ps_next(p);
	int c = ps_comb(p);
	if (c <= COMB_SET)
		ps_bad(p, "a combination is expected");
	ps_next(p);
	Node *b = ps_value(p);
	if (b->type->kind != T_BUFFER)
		ps_bad(p, "a buffer is expected");
	ps_check_comb(p, c, b->type->dtype);
	ps_append(p, &in, b);
	ps_append(p, &in, NULL);
	ps_want(p, "[");
	while (!ps_is(p, "*")) {
		ps_append(p, &in, ps_index_expr(p));
		ps_want(p, ",");
	}
	ps_next(p);
	ps_want(p, "]");
	ps_want(p, "(");
	in.at[1] = x_axis(p->m, ps_index_expr(p));
	int64_t step = ps_eat(p, "by") ? ps_integer(p) : 1;
	if (step < 1 || step > 32 || (step & (step - 1)))
		ps_bad(p, "threads of a fold are a power of two apart");
	ps_want(p, ")");
	if (in.n - 1 != b->nin)
		ps_bad(p, "%d indices are expected", b->nin);
	return l_fold_apart(p->m, c, b, in.at[1], (int)step, in.n - 2, in.at + 2);
}

/* %x[i, j] of a tensor or a buffer */
static Node *element(P *p, Node *t)
{
	Node *in[MAX_RANK + 1] = { t };
	bool tensor = t->type->kind == T_TENSOR;
	int n = 1, rank = tensor ? t->type->rank : t->nin;
	DType d = t->type->dtype;
	if (!tensor && t->type->kind != T_BUFFER)
		ps_bad(p, "only tensors and buffers have elements");
	if (d == DT_STRING)
		ps_bad(p, "elements of %s cannot be computed with", dtypes[d].text);
	ps_want(p, "[");
	while (!ps_is(p, "]")) {
		if (n > MAX_RANK || n > rank)
			ps_bad(p, "%d indices are expected", rank);
		in[n++] = ps_index_expr(p);
		if (!ps_eat(p, ","))
			break;
	}
	if (n != rank + 1)
		ps_bad(p, "%d indices are expected", rank);
	ps_want(p, "]");
	if (tensor) {
		Node *e = x_read(p->m, t, in + 1);
		if (same_operands(e, O_READ, n, in))
			return e;
	}
	return ps_raw(p, tensor ? O_READ : O_LOAD, ty_scalar(p->m, d), n, in, 0);
}

static Node *named_word(P *p)
{
	const char *w = p->str;
	int op;
	DType d;
	Node *e;
	if ((e = ps_find_local(p, w)) || (e = ps_special(p, false))) {
		if (ps_find_local(p, w) == e)
			ps_next(p);
		return e;
	}
	if (!strcmp(w, "true") || !strcmp(w, "false")) {
		ps_next(p);
		return x_bool(p->m, w[0] == 't');
	}
	if ((d = dtype_parse(w)) != DT_NONE) {
		if (*p->s == '#')
			return by_bits(p, d);
		ps_next(p);
		return call_op(p, O_CAST, d);
	}
	if (!strncmp(w, "bits.", 5) && (d = dtype_parse(w + 5)) != DT_NONE) {
		ps_next(p);
		return call_op(p, O_BITS, d);
	}
	if (!strcmp(w, "iter"))
		return iterate(p);
	if (!strcmp(w, "fold"))
		return fold(p);
	int c = ps_comb(p);
	if (c >= 0) {
		/* min(a, b) or min(i: N) { } */
		const char *s = p->s;
		s += strspn(s, " (");
		while (ps_word_char(*s))
			s++;
		s += strspn(s, " ");
		if (*s == ':')
			return reduce(p, c);
	}
	if ((op = scalar_op(w)) >= 0 && op != O_CAST && op != O_BITS) {
		ps_next(p);
		return call_op(p, op, DT_NONE);
	}
	if (!(e = ps_lookup(p, &p->symbols, w)))
		ps_bad(p, "'%s' is not known here", w);
	ps_next(p);
	return e;
}

static Node *atom(P *p)
{
	Node *e;
	switch (p->tok) {
	case T_NUM: return literal(p, false);
	case T_WORD: return named_word(p);
	case T_SYMBOL:
		if (!(e = ps_lookup(p, &p->symbols, p->str)))
			ps_bad(p, "there is no symbol `%s`", p->str);
		ps_next(p);
		return e;
	case T_VALUE:
		e = ps_value(p);
		if (e->type->kind != T_SCALAR)
			return element(p, e);
		return e;
	default: break;
	}
	if (ps_eat(p, "(")) {
		e = ps_expr(p);
		ps_want(p, ")");
		return e;
	}
	if (ps_is(p, "{"))
		return ps_block(p);
	ps_bad(p, "an expression is expected");
}

static Node *unary(P *p)
{
	Node *e;
	if (!ps_is(p, "-") && !ps_is(p, "!"))
		return atom(p);
	ps_deeper(p);
	bool minus = ps_is(p, "-");
	ps_next(p);
	if (minus && p->tok == T_NUM)
		e = literal(p, true);
	else if (!minus || !(e = ps_special(p, true)))
		e = operation(p, minus ? O_NEG : O_NOT, 1, (Node *[]){ unary(p) }, DT_NONE);
	p->depth--;
	return e;
}

static int infix_op(P *p)
{
	for (int i = 0; p->tok == T_PUNCT && i < O_NUM; i++)
		if (scalar_ops[i].infix && i != O_NOT && !strcmp(scalar_ops[i].infix, p->punct))
			return i;
	return -1;
}

static Node *binary(P *p, int least)
{
	Node *e = unary(p);
	for (;;) {
		int op = infix_op(p), prec = op < 0 ? 0 : text_precedence(op);
		if (op < 0 || prec < least)
			return e;
		ps_next(p);
		ps_deeper(p);
		Node *in[2] = { e, binary(p, prec + 1) };
		p->depth--;
		e = operation(p, op, 2, in, DT_NONE);
	}
}

Node *ps_expr(P *p)
{
	ps_deeper(p);
	Node *e = binary(p, 2);
	if (ps_eat(p, "?")) {
		Node *in[3] = { e };
		in[1] = ps_expr(p);
		ps_want(p, ":");
		in[2] = ps_expr(p);
		e = operation(p, O_SELECT, 3, in, DT_NONE);
	}
	p->depth--;
	return e;
}
