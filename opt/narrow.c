/*
 * narrow: a function that makes bytes of floats (quantization) is written before what only moves
 * its operand, or takes the greatest or least of it, so that bytes are moved and compared:
 *
 *	f(concat(x, y))   ->   concat(f(x), f(y))
 *	f(max x)          ->   max f(x)              f never decreases, x is no NaN
 *	f(g(byte))        ->   byte                  each of the 256: dequantized by the same scale
 *
 * It goes back as far as a value that nothing else reads, or that is computed of a byte. Exact.
 *
 * Needs the tensor level before producers are inlined, and before dot4, which flips bytes; leaves
 * tensors of bytes.
 */
#include <math.h>
#include <stdlib.h>
#include "sched.h"

enum { MAX_DEPTH = 8 };

typedef struct Narrow {
	Module *m;
	Map reads;             /* a new tensor -> how often nodes read those that it stands for */
} Narrow;

/* A function of the float `of`, which stands in `value` once or more. */
typedef struct Narrower { Node *value, *of; bool rises; } Narrower;

/* ---- functions ------------------------------------------------------------------------------- */

/* Does e, in which x varies, never decrease with it? */
static bool
never_falls(const Node *e, const Node *x)
{
	bool by_number = e->nin == 2 && e->in[1]->code == O_NUM;

	if (e == x)
		return true;
	switch (e->code) {
	case O_CAST:                             /* saturates */
		return dt_float(e->in[0]->type->dtype) && never_falls(e->in[0], x);
	case O_RINT: case O_FLOOR: case O_CEIL: case O_TRUNC:
		return never_falls(e->in[0], x);
	case O_MUL: case O_DIV:
		return by_number && e->in[1]->num.f > 0 && isfinite(e->in[1]->num.f)
			&& never_falls(e->in[0], x);
	case O_ADD: case O_SUB: case O_MAX: case O_MIN:
		return by_number && isfinite(e->in[1]->num.f) && never_falls(e->in[0], x);
	default:
		return false;
	}
}

/* The read that e is a function of, it alone; NULL: there are others, or axes. */
static Node *
only_read(Module *m, Node *e)
{
	Node **list, *read = NULL;
	int i, n;

	list = topo_scalar(e, &n);
	for (i = 0; i < n && !read; i++)
		read = list[i]->code == O_READ ? list[i] : NULL;
	free(list);
	if (!read || !dtypes[read->type->dtype].bits)
		return NULL;
	e = subst1(m, e, read, dt_float(read->type->dtype) ? x_flt(m, read->type->dtype, 3)
		: x_int(m, read->type->dtype, 3));
	return e->code == O_NUM ? read : NULL;
}

/* The function at x. */
static Node *
value_at(Module *m, const Narrower *f, Node *x)
{
	return subst1(m, f->value, f->of, x);
}

static bool
is_byte(DType d)
{
	return dt_int(d) && dtypes[d].bits == 8;
}

/* Is e, a function of the byte that read gives, that byte? */
static bool
is_same_byte(Module *m, Node *e, Node *read)
{
	DType d = read->type->dtype;
	Node *v;
	int i, lo = dt_signed(d) ? -128 : 0;

	if (e->type->dtype != d)
		return false;
	for (i = lo; i < lo + 256; i++) {
		v = subst1(m, e, read, x_int(m, d, i));
		if (v->code != O_NUM || v->num.i != i)
			return false;
	}
	return true;
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool
is_finite(const Node *e)
{
	return e->code == O_NUM ? isfinite(e->num.f)
		: e->code == O_CAST && !dt_float(e->in[0]->type->dtype);
}

/* Is the float certainly no NaN? */
static bool
is_number(const Node *e, int depth)
{
	int i;

	switch (e->code) {
	case O_NUM:
		return !isnan(e->num.f);
	case O_CAST:
		return is_finite(e);
	case O_MUL:
		return is_finite(e->in[0]) && is_finite(e->in[1]);
	case O_REDUCE:
		return (e->n == COMB_MAX || e->n == COMB_MIN) && is_number(e->in[e->nin - 1], depth);
	case O_READ:
		return depth > 0 && e->in[0]->code == O_TENSOR
			&& is_number(e->in[0]->in[e->in[0]->nin - 1], depth - 1);
	case O_MAX: case O_MIN: case O_SELECT:
		for (i = e->code == O_SELECT; i < e->nin; i++)
			if (!is_number(e->in[i], depth))
				return false;
		return true;
	default:
		return false;
	}
}

/* Does it make the least byte of the greatest of none, or the greatest of the least of none? */
static bool
keeps_none(Module *m, const Narrower *f, Comb comb)
{
	Node *v = value_at(m, f, x_flt(m, f->of->type->dtype, comb == COMB_MAX ? -INFINITY : INFINITY));
	DType d = v->type->dtype;
	int lo = dt_signed(d) ? -128 : 0;

	return v->code == O_NUM && v->num.i == (comb == COMB_MAX ? lo : lo + 255);
}

/* ---- going back ------------------------------------------------------------------------------ */

static Node *narrow_tensor(Narrow *, const Narrower *, Node *t, bool sole, int depth);

/* f of the element e of a tensor, moved or compared; NULL: it stays. sole: nobody else reads it. */
static Node *
narrow_element(Narrow *p, const Narrower *f, Node *e, bool sole, int depth)
{
	Module *m = p->m;
	Node *x, *y;

	if (e->code == O_NUM)
		return value_at(m, f, e);
	if (e->code == O_READ)
		return (x = narrow_tensor(p, f, e->in[0], sole, depth - 1))
			? x_read(m, x, e->in + 1) : NULL;
	if (e->code == O_SELECT)
		return (x = narrow_element(p, f, e->in[1], sole, depth))
			&& (y = narrow_element(p, f, e->in[2], sole, depth))
			? x_select(m, e->in[0], x, y) : NULL;
	if (e->code != O_REDUCE || (e->n != COMB_MAX && e->n != COMB_MIN) || !sole || !f->rises
	 || !is_number(e->in[e->nin - 1], depth) || !keeps_none(m, f, (Comb)e->n))
		return NULL;
	x = narrow_element(p, f, e->in[e->nin - 1], sole, depth);
	return x ? x_reduce(m, (Comb)e->n, e->nin - 1, e->in, x) : NULL;
}

static bool
moves_or_compares(const Node *t)
{
	const Node *e = t->code == O_TENSOR ? t->in[t->nin - 1] : t;

	return t->code == O_TENSOR && (e->code == O_READ || e->code == O_SELECT
		|| (e->code == O_REDUCE && (e->n == COMB_MAX || e->n == COMB_MIN)));
}

/* f of t, over axes of its own, where that needs no more work; NULL otherwise. */
static Node *
narrow_tensor(Narrow *p, const Narrower *f, Node *t, bool sole, int depth)
{
	Module *m = p->m;
	Node *axes[MAX_RANK], *e, *read, *r;

	if (t->code != O_TENSOR || dtype_of(t) != f->of->type->dtype || depth <= 0)
		return NULL;
	axes_new(m, rank_of(t), t->type->dims, axes);
	e = element_of(m, t, axes);
	sole &= (intptr_t)map_get(&p->reads, t) == 1;
	if (moves_or_compares(t)) {
		e = narrow_element(p, f, e, sole, depth);
	} else {
		read = only_read(m, e);
		if (!sole && (!read || !is_byte(read->type->dtype)))
			return NULL;
		e = value_at(m, f, e);
		if (read && is_byte(read->type->dtype) && is_same_byte(m, e, read))
			e = read;
	}
	if (!e)
		return NULL;
	r = t_tensor(m, rank_of(t), axes, e);
	if (r->code == O_TENSOR && !r->loc)
		r->loc = t->loc;
	return r;
}

/* The tensor of bytes t, a function of what has been moved or compared, the other way round. */
static Node *
narrowed(Narrow *p, Node *t)
{
	Module *m = p->m;
	Node *read, *x, *r, *body = t->in[t->nin - 1], *inner;
	Narrower f;

	if (!is_byte(dtype_of(t)) || !(read = only_read(m, body)) || read == body
	 || !dt_float(read->type->dtype) || read->in[0]->code != O_TENSOR)
		return NULL;
	f = (Narrower){body, read, never_falls(body, read)};
	if (!moves_or_compares(read->in[0])) {
		inner = read->in[0]->in[read->in[0]->nin - 1];
		x = only_read(m, inner);
		if (!x || !is_byte(x->type->dtype) || !is_same_byte(m, value_at(m, &f, inner), x))
			return NULL;
	}
	if (!(x = narrow_tensor(p, &f, read->in[0], true, MAX_DEPTH)))
		return NULL;
	r = t_tensor(m, t->nin - 1, t->in, x_read(m, x, read->in + 1));
	if (r->code == O_TENSOR && !r->loc)
		r->loc = t->loc;
	return r;
}

/* ---- the module ------------------------------------------------------------------------------ */

static void
add_reads(Map *reads, const Node *t, intptr_t n)
{
	map_put(reads, t, (void *)((intptr_t)map_get(reads, t) + n));
}

/* How often each tensor stands in what gives the results, or is one. */
static void
count_reads(Module *m, Map *reads)
{
	Node **list;
	int i, k, j, n;

	list = topo(m->main->results, m->main->nresults, true, &n);
	for (i = 0; i < n; i++) {
		for (k = 0; k < list[i]->nin; k++)
			if (list[i]->in[k] && list[i]->in[k]->code == O_TENSOR)
				add_reads(reads, list[i]->in[k], 1);
		for (k = 0; k < list[i]->nregions; k++)
			for (j = 0; j < list[i]->regions[k]->nresults; j++)
				if (list[i]->regions[k]->results[j])
					add_reads(reads, list[i]->regions[k]->results[j], 1);
	}
	for (k = 0; k < m->main->nresults; k++)
		add_reads(reads, m->main->results[k], 1);
	free(list);
}

typedef struct Rewrite { Narrow narrow; Map old; } Rewrite;

static Node *
narrow_node(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Rewrite *w = ctx;
	Node *t, *r;

	if (n->code != O_TENSOR || (t = rebuild_node(m, n, in, done))->code != O_TENSOR)
		return NULL;
	r = narrowed(&w->narrow, t);
	add_reads(&w->narrow.reads, r ? r : t, (intptr_t)map_get(&w->old, n));
	return r;
}

bool
pass_narrow(Module *m)
{
	Rewrite w = {.narrow.m = m};

	count_reads(m, &w.old);
	rewrite_module(m, false, narrow_node, &w);
	map_free(&w.old);
	map_free(&w.narrow.reads);
	return true;
}
