/* com.microsoft: mixtures of experts. */
#include <string.h>
#include "ops.h"

typedef struct Mixture {
	Build *b;
	/* [tokens, hidden]; [tokens, k]: which, and how much of each */
	Node *x, *experts, *weights;
} Mixture;

/* Matrices of the experts, [experts, out, in], and biases [experts, out] or NULL; w NULL: none. */
typedef struct Layer { Node *w, *bias; } Layer;

/* Which expert serves token t as its j-th. */
static Node *
expert(const Mixture *q, Node *t, Node *j, Node *count)
{
	Node *e = x_read(q->b->m, q->experts, (Node *[]){t, j});

	return x2(q->b->m, O_BOUND, x_cast(q->b->m, DT_INDEX, e), count);
}

/*
 * rows[t, j or -, :] times the expert's matrix, plus its bias: [tokens, k, out].
 * each: rows are [tokens, k, in], not [tokens, in].
 */
static Node *
by_expert(const Mixture *q, Node *rows, bool each, Layer l)
{
	Module *m = q->b->m;
	Node *w = l.w, *bias = l.bias;
	Node *ax[3], *i = x_axis(m, dim_of(w, 2)), *e, *which, *at[3];
	DType d = dtype_of(q->x);

	ax[0] = x_axis(m, dim_of(q->x, 0));
	ax[1] = x_axis(m, dim_of(q->experts, 1));
	ax[2] = x_axis(m, dim_of(w, 1));
	which = expert(q, ax[0], ax[1], dim_of(w, 0));
	at[0] = ax[0];
	at[1] = each ? ax[1] : i;
	at[2] = i;
	e = sum_of_products(m, acc_type(d), 1, &i, x_read(m, rows, at),
		x_read(m, w, (Node *[]){which, ax[2], i}));
	if (bias)
		e = x_add(m, e, x_cast(m, e->type->dtype, x_read(m, bias, (Node *[]){which, ax[2]})));
	return t_tensor(m, 3, ax, x_cast(m, d, e));
}

/* The activation of h [tokens, k, inner]; fused swiglu halves it:
 * pairs side by side, or one half after the other. */
static Node *
activated(const Mixture *q, Node *h, Node *gate)
{
	Build *b = q->b;
	Module *m = b->m;
	const char *act = attr_str(b, "activation_type");
	const Attr *limit = attr_find(b->attrs, "swiglu_limit");
	int64_t fused = attr_int(b, "swiglu_fusion");
	Node *ax[3], *at[3], *g, *l, *n = dim_of(h, 2), *one = x_flt(m, DT_F32, 1);

	if (strcmp(act, "swiglu")) {
		static const char *const rows[][2] = {{"relu", "relu"}, {"gelu", "fast_gelu"},
			{"silu", "swish"}, {"identity", "identity"}};
		size_t i;
		for (i = 0; i < 4 && strcmp(act, rows[i][0]); i++)
			;
		if (i == 4)
			return unsupported(b, "activation_type \"%s\"", act);
		h = call(b, rows[i][1], 1, &h, NULL);
		return h && gate ? call(b, "mul", 2, (Node *[]){h, gate}, NULL) : h;
	}
	if (fused < 0 || fused > 2 || (!fused && !gate))
		return fail(b, "swiglu_fusion is %lld%s", (long long)fused,
			fused ? "" : " without third matrices");
	axes_new(m, 2, h->type->dims, ax);
	ax[2] = x_axis(m, fused ? x_fdiv(m, n, x_idx(m, 2)) : n);
	memcpy(at, ax, sizeof at);
	at[2] = fused == 1 ? x_muli(m, ax[2], 2) : ax[2];
	g = x_cast(m, DT_F32, x_read(m, h, at));
	at[2] = fused == 1 ? x_addi(m, at[2], 1) : fused ? x_add(m, ax[2], x_fdiv(m, n, x_idx(m, 2)))
		: ax[2];
	l = x_cast(m, DT_F32, x_read(m, fused ? h : gate, at));
	if (limit) {
		g = x_min(m, g, x_flt(m, DT_F32, limit->f));
		l = x_max(m, x_min(m, l, x_flt(m, DT_F32, limit->f)), x_flt(m, DT_F32, -limit->f));
	}
	l = x_add(m, l, x_flt(m, DT_F32, attr_float(b, "activation_beta")));
	g = x2(m, O_DIV, g, x_add(m, one,
		x1(m, O_EXP, x1(m, O_NEG,
		x_mul(m, g, x_flt(m, DT_F32, attr_float(b, "activation_alpha")))))));
	return t_tensor(m, 3, ax, x_cast(m, dtype_of(h), x_mul(m, g, l)));
}

/* Scores [tokens, experts] of the experts that the k highest entries
 * of `by` choose; all over their sum, if asked. */
static bool
route(Mixture *q, Node *by, Node *scores, bool normalize)
{
	Build *b = q->b;
	Module *m = b->m;
	int64_t k = attr_int(b, "k");
	Node *top, *ax[2], *e, *sum, *zero, *dims[2], *i, *all;

	if (k < 1)
		return fail(b, "k is %lld", (long long)k) != NULL;
	top = graph_op(m, op_find("topk"), 2, (Node *[]){by, t_ints(m, 1, &k)}, NULL, 2, 0, NULL,
		b->loc);
	if (!top)
		return false;
	q->experts = t_result(m, top, 1);
	axes_new(m, 2, q->experts->type->dims, ax);
	e = x_cast(m, DT_INDEX, x_read(m, q->experts, ax));
	all = t_tensor(m, 2, ax, x_read(m, scores, (Node *[]){ax[0], e}));
	q->weights = all;
	if (!normalize)
		return true;
	memcpy(dims, all->type->dims, sizeof dims);
	axes_new(m, 2, dims, ax);
	i = x_axis(m, dims[1]);
	sum = t_tensor(m, 1, ax, sum_over(m, 1, &i, x_read(m, all, (Node *[]){ax[0], i})));
	axes_new(m, 2, dims, ax);
	e = x_read(m, sum, ax);
	zero = x_int(m, dtype_of(all), 0);
	e = x_select(m, x_eq(m, e, zero), zero, x2(m, O_DIV, x_read(m, all, ax), e));
	q->weights = t_tensor(m, 2, ax, e);
	return true;
}

/* The operand x and the router's rows must be of as many tokens. */
static bool
mixture_args(Build *b, Mixture *q, Node **dims)
{
	Module *m = b->m;
	Node *x = b->in[0], *router = b->in[1];
	int r = rank_of(x);

	q->b = b;
	if (r < 2 || r > 3 || rank_of(router) != 2)
		return fail(b, "the operand has %d dimensions, the router's %d", r,
			rank_of(router)) != NULL;
	if (attr_int(b, "use_sparse_mixer"))
		return unsupported(b, "use_sparse_mixer") != NULL;
	dims[0] = dim_of(router, 0);
	dims[1] = dim_of(x, r - 1);
	expect_dim(b, "the operand", r == 3 ? x_mul(m, dim_of(x, 0), dim_of(x, 1)) : dim_of(x, 0),
		dims[0], false);
	q->x = reshape(m, x, 2, dims);
	return true;
}

/* The routed sum of what the experts make of the tokens, in x's shape. */
static Node *
mixture(Mixture *q, Layer first, Layer second, Layer third)
{
	Build *b = q->b;
	Module *m = b->m;
	Node *x = b->in[0], *h, *gate = NULL, *y, *ax[2], *j,
		*dims[2] = {dim_of(q->x, 0), dim_of(q->x, 1)};
	DType d = dtype_of(x);

	expect_dim(b, "the first matrices", dim_of(first.w, 2), dims[1], false);
	h = by_expert(q, q->x, false, first);
	if (third.w) {
		expect_dim(b, "the third matrices", dim_of(third.w, 2), dims[1], false);
		gate = by_expert(q, q->x, false, third);
	}
	if (!(h = activated(q, h, gate)))
		return NULL;
	expect_dim(b, "the second matrices", dim_of(second.w, 2), dim_of(h, 2), false);
	expect_dim(b, "the second matrices", dim_of(second.w, 1), dims[1], false);
	y = by_expert(q, h, true, second);
	axes_new(m, 2, dims, ax);
	j = x_axis(m, dim_of(q->experts, 1));
	y = t_tensor(m, 2, ax, x_cast(m, d, sum_of_products(m, acc_type(d), 1, &j,
		x_read(m, y, (Node *[]){ax[0], j, ax[1]}), x_read(m, q->weights, (Node *[]){ax[0], j}))));
	return rank_of(x) == 3 ? reshape(m, y, 3, x->type->dims) : y;
}

/* Matrices and biases for as many experts as the router knows. */
static bool
layer_args(Build *b, Layer l)
{
	if (!l.w)
		return true;
	if (rank_of(l.w) != 3 || (l.bias && rank_of(l.bias) != 2))
		return fail(b, "the matrices have %d dimensions, must have 3; biases must have 2",
			rank_of(l.w)) != NULL;
	expect_dim(b, "the number of experts", dim_of(l.w, 0), dim_of(b->in[1], 1), false);
	if (l.bias)
		expect_shape(b, "a bias", l.bias, 2, l.w->type->dims);
	return true;
}

static Node *
build_moe(Build *b)
{
	Node **in = b->in, *dims[2], *p;
	Layer l[3] = {{in[2], in[3]}, {in[4], in[5]}, {in[6], in[7]}};
	Mixture q;
	int i;

	if (!mixture_args(b, &q, dims))
		return NULL;
	for (i = 0; i < 3; i++)
		if (!layer_args(b, l[i]))
			return NULL;
	p = call(b, "softmax", 1, &in[1], "axis=-1");
	if (!p || !route(&q, in[1], p, attr_int(b, "normalize_routing_weights") != 0))
		return NULL;
	return mixture(&q, l[0], l[1], l[2]);
}

/* ---- quantized experts ----------------------------------------------------------------------- */

/*
 * One expert's layer: weights of `bits` bits, low bits first along the last dimension; scales (and
 * zero points, packed alike) [experts, out] or, by blocks of the last dimension, [experts, out,
 * blocks].
 */
typedef struct Quantized { Node *w, *scales, *bias, *zeros; int64_t bits; } Quantized;

static bool
quantized_layer(Build *b, const Quantized *l, int64_t block, Layer *out)
{
	Module *m = b->m;
	int64_t per = 8 / l->bits;
	DType c = acc_type(dtype_of(b->in[0]));
	Node *ax[3], *at[3], *e, *blk, *zero;
	int r = l->scales ? rank_of(l->scales) : 0, i;

	if (rank_of(l->w) != 3 || (r != 2 && r != 3) || (l->zeros && rank_of(l->zeros) != r))
		return fail(b, "weights have %d dimensions, scales %d", rank_of(l->w), r) != NULL;
	for (i = 0; i < 3; i++)
		ax[i] = x_axis(m, i < 2 ? dim_of(l->w, i) : x_muli(m, dim_of(l->w, 2), per));
	expect_dim(b, "the scales", dim_of(l->scales, 0), dim_of(l->w, 0), false);
	expect_dim(b, "the scales", dim_of(l->scales, 1), dim_of(l->w, 1), false);
	memcpy(at, ax, sizeof at);
	if (r == 3) {
		blk = block > 0 ? x_idx(m, block) : x_ceildiv(m, ax[2]->in[0], dim_of(l->scales, 2));
		expect_dim(b, "the scales", dim_of(l->scales, 2), x_ceildiv(m, ax[2]->in[0], blk), false);
		at[2] = x_fdiv(m, ax[2], blk);
	}
	zero = l->zeros ? quantized_read(m, l->zeros, at, per, l->bits)
		: x_int(m, DT_I32, (int64_t)1 << (l->bits - 1));
	e = x_sub(m, quantized_read(m, l->w, ax, per, l->bits), zero);
	e = x_mul(m, x_cast(m, c, e), x_cast(m, c, x_read(m, l->scales, at)));
	*out = (Layer){t_tensor(m, 3, ax, e), l->bias};
	return layer_args(b, *out);
}

/* Bits of layer k: its own, or those of all. */
static int64_t
layer_bits(Build *b, int k)
{
	static const char *const names[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits",
		"fc3_expert_weight_bits"};

	return attr_int(b, attr_find(b->attrs, names[k]) ? names[k] : "expert_weight_bits");
}

/* Weights of 8-bit floats, a scale for each square of block by block. */
static bool
float_layer(Build *b, const Quantized *l, int64_t block, Layer *out)
{
	Module *m = b->m;
	DType c = acc_type(dtype_of(b->in[0]));
	Node *ax[3], *at[3], *size = x_idx(m, block);
	int i;

	if (rank_of(l->w) != 3 || !l->scales || rank_of(l->scales) != 3)
		return fail(b, "weights and scales must have 3 dimensions") != NULL;
	axes_new(m, 3, l->w->type->dims, ax);
	for (i = 0; i < 3; i++) {
		at[i] = i ? x_fdiv(m, ax[i], size) : ax[i];
		expect_dim(b, "the scales", dim_of(l->scales, i),
			i ? x_ceildiv(m, dim_of(l->w, i), size) : dim_of(l->w, i), false);
	}
	*out = (Layer){t_tensor(m, 3, ax,
		x_mul(m, x_cast(m, c, x_read(m, l->w, ax)), x_cast(m, c, x_read(m, l->scales, at)))),
		l->bias};
	return layer_args(b, *out);
}

static bool
quantized_layers(Build *b, Layer *out)
{
	Node **in = b->in;
	Quantized l[3] = {{in[2], in[3], in[4], in[11], 0}, {in[5], in[6], in[7], in[12], 0},
		{in[8], in[9], in[10], in[13], 0}};
	const char *type = attr_str(b, "quant_type");
	bool ints = strcmp(type, "int") == 0;
	int64_t block = attr_int(b, "block_size");
	int i;

	if ((!ints && strcmp(type, "fp8")) || (!ints && block < 1) ||
		(ints && attr_int(b, "weights_prepacked") == 1))
		return unsupported(b, "quant_type \"%s\" with blocks of %lld, prepacked %lld", type,
			(long long)block,
			(long long)attr_int(b, "weights_prepacked")) != NULL;
	for (i = 0; i < 3; i++) {
		l[i].bits = layer_bits(b, i);
		if (!l[i].w) {
			out[i] = (Layer){0};
			continue;
		}
		if (l[i].bits != 2 && l[i].bits != 4 && l[i].bits != 8)
			return fail(b, "weights of %lld bits", (long long)l[i].bits) != NULL;
		if ((dtype_of(l[i].w) == DT_U8) != ints)
			return fail(b, "weights of type %s for quant_type \"%s\"",
				dtypes[dtype_of(l[i].w)].text, type) != NULL;
		if (!(ints ? quantized_layer : float_layer)(b, &l[i], block, &out[i]))
			return false;
	}
	return true;
}

static Node *
build_qmoe(Build *b)
{
	Node **in = b->in, *dims[2], *weights = in[14], *p;
	Layer l[3];
	Mixture q;

	if (in[15] || in[16] || in[17] || in[18] || in[19] || in[20])
		return unsupported(b, "global and activation scales");
	if (!mixture_args(b, &q, dims) || !quantized_layers(b, l))
		return NULL;
	if (weights && rank_of(weights) != 2)
		return fail(b, "router_weights has %d dimensions, must have 2", rank_of(weights));
	if (weights)
		expect_shape(b, "router_weights", weights, 2, in[1]->type->dims);
	p = weights ? weights : call(b, "softmax", 1, &in[1], "axis=-1");
	if (!p || !route(&q, in[1], p, !weights || attr_int(b, "normalize_routing_weights")))
		return NULL;
	return mixture(&q, l[0], l[1], l[2]);
}

#define ACTIVATION "activation_alpha: float = 1, activation_beta: float = 0," \
	" activation_type: str = \"relu\""

const Op ops_contrib_moe[] = {
	BUILD("moe", MS("MoE"), 1,
		"(x: float, router: x, fc1: x, bias1: x?, fc2: x, bias2: x?, fc3: x?, bias3: x?)"
		" {" ACTIVATION ", k: int = 1,"
		" normalize_routing_weights: int = 0, swiglu_fusion: int = 0, swiglu_limit: float?,"
		" use_sparse_mixer: int = 0}"
		" -> y", build_moe, "each token through its likeliest experts"),
	BUILD("qmoe", MS("QMoE"), 1,
	"(x: float, router: x, fc1: u8|f8e4m3fn, scales1: float?, bias1: x?, fc2: fc1,"
		" scales2: float?, bias2: x?, fc3: fc1?, scales3: float?, bias3: x?, zeros1: u8?,"
		" zeros2: u8?, zeros3: u8?,"
		" router_weights: x?, global1: f32?, global2: f32?, act1: f32?, act2: f32?,"
		" act_block1: float?, act_block2: float?)"
		" {accuracy_level: int = 0, " ACTIVATION ", block_size: int = 0,"
		" expert_weight_bits: int = 4,"
		" fc1_expert_weight_bits: int?, fc2_expert_weight_bits: int?, fc3_expert_weight_bits: int?,"
		" k: int = 1,"
		" normalize_routing_weights: int = 0, quant_type: str = \"int\", swiglu_fusion: int = 0,"
		" swiglu_limit: float?,"
		" use_sparse_mixer: int = 0, weights_prepacked: int = -1} -> y", build_qmoe,
		"each token through its likeliest experts, whose weights are quantized"),
	{0}
};
