/* The device kernels of model.h: a block of 32 threads for each unit of the grid. */
#include "runtime/device/tcc_dev.h"

TCC_KERNEL(add, 32)(const float *x, const float *b, float *y)
{
	i32 i = tcc_bx(), j = tcc_tx();
	if (j < 4)
		y[4 * i + j] = x[4 * i + j] + b[j];
}

TCC_KERNEL(relu, 32)(const float *x, float *y)
{
	i32 i = 4 * tcc_bx() + tcc_tx();
	if (tcc_tx() < 4)
		y[i] = x[i] > 0 ? x[i] : 0;
}

TCC_KERNEL(sum, 32)(const float *x, float *y, i64 n)
{
	f32 s = 0;
	if (tcc_tx())
		return;
	for (i64 j = 0; j < n; j++)
		s += x[n * tcc_bx() + j];
	y[tcc_bx()] = s;
}

TCC_KERNEL(pick, 32)(const i64 *at, const float *table, float *y, i64 n, int *err)
{
	i64 k = at[tcc_bx()];
	if (tcc_tx())
		return;
	if (k < 0 || k >= n) {
		*err = 1;
		k = 0;
	}
#ifdef PLANT_BUG
	k += 12;        /* past the end of the table */
#endif
	y[tcc_bx()] = table[k];
}

#ifdef TCC_SIM
TCC_SIM_ENTRY(add)
{
	add(TCC_ARG(const float *, 0), TCC_ARG(const float *, 1), TCC_ARG(float *, 2));
}

TCC_SIM_ENTRY(relu)
{
	relu(TCC_ARG(const float *, 0), TCC_ARG(float *, 1));
}

TCC_SIM_ENTRY(sum)
{
	sum(TCC_ARG(const float *, 0), TCC_ARG(float *, 1), TCC_ARG(i64, 2));
}

TCC_SIM_ENTRY(pick)
{
	pick(TCC_ARG(const i64 *, 0), TCC_ARG(const float *, 1), TCC_ARG(float *, 2), TCC_ARG(i64, 3),
	     TCC_ARG(int *, 4));
}
#endif
