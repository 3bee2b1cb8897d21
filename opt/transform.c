/*
 * CPU schedules of Winograd's convolutions (winograd.c), by their form.
 *
 * A transform is a sum over two axes of an element times an entry of two small constant tables,
 *
 *	sum(i, j) S[s, i] T[t, j] e(i, j)
 *
 * All entries are numbers in the code: the s and t are written out, the passes over i and j are
 * made one after the other, and what they share is computed once. The lanes run along channels.
 *
 * transform_cpu: a tensor of transforms with axes s and t. A unit is a place of the window.
 *
 * transformed_cpu: y[.., size q + i, ..] = f(transform over s, t of sum(c) v[s,t,p,c] u[s,t,c,k])
 * for row p, the digits of which are the axes that only v has and the tiles q. A unit is a block of
 * rows and a panel of columns: for each s and t in turn the sums of the block's register tiles
 * (contract.c), into a buffer; then a transform of each row, and with its results in registers the
 * rest of the definition. So u passes once for a block, a part that the first cache holds at a
 * time, and the second cache holds the block's sums, and its rows of v for the next panel.
 */
#include <stdlib.h>
#include <string.h>
#include "sched.h"

enum { MAX_TABLE = 8, MIN_UNITS = 4 };

/* ---- the form -------------------------------------------------------------------------------- */

/* A read of a small constant of two dimensions, [row, axis] with an axis of the sum? */
static bool
is_table(const Node *sum, const Node *e, int *axis)
{
	int64_t dims[MAX_RANK];

	if (e->code != O_READ || definition(e->in[0])->code != O_CONST || rank_of(e->in[0]) != 2
	 || dtype_of(e->in[0]) != DT_F32 || !const_dims(e->in[0], dims) || dims[0] > MAX_TABLE
	 || dims[1] > MAX_TABLE)
		return false;
	for (*axis = 0; *axis < 2 && e->in[2] != sum->in[*axis]; ++*axis)
		;
	return *axis < 2 && is_intv(sum->in[*axis]->in[0], dims[1])
		&& !contains(e->in[1], sum->in[0]) && !contains(e->in[1], sum->in[1]);
}

bool
transform_of(Node *sum, Transform *f)
{
	Node *e;
	int i, k, axis;

	*f = (Transform){.sum = sum};
	if (sum->code != O_REDUCE || sum->n != COMB_SUM || sum->nin != 3 || sum->type->dtype != DT_F32)
		return false;
	for (e = sum->in[2], i = 0; i < 2; i++) {
		if (e->code != O_MUL)
			return false;
		for (k = 0; k < 2 && (!is_table(sum, e->in[k], &axis) || f->table[axis]); k++)
			;
		if (k == 2)
			return false;
		f->axis[axis] = sum->in[axis];
		f->row[axis] = e->in[k]->in[1];
		f->table[axis] = definition(e->in[k]->in[0]);
		e = e->in[!k];
	}
	f->value = e;
	return true;
}

static int
entries(const Transform *f, int axis, int dim)
{
	int64_t dims[MAX_RANK];

	const_dims(f->table[axis], dims);
	return (int)dims[dim];
}

/* ---- their code ------------------------------------------------------------------------------ */

/* sum of c[k] x[k * step], in statements of r */
static Node *
combined(KB *kb, Region *r, const Node *table, int row, int n, Node *const *x, int step)
{
	Module *m = kb->m;
	Node *e = NULL;
	double c;
	int k;

	for (k = 0; k < n; k++) {
		c = data_get(table->data, DT_F32, (int64_t)row * n + k).f;
		if (c == 0)
			continue;
		if (!e)
			e = c == 1 ? x[k * step] : x_mul(m, x_flt(m, DT_F32, c), x[k * step]);
		else
			e = x_op(m, O_MULADD, 3, (Node *[]){x_flt(m, DT_F32, c), x[k * step], e}, DT_F32);
	}
	return l_let(m, r, kb_emit(kb, r, e ? e : x_flt(m, DT_F32, 0)));
}

/* z[s][j] as statements within a vector loop. The second pass is made for each result when it is
 * used: the others need no registers meanwhile. */
typedef struct Passes { const Transform *f; Node *z[MAX_TABLE][MAX_TABLE]; } Passes;

static void
first_pass(KB *kb, Region *r, Passes *p)
{
	const Transform *f = p->f;
	int i, j, s, ni = entries(f, 0, 1), nj = entries(f, 1, 1);
	Node *x[MAX_TABLE], *e;

	for (j = 0; j < nj; j++) {
		for (i = 0; i < ni; i++) {
			e = subst1(kb->m, f->value, f->axis[0], x_idx(kb->m, i));
			e = subst1(kb->m, e, f->axis[1], x_idx(kb->m, j));
			x[i] = l_let(kb->m, r, kb_emit(kb, r, e));
		}
		for (s = 0; s < entries(f, 0, 0); s++)
			p->z[s][j] = combined(kb, r, f->table[0], s, ni, x, 1);
	}
}

static Node *
second_pass(KB *kb, Region *r, const Passes *p, int s, int t)
{
	return combined(kb, r, p->f->table[1], t, entries(p->f, 1, 1), p->z[s], 1);
}

/* ---- a tensor of transforms ------------------------------------------------------------------ */

typedef struct Transformed { Transform f; Node *t, *lanes; Map at; } Transformed;

static void
transform_body(KB *kb, Region *r, Node *i, void *ctx)
{
	const Transformed *c = ctx;
	Module *m = kb->m;
	Transform f = c->f;
	Passes p = {.f = &f};
	Node *idx[MAX_RANK], *e;
	int s, t, d;

	f.value = subst1(m, f.value, c->lanes, i);
	first_pass(kb, r, &p);
	for (s = 0; s < entries(&f, 0, 0); s++)
		for (t = 0; t < entries(&f, 1, 0); t++) {
			e = second_pass(kb, r, &p, s, t);
			for (d = 0; d < rank_of(c->t); d++)
				idx[d] = c->t->in[d] == f.row[0] ? x_idx(m, s) : c->t->in[d] == f.row[1] ? x_idx(m, t)
					: c->t->in[d] == c->lanes ? i : map_get(&c->at, c->t->in[d]);
			kb_store(kb, r, c->t, idx, e);
		}
}

/* Is t one, of what it reads elsewhere? */
static bool
is_tensor_of_transforms(Node *t, Transformed *c)
{
	int i, found = 0;

	*c = (Transformed){.t = t};
	if (t->code != O_TENSOR || !transform_of(t->in[t->nin - 1], &c->f) || c->f.row[0] == c->f.row[1]
	 || contains(c->f.value, c->f.row[0]) || contains(c->f.value, c->f.row[1])
	 || c->f.value->code != O_READ)
		return false;
	for (i = 0; i + 1 < t->nin; i++)
		found += t->in[i] == c->f.row[0] || t->in[i] == c->f.row[1];
	return found == 2;
}

/* e with what neither the lanes nor the sums change computed in r: the digits of places. */
static Node *
with_digits(KB *kb, Region *r, Node *e, const Transform *f, const Node *lanes)
{
	Node **list;
	Map map = {0};
	int i, n;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++)
		if ((list[i]->code == O_FLOORDIV || list[i]->code == O_MOD) && !contains(list[i], lanes)
		 && !contains(list[i], f->axis[0]) && !contains(list[i], f->axis[1]))
			map_put(&map, list[i], l_let(kb->m, r, kb_emit(kb, r, list[i])));
	free(list);
	e = subst(kb->m, e, &map, false);
	map_free(&map);
	return e;
}

/* The lanes' axis, and the others but s and t as units, whose values c->at gets. */
static Node *
transform_units(KB *kb, const Group *g, Region *in, Transformed *c)
{
	Module *m = kb->m;
	Node *t = c->t, *axes[MAX_RANK], *unit;
	int i, n = 0;

	for (i = 0; i < rank_of(t); i++)
		if (t->in[i] != c->f.row[0] && t->in[i] != c->f.row[1] && t->in[i] != c->lanes)
			axes[n++] = t->in[i];
	unit = kb_units(kb, g, in, axes_product(m, n, axes));
	digits(m, &c->at, n, axes, unit);
	for (i = 0; i < n; i++)
		map_put(&c->at, axes[i], l_let(m, in, map_get(&c->at, axes[i])));
	return unit;
}

Kernel *
transform_cpu(Sched *s, Group *g)
{
	Transformed c;
	Module *m = s->m;
	KB kb = kb_new(s, g->loc);
	Region *body = region_new(m, NULL), *in = region_new(m, NULL);
	Node *t = g->members[0];
	int rows, columns;
	double cost;

	if (g->n > 1 || !is_tensor_of_transforms(t, &c))
		return NULL;
	c.lanes = t->in[storage_of(s, t)->order[rank_of(t) - 1]];
	if (c.lanes == c.f.row[0] || c.lanes == c.f.row[1])
		return NULL;
	transform_units(&kb, g, in, &c);
	c.f.value = with_digits(&kb, in, subst(m, c.f.value, &c.at, false), &c.f, c.lanes);
	vector_loop(&kb, in, c.lanes->in[0], lanes_of(s, dtype_of(t)), transform_body, &c);
	map_free(&c.at);
	rows = entries(&c.f, 0, 0), columns = entries(&c.f, 1, 0);
	cost = rows * columns * 2.0 * (entries(&c.f, 0, 1) + entries(&c.f, 1, 1));
	kb.k->flops = cost * (double)const_or(c.lanes->in[0], 64);
	kb.k->cost = x_muli(m, c.lanes->in[0], (int64_t)(cost / 4));
	kb_parallel(&kb, body, in);
	return kb_finish(&kb, body, arena_printf(m->arena, "class=transform, %dx%d", rows, columns));
}

/* ---- transforms of products ------------------------------------------------------------------ */

/* y's parts: see the head of the file. */
typedef struct Product {
	KB *kb;
	Contraction *c;
	Transform f;
	Node *t;               /* y */
	Node *out[2];          /* its axes of the window */
	int size[2];           /* of a tile of them */
	int n; Node *axes[MAX_RANK];   /* the digits of the row: y's own axes, then tiles along out */
	Node *row, *at;        /* the row's index in v, as y has it, and an axis for it */
	int block;             /* rows of a unit */
	Node *p0, *rows;       /* the unit's first row, and how many it has */
	Node *n0;              /* and its first column */
	Node *sums;            /* tensor of the register tiles' results, [s, t, row, column] */
	Tile tile;
} Product;

/* The axis e is a remainder of, and by what. */
static Node *
remainder_of(const Node *t, Node *e, int *size)
{
	int64_t v;
	int i;

	if (e->code != O_MOD || !is_int(e->in[1], &v) || v < 2 || v > MAX_TABLE)
		return NULL;
	for (i = 0; i + 1 < t->nin && t->in[i] != e->in[0]; i++)
		;
	*size = (int)v;
	return i + 1 < t->nin ? e->in[0] : NULL;
}

/* Is the index that of a row: the number that the digits have, in the order of y's axes? */
static bool
row_is(Module *m, Product *p, Node *index)
{
	Node *t = p->t, *e = x_idx(m, 0);
	int i, k;

	for (p->n = i = 0; i + 1 < t->nin; i++)
		if (t->in[i] != p->out[0] && t->in[i] != p->out[1] && contains(index, t->in[i])) {
			p->axes[p->n++] = t->in[i];
			e = x_add(m, x_mul(m, e, t->in[i]->in[0]), t->in[i]);
		}
	for (k = 0; k < 2; k++) {
		p->axes[p->n] = x_axis(m, x_ceildiv(m, p->out[k]->in[0], x_idx(m, p->size[k])));
		e = x_add(m, x_mul(m, e, p->axes[p->n++]->in[0]),
			x_fdiv(m, p->out[k], x_idx(m, p->size[k])));
	}
	return e == index;
}

static bool
product_of(Module *m, Node *t, Contraction *c, Product *p)
{
	Node *v = c->a;
	int k, i, found = 0;

	*p = (Product){.c = c, .t = t};
	if (c->whole == c->reduce || !transform_of(c->whole, &p->f) || p->f.value != c->reduce
	 || c->ea != v || c->eb != c->b || rank_of(v->in[0]) != 4 || rank_of(c->b->in[0]) != 4)
		return false;
	for (k = 0; k < 2; k++)
		if (!(p->out[k] = remainder_of(t, p->f.row[k], &p->size[k]))
		 || p->size[k] != entries(&p->f, k, 0))
			return false;
	for (i = 1; i <= 4; i++)                 /* the index that depends on y's axes */
		if (contains(v->in[i], p->out[0])) {
			p->row = v->in[i];
			found++;
		}
	return found == 1 && p->out[0] != p->out[1] && row_is(m, p, p->row);
}

bool
transforms_product(Module *m, Node *t, Contraction *c, int64_t *rows)
{
	Product p;

	if (!product_of(m, t, c, &p))
		return false;
	*rows = const_or(axes_product(m, p.n, p.axes), 0);
	return true;
}

static Region *
loop(KB *kb, Region *r, Node *extent, Node **axis)
{
	Region *in = region_new(kb->m, NULL);

	*axis = x_axis(kb->m, extent);
	l_for(kb->m, r, F_SERIAL, *axis, in);
	return in;
}

/* The sums of the unit's rows and columns for all s and t, into p->sums. */
static void
sum_products(Product *p, Region *r)
{
	KB *kb = p->kb;
	Module *m = kb->m;
	Contraction c = *p->c;
	Tile t = p->tile;
	Map map = {0};
	Node *axis[2], *mt, *mr = x_idx(m, p->c->mr);
	int k;

	for (k = 0; k < 2; k++) {
		r = loop(kb, r, p->f.axis[k]->in[0], &axis[k]);
		map_put(&map, p->f.axis[k], axis[k]);
	}
	map_put(&map, p->row, p->at);
	c.a = c.ea = subst(m, c.ea, &map, false);
	c.b = c.eb = subst(m, c.eb, &map, false);
	c.whole = c.reduce;
	map_free(&map);
	t.c = &c;
	t.t = p->sums;
	t.body = c.reduce;
	t.m = p->at;
	t.base = p->p0;
	t.n0 = p->n0;
	t.idx[0] = axis[0], t.idx[1] = axis[1], t.idx[2] = p->at, t.idx[3] = c.n;
	t.turns = x_ceildiv(m, p->rows, mr);
	t.ahead = x_muli(m, axes_product(m, c.nred, c.red), c.nr);
	r = loop(kb, r, t.turns, &mt);
	t.turn = mt;
	tile_rows(&t, r, mt, p->rows);
}

/* One element of the result, from a row's and column's transform. */
static void
put_result(Product *p, Region *r, const Map *digit, int i, int j, Node *col, Node *value)
{
	KB *kb = p->kb;
	Module *m = kb->m;
	Node *idx[MAX_RANK], *in = x_bool(m, true), *x;
	Region *q = region_new(m, NULL);
	Map map = {0};
	int k, d;

	for (k = 0; k < p->n - 2; k++)
		map_put(&map, p->axes[k], map_get(digit, p->axes[k]));
	for (k = 0; k < 2; k++) {
		x = x_addi(m, x_muli(m, map_get(digit, p->axes[p->n - 2 + k]), p->size[k]), k ? j : i);
		map_put(&map, p->out[k], x);
		if (!is_intv(x_mod(m, p->out[k]->in[0], x_idx(m, p->size[k])), 0))
			in = x_and(m, in, x_lt(m, x, p->out[k]->in[0]));
	}
	if (!is_intv(x_mod(m, p->c->n->in[0], x_idx(m, p->tile.lanes)), 0))
		in = x_and(m, in, x_lt(m, col, p->c->n->in[0]));
	map_put(&map, p->c->n, col);
	map_put(&map, p->c->whole, value);
	for (d = 0; d < rank_of(p->t); d++)
		idx[d] = subst(m, p->t->in[d], &map, false);
	kb_store(kb, q, p->t, idx, kb_emit(kb, q, subst(m, p->t->in[p->t->nin - 1], &map, false)));
	map_free(&map);
	if (is_intv(in, 1))
		for (k = 0; k < q->nresults; k++)
			region_add(m, r, q->results[k]);
	else
		l_when(m, r, in, q, NULL);
}

/* The transforms of each of the unit's rows. */
static void
transform_rows(Product *p, Region *r)
{
	KB *kb = p->kb;
	Module *m = kb->m;
	Node *i, *row, *j, *v = x_axis(m, x_idx(m, p->tile.lanes)), *col;
	Region *q = region_new(m, NULL);
	Transform f = p->f;
	Passes z = {.f = &f};
	Map digit = {0};
	int s, t, k;

	r = loop(kb, r, p->rows, &i);
	row = l_let(m, r, x_add(m, p->p0, i));
	digits(m, &digit, p->n, p->axes, row);
	for (k = 0; k < p->n; k++)
		map_put(&digit, p->axes[k], l_let(m, r, map_get(&digit, p->axes[k])));
	r = loop(kb, r, x_idx(m, p->tile.vecs), &j);
	col = x_add(m, p->n0, x_add(m, x_muli(m, j, p->tile.lanes), v));
	f.value = x_read(m, p->sums, (Node *[]){f.axis[0], f.axis[1], row, col});
	kb->in_vector = p->tile.lanes;
	first_pass(kb, q, &z);
	for (s = 0; s < p->size[0]; s++)
		for (t = 0; t < p->size[1]; t++)
			put_result(p, q, &digit, s, t, col, second_pass(kb, q, &z, s, t));
	kb->in_vector = 0;
	l_for(m, r, F_VECTOR, v, q);
	map_free(&digit);
}

static void
product_unit(KB *kb, Region *r, void *ctx)
{
	Product *p = ctx;

	(void)kb;
	sum_products(p, r);
	transform_rows(p, r);
}

/* The buffer of a unit's sums, and its bytes. */
static int64_t
open_sums(Product *p, Region *r)
{
	Module *m = p->kb->m;
	int64_t size = dtypes[DT_F32].bits / 8;
	Node *ext[4] = {p->f.axis[0]->in[0], p->f.axis[1]->in[0], x_idx(m, p->block),
		x_idx(m, p->c->nr)};
	Local *l = NEW(m, Local);
	int i;

	for (i = 0; i < 4; i++)
		size *= const_or(ext[i], 1);
	*l = (Local){.buffer = l_alloc(m, r, l_buffer(m, "sums", DT_F32, SP_STACK, 4, ext)), .n = 4,
		.dim = {0, 1, 2, 3}, .base = {NULL, NULL, p->p0, p->n0}};
	p->sums = t_param(m, "sums", ty_tensor(m, DT_F32, 4, ext), 0);
	map_put(&p->kb->local, p->sums, l);
	return size;
}

/*
 * Rows of a block: a quarter of the second cache is for their sums, as much for what they read.
 * Equal parts, of whole tiles, and some units for threads to share.
 */
static int
rows_of_block(const Sched *s, const Product *p, int64_t rows)
{
	const Contraction *c = p->c;
	int64_t points = entries(&p->f, 0, 1) * entries(&p->f, 1, 1), size = dtypes[DT_F32].bits / 8,
		sums = s->mach->l2 / 4 / (points * size * c->nr),
		read = s->mach->l2 / 4 / (points * size * const_or(c->red[0]->in[0], 64)),
		most = sums < read ? sums : read, columns = const_or(c->n->in[0], c->nr) / c->nr, n;

	if (most < c->mr)
		most = c->mr;
	if (rows <= 0)
		return (int)(most / c->mr * c->mr);
	n = (rows + most - 1) / most;
	if (n * columns < MIN_UNITS)
		n = columns ? (MIN_UNITS + columns - 1) / columns : MIN_UNITS;
	n = (rows + n - 1) / n;
	return (int)((n + c->mr - 1) / c->mr * c->mr);
}

Kernel *
transformed_cpu(Sched *s, Group *g, Contraction *c)
{
	Module *m = s->m;
	KB kb = kb_new(s, g->loc);
	Region *body = region_new(m, NULL), *in = region_new(m, NULL);
	Node *t = g->members[0], *blocks, *unit, *size, *count;
	Product p;
	int points;

	if (!product_of(m, t, c, &p))
		return NULL;
	p.kb = &kb;
	p.tile = (Tile){.kb = &kb, .lanes = lanes_of(s, DT_F32)};
	p.tile.vecs = c->nr / p.tile.lanes;
	count = axes_product(m, p.n, p.axes);
	p.at = x_axis(m, count);
	p.block = rows_of_block(s, &p, likely_extent(m, count));
	size = x_idx(m, p.block);
	blocks = x_ceildiv(m, count, size);
	unit = kb_units(&kb, g, in, x_mul(m, blocks, x_ceildiv(m, c->n->in[0], x_idx(m, c->nr))));
	p.n0 = x_muli(m, l_let(m, in, x_fdiv(m, unit, blocks)), c->nr);
	p.p0 = l_let(m, in, x_mul(m, x_mod(m, unit, blocks), size));
	p.rows = x_min(m, size, x_sub(m, count, p.p0));
	if (p.rows->code != O_NUM) {
		p.rows = l_let(m, in, p.rows);
		p.rows->lo = 1;
		p.rows->hi = p.block;
	}
	kb.k->scratch = x_idx(m, open_sums(&p, in));
	kb_versions(&kb, in, t->in[t->nin - 1], product_unit, &p);
	points = entries(&p.f, 0, 1) * entries(&p.f, 1, 1);
	kb.k->flops = 2.0 * points * (double)const_or(c->red[0]->in[0], 64) * p.block * c->nr;
	kb.k->cost = x_muli(m, axes_product(m, c->nred, c->red), points * ((p.block * c->nr + 3) / 4));
	kb_parallel(&kb, body, in);
	return kb_finish(&kb, body, arena_printf(m->arena,
		"class=transformed, %dx%d, rows=%d, tile=[%d,%d]", p.size[0], p.size[1], p.block, c->mr, c->nr));
}
