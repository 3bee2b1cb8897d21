/*
 * scales: what scales a factor of a sum of products scales the sum once:
 *
 *	sum (k) a[k] * (f32(w[k, n]) * s[n])     ->   s[n] * sum (k) a[k] * f32(w[k, n])
 *	t = tensor f16 x[..] * c;
 *	sum (k) f32(t[k]) * b[k]                 ->   c * sum (k) f32(x[k]) * b[k]
 *
 * so weights that are stored narrow are read by a step of the sum as they are, one tensor, whose
 * panels a schedule can fetch ahead; and queries and keys that are scaled before their product need
 * no kernel that does it. Class real: the result is off by one rounding, each product was by one.
 * f16 cannot overflow a sum in f32, and c is at most 1. Off with --strict, listed in the precision
 * ledger.
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

static bool
is_modest(const Node *c)
{
	double v = c->code == O_NUM ? fabs(c->num.f) : 0;

	return v >= 0x1p-14 && v <= 1;
}

/* The number that an element of f16 in the factor is scaled by where it is made, *rest the factor of what
 * it is made from; NULL: none. */
static Node *
scale_before(Module *m, Node *factor, Node **rest)
{
	Node *t, *e;
	int i;

	if (factor->code != O_CAST || factor->in[0]->code != O_READ
	 || (t = factor->in[0]->in[0])->code != O_TENSOR || dtype_of(t) != DT_F16 || t->attrs)
		return NULL;
	e = element_of(m, t, factor->in[0]->in + 1);
	for (i = 0; e->code == O_MUL && i < 2; i++)
		if (e->in[!i]->code == O_READ && is_modest(e->in[i])) {
			*rest = x_cast(m, DT_F32, e->in[!i]);
			return x_cast(m, DT_F32, e->in[i]);
		}
	return NULL;
}

/* Both factors without such scales, times these. */
static Node *
scaled_before(Module *m, Node *red, Node *mul, double *error)
{
	Node *in[2] = {mul->in[0], mul->in[1]}, *c = NULL, *s;
	int i;

	for (i = 0; i < 2; i++)
		if ((s = scale_before(m, in[i], &in[i]))) {
			c = c ? x_mul(m, c, s) : s;
			*error += 0x1p-11;
		}
	return c ? x_mul(m, c, x_reduce(m, COMB_SUM, red->nin - 1, red->in, x_mul(m, in[0], in[1]))) : NULL;
}

static Node *
scaled_sum(Module *m, Node *red, void *ctx)
{
	Node *mul = red->in[red->nin - 1], *s, *rest;
	int i;

	*(double *)ctx = FLT_EPSILON;
	if (red->n != COMB_SUM || red->type->dtype != DT_F32 || mul->code != O_MUL)
		return NULL;
	for (i = 0; i < 2; i++)
		if ((s = scale_of(red, mul->in[i], &rest)))
			return x_mul(m, s, x_reduce(m, COMB_SUM, red->nin - 1, red->in,
				x_mul(m, mul->in[!i], rest)));
	return scaled_before(m, red, mul, ctx);
}

static Node *
scaled_node(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Node *t, *r;
	double error = 0;

	if (n->code != O_TENSOR || (n->type->dtype != DT_F32 && n->type->dtype != DT_F16) || n->attrs
	 || (t = rebuild_node(m, n, in, done))->code != O_TENSOR)
		return NULL;
	(void)ctx;
	r = replace_reductions(m, t, scaled_sum, &error);
	r->loc = n->loc;
	if (r != t)
		ledger_add(m, "scaled_sum", "real", error, n->loc);
	return r;
}

bool
pass_scales(Module *m)
{
	if (!m->strict)
		rewrite_module(m, false, scaled_node, NULL);
	return true;
}
