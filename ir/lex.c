/* Reading text: errors with their place, tokens, tables of names. */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ir/parse.h"

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

_Noreturn void ps_bad(P *p, const char *fmt, ...)
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

void ps_deeper(P *p)
{
	if (++p->depth > MAX_DEPTH)
		ps_bad(p, "nested too deeply");
}

/* ---- tokens -------------------------------------------------------------------------------- */

static const char *cut(P *p, const char *b, const char *e)
{
	char *s = arena_alloc(p->m->arena, (size_t)(e - b) + 1);
	memcpy(s, b, (size_t)(e - b));
	return s;
}

bool ps_word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

int ps_hex_digit(char c)
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
		ps_bad(p, "a text without end");
	char *r = arena_alloc(p->m->arena, (size_t)(e - p->s) + 1), *w = r;
	for (const char *s = p->s; s < e; s++) {
		if (*s != '\\') {
			*w++ = *s;
		} else if (*++s == 'n') {
			*w++ = '\n';
		} else if (*s == 'x') {
			int a = s + 2 < e ? ps_hex_digit(s[1]) : -1, b = a < 0 ? -1 : ps_hex_digit(s[2]);
			if (b < 0 || a * 16 + b == 0)
				ps_bad(p, "\\x takes two digits");
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
	for (b = s; ps_word_char(*s); s++)
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
	while (ps_word_char(*p->s))
		p->s++;
	if (p->s == b)
		ps_bad(p, "a value's name is expected after %%");
	p->str = (char *)cut(p, b, p->s);
}

void ps_next(P *p)
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
		while (ps_word_char(*p->s) || (*p->s == '.' && isalpha((unsigned char)p->s[1])))
			p->s++;
		p->str = (char *)cut(p, b, p->s);
		p->tok = T_WORD;
	} else if (isdigit((unsigned char)*b)) {
		lex_number(p);
	} else if (*b == '%' && (ps_word_char(b[1]) || b[1] == '"')) {
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

bool ps_is(P *p, const char *s)
{
	return (p->tok == T_PUNCT && !strcmp(p->punct, s)) || (p->tok == T_WORD && !strcmp(p->str, s));
}

bool ps_eat(P *p, const char *s)
{
	if (!ps_is(p, s))
		return false;
	ps_next(p);
	return true;
}

void ps_want(P *p, const char *s)
{
	if (!ps_eat(p, s))
		ps_bad(p, "'%s' is expected", s);
}

const char *ps_word(P *p, const char *what)
{
	if (p->tok != T_WORD)
		ps_bad(p, "%s is expected", what);
	const char *s = p->str;
	ps_next(p);
	return s;
}

const char *ps_string(P *p)
{
	if (p->tok != T_STR)
		ps_bad(p, "a text in quotes is expected");
	const char *s = intern(p->m, p->str);
	ps_next(p);
	return s;
}

/* The token's digits as an integer of 64 bits; u64 wraps into the sign. */
int64_t ps_digits(P *p, bool minus, bool uns)
{
	char *end;
	uint64_t v = 0;
	for (end = p->str; isdigit((unsigned char)*end); end++) {
		uint64_t d = (uint64_t)(*end - '0');
		if (v > (UINT64_MAX - d) / 10)
			ps_bad(p, "%s is too large", p->str);
		v = v * 10 + d;
	}
	if (*end)
		ps_bad(p, "an integer is expected");
	if (!uns && v > (uint64_t)INT64_MAX + minus)
		ps_bad(p, "%s is too large", p->str);
	return (int64_t)(minus ? -v : v);
}

int64_t ps_integer(P *p)
{
	bool minus = ps_eat(p, "-");
	if (p->tok != T_NUM || p->is_float || p->suffix)
		ps_bad(p, "an integer is expected");
	int64_t v = ps_digits(p, minus, false);
	ps_next(p);
	return v;
}

int ps_small(P *p, int64_t lo, int64_t hi)
{
	const char *at = p->start;
	int64_t v = ps_integer(p);
	if (v < lo || v > hi) {
		p->start = at;
		ps_bad(p, "%lld is not in %lld..%lld", (long long)v, (long long)lo, (long long)hi);
	}
	return (int)v;
}

DType ps_dtype(P *p)
{
	DType d = p->tok == T_WORD ? dtype_parse(p->str) : DT_NONE;
	if (d == DT_NONE)
		ps_bad(p, "an element type is expected");
	ps_next(p);
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

Node *ps_lookup(P *p, const Table *t, const char *name)
{
	return t->cap ? t->val[slot(t, intern(p->m, name))] : NULL;
}

void ps_enter(P *p, Table *t, const char *name, Node *n)
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
		ps_bad(p, "%s is defined twice", name);
	t->n++;
	t->key[i] = intern(p->m, name);
	t->val[i] = n;
}

void ps_push_local(P *p, const char *name, Node *n)
{
	if (p->nlocals == p->caplocals) {
		p->caplocals = p->caplocals ? p->caplocals * 2 : 32;
		p->locals = realloc(p->locals, sizeof *p->locals * (size_t)p->caplocals);
		if (!p->locals)
			abort();
	}
	p->locals[p->nlocals++] = (Local){ name, n };
}

Node *ps_find_local(P *p, const char *name)
{
	for (int i = p->nlocals; i-- > 0;)
		if (!strcmp(p->locals[i].name, name))
			return p->locals[i].n;
	return NULL;
}

void ps_append(P *p, Nodes *v, Node *n)
{
	if (v->n == MAX_LIST)
		ps_bad(p, "too many operands");
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
