/* Tiles of products on matrix units, and what the performance model says of them. */
#ifndef TCC_GPU_PICK_H
#define TCC_GPU_PICK_H

#include "ir/predict.h"

/* Rows, columns, warps along each; depth of a step in elements; steps in shared memory at once. */
typedef struct MmaTile { int m, n, wm, wn, bk, stages; } MmaTile;

/* batch products of m x n results, each a sum over outer times depth elements: a step is within one
 * depth. Sizes that only a run knows are what is likely. */
typedef struct Product {
	const Machine *mach;
	const Mma *x;
	double m, n, batch, outer, depth;
	int size;              /* bytes of a factor's element */
	int own_m, own_n;      /* of a block of fragments */
	int lane_words;        /* registers of one */
	bool async_m, async_n; /* the factor is copied beside the products, else through registers */
	bool loose_m, loose_n; /* it is read element by element */
	double result_bytes;   /* stored, and read beside the sum, for each element of the result */
	bool reads_result;
} Product;

double tile_us(const Product *, const MmaTile *);   /* without the launch */
double tile_cost(const Product *, const MmaTile *); /* what tiles are chosen by: it, and what it hides */
/* The fastest; bk is least_bk times a power of two, deepest at most. False: none fits. */
/* The same for instructions of warp groups, wm of them; bk is given. */
bool pick_group(const Product *, int bk, MmaTile *, double *us);
bool pick_tile(const Product *, int least_bk, int deepest, MmaTile *);

#endif
