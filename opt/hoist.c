/*
 * hoist: a reduction that does not depend on some axes of its tensor (a convolution whose weights
 * are all equal, say) is computed for each element along them again. It becomes a tensor of its
 * own, over the axes that it does depend on. So does one of constants, which then folds. Needs the
 * tensor level; leaves reductions whose elements are worth keeping computed once.
 */
#include <stdlib.h>
#include "sched.h"

enum { MIN_REPEATS = 4, MAX_DEPTH = 8 };

typedef struct Hoist { Node *t; Map bound, guarded; } Hoist;

/* Maps every part of root to it. */
static void
mark(Map *map, Node *root)
{
	Node **list;
	int i, n;

	list = topo_scalar(root, &n);
	for (i = 0; i < n; i++)
		map_put(map, list[i], root);
	free(list);
}

/* What loops bind, and what is evaluated under a condition. */
static void
survey(Hoist *h, Node **list, int n)
{
	int i, k;

	for (i = 0; i < n; i++) {
		if (list[i]->code == O_SELECT) {
			mark(&h->guarded, list[i]->in[1]);
			mark(&h->guarded, list[i]->in[2]);
		}
		for (k = 0; list[i]->code == O_REDUCE && k + 1 < list[i]->nin; k++)
			map_put(&h->bound, list[i]->in[k], list[i]);
		if (list[i]->code == O_ITER)
			mark(&h->guarded, list[i]->in[3]);
	}
}

/* Does the reduction use an axis that a loop around it binds? */
static bool
within(Hoist *h, Node *red)
{
	Node **list;
	int i, n;
	bool yes = false;

	list = topo_scalar(red, &n);
	for (i = 0; i < n && !yes; i++)
		yes = list[i]->code == O_CARRY || (list[i]->code == O_AXIS
			&& map_get(&h->bound, list[i])
			&& !contains(red, map_get(&h->bound, list[i])));
	free(list);
	return yes;
}

/* Does it read constants alone? */
static bool
reads_constants(Node *red)
{
	Node **list;
	int i, n;
	bool yes = true;

	list = topo_scalar(red, &n);
	for (i = 0; i < n && yes; i++)
		yes = list[i]->code != O_SYM
			&& (list[i]->code != O_READ || from_constants(list[i]->in[0], MAX_DEPTH));
	free(list);
	return yes;
}

/* The reduction as a read of a tensor over the axes that it depends on; NULL: as it is. */
static Node *
hoisted(Module *m, Node *red, void *ctx)
{
	Hoist *h = ctx;
	Node *axes[MAX_RANK], *idx[MAX_RANK], *u, *t = h->t;
	Map map = {0};
	int64_t repeats = 1;
	int i, n = 0;

	for (i = 0; i + 1 < t->nin; i++)
		if (!contains(red, t->in[i]))
			repeats = sat_mul(repeats, likely_extent(m, t->in[i]->in[0]));
	if (map_get(&h->guarded, red) || within(h, red))
		return NULL;
	if (repeats < MIN_REPEATS && (red == t->in[t->nin - 1] || !reads_constants(red)))
		return NULL;
	for (i = 0; i + 1 < t->nin; i++)
		if (contains(red, t->in[i])) {
			idx[n] = t->in[i];
			axes[n] = x_axis(m, t->in[i]->in[0]);
			map_put(&map, idx[n], axes[n]);
			n++;
		}
	u = t_tensor(m, n, axes, subst(m, red, &map, true));
	u->loc = t->loc;
	map_free(&map);
	return x_read(m, u, idx);
}

static Node *
hoist_node(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Node **list, *t, *r;
	Hoist h = {0};
	int count;

	(void)done, (void)ctx;
	if (n->code != O_TENSOR || n->attrs)       /* what is chosen already stays */
		return NULL;
	t = t_tensor(m, n->nin - 1, in, in[n->nin - 1]);
	if (t->code != O_TENSOR)
		return NULL;
	t->loc = n->loc;
	h.t = t;
	list = topo_scalar(t->in[t->nin - 1], &count);
	survey(&h, list, count);
	free(list);
	r = replace_reductions(m, t, hoisted, &h);
	map_free(&h.bound);
	map_free(&h.guarded);
	return r;
}

bool
pass_hoist(Module *m)
{
	rewrite_module(m, false, hoist_node, NULL);
	return true;
}
