/* What the schedules of products on matrix units share: gpu_mma.c (fragments in registers), gpu_wgmma.c
 * (tiles in shared memory). */
#ifndef TCC_GPU_MMA_H
#define TCC_GPU_MMA_H

#include "gpu_part.h"
#include "gpu_pick.h"

typedef struct Mm {
	Gemm g;
	Tiles t;
	const Mma *x;
	Part a, b;             /* rows, columns */
	int wm, wn, warps;     /* warps along rows, columns */
	int bk, stages;        /* elements of a step */
	Node *warp;
	Node *total, *per;     /* steps; those of the last summed axis */
	Node *acc;             /* [rows][columns][elements] of a warp's instructions */
	int acc_elems;
} Mm;

/* The summed axes as one, or the last of them by steps and the others one by one; for a step of bk. */
void mm_depth(Mm *, bool flat);
void mm_steps(Mm *);                             /* how many steps that are */
Product mm_product(const Mm *);
/* Which tile of each factor, and which batch, number t of nm x nn tiles and batches is. */
void mm_locate(Mm *, Region *, Node *t, Node *nm, Node *nn);
void mm_bind_step(Mm *, Region *, Node *step);   /* what the step number decides */
void mm_clear(Mm *, Region *);

/* Words of a row of so many sums in shared memory, so that storing them from fragments meets no bank twice. */
int mm_row_words(const Mma *, int columns);
/* The accumulators of instructions i0.. x j0.., of so many rows and columns of instructions, to memory: rows
 * that begin at `row`, one instruction's step rows after another's. */
typedef struct Spread { Node *memory, *i0, *j0, *row, *column; int ni, nj, step, words; } Spread;
void mm_spread(Mm *, Region *, const Spread *);

/* gpu_wgmma.c: the product by warp groups from boxes, if that takes less than so many microseconds. NULL: it
 * cannot, or does not. Where its `fits` is not proved, `otherwise` is to be set. */
Kernel *wgmma_gpu(const Mm *, double us);

#endif
