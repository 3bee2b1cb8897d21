/*
 * Attention. Scores are computed by groups of query heads that share a key head, [batch, key head,
 * group, query, key], so that indices stay affine.
 */
#include <math.h>
#include <string.h>
#include "attention.h"

/* ---- views ----------------------------------------------------------------------------------- */

Node *
split_heads(Build *b, Node *x, int64_t heads, Node *first, Node *size)
{
	Module *m = b->m;
	Node *axes[4], *idx[3];

	axes[0] = idx[0] = x_axis(m, dim_of(x, 0));
	axes[1] = x_axis(m, x_idx(m, heads));
	axes[2] = idx[1] = x_axis(m, dim_of(x, 1));
	axes[3] = x_axis(m, size);
	idx[2] = x_add(m, x_add(m, x_mul(m, axes[1], size), axes[3]), first);
	return t_tensor(m, 4, axes, x_read(m, x, idx));
}

Node *
ungroup(Module *m, Node *t)
{
	Node *dims[4] = {dim_of(t, 0), x_mul(m, dim_of(t, 1), dim_of(t, 2)), dim_of(t, 3),
		dim_of(t, 4)};

	return reshape(m, t, 4, dims);
}

Node *
join_heads(Module *m, const Att *a, bool packed)
{
	Node *y = a->y, *axes[5], *idx[5], *dims[3];
	static const int order[5] = {0, 3, 1, 2, 4};
	int i;

	if (!packed)
		return ungroup(m, y);
	for (i = 0; i < 5; i++)
		idx[order[i]] = axes[i] = x_axis(m, dim_of(y, order[i]));
	dims[0] = dim_of(y, 0);
	dims[1] = dim_of(y, 3);
	dims[2] = x_mul(m, x_mul(m, dim_of(y, 1), dim_of(y, 2)), dim_of(y, 4));
	return reshape(m, t_tensor(m, 5, axes, x_read(m, y, idx)), 3, dims);
}

Node *
append(Module *m, Node *a, Node *b, const Loc *loc)
{
	Node *axes[4], *idx[4], *p = dim_of(a, 2), *e;
	int i;

	for (i = 0; i < 4; i++) {
		if (i != 2)
			require(m, x_eq(m, dim_of(a, i), dim_of(b, i)), loc,
				"the past has %s elements at axis %d, the new %s",
				expr_print(m, dim_of(a, i)), i, expr_print(m, dim_of(b, i)));
		axes[i] = idx[i] = x_axis(m, i == 2 ? x_add(m, p, dim_of(b, 2)) : dim_of(b, i));
	}
	idx[2] = x_sub(m, axes[2], p);
	e = x_select(m, x_lt(m, axes[2], p), x_read(m, a, axes), x_read(m, b, idx));
	return t_tensor(m, 4, axes, e);
}

/* ---- the core -------------------------------------------------------------------------------- */

static Node *
score_scale(const Att *a, DType d)
{
	Module *m = a->b->m;
	DType c = acc_type(d);
	Node *e;

	if (a->scale != 0)
		return x_flt(m, c, a->scale);
	e = x1(m, O_SQRT, x_cast(m, c, dim_of(a->q, 3)));
	return x2(m, O_DIV, x_int(m, c, 1), e);
}

/* x times the root of the scale, rounded to its type. */
static Node *
prescaled(const Att *a, Node *x)
{
	Module *m = a->b->m;
	DType d = dtype_of(x);
	Node *axes[4], *s = x_cast(m, d, x1(m, O_SQRT, score_scale(a, d)));

	axes_new(m, 4, x->type->dims, axes);
	return t_tensor(m, 4, axes, x_mul(m, x_read(m, x, axes), s));
}

static void
score_axes(Att *a, Node *last, Node **axes)
{
	Module *m = a->b->m;
	Node *kh = dim_of(a->k, 1);

	axes[0] = x_axis(m, dim_of(a->q, 0));
	axes[1] = x_axis(m, kh);
	axes[2] = x_axis(m, x_fdiv(m, dim_of(a->q, 1), kh));
	axes[3] = x_axis(m, dim_of(a->q, 2));
	axes[4] = x_axis(m, last);
}

static Node *
head(Module *m, Node *const *axes)
{
	return x_add(m, x_mul(m, axes[1], axes[2]->in[0]), axes[2]);
}

/* Half types are scaled before the product, as the operator's function does, others after it. */
static void
raw_scores(Att *a)
{
	Module *m = a->b->m;
	DType d = dtype_of(a->q), acc = acc_type(d);
	bool half = dt_small(d);
	Node *q = half ? prescaled(a, a->q) : a->q, *k = half ? prescaled(a, a->k) : a->k, *axes[5], *e,
		*s;

	score_axes(a, dim_of(a->k, 2), axes);
	e = x_axis(m, dim_of(a->k, 3));
	s = sum_of_products(m, acc, 1, &e, x_read(m, q, (Node *[]){axes[0], head(m, axes), axes[3], e}),
		x_read(m, k, (Node *[]){axes[0], axes[1], axes[4], e}));
	if (half)
		s = x_cast(m, d, s);
	a->raw = t_tensor(m, 5, axes, s);
	if (half)
		return;
	axes_new(m, 5, a->raw->type->dims, axes);
	a->raw = t_tensor(m, 5, axes, x_mul(m, x_read(m, a->raw, axes), score_scale(a, d)));
}

static void
cap_and_bias(Att *a)
{
	Module *m = a->b->m;
	DType d = dtype_of(a->q);
	Node *axes[5], *e, *bias, *cap = x_flt(m, d, a->softcap);

	a->capped = a->raw;
	axes_new(m, 5, a->raw->type->dims, axes);
	if (a->softcap > 0) {
		e = x2(m, O_DIV, x_read(m, a->raw, axes), cap);
		a->capped = t_tensor(m, 5, axes, x_mul(m, x1(m, O_TANH, e), cap));
	}
	a->biased = a->capped;
	if (!a->bias)
		return;
	axes_new(m, 5, a->raw->type->dims, axes);
	bias = a->bias(a, axes[0], head(m, axes), axes[3], axes[4]);
	a->biased = t_tensor(m, 5, axes, x_add(m, x_read(m, a->capped, axes), x_cast(m, d, bias)));
}

/* [B, KH, G, L]: has the row a key whose bias is not minus infinity? */
static Node *
rows_alive(Att *a)
{
	Module *m = a->b->m;
	Node *axes[5], *e, *j;

	axes_new(m, 5, a->raw->type->dims, axes);
	j = axes[4];
	e = a->bias(a, axes[0], head(m, axes), axes[3], j);
	e = x_ne(m, e, x_flt(m, e->type->dtype, -INFINITY));
	return t_tensor(m, 4, axes, x_reduce(m, COMB_OR, 1, &j, e));
}

/* exp(x - max) / sum in the softmax's type, each step rounded to it. */
static bool
softmax_rows(Att *a)
{
	Module *m = a->b->m;
	DType d = dtype_of(a->q), c = a->softmax, acc = acc_type(c);
	Node *axes[5], *j, *x = a->biased, *top, *e, *sum,
		*alive = a->guards && a->bias ? rows_alive(a) : NULL;

	if (c != d) {
		axes_new(m, 5, x->type->dims, axes);
		x = t_tensor(m, 5, axes, x_cast(m, c, x_read(m, x, axes)));
	}
	if (a->mod && !(x = a->mod(a, x, 0)))
		return false;
	axes_new(m, 5, x->type->dims, axes);
	j = axes[4];
	e = x_reduce(m, COMB_MAX, 1, &j, x_read(m, x, axes));
	if (a->sink)
		e = x_max(m, e, x_cast(m, c, a->sink(a, head(m, axes))));
	top = t_tensor(m, 4, axes, e);
	axes_new(m, 5, x->type->dims, axes);
	e = t_tensor(m, 5, axes, x1(m, O_EXP, x_sub(m, x_read(m, x, axes), x_read(m, top, axes))));
	axes_new(m, 5, x->type->dims, axes);
	j = axes[4];
	sum = x_reduce(m, COMB_SUM, 1, &j, x_cast(m, acc, x_read(m, e, axes)));
	if (a->sink)
		sum = x_add(m, sum, x1(m, O_EXP, x_sub(m, x_cast(m, acc, a->sink(a, head(m, axes))),
			x_cast(m, acc, x_read(m, top, axes)))));
	sum = t_tensor(m, 4, axes, x_cast(m, c, sum));
	axes_new(m, 5, x->type->dims, axes);
	e = x2(m, O_DIV, x_read(m, e, axes), x_read(m, sum, axes));
	if (alive)
		e = x_select(m, x_read(m, alive, axes), e, x_int(m, c, 0));
	a->probs = t_tensor(m, 5, axes, a->mod ? e : x_cast(m, d, e));
	return !a->mod || (a->probs = a->mod(a, a->probs, 1));
}

bool
attention(Att *a)
{
	Module *m = a->b->m;
	DType d = dtype_of(a->v), acc;
	Node *axes[5], *j, *e, *h = dim_of(a->q, 1), *kh = dim_of(a->k, 1);

	require(m, x_eq(m, x_mod(m, h, kh), x_idx(m, 0)), a->b->loc, "%s query heads for %s key heads",
		expr_print(m, h),
		expr_print(m, kh));
	require(m, x_and(m, x_eq(m, dim_of(a->k, 1), dim_of(a->v, 1)),
		x_eq(m, dim_of(a->k, 2), dim_of(a->v, 2))),
		a->b->loc, "keys and values differ in number");
	require(m, x_and(m, x_eq(m, dim_of(a->q, 0), dim_of(a->k, 0)),
		x_eq(m, dim_of(a->k, 0), dim_of(a->v, 0))),
		a->b->loc, "queries, keys and values differ in their batch");
	require(m, x_eq(m, dim_of(a->q, 3), dim_of(a->k, 3)), a->b->loc,
		"queries have %s elements, keys %s",
		expr_print(m, dim_of(a->q, 3)), expr_print(m, dim_of(a->k, 3)));
	raw_scores(a);
	cap_and_bias(a);
	if (!softmax_rows(a))
		return false;
	acc = acc_type(dtype_of(a->probs) == DT_F64 ? DT_F64 : d);
	score_axes(a, dim_of(a->v, 3), axes);
	j = x_axis(m, dim_of(a->v, 2));
	e = sum_of_products(m, acc, 1, &j,
		x_read(m, a->probs, (Node *[]){axes[0], axes[1], axes[2], axes[3], j}),
		x_read(m, a->v, (Node *[]){axes[0], axes[1], j, axes[4]}));
	a->y = t_tensor(m, 5, axes, x_cast(m, dtype_of(a->q), e));
	return true;
}

/* ---- ai.onnx Attention ----------------------------------------------------------------------- */

typedef struct Masks { Node *mask, *offset, *lens; bool causal; int64_t left, right; } Masks;

/* The mask's own contribution; keys past its end are masked. */
static Node *
mask_bias(Att *a, Node *const *at, DType d)
{
	Module *m = a->b->m;
	Masks *k = a->arg;
	Node *t = k->mask, *idx[4], *e, *none = x_flt(m, d, -INFINITY), *last;
	int r = rank_of(t), i;

	for (i = 0; i + 1 < r; i++) {
		expect_dim(a->b, "the mask", dim_of(t, i), dim_of(a->q, i + 4 - r), true);
		idx[i] = x_stretched(m, dim_of(t, i), at[4 - r + i]);
	}
	idx[r - 1] = at[3];
	last = dim_of(t, r - 1);
	e = x_read(m, t, idx);
	e = dtype_of(t) == DT_BOOL ? x_select(m, e, x_int(m, d, 0), none) : x_cast(m, d, e);
	return prove_le(m, dim_of(a->k, 2), last) ? e : x_select(m, x_lt(m, at[3], last), e, none);
}

static Node *
masks_bias(Att *a, Node *n, Node *h, Node *i, Node *j)
{
	Module *m = a->b->m;
	Masks *k = a->arg;
	DType d = dtype_of(a->q);
	Node *at[4] = {n, h, i, j}, *e = k->mask ? mask_bias(a, at, d) : NULL, *ok = x_bool(m, true),
		*len, *p, *hide;

	len = k->lens ? x_cast(m, DT_INDEX, x_read(m, k->lens, &n)) : NULL;
	p = x_add(m, i, len ? x_sub(m, len, dim_of(a->q, 2)) : k->offset);
	if (k->causal)
		ok = x_and(m, ok, x_le(m, j, p));
	if (k->left >= 0)
		ok = x_and(m, ok, x_le(m, x_addi(m, p, -k->left), j));
	if (k->right >= 0)
		ok = x_and(m, ok, x_le(m, j, x_addi(m, p, k->right)));
	if (len)
		ok = x_and(m, ok, x_lt(m, j, len));
	hide = x_flt(m, d, -INFINITY);
	if (is_intv(ok, 1))
		return e ? e : x_int(m, d, 0);
	/* -inf is added to the mask: a mask of NaN or +inf stays what that gives */
	return e ? x_add(m, e, x_select(m, ok, x_int(m, d, 0), hide))
		: x_select(m, ok, x_int(m, d, 0), hide);
}

static bool
softmax_type(Build *b, DType *d)
{
	const Attr *a = attr_find(b->attrs, "softmax_precision");

	if (!a)
		return true;
	*d = dtype_of_onnx((int)a->i);
	return dt_float(*d) || fail(b, "softmax_precision %lld is no float type",
		(long long)a->i) != NULL;
}

/* Operand i as four dimensions. */
static Node *
four_dims(Build *b, int i, const char *heads)
{
	Node *x = b->in[i], *size;
	int64_t n = attr_int(b, heads);

	if (rank_of(x) == 4)
		return x;
	if (rank_of(x) != 3)
		return fail(b, "input %d has %d dimensions, must have 3 or 4", i, rank_of(x));
	if (n < 1 || n > 1 << 24)
		return fail(b, "%s must be given for operands of 3 dimensions", heads);
	size = x_fdiv(b->m, dim_of(x, 2), x_idx(b->m, n));
	require(b->m, x_eq(b->m, x_muli(b->m, size, n), dim_of(x, 2)), b->loc,
		"%s columns for %lld heads",
		expr_print(b->m, dim_of(x, 2)), (long long)n);
	return split_heads(b, x, n, x_idx(b->m, 0), size);
}

static bool
window_sizes(Build *b, Masks *k)
{
	k->left = attr_int(b, "left_window_size");
	k->right = attr_int(b, "right_window_size");
	if (k->left >= -1 && k->right >= -1 && k->left < 1 << 30 && k->right < 1 << 30)
		return true;
	return fail(b, "window sizes %lld, %lld must be -1 or nonnegative", (long long)k->left,
		(long long)k->right) != NULL;
}

static Node *
build_attention(Build *b)
{
	Module *m = b->m;
	Node **in = b->in, *out[4];
	DType d = dtype_of(in[0]);
	Masks k = {.mask = in[3], .lens = in[6], .offset = x_idx(m, 0),
		.causal = attr_int(b, "is_causal") != 0};
	Att a = {.b = b, .scale = attr_find(b->attrs, "scale") ? attr_float(b, "scale") : 0,
		.softcap = attr_float(b, "softcap"), .softmax = d, .arg = &k};
	int64_t mode = attr_int(b, "qk_matmul_output_mode");

	if (!in[4] != !in[5])
		return fail(b, "past_key and past_value must be given together");
	if (in[4] && in[6])
		return fail(b, "nonpad_kv_seqlen cannot be given with past_key");
	if (mode < 0 || mode > 3)
		return fail(b, "qk_matmul_output_mode is %lld", (long long)mode);
	if (in[3] && (rank_of(in[3]) < 1 || rank_of(in[3]) > 4))
		return fail(b, "the mask has %d dimensions", rank_of(in[3]));
	if (!softmax_type(b, &a.softmax) || !window_sizes(b, &k))
		return NULL;
	a.q = four_dims(b, 0, "q_num_heads");
	a.k = four_dims(b, 1, "kv_num_heads");
	a.v = four_dims(b, 2, "kv_num_heads");
	if (!a.q || !a.k || !a.v)
		return NULL;
	if (in[4]) {
		if (rank_of(in[4]) != 4 || rank_of(in[5]) != 4)
			return fail(b, "past_key and past_value must have 4 dimensions");
		k.offset = dim_of(in[4], 2);
		a.k = append(m, in[4], a.k, b->loc);
		a.v = append(m, in[5], a.v, b->loc);
	}
	if (in[6] && rank_of(in[6]) != 1)
		return fail(b, "nonpad_kv_seqlen has %d dimensions, must have 1", rank_of(in[6]));
	if (in[6])
		expect_dim(b, "nonpad_kv_seqlen", dim_of(in[6], 0), dim_of(a.q, 0), false);
	if (in[3] || in[6] || k.causal || k.left >= 0 || k.right >= 0)
		a.bias = masks_bias;
	a.guards = in[3] || in[6] || k.left >= 0 || k.right >= 0;
	if (!attention(&a))
		return NULL;
	out[0] = join_heads(m, &a, rank_of(in[0]) == 3);
	out[1] = a.k;
	out[2] = a.v;
	out[3] = ungroup(m, mode == 0 ? a.raw : mode == 1 ? a.capped : mode == 2 ? a.biased : a.probs);
	return t_tuple(m, 4, out);
}

/* ---- rotary embedding ------------------------------------------------------------------------ */

/*
 * x4 [B, H, S, E]: `rotated` elements of each vector, from element `first` on, turned by the angles
 * of their position, in pairs (i, i + half) or, interleaved, (2 i, 2 i + 1). position NULL: cos and
 * sin are [B, S, half].
 */
Node *
rotary(Build *b, Node *x4, Node *cos, Node *sin,
	Node *(*position)(Module *, Node *, Node *, void *), void *arg,
	bool interleaved, int64_t first, Node *rotated)
{
	Module *m = b->m;
	Node *half = x_fdiv(m, rotated, x_idx(m, 2)), *axes[4], *e, *i, *other, *c, *s, *idx[3],
		*second, *at[4], *x, *y, *in;
	int n = rank_of(cos);

	axes_new(m, 4, x4->type->dims, axes);
	e = x_addi(m, axes[3], -first);
	if (interleaved) {
		i = x_fdiv(m, e, x_idx(m, 2));
		second = x_eq(m, x_mod(m, e, x_idx(m, 2)), x_idx(m, 1));
		other = x_select(m, second, x_addi(m, e, -1), x_addi(m, e, 1));
	} else {
		second = x_le(m, half, e);
		i = x_select(m, second, x_sub(m, e, half), e);
		other = x_select(m, second, x_sub(m, e, half), x_add(m, e, half));
	}
	if (position)
		idx[0] = x2(m, O_BOUND, position(m, axes[0], axes[2], arg), dim_of(cos, 0));
	else {
		idx[0] = axes[0];
		idx[1] = axes[2];
	}
	idx[n - 1] = i;
	c = x_read(m, cos, idx);
	s = x_read(m, sin, idx);
	memcpy(at, axes, sizeof at);
	at[3] = x_addi(m, other, first);
	x = x_read(m, x4, axes);
	y = x_read(m, x4, at);
	/* first of a pair: cos x - sin y; second: sin y + cos x */
	e = x_select(m, second, x_add(m, x_mul(m, s, y), x_mul(m, c, x)),
		x_sub(m, x_mul(m, c, x), x_mul(m, s, y)));
	in = x_lt(m, axes[3], x_addi(m, rotated, first));
	if (first > 0)
		in = x_and(m, in, x_le(m, x_idx(m, first), axes[3]));
	return t_tensor(m, 4, axes, x_select(m, in, e, x));
}

static Node *
given_position(Module *m, Node *n, Node *s, void *ids)
{
	Node *idx[2] = {n, s};

	return x_cast(m, DT_INDEX, x_read(m, ids, idx));
}

/* Back from [B, H, S, E] to [B, S, H * E]. */
static Node *
packed(Module *m, Node *y4)
{
	Node *axes[4], *idx[4], *dims[3] = {dim_of(y4, 0), dim_of(y4, 2),
		x_mul(m, dim_of(y4, 1), dim_of(y4, 3))};
	static const int order[4] = {0, 2, 1, 3};
	int i;

	for (i = 0; i < 4; i++)
		idx[order[i]] = axes[i] = x_axis(m, dim_of(y4, order[i]));
	return reshape(m, t_tensor(m, 4, axes, x_read(m, y4, idx)), 3, dims);
}

static Node *
build_rotary(Build *b)
{
	Module *m = b->m;
	Node *x4 = four_dims(b, 0, "num_heads"), *cos = b->in[1], *sin = b->in[2], *ids = b->in[3],
		*rotated, *y;
	int64_t r = attr_int(b, "rotary_embedding_dim");
	int want = ids ? 2 : 3, i;

	if (!x4)
		return NULL;
	if (rank_of(cos) != want || rank_of(sin) != want || (ids && rank_of(ids) != 2))
		return fail(b, "the caches have %d and %d dimensions, must have %d", rank_of(cos),
			rank_of(sin), want);
	if (r < 0 || r > 1 << 24)
		return fail(b, "rotary_embedding_dim is %lld", (long long)r);
	rotated = r ? x_idx(m, r) : dim_of(x4, 3);
	require(m, x_le(m, rotated, dim_of(x4, 3)), b->loc,
		"rotary_embedding_dim is %lld, vectors have %s elements",
		(long long)r, expr_print(m, dim_of(x4, 3)));
	require(m, x_eq(m, x_muli(m, dim_of(cos, want - 1), 2), rotated), b->loc,
		"the caches have %s columns for %s elements",
		expr_print(m, dim_of(cos, want - 1)), expr_print(m, rotated));
	expect_shape(b, "sin_cache", sin, want, cos->type->dims);
	for (i = 0; i < 2; i++)
		expect_dim(b, ids ? "position_ids" : "cos_cache", dim_of(ids ? ids : cos, i),
			dim_of(x4, 2 * i), false);
	y = rotary(b, x4, cos, sin, ids ? given_position : NULL, ids, attr_int(b, "interleaved") != 0,
		0,
		rotated);
	return rank_of(b->in[0]) == 3 ? packed(m, y) : y;
}

/* ---- FlexAttention --------------------------------------------------------------------------- */

/* Runs one of the operator's graphs on a tensor: a loop of one round. */
static Node *
flex_graph(Att *a, Node *x, int which)
{
	Build *b = a->b;
	Module *m = b->m;
	Region *r = NULL, *body;
	Node *x4, *loop, *dims[5];
	int i;

	for (i = 0; i < b->nregions; i++)
		if (strcmp(b->regions[i]->name, which ? "prob_mod" : "score_mod") == 0)
			r = b->regions[i];
	if (!r)
		return x;
	if (r->nparams != 1 || r->nresults != 1)
		return fail(b, "%s must have one input and one output", r->name);
	x4 = reshape(m, x, 4, r->params[0]->type->dims);
	body = region_new(m, r->name);
	body->nparams = 2;
	body->params = NEWN(m, Node *, 2);
	body->params[0] = t_param(m, "round", ty_tensor(m, DT_I64, 0, NULL), 0);
	body->params[1] = r->params[0];
	region_add(m, body, t_scalar(m, DT_BOOL, (Num){.i = 1}));
	region_add(m, body, r->results[0]);
	if (r->params[0]->type != x4->type || r->results[0]->type != x4->type)
		return fail(b, "%s must map a tensor to one of its type and shape", r->name);
	loop = loop_build(b, t_ints(m, 1, (int64_t[]){1}), NULL, 1, &x4, body);
	if (!loop)
		return NULL;
	for (i = 0; i < 5; i++)
		dims[i] = dim_of(x, i);
	return reshape(m, t_result(m, loop, 0), 5, dims);
}

static Node *
build_flex_attention(Build *b)
{
	DType d = dtype_of(b->in[0]);
	Att a = {.b = b, .q = b->in[0], .k = b->in[1], .v = b->in[2], .mod = flex_graph,
		.scale = attr_find(b->attrs, "scale") ? attr_float(b, "scale") : 0, .softmax = acc_type(d)};

	if (rank_of(a.q) != 4 || rank_of(a.k) != 4 || rank_of(a.v) != 4)
		return fail(b, "Q, K and V must have 4 dimensions");
	if (!softmax_type(b, &a.softmax) || !attention(&a))
		return NULL;
	return join_heads(b->m, &a, false);
}

/* ---- linear attention ------------------------------------------------------------------------ */

typedef struct Linear {
	Build *b;
	Node *q, *k, *v, *decay, *beta, *B, *T, *H, *KH, *dk, *dv, *scale;
	Node *per_head;        /* has decay an entry a head, or one for each element of a key? */
} Linear;

/* Element of [B, T, columns] at the round, as f32. */
static Node *
at_round(Linear *l, Node *t, Node *n, Node *trip, Node *col)
{
	Module *m = l->b->m;
	Node *idx[3] = {n, x_cast(m, DT_INDEX, x_read(m, trip, NULL)),
		x_stretched(m, dim_of(t, 2), col)};

	return x_cast(m, DT_F32, x_read(m, t, idx));
}

/* The state after its decay, at [n, h, d, e]. */
static Node *
decayed(Linear *l, Node *s, Node *trip, Node *const *ax)
{
	Module *m = l->b->m;
	Node *e = x_read(m, s, ax), *g;

	if (!l->decay)
		return e;
	g = x_select(m, l->per_head, ax[1], x_add(m, x_mul(m, ax[1], l->dk), ax[2]));
	g = at_round(l, l->decay, ax[0], trip, g);
	return x_mul(m, e, x1(m, O_EXP, g));
}

/* What is written for [n, h, e]: v, or beta (v - state' k). */
static Node *
written(Linear *l, Node *s, Node *trip)
{
	Module *m = l->b->m;
	Node *ax[4], *v, *got, *d, *out[3];

	ax[0] = out[0] = x_axis(m, l->B);
	ax[1] = out[1] = x_axis(m, l->KH);
	ax[3] = out[2] = x_axis(m, l->dv);
	ax[2] = d = x_axis(m, l->dk);
	v = at_round(l, l->v, ax[0], trip, x_add(m, x_mul(m, ax[1], l->dv), ax[3]));
	if (!l->beta)
		return t_tensor(m, 3, out, v);
	got = x_mul(m, decayed(l, s, trip, ax),
		at_round(l, l->k, ax[0], trip, x_add(m, x_mul(m, ax[1], l->dk), d)));
	got = x_reduce(m, COMB_SUM, 1, &d, got);
	v = x_mul(m, at_round(l, l->beta, ax[0], trip, ax[1]), x_sub(m, v, got));
	return t_tensor(m, 3, out, v);
}

static Node *
linear_state(Linear *l, Node *s, Node *trip)
{
	Module *m = l->b->m;
	Node *ax[4], *w = written(l, s, trip), *e, *k;

	axes_new(m, 4, s->type->dims, ax);
	k = at_round(l, l->k, ax[0], trip, x_add(m, x_mul(m, ax[1], l->dk), ax[2]));
	e = x_mul(m, k, x_read(m, w, (Node *[]){ax[0], ax[1], ax[3]}));
	return t_tensor(m, 4, ax, x_add(m, decayed(l, s, trip, ax), e));
}

/* [n, head, e]: the query's reading of the new state. */
static Node *
linear_output(Linear *l, Node *s, Node *trip)
{
	Module *m = l->b->m;
	Node *ax[3] = {x_axis(m, l->B), x_axis(m, l->H), x_axis(m, l->dv)}, *d = x_axis(m, l->dk), *q,
		*e;
	Node *group = x_fdiv(m, l->H, l->KH);

	q = at_round(l, l->q, ax[0], trip, x_add(m, x_mul(m, ax[1], l->dk), d));
	e = x_read(m, s, (Node *[]){ax[0], x_fdiv(m, ax[1], group), d, ax[2]});
	e = x_reduce(m, COMB_SUM, 1, &d, x_mul(m, q, e));
	return t_tensor(m, 3, ax, x_mul(m, e, l->scale));
}

static bool
linear_args(Build *b, Linear *l)
{
	static const char *const rules[] = {"linear", "gated", "delta", "gated_delta"};
	const char *rule = attr_str(b, "update_rule");
	int64_t h = attr_int(b, "q_num_heads"), kh = attr_int(b, "kv_num_heads");
	double scale = attr_float(b, "scale");
	Module *m = b->m;
	int i;

	for (i = 0; i < 4 && strcmp(rule, rules[i]); i++)
		;
	if (i == 4)
		return fail(b, "update_rule \"%s\" is not known", rule) != NULL;
	if (kh < 1 || h < 1 || h % kh || h > 1 << 24)
		return fail(b, "%lld query heads for %lld key heads", (long long)h, (long long)kh) != NULL;
	if ((b->in[4] != NULL) != (i & 1) || (b->in[5] != NULL) != (i >> 1))
		return fail(b, "decay and beta must be given where update_rule \"%s\" asks for them",
			rule) != NULL;
	*l = (Linear){.b = b, .q = b->in[0], .k = b->in[1], .v = b->in[2], .decay = b->in[4],
		.beta = b->in[5],
		.H = x_idx(m, h), .KH = x_idx(m, kh)};
	for (i = 0; i < 6; i++)
		if (i != 3 && b->in[i] && rank_of(b->in[i]) != 3)
			return fail(b, "input %d has %d dimensions, must have 3", i, rank_of(b->in[i])) != NULL;
	l->B = dim_of(l->q, 0);
	l->T = dim_of(l->q, 1);
	l->dk = x_fdiv(m, dim_of(l->q, 2), l->H);
	l->dv = x_fdiv(m, dim_of(l->v, 2), l->KH);
	for (i = 1; i < 6; i++)
		if (i != 3 && b->in[i])
			expect_shape(b, "an operand", b->in[i], 2, l->q->type->dims);
	expect_dim(b, "the query", dim_of(l->q, 2), x_mul(m, l->H, l->dk), false);
	expect_dim(b, "the key", dim_of(l->k, 2), x_mul(m, l->KH, l->dk), false);
	expect_dim(b, "the value", dim_of(l->v, 2), x_mul(m, l->KH, l->dv), false);
	if (l->beta)
		expect_dim(b, "beta", dim_of(l->beta, 2), l->KH, true);
	if (l->decay) {
		l->per_head = x_eq(m, dim_of(l->decay, 2), l->KH);
		require(m, x_or(m, l->per_head, x_eq(m, dim_of(l->decay, 2), x_mul(m, l->KH, l->dk))),
			b->loc,
			"decay has %s columns", expr_print(m, dim_of(l->decay, 2)));
	}
	l->scale = scale != 0 ? x_flt(m, DT_F32, scale)
		: x2(m, O_DIV, x_int(m, DT_F32, 1), x1(m, O_SQRT, x_cast(m, DT_F32, l->dk)));
	return true;
}

static Node *
build_linear_attention(Build *b)
{
	Module *m = b->m;
	Node *dims[4], *ax[4], *init, *trip, *s, *loop, *y, *out[2], *idx[3];
	DType d = dtype_of(b->in[0]), ds = b->in[3] ? dtype_of(b->in[3]) : d;
	Region *body = region_new(m, "step");
	Linear l = {0};

	if (!linear_args(b, &l))
		return NULL;
	dims[0] = l.B, dims[1] = l.KH, dims[2] = l.dk, dims[3] = l.dv;
	axes_new(m, 4, dims, ax);
	if (b->in[3] && rank_of(b->in[3]) != 4)
		return fail(b, "past_state has %d dimensions, must have 4", rank_of(b->in[3]));
	if (b->in[3])
		expect_shape(b, "past_state", b->in[3], 4, dims);
	init = t_tensor(m, 4, ax,
		b->in[3] ? x_cast(m, DT_F32, x_read(m, b->in[3], ax)) : x_int(m, DT_F32, 0));
	body->nparams = 2;
	body->params = NEWN(m, Node *, 2);
	body->params[0] = trip = t_param(m, "round", ty_tensor(m, DT_I64, 0, NULL), 0);
	body->params[1] = s = t_param(m, "state", ty_tensor(m, DT_F32, 4, dims), 1);
	region_add(m, body, t_scalar(m, DT_BOOL, (Num){.i = 1}));
	region_add(m, body, linear_state(&l, s, trip));
	region_add(m, body, linear_output(&l, body->results[1], trip));
	loop = loop_build(b, t_scalar_expr(m, DT_I64, l.T), NULL, 1, &init, body);
	if (!loop)
		return NULL;
	y = t_result(m, loop, 1);                    /* [T, B, H, dv] */
	ax[0] = x_axis(m, l.B);
	ax[1] = x_axis(m, l.T);
	ax[2] = x_axis(m, l.H);
	ax[3] = x_axis(m, l.dv);
	y = t_tensor(m, 4, ax, x_cast(m, d, x_read(m, y, (Node *[]){ax[1], ax[0], ax[2], ax[3]})));
	idx[0] = l.B, idx[1] = l.T, idx[2] = x_mul(m, l.H, l.dv);
	out[0] = reshape(m, y, 3, idx);
	axes_new(m, 4, dims, ax);
	out[1] = t_tensor(m, 4, ax, x_cast(m, ds, x_read(m, t_result(m, loop, 0), ax)));
	return t_tuple(m, 2, out);
}

/* ---- causal convolution ---------------------------------------------------------------------- */

/* The elements before each of a padded sequence; false after an error. */
static bool
causal_shapes(Build *b, Node **before)
{
	Module *m = b->m;
	Node *x = b->in[0], *w = b->in[1], *bias = b->in[2], *past = b->in[3];

	if (rank_of(x) != 3 || rank_of(w) != 3 || (past && rank_of(past) != 3)
	 || (bias && rank_of(bias) != 1))
		return fail(b, "input, weight and past_state must have 3 dimensions, the bias 1") != NULL;
	require(m, x_and(m, x_eq(m, dim_of(w, 0), dim_of(x, 1)), x_eq(m, dim_of(w, 1), x_idx(m, 1))),
		b->loc, "the weights are [%s, %s, k] for %s channels", expr_print(m, dim_of(w, 0)),
		expr_print(m, dim_of(w, 1)), expr_print(m, dim_of(x, 1)));
	*before = x_addi(m, dim_of(w, 2), -1);
	require(m, x_le(m, x_idx(m, 0), *before), b->loc, "the kernel is empty");
	if (past)
		expect_shape(b, "past_state", past, 3, (Node *[]){dim_of(x, 0), dim_of(x, 1), *before});
	if (bias)
		expect_dim(b, "the bias", dim_of(bias, 0), dim_of(x, 1), false);
	return true;
}

/* The past or zeros, then the input. */
static Node *
with_past(Build *b, Node *before)
{
	Module *m = b->m;
	Node *x = b->in[0], *past = b->in[3], *ax[3], *old;

	axes_new(m, 2, x->type->dims, ax);
	ax[2] = x_axis(m, x_add(m, before, dim_of(x, 2)));
	old = past ? x_read(m, past, ax) : x_int(m, dtype_of(x), 0);
	return t_tensor(m, 3, ax, x_select(m, x_lt(m, ax[2], before), old,
		x_read(m, x, (Node *[]){ax[0], ax[1], x_sub(m, ax[2], before)})));
}

static Node *
build_causal_conv(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *w = b->in[1], *ax[3], *before = NULL, *e, *xp, *tap, *y, *out[2];
	DType d = dtype_of(x), acc = acc_type(d);
	const char *act = attr_str(b, "activation");
	bool silu = strcmp(act, "silu") == 0 || strcmp(act, "swish") == 0;

	if (!silu && strcmp(act, "none"))
		return fail(b, "activation is \"%s\", must be none, silu or swish", act);
	if (!causal_shapes(b, &before))
		return NULL;
	xp = with_past(b, before);
	axes_new(m, 3, x->type->dims, ax);
	tap = x_axis(m, dim_of(w, 2));
	e = x_read(m, xp, (Node *[]){ax[0], ax[1], x_add(m, ax[2], tap)});
	e = sum_of_products(m, acc, 1, &tap, e, x_read(m, w, (Node *[]){ax[1], x_idx(m, 0), tap}));
	y = t_tensor(m, 3, ax, e);
	axes_new(m, 3, x->type->dims, ax);
	e = x_read(m, y, ax);
	if (b->in[2])
		e = x_add(m, e, x_cast(m, acc, x_read(m, b->in[2], &ax[1])));
	e = x_cast(m, d, e);
	if (silu) {
		e = x_cast(m, acc, e);
		e = x_mul(m, e, x2(m, O_DIV, x_int(m, acc, 1),
			x_add(m, x_int(m, acc, 1), x1(m, O_EXP, x1(m, O_NEG, e)))));
	}
	out[0] = t_tensor(m, 3, ax, x_cast(m, d, e));
	axes_new(m, 2, x->type->dims, ax);
	ax[2] = x_axis(m, before);
	out[1] = t_tensor(m, 3, ax,
		x_read(m, xp, (Node *[]){ax[0], ax[1], x_add(m, ax[2], dim_of(x, 2))}));
	return t_tuple(m, 2, out);
}

const Op ops_attention[] = {
	BUILD("attention", "Attention", 25,
		"(q: float, k: q, v: float, mask: num|bool?, past_key: q?, past_value: v?, kv_lens: i64?)"
		" {is_causal: int = 0, kv_num_heads: int?, left_window_size: int = -1, q_num_heads: int?,"
		" qk_matmul_output_mode: int = 0, right_window_size: int = -1, scale: float?,"
		" softcap: float = 0, softmax_precision: int?} -> y, present_key?, present_value?, qk?",
		build_attention,
		"scaled dot-product attention"),
	BUILD("rotary_embedding", "RotaryEmbedding", 23,
	"(x: float, cos: x, sin: x, position_ids: i64?)"
		" {interleaved: int = 0, num_heads: int?, rotary_embedding_dim: int = 0} -> y",
		build_rotary,
		"pairs of elements turned by the angle of their position"),
	STRUCT("flex_attention", "ai.onnx.preview:FlexAttention", 1,
	"(q: float, k: q, v: q) {prob_mod: region?,"
		" scale: float?, score_mod: region?, softmax_precision: int?} -> y", build_flex_attention,
		"attention with graphs for scores and probabilities"),
	STRUCT("linear_attention", "LinearAttention", 27,
	"(q: float, k: q, v: q, past_state: float?, decay: q?, beta: q?)"
		" {chunk_size: int = 64, kv_num_heads: int, q_num_heads: int, scale: float = 0,"
		" update_rule: str = \"gated_delta\"} -> y, present_state", build_linear_attention,
		"attention by a recurrent state"),
	BUILD("causal_conv_with_state", "CausalConvWithState", 27,
	"(x: float, w: x, bias: x?, past_state: x?)"
		" {activation: str = \"none\"} -> y, present_state", build_causal_conv,
		"causal depthwise convolution"),
	{0}
};
