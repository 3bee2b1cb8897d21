/* What the GPU schedules of sums of products share: gpu_contract.c, gpu_mma.c. */
#ifndef TCC_GPU_CONTRACT_H
#define TCC_GPU_CONTRACT_H

#include "sched.h"

/* One factor. */
typedef struct Side {
	Node *e, *read;        /* the factor, and the read in it */
	Node *axes[MAX_RANK];  /* of the result, that only this factor has: slowest first */
	int n;
	Node *extent, *block;  /* elements in all; which tile this block has */
	int width;             /* of the tile */
	bool deep;             /* brought along the depth, else along its own axes */
	int lanes;             /* elements at a time */
	Node *tile;            /* [BK][width + PAD] */
	Node *first;           /* of the thread's 4, within the tile */
} Side;

typedef struct Gemm {
	KB *kb;
	Module *m;
	Frame f;
	Contraction c;
	Nest nest;
	Side a, b;
	Node *batch[MAX_RANK];
	int nbatch;
	bool flat;             /* the summed axes as one */
	Map at;                /* batch axes, and the slow summed axes of a step, to their values */
	Node *k0, *depth;      /* where a step begins, and the extent it goes along */
	int threads;
	/* the depth's steps are dealt out to teams of threads in turn, whose sums are added at the end */
	int teams, team_threads;
	Node *team, *member;   /* a thread's team, its number in it */
	Node *alive;           /* is the team's step one? */
	Node *acc;
	bool rows_last;        /* the result is contiguous along rows */
} Gemm;

/* The summed axes at element k of the step, and the batch axes. */
void gemm_bind_depth(Gemm *, Map *, Node *k);
void gemm_bind_batch(Gemm *, Map *);
double gemm_extent(Module *, int n, Node *const *axes);   /* a number to expect */

/* Sums of a tile that lie in shared memory: rows of the slow side; of the fast one the whole width, or so many
 * columns from the given one on. */
typedef struct SumTile {
	Side *slow, *fast;
	int rows, columns;
	Node *column;
	Node *(*row)(void *ctx, Node *y);          /* of the block's tile, that row y here is */
	Node *(*sum)(void *ctx, Node *y, Node *x);
	void *ctx;
} SumTile;
/* Computes what follows the sum, and stores it along the result. */
void gemm_write(Gemm *, Region *, const SumTile *);

/* gpu_mma.c: on matrix units; NULL if they cannot. */
Kernel *mma_gpu(Gemm *);

#endif
