/*
 * GPU schedule of the class contract on matrix units: sums of products of narrow types (f16, bf16,
 * tf32 with leave, bytes), accumulated in f32 or i32, as an implicit matrix product; convolutions
 * are the same with other addresses.
 *
 * A block of warps computes a tile of the result, rows x columns; the result lies along its
 * columns. The depth advances in steps. Of each step both factors' tiles stand in shared memory, in
 * one of several stages, so that copies of later steps are under way while this one is multiplied:
 * asynchronously where the machine can and addresses allow, else through registers, which are
 * filled before the products and emptied after them. One barrier a step.
 *
 * A stored row is cut into pieces of 16 bytes, and piece c of row r stands at c ^ f(r): then both
 * the copies and the reading of fragments take each bank in turn (CUTLASS's XOR swizzle). A factor
 * is stored with the depth along its rows, or, where it is contiguous along its own axis and the
 * machine transposes 2-byte matrices as it reads them, the other way.
 *
 * A warp reads fragments by blocks: own x bytes of depth. With ldmatrix a block is 16 x 32 bytes;
 * elsewhere each lane takes 16 consecutive bytes (or 32) of its row, and the instructions of the
 * block the parts of that in turn: which depth is which does not matter as long as both factors
 * agree.
 *
 * At the end the accumulators pass through the same shared memory, in slices of rows, so that what
 * follows the sum is computed along the result (gpu_contract.c).
 */
#include <stdlib.h>
#include <string.h>
#include "gpu_contract.h"

/* Tiles to choose from: rows, columns, warps along each. */
static const struct { int m, n, wm, wn; } shapes[] = {
	{128, 256, 2, 4}, {256, 128, 4, 2}, {128, 128, 2, 2}, {128, 64, 2, 2}, {64, 128, 2, 2},
	{64, 64, 2, 2}, {64, 32, 2, 1}, {32, 64, 1, 2}, {32, 128, 1, 4}, {128, 32, 4, 1},
	{16, 128, 1, 4}, {16, 64, 1, 2}, {32, 32, 1, 1}, {16, 32, 1, 1}, {32, 16, 1, 1},
};
enum { GROUP = 8, MAX_THREADS = 256, MAX_ACC = 128, MIN_DEPTH = 16 };

/* A factor's tile, beside what Side says. */
typedef struct Part {
	Side *s;
	Node *ok;              /* where it is not 0 */
	int size;              /* bytes of an element */
	bool async, loose;     /* copied asynchronously; element by element */
	int unit;              /* bytes that travel together */
	int rows, bytes;       /* stored rows, of so many bytes */
	int words;             /* of a stage; base: where they begin in it */
	int base, count;       /* count: units a thread brings */
	Node *staged;          /* [count][unit / 4] registers */
	char coord;            /* of its own axis in layouts */
	const char *layout;
	int own;               /* of a block of fragments, elements */
	int tile;              /* of an instruction */
	int substep, kstep;    /* words from an instruction's fragment to the next one's within a block */
	int span;              /* elements of the warp's tile */
	Node *first;           /* of them, within the block's tile */
	Node *fragment;        /* [span / own][words of a block] */
} Part;

typedef struct Mm {
	Gemm g;
	const Mma *x;
	Part a, b;             /* rows, columns */
	int wm, wn, warps;     /* warps along rows, columns */
	int bk, stages;        /* elements of a step */
	int lane_words, lane_groups;   /* of a block: words a lane holds; lanes along the depth */
	int block_bytes;       /* depth of a block */
	bool matrices, round;  /* by ldmatrix; operands are rounded to tf32 */
	Node *memory, *lane, *warp;
	Node *total, *per;     /* steps; those of the last summed axis */
	Node *acc;             /* [rows][columns][elements] of a warp's instructions */
	int acc_elems;
} Mm;

/* ---- what can be done ------------------------------------------------------------------------ */

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

/* Factor's read, what guards it, and whether it is rounded to tf32; false if it is no plain one. */
static bool
plain_factor(Mm *q, Part *p, Node *e)
{
	Module *m = q->g.m;
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
	p->size = dtypes[dtype_of(e->in[0])].bits / 8;
	return !is_packed(q->g.kb->s, e->in[0]) && !contains_read(e);
}

static bool
usable(Mm *q, double depth)
{
	Gemm *g = &q->g;
	Node *mul = g->c.reduce->in[g->c.reduce->nin - 1];
	DType d = dtype_of(q->a.s->read->in[0]);

	q->x = machine_mma(g->kb->s->mach, d, dtype_of(q->b.s->read->in[0]));
	if (mul->code != O_MUL || !q->x
	 || q->x->acc != g->c.reduce->type->dtype || depth < MIN_DEPTH)
		return false;
	if (!plain_factor(q, &q->a, q->a.s->e) || !plain_factor(q, &q->b, q->b.s->e))
		return false;
	return q->round == (d == DT_F32);
}

bool
takes_depth(const Sched *s, const Contraction *c)
{
	const Mma *x = machine_mma(s->mach, dtype_of(c->a->in[0]), dtype_of(c->b->in[0]));
	Node *mul = c->reduce->in[c->reduce->nin - 1];

	if (!x || mul->code != O_MUL || x->acc != c->reduce->type->dtype
	 || (x->type == DT_F32 && mul->in[0]->code != O_TF32))
		return false;
	return dtypes[x->type].bits != 16 || !machine_has(s->mach, "ldmatrix");
}

/* ---- how tiles are brought ------------------------------------------------------------------- */

/* The most bytes that travel together along the axis, 16, 8 or 4; 0: not even words. */
static int
unit_along(Mm *q, Part *p, Node *axis)
{
	Module *m = q->g.m;
	Node *addr = kb_address(q->g.kb, p->s->read->in[0], p->s->read->in + 1);
	int unit;

	if (!axis || contains(p->ok, axis))
		return p->size == 4 ? 4 : 0;
	for (unit = 16; unit >= 4; unit /= 2)
		if (unit == p->size || in_vectors(m, addr, axis, unit / p->size))
			return unit;
	return 0;
}

static bool
unit_stride(Mm *q, Part *p, Node *axis)
{
	Node *c = axis ? elem_stride(q->g.kb, p->s->read, axis) : NULL;

	return c && is_intv(c, 1);
}

static void
choose_storage(Mm *q, Part *p)
{
	Side *s = p->s;
	const Machine *mach = q->g.kb->s->mach;
	Node *own = s->n ? s->axes[s->n - 1] : NULL, *red = q->g.c.red[q->g.c.nred - 1];
	bool along = unit_stride(q, p, own) && !unit_stride(q, p, red);

	s->deep = !(along && p->size == 2 && q->matrices);
	p->unit = along && s->deep ? 0 : unit_along(q, p, s->deep ? red : own);
	p->loose = p->unit == 0;
	if (p->loose)
		p->unit = 4;
	p->async = !p->loose && machine_has(mach, "cp.async");
}

static void
lay_out(Mm *q, Part *p)
{
	p->rows = p->s->deep ? p->s->width : q->bk;
	p->bytes = (p->s->deep ? q->bk : p->s->width) * p->size;
	p->words = p->rows * p->bytes / 4;
	p->count = (p->rows * p->bytes / p->unit + q->g.threads - 1) / q->g.threads;
}

/* The word of shared memory where piece `piece` of a stored row stands. */
static Node *
word_of(Mm *q, Part *p, Node *stage, Node *row, Node *piece)
{
	Module *m = q->g.m;
	int lines = p->bytes < 128 ? 128 / p->bytes : 1, pieces = p->bytes / 16 < 8 ? p->bytes / 16 : 8;
	Node *turn = x_mod(m, x_fdiv(m, row, x_idx(m, lines)), x_idx(m, pieces)), *at;

	if (pieces > 1)
		piece = x2(m, O_XOR, piece, turn);
	at = x_add(m, x_muli(m, stage, q->a.words + q->b.words), x_muli(m, row, p->bytes / 4));
	return x_addi(m, x_add(m, at, x_muli(m, piece, 4)), p->base);
}

/* Stored row and byte in it of a thread's unit j. */
static void
place_of(Mm *q, Part *p, Node *unit, Node **row, Node **byte)
{
	Module *m = q->g.m;
	Node *per = x_idx(m, p->bytes / p->unit);

	if (p->loose && unit_stride(q, p, p->s->n ? p->s->axes[p->s->n - 1] : NULL) && p->s->deep) {
		*row = x_mod(m, unit, x_idx(m, p->rows));        /* threads go along memory */
		*byte = x_muli(m, x_fdiv(m, unit, x_idx(m, p->rows)), p->unit);
		return;
	}
	*row = x_fdiv(m, unit, per);
	*byte = x_muli(m, x_mod(m, unit, per), p->unit);
}

/* Binds the summed axes at element k of the step, and those of the factor at its element `own`. */
static void
bind(Mm *q, Part *p, Map *map, Node *own, int align, Node *k)
{
	Module *m = q->g.m;
	Side *s = p->s;

	own = x_add(m, x_muli(m, s->block, s->width / align), x_fdiv(m, own, x_idx(m, align)));
	own = x_min(m, own, x_addi(m, x_fdiv(m, s->extent, x_idx(m, align)), -1));
	gemm_bind_batch(&q->g, map);
	digits(m, map, s->n, s->axes, x_muli(m, own, align));
	gemm_bind_depth(&q->g, map, k);
}

/* Is element k of the step within the depth? */
static Node *
in_depth(Mm *q, Node *k)
{
	Module *m = q->g.m;
	int64_t depth;

	if (is_int(q->g.depth, &depth) && depth % q->bk == 0)
		return x_bool(m, true);
	return x_lt(m, x_add(m, q->g.k0, k), q->g.depth);
}

/* The statements where cond holds. */
static void
where(Module *m, Region *r, Node *cond, Region *then)
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
open_units(Mm *q, Part *p)
{
	Module *m = q->g.m;
	int all = p->rows * p->bytes / p->unit;
	Unit u = {.j = x_axis(m, x_idx(m, p->count)), .all = region_new(m, NULL), .align = 1};

	u.in = all % q->g.threads ? region_new(m, NULL) : u.all;
	u.number = x_add(m, x_muli(m, u.j, q->g.threads), q->g.f.tid);
	place_of(q, p, u.number, &u.row, &u.byte);
	u.own = p->s->deep ? u.row : x_fdiv(m, u.byte, x_idx(m, p->size));
	u.k = p->s->deep ? x_fdiv(m, u.byte, x_idx(m, p->size)) : u.row;
	if (!p->s->deep && !p->loose)
		u.align = p->unit / p->size;
	return u;
}

static void
close_units(Mm *q, Part *p, Region *r, Unit *u)
{
	Module *m = q->g.m;

	if (u->in != u->all)
		l_when(m, u->all, x_lt(m, u->number, x_idx(m, p->rows * p->bytes / p->unit)), u->in, NULL);
	l_for(m, r, F_UNROLL, u->j, u->all);
}

static Node *
shared_word(Mm *q, Part *p, Unit *u, Node *stage)
{
	Module *m = q->g.m;
	Node *w = word_of(q, p, stage, u->row, x_fdiv(m, u->byte, x_idx(m, 16)));

	return x_add(m, w, x_fdiv(m, x_mod(m, u->byte, x_idx(m, 16)), x_idx(m, 4)));
}

/* A word of elements that are read one by one. */
static Node *
packed(Mm *q, Part *p, Unit *u, Region *r)
{
	Module *m = q->g.m;
	DType bits = p->size == 4 ? DT_U32 : p->size == 2 ? DT_U16 : DT_U8;
	Node *word = NULL, *e, *ok, *k, *own;
	int i;

	for (i = 0; i < 4 / p->size; i++) {
		Map map = {0};
		k = p->s->deep ? x_addi(m, u->k, i) : u->k;
		own = p->s->deep ? u->own : x_addi(m, u->own, i);
		bind(q, p, &map, own, 1, k);
		ok = x_and(m, in_depth(q, k), subst(m, p->ok, &map, false));
		e = x_bits(m, bits, subst(m, p->s->read, &map, false));
		map_free(&map);
		e = x_cast(m, DT_U32, x_select(m, ok, e, x_int(m, bits, 0)));
		if (i)
			e = x2(m, O_SHL, e, x_int(m, DT_U32, 8 * p->size * i));
		word = word ? x2(m, O_OR, word, e) : e;
	}
	return kb_emit(q->g.kb, r, word);
}

/* Brings the step's tile to the stage, or to registers where it is not copied asynchronously. */
static void
fetch(Mm *q, Part *p, Region *r, Node *stage)
{
	Module *m = q->g.m;
	Unit u = open_units(q, p);
	Node *zero = x_idx(m, 0), *addr, *ok, *buf = kb_buffer(q->g.kb, p->s->read->in[0], false), *at;
	Map map = {0};

	if (p->loose) {
		l_store(m, u.in, p->staged, 2, (Node *[]){u.j, zero}, packed(q, p, &u, u.in));
		close_units(q, p, r, &u);
		return;
	}
	bind(q, p, &map, u.own, u.align, u.k);
	ok = x_and(m, in_depth(q, u.k), subst(m, p->ok, &map, false));
	addr = subst(m, kb_address(q->g.kb, p->s->read->in[0], p->s->read->in + 1), &map, false);
	map_free(&map);
	addr = kb_emit(q->g.kb, u.in, addr);
	ok = is_intv(ok, 1) ? NULL : kb_emit(q->g.kb, u.in, ok);
	if (p->async) {
		at = shared_word(q, p, &u, stage);
		l_move(m, u.in, MOVE_ASYNC, p->unit, (Spot){q->memory, &at}, (Spot){buf, &addr}, ok);
	} else {
		l_move(m, u.in, MOVE_WORDS, p->unit, (Spot){p->staged, (Node *[]){u.j, zero}},
			(Spot){buf, &addr}, ok);
	}
	close_units(q, p, r, &u);
}

/* Empties the registers into the stage. */
static void
put(Mm *q, Part *p, Region *r, Node *stage)
{
	Module *m = q->g.m;
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

/* How an instruction's fragments make up a block. */
static void
choose_blocks(Mm *q)
{
	const Mma *x = q->x;
	int size = dtypes[x->type].bits / 8, bytes = size << layout_bits(x->a, true), lane;

	q->matrices = machine_has(q->g.kb->s->mach, "ldmatrix");
	q->a.tile = x->m, q->b.tile = x->n;
	q->a.layout = x->a, q->a.coord = 'r', q->b.layout = x->b, q->b.coord = 'c';
	if (q->matrices) {
		q->a.own = q->b.own = 16;
		q->lane_words = 4;
		q->block_bytes = 32;
		q->a.substep = 1, q->a.kstep = 2, q->b.substep = 2, q->b.kstep = 1;
		return;
	}
	for (lane = 1, q->lane_groups = 1; lane < q->g.kb->s->mach->warp; lane *= 2)
		if (layout_at(x->a, 'k', lane, 0))
			q->lane_groups *= 2;
	q->a.own = x->m, q->b.own = x->n;
	q->lane_words = bytes > 16 ? bytes / 4 : 4;
	q->block_bytes = q->lane_groups * q->lane_words * 4;
	q->a.kstep = q->b.kstep = bytes / 4;
}

/* Stored row and piece that the lane names for matrices of the block at own x piece. */
static void
matrix_rows(Mm *q, Part *p, Node *own, Node *piece, Node **row, Node **at)
{
	Module *m = q->g.m;
	Node *l8 = x_mod(m, q->lane, x_idx(m, 8)), *half = x_fdiv(m, q->lane, x_idx(m, 16)),
		*bit = x_mod(m, x_fdiv(m, q->lane, x_idx(m, 8)), x_idx(m, 2));
	Node *o = p == &q->a ? bit : half, *k = p == &q->a ? half : bit;

	if (p->s->deep) {
		*row = x_add(m, own, x_add(m, x_muli(m, o, 8), l8));
		*at = x_add(m, piece, k);
	} else {
		*row = x_add(m, x_muli(m, piece, 8), x_add(m, x_muli(m, k, 8), l8));
		*at = x_add(m, x_fdiv(m, own, x_idx(m, 8)), o);
	}
}

/* Reads the fragments of block i of the warp's, at depth block kb. */
static void
read_block(Mm *q, Part *p, Region *r, Node *stage, Node *i, Node *kb)
{
	Module *m = q->g.m;
	Node *own = x_add(m, p->first, x_muli(m, i, p->own)), *row, *piece, *at;
	Node *pieces = x_muli(m, kb, q->block_bytes / 16), *group;
	int w;

	if (q->matrices) {
		matrix_rows(q, p, own, pieces, &row, &piece);
		at = word_of(q, p, stage, row, piece);
		l_move(m, r, p->s->deep ? MOVE_MATRICES : MOVE_TRANSPOSED, 16,
			(Spot){p->fragment, (Node *[]){i, x_idx(m, 0)}}, (Spot){q->memory, &at}, NULL);
		return;
	}
	row = x_add(m, own, layout_node(m, p->layout, p->coord, q->lane, x_idx(m, 0)));
	group = x_mod(m, x_fdiv(m, q->lane, x_idx(m, p->own)), x_idx(m, q->lane_groups));
	for (w = 0; w < q->lane_words; w += 4) {
		piece = x_addi(m, x_add(m, pieces, x_muli(m, group, q->lane_words / 4)), w / 4);
		at = word_of(q, p, stage, row, piece);
		l_move(m, r, MOVE_WORDS, 16, (Spot){p->fragment, (Node *[]){i, x_idx(m, w)}},
			(Spot){q->memory, &at}, NULL);
	}
}

static void
round_block(Mm *q, Part *p, Region *r, Node *i)
{
	Module *m = q->g.m;
	Node *w = x_axis(m, x_idx(m, q->lane_words)), *idx[2] = {i, w}, *v;
	Region *in = region_new(m, NULL);

	v = x_bits(m, DT_F32, l_load(m, p->fragment, 2, idx));
	l_store(m, in, p->fragment, 2, idx, x_bits(m, DT_U32, x1(m, O_TF32, v)));
	l_for(m, r, F_UNROLL, w, in);
}

static void
read_blocks(Mm *q, Part *p, Region *r, Node *stage, Node *kb)
{
	Module *m = q->g.m;
	Node *i = x_axis(m, x_idx(m, p->span / p->own));
	Region *in = region_new(m, NULL);

	read_block(q, p, in, stage, i, kb);
	if (q->round)
		round_block(q, p, in, i);
	l_for(m, r, F_UNROLL, i, in);
}

/* Where the fragment of instruction i of the warp's begins, for part ks of the block. */
static void
fragment_at(Mm *q, const Part *p, Node *i, Node *ks, Node **idx)
{
	Module *m = q->g.m;
	Node *per = x_idx(m, p->own / p->tile);

	idx[0] = x_fdiv(m, i, per);
	idx[1] = x_add(m, x_muli(m, x_mod(m, i, per), p->substep), x_muli(m, ks, p->kstep));
}

static void
multiply(Mm *q, Region *r, Node *stage)
{
	Module *m = q->g.m;
	int size = dtypes[q->x->type].bits / 8;
	Node *kb = x_axis(m, x_idx(m, q->bk * size / q->block_bytes));
	Node *ks = x_axis(m, x_idx(m, q->block_bytes / (q->x->k * size)));
	Node *i = x_axis(m, x_idx(m, q->a.span / q->x->m)), *j = x_axis(m, x_idx(m, q->b.span / q->x->n));
	Region *rb = region_new(m, NULL), *rs = region_new(m, NULL), *ri = region_new(m, NULL),
		*rj = region_new(m, NULL);
	Node *fa[2], *fb[2];

	read_blocks(q, &q->a, rb, stage, kb);
	read_blocks(q, &q->b, rb, stage, kb);
	fragment_at(q, &q->a, i, ks, fa);
	fragment_at(q, &q->b, j, ks, fb);
	l_mma(m, rj, q->x->name, (Spot){q->acc, (Node *[]){i, j, x_idx(m, 0)}},
		(Spot){q->a.fragment, fa}, (Spot){q->b.fragment, fb});
	l_for(m, ri, F_UNROLL, j, rj);
	l_for(m, rs, F_UNROLL, i, ri);
	l_for(m, rb, F_UNROLL, ks, rs);
	l_for(m, r, F_UNROLL, kb, rb);
}

static void
clear(Mm *q, Region *r)
{
	Module *m = q->g.m;
	Node *i = x_axis(m, q->acc->in[0]), *j = x_axis(m, q->acc->in[1]), *e = x_axis(m, q->acc->in[2]);
	Region *ri = region_new(m, NULL), *rj = region_new(m, NULL), *re = region_new(m, NULL);

	l_store(m, re, q->acc, 3, (Node *[]){i, j, e}, x_int(m, q->acc->type->dtype, 0));
	l_for(m, rj, F_UNROLL, e, re);
	l_for(m, ri, F_UNROLL, j, rj);
	l_for(m, r, F_UNROLL, i, ri);
}

/* ---- the steps ------------------------------------------------------------------------------- */

/* Binds what the step number decides. */
static void
bind_step(Mm *q, Region *r, Node *step)
{
	Module *m = q->g.m;
	Contraction *c = &q->g.c;
	Node *rest = x_fdiv(m, step, q->per);
	int i;

	q->g.k0 = l_let(m, r, x_muli(m, q->g.flat || c->nred == 1 ? step : x_mod(m, step, q->per), q->bk));
	for (i = c->nred - 1; !q->g.flat && i-- > 0;) {
		map_put(&q->g.at, c->red[i], l_let(m, r, i ? x_mod(m, rest, c->red[i]->in[0]) : rest));
		rest = x_fdiv(m, rest, c->red[i]->in[0]);
	}
}

static void
fetch_both(Mm *q, Region *r, Node *step, Node *stage)
{
	bind_step(q, r, step);
	fetch(q, &q->a, r, stage);
	fetch(q, &q->b, r, stage);
}

static void
put_both(Mm *q, Region *r, Node *stage)
{
	put(q, &q->a, r, stage);
	put(q, &q->b, r, stage);
}

static void
sum_up(Mm *q, Region *r)
{
	Module *m = q->g.m;
	Node *step = x_axis(m, q->total), *ahead = x_addi(m, step, q->stages - 1), *more, *stage;
	Region *in = region_new(m, NULL), *then;
	bool async = q->a.async || q->b.async, staged = !q->a.async || !q->b.async;
	int i;

	for (i = 0; i < q->stages - 1; i++) {
		then = region_new(m, NULL);
		fetch_both(q, then, x_idx(m, i), x_idx(m, i));
		put_both(q, then, x_idx(m, i));
		where(m, r, x_lt(m, x_idx(m, i), q->total), then);
		if (async)
			l_commit(m, r);
	}
	if (async)
		l_wait(m, in, q->stages - 2);
	l_barrier(m, in);
	more = x_lt(m, ahead, q->total);
	stage = x_mod(m, ahead, x_idx(m, q->stages));
	then = region_new(m, NULL);
	fetch_both(q, then, ahead, stage);
	where(m, in, more, then);
	if (async)
		l_commit(m, in);
	multiply(q, in, x_mod(m, step, x_idx(m, q->stages)));
	then = region_new(m, NULL);
	put_both(q, then, stage);
	if (staged)
		where(m, in, more, then);
	l_for(m, r, F_SERIAL, step, in);
}

/* ---- storing --------------------------------------------------------------------------------- */

/* Elements beside each other in a lane's fragment of C. */
static int
acc_lanes(const Mma *x)
{
	return layout_at(x->c, 'c', 0, 1) == 1 ? 2 : 1;
}

/* How many lanes at most meet in a bank when a warp stores its elements into rows of so many words. */
static int
conflicts(const Mma *x, int words)
{
	int lanes = 32 / acc_lanes(x), hits[32] = {0}, l, w, most = 0;

	for (l = 0; l < lanes; l++)
		for (w = 0; w < acc_lanes(x); w++) {
			int bank = (layout_at(x->c, 'r', l, w) * words + layout_at(x->c, 'c', l, w)) % 32;
			if (++hits[bank] > most)
				most = hits[bank];
		}
	return most;
}

static int
row_words(const Mma *x, int columns)
{
	static const int pads[] = {0, 4, 8, 16};
	int i, best = 0;

	for (i = 1; i < 4; i++)
		if (conflicts(x, columns + pads[i]) < conflicts(x, columns + pads[best]))
			best = i;
	return columns + pads[best];
}

typedef struct Slice { Mm *q; Node *s; int tiles, words; } Slice;

/* The row of the block's tile that row y of the slice is. */
static Node *
slice_row(void *ctx, Node *y)
{
	Slice *x = ctx;
	Module *m = x->q->g.m;
	int t = x->q->x->m;
	Node *warp = x_fdiv(m, y, x_idx(m, x->tiles * t)), *in = x_mod(m, y, x_idx(m, x->tiles * t));

	in = x_add(m, in, x_muli(m, x->s, x->tiles * t));
	return x_add(m, x_muli(m, warp, x->q->a.span), in);
}

static Node *
slice_sum(void *ctx, Node *y, Node *x)
{
	Slice *s = ctx;
	Module *m = s->q->g.m;
	Node *at = x_add(m, x_muli(m, y, s->words), x);

	return x_bits(m, s->q->acc->type->dtype, l_load(m, s->q->memory, 1, &at));
}

/* The warp's part of the slice to shared memory. */
static void
spread(Mm *q, Region *r, Slice *s)
{
	Module *m = q->g.m;
	const Mma *x = q->x;
	int lanes = acc_lanes(x);
	Node *i = x_axis(m, x_idx(m, s->tiles)), *j = x_axis(m, q->acc->in[1]);
	Node *e = x_axis(m, x_idx(m, q->acc_elems / lanes)), *v = x_axis(m, x_idx(m, lanes)), *el, *y, *c, *at;
	Region *ri = region_new(m, NULL), *rj = region_new(m, NULL), *re = region_new(m, NULL), *rv;

	rv = lanes > 1 ? region_new(m, NULL) : re;
	el = x_muli(m, e, lanes);
	y = x_add(m, x_muli(m, x_add(m, x_muli(m, x_fdiv(m, q->warp, x_idx(m, q->wn)), s->tiles), i), x->m),
		layout_node(m, x->c, 'r', q->lane, el));
	c = x_add(m, x_add(m, q->b.first, x_muli(m, j, x->n)), layout_node(m, x->c, 'c', q->lane, el));
	at = x_add(m, x_muli(m, y, s->words), c);
	if (lanes > 1)
		at = x_add(m, at, v), el = x_add(m, el, v);
	l_store(m, rv, q->memory, 1, &at, x_bits(m, DT_U32, l_load(m, q->acc, 3,
		(Node *[]){x_add(m, x_muli(m, s->s, s->tiles), i), j, el})));
	if (lanes > 1)
		l_for(m, re, F_VECTOR, v, rv);
	l_for(m, rj, F_UNROLL, e, re);
	l_for(m, ri, F_UNROLL, j, rj);
	l_for(m, r, F_UNROLL, i, ri);
}

/* Instructions' rows of a warp in a slice, so that it fits the words; 0: not even one. */
static int
slice_tiles(const Mm *q, int words)
{
	int all = q->a.span / q->x->m, t;

	for (t = all; t > 0; t--)
		if (all % t == 0 && q->wm * t * q->x->m * row_words(q->x, q->b.s->width) <= words)
			return t;
	return 0;
}

static void
finish(Mm *q, Region *r, int tiles)
{
	Module *m = q->g.m;
	Slice s = {.q = q, .tiles = tiles, .words = row_words(q->x, q->b.s->width)};
	Region *in = region_new(m, NULL);

	s.s = x_axis(m, x_idx(m, q->a.span / q->x->m / tiles));
	l_barrier(m, in);
	spread(q, in, &s);
	l_barrier(m, in);
	gemm_write(&q->g, in, &(SumTile){.slow = q->a.s, .fast = q->b.s,
		.rows = q->wm * tiles * q->x->m, .row = slice_row, .sum = slice_sum, .ctx = &s});
	l_for(m, r, F_UNROLL, s.s, in);
}

/* ---- choosing -------------------------------------------------------------------------------- */

static int
stage_bytes(const Mm *q, int m, int n, int bk)
{
	return (m + n) * bk * dtypes[q->x->type].bits / 8;
}

/* May the tile be taken: are its parts whole blocks, do accumulators fit the registers? */
static bool
fits(const Mm *q, int i)
{
	int warp = q->g.kb->s->mach->warp, sm = shapes[i].m / shapes[i].wm, sn = shapes[i].n / shapes[i].wn;
	int warps = shapes[i].wm * shapes[i].wn;

	return sm % q->a.own == 0 && sn % q->b.own == 0 && sm * sn / warp <= MAX_ACC
		&& warps * warp <= MAX_THREADS && shapes[i].n * 4 % 16 == 0;
}

/*
 * Clocks that the product takes with the tile (GPU.md 4.2 in short): rounds of blocks, each as many
 * steps as the depth has, a step as long as its slowest part.
 */
static double
predicted(const Mm *q, int i, double m, double n, double batch, double steps, int stages)
{
	const Machine *mach = q->g.kb->s->mach;
	int size = dtypes[q->x->type].bits / 8, warps = shapes[i].wm * shapes[i].wn;
	double bm = shapes[i].m, bn = shapes[i].n, clk = mach->fp16_clk * 2.0 / size;
	double resident = (double)mach->smem_unit / (stage_bytes(q, shapes[i].m, shapes[i].n, q->bk) * stages);
	double warps_unit = (double)mach->threads_unit / mach->warp;
	double blocks, per, mma, smem, l2, step;

	resident = resident > warps_unit / warps ? warps_unit / warps : resident;
	resident = resident < 1 ? 1 : resident > 4 ? 4 : (double)(int)resident;
	blocks = batch * (double)(int64_t)((m + bm - 1) / bm) * (double)(int64_t)((n + bn - 1) / bn);
	per = blocks / mach->units < resident ? (double)(int64_t)(blocks / mach->units + 0.999) : resident;
	per = per < 1 ? 1 : per;
	mma = per * 2 * bm * bn * q->bk / (0.88 * clk);
	smem = per * (warps * (bm / shapes[i].wm + bn / shapes[i].wn) + bm + bn) * q->bk * size / 128;
	l2 = per * (bm + bn) * q->bk * size / 48;
	step = mma > smem ? mma : smem;
	step = step > l2 ? step : l2;
	step = step > 700.0 / (stages - 1) ? step : 700.0 / (stages - 1);
	return (double)(int64_t)(blocks / (mach->units * per) + 0.999)
		* (1500 + steps * step + per * bm * bn * 4 / 64);
}

static int
choose_tile(Mm *q, double depth)
{
	double m = gemm_extent(q->g.m, q->a.s->n, q->a.s->axes), n = gemm_extent(q->g.m, q->b.s->n, q->b.s->axes);
	double batch = gemm_extent(q->g.m, q->g.nbatch, q->g.batch), best = -1, t;
	int i, found = -1;

	for (i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++) {
		if (!fits(q, i) || stage_bytes(q, shapes[i].m, shapes[i].n, q->bk) * q->stages
			> q->g.kb->s->mach->smem_block)
			continue;
		t = predicted(q, i, m, n, batch, depth / q->bk + 1, q->stages);
		if (best < 0 || t < best)
			best = t, found = i;
	}
	return found;
}

/* Bytes of depth that a step takes: a row of 64 or 128, whole blocks, less where the depth is less. */
static int
step_bytes(const Mm *q, double depth, int size)
{
	int bytes = q->matrices ? 64 : 128;

	while (bytes > q->block_bytes && bytes / 2 >= depth * size)
		bytes /= 2;
	return bytes < q->block_bytes ? q->block_bytes : bytes;
}

static void
take_tile(Mm *q, int i)
{
	q->a.s->width = shapes[i].m, q->b.s->width = shapes[i].n;
	q->wm = shapes[i].wm, q->wn = shapes[i].wn;
	q->warps = q->wm * q->wn;
	q->g.threads = q->warps * q->g.kb->s->mach->warp;
	q->a.span = shapes[i].m / q->wm, q->b.span = shapes[i].n / q->wn;
	q->acc_elems = 1 << layout_bits(q->x->c, true);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static void
allocate(Mm *q, Part *p, const char *name, const char *staged)
{
	Module *m = q->g.m;

	p->fragment = l_alloc(m, q->g.f.thread, l_buffer(m, name, DT_U32, SP_REG, 2,
		(Node *[]){x_idx(m, p->span / p->own), x_idx(m, q->lane_words)}));
	if (!p->async)
		p->staged = l_alloc(m, q->g.f.thread, l_buffer(m, staged, DT_U32, SP_REG, 2,
			(Node *[]){x_idx(m, p->count), x_idx(m, p->unit / 4)}));
}

/* Block number bid's tiles: GROUP rows of tiles are walked column by column, so that blocks that run
 * together read the same of both factors. */
static void
locate(Mm *q, Node *nm, Node *nn)
{
	Gemm *g = &q->g;
	Module *m = g->m;
	Node *tiles = x_mul(m, nm, nn), *t = g->nbatch ? x_mod(m, g->f.bid, tiles) : g->f.bid;
	Node *per = x_muli(m, nn, GROUP), *first = x_muli(m, x_fdiv(m, t, per), GROUP), *high;
	int i;

	high = x_min(m, x_sub(m, nm, first), x_idx(m, GROUP));
	t = x_mod(m, t, per);
	q->a.s->block = l_let(m, g->f.thread, x_add(m, first, x_mod(m, t, high)));
	q->b.s->block = l_let(m, g->f.thread, x_fdiv(m, t, high));
	digits(m, &g->at, g->nbatch, g->batch, x_fdiv(m, g->f.bid, tiles));
	for (i = 0; i < g->nbatch; i++)
		map_put(&g->at, g->batch[i], l_let(m, g->f.thread, map_get(&g->at, g->batch[i])));
	q->lane = l_let(m, g->f.thread, x_mod(m, g->f.tid, x_idx(m, g->kb->s->mach->warp)));
	q->warp = l_let(m, g->f.thread, x_fdiv(m, g->f.tid, x_idx(m, g->kb->s->mach->warp)));
	q->a.first = l_let(m, g->f.thread,
		x_muli(m, x_fdiv(m, q->warp, x_idx(m, q->wn)), q->a.span));
	q->b.first = l_let(m, g->f.thread,
		x_muli(m, x_mod(m, q->warp, x_idx(m, q->wn)), q->b.span));
}

static const char *
described(const Mm *q)
{
	const Part *a = &q->a, *b = &q->b;

	return arena_printf(q->g.m->arena, "class=contract, mma=%s, block=[%d,%d,%d], warps=[%d,%d], "
		"stages=%d, units=[%d%s,%d%s]", q->x->name, a->s->width, b->s->width, q->bk, q->wm, q->wn,
		q->stages, a->loose ? a->size : a->unit, a->async ? " async" : "",
		b->loose ? b->size : b->unit, b->async ? " async" : "");
}

static Kernel *
emit(Mm *q, double depth)
{
	Gemm *g = &q->g;
	Module *m = g->m;
	Node *nm = x_ceildiv(m, q->a.s->extent, x_idx(m, q->a.s->width));
	Node *nn = x_ceildiv(m, q->b.s->extent, x_idx(m, q->b.s->width)), *words, *ext[3];
	int total, tiles, least;

	g->f = gpu_frame(g->kb, x_mul(m, x_mul(m, nm, nn), axes_product(m, g->nbatch, g->batch)), g->threads);
	lay_out(q, &q->a);
	lay_out(q, &q->b);
	q->b.base = q->a.words;
	total = (q->a.words + q->b.words) * q->stages;
	least = q->wm * q->x->m * row_words(q->x, q->b.s->width);
	words = x_idx(m, total = total > least ? total : least);
	tiles = slice_tiles(q, total);
	q->memory = gpu_shared(g->kb, &g->f, "tiles", DT_U32, 1, &words);
	locate(q, nm, nn);
	ext[0] = x_idx(m, q->a.span / q->x->m), ext[1] = x_idx(m, q->b.span / q->x->n);
	ext[2] = x_idx(m, q->acc_elems);
	q->acc = l_alloc(m, g->f.thread, l_buffer(m, "acc", q->x->acc, SP_REG, 3, ext));
	allocate(q, &q->a, "fa", "ra");
	allocate(q, &q->b, "fb", "rb");
	clear(q, g->f.thread);
	sum_up(q, g->f.thread);
	finish(q, g->f.thread, tiles);
	g->kb->k->flops = 2.0 * q->a.s->width * q->b.s->width * depth;
	map_free(&g->at);
	return gpu_close(g->kb, &g->f, described(q));
}

Kernel *
mma_gpu(Gemm *gemm)
{
	Mm q = {.g = *gemm, .stages = 2};
	Gemm *g = &q.g;
	Module *m = g->m;
	double depth = gemm_extent(m, g->c.nred, g->c.red);
	Node *last = g->c.red[g->c.nred - 1]->in[0], *outer;
	int tile, size;
	int64_t c;

	q.a.s = g->rows_last ? &g->b : &g->a;
	q.b.s = g->rows_last ? &g->a : &g->b;
	if (!usable(&q, depth))
		return NULL;
	size = dtypes[q.x->type].bits / 8;
	choose_blocks(&q);
	q.bk = step_bytes(&q, depth, size) / size;
	g->flat = g->c.nred > 1 && is_int(last, &c) && c % q.bk && c < 4 * q.bk;
	g->depth = g->flat ? axes_product(m, g->c.nred, g->c.red) : last;
	choose_storage(&q, &q.a);
	choose_storage(&q, &q.b);
	if (q.a.async || q.b.async)
		q.stages = 4;
	if ((tile = choose_tile(&q, depth)) < 0)
		return NULL;
	take_tile(&q, tile);
	q.per = x_ceildiv(m, g->depth, x_idx(m, q.bk));
	outer = g->flat ? x_idx(m, 1) : axes_product(m, g->c.nred - 1, g->c.red);
	q.total = x_mul(m, outer, q.per);
	return emit(&q, depth);
}
