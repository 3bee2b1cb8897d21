#include <check.h>
#include <stdlib.h>
#include "runtime/rt.h"

enum { MAX = 300 };

typedef struct Problem {
	uint32_t n, first[MAX], last[MAX];
	uint64_t size[MAX], offset[MAX];
} Problem;

static uint32_t seed;

static uint32_t rnd(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

static void make(Problem *p, uint32_t n, uint32_t life, uint32_t max_size)
{
	p->n = n;
	for (uint32_t i = 0; i < n; i++) {
		p->first[i] = i;
		p->last[i] = i + rnd(life);
		p->size[i] = rnd(10) ? 1 + rnd(max_size) : 0;
	}
}

static uint64_t most_alive(const Problem *p)
{
	uint64_t most = 0;
	for (uint32_t t = 0; t < p->n; t++) {
		uint64_t sum = 0;
		for (uint32_t i = 0; i < p->n; i++)
			if (p->first[i] <= t && t <= p->last[i])
				sum += tcc_round_up(p->size[i], TCC_ALIGN);
		if (sum > most)
			most = sum;
	}
	return most;
}

static void check_no_overlap(const Problem *p, uint64_t total)
{
	int wrong = 0;
	for (uint32_t i = 0; i < p->n; i++) {
		wrong += p->offset[i] % TCC_ALIGN != 0 || p->offset[i] + p->size[i] > total;
		for (uint32_t j = 0; j < i; j++) {
			bool apart = p->last[j] < p->first[i] || p->last[i] < p->first[j];
			bool below = p->offset[i] + p->size[i] <= p->offset[j];
			bool above = p->offset[j] + p->size[j] <= p->offset[i];
			wrong += !(apart || below || above || !p->size[i] || !p->size[j]);
		}
	}
	ck_assert_int_eq(wrong, 0);
}

/* The least total of any order of first fits, which for few buffers is the optimum. */
static uint64_t best_of_orders(const Problem *p, uint32_t *order, uint32_t k)
{
	uint64_t best = UINT64_MAX, at[8], total = 0;
	if (k == p->n) {
		for (uint32_t a = 0; a < p->n; a++) {
			uint32_t i = order[a];
			at[i] = 0;
			for (uint32_t again = 1; again;) {
				again = 0;
				for (uint32_t b = 0; b < a; b++) {
					uint32_t j = order[b];
					uint64_t end = at[j] + tcc_round_up(p->size[j], TCC_ALIGN);
					bool apart = p->last[j] < p->first[i] || p->last[i] < p->first[j];
					if (!apart && p->size[i] && p->size[j] && at[i] < end &&
					    at[j] < at[i] + p->size[i]) {
						at[i] = end;
						again = 1;
					}
				}
			}
			if (at[i] + tcc_round_up(p->size[i], TCC_ALIGN) > total)
				total = at[i] + tcc_round_up(p->size[i], TCC_ALIGN);
		}
		return total;
	}
	for (uint32_t i = k; i < p->n; i++) {
		uint32_t t = order[k];
		order[k] = order[i];
		order[i] = t;
		uint64_t v = best_of_orders(p, order, k + 1);
		best = v < best ? v : best;
		order[i] = order[k];
		order[k] = t;
	}
	return best;
}

START_TEST(near_the_optimum)
{
	Problem p;
	uint64_t ours = 0, best = 0;
	for (seed = 1; seed < 2000000000 && ours < 3000000;) {
		uint32_t order[] = {0, 1, 2, 3, 4, 5};
		make(&p, 6, 4, 5000);
		TccPlanner *q = tcc_planner_new(p.n, p.first, p.last);
		uint64_t total = tcc_planner_place(q, p.size, p.offset);
		uint64_t least = best_of_orders(&p, order, 0);
		check_no_overlap(&p, total);
		ck_assert(total >= least);
		ours += total;
		best += least;
		tcc_planner_free(q);
	}
	ck_assert(ours <= best + best / 100);
}
END_TEST

START_TEST(never_overlaps)
{
	Problem p;
	seed = 7;
	for (int round = 0; round < 60; round++) {
		make(&p, 1 + rnd(MAX), 1 + rnd(20), 1 + rnd(100000));
		TccPlanner *q = tcc_planner_new(p.n, p.first, p.last);
		for (int again = 0; again < 3; again++) {
			uint64_t total = tcc_planner_place(q, p.size, p.offset);
			check_no_overlap(&p, total);
			ck_assert(total >= most_alive(&p));
			ck_assert(total <= 2 * most_alive(&p));
			for (uint32_t i = 0; i < p.n; i++)
				p.size[i] += rnd(1000);
		}
		tcc_planner_free(q);
	}
}
END_TEST

START_TEST(nothing_and_too_much)
{
	uint32_t first[] = {0, 0, 0}, last[] = {1, 1, 1};
	uint64_t offset[3], huge[] = {UINT64_MAX / 2, UINT64_MAX / 2, UINT64_MAX / 2};
	TccPlanner *q = tcc_planner_new(0, NULL, NULL);
	ck_assert_uint_eq(tcc_planner_place(q, NULL, NULL), 0);
	tcc_planner_free(q);
	q = tcc_planner_new(3, first, last);
	ck_assert(tcc_planner_place(q, huge, offset) == UINT64_MAX);
	huge[0] = huge[1] = huge[2] = INT64_MAX - 1000;
	ck_assert(tcc_planner_place(q, huge, offset) == UINT64_MAX);
	tcc_planner_free(q);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("place");
	TCase *c = tcase_create("place");
	tcase_set_timeout(c, 60);
	tcase_add_test(c, near_the_optimum);
	tcase_add_test(c, never_overlaps);
	tcase_add_test(c, nothing_and_too_much);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
