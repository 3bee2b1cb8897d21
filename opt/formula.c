/*
 * The peak of the arena as text, where sizes depend on symbols: the largest sums of the buffers
 * that live at once. Placement may need a little more, for buffers begin at multiples of 64.
 */
#include <stdlib.h>
#include "sched.h"

enum { MAX_SUMS = 4, SAMPLE = 64, MAX_TEXT = 60 };

/* Names of large sizes replaced by what they stand for. */
static Node *
spelled_out(Module *m, Node *e)
{
	bool found = true;
	int rounds, n, i;
	Node **list;

	for (rounds = 0; found && rounds < 8 && e->size < 1000; rounds++) {
		list = topo_scalar(e, &n);
		for (found = false, i = 0; i < n && !found; i++)
			if (list[i]->code == O_SYM && list[i]->def) {
				e = subst1(m, e, list[i], list[i]->def);
				found = true;
			}
		free(list);
	}
	return e;
}

/* The value when every symbol is SAMPLE, or nearest to it; -1 if there is none. */
static int64_t
sample(Module *m, Node *e)
{
	int64_t v = -1;
	Map map = {0};
	Node **list;
	int n, i;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_SYM)
			map_put(&map, list[i],
				x_idx(m,
					list[i]->lo > SAMPLE ? list[i]->lo
				: list[i]->hi < SAMPLE ? list[i]->hi
				: SAMPLE));
	free(list);
	e = subst(m, e, &map, false);
	map_free(&map);
	return is_int(e, &v) ? v : -1;
}

static Node *
live_at(Module *m, const Plan *p, uint32_t step)
{
	Node *sum = x_idx(m, 0);
	const PlanBuf *b;
	int i;

	for (i = 0; i < p->nbufs; i++) {
		b = &p->bufs[i];
		if (b->cls == BUF_ARENA && b->alias < 0 && b->first <= step && step <= b->last)
			sum = x_add(m, sum, b->bytes ? spelled_out(m, b->bytes) : x_idx(m, b->size));
	}
	return sum;
}

typedef struct Sum { Node *e; int64_t at; } Sum;

/* Keeps the MAX_SUMS largest by their sample, none proved to be within another. */
static void
keep(Module *m, Sum *sums, int *n, Node *e)
{
	Sum s = {e, sample(m, e)};
	int i, k;

	for (i = 0; i < *n; i++)
		if (prove_le(m, e, sums[i].e))
			return;
	for (i = k = 0; i < *n; i++)
		if (!prove_le(m, sums[i].e, e))
			sums[k++] = sums[i];
	for (i = k; i > 0 && sums[i - 1].at < s.at; i--)
		if (i < MAX_SUMS)
			sums[i] = sums[i - 1];
	if (i < MAX_SUMS)
		sums[i] = s;
	*n = k < MAX_SUMS ? k + 1 : MAX_SUMS;
}

const char *
peak_formula(Module *m, const Plan *p)
{
	uint32_t last = 0, step;
	Sum sums[MAX_SUMS + 1];
	const char *text;
	int n = 0, i;

	for (i = 0; i < p->nbufs; i++)
		if (p->bufs[i].cls == BUF_ARENA && p->bufs[i].last != UINT32_MAX && p->bufs[i].last > last)
			last = p->bufs[i].last;
	for (step = 0; step <= last; step++) {
		for (i = 0; i < p->nbufs; i++)           /* sums grow only where a buffer begins */
			if (p->bufs[i].cls == BUF_ARENA && p->bufs[i].first == step)
				break;
		if (i < p->nbufs)
			keep(m, sums, &n, live_at(m, p, step));
	}
	for (i = 0, text = NULL; i < n; i++) {
		if (sums[i].e->size > MAX_TEXT)
			return NULL;
		text = arena_printf(m->arena, i ? "%s, %s" : "%s%s", i ? text : "",
			expr_print(m, sums[i].e));
	}
	return n > 1 ? arena_printf(m->arena, "max(%s)", text) : text;
}
