/*
 * CPU schedule of the class contract: sums of products with reuse (matrix product, convolution,
 * einsum) in register tiles.
 *
 * A tile is MR rows (along one axis m that only the first factor reads) by NR columns (vectors
 * along the axis n that only the second one reads). Per step of the summed axes NR/lanes vectors of
 * b are loaded and each of MR values of a, broadcast, is multiplied into them: MR*NR/lanes
 * independent accumulators hide the latency of the multiply-adds (BLIS's model: at least ports *
 * latency), and MR*NR/lanes + NR/lanes + 1 must fit the registers (without the 1 where an
 * instruction broadcasts from memory). Of the tiles that fit, the one is taken that needs the
 * fewest cycles for all rows and columns, waste included. Constant b is stored in blocks of NR
 * columns, panels, in the order in which the loops read it (layout.c), so that it streams. All that
 * follows the sum in the definition (bias, activation, residual) is applied to the tile in
 * registers.
 *
 * The sum is not cut: a panel is streamed from the second cache, which vector loads overlap with
 * the multiply-adds. What must not come from further away while it is waited for is a panel's first
 * use, so the row tiles that use a panel in turn prefetch the next one, a share each; and rows are
 * taken in blocks that the second cache holds (the walk). Few rows that meet weights from memory
 * are bound by it: their tile has as many rows as the registers allow, so that one pass over the
 * weights does, and runs ahead in them.
 *
 * A sum over blocks of scaled sums (weights with a scale for each block) has two tiles: that of the
 * block, cleared for each, and that of the whole, to which it is added.
 *
 * Rows: the last tile is moved back to end at the last row where there are at least MR rows (some
 * rows are then computed twice, with equal results); fewer are taken by half a tile at once, the last one repeated. Columns past
 * the end are computed from padding or masked, and not stored.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sched.h"

enum {
	MIN_ROWS = 8,          /* of a tile */
	MIN_BLOCK = 64,        /* rows that reuse columns from the caches beyond the second */
	WAITING_ROWS = 4,      /* that a step's columns from the second cache take as long as */
	MAX_STEPS = 8,         /* from constants to what is read */
	PANEL_TILES = 3,       /* that pay spelling columns out in memory instead of in each */
};

/* Is e a step between a factor and its read? Its first operand leads there, a guard's second. */
static bool
leads_to_read(const Node *e, bool guards)
{
	switch (e->code) {
	case O_CAST: case O_TF32:
		return true;
	case O_SELECT:
		return guards && e->in[2]->code == O_NUM;
	case O_BITS: case O_SHR:                 /* some bits of a word */
		return !guards;
	case O_AND:
		return !guards && e->in[1]->code == O_NUM;
	default:
		return false;
	}
}

/* The largest of what arithmetic on constants reads (weights, beside their scales); NULL: it reads
 * something else. */
static Node *
constant_read(Node *e)
{
	Node **list, *best = NULL;
	int64_t size, most = 0, dims[MAX_RANK];
	int i, k, n;
	bool ok = true;

	list = topo_scalar(e, &n);
	for (i = 0; i < n && ok; i++) {
		ok = list[i]->code != O_REDUCE && list[i]->code != O_ITER && list[i]->code != O_SELECT;
		if (!ok || list[i]->code != O_READ)
			continue;
		ok = from_constants(list[i]->in[0], MAX_STEPS) && const_dims(list[i]->in[0], dims);
		for (k = 0, size = 1; ok && k < rank_of(list[i]->in[0]); k++)
			size = sat_mul(size, dims[k]);
		if (ok && size > most) {
			most = size;
			best = list[i];
		}
	}
	free(list);
	return ok ? best : NULL;
}

Node *
factor_read(Node *e, bool guards)
{
	Node *r = e;

	while (leads_to_read(r, guards))
		r = r->in[r->code == O_SELECT];
	return r->code == O_READ ? r : guards ? NULL : constant_read(e);
}

bool
spells_out(Node *factor)
{
	Node **list;
	int i, n, reads = 0, bits = 0;

	list = topo_scalar(factor, &n);
	for (i = 0; i < n; i++) {
		reads += list[i]->code == O_READ;
		bits += list[i]->code == O_SHR && list[i]->type->dtype != DT_INDEX;
	}
	free(list);
	return reads > 1 || bits > 0;
}

/* Axes of the tensor with extent that the factor does not depend on. */
static int
free_axes(Node *t, Node *factor, Node **axes)
{
	int i, n = 0;

	for (i = 0; i + 1 < t->nin; i++)
		if (!is_intv(t->in[i]->in[0], 1) && !contains(factor, t->in[i]))
			axes[n++] = t->in[i];
	return n;
}

bool
contraction_reuse(const Machine *mach, Node *t, Node *red)
{
	Node *mul = red->in[red->nin - 1], *x[MAX_RANK];

	return (mul->code == O_MUL || mul->code == O_DOT4 || mul->code == O_DOT2) && factor_read(mul->in[0], machine_gpu(mach))
		&& factor_read(mul->in[1], machine_gpu(mach)) && free_axes(t, mul->in[0], x)
		&& free_axes(t, mul->in[1], x);
}

bool
holds_product(const Machine *mach, Node *t, const Node *part)
{
	Node **list;
	int i, n;
	bool yes = false;

	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n && !yes; i++)
		yes = list[i]->code == O_REDUCE && list[i]->n == COMB_SUM
			&& (!part || contains(list[i], part)) && contraction_reuse(mach, t, list[i]);
	free(list);
	return yes;
}

/* Bytes of the model's constants. */
static int64_t
all_constants(Sched *s)
{
	Node **list;
	int i, n;

	if (s->constants)
		return s->constants;
	list = topo(s->m->main->results, s->m->main->nresults, true, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_CONST)
			s->constants += (int64_t)list[i]->data->size;
	free(list);
	return s->constants;
}

/* Is t what a loop carries, or computed from it in each round? */
static bool
in_loop(const Sched *s, const Node *t)
{
	const Region *r = map_get(&s->home, t);

	return r && r != s->m->main && r->nparams > 0;   /* an if's branches take nothing */
}

/* The extent where each symbol has its least value above 0. */
static int64_t
least_extent(Module *m, Node *extent)
{
	Map least = {0};
	Node **list;
	int i, n;

	list = topo_scalar(extent, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_SYM)
			map_put(&least, list[i], x_idx(m, list[i]->lo > 1 ? list[i]->lo : 1));
	free(list);
	extent = subst(m, extent, &least, false);
	map_free(&least);
	return const_or(extent, 1);
}

/* Do weights meet at most MAX_ROWS rows, as far as is known, once a run, and hold the caches too
 * little to be there in the next? Memory then gives the time: one tile takes all rows in one pass
 * over them. */
static bool
streams(Sched *s, const Node *t, const Contraction *c)
{
	int64_t dims[MAX_RANK], rows = 1, bytes;
	int k;

	if (s->gpu || !from_constants(c->b->in[0], MAX_STEPS) || !const_dims(c->b->in[0], dims)
	 || in_loop(s, c->a->in[0]))
		return false;
	bytes = dtypes[storage_type(dtype_of(c->b->in[0]))].bits / 8;
	for (k = 0; k < rank_of(c->b->in[0]); k++)
		bytes = sat_mul(bytes, dims[k]);
	for (k = 0; k + 1 < t->nin; k++)
		if (contains(c->ea, t->in[k]) && !contains(c->eb, t->in[k]))
			rows = sat_mul(rows, least_extent(s->m, t->in[k]->in[0]));
	return rows <= MAX_ROWS && (bytes > s->mach->l2
		|| (bytes > s->mach->l2 / 4 && all_constants(s) > 8 * s->mach->l2));
}

/* Is the axis, up to an offset, the last index of the read? */
static bool
runs_along(Module *m, Node *read, Node *axis)
{
	Node *c, *rest, *last = read->in[read->nin - 1];

	return read->nin > 1
		&& (last == axis || (linear_in(m, last, axis, &c, &rest) && is_intv(c, 1)));
}

/* Makes eb the factor that is read along the lanes, `along` if that is given. */
static bool
orient(Sched *s, Node *t, Contraction *c, Node *ea, Node *eb, const Node *along)
{
	Node *fa[MAX_RANK], *best = NULL;
	int na = free_axes(t, ea, fa), i, k;

	c->ea = ea;
	c->eb = eb;
	c->a = factor_read(ea, s->gpu);
	c->b = factor_read(eb, s->gpu);
	for (i = 0; i < na; i++)                 /* n: plain in b, longest; a given one on a CPU anywhere */
		for (k = 1; k < c->b->nin; k++)
			if ((!along || along == fa[i])
			 && (c->b->in[k] == fa[i] || runs_along(s->m, c->b, fa[i])
				|| (along && !s->gpu && contains(c->b, along)))
				&& (!best || const_or(fa[i]->in[0], 64) > const_or(best->in[0], 64)))
				best = fa[i];
	c->n = best;
	return best != NULL;
}

/* How well is the orientation: a constant b or one in panels, contiguous along n, many columns. */
static double
merit(Module *m, Contraction *c)
{
	double v = (double)const_or(c->n->in[0], 64);

	if (v > 64)
		v = 64;
	if (definition(c->b->in[0])->code == O_CONST || attr_find(c->b->in[0]->attrs, "block"))
		v += 200;
	if (runs_along(m, c->b, c->n))
		v += 100;
	return v;
}

static int
stride_rank(const Contraction *c, const Node *axis)
{
	int i;

	for (i = 1; i < c->a->nin; i++)
		if (c->a->in[i] == axis)
			return 100;                      /* plain: channels, innermost */
	for (i = 1; i < c->a->nin; i++)
		if (contains(c->a->in[i], axis))
			return i;
	return 0;
}

/* The columns of a block in which b is stored, 0 if it is not. */
static int
column_block(Sched *s, const Node *b)
{
	const Attr *a = attr_find(b->in[0]->attrs, "block");
	const Storage *st = map_get(&s->storage, b->in[0]);

	return st ? st->block : a && a->kind == A_INT && a->i > 0 && a->i <= 4096 ? (int)a->i : 0;
}

/* Is e a sum around red, of the same number of lanes? */
static bool
sums_blocks(const Sched *s, const Node *e, const Node *red)
{
	return !s->gpu && e->code == O_REDUCE && e->n == COMB_SUM && contains(e, red)
		&& dtypes[e->type->dtype].bits == dtypes[red->type->dtype].bits;
}

bool
contraction_along(Sched *s, Node *t, Node *along, Contraction *out)
{
	Node **list, *red = NULL, *whole = NULL, *mul;
	Contraction c[2] = {{0}};
	bool ok[2], other = false;
	int i, k, n, sums;
	int64_t m = 0;
	double rows = 1, depth;
	Tiling p;

	if (t->code != O_TENSOR)
		return false;
	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_REDUCE || list[i]->code == O_ITER) {
			if (list[i]->code == O_REDUCE && list[i]->n == COMB_SUM && !red
			 && contraction_reuse(s->mach, t, list[i]))
				red = list[i];
			else if (red && !whole && sums_blocks(s, list[i], red))
				whole = list[i];
			else
				other = true;
		}
	free(list);
	if (!red || other)
		return false;
	mul = red->in[red->nin - 1];
	ok[0] = orient(s, t, &c[0], mul->in[0], mul->in[1], along);
	ok[1] = orient(s, t, &c[1], mul->in[1], mul->in[0], along);
	if (!ok[0] && !ok[1])
		return false;
	i = !ok[0] || (ok[1] && merit(s->m, &c[1]) > merit(s->m, &c[0]));
	*out = c[i];
	out->swapped = i;
	out->reduce = red;
	out->whole = whole ? whole : red;
	for (k = 0; k + 1 < red->nin; k++) {     /* insertion by how a walks them */
		int rank = stride_rank(out, red->in[k]);
		for (i = out->nred; i > 0 && stride_rank(out, out->red[i - 1]) > rank; i--)
			out->red[i] = out->red[i - 1];
		out->red[i] = red->in[k];
		out->nred++;
	}
	for (k = 0; k + 1 < t->nin; k++)
		if (contains(out->ea, t->in[k]) && !contains(out->eb, t->in[k])) {
			m = const_or(t->in[k]->in[0], 0) > m ? const_or(t->in[k]->in[0], 0) : m;
			rows *= (double)likely_extent(s->m, t->in[k]->in[0]);
		}
	sums = whole && !transforms_product(s->m, t, out, &m) ? 2 : 1;
	for (k = 0, depth = rows > MAX_ROWS; k < out->nred; k++)
		depth *= (double)const_or(out->red[k]->in[0], 1);
	out->streams = streams(s, t, out);
	p = (Tiling){.d = red->type->dtype, .sums = sums, .m = m, .depth = depth,
		.n = const_or(out->n->in[0], 0), .block = column_block(s, out->b),
		.parts = mul->code == O_DOT4 ? machine_dot4(s->mach) : 1};
	if (!pick_unit(s, out, &p, rows))
		pick_registers(s, out, &p);
	out->recurs = out->mr > 1 && p.parts == 1 && in_loop(s, out->a->in[0]);
	return true;
}

bool
contraction_of(Sched *s, Node *t, Contraction *out)
{
	return contraction_along(s, t, NULL, out);
}

Node *
multiply_add(Module *m, const Contraction *c, Node *a, Node *b, Node *acc)
{
	Node *in[3] = {a, b, acc};

	if (c->reduce->in[c->reduce->nin - 1]->code == O_DOT4)
		return x_add(m, acc, c->swapped ? x2(m, O_DOT4, b, a) : x2(m, O_DOT4, a, b));
	if (c->reduce->in[c->reduce->nin - 1]->code == O_DOT2)
		return multiply_pairs(m, a, b, acc);
	return dt_float(acc->type->dtype) ? x_op(m, O_MULADD, 3, in, acc->type->dtype)
		: x_add(m, acc, x_mul(m, a, b));
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static bool
is_row(const Contraction *c, const Node *axis)
{
	return axis != c->n && contains(c->ea, axis) && !contains(c->eb, axis);
}

/*
 * Rows too short to fill tiles join their neighbours, though the result may not lie so (in a halo)
 * and its address then takes a division for each row of a tile.
 */
static bool
join_rows(KB *kb, Nest *nest, Contraction *c)
{
	int64_t v, parts;
	int k;

	for (k = nest->n - 2; k >= 0; k--) {
		if (!is_row(c, nest->axis[k]) || !is_row(c, nest->axis[k + 1]))
			continue;
		if (is_int(nest->axis[k + 1]->in[0], &v) && (parts = (v + MAX_ROWS - 1) / MAX_ROWS) > 0
		 && v / parts >= MIN_ROWS)
			continue;
		if (merge_rows(kb, nest, k, c->whole))
			return true;
	}
	return false;
}

/* Is the symbol the first dimension of an input? */
static bool
is_batch(const Module *m, const Node *sym)
{
	const SymDef *d;
	int i;

	for (i = 0; i < m->symdefs.n; i++) {
		d = m->symdefs.at[i];
		if (d->sym == sym)
			return d->axis == 0;
	}
	return false;
}

/* What the extent is likely to be: the first dimension of an input is a batch, often of 1. */
int64_t
likely_extent(Module *m, Node *extent)
{
	Map likely = {0};
	Node **list;
	int i, n;

	if (extent->code == O_NUM)
		return extent->num.i;
	list = topo_scalar(extent, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_SYM && is_batch(m, list[i]))
			map_put(&likely, list[i], x_idx(m, 1));
	free(list);
	extent = subst(m, extent, &likely, false);
	map_free(&likely);
	return const_or(extent, 64);
}

/* The rows: the fastest axis that only a reads, unless another fills tiles better. NULL: there
 * is none. */
static Node *
row_axis(Module *m, const Nest *nest, const Contraction *c)
{
	Node *best = NULL;
	int i;

	for (i = nest->n; i-- > 0;)
		if (is_row(c, nest->axis[i]) && (!best || (likely_extent(m, best->in[0]) < MIN_ROWS
			&& likely_extent(m, nest->axis[i]->in[0]) > likely_extent(m, best->in[0]))))
			best = nest->axis[i];
	return best;
}

/* The contraction over axes merged as far as possible. */
static bool
contraction_nest(KB *kb, Node *t, Nest *nest, Contraction *c)
{
	Node *v;

	*nest = nest_of(kb, t);
	do {
		v = t_tensor(kb->m, nest->n, nest->axis, nest->body);
		if (v->code != O_TENSOR || !contraction_of(kb->s, v, c))
			return false;
	} while (join_rows(kb, nest, c));
	return true;
}

/* ---- the walk -------------------------------------------------------------------------------- */

/*
 * The order in which units, a tile each, are computed: the axes that both factors read, blocks of
 * row tiles, column tiles, the row tiles of a block. What a block reads of a stays in the second
 * cache while all columns pass, and the columns of a tile while the block's rows pass.
 */
typedef struct Walk {
	int nshared, nouter;   /* axes that both factors read; axes beside the rows that only a reads */
	Node *shared[MAX_RANK], *outer[MAX_RANK];
	Node *rows, *cols;     /* row tiles of all outer axes; column tiles */
	int64_t block;         /* row tiles of a block at most, 0: all */
	Node *size;            /* of a block, where there are any */
	bool panel;            /* a unit is a block's row tiles, which may spell out their columns once */
} Walk;

/* A unit: its columns, its row tiles from first on (of all outer axes). count NULL: it is one, and
 * turn says which of the turns that use the columns. */
typedef struct Unit {
	const Walk *w;
	Tile *t;
	Node *tiles, *extent;  /* row tiles and rows of an outer axes' index */
	Node *first, *count, *turn, *turns;
	int64_t red[MAX_RANK]; /* how long the sums are */
} Unit;

/*
 * Threads share out units in order. Should each have some of the rows and read all of b, or some of
 * the columns and read all of a? What all read comes from memory or the caches of others, so that
 * it should be the smaller one; but the second cache must hold b for the blocks of rows that a
 * thread has in turn.
 */
static bool
shares_rows(const Sched *s, double a, double b)
{
	return b < a && b <= (double)s->mach->l2 / 2;
}

/* Row tiles of a block: as many as the second cache holds beside a tile's columns, and a block for
 * each core where threads share rows; 0: all. */
static int64_t
row_block(const Sched *s, const Walk *w, const Contraction *c)
{
	int64_t size = dtypes[dtype_of(c->b->in[0])].bits / 8, depth = 1, rows = 1, blocks, n,
		cores = s->mach->cores > 1 ? s->mach->cores : 1;
	const Type *a = c->a->in[0]->type;
	double bytes = (double)dtypes[a->dtype].bits / 8, room, panel;
	int i;

	for (i = 0; i < c->nred; i++)
		depth = sat_mul(depth, likely_extent(s->m, c->red[i]->in[0]));
	for (i = 0; i < a->rank; i++)
		bytes *= (double)likely_extent(s->m, a->dims[i]);
	for (i = 0; i < w->nshared; i++)
		bytes /= (double)likely_extent(s->m, w->shared[i]->in[0]);
	rows = likely_extent(s->m, w->rows);
	panel = (double)sat_mul(depth, (size > 0 ? size : 1) * c->nr);
	room = (double)s->mach->l2 * 3 / 4 - 2 * panel;      /* this one and the next one */
	if (room < (double)s->mach->l2 / 4)
		room = (double)s->mach->l2 / 4;
	if (rows < 2 || is_intv(w->cols, 1))
		return 0;
	n = bytes > room ? (int64_t)(room / (bytes / (double)rows)) : rows;
	n = n * c->mr < MIN_BLOCK ? (MIN_BLOCK + c->mr - 1) / c->mr : n;
	blocks = (rows + n - 1) / n;
	if (shares_rows(s, bytes, panel * (double)likely_extent(s->m, w->cols))
	 && rows * c->mr >= cores * MIN_BLOCK)
		blocks = (blocks + cores - 1) / cores * cores;
	return blocks > 1 ? (rows + blocks - 1) / blocks : 0;
}

/* Threads that share rows have equal parts of them, in all kernels the same, so that each finds what it
 * made before: blocks of rows whose number is not known are small enough to be one for each core. */
static Node *
block_size(const Sched *s, const Walk *w, const Contraction *c)
{
	Node *size = x_idx(s->m, w->block);
	int cores = s->mach->cores > 1 ? s->mach->cores : 1;

	if (w->rows->code == O_NUM || !w->block)
		return size;
	return x_min(s->m, size, x_max(s->m, x_ceildiv(s->m, w->rows, x_idx(s->m, cores)),
		x_idx(s->m, (MIN_BLOCK + c->mr - 1) / c->mr)));
}

static Walk
walk_of(KB *kb, const Nest *nest, const Contraction *c, Node *row, Node *tiles)
{
	Module *m = kb->m;
	Walk w = {.cols = x_ceildiv(m, c->n->in[0], x_idx(m, c->nr)), .rows = tiles};
	int i;

	for (i = 0; i < nest->n; i++)
		if (nest->axis[i] == c->n || nest->axis[i] == row)
			continue;
		else if (contains(c->eb, nest->axis[i]))
			w.shared[w.nshared++] = nest->axis[i];
		else
			w.outer[w.nouter++] = nest->axis[i];
	w.rows = x_mul(m, axes_product(m, w.nouter, w.outer), tiles);
	w.block = row_block(kb->s, &w, c);
	w.size = block_size(kb->s, &w, c);
	return w;
}

static Node *
name_digit(KB *kb, Region *r, Node *e)
{
	return is_intv(e, 0) ? e : l_let(kb->m, r, e);
}

/* Quotient and remainder of *rest by n, the quotient left in *rest. */
static Node *
take_digit(KB *kb, Region *r, Node **rest, Node *n)
{
	Node *digit = name_digit(kb, r, x_mod(kb->m, *rest, n));

	*rest = x_fdiv(kb->m, *rest, n);
	return digit;
}

/* Where the unit is: the axes that both factors read into map, its columns and row tiles. */
static Node *
place_unit(KB *kb, Region *r, Node *unit, Map *map, Unit *u)
{
	const Walk *w = u->w;
	Module *m = kb->m;
	Node *rest = unit, *row, *block = w->block ? name_digit(kb, r, w->size) : w->rows, *nt;
	int i;

	if (w->panel) {
		nt = take_digit(kb, r, &rest, w->cols);
		u->first = x_mul(m, take_digit(kb, r, &rest, x_ceildiv(m, w->rows, block)), block);
		u->count = x_min(m, block, x_sub(m, w->rows, u->first));
	} else if (w->block) {
		row = take_digit(kb, r, &rest, x_mul(m, w->rows, w->cols));
		u->first = x_mul(m, name_digit(kb, r, x_fdiv(m, row, x_mul(m, block, w->cols))), block);
		row = name_digit(kb, r, x_sub(m, row, x_mul(m, u->first, w->cols)));
		block = block->code == O_NUM && divisible(w->rows, (int)w->block) ? block
			: l_let(m, r, x_min(m, block, x_sub(m, w->rows, u->first)));
		nt = name_digit(kb, r, x_fdiv(m, row, block));
		u->turn = name_digit(kb, r, x_mod(m, row, block));
		u->turns = block;
		u->first = x_add(m, u->first, u->turn);
	} else {
		u->turn = u->first = take_digit(kb, r, &rest, w->rows);
		u->turns = w->rows;
		nt = take_digit(kb, r, &rest, w->cols);
	}
	for (i = w->nshared; i-- > 0;)
		map_put(map, w->shared[i], i ? take_digit(kb, r, &rest, w->shared[i]->in[0])
			: name_digit(kb, r, rest));
	return nt;
}

/* The tile at the values that the map has for axes. */
static void
tile_at(Tile *t, Map *map)
{
	Module *m = t->kb->m;
	Contraction *c = t->c;
	int d;

	for (d = 0; d < rank_of(t->t); d++)
		t->idx[d] = subst(m, t->idx[d], map, false);
	t->body = subst(m, t->body, map, false);
	c->reduce = subst(m, c->reduce, map, false);
	c->whole = subst(m, c->whole, map, false);
	c->ea = subst(m, c->ea, map, false);
	c->eb = subst(m, c->eb, map, false);
}

static void
row_tile(KB *kb, Region *r, const Unit *u, Node *row)
{
	const Walk *w = u->w;
	Tile t = *u->t;
	Contraction c = *t.c;
	Node *mt = w->nouter ? take_digit(kb, r, &row, u->tiles) : name_digit(kb, r, row);
	Map map = {0};
	int i;

	for (i = w->nouter; i-- > 0;)
		map_put(&map, w->outer[i], i ? take_digit(kb, r, &row, w->outer[i]->in[0])
			: name_digit(kb, r, row));
	t.c = &c;
	tile_at(&t, &map);
	map_free(&map);
	tile_rows(&t, r, mt, u->extent);
}

/* The unit's row tiles in turn. */
static Region *
row_tiles(KB *kb, Unit u, bool panel)
{
	Module *m = kb->m;
	Tile t = *u.t;
	Contraction c = *t.c;
	Region *r = region_new(m, NULL), *in = region_new(m, NULL);
	Node *i = x_axis(m, u.count);

	u.t = &t;
	t.c = &c;
	t.turns = panel ? NULL : u.count;
	t.turn = i;
	if (panel)
		copy_panel(kb, r, &c, t.n0, u.red);
	t.padded |= panel;
	row_tile(kb, in, &u, x_add(m, u.first, i));
	l_for(m, r, F_SERIAL, i, in);
	return r;
}

static void
emit_unit(KB *kb, Region *r, void *ctx)
{
	const Unit *u = ctx;

	if (u->count)
		l_when(kb->m, r, x_le(kb->m, x_idx(kb->m, PANEL_TILES), u->count), row_tiles(kb, *u, true),
			row_tiles(kb, *u, false));
	else
		row_tile(kb, r, u, u->first);
}

/* Are there columns to spell out, and is there room to do so for several row tiles at once? */
static bool
spells_panels(const Sched *s, const Walk *w, const Contraction *c, Unit *u)
{
	int64_t bytes;
	int i;

	for (i = 0; i < c->nred; i++)
		u->red[i] = const_or(c->red[i]->in[0], -1);
	bytes = panel_bytes(c, u->red);
	return c->eb->code != O_READ && c->whole == c->reduce && from_constants(c->b->in[0], MAX_STEPS)
		&& bytes > 0 && bytes <= s->mach->l2 / 2 && const_or(w->rows, PANEL_TILES) >= PANEL_TILES;
}

/* Cost units of a tile's step (launch.c). One of few rows waits for its columns. */
static Node *
tile_units(Module *m, const Contraction *c, Node *rows)
{
	rows = rows ? x_min(m, x_idx(m, c->mr), rows) : x_idx(m, 1);
	return x_ceildiv(m, x_muli(m, x_max(m, rows, x_idx(m, WAITING_ROWS)), c->nr), x_idx(m, 4));
}

/* Rows of the lower tile, if there may be few more rows than the tile has: one and a bit waste half. */
static int
lower_tile(Module *m, const Contraction *c, Node *extent)
{
	int64_t v;

	return c->unit || c->recurs || c->mr < MIN_ROWS || is_int(extent, &v)
		|| least_extent(m, extent) >= 2 * c->mr ? 0 : c->mr * 2 / 3;
}

Kernel *
contract_cpu(Sched *s, Group *g)
{
	Contraction c;
	Node *t = g->members[0], *units;
	Module *m = s->m;
	KB kb = kb_new(s, g->loc);
	Tile tl = {0};
	Nest nest;
	Walk w;
	Unit u = {.w = &w, .t = &tl};
	Region *body = region_new(m, NULL), *in = region_new(m, NULL);
	Map map = {0};
	int i;
	int64_t rows;
	double flops = 2;

	if (!contraction_of(s, t, &c))
		return NULL;
	if (transforms_product(m, t, &c, &rows))
		return transformed_cpu(s, g, &c);
	if (!contraction_nest(&kb, t, &nest, &c))
		return NULL;
	tl = (Tile){
		.kb = &kb, .c = &c, .t = t, .body = nest.body, .lanes = lanes_of(s, c.reduce->type->dtype)};
	memcpy(tl.idx, nest.out_idx, sizeof tl.idx);
	tl.vecs = c.nr / tl.lanes;
	tl.m = row_axis(m, &nest, &c);
	u.extent = tl.m ? tl.m->in[0] : NULL;
	if (c.unit)
		unit_rows(&c, tl.m ? const_or(u.extent, 0) : 1);
	else if (tl.m && const_or(u.extent, c.mr) < c.mr)
		c.mr = (int)const_or(u.extent, 1);
	c.low = tl.m ? lower_tile(m, &c, u.extent) : 0;
	u.tiles = tl.m ? row_tiles_of(m, &c, u.extent) : x_idx(m, 1);
	w = walk_of(&kb, &nest, &c, tl.m, u.tiles);
	w.panel = tl.m && spells_panels(s, &w, &c, &u);
	units = w.panel ? w.block ? x_ceildiv(m, w.rows, w.size) : x_idx(m, 1) : w.rows;
	units = x_mul(m, x_mul(m, axes_product(m, w.nshared, w.shared), units), w.cols);
	tl.n0 = x_muli(m, place_unit(&kb, in, kb_units(&kb, g, in, units), &map, &u), c.nr);
	if (c.whole == c.reduce) {
		tl.turns = u.turns;
		tl.others = axes_product(m, w.nouter, w.outer);
	}
	tl.turn = u.turn;
	tile_at(&tl, &map);
	map_free(&map);
	if (c.unit)
		unit_begin(&tl, in);
	kb_versions(&kb, in, tl.body, emit_unit, &u);
	for (i = 0; i < c.nred; i++)
		flops *= (double)const_or(c.red[i]->in[0], 128);
	kb.k->flops = flops * c.mr * c.nr;
	kb.k->cost = x_mul(m, axes_product(m, c.nred, c.red), tile_units(m, &c, u.extent));
	if (w.panel) {
		kb.k->flops *= (double)(w.block ? w.block : likely_extent(m, w.rows));
		kb.k->cost = x_mul(m, kb.k->cost, w.block ? w.size : w.rows);
	}
	kb_parallel(&kb, body, in);
	kb.k->decision = c.key;
	require_choice(m, c.key, g->loc);
	if (c.key && decision(m, c.key)->choice && !c.tuned)
		diag_warn(m->diag, g->loc, "%s does not fit '%s': the estimate chooses",
			decision(m, c.key)->choice, c.key);
	return kb_finish(&kb, body, arena_printf(m->arena, "class=contract, tile=[%d,%d]%s%s%s", c.mr, c.nr,
		c.tuned ? ", tuned" : "", c.unit ? ", unit=" : "", c.unit ? c.unit->name : ""));
}
