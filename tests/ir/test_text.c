/* The text of modules: what is printed is read back to the same text; errors name their place. */
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"
#include "ir/text.h"

/* after ir.h: it has a macro `fail` */
#include <check.h>

static char *print(Module *m, Level level)
{
	char *text;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	module_print(m, level, f);
	fclose(f);
	return text;
}

static void round_trip(const char *text)
{
	Diag d = { .out = stderr };
	Level level;
	Module *m = module_parse(text, NULL, &d, &level);
	ck_assert_msg(m != NULL, "%s\n%s", d.first, text);
	char *once = print(m, level);
	module_free(m);
	m = module_parse(once, NULL, &d, &level);
	ck_assert_msg(m != NULL, "%s\n%s", d.first, once);
	char *twice = print(m, level);
	ck_assert_str_eq(once, twice);
	ck_assert_str_eq(text, twice);
	module_free(m);
	free(once);
	free(twice);
}

static const char *const texts[] = {
	"module \"m\" graph\n"
	"\n"
	"sym N : 0..2147483647 = dim(%x, 0)\n"
	"func main(%x: f32[N, 64], %\"odd name\": f32[64]) {\n"
	"\t%0 = add %x, %\"odd name\" : f32[N, 64]  loc(\"a\", Add, 3; \"b\", \"odd type\")\n"
	"\treturn \"y\" = %0\n"
	"}\n",

	"module \"t\" tensor strict\n"
	"\n"
	"sym N : 0..100 = dim(%x, 0), dim(%y, 0)\n"
	"sym `a b` : -5..5 = dim(%y, 0)\n"
	"ledger \"bn\" \"real\" 1e-07  loc(\"a\", Add)\n"
	"func main(%x: f32[N, 64], %y: i64[N]) {\n"
	"\t%0 = tensor (i: N) f32 { sum(j: 64) { %x[i, j] * 2.0 } }\n"
	"\t%1 = const f32[2, 2] {1.0, -0.0, inf, nan}\n"
	"\t%2 = const u4[3] {1, 2, 15}\n"
	"\t%3 = const string[2] {\"a\\\"b\", \"\\x01\\n\"}\n"
	"\t%4 = const f32[17] base64 \"AAAAAAAAgD8AAABAAABAQAAAgEAAAKBAAADAQAAA4EAAAABBAAAQQQAAIEEAADBBAABAQQAAUEEAAGBBAABwQQAAgEE=\"\n"
	"\t%5 = tensor (i: N, j: 64) f32 {\n"
	"\t\tlet t0 = %x[i, j];\n"
	"\t\tlet t1 = exp(t0 - %0[i]);\n"
	"\t\tt1 / (t1 + 1.0) * -t0\n"
	"\t}  loc(\"s\", Softmax, 1)\n"
	"\t%6 = scatter set %5 (i: N) [min(i, 3), i % 64] = 2.5 if i < N\n"
	"\trequire N < 5 : \"small\"\n"
	"\treturn \"a\" = %6, %1, %2, %3, %4\n"
	"}\n",
	/* loop level */
	"module \"l\" loop target \"x86-64-v3\"\n"
	"\n"
	"sym N : 0..1000 = dim(%x, 0)\n"
	"func main(%x: f32[N]) -> \"y\" = f32[N], f32[?]\n"
	"\n"
	"kernel \"k0\" (%b0: f32 global [N], out %b1: f32 global [?]) (N: 0..1000) {\n"
	"\tschedule \"class=map\"\n"
	"\tgrid floordiv(N + 63, 64), 1, 1\n"
	"\tblock 64\n"
	"\tshared 256\n"
	"\tscratch N * 4\n"
	"\tcost 2.5, 8.0\n"
	"\terror \"index of a\"\n"
	"\tfrom  loc(\"a\", Add, 1)\n"
	"\tbody {\n"
	"\t\tfor parallel (i: floordiv(N + 63, 64)) {\n"
	"\t\t\talloc %acc: f32 reg [2, 8]\n"
	"\t\t\tfor unroll (j: 2) {\n"
	"\t\t\t\tfor vector (k: 8) {\n"
	"\t\t\t\t\tstore %acc[j, k] = %b0[i * 64 + j * 8 + k] * 2.0\n"
	"\t\t\t\t}\n"
	"\t\t\t}\n"
	"\t\t\tlet %0 = fold max %acc[0, *](8) + fold sum %acc[1, *](8 by 2)\n"
	"\t\t\twhen i < 3 {\n"
	"\t\t\t\tstore %b1[i] = %0\n"
	"\t\t\t} else {\n"
	"\t\t\t\tbarrier\n"
	"\t\t\t}\n"
	"\t\t}\n"
	"\t}\n"
	"}\n"
	"\n"
	"plan {\n"
	"\talloc %args: index stack [1]\n"
	"\tstore %args[0] = N\n"
	"\twhile {\n"
	"\t\t%1 = call launch(0, %args, N + 1)\n"
	"\t\tbreak %1 == 0\n"
	"\t}\n"
	"}\n"
	"\n"
	"memory dynamic -1 \"4*N\" {\n"
	"\tbuf arena f32 index -1 alias -1 life 0..1 size -1 at -1\n"
	"\tbuf const u8 \"w\" index 0 alias -1 life 0..0 size 3 at 0 data u8 3 {1, 2, 255}\n"
	"\ttext \"t\"\n"
	"\tin 0\n"
	"}\n",
	NULL
};

START_TEST(trips)
{
	round_trip(texts[_i]);
}
END_TEST

/* What is wrong, and where it is said to be. */
static const char *const wrong[] = {
	"", "line 1, column 1: 'module' is expected",
	"module \"m\" grap", "'grap' is no level",
	"module \"m\" tensor\nfunc main() {\n\t%0 = tensor () f32 { 1.0 + 2 }\n\treturn %0\n}\n",
	"line 3, column 31: add of f32 and index",
	"module \"m\" tensor\nfunc main() {\n\treturn %7\n}\n",
	"line 3, column 9: there is no value %7",
	"module \"m\" tensor\nfunc main(%x: f32[2]) {\n\t%0 = tensor (i: 2) f32 { %x[i, i] }\n",
	"1 indices",
	"module \"m\" tensor\nfunc main(%x: f32[2]) {\n\t%0 = tensor (i: 2) f32 { %x[j] }\n",
	"'j' is not known",
	"module \"m\" tensor\nfunc main() {\n\t%0 = const f32[2] {1}\n",
	"2 elements are expected, there are 1",
	"module \"m\" tensor\nfunc main() {\n\t%0 = const f32[2] base64 \"AAAA\"\n",
	"8 bytes of base64",
	"module \"m\" tensor\nfunc main() {\n\t%0 = const f32[9999999999, 9999999999] base64 \"\"\n",
	"numbers",
	"module \"m\" tensor\nfunc main() {\n\t%0 = const f32[99999] elided 0x12 399996\n",
	"left out of the dump",
	"module \"m\" tensor\nfunc main() {\n\t%0 = const f32[2] file \"../../etc/passwd\" 0 8\n",
	"beside the text",
	"module \"m\" tensor\nfunc main() {\n\t%0 = const u8[2] {1, 256}\n", "256 does not fit u8",
	"module \"m\" tensor\nfunc main(%x: f32[-1]) {\n", "a dimension is negative",
	"module \"m\" tensor\nsym N : 5..1\n", "the range is empty",
	"module \"m\" tensor\nsym N : 0..1 = dim(%y, 0)\nfunc main() {\n", "no axis 0 of an input %y",
	"module \"m\" graph\nfunc main(%x: f32[2]) {\n\t%0 = no_such %x : f32[2]\n",
	"there is no operator 'no_such'",
	"module \"m\" graph\nfunc main(%x: f32[2]) {\n\t%0 = relu %x : f32[3]\n",
	"another type than is stated",
	"module \"m\" graph\nfunc main(%x: f32[2]) {\n\t%0 = relu %x {a = 1} : f32[2]\n",
	"unknown attribute 'a'",
	"module \"m\" tensor\nfunc main() {\n\t%0 = const string[1] {\"a", "a text without end",
	NULL
};

START_TEST(errors)
{
	Diag d = { 0 };
	Level level;
	ck_assert_ptr_null(module_parse(wrong[2 * _i], "dir/x.ir", &d, &level));
	ck_assert_int_ne(d.code, 0);
	ck_assert_msg(strstr(d.first, wrong[2 * _i + 1]) != NULL, "%s", d.first);
}
END_TEST

/* Deep nesting is an error, not the end of the stack. */
START_TEST(nested)
{
	enum { DEPTH = 100000 };
	static const char head[] = "module \"m\" tensor\nfunc main() {\n\t%0 = tensor () f32 { ";
	static const char *const open[] = { "(", "-", "exp(", "{", "sum(i: 2) { ", "true ? 1.0 : " };
	for (size_t k = 0; k < sizeof open / sizeof *open; k++) {
		char *text = malloc(sizeof head + DEPTH * strlen(open[k]) + 1), *s = text;
		s += sprintf(s, "%s", head);
		for (int i = 0; i < DEPTH; i++)
			s += sprintf(s, "%s", open[k]);
		Diag d = { 0 };
		Level level;
		ck_assert_ptr_null(module_parse(text, NULL, &d, &level));
		ck_assert_msg(strstr(d.first, "nested too deeply") != NULL, "%s", d.first);
		free(text);
	}
}
END_TEST

/* A deep and shared expression prints in a size linear in its nodes, and is read back. */
START_TEST(shared)
{
	Diag d = { .out = stderr };
	Module *m = module_new(&d);
	Node *axis = x_axis(m, x_idx(m, 3)), *e = x_cast(m, DT_F32, axis);
	for (int i = 0; i < 2000; i++)
		e = x_mul(m, e, x_add(m, e, x_flt(m, DT_F32, i)));
	for (int i = 0; i < 2000; i++)
		e = x1(m, O_SIN, e);
	region_add(m, m->main, t_tensor(m, 1, &axis, e));
	char *once = print(m, LEVEL_TENSOR);
	ck_assert_uint_lt(strlen(once), 200000);
	module_free(m);
	Level level;
	m = module_parse(once, NULL, &d, &level);
	ck_assert_ptr_nonnull(m);
	char *twice = print(m, level);
	ck_assert_str_eq(once, twice);
	module_free(m);
	free(once);
	free(twice);
}
END_TEST

/* Large constants go to the file beside the text. */
START_TEST(data_file)
{
	const char *dir = getenv("TCC_TMP") ? getenv("TCC_TMP") : "/tmp";
	char path[500], *text;
	size_t size;
	Diag d = { .out = stderr };
	Level level;
	int64_t dim = 40000;
	Module *m = module_new(&d);
	Data *data = data_new(m, DT_F32, dim, NULL);
	for (int64_t k = 0; k < dim; k++)
		data_set((void *)data->bytes, DT_F32, k, (Num){ .f = (double)k });
	region_add(m, m->main, t_const(m, DT_F32, 1, &dim, data));
	snprintf(path, sizeof path, "%s/text_test.data", dir);
	FILE *f = open_memstream(&text, &size), *bytes = fopen(path, "wb");
	module_print_data(m, LEVEL_TENSOR, f, bytes, "text_test.data");
	fclose(f);
	fclose(bytes);
	module_free(m);
	snprintf(path, sizeof path, "%s/text_test.ir", dir);
	m = module_parse(text, path, &d, &level);
	ck_assert_msg(m != NULL, "%s\n%s", d.first, text);
	ck_assert(data_get(m->main->results[0]->data, DT_F32, 39999).f == 39999);
	module_free(m);
	free(text);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("text");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, trips, 0, sizeof texts / sizeof *texts - 1);
	tcase_add_loop_test(t, errors, 0, sizeof wrong / sizeof *wrong / 2);
	tcase_add_test(t, nested);
	tcase_add_test(t, shared);
	tcase_add_test(t, data_file);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
