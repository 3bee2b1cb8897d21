/* com.microsoft: products, convolutions and sums with what follows them. */
#include <math.h>
#include <string.h>
#include "ops.h"

/* ---- fused products -------------------------------------------------------------------------- */

/* x with its last two axes exchanged, and the first moved behind the other batch axes. */
static Node *
transposed(Build *b, Node *x, bool last, bool batch)
{
	int64_t perm[MAX_RANK], t;
	int r = rank_of(x), i;

	if (r < 2 || (!last && !batch))
		return x;
	for (i = 0; i < r; i++)
		perm[i] = i;
	if (batch) {
		for (i = 0; i + 2 < r; i++)
			perm[i] = i + 1;
		perm[r - 2] = 0;
	}
	if (last) {
		t = perm[r - 1];
		perm[r - 1] = perm[r - 2];
		perm[r - 2] = t;
	}
	return call_result(b, "transpose", 1, &x,
		attrs_add(b->m, NULL, (Attr){.name = "perm", .kind = A_INTS, .n = r,
		.is = arena_dup(b->m->arena, perm, sizeof *perm * (size_t)r)}), 0);
}

static Node *
times(Build *b, Node *x, double factor)
{
	Node *axes[MAX_RANK];

	if (!x || factor == 1)
		return x;
	axes_new(b->m, rank_of(x), x->type->dims, axes);
	return t_tensor(b->m, rank_of(x), axes,
		x_mul(b->m, x_read(b->m, x, axes), x_flt(b->m, dtype_of(x), factor)));
}

static Node *
build_fused_matmul(Build *b)
{
	Node *x = transposed(b, b->in[0], attr_int(b, "transA") != 0, attr_int(b, "transBatchA") != 0);
	Node *y = transposed(b, b->in[1], attr_int(b, "transB") != 0, attr_int(b, "transBatchB") != 0);

	return times(b, call2(b, "matmul", x, y), attr_float(b, "alpha"));
}

/* An activation by its ONNX name; parameters p0, p1 where it has any. */
static Node *
activation(Build *b, Node *x, const char *name, int np, const double *p)
{
	static const struct { const char *name, *row, *attr[2]; } rows[] = {
		{"Relu",        "relu",         {NULL, NULL}},
		{"Tanh",        "tanh",         {NULL, NULL}},
		{"Sigmoid",     "sigmoid",      {NULL, NULL}},
		{"LeakyRelu",   "leaky_relu",   {"alpha", NULL}},
		{"HardSigmoid", "hard_sigmoid", {"alpha", "beta"}},
		{"Elu",         "elu",          {"alpha", NULL}},
		{"Selu",        "selu",         {"alpha", "gamma"}},
		{"Softplus",    "softplus",     {NULL, NULL}},
		{"Softsign",    "softsign",     {NULL, NULL}},
		{"ThresholdedRelu", "thresholded_relu", {"alpha", NULL}},
		{"Gelu",        "gelu",         {NULL, NULL}},
		{"HardSwish",   "hard_swish",   {NULL, NULL}},
		{"Swish",       "swish",        {"alpha", NULL}},
	};
	const Attr *attrs = NULL;
	size_t i;
	int k;

	if (!x || !*name)
		return x;
	if (strcmp(name, "Clip") == 0) {
		DType d = dtype_of(x);
		Node *in[3] = {x, t_scalar(b->m, d, num_round(d, np > 0 ? p[0] : -__builtin_inf())),
			t_scalar(b->m, d, num_round(d, np > 1 ? p[1] : __builtin_inf()))};
		return call(b, "clip", 3, in, NULL);
	}
	for (i = 0; i < sizeof rows / sizeof *rows; i++) {
		if (strcmp(rows[i].name, name))
			continue;
		for (k = 0; k < 2 && rows[i].attr[k] && k < np; k++)
			attrs = with_float(b, attrs, rows[i].attr[k], p[k]);
		return call_result(b, rows[i].row, 1, &x, attrs, 0);
	}
	return unsupported(b, "activation \"%s\"", name);
}

/* The node's attributes without those that the row it is made of does not have. */
static const Attr *
attrs_of(Build *b, const char *row)
{
	const Sig *s = op_sig(op_find(row));
	const Attr *a, *list = NULL;
	int i;

	for (a = b->attrs; a; a = a->next)
		for (i = 0; i < s->nattrs; i++)
			if (strcmp(s->attrs[i].name, a->name) == 0) {
				Attr copy = *a;
				copy.next = NULL;
				list = attrs_add(b->m, list, copy);
			}
	return list;
}

/* That of the attributes activation and activation_alpha, _beta, _gamma, _axis. */
static Node *
named_activation(Build *b, Node *x)
{
	static const struct { const char *name, *row; } rows[] = {
		{"Softmax", "softmax"}, {"LogSoftmax", "log_softmax"}, {"Hardmax", "hardmax"}};
	const Attr *axis = attr_find(b->attrs, "activation_axis");
	const char *name = attr_str(b, "activation");
	bool has[2] = {attr_find(b->attrs, "activation_alpha"), attr_find(b->attrs, "activation_beta")};
	double p[2] = {attr_float(b, "activation_alpha"), attr_float(b, "activation_beta")};
	int n = has[1] ? 2 : has[0] ? 1 : 0;
	size_t i;

	for (i = 0; x && i < sizeof rows / sizeof *rows; i++)
		if (strcmp(rows[i].name, name) == 0)
			return call_result(b, rows[i].row, 1, &x,
				axis ? with_int(b, NULL, "axis", axis->i) : NULL, 0);
	if (strcmp(name, "Selu") == 0 && attr_find(b->attrs, "activation_gamma")) {
		p[1] = attr_float(b, "activation_gamma");
		n = 2;
	}
	return activation(b, x, name, n, p);
}

static Node *
build_fused_matmul_activation(Build *b)
{
	return named_activation(b, build_fused_matmul(b));
}

static Node *
build_fused_gemm(Build *b)
{
	return named_activation(b, call_result(b, "gemm", 3, b->in, attrs_of(b, "gemm"), 0));
}

/* ---- convolutions ---------------------------------------------------------------------------- */

/* x with its last axis as axis 1; back: the other way round. */
static Node *
channels_moved(Build *b, Node *x, bool back)
{
	int64_t perm[MAX_RANK];
	int r = x ? rank_of(x) : 0, i;

	if (r < 3)                                   /* conv says what is wrong */
		return x;
	for (i = 0; i < r; i++)
		perm[i] = i < 1 ? 0 : back ? (i == r - 1 ? 1 : i + 1) : i == 1 ? r - 1 : i - 1;
	return call_result(b, "transpose", 1, &x,
		attrs_add(b->m, NULL, (Attr){.name = "perm", .kind = A_INTS, .n = r,
		.is = arena_dup(b->m->arena, perm, sizeof *perm * (size_t)r)}), 0);
}

/* The filter lies as the operand does, [features, kernel..., channels of a group]. */
static Node *
build_nhwc_conv(Build *b)
{
	Node *in[3] = {channels_moved(b, b->in[0], false), channels_moved(b, b->in[1], false),
		b->in[2]};

	return channels_moved(b, call_result(b, "conv", 3, in, attrs_of(b, "conv"), 0), true);
}

static Node *
conv_and_more(Build *b, bool channels_last)
{
	const Attr *p = attr_find(b->attrs, "activation_params");
	Node *in[3] = {b->in[0], b->in[1], b->in[2]}, *y;

	if (channels_last)
		in[0] = channels_moved(b, in[0], false);
	y = call_result(b, "conv", 3, in, attrs_of(b, "conv"), 0);
	if (channels_last)
		y = channels_moved(b, y, true);
	if (y && b->in[3])
		y = call2(b, "add", y, b->in[3]);
	return activation(b, y, attr_str(b, "activation"), p ? p->n : 0, p ? p->fs : NULL);
}

static Node *
build_fused_conv(Build *b)
{
	return conv_and_more(b, false);
}

static Node *
build_nhwc_fused_conv(Build *b)
{
	return conv_and_more(b, true);
}

/* ---- products of float8 ---------------------------------------------------------------------- */

/* act(alpha scale_a scale_b A B + beta C) scale_y, in float32. */
static Node *
build_gemm_float8(Build *b)
{
	Module *m = b->m;
	Node **in = b->in, *y;
	const char *act = attr_str(b, "activation");
	DType to = dtype_of_onnx((int)attr_int(b, "dtype"));
	int i;

	if (!dt_float(to))
		return fail(b, "dtype %lld is no float type", (long long)attr_int(b, "dtype"));
	for (i = 0; i < 2; i++)
		if (rank_of(in[i]) != 2)
			return fail(b, "operand %d has %d dimensions, must have 2", i, rank_of(in[i]));
	if (!in[3] != !in[4])
		return fail(b, "scaleA and scaleB must be given together");
	y = call2(b, "matmul",
		transposed(b, as_type(m, in[0], DT_F32), attr_int(b, "transA") != 0, false),
		transposed(b, as_type(m, in[1], DT_F32), attr_int(b, "transB") != 0, false));
	y = times(b, y, attr_float(b, "alpha"));
	for (i = 3; i < 5 && in[i]; i++)
		y = call2(b, "mul", y, in[i]);
	if (in[2] && attr_float(b, "beta") != 0)
		y = call2(b, "add", y, times(b, as_type(m, in[2], DT_F32), attr_float(b, "beta")));
	if (act && strcmp(act, "NONE"))
		y = activation(b, y, strcmp(act, "RELU") == 0 ? "Relu" : strcmp(act, "GELU") == 0 ? "Gelu"
			: act, 0, NULL);
	if (in[5])
		y = call2(b, "mul", y, in[5]);
	return y ? call_result(b, "cast", 1, &y, with_int(b, NULL, "to", dtypes[to].onnx), 0) : NULL;
}

/* ---- dropout --------------------------------------------------------------------------------- */

/* Dropout of x, whose ratio and training mode are operands `first` and the next; its mask. */
static Node *
dropped(Build *b, Node *x, int first, Node **mask)
{
	Node *in[3] = {x, b->in[first], b->in[first + 1]}, *r;

	r = x ? graph_op(b->m, op_find("dropout"), 3, in, attrs_of(b, "dropout"), 2, 0, NULL, b->loc)
		: NULL;
	*mask = r ? t_result(b->m, r, 1) : NULL;
	return r ? t_result(b->m, r, 0) : NULL;
}

/* Is nothing dropped? ratio and training mode as in `dropped`. */
static Node *
keeps_all(Build *b, int first)
{
	Module *m = b->m;
	Node *ratio = b->in[first], *training = b->in[first + 1], *none;

	if (!training)
		return x_bool(m, true);
	none = ratio ? x_eq(m, scalar_arg(m, ratio), x_int(m, dtype_of(ratio), 0)) : x_bool(m, false);
	return x_or(m, none, x_not(m, scalar_arg(m, training)));
}

/* 32 elements of a mask to a word, the first in its lowest bit; rest: the bits behind the last. */
static Node *
bit_mask(Module *m, Node *mask, Node *rest)
{
	Node *n = numel(m, mask), *flat = reshape(m, mask, 1, &n), *word, *bit, *at, *e;

	word = x_axis(m, x_ceildiv(m, n, x_idx(m, 32)));
	bit = x_axis(m, x_idx(m, 32));
	at = x_add(m, x_muli(m, word, 32), bit);
	e = x_select(m, x_lt(m, at, n), x_read(m, flat, &at), rest);
	e = x2(m, O_SHL, x_cast(m, DT_U32, e), x_cast(m, DT_U32, bit));
	return t_tensor(m, 1, &word, x_reduce(m, COMB_SUM, 1, &bit, e));
}

static Node *
bias_dropout(Build *b, bool bits)
{
	Node *mask, *y = dropped(b, call2(b, "add", b->in[0], b->in[1]), 3, &mask);

	if (b->in[2])
		y = call2(b, "add", y, b->in[2]);
	if (!y)
		return NULL;
	mask = bits ? bit_mask(b->m, mask, keeps_all(b, 3)) : mask;
	return t_tuple(b->m, 2, (Node *[]){y, mask});
}

static Node *
build_bias_dropout(Build *b)
{
	return bias_dropout(b, false);
}

static Node *
build_bitmask_bias_dropout(Build *b)
{
	return bias_dropout(b, true);
}

static Node *
build_bitmask_dropout(Build *b)
{
	Node *mask, *y = dropped(b, b->in[0], 1, &mask);

	return y ? t_tuple(b->m, 2, (Node *[]){y, bit_mask(b->m, mask, keeps_all(b, 1))}) : NULL;
}

/* ---- Fourier transforms ---------------------------------------------------------------------- */

/* Along an axis of x, whose last one holds real and imaginary parts. */
static Node *
fourier(Build *b, Node *x, int axis, bool inverse, bool onesided)
{
	Node *in[3] = {x, NULL, t_scalar(b->m, DT_I64, (Num){.i = axis})};
	const Attr *attrs = with_int(b, NULL, "inverse", inverse);

	return x ? call_result(b, "dft", 3, in, with_int(b, attrs, "onesided", onesided), 0) : NULL;
}

/* The first axis of the signal, its last one is `last`; -1 after an error. */
static int
signal_axes(Build *b, int last)
{
	int64_t n = attr_int(b, "signal_ndim");

	if (!attr_int(b, "onesided") || attr_int(b, "normalized")) {
		unsupported(b, "two-sided or normalized transforms");
		return -1;
	}
	if (n >= 1 && n <= last + 1)
		return last + 1 - (int)n;
	fail(b, "signal_ndim is %lld for an operand of %d dimensions", (long long)n,
		rank_of(b->in[0]));
	return -1;
}

static Node *
build_rfft(Build *b)
{
	int last = rank_of(b->in[0]) - 1, first = signal_axes(b, last), i;
	Node *x = b->in[0];

	if (first < 0)
		return NULL;
	x = call(b, "unsqueeze", 2, (Node *[]){x, t_ints(b->m, 1, (const int64_t[]){-1})}, NULL);
	x = fourier(b, x, last, false, true);
	for (i = last; i-- > first;)
		x = fourier(b, x, i, false, false);
	return x;
}

static Node *
build_irfft(Build *b)
{
	int last = rank_of(b->in[0]) - 2, first = signal_axes(b, last), i;
	Node *x = b->in[0];

	if (first < 0)
		return NULL;
	for (i = first; i < last; i++)
		x = fourier(b, x, i, true, false);
	x = fourier(b, x, last, true, true);
	return x ? call(b, "squeeze", 2, (Node *[]){x, t_ints(b->m, 1, (const int64_t[]){-1})}, NULL)
		: NULL;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static Node *
build_bias_split_gelu(Build *b)
{
	Module *m = b->m;
	Node *s = call2(b, "add", b->in[0], b->in[1]), *ax[MAX_RANK], *at[MAX_RANK], *part[2], *half;
	int r = s ? rank_of(s) : 0, i, k;

	if (!s)
		return NULL;
	if (r != 3 || rank_of(b->in[1]) != 1)
		return fail(b, "the operands have %d and %d dimensions, must have 3 and 1", r,
			rank_of(b->in[1]));
	half = x_fdiv(m, dim_of(s, 2), x_idx(m, 2));
	require(m, x_eq(m, x_muli(m, half, 2), dim_of(s, 2)), b->loc, "%s columns have no halves",
		expr_print(m, dim_of(s, 2)));
	for (k = 0; k < 2; k++) {
		for (i = 0; i < r; i++)
			at[i] = ax[i] = x_axis(m, i == 2 ? half : dim_of(s, i));
		at[2] = k ? x_add(m, ax[2], half) : ax[2];
		part[k] = t_tensor(m, 3, ax, x_read(m, s, at));
	}
	return call2(b, "mul", part[0], call(b, "ms_gelu", 1, &part[1], NULL));
}

static Node *
build_is_all_finite(Build *b)
{
	Module *m = b->m;
	bool nan = attr_int(b, "isnan_only") != 0, inf = attr_int(b, "isinf_only") != 0;
	Node *axes[MAX_RANK], *e, *bad, *all = x_bool(m, true);
	int i;

	if (nan && inf)
		return fail(b, "isinf_only and isnan_only cannot both be set");
	for (i = 0; i < b->nin; i++) {
		Node *x = b->in[i];
		axes_new(m, rank_of(x), x->type->dims, axes);
		e = x_read(m, x, axes);
		bad = x_bool(m, false);
		if (!inf)
			bad = x_ne(m, e, e);
		if (!nan)
			bad = x_or(m, bad, x_eq(m, x1(m, O_ABS, e), x_flt(m, dtype_of(x), INFINITY)));
		e = x_not(m, bad);
		all = x_and(m, all,
			rank_of(x) ? x_reduce(m, COMB_AND, rank_of(x), axes, e) : e);
	}
	return t_tensor(m, 0, NULL, all);
}

static Node *
build_reduce_sum_integer(Build *b)
{
	Module *m = b->m;
	DType to = dtype_of(b->in[0]) == DT_U8 ? DT_U32 : DT_I32;
	const int64_t *axes;
	int n;

	attr_ints(b, "axes", &n, &axes);
	return call(b, "reduce_sum", 2,
		(Node *[]){as_type(m, b->in[0], to), t_ints(m, n, axes)},
		attr_int(b, "keepdims") ? "keepdims=1" : "keepdims=0");
}

#define CONV "auto_pad: str = \"NOTSET\", dilations: ints?, group: int = 1, kernel_shape: ints?," \
	" pads: ints?, strides: ints?"
/* real and imaginary parts: p, q of a, r, s of b */
#define COMPLEX "p = gather(a, [0], axis=-1); q = gather(a, [1], axis=-1);" \
	" r = gather(b, [0], axis=-1); s = gather(b, [1], axis=-1);"

const Op ops_contrib_fused[] = {
	BUILD("fused_matmul", MS("FusedMatMul"), 1,
	"(a: float, b: a) {alpha: float = 1, transA: int = 0, transB: int = 0,"
		" transBatchA: int = 0, transBatchB: int = 0} -> y", build_fused_matmul, "alpha a' b'"),
	BUILD("transpose_matmul", MS("TransposeMatMul"), 1,
	"(a: float, b: a) {alpha: float = 1, transA: int = 0,"
		" transB: int = 0} -> y", build_fused_matmul, "alpha a' b'"),
	BUILD("fused_conv", MS("FusedConv"), 1, "(x: float, w: x, bias: x?, z: x?) {activation: str?,"
		" activation_params: floats?, " CONV "} -> y", build_fused_conv,
		"convolution and an activation"),
	BUILD("fused_gemm", MS("FusedGemm"), 1,
	"(a: float, b: a, c: a?) {activation: str?, activation_alpha: float?,"
		" activation_beta: float?, activation_gamma: float?, alpha: float = 1, beta: float = 1,"
		" transA: int = 0,"
		" transB: int = 0} -> y", build_fused_gemm, "Gemm and an activation"),
	BUILD("fused_matmul_activation", MS("FusedMatMulActivation"), 1,
		"(a: float, b: a) {activation: str, activation_alpha: float?, activation_axis: int?,"
		" activation_beta: float?, activation_gamma: float?, alpha: float = 1, transA: int = 0,"
		" transB: int = 0, transBatchA: int = 0, transBatchB: int = 0} -> y",
		build_fused_matmul_activation, "alpha a' b' and an activation"),
	COMP("gemm_fast_gelu", MS("GemmFastGelu"), 1, "(x: float, w: x, bias: x?) {} -> y",
		"fast_gelu(matmul(x, w), bias)", "gelu by tanh of a product"),
	BUILD("gemm_float8", MS("GemmFloat8"), 1,
		"(a: float, b: float, c: float?, scale_a: f32?, scale_b: f32?, scale_y: f32?)"
		" {activation: str?, alpha: float = 1, beta: float = 0, dtype: int = 1, transA: int = 0,"
		" transB: int = 0} -> y", build_gemm_float8, "scaled product of small floats"),
	BUILD("nhwc_conv", MS("NhwcConv"), 1, "(x: float, w: x, bias: x?) {" CONV "} -> y",
		build_nhwc_conv, "convolution, channels last in operand, filter and result"),
	BUILD("nhwc_fused_conv", MS("NhwcFusedConv"), 1,
		"(x: float, w: x, bias: x?, z: x?) {activation: str?, activation_params: floats?, "
		CONV "} -> y", build_nhwc_fused_conv,
		"convolution and an activation, channels last but in the filter"),
	COMP("skip_group_norm", MS("SkipGroupNorm"), 1,
		"(x: float, gamma: float, beta: gamma, skip: x, bias: x?) {activation: int,"
		" channels_last: int = 1, epsilon: float = 1e-5, groups: int} -> y, sum?",
		"t = rank(skip) == 2 ? (channels_last ? unsqueeze(skip, [1, 2]) : unsqueeze(skip, [2, 3]))"
		" : skip; p = x + t;"
		"s = has(bias) ? (channels_last ? p + bias : p + unsqueeze(bias, [1, 2])) : p;"
		"ms_group_norm(s, gamma, beta, activation=activation, channels_last=channels_last,"
		" epsilon=epsilon, groups=groups), s", "a sum normalised by groups of channels"),
	COMP("bias_softmax", MS("BiasSoftmax"), 1,
		"(x: float, bias: x) {axis: int = 1, is_inner_broadcast: int} -> y",
		"s = x + bias; a = axis(axis, s); a == rank(s) - 1 ? softmax(s, axis=-1)"
		" : reshape(softmax(flatten(s, axis=a), axis=1), shape(s))",
		"softmax of a sum, over the axes from one on"),
	BUILD("bias_split_gelu", MS("BiasSplitGelu"), 1, "(x: float, bias: x) {} -> y",
		build_bias_split_gelu, "one half of a sum times gelu of the other"),
	BUILD("bias_dropout", MS("BiasDropout"), 1,
		"(x: float, bias: x, residual: x?, ratio: float?, training_mode: bool?) {seed: int?}"
		" -> y, mask?", build_bias_dropout, "dropout of a sum, plus a residual"),
	BUILD("bitmask_bias_dropout", MS("BitmaskBiasDropout"), 1,
		"(x: float, bias: x, residual: x?, ratio: float?, training_mode: bool?) {seed: int?}"
		" -> y, mask?", build_bitmask_bias_dropout,
		"dropout of a sum, plus a residual; the mask is bits"),
	BUILD("bitmask_dropout", MS("BitmaskDropout"), 1,
		"(x: float, ratio: float?, training_mode: bool?) {seed: int?} -> y, mask?",
		build_bitmask_dropout, "dropout; the mask is bits"),
	BUILD("rfft", MS("Rfft"), 1,
		"(x: float) {normalized: int = 0, onesided: int = 1, signal_ndim: int = 1} -> y",
		build_rfft, "Fourier transform of real signals"),
	BUILD("irfft", MS("Irfft"), 1,
		"(x: float) {normalized: int = 0, onesided: int = 1, signal_ndim: int} -> y",
		build_irfft, "real signals of Fourier transforms"),
	COMP("complex_mul", MS("ComplexMul"), 1, "(a: float, b: a) {} -> c",
		COMPLEX "concat(p * r - q * s, p * s + q * r, axis=-1)", "product of complex numbers"),
	COMP("complex_mul_conj", MS("ComplexMulConj"), 1, "(a: float, b: a) {} -> c",
		COMPLEX "concat(p * r + q * s, q * r - p * s, axis=-1)",
		"product of complex numbers with conjugates of others"),
	COMP("mul_integer", MS("MulInteger"), 1, "(a: i8|u8, a_zero: a?, b: a, b_zero: a?) {} -> c",
		"p = cast(a, i32); q = cast(b, i32); u = has(a_zero) ? p - cast(a_zero, i32) : p;"
		"u * (has(b_zero) ? q - cast(b_zero, i32) : q)", "product of bytes less their zero points"),
	BUILD("reduce_sum_integer", MS("ReduceSumInteger"), 1,
		"(x: i8|u8) {axes: ints, keepdims: int} -> y", build_reduce_sum_integer,
		"sum of bytes over axes"),
	BUILD("is_all_finite", MS("IsAllFinite"), 1,
		"(x: float*) {isinf_only: int = 0, isnan_only: int = 0} -> y", build_is_all_finite,
		"is no element infinite or no number?"),
	COMP("torch_embedding", MS("TorchEmbedding"), 1,
		"(w: any, indices: i64, padding: i64?, scale_grad: bool?) {} -> y", "gather(w, indices)",
		"rows of a table"),
	COMP("gemma_rotary_embedding", MS("GemmaRotaryEmbedding"), 1,
		"(angles: float, q: float, q_turned: q, k: q, k_turned: q) {} -> y, z",
		"s = cast(unsqueeze(sin(angles), [1]), type(q));"
		"c = cast(unsqueeze(cos(angles), [1]), type(q));"
		"q * c + q_turned * s, k * c + k_turned * s", "queries and keys turned by angles"),
	{0}
};
