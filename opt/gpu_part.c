/*
 * Tiles in shared memory of the factors of a product on matrix units, how they are brought there
 * and how a warp reads fragments from them.
 *
 * A stored row is cut into pieces of 16 bytes, and piece c of row r stands at c ^ f(r): then both
 * the copies and the reading of fragments take each bank in turn (CUTLASS's XOR swizzle). Rows of
 * n pieces begin in the same banks as those 8 / 2^k further on, with 2^k the power of two in n,
 * or 8; f numbers these. A factor is stored with the depth along its rows, or, where it is
 * contiguous along its own axis and the machine transposes 2-byte matrices as it reads them, the
 * other way.
 *
 * A warp reads fragments by blocks: own x bytes of depth. With ldmatrix a block is 16 x 32 bytes;
 * elsewhere each lane takes 16 consecutive bytes (or 32) of its row, and the instructions of the
 * block the parts of that in turn: which depth is which does not matter as long as both factors
 * agree.
 */
#include <stdlib.h>
#include <string.h>
#include "gpu_part.h"

/* ---- factors --------------------------------------------------------------------------------- */

/* Does an index of the read need memory? */
static bool
contains_read(Node *read)
{
	Node **list;
	int i, k, n;
	bool yes = false;

	for (k = 1; k < read->nin && !yes; k++) {
		list = topo_scalar(read->in[k], &n);
		for (i = 0; i < n && !yes; i++)
			yes = list[i]->code == O_READ;
		free(list);
	}
	return yes;
}

DType
factor_type(const Node *e)
{
	DType d = e->type->dtype, inner;

	for (; e->code != O_READ && (e->code == O_CAST || e->code == O_SELECT || e->code == O_TF32);
		e = e->in[e->code == O_SELECT]) {
		inner = e->in[e->code == O_SELECT]->type->dtype;
		if (dtypes[inner].bits < dtypes[d].bits)
			d = inner;
	}
	return d;
}

bool
part_plain(Tiles *q, Part *p, Node *e)
{
	Module *m = q->m;
	int64_t v;

	p->ok = x_bool(m, true);
	for (; e->code != O_READ; e = e->in[e->code == O_SELECT]) {
		if (e->code == O_TF32)
			q->round = true;
		else if (e->code == O_SELECT && ((is_int(e->in[2], &v) && v == 0)
		 || (e->in[2]->code == O_NUM && dt_float(e->type->dtype) && e->in[2]->num.f == 0)))
			p->ok = x_and(m, p->ok, e->in[0]);
		else if (e->code != O_CAST)
			return false;
	}
	p->type = factor_type(p->s->e);
	p->size = dtypes[p->type].bits / 8;
	if (dtype_of(e->in[0]) != p->type && (!dt_float(p->type) || dtype_of(e->in[0]) != DT_F32))
		return false;
	return !is_packed(q->kb->s, e->in[0]) && !contains_read(e);
}

/* ---- how tiles are brought ------------------------------------------------------------------- */

/* The most bytes that travel together along the axis, 16, 8 or 4; 0: not even words. */
static int
unit_along(Tiles *q, Part *p, Node *axis)
{
	Module *m = q->m;
	Node *addr = kb_address(q->kb, p->s->read->in[0], p->s->read->in + 1);
	int unit;

	if (!axis || contains(p->ok, axis))
		return p->size == 4 ? 4 : 0;
	for (unit = 16; unit >= 4; unit /= 2)
		if (unit == p->size || in_vectors(m, addr, axis, unit / p->size))
			return unit;
	return 0;
}

static bool
unit_stride(Tiles *q, Part *p, Node *axis)
{
	Node *c = axis ? elem_stride(q->kb, p->s->read, axis) : NULL;

	return c && is_intv(c, 1);
}

void
part_storage(Tiles *q, Part *p)
{
	Side *s = p->s;
	const Machine *mach = q->kb->s->mach;
	Node *own = s->n ? s->axes[s->n - 1] : NULL, *red = p->red[p->nred - 1];
	bool along = unit_stride(q, p, own) && !unit_stride(q, p, red);

	s->deep = !(along && p->size == 2 && q->matrices);
	p->unit = (along && s->deep) || dtype_of(s->read->in[0]) != p->type ? 0
		: unit_along(q, p, s->deep ? red : own);
	p->loose = p->unit == 0;
	if (p->loose)
		p->unit = 4;
	p->async = !p->loose && machine_has(mach, "cp.async");
}

void
part_lay_out(Tiles *q, Part *p)
{
	p->rows = p->s->deep ? p->s->width : p->depth;
	p->bytes = (p->s->deep ? p->depth : p->s->width) * p->size;
	p->words = p->rows * p->bytes / 4;
	p->count = (p->rows * p->bytes / p->unit + q->threads - 1) / q->threads;
}

Node *
part_word(Tiles *q, const Part *p, Node *stage, Node *row, Node *piece)
{
	Module *m = q->m;
	int pieces = p->bytes / 16, even = pieces & -pieces, turns = even < 8 ? even : 8;
	Node *turn = x_mod(m, x_fdiv(m, row, x_idx(m, 8 / turns)), x_idx(m, turns)), *at;

	if (turns > 1)
		piece = x2(m, O_XOR, piece, turn);
	at = x_add(m, x_muli(m, stage, q->stage_words), x_muli(m, row, p->bytes / 4));
	return x_addi(m, x_add(m, at, x_muli(m, piece, 4)), p->base);
}

/* Stored row and byte in it of a thread's unit j. */
static void
place_of(Tiles *q, Part *p, Node *unit, Node **row, Node **byte)
{
	Module *m = q->m;
	Node *per = x_idx(m, p->bytes / p->unit);

	if (p->loose && unit_stride(q, p, p->s->n ? p->s->axes[p->s->n - 1] : NULL) && p->s->deep) {
		/* threads go along memory, 16 elements at least, and along a piece: of 64 threads 8 x 4 words lie in
		 * all banks, twice */
		int along = 16, words = 4, near = q->kb->s->mach->warp == 64 ? 8 : 16;
		if (p->rows % along || p->bytes % 16 || p->unit != 4)
			along = near = p->rows, words = 1;
		Node *rest = x_fdiv(m, unit, x_idx(m, along * words)), *more = x_idx(m, p->rows / along);
		Node *in = x_mod(m, unit, x_idx(m, along * words)), *word;
		word = x_mod(m, x_fdiv(m, in, x_idx(m, near)), x_idx(m, words));
		*row = x_add(m, x_mod(m, in, x_idx(m, near)), x_muli(m, x_fdiv(m, in, x_idx(m, near * words)), near));
		*row = x_add(m, *row, x_muli(m, x_mod(m, rest, more), along));
		*byte = x_muli(m, x_add(m, word, x_muli(m, x_fdiv(m, rest, more), words)), p->unit);
		return;
	}
	*row = x_fdiv(m, unit, per);
	*byte = x_muli(m, x_mod(m, unit, per), p->unit);
}

/* Binds the summed axes at element k of the tile, and those of the factor at its element `own`. */
static void
bind(Tiles *q, Part *p, Map *map, Node *own, int align, Node *k)
{
	Module *m = q->m;
	Side *s = p->s;
	uint32_t i;

	for (i = 0; i < p->at->cap; i++)
		if (p->at->key[i])
			map_put(map, p->at->key[i], p->at->val[i]);
	k = x_add(m, p->k0, k);
	if (p->flat)
		digits(m, map, p->nred, p->red, k);
	else
		map_put(map, p->red[p->nred - 1], k);

	own = x_add(m, x_muli(m, s->block, s->width / align), x_fdiv(m, own, x_idx(m, align)));
	own = x_min(m, own, x_addi(m, x_fdiv(m, s->extent, x_idx(m, align)), -1));
	digits(m, map, s->n, s->axes, x_muli(m, own, align));
}

/* Is element k of the tile within the depth? */
static Node *
in_depth(Tiles *q, const Part *p, Node *k)
{
	Module *m = q->m;
	int64_t extent;

	if (is_int(p->extent, &extent) && extent % p->depth == 0)
		return x_bool(m, true);
	return x_lt(m, x_add(m, p->k0, k), p->extent);
}

void
gpu_where(Module *m, Region *r, Node *cond, Region *then)
{
	int i;

	if (!is_intv(cond, 1))
		l_when(m, r, cond, then, NULL);
	for (i = 0; is_intv(cond, 1) && i < then->nresults; i++)
		region_add(m, r, then->results[i]);
}

typedef struct Unit { Node *j, *number, *row, *byte, *own, *k; int align; Region *in, *all; } Unit;

/* Begins a loop over the thread's units. */
static Unit
open_units(Tiles *q, Part *p)
{
	Module *m = q->m;
	int all = p->rows * p->bytes / p->unit;
	Unit u = {.j = x_axis(m, x_idx(m, p->count)), .all = region_new(m, NULL), .align = 1};

	u.in = all % q->threads ? region_new(m, NULL) : u.all;
	u.number = x_add(m, x_muli(m, u.j, q->threads), q->tid);
	place_of(q, p, u.number, &u.row, &u.byte);
	u.own = p->s->deep ? u.row : x_fdiv(m, u.byte, x_idx(m, p->size));
	u.k = p->s->deep ? x_fdiv(m, u.byte, x_idx(m, p->size)) : u.row;
	if (!p->s->deep && !p->loose)
		u.align = p->unit / p->size;
	return u;
}

static void
close_units(Tiles *q, Part *p, Region *r, Unit *u)
{
	Module *m = q->m;

	if (u->in != u->all)
		l_when(m, u->all, x_lt(m, u->number, x_idx(m, p->rows * p->bytes / p->unit)), u->in, NULL);
	l_for(m, r, F_UNROLL, u->j, u->all);
}

static Node *
shared_word(Tiles *q, Part *p, Unit *u, Node *stage)
{
	Module *m = q->m;
	Node *w = part_word(q, p, stage, u->row, x_fdiv(m, u->byte, x_idx(m, 16)));

	return x_add(m, w, x_fdiv(m, x_mod(m, u->byte, x_idx(m, 16)), x_idx(m, 4)));
}

/* A word of elements that are read one by one. */
static Node *
packed(Tiles *q, Part *p, Unit *u, Region *r)
{
	Module *m = q->m;
	DType bits = p->size == 4 ? DT_U32 : p->size == 2 ? DT_U16 : DT_U8;
	Node *word = NULL, *e, *ok, *k, *own;
	int i;

	for (i = 0; i < 4 / p->size; i++) {
		Map map = {0};
		k = p->s->deep ? x_addi(m, u->k, i) : u->k;
		own = p->s->deep ? u->own : x_addi(m, u->own, i);
		bind(q, p, &map, own, 1, k);
		ok = x_and(m, in_depth(q, p, k), subst(m, p->ok, &map, false));
		e = x_bits(m, bits, x_cast(m, p->type, subst(m, p->s->read, &map, false)));
		map_free(&map);
		e = x_cast(m, DT_U32, x_select(m, ok, e, x_int(m, bits, 0)));
		if (i)
			e = x2(m, O_SHL, e, x_int(m, DT_U32, 8 * p->size * i));
		word = word ? x2(m, O_OR, word, e) : e;
	}
	return kb_emit(q->kb, r, word);
}

void
part_fetch(Tiles *q, Part *p, Region *r, Node *stage)
{
	Module *m = q->m;
	Unit u = open_units(q, p);
	Node *zero = x_idx(m, 0), *addr, *ok, *buf = kb_buffer(q->kb, p->s->read->in[0], false), *at;
	Map map = {0};

	if (p->loose) {
		l_store(m, u.in, p->staged, 2, (Node *[]){u.j, zero}, packed(q, p, &u, u.in));
		close_units(q, p, r, &u);
		return;
	}
	bind(q, p, &map, u.own, u.align, u.k);
	ok = x_and(m, in_depth(q, p, u.k), subst(m, p->ok, &map, false));
	addr = subst(m, kb_address(q->kb, p->s->read->in[0], p->s->read->in + 1), &map, false);
	map_free(&map);
	addr = kb_emit(q->kb, u.in, addr);
	ok = is_intv(ok, 1) ? NULL : kb_emit(q->kb, u.in, ok);
	if (p->async) {
		at = shared_word(q, p, &u, stage);
		l_move(m, u.in, MOVE_ASYNC, p->unit, (Spot){q->memory, &at}, (Spot){buf, &addr}, ok);
	} else {
		l_move(m, u.in, MOVE_WORDS, p->unit, (Spot){p->staged, (Node *[]){u.j, zero}},
			(Spot){buf, &addr}, ok);
	}
	close_units(q, p, r, &u);
}

void
part_put(Tiles *q, Part *p, Region *r, Node *stage)
{
	Module *m = q->m;
	Unit u = open_units(q, p);
	Node *at;

	if (p->async)
		return;
	at = shared_word(q, p, &u, stage);
	l_move(m, u.in, MOVE_WORDS, p->unit, (Spot){q->memory, &at},
		(Spot){p->staged, (Node *[]){u.j, x_idx(m, 0)}}, NULL);
	close_units(q, p, r, &u);
}

/* ---- fragments ------------------------------------------------------------------------------- */

void
part_blocks(Tiles *q, Part *a, Part *b)
{
	const Mma *x = q->x;
	int size = dtypes[x->type].bits / 8, bytes = size << layout_bits(x->a, true), lane;

	q->matrices = machine_has(q->kb->s->mach, "ldmatrix");
	a->tile = x->m, b->tile = x->n;
	a->layout = x->a, a->coord = 'r', b->layout = x->b, b->coord = 'c';
	if (q->matrices) {
		a->own = b->own = 16;
		q->lane_words = 4;
		q->block_bytes = 32;
		a->substep = 1, a->kstep = 2, b->substep = 2, b->kstep = 1;
		return;
	}
	for (lane = 1, q->lane_groups = 1; lane < q->kb->s->mach->warp; lane *= 2)
		if (layout_at(x->a, 'k', lane, 0))
			q->lane_groups *= 2;
	a->own = x->m, b->own = x->n;
	q->lane_words = bytes > 16 ? bytes / 4 : 4;
	q->block_bytes = q->lane_groups * q->lane_words * 4;
	a->kstep = b->kstep = bytes / 4;
}

Node *
part_row(Tiles *q, const Part *p, Node *row)
{
	Module *m = q->m;
	Node *sum = x_muli(m, x_fdiv(m, row, x_idx(m, 1 << p->nperm)), 1 << p->nperm);
	int i;

	for (i = 0; i < p->nperm; i++)
		sum = x_add(m, sum, x_muli(m, x_mod(m, x_fdiv(m, row, x_idx(m, 1 << i)), x_idx(m, 2)),
			p->perm[i]));
	return p->nperm ? sum : row;
}

/* Stored row and piece that the lane names for matrices of the block at own x piece. */
static void
matrix_rows(Tiles *q, Part *p, Node *own, Node *piece, Node **row, Node **at)
{
	Module *m = q->m;
	Node *l8 = x_mod(m, q->lane, x_idx(m, 8)), *half = x_fdiv(m, q->lane, x_idx(m, 16)),
		*bit = x_mod(m, x_fdiv(m, q->lane, x_idx(m, 8)), x_idx(m, 2));
	Node *o = p->coord == 'r' ? bit : half, *k = p->coord == 'r' ? half : bit;

	if (p->s->deep) {
		*row = part_row(q, p, x_add(m, own, x_add(m, x_muli(m, o, 8), l8)));
		*at = x_add(m, piece, k);
	} else {
		*row = x_add(m, x_muli(m, piece, 8), x_add(m, x_muli(m, k, 8), l8));
		*at = x_add(m, x_fdiv(m, own, x_idx(m, 8)), o);
	}
}

static void
round_block(Tiles *q, Part *p, Region *r, Node *slot)
{
	Module *m = q->m;
	Node *w = x_axis(m, x_idx(m, q->lane_words)), *idx[2] = {slot, w}, *v;
	Region *in = region_new(m, NULL);

	v = x_bits(m, DT_F32, l_load(m, p->fragment, 2, idx));
	l_store(m, in, p->fragment, 2, idx, x_bits(m, DT_U32, x1(m, O_TF32, v)));
	l_for(m, r, F_UNROLL, w, in);
}

void
part_open(Tiles *q, Part *p, Region *r, Node *stage)
{
	Module *m = q->m;
	int pieces = p->bytes / 16, line = pieces * 4;
	Node *row, *piece;

	p->spot = NULL;
	if (!q->matrices || pieces & (pieces - 1) || q->stage_words % line || p->base % line)
		return;
	matrix_rows(q, p, p->first, x_idx(m, 0), &row, &piece);
	p->spot = l_let(m, r, part_word(q, p, stage, row, piece));
}

/* The word where the lane's matrix lies, from where the first one does: pieces that are even change places
 * as the lane's own does, rows by eights turn alike. */
static Node *
from_spot(Tiles *q, Part *p, Node *own, Node *pieces)
{
	Module *m = q->m;
	Node *rows = p->s->deep ? own : x_muli(m, pieces, 8),
		*along = p->s->deep ? pieces : x_fdiv(m, own, x_idx(m, 8));

	return x_add(m, x2(m, O_XOR, p->spot, x_muli(m, along, 4)), x_muli(m, rows, p->bytes / 4));
}

static void
read_block(Tiles *q, Part *p, Region *r, Node *stage, Node *i, Node *kb, Node *slot)
{
	Module *m = q->m;
	Node *own = x_add(m, p->first, x_muli(m, i, p->own)), *row, *piece, *at;
	Node *pieces = x_muli(m, kb, q->block_bytes / 16), *group;
	int w;

	if (q->matrices) {
		matrix_rows(q, p, own, pieces, &row, &piece);
		at = p->spot ? from_spot(q, p, x_muli(m, i, p->own), pieces) : part_word(q, p, stage, row, piece);
		l_move(m, r, p->s->deep ? MOVE_MATRICES : MOVE_TRANSPOSED, 16,
			(Spot){p->fragment, (Node *[]){slot, x_idx(m, 0)}}, (Spot){q->memory, &at}, NULL);
		return;
	}
	row = part_row(q, p, x_add(m, own, layout_node(m, p->layout, p->coord, q->lane, x_idx(m, 0))));
	group = x_mod(m, x_fdiv(m, q->lane, x_idx(m, p->own)), x_idx(m, q->lane_groups));
	for (w = 0; w < q->lane_words; w += 4) {
		piece = x_addi(m, x_add(m, pieces, x_muli(m, group, q->lane_words / 4)), w / 4);
		at = part_word(q, p, stage, row, piece);
		l_move(m, r, MOVE_WORDS, 16, (Spot){p->fragment, (Node *[]){slot, x_idx(m, w)}},
			(Spot){q->memory, &at}, NULL);
	}
}

void
part_read_block(Tiles *q, Part *p, Region *r, Node *stage, Node *i, Node *kb, Node *slot)
{
	read_block(q, p, r, stage, i, kb, slot);
	if (q->round)
		round_block(q, p, r, slot);
}

void
part_read(Tiles *q, Part *p, Region *r, Node *stage, Node *kb)
{
	Module *m = q->m;
	Node *i = x_axis(m, x_idx(m, p->span / p->own));
	Region *in = region_new(m, NULL);

	part_read_block(q, p, in, stage, i, kb, i);
	l_for(m, r, F_UNROLL, i, in);
}

void
part_at(Tiles *q, const Part *p, Node *i, Node *ks, Node **idx)
{
	Module *m = q->m;
	Node *per = x_idx(m, p->own / p->tile);

	idx[0] = x_fdiv(m, i, per);
	idx[1] = x_add(m, x_muli(m, x_mod(m, i, per), p->substep), x_muli(m, ks, p->kstep));
}

void
part_allocate(Tiles *q, Part *p, Frame *f, const char *fragment, const char *staged)
{
	Module *m = q->m;

	p->fragment = l_alloc(m, f->thread, l_buffer(m, fragment, DT_U32, SP_REG, 2,
		(Node *[]){x_idx(m, p->slots ? p->slots : p->span / p->own), x_idx(m, q->lane_words)}));
	if (!p->async)
		p->staged = l_alloc(m, f->thread, l_buffer(m, staged, DT_U32, SP_REG, 2,
			(Node *[]){x_idx(m, p->count), x_idx(m, p->unit / 4)}));
}
