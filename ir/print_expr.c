/*
 * Printing scalars: literals, infix operations, and lets for what is used twice, each in the
 * innermost loop common to its uses; deep expressions are cut by lets, so that nothing recurses
 * far.
 */
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/print.h"

enum { HEIGHT = 32 };

static void block(P *, Node *root, int scope);

void *pr_grow(void *p, size_t size)
{
	p = realloc(p, size ? size : 1);
	if (!p)
		abort();
	return p;
}

void pr_nl(P *p)
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
bool pr_name_take(Names *t, const char *s)
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
				pr_name_take(t, old.at[i]);
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

bool pr_name_has(const Names *t, const char *s)
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

bool pr_identifier(const char *s)
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

void pr_quoted(FILE *f, const char *s, char q)
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

void pr_sym_name(FILE *f, const char *s)
{
	if (pr_identifier(s) && !text_reserved(s) && !machine_made(s))
		fputs(s, f);
	else
		pr_quoted(f, s, '`');
}

const char *pr_value_text(P *p, const char *s)
{
	if (pr_identifier(s))
		return arena_printf(p->m->arena, "%%%s", s);
	char *text;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	if (!f)
		abort();
	fputc('%', f);
	pr_quoted(f, s, '"');
	fclose(f);
	s = arena_printf(p->m->arena, "%s", text);
	free(text);
	return s;
}

/* The node's own name if no other has it, else a number. */
void pr_name_value(P *p, Node *n)
{
	bool own = n->name && *n->name && pr_name_take(&p->vals, n->name);
	const char *s = own ? pr_value_text(p, n->name)
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
		if (!pr_name_has(&p->syms, s))
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

void pr_float_text(FILE *f, DType d, double v)
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
bool pr_plain_float(DType d, double v)
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
	if (!pr_plain_float(d, n.f)) {
		uint64_t u;
		memcpy(&u, &n.f, 8);
		fprintf(f, "%s#%llx", dtypes[d].text, (unsigned long long)u);
		return;
	}
	if (isnan(n.f))
		fputs("nan", f);
	else
		pr_float_text(f, d, n.f);
	if (d != DT_F32)
		fprintf(f, isfinite(n.f) ? "%s" : "_%s", dtypes[d].text);
}

static const char *infix_of(OpCode op, int *prec)
{
	const char *infix = op < O_NUM && op != O_NOT ? scalar_ops[op].infix : NULL;
	static const struct { const char *s; int prec; } rank[] = { { "|", 2 }, { "^", 3 },
		{ "&", 4 }, { "==", 5 }, { "!=", 5 }, { "<", 6 }, { "<=", 6 }, { "<<", 7 }, { ">>", 7 },
		{ "+", 8 }, { "-", 8 }, { "*", 9 }, { "/", 9 }, { "%", 9 } };
	if (!infix)
		return NULL;
	for (size_t i = 0; i < sizeof rank / sizeof *rank; i++)
		if (!strcmp(rank[i].s, infix))
			*prec = rank[i].prec;
	return infix;
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
		pr_expr(p, in[i], 0);
	}
}


void pr_value(P *p, Node *n)
{
	if (!n) {
		fputc('_', p->f);
		return;
	}
	n = pr_view(p, n);
	const char *s = map_get(&p->name, n);
	if (s) {
		fputs(s, p->f);
	} else if (n->code == O_RESULT) {
		pr_value(p, n->in[0]);
		fprintf(p->f, ".%lld", (long long)n->n);
	} else if (n->name) {
		fputs(pr_value_text(p, n->name), p->f);
	} else if (n->loc && n->loc->name) {
		fputs(pr_value_text(p, n->loc->name), p->f);
	} else {
		fprintf(p->f, "%%?%s", n->op->name);
	}
}

void pr_axes(P *p, Node *const *a, int n, const char *close)
{
	for (int i = 0; i < n; i++) {
		if (i)
			fputs(", ", p->f);
		Node *extent = a[i]->in[0];
		/* the extent stands outside the axis, but may use the ones before */
		const char *s = bind_axis(p, a[i]);
		fprintf(p->f, "%s: ", s);
		pr_expr(p, extent, 0);
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
	pr_axes(p, e->in, e->nin - 1, ") ");
	inner_block(p, e, e->in[e->nin - 1]);
	p->naxis = saved;
}

static void iter(P *p, Node *e)
{
	int saved = p->naxis;
	char *c = arena_printf(p->m->arena, "c%d", p->ncarry++);
	fputs("iter(", p->f);
	pr_axes(p, e->in, 1, ", ");
	fprintf(p->f, "%s = ", c);
	pr_expr(p, e->in[2], 0);
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
		pr_expr(p, e->in[0], 2);
		fputs(" ? ", p->f);
		pr_expr(p, e->in[1], 2);
		fputs(" : ", p->f);
		pr_expr(p, e->in[2], 1);
		if (prec > 1)
			fputc(')', p->f);
	} else if (op) {
		if (prec > own)
			fputc('(', p->f);
		pr_expr(p, e->in[0], own);
		fprintf(p->f, " %s ", op);
		pr_expr(p, e->in[1], own + 1);
		if (prec > own)
			fputc(')', p->f);
	} else if ((e->code == O_NEG || e->code == O_NOT) && e->in[0]->code != O_NUM) {
		fputc(e->code == O_NEG ? '-' : '!', p->f);
		pr_expr(p, e->in[0], 10);
	} else {
		if (e->code == O_BITS)
			fprintf(p->f, "bits.");
		fprintf(p->f, "%s(", e->code == O_CAST || e->code == O_BITS
			? dtypes[e->type->dtype].text : e->op->name);
		list(p, e->in, e->nin);
		fputc(')', p->f);
	}
}

void pr_expr(P *p, Node *e, int prec)
{
	const char *s = map_get(&p->name, e);
	if (s) {
		fputs(s, p->f);
		return;
	}
	switch (e->code) {
	case O_NUM: text_num(p->f, e->type->dtype, e->num); break;
	case O_SYM: pr_sym_name(p->f, e->name); break;
	case O_AXIS: case O_CARRY:
		fprintf(p->f, "%s?%lld", e->op->name, (long long)e->n);      /* out of scope: a bug */
		break;
	case O_READ: case O_LOAD:
		pr_value(p, e->in[0]);
		fputc('[', p->f);
		list(p, e->in + 1, e->nin - 1);
		fputc(']', p->f);
		break;
	case O_FOLD:
		fprintf(p->f, "fold %s ", comb_names[e->n]);
		pr_value(p, e->in[0]);
		fputc('[', p->f);
		for (int i = 2; i < e->nin; i++) {
			pr_expr(p, e->in[i], 0);
			fputs(", ", p->f);
		}
		fputs("*](", p->f);
		pr_expr(p, e->in[1]->in[0], 0);
		if (e->num.i > 1)
			fprintf(p->f, " by %lld", (long long)e->num.i);
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
	Frame *stack = pr_grow(NULL, sizeof *stack * 64);
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
				p->list = pr_grow(p->list, sizeof *p->list * (size_t)(room = room ? room * 2 : 16));
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
			stack = pr_grow(stack, sizeof *stack * (size_t)(cap *= 2));
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
	p->scopes = pr_grow(p->scopes, sizeof *p->scopes * (size_t)(p->nscopes + 1));
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
		pr_expr(p, root, 0);
		fputc(' ', p->f);
		return;
	}
	p->tabs++;
	for (int i = 0; i < p->count; i++) {
		Node *e = p->list[i];
		if (!map_get(&p->let, e) || (int)(intptr_t)map_get(&p->scope, e) - 1 != scope)
			continue;
		char *s = arena_printf(p->m->arena, "t%d", p->nlet++);
		pr_nl(p);
		fprintf(p->f, "let %s = ", s);
		pr_expr(p, e, 0);
		fputc(';', p->f);
		map_put(&p->name, e, s);
	}
	pr_nl(p);
	pr_expr(p, root, 0);
	p->tabs--;
	pr_nl(p);
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
void pr_full_expr(P *p, Node *e)
{
	int nlet = p->nlet;
	analyse(p, e);
	if (has_lets(p, 0)) {
		fputs("{", p->f);
		block(p, e, 0);
		fputs("}", p->f);
	} else {
		pr_expr(p, e, 0);
	}
	forget(p);
	p->nlet = nlet;
}

void pr_body_expr(P *p, Node *e)
{
	int nlet = p->nlet;
	analyse(p, e);
	fputc('{', p->f);
	block(p, e, 0);
	fputc('}', p->f);
	forget(p);
	p->nlet = nlet;
}
