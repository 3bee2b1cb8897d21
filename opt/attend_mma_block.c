/* Attention on matrix units (attend_mma.c): what is done with a block of keys and values. */
#include <math.h>
#include <stdlib.h>
#include "attend_mma.h"

/* ---- loops ----------------------------------------------------------------------------------- */

Region *
am_unroll(Mm *q, Region *r, int n, Node **axis)
{
	Region *in = region_new(q->o.m, NULL);

	*axis = x_axis(q->o.m, x_idx(q->o.m, n));
	l_for(q->o.m, r, F_UNROLL, *axis, in);
	return in;
}

/* An element of C's tile that has these rows and keys or columns. */
Node **
am_spot_of(Mm *q, Node *row, Node *other, Node *e, Node **at)
{
	at[0] = q->turned ? other : row;
	at[1] = q->turned ? row : other;
	at[2] = e;
	return at;
}

Node *
am_load3(Mm *q, Node *buffer, Node *row, Node *other, int e)
{
	Node *at[3];

	return l_load(q->o.m, buffer, 3, am_spot_of(q, row, other, x_idx(q->o.m, e), at));
}

void
am_store3(Mm *q, Region *r, Node *buffer, Node *row, Node *other, int e, Node *v)
{
	Node *at[3];

	l_store(q->o.m, r, buffer, 3, am_spot_of(q, row, other, x_idx(q->o.m, e), at), v);
}

/* The statistics of row number `stat` of the warp's tile i. */
Node *
am_stat_at(Mm *q, Node *buffer, Node *i, int stat)
{
	return l_load(q->o.m, buffer, 2, (Node *[]){i, x_idx(q->o.m, stat)});
}

void
am_set_stat(Mm *q, Region *r, Node *buffer, Node *i, int stat, Node *v)
{
	l_store(q->o.m, r, buffer, 2, (Node *[]){i, x_idx(q->o.m, stat)}, v);
}

/* The row of the block that element e of the warp's tile i is in. */
Node *
am_block_row(Mm *q, Node *i, int e)
{
	Module *m = q->o.m;
	Node *row = x_add(m, q->q.first, x_muli(m, i, q->row_tile));

	return x_add(m, row, layout_node(m, q->t.x->c, am_own_coord(q), q->t.lane, x_idx(m, e)));
}

Node *
am_row_at(Mm *q, Node *i, int e)
{
	return x_add(q->o.m, q->q0, am_block_row(q, i, e));
}

void
am_clear(Mm *q, Region *r, Node *buffer, int others)
{
	Node *i, *j;
	int e;

	r = am_unroll(q, am_unroll(q, r, q->tiles, &i), others, &j);
	for (e = 0; e < q->elems; e++)
		am_store3(q, r, buffer, i, j, e, x_int(q->o.m, DT_F32, 0));
}

/* ---- products -------------------------------------------------------------------------------- */

static void
block_scores(Mm *q, Region *r, Node *stage)
{
	Module *m = q->o.m;
	Part *a = q->turned ? &q->k : &q->q, *b = q->turned ? &q->q : &q->k;
	int blocks = q->keys / q->k.own, per = q->t.block_bytes / (q->t.x->k * am_elem_size(q)),
		each = q->k.own / q->k.tile;
	Node *kb, *c, *n, *ks, *i, *j, *at[3], *fq[2], *fk[2];
	Region *rb, *rc, *in;

	am_clear(q, r, q->s, q->keys / q->key_tile);
	rb = am_unroll(q, r, q->depth * am_elem_size(q) / q->t.block_bytes, &kb);
	if (!q->resident)
		part_read(&q->t, &q->q, rb, x_idx(m, 0), kb);
	rc = am_unroll(q, rb, blocks / q->k.slots, &c);
	in = am_unroll(q, rc, q->k.slots, &n);
	part_read_block(&q->t, &q->k, in, stage, x_add(m, x_muli(m, c, q->k.slots), n), kb, n);
	in = am_unroll(q, am_unroll(q, am_unroll(q, rc, per, &ks), q->k.slots * each, &j), q->tiles, &i);
	part_at(&q->t, &q->q, i, ks, fq);
	if (q->resident)
		fq[0] = x_add(m, x_muli(m, kb, q->q.span / q->q.own), fq[0]);
	part_at(&q->t, &q->k, j, ks, fk);
	am_spot_of(q, i, x_add(m, x_muli(m, c, q->k.slots * each), j), x_idx(m, 0), at);
	l_mma(m, in, q->t.x->name, (Spot){q->s, at}, (Spot){a->fragment, q->turned ? fk : fq},
		(Spot){b->fragment, q->turned ? fq : fk});
}

/* Fragment of the values for instruction ks, block i of columns, the keys in their order. */
static void
read_values(Mm *q, Region *r, Node *stage, Node *i, Node *ks, Node *slot)
{
	Module *m = q->o.m;
	Part *p = &q->v;
	int size = am_elem_size(q), n = 1 << layout_bits(p->layout, true), run = 1, e;
	Node *row, *byte, *at;

	row = x_add(m, x_muli(m, i, p->own), layout_node(m, p->layout, p->coord, q->t.lane, x_idx(m,
		0)));
	while (run * 2 * size <= 16 && run < n && layout_at(p->layout, 'k', 0, run) == run)
		run *= 2;
	for (e = 0; e < n; e += run) {
		byte = x_add(m, x_muli(m, ks, q->t.x->k),
			layout_node(m, p->layout, 'k', q->t.lane, x_idx(m, e)));
		byte = x_muli(m, byte, size);
		at = part_word(&q->t, p, stage, row, x_fdiv(m, byte, x_idx(m, 16)));
		at = x_add(m, at, x_fdiv(m, x_mod(m, byte, x_idx(m, 16)), x_idx(m, 4)));
		l_move(m, r, MOVE_WORDS, run * size,
			(Spot){p->fragment, (Node *[]){slot, x_idx(m, e * size / 4)}}, (Spot){q->t.memory,
				&at}, NULL);
	}
}

static void
block_values(Mm *q, Region *r, Node *stage)
{
	Module *m = q->o.m;
	int per = q->t.matrices ? q->t.block_bytes / (q->t.x->k * am_elem_size(q)) : 1,
		each = q->v.own / q->v.tile, blocks = q->columns / q->v.own;
	Node *kb, *c, *n, *ks, *i, *j, *at[3], *fp[2], *fv[2], *number;
	Region *rb = am_unroll(q, r, q->keys / (q->t.x->k * per), &kb), *rc, *in;

	rc = am_unroll(q, rb, blocks / q->v.slots, &c);
	in = am_unroll(q, rc, q->v.slots, &n);
	number = x_add(m, x_muli(m, c, q->v.slots), n);
	if (q->t.matrices)
		part_read_block(&q->t, &q->v, in, stage, number, kb, n);
	else
		read_values(q, in, stage, number, kb, n);
	in = am_unroll(q, am_unroll(q, am_unroll(q, rc, per, &ks), q->v.slots * each, &j), q->tiles, &i);
	part_at(&q->t, &q->v, j, ks, fv);
	fp[0] = x_add(m, x_muli(m, i, q->keys / q->t.x->k), x_add(m, x_muli(m, kb, per), ks));
	fp[1] = x_idx(m, 0);
	am_spot_of(q, i, x_add(m, x_muli(m, c, q->v.slots * each), j), x_idx(m, 0), at);
	l_mma(m, in, q->t.x->name, (Spot){q->sums, at},
		(Spot){q->turned ? q->v.fragment : q->p, q->turned ? fv : fp},
		(Spot){q->turned ? q->p : q->v.fragment, q->turned ? fp : fv});
}

/* ---- softmax --------------------------------------------------------------------------------- */

static void
finish_scores(Mm *q, Region *r)
{
	Module *m = q->o.m;
	Node *i, *j, *key;
	int e;

	r = am_unroll(q, am_unroll(q, r, q->tiles, &i), q->keys / q->key_tile, &j);
	for (e = 0; e < q->elems; e++) {
		key = x_add(m, x_muli(m, j, q->key_tile),
			layout_node(m, q->t.x->c, am_key_coord(q), q->t.lane, x_idx(m, e)));
		key = x_add(m, q->k0, part_row(&q->t, &q->k, key));
		am_store3(q, r, q->s, i, j, e, flash_score(&q->o, r, am_load3(q, q->s, i, j, e), am_row_at(q, i,
			e), key));
	}
}

/* Combines what the lane has in s of a row. */
static Node *
row_of(Mm *q, Comb comb, Node *i, int stat)
{
	Module *m = q->o.m;
	Node *v = NULL, *s;
	int j, e;

	for (j = 0; j < q->keys / q->key_tile; j++)
		for (e = 0; e < q->elems; e++) {
			if (q->stat[e] != stat)
				continue;
			s = am_load3(q, q->s, i, x_idx(m, j), e);
			v = v ? x_comb(m, comb, v, s) : s;
		}
	return legalize(m, v);
}

/* v combined over the lanes of the same rows. */
Node *
am_fold(Mm *q, Region *r, Comb comb, Node *v)
{
	Module *m = q->o.m;

	l_store(m, r, q->part, 1, &q->place, v);
	return l_let(m, r, l_fold_apart(m, comb, q->part, q->o.f.tid, q->apart, 0, NULL));
}

/* What e is raised to as what 2 is raised to. */
static Node *
in_twos(Mm *q, Region *r, Node *x)
{
	return l_let(q->o.m, r, x_mul(q->o.m, x, x_flt(q->o.m, DT_F32, M_LOG2E)));
}

/*
 * A row's maximum, and with it its exponentials and their sum in this lane. As long as all its
 * scores are -inf nothing is subtracted from them: exponentials of 0. They are rounded to at most 11
 * bits next. e^(x - max) is 2^(x log2 e - max log2 e), its subtrahend rounded: the row's exponentials
 * have that factor in common, and so has what scales their sums when the maximum rises.
 */
static void
row_softmax(Mm *q, Region *r, Node *i, int stat)
{
	Module *m = q->o.m;
	Node *low = x_comb_identity(m, COMB_MAX, DT_F32), *old, *new, *shift, *rise, *j,
		*log2e = x_flt(m, DT_F32, M_LOG2E);
	Region *in;
	int e;

	new = am_fold(q, r, COMB_MAX, row_of(q, COMB_MAX, i, stat));
	old = l_let(m, r, am_stat_at(q, q->max, i, stat));
	new = l_let(m, r, legalize(m, x_comb(m, COMB_MAX, old, new)));
	shift = in_twos(q, r, x_select(m, x_eq(m, new, low), x_int(m, DT_F32, 0), new));
	in = am_unroll(q, r, q->keys / q->key_tile, &j);
	for (e = 0; e < q->elems; e++)
		if (q->stat[e] == stat)
			am_store3(q, in, q->s, i, j, e, kb_emit(q->o.kb, in, x1(m, O_EX2,
				x_op(m, O_FMA, 3, (Node *[]){am_load3(q, q->s, i, j, e), log2e, x1(m, O_NEG, shift)},
					DT_F32))));
	rise = x_mul(m, x_sub(m, in_twos(q, r, old), shift), x_flt(m, DT_F32, M_LN2));
	rise = l_let(m, r, kb_emit(q->o.kb, r, x1(m, O_EXP, rise)));
	am_set_stat(q, r, q->max, i, stat, new);
	am_set_stat(q, r, q->rise, i, stat, rise);
	am_set_stat(q, r, q->sum, i, stat, x_add(m, x_mul(m, am_stat_at(q, q->sum, i, stat), rise),
		row_of(q, COMB_SUM, i, stat)));
}

static void
block_softmax(Mm *q, Region *r)
{
	Module *m = q->o.m;
	Node *i, *j;
	Region *in;
	int stat, e;

	r = am_unroll(q, r, q->tiles, &i);
	for (stat = 0; stat < q->nstats; stat++)
		row_softmax(q, r, i, stat);
	in = am_unroll(q, r, q->columns / q->column_tile, &j);
	for (e = 0; e < q->elems; e++)
		am_store3(q, in, q->sums, i, j, e,
			x_mul(m, am_load3(q, q->sums, i, j, e), am_stat_at(q, q->rise, i, q->stat[e])));
}

/* ---- the operand ----------------------------------------------------------------------------- */

/* Word w of the operand, for the depth that begins at C's tile j. */
static Node *
word_of(Mm *q, Node *i, Node *j, int w)
{
	Module *m = q->o.m;
	DType d = q->t.x->type, bits = d == DT_F32 ? DT_U32 : DT_U16;
	int per = 4 / am_elem_size(q), k;
	Node *word = NULL, *v;

	for (k = 0; k < per; k++) {
		Source s = q->source[w * per + k];
		v = am_load3(q, q->s, i, x_addi(m, j, s.tile), s.elem);
		v = d == DT_F32 ? x1(m, O_TF32, v) : x_cast(m, d, v);
		v = x_cast(m, DT_U32, x_bits(m, bits, v));
		v = k ? x2(m, O_SHL, v, x_int(m, DT_U32, 32 / per * k)) : v;
		word = word ? x2(m, O_OR, word, v) : v;
	}
	return word;
}

/* Makes the operand of the exponentials. A word that only half of the lanes has comes from these.
 * */
static void
make_operand(Mm *q, Region *r)
{
	Module *m = q->o.m;
	int w, n = q->nsource * am_elem_size(q) / 4, half;
	Node *i, *ks, *j, *v, *mine, *at[2];

	r = am_unroll(q, am_unroll(q, r, q->tiles, &i), q->keys / q->t.x->k, &ks);
	j = x_muli(m, ks, q->t.x->k / q->key_tile);
	at[0] = x_add(m, x_muli(m, i, q->keys / q->t.x->k), ks);
	for (w = 0; w < n; w++) {
		v = word_of(q, i, j, w);
		half = q->source[w * (4 / am_elem_size(q))].half;
		if (half >= 0) {
			mine = x_eq(m, x_mod(m, x_fdiv(m, q->t.lane, x_idx(m, q->half_lane)), x_idx(m, 2)),
				x_idx(m, half));
			v = kb_emit(q->o.kb, r, x_select(m, mine, v, x_int(m, DT_U32, 0)));
			l_store(m, r, q->word, 1, &q->place, v);
			v = l_fold_apart(m, COMB_OR, q->word, q->o.f.tid, q->apart, 0, NULL);
		} else {
			v = kb_emit(q->o.kb, r, v);
		}
		at[1] = x_idx(m, w);
		l_store(m, r, q->p, 2, at, v);
	}
}

void
am_softmax(Mm *q, Region *r)
{
	finish_scores(q, r);
	block_softmax(q, r);
	make_operand(q, r);
}

void
am_block(Mm *q, Region *r, Node *stage)
{
	part_open(&q->t, &q->k, r, stage);
	part_open(&q->t, &q->v, r, stage);
	block_scores(q, r, stage);
	am_softmax(q, r);
	block_values(q, r, stage);
}
