/* ai.onnx.ml: scaling, encoding, linear models (support vectors are in svm.c, trees in trees.c). */
#include <math.h>
#include <string.h>
#include <strings.h>
#include "ml.h"

/* ---- attributes as constants ----------------------------------------------------------------- */

int
attr_len(const Build *b, const char *name)
{
	const Attr *a = attr_find(b->attrs, name);

	return a ? a->n : 0;
}

Node *
attr_const(Build *b, const char *name, DType d, int rank, const int64_t *dims)
{
	const Attr *a = attr_find(b->attrs, name);
	int64_t n = 1, k;
	Data *p;

	for (k = 0; k < rank; k++)
		if (!mul_ok(n, dims[k], &n))
			return fail(b, "%s has impossible dimensions", name);
	if (!a || a->n == 0)
		return NULL;
	if (a->n != n)
		return fail(b, "%s has %d entries, must have %lld", name, a->n, (long long)n);
	p = data_new(b->m, d, n, a->kind == A_STRS ? a->ss : NULL);
	for (k = 0; k < n && a->kind != A_STRS; k++)
		data_set((void *)p->bytes, d, k,
			a->kind == A_INTS ? num_cast(d, DT_I64, (Num){.i = a->is[k]})
			: dt_float(d) ? num_round(d, a->fs[k]) : num_cast(d, DT_F64, (Num){.f = a->fs[k]}));
	return t_const(b->m, d, rank, dims, p);
}

Node *
class_labels(Build *b, const char *ints, const char *strings)
{
	int64_t n = attr_len(b, strings), k = attr_len(b, ints);

	if (n == 0 && k == 0)
		return fail(b, "neither %s nor %s is given", ints, strings);
	return n ? attr_const(b, strings, DT_STRING, 1, &n) : attr_const(b, ints, DT_I64, 1, &k);
}

Node *
label_of(Module *m, Node *labels, Node *which)
{
	Node *axis = x_axis(m, dim_of(which, 0)), *i = x_cast(m, DT_INDEX, x_read(m, which, &axis));

	i = x_min(m, x_max(m, i, x_idx(m, 0)), x_addi(m, dim_of(labels, 0), -1));
	return t_tensor(m, 1, &axis, x_read(m, labels, &i));
}

Node *
label_if(Module *m, Node *labels, Node *score, double above)
{
	Node *axis = x_axis(m, dim_of(score, 0)), *idx[2] = {axis, x_idx(m, 0)}, *one = x_idx(m, 1),
		*yes;
	Node *s = x_read(m, score, idx);

	yes = x_lt(m, x_flt(m, s->type->dtype, above), s);
	return t_tensor(m, 1, &axis,
		x_select(m, yes, x_read(m, labels, &one), x_read(m, labels, &idx[1])));
}

Node *
feature_rows(Build *b, Node *x)
{
	Node *dims[2];

	if (rank_of(x) == 2)
		return x;
	if (rank_of(x) != 1)
		return fail(b, "the operand has %d dimensions, must have 1 or 2", rank_of(x));
	dims[0] = x_idx(b->m, 1);
	dims[1] = dim_of(x, 0);
	return reshape(b->m, x, 2, dims);
}

/* ---- what becomes of scores ------------------------------------------------------------------ */

bool
post_attr(Build *b, Post *p)
{
	static const char *const names[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
	const char *s = attr_str(b, "post_transform");
	int i;

	for (i = 0; i < 5; i++)
		if (strcmp(s, names[i]) == 0) {
			*p = (Post)i;
			return true;
		}
	return fail(b, "post_transform \"%s\" is not known", s) != NULL;
}

Node *
ml_logistic(Module *m, Node *x)
{
	DType d = x->type->dtype;
	Node *one = x_int(m, d, 1), *v;

	v = x2(m, O_DIV, one, x_add(m, one, x1(m, O_EXP, x1(m, O_NEG, x1(m, O_ABS, x)))));
	return x_select(m, x_lt(m, x, x_int(m, d, 0)), x_sub(m, one, v), v);
}

/* sqrt(2) erfinv(2 x - 1), by Winitzki's approximation. */
static Node *
probit(Module *m, Node *x)
{
	DType d = x->type->dtype;
	Node *one = x_int(m, d, 1), *y = x_sub(m, x_mul(m, x_int(m, d, 2), x), one), *l, *v, *w;

	l = x1(m, O_LOG, x_mul(m, x_sub(m, one, y), x_add(m, one, y)));
	v = x_add(m, x_flt(m, d, 2 / (3.14159 * 0.147)), x_mul(m, x_flt(m, d, 0.5), l));
	w = x1(m, O_SQRT, x_sub(m, x_mul(m, v, v), x_mul(m, x_flt(m, d, 1 / 0.147), l)));
	w = x_mul(m, x_flt(m, d, 1.41421356), x1(m, O_SQRT, x_sub(m, w, v)));
	return x_select(m, x_lt(m, y, x_int(m, d, 0)), x1(m, O_NEG, w), w);
}

static Node *
each(Module *m, Node *t, Node *(*f)(Module *, Node *))
{
	Node *axes[MAX_RANK];

	axes_new(m, rank_of(t), t->type->dims, axes);
	return t_tensor(m, rank_of(t), axes, f(m, x_read(m, t, axes)));
}

/* Softmax of the scores that are not zero; zeros stay (nearly) zero. */
static Node *
softmax_zero(Build *b, Node *s)
{
	Module *m = b->m;
	Node *top = call(b, "reduce_max", 2, (Node *[]){s, t_ints(m, 1, (int64_t[]){1})}, NULL),
		*axes[2], *e, *t, *z, *v;
	DType d = dtype_of(s);

	if (!top)
		return NULL;
	axes_new(m, 2, s->type->dims, axes);
	v = x_read(m, s, axes);
	t = x_bread(m, top, 2, axes);
	z = x_le(m, x1(m, O_ABS, v), x_flt(m, d, 0.0000001));
	e = x_select(m, z, x_mul(m, v, x1(m, O_EXP, x1(m, O_NEG, t))), x1(m, O_EXP, x_sub(m, v, t)));
	e = t_tensor(m, 2, axes, e);
	t = call(b, "reduce_sum", 2, (Node *[]){e, t_ints(m, 1, (int64_t[]){1})}, NULL);
	return t ? call(b, "div", 2, (Node *[]){e, t}, NULL) : NULL;
}

Node *
post_transform(Build *b, Post p, Node *s)
{
	if (is_intv(dim_of(s, 1), 1) && p != POST_PROBIT)
		return s;
	switch (p) {
	case POST_LOGISTIC: return each(b->m, s, ml_logistic);
	case POST_PROBIT: return each(b->m, s, probit);
	case POST_SOFTMAX: return call(b, "softmax", 1, &s, "axis=1");
	case POST_SOFTMAX_ZERO: return softmax_zero(b, s);
	default: return s;
	}
}

Node *
two_columns(Build *b, Post p, Node *score, bool signed_)
{
	Module *m = b->m;
	Node *axes[2] = {x_axis(m, dim_of(score, 0)), x_axis(m, x_idx(m, 2))},
		*idx[2] = {axes[0], x_idx(m, 0)}, *s, *t;
	DType d = dtype_of(score);

	s = x_read(m, score, idx);
	t = signed_ || p == POST_LOGISTIC ? x1(m, O_NEG, s) : x_sub(m, x_int(m, d, 1), s);
	s = x_select(m, x_eq(m, axes[1], x_idx(m, 0)), t, s);
	if (p == POST_LOGISTIC)
		s = ml_logistic(m, s);
	else if (p == POST_PROBIT)
		s = probit(m, s);
	return t_tensor(m, 2, axes, s);
}

/* ---- features -------------------------------------------------------------------------------- */

/* A constant [n] or [1] read for feature axis `at`. */
static Node *
feature_read(Module *m, Node *t, Node *at)
{
	Node *zero = x_idx(m, 0);

	return x_read(m, t, is_intv(dim_of(t, 0), 1) ? &zero : &at);
}

static bool
feature_const(Build *b, const char *name, DType d, Node *x, double none, Node **t)
{
	int64_t n = attr_len(b, name), one = 1;
	Num v = {.f = none};

	if (n == 0) {
		Data *p = data_new(b->m, d, 1, NULL);
		data_set((void *)p->bytes, d, 0, v);
		*t = t_const(b->m, d, 1, &one, p);
		return true;
	}
	*t = attr_const(b, name, d, 1, &n);
	if (n > 1 && rank_of(x) == 0)
		return fail(b, "%s has %lld entries for a scalar", name, (long long)n) != NULL;
	if (n > 1)
		require(b->m, x_eq(b->m, dim_of(x, rank_of(x) - 1), x_idx(b->m, n)), b->loc,
			"%s has %lld entries for %s features",
			name, (long long)n, expr_print(b->m, dim_of(x, rank_of(x) - 1)));
	return true;
}

static Node *
build_scaler(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *off, *scale, *axes[MAX_RANK], *e, *last;
	DType c = dtype_of(x) == DT_F64 ? DT_F64 : DT_F32;

	if (!feature_const(b, "offset", c, x, 0, &off) || !feature_const(b, "scale", c, x, 1, &scale))
		return NULL;
	axes_new(m, rank_of(x), x->type->dims, axes);
	last = rank_of(x) ? axes[rank_of(x) - 1] : x_idx(m, 0);
	e = x_sub(m, x_cast(m, c, x_read(m, x, axes)), feature_read(m, off, last));
	e = x_mul(m, e, feature_read(m, scale, last));
	return t_tensor(m, rank_of(x), axes, x_cast(m, DT_F32, e));
}

static Node *
build_normalizer(Build *b)
{
	Module *m = b->m;
	const char *kind = attr_str(b, "norm");
	bool l1 = strcmp(kind, "L1") == 0, l2 = strcmp(kind, "L2") == 0;
	Node *x = b->in[0], *axes[2], *red, *idx[2], *e, *norm;
	int rank = rank_of(x);

	if (!l1 && !l2 && strcmp(kind, "MAX"))
		return fail(b, "norm is \"%s\", must be MAX, L1 or L2", kind);
	if (rank != 1 && rank != 2)
		return fail(b, "the operand has %d dimensions, must have 1 or 2", rank);
	axes_new(m, rank, x->type->dims, axes);
	idx[0] = axes[0];
	idx[rank - 1] = red = x_axis(m, dim_of(x, rank - 1));
	e = x_cast(m, DT_F32, x_read(m, x, idx));
	e = l1 ? x1(m, O_ABS, e) : l2 ? x_mul(m, e, e) : e;
	e = x_reduce(m, l1 || l2 ? COMB_SUM : COMB_MAX, 1, &red, e);
	norm = t_tensor(m, rank - 1, axes, l2 ? x1(m, O_SQRT, e) : e);
	axes_new(m, rank, x->type->dims, axes);
	norm = x_read(m, norm, axes);
	e = x_cast(m, DT_F32, x_read(m, x, axes));
	e = x_select(m, x_eq(m, norm, x_int(m, DT_F32, 0)), e, x2(m, O_DIV, e, norm));
	return t_tensor(m, rank, axes, e);
}

static Node *
build_imputer(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *value, *axes[MAX_RANK], *e, *old, *hit;
	DType d = dtype_of(x);
	bool f = dt_float(d);
	const char *name = f ? "imputed_value_floats" : "imputed_value_int64s";

	if (rank_of(x) < 1)
		return fail(b, "the operand is a scalar");
	if (attr_len(b, name) == 0)
		return fail(b, "%s is missing", name);
	if (!feature_const(b, name, d, x, 0, &value))
		return NULL;
	axes_new(m, rank_of(x), x->type->dims, axes);
	e = x_read(m, x, axes);
	if (f) {
		double r = attr_float(b, "replaced_value_float");
		old = x_flt(m, d, r);
		hit = isnan(r) ? x_ne(m, e, e) : x_eq(m, e, old);
	} else
		hit = x_eq(m, x_cast(m, DT_I64, e), x_int(m, DT_I64, attr_int(b, "replaced_value_int64")));
	return t_tensor(m, rank_of(x), axes,
		x_select(m, hit, feature_read(m, value, axes[rank_of(x) - 1]), e));
}

/* Columns of x, [n, f] or [f]: as many as there are indices. */
static Node *
build_array_feature_extractor(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *y, *n, *axes[MAX_RANK], *idx[MAX_RANK], *at;
	int rank = rank_of(x), out = rank < 2 ? 2 : rank, i;

	if (rank < 1)
		return fail(b, "the operand is a scalar");
	n = numel(m, b->in[1]);
	y = reshape(m, b->in[1], 1, &n);
	for (i = 0; i + 1 < out; i++)
		axes[i] = x_axis(m, rank < 2 ? x_idx(m, 1) : dim_of(x, i));
	axes[out - 1] = x_axis(m, n);
	memcpy(idx, axes, sizeof *idx * (size_t)out);
	at = wrap_index(m, x_cast(m, DT_INDEX, x_read(m, y, &axes[out - 1])), dim_of(x, rank - 1));
	idx[rank - 1] = x2(m, O_BOUND, at, dim_of(x, rank - 1));
	return t_tensor(m, out, axes, x_read(m, x, idx));
}

/* Columns side by side, each operand cut or filled with zeros to its number of columns; as f32. */
static Node *
build_feature_vectorizer(Build *b)
{
	Module *m = b->m;
	const Attr *dims = attr_find(b->attrs, "inputdimensions");
	Node *axes[2], *e, *x, *first, *idx[2], *in, *from;
	int64_t total = 0;
	int i;

	if (!dims || dims->n < b->nin)
		return fail(b, "inputdimensions has %d entries for %d operands", dims ? dims->n : 0,
			b->nin);
	for (i = 0; i < b->nin; i++) {
		if (dims->is[i] < 0 || dims->is[i] > 1 << 24)
			return fail(b, "inputdimensions has the entry %lld", (long long)dims->is[i]);
		total += dims->is[i];
	}
	first = rank_of(b->in[0]) == 2 ? b->in[0] : feature_rows(b, b->in[0]);
	if (!first)
		return NULL;
	axes[0] = x_axis(m, dim_of(first, 0));
	axes[1] = x_axis(m, x_idx(m, total));
	for (e = x_int(m, DT_F32, 0), total = i = 0; i < b->nin; total += dims->is[i++]) {
		x = rank_of(b->in[i]) == 2 ? b->in[i] : feature_rows(b, b->in[i]);
		if (!x)
			return NULL;
		require(m, x_eq(m, dim_of(x, 0), dim_of(first, 0)), b->loc,
			"operand %d has %s rows, the first %s", i,
			expr_print(m, dim_of(x, 0)), expr_print(m, dim_of(first, 0)));
		from = x_idx(m, total);
		idx[0] = axes[0];
		idx[1] = x_sub(m, axes[1], from);
		in = x_lt(m, idx[1], dim_of(x, 1));
		e = x_select(m, x_le(m, from, axes[1]),
			x_select(m, in, x_cast(m, DT_F32, x_read(m, x, idx)), x_int(m, DT_F32, 0)),
			e);
	}
	return t_tensor(m, 2, axes, e);
}

/* ---- categories ------------------------------------------------------------------------------ */

/* The index of each element of x in `table`, or -1: i64 of x's shape. The first of equal
 * entries. */
static Node *
find_in(Build *b, Node *x, Node *table)
{
	Module *m = b->m;
	Node *axes[MAX_RANK], *k = x_axis(m, dim_of(table, 0)), *e, *t, *hit,
		*none = x_int(m, DT_I64, INT64_MAX);
	int rank = rank_of(x);

	if (dtype_of(x) == DT_STRING)
		return t_host(b->m, "str_find", "d 0 N 1 N1", ty_tensor(m, DT_I64, rank, x->type->dims), 2,
			(Node *[]){x, table});
	axes_new(m, rank, x->type->dims, axes);
	e = x_cast(m, dtype_of(table), x_read(m, x, axes));
	t = x_read(m, table, &k);
	hit = x_eq(m, e, t);
	if (dt_float(dtype_of(table)))                   /* NaN is a key like others */
		hit = x_or(m, hit, x_and(m, x_ne(m, e, e), x_ne(m, t, t)));
	e = x_reduce(m, COMB_MIN, 1, &k, x_select(m, hit, x_cast(m, DT_I64, k), none));
	return t_tensor(m, rank, axes, x_select(m, x_eq(m, e, none), x_int(m, DT_I64, -1), e));
}

Node *
string_const(Module *m, int rank, int64_t n, const char *const *s)
{
	return t_const(m, DT_STRING, rank, &n, data_new(m, DT_STRING, n, s));
}

Node *
one_string(Build *b, const char *s)
{
	s = intern(b->m, s);
	return string_const(b->m, 0, 1, &s);
}

/* values[found], or the default (rank 0) where found is -1. */
static Node *
take_values(Module *m, Node *found, Node *values, Node *none)
{
	Node *axes[MAX_RANK], *i, *e;

	axes_new(m, rank_of(found), found->type->dims, axes);
	i = x_cast(m, DT_INDEX, x_read(m, found, axes));
	e = x_select(m, x_lt(m, i, x_idx(m, 0)), x_read(m, none, NULL), x_read(m, values, &i));
	return t_tensor(m, rank_of(found), axes, e);
}

/* A table of LabelEncoder: KIND_tensor or KIND_floats, _int64s, _strings. */
static Node *
label_table(Build *b, const char *kind)
{
	static const struct { const char *suffix; DType d; } forms[] = {{"floats", DT_F32},
		{"int64s", DT_I64},
		{"strings", DT_STRING}};
	const Attr *a = attr_find(b->attrs, arena_printf(b->m->arena, "%s_tensor", kind));
	int64_t n;
	size_t i;

	if (a) {
		Node *flat = numel(b->m, a->t);
		return rank_of(a->t) == 1 ? a->t : reshape(b->m, a->t, 1, &flat);
	}
	for (i = 0; i < sizeof forms / sizeof *forms; i++) {
		const char *name = arena_printf(b->m->arena, "%s_%s", kind, forms[i].suffix);
		n = attr_len(b, name);
		if (n > 0)
			return attr_const(b, name, forms[i].d, 1, &n);
	}
	return fail(b, "no %s are given", kind);
}

static Node *
build_label_encoder(Build *b)
{
	Module *m = b->m;
	Node *keys = label_table(b, "keys"), *values = keys ? label_table(b, "values") : NULL, *none;
	const Attr *def = attr_find(b->attrs, "default_tensor");
	DType d;

	if (!keys || !values)
		return NULL;
	d = dtype_of(values);
	if (dtype_of(keys) != dtype_of(b->in[0]))
		return fail(b, "the operand is %s, the keys are %s", dtypes[dtype_of(b->in[0])].text,
			dtypes[dtype_of(keys)].text);
	require(m, x_eq(m, dim_of(keys, 0), dim_of(values, 0)), b->loc, "%s keys, %s values",
		expr_print(m, dim_of(keys, 0)), expr_print(m, dim_of(values, 0)));
	if (d != DT_STRING && !dt_float(d) && !dt_int(d))
		return fail(b, "the values are %s", dtypes[d].text);
	if (def)
		expect_dim(b, "default_tensor", numel(m, def->t), x_idx(m, 1), false);
	if (def && dtype_of(def->t) != d)
		return fail(b, "default_tensor is %s, the values are %s", dtypes[dtype_of(def->t)].text,
			dtypes[d].text);
	if (def)
		none = rank_of(def->t) ? reshape(m, def->t, 0, NULL) : def->t;
	else if (d == DT_STRING)
		none = one_string(b, attr_str(b, "default_string"));
	else
		none = t_scalar(m, d, dt_float(d) ? num_round(d, attr_float(b, "default_float"))
			: num_cast(d, DT_I64, (Num){.i = attr_int(b, "default_int64")}));
	return take_values(m, find_in(b, b->in[0], keys), values, none);
}

static Node *
build_category_mapper(Build *b)
{
	Module *m = b->m;
	int64_t n = attr_len(b, "cats_int64s"), k = attr_len(b, "cats_strings");
	Node *ints, *strings;

	if (n == 0 || n != k)
		return fail(b, "cats_int64s has %lld entries, cats_strings %lld", (long long)n,
			(long long)k);
	ints = attr_const(b, "cats_int64s", DT_I64, 1, &n);
	strings = attr_const(b, "cats_strings", DT_STRING, 1, &n);
	if (dtype_of(b->in[0]) == DT_STRING)
		return take_values(m, find_in(b, b->in[0], strings), ints,
			t_scalar(m, DT_I64, (Num){.i = attr_int(b, "default_int64")}));
	return take_values(m, find_in(b, b->in[0], ints), strings,
		one_string(b, attr_str(b, "default_string")));
}

/* A new last axis with a 1 at the category's place; none if it is unknown. */
static Node *
build_one_hot_encoder(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *axes[MAX_RANK], *table, *found;
	bool strings = dtype_of(x) == DT_STRING;
	int64_t n = attr_len(b, strings ? "cats_strings" : "cats_int64s");
	int rank = rank_of(x);

	if (rank == MAX_RANK || n == 0)
		return fail(b, "%lld categories for an operand of %d dimensions", (long long)n, rank);
	table = attr_const(b, strings ? "cats_strings" : "cats_int64s", strings ? DT_STRING : DT_I64, 1,
		&n);
	found = find_in(b, x, table);
	axes_new(m, rank, x->type->dims, axes);
	axes[rank] = x_axis(m, x_idx(m, n));
	found = x_eq(m, x_read(m, found, axes), x_cast(m, DT_I64, axes[rank]));
	return t_tensor(m, rank + 1, axes, x_cast(m, DT_F32, found));
}

static Node *
build_zip_map(Build *b)
{
	Module *m = b->m;
	Node *keys = class_labels(b, "classlabels_int64s", "classlabels_strings"),
		*x = feature_rows(b, b->in[0]);
	const Type *map;

	if (!keys || !x)
		return NULL;
	require(m, x_eq(m, dim_of(x, 1), dim_of(keys, 0)), b->loc, "%s scores for %s labels",
		expr_print(m, dim_of(x, 1)),
		expr_print(m, dim_of(keys, 0)));
	map = ty_of(m, T_MAP, dtype_of(keys), ty_tensor(m, DT_F32, 0, NULL));
	return t_host(b->m, "zipmap", "d 0 1 n10 n11", ty_of(m, T_SEQ, DT_NONE, map), 2,
		(Node *[]){keys, x});
}

/* A map's keys or values in ascending order of the keys. */
static Node *
map_part(Build *b, const char *name, DType d, Node *map)
{
	Module *m = b->m;
	Node *len = t_host(m, "map_len", "d 0", ty_tensor(m, DT_I64, 0, NULL), 1, &map);
	Node *n = extent(m, x_cast(m, DT_INDEX, x_read(m, len, NULL)));

	return t_host(m, name, "d 0", ty_tensor(m, d, 1, &n), 2, (Node *[]){map, len});
}

static bool
map_of(Build *b, Node *map, DType key, DType value)
{
	const Type *t = map->type;

	if ((key == DT_NONE || t->dtype == key) && t->elem[0]->kind == T_TENSOR
	 && (value == DT_NONE || t->elem[0]->dtype == value))
		return true;
	return fail(b, "the operand is a map from %s to %s", dtypes[t->dtype].text,
		dtypes[t->elem[0]->dtype].text) != NULL;
}

/* The values by a vocabulary of keys, as one row; nothing (0, "") for a key that the map has
 * not. */
static Node *
build_dict_vectorizer(Build *b)
{
	Module *m = b->m;
	Node *map = b->in[0], *vocabulary, *found, *values, *axis, *at, *dims[2] = {x_idx(m, 1), NULL},
		*e;
	bool strings = attr_len(b, "string_vocabulary") > 0;
	const char *name = strings ? "string_vocabulary" : "int64_vocabulary";
	DType key = strings ? DT_STRING : DT_I64, d = map->type->elem[0]->dtype;
	int64_t n = attr_len(b, name);

	if (n == 0 || (strings && attr_len(b, "int64_vocabulary")))
		return fail(b, "one vocabulary must be given");
	if (!map_of(b, map, key, DT_NONE) || !(vocabulary = attr_const(b, name, key, 1, &n)))
		return NULL;
	values = map_part(b, "map_values", d, map);
	found = find_in(b, vocabulary, map_part(b, "map_keys", key, map));
	axis = x_axis(m, x_idx(m, n));
	at = x_cast(m, DT_INDEX, x_read(m, found, &axis));
	if (d == DT_STRING)
		e = t_host(m, "str_take", "d 0 N0 1 N", ty_tensor(m, d, 1, &axis->in[0]), 2,
			(Node *[]){values, found});
	else
		e = t_tensor(m, 1, &axis,
		x_select(m, x_lt(m, at, x_idx(m, 0)), x_int(m, d, 0), x_read(m, values, &at)));
	dims[1] = dim_of(e, 0);
	return reshape(m, e, 2, dims);
}

static Node *
build_cast_map(Build *b)
{
	static const struct { const char *name; DType d; int code; } types[] = {{"TO_FLOAT", DT_F32, 1},
		{"TO_STRING", DT_STRING, 8}, {"TO_INT64", DT_I64, 7}};
	Module *m = b->m;
	const char *to = attr_str(b, "cast_to"), *form = attr_str(b, "map_form");
	Node *map = b->in[0], *values, *keys, *axis, *at, *dims[2] = {x_idx(m, 1), NULL};
	int64_t most = attr_int(b, "max_map");
	bool sparse = strcmp(form, "SPARSE") == 0;
	size_t i;

	for (i = 0; i < 3 && strcmp(to, types[i].name); i++)
		;
	if (i == 3 || (!sparse && strcmp(form, "DENSE")))
		return fail(b, "cast_to is \"%s\", map_form \"%s\"", to, form);
	if (!map_of(b, map, DT_I64, DT_NONE))
		return NULL;
	values = map_part(b, "map_values", map->type->elem[0]->dtype, map);
	values = call(b, "cast", 1, &values, arena_printf(m->arena, "to=%d", types[i].code));
	if (!values)
		return NULL;
	/* each value at its key, which must be less than max_map */
	if (sparse) {
		if (most < 1 || most > 1 << 28)
			return fail(b, "max_map is %lld", (long long)most);
		keys = map_part(b, "map_keys", DT_I64, map);
		axis = x_axis(m, x_idx(m, most));
		keys = find_in(b, t_tensor(m, 1, &axis, x_cast(m, DT_I64, axis)), keys);
		axis = x_axis(m, x_idx(m, most));
		at = x_cast(m, DT_INDEX, x_read(m, keys, &axis));
		if (types[i].d == DT_STRING)
			values = t_host(m, "str_take", "d 0 N0 1 N", ty_tensor(m, DT_STRING, 1, &axis->in[0]),
				2,
				(Node *[]){values, keys});
		else
			values = t_tensor(m, 1, &axis,
			x_select(m, x_lt(m, at, x_idx(m, 0)), x_int(m, types[i].d, 0),
				x_read(m, values, &at)));
	}
	dims[1] = dim_of(values, 0);
	return reshape(m, values, 2, dims);
}

/* ---- linear models --------------------------------------------------------------------------- */

Node *
ml_affine(Build *b, Node *x, Node *w, Node *bias)
{
	Module *m = b->m;
	Node *axes[2], *k, *xi[2], *wi[2], *e, *t;

	require(m, x_eq(m, dim_of(x, 1), dim_of(w, 1)), b->loc, "%s features for coefficients of %s",
		expr_print(m, dim_of(x, 1)), expr_print(m, dim_of(w, 1)));
	axes[0] = xi[0] = x_axis(m, dim_of(x, 0));
	axes[1] = wi[0] = x_axis(m, dim_of(w, 0));
	xi[1] = wi[1] = k = x_axis(m, dim_of(w, 1));
	e = sum_of_products(m, DT_F32, 1, &k, x_read(m, x, xi), x_read(m, w, wi));
	t = t_tensor(m, 2, axes, e);
	if (!bias)
		return t;
	axes_new(m, 2, t->type->dims, axes);
	return t_tensor(m, 2, axes, x_add(m, x_read(m, t, axes), x_read(m, bias, &axes[1])));
}

Node *
ml_coefficients(Build *b, int64_t k)
{
	int64_t n = attr_len(b, "coefficients"), dims[2] = {k, k > 0 ? n / k : 0};

	if (k < 1 || n == 0 || n % k)
		return fail(b, "%lld coefficients for %lld results", (long long)n, (long long)k);
	return attr_const(b, "coefficients", DT_F32, 2, dims);
}

static Node *
build_linear_regressor(Build *b)
{
	int64_t k = attr_int(b, "targets");
	Node *x = feature_rows(b, b->in[0]), *w = x ? ml_coefficients(b, k) : NULL, *bias, *s;
	Post post;

	if (!w || !post_attr(b, &post))
		return NULL;
	bias = attr_const(b, "intercepts", DT_F32, 1, &k);
	if (!bias && attr_len(b, "intercepts"))
		return NULL;
	s = ml_affine(b, x, w, bias);
	return post_transform(b, post, s);
}

Node *
ml_by_argmax(Build *b, Node *labels, Node *scores, Node *final)
{
	Node *which = call(b, "argmax", 1, &scores, "axis=1, keepdims=0");

	if (!which || !final)
		return NULL;
	return t_tuple(b->m, 2, (Node *[]){label_of(b->m, labels, which), final});
}

static Node *
build_linear_classifier(Build *b)
{
	Module *m = b->m;
	Node *labels = class_labels(b, "classlabels_ints", "classlabels_strings"), *x, *w, *bias, *s,
		*out[2];
	int64_t nlabels = labels ? dim_of(labels, 0)->num.i : 0, k = attr_len(b, "intercepts"), n;
	Post post;

	x = labels ? feature_rows(b, b->in[0]) : NULL;
	if (!x || !post_attr(b, &post))
		return NULL;
	if (k == 0)                                  /* one score can stand for two labels */
		k = nlabels == 2 && is_int(dim_of(x, 1), &n)
			&& n == attr_len(b, "coefficients") ? 1 : nlabels;
	if (k != nlabels && !(k == 1 && nlabels == 2))
		return fail(b, "%lld intercepts for %lld labels", (long long)k, (long long)nlabels);
	if (!(w = ml_coefficients(b, k)))
		return NULL;
	bias = attr_const(b, "intercepts", DT_F32, 1, &k);
	s = ml_affine(b, x, w, bias);
	if (k != 1 || nlabels == 1)
		return ml_by_argmax(b, labels, s, post_transform(b, post, s));
	out[0] = label_if(m, labels, s, 0);
	out[1] = two_columns(b, post, s, false);
	return t_tuple(m, 2, out);
}

#define ML_NUM "f32|f64|i64|i32"
#define POST "post_transform: str = \"NONE\""

const Op ops_ml[] = {
	BUILD("scaler", "ai.onnx.ml:Scaler", 1,
		"(x: " ML_NUM ") {offset: floats?, scale: floats?} -> y", build_scaler,
		"(x - offset) scale"),
	BUILD("normalizer", "ai.onnx.ml:Normalizer", 1, "(x: " ML_NUM ") {norm: str = \"MAX\"} -> y",
	build_normalizer,
		"rows over their norm"),
	BUILD("imputer", "ai.onnx.ml:Imputer", 1,
	"(x: " ML_NUM ") {imputed_value_floats: floats?, imputed_value_int64s: ints?,"
		" replaced_value_float: float = 0, replaced_value_int64: int = 0} -> y", build_imputer,
		"missing values filled in"),
	ELEM("binarizer", "ai.onnx.ml:Binarizer", 1, "(x: " ML_NUM ") {threshold: float = 0} -> y",
	"x > threshold ? 1 : 0",
		"1 above a threshold, else 0"),
	BUILD("array_feature_extractor", "ai.onnx.ml:ArrayFeatureExtractor", 1,
	"(x: num|string, y: i64) {} -> z",
		build_array_feature_extractor, "columns by their indices"),
	BUILD("feature_vectorizer", "ai.onnx.ml:FeatureVectorizer", 1,
	"(x: num, rest: num*) {inputdimensions: ints?} -> y",
		build_feature_vectorizer, "columns side by side"),
	BUILD("label_encoder", "ai.onnx.ml:LabelEncoder", 4,
	"(x: num|string) {default_float: float = -0.0,"
		" default_int64: int = -1, default_string: str = \"_Unused\", default_tensor: tensor?,"
		" keys_floats: floats?,"
		" keys_int64s: ints?, keys_strings: strs?, keys_tensor: tensor?, values_floats: floats?,"
		" values_int64s: ints?, values_strings: strs?, values_tensor: tensor?} -> y",
		build_label_encoder,
		"values by keys"),
	BUILD("category_mapper", "ai.onnx.ml:CategoryMapper", 1,
	"(x: string|i64) {cats_int64s: ints?, cats_strings: strs?,"
		" default_int64: int = -1, default_string: str = \"_Unused\"} -> y", build_category_mapper,
		"categories between integers and strings"),
	BUILD("one_hot_encoder", "ai.onnx.ml:OneHotEncoder", 1,
	"(x: num|string) {cats_int64s: ints?, cats_strings: strs?,"
		" zeros: int = 1} -> y", build_one_hot_encoder, "a 1 at the category's place"),
	HOST("zip_map", "ai.onnx.ml:ZipMap", 1,
	"(x: f32) {classlabels_int64s: ints?, classlabels_strings: strs?} -> y",
		build_zip_map, "rows as maps from labels"),
	HOST("dict_vectorizer", "ai.onnx.ml:DictVectorizer", 1,
	"(x: map) {int64_vocabulary: ints?, string_vocabulary: strs?} -> y",
		build_dict_vectorizer, "a map's values by a vocabulary"),
	HOST("cast_map", "ai.onnx.ml:CastMap", 1,
	"(x: map) {cast_to: str = \"TO_FLOAT\", map_form: str = \"DENSE\","
		" max_map: int = 1} -> y", build_cast_map, "a map's values as a row"),
	BUILD("linear_regressor", "ai.onnx.ml:LinearRegressor", 1,
	"(x: " ML_NUM ") {coefficients: floats?,"
		" intercepts: floats?, " POST ", targets: int = 1} -> y", build_linear_regressor,
		"linear regression"),
	BUILD("linear_classifier", "ai.onnx.ml:LinearClassifier", 1,
	"(x: " ML_NUM ") {classlabels_ints: ints?,"
		" classlabels_strings: strs?, coefficients: floats, intercepts: floats?,"
		" multi_class: int = 0, " POST "} -> y, z",
		build_linear_classifier, "linear classification: labels, scores"),
	{0}
};
