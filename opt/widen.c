/*
 * Halves that products read many times lie in memory as f32, rounded: a value is then converted where it
 * is made, once, instead of in each step of each product that reads it, which for the factor whose values
 * are broadcast takes more instructions than the multiply-adds.
 *
 *	f16 x                    ->   f32 x'  { f32(x's definition) }
 *	f32(%x[i]), %x[i]        ->   %x'[i], f16(%x'[i])
 *
 * Not constants: their conversion is shared by the rows of a tile, and memory often gives the time.
 *
 * Needs the tensor level with producers inlined; not for GPUs, whose matrix units take halves.
 */
#include <stdlib.h>
#include "sched.h"

enum {
	MIN_READS = 2,         /* by products, of each element */
	DEPTH = 8,             /* from constants */
};

typedef struct Widen {
	Map wide;              /* tensor -> itself: the ones to be widened */
	Map made;              /* what became of them */
} Widen;

static bool
is_half(const Node *t)
{
	return t->code == O_TENSOR && (dtype_of(t) == DT_F16 || dtype_of(t) == DT_BF16);
}

/* How often the product reads each element of its factor. */
static double
reads_of(Module *m, Node *t, Node *factor)
{
	double n = 1;
	int i;

	for (i = 0; i + 1 < t->nin; i++)
		if (!contains(factor, t->in[i]))
			n *= (double)likely_extent(m, t->in[i]->in[0]);
	return n;
}

static void
find_factors(Module *m, Node *t, Widen *w)
{
	Node **list, *f, *x;
	int i, k, n;

	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n; i++)
		for (k = 0; k < 2 && list[i]->code == O_REDUCE && list[i]->n == COMB_SUM
		 && contraction_reuse(m->machine, t, list[i]); k++) {
			f = list[i]->in[list[i]->nin - 1]->in[k];
			x = f->code == O_CAST && f->type->dtype == DT_F32 && f->in[0]->code == O_READ
				? f->in[0]->in[0] : NULL;
			if (x && is_half(x) && !from_constants(x, DEPTH) && reads_of(m, t, f) >= MIN_READS)
				map_put(&w->wide, x, x);
		}
	free(list);
}

/* What a wide tensor only moves is wide as well: paddings stay views of it. */
static void
find_moved(Widen *w, Node *e)
{
	if (e->code == O_SELECT) {
		find_moved(w, e->in[1]);
		find_moved(w, e->in[2]);
	} else if (e->code == O_READ && is_half(e->in[0]) && !from_constants(e->in[0], DEPTH))
		map_put(&w->wide, e->in[0], e->in[0]);
}

static void
keep(Widen *w, Node *t)
{
	if (t && map_get(&w->wide, t))
		map_put(&w->wide, t, NULL);
}

/* What anything but a definition reads keeps its type. */
static void
keep_others(Module *m, Widen *w, Node **list, int n)
{
	int i, k, j;

	for (i = 0; i < m->main->nresults; i++)
		keep(w, m->main->results[i]);
	for (i = 0; i < n; i++) {
		for (k = 0; k < list[i]->nin && list[i]->code != O_READ; k++)
			keep(w, list[i]->in[k]);
		for (k = 0; k < list[i]->nregions; k++)
			for (j = 0; j < list[i]->regions[k]->nresults; j++)
				keep(w, list[i]->regions[k]->results[j]);
	}
}

static bool
reads_wide(const Widen *w, const Node *e)
{
	return e->code == O_READ && map_get(&w->wide, e->in[0]);
}

/* The half e as f32. */
static Node *
wider(Module *m, const Widen *w, Node *e)
{
	if (e->code == O_SELECT)
		return x_select(m, e->in[0], wider(m, w, e->in[1]), wider(m, w, e->in[2]));
	if (e->code == O_CAST && e->in[0]->code == O_READ && map_get(&w->made, e->in[0]->in[0]))
		return e->in[0];
	return x_cast(m, DT_F32, e);
}

static Node *
widened(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Widen *w = ctx;
	Node *t;

	(void)done;
	if (reads_wide(w, n))
		return x_cast(m, dtype_of(n->in[0]), x_read(m, in[0], in + 1));
	if (n->code == O_CAST && n->type->dtype == DT_F32 && reads_wide(w, n->in[0]))
		return in[0]->in[0];
	if (!map_get(&w->wide, n))
		return NULL;
	t = t_tensor(m, n->nin - 1, in, wider(m, w, in[n->nin - 1]));
	if (!t->loc)
		t->loc = n->loc;
	map_put(&w->made, t, t);
	return t;
}

bool
pass_widen(Module *m)
{
	Widen w = {{0}, {0}};
	Node **list;
	int i, n;

	if (machine_gpu(m->machine))
		return true;
	list = topo(m->main->results, m->main->nresults, true, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_TENSOR)
			find_factors(m, list[i], &w);
	for (i = n; i-- > 0;)
		if (map_get(&w.wide, list[i]))
			find_moved(&w, list[i]->in[list[i]->nin - 1]);
	if (w.wide.n) {
		keep_others(m, &w, list, n);
		rewrite_module(m, false, widened, &w);
	}
	free(list);
	map_free(&w.wide);
	map_free(&w.made);
	return true;
}
