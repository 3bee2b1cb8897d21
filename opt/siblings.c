/*
 * siblings: products of the same operand with several constant matrices (query, key and value of
 * an attention, say) become one product with the matrices side by side: one kernel instead of
 * several, with more columns to fill a device. Needs the tensor level with constants folded; leaves
 * one tensor for all, which the siblings' readers read at an offset.
 *
 * First, tensors that say the same become one, so that siblings have one operand.
 *
 * Siblings are alike but for constants that their last axis indexes directly; they may have
 * different numbers of columns. Done for GPUs, where a launch costs as much as a small product.
 */
#include <stdlib.h>
#include <string.h>
#include "few.h"

enum { MOST = 16, CONSTS = 8, NEAR = 64 };   /* NEAR: tensors back that a twin is sought */

typedef struct Family {
	int n, nconsts;
	Node *tensor[MOST], *consts[MOST][CONSTS];   /* in the order of the first one's body */
	Node *joined[CONSTS];
	int dim[CONSTS];       /* of the constant that the last axis indexes */
	int64_t first[MOST], columns;   /* where each one's columns begin; in all */
	Node *merged;
} Family;

typedef struct Siblings {
	Module *m;
	Map family;            /* tensor -> Family */
	Map users;             /* tensor -> itself: used otherwise than by reads */
} Siblings;

static Node *
last_axis(const Node *t)
{
	return t->in[t->nin - 2];
}

/* The dimension of a constant that the read indexes by the axis itself, and by it alone; -1: none. */
static int
column_dim(const Node *read, const Node *axis)
{
	int i, dim = -1;

	if (read->code != O_READ || read->in[0]->code != O_CONST)
		return -1;
	for (i = 1; i < read->nin; i++)
		if (read->in[i] == axis)
			dim = dim < 0 ? i - 1 : MAX_RANK;
		else if (contains(read->in[i], axis))
			return -1;
	return dim < MAX_RANK ? dim : -1;
}

/* ---- likeness -------------------------------------------------------------------------------- */

typedef struct Match {
	Family *f;
	Map seen;              /* of the first one -> of the other */
	Node *a, *b;           /* last axes */
	Node *consts[CONSTS];
	int n;
} Match;

static bool alike(Match *t, Node *x, Node *y);

static bool
const_alike(Match *t, Node *x, Node *y)
{
	const Type *p = x->in[0]->type, *q = y->in[0]->type;
	int dim = column_dim(x, t->a), i, k;

	if (dim < 0 || column_dim(y, t->b) != dim || p->dtype != q->dtype || p->rank != q->rank
	 || dtypes[p->dtype].bits < 8 || p->dtype == DT_STRING || x->in[0]->attrs || y->in[0]->attrs)
		return false;
	for (i = 0; i < p->rank; i++)
		if ((i != dim && p->dims[i] != q->dims[i]) || (i != dim && !alike(t, x->in[1 + i], y->in[1 + i])))
			return false;
	for (k = 0; k < t->n && t->f->consts[0][k] != x->in[0]; k++)
		;
	if (k < t->n)
		return t->consts[k] == y->in[0] && t->f->dim[k] == dim;
	if (k == CONSTS)
		return false;
	t->f->consts[0][k] = x->in[0];
	t->f->dim[k] = dim;
	t->consts[t->n++] = y->in[0];
	return true;
}

static bool
alike(Match *t, Node *x, Node *y)
{
	int i;

	if (x == t->a || y == t->b)
		return false;                      /* but as the column of a constant */
	if (x == y && !contains(x, t->a))
		return true;
	if (map_get(&t->seen, x))
		return map_get(&t->seen, x) == y;
	if (x->code != y->code || x->nin != y->nin || x->type != y->type || x->code == O_NUM
	 || x->code == O_SYM || x->code == O_CARRY || (x->code != O_AXIS && x->n != y->n))
		return false;
	map_put(&t->seen, x, y);
	if (x->code == O_READ && (x->in[0] != y->in[0] || column_dim(x, t->a) >= 0))
		return const_alike(t, x, y);
	for (i = x->code == O_READ; i < x->nin; i++)
		if (!alike(t, x->in[i], y->in[i]))
			return false;
	return true;
}

/* Puts b into the family that a began, if they are alike. */
static bool
join(Family *f, Node *b)
{
	Node *a = f->tensor[0];
	Match t = {.f = f, .a = last_axis(a), .b = last_axis(b)};
	int i;
	bool ok = f->n < MOST && a->nin == b->nin && a->type->dtype == b->type->dtype;

	for (i = 0; ok && i + 2 < a->nin; i++) {
		ok = a->in[i] == b->in[i] || a->in[i]->in[0] == b->in[i]->in[0];
		map_put(&t.seen, a->in[i], b->in[i]);
	}
	ok = ok && alike(&t, a->in[a->nin - 1], b->in[b->nin - 1]) && t.n > 0
		&& (f->n == 1 || t.n == f->nconsts);
	map_free(&t.seen);
	if (!ok)
		return false;
	f->nconsts = t.n;
	memcpy(f->consts[f->n], t.consts, sizeof t.consts);
	f->tensor[f->n++] = b;
	return true;
}

/* ---- finding --------------------------------------------------------------------------------- */

static bool
may_join(Siblings *s, Node *t)
{
	int64_t n;
	Few f;

	return t->code == O_TENSOR && !t->attrs && t->nin > 2 && !map_get(&s->users, t)
		&& is_int(last_axis(t)->in[0], &n) && n > 1
		&& (holds_product(s->m->machine, t, NULL) || few_of(s->m, t, &f));
}

static void
note_region(Siblings *s, const Region *r)
{
	int i;

	for (i = 0; i < r->nresults; i++)
		map_put(&s->users, r->results[i], r->results[i]);
}

/* Which tensors are more than read. */
static void
note_users(Siblings *s, Node **list, int n)
{
	Node *t;
	int i, k;

	note_region(s, s->m->main);
	for (i = 0; i < n; i++) {
		t = list[i];
		for (k = 0; k < t->nregions; k++)
			note_region(s, t->regions[k]);
		for (k = 0; k < t->nin && t->code != O_READ; k++)
			if (t->in[k])
				map_put(&s->users, t->in[k], t->in[k]);
	}
}

static void
find_families(Siblings *s, Node **list, int n)
{
	Vec all = {0};
	Family *f;
	int i, k;

	for (i = 0; i < n; i++) {
		if (!may_join(s, list[i]))
			continue;
		for (k = all.n - 1; k >= 0 && k >= all.n - MOST; k--)
			if (join(all.at[k], list[i]))
				break;
		if (k >= 0 && k >= all.n - MOST)
			continue;
		f = NEW(s->m, Family);
		f->tensor[f->n++] = list[i];
		vec_push(s->m, &all, f);
	}
	for (i = 0; i < all.n; i++)
		for (f = all.at[i], k = 0; f->n > 1 && k < f->n; k++) {
			f->first[k] = f->columns;
			f->columns += const_or(last_axis(f->tensor[k])->in[0], 0);
			map_put(&s->family, f->tensor[k], f);
		}
}

/* ---- merging --------------------------------------------------------------------------------- */

/* The constants number k of all members, joined along the dimension. */
static Node *
joined(Module *m, Family *f, int k)
{
	Node *c = f->consts[0][k];
	int64_t dims[MAX_RANK], outer = 1, inner = dtypes[dtype_of(c)].bits / 8, row, at = 0, i, j;
	Data *d;
	char *to;

	for (i = 0; i < rank_of(c); i++) {
		dims[i] = i == f->dim[k] ? f->columns : const_or(dim_of(c, (int)i), 0);
		outer *= i < f->dim[k] ? dims[i] : 1;
		inner *= i > f->dim[k] ? dims[i] : 1;
	}
	d = data_new(m, dtype_of(c), outer * f->columns * inner / (dtypes[dtype_of(c)].bits / 8), NULL);
	to = (char *)(uintptr_t)d->bytes;
	for (j = 0; j < f->n; j++) {
		c = f->consts[j][k];
		row = const_or(dim_of(c, f->dim[k]), 0) * inner;
		for (i = 0; i < outer; i++)
			memcpy(to + i * f->columns * inner + at, (const char *)c->data->bytes + i * row,
				(size_t)row);
		at += row;
	}
	return t_const(m, dtype_of(c), rank_of(c), dims, d);
}

/* The tensor of all columns, from a member's number and what it has been rebuilt to. */
static Node *
merge(Module *m, Family *f, int member, Node *t)
{
	Node *axes[MAX_RANK], *idx[MAX_RANK], **list, *r;
	const Loc *loc = NULL;
	Map map = {0};
	int i, k, j, n;

	for (i = 0; i + 1 < t->nin; i++)
		axes[i] = i + 2 < t->nin ? x_axis(m, t->in[i]->in[0]) : x_axis(m, x_idx(m, f->columns));
	for (i = 0; i + 1 < t->nin; i++)
		map_put(&map, t->in[i], axes[i]);
	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n; i++)
		for (k = 0; list[i]->code == O_READ && k < f->nconsts; k++) {
			if (list[i]->in[0] != f->consts[member][k])
				continue;
			if (!f->joined[k])
				f->joined[k] = joined(m, f, k);
			for (j = 1; j < list[i]->nin; j++)
				idx[j - 1] = subst(m, list[i]->in[j], &map, false);
			map_put(&map, list[i], x_read(m, f->joined[k], idx));
		}
	free(list);
	r = t_tensor(m, t->nin - 1, axes, subst(m, t->in[t->nin - 1], &map, false));
	map_free(&map);
	for (i = 0; i < f->n; i++)
		loc = loc_union(m, loc, f->tensor[i]->loc);
	r->loc = loc;
	return r;
}

static int
member_number(const Family *f, const Node *t)
{
	int i = 0;

	while (f->tensor[i] != t)
		i++;
	return i;
}

static Node *
merged_read(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Siblings *s = ctx;
	Family *f;
	Node *r, *idx[MAX_RANK];
	int last = n->nin - 1;

	if (n->code == O_TENSOR && (f = map_get(&s->family, n))) {
		r = rebuild_node(m, n, in, done);
		if (!f->merged)
			f->merged = merge(m, f, member_number(f, n), r);
		return r;
	}
	if (n->code != O_READ || !(f = map_get(&s->family, n->in[0])))
		return NULL;
	memcpy(idx, in + 1, sizeof *idx * (size_t)last);
	idx[last - 1] = x_addi(m, in[last], f->first[member_number(f, n->in[0])]);
	return x_read(m, f->merged, idx);
}

/* ---- twins ----------------------------------------------------------------------------------- */

/* The same but for the names of axes? seen: of x's -> of y's. */
static bool
same_but_axes(Map *seen, Node *x, Node *y)
{
	Node *had = map_get(seen, x);
	int i;

	if (had)
		return had == y;
	if (x->code != y->code || x->nin != y->nin || x->type != y->type)
		return false;
	if (x->code == O_NUM || x->code == O_SYM || x->code == O_CARRY || x->type->kind != T_SCALAR)
		return x == y;
	if (x->code != O_AXIS && x->n != y->n)
		return false;
	map_put(seen, x, y);
	for (i = 0; i < x->nin; i++)
		if (!same_but_axes(seen, x->in[i], y->in[i]))
			return false;
	return true;
}

static bool
are_twins(Node *x, Node *y)
{
	Map seen = {0};
	int i;
	bool ok = x->type == y->type && x->nin == y->nin && x->in[x->nin - 1]->size == y->in[y->nin - 1]->size;

	for (i = 0; ok && i < x->nin; i++)
		ok = same_but_axes(&seen, x->in[i], y->in[i]);
	map_free(&seen);
	return ok;
}

/* A tensor of few operations that an earlier one already is: several products round their common operand
 * each for itself. */
static Node *
earlier_twin(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Vec *all = ctx;
	Node *t;
	int i;

	if (n->code != O_TENSOR || n->attrs || (t = rebuild_node(m, n, in, done))->code != O_TENSOR)
		return NULL;
	t->loc = n->loc;
	for (i = all->n; i-- > 0 && i >= all->n - NEAR;)
		if (are_twins(all->at[i], t)) {
			t = all->at[i];
			t->loc = loc_union(m, t->loc, n->loc);
			return t;
		}
	vec_push(m, all, t);
	return t;
}

bool
pass_siblings(Module *m)
{
	Siblings s = {.m = m};
	Vec all = {0};
	Node **list;
	int n;

	if (!machine_gpu(m->machine))
		return true;
	rewrite_module(m, false, earlier_twin, &all);
	list = topo(m->main->results, m->main->nresults, false, &n);
	note_users(&s, list, n);
	find_families(&s, list, n);
	free(list);
	if (s.family.n)
		rewrite_module(m, false, merged_read, &s);
	map_free(&s.family);
	map_free(&s.users);
	return true;
}
