/* Offsets of arena buffers whose sizes are constants: largest first, each at the lowest gap that
 * fits. */
#include <stdlib.h>
#include "sched.h"

static _Thread_local const Plan *sorting;   /* qsort takes no context */

static int
by_size(const void *a, const void *b)
{
	const PlanBuf *x = &sorting->bufs[*(const int *)a], *y = &sorting->bufs[*(const int *)b];

	if (x->size != y->size)
		return x->size < y->size ? 1 : -1;
	return *(const int *)a - *(const int *)b;
}

static bool
overlap(const PlanBuf *a, const PlanBuf *b)
{
	return a->first <= b->last && b->first <= a->last;
}

static int64_t
lowest(const Plan *p, const int *placed, int n, const PlanBuf *b)
{
	const PlanBuf *q;
	int64_t at = 0;
	bool moved = true;
	int i;

	while (moved)
		for (i = 0, moved = false; i < n; i++) {
			q = &p->bufs[placed[i]];
			if (overlap(q, b) && at < q->offset + q->size && q->offset < at + b->size) {
				at = (q->offset + q->size + 63) / 64 * 64;
				moved = true;
			}
		}
	return at;
}

void
place_static(Module *m, Plan *p)
{
	int *order = NEWN(m, int, p->nbufs + 1), n = 0, i;
	PlanBuf *b;

	for (i = 0; i < p->nbufs; i++)
		if (p->bufs[i].cls == BUF_ARENA)
			order[n++] = i;
	sorting = p;
	qsort(order, (size_t)n, sizeof *order, by_size);
	for (i = 0; i < n; i++) {
		b = &p->bufs[order[i]];
		b->offset = lowest(p, order, i, b);
		if (b->offset + b->size > p->arena_bytes)
			p->arena_bytes = b->offset + b->size;
	}
	p->arena_bytes = (p->arena_bytes + 63) / 64 * 64;
	p->is_static = true;
}
