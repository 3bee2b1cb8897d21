/*
 * A user's operators, declared in text (ir/README.md, "Own operators"):
 *
 *   operator "my.domain:Softer" 1 (x: float) {a: float = 1} -> z elementwise { x / (a + abs(x)) }
 *   operator "my.domain:Norm" 1 (x: float) {} -> y composed { e = x * x; x / reduce_sum(e, [-1]) }
 *   operator "my.domain:Sums" 1 (x: f32) {} -> y tensor (i: x_0 - 1) f32 { %x[i] + %x[i + 1] }
 *   operator "my.domain:Sorted" 1 (x: f32) {} -> y function "sorted" in "sorted.c" (i: x_0) f32
 *
 * A signature is op.c's, the first two kinds of definition are body.c's, the third the IR's text,
 * and the fourth a C function's name and what its results are.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/ops/ops.h"
#include "ir/parse.h"

static const struct { const char *word; RowKind kind; } kinds[] = {
	{ "elementwise", ROW_ELEM }, { "composed", ROW_COMP }, { "tensor", ROW_INDEX },
	{ "function", ROW_HOST } };
enum { NKINDS = sizeof kinds / sizeof *kinds };

/* ---- the third and fourth kind -------------------------------------------------------------- */

/* A name in the text, and what stands for it once the text is read. */
typedef struct Bound { P *p; Map map; } Bound;

static void bind_operand(Bound *q, const char *name, Node *t)
{
	Module *m = q->p->m;
	if (!t || t->type->kind != T_TENSOR)
		return;
	ps_enter(q->p, &q->p->values, name, t);
	for (int i = 0; i < t->type->rank; i++) {
		Node *size = x_sym(m, NULL, 0, INT32_MAX);
		ps_push_local(q->p, arena_printf(m->arena, "%s_%d", name, i), size);
		map_put(&q->map, size, dim_of(t, i));
	}
}

static void bind_attribute(Bound *q, const Attr *a)
{
	Module *m = q->p->m;
	if (a->kind == A_INT)
		ps_push_local(q->p, a->name, x_idx(m, a->i));
	else if (a->kind == A_FLOAT)
		ps_push_local(q->p, a->name, x_flt(m, DT_F32, a->f));
}

/* e with every index of a read within its dimension, or reported when it is not. */
static Node *bounded(Module *m, Node *e)
{
	Map map = { 0 };
	int n;
	Node **list = topo_scalar(e, &n), *idx[MAX_RANK];
	for (int i = 0; i < n; i++) {
		if (list[i]->code != O_READ)
			continue;
		Node *r = subst(m, list[i], &map, false), *t = r->in[0];
		for (int k = 0; k < t->type->rank; k++) {
			Node *at = r->in[k + 1], *size = dim_of(t, k);
			bool in = prove_le(m, x_idx(m, 0), at) && prove_lt(m, at, size);
			idx[k] = in ? at : x2(m, O_BOUND, at, size);
		}
		map_put(&map, list[i], x_read(m, t, idx));
	}
	free(list);
	e = subst(m, e, &map, false);
	map_free(&map);
	return e;
}

/* What the text says, with its names' values: simplified as builders' definitions are. */
static Node *defined(Build *b, Map *map, int n, Node **in, Node *body)
{
	Module *m = b->m;
	Node *axes[MAX_RANK], *e;
	for (int i = 0; i < n; i++) {
		e = subst(m, in[i]->in[0], map, false);
		require(m, x_le(m, x_idx(m, 0), e), b->loc, "dimension %d of %s's result is negative", i,
			b->op->onnx);
		axes[i] = x_axis(m, extent(m, e));
		map_put(map, in[i], axes[i]);
	}
	return t_tensor(m, n, axes, bounded(m, subst(m, body, map, true)));
}

static Node *read_tensor(P *p, Build *b, Map *map)
{
	Node *in[MAX_RANK], *body;

	ps_want(p, "tensor");
	int n = ps_axis_list(p, in, MAX_RANK);
	DType d = ps_dtype(p);
	body = ps_block(p);
	if (p->tok != T_END || body->type->dtype != d)
		ps_bad(p, "the body is %s, not %s", dtypes[body->type->dtype].text, dtypes[d].text);
	return defined(b, map, n, in, body);
}

/* The attributes as a constant for the runtime (abi.h, TccFunctionAttr): records of 8-byte words,
 * kind and n, bytes of the name and of the values, both with what fills them up, then these. */
static Node *attribute_words(Build *b)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		abort();
	for (const Attr *a = b->attrs; a; a = a->next) {
		const void *v = a->kind == A_INT ? (const void *)&a->i : a->kind == A_FLOAT ? &a->f
			: a->kind == A_INTS ? (const void *)a->is : a->kind == A_FLOATS ? (const void *)a->fs
			: a->s;
		uint32_t n = a->kind == A_STR ? (uint32_t)strlen(a->s)
			: a->kind == A_INT || a->kind == A_FLOAT ? 1 : (uint32_t)a->n;
		uint32_t bytes = a->kind == A_STR ? n + 1 : n * 8;
		uint32_t name = (uint32_t)strlen(a->name) + 1, pad = 0;
		if (a->kind > A_FLOATS) {
			unsupported(b, "attribute '%s': functions take numbers, lists of them and strings",
				a->name);
			continue;
		}
		uint32_t head[4] = { a->kind, n, (name + 7) / 8 * 8, (bytes + 7) / 8 * 8 };
		fwrite(head, sizeof head, 1, f);
		fwrite(a->name, 1, name, f);
		fwrite(&(uint64_t){ pad }, 1, head[2] - name, f);
		if (bytes)
			fwrite(v, 1, bytes, f);
		fwrite(&(uint64_t){ pad }, 1, head[3] - bytes, f);
	}
	fclose(f);
	int64_t dim = (int64_t)size;
	Node *t = t_const(b->m, DT_U8, 1, &dim, data_new(b->m, DT_U8, dim,
		arena_dup(b->m->arena, text, size + 1)));
	free(text);
	return t;
}

/* Element types that lie in memory as C has them. */
static bool plain_type(DType d)
{
	return d == DT_BOOL || d == DT_STRING || dtypes[d].bits >= 8;
}

/* Result k: a call of the function for it. in[0]: the attributes. */
static Node *called(Build *b, int k, const Type *type, int nin, Node **in)
{
	Module *m = b->m;
	const Function *f = b->op->function;
	const char *args = arena_printf(m->arena, "d #%d #%d R 0 n00 #%d", k, dtypes[type->dtype].onnx,
		b->nin);
	int at = 1;

	for (int i = 0; i < b->nin; i++)
		if (!b->in[i])
			args = arena_printf(m->arena, "%s #-1", args);
		else
			args = arena_printf(m->arena, "%s %d #%d R%d", args, at,
				dtypes[dtype_of(b->in[i])].onnx, at), at++;
	return t_host(m, arena_printf(m->arena, "c.%s", f->symbol), args, type, nin, in);
}

static Node *read_results(P *p, Build *b, Map *map)
{
	const Sig *s = op_sig(b->op);
	Node *in[10], *axes[MAX_RANK], *dims[MAX_RANK], **out = NEWN(b->m, Node *, s->nout + 1);
	int n = 1, k = 0;

	in[0] = attribute_words(b);
	for (int i = 0; i < b->nin; i++) {
		if (b->in[i] && (b->in[i]->type->kind != T_TENSOR || !plain_type(dtype_of(b->in[i]))))
			return unsupported(b, "operand %d: functions take tensors of whole bytes", i);
		if (b->in[i] && n == 10)
			return unsupported(b, "functions take at most 9 operands");
		if (b->in[i])
			in[n++] = b->in[i];
	}
	do {
		int rank = ps_axis_list(p, axes, MAX_RANK);
		DType d = ps_dtype(p);
		if (k == s->nout || !plain_type(d) || d == DT_STRING)
			ps_bad(p, k == s->nout ? "the signature has %d results" : "a result of this type",
				s->nout);
		for (int i = 0; i < rank; i++)
			dims[i] = extent(b->m, subst(b->m, axes[i]->in[0], map, false));
		out[k] = called(b, k, ty_tensor(b->m, d, rank, dims), n, in);
		k++;
	} while (ps_eat(p, ","));
	if (p->tok != T_END || k != s->nout)
		ps_bad(p, "the signature has %d results", s->nout);
	return k == 1 ? out[0] : t_tuple(b->m, k, out);
}

static Node *build_text(Build *b)
{
	const Sig *s = op_sig(b->op);
	P *p = calloc(1, sizeof *p);
	Bound q = { .p = p };
	Node *volatile r = NULL;
	if (!p)
		abort();
	const char *text = b->op->body;
	*p = (P){ .m = b->m, .text = text, .s = text, .start = text, .level = LEVEL_TENSOR };
	if (!setjmp(p->fail)) {
		for (int i = 0; i < s->nin; i++)
			bind_operand(&q, s->in[i].name, b->in[i]);
		for (const Attr *a = b->attrs; a; a = a->next)
			bind_attribute(&q, a);
		ps_next(p);
		r = b->op->kind == ROW_HOST ? read_results(p, b, &q.map) : read_tensor(p, b, &q.map);
	} else {
		fail(b, "the definition of %s cannot be read", b->op->onnx);
	}
	map_free(&q.map);
	free(p->values.key);
	free(p->values.val);
	free(p->symbols.key);
	free(p->symbols.val);
	map_free(&p->stated);
	free(p->locals);
	free(p);
	return r;
}

/* ---- declarations --------------------------------------------------------------------------- */

/* The end of a text that begins at s: of a string, of what brackets enclose; NULL without end. */
static const char *closing(const char *s)
{
	for (int depth = 0; *s; s++) {
		if (*s == '"') {
			s = strchr(s + 1, '"');
			if (!s)
				return NULL;
		} else if (strchr("([{", *s)) {
			depth++;
		} else if (strchr(")]}", *s) && --depth == 0) {
			return s + 1;
		}
	}
	return NULL;
}

/* The definition's first word after a signature at s, outside of brackets; which kind it is of. */
static const char *definition_of(const char *s, int *kind)
{
	while (*s) {
		for (*kind = 0; *kind < NKINDS; ++*kind) {
			size_t n = strlen(kinds[*kind].word);
			if (!strncmp(s, kinds[*kind].word, n) && !ps_word_char(s[n]))
				return s;
		}
		if (*s == '(' || *s == '{') {
			if (!(s = closing(s)))
				return NULL;
		} else if (ps_word_char(*s)) {
			while (ps_word_char(*s))
				s++;
		} else {
			s++;
		}
	}
	return NULL;
}

static const char *cut(Module *m, const char *b, const char *e)
{
	while (b < e && isspace((unsigned char)*b))
		b++;
	while (e > b && isspace((unsigned char)e[-1]))
		e--;
	return arena_printf(m->arena, "%.*s", (int)(e - b), b);
}

static const char *ir_name(Module *m, const char *onnx)
{
	char *s = arena_printf(m->arena, "%s", onnx);
	for (char *c = s; *c; c++)
		if (!isalnum((unsigned char)*c))
			*c = '_';
	return s;
}

/* A file that the text names, which lies beside the text; whole where it is there. */
static const char *beside(P *p, const char *file)
{
	Module *m = p->m;
	const char *text = m->diag->file, *slash = text ? strrchr(text, '/') : NULL;
	const char *path = *file == '/' || !slash ? file
		: arena_printf(m->arena, "%.*s/%s", (int)(slash - text), text, file);
	char *whole = realpath(path, NULL);

	if (!whole)
		ps_bad(p, "%s: no such file", path);
	path = intern(m, whole);
	free(whole);
	return path;
}

static bool is_identifier(const char *s)
{
	bool ok = !isdigit((unsigned char)*s) && *s;

	for (; ok && *s; s++)
		ok = isalnum((unsigned char)*s) || *s == '_';
	return ok;
}

/* function "symbol" in "file" at def; returns where its results end. */
static const char *ps_function(P *p, Op *op, const char *def)
{
	Function *f = NEW(p->m, Function);
	p->s = def;
	ps_next(p);
	ps_want(p, "function");
	f->symbol = ps_string(p);
	if (!is_identifier(f->symbol))
		ps_bad(p, "'%s' is no name of a C function", f->symbol);
	ps_want(p, "in");
	f->file = beside(p, ps_string(p));
	const char *begin = p->start, *s = begin;
	for (bool more = true; more; s += more) {
		s += strspn(s, " \t\n");
		s = *s == '(' ? closing(s) : NULL;
		if (!s)
			ps_bad(p, "a result's shape in ( ) and its type are expected");
		s += strspn(s, " \t\n");
		while (ps_word_char(*s))
			s++;
		const char *next = s + strspn(s, " \t\n");
		more = *next == ',';
		s = more ? next : s;
	}
	op->function = f;
	op->body = cut(p->m, begin, s);
	op->build = build_text;
	return s;
}

void ps_operator(P *p)
{
	Module *m = p->m;
	Op *op = NEW(m, Op);
	int kind;
	ps_want(p, "operator");
	op->onnx = ps_string(p);
	const char *colon = strrchr(op->onnx, ':');
	if (!colon || colon == op->onnx || !colon[1] || isdigit((unsigned char)*op->onnx))
		ps_bad(p, "an operator is named \"domain:Name\"");
	op->name = ir_name(m, op->onnx);
	if (library_find(m, op->name, NULL) || op_find_onnx(cut(m, op->onnx, colon), colon + 1))
		ps_bad(p, "there is an operator %s already", op->onnx);
	op->since = ps_small(p, 1, 1 << 20);
	const char *sig = p->start, *def = definition_of(sig, &kind), *brace = def, *end;
	if (!def)
		ps_bad(p, "a definition is expected: elementwise, composed, tensor or function");
	op->code = O_GRAPH;
	op->kind = kinds[kind].kind;
	op->sig = cut(m, sig, def);
	op->doc = "";
	if (!(op->parsed = sig_parse(m, op->sig)))
		ps_bad(p, "'%s' is no signature", op->sig);
	brace = strchr(def, '{');
	end = op->kind == ROW_HOST ? ps_function(p, op, def) : brace ? closing(brace) : NULL;
	if (!end)
		ps_bad(p, "a definition in { } is expected");
	if (op->kind == ROW_HOST) {
		;
	} else if (op->kind == ROW_INDEX) {
		op->body = cut(m, def, end);
		op->build = build_text;
	} else {
		op->body = cut(m, brace + 1, end - 1);
	}
	p->s = end;
	ps_next(p);
	vec_push(m, &m->library, op);
}

bool library_parse(Module *m, const char *text)
{
	P *p = calloc(1, sizeof *p);
	bool ok = false;
	if (!p)
		abort();
	*p = (P){ .m = m, .text = text, .s = text, .start = text };
	if (!setjmp(p->fail)) {
		ps_next(p);
		while (p->tok != T_END)
			ps_operator(p);
	}
	ok = p->tok == T_END;
	free(p);
	return ok;
}

const Function *library_function(const Module *m, const char *symbol)
{
	for (int i = 0; i < m->library.n; i++) {
		const Function *f = ((const Op *)m->library.at[i])->function;
		if (f && !strcmp(f->symbol, symbol))
			return f;
	}
	return NULL;
}

void library_print(const Module *m, Level level, FILE *f)
{
	bool any = false;
	for (int i = 0; i < m->library.n; i++) {
		const Op *op = m->library.at[i];
		if (level != LEVEL_GRAPH && !op->function)
			continue;
		if (!any)
			fputc('\n', f);
		any = true;
		fprintf(f, "operator \"%s\" %d %s ", op->onnx, op->since, op->sig);
		if (op->function)
			fprintf(f, "function \"%s\" in \"%s\" %s\n", op->function->symbol, op->function->file,
				op->body);
		else if (op->kind == ROW_INDEX)
			fprintf(f, "%s\n", op->body);
		else
			fprintf(f, "%s { %s }\n", op->kind == ROW_ELEM ? "elementwise" : "composed", op->body);
	}
}
