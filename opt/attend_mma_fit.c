/* Attention on matrix units (attend_mma.c): which instruction, which way round, tiles of what size. */
#include <stdlib.h>
#include <string.h>
#include "attend_mma.h"

enum {
	MAX_WARPS = 4, LEAST_WARPS = 2, MAX_TILES = 2,  /* of rows, a warp's */
	/* of a thread for tiles; where they need few beside them, or many */
	MAX_REGS = 176, MAX_LEAN = 210, MAX_CROOKED = 144,
	/* beside them: for addresses and masks; likewise; where copies pass through registers */
	OTHER_REGS = 64, LEAN_REGS = 44, MORE_REGS = 110,
	LEAN_LINE = 256,       /* bytes of a query */
	MAX_KEYS = 64,
	MIN_DEPTH = 9,         /* less than half of the units would be used below */
	MAX_DEPTH = 512, CHUNK = 4,    /* blocks of fragments read together, at most */
	MOST_BITS = 8,
	/* of warp groups: elements of a swizzled row; registers of a thread for tiles, of 240; fewest keys */
	BAND = 64, GROUP_WARPS = 4, MAX_GROUP_REGS = 200, LEAST_KEYS = 128, GROUP_BARS = 256
};

/* ---- which way round ------------------------------------------------------------------------- */

char
am_own_coord(const Mm *q)
{
	return q->turned ? 'c' : 'r';
}

char
am_key_coord(const Mm *q)
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
		own = layout_at(c, am_own_coord(q), 1 << i, 0), key = layout_at(c, am_key_coord(q), 1 << i, 0);
		depth = layout_at(p, 'k', 1 << i, 0);
		if (own != layout_at(p, am_own_coord(q), 1 << i, 0) || (own && key) || (!key && depth))
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
		own = layout_at(p, am_own_coord(q), 0, 1 << i), depth = layout_at(p, 'k', 0, 1 << i);
		if (own) {
			bits[i] = (Bit){OF_ELEM, elem_bit(c, am_own_coord(q), own)};
			if (bits[i].bit < 0)
				return false;
			continue;
		}
		while (next < nc && !layout_at(c, am_key_coord(q), 0, 1 << next))
			next++;
		if (next < nc) {
			q->k.perm[log2_of(layout_at(c, am_key_coord(q), 0, 1 << next))] = depth;
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
		row = layout_at(c, am_own_coord(q), 0, e);
		for (i = 0; i < e && layout_at(c, am_own_coord(q), 0, i) != row; i++)
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

int
am_elem_size(const Mm *q)
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
	int size = am_elem_size(q), block = q->t.block_bytes / size, n;

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

	n = n * am_elem_size(q) / 4;
	return n > out ? n : out;
}

/* Does e read nothing but the scores and what they are sums of, and choose nothing? */
static bool
is_plain(const Attention *a, Node *e)
{
	Node **list;
	int i, n;
	bool yes = true;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++)
		yes &= list[i]->code == O_READ ? list[i]->in[0] == a->score || list[i] == a->qk.a || list[i] == a->qk.b
			: list[i]->code != O_SELECT;
	free(list);
	return yes;
}

/* Are rows powers of two? Else their pieces turn in ways that take a register each to address. */
static bool
is_straight(const Mm *q)
{
	return !(q->depth & (q->depth - 1)) && !(q->columns & (q->columns - 1));
}

/* Do tiles need few registers beside them? Copies do not pass through any, masks and biases have none, and
 * addresses are made from one each (part_open), few of the queries'. */
static bool
is_lean(const Mm *q)
{
	return machine_has(q->t.kb->s->mach, "cp.async") && q->t.matrices
		&& q->depth * am_elem_size(q) <= LEAN_LINE && is_straight(q) && is_plain(&q->o.a, q->o.a.x)
		&& is_plain(&q->o.a, q->o.a.score->in[q->o.a.score->nin - 1]);
}

/* Do the tiles fit the registers and shared memory? Queries stay in registers if they can. */
static bool
fits(Mm *q)
{
	const Machine *mach = q->t.kb->s->mach;
	bool lean = is_lean(q);
	int most = mach->regs_thread - (lean ? LEAN_REGS : machine_has(mach, "cp.async") ? OTHER_REGS : MORE_REGS);

	most = at_most(most, lean ? MAX_LEAN : q->t.matrices && !is_straight(q) ? MAX_CROOKED : MAX_REGS);
	q->resident = true;
	q->resident = registers(q) <= most;
	return registers(q) <= most && (q->resident || q->tiles == 1 || lean)
		&& 4 * words(q) <= mach->smem_block;
}

/* How many rows a block has, and how many keys at a time: the most that fits, if there are enough
 * blocks, of rows and of keys. */
static bool
choose_tiles(Mm *q, double rows, double batch)
{
	int most = is_lean(q) && likely_extent(q->t.m, q->o.a.key->in[0]) < 4 * MAX_KEYS ? MAX_KEYS / 2 : MAX_KEYS;
	const Machine *mach = q->t.kb->s->mach;
	int least = q->t.matrices ? round_up(16, q->t.block_bytes / am_elem_size(q)) : round_up(16,
		q->t.x->k);
	double blocks;

	for (q->tiles = MAX_TILES; q->tiles > 0; q->tiles--) {
		for (q->warps = MAX_WARPS; q->warps > 0; q->warps /= 2) {
			blocks = batch * rows / (q->tiles * q->row_tile * q->warps);
			if ((q->tiles > 1 || q->warps > LEAST_WARPS) && blocks < mach->units)
				continue;
			if (q->tiles * q->warps > 1 && rows <= q->tiles * q->row_tile * q->warps / 2)
				continue;
			for (q->keys = most; q->keys >= least; q->keys /= 2)
				if (q->keys % least == 0 && fits(q))
					return true;
		}
	}
	return false;
}

/* How many blocks of fragments are read together: they are a multiple of it. */
static int
chunk_of(int blocks)
{
	int n = CHUNK;

	while (blocks % n)
		n--;
	return n;
}

/* What the scores sum over, as one; past MAX_DEPTH where it is not known. */
static int64_t
depth_of(const Attention *a)
{
	int64_t depth = 1, d;
	int i;

	for (i = 0; i < a->qk.nred; i++)
		depth = is_int(a->qk.red[i]->in[0], &d) && d > 0 ? sat_mul(depth, d) : MAX_DEPTH + 1;
	return depth;
}

/* Registers of a thread where products are a group's, and read keys and values from shared memory. */
static int
group_registers(const Mm *q)
{
	return (q->keys + q->keys / 2 + q->columns + q->depth / 2) / 2;
}

static bool
fits_groups(const Mm *q, const Machine *mach)
{
	int rows = q->warps * q->row_tile, stages = STAGES * q->keys * (q->depth + q->columns) / 2;
	int words = stages + rows * q->depth / 2, out = rows * am_out_words(q);

	return group_registers(q) <= MAX_GROUP_REGS && 4 * (words > out ? words : out) + GROUP_BARS <= mach->smem_block;
}

/*
 * Two groups of 64 rows, a row of keys and values whole swizzled bands. Blocks have more rows than those of
 * am_plan: only where there are enough of them, and keys that make it worth while.
 */
bool
am_plan_groups(Mm *q, Sched *s)
{
	Attention *a = &q->o.a;
	int64_t columns = const_or(q->o.column->in[0], 0), depth = depth_of(a);
	double rows = (double)likely_extent(s->m, q->o.extent), batch = (double)likely_extent(s->m, flash_batch(&q->o));
	double keys = (double)likely_extent(s->m, a->key->in[0]);
	Part p = {0};

	q->warps = 2 * GROUP_WARPS, q->tiles = 1, q->resident = true;
	if (depth > MAX_DEPTH || depth % BAND || (columns != BAND && columns != 2 * BAND) || q->o.leave || keys < LEAST_KEYS
	 || !(q->t.x = instruction_of(s->mach, a)) || dtypes[q->t.x->type].bits != 16
	 || !machine_mma_group(s->mach, q->t.x->type, q->t.x->type) || !match_way(q, false) || q->k.nperm
	 || rows < q->warps * q->row_tile || batch * rows < (double)s->mach->units * q->warps * q->row_tile)
		return false;
	part_blocks(&q->t, &q->q, &q->k);
	part_blocks(&q->t, &p, &q->v);
	q->depth = (int)depth, q->columns = (int)columns;
	q->q.span = q->row_tile, q->q.slots = q->depth * am_elem_size(q) / q->t.block_bytes;
	q->t.threads = q->warps * s->mach->warp;
	for (q->keys = is_plain(a, a->x) && is_plain(a, a->score->in[a->score->nin - 1]) ? 2 * MAX_KEYS : MAX_KEYS;
		q->keys >= MAX_KEYS && !fits_groups(q, s->mach); q->keys /= 2)
		;
	return q->keys >= MAX_KEYS;
}

bool
am_plan(Mm *q, Sched *s)
{
	Attention *a = &q->o.a;
	int64_t columns = const_or(q->o.column->in[0], 0), depth = depth_of(a);
	Part p = {0}, *other = &q->k;
	int block;

	if (depth > MAX_DEPTH || columns <= 0 || columns > MAX_DEPTH
		|| !(q->t.x = instruction_of(s->mach, a))
	 || depth < MIN_DEPTH || (!match_way(q, false) && !match_way(q, true)))
		return false;
	part_blocks(&q->t, q->turned ? other : &q->q, q->turned ? &q->q : other);
	part_blocks(&q->t, q->turned ? &q->v : &p, q->turned ? &p : &q->v);
	block = q->t.block_bytes / am_elem_size(q);
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
