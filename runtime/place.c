/*
 * Offsets for buffers whose lifetimes are known when the context is made and whose sizes are known
 * when a run starts. Greedy by size: the largest first, each into the smallest gap between the
 * buffers that live at the same time and already have their place, or else above them (Pisarchyk
 * and Lee, "Efficient Memory Management for Deep Neural Net Inference"). Where that needs clearly
 * more than what lives at once, the buffer on top is moved to the front of the order, a few times,
 * and the best of all placements is taken.
 *
 * A new shape must cost microseconds, so who overlaps whom in time is worked out once, and the
 * order of the last call, which is nearly right for the next, is kept and mended by insertion.
 */
#include <stdlib.h>
#include <string.h>
#include "rt.h"

enum { TRIES = 24 };            /* other orders */

typedef struct Span {
	uint64_t begin, end;
} Span;

struct TccPlanner {
	uint32_t n;
	uint32_t *first, *last;
	uint32_t *order;        /* by falling size, as of the last call */
	uint32_t *other;        /* another order */
	uint64_t *at;           /* offsets in it */
	uint32_t *rank;         /* its inverse */
	uint32_t *start;        /* neighbours of i: near[start[i]] to near[start[i + 1]] */
	uint32_t *near;
	Span *busy;             /* places of one buffer's neighbours */
	bool sorted;
};

typedef struct Life {
	uint32_t first, last, id;
} Life;

static int by_first(const void *a, const void *b)
{
	const Life *x = a, *y = b;
	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* Calls each pair that lives at once: counts them, or, when fill is set, enters them. */
static uint64_t pairs(TccPlanner *p, const Life *life, uint32_t *fill)
{
	uint64_t total = 0;
	for (uint32_t i = 0; i < p->n; i++) {
		for (uint32_t j = i + 1; j < p->n && life[j].first <= life[i].last; j++) {
			uint32_t a = life[i].id, b = life[j].id;
			if (life[j].last < life[j].first)
				continue;
			total += 2;
			if (fill) {
				p->near[fill[a]++] = b;
				p->near[fill[b]++] = a;
			} else {
				p->start[a + 1]++;
				p->start[b + 1]++;
			}
		}
	}
	return total;
}

static bool find_neighbours(TccPlanner *p, Life *life)
{
	qsort(life, p->n, sizeof *life, by_first);
	uint64_t total = pairs(p, life, NULL);
	if (total > UINT32_MAX)
		return false;
	for (uint32_t i = 0; i < p->n; i++)
		p->start[i + 1] += p->start[i];
	uint32_t *fill = malloc((p->n + 1) * sizeof *fill);
	p->near = malloc((total + 1) * sizeof *p->near);
	if (fill && p->near) {
		memcpy(fill, p->start, p->n * sizeof *fill);
		pairs(p, life, fill);
	}
	free(fill);
	return fill && p->near;
}

TccPlanner *tcc_planner_new(uint32_t n, const uint32_t *first, const uint32_t *last)
{
	TccPlanner *p = calloc(1, sizeof *p);
	Life *life = calloc(n + 1, sizeof *life);
	if (p) {
		*p = (TccPlanner){
			.n = n,
			.first = calloc(n + 1, sizeof *p->first),
			.last = calloc(n + 1, sizeof *p->last),
			.order = calloc(n + 1, sizeof *p->order),
			.other = calloc(n + 1, sizeof *p->other),
			.at = calloc(n + 1, sizeof *p->at),
			.rank = calloc(n + 1, sizeof *p->rank),
			.start = calloc(n + 2, sizeof *p->start),
			.busy = calloc(n + 1, sizeof *p->busy),
		};
	}
	bool ok = p && life && p->first && p->last && p->order && p->other && p->at && p->rank &&
	          p->start && p->busy;
	for (uint32_t i = 0; ok && i < n; i++) {
		life[i] = (Life){first[i], last[i], i};
		p->first[i] = first[i];
		p->last[i] = last[i];
		p->order[i] = i;
	}
	ok = ok && find_neighbours(p, life);
	free(life);
	if (!ok) {
		tcc_planner_free(p);
		return NULL;
	}
	return p;
}

void tcc_planner_free(TccPlanner *p)
{
	if (!p)
		return;
	free(p->first);
	free(p->last);
	free(p->order);
	free(p->other);
	free(p->at);
	free(p->rank);
	free(p->start);
	free(p->near);
	free(p->busy);
	free(p);
}

static void sift(uint32_t *order, const uint64_t *size, uint32_t at, uint32_t n)
{
	uint32_t v = order[at];
	for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && size[order[child + 1]] < size[order[child]])
			child++;
		if (size[order[child]] >= size[v])
			break;
		order[at] = order[child];
	}
	order[at] = v;
}

static void heap_sort(uint32_t *order, const uint64_t *size, uint32_t n)
{
	for (uint32_t i = n / 2; i-- > 0;)
		sift(order, size, i, n);
	for (uint32_t i = n; i-- > 1;) {
		uint32_t v = order[0];
		order[0] = order[i];
		order[i] = v;
		sift(order, size, 0, i);
	}
}

static void sort_by_size(TccPlanner *p, const uint64_t *size)
{
	uint64_t moves = p->sorted ? 0 : UINT64_MAX, limit = 16 * (uint64_t)p->n;
	for (uint32_t i = 1; i < p->n && moves < limit; i++) {
		uint32_t v = p->order[i], j = i;
		for (; j > 0 && size[p->order[j - 1]] < size[v]; j--, moves++)
			p->order[j] = p->order[j - 1];
		p->order[j] = v;
	}
	if (moves >= limit)
		heap_sort(p->order, size, p->n);
	p->sorted = true;
}

/* The places of i's neighbours that precede it in the order, by rising begin. */
static uint32_t busy_spans(TccPlanner *p, uint32_t i, const uint64_t *size, const uint64_t *offset)
{
	uint32_t n = 0;
	for (uint32_t k = p->start[i]; k < p->start[i + 1]; k++) {
		uint32_t j = p->near[k];
		if (p->rank[j] >= p->rank[i] || !size[j])
			continue;
		Span s = {offset[j], offset[j] + tcc_round_up(size[j], TCC_ALIGN)};
		uint32_t at = n++;
		for (; at > 0 && p->busy[at - 1].begin > s.begin; at--)
			p->busy[at] = p->busy[at - 1];
		p->busy[at] = s;
	}
	return n;
}

/* The smallest gap that holds `need` bytes, the lowest of equals; else the end of all. */
static uint64_t best_fit(const Span *busy, uint32_t n, uint64_t need)
{
	uint64_t end = 0, best = UINT64_MAX, gap = UINT64_MAX;
	for (uint32_t i = 0; i < n; i++) {
		if (busy[i].begin > end && busy[i].begin - end >= need && busy[i].begin - end < gap) {
			gap = busy[i].begin - end;
			best = end;
		}
		if (busy[i].end > end)
			end = busy[i].end;
	}
	return best == UINT64_MAX ? end : best;
}

static uint64_t place_in_order(TccPlanner *p, const uint32_t *order, const uint64_t *size,
	uint64_t *offset)
{
	uint64_t total = 0;
	for (uint32_t i = 0; i < p->n; i++)
		p->rank[order[i]] = i;
	for (uint32_t k = 0; k < p->n; k++) {
		uint32_t i = order[k];
		offset[i] = 0;
		if (!size[i])
			continue;
		uint64_t need = tcc_round_up(size[i], TCC_ALIGN);
		offset[i] = best_fit(p->busy, busy_spans(p, i, size, offset), need);
		if (offset[i] + need > total)
			total = offset[i] + need;
	}
	return total;
}

/* The most that lives at once: no placement needs less. Some buffer begins where that is so. */
static uint64_t least(const TccPlanner *p, const uint64_t *size)
{
	uint64_t most = 0;
	for (uint32_t i = 0; i < p->n; i++) {
		uint64_t sum = tcc_round_up(size[i], TCC_ALIGN);
		for (uint32_t k = p->start[i]; k < p->start[i + 1]; k++) {
			uint32_t j = p->near[k];
			if (p->first[j] <= p->first[i] && p->first[i] <= p->last[j])
				sum += tcc_round_up(size[j], TCC_ALIGN);
		}
		most = sum > most ? sum : most;
	}
	return most;
}

/* The buffer that reaches the total goes first. */
static void top_first(const TccPlanner *p, const uint64_t *size, const uint64_t *offset,
	uint64_t total, uint32_t *order)
{
	uint32_t k = 0;
	while (k + 1 < p->n && offset[order[k]] + tcc_round_up(size[order[k]], TCC_ALIGN) != total)
		k++;
	uint32_t top = order[k];
	memmove(order + 1, order, k * sizeof *order);
	order[0] = top;
}

static uint64_t try_others(TccPlanner *p, const uint64_t *size, uint64_t *offset, uint64_t best)
{
	uint64_t bound = least(p, size), total = best;
	const uint64_t *from = offset;
	memcpy(p->other, p->order, p->n * sizeof *p->other);
	for (int i = 0; i < TRIES && best > bound + bound / 64; i++) {
		top_first(p, size, from, total, p->other);
		from = p->at;
		total = place_in_order(p, p->other, size, p->at);
		if (total < best) {
			best = total;
			memcpy(offset, p->at, p->n * sizeof *offset);
		}
	}
	return best;
}

uint64_t tcc_planner_place(TccPlanner *p, const uint64_t *size, uint64_t *offset)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < p->n; i++)
		if (size[i] > INT64_MAX - TCC_ALIGN ||
		    __builtin_add_overflow(sum, tcc_round_up(size[i], TCC_ALIGN), &sum))
			return UINT64_MAX;
	sort_by_size(p, size);
	return try_others(p, size, offset, place_in_order(p, p->order, size, offset));
}
