/*
 * decode: an attention of few rows (a decoder's step: one new token, of heads that may share their
 * keys) reads each key and value once or a few times: memory gives the time, and rows and heads are
 * too few to fill a GPU. Its keys are cut into parts, that blocks of their own sum up (Dao et al.,
 * "Flash-Decoding for long-context inference", 2023):
 *
 *	score[.., s, k] = x at key s L + k, -inf past the end
 *	max[.., s] = max(k: L) score;  sum[.., s] = sum(k: L) exp(score - max)
 *	total[.., s, c] = sum(k: L) exp(score - max) * value
 *	out[.., c] = scaled(sum(s) exp(max - M) total, sum(s) exp(max - M) sum),  M = max(s) max
 *
 * with nothing subtracted while a maximum is -inf. The parts' order and number depend on the sizes
 * alone, so results do not vary from run to run. Over the reals that is the same: class `real`.
 * The first four tensors are one kernel (group.c, gpu_decode.c).
 *
 * Needs the tensor level after producers are inlined; leaves such attentions as above.
 */
#include <math.h>
#include <stdlib.h>
#include "sched.h"

/* Keys of a part: at least, in steps of, at most; of all a part's rows at most; blocks for each of
 * the machine's units; the depth at most. */
enum {
	MIN_PART = 64, PART_STEP = 32, MAX_PART = 512, MAX_PART_SCORES = 2048,
	PER_UNIT = 2, MAX_DEPTH = 512,
};

/* ---- the form -------------------------------------------------------------------------------- */

static Node *
low(Module *m)
{
	return x_comb_identity(m, COMB_MAX, DT_F32);
}

/* What is subtracted from scores whose maximum this is. */
static Node *
shift_of(Module *m, Node *max)
{
	return x_select(m, x_eq(m, max, low(m)), x_int(m, DT_F32, 0), max);
}

/* Is e a read of t at the first n axes of `of`, and nothing or `last` behind? */
static bool
reads_at(const Node *e, const Node *of, int n, const Node *last)
{
	int i;

	if (e->code != O_READ || e->in[0]->code != O_TENSOR
	 || rank_of(e->in[0]) != n + (last != NULL))
		return false;
	for (i = 0; i < n; i++)
		if (dim_of(e->in[0], i) != dim_of(of, i)
		 || (e->in[1 + i] != of->in[i] && !is_intv(dim_of(of, i), 1)))
			return false;
	return !last || e->in[1 + n] == last;
}

/* Is e exp(score[.., key] - shift_of(max[..])) at t's own axes? Notes both tensors, or compares. */
static bool
is_weight(Module *m, KeyParts *p, const Node *t, const Node *key, const Node *e)
{
	const Node *sub = e->code == O_EXP ? e->in[0] : e, *max;

	if (sub->code != O_SUB || sub->in[1]->code != O_SELECT)
		return false;
	max = sub->in[1]->in[2];
	if (!reads_at(sub->in[0], t, p->nouter, key) || !reads_at(max, t, p->nouter, NULL)
	 || sub->in[1] != shift_of(m, sub->in[1]->in[2]))
		return false;
	if (!p->score)
		p->score = sub->in[0]->in[0], p->max = max->in[0];
	return p->score == sub->in[0]->in[0] && p->max == max->in[0];
}

static bool
is_maximum(const KeyParts *p)
{
	const Node *e = p->max->in[p->max->nin - 1];

	return e->code == O_REDUCE && e->n == COMB_MAX && e->nin == 2
		&& reads_at(e->in[1], p->max, p->nouter, e->in[0]) && e->in[1]->in[0] == p->score;
}

bool
key_parts_sum(Module *m, const KeyParts *p, Node *t)
{
	const Node *e = t->in[t->nin - 1];
	KeyParts of = *p;

	return t->code == O_TENSOR && rank_of(t) == p->nouter && e->code == O_REDUCE
		&& e->n == COMB_SUM
		&& e->nin == 2 && is_weight(m, &of, t, e->in[0], e->in[1]);
}

/* The keys of the part, if cond says `key < their number` in some form. */
static Node *
count_of(Module *m, const Node *cond, Node *key)
{
	Node *coef, *rest;

	return cond->code == O_LT && linear_in(m, x_sub(m, cond->in[0], cond->in[1]), key, &coef,
		&rest)
		&& is_intv(coef, 1) ? x_min(m, x_sub(m, x_idx(m, 0), rest), key->in[0]) : NULL;
}

/* Consecutive values of the axis for which e is the same: its extent, or a number by which e
 * divides it. */
static int64_t
run_in(Module *m, Node *e, Node *axis)
{
	Map map = {0};
	Node **list;
	int64_t run = const_or(axis->in[0], 0), by;
	int i, n;

	if (!contains(e, axis))
		return run;
	list = topo_scalar(e, &n);
	for (i = 0, run = 0; i < n; i++)
		if (list[i]->code == O_FLOORDIV && list[i]->in[0] == axis
		 && is_int(list[i]->in[1], &by) && (!run || run == by)) {
			map_put(&map, list[i], x_idx(m, 0));
			run = by;
		}
	free(list);
	if (run && (contains(subst(m, e, &map, false), axis) || const_or(axis->in[0], 1) % run))
		run = 0;
	map_free(&map);
	return run ? run : 1;
}

/* The rows of a block: along which outer axes keys and values do not change. */
static bool
count_rows(Module *m, KeyParts *p)
{
	int64_t rows = 1, a, b;
	int i;

	for (i = 0; i + 1 < p->nouter; i++) {
		a = run_in(m, p->eb, p->score->in[i]), b = run_in(m, p->value, p->total->in[i]);
		if (!a && !b)                        /* rows, of which nobody knows how many */
			return false;
		p->run[i] = !a || !b ? 1 : a % b == 0 ? b : b % a == 0 ? a : 1;
		rows = sat_mul(rows, p->run[i]);
	}
	p->run[i] = 1;
	p->rows = (int)rows;
	return rows <= MAX_DECODE_ROWS;
}

/* The sum of products in the score, its factors told apart: keys change with the key. */
static bool
find_products(KeyParts *p)
{
	Node *key = p->score->in[p->nouter],
		*red = only_reduction(p->score->in[p->score->nin - 1]), *mul;
	int i, second;

	if (!red || red->n != COMB_SUM || (mul = red->in[red->nin - 1])->code != O_MUL)
		return false;
	second = contains(mul->in[1], key);
	p->products = red;
	p->ea = mul->in[!second], p->eb = mul->in[second];
	for (i = 0, p->depth = 1; i + 1 < red->nin; i++)
		p->depth = sat_mul(p->depth, const_or(red->in[i]->in[0], 0));
	return contains(p->eb, key) && !contains(p->ea, key) && p->depth > 0
		&& p->depth <= MAX_DEPTH;
}

/* w * value, under a choice of keys that there are; total's last axis has the columns. */
static bool
find_value(Module *m, KeyParts *p)
{
	Node *t = p->total, *red = t->in[t->nin - 1], *e = red->in[1], *zero = x_int(m, DT_F32, 0);
	int i;

	p->count = p->key->in[0];
	if (e->code == O_SELECT && e->in[2] == zero) {
		p->count = count_of(m, e->in[0], p->key);
		e = e->in[1];
	}
	if (!p->count || e->code != O_MUL)
		return false;
	for (i = 0; i < 2; i++)
		if (is_weight(m, p, t, p->key, e->in[i])) {
			p->value = e->in[1 - i];
			return body_is_plain(p->value);
		}
	return false;
}

bool
key_parts(Module *m, Node *t, KeyParts *p)
{
	Node *red;

	if (t->code != O_TENSOR || rank_of(t) < 2)
		return false;
	red = t->in[t->nin - 1];
	if (red->code != O_REDUCE || red->n != COMB_SUM || red->nin != 2
	 || red->type->dtype != DT_F32)
		return false;
	*p = (KeyParts){.total = t, .nouter = rank_of(t) - 1, .key = red->in[0]};
	p->column = t->in[p->nouter];
	p->columns = const_or(p->column->in[0], 0);
	return p->columns > 0 && find_value(m, p) && is_maximum(p) && find_products(p)
		&& count_rows(m, p);
}

bool
key_parts_group(Module *m, const Group *g, KeyParts *p)
{
	int i;

	for (i = 0; i < g->n && !key_parts(m, g->members[i], p); i++)
		;
	if (g->n != 4 || i == g->n || g->nouter != p->nouter || !member_of(g, p->score)
	 || !member_of(g, p->max))
		return false;
	for (i = 0; i < g->n; i++)
		if (key_parts_sum(m, p, g->members[i]))
			p->sum = g->members[i];
		else if (g->members[i] == p->score && !g->local[i])
			return false;
	return p->sum != NULL;
}

/* ---- the rewrite ----------------------------------------------------------------------------- */

/* The attention's tensors anew, over axes of their own. */
typedef struct Cut {
	Module *m;
	const Attention *a;
	Node *x;               /* what the softmax is of, over the result's axes and the key */
	Node *size, *parts;    /* keys of a part; parts */
	int nouter; Node *outer[MAX_RANK];   /* the result's axes but the columns' */
	Node *score, *max, *sum, *total;
} Cut;

/* New axes for the first n of outer, and the part's number. */
static void
own_axes(const Cut *c, Map *map, Node **axes)
{
	int i;

	for (i = 0; i < c->nouter; i++)
		map_put(map, c->outer[i], axes[i] = x_axis(c->m, c->outer[i]->in[0]));
	axes[i] = x_axis(c->m, c->parts);
}

static Node *
key_at(const Cut *c, Node *part, Node *k)
{
	return x_add(c->m, x_mul(c->m, part, c->size), k);
}

static Node *
there_is(const Cut *c, Node *key)
{
	return x_lt(c->m, key, c->a->key->in[0]);
}

static void
make_score(Cut *c)
{
	Module *m = c->m;
	Node *axes[MAX_RANK + 2], *key, *e;
	Map map = {0};
	int n = c->nouter + 1;

	own_axes(c, &map, axes);
	axes[n] = x_axis(m, c->size);
	key = key_at(c, axes[n - 1], axes[n]);
	map_put(&map, c->a->key, key);
	e = x_cast(m, DT_F32, subst(m, c->x, &map, true));
	c->score = t_tensor(m, n + 1, axes, x_select(m, there_is(c, key), e, low(m)));
	map_free(&map);
}

/* The score at axes and a key of the part, and exp(score - max) there. */
static Node *
score_at(const Cut *c, Node *const *axes, Node *k)
{
	Node *idx[MAX_RANK + 2];
	int i;

	for (i = 0; i <= c->nouter; i++)
		idx[i] = axes[i];
	idx[i] = k;
	return x_read(c->m, c->score, idx);
}

static Node *
weight_at(const Cut *c, Node *const *axes, Node *k)
{
	Module *m = c->m;

	return x1(m, O_EXP, x_sub(m, score_at(c, axes, k), shift_of(m, x_read(m, c->max, axes))));
}

static void
make_statistics(Cut *c)
{
	Module *m = c->m;
	Node *axes[MAX_RANK + 1], *k = x_axis(m, c->size);
	Map map = {0};

	own_axes(c, &map, axes);
	c->max = t_tensor(m, c->nouter + 1, axes,
		x_reduce(m, COMB_MAX, 1, &k, score_at(c, axes, k)));
	map_free(&map);
	own_axes(c, &map, axes);
	k = x_axis(m, c->size);
	c->sum = t_tensor(m, c->nouter + 1, axes,
		x_reduce(m, COMB_SUM, 1, &k, weight_at(c, axes, k)));
	map_free(&map);
}

static void
make_total(Cut *c)
{
	Module *m = c->m;
	Node *axes[MAX_RANK + 2], *k = x_axis(m, c->size), *key, *e;
	Map map = {0};
	int n = c->nouter + 1;

	own_axes(c, &map, axes);
	axes[n] = x_axis(m, c->a->column->in[0]);
	key = key_at(c, axes[n - 1], k);
	map_put(&map, c->a->key, key);
	map_put(&map, c->a->column, axes[n]);
	e = x_mul(m, weight_at(c, axes, k), x_cast(m, DT_F32, subst(m, c->a->value, &map, false)));
	e = x_select(m, there_is(c, key), e, x_int(m, DT_F32, 0));
	c->total = t_tensor(m, n + 1, axes, x_reduce(m, COMB_SUM, 1, &k, e));
	map_free(&map);
}

/* sum(s) exp(max[.., s] - top) * t[.., s, ..] at the result's axes */
static Node *
combined(const Cut *c, Node *t, Node *top)
{
	Module *m = c->m;
	Node *idx[MAX_RANK + 2], *s = x_axis(m, c->parts), *e;
	int i;

	for (i = 0; i < c->nouter; i++)
		idx[i] = c->outer[i];
	idx[i++] = s;
	idx[i] = c->a->column;
	e = x1(m, O_EXP, x_sub(m, x_read(m, c->max, idx), shift_of(m, top)));
	return x_reduce(m, COMB_SUM, 1, &s, x_mul(m, e, x_read(m, t, idx)));
}

static Node *
combine(const Cut *c)
{
	Module *m = c->m;
	Node *idx[MAX_RANK + 1], *s = x_axis(m, c->parts), *top, *none, *e, *out = c->a->out;
	int i;

	for (i = 0; i < c->nouter; i++)
		idx[i] = c->outer[i];
	idx[i] = s;
	top = x_reduce(m, COMB_MAX, 1, &s, x_read(m, c->max, idx));
	e = combined(c, c->sum, top);
	none = x_eq(m, c->a->key->in[0], x_idx(m, 0));
	if (!is_intv(none, 0))                       /* 0 / 1 where there are no keys */
		e = x_add(m, e, x_select(m, none, x_int(m, DT_F32, 1), x_int(m, DT_F32, 0)));
	e = attention_scaled(m, c->a, combined(c, c->total, top), e, top);
	e = subst1(m, out->in[out->nin - 1], c->a->reduce, e);
	return t_tensor(m, rank_of(out), out->in, e);
}

static void
make_parts(Cut *c, Node *size)
{
	c->size = size;
	c->parts = x_ceildiv(c->m, c->a->key->in[0], size);
	make_score(c);
	make_statistics(c);
	make_total(c);
}

/* What the softmax is of, with the score's definition for reads of it. */
static Node *
softmax_of(Module *m, const Attention *a)
{
	Map map = {0};
	Node **list, *e;
	int i, n;

	list = topo_scalar(a->x, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_READ && list[i]->in[0] == a->score)
			map_put(&map, list[i], element_of(m, a->score, list[i]->in + 1));
	free(list);
	e = subst(m, a->x, &map, false);
	map_free(&map);
	return e;
}

typedef struct Decode {
	Sched s;
	Map users;             /* tensor -> Vec of what uses it */
} Decode;

/* Blocks for a part: of what lies beside the rows that share keys. */
static double
likely_blocks(Module *m, const KeyParts *p)
{
	double n = 1;
	int i;

	for (i = 0; i + 1 < p->nouter; i++)
		n *= (double)likely_extent(m, p->total->in[i]->in[0]) / (double)p->run[i];
	return n < 1 ? 1 : n;
}

/* Keys of a part: so many that each unit gets some blocks. */
static Node *
part_size(const Decode *q, const KeyParts *p, Node *keys)
{
	Module *m = q->s.m;
	int64_t want = (int64_t)(PER_UNIT * q->s.mach->units / likely_blocks(m, p)),
		most = MAX_PART_SCORES / p->rows < MAX_PART ? MAX_PART_SCORES / p->rows : MAX_PART;
	Node *size = x_ceildiv(m, keys, x_idx(m, want < 1 ? 1 : want));

	size = x_muli(m, x_ceildiv(m, size, x_idx(m, PART_STEP)), PART_STEP);
	return x_min(m, x_max(m, size, x_idx(m, MIN_PART)), x_idx(m, most));
}

static void
note_user(Decode *q, Node *t, Node *user)
{
	Vec *v = map_get(&q->users, t);

	if (!v)
		map_put(&q->users, t, v = NEW(q->s.m, Vec));
	vec_push(q->s.m, v, user);
}

static void
find_users(Decode *q)
{
	Module *m = q->s.m;
	Node **list, **e;
	int i, k, j, n, ne;

	list = topo(m->main->results, m->main->nresults, false, &n);
	for (i = 0; i < n; i++)
		for (k = 0; k < list[i]->nin; k++) {
			if (!list[i]->in[k] || list[i]->type->kind == T_SCALAR)
				continue;
			if (list[i]->in[k]->type->kind != T_SCALAR) {
				note_user(q, list[i]->in[k], NULL);
				continue;
			}
			e = topo_scalar(list[i]->in[k], &ne);
			for (j = 0; j < ne; j++)
				if (e[j]->code == O_READ)
					note_user(q, e[j]->in[0], list[i]);
			free(e);
		}
	for (i = 0; i < m->main->nresults; i++)
		note_user(q, m->main->results[i], NULL);
	free(list);
}

/* Does nothing but the attention itself use what is within it? */
static bool
stands_alone(Decode *q, Node *out)
{
	const Vec *users;
	Attention a;
	int i, k, j;

	if (!attention_at_all(&q->s, out, &a))
		return false;
	for (i = 0; i < a.n; i++) {
		users = a.members[i] == out ? NULL : map_get(&q->users, a.members[i]);
		for (k = 0; users && k < users->n; k++) {
			for (j = 0; j < a.n && a.members[j] != users->at[k]; j++)
				;
			if (j == a.n)
				return false;
		}
	}
	return true;
}

static Node *
cut_keys(Decode *q, Node *t)
{
	Module *m = q->s.m;
	Attention a;
	Cut c = {.m = m, .a = &a};
	KeyParts p;
	Node *keys;
	int i;

	if (rank_of(t) >= MAX_RANK || !attention_at_all(&q->s, t, &a)
	 || a.reduce->type->dtype != DT_F32
	 || !a.at || const_or(keys = a.key->in[0], MIN_PART + 1) <= MIN_PART)
		return NULL;
	for (i = 0; i < rank_of(t); i++)
		if (t->in[i] != a.column)
			c.outer[c.nouter++] = t->in[i];
	c.x = softmax_of(m, &a);
	make_parts(&c, x_idx(m, MIN_PART));
	if (!key_parts(m, c.total, &p))
		return NULL;
	make_parts(&c, part_size(q, &p, keys));
	if (is_intv(c.parts, 1) && holds_product(q->s.mach, a.score, NULL))
		return NULL;                         /* one launch makes it all */
	ledger_add(m, "online_softmax", "real", 4 * ulp_of(dtype_of(t)), t->loc);
	c.score->loc = c.max->loc = c.sum->loc = c.total->loc = t->loc;
	return combine(&c);
}

static Node *
decode_node(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Decode *q = ctx;
	Node *t, *r;

	if (n->code != O_TENSOR || !stands_alone(q, n)
	 || (t = rebuild_node(m, n, in, done))->code != O_TENSOR || !(r = cut_keys(q, t)))
		return NULL;
	r->loc = n->loc;
	return r;
}

bool
pass_decode(Module *m)
{
	Decode q = {.s = sched_open(m)};

	if (q.s.gpu) {
		find_users(&q);
		rewrite_module(m, false, decode_node, &q);
	}
	map_free(&q.users);
	sched_close(&q.s);
	return true;
}
