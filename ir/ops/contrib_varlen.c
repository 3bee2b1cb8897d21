/*
 * com.microsoft: recurrences over packed rows. Sequence n has the rows [ends[n], ends[n + 1]).
 */
#include <math.h>
#include <string.h>
#include "ops.h"

static Node *
value_of(Module *m, Node *list, Node *i)
{
	return x_cast(m, DT_INDEX, x_read(m, list, &i));
}

/* Packed rows: their number, and of each sequence its first row and its length. */
typedef struct Rows { Node *tokens, *batch, *ends, *each; } Rows;   /* each: rows, without ends */

static Node *
first_row(Module *m, const Rows *r, Node *n)
{
	return r->ends ? value_of(m, r->ends, n) : x_mul(m, n, r->each);
}

static Node *
length_of(Module *m, const Rows *r, Node *n)
{
	if (!r->ends)
		return r->each;
	return x_max(m, x_sub(m, value_of(m, r->ends, x_addi(m, n, 1)), value_of(m, r->ends, n)),
		x_idx(m, 0));
}

/* Row i of sequence n. */
static Node *
row_at(Module *m, const Rows *r, Node *n, Node *i)
{
	return x2(m, O_BOUND, x_add(m, first_row(m, r, n), i), r->tokens);
}

/* The sequence of row t. */
static Node *
sequence_of(Module *m, const Rows *r, Node *t)
{
	Node *n = x_axis(m, r->batch), *e;

	if (!r->ends)
		return x_fdiv(m, t, x_max(m, r->each, x_idx(m, 1)));
	e = x_le(m, value_of(m, r->ends, x_addi(m, n, 1)), t);
	e = x_reduce(m, COMB_SUM, 1, &n, x_cast(m, DT_I32, e));
	return x2(m, O_BOUND, x_cast(m, DT_INDEX, e), r->batch);
}

/* ---- VarlenCausalConvWithState --------------------------------------------------------------- */

/* Channel c of sequence n at place i, which below 0 is of the state [batch, channels, length]. */
static Node *
stream_at(Module *m, const Rows *r, Node *x, Node *state, Node *n, Node *i, Node *c)
{
	Node *back = x_add(m, dim_of(state, 2), i);

	return x_select(m, x_lt(m, i, x_idx(m, 0)), x_read(m, state, (Node *[]){n, c, back}),
		x_read(m, x, (Node *[]){row_at(m, r, n, i), c}));
}

static bool
varlen_conv_args(Build *b, Rows *r, int64_t *dilation)
{
	Module *m = b->m;
	Node **in = b->in, *C, *taps;
	int64_t most = attr_int(b, "state_update_capacity");

	*dilation = attr_int(b, "dilation");
	if (rank_of(in[0]) != 2 || rank_of(in[1]) != 3 || rank_of(in[2]) != 1 || rank_of(in[4]) != 3
	 || (in[3] && rank_of(in[3]) != 1) || (in[5] && rank_of(in[5]) != 1))
		return fail(b, "the operands have unfit dimensions") != NULL;
	if (*dilation < 1 || *dilation > 1 << 20 || most < 0 || most > 8 || !most != !in[5])
		return fail(b, "dilation is %lld; capture_count goes with a state_update_capacity of"
			" 1 to 8",
			(long long)*dilation) != NULL;
	C = dim_of(in[0], 1);
	*r = (Rows){.tokens = dim_of(in[0], 0), .batch = dim_of(in[4], 0), .ends = in[2]};
	taps = dim_of(in[1], 2);
	require(m, x_lt(m, x_idx(m, 0), taps), b->loc, "the kernel is empty");
	expect_shape(b, "the weights", in[1], 3, (Node *[]){C, x_idx(m, 1), taps});
	expect_dim(b, "cumulative_sequence_length", dim_of(in[2], 0), x_addi(m, r->batch, 1), false);
	expect_dim(b, "initial_state", dim_of(in[4], 1), C, false);
	expect_dim(b, "initial_state", dim_of(in[4], 2),
		x_muli(m, x_addi(m, taps, -1), *dilation), false);
	if (in[3])
		expect_dim(b, "the bias", dim_of(in[3], 0), C, false);
	if (in[5])
		expect_dim(b, "capture_count", dim_of(in[5], 0), r->batch, false);
	return true;
}

static Node *
captured_rows(Build *b, const Rows *r)
{
	Module *m = b->m;
	Node *x = b->in[0], *ax[3], *most = x_idx(m, attr_int(b, "state_update_capacity")), *n;

	axes_new(m, 3, (Node *[]){r->batch, most, dim_of(x, 1)}, ax);
	n = x_min(m, value_of(m, b->in[5], ax[0]), length_of(m, r, ax[0]));
	return t_tensor(m, 3, ax, x_select(m, x_lt(m, ax[1], n),
		x_read(m, x, (Node *[]){row_at(m, r, ax[0], ax[1]), ax[2]}), x_int(m, dtype_of(x), 0)));
}

static Node *
build_varlen_conv(Build *b)
{
	Module *m = b->m;
	Node **in = b->in, *x = in[0], *state = in[4], *ax[3], *tap, *n, *i, *e, *out[3] = {NULL};
	const char *act = attr_str(b, "activation");
	bool silu = strcmp(act, "silu") == 0 || strcmp(act, "swish") == 0;
	DType d = dtype_of(x), c = acc_type(d);
	int64_t dilation;
	Rows r = {0};

	if (!silu && strcmp(act, "none"))
		return fail(b, "activation is \"%s\", must be none, silu or swish", act);
	if (!varlen_conv_args(b, &r, &dilation))
		return NULL;
	axes_new(m, 2, x->type->dims, ax);
	tap = x_axis(m, dim_of(in[1], 2));
	n = sequence_of(m, &r, ax[0]);
	i = x_sub(m, x_addi(m, dim_of(in[1], 2), -1), tap);
	i = x_sub(m, x_sub(m, ax[0], first_row(m, &r, n)), x_muli(m, i, dilation));
	e = sum_of_products(m, c, 1, &tap, stream_at(m, &r, x, state, n, i, ax[1]),
		x_read(m, in[1], (Node *[]){ax[1], x_idx(m, 0), tap}));
	if (in[3])
		e = x_add(m, e, x_cast(m, c, x_read(m, in[3], &ax[1])));
	out[0] = t_tensor(m, 2, ax, e);
	axes_new(m, 2, x->type->dims, ax);
	e = x_read(m, out[0], ax);
	if (silu)
		e = x2(m, O_DIV, e, x_add(m, x_int(m, c, 1), x1(m, O_EXP, x1(m, O_NEG, e))));
	out[0] = t_tensor(m, 2, ax, x_cast(m, d, e));
	axes_new(m, 3, state->type->dims, ax);
	i = x_add(m, x_sub(m, length_of(m, &r, ax[0]), dim_of(state, 2)), ax[2]);
	out[1] = t_tensor(m, 3, ax, stream_at(m, &r, x, state, ax[0], i, ax[1]));
	if (in[5])
		out[2] = captured_rows(b, &r);
	return t_tuple(m, 3, out);
}

/* ---- GatedDeltaNet --------------------------------------------------------------------------- */

/* Heads of queries and keys, HV of values and the state; keys of dk elements, values of dv. */
typedef struct Delta {
	Rows rows;
	Node *x[3];            /* rows [tokens, columns] of query, key and value */
	Node *first[3];        /* their first columns */
	Node *H, *HV, *dk, *dv, *L;
} Delta;

/* An operand's leading axes, one or two, as one. */
static Node *
as_rows(Module *m, Node *x, int last)
{
	Node *dims[MAX_RANK];
	int lead = rank_of(x) - last, i;

	dims[0] = dim_of(x, 0);
	for (i = 1; i < lead; i++)
		dims[0] = x_mul(m, dims[0], dim_of(x, i));
	for (i = 0; i < last; i++)
		dims[1 + i] = dim_of(x, lead + i);
	return reshape(m, x, 1 + last, dims);
}

static bool
delta_operands(Build *b, Delta *d)
{
	Module *m = b->m;
	Node **in = b->in, *state = in[6], *x[3], *zero = x_idx(m, 0);
	int i;

	if (!in[1] != !in[2] || (!in[1] && !state) || (state && rank_of(state) != 4))
		return fail(b, "key and value go together; without them initial_state must be given, of 4"
			" dimensions") != NULL;
	for (i = 0; i < 3; i++)
		if (in[i] && (rank_of(in[i]) != rank_of(in[0]) || rank_of(in[i]) > (in[1] ? 4 : 3)
		 || rank_of(in[i]) < (in[1] ? 3 : 2)))
			return fail(b, "operand %d has %d dimensions", i, rank_of(in[i])) != NULL;
	if (!in[1]) {                                /* query, key and value side by side */
		x[0] = x[1] = x[2] = as_rows(m, in[0], 1);
		d->HV = dim_of(state, 1), d->dv = dim_of(state, 2), d->dk = dim_of(state, 3);
		d->H = x_fdiv(m, x_sub(m, dim_of(x[0], 1), x_mul(m, d->HV, d->dv)), x_muli(m, d->dk, 2));
		d->first[0] = zero;
		d->first[1] = x_mul(m, d->H, d->dk);
		d->first[2] = x_muli(m, d->first[1], 2);
		expect_dim(b, "the packed operands", dim_of(x[0], 1),
			x_add(m, d->first[2], x_mul(m, d->HV, d->dv)), false);
	} else
		for (i = 0; i < 3; i++) {
			Node *t = as_rows(m, in[i], 2), *dims[2] = {dim_of(t, 0),
				x_mul(m, dim_of(t, 1), dim_of(t, 2))};
			x[i] = reshape(m, t, 2, dims);
			d->first[i] = zero;
			*(i < 2 ? &d->H : &d->HV) = dim_of(t, 1);
			*(i < 2 ? &d->dk : &d->dv) = dim_of(t, 2);
		}
	for (i = 0; i < 3; i++) {
		d->x[i] = x[i];
		expect_dim(b, "an operand", dim_of(x[i], 0), dim_of(x[0], 0), false);
	}
	if (in[1])
		expect_dim(b, "the key", dim_of(x[1], 1), dim_of(x[0], 1), false);
	require(m, x_eq(m, x_mod(m, d->HV, d->H), zero), b->loc, "%s heads of values for %s of keys",
		expr_print(m, d->HV), expr_print(m, d->H));
	return true;
}

static bool
delta_rows(Build *b, Delta *d)
{
	Module *m = b->m;
	Node **in = b->in, *n, *e;
	bool grid = rank_of(in[0]) == (in[1] ? 4 : 3);
	Rows *r = &d->rows;

	r->tokens = dim_of(d->x[0], 0);
	if (in[3]) {
		if (grid || rank_of(in[3]) != 1)
			return fail(b, "cu_seqlens needs one axis of tokens") != NULL;
		r->ends = in[3];
		r->batch = x_addi(m, dim_of(in[3], 0), -1);
		n = x_axis(m, r->batch);
		e = x_reduce(m, COMB_MAX, 1, &n, x_cast(m, DT_I64, length_of(m, r, n)));
		d->L = extent(m, computed_index(m, x_max(m, e, x_int(m, DT_I64, 0))));
	} else {
		if (!grid && !in[6])
			return fail(b, "initial_state or cu_seqlens must say how many sequences there are")
				!= NULL;
		r->batch = grid ? dim_of(in[0], 0) : dim_of(in[6], 0);
		r->each = d->L = x_fdiv(m, r->tokens, x_max(m, r->batch, x_idx(m, 1)));
		require(m, x_eq(m, x_mul(m, r->each, r->batch), r->tokens), b->loc,
			"%s tokens are not %s sequences", expr_print(m, r->tokens), expr_print(m, r->batch));
	}
	if (in[6])
		expect_shape(b, "initial_state", in[6], 4, (Node *[]){r->batch, d->HV, d->dv, d->dk});
	return true;
}

/*
 * Query, key or value i as f32[batch, L, HV * size], zeros behind a sequence's end: those leave
 * the state as it is. Heads of queries and keys stand for each of their heads of values.
 */
static Node *
delta_part(Module *m, const Delta *d, int i)
{
	Node *size = i < 2 ? d->dk : d->dv, *ax[3], *h, *e, *shared = x_fdiv(m, d->HV, d->H);

	axes_new(m, 3, (Node *[]){d->rows.batch, d->L, x_mul(m, d->HV, size)}, ax);
	h = x_fdiv(m, ax[2], size);
	if (i < 2)
		h = x_fdiv(m, h, shared);
	e = x_add(m, x_add(m, x_mul(m, h, size), x_mod(m, ax[2], size)), d->first[i]);
	e = x_read(m, d->x[i], (Node *[]){row_at(m, &d->rows, ax[0], ax[1]), e});
	return t_tensor(m, 3, ax, x_select(m, x_lt(m, ax[1], length_of(m, &d->rows, ax[0])),
		x_cast(m, DT_F32, e), x_int(m, DT_F32, 0)));
}

/* Each head's vector of x [batch, L, HV * dk] over its length; zeros stay. */
static Node *
unit_heads(Module *m, const Delta *d, Node *x)
{
	Node *ax[3], *at[3], *k = x_axis(m, d->dk), *e, *length, *zero = x_int(m, DT_F32, 0);

	axes_new(m, 3, (Node *[]){d->rows.batch, d->L, d->HV}, ax);
	memcpy(at, ax, sizeof at);
	at[2] = x_add(m, x_mul(m, ax[2], d->dk), k);
	e = x_read(m, x, at);
	length = t_tensor(m, 3, ax, x1(m, O_SQRT, x_reduce(m, COMB_SUM, 1, &k, x_mul(m, e, e))));
	axes_new(m, 3, x->type->dims, ax);
	memcpy(at, ax, sizeof at);
	at[2] = x_fdiv(m, ax[2], d->dk);
	length = x_read(m, length, at);
	e = x_read(m, x, ax);
	return t_tensor(m, 3, ax, x_select(m, x_eq(m, length, zero), zero, x2(m, O_DIV, e, length)));
}

/* Rows [tokens, columns] of f32 as [batch, L, columns], zeros behind a sequence's end. */
static Node *
delta_gate(Module *m, const Delta *d, Node *x)
{
	Node *ax[3];

	axes_new(m, 3, (Node *[]){d->rows.batch, d->L, dim_of(x, 1)}, ax);
	return t_tensor(m, 3, ax, x_select(m, x_lt(m, ax[1], length_of(m, &d->rows, ax[0])),
		x_read(m, x, (Node *[]){row_at(m, &d->rows, ax[0], ax[1]), ax[2]}), x_int(m, DT_F32, 0)));
}

/* decay as rows [tokens, heads or heads * dk], with its activation. */
static Node *
delta_decay(Build *b, const Delta *d)
{
	Module *m = b->m;
	Node **in = b->in, *g = in[4], *dims[2], *ax[2], *e;
	const char *act = attr_str(b, "gate_activation");
	bool qwen = strcmp(act, "qwen") == 0;
	int lead = rank_of(in[0]) == (in[1] ? 4 : 3) ? 2 : 1, last = rank_of(g) - lead;

	if (!qwen && strcmp(act, "none"))
		return fail(b, "gate_activation \"%s\" is not known", act);
	if (last < 1 || last > 2 || (qwen && (last != 1 || !in[7] || !in[8])))
		return fail(b, "decay has %d dimensions, or its activation lacks a_log and dt_bias",
			rank_of(g));
	g = as_rows(m, g, last);
	expect_dim(b, "decay", dim_of(g, 0), d->rows.tokens, false);
	expect_dim(b, "decay", dim_of(g, 1), d->HV, false);
	if (last == 2) {
		expect_dim(b, "decay", dim_of(g, 2), d->dk, false);
		dims[0] = dim_of(g, 0);
		dims[1] = x_mul(m, d->HV, d->dk);
		return reshape(m, g, 2, dims);
	}
	if (!qwen)
		return g;
	if (rank_of(in[7]) != 1 || rank_of(in[8]) != 1)
		return fail(b, "a_log and dt_bias must have 1 dimension");
	for (int i = 7; i < 9; i++)
		expect_shape(b, "a_log or dt_bias", in[i], 1, &d->HV);
	axes_new(m, 2, g->type->dims, ax);
	e = x_add(m, x_read(m, g, ax), x_read(m, in[8], &ax[1]));
	e = x_add(m, x_max(m, e, x_int(m, DT_F32, 0)),
		x1(m, O_LOG1P, x1(m, O_EXP, x1(m, O_NEG, x1(m, O_ABS, e)))));
	e = x_mul(m, x1(m, O_EXP, x_read(m, in[7], &ax[1])), e);
	return t_tensor(m, 2, ax, x1(m, O_NEG, e));
}

static Node *
delta_beta(Build *b, const Delta *d)
{
	Module *m = b->m;
	const char *act = attr_str(b, "beta_activation");
	Node *x = b->in[5];

	if (rank_of(x) != (rank_of(b->in[0]) == (b->in[1] ? 4 : 3) ? 3 : 2))
		return fail(b, "beta has %d dimensions", rank_of(x));
	x = as_rows(m, x, 1);
	if (strcmp(act, "none") && strcmp(act, "sigmoid"))
		return fail(b, "beta_activation \"%s\" is not known", act);
	expect_shape(b, "beta", x, 2, (Node *[]){d->rows.tokens, d->HV});
	return *act == 's' ? call(b, "sigmoid", 1, &x, NULL) : x;
}

/* [a, b, x, y] as [a, b, y, x], or NULL. */
static Node *
turned(Module *m, Node *t)
{
	Node *ax[4];

	if (!t)
		return NULL;
	axes_new(m, 4, (Node *[]){dim_of(t, 0), dim_of(t, 1), dim_of(t, 3), dim_of(t, 2)}, ax);
	return t_tensor(m, 4, ax, x_read(m, t, (Node *[]){ax[0], ax[1], ax[3], ax[2]}));
}

/* y f32[batch, L, HV * dv] as the tokens' rows, in the query's shape but for its heads. */
static Node *
delta_rows_of(Build *b, const Delta *d, Node *y)
{
	Module *m = b->m;
	Node *ax[3], *n, *dims[4], *x = b->in[0];
	int r = rank_of(x) == (b->in[1] ? 4 : 3) ? 4 : 3;

	axes_new(m, 2, (Node *[]){d->rows.tokens, dim_of(y, 2)}, ax);
	n = sequence_of(m, &d->rows, ax[0]);
	n = x_read(m, y, (Node *[]){n, x2(m, O_BOUND, x_sub(m, ax[0], first_row(m, &d->rows, n)), d->L),
		ax[1]});
	y = t_tensor(m, 2, ax, x_cast(m, dtype_of(x), n));
	memcpy(dims, x->type->dims, sizeof *dims * (size_t)(r - 2));
	dims[r - 2] = d->HV;
	dims[r - 1] = d->dv;
	return reshape(m, y, r, dims);
}

static Node *
build_gated_delta_net(Build *b)
{
	Module *m = b->m;
	const char *rule = attr_str(b, "update_rule");
	Node **in = b->in, *args[6] = {NULL}, *r, *out[3] = {NULL};
	const Attr *attrs = with_float(b, NULL, "scale", attr_float(b, "scale"));
	int64_t heads;
	Delta d = {0};
	int i;

	if (attr_int(b, "state_update_capacity") || in[9])
		return unsupported(b, "a state_update_capacity of %lld",
			(long long)attr_int(b, "state_update_capacity"));
	if (!delta_operands(b, &d) || !delta_rows(b, &d))
		return NULL;
	if (d.HV->lo != d.HV->hi)
		return unsupported(b, "a number of heads that only a run knows");
	heads = d.HV->lo;
	for (i = 0; i < 3; i++)
		args[i] = delta_part(m, &d, i);
	for (i = 0; i < 2 && attr_int(b, "qk_l2_norm"); i++)
		args[i] = unit_heads(m, &d, args[i]);
	args[3] = turned(m, in[6]);
	if (in[4] && strstr(rule, "gated")) {
		if (!(r = delta_decay(b, &d)))
			return NULL;
		args[4] = delta_gate(m, &d, r);
	}
	if (in[5] && strstr(rule, "delta")) {
		if (!(r = delta_beta(b, &d)))
			return NULL;
		args[5] = delta_gate(m, &d, r);
	}
	attrs = with_int(b, with_int(b, attrs, "q_num_heads", heads), "kv_num_heads", heads);
	attrs = attrs_add(m, attrs, (Attr){.name = "update_rule", .kind = A_STR, .s = rule});
	r = graph_op(m, op_find("linear_attention"), 6, args, attrs, 2, 0, NULL, b->loc);
	if (!r)
		return NULL;
	out[0] = delta_rows_of(b, &d, t_result(m, r, 0));
	out[1] = turned(m, t_result(m, r, 1));
	return t_tuple(m, 3, out);
}

const Op ops_contrib_varlen[] = {
	BUILD("varlen_causal_conv_with_state", MS("VarlenCausalConvWithState"), 1,
		"(x: float, w: x, ends: i32, bias: x?, state: x, capture_count: i32?)"
		" {activation: str = \"none\", dilation: int = 1, state_update_capacity: int = 0}"
		" -> y, final_state, state_update?", build_varlen_conv,
		"causal depthwise convolution of packed rows"),
	STRUCT("gated_delta_net", MS("GatedDeltaNet"), 1,
		"(q: float, k: q?, v: q?, ends: i32?, decay: f32?, beta: f32?, state: f32?, a_log: f32?,"
		" dt_bias: f32?, capture_count: i32?, capture_active: i32?)"
		" {beta_activation: str = \"none\", chunk_size: int = 64, gate_activation: str = \"none\","
		" qk_l2_norm: int = 0, scale: float = 0, state_update_capacity: int = 0,"
		" update_rule: str = \"gated_delta\"} -> y, final_state?, state_update?",
		build_gated_delta_net, "attention by a recurrent state, of packed rows"),
	{0}
};
