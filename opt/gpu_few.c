/*
 * GPU schedule of products of few rows (few.c): memory's speed over the weights.
 *
 * The weights of a column lie side by side along the depth. `deep` threads share a column's depth,
 * 16 bytes of weights each at a time, and fold their sums at the end, in a fixed order; each has
 * `columns` columns, so that what it reads of the rows serves several. All loads of some steps are
 * made before the first is used. The block then lays its sums down in shared memory and makes the
 * results of them, neighbours by neighbours.
 *
 * What comes before the products (norms, quantization) every block computes first, into shared
 * memory: each member's elements dealt out over the threads, or over groups of threads that fold
 * where it reduces.
 */
#include <stdlib.h>
#include <string.h>
#include "few.h"
#include "gpu_part.h"

enum {
	BYTES = 16, WORD = 4, WORD_BITS = 32,   /* of weights a thread loads at once */
	MAX_RUN = 32,          /* elements of depth in a load */
	MAX_ROWS_HELD = 64,    /* of several rows, that meet it */
	WARP_LANES = 32, MAX_COLUMNS_EACH = 4, MAX_SUMS_EACH = 16, AHEAD = 8,   /* loads under way */
	MAX_BEFORE = 32, MAX_TOGETHER = 16,
	FEW_THREADS = 128, MAX_THREADS = 256, LONG = 64, FEW_ELEMENTS = 8,
};

/* A member that comes before the products, in shared memory. */
typedef struct Before { Node *t, *buffer; } Before;

typedef struct Kern {
	KB *kb;
	Module *m;
	Frame f;
	Group *g;
	Few out;
	int threads, deep, columns;   /* of a block; that share a column; of a thread */
	int per_block;         /* columns */
	Node *lane, *first;    /* the thread's place along the depth; its first column */
	Before before[MAX_BEFORE]; int nbefore;
	Few member[8]; int nmembers;   /* products, the last one the result */
	Node *sums[8][MAX_PRODUCTS];   /* [rows][columns of the block] in shared memory */
} Kern;

/* ---- reading --------------------------------------------------------------------------------- */

static Node *
padded(Module *m, Node *flat)
{
	return x_add(m, flat, x_muli(m, x_fdiv(m, flat, x_idx(m, FEW_RUN)), FEW_PAD));
}

static Node *
flat_index(Module *m, const Node *t, Node *const *idx)
{
	Node *e = x_idx(m, 0);
	int i;

	for (i = 0; i < rank_of(t); i++)
		e = x_add(m, x_mul(m, e, dim_of(t, i)),
			is_intv(dim_of(t, i), 1) ? x_idx(m, 0) : x_cast(m, DT_INDEX, idx[i]));
	return e;
}

/* Where element idx lies in the member's memory. Along `run`, an axis of up to FEW_RUN steps that
 * never crosses a gap (NULL: none), the places follow each other. */
static Node *
place_in(Module *m, const Node *t, Node *const *idx, Node *run)
{
	Node *flat = flat_index(m, t, idx), *coef, *rest;

	if (run && linear_in(m, flat, run, &coef, &rest) && is_intv(coef, 1)
	 && divisible(rest, (int)const_or(run->in[0], 1)))
		return x_add(m, padded(m, rest), run);
	return padded(m, flat);
}

/* e with reads of members in shared memory as loads. */
static Node *
with_loads(Kern *q, Node *e, Node *run)
{
	Map map = {0};
	Node **list, *at;
	int i, k, n;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++)
		for (k = 0; list[i]->code == O_READ && k < q->nbefore; k++)
			if (list[i]->in[0] == q->before[k].t) {
				at = place_in(q->m, list[i]->in[0], list[i]->in + 1, run);
				map_put(&map, list[i], from_storage(q->m, dtype_of(list[i]->in[0]),
					l_load(q->m, q->before[k].buffer, 1, &at)));
			}
	free(list);
	e = map.n ? subst(q->m, e, &map, false) : e;
	map_free(&map);
	return e;
}

static DType
sum_type(const Node *red)
{
	return dt_small(red->type->dtype) ? DT_F32 : storage_type(red->type->dtype);
}

/* ---- before the products --------------------------------------------------------------------- */

/* Element number e of t: its axes. */
static void
bind_element(Module *m, Map *map, const Node *t, Node *e)
{
	digits(m, map, rank_of(t), t->in, e);
}

static int64_t
size_of_axes(int n, Node *const *axes)
{
	int64_t v = 1;
	int i;

	for (i = 0; i < n; i++)
		v *= const_or(axes[i]->in[0], 1);
	return v;
}

/* Loads of few steps are under way together. */
static ForKind
few_steps(int64_t n)
{
	return n <= MAX_TOGETHER ? F_UNROLL : F_SERIAL;
}

/* The reduction, shared by groups of `width` threads, of which the thread has place `lane`. */
static Node *
fold_shared(Kern *q, Region *r, Node *red, int width, Node *lane)
{
	Module *m = q->m;
	Comb c = (Comb)red->n;
	DType d = sum_type(red);
	int64_t n = size_of_axes(red->nin - 1, red->in);
	Node *ext = x_idx(m, width), *acc, *step = x_axis(m, x_ceildiv(m, x_idx(m, n), ext)), *k, *v;
	Region *in = region_new(m, NULL), *some = region_new(m, NULL);
	Map map = {0};

	acc = l_alloc(m, q->f.block, l_buffer(m, "part", d, SP_REG, 1, &ext));
	l_store(m, r, acc, 1, &lane, x_comb_identity(m, c, d));
	k = l_let(m, in, x_add(m, x_muli(m, step, width), lane));
	digits(m, &map, red->nin - 1, red->in, k);
	v = kb_emit(q->kb, some, with_loads(q, subst(m, red->in[red->nin - 1], &map, false), NULL));
	map_free(&map);
	l_store(m, some, acc, 1, &lane, accumulate(q->kb, c, l_load(m, acc, 1, &lane), v));
	gpu_where(m, in, x_lt(m, k, x_idx(m, n)), some);
	l_for(m, r, few_steps((n + width - 1) / width), step, in);
	return x_cast(m, red->type->dtype, l_let(m, r, l_fold(m, c, acc, q->f.tid, 0, NULL)));
}

/* Threads that share an element of t: those of a block where it has few long sums. */
static int
width_for(const Kern *q, Node *t, int64_t count)
{
	Node **list;
	int64_t longest = 1, size;
	int i, n, w = 1;

	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_REDUCE) {
			size = size_of_axes(list[i]->nin - 1, list[i]->in);
			longest = size > longest ? size : longest;
		}
	free(list);
	if (count <= FEW_ELEMENTS && longest >= LONG)
		return q->threads;
	while (w < WARP_LANES && w * 2 <= longest && count * w < q->threads)
		w *= 2;
	return w;
}

static void
emit_element(Kern *q, Region *r, Before *b, Node *e, int width, Node *lane, Node *owns)
{
	Module *m = q->m;
	Node *t = b->t, *body = t->in[t->nin - 1], **list, *at;
	Region *put = region_new(m, NULL);
	Map map = {0}, done = {0};
	int i, n;

	bind_element(m, &map, t, e);
	body = subst(m, body, &map, false);
	map_free(&map);
	list = topo_scalar(body, &n);
	for (i = 0; i < n && width > 1; i++)
		if (list[i]->code == O_REDUCE)
			map_put(&done, list[i], fold_shared(q, r, list[i], width, lane));
	free(list);
	body = done.n ? subst(m, body, &done, false) : body;
	map_free(&done);
	at = padded(m, e);
	l_store(m, put, b->buffer, 1, &at,
		legalize(m, to_storage(m, kb_emit(q->kb, put, with_loads(q, body, NULL)))));
	gpu_where(m, r, owns, put);
}

/* All of t's elements, by all threads. */
static void
emit_before(Kern *q, Node *t)
{
	Module *m = q->m;
	int64_t count = size_of_axes(rank_of(t), t->in);
	int width = width_for(q, t, count), apart = q->threads / width;
	Node *places = x_idx(m, few_padded(count)),
		*step = x_axis(m, x_idx(m, (count + apart - 1) / apart)),
		*e, *lane = x_idx(m, 0), *inside, *owns;
	Region *in = region_new(m, NULL);
	Before *b = &q->before[q->nbefore];

	*b = (Before){t, gpu_shared(q->kb, &q->f, "own", storage_type(dtype_of(t)), 1, &places)};
	if (width > 1)
		lane = width == q->threads ? q->f.tid
			: l_let(m, in, x_mod(m, q->f.tid, x_idx(m, width)));
	e = l_let(m, in, x_add(m, x_muli(m, step, apart), x_fdiv(m, q->f.tid, x_idx(m, width))));
	inside = x_lt(m, e, x_idx(m, count));
	owns = x_and(m, inside, x_eq(m, lane, x_idx(m, 0)));
	emit_element(q, in, b, width > 1 ? l_let(m, in, x_min(m, e, x_idx(m, count - 1))) : e, width, lane,
		owns);
	l_for(m, q->f.thread, width == 1 ? few_steps((count + apart - 1) / apart) : F_SERIAL, step,
		in);
	l_barrier(m, q->f.thread);
	q->nbefore++;
}

/* ---- the products ---------------------------------------------------------------------------- */

/* A product's loop under construction. */
typedef struct Walk {
	const FewProduct *p;
	int run, words;        /* elements of depth, words of a load */
	int bits;              /* of an element of the weights */
	int64_t loads;         /* of a column */
	int ahead;             /* steps whose loads are made together */
	Node *raw;             /* u32 [ahead * columns][words] */
	Node *acc;             /* [rows * columns][deep] */
	Node *x;               /* [rows * run] */
} Walk;

/* The axes of the depth where load number k's elements begin, v elements on. */
static void
bind_depth(Kern *q, const Walk *w, Map *map, Node *k, Node *v)
{
	digits(q->m, map, w->p->nred, w->p->red, x_add(q->m, x_muli(q->m, k, w->run), v));
}

static Node *
weight_address(Kern *q, const Walk *w, Node *column, Node *k, Node *v)
{
	Map map = {0};
	Node *idx[MAX_RANK];
	int i;

	bind_depth(q, w, &map, k, v);
	map_put(&map, q->out.n, column);
	for (i = 1; i < w->p->b->nin; i++)
		idx[i - 1] = subst(q->m, w->p->b->in[i], &map, false);
	map_free(&map);
	return kb_address(q->kb, w->p->b->in[0], idx);
}

/* Do loads of so many bytes take elements that lie side by side? */
static bool
fits(Kern *q, Walk *w, int bytes)
{
	Module *m = q->m;
	int n = bytes * 8 / w->bits;
	Node *v, *k, *addr;

	w->run = n * w->p->each;
	w->words = bytes / WORD;
	if (w->run > MAX_RUN || w->p->depth % w->run
	 || (q->out.rows > 1 && w->run * q->out.rows > MAX_ROWS_HELD))
		return false;
	w->loads = w->p->depth / w->run;
	v = x_axis(m, x_idx(m, n)), k = x_axis(m, x_idx(m, w->loads));
	addr = weight_address(q, w, q->out.n, k, x_muli(m, v, w->p->each));
	return in_vectors(m, addr, v, n);
}

static bool
walk_of(Kern *q, const FewProduct *p, Walk *w)
{
	int bytes;

	*w = (Walk){.p = p, .bits = dtypes[storage_type(dtype_of(p->b->in[0]))].bits};
	for (bytes = BYTES; bytes >= WORD; bytes /= 2)
		if (fits(q, w, bytes))
			return true;
	return false;
}

/* Element v of a load, of the weights' type. */
static Node *
stored_element(Kern *q, const Walk *w, Node *slot, Node *v)
{
	Module *m = q->m;
	DType d = storage_type(dtype_of(w->p->b->in[0]));
	Node *per = x_idx(m, WORD_BITS / w->bits), *i = x_fdiv(m, v, x_idx(m, w->p->each)), *e;

	e = l_load(m, w->raw, 2, (Node *[]){slot, x_fdiv(m, i, per)});
	if (w->bits < WORD_BITS) {
		e = x2(m, O_SHR, e, x_cast(m, DT_U32, x_muli(m, x_mod(m, i, per), w->bits)));
		e = x_cast(m, w->bits == 8 ? DT_U8 : DT_U16, e);
	}
	return from_storage(m, dtype_of(w->p->b->in[0]), d == e->type->dtype ? e : x_bits(m, d, e));
}

static Node *
column_of(Kern *q, Node *c)
{
	return x_min(q->m, x_add(q->m, q->first, c), x_idx(q->m, q->out.columns - 1));
}

/* The weights of some steps from `base` on, those past the end once more. */
static void
load_ahead(Kern *q, const Walk *w, Region *r, Node *base)
{
	Module *m = q->m;
	Node *u = x_axis(m, x_idx(m, w->ahead)), *c = x_axis(m, x_idx(m, q->columns)), *k, *addr;
	Region *ru = region_new(m, NULL), *rc = region_new(m, NULL);

	k = x_min(m, x_add(m, base, x_muli(m, u, q->deep)), x_idx(m, w->loads - 1));
	addr = weight_address(q, w, column_of(q, c), k, x_idx(m, 0));
	l_move(m, rc, MOVE_WORDS, w->words * WORD,
		(Spot){w->raw, (Node *[]){x_add(m, x_muli(m, u, q->columns), c), x_idx(m, 0)}},
		(Spot){kb_buffer(q->kb, w->p->b->in[0], false), &addr}, NULL);
	l_for(m, ru, F_UNROLL, c, rc);
	l_for(m, r, F_UNROLL, u, ru);
}

/* The row's elements that the load number k meets. */
static void
load_row(Kern *q, const Walk *w, Region *r, Node *row, Node *k)
{
	Module *m = q->m;
	int n = w->run < 4 ? w->run : 4;
	Node *o = x_axis(m, x_idx(m, w->run / n)), *v = x_axis(m, x_idx(m, n)), *e, *at;
	Region *ro = region_new(m, NULL), *rv = region_new(m, NULL);
	Map map = {0};

	bind_depth(q, w, &map, k, x_add(m, x_muli(m, o, n), v));
	digits(m, &map, q->out.nrow, q->out.row, row);
	e = with_loads(q, subst(m, w->p->ea, &map, false), v);
	map_free(&map);
	at = x_add(m, x_muli(m, row, w->run), x_add(m, x_muli(m, o, n), v));
	l_store(m, rv, w->x, 1, &at, legalize(m, to_storage(m, kb_emit(q->kb, rv, e))));
	l_for(m, ro, F_VECTOR, v, rv);
	l_for(m, r, F_UNROLL, o, ro);
}

/* e with what it reads alike for all of a load's elements bound first. */
static Node *
bind_alike(Kern *q, Region *r, Node *e, const Node *v)
{
	Map map = {0};
	Node **list;
	int i, n;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_READ && !contains(list[i], v))
			map_put(&map, list[i], l_let(q->m, r, kb_emit(q->kb, r, list[i])));
	free(list);
	e = map.n ? subst(q->m, e, &map, false) : e;
	map_free(&map);
	return e;
}

/* Some bits of an element straight from the word that it stands in: i32(element) >> shift & mask. */
static Node *
bits_of(Kern *q, const Walk *w, const Node *e, Node *slot, Node *v)
{
	Module *m = q->m;
	Node *per = x_idx(m, WORD_BITS / w->bits), *i = x_fdiv(m, v, x_idx(m, w->p->each)), *word,
		*shift;
	Byte b;

	if (!byte_of((Node *)e, &b) || b.read != w->p->b || !b.shift || w->bits != 8)
		return NULL;
	word = l_load(m, w->raw, 2, (Node *[]){slot, x_fdiv(m, i, per)});
	shift = x_add(m, x_cast(m, DT_U32, x_muli(m, x_mod(m, i, per), w->bits)),
		x_cast(m, DT_U32, b.shift));
	return x_cast(m, DT_I32, x_and(m, x2(m, O_SHR, word, shift), x_int(m, DT_U32, b.mask)));
}

/* The factor of the weights at element v of a load. */
static Node *
weights_at(Kern *q, const Walk *w, Region *r, Node *c, Node *slot, Node *k, Node *v)
{
	Module *m = q->m;
	Map map = {0}, bits = {0};
	Node **list, *e = w->p->eb, *b;
	int i, n;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_AND && (b = bits_of(q, w, list[i], slot, v)))
			map_put(&bits, list[i], b);
	free(list);
	e = bits.n ? subst(m, e, &bits, false) : e;
	bind_depth(q, w, &map, k, v);
	map_put(&map, q->out.n, column_of(q, c));
	map_put(&map, w->p->b, stored_element(q, w, slot, v));
	e = bind_alike(q, r, subst(m, e, &map, false), v);
	map_free(&map);
	map_free(&bits);
	return e;
}

/* Multiplies a load's elements into the rows' sums of column c. */
static void
multiply_load(Kern *q, const Walk *w, Region *r, Node *c, Node *slot, Node *k)
{
	Module *m = q->m;
	Node *v = x_axis(m, x_idx(m, w->run)), *row = x_axis(m, x_idx(m, q->out.rows)), *y, *x, *e,
		*at[2], *from;
	Region *rv = region_new(m, NULL), *rr = region_new(m, NULL);

	y = kb_emit(q->kb, rv, weights_at(q, w, r, c, slot, k, v));
	if (q->out.rows > 1)
		y = l_let(m, rv, y);
	at[0] = x_add(m, x_muli(m, row, q->columns), c), at[1] = q->lane;
	from = x_add(m, x_muli(m, row, w->run), v);
	x = from_storage(m, w->p->ea->type->dtype, l_load(m, w->x, 1, &from));
	e = kb_emit(q->kb, rr, x_mul(m, x, y));
	l_store(m, rr, w->acc, 2, at, accumulate(q->kb, COMB_SUM, l_load(m, w->acc, 2, at), e));
	l_for(m, rv, F_UNROLL, row, rr);
	l_for(m, r, F_UNROLL, v, rv);
}

static void
multiply_ahead(Kern *q, const Walk *w, Region *r, Node *base)
{
	Module *m = q->m;
	Node *u = x_axis(m, x_idx(m, w->ahead)), *c = x_axis(m, x_idx(m, q->columns)),
		*row = x_axis(m, x_idx(m, q->out.rows)), *k;
	Region *ru = region_new(m, NULL), *rr = region_new(m, NULL), *rc = region_new(m, NULL),
		*in = region_new(m, NULL);

	k = l_let(m, ru, x_add(m, base, x_muli(m, u, q->deep)));
	load_row(q, w, rr, row, k);
	l_for(m, in, F_UNROLL, row, rr);
	multiply_load(q, w, rc, c, x_add(m, x_muli(m, u, q->columns), c), k);
	l_for(m, in, F_UNROLL, c, rc);
	gpu_where(m, ru, x_lt(m, k, x_idx(m, w->loads)), in);
	l_for(m, r, F_UNROLL, u, ru);
}

static void
open_walk(Kern *q, Walk *w)
{
	Module *m = q->m;
	int64_t steps = (w->loads + q->deep - 1) / q->deep;
	Node *ext[2];

	w->ahead = AHEAD / q->columns < 1 ? 1 : AHEAD / q->columns;
	w->ahead = steps < w->ahead ? (int)steps : w->ahead;
	ext[0] = x_idx(m, w->ahead * q->columns), ext[1] = x_idx(m, w->words);
	w->raw = l_alloc(m, q->f.thread, l_buffer(m, "w", DT_U32, SP_REG, 2, ext));
	ext[0] = x_idx(m, w->run * q->out.rows);
	w->x = l_alloc(m, q->f.thread,
		l_buffer(m, "x", storage_type(w->p->ea->type->dtype), SP_REG, 1, ext));
	ext[0] = x_idx(m, q->out.rows * q->columns), ext[1] = x_idx(m, q->deep);
	w->acc = l_alloc(m, q->f.block,
		l_buffer(m, "acc", sum_type(w->p->reduce), SP_REG, 2, ext));
}

/* The sums of all rows and of the thread's columns, folded, to shared memory. */
static void
lay_down(Kern *q, const Walk *w, Node *sums)
{
	Module *m = q->m;
	Node *first = x_sub(m, q->first, x_muli(m, q->f.bid, q->per_block)), *v, *at[2], *slot;
	int row, c;

	for (row = 0; row < q->out.rows; row++)
		for (c = 0; c < q->columns; c++) {
			Region *put = region_new(m, NULL);
			slot = x_idx(m, row * q->columns + c);
			v = l_let(m, q->f.thread, l_fold(m, COMB_SUM, w->acc, q->f.tid, 1, &slot));
			at[0] = x_idx(m, row), at[1] = x_addi(m, first, c);
			l_store(m, put, sums, 2, at, v);
			l_when(m, q->f.thread, x_eq(m, q->lane, x_idx(m, 0)), put, NULL);
		}
}

static void
emit_product(Kern *q, const FewProduct *p, Node *sums)
{
	Module *m = q->m;
	Walk w;
	Node *base, *group, *i, *at[2];
	Region *in = region_new(m, NULL), *ri = region_new(m, NULL);
	int64_t steps, groups;

	walk_of(q, p, &w);
	open_walk(q, &w);
	i = x_axis(m, x_idx(m, q->out.rows * q->columns));
	at[0] = i, at[1] = q->lane;
	l_store(m, ri, w.acc, 2, at, x_int(m, sum_type(p->reduce), 0));
	l_for(m, q->f.thread, F_UNROLL, i, ri);
	steps = (w.loads + q->deep - 1) / q->deep;
	groups = (steps + w.ahead - 1) / w.ahead;
	group = groups > 1 ? x_axis(m, x_idx(m, groups)) : x_idx(m, 0);
	base = x_add(m, x_muli(m, group, w.ahead * q->deep), q->lane);
	load_ahead(q, &w, in, base);
	multiply_ahead(q, &w, in, base);
	if (groups > 1)
		l_for(m, q->f.thread, F_SERIAL, group, in);
	else
		for (steps = 0; steps < in->nresults; steps++)
			region_add(m, q->f.thread, in->results[steps]);
	lay_down(q, &w, sums);
}

/* ---- results --------------------------------------------------------------------------------- */

/* A product member's element from its sums. */
static void
emit_result(Kern *q, Region *r, int k, Node *row, Node *own)
{
	Module *m = q->m;
	const Few *f = &q->member[k];
	Node *column = x_add(m, x_muli(m, q->f.bid, q->per_block), own), *at[2] = {row, own}, *e,
		*idx[MAX_RANK];
	Map map = {0};
	int i;

	for (i = 0; i < f->nproducts; i++)
		map_put(&map, f->product[i].reduce,
			x_cast(m, f->product[i].reduce->type->dtype, l_load(m, q->sums[k][i], 2, at)));
	digits(m, &map, f->nrow, f->row, row);
	map_put(&map, f->n, column);
	for (i = 0; i < rank_of(f->t); i++) {
		if (is_intv(dim_of(f->t, i), 1))
			map_put(&map, f->t->in[i], x_idx(m, 0));
		idx[i] = map_get(&map, f->t->in[i]);
	}
	e = kb_emit(q->kb, r, with_loads(q, subst(m, f->t->in[f->t->nin - 1], &map, false), NULL));
	map_free(&map);
	if (k + 1 < q->nmembers) {
		Local *l = NEW(m, Local);
		l->value = l_let(m, r, e);
		map_put(&q->kb->local, f->t, l);
	} else
		kb_store(q->kb, r, f->t, idx, e);
}

static void
emit_results(Kern *q)
{
	Module *m = q->m;
	int64_t units = q->out.rows * q->per_block, steps = (units + q->threads - 1) / q->threads;
	Node *step = steps > 1 ? x_axis(m, x_idx(m, steps)) : x_idx(m, 0), *unit, *own, *ok;
	Region *in = region_new(m, NULL), *put = region_new(m, NULL);
	int k;

	unit = l_let(m, in, x_add(m, x_muli(m, step, q->threads), q->f.tid));
	own = l_let(m, put, x_mod(m, unit, x_idx(m, q->per_block)));
	for (k = 0; k < q->nmembers; k++)
		emit_result(q, put, k, q->out.rows == 1 ? x_idx(m, 0)
			: l_let(m, put, x_fdiv(m, unit, x_idx(m, q->per_block))), own);
	ok = x_and(m, x_lt(m, unit, x_idx(m, units)), x_lt(m, x_add(m, x_muli(m, q->f.bid, q->per_block),
		x_mod(m, unit, x_idx(m, q->per_block))), x_idx(m, q->out.columns)));
	l_when(m, in, ok, put, NULL);
	if (steps > 1)
		l_for(m, q->f.thread, F_SERIAL, step, in);
	else
		for (k = 0; k < in->nresults; k++)
			region_add(m, q->f.thread, in->results[k]);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* Threads and columns: enough threads to have memory's latency covered, each with as many columns
 * as that leaves. */
static void
choose_shape(Kern *q, int64_t loads)
{
	int64_t units = q->kb->s->mach->units ? q->kb->s->mach->units : 64, threads;

	for (q->deep = 2; q->deep < q->kb->s->mach->warp && q->deep * 2 <= loads;)
		q->deep *= 2;
	threads = q->out.columns * q->deep;
	q->columns = MAX_COLUMNS_EACH;
	while (q->columns > 1 && (q->out.rows * q->columns > MAX_SUMS_EACH
	 || threads / q->columns < units * 512))
		q->columns /= 2;
	q->threads = threads / q->columns >= units * 2 * MAX_THREADS ? MAX_THREADS : FEW_THREADS;
	q->per_block = q->threads / q->deep * q->columns;
}

static bool
open_members(Kern *q)
{
	Module *m = q->m;
	Node *t;
	Walk w;
	int64_t loads = 1;
	int i, k;

	for (i = 0; i < q->g->n; i++) {
		t = q->g->members[i];
		if (i + 1 < q->g->n && !few_beside(m, t, &q->out))
			continue;
		if (q->nmembers == 8 || !few_of(m, t, &q->member[q->nmembers++]))
			return false;
		for (k = 0; k < q->member[q->nmembers - 1].nproducts; k++) {
			Few save = q->out;
			bool ok;
			q->out = q->member[q->nmembers - 1];
			ok = walk_of(q, &q->out.product[k], &w);
			q->out = save;
			if (!ok)
				return false;
			loads = w.loads > loads ? w.loads : loads;
		}
	}
	choose_shape(q, loads);
	return true;
}

static void
emit_products(Kern *q)
{
	Module *m = q->m;
	Few out = q->out;
	int i, k;

	for (i = 0; i < q->nmembers; i++)
		for (k = 0; k < q->member[i].nproducts; k++) {
			q->out = q->member[i];
			q->sums[i][k] = gpu_shared(q->kb, &q->f, "sums", sum_type(q->out.product[k].reduce), 2,
				(Node *[]){x_idx(m, q->out.rows), x_idx(m, q->per_block)});
			emit_product(q, &q->out.product[k], q->sums[i][k]);
		}
	q->out = out;
	l_barrier(m, q->f.thread);
}

/* Does the factor read memory, in pieces that threads beside each other read apart, or again and
 * again? */
static bool
wants_staging(Kern *q, const FewProduct *p)
{
	Node **list;
	int i, k, n;
	bool global = false;
	Walk w;

	list = topo_scalar(p->ea, &n);
	for (i = 0; i < n && !global; i++)
		if (list[i]->code == O_READ) {
			for (k = 0; k < q->nbefore && q->before[k].t != list[i]->in[0]; k++)
				;
			global = k == q->nbefore;
		}
	free(list);
	return global && walk_of(q, p, &w)
		&& (q->out.rows > 1 || w.run * dtypes[p->ea->type->dtype].bits / 8 > BYTES);
}

/* The rows' factor becomes a tensor of its own before the products, if there is room. */
static void
stage_rows(Kern *q, FewProduct *p)
{
	Module *m = q->m;
	Node *axes[MAX_RANK], *own[MAX_RANK], *t;
	int i, n = 0;
	Map map = {0};

	if (q->nbefore == MAX_BEFORE || q->out.nrow + p->nred > MAX_RANK)
		return;
	for (i = 0; i < q->out.nrow; i++)
		own[n++] = q->out.row[i];
	for (i = 0; i < p->nred; i++)
		own[n++] = p->red[i];
	for (i = 0; i < n; i++)
		map_put(&map, own[i], axes[i] = x_axis(m, own[i]->in[0]));
	t = t_tensor(m, n, axes, subst(m, p->ea, &map, false));
	map_free(&map);
	if (t->code != O_TENSOR || q->kb->k->shared + few_bytes(t) > FEW_PROLOGUE)
		return;
	emit_before(q, t);
	p->ea = x_read(m, t, own);
}

static void
stage_all(Kern *q)
{
	int i, k;
	Few out = q->out;

	for (i = 0; i < q->nmembers; i++)
		for (k = 0; k < q->member[i].nproducts; k++) {
			q->out = q->member[i];
			if (wants_staging(q, &q->member[i].product[k]))
				stage_rows(q, &q->member[i].product[k]);
		}
	q->out = out;
}

Kernel *
few_gpu(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Kern q = {.kb = &kb, .m = m, .g = g};
	int i;

	if (!few_of(m, g->members[g->n - 1], &q.out) || !open_members(&q))
		return NULL;
	q.f = gpu_frame(&kb, x_idx(m, (q.out.columns + q.per_block - 1) / q.per_block), q.threads);
	for (i = 0; i + 1 < g->n; i++)
		if (!few_beside(m, g->members[i], &q.out))
			emit_before(&q, g->members[i]);
	stage_all(&q);
	q.lane = l_let(m, q.f.thread, x_mod(m, q.f.tid, x_idx(m, q.deep)));
	q.first = l_let(m, q.f.thread, x_add(m, x_muli(m, q.f.bid, q.per_block),
		x_muli(m, x_fdiv(m, q.f.tid, x_idx(m, q.deep)), q.columns)));
	emit_products(&q);
	emit_results(&q);
	kb.k->flops = 2.0 * (double)(q.per_block * q.out.rows * q.out.product[0].depth);
	return gpu_close(&kb, &q.f, arena_printf(m->arena,
		"class=few, threads=%d, deep=%d, columns=%d, rows=%d, before=%d", q.threads, q.deep, q.columns,
		(int)q.out.rows, q.nbefore));
}
