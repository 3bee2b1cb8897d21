/*
 * The memory planner: offsets in one block for buffers with known lifetimes. The compiler uses it
 * where all sizes are numbers, the runtime where a run brings them.
 */
#ifndef TCC_PLACE_H
#define TCC_PLACE_H

#include <stdint.h>

enum { TCC_ALIGN = 64 };        /* of offsets, bytes */

typedef struct TccPlanner TccPlanner;

/* Buffer i lives from step first[i] to last[i], both included. NULL: no memory. */
TccPlanner *tcc_planner_new(uint32_t n, const uint32_t *first, const uint32_t *last);
void tcc_planner_free(TccPlanner *p);
/* Offsets, multiples of TCC_ALIGN, at which no two buffers that live at once overlap. Returns the
 * bytes needed, or UINT64_MAX if they overflow. */
uint64_t tcc_planner_place(TccPlanner *p, const uint64_t *sizes, uint64_t *offsets);

#endif
