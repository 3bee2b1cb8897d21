/*
 * The form of attention: values summed over keys, weighted by a softmax of scores that are sums of
 * products themselves. Found in the definitions whatever operators they come from:
 *
 *	score[.., q, k] = f(sum(d) query * key)
 *	x = elementwise in score, masks, biases
 *	max[.., q] = max(k) x;  e = exp(x - max);  sum[.., q] = sum(k) e
 *	out[.., q, c] = g(sum(k) w * value)
 *
 * with w linear in e: e / sum, under casts and choices that are the same for all keys. Whatever
 * stands between score and out is elementwise or one of the two reductions, and expands into these
 * expressions.
 *
 * A schedule then runs over the keys in blocks with a running maximum, a running sum and a sum of
 * values that is scaled when the maximum rises (Milakov and Gimelshein, "Online normalizer
 * calculation for softmax", 2018; Dao et al., "FlashAttention", 2022), and divides at the end. Over
 * the reals that is the same: class `real`.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sched.h"

enum { MAX_DEPTH = 24, MAX_STEPS = 64 };

typedef struct Search {
	Sched *s;
	Attention *a;
	Map seen;              /* tensor -> itself if it depends on the score, else something else */
	bool any;              /* whether or not its products read operands again and again */
	bool failed;
} Search;

static Node *
strip(Node *e)
{
	while (e->code == O_CAST && dt_float(e->type->dtype) && dt_float(e->in[0]->type->dtype))
		e = e->in[0];
	return e;
}

/* The one reduction of the body, of that kind and over one axis; NULL if there is another loop. */
static Node *
axis_reduction(Node *body, Comb comb)
{
	Node *red = only_reduction(body);

	return red && red->n == comb && red->nin == 2 ? red : NULL;
}

/* Does the read take the row that at[] names, in its first n dimensions? */
static bool
own_row(const Node *read, Node *const *at, int n)
{
	int i, rank = rank_of(read->in[0]);

	if (rank != n && rank != n + 1)
		return false;
	for (i = 0; i < n; i++)
		if (read->in[1 + i] != at[i] && !is_intv(dim_of(read->in[0], i), 1))
			return false;
	return true;
}

static void
add_member(Search *q, Node *t)
{
	if (q->a->n == MAX_ATTENTION - 1)
		q->failed = true;
	else
		q->a->members[q->a->n++] = t;
}

/* Is it a sum of products, whose operands are read again and again unless any will do? */
static bool
sums_products(const Search *q, Node *t)
{
	const Node *red = q->any ? only_reduction(t->in[t->nin - 1]) : NULL;

	return holds_product(q->s->mach, t, NULL)
		|| (red && red->n == COMB_SUM && red->in[red->nin - 1]->code == O_MUL);
}

/* Does t depend on a score of its own row? Notes the score and all between as members. */
static bool
reaches(Search *q, Node *t, int depth)
{
	Attention *a = q->a;
	Node **list, *had = map_get(&q->seen, t);
	int i, n;
	bool yes = false;

	if (had || t->code != O_TENSOR || depth > MAX_DEPTH || q->failed)
		return had == t;
	if (sums_products(q, t)) {
		yes = rank_of(t) == a->nouter + 1;
		q->failed |= yes && a->score;
		a->score = yes ? t : a->score;
	} else {
		list = topo_scalar(t->in[t->nin - 1], &n);
		for (i = 0; i < n; i++)
			yes |= list[i]->code == O_READ && own_row(list[i], t->in, a->nouter)
				&& reaches(q, list[i]->in[0], depth + 1);
		free(list);
	}
	map_put(&q->seen, t, yes ? (void *)t : q);
	if (yes)
		add_member(q, t);
	return yes;
}

static bool
is_member(const Search *q, const Node *t)
{
	return map_get(&q->seen, t) == t;
}

/* e in terms of the score and of reductions. */
static Node *
expand(Search *q, Node *e)
{
	Module *m = q->s->m;
	Node **list, *t;
	int i, n, step;
	Map map;

	for (step = 0; step < MAX_STEPS; step++) {
		map = (Map){0};
		list = topo_scalar(e, &n);
		for (i = 0; i < n; i++) {
			t = list[i]->code == O_READ ? list[i]->in[0] : NULL;
			if (t && t != q->a->score && is_member(q, t) && body_is_plain(t->in[t->nin - 1]))
				map_put(&map, list[i], element_of(m, t, list[i]->in + 1));
		}
		free(list);
		if (!map.n)
			return e;
		e = subst(m, e, &map, false);
		map_free(&map);
	}
	q->failed = true;
	return e;
}

/* Are the sizes equal, as is proved or as the program checks before it runs? */
static bool
same_size(Module *m, Node *a, Node *b)
{
	const Node *c;
	int i;

	if (prove_eq(m, a, b))
		return true;
	for (i = 0; i < m->requires.n; i++) {
		c = ((const Require *)m->requires.at[i])->cond;
		if (c->code == O_EQ && ((c->in[0] == a && c->in[1] == b) || (c->in[0] == b && c->in[1] == a)))
			return true;
	}
	return false;
}

/* Is the place the key, for each of them? It may be 0 where there is one. */
static bool
is_key(Module *m, const Attention *a, const Node *at)
{
	const Node *c = at && at->code == O_SELECT ? at->in[0] : NULL;

	if (at == a->key)
		return true;
	return c && c->code == O_EQ && is_intv(at->in[1], 0) && at->in[2] == a->key
		&& ((is_intv(c->in[1], 1) && same_size(m, c->in[0], a->key->in[0]))
		|| (is_intv(c->in[0], 1) && same_size(m, c->in[1], a->key->in[0])));
}

/* What the tensor that is read reduces over the keys; NULL: it is not such a reduction, and nothing
 * else, or goes over more than the keys (a score that no value belongs to). */
static Node *
reduced(Search *q, Node *read, Comb comb)
{
	Module *m = q->s->m;
	Node *e = strip(element_of(m, read->in[0], read->in + 1)), *red = axis_reduction(e, comb);

	return red && red == e && same_size(m, red->in[0]->in[0], q->a->key->in[0]) ? strip(expand(q, subst1(m, red->in[1], red->in[0], q->a->key))) : NULL;
}

static bool
is_nothing(const Node *e)
{
	return e->code == O_NUM && dt_float(e->type->dtype) && e->num.f == 0;
}

/* Is e the exponential times what is the same for all keys? */
static bool
is_linear(const Attention *a, const Node *e)
{
	bool first;

	if (e == a->exp)
		return true;
	switch (e->code) {
	case O_CAST:
		return dt_float(e->type->dtype) && is_linear(a, e->in[0]);
	case O_MUL:
		first = contains(e->in[0], a->key);
		return is_linear(a, e->in[!first]) && !contains(e->in[first], a->key);
	case O_DIV:
		return is_linear(a, e->in[0]) && !contains(e->in[1], a->key);
	case O_SELECT:
		return !contains(e->in[0], a->key) && (is_nothing(e->in[1]) || is_linear(a, e->in[1]))
			&& (is_nothing(e->in[2]) || is_linear(a, e->in[2]));
	default:
		return false;
	}
}

static Node *
scaled(Module *m, const Attention *a, Node *e, Node *total, Node *sum)
{
	DType d = total->type->dtype;
	bool first;

	if (e == a->exp)
		return total;
	switch (e->code) {
	case O_CAST:
		return scaled(m, a, e->in[0], total, sum);
	case O_MUL:
		first = contains(e->in[0], a->key);
		return x_mul(m, scaled(m, a, e->in[!first], total, sum),
			strip(e->in[first]) == a->sum ? sum : x_cast(m, d, e->in[first]));
	case O_DIV:
		return x2(m, O_DIV, scaled(m, a, e->in[0], total, sum),
			strip(e->in[1]) == a->sum ? sum : x_cast(m, d, e->in[1]));
	case O_SELECT:
		return x_select(m, e->in[0], scaled(m, a, e->in[1], total, sum),
			scaled(m, a, e->in[2], total, sum));
	default:
		return x_int(m, d, 0);               /* is_linear saw a zero */
	}
}

Node *
attention_scaled(Module *m, const Attention *a, Node *total, Node *sum, Node *max)
{
	Node *e = scaled(m, a, a->weight, total, sum);
	Map map = {0};

	map_put(&map, a->max, x_cast(m, a->max->type->dtype, max));
	if (a->sum)
		map_put(&map, a->sum, x_cast(m, a->sum->type->dtype, sum));
	e = subst(m, e, &map, false);
	map_free(&map);
	return e;
}

/* Finds the exponential in the weight, and the reductions that belong to it. */
static bool
match_softmax(Search *q)
{
	Attention *a = q->a;
	Node **list, *e, *read;
	int i, n, others = 0;

	list = topo_scalar(a->weight, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_EXP && contains(list[i], a->key)) {
			others += a->exp != NULL;
			a->exp = list[i];
		}
	e = a->exp ? a->exp->in[0] : NULL;
	if (!e || others || e->code != O_SUB || (a->max = strip(e->in[1]))->code != O_READ
	 || !is_member(q, a->max->in[0])) {
		free(list);
		return false;
	}
	a->x = strip(e->in[0]);
	for (i = 0; i < n; i++) {
		read = list[i];
		if (read->code != O_READ || !is_member(q, read->in[0]) || read->in[0] == a->score
		 || read == a->max)
			continue;
		others += a->sum || reduced(q, read, COMB_SUM) != a->exp;
		a->sum = read;
	}
	free(list);
	return !others && reduced(q, a->max, COMB_MAX) == a->x && is_linear(a, a->weight);
}

/* Does x read only scores of its own row? Notes at which key, if that is one expression. */
static bool
reads_own_scores(Search *q, Node *const *row)
{
	Attention *a = q->a;
	Node **list, *at = NULL;
	int i, n;
	bool ok = true, one = true;

	list = topo_scalar(a->x, &n);
	for (i = 0; i < n && ok; i++)
		if (list[i]->code == O_READ && is_member(q, list[i]->in[0])) {
			ok = list[i]->in[0] == a->score && own_row(list[i], row, a->nouter);
			one &= !at || list[i]->in[list[i]->nin - 1] == at;
			at = list[i]->in[list[i]->nin - 1];
		}
	free(list);
	a->at = one ? at : NULL;
	return ok;
}

/* The axes of the result that the weights are read at: a->outer; they are the result's own. */
static bool
match_row(Attention *a, const Node *read)
{
	Node *at;
	int i, k, rank = rank_of(read->in[0]);

	a->nouter = rank - 1;
	if (rank < 2 || read->in[rank] != a->key)
		return false;
	for (i = 0; i < a->nouter; i++) {
		at = read->in[1 + i];
		for (k = 0; k < rank_of(a->out) && a->out->in[k] != at; k++)
			;
		if (k == rank_of(a->out) && !is_intv(dim_of(read->in[0], i), 1))
			return false;
		a->outer[i] = k < rank_of(a->out) ? at : NULL;
		for (k = 0; k < i; k++)
			if (a->outer[i] && a->outer[k] == a->outer[i])
				return false;
	}
	return true;
}

/* The axis of the columns: the one that only the value has. Its extent is a number. */
static Node *
column_axis(const Attention *a, const Node *weight)
{
	Node *t = a->out, *best = NULL;
	int i, n = 0;

	for (i = 0; i < rank_of(t); i++)
		if (!contains(weight, t->in[i]) && !is_intv(dim_of(t, i), 1)) {
			best = t->in[i];
			n++;
		}
	return n == 1 && const_or(best->in[0], MAX_COLUMNS + 1) <= MAX_COLUMNS ? best : NULL;
}

/* The axis along which keys and values serve many rows: the longest, the last of equals. */
static int
row_dim(Search *q, const Node *value)
{
	Attention *a = q->a;
	Module *m = q->s->m;
	Node *own;
	int i, best = -1;

	for (i = 0; i < a->nouter; i++) {
		own = a->score->in[i];
		if (a->outer[i] && !is_intv(own->in[0], 1) && contains(a->qk.ea, own)
		 && !contains(a->qk.eb, own) && !contains(value, a->outer[i])
		 && (best < 0 || likely_extent(m, own->in[0]) >= likely_extent(m, a->outer[best]->in[0])))
			best = i;
	}
	return best;
}

/* Are the values what the rows make of their scores? Other rows' are not there yet. */
static bool
reads_members(const Attention *a, Node *value)
{
	Node **list;
	int i, k, n;
	bool yes = false;

	list = topo_scalar(value, &n);
	for (i = 0; i < n; i++)
		for (k = 0; k < a->n && list[i]->code == O_READ; k++)
			yes |= list[i]->in[0] == a->members[k];
	free(list);
	return yes;
}

static bool
match_products(Search *q, Node *weight, Node *value)
{
	Attention *a = q->a;

	if (reads_members(a, value))
		return false;
	if (!contraction_along(q->s, a->out, a->column, &a->pv) || a->pv.ea != weight
	 || !contraction_along(q->s, a->score, a->score->in[a->nouter], &a->qk))
		return false;
	a->row = row_dim(q, value);
	return a->row >= 0;
}

static bool
match(Search *q, Node *red, Node *weight, Node *value)
{
	Attention *a = q->a;
	Node *read = strip(q->s->gpu && weight->code == O_TF32 ? weight->in[0] : weight),
		*row[MAX_RANK];
	int i;

	if (read->code != O_READ || read->in[0]->code != O_TENSOR || !match_row(a, read)
	 || sums_products(q, read->in[0]) || !reaches(q, read->in[0], 0) || !a->score)
		return false;
	for (i = 0; i < a->nouter; i++)
		row[i] = read->in[1 + i];
	a->reduce = red;
	a->weight = expand(q, read);
	if (!match_softmax(q) || !reads_own_scores(q, row) || q->failed)
		return false;
	add_member(q, a->out);
	a->value = value;
	a->column = column_axis(a, weight);
	return a->column && (q->any || match_products(q, weight, value)) && !q->failed;
}

static bool
search(Sched *s, Node *out, Attention *a, bool any)
{
	Search q = {.s = s, .a = a, .any = any};
	Node *red, *mul;
	int i;
	bool ok = false;

	if (s->m->strict || out->code != O_TENSOR
	 || !(red = axis_reduction(out->in[out->nin - 1], COMB_SUM))
	 || (red->type->dtype != DT_F32 && red->type->dtype != DT_F64))
		return false;
	mul = red->in[1];
	for (i = 0; mul->code == O_MUL && i < 2 && !ok; i++) {
		*a = (Attention){.out = out, .key = red->in[0]};
		ok = match(&q, red, mul->in[i], mul->in[1 - i]);
		map_free(&q.seen);
		q = (Search){.s = s, .a = a, .any = any};
	}
	return ok;
}

bool
attention_of(Sched *s, Node *out, Attention *a)
{
	return search(s, out, a, false)
		&& (s->gpu ? attention_fits_gpu(a) : is_key(s->m, a, a->at));
}

bool
attention_at_all(Sched *s, Node *out, Attention *a)
{
	return search(s, out, a, true);
}

bool
scores_leave(const Group *g, const Attention *a)
{
	int i;

	for (i = 0; i < g->n; i++)
		if (g->members[i] == a->score)
			return !g->local[i];
	return false;
}

/* ---- masked keys ----------------------------------------------------------------------------- */

static bool
is_low(const Node *e)
{
	while (e->code == O_CAST)
		e = e->in[0];
	return e->code == O_NUM && dt_float(e->type->dtype) && e->num.f == -INFINITY;
}

/* The key from which on `a < b` (or `a <= b`) is false for all rows of [q0, q0 + rows); NULL: not
 * known. */
static Node *
bound_of(Module *m, const Attention *a, const Node *c, Node *q0, Node *rows)
{
	Node *row = a->outer[a->row], *coef, *rest, *slope, *other;
	int64_t up;

	if ((c->code != O_LT && c->code != O_LE) || c->in[0]->type->dtype != DT_INDEX
	 || !linear_in(m, x_sub(m, c->in[0], c->in[1]), a->key, &coef, &rest) || !is_intv(coef, 1)
	 || !linear_in(m, rest, row, &slope, &other) || !is_int(slope, &up))
		return NULL;
	rest = subst1(m, rest, row, up < 0 ? x_addi(m, x_add(m, q0, rows), -1) : q0);
	return x_sub(m, x_idx(m, c->code == O_LE), rest);
}

static Node *
lower(Module *m, Node *a, Node *b)
{
	return a && b ? x_min(m, a, b) : a ? a : b;
}

static Node *
bound_if(Module *m, const Attention *a, const Node *c, Node *q0, Node *rows)
{
	return c->code == O_AND ? lower(m, bound_if(m, a, c->in[0], q0, rows),
		bound_if(m, a, c->in[1], q0, rows)) : bound_of(m, a, c, q0, rows);
}

/* The key from which on e is -inf. */
static Node *
bound_in(Module *m, const Attention *a, const Node *e, Node *q0, Node *rows)
{
	switch (e->code) {
	case O_CAST:
		return bound_in(m, a, e->in[0], q0, rows);
	case O_ADD:
		return lower(m, bound_in(m, a, e->in[0], q0, rows), bound_in(m, a, e->in[1], q0, rows));
	case O_SELECT:
		return is_low(e->in[2]) ? lower(m, bound_if(m, a, e->in[0], q0, rows),
			bound_in(m, a, e->in[1], q0, rows)) : NULL;
	default:
		return NULL;
	}
}

Node *
attention_end(Module *m, const Attention *a, Node *q0, Node *rows)
{
	Node *score = a->score->in[a->score->nin - 1], *end;
	Map map = {0};
	int i;

	for (i = 0; i < a->nouter; i++)
		map_put(&map, a->score->in[i], a->outer[i] ? a->outer[i] : x_idx(m, 0));
	map_put(&map, a->score->in[a->nouter], a->key);
	score = a->at == a->key ? subst(m, score, &map, false) : NULL;
	map_free(&map);
	end = lower(m, bound_in(m, a, a->x, q0, rows),
		score ? bound_in(m, a, score, q0, rows) : NULL);
	return end ? x_max(m, x_idx(m, 0), x_min(m, end, a->key->in[0])) : a->key->in[0];
}
