/*
 * scales: weights that are stored narrow and scaled when they are read, in a sum of products,
 *
 *	sum (k) a[k] * (f32(w[k, n]) * s[n])   ->   s[n] * sum (k) a[k] * f32(w[k, n])
 *
 * are scaled once for the sum: a step of it then reads and multiplies less, and what it reads is
 * one tensor, whose panels a schedule can fetch ahead. Class real: the result is off by one
 * rounding, each product was by one. Off with --strict, listed in the precision ledger.
 *
 * Needs the tensor level with producers inlined; leaves such sums. Scales are constants far from
 * overflow and underflow.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include "sched.h"

enum { MAX_STEPS = 4, MAX_SCALES = 1 << 20 };

static bool
is_tame(const Node *t)
{
	const Node *d = definition((Node *)t);
	int64_t i;
	double v;

	if (d->code != O_CONST || dtype_of(d) != DT_F32 || d->data->count > MAX_SCALES)
		return false;
	for (i = 0; i < d->data->count; i++) {
		v = fabs(data_get(d->data, DT_F32, i).f);
		if (!(v >= 0x1p-60 && v <= 0x1p60))
			return false;
	}
	return true;
}

static bool
depends_on_sum(const Node *red, Node *e)
{
	int i;

	for (i = 0; i + 1 < red->nin; i++)
		if (contains(e, red->in[i]))
			return true;
	return false;
}

/* Is e an element of a type of 16 bits or fewer, made f32? */
static bool
is_narrow(const Node *e)
{
	while (e->code == O_CAST && dtypes[e->in[0]->type->dtype].bits > 16)
		e = e->in[0];
	return e->code == O_CAST && e->in[0]->code == O_READ
		&& from_constants(e->in[0]->in[0], MAX_STEPS);
}

/* The scale in the factor, *rest without it; NULL: there is none. */
static Node *
scale_of(const Node *red, Node *factor, Node **rest)
{
	Node *s;
	int i;

	for (i = 0; factor->code == O_MUL && i < 2; i++) {
		s = factor->in[i];
		*rest = factor->in[!i];
		if (s->code == O_READ && !depends_on_sum(red, s) && is_narrow(*rest) && is_tame(s->in[0]))
			return s;
	}
	return NULL;
}

static Node *
scaled_sum(Module *m, Node *red, void *ctx)
{
	Node *mul = red->in[red->nin - 1], *s, *rest;
	int i;

	(void)ctx;
	if (red->n != COMB_SUM || red->type->dtype != DT_F32 || mul->code != O_MUL)
		return NULL;
	for (i = 0; i < 2; i++)
		if ((s = scale_of(red, mul->in[i], &rest)))
			return x_mul(m, s, x_reduce(m, COMB_SUM, red->nin - 1, red->in,
				x_mul(m, mul->in[!i], rest)));
	return NULL;
}

static Node *
scaled_node(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Node *t, *r;

	if (n->code != O_TENSOR || n->type->dtype != DT_F32 || n->attrs
	 || (t = rebuild_node(m, n, in, done))->code != O_TENSOR)
		return NULL;
	r = replace_reductions(m, t, scaled_sum, ctx);
	r->loc = n->loc;
	if (r != t)
		ledger_add(m, "scaled_sum", "real", FLT_EPSILON, n->loc);
	return r;
}

bool
pass_scales(Module *m)
{
	if (!m->strict)
		rewrite_module(m, false, scaled_node, NULL);
	return true;
}
