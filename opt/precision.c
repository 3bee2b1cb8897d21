/*
 * precision: with the user's leave (--precision) the f32 operands of contractions are rounded to a
 * narrower float; sums stay f32. For a half type T
 *
 *	sum a * b  ->  sum f32(a') * f32(b'),  a' = T(a), b' = T(b) tensors of their own
 *
 * so that what makes a, or what a only moves, writes T, constants are stored as T, and schedules find products of T. tf32
 * has no storage of its own: its operands are rounded where they are read. What is summed without
 * reuse (depthwise convolutions, pooling, norms) gains nothing and stays f32.
 *
 * Class approx: listed in the precision ledger. Each operand is off by half a unit in its last
 * place; the error told is that of a sum whose terms do not cancel.
 *
 * Needs the tensor level before producers are inlined; leaves the same level.
 */
#include <math.h>
#include "sched.h"

/* In the order of Precision: the type that operands are rounded to, and the bits of its fraction. */
static const struct { DType type; int bits; } kinds[] = {
	[PREC_MODEL] = {DT_NONE, 23},
	[PREC_TF32] = {DT_F32, 10},
	[PREC_BF16] = {DT_BF16, 7},
	[PREC_F16] = {DT_F16, 10},
};

typedef struct Lowering {
	Module *m;
	DType to;
	Node *tensor;          /* whose reductions are seen */
	const Loc *loc;
	Map narrow;            /* tensor -> the same rounded */
} Lowering;

static Node *narrowed(Lowering *, Node *t);

/* e as l->to if it only moves elements, and zeros, from elsewhere: they are rounded there. NULL: it
 * computes. */
static Node *
moved(Lowering *l, Node *e)
{
	Module *m = l->m;
	Node *a, *b;

	if (e->code == O_NUM)
		return x_cast(m, l->to, e);
	if (e->code == O_READ && e->type->dtype == DT_F32)
		return x_read(m, narrowed(l, e->in[0]), e->in + 1);
	if (e->code != O_SELECT)
		return NULL;
	a = moved(l, e->in[1]);
	b = a ? moved(l, e->in[2]) : NULL;
	return b ? x_select(m, e->in[0], a, b) : NULL;
}

static Node *
narrowed(Lowering *l, Node *t)
{
	Module *m = l->m;
	Node *axes[MAX_RANK], *r = map_get(&l->narrow, t), *e = NULL;
	Map map = {0};
	int i;

	if (r)
		return r;
	axes_new(m, rank_of(t), t->type->dims, axes);
	if (t->code == O_TENSOR && t->in[t->nin - 1]->code != O_NUM && (e = moved(l, t->in[t->nin - 1]))) {
		for (i = 0; i < rank_of(t); i++)
			map_put(&map, t->in[i], axes[i]);
		e = subst(m, e, &map, false);
		map_free(&map);
	}
	r = t_tensor(m, rank_of(t), axes, e ? e : x_cast(m, l->to, x_read(m, t, axes)));
	r->loc = t->loc ? t->loc : l->loc;
	map_put(&l->narrow, t, r);
	return r;
}

/* The factor with its read rounded; NULL: it is none of f32. */
static Node *
lowered_factor(Lowering *l, Node *e)
{
	Module *m = l->m;

	if (e->code != O_READ || e->type->dtype != DT_F32)
		return NULL;
	if (l->to == DT_F32)
		return x1(m, O_TF32, e);
	return x_cast(m, DT_F32, x_read(m, narrowed(l, e->in[0]), e->in + 1));
}

static Node *
lowered_sum(Module *m, Node *red, void *ctx)
{
	Lowering *l = ctx;
	Node *mul = red->in[red->nin - 1], *a, *b;

	if (red->n != COMB_SUM || red->type->dtype != DT_F32 || mul->code != O_MUL
	 || !contraction_reuse(m->machine, l->tensor, red))
		return NULL;
	a = lowered_factor(l, mul->in[0]);
	b = a ? lowered_factor(l, mul->in[1]) : NULL;
	return b ? x_reduce(m, COMB_SUM, red->nin - 1, red->in, x_mul(m, a, b)) : NULL;
}

static Node *
lowered_node(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Lowering *l = ctx;
	Node *r;

	if (n->code != O_TENSOR || (l->tensor = rebuild_node(m, n, in, done))->code != O_TENSOR)
		return NULL;
	l->loc = n->loc;
	r = replace_reductions(m, l->tensor, lowered_sum, l);
	r->loc = n->loc;
	if (r != l->tensor)
		ledger_add(m, arena_printf(m->arena, "operands_%s", precision_names[m->precision]), "approx",
			ldexp(1, -kinds[m->precision].bits), n->loc);
	return r;
}

bool
pass_precision(Module *m)
{
	Lowering l = {.m = m, .to = kinds[m->precision].type};

	if (m->precision != PREC_MODEL)
		rewrite_module(m, false, lowered_node, &l);
	map_free(&l.narrow);
	return true;
}
