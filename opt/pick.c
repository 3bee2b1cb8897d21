/*
 * Which register tile a product has on a CPU: so many rows by so many vectors of columns, whose sums stay in
 * registers while the depth is walked. Of all tiles that the registers hold, the one whose steps take the
 * fewest cycles over the whole result, ends of rows and columns included; where weights stream from memory for
 * few rows, the one that takes all rows in one pass. A tuning file's choice comes first.
 */
#include <math.h>
#include <stdio.h>
#include "sched.h"

enum {
	FAR_BYTES = 16,        /* that come from behind the second cache in a cycle, beside products */
	MAX_VECTORS = 4,
};

typedef struct Shape { int rows, vectors; } Shape;

/* Rows that the registers allow beside v vectors of columns: the accumulators, a step's vectors of b, and a
 * value of a unless the only multiply-add that takes it broadcasts it from memory; of operands in parts
 * all of these, and a product. */
static int
rows_beside(const Machine *mach, const Tiling *p, int v)
{
	int regs = mach->vector_regs ? mach->vector_regs : 16,
		other = p->parts > 1 ? v * p->parts + p->parts + 1 : v + (v > 1 || !machine_broadcasts(mach)),
		rows = (regs - other) / (v * p->sums);

	return rows > MAX_ROWS ? MAX_ROWS : rows;
}

/* Columns that are stored in blocks stay in one. */
static bool
keeps_block(const Tiling *p, int columns)
{
	return !p->block || p->block % columns == 0;
}

/* m rows in equal parts of at most so many; all of them if m is not known. */
static int
equal_rows(int64_t m, int rows)
{
	int64_t parts = m > 0 ? (m + rows - 1) / rows : 1;

	return m > 0 ? (int)((m + parts - 1) / parts) : rows;
}

/* ---- the estimate ---------------------------------------------------------------------------- */

/* How much of a panel of b that every tile of rows reads again has left the second cache by then: nothing
 * up to an eighth of it, which b shares with a, the result and what is fetched ahead; all if none fits. */
static double
missed(const Machine *mach, double panel)
{
	double l2 = (double)mach->l2, part = l2 > 0 ? (panel - l2 / 8) / (l2 - l2 / 8) : 0;

	return part < 0 ? 0 : part > 1 ? 1 : part;
}

/* Cycles of a step of the depth over the whole result: multiply-adds, or loads (two a cycle), or the
 * latency of too few sums; and what of b comes from behind the second cache. Loads decide between
 * equals. */
static double
cycles(const Machine *mach, const Tiling *p, int lanes, Shape t)
{
	int64_t n = p->n > 0 ? p->n : 64;
	double ports = mach->fma_ports ? mach->fma_ports : 1, step = t.vectors * mach->vector_bits / 8.0;
	double cost = fmax(t.rows * t.vectors / ports, (t.rows + t.vectors) / 2.0);
	double tiles = ceil((double)n / (t.vectors * lanes))
		* (p->m > 0 ? ceil((double)p->m / t.rows) : 1.0 / t.rows);

	cost = fmax(cost, mach->fma_latency) + missed(mach, p->depth * step) * step / FAR_BYTES;
	return tiles * (cost + 0.1 * (t.rows + t.vectors));
}

static Shape
cheapest(const Machine *mach, const Tiling *p, int lanes)
{
	Shape best = {1, 1}, t;
	double cost, least = INFINITY;

	for (t.vectors = 1; t.vectors <= MAX_VECTORS; t.vectors++) {
		t.rows = rows_beside(mach, p, t.vectors);
		if (t.rows < 1 || !keeps_block(p, t.vectors * lanes))
			continue;
		t.rows = equal_rows(p->m, t.rows);
		cost = cycles(mach, p, lanes, t);
		if (cost < least) {
			least = cost;
			best = t;
		}
	}
	return best;
}

/* The tile of the most columns that has all rows, or of the most rows. */
static Shape
tallest(const Machine *mach, const Tiling *p, int lanes)
{
	Shape best = {0, 1};
	int v, rows;

	for (v = MAX_VECTORS; v >= 1; v--) {
		rows = rows_beside(mach, p, v);
		if (p->m > 0 && rows > p->m)
			rows = (int)p->m;
		if (rows > best.rows && keeps_block(p, v * lanes))
			best = (Shape){rows, v};
	}
	return best.rows ? best : (Shape){1, 1};
}

/* ---- measured tiles -------------------------------------------------------------------------- */

static const char *
tile_text(Module *m, Shape t, int lanes)
{
	return arena_printf(m->arena, "tile=[%d,%d]", t.rows, t.vectors * lanes);
}

/* Takes the tile that the text names, if the registers and b's blocks allow it. */
static bool
take_tile(const Machine *mach, const Tiling *p, int lanes, const char *text, Shape *t)
{
	int rows, columns, end = 0;

	if (sscanf(text, "tile=[%d,%d]%n", &rows, &columns, &end) != 2 || text[end] || rows < 1
	 || columns < lanes || columns % lanes || columns / lanes > MAX_VECTORS
	 || rows > rows_beside(mach, p, columns / lanes) || !keeps_block(p, columns))
		return false;
	*t = (Shape){rows, columns / lanes};
	return true;
}

/* For each width the most rows and those of equal parts. */
static void
offer_tiles(Sched *s, const Tiling *p, int lanes, Decision *d)
{
	int v, rows;

	for (v = MAX_VECTORS; v >= 1; v--) {
		rows = rows_beside(s->mach, p, v);
		if (p->m > 0 && rows > p->m)
			rows = (int)p->m;
		if (rows < 1 || !keeps_block(p, v * lanes) || (p->n > 0 && (v - 1) * lanes >= p->n))
			continue;
		offer(d, tile_text(s->m, (Shape){rows, v}, lanes));
		offer(d, tile_text(s->m, (Shape){equal_rows(p->m, rows), v}, lanes));
	}
}

static const char *
size_text(Module *m, const char *what, int64_t n)
{
	return arena_printf(m->arena, n > 0 ? " %s=%lld" : " %s=?", what, (long long)n);
}

static Shape
tuned(Sched *s, Contraction *c, const Tiling *p, int lanes, Shape own)
{
	int64_t depth = 1;
	Decision *d;
	int i;

	for (i = 0; i < c->nred; i++)
		depth = sat_mul(depth, const_or(c->red[i]->in[0], 0));
	c->key = arena_printf(s->m->arena, "contract %s%s%s%s%s%s", dtypes[p->d].text,
		size_text(s->m, "m", p->m), size_text(s->m, "n", p->n), size_text(s->m, "k", depth),
		p->sums > 1 ? " blocks" : "", c->streams ? " streams" : "");
	d = decision(s->m, c->key);
	if (s->m->tuning->records) {
		offer(d, tile_text(s->m, own, lanes));
		offer_tiles(s, p, lanes, d);
	}
	c->tuned = d->choice && take_tile(s->mach, p, lanes, d->choice, &own);
	return own;
}

void
pick_registers(Sched *s, Contraction *c, const Tiling *p)
{
	int lanes = lanes_of(s, p->d);
	Shape t = c->streams ? tallest(s->mach, p, lanes) : cheapest(s->mach, p, lanes);

	if (s->m->tuning && !s->gpu)
		t = tuned(s, c, p, lanes, t);
	c->mr = t.rows;
	c->nr = t.vectors * lanes;
}
