/*
 * The text of a module, at each level; parse.c reads it back to the same module. ir/README.md has
 * the grammar.
 *
 * What is a line: tensors and graph operators, and closed scalar expressions of more than INLINE
 * nodes, so that no line grows large however much the graph shares. A line stands in the innermost
 * region common to its uses, lines of a region in the order in which the nodes were made. Within an
 * expression what is used twice is bound by a `let` in the innermost loop common to its uses.
 * Names: values %N in the order of print (parameters keep theirs where unique), axes i, j, k ...,
 * lets t0, t1 ..., carries c0, c1 ..., each per line.
 */
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"
#include "ir/machine.h"
#include "ir/plan.h"
#include "ir/text.h"

enum { INLINE = TEXT_INLINE, HEIGHT = 32, SHORT_CONST = 16, LONG_CONST = 64 << 10 };

/* A block of an expression: the whole, or the body of a reduce or iter. */
typedef struct Scope { int parent, depth; } Scope;

typedef struct Names { char **at; uint32_t cap, n; } Names;

typedef struct P {
	Module *m;
	Level level;
	FILE *f;
	FILE *data;            /* where large constants go, or NULL */
	const char *data_name;
	bool loose;            /* expr_print: what has no name is described */
	int tabs;
	int nvalue, naxis, nlet, ncarry;
	Map name;              /* node -> text */
	Map home;              /* line -> Region */
	Map closed;            /* scalar without axes, carries and statements */
	Names syms, vals;      /* names taken: symbols, values */
	/* the expression being printed */
	Map scope;             /* node -> scope + 1 */
	Map inner;             /* reduce, iter -> the scope of its body + 1 */
	Node **list; int count;
	Scope *scopes; int nscopes;
	Map let;               /* bound by a let */
} P;

static void expr(P *, Node *, int prec);
static void block(P *, Node *root, int scope);

static void *grow(void *p, size_t size)
{
	p = realloc(p, size ? size : 1);
	if (!p)
		abort();
	return p;
}

static void nl(P *p)
{
	fputc('\n', p->f);
	for (int i = 0; i < p->tabs; i++)
		fputc('\t', p->f);
}

/* ---- names --------------------------------------------------------------------------------- */

static uint32_t hash_name(const char *s)
{
	uint32_t h = 2166136261u;
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619u;
	return h;
}

/* Adds; false if it was there. */
static bool name_take(Names *t, const char *s)
{
	if (t->n * 2 >= t->cap) {
		Names old = *t;
		t->cap = t->cap ? t->cap * 2 : 64;
		t->n = 0;
		t->at = calloc(t->cap, sizeof *t->at);
		if (!t->at)
			abort();
		for (uint32_t i = 0; i < old.cap; i++)
			if (old.at[i])
				name_take(t, old.at[i]);
		free(old.at);
	}
	uint32_t i = hash_name(s) & (t->cap - 1);
	for (; t->at[i]; i = (i + 1) & (t->cap - 1))
		if (!strcmp(t->at[i], s))
			return false;
	t->at[i] = (char *)s;
	t->n++;
	return true;
}

static bool name_has(const Names *t, const char *s)
{
	if (!t->cap)
		return false;
	for (uint32_t i = hash_name(s) & (t->cap - 1); t->at[i]; i = (i + 1) & (t->cap - 1))
		if (!strcmp(t->at[i], s))
			return true;
	return false;
}

/* A word that the grammar gives a meaning in expressions. */
bool text_reserved(const char *s)
{
	static const char *const words[] = { "let", "true", "false", "inf", "nan", "iter", "fold",
		"bits", "return", "yield", "require", "sym", "func", "kernel", "plan", NULL };
	for (int i = 0; words[i]; i++)
		if (!strcmp(s, words[i]))
			return true;
	for (int i = 0; i < O_NUM; i++)
		if (!strcmp(core_op(i)->name, s))
			return true;
	for (int i = 0; i <= COMB_OR; i++)
		if (!strcmp(comb_names[i], s))
			return true;
	return dtype_parse(s) != DT_NONE;
}

static bool identifier(const char *s)
{
	if (!isalpha((unsigned char)*s) && *s != '_')
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && *s != '_')
			return false;
	return true;
}

static bool machine_made(const char *s)       /* like what we name ourselves */
{
	return (*s == 't' || *s == 'c') && isdigit((unsigned char)s[1]);
}

static void quoted(FILE *f, const char *s, char q)
{
	fputc(q, f);
	for (; *s; s++) {
		unsigned char c = *s;
		if (c == (unsigned char)q || c == '\\')
			fprintf(f, "\\%c", c);
		else if (c == '\n')
			fputs("\\n", f);
		else if (c < 32 || c == 127)
			fprintf(f, "\\x%02x", c);
		else
			fputc(c, f);
	}
	fputc(q, f);
}

static void sym_name(FILE *f, const char *s)
{
	if (identifier(s) && !text_reserved(s) && !machine_made(s))
		fputs(s, f);
	else
		quoted(f, s, '`');
}

static const char *value_text(P *p, const char *s)
{
	if (identifier(s))
		return arena_printf(p->m->arena, "%%%s", s);
	char *text;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	if (!f)
		abort();
	fputc('%', f);
	quoted(f, s, '"');
	fclose(f);
	s = arena_printf(p->m->arena, "%s", text);
	free(text);
	return s;
}

/* The node's own name if no other has it, else a number. */
static void name_value(P *p, Node *n)
{
	bool own = n->name && *n->name && name_take(&p->vals, n->name);
	const char *s = own ? value_text(p, n->name)
		: arena_printf(p->m->arena, "%%%d", p->nvalue++);
	map_put(&p->name, n, (void *)s);
}

static const char *axis_name(P *p)
{
	static const char letters[] = "ijklmnopqrsuvwxyzabdefgh";
	for (;;) {
		int k = p->naxis++, round = k / (int)(sizeof letters - 1);
		char c = letters[k % (int)(sizeof letters - 1)];
		char *s = arena_printf(p->m->arena, round ? "%c%d" : "%c", c, round);
		if (!name_has(&p->syms, s))
			return s;
	}
}

static const char *bind_axis(P *p, Node *axis)
{
	const char *s = axis_name(p);
	map_put(&p->name, axis, (void *)s);
	return s;
}

/* ---- scalars ------------------------------------------------------------------------------- */

static void float_text(FILE *f, DType d, double v)
{
	static const int digits[] = { 9, 17 };
	char s[40];
	if (isinf(v)) {
		fputs(v < 0 ? "-inf" : "inf", f);
		return;
	}
	for (int k = 1; k <= digits[d == DT_F64]; k++) {
		snprintf(s, sizeof s, "%.*g", k, v);
		double back = num_round(d, strtod(s, NULL)).f;
		if (back == v)
			break;
	}
	fputs(s, f);
	if (!strpbrk(s, ".e"))
		fputs(".0", f);
}

/* NaN of one pattern is `nan`, the others show theirs. */
static bool plain_float(DType d, double v)
{
	Num n = num_round(d, v), nan = { .f = NAN };
	if (!isnan(v))
		return isinf(v) || (n.f == v && !!signbit(n.f) == !!signbit(v));
	return !memcmp(&v, &nan.f, sizeof v);
}

void text_num(FILE *f, DType d, Num n)
{
	if (d == DT_BOOL) {
		fputs(n.i ? "true" : "false", f);
		return;
	}
	if (!dt_float(d)) {
		fprintf(f, d == DT_U64 ? "%llu" : "%lld", (long long)n.i);
		if (d != DT_INDEX)
			fputs(dtypes[d].text, f);
		return;
	}
	if (!plain_float(d, n.f)) {
		uint64_t u;
		memcpy(&u, &n.f, 8);
		fprintf(f, "%s#%llx", dtypes[d].text, (unsigned long long)u);
		return;
	}
	if (isnan(n.f))
		fputs("nan", f);
	else
		float_text(f, d, n.f);
	if (d != DT_F32)
		fprintf(f, isfinite(n.f) ? "%s" : "_%s", dtypes[d].text);
}

static const char *infix_of(OpCode op, int *prec)
{
	static const char *const infix[] = {
#define SC(N, text, arity, res, infix, doc) infix,
#include "ir/scalar.def"
#undef SC
	};
	static const struct { const char *s; int prec; } rank[] = { { "|", 2 }, { "^", 3 },
		{ "&", 4 }, { "==", 5 }, { "!=", 5 }, { "<", 6 }, { "<=", 6 }, { "<<", 7 }, { ">>", 7 },
		{ "+", 8 }, { "-", 8 }, { "*", 9 }, { "/", 9 }, { "%", 9 } };
	if (op >= O_NUM || !infix[op] || op == O_NOT)
		return NULL;
	for (size_t i = 0; i < sizeof rank / sizeof *rank; i++)
		if (!strcmp(rank[i].s, infix[op]))
			*prec = rank[i].prec;
	return infix[op];
}

int text_precedence(OpCode op)
{
	int prec = 0;
	return infix_of(op, &prec) ? prec : 0;
}

static void list(P *p, Node *const *in, int n)
{
	for (int i = 0; i < n; i++) {
		if (i)
			fputs(", ", p->f);
		expr(p, in[i], 0);
	}
}

static Node *view(P *, Node *);

static void value(P *p, Node *n)
{
	if (!n) {
		fputc('_', p->f);
		return;
	}
	n = view(p, n);
	const char *s = map_get(&p->name, n);
	if (s) {
		fputs(s, p->f);
	} else if (n->code == O_RESULT) {
		value(p, n->in[0]);
		fprintf(p->f, ".%lld", (long long)n->n);
	} else if (n->name) {
		fputs(value_text(p, n->name), p->f);
	} else if (n->loc && n->loc->name) {
		fputs(value_text(p, n->loc->name), p->f);
	} else {
		fprintf(p->f, "%%?%s", n->op->name);
	}
}

static void axes(P *p, Node *const *a, int n, const char *close)
{
	for (int i = 0; i < n; i++) {
		if (i)
			fputs(", ", p->f);
		Node *extent = a[i]->in[0];
		/* the extent stands outside the axis, but may use the ones before */
		const char *s = bind_axis(p, a[i]);
		fprintf(p->f, "%s: ", s);
		expr(p, extent, 0);
	}
	fputs(close, p->f);
}

static void inner_block(P *p, Node *e, Node *body)
{
	int scope = (int)(intptr_t)map_get(&p->inner, e) - 1;
	fputc('{', p->f);
	block(p, body, scope < 0 ? INT_MAX : scope);
	fputc('}', p->f);
}

static void reduce(P *p, Node *e)
{
	int saved = p->naxis;
	fprintf(p->f, "%s(", comb_names[e->n]);
	axes(p, e->in, e->nin - 1, ") ");
	inner_block(p, e, e->in[e->nin - 1]);
	p->naxis = saved;
}

static void iter(P *p, Node *e)
{
	int saved = p->naxis;
	char *c = arena_printf(p->m->arena, "c%d", p->ncarry++);
	fputs("iter(", p->f);
	axes(p, e->in, 1, ", ");
	fprintf(p->f, "%s = ", c);
	expr(p, e->in[2], 0);
	fputs(") ", p->f);
	map_put(&p->name, e->in[1], c);
	inner_block(p, e, e->in[3]);
	p->naxis = saved;
	p->ncarry--;
}

static void operation(P *p, Node *e, int prec)
{
	int own = 0;
	const char *op = infix_of(e->code, &own);
	if (e->code == O_SELECT) {
		if (prec > 1)
			fputc('(', p->f);
		expr(p, e->in[0], 2);
		fputs(" ? ", p->f);
		expr(p, e->in[1], 2);
		fputs(" : ", p->f);
		expr(p, e->in[2], 1);
		if (prec > 1)
			fputc(')', p->f);
	} else if (op) {
		if (prec > own)
			fputc('(', p->f);
		expr(p, e->in[0], own);
		fprintf(p->f, " %s ", op);
		expr(p, e->in[1], own + 1);
		if (prec > own)
			fputc(')', p->f);
	} else if ((e->code == O_NEG || e->code == O_NOT) && e->in[0]->code != O_NUM) {
		fputc(e->code == O_NEG ? '-' : '!', p->f);
		expr(p, e->in[0], 10);
	} else {
		if (e->code == O_BITS)
			fprintf(p->f, "bits.");
		fprintf(p->f, "%s(", e->code == O_CAST || e->code == O_BITS
			? dtypes[e->type->dtype].text : e->op->name);
		list(p, e->in, e->nin);
		fputc(')', p->f);
	}
}

static void expr(P *p, Node *e, int prec)
{
	const char *s = map_get(&p->name, e);
	if (s) {
		fputs(s, p->f);
		return;
	}
	switch (e->code) {
	case O_NUM: text_num(p->f, e->type->dtype, e->num); break;
	case O_SYM: sym_name(p->f, e->name); break;
	case O_AXIS: case O_CARRY:
		fprintf(p->f, "%s?%lld", e->op->name, (long long)e->n);      /* out of scope: a bug */
		break;
	case O_READ: case O_LOAD:
		value(p, e->in[0]);
		fputc('[', p->f);
		list(p, e->in + 1, e->nin - 1);
		fputc(']', p->f);
		break;
	case O_FOLD:
		fprintf(p->f, "fold %s ", comb_names[e->n]);
		value(p, e->in[0]);
		fputc('[', p->f);
		for (int i = 2; i < e->nin; i++) {
			expr(p, e->in[i], 0);
			fputs(", ", p->f);
		}
		fputs("*](", p->f);
		expr(p, e->in[1]->in[0], 0);
		fputc(')', p->f);
		break;
	case O_REDUCE: reduce(p, e); break;
	case O_ITER: iter(p, e); break;
	default:
		if (e->code < O_NUM)
			operation(p, e, prec);
		else
			fprintf(p->f, "%%?%s", e->op->name);
	}
}

/* ---- expressions with lets ----------------------------------------------------------------- */

static bool atom(P *p, const Node *e)
{
	return e->type->kind != T_SCALAR || map_get(&p->name, e) || e->code == O_NUM ||
		e->code == O_SYM || e->code == O_AXIS || e->code == O_CARRY || e->code == O_LET ||
		e->code == O_CALL || e->code == O_BUFFER;
}

/* Scalar operands to print, with the scope that each stands in. */
static Node *operand(P *p, Node *e, int k, int *scope)
{
	int inner = (int)(intptr_t)map_get(&p->inner, e) - 1;
	if (e->code == O_REDUCE && k == e->nin - 1)
		*scope = inner;
	if (e->code == O_ITER) {
		if (k == 1)
			return NULL;
		if (k == 3)
			*scope = inner;
	}
	Node *x = e->in[k];
	if (x->code == O_AXIS && ((e->code == O_REDUCE && k < e->nin - 1) ||
			(e->code == O_ITER && k == 0) || e->code == O_FOLD))
		return x->in[0];
	return x->type->kind == T_SCALAR ? x : NULL;
}

/* The scalars of e, operands first; fills p->list. */
static void flatten(P *p, Node *root)
{
	typedef struct Frame { Node *n; int next; } Frame;
	Frame *stack = grow(NULL, sizeof *stack * 64);
	Map seen = { 0 };
	int depth = 0, cap = 64, room = 0;
	p->list = NULL;
	p->count = 0;
	if (!atom(p, root)) {
		stack[depth++] = (Frame){ root, 0 };
		map_put(&seen, root, root);
	}
	while (depth) {
		Frame *f = &stack[depth - 1];
		if (f->next == f->n->nin) {
			if (p->count == room)
				p->list = grow(p->list, sizeof *p->list * (size_t)(room = room ? room * 2 : 16));
			p->list[p->count++] = f->n;
			depth--;
			continue;
		}
		int scope;
		Node *c = operand(p, f->n, f->next++, &scope);
		if (!c || atom(p, c) || map_get(&seen, c))
			continue;
		map_put(&seen, c, c);
		if (depth == cap)
			stack = grow(stack, sizeof *stack * (size_t)(cap *= 2));
		stack[depth++] = (Frame){ c, 0 };
	}
	map_free(&seen);
	free(stack);
}

static void add_int(Map *m, const Node *n, int v)
{
	map_put(m, n, (void *)((intptr_t)map_get(m, n) + v));
}

/* Chooses the lets: what is used twice and is more than a short sum, and what stands too deep. */
static void choose_lets(P *p)
{
	Map uses = { 0 }, height = { 0 };
	int scope;
	for (int i = 0; i < p->count; i++)
		for (int k = 0; k < p->list[i]->nin; k++) {
			Node *c = operand(p, p->list[i], k, &scope);
			if (c)
				add_int(&uses, c, 1);
		}
	for (int i = 0; i < p->count; i++) {
		Node *e = p->list[i];
		int h = 0;
		for (int k = 0; k < e->nin; k++) {
			Node *c = operand(p, e, k, &scope);
			int x = c && !map_get(&p->let, c) ? (int)(intptr_t)map_get(&height, c) : 0;
			h = x > h ? x : h;
		}
		map_put(&height, e, (void *)(intptr_t)(h + 1));
		bool tiny = e->size <= 3 && e->code != O_READ && e->code != O_LOAD;
		bool twice = (intptr_t)map_get(&uses, e) > 1 && !tiny;
		if (i + 1 < p->count && (twice || h + 1 >= HEIGHT))
			map_put(&p->let, e, e);
	}
	map_free(&uses);
	map_free(&height);
}

static int common_scope(P *p, int a, int b)
{
	while (a != b)
		if (p->scopes[a].depth > p->scopes[b].depth)
			a = p->scopes[a].parent;
		else
			b = p->scopes[b].parent;
	return a;
}

static int new_scope(P *p, int parent)
{
	p->scopes = grow(p->scopes, sizeof *p->scopes * (size_t)(p->nscopes + 1));
	p->scopes[p->nscopes] = (Scope){ parent, parent < 0 ? 0 : p->scopes[parent].depth + 1 };
	return p->nscopes++;
}

static void place_lets(P *p)
{
	for (int i = p->count; i-- > 0;) {
		Node *e = p->list[i];
		int at = (int)(intptr_t)map_get(&p->scope, e) - 1;
		if (e->code == O_REDUCE || e->code == O_ITER)
			map_put(&p->inner, e, (void *)(intptr_t)(new_scope(p, at) + 1));
		for (int k = 0; k < e->nin; k++) {
			int s = at;
			Node *c = operand(p, e, k, &s);
			if (!c || atom(p, c))
				continue;
			int old = (int)(intptr_t)map_get(&p->scope, c) - 1;
			map_put(&p->scope, c, (void *)(intptr_t)((old < 0 ? s : common_scope(p, old, s)) + 1));
		}
	}
}

static bool has_lets(P *p, int scope)
{
	for (int i = 0; i < p->count; i++)
		if (map_get(&p->let, p->list[i]) &&
				(int)(intptr_t)map_get(&p->scope, p->list[i]) - 1 == scope)
			return true;
	return false;
}

/* The lets of a scope, then its value; the braces are the caller's. */
static void block(P *p, Node *root, int scope)
{
	if (!has_lets(p, scope)) {
		fputc(' ', p->f);
		expr(p, root, 0);
		fputc(' ', p->f);
		return;
	}
	p->tabs++;
	for (int i = 0; i < p->count; i++) {
		Node *e = p->list[i];
		if (!map_get(&p->let, e) || (int)(intptr_t)map_get(&p->scope, e) - 1 != scope)
			continue;
		char *s = arena_printf(p->m->arena, "t%d", p->nlet++);
		nl(p);
		fprintf(p->f, "let %s = ", s);
		expr(p, e, 0);
		fputc(';', p->f);
		map_put(&p->name, e, s);
	}
	nl(p);
	expr(p, root, 0);
	p->tabs--;
	nl(p);
}

/* Prepares the printing of e as the block of scope 0. */
static void analyse(P *p, Node *e)
{
	flatten(p, e);
	new_scope(p, -1);
	map_put(&p->scope, e, (void *)1);
	choose_lets(p);
	place_lets(p);
}

static void forget(P *p)
{
	/* lets hold within the expression only */
	for (int i = 0; i < p->count; i++)
		if (map_get(&p->let, p->list[i]))
			map_put(&p->name, p->list[i], NULL);
	free(p->list);
	free(p->scopes);
	p->list = NULL;
	p->scopes = NULL;
	p->count = p->nscopes = 0;
	map_free(&p->scope);
	map_free(&p->inner);
	map_free(&p->let);
}

/* An expression on its own, in braces if it has lets; with braces always as a body. */
static void full_expr(P *p, Node *e)
{
	int nlet = p->nlet;
	analyse(p, e);
	if (has_lets(p, 0)) {
		fputs("{", p->f);
		block(p, e, 0);
		fputs("}", p->f);
	} else {
		expr(p, e, 0);
	}
	forget(p);
	p->nlet = nlet;
}

static void body_expr(P *p, Node *e)
{
	int nlet = p->nlet;
	analyse(p, e);
	fputc('{', p->f);
	block(p, e, 0);
	fputc('}', p->f);
	forget(p);
	p->nlet = nlet;
}

/* ---- types, locations ---------------------------------------------------------------------- */

/* What was read from "?". */
static bool unknown(const Node *e)
{
	return e->code == O_SYM && !strcmp(e->name, "?");
}

/* Does the expression read what this level does not show, or is it too large for a line? */
static bool hidden(P *p, Node *e)
{
	int n;
	bool found = false;
	if (e->code == O_NUM)
		return false;
	Node **list = topo_scalar(e, &n);
	for (int i = 0; i < n && !found; i++) {
		Node *t = list[i]->code == O_READ ? view(p, list[i]->in[0]) : NULL;
		while (t && t->code == O_RESULT)
			t = view(p, t->in[0]);
		found = t && !map_get(&p->name, t);
		/* a fresh symbol of a definition, which is made anew with it */
		if (list[i]->code == O_SYM && !name_has(&p->syms, list[i]->name))
			found = true;
	}
	free(list);
	return found || (p->level == LEVEL_GRAPH && e->size > 4 * INLINE);
}

static void type_text(P *p, const Type *t)
{
	switch (t->kind) {
	case T_SCALAR: fputs(dtypes[t->dtype].text, p->f); break;
	case T_TENSOR:
		fprintf(p->f, "%s[", dtypes[t->dtype].text);
		for (int i = 0; i < t->rank; i++) {
			if (i)
				fputs(", ", p->f);
			if (unknown(t->dims[i]) || (!p->loose && hidden(p, t->dims[i])))
				fputc('?', p->f);
			else
				expr(p, t->dims[i], 0);
		}
		fputc(']', p->f);
		break;
	case T_TUPLE:
		fputc('(', p->f);
		for (int i = 0; i < t->rank; i++) {
			if (i)
				fputs(", ", p->f);
			type_text(p, t->elem[i]);
		}
		fputc(')', p->f);
		break;
	case T_SEQ: case T_OPTIONAL:
		fputs(t->kind == T_SEQ ? "seq<" : "optional<", p->f);
		if (t->rank)
			type_text(p, t->elem[0]);
		fputc('>', p->f);
		break;
	case T_MAP:
		fprintf(p->f, "map<%s, ", dtypes[t->dtype].text);
		if (t->rank)
			type_text(p, t->elem[0]);
		fputc('>', p->f);
		break;
	case T_BUFFER: fprintf(p->f, "buffer<%s>", dtypes[t->dtype].text); break;
	default: fputs("void", p->f); break;
	}
}

static void loc(P *p, const Loc *l)
{
	if (!l)
		return;
	fputs("  loc(", p->f);
	for (const Loc *x = l; x; x = x->next) {
		quoted(p->f, x->name ? x->name : "", '"');
		if (x->type) {
			fputs(", ", p->f);
			if (identifier(x->type))
				fputs(x->type, p->f);
			else
				quoted(p->f, x->type, '"');
		}
		if (x->index >= 0)
			fprintf(p->f, ", %d", x->index);
		if (x->next)
			fputs("; ", p->f);
	}
	fputc(')', p->f);
}

/* ---- constants ----------------------------------------------------------------------------- */

static void base64(FILE *f, const uint8_t *b, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = b[i] << 16 | (i + 1 < n ? b[i + 1] << 8 : 0) | (i + 2 < n ? b[i + 2] : 0);
		fputc(digits[v >> 18], f);
		fputc(digits[v >> 12 & 63], f);
		fputc(i + 1 < n ? digits[v >> 6 & 63] : '=', f);
		fputc(i + 2 < n ? digits[v & 63] : '=', f);
	}
}

static bool listable(const Data *d, DType t)
{
	uint8_t back[16];
	if (d->count > SHORT_CONST || t == DT_STRING || dtypes[t].cls == 'C' || t == DT_F4E2M1)
		return t == DT_STRING;
	for (int64_t k = 0; k < d->count; k++) {
		int bits = dtypes[t].bits;
		Num v = data_get(d, t, k);
		if (dt_float(t) && !plain_float(t, v.f))
			return false;
		memset(back, 0, sizeof back);
		data_set(back, t, 0, v);
		Num again = data_get(&(Data){ .bytes = back }, t, 0);
		if (bits >= 8 && memcmp(back, (const uint8_t *)d->bytes + k * (bits / 8), bits / 8))
			return false;
		if (bits < 8 && again.i != v.i)
			return false;
	}
	return true;
}

/* Without the type's suffix: it is stated. */
static void element(P *p, const Data *d, DType t, int64_t k)
{
	if (t == DT_STRING) {
		quoted(p->f, d->strings[k], '"');
		return;
	}
	Num v = data_get(d, t, k);
	if (t == DT_BOOL)
		fputs(v.i ? "true" : "false", p->f);
	else if (!dt_float(t))
		fprintf(p->f, t == DT_U64 ? "%llu" : "%lld", (long long)v.i);
	else if (isnan(v.f))
		fputs("nan", p->f);
	else
		float_text(p->f, t, v.f);
}

static void data_text(P *p, const Data *d, DType t)
{
	if (listable(d, t)) {
		fputs(" {", p->f);
		for (int64_t k = 0; k < d->count; k++) {
			if (k)
				fputs(", ", p->f);
			element(p, d, t, k);
		}
		fputc('}', p->f);
	} else if (d->size <= LONG_CONST) {
		fputs(" base64 \"", p->f);
		base64(p->f, d->bytes, d->size);
		fputc('"', p->f);
	} else if (p->data) {
		long at = ftell(p->data);
		for (; at % 64; at++)
			fputc(0, p->data);
		fwrite(d->bytes, 1, d->size, p->data);
		fputs(" file ", p->f);
		quoted(p->f, p->data_name, '"');
		fprintf(p->f, " %ld %zu", at, d->size);
	} else {
		fprintf(p->f, " elided 0x%016llx %zu", (unsigned long long)d->hash, d->size);
	}
}

/* ---- attributes ---------------------------------------------------------------------------- */

static void attr_double(P *p, double v)
{
	if (isnan(v))
		fputs("nan", p->f);
	else
		float_text(p->f, DT_F64, v);
}

static void attr_value(P *p, const Attr *a)
{
	static const char *const empty[] = { [A_INTS] = "ints", [A_FLOATS] = "floats",
		[A_STRS] = "strs" };
	switch (a->kind) {
	case A_INT: fprintf(p->f, "%lld", (long long)a->i); break;
	case A_FLOAT: attr_double(p, a->f); break;
	case A_STR: quoted(p->f, a->s ? a->s : "", '"'); break;
	case A_TENSOR: value(p, a->t); break;
	case A_TYPE: fputs("type ", p->f); type_text(p, a->type); break;
	case A_REGION: fputs("region", p->f); break;
	default:
		if (!a->n)
			fputs(empty[a->kind], p->f);
		fputc('[', p->f);
		for (int i = 0; i < a->n; i++) {
			if (i)
				fputs(", ", p->f);
			if (a->kind == A_INTS)
				fprintf(p->f, "%lld", (long long)a->is[i]);
			else if (a->kind == A_FLOATS)
				attr_double(p, a->fs[i]);
			else
				quoted(p->f, a->ss[i], '"');
		}
		fputc(']', p->f);
	}
}

static bool is_default(const Op *op, const Attr *a)
{
	const Sig *s = op_sig(op);
	for (int i = 0; i < s->nattrs; i++) {
		const Attr *d = &s->attrs[i].value;
		if (!s->attrs[i].has_default || strcmp(s->attrs[i].name, a->name) || a->kind != s->attrs[i].kind)
			continue;
		switch (a->kind) {
		case A_INT: return a->i == d->i;
		case A_FLOAT: return a->f == d->f && !!signbit(a->f) == !!signbit(d->f);
		case A_STR: return !strcmp(a->s ? a->s : "", d->s ? d->s : "");
		case A_INTS: return a->n == d->n && (!a->n || !memcmp(a->is, d->is, sizeof *a->is * a->n));
		default: return false;
		}
	}
	return false;
}

static void attrs(P *p, const Node *n)
{
	bool any = false;
	for (const Attr *a = n->attrs; a; a = a->next) {
		if (n->code == O_GRAPH && is_default(n->op, a))
			continue;
		fputs(any ? ", " : " {", p->f);
		any = true;
		if (identifier(a->name))
			fputs(a->name, p->f);
		else
			quoted(p->f, a->name, '"');
		fputs(" = ", p->f);
		attr_value(p, a);
	}
	if (any)
		fputc('}', p->f);
}

/* ---- which lines, and where ---------------------------------------------------------------- */

static Node *view(P *p, Node *n)
{
	if (p->level == LEVEL_GRAPH || !n || (n->type && n->type->kind == T_SCALAR))
		return n;
	return definition(n);
}

/* A symbol that stands for an expression; at the other levels, definitions and the plan make it. */
static bool stands_for(P *p, const Node *n)
{
	return n->code == O_SYM && n->def && p->level == LEVEL_TENSOR;
}

/* At loop level: a host expression over tensors, which the plan computes. */
static bool reads(Node *e)
{
	int n;
	bool found = false;
	Node **list = topo_scalar(e, &n);
	for (int i = 0; i < n && !found; i++)
		found = list[i]->code == O_READ;
	free(list);
	return found;
}

/* What n needs: operands, dimensions of its type, attributes. Regions aside. */
typedef struct Needs { Node **at; int n, cap; } Needs;

static void need(Needs *s, Node *n)
{
	if (!n)
		return;
	if (s->n == s->cap)
		s->at = grow(s->at, sizeof *s->at * (size_t)(s->cap = s->cap ? s->cap * 2 : 32));
	s->at[s->n++] = n;
}

static void need_type(Needs *s, const Type *t)
{
	if (!t)
		return;
	for (int i = 0; t->kind == T_TENSOR && i < t->rank; i++)
		if (t->dims[i]->code != O_NUM)
			need(s, t->dims[i]);
	for (int i = 0; t->elem && i < t->rank; i++)
		need_type(s, t->elem[i]);
}

static void needs(P *p, Node *n, Needs *s)
{
	s->n = 0;
	for (int i = 0; i < n->nin; i++)
		if (n->code != O_BUFFER || !reads(n->in[i]))
			need(s, view(p, n->in[i]));
	for (const Attr *a = n->attrs; a; a = a->next)
		if (a->kind == A_TENSOR)
			need(s, view(p, a->t));
	if (stands_for(p, n))
		need(s, n->def);
	/* the types of operators follow from their operands */
	if (n->code != O_GRAPH && n->code != O_RESULT && n->type && n->type->kind != T_SCALAR)
		need_type(s, n->type);
}

static bool open_scalar(P *p, Node *n)
{
	if (n->code == O_AXIS || n->code == O_CARRY || n->code == O_LET || n->code == O_CALL ||
			n->code == O_LOAD || n->code == O_FOLD)
		return true;
	for (int i = 0; i < n->nin; i++)
		if (n->in[i] && n->in[i]->type->kind == T_SCALAR && !map_get(&p->closed, n->in[i]))
			return true;
	return false;
}

static bool is_line(P *p, Node *n)
{
	if (stands_for(p, n))
		return true;
	if (n->type && n->type->kind == T_SCALAR)
		return n->size > INLINE && map_get(&p->closed, n);
	return n->code != O_PARAM && n->code != O_RESULT && n->code != O_BUFFER &&
		(n->code < O_BUFFER || n->code == O_GRAPH);
}

typedef struct Walk { Vec list; Map seen; Needs needs; } Walk;

/* All that the roots need, needs first, regions' contents before their owner. */
static void collect(P *p, Walk *w, Node *root)
{
	typedef struct Frame { Node *n, **kids; int nkids, next; } Frame;
	int depth = 0, cap = 64;
	Frame *stack = grow(NULL, sizeof *stack * (size_t)cap);
	Node *n = view(p, root);
	while (n || depth) {
		if (n && !map_get(&w->seen, n)) {
			map_put(&w->seen, n, n);
			needs(p, n, &w->needs);
			for (int r = 0; r < n->nregions; r++) {
				for (int i = 0; i < n->regions[r]->nparams; i++)
					need(&w->needs, n->regions[r]->params[i]);
				for (int i = 0; i < n->regions[r]->nresults; i++)
					need(&w->needs, view(p, n->regions[r]->results[i]));
			}
			if (depth == cap)
				stack = grow(stack, sizeof *stack * (size_t)(cap *= 2));
			Node **kids = grow(NULL, sizeof *kids * (size_t)w->needs.n);
			for (int i = 0; i < w->needs.n; i++)
				kids[i] = w->needs.at[i];
			stack[depth++] = (Frame){ n, kids, w->needs.n, 0 };
		}
		n = NULL;
		if (!depth)
			break;
		Frame *f = &stack[depth - 1];
		if (f->next < f->nkids) {
			n = f->kids[f->next++];
			continue;
		}
		if (f->n->type && f->n->type->kind == T_SCALAR && !open_scalar(p, f->n))
			map_put(&p->closed, f->n, f->n);
		vec_push(p->m, &w->list, f->n);
		free(f->kids);
		depth--;
	}
	free(stack);
}

typedef struct RegionAt { Region *parent; int depth; } RegionAt;

typedef struct Places {
	Map at;                /* by a node of the region -> ... */
	Region **r; RegionAt *info; int n, cap;
} Places;

static RegionAt *region_at(Places *s, const Region *r)
{
	for (int i = s->n; i-- > 0;)
		if (s->r[i] == r)
			return &s->info[i];
	return NULL;
}

static void region_put(Places *s, Region *r, Region *parent)
{
	if (region_at(s, r))
		return;
	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 16;
		s->r = grow(s->r, sizeof *s->r * (size_t)s->cap);
		s->info = grow(s->info, sizeof *s->info * (size_t)s->cap);
	}
	s->r[s->n] = r;
	s->info[s->n++] = (RegionAt){ parent, parent ? region_at(s, parent)->depth + 1 : 0 };
}

static Region *common_region(Places *s, Region *a, Region *b)
{
	while (a != b) {
		RegionAt *x = region_at(s, a), *y = region_at(s, b);
		if (!x || !y)
			return a;
		if (x->depth >= y->depth && x->parent)
			a = x->parent;
		else
			b = y->parent;
	}
	return a;
}

static void used_in(P *p, Places *s, Node *n, Region *r)
{
	Region *old = map_get(&p->home, n);
	if (!r)
		return;
	map_put(&p->home, n, old ? common_region(s, old, r) : r);
}

/* Lines to their regions: users come later in the list, so backwards. */
static void place(P *p, Walk *w)
{
	Places s = { 0 };
	region_put(&s, p->m->main, NULL);
	for (int i = w->list.n; i-- > 0;) {
		Node *n = w->list.at[i];
		Region *r = map_get(&p->home, n);
		if (n->code == O_PARAM)
			continue;
		if (!r)
			r = p->m->main;
		map_put(&p->home, n, r);
		for (int k = 0; k < n->nregions; k++) {
			Region *in = n->regions[k];
			region_put(&s, in, r);
			for (int q = 0; q < in->nresults; q++)
				if (in->results[q])
					used_in(p, &s, view(p, in->results[q]), in);
			for (int q = 0; q < in->nparams; q++) {
				w->needs.n = 0;
				need_type(&w->needs, in->params[q]->type);
				for (int j = 0; j < w->needs.n; j++)
					used_in(p, &s, w->needs.at[j], r);
			}
		}
		needs(p, n, &w->needs);
		for (int k = 0; k < w->needs.n; k++)
			used_in(p, &s, w->needs.at[k], r);
	}
	free(s.r);
	free(s.info);
}

/* ---- lines --------------------------------------------------------------------------------- */

static void region_lines(P *, Walk *, Region *);

static void operands(P *p, Node *const *in, int n)
{
	for (int i = 0; i < n; i++) {
		fputs(i ? ", " : " ", p->f);
		value(p, in[i]);
	}
}

static void tensor(P *p, Node *n)
{
	p->naxis = p->nlet = p->ncarry = 0;
	fputs("tensor (", p->f);
	axes(p, n->in, n->nin - 1, ") ");
	fprintf(p->f, "%s ", dtypes[n->type->dtype].text);
	body_expr(p, n->in[n->nin - 1]);
}

/* base, axes, indices, value, condition */
static void scatter(P *p, Node *n)
{
	int rank = n->type->rank, naxes = n->nin - rank - 3;
	p->naxis = p->nlet = p->ncarry = 0;
	fprintf(p->f, "scatter %s ", comb_names[n->n]);
	value(p, n->in[0]);
	fputs(" (", p->f);
	axes(p, n->in + 1, naxes, ") [");
	for (int i = 0; i < rank; i++) {
		if (i)
			fputs(", ", p->f);
		full_expr(p, n->in[1 + naxes + i]);
	}
	fputs("] = ", p->f);
	full_expr(p, n->in[n->nin - 2]);
	fputs(" if ", p->f);
	full_expr(p, n->in[n->nin - 1]);
}

static bool core_name(const char *s)
{
	for (int i = O_NUM; i < O_GRAPH; i++)
		if (!strcmp(core_op(i)->name, s))
			return true;
	return false;
}

static void param(P *p, Node *n)
{
	if (!map_get(&p->name, n))
		name_value(p, n);
	const char *s = map_get(&p->name, n);
	fputs(s, p->f);
	if (n->name && strcmp(s, value_text(p, n->name))) {
		fputc(' ', p->f);
		quoted(p->f, n->name, '"');
	}
	fputs(": ", p->f);
	type_text(p, n->type);
}

static void region(P *p, Walk *w, Region *r)
{
	nl(p);
	if (r->name && identifier(r->name))
		fprintf(p->f, "%s (", r->name);
	else {
		quoted(p->f, r->name ? r->name : "", '"');
		fputs(" (", p->f);
	}
	for (int i = 0; i < r->nparams; i++) {
		if (i)
			fputs(", ", p->f);
		param(p, r->params[i]);
	}
	fputs(") {", p->f);
	p->tabs++;
	region_lines(p, w, r);
	nl(p);
	fputs("yield", p->f);
	for (int i = 0; i < r->nresults; i++) {
		fputs(i ? ", " : " ", p->f);
		value(p, r->results[i]);
	}
	p->tabs--;
	nl(p);
	fputc('}', p->f);
}

static void regions(P *p, Walk *w, Node *n)
{
	if (!n->nregions)
		return;
	fputs(" {", p->f);
	p->tabs++;
	for (int i = 0; i < n->nregions; i++)
		region(p, w, n->regions[i]);
	p->tabs--;
	nl(p);
	fputc('}', p->f);
}

/* What stands right of "%n = ", but for regions and loc. */
static void line_text(P *p, Node *n)
{
	switch (n->code) {
	case O_TENSOR: tensor(p, n); return;
	case O_SCATTER: scatter(p, n); return;
	case O_CONST:
		fputs("const ", p->f);
		type_text(p, n->type);
		data_text(p, n->data, n->type->dtype);
		return;
	case O_GRAPH:
		fprintf(p->f, "%s%s", core_name(n->op->name) ? "op." : "", n->op->name);
		break;
	case O_HOST:
		fputs("host ", p->f);
		quoted(p->f, n->name ? n->name : "", '"');
		break;
	default: fputs(n->op->name, p->f);
	}
	if (n->n)
		fprintf(p->f, "<%lld>", (long long)n->n);
	int nin = n->nin;
	while (n->code == O_GRAPH && nin && !n->in[nin - 1])   /* padded by the row */
		nin--;
	operands(p, n->in, nin);
	attrs(p, n);
	fputs(" : ", p->f);
	type_text(p, n->type);
}

static void range(P *p, Node *s)
{
	fprintf(p->f, "%lld..%lld", (long long)s->lo, (long long)s->hi);
}

static void symbol(P *p, Node *s)
{
	fputs("sym ", p->f);
	sym_name(p->f, s->name);
	fputs(" : ", p->f);
	range(p, s);
}

static void line(P *p, Walk *w, Node *n)
{
	nl(p);
	if (n->code == O_SYM) {
		p->naxis = p->nlet = p->ncarry = 0;
		symbol(p, n);
		fputs(" = ", p->f);
		full_expr(p, n->def);
		return;
	}
	if (n->type->kind == T_SCALAR) {
		char *s = arena_printf(p->m->arena, "%%%d", p->nvalue++);
		p->naxis = p->nlet = p->ncarry = 0;
		fprintf(p->f, "let %s = ", s);
		full_expr(p, n);
		map_put(&p->name, n, s);
		return;
	}
	const char *s = arena_printf(p->m->arena, "%%%d", p->nvalue++);
	fprintf(p->f, "%s = ", s);
	line_text(p, n);
	regions(p, w, n);
	loc(p, n->loc);
	map_put(&p->name, n, (void *)s);
}

static void region_lines(P *p, Walk *w, Region *r)
{
	for (int i = 0; i < w->list.n; i++) {
		Node *n = w->list.at[i];
		if (is_line(p, n) && map_get(&p->home, n) == r)
			line(p, w, n);
	}
}

static int by_id(const void *a, const void *b)
{
	const Node *x = *(Node *const *)a, *y = *(Node *const *)b;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* In the order in which they were made, unless a node needs a later one. */
static void order(P *p, Walk *w)
{
	bool ok = true;
	for (int i = 0; i < w->list.n && ok; i++) {
		Node *n = w->list.at[i];
		needs(p, n, &w->needs);
		for (int k = 0; k < w->needs.n; k++)
			ok = ok && w->needs.at[k]->id <= n->id;
		for (int r = 0; r < n->nregions; r++)
			for (int k = 0; k < n->regions[r]->nresults; k++)
				if (n->regions[r]->results[k])
					ok = ok && view(p, n->regions[r]->results[k])->id <= n->id;
	}
	if (ok)
		qsort(w->list.at, (size_t)w->list.n, sizeof *w->list.at, by_id);
}

/* ---- the head ------------------------------------------------------------------------------ */

static void symbols(P *p, Walk *w)
{
	for (int i = 0; i < w->list.n; i++) {
		Node *s = w->list.at[i];
		if (s->code != O_SYM || unknown(s) || stands_for(p, s))
			continue;
		nl(p);
		symbol(p, s);
		bool first = true;
		for (int k = 0; k < p->m->symdefs.n; k++) {
			SymDef *d = p->m->symdefs.at[k];
			if (d->sym != s)
				continue;
			fputs(first ? " = dim(" : ", dim(", p->f);
			if (d->input >= 0 && d->input < p->m->main->nparams)
				value(p, p->m->main->params[d->input]);
			fprintf(p->f, ", %d)", d->axis);
			first = false;
		}
		for (int k = 0; k < p->m->loopsyms.n; k++) {
			LoopSym *d = p->m->loopsyms.at[k];
			if (d->sym == s)
				fprintf(p->f, " = result(%d, %d)", d->result, d->axis);
		}
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorted, since operators make theirs again in an order of their own. Those about values that this
 * level does not show are left out: making the operators makes them. */
static void requirements(P *p)
{
	char **text = grow(NULL, sizeof *text * (size_t)p->m->requires.n);
	int n = 0;
	for (int i = 0; i < p->m->requires.n; i++) {
		Require *r = p->m->requires.at[i];
		FILE *out = p->f;
		size_t len;
		if (hidden(p, r->cond))
			continue;
		p->f = open_memstream(&text[n++], &len);
		if (!p->f)
			abort();
		p->naxis = p->nlet = p->ncarry = 0;
		fputs("require ", p->f);
		expr(p, r->cond, 0);
		fputs(" : ", p->f);
		quoted(p->f, r->message, '"');
		loc(p, r->loc);
		fclose(p->f);
		p->f = out;
	}
	qsort(text, (size_t)n, sizeof *text, by_text);
	for (int i = 0; i < n; i++) {
		if (!i || strcmp(text[i], text[i - 1])) {
			nl(p);
			fputs(text[i], p->f);
		}
	}
	for (int i = 0; i < n; i++)
		free(text[i]);
	free(text);
}

static void ledger(P *p)
{
	for (int i = 0; i < p->m->ledger.n; i++) {
		Ledger *l = p->m->ledger.at[i];
		nl(p);
		fputs("ledger ", p->f);
		quoted(p->f, l->what, '"');
		fputc(' ', p->f);
		quoted(p->f, l->cls, '"');
		fputc(' ', p->f);
		attr_double(p, l->error);
		loc(p, l->loc);
	}
}

static void head(P *p)
{
	static const char *const levels[] = { "graph", "tensor", "loop" };
	fputs("module ", p->f);
	quoted(p->f, p->m->name ? p->m->name : "", '"');
	fprintf(p->f, " %s", levels[p->level]);
	if (p->m->strict)
		fputs(" strict", p->f);
	if (p->m->machine) {
		fputs(" target ", p->f);
		quoted(p->f, p->m->machine->name, '"');
	}
	if (p->m->host) {
		fputs(" host ", p->f);
		quoted(p->f, p->m->host->name, '"');
	}
	fputc('\n', p->f);
}

/* ---- the main function --------------------------------------------------------------------- */

/* The model's name of the input, where the parameter's differs. */
static void input_name(P *p, int i)
{
	Node *n = p->m->main->params[i];
	const char *s = p->m->in_names ? p->m->in_names[i] : NULL;
	if (!s || (n->name && !strcmp(n->name, s)))
		return;
	fputs(" = ", p->f);
	quoted(p->f, s, '"');
}

static void output_name(P *p, int i)
{
	if (!p->m->out_names || !p->m->out_names[i])
		return;
	quoted(p->f, p->m->out_names[i], '"');
	fputs(" = ", p->f);
}

static void main_region(P *p, Walk *w)
{
	Region *r = p->m->main;
	nl(p);
	fputs("func main(", p->f);
	for (int i = 0; i < r->nparams; i++) {
		Node *n = r->params[i];
		if (i)
			fputs(", ", p->f);
		param(p, n);
		input_name(p, i);
	}
	fputs(") {", p->f);
	p->tabs++;
	region_lines(p, w, r);
	requirements(p);
	nl(p);
	fputs("return", p->f);
	for (int i = 0; i < r->nresults; i++) {
		fputs(i ? ", " : " ", p->f);
		output_name(p, i);
		value(p, r->results[i]);
	}
	p->tabs--;
	nl(p);
	fputs("}\n", p->f);
}

static void collect_head(P *p, Walk *w)
{
	Region *r = p->m->main;
	for (int i = 0; i < p->m->symdefs.n; i++)
		collect(p, w, ((SymDef *)p->m->symdefs.at[i])->sym);
	for (int i = 0; i < r->nparams; i++) {
		name_value(p, r->params[i]);
		collect(p, w, r->params[i]);
	}
}

static void finish(P *p, Walk *w)
{
	map_free(&w->seen);
	free(w->needs.at);
	map_free(&p->name);
	map_free(&p->home);
	map_free(&p->closed);
	free(p->syms.at);
	free(p->vals.at);
}

static void take_symbols(P *p, Walk *w)
{
	for (int i = 0; i < w->list.n; i++)
		if (((Node *)w->list.at[i])->code == O_SYM)
			name_take(&p->syms, ((Node *)w->list.at[i])->name);
}

static void print_tensors(P *p)
{
	Walk w = { 0 };
	Region *r = p->m->main;
	collect_head(p, &w);
	for (int i = 0; i < r->nresults; i++)
		collect(p, &w, r->results[i]);
	if (p->level == LEVEL_TENSOR)
		for (int i = 0; i < p->m->requires.n; i++)
			collect(p, &w, ((Require *)p->m->requires.at[i])->cond);
	place(p, &w);
	order(p, &w);
	take_symbols(p, &w);
	symbols(p, &w);
	ledger(p);
	main_region(p, &w);
	finish(p, &w);
}

/* ---- loop level ---------------------------------------------------------------------------- */

static const char *const space_names[] = { "global", "reg", "shared", "stack" };

static void buffer(P *p, Node *b)
{
	name_value(p, b);
	const char *s = map_get(&p->name, b);
	fputs(s, p->f);
	if (b->name && strcmp(s, value_text(p, b->name))) {
		fputc(' ', p->f);
		quoted(p->f, b->name, '"');
	}
	fprintf(p->f, ": %s %s [", dtypes[b->type->dtype].text, space_names[b->type->space]);
	for (int i = 0; i < b->nin; i++) {
		if (i)
			fputs(", ", p->f);
		if (unknown(b->in[i]) || hidden(p, b->in[i]))
			fputc('?', p->f);
		else
			expr(p, b->in[i], 0);
	}
	fputc(']', p->f);
}

static void statements(P *, const Region *);

static void braces(P *p, const Region *r)
{
	fputs(" {", p->f);
	p->tabs++;
	statements(p, r);
	p->tabs--;
	nl(p);
	fputc('}', p->f);
}

/* A value that later statements use by its number. */
static void numbered(P *p, Node *n, const char *prefix)
{
	fprintf(p->f, "%s%%%d = ", prefix, p->nvalue);
	map_put(&p->name, n, arena_printf(p->m->arena, "%%%d", p->nvalue++));
}

static void statement(P *p, Node *n)
{
	int saved = p->naxis;
	nl(p);
	switch (n->code) {
	case O_FOR:
		fprintf(p->f, "for %s (", for_names[n->n]);
		axes(p, n->in, 1, ")");
		braces(p, n->regions[0]);
		p->naxis = saved;
		break;
	case O_WHEN:
		fputs("when ", p->f);
		full_expr(p, n->in[0]);
		braces(p, n->regions[0]);
		if (n->nregions > 1) {
			fputs(" else", p->f);
			braces(p, n->regions[1]);
		}
		break;
	case O_WHILE:
		fputs("while", p->f);
		braces(p, n->regions[0]);
		break;
	case O_BREAK:
		fputs("break ", p->f);
		full_expr(p, n->in[0]);
		break;
	case O_STORE:
		fputs("store ", p->f);
		value(p, n->in[0]);
		fputc('[', p->f);
		for (int i = 1; i + 1 < n->nin; i++) {
			if (i > 1)
				fputs(", ", p->f);
			full_expr(p, n->in[i]);
		}
		fputs("] = ", p->f);
		full_expr(p, n->in[n->nin - 1]);
		break;
	case O_LET: {
		Node *e = n->in[0];
		fprintf(p->f, "let %%%d = ", p->nvalue);
		full_expr(p, e);
		map_put(&p->name, n, arena_printf(p->m->arena, "%%%d", p->nvalue++));
		break;
	}
	case O_CALL:
		numbered(p, n, "");
		fputs("call ", p->f);
		if (identifier(n->name))
			fputs(n->name, p->f);
		else
			quoted(p->f, n->name, '"');
		fputc('(', p->f);
		for (int i = 0; i < n->nin; i++) {
			if (i)
				fputs(", ", p->f);
			if (n->in[i]->type->kind == T_SCALAR)
				full_expr(p, n->in[i]);
			else
				value(p, n->in[i]);
		}
		fputc(')', p->f);
		break;
	case O_ALLOC:
		fputs("alloc ", p->f);
		buffer(p, n->in[0]);
		break;
	case O_BARRIER: fputs("barrier", p->f); break;
	default:
		fprintf(p->f, "// %s?", n->op->name);
	}
	loc(p, n->loc);
}

static void statements(P *p, const Region *r)
{
	for (int i = 0; i < r->nresults; i++)
		statement(p, r->results[i]);
}

static void kernel_head(P *p, Kernel *k)
{
	fputs("kernel ", p->f);
	quoted(p->f, k->name, '"');
	fputs(" (", p->f);
	for (int i = 0; i < k->nbufs; i++) {
		if (i)
			fputs(", ", p->f);
		if (k->writes && k->writes[i])
			fputs("out ", p->f);
		buffer(p, k->bufs[i]);
	}
	fputs(") (", p->f);
	for (int i = 0; i < k->nsyms; i++) {
		if (i)
			fputs(", ", p->f);
		sym_name(p->f, k->syms[i]->name);
		fputs(": ", p->f);
		range(p, k->syms[i]);
		if (k->args[i] == k->syms[i] || hidden(p, k->args[i]))
			continue;                      /* the plan has it */
		fputs(" = ", p->f);
		full_expr(p, k->args[i]);
	}
	fputs(") {", p->f);
}

static void kernel(P *p, Kernel *k)
{
	p->naxis = p->nlet = p->ncarry = 0;
	nl(p);
	kernel_head(p, k);
	p->tabs++;
	if (k->schedule) {
		nl(p);
		fputs("schedule ", p->f);
		quoted(p->f, k->schedule, '"');
	}
	if (k->grid[0] && !hidden(p, k->grid[0])) {
		nl(p);
		fputs("grid ", p->f);
		for (int i = 0; i < 3 && k->grid[i] && !hidden(p, k->grid[i]); i++) {
			if (i)
				fputs(", ", p->f);
			full_expr(p, k->grid[i]);
		}
	}
	if (k->block)
		nl(p), fprintf(p->f, "block %d", k->block);
	if (k->shared)
		nl(p), fprintf(p->f, "shared %lld", (long long)k->shared);
	if (k->scratch) {
		nl(p);
		fputs("scratch ", p->f);
		full_expr(p, k->scratch);
	}
	if (k->flops != 0 || k->bytes != 0) {
		nl(p);
		fputs("cost ", p->f);
		attr_double(p, k->flops);
		fputs(", ", p->f);
		attr_double(p, k->bytes);
	}
	for (int i = 0; i < k->nerrors; i++) {
		nl(p);
		fputs("error ", p->f);
		quoted(p->f, k->errors[i], '"');
	}
	if (k->loc) {
		nl(p);
		fputs("from", p->f);
		loc(p, k->loc);
	}
	nl(p);
	fputs("body", p->f);
	braces(p, k->body);
	p->tabs--;
	nl(p);
	fputc('}', p->f);
}

/* ---- the memory plan ----------------------------------------------------------------------- */

const char *const text_buf_classes[] = { [BUF_ARENA] = "arena", [BUF_INPUT] = "input",
	[BUF_OUTPUT] = "output", [BUF_WEIGHT] = "weight", [BUF_CONST] = "const", [BUF_HEAP] = "heap",
	[BUF_VIEW] = "view", [BUF_HOST] = "host", [BUF_VALUE] = "value", NULL };

static void payload(P *p, const Data *d, DType t)
{
	fprintf(p->f, " %s %lld", dtypes[t].text, (long long)d->count);
	data_text(p, d, t);
}

static void plan_buf(P *p, const PlanBuf *b)
{
	nl(p);
	fprintf(p->f, "buf %s %s", text_buf_classes[b->cls],
		b->dtype == DT_NONE ? "none" : dtypes[b->dtype].text);
	if (b->name) {
		fputc(' ', p->f);
		quoted(p->f, b->name, '"');
	}
	fprintf(p->f, " index %d alias %d life %u..%u size %lld at %lld", b->index, b->alias, b->first,
		b->last, (long long)b->size, (long long)b->offset);
	if (b->data) {
		fputs(" data", p->f);
		payload(p, b->data, b->dtype == DT_NONE ? DT_U8 : b->dtype);
	}
}

static void memory(P *p, const Plan *a)
{
	nl(p);
	fprintf(p->f, "memory %s %lld", a->is_static ? "static" : "dynamic", (long long)a->arena_bytes);
	if (a->formula) {
		fputc(' ', p->f);
		quoted(p->f, a->formula, '"');
	}
	fputs(" {", p->f);
	p->tabs++;
	for (int i = 0; i < a->nbufs; i++)
		plan_buf(p, &a->bufs[i]);
	for (int i = 0; i < a->ntexts; i++) {
		nl(p);
		fputs("text ", p->f);
		quoted(p->f, a->texts[i], '"');
	}
	for (int i = 0; a->in_buf && i < p->m->main->nparams; i++) {
		nl(p);
		fprintf(p->f, "in %d", a->in_buf[i]);
		if (a->in_default && a->in_default[i]) {
			fputs(" default", p->f);
			payload(p, a->in_default[i], p->m->main->params[i]->type->dtype);
		}
	}
	p->tabs--;
	nl(p);
	fputs("}\n", p->f);
}

/* What the statements use from outside: symbols, and large closed expressions. */
static void collect_statements(P *p, Walk *w, const Region *r)
{
	for (int i = 0; i < r->nresults; i++) {
		Node *n = r->results[i];
		for (int k = 0; k < n->nin; k++)
			collect(p, w, n->in[k]);
		for (int k = 0; k < n->nregions; k++)
			collect_statements(p, w, n->regions[k]);
	}
}

/* Types of outputs may read tensors, which this level does not show, but their symbols stand. */
static void collect_symbols(P *p, Walk *w, const Type *t)
{
	for (int i = 0; t->kind == T_TENSOR && i < t->rank; i++) {
		int n;
		Node **list = topo_scalar(t->dims[i], &n);
		for (int k = 0; k < n; k++)
			if (list[k]->code == O_SYM)
				collect(p, w, list[k]);
		free(list);
	}
	for (int i = 0; t->elem && i < t->rank; i++)
		collect_symbols(p, w, t->elem[i]);
}

static void print_loops(P *p)
{
	Walk w = { 0 };
	Region *r = p->m->main;
	collect_head(p, &w);
	for (int i = 0; i < p->m->kernels.n; i++) {
		Kernel *k = p->m->kernels.at[i];
		for (int j = 0; j < k->nsyms; j++) {
			collect(p, &w, k->syms[j]);
			if (!reads(k->args[j]))
				collect(p, &w, k->args[j]);
		}
		for (int j = 0; j < k->nbufs; j++)
			collect(p, &w, k->bufs[j]);
		collect_statements(p, &w, k->body);
	}
	if (p->m->plan)
		collect_statements(p, &w, p->m->plan);
	for (int i = 0; i < r->nresults; i++)
		collect_symbols(p, &w, r->results[i]->type);
	place(p, &w);
	order(p, &w);
	take_symbols(p, &w);
	symbols(p, &w);
	ledger(p);
	for (int i = 0; i < w.list.n; i++)
		if (is_line(p, w.list.at[i]))
			line(p, &w, w.list.at[i]);
	nl(p);
	fputs("func main(", p->f);
	for (int i = 0; i < r->nparams; i++) {
		if (i)
			fputs(", ", p->f);
		param(p, r->params[i]);
		input_name(p, i);
	}
	fputs(")", p->f);
	for (int i = 0; i < r->nresults; i++) {
		fputs(i ? ", " : " -> ", p->f);
		output_name(p, i);
		type_text(p, r->results[i]->type);
	}
	fputc('\n', p->f);
	for (int i = 0; i < p->m->kernels.n; i++) {
		kernel(p, p->m->kernels.at[i]);
		fputc('\n', p->f);
	}
	if (p->m->plan) {
		p->naxis = p->nlet = p->ncarry = 0;
		nl(p);
		fputs("plan", p->f);
		braces(p, p->m->plan);
		fputc('\n', p->f);
	}
	if (p->m->memory)
		memory(p, p->m->memory);
	finish(p, &w);
}

void module_print_data(Module *m, Level level, FILE *f, FILE *data, const char *data_name)
{
	P p = { .m = m, .level = level, .f = f, .data = data, .data_name = data_name };
	head(&p);
	if (level == LEVEL_LOOP)
		print_loops(&p);
	else
		print_tensors(&p);
}

void module_print(Module *m, Level level, FILE *f)
{
	module_print_data(m, level, f, NULL, NULL);
}

char *expr_print(Module *m, Node *e)
{
	char *text, *r;
	size_t n;
	P p = { .m = m, .loose = true, .f = open_memstream(&text, &n) };
	if (!p.f)
		abort();
	if (e->size > 400)
		fprintf(p.f, "(an expression of %u operations)", e->size);
	else
		expr(&p, e, 0);
	fclose(p.f);
	r = arena_printf(m->arena, "%s", text);
	free(text);
	map_free(&p.name);
	return r;
}
