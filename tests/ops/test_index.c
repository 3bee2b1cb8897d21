/*
 * The index algebra against plain evaluation: random expressions over axes and symbols are built
 * twice, once by the simplifying constructors and once as a tree, and must agree for random values.
 */
#include <stdlib.h>

#include "ir/ir.h"
#include <check.h>               /* has a macro of the name of one of ir.h's functions */

enum { NSYM = 3, NAXIS = 4, LEAVES = NSYM + NAXIS };

typedef struct Tree Tree;
struct Tree { OpCode op; int leaf; int64_t c; Tree *in[3]; };

typedef struct World {
	Module *m;
	Node *leaf[LEAVES];
	int64_t value[LEAVES];
	uint32_t seed;
} World;

static uint32_t draw(World *w, uint32_t n)
{
	w->seed = w->seed * 1664525u + 1013904223u;
	return (w->seed >> 8) % n;
}

/* An index expression: the node, and its tree in *t. */
static Node *index_of(World *w, int depth, Tree **t);

static Node *condition(World *w, int depth, Tree **t)
{
	static const OpCode ops[] = {O_LT, O_LE, O_EQ, O_NE};
	Node *in[2];

	*t = NEW(w->m, Tree);
	(*t)->op = ops[draw(w, 4)];
	for (int i = 0; i < 2; i++)
		in[i] = index_of(w, depth - 1, &(*t)->in[i]);
	return x2(w->m, (*t)->op, in[0], in[1]);
}

static Node *leaf(World *w, Tree *t)
{
	t->op = O_NUM;
	t->leaf = (int)draw(w, LEAVES + 3);
	if (t->leaf < LEAVES)
		return w->leaf[t->leaf];
	t->c = (int64_t)draw(w, 13) - 4;
	return x_idx(w->m, t->c);
}

/* A divisor, which is positive: division by zero is never evaluated, and simplifies as if it were
 * not. */
static Node *divisor(World *w, Tree **t)
{
	Tree *x = *t = NEW(w->m, Tree), *y;
	int kind = (int)draw(w, 4);

	x->op = O_NUM;
	x->leaf = kind & 1 ? (int)draw(w, 2) : LEAVES;         /* n or k, of values from 1 on */
	x->c = 1 + (int64_t)draw(w, 12);
	Node *e = x->leaf < LEAVES ? w->leaf[x->leaf] : x_idx(w->m, x->c);
	if (kind < 3)
		return e;
	y = NEW(w->m, Tree);
	*y = (Tree){.op = O_NUM, .leaf = LEAVES, .c = 1 + (int64_t)draw(w, 8)};
	*t = NEW(w->m, Tree);
	**t = (Tree){.op = O_MUL, .in = {x, y}};
	return x_muli(w->m, e, y->c);
}

static Node *index_of(World *w, int depth, Tree **t)
{
	static const OpCode ops[] = {O_ADD, O_ADD, O_SUB, O_MUL, O_FLOORDIV, O_MOD, O_MIN, O_MAX,
		O_SELECT, O_NUM, O_NEG};
	Node *a, *b, *c;

	*t = NEW(w->m, Tree);
	(*t)->op = depth <= 0 ? O_NUM : ops[draw(w, sizeof ops / sizeof *ops)];
	switch ((*t)->op) {
	case O_NUM:
		return leaf(w, *t);
	case O_NEG:
		a = index_of(w, depth - 1, &(*t)->in[0]);
		return x1(w->m, O_NEG, a);
	case O_SELECT:
		c = condition(w, depth - 1, &(*t)->in[0]);
		a = index_of(w, depth - 1, &(*t)->in[1]);
		b = index_of(w, depth - 1, &(*t)->in[2]);
		return x_select(w->m, c, a, b);
	case O_FLOORDIV: case O_MOD:
		a = index_of(w, depth - 1, &(*t)->in[0]);
		b = divisor(w, &(*t)->in[1]);
		return x2(w->m, (*t)->op, a, b);
	default:
		a = index_of(w, depth - 1, &(*t)->in[0]);
		b = index_of(w, depth - 1, &(*t)->in[1]);
		return x2(w->m, (*t)->op, a, b);
	}
}

static int64_t value_of(World *w, const Tree *t)
{
	int64_t a, b, q;

	if (t->op == O_NUM)
		return t->leaf < LEAVES ? w->value[t->leaf] : t->c;
	if (t->op == O_SELECT)
		return value_of(w, t->in[0]) ? value_of(w, t->in[1]) : value_of(w, t->in[2]);
	a = value_of(w, t->in[0]);
	b = t->op == O_NEG ? 0 : value_of(w, t->in[1]);
	q = b ? a / b - (a % b != 0 && (a < 0) != (b < 0)) : 0;
	switch (t->op) {
	case O_ADD: return a + b;
	case O_SUB: return a - b;
	case O_MUL: return a * b;
	case O_FLOORDIV: return q;
	case O_MOD: return b ? a - b * q : 0;
	case O_MIN: return a < b ? a : b;
	case O_MAX: return a > b ? a : b;
	case O_NEG: return -a;
	case O_LT: return a < b;
	case O_LE: return a <= b;
	case O_EQ: return a == b;
	default: return a != b;
	}
}

/* The node's value, leaves replaced. */
static int64_t node_value(World *w, Node *e)
{
	Map map = {0};
	int64_t v;

	for (int i = 0; i < LEAVES; i++)
		map_put(&map, w->leaf[i], x_idx(w->m, w->value[i]));
	e = subst(w->m, e, &map, false);
	map_free(&map);
	ck_assert_msg(is_int(e, &v), "%s is no constant", expr_print(w->m, e));
	return v;
}

/* Symbols, then axes whose extents are a constant, a symbol, a sum and a quotient of symbols. */
static void new_world(World *w, Diag *d)
{
	Module *m = w->m = module_new(d);
	Node **s = w->leaf;

	s[0] = x_sym(m, "n", 0, INT32_MAX);
	s[1] = x_sym(m, "k", 1, 64);
	s[2] = x_sym(m, "z", -8, 8);
	s[3] = x_axis(m, x_idx(m, 6));
	s[4] = x_axis(m, s[0]);
	s[5] = x_axis(m, x_add(m, s[0], s[1]));
	s[6] = x_axis(m, x_fdiv(m, x_addi(m, s[0], 3), x_idx(m, 4)));
}

/* False if an axis is empty: nothing is evaluated then. */
static bool new_values(World *w)
{
	int64_t *v = w->value;

	v[0] = draw(w, 4) ? draw(w, 9) : draw(w, 3000);
	v[1] = 1 + draw(w, draw(w, 2) ? 4 : 64);
	v[2] = (int64_t)draw(w, 17) - 8;
	v[3] = draw(w, 6);
	if (v[0] == 0)
		return false;
	v[4] = draw(w, (uint32_t)v[0]);
	v[5] = draw(w, (uint32_t)(v[0] + v[1]));
	v[6] = draw(w, (uint32_t)((v[0] + 3) / 4));
	return true;
}

static void try_expressions(uint32_t seed, int depth)
{
	Diag d = {0};
	World w = {.seed = seed};
	Tree *t;

	new_world(&w, &d);
	for (int k = 0; k < 12; k++) {
		Node *e = k % 4 == 3 ? condition(&w, depth, &t) : index_of(&w, depth, &t);
		for (int i = 0; i < 12; i++)
			if (new_values(&w)) {
				int64_t want = value_of(&w, t), got = node_value(&w, e);
				ck_assert_msg(got == want,
					"seed %u: %s is %lld, expected %lld, for n=%lld k=%lld z=%lld "
					"axes %lld %lld %lld %lld", seed, expr_print(w.m, e),
					(long long)got, (long long)want, (long long)w.value[0],
					(long long)w.value[1], (long long)w.value[2],
					(long long)w.value[3], (long long)w.value[4],
					(long long)w.value[5], (long long)w.value[6]);
				ck_assert_msg(e->code == O_NUM || (want >= e->lo && want <= e->hi),
					"seed %u: %s is %lld, outside " "its range", seed,
					expr_print(w.m, e), (long long)want);
			}
	}
	module_free(w.m);
}

START_TEST(small)
{
	for (uint32_t s = 0; s < 800; s++)
		try_expressions((uint32_t)_i * 800 + s, 3);
}
END_TEST

START_TEST(deep)
{
	for (uint32_t s = 0; s < 150; s++)
		try_expressions(1000000 + (uint32_t)_i * 150 + s, 5);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("index");
	TCase *c = tcase_create("random");

	tcase_set_timeout(c, 120);
	tcase_add_loop_test(c, small, 0, 4);
	tcase_add_loop_test(c, deep, 0, 4);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
