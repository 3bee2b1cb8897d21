/*
 * Order: running sums, positions of extremes, sorting, uniqueness, suppression.
 *
 * Nothing here sorts in place: an element's position is the number of those that come before it.
 */
#include <string.h>
#include "ops.h"

/* ---- running combinations -------------------------------------------------------------------- */

enum { BLOCK = 64 };

/* comb over the elements of axis `on` in [from, from + n). */
static Node *
comb_part(Module *m, Comb c, Node *x, int on, Node *const *axes, Node *from, Node *n)
{
	Node *idx[MAX_RANK], *j = x_axis(m, n);

	memcpy(idx, axes, sizeof *idx * (size_t)rank_of(x));
	idx[on] = x_add(m, from, j);
	return x_reduce(m, c, 1, &j, x_read(m, x, idx));
}

/*
 * Element i of the result combines elements [0, i) of x along the axis. Long axes go by blocks: the
 * blocks' totals, running over them, then within the block, so that the work grows by BLOCK only.
 */
static Node *
running_before(Module *m, Comb c, Node *x, int on)
{
	Node *axes[MAX_RANK], *totals, *sums, *first, *size = x_idx(m, BLOCK), *n = dim_of(x, on),
		*place, *part;
	int rank = rank_of(x);

	axes_new(m, rank, x->type->dims, axes);
	if (n->hi <= 2 * BLOCK)
		return t_tensor(m, rank, axes, comb_part(m, c, x, on, axes, x_idx(m, 0), axes[on]));
	place = axes[on];
	axes[on] = x_axis(m, x_ceildiv(m, n, size));
	first = x_mul(m, axes[on], size);
	totals = t_tensor(m, rank, axes,
		comb_part(m, c, x, on, axes, first, x_min(m, size, x_sub(m, n, first))));
	sums = running_before(m, c, totals, on);
	axes[on] = x_fdiv(m, place, size);
	part = x_read(m, sums, axes);
	first = x_mul(m, axes[on], size);
	axes[on] = place;
	return t_tensor(m, rank, axes,
		x_comb(m, c, part, comb_part(m, c, x, on, axes, first, x_sub(m, place, first))));
}

Node *
running(Build *b, Comb c, Node *x, int on, bool exclusive, bool reverse)
{
	Module *m = b->m;
	Node *axes[MAX_RANK], *idx[MAX_RANK], *before, *last = x_addi(m, dim_of(x, on), -1), *v;
	DType d = dtype_of(x), acc = dt_small(d) ? DT_F32 : d;
	int rank = rank_of(x);

	if (reverse || acc != d) {
		axes_new(m, rank, x->type->dims, axes);
		memcpy(idx, axes, sizeof *idx * (size_t)rank);
		if (reverse)
			idx[on] = x_sub(m, last, axes[on]);
		x = t_tensor(m, rank, axes, x_cast(m, acc, x_read(m, x, idx)));
	}
	before = running_before(m, c, x, on);
	if (!reverse && exclusive && acc == d)
		return before;
	axes_new(m, rank, x->type->dims, axes);
	memcpy(idx, axes, sizeof *idx * (size_t)rank);
	if (reverse)
		idx[on] = x_sub(m, last, axes[on]);
	v = x_read(m, before, idx);
	if (!exclusive)
		v = x_comb(m, c, v, x_read(m, x, idx));
	return t_tensor(m, rank, axes, x_cast(m, d, v));
}

/* An axis that is known only at run time: each axis' result, of which the right one is read. */
static Node *
cumulative(Build *b, Comb c)
{
	Module *m = b->m;
	Node *x = b->in[0], *axis = x_cast(m, DT_INDEX, scalar_arg(m, b->in[1])), *axes[MAX_RANK],
		*v = NULL, *r;
	int rank = rank_of(x), d;
	bool exclusive = attr_int(b, "exclusive") != 0, reverse = attr_int(b, "reverse") != 0;
	int64_t known;

	if (rank == 0)
		return fail(b, "the operand is a scalar");
	require(m, x_and(m, x_le(m, x_idx(m, -rank), axis), x_lt(m, axis, x_idx(m, rank))), b->loc,
		"the axis is outside [%d, %d]", -rank, rank - 1);
	if (is_int(axis, &known))
		return known < -rank || known >= rank ? NULL
			: running(b, c, x, (int)(known < 0 ? known + rank : known), exclusive,
				reverse);
	axes_new(m, rank, x->type->dims, axes);
	for (d = 0; d < rank; d++) {
		r = x_read(m, running(b, c, x, d, exclusive, reverse), axes);
		v = v ? x_select(m, x_any_axis(m, axis, d, rank), r, v) : r;
	}
	return t_tensor(m, rank, axes, v);
}

static Node *build_cumsum(Build *b)  { return cumulative(b, COMB_SUM); }
static Node *build_cumprod(Build *b) { return cumulative(b, COMB_PROD); }

/* ---- positions of extremes ------------------------------------------------------------------- */

/* Axes of x without one, and x's indices with `inner` there. */
static int
without(Module *m, Node *x, int axis, Node *inner, Node **axes, Node **idx)
{
	int i, n = 0;

	for (i = 0; i < rank_of(x); i++)
		idx[i] = i == axis ? inner : (axes[n++] = x_axis(m, dim_of(x, i)));
	return n;
}

/* x's rank less one: where along the axis the maximum or minimum is, in i32 or i64. NaN counts as
 * both. */
static Node *
arg_extreme(Module *m, Node *x, int axis, Comb c, bool last)
{
	Node *axes[MAX_RANK], *idx[MAX_RANK], *n = dim_of(x, axis), *j = x_axis(m, n), *best, *v,
		*hit;
	DType d = n->hi <= INT32_MAX ? DT_I32 : DT_I64;
	Comb pick = last ? COMB_MAX : COMB_MIN;
	int k = without(m, x, axis, j, axes, idx);

	best = t_tensor(m, k, axes, x_reduce(m, c, 1, &j, x_read(m, x, idx)));
	j = x_axis(m, n);
	k = without(m, x, axis, j, axes, idx);
	v = x_read(m, x, idx);
	hit = x_eq(m, v, x_read(m, best, axes));
	if (dt_float(dtype_of(x)))
		hit = x_or(m, hit, x_ne(m, v, v));
	v = x_select(m, hit, x_cast(m, d, j), x_comb_identity(m, pick, d));
	return t_tensor(m, k, axes, x_reduce(m, pick, 1, &j, v));
}

static Node *
arg_result(Build *b, Comb c)
{
	Module *m = b->m;
	Node *x = b->in[0], *at, *axes[MAX_RANK], *idx[MAX_RANK];
	int axis = axis_attr(b, "axis", rank_of(x)), i, n = 0, k = 0;
	bool keep = attr_int(b, "keepdims") != 0;

	if (axis < 0)
		return NULL;
	require(m, x_lt(m, x_idx(m, 0), dim_of(x, axis)), b->loc, "the axis is empty");
	at = arg_extreme(m, x, axis, c, attr_int(b, "select_last_index") != 0);
	for (i = 0; i < rank_of(x); i++) {
		if (i == axis && !keep)
			continue;
		axes[n++] = x_axis(m, i == axis ? x_idx(m, 1) : dim_of(x, i));
		if (i != axis)
			idx[k++] = axes[n - 1];
	}
	return t_tensor(m, n, axes, x_cast(m, DT_I64, x_read(m, at, idx)));
}

static Node *build_argmax(Build *b) { return arg_result(b, COMB_MAX); }
static Node *build_argmin(Build *b) { return arg_result(b, COMB_MIN); }

static Node *
build_hardmax(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *at, *axes[MAX_RANK], *outer[MAX_RANK];
	int axis = axis_attr(b, "axis", rank_of(x)), i, n = 0;
	DType d = dtype_of(x);

	if (axis < 0)
		return NULL;
	at = arg_extreme(m, x, axis, COMB_MAX, false);
	axes_new(m, rank_of(x), x->type->dims, axes);
	for (i = 0; i < rank_of(x); i++)
		if (i != axis)
			outer[n++] = axes[i];
	return t_tensor(m, rank_of(x), axes,
		x_select(m, x_eq(m, x_cast(m, DT_INDEX, x_read(m, at, outer)), axes[axis]),
		x_int(m, d, 1), x_int(m, d, 0)));
}

/* ---- sorting --------------------------------------------------------------------------------- */

static Node *
as_i64(Module *m, Node *cond)
{
	return x_select(m, cond, x_int(m, DT_I64, 1), x_int(m, DT_I64, 0));
}

/* Each element's position along the axis when sorted; equal ones keep their order. */
static Node *
sorted_places(Module *m, Node *x, int axis, bool descending)
{
	Node *axes[MAX_RANK], *idx[MAX_RANK], *i, *j, *a, *b, *first;

	axes_new(m, rank_of(x), x->type->dims, axes);
	memcpy(idx, axes, sizeof *idx * (size_t)rank_of(x));
	j = axes[axis];
	i = idx[axis] = x_axis(m, dim_of(x, axis));
	a = x_read(m, x, idx);
	b = x_read(m, x, axes);
	first = x_before(m, a, b, i, j, descending);
	return t_tensor(m, rank_of(x), axes, x_reduce(m, COMB_SUM, 1, &i, as_i64(m, first)));
}

static Node *
build_topk(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *k, *places, *axes[MAX_RANK], *idx[MAX_RANK], *base, *at, *out[2],
		*place;
	int rank = rank_of(x), axis, i;

	if ((axis = axis_attr(b, "axis", rank)) < 0)
		return NULL;
	k = extent(m, x_cast(m, DT_INDEX, scalar_arg(m, b->in[1])));
	require(m, x_le(m, k, dim_of(x, axis)), b->loc, "k is %s, the axis has %s elements",
		expr_print(m, k), expr_print(m, dim_of(x, axis)));
	places = sorted_places(m, x, axis, attr_int(b, "largest") != 0);
	for (i = 0; i < rank; i++)
		axes[i] = x_axis(m, i == axis ? k : dim_of(x, i));
	base = t_tensor(m, rank, axes, x_int(m, DT_I64, 0));
	axes_new(m, rank, x->type->dims, axes);
	memcpy(idx, axes, sizeof *idx * (size_t)rank);
	place = idx[axis] = x_cast(m, DT_INDEX, x_read(m, places, axes));
	at = t_distinct(m, t_scatter(m, COMB_SET, base, rank, axes, idx, x_cast(m, DT_I64, axes[axis]),
		x_lt(m, place, k)));
	axes_new(m, rank, at->type->dims, axes);
	memcpy(idx, axes, sizeof *idx * (size_t)rank);
	idx[axis] = x_cast(m, DT_INDEX, x_read(m, at, axes));
	out[0] = t_tensor(m, rank, axes, x_read(m, x, idx));
	out[1] = at;
	return t_tuple(m, 2, out);
}

/* ---- unique ---------------------------------------------------------------------------------- */

/* How slice i of x's first dimension stands to slice j: the element of each at their first
 * difference. */
typedef struct Pair { Node *a, *b; } Pair;

static Pair
first_difference(Module *m, Node *x, Node *i, Node *j)
{
	Node *r = x_axis(m, dim_of(x, 1)), *a, *b, *at, *none = x_int(m, DT_I64, INT64_MAX), *where;

	a = x_read(m, x, (Node *[]){i, r});
	b = x_read(m, x, (Node *[]){j, r});
	at = x_reduce(m, COMB_MIN, 1, &r, x_select(m, x_same(m, a, b), none, x_cast(m, DT_I64, r)));
	where = x_cast(m, DT_INDEX, x_select(m, x_eq(m, at, none), x_int(m, DT_I64, 0), at));
	return (Pair){x_read(m, x, (Node *[]){i, where}), x_read(m, x, (Node *[]){j, where})};
}

/* The outputs in terms of x as [n, rest]: places in it of the unique slices, inverse, counts. */
static void
unique_rows(Build *b, Node *x, bool sorted, Node **place, Node **inverse, Node **counts)
{
	Module *m = b->m;
	Node *n = dim_of(x, 0), *i = x_axis(m, n), *j = x_axis(m, i), *first, *pos, *flag, *u,
		*base, *self, *own;
	Pair p = first_difference(m, x, j, i);

	/* first occurrence: none before is equal */
	self = t_tensor(m, 1, &i,
		x_reduce(m, COMB_MIN, 1, &j,
		x_select(m, x_same(m, p.a, p.b), x_cast(m, DT_I64, j),
		x_int(m, DT_I64, INT64_MAX))));
	i = x_axis(m, n);
	own = x_cast(m, DT_I64, i);
	/* the first equal slice */
	self = t_tensor(m, 1, &i, x_min(m, x_read(m, self, &i), own));
	i = x_axis(m, n);
	first = t_tensor(m, 1, &i, as_i64(m, x_eq(m, x_read(m, self, &i), x_cast(m, DT_I64, i))));
	/* its position: the number of first ones that are less, or that come before */
	i = x_axis(m, n);
	if (sorted) {
		j = x_axis(m, n);
		p = first_difference(m, x, j, i);
		flag = x_select(m, x_ne(m, x_read(m, first, &j), x_int(m, DT_I64, 0)),
			as_i64(m, x_ascending(m, p.a, p.b)), x_int(m, DT_I64, 0));
		pos = t_tensor(m, 1, &i, x_reduce(m, COMB_SUM, 1, &j, flag));
	} else
		pos = running(b, COMB_SUM, first, 0, true, false);
	j = x_axis(m, n);
	u = computed_index(m, x_reduce(m, COMB_SUM, 1, &j, x_read(m, first, &j)));
	u = extent(m, u);
	base = x_axis(m, u);
	base = t_tensor(m, 1, &base, x_int(m, DT_I64, 0));
	i = x_axis(m, n);
	own = x_cast(m, DT_INDEX, x_read(m, pos, &i));
	*place = t_distinct(m, t_scatter(m, COMB_SET, base, 1, &i, &own, x_cast(m, DT_I64, i),
		x_ne(m, x_read(m, first, &i), x_int(m, DT_I64, 0))));
	i = x_axis(m, n);
	own = x_cast(m, DT_INDEX, x_read(m, self, &i));
	*inverse = t_tensor(m, 1, &i, x_read(m, pos, &own));
	i = x_axis(m, n);
	own = x_cast(m, DT_INDEX, x_read(m, *inverse, &i));
	*counts = t_scatter(m, COMB_SUM, base, 1, &i, &own, x_int(m, DT_I64, 1), NULL);
}

static Node *
build_unique(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *key, *flat, *dims[2], *out[4], *axes[MAX_RANK], *idx[MAX_RANK];
	int rank = rank_of(x), axis = 0, i;
	bool along = attr_find(b->attrs, "axis") != NULL;

	if (along && (axis = axis_attr(b, "axis", rank)) < 0)
		return NULL;
	if (!along) {
		dims[0] = numel(m, x);
		x = reshape(m, x, 1, dims);
		rank = 1;
	}
	key = dtype_of(x) != DT_STRING ? x       /* strings by their places in order */
		: t_host(m, "str_rank", "d 0 N", ty_tensor(m, DT_I64, rank, x->type->dims), 1, &x);
	/* the axis first, the rest flat behind it */
	for (i = 0; i < rank; i++)
		axes[i] = x_axis(m, dim_of(x, i == 0 ? axis : i <= axis ? i - 1 : i));
	for (i = 0; i < rank; i++)
		idx[i] = axes[i == axis ? 0 : i < axis ? i + 1 : i];
	flat = t_tensor(m, rank, axes, x_read(m, key, idx));
	dims[0] = dim_of(x, axis);
	dims[1] = x_idx(m, 1);
	for (i = 1; i < rank; i++)
		dims[1] = x_mul(m, dims[1], dim_of(flat, i));
	flat = reshape(m, flat, 2, dims);
	unique_rows(b, flat, attr_int(b, "sorted") != 0, &out[1], &out[2], &out[3]);
	for (i = 0; i < rank; i++)
		idx[i] = axes[i] = x_axis(m, i == axis ? dim_of(out[1], 0) : dim_of(x, i));
	idx[axis] = x_cast(m, DT_INDEX, x_read(m, out[1], &axes[axis]));
	out[0] = t_tensor(m, rank, axes, x_read(m, x, idx));
	return t_tuple(m, 4, out);
}

/* ---- suppression of overlapping boxes -------------------------------------------------------- */

typedef struct Box { Node *lo[2], *hi[2], *area; } Box;

/* Box i of batch n; its corners in order, whichever way it was given. */
static Box
box_at(Module *m, Node *boxes, Node *n, Node *i, bool center)
{
	Node *v[4], *half = x_flt(m, DT_F32, 0.5), *side[2];
	Box r;
	int k;

	for (k = 0; k < 4; k++)
		v[k] = x_read(m, boxes, (Node *[]){n, i, x_idx(m, k)});
	for (k = 0; k < 2; k++) {
		Node *h = x_mul(m, v[k + 2], half);
		r.lo[k] = center ? x_sub(m, v[k], h) : x_min(m, v[k], v[k + 2]);
		r.hi[k] = center ? x_add(m, v[k], h) : x_max(m, v[k], v[k + 2]);
		side[k] = x_sub(m, r.hi[k], r.lo[k]);
	}
	r.area = x_mul(m, side[1], side[0]);
	return r;
}

static Node *
overlap(Module *m, const Box *a, const Box *b, Node *limit)
{
	Node *zero = x_int(m, DT_F32, 0), *side[2], *inter, *both, *ok = x_bool(m, true);
	int k;

	for (k = 0; k < 2; k++) {
		side[k] = x_sub(m, x_min(m, a->hi[k], b->hi[k]), x_max(m, a->lo[k], b->lo[k]));
		ok = x_and(m, ok, x_lt(m, zero, side[k]));
	}
	inter = x_mul(m, side[1], side[0]);
	both = x_sub(m, x_add(m, a->area, b->area), inter);
	ok = x_and(m, ok, x_and(m, x_lt(m, zero, inter), x_lt(m, zero, both)));
	ok = x_and(m, ok, x_and(m, x_lt(m, zero, a->area), x_lt(m, zero, b->area)));
	return x_and(m, ok, x_lt(m, limit, x2(m, O_DIV, inter, both)));
}

/*
 * One round: is box number `round` (by score) of each batch and class kept, given the earlier ones?
 * It is if its score is high enough, there is room, and no kept one overlaps too much.
 */
static Region *
suppress_round(Build *b, Node *boxes, Node *scores, Node *order, const Type *type)
{
	Module *m = b->m;
	Region *r = region_new(m, "body");
	Node *round, *keep, *a[3], *k, *j, *i, *other, *count, *hit, *ok, *most, *limit;
	bool center = attr_int(b, "center_point_box") != 0;
	Box x, y;

	r->nparams = 2;
	r->params = NEWN(m, Node *, 2);
	round = r->params[0] = t_param(m, "round", ty_tensor(m, DT_I64, 0, NULL), 0);
	keep = r->params[1] = t_param(m, "keep", type, 1);
	k = x2(m, O_BOUND, x_cast(m, DT_INDEX, x_read(m, round, NULL)), dim_of(order, 2));
	most = b->in[2] ? x_cast(m, DT_I64, scalar_arg(m, b->in[2])) : x_int(m, DT_I64, 0);
	limit = b->in[3] ? scalar_arg(m, b->in[3]) : x_flt(m, DT_F32, 0);
	axes_new(m, 2, type->dims, a);
	i = x_cast(m, DT_INDEX, x_read(m, order, (Node *[]){a[0], a[1], k}));
	j = x_axis(m, k);
	count = x_reduce(m, COMB_SUM, 1, &j, as_i64(m, x_read(m, keep, (Node *[]){a[0], a[1], j})));
	j = x_axis(m, k);
	other = x_cast(m, DT_INDEX, x_read(m, order, (Node *[]){a[0], a[1], j}));
	x = box_at(m, boxes, a[0], i, center);
	y = box_at(m, boxes, a[0], other, center);
	hit = x_select(m, x_read(m, keep, (Node *[]){a[0], a[1], j}), overlap(m, &x, &y, limit),
		x_bool(m, false));
	hit = x_reduce(m, COMB_OR, 1, &j, hit);
	ok = x_and(m, x_lt(m, count, most), x_not(m, hit));
	if (b->in[4])
		ok = x_and(m, ok,
			x_lt(m, scalar_arg(m, b->in[4]),
			x_read(m, scores, (Node *[]){a[0], a[1], i})));
	ok = t_tensor(m, 2, a, ok);
	axes_new(m, 3, type->dims, a);
	region_add(m, r, t_scalar(m, DT_BOOL, (Num){.i = 1}));
	region_add(m, r,
		t_tensor(m, 3, a,
		x_select(m, x_eq(m, a[2], k), x_read(m, ok, a), x_read(m, keep, a))));
	return r;
}

/* The inverse of sorted_places: which element stands at each position. */
static Node *
sorted_order(Module *m, Node *places, int axis)
{
	Node *axes[MAX_RANK], *idx[MAX_RANK], *base;

	axes_new(m, rank_of(places), places->type->dims, axes);
	base = t_tensor(m, rank_of(places), axes, x_int(m, DT_I64, 0));
	axes_new(m, rank_of(places), places->type->dims, axes);
	memcpy(idx, axes, sizeof *idx * (size_t)rank_of(places));
	idx[axis] = x_cast(m, DT_INDEX, x_read(m, places, axes));
	return t_distinct(m, t_scatter(m, COMB_SET, base, rank_of(places), axes, idx,
		x_cast(m, DT_I64, axes[axis]), NULL));
}

static Node *
build_nms(Build *b)
{
	Module *m = b->m;
	Node *boxes = b->in[0], *scores = b->in[1], *order, *keep, *loop, *flat, *n, *axis, *place,
		*axes[3], *at, *v, *c, *i;
	const Type *type;

	if (rank_of(boxes) != 3 || rank_of(scores) != 3)
		return fail(b, "boxes and scores have %d and %d dimensions, must have 3",
			rank_of(boxes), rank_of(scores));
	require(m, x_and(m, x_eq(m, dim_of(boxes, 0), dim_of(scores, 0)),
		x_eq(m, dim_of(boxes, 1), dim_of(scores, 2))), b->loc,
		"boxes and scores are not of the same batch and number");
	require(m, x_eq(m, dim_of(boxes, 2), x_idx(m, 4)), b->loc, "a box has %s numbers",
		expr_print(m, dim_of(boxes, 2)));
	order = sorted_order(m, sorted_places(m, scores, 2, true), 2);
	type = ty_tensor(m, DT_BOOL, 3, scores->type->dims);
	axes_new(m, 3, type->dims, axes);
	keep = t_tensor(m, 3, axes, x_bool(m, false));
	loop = loop_build(b, t_scalar_expr(m, DT_I64, dim_of(scores, 2)), NULL, 1, &keep,
		suppress_round(b, boxes, scores, order, type));
	if (!loop)
		return NULL;
	n = numel(m, scores);
	flat = reshape(m, t_result(m, loop, 0), 1, &n);
	axis = x_axis(m, n);
	place = places_of(b, n, axis, x_read(m, flat, &axis));
	axes[0] = x_axis(m, dim_of(place, 0));
	axes[1] = x_axis(m, x_idx(m, 3));
	at = x_cast(m, DT_INDEX, x_read(m, place, axes));
	i = x_mod(m, at, dim_of(scores, 2));
	at = x_fdiv(m, at, dim_of(scores, 2));
	c = x_mod(m, at, dim_of(scores, 1));
	at = x_fdiv(m, at, dim_of(scores, 1));
	v = x_read(m, order, (Node *[]){at, c, i});
	v = x_select(m, x_eq(m, axes[1], x_idx(m, 2)), v,
		x_cast(m, DT_I64, x_select(m, x_eq(m, axes[1], x_idx(m, 1)), c, at)));
	return t_tensor(m, 2, axes, v);
}

const Op ops_order[] = {
	BUILD("cumsum",  "CumSum",  14,
		"(x: num, axis: idx) {exclusive: int = 0, reverse: int = 0} -> y", build_cumsum,
		"running sum along an axis"),
	BUILD("cumprod", "CumProd", 26,
		"(x: num, axis: idx) {exclusive: int = 0, reverse: int = 0} -> y", build_cumprod,
		"running product along an axis"),
	BUILD("argmax",  "ArgMax",  13,
		"(x: num) {axis: int = 0, keepdims: int = 1, select_last_index: int = 0} -> y",
		build_argmax, "where the maximum along an axis is"),
	BUILD("argmin",  "ArgMin",  13,
		"(x: num) {axis: int = 0, keepdims: int = 1, select_last_index: int = 0} -> y",
		build_argmin, "where the minimum along an axis is"),
	BUILD("hardmax", "Hardmax", 13, "(x: float) {axis: int = -1} -> y", build_hardmax,
		"1 at the first maximum, else 0"),
	BUILD("topk",    "TopK",    24,
		"(x: num, k: i64) {axis: int = -1, largest: int = 1, sorted: int = 1} -> y, indices",
		build_topk, "the k largest or smallest along an axis, and where they are"),
	BUILD("unique",  "Unique",  28,
		"(x: num|bool|string) {axis: int?, sorted: int = 1} -> y, indices?, inverse?, counts?",
		build_unique, "different elements or slices"),
	BUILD("non_max_suppression", "NonMaxSuppression", 11,
		"(boxes: f32, scores: f32, most: i64?, iou_threshold: f32?,"
		" score_threshold: f32?) {center_point_box: int = 0} -> y", build_nms,
		"the best of overlapping boxes"),
	{0}
};
