/* The table of rules, and the parser of patterns: body.c's language, read as what to look for. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "rules.h"

const char *const rule_classes[] = {"exact", "real"};

const Rule rules[] = {
#define EXACT(name, pattern, replacement, condition, samples) \
	{name, RULE_EXACT, 0, pattern, replacement, condition, samples},
#define REAL(name, ulp, pattern, replacement, condition, samples) \
	{name, RULE_REAL, ulp, pattern, replacement, condition, samples},
#include "rules.def"
#undef EXACT
#undef REAL
	{0}
};

/* Operands in either order give the same bits; associative: over the reals in any grouping. */
static const struct { const char *op; bool associative; } commuting[] = {
	{"add", true}, {"mul", true}, {"and", false}, {"or", false}, {"xor", false},
	{"equal", false},
};

bool
op_commutes(const Op *op, bool *associative)
{
	size_t i;

	for (i = 0; i < sizeof commuting / sizeof *commuting; i++)
		if (strcmp(commuting[i].op, op->name) == 0) {
			*associative = commuting[i].associative;
			return true;
		}
	return false;
}

/* ---- parsing -------------------------------------------------------------------------------- */

typedef struct Let { const char *name; int len; Pat *pat; } Let;

typedef struct Reader {
	Module *m;
	Pattern *r;
	const char *p;
	bool bad;
	int nlets;
	Let let[MAX_PAT_ARGS];
} Reader;

static Pat *sum(Reader *);

static Pat *
wrong(Reader *p, const char *what)
{
	if (!p->bad)
		diag_error(p->m->diag, X_BUG, NULL, "rule %s: %s at '%.24s'", p->r->rule->name,
			what, p->p);
	p->bad = true;
	return NEW(p->m, Pat);
}

static void
blank(Reader *p)
{
	while (isspace((unsigned char)*p->p))
		p->p++;
}

static bool
eat(Reader *p, const char *s)
{
	size_t n = strlen(s);

	blank(p);
	if (strncmp(p->p, s, n))
		return false;
	p->p += n;
	return true;
}

static int
word(Reader *p, const char **s)
{
	blank(p);
	for (*s = p->p; isalnum((unsigned char)*p->p) || *p->p == '_'; p->p++)
		;
	return (int)(p->p - *s);
}

/* The slot of a name, made at its first use. */
static int
slot(Reader *p, const char *s, int len)
{
	Pattern *r = p->r;
	int i;

	for (i = 0; i < r->nslots; i++)
		if (r->len[i] == len && memcmp(r->name[i], s, (size_t)len) == 0)
			return i;
	if (len == 0 || r->nslots == MAX_SLOTS) {
		wrong(p, "a name is expected");
		return 0;
	}
	r->name[r->nslots] = s;
	r->len[r->nslots] = len;
	return r->nslots++;
}

static Pat *
make(Reader *p, Pat t)
{
	return arena_dup(p->m->arena, &t, sizeof t);
}

static Pat *
call_of(Reader *p, const char *s, int len)
{
	Pat t = {.kind = PAT_CALL, .rest = -1, .id = p->r->ncalls++};
	char *name = arena_printf(p->m->arena, "%.*s", len, s);

	t.op = op_find(name);
	if (!t.op || p->r->ncalls > MAX_PATS)
		return wrong(p, "an operator is expected");
	return make(p, t);
}

static Pat *
infix(Reader *p, const char *op, Pat *a, Pat *b)
{
	Pat *t = call_of(p, op, (int)strlen(op));

	t->nargs = 2;
	t->arg[0] = a;
	t->arg[1] = b;
	return t;
}

static Value
ints_value(Reader *p)
{
	int64_t v[MAX_PAT_ARGS];
	char *end;
	int n = 0;

	while (!eat(p, "]") && n < MAX_PAT_ARGS && !p->bad) {
		v[n++] = strtoll(p->p, &end, 10);
		if (end == p->p)
			wrong(p, "an integer is expected");
		p->p = end;
		eat(p, ",");
	}
	return (Value){.k = V_INTS, .count = n, .is = arena_dup(p->m->arena, v, sizeof v)};
}

/* name=value: a name takes the value, a literal is asked for. */
static PatAttr
attribute(Reader *p, const char *name)
{
	PatAttr a = {name, -1, {0}};
	const char *s;
	char *end;
	int len;

	if (eat(p, "[")) {
		a.v = ints_value(p);
	} else if (eat(p, "\"")) {
		s = p->p;
		p->p += strcspn(s, "\"");
		a.v.k = V_STR;
		a.v.s = arena_printf(p->m->arena, "%.*s", (int)(p->p - s), s);
		p->p += *p->p != 0;
	} else if (blank(p), isdigit((unsigned char)*p->p) || *p->p == '-') {
		a.v = (Value){.k = V_INT, .i = strtoll(p->p, &end, 10), .f = strtod(p->p, NULL)};
		p->p = end;
	} else {
		len = word(p, &s);
		a.slot = slot(p, s, len);
	}
	return a;
}

/* Does "name =" follow? */
static bool
starts_assignment(Reader *p)
{
	const char *s = p->p, *name;
	bool yes;

	word(p, &name);
	blank(p);
	yes = isalpha((unsigned char)*name) && *p->p == '=';
	p->p = s;
	return yes;
}

static Pat *
operation(Reader *p, const char *s, int len)
{
	Pat *t = call_of(p, s, len);
	const char *name;

	while (!p->bad && !eat(p, ")")) {
		if (t->nargs == MAX_PAT_ARGS || t->nattrs == MAX_PAT_ARGS)
			return wrong(p, "fewer operands are expected");
		if (eat(p, "..")) {
			len = word(p, &s);
			t->rest = slot(p, s, len);
		} else if (starts_assignment(p)) {
			len = word(p, &s);
			name = arena_printf(p->m->arena, "%.*s", len, s);
			eat(p, "=");
			t->attr[t->nattrs++] = attribute(p, name);
		} else {
			t->arg[t->nargs++] = sum(p);
		}
		if (!eat(p, ",") && *p->p != ')')
			return wrong(p, "')' is expected");
	}
	return t;
}

static Pat *
name(Reader *p, const char *s, int len)
{
	int i;

	for (i = 0; i < p->nlets; i++)
		if (p->let[i].len == len && memcmp(p->let[i].name, s, (size_t)len) == 0)
			return p->let[i].pat;
	return make(p, (Pat){.kind = isupper((unsigned char)*s) ? PAT_KNOWN : PAT_ANY,
		.slot = slot(p, s, len), .optional = eat(p, "?")});
}

static Pat *
atom(Reader *p)
{
	const char *s;
	char *end;
	double f;
	Pat *t;
	int len;

	blank(p);
	if (isdigit((unsigned char)*p->p) || (*p->p == '-' && isdigit((unsigned char)p->p[1]))) {
		f = strtod(p->p, &end);
		p->p = end;
		return make(p, (Pat){.kind = PAT_NUM, .num = f, .about = eat(p, "~")});
	}
	if (eat(p, "(")) {
		t = sum(p);
		return eat(p, ")") ? t : wrong(p, "')' is expected");
	}
	if (eat(p, "-")) {
		t = call_of(p, "neg", 3);
		t->nargs = 1;
		t->arg[0] = atom(p);
		return t;
	}
	len = word(p, &s);
	if (!len)
		return wrong(p, "a value is expected");
	return eat(p, "(") ? operation(p, s, len) : name(p, s, len);
}

static Pat *
product(Reader *p)
{
	Pat *t = atom(p);

	while (!p->bad)
		if (eat(p, "*")) t = infix(p, "mul", t, atom(p));
		else if (eat(p, "/")) t = infix(p, "div", t, atom(p));
		else break;
	return t;
}

static Pat *
sum(Reader *p)
{
	Pat *t = product(p);

	while (!p->bad)
		if (eat(p, "+")) t = infix(p, "add", t, product(p));
		else if (eat(p, "-")) t = infix(p, "sub", t, product(p));
		else break;
	return t;
}

/* name = pattern; */
static void
let(Reader *p)
{
	Let *l = &p->let[p->nlets];

	l->len = word(p, &l->name);
	eat(p, "=");
	l->pat = sum(p);
	l->pat->shared = true;
	if (!eat(p, ";") || ++p->nlets == MAX_PAT_ARGS)
		wrong(p, "';' is expected");
}

Pattern *
pattern_parse(Module *m, const Rule *rule)
{
	Reader p = {.m = m, .r = NEW(m, Pattern), .p = rule->pattern};

	p.r->rule = rule;
	while (!p.bad && starts_assignment(&p))
		let(&p);
	p.r->root = sum(&p);
	blank(&p);
	if (*p.p || p.r->root->kind != PAT_CALL)
		wrong(&p, "an operator is expected");
	return p.bad ? NULL : p.r;
}
