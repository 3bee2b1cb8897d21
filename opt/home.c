/*
 * Where values are computed. A pure node belongs to no region; here each gets the innermost region
 * common to its uses, then moves out of loops whose parameters it does not depend on, but never
 * out of a branch.
 */
#include <stdlib.h>
#include <string.h>
#include "opt.h"

typedef struct RegionInfo { Region *r, *parent; int depth, index; bool loop; } RegionInfo;

typedef struct Homes {
	RegionInfo *info; int n;
	Node **list; int count;
	uint64_t *deps; int words;   /* per node: the regions whose parameters it depends on */
	Map pos;                     /* node -> position in list + 1 */
	Map owner;                   /* symbol -> the loop or if that decides it */
} Homes;

static RegionInfo *
region_info(Homes *h, const Region *r)
{
	int i;

	for (i = 0; i < h->n && h->info[i].r != r; i++)
		;
	return i < h->n ? &h->info[i] : NULL;
}

static void
add_region(Homes *h, Region *r, bool loop)
{
	h->info = realloc(h->info, sizeof *h->info * (size_t)(h->n + 1));
	if (!h->info)
		abort();
	h->info[h->n] = (RegionInfo){r, NULL, 0, h->n, loop};
	h->n++;
}

static Region *
common(Homes *h, Region *a, Region *b)
{
	RegionInfo *x, *y;

	if (!a)
		return b;
	x = region_info(h, a);
	y = region_info(h, b);
	while (x != y)
		if (x->depth > y->depth)
			x = region_info(h, x->parent);
		else
			y = region_info(h, y->parent);
	return x->r;
}

static uint64_t *
deps_of(Homes *h, const Node *n)
{
	return h->deps + (uintptr_t)h->words * ((uintptr_t)map_get(&h->pos, n) - 1);
}

/* The parameters of a region, and the sizes that change with them, depend on the region. */
static void
own_params(Homes *h, const Node *n, int k)
{
	const Region *r = n->regions[k];
	RegionInfo *x = region_info(h, r);
	Node *p, *init;
	int i, d;

	for (i = 0; i < r->nparams; i++) {
		p = r->params[i];
		if (map_get(&h->pos, p))
			deps_of(h, p)[x->index / 64] |= 1ull << x->index % 64;
		init = n->code == O_LOOP && i > 0 ? n->in[1 + i] : NULL;
		for (d = 0; init && p->type->kind == T_TENSOR && d < rank_of(p); d++)
			if (dim_of(p, d)->code == O_SYM && dim_of(p, d) != dim_of(init, d)
				&& map_get(&h->pos, dim_of(p, d)))
				deps_of(h, dim_of(p, d))[x->index / 64] |= 1ull << x->index % 64;
	}
}

static void
compute_deps(Homes *h)
{
	uint64_t *d, *e;
	Node *n, *c;
	int i, k, r, w;

	for (i = 0; i < h->count; i++) {
		n = h->list[i];
		d = deps_of(h, n);
		for (k = 0; k < n->nin; k++)
			if (n->in[k])
				for (e = deps_of(h, n->in[k]), w = 0; w < h->words; w++)
					d[w] |= e[w];
		if (n->def)                      /* a symbol: what its value comes from */
			for (e = deps_of(h, n->def), w = 0; w < h->words; w++)
				d[w] |= e[w];
		if (n->code == O_SYM && (c = map_get(&h->owner, n)))
			for (e = deps_of(h, c), w = 0; w < h->words; w++)
				d[w] |= e[w];
		for (r = 0; r < n->nregions; r++) {
			for (k = 0; k < n->regions[r]->nresults; k++)
				if ((c = n->regions[r]->results[k]))
					for (e = deps_of(h, c), w = 0; w < h->words; w++)
						d[w] |= e[w];
			RegionInfo *x = region_info(h, n->regions[r]);
			d[x->index / 64] &= ~(1ull << x->index % 64);
		}
	}
}

static void
use(Homes *h, Map *home, Node *n, Region *r)
{
	Region *old = map_get(home, n);

	map_put(home, n, common(h, old, r));
}

static bool
depends(Homes *h, const Node *n, const RegionInfo *x)
{
	return deps_of(h, n)[x->index / 64] >> x->index % 64 & 1;
}

static void
assign(Homes *h, Region *main, Map *home)
{
	RegionInfo *x;
	Region *r;
	Node *n;
	int i, k, q;

	for (i = 0; i < main->nresults; i++)
		use(h, home, main->results[i], main);
	for (i = h->count; i-- > 0;) {
		n = h->list[i];
		r = map_get(home, n);
		if (!r)
			r = main;
		if (n->code == O_PARAM)
			for (k = 0; k < h->n; k++)
				for (q = 0; q < h->info[k].r->nparams; q++)
					if (h->info[k].r->params[q] == n)
						r = h->info[k].r;
		x = region_info(h, r);
		while (n->code != O_PARAM && x->loop && x->parent && !depends(h, n, x))
			x = region_info(h, r = x->parent);
		map_put(home, n, r);
		for (k = 0; k < n->nin; k++)
			if (n->in[k])
				use(h, home, n->in[k], r);
		if (n->def)
			use(h, home, n->def, r);
		if (n->code == O_SYM && map_get(&h->owner, n))
			use(h, home, map_get(&h->owner, n), r);
		for (k = 0; k < n->nregions; k++) {
			x = region_info(h, n->regions[k]);
			x->parent = r;
			x->depth = region_info(h, r)->depth + 1;
			for (q = 0; q < n->regions[k]->nresults; q++)
				if (n->regions[k]->results[q])
					use(h, home, n->regions[k]->results[q], n->regions[k]);
		}
	}
}

void
home_regions(Module *m, Map *home)
{
	Homes h = {0};
	Vec roots = {0};
	int i, k;

	for (i = 0; i < m->main->nresults; i++)
		vec_push(m, &roots, m->main->results[i]);
	for (i = 0; i < m->requires.n; i++)
		vec_push(m, &roots, ((Require *)m->requires.at[i])->cond);
	add_region(&h, m->main, false);
	symbol_owners(m, &h.owner);
	h.list = topo_decided((Node **)roots.at, roots.n, &h.owner, &h.count);
	for (i = 0; i < h.count; i++)
		for (k = 0; k < h.list[i]->nregions; k++)
			add_region(&h, h.list[i]->regions[k], h.list[i]->code == O_LOOP);
	h.words = (h.n + 63) / 64;
	h.deps = calloc((size_t)h.words * (size_t)(h.count + 1), sizeof *h.deps);
	if (!h.deps)
		abort();
	for (i = 0; i < h.count; i++)
		map_put(&h.pos, h.list[i], (void *)(uintptr_t)(i + 1));
	for (i = 0; i < h.count; i++)
		for (k = 0; k < h.list[i]->nregions; k++)
			own_params(&h, h.list[i], k);
	compute_deps(&h);
	assign(&h, m->main, home);
	free(h.list);
	free(h.deps);
	free(h.info);
	map_free(&h.pos);
	map_free(&h.owner);
}
