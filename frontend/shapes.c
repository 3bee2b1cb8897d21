/*
 * Types of the graph's inputs. A dimension is a number or a symbol: one symbol for each name
 * (checked at entry; names that one input uses twice do not count) that the model uses (its text
 * means nothing), an own one where there is no name. A declared 0 or less is "unknown", as
 * exporters use it; only a vector of int64 (axes, sizes) declared empty is empty, for the number of
 * its elements decides ranks. --shape and --dim bound symbols or make them numbers.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"

typedef struct Range { int64_t lo, hi; } Range;
static const Range any_size = { 0, INT32_MAX };

/* A dimension's name in the model. */
typedef struct Dim { const char *param; Range range; Node *expr; } Dim;

typedef struct Input { int rank; const OnnxDim *dims; Range *range; } Input;

struct ShapeTable {
	OnnxModel *om;
	Names dims;      /* param to Dim */
	Names taken;     /* symbols' names */
	Input *input;    /* by graph input; rank -1: unknown */
};

#define BAD(t, code, ...) (diag_error((t)->om->diag, code, NULL, __VA_ARGS__), false)

bool is_initializer(const OnnxGraph *g, const char *name)
{
	for (int i = 0; i < g->ninit; i++)
		if (g->init[i]->name == name)
			return true;
	return false;
}

/* "8", "1..32" or "?" at *s, which moves past it. */
static bool parse_range(const char **s, Range *r)
{
	char *end;

	if (**s == '?') {
		*r = any_size;
		++*s;
		return true;
	}
	if (!isdigit((unsigned char)**s))
		return false;
	r->lo = r->hi = strtoll(*s, &end, 10);
	if (end[0] == '.' && end[1] == '.') {
		if (!isdigit((unsigned char)end[2]))
			return false;
		r->hi = strtoll(end + 2, &end, 10);
	}
	*s = end;
	return r->lo <= r->hi && r->hi <= any_size.hi;
}

static bool meet(Range *a, Range b)
{
	a->lo = a->lo > b.lo ? a->lo : b.lo;
	a->hi = a->hi < b.hi ? a->hi : b.hi;
	return a->lo <= a->hi;
}

static Dim *dim_of_param(ShapeTable *t, const char *param)
{
	Dim *d = names_get(&t->dims, param);

	if (!d) {
		d = NEW(t->om->m, Dim);
		*d = (Dim){ .param = param, .range = any_size };
		names_put(t->om->m, &t->dims, param, d);
	}
	return d;
}

/* ---- options -------------------------------------------------------------------------------- */

/* The name before the last '='; NULL after reporting. */
static const char *option_name(ShapeTable *t, const char *what, const char *text, const char **rest)
{
	const char *eq = strrchr(text, '=');

	if (!eq || eq == text) {
		diag_error(t->om->diag, X_USAGE, NULL, "%s %s: expected NAME=%s", what, text,
			*what == '-' && what[2] == 's'
			? "1x3x?x1..32" : "8");
		return NULL;
	}
	*rest = eq + 1;
	return intern(t->om->m, arena_printf(t->om->m->arena, "%.*s", (int)(eq - text), text));
}

static bool dim_option(ShapeTable *t, const char *text)
{
	const char *s, *name = option_name(t, "--dim", text, &s);
	Range r;

	if (!name)
		return false;
	Dim *d = names_get(&t->dims, name);
	if (!d)
		return BAD(t, X_USAGE, "--dim %s: no input has a dimension of this name", text);
	if (!parse_range(&s, &r) || *s)
		return BAD(t, X_USAGE, "--dim %s: expected a size, as 8 or 1..32", text);
	return meet(&d->range, r)
		|| BAD(t, X_USAGE, "--dim %s: contradicts what was said before", text);
}

static bool axis_option(ShapeTable *t, const char *text, Input *in, int axis, Range r)
{
	const OnnxDim *d = axis < in->rank && in->dims ? &in->dims[axis] : NULL;

	if (d && d->value > 0 && (d->value < r.lo || d->value > r.hi))
		return BAD(t, X_USAGE, "--shape %s: the model fixes dimension %d to %lld", text, axis,
			(long long)d->value);
	Range *to = d && *d->param
		&& d->value <= 0 ? &dim_of_param(t, d->param)->range : &in->range[axis];
	return meet(to, r) || BAD(t, X_USAGE,
		"--shape %s: dimension %d contradicts what was said before",
		text, axis);
}

static bool shape_option(ShapeTable *t, const char *text)
{
	const OnnxGraph *g = t->om->graph;
	const char *s, *name = option_name(t, "--shape", text, &s);
	Range r[MAX_RANK];
	int at = 0, n = 0;

	if (!name)
		return false;
	while (at < g->nin && g->in[at].name != name)
		at++;
	if (at == g->nin)
		return BAD(t, X_USAGE, "--shape %s: the model has no input of this name", text);
	while (*s) {
		if (n == MAX_RANK || !parse_range(&s, &r[n++]) || (*s && *s != 'x') || (*s == 'x' && !s[1]))
			return BAD(t, X_USAGE, "--shape %s: expected sizes, as 1x3x?x1..32", text);
		s += *s == 'x';
	}
	Input *in = &t->input[at];
	if (in->rank < 0) {
		in->rank = n;
		in->range = NEWN(t->om->m, Range, n);
		for (int i = 0; i < n; i++)
			in->range[i] = any_size;
	}
	if (in->rank != n)
		return BAD(t, X_USAGE, "--shape %s: input \"%s\" has %d dimensions", text, name, in->rank);
	bool ok = true;
	for (int i = 0; i < n; i++)
		ok = axis_option(t, text, in, i, r[i]) && ok;
	return ok;
}

/* ---- the table ------------------------------------------------------------------------------ */

static void note_input(ShapeTable *t, int i)
{
	const OnnxType *type = t->om->graph->in[i].type;
	Input *in = &t->input[i];

	in->rank = -1;
	if (!type || (type->kind != OT_TENSOR && type->kind != OT_SPARSE) || !type->has_shape)
		return;
	in->rank = type->rank;
	in->dims = type->dims;
	in->range = NEWN(t->om->m, Range, type->rank);
	for (int k = 0; k < type->rank; k++) {
		in->range[k] = any_size;
		if (type->dims[k].value <= 0 && *type->dims[k].param)
			dim_of_param(t, type->dims[k].param);
	}
}

ShapeTable *shapes_new(OnnxModel *om, const ImportOptions *opt)
{
	ShapeTable *t = NEW(om->m, ShapeTable);
	const OnnxGraph *g = om->graph;
	bool ok = true;

	t->om = om;
	t->input = NEWN(om->m, Input, g->nin);
	for (int i = 0; i < g->nin; i++)
		note_input(t, i);
	for (int i = 0; i < opt->ndim; i++)
		ok = dim_option(t, opt->dim[i]) && ok;
	for (int i = 0; i < opt->nshape; i++)
		ok = shape_option(t, opt->shape[i]) && ok;
	return ok ? t : NULL;
}

/* An identifier for the printed IR: any text may be a dimension's name in a model. Fresh symbols
 * are called s1, s2 ..., so no other may be. */
static const char *symbol_name(ShapeTable *t, const char *text)
{
	Module *m = t->om->m;
	char *s = arena_printf(m->arena, "%.60s", text), *to = s;
	const char *name;

	for (const char *from = s; *from; from++) {
		bool plain = isalnum((unsigned char)*from) || *from == '_';
		if (plain || (to > s && to[-1] != '_'))
			*to++ = plain ? *from : '_';
	}
	while (to > s && to[-1] == '_')
		to--;
	*to = 0;
	if (!*s || isdigit((unsigned char)*s) || (*s == 's' && isdigit((unsigned char)s[1])))
		s = arena_printf(m->arena, "d%s", s);
	name = intern(m, s);
	for (int i = 1; names_get(&t->taken, name); i++)
		name = intern(m, arena_printf(m->arena, "%s_%d", s, i));
	names_put(m, &t->taken, name, t);
	return name;
}

static Node *size_expr(ShapeTable *t, Range r, const char *name)
{
	if (r.lo == r.hi)
		return x_idx(t->om->m, r.lo);
	return x_sym(t->om->m, symbol_name(t, name), r.lo, r.hi);
}

static bool is_int64_vector(const OnnxType *t)
{
	return t->elem == dtypes[DT_I64].onnx && t->rank == 1;
}

/* A name that stands twice in one input ("d" for every unknown
 * size) is no statement that sizes are equal. */
static bool is_filler(const ShapeTable *t, const char *param)
{
	for (int i = 0; i < t->om->graph->nin; i++) {
		int n = 0;
		for (int k = 0; t->input[i].dims && k < t->input[i].rank; k++)
			n += strcmp(t->input[i].dims[k].param, param) == 0;
		if (n > 1)
			return true;
	}
	return false;
}

static Node *axis_expr(ShapeTable *t, int input, int axis)
{
	const Input *in = &t->input[input];
	const OnnxDim *d = in->dims ? &in->dims[axis] : NULL;

	if (d && (d->value > 0 || (d->value == 0 && is_int64_vector(t->om->graph->in[input].type))))
		return x_idx(t->om->m, d->value);
	if (d && *d->param && !is_filler(t, d->param)) {
		Dim *dim = dim_of_param(t, d->param);
		if (!dim->expr)
			dim->expr = size_expr(t, dim->range, d->param);
		return dim->expr;
	}
	return size_expr(t, in->range[axis],
		arena_printf(t->om->m->arena, "%s_%d", t->om->graph->in[input].name, axis));
}

static const Type *tensor_type(ShapeTable *t, int i)
{
	const OnnxValue *v = &t->om->graph->in[i];
	const Input *in = &t->input[i];
	Module *m = t->om->m;
	Node *dims[MAX_RANK];
	DType d = dtype_of_onnx(v->type->elem);

	if (d == DT_NONE)
		diag_error(t->om->diag, X_UNSUPPORTED, NULL, "input \"%s\" has element type %s (code %d)",
			v->name,
			onnx_type_name(v->type->elem) ? onnx_type_name(v->type->elem) : "unknown",
			v->type->elem);
	else if (in->rank < 0)
		diag_error(t->om->diag, X_UNSUPPORTED, NULL,
			"input \"%s\" has no shape; give one with --shape '%s=1x3x?x?'", v->name,
			v->name);
	else if (in->rank > MAX_RANK)
		diag_error(t->om->diag, X_UNSUPPORTED, NULL,
			"input \"%s\" has %d dimensions; the limit is %d", v->name, in->rank,
			MAX_RANK);
	else {
		for (int k = 0; k < in->rank; k++) {
			dims[k] = axis_expr(t, i, k);
			if (dims[k]->code != O_SYM)
				continue;
			SymDef *s = NEW(m, SymDef);
			*s = (SymDef){ dims[k], -1, k };   /* the caller knows the position */
			vec_push(m, &m->symdefs, s);
		}
		return ty_tensor(m, d, in->rank, dims);
	}
	return NULL;
}

const Type *value_type(OnnxModel *om, const OnnxType *type)
{
	Module *m = om->m;
	Node *dims[MAX_RANK];
	const Type *of = NULL;
	int rank = type && type->kind == OT_TENSOR ? type->has_shape ? type->rank : -1 : 0;

	if (type && (type->kind == OT_SEQ || type->kind == OT_OPTIONAL || type->kind == OT_MAP)
			&& !(of = value_type(om, type->of)))
		return NULL;
	switch (type ? type->kind : OT_NONE) {
	case OT_TENSOR:
		if (dtype_of_onnx(type->elem) == DT_NONE || rank > MAX_RANK)
			return NULL;
		for (int i = 0; i < rank; i++)
			dims[i] = x_idx(m, type->dims[i].value > 0 ? type->dims[i].value : -1);
		return ty_tensor(m, dtype_of_onnx(type->elem), rank, dims);
	case OT_SEQ:
		return ty_of(m, T_SEQ, DT_NONE, of);
	case OT_OPTIONAL:
		return ty_of(m, T_OPTIONAL, DT_NONE, of);
	case OT_MAP:
		return dtype_of_onnx(type->elem) == DT_NONE || of->kind != T_TENSOR ? NULL
			: ty_of(m, T_MAP, dtype_of_onnx(type->elem), of);
	default:
		return NULL;
	}
}

const Type *shapes_input(ShapeTable *t, int i)
{
	const OnnxValue *v = &t->om->graph->in[i];

	if (!v->type) {
		diag_error(t->om->diag, X_INVALID, NULL, "input \"%s\" has no type", v->name);
		return NULL;
	}
	if (v->type->kind == OT_TENSOR)
		return tensor_type(t, i);
	const Type *type = value_type(t->om, v->type);
	if (!type)
		diag_error(t->om->diag, X_UNSUPPORTED, NULL,
			"input \"%s\" has a type that is not supported", v->name);
	return type;
}
