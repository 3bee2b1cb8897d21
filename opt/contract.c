/*
 * CPU schedule of the class contract: sums of products with reuse (matrix product, convolution,
 * einsum) in register tiles.
 *
 * A tile is MR rows (along one axis m that only the first factor reads) by NR columns (vectors
 * along the axis n that only the second one reads). Per step of the summed axes NR/lanes vectors of
 * b are loaded and each of MR values of a, broadcast, is multiplied into them: MR*NR/lanes
 * independent accumulators hide the latency of the multiply-adds (BLIS's model: at least ports *
 * latency), and MR*NR/lanes + NR/lanes + 1 must fit the registers. Constant b is stored in blocks
 * of NR columns in the order in which the loops read it (layout.c), so that it streams. All that
 * follows the sum in the definition (bias, activation, residual) is applied to the tile in
 * registers.
 *
 * Rows: the last tile is moved back to end at the last row where there are at least MR rows (some
 * rows are then computed twice, with equal results); with fewer, one row at a time. Columns past
 * the end are computed from padding or masked, and not stored.
 */
#include <stdlib.h>
#include <string.h>
#include "sched.h"

enum { MAX_ROWS = 14, MIN_ROWS = 8 };   /* of a tile */

/* The read in a factor, under casts and roundings; on a GPU also under a guard with a constant beside it
 * (padding). */
static Node *
factor_read(Node *e, bool guards)
{
	while (e->code == O_CAST || e->code == O_TF32 || (guards && e->code == O_SELECT && e->in[2]->code == O_NUM))
		e = e->in[e->code == O_SELECT];
	return e->code == O_READ ? e : NULL;
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

	return (mul->code == O_MUL || mul->code == O_DOT4) && factor_read(mul->in[0], machine_gpu(mach))
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

/* The tile for n columns and m rows: fewest padded columns, then most rows. */
static void
tile_for(Sched *s, DType d, int64_t n, int64_t m, int *nr, int *mr)
{
	int lanes = lanes_of(s, d), v, rows, best_v = 1;
	int regs = s->mach->vector_regs ? s->mach->vector_regs : 16;
	double score, best = -1;

	for (v = 1; v <= 4; v++) {
		rows = (regs - v - 1) / v;
		if (rows < 2)
			continue;
		rows = rows > MAX_ROWS ? MAX_ROWS : rows;
		score = (double)n / (double)((n + v * lanes - 1) / (v * lanes) * (v * lanes));
		score *= (double)(rows * v) / (double)(rows + v);   /* multiply-adds a load */
		if (v * rows < 8)
			score *= 0.5;
		if (score > best) {
			best = score;
			best_v = v;
		}
	}
	rows = (regs - best_v - 1) / best_v;
	if (rows > MAX_ROWS)
		rows = MAX_ROWS;
	if (m > 0) {                             /* equal parts */
		int64_t parts = (m + rows - 1) / rows;
		rows = (int)((m + parts - 1) / parts);
	}
	*nr = best_v * lanes;
	*mr = rows;
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
	for (i = 0; i < na; i++)                 /* n: plain in b, longest */
		for (k = 1; k < c->b->nin; k++)
			if ((!along || along == fa[i])
			 && (c->b->in[k] == fa[i] || runs_along(s->m, c->b, fa[i]))
				&& (!best || const_or(fa[i]->in[0], 64) > const_or(best->in[0], 64)))
				best = fa[i];
	c->n = best;
	return best != NULL;
}

/* How well is the orientation: a constant b, contiguous along n, many columns. */
static double
merit(Module *m, Contraction *c)
{
	double v = (double)const_or(c->n->in[0], 64);

	if (v > 64)
		v = 64;
	if (definition(c->b->in[0])->code == O_CONST)
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

bool
contraction_along(Sched *s, Node *t, Node *along, Contraction *out)
{
	Node **list, *red = NULL, *mul;
	Contraction c[2] = {{0}};
	bool ok[2], other = false;
	int i, k, n;
	int64_t m = 0;

	if (t->code != O_TENSOR)
		return false;
	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_REDUCE || list[i]->code == O_ITER) {
			if (list[i]->code == O_REDUCE && list[i]->n == COMB_SUM && !red
			 && contraction_reuse(s->mach, t, list[i]))
				red = list[i];
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
	for (k = 0; k + 1 < red->nin; k++) {     /* insertion by how a walks them */
		int rank = stride_rank(out, red->in[k]);
		for (i = out->nred; i > 0 && stride_rank(out, out->red[i - 1]) > rank; i--)
			out->red[i] = out->red[i - 1];
		out->red[i] = red->in[k];
		out->nred++;
	}
	for (k = 0; k + 1 < t->nin; k++)
		if (contains(out->ea, t->in[k]) && !contains(out->eb, t->in[k]))
			m = const_or(t->in[k]->in[0], 0) > m ? const_or(t->in[k]->in[0], 0) : m;
	tile_for(s, red->type->dtype, const_or(out->n->in[0], 64), m, &out->nr, &out->mr);
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
	return dt_float(acc->type->dtype) ? x_op(m, O_MULADD, 3, in, acc->type->dtype)
		: x_add(m, acc, x_mul(m, a, b));
}

/* ---- the kernel ------------------------------------------------------------------------------ */

typedef struct Rows { Tile *t; Node *mt, *extent; } Rows;

static void
all_rows(KB *kb, Region *r, void *ctx)
{
	const Rows *c = ctx;

	(void)kb;
	tile_rows(c->t, r, c->mt, c->extent);
}

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
		if (merge_rows(kb, nest, k, c->reduce))
			return true;
	}
	return false;
}

/* What the extent is likely to be: the first dimension of an input is a batch, often of 1. */
int64_t
likely_extent(Module *m, Node *extent)
{
	Node **list;
	SymDef *d;
	int64_t v = 1;
	int i, k, n;

	if (extent->code == O_NUM)
		return extent->num.i;
	list = topo_scalar(extent, &n);
	for (i = 0; i < n; i++) {
		if (list[i]->code != O_SYM)
			continue;
		for (k = 0; k < m->symdefs.n && ((SymDef *)m->symdefs.at[k])->sym != list[i]; k++)
			;
		d = k < m->symdefs.n ? m->symdefs.at[k] : NULL;
		v = !d || d->axis > 0 ? 64 : v;
	}
	free(list);
	return v;
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

Kernel *
contract_cpu(Sched *s, Group *g)
{
	Contraction c;
	Node *t = g->members[0], *rest, *units = x_idx(s->m, 1), *ext[MAX_RANK + 2],
		*digit[MAX_RANK + 2], *mt = NULL;
	Module *m = s->m;
	KB kb = kb_new(s, g->loc);
	Tile tl = {0};
	Nest nest;
	Region *body = region_new(m, NULL), *in = region_new(m, NULL);
	Node *outer[MAX_RANK], *mext = NULL;
	Map map = {0};
	int i, d, nouter = 0, n = 0;
	double flops = 2;

	if (!contraction_of(s, t, &c) || !contraction_nest(&kb, t, &nest, &c))
		return NULL;
	tl = (Tile){
		.kb = &kb, .c = &c, .t = t, .body = nest.body, .lanes = lanes_of(s, c.reduce->type->dtype)};
	tl.vecs = c.nr / tl.lanes;
	tl.m = row_axis(m, &nest, &c);
	for (i = 0; i < nest.n; i++)
		if (nest.axis[i] != c.n && nest.axis[i] != tl.m)
			outer[nouter++] = nest.axis[i];
	ext[n++] = x_ceildiv(m, c.n->in[0], x_idx(m, c.nr));
	for (i = 0; i < nouter; i++)
		ext[n++] = outer[i]->in[0];
	if (tl.m) {
		mext = tl.m->in[0];
		if (const_or(mext, c.mr) < c.mr)
			c.mr = (int)const_or(mext, 1);
		ext[n++] = x_ceildiv(m, mext, x_idx(m, c.mr));
	}
	for (i = 0; i < n; i++)
		units = x_mul(m, units, ext[i]);
	rest = kb_units(&kb, g, in, units);
	for (i = n; i-- > 0;) {
		digit[i] = is_intv(ext[i], 1) ? x_idx(m, 0)
			: l_let(m, in, i ? x_mod(m, rest, ext[i]) : rest);
		rest = x_fdiv(m, rest, ext[i]);
	}
	tl.n0 = x_muli(m, digit[0], c.nr);
	if (tl.m)
		mt = digit[n - 1];
	for (i = 0; i < nouter; i++)
		map_put(&map, outer[i], digit[i + 1]);
	for (d = 0; d < rank_of(t); d++)
		tl.idx[d] = subst(m, nest.out_idx[d], &map, false);
	tl.body = subst(m, tl.body, &map, false);
	c.reduce = subst(m, c.reduce, &map, false);
	c.ea = subst(m, c.ea, &map, false);
	c.eb = subst(m, c.eb, &map, false);
	map_free(&map);
	kb_versions(&kb, in, tl.body, all_rows, &(Rows){&tl, mt, mext});
	for (i = 0; i < c.nred; i++)
		flops *= (double)const_or(c.red[i]->in[0], 128);
	kb.k->flops = flops * c.mr * c.nr / 8;
	kb_parallel(&kb, body, in);
	return kb_finish(&kb, body, arena_printf(m->arena, "class=contract, tile=[%d,%d]", c.mr, c.nr));
}
