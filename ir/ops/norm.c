/*
 * Normalisations. Means and variances are taken in two passes: E[x^2] - E[x]^2 cancels. Half types
 * compute them in f32.
 */
#include <string.h>
#include "ops.h"

/*
 * The mean over the axes marked in `over` (kept, with extent 1), in type c: of x (c == its type or
 * wider), of its squares, or of its squared distance from center (a tensor of that kind).
 */
static Node *
mean_over(Module *m, DType c, Node *x, const bool *over, Node *center, bool square)
{
	Node *axes[MAX_RANK], *red[MAX_RANK], *idx[MAX_RANK], *e, *count = x_idx(m, 1);
	int i, n = 0, rank = rank_of(x);

	for (i = 0; i < rank; i++) {
		axes[i] = idx[i] = x_axis(m, over[i] ? x_idx(m, 1) : dim_of(x, i));
		if (!over[i])
			continue;
		count = x_mul(m, count, dim_of(x, i));
		red[n++] = idx[i] = x_axis(m, dim_of(x, i));
	}
	e = x_cast(m, c, x_read(m, x, idx));
	if (center)
		e = x_sub(m, e, x_bread(m, center, rank, axes));
	if (center || square)
		e = x_mul(m, e, e);
	e = x_reduce(m, COMB_SUM, n, red, e);
	return t_tensor(m, rank, axes, x2(m, O_DIV, e, x_cast(m, c, count)));
}

/* The type that statistics of x are computed in. */
static DType
stash_type(Build *b)
{
	DType x = acc_type(dtype_of(b->in[0])),
		s = acc_type(dtype_of_onnx((int)attr_int(b, "stash_type")));

	return s == DT_F64 ? s : x;
}

static bool
check_channels(Build *b, int i, const char *what)
{
	Node *t = b->in[i], *c = dim_of(b->in[0], 1);

	if (rank_of(t) != 1)
		return fail(b, "%s has %d dimensions, must have 1", what, rank_of(t)) != NULL;
	require(b->m, x_eq(b->m, dim_of(t, 0), c), b->loc, "%s has %s elements for %s channels", what,
		expr_print(b->m, dim_of(t, 0)), expr_print(b->m, c));
	return true;
}

/* ---- batches --------------------------------------------------------------------------------- */

/* f(element, scale, bias, mean, variance), scale over root of variance + epsilon as a factor. */
static Node *
batch_normalized(Build *b, Node *mean, Node *var)
{
	Module *m = b->m;
	Node *x = b->in[0], *axes[MAX_RANK], *at, *f, *e;
	DType d = dtype_of(x), c = acc_type(d), cv = acc_type(dtype_of(var));

	if (cv == DT_F64)
		c = cv;
	at = x_axis(m, dim_of(var, 0));
	e = x_add(m, x_cast(m, c, x_read(m, var, &at)), x_flt(m, c, attr_float(b, "epsilon")));
	f = t_tensor(m, 1, &at, x2(m, O_DIV, x_cast(m, c, x_read(m, b->in[1], &at)), x1(m, O_SQRT, e)));
	axes_new(m, rank_of(x), x->type->dims, axes);
	at = axes[1];
	e = x_sub(m, x_cast(m, c, x_read(m, x, axes)), x_cast(m, c, x_read(m, mean, &at)));
	e = x_add(m, x_mul(m, e, x_read(m, f, &at)), x_cast(m, c, x_read(m, b->in[2], &at)));
	return t_tensor(m, rank_of(x), axes, x_cast(m, d, e));
}

/* old * momentum + new * (1 - momentum), in old's type. */
static Node *
running_mean(Module *m, Node *old, Node *new, double momentum)
{
	Node *at = x_axis(m, dim_of(old, 0)), *e;
	DType d = dtype_of(old), c = dtype_of(new);

	e = x_mul(m, x_cast(m, c, x_read(m, old, &at)), x_flt(m, c, momentum));
	e = x_add(m, e, x_mul(m, x_read(m, new, &at), x_flt(m, c, 1 - momentum)));
	return t_tensor(m, 1, &at, x_cast(m, d, e));
}

static Node *
build_batch_norm(Build *b)
{
	static const char *const names[] = {"", "scale", "bias", "mean", "variance"};
	Module *m = b->m;
	Node *x = b->in[0], *mean, *var, *out[3], *c;
	bool over[MAX_RANK];
	double momentum = attr_float(b, "momentum");
	int i;

	if (rank_of(x) < 2) {
		if (rank_of(x) == 1)
			return unsupported(b, "an operand of one dimension");
		return fail(b, "the operand is a scalar");
	}
	for (i = 1; i < 5; i++)
		if (!check_channels(b, i, names[i]))
			return NULL;
	if (!attr_int(b, "training_mode")) {
		out[0] = batch_normalized(b, b->in[3], b->in[4]);
		out[1] = b->in[3];
		out[2] = b->in[4];
		return t_tuple(m, 3, out);
	}
	for (i = 0; i < rank_of(x); i++)
		over[i] = i != 1;
	mean = mean_over(m, acc_type(dtype_of(x)), x, over, NULL, false);
	var = mean_over(m, acc_type(dtype_of(x)), x, over, mean, true);
	c = dim_of(x, 1);
	mean = reshape(m, mean, 1, &c);
	var = reshape(m, var, 1, &c);
	out[0] = batch_normalized(b, mean, var);
	out[1] = running_mean(m, b->in[3], mean, momentum);
	out[2] = running_mean(m, b->in[4], var, momentum);
	return t_tuple(m, 3, out);
}

/* ---- channels of one picture ----------------------------------------------------------------- */

/* (x - mean) / sqrt(variance + epsilon) over the marked axes, cast to d, then * scale + bias of the
 * channel that the axes name. */
static Node *
affine_normalized(Build *b, Node *x, const bool *over, DType c,
	Node *(*channel)(Module *, Node *const *, Node *),
	Node *arg)
{
	Module *m = b->m;
	Node *mean = mean_over(m, c, x, over, NULL, false), *var = mean_over(m, c, x, over, mean, true);
	Node *axes[MAX_RANK], *e, *at;
	DType d = dtype_of(b->in[0]);
	int rank = rank_of(x);

	axes_new(m, rank, x->type->dims, axes);
	e = x_add(m, x_bread(m, var, rank, axes), x_flt(m, c, attr_float(b, "epsilon")));
	e = x2(m, O_DIV, x_sub(m, x_cast(m, c, x_read(m, x, axes)), x_bread(m, mean, rank, axes)),
		x1(m, O_SQRT, e));
	at = channel(m, axes, arg);
	e = x_mul(m, x_cast(m, d, e), x_read(m, b->in[1], &at));
	return t_tensor(m, rank, axes, x_add(m, e, x_read(m, b->in[2], &at)));
}

static Node *plain_channel(Module *m, Node *const *axes, Node *arg) { (void)m; (void)arg;
	return axes[1]; }

static Node *
build_instance_norm(Build *b)
{
	Node *x = b->in[0];
	bool over[MAX_RANK];
	int i;

	if (rank_of(x) < 3)
		return fail(b, "the operand has %d dimensions, needs at least 3", rank_of(x));
	if (!check_channels(b, 1, "scale") || !check_channels(b, 2, "bias"))
		return NULL;
	for (i = 0; i < rank_of(x); i++)
		over[i] = i >= 2;
	return affine_normalized(b, x, over, acc_type(dtype_of(x)), plain_channel, NULL);
}

static Node *
grouped_channel(Module *m, Node *const *axes, Node *size)
{
	return x_add(m, x_mul(m, axes[1], size), axes[2]);
}

static Node *
build_group_norm(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *dims[MAX_RANK], *size, *y;
	int64_t groups = attr_int(b, "num_groups");
	bool over[MAX_RANK];
	int i, rank = rank_of(x);

	if (rank < 2 || rank == MAX_RANK || groups < 1)
		return fail(b, "%d dimensions, %lld groups", rank, (long long)groups);
	if (!check_channels(b, 1, "scale") || !check_channels(b, 2, "bias"))
		return NULL;
	require(m, x_eq(m, x_mod(m, dim_of(x, 1), x_idx(m, groups)), x_idx(m, 0)), b->loc,
		"%s channels, %lld groups",
		expr_print(m, dim_of(x, 1)), (long long)groups);
	size = x_fdiv(m, dim_of(x, 1), x_idx(m, groups));
	dims[0] = dim_of(x, 0);
	dims[1] = x_idx(m, groups);
	dims[2] = size;
	for (i = 2; i < rank; i++)
		dims[i + 1] = dim_of(x, i);
	for (i = 0; i <= rank; i++)
		over[i] = i >= 2;
	y = affine_normalized(b, reshape(m, x, rank + 1, dims), over, stash_type(b), grouped_channel,
		size);
	return reshape(m, y, rank, x->type->dims);
}

/* ---- trailing axes --------------------------------------------------------------------------- */

/* x as type d, scaled and shifted by broadcast tensors; bias may be NULL. */
static Node *
scale_shift(Build *b, Node *x, Node *scale, Node *bias)
{
	Node *in[2] = {x, scale}, *y = call(b, "mul", 2, in, NULL);

	in[0] = y;
	in[1] = bias;
	return y && bias ? call(b, "add", 2, in, NULL) : y;
}

static bool
trailing(Build *b, Node *x, bool *over)
{
	int axis = axis_attr(b, "axis", rank_of(x)), i;

	for (i = 0; i < rank_of(x); i++)
		over[i] = i >= axis;
	return axis >= 0;
}

static Node *
build_layer_norm(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *mean, *inv, *axes[MAX_RANK], *e, *out[3];
	DType d = dtype_of(x), c = stash_type(b), s = dtype_of_onnx((int)attr_int(b, "stash_type"));
	int rank = rank_of(x);
	bool over[MAX_RANK];

	if (!dt_float(s))
		return fail(b, "stash_type %lld is no float type", (long long)attr_int(b, "stash_type"));
	if (!trailing(b, x, over))
		return NULL;
	mean = mean_over(m, c, x, over, NULL, false);
	inv = mean_over(m, c, x, over, mean, true);
	axes_new(m, rank, inv->type->dims, axes);
	e = x_add(m, x_read(m, inv, axes), x_flt(m, c, attr_float(b, "epsilon")));
	inv = t_tensor(m, rank, axes, x2(m, O_DIV, x_int(m, c, 1), x1(m, O_SQRT, e)));
	axes_new(m, rank, x->type->dims, axes);
	e = x_sub(m, x_cast(m, c, x_read(m, x, axes)), x_bread(m, mean, rank, axes));
	e = x_cast(m, d, x_mul(m, e, x_bread(m, inv, rank, axes)));
	out[0] = scale_shift(b, t_tensor(m, rank, axes, e), b->in[1], b->in[2]);
	if (!out[0])
		return NULL;
	out[1] = as_type(m, mean, s);
	out[2] = as_type(m, inv, s);
	return t_tuple(m, 3, out);
}

static Node *
build_rms_norm(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *mean, *axes[MAX_RANK], *e;
	DType c = stash_type(b);
	int rank = rank_of(x);
	bool over[MAX_RANK];

	if (!trailing(b, x, over))
		return NULL;
	mean = mean_over(m, c, x, over, NULL, true);
	axes_new(m, rank, x->type->dims, axes);
	e = x1(m, O_SQRT, x_add(m, x_bread(m, mean, rank, axes),
		x_flt(m, c, attr_float(b, "epsilon"))));
	e = x2(m, O_DIV, x_cast(m, c, x_read(m, x, axes)), e);
	e = t_tensor(m, rank, axes, x_cast(m, dtype_of(b->in[1]), e));
	return scale_shift(b, e, b->in[1], NULL);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static Node *
build_mean_variance(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *mean, *var, *axes[MAX_RANK], *e;
	DType d = dtype_of(x), c = acc_type(d);
	bool over[MAX_RANK] = {false};
	const int64_t *v;
	int n, i, rank = rank_of(x);

	attr_ints(b, "axes", &n, &v);
	for (i = 0; i < n; i++) {
		if (v[i] < -rank || v[i] >= rank)
			return fail(b, "axis %lld is outside [%d, %d]", (long long)v[i], -rank, rank - 1);
		over[v[i] < 0 ? v[i] + rank : v[i]] = true;
	}
	mean = mean_over(m, c, x, over, NULL, false);
	var = mean_over(m, c, x, over, mean, true);
	axes_new(m, rank, x->type->dims, axes);
	e = x_add(m, x1(m, O_SQRT, x_bread(m, var, rank, axes)), x_flt(m, c, 1e-9));
	e = x2(m, O_DIV, x_sub(m, x_cast(m, c, x_read(m, x, axes)), x_bread(m, mean, rank, axes)), e);
	return t_tensor(m, rank, axes, x_cast(m, d, e));
}

/* Squares summed over `size` channels around each. */
static Node *
build_lrn(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *axes[MAX_RANK], *idx[MAX_RANK], *in, *e, *t, *tap;
	DType d = dtype_of(x), c = acc_type(d);
	int64_t size = attr_int(b, "size"), before = (size - 1) / 2;
	int rank = rank_of(x);

	if (rank < 2)
		return fail(b, "the operand has %d dimensions, needs at least 2", rank);
	if (size < 1 || size > 1 << 30)
		return fail(b, "size is %lld", (long long)size);
	axes_new(m, rank, x->type->dims, axes);
	axes[1] = x_axis(m, x_addi(m, dim_of(x, 1), size - 1));
	memcpy(idx, axes, sizeof *idx * (size_t)rank);
	idx[1] = x_addi(m, axes[1], -before);
	in = x_and(m, x_le(m, x_idx(m, 0), idx[1]), x_lt(m, idx[1], dim_of(x, 1)));
	e = x_cast(m, c, x_read(m, x, idx));
	t = t_tensor(m, rank, axes, x_select(m, in, x_mul(m, e, e), x_int(m, c, 0)));
	axes_new(m, rank, x->type->dims, axes);
	memcpy(idx, axes, sizeof *idx * (size_t)rank);
	tap = x_axis(m, x_idx(m, size));
	idx[1] = x_add(m, axes[1], tap);
	e = x_reduce(m, COMB_SUM, 1, &tap, x_read(m, t, idx));
	e = x_mul(m, e, x_flt(m, c, attr_float(b, "alpha") / (double)size));
	e = x_add(m, e, x_flt(m, c, attr_float(b, "bias")));
	e = x2(m, O_DIV, x_cast(m, c, x_read(m, x, axes)),
		x2(m, O_POW, e, x_flt(m, c, attr_float(b, "beta"))));
	return t_tensor(m, rank, axes, x_cast(m, d, e));
}

const Op ops_norm[] = {
	BUILD("batch_normalization", "BatchNormalization", 15,
		"(x: float, scale: float, bias: scale, mean: float,"
		" variance: mean) {epsilon: float = 1e-5, momentum: float = 0.9, training_mode: int = 0}"
		" -> y, running_mean?, running_var?", build_batch_norm,
		"normalised by channel over a batch"),
	BUILD("instance_normalization", "InstanceNormalization", 22, "(x: float, scale: x, bias: x)"
		" {epsilon: float = 1e-5} -> y", build_instance_norm, "normalised by channel and picture"),
	BUILD("group_normalization", "GroupNormalization", 21, "(x: float, scale: x, bias: x)"
		" {epsilon: float = 1e-5, num_groups: int, stash_type: int = 1} -> y", build_group_norm,
		"normalised by groups of channels"),
	BUILD("layer_normalization", "LayerNormalization", 17, "(x: float, scale: x, bias: x?)"
		" {axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1} -> y, mean?, inv_std_dev?",
		build_layer_norm, "normalised over the trailing axes"),
	BUILD("rms_normalization", "RMSNormalization", 23, "(x: float, scale: float)"
		" {axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1} -> y", build_rms_norm,
		"divided by the root of the mean square over the trailing axes"),
	BUILD("mean_variance_normalization", "MeanVarianceNormalization", 13,
	"(x: float) {axes: ints = [0, 2, 3]} -> y",
		build_mean_variance, "less the mean, over the standard deviation"),
	COMP("lp_normalization", "LpNormalization", 22, "(x: float) {axis: int = -1, p: int = 2} -> y",
		"f = acc(x); n = p == 1 ? reduce_l1(f, [axis]) : p == 2 ? reduce_l2(f, [axis])"
		" : pow(reduce_sum(pow(abs(f), p), [axis]), 1 / cast(p, type(f)));"
		" cast(n == 0 ? 0 : f / n, type(x))", "divided by its norm along an axis"),
	BUILD("lrn", "LRN", 13, "(x: float) {alpha: float = 0.0001, beta: float = 0.75,"
		" bias: float = 1, size: int} -> y",
		build_lrn, "divided by a power of the squares of neighbouring channels"),
	{0}
};
