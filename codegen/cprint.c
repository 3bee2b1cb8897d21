/* Kernels and host plans of loop level as C text; expressions are printed by cexpr.c. */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/cprint.h"
#include "runtime/abi.h"

/* ---- identifiers ----------------------------------------------------------------------------- */

static const char *const keywords[] = { "auto", "bool", "break", "case", "catch", "char", "class",
	"const", "continue", "default", "delete", "do", "double", "else", "enum", "extern", "false",
	"float", "for", "friend", "goto", "if", "inline", "int", "long", "new", "operator", "private",
	"protected", "public", "register", "restrict", "return", "short", "signed", "sizeof", "static",
	"struct", "switch", "template", "this", "throw", "true", "try", "typedef", "typename", "union",
	"unsigned", "using", "virtual", "void", "volatile", "while", "asm", "linux", "unix", "main",
	"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64", "and", "or",
	"not", "xor", "bitand", "bitor", "compl", "and_eq", "or_eq", "xor_eq", "not_eq", "signbit",
	"bufs", "syms", "begin", "end", "scratch", "err", "run", "api", "NULL", "TRY", "memcpy",
	"explicit", "export", "mutable", "namespace", "protected", "goto", "alignas", "alignof",
	"constexpr", "decltype", "noexcept", "nullptr", "thread_local", "char16_t", "char32_t", NULL };

/* Of a vector of tcc_dev.h: f32x4. */
static bool is_vector_type(const char *s)
{
	size_t n = strcspn(s, "x");
	return (*s == 'f' || *s == 'i' || *s == 'u' || *s == 'b') && s[n] == 'x' &&
		isdigit((unsigned char)s[n - 1]) && isdigit((unsigned char)s[n + 1]);
}

char *c_ident(Module *m, const char *text)
{
	char *s = arena_printf(m->arena, "%s%.40s", isalpha((unsigned char)*text) ? "" : "x", text);
	size_t n = 0;

	for (char *p = s; *p; p++) {
		char ch = isalnum((unsigned char)*p) && !(*p & 0x80) ? *p : '_';
		if (ch == '_' && (n == 0 || s[n - 1] == '_'))
			continue;
		s[n++] = ch;
	}
	while (n > 1 && s[n - 1] == '_')
		n--;
	s[n] = 0;
	bool clash = !strncmp(s, "tcc_", 4) || !strncmp(s, "TCC_", 4) || !strncmp(s, "fold_", 5) ||
		is_vector_type(s);
	for (int k = 0; keywords[k]; k++)
		clash = clash || !strcmp(s, keywords[k]);
	return clash ? arena_printf(m->arena, "%s_x", s) : s;
}

static uint32_t set_slot(const CSet *s, const char *text)
{
	uint32_t j = (uint32_t)((uintptr_t)text >> 4) * 2654435761u & (s->cap - 1);
	while (s->at[j] && s->at[j] != text)
		j = (j + 1) & (s->cap - 1);
	return j;
}

static bool set_has(const CSet *s, const char *text)
{
	return s->cap && s->at[set_slot(s, text)];
}

static void set_add(CSet *s, const char *text)
{
	CSet old = *s;

	if (2 * s->n >= s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->at = calloc(s->cap, sizeof *s->at);
		if (!s->at)
			abort();
		for (uint32_t j = 0; j < old.cap; j++)
			if (old.at[j])
				s->at[set_slot(s, old.at[j])] = old.at[j];
		free(old.at);
	}
	uint32_t j = set_slot(s, text);
	s->n += !s->at[j];
	s->at[j] = text;
}

static bool name_free(CFn *c, const char *name)
{
	if (set_has(&c->taken, name))
		return false;
	for (int k = 0; k < c->axes.n; k++)
		if (c->axes.at[k] == name)
			return false;
	return true;
}

/* The next number for a base, kept so that long functions do not search. */
static int64_t *counter(CFn *c, const char *base)
{
	for (int k = 0; k < c->bases.n; k++)
		if (c->bases.at[k] == base)
			return c->counts.at[k];
	vec_push(c->f->m, &c->bases, (void *)base);
	vec_push(c->f->m, &c->counts, NEW(c->f->m, int64_t));
	return c->counts.at[c->counts.n - 1];
}

static const char *unused_name(CFn *c, const char *base, bool numbered)
{
	Module *m = c->f->m;
	const char *name = base = intern(m, c_ident(m, base));
	bool digit = isdigit((unsigned char)base[strlen(base) - 1]);

	if (!numbered && name_free(c, name))
		return name;
	for (int64_t *n = counter(c, base);;) {
		name = intern(m, arena_printf(m->arena, "%s%s%lld", base, digit ? "_" : "",
			(long long)++*n));
		if (name_free(c, name))
			return name;
	}
}

const char *cfn_name(CFn *c, const char *base, bool numbered)
{
	const char *name = unused_name(c, base, numbered);
	set_add(&c->taken, name);
	return name;
}

const char *cfn_define(CFn *c, const Node *n, const char *base, bool numbered)
{
	const char *name = cfn_name(c, base, numbered);
	map_put(&c->names, n, (void *)name);
	return name;
}

/* Names of loop variables are free again after their loop. */
static const char *open_axis(CFn *c, Node *axis, const char *base)
{
	const char *name = NULL;

	for (const char *p = "ijklmnpqr"; !base && *p; p++) {
		name = intern(c->f->m, arena_printf(c->f->m->arena, "%c", *p));
		if (name_free(c, name))
			break;
		name = NULL;
	}
	if (!name)
		name = unused_name(c, base ? base : "i", false);
	vec_push(c->f->m, &c->axes, (void *)name);
	map_put(&c->names, axis, (void *)name);
	return name;
}

/* ---- lines ----------------------------------------------------------------------------------- */

void cfn_indent(CFn *c)
{
	for (int k = 0; k < c->indent; k++)
		fputc('\t', c->o);
}

void cfn_line(CFn *c, const char *fmt, ...)
{
	va_list ap;

	cfn_indent(c);
	va_start(ap, fmt);
	vfprintf(c->o, fmt, ap);
	va_end(ap);
	fputc('\n', c->o);
}

void cfile_error(CFile *f, const char *what)
{
	if (!f->failed)
		diag_error(f->m->diag, X_BUG, f->loc, "the C printer cannot spell %s", what);
	f->failed = true;
}

/* ---- statements ------------------------------------------------------------------------------ */

static void region(CFn *, Region *);

static bool is_trivial(const Node *n)
{
	return n->code == O_NUM || n->code == O_SYM || n->code == O_AXIS || n->code == O_LET ||
		n->code == O_CALL;
}

/* The extent as text: a constant, or evaluated once into a constant. */
static const char *extent_text(CFn *c, Node *e)
{
	int64_t v;
	const char *name;

	if (is_int(e, &v))
		return arena_printf(c->f->m->arena, "%lld", (long long)v);
	if (is_trivial(e) && (name = map_get(&c->names, e)))
		return name;
	cx_begin(c, 1, &e);
	name = cfn_name(c, "n", true);
	cfn_indent(c);
	fprintf(c->o, "const %s %s = ", ctype(c, e), name);
	cx(c, e, P_NONE);
	fputs(";\n", c->o);
	cx_end(c);
	return name;
}

static void loop(CFn *c, Node *s)
{
	Node *axis = s->in[0];
	const char *base = s->n == F_VECTOR ? "v" : NULL;    /* of the device dialect */
	const char *from = "0", *to;
	const char *t = ctype(c, axis);

	if (s->n == F_PARALLEL) {
		from = "begin";
		to = "end";
	} else {
		to = extent_text(c, axis->in[0]);
	}
	if (c->f->gpu && !cfn_narrow(c, axis->in[0]))
		t = "i64";
	Map tiles = { 0 };
	bool rolls = s->n == F_UNROLL && !c->rolled && tile_in_memory(c, s, &tiles);
	c->rolled |= rolls;
	if ((s->n == F_UNROLL && !c->rolled) || (c->f->gpu && s->n == F_VECTOR))
		cfn_line(c, "TCC_UNROLL");
	else if (c->f->gpu && s->n == F_SERIAL && axis->in[0]->code == O_NUM && axis->in[0]->num.i > 1)
		cfn_line(c, "TCC_ROLLED");
	const char *name = open_axis(c, axis, base);
	cfn_line(c, "for (%s %s = %s; %s < %s; %s++) {", t, name, from, name, to, name);
	c->indent++;
	region(c, s->regions[0]);
	c->indent--;
	cfn_line(c, "}");
	c->axes.n--;
	c->rolled &= !rolls;
	if (rolls)
		tile_in_registers(c, s, &tiles);
}

/* Grid and block loops: the machine runs them. */
static void executor(CFn *c, Node *s)
{
	static const char *const names[][2] = { [F_GRID_X] = { "bx", "tcc_bx()" },
		[F_GRID_Y] = { "by", "tcc_by()" }, [F_GRID_Z] = { "bz", "tcc_bz()" },
		[F_BLOCK] = { "t", "tcc_tx()" } };
	const char *name = open_axis(c, s->in[0], names[s->n][0]);

	cfn_line(c, "const i32 %s = %s;", name, names[s->n][1]);
	c->in_block = c->in_block || s->n == F_BLOCK;
	region(c, s->regions[0]);
}

static void store(CFn *c, Node *s)
{
	const char *lane = map_get(&c->lanes, s);
	int first = lane ? s->nin - 1 : 1;

	cx_begin(c, s->nin - first, s->in + first);
	cfn_indent(c);
	if (lane)
		fputs(lane, c->o);
	else
		cx_element(c, s->in[0], s->nin - 2, s->in + 1);
	fputs(" = ", c->o);
	cx(c, s->in[s->nin - 1], P_NONE);
	fputs(";\n", c->o);
	cx_end(c);
}

static void let(CFn *c, Node *s)
{
	Node *v = s->in[0];

	cx_begin(c, 1, &v);
	const char *name = cfn_name(c, s->name ? s->name : cx_base(v), !s->name);
	cfn_indent(c);
	fprintf(c->o, "const %s %s = ", ctype(c, v), name);
	cx(c, v, P_NONE);
	fputs(";\n", c->o);
	cx_end(c);
	map_put(&c->names, s, (void *)name);
}

static void when(CFn *c, Node *s)
{
	cx_begin(c, 1, s->in);
	cfn_indent(c);
	fputs("if (", c->o);
	cx(c, s->in[0], P_NONE);
	fputs(") {\n", c->o);
	cx_end(c);
	c->indent++;
	region(c, s->regions[0]);
	c->indent--;
	if (s->nregions > 1 && s->regions[1] && s->regions[1]->nresults) {
		cfn_line(c, "} else {");
		c->indent++;
		region(c, s->regions[1]);
		c->indent--;
	}
	cfn_line(c, "}");
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* A local array; NAME[e1][e2] of a register tile, one extent for others. */
static void local_array(CFn *c, Node *b, const char *name, bool spread)
{
	int64_t v, all = 1;

	cfn_indent(c);
	fprintf(c->o, "%s %s", cstorage(b->type->dtype), name);
	for (int k = 0; k < b->nin - spread; k++) {
		if (!is_int(b->in[k], &v))
			cfile_error(c->f, "a local array of variable size");
		if (b->type->space == SP_REG)
			fprintf(c->o, "[%lld]", (long long)(v > 0 ? v : 1));
		else
			all *= v;
	}
	if (b->type->space != SP_REG)
		fprintf(c->o, "[%lld]", (long long)(all > 0 ? all : 1));
	if (c->lane_priv && map_get(c->lane_priv, b))
		fprintf(c->o, "[%lld]", (long long)c->lane_count);
	fputs(";\n", c->o);
}

static bool static_shared(const Kernel *k)
{
	return k->shared <= STATIC_SHARED && !k->nmaps;   /* boxes need more alignment */
}

static void shared_array(CFn *c, Node *b, const char *name)
{
	int64_t all = 1, v;
	int size = dtypes[b->type->dtype].bits / 8;
	const char *t = cstorage(b->type->dtype);

	for (int k = 0; k < b->nin; k++)
		all *= is_int(b->in[k], &v) ? v : 0;
	if (static_shared(c->k)) {
		cfn_line(c, "TCC_SHARED(%s, %s, %lld);", t, name, (long long)all);
		return;
	}
	cfn_line(c, "%s *const %s = (%s *)(tcc_shared_memory + %lld);", t, name, t,
		(long long)c->shared_used);
	c->shared_used += (all * size + 15) / 16 * 16;
}

/* A buffer in the thread's scratch memory, after those before it. */
static void stack_array(CFn *c, Node *b, const char *name)
{
	Module *m = c->f->m;
	Node *size = x_idx(m, dtypes[b->type->dtype].bits / 8);
	const char *t = cstorage(b->type->dtype);

	for (int k = 0; k < b->nin; k++)
		size = x_mul(m, size, b->in[k]);
	size = x_muli(m, x_ceildiv(m, size, x_idx(m, 64)), 64);
	Node *at = c->scratch_used ? c->scratch_used : x_idx(m, 0);
	cx_begin(c, 1, &at);
	cfn_indent(c);
	fprintf(c->o, "%s *restrict const %s = (%s *)(scratch + ", t, name, t);
	cx(c, at, P_ADD + 1);
	fputs(");\n", c->o);
	cx_end(c);
	c->scratch_used = x_add(m, at, size);
}

static void alloc(CFn *c, Node *s)
{
	Node *b = s->in[0];
	const char *name = cfn_define(c, b, b->name ? b->name : "a", false);
	Space space = b->type->space;

	if (space == SP_SHARED) {
		shared_array(c, b, name);
	} else if (space == SP_STACK && !c->f->gpu && !c->plan) {
		stack_array(c, b, name);
	} else {
		bool spread = c->f->gpu && space == SP_REG && !c->in_block && b->nin > 0;
		if (spread)
			map_put(&c->spread, b, b);
		local_array(c, b, name, spread);
	}
}

/* ---- the host plan --------------------------------------------------------------------------- */

static const struct { const char *name, *sig; bool status; } entries[] = {
#define ENTRY(type, name, sig, params) { #name, sig, sizeof(type) == 4 },
	TCC_API(ENTRY)
#undef ENTRY
};

static void call_arg(CFn *c, Node *a, char kind)
{
	if (kind == 'l')
		cx(c, a, P_COND);
	else if (a->code == O_BUFFER && map_get(&c->names, a))
		fputs(map_get(&c->names, a), c->o);
	else
		fputs("NULL", c->o);
}

static bool is_expr(const Node *n)
{
	return n->code != O_BUFFER;
}

static void call_entry(CFn *c, Node *s)
{
	int e = -1, nx = 0, routine = plan_routine(c->f->m, s->name), given = routine >= 0;
	Node *x[64];

	for (size_t k = 0; k < sizeof entries / sizeof *entries; k++)
		if (!strcmp(entries[k].name, given ? "host" : s->name))
			e = (int)k;
	if (e < 0 || (size_t)(s->nin + given) != strlen(entries[e].sig)) {
		cfile_error(c->f, arena_printf(c->f->m->arena, "a call of %s", s->name));
		return;
	}
	for (int k = 0; k < s->nin; k++)
		if (is_expr(s->in[k]))
			x[nx++] = s->in[k];
	cx_begin(c, nx, x);
	cfn_indent(c);
	if (entries[e].status)
		fputs("TRY(", c->o);
	else if (map_get(&c->used, s))
		fprintf(c->o, "const i64 %s = ", cfn_define(c, s, given ? "host" : s->name, true));
	fprintf(c->o, "api->%s(run", entries[e].name);
	if (given)
		fprintf(c->o, ", %d /* %s */", routine, s->name + strlen("host."));
	for (int k = 0; k < s->nin; k++) {
		fputs(", ", c->o);
		call_arg(c, s->in[k], entries[e].sig[k + given]);
	}
	fputs(entries[e].status ? "));\n" : ");\n", c->o);
	cx_end(c);
}

static void repeat(CFn *c, Node *s)
{
	cfn_line(c, "for (;;) {");
	c->indent++;
	region(c, s->regions[0]);
	c->indent--;
	cfn_line(c, "}");
}

static void leave(CFn *c, Node *s)
{
	cx_begin(c, 1, s->in);
	cfn_indent(c);
	fputs("if (", c->o);
	cx(c, s->in[0], P_NONE);
	fputs(")\n", c->o);
	cx_end(c);
	c->indent++;
	cfn_line(c, "break;");
	c->indent--;
}

static void statement(CFn *c, Node *s)
{
	switch (s->code) {
	case O_FOR:
		if (s->n >= F_GRID_X && c->f->gpu)
			executor(c, s);
		else if (s->n == F_VECTOR && !c->f->gpu)
			clane_loop(c, s);
		else if (s->n != F_VECTOR || !cvec_loop(c, s))
			loop(c, s);
		break;
	case O_STORE: store(c, s); break;
	case O_LET: let(c, s); break;
	case O_WHEN: when(c, s); break;
	case O_ALLOC: alloc(c, s); break;
	case O_BARRIER: cfn_line(c, "tcc_barrier();"); break;
	case O_PREFETCH: break;
	case O_MOVE: case O_MMA: case O_SYNCH: cmatrix_statement(c, s); break;
	case O_COMMIT: cfn_line(c, "tcc_cp_commit();"); break;
	case O_WAIT: cfn_line(c, "tcc_cp_wait(%lld);", (long long)s->n); break;
	case O_CALL: call_entry(c, s); break;
	case O_WHILE: repeat(c, s); break;
	case O_BREAK: leave(c, s); break;
	default: cfile_error(c->f, s->op->name);
	}
}

static void region(CFn *c, Region *r)
{
	if (!r)
		return;
	if (c->lane_region) {
		c->lane_region(c->lane_state, c, r);
		return;
	}
	for (int k = 0; k < r->nresults && !c->f->failed; k++)
		statement(c, r->results[k]);
}

void cfn_region(CFn *c, Region *r) { region(c, r); }
void cfn_loop(CFn *c, Node *s) { loop(c, s); }
void cfn_statement(CFn *c, Node *s) { statement(c, s); }
const char *cfn_axis(CFn *c, Node *axis, const char *base) { return open_axis(c, axis, base); }

/* ---- kernels --------------------------------------------------------------------------------- */

const char *loc_text(Module *m, const Loc *loc, int n)
{
	char *s = "";
	int k = 0, all = 0;

	for (const Loc *l = loc; l; l = l->next)
		all++;
	for (const Loc *l = loc; l && k < n; l = l->next, k++)
		s = arena_printf(m->arena, "%s%s%s '%.80s'", s, k ? ", " : "", l->type ? l->type : "node",
			l->name ? l->name : "");
	if (all > n)
		s = arena_printf(m->arena, "%s and %d more", s, all - n);
	for (char *p = s; *p; p++)
		if ((unsigned char)*p < ' ' || (*p == '*' && p[1] == '/') || (*p == '/' && p[1] == '*') ||
				*p == '\\')
			*p = '?';
	return s;
}

/* Text within a comment, in lines of at most 100 columns. */
static void wrapped(FILE *o, const char *text)
{
	int col = 0;

	for (const char *p = text; *p;) {
		int n = (int)strcspn(p, " ");
		if (col == 0 || col + n + 1 > 96)
			col = fprintf(o, "%s * ", col ? "\n" : "") - 1;
		else
			col += fprintf(o, " ");
		col += fprintf(o, "%.*s", n, p);
		p += n + strspn(p + n, " ");
	}
	if (col)
		fputc('\n', o);
}

static void kernel_comment(CFile *f, const Kernel *k, const char *name, const Loc *from)
{
	fputs("/*\n", f->out);
	const char *nodes = loc_text(f->m, from, 12);
	wrapped(f->out, arena_printf(f->m->arena, "%s%s%s", name, *nodes ? ": " : "", nodes));
	if (k->schedule)
		wrapped(f->out, k->schedule);
	fputs(" */\n", f->out);
}

static void fn_free(CFn *c)
{
	map_free(&c->names);
	map_free(&c->spread);
	map_free(&c->lanes);
	map_free(&c->used);
	map_free(&c->narrow);
	free(c->taken.at);
	free(c->info);
	free(c->inst);
	free(c->scope);
}

static void cpu_params(CFn *c, const Kernel *k, const char *name)
{
	FILE *o = c->o;

	fprintf(o, "TCC_ENTRY void %s(void *const *bufs, const i64 *syms, i64 begin, i64 end,\n"
		"\tunsigned char *scratch, i32 *err)\n{\n", name);
	for (int b = 0; b < k->nbufs; b++)
		cfn_line(c, "%s%s *restrict %s = bufs[%d];", k->writes[b] ? "" : "const ",
			cstorage(k->bufs[b]->type->dtype),
			cfn_define(c, k->bufs[b], k->bufs[b]->name ? k->bufs[b]->name : "b", false), b);
	for (int s = 0; s < k->nsyms; s++)
		cfn_line(c, "const i64 %s = syms[%d];",
			cfn_define(c, k->syms[s], k->syms[s]->name, false), s);
}

static const char *buf_type(CFn *c, const Kernel *k, int b)
{
	return arena_printf(c->f->m->arena, "%s%s *", k->writes[b] ? "" : "const ",
		cstorage(k->bufs[b]->type->dtype));
}

static void gpu_params(CFn *c, const Kernel *k, const char *name)
{
	FILE *o = c->o;
	const char *sep = "\n\t";

	fprintf(o, "TCC_KERNEL(%s, %d)(", name, k->block);
	for (int b = 0; b < k->nbufs; b++, sep = ",\n\t")
		fprintf(o, "%s%sTCC_RESTRICT %s", sep, buf_type(c, k, b),
			cfn_define(c, k->bufs[b], k->bufs[b]->name ? k->bufs[b]->name : "b", false));
	for (int s = 0; s < k->nsyms; s++, sep = ",\n\t")
		fprintf(o, "%si64 %s%s", sep, cfn_define(c, k->syms[s], k->syms[s]->name, false),
			cfn_narrow(c, k->syms[s]) ? "_" : "");
	fputs(k->nerrors ? arena_printf(c->f->m->arena, "%si32 *err", sep) : "", o);
	for (int m = 0; m < k->nmaps; m++)
		fprintf(o, ",\n\tTCC_MAP %s", cfn_define(c, k->maps[m].view, k->maps[m].view->name, false));
	fputs(")\n{\n", o);
	for (int s = 0; s < k->nsyms; s++) {
		const char *n = map_get(&c->names, k->syms[s]);
		if (cfn_narrow(c, k->syms[s]))
			cfn_line(c, "const i32 %s = (i32)%s_;", n, n);
	}
}

int cfile_warp(const CFile *f)
{
	return f->m->machine && f->m->machine->warp ? f->m->machine->warp : 32;
}

/* Shared memory for the folds of each type across warps: an element for each warp. */
static void fold_memory(CFn *c, Region *body)
{
	bool done[N_DTYPES] = { false };
	int64_t width;
	int n;
	Node **all = topo_statements(body, &n);

	for (int i = 0; i < n; i++) {
		DType d = all[i]->type ? all[i]->type->dtype : DT_NONE;
		if (all[i]->code != O_FOLD || done[d] ||
				!is_int(all[i]->in[0]->in[all[i]->in[0]->nin - 1], &width) ||
				width <= cfile_warp(c->f))
			continue;
		done[d] = true;
		cfn_line(c, "TCC_SHARED(%s, fold_%s, 32);", cstorage(d), cstorage(d));
	}
	free(all);
}

static void kernel_function(CFile *f, const Kernel *k, const char *name)
{
	CFn c = { .f = f, .o = f->out, .indent = 1, .k = k,
		.index32 = f->gpu && k->index32 };

	f->loc = k->loc;
	if (f->gpu) {
		gpu_params(&c, k, name);
		/* before anything of memory is touched: a kernel after the next relies on it too */
		if (f->m->machine && machine_has(f->m->machine, "grid-wait")) {
			cfn_line(&c, "tcc_grid_launch();");
			cfn_line(&c, "tcc_grid_wait();");
		}
		if (!static_shared(k))
			cfn_line(&c, "TCC_SHARED_DYN(tcc_shared_memory);");
		fold_memory(&c, k->body);
	} else {
		cpu_params(&c, k, name);
	}
	region(&c, k->body);
	fputs("}\n\n", f->out);
	fn_free(&c);
}

void cfile_kernel(CFile *f, const Kernel *k, const char *name, const Loc *from)
{
	kernel_comment(f, k, name, from);
	kernel_function(f, k, name);
}

static bool same_text(const CFile *a, const CFile *b)
{
	return a->size == b->size && memcmp(a->text, b->text, a->size) == 0;
}

/* FNV-1a; never 0. */
static uint32_t text_digest(const CFile *f)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < f->size; i++)
		h = (h ^ (unsigned char)f->text[i]) * 16777619u;
	return h ? h : 1;
}

int *cprint_twins(Module *m, bool gpu, uint32_t *digest)
{
	int n = m->kernels.n, *twin = NEWN(m, int, n + 1);
	CFile **f = NEWN(m, CFile *, n + 1);

	for (int k = 0; k < n; k++) {
		const Kernel *kn = m->kernels.at[k];
		f[k] = cfile_new(m, gpu);
		kernel_function(f[k], kn, "kernel");
		fprintf(f[k]->out, "%lld %d", (long long)kn->shared, kn->nerrors);
		fflush(f[k]->out);
		digest[k] = text_digest(f[k]);
		for (twin[k] = 0; twin[k] < k; twin[k]++)
			if (digest[twin[k]] == digest[k] && same_text(f[twin[k]], f[k]))
				break;
	}
	for (int k = 0; k < n; k++) {
		size_t size;
		free(cfile_finish(f[k], &size));
	}
	return twin;
}

const Loc *cprint_origin(Module *m, const int *twin, int k)
{
	const Loc *all = NULL;

	for (int i = k; i < m->kernels.n; i++)
		if (twin[i] == k)
			all = loc_union(m, all, ((const Kernel *)m->kernels.at[i])->loc);
	return all;
}

void cfile_sim_entry(CFile *f, const Kernel *k, const char *name)
{
	CFn c = { .f = f, .o = f->out };
	int n = 0;

	fprintf(f->out, "TCC_SIM_ENTRY(%s)\n{\n\t%s(", name, name);
	for (int b = 0; b < k->nbufs; b++, n++)
		fprintf(f->out, "%sTCC_ARG(%s, %d)", n ? ", " : "", buf_type(&c, k, b), n);
	for (int s = 0; s < k->nsyms; s++, n++)
		fprintf(f->out, "%sTCC_ARG(i64, %d)", n ? ", " : "", n);
	if (k->nerrors) {
		fprintf(f->out, "%sTCC_ARG(i32 *, %d)", n ? ", " : "", n);
		n++;
	}
	for (int m = 0; m < k->nmaps; m++, n++)
		fprintf(f->out, ", TCC_ARG(tcc_map, %d)", n);
	fputs(");\n}\n\n", f->out);
}

/* Results of calls that something reads. */
static void find_used(CFn *c, Region *plan)
{
	int n;
	Node **all = topo_statements(plan, &n);

	for (int i = 0; i < n; i++)
		for (int j = 0; j < all[i]->nin; j++)
			if (all[i]->in[j] && all[i]->in[j]->code == O_CALL)
				map_put(&c->used, all[i]->in[j], all[i]);
	free(all);
}

void cfile_plan(CFile *f, Region *plan, const char *name)
{
	CFn c = { .f = f, .o = f->out, .indent = 1, .plan = true };

	find_used(&c, plan);
	fprintf(f->out, "#define TRY(call) do { i32 status_ = (call); if (status_) return status_; } "
		"while (0)\n\n"
		"static int32_t %s(TccRun *run)\n{\n\tconst TccApi *const api = run->api;\n", name);
	region(&c, plan);
	fputs("\treturn 0;\n}\n\n", f->out);
	fn_free(&c);
}

void cfile_function(CFile *f, const char *name, int nin, Node *const *params, Node *value)
{
	static const char *const base[] = { "x", "y", "z" };
	char *text = NULL;
	size_t size;
	CFn c = { .f = f, .o = open_memstream(&text, &size), .indent = 1 };

	fprintf(c.o, "TCC_FN %s %s(", ctype(&c, value), name);
	for (int k = 0; k < nin; k++)
		fprintf(c.o, "%s%s %s", k ? ", " : "", ctype(&c, params[k]),
			cfn_define(&c, params[k], base[k], false));
	fputs(")\n{\n", c.o);
	cx_begin(&c, 1, &value);
	cfn_indent(&c);
	fputs("return ", c.o);
	cx(&c, value, P_NONE);
	fputs(";\n}\n\n", c.o);
	cx_end(&c);
	fclose(c.o);
	fputs(text, f->helpers);       /* after those that it needs */
	free(text);
	fn_free(&c);
}

/* ---- files ----------------------------------------------------------------------------------- */

CFile *cfile_new(Module *m, bool gpu)
{
	CFile *f = NEW(m, CFile);

	f->m = m;
	f->gpu = gpu;
	f->helpers = open_memstream(&f->helpers_text, &f->helpers_size);
	f->out = open_memstream(&f->text, &f->size);
	if (!f->helpers || !f->out)
		abort();
	return f;
}

size_t cfile_size(CFile *f)
{
	fflush(f->out);
	fflush(f->helpers);
	return f->size + f->helpers_size;
}

char *cfile_finish(CFile *f, size_t *size)
{
	fclose(f->helpers);
	fclose(f->out);
	char *all = NULL;
	if (!f->failed) {
		*size = f->helpers_size + f->size;
		all = malloc(*size + 1);
		if (!all)
			abort();
		memcpy(all, f->helpers_text, f->helpers_size);
		memcpy(all + f->helpers_size, f->text, f->size);
		all[*size] = 0;
	}
	free(f->helpers_text);
	free(f->text);
	return all;
}
