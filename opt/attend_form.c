/* The definition of attention (attend.c) at the rows and keys of a GPU's block. */
#include <stdlib.h>
#include <string.h>
#include "attend_form.h"

/* Do keys and values not depend on axis k of the score? */
static bool
is_row(const Attention *a, int k)
{
	return a->outer[k] && !contains(a->qk.eb, a->score->in[k]) && !contains(a->pv.eb, a->outer[k])
		&& !is_intv(a->outer[k]->in[0], 1);
}

void
flash_open(Flash *f, KB *kb, const Group *g)
{
	const Attention *a = &f->a;
	int k;

	f->kb = kb;
	f->m = kb->m;
	f->type = a->reduce->type->dtype;
	f->leave = scores_leave(g, a);
	f->column = a->pv.n;
	for (k = 0; k < a->nouter; k++)
		if (k != a->row && is_row(a, k))
			f->rows[f->nrows++] = a->outer[k];
	f->rows[f->nrows++] = a->outer[a->row];
	f->extent = axes_product(f->m, f->nrows, f->rows);
}

void
flash_close(Flash *f)
{
	map_free(&f->out);
	map_free(&f->score);
}

static bool
among_rows(const Flash *f, const Node *axis)
{
	int i;

	for (i = 0; i < f->nrows; i++)
		if (f->rows[i] == axis)
			return true;
	return false;
}

Node *
flash_batch(Flash *f)
{
	Node *n = x_idx(f->m, 1);
	int k;

	for (k = 0; k < f->a.nouter; k++)
		if (f->a.outer[k] && !among_rows(f, f->a.outer[k]))
			n = x_mul(f->m, n, f->a.outer[k]->in[0]);
	return n;
}

void
flash_bind(Flash *f, Region *r, Node *number)
{
	Module *m = f->m;
	Attention *a = &f->a;
	Node *i;
	int k;

	for (k = 0; k < rank_of(a->out); k++)
		if (is_intv(dim_of(a->out, k), 1))
			map_put(&f->out, a->out->in[k], x_idx(m, 0));
	for (k = a->nouter; k-- > 0;) {
		i = a->outer[k] ? a->outer[k] : x_idx(m, 0);
		if (a->outer[k] && !among_rows(f, a->outer[k])) {
			i = l_let(m, r, x_mod(m, number, a->outer[k]->in[0]));
			number = x_fdiv(m, number, a->outer[k]->in[0]);
			map_put(&f->out, a->outer[k], i);
		}
		map_put(&f->score, a->score->in[k], i);
	}
}

Node *
flash_clamp(Module *m, Node *i, Node *extent)
{
	return x_min(m, i, x_addi(m, extent, -1));
}

Node *
flash_at(Flash *f, Node *e, Node *row, Node *key, Node *column)
{
	Map map = {0};

	e = subst(f->m, e, &f->out, false);
	if (row)
		digits(f->m, &map, f->nrows, f->rows, row);
	if (key)
		map_put(&map, f->a.key, key);
	if (column)
		map_put(&map, f->column, column);
	e = subst(f->m, e, &map, false);
	map_free(&map);
	return e;
}

Node *
flash_of_score(Flash *f, Node *e)
{
	return subst(f->m, e, &f->score, false);
}

Node *
flash_factor(Flash *f, Node *e, Node *deep)
{
	Map map = {0};

	digits(f->m, &map, f->a.qk.nred, f->a.qk.red, deep);
	e = flash_of_score(f, subst(f->m, e, &map, false));
	map_free(&map);
	return e;
}

/* A score from the sum of products, over the rows' and keys' axes of the result. */
static Node *
score_of(Flash *f, Node *sum)
{
	const Attention *a = &f->a;
	Node *e = subst1(f->m, a->score->in[a->score->nin - 1], a->qk.reduce, sum);

	return flash_of_score(f, subst1(f->m, e, a->score->in[a->nouter], a->at));
}

/* What the softmax is of, with the score for those that it reads. */
static Node *
x_of(Flash *f, Node *score)
{
	Map map = {0};
	Node **list, *e;
	int i, n;

	list = topo_scalar(f->a.x, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_READ && list[i]->in[0] == f->a.score)
			map_put(&map, list[i], score);
	free(list);
	e = subst(f->m, f->a.x, &map, false);
	map_free(&map);
	return e;
}

Node *
flash_score(Flash *f, Region *r, Node *sum, Node *row, Node *key)
{
	Module *m = f->m;
	const Attention *a = &f->a;
	Node *inside = x_lt(m, key, f->n), *score = score_of(f, sum), *idx[MAX_RANK];
	Region *put = region_new(m, NULL);
	int k;

	for (k = 0; k < a->nouter; k++)
		idx[k] = flash_at(f, map_get(&f->score, a->score->in[k]), row, NULL, NULL);
	idx[k] = key;
	if (f->leave) {
		kb_store(f->kb, put, a->score, idx, kb_emit(f->kb, put, flash_at(f, score, row, key,
			NULL)));
		l_when(m, r, x_and(m, x_lt(m, row, f->extent), inside), put, NULL);
	}
	score = x_cast(m, f->type, flash_at(f, x_of(f, score), flash_clamp(m, row, f->extent),
		flash_clamp(m, key, f->n), NULL));
	return kb_emit(f->kb, r, x_select(m, inside, score, x_comb_identity(m, COMB_MAX, f->type)));
}

Node *
flash_end(Flash *f, Region *r, Node *q0, int rows)
{
	Module *m = f->m;
	Node *end = f->n, *row = f->rows[f->nrows - 1], *all = axes_product(m, f->nrows - 1, f->rows);

	/* of several axes a block may have any of the last one's rows */
	if (!f->leave)
		end = subst(m, is_intv(all, 1) ? attention_end(m, &f->a, q0, x_idx(m, rows))
			: attention_end(m, &f->a, x_idx(m, 0), row->in[0]), &f->out, false);
	end = kb_emit(f->kb, r, end);
	return end->code == O_NUM ? end : l_let(m, r, end);
}

Node *
flash_reduced(Flash *f, Node *total, Node *sum, Node *max)
{
	Module *m = f->m;

	return x_select(m, x_eq(m, f->a.key->in[0], x_idx(m, 0)), x_int(m, f->type, 0),
		attention_scaled(m, &f->a, total, sum, max));
}

Node *
flash_result(Flash *f, Node *reduced, Node *row, Node *column, Node **idx)
{
	Node *out = f->a.out;
	int k;

	for (k = 0; k < rank_of(out); k++)
		idx[k] = flash_at(f, out->in[k], row, NULL, column);
	return flash_at(f, subst1(f->m, out->in[out->nin - 1], f->a.reduce, reduced), row, NULL,
		column);
}
