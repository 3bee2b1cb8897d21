/*
 * quantized: sums of products of dequantized bytes, as models in QDQ form have them, become integer
 * sums that dot4 can take:
 *
 *	sum f32(i32(a) - za) sa * f32(i32(b) - zb) sb
 *	  -> f32(sum i32(a) i32(b) - za sum i32(b) - zb sum i32(a) + za zb K) * (sa sb)
 *
 * Bytes padded with 0 after they were dequantized are padded with their zero point instead. The
 * integers are exact (K is small enough not to wrap): the result is off by two roundings, the float
 * sum by more. Class real: listed in the precision ledger, off with --strict.
 *
 * Needs the tensor level before producers are inlined and constants folded; leaves such sums in i32
 * where the machine sums bytes in fours.
 */
#include <float.h>
#include <stdlib.h>
#include "sched.h"

enum { MAX_SUM = INT32_MAX / (255 * 255), MAX_DEPTH = 4 };

/* A value f32(i32(read) - zero) * scale; zero NULL: 0. */
typedef struct Quant { Node *read, *zero, *scale; } Quant;

typedef struct Quantized { Module *m; Map padded; } Quantized;

static bool split(Quantized *, Node *e, int depth, Quant *);

static bool
split_integer(Node *e, Quant *q)
{
	Node *i = e->code == O_CAST && e->type->dtype == DT_F32 ? e->in[0] : NULL;

	*q = (Quant){0};
	if (i && i->code == O_SUB && i->type->dtype == DT_I32) {
		q->zero = is_zero(i->in[1]) ? NULL : i->in[1];
		i = i->in[0];
	}
	q->read = i ? byte_read(i) : NULL;
	return q->read != NULL;
}

/* The bytes of a tensor that is a dequantized one or 0, where t is that: of its axes. */
static Node *
padded_bytes(Quantized *p, Node *t, const Quant *q)
{
	Module *m = p->m;
	Node *body = t->in[t->nin - 1], *bytes = map_get(&p->padded, t), *axes[MAX_RANK], *e;
	DType d = q->read->type->dtype;
	Map map = {0};
	int i;

	if (bytes)
		return bytes;
	axes_new(m, t->nin - 1, t->type->dims, axes);
	for (i = 0; i + 1 < t->nin; i++)
		map_put(&map, t->in[i], axes[i]);
	e = x_select(m, body->in[0], q->read, q->zero ? x_cast(m, d, q->zero) : x_int(m, d, 0));
	bytes = t_tensor(m, t->nin - 1, axes, subst(m, e, &map, false));
	bytes->loc = t->loc;
	map_free(&map);
	map_put(&p->padded, t, bytes);
	return bytes;
}

/* The element of t, a tensor of floats, that e reads. */
static bool
split_read(Quantized *p, Node *e, int depth, Quant *q)
{
	Module *m = p->m;
	Node *t = e->in[0], *body = t->in[t->nin - 1], *bytes = NULL;
	Map at = {0};
	int i;
	bool ok;

	if (body->code == O_SELECT && body->in[2]->code == O_NUM && body->in[2]->num.f == 0) {
		ok = split(p, body->in[1], depth - 1, q);
		bytes = ok ? padded_bytes(p, t, q) : NULL;
	} else {
		ok = split(p, body, depth - 1, q);
	}
	for (i = 0; i + 1 < t->nin; i++)
		map_put(&at, t->in[i], e->in[i + 1]);
	if (ok) {
		q->read = bytes ? x_read(m, bytes, e->in + 1) : subst(m, q->read, &at, false);
		q->zero = q->zero ? subst(m, q->zero, &at, false) : NULL;
		q->scale = subst(m, q->scale, &at, false);
	}
	map_free(&at);
	return ok && q->read->code == O_READ;
}

static bool
split(Quantized *p, Node *e, int depth, Quant *q)
{
	int i;

	if (depth == 0 || e->type->dtype != DT_F32)
		return false;
	if (e->code == O_READ)
		return e->in[0]->code == O_TENSOR && split_read(p, e, depth, q);
	for (i = 0; e->code == O_MUL && i < 2; i++)
		if (split_integer(e->in[i], q)) {
			q->scale = e->in[!i];
			return true;
		}
	return false;
}

/* May it stand outside of the sum? */
static bool
is_invariant(const Node *red, const Node *e)
{
	int i;

	for (i = 0; e && i + 1 < red->nin; i++)
		if (contains(e, red->in[i]))
			return false;
	return true;
}

/* The sum as integers times a scale, or NULL. */
static Node *
as_integers(Module *m, Node *red, void *ctx)
{
	Quantized *p = ctx;
	Node *mul = red->in[red->nin - 1], *i32[2], *sum, *reads[2];
	int64_t count = 1;
	Quant q[2];
	int i;

	if (red->n != COMB_SUM || red->type->dtype != DT_F32 || mul->code != O_MUL)
		return NULL;
	for (i = 0; i + 1 < red->nin; i++)
		count = sat_mul(count, const_or(red->in[i]->in[0], INT64_MAX));
	if (count > MAX_SUM)
		return NULL;
	for (i = 0; i < 2; i++) {
		if (!split(p, mul->in[i], MAX_DEPTH, &q[i]) || !is_invariant(red, q[i].zero)
			|| !is_invariant(red, q[i].scale))
			return NULL;
		reads[i] = q[i].read;
		i32[i] = x_cast(m, DT_I32, reads[i]);
	}
	if (!sums_in_fours(m, red, reads))
		return NULL;
	sum = sum_anew(m, red, x_mul(m, i32[0], i32[1]));
	for (i = 0; i < 2; i++)
		if (q[i].zero)
			sum = x_sub(m, sum, x_mul(m, q[i].zero, sum_anew(m, red, i32[!i])));
	if (q[0].zero && q[1].zero)
		sum = x_add(m, sum, x_mul(m, x_mul(m, q[0].zero, q[1].zero), x_int(m, DT_I32, count)));
	return x_mul(m, x_cast(m, DT_F32, sum), x_mul(m, q[0].scale, q[1].scale));
}

static Node *
quantized_node(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Node *t, *r;

	if (n->code != O_TENSOR || n->type->dtype != DT_F32
	 || (t = rebuild_node(m, n, in, done))->code != O_TENSOR)
		return NULL;
	r = replace_reductions(m, t, as_integers, ctx);
	if (r != t) {
		r->loc = n->loc;
		ledger_add(m, "quantized_sum", "real", 1.5 * FLT_EPSILON, n->loc);
	}
	return r;
}

bool
pass_quantized(Module *m)
{
	Quantized p = {.m = m};

	if (machine_dot4(m->machine) && !m->strict)
		rewrite_module(m, false, quantized_node, &p);
	map_free(&p.padded);
	return true;
}
