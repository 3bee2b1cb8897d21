/* Tensors as the hardware's copies of boxes see them: gpu_wgmma.c, attend_wgmma.c. */
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

#endif
