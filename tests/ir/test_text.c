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
	NULL
};

START_TEST(trips)
{
	round_trip(texts[_i]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("text");
	TCase *t = tcase_create("all");
	tcase_add_loop_test(t, trips, 0, sizeof texts / sizeof *texts - 1);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
