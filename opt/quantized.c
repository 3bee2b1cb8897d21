/*
 * quantized: sums of products of dequantized bytes, as models in QDQ form have them, become integer
 * sums that dot4 can take:
 *
 *	sum f32(i32(a) - za) sa * f32(i32(b) - zb) sb
 *	  -> f32(sum i32(a) i32(b) - za sum i32(b) - zb sum i32(a) + za zb K) * (sa sb)
 *
 * Along axes that scales or zero points depend on (blocks of weights) the sum stays one of floats,
 * around that of integers. Bytes may be some of their bits. Bytes padded with 0 after they were
 * dequantized are padded with their zero point instead. The integers are exact (K is small enough not to wrap): the result is off by two roundings, the float
 * sum by more. Class real: listed in the precision ledger, off with --strict.
 *
 * Needs the tensor level before producers are inlined and constants folded; leaves such sums in i32
 * where the machine sums bytes as they are in fours: bytes that it must widen take as long as floats.
 */
#include <float.h>
#include <stdlib.h>
#include "sched.h"

enum { MAX_SUM = INT32_MAX / (255 * 255), MAX_DEPTH = 4 };

/* A value f32(value - zero) * scale, where value is byte_of's; zero NULL: 0. */
typedef struct Quant { Node *value, *zero, *scale; } Quant;

/* blocks: the scales change along the sum. */
typedef struct Quantized { Module *m; Map padded; bool blocks; const Loc *loc; } Quantized;

static bool split(Quantized *, Node *e, int depth, Quant *);

static bool
split_integer(Node *e, Quant *q)
{
	Node *i = e->code == O_CAST && e->type->dtype == DT_F32 ? e->in[0] : NULL;
	Byte b;

	*q = (Quant){0};
	if (i && i->code == O_SUB && i->type->dtype == DT_I32) {
		q->zero = is_zero(i->in[1]) ? NULL : i->in[1];
		i = i->in[0];
	}
	q->value = i && byte_of(i, &b) ? i : NULL;
	return q->value != NULL;
}

/* The bytes of a tensor that is a dequantized one or 0, where t is that: of its axes. */
static Node *
padded_bytes(Quantized *p, Node *t, const Quant *q)
{
	Module *m = p->m;
	Node *body = t->in[t->nin - 1], *bytes = map_get(&p->padded, t), *axes[MAX_RANK], *e;
	Map map = {0};
	DType d;
	Byte b;
	int i;

	if (bytes)
		return bytes;
	if (!byte_of(q->value, &b) || b.shift)
		return NULL;
	d = b.read->type->dtype;
	axes_new(m, t->nin - 1, t->type->dims, axes);
	for (i = 0; i + 1 < t->nin; i++)
		map_put(&map, t->in[i], axes[i]);
	e = x_select(m, body->in[0], b.read, q->zero ? x_cast(m, d, q->zero) : x_int(m, d, 0));
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
	Byte b;
	int i;
	bool ok;

	if (body->code == O_SELECT && body->in[2]->code == O_NUM && body->in[2]->num.f == 0) {
		ok = split(p, body->in[1], depth - 1, q);
		bytes = ok ? padded_bytes(p, t, q) : NULL;
		ok &= bytes != NULL;
	} else {
		ok = split(p, body, depth - 1, q);
	}
	for (i = 0; i + 1 < t->nin; i++)
		map_put(&at, t->in[i], e->in[i + 1]);
	if (ok) {
		q->value = bytes ? x_cast(m, DT_I32, x_read(m, bytes, e->in + 1))
			: subst(m, q->value, &at, false);
		q->zero = q->zero ? subst(m, q->zero, &at, false) : NULL;
		q->scale = subst(m, q->scale, &at, false);
	}
	map_free(&at);
	return ok && byte_of(q->value, &b);
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

/* Is the axis that of a reduction within e? */
static bool
is_bound_in(Node **list, int n, const Node *axis)
{
	int i, k;

	for (i = 0; i < n; i++)
		for (k = 0; list[i]->code == O_REDUCE && k + 1 < list[i]->nin; k++)
			if (list[i]->in[k] == axis)
				return true;
	return false;
}

/* e as a read of a tensor over the axes that it depends on, or itself if that is one or none. */
static Node *
as_tensor(Quantized *p, Node *e)
{
	Module *m = p->m;
	Node **list, *axes[MAX_RANK], *idx[MAX_RANK], *t;
	Map map = {0};
	int i, n, count = 0;

	list = topo_scalar(e, &n);
	for (i = 0; i < n && count <= MAX_RANK; i++)
		if (list[i]->code == O_AXIS && !is_bound_in(list, n, list[i])) {
			if (count < MAX_RANK)
				idx[count] = list[i];
			count++;
		}
	free(list);
	if (count > MAX_RANK || e->code == O_NUM)
		return e;
	for (i = 0; i < count; i++)
		map_put(&map, idx[i], axes[i] = x_axis(m, idx[i]->in[0]));
	t = t_tensor(m, count, axes, subst(m, e, &map, true));
	t->loc = p->loc;
	map_free(&map);
	return x_read(m, t, idx);
}

/* The sum of products less zero points over the axes of red, in i32; what does not depend on the
 * result's axes alike is summed apart. */
static Node *
integer_sum(Quantized *p, Node *red, const Quant *q, int64_t count)
{
	Module *m = p->m;
	Node *sum = red;
	int i;

	for (i = 0; i < 2; i++)
		if (q[i].zero)
			sum = x_sub(m, sum, x_mul(m, q[i].zero, p->blocks
				? as_tensor(p, sum_anew(m, red, q[!i].value)) : sum_anew(m, red, q[!i].value)));
	if (q[0].zero && q[1].zero)
		sum = x_add(m, sum, x_mul(m, x_mul(m, q[0].zero, q[1].zero), x_int(m, DT_I32, count)));
	return sum;
}

/* The axes that scales and zero points depend on into outer, the others into inner. */
static void
part_axes(Node *red, const Quant *q, Node **outer, int *nouter, Node **inner, int *ninner)
{
	Node *axis;
	bool out;
	int i, k;

	*nouter = *ninner = 0;
	for (i = 0; i + 1 < red->nin; i++) {
		axis = red->in[i];
		for (k = 0, out = false; k < 2; k++)
			out |= contains(q[k].scale, axis) || (q[k].zero && contains(q[k].zero, axis));
		if (out)
			outer[(*nouter)++] = axis;
		else
			inner[(*ninner)++] = axis;
	}
}

/* The sum as integers times a scale, or NULL. */
static Node *
as_integers(Module *m, Node *red, void *ctx)
{
	Quantized *p = ctx;
	Node *mul = red->in[red->nin - 1], *sum, *outer[MAX_RANK * 2], *inner[MAX_RANK * 2];
	int64_t count = 1;
	Quant q[2];
	int i, nouter, ninner;

	if (red->n != COMB_SUM || red->type->dtype != DT_F32 || mul->code != O_MUL)
		return NULL;
	for (i = 0; i < 2; i++)
		if (!split(p, mul->in[i], MAX_DEPTH, &q[i]))
			return NULL;
	part_axes(red, q, outer, &nouter, inner, &ninner);
	for (i = 0; i < ninner; i++)
		count = sat_mul(count, const_or(inner[i]->in[0], INT64_MAX));
	if (ninner == 0 || count > MAX_SUM)
		return NULL;
	sum = x_reduce(m, COMB_SUM, ninner, inner, x_mul(m, q[0].value, q[1].value));
	if (sum->code != O_REDUCE || !sums_in_fours(m, sum))
		return NULL;
	p->blocks = nouter > 0;
	for (i = 0; i < 2 && p->blocks; i++) {
		q[i].scale = as_tensor(p, q[i].scale);
		q[i].zero = q[i].zero ? as_tensor(p, q[i].zero) : NULL;
	}
	sum = x_cast(m, DT_F32, integer_sum(p, sum, q, count));
	sum = x_mul(m, sum, x_mul(m, q[0].scale, q[1].scale));
	return p->blocks ? x_reduce(m, COMB_SUM, nouter, outer, sum) : sum;
}

static Node *
quantized_node(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Quantized *p = ctx;
	Node *t, *r;

	if (n->code != O_TENSOR || n->type->dtype != DT_F32
	 || (t = rebuild_node(m, n, in, done))->code != O_TENSOR)
		return NULL;
	p->loc = n->loc;
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

	if (machine_dot4(m->machine) == 1 && !m->strict)
		rewrite_module(m, false, quantized_node, &p);
	map_free(&p.padded);
	return true;
}
