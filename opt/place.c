/* Offsets of arena buffers whose sizes are all constants, by the runtime's planner. */
#include <stdlib.h>
#include "runtime/place.h"
#include "sched.h"

void
place_static(Module *m, Plan *p)
{
	uint32_t *first = NEWN(m, uint32_t, p->nbufs + 1), *last = NEWN(m, uint32_t, p->nbufs + 1), n = 0;
	uint64_t *size = NEWN(m, uint64_t, p->nbufs + 1), *offset = NEWN(m, uint64_t, p->nbufs + 1);
	TccPlanner *planner;
	int i;

	for (i = 0; i < p->nbufs; i++) {
		if (p->bufs[i].cls != BUF_ARENA)
			continue;
		first[n] = (uint32_t)p->bufs[i].first;
		last[n] = (uint32_t)p->bufs[i].last;
		size[n++] = (uint64_t)p->bufs[i].size;
	}
	planner = tcc_planner_new(n, first, last);
	if (!planner)
		abort();
	p->arena_bytes = (int64_t)tcc_planner_place(planner, size, offset);
	tcc_planner_free(planner);
	if (p->arena_bytes < 0)
		diag_error(m->diag, X_UNSUPPORTED, NULL, "the activations need over 2^63 bytes");
	for (i = 0, n = 0; i < p->nbufs; i++)
		if (p->bufs[i].cls == BUF_ARENA)
			p->bufs[i].offset = (int64_t)offset[n++];
	p->is_static = true;
}
