/*
 * Vector accesses of the device dialect. In a loop of kind vector
 *
 *   for vector v (4) { store y[e + v] = f(load x[d + v]) }
 *
 * whose d is provably a multiple of 4, x[d] to x[d + 3] are one load of 16 bytes before the loop,
 * and likewise y after it. Buffers begin at multiples of 16 bytes. Choices among such loads and
 * constants, by conditions that are the same for all lanes, become vector loads under ifs.
 *
 * Iterations of a vector loop are independent, so reading all lanes before and writing them after
 * is sound unless a lane reads what an earlier statement of its own iteration wrote.
 */
#include <stdlib.h>
#include <string.h>

#include "codegen/cprint.h"

enum { MAX_ACCESSES = 32 };

/* A node of the loop's expressions that becomes an array of lanes. */
typedef struct Access {
	Node *node;            /* the load, the selects around loads, or the store */
	Node *buf, *start;     /* of lane 0; of the first load in selects */
	const char *array;
} Access;

typedef struct Lanes {
	CFn *c;
	Node *axis;
	Region *body;
	int64_t n;
	Access ld[MAX_ACCESSES], st[MAX_ACCESSES];
	int nld, nst;
	Node *written[MAX_ACCESSES];   /* buffers that earlier statements stored to */
	int nwritten;
	Map seen;
} Lanes;

static int bytes_of(const Node *buf) { return dtypes[buf->type->dtype].bits / 8; }

/* Elements of one vector: 16 bytes, or 8 if the loop has no more. */
static int64_t chunk(const Lanes *l, const Node *buf)
{
	int64_t most = 16 / bytes_of(buf), n = l->n < most ? l->n : most;
	return n * bytes_of(buf) >= 8 && l->n % n == 0 && n > 1 && (n & (n - 1)) == 0 ? n : 0;
}

static bool defined_inside(const Lanes *l, const Node *e)
{
	for (int k = 0; k < l->body->nresults; k++)
		if (l->body->results[k]->code == O_LET && contains(e, l->body->results[k]))
			return true;
	return contains(e, l->axis);
}

static bool was_written(const Lanes *l, const Node *buf)
{
	for (int k = 0; k < l->nwritten; k++)
		if (l->written[k] == buf)
			return true;
	return false;
}

/* The access to consecutive aligned elements that buf[idx] is; false if it is not. */
static bool consecutive(Lanes *l, Node *buf, int n, Node *const *idx, Access *a)
{
	Module *m = l->c->f->m;
	Node *flat = idx[0], *coef;
	DType d = buf->type->dtype;
	int64_t c = dtypes[d].bits >= 8 ? chunk(l, buf) : 0;

	if (c == 0 || (buf->type->space != SP_GLOBAL && buf->type->space != SP_SHARED))
		return false;
	for (int k = 1; k < n; k++)
		flat = x_add(m, x_mul(m, flat, buf->in[k]), idx[k]);
	if (!linear_in(m, flat, l->axis, &coef, &a->start) || !is_intv(coef, 1) ||
			defined_inside(l, a->start) || known_divisor(a->start) % c != 0)
		return false;
	a->buf = buf;
	return true;
}

/* Is e a load of consecutive elements, or a choice among such loads and constants? a is the
 * first. */
static bool gathered(Lanes *l, Node *e, Access *a)
{
	Access x = { 0 };

	if (e->code == O_NUM)
		return true;
	if (e->code == O_SELECT)
		return !defined_inside(l, e->in[0]) && gathered(l, e->in[1], a) && gathered(l, e->in[2], a);
	if (e->code != O_LOAD || was_written(l, e->in[0]) ||
			!consecutive(l, e->in[0], e->nin - 1, e->in + 1, &x))
		return false;
	if (!a->buf)
		a->buf = x.buf, a->start = x.start;
	return true;
}

static void find_loads(Lanes *l, Node *e)
{
	Access a = { .node = e };

	if (e->type->kind != T_SCALAR || e->code == O_LET || map_get(&l->seen, e))
		return;
	map_put(&l->seen, e, e);
	if (l->nld < MAX_ACCESSES && gathered(l, e, &a) && a.buf) {
		l->ld[l->nld++] = a;
		return;
	}
	if (e->code == O_SELECT) {
		find_loads(l, e->in[0]);
		return;
	}
	for (int k = e->code == O_LOAD || e->code == O_FOLD; k < e->nin; k++)
		find_loads(l, e->in[k]);
}

/* Is the buffer read or written by a statement after the k-th? */
static bool touched_later(const Lanes *l, int k, Node *buf)
{
	for (int j = k + 1; j < l->body->nresults; j++) {
		Node *s = l->body->results[j];
		for (int i = s->code == O_STORE; i < s->nin; i++)
			if (contains(s->in[i], buf))
				return true;
		if (s->code == O_STORE && s->in[0] == buf)
			return true;
	}
	return false;
}

static bool find(Lanes *l)
{
	for (int k = 0; k < l->body->nresults; k++) {
		Node *s = l->body->results[k];
		Access a = { .node = s };
		if (s->code != O_STORE && s->code != O_LET)
			return false;
		for (int i = s->code == O_STORE; i < s->nin; i++)
			find_loads(l, s->in[i]);
		if (s->code != O_STORE)
			continue;
		if (l->nst < MAX_ACCESSES && !was_written(l, s->in[0]) &&
				!touched_later(l, k, s->in[0]) &&
				consecutive(l, s->in[0], s->nin - 2, s->in + 1, &a))
			l->st[l->nst++] = a;
		if (l->nwritten == MAX_ACCESSES)
			return false;
		l->written[l->nwritten++] = s->in[0];
	}
	return l->nld + l->nst > 0;
}

/* ---- printing -------------------------------------------------------------------------------- */

/* The vector type of n elements. */
static const char *vec_type(DType d, int64_t n)
{
	bool half = n * (dtypes[d].bits / 8) == 8;
	if (d == DT_F64)
		return "f64x2";
	if (dtypes[d].bits == 64)
		return "i64x2";
	return d == DT_F32 ? half ? "f32x2" : "f32x4" : half ? "i32x2" : "i32x4";
}

static int words_of(DType d, int64_t n)
{
	return (int)(n * dtypes[d].bits / (dtypes[d].bits == 64 ? 64 : 32));
}

/* Element i of the vector `vec` as an expression. */
static void component(FILE *o, DType d, int64_t n, int64_t i)
{
	int bits = dtypes[d].bits;

	if (bits >= 32)
		fprintf(o, "%svec.%c", d == DT_U32 ? "(u32)" : d == DT_U64 ? "(u64)" : "", "xyzw"[i]);
	else
		fprintf(o, "(%s)tcc_u%d_at(%s, %lld)", cstorage(d), bits,
			words_of(d, n) == 4 ? "vec" : "tcc_i32x4(vec.x, vec.y, 0, 0)", (long long)i);
}

/* Word i of the vector made of the array `lane`. */
static void word(FILE *o, DType d, int i)
{
	int bits = dtypes[d].bits, per = bits >= 32 ? 1 : 32 / bits;

	if (per == 1) {
		fprintf(o, "%slane[%d]", d == DT_U32 ? "(i32)" : d == DT_U64 ? "(i64)" : "", i);
		return;
	}
	fprintf(o, "tcc_pack_u%d(", bits);
	for (int k = 0; k < per; k++)
		fprintf(o, "%s(u%d)lane[%d]", k ? ", " : "", bits, i * per + k);
	fputc(')', o);
}

/* The helper that moves n elements between an array and memory: "tcc_get_f16x8". */
static const char *mover(CFile *f, bool get, DType d, int64_t n)
{
	const char *t = cstorage(d), *vec = vec_type(d, n);
	const char *name = intern(f->m, arena_printf(f->m->arena, "tcc_%s_%sx%lld",
		get ? "get" : "put", t, (long long)n));
	FILE *o = f->helpers;

	if (!c_once(f, name))
		return name;
	if (get) {
		fprintf(o,
			"TCC_FN void %s(%s *lane, const void *from)\n{\n\tconst %s vec = tcc_ld_%s(from);\n",
			name, t, vec, vec);
		for (int64_t i = 0; i < n; i++) {
			fprintf(o, "\tlane[%lld] = ", (long long)i);
			component(o, d, n, i);
			fputs(";\n", o);
		}
	} else {
		fprintf(o, "TCC_FN void %s(void *to, const %s *lane)\n{\n\ttcc_st_%s(to, tcc_%s(", name, t,
			vec, vec);
		for (int i = 0; i < words_of(d, n); i++) {
			fputs(i ? ",\n\t\t" : "", o);
			word(o, d, i);
		}
		fputs("));\n", o);
	}
	fputs("}\n\n", o);
	return name;
}

static void address(CFn *c, const Access *a, int64_t plus)
{
	fprintf(c->o, "&%s[", (const char *)map_get(&c->names, a->buf));
	cx(c, a->start, P_ADD);
	if (plus)
		fprintf(c->o, " + %lld", (long long)plus);
	fputc(']', c->o);
}

static void plus(CFn *c, const char *array, int64_t from)
{
	fputs(array, c->o);
	if (from)
		fprintf(c->o, " + %lld", (long long)from);
}

static void move_in(Lanes *l, Access *a)
{
	CFn *c = l->c;
	DType d = a->buf->type->dtype;
	int64_t n = chunk(l, a->buf);

	cx_begin(c, 1, &a->start);
	for (int64_t k = 0; k < l->n; k += n) {
		cfn_indent(c);
		fprintf(c->o, "%s(", mover(c->f, true, d, n));
		plus(c, a->array, k);
		fputs(", ", c->o);
		address(c, a, k);
		fputs(");\n", c->o);
	}
	cx_end(c);
}

static void fill_in(Lanes *l, const char *array, Node *value)
{
	CFn *c = l->c;

	cfn_line(c, "TCC_UNROLL");
	cfn_line(c, "for (i32 v = 0; v < %lld; v++)", (long long)l->n);
	cfn_indent(c);
	fprintf(c->o, "\t%s[v] = ", array);
	cx(c, value, P_NONE);
	fputs(";\n", c->o);
}

/* What is gathered into the array. Addresses are evaluated under the conditions: loads in them may
 * need that. */
static void gather(Lanes *l, const char *array, Node *e)
{
	CFn *c = l->c;
	Access a = { .array = array };

	if (e->code == O_NUM) {
		fill_in(l, array, e);
		return;
	}
	if (e->code == O_LOAD) {
		consecutive(l, e->in[0], e->nin - 1, e->in + 1, &a);
		move_in(l, &a);
		return;
	}
	cx_begin(c, 1, &e->in[0]);
	cfn_indent(c);
	fputs("if (", c->o);
	cx(c, e->in[0], P_NONE);
	fputs(") {\n", c->o);
	cx_end(c);
	c->indent++;
	gather(l, array, e->in[1]);
	c->indent--;
	cfn_line(c, "} else {");
	c->indent++;
	gather(l, array, e->in[2]);
	c->indent--;
	cfn_line(c, "}");
}

static void print_load(Lanes *l, Access *a)
{
	CFn *c = l->c;

	a->array = cfn_name(c, a->buf->name ? a->buf->name : "t", true);
	cfn_line(c, "%s %s[%lld];", cstorage(a->buf->type->dtype), a->array, (long long)l->n);
	gather(l, a->array, a->node);
}

static void print_store(Lanes *l, const Access *a)
{
	CFn *c = l->c;
	DType d = a->buf->type->dtype;
	int64_t n = chunk(l, a->buf);
	Node *start = a->start;

	cx_begin(c, 1, &start);
	for (int64_t from = 0; from < l->n; from += n) {
		cfn_indent(c);
		fprintf(c->o, "%s(", mover(c->f, false, d, n));
		address(c, a, from);
		fputs(", ", c->o);
		plus(c, a->array, from);
		fputs(");\n", c->o);
	}
	cx_end(c);
}

static void print(Lanes *l)
{
	CFn *c = l->c;
	Module *m = c->f->m;

	for (int k = 0; k < l->nld; k++)
		print_load(l, &l->ld[k]);
	for (int k = 0; k < l->nst; k++) {
		Access *a = &l->st[k];
		a->array = cfn_name(c, a->buf->name ? a->buf->name : "out", true);
		cfn_line(c, "%s %s[%lld];", cstorage(a->buf->type->dtype), a->array, (long long)l->n);
	}
	cfn_line(c, "TCC_UNROLL");
	const char *v = cfn_axis(c, l->axis, "v");
	for (int k = 0; k < l->nld; k++)
		map_put(&c->lanes, l->ld[k].node, arena_printf(m->arena, "%s[%s]", l->ld[k].array, v));
	for (int k = 0; k < l->nst; k++)
		map_put(&c->lanes, l->st[k].node, arena_printf(m->arena, "%s[%s]", l->st[k].array, v));
	cfn_line(c, "for (i32 %s = 0; %s < %lld; %s++) {", v, v, (long long)l->n, v);
	c->indent++;
	cfn_region(c, l->body);
	c->indent--;
	cfn_line(c, "}");
	c->axes.n--;
	map_free(&c->lanes);
	c->lanes = (Map){ 0 };
	for (int k = 0; k < l->nst; k++)
		print_store(l, &l->st[k]);
}

/* A body under a condition that holds for the first lanes: vectors where it holds for all. */
static bool guarded(Lanes *l, Node *s)
{
	CFn *c = l->c;
	Module *m = c->f->m;
	Node *w = l->body->nresults == 1 ? l->body->results[0] : NULL, *first, *all;

	if (!w || w->code != O_WHEN || (w->nregions > 1 && w->regions[1]) ||
			!(first = cx_first_lanes(m, w->in[0], l->axis)))
		return false;
	l->body = w->regions[0];
	if (!find(l))
		return false;
	all = x_le(m, x_idx(m, l->n), first);
	cx_begin(c, 1, &all);
	cfn_indent(c);
	fputs("if (", c->o);
	cx(c, all, P_NONE);
	fputs(") {\n", c->o);
	cx_end(c);
	c->indent++;
	print(l);
	c->indent--;
	cfn_line(c, "} else {");
	c->indent++;
	cfn_loop(c, s);
	c->indent--;
	cfn_line(c, "}");
	return true;
}

bool cvec_loop(CFn *c, Node *s)
{
	Lanes l = { .c = c, .axis = s->in[0], .body = s->regions[0] };
	bool done = false;

	if (is_int(l.axis->in[0], &l.n) && l.n >= 2 && l.n <= 16) {
		if (l.body->nresults == 1 && l.body->results[0]->code == O_WHEN) {
			done = guarded(&l, s);
		} else if (find(&l)) {
			print(&l);
			done = true;
		}
	}
	map_free(&l.seen);
	return done;
}
