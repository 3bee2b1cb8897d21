/* com.microsoft: rotary embeddings. */
#include <string.h>
#include "attention.h"

/* ---- RotaryEmbedding ------------------------------------------------------------------------- */

static Node *
start_position(Module *m, Node *n, Node *s, void *arg)
{
	Node *ids = arg, *zero = x_idx(m, 0);

	if (rank_of(ids) == 2)
		return x_cast(m, DT_INDEX, x_read(m, ids, (Node *[]){n, s}));
	return x_add(m, x_cast(m, DT_INDEX, x_read(m, ids, &zero)), s);
}

/* x [B, S, heads * size] as [B, heads, S, size]; of four dimensions, x itself. */
static Node *
rotary_heads(Build *b, Node *x, Node *rotated)
{
	Module *m = b->m;
	int64_t heads = attr_int(b, "num_heads"), dim = attr_int(b, "rotary_embedding_dim");
	Node *size, *ax[4], *idx[3], *y = x;

	if (rank_of(x) != 3 && rank_of(x) != 4)
		return fail(b, "the operand has %d dimensions, must have 3 or 4", rank_of(x));
	if (rank_of(x) == 3) {
		if (dim && heads < 1)
			return fail(b, "num_heads must be given with rotary_embedding_dim");
		size = heads > 0 ? x_fdiv(m, dim_of(x, 2), x_idx(m, heads)) : rotated;
		ax[0] = idx[0] = x_axis(m, dim_of(x, 0));
		ax[1] = x_axis(m, x_fdiv(m, dim_of(x, 2), size));
		ax[2] = idx[1] = x_axis(m, dim_of(x, 1));
		ax[3] = x_axis(m, size);
		idx[2] = x_add(m, x_mul(m, ax[1], size), ax[3]);
		y = t_tensor(m, 4, ax, x_read(m, x, idx));
	}
	require(m, x_eq(m, x_mul(m, dim_of(y, 1), dim_of(y, 3)),
		rank_of(x) == 3 ? dim_of(x, 2) : x_mul(m, dim_of(x, 1),
		dim_of(x, 3))), b->loc, "%s columns are no whole heads",
		expr_print(m, dim_of(x, rank_of(x) - 1)));
	require(m, x_le(m, rotated, dim_of(y, 3)), b->loc, "the caches turn %s elements of heads of %s",
		expr_print(m, rotated),
		expr_print(m, dim_of(y, 3)));
	return y;
}

/* y [B, heads, S, size] in x's shape. */
static Node *
rotary_result(Module *m, Node *x, Node *y)
{
	Node *ax[4], *idx[4], *dims[3];

	if (rank_of(x) == 4)
		return y;
	idx[0] = ax[0] = x_axis(m, dim_of(y, 0));
	idx[2] = ax[1] = x_axis(m, dim_of(y, 2));
	idx[1] = ax[2] = x_axis(m, dim_of(y, 1));
	idx[3] = ax[3] = x_axis(m, dim_of(y, 3));
	memcpy(dims, x->type->dims, sizeof dims);
	return reshape(m, t_tensor(m, 4, ax, x_read(m, y, idx)), 3, dims);
}

static bool
rotary_args(Build *b)
{
	Node **in = b->in;

	if (attr_int(b, "is_packed_batching") || attr_float(b, "scale") != 1)
		return unsupported(b, "packed batches and scales") != NULL;
	if (rank_of(in[2]) != 2 || rank_of(in[3]) != 2)
		return fail(b, "the caches have %d and %d dimensions, must have 2", rank_of(in[2]),
			rank_of(in[3])) != NULL;
	expect_shape(b, "sin_cache", in[3], 2, in[2]->type->dims);
	return true;
}

static Node *
build_ms_rotary(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *ids = b->in[1], *cos = b->in[2], *x4, *y, *rotated;

	if (!rotary_args(b))
		return NULL;
	if (rank_of(ids) < 1 || rank_of(ids) > 2)
		return fail(b, "position_ids has %d dimensions", rank_of(ids));
	rotated = x_muli(m, dim_of(cos, 1), 2);
	if (!(x4 = rotary_heads(b, x, rotated)))
		return NULL;
	if (rank_of(ids) == 2)
		expect_shape(b, "position_ids", ids, 2, (Node *[]){dim_of(x4, 0), dim_of(x4, 2)});
	y = rotary(b, x4, cos, b->in[3], start_position, ids, attr_int(b, "interleaved") != 0, 0,
		rotated);
	return rotary_result(m, x, y);
}

/*
 * The cache's rows by three streams of positions [3, B, S]: frequency i is of stream `which`.
 * Sections lie one after the other, or every third frequency is of the second or third while their
 * sections last.
 */
static Node *
section_rows(Build *b, Node *ids, Node *cache, const int64_t *sections)
{
	Module *m = b->m;
	Node *ax[3], *i, *which, *third, *p, *zero = x_idx(m, 0), *one = x_idx(m, 1),
		*two = x_idx(m, 2);

	ax[0] = x_axis(m, dim_of(ids, 1));
	ax[1] = x_axis(m, dim_of(ids, 2));
	ax[2] = i = x_axis(m, dim_of(cache, 1));
	third = x_mod(m, i, x_idx(m, 3));
	if (attr_int(b, "mrope_layout") == 1) {
		which = x_select(m, x_and(m, x_eq(m, third, two), x_lt(m, i, x_idx(m, 3 * sections[2]))),
			two, zero);
		which = x_select(m, x_and(m, x_eq(m, third, one), x_lt(m, i, x_idx(m, 3 * sections[1]))),
			one, which);
	} else {
		which = x_select(m, x_lt(m, i, x_idx(m, sections[0] + sections[1])), one, two);
		which = x_select(m, x_lt(m, i, x_idx(m, sections[0])), zero, which);
	}
	p = x_cast(m, DT_INDEX, x_read(m, ids, (Node *[]){which, ax[0], ax[1]}));
	p = x2(m, O_BOUND, p, dim_of(cache, 0));
	return t_tensor(m, 3, ax, x_read(m, cache, (Node *[]){p, i}));
}

static Node *
build_mrotary(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *ids = b->in[1], *x4, *y, *rotated;
	int64_t layout = attr_int(b, "mrope_layout");
	const int64_t *s;
	int n;

	if (!rotary_args(b))
		return NULL;
	if (!attr_ints(b, "mrope_section", &n, &s) || n != 3 || s[0] < 0 || s[1] < 0 || s[2] < 0
	 || s[0] + s[1] + s[2] > 1 << 20
	 || layout < 0 || layout > 1)
		return fail(b, "mrope_section must be three sizes; mrope_layout is %lld",
			(long long)layout);
	if (rank_of(ids) != 3)
		return fail(b, "position_ids has %d dimensions, must have 3", rank_of(ids));
	expect_dim(b, "the caches", dim_of(b->in[2], 1), x_idx(m, s[0] + s[1] + s[2]), false);
	rotated = x_muli(m, dim_of(b->in[2], 1), 2);
	if (!(x4 = rotary_heads(b, x, rotated)))
		return NULL;
	expect_shape(b, "position_ids", ids, 3, (Node *[]){x_idx(m, 3), dim_of(x4, 0), dim_of(x4, 2)});
	y = rotary(b, x4, section_rows(b, ids, b->in[2], s), section_rows(b, ids, b->in[3], s), NULL,
		NULL,
		attr_int(b, "interleaved") != 0, 0, rotated);
	return rotary_result(m, x, y);
}

const Op ops_contrib_rotary[] = {
	BUILD("mrotary_embedding", MS("MRotaryEmbedding"), 1,
	"(x: float, position_ids: i64, cos: x, sin: x) {interleaved: int = 0,"
		" is_packed_batching: int = 0, mrope_layout: int = 0, mrope_section: ints,"
		" num_heads: int = 0, rotary_embedding_dim: int = 0, scale: float = 1} -> y", build_mrotary,
		"pairs of elements turned by three streams of positions"),
	BUILD("ms_rotary_embedding", MS("RotaryEmbedding"), 1,
	"(x: float, position_ids: i64, cos: x, sin: x)"
		" {interleaved: int = 0, is_packed_batching: int = 0, num_heads: int = 0,"
		" rotary_embedding_dim: int = 0, scale: float = 1} -> y", build_ms_rotary,
		"pairs of elements turned by the angle of their position"),
	{0}
};
