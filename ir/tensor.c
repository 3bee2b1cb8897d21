/* Building tensors, and value inference: the known elements of small ones. */
#include <stdlib.h>
#include <string.h>
#include "ir.h"

enum { ELEM_SIZE = 96, ELEM_WORK = 1 << 17, UNROLL = 64 };

Node *
t_param(Module *m, const char *name, const Type *type, int position)
{
	return node_make(m, (Node){.op = core_op(O_PARAM), .type = type, .name = intern(m, name),
		.n = position});
}

static const Type *
static_type(Module *m, DType d, int rank, const int64_t *dims)
{
	Node *e[MAX_RANK];
	int i;

	for (i = 0; i < rank; i++)
		e[i] = x_idx(m, dims[i]);
	return ty_tensor(m, d, rank, e);
}

Node *
t_const(Module *m, DType d, int rank, const int64_t *dims, Data *data)
{
	return node_make(m, (Node){.op = core_op(O_CONST), .type = static_type(m, d, rank, dims),
		.data = data});
}

Node *
t_scalar(Module *m, DType d, Num v)
{
	Data *p = data_new(m, d, 1, NULL);

	data_set((void *)p->bytes, d, 0, v);
	return t_const(m, d, 0, NULL, p);
}

Node *
t_ints(Module *m, int n, const int64_t *v)
{
	int64_t dim = n;

	return t_const(m, DT_I64, 1, &dim,
		data_new(m, DT_I64, n, arena_dup(m->arena, v, sizeof *v * (size_t)n)));
}

void
axes_new(Module *m, int rank, Node *const *extents, Node **axes)
{
	int i;

	for (i = 0; i < rank; i++)
		axes[i] = x_axis(m, extents[i]);
}

/* x itself, where the body reads x in order over all of it. */
static Node *
identity(int rank, Node *const *axes, Node *body)
{
	Node *x;
	int i;

	if (body->code != O_READ)
		return NULL;
	x = body->in[0];
	if (rank_of(x) != rank)
		return NULL;
	for (i = 0; i < rank; i++)
		if (dim_of(x, i) != axes[i]->in[0]
		 || (body->in[i + 1] != axes[i]
		 && !(is_intv(dim_of(x, i), 1) && is_intv(body->in[i + 1], 0))))
			return NULL;
	return x;
}

Node *
t_host(Module *m, const char *name, const char *args, const Type *type, int nin, Node *const *in)
{
	Attr a = {.name = "args", .kind = A_STR, .s = args};

	return node_make(m, (Node){.op = core_op(O_HOST), .type = type, .nin = nin, .in = (Node **)in,
		.attrs = attrs_add(m, NULL, a), .name = intern(m, name), .loc = m->building});
}

/* Strings of the axes' shape. */
static Node *
string_host(Module *m, const char *name, const char *args, int rank, Node *const *axes, int nin,
	Node *const *in)
{
	Node *dims[MAX_RANK];
	int i;

	for (i = 0; i < rank; i++)
		dims[i] = axes[i]->in[0];
	return t_host(m, name, args, ty_tensor(m, DT_STRING, rank, dims), nin, in);
}

static Node *
empty_string(Module *m)
{
	const char *s = "";

	return t_const(m, DT_STRING, 0, NULL, data_new(m, DT_STRING, 1, &s));
}

/*
 * Kernels know no strings. A body of reads and selects becomes takes by computed indices and
 * choices by computed conditions; `guard`: where the body is evaluated.
 */
static Node *
string_tensor(Module *m, int rank, Node *const *axes, Node *body, Node *guard)
{
	Node *x = body->nin ? body->in[0] : NULL, *flat = x_idx(m, 0), *in[3];
	int i;

	if (body->code == O_SELECT) {
		in[0] = t_tensor(m, rank, axes, x);
		in[1] = string_tensor(m, rank, axes, body->in[1], x_and(m, guard, x));
		in[2] = string_tensor(m, rank, axes, body->in[2], x_and(m, guard, x_not(m, x)));
		return string_host(m, "str_where", "d 0 S0 1 S1 2 S2 N", rank, axes, 3, in);
	}
	if (body->code != O_READ) {              /* a number stands for the empty string */
		if (body->code != O_NUM)
			diag_error(m->diag, X_UNSUPPORTED, m->building, "strings cannot be computed");
		in[0] = empty_string(m);
		in[1] = t_tensor(m, rank, axes, x_int(m, DT_I64, 0));
		return string_host(m, "str_take", "d 0 N0 1 N", rank, axes, 2, in);
	}
	for (i = 0; i < rank_of(x); i++)
		flat = x_add(m, x_mul(m, flat, dim_of(x, i)), body->in[i + 1]);
	in[0] = x;
	in[1] = t_tensor(m, rank, axes, x_cast(m, DT_I64, x_select(m, guard, flat, x_idx(m, -1))));
	return string_host(m, "str_take", "d 0 N0 1 N", rank, axes, 2, in);
}

Node *
t_tensor_with(Module *m, int rank, Node *const *axes, Node *body, const Attr *attrs)
{
	Node *in[MAX_RANK + 1], *dims[MAX_RANK];
	int i;

	if (body->type->dtype == DT_STRING)
		return string_tensor(m, rank, axes, body, x_bool(m, true));
	for (i = 0; i < rank; i++) {
		in[i] = axes[i];
		dims[i] = axes[i]->in[0];
	}
	in[rank] = body;
	return node_make(m, (Node){.op = core_op(O_TENSOR),
		.type = ty_tensor(m, body->type->dtype, rank, dims),
		.nin = rank + 1, .in = in, .attrs = attrs});
}

Node *
t_tensor(Module *m, int rank, Node *const *axes, Node *body)
{
	Node *x = identity(rank, axes, body);

	return x ? x : t_tensor_with(m, rank, axes, body, NULL);
}

Node *
t_exprs(Module *m, DType d, int n, Node *const *e)
{
	Node *extent = x_idx(m, n), *axis = x_axis(m, extent), *body = x_int(m, d, 0);
	int i;

	for (i = n; i-- > 0;)
		body = x_select(m, x_eq(m, axis, x_idx(m, i)), x_cast(m, d, e[i]),
			i == n - 1 ? x_cast(m, d, e[i]) : body);
	return t_tensor(m, 1, &axis, body);
}

Node *
t_scalar_expr(Module *m, DType d, Node *e)
{
	return t_tensor(m, 0, NULL, x_cast(m, d, e));
}

static Node *
flat_index(Module *m, int rank, Node *const *axes)
{
	Node *e = x_idx(m, 0);
	int i;

	for (i = 0; i < rank; i++)
		e = x_add(m, x_mul(m, e, axes[i]->in[0]), axes[i]);
	return e;
}

/*
 * Kernels scatter the places of strings: those in the base, and behind them those of what is
 * written; then each is taken from where it stands.
 */
static Node *
string_scatter(Module *m, Node *base, int naxes, Node *const *axes, Node *const *idx, Node *value,
	Node *cond)
{
	Node *ax[2 * MAX_RANK], *updates, *places, *part[3], *s, *n = numel(m, base),
		*outside = x_int(m, DT_I64, -1);
	Map fresh = {0};
	int rank = rank_of(base), i, k;

	for (i = 0; i < naxes; i++) {
		ax[i] = x_axis(m, axes[i]->in[0]);
		map_put(&fresh, axes[i], ax[i]);
	}
	updates = t_tensor(m, naxes, ax, subst(m, value, &fresh, true));
	map_free(&fresh);
	axes_new(m, rank, base->type->dims, ax);
	places = t_tensor(m, rank, ax, x_cast(m, DT_I64, flat_index(m, rank, ax)));
	places = t_scatter(m, COMB_SET, places, naxes, axes, idx,
		x_cast(m, DT_I64, x_add(m, n, flat_index(m, naxes, axes))), cond);
	for (k = 0; k < 3; k++) {
		axes_new(m, rank, base->type->dims, ax);
		s = x_read(m, places, ax);
		s = k == 0 ? x_lt(m, s, x_cast(m, DT_I64, n)) : k == 1
			? x_select(m, x_lt(m, s, x_cast(m, DT_I64, n)), s, outside)
			: x_sub(m, s, x_cast(m, DT_I64, n));
		part[k] = t_tensor(m, rank, ax, s);
		if (k)
			part[k] = string_host(m, "str_take", "d 0 N0 1 N", rank, ax, 2,
				(Node *[]){k == 1 ? base : updates, part[k]});
	}
	axes_new(m, rank, base->type->dims, ax);
	return string_host(m, "str_where", "d 0 S0 1 S1 2 S2 N", rank, ax, 3, part);
}

Node *
t_scatter(Module *m, Comb c, Node *base, int naxes, Node *const *axes, Node *const *idx,
	Node *value, Node *cond)
{
	Node **in = NEWN(m, Node *, naxes + rank_of(base) + 3);
	int n = 0;

	if (dtype_of(base) == DT_STRING)
		return string_scatter(m, base, naxes, axes, idx, value, cond);
	in[n++] = base;
	memcpy(in + n, axes, sizeof *in * (size_t)naxes);
	n += naxes;
	memcpy(in + n, idx, sizeof *in * (size_t)rank_of(base));
	n += rank_of(base);
	in[n++] = value;
	in[n++] = cond ? cond : x_bool(m, true);
	return node_make(m, (Node){.op = core_op(O_SCATTER), .type = base->type, .nin = n, .in = in,
		.n = c});
}

Node *
t_distinct(Module *m, Node *t)
{
	return t->code == O_SCATTER
		? node_with(m, t, attrs_add(m, t->attrs, (Attr){.name = "distinct", .kind = A_INT, .i = 1}))
		: t;
}

Node *
t_tuple(Module *m, int n, Node *const *v)
{
	const Type **types = NEWN(m, const Type *, n);
	int i;

	for (i = 0; i < n; i++)
		types[i] = v[i] ? v[i]->type : ty_of(m, T_VOID, DT_NONE, NULL);
	return node_make(m, (Node){.op = core_op(O_TUPLE), .type = ty_tuple(m, n, types), .nin = n,
		.in = (Node **)v});
}

Node *
definition(Node *n)
{
	while (n && n->def)
		n = n->def;
	return n;
}

Node *
t_result(Module *m, Node *tuple, int i)
{
	Node *d = definition(tuple), *r;

	if (tuple->code == O_TUPLE)
		return tuple->in[i];
	r = node_make(m, (Node){.op = core_op(O_RESULT), .type = tuple->type->elem[i], .nin = 1,
		.in = &tuple, .n = i,
		.loc = tuple->loc});
	if (d->code == O_TUPLE && d->in[i]) {
		r->def = d->in[i];
		r->elems = definition(r)->elems ? definition(r)->elems : d->in[i]->elems;
		if (r->type->kind == T_TENSOR)
			infer_elems(m, r);
	}
	return r;
}

Node *
numel(Module *m, const Node *t)
{
	Node *e = x_idx(m, 1);
	int i;

	for (i = 0; i < rank_of(t); i++)
		e = x_mul(m, e, dim_of(t, i));
	return e;
}

bool
const_dims(const Node *t, int64_t *dims)
{
	int i;

	for (i = 0; i < rank_of(t); i++)
		if (!is_int(dim_of(t, i), &dims[i]))
			return false;
	return true;
}

/* The number of elements if it is a constant, else -1. */
static int64_t
const_count(const Node *t)
{
	int64_t n = 1, d;
	int i;

	if (t->type->kind != T_TENSOR)
		return -1;
	for (i = 0; i < rank_of(t); i++)
		if (!is_int(dim_of(t, i), &d) || !mul_ok(n, d, &n))
			return -1;
	return n;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void
data_range(Node *r, const Node *t)
{
	const Data *d = t->data;
	int64_t k, v;

	if (!dt_int(t->type->dtype) || t->type->dtype == DT_U64 || !d || d->count < 1
	 || d->count > 65536)
		return;
	r->lo = INT64_MAX;
	r->hi = INT64_MIN;
	for (k = 0; k < d->count; k++) {
		v = data_get(d, t->type->dtype, k).i;
		r->lo = v < r->lo ? v : r->lo;
		r->hi = v > r->hi ? v : r->hi;
	}
}

Node *
x_read(Module *m, Node *t, Node *const *idx)
{
	Node *in[MAX_RANK + 1], *r;
	Node *d = definition(t);
	int64_t flat = 0, v, dim;
	bool known = true;
	DType dt = dtype_of(t);
	int i;

	in[0] = t;
	for (i = 0; i < rank_of(t); i++) {
		in[i + 1] = is_intv(dim_of(t, i), 1) ? x_idx(m, 0) : idx[i];
		if (known && is_int(in[i + 1], &v) && is_int(dim_of(t, i), &dim) && v >= 0 && v < dim)
			flat = flat * dim + v;
		else
			known = false;
	}
	if (known && t->elems && t->elems[flat])
		return t->elems[flat];
	if (known && d->code == O_CONST && dt_number(dt) && flat < d->data->count)
		return x_num(m, dt, data_get(d->data, dt, flat));
	r = x_num(m, dt, (Num){0});             /* for the type's range */
	r = node_make(m, (Node){.op = core_op(O_READ), .type = ty_scalar(m, dt), .nin = rank_of(t) + 1,
		.in = in,
		.lo = dt == DT_BOOL ? 0 : INT64_MIN, .hi = dt == DT_BOOL ? 1 : INT64_MAX});
	if (dt_int(dt) && dtypes[dt].bits < 64) {
		r->lo = dtypes[dt].cls == 'U' ? 0 : -((int64_t)1 << (dtypes[dt].bits - 1));
		r->hi = dtypes[dt].cls == 'U' ? ((int64_t)1 << dtypes[dt].bits) - 1
			: ((int64_t)1 << (dtypes[dt].bits - 1)) - 1;
	}
	if (d->code == O_CONST)
		data_range(r, d);
	else if (d->code == O_TENSOR && dt_int(dt)) {
		const Node *body = d->in[d->nin - 1];
		r->lo = body->lo > r->lo ? body->lo : r->lo;
		r->hi = body->hi < r->hi ? body->hi : r->hi;
	}
	return r;
}

/* Is dim 1 only where n is? Where it is the smaller of n and a constant, for one. */
static bool
one_together(Node *dim, Node *n)
{
	int i;

	for (i = 0; i < 2 && dim->code == O_MIN; i++)
		if (dim->in[i] == n && dim->in[1 - i]->lo > 1)
			return true;
	return false;
}

Node *
x_stretched(Module *m, Node *dim, Node *i)
{
	if (i->code == O_AXIS && (dim == i->in[0] || prove_eq(m, dim, i->in[0])
	 || one_together(dim, i->in[0])))
		return i;
	return x_select(m, x_eq(m, dim, x_idx(m, 1)), x_idx(m, 0), i);
}

Node *
x_bread(Module *m, Node *t, int rank, Node *const *axes)
{
	Node *idx[MAX_RANK];
	int i, off = rank - rank_of(t);

	for (i = 0; i < rank_of(t); i++)
		idx[i] = x_stretched(m, dim_of(t, i), axes[off + i]);
	return x_read(m, t, idx);
}

Node *
dim_broadcast(Module *m, Node *a, Node *b, const Loc *loc)
{
	Node *one = x_idx(m, 1), *eq, *small;
	int64_t v;

	if (a == b || is_intv(b, 1))
		return a;
	if (is_intv(a, 1))
		return b;
	eq = x_eq(m, a, b);
	if (is_intv(eq, 1))
		return a;
	/* what never exceeds the other is equal or 1: the result is the other */
	if (a->code != O_NUM && b->code != O_NUM && (prove_le(m, a, b) || prove_le(m, b, a))) {
		small = prove_le(m, a, b) ? a : b;
		require(m, x_or(m, eq, x_eq(m, small, one)), loc, "cannot broadcast dimensions %s and %s",
			expr_print(m, a), expr_print(m, b));
		return small == a ? b : a;
	}
	require(m, x_or(m, eq, x_or(m, x_eq(m, a, one), x_eq(m, b, one))), loc,
		"cannot broadcast dimensions %s and %s",
		expr_print(m, a), expr_print(m, b));
	if (is_int(a, &v))
		return a;
	if (is_int(b, &v))
		return b;
	return x_named(m, x_select(m, x_eq(m, a, one), b, a));
}

bool
dims_broadcast(Module *m, int n, Node *const *t, int *rank, Node **dims, const Loc *loc)
{
	int i, k, off, errors = m->diag->errors;

	*rank = 0;
	for (i = 0; i < n; i++)
		if (t[i] && rank_of(t[i]) > *rank)
			*rank = rank_of(t[i]);
	if (*rank > MAX_RANK)
		return false;
	for (k = 0; k < *rank; k++)
		dims[k] = x_idx(m, 1);
	for (i = 0; i < n; i++)
		for (k = 0; t[i] && k < rank_of(t[i]); k++) {
			off = *rank - rank_of(t[i]);
			dims[off + k] = dim_broadcast(m, dims[off + k], dim_of(t[i], k), loc);
		}
	return m->diag->errors == errors;
}

/* ---- value inference ------------------------------------------------------------------------- */

/* Can an element of t stand in shape arithmetic: known, constant, or a short integer list? */
static bool
is_atom(const Node *t)
{
	const Node *d = definition((Node *)t);
	int64_t n = const_count(t);

	if (t->elems || d->code == O_CONST)
		return true;
	return n >= 0 && n <= UNROLL && rank_of(t) <= 1
		&& (dt_int(dtype_of(t)) || dtype_of(t) == DT_BOOL);
}

static bool
inferable(Node *body)
{
	Node **list;
	int i, n;
	bool ok = true;

	list = topo_scalar(body, &n);
	for (i = 0; i < n && ok; i++)
		if (list[i]->code == O_READ)
			ok = is_atom(list[i]->in[0]);
	free(list);
	return ok;
}

static Node *
unroll_reduce(Module *m, Node *r)
{
	Node *acc = NULL, *e;
	Map map = {0};
	int64_t ext[MAX_RANK], count = 1, k, rest;
	int i, n = r->nin - 1;

	for (i = 0; i < n; i++)
		if (!is_int(r->in[i]->in[0], &ext[i]) || !mul_ok(count, ext[i], &count) || count > UNROLL)
			return r;
	for (k = 0; k < count; k++) {
		for (rest = k, i = n; i-- > 0; rest /= ext[i])
			map_put(&map, r->in[i], x_idx(m, rest % ext[i]));
		e = subst(m, r->in[n], &map, false);
		acc = acc ? x_comb(m, (Comb)r->n, acc, e) : e;
	}
	map_free(&map);
	return acc ? acc : x_comb_identity(m, (Comb)r->n, r->type->dtype);
}

/* Reductions over few elements written out, innermost first. */
static Node *
unroll_all(Module *m, Node *e)
{
	Node **list, *r;
	Map map = {0};
	int i, n, found = 0;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_REDUCE) {
			r = unroll_reduce(m, subst(m, list[i], &map, false));
			if (r != list[i])
				map_put(&map, list[i], r);
			found++;
		}
	free(list);
	r = found ? subst(m, e, &map, false) : e;
	map_free(&map);
	return r;
}

static Node *
elem_at(Module *m, Node *t, int64_t flat)
{
	Map map = {0};
	Node *e;
	int64_t d;
	int i;

	for (i = rank_of(t); i-- > 0;) {
		is_int(dim_of(t, i), &d);
		map_put(&map, t->in[i], x_idx(m, flat % d));
		flat /= d;
	}
	e = unroll_all(m, subst(m, t->in[t->nin - 1], &map, false));
	map_free(&map);
	return e;
}

/*
 * Sets the known elements of a node from its definition's body. A large element is left to be
 * computed by a kernel and read: the expressions stay small however long the chain.
 */
void
infer_elems(Module *m, Node *n)
{
	Node *d = definition(n), *idx[MAX_RANK], **elems;
	int64_t count = const_count(n), k, rest, dim;
	bool shape_like = dt_int(dtype_of(n)) || dtype_of(n) == DT_BOOL, useful = false;
	int i;

	if (n->elems || count < 0 || count > (shape_like ? MAX_ELEMS : UNROLL))
		return;
	if (d->elems) {
		n->elems = d->elems;
		return;
	}
	if (d->code != O_TENSOR || d->type != n->type
	 || (int64_t)d->in[d->nin - 1]->size * count > ELEM_WORK)
		return;
	if (!inferable(d->in[d->nin - 1]))
		return;
	elems = NEWN(m, Node *, count ? count : 1);
	for (k = 0; k < count; k++) {
		elems[k] = elem_at(m, d, k);
		if (elems[k]->size > ELEM_SIZE || (!shape_like && elems[k]->code != O_NUM)) {
			for (rest = k, i = rank_of(n); i-- > 0; rest /= dim) {
				is_int(dim_of(n, i), &dim);
				idx[i] = x_idx(m, rest % dim);
			}
			elems[k] = x_read(m, n, idx);
		} else
			useful = true;
	}
	if (useful)
		n->elems = d->elems = elems;
}

bool
index_elems(Module *m, Node *t, int *n, Node ***elems)
{
	int64_t count = const_count(t), k;
	Node *i;

	if (rank_of(t) > 1 || count < 0 || count > MAX_ELEMS)
		return false;
	*n = (int)count;
	*elems = NEWN(m, Node *, count ? count : 1);
	for (k = 0; k < count; k++) {
		i = x_idx(m, k);
		(*elems)[k] = x_cast(m, DT_INDEX, x_read(m, t, &i));
	}
	return true;
}

/* ---- total order ----------------------------------------------------------------------------- */

Node *
x_ascending(Module *m, Node *a, Node *b)
{
	Node *r = x_lt(m, a, b);

	return dt_float(a->type->dtype) ? x_or(m, r, x_and(m, x_ne(m, b, b), x_eq(m, a, a))) : r;
}

Node *
x_same(Module *m, Node *a, Node *b)
{
	Node *r = x_eq(m, a, b);

	return dt_float(a->type->dtype) ? x_or(m, r, x_and(m, x_ne(m, a, a), x_ne(m, b, b))) : r;
}

Node *
x_before(Module *m, Node *a, Node *b, Node *p, Node *q, bool descending)
{
	Node *r = descending ? x_ascending(m, b, a) : x_ascending(m, a, b);

	return x_or(m, r, x_and(m, x_same(m, a, b), x_lt(m, p, q)));
}

bool
uniform_value(const Node *t, Num *v)
{
	const Node *d = definition((Node *)t), *body;
	int64_t k;

	if (t->type->kind != T_TENSOR || !dt_number(t->type->dtype))
		return false;
	if (d->code == O_TENSOR && (body = d->in[d->nin - 1])->code == O_NUM)
		return *v = body->num, true;
	if (d->code != O_CONST || d->data->count < 1)
		return false;
	*v = data_get(d->data, dtype_of(t), 0);
	for (k = 1; k < d->data->count; k++)
		if (data_get(d->data, dtype_of(t), k).i != v->i)     /* the bits of a float */
			return false;
	return true;
}

bool
is_zero(const Node *e)
{
	Num v;

	while (e->code == O_CAST && dt_int(e->type->dtype))
		e = e->in[0];
	return is_intv(e, 0)
		|| (e->code == O_READ && dt_int(e->type->dtype) && uniform_value(e->in[0], &v) && v.i == 0);
}
