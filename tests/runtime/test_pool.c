#include <check.h>
#include <stdatomic.h>
#include <unistd.h>
#include "runtime/rt.h"

enum { MAX = 64 };

typedef struct Tally {
	int counts[MAX * TCC_MAX_PIECES];       /* each piece writes its own: a lost or doubled one shows */
	int busy[MAX];          /* each thread writes its own: two that are one show */
	int before;
	atomic_int wrong;
} Tally;

static void count(void *arg, int piece, int thread)
{
	Tally *t = arg;
	t->wrong += t->busy[thread]++ != 0;
	t->counts[piece] += t->before;
	t->busy[thread]--;
}

static void many_jobs(int threads, int jobs, int sleep_every)
{
	TccPool *p = tcc_pool_new(threads);
	Tally t = {0};
	int want[MAX * TCC_MAX_PIECES] = {0}, wrong = 0;
	ck_assert_ptr_nonnull(p);
	for (int i = 0; i < jobs; i++) {
		int n = i % (threads + 1), pieces = 1 + i / 3 % TCC_MAX_PIECES;
		t.before = i;
		tcc_pool_run(p, n, pieces, count, &t);
		for (int k = 0; k < n * pieces; k++)
			want[k] += i;
		for (int k = 0; k < threads * TCC_MAX_PIECES; k++)
			wrong += t.counts[k] != want[k];
		if (sleep_every && i % sleep_every == 0)
			usleep(300);
		if (i % 7 == 0)
			tcc_pool_heat(p);
	}
	ck_assert_int_eq(wrong + t.wrong, 0);
	tcc_pool_free(p);
}

START_TEST(every_piece_once)
{
	many_jobs(1, 100, 0);
	many_jobs(2, 20000, 0);
	many_jobs(2, 300, 1);
	many_jobs(5, 2000, 0);
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
	tcase_add_test(c, every_piece_once);
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
