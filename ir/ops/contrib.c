/*
 * com.microsoft: operators that onnxruntime's tools put into models. Attention is in
 * contrib_attention.c. Quantized forms compute on the dequantized values and quantize the result.
 */
#include <string.h>
#include "rnn.h"

static const int64_t minus_one[] = {-1};

/* ---- what the families share ----------------------------------------------------------------- */

Node *
call_result(Build *b, const char *name, int nin, Node *const *in, const Attr *attrs, int i)
{
	Node *r = graph_op(b->m, op_find(name), nin, in, attrs, i + 1, 0, NULL, b->loc);

	return r && r->type->kind == T_TUPLE ? t_result(b->m, r, i) : r;
}

const Attr *
with_int(Build *b, const Attr *list, const char *name, int64_t v)
{
	return attrs_add(b->m, list, (Attr){.name = name, .kind = A_INT, .i = v});
}

const Attr *
with_float(Build *b, const Attr *list, const char *name, double v)
{
	return attrs_add(b->m, list, (Attr){.name = name, .kind = A_FLOAT, .f = v});
}

Node *
call2(Build *b, const char *name, Node *x, Node *y)
{
	return x && y ? call(b, name, 2, (Node *[]){x, y}, NULL) : NULL;
}

Node *
as_type(Module *m, Node *x, DType d)
{
	Node *axes[MAX_RANK];

	if (dtype_of(x) == d)
		return x;
	axes_new(m, rank_of(x), x->type->dims, axes);
	return t_tensor(m, rank_of(x), axes, x_cast(m, d, x_read(m, x, axes)));
}

Node *
as_float(Module *m, Node *e)
{
	return x_cast(m, e->type->dtype == DT_F64 ? DT_F64 : DT_F32, e);
}

/* ---- normalisation --------------------------------------------------------------------------- */

/* x over the root of its mean square along the last axis, and the root's reciprocal. */
static bool
rms(Build *b, Node *x, Node *gamma, Node **out)
{
	Module *m = b->m;
	DType c = acc_type(dtype_of(x));
	double eps = attr_float(b, "epsilon");
	Node *in[2] = {x, gamma}, *sq, *axes[MAX_RANK], *e;

	out[0] = call_result(b, "rms_normalization", 2, in, with_float(b, NULL, "epsilon", eps), 0);
	e = as_type(b->m, x, c);
	sq = call(b, "reduce_mean", 2, (Node *[]){call2(b, "mul", e, e), t_ints(m, 1, minus_one)},
		NULL);
	if (!out[0] || !sq)
		return false;
	axes_new(m, rank_of(sq), sq->type->dims, axes);
	e = x1(m, O_SQRT, x_add(m, x_read(m, sq, axes), x_flt(m, c, eps)));
	out[1] = t_tensor(m, rank_of(sq), axes, x2(m, O_DIV, x_int(m, c, 1), e));
	return true;
}

static Node *
build_simplified_layer_norm(Build *b)
{
	Node *out[2], *x = b->in[0];
	int64_t axis = attr_int(b, "axis");

	if (axis != -1 && axis != rank_of(x) - 1)
		return unsupported(b, "axis %lld, only the last is supported", (long long)axis);
	return rms(b, x, b->in[1], out) ? t_tuple(b->m, 2, out) : NULL;
}

static Node *
skip_sum(Build *b, Node *bias)
{
	Node *s = call2(b, "add", b->in[0], b->in[1]);

	return bias ? call2(b, "add", s, bias) : s;
}

static Node *
build_skip_layer_norm(Build *b)
{
	Node *s = skip_sum(b, b->in[4]), *in[3] = {s, b->in[2], b->in[3]}, *out[4], *r;

	if (!s)
		return NULL;
	r = graph_op(b->m, op_find("layer_normalization"), 3, in,
		with_float(b, NULL, "epsilon", attr_float(b, "epsilon")), 3,
		0, NULL, b->loc);
	if (!r)
		return NULL;
	for (int i = 0; i < 3; i++)
		out[i] = t_result(b->m, r, i);
	out[3] = s;
	return t_tuple(b->m, 4, out);
}

static Node *
build_skip_simplified(Build *b)
{
	Module *m = b->m;
	Node *s = skip_sum(b, b->in[3]), *out[4], *r[2];

	if (!s || !rms(b, s, b->in[2], r))
		return NULL;
	out[0] = r[0];
	out[1] = call(b, "reduce_mean", 2, (Node *[]){s, t_ints(m, 1, minus_one)}, NULL);
	out[2] = r[1];
	out[3] = s;
	return out[1] ? t_tuple(m, 4, out) : NULL;
}

/* A row of a table for each id; ids NULL: `none` (an index). */
static Node *
embedding(Module *m, Node *table, Node *ids, Node *none, Node *const *ax)
{
	Node *idx[2], *at[2] = {ax[0], ax[1]};

	if (ids) {
		at[0] = is_intv(dim_of(ids, 0), 1) ? x_idx(m, 0) : ax[0];
		idx[0] = x2(m, O_BOUND, x_cast(m, DT_INDEX, x_read(m, ids, at)), dim_of(table, 0));
	} else
		idx[0] = x2(m, O_BOUND, none, dim_of(table, 0));
	idx[1] = ax[2];
	return x_read(m, table, idx);
}

static Node *
build_embed_layer_norm(Build *b)
{
	Module *m = b->m;
	Node **in = b->in, *ax[3], *e, *out[3], *k, *at[2];
	int i;

	if (rank_of(in[0]) != 2 || rank_of(in[2]) != 2 || rank_of(in[3]) != 2)
		return fail(b, "ids and tables must have 2 dimensions");
	for (i = 1; i < 9; i++)
		if ((i == 1 || i > 6) && in[i]) {
			if (rank_of(in[i]) != 2)
				return fail(b, "input %d has %d dimensions, must have 2", i, rank_of(in[i]));
			expect_dim(b, "an operand", dim_of(in[i], 0), dim_of(in[0], 0), i == 8);
			expect_dim(b, "an operand", dim_of(in[i], 1), dim_of(in[0], 1), false);
		}
	expect_dim(b, "the table of positions", dim_of(in[3], 1), dim_of(in[2], 1), false);
	if (in[4] && rank_of(in[4]) != 2)
		return fail(b, "the table of segments has %d dimensions, must have 2", rank_of(in[4]));
	if (in[4])
		expect_dim(b, "the table of segments", dim_of(in[4], 1), dim_of(in[2], 1), false);
	for (i = 0; i < 2; i++)
		ax[i] = x_axis(m, dim_of(in[0], i));
	ax[2] = x_axis(m, dim_of(in[2], 1));
	e = x_add(m, embedding(m, in[2], in[0], NULL, ax), embedding(m, in[3], in[8], ax[1], ax));
	if (in[1] && in[4])
		e = x_add(m, e, embedding(m, in[4], in[1], NULL, ax));
	out[2] = t_tensor(m, 3, ax, e);
	out[0] = call_result(b, "layer_normalization", 3, (Node *[]){out[2], in[5], in[6]},
		with_float(b, NULL, "epsilon", attr_float(b, "epsilon")), 0);
	if (!out[0])
		return NULL;
	at[0] = x_axis(m, dim_of(in[0], 0));
	at[1] = k = x_axis(m, dim_of(in[0], 1));
	e = in[7] ? x_cast(m, DT_I32, x_eq(m, x_read(m, in[7], at), x_int(m, dtype_of(in[7]), 1)))
		: x_int(m, DT_I32, 0);
	out[1] = t_tensor(m, 1, at, in[7] ? x_reduce(m, COMB_SUM, 1, &k, e) : e);
	return t_tuple(m, 3, out);
}

/* ---- quantized products ---------------------------------------------------------------------- */

/* A B * a_scale * b_scale + bias, of bytes less their zero points. */
static Node *
scaled_product(Build *b, Node *a, Node *az, Node *as, Node *w, Node *wz, Node *ws, Node *bias)
{
	DType d = dtype_of(as), c = acc_type(d);
	Node *t = call(b, "matmul_integer", 4, (Node *[]){a, w, az, wz}, NULL);
	Node *s = call2(b, "mul", as_type(b->m, as, c), as_type(b->m, ws, c));

	if (!t || !s)
		return NULL;
	t = call2(b, "mul", as_type(b->m, t, c), s);
	t = bias ? call2(b, "add", t, as_type(b->m, bias, c)) : t;
	return t ? as_type(b->m, t, d) : NULL;
}

static Node *
build_matmul_integer_to_float(Build *b)
{
	Node **in = b->in;

	return scaled_product(b, in[0], in[4], in[2], in[1], in[5], in[3], in[6]);
}

/* The operand quantized by its own range: bytes, scale, zero point. */
static bool
quantized(Build *b, Node *x, Node **q)
{
	Node *r = graph_op(b->m, op_find("dynamic_quantize_linear"), 1, &x, NULL, 3, 0, NULL, b->loc);

	for (int i = 0; r && i < 3; i++)
		q[i] = t_result(b->m, r, i);
	return r != NULL;
}

static Node *
build_dynamic_matmul(Build *b)
{
	Node **in = b->in, *q[3];

	return quantized(b, in[0], q) ? scaled_product(b, q[0], q[2], q[1], in[1], in[3], in[2], in[4])
		: NULL;
}

static Node *
build_qlinear_concat(Build *b)
{
	int n = (b->nin - 2) / 3, i;
	Node **part = NEWN(b->m, Node *, n + 1), *y;

	if (n < 1 || b->nin != 2 + 3 * n)
		return fail(b, "%d inputs, must be 2 and a multiple of 3", b->nin);
	for (i = 0; i < n; i++) {
		part[i] = call(b, "dequantize_linear", 3, b->in + 2 + 3 * i, NULL);
		if (!part[i])
			return NULL;
	}
	y = call_result(b, "concat", n, part, with_int(b, NULL, "axis", attr_int(b, "axis")), 0);
	return y ? call(b, "quantize_linear", 3, (Node *[]){y, b->in[0], b->in[1]}, NULL) : NULL;
}

/* ---- DynamicQuantizeLSTM --------------------------------------------------------------------- */

typedef struct Quant { Node *w, *ws, *wz, *r, *rs, *rz; } Quant;

/* A scale or zero point [dirs] or [dirs, gates * H] for gate element n. */
static Node *
gate_param(Module *m, Node *t, Node *d, Node *n)
{
	Node *idx[3] = {d, n, x_idx(m, 0)};

	return x_read(m, t, idx);
}

/* An operand in bytes, and its scale and zero point, or those of each direction. */
typedef struct Operand { Node *q, *scale, *zero; } Operand;

/* Of t, [2] or a scalar. */
static Node *
of_direction(Module *m, Node *t, Node *d)
{
	return x_read(m, t, rank_of(t) ? &d : NULL);
}

/* The sums of w's columns, [(2,) N]: of direction dir, or both. */
static Node *
column_sums(Rnn *r, int dir, Node *w)
{
	Module *m = r->b->m;
	Node *ax[2], *d = rnn_direction(r, dir, ax), *k = x_axis(m, dim_of(w, 1)), *n;

	n = ax[r->both] = x_axis(m, dim_of(w, 2));
	return t_tensor(m, 1 + r->both, ax, x_reduce(m, COMB_SUM, 1, &k,
		x_cast(m, DT_I32, x_read(m, w, (Node *[]){d, k, n}))));
}

/* The sums over the last dimension. */
static Node *
row_sums(Module *m, Node *q)
{
	Node *ax[MAX_RANK];
	int last = rank_of(q) - 1;

	axes_new(m, last + 1, q->type->dims, ax);
	return t_tensor(m, last, ax, x_reduce(m, COMB_SUM, 1, ax + last,
		x_cast(m, DT_I32, x_read(m, q, ax))));
}

/*
 * sum over k of (q[.., k] - z)(w[d, k, n] - wz), times the scales, for directions and gate
 * elements: [(d,) .., n]; both directions share an operand that has no axis for them. The sum is
 * distributed, as for other products of bytes.
 */
static Node *
gate_product(Rnn *r, int dir, const Operand *p, bool shared, Node *w, Node *ws, Node *wz)
{
	Module *m = r->b->m;
	int skip = r->both && shared, lead = rank_of(p->q) - 1, n = lead + skip, i;
	Node *ax[4], *at[4], *d = rnn_direction(r, dir, ax), *k = x_axis(m, dim_of(w, 1)), *e, *t,
		*sums, *za,
		*zb, *depth = x_cast(m, DT_I32, dim_of(w, 1));

	for (i = skip ? 0 : r->both; i < lead; i++)
		ax[i + skip] = x_axis(m, dim_of(p->q, i));
	ax[n] = x_axis(m, dim_of(w, 2));
	memcpy(at, ax + skip, (size_t)lead * sizeof *at);
	at[lead] = k;
	t = t_tensor(m, n + 1, ax, sum_of_products(m, DT_I32, 1, &k, x_read(m, p->q, at),
		x_read(m, w, (Node *[]){d, k, ax[n]})));
	axes_new(m, n + 1, t->type->dims, ax);
	d = r->both ? ax[0] : d;
	za = x_cast(m, DT_I32, of_direction(m, p->zero, d));
	zb = x_cast(m, DT_I32, gate_param(m, wz, d, ax[n]));
	sums = column_sums(r, dir, w);
	e = x_sub(m, x_read(m, t, ax), x_mul(m, za, x_read(m, sums, (Node *[]){r->both ? d : ax[n],
		ax[n]})));
	if (!is_zero(zb))
		e = x_sub(m, e, x_mul(m, zb, x_sub(m, x_read(m, row_sums(m, p->q), ax + skip),
			x_mul(m, depth, za))));
	e = x_mul(m, x_cast(m, DT_F32, e),
		x_mul(m, of_direction(m, p->scale, d), gate_param(m, ws, d, ax[n])));
	return t_tensor(m, n + 1, ax, e);
}

/* The steps of x that any sequence has, zeros for the others: these are out of the range. */
static Node *
steps_taken(Rnn *r)
{
	Module *m = r->b->m;
	Node *ax[3], *b = x_axis(m, r->B), *most;

	if (!r->lens)
		return r->x;
	axes_new(m, 3, r->x->type->dims, ax);
	most = t_tensor(m, 0, NULL, x_reduce(m, COMB_MAX, 1, &b, x_cast(m, DT_I64, rnn_length(r, b))));
	most = x_cast(m, DT_INDEX, x_read(m, most, NULL));
	return t_tensor(m, 3, ax, x_select(m, x_lt(m, ax[0], most), x_read(m, r->x, ax),
		x_int(m, r->d, 0)));
}

static Node *
quant_input(Rnn *r, int dir)
{
	Module *m = r->b->m;
	Quant *p = r->own;
	Node *q[3], *t, *ax[4], *bias;
	int rank;

	if (!quantized(r->b, steps_taken(r), q))
		return NULL;
	t = gate_product(r, dir, &(Operand){q[0], q[1], q[2]}, true, p->w, p->ws, p->wz);
	rank = rank_of(t);
	axes_new(m, rank, t->type->dims, ax);
	bias = rnn_bias(r, r->both ? ax[0] : x_idx(m, dir), ax[rank - 1]);
	return bias ? t_tensor(m, rank, ax, x_add(m, x_read(m, t, ax), bias)) : t;
}

/* The least or greatest element of h, of each direction, and 0. */
static Node *
state_range(Rnn *r, Node *h, Node *const *d, Comb comb)
{
	Module *m = r->b->m;
	Node *idx[3] = {r->both ? *d : NULL}, **ax = idx + r->both, *e;

	axes_new(m, 2, h->type->dims + r->both, ax);
	e = x_reduce(m, comb, 2, ax, x_read(m, h, idx));
	return comb == COMB_MIN ? x_min(m, e, x_int(m, DT_F32, 0)) : x_max(m, e, x_int(m, DT_F32, 0));
}

/* DynamicQuantizeLinear of each direction's states. */
static Operand
quantized_state(Rnn *r, Node *h)
{
	Module *m = r->b->m;
	Node *ax[3], *zero = x_int(m, DT_F32, 0), *top = x_int(m, DT_F32, 255), *d, *low, *e;
	int n = r->both, rank = rank_of(h);
	Operand p;

	d = rnn_direction(r, 0, ax);
	low = t_tensor(m, n, &d, state_range(r, h, &d, COMB_MIN));
	d = rnn_direction(r, 0, ax);
	e = x_sub(m, state_range(r, h, &d, COMB_MAX), of_direction(m, low, d));
	p.scale = t_tensor(m, n, &d, x2(m, O_DIV, e, top));
	d = rnn_direction(r, 0, ax);
	e = x_sub(m, zero, x2(m, O_DIV, of_direction(m, low, d), of_direction(m, p.scale, d)));
	e = x1(m, O_RINT, x_min(m, x_max(m, e, zero), top));
	p.zero = t_tensor(m, n, &d, x_cast(m, DT_U8, e));
	axes_new(m, rank, h->type->dims, ax);
	e = x1(m, O_RINT, x2(m, O_DIV, x_read(m, h, ax), of_direction(m, p.scale, ax[0])));
	e = x_add(m, e, x_cast(m, DT_F32, of_direction(m, p.zero, ax[0])));
	p.q = t_tensor(m, rank, ax, x_cast(m, DT_U8, e));
	return p;
}

/* The batch's states share a range; that of a sequence that has ended is, as in Y, 0 there. */
static Node *
quant_state(Step *s)
{
	Rnn *r = s->r;
	Quant *p = r->own;
	Module *m = r->b->m;
	Node *h = s->h, *e;
	Operand q;
	Cell at;

	if (r->lens) {
		at = rnn_cell(r, s->dir, r->H);
		e = x_le(m, rnn_round(s), rnn_length(r, at.b));
		h = t_tensor(m, at.n, at.ax, x_select(m, e, x_read(m, h, at.ax), x_int(m, r->d, 0)));
	}
	q = quantized_state(r, h);
	return gate_product(r, s->dir, &q, false, p->r, p->rs, p->rz);
}

static Node *
build_dynamic_lstm(Build *b)
{
	static const char *const acts[] = {"Sigmoid", "Tanh", "Tanh"};
	Node **in = b->in;
	Quant q = {in[1], in[8], in[9], in[2], in[10], in[11]};
	Rnn r = {.x = in[0], .w = in[1], .r = in[2], .bias = in[3], .lens = in[4], .h0 = in[5],
		.c0 = in[6], .p = in[7],
		.input = quant_input, .state = quant_state, .cell = lstm_cell, .own = &q};
	Module *m = b->m;
	int i;

	if (rank_of(in[1]) != 3 || rank_of(in[2]) != 3)
		return fail(b, "W and R must have 3 dimensions");
	r.H = dim_of(in[2], 1);
	if (!rnn_args(b, &r, 4, 3, acts))
		return NULL;
	require(m, x_and(m, x_eq(m, dim_of(in[1], 2), x_muli(m, r.H, 4)),
		x_eq(m, dim_of(in[2], 2), x_muli(m, r.H, 4))), b->loc,
		"W and R have %s and %s columns for %s units", expr_print(m, dim_of(in[1], 2)),
		expr_print(m, dim_of(in[2], 2)),
		expr_print(m, r.H));
	for (i = 0; i < 6; i++) {
		Node *t = in[i < 2 ? 1 + i : 6 + i];
		if (rank_of(t) < 1 || rank_of(t) > 3)
			return fail(b, "a weight, scale or zero point has %d dimensions", rank_of(t));
		expect_dim(b, "a weight, scale or zero point", dim_of(t, 0), x_idx(m, r.dirs), false);
		if (i >= 2 && rank_of(t) > 1)
			expect_dim(b, "a scale or zero point", dim_of(t, 1), x_muli(m, r.H, 4), false);
	}
	require(m, x_eq(m, dim_of(in[1], 1), r.I), b->loc, "W has %s rows for %s inputs",
		expr_print(m, dim_of(in[1], 1)),
		expr_print(m, r.I));
	return rnn_build(&r, true);
}

/* ---- distances ------------------------------------------------------------------------------- */

static Node *
build_cdist(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *y = b->in[1], *ax[2], *k, *e;
	const char *metric = attr_str(b, "metric");
	bool root = strcmp(metric, "euclidean") == 0;

	if (!root && strcmp(metric, "sqeuclidean"))
		return unsupported(b, "metric \"%s\"", metric);
	if (rank_of(x) != 2 || rank_of(y) != 2)
		return fail(b, "operands must have 2 dimensions");
	require(m, x_eq(m, dim_of(x, 1), dim_of(y, 1)), b->loc, "vectors have %s and %s elements",
		expr_print(m, dim_of(x, 1)),
		expr_print(m, dim_of(y, 1)));
	ax[0] = x_axis(m, dim_of(x, 0));
	ax[1] = x_axis(m, dim_of(y, 0));
	k = x_axis(m, dim_of(x, 1));
	e = x_sub(m, x_read(m, x, (Node *[]){ax[0], k}), x_read(m, y, (Node *[]){ax[1], k}));
	e = x_reduce(m, COMB_SUM, 1, &k, x_mul(m, e, e));
	return t_tensor(m, 2, ax, root ? x1(m, O_SQRT, e) : e);
}

#define Q2(expr) "x = dequantize_linear(a, a_scale, a_zero); y = dequantize_linear(b, b_scale," \
	" b_zero);" \
	"quantize_linear(" expr ", c_scale, c_zero, output_dtype=type(a))"
#define Q2_IN "(a: i8|u8, a_scale: f32, a_zero: a?, b: a, b_scale: f32, b_zero: a?, c_scale: f32," \
	" c_zero: a?) {} -> c"
#define Q1_IN "(x: i8|u8, x_scale: f32, x_zero: x?, y_scale: f32, y_zero: x?)"
#define Q1(expr) "v = dequantize_linear(x, x_scale, x_zero); quantize_linear(" expr ", y_scale," \
	" y_zero, output_dtype=type(x))"
#define ERF "0.5 * v * (1 + erf(v * 0.7071067811865476))"

const Op ops_contrib[] = {
	ELEM("ms_gelu", MS("Gelu"), 1, "(v: float) {} -> y", ERF, "gelu"),
	ELEM("bias_gelu", MS("BiasGelu"), 1, "(a: float, b: a) {} -> y", "v = a + b; " ERF,
	"gelu of a sum"),
	ELEM("fast_gelu", MS("FastGelu"), 1, "(x: float, bias: x?) {} -> y",
		"v = has(bias) ? x + bias : x; 0.5 * v * (1 + tanh(v * (0.035677408136300125 * v * v +"
		" 0.7978845608028654)))",
		"gelu by tanh"),
	ELEM("quick_gelu", MS("QuickGelu"), 1, "(x: float) {alpha: float = 1.702} -> y",
	"x / (1 + exp(-(alpha * x)))",
		"x sigmoid(alpha x)"),
	ELEM("bias_add", MS("BiasAdd"), 1, "(x: float, bias: x, skip: x) {} -> y", "x + bias + skip",
	"a sum of three"),
	BUILD("simplified_layer_normalization", "SimplifiedLayerNormalization", 1,
	"(x: float, scale: float)"
		" {axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1} -> y, inv_std?",
		build_simplified_layer_norm,
		"divided by the root of the mean square"),
	BUILD("skip_layer_normalization", MS("SkipLayerNormalization"), 1,
	"(x: float, skip: x, gamma: x, beta: x?, bias: x?)"
		" {epsilon: float = 1e-12} -> y, mean?, inv_std?, sum?", build_skip_layer_norm,
		"layer norm of a sum"),
	BUILD("skip_simplified_layer_normalization", MS("SkipSimplifiedLayerNormalization"), 1,
		"(x: float, skip: x, gamma: x, bias: x?) {epsilon: float = 1e-12} -> y, mean?, inv_std?,"
		" sum?",
		build_skip_simplified, "simplified layer norm of a sum"),
	BUILD("embed_layer_normalization", MS("EmbedLayerNormalization"), 1,
	"(ids: idx, segments: idx?, words: float,"
		" positions: words, segment_table: words?, gamma: words, beta: words, mask: idx?,"
		" position_ids: idx?) {epsilon: float = 1e-12, mask_index_type: int = 0} -> y, mask_index?,"
		" sum?",
		build_embed_layer_norm,
		"layer norm of summed embeddings"),
	BUILD("matmul_integer_to_float", MS("MatMulIntegerToFloat"), 1,
	"(a: i8|u8, b: i8|u8, a_scale: float, b_scale: a_scale,"
		" a_zero: a?, b_zero: b?, bias: a_scale?) {} -> y", build_matmul_integer_to_float,
		"scaled product of bytes"),
	BUILD("dynamic_quantize_matmul", MS("DynamicQuantizeMatMul"), 1,
	"(a: f32, b: i8|u8, b_scale: f32, b_zero: b?,"
		" bias: f32?) {} -> y", build_dynamic_matmul, "product of an operand quantized on the fly"),
	STRUCT("dynamic_quantize_lstm", MS("DynamicQuantizeLSTM"), 1,
	"(x: f32, w: i8|u8, r: i8|u8, bias: f32?,"
		" sequence_lens: i32?, initial_h: f32?, initial_c: f32?, p: f32?, w_scale: f32, w_zero: w,"
		" r_scale: f32, r_zero: r) {activation_alpha: floats?, activation_beta: floats?,"
		" activations: strs?, clip: float?,"
		" direction: str = \"forward\", hidden_size: int?, input_forget: int = 0} -> y?, y_h?,"
		" y_c?", build_dynamic_lstm,
		"LSTM with products of bytes"),
	BUILD("cdist", MS("CDist"), 1, "(a: f32|f64, b: a) {metric: str = \"sqeuclidean\"} -> c",
	build_cdist,
		"distances between rows"),
	/* quantized */
	COMP("qlinear_add", MS("QLinearAdd"), 1, Q2_IN, Q2("x + y"), "sum"),
	COMP("qlinear_mul", MS("QLinearMul"), 1, Q2_IN, Q2("x * y"), "product"),
	COMP("qlinear_sigmoid", MS("QLinearSigmoid"), 1, Q1_IN " {} -> y", Q1("sigmoid(v)"),
	"logistic function"),
	COMP("qlinear_leaky_relu", MS("QLinearLeakyRelu"), 1, Q1_IN " {alpha: float = 0.01} -> y",
		Q1("leaky_relu(v, alpha=alpha)"), "leaky relu"),
	COMP("qlinear_softmax", MS("QLinearSoftmax"), 1, Q1_IN " {axis: int = -1, opset: int} -> y",
		Q1("opset < 13 ? reshape(softmax(flatten(v, axis=axis(axis, v)), axis=1),"
			" shape(v)) : softmax(v, axis=axis)"),
		"softmax"),
	COMP("qlinear_global_average_pool", MS("QLinearGlobalAveragePool"), 1,
	Q1_IN " {channels_last: int = 0} -> y",
		Q1("channels_last ? transpose(global_average_pool(transpose(v, perm=[0, 3, 1, 2])),"
			" perm=[0, 2, 3, 1])"
		" : global_average_pool(v)"), "mean over the spatial dimensions"),
	COMP("qlinear_average_pool", MS("QLinearAveragePool"), 1,
	Q1_IN " {auto_pad: str = \"NOTSET\", ceil_mode: int = 0,"
		" channels_last: int = 0, count_include_pad: int = 0, kernel_shape: ints, pads: ints?,"
		" strides: ints?} -> y",
		"d = dequantize_linear(x, x_scale, x_zero); v = channels_last ? transpose(d, perm=[0, 3, 1,"
		" 2]) : d;"
		"p = average_pool(v, auto_pad=auto_pad, ceil_mode=ceil_mode,"
		" count_include_pad=count_include_pad,"
		" kernel_shape=kernel_shape, pads=pads, strides=strides);"
		"q = channels_last ? transpose(p, perm=[0, 2, 3, 1]) : p;"
		"quantize_linear(q, y_scale, y_zero, output_dtype=type(x))", "mean over windows"),
	COMP("qlinear_reduce_mean", MS("QLinearReduceMean"), 1,
	Q1_IN " {axes: ints, keepdims: int} -> y",
		Q1("reduce_mean(v, axes, keepdims=keepdims)"), "mean over axes"),
	COMP("qlinear_where", MS("QLinearWhere"), 1,
	"(c: bool, x: i8|u8, x_scale: f32, x_zero: x, y: x, y_scale: f32,"
		" y_zero: x, z_scale: f32, z_zero: x) {} -> z", "a = dequantize_linear(x, x_scale, x_zero);"
		"b = dequantize_linear(y, y_scale, y_zero); quantize_linear(where(c, a, b), z_scale,"
		" z_zero)", "c ? x : y"),
	BUILD("qlinear_concat", MS("QLinearConcat"), 1,
	"(y_scale: f32, y_zero: i8|u8, rest: any*) {axis: int} -> y",
		build_qlinear_concat, "side by side along an axis"),
	COMP("qgemm", MS("QGemm"), 1,
	"(a: i8|u8, a_scale: f32, a_zero: a, b: i8|u8, b_scale: f32, b_zero: b, c: i32?,"
		" y_scale: f32?, y_zero: i8|u8?) {alpha: float = 1, transA: int = 0, transB: int = 0} -> y",
		"p = transA ? transpose(a, perm=[1, 0]) : a; q = transB ? transpose(b, perm=[1, 0]) : b;"
		"t = matmul_integer(p, q, a_zero, b_zero); s = has(c) ? t + c : t;"
		"f = cast(s, f32) * (alpha * a_scale * b_scale);"
		"has(y_scale) ? quantize_linear(f, y_scale, y_zero) : f", "quantized Gemm"),
	COMP("ms_quantize_linear", MS("QuantizeLinear"), 1,
	"(x: float, scale: x, zero: int?) {axis: int = 1} -> y",
		"quantize_linear(x, scale, zero, axis=axis)", "x / scale rounded, plus the zero point"),
	COMP("ms_dequantize_linear", MS("DequantizeLinear"), 1,
	"(x: int, scale: float, zero: x?) {axis: int = 1} -> y",
		"dequantize_linear(x, scale, zero, axis=axis)", "(x - zero point) scale"),
	/* other names of what is there */
	COMP("ms_pad", MS("Pad"), 1, "(x: any, pads: i64, value: x?) {mode: str = \"constant\"} -> y",
		"pad(x, pads, value, mode=mode)", "elements added at the ends of axes"),
	COMP("ms_trilu", MS("Trilu"), 1, "(x: any, k: i64?) {upper: int = 1} -> y",
	"trilu(x, k, upper=upper)",
		"a triangle, zeros elsewhere"),
	COMP("ms_gather_nd", MS("GatherND"), 1, "(x: any, indices: idx) {} -> y",
	"gather_nd(x, cast(indices, i64))",
		"slices by index vectors"),
	COMP("nhwc_max_pool", MS("NhwcMaxPool"), 1,
	"(x: i8|u8) {auto_pad: str = \"NOTSET\", ceil_mode: int = 0,"
		" dilations: ints?, kernel_shape: ints, pads: ints?, strides: ints?} -> y",
		"transpose(max_pool(transpose(x, perm=[0, 3, 1, 2]), auto_pad=auto_pad,"
		" ceil_mode=ceil_mode, dilations=dilations, kernel_shape=kernel_shape, pads=pads,"
		" strides=strides), perm=[0, 2, 3, 1])",
		"maximum over windows"),
	COMP("ms_group_norm", MS("GroupNorm"), 1,
	"(x: float, gamma: float, beta: gamma) {activation: int,"
		" channels_last: int = 1, epsilon: float = 1e-5, groups: int} -> y",
		"t = channels_last ? transpose(x, perm=[0, 3, 1, 2]) : x;"
		"n = group_normalization(t, cast(gamma, type(x)), cast(beta, type(x)), epsilon=epsilon,"
		" num_groups=groups);"
		"s = activation ? swish(n) : n; channels_last ? transpose(s, perm=[0, 2, 3, 1]) : s",
		"normalised by groups of channels"),
	{0}
};
