/*
 * com.microsoft: operators on signed bytes whose matrices lie in cublasLt's orders. A tensor has
 * the matrix's shape and its memory the elements in that order (cuBLAS, cublasLtOrder_t).
 */
#include "attention.h"

typedef enum Order { BY_COLUMNS, BY_ROWS, BY_32_COLUMNS } Order;

static bool
order_attr(Build *b, const char *name, Order *order)
{
	int64_t v = attr_int(b, name);

	*order = (Order)v;
	if (v == 3 || v == 4)
		return unsupported(b, "%s of %lld, only 0, 1 and 2 (ORDER_COL, _ROW and _COL32)", name,
			(long long)v) != NULL;
	return (v >= 0 && v < 3) || fail(b, "%s is %lld", name, (long long)v) != NULL;
}

/* Attributes that must have a value: `n` of them, which may be absent. */
static bool
orders_are(Build *b, int n, const char *const *names, const Order *want)
{
	for (int i = 0; i < n; i++)
		if (attr_find(b->attrs, names[i]) && attr_int(b, names[i]) != want[i])
			return unsupported(b, "%s of %lld, only %d", names[i],
				(long long)attr_int(b, names[i]), want[i]) != NULL;
	return true;
}

/* Makes of at's last two indices, a place in memory, those of the element that lies there (to), or
 * the other way round. */
static void
swap_order(Module *m, Node *t, Order order, Node **at, bool to)
{
	int r = rank_of(t);
	Node *R = dim_of(t, r - 2), *C = dim_of(t, r - 1), *w = x_idx(m, 32), *group, *in, *place,
		*row = at[r - 2], *col = at[r - 1];

	if (to) {                                    /* a place in memory -> the element there */
		place = x_add(m, x_mul(m, row, C), col);
		if (order == BY_COLUMNS) {
			at[r - 2] = x_mod(m, place, R);
			at[r - 1] = x_fdiv(m, place, R);
			return;
		}
		group = x_fdiv(m, place, x_mul(m, R, w));
		in = x_mod(m, place, x_mul(m, R, w));
		at[r - 2] = x_fdiv(m, in, w);
		at[r - 1] = x_add(m, x_mul(m, group, w), x_mod(m, in, w));
		return;
	}
	if (order == BY_COLUMNS)
		place = x_add(m, x_mul(m, col, R), row);
	else
		place = x_add(m, x_mul(m, x_add(m, x_mul(m, x_fdiv(m, col, w), R), row), w),
			x_mod(m, col, w));
	at[r - 2] = x_fdiv(m, place, C);
	at[r - 1] = x_mod(m, place, C);
}

/* t, in an order, by rows; to: t by rows, in the order. */
static Node *
reordered(Build *b, Node *t, Order order, bool to)
{
	Module *m = b->m;
	Node *ax[MAX_RANK], *at[MAX_RANK];
	int r = rank_of(t), i;

	if (order == BY_ROWS || r < 2)
		return t;
	if (order == BY_32_COLUMNS)
		require(m, x_eq(m, x_mod(m, dim_of(t, r - 1), x_idx(m, 32)), x_idx(m, 0)), b->loc,
			"%s columns are not in groups of 32", expr_print(m, dim_of(t, r - 1)));
	axes_new(m, r, t->type->dims, ax);
	for (i = 0; i < r; i++)
		at[i] = ax[i];
	swap_order(m, t, order, at, to);
	return t_tensor(m, r, ax, x_read(m, t, at));
}

/* ---- conversion ------------------------------------------------------------------------------ */

static Node *
to_bytes(Build *b, Node *x, Node *scale)
{
	Node *in[3] = {x, scale, t_scalar(b->m, DT_I8, (Num){.i = 0})};

	return x ? call(b, "quantize_linear", 3, in, NULL) : NULL;
}

static Node *
from_bytes(Build *b, Node *x, Node *scale)
{
	return x ? call(b, "dequantize_linear", 2, (Node *[]){x, scale}, NULL) : NULL;
}

static Node *
build_quantize_with_order(Build *b)
{
	Order from, to;
	Node *x;

	if (!order_attr(b, "order_input", &from) || !order_attr(b, "order_output", &to))
		return NULL;
	x = as_type(b->m, reordered(b, b->in[0], from, false), DT_F32);
	x = to_bytes(b, x, b->in[1]);
	return x ? reordered(b, x, to, true) : NULL;
}

static Node *
build_dequantize_with_order(Build *b)
{
	Order from, to;
	Node *x;
	DType d = dtype_of_onnx((int)attr_int(b, "to"));

	if (!order_attr(b, "order_input", &from) || !order_attr(b, "order_output", &to))
		return NULL;
	if (d != DT_F32 && d != DT_F16)
		return fail(b, "to is %lld, must be 1 or 10", (long long)attr_int(b, "to"));
	x = from_bytes(b, reordered(b, b->in[0], from, false), b->in[1]);
	return x ? reordered(b, as_type(b->m, x, d), to, true) : NULL;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static Node *
build_ordered_gelu(Build *b)
{
	const Attr *x = attr_find(b->attrs, "order_X"), *y = attr_find(b->attrs, "order_Y");
	Node *e;

	if (x && y && x->i != y->i)
		return fail(b, "order_X is %lld, order_Y %lld", (long long)x->i, (long long)y->i);
	e = from_bytes(b, b->in[0], b->in[1]);
	return e ? to_bytes(b, call(b, "ms_gelu", 1, &e, NULL), b->in[2]) : NULL;
}

static Node *
build_ordered_layer_norm(Build *b)
{
	Node **in = b->in, *x;
	Order order, to;
	const Attr *attrs = with_int(b, NULL, "axis", attr_int(b, "axis"));

	if (!order_attr(b, "order_X", &order) || !order_attr(b, "order_Y", &to))
		return NULL;
	if (order != to)
		return fail(b, "order_X is %d, order_Y %d", order, to);
	x = from_bytes(b, reordered(b, in[0], order, false), in[1]);
	x = x ? call_result(b, "layer_normalization", 3, (Node *[]){x, as_type(b->m, in[2], DT_F32),
		in[3] ? as_type(b->m, in[3], DT_F32) : NULL},
		with_float(b, attrs, "epsilon", attr_float(b, "epsilon")), 0) : NULL;
	x = to_bytes(b, x, in[4]);
	return x ? reordered(b, x, order, true) : NULL;
}

/* x w x_scale w_scale + bias, of bytes; w lies by columns. */
static Node *
ordered_product(Build *b, Node *x, Node *x_scale, Node *w, Node *w_scale, Node *bias)
{
	Node *y = call(b, "matmul_integer", 4,
		(Node *[]){x, reordered(b, w, BY_COLUMNS, false), NULL, NULL}, NULL);

	if (!y)
		return NULL;
	y = call2(b, "mul", as_type(b->m, y, DT_F32), call2(b, "mul", x_scale, w_scale));
	return bias ? call2(b, "add", y, bias) : y;
}

static Node *
build_ordered_matmul(Build *b)
{
	static const char *const names[] = {"order_A", "order_B", "order_Y"};
	Node **in = b->in, *y, *c;

	if (!orders_are(b, 3, names, (Order[]){BY_ROWS, BY_COLUMNS, BY_ROWS}))
		return NULL;
	if (!in[6] != !in[7])
		return fail(b, "C and scale_C must be given together");
	y = ordered_product(b, in[0], in[1], in[2], in[3], in[5]);
	if (in[6]) {
		c = from_bytes(b, in[6], in[7]);
		y = call2(b, "add", y, c);
	}
	return to_bytes(b, y, in[4]);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* x as bytes hold it; x itself without a scale. */
static Node *
rounded(Build *b, Node *x, Node *scale)
{
	return x && scale ? from_bytes(b, to_bytes(b, x, scale), scale) : x;
}

/* Query, key or value [B, N, S, H]: part 0, 1 or 2. */
static Node *
ordered_heads(Build *b, int part, int64_t heads)
{
	Module *m = b->m;
	Node **in = b->in, *x, *size, *columns;

	x = ordered_product(b, in[0], in[1], in[5 + part], in[8 + part], in[11 + part]);
	x = rounded(b, x, in[2 + part]);
	if (!x)
		return NULL;
	if (rank_of(x) != 3)
		return fail(b, "the projection has %d dimensions, must have 3", rank_of(x));
	columns = dim_of(x, 2);
	size = x_fdiv(m, columns, x_idx(m, heads));
	require(m, x_eq(m, x_muli(m, size, heads), columns), b->loc, "%s columns for %lld heads",
		expr_print(m, columns), (long long)heads);
	return split_heads(b, x, heads, x_idx(m, 0), size);
}

/* Scores over the root of the head's size, plus what the mask adds. */
static Node *
masked_scores(Att *a, Node *scores)
{
	Module *m = a->b->m;
	Node *ax[4], *e;

	axes_new(m, 4, scores->type->dims, ax);
	e = x1(m, O_SQRT, x_cast(m, DT_F32, dim_of(a->q, 3)));
	e = x2(m, O_DIV, x_read(m, scores, ax), e);
	if (a->bias)
		e = x_add(m, e, a->bias(a, ax[0], ax[1], ax[2], ax[3]));
	return t_tensor(m, 4, ax, e);
}

static Node *
build_ordered_attention(Build *b)
{
	static const char *const names[] = {"order_input", "order_weight", "order_output"};
	Module *m = b->m;
	Node **in = b->in, *x, *kt, *dims[3];
	int64_t heads = head_count(b, "num_heads");
	Att a = {.b = b};
	Mask mask;

	if (!heads || !orders_are(b, 3, names, (Order[]){BY_ROWS, BY_COLUMNS, BY_ROWS}))
		return NULL;
	if (in[18] || in[19])
		return unsupported(b, "past and attention_bias");
	if (!mask_args(b, &mask, in[17], NULL) || !(a.q = ordered_heads(b, 0, heads))
	 || !(a.k = ordered_heads(b, 1, heads)) || !(a.v = ordered_heads(b, 2, heads)))
		return NULL;
	mask.filter = -10000;                        /* as Attention's */
	use_mask(&a, &mask);
	kt = call(b, "transpose", 1, &a.k, "perm=[0, 1, 3, 2]");
	x = rounded(b, call2(b, "matmul", a.q, kt), in[14]);
	if (!x)
		return NULL;
	x = masked_scores(&a, x);
	x = rounded(b, call(b, "softmax", 1, &x, "axis=-1"), in[15]);
	x = to_bytes(b, call2(b, "matmul", x, a.v), in[16]);
	x = x ? call(b, "transpose", 1, &x, "perm=[0, 2, 1, 3]") : NULL;
	if (!x)
		return NULL;
	dims[0] = dim_of(x, 0);
	dims[1] = dim_of(x, 1);
	dims[2] = x_mul(m, dim_of(x, 2), dim_of(x, 3));
	return reshape(m, x, 3, dims);
}

const Op ops_contrib_ordered[] = {
	BUILD("quantize_with_order", MS("QuantizeWithOrder"), 1,
		"(x: f16|f32, scale: f32) {order_input: int, order_output: int} -> y",
		build_quantize_with_order, "a matrix as bytes, in an order"),
	BUILD("dequantize_with_order", MS("DequantizeWithOrder"), 1,
		"(x: i8, scale: f32) {order_input: int, order_output: int, to: int} -> y",
		build_dequantize_with_order, "a matrix of bytes as numbers, in an order"),
	BUILD("qordered_gelu", MS("QOrderedGelu"), 1,
		"(x: i8, x_scale: f32, y_scale: f32) {order_X: int?, order_Y: int?} -> y",
		build_ordered_gelu, "gelu of bytes"),
	BUILD("qordered_layer_normalization", MS("QOrderedLayerNormalization"), 1,
		"(x: i8, x_scale: f32, gamma: f16|f32, beta: gamma?, y_scale: f32)"
		" {axis: int = -1, epsilon: float = 1e-5, order_X: int = 1, order_Y: int = 1} -> y",
		build_ordered_layer_norm, "layer norm of bytes"),
	BUILD("qordered_matmul", MS("QOrderedMatMul"), 1,
		"(a: i8, a_scale: f32, b: i8, b_scale: f32, y_scale: f32, bias: f32?, c: i8?,"
		" c_scale: f32?) {order_A: int, order_B: int, order_Y: int} -> y", build_ordered_matmul,
		"product of bytes, plus a bias and bytes"),
	BUILD("qordered_attention", MS("QOrderedAttention"), 1,
		"(x: i8, x_scale: f32, q_scale: f32, k_scale: f32, v_scale: f32, q_weight: i8,"
		" k_weight: i8, v_weight: i8, q_weight_scale: f32, k_weight_scale: f32,"
		" v_weight_scale: f32, q_bias: f32, k_bias: f32, v_bias: f32, scores_scale: f32?,"
		" softmax_scale: f32?, y_scale: f32, mask_index: i32?, past: i8?, attention_bias: f32?)"
		" {num_heads: int, order_input: int, order_output: int, order_weight: int,"
		" qkv_hidden_sizes: ints?, unidirectional: int = 0} -> y", build_ordered_attention,
		"attention of bytes with its projection"),
	{0}
};
