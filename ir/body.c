/*
 * The language of definitions, used by the elementwise and composed rows (and by rewrite rules).
 *
 *   body   = { name "=" expr ";" } expr { "," expr }
 *   expr   = or [ "?" expr ":" expr ]
 *   or     = and { "|" and } ; and = cmp { "&" cmp } ; cmp = sum [ ( < <= > >= == != ) sum ]
 *   sum    = prod { ( + - ) prod } ; prod = unary { ( * / % ) unary } ; unary = ( - ! ) unary | atom
 *   atom   = number | "string" | name | name "(" args ")" | "(" expr ")" | "[" expr, ... "]"
 *   args   = expr { "," expr } { "," name "=" expr } { "," ".." name }
 *
 * In an elementwise row the operands are scalars (an element of each, broadcast), calls are scalar
 * operations or other elementwise rows. In a composed row they are tensors, calls and operators are
 * graph operators. Attributes and literals are compile-time values: arithmetic on them is done here,
 * "?:" with a compile-time condition evaluates one side only, and where one meets an operand it
 * takes its type. Built in: has(x), rank(x), cast(x, type), type(x), acc(x) (float narrower than
 * f32 to f32), inf, nan, pi, axis(a, x) (nonnegative). "..a" stands for all attributes of a node.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "body.h"

typedef struct Env {
	Build *b;
	Module *m;
	const char *p;                 /* position in the text */
	BodyCall *more;                /* asked before the calls known here; NULL: none */
	bool scalar;                   /* elementwise */
	bool skip;                     /* parse without evaluating */
	bool error;
	int nvars;
	Var vars[96];
} Env;

static Value expr(Env *);
static Value atom(Env *);
static Value elementwise(Env *, const Op *, int, Value *);

static Value
bad(Env *e, const char *what)
{
	if (!e->error)
		fail(e->b, "definition of %s: %s at '%.24s'", e->b->op->name, what, e->p);
	e->error = true;
	return (Value){0};
}

static void
blank(Env *e)
{
	while (isspace((unsigned char)*e->p))
		e->p++;
}

static bool
eat(Env *e, const char *tok)
{
	size_t n = strlen(tok);

	blank(e);
	if (strncmp(e->p, tok, n))
		return false;
	if (n == 1 && strchr("<>=!", *tok) && e->p[1] == '=')
		return false;
	e->p += n;
	return true;
}

static Value vnode(Node *n) { return (Value){.k = n ? V_NODE : V_NONE, .n = n}; }
static Value vint(int64_t i) { return (Value){.k = V_INT, .i = i, .f = (double)i}; }
static Value vflt(double f) { return (Value){.k = V_FLT, .f = f}; }
static bool is_lit(Value v) { return v.k == V_INT || v.k == V_FLT; }

/* A literal as a scalar or a tensor of the given type. */
static Node *
literal(Env *e, Value v, DType d)
{
	Num n;

	if (e->scalar)
		return v.k == V_INT ? x_int(e->m, d, v.i) : x_flt(e->m, d, v.f);
	n = dt_float(d) ? num_round(d, v.f) : num_cast(d, DT_F64, (Num){.f = v.f});
	return t_scalar(e->m, d, n);
}

static Node *
need_node(Env *e, Value v, DType d)
{
	if (v.k == V_NODE)
		return v.n;
	if (is_lit(v))
		return literal(e, v, d);
	bad(e, "a value is expected");
	return NULL;
}

static DType
node_type(Value v)
{
	return v.n->type->dtype;
}

static bool
truth(Value v)
{
	return v.k == V_NODE || (v.k == V_FLT ? v.f != 0 : v.k == V_STR ? *v.s : v.i != 0);
}

static Value
lit_op(Env *e, int op, Value a, Value b)
{
	bool ints = a.k == V_INT && b.k == V_INT;

	switch (op) {
	case '+': return ints ? vint(a.i + b.i) : vflt(a.f + b.f);
	case '-': return ints ? vint(a.i - b.i) : vflt(a.f - b.f);
	case '*': return ints ? vint(a.i * b.i) : vflt(a.f * b.f);
	case '/': return ints && b.i ? vint(a.i / b.i) : vflt(a.f / b.f);
	case '%': return ints && b.i ? vint(a.i % b.i) : vflt(fmod(a.f, b.f));
	case '<': return vint(a.f < b.f);
	case 'l': return vint(a.f <= b.f);
	case '>': return vint(a.f > b.f);
	case 'g': return vint(a.f >= b.f);
	case '=': return vint(a.f == b.f);
	case '!': return vint(a.f != b.f);
	case '&': return vint(truth(a) && truth(b));
	case '|': return vint(truth(a) || truth(b));
	}
	return bad(e, "operator");
}

static Value
scalar_op(Env *e, int op, Node *x, Node *y)
{
	Module *m = e->m;

	switch (op) {
	case '+': return vnode(x_add(m, x, y));
	case '-': return vnode(x_sub(m, x, y));
	case '*': return vnode(x_mul(m, x, y));
	case '/': return vnode(x2(m, O_DIV, x, y));
	case '%': return vnode(x_mod(m, x, y));
	case '<': return vnode(x_lt(m, x, y));
	case 'l': return vnode(x_le(m, x, y));
	case '>': return vnode(x_lt(m, y, x));
	case 'g': return vnode(x_le(m, y, x));
	case '=': return vnode(x_eq(m, x, y));
	case '!': return vnode(x_ne(m, x, y));
	case '&': return vnode(x_and(m, x, y));
	default: return vnode(x_or(m, x, y));
	}
}

static Value
tensor_op(Env *e, int op, Node *x, Node *y)
{
	static const struct { int op; const char *name; } names[] = {{'+', "add"}, {'-', "sub"},
		{'*', "mul"}, {'/', "div"},
		{'%', "mod"}, {'<', "less"}, {'l', "less_or_equal"}, {'>', "greater"},
		{'g', "greater_or_equal"}, {'=', "equal"},
		{'&', "and"}, {'|', "or"}};
	Node *in[2] = {x, y}, *r;
	size_t i;

	if (op == '!') {
		r = call(e->b, "equal", 2, in, NULL);
		return r ? vnode(call(e->b, "not", 1, &r, NULL)) : vnode(NULL);
	}
	for (i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].op == op)
			return vnode(call(e->b, names[i].name, 2, in, NULL));
	return bad(e, "operator");
}

static Value
binary(Env *e, int op, Value a, Value b)
{
	Node *x, *y;
	DType d;

	if (e->skip || e->error)
		return (Value){0};
	if (a.k == V_STR && b.k == V_STR && (op == '=' || op == '!'))
		return vint((strcmp(a.s, b.s) == 0) == (op == '='));
	if (a.k == V_TYPE && b.k == V_TYPE)
		return vint((a.i == b.i) == (op == '='));
	if (a.k != V_NODE && b.k != V_NODE) {
		if (!is_lit(a) || !is_lit(b))
			return bad(e, "numbers are expected");
		return lit_op(e, op, a, b);
	}
	d = a.k == V_NODE ? node_type(a) : node_type(b);
	x = need_node(e, a, d);
	y = need_node(e, b, d);
	if (!x || !y)
		return (Value){0};
	if (x->type->dtype != y->type->dtype)
		return bad(e, "operands of different types");
	return e->scalar ? scalar_op(e, op, x, y) : tensor_op(e, op, x, y);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int
scalar_code(const char *s, size_t n, int *arity)
{
	int i;

	for (i = 0; i < O_NUM; i++)
		if (strlen(core_op(i)->name) == n && memcmp(core_op(i)->name, s, n) == 0) {
			*arity = scalar_ops[i].arity;
			return i;
		}
	return -1;
}

static DType
arg_type(Env *e, Value v)
{
	if (v.k == V_TYPE)
		return (DType)v.i;
	if (v.k == V_STR && dtype_parse(v.s) != DT_NONE)
		return dtype_parse(v.s);
	bad(e, "a type is expected");
	return DT_F32;
}

static Value
cast(Env *e, Value v, DType d)
{
	Attr a = {.name = "to", .kind = A_INT, .i = dtypes[d].onnx};

	if (v.k != V_NODE)
		return is_lit(v) ? vnode(literal(e, v, d)) : bad(e, "a value is expected");
	if (node_type(v) == d)
		return v;
	if (e->scalar)
		return vnode(x_cast(e->m, d, v.n));
	return vnode(graph_op(e->m, op_find("cast"), 1, &v.n, attrs_add(e->m, NULL, a), 1, 0, NULL,
		e->b->loc));
}

static bool
builtin(Env *e, const char *s, size_t n, int argc, Value *v, Value *r)
{
#define IS(name) (n == sizeof name - 1 && memcmp(s, name, n) == 0)
	DType d;

	if (IS("has") && argc == 1)
		*r = vint(v[0].k != V_NONE);
	else if (IS("rank") && argc == 1 && v[0].k == V_NODE)
		*r = vint(rank_of(v[0].n));
	else if (IS("type") && argc == 1 && v[0].k == V_NODE)
		*r = (Value){.k = V_TYPE, .i = (int64_t)node_type(v[0])};
	else if (IS("is_float") && argc == 1 && v[0].k == V_NODE)
		*r = vint(dt_float(node_type(v[0])));
	else if (IS("is_signed") && argc == 1 && v[0].k == V_NODE)
		*r = vint(dt_float(node_type(v[0])) || dt_signed(node_type(v[0])));
	else if (IS("cast") && argc == 2)
		*r = (d = arg_type(e, v[1]), cast(e, v[0], d));
	else if (IS("acc") && argc == 1 && v[0].k == V_NODE)
		*r = dt_small(node_type(v[0])) ? cast(e, v[0], DT_F32) : v[0];
	else if (IS("axis") && argc == 2 && v[0].k == V_INT && v[1].k == V_NODE)
		*r = vint(v[0].i < 0 ? v[0].i + rank_of(v[1].n) : v[0].i);
	else if (IS("isnan") && argc == 1 && e->scalar && v[0].k == V_NODE)
		*r = vnode(x_ne(e->m, v[0].n, v[0].n));
	else
		return false;
	return true;
#undef IS
}

/* A user's operator may call those declared before it, so none calls itself. */
static const Op *
callee(Env *e, const char *name)
{
	return e->b->op->parsed ? library_find(e->m, name, e->b->op) : op_find(name);
}

static Value
scalar_call(Env *e, const char *s, size_t n, int argc, Value *v)
{
	Node *in[3];
	DType d = DT_F32;
	const Op *op;
	char *name;
	int code, arity, i;

	for (i = 0; i < argc; i++)
		if (v[i].k == V_NODE) {
			d = node_type(v[i]);
			break;
		}
	code = scalar_code(s, n, &arity);
	if (code >= 0 && arity == argc) {
		for (i = 0; i < argc; i++)
			if (!(in[i] = need_node(e, v[i], d)))
				return (Value){0};
		if (argc == 2 && in[0]->type != in[1]->type)
			return bad(e, "operands of different types");
		return vnode(x_op(e->m, (OpCode)code, argc, in, d));
	}
	name = strndup(s, n);
	op = callee(e, name);
	free(name);
	if (op && op->kind == ROW_ELEM && op->body)
		return elementwise(e, op, argc, v);
	return bad(e, "unknown function");
}

static Value
tensor_call(Env *e, const char *s, size_t n, int argc, Value *v, const Attr *attrs)
{
	Node *in[32], *r;
	DType d = DT_F32;
	const Op *op;
	char *name;
	int i;

	for (i = 0; i < argc; i++)
		if (v[i].k == V_NODE) {
			d = node_type(v[i]);
			break;
		}
	name = strndup(s, n);
	op = callee(e, name);
	free(name);
	if (!op)
		return bad(e, "unknown operator");
	for (i = 0; i < argc && i < 32; i++) {
		if (v[i].k == V_NONE)
			in[i] = NULL;
		else if (v[i].k == V_INTS)
			in[i] = t_ints(e->m, v[i].count, v[i].is);
		else if (!(in[i] = need_node(e, v[i], d)))
			return (Value){0};
	}
	r = graph_op(e->m, op, argc, in, attrs, 1, 0, NULL, e->b->loc);
	if (!r)
		e->error = true;
	return vnode(r && r->type->kind == T_TUPLE ? t_result(e->m, r, 0) : r);
}

static const Attr *
attr_value(Env *e, const Attr *list, const char *name, size_t n, Value v)
{
	Attr a = {.name = arena_printf(e->m->arena, "%.*s", (int)n, name)};

	switch (v.k) {
	case V_INT: a.kind = A_INT; a.i = v.i; break;
	case V_FLT: a.kind = A_FLOAT; a.f = v.f; break;
	case V_STR: a.kind = A_STR; a.s = v.s; break;
	case V_INTS: a.kind = A_INTS; a.is = v.is; a.n = v.count; break;
	case V_TYPE: a.kind = A_INT; a.i = dtypes[v.i].onnx; break;
	case V_NONE: return list;
	default: bad(e, "an attribute's value is expected"); return list;
	}
	return attrs_add(e->m, list, a);
}

static const Attr *
merged(Env *e, const Attr *list, const Attr *more)
{
	for (; more; more = more->next)
		list = attrs_add(e->m, list, *more);
	return list;
}

static Value
function(Env *e, const char *s, size_t n)
{
	const Attr *attrs = NULL;
	Value v[32], r;
	const char *q, *name;
	int argc = 0;

	while (!eat(e, ")")) {
		if (eat(e, "..")) {
			r = atom(e);
			if (r.k == V_ATTRS)
				attrs = merged(e, attrs, r.attrs);
			else if (r.k != V_NONE && !e->error)
				return bad(e, "attributes are expected");
			if (!eat(e, ",") && *e->p != ')')
				return bad(e, "')' is expected");
			continue;
		}
		blank(e);
		for (q = e->p; isalnum((unsigned char)*q) || *q == '_'; q++)
			;
		name = e->p;
		while (isspace((unsigned char)*q))
			q++;
		if (*q == '=' && q[1] != '=' && isalpha((unsigned char)*name)) {
			size_t len = strcspn(name, " =");
			e->p = q + 1;
			r = expr(e);
			if (!e->skip && !e->error)
				attrs = attr_value(e, attrs, name, len, r);
		} else if (argc < 32)
			v[argc++] = expr(e);
		if (e->error)
			return (Value){0};
		if (!eat(e, ",") && *e->p != ')')
			return bad(e, "')' is expected");
	}
	if (e->skip)
		return (Value){0};
	if (e->more && e->more(e->b, s, n, argc, v, &r))
		return r;
	if (builtin(e, s, n, argc, v, &r))
		return r;
	return e->scalar ? scalar_call(e, s, n, argc, v) : tensor_call(e, s, n, argc, v, attrs);
}

static Value
variable(Env *e, const char *s, size_t n)
{
	int i;
	char *name;
	DType d;

	if (e->skip)
		return (Value){0};
	for (i = e->nvars; i-- > 0;)
		if (e->vars[i].len == n && memcmp(e->vars[i].name, s, n) == 0)
			return e->vars[i].v;
	if (n == 3 && memcmp(s, "inf", 3) == 0)
		return vflt(INFINITY);
	if (n == 3 && memcmp(s, "nan", 3) == 0)
		return vflt(NAN);
	if (n == 2 && memcmp(s, "pi", 2) == 0)
		return vflt(M_PI);
	name = strndup(s, n);
	d = dtype_parse(name);
	free(name);
	if (d != DT_NONE)
		return (Value){.k = V_TYPE, .i = (int64_t)d};
	return bad(e, "unknown name");
}

/* ---- the grammar ----------------------------------------------------------------------------- */

static Value
number(Env *e)
{
	char *end;
	double f = strtod(e->p, &end);
	bool whole = true;
	const char *q;

	for (q = e->p; q < end; q++)
		whole &= isdigit((unsigned char)*q) != 0;
	q = e->p;
	e->p = end;
	return whole ? vint(strtoll(q, NULL, 10)) : vflt(f);
}

static Value
list(Env *e)
{
	int64_t v[64];
	Value x;
	int n = 0;

	while (!eat(e, "]")) {
		x = expr(e);
		if (e->error || (x.k != V_INT && !e->skip) || n == 64)
			return bad(e, "an integer is expected");
		v[n++] = x.i;
		eat(e, ",");
	}
	return (Value){.k = V_INTS, .count = n, .is = arena_dup(e->m->arena, v, sizeof *v * (size_t)n)};
}

static Value
atom(Env *e)
{
	const char *s;
	Value v;

	blank(e);
	if (isdigit((unsigned char)*e->p) || *e->p == '.')
		return number(e);
	if (eat(e, "(")) {
		v = expr(e);
		if (!eat(e, ")"))
			return bad(e, "')' is expected");
		return v;
	}
	if (eat(e, "["))
		return list(e);
	if (eat(e, "\"")) {
		s = e->p;
		e->p += strcspn(s, "\"");
		v = (Value){.k = V_STR, .s = arena_printf(e->m->arena, "%.*s", (int)(e->p - s), s)};
		if (*e->p)
			e->p++;
		return v;
	}
	for (s = e->p; isalnum((unsigned char)*e->p) || *e->p == '_'; e->p++)
		;
	if (s == e->p)
		return bad(e, "a value is expected");
	size_t n = (size_t)(e->p - s);
	return eat(e, "(") ? function(e, s, n) : variable(e, s, n);
}

static Value
unary(Env *e)
{
	Value v;

	if (eat(e, "-")) {
		v = unary(e);
		if (e->skip || e->error)
			return (Value){0};
		if (v.k == V_INT)
			return vint(-v.i);
		if (v.k == V_FLT)
			return vflt(-v.f);
		return e->scalar ? vnode(x1(e->m, O_NEG, v.n)) : vnode(call(e->b, "neg", 1, &v.n, NULL));
	}
	if (eat(e, "!")) {
		v = unary(e);
		if (e->skip || e->error)
			return (Value){0};
		if (v.k != V_NODE)
			return vint(!truth(v));
		return e->scalar ? vnode(x_not(e->m, v.n)) : vnode(call(e->b, "not", 1, &v.n, NULL));
	}
	return atom(e);
}

static Value
product(Env *e)
{
	Value v = unary(e);

	while (!e->error)
		if (eat(e, "*")) v = binary(e, '*', v, unary(e));
		else if (eat(e, "/")) v = binary(e, '/', v, unary(e));
		else if (eat(e, "%")) v = binary(e, '%', v, unary(e));
		else break;
	return v;
}

static Value
sum(Env *e)
{
	Value v = product(e);

	while (!e->error)
		if (eat(e, "+")) v = binary(e, '+', v, product(e));
		else if (eat(e, "-")) v = binary(e, '-', v, product(e));
		else break;
	return v;
}

static Value
comparison(Env *e)
{
	Value v = sum(e);

	if (eat(e, "<=")) return binary(e, 'l', v, sum(e));
	if (eat(e, ">=")) return binary(e, 'g', v, sum(e));
	if (eat(e, "==")) return binary(e, '=', v, sum(e));
	if (eat(e, "!=")) return binary(e, '!', v, sum(e));
	if (eat(e, "<")) return binary(e, '<', v, sum(e));
	if (eat(e, ">")) return binary(e, '>', v, sum(e));
	return v;
}

static Value
conjunction(Env *e)
{
	Value v = comparison(e);

	while (!e->error && eat(e, "&"))
		v = binary(e, '&', v, comparison(e));
	return v;
}

static Value
disjunction(Env *e)
{
	Value v = conjunction(e);

	while (!e->error && eat(e, "|"))
		v = binary(e, '|', v, conjunction(e));
	return v;
}

static Value
choose(Env *e, Value c, Value a, Value b)
{
	Node *in[3], *x, *y;
	DType d;

	if (a.k != V_NODE && b.k != V_NODE && !is_lit(a))
		return bad(e, "a value is expected");
	d = a.k == V_NODE ? node_type(a) : b.k == V_NODE ? node_type(b)
		: e->b->nin && e->b->in[0] ? e->b->in[0]->type->dtype : DT_F32;
	x = need_node(e, a, d);
	y = need_node(e, b, d);
	if (!x || !y)
		return (Value){0};
	if (x->type->dtype != y->type->dtype)
		return bad(e, "branches of different types");
	if (e->scalar)
		return vnode(x_select(e->m, c.n, x, y));
	in[0] = c.n, in[1] = x, in[2] = y;
	return vnode(call(e->b, "where", 3, in, NULL));
}

static Value
expr(Env *e)
{
	Value c = disjunction(e), a, b;
	bool skip = e->skip, dynamic;

	if (e->error || !eat(e, "?"))
		return c;
	dynamic = c.k == V_NODE;
	e->skip = skip || (!dynamic && !truth(c));
	a = expr(e);
	if (!eat(e, ":"))
		return bad(e, "':' is expected");
	e->skip = skip || (!dynamic && truth(c));
	b = expr(e);
	e->skip = skip;
	if (e->error || skip)
		return (Value){0};
	return dynamic ? choose(e, c, a, b) : truth(c) ? a : b;
}

static int
statements(Env *e, const char *text, Value *out, int max)
{
	const char *save, *s;
	size_t n;
	Value v;
	int count = 0;

	e->p = text;
	while (!e->error) {
		blank(e);
		save = s = e->p;
		for (n = 0; isalnum((unsigned char)s[n]) || s[n] == '_'; n++)
			;
		e->p += n;
		if (n && isalpha((unsigned char)*s) && eat(e, "=")) {
			v = expr(e);
			if (e->error)
				return 0;
			if (e->nvars == 96 || !eat(e, ";")) {
				bad(e, "';' is expected");
				return 0;
			}
			e->vars[e->nvars++] = (Var){s, n, v};
			continue;
		}
		e->p = save;
		break;
	}
	do {
		if (e->error || count == max)
			return 0;
		out[count++] = expr(e);
	} while (eat(e, ","));
	blank(e);
	if (*e->p)
		bad(e, "unexpected text");
	return e->error ? 0 : count;
}

static void
bind(Env *e, const char *name, Value v)
{
	if (e->nvars < 96)
		e->vars[e->nvars++] = (Var){name, strlen(name), v};
}

static void
bind_attrs(Env *e, const Sig *s, const Attr *attrs)
{
	const Attr *a;
	int i;

	for (i = 0; i < s->nattrs; i++) {
		a = attr_find(attrs, s->attrs[i].name);
		if (!a && s->attrs[i].has_default)
			a = &s->attrs[i].value;
		if (!a)
			bind(e, s->attrs[i].name, (Value){0});
		else if (a->kind == A_INT)
			bind(e, s->attrs[i].name, vint(a->i));
		else if (a->kind == A_FLOAT)
			bind(e, s->attrs[i].name, vflt(a->f));
		else if (a->kind == A_STR)
			bind(e, s->attrs[i].name, (Value){.k = V_STR, .s = a->s});
		else if (a->kind == A_INTS)
			bind(e, s->attrs[i].name, (Value){.k = V_INTS, .count = a->n, .is = a->is});
		else if (a->kind == A_TENSOR)
			bind(e, s->attrs[i].name, vnode(a->t));
		else
			bind(e, s->attrs[i].name, (Value){0});
	}
}

/* Another elementwise row inside a scalar body. */
static Value
elementwise(Env *e, const Op *op, int argc, Value *v)
{
	Env in = {.b = e->b, .m = e->m, .scalar = true};
	const Sig *s = op_sig(op);
	Value out = {0};
	DType d = DT_F32;
	int i;

	for (i = 0; i < argc; i++)
		if (v[i].k == V_NODE)
			d = node_type(v[i]);
	for (i = 0; i < s->nin; i++)
		bind(&in, s->in[i].name,
			i < argc ? is_lit(v[i]) ? vnode(literal(e, v[i], d)) : v[i] : (Value){0});
	bind_attrs(&in, s, NULL);
	statements(&in, op->body, &out, 1);
	e->error |= in.error;
	return out;
}

static Node *
expand_elementwise(Build *b, Env *e, const Sig *s)
{
	Node *dims[MAX_RANK], *axes[MAX_RANK];
	Value out[8] = {{0}};
	int rank, i, n;

	if (!dims_broadcast(b->m, b->nin, b->in, &rank, dims, b->loc))
		return NULL;
	axes_new(b->m, rank, dims, axes);
	for (i = 0; i < s->nin; i++)
		bind(e, s->in[i].name, b->in[i] ? vnode(x_bread(b->m, b->in[i], rank, axes)) : (Value){0});
	bind_attrs(e, s, b->attrs);
	n = statements(e, b->op->body, out, 8);
	for (i = 0; i < n; i++) {
		out[i].n = need_node(e, out[i], b->in[0] ? dtype_of(b->in[0]) : DT_F32);
		if (!out[i].n)
			return NULL;
		out[i].n = t_tensor(b->m, rank, axes, out[i].n);
	}
	if (n > 1) {
		Node *t[8];
		for (i = 0; i < n; i++)
			t[i] = out[i].n;
		return t_tuple(b->m, n, t);
	}
	return n ? out[0].n : NULL;
}

static Node *
expand_composed(Build *b, Env *e, const Sig *s)
{
	Value out[16] = {{0}};
	Node *t[16];
	int i, n;

	for (i = 0; i < s->nin; i++)
		bind(e, s->in[i].name, b->in[i] ? vnode(b->in[i]) : (Value){0});
	bind_attrs(e, s, b->attrs);
	n = statements(e, b->op->body, out, 16);
	for (i = 0; i < n; i++)
		t[i] = out[i].k == V_NONE ? NULL : need_node(e, out[i], DT_F32);
	if (n > 1)
		return t_tuple(b->m, n, t);
	return n ? t[0] : NULL;
}

Node *
body_expand(Build *b)
{
	Env e = {.b = b, .m = b->m, .scalar = b->op->kind == ROW_ELEM};
	const Sig *s = op_sig(b->op);

	if (e.scalar)
		return expand_elementwise(b, &e, s);
	return expand_composed(b, &e, s);
}

int
body_values(Build *b, const char *text, int nvars, const Var *vars, BodyCall *more, Value *out,
	int max)
{
	Env e = {.b = b, .m = b->m, .more = more};
	int i;

	for (i = 0; i < nvars && e.nvars < 96; i++)
		e.vars[e.nvars++] = vars[i];
	return statements(&e, text, out, max);
}
