/* Tensors as the hardware's copies of boxes see them, and the phases that wait for copies:
 * gpu_wgmma.c, attend_wgmma.c. */
#ifndef TCC_GPU_BOX_H
#define TCC_GPU_BOX_H

#include "sched.h"

/* Has a value before the kernel runs, one for all of it. */
bool box_host_value(Node *);
/* The condition is one of *fits; false: it never holds, or only the device knows it. */
bool box_demand(Module *, Node **fits, Node *cond);
/* That so many elements of size bytes are a multiple of 16 bytes. */
bool box_sixteen(Module *, Node **fits, Node *elements, int size);
/* A further dimension of the map, of elements of size bytes, stride apart. */
bool box_dim(Module *, Node **fits, TensorMap *, int size, Node *extent, Node *stride, int box);
/* The finished map is an argument of the kernel, whose maps have room for it. */
void box_map(KB *, TensorMap *, Node *tensor);

/* A statement on one of the barriers: phase_init, phase_expect, phase_wait, phase_arrive, which
 * alone has no number (NULL). */
void box_phase(Module *, Region *, Node *bars, const char *what, Node *bar, Node *number);
/* A statement of order without a place: phase_fence, mma_commit, mma_wait, part_barrier ... */
void box_order(Module *, Region *, const char *what, int n, Node *const *numbers);
/* The stage of the n-th box, and how often it has been filled, modulo 2 (parity may be NULL). */
Node *box_stage(Module *, Region *, Node *n, int stages, Node **parity);

#endif
