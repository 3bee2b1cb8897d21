/* com.microsoft: pictures, and streams of hyper-connections. */
#include <float.h>
#include <string.h>
#include "ops.h"

/* ---- CropAndResize --------------------------------------------------------------------------- */

static Node *
to_index(Module *m, Node *x)
{
	return x_cast(m, DT_INDEX, x_cast(m, DT_I64, x));
}

/*
 * Where place `at` of `n` along a side of `size` elements samples it: from the box's edge lo to hi,
 * both corners aligned; the middle where n is 1. lo and hi are shares of the side.
 */
static Node *
box_place(Module *m, Node *lo, Node *hi, Node *at, Node *n, Node *size)
{
	DType c = lo->type->dtype;
	Node *last = x_cast(m, c, x_addi(m, size, -1)), *steps = x_cast(m, c, x_addi(m, n, -1)), *e;

	e = x2(m, O_DIV, x_mul(m, x_sub(m, hi, lo), last), steps);
	e = x_add(m, x_mul(m, lo, last), x_mul(m, x_cast(m, c, at), e));
	e = x_select(m, x_eq(m, at, x_addi(m, n, -1)), x_mul(m, hi, last), e);
	e = x_select(m, x_eq(m, at, x_idx(m, 0)), x_mul(m, lo, last), e);
	return x_select(m, x_lt(m, x_idx(m, 1), n), e,
		x_mul(m, x_mul(m, x_flt(m, c, 0.5), x_add(m, lo, hi)), last));
}

/* x[n, ch] at row y and column z, which lie inside. */
static Node *
sampled(Module *m, Node *x, Node *n, Node *ch, Node *y, Node *z, bool nearest)
{
	DType c = y->type->dtype;
	Node *p[2] = {y, z}, *lo[2], *hi[2], *f[2], *row[2], *half = x_flt(m, c, 0.5), *last;
	int i;

	for (i = 0; i < 2; i++) {
		last = x_addi(m, dim_of(x, 2 + i), -1);
		lo[i] = x_min(m, to_index(m, x1(m, O_FLOOR, nearest ? x_add(m, p[i], half) : p[i])), last);
		hi[i] = x_min(m, to_index(m, x1(m, O_CEIL, p[i])), last);
		f[i] = x_sub(m, p[i], x_cast(m, c, lo[i]));
	}
	if (nearest)
		return x_cast(m, c, x_read(m, x, (Node *[]){n, ch, lo[0], lo[1]}));
	for (i = 0; i < 2; i++) {
		Node *at = i ? hi[0] : lo[0], *a = x_cast(m, c, x_read(m, x, (Node *[]){n, ch, at, lo[1]}));
		row[i] = x_sub(m, x_cast(m, c, x_read(m, x, (Node *[]){n, ch, at, hi[1]})), a);
		row[i] = x_add(m, a, x_mul(m, row[i], f[1]));
	}
	return x_add(m, row[0], x_mul(m, x_sub(m, row[1], row[0]), f[0]));
}

static Node *
build_crop_and_resize(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *rois = b->in[1], *which = b->in[2], **size, *ax[4], *p[2],
		*in = x_bool(m, true), *e, *lo, *hi, *last;
	const char *mode = attr_str(b, "mode");
	bool nearest = strcmp(mode, "nearest") == 0;
	DType c = acc_type(dtype_of(x));
	int n, i;

	if (!nearest && strcmp(mode, "bilinear"))
		return fail(b, "mode is \"%s\", must be bilinear or nearest", mode);
	if (rank_of(x) != 4 || rank_of(rois) != 2 || rank_of(which) != 1)
		return fail(b, "the operands have %d, %d and %d dimensions, must have 4, 2 and 1",
			rank_of(x), rank_of(rois),
			rank_of(which));
	if (!list_arg(b, b->in[3], "crop_size", &n, &size))
		return NULL;
	if (n != 2)
		return fail(b, "crop_size has %d elements, must have 2", n);
	expect_dim(b, "a region", dim_of(rois, 1), x_idx(m, 4), false);
	expect_dim(b, "batch_indices", dim_of(which, 0), dim_of(rois, 0), false);
	ax[0] = x_axis(m, dim_of(rois, 0));
	ax[1] = x_axis(m, dim_of(x, 1));
	for (i = 0; i < 2; i++) {
		ax[2 + i] = x_axis(m, extent(m, size[i]));
		lo = x_cast(m, c, x_read(m, rois, (Node *[]){ax[0], x_idx(m, i)}));
		hi = x_cast(m, c, x_read(m, rois, (Node *[]){ax[0], x_idx(m, 2 + i)}));
		p[i] = box_place(m, lo, hi, ax[2 + i], ax[2 + i]->in[0], dim_of(x, 2 + i));
		last = x_cast(m, c, x_addi(m, dim_of(x, 2 + i), -1));
		in = x_and(m, in, x_and(m, x_le(m, x_int(m, c, 0), p[i]), x_le(m, p[i], last)));
	}
	e = x2(m, O_BOUND, x_cast(m, DT_INDEX, x_read(m, which, ax)), dim_of(x, 0));
	e = x_select(m, in, sampled(m, x, e, ax[1], p[0], p[1], nearest),
		x_flt(m, c, attr_float(b, "extrapolation_value")));
	return t_tensor(m, 4, ax, x_cast(m, dtype_of(x), e));
}

/* ---- MaxpoolWithMask ------------------------------------------------------------------------- */

/* Is the window's element at `tap` of the last dimension shown:
 * no element before it in its row is masked? */
static Node *
shown(Module *m, Node *mask, Node *const *lead, int n, const Window *w, Node *const *start,
	Node *const *tap)
{
	Node *j = x_axis(m, w[n - 1].k), *idx[MAX_RANK], *in = x_le(m, j, tap[n - 1]),
		*flat = x_idx(m, 0), *e;
	int i;

	memcpy(idx, lead, 2 * sizeof *idx);
	for (i = 0; i < n; i++) {
		idx[2 + i] = x_add(m, start[i], i == n - 1 ? j : tap[i]);
		in = x_and(m, in, x_and(m, x_le(m, x_idx(m, 0), idx[2 + i]),
			x_lt(m, idx[2 + i], dim_of(mask, 2 + i))));
		flat = x_add(m, x_mul(m, flat, dim_of(mask, 2 + i)), idx[2 + i]);
	}
	e = x_ne(m, x_read(m, mask, idx), x_int(m, DT_I32, 0));
	if (n > 1)                                   /* the first element always counts */
		e = x_or(m, e, x_eq(m, flat, x_idx(m, 0)));
	return x_reduce(m, COMB_AND, 1, &j, x_select(m, in, e, x_bool(m, true)));
}

static Node *
build_maxpool_with_mask(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *mask = b->in[1], *kernel[MAX_RANK], *ax[MAX_RANK], *red[MAX_RANK],
		*start[MAX_RANK], *idx[MAX_RANK],
		*lead[2], *in = x_bool(m, true), *e, *low = x_flt(m, DT_F32, -FLT_MAX), *flat;
	Window w[MAX_RANK];
	int n = rank_of(x) - 2, i;

	if (n < 1 || rank_of(mask) != n + 2)
		return fail(b, "the operand has %d dimensions, the mask %d", n + 2, rank_of(mask));
	for (i = 0; i < n; i++)
		expect_dim(b, "the mask", dim_of(mask, 2 + i), dim_of(x, 2 + i), false);
	if (!window_kernel(b, n, kernel) || !windows(b, n, x->type->dims + 2, kernel, false, w))
		return NULL;
	for (i = 0; i < n + 2; i++)
		ax[i] = x_axis(m, i < 2 ? dim_of(x, i) : w[i - 2].out);
	flat = x_add(m, x_mul(m, ax[0], dim_of(x, 1)), ax[1]);
	flat = x_mod(m, flat, x_mul(m, dim_of(mask, 0), dim_of(mask, 1)));
	lead[0] = x_fdiv(m, flat, dim_of(mask, 1));
	lead[1] = x_mod(m, flat, dim_of(mask, 1));
	memcpy(idx, ax, 2 * sizeof *idx);
	for (i = 0; i < n; i++) {
		red[i] = x_axis(m, w[i].k);
		start[i] = x_sub(m, x_muli(m, ax[2 + i], w[i].stride), w[i].begin);
		idx[2 + i] = x_add(m, start[i], red[i]);
		in = x_and(m, in, x_and(m, x_le(m, x_idx(m, 0), idx[2 + i]),
			x_lt(m, idx[2 + i], dim_of(x, 2 + i))));
	}
	e = x_read(m, x, idx);
	e = x_select(m, x_and(m, x_eq(m, e, e), shown(m, mask, lead, n, w, start, red)), e, low);
	return t_tensor(m, n + 2, ax,
		x_max(m, x_reduce(m, COMB_MAX, n, red, x_select(m, in, e, low)), low));
}

/* ---- streams of hyper-connections ------------------------------------------------------------ */

/* Streams [..., C, H], or flat [..., C * H]. lead: dimensions before C. */
typedef struct Streams { Node *x, *C, *H; int lead; bool flat; } Streams;

static bool
streams_arg(Build *b, Streams *s)
{
	Module *m = b->m;
	int64_t branches = attr_int(b, "num_branches");
	Node *x = b->in[0];
	int r = rank_of(x);

	if (branches < 0 || r < (branches ? 1 : 2))
		return fail(b, "%lld branches of an operand of %d dimensions", (long long)branches,
			r) != NULL;
	*s = (Streams){.x = x, .flat = branches > 0, .lead = branches ? r - 1 : r - 2};
	s->C = branches ? x_idx(m, branches) : dim_of(x, r - 2);
	s->H = branches ? x_fdiv(m, dim_of(x, r - 1), s->C) : dim_of(x, r - 1);
	if (branches)
		require(m, x_eq(m, x_mul(m, s->C, s->H), dim_of(x, r - 1)), b->loc,
			"%s elements are not %lld branches",
			expr_print(m, dim_of(x, r - 1)), (long long)branches);
	return true;
}

static Node *
stream_read(Module *m, const Streams *s, Node *const *ax, Node *c, Node *h)
{
	Node *idx[MAX_RANK];

	memcpy(idx, ax, sizeof *idx * (size_t)s->lead);
	idx[s->lead] = s->flat ? x_add(m, x_mul(m, c, s->H), h) : c;
	idx[s->lead + 1] = h;
	return as_float(m, x_read(m, s->x, idx));
}

/* A gate [..., C], [..., C, 1], [..., C, H] or, of flat streams, [..., C * H]; NULL after an
 * error. */
static Node *
gate_read(Build *b, const Streams *s, Node *gate, Node *const *ax, Node *c, Node *h,
	bool may_be_flat)
{
	Module *m = b->m;
	Node *idx[MAX_RANK], *last, *one = x_idx(m, 1);
	int r = rank_of(gate), i;

	if (r != s->lead + 1 && r != s->lead + 2)
		return fail(b, "a gate has %d dimensions, must have %d or %d", r, s->lead + 1, s->lead + 2);
	for (i = 0; i < s->lead; i++)
		expect_dim(b, "a gate", dim_of(gate, i), dim_of(s->x, i), false);
	memcpy(idx, ax, sizeof *idx * (size_t)s->lead);
	last = dim_of(gate, r - 1);
	if (r == s->lead + 2) {
		expect_dim(b, "a gate", dim_of(gate, s->lead), s->C, false);
		require(m, x_or(m, x_eq(m, last, one), x_eq(m, last, s->H)), b->loc,
			"a gate has %s elements for %s",
			expr_print(m, last), expr_print(m, s->H));
		idx[s->lead] = c;
		idx[s->lead + 1] = x_select(m, x_eq(m, last, one), x_idx(m, 0), h);
	} else {
		require(m, x_or(m, x_eq(m, last, s->C),
			x_eq(m, last, may_be_flat && s->flat ? x_mul(m, s->C, s->H) : s->C)), b->loc,
			"a gate has %s elements for %s branches", expr_print(m, last), expr_print(m, s->C));
		idx[s->lead] = x_select(m, x_eq(m, last, s->C), c, x_add(m, x_mul(m, c, s->H), h));
	}
	return as_float(m, x_read(m, gate, idx));
}

static Node *
build_pre_mix(Build *b)
{
	Module *m = b->m;
	Node *ax[MAX_RANK], *c, *g, *e;
	Streams s;
	int i;

	if (!streams_arg(b, &s))
		return NULL;
	for (i = 0; i <= s.lead; i++)
		ax[i] = x_axis(m, i < s.lead ? dim_of(s.x, i) : s.H);
	c = x_axis(m, s.C);
	if (!(g = gate_read(b, &s, b->in[1], ax, c, ax[s.lead], true)))
		return NULL;
	e = x_reduce(m, COMB_SUM, 1, &c, x_mul(m, stream_read(m, &s, ax, c, ax[s.lead]), g));
	e = x_mul(m, e, x_flt(m, e->type->dtype, attr_float(b, "reduction_scale")));
	return t_tensor(m, s.lead + 1, ax, x_cast(m, dtype_of(s.x), e));
}

static Node *
build_post_mix(Build *b)
{
	Module *m = b->m;
	Node *block = b->in[1], *mix = b->in[3], *ax[MAX_RANK], *at[MAX_RANK], *k, *h, *c, *g, *e;
	Streams s;
	int i, r;

	if (!streams_arg(b, &s))
		return NULL;
	r = rank_of(s.x);
	if (rank_of(block) != s.lead + 1 || (mix && rank_of(mix) != s.lead + 2))
		return fail(b, "block_output has %d dimensions, must have %d; stream_mix must have %d",
			rank_of(block), s.lead + 1,
			s.lead + 2);
	for (i = 0; i < s.lead; i++) {
		expect_dim(b, "block_output", dim_of(block, i), dim_of(s.x, i), false);
		if (mix)
			expect_dim(b, "stream_mix", dim_of(mix, i), dim_of(s.x, i), false);
	}
	expect_dim(b, "block_output", dim_of(block, s.lead), s.H, false);
	for (i = 0; mix && i < 2; i++)
		expect_dim(b, "stream_mix", dim_of(mix, s.lead + i), s.C, false);
	axes_new(m, r, s.x->type->dims, ax);
	k = s.flat ? x_fdiv(m, ax[r - 1], s.H) : ax[s.lead];
	h = s.flat ? x_mod(m, ax[r - 1], s.H) : ax[r - 1];
	if (!(g = gate_read(b, &s, b->in[2], ax, k, h, false)))
		return NULL;
	memcpy(at, ax, sizeof *at * (size_t)s.lead);
	if (mix) {
		at[s.lead] = c = x_axis(m, s.C);
		at[s.lead + 1] = k;
		e = x_reduce(m, COMB_SUM, 1, &c,
			x_mul(m, as_float(m, x_read(m, mix, at)), stream_read(m, &s, ax, c, h)));
	} else
		e = stream_read(m, &s, ax, k, h);
	at[s.lead] = h;
	e = x_add(m, e, x_mul(m, g, as_float(m, x_read(m, block, at))));
	return t_tensor(m, r, ax, x_cast(m, dtype_of(s.x), e));
}

/* 1 / root of the mean square along the last axis of t [batch, sequence, branches, n], in f32. */
static Node *
inverse_root(Build *b, Node *t)
{
	Module *m = b->m;
	Node *ax[4], *e;
	double eps = num_round(DT_F32, attr_float(b, "epsilon")).f;

	axes_new(m, 4, t->type->dims, ax);
	e = as_float(m, x_read(m, t, ax));
	e = x_reduce(m, COMB_SUM, 1, &ax[3], x_mul(m, e, e));
	e = x2(m, O_DIV, e, x_cast(m, e->type->dtype, ax[3]->in[0]));
	e = x1(m, O_SQRT, x_add(m, e, x_flt(m, e->type->dtype, eps)));
	return t_tensor(m, 3, ax, x2(m, O_DIV, x_int(m, e->type->dtype, 1), e));
}

/* t normalised and scaled, an element. */
static Node *
normed(Module *m, Node *t, Node *inv, Node *scale, Node *const *ax)
{
	Node *e = x_mul(m, as_float(m, x_read(m, t, ax)), x_read(m, inv, ax));

	return x_mul(m, e, as_float(m, x_read(m, scale, (Node *[]){ax[2], ax[3]})));
}

static Node *
build_engram_gate(Build *b)
{
	Module *m = b->m;
	Node **in = b->in, *key = in[0], *inv[2], *ax[4], *e, *size, *gate, *out[2] = {NULL, NULL},
		*one, *zero;
	DType c = acc_type(dtype_of(key));
	int i;

	if (rank_of(key) != 4 || rank_of(in[1]) != 4 || rank_of(in[2]) != 3)
		return fail(b, "key, query and value have %d, %d and %d dimensions, must have 4, 4 and 3",
			rank_of(key),
			rank_of(in[1]), rank_of(in[2]));
	expect_shape(b, "the query", in[1], 4, key->type->dims);
	expect_shape(b, "the value", in[2], 3,
		(Node *[]){dim_of(key, 0), dim_of(key, 1), dim_of(key, 3)});
	for (i = 3; i < 6; i++)
		if (in[i] && rank_of(in[i]) != 2)
			return fail(b, "a scale has %d dimensions, must have 2", rank_of(in[i]));
		else if (in[i])
			expect_shape(b, "a scale", in[i], 2, key->type->dims + 2);
	inv[0] = inverse_root(b, key);
	inv[1] = inverse_root(b, in[1]);
	axes_new(m, 4, key->type->dims, ax);
	one = x_int(m, c, 1);
	zero = x_int(m, c, 0);
	e = x_mul(m, normed(m, key, inv[0], in[3], ax), normed(m, in[1], inv[1], in[4], ax));
	size = x1(m, O_SQRT, x_cast(m, c, ax[3]->in[0]));
	e = x2(m, O_DIV, x_reduce(m, COMB_SUM, 1, &ax[3], e), size);
	e = t_tensor(m, 3, ax, e);
	axes_new(m, 3, e->type->dims, ax);
	e = x_read(m, e, ax);
	gate = x1(m, O_SQRT, x_max(m, x1(m, O_ABS, e), x_flt(m, c, 1e-6)));
	gate = x_select(m, x_lt(m, e, zero), x1(m, O_NEG, gate),
		x_select(m, x_eq(m, e, zero), zero, gate));
	gate = t_tensor(m, 3, ax, x2(m, O_DIV, one, x_add(m, one, x1(m, O_EXP, x1(m, O_NEG, gate)))));
	axes_new(m, 4, key->type->dims, ax);
	e = x_mul(m, x_read(m, gate, ax),
		as_float(m, x_read(m, in[2], (Node *[]){ax[0], ax[1], ax[3]})));
	out[0] = t_tensor(m, 4, ax, x_cast(m, dtype_of(key), e));
	if (in[5]) {
		e = inverse_root(b, out[0]);
		axes_new(m, 4, key->type->dims, ax);
		out[1] = t_tensor(m, 4, ax, x_cast(m, dtype_of(key), normed(m, out[0], e, in[5], ax)));
	}
	return t_tuple(m, 2, out);
}

/* ---- QEmbedLayerNormalization ---------------------------------------------------------------- */

static Node *
build_qembed(Build *b)
{
	Node **in = b->in, *f[5], *e;
	static const int table[] = {2, 3, 4, 5, 6}, scale[] = {8, 9, 10, 11, 12};
	int i;

	for (i = 0; i < 5; i++) {
		f[i] = in[table[i]] ? call(b, "dequantize_linear", 3,
			(Node *[]){in[table[i]], in[scale[i]], in[scale[i] + 5]}, NULL) : NULL;
		if (in[table[i]] && !f[i])
			return NULL;
	}
	e = graph_op(b->m, op_find("embed_layer_normalization"), 8,
		(Node *[]){in[0], in[1], f[0], f[1], f[2], f[3], f[4], in[7]},
		b->attrs, 2, 0, NULL, b->loc);
	return e ? t_tuple(b->m, 2, (Node *[]){t_result(b->m, e, 0), t_result(b->m, e, 1)}) : NULL;
}

#define STREAMS "num_branches: int = 0"

const Op ops_contrib_mixed[] = {
	COMP("sample_op", MS("SampleOp"), 1, "(x: num) {} -> y", "identity(x)", "the operand"),
	BUILD("crop_and_resize", MS("CropAndResize"), 1,
	"(x: float, rois: x, batch_indices: i32, crop_size: i32)"
		" {extrapolation_value: float = 0, mode: str = \"bilinear\"} -> y", build_crop_and_resize,
		"regions of pictures, all resized to one size"),
	BUILD("maxpool_with_mask", MS("MaxpoolWithMask"), 1,
	"(x: f32, mask: i32) {auto_pad: str = \"NOTSET\","
		" kernel_shape: ints, pads: ints?, storage_order: int = 0, strides: ints?} -> y",
		build_maxpool_with_mask,
		"maximum over windows, each row as far as the mask shows it"),
	BUILD("hyper_connection_pre_mix", MS("HyperConnectionPreMix"), 1,
	"(streams: float, pre_mix: float) {" STREAMS ","
		" reduction_scale: float = 1} -> y", build_pre_mix, "gated sum of streams"),
	BUILD("hyper_connection_post_mix", MS("HyperConnectionPostMix"), 1,
	"(streams: float, block_output: streams,"
		" post_mix: float, stream_mix: post_mix?) {" STREAMS "} -> y", build_post_mix,
		"mixed streams and a gated branch"),
	BUILD("engram_gate", MS("EngramGate"), 1,
	"(key: float, query: key, value: key, key_scale: key, query_scale: key,"
		" conv_scale: key?) {epsilon: float = 1e-5} -> y, normed?", build_engram_gate,
		"values gated by how keys and queries agree"),
	COMP("sparse_to_dense_matmul", MS("SparseToDenseMatMul"), 1,
	"(a: f32|f64|i32|i64|u32|u64, b: a)"
		" {alpha: float = 1, transA: int = 0, transB: int = 0} -> y",
		"p = transA ? transpose(a, perm=[1, 0]) : a; q = transB ? transpose(b, perm=[1, 0]) : b;"
		"t = matmul(p, q); alpha == 1 ? t : t * alpha", "alpha a b, a given as a sparse tensor"),
	BUILD("qembed_layer_normalization", MS("QEmbedLayerNormalization"), 1,
	"(ids: i32, segments: i32?, words: i8|u8,"
		" positions: words, segment_table: words?, gamma: words, beta: words, mask: i32?,"
		" words_scale: f32,"
		" positions_scale: f32, segment_scale: f32?, gamma_scale: f32, beta_scale: f32,"
		" words_zero: words,"
		" positions_zero: words, segment_zero: words?, gamma_zero: words, beta_zero: words)"
		" {epsilon: float = 1e-12}"
		" -> y, mask_index", build_qembed, "layer norm of summed quantized embeddings"),
	{0}
};
