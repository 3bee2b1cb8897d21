/* com.microsoft: what stands beside the transformers' and quantizer's operators. */
#include <string.h>
#include "ops.h"

/* ---- other names of what is there ------------------------------------------------------------ */

static Node *
build_range(Build *b)
{
	Node *one = t_scalar(b->m, dtype_of(b->in[0]),
		dt_float(dtype_of(b->in[0])) ? (Num){.f = 1} : (Num){.i = 1});

	return call(b, "range", 3, (Node *[]){b->in[0], b->in[1], b->in[2] ? b->in[2] : one}, NULL);
}

static Node *
build_grid_sample(Build *b)
{
	const char *mode = attr_str(b, "mode");

	mode = strcmp(mode, "bilinear") == 0 ? "linear" : strcmp(mode, "bicubic") == 0 ? "cubic" : mode;
	return call(b, "grid_sample", 2, b->in, arena_printf(b->m->arena,
		"align_corners=%d, mode=\"%s\", padding_mode=\"%s\"", (int)attr_int(b, "align_corners"),
		mode,
		attr_str(b, "padding_mode")));
}

static Node *
build_unique(Build *b)
{
	Node *u = graph_op(b->m, op_find("unique"), 1, b->in,
		attrs_add(b->m, NULL, (Attr){.name = "sorted", .kind = A_INT, .i = 0}), 4, 0, NULL, b->loc);

	return u ? t_tuple(b->m, 3,
		(Node *[]){t_result(b->m, u, 0), t_result(b->m, u, 2), t_result(b->m, u, 3)}) : NULL;
}

/* Another row of the same operands, its attributes but for some that must have their defaults. */
static Node *
same_as(Build *b, const char *name, int n, const char *const *unused)
{
	const Attr *a, *attrs = NULL;
	const Sig *s = op_sig(b->op);
	int i, k;

	for (a = b->attrs; a; a = a->next) {
		for (i = 0; i < n && strcmp(unused[i], a->name); i++)
			;
		for (k = 0; strcmp(s->attrs[k].name, a->name); k++)
			;
		if (i < n && a->i != s->attrs[k].value.i)
			return unsupported(b, "%s of %lld", a->name, (long long)a->i);
		if (i == n)
			attrs = attrs_add(b->m, attrs, *a);
	}
	return graph_op(b->m, op_find(name), b->nin, b->in, attrs, b->nout, 0, NULL, b->loc);
}

static Node *
build_causal_conv(Build *b)
{
	return same_as(b, "causal_conv_with_state", 4,
		(const char *const[]){"state_window", "channels_last", "dilation", "ndim"});
}

static Node *
build_linear_attention(Build *b)
{
	return same_as(b, "linear_attention", 1, (const char *const[]){"state_window"});
}

/* ---- normalization of groups ----------------------------------------------------------------- */

/* 1 / root of the mean square of each n consecutive elements of the last axis: f32[..., groups]. */
static Node *
group_scale(Build *b, Node *x, Node *n, double epsilon)
{
	Module *m = b->m;
	Node *axes[MAX_RANK], *idx[MAX_RANK], *j = x_axis(m, n), *e;
	int r = rank_of(x), i;

	for (i = 0; i < r; i++)
		idx[i] = axes[i] = x_axis(m, i + 1 < r ? dim_of(x, i) : x_fdiv(m, dim_of(x, i), n));
	idx[r - 1] = x_add(m, x_mul(m, axes[r - 1], n), j);
	e = x_cast(m, DT_F32, x_read(m, x, idx));
	e = x2(m, O_DIV, x_reduce(m, COMB_SUM, 1, &j, x_mul(m, e, e)), x_cast(m, DT_F32, n));
	e = x2(m, O_DIV, x_flt(m, DT_F32, 1),
		x1(m, O_SQRT, x_add(m, e, x_flt(m, DT_F32, num_round(DT_F32, epsilon).f))));
	return t_tensor(m, r, axes, e);
}

static Node *
build_gated_rms_norm(Build *b)
{
	Module *m = b->m;
	const char *act = attr_str(b, "activation");
	Node *x = b->in[0], *scale = b->in[1], *gate = b->in[2], *n, *inv, *axes[MAX_RANK],
		*idx[MAX_RANK], *at, *g, *s, *e;
	bool silu = strcmp(act, "silu") == 0 || strcmp(act, "swish") == 0;
	int r = rank_of(x);

	if (!silu && strcmp(act, "sigmoid"))
		return fail(b, "activation \"%s\" is not known", act);
	if (r < 1 || rank_of(scale) != 1 || rank_of(gate) != r)
		return fail(b, "the operands have %d, %d and %d dimensions", r, rank_of(scale),
			rank_of(gate));
	n = dim_of(scale, 0);
	expect_shape(b, "the gate", gate, r, x->type->dims);
	require(m, x_eq(m, x_mod(m, dim_of(x, r - 1), n), x_idx(m, 0)), b->loc,
		"%s elements are not in groups of %s",
		expr_print(m, dim_of(x, r - 1)), expr_print(m, n));
	inv = group_scale(b, x, n, attr_float(b, "epsilon"));
	axes_new(m, r, x->type->dims, axes);
	memcpy(idx, axes, sizeof *idx * (size_t)r);
	idx[r - 1] = x_fdiv(m, axes[r - 1], n);
	at = x_mod(m, axes[r - 1], n);
	g = x_cast(m, DT_F32, x_read(m, gate, axes));
	s = x2(m, O_DIV, silu ? g : x_flt(m, DT_F32, 1),
		x_add(m, x_flt(m, DT_F32, 1), x1(m, O_EXP, x1(m, O_NEG, g))));
	e = x_mul(m, x_cast(m, DT_F32, x_read(m, x, axes)), x_read(m, inv, idx));
	e = x_mul(m, x_mul(m, e, x_cast(m, DT_F32, x_read(m, scale, &at))), s);
	return t_tensor(m, r, axes, x_cast(m, dtype_of(x), e));
}

/* Branches are the last axis of grouped operands, and num_branches parts of it in flat ones. */
static Node *
build_branchwise_rms_norm(Build *b)
{
	Module *m = b->m;
	int64_t branches = attr_int(b, "num_branches");
	Node *x = b->in[0], *scale = b->in[1], *n, *inv, *axes[MAX_RANK], *idx[MAX_RANK], *at[2], *e,
		*flat;
	int r = rank_of(x);

	if (branches < 0 || r < (branches ? 1 : 2))
		return fail(b, "%lld branches of an operand of %d dimensions", (long long)branches, r);
	n = branches ? x_fdiv(m, dim_of(x, r - 1), x_idx(m, branches)) : dim_of(x, r - 1);
	if (branches)
		require(m, x_eq(m, x_mod(m, dim_of(x, r - 1), x_idx(m, branches)), x_idx(m, 0)), b->loc,
			"%s elements are not %lld branches", expr_print(m, dim_of(x, r - 1)),
			(long long)branches);
	inv = group_scale(b, x, n, attr_float(b, "epsilon"));
	axes_new(m, r, x->type->dims, axes);
	memcpy(idx, axes, sizeof *idx * (size_t)r);
	idx[r - 1] = x_fdiv(m, axes[r - 1], n);
	e = x_mul(m, x_cast(m, DT_F32, x_read(m, x, axes)), x_read(m, inv, idx));
	if (scale && (rank_of(scale) < 1 || rank_of(scale) > 2))
		return fail(b, "the scale has %d dimensions", rank_of(scale));
	if (scale) {
		flat = branches ? axes[r - 1] : x_add(m, x_mul(m, axes[r - 2], n), axes[r - 1]);
		at[0] = rank_of(scale) == 2 ? x_fdiv(m, flat, n) : prove_eq(m, dim_of(scale, 0), n)
			? x_mod(m, flat, n) : flat;
		at[1] = x_mod(m, flat, n);
		expect_dim(b, "the scale", dim_of(scale, rank_of(scale) - 1),
			rank_of(scale) == 2 || at[0] != flat ? n
			: branches ? dim_of(x, r - 1) : x_mul(m, dim_of(x, r - 2), n), false);
		if (rank_of(scale) == 2)
			expect_dim(b, "the scale", dim_of(scale, 0),
				branches ? x_idx(m, branches) : dim_of(x, r - 2), false);
		e = x_mul(m, e, x_cast(m, DT_F32, x_read(m, scale, at)));
	}
	return t_tensor(m, r, axes, x_cast(m, dtype_of(x), e));
}

static Node *
build_linear_attention_gate(Build *b)
{
	Module *m = b->m;
	Node *a = b->in[0], *axes[MAX_RANK], *out[2] = {NULL, NULL}, *e, *one = x_flt(m, DT_F32, 1);
	int r = rank_of(a), i;

	if (r < 1 || rank_of(b->in[1]) != 1 || rank_of(b->in[2]) != 1 ||
		(b->in[3] && rank_of(b->in[3]) != r))
		return fail(b, "the operands have %d, %d and %d dimensions", r, rank_of(b->in[1]),
			rank_of(b->in[2]));
	for (i = 1; i < 3; i++)
		expect_dim(b, "a head's number", dim_of(b->in[i], 0), dim_of(a, r - 1), false);
	axes_new(m, r, a->type->dims, axes);
	e = x_add(m, x_cast(m, DT_F32, x_read(m, a, axes)), x_read(m, b->in[1], &axes[r - 1]));
	e = x_add(m, x_max(m, e, x_flt(m, DT_F32, 0)),
		x1(m, O_LOG1P, x1(m, O_EXP, x1(m, O_NEG, x1(m, O_ABS, e)))));
	out[0] = t_tensor(m, r, axes,
		x_cast(m, dtype_of(a), x_mul(m, x_read(m, b->in[2], &axes[r - 1]), e)));
	if (b->in[3]) {
		expect_shape(b, "b", b->in[3], r, a->type->dims);
		axes_new(m, r, a->type->dims, axes);
		e = x1(m, O_EXP, x1(m, O_NEG, x_cast(m, DT_F32, x_read(m, b->in[3], axes))));
		out[1] = t_tensor(m, r, axes, x_cast(m, dtype_of(a), x2(m, O_DIV, one, x_add(m, one, e))));
	}
	return t_tuple(m, 2, out);
}

/* ---- windows, blocks ------------------------------------------------------------------------- */

static Node *
build_unfold(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *axes[MAX_RANK], *idx[MAX_RANK], *count;
	int r = rank_of(x), axis = axis_attr(b, "dim", r), i;
	int64_t size = attr_int(b, "size"), step = attr_int(b, "step");

	if (axis < 0)
		return NULL;
	if (size < 1 || step < 1 || r == MAX_RANK)
		return fail(b, "slices of %lld elements, %lld apart", (long long)size, (long long)step);
	require(m, x_le(m, x_idx(m, size), dim_of(x, axis)), b->loc, "slices of %lld of %s elements",
		(long long)size,
		expr_print(m, dim_of(x, axis)));
	count = x_addi(m, x_fdiv(m, x_addi(m, dim_of(x, axis), -size), x_idx(m, step)), 1);
	for (i = 0; i < r; i++)
		idx[i] = axes[i] = x_axis(m, i == axis ? extent(m, count) : dim_of(x, i));
	axes[r] = x_axis(m, x_idx(m, size));
	idx[axis] = x_add(m, x_muli(m, axes[axis], step), axes[r]);
	return t_tensor(m, r + 1, axes, x_read(m, x, idx));
}

/* Field number `at` of those of `bits` that a byte holds, low bits first. */
static Node *
field(Module *m, Node *byte, Node *at, int64_t bits)
{
	Node *v = x2(m, O_SHR, x_cast(m, DT_I32, byte), x_cast(m, DT_I32, x_muli(m, at, bits)));

	return x_and(m, v, x_int(m, DT_I32, (1 << bits) - 1));
}

Node *
quantized_read(Module *m, Node *t, Node *const *idx, int64_t per, int64_t bits)
{
	Node *at[MAX_RANK];
	int r = rank_of(t);

	memcpy(at, idx, sizeof *at * (size_t)r);
	if (per == 1)
		return x_cast(m, DT_I32, x_read(m, t, at));
	at[r - 1] = x_fdiv(m, idx[r - 1], x_idx(m, per));
	return field(m, x_read(m, t, at), x_mod(m, idx[r - 1], x_idx(m, per)), bits);
}

static Node *
build_gather_block_quantized(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *at = b->in[1], *scales = b->in[2], *zeros = b->in[3], *axes[2 * MAX_RANK],
		*idx[MAX_RANK], *s[MAX_RANK],
		*dims[MAX_RANK] = {NULL}, *i, *q, *z;
	int r = rank_of(x), k = rank_of(at), on = axis_attr(b, "gather_axis", r),
		by = axis_attr(b, "quantize_axis", r), d;
	int64_t bits = attr_int(b, "bits"), block = attr_int(b, "block_size"), per;
	bool bytes = dtype_of(x) == DT_U8;

	if (on < 0 || by < 0)
		return NULL;
	if (r + k - 1 > MAX_RANK || rank_of(scales) != r || (zeros && rank_of(zeros) != r))
		return fail(b, "the data have %d dimensions, the scales %d", r, rank_of(scales));
	if (block < 16 || (block & (block - 1)) || (bits != 2 && bits != 4 && bits != 8))
		return unsupported(b, "blocks of %lld elements of %lld bits", (long long)block,
			(long long)bits);
	per = bytes ? 8 / bits : 1;
	if (per > 1 && on == r - 1)
		return fail(b, "elements within bytes cannot be gathered");
	for (d = 0; d < r; d++)
		dims[d] = d == r - 1 ? x_muli(m, dim_of(x, d), per) : dim_of(x, d);
	for (d = 0; d < r + k - 1; d++)
		axes[d] = x_axis(m, d < on ? dims[d] : d < on + k ? dim_of(at, d - on) : dims[d - k + 1]);
	i = x2(m, O_BOUND, wrap_index(m, x_cast(m, DT_INDEX, x_read(m, at, axes + on)), dims[on]),
		dims[on]);
	for (d = 0; d < r; d++) {
		idx[d] = d == on ? i : axes[d < on ? d : d + k - 1];
		s[d] = d == by ? x_fdiv(m, idx[d], x_idx(m, block)) : idx[d];
		require(m, x_or(m, x_eq(m, dim_of(scales, d),
			d == by ? x_ceildiv(m, dims[d], x_idx(m, block)) : dims[d]),
			x_eq(m, dim_of(scales, d), x_idx(m, 1))), b->loc,
			"the scales have %s elements along dimension %d",
			expr_print(m, dim_of(scales, d)), d);
		if (is_intv(dim_of(scales, d), 1))
			s[d] = x_idx(m, 0);
	}
	q = quantized_read(m, x, idx, per, bits);
	z = zeros ? quantized_read(m, zeros, s, per, bits)
		: x_int(m, DT_I32, bytes ? 1 << (bits - 1) : 0);
	q = x_mul(m, as_float(m, x_sub(m, q, z)), x_cast(m, DT_F32, x_read(m, scales, s)));
	return t_tensor(m, r + k - 1, axes, x_cast(m, dtype_of(scales), q));
}

const Op ops_contrib_more[] = {
	COMP("ms_expand_dims", MS("ExpandDims"), 1, "(x: any, axis: i32) {} -> y",
		"unsqueeze(x, reshape(cast(axis, i64), [1]))", "a dimension of 1 more"),
	BUILD("ms_range", MS("Range"), 1, "(start: num, limit: start, delta: start?) {} -> y",
	build_range,
		"start, start + delta ... below limit"),
	BUILD("ms_grid_sample", MS("GridSample"), 1,
	"(x: num, grid: float) {align_corners: int = 0, mode: str = \"bilinear\","
		" padding_mode: str = \"zeros\"} -> y", build_grid_sample, "sampled at given places"),
	BUILD("ms_unique", MS("Unique"), 1, "(x: num|bool|string) {} -> y, inverse, counts",
	build_unique,
		"different elements in the order of their appearance"),
	COMP("matmul_integer16", MS("MatMulInteger16"), 1, "(a: i16|u16, b: i16|u16) {} -> y",
		"matmul(cast(a, i32), cast(b, i32))", "matrix product of 16-bit integers"),
	ELEM("gated_add", MS("GatedAdd"), 1, "(x: float, y: x, gate: x) {} -> z", "x + y * gate",
	"x + y gate"),
	COMP("scaled_silu", MS("ScaledSiLU"), 1, "(x: float, scale: float?) {alpha: float = 1} -> y",
		"f = acc(x); s = has(scale) ? f * cast(scale, type(f)) : f * alpha; z = cast(s, type(x));"
		" z * sigmoid(z)",
		"silu of a scaled operand"),
	BUILD("gated_rms_norm", MS("GatedRMSNorm"), 1,
	"(x: float, scale: x, gate: x) {activation: str = \"silu\","
		" epsilon: float = 1e-5} -> y", build_gated_rms_norm,
		"groups divided by their root mean square, gated"),
	BUILD("branchwise_rms_norm", MS("BranchwiseRMSNorm"), 1,
	"(x: float, scale: float?) {epsilon: float = 1e-5,"
		" num_branches: int = 0} -> y", build_branchwise_rms_norm,
		"branches divided by their root mean square"),
	BUILD("linear_attention_gate", MS("LinearAttentionGate"), 1,
	"(a: float, dt_bias: f32, decay_scale: f32, b: a?) {}"
		" -> decay, beta?", build_linear_attention_gate,
		"decay and update rate of linear attention"),
	BUILD("ms_linear_attention", MS("LinearAttention"), 1,
	"(q: float, k: q, v: q, past_state: float?, decay: q?, beta: q?)"
		" {chunk_size: int = 64, kv_num_heads: int, q_num_heads: int, scale: float = 0,"
		" state_window: int = 0,"
		" update_rule: str = \"gated_delta\"} -> y, present_state", build_linear_attention,
		"attention by a recurrent state"),
	BUILD("ms_causal_conv_with_state", MS("CausalConvWithState"), 1,
	"(x: float, w: x, bias: x?, past_state: x?)"
		" {activation: str = \"none\", channels_last: int = 0, dilation: int = 1, ndim: int = 1,"
		" state_window: int = 0}"
		" -> y, present_state", build_causal_conv, "causal depthwise convolution"),
	BUILD("unfold_tensor", MS("UnfoldTensor"), 1,
	"(x: any) {dim: int = -1, size: int, step: int = 1} -> y", build_unfold,
		"all slices of a size along a dimension"),
	BUILD("gather_block_quantized", MS("GatherBlockQuantized"), 1,
	"(x: u8|i4|u4|i8, indices: idx, scales: float, zeros: x?)"
		" {bits: int = 4, block_size: int = 128, gather_axis: int = 0, quantize_axis: int = 1} ->"
		" y",
		build_gather_block_quantized, "slices of a table of few bits"),
	COMP("ms_qlinear_conv", MS("QLinearConv"), 1,
	"(x: i8|u8, x_scale: f32, x_zero: x, w: i8|u8, w_scale: f32,"
		" w_zero: w, y_scale: f32, y_zero: i8|u8, bias: i32?) {auto_pad: str = \"NOTSET\","
		" channels_last: int = 0,"
		" dilations: ints?, group: int = 1, kernel_shape: ints?, pads: ints?, strides: ints?} -> y",
		"v = channels_last ? transpose(x, perm=[0, 3, 1, 2]) : x;"
		"q = qlinear_conv(v, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias,"
		" auto_pad=auto_pad,"
		" dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads, strides=strides);"
		"channels_last ? transpose(q, perm=[0, 2, 3, 1]) : q", "quantized convolution"),
	{0}
};
