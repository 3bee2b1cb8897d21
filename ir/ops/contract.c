/* Contractions: matrix products and convolutions. */
#include "ops.h"

/* The accumulator's type: half types accumulate in f32. */
static DType
acc_type(DType d)
{
	return dt_small(d) ? DT_F32 : d;
}

/* numpy's matmul: [.., m, k] x [.., k, n], batch dimensions broadcast; 1-D operands lose their axis. */
static Node *
build_matmul(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *y = b->in[1], *batch[MAX_RANK], *ax[MAX_RANK + 2], *k, *idx[MAX_RANK], *dims[MAX_RANK];
	int rx = rank_of(x), ry = rank_of(y), bx = rx > 2 ? rx - 2 : 0, by = ry > 2 ? ry - 2 : 0, nb, n, i;
	Node *kx, *ky, *rd[2];
	DType d = dtype_of(x), acc = acc_type(d);

	if (rx == 0 || ry == 0)
		return fail(b, "operands must have at least one dimension, have %d and %d", rx, ry);
	kx = dim_of(x, rx - 1);
	ky = dim_of(y, ry == 1 ? 0 : ry - 2);
	require(m, x_eq(m, kx, ky), b->loc, "the first operand has %s columns, the second %s rows", expr_print(m, kx),
		expr_print(m, ky));
	nb = bx > by ? bx : by;
	for (i = 0; i < nb; i++) {
		Node *p = i - (nb - bx) >= 0 ? dim_of(x, i - (nb - bx)) : x_idx(m, 1);
		Node *q = i - (nb - by) >= 0 ? dim_of(y, i - (nb - by)) : x_idx(m, 1);
		dims[i] = dim_broadcast(m, p, q, b->loc);
		batch[i] = ax[i] = x_axis(m, dims[i]);
	}
	n = nb;
	if (rx > 1)
		ax[n++] = x_axis(m, dim_of(x, rx - 2));
	if (ry > 1)
		ax[n++] = x_axis(m, dim_of(y, ry - 1));
	k = x_axis(m, kx->code == O_NUM ? kx : ky);
	for (i = 0; i < bx; i++)
		idx[i] = batch[nb - bx + i];
	if (rx > 1)
		idx[rx - 2] = ax[nb];
	idx[rx - 1] = k;
	rd[0] = x_bread(m, x, rx, idx);
	for (i = 0; i < by; i++)
		idx[i] = batch[nb - by + i];
	idx[ry == 1 ? 0 : ry - 2] = k;
	if (ry > 1)
		idx[ry - 1] = ax[n - 1];
	rd[1] = x_bread(m, y, ry, idx);
	for (i = 0; i < 2; i++)
		rd[i] = x_cast(m, acc, rd[i]);
	return t_tensor(m, n, ax, x_cast(m, d, x_reduce(m, COMB_SUM, 1, &k, x_mul(m, rd[0], rd[1]))));
}

const Op ops_contract[] = {
	BUILD("matmul", "MatMul", 13, "(a: num, b: a) {} -> y", build_matmul, "matrix product"),
	{0}
};
