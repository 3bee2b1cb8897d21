/*
 * The form of products of few rows (a decoder's step, a classifier's last layer), for GPUs:
 *
 *	out[rows.., n] = f(sum (k) a[rows.., k] * w[n, k], ..)
 *
 * with constant weights w, at most MAX_FEW rows and any elementwise f of one sum or more (a gate
 * and what it gates). Each weight is used once a row, so memory gives the time. Such a tensor's
 * kernel also takes in
 *
 *	columns  products of the same rows and columns that it alone reads, element for element
 *	prologue what comes before the products, if only they read it and it is small: norms,
 *	         quantization. Each block computes it anew, which costs less than a launch.
 *
 * A kernel of several such members has `outer = 0` in the text: they share no loop over axes.
 */
#include <stdlib.h>
#include <string.h>
#include "few.h"

enum {
	MIN_COLUMNS = 32, MIN_WEIGHTS = 1 << 12, MAX_HALF_ROWS = 1,
	MAX_WORK = 1 << 18,    /* of a block's prologue, in element_cost's terms; */
	MAX_SUMMED = 1 << 16,  /* elements that one of its reductions is over */
};

/* ---- products -------------------------------------------------------------------------------- */

static bool
reads_weights(Node *e)
{
	Node **list;
	int i, n;
	bool ok = true;

	list = topo_scalar(e, &n);
	for (i = 0; i < n && ok; i++) {
		ok = list[i]->code != O_REDUCE && list[i]->code != O_ITER;
		if (list[i]->code == O_READ)
			ok &= definition(list[i]->in[0])->code == O_CONST;
	}
	free(list);
	return ok;
}

static bool
moves_along(const FewProduct *p, const Node *e)
{
	int i;

	for (i = 0; i < p->nred; i++)
		if (contains(e, p->red[i]))
			return true;
	return false;
}

static bool
holds_rows(const Few *f, const Node *e)
{
	int i;

	for (i = 0; i < f->nrow; i++)
		if (contains(e, f->row[i]))
			return true;
	return false;
}

static bool
has_loop(Node *e)
{
	bool loop;

	body_cost(e, &loop);
	return loop;
}

/* Is the reduction a sum of weights times what does not depend on the column? */
static bool
product_of(const Few *f, Node *red, FewProduct *p)
{
	Node *mul = red->in[red->nin - 1];
	int i, bits;

	*p = (FewProduct){.reduce = red, .depth = 1, .each = 1};
	if (red->n != COMB_SUM || (red->type->dtype != DT_F32 && red->type->dtype != DT_I32)
	 || mul->code != O_MUL)
		return false;
	for (i = 0; i + 1 < red->nin; i++) {
		p->red[p->nred++] = red->in[i];
		p->depth *= const_or(red->in[i]->in[0], 0);
	}
	i = contains(mul->in[1], f->n);
	p->ea = mul->in[!i], p->eb = mul->in[i];
	if (contains(p->ea, f->n) || !contains(p->eb, f->n) || has_loop(p->ea) || !reads_weights(p->eb)
	 || holds_rows(f, p->eb) || !(p->b = factor_read(p->eb, false)) || !contains(p->b, f->n))
		return false;
	bits = dtypes[storage_type(dtype_of(p->b->in[0]))].bits;
	for (i = p->nred; i-- > 0 && !contains(p->b, p->red[i]);)
		p->each *= (int)const_or(p->red[i]->in[0], 1);
	return p->depth >= MIN_COLUMNS && bits >= 8 && bits <= 32 && p->each <= MIN_COLUMNS
		&& moves_along(p, p->b) && p->depth * f->columns >= MIN_WEIGHTS;
}

/* The axes: columns are the last one of extent, the others are rows. */
static bool
axes_of(Few *f)
{
	Node *t = f->t;
	int i;

	f->rows = 1;
	for (i = rank_of(t); i-- > 0;) {
		if (is_intv(dim_of(t, i), 1))
			continue;
		if (!f->n) {
			f->n = t->in[i];
			f->columns = const_or(dim_of(t, i), 0);
		} else {
			f->row[f->nrow++] = t->in[i];
			f->rows = sat_mul(f->rows, const_or(dim_of(t, i), INT64_MAX));
		}
	}
	for (i = 0; i < f->nrow / 2; i++) {          /* slowest first */
		Node *x = f->row[i];
		f->row[i] = f->row[f->nrow - 1 - i], f->row[f->nrow - 1 - i] = x;
	}
	return f->n && f->columns >= MIN_COLUMNS && f->rows >= 1 && f->rows <= MAX_FEW;
}

/* Do reductions stand within each other, or where a choice guards them? */
static bool
stand_apart(Node **list, int n, const Few *f)
{
	int i, k;

	for (i = 0; i < n; i++)
		for (k = 0; k < f->nproducts; k++) {
			const Node *red = f->product[k].reduce;
			if ((list[i]->code == O_REDUCE && list[i] != red && contains(list[i], red))
			 || (list[i]->code == O_SELECT
				&& (contains(list[i]->in[1], red) || contains(list[i]->in[2], red))))
				return false;
		}
	return true;
}

bool
few_of(Module *m, Node *t, Few *f)
{
	Node **list;
	int i, n;
	bool ok;

	*f = (Few){.t = t};
	if (!machine_gpu(m->machine) || t->code != O_TENSOR || !axes_of(f))
		return false;
	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0, ok = true; i < n && ok; i++) {
		ok = list[i]->code != O_ITER;
		if (list[i]->code == O_REDUCE)
			ok = f->nproducts < MAX_PRODUCTS && product_of(f, list[i], &f->product[f->nproducts++]);
	}
	ok = ok && f->nproducts > 0 && stand_apart(list, n, f);
	for (i = 0; ok && i < f->nproducts; i++)     /* matrix units take these as fast */
		ok = f->rows <= MAX_HALF_ROWS
			|| dtypes[storage_type(dtype_of(f->product[i].b->in[0]))].bits != 16;
	free(list);
	return ok;
}

/* ---- members --------------------------------------------------------------------------------- */

static int64_t
count_of(const Node *t)
{
	int64_t n = 1;
	int i;

	for (i = 0; i < rank_of(t); i++)
		n = sat_mul(n, const_or(dim_of(t, i), INT64_MAX));
	return n;
}

int64_t
few_bytes(const Node *t)
{
	return few_padded(count_of(t)) * (dtypes[storage_type(dtype_of(t))].bits / 8);
}

int64_t
few_padded(int64_t n)
{
	return n + n / FEW_RUN * FEW_PAD + FEW_PAD;
}

/* Elements that the reduction is over, for all of t. */
static int64_t
summed(const Node *t, const Node *red)
{
	int64_t n = count_of(t);
	int i;

	for (i = 0; i + 1 < red->nin; i++)
		n = sat_mul(n, const_or(red->in[i]->in[0], INT64_MAX));
	return n;
}

bool
few_prologue(Module *m, Node *t)
{
	Node **list;
	Few f;
	int i, k, n;
	bool ok = t->code == O_TENSOR && !few_of(m, t, &f) && !attr_find(t->attrs, "halo")
		&& count_of(t) <= FEW_PROLOGUE && few_bytes(t) <= FEW_PROLOGUE
		&& element_cost(t->in[t->nin - 1]) * (double)count_of(t) <= MAX_WORK;

	if (!ok)
		return false;
	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n && ok; i++) {
		ok = list[i]->code != O_ITER && (list[i]->code != O_REDUCE || summed(t, list[i]) <= MAX_SUMMED);
		for (k = 0; ok && list[i]->code == O_REDUCE && k + 1 < list[i]->nin; k++)
			ok = const_or(list[i]->in[k]->in[0], 0) > 0;
		for (k = 0; ok && list[i]->code == O_REDUCE && k < n; k++)
			ok = list[k] == list[i] || (list[k]->code != O_REDUCE && list[k]->code != O_SELECT)
				|| !contains(list[k], list[i]);
	}
	free(list);
	return ok;
}

bool
few_beside(Module *m, Node *t, const Few *out)
{
	Few f;
	int i;

	if (!few_of(m, t, &f) || rank_of(t) != rank_of(out->t))
		return false;
	for (i = 0; i < rank_of(t); i++)
		if (dim_of(t, i) != dim_of(out->t, i))
			return false;
	return true;
}

/* Is every read of p in t at t's own element? */
static bool
reads_own(const Node *t, const Node *p)
{
	Node **list;
	int i, k, n;
	bool ok = true;

	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n; i++)
		for (k = 0; list[i]->code == O_READ && list[i]->in[0] == p && k < rank_of(p); k++)
			ok &= list[i]->in[1 + k] == t->in[k] || is_intv(dim_of(p, k), 1);
	free(list);
	return ok;
}

bool
few_group(Module *m, const Group *g)
{
	Few f;
	int i, k;
	int64_t bytes = 0;

	if (!few_of(m, g->members[g->n - 1], &f))
		return false;
	for (i = 0; i + 1 < g->n; i++) {
		if (!g->local[i])
			return false;
		if (few_beside(m, g->members[i], &f)) {
			for (k = i + 1; k < g->n; k++)
				if (!reads_own(g->members[k], g->members[i]))
					return false;
		} else if (!few_prologue(m, g->members[i])
		 || (bytes += few_bytes(g->members[i])) > FEW_PROLOGUE)
			return false;
	}
	return true;
}

/* ---- layout ---------------------------------------------------------------------------------- */

/* Dimensions of the product's weights: the column's first, the depth's last, in its order. */
static void
order_of(const FewProduct *p, int *order)
{
	int rank[MAX_RANK], n = rank_of(p->b->in[0]), d, i, k;

	for (d = 0; d < n; d++)
		for (i = 0, rank[d] = -1; i < p->nred; i++)
			if (contains(p->b->in[1 + d], p->red[i]))
				rank[d] = i;
	for (d = 0; d < n; d++) {
		for (k = d; k > 0 && rank[order[k - 1]] > rank[d]; k--)
			order[k] = order[k - 1];
		order[k] = d;
	}
}

void
few_layout(Sched *s, Node *t)
{
	Few f;
	Node *w;
	int order[MAX_RANK], i;

	if (!few_of(s->m, t, &f))
		return;
	for (i = 0; i < f.nproducts; i++) {
		w = f.product[i].b->in[0];
		if (map_get(&s->storage, w) || attr_find(w->attrs, "order"))
			continue;
		order_of(&f.product[i], order);
		storage_set_order(s, storage_of(s, w), order);
	}
}
