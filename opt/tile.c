/*
 * Register tiles: the loops of a sum of products over MR rows and NR columns (contract.c tells how
 * they are chosen).
 */
#include <stdlib.h>
#include "sched.h"

enum {
	AHEAD = 4096,          /* bytes from a load to the prefetch beside it */
	MAX_FETCHES = 8,       /* at once */
	MAX_WRITTEN = 128,     /* multiply-adds of vectors in a row */
};

Node *
tile_row(Tile *t, Node *i)
{
	Node *row = t->m ? x_add(t->kb->m, t->m0, i) : i;

	if (t->last)
		row = x_min(t->kb->m, row, t->last);
	return t->base ? x_add(t->kb->m, t->base, row) : row;
}

/* e at the tile's row i (NULL: it has none) and column col. */
static Node *
at(Tile *t, Node *e, Node *i, Node *col)
{
	Module *m = t->kb->m;
	Map map = {0};
	Node *row = i ? tile_row(t, i) : NULL, *left[MAX_DIVISIONS], *q;
	Division *d;
	int k;

	map_put(&map, t->c->n, col);
	if (t->m)
		map_put(&map, t->m, row);
	for (k = 0; k < t->ndivisions && row; k++) {
		d = &t->division[k];
		q = l_load(m, d->q, 1, &i);
		left[k] = x_sub(m, d->base < 0 ? row : left[d->base], x_mul(m, q, d->by));
		map_put(&map, d->div, q);
		map_put(&map, d->mod, left[k]);
	}
	e = subst(m, e, &map, false);
	map_free(&map);
	return e;
}

static Node *
col_at(Tile *t, Node *j, Node *v)
{
	Module *m = t->kb->m;

	return x_add(m, t->n0, x_add(m, x_muli(m, j, t->lanes), v));
}

/* What the sums begin with. */
static void
begin(Tile *t, Region *r)
{
	Module *m = t->kb->m;
	Node *i = x_axis(m, x_idx(m, t->rows)), *j = x_axis(m, x_idx(m, t->vecs)),
		*v = x_axis(m, x_idx(m, t->lanes)), *col = col_at(t, j, v),
		*zero = x_int(m, t->acc->type->dtype, 0), *first = zero;
	Region *ri = region_new(m, NULL), *rj = region_new(m, NULL), *rv = region_new(m, NULL);

	if (t->init) {
		first = at(t, t->init, i, col);
		if (t->mask)
			first = x_select(m, x_lt(m, col, t->c->n->in[0]), first, zero);
	}
	t->kb->in_vector = t->lanes;
	l_store(m, rv, t->acc, 3, (Node *[]){i, j, v}, kb_emit(t->kb, rv, first));
	t->kb->in_vector = 0;
	l_for(m, rj, F_VECTOR, v, rv);
	l_for(m, ri, F_UNROLL, j, rj);
	l_for(m, r, F_UNROLL, i, ri);
}

/* Are b's columns stored in blocks that hold the tile? Sums of what is past the last one go nowhere. */
static bool
is_padded(const Tile *t)
{
	const Node *b = t->c->b->in[0];
	const Storage *st;

	if (t->padded)
		return true;
	if (spells_out(t->c->eb) && t->c->whole == t->c->reduce)
		return false;                        /* the other reads are not */
	st = storage_of(t->kb->s, (Node *)b);
	return st->block > 0 && st->block % (t->vecs * t->lanes) == 0;
}

/* acc[i][j][v] += a(row i) * b(column j, v). Row by row: the few vectors of b stay in registers,
 * and one value of a. */
static void
step(Tile *t, Region *r, Node *ea, Node *eb)
{
	Module *m = t->kb->m;
	Node *i = x_axis(m, x_idx(m, t->rows)), *j = x_axis(m, x_idx(m, t->vecs)),
		*v = x_axis(m, x_idx(m, t->lanes));
	Region *ri = region_new(m, NULL), *rj = region_new(m, NULL), *rv = region_new(m, NULL);
	Node *col = col_at(t, j, v), *b = at(t, eb, NULL, col), *in[3], *idx[3] = {i, j, v};

	if (t->mask && !is_padded(t))
		b = x_select(m, x_lt(m, col, t->c->n->in[0]), b, x_int(m, b->type->dtype, 0));
	in[0] = l_let(m, ri, kb_emit(t->kb, ri, at(t, ea, i, NULL)));
	t->kb->in_vector = t->lanes;
	in[1] = kb_emit(t->kb, rv, b);
	in[2] = l_load(m, t->acc, 3, idx);
	l_store(m, rv, t->acc, 3, idx, multiply_add(m, t->c, in[0], in[1], in[2]));
	t->kb->in_vector = 0;
	l_for(m, rj, F_VECTOR, v, rv);
	l_for(m, ri, F_UNROLL, j, rj);
	l_for(m, r, F_UNROLL, i, ri);
}

static void
finish(Tile *t, Region *r)
{
	Module *m = t->kb->m;
	Node *i = x_axis(m, x_idx(m, t->rows)), *j = x_axis(m, x_idx(m, t->vecs)),
		*v = x_axis(m, x_idx(m, t->lanes));
	Region *ri = region_new(m, NULL), *rj = region_new(m, NULL), *rv = region_new(m, NULL),
		*in = rv;
	Node *col = col_at(t, j, v), *sum = l_load(m, t->acc, 3, (Node *[]){i, j, v}), *idx[MAX_RANK];
	Map map = {0};
	Node *e;
	int d;

	if (t->mask)
		in = region_new(m, NULL);
	map_put(&map, t->c->whole, sum);
	e = subst(m, t->body, &map, false);
	map_free(&map);
	t->kb->in_vector = t->lanes;
	e = kb_emit(t->kb, in, at(t, e, i, col));
	for (d = 0; d < rank_of(t->t); d++)
		idx[d] = at(t, t->idx[d], i, col);
	kb_put(t->kb, in, t->t, idx, e);
	t->kb->in_vector = 0;
	if (t->mask)
		l_when(m, rv, x_lt(m, col, t->c->n->in[0]), in, NULL);
	l_for(m, rj, F_VECTOR, v, rv);
	l_for(m, ri, F_UNROLL, j, rj);
	l_for(m, r, t->c->unit ? F_SERIAL : F_UNROLL, i, ri);
}

/* Where step 0 of the sum finds column col of b. */
static Node *
columns_at(Tile *t, Node *col)
{
	Node *b = factor_read(t->c->eb, false), *idx[MAX_RANK];
	Map map = {0};
	int i;

	map_put(&map, t->c->n, col);
	for (i = 0; i < t->c->nred; i++)
		map_put(&map, t->c->red[i], x_idx(t->kb->m, 0));
	for (i = 1; i < b->nin; i++)             /* a read at constants would be the constant's element */
		idx[i - 1] = subst(t->kb->m, b->in[i], &map, false);
	map_free(&map);
	return kb_address(t->kb, b->in[0], idx);
}

/*
 * Row tiles use a panel of columns in turn, and each brings its share of the next panel, evenly
 * over its steps: the first tile would else wait for all of it. A tile that is alone with its panel
 * runs ahead in it. Here for `steps` steps (0: not known) of `depth` from step k; false if that is
 * too much at once.
 */
static bool
fetch_ahead(Tile *t, Region *r, Node *k, int64_t steps, Node *depth, Node *share)
{
	Module *m = t->kb->m;
	Node *b = factor_read(t->c->eb, false)->in[0], *at;
	int64_t size = dtypes[storage_type(dtype_of(b))].bits / 8, n, i,
		line = t->kb->s->mach->line / size;

	if (!t->turns || !is_padded(t) || !line)
		return true;
	n = sat_mul(steps, const_or(share, line));
	if (steps != 1 && (steps == 0 || n > MAX_FETCHES * line))
		return false;
	if (is_intv(t->turns, 1))
		at = x_add(m, x_addi(m, columns_at(t, t->n0), AHEAD / size), x_mul(m, k, share));
	else {
		at = t->ahead ? x_add(m, columns_at(t, t->n0), t->ahead)
			: columns_at(t, x_addi(m, t->n0, t->c->nr));
		at = x_add(m, at, x_mul(m, x_add(m, x_mul(m, t->turn, depth), k), share));
	}
	for (i = 0; i < n; i += line)
		l_prefetch(m, r, kb_buffer(t->kb, b, false), legalize(m, x_addi(m, at, i)));
	return true;
}

/* Is the place known without reading? */
static bool
is_place(int n, Node *const *idx)
{
	Node **list;
	int i, k, count;
	bool yes = true;

	for (i = 0; i < n && yes; i++) {
		list = topo_scalar(idx[i], &count);
		for (k = 0; k < count && yes; k++)
			yes = list[k]->code != O_READ;
		free(list);
	}
	return yes;
}

/* Are the rows that a tile reads one piece of memory, in which step follows step, and does the
 * first cache hold it? */
static bool
rows_join(Tile *t, Node *ea)
{
	const Contraction *c = t->c;
	Node *a = factor_read(ea, false), *n;
	int64_t depth = 1, size = dtypes[storage_type(dtype_of(a->in[0]))].bits / 8;
	int i;

	if (!t->turns || is_intv(t->turns, 1) || !t->m || t->rows != c->mr
	 || !is_place(a->nin - 1, a->in + 1))
		return false;
	for (i = c->nred; i-- > 0; depth = sat_mul(depth, const_or(c->red[i]->in[0], 0)))
		if (!(n = elem_stride(t->kb, a, c->red[i])) || !is_intv(n, depth))
			return false;
	return depth > 0 && sat_mul(depth, t->rows * size) <= t->kb->s->mach->l1
		&& (n = elem_stride(t->kb, a, t->m)) && is_intv(n, depth);
}

/* At step k, brings that part of the rows that the next tile reads: they come from memory or
 * another core's cache, and a tile walks them all at once, which processors do not follow. */
static void
fetch_rows(Tile *t, Region *r, Node *ea, Node *k)
{
	Module *m = t->kb->m;
	Node *a = factor_read(ea, false), *idx[MAX_RANK];
	Map map = {0};
	int i;

	map_put(&map, t->m, tile_row(t, x_idx(m, t->rows)));
	for (i = 0; i < t->c->nred; i++)
		map_put(&map, t->c->red[i], x_idx(m, 0));
	for (i = 1; i < a->nin; i++)
		idx[i - 1] = subst(m, a->in[i], &map, false);
	map_free(&map);
	l_prefetch(m, r, kb_buffer(t->kb, a->in[0], false),
		legalize(m, x_add(m, kb_address(t->kb, a->in[0], idx), x_muli(m, k, t->rows))));
}

/* The element at a place, and on from it what a vector's lanes take. */
static void
fetch_element(Tile *t, Region *r, Node *tensor, Node *const *idx)
{
	l_prefetch(t->kb->m, r, kb_buffer(t->kb, tensor, tensor == t->t),
		legalize(t->kb->m, kb_address(t->kb, tensor, idx)));
}

/* Does a read lie along the tile's columns, in places of its own for each row, in memory? */
static bool
follows_tile(Tile *t, Node *read)
{
	Node *n;

	return read->code == O_READ && !map_get(&t->kb->local, read->in[0])
		&& is_place(read->nin - 1, read->in + 1)
		&& (n = elem_stride(t->kb, read, t->c->n)) && is_intv(n, 1)
		&& (n = elem_stride(t->kb, read, t->m)) && !is_intv(n, 0);
}

/*
 * The places that the finished tile is put to, and what it meets there, are asked for before the
 * sums begin: another core may have them. Not where weights stream: memory has enough to bring.
 */
static void
fetch_result(Tile *t, Region *r)
{
	Module *m = t->kb->m;
	Node *i = x_axis(m, x_idx(m, t->rows)), *j = x_axis(m, x_idx(m, t->vecs)),
		*col = col_at(t, j, x_idx(m, 0)), *idx[MAX_RANK], **list;
	Region *ri = region_new(m, NULL), *rj = region_new(m, NULL);
	int d, k, n;

	if (!t->turns || t->c->streams || !t->m || t->rows != t->c->mr || map_get(&t->kb->local, t->t)
	 || !is_place(rank_of(t->t), t->idx))
		return;
	for (d = 0; d < rank_of(t->t); d++)
		idx[d] = at(t, t->idx[d], i, col);
	fetch_element(t, rj, t->t, idx);
	list = topo_scalar(subst1(m, t->body, t->c->whole, x_int(m, t->c->whole->type->dtype, 0)), &n);
	for (k = 0; k < n; k++)
		if (follows_tile(t, list[k])) {
			for (d = 1; d < list[k]->nin; d++)
				idx[d - 1] = at(t, list[k]->in[d], i, col);
			fetch_element(t, rj, list[k]->in[0], idx);
		}
	free(list);
	l_for(m, ri, F_UNROLL, j, rj);
	l_for(m, r, F_UNROLL, i, ri);
}

/* Is a loop over the axis, the last of those in a sum, better written out? So are those over the
 * bits of a word, whose places then are constants, and short sums of blocks. */
static bool
written_out(const Tile *t, int i)
{
	const Contraction *c = t->c;
	int64_t n = (int64_t)t->rows * t->vecs;

	if (c->whole == c->reduce && !spells_out(c->eb))
		return false;
	for (; i < c->nred; i++)
		n = sat_mul(n, const_or(c->red[i]->in[0], INT64_MAX));
	return n <= MAX_WRITTEN;
}

/* Adds the products up into t->acc. */
static void
add_products(Tile *t, Region *r, Node *ea, Node *eb)
{
	Module *m = t->kb->m;
	Contraction *c = t->c;
	Node *axis, *k = x_idx(m, 0), *left, *depth = axes_product(m, c->nred, c->red);
	Node *share = t->turns ? x_ceildiv(m, x_idx(m, c->nr), t->turns) : NULL;   /* of a panel's row */
	Node *rows = ea;
	Region *in = r, *q;
	bool fetched = false, joined = rows_join(t, ea);
	int i;

	if (share && share->code != O_NUM)
		share = l_let(m, r, share);
	for (i = 0; i <= c->nred; i++) {
		left = axes_product(m, c->nred - i, c->red + i);
		fetched = fetched
			|| fetch_ahead(t, in, x_mul(m, k, left), i < c->nred ? const_or(left, 0) : 1, depth,
				share);
		if (i == c->nred)
			break;
		axis = x_axis(m, kb_emit(t->kb, in, c->red[i]->in[0]));
		ea = subst1(m, ea, c->red[i], axis);
		eb = subst1(m, eb, c->red[i], axis);
		k = x_add(m, x_mul(m, k, axis->in[0]), axis);
		q = region_new(m, NULL);
		l_for(m, in, written_out(t, i) ? F_UNROLL : F_SERIAL, axis, q);
		in = q;
	}
	if (joined)
		fetch_rows(t, in, rows, k);
	step(t, in, ea, eb);
}

/* total[i][j][v] += what the sum of blocks has for this one, value, in terms of its sum in t->acc. */
static void
add_block(Tile *t, Region *r, Node *total, Node *value, Node *sum)
{
	Module *m = t->kb->m;
	Node *i = x_axis(m, x_idx(m, t->rows)), *j = x_axis(m, x_idx(m, t->vecs)),
		*v = x_axis(m, x_idx(m, t->lanes)), *idx[3] = {i, j, v}, *col = col_at(t, j, v);
	Region *ri = region_new(m, NULL), *rj = region_new(m, NULL), *rv = region_new(m, NULL),
		*in = t->mask ? region_new(m, NULL) : rv;

	value = subst1(m, value, sum, l_load(m, t->acc, 3, idx));
	t->kb->in_vector = t->lanes;
	value = kb_emit(t->kb, in, at(t, value, i, col));
	l_store(m, in, total, 3, idx, accumulate(t->kb, COMB_SUM, l_load(m, total, 3, idx), value));
	t->kb->in_vector = 0;
	if (t->mask)
		l_when(m, rv, x_lt(m, col, t->c->n->in[0]), in, NULL);
	l_for(m, rj, F_VECTOR, v, rv);
	l_for(m, ri, F_UNROLL, j, rj);
	l_for(m, r, F_UNROLL, i, ri);
}

/* The sum of blocks, into t->acc. */
static void
add_blocks(Tile *t, Region *r)
{
	Module *m = t->kb->m;
	Node *whole = t->c->whole, *value = whole->in[whole->nin - 1], *sum = t->c->reduce,
		*ea = t->c->ea, *eb = t->c->eb, *total = t->acc, *axis;
	Region *in = r, *q;
	int i;

	begin(t, r);
	for (i = 0; i + 1 < whole->nin; i++) {
		axis = x_axis(m, kb_emit(t->kb, in, whole->in[i]->in[0]));
		value = subst1(m, value, whole->in[i], axis);
		sum = subst1(m, sum, whole->in[i], axis);
		ea = subst1(m, ea, whole->in[i], axis);
		eb = subst1(m, eb, whole->in[i], axis);
		q = region_new(m, NULL);
		l_for(m, in, F_SERIAL, axis, q);
		in = q;
	}
	t->acc = l_alloc(m, in, l_buffer(m, "block", sum->type->dtype, SP_REG, 3, total->in));
	begin(t, in);
	add_products(t, in, ea, eb);
	add_block(t, in, total, value, sum);
	t->acc = total;
}

/* ---- rows that were joined ------------------------------------------------------------------- */

/* Is the size known before the tile begins? */
static bool
is_fixed(Node *size)
{
	Node **list;
	int i, n;
	bool yes = size->code != O_NUM;

	list = topo_scalar(size, &n);
	for (i = 0; i < n && yes; i++)
		yes = list[i]->code != O_AXIS && list[i]->code != O_READ && list[i]->code != O_CARRY;
	free(list);
	return yes;
}

static void
add_division(Tile *t, Node *e)
{
	Module *m = t->kb->m;
	Division *d = &t->division[t->ndivisions];
	int base = -1, k;

	if ((e->code != O_FLOORDIV && e->code != O_MOD) || !is_fixed(e->in[1]))
		return;
	for (k = 0; k < t->ndivisions; k++) {
		if (t->division[k].of == e->in[0] && t->division[k].by == e->in[1])
			return;
		if (t->division[k].mod == e->in[0])
			base = k;
	}
	if ((base < 0 && e->in[0] != t->m) || t->ndivisions == MAX_DIVISIONS)
		return;
	*d = (Division){.of = e->in[0], .by = e->in[1], .base = base, .div = x_fdiv(m, e->in[0], e->in[1]),
		.mod = x_mod(m, e->in[0], e->in[1])};
	t->ndivisions++;
}

static void
find_divisions(Tile *t, Node *e)
{
	Node **list;
	int i, n;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++)
		add_division(t, list[i]);
	free(list);
}

/*
 * Rows follow each other, so that only the first one is divided: from row to row the remainder grows by
 * one, and at the divisor it begins anew and the quotient grows.
 */
static void
count_rows(Tile *t, Region *r)
{
	Module *m = t->kb->m;
	Node *q[MAX_DIVISIONS], *rem[MAX_DIVISIONS], *anew[MAX_DIVISIONS], *at, *full, *next, *i,
		*zero = x_idx(m, 0), *rows = x_idx(m, t->rows);
	Division *d;
	int k, row;

	for (k = 0; k < t->ndivisions; k++) {
		d = &t->division[k];
		at = d->base < 0 ? tile_row(t, zero) : rem[d->base];
		d->by = l_let(m, r, d->by);
		q[k] = l_let(m, r, x_fdiv(m, at, d->by));
		rem[k] = l_let(m, r, x_sub(m, at, x_mul(m, q[k], d->by)));
		d->q = l_alloc(m, r, l_buffer(m, "row", DT_INDEX, SP_REG, 1, &rows));
	}
	for (row = 0; row < t->rows; row++) {
		i = x_idx(m, row);
		for (k = 0; k < t->ndivisions; k++)
			l_store(m, r, t->division[k].q, 1, &i, q[k]);
		for (k = 0; k < t->ndivisions && row + 1 < t->rows; k++) {
			d = &t->division[k];
			next = l_let(m, r, x_addi(m, rem[k], 1));
			full = l_let(m, r, x_eq(m, next, d->by));
			q[k] = x_add(m, q[k], x_cast(m, DT_INDEX, full));
			anew[k] = full;
			if (d->base >= 0) {
				q[k] = x_select(m, anew[d->base], zero, q[k]);
				anew[k] = x_or(m, anew[d->base], full);
			}
			q[k] = l_let(m, r, q[k]);
			rem[k] = l_let(m, r, x_select(m, anew[k], zero, next));
		}
	}
}

/* The quotients that places of rows need. */
static void
divide_rows(Tile *t, Region *r)
{
	int d;

	t->ndivisions = 0;
	if (!t->m || t->last || t->rows < 2)
		return;
	for (d = 0; d < rank_of(t->t); d++)
		find_divisions(t, t->idx[d]);
	find_divisions(t, t->body);
	find_divisions(t, t->c->ea);
	if (t->ndivisions)
		count_rows(t, r);
}

static void
tile(Tile *t, Region *r)
{
	Module *m = t->kb->m;
	Node *ext[3] = {x_idx(m, t->rows), x_idx(m, t->vecs), x_idx(m, t->lanes)};

	if (t->c->unit) {
		t->acc = unit_sums(t, r);
		finish(t, r);
		return;
	}
	divide_rows(t, r);
	t->acc = l_alloc(m, r, l_buffer(m, "tile", t->c->whole->type->dtype, SP_REG, 3, ext));
	if (t->c->whole != t->c->reduce)
		add_blocks(t, r);
	else {
		fetch_result(t, r);
		begin(t, r);
		add_products(t, r, t->c->ea, t->c->eb);
	}
	finish(t, r);
}

/* The tile with and without masks, as the columns allow. */
static void
columns(Tile *t, Region *r)
{
	Module *m = t->kb->m;
	Node *n = t->c->n->in[0], *end = x_addi(m, t->n0, t->vecs * t->lanes), *full = x_le(m, end, n);
	Region *a, *b;

	if (t->past_end || is_intv(x_mod(m, n, x_idx(m, t->vecs * t->lanes)), 0) || full->code == O_NUM) {
		t->mask = !t->past_end && is_intv(full, 0);
		tile(t, r);
		return;
	}
	a = region_new(m, NULL), b = region_new(m, NULL);
	t->mask = false;
	tile(t, a);
	t->mask = true;
	tile(t, b);
	l_when(m, r, full, a, b);
}

/* Fewer rows than a tile has, n at once. */
static Region *
some_rows(Tile *t, Node *extent, int n)
{
	Module *m = t->kb->m;
	Region *r = region_new(m, NULL), *q = region_new(m, NULL);
	Node *i = x_axis(m, x_ceildiv(m, extent, x_idx(m, n))), *turns = t->turns;

	t->rows = n;
	t->m0 = x_muli(m, i, n);
	t->last = n > 1 ? x_addi(m, extent, -1) : NULL;
	if (turns && t->c->streams)
		t->turns = t->others;
	columns(t, q);
	t->last = NULL;
	t->turns = turns;
	l_for(m, r, F_SERIAL, i, q);
	return r;
}

static Region *
either(Module *m, Node *cond, Region *yes, Region *no)
{
	Region *r = region_new(m, NULL);

	l_when(m, r, cond, yes, no);
	return r;
}

/* Fewer rows than a tile has, each number of them in a tile of its own. */
static Region *
each_number(Tile *t, Node *extent, int most)
{
	Module *m = t->kb->m;
	Region *r = NULL, *q;
	Node *turns = t->turns;

	t->turns = NULL;                         /* the caches have them from step to step */
	t->m0 = x_idx(m, 0);
	for (t->rows = most; t->rows >= 1; t->rows--) {
		q = region_new(m, NULL);
		columns(t, q);
		r = r ? either(m, x_le(m, extent, x_idx(m, t->rows)), q, r) : q;
	}
	t->turns = turns;
	return r;
}

/* Do lower tiles waste less on so many rows? A tile takes as long as its rows and one more. */
static Node *
takes_low(Module *m, const Contraction *c, Node *extent)
{
	Node *low = x_muli(m, x_ceildiv(m, extent, x_idx(m, c->low)), c->low + 1),
		*high = x_muli(m, x_ceildiv(m, extent, x_idx(m, c->mr)), c->mr + 1);

	return x_and(m, x_le(m, x_idx(m, c->low), extent), x_lt(m, low, high));
}

Node *
row_tiles_of(Module *m, const Contraction *c, Node *extent)
{
	Node *high = x_ceildiv(m, extent, x_idx(m, c->mr));

	if (!c->low)
		return high;
	return x_select(m, takes_low(m, c, extent), x_ceildiv(m, extent, x_idx(m, c->low)), high);
}

/* Tile mt of so many rows, of which there are enough: the last one ends at the last row. */
static Region *
full_rows(Tile *t, Node *mt, Node *extent, int rows)
{
	Module *m = t->kb->m;
	Region *r = region_new(m, NULL);
	int mr = t->c->mr;

	t->c->mr = t->rows = rows;
	t->m0 = l_let(m, r, x_min(m, x_muli(m, mt, rows), x_addi(m, extent, -rows)));
	columns(t, r);
	t->c->mr = mr;
	return r;
}

void
tile_rows(Tile *t, Region *r, Node *mt, Node *extent)
{
	Module *m = t->kb->m;
	int mr = t->c->mr, half = 1;
	Region *few, *many;
	Node *enough;
	int64_t v;

	if (!t->m) {
		t->rows = 1;
		columns(t, r);
		return;
	}
	if (is_int(extent, &v) && v >= mr) {
		t->rows = mr;
		t->m0 = v % mr == 0 ? x_muli(m, mt, mr)
			: l_let(m, r, x_min(m, x_muli(m, mt, mr), x_addi(m, extent, -mr)));
		columns(t, r);
		return;
	}
	many = full_rows(t, mt, extent, mr);
	if (t->c->unit) {
		l_when(m, r, x_le(m, x_idx(m, mr), extent), many, some_rows(t, extent, t->c->rt));
		return;
	}
	few = t->c->recurs ? each_number(t, extent, mr - 1) : some_rows(t, extent, 1);
	if (!t->c->recurs && dt_float(t->c->reduce->type->dtype) && mr > 2) {
		half = (mr + 1) / 2;                 /* of bytes that would be much code */
		few = either(m, x_eq(m, extent, x_idx(m, 1)), few, some_rows(t, extent, half));
	}
	if (!t->c->recurs && t->c->streams && mr > 2)
		few = either(m, x_le(m, extent, x_idx(m, half)), few, some_rows(t, extent, mr));
	enough = x_le(m, x_idx(m, t->c->streams ? mr + 1 : mr), extent);
	if (t->c->low)
		l_when(m, r, takes_low(m, t->c, extent), full_rows(t, mt, extent, t->c->low),
			either(m, enough, many, few));
	else
		l_when(m, r, enough, many, few);
}

