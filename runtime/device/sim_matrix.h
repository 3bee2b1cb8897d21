/* Matrix instructions of the simulator. */
#ifndef TCC_SIM_MATRIX_H
#define TCC_SIM_MATRIX_H

#include <stdbool.h>
#include <stdint.h>

/* A lane's fragments. */
typedef struct SimFragments {
	void *c;                /* f32 or i32 */
	const uint32_t *a, *b;
} SimFragments;

/* C += A B over the lanes' fragments; false: no instruction of that name for so many lanes. */
bool sim_matrix(const char *name, int lanes, const SimFragments *const *f);

/* A product of a warp group (wgmma): bytes of an element, depth, whether sums are f32, else i32. */
typedef struct SimProduct { const char *name; int size, k; bool floats; int kind[2]; } SimProduct;
const SimProduct *sim_product(const char *name);        /* NULL: none */
/* An element in memory, of A or B. */
float sim_matrix_float(const SimProduct *x, const void *at, bool b);
int32_t sim_matrix_byte(const SimProduct *x, const void *at, bool b);

#endif
