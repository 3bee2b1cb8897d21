/*
 * Which work of a list must wait for which, and on which of a few lanes (a device's streams) each
 * piece runs. Two pieces that touch the same bytes, one of them writing, keep their order; nothing
 * else does. So branches of a model run side by side wherever the arena has not given them the same
 * memory, and no plan needs to know of it.
 */
#include <string.h>
#include "rt.h"

enum { LOOK_BACK = 256 };       /* what lies further back is taken to touch everything */

typedef struct Range {
	const uint8_t *p;
	uint64_t n;
} Range;

static bool meet(Range a, Range b)
{
	return a.n && b.n && a.p < b.p + b.n && b.p < a.p + a.n;
}

static bool writes(const TccKernel *k, uint32_t i)
{
	return k->writes >> (i < 63 ? i : 63) & 1;
}

/* The i-th range that the work touches; false past the last. */
static bool touches(const TccKernel *kernels, const TccWork *w, uint32_t i, Range *r, bool *written)
{
	const TccLaunch *l = &w->launch;
	if (w->kind == TCC_WORK_LAUNCH) {
		if (i > l->nbufs || (i == l->nbufs && !l->err))
			return false;
		*written = i == l->nbufs || writes(&kernels[l->kernel], i);
		*r = i == l->nbufs ? (Range){(uint8_t *)l->err, sizeof *l->err}
		                   : (Range){*(uint8_t **)l->params[i], l->sizes[i]};
		return true;
	}
	*written = i == 0;
	*r = (Range){i ? w->src : w->dst, i && w->kind == TCC_WORK_ZERO ? 0 : w->bytes};
	return i < 2;
}

static bool clash(const TccKernel *kernels, const TccWork *a, const TccWork *b)
{
	Range x, y;
	bool wx, wy;
	for (uint32_t i = 0; touches(kernels, a, i, &x, &wx); i++)
		for (uint32_t k = 0; touches(kernels, b, k, &y, &wy); k++)
			if ((wx || wy) && meet(x, y))
				return true;
	return false;
}

/* Per lane: 1 + the last piece of it that i must wait for, 0 for none. */
static void needs(const TccKernel *kernels, const TccWork *list, uint32_t i,
                  const uint32_t tail[TCC_LANES], uint32_t need[TCC_LANES])
{
	int open = 0;
	memset(need, 0, TCC_LANES * sizeof *need);
	for (int l = 0; l < TCC_LANES; l++)
		open += tail[l] != 0;
	for (uint32_t j = i; open && j > 0; j--) {
		const TccWork *w = &list[j - 1];
		if (need[w->lane] || !(i - j >= LOOK_BACK || clash(kernels, w, &list[i])))
			continue;
		need[w->lane] = j;
		open--;
	}
}

/* The lane whose last piece i waits for anyway, the later the better; else one that was never
 * used; else the one that has stood still for longest, and then i waits for its last piece too. */
static uint8_t choose(const uint32_t tail[TCC_LANES], const uint32_t need[TCC_LANES])
{
	int best = -1, idle = 0;
	for (int l = 0; l < TCC_LANES; l++) {
		if (need[l] && need[l] == tail[l] && (best < 0 || need[l] > need[best]))
			best = l;
		if (tail[l] < tail[idle])
			idle = l;
	}
	return (uint8_t)(best < 0 ? idle : best);
}

void tcc_lanes(const TccKernel *kernels, TccWork *list, uint32_t n)
{
	uint32_t tail[TCC_LANES] = {0}, need[TCC_LANES];
	/* what a lane knows to be done when its next piece starts, per lane */
	uint32_t known[TCC_LANES][TCC_LANES] = {{0}};
	for (uint32_t i = 0; i < n; i++) {
		TccWork *w = &list[i];
		needs(kernels, list, i, tail, need);
		w->lane = choose(tail, need);
		uint32_t *mine = known[w->lane];
		bool waits = false;
		memset(w->wait, 0, sizeof w->wait);
		for (int l = 0; l < TCC_LANES; l++) {
			if (l == w->lane || need[l] <= mine[l])
				continue;
			w->wait[l] = need[l];
			mine[l] = need[l];
			list[need[l] - 1].signals = waits = true;
		}
		w->signals = false;
		w->follows = !waits && tail[w->lane] && list[tail[w->lane] - 1].kind == TCC_WORK_LAUNCH;
		tail[w->lane] = i + 1;
	}
}
