/*
 * Graph operators: the table of rows, their signatures, and the one constructor.
 *
 * A signature: "(x: float, slope: x?, rest: any*) {alpha: float = 0.01, axes: ints?, to: int} -> y,
 * mask?" Operand types: any, num, float, int, sint, uint, bool, string, idx (i32, i64), a dtype's
 * name, seq, optional, map, or the name of an earlier operand (the same dtype); alternatives by |.
 * After it: ? may be absent, * any number (last only). Attribute kinds: int, float, str, ints,
 * floats, strs, tensor, region, type; with a default, or ? for none, else required. Results: names;
 * ? not always asked for, * any number.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "ir.h"

/* ---- the table ------------------------------------------------------------------------------- */

const Op *
op_next(const Op *op)
{
	int f;

	if (!op)
		return op_families[0] && op_families[0]->name ? op_families[0] : NULL;
	if (op[1].name)
		return op + 1;
	for (f = 0; op_families[f]; f++)
		if (op >= op_families[f] && op <= op_families[f] + 4096) {
			const Op *p = op_families[f];
			while (p->name && p != op)
				p++;
			if (p->name)
				break;
		}
	for (f++; op_families[f - 1] && op_families[f]; f++)
		if (op_families[f]->name)
			return op_families[f];
	return NULL;
}

const Op *
op_find(const char *name)
{
	const Op *op;
	int f;

	for (f = 0; op_families[f]; f++)
		for (op = op_families[f]; op->name; op++)
			if (strcmp(op->name, name) == 0)
				return op;
	return NULL;
}

const Op *
library_find(const Module *m, const char *name, const Op *before)
{
	int i;

	for (i = 0; i < m->library.n && m->library.at[i] != before; i++)
		if (strcmp(((const Op *)m->library.at[i])->name, name) == 0)
			return m->library.at[i];
	return op_find(name);
}

const Op *
library_find_onnx(const Module *m, const char *domain, const char *type)
{
	const Op *op;
	size_t n = strlen(domain);
	int i;

	for (i = 0; i < m->library.n; i++) {
		op = m->library.at[i];
		if (strncmp(op->onnx, domain, n) == 0 && op->onnx[n] == ':'
		 && strcmp(op->onnx + n + 1, type) == 0)
			return op;
	}
	return NULL;
}

const Op *
op_find_onnx(const char *domain, const char *type)
{
	const Op *op;
	const char *t, *colon;
	size_t n;
	int f;

	if (!domain || strcmp(domain, "ai.onnx") == 0)
		domain = "";
	for (f = 0; op_families[f]; f++)
		for (op = op_families[f]; op->name; op++) {
			if (!op->onnx)
				continue;
			colon = strchr(op->onnx, ':');
			t = colon ? colon + 1 : op->onnx;
			n = colon ? (size_t)(colon - op->onnx) : 0;
			if (strcmp(t, type) == 0 && strlen(domain) == n && memcmp(domain, op->onnx, n) == 0)
				return op;
		}
	return NULL;
}

/* ---- signatures ------------------------------------------------------------------------------ */

typedef struct Scan {
	const char *s;
	Arena *arena;          /* NULL: a row's signature, which is never freed */
	bool wrong;
} Scan;

static void *
keep(Scan *p, const void *bytes, size_t size)
{
	return p->arena ? arena_dup(p->arena, bytes, size) : memcpy(calloc(1, size + 1), bytes, size);
}

static void
blank(Scan *p)
{
	while (isspace((unsigned char)*p->s))
		p->s++;
}

static bool
eat(Scan *p, char c)
{
	blank(p);
	if (*p->s != c)
		return false;
	p->s++;
	return true;
}

static char *
word(Scan *p, const char *more)
{
	const char *b;

	blank(p);
	for (b = p->s; isalnum((unsigned char)*p->s) || *p->s == '_' || (*p->s && strchr(more, *p->s));
		p->s++)
		;
	if (p->arena)
		return arena_printf(p->arena, "%.*s", (int)(p->s - b), b);
	return strndup(b, (size_t)(p->s - b));
}

static int
operands(Scan *p, SigOperand *v, char end)
{
	int n = 0;

	while (blank(p), *p->s && *p->s != end && n < 64) {
		v[n].name = word(p, "");
		v[n].types = eat(p, ':') ? word(p, "|") : "any";
		v[n].optional = eat(p, '?');
		v[n].variadic = eat(p, '*');
		n++;
		if (!eat(p, ','))
			break;
	}
	return n;
}

static AttrKind
attr_kind(Scan *p, const char *s)
{
	static const char *const names[] = {"int", "float", "str", "ints", "floats", "strs", "tensor",
		"region", "type"};
	int i;

	for (i = 0; i < 9; i++)
		if (strcmp(s, names[i]) == 0)
			return (AttrKind)i;
	p->wrong = true;
	return A_INT;
}

static void
default_value(Scan *p, SigAttr *a)
{
	int64_t v[8];
	char *end;
	int n = 0;

	a->has_default = true;
	a->value.kind = a->kind;
	blank(p);
	switch (a->kind) {
	case A_INT: a->value.i = strtoll(p->s, &end, 0); p->s = end; break;
	case A_FLOAT: a->value.f = strtof(p->s, &end); p->s = end; break;
	case A_STR:
		eat(p, '"');
		a->value.s = word(p, "-., ");
		eat(p, '"');
		break;
	case A_INTS:
		eat(p, '[');
		while (blank(p), *p->s && *p->s != ']' && n < 8) {
			v[n++] = strtoll(p->s, &end, 0);
			p->s = end;
			eat(p, ',');
		}
		eat(p, ']');
		a->value.is = keep(p, v, sizeof *v * (size_t)n);
		a->value.n = n;
		break;
	default: p->wrong = true;
	}
}

/* The signature of a row's text; p->wrong if it is none. */
static Sig *
signature(Scan *p)
{
	SigOperand in[65] = {0}, out[65] = {0};      /* one more than is read */
	SigAttr attrs[65] = {0};
	Sig s = {0};
	char *kind;
	int i;

	p->wrong |= !eat(p, '(');
	s.nin = operands(p, in, ')');
	p->wrong |= !eat(p, ')');
	if (eat(p, '{')) {
		while (blank(p), *p->s && *p->s != '}' && s.nattrs < 64 && !p->wrong) {
			SigAttr *a = &attrs[s.nattrs++];
			a->name = word(p, "");
			eat(p, ':');
			kind = word(p, "");
			a->kind = attr_kind(p, kind);
			if (!p->arena)
				free(kind);
			a->required = !eat(p, '?');
			if (eat(p, '=')) {
				a->required = false;
				default_value(p, a);
			}
			eat(p, ',');
		}
		p->wrong |= !eat(p, '}');
	}
	blank(p);
	if (p->s[0] == '-' && p->s[1] == '>')
		p->s += 2;
	s.nout = operands(p, out, 0);
	for (i = 0; i < s.nout; i++) {
		s.variadic_out |= out[i].variadic;
		if (!out[i].optional && !out[i].variadic)
			s.min_out = i + 1;
	}
	s.in = keep(p, in, sizeof *in * (size_t)(s.nin + 1));
	s.out = keep(p, out, sizeof *out * (size_t)(s.nout + 1));
	s.attrs = keep(p, attrs, sizeof *attrs * (size_t)(s.nattrs + 1));
	return keep(p, &s, sizeof s);
}

const Sig *
op_sig(const Op *op)
{
	/* rows are constants: so are their signatures */
	static struct { const Op *op; Sig *sig; } memo[4096];
	uint32_t h = (uint32_t)((uintptr_t)op >> 4) * 2654435761u >> 20;
	Scan p = {op->sig, NULL, false};

	if (op->parsed)
		return op->parsed;
	for (; memo[h & 4095].op; h++)
		if (memo[h & 4095].op == op)
			return memo[h & 4095].sig;
	memo[h & 4095].sig = signature(&p);
	memo[h & 4095].op = op;
	if (p.wrong)
		abort();                             /* a mistake in a row */
	return memo[h & 4095].sig;
}

Sig *
sig_parse(Module *m, const char *text)
{
	Scan p = {text, m->arena, false};
	Sig *s = signature(&p);

	blank(&p);
	return p.wrong || *p.s || s->nout == 0 ? NULL : s;
}

/* ---- checking -------------------------------------------------------------------------------- */

static bool
type_fits(const char *set, size_t n, const Type *t)
{
	static const struct { const char *name, *classes; } sets[] = {
		{"num", "IUF"}, {"float", "F"}, {"int", "IU"}, {"sint", "I"}, {"uint", "U"}, {"bool", "B"},
			{"string", "S"},
		{"data", "BIUFCS"},
	};
	DType d = t->dtype;
	char cls = dtypes[d].cls;
	size_t i;

	if (n == 3 && memcmp(set, "any", 3) == 0)
		return true;
	if (n == 3 && memcmp(set, "seq", 3) == 0)
		return t->kind == T_SEQ;
	if (n == 3 && memcmp(set, "map", 3) == 0)
		return t->kind == T_MAP;
	if (n == 8 && memcmp(set, "optional", 8) == 0)
		return t->kind == T_OPTIONAL;
	if (t->kind != T_TENSOR)
		return false;
	if (n == 3 && memcmp(set, "idx", 3) == 0)
		return d == DT_I32 || d == DT_I64;
	for (i = 0; i < sizeof sets / sizeof *sets; i++)
		if (strlen(sets[i].name) == n && memcmp(set, sets[i].name, n) == 0)
			return strchr(sets[i].classes, cls) != NULL;
	return strlen(dtypes[d].text) == n && memcmp(set, dtypes[d].text, n) == 0;
}

static bool
operand_fits(const Sig *s, int k, Node *const *in, const Type *t)
{
	const char *p = s->in[k].types, *e;
	int i;

	for (;; p = e + 1) {
		e = p + strcspn(p, "|");
		for (i = 0; i < k; i++)
			if (strlen(s->in[i].name) == (size_t)(e - p) &&
					memcmp(s->in[i].name, p, (size_t)(e - p)) == 0) {
				if (!in[i] || (in[i]->type->dtype == t->dtype && in[i]->type->kind == t->kind))
					return true;
				break;
			}
		if (i == k && type_fits(p, (size_t)(e - p), t))
			return true;
		if (!*e)
			return false;
	}
}

static const char *
type_text(const Type *t)
{
	static const char *const kinds[] = {"scalar", "tensor", "buffer", "tuple", "sequence",
		"optional", "map", "nothing"};

	return t->kind == T_TENSOR ? dtypes[t->dtype].text : kinds[t->kind];
}

static bool
check_operands(Build *b, const Sig *s)
{
	bool variadic = s->nin && s->in[s->nin - 1].variadic, ok = true;
	int i, k;

	if (b->nin > s->nin && !variadic) {
		fail(b, "%s has %d inputs, at most %d are allowed", b->op->name, b->nin, s->nin);
		return false;
	}
	for (i = 0; i < b->nin || i < s->nin; i++) {
		k = i < s->nin ? i : s->nin - 1;
		if (i >= b->nin || !b->in[i]) {
			if (!s->in[k].optional && !s->in[k].variadic) {
				fail(b, "input '%s' is missing", s->in[k].name);
				ok = false;
			}
		} else if (!operand_fits(s, k, b->in, b->in[i]->type)) {
			fail(b, "input '%s' has type %s, expected %s", s->in[k].name, type_text(b->in[i]->type),
				s->in[k].types);
			ok = false;
		}
	}
	return ok;
}

static bool
check_attrs(Build *b, const Sig *s)
{
	static const char *const names[] = {"INT", "FLOAT", "STRING", "INTS", "FLOATS", "STRINGS",
		"TENSOR", "GRAPH", "TYPE"};
	const Attr *a;
	bool ok = true;
	Attr v;
	int i;

	for (a = b->attrs; a; a = a->next) {
		for (i = 0; i < s->nattrs && strcmp(s->attrs[i].name, a->name); i++)
			;
		if (i == s->nattrs) {
			diag_error(b->m->diag, X_UNSUPPORTED, b->loc, "unknown attribute '%s'", a->name);
			ok = false;
		} else if (s->attrs[i].kind != a->kind) {
			fail(b, "%s.%s must be %s, is %s", b->loc && b->loc->type ? b->loc->type : b->op->name,
				a->name,
				names[s->attrs[i].kind], names[a->kind]);
			ok = false;
		}
	}
	for (i = 0; i < s->nattrs && ok; i++) {
		if (attr_find(b->attrs, s->attrs[i].name) || s->attrs[i].kind == A_REGION)
			continue;
		if (s->attrs[i].required) {
			fail(b, "required attribute '%s' is missing", s->attrs[i].name);
			ok = false;
		} else if (s->attrs[i].has_default) {
			v = s->attrs[i].value;
			v.name = s->attrs[i].name;
			b->attrs = attrs_add(b->m, b->attrs, v);
		}
	}
	return ok;
}

/* ---- the constructor ------------------------------------------------------------------------- */

Node *
graph_op(Module *m, const Op *op, int nin, Node *const *in, const Attr *attrs, int nout,
	int nregions,
	Region *const *regions, const Loc *loc)
{
	const Sig *s = op_sig(op);
	int n = nin > s->nin ? nin : s->nin, errors = m->diag->errors, first = m->requires.n, i;
	Build b = {.m = m, .op = op, .nin = nin, .attrs = attrs, .nregions = nregions,
		.regions = (Region **)regions,
		.nout = nout, .loc = loc};
	Node *r, *def;
	const Loc *outer;
	Require *needs;

	b.in = NEWN(m, Node *, n + 1);
	memcpy(b.in, in, sizeof *in * (size_t)nin);
	if (!check_operands(&b, s) || !check_attrs(&b, s))
		return NULL;
	r = node_make(m, (Node){.op = op, .nin = n, .in = b.in, .attrs = b.attrs, .nregions = nregions,
		.regions = b.regions, .n = s->variadic_out ? nout : 0, .loc = loc});
	if (r->def) {
		/* it may have been made within a branch, or in an attempt whose conditions were dropped */
		for (i = 0; i < r->nneeds; i++)
			require_again(m, &r->needs[i]);
		return r;
	}
	b.nin = n;
	outer = m->building;
	m->building = loc;
	def = op->build ? op->build(&b) : body_expand(&b);
	m->building = outer;
	if (!def || m->diag->errors != errors) {
		if (m->diag->errors == errors)
			fail(&b, "%s cannot be built", op->name);
		return NULL;
	}
	if (m->requires.n > first) {
		needs = NEWN(m, Require, m->requires.n - first);
		for (i = first; i < m->requires.n; i++)
			needs[r->nneeds++] = *(Require *)m->requires.at[i];
		r->needs = needs;
	}
	r->def = def;
	r->type = def->type;
	/* parts of a composition come from the same place */
	for (def = r->def; def; def = def->def)
		if (!def->loc && def->code != O_CONST)
			def->loc = loc;
	if (r->type->kind == T_TENSOR)
		infer_elems(m, r);
	return r;
}

static const Attr *
parse_attrs(Module *m, const Op *op, const char *text)
{
	const Sig *s = op_sig(op);
	const Attr *list = NULL;
	Scan p = {text, m->arena, false};
	char *name;
	SigAttr tmp;
	int i;

	while (text && (blank(&p), *p.s)) {
		name = word(&p, "");
		eat(&p, '=');
		for (i = 0; i < s->nattrs && strcmp(s->attrs[i].name, name); i++)
			;
		if (i == s->nattrs)
			abort();                             /* a mistake in a builder */
		tmp = (SigAttr){.kind = s->attrs[i].kind};
		default_value(&p, &tmp);
		tmp.value.name = name;
		list = attrs_add(m, list, tmp.value);
		eat(&p, ',');
	}
	return list;
}

Node *
call(Build *b, const char *name, int nin, Node *const *in, const char *attrs)
{
	const Op *op = op_find(name);
	Node *r;

	if (!op)
		return unsupported(b, "needs operator '%s', which is not there", name);
	r = graph_op(b->m, op, nin, in, parse_attrs(b->m, op, attrs), 1, 0, NULL, b->loc);
	return r && r->type->kind == T_TUPLE ? t_result(b->m, r, 0) : r;
}

Node *
fail(Build *b, const char *fmt, ...)
{
	char text[900];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	diag_error(b->m->diag, X_INVALID, b->loc, "%s", text);
	return NULL;
}

Node *
unsupported(Build *b, const char *fmt, ...)
{
	char text[900];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	diag_error(b->m->diag, X_UNSUPPORTED, b->loc, "%s", text);
	return NULL;
}

/* ---- attributes for builders ----------------------------------------------------------------- */

int64_t
attr_int(const Build *b, const char *name)
{
	const Attr *a = attr_find(b->attrs, name);

	return a ? a->i : 0;
}

double
attr_float(const Build *b, const char *name)
{
	const Attr *a = attr_find(b->attrs, name);

	return a ? a->f : 0;
}

const char *
attr_str(const Build *b, const char *name)
{
	const Attr *a = attr_find(b->attrs, name);

	return a && a->s ? a->s : "";
}

bool
attr_ints(const Build *b, const char *name, int *n, const int64_t **v)
{
	const Attr *a = attr_find(b->attrs, name);

	*n = a ? a->n : 0;
	*v = a ? a->is : NULL;
	return a != NULL;
}
