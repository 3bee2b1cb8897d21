/*
 * Halos. Windows (convolutions, poolings) read a tensor with a constant around it. On a CPU what
 * is padded is stored with that margin, the kernel that computes it also fills the margin, and
 * the padding is a part of the same memory: no kernel copies, and no read is guarded. The words of
 * bytes (dot4.c) are the same memory as well where the bytes of each lie side by side, the last
 * ones made up by the halo.
 *
 * In the text: `halo = [before, after, ...]` on the tensor, two numbers a dimension; `part = 1`
 * on a padding whose elements all lie within the halo of what it pads, and on words whose bytes do.
 */
#include <stdlib.h>
#include <string.h>
#include "sched.h"

enum { MAX_HALO = 1 << 10, WIDEST = 64 };

/* ---- paddings ------------------------------------------------------------------------------ */

/* Is c one of the conditions that the index lies within the dimension? */
static bool
is_bound(Module *m, const Node *c, Node *read)
{
	Node *dim;
	int i;

	for (i = 1; i < read->nin; i++) {
		dim = dim_of(read->in[0], i - 1);
		if (c == x_le(m, x_idx(m, 0), read->in[i]) || c == x_lt(m, read->in[i], dim))
			return true;
	}
	return false;
}

static bool
are_bounds(Module *m, const Node *c, Node *read)
{
	if (c->code == O_AND)
		return are_bounds(m, c->in[0], read) && are_bounds(m, c->in[1], read);
	return is_bound(m, c, read);
}

static bool
same_everywhere(Node *e)
{
	Node **list;
	int i, n;
	bool ok = true;

	list = topo_scalar(e, &n);
	for (i = 0; i < n && ok; i++)
		ok = list[i]->code != O_READ && list[i]->code != O_AXIS;
	free(list);
	return ok;
}

bool
is_padding(Module *m, const Node *t, Node **shift)
{
	Node *body = t->code == O_TENSOR ? t->in[t->nin - 1] : NULL, *read, *c, *rest;
	int i;

	if (!body || body->code != O_SELECT || body->in[2]->code != O_NUM)
		return false;
	read = body->in[1];
	if (read->code != O_READ || rank_of(read->in[0]) != rank_of(t)
	 || !are_bounds(m, body->in[0], read))
		return false;
	for (i = 0; i < rank_of(t); i++) {
		if (!linear_in(m, read->in[i + 1], t->in[i], &c, &rest) || !same_everywhere(rest))
			return false;
		if (!is_intv(c, 1) && !is_intv(dim_of(t, i), 1))
			return false;
		if (shift)
			shift[i] = x_sub(m, x_idx(m, 0), rest);
	}
	return true;
}

Node *
padded_by(Module *m, const Node *p)
{
	return is_padding(m, p, NULL) ? p->in[p->nin - 1]->in[1]->in[0] : NULL;
}

Node *
viewed_by(Module *m, const Node *p)
{
	Node *t = padded_by(m, p), *fill;
	int dim;

	return t ? t : words_of(m, p, &dim, &fill);
}

/* ---- how they are stored --------------------------------------------------------------------- */

/* e with c floordiv(x, k) as c / k (x - x mod k) where that divides: beside x it then has a range.
 * NULL: there is none. */
static Node *
without_quotient(Module *m, Node *e)
{
	Node **list, *q, *axis, *coef, *rest, *r = NULL;
	int64_t c, k;
	int i, n;

	list = topo_scalar(e, &n);
	for (i = n; i-- > 0 && !r;) {
		q = list[i];
		if (q->code != O_FLOORDIV || !is_int(q->in[1], &k) || k < 2)
			continue;
		axis = x_axis(m, x_idx(m, k));
		if (linear_in(m, subst1(m, e, q, axis), axis, &coef, &rest) && is_int(coef, &c) && c % k == 0)
			r = x_add(m, rest, x_muli(m, x_sub(m, q->in[0], x_mod(m, q->in[0], q->in[1])), c / k));
	}
	free(list);
	return r;
}

/* Elements of the padding p behind those of t. Windows with a stride need whole steps. */
static Node *
behind(Module *m, const Node *p, const Node *t, Node *shift, int i)
{
	Node *e = x_sub(m, x_sub(m, dim_of(p, i), shift), dim_of(t, i)), *r;
	int tries;

	for (tries = 0; tries < MAX_RANK && e->hi > WIDEST && (r = without_quotient(m, e)); tries++)
		e = r;
	return e;
}

/* Can the halo be so wide as e may be? */
static bool
narrow(Node *e)
{
	return e->hi <= WIDEST;
}

/* The shifts, if the padding's margins are bounded and its memory may be t's. */
static bool
may_share(Sched *s, Node *p, Node *t, Node **shift)
{
	const Storage *st = storage_of(s, t), *sp = storage_of(s, p);
	int i;

	if (t->code != O_TENSOR || st->of || sp->halo || !is_padding(s->m, p, shift))
		return false;
	if (st->fill && st->fill != p->in[p->nin - 1]->in[2])
		return false;
	for (i = 0; i < rank_of(t); i++)
		if (st->order[i] != sp->order[i] || !narrow(shift[i])
		 || !narrow(behind(s->m, p, t, shift[i], i)))
			return false;
	return true;
}

/* At least e, and the constant that it was. */
static Node *
wider(Module *m, Node *was, const Node *e)
{
	return x_max(m, was ? was : x_idx(m, 0), x_idx(m, e->hi < 0 ? 0 : e->hi));
}

static void
widen_padded(Sched *s, Node *p, Node *t)
{
	Node *shift[MAX_RANK];
	Storage *st = storage_of(s, t);
	int i;

	if (!may_share(s, p, t, shift))
		return;
	for (i = 0; i < rank_of(t); i++) {
		st->before[i] = wider(s->m, st->before[i], shift[i]);
		st->after[i] = wider(s->m, st->after[i], behind(s->m, p, t, shift[i], i));
	}
	st->halo = true;
	st->fill = p->in[p->nin - 1]->in[2];
	storage_set_order(s, st, st->order);
}

/* Rounds the dimension up to whole words, in the memory of x or of what x will be a part of. */
static void
widen_words(Sched *s, Node *x, int dim, Node *fill)
{
	Node *shift[MAX_RANK], *t = padded_by(s->m, x);
	Storage *st;
	int64_t size;
	int i, per = word_elements(x);

	t = t && may_share(s, x, t, shift) ? t : x;
	st = storage_of(s, t);
	if (t->code != O_TENSOR || st->of || (st->fill && st->fill != fill)
	 || st->order[rank_of(t) - 1] != dim || !is_int(dim_of(t, dim), &size) || size % per == 0)
		return;
	for (i = 0; i < rank_of(t); i++) {
		st->before[i] = wider(s->m, st->before[i], x_idx(s->m, 0));
		st->after[i] = wider(s->m, st->after[i], x_idx(s->m, i == dim ? per - size % per : 0));
	}
	st->halo = true;
	st->fill = fill;
	storage_set_order(s, st, st->order);
}

void
halo_widen(Sched *s, Node *p)
{
	Node *t = padded_by(s->m, p), *fill;
	int dim;

	if (t)
		widen_padded(s, p, t);
	else if ((t = words_of(s->m, p, &dim, &fill)))
		widen_words(s, t, dim, fill);
}

static void
share_padded(Sched *s, Node *p, Node *t)
{
	Node *shift[MAX_RANK];
	Storage *st = storage_of(s, t), *sp = storage_of(s, p);
	int i;

	if (!may_share(s, p, t, shift) || !st->halo)
		return;
	for (i = 0; i < rank_of(t); i++)
		if (const_or(st->before[i], 0) < shift[i]->hi
		 || const_or(st->after[i], 0) < behind(s->m, p, t, shift[i], i)->hi)
			return;
	for (i = 0; i < rank_of(t); i++) {
		sp->stride[i] = st->stride[i];
		sp->before[i] = x_sub(s->m, st->before[i], shift[i]);
	}
	sp->count = st->count;
	sp->of = t;
	st->fill = p->in[p->nin - 1]->in[2];
}

static bool
in_words(Module *m, Node *e, int per)
{
	return is_intv(x_mod(m, e, x_idx(m, per)), 0);
}

/* Do the words along the dimension begin at multiples of their elements in x's memory, and are the bytes past
 * its end there? */
static bool
whole_words(Sched *s, Node *x, int dim, Node *fill)
{
	const Storage *st = storage_of(s, x), *root = st->of ? storage_of(s, st->of) : st;
	Node *all = st->of ? dim_of(st->of, dim) : dim_of(x, dim);
	int i, per = word_elements(x);

	if (st->block || !is_intv(st->stride[dim], 1) || (st->before[dim] && !is_intv(st->before[dim], 0)))
		return false;
	for (i = 0; i < rank_of(x); i++)
		if (i != dim && !(is_intv(dim_of(x, i), 1) && !st->before[i]) && !in_words(s->m, st->stride[i], per))
			return false;
	if (!in_words(s->m, st->count, per))
		return false;
	return in_words(s->m, dim_of(x, dim), per) || ((!root->fill || root->fill == fill)
		&& root->halo && all == dim_of(x, dim)
		&& const_or(root->after[dim], 0) >= per - const_or(all, 0) % per);
}

static void
share_words(Sched *s, Node *w, Node *x, int dim, Node *fill)
{
	Storage *st = storage_of(s, x), *sw = storage_of(s, w);
	int i, per = word_elements(x);

	if (x->code != O_TENSOR || sw->halo || sw->block || !whole_words(s, x, dim, fill))
		return;
	for (i = 0; i < rank_of(x); i++) {
		sw->stride[i] = i == dim ? x_idx(s->m, 1) : x_fdiv(s->m, st->stride[i], x_idx(s->m, per));
		sw->before[i] = i == dim ? NULL : st->before[i];
	}
	sw->count = x_fdiv(s->m, st->count, x_idx(s->m, per));
	sw->of = st->of ? st->of : x;
	if (!in_words(s->m, dim_of(x, dim), per))
		storage_of(s, sw->of)->fill = fill;
}

void
halo_share(Sched *s, Node *p)
{
	Node *t = padded_by(s->m, p), *fill;
	int dim;

	if (t)
		share_padded(s, p, t);
	else if ((t = words_of(s->m, p, &dim, &fill)))
		share_words(s, p, t, dim, fill);
}

void
halo_check(Sched *s, Node *p)
{
	halo_share(s, p);
	if (!storage_of(s, p)->of)
		diag_error(s->m->diag, X_INVALID, p->loc,
			"'part' needs a padding within the halo of what it pads, in the same order and with "
			"the constant of its other parts, or whole words of bytes");
}

void
stated_halo(Sched *s, Storage *st)
{
	const Attr *a = attr_find(st->tensor->attrs, "halo");
	int i, rank = rank_of(st->tensor);

	if (!a)
		return;
	for (i = 0; a->kind == A_INTS && a->n == 2 * rank && i < 2 * rank; i++) {
		if (a->is[i] < 0 || a->is[i] > MAX_HALO)
			break;
		(i % 2 ? st->after : st->before)[i / 2] = x_idx(s->m, a->is[i]);
	}
	st->halo = rank && i == 2 * rank && st->tensor->code == O_TENSOR;
	if (!st->halo)
		diag_error(s->m->diag, X_INVALID, st->tensor->loc,
			"'halo' must have two numbers from 0 to %d for each dimension of a computed tensor",
			MAX_HALO);
}

/* ---- the parallel loop ----------------------------------------------------------------------- */

/* Units that fill t's halo: one for each of its slowest dimension. */
static Node *
halo_units(KB *kb, Node *t)
{
	const Storage *st = storage_of(kb->s, t);
	int d = st->order[0];

	return rank_of(t) > 1 && is_intv(st->before[d], 0) && is_intv(st->after[d], 0) ? dim_of(t, d)
		: x_idx(kb->m, 1);
}

Node *
kb_units(KB *kb, const Group *g, Region *in, Node *n)
{
	Module *m = kb->m;
	int i;

	for (i = 0; i < g->n; i++)
		if (!g->local[i] && storage_of(kb->s, g->members[i])->fill)
			vec_push(m, &kb->halos, g->members[i]);
	kb->units = n;
	kb->unit = x_axis(m, kb->halos.n ? x_max(m, n, x_idx(m, 1)) : n);
	kb->k->grid[0] = kb->unit->in[0];
	kb->k->grid[1] = kb->k->grid[2] = x_idx(m, 1);
	(void)in;
	return kb->unit;
}

typedef struct Fill { Node *t, *at; } Fill;

static void
fill_body(KB *kb, Region *r, Node *i, void *ctx)
{
	const Fill *f = ctx;
	Node *at = x_add(kb->m, f->at, i);

	l_store(kb->m, r, kb_buffer(kb, f->t, true), 1, &at,
		legalize(kb->m, to_storage(kb->m, storage_of(kb->s, f->t)->fill)));
}

/* The halo's part before and after dimension order[k], over the extents proper of the dimensions
 * before it. */
static void
fill_slab(KB *kb, Region *r, Node *t, int k, Node *at)
{
	Module *m = kb->m;
	const Storage *st = storage_of(kb->s, t);
	int d = st->order[k], i;
	Node *axis, *ext = x_add(m, st->before[d], st->after[d]), *x, *zero = x_idx(m, 0);
	Region *q;
	Fill f = {.t = t};

	for (i = is_intv(halo_units(kb, t), 1) ? 0 : 1; i <= k; i++) {
		axis = x_axis(m, i == k ? ext : dim_of(t, st->order[i]));
		x = i == k ? x_add(m, axis,
			x_select(m, x_lt(m, axis, st->before[d]), zero, dim_of(t, d)))
			: x_add(m, axis, st->before[st->order[i]]);
		at = x_add(m, at, x_mul(m, x, st->stride[st->order[i]]));
		q = region_new(m, NULL);
		l_for(m, r, F_SERIAL, axis, q);
		r = q;
	}
	f.at = l_let(m, r, at);
	vector_loop(kb, r, st->stride[d], lanes_of(kb->s, dtype_of(t)), fill_body, &f);
}

/* Everything of t's halo that lies at unit u of its slowest dimension. */
static void
fill_halo(KB *kb, Region *r, Node *t, Node *u)
{
	const Storage *st = storage_of(kb->s, t);
	bool split = !is_intv(halo_units(kb, t), 1);
	Node *at = split ? x_mul(kb->m, u, st->stride[st->order[0]]) : x_idx(kb->m, 0);
	int k;

	for (k = split; k < rank_of(t); k++)
		if (!is_intv(st->before[st->order[k]], 0) || !is_intv(st->after[st->order[k]], 0))
			fill_slab(kb, r, t, k, at);
}

/* The unit's share of t's halo: as many more or less for each, so that threads have equal work. */
static void
fill_share(KB *kb, Region *r, Node *t)
{
	Module *m = kb->m;
	Node *all = halo_units(kb, t), *n = kb->unit->in[0], *first, *count, *axis;
	Region *q = region_new(m, NULL);

	first = l_let(m, r, x_fdiv(m, x_mul(m, kb->unit, all), n));
	count = x_sub(m, x_fdiv(m, x_mul(m, x_addi(m, kb->unit, 1), all), n), first);
	axis = x_axis(m, l_let(m, r, count));
	fill_halo(kb, q, t, l_let(m, q, x_add(m, first, axis)));
	l_for(m, r, F_SERIAL, axis, q);
}

void
kb_parallel(KB *kb, Region *body, Region *in)
{
	Module *m = kb->m;
	Region *all = in;
	int i;

	if (kb->unit->in[0] != kb->units) {      /* there may be no result, but a halo */
		all = region_new(m, NULL);
		l_when(m, all, x_lt(m, kb->unit, kb->units), in, NULL);
	}
	for (i = 0; i < kb->halos.n; i++)
		fill_share(kb, all, kb->halos.at[i]);
	l_for(m, body, F_PARALLEL, kb->unit, all);
}
