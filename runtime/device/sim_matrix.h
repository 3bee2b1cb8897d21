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

#endif
