/*
 * Sums of products on a CPU's matrix unit (Intel AMX): tiles of 16 rows of 64 bytes, eight of
 * them, and instructions that add the product of two to a third.
 *
 * The factors are read in words of four bytes along the sum (dot4.c): a's words side by side, b's
 * in panels of columns. That is how the unit wants them, so that a row of a tile of A is 64 bytes
 * of a, and a row of one of B is a word of each of 16 columns of a panel. A contraction's tile is
 * mt x nt accumulators; per step of up to 16 words mt tiles of A and nt of B are loaded for mt nt
 * products. 2 x 2 loads one tile a product, the least that eight tiles allow; few rows take 1 x 4.
 * Accumulators go to the kernel's scratch memory, where what follows the sum finds them (tile.c).
 *
 * Ends: rows in equal parts, the last of them moved back; columns in panels padded with zeros; the
 * last axis of the sum in equal steps where it divides, else the last step is moved back as well,
 * and the words that the step before it had are zeros in A. Rows of A that are not evenly spaced
 * (or are repeated past the end), and those of a last step, are copied to scratch memory first:
 * the unit is busy for 16 cycles a product meanwhile.
 *
 * Which of the unit and vectors is faster is decided by products a cycle: few rows or words leave
 * the unit's tiles empty, and bound by memory both wait for it.
 */
#include <math.h>
#include "sched.h"

enum { LOAD_CYCLES = 8, LATENCY = 52 };   /* of a tile; of a product */

/* The unit's instruction for the product's words; NULL: none. */
static const Mma *
unit_of(const Machine *mach, const Contraction *c)
{
	OpCode op = c->reduce->in[c->reduce->nin - 1]->code;

	if (op == O_DOT2)
		return machine_mma_tile(mach, DT_BF16, DT_BF16);
	if (op != O_DOT4)
		return NULL;
	return c->swapped ? machine_mma_tile(mach, DT_I8, DT_U8) : machine_mma_tile(mach, DT_U8, DT_I8);
}

static int
parts(int64_t n, int of)
{
	return (int)((n + of - 1) / of);
}

static bool
is_plain(const Node *read, const Node *axis)
{
	int i;

	for (i = 1; i < read->nin; i++)
		if (read->in[i] == axis)
			return true;
	return false;
}

/* Are b's columns in panels, or will they be, with the words of the last axis one after the other? */
static bool
in_panels(const Sched *s, const Contraction *c, int block)
{
	const Node *b = c->b->in[0];
	int order[MAX_RANK];

	if (!panel_order(c, order))
		return false;
	return block ? block % TILE_WORDS == 0
		: (definition((Node *)b)->code == O_CONST || s->packing) && !attr_find(b->attrs, "order");
}

/* Cycles of a step over all rows and columns. */
static double
step_cycles(const Mma *x, const Tiling *p, int mt, int nt)
{
	double n = p->n > 0 ? parts(p->n, TILE_WORDS * nt) : 64.0 / (TILE_WORDS * nt),
		m = p->m > 0 ? parts(p->m, TILE_ROWS * mt) : 64.0 / (TILE_ROWS * mt);

	return m * n * (fmax(fmax(x->cycles * mt * nt, LATENCY), LOAD_CYCLES * (mt + nt)) + mt + nt);
}

static void
pick_tiles(Contraction *c, const Mma *x, const Tiling *p)
{
	double least = INFINITY, cost;
	int mt, nt;

	for (mt = 1; mt <= 4; mt++)
		for (nt = 1; mt * nt <= 4; nt++) {
			if (p->block && p->block % (TILE_WORDS * nt))
				continue;
			cost = step_cycles(x, p, mt, nt);
			if (cost < least) {
				least = cost;
				c->mt = mt;
				c->nr = TILE_WORDS * nt;
			}
		}
}

void
unit_rows(Contraction *c, int64_t m)
{
	int rows = c->mt * TILE_ROWS;

	c->mr = m > 0 ? parts(m, parts(m, rows)) : rows;
	c->rt = m > 0 ? parts(c->mr, parts(c->mr, TILE_ROWS)) : TILE_ROWS;
}

/* Words that vectors multiply in a cycle. */
static double
words_of_vectors(const Machine *mach)
{
	return machine_lanes(mach, DT_I32) * (mach->fma_ports ? mach->fma_ports : 1);
}

/* Does the unit multiply at least twice as fast as vectors, which need no detour through memory? */
bool
unit_pays(const Machine *mach, const Mma *x, double rows, int64_t words)
{
	/* halves take an operation each */
	double vectors = words_of_vectors(mach) / (x->acc == DT_F32 ? 2 : 1);
	int step = parts(words, parts(words, TILE_WORDS));

	return fmin(rows, TILE_ROWS) * step * TILE_WORDS / x->cycles >= 2 * vectors;
}

bool
pick_unit(Sched *s, Contraction *c, const Tiling *p, double rows)
{
	const Mma *x = s->gpu || c->whole != c->reduce ? NULL : unit_of(s->mach, c);
	const Node *last = c->nred ? c->red[c->nred - 1] : NULL;
	int64_t words;

	if (!x || !last || c->ea->code != O_READ || c->eb->code != O_READ
	 || !is_int(last->in[0], &words) || words < 1 || !is_plain(c->a, last) || !in_panels(s, c, p->block))
		return false;
	c->ks = parts(words, parts(words, TILE_WORDS));
	if (!unit_pays(s->mach, x, fmin(p->m > 0 ? (double)p->m : TILE_ROWS, rows), words))
		return false;
	c->unit = x;
	pick_tiles(c, x, p);
	unit_rows(c, p->m);
	return true;
}

/* ---- the tile -------------------------------------------------------------------------------- */

static Node *
tiles(Module *m, Region *r, const char *name, DType d, int n, const int *extent)
{
	Node *ext[4];
	int i;

	for (i = 0; i < n; i++)
		ext[i] = x_idx(m, extent[i]);
	return l_alloc(m, r, l_buffer(m, name, d, SP_TILE, n, ext));
}

void
unit_begin(Tile *t, Region *r)
{
	Module *m = t->kb->m;
	Contraction *c = t->c;
	int mt = parts(c->mr, c->rt), nt = c->nr / TILE_WORDS, nb = UNIT_TILES - mt * nt - 1, na;

	nb = nb > nt ? nt : nb;
	na = UNIT_TILES - mt * nt - nb;
	na = na > mt ? mt : na;
	t->tc = tiles(m, r, "c", c->unit->acc, 4, (int[]){mt, nt, c->rt, TILE_WORDS});
	t->ta = tiles(m, r, "a", DT_U32, 3, (int[]){na, c->rt, c->ks});
	t->tb = tiles(m, r, "b", DT_U32, 3, (int[]){nb, c->ks, TILE_WORDS});
	t->sums = kb_scratch(t->kb, r, "sums", c->unit->acc, 3, (int64_t[]){c->mr, t->vecs, t->lanes});
	t->rows_copy = kb_scratch(t->kb, r, "rows", DT_I32, 2, (int64_t[]){c->rt, TILE_WORDS});
}

/* A step of the sum: its last axis from k on; the words before `from` are the step before's. ea, eb:
 * the factors over rows, columns and the last axis alone. */
typedef struct Step { Node *ea, *eb, *axis, *k, *from; Node *stride; } Step;

static Node *
first_row(const Tile *t, int i)
{
	int at = i * t->c->rt;

	return x_idx(t->kb->m, at > t->rows - t->c->rt ? t->rows - t->c->rt : at);
}

/* Where the factor's read is for these values. */
static Node *
spot_of(Tile *t, Node *e, const Step *s, Node *row, Node *col, Node **buffer)
{
	Module *m = t->kb->m;
	Map map = {0};
	Node *read = e, *idx[MAX_RANK];
	int i;

	map_put(&map, s->axis, s->k);
	if (row && t->m)
		map_put(&map, t->m, row);
	if (col)
		map_put(&map, t->c->n, col);
	for (i = 1; i < read->nin; i++)          /* a read at constants would be the constant's element */
		idx[i - 1] = subst(m, read->in[i], &map, false);
	map_free(&map);
	*buffer = kb_buffer(t->kb, read->in[0], false);
	return legalize(m, kb_address(t->kb, read->in[0], idx));
}

/* Rows from the tile's i'th on, spelled out in scratch memory. */
static void
copy_rows(Tile *t, Region *r, const Step *s, Node *first)
{
	Module *m = t->kb->m;
	int lanes = t->lanes < TILE_WORDS ? t->lanes : TILE_WORDS;
	Node *i = x_axis(m, x_idx(m, t->c->rt)), *j = x_axis(m, x_idx(m, TILE_WORDS / lanes)),
		*v = x_axis(m, x_idx(m, lanes)), *w = x_add(m, x_muli(m, j, lanes), v), *e;
	Region *ri = region_new(m, NULL), *rj = region_new(m, NULL), *rv = region_new(m, NULL);
	Map map = {0};

	map_put(&map, s->axis, x_add(m, s->k, w));
	if (t->m)
		map_put(&map, t->m, tile_row(t, x_add(m, first, i)));
	e = subst(m, s->ea, &map, false);
	map_free(&map);
	e = x_select(m, x_and(m, x_le(m, s->from, w), x_lt(m, w, x_idx(m, t->c->ks))), e,
		x_int(m, e->type->dtype, 0));
	t->kb->in_vector = lanes;
	l_store(m, rv, t->rows_copy, 2, (Node *[]){i, w}, kb_emit(t->kb, rv, e));
	t->kb->in_vector = 0;
	l_for(m, rj, F_VECTOR, v, rv);
	l_for(m, ri, F_UNROLL, j, rj);
	l_for(m, r, F_SERIAL, i, ri);
}

static void
load_a(Tile *t, Region *r, const Step *s, int i, Spot to)
{
	Module *m = t->kb->m;
	Node *first = first_row(t, i), *buffer, *zero[2] = {x_idx(m, 0), x_idx(m, 0)}, *at;

	if (!s->stride || !is_intv(s->from, 0)) {
		copy_rows(t, r, s, first);
		l_move_tile(m, r, to, (Spot){t->rows_copy, zero}, x_idx(m, TILE_WORDS));
		return;
	}
	at = spot_of(t, s->ea, s, tile_row(t, first), NULL, &buffer);
	l_move_tile(m, r, to, (Spot){buffer, &at}, s->stride);
}

static void
load_b(Tile *t, Region *r, const Step *s, int j, Spot to, Node *stride)
{
	Module *m = t->kb->m;
	Node *buffer, *at = spot_of(t, s->eb, s, NULL, x_addi(m, t->n0, j * TILE_WORDS), &buffer);

	l_move_tile(m, r, to, (Spot){buffer, &at}, stride);
}

/* Products of all tiles of the step: those of B that stay for all rows first. */
static void
multiply(Tile *t, Region *r, const Step *s, Node *b_stride)
{
	Module *m = t->kb->m;
	int mt = parts(t->rows, t->c->rt), nt = t->c->nr / TILE_WORDS, i, j,
		na = (int)const_or(t->ta->in[0], 1), nb = (int)const_or(t->tb->in[0], 1);
	Node *zero = x_idx(m, 0);
	Spot a, b, c;

	for (i = 0; i < mt; i++) {
		a = (Spot){t->ta, (Node *[]){x_idx(m, i % na), zero, zero}};
		if (i || nb >= nt)
			load_a(t, r, s, i, a);
		for (j = 0; j < nt; j++) {
			b = (Spot){t->tb, (Node *[]){x_idx(m, j % nb), zero, zero}};
			c = (Spot){t->tc, (Node *[]){x_idx(m, i), x_idx(m, j), zero, zero}};
			if (i == 0 && j == 0 && nb < nt)
				load_a(t, r, s, i, a);
			if (i == 0 || nb < nt)
				load_b(t, r, s, j, b, b_stride);
			l_mma(m, r, t->c->unit->name, c, a, b);
		}
	}
}

/* The steps along the last axis. */
static void
steps(Tile *t, Region *r, Step s, Node *b_stride)
{
	Module *m = t->kb->m;
	int64_t words = const_or(s.axis->in[0], 0), n = parts(words, t->c->ks),
		full = words % t->c->ks ? n - 1 : n;
	Node *i = x_axis(m, x_idx(m, full));
	Region *in = region_new(m, NULL);

	s.from = x_idx(m, 0);
	s.k = x_muli(m, i, t->c->ks);
	multiply(t, in, &s, b_stride);
	l_for(m, r, F_SERIAL, i, in);
	if (full == n)
		return;
	s.k = x_idx(m, words - t->c->ks);
	s.from = x_idx(m, full * t->c->ks - (words - t->c->ks));
	multiply(t, r, &s, b_stride);
}

/* Elements from a row of A to the next; NULL: they are not evenly spaced, or rows are repeated. */
static Node *
row_stride(Tile *t)
{
	Node *read = t->c->ea, *words = elem_stride(t->kb, read, t->c->red[t->c->nred - 1]), *e;

	if (t->last || !words || !is_intv(words, 1))
		return NULL;
	e = t->m ? elem_stride(t->kb, read, t->m) : x_idx(t->kb->m, 0);
	return e ? legalize(t->kb->m, e) : NULL;
}

Node *
unit_sums(Tile *t, Region *r)
{
	Module *m = t->kb->m;
	Contraction *c = t->c;
	Node *axis, *zero = x_idx(m, 0), *stride = row_stride(t),
		*b_stride = legalize(m, elem_stride(t->kb, c->eb, c->red[c->nred - 1]));
	Step s = {.ea = c->ea, .eb = c->eb, .axis = c->red[c->nred - 1], .stride = stride};
	int mt = parts(t->rows, c->rt), nt = c->nr / TILE_WORDS, i, j;
	Region *in = r, *q;

	for (i = 0; i < mt * nt; i++)
		l_store(m, r, t->tc, 4, (Node *[]){x_idx(m, i / nt), x_idx(m, i % nt), zero, zero},
			x_int(m, c->unit->acc, 0));
	for (i = 0; i + 1 < c->nred; i++) {
		axis = x_axis(m, kb_emit(t->kb, in, c->red[i]->in[0]));
		s.ea = subst1(m, s.ea, c->red[i], axis);
		s.eb = subst1(m, s.eb, c->red[i], axis);
		q = region_new(m, NULL);
		l_for(m, in, F_SERIAL, axis, q);
		in = q;
	}
	steps(t, in, s, b_stride);
	for (i = 0; i < mt; i++)
		for (j = 0; j < nt; j++)
			l_move_tile(m, r,
				(Spot){t->sums, (Node *[]){first_row(t, i), x_idx(m, j * TILE_WORDS / t->lanes), zero}},
				(Spot){t->tc, (Node *[]){x_idx(m, i), x_idx(m, j), zero, zero}}, x_idx(m, c->nr));
	return t->sums;
}
