/*
 * CPU schedule of the class order: positions in a sorted sequence. Their definition counts, for
 * each element, those that come before it; where the order is the total one that ir.h's x_before
 * gives, with ties in the order of the indices, a stable merge sort finds the same numbers in n
 * log n steps. Short rows are counted, in lanes.
 */
#include <stdlib.h>
#include "sched.h"

/* Rows up to so many elements are counted; doublings of runs; simple operations an element
 * sorted. */
enum { COUNTED = 512, MAX_PASSES = 32, SORT_COST = 400 };

/* Do a and b, of elements p and q, compare to what is counted, in one of the two directions? */
static bool
is_order(Module *m, Sorting *o, Node *a, Node *b)
{
	int k;

	for (k = 0; k < 2; k++)
		if (o->before == x_before(m, a, b, o->p, o->q, k)) {
			o->key = a;
			o->descending = k;
			return true;
		}
	return false;
}

/* The keys: what an equality within the condition compares. */
static bool
orders(Module *m, Sorting *o)
{
	Node **list, *a, *b;
	int i, k, n;
	bool ok = false;

	list = topo_scalar(o->before, &n);
	for (i = 0; i < n && !ok; i++)
		for (k = 0; k < 2 && list[i]->code == O_EQ && !ok; k++) {
			a = list[i]->in[k], b = list[i]->in[1 - k];
			ok = contains(a, o->p) && !contains(a, o->q)
				&& b == subst1(m, a, o->p, o->q) && is_order(m, o, a, b);
		}
	free(list);
	return ok;
}

bool
sorting_of(Module *m, Node *t, Sorting *o)
{
	Node *red = t->in[t->nin - 1], *sel;
	int i;

	if (t->code != O_TENSOR || red->code != O_REDUCE || red->n != COMB_SUM || red->nin != 2)
		return false;
	sel = red->in[1];
	if (sel->code != O_SELECT || !is_intv(sel->in[1], 1) || !is_intv(sel->in[2], 0))
		return false;
	*o = (Sorting){.p = red->in[0], .before = sel->in[0]};
	for (i = 0; i + 1 < t->nin; i++) {
		o->q = t->in[i];
		o->axis = i;
		if (o->q->in[0] == o->p->in[0] && contains(o->before, o->q) && orders(m, o))
			return const_or(o->q->in[0], INT64_MAX) > COUNTED;
	}
	return false;
}

bool
is_sorting(Module *m, Node *t)
{
	Sorting o;

	return sorting_of(m, t, &o);
}

/* ---- counting ------------------------------------------------------------------------------- */

typedef struct Row { Node *t, *body, *q; Node **idx; int axis; } Row;

static void
count_body(KB *kb, Region *r, Node *i, void *ctx)
{
	Row *c = ctx;

	c->idx[c->axis] = i;
	kb_store(kb, r, c->t, c->idx, kb_emit(kb, r, subst1(kb->m, c->body, c->q, i)));
}

/* ---- sorting -------------------------------------------------------------------------------- */

typedef struct Sort {
	KB *kb;
	Sorting o;
	Node *n, *perm;        /* elements; two permutations of them, one merged from the other */
	Node *from, *width, *left, *right;   /* cells */
} Sort;

static Node *
cell(Sort *s, Region *r, Node *init)
{
	Node *one = x_idx(s->kb->m, 1), *zero = x_idx(s->kb->m, 0), *c;

	c = l_alloc(s->kb->m, r, l_buffer(s->kb->m, "at", DT_INDEX, SP_REG, 1, &one));
	l_store(s->kb->m, r, c, 1, &zero, init);
	return c;
}

static Node *
get(Sort *s, Region *r, Node *cell)
{
	Node *zero = x_idx(s->kb->m, 0), *v = l_let(s->kb->m, r, l_load(s->kb->m, cell, 1, &zero));

	v->lo = 0;
	return v;
}

static void
set(Sort *s, Region *r, Node *cell, Node *v)
{
	Node *zero = x_idx(s->kb->m, 0);

	l_store(s->kb->m, r, cell, 1, &zero, v);
}

static Node *
element(Sort *s, Node *half, Node *at)
{
	return x_cast(s->kb->m, DT_INDEX, l_load(s->kb->m, s->perm, 2, (Node *[]){half, at}));
}

/* One element of a merged run: the left run's, unless the right one's comes before it. */
static void
merge_step(Sort *s, Region *r, Node *from, Node *mid, Node *end, Node *to)
{
	Module *m = s->kb->m;
	Node *i = get(s, r, s->left), *j = get(s, r, s->right), *right, *take, *one;
	Map map = {0};

	map_put(&map, s->o.p, element(s, from, j));
	map_put(&map, s->o.q, element(s, from, i));
	right = subst(m, s->o.before, &map, false);
	map_free(&map);
	take = x_select(m, x_lt(m, j, end), x_not(m, right), x_bool(m, true));
	take = x_select(m, x_lt(m, i, mid), take, x_bool(m, false));
	take = l_let(m, r, kb_emit(s->kb, r, take));
	one = x_select(m, take, element(s, from, i), element(s, from, j));
	one = l_let(m, r, x_cast(m, DT_I32, one));
	l_store(m, r, s->perm, 2, (Node *[]){x_sub(m, x_idx(m, 1), from), to}, one);
	set(s, r, s->left, x_add(m, i, x_select(m, take, x_idx(m, 1), x_idx(m, 0))));
	set(s, r, s->right, x_add(m, j, x_select(m, take, x_idx(m, 0), x_idx(m, 1))));
}

/* Runs of `width` merge in pairs, and the width doubles. */
static void
merge_pass(Sort *s, Region *r)
{
	Module *m = s->kb->m;
	Node *w = get(s, r, s->width), *from = get(s, r, s->from), *base, *mid, *end, *k;
	Node *two = l_let(m, r, x_muli(m, w, 2)), *pair = x_axis(m, x_ceildiv(m, s->n, two));
	Region *in = region_new(m, NULL), *step = region_new(m, NULL);

	base = l_let(m, in, x_mul(m, pair, two));
	mid = l_let(m, in, x_min(m, x_add(m, base, w), s->n));
	end = l_let(m, in, x_min(m, x_add(m, base, two), s->n));
	set(s, in, s->left, base);
	set(s, in, s->right, mid);
	k = x_axis(m, x_sub(m, end, base));
	merge_step(s, step, from, mid, end, x_add(m, base, k));
	l_for(m, in, F_SERIAL, k, step);
	l_for(m, r, F_SERIAL, pair, in);
	set(s, r, s->width, two);
	set(s, r, s->from, x_sub(m, x_idx(m, 1), from));
}

static void
sort_row(Sort *s, Region *r, Node *t, Node **idx)
{
	Module *m = s->kb->m;
	Node *ext[2] = {x_idx(m, 2), s->n}, *k = x_axis(m, s->n), *from;
	Node *pass = x_axis(m, x_idx(m, MAX_PASSES));
	Region *in = region_new(m, NULL), *merge = region_new(m, NULL), *out = region_new(m, NULL);

	s->perm = l_alloc(m, r, l_buffer(m, "order", DT_I32, SP_STACK, 2, ext));
	s->from = cell(s, r, x_idx(m, 0));
	s->width = cell(s, r, x_idx(m, 1));
	s->left = cell(s, r, x_idx(m, 0));
	s->right = cell(s, r, x_idx(m, 0));
	l_store(m, in, s->perm, 2, (Node *[]){x_idx(m, 0), k}, x_cast(m, DT_I32, k));
	l_for(m, r, F_SERIAL, k, in);
	merge_pass(s, merge);
	in = region_new(m, NULL);
	l_when(m, in, x_lt(m, get(s, in, s->width), s->n), merge, NULL);
	l_for(m, r, F_SERIAL, pass, in);
	from = get(s, r, s->from);
	k = x_axis(m, s->n);
	idx[s->o.axis] = l_let(m, out, element(s, from, k));
	idx[s->o.axis]->lo = 0;
	kb_store(s->kb, out, t, idx, x_cast(m, dtype_of(t), k));
	l_for(m, r, F_SERIAL, k, out);
}

Kernel *
order_cpu(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Node *t = g->members[0], *axes[MAX_RANK], *idx[MAX_RANK], *unit, *body = t->in[t->nin - 1];
	Sort sort = {.kb = &kb};
	Region *r = region_new(m, NULL), *in = region_new(m, NULL);
	Region *few = region_new(m, NULL), *many = region_new(m, NULL);
	Map map = {0};
	Row row;
	int i, n = 0;

	if (!sorting_of(m, t, &sort.o))
		return NULL;
	for (i = 0; i + 1 < t->nin; i++)
		if (i != sort.o.axis)
			axes[n++] = t->in[i];
	unit = kb_units(&kb, g, in, axes_product(m, n, axes));
	digits(m, &map, n, axes, unit);
	for (i = 0; i + 1 < t->nin; i++)
		idx[i] = i == sort.o.axis ? NULL : map_get(&map, t->in[i]);
	body = subst(m, body, &map, false);
	sort.o.before = subst(m, sort.o.before, &map, false);
	map_free(&map);
	sort.n = dim_of(t, sort.o.axis);
	row = (Row){.t = t, .body = body, .q = sort.o.q, .idx = idx, .axis = sort.o.axis};
	vector_loop(&kb, few, sort.n, lanes_of(s, widest_type(body)), count_body, &row);
	sort_row(&sort, many, t, idx);
	l_when(m, in, x_le(m, sort.n, x_idx(m, COUNTED)), few, many);
	kb.k->scratch = x_muli(m, x_ceildiv(m, sort.n, x_idx(m, 8)), 64);
	kb.k->cost = x_muli(m, sort.n, SORT_COST);
	kb.k->flops = SORT_COST;
	kb_parallel(&kb, r, in);
	return kb_finish(&kb, r, "class=order");
}
