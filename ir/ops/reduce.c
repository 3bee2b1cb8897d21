/* Reductions, and what is composed of them. */
#include "ops.h"

int
axis_attr(Build *b, const char *name, int rank)
{
	int64_t a = attr_int(b, name);

	if (a < -rank || a >= rank) {
		fail(b, "%s %lld is outside [%d, %d]", name, (long long)a, -rank, rank - 1);
		return -1;
	}
	return (int)(a < 0 ? a + rank : a);
}

bool
axes_mask(Build *b, Node *operand, const char *attr, int rank, bool all_if_empty, Node **on)
{
	Module *m = b->m;
	const int64_t *v;
	Node **e;
	int i, d, n = 0;

	if (operand) {
		if (!index_elems(m, operand, &n, &e)) {
			unsupported(b, "the number of axes is known only at run time; fix it with --shape or --freeze");
			return false;
		}
	} else if (attr && attr_ints(b, attr, &n, &v)) {
		e = NEWN(m, Node *, n + 1);
		for (i = 0; i < n; i++)
			e[i] = x_idx(m, v[i]);
	}
	for (i = 0; i < n; i++)
		require(m, x_and(m, x_le(m, x_idx(m, -rank), e[i]), x_lt(m, e[i], x_idx(m, rank))), b->loc,
			"an axis is outside [%d, %d]", -rank, rank - 1);
	for (d = 0; d < rank; d++) {
		on[d] = x_bool(m, n == 0 && all_if_empty);
		for (i = 0; i < n; i++)
			on[d] = x_or(m, on[d], x_or(m, x_eq(m, e[i], x_idx(m, d)), x_eq(m, e[i], x_idx(m, d - rank))));
	}
	return true;
}

/* Half types accumulate in f32. */
static Node *
reduce_over(Module *m, Comb c, int n, Node *const *axes, Node *body)
{
	DType d = body->type->dtype;

	if (dt_small(d) && (c == COMB_SUM || c == COMB_PROD))
		return x_cast(m, d, x_reduce(m, c, n, axes, x_cast(m, DT_F32, body)));
	return x_reduce(m, c, n, axes, body);
}

Node *
sum_over(Module *m, int n, Node *const *axes, Node *body)
{
	return reduce_over(m, COMB_SUM, n, axes, body);
}

/* y[outer] = comb over the axes that are on. An axis known only at run time keeps its place in the
 * result with extent on ? 1 : dim, and is reduced over on ? dim : 1. */
static Node *
reduce(Build *b, Comb c)
{
	Module *m = b->m;
	Node *x = b->in[0], *on[MAX_RANK], *out[MAX_RANK], *red[MAX_RANK], *idx[MAX_RANK], *ext, *body;
	int rank = rank_of(x), i, nout = 0, nred = 0;
	bool keep = attr_int(b, "keepdims") != 0, noop = attr_int(b, "noop_with_empty_axes") != 0;

	if (!axes_mask(b, b->nin > 1 ? b->in[1] : NULL, NULL, rank, !noop, on))
		return NULL;
	for (i = 0; i < rank; i++) {
		if (on[i]->code != O_NUM && !keep)
			return unsupported(b, "axes known only at run time need keepdims=1");
		if (is_intv(on[i], 0)) {
			idx[i] = out[nout++] = x_axis(m, dim_of(x, i));
		} else if (is_intv(on[i], 1)) {
			if (keep)
				out[nout++] = x_axis(m, x_idx(m, 1));
			idx[i] = red[nred++] = x_axis(m, dim_of(x, i));
		} else {
			ext = x_select(m, on[i], x_idx(m, 1), dim_of(x, i));
			out[nout++] = x_axis(m, ext);
			red[nred++] = x_axis(m, x_select(m, on[i], dim_of(x, i), x_idx(m, 1)));
			idx[i] = x_select(m, on[i], red[nred - 1], out[nout - 1]);
		}
	}
	body = x_read(m, x, idx);
	body = reduce_over(m, c, nred, red, body);
	return t_tensor(m, nout, out, body);
}

static Node *build_sum(Build *b)  { return reduce(b, COMB_SUM); }
static Node *build_prod(Build *b) { return reduce(b, COMB_PROD); }
static Node *build_max(Build *b)  { return reduce(b, COMB_MAX); }
static Node *build_min(Build *b)  { return reduce(b, COMB_MIN); }

#define RED "(x: num, axes: i64?) {keepdims: int = 1, noop_with_empty_axes: int = 0} -> y"

const Op ops_reduce[] = {
	BUILD("reduce_sum",  "ReduceSum",  13, RED, build_sum,  "sum over axes"),
	BUILD("reduce_prod", "ReduceProd", 18, RED, build_prod, "product over axes"),
	BUILD("reduce_max",  "ReduceMax",  20, RED, build_max,  "maximum over axes"),
	BUILD("reduce_min",  "ReduceMin",  20, RED, build_min,  "minimum over axes"),
	COMP("softmax", "Softmax", 13, "(x: float) {axis: int = -1} -> y",
		"e = exp(x - reduce_max(x, [axis])); e / reduce_sum(e, [axis])", "exp(x) normalised along an axis"),
	{0}
};
