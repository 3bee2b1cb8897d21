/*
 * GPU schedule of attention (attend.c) on matrix units (Dao, "FlashAttention-2", 2023). A warp
 * has some query rows, and all keys and columns: scores, statistics and sums of its rows stay in
 * its registers. Queries are read once. Keys and values pass through shared memory in blocks, in
 * two stages, so that the next block is under way while this one is multiplied (gpu_part.c); one
 * barrier a block.
 *
 * The exponentials are the result of one matrix instruction and an operand of the next. Which
 * element lies where is known (mma.def), so they become it without leaving their lanes, whichever
 * way round that works:
 *
 *	straight   S = Q K^T, O = P V          C's rows and columns are A's (NVIDIA)
 *	turned     S^T = K Q^T, O^T = V^T P^T  C's rows and columns are B's (AMD)
 *
 * The keys' order within an instruction's depth is free, as long as the values agree: rows of the
 * keys' tile are read in the order in which they are the operand's depth. What a lane still lacks
 * then (gfx11 holds operands twice), other lanes give it.
 *
 * At the end sums are divided in registers, and pass through shared memory to be stored along the
 * result.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "attend_form.h"
#include "gpu_part.h"

enum {
	STAGES = 2, MAX_WARPS = 4, LEAST_WARPS = 2, MAX_TILES = 2,  /* of rows, a warp's */
	MAX_REGS = 176,        /* of a thread for tiles */
	OTHER_REGS = 64, MORE_REGS = 110,      /* for addresses; where copies pass through registers */
	MIN_DEPTH = 9,         /* less than half of the units would be used below */
	MAX_DEPTH = 512, CHUNK = 4,    /* blocks of fragments read together, at most */
	MOST_BITS = 8, MOST_ELEMS = 16
};

/* Where an element of the operand comes from: C's element, of a tile among those of the depth;
 * the lane's half that has it, -1: all. */
typedef struct Source { int elem, tile, half; } Source;

typedef struct Mm {
	Flash o;
	Tiles t;
	Side sq, sk, sv;
	Part q, k, v;
	bool turned;
	bool resident;         /* the queries' fragments stay in registers */
	int warps, tiles, keys;        /* tiles of rows of a warp; keys of a block */
	int depth, columns;            /* padded */
	int row_tile, key_tile, column_tile;   /* of an instruction */
	int elems, nstats;             /* of C a lane has; rows of them in a tile */
	int stat[MOST_ELEMS];           /* an element's row among these */
	int nsource;
	Source source[MOST_ELEMS];      /* of the operand's elements */
	int group, apart;              /* lanes of the same rows, and how far apart they are */
	int half_lane;                 /* the lane bit that halves lie along; 0: none */
	Node *row_block, *q0, *k0;     /* the block's number along rows, its first row and key */
	Node *warp, *place;    /* the warp in the block, the lane in its group */
	Node *s, *sums, *p;            /* registers: scores, sums, the operand's words */
	Node *max, *sum, *rise, *part, *word;
} Mm;

/* ---- which way round ------------------------------------------------------------------------- */

static char
own_coord(const Mm *q)
{
	return q->turned ? 'c' : 'r';
}

static char
key_coord(const Mm *q)
{
	return q->turned ? 'r' : 'c';
}

static const char *
operand(const Mm *q)
{
	return q->turned ? q->t.x->b : q->t.x->a;
}

static int
log2_of(int n)
{
	int i = 0;

	while (n >> (i + 1))
		i++;
	return i;
}

/* Do lanes have the same rows in C and in the operand? Notes the order of keys that they decide,
 * and the group of lanes along keys. */
static bool
match_lanes(Mm *q, int *lacking)
{
	const char *c = q->t.x->c, *p = operand(q);
	int i, own, key, depth;

	*lacking = 0;
	q->group = 1, q->apart = 0;
	for (i = 0; i < layout_bits(c, false); i++) {
		own = layout_at(c, own_coord(q), 1 << i, 0), key = layout_at(c, key_coord(q), 1 << i, 0);
		depth = layout_at(p, 'k', 1 << i, 0);
		if (own != layout_at(p, own_coord(q), 1 << i, 0) || (own && key) || (!key && depth))
			return false;
		if (!key)
			continue;
		if (q->apart && 1 << i != q->apart * q->group)
			return false;
		q->apart = q->apart ? q->apart : 1 << i;
		q->group *= 2;
		if (!depth && *lacking)
			return false;
		if (depth)
			q->k.perm[log2_of(key)] = depth;
		else
			*lacking = key, q->half_lane = 1 << i;
	}
	return true;
}

/* The bit of C's elements that moves the coordinate by the step, -1: none. */
static int
elem_bit(const char *c, char coord, int step)
{
	int i;

	for (i = 0; i < layout_bits(c, true); i++)
		if (layout_at(c, coord, 0, 1 << i) == step)
			return i;
	return -1;
}

/* What bit i of the operand's element number is of: C's element's bit, a tile's number's, the
 * half. */
typedef struct Bit { enum { OF_ELEM, OF_TILE, OF_HALF } of; int bit; } Bit;

static bool
match_elems(Mm *q, int lacking, Bit *bits)
{
	const char *c = q->t.x->c, *p = operand(q);
	int i, own, depth, next = 0, tile = 0, nc = layout_bits(c, true);

	for (i = 0; i < layout_bits(p, true); i++) {
		own = layout_at(p, own_coord(q), 0, 1 << i), depth = layout_at(p, 'k', 0, 1 << i);
		if (own) {
			bits[i] = (Bit){OF_ELEM, elem_bit(c, own_coord(q), own)};
			if (bits[i].bit < 0)
				return false;
			continue;
		}
		while (next < nc && !layout_at(c, key_coord(q), 0, 1 << next))
			next++;
		if (next < nc) {
			q->k.perm[log2_of(layout_at(c, key_coord(q), 0, 1 << next))] = depth;
			bits[i] = (Bit){OF_ELEM, next++};
		} else if (lacking) {
			q->k.perm[log2_of(lacking)] = depth;
			bits[i] = (Bit){OF_HALF, 0};
			lacking = 0;
		} else {
			q->k.perm[log2_of(q->key_tile) + tile] = depth;
			bits[i] = (Bit){OF_TILE, tile++};
		}
	}
	return !lacking && q->key_tile << tile == q->t.x->k;
}

static void
note_sources(Mm *q, const Bit *bits)
{
	int e, i, n = layout_bits(operand(q), true);
	bool halves = false;

	q->nsource = 1 << n;
	for (e = 0; e < q->nsource; e++) {
		Source s = {0};
		for (i = 0; i < n; i++) {
			halves |= bits[i].of == OF_HALF;
			if (e >> i & 1)
				*(bits[i].of == OF_ELEM ? &s.elem : bits[i].of == OF_TILE ? &s.tile : &s.half)
					|= 1 << bits[i].bit;
		}
		q->source[e] = s;
	}
	for (e = 0; e < q->nsource && !halves; e++)
		q->source[e].half = -1;
}

/* Which of the rows that a lane has in a tile each element of C is in. */
static void
note_stats(Mm *q)
{
	const char *c = q->t.x->c;
	int e, i, row;

	q->elems = 1 << layout_bits(c, true);
	q->nstats = 0;
	for (e = 0; e < q->elems; e++) {
		row = layout_at(c, own_coord(q), 0, e);
		for (i = 0; i < e && layout_at(c, own_coord(q), 0, i) != row; i++)
			;
		q->stat[e] = i < e ? q->stat[i] : q->nstats++;
	}
}

static bool
match_way(Mm *q, bool turned)
{
	const Mma *x = q->t.x;
	Bit bits[MOST_BITS];
	int lacking, i;
	bool same = true;

	q->turned = turned;
	q->row_tile = turned ? x->n : x->m;
	q->key_tile = turned ? x->m : x->n;
	q->column_tile = turned ? x->m : x->n;
	q->half_lane = 0;
	if (layout_bits(x->c, true) > 4 || layout_bits(operand(q), true) > 4
	 || !match_lanes(q, &lacking) || !match_elems(q, lacking, bits))
		return false;
	note_sources(q, bits);
	note_stats(q);
	q->k.nperm = log2_of(x->k);
	for (i = 0; i < q->k.nperm; i++)
		same &= q->k.perm[i] == 1 << i;
	if (same)
		q->k.nperm = 0;
	return true;
}

/* ---- what can be done ------------------------------------------------------------------------ */

static DType
type_of_read(const Node *read)
{
	return dtype_of(read->in[0]);
}

static bool
rounds(const Node *e)
{
	while (e->code == O_CAST)
		e = e->in[0];
	return e->code == O_TF32;
}

static const Mma *
instruction_of(const Machine *mach, const Attention *a)
{
	const Contraction *qk = &a->qk, *pv = &a->pv;
	const Mma *x = machine_mma(mach, type_of_read(qk->a), type_of_read(qk->b));
	bool tf32 = x && x->type == DT_F32;

	return x && x->acc == DT_F32 && a->reduce->type->dtype == DT_F32
		&& qk->reduce->type->dtype == DT_F32
		&& x == machine_mma(mach, type_of_read(pv->a), type_of_read(pv->b)) && a->at
		&& rounds(qk->ea) == tf32 && rounds(qk->eb) == tf32 && rounds(pv->ea) == tf32
		&& rounds(pv->eb) == tf32 && qk->reduce->in[qk->reduce->nin - 1]->code == O_MUL
		&& pv->reduce->in[pv->reduce->nin - 1]->code == O_MUL ? x : NULL;
}

static int
elem_size(const Mm *q)
{
	return dtypes[q->t.x->type].bits / 8;
}

static int
round_up(int64_t n, int to)
{
	return (int)((n + to - 1) / to) * to;
}

static int
at_most(int n, int most)
{
	return n < most ? n : most;
}

/* Registers of a thread that tiles take, and what it brings where copies pass through them. */
static int
registers(const Mm *q)
{
	const Machine *mach = q->t.kb->s->mach;
	int size = elem_size(q), block = q->t.block_bytes / size, n;

	n = (q->keys / q->key_tile + q->columns / q->column_tile) * q->elems;
	n += q->keys / q->t.x->k * q->nsource * size / 4;
	n += (q->resident ? q->depth / block : 1) * q->row_tile / q->q.own * q->t.lane_words;
	n *= q->tiles;
	n += (at_most(q->keys / q->k.own, CHUNK) + at_most(q->columns / q->v.own,
		CHUNK)) / 2 * q->t.lane_words;
	if (!machine_has(mach, "cp.async"))
		n += 2 * q->keys * (q->depth + q->columns) * size / 4 / (q->warps * mach->warp);
	return n;
}

static int64_t
words(Mm *q)
{
	int rows = q->warps * q->tiles * q->row_tile;
	int64_t n = STAGES * (int64_t)q->keys * (q->depth + q->columns) + (int64_t)rows * q->depth;
	int64_t out = (int64_t)rows * (q->columns + 16);

	n = n * elem_size(q) / 4;
	return n > out ? n : out;
}

/* Do the tiles fit the registers and shared memory? Queries stay in registers if they can. */
static bool
fits(Mm *q)
{
	const Machine *mach = q->t.kb->s->mach;
	int most = mach->regs_thread - (machine_has(mach, "cp.async") ? OTHER_REGS : MORE_REGS);

	most = most < MAX_REGS ? most : MAX_REGS;
	q->resident = true;
	q->resident = registers(q) <= most;
	return registers(q) <= most && (q->resident || q->tiles == 1)
		&& 4 * words(q) <= mach->smem_block;
}

/* How many rows a block has, and how many keys at a time: the most that fits, if there are enough
 * blocks. */
static bool
choose_tiles(Mm *q, double rows, double batch)
{
	const Machine *mach = q->t.kb->s->mach;
	int least = q->t.matrices ? round_up(16, q->t.block_bytes / elem_size(q)) : round_up(16,
		q->t.x->k);
	double blocks;

	for (q->tiles = MAX_TILES; q->tiles > 0; q->tiles--) {
		for (q->warps = MAX_WARPS; q->warps > 0; q->warps /= 2) {
			blocks = batch * rows / (q->tiles * q->row_tile * q->warps);
			if ((q->tiles > 1 || q->warps > LEAST_WARPS) && blocks < mach->units)
				continue;
			if (q->tiles * q->warps > 1 && rows <= q->tiles * q->row_tile * q->warps / 2)
				continue;
			for (q->keys = 64; q->keys >= least; q->keys /= 2)
				if (q->keys % least == 0 && fits(q))
					return true;
		}
	}
	return false;
}

/* ---- loops ----------------------------------------------------------------------------------- */

static Region *
unroll(Mm *q, Region *r, int n, Node **axis)
{
	Region *in = region_new(q->o.m, NULL);

	*axis = x_axis(q->o.m, x_idx(q->o.m, n));
	l_for(q->o.m, r, F_UNROLL, *axis, in);
	return in;
}

/* An element of C's tile that has these rows and keys or columns. */
static Node **
spot_of(Mm *q, Node *row, Node *other, Node *e, Node **at)
{
	at[0] = q->turned ? other : row;
	at[1] = q->turned ? row : other;
	at[2] = e;
	return at;
}

static Node *
load3(Mm *q, Node *buffer, Node *row, Node *other, int e)
{
	Node *at[3];

	return l_load(q->o.m, buffer, 3, spot_of(q, row, other, x_idx(q->o.m, e), at));
}

static void
store3(Mm *q, Region *r, Node *buffer, Node *row, Node *other, int e, Node *v)
{
	Node *at[3];

	l_store(q->o.m, r, buffer, 3, spot_of(q, row, other, x_idx(q->o.m, e), at), v);
}

/* The statistics of row number `stat` of the warp's tile i. */
static Node *
stat_at(Mm *q, Node *buffer, Node *i, int stat)
{
	return l_load(q->o.m, buffer, 2, (Node *[]){i, x_idx(q->o.m, stat)});
}

static void
set_stat(Mm *q, Region *r, Node *buffer, Node *i, int stat, Node *v)
{
	l_store(q->o.m, r, buffer, 2, (Node *[]){i, x_idx(q->o.m, stat)}, v);
}

/* The row of the block that element e of the warp's tile i is in. */
static Node *
block_row(Mm *q, Node *i, int e)
{
	Module *m = q->o.m;
	Node *row = x_add(m, q->q.first, x_muli(m, i, q->row_tile));

	return x_add(m, row, layout_node(m, q->t.x->c, own_coord(q), q->t.lane, x_idx(m, e)));
}

static Node *
row_at(Mm *q, Node *i, int e)
{
	return x_add(q->o.m, q->q0, block_row(q, i, e));
}

static void
clear(Mm *q, Region *r, Node *buffer, int others)
{
	Node *i, *j;
	int e;

	r = unroll(q, unroll(q, r, q->tiles, &i), others, &j);
	for (e = 0; e < q->elems; e++)
		store3(q, r, buffer, i, j, e, x_int(q->o.m, DT_F32, 0));
}

/* ---- products -------------------------------------------------------------------------------- */

/* How many blocks of fragments are read together: they are a multiple of it. */
static int
chunk_of(int blocks)
{
	int n = CHUNK;

	while (blocks % n)
		n--;
	return n;
}

static void
block_scores(Mm *q, Region *r, Node *stage)
{
	Module *m = q->o.m;
	Part *a = q->turned ? &q->k : &q->q, *b = q->turned ? &q->q : &q->k;
	int blocks = q->keys / q->k.own, per = q->t.block_bytes / (q->t.x->k * elem_size(q)),
		each = q->k.own / q->k.tile;
	Node *kb, *c, *n, *ks, *i, *j, *at[3], *fq[2], *fk[2];
	Region *rb, *rc, *in;

	clear(q, r, q->s, q->keys / q->key_tile);
	rb = unroll(q, r, q->depth * elem_size(q) / q->t.block_bytes, &kb);
	if (!q->resident)
		part_read(&q->t, &q->q, rb, x_idx(m, 0), kb);
	rc = unroll(q, rb, blocks / q->k.slots, &c);
	in = unroll(q, rc, q->k.slots, &n);
	part_read_block(&q->t, &q->k, in, stage, x_add(m, x_muli(m, c, q->k.slots), n), kb, n);
	in = unroll(q, unroll(q, unroll(q, rc, per, &ks), q->k.slots * each, &j), q->tiles, &i);
	part_at(&q->t, &q->q, i, ks, fq);
	if (q->resident)
		fq[0] = x_add(m, x_muli(m, kb, q->q.span / q->q.own), fq[0]);
	part_at(&q->t, &q->k, j, ks, fk);
	spot_of(q, i, x_add(m, x_muli(m, c, q->k.slots * each), j), x_idx(m, 0), at);
	l_mma(m, in, q->t.x->name, (Spot){q->s, at}, (Spot){a->fragment, q->turned ? fk : fq},
		(Spot){b->fragment, q->turned ? fq : fk});
}

/* Fragment of the values for instruction ks, block i of columns, the keys in their order. */
static void
read_values(Mm *q, Region *r, Node *stage, Node *i, Node *ks, Node *slot)
{
	Module *m = q->o.m;
	Part *p = &q->v;
	int size = elem_size(q), n = 1 << layout_bits(p->layout, true), run = 1, e;
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
	int per = q->t.matrices ? q->t.block_bytes / (q->t.x->k * elem_size(q)) : 1,
		each = q->v.own / q->v.tile, blocks = q->columns / q->v.own;
	Node *kb, *c, *n, *ks, *i, *j, *at[3], *fp[2], *fv[2], *number;
	Region *rb = unroll(q, r, q->keys / (q->t.x->k * per), &kb), *rc, *in;

	rc = unroll(q, rb, blocks / q->v.slots, &c);
	in = unroll(q, rc, q->v.slots, &n);
	number = x_add(m, x_muli(m, c, q->v.slots), n);
	if (q->t.matrices)
		part_read_block(&q->t, &q->v, in, stage, number, kb, n);
	else
		read_values(q, in, stage, number, kb, n);
	in = unroll(q, unroll(q, unroll(q, rc, per, &ks), q->v.slots * each, &j), q->tiles, &i);
	part_at(&q->t, &q->v, j, ks, fv);
	fp[0] = x_add(m, x_muli(m, i, q->keys / q->t.x->k), x_add(m, x_muli(m, kb, per), ks));
	fp[1] = x_idx(m, 0);
	spot_of(q, i, x_add(m, x_muli(m, c, q->v.slots * each), j), x_idx(m, 0), at);
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

	r = unroll(q, unroll(q, r, q->tiles, &i), q->keys / q->key_tile, &j);
	for (e = 0; e < q->elems; e++) {
		key = x_add(m, x_muli(m, j, q->key_tile),
			layout_node(m, q->t.x->c, key_coord(q), q->t.lane, x_idx(m, e)));
		key = x_add(m, q->k0, part_row(&q->t, &q->k, key));
		store3(q, r, q->s, i, j, e, flash_score(&q->o, r, load3(q, q->s, i, j, e), row_at(q, i,
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
			s = load3(q, q->s, i, x_idx(m, j), e);
			v = v ? x_comb(m, comb, v, s) : s;
		}
	return legalize(m, v);
}

/* v combined over the lanes of the same rows. */
static Node *
fold(Mm *q, Region *r, Comb comb, Node *v)
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

	new = fold(q, r, COMB_MAX, row_of(q, COMB_MAX, i, stat));
	old = l_let(m, r, stat_at(q, q->max, i, stat));
	new = l_let(m, r, legalize(m, x_comb(m, COMB_MAX, old, new)));
	shift = in_twos(q, r, x_select(m, x_eq(m, new, low), x_int(m, DT_F32, 0), new));
	in = unroll(q, r, q->keys / q->key_tile, &j);
	for (e = 0; e < q->elems; e++)
		if (q->stat[e] == stat)
			store3(q, in, q->s, i, j, e, kb_emit(q->o.kb, in, x1(m, O_EX2,
				x_op(m, O_FMA, 3, (Node *[]){load3(q, q->s, i, j, e), log2e, x1(m, O_NEG, shift)},
					DT_F32))));
	rise = x_mul(m, x_sub(m, in_twos(q, r, old), shift), x_flt(m, DT_F32, M_LN2));
	rise = l_let(m, r, kb_emit(q->o.kb, r, x1(m, O_EXP, rise)));
	set_stat(q, r, q->max, i, stat, new);
	set_stat(q, r, q->rise, i, stat, rise);
	set_stat(q, r, q->sum, i, stat, x_add(m, x_mul(m, stat_at(q, q->sum, i, stat), rise),
		row_of(q, COMB_SUM, i, stat)));
}

static void
block_softmax(Mm *q, Region *r)
{
	Module *m = q->o.m;
	Node *i, *j;
	Region *in;
	int stat, e;

	r = unroll(q, r, q->tiles, &i);
	for (stat = 0; stat < q->nstats; stat++)
		row_softmax(q, r, i, stat);
	in = unroll(q, r, q->columns / q->column_tile, &j);
	for (e = 0; e < q->elems; e++)
		store3(q, in, q->sums, i, j, e,
			x_mul(m, load3(q, q->sums, i, j, e), stat_at(q, q->rise, i, q->stat[e])));
}

/* ---- the operand ----------------------------------------------------------------------------- */

/* Word w of the operand, for the depth that begins at C's tile j. */
static Node *
word_of(Mm *q, Node *i, Node *j, int w)
{
	Module *m = q->o.m;
	DType d = q->t.x->type, bits = d == DT_F32 ? DT_U32 : DT_U16;
	int per = 4 / elem_size(q), k;
	Node *word = NULL, *v;

	for (k = 0; k < per; k++) {
		Source s = q->source[w * per + k];
		v = load3(q, q->s, i, x_addi(m, j, s.tile), s.elem);
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
	int w, n = q->nsource * elem_size(q) / 4, half;
	Node *i, *ks, *j, *v, *mine, *at[2];

	r = unroll(q, unroll(q, r, q->tiles, &i), q->keys / q->t.x->k, &ks);
	j = x_muli(m, ks, q->t.x->k / q->key_tile);
	at[0] = x_add(m, x_muli(m, i, q->keys / q->t.x->k), ks);
	for (w = 0; w < n; w++) {
		v = word_of(q, i, j, w);
		half = q->source[w * (4 / elem_size(q))].half;
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

/* ---- the blocks of keys ---------------------------------------------------------------------- */

static void
fetch(Mm *q, Region *r, Node *block, Node *stage)
{
	q->sk.block = block;
	q->v.k0 = x_muli(q->o.m, block, q->keys);
	part_fetch(&q->t, &q->k, r, stage);
	part_fetch(&q->t, &q->v, r, stage);
}

static void
put(Mm *q, Region *r, Node *stage)
{
	part_put(&q->t, &q->k, r, stage);
	part_put(&q->t, &q->v, r, stage);
}

/* The queries to shared memory and, if they stay, from there to registers; the first keys and
 * values are under way. */
static void
begin(Mm *q, Region *r, Node *total)
{
	Module *m = q->o.m;
	Node *zero = x_idx(m, 0), *kb, *i;
	Region *first = region_new(m, NULL), *in;

	part_fetch(&q->t, &q->q, r, zero);
	part_put(&q->t, &q->q, r, zero);
	l_commit(m, r);
	fetch(q, first, zero, zero);
	put(q, first, zero);
	gpu_where(m, r, x_lt(m, zero, total), first);
	l_commit(m, r);
	if (!q->resident)
		return;
	l_wait(m, r, 1);
	l_barrier(m, r);
	in = unroll(q, unroll(q, r, q->depth * elem_size(q) / q->t.block_bytes, &kb),
		q->q.span / q->q.own, &i);
	part_read_block(&q->t, &q->q, in, zero, i, kb, x_add(m, x_muli(m, kb, q->q.span / q->q.own),
		i));
}

static void
pass_over(Mm *q, Region *r, Node *total)
{
	Module *m = q->o.m;
	Node *block = x_axis(m, total), *ahead = x_addi(m, block, 1), *stages = x_idx(m, STAGES),
		*stage, *next;
	Region *in = region_new(m, NULL), *then = region_new(m, NULL), *late = region_new(m, NULL);

	l_wait(m, in, 0);
	l_barrier(m, in);
	stage = l_let(m, in, x_mod(m, block, stages));
	next = l_let(m, in, x_mod(m, ahead, stages));
	fetch(q, then, ahead, next);
	gpu_where(m, in, x_lt(m, ahead, total), then);
	l_commit(m, in);
	q->k0 = l_let(m, in, x_muli(m, block, q->keys));
	block_scores(q, in, stage);
	finish_scores(q, in);
	block_softmax(q, in);
	make_operand(q, in);
	block_values(q, in, stage);
	put(q, late, next);
	if (late->nresults)
		gpu_where(m, in, x_lt(m, ahead, total), late);
	l_for(m, r, F_SERIAL, block, in);
}

/* ---- storing --------------------------------------------------------------------------------- */

/* Consecutive columns that a lane has in C. */
static int
together(const Mm *q)
{
	int n = 1;

	while (n < 4 && n < q->elems && layout_at(q->t.x->c, key_coord(q), 0, n) == n)
		n *= 2;
	return n;
}

/* Lanes that meet in a bank when a warp's first ones store their elements into rows of so many
 * words. */
static int
conflicts(const Mm *q, int row_words)
{
	int hits[32] = {0}, n = together(q), l, e, bank, most = 0;

	for (l = 0; l < 32 / n; l++)
		for (e = 0; e < n; e++) {
			bank = (layout_at(q->t.x->c, own_coord(q), l, e) * row_words
				+ layout_at(q->t.x->c, key_coord(q), l, e)) % 32;
			if (++hits[bank] > most)
				most = hits[bank];
		}
	return most;
}

static int
out_words(const Mm *q)
{
	int pad, best = 4;

	for (pad = 8; pad <= 16; pad += 4)
		if (conflicts(q, q->columns + pad) < conflicts(q, q->columns + best))
			best = pad;
	return q->columns + best;
}

/* What the reduction of the definition is, of the warp's rows, to shared memory. */
static void
spread(Mm *q, Region *r)
{
	Module *m = q->o.m;
	int n = together(q), e, k;
	Node *i, *j, *v, *at, *column, *sum, *row, *x;
	Region *rv;

	r = unroll(q, r, q->tiles, &i);
	for (k = 0; k < q->nstats; k++)
		set_stat(q, r, q->sum, i, k, fold(q, r, COMB_SUM, stat_at(q, q->sum, i, k)));
	r = unroll(q, r, q->columns / q->column_tile, &j);
	for (e = 0; e < q->elems; e++) {
		row = flash_clamp(m, row_at(q, i, e), q->o.extent);
		sum = flash_reduced(&q->o, load3(q, q->sums, i, j, e), stat_at(q, q->sum, i, q->stat[e]),
			stat_at(q, q->max, i, q->stat[e]));
		store3(q, r, q->sums, i, j, e, kb_emit(q->o.kb, r, flash_at(&q->o, sum, row, NULL, NULL)));
	}
	for (e = 0; e < q->elems; e += n) {
		v = x_axis(m, x_idx(m, n));
		rv = region_new(m, NULL);
		column = x_add(m, x_muli(m, j, q->column_tile),
			layout_node(m, q->t.x->c, key_coord(q), q->t.lane, x_idx(m, e)));
		at = x_add(m, x_add(m, x_muli(m, block_row(q, i, e), out_words(q)), column), v);
		x = l_load(m, q->sums, 3, spot_of(q, i, j, x_addi(m, v, e), (Node *[3]){0}));
		l_store(m, rv, q->t.memory, 1, &at, x_bits(m, DT_U32, x));
		l_for(m, r, F_VECTOR, v, rv);
	}
}

/* Stores the result, along its columns if they are contiguous. */
static void
write_rows(Mm *q, Region *r)
{
	Module *m = q->o.m;
	Node *out = q->o.a.out, *columns = q->o.column->in[0], *idx[MAX_RANK], *j, *unit, *row,
		*column, *at, *ok, *e;
	int w = vector_of(dtypes[storage_type(dtype_of(out))].bits / 8), rows = q->warps * q->q.span,
		units;
	bool wide = in_vectors(m, kb_address(q->o.kb, out, out->in), q->o.column, w);
	Region *in, *put = region_new(m, NULL), *rv = put;
	Node *v = x_axis(m, x_idx(m, w = wide ? w : 1));

	units = rows * q->columns / w;
	in = unroll(q, r, (units + q->t.threads - 1) / q->t.threads, &j);
	unit = x_add(m, x_muli(m, j, q->t.threads), q->o.f.tid);
	row = x_fdiv(m, unit, x_idx(m, q->columns / w));
	column = x_muli(m, x_mod(m, unit, x_idx(m, q->columns / w)), w);
	ok = x_and(m, x_lt(m, x_add(m, q->q0, row), q->o.extent), x_lt(m, column, columns));
	if (units % q->t.threads)
		ok = x_and(m, x_lt(m, unit, x_idx(m, units)), ok);
	if (w > 1) {
		rv = region_new(m, NULL);
		column = x_add(m, column, v);
	}
	at = x_add(m, x_muli(m, row, out_words(q)), column);
	e = flash_result(&q->o, x_bits(m, DT_F32, l_load(m, q->t.memory, 1, &at)), x_add(m, q->q0,
		row), column, idx);
	kb_store(q->o.kb, rv, out, idx, kb_emit(q->o.kb, rv, e));
	if (w > 1)
		l_for(m, put, F_VECTOR, v, rv);
	l_when(m, in, ok, put, NULL);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static const Map nothing;

/* A factor's part over its axes: `read` and what is around it over one axis of its own and one of
 * depth. */
static bool
open_part(Mm *q, Part *p, Side *s, Node *e, Node *own, Node **red, int depth)
{
	p->s = s;
	*s = (Side){.e = e, .axes = {own}, .n = 1, .extent = own->in[0], .block = x_idx(q->o.m, 0)};
	s->read = factor_read(e, true);
	p->red = red, p->nred = 1;
	p->k0 = x_idx(q->o.m, 0), p->extent = red[0]->in[0];
	p->depth = depth;
	p->at = &nothing;
	return s->read && part_plain(&q->t, p, e);
}

static bool
open_parts(Mm *q, Node **deep)
{
	Module *m = q->o.m;
	Attention *a = &q->o.a;
	Node *own = x_axis(m, q->o.extent), *e;

	e = flash_at(&q->o, flash_factor(&q->o, a->qk.ea, *deep), own, NULL, NULL);
	if (!open_part(q, &q->q, &q->sq, e, own, deep, q->depth))
		return false;
	e = flash_factor(&q->o, subst1(m, a->qk.eb, a->score->in[a->nouter], a->at), *deep);
	if (!open_part(q, &q->k, &q->sk, flash_at(&q->o, e, NULL, NULL, NULL), a->key, deep, q->depth))
		return false;
	e = flash_at(&q->o, a->pv.eb, NULL, NULL, NULL);
	if (!open_part(q, &q->v, &q->sv, e, q->o.column, &a->key, q->keys))
		return false;
	q->sq.block = q->row_block;
	q->sq.width = q->warps * q->q.span;
	q->sk.width = q->keys;
	q->sv.width = q->columns;
	return true;
}

static void
lay_out(Mm *q)
{
	Part *parts[] = {&q->k, &q->v, &q->q};
	int i, at = 0;

	for (i = 0; i < 3; i++) {
		part_storage(&q->t, parts[i]);
		part_lay_out(&q->t, parts[i]);
	}
	q->k.base = 0, q->v.base = q->k.words;
	q->t.stage_words = q->k.words + q->v.words;
	at = STAGES * q->t.stage_words;
	q->q.base = at;
}

static Node *
registers_of(Mm *q, const char *name, DType d, int n, int x, int y, int z)
{
	Module *m = q->o.m;
	Node *ext[3] = {x_idx(m, x), x_idx(m, y), x_idx(m, z)};

	return l_alloc(m, q->o.f.thread, l_buffer(m, name, d, SP_REG, n, ext));
}

static void
open_buffers(Mm *q)
{
	Module *m = q->o.m;
	int keys = q->keys / q->key_tile, columns = q->columns / q->column_tile,
		rows = q->warps * q->q.span;
	int total = q->q.base + q->q.words, out = rows * out_words(q);
	Node *n = x_idx(m, total > out ? total : out), *group = x_idx(m, q->group);

	q->t.memory = gpu_shared(q->o.kb, &q->o.f, "tiles", DT_U32, 1, &n);
	q->part = l_alloc(m, q->o.f.block, l_buffer(m, "part", DT_F32, SP_REG, 1, &group));
	if (q->half_lane)
		q->word = l_alloc(m, q->o.f.block, l_buffer(m, "word", DT_U32, SP_REG, 1, &group));
	q->s = q->turned ? registers_of(q, "s", DT_F32, 3, keys, q->tiles, q->elems)
		: registers_of(q, "s", DT_F32, 3, q->tiles, keys, q->elems);
	q->sums = q->turned ? registers_of(q, "sums", DT_F32, 3, columns, q->tiles, q->elems)
		: registers_of(q, "sums", DT_F32, 3, q->tiles, columns, q->elems);
	q->p = registers_of(q, "p", DT_U32, 2, q->tiles * q->keys / q->t.x->k,
		q->nsource * elem_size(q) / 4, 0);
	q->max = registers_of(q, "max", DT_F32, 2, q->tiles, q->nstats, 0);
	q->sum = registers_of(q, "sum", DT_F32, 2, q->tiles, q->nstats, 0);
	q->rise = registers_of(q, "rise", DT_F32, 2, q->tiles, q->nstats, 0);
	part_allocate(&q->t, &q->q, &q->o.f, "fq", "rq");
	part_allocate(&q->t, &q->k, &q->o.f, "fk", "rk");
	part_allocate(&q->t, &q->v, &q->o.f, "fv", "rv");
}

static void
open_rows(Mm *q, Region *r)
{
	Module *m = q->o.m;
	Node *i;
	int k;

	clear(q, r, q->sums, q->columns / q->column_tile);
	r = unroll(q, r, q->tiles, &i);
	for (k = 0; k < q->nstats; k++) {
		set_stat(q, r, q->max, i, k, x_comb_identity(m, COMB_MAX, DT_F32));
		set_stat(q, r, q->sum, i, k, x_int(m, DT_F32, 0));
	}
}

static void
locate(Mm *q, Region *r, Node *blocks)
{
	Module *m = q->o.m;
	int warp = q->t.kb->s->mach->warp;

	q->t.tid = q->o.f.tid;
	q->row_block = l_let(m, r, x_mod(m, q->o.f.bid, blocks));
	q->q0 = x_muli(m, q->row_block, q->warps * q->q.span);
	q->t.lane = l_let(m, r, x_mod(m, q->t.tid, x_idx(m, warp)));
	q->warp = l_let(m, r, x_fdiv(m, q->t.tid, x_idx(m, warp)));
	q->place = l_let(m, r, x_mod(m, x_fdiv(m, q->t.lane, x_idx(m, q->apart)), x_idx(m, q->group)));
	q->q.first = l_let(m, r, x_muli(m, q->warp, q->q.span));
	q->k.first = q->v.first = x_idx(m, 0);
	flash_bind(&q->o, r, x_fdiv(m, q->o.f.bid, blocks));
}

/* Chooses instruction, orientation and tiles; false: it does not fit. */
static bool
plan(Mm *q, Sched *s)
{
	Attention *a = &q->o.a;
	int64_t columns = const_or(q->o.column->in[0], 0), depth = 1, d;
	Part p = {0}, *other = &q->k;
	int i, block;

	for (i = 0; i < a->qk.nred; i++)
		depth = is_int(a->qk.red[i]->in[0], &d) && d > 0 ? sat_mul(depth, d) : MAX_DEPTH + 1;
	if (depth > MAX_DEPTH || columns <= 0 || columns > MAX_DEPTH
		|| !(q->t.x = instruction_of(s->mach, a))
	 || depth < MIN_DEPTH || (!match_way(q, false) && !match_way(q, true)))
		return false;
	part_blocks(&q->t, q->turned ? other : &q->q, q->turned ? &q->q : other);
	part_blocks(&q->t, q->turned ? &q->v : &p, q->turned ? &p : &q->v);
	block = q->t.block_bytes / elem_size(q);
	q->depth = round_up(depth, block);
	q->columns = round_up(columns, q->v.own);
	if (!choose_tiles(q, (double)likely_extent(s->m, q->o.extent), (double)likely_extent(s->m,
		flash_batch(&q->o))))
		return false;
	q->t.threads = q->warps * s->mach->warp;
	q->q.span = q->tiles * q->row_tile;
	q->q.own = q->q.own > q->q.span ? q->q.span : q->q.own;
	q->k.span = q->keys, q->v.span = q->columns;
	q->q.slots = q->q.span / q->q.own * (q->resident ? q->depth / block : 1);
	q->k.slots = chunk_of(q->keys / q->k.own);
	q->v.slots = chunk_of(q->columns / q->v.own);
	return true;
}

static void
emit(Mm *q, Region *r)
{
	Module *m = q->o.m;
	Node *total;

	lay_out(q);
	open_buffers(q);
	open_rows(q, r);
	total = x_ceildiv(m, flash_end(&q->o, r, q->q0, q->warps * q->q.span), x_idx(m, q->keys));
	total = total->code == O_NUM ? total : l_let(m, r, total);
	begin(q, r, total);
	pass_over(q, r, total);
	l_barrier(m, r);
	spread(q, r);
	l_barrier(m, r);
	write_rows(q, r);
}

Kernel *
attention_mma(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Mm q = {0};
	Node *blocks, *deep;
	Region *r;

	if (!attention_of(s, g->members[g->n - 1], &q.o.a))
		return NULL;
	flash_open(&q.o, &kb, g);
	q.t.kb = &kb, q.t.m = m;
	if (!plan(&q, s))
		return NULL;
	blocks = x_ceildiv(m, q.o.extent, x_idx(m, q.warps * q.q.span));
	q.o.f = gpu_frame(&kb, x_mul(m, blocks, flash_batch(&q.o)), q.t.threads);
	r = q.o.f.thread;
	locate(&q, r, blocks);
	q.o.n = kb_emit(&kb, r, q.o.a.key->in[0]);
	deep = x_axis(m, axes_product(m, q.o.a.qk.nred, q.o.a.qk.red));
	if (!open_parts(&q, &deep)) {
		flash_close(&q.o);
		return NULL;
	}
	emit(&q, r);
	kb.k->flops = 2.0 * q.warps * q.q.span * (double)(q.depth + q.columns)
		* (double)const_or(q.o.a.key->in[0], 128);
	flash_close(&q.o);
	return gpu_close(&kb, &q.o.f, arena_printf(m->arena,
		"class=attention, mma=%s%s, block=[%d,%d,%d], warps=%d, stages=%d, units=[%d%s,%d%s]",
		q.t.x->name, q.turned ? " turned" : "", q.warps * q.q.span, q.keys, q.depth, q.warps, STAGES, q.k.unit,
		q.k.async ? " async" : "", q.v.unit, q.v.async ? " async" : ""));
}
