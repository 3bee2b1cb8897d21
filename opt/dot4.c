/*
 * dot4: sums of products of bytes in i32 (MatMulInteger, QLinearConv and the like), four products
 * an instruction where the machine has one (VPDPBUSD).
 *
 *	sum (k: K) i32(a[.., k]) * i32(b[k, ..])   ->   sum (k: K/4) dot4(a4[.., k], b4[k, ..])
 *
 * where a4 and b4 hold four neighbours along k in an i32, past the end 0; of constants they fold.
 * dot4 takes unsigned bytes on its left and signed ones on its right. Two of a kind: of one the
 * highest bits are flipped, which adds or subtracts 128 times the sum of the other. All wraps, so
 * that it is exact.
 *
 * Needs the tensor level, before producers are inlined; leaves such sums as above.
 */
#include <stdlib.h>
#include "sched.h"

enum { MIN_SUM = 3 };

/* Four neighbours along a dimension of x in one element, their highest bits flipped or not. */
typedef struct Packed { Node *x, *packed; int dim; bool flip; } Packed;

/* A factor: a byte of read's tensor, at rest + the axis along dimension dim. */
typedef struct Factor { Node *read, *rest; int dim; } Factor;

typedef struct Dot { Module *m; Vec packed; const Loc *loc; } Dot;

Node *
byte_read(Node *e)
{
	Node *r = e->code == O_CAST && e->type->dtype == DT_I32 ? e->in[0] : NULL;

	if (!r || r->code != O_READ || (r->type->dtype != DT_I8 && r->type->dtype != DT_U8))
		return NULL;
	return r;
}

static bool
is_multiple(Module *m, Node *e)
{
	return is_intv(x_mod(m, e, x_idx(m, 4)), 0);
}

/* Does the axis of the sum go through one dimension of the read, in fours that pack() makes? */
static bool
factor_of(Module *m, Node *read, Node *axis, Factor *f)
{
	Node *coef, *extent = axis->in[0];
	int k, n = 0;

	for (k = 1; k < read->nin; k++)
		if (contains(read->in[k], axis)) {
			f->dim = k - 1;
			n++;
		}
	if (n != 1 || !linear_in(m, read->in[f->dim + 1], axis, &coef, &f->rest) || !is_intv(coef, 1))
		return false;
	f->read = read;
	if (f->rest->lo == 0 && f->rest->hi == 0)
		return is_multiple(m, extent) || prove_eq(m, extent, dim_of(read->in[0], f->dim));
	return is_multiple(m, f->rest) && is_multiple(m, extent);
}

static Node *
word_of(Module *m, Node *x, int dim, Node *const *axes)
{
	Node *word = x_int(m, DT_U32, 0), *idx[MAX_RANK], *v;
	int i, k;

	for (i = 0; i < rank_of(x); i++)
		idx[i] = axes[i];
	for (k = 0; k < 4; k++) {
		idx[dim] = x_addi(m, x_muli(m, axes[dim], 4), k);
		v = x_cast(m, DT_U32, x_bits(m, DT_U8, x_read(m, x, idx)));
		v = x_select(m, x_lt(m, idx[dim], dim_of(x, dim)), v, x_int(m, DT_U32, 0));
		word = x_or(m, word, x2(m, O_SHL, v, x_int(m, DT_U32, 8 * k)));
	}
	return word;
}

static Node *
pack(Dot *d, const Factor *f, bool flip)
{
	Module *m = d->m;
	Node *x = f->read->in[0], *extents[MAX_RANK], *axes[MAX_RANK], *word;
	Packed *p;
	int i;

	for (i = 0; i < d->packed.n; i++) {
		p = d->packed.at[i];
		if (p->x == x && p->dim == f->dim && p->flip == flip)
			return p->packed;
	}
	for (i = 0; i < rank_of(x); i++)
		extents[i] = i == f->dim ? x_ceildiv(m, dim_of(x, i), x_idx(m, 4)) : dim_of(x, i);
	axes_new(m, rank_of(x), extents, axes);
	word = word_of(m, x, f->dim, axes);
	if (flip)
		word = x2(m, O_XOR, word, x_int(m, DT_U32, 0x80808080));
	p = NEW(m, Packed);
	*p = (Packed){x, t_tensor(m, rank_of(x), axes, x_bits(m, DT_I32, word)), f->dim, flip};
	p->packed->loc = d->loc;
	vec_push(m, &d->packed, p);
	return p->packed;
}

static Node *
packed_read(Dot *d, const Factor *f, bool flip, Node *axis)
{
	Module *m = d->m;
	Node *idx[MAX_RANK];
	int i;

	for (i = 0; i + 1 < f->read->nin; i++)
		idx[i] = f->read->in[i + 1];
	idx[f->dim] = x_add(m, x_fdiv(m, f->rest, x_idx(m, 4)), axis);
	return x_read(m, pack(d, f, flip), idx);
}

/* The axis of the sum that both factors go through in fours, the longest; -1 if there is none. */
static int
axis_of(Module *m, Node *red, Node *const *reads, Factor *f)
{
	Factor g[2];
	int64_t size, most = MIN_SUM - 1;
	int i, best = -1;

	for (i = 0; i + 1 < red->nin; i++) {
		size = const_or(red->in[i]->in[0], 64);
		if (size <= most || !factor_of(m, reads[0], red->in[i], &g[0])
			|| !factor_of(m, reads[1], red->in[i], &g[1]))
			continue;
		most = size;
		best = i;
		f[0] = g[0];
		f[1] = g[1];
	}
	return best;
}

bool
sums_in_fours(Module *m, Node *red, Node *const *reads)
{
	Factor f[2];

	return axis_of(m, red, reads, f) >= 0;
}

Node *
sum_anew(Module *m, Node *red, Node *e)
{
	Node *axes[MAX_RANK * 2], *r;
	Map map = {0};
	int i;

	for (i = 0; i + 1 < red->nin; i++)
		map_put(&map, red->in[i], axes[i] = x_axis(m, red->in[i]->in[0]));
	r = x_reduce(m, COMB_SUM, red->nin - 1, axes, subst(m, e, &map, false));
	map_free(&map);
	return r;
}

/* 128 times the sum of the other factor, with the sign that makes up for flipped bits. */
static Node *
correction(Module *m, Node *red, Node *other, bool negative)
{
	return x_mul(m, sum_anew(m, red, x_cast(m, DT_I32, other)),
		x_int(m, DT_I32, negative ? -128 : 128));
}

/* The sum in fours, or NULL. */
static Node *
in_fours(Module *m, Node *red, void *ctx)
{
	Dot *d = ctx;
	Node *mul = red->in[red->nin - 1], *reads[2], *axes[MAX_RANK * 2], *axis, *sum, *in[2];
	Factor f[2];
	bool is_signed[2], flip[2] = {false, false};
	int i, k, left;

	if (red->n != COMB_SUM || mul->code != O_MUL || !(reads[0] = byte_read(mul->in[0]))
	 || !(reads[1] = byte_read(mul->in[1])) || (k = axis_of(m, red, reads, f)) < 0)
		return NULL;
	for (i = 0; i < 2; i++)
		is_signed[i] = reads[i]->type->dtype == DT_I8;
	left = is_signed[0];
	if (is_signed[0] == is_signed[1]) {      /* flips what is not constant */
		i = definition(reads[0]->in[0])->code == O_CONST;
		flip[i] = true;
		left = is_signed[0] ? i : !i;
	}
	for (i = 0; i + 1 < red->nin; i++)
		axes[i] = red->in[i];
	axes[k] = axis = x_axis(m, x_ceildiv(m, axes[k]->in[0], x_idx(m, 4)));
	for (i = 0; i < 2; i++)
		in[i] = packed_read(d, &f[i], flip[i], axis);
	sum = x_reduce(m, COMB_SUM, red->nin - 1, axes, x2(m, O_DOT4, in[left], in[!left]));
	for (i = 0; i < 2; i++)
		if (flip[i])
			sum = x_add(m, sum, correction(m, red, reads[!i], is_signed[i]));
	return sum;
}

static Node *
dot4_node(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Dot *d = ctx;
	Node *t;

	if (n->code != O_TENSOR || (t = rebuild_node(m, n, in, done))->code != O_TENSOR)
		return NULL;
	d->loc = n->loc;
	return replace_reductions(m, t, in_fours, d);
}

bool
pass_dot4(Module *m)
{
	Dot d = {.m = m};

	if (machine_dot4(m->machine))
		rewrite_module(m, false, dot4_node, &d);
	return true;
}
