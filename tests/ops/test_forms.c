/*
 * What definitions look like: indices that code generation can use. A view of symbolic dims reads
 * by affine indices, shape arithmetic vanishes, a constant axis leaves no select.
 */
#include <stdlib.h>

#include "ir/ir.h"
#include <check.h>

static Module *m;
static Diag diag;
static Node *n, *s;

static void setup(void)
{
	diag = (Diag){0};
	m = module_new(&diag);
	n = x_sym(m, "n", 0, INT32_MAX);
	s = x_sym(m, "s", 0, INT32_MAX);
}

static void teardown(void)
{
	module_free(m);
}

static Node *param(int rank, Node *const *dims)
{
	return t_param(m, "x", ty_tensor(m, DT_F32, rank, dims), 0);
}

static Node *op(const char *name, int nin, Node *const *in, const char *attrs)
{
	Build b = {.m = m};
	Node *r = call(&b, name, nin, in, attrs);

	ck_assert_msg(r != NULL, "%s: %s", name, diag.first);
	return r;
}

/* Index i of the first read in the tensor's body, with its axes called a0, a1 ... */
static const char *read_index(Node *t, int i)
{
	Node *d = definition(t), **list, *r = NULL, *e;
	Map map = {0};
	int count, k;

	ck_assert_int_eq(d->code, O_TENSOR);
	list = topo_scalar(d->in[d->nin - 1], &count);
	for (k = 0; k < count && !r; k++)
		if (list[k]->code == O_READ)
			r = list[k];
	free(list);
	ck_assert(r != NULL);
	for (k = 0; k + 1 < d->nin; k++)
		map_put(&map, d->in[k], x_sym(m, arena_printf(m->arena, "a%d", k), 0, INT32_MAX));
	e = subst(m, r->in[i + 1], &map, false);
	map_free(&map);
	return expr_print(m, e);
}

static bool divides(Node *t)
{
	Node *d = definition(t), **list, *body = d->in[d->nin - 1];
	bool found = false;
	int count, i, k, c;

	list = topo_scalar(body, &count);
	for (i = 0; i < count; i++)
		for (k = 1; list[i]->code == O_READ && k < list[i]->nin; k++) {
			Node *e = list[i]->in[k], **in = topo_scalar(e, &c);
			for (int j = 0; j < c; j++)
				found |= in[j]->code == O_FLOORDIV || in[j]->code == O_MOD;
			free(in);
		}
	free(list);
	return found;
}

/* A list of sizes, as Shape and arithmetic on it leave it. */
static Node *sizes(int count, Node *const *e)
{
	Node *t = t_exprs(m, DT_I64, count, e);

	return op("identity", 1, &t, NULL);
}

static Node *reshaped(Node *x, int rank, Node *const *dims)
{
	return op("reshape", 2, (Node *[]){x, sizes(rank, dims)}, NULL);
}

START_TEST(split_heads)
{
	Node *x = param(3, (Node *[]){n, s, x_idx(m, 768)});
	Node *y = reshaped(x, 4, (Node *[]){n, s, x_idx(m, 12), x_idx(m, 64)});

	ck_assert(!divides(y));
	ck_assert_str_eq(read_index(y, 2), "a2 * 64 + a3");
}
END_TEST

START_TEST(merge_heads)
{
	Node *x = param(4, (Node *[]){n, s, x_idx(m, 12), x_idx(m, 64)});
	Node *y = reshaped(x, 3, (Node *[]){n, s, x_idx(m, -1)});

	ck_assert_ptr_eq(dim_of(y, 2), x_idx(m, 768));
	ck_assert_str_eq(read_index(y, 0), "a0");
	ck_assert_str_eq(read_index(y, 2), "floordiv(a2, 64)");
}
END_TEST

START_TEST(merge_leading)
{
	Node *x = param(3, (Node *[]){n, s, x_idx(m, 768)});
	Node *y = reshaped(x, 2, (Node *[]){x_idx(m, -1), x_idx(m, 768)});

	ck_assert_ptr_eq(dim_of(y, 0), x_mul(m, n, s));
	ck_assert_str_eq(read_index(y, 0), "floordiv(a0, s)");
	ck_assert_str_eq(read_index(y, 1), "a0 % s");
	ck_assert_str_eq(read_index(y, 2), "a1");
}
END_TEST

START_TEST(there_and_back)
{
	Node *x = param(3, (Node *[]){n, s, x_idx(m, 768)});
	Node *y = reshaped(x, 4, (Node *[]){n, s, x_idx(m, 12), x_idx(m, 64)});
	Node *d = definition(y);
	Map map = {0};

	/* the second one in terms of x: what fusion would do */
	Node *z = reshaped(y, 3, (Node *[]){n, s, x_idx(m, 768)}), *e = definition(z);
	Node *r = e->in[e->nin - 1];
	for (int i = 0; i < 4; i++)
		map_put(&map, d->in[i], r->in[i + 1]);
	r = subst(m, d->in[d->nin - 1], &map, false);
	map_free(&map);
	for (int i = 0; i < 3; i++)
		ck_assert_ptr_eq(r->in[i + 1], e->in[i]);
}
END_TEST

START_TEST(block_of_heads)
{
	/* [197, n, 768] to [197, 12 n, 64]: one division by 12, none of the flat index */
	Node *x = param(3, (Node *[]){x_idx(m, 197), n, x_idx(m, 768)});
	Node *y = reshaped(x, 3, (Node *[]){x_idx(m, 197), x_muli(m, n, 12), x_idx(m, 64)});

	ck_assert_str_eq(read_index(y, 1), "floordiv(a1, 12)");
}
END_TEST

START_TEST(empty_keeps_dims)
{
	Node *x = param(2, (Node *[]){x_idx(m, 0), x_idx(m, 4)});
	Node *y = op("reshape", 2, (Node *[]){x, t_ints(m, 2, (int64_t[]){0, -1})}, NULL);

	ck_assert_ptr_eq(dim_of(y, 1), x_idx(m, 4));
}
END_TEST

START_TEST(shape_arithmetic)
{
	/* Slice, Gather, Concat, Mul of Shape: known elements */
	Node *x = param(3, (Node *[]){n, s, x_idx(m, 768)}), *t = op("shape", 1, &x, NULL), *e;
	Node *at = t_scalar(m, DT_I64, (Num){.i = 1}), *one = t_ints(m, 1, (int64_t[]){0});

	e = op("gather", 2, (Node *[]){t, at}, NULL);
	ck_assert_int_eq(rank_of(e), 0);
	e = op("mul", 2, (Node *[]){e, t_scalar(m, DT_I64, (Num){.i = 2})}, NULL);
	e = op("unsqueeze", 2, (Node *[]){e, one}, NULL);
	e = op("concat", 2, (Node *[]){e, t_ints(m, 1, (int64_t[]){-1})}, "axis=0");
	ck_assert(e->elems != NULL);
	ck_assert_ptr_eq(x_cast(m, DT_INDEX, e->elems[0]), x_muli(m, s, 2));
	ck_assert(is_intv(e->elems[1], -1));
}
END_TEST

START_TEST(split_of_shape)
{
	Node *x = param(2, (Node *[]){n, s}), *t = op("shape", 1, &x, NULL), *parts;

	parts = graph_op(m, op_find("split"), 1, &t, NULL, 2, 0, NULL, NULL);
	t = t_result(m, parts, 1);
	ck_assert(t->elems != NULL);
	ck_assert_ptr_eq(x_cast(m, DT_INDEX, t->elems[0]), s);
}
END_TEST

START_TEST(slice_of_table)
{
	/* positions[:, :s] of 512 added to [n, s, 8]: the result has s, the table is read at the
	 * axis */
	Node *table = param(2, (Node *[]){x_idx(m, 512), x_idx(m, 8)}),
		*x = param(3, (Node *[]){n, s, x_idx(m, 8)});
	Node *zero = t_ints(m, 1, (int64_t[]){0}), *p, *y;

	p = op("slice", 4, (Node *[]){table, zero, sizes(1, &s), zero}, NULL);
	y = op("add", 2, (Node *[]){x, p}, NULL);
	ck_assert_ptr_eq(dim_of(y, 1), s);
	ck_assert_int_eq(m->requires.n, 1);
}
END_TEST

START_TEST(slice_backwards)
{
	Node *x = param(1, &s), *y;

	y = op("slice", 5,
		(Node *[]){x, t_ints(m, 1, (int64_t[]){-1}), t_ints(m, 1, (int64_t[]){INT64_MIN}),
		t_ints(m, 1, (int64_t[]){0}), t_ints(m, 1, (int64_t[]){-1})}, NULL);
	ck_assert_ptr_eq(dim_of(y, 0), s);
	ck_assert_str_eq(read_index(y, 0),
		expr_print(m, x_sub(m, x_addi(m, s, -1), x_sym(m, "a0", 0, INT32_MAX))));
}
END_TEST

START_TEST(concat_of_cache)
{
	Node *p = x_sym(m, "p", 0, INT32_MAX), *y;
	Node *a = param(2, (Node *[]){p, x_idx(m, 8)}), *b = param(2, (Node *[]){s, x_idx(m, 8)});

	y = op("concat", 2, (Node *[]){a, b}, "axis=0");
	ck_assert_ptr_eq(dim_of(y, 0), x_add(m, p, s));
	ck_assert_int_eq(m->requires.n, 0);
}
END_TEST

START_TEST(resize_twice)
{
	/* nearest, scale 2: the index is halved, and nothing is clamped */
	Node *x = param(4, (Node *[]){n, x_idx(m, 3), s, s}), *y;
	float v[4] = {1, 1, 2, 2};
	int64_t four = 4;
	Node *scales = t_const(m, DT_F32, 1, &four, data_new(m, DT_F32, 4, v));

	y = op("resize", 3, (Node *[]){x, NULL, scales},
		"coordinate_transformation_mode=\"asymmetric\", nearest_mode=\"floor\"");
	ck_assert_ptr_eq(dim_of(y, 2), x_muli(m, s, 2));
	ck_assert_str_eq(read_index(y, 2), "floordiv(a2, 2)");
	ck_assert_str_eq(read_index(y, 1), "a1");
}
END_TEST

START_TEST(padded)
{
	/* reflection within the operand: magnitudes, no division */
	Node *x = param(1, (Node *[]){x_idx(m, 100)}), *y;

	y = op("pad", 2, (Node *[]){x, t_ints(m, 2, (int64_t[]){3, 5})}, "mode=\"reflect\"");
	ck_assert_ptr_eq(dim_of(y, 0), x_idx(m, 108));
	ck_assert(!divides(y));
}
END_TEST

START_TEST(errors)
{
	Node *x = param(2, (Node *[]){x_idx(m, 3), x_idx(m, 4)});
	Build b = {.m = m};

	ck_assert(!call(&b, "reshape", 2, (Node *[]){x, t_ints(m, 2, (int64_t[]){5, -1})}, NULL));
	ck_assert_int_eq(diag.code, X_INVALID);
	ck_assert(!call(&b, "transpose", 1, &x, "perm=[0, 0]"));
	ck_assert(!call(&b, "concat", 2, (Node *[]){x, x}, "axis=2"));
	ck_assert(!call(&b, "split", 2, (Node *[]){x, t_ints(m, 2, (int64_t[]){1, 1})}, "axis=0"));
	ck_assert(!call(&b, "squeeze", 2, (Node *[]){x, t_ints(m, 1, (int64_t[]){0})}, NULL));
	ck_assert_int_eq(diag.errors, 5);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("forms");
	TCase *c = tcase_create("all");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, split_heads);
	tcase_add_test(c, merge_heads);
	tcase_add_test(c, merge_leading);
	tcase_add_test(c, there_and_back);
	tcase_add_test(c, block_of_heads);
	tcase_add_test(c, empty_keeps_dims);
	tcase_add_test(c, shape_arithmetic);
	tcase_add_test(c, split_of_shape);
	tcase_add_test(c, slice_of_table);
	tcase_add_test(c, slice_backwards);
	tcase_add_test(c, concat_of_cache);
	tcase_add_test(c, resize_twice);
	tcase_add_test(c, padded);
	tcase_add_test(c, errors);
	suite_add_tcase(suite, c);
	SRunner *r = srunner_create(suite);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
