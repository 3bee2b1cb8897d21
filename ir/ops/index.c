/*
 * Reading and writing where an index says. An index may count from the end (negative); beyond that
 * it is out of range, which `bound` reports when the program runs.
 */
#include <string.h>
#include "ml.h"

static Node *
checked(Module *m, Node *i, Node *dim)
{
	i = wrap_index(m, x_cast(m, DT_INDEX, i), dim);
	return x2(m, O_BOUND, i, dim);
}

/* ---- gather ---------------------------------------------------------------------------------- */

static Node *
build_gather(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *at = b->in[1], *axes[2 * MAX_RANK], *idx[MAX_RANK];
	int rank = rank_of(x), q = rank_of(at), axis = axis_attr(b, "axis", rank), n = 0, i;

	if (axis < 0)
		return NULL;
	if (rank + q - 1 > MAX_RANK)
		return unsupported(b, "more than %d dimensions", MAX_RANK);
	for (i = 0; i < axis; i++)
		idx[i] = axes[n++] = x_axis(m, dim_of(x, i));
	for (i = 0; i < q; i++)
		axes[n++] = x_axis(m, dim_of(at, i));
	for (i = axis + 1; i < rank; i++)
		idx[i] = axes[n++] = x_axis(m, dim_of(x, i));
	idx[axis] = checked(m, x_read(m, at, axes + axis), dim_of(x, axis));
	return t_tensor(m, n, axes, x_read(m, x, idx));
}

static Node *
build_gather_elements(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *at = b->in[1], *axes[MAX_RANK], *idx[MAX_RANK];
	int rank = rank_of(x), axis = axis_attr(b, "axis", rank), i;

	if (axis < 0)
		return NULL;
	if (rank_of(at) != rank)
		return fail(b, "indices have %d dimensions, the operand %d", rank_of(at), rank);
	axes_new(m, rank, at->type->dims, axes);
	for (i = 0; i < rank; i++) {
		idx[i] = axes[i];
		if (i != axis)
			require(m, x_le(m, dim_of(at, i), dim_of(x, i)), b->loc,
				"indices have %s at dimension %d, the operand %s",
				expr_print(m, dim_of(at, i)), i, expr_print(m, dim_of(x, i)));
	}
	idx[axis] = checked(m, x_read(m, at, axes), dim_of(x, axis));
	return t_tensor(m, rank, axes, x_read(m, x, idx));
}

/* The length of the tuples in the last dimension of indices;
 * -1 after reporting. rank: the result's, or -1. */
static int
tuple_length(Build *b, Node *at, int most, int rank)
{
	Node *last = rank_of(at) > 0 ? dim_of(at, rank_of(at) - 1) : NULL;
	int64_t k;

	if (!last) {
		fail(b, "indices have no dimension");
		return -1;
	}
	if (!is_int(last, &k)) {
		if (rank < 0) {
			unsupported(b, "the last dimension of indices settles the result's rank and is known"
				" only at run time;"
				" fix it with --shape%s", inputs_named(b, at));
			return -1;
		}
		k = rank_of(at) - 1 + most - rank;
		require(b->m, x_eq(b->m, last, x_idx(b->m, k)), b->loc,
			"the last dimension of indices is %s, must be %lld",
			expr_print(b->m, last), (long long)k);
	}
	if (k < 1 || k > most) {
		fail(b, "the last dimension of indices is %lld, must be in [1, %d]", (long long)k,
			most);
		return -1;
	}
	return (int)k;
}

/* The tuple at indices[at...] as indices into x's dimensions from `first` on. */
static void
read_tuple(Module *m, Node *indices, Node *const *at, Node *x, int first, int k, Node **idx)
{
	Node *in[MAX_RANK];
	int i, last = rank_of(indices) - 1;

	memcpy(in, at, sizeof *in * (size_t)last);
	for (i = 0; i < k; i++) {
		in[last] = x_idx(m, i);
		idx[first + i] = checked(m, x_read(m, indices, in), dim_of(x, first + i));
	}
}

static Node *
build_gather_nd(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *at = b->in[1], *axes[2 * MAX_RANK], *idx[MAX_RANK];
	int rank = rank_of(x), q = rank_of(at), n = 0, k, i;
	int64_t batch = attr_int(b, "batch_dims");

	if (batch < 0 || batch >= rank || batch >= q)
		return fail(b, "batch_dims is %lld for operands of %d and %d dimensions",
			(long long)batch, rank, q);
	if ((k = tuple_length(b, at, rank - (int)batch, -1)) < 0)
		return NULL;
	if (q - 1 + rank - (int)batch - k > MAX_RANK)
		return unsupported(b, "more than %d dimensions", MAX_RANK);
	for (i = 0; i + 1 < q; i++)
		axes[n++] = x_axis(m, dim_of(at, i));
	for (i = 0; i < batch; i++) {
		idx[i] = axes[i];
		require(m, x_eq(m, dim_of(x, i), dim_of(at, i)), b->loc,
			"batch dimension %d is %s and %s", i, expr_print(m, dim_of(x, i)),
			expr_print(m, dim_of(at, i)));
	}
	read_tuple(m, at, axes, x, (int)batch, k, idx);
	for (i = (int)batch + k; i < rank; i++)
		idx[i] = axes[n++] = x_axis(m, dim_of(x, i));
	return t_tensor(m, n, axes, x_read(m, x, idx));
}

/* A scalar operand of any numeric type as an index expression. */
static Node *
index_scalar(Module *m, Node *t)
{
	Node *v = scalar_arg(m, t);

	return dt_float(v->type->dtype) ? computed_index(m, x_cast(m, DT_I64, v))
		: x_cast(m, DT_INDEX, v);
}

static Node *
build_one_hot(Build *b)
{
	Module *m = b->m;
	Node *at = b->in[0], *axes[MAX_RANK], *in[MAX_RANK], *depth, *i, *v[2], *hot;
	int rank = rank_of(at) + 1, axis, k, n = 0;

	if (rank > MAX_RANK)
		return unsupported(b, "more than %d dimensions", MAX_RANK);
	if ((axis = axis_attr(b, "axis", rank)) < 0)
		return NULL;
	depth = extent(m, index_scalar(m, b->in[1]));
	for (k = 0; k < rank; k++)
		axes[k] = x_axis(m, k == axis ? depth : dim_of(at, n++));
	for (n = k = 0; k < rank; k++)
		if (k != axis)
			in[n++] = axes[k];
	i = x_cast(m, DT_INDEX, x_cast(m, DT_I64, x_read(m, at, in)));
	hot = x_eq(m, wrap_index(m, i, depth), axes[axis]);
	for (k = 0; k < 2; k++) {
		Node *pos = x_idx(m, k);
		v[k] = x_read(m, b->in[2], &pos);
	}
	return t_tensor(m, rank, axes, x_select(m, hot, v[1], v[0]));
}

/* ---- scatter --------------------------------------------------------------------------------- */

static bool
reduction(Build *b, DType d, Comb *c)
{
	static const struct { const char *name; Comb c; } names[] = {{"none", COMB_SET},
		{"add", COMB_SUM}, {"mul", COMB_PROD}, {"min", COMB_MIN}, {"max", COMB_MAX}};
	const char *s = attr_str(b, "reduction");
	size_t i;

	for (i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(names[i].name, s) == 0) {
			*c = names[i].c;
			if (d == DT_BOOL && i)
				*c = i == 1 || i == 4 ? COMB_OR : COMB_AND;
			return true;
		}
	fail(b, "reduction is \"%s\", must be none, add, mul, min or max", s);
	return false;
}

static Node *
build_scatter_elements(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *at = b->in[1], *v = b->in[2], *axes[MAX_RANK], *idx[MAX_RANK];
	int rank = rank_of(x), axis = axis_attr(b, "axis", rank), i;
	Comb c;

	if (axis < 0 || !reduction(b, dtype_of(x), &c))
		return NULL;
	if (rank_of(at) != rank || rank_of(v) != rank)
		return fail(b, "the operand has %d dimensions, indices %d, updates %d", rank,
			rank_of(at), rank_of(v));
	axes_new(m, rank, at->type->dims, axes);
	for (i = 0; i < rank; i++) {
		require(m, x_eq(m, dim_of(at, i), dim_of(v, i)), b->loc,
			"indices have %s at dimension %d, updates %s", expr_print(m, dim_of(at, i)),
			i, expr_print(m, dim_of(v, i)));
		if (i != axis)
			require(m, x_le(m, dim_of(at, i), dim_of(x, i)), b->loc,
				"indices have %s at dimension %d, the operand %s",
				expr_print(m, dim_of(at, i)), i, expr_print(m, dim_of(x, i)));
		idx[i] = axes[i];
	}
	idx[axis] = checked(m, x_read(m, at, axes), dim_of(x, axis));
	return t_scatter(m, c, x, rank, axes, idx, x_read(m, v, axes), NULL);
}

static Node *
build_scatter_nd(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *at = b->in[1], *v = b->in[2], *axes[2 * MAX_RANK], *idx[MAX_RANK];
	int rank = rank_of(x), q = rank_of(at), n = 0, k, i;
	Comb c;

	if (!reduction(b, dtype_of(x), &c) || (k = tuple_length(b, at, rank, rank_of(v))) < 0)
		return NULL;
	if (rank_of(v) != q - 1 + rank - k)
		return fail(b, "updates have %d dimensions, must have %d", rank_of(v),
			q - 1 + rank - k);
	for (i = 0; i + 1 < q; i++)
		axes[n++] = x_axis(m, dim_of(at, i));
	read_tuple(m, at, axes, x, 0, k, idx);
	for (i = k; i < rank; i++)
		idx[i] = axes[n++] = x_axis(m, dim_of(x, i));
	for (i = 0; i < n; i++)
		require(m, x_eq(m, dim_of(v, i), axes[i]->in[0]), b->loc,
			"updates have %s at dimension %d, must have %s",
			expr_print(m, dim_of(v, i)), i, expr_print(m, axes[i]->in[0]));
	return t_scatter(m, c, x, n, axes, idx, x_read(m, v, axes), NULL);
}

/* A cache with a sequence written over it: each element looks whether it was written. */
static Node *
build_tensor_scatter(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *v = b->in[1], *axes[MAX_RANK], *idx[MAX_RANK], *at, *in, *len;
	int rank = rank_of(x), axis = axis_attr(b, "axis", rank), i;
	bool circular = strcmp(attr_str(b, "mode"), "circular") == 0;

	if (axis < 0)
		return NULL;
	if (axis == 0 || rank_of(v) != rank)
		return fail(b, "axis is %d of %d dimensions, the update has %d", axis, rank,
			rank_of(v));
	if (!circular && strcmp(attr_str(b, "mode"), "linear"))
		return fail(b, "mode is \"%s\", must be linear or circular", attr_str(b, "mode"));
	axes_new(m, rank, x->type->dims, axes);
	for (i = 0; i < rank; i++) {
		idx[i] = axes[i];
		if (i != axis)
			require(m, x_eq(m, dim_of(x, i), dim_of(v, i)), b->loc,
				"the update has %s at dimension %d, the cache %s",
				expr_print(m, dim_of(v, i)), i, expr_print(m, dim_of(x, i)));
	}
	len = dim_of(v, axis);
	require(m, x_le(m, len, dim_of(x, axis)), b->loc,
		"the update has %s elements, the cache %s", expr_print(m, len),
		expr_print(m, dim_of(x, axis)));
	at = b->in[2] ? x_cast(m, DT_INDEX, x_read(m, b->in[2], axes)) : x_idx(m, 0);
	idx[axis] = x_sub(m, axes[axis], at);
	if (circular)
		idx[axis] = x_mod(m, idx[axis], dim_of(x, axis));
	in = x_and(m, x_le(m, x_idx(m, 0), idx[axis]), x_lt(m, idx[axis], len));
	return t_tensor(m, rank, axes, x_select(m, in, x_read(m, v, idx), x_read(m, x, axes)));
}

/* Places are flat indices into the tensor that was pooled; a larger output_shape adds zeros at the
 * ends. */
static Node *
build_max_unpool(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *dims[MAX_RANK], *axes[MAX_RANK], *y, *flat, *size, *in, **out, *place,
		*idx[MAX_RANK];
	int rank = rank_of(x), n = rank - 2, i;
	int64_t kernel[MAX_RANK], pads[2 * MAX_RANK], str[MAX_RANK];

	if (n < 1 || rank_of(b->in[1]) != rank)
		return fail(b, "the operands have %d and %d dimensions", rank, rank_of(b->in[1]));
	if (!spatial_attr(b, "kernel_shape", n, 1, kernel)
		|| !spatial_attr(b, "pads", 2 * n, 0, pads)
		|| !spatial_attr(b, "strides", n, 1, str))
		return NULL;
	for (i = 0; i < rank; i++)
		dims[i] = i < 2 ? dim_of(x, i)
			: x_addi(m, x_muli(m, x_addi(m, dim_of(x, i), -1), str[i - 2]),
			kernel[i - 2] - pads[i - 2] - pads[n + i - 2]);
	size = x_idx(m, 1);
	for (i = 0; i < rank; i++)
		size = x_mul(m, size, dims[i]);
	flat = x_axis(m, size);
	flat = t_tensor(m, 1, &flat, x_int(m, dtype_of(x), 0));
	axes_new(m, rank, x->type->dims, axes);
	place = checked(m, x_read(m, b->in[1], axes), size);
	flat = t_scatter(m, COMB_SET, flat, rank, axes, &place, x_read(m, x, axes), NULL);
	y = reshape(m, flat, rank, dims);
	if (!b->in[2])
		return y;
	if (!list_of(b, b->in[2], "output_shape", rank, &out))
		return NULL;
	in = x_bool(m, true);
	for (i = 0; i < rank; i++) {
		idx[i] = axes[i] = x_axis(m, extent(m, out[i]));
		in = x_and(m, in, x_lt(m, axes[i], dims[i]));
	}
	return t_tensor(m, rank, axes,
		x_select(m, in, x_read(m, y, idx), x_int(m, dtype_of(x), 0)));
}

/* ---- selecting a number of elements that the data decide ------------------------------------- */

/*
 * The places of the marked elements of n, in order: their indices, as an i64 tensor whose only
 * dimension is their number (read from a tensor of rank 0).
 */
Node *
places_of(Build *b, Node *n, Node *axis, Node *mark)
{
	Module *m = b->m;
	Node *flags, *before, *count, *base, *one = x_int(m, DT_I64, 1), *place, *again;

	flags = t_tensor(m, 1, &axis, x_select(m, mark, one, x_int(m, DT_I64, 0)));
	before = running(b, COMB_SUM, flags, 0, true, false);
	again = x_axis(m, n);
	count = t_scalar_expr(m, DT_I64,
		x_reduce(m, COMB_SUM, 1, &again, x_read(m, flags, &again)));
	infer_elems(m, count);
	count = extent(m, x_cast(m, DT_INDEX, x_read(m, count, NULL)));
	base = x_axis(m, count);
	base = t_tensor(m, 1, &base, x_int(m, DT_I64, 0));
	again = x_axis(m, n);
	place = x_cast(m, DT_INDEX, x_read(m, before, &again));
	return t_distinct(m, t_scatter(m, COMB_SET, base, 1, &again, &place, x_cast(m, DT_I64, again),
		x_ne(m, x_read(m, flags, &again), x_int(m, DT_I64, 0))));
}

static Node *
build_compress(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *c = b->in[1], *axis, *axes[MAX_RANK], *idx[MAX_RANK], *dim, *n, *place;
	int rank = rank_of(x), on, i;

	if (rank_of(c) != 1)
		return fail(b, "the condition has %d dimensions, must have one", rank_of(c));
	if (!attr_find(b->attrs, "axis")) {
		dim = numel(m, x);
		x = reshape(m, x, 1, &dim);
		rank = 1;
		on = 0;
	} else if ((on = axis_attr(b, "axis", rank)) < 0)
		return NULL;
	require(m, x_le(m, dim_of(c, 0), dim_of(x, on)), b->loc,
		"the condition has %s elements, the axis %s", expr_print(m, dim_of(c, 0)),
		expr_print(m, dim_of(x, on)));
	n = dim_of(c, 0);
	axis = x_axis(m, n);
	place = places_of(b, n, axis, x_read(m, c, &axis));
	for (i = 0; i < rank; i++)
		idx[i] = axes[i] = x_axis(m, i == on ? dim_of(place, 0) : dim_of(x, i));
	idx[on] = x_cast(m, DT_INDEX, x_read(m, place, &axes[on]));
	return t_tensor(m, rank, axes, x_read(m, x, idx));
}

static Node *
build_non_zero(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *flat, *n = numel(m, x), *axis, *place, *v, *axes[2], *r;
	int rank = rank_of(x), i;

	flat = reshape(m, x, 1, &n);
	if (dtype_of(flat) == DT_STRING) {           /* an empty string is as zero */
		flat = call(b, "equal", 2, (Node *[]){flat, one_string(b, "")}, NULL);
		flat = flat ? call(b, "not", 1, &flat, NULL) : NULL;
		if (!flat)
			return NULL;
	}
	axis = x_axis(m, n);
	v = x_read(m, flat, &axis);
	if (v->type->dtype != DT_BOOL)
		v = x_ne(m, v, x_int(m, v->type->dtype, 0));
	place = places_of(b, n, axis, v);
	axes[0] = x_axis(m, x_idx(m, rank));
	axes[1] = x_axis(m, dim_of(place, 0));
	v = x_cast(m, DT_INDEX, x_read(m, place, &axes[1]));
	r = x_idx(m, 0);
	for (i = rank; i-- > 0;) {
		Node *at = i ? x_mod(m, v, dim_of(x, i)) : v;
		r = x_select(m, x_eq(m, axes[0], x_idx(m, i)), at, r);
		v = x_fdiv(m, v, dim_of(x, i));
	}
	return t_tensor(m, 2, axes, x_cast(m, DT_I64, r));
}

const Op ops_index[] = {
	BUILD("gather",          "Gather",          13,
		"(x: any, indices: idx) {axis: int = 0} -> y", build_gather,
		"slices along an axis"),
	BUILD("gather_elements", "GatherElements",  13,
		"(x: any, indices: idx) {axis: int = 0} -> y", build_gather_elements,
		"an element for each index"),
	BUILD("gather_nd",       "GatherND",        13,
		"(x: any, indices: i64) {batch_dims: int = 0} -> y", build_gather_nd,
		"slices at index tuples"),
	BUILD("one_hot",         "OneHot",          28,
		"(indices: num, depth: num, values: any) {axis: int = -1} -> y", build_one_hot,
		"one of two values at each index"),
	BUILD("scatter_elements", "ScatterElements", 18,
		"(x: any, indices: idx, updates: x) {axis: int = 0, reduction: str = \"none\"} -> y",
			build_scatter_elements,
		"a copy with an element replaced for each index"),
	BUILD("scatter_nd",      "ScatterND",       18,
		"(x: any, indices: i64, updates: x) {reduction: str = \"none\"} -> y",
		build_scatter_nd, "a copy with slices replaced at index tuples"),
	BUILD("tensor_scatter",  "TensorScatter",   24,
		"(past: any, update: past, write_indices: i64?) {axis: int = -2, mode: str = \"linear\"} ->"
		" present",
		build_tensor_scatter, "a cache with a sequence written into it"),
	BUILD("max_unpool",      "MaxUnpool",       22,
		"(x: float, indices: i64, output_shape: i64?)"
		" {kernel_shape: ints, pads: ints?, strides: ints?} -> y", build_max_unpool,
		"values at the places they came from"),
	BUILD("compress",        "Compress",        28,
		"(x: any, condition: bool) {axis: int?} -> y", build_compress,
		"the slices whose condition holds"),
	BUILD("non_zero",        "NonZero",         13, "(x: num|bool|string) {} -> y", build_non_zero,
		"the indices of what is not zero"),
	{0}
};
