/*
 * CPU schedule of attention (attend.c): a unit is a block of query rows of one batch and head. It
 * passes over the keys in blocks: scores of the rows and a block of keys in register tiles, to a
 * buffer that stays in the second cache; a softmax of each row, that brings its maximum and sum up
 * to date and leaves the exponentials in the buffer; their products with the block's values, added
 * in register tiles to the rows' sums, which are scaled first by what the maximum rose. A row ends
 * with the division, and with what else the definition does to it.
 *
 * Blocks of keys that a mask hides from all of the rows are left out.
 *
 * Scores and softmax have their lanes across queries (attend_across.c), or along keys: where there
 * are few queries (decoding), where others read the scores, and where what they meet lies along the
 * keys. Both forms stand in the kernel where the number of queries is not known.
 *
 * Where a factor's lanes are not contiguous in memory, a panel of it is first copied so that they
 * are: once for all rows of the block.
 */
#include <stdlib.h>
#include <string.h>
#include "attend_cpu.h"

/* Of a block, keys with lanes along them and across; bytes of a panel. */
enum { BLOCK_ROWS = 96, BLOCK_KEYS = 256, ACROSS_KEYS = 192, MAX_PANEL = 1 << 18 };

static Node *
scratch(Flash *f, Region *r, const char *name, DType d, int n, const int64_t *extent)
{
	return kb_scratch(f->kb, r, name, d, n, extent);
}

Region *
attend_loop(Flash *f, Region *r, Node *extent, Node **axis)
{
	Region *in = region_new(f->m, NULL);

	*axis = x_axis(f->m, extent);
	l_for(f->m, r, F_SERIAL, *axis, in);
	return in;
}

Node *
attend_cell(Flash *f, Node *buffer, Node *i)
{
	return l_load(f->m, buffer, 1, &i);
}

void
attend_set(Flash *f, Region *r, Node *buffer, Node *i, Node *v)
{
	l_store(f->m, r, buffer, 1, &i, kb_emit(f->kb, r, v));
}

Node *
attend_at_row(Flash *f, Node *e, Node *q)
{
	e = subst(f->m, e, &f->out, false);
	return subst1(f->m, e, f->row, q);
}

/* ---- buffers --------------------------------------------------------------------------------- */

/* The buffer of a tensor, indexed by its dimensions for rows and keys. */
static Local *
block_of(Flash *f, Node *buffer, int row, int key)
{
	Local *l = NEW(f->m, Local);

	*l = (Local){.buffer = buffer, .n = 2, .dim = {row, key}, .base = {f->q0, f->k0}};
	return l;
}

static Local *
sums_of(Flash *f, Node *buffer)
{
	Local *l = NEW(f->m, Local);

	*l = (Local){.buffer = buffer, .n = 3, .dim = {0, 1, 2}, .base = {NULL, f->q0}};
	return l;
}

/* May an exponential take its score's place? */
static bool
in_place(Flash *f)
{
	Node **list;
	int i, n, rank = rank_of(f->a.score);
	bool ok = dtype_of(f->a.score) == f->type;

	list = topo_scalar(f->a.x, &n);
	for (i = 0; i < n && ok; i++)
		if (list[i]->code == O_READ && list[i]->in[0] == f->a.score)
			ok = list[i]->in[rank] == f->a.key;
	free(list);
	return ok;
}

/* Of the running maximum, sum and totals. */
static void
open_sums(Flash *f, Region *r)
{
	int64_t rows = f->rows, sums[3] = {2, f->rows, const_or(f->column->in[0], 1)};

	f->total = inner_tensor(f->m, "total", f->type, 3, sums);
	map_put(&f->kb->local, f->total, sums_of(f, scratch(f, r, "total", f->type, 3, sums)));
	f->max = scratch(f, r, "max", f->type, 1, &rows);
	f->sum = scratch(f, r, "sum", f->type, 1, &rows);
	f->rise = scratch(f, r, "rise", f->type, 1, &rows);
}

/* Of scores and exponentials, with lanes along the keys. */
static void
open_scores(Flash *f, const Group *g, Region *r)
{
	int64_t block[2] = {f->rows, f->keys};
	DType stored = storage_type(dtype_of(f->a.score));
	Node *scores = scratch(f, r, "scores", stored, 2, block),
		*exps = in_place(f) ? scores : scratch(f, r, "exps", f->type, 2, block);
	Local *l = block_of(f, scores, f->a.row, f->a.nouter);

	l->global = scores_leave(g, &f->a);
	map_put(&f->kb->local, f->a.score, l);
	f->exps = inner_tensor(f->m, "exps", f->type, 2, block);
	map_put(&f->kb->local, f->exps, block_of(f, exps, 0, 1));
}

/* With lanes across queries: [k][q]. */
static void
open_across(Flash *f, Region *r)
{
	int64_t block[2] = {f->keys, f->rows}, shape[2] = {f->rows, f->keys};
	Local *l = block_of(f, scratch(f, r, "exps", f->type, 2, block), 1, 0);

	l->base[0] = f->k0, l->base[1] = f->q0;
	f->exps = inner_tensor(f->m, "exps", f->type, 2, shape);
	map_put(&f->kb->local, f->exps, l);
	across_open(f, r);
}

/* ---- the two products ------------------------------------------------------------------------ */

/* Is the factor better copied? Not where its lanes are contiguous, or the panel would be large. */
static bool
wants_panel(Flash *f, const Contraction *c, const int64_t *red)
{
	Node *stride = elem_stride(f->kb, c->b, c->n);
	int64_t bytes = panel_bytes(c, red);

	return !(stride && is_intv(stride, 1)) && bytes >= 0 && bytes <= MAX_PANEL;
}

void
attend_tiles(Flash *f, Region *r, Tile *t, Node *first, Node *count, Node *extent,
	const int64_t *red)
{
	Module *m = f->m;
	Contraction c = *t->c;
	Node *panel, *mt;
	Region *in = attend_loop(f, r, x_ceildiv(m, count, x_idx(m, c.nr)), &panel), *row;

	t->kb = f->kb;
	t->c = &c;
	t->lanes = lanes_of(f->kb->s, c.reduce->type->dtype);
	t->vecs = c.nr / t->lanes;
	t->n0 = l_let(m, in, x_add(m, first, x_muli(m, panel, c.nr)));
	if (!t->padded && wants_panel(f, &c, red)) {
		copy_panel(f->kb, in, &c, t->n0, red);
		t->padded = true;
	}
	row = attend_loop(f, in, x_ceildiv(m, extent, x_idx(m, c.mr)), &mt);
	tile_rows(t, row, mt, extent);
}

static void
block_scores(Flash *f, Region *r)
{
	Attention *a = &f->a;
	Module *m = f->m;
	Contraction c = a->qk;
	Tile t = {.c = &c, .t = a->score, .m = a->score->in[a->row], .base = f->q0};
	int64_t red[MAX_RANK];
	int i;

	c.ea = subst(m, c.ea, &f->score, false);
	c.eb = subst(m, c.eb, &f->score, false);
	c.b = subst(m, c.b, &f->score, false);
	c.whole = c.reduce = subst(m, c.reduce, &f->score, false);
	t.body = subst(m, a->score->in[a->score->nin - 1], &f->score, false);
	for (i = 0; i < rank_of(a->score); i++)
		t.idx[i] = subst(m, a->score->in[i], &f->score, false);
	for (i = 0; i < c.nred; i++)
		red[i] = const_or(c.red[i]->in[0], -1);
	attend_tiles(f, r, &t, f->k0, f->nkeys, f->nrows, red);
}

static void
block_values(Flash *f, Region *r)
{
	Module *m = f->m;
	Contraction c = f->a.pv;
	Node *k = x_axis(m, f->nkeys), *key = x_add(m, f->k0, k), *at[2] = {f->row, key},
		*sums[3] = {f->before, f->row, c.n}, *rise = attend_cell(f, f->rise, x_sub(m, f->row, f->q0));
	Tile t = {.c = &c, .t = f->total, .m = f->row, .base = f->q0,
		.idx = {f->after, f->row, c.n}};
	int64_t red = f->keys;

	c.red[0] = k;
	c.ea = x_cast(m, c.ea->type->dtype, x_read(m, f->exps, at));
	c.eb = subst1(m, subst(m, c.eb, &f->out, false), f->a.key, key);
	c.b = subst1(m, subst(m, c.b, &f->out, false), f->a.key, key);
	t.body = c.whole = c.reduce;
	t.init = x_mul(m, x_read(m, f->total, sums), rise);
	attend_tiles(f, r, &t, x_idx(m, 0), c.n->in[0], f->nrows, &red);
}

/* ---- rows ------------------------------------------------------------------------------------ */

typedef struct RowOf { Flash *f; Node *q, *shift, *i; } RowOf;

static Node *
x_of(Flash *f, Node *q, Node *k)
{
	return x_cast(f->m, f->type, subst1(f->m, attend_at_row(f, f->a.x, q), f->a.key, k));
}

static void
exponential(KB *kb, Region *r, Node *j, void *ctx)
{
	const RowOf *c = ctx;
	Module *m = kb->m;
	Node *idx[2] = {c->q, x_add(m, c->f->k0, j)};

	local_store(kb, r, map_get(&kb->local, c->f->exps), idx,
		kb_emit(kb, r, x1(m, O_EXP, x_sub(m, x_of(c->f, c->q, idx[1]), c->shift))));
}

/*
 * Over the block's keys. As long as all scores are -inf nothing is subtracted from them, so that
 * their exponentials are 0 and not NaN; if they remain so, the row ends with 0 / 0.
 */
static void
block_softmax(Flash *f, Region *r)
{
	Module *m = f->m;
	Node *i, *j = x_axis(m, f->nkeys), *low = x_comb_identity(m, COMB_MAX, f->type), *old, *new,
		*rise, *sum, *idx[2];
	RowOf c = {.f = f};

	r = attend_loop(f, r, f->nrows, &i);
	c.q = x_add(m, f->q0, i);
	old = l_let(m, r, attend_cell(f, f->max, i));
	new = kb_emit(f->kb, r, x_reduce(m, COMB_MAX, 1, &j, x_of(f, c.q, x_add(m, f->k0, j))));
	new = l_let(m, r, legalize(m, x_comb(m, COMB_MAX, old, new)));
	c.shift = l_let(m, r, x_select(m, x_eq(m, new, low), x_int(m, f->type, 0), new));
	rise = l_let(m, r, kb_emit(f->kb, r, x1(m, O_EXP, x_sub(m, old, c.shift))));
	vector_loop(f->kb, r, f->nkeys, lanes_of(f->kb->s, f->type), exponential, &c);
	j = x_axis(m, f->nkeys);
	idx[0] = c.q, idx[1] = x_add(m, f->k0, j);
	sum = kb_emit(f->kb, r, x_reduce(m, COMB_SUM, 1, &j, x_read(m, f->exps, idx)));
	attend_set(f, r, f->sum, i, x_add(m, x_mul(m, attend_cell(f, f->sum, i), rise), sum));
	attend_set(f, r, f->rise, i, rise);
	attend_set(f, r, f->max, i, new);
}

static void
clear_column(KB *kb, Region *r, Node *j, void *ctx)
{
	const RowOf *c = ctx;
	Node *idx[3] = {x_idx(kb->m, 0), c->q, j};

	local_store(kb, r, map_get(&kb->local, c->f->total), idx, x_int(kb->m, c->f->type, 0));
}

static void
open_row(KB *kb, Region *r, Node *i, void *ctx)
{
	Flash *f = ctx;

	attend_set(f, r, f->max, i, x_comb_identity(kb->m, COMB_MAX, f->type));
	attend_set(f, r, f->sum, i, x_int(kb->m, f->type, 0));
}

static void
open_rows(Flash *f, Region *r)
{
	Node *i;
	RowOf c = {.f = f};

	vector_loop(f->kb, r, x_idx(f->m, f->rows), lanes_of(f->kb->s, f->type), open_row, f);
	r = attend_loop(f, r, f->nrows, &i);
	c.q = x_add(f->m, f->q0, i);
	vector_loop(f->kb, r, f->column->in[0], lanes_of(f->kb->s, f->type), clear_column, &c);
}

/* e with the inverse in place of quotients by the sum. */
static Node *
by_inverse(Module *m, Node *e, const Node *sum, Node *inverse)
{
	Node **list;
	Map map = {0};
	int i, n;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_DIV && list[i]->in[1] == sum)
			map_put(&map, list[i], x_mul(m, list[i]->in[0], inverse));
	free(list);
	e = subst(m, e, &map, false);
	map_free(&map);
	return e;
}

static void
result_column(KB *kb, Region *r, Node *j, void *ctx)
{
	const RowOf *c = ctx;
	Flash *f = c->f;
	Module *m = kb->m;
	Node *out = f->a.out, *total = x_read(m, f->total, (Node *[]){f->before, c->q, j}), *e,
		*sum = attend_cell(f, f->sum, c->i), *idx[MAX_RANK];
	int i;

	e = attention_scaled(m, &f->a, total, sum, attend_cell(f, f->max, c->i));
	e = by_inverse(m, e, sum, attend_cell(f, f->rise, c->i));
	e = x_select(m, x_eq(m, f->a.key->in[0], x_idx(m, 0)), x_int(m, f->type, 0), e);
	e = subst1(m, out->in[out->nin - 1], f->a.reduce, e);
	e = subst1(m, attend_at_row(f, e, c->q), f->column, j);
	for (i = 0; i < rank_of(out); i++)
		idx[i] = subst1(m, attend_at_row(f, out->in[i], c->q), f->column, j);
	kb_store(kb, r, out, idx, kb_emit(kb, r, e));
}

static void
invert_sum(KB *kb, Region *r, Node *i, void *ctx)
{
	Flash *f = ctx;
	Module *m = kb->m;

	attend_set(f, r, f->rise, i, x2(m, O_DIV, x_int(m, f->type, 1), attend_cell(f, f->sum, i)));
}

static void
close_rows(Flash *f, Region *r)
{
	RowOf c = {.f = f};
	int lanes = lanes_of(f->kb->s, f->type);

	vector_loop(f->kb, r, f->nrows, lanes, invert_sum, f);
	r = attend_loop(f, r, f->nrows, &c.i);
	c.q = x_add(f->m, f->q0, c.i);
	vector_loop(f->kb, r, f->column->in[0], lanes, result_column, &c);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* How many of n (0: not known) go into a block of about `most`, in equal parts of multiples of
 * `step`. */
static int
block_size(int64_t n, int most, int step)
{
	int64_t parts = n > 0 ? (n + most - 1) / most : 0, size = parts ? (n + parts - 1) / parts : most;

	return (int)((size + step - 1) / step * step);
}

typedef enum Form { ALONG, ACROSS, EITHER } Form;
typedef struct Unit { Flash *f; const Group *g; Form form; } Unit;

/* A block's keys, one block of keys after the other. */
static void
block_keys(const Unit *u, Region *r, Node *n, bool across)
{
	Flash *f = u->f;
	Module *m = f->m;
	Node *block;
	Region *in = region_new(m, NULL);

	f->keys = across ? block_size(const_or(f->a.key->in[0], 0), ACROSS_KEYS, f->across.mr)
		: block_size(const_or(f->a.key->in[0], 0), BLOCK_KEYS, f->a.qk.nr);
	block = x_axis(m, x_ceildiv(m, n, x_idx(m, f->keys)));
	f->k0 = x_muli(m, block, f->keys);
	f->before = x_mod(m, block, x_idx(m, 2));
	f->after = x_sub(m, x_idx(m, 1), f->before);
	if (across)
		open_across(f, r);
	else
		open_scores(f, u->g, r);
	f->nkeys = l_let(m, in, x_min(m, x_idx(m, f->keys), x_sub(m, n, f->k0)));
	f->nkeys->lo = 0;
	f->nkeys->hi = f->keys;
	if (across) {
		across_scores(f, in);
		across_softmax(f, in);
	} else {
		block_scores(f, in);
		block_softmax(f, in);
	}
	block_values(f, in);
	l_for(m, r, F_SERIAL, block, in);
	f->before = x_mod(m, block->in[0], x_idx(m, 2));
	close_rows(f, r);
}

static void
block_rows(KB *kb, Region *r, void *ctx)
{
	const Unit *u = ctx;
	Flash *f = u->f;
	Module *m = kb->m;
	Node *n = f->a.key->in[0];
	Region *many, *few;

	if (!scores_leave(u->g, &f->a))
		n = subst(m, attention_end(m, &f->a, f->q0, f->nrows), &f->out, false);
	n = kb_emit(kb, r, n);
	n = n->code == O_NUM ? n : l_let(m, r, n);
	open_sums(f, r);
	open_rows(f, r);
	if (u->form != EITHER) {
		block_keys(u, r, n, u->form == ACROSS);
		return;
	}
	many = region_new(m, NULL), few = region_new(m, NULL);
	block_keys(u, few, n, false);
	block_keys(u, many, n, true);
	l_when(m, r, x_le(m, x_idx(m, lanes_of(kb->s, f->type) / 2), f->row->in[0]), many, few);
}

/* The definition in one expression, for what it says of sizes. */
static Node *
whole(Flash *f)
{
	const Attention *a = &f->a;
	Module *m = f->m;
	Node *e = x_mul(m, a->reduce->in[1], x_cast(m, f->type, a->x)),
		*s = subst(m, a->score->in[a->score->nin - 1], &f->score, false);

	return x_mul(m, subst(m, e, &f->out, false), x_cast(m, f->type, s));
}

/* Binds the axes of result and score to the unit's; the rows' block is the last digit. */
static void
bind_unit(Flash *f, Region *r, Node *unit, Node *blocks)
{
	Module *m = f->m;
	Attention *a = &f->a;
	Node *ext, *rest = unit, *i;
	int k;

	i = l_let(m, r, x_mod(m, rest, blocks));
	rest = x_fdiv(m, rest, blocks);
	f->q0 = l_let(m, r, x_muli(m, i, f->rows));
	f->nrows = l_let(m, r, x_min(m, x_idx(m, f->rows), x_sub(m, f->row->in[0], f->q0)));
	f->nrows->lo = 0;
	f->nrows->hi = f->rows;
	for (k = a->nouter; k-- > 0;) {
		if (k == a->row)
			continue;
		if (!a->outer[k]) {
			map_put(&f->score, a->score->in[k], x_idx(m, 0));
			continue;
		}
		ext = a->outer[k]->in[0];
		i = l_let(m, r, x_mod(m, rest, ext));
		rest = x_fdiv(m, rest, ext);
		map_put(&f->out, a->outer[k], i);
		map_put(&f->score, a->score->in[k], i);
	}
}

/* Operations for a row and a key. */
static double
pair_cost(const Attention *a)
{
	double depth = 1;
	int i;

	for (i = 0; i < a->qk.nred; i++)
		depth *= (double)const_or(a->qk.red[i]->in[0], 64);
	return 2 * depth + 2 * (double)const_or(a->pv.n->in[0], 64) + 40;
}

/* Lanes across queries need half a vector of these. */
static Form
form_of(Flash *f, const Group *g)
{
	int64_t rows;
	int lanes = lanes_of(f->kb->s, f->type);

	if (f->rows % lanes || !across_fits(f, g))
		return ALONG;
	return is_int(f->row->in[0], &rows) ? ACROSS : EITHER;
}

Kernel *
attention_cpu(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Flash f = {.kb = &kb, .m = m};
	Unit u = {.f = &f, .g = g};
	Region *body = region_new(m, NULL), *in = region_new(m, NULL);
	Node *units, *blocks;
	int64_t rows;
	double cost;
	int i, lanes;

	if (!attention_of(s, g->members[g->n - 1], &f.a))
		return NULL;
	f.type = f.a.reduce->type->dtype;
	f.row = f.a.outer[f.a.row];
	f.column = f.a.pv.n;
	lanes = lanes_of(s, f.type);
	rows = const_or(f.row->in[0], 0);
	f.rows = rows && rows < lanes / 2 ? (int)rows
		: block_size((rows + lanes - 1) / lanes, BLOCK_ROWS / lanes, 1) * lanes;
	blocks = x_ceildiv(m, f.row->in[0], x_idx(m, f.rows));
	for (i = 0, units = blocks; i < f.a.nouter; i++)
		if (f.a.outer[i] && i != f.a.row)
			units = x_mul(m, units, f.a.outer[i]->in[0]);
	bind_unit(&f, in, kb_units(&kb, g, in, units), blocks);
	for (i = 0; i < rank_of(f.a.out); i++)
		if (is_intv(dim_of(f.a.out, i), 1))
			map_put(&f.out, f.a.out->in[i], x_idx(m, 0));
	u.form = form_of(&f, g);
	kb_versions(&kb, in, whole(&f), block_rows, &u);
	cost = pair_cost(&f.a) * (double)f.rows;
	kb.k->flops = cost * (double)const_or(f.a.key->in[0], 64);
	kb.k->cost = x_muli(m, f.a.key->in[0], (int64_t)cost);
	kb_parallel(&kb, body, in);
	map_free(&f.out);
	map_free(&f.score);
	return kb_finish(&kb, body,
		arena_printf(m->arena, "class=attention, rows=%d, keys=%d, tiles=[%d,%d] [%d,%d]%s", f.rows,
			f.keys, u.form ? f.across.mr : f.a.qk.mr, u.form ? f.across.nr : f.a.qk.nr, f.a.pv.mr,
			f.a.pv.nr, u.form ? ", across" : ""));
}
