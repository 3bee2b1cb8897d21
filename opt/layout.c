/*
 * Storage layouts, chosen after grouping from what the kernels on both sides ask.
 *
 * A contraction wants its result contiguous along the axis that only its second operand has (the
 * vector axis), and its first operand contiguous along an axis that it sums over plainly. A window
 * (depthwise convolution, pooling) wants the axis that indexes operand and result alike and is not
 * summed over. Tensors that kernels of the other classes read and write element for element vote
 * together, and so do a tensor and its padding, which become one memory. Inputs, outputs and what
 * regions pass are row-major. A constant follows its reader. Words and their bytes vote together as
 * well, for the dimension along which those are taken.
 *
 * pass_layout writes what it decides on tensors and constants: attribute `order` lists the
 * dimensions, the contiguous one last, and `block` cuts that one of a constant, or of what pack.c
 * copies, into blocks (sched.h, Storage). Without them a value is row-major. `halo` and `part` are halo.c's. What is
 * written already stays.
 */
#include <stdlib.h>
#include <string.h>
#include "sched.h"

enum { LONG_BLOCK = 8, FEW = 8 };

typedef struct Voter { Node *t; struct Voter *up; double votes[MAX_RANK]; bool fixed; } Voter;

typedef struct Layout { Sched *s; Map voters; Vec all; } Layout;

static Voter *
voter(Layout *l, Node *t)
{
	Voter *v = map_get(&l->voters, t);

	if (!v) {
		v = NEW(l->s->m, Voter);
		v->t = t;
		v->fixed = t->code != O_TENSOR || attr_find(t->attrs, "order");
		map_put(&l->voters, t, v);
		vec_push(l->s->m, &l->all, v);
	}
	return v;
}

static Voter *
find(Voter *v)
{
	while (v->up)
		v = v->up;
	return v;
}

static void
vote(Layout *l, Node *t, int dim, double weight)
{
	find(voter(l, t))->votes[dim] += weight;
}

/* Not with what is fixed: its neighbours need not suffer from that. */
static void
join(Layout *l, Node *a, Node *b)
{
	Voter *x = find(voter(l, a)), *y = find(voter(l, b));
	int i;

	if (x == y || rank_of(a) != rank_of(b) || x->fixed != y->fixed)
		return;
	y->up = x;
	for (i = 0; i < MAX_RANK; i++)
		x->votes[i] += y->votes[i];
}

/* The dimension of a read that is indexed by the axis itself, -1 if none. */
static int
plain_dim(const Node *read, const Node *axis)
{
	int i;

	for (i = 1; i < read->nin; i++)
		if (read->in[i] == axis)
			return i - 1;
	return -1;
}

static int
tensor_dim(const Node *t, const Node *axis)
{
	int i;

	for (i = 0; i + 1 < t->nin; i++)
		if (t->in[i] == axis)
			return i;
	return -1;
}

/* Has something decided how the constant lies? */
static bool
has_layout(const Sched *s, const Node *w)
{
	return map_get(&s->storage, w) || attr_find(w->attrs, "order");
}

bool
panel_order(const Contraction *c, int *order)
{
	Node *w = c->b->in[0];
	bool used[MAX_RANK] = {0};
	int n = 0, i, d;

	for (i = 0; i < rank_of(w); i++) {       /* dims indexed by neither n nor a sum first */
		Node *e = c->b->in[i + 1];
		for (d = 0; d < c->nred && e != c->red[d]; d++)
			;
		if (e != c->n && d == c->nred)
			order[n++] = i, used[i] = true;
	}
	for (d = 0; d < c->nred; d++)
		if ((i = plain_dim(c->b, c->red[d])) >= 0 && !used[i])
			order[n++] = i, used[i] = true;
	i = plain_dim(c->b, c->n);
	if (i < 0 || used[i] || n != rank_of(w) - 1)
		return false;
	order[n] = i;
	return true;
}

/* Is the dimension of b walked by a sum? */
static bool
is_summed(const Contraction *c, int dim)
{
	int i;

	for (i = 0; i < c->nred; i++)
		if (plain_dim(c->b, c->red[i]) == dim)
			return true;
	return false;
}

/* Weights of a contraction: blocks of columns, the sums' axes in the order of the loops. */
static void
pack_constant(Layout *l, Contraction *c)
{
	Node *w = c->b->in[0];
	int order[MAX_RANK], rank = rank_of(w), i, n;
	Storage *st;

	if (definition(w)->code != O_CONST || has_layout(l->s, w) || !panel_order(c, order))
		return;
	if (l->s->gpu && takes_depth(l->s, c)) {         /* the column before the sums, not after */
		for (i = rank - 1, n = order[i]; i > 0 && is_summed(c, order[i - 1]); i--)
			order[i] = order[i - 1];
		order[i] = n;
	}
	st = storage_of(l->s, w);
	st->block = l->s->gpu ? 0 : c->nr;
	storage_set_order(l->s, st, order);
}

/* What else is constant and read along the columns lies along them. */
static void
follow_columns(Layout *l, Node *t, const Contraction *c)
{
	Node **list, *w;
	int order[MAX_RANK], i, k, d, n, count;

	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n; i++) {
		if (list[i]->code != O_READ || definition(w = list[i]->in[0])->code != O_CONST)
			continue;
		d = plain_dim(list[i], c->n);
		if (d < 0 || d == rank_of(w) - 1 || has_layout(l->s, w))
			continue;
		for (k = 0, count = 0; k < rank_of(w); k++)
			if (k != d)
				order[count++] = k;
		order[count] = d;
		storage_set_order(l->s, storage_of(l->s, w), order);
	}
	free(list);
}

static double
elements(const Node *t)
{
	double n = 1;
	int i;

	for (i = 0; i + 1 < t->nin; i++)
		n *= (double)const_or(t->in[i]->in[0], 16);
	return n;
}

/*
 * A GPU's product brings and stores tiles along any axis, so its result lies along an axis of
 * either factor, as readers ask.
 */
static void
contraction_votes(Layout *l, Group *g)
{
	Contraction c;
	Node *t = g->members[0], *fill;
	double flops = elements(t);
	int i, d;

	if (!contraction_of(l->s, t, &c))
		return;
	for (i = 0; i < c.nred; i++)
		flops *= (double)const_or(c.red[i]->in[0], 64);
	if ((d = tensor_dim(t, c.n)) >= 0)
		vote(l, t, d, l->s->gpu ? elements(t) : flops);
	d = rank_of(t) - 1;
	if (l->s->gpu && d >= 0 && contains(c.ea, t->in[d]) && !contains(c.eb, t->in[d]))
		vote(l, t, d, elements(t));
	for (i = c.nred, d = -1; i-- > 0 && d < 0;)
		d = plain_dim(c.a, c.red[i]);
	if (!l->s->gpu && words_of(l->s->m, c.a->in[0], &i, &fill))
		d = i;                               /* their bytes side by side */
	if (d >= 0 && likely_extent(l->s->m, dim_of(c.a->in[0], d)) >= FEW)
		vote(l, c.a->in[0], d, flops);       /* a few channels may lie apart: values are broadcast */
	if (definition(c.b->in[0])->code != O_CONST && (d = plain_dim(c.b, c.n)) >= 0)
		vote(l, c.b->in[0], d, flops);
}

/*
 * Keys pass through panels, so they lie as they come; queries and keys want what is summed over to
 * be contiguous, values and result the columns.
 */
static void
attention_votes(Layout *l, Group *g)
{
	Attention a;
	double flops;
	int i, d;

	if (!attention_of(l->s, g->members[g->n - 1], &a))
		return;
	flops = elements(a.out) * (double)const_or(a.key->in[0], 64);
	for (i = a.qk.nred; i-- > 0;)
		if ((d = plain_dim(a.qk.a, a.qk.red[i])) >= 0) {
			vote(l, a.qk.a->in[0], d, flops);
			break;
		}
	for (i = a.qk.nred; i-- > 0;)
		if ((d = plain_dim(a.qk.b, a.qk.red[i])) >= 0) {
			vote(l, a.qk.b->in[0], d, flops);
			break;
		}
	if ((d = plain_dim(a.pv.b, a.pv.n)) >= 0)
		vote(l, a.pv.b->in[0], d, flops);
	vote(l, a.out, tensor_dim(a.out, a.pv.n), flops);
}

/* Is e an index k * K + i with i < K, in long blocks? */
static bool
in_blocks(Module *m, Node *e)
{
	Node **list, *c, *rest;
	int64_t size;
	int i, n;
	bool yes = false;

	list = topo_scalar(e, &n);
	for (i = 0; i < n && !yes; i++)
		yes = list[i]->code == O_AXIS && linear_in(m, e, list[i], &c, &rest) && is_int(c, &size)
			&& size >= LONG_BLOCK && rest->lo >= 0 && rest->hi < size;
	free(list);
	return yes;
}

static bool
moves_with_result(const Node *t, Node *index)
{
	int i;

	for (i = 0; i + 1 < t->nin; i++)
		if (contains(index, t->in[i]))
			return true;
	return false;
}

/* Does t read in windows, which move with an axis of it? Blocks along the last dimension are rows. */
static bool
is_windowed(Module *m, const Node *t, const Node *read)
{
	int k;

	for (k = 1; read->code == O_READ && k < read->nin; k++)
		if (read->in[k]->code == O_ADD && read->in[k]->type->dtype == DT_INDEX
		 && moves_with_result(t, read->in[k])
		 && !(k == read->nin - 1 && in_blocks(m, read->in[k])))
			return true;
	return false;
}

/* The dimension that the axis indexes, from a constant on (a part of a concatenation); -1: none. */
static int
shifted_dim(Module *m, Node *read, Node *axis)
{
	Node *coef, *rest;
	int k;

	for (k = 1; k < read->nin; k++)
		if (read->in[k] == axis || (contains(read->in[k], axis)
			&& linear_in(m, read->in[k], axis, &coef, &rest) && is_intv(coef, 1) && rest->code == O_NUM))
			return k - 1;
	return -1;
}

/* An axis that indexes every windowed read of a reduction, no tap beside it: the lanes. */
static void
window_votes(Layout *l, Group *g)
{
	Node *t = g->members[0], **list, *axis;
	int i, k, d, n, e;
	double flops = elements(t);

	list = topo_scalar(t->in[t->nin - 1], &n);
	for (k = t->nin - 2; k >= 0; k--) {
		axis = t->in[k];
		if (likely_extent(l->s->m, axis->in[0]) <= 1)
			continue;
		for (i = 0, e = 0; i < n; i++)
			if (is_windowed(l->s->m, t, list[i]))
				e |= shifted_dim(l->s->m, list[i], axis) >= 0 ? 1 : 2;
		if (e != 1)
			continue;
		vote(l, t, k, flops);
		for (i = 0; i < n; i++)
			if (list[i]->code == O_READ && (d = shifted_dim(l->s->m, list[i], axis)) >= 0)
				vote(l, list[i]->in[0], d, flops);
		break;
	}
	free(list);
}

/* Does the index move by one with the axis, as long as neighbours stay together? */
static bool
moves_with(Module *m, Node *e, Node *axis)
{
	Node *coef, *rest;

	if (e->code == O_MOD)
		e = e->in[0];
	return contains(e, axis) && linear_in(m, e, axis, &coef, &rest) && is_intv(coef, 1);
}

static int
contiguous_dim(const Voter *root, const Node *t)
{
	int i, best = rank_of(t) - 1;

	for (i = 0; !root->fixed && i < rank_of(t); i++)
		if (root->votes[i] > root->votes[best])
			best = i;
	return best;
}

/* Words want the bytes of each side by side, so that they need no kernel. Is t some? */
static bool
words_votes(Layout *l, Node *t)
{
	Node *fill;
	int dim;

	if (l->s->gpu || !words_of(l->s->m, t, &dim, &fill))
		return false;
	vote(l, t, dim, 4 * elements(t));
	return true;
}

/* Consecutive threads of a GPU's map want what they read to be consecutive too. */
static void
map_votes(Layout *l, Group *g)
{
	Node *t = g->members[0], **list, *axis, *r;
	Contraction c;
	int i, k, n;

	if (g->n > 1 || rank_of(t) == 0 || contraction_of(l->s, t, &c))
		return;
	axis = t->in[contiguous_dim(find(voter(l, t)), t)];
	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n; i++) {
		r = list[i];
		for (k = 1; r->code == O_READ && r->in[0]->code == O_TENSOR && k < r->nin; k++)
			if (moves_with(l->s->m, r->in[k], axis))
				vote(l, r->in[0], k - 1, elements(t));
	}
	free(list);
}

/* Tensors read element for element lie alike. */
static void
join_equals(Layout *l, Node *t)
{
	Node **list, *r;
	int i, k, n;

	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n; i++) {
		r = list[i];
		if (r->code != O_READ || r->in[0]->code != O_TENSOR || rank_of(r->in[0]) != rank_of(t))
			continue;
		for (k = 0; k < rank_of(t) && (r->in[k + 1] == t->in[k]
			|| (is_intv(dim_of(t, k), 1) && is_intv(dim_of(r->in[0], k), 1))); k++)
			;
		if (k == rank_of(t) && k > 2)
			join(l, t, r->in[0]);
	}
	free(list);
	if (!l->s->gpu && viewed_by(l->s->m, t))
		join(l, t, viewed_by(l->s->m, t));
}

static void
fix(Layout *l, Node *t)
{
	if (t && t->type->kind == T_TENSOR)
		find(voter(l, t))->fixed = true;
}

static void
fix_borders(Layout *l)
{
	Node **list, *n;
	int i, k, j, count;

	list = topo(l->s->m->main->results, l->s->m->main->nresults, false, &count);
	for (i = 0; i < count; i++) {
		n = list[i];
		for (k = 0; n->type->kind != T_SCALAR && n->code != O_TENSOR && k < n->nin; k++)
			fix(l, n->in[k]);
		for (k = 0; k < n->nregions; k++)
			for (j = 0; j < n->regions[k]->nresults; j++)
				fix(l, n->regions[k]->results[j]);
	}
	free(list);
	for (i = 0; i < l->s->m->main->nresults; i++)
		fix(l, l->s->m->main->results[i]);
}

static void
choose(Layout *l, Voter *v)
{
	Voter *root = find(v);
	int order[MAX_RANK], i, n = 0, best = contiguous_dim(root, v->t);

	if (v->t->code != O_TENSOR || root->fixed || rank_of(v->t) < 2)
		return;
	for (i = 0; i < rank_of(v->t); i++)
		if (i != best)
			order[n++] = i;
	order[n] = best;
	storage_set_order(l->s, storage_of(l->s, v->t), order);
}

static bool
reduces_over(const Node *red, const Node *axis)
{
	int i;

	for (i = 0; i + 1 < red->nin; i++)
		if (red->in[i] == axis)
			return true;
	return false;
}

/* The axis that moves along the contiguous dimension of what the body reads, beside constants:
 * that of the result if it does, or one that is summed over. */
static Node *
lanes_axis(Layout *l, Node **list, int n, Node *result)
{
	Node *best = result, *last;
	const Storage *st;
	int i, k;

	for (i = 0; i < n; i++) {
		if (list[i]->code != O_READ || rank_of(list[i]->in[0]) == 0
		 || definition(list[i]->in[0])->code == O_CONST)
			continue;
		st = storage_of(l->s, list[i]->in[0]);
		last = list[i]->in[1 + st->order[rank_of(list[i]->in[0]) - 1]];
		if (contains(last, result))
			return result;
		for (k = 0; k < n; k++)
			if (list[k]->code == O_REDUCE && last->code == O_AXIS && const_or(last->in[0], 8) >= 8
			 && contains(list[k], list[i]) && reduces_over(list[k], last))
				best = last;
	}
	return best;
}

/* Constants read along the lanes of a window or map with a stride are laid out along them. */
static void
follow_reader(Layout *l, Group *g)
{
	Node *t = g->members[0], **list, *axis, *w;
	Storage *st = storage_of(l->s, t);
	int order[MAX_RANK], i, k, d, n, c;

	if (rank_of(t) == 0 || g->n > 1)
		return;
	list = topo_scalar(t->in[t->nin - 1], &n);
	axis = lanes_axis(l, list, n, t->in[st->order[rank_of(t) - 1]]);
	for (i = 0; i < n; i++) {
		if (list[i]->code != O_READ)
			continue;
		w = list[i]->in[0];
		d = plain_dim(list[i], axis);
		if (definition(w)->code != O_CONST || d < 0 || d == rank_of(w) - 1 || has_layout(l->s, w))
			continue;
		for (k = 0, c = 0; k < rank_of(w); k++)
			if (k != d)
				order[c++] = k;
		order[c] = d;
		storage_set_order(l->s, storage_of(l->s, w), order);
	}
	free(list);
}

/* Tries the orders of p's dims but the last, from position k on, until t's copy of p is p's
 * memory. */
static bool
permute(Sched *s, Node *t, Storage *p, int *order, int k)
{
	int i, x, rank = rank_of(p->tensor);
	KB kb;
	Node *body = t->in[t->nin - 1];

	if (k == rank - 1) {
		storage_set_order(s, p, order);
		kb = kb_new(s, NULL);
		return kb_address(&kb, p->tensor, body->in + 1) == kb_address(&kb, t, t->in);
	}
	for (i = k; i < rank - 1; i++) {
		x = order[k], order[k] = order[i], order[i] = x;
		if (permute(s, t, p, order, k + 1))
			return true;
		x = order[k], order[k] = order[i], order[i] = x;
	}
	return false;
}

/* A copy that only reorders (heads back into one axis) vanishes if its operand is stored in its
 * order. */
static void
store_as_copied(Layout *l, Group *g)
{
	Node *t = g->members[0], *body = t->in[t->nin - 1], *p;
	int order[MAX_RANK], saved[MAX_RANK];
	Storage *st;

	if (g->n > 1 || body->code != O_READ || (p = body->in[0])->code != O_TENSOR
	 || find(voter(l, p))->fixed || rank_of(p) < 3 || rank_of(p) > 5)
		return;
	st = storage_of(l->s, p);
	if (st->block || st->count != storage_of(l->s, t)->count)
		return;
	memcpy(saved, st->order, sizeof saved);
	memcpy(order, st->order, sizeof order);
	if (!permute(l->s, t, st, order, 0))
		storage_set_order(l->s, st, saved);
}

/* Do the shared outer axes lie outermost in the memory of each member? */
static bool
rows_lie_apart(Layout *l, const Group *g)
{
	const Storage *st;
	int i, k;

	for (k = 0; k < g->n; k++) {
		st = storage_of(l->s, g->members[k]);
		for (i = 0; i < g->nouter; i++)
			if (st->order[i] >= g->nouter)
				return false;
	}
	return true;
}

/* Groups whose rows do not lie apart become kernels of a member each, which walk memory in its
 * order. */
static Vec
split_groups(Layout *l, Vec groups)
{
	Module *m = l->s->m;
	Vec out = {0};
	Group *g, *one;
	int i, k;

	for (i = 0; i < groups.n; i++) {
		g = groups.at[i];
		if (g->n == 1 || l->s->gpu || g->attends || rows_lie_apart(l, g)) {
			vec_push(m, &out, g);
			continue;
		}
		for (k = 0; k < g->n; k++) {
			storage_of(l->s, g->members[k]);
			map_put(&l->s->alone, g->members[k], g);
			one = NEW(m, Group);
			*one = (Group){.n = 1, .nouter = rank_of(g->members[k]), .members = g->members + k,
				.local = NEW(m, bool), .home = g->home, .loc = g->members[k]->loc};
			vec_push(m, &out, one);
		}
	}
	return out;
}

/*
 * What is padded is stored with the padding around it, so that no kernel copies it, and in whole
 * words what is read by those. Not on a GPU, whose kernels guard their reads as they stage them.
 */
static void
make_halos(Layout *l, Vec groups)
{
	Group *g;
	Node *p, *t;
	int i, k;

	for (k = 0; k < 2 && !l->s->gpu; k++)
		for (i = 0; i < groups.n; i++) {
			g = groups.at[i];
			p = g->members[0];
			if (g->n > 1 || find(voter(l, p))->fixed || !(t = viewed_by(l->s->m, p))
			 || find(voter(l, t))->fixed)
				continue;
			(k ? halo_share : halo_widen)(l->s, p);
		}
}

static void
choose_layouts(Sched *s, Vec groups)
{
	Layout l = {.s = s};
	Group *g;
	int i, k;

	fix_borders(&l);
	for (i = 0; i < groups.n; i++) {
		g = groups.at[i];
		if (g->members[0]->code != O_TENSOR)
			continue;
		for (k = 0; k < g->n; k++) {
			voter(&l, g->members[k]);
			join_equals(&l, g->members[k]);
		}
		if (g->attends)
			attention_votes(&l, g);
		if (g->n == 1) {
			contraction_votes(&l, g);
			if (!words_votes(&l, g->members[0]))
				window_votes(&l, g);
		}
	}
	for (i = groups.n; s->gpu && i-- > 0;) {     /* readers before what they read */
		g = groups.at[i];
		if (g->members[0]->code == O_TENSOR)
			map_votes(&l, g);
	}
	for (i = 0; i < l.all.n; i++)
		choose(&l, l.all.at[i]);
	groups = split_groups(&l, groups);
	for (i = 0; s->gpu && i < groups.n; i++)
		for (g = groups.at[i], k = 0; (g->few || g->n == 1) && k < g->n; k++)
			few_layout(s, g->members[k]);
	for (i = 0; i < groups.n; i++) {
		Contraction c;
		g = groups.at[i];
		if (g->n == 1 && g->members[0]->code == O_TENSOR && contraction_of(s, g->members[0], &c)) {
			pack_constant(&l, &c);
			if (c.whole != c.reduce || spells_out(c.eb))
				follow_columns(&l, g->members[0], &c);
		}
	}
	for (i = 0; i < groups.n; i++) {
		g = groups.at[i];
		if (g->members[0]->code == O_TENSOR)
			follow_reader(&l, g);
	}
	for (i = 0; i < groups.n; i++) {
		g = groups.at[i];
		if (g->members[0]->code == O_TENSOR)
			store_as_copied(&l, g);
	}
	make_halos(&l, groups);
	map_free(&l.voters);
}

void
check_layouts(Sched *s)
{
	Layout l = {.s = s};
	Node **list;
	int i, n;

	list = topo(s->m->main->results, s->m->main->nresults, true, &n);
	for (i = 0; i < n; i++) {
		if (list[i]->code == O_TENSOR)
			voter(&l, list[i])->fixed = false;
		if (list[i]->type->kind == T_TENSOR && list[i]->attrs)
			storage_of(s, list[i]);
	}
	fix_borders(&l);
	for (i = 0; i < l.all.n; i++) {
		Voter *v = l.all.at[i];
		if (v->fixed && v->t->code != O_CONST
		 && (attr_find(v->t->attrs, "order") || attr_find(v->t->attrs, "halo")
			|| attr_find(v->t->attrs, "block")))
			diag_error(s->m->diag, X_INVALID, v->t->loc,
				"what leaves the kernels must be row-major, without a halo");
		if (attr_find(v->t->attrs, "part"))
			halo_check(s, v->t);
	}
	free(list);
	map_free(&l.voters);
}

/* The attributes without those that put the tensor into a larger kernel. */
static const Attr *
without_kernel(Module *m, const Attr *list)
{
	const Attr *out = NULL;

	for (; list; list = list->next)
		if (strcmp(list->name, "kernel") && strcmp(list->name, "outer"))
			out = attrs_add(m, out, *list);
	return out;
}

/* t's attributes with all that was chosen. */
static const Attr *
described(Sched *s, const Storage *st)
{
	Module *m = s->m;
	const Node *t = st->tensor;
	int64_t order[MAX_RANK], halo[2 * MAX_RANK];
	bool plain = !st->block;
	const Attr *a = map_get(&s->alone, t) ? without_kernel(m, t->attrs) : t->attrs;
	int i;

	for (i = 0; i < rank_of(t); i++) {
		order[i] = st->order[i];
		plain &= order[i] == i;
	}
	if (!plain)
		a = attrs_add(m, a, (Attr){.name = "order", .kind = A_INTS, .n = rank_of(t), .is = order});
	if (st->block)
		a = attrs_add(m, a, (Attr){.name = "block", .kind = A_INT, .i = st->block});
	if (st->of)
		return attrs_add(m, a, (Attr){.name = "part", .kind = A_INT, .i = 1});
	for (i = 0; st->halo && i < rank_of(t); i++) {
		halo[2 * i] = const_or(st->before[i], 0);
		halo[2 * i + 1] = const_or(st->after[i], 0);
	}
	return st->halo
		? attrs_add(m, a, (Attr){.name = "halo", .kind = A_INTS, .n = 2 * rank_of(t), .is = halo})
		: a;
}

/* Needs the tensor level with its sizes named; leaves attributes on what is not row-major, and
 * dissolves kernels whose rows do not lie apart. */
bool
pass_layout(Module *m)
{
	Sched s = sched_open(m);
	Map attrs = {0};
	Vec groups;
	uint32_t i;
	const Attr *a;

	home_regions(m, &s.home);
	groups = groups_of(&s);
	if (m->diag->errors == 0)
		choose_layouts(&s, groups);
	for (i = 0; i < s.storage.cap; i++)
		if (s.storage.key[i] && (a = described(&s, s.storage.val[i])) != s.storage.key[i]->attrs)
			map_put(&attrs, s.storage.key[i], (void *)(a ? a : &no_attrs));
	annotate(m, &attrs);
	map_free(&attrs);
	sched_close(&s);
	return m->diag->errors == 0;
}
