/*
 * PTX as C for the simulator, so that what only the compiler and inline assembly say is run as
 * well.
 *
 * This file knows PTX's syntax; what instructions do is said in runtime/device/tcc_ptx.h. A kernel
 * becomes a function with a variable for each register and a label for each label, an instruction a
 * line, at the line that it has in the PTX. Only what reaches memory, moves, compares, selects or
 * jumps is spelled here; any other instruction is a call of the function of its name.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/tool.h"

typedef struct Token { const char *p; int n, line; } Token;

enum { MAX_PARTS = 16, MAX_OPERANDS = 16, MAX_LIST = 128 };

typedef struct Operand {
	enum { WORD, LIST, ADDRESS, BOX } kind;
	/* LIST: the elements; else the first; ADDRESS: base and offset; BOX: tensor map and place */
	Token at[MAX_LIST];
	int n;
	bool negated;          /* !p */
	Token pred;            /* behind a bar; n = 0: none */
} Operand;

typedef struct Instr {
	Token op;
	char part[MAX_PARTS][40];      /* of the opcode, at its dots */
	int nparts;
	Operand arg[MAX_OPERANDS];
	int nargs;
} Instr;

typedef struct Array { Token name; bool shared, external; } Array;  /* or a parameter of bytes */

typedef struct Ptx {
	Module *m;
	Token *tok;
	int ntok, at;
	FILE *out, *entries;   /* the kernels; what the simulator calls */
	int line;              /* of out, as its readers will count */
	Array arrays[256];     /* of the module, then of the kernel */
	int narrays, nglobal;
	bool has_shared;       /* the kernel has declared one */
	bool failed;
} Ptx;

static void
refuse(Ptx *x, const Token *t, const char *what)
{
	if (!x->failed)
		diag_error(x->m->diag, X_UNSUPPORTED, NULL, "PTX, line %d: %s: '%.*s'", t->line, what, t->n,
			t->p);
	x->failed = true;
}

/* ---- tokens -------------------------------------------------------------------------------- */

static bool
in_word(const char *p)
{
	return isalnum((unsigned char)*p) || (*p && strchr("_.$%", *p)) || (p[0] == ':' && p[1] == ':')
		|| (p[0] == ':' && p[-1] == ':');
}

static const char *
skip_space(const char *p, int *line)
{
	for (;; p++) {
		if (p[0] == '/' && p[1] == '/')
			p += strcspn(p, "\n");
		*line += *p == '\n';
		if (!*p || !isspace((unsigned char)*p))
			return p;
	}
}

/* Words, and marks of one character; the last has none. */
static void
tokenize(Ptx *x, const char *p)
{
	Token t = {.line = 1};
	int cap = 0;

	do {
		p = skip_space(p, &t.line);
		t.p = p;
		p += *p == '-' && isdigit((unsigned char)p[1]);
		while (in_word(p))
			p++;
		p += p == t.p && *p;
		t.n = (int)(p - t.p);
		if (x->ntok == cap) {
			cap = cap ? cap * 2 : 1024;
			x->tok = realloc(x->tok, (size_t)cap * sizeof *x->tok);
			if (!x->tok)
				abort();
		}
		x->tok[x->ntok++] = t;
	} while (t.n);
}

static Token *
peek(Ptx *x)
{
	return &x->tok[x->at];
}

static bool
is(const Token *t, const char *word)
{
	return (int)strlen(word) == t->n && memcmp(t->p, word, (size_t)t->n) == 0;
}

static bool
same(const Token *a, const Token *b)
{
	return a->n == b->n && memcmp(a->p, b->p, (size_t)a->n) == 0;
}

static Token
next(Ptx *x)
{
	Token t = x->tok[x->at];

	x->at += x->at < x->ntok - 1;
	return t;
}

static bool
take(Ptx *x, const char *word)
{
	if (!is(peek(x), word))
		return false;
	next(x);
	return true;
}

static void
expect(Ptx *x, const char *word)
{
	if (!take(x, word))
		refuse(x, peek(x), word);
}

static void
skip_past(Ptx *x, const char *word)
{
	while (peek(x)->n && !take(x, word))
		next(x);
}

/* ---- writing ------------------------------------------------------------------------------- */

/* What comes next stands at the line that it has in the PTX. */
static void
at_line(Ptx *x, int line)
{
	if (line < x->line || line > x->line + 20) {
		fprintf(x->out, "\n#line %d \"kernels.ptx\"\n", line);
		x->line = line;
	}
	for (; x->line < line; x->line++)
		fputc('\n', x->out);
}

static void
put_name(FILE *o, const Token *t)
{
	int i;

	fputs(*t->p == '%' ? "" : "v_", o);
	for (i = *t->p == '%'; i < t->n; i++)
		fputc(isalnum((unsigned char)t->p[i]) ? t->p[i] : '_', o);
}

static const Array *
find_array(const Ptx *x, const Token *t)
{
	int i;

	for (i = x->narrays; i-- > 0;)
		if (same(&x->arrays[i].name, t))
			return &x->arrays[i];
	return NULL;
}

/* Registers, special ones, numbers (floats as bits), addresses of arrays. */
static void
put_value(Ptx *x, const Token *t)
{
	const Array *a = find_array(x, t);
	FILE *o = x->out;

	if (*t->p == '%' && memchr(t->p, '.', (size_t)t->n)) {
		fputs("ptx_reg_", o);
		put_name(o, t);
		fputs("()", o);
	} else if (*t->p == '0' && t->n > 2 && strchr("fFdD", t->p[1])) {
		fprintf(o, "0x%.*sull", t->n - 2, t->p + 2);
	} else if (isdigit((unsigned char)*t->p) || *t->p == '-') {
		fprintf(o, "(%.*sull)", t->n - (t->p[t->n - 1] == 'U'), t->p);
	} else {
		fputs(a && a->shared ? "(u32)(" : a ? "(u64)(" : "", o);
		put_name(o, t);
		fputs(a && a->shared ? " - ptx_shared)" : a ? ")" : "", o);
	}
}

static void
put_address(Ptx *x, const Operand *a, bool shared)
{
	fputs(shared ? "PTX_SHARED(" : "PTX_GLOBAL(", x->out);
	put_value(x, &a->at[0]);
	if (a->n > 1) {
		fputs(" + ", x->out);
		put_value(x, &a->at[1]);
	}
	fputc(')', x->out);
}

/* ---- instructions -------------------------------------------------------------------------- */

static bool
read_operand(Ptx *x, Operand *a)
{
	const char *end = is(peek(x), "{") ? "}" : is(peek(x), "[") ? "]" : NULL;

	*a = (Operand){.kind = !end ? WORD : *end == '}' ? LIST : ADDRESS};
	if (!end) {
		a->negated = take(x, "!");
		a->at[a->n++] = next(x);
		if (take(x, "|"))
			a->pred = next(x);
		return true;
	}
	for (next(x); !take(x, end); take(x, a->kind == LIST || a->kind == BOX ? "," : "+")) {
		if (a->kind == ADDRESS && a->n == 1 && take(x, ",")) {
			expect(x, "{");
			a->kind = BOX;
		}
		if (!peek(x)->n || a->n == MAX_LIST)
			return false;
		a->at[a->n++] = next(x);
		if (a->kind == BOX && take(x, "}"))
			return take(x, end);
	}
	return a->n > 0;
}

static bool
split_opcode(Instr *i)
{
	const char *p = i->op.p, *end = p + i->op.n;
	int n;

	for (; p < end; p += n + 1) {
		for (n = 0; p + n < end && p[n] != '.'; n++)
			;
		if (i->nparts == MAX_PARTS || n >= (int)sizeof *i->part)
			return false;
		memcpy(i->part[i->nparts], p, (size_t)n);
		i->part[i->nparts++][n] = 0;
	}
	return true;
}

static bool
has(const Instr *i, const char *part)
{
	int k;

	for (k = 1; k < i->nparts; k++)
		if (strcmp(i->part[k], part) == 0)
			return true;
	return false;
}

static const char *
last(const Instr *i)
{
	return i->part[i->nparts - 1];
}

/* Bytes of an element of the type, from its number of bits; predicates 0. */
static int
type_size(const char *type)
{
	return atoi(type + strcspn(type, "0123456789")) / 8;
}

static int
vector(const Instr *i)
{
	return has(i, "v4") ? 4 : has(i, "v2") ? 2 : 1;
}

static bool
in_shared(const Instr *i)
{
	return has(i, "shared") || has(i, "shared::cta");
}

/* The access as an lvalue. */
static void
put_access(Ptx *x, const Instr *i, const Operand *a)
{
	char type[24];

	snprintf(type, sizeof type, vector(i) > 1 ? "ptx_u%dx%d" : "u%d", 8 * type_size(last(i)),
		vector(i));
	fprintf(x->out, "PTX_AT(%s, ", type);
	put_address(x, a, in_shared(i));
	fputc(')', x->out);
}

static void
assign(Ptx *x, const Token *t)
{
	put_name(x->out, t);
	fputs(" = ", x->out);
}

static void
load(Ptx *x, const Instr *i)
{
	const Operand *d = &i->arg[0];
	char sign[16] = "";
	int k;

	if (last(i)[0] == 's')
		snprintf(sign, sizeof sign, "(i%d)", 8 * type_size(last(i)));
	if (d->kind != LIST) {
		assign(x, &d->at[0]);
		fputs(sign, x->out);
		if (has(i, "param"))
			put_name(x->out, &i->arg[1].at[0]);
		else
			put_access(x, i, &i->arg[1]);
		fputc(';', x->out);
		return;
	}
	fprintf(x->out, "{ ptx_u%dx%d v = ", 8 * type_size(last(i)), vector(i));
	put_access(x, i, &i->arg[1]);
	fputc(';', x->out);
	for (k = 0; k < d->n; k++) {
		if (is(&d->at[k], "_"))
			continue;
		fputc(' ', x->out);
		assign(x, &d->at[k]);
		fprintf(x->out, "%sv.%c;", sign, "xyzw"[k]);
	}
	fputs(" }", x->out);
}

static void
put_values(Ptx *x, const Token *t, int n, const char *before)
{
	int k;

	for (k = 0; k < n; k++) {
		fprintf(x->out, "%s%s", k ? ", " : "", before);
		put_value(x, &t[k]);
	}
}

static void
put_list(Ptx *x, const Operand *a, const char *before)
{
	put_values(x, a->at, a->n, before);
}

static void
store(Ptx *x, const Instr *i)
{
	const Operand *v = &i->arg[1];

	put_access(x, i, &i->arg[0]);
	fputs(" = ", x->out);
	if (v->kind == LIST)
		fprintf(x->out, "(ptx_u%dx%d){ ", 8 * type_size(last(i)), vector(i));
	else
		fprintf(x->out, "(u%d)(", 8 * type_size(last(i)));
	put_list(x, v, "");
	fputs(v->kind == LIST ? " };" : ");", x->out);
}

static void
move(Ptx *x, const Instr *i)
{
	const Operand *d = &i->arg[0], *s = &i->arg[1];

	if (d->kind == LIST) {
		fprintf(x->out, "ptx_unpack_b%d(", 8 * type_size(last(i)));
		put_list(x, d, "&");
		fputs(", ", x->out);
		put_list(x, s, "");
		fputs(");", x->out);
		return;
	}
	assign(x, &d->at[0]);
	if (s->kind == LIST)
		fprintf(x->out, "ptx_pack_b%d(", 8 * type_size(last(i)));
	put_list(x, s, "");
	fputs(s->kind == LIST ? ");" : ";", x->out);
}

/* setp.CMP[.BOOL].TYPE p, a, b[, q] */
static void
compare(Ptx *x, const Instr *i)
{
	const char *logic = has(i, "and") ? " & " : has(i, "or") ? " | " : has(i, "xor") ? " ^ " : NULL;

	if (i->arg[0].pred.n)
		refuse(x, &i->arg[0].pred, "two results are not known");
	assign(x, &i->arg[0].at[0]);
	fprintf(x->out, "ptx_cmp_%s_%s(", i->part[1], last(i));
	put_value(x, &i->arg[1].at[0]);
	fputs(", ", x->out);
	put_value(x, &i->arg[2].at[0]);
	fputc(')', x->out);
	if (logic && i->nargs == 4) {
		fprintf(x->out, "%s%s", logic, i->arg[3].negated ? "!" : "");
		put_value(x, &i->arg[3].at[0]);
	}
	fputc(';', x->out);
}

static void
select_one(Ptx *x, const Instr *i)
{
	assign(x, &i->arg[0].at[0]);
	put_value(x, &i->arg[3].at[0]);
	fputs(" ? ", x->out);
	put_value(x, &i->arg[1].at[0]);
	fputs(" : ", x->out);
	put_value(x, &i->arg[2].at[0]);
	fputc(';', x->out);
}

/* Of global and local memory generic addresses are the addresses. */
static void
address_space(Ptx *x, const Instr *i)
{
	assign(x, &i->arg[0].at[0]);
	if (in_shared(i))
		fprintf(x->out, "ptx_cvta_%sshared_u64(", has(i, "to") ? "to_" : "");
	else
		fputs("(u64)(", x->out);
	put_value(x, &i->arg[1].at[0]);
	fputs(");", x->out);
}

/* How the instruction is done elsewhere: in which memory, how cached, how ordered, at which
 * target. */
static bool
is_hint(const char *part)
{
	static const char *const hints[] = {"global", "shared", "shared::cta", "relaxed", "acq_rel",
		"gpu", "cta", "sys", "ca", "cg", "L2::128B", "L2::64B", "noftz", "to"};
	size_t k;

	for (k = 0; k < sizeof hints / sizeof *hints; k++)
		if (strcmp(hints[k], part) == 0)
			return true;
	return false;
}

static void
put_function(Ptx *x, const Instr *i)
{
	const char *c;
	int k;

	fputs("ptx", x->out);
	for (k = 0; k < i->nparts; k++) {
		if (k && is_hint(i->part[k]))
			continue;
		c = k == 0 && strcmp(i->part[0], "red") == 0 ? "atom" : i->part[k];
		for (fputc('_', x->out); *c; c++)
			fputc(isalnum((unsigned char)*c) ? *c : '_', x->out);
	}
	fputc('(', x->out);
}

/* d = ptx_NAME(a, b, ...); lists are passed element by element, those of results by address. */
static void
function(Ptx *x, const Instr *i)
{
	static const char no_result[] = " bar barrier red membar fence cp setmaxnreg wgmma ";
	char key[48];
	bool result, copy = strcmp(i->part[0], "cp") == 0;
	int k, from;

	snprintf(key, sizeof key, " %s ", i->part[0]);
	result = !strstr(no_result, key) && i->nargs;
	from = result && i->arg[0].kind == WORD;
	if (from && !is(&i->arg[0].at[0], "_"))
		assign(x, &i->arg[0].at[0]);
	put_function(x, i);
	for (k = from; k < i->nargs; k++) {
		fputs(k > from ? ", " : "", x->out);
		if (i->arg[k].kind == ADDRESS)
			put_address(x, &i->arg[k], in_shared(i) && !(copy && k == 1));
		else
			put_list(x, &i->arg[k], result && k == 0 ? "&" : "");
	}
	if (copy && k == 3)
		fputs(", 1", x->out);
	fputs(");", x->out);
	if (from && i->arg[0].pred.n) {
		fputc(' ', x->out);
		assign(x, &i->arg[0].pred);
		fputs("1;", x->out);
	}
}

/* cp.async.bulk.tensor.Nd.shared::cluster.global[.im2col].mbarrier::... [to], [map, {place}],
 * [bar][, {offsets}] */
static void
copy_box(Ptx *x, const Instr *i)
{
	const Operand *box = &i->arg[1];
	bool gathers = has(i, "im2col");

	if (i->nargs != 3 + gathers || box->kind != BOX || !has(i, "shared::cluster")
	 || !has(i, "mbarrier::complete_tx::bytes")) {
		refuse(x, &i->op, "this copy of a box is not known");
		return;
	}
	fputs("tcc_sim_box(", x->out);
	put_address(x, &i->arg[0], true);
	fputs(", (const void *)", x->out);
	put_value(x, &box->at[0]);
	fputs(", (u64 *)", x->out);
	put_address(x, &i->arg[2], true);
	fprintf(x->out, ", %d, (const i32[]){ ", box->n - 1);
	put_values(x, box->at + 1, box->n - 1, "(i32)");
	fputs(" }, ", x->out);
	if (gathers) {
		fputs("(const i32[]){ ", x->out);
		put_list(x, &i->arg[3], "(u16)");
		fputs(" }", x->out);
	}
	fputs(gathers ? ");" : "0);", x->out);
}

/* wgmma.mma_async.sync.aligned.m64nNkK.ACC.A.B {sums}, a, b, keep[, 1, 1[, along a, along b]];
 * a: a tile, or {registers}, which are along the depth and have no number of that */
static void
group_product(Ptx *x, const Instr *i)
{
	const char *a = i->part[i->nparts > 1 ? i->nparts - 2 : 0], *b = last(i),
		*n = strchr(i->part[4], 'n');
	bool held = i->nargs > 1 && i->arg[1].kind == LIST;
	int k;

	if (strcmp(i->part[1], "mma_async") || i->nparts != 8 || !n || i->nargs < 4 ||
			i->arg[0].kind != LIST || i->arg[0].n != atoi(n + 1) / 2 ||
			(held ? i->arg[1].n != 4 : i->arg[1].kind != WORD)) {
		refuse(x, &i->op, "this product of a warp group is not known");
		return;
	}
	for (k = 4; k < 6 && k < i->nargs; k++)
		if (!is(&i->arg[k].at[0], "1"))
			refuse(x, &i->arg[k].at[0], "factors are taken as they are");
	fputs("{ u32 *const d_[] = { ", x->out);
	put_list(x, &i->arg[0], "&");
	if (held) {
		fputs(" }, *const a_[] = { ", x->out);
		put_list(x, &i->arg[1], "&");
	}
	fprintf(x->out, " }; tcc_sim_wgmma_into(\"wgmma_%s%s\", %d, d_, %s, ", a, strcmp(a, b) ? b : "",
		atoi(n + 1), held ? "a_, 0" : "0");
	for (k = 1 + held; k < 4; k++) {
		put_value(x, &i->arg[k].at[0]);
		fputs(", ", x->out);
	}
	if (held)
		fputs("0, ", x->out);
	for (k = 6; k < 8 - held; k++) {
		if (k < i->nargs)
			put_value(x, &i->arg[k].at[0]);
		else
			fputs("0", x->out);
		fputs(k < 7 - held ? ", " : "", x->out);
	}
	fputs("); }", x->out);
}

static void
jump(Ptx *x, const Instr *i)
{
	fputs("goto ", x->out);
	put_name(x->out, &i->arg[0].at[0]);
	fputc(';', x->out);
}

static void
leave(Ptx *x, const Instr *i)
{
	(void)i;
	fputs("return;", x->out);
}

static const struct Spelling {
	const char *name;
	void (*put)(Ptx *, const Instr *);
	int nargs;
} spellings[] = {
	{"ld", load, 2}, {"st", store, 2}, {"mov", move, 2}, {"setp", compare, 3}, {"selp", select_one, 4},
	{"cvta", address_space, 2}, {"bra", jump, 1}, {"ret", leave, 0}, {"exit", leave, 0},
};

static void
spell(Ptx *x, const Instr *i)
{
	size_t k;

	if (strcmp(i->part[0], "cp") == 0 && has(i, "tensor")) {
		copy_box(x, i);
		return;
	}
	if (strcmp(i->part[0], "wgmma") == 0 && i->nargs > 1) {
		group_product(x, i);
		return;
	}
	for (k = 0; k < sizeof spellings / sizeof *spellings; k++)
		if (strcmp(spellings[k].name, i->part[0]) == 0)
			break;
	if (k == sizeof spellings / sizeof *spellings)
		function(x, i);
	else if (i->nargs < spellings[k].nargs)
		refuse(x, &i->op, "operands are missing");
	else
		spellings[k].put(x, i);
}

static void
instruction(Ptx *x)
{
	Instr i = {0};
	bool guarded = take(x, "@"), negated = guarded && take(x, "!");
	Token guard = guarded ? next(x) : (Token){0};

	i.op = next(x);
	at_line(x, i.op.line);
	while (!x->failed && !take(x, ";")) {
		if (i.nargs == MAX_OPERANDS || !read_operand(x, &i.arg[i.nargs])) {
			refuse(x, &i.op, "operands are not understood");
			return;
		}
		i.nargs++;
		if (!is(peek(x), ";"))
			expect(x, ",");
	}
	if (!split_opcode(&i))
		refuse(x, &i.op, "the opcode is too long");
	if (guarded) {
		fprintf(x->out, "if (%s", negated ? "!" : "");
		put_name(x->out, &guard);
		fputs(") { ", x->out);
	}
	if (!x->failed)
		spell(x, &i);
	fputs(guarded ? " } " : " ", x->out);
}

/* ---- declarations -------------------------------------------------------------------------- */

static const char *
register_type(const Token *t)
{
	char end = t->p[t->n - 1];
	return is(t, ".pred") ? "ptx_pred"
		: end == '8' ? "u8" : end == '6' ? "u16" : end == '2' ? "u32" : "u64";
}

/* .reg TYPE name<N>, name ...; a register that nothing has set may be read where PTX does not
 * care, but C does: it begins as 0. */
static void
registers(Ptx *x)
{
	Token type = next(x), name, count;
	int k, n;

	at_line(x, type.line);
	do {
		name = next(x);
		n = 1;
		fprintf(x->out, "%s ", register_type(&type));
		if (take(x, "<")) {
			count = next(x);
			n = atoi(count.p);
			expect(x, ">");
			for (k = 0; k < n; k++) {
				put_name(x->out, &name);
				fprintf(x->out, "%d = 0%s", k, k + 1 < n ? ", " : "; ");
			}
		} else {
			put_name(x->out, &name);
			fputs(" = 0; ", x->out);
		}
	} while (take(x, ","));
	expect(x, ";");
}

static void
shared_array(Ptx *x, const Array *a, long bytes)
{
	fputs("u8 *const ", x->out);
	put_name(x->out, &a->name);
	fprintf(x->out, " = (u8 *)tcc_sim_shared(\"%.*s\", %ld); ", a->name.n, a->name.p, bytes);
	if (!x->has_shared) {
		fputs("u8 *const ptx_shared = ", x->out);
		put_name(x->out, &a->name);
		fputs("; ", x->out);
	}
	x->has_shared = true;
}

/* = {a, b, ...}: bytes or words. */
static void
initial(Ptx *x)
{
	fputs(" = ", x->out);
	do {
		if (isalnum((unsigned char)*peek(x)->p) || *peek(x)->p == '-')
			put_value(x, peek(x));
		else
			fprintf(x->out, "%.*s", peek(x)->n, peek(x)->p);
		next(x);
	} while (peek(x)->n && !is(peek(x), ";"));
}

static void
add_array(Ptx *x, Array a)
{
	if (x->narrays == (int)(sizeof x->arrays / sizeof *x->arrays))
		refuse(x, &a.name, "too many arrays");
	else
		x->arrays[x->narrays++] = a;
}

/* [.align N] .TYPE name[count] [= {...}]; */
static void
array(Ptx *x, const Token *space, bool external)
{
	Array a = {.shared = is(space, ".shared"), .external = external};
	Token type, count = {0};
	long bytes;
	int align = 16;

	if (take(x, ".align")) {
		count = next(x);
		align = atoi(count.p);
	}
	type = next(x);
	a.name = next(x);
	count = (Token){"1", 1, a.name.line};
	if (take(x, "[")) {
		count = is(peek(x), "]") ? (Token){"0", 1, a.name.line} : next(x);
		expect(x, "]");
	}
	bytes = atol(count.p) * (type.n > 1 ? type_size(type.p) : 0);
	at_line(x, a.name.line);
	add_array(x, a);
	if (a.shared && !external) {
		shared_array(x, &a, bytes);
	} else if (!a.shared) {
		fprintf(x->out, "%s %s ", is(space, ".local") ? "" : "static", register_type(&type));
		put_name(x->out, &a.name);
		fprintf(x->out, "[%.*s] __attribute__((aligned(%d)))", count.n, count.p, align);
		if (take(x, "="))
			initial(x);
		fputs("; ", x->out);
	}
	expect(x, ";");
}

/* ---- kernels ------------------------------------------------------------------------------- */

/* Arrays of the module's in shared memory that the body names; its size is the launch's. */
static void
external_arrays(Ptx *x)
{
	int k, i, depth;

	for (k = 0; k < x->nglobal; k++) {
		if (!x->arrays[k].external)
			continue;
		for (i = x->at, depth = 1; depth && x->tok[i].n &&
			!same(&x->tok[i], &x->arrays[k].name); i++)
			depth += is(&x->tok[i], "{") - is(&x->tok[i], "}");
		if (depth && x->tok[i].n)
			shared_array(x, &x->arrays[k], 0);
	}
}

/* Does the body declare an array in shared memory? Then that names the space. */
static bool
declares_shared(const Ptx *x)
{
	int i, depth = 1;

	for (i = x->at; depth && x->tok[i].n; i++) {
		depth += is(&x->tok[i], "{") - is(&x->tok[i], "}");
		if (is(&x->tok[i], ".shared"))
			return true;
	}
	return false;
}

static void
statement(Ptx *x)
{
	Token t = *peek(x);

	if (is(&t, ".reg")) {
		next(x);
		registers(x);
	} else if (is(&t, ".shared") || is(&t, ".local")) {
		next(x);
		array(x, &t, false);
	} else if (is(&t, ".pragma") || is(&t, ".loc")) {
		skip_past(x, ";");
	} else if (is(&x->tok[x->at + (t.n > 0)], ":")) {
		at_line(x, t.line);
		put_name(x->out, &t);
		fputs(":; ", x->out);
		x->at += 2;
	} else {
		instruction(x);
	}
}

static void
body(Ptx *x)
{
	int depth = 1;

	while (depth && peek(x)->n && !x->failed) {
		if (is(peek(x), "{") || is(peek(x), "}")) {
			depth += *peek(x)->p == '{' ? 1 : -1;
			fprintf(x->out, "%c ", *next(x).p);
		} else {
			statement(x);
		}
	}
	if (depth)
		refuse(x, peek(x), "the kernel has no end");
}

/* (.param .TYPE name, ...); of bytes: name[size], passed by address */
static void
parameters(Ptx *x)
{
	Token type, name;
	int n = 0;

	expect(x, "(");
	while (!x->failed && !take(x, ")")) {
		expect(x, ".param");
		if (take(x, ".align"))
			next(x);
		type = next(x);
		for (name = next(x); *name.p == '.' && name.n > 1; name = next(x))
			if (is(&name, ".align"))
				next(x);
		fprintf(x->out, "%s%s ", n ? ", " : "", is(peek(x), "[") ? "u8 *" : register_type(&type));
		put_name(x->out, &name);
		fputs(n ? ", " : "", x->entries);
		if (take(x, "[")) {
			add_array(x, (Array){.name = name});
			fprintf(x->entries, "&TCC_ARG(u8, %d)", n);
			skip_past(x, "]");
		} else {
			fprintf(x->entries, "TCC_ARG(%s, %d)", register_type(&type), n);
		}
		n++;
		if (!is(peek(x), ")"))
			expect(x, ",");
	}
}

static void
kernel(Ptx *x)
{
	Token name = next(x);

	x->narrays = x->nglobal;
	x->has_shared = false;
	at_line(x, name.line);
	fprintf(x->out, "static __attribute__((noinline)) void %.*s__ptx(", name.n, name.p);
	fprintf(x->entries, "TCC_SIM_ENTRY(%.*s) { %.*s__ptx(", name.n, name.p, name.n, name.p);
	parameters(x);
	fputs("); }\n", x->entries);
	fputs(") { ", x->out);
	while (peek(x)->n && !take(x, "{"))
		next(x);
	external_arrays(x);
	if (!x->has_shared && !declares_shared(x))
		fputs("u8 *const ptx_shared = 0; ", x->out);
	body(x);
}

static void
top_level(Ptx *x)
{
	Token t = next(x);
	bool external = is(&t, ".extern");

	if (is(&t, ".version") || is(&t, ".address_size")) {
		next(x);
	} else if (is(&t, ".target")) {
		do
			next(x);
		while (take(x, ","));
	} else if (external || is(&t, ".visible") || is(&t, ".weak")) {
		t = next(x);
		if (is(&t, ".entry"))
			kernel(x);
		else if (is(&t, ".shared") || is(&t, ".global") || is(&t, ".const"))
			array(x, &t, external);
		else
			refuse(x, &t, "what this declares is not known");
		x->nglobal = is(&t, ".entry") ? x->nglobal : x->narrays;
	} else if (is(&t, ".entry")) {
		kernel(x);
	} else if (is(&t, ".global") || is(&t, ".const")) {
		array(x, &t, false);
		x->nglobal = x->narrays;
	} else {
		refuse(x, &t, "not known at the top level");
	}
}

char *
ptx_to_c(Module *m, const char *ptx, size_t *size)
{
	char *text = NULL, *entries = NULL;
	size_t n;
	Ptx x = {.m = m, .out = open_memstream(&text, size), .entries = open_memstream(&entries, &n),
		.line = 1};

	if (!x.out || !x.entries)
		abort();
	tokenize(&x, ptx);
	fputs("#include \"tcc_dev.h\"\n#include \"tcc_ptx.h\"\n#line 1 \"kernels.ptx\"\n", x.out);
	while (peek(&x)->n && !x.failed)
		top_level(&x);
	fclose(x.entries);
	fprintf(x.out, "\n%s", entries);
	fclose(x.out);
	free(entries);
	free(x.tok);
	if (!x.failed)
		return text;
	free(text);
	return NULL;
}
