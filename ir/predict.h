/*
 * How long a GPU kernel takes, by its text and the machine's row alone: a prediction. What a warp
 * asks of memory follows from its addresses, evaluated for a block in the middle of the grid, and
 * of its loops an iteration in the middle.
 */
#ifndef TCC_PREDICT_H
#define TCC_PREDICT_H

#include "machine.h"

typedef struct Prediction {
	double us;             /* a launch */
	/* what most of the time is due to: "dram", "l2", "matrix", "fp32", "special", "shared",
	 * "issue", "latency", "launch" */
	const char *limit;
	double roofline_share; /* the time that bytes or flops alone would take, of it */
	double blocks;
	double flops, bytes;   /* bytes: of the buffers that are touched, each once */
	double dram_bytes;     /* that memory moves, what is fetched again included */
	double matrix_flops;   /* of flops: by matrix units */
	double sector_ratio, wavefront_ratio;   /* actual over ideal; 1 where nothing is accessed */
	double occupancy;      /* threads that a unit holds, of those it may */
} Prediction;

/* registers: of a thread, 0 if not known. False: *unknown is a size that only a run knows. */
bool kernel_predict(Module *, const Kernel *, const Machine *, int registers, Prediction *,
	Node **unknown);

/* ---- clocks.c: the time of a block's work ---------------------------------------------------- */

/* What a block does between two points that its threads pass together: sums over the block. */
typedef struct Phase {
	double matrix;         /* clocks of a unit's matrix units, at the rate that they reach */
	double plain;          /* instructions of the fp32 units, of a warp */
	double special;        /* of those of reciprocals, exp2 and the like, of a warp */
	double issued;         /* instructions of warps */
	double passes;         /* over shared memory's banks */
	double l2, dram;       /* bytes of global memory: that are asked for, that memory moves */
	double waits;          /* clocks for memory and for each other, one after another */
} Phase;

/* A kernel's launch: blocks in all, what one needs. registers: of a thread, 0 if not known. */
typedef struct Launch { double blocks; int warps; int64_t shared; int registers; } Launch;

typedef enum Resource { R_DRAM, R_L2, R_MATRIX, R_FP32, R_SPECIAL, R_SHARED, R_ISSUE, R_LATENCY,
	N_RESOURCES } Resource;
extern const char *const resources[N_RESOURCES];

extern const double launch_us;          /* between the kernels of a captured graph */
extern const double load_clocks;        /* of a load from memory */
extern const double block_clocks;       /* before a pipeline of copies runs */
extern const double barrier_clocks;

double mma_clocks(const Machine *, const Mma *);   /* of a unit for one instruction of a warp */
double gpu_resident(const Machine *, const Launch *);   /* blocks that a unit holds at once */
/* Microseconds of the kernel without its launch, phases one after another. by, if not NULL: +=
 * of it, what each resource is to blame for. */
double work_us(const Machine *, const Launch *, const Phase *, int n, double *by);

#endif
