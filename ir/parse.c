/*
 * Reads the text that print.c writes (grammar in ir/README.md) and builds the module. Scalars are
 * built exactly as stated, without simplification, so that print(parse(t)) is t; graph operators go
 * through graph_op, which checks them against their rows and makes their definitions.
 *
 * The text may be hostile: every number, name, type and depth is checked. The first error ends the
 * reading, with its line and column.
 */
#include <fcntl.h>
enum { OPEN_READ = O_RDONLY | O_CLOEXEC };
#undef O_TRUNC                 /* open(2)'s; ours is an operation */
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "ir/ir.h"
#include "ir/machine.h"
#include "ir/plan.h"
#include "ir/text.h"

enum { MAX_DEPTH = 400, MAX_LIST = 1 << 20 };

typedef enum Tok { T_END, T_WORD, T_NUM, T_STR, T_SYMBOL, T_VALUE, T_PUNCT } Tok;

typedef struct Table { const char **key; Node **val; uint32_t cap, n; } Table;
typedef struct Local { const char *name; Node *n; } Local;
typedef struct Dim { Node *sym; const char *input; int axis; int line; } Dim;
typedef struct Nodes { Node **at; int n, cap; } Nodes;

typedef struct P {
	Module *m;
	Level level;
	const char *file, *s, *start; /* position after the token, and of the token */
	const char *text;
	Tok tok;
	char *str;             /* word, string, name */
	char punct[3];
	bool is_float;         /* of a number */
	const char *suffix;    /* type written after a number */
	jmp_buf fail;
	int depth;
	Table values, symbols;
	Local *locals; int nlocals, caplocals;
	Dim *dims; int ndims;
	Map stated;            /* conditions of requirements */
	Node *any;             /* stands for "?" in types that are only compared */
	const char *mapped_name; const uint8_t *mapped; size_t mapped_size;
} P;

/* ---- errors -------------------------------------------------------------------------------- */

static void position(P *p, int *line, int *column)
{
	*line = *column = 1;
	for (const char *s = p->text; s < p->start; s++)
		if (*s == '\n')
			++*line, *column = 1;
		else
			++*column;
}

static _Noreturn void bad(P *p, const char *fmt, ...)
{
	char text[400];
	int line, column;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	position(p, &line, &column);
	diag_error(p->m->diag, X_INVALID, NULL, "line %d, column %d: %s", line, column, text);
	longjmp(p->fail, 1);
}

static void deeper(P *p)
{
	if (++p->depth > MAX_DEPTH)
		bad(p, "nested too deeply");
}

/* ---- tokens -------------------------------------------------------------------------------- */

static const char *cut(P *p, const char *b, const char *e)
{
	char *s = arena_alloc(p->m->arena, (size_t)(e - b) + 1);
	memcpy(s, b, (size_t)(e - b));
	return s;
}

static bool word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static int hex_digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c)
		? tolower((unsigned char)c) - 'a' + 10 : -1;
}

/* A quoted text; p->s stands behind the opening quote. */
static char *quoted(P *p, char q)
{
	const char *e = p->s;
	while (*e && *e != q)
		e += *e == '\\' && e[1] ? 2 : 1;
	if (!*e)
		bad(p, "a text without end");
	char *r = arena_alloc(p->m->arena, (size_t)(e - p->s) + 1), *w = r;
	for (const char *s = p->s; s < e; s++) {
		if (*s != '\\') {
			*w++ = *s;
		} else if (*++s == 'n') {
			*w++ = '\n';
		} else if (*s == 'x') {
			int a = s + 2 < e ? hex_digit(s[1]) : -1, b = a < 0 ? -1 : hex_digit(s[2]);
			if (b < 0 || a * 16 + b == 0)
				bad(p, "\\x takes two digits");
			*w++ = (char)(a * 16 + b);
			s += 2;
		} else {
			*w++ = *s;
		}
	}
	p->s = e + 1;
	return r;
}

static void lex_number(P *p)
{
	const char *b = p->s, *s = b;
	p->tok = T_NUM;
	p->is_float = false;
	p->suffix = NULL;
	if (s[0] == '0' && s[1] == 'x') {
		for (s += 2; isxdigit((unsigned char)*s); s++)
			;
	} else {
		while (isdigit((unsigned char)*s))
			s++;
		if (*s == '.' && isdigit((unsigned char)s[1])) {
			p->is_float = true;
			for (s++; isdigit((unsigned char)*s); s++)
				;
		}
		const char *x = s + 1 + (s[0] == 'e' && (s[1] == '+' || s[1] == '-'));
		if (*s == 'e' && isdigit((unsigned char)*x)) {
			p->is_float = true;
			for (s = x; isdigit((unsigned char)*s); s++)
				;
		}
	}
	p->str = (char *)cut(p, b, s);
	for (b = s; word_char(*s); s++)
		;
	if (s > b)
		p->suffix = cut(p, b, s);
	p->s = s;
}

static void lex_value(P *p)
{
	const char *b = ++p->s;
	p->tok = T_VALUE;
	if (*b == '"') {
		/* keeps a quote before a digit: %"0" is not %0 */
		p->s++;
		p->str = quoted(p, '"');
		if (isdigit((unsigned char)*p->str))
			p->str = arena_printf(p->m->arena, "\"%s", p->str);
		return;
	}
	while (word_char(*p->s))
		p->s++;
	if (p->s == b)
		bad(p, "a value's name is expected after %%");
	p->str = (char *)cut(p, b, p->s);
}

static void next(P *p)
{
	static const char *const two[] = { "<<", ">>", "<=", "==", "!=", "..", "->" };
	for (;;) {
		while (isspace((unsigned char)*p->s))
			p->s++;
		if (p->s[0] != '/' || p->s[1] != '/')
			break;
		p->s += strcspn(p->s, "\n");
	}
	const char *b = p->start = p->s;
	if (!*b) {
		p->tok = T_END;
	} else if (isalpha((unsigned char)*b) || *b == '_') {
		while (word_char(*p->s) || (*p->s == '.' && isalpha((unsigned char)p->s[1])))
			p->s++;
		p->str = (char *)cut(p, b, p->s);
		p->tok = T_WORD;
	} else if (isdigit((unsigned char)*b)) {
		lex_number(p);
	} else if (*b == '%' && (word_char(b[1]) || b[1] == '"')) {
		lex_value(p);
	} else if (*b == '"' || *b == '`') {
		p->s++;
		p->str = quoted(p, *b);
		p->tok = *b == '"' ? T_STR : T_SYMBOL;
	} else {
		p->tok = T_PUNCT;
		p->punct[0] = *p->s++;
		p->punct[1] = p->punct[2] = 0;
		for (size_t i = 0; i < sizeof two / sizeof *two; i++)
			if (b[0] == two[i][0] && b[1] == two[i][1])
				p->punct[1] = *p->s++;
	}
}

static bool is(P *p, const char *s)
{
	return (p->tok == T_PUNCT && !strcmp(p->punct, s)) || (p->tok == T_WORD && !strcmp(p->str, s));
}

static bool eat(P *p, const char *s)
{
	if (!is(p, s))
		return false;
	next(p);
	return true;
}

static void want(P *p, const char *s)
{
	if (!eat(p, s))
		bad(p, "'%s' is expected", s);
}

static const char *word(P *p, const char *what)
{
	if (p->tok != T_WORD)
		bad(p, "%s is expected", what);
	const char *s = p->str;
	next(p);
	return s;
}

static const char *string(P *p)
{
	if (p->tok != T_STR)
		bad(p, "a text in quotes is expected");
	const char *s = intern(p->m, p->str);
	next(p);
	return s;
}

/* The token's digits as an integer of 64 bits; u64 wraps into the sign. */
static int64_t digits(P *p, bool minus, bool uns)
{
	char *end;
	uint64_t v = 0;
	for (end = p->str; isdigit((unsigned char)*end); end++) {
		uint64_t d = (uint64_t)(*end - '0');
		if (v > (UINT64_MAX - d) / 10)
			bad(p, "%s is too large", p->str);
		v = v * 10 + d;
	}
	if (*end)
		bad(p, "an integer is expected");
	if (!uns && v > (uint64_t)INT64_MAX + minus)
		bad(p, "%s is too large", p->str);
	return (int64_t)(minus ? -v : v);
}

static int64_t integer(P *p)
{
	bool minus = eat(p, "-");
	if (p->tok != T_NUM || p->is_float || p->suffix)
		bad(p, "an integer is expected");
	int64_t v = digits(p, minus, false);
	next(p);
	return v;
}

static int small(P *p, int64_t lo, int64_t hi)
{
	const char *at = p->start;
	int64_t v = integer(p);
	if (v < lo || v > hi) {
		p->start = at;
		bad(p, "%lld is not in %lld..%lld", (long long)v, (long long)lo, (long long)hi);
	}
	return (int)v;
}

static DType dtype(P *p)
{
	DType d = p->tok == T_WORD ? dtype_parse(p->str) : DT_NONE;
	if (d == DT_NONE)
		bad(p, "an element type is expected");
	next(p);
	return d;
}

/* ---- tables -------------------------------------------------------------------------------- */

static uint32_t slot(const Table *t, const char *key)
{
	uint32_t i = (uint32_t)((uintptr_t)key >> 4) * 2654435761u & (t->cap - 1);
	while (t->key[i] && t->key[i] != key)
		i = (i + 1) & (t->cap - 1);
	return i;
}

static Node *lookup(P *p, const Table *t, const char *name)
{
	return t->cap ? t->val[slot(t, intern(p->m, name))] : NULL;
}

static void enter(P *p, Table *t, const char *name, Node *n)
{
	if (t->n * 2 >= t->cap) {
		Table old = *t;
		t->cap = t->cap ? t->cap * 2 : 64;
		t->key = calloc(t->cap, sizeof *t->key);
		t->val = calloc(t->cap, sizeof *t->val);
		if (!t->key || !t->val)
			abort();
		for (uint32_t i = 0; i < old.cap; i++)
			if (old.key[i]) {
				uint32_t k = slot(t, old.key[i]);
				t->key[k] = old.key[i];
				t->val[k] = old.val[i];
			}
		free(old.key);
		free(old.val);
	}
	uint32_t i = slot(t, intern(p->m, name));
	if (t->key[i])
		bad(p, "%s is defined twice", name);
	t->n++;
	t->key[i] = intern(p->m, name);
	t->val[i] = n;
}

static void push_local(P *p, const char *name, Node *n)
{
	if (p->nlocals == p->caplocals) {
		p->caplocals = p->caplocals ? p->caplocals * 2 : 32;
		p->locals = realloc(p->locals, sizeof *p->locals * (size_t)p->caplocals);
		if (!p->locals)
			abort();
	}
	p->locals[p->nlocals++] = (Local){ name, n };
}

static Node *find_local(P *p, const char *name)
{
	for (int i = p->nlocals; i-- > 0;)
		if (!strcmp(p->locals[i].name, name))
			return p->locals[i].n;
	return NULL;
}

static void append(P *p, Nodes *v, Node *n)
{
	if (v->n == MAX_LIST)
		bad(p, "too many operands");
	if (v->n == v->cap) {
		int cap = v->cap ? v->cap * 2 : 8;
		Node **at = NEWN(p->m, Node *, cap);
		if (v->n)
			memcpy(at, v->at, sizeof *at * (size_t)v->n);
		v->at = at;
		v->cap = cap;
	}
	v->at[v->n++] = n;
}

/* ---- scalars ------------------------------------------------------------------------------- */

static Node *expr(P *);
static Node *unary(P *);

static Node *index_expr(P *p)
{
	const char *at = p->start;
	Node *e = expr(p);
	if (e->type->dtype != DT_INDEX) {
		p->start = at;
		bad(p, "an index is expected, this is %s", dtypes[e->type->dtype].text);
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

static Node *raw(P *p, OpCode op, const Type *type, int nin, Node *const *in, int64_t n)
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
	if (d == DT_NONE || dtypes[d].bits == 0 || dtypes[d].cls == 'C')
		bad(p, "'%s' is no type of a number", p->suffix);
	if (dt_float(d)) {
		double v = strtod(p->str, NULL);
		n = num_round(d, minus ? -v : v);
	} else if (p->is_float || d == DT_BOOL) {
		bad(p, "%s is no %s", p->str, dtypes[d].text);
	} else {
		int64_t v = digits(p, minus, d == DT_U64 && !minus);
		n = num_cast(d, DT_I64, (Num){ .i = v });
		if (n.i != v)
			bad(p, "%s does not fit %s", p->str, dtypes[d].text);
	}
	next(p);
	return x_num(p->m, d, n);
}

/* inf, nan, inf_f64 ...; NULL if the word is none of them */
static Node *special(P *p, bool minus)
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
	next(p);
	return x_num(p->m, d, (Num){ .f = minus ? -v : v });
}

/* f32#7ff8000000000001: a NaN by the bits of the double that carries it */
static Node *by_bits(P *p, DType d)
{
	uint64_t u = 0;
	int n = 0;
	for (p->s++; hex_digit(*p->s) >= 0 && n < 16; p->s++, n++)
		u = u * 16 + (uint64_t)hex_digit(*p->s);
	double v;
	memcpy(&v, &u, 8);
	if (!dt_float(d) || !n || !isnan(v))
		bad(p, "the bits of a NaN are expected after #");
	next(p);
	return x_num(p->m, d, (Num){ .f = v });
}

static Node *axis(P *p)
{
	const char *name = word(p, "an axis's name");
	want(p, ":");
	Node *a = x_axis(p->m, index_expr(p));
	push_local(p, name, a);
	return a;
}

static int axis_list(P *p, Node **axes, int max)
{
	int n = 0;
	want(p, "(");
	while (!is(p, ")")) {
		if (n == max)
			bad(p, "more than %d axes", max);
		axes[n++] = axis(p);
		if (!eat(p, ","))
			break;
	}
	want(p, ")");
	return n;
}

/* { let t = e; ... e } */
static Node *block(P *p)
{
	int saved = p->nlocals;
	want(p, "{");
	deeper(p);
	while (is(p, "let")) {
		next(p);
		const char *name = word(p, "a name");
		want(p, "=");
		Node *e = expr(p);
		want(p, ";");
		push_local(p, name, e);
	}
	Node *e = expr(p);
	want(p, "}");
	p->depth--;
	p->nlocals = saved;
	return e;
}

static int comb(P *p)
{
	for (int i = 0; i <= COMB_OR; i++)
		if (p->tok == T_WORD && !strcmp(p->str, comb_names[i]))
			return i;
	return -1;
}

static void check_comb(P *p, int c, DType d)
{
	bool logic = c == COMB_AND || c == COMB_OR;
	if (d == DT_STRING || dtypes[d].cls == 'C' || (logic && dt_float(d)) ||
			(d == DT_BOOL && (c == COMB_SUM || c == COMB_PROD)))
		bad(p, "%s of %s", comb_names[c], dtypes[d].text);
}

static Node *reduce(P *p, int c)
{
	Node *in[MAX_RANK * 2 + 1];
	int saved = p->nlocals, n;
	next(p);
	n = axis_list(p, in, MAX_RANK * 2);
	if (!n || c == COMB_SET)
		bad(p, "a reduction needs axes and a combination");
	in[n] = block(p);
	p->nlocals = saved;
	check_comb(p, c, in[n]->type->dtype);
	Node *e = x_reduce(p->m, c, n, in, in[n]);
	if (same_operands(e, O_REDUCE, n + 1, in) && e->n == c)
		return e;
	return raw(p, O_REDUCE, in[n]->type, n + 1, in, c);
}

/* iter(i: N, c = init) { step } */
static Node *iterate(P *p)
{
	Node *in[4];
	int saved = p->nlocals;
	next(p);
	want(p, "(");
	in[0] = axis(p);
	want(p, ",");
	const char *name = word(p, "the carried value's name");
	want(p, "=");
	int inside = p->nlocals;
	in[2] = expr(p);
	p->nlocals = inside;
	want(p, ")");
	in[1] = x_carry(p->m, in[2]->type->dtype);
	push_local(p, name, in[1]);
	in[3] = block(p);
	p->nlocals = saved;
	if (in[3]->type != in[2]->type)
		bad(p, "the step has another type than the initial value");
	return raw(p, O_ITER, in[2]->type, 4, in, 0);
}

static int scalar_op(const char *name)
{
	for (int i = 0; i < O_NUM; i++)
		if (!strcmp(core_op(i)->name, name))
			return i;
	return -1;
}

static const char result_of[] = {
#define SC(N, text, arity, res, infix, doc) res,
#include "ir/scalar.def"
#undef SC
};

static Node *operation(P *p, OpCode op, int n, Node **in, DType to)
{
	char why[200];
	char kind = result_of[op];
	DType d = n > (op == O_SELECT) ? in[op == O_SELECT]->type->dtype : DT_NONE;
	DType r = kind == 'B' ? DT_BOOL : kind == 'T' ? to : d;
	if (!scalar_fits(op, n, in, r, why, sizeof why))
		bad(p, "%s", why);
	return x_raw(p->m, op, n, in, r);
}

static Node *call_op(P *p, OpCode op, DType to)
{
	Node *in[4];
	int n = 0;
	want(p, "(");
	while (!is(p, ")")) {
		if (n == 4)
			bad(p, "too many operands");
		in[n++] = expr(p);
		if (!eat(p, ","))
			break;
	}
	want(p, ")");
	if (!n)
		bad(p, "operands are expected");
	return operation(p, op, n, in, to);
}

static Node *value(P *p);

/* b[i, j, *](extent): the fold of a distributed tile */
static Node *fold(P *p)
{
	Nodes in = { 0 };
	next(p);
	int c = comb(p);
	if (c <= COMB_SET)
		bad(p, "a combination is expected");
	next(p);
	Node *b = value(p);
	if (b->type->kind != T_BUFFER)
		bad(p, "a buffer is expected");
	check_comb(p, c, b->type->dtype);
	append(p, &in, b);
	append(p, &in, NULL);
	want(p, "[");
	while (!is(p, "*")) {
		append(p, &in, index_expr(p));
		want(p, ",");
	}
	next(p);
	want(p, "]");
	want(p, "(");
	in.at[1] = x_axis(p->m, index_expr(p));
	want(p, ")");
	if (in.n - 1 != b->nin)
		bad(p, "%d indices are expected", b->nin);
	return raw(p, O_FOLD, ty_scalar(p->m, b->type->dtype), in.n, in.at, c);
}

/* %x[i, j] of a tensor or a buffer */
static Node *element(P *p, Node *t)
{
	Node *in[MAX_RANK + 1] = { t };
	bool tensor = t->type->kind == T_TENSOR;
	int n = 1, rank = tensor ? t->type->rank : t->nin;
	DType d = t->type->dtype;
	if (!tensor && t->type->kind != T_BUFFER)
		bad(p, "only tensors and buffers have elements");
	if (d == DT_STRING || dtypes[d].cls == 'C')
		bad(p, "elements of %s cannot be computed with", dtypes[d].text);
	want(p, "[");
	while (!is(p, "]")) {
		if (n > MAX_RANK || n > rank)
			bad(p, "%d indices are expected", rank);
		in[n++] = index_expr(p);
		if (!eat(p, ","))
			break;
	}
	if (n != rank + 1)
		bad(p, "%d indices are expected", rank);
	want(p, "]");
	if (tensor) {
		Node *e = x_read(p->m, t, in + 1);
		if (same_operands(e, O_READ, n, in))
			return e;
	}
	return raw(p, tensor ? O_READ : O_LOAD, ty_scalar(p->m, d), n, in, 0);
}

static Node *named_word(P *p)
{
	const char *w = p->str;
	int op;
	DType d;
	Node *e;
	if ((e = find_local(p, w)) || (e = special(p, false))) {
		if (find_local(p, w) == e)
			next(p);
		return e;
	}
	if (!strcmp(w, "true") || !strcmp(w, "false")) {
		next(p);
		return x_bool(p->m, w[0] == 't');
	}
	if ((d = dtype_parse(w)) != DT_NONE) {
		if (*p->s == '#')
			return by_bits(p, d);
		next(p);
		return call_op(p, O_CAST, d);
	}
	if (!strncmp(w, "bits.", 5) && (d = dtype_parse(w + 5)) != DT_NONE) {
		next(p);
		return call_op(p, O_BITS, d);
	}
	if (!strcmp(w, "iter"))
		return iterate(p);
	if (!strcmp(w, "fold"))
		return fold(p);
	int c = comb(p);
	if (c >= 0) {
		/* min(a, b) or min(i: N) { } */
		const char *s = p->s;
		s += strspn(s, " (");
		while (word_char(*s))
			s++;
		s += strspn(s, " ");
		if (*s == ':')
			return reduce(p, c);
	}
	if ((op = scalar_op(w)) >= 0 && op != O_CAST && op != O_BITS) {
		next(p);
		return call_op(p, op, DT_NONE);
	}
	if (!(e = lookup(p, &p->symbols, w)))
		bad(p, "'%s' is not known here", w);
	next(p);
	return e;
}

static Node *atom(P *p)
{
	Node *e;
	switch (p->tok) {
	case T_NUM: return literal(p, false);
	case T_WORD: return named_word(p);
	case T_SYMBOL:
		if (!(e = lookup(p, &p->symbols, p->str)))
			bad(p, "there is no symbol `%s`", p->str);
		next(p);
		return e;
	case T_VALUE:
		e = value(p);
		if (e->type->kind != T_SCALAR)
			return element(p, e);
		return e;
	default: break;
	}
	if (eat(p, "(")) {
		e = expr(p);
		want(p, ")");
		return e;
	}
	if (is(p, "{"))
		return block(p);
	bad(p, "an expression is expected");
}

static Node *unary(P *p)
{
	Node *e;
	if (!is(p, "-") && !is(p, "!"))
		return atom(p);
	deeper(p);
	bool minus = is(p, "-");
	next(p);
	if (minus && p->tok == T_NUM)
		e = literal(p, true);
	else if (!minus || !(e = special(p, true)))
		e = operation(p, minus ? O_NEG : O_NOT, 1, (Node *[]){ unary(p) }, DT_NONE);
	p->depth--;
	return e;
}

static int infix_op(P *p)
{
	static const char *const infix[] = {
#define SC(N, text, arity, res, infix, doc) infix,
#include "ir/scalar.def"
#undef SC
	};
	for (int i = 0; p->tok == T_PUNCT && i < O_NUM; i++)
		if (infix[i] && i != O_NOT && !strcmp(infix[i], p->punct))
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
		next(p);
		deeper(p);
		Node *in[2] = { e, binary(p, prec + 1) };
		p->depth--;
		e = operation(p, op, 2, in, DT_NONE);
	}
}

static Node *expr(P *p)
{
	deeper(p);
	Node *e = binary(p, 2);
	if (eat(p, "?")) {
		Node *in[3] = { e };
		in[1] = expr(p);
		want(p, ":");
		in[2] = expr(p);
		e = operation(p, O_SELECT, 3, in, DT_NONE);
	}
	p->depth--;
	return e;
}

/* ---- values, types ------------------------------------------------------------------------- */

/* %name, %name.0 */
static Node *value(P *p)
{
	if (p->tok != T_VALUE)
		bad(p, "a value is expected");
	Node *n = lookup(p, &p->values, p->str);
	if (!n)
		bad(p, "there is no value %%%s here", p->str);
	while (*p->s == '.' && isdigit((unsigned char)p->s[1])) {
		int64_t k = 0;
		for (p->s++; isdigit((unsigned char)*p->s) && k < MAX_LIST; p->s++)
			k = k * 10 + (*p->s - '0');
		if (n->type->kind != T_TUPLE || k >= n->type->rank)
			bad(p, "there is no result %lld", (long long)k);
		Node *r = t_result(p->m, n, (int)k);
		if (!r)
			bad(p, "result %lld is absent", (long long)k);
		n = r;
	}
	next(p);
	return n;
}

static Node *optional_value(P *p)
{
	if (p->tok == T_WORD && !strcmp(p->str, "_")) {
		next(p);
		return NULL;
	}
	return value(p);
}

static const Type *type(P *p, bool loose);

static const Type *tensor_type(P *p, DType d, bool loose)
{
	Node *dims[MAX_RANK];
	int n = 0;
	while (!is(p, "]")) {
		if (n == MAX_RANK)
			bad(p, "more than %d dimensions", MAX_RANK);
		if (loose && eat(p, "?"))
			dims[n] = p->any;
		else
			dims[n] = index_expr(p);
		int64_t v;
		if (is_int(dims[n++], &v) && v < 0)
			bad(p, "a dimension is negative");
		if (!eat(p, ","))
			break;
	}
	want(p, "]");
	return ty_tensor(p->m, d, n, dims);
}

static const Type *tuple_type(P *p, bool loose)
{
	const Type **elem = NULL;
	int n = 0, cap = 0;
	while (!is(p, ")")) {
		if (n == cap) {
			const Type **old = elem;
			if (n == MAX_LIST)
				bad(p, "too many results");
			elem = NEWN(p->m, const Type *, cap = cap ? cap * 2 : 8);
			if (n)
				memcpy(elem, old, sizeof *elem * (size_t)n);
		}
		elem[n++] = type(p, loose);
		if (!eat(p, ","))
			break;
	}
	want(p, ")");
	return ty_tuple(p->m, n, elem);
}

static const Type *type(P *p, bool loose)
{
	const Type *t;
	DType d = DT_NONE;
	deeper(p);
	if (eat(p, "(")) {
		t = tuple_type(p, loose);
	} else if (eat(p, "void")) {
		t = ty_of(p->m, T_VOID, DT_NONE, NULL);
	} else if (is(p, "seq") || is(p, "optional") || is(p, "map")) {
		TypeKind k = is(p, "seq") ? T_SEQ : is(p, "map") ? T_MAP : T_OPTIONAL;
		next(p);
		want(p, "<");
		if (k == T_MAP) {
			d = dtype(p);
			want(p, ",");
		}
		const Type *e = is(p, ">") ? NULL : type(p, loose);
		/* ">>" ends two */
		if (p->tok == T_PUNCT && !strcmp(p->punct, ">>")) {
			p->punct[1] = 0;
			p->start++;
		} else {
			want(p, ">");
		}
		t = ty_of(p->m, k, d, e);
	} else {
		d = dtype(p);
		t = eat(p, "[") ? tensor_type(p, d, loose) : ty_scalar(p->m, d);
	}
	p->depth--;
	return t;
}

/* Is the stated type that of the operator? Dimensions are compared where both are numbers. */
static bool agree(P *p, const Type *a, const Type *b)
{
	if (a->kind != b->kind || a->dtype != b->dtype || a->rank != b->rank)
		return false;
	for (int i = 0; a->kind == T_TENSOR && i < a->rank; i++) {
		int64_t x, y;
		if (a->dims[i] != p->any && is_int(a->dims[i], &x) && is_int(b->dims[i], &y) && x != y)
			return false;
	}
	for (int i = 0; a->elem && b->elem && i < a->rank; i++)
		if (!agree(p, a->elem[i], b->elem[i]))
			return false;
	return true;
}

static const Loc *location(P *p)
{
	const Loc *first = NULL, **tail = &first;
	if (!is(p, "loc"))
		return NULL;
	next(p);
	want(p, "(");
	do {
		const char *name = string(p), *kind = NULL;
		int index = -1;
		if (eat(p, ",")) {
			if (p->tok == T_NUM) {
				index = small(p, 0, INT32_MAX);
			} else {
				kind = p->tok == T_STR ? string(p) : word(p, "an operator's name");
				if (eat(p, ","))
					index = small(p, 0, INT32_MAX);
			}
		}
		Loc *l = (Loc *)loc_new(p->m, name, kind, index);
		*tail = l;
		tail = &l->next;
	} while (eat(p, ";"));
	want(p, ")");
	return first;
}

/* ---- constants ----------------------------------------------------------------------------- */

static int digit64(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26
		: c >= '0' && c <= '9' ? c - '0' + 52 : c == '+' ? 62 : c == '/' ? 63 : -1;
}

static void base64(P *p, Data *d)
{
	if (p->tok != T_STR)
		bad(p, "base64 digits in quotes are expected");
	const char *s = p->str;
	size_t len = strlen(s), n = 0;
	uint8_t *out = (uint8_t *)d->bytes;
	if (len != (d->size + 2) / 3 * 4)
		bad(p, "%zu bytes of base64 are expected", d->size);
	for (size_t i = 0; i < len; i += 4) {
		uint32_t v = 0;
		int pad = 0;
		for (int k = 0; k < 4; k++) {
			int x = digit64(s[i + k]);
			if (x < 0 && (s[i + k] != '=' || i + 4 < len || k < 2))
				bad(p, "'%c' is no digit of base64", s[i + k]);
			pad += x < 0;
			v = v << 6 | (x < 0 ? 0 : (uint32_t)x);
		}
		for (int k = 0; k < 3 - pad && n < d->size; k++)
			out[n++] = (uint8_t)(v >> (16 - 8 * k));
	}
	if (n != d->size)
		bad(p, "%zu bytes of base64 are expected, there are %zu", d->size, n);
	next(p);
}

/* The bytes lie in a file beside this one; it stays mapped. */
static void map_file(P *p, const char *name)
{
	if (p->mapped_name && !strcmp(name, p->mapped_name))
		return;
	if (strchr(name, '/') || !strcmp(name, "..") || !*name || !p->file)
		bad(p, "the data file '%s' must lie beside the text", name);
	const char *slash = strrchr(p->file, '/');
	const char *path = slash ? arena_printf(p->m->arena, "%.*s/%s", (int)(slash - p->file), p->file,
		name) : name;
	int fd = open(path, OPEN_READ);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size == 0) {
		if (fd >= 0)
			close(fd);
		bad(p, "cannot read the data file '%s'", path);
	}
	void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		bad(p, "cannot map the data file '%s'", path);
	p->mapped_name = name;
	p->mapped = at;
	p->mapped_size = (size_t)st.st_size;
}

static void number_into(P *p, Data *d, DType t, int64_t k)
{
	Num n;
	if (t == DT_BOOL) {
		n.i = is(p, "true");
		if (!is(p, "true") && !is(p, "false"))
			bad(p, "true or false is expected");
		next(p);
	} else if (dt_float(t)) {
		bool minus = eat(p, "-");
		Node *s = special(p, minus);
		if (!s && p->tok != T_NUM)
			bad(p, "a number is expected");
		n = s ? s->num : num_round(t, (minus ? -1 : 1) * strtod(p->str, NULL));
		if (!s)
			next(p);
	} else {
		bool minus = eat(p, "-");
		if (p->tok != T_NUM || p->is_float || p->suffix)
			bad(p, "an integer is expected");
		n.i = digits(p, minus, t == DT_U64 && !minus);
		if (num_cast(t, DT_I64, n).i != n.i)
			bad(p, "%s does not fit %s", p->str, dtypes[t].text);
		next(p);
	}
	data_set((void *)d->bytes, t, k, n);
}

static Data *data_list(P *p, DType t, int64_t count)
{
	Data *d = NULL;
	int64_t k = 0;
	if (count > MAX_LIST)
		bad(p, "too many elements for a list");
	if (t == DT_STRING) {
		d = NEW(p->m, Data);
		d->count = count;
		d->strings = NEWN(p->m, const char *, count + 1);
	} else {
		d = data_new(p->m, t, count, NULL);
	}
	for (; !is(p, "}"); k++) {
		if (k == count)
			bad(p, "%lld elements are expected", (long long)count);
		if (t == DT_STRING)
			d->strings[k] = string(p);
		else
			number_into(p, d, t, k);
		if (!eat(p, ","))
			k++, (void)0;
		else
			continue;
		break;
	}
	if (k != count)
		bad(p, "%lld elements are expected, there are %lld", (long long)count, (long long)k);
	want(p, "}");
	return d;
}

static Data *payload(P *p, DType t, int64_t count)
{
	int64_t bits;
	if (!mul_ok(count, dtypes[t].bits ? dtypes[t].bits : 1, &bits) || count < 0)
		bad(p, "the constant is too large");
	size_t size = (size_t)((uint64_t)(bits + 7) / 8);
	if (eat(p, "{"))
		return data_list(p, t, count);
	if (t == DT_STRING)
		bad(p, "strings are expected");
	if (eat(p, "base64")) {
		if (p->tok != T_STR || strlen(p->str) / 4 * 3 + 3 < size)
			bad(p, "%zu bytes of base64 are expected", size);
		Data *d = data_new(p->m, t, count, NULL);
		base64(p, d);
		return d;
	}
	if (eat(p, "file")) {
		const char *name = string(p);
		int64_t offset = integer(p), stated = integer(p);
		map_file(p, name);
		if (offset < 0 || stated != (int64_t)size || (uint64_t)offset > p->mapped_size ||
				size > p->mapped_size - (size_t)offset)
			bad(p, "%zu bytes at %lld do not lie in '%s'", size, (long long)offset, name);
		return data_new(p->m, t, count, p->mapped + offset);
	}
	if (is(p, "elided"))
		bad(p, "this constant was left out of the dump: dump into a folder to keep it");
	bad(p, "the constant's elements are expected");
}

static Node *constant(P *p)
{
	int64_t dims[MAX_RANK], count = 1;
	next(p);
	const Type *t = type(p, false);
	if (t->kind != T_TENSOR)
		bad(p, "a tensor type is expected");
	for (int i = 0; i < t->rank; i++)
		if (!is_int(t->dims[i], &dims[i]) || !mul_ok(count, dims[i], &count))
			bad(p, "a constant's dimensions are numbers");
	return t_const(p->m, t->dtype, t->rank, dims, payload(p, t->dtype, count));
}

/* ---- attributes ---------------------------------------------------------------------------- */

static double real(P *p)
{
	bool minus = eat(p, "-");
	double v;
	if (is(p, "inf") || is(p, "nan"))
		v = is(p, "inf") ? INFINITY : NAN;
	else if (p->tok == T_NUM && !p->suffix)
		v = strtod(p->str, NULL);
	else
		bad(p, "a number is expected");
	next(p);
	return minus ? -v : v;
}

/* Does a number with a fraction stand here? */
static bool at_real(P *p)
{
	const char *s = p->s;
	if (!is(p, "-"))
		return is(p, "inf") || is(p, "nan") || (p->tok == T_NUM && p->is_float);
	s += strspn(s, " ");
	if (!strncmp(s, "inf", 3) || !strncmp(s, "nan", 3))
		return true;
	s += strspn(s, "0123456789");
	return *s == '.' || *s == 'e';
}

static void attr_list(P *p, Attr *a, int known)
{
	int64_t *is_ = NULL;
	double *fs = NULL;
	const char **ss = NULL;
	int cap = 0;
	a->kind = known >= 0 ? (AttrKind)known : p->tok == T_STR ? A_STRS : at_real(p) ? A_FLOATS : A_INTS;
	while (!is(p, "]")) {
		if (a->n == cap) {
			int64_t *i0 = is_;
			double *f0 = fs;
			const char **s0 = ss;
			if (a->n >= MAX_LIST)
				bad(p, "the list is too long");
			cap = cap ? cap * 2 : 8;
			is_ = NEWN(p->m, int64_t, cap);
			fs = NEWN(p->m, double, cap);
			ss = NEWN(p->m, const char *, cap);
			if (a->n) {
				memcpy(is_, i0, sizeof *is_ * (size_t)a->n);
				memcpy(fs, f0, sizeof *fs * (size_t)a->n);
				memcpy(ss, s0, sizeof *ss * (size_t)a->n);
			}
		}
		if (a->kind == A_STRS)
			ss[a->n++] = string(p);
		else if (a->kind == A_FLOATS)
			fs[a->n++] = real(p);
		else
			is_[a->n++] = integer(p);
		if (!eat(p, ","))
			break;
	}
	want(p, "]");
	a->is = a->kind == A_INTS ? is_ ? is_ : NEWN(p->m, int64_t, 1) : NULL;
	a->fs = a->kind == A_FLOATS ? fs ? fs : NEWN(p->m, double, 1) : NULL;
	a->ss = a->kind == A_STRS ? ss ? ss : NEWN(p->m, const char *, 1) : NULL;
}

static int stated_kind(const Op *op, const char *name)
{
	const Sig *s = op && op->code == O_GRAPH && op->sig ? op_sig(op) : NULL;
	for (int i = 0; s && i < s->nattrs; i++)
		if (!strcmp(s->attrs[i].name, name))
			return (int)s->attrs[i].kind;
	return -1;
}

static Attr attribute(P *p, const Op *op)
{
	Attr a = { .name = p->tok == T_STR ? string(p) : word(p, "an attribute's name") };
	int kind = stated_kind(op, a.name);
	want(p, "=");
	if (p->tok == T_STR) {
		a.kind = A_STR;
		a.s = string(p);
	} else if (p->tok == T_VALUE) {
		a.kind = A_TENSOR;
		a.t = value(p);
	} else if (eat(p, "type")) {
		a.kind = A_TYPE;
		a.type = type(p, false);
	} else if (eat(p, "[")) {
		bool list = kind == A_INTS || kind == A_FLOATS || kind == A_STRS;
		attr_list(p, &a, list && !is(p, "]") ? (p->tok == T_STR) == (kind == A_STRS) ? kind : -1
			: list ? kind : -1);
	} else if (is(p, "ints") || is(p, "floats") || is(p, "strs")) {
		int k = is(p, "ints") ? A_INTS : is(p, "floats") ? A_FLOATS : A_STRS;
		next(p);
		want(p, "[");
		attr_list(p, &a, k);
	} else if (kind == A_FLOAT || at_real(p)) {
		a.kind = A_FLOAT;
		a.f = real(p);
	} else {
		a.kind = A_INT;
		a.i = integer(p);
	}
	return a;
}

static const Attr *attributes(P *p, const Op *op)
{
	const Attr *list = NULL;
	int n = 0;
	if (!eat(p, "{"))
		return NULL;
	while (!is(p, "}")) {
		Attr a = attribute(p, op);
		if (attr_find(list, a.name) || ++n > 256)
			bad(p, "attribute '%s' is stated twice", a.name);
		list = attrs_add(p->m, list, a);
		if (!eat(p, ","))
			break;
	}
	want(p, "}");
	return list;
}

/* ---- lines --------------------------------------------------------------------------------- */

static void lines(P *p, Region *r);
static void scalar_line(P *p);
static void defined_symbol(P *p);

/* A parameter's name: stated after its number, or the one it is used by. */
static const char *own_name(P *p, const char *used)
{
	if (p->tok == T_STR)
		return string(p);
	return isdigit((unsigned char)*used) ? NULL : intern(p->m, used + (*used == '"'));
}

static Node *param(P *p, int position)
{
	if (p->tok != T_VALUE)
		bad(p, "a parameter is expected");
	const char *name = intern(p->m, p->str), *own;
	next(p);
	own = own_name(p, name);
	want(p, ":");
	Node *n = t_param(p->m, own, type(p, false), position);
	enter(p, &p->values, name, n);
	return n;
}

static void params(P *p, Region *r)
{
	Nodes v = { 0 };
	want(p, "(");
	while (!is(p, ")")) {
		append(p, &v, param(p, v.n));
		if (!eat(p, ","))
			break;
	}
	want(p, ")");
	r->params = v.at;
	r->nparams = v.n;
}

static Region *region(P *p)
{
	Region *r = region_new(p->m, p->tok == T_STR ? string(p) : word(p, "a region's name"));
	deeper(p);
	params(p, r);
	want(p, "{");
	lines(p, r);
	want(p, "yield");
	while (!is(p, "}")) {
		Node *n = value(p);
		if (n->type->kind == T_SCALAR || n->type->kind == T_BUFFER)
			bad(p, "a region gives tensors");
		region_add(p->m, r, n);
		if (!eat(p, ","))
			break;
	}
	want(p, "}");
	p->depth--;
	return r;
}

static int regions(P *p, Region ***list)
{
	Region *r[64];
	int n = 0;
	*list = NULL;
	if (!eat(p, "{"))
		return 0;
	while (!is(p, "}")) {
		if (n == 64)
			bad(p, "too many regions");
		r[n++] = region(p);
	}
	next(p);
	*list = arena_dup(p->m->arena, r, sizeof *r * (size_t)n);
	return n;
}

static Node *tensor(P *p)
{
	Node *in[MAX_RANK + 1], *dims[MAX_RANK];
	int saved = p->nlocals;
	next(p);
	int n = axis_list(p, in, MAX_RANK);
	DType d = dtype(p);
	in[n] = block(p);
	p->nlocals = saved;
	if (in[n]->type->dtype != d)
		bad(p, "the body is %s, not %s", dtypes[in[n]->type->dtype].text, dtypes[d].text);
	for (int i = 0; i < n; i++)
		dims[i] = in[i]->in[0];
	return raw(p, O_TENSOR, ty_tensor(p->m, d, n, dims), n + 1, in, 0);
}

static Node *scatter(P *p)
{
	Node *axes[MAX_RANK * 2], *idx[MAX_RANK];
	int saved = p->nlocals, n, k = 0;
	next(p);
	int c = comb(p);
	if (c < 0)
		bad(p, "a combination is expected");
	next(p);
	Node *base = value(p);
	if (base->type->kind != T_TENSOR)
		bad(p, "a tensor is expected");
	check_comb(p, c, base->type->dtype);
	n = axis_list(p, axes, MAX_RANK * 2);
	want(p, "[");
	while (!is(p, "]")) {
		if (k == base->type->rank)
			break;
		idx[k++] = index_expr(p);
		if (!eat(p, ","))
			break;
	}
	if (k != base->type->rank)
		bad(p, "%d indices are expected", base->type->rank);
	want(p, "]");
	want(p, "=");
	Node *v = expr(p);
	want(p, "if");
	Node *cond = expr(p);
	p->nlocals = saved;
	if (v->type->dtype != base->type->dtype || cond->type->dtype != DT_BOOL)
		bad(p, "the value must be %s and the condition bool", dtypes[base->type->dtype].text);
	return t_scatter(p->m, c, base, n, axes, idx, v, cond);
}

static const Op *core_line(const char *name)
{
	static const OpCode codes[] = { O_TUPLE, O_IF, O_LOOP, O_HOST };
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		if (!strcmp(core_op(codes[i])->name, name))
			return core_op(codes[i]);
	return NULL;
}

/* The operands must suit the operation, or later passes would stumble. */
static void check_core(P *p, const Node *t)
{
	int want_regions = t->op->code == O_IF ? 2 : t->op->code == O_LOOP ? 1 : 0;
	if (t->nregions != want_regions)
		bad(p, "%s has %d regions", t->op->name, want_regions);
	if (t->op->code == O_TUPLE) {
		if (t->type->kind != T_TUPLE || t->type->rank != t->nin)
			bad(p, "the type has another number of results");
		for (int i = 0; i < t->nin; i++)
			if (t->in[i] && !agree(p, t->type->elem[i], t->in[i]->type))
				bad(p, "the type of result %d differs", i);
	}
	if (t->op->code == O_IF && (t->nin != 1 || !t->in[0] || t->in[0]->type->kind != T_TENSOR ||
			t->in[0]->type->dtype != DT_BOOL || t->type->kind != T_TUPLE))
		bad(p, "if takes a bool and gives a tuple");
	if (t->op->code == O_LOOP && (t->nin < 2 || t->type->kind != T_TUPLE || t->n < 0 ||
			t->nin != t->n + 2 || t->type->rank < t->n ||
			t->regions[0]->nparams < t->n + 1 || t->regions[0]->nresults < t->n + 1))
		bad(p, "loop<n> takes a trip count, a condition and n values, and gives a tuple of them");
	for (int k = 0; t->op->code == O_IF && k < 2; k++)
		if (t->regions[k]->nresults != t->type->rank || t->regions[k]->nparams)
			bad(p, "a branch gives %d results", t->type->rank);
}

/* An operator's builder relies on its regions. */
static void check_regions(P *p, const Op *op, int n)
{
	const Sig *s = op_sig(op);
	int least = 0, most = 0;
	for (int i = 0; i < s->nattrs; i++)
		if (s->attrs[i].kind == A_REGION) {
			most++;
			least += s->attrs[i].required;
		}
	if (n < least || n > most)
		bad(p, "%s has %d regions, not %d", op->name, most, n);
}

static int count_suffix(P *p)
{
	int n = 0;
	if (is(p, "<")) {
		next(p);
		n = small(p, 0, MAX_LIST);
		want(p, ">");
	}
	return n;
}

static Node *general_line(P *p)
{
	const char *name = word(p, "an operator");
	const Op *op = core_line(name);
	Nodes in = { 0 };
	Region **rs;
	Node t = { 0 };
	if (!op) {
		op = op_find(strncmp(name, "op.", 3) ? name : name + 3);
		if (!op)
			bad(p, "there is no operator '%s'", name);
	}
	t.op = op;
	t.n = count_suffix(p);
	if (op->code == O_HOST && op == core_op(O_HOST))
		t.name = string(p);
	while (p->tok == T_VALUE || (p->tok == T_WORD && !strcmp(p->str, "_"))) {
		append(p, &in, optional_value(p));
		if (!eat(p, ","))
			break;
	}
	for (int i = 0; i < in.n; i++)
		if (in.at[i] && (in.at[i]->type->kind == T_SCALAR || in.at[i]->type->kind == T_BUFFER))
			bad(p, "operand %d is not a tensor", i + 1);
	t.attrs = attributes(p, op);
	want(p, ":");
	bool core = op == core_line(name);
	t.type = type(p, !core);
	t.nregions = regions(p, &rs);
	t.regions = rs;
	t.loc = location(p);
	t.in = in.at;
	t.nin = in.n;
	if (core) {
		check_core(p, &t);
		return node_make(p->m, t);
	}
	if (op->code != O_GRAPH || !op->sig)
		bad(p, "'%s' is no operator", name);
	check_regions(p, op, t.nregions);
	int nout = t.n ? (int)t.n : op_sig(op)->nout;
	Node *n = graph_op(p->m, op, in.n, in.at, t.attrs, nout, t.nregions, rs, t.loc);
	if (!n)
		bad(p, "%s cannot be built", name);
	if (!agree(p, t.type, n->type))
		bad(p, "%s has another type than is stated", name);
	return n;
}

static Node *right_side(P *p)
{
	Node *n;
	p->nlocals = 0;
	if (is(p, "tensor"))
		n = tensor(p);
	else if (is(p, "scatter"))
		n = scatter(p);
	else if (is(p, "const"))
		n = constant(p);
	else
		return general_line(p);
	const Loc *l = location(p);
	if (l)
		n->loc = l;
	if (p->level == LEVEL_GRAPH && n->type->kind == T_TENSOR)
		infer_elems(p->m, n);
	return n;
}

static void requirement(P *p)
{
	p->nlocals = 0;
	next(p);
	Node *cond = expr(p);
	if (cond->type->dtype != DT_BOOL)
		bad(p, "a condition is expected");
	want(p, ":");
	const char *text = string(p);
	const Loc *l = location(p);
	map_put(&p->stated, cond, cond);
	require(p->m, cond, l, "%s", text);
	/* an operator may have required the same in other words */
	for (int i = 0; i < p->m->requires.n; i++) {
		Require *r = p->m->requires.at[i];
		if (r->cond == cond) {
			r->message = text;
			r->loc = l;
		}
	}
}

/* Does the condition read what the text does not show? */
static bool hidden(const Map *shown, Node *cond)
{
	int n;
	bool found = false;
	Node **list = topo_scalar(cond, &n);
	for (int i = 0; i < n && !found; i++) {
		Node *t = list[i]->code == O_READ ? list[i]->in[0] : NULL;
		while (t && t->code == O_RESULT)
			t = t->in[0];
		found = t && !map_get(shown, t);
	}
	free(list);
	return found || cond->size > 4 * TEXT_INLINE;
}

/* Operators make their requirements when they are made; of those that could have been stated, what
 * is not stated does not hold. */
static void keep_stated(P *p)
{
	Map shown = { 0 };
	Vec *v = &p->m->requires;
	int n = 0;
	for (uint32_t i = 0; i < p->values.cap; i++)
		if (p->values.key[i])
			map_put(&shown, p->values.val[i], p->values.val[i]);
	for (int i = 0; i < v->n; i++) {
		Require *r = v->at[i];
		if (map_get(&p->stated, r->cond) || hidden(&shown, r->cond))
			v->at[n++] = r;
	}
	v->n = n;
	map_free(&shown);
}

static void lines(P *p, Region *r)
{
	(void)r;
	for (;;) {
		if (p->tok == T_VALUE) {
			const char *name = intern(p->m, p->str);
			if (lookup(p, &p->values, name))
				bad(p, "%%%s is defined twice", name);
			next(p);
			want(p, "=");
			enter(p, &p->values, name, right_side(p));
		} else if (is(p, "let")) {
			scalar_line(p);
		} else if (is(p, "require")) {
			requirement(p);
		} else if (is(p, "sym")) {
			defined_symbol(p);
		} else {
			return;
		}
	}
}

/* let %3 = e: a scalar that many lines use */
static void scalar_line(P *p)
{
	next(p);
	if (p->tok != T_VALUE)
		bad(p, "a value's name is expected");
	const char *name = intern(p->m, p->str);
	next(p);
	want(p, "=");
	p->nlocals = 0;
	enter(p, &p->values, name, expr(p));
}

/* ---- the head ------------------------------------------------------------------------------ */

static Node *declare(P *p, const char *name, int64_t lo, int64_t hi)
{
	if (lo > hi)
		bad(p, "the range is empty");
	Node *s = x_sym(p->m, name, lo, hi);
	enter(p, &p->symbols, name, s);
	/* fresh symbols are called s1, s2 ...: keep them apart */
	char *end;
	long long k = name[0] == 's' && isdigit((unsigned char)name[1]) ? strtoll(name + 1, &end, 10) : -1;
	if (k >= p->m->nextid && k < INT64_MAX / 2)
		p->m->nextid = k + 1;
	return s;
}

static void bounds(P *p, int64_t *lo, int64_t *hi)
{
	*lo = integer(p);
	want(p, "..");
	*hi = integer(p);
}

static const char *symbol_name(P *p)
{
	if (p->tok == T_WORD && text_reserved(p->str))
		bad(p, "'%s' has a meaning: write `%s`", p->str, p->str);
	if (p->tok != T_WORD && p->tok != T_SYMBOL)
		bad(p, "a symbol is expected");
	const char *s = intern(p->m, p->str);
	next(p);
	return s;
}

/* sym s4 : 0..100 = e: stands for a large expression */
static void defined_symbol(P *p)
{
	int64_t lo, hi;
	next(p);
	const char *name = symbol_name(p);
	want(p, ":");
	bounds(p, &lo, &hi);
	want(p, "=");
	p->nlocals = 0;
	Node *e = index_expr(p), *s = declare(p, name, lo, hi);
	s->def = e;
	map_put(&p->m->named, e, s);
}

/* sym N : 0..100 = dim(%x, 0), dim(%y, 1) */
static void symbol(P *p)
{
	int64_t lo, hi;
	next(p);
	const char *name = symbol_name(p);
	want(p, ":");
	bounds(p, &lo, &hi);
	Node *s = declare(p, name, lo, hi);
	if (!eat(p, "="))
		return;
	if (eat(p, "result")) {
		LoopSym *d = NEW(p->m, LoopSym);
		d->sym = s;
		want(p, "(");
		d->result = small(p, 0, MAX_LIST);
		want(p, ",");
		d->axis = small(p, 0, MAX_RANK - 1);
		want(p, ")");
		vec_push(p->m, &p->m->loopsyms, d);
		return;
	}
	do {
		want(p, "dim");
		want(p, "(");
		if (p->tok != T_VALUE)
			bad(p, "an input is expected");
		p->dims = realloc(p->dims, sizeof *p->dims * (size_t)(p->ndims + 1));
		if (!p->dims)
			abort();
		Dim *d = &p->dims[p->ndims++];
		*d = (Dim){ .sym = s, .input = intern(p->m, p->str) };
		next(p);
		want(p, ",");
		d->axis = small(p, 0, MAX_RANK - 1);
		want(p, ")");
	} while (eat(p, ","));
}

static void resolve_dims(P *p)
{
	Region *r = p->m->main;
	for (int i = 0; i < p->ndims; i++) {
		Dim *d = &p->dims[i];
		Node *n = lookup(p, &p->values, d->input);
		int k = 0;
		while (k < r->nparams && r->params[k] != n)
			k++;
		if (k == r->nparams || n->type->kind != T_TENSOR || d->axis >= n->type->rank)
			bad(p, "symbol %s: there is no axis %d of an input %%%s", d->sym->name, d->axis, d->input);
		SymDef *s = NEW(p->m, SymDef);
		*s = (SymDef){ d->sym, k, d->axis };
		vec_push(p->m, &p->m->symdefs, s);
	}
}

static void ledger(P *p)
{
	Ledger *l = NEW(p->m, Ledger);
	next(p);
	l->what = string(p);
	l->cls = string(p);
	l->error = real(p);
	l->loc = location(p);
	vec_push(p->m, &p->m->ledger, l);
}

static const Machine *machine(P *p)
{
	next(p);
	const char *name = string(p);
	const Machine *t = machine_find(p->m, name);
	if (!t)
		diag_warn(p->m->diag, NULL, "no machine '%s' is known: state the target again", name);
	return t;
}

static void head(P *p)
{
	static const char *const levels[] = { "graph", "tensor", "loop", NULL };
	int k = 0;
	want(p, "module");
	p->m->name = string(p);
	const char *w = word(p, "a level");
	while (levels[k] && strcmp(levels[k], w))
		k++;
	if (!levels[k])
		bad(p, "'%s' is no level: graph, tensor or loop", w);
	p->level = k;
	p->m->strict = eat(p, "strict");
	if (is(p, "target"))
		p->m->machine = machine(p);
	if (is(p, "host"))
		p->m->host = machine(p);
	for (;;)
		if (is(p, "sym"))
			symbol(p);
		else if (is(p, "ledger"))
			ledger(p);
		else if (is(p, "let"))
			scalar_line(p);
		else
			break;
}

static void inputs(P *p)
{
	Region *r = p->m->main;
	const char **names = NULL;
	Nodes v = { 0 };
	int cap = 0;
	want(p, "func");
	want(p, "main");
	want(p, "(");
	while (!is(p, ")")) {
		if (v.n == cap) {
			const char **old = names;
			names = NEWN(p->m, const char *, cap = cap ? cap * 2 : 8);
			if (v.n)
				memcpy(names, old, sizeof *names * (size_t)v.n);
		}
		Node *n = param(p, v.n);
		names[v.n] = eat(p, "=") ? string(p) : n->name;
		append(p, &v, n);
		if (!eat(p, ","))
			break;
	}
	want(p, ")");
	r->params = v.at;
	r->nparams = v.n;
	p->m->in_names = names;
	resolve_dims(p);
}

static void output(P *p, const char ***names, int *cap, Node *n, const char *name)
{
	Region *r = p->m->main;
	if (r->nresults == *cap) {
		const char **old = *names;
		*names = NEWN(p->m, const char *, *cap = *cap ? *cap * 2 : 8);
		if (r->nresults)
			memcpy(*names, old, sizeof *old * (size_t)r->nresults);
	}
	(*names)[r->nresults] = name;
	region_add(p->m, r, n);
}

static void main_region(P *p)
{
	const char **names = NULL;
	int cap = 0;
	inputs(p);
	want(p, "{");
	lines(p, p->m->main);
	want(p, "return");
	while (!is(p, "}")) {
		const char *name = NULL;
		if (p->tok == T_STR) {
			name = string(p);
			want(p, "=");
		}
		Node *n = value(p);
		if (n->type->kind == T_SCALAR)
			bad(p, "an output is a tensor");
		output(p, &names, &cap, n, name);
		if (!eat(p, ","))
			break;
	}
	want(p, "}");
	p->m->out_names = names;
	keep_stated(p);
}

/* ---- loop level ---------------------------------------------------------------------------- */

static Node *buffer(P *p)
{
	static const char *const spaces[] = { "global", "reg", "shared", "stack", NULL };
	Node *extents[MAX_RANK];
	int n = 0, k = 0;
	if (p->tok != T_VALUE)
		bad(p, "a buffer is expected");
	const char *name = intern(p->m, p->str), *own;
	next(p);
	own = own_name(p, name);
	want(p, ":");
	DType d = dtype(p);
	const char *w = word(p, "a space");
	while (spaces[k] && strcmp(spaces[k], w))
		k++;
	if (!spaces[k])
		bad(p, "'%s' is no space: global, reg, shared or stack", w);
	if (dtypes[d].bits < 8 || dtypes[d].cls == 'C')
		bad(p, "no buffer of %s", dtypes[d].text);
	want(p, "[");
	while (!is(p, "]")) {
		if (n == MAX_RANK)
			bad(p, "more than %d extents", MAX_RANK);
		extents[n++] = eat(p, "?") ? p->any : index_expr(p);
		if (!eat(p, ","))
			break;
	}
	want(p, "]");
	Node *b = l_buffer(p->m, own, d, k, n, extents);
	enter(p, &p->values, name, b);
	return b;
}

static void statements(P *p, Region *r);

static Region *braces(P *p, const char *name)
{
	Region *r = region_new(p->m, name);
	want(p, "{");
	deeper(p);
	statements(p, r);
	p->depth--;
	want(p, "}");
	return r;
}

static void for_statement(P *p, Region *r)
{
	int k = 0, saved = p->nlocals;
	next(p);
	const char *w = word(p, "a kind of loop");
	while (k <= F_BLOCK && strcmp(for_names[k], w))
		k++;
	if (k > F_BLOCK)
		bad(p, "'%s' is no kind of loop", w);
	want(p, "(");
	Node *a = axis(p);
	want(p, ")");
	Region *body = braces(p, "body");
	p->nlocals = saved;
	l_for(p->m, r, k, a, body);
}

static void store(P *p, Region *r)
{
	Node *idx[MAX_RANK];
	int n = 0;
	next(p);
	Node *b = value(p);
	if (b->type->kind != T_BUFFER)
		bad(p, "a buffer is expected");
	want(p, "[");
	while (!is(p, "]")) {
		if (n == b->nin)
			bad(p, "%d indices are expected", b->nin);
		idx[n++] = index_expr(p);
		if (!eat(p, ","))
			break;
	}
	if (n != b->nin)
		bad(p, "%d indices are expected", b->nin);
	want(p, "]");
	want(p, "=");
	Node *v = expr(p);
	if (v->type->dtype != b->type->dtype)
		bad(p, "a %s is stored into a buffer of %s", dtypes[v->type->dtype].text,
			dtypes[b->type->dtype].text);
	l_store(p->m, r, b, n, idx, v);
}

static Node *condition(P *p)
{
	Node *c = expr(p);
	if (c->type->dtype != DT_BOOL)
		bad(p, "a condition is expected");
	return c;
}

static void when(P *p, Region *r)
{
	next(p);
	Node *c = condition(p);
	Region *then = braces(p, "then");
	l_when(p->m, r, c, then, eat(p, "else") ? braces(p, "else") : NULL);
}

/* let %3 = e; a leaf is its own value */
static void let(P *p, Region *r)
{
	next(p);
	if (p->tok != T_VALUE)
		bad(p, "a value's name is expected");
	const char *name = intern(p->m, p->str);
	next(p);
	want(p, "=");
	Node *e = expr(p);
	enter(p, &p->values, name, l_let(p->m, r, e));
}

static void call_statement(P *p, Region *r)
{
	const char *name = intern(p->m, p->str);
	Nodes in = { 0 };
	next(p);
	want(p, "=");
	want(p, "call");
	const char *entry = p->tok == T_STR ? string(p) : word(p, "a runtime entry");
	want(p, "(");
	while (!is(p, ")")) {
		Node *v = p->tok == T_VALUE ? lookup(p, &p->values, p->str) : NULL;
		if (v && v->type->kind == T_BUFFER && *p->s != '[')
			append(p, &in, value(p));
		else
			append(p, &in, expr(p));
		if (!eat(p, ","))
			break;
	}
	want(p, ")");
	enter(p, &p->values, name, l_call(p->m, r, entry, in.n, in.at));
}

static void statements(P *p, Region *r)
{
	while (!is(p, "}")) {
		int n = r->nresults;
		if (p->tok == T_VALUE) {
			call_statement(p, r);
		} else if (is(p, "for")) {
			for_statement(p, r);
		} else if (is(p, "store")) {
			store(p, r);
		} else if (is(p, "let")) {
			let(p, r);
		} else if (is(p, "when")) {
			when(p, r);
		} else if (eat(p, "while")) {
			l_while(p->m, r, braces(p, "body"));
		} else if (eat(p, "break")) {
			l_break(p->m, r, condition(p));
		} else if (eat(p, "barrier")) {
			l_barrier(p->m, r);
		} else if (eat(p, "alloc")) {
			l_alloc(p->m, r, buffer(p));
		} else {
			bad(p, "a statement is expected");
		}
		const Loc *l = location(p);
		if (l && r->nresults > n)
			r->results[r->nresults - 1]->loc = l;
	}
}

static void kernel_head(P *p, Kernel *k)
{
	Nodes bufs = { 0 }, syms = { 0 }, args = { 0 };
	bool writes[4096];
	next(p);
	k->name = string(p);
	want(p, "(");
	while (!is(p, ")")) {
		if (bufs.n == 4096)
			bad(p, "too many buffers");
		writes[bufs.n] = eat(p, "out");
		append(p, &bufs, buffer(p));
		if (!eat(p, ","))
			break;
	}
	want(p, ")");
	want(p, "(");
	while (!is(p, ")")) {
		int64_t lo, hi;
		const char *name = symbol_name(p);
		want(p, ":");
		bounds(p, &lo, &hi);
		Node *s = lookup(p, &p->symbols, name);
		append(p, &syms, s ? s : declare(p, name, lo, hi));
		append(p, &args, eat(p, "=") ? index_expr(p) : syms.at[syms.n - 1]);
		if (!eat(p, ","))
			break;
	}
	want(p, ")");
	k->nbufs = bufs.n;
	k->bufs = bufs.at;
	k->writes = arena_dup(p->m->arena, writes, (size_t)bufs.n + !bufs.n);
	k->nsyms = syms.n;
	k->syms = syms.at;
	k->args = args.at;
}

static void kernel_errors(P *p, Kernel *k, const char *text)
{
	const char **list = NEWN(p->m, const char *, k->nerrors + 1);
	if (k->nerrors)
		memcpy(list, k->errors, sizeof *list * (size_t)k->nerrors);
	list[k->nerrors++] = text;
	k->errors = list;
}

static void kernel(P *p)
{
	Kernel *k = NEW(p->m, Kernel);
	p->nlocals = 0;
	kernel_head(p, k);
	want(p, "{");
	while (!k->body) {
		if (eat(p, "schedule")) {
			k->schedule = string(p);
		} else if (eat(p, "grid")) {
			for (int i = 0; i < 3; i++) {
				k->grid[i] = index_expr(p);
				if (!eat(p, ","))
					break;
			}
		} else if (eat(p, "block")) {
			k->block = small(p, 0, 1 << 20);
		} else if (eat(p, "shared")) {
			k->shared = integer(p);
		} else if (eat(p, "scratch")) {
			k->scratch = index_expr(p);
		} else if (eat(p, "cost")) {
			k->flops = real(p);
			want(p, ",");
			k->bytes = real(p);
		} else if (eat(p, "error")) {
			kernel_errors(p, k, string(p));
		} else if (eat(p, "from")) {
			k->loc = location(p);
		} else if (eat(p, "body")) {
			k->body = braces(p, k->name);
		} else {
			bad(p, "a part of a kernel is expected");
		}
	}
	want(p, "}");
	vec_push(p->m, &p->m->kernels, k);
}

static const Data *stated_payload(P *p)
{
	DType d = dtype(p);
	int64_t count = integer(p);
	return payload(p, d, count);
}

static PlanBuf plan_buf(P *p)
{
	PlanBuf b = { 0 };
	int k = 0;
	const char *w = word(p, "a class of buffers");
	while (text_buf_classes[k] && strcmp(text_buf_classes[k], w))
		k++;
	if (!text_buf_classes[k])
		bad(p, "'%s' is no class of buffers", w);
	b.cls = k;
	b.dtype = eat(p, "none") ? DT_NONE : dtype(p);
	if (p->tok == T_STR)
		b.name = string(p);
	want(p, "index");
	b.index = small(p, INT32_MIN, INT32_MAX);
	want(p, "alias");
	b.alias = small(p, INT32_MIN, INT32_MAX);
	want(p, "life");
	int64_t first, last;
	bounds(p, &first, &last);
	if (first < 0 || first > UINT32_MAX || last < 0 || last > UINT32_MAX)
		bad(p, "a step is a number of 32 bits");
	b.first = (uint32_t)first;
	b.last = (uint32_t)last;
	want(p, "size");
	b.size = integer(p);
	want(p, "at");
	b.offset = integer(p);
	if (eat(p, "data"))
		b.data = stated_payload(p);
	return b;
}

static void memory(P *p)
{
	Plan *a = NEW(p->m, Plan);
	PlanBuf *bufs = NULL;
	const char **texts = NULL;
	int capb = 0, capt = 0, ins = 0, nparams = p->m->main->nparams;
	next(p);
	a->is_static = is(p, "static");
	if (!eat(p, "static"))
		want(p, "dynamic");
	a->arena_bytes = integer(p);
	if (p->tok == T_STR)
		a->formula = string(p);
	want(p, "{");
	p->m->memory = a;
	while (!eat(p, "}")) {
		if (eat(p, "buf")) {
			if (a->nbufs == capb) {
				PlanBuf *old = bufs;
				bufs = NEWN(p->m, PlanBuf, capb = capb ? capb * 2 : 16);
				if (old)
					memcpy(bufs, old, sizeof *bufs * (size_t)a->nbufs);
			}
			bufs[a->nbufs++] = plan_buf(p);
		} else if (eat(p, "text")) {
			if (a->ntexts == capt) {
				const char **old = texts;
				texts = NEWN(p->m, const char *, capt = capt ? capt * 2 : 16);
				if (old)
					memcpy(texts, old, sizeof *texts * (size_t)a->ntexts);
			}
			texts[a->ntexts++] = string(p);
		} else if (eat(p, "in")) {
			if (ins >= nparams)
				bad(p, "more inputs than parameters");
			if (!a->in_buf) {
				a->in_buf = NEWN(p->m, int, nparams);
				a->in_default = NEWN(p->m, const Data *, nparams);
			}
			a->in_buf[ins] = small(p, -1, INT32_MAX);
			a->in_default[ins++] = eat(p, "default") ? stated_payload(p) : NULL;
		} else {
			bad(p, "a part of the memory plan is expected");
		}
	}
	a->bufs = bufs;
	a->texts = texts;
	if (ins && ins != nparams)
		bad(p, "%d inputs are expected, there are %d", nparams, ins);
}

static void loops(P *p)
{
	const char **names = NULL;
	int cap = 0;
	inputs(p);
	while (p->m->main->nresults ? eat(p, ",") : eat(p, "->")) {
		const char *name = NULL;
		if (p->tok == T_STR) {
			name = string(p);
			want(p, "=");
		}
		/* stands for the output: only its type matters here */
		output(p, &names, &cap, t_param(p->m, name ? name : "out", type(p, true), -1), name);
	}
	p->m->out_names = names;
	for (;;)
		if (is(p, "kernel"))
			kernel(p);
		else if (eat(p, "plan"))
			p->nlocals = 0, p->m->plan = braces(p, "plan");
		else if (is(p, "memory"))
			memory(p);
		else
			break;
}

Module *module_parse(const char *text, const char *file, Diag *diag, Level *level)
{
	P *p = calloc(1, sizeof *p);
	if (!p)
		abort();
	p->m = module_new(diag);
	p->file = file;
	p->text = p->s = p->start = text;
	int errors = diag->errors;
	Module *m = p->m;
	if (!setjmp(p->fail)) {
		p->any = x_sym(m, "?", 0, INT64_MAX);
		next(p);
		head(p);
		if (p->level == LEVEL_LOOP)
			loops(p);
		else
			main_region(p);
		if (p->tok != T_END)
			bad(p, "the end of the text is expected");
		*level = p->level;
	}
	free(p->values.key);
	free(p->values.val);
	free(p->symbols.key);
	free(p->symbols.val);
	map_free(&p->stated);
	free(p->locals);
	free(p->dims);
	free(p);
	if (diag->errors == errors)
		return m;
	module_free(m);
	return NULL;
}
