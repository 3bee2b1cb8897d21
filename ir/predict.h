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
	/* what the time is due to: "dram", "l2", "shared", "fp32", "issue", "latency", "launch" */
	const char *limit;
	double roofline_share; /* the time that bytes or flops alone would take, of it */
	double blocks;
	double flops, bytes;   /* bytes: of the buffers that are touched, each once */
	double sector_ratio, wavefront_ratio;   /* actual over ideal; 1 where nothing is accessed */
	double occupancy;      /* threads that a unit holds, of those it may */
} Prediction;

/* registers: of a thread, 0 if not known. False: *unknown is a size that only a run knows. */
bool kernel_predict(Module *, const Kernel *, const Machine *, int registers, Prediction *,
	Node **unknown);

#endif
