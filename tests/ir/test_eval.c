/* The evaluator on small modules: each gives its outputs as a constant beside the expected one. */
#include <math.h>
#include <string.h>

#include "ir/ir.h"

/* after ir.h: it has a macro `fail` */
#include <check.h>

/* The text's outputs come in pairs: a value and what it must be. */
static void pairs(const char *text, Node *const *inputs, bool wide)
{
	Diag d = { .out = stderr };
	Level level;
	Module *m = module_parse(text, NULL, &d, &level);
	ck_assert_msg(m != NULL, "%s", text);
	ck_assert(module_verify(m, level));
	Node *out[32] = { 0 };
	ck_assert_msg(module_eval(m, level, inputs, out, wide), "%s\n%s", d.first, text);
	for (int i = 0; i + 1 < m->main->nresults; i += 2) {
		Node *a = out[i], *b = out[i + 1];
		ck_assert_int_eq(rank_of(a), rank_of(b));
		ck_assert_int_eq(a->data->count, b->data->count);
		for (int64_t k = 0; k < a->data->count; k++) {
			Num x = data_get(a->data, dtype_of(a), k), y = data_get(b->data, dtype_of(b), k);
			if (dt_float(dtype_of(a)))
				ck_assert_msg(x.f == y.f || (isnan(x.f) && isnan(y.f)), "output %d[%d]: %g, not %g",
					i, (int)k, x.f, y.f);
			else
				ck_assert_msg(x.i == y.i, "output %d[%d]: %lld, not %lld", i, (int)k,
					(long long)x.i, (long long)y.i);
		}
	}
	module_free(m);
}

static const char *const closed[] = {
	/* axes, a reduction, a guard */
	"module \"a\" tensor\nfunc main() {\n"
	"%0 = const f32[2, 3] {1, 2, 3, 4, 5, 6}\n"
	"%1 = tensor (i: 3, j: 2) f32 { %0[j, i] }\n"
	"%2 = const f32[3, 2] {1, 4, 2, 5, 3, 6}\n"
	"%3 = tensor (i: 2) f32 { sum(k: 3) { %0[i, k] * %0[i, k] } }\n"
	"%4 = const f32[2] {14, 77}\n"
	"%5 = tensor (i: 5) f32 { 1 <= i & i < 4 ? %0[0, i - 1] : -1.0 }\n"
	"%6 = const f32[5] {-1, 1, 2, 3, -1}\n"
	"return %1, %2, %3, %4, %5, %6\n}\n",

	/* nested reductions, empty ones, narrow ones */
	"module \"b\" tensor\nfunc main() {\n"
	"%0 = const i32[2, 2, 2] {1, 2, 3, 4, 5, 6, 7, 8}\n"
	"%1 = tensor (i: 2) i32 { max(j: 2) { sum(k: 2) { %0[i, j, k] } * i32(j + 1) } }\n"
	"%2 = const i32[2] {14, 30}\n"
	"%3 = tensor () f32 { max(i: 0) { 1.0 } }\n%4 = const f32[] {-inf}\n"
	"%5 = tensor () i8 { min(i: 0) { 1i8 } }\n%6 = const i8[] {127}\n"
	"%7 = tensor () f16 { sum(i: 4096) { 1.0f16 } }\n%8 = const f16[] {4096}\n"
	"%9 = tensor () bool { and(i: 3) { i < 2 } }\n%10 = const bool[] {false}\n"
	"return %1, %2, %3, %4, %5, %6, %7, %8, %9, %10\n}\n",

	/* a scan, a scan within a reduction */
	"module \"c\" tensor\nfunc main() {\n"
	"%0 = tensor (n: 7) i64 { iter(i: n, f = 1i64) { f * i64(i + 1) } }\n"
	"%1 = const i64[7] {1, 1, 2, 6, 24, 120, 720}\n"
	"%2 = tensor () i64 { sum(j: 4) { iter(i: j, f = i64(j)) { f * 2i64 } } }\n"
	"%3 = const i64[] {34}\n"
	"return %0, %1, %2, %3\n}\n",

	/* scatter: set in order, sum, a condition */
	"module \"d\" tensor\nfunc main() {\n"
	"%0 = const f32[4] {0, 0, 0, 0}\n"
	"%1 = const i64[3] {1, 1, 3}\n"
	"%2 = scatter set %0 (i: 3) [index(%1[i])] = f32(i + 1) if true\n%3 = const f32[4] {0, 2, 0, 3}\n"
	"%4 = scatter sum %0 (i: 3) [index(%1[i])] = f32(i + 1) if true\n%5 = const f32[4] {0, 3, 0, 3}\n"
	"%6 = scatter sum %0 (i: 3) [index(%1[i])] = f32(i + 1) if i != 2\n%7 = const f32[4] {0, 3, 0, 0}\n"
	"return %2, %3, %4, %5, %6, %7\n}\n",

	/* loop: carried and scanned values, what is the same in each round; if */
	"module \"e\" tensor\nfunc main() {\n"
	"%0 = const i64[] {4}\n%1 = const i64[] {10}\n%2 = const bool[] {false}\n"
	"%3 = loop<1> %0, _, %1 : (i64[], i64[4]) {\nbody (%4: i64[], %5: i64[]) {\n"
	"%6 = const bool[] {true}\n%7 = tensor () i64 { %5[] + %4[] }\n%8 = tensor () i64 { %1[] * 2i64 }\n"
	"%9 = tensor () i64 { %7[] + %8[] }\nyield %6, %7, %9\n}\n}\n"
	"%10 = const i64[] {16}\n%11 = const i64[4] {30, 31, 33, 36}\n"
	"%12 = if %2 : (i64[]) {\nthen () {\nyield %0\n}\nelse () {\nyield %1\n}\n}\n"
	"return %3.0, %10, %3.1, %11, %12.0, %1\n}\n",

	/* a loop that ends by its condition, and one without a round */
	"module \"f\" tensor\nsym s0 : 0..100 = result(1, 0)\nfunc main() {\n"
	"%0 = const i64[] {100}\n%1 = const i64[] {1}\n%2 = const bool[] {true}\n%20 = const bool[] {false}\n"
	"%3 = loop<1> %0, %2, %1 : (i64[], i64[s0]) {\nbody (%4: i64[], %5: i64[]) {\n"
	"%6 = tensor () i64 { %5[] * 2i64 }\n%7 = tensor () bool { %6[] < 20i64 }\nyield %7, %6, %5\n}\n}\n"
	"%8 = const i64[] {32}\n%9 = const i64[5] {1, 2, 4, 8, 16}\n"
	"%10 = tensor (i: s0) i64 { %3.1[i] + i64(s0) }\n%11 = const i64[5] {6, 7, 9, 13, 21}\n"
	"return %3.0, %8, %3.1, %9, %10, %11\n}\n",

	/* operators through their definitions */
	"module \"g\" graph\nfunc main() {\n"
	"%0 = const f32[1, 3] {0, 0, 0}\n%1 = softmax %0 : f32[1, 3]\n"
	"%2 = const f32[1, 3] {0.33333334, 0.33333334, 0.33333334}\n"
	"return %1, %2\n}\n",
	NULL
};

START_TEST(modules)
{
	pairs(closed[_i], NULL, false);
}
END_TEST

START_TEST(wide)
{
	/* in f32 the sum is 2^24 */
	pairs("module \"w\" tensor\nfunc main() {\n%0 = const f32[] {16777216}\n"
		"%1 = tensor () f64 { f64(%0[] + 1.0) }\n%2 = const f64[] {16777217}\nreturn %1, %2\n}\n",
		NULL, true);
	pairs("module \"w\" tensor\nfunc main() {\n%0 = const f32[] {16777216}\n"
		"%1 = tensor () f64 { f64(%0[] + 1.0) }\n%2 = const f64[] {16777216}\nreturn %1, %2\n}\n",
		NULL, false);
}
END_TEST

static const char *const failing[] = {
	"module \"x\" tensor\nfunc main() {\n%0 = const f32[2] {1, 2}\n"
	"%1 = tensor (i: 3) f32 { %0[i] }\nreturn %1\n}\n", "outside",
	"module \"x\" tensor\nfunc main() {\n%0 = const f32[2] {1, 2}\n"
	"%1 = tensor (i: 3) f32 { %0[bound(i, 2)] }\nreturn %1\n}\n", "outside",
	"module \"x\" tensor\nfunc main() {\n%0 = const i64[] {3}\n%1 = tensor (i: index(%0[])) f32 { 1.0 }\n"
	"require index(%0[]) < 3 : \"too many\"\nreturn %1\n}\n", "too many",
	"module \"x\" tensor\nsym N : 0..100\nfunc main() {\n%1 = tensor (i: N) f32 { 1.0 }\nreturn %1\n}\n",
	"not known",
	NULL
};

START_TEST(failures)
{
	for (int i = 0; failing[i]; i += 2) {
		Diag d = { 0 };
		Level level;
		Node *out[1] = { 0 };
		Module *m = module_parse(failing[i], NULL, &d, &level);
		ck_assert_msg(m != NULL, "%s", d.first);
		ck_assert(!module_eval(m, level, NULL, out, false));
		ck_assert_msg(strstr(d.first, failing[i + 1]) != NULL, "%s", d.first);
		module_free(m);
	}
}
END_TEST

/* Expressions and graphs as deep as a hostile model makes them. */
START_TEST(deep)
{
	enum { DEPTH = 200000 };
	Diag d = { .out = stderr };
	Module *m = module_new(&d);
	int64_t one = 1;
	Node *c = t_const(m, DT_F32, 1, &one, data_new(m, DT_F32, 1, NULL));
	Node *axis = x_axis(m, x_idx(m, 1)), *e = x_read(m, c, &axis), *idx = x_idx(m, 0);
	for (int i = 0; i < DEPTH; i++)
		e = x_add(m, e, x_flt(m, DT_F32, 1));
	Node *t = t_tensor(m, 1, &axis, e);
	for (int i = 0; i < DEPTH / 100; i++) {
		Node *a = x_axis(m, x_idx(m, 1));
		t = t_tensor(m, 1, &a, x_add(m, x_read(m, t, &idx), x_flt(m, DT_F32, 1)));
	}
	region_add(m, m->main, t);
	Node *out;
	ck_assert(module_verify(m, LEVEL_TENSOR));
	ck_assert(module_eval(m, LEVEL_TENSOR, NULL, &out, false));
	ck_assert(data_get(out->data, DT_F32, 0).f == DEPTH + DEPTH / 100);
	module_free(m);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("eval");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, modules, 0, sizeof closed / sizeof *closed - 1);
	tcase_add_test(t, wide);
	tcase_add_test(t, failures);
	tcase_add_test(t, deep);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
