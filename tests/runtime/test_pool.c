#include <check.h>
#include <stdatomic.h>
#include <unistd.h>
#include "runtime/rt.h"

enum { MAX = 64 };

typedef struct Tally {
	int counts[MAX];        /* each part writes its own: a lost or doubled part shows */
	int before;
} Tally;

static void count(void *arg, int part)
{
	Tally *t = arg;
	t->counts[part] += t->before;
}

static void many_jobs(int threads, int jobs, int sleep_every)
{
	TccPool *p = tcc_pool_new(threads);
	Tally t = {0};
	int want[MAX] = {0}, wrong = 0;
	ck_assert_ptr_nonnull(p);
	for (int i = 0; i < jobs; i++) {
		int parts = i % (threads + 1);
		t.before = i;
		tcc_pool_run(p, parts, count, &t);
		for (int k = 0; k < parts; k++)
			want[k] += i;
		for (int k = 0; k < threads; k++)
			wrong += t.counts[k] != want[k];
		if (sleep_every && i % sleep_every == 0)
			usleep(300);
		if (i % 7 == 0)
			tcc_pool_heat(p);
	}
	ck_assert_int_eq(wrong, 0);
	tcc_pool_free(p);
}

START_TEST(every_part_once)
{
	many_jobs(1, 100, 0);
	many_jobs(2, 20000, 0);
	many_jobs(2, 300, 1);
}
END_TEST

START_TEST(more_threads_than_cpus)
{
	many_jobs(16, 400, 50);
}
END_TEST

START_TEST(made_and_freed)
{
	for (int i = 0; i < 100; i++)
		tcc_pool_free(tcc_pool_new(1 + i % 4));
}
END_TEST

START_TEST(counts_cpus)
{
	ck_assert_int_ge(tcc_cpu_count(), 1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pool");
	TCase *c = tcase_create("pool");
	tcase_set_timeout(c, 60);
	tcase_add_test(c, every_part_once);
	tcase_add_test(c, more_threads_than_cpus);
	tcase_add_test(c, made_and_freed);
	tcase_add_test(c, counts_cpus);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
