/*
 * GPU schedule of the class contract by instructions of warp groups (Hopper's wgmma): what gpu_mma.c does, but
 * both factors' tiles are copied by the hardware as boxes of a tensor (TMA), and multiplied from shared memory
 * as they lie there.
 *
 * One group of four warps only copies: a thread of it walks over the block's tiles and their steps, waits
 * until a stage is empty, and has both boxes of the step brought there. The other groups wait until they
 * have landed, multiply, and let go of the stage before. What comes from one to the other are phases of two
 * barriers a stage: full (bytes have landed) and empty (each warp has let go).
 *
 * There are as many blocks as units hold; a block takes one tile after another, so that the copies for the
 * next one run while sums are stored. Each group stores its own 64 rows, some columns at a time, by way of
 * shared memory.
 *
 * A factor can be copied if it is a plain read whose address is linear in its axes: then these are the
 * tensor's dimensions, and what lies past the end of one is 0, which is right for the depth and never stored
 * for the rest. A convolution's input, where several axes of the result are its rows, is gathered pixel by
 * pixel (im2col): its padding is what lies outside. Distances must be multiples of 16 bytes; where only the
 * sizes of a run tell, the kernel says so in `fits`, and the plan takes gpu_mma.c's otherwise.
 *
 * A stored row is 32, 64 or 128 bytes, pieces of 16 swizzled within 8 rows (Part of gpu_part.c is not used: the
 * hardware's layout is one that wgmma reads).
 */
#include <stdlib.h>
#include <string.h>
#include "gpu_box.h"
#include "gpu_mma.h"

enum { WARPS = 4, GROUP = 128, ROWS = 64, ALIGN = 1024, COPIER_REGS = 40, GROUP_REGS = 232, BANDS = 64 };

/* A factor's tile. */
typedef struct Boxes {
	Part *p;
	TensorMap map;
	Node *at[MAP_RANK + 3];        /* a box's place, once blocks and steps are known */
	Node *axis[MAP_RANK];          /* of each dimension; of a gathering map the result's, or NULL */
	Node *tap[MAP_RANK];           /* the summed axis that moves a pixel, and by how much */
	int dilation[MAP_RANK];
	int row, next;         /* bytes of a stored row; from a box to the next; 0: one is all */
	int boxes;
	int base;              /* words, within a stage */
} Boxes;

typedef struct Wg {
	Mm q;
	Boxes a, b;
	Node *fits;
	Node *grid, *tiles, *nm, *nn;
	Node *bars, *sums;
	Node *group, *in_group;        /* of the thread: which one, and its number there */
	int slice;                     /* columns that are stored at a time */
} Wg;

/* ---- what can be copied ---------------------------------------------------------------------- */

/* The condition is one of the kernel's; false: it never holds. */
static bool
demand(Wg *w, Node *cond)
{
	return box_demand(w->q.g.m, &w->fits, cond);
}

static bool
demand_sixteen(Wg *w, Node *elements, int size)
{
	return box_sixteen(w->q.g.m, &w->fits, elements, size);
}

/* A further dimension; stride in elements. */
static bool
add_dim(Wg *w, Boxes *b, Node *extent, Node *stride, int box)
{
	return box_dim(w->q.g.m, &w->fits, &b->map, b->p->size, extent, stride, box);
}

/* The factor of the axis in the address, free of other axes; NULL: it is not of that form. */
static Node *
factor_of(Wg *w, Node **addr, Node *axis)
{
	Node *coef, *rest;

	if (!linear_in(w->q.g.m, *addr, axis, &coef, &rest) || !box_host_value(coef))
		return NULL;
	*addr = rest;
	return coef;
}

static bool
add_axis(Wg *w, Boxes *b, Node *axis, Node *coef, int box)
{
	if (!coef)
		return false;
	if (is_intv(coef, 0))
		return true;
	b->axis[b->map.rank] = axis;
	return add_dim(w, b, axis->in[0], coef, box);
}

/* As a tensor whose dimensions are the axes. */
static bool
tiled(Wg *w, Boxes *b)
{
	Mm *q = &w->q;
	Part *p = b->p;
	Side *s = p->s;
	Node *const *red = q->g.c.red, *own, *deep = red[q->g.c.nred - 1], *co, *cd;
	Node *addr = kb_address(q->g.kb, s->read->in[0], s->read->in + 1);
	int i, size = p->size;
	bool ok;

	if (!is_intv(p->ok, 1) || s->n != 1)
		return false;
	own = s->axes[0];
	co = factor_of(w, &addr, own), cd = co ? factor_of(w, &addr, deep) : NULL;
	if (!cd || is_intv(co, 0) || is_intv(cd, 0))
		return false;
	s->deep = is_intv(cd, 1);
	if (!s->deep && (!is_intv(co, 1) || size != 2))
		return false;
	ok = s->deep ? add_axis(w, b, deep, cd, q->bk) && add_axis(w, b, own, co, 0)
		: add_axis(w, b, own, co, 0) && add_axis(w, b, deep, cd, q->bk);
	for (i = q->g.c.nred - 2; ok && i >= 0; i--)
		ok = add_axis(w, b, red[i], factor_of(w, &addr, red[i]), 1);
	for (i = 0; ok && i < q->g.nbatch; i++)
		ok = add_axis(w, b, q->g.batch[i], factor_of(w, &addr, q->g.batch[i]), 1);
	b->map.offset = addr;
	return ok && box_host_value(addr) && demand_sixteen(w, addr, size);
}

/* ---- pixels ---------------------------------------------------------------------------------- */

/* Is the guard nothing but that the read's indices are within the tensor? */
static bool
within(Module *m, Node *ok, Node *t, Node *const *idx)
{
	Node *slack;
	int d;

	if (is_intv(ok, 1))
		return true;
	if (ok->code == O_AND)
		return within(m, ok->in[0], t, idx) && within(m, ok->in[1], t, idx);
	if (ok->code != O_LT && ok->code != O_LE)
		return false;
	slack = x_addi(m, x_sub(m, ok->in[1], ok->in[0]), ok->code == O_LT ? -1 : 0);
	for (d = 0; d < rank_of(t); d++)
		if (prove_eq(m, slack, x_cast(m, DT_INDEX, idx[d]))
		 || prove_eq(m, slack, x_addi(m, x_sub(m, dim_of(t, d), x_cast(m, DT_INDEX, idx[d])), -1)))
			return true;
	return false;
}

/* Takes the axes of the list apart from the index: the one that it moves along (*axis, *by), if one only does. */
static bool
moves(Module *m, Node **idx, int n, Node *const *axes, Node **axis, int64_t *by)
{
	Node *coef, *rest;
	int i;

	*axis = NULL, *by = 0;
	for (i = 0; i < n; i++) {
		if (!contains(*idx, axes[i]))
			continue;
		if (*axis || !linear_in(m, *idx, axes[i], &coef, &rest) || !is_int(coef, by) || *by < 1)
			return false;
		*axis = axes[i], *idx = rest;
	}
	return true;
}

/* Dimension d of the input between channels and pictures: idx = own * step + tap * dilation + lower. */
static bool
add_side(Wg *w, Boxes *b, Node *dim, Node *stride, Node *idx, Node *own)
{
	Module *m = w->q.g.m;
	Mm *q = &w->q;
	TensorMap *t = &b->map;
	int k = t->rank - 1;
	Node *axis, *tap;
	int64_t step, dilation, taps = 1;

	if (!moves(m, &idx, 1, &own, &axis, &step) || !axis || step > 8
	 || !moves(m, &idx, q->g.c.nred - 1, q->g.c.red, &tap, &dilation) || !box_host_value(idx)
	 || (tap && !is_int(tap->in[0], &taps)) || (taps - 1) * dilation > 15)
		return false;
	if (!add_dim(w, b, dim, stride, 1))
		return false;
	t->step[k + 1] = (int)step;
	t->lower[k] = idx;
	t->upper[k] = x_addi(m, x_sub(m, x_add(m, idx, x_muli(m, x_addi(m, own->in[0], -1), step)), dim), 1);
	b->axis[k + 1] = own, b->tap[k + 1] = tap, b->dilation[k + 1] = (int)dilation;
	return demand(w, x_le(m, x_idx(m, -16), t->lower[k])) && demand(w, x_lt(m, t->lower[k], x_idx(m, 16)))
		&& demand(w, x_le(m, x_idx(m, -16), t->upper[k])) && demand(w, x_lt(m, t->upper[k], x_idx(m, 16)));
}

static int
taps_of(const Boxes *b)
{
	int i, n = 0;

	for (i = 0; i < b->map.rank; i++)
		n += b->tap[i] != NULL;
	return n;
}

/* As pixels of a tensor [pictures][...][channels]. */
static bool
gathered(Wg *w, Boxes *b)
{
	Mm *q = &w->q;
	Module *m = q->g.m;
	Part *p = b->p;
	Side *s = p->s;
	Node *t = s->read->in[0], *const *idx = s->read->in + 1, *deep = q->g.c.red[q->g.c.nred - 1], *zeros[MAX_RANK];
	Storage *st = storage_of(q->g.kb->s, t);
	int rank = rank_of(t), d, i, own = s->n - 1, channels = st->order[rank - 1];
	Node *c = x_cast(m, DT_INDEX, idx[channels]);

	if (st->block || st->halo || st->of || !within(m, p->ok, t, idx) || !prove_eq(m, c, deep)
	 || !is_intv(st->stride[channels], 1) || !add_dim(w, b, deep->in[0], st->stride[channels], q->bk))
		return false;
	for (i = rank - 2; i >= 0; i--) {
		d = st->order[i], c = x_cast(m, DT_INDEX, idx[d]);
		if (is_intv(dim_of(t, d), 1) && is_intv(c, 0))
			continue;
		if (own < 0)
			return false;
		if (i == 0 && own == 0 && prove_eq(m, c, s->axes[0]) && b->map.rank > 1) {
			b->axis[b->map.rank] = s->axes[0];
			if (!add_dim(w, b, dim_of(t, d), st->stride[d], 1))
				return false;
			own--;
			continue;
		}
		if (b->map.rank == MAP_RANK - 1 || !add_side(w, b, dim_of(t, d), st->stride[d], c, s->axes[own]))
			return false;
		own--;
	}
	if (own >= 0 || b->map.rank < 2 || taps_of(b) != q->g.c.nred - 1)
		return false;
	i = b->map.rank - 1;
	if (b->map.step[i] > 1 || b->tap[i] || b->map.lower[i - 1] || b->map.rank == 2)   /* one picture */
		if (!add_dim(w, b, x_idx(m, 1), x_mul(m, b->map.stride[i], b->map.dim[i]), 1))
			return false;
	for (d = 0; d < rank; d++)
		zeros[d] = x_idx(m, 0);
	b->map.offset = kb_address(q->g.kb, t, zeros);
	b->map.gathers = s->deep = true;
	return is_intv(b->map.offset, 0) && b->map.rank > 2;
}

/* As pixels of a tensor whose dimensions are the depth and the result's axes, where these lie any way apart. */
static bool
strided(Wg *w, Boxes *b)
{
	Mm *q = &w->q;
	Module *m = q->g.m;
	Side *s = b->p->s;
	Node *deep = q->g.c.red[0], *coef, *addr = kb_address(q->g.kb, s->read->in[0], s->read->in + 1);
	int i;

	if (!is_intv(b->p->ok, 1) || s->n < 2 || q->g.c.nred > 1 || q->g.nbatch
	 || !(coef = factor_of(w, &addr, deep)) || !is_intv(coef, 1) || !add_dim(w, b, deep->in[0], coef, q->bk))
		return false;
	for (i = s->n - 1; i >= 0; i--)
		if (!(coef = factor_of(w, &addr, s->axes[i])) || is_intv(coef, 0) || !add_axis(w, b, s->axes[i], coef, 1))
			return false;
	for (i = 0; i < b->map.rank - 2; i++)
		b->map.lower[i] = b->map.upper[i] = x_idx(m, 0);
	b->map.offset = addr;
	b->map.gathers = s->deep = true;
	return box_host_value(addr) && demand_sixteen(w, addr, b->p->size);
}

static bool
boxed(Wg *w, Boxes *b, Part *p)
{
	static bool (*const forms[])(Wg *, Boxes *) = {tiled, strided, gathered};
	Node *fits = w->fits;
	size_t i;

	for (i = 0; i < sizeof forms / sizeof *forms; i++) {
		*b = (Boxes){.p = p};
		w->fits = fits;
		if (forms[i](w, b))
			return true;
	}
	return false;
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* Elements of the depth a step takes: rows of 128 bytes, less where they would hold too much that is none. */
static int
step_depth(const Mm *q, int size)
{
	int64_t last = likely_extent(q->g.m, q->g.c.red[q->g.c.nred - 1]->in[0]);
	int bk = 128 / size;

	while (bk > q->x->k && (last + bk - 1) / bk * bk * 8 > last * 9)
		bk /= 2;
	return (last + bk - 1) / bk * bk * 3 > last * 4 ? 0 : bk;
}

/* What the tile's width makes of the boxes. */
static void
lay_out(Wg *w, Boxes *b, const char *name)
{
	Module *m = w->q.g.m;
	Part *p = b->p;
	int width = p->s->width, bk = w->q.bk, own = width * p->size < 128 ? width : 128 / p->size, i, n;
	Node *ext[MAP_RANK + 3];

	b->row = (p->s->deep ? bk : own) * p->size;
	b->boxes = p->s->deep ? 1 : width / own;
	b->next = p->s->deep ? 0 : bk * b->row;
	b->map.box[p->s->deep ? 1 : 0] = p->s->deep ? width : own;
	b->map.swizzle = b->row;
	p->words = (width * bk * p->size + ALIGN - 1) / ALIGN * ALIGN / 4;
	for (n = 0; n < b->map.rank; n++)
		ext[n] = b->map.dim[n];
	for (i = 1; b->map.gathers && i < b->map.rank - 1; i++)
		ext[n++] = b->tap[i] ? x_addi(m, x_muli(m, x_addi(m, b->tap[i]->in[0], -1), b->dilation[i]), 1)
			: x_idx(m, 1);
	b->map.view = l_buffer(m, name, dtype_of(p->s->read->in[0]), SP_MAP, n, ext);
}

/* Where the boxes begin, in the copier's statements. */
static void
place_boxes(Wg *w, Region *r, Boxes *b)
{
	Module *m = w->q.g.m;
	Side *s = b->p->s;
	const TensorMap *t = &b->map;
	Node *first = x_muli(m, s->block, s->width), *own = s->axes[0];
	Map map = {0};
	int i, n = t->rank;

	if (t->gathers)
		digits(m, &map, s->n, s->axes, first);
	for (i = 0; i < t->rank; i++) {
		if (!b->axis[i])
			b->at[i] = i == 0 && t->gathers ? b->p->k0 : x_idx(m, 0);
		else if (t->gathers)
			b->at[i] = l_let(m, r, x_add(m, x_muli(m, map_get(&map, b->axis[i]), t->step[i]),
				i < t->rank - 1 ? t->lower[i - 1] : x_idx(m, 0)));
		else
			b->at[i] = b->axis[i] == own ? first : NULL;
	}
	for (i = 1; t->gathers && i < t->rank - 1; i++)
		b->at[n++] = NULL;
	map_free(&map);
}

/* The summed axes' and batches' part of a place, once the step is known. */
static Node *
value_of(Wg *w, const Boxes *b, Node *axis)
{
	const Contraction *c = &w->q.g.c;

	return axis == c->red[c->nred - 1] ? b->p->k0 : map_get(&w->q.g.at, axis);
}

/* Has the boxes of the step brought to the stage. */
static void
copy(Wg *w, Region *r, const Boxes *b, Node *stage, Node *full)
{
	Module *m = w->q.g.m;
	const TensorMap *t = &b->map;
	Node *at[MAP_RANK + 3], *word;
	int i, k, n;

	for (i = 0; i < t->rank; i++)
		at[i] = i == 0 && t->gathers ? b->p->k0 : b->at[i] ? b->at[i] : value_of(w, b, b->axis[i]);
	for (n = t->rank, i = 1; t->gathers && i < t->rank - 1; i++)
		at[n++] = b->tap[i] ? x_muli(m, value_of(w, b, b->tap[i]), b->dilation[i]) : x_idx(m, 0);
	for (k = 0; k < b->boxes; k++) {
		Node *here[MAP_RANK + 3];

		memcpy(here, at, sizeof here);
		if (k)
			here[0] = x_addi(m, at[0], k * b->row / b->p->size);
		word = x_addi(m, x_muli(m, stage, w->q.t.stage_words), b->base + k * b->next / 4);
		l_move_box(m, r, b->boxes > 1 ? b->next : b->p->s->width * w->q.bk * b->p->size,
			(Spot){w->q.t.memory, &word}, (Spot){t->view, here}, (Spot){w->bars, &full});
	}
}

/* ---- the copier's and the groups' statements -------------------------------------------------- */

static Node *
full(Wg *w, Node *stage)
{
	(void)w;
	return stage;
}

static Node *
empty(Wg *w, Node *stage)
{
	return x_addi(w->q.g.m, stage, w->q.stages);
}

static Node *
one(Wg *w, int64_t n)
{
	return x_idx(w->q.g.m, n);
}

/* A loop over the block's tiles: each one's number *i, and the place of its first step among all. */
static Region *
open_tiles(Wg *w, Node **i)
{
	Module *m = w->q.g.m;
	Region *in = region_new(m, NULL);

	*i = w->grid == w->tiles ? x_idx(m, 0)
		: x_axis(m, x_ceildiv(m, x_sub(m, w->tiles, w->q.g.f.bid), w->grid));
	mm_locate(&w->q, in, x_add(m, w->q.g.f.bid, x_mul(m, *i, w->grid)), w->nm, w->nn);
	return in;
}

static void
close_tiles(Wg *w, Region *r, Region *in, Node *i)
{
	int k;

	if (i->code == O_AXIS)
		l_for(w->q.g.m, r, F_SERIAL, i, in);
	for (k = 0; i->code != O_AXIS && k < in->nresults; k++)
		region_add(w->q.g.m, r, in->results[k]);
}

/* Stage and parity of step number `step` of the block's tile i. */
static Node *
stage_of(Wg *w, Region *r, Node *i, Node *step, Node **parity)
{
	Module *m = w->q.g.m;
	Node *n = l_let(m, r, x_add(m, x_mul(m, i, w->q.total), step));

	return box_stage(m, r, n, w->q.stages, parity);
}

static void
copier(Wg *w, Region *r)
{
	Mm *q = &w->q;
	Module *m = q->g.m;
	Node *i, *step = x_axis(m, q->total), *parity, *stage;
	Region *then = region_new(m, NULL), *in, *rs = region_new(m, NULL);
	int bytes = (q->a.s->width + q->b.s->width) * q->bk * q->a.size;

	in = open_tiles(w, &i);
	place_boxes(w, in, &w->a);
	place_boxes(w, in, &w->b);
	stage = stage_of(w, rs, i, step, &parity);
	box_phase(m, rs, w->bars, "phase_wait", empty(w, stage), x_sub(m, x_idx(m, 1), parity));
	mm_bind_step(q, rs, step);
	box_phase(m, rs, w->bars, "phase_expect", full(w, stage), x_idx(m, bytes));
	copy(w, rs, &w->a, stage, full(w, stage));
	copy(w, rs, &w->b, stage, full(w, stage));
	l_for(m, in, F_SERIAL, step, rs);
	close_tiles(w, then, in, i);
	l_when(m, r, x_eq(m, q->g.f.tid, x_idx(m, 0)), then, NULL);
}

/* Words from a tile's first to where rows begin (own, elements) and depth `deep` of a step. */
static Node *
tile_word(Wg *w, const Boxes *b, Node *stage, Node *own, Node *deep)
{
	Module *m = w->q.g.m;
	int span = b->row / b->p->size;
	Node *at = x_addi(m, x_muli(m, stage, w->q.t.stage_words), b->base);

	if (b->p->s->deep)
		return x_add(m, x_add(m, at, x_muli(m, own, b->row / 4)), x_muli(m, deep, b->p->size * w->q.x->k / 4));
	at = x_add(m, at, x_muli(m, x_fdiv(m, own, x_idx(m, span)), b->next / 4));
	return x_add(m, at, x_muli(m, deep, w->q.x->k * b->row / 4));
}

static void
multiply(Wg *w, Region *r, Node *stage)
{
	Mm *q = &w->q;
	Module *m = q->g.m;
	Node *k = x_axis(m, x_idx(m, q->bk / q->x->k)), *i = x_axis(m, q->acc->in[0]), *zero = x_idx(m, 0);
	Node *own = x_add(m, x_muli(m, w->group, q->a.span), x_muli(m, i, ROWS));
	Region *rk = region_new(m, NULL), *ri = region_new(m, NULL);
	Node *wa = tile_word(w, &w->a, stage, own, k), *wb = tile_word(w, &w->b, stage, zero, k);

	l_mma_group(m, ri, q->x->name, q->b.s->width, (Spot){q->acc, (Node *[]){i, zero, zero}},
		(Spot){q->t.memory, &wa}, (Stored){w->a.row, w->a.next},
		(Spot){q->t.memory, &wb}, (Stored){w->b.row, w->b.next});
	l_for(m, rk, F_UNROLL, i, ri);
	l_for(m, r, F_UNROLL, k, rk);
}

/* A warp lets go of the stage. */
static void
release(Wg *w, Region *r, Node *stage)
{
	Module *m = w->q.g.m;
	Region *then = region_new(m, NULL);

	box_phase(m, then, w->bars, "phase_arrive", empty(w, stage), NULL);
	l_when(m, r, x_eq(m, w->q.t.lane, x_idx(m, 0)), then, NULL);
}

/* What was done to the sums stands before what follows: the compiler does not know that products run on. */
static void
keep(Wg *w, Region *r)
{
	Mm *q = &w->q;
	Module *m = q->g.m;
	Node *zero = x_idx(m, 0), *first[3] = {zero, zero, zero};
	Node *count = x_idx(m, q->a.span / ROWS * q->b.s->width / 2);

	l_sync(m, r, "mma_keep", (Spot){q->acc, first}, 1, &count);
}

/* One step is under way while the next one's tiles are waited for. */
static void
sum_up(Wg *w, Region *r, Node *i)
{
	Mm *q = &w->q;
	Module *m = q->g.m;
	Node *step = x_axis(m, q->total), *parity, *stage, *zero = x_idx(m, 0);
	Region *in = region_new(m, NULL), *then = region_new(m, NULL);

	stage = stage_of(w, in, i, step, &parity);
	box_phase(m, in, w->bars, "phase_wait", full(w, stage), parity);
	box_order(m, in, "mma_fence", 0, NULL);
	multiply(w, in, stage);
	box_order(m, in, "mma_commit", 0, NULL);
	box_order(m, in, "mma_wait", 1, (Node *[]){one(w, 1)});
	release(w, then, stage_of(w, then, i, x_addi(m, step, -1), NULL));
	l_when(m, in, x_lt(m, zero, step), then, NULL);
	l_for(m, r, F_SERIAL, step, in);
	box_order(m, r, "mma_wait", 1, &zero);
	keep(w, r);
	then = region_new(m, NULL);
	release(w, then, stage_of(w, then, i, x_addi(m, q->total, -1), NULL));
	l_when(m, r, x_lt(m, zero, q->total), then, NULL);
}

/* ---- storing --------------------------------------------------------------------------------- */

typedef struct Slice { Wg *w; Node *i; int words; } Slice;

static Node *
slice_row(void *ctx, Node *y)
{
	Slice *s = ctx;
	Module *m = s->w->q.g.m;

	return x_add(m, x_add(m, x_muli(m, s->w->group, s->w->q.a.span), x_muli(m, s->i, ROWS)), y);
}

static Node *
slice_sum(void *ctx, Node *y, Node *x)
{
	Slice *s = ctx;
	Wg *w = s->w;
	Module *m = w->q.g.m;
	Node *at = x_add(m, x_muli(m, w->group, ROWS * s->words), x_add(m, x_muli(m, y, s->words), x));

	return x_bits(m, w->q.acc->type->dtype, l_load(m, w->sums, 1, &at));
}

/* All threads of the group have come. */
static void
meet(Wg *w, Region *r)
{
	box_order(w->q.g.m, r, "part_barrier", 2, (Node *[]){x_addi(w->q.g.m, w->group, 1), x_idx(w->q.g.m, GROUP)});
}

static void
store(Wg *w, Region *r)
{
	Mm *q = &w->q;
	Module *m = q->g.m;
	Gemm part = q->g;
	Node *i = x_axis(m, q->acc->in[0]), *c = x_axis(m, x_idx(m, q->b.s->width / w->slice));
	Slice s = {w, i, mm_row_words(q->x, w->slice)};
	Region *rc = region_new(m, NULL), *ri = region_new(m, NULL);
	Node *warp = x_fdiv(m, w->in_group, x_idx(m, q->g.kb->s->mach->warp));

	part.f.tid = w->in_group;
	part.threads = GROUP;
	meet(w, rc);
	mm_spread(q, rc, &(Spread){.memory = w->sums, .i0 = i, .j0 = x_muli(m, c, w->slice / q->x->n),
		.row = x_add(m, x_muli(m, w->group, ROWS), x_muli(m, warp, ROWS / WARPS)), .column = x_idx(m, 0),
		.ni = 1, .nj = w->slice / q->x->n, .step = 0, .words = s.words});
	meet(w, rc);
	gemm_write(&part, rc, &(SumTile){.slow = q->a.s, .fast = q->b.s, .rows = ROWS, .columns = w->slice,
		.column = x_muli(m, c, w->slice), .row = slice_row, .sum = slice_sum, .ctx = &s});
	l_for(m, ri, F_UNROLL, c, rc);
	l_for(m, r, F_UNROLL, i, ri);
}

static void
groups(Wg *w, Region *r)
{
	Mm *q = &w->q;
	Module *m = q->g.m;
	Node *i, *tid = q->g.f.tid, *warp = x_idx(m, q->g.kb->s->mach->warp);
	Region *in;

	w->group = l_let(m, r, x_addi(m, x_fdiv(m, tid, x_idx(m, GROUP)), -1));
	w->in_group = l_let(m, r, x_mod(m, tid, x_idx(m, GROUP)));
	q->t.lane = l_let(m, r, x_mod(m, tid, warp));
	l_alloc(m, r, q->acc);
	in = open_tiles(w, &i);
	mm_clear(q, in);
	keep(w, in);
	sum_up(w, in, i);
	store(w, in);
	close_tiles(w, r, in, i);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static void
make_barriers(Wg *w, Region *r)
{
	Mm *q = &w->q;
	Module *m = q->g.m;
	Node *s = x_axis(m, x_idx(m, q->stages));
	Region *then = region_new(m, NULL), *in = region_new(m, NULL);

	box_phase(m, in, w->bars, "phase_init", full(w, s), x_idx(m, 1));
	box_phase(m, in, w->bars, "phase_init", empty(w, s), x_idx(m, q->wm * WARPS));
	l_for(m, then, F_UNROLL, s, in);
	box_order(m, then, "phase_fence", 0, NULL);
	l_when(m, r, x_eq(m, q->g.f.tid, x_idx(m, 0)), then, NULL);
	l_barrier(m, r);
}

static const char *
stored_as(const Boxes *b)
{
	return b->map.gathers ? "pixels" : b->p->s->deep ? "deep" : "along";
}

static const char *
described(const Wg *w)
{
	const Mm *q = &w->q;

	return arena_printf(q->g.m->arena, "class=contract, mma=%s, block=[%d,%d,%d], groups=%d, stages=%d, "
		"boxes=[%s %d,%s %d], slice=%d", q->x->name, q->a.s->width, q->b.s->width, q->bk, q->wm, q->stages,
		stored_as(&w->a), w->a.row, stored_as(&w->b), w->b.row, w->slice);
}

static void
allocate(Wg *w)
{
	Mm *q = &w->q;
	Module *m = q->g.m;
	Gemm *g = &q->g;
	int wide = GROUP / 2 * mm_row_words(q->x, BANDS) * 4 * q->wm, tiles = q->t.stage_words * 4 * q->stages;
	bool room = q->b.s->width % BANDS == 0 && tiles + wide + 2 * 8 * q->stages <= g->kb->s->mach->smem_block;
	Node *n;

	w->slice = room ? BANDS : q->b.s->width < 32 ? q->b.s->width : 32;
	n = x_idx(m, q->t.stage_words * q->stages);
	q->t.memory = gpu_shared(g->kb, &g->f, "tiles", DT_U32, 1, &n);
	n = x_idx(m, q->wm * ROWS * mm_row_words(q->x, w->slice));
	w->sums = gpu_shared(g->kb, &g->f, "sums", DT_U32, 1, &n);
	n = x_idx(m, 2 * q->stages);
	w->bars = gpu_shared(g->kb, &g->f, "bars", DT_U64, 1, &n);
	q->acc = l_buffer(m, "acc", q->x->acc, SP_REG, 3, (Node *[]){x_idx(m, q->a.span / ROWS),
		x_idx(m, q->b.s->width / q->x->n), x_idx(m, q->acc_elems)});
}

static Kernel *
emit(Wg *w, double depth)
{
	Mm *q = &w->q;
	Gemm *g = &q->g;
	Module *m = g->m;
	Region *copies = region_new(m, NULL), *products = region_new(m, NULL);
	Node *one_group = x_idx(m, GROUP);

	w->nm = x_ceildiv(m, q->a.s->extent, x_idx(m, q->a.s->width));
	w->nn = x_ceildiv(m, q->b.s->extent, x_idx(m, q->b.s->width));
	w->tiles = x_mul(m, x_mul(m, w->nm, w->nn), axes_product(m, g->nbatch, g->batch));
	w->grid = x_min(m, w->tiles, x_idx(m, g->kb->s->mach->units));
	g->threads = (q->wm + 1) * GROUP;
	g->f = gpu_frame(g->kb, w->grid, g->threads);
	g->kb->k->maps = NEWN(m, TensorMap, 2);
	lay_out(w, &w->a, "rows");
	lay_out(w, &w->b, "columns");
	w->b.base = q->a.words;
	q->t.stage_words = q->a.words + q->b.words;
	box_map(g->kb, &w->a.map, w->a.p->s->read->in[0]);
	box_map(g->kb, &w->b.map, w->b.p->s->read->in[0]);
	allocate(w);
	make_barriers(w, g->f.thread);
	if (q->wm > 1) {
		box_order(m, copies, "regs_drop", 1, (Node *[]){one(w, COPIER_REGS)});
		box_order(m, products, "regs_take", 1, (Node *[]){one(w, GROUP_REGS)});
	}
	copier(w, copies);
	groups(w, products);
	l_when(m, g->f.thread, x_lt(m, g->f.tid, one_group), copies, products);
	g->kb->k->flops = 2.0 * q->a.s->width * q->b.s->width * depth;
	map_free(&g->at);
	return gpu_close(g->kb, &g->f, described(w));
}

static void
take_tile(Wg *w, const MmaTile *t)
{
	Mm *q = &w->q;

	q->a.s->width = t->m, q->b.s->width = t->n;
	q->wm = t->wm, q->wn = 1;
	q->stages = t->stages;
	q->a.span = t->m / t->wm, q->b.span = t->n;
	q->acc_elems = 1 << layout_bits(q->x->c, true);
}

Kernel *
wgmma_gpu(const Mm *mm, double us)
{
	Wg w = {.q = *mm};
	Mm *q = &w.q;
	Module *m = q->g.m;
	KB kb = kb_new(q->g.kb->s, q->g.kb->k->loc);
	Side sides[2] = {*q->a.s, *q->b.s};
	Kernel *k = NULL;
	Product p;
	MmaTile tile;
	double time;

	q->x = machine_mma_group(kb.s->mach, dtype_of(q->a.s->read->in[0]), dtype_of(q->b.s->read->in[0]));
	q->g.kb = q->t.kb = &kb;
	q->g.at = (Map){0};
	q->a.s = &sides[0], q->b.s = &sides[1];
	w.fits = x_bool(m, true);
	if (q->x && (q->bk = step_depth(q, q->a.size))) {
		mm_depth(q, false);
		p = mm_product(q);
		p.lane_words = 0;
		if (boxed(&w, &w.a, &q->a) && boxed(&w, &w.b, &q->b) && pick_group(&p, q->bk, &tile, &time)
		 && time < us) {
			take_tile(&w, &tile);
			mm_steps(q);
			k = emit(&w, gemm_extent(m, q->g.c.nred, q->g.c.red));
			k->fits = is_intv(w.fits, 1) ? NULL : w.fits;
		}
	}
	map_free(&kb.buf);
	return k;
}
