/* com.microsoft: attention of projected operands, and with the projection. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "attention.h"

/* ---- projections ----------------------------------------------------------------------------- */

Node *
biased_columns(Build *b, Node *x, Node *bias, int64_t heads, Node *first, Node *bias_from,
	Node *size)
{
	Module *m = b->m;
	Node *y = split_heads(b, x, heads, first, size), *ax[4], *col;

	if (!bias)
		return y;
	axes_new(m, 4, y->type->dims, ax);
	col = x_add(m, x_add(m, x_mul(m, ax[1], size), ax[3]), bias_from);
	return t_tensor(m, 4, ax, x_add(m, x_read(m, y, ax), x_read(m, bias, &col)));
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* 0, or the filter value where the mask hides key j. Ranks:
 * 1 lengths (and starts, or what follows from them), 2 keys, 3 pairs. */
static Node *
hidden(Att *a, Node *n, Node *i, Node *j)
{
	Module *m = a->b->m;
	Mask *k = a->arg;
	Node *t = k->mask, *zero = x_int(m, DT_F32, 0), *f = x_flt(m, DT_F32, k->filter),
		*B = dim_of(a->q, 0), *v, *at;

	if (rank_of(t) == 1) {
		v = x_lt(m, j, x_cast(m, DT_INDEX, x_read(m, t, &n)));
		if (!is_intv(x_eq(m, dim_of(t, 0), B), 1)) {    /* ends, then perhaps starts */
			at = x_add(m, n, B);
			at = x_select(m, x_eq(m, dim_of(t, 0), x_muli(m, B, 2)),
				x_cast(m, DT_INDEX, x_read(m, t, &at)), x_idx(m, 0));
			v = x_and(m, v, x_le(m, at, j));
		}
		return x_select(m, v, zero, f);
	}
	v = rank_of(t) == 2 ? x_read(m, t, (Node *[]){n, j}) : x_read(m, t, (Node *[]){n, i, j});
	return x_select(m, x_lt(m, x_int(m, v->type->dtype, 0), v), zero, f);
}

static Node *
mask_of(Att *a, Node *n, Node *h, Node *i, Node *j)
{
	Module *m = a->b->m;
	Mask *k = a->arg;
	DType d = dtype_of(a->q);
	Node *e = k->mask ? hidden(a, n, i, j) : NULL, *at[4] = {n, h, i, j}, *after;
	int c;

	if (k->causal) {
		after = x_lt(m, x_add(m, i, k->past), j);
		e = x_select(m, after, x_flt(m, DT_F32, -FLT_MAX), e ? e : x_int(m, DT_F32, 0));
	}
	if (e)
		e = x_cast(m, d, e);
	for (c = 0; k->bias && c < 2; c++)
		at[c] = is_intv(dim_of(k->bias, c), 1) ? x_idx(m, 0) : at[c];
	if (k->bias)
		return e ? x_add(m, x_read(m, k->bias, at), e) : x_read(m, k->bias, at);
	return e ? e : x_int(m, d, 0);
}

bool
mask_args(Build *b, Mask *k, Node *mask, Node *bias)
{
	*k = (Mask){.mask = mask, .bias = bias, .past = x_idx(b->m, 0),
		.causal = attr_int(b, "unidirectional") != 0,
		.filter = attr_float(b, "mask_filter_value")};
	if (mask && (rank_of(mask) < 1 || rank_of(mask) > 3))
		return unsupported(b, "a mask of %d dimensions", rank_of(mask)) != NULL;
	if (bias && rank_of(bias) != 4)
		return fail(b, "the attention bias has %d dimensions, must have 4", rank_of(bias)) != NULL;
	return true;
}

void
use_mask(Att *a, Mask *k)
{
	Build *b = a->b;
	Module *m = b->m;
	Node *B = dim_of(a->q, 0), *H = dim_of(a->q, 1), *S = dim_of(a->q, 2), *T = dim_of(a->k, 2), *n;
	int r = k->mask ? rank_of(k->mask) : 0;

	if (r == 1) {
		n = dim_of(k->mask, 0);
		require(m, x_or(m, x_or(m, x_eq(m, n, B), x_eq(m, n, x_muli(m, B, 2))),
			x_eq(m, n, x_addi(m, x_muli(m, B, 3), 2))), b->loc,
			"the mask has %s lengths for %s sequences",
			expr_print(m, n), expr_print(m, B));
	}
	if (r == 2)
		expect_shape(b, "the mask", k->mask, 2, (Node *[]){B, T});
	if (r == 3)
		expect_shape(b, "the mask", k->mask, 3, (Node *[]){B, S, T});
	if (k->bias) {
		expect_dim(b, "the attention bias", dim_of(k->bias, 0), B, true);
		expect_dim(b, "the attention bias", dim_of(k->bias, 1), H, true);
		expect_dim(b, "the attention bias", dim_of(k->bias, 2), S, false);
		expect_dim(b, "the attention bias", dim_of(k->bias, 3), T, false);
	}
	a->arg = k;
	if (k->mask || k->bias || k->causal)
		a->bias = mask_of;
}

int64_t
head_count(Build *b, const char *name)
{
	int64_t n = attr_int(b, name);

	if (n >= 1 && n <= 1 << 20)
		return n;
	fail(b, "%s is %lld", name, (long long)n);
	return 0;
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* Keys and values stacked: [2, B, N, T, H]; part 0 or 1. */
static Node *
stacked_part(Module *m, Node *past, int part)
{
	Node *ax[4], *idx[5];

	for (int i = 0; i < 4; i++)
		idx[i + 1] = ax[i] = x_axis(m, dim_of(past, i + 1));
	idx[0] = x_idx(m, part);
	return t_tensor(m, 4, ax, x_read(m, past, idx));
}

static Node *
stacked(Module *m, Node *k, Node *v)
{
	Node *ax[5];

	ax[0] = x_axis(m, x_idx(m, 2));
	for (int i = 0; i < 4; i++)
		ax[i + 1] = x_axis(m, dim_of(k, i));
	return t_tensor(m, 5, ax,
		x_select(m, x_eq(m, ax[0], x_idx(m, 0)), x_read(m, k, ax + 1), x_read(m, v, ax + 1)));
}

/* From the projection [B, S, D + D + DV]. */
static Node *
projected_attention(Build *b, Node *qkv, Node *mask, Node *past, Node *bias)
{
	Module *m = b->m;
	int64_t heads = head_count(b, "num_heads");
	const int64_t *sizes;
	Node *d[3], *size[3], *out[2];
	Mask k;
	Att a = {.b = b, .softmax = dtype_of(qkv), .scale = attr_float(b, "scale")};
	int n, i;

	if (!heads || !mask_args(b, &k, mask, bias))
		return NULL;
	if (attr_int(b, "do_rotary") || attr_int(b, "past_present_share_buffer"))
		return unsupported(b, "do_rotary and past_present_share_buffer");
	attr_ints(b, "qkv_hidden_sizes", &n, &sizes);
	if (n != 0 && n != 3)
		return fail(b, "qkv_hidden_sizes has %d entries, must have 3", n);
	for (i = 0; i < n; i++)
		if (sizes[i] < heads || sizes[i] > 1 << 24)
			return fail(b, "qkv_hidden_sizes has the entry %lld", (long long)sizes[i]);
	for (i = 0; i < 3; i++) {
		d[i] = n ? x_idx(m, sizes[i]) : x_fdiv(m, dim_of(qkv, 2), x_idx(m, 3));
		size[i] = x_fdiv(m, d[i], x_idx(m, heads));
		require(m, x_eq(m, x_muli(m, size[i], heads), d[i]), b->loc, "%s columns for %lld heads",
			expr_print(m, d[i]),
			(long long)heads);
	}
	require(m, x_eq(m, x_add(m, x_add(m, d[0], d[1]), d[2]), dim_of(qkv, 2)), b->loc,
		"the projection has %s columns",
		expr_print(m, dim_of(qkv, 2)));
	a.q = split_heads(b, qkv, heads, x_idx(m, 0), size[0]);
	a.k = split_heads(b, qkv, heads, d[0], size[1]);
	a.v = split_heads(b, qkv, heads, x_add(m, d[0], d[1]), size[2]);
	if (past) {
		if (rank_of(past) != 5)
			return fail(b, "past has %d dimensions, must have 5", rank_of(past));
		expect_dim(b, "past", dim_of(past, 0), x_idx(m, 2), false);
		k.past = dim_of(past, 3);
		a.k = append(m, stacked_part(m, past, 0), a.k, b->loc);
		a.v = append(m, stacked_part(m, past, 1), a.v, b->loc);
	}
	use_mask(&a, &k);
	if (!attention(&a))
		return NULL;
	out[0] = join_heads(m, &a, true);
	out[1] = stacked(m, a.k, a.v);
	return t_tuple(m, 2, out);
}

static Node *
build_ms_attention(Build *b)
{
	Node *x = call(b, "matmul", 2, b->in, NULL);

	if (x && b->in[2])
		x = call(b, "add", 2, (Node *[]){x, b->in[2]}, NULL);
	if (!x)
		return NULL;
	if (rank_of(x) != 3)
		return fail(b, "the projection has %d dimensions, must have 3", rank_of(x));
	return projected_attention(b, x, b->in[3], b->in[4], b->in[5]);
}

static Node *
build_qattention(Build *b)
{
	Node **in = b->in, *x;

	x = call(b, "matmul_integer_to_float", 7,
		(Node *[]){in[0], in[1], in[3], in[4], in[6], in[7], in[2]}, NULL);
	if (!x)
		return NULL;
	if (rank_of(x) != 3)
		return fail(b, "the projection has %d dimensions, must have 3", rank_of(x));
	return projected_attention(b, x, in[5], in[8], NULL);
}

/* ---- MultiHeadAttention ---------------------------------------------------------------------- */

Node *
packed_part(Module *m, Node *x, int part)
{
	Node *ax[MAX_RANK], *at[MAX_RANK], *size;
	int r = rank_of(x) - 2;

	size = dim_of(x, r + 1);
	for (int i = 0; i + 1 < r; i++)
		ax[i] = at[i] = x_axis(m, dim_of(x, i));
	ax[r - 1] = x_axis(m, x_mul(m, dim_of(x, r - 1), size));
	at[r - 1] = x_fdiv(m, ax[r - 1], size);
	at[r] = x_idx(m, part);
	at[r + 1] = x_mod(m, ax[r - 1], size);
	return t_tensor(m, r, ax, x_read(m, x, at));
}

/* Query, key and value, taken out of those that hold two or three of them. */
static bool
unpacked(Build *b, Node **x)
{
	Module *m = b->m;
	int i, packed = rank_of(x[0]) == 5 ? 0 : x[1] && rank_of(x[1]) == 5 ? 1 : -1;
	Node *all = packed < 0 ? NULL : x[packed];

	if (!all)
		return (x[1] && x[2]) || fail(b, "key and value must be given with a query of %d"
			" dimensions",
			rank_of(x[0]));
	for (i = packed + 1; i < 3; i++)
		if (x[i])
			return fail(b, "operand %d is given beside one that holds it", i) != NULL;
	expect_dim(b, "the heads", dim_of(all, 2), x_idx(m, attr_int(b, "num_heads")), false);
	expect_dim(b, "the packed operands", dim_of(all, 3), x_idx(m, 3 - packed), false);
	for (i = packed; i < 3; i++)
		x[i] = packed_part(m, all, i - packed);
	return true;
}

static bool
multi_head_operands(Build *b, Att *a, int64_t heads)
{
	Module *m = b->m;
	Node *x[3] = {b->in[0], b->in[1], b->in[2]}, *bias = b->in[3], *dq, *dv, *size, *zero;

	if (!unpacked(b, x))
		return false;
	if (rank_of(x[0]) != 3 || rank_of(x[1]) != rank_of(x[2])
	 || (rank_of(x[1]) != 3 && rank_of(x[1]) != 4) || (bias && rank_of(bias) != 1))
		return fail(b, "query, key, value or bias have unfit dimensions") != NULL;
	zero = x_idx(m, 0);
	dq = dim_of(x[0], 2);
	size = x_fdiv(m, dq, x_idx(m, heads));
	require(m, x_eq(m, x_muli(m, size, heads), dq), b->loc, "%s columns for %lld heads",
		expr_print(m, dq), (long long)heads);
	a->q = biased_columns(b, x[0], bias, heads, zero, zero, size);
	if (rank_of(x[1]) == 4) {
		a->k = x[1];
		a->v = x[2];
		dv = dq;
	} else {
		dv = dim_of(x[2], 2);
		size = x_fdiv(m, dv, x_idx(m, heads));
		expect_dim(b, "the key", dim_of(x[1], 2), dq, false);
		expect_dim(b, "the value", dv, x_muli(m, size, heads), false);
		a->k = biased_columns(b, x[1], bias, heads, zero, dq, dim_of(a->q, 3));
		a->v = biased_columns(b, x[2], bias, heads, zero, x_muli(m, dq, 2), size);
	}
	if (bias)
		expect_dim(b, "the bias", dim_of(bias, 0), x_add(m, x_muli(m, dq, 2), dv), false);
	return true;
}

static Node *
build_multi_head(Build *b)
{
	Module *m = b->m;
	Node **in = b->in, *out[4];
	int64_t heads = head_count(b, "num_heads");
	Mask k;
	Att a = {.b = b, .softmax = dtype_of(in[0]), .scale = attr_float(b, "scale")};

	if (!heads || !mask_args(b, &k, in[4], in[5]))
		return NULL;
	if (in[8] || in[9])
		return unsupported(b, "caches shared by beams");
	if (!in[6] != !in[7])
		return fail(b, "past_key and past_value must be given together");
	if (!multi_head_operands(b, &a, heads))
		return NULL;
	if (in[6]) {
		k.past = dim_of(in[6], 2);
		a.k = append(m, in[6], a.k, b->loc);
		a.v = append(m, in[7], a.v, b->loc);
	}
	use_mask(&a, &k);
	if (!attention(&a))
		return NULL;
	out[0] = join_heads(m, &a, true);
	out[1] = a.k;
	out[2] = a.v;
	out[3] = ungroup(m, a.biased);
	return t_tuple(m, 4, out);
}

const Op ops_contrib_attention[] = {
	BUILD("ms_attention", MS("Attention"), 1,
		"(x: float, w: x, bias: x?, mask_index: i32?, past: x?, attention_bias: x?,"
		" past_length: i32?) {do_rotary: int = 0, mask_filter_value: float = -10000,"
		" num_heads: int, past_present_share_buffer: int = 0, qkv_hidden_sizes: ints?,"
		" rotary_embedding_dim: int = 0, scale: float = 0, unidirectional: int = 0} -> y, present?",
		build_ms_attention,
		"attention with its projection"),
	BUILD("qattention", MS("QAttention"), 1,
	"(x: i8|u8, w: i8|u8, bias: float, x_scale: bias, w_scale: bias,"
		" mask_index: i32?, x_zero: x?, w_zero: w?, past: bias?) {do_rotary: int = 0,"
		" mask_filter_value: float = -10000, num_heads: int, past_present_share_buffer: int = 0,"
		" scale: float = 0, unidirectional: int = 0} -> y, present?",
		build_qattention, "attention with a quantized projection"),
	BUILD("multi_head_attention", MS("MultiHeadAttention"), 1,
	"(q: float, k: q?, v: q?, bias: q?, padding_mask: i32?,"
		" attention_bias: q?, past_key: q?, past_value: q?, past_length: i32?,"
		" cache_indirection: i32?) {mask_filter_value: float = -10000, num_heads: int,"
		" scale: float = 0, unidirectional: int = 0} -> y, present_key?, present_value?, qk?",
		build_multi_head,
		"attention of projected operands"),
	{0}
};
