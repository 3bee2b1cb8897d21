/* com.microsoft: products with weights of few bits. */
#include <string.h>
#include "ops.h"

/* ---- weights of few bits --------------------------------------------------------------------- */

/* An element of [n, blocks], also given flat. */
static Node *
block_read(Module *m, Node *t, Node *n, Node *blk, Node *blocks)
{
	Node *idx[3] = {n, blk, x_idx(m, 0)};

	if (rank_of(t) == 1)
		idx[0] = x_add(m, x_mul(m, n, blocks), blk);
	return x_read(m, t, idx);
}

/* Bits [i * bits, (i + 1) * bits) of a byte, as i32. */
static Node *
bit_field(Module *m, Node *byte, Node *i, int64_t bits)
{
	Node *v = x_cast(m, DT_I32, byte);

	if (bits == 8)
		return v;
	v = x2(m, O_SHR, v, x_cast(m, DT_I32, x_muli(m, i, bits)));
	return x_and(m, v, x_int(m, DT_I32, (1 << bits) - 1));
}

/*
 * accuracy_level 4: the operand's values as signed bytes, block by block, with the block's largest
 * magnitude as 127 (MLAS, CompInt8), times a scale: a sum of products that may become one of bytes
 * (opt/quantized.c).
 */
static Node *
in_bytes(Module *m, Node *a, int64_t block)
{
	int r = rank_of(a), i;
	DType c = acc_type(dtype_of(a));
	Node *ax[MAX_RANK], *at[MAX_RANK], *j = x_axis(m, x_idx(m, block)), *most, *e;

	for (i = 0; i < r; i++)
		at[i] = ax[i] = x_axis(m,
			i + 1 < r ? dim_of(a, i) : x_fdiv(m, dim_of(a, i), x_idx(m, block)));
	at[r - 1] = x_add(m, x_muli(m, ax[r - 1], block), j);
	e = x_cast(m, c, x1(m, O_ABS, x_read(m, a, at)));
	most = t_tensor(m, r, ax, x_reduce(m, COMB_MAX, 1, &j, e));
	axes_new(m, r, a->type->dims, ax);
	for (i = 0; i < r; i++)
		at[i] = i + 1 < r ? ax[i] : x_fdiv(m, ax[i], x_idx(m, block));
	most = x_read(m, most, at);
	e = x_select(m, x_ne(m, most, x_int(m, c, 0)), x2(m, O_DIV, x_int(m, c, 127), most),
		x_int(m, c, 0));
	e = x_cast(m, DT_I8, x1(m, O_RINT, x_mul(m, x_cast(m, c, x_read(m, a, ax)), e)));
	e = x_cast(m, c, x_cast(m, DT_I32, x_read(m, t_tensor(m, r, ax, e), ax)));
	e = x_mul(m, e, x2(m, O_DIV, most, x_int(m, c, 127)));
	return t_tensor(m, r, ax, x_cast(m, dtype_of(a), e));
}

/* Weights in blocks of `block` elements along K, each with a scale and perhaps a zero point. */
typedef struct NBits {
	Node *w, *scales, *zeros;
	int64_t K, N, bits, block, per;   /* per: elements of a byte */
	Node *blocks, *bytes;             /* of a row; of a block */
} NBits;

/* The zero points of a row: bytes with several each, or values. */
static Node *
zeros_of_row(Module *m, const NBits *q)
{
	return dtype_of(q->zeros) == DT_U8 ? x_ceildiv(m, q->blocks, x_idx(m, q->per)) : q->blocks;
}

static void
nbits_sizes(Build *b, const NBits *q)
{
	Module *m = b->m;
	Node *a = b->in[0], *columns = dim_of(a, rank_of(a) - 1), *n = x_idx(m, q->N), *ok;

	ok = x_and(m, x_eq(m, dim_of(q->w, 1), q->blocks), x_eq(m, dim_of(q->w, 2), q->bytes));
	require(m, x_and(m, x_eq(m, dim_of(q->w, 0), n), ok), b->loc,
		"the weights are not [N, blocks, bytes of a block]");
	require(m, x_eq(m, numel(m, q->scales), x_mul(m, n, q->blocks)), b->loc, "%s scales",
		expr_print(m, numel(m, q->scales)));
	require(m, x_eq(m, columns, x_idx(m, q->K)), b->loc, "the operand has %s columns, K is %lld",
		expr_print(m, columns), (long long)q->K);
	if (q->zeros)
		expect_dim(b, "zero_points", numel(m, q->zeros), x_muli(m, zeros_of_row(m, q), q->N),
			false);
	if (q->zeros && rank_of(q->zeros) == 2)
		expect_dim(b, "zero_points", dim_of(q->zeros, 1), zeros_of_row(m, q), false);
	if (rank_of(q->scales) == 2)
		expect_dim(b, "scales", dim_of(q->scales, 1), q->blocks, false);
	if (b->in[5])
		expect_dim(b, "the bias", dim_of(b->in[5], 0), n, false);
}

static bool
nbits_open(Build *b, NBits *q)
{
	Module *m = b->m;

	*q = (NBits){.w = b->in[1], .scales = b->in[2], .zeros = b->in[3], .K = attr_int(b, "K"),
		.N = attr_int(b, "N"), .bits = attr_int(b, "bits"), .block = attr_int(b, "block_size")};
	if (q->K < 1 || q->N < 1 || q->K > 1 << 28 || q->N > 1 << 28 || q->block < 1
	 || q->block > 1 << 20)
		return fail(b, "K %lld, N %lld, block_size %lld", (long long)q->K, (long long)q->N,
			(long long)q->block) != NULL;
	if (q->bits != 2 && q->bits != 4 && q->bits != 8)
		return unsupported(b, "%lld bits", (long long)q->bits) != NULL;
	if (b->in[4] || attr_int(b, "weight_prepacked"))
		return unsupported(b, "g_idx and prepacked weights") != NULL;
	q->per = 8 / q->bits;
	if (q->block % q->per || rank_of(b->in[0]) < 1 || rank_of(q->w) != 3 || rank_of(q->scales) > 2
	 || (q->zeros && rank_of(q->zeros) > 2))
		return fail(b, "block_size %lld, the weights have %d dimensions, must have 3",
			(long long)q->block, rank_of(q->w)) != NULL;
	if (b->in[5] && rank_of(b->in[5]) != 1)
		return fail(b, "the bias has %d dimensions, must have 1", rank_of(b->in[5])) != NULL;
	q->blocks = x_idx(m, (q->K + q->block - 1) / q->block);
	q->bytes = x_idx(m, q->block / q->per);
	nbits_sizes(b, q);
	return true;
}

/* The element [n, block] of scales or zero points, an integer or a float; what lies flat or is bits
 * of a byte is put into a tensor of that form. */
static Node *
nbits_table(Module *m, const NBits *q, Node *t, Node *n, Node *blk)
{
	Node *ax[2], *per = x_idx(m, q->per), *e;

	ax[0] = x_axis(m, x_idx(m, q->N));
	ax[1] = x_axis(m, q->blocks);
	if (dtype_of(t) == DT_U8) {
		e = block_read(m, t, ax[0], x_fdiv(m, ax[1], per), zeros_of_row(m, q));
		e = bit_field(m, e, x_mod(m, ax[1], per), q->bits);
	} else
		e = block_read(m, t, ax[0], ax[1], q->blocks);
	return x_read(m, t_tensor(m, 2, ax, e), (Node *[]){n, blk});
}

/*
 * The weights (quantized - zero point) * scale as [n, block, byte, place in the byte], so that the
 * product with a reads both without division of indices.
 */
static Node *
nbits_weights(Module *m, const NBits *q, DType d)
{
	DType c = acc_type(d);
	Node *ax[4], *v, *z, *e;

	ax[0] = x_axis(m, x_idx(m, q->N));
	ax[1] = x_axis(m, q->blocks);
	ax[2] = x_axis(m, q->bytes);
	ax[3] = x_axis(m, x_idx(m, q->per));
	v = bit_field(m, x_read(m, q->w, ax), ax[3], q->bits);
	z = q->zeros ? nbits_table(m, q, q->zeros, ax[0], ax[1]) : x_int(m, DT_I32, 1 << (q->bits - 1));
	e = dt_float(z->type->dtype) ? x_sub(m, x_cast(m, c, v), x_cast(m, c, z))
		: x_cast(m, c, x_sub(m, v, z));
	e = x_mul(m, e, x_cast(m, c, nbits_table(m, q, q->scales, ax[0], ax[1])));
	return t_tensor(m, 4, ax, x_cast(m, d, e));
}

/* The operand in whole blocks: zeros where the last one goes on. */
static Node *
nbits_operand(Build *b, const NBits *q)
{
	Module *m = b->m;
	Node *a = b->in[0], *at[MAX_RANK], *e;
	int r = rank_of(a), i;

	if (q->K % q->block) {
		for (i = 0; i < r; i++)
			at[i] = x_axis(m, i + 1 < r ? dim_of(a, i) : x_muli(m, q->blocks, q->block));
		e = x_lt(m, at[r - 1], x_idx(m, q->K));
		a = t_tensor(m, r, at, x_select(m, e, x_read(m, a, at), x_int(m, dtype_of(a), 0)));
	}
	if (attr_int(b, "accuracy_level") == 4 && q->bits >= 4 && q->block >= 16)
		a = in_bytes(m, a, q->block);
	return a;
}

static Node *
build_matmul_nbits(Build *b)
{
	Module *m = b->m;
	Node *a, *t, *e, *ax[MAX_RANK], *at[MAX_RANK], *red[3], *idx[4];
	DType d = dtype_of(b->in[0]), c = acc_type(d);
	int r = rank_of(b->in[0]), i;
	NBits q;

	if (!nbits_open(b, &q))
		return NULL;
	t = nbits_weights(m, &q, d);
	a = nbits_operand(b, &q);
	for (i = 0; i + 1 < r; i++)
		at[i] = ax[i] = x_axis(m, dim_of(a, i));
	idx[0] = ax[r - 1] = x_axis(m, x_idx(m, q.N));
	idx[1] = red[0] = x_axis(m, q.blocks);
	idx[2] = red[1] = x_axis(m, q.bytes);
	idx[3] = red[2] = x_axis(m, x_idx(m, q.per));
	at[r - 1] = x_add(m, x_mul(m, red[0], q.bytes), red[1]);
	at[r - 1] = x_add(m, x_muli(m, at[r - 1], q.per), red[2]);
	e = sum_of_products(m, c, 3, red, x_read(m, a, at), x_read(m, t, idx));
	if (!b->in[5])
		return t_tensor(m, r, ax, x_cast(m, d, e));
	t = t_tensor(m, r, ax, e);
	axes_new(m, r, t->type->dims, ax);
	e = x_add(m, x_read(m, t, ax), x_cast(m, c, x_read(m, b->in[5], &ax[r - 1])));
	return t_tensor(m, r, ax, x_cast(m, d, e));
}

/* ---- products with packed weights ------------------------------------------------------------ */

/* The values of 4-bit codes over the block's largest magnitude: of bitsandbytes, FP4 and NF4. */
static const float bnb4[2][16] = {
	{0, 5.208333333e-03f, 0.66666667f, 1, 0.33333333f, 0.5f, 0.16666667f, 0.25f,
	 -0.f, -5.208333333e-03f, -0.66666667f, -1, -0.33333333f, -0.5f, -0.16666667f, -0.25f},
	{-1, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
	-0.18477343022823334f,
	 -0.09105003625154495f, 0, 0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f,
	 0.33791524171829224f,
	 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1},
};

static Node *
build_matmul_bnb4(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *w = b->in[1], *scales = b->in[2], *ax[2], *flat, *e, *table, *byte, *half;
	int64_t N = attr_int(b, "N"), K = attr_int(b, "K"), block = attr_int(b, "block_size"),
		kind = attr_int(b, "quant_type");
	bool trans = attr_int(b, "transB") != 0;
	DType c = acc_type(dtype_of(x));

	if (N < 1 || K < 1 || N > 1 << 30 || K > 1 << 30 || block < 1 || block > 1 << 30 || kind < 0 ||
		kind > 1)
		return fail(b, "N %lld, K %lld, block_size %lld, quant_type %lld", (long long)N,
			(long long)K, (long long)block,
			(long long)kind);
	e = numel(m, w);
	w = reshape(m, w, 1, &e);
	expect_dim(b, "the weights", e, x_idx(m, (N * K + 1) / 2), false);
	e = numel(m, scales);
	scales = reshape(m, scales, 1, &e);
	expect_dim(b, "the scales", e, x_idx(m, (N * K + block - 1) / block), false);
	table = t_const(m, DT_F32, 1, (int64_t[]){16}, data_new(m, DT_F32, 16, bnb4[kind]));
	ax[0] = x_axis(m, x_idx(m, trans ? K : N));
	ax[1] = x_axis(m, x_idx(m, trans ? N : K));
	flat = x_add(m, x_muli(m, ax[trans], K), ax[!trans]);
	half = x_fdiv(m, flat, x_idx(m, 2));
	byte = x_cast(m, DT_INDEX, x_read(m, w, &half));
	half = x_select(m, x_eq(m, x_mod(m, flat, x_idx(m, 2)), x_idx(m, 0)),
		x_fdiv(m, byte, x_idx(m, 16)),
		x_mod(m, byte, x_idx(m, 16)));
	byte = x_fdiv(m, flat, x_idx(m, block));
	e = x_mul(m, x_cast(m, c, x_read(m, table, &half)), x_cast(m, c, x_read(m, scales, &byte)));
	w = t_tensor(m, 2, ax, x_cast(m, dtype_of(x), e));
	return call(b, "matmul", 2, (Node *[]){x, w}, NULL);
}

/* Four bytes of a blob from `at` on as a float. */
static Node *
float_of_bytes(Module *m, Node *blob, Node *at)
{
	Node *e = NULL, *byte, *p;
	int i;

	for (i = 0; i < 4; i++) {
		p = x_addi(m, at, i);
		byte = x2(m, O_SHL, x_cast(m, DT_U32, x_read(m, blob, &p)), x_int(m, DT_U32, 8 * i));
		e = e ? x_or(m, e, byte) : byte;
	}
	return x_bits(m, DT_F32, e);
}

/*
 * A blob of blocks along K, column by column: a float scale, a byte of a zero point (type 1), the
 * codes; 16 bytes hold 32 of them, element i low and i + 16 high. Types: 0 blocks of 32, 1 the same
 * with zero points, 2 of 64, 4 of 128.
 */
static Node *
build_matmul_fpq4(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *blob = b->in[1], **shape, *K, *N, *ax[2], *at, *code, *byte, *zero, *e,
		*in, *blocks;
	int64_t kind = attr_int(b, "blk_quant_type"), block = kind == 2 ? 64 : kind == 4 ? 128 : 32,
		head = kind == 1 ? 5 : 4, size;
	int n;

	if (kind != 0 && kind != 1 && kind != 2 && kind != 4)
		return fail(b, "blk_quant_type is %lld", (long long)kind);
	if (rank_of(blob) != 1 || rank_of(b->in[2]) != 1 ||
		!list_arg(b, b->in[2], "B_shape", &n, &shape))
		return fail(b, "the packed weights and their shape must have one dimension");
	if (n != 2)
		return fail(b, "B_shape has %d elements, must have 2", n);
	K = extent(m, shape[0]);
	N = extent(m, shape[1]);
	size = head + block / 2;
	blocks = x_ceildiv(m, K, x_idx(m, block));
	require(m, x_le(m, x_mul(m, N, x_muli(m, blocks, size)), dim_of(blob, 0)), b->loc,
		"the packed weights have %s bytes",
		expr_print(m, dim_of(blob, 0)));
	ax[0] = x_axis(m, K);
	ax[1] = x_axis(m, N);
	at = x_add(m, x_mul(m, ax[1], blocks), x_fdiv(m, ax[0], x_idx(m, block)));
	at = x_muli(m, at, size);
	in = x_mod(m, ax[0], x_idx(m, block));
	byte = x_add(m, x_muli(m, x_fdiv(m, in, x_idx(m, 32)), 16), x_mod(m, in, x_idx(m, 16)));
	byte = x_addi(m, x_add(m, at, byte), head);
	code = x_cast(m, DT_I32, x_read(m, blob, &byte));
	code = x_select(m, x_lt(m, x_mod(m, in, x_idx(m, 32)), x_idx(m, 16)),
		x_and(m, code, x_int(m, DT_I32, 15)),
		x2(m, O_SHR, code, x_int(m, DT_I32, 4)));
	byte = x_addi(m, at, 4);
	zero = kind == 1 ? x_cast(m, DT_I32, x_read(m, blob, &byte)) : x_int(m, DT_I32, 8);
	e = x_mul(m, x_cast(m, DT_F32, x_sub(m, code, zero)), float_of_bytes(m, blob, at));
	return call(b, "matmul", 2, (Node *[]){x, t_tensor(m, 2, ax, e)}, NULL);
}

/* ---- several products of one operand --------------------------------------------------------- */

/* The product with weights, scales and bias from operand `first` on, n columns. */
static Node *
nbits_product(Build *b, Node *x, int first, int64_t n)
{
	static const char *const same[] = {"K", "accuracy_level", "bits", "block_size"};
	Node *in[6] = {x, b->in[first], b->in[first + 1], NULL, NULL, b->in[first + 2]};
	const Attr *attrs = with_int(b, NULL, "N", n);

	for (int i = 0; i < 4; i++)
		attrs = with_int(b, attrs, same[i], attr_int(b, same[i]));
	return call_result(b, "matmul_nbits", 6, in, attrs, 0);
}

/* Operand 0, plus operand 1 and normalised by operand 2 where they are given; *sum: that sum. */
static Node *
normed_operand(Build *b, Node **sum)
{
	Node **in = b->in, *r;
	const Attr *eps = with_float(b, NULL, "epsilon", attr_float(b, "epsilon"));

	*sum = NULL;
	if (in[1] && !in[2])
		return fail(b, "skip is given without norm_scale");
	if (!in[1])
		return in[2] ? call_result(b, "simplified_layer_normalization", 2,
			(Node *[]){in[0], in[2]}, eps, 0) : in[0];
	r = graph_op(b->m, op_find("skip_simplified_layer_normalization"), 3, in, eps, 4, 0, NULL,
		b->loc);
	*sum = r ? t_result(b->m, r, 3) : NULL;
	return r ? t_result(b->m, r, 0) : NULL;
}

static Node *
build_nbits_mlp(Build *b)
{
	const char *act = attr_str(b, "activation");
	Node *sum, *x = normed_operand(b, &sum), *gate, *up;

	if (strcmp(act, "silu"))
		return unsupported(b, "activation \"%s\"", act);
	gate = x ? nbits_product(b, x, 3, attr_int(b, "N")) : NULL;
	up = gate ? nbits_product(b, x, 6, attr_int(b, "N")) : NULL;
	gate = up ? call_result(b, "swish", 1, &gate, NULL, 0) : NULL;
	gate = call2(b, "mul", gate, up);
	return gate ? t_tuple(b->m, 2, (Node *[]){gate, sum}) : NULL;
}

static Node *
build_nbits_qkv(Build *b)
{
	Node *out[4], *x = normed_operand(b, &out[3]);

	for (int i = 0; i < 3; i++) {
		out[i] = x ? nbits_product(b, x, 3 + 3 * i, attr_int(b, i ? "Nkv" : "Nq")) : NULL;
		if (!out[i])
			return NULL;
	}
	return t_tuple(b->m, 4, out);
}

/* ---- weights of small floats in blocks ------------------------------------------------------- */

static const float fp4[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

/* x [..., K] times the weights [N, K] transposed, plus a bias, summed in f32. */
static Node *
rows_product(Build *b, Node *x, Node *w, Node *bias)
{
	Module *m = b->m;
	Node *ax[MAX_RANK], *at[MAX_RANK], *e, *t;
	DType d = dtype_of(b->in[0]);
	int r = rank_of(x), i;

	for (i = 0; i + 1 < r; i++)
		at[i] = ax[i] = x_axis(m, dim_of(x, i));
	ax[r - 1] = x_axis(m, dim_of(w, 0));
	at[r - 1] = x_axis(m, dim_of(w, 1));
	e = sum_of_products(m, DT_F32, 1, &at[r - 1], x_read(m, x, at),
		x_read(m, w, (Node *[]){ax[r - 1], at[r - 1]}));
	if (!bias)
		return t_tensor(m, r, ax, x_cast(m, d, e));
	t = t_tensor(m, r, ax, e);
	axes_new(m, r, t->type->dims, ax);
	e = x_add(m, x_read(m, t, ax), x_cast(m, DT_F32, x_read(m, bias, &ax[r - 1])));
	return t_tensor(m, r, ax, x_cast(m, d, e));
}

/* Checks that scales are [N, blocks of K] and the operand and bias fit. */
static bool
blocks_fit(Build *b, Node *scales, Node *K, Node *bias, int64_t block)
{
	Module *m = b->m;
	Node *x = b->in[0], *N = dim_of(b->in[1], 0);

	if (block < 1 || block > 1 << 20)
		return fail(b, "block_size is %lld", (long long)block) != NULL;
	if (rank_of(x) < 1 || rank_of(scales) != 2 || (bias && rank_of(bias) != 1))
		return fail(b, "the operand, the scales or the bias have unfit dimensions") != NULL;
	expect_dim(b, "the operand", dim_of(x, rank_of(x) - 1), K, false);
	expect_shape(b, "the scales", scales, 2, (Node *[]){N, x_ceildiv(m, K, x_idx(m, block))});
	if (bias)
		expect_dim(b, "the bias", dim_of(bias, 0), N, false);
	return true;
}

/* Two codes to a byte, the first in its low bits; scales are the bits of f8e4m3fn. */
static Node *
build_fp4_weight(Build *b)
{
	Module *m = b->m;
	Node **in = b->in, *w = in[1], *K, *ax[2], *at[2], *table, *code, *e, *s;
	int64_t block = attr_int(b, "block_size");

	if (rank_of(w) != 2)
		return fail(b, "the weights have %d dimensions, must have 2", rank_of(w));
	K = x_muli(m, dim_of(w, 1), 2);
	if (!blocks_fit(b, in[2], K, in[5], block))
		return NULL;
	table = t_const(m, DT_F32, 1, (int64_t[]){16}, data_new(m, DT_F32, 16, fp4));
	at[0] = ax[0] = x_axis(m, dim_of(w, 0));
	ax[1] = x_axis(m, K);
	at[1] = x_fdiv(m, ax[1], x_idx(m, 2));
	code = bit_field(m, x_read(m, w, at), x_mod(m, ax[1], x_idx(m, 2)), 4);
	code = x_cast(m, DT_INDEX, code);
	at[1] = x_fdiv(m, ax[1], x_idx(m, block));
	s = x_cast(m, DT_F32, x_bits(m, DT_F8E4M3FN, x_read(m, in[2], at)));
	e = x_mul(m, x_mul(m, x_read(m, table, &code), scalar_arg(m, in[3])), s);
	w = t_tensor(m, 2, ax, x_cast(m, dtype_of(in[0]), e));
	return rows_product(b, in[0], w, in[5]);
}

static Node *
build_fp8_weight(Build *b)
{
	Module *m = b->m;
	Node **in = b->in, *x = in[0], *w = in[1], *ax[MAX_RANK], *at[2], *e;
	int64_t block = attr_int(b, "block_size");

	if (rank_of(w) != 2)
		return fail(b, "the weights have %d dimensions, must have 2", rank_of(w));
	if (!blocks_fit(b, in[2], dim_of(w, 1), in[4], block))
		return NULL;
	axes_new(m, 2, w->type->dims, ax);
	at[0] = ax[0];
	at[1] = x_fdiv(m, ax[1], x_idx(m, block));
	e = x_mul(m, x_cast(m, DT_F32, x_read(m, w, ax)), x_read(m, in[2], at));
	w = t_tensor(m, 2, ax, e);
	x = as_type(m, x, DT_F32);
	if (in[3]) {
		x = call2(b, "div", x, in[3]);
		x = x ? call_result(b, "cast", 1, &x, with_int(b, NULL, "to", dtypes[DT_F8E4M3FN].onnx), 0)
			: NULL;
		x = x ? call2(b, "mul", as_type(m, x, DT_F32), in[3]) : NULL;
	}
	return x ? rows_product(b, x, w, in[4]) : NULL;
}

const Op ops_contrib_nbits[] = {
	BUILD("matmul_nbits", MS("MatMulNBits"), 1,
	"(a: float, b: u8, scales: a, zeros: u8|float?, g_idx: i32?, bias: a?)"
		" {K: int, N: int, accuracy_level: int = 0, bits: int = 4, block_size: int,"
		" weight_prepacked: int = 0} -> y",
		build_matmul_nbits, "product with weights of few bits"),
	BUILD("matmul_bnb4", MS("MatMulBnb4"), 1,
	"(x: float, w: u8, absmax: x) {K: int, N: int, block_size: int, quant_type: int,"
		" training_mode: int = 0, transB: int = 1} -> y", build_matmul_bnb4,
		"product with weights of 4-bit floats"),
	BUILD("matmul_fpq4", MS("MatMulFpQ4"), 1,
	"(x: f32, w: u8, shape: i64) {blk_quant_type: int = 1} -> y",
		build_matmul_fpq4, "product with packed 4-bit weights"),
	BUILD("matmul_nbits_mlp", MS("MatMulNBitsMlp"), 1,
		"(a: float, skip: a?, norm_scale: a?, gate: u8, gate_scales: a, gate_bias: a?, up: u8,"
		" up_scales: a, up_bias: a?) {K: int, N: int, accuracy_level: int = 0, activation: str,"
		" bits: int = 4, block_size: int, epsilon: float = 1e-5} -> y, sum?", build_nbits_mlp,
		"a gated product with weights of few bits"),
	BUILD("matmul_nbits_qkv", MS("MatMulNBitsQkv"), 1,
		"(a: float, skip: a?, norm_scale: a, q: u8, q_scales: a, q_bias: a?, k: u8, k_scales: a,"
		" k_bias: a?, v: u8, v_scales: a, v_bias: a?) {K: int, Nkv: int, Nq: int,"
		" accuracy_level: int = 0, bits: int = 4, block_size: int, epsilon: float = 1e-6}"
		" -> q_out, k_out, v_out, sum?", build_nbits_qkv,
		"three products of a normalised operand with weights of few bits"),
	BUILD("matmul_fp4_weight", MS("MatMulBlockQuantizedFp4Weight"), 1,
		"(a: float, w: u8, scales: u8, scale: f32, a_scale: f32?, bias: a?)"
		" {block_size: int = 16} -> y", build_fp4_weight, "product with weights of 4-bit floats"),
	BUILD("matmul_fp8_weight", MS("MatMulBlockQuantizedFp8Weight"), 1,
		"(a: float, w: f8e4m3fn, scales: f32, a_scale: f32?, bias: a?)"
		" {block_size: int = 128} -> y", build_fp8_weight, "product with weights of 8-bit floats"),
	{0}
};
