/*
 * dot4: sums of products of bytes in i32 (MatMulInteger, QLinearConv and the like), four products
 * an instruction where the machine has one (VPDPBUSD, SDOT), two where it has that (PMADDWD).
 *
 *	sum (k: K) i32(a[.., k]) * i32(b[k, ..])   ->   sum (k: K/4) dot4(a4[.., k], b4[k, ..])
 *
 * where a4 and b4 hold four neighbours along k in an i32: its words. Those of constants fold. Those
 * of anything else are a view of its memory where neighbours lie side by side (halo.c). Past the
 * end are zeros; where the other factor's words are constants and have them, the first one's may
 * hold anything, and hold what pads it, so that one halo serves both.
 *
 * dot4 takes unsigned bytes on its left and signed ones on its right. Two of a kind: of one the
 * highest bits are flipped, which adds or subtracts 128 times the sum of the other. All wraps, so
 * that it is exact. Bytes that are flipped are computed so; who reads them otherwise flips them
 * back.
 *
 * Products of bf16 in f32, where --precision rounds operands and a CPU has a matrix unit that takes
 * them (unit.c), go in pairs: words of two, dot2.
 *
 * Needs the tensor level, before producers are inlined; leaves such sums as above.
 */
#include <stdlib.h>
#include "sched.h"

enum { MIN_SUM = 3, MAX_DEPTH = 8, COST_CONVERTED = 16 };

/* Words of x along a dimension, `fill` past the end. */
typedef struct Packed { Node *x, *packed, *fill; int dim; } Packed;

/* A factor: a byte of read's tensor, or bits of one, that moves along dimension dim with the axis,
 * from rest on; with dim < 0 it moves in some other way, and is put in order first. */
typedef struct Factor { Byte byte; Node *rest; int dim; } Factor;

typedef struct Dot {
	Module *m;
	Vec packed;
	Map flips;             /* tensors whose bytes some sum wants flipped */
	const Loc *loc;
} Dot;

bool
byte_of(Node *e, Byte *b)
{
	Node *r;

	*b = (Byte){.mask = 255};
	if (e->code == O_AND && e->in[1]->code == O_NUM && e->in[1]->num.i > 0 && e->in[1]->num.i < 255
	 && e->in[0]->code == O_SHR) {
		b->mask = (int)e->in[1]->num.i;
		b->shift = e->in[0]->in[1];
		e = e->in[0]->in[0];
	}
	r = e->code == O_CAST && e->type->dtype == DT_I32 ? e->in[0] : NULL;
	if (!r || r->code != O_READ || (r->type->dtype != DT_U8 && (b->shift || r->type->dtype != DT_I8)))
		return false;
	b->read = r;
	return true;
}

int
word_elements(const Node *x)
{
	return 32 / dtypes[dtype_of(x)].bits;
}

static bool
is_multiple(Module *m, Node *e, int of)
{
	return is_intv(x_mod(m, e, x_idx(m, of)), 0);
}

/* The same of the halves of words: f32(read), of a bf16. */
static bool
half_of(Node *e, Byte *b)
{
	Node *r = e->code == O_CAST && e->type->dtype == DT_F32 ? e->in[0] : NULL;

	*b = (Byte){.read = r};
	return r && r->code == O_READ && r->type->dtype == DT_BF16;
}

/* Can the factor be gone through in fours along the axis of the sum? One dimension moves with it,
 * by one a step as pack() takes it, or the axis is as long as whole words. */
static bool
factor_of(Module *m, Node *e, Node *axis, Factor *f)
{
	Node *coef, *extent = axis->in[0], *read;
	int k, n = 0, per;

	if ((!byte_of(e, &f->byte) && !half_of(e, &f->byte))
	 || (f->byte.shift && contains(f->byte.shift, axis)))
		return false;
	read = f->byte.read;
	per = word_elements(read->in[0]);
	for (k = 1; k < read->nin; k++)
		if (contains(read->in[k], axis)) {
			f->dim = k - 1;
			n++;
		}
	if (n != 1 || !linear_in(m, read->in[f->dim + 1], axis, &coef, &f->rest))
		return false;
	if (!is_intv(coef, 1)) {
		f->dim = -1;
		return is_multiple(m, extent, per) && !f->byte.shift;
	}
	if (f->rest->lo == 0 && f->rest->hi == 0)
		return is_multiple(m, extent, per) || prove_eq(m, extent, dim_of(read->in[0], f->dim));
	return is_multiple(m, f->rest, per) && is_multiple(m, extent, per);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* The word at the axes' values: bytes 4a .. 4a+3, or halves 2a and 2a+1, along the dimension with
 * axis a; computed, not read, if `spell`. */
static Node *
word_of(Module *m, Node *x, int dim, Node *const *axes, Node *fill, bool spell)
{
	Node *word = x_int(m, DT_U32, 0), *idx[MAX_RANK], *v;
	int i, k, per = word_elements(x);

	for (i = 0; i < rank_of(x); i++)
		idx[i] = axes[i];
	for (k = 0; k < per; k++) {
		idx[dim] = x_addi(m, x_muli(m, axes[dim], per), k);
		v = spell ? element_of(m, x, idx) : x_read(m, x, idx);
		v = x_select(m, x_lt(m, idx[dim], dim_of(x, dim)), v, fill);
		v = x_cast(m, DT_U32, x_bits(m, per == 4 ? DT_U8 : DT_U16, v));
		word = x_or(m, word, x2(m, O_SHL, v, x_int(m, DT_U32, 32 / per * k)));
	}
	return x_bits(m, DT_I32, word);
}

/* The constant that may stand past the end in what could be words of bytes of type d. */
static Node *
fill_in(Module *m, Node **list, int n, DType d)
{
	int i, bits = dtypes[d].bits;

	for (i = 0; i < n; i++) {
		if (list[i]->code == O_SELECT && list[i]->in[2]->code == O_NUM
		 && list[i]->in[2]->type->dtype == d)
			return list[i]->in[2];
		if (list[i]->code == O_OR && (list[i]->in[0]->code == O_NUM || list[i]->in[1]->code == O_NUM))
			return x_bits(m, d, x_cast(m, bits == 8 ? DT_U8 : DT_U16, x2(m, O_SHR,
				list[i]->in[list[i]->in[0]->code != O_NUM], x_int(m, DT_U32, 32 - bits))));
	}
	return x_int(m, d, 0);
}

Node *
words_of(Module *m, const Node *t, int *dim, Node **fill)
{
	Node **list, *x = NULL, *f = NULL;
	int i, n;

	if (t->code != O_TENSOR || dtype_of(t) != DT_I32 || t->in[t->nin - 1]->code != O_BITS)
		return NULL;
	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n && !x; i++)
		x = list[i]->code == O_READ ? list[i]->in[0] : NULL;
	if (x && (dtype_of(x) == DT_I8 || dtype_of(x) == DT_U8 || dtype_of(x) == DT_BF16) && rank_of(x) == rank_of(t))
		f = fill_in(m, list, n, dtype_of(x));
	free(list);
	for (i = 0; f && i < rank_of(t); i++)
		if (dim_of(t, i) == x_ceildiv(m, dim_of(x, i), x_idx(m, word_elements(x)))
		 && word_of(m, x, i, t->in, f, false) == t->in[t->nin - 1]) {
			*dim = i;
			*fill = f;
			return x;
		}
	return NULL;
}

/* Is it computed by itself, with little work, of values of more than a byte? */
static bool
is_converted(Node *x)
{
	Node *body = x->code == O_TENSOR ? x->in[x->nin - 1] : NULL, **list;
	bool loop = false, wide = false;
	int i, n;

	if (!body || body_cost(body, &loop) > COST_CONVERTED || loop)
		return false;
	list = topo_scalar(body, &n);
	for (i = 0; i < n; i++)
		wide |= list[i]->code == O_READ && dtypes[list[i]->type->dtype].bits > 8;
	free(list);
	return wide;
}

/* The tensor of words over axes like x's. */
static Node *
words(Dot *d, Node *x, int dim, Node *fill, bool spell)
{
	Module *m = d->m;
	Node *extents[MAX_RANK], *axes[MAX_RANK], *t;
	int i;

	for (i = 0; i < rank_of(x); i++)
		extents[i] = i != dim ? dim_of(x, i)
			: x_ceildiv(m, dim_of(x, i), x_idx(m, word_elements(x)));
	axes_new(m, rank_of(x), extents, axes);
	t = t_tensor(m, rank_of(x), axes, word_of(m, x, dim, axes, fill, spell));
	t->loc = d->loc;
	return t;
}

/* The word with the first n bytes or halves from v, the others from fill. */
static Node *
constant_word(Module *m, const Node *v, const Node *fill, int64_t n)
{
	int i, bits = dtypes[v->type->dtype].bits;
	uint32_t word = 0;

	for (i = 0; i < 32 / bits; i++)
		word |= ((uint32_t)(i < n ? v : fill)->num.i & ((1u << bits) - 1)) << bits * i;
	return x_int(m, DT_I32, (int32_t)word);
}

/*
 * Few channels of pixels, a word each: such bytes are not stored, since they would be computed a
 * pixel at once. The words are computed side by side, and padded where the bytes are. NULL: they
 * are other bytes.
 */
static Node *
pixel_words(Dot *d, Node *x, int dim, Node *fill)
{
	Module *m = d->m;
	Node *of = padded_by(m, x), *body = of ? x->in[x->nin - 1] : NULL, *idx[MAX_RANK],
		*axes[MAX_RANK], *extents[MAX_RANK], *e, *t;
	Map map = {0};
	int64_t n;
	int i;

	if (dtypes[dtype_of(x)].bits != 8 || !is_int(dim_of(x, dim), &n) || n > word_elements(x)
	 || n == 1 || rank_of(x) < 3 || fill->code != O_NUM || !is_converted(of ? of : x))
		return NULL;
	if (!of)
		return words(d, x, dim, fill, true);
	if (body->in[1]->in[dim + 1] != x->in[dim] || dim_of(of, dim) != dim_of(x, dim))
		return NULL;
	for (i = 0; i < rank_of(x); i++)
		extents[i] = i == dim ? x_idx(m, 1) : dim_of(x, i);
	axes_new(m, rank_of(x), extents, axes);
	for (i = 0; i < rank_of(x); i++)
		map_put(&map, x->in[i], axes[i]);
	for (i = 0; i < rank_of(x); i++)
		idx[i] = subst(m, body->in[1]->in[i + 1], &map, false);
	e = x_select(m, subst(m, body->in[0], &map, false),
		x_read(m, words(d, of, dim, fill, true), idx), constant_word(m, body->in[2], fill, n));
	map_free(&map);
	t = t_tensor(m, rank_of(x), axes, e);
	t->loc = d->loc;
	return t;
}

static Node *
pack(Dot *d, Node *x, int dim, Node *fill)
{
	Module *m = d->m;
	Node *t;
	Packed *p;
	int i;

	for (i = 0; i < d->packed.n; i++) {
		p = d->packed.at[i];
		if (p->x == x && p->dim == dim && p->fill == fill)
			return p->packed;
	}
	t = pixel_words(d, x, dim, fill);
	p = NEW(m, Packed);
	*p = (Packed){x, t ? t : words(d, x, dim, fill, false), fill, dim};
	vec_push(m, &d->packed, p);
	return p->packed;
}

/* ---- flipped bytes --------------------------------------------------------------------------- */

/* The byte with its highest bit flipped, signed as unsigned and the other way round. */
static Node *
flip_byte(Module *m, Node *v)
{
	DType d = v->type->dtype == DT_I8 ? DT_U8 : DT_I8;

	if (v->code == O_BITS && v->in[0]->code == O_XOR && v->in[0]->in[1]->code == O_NUM
	 && v->in[0]->in[1]->num.i == 0x80)
		return x_bits(m, d, v->in[0]->in[0]);
	return x_bits(m, d, x2(m, O_XOR, x_bits(m, DT_U8, v), x_int(m, DT_U8, 0x80)));
}

/* x's bytes flipped: the tensor that x is read from if it flips that. */
static Node *
flipped(Module *m, Node *x)
{
	Node *axes[MAX_RANK], *body = x->code == O_TENSOR ? x->in[x->nin - 1] : NULL, *e, *r;
	Map map = {0};
	int i;

	e = body ? flip_byte(m, body) : NULL;
	if (e && e->code == O_READ && rank_of(e->in[0]) == rank_of(x)) {
		for (i = 0; i < rank_of(x) && e->in[i + 1] == x->in[i]; i++)
			;
		if (i == rank_of(x))
			return e->in[0];
	}
	axes_new(m, rank_of(x), x->type->dims, axes);
	if (padded_by(m, x)) {
		for (i = 0; i < rank_of(x); i++)
			map_put(&map, x->in[i], axes[i]);
		e = subst(m, body->in[1], &map, false);
		e = x_select(m, subst(m, body->in[0], &map, false),
			x_read(m, flipped(m, e->in[0]), e->in + 1), flip_byte(m, body->in[2]));
		map_free(&map);
	} else
		e = flip_byte(m, x_read(m, x, axes));
	r = t_tensor(m, rank_of(x), axes, e);
	r->loc = x->loc;
	return r;
}

/* A tensor whose bytes are wanted flipped, as flipping back of what is computed so. */
static Node *
flipped_node(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	const Dot *d = ctx;
	Node *t, *axes[MAX_RANK];

	(void)done;
	if (n->code != O_TENSOR || !map_get(&d->flips, n))
		return NULL;
	t = t_tensor(m, n->nin - 1, in, flip_byte(m, in[n->nin - 1]));
	if (t->code != O_TENSOR)
		return NULL;
	t->loc = n->loc;
	axes_new(m, rank_of(n), t->type->dims, axes);
	return t_tensor(m, rank_of(n), axes, flip_byte(m, x_read(m, t, axes)));
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* The axis of the sum that both factors go through in fours, the longest; -1 if there is none. One
 * at least does so as it lies. */
static int
axis_of(Module *m, Node *red, Factor *f)
{
	Node *mul = red->in[red->nin - 1];
	Factor g[2];
	int64_t size, most = MIN_SUM - 1;
	int i, best = -1;

	for (i = 0; i + 1 < red->nin; i++) {
		size = const_or(red->in[i]->in[0], 64);
		if (size <= most || !factor_of(m, mul->in[0], red->in[i], &g[0])
			|| !factor_of(m, mul->in[1], red->in[i], &g[1]) || (g[0].dim < 0 && g[1].dim < 0))
			continue;
		most = size;
		best = i;
		f[0] = g[0];
		f[1] = g[1];
	}
	return best;
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
	return x_mul(m, sum_anew(m, red, other),
		x_int(m, DT_I32, negative ? -128 : 128));
}

/* A sum in fours: its factors, the axis, which of them are flipped, and which stands left. */
typedef struct Fours { Factor f[2]; int axis, left; bool closed[2], flip[2]; } Fours;

static bool
fours_of(Module *m, Node *red, Fours *s)
{
	bool is_signed[2];
	int i;

	*s = (Fours){0};
	if (red->type->dtype != DT_I32 || red->n != COMB_SUM || red->in[red->nin - 1]->code != O_MUL
	 || (s->axis = axis_of(m, red, s->f)) < 0)
		return false;
	for (i = 0; i < 2; i++) {
		is_signed[i] = s->f[i].byte.read->type->dtype == DT_I8;
		s->closed[i] = from_constants(s->f[i].byte.read->in[0], MAX_DEPTH);
	}
	s->left = is_signed[0];
	if (is_signed[0] == is_signed[1]) {      /* flips what is not constant, and no bits */
		i = s->f[0].byte.shift || (s->closed[0] && !s->f[1].byte.shift);
		s->flip[i] = true;
		s->left = is_signed[0] ? i : !i;
	}
	return !(s->flip[0] && s->f[0].byte.shift) && !(s->flip[1] && s->f[1].byte.shift);
}

bool
sums_in_fours(Module *m, Node *red)
{
	Fours s;

	return fours_of(m, red, &s);
}

/* The read as one of a tensor over the axes that it depends on, `last` the last one. */
static Node *
in_order(Module *m, Node *read, Node *last)
{
	Node **list, *axes[MAX_RANK], *idx[MAX_RANK], *t;
	Map map = {0};
	int i, n, count = 0;

	list = topo_scalar(read, &n);
	for (i = 0; i < n && count < MAX_RANK - 1; i++)
		if (list[i]->code == O_AXIS && list[i] != last)
			idx[count++] = list[i];
	free(list);
	idx[count++] = last;
	for (i = 0; i < count; i++)
		map_put(&map, idx[i], axes[i] = x_axis(m, idx[i]->in[0]));
	t = t_tensor(m, count, axes, subst(m, read, &map, false));
	map_free(&map);
	return x_read(m, t, idx);
}

/* Puts factors that do not lie so in order along the sum's axis. */
static void
put_in_order(Dot *d, Fours *s, Node *axis)
{
	Factor *f;
	int i;

	for (i = 0; i < 2; i++) {
		f = &s->f[i];
		if (f->dim >= 0)
			continue;
		f->byte.read = in_order(d->m, f->byte.read, axis);
		f->byte.read->in[0]->loc = d->loc;
		f->dim = f->byte.read->nin - 2;
		f->rest = x_idx(d->m, 0);
	}
}

/* The word of factor i at the new axis. */
static Node *
packed_read(Dot *d, const Fours *s, int i, Node *axis)
{
	Module *m = d->m;
	const Factor *f = &s->f[i];
	Node *read = f->byte.read, *idx[MAX_RANK], *x = read->in[0], *fill, *word;
	int k;

	for (k = 0; k + 1 < read->nin; k++)
		idx[k] = read->in[k + 1];
	idx[f->dim] = x_add(m, x_fdiv(m, f->rest, x_idx(m, word_elements(x))), axis);
	if (s->flip[i])
		x = flipped(m, x);
	fill = x_int(m, dtype_of(x), 0);
	if (s->closed[!i] && padded_by(m, x))
		fill = x->in[x->nin - 1]->in[2];
	word = x_read(m, pack(d, x, f->dim, fill), idx);
	if (!f->byte.shift)
		return word;
	word = x2(m, O_SHR, x_bits(m, DT_U32, word), x_cast(m, DT_U32, f->byte.shift));
	return x_bits(m, DT_I32, x_and(m, word, x_int(m, DT_U32, f->byte.mask * 0x01010101u)));
}

/* A sum of products of halves in pairs: s, nothing flipped. */
static bool
pairs_of(Module *m, Node *red, Fours *s)
{
	*s = (Fours){0};
	return red->n == COMB_SUM && red->type->dtype == DT_F32 && red->in[red->nin - 1]->code == O_MUL
		&& (s->axis = axis_of(m, red, s->f)) >= 0;
}

/* The sum over words, by the operation that takes two. */
static Node *
over_words(Dot *d, Node *red, Fours *s, OpCode op)
{
	Module *m = d->m;
	Node *axes[MAX_RANK * 2], *axis, *in[2];
	int i, per = word_elements(s->f[0].byte.read->in[0]);

	put_in_order(d, s, red->in[s->axis]);
	for (i = 0; i + 1 < red->nin; i++)
		axes[i] = red->in[i];
	axes[s->axis] = axis = x_axis(m, x_ceildiv(m, axes[s->axis]->in[0], x_idx(m, per)));
	for (i = 0; i < 2; i++)
		in[i] = packed_read(d, s, i, axis);
	return x_reduce(m, COMB_SUM, red->nin - 1, axes, x2(m, op, in[s->left], in[!s->left]));
}

/* Products of bf16 that are the user's to round and the machine's to multiply. */
static bool
takes_pairs(Module *m)
{
	return m->precision == PREC_BF16 && machine_mma_tile(m->machine, DT_BF16, DT_BF16);
}

static Node *
in_fours(Module *m, Node *red, void *ctx)
{
	Dot *d = ctx;
	Node *sum, *mul = red->in[red->nin - 1];
	Fours s;
	int i;

	if (takes_pairs(m) && pairs_of(m, red, &s))
		return over_words(d, red, &s, O_DOT2);
	if (!fours_of(m, red, &s))
		return NULL;
	sum = over_words(d, red, &s, O_DOT4);
	for (i = 0; i < 2; i++)
		if (s.flip[i])
			sum = x_add(m, sum, correction(m, red, mul->in[!i],
				s.f[i].byte.read->type->dtype == DT_I8));
	return sum;
}

/* Notes whose bytes the sum wants flipped: computed tensors, also under a padding. */
static Node *
note_flips(Module *m, Node *red, void *ctx)
{
	Dot *d = ctx;
	Node *x;
	Fours s;
	int i;

	if (!fours_of(m, red, &s))
		return NULL;
	for (i = 0; i < 2; i++) {
		x = s.f[i].byte.read->in[0];
		while (padded_by(m, x))
			x = padded_by(m, x);
		if (s.flip[i] && x->code == O_TENSOR && !s.closed[i])
			map_put(&d->flips, x, x);
	}
	return NULL;
}

static void
find_flips(Dot *d)
{
	Node **list;
	int i, n;

	list = topo(d->m->main->results, d->m->main->nresults, true, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_TENSOR)
			replace_reductions(d->m, list[i], note_flips, d);
	free(list);
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

	if (!machine_dot4(m->machine))
		return true;
	find_flips(&d);
	if (d.flips.n)
		rewrite_module(m, false, flipped_node, &d);
	rewrite_module(m, false, dot4_node, &d);
	map_free(&d.flips);
	return true;
}
