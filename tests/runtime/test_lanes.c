/* Lanes: what touches the same bytes keeps its order, whatever lane it is on; what does not may
 * run at once. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/rt.h"

enum { N = 300, BUFFERS = 3, SPOTS = 40 };

static uint8_t memory[SPOTS * 16];
static TccKernel kernels[8];
static TccWork list[N];
static uint64_t sizes[N][BUFFERS];
static void *at[N][BUFFERS], *params[N][BUFFERS];
static bool before[N][N];       /* [i][j]: j has ended when i starts */

static void launch(uint32_t i, uint32_t kernel, const int spots[BUFFERS])
{
	for (int b = 0; b < BUFFERS; b++) {
		at[i][b] = memory + 16 * spots[b];
		params[i][b] = &at[i][b];
		sizes[i][b] = 16;
	}
	list[i] = (TccWork){.kind = TCC_WORK_LAUNCH, .nparams = BUFFERS,
		.launch = {.kernel = kernel, .params = params[i], .nbufs = BUFFERS, .sizes = sizes[i]}};
}

static void make_random(unsigned seed, int spots)
{
	srand(seed);
	for (int k = 0; k < 8; k++)
		kernels[k].writes = (uint64_t)k;
	for (uint32_t i = 0; i < N; i++) {
		int s[BUFFERS] = {rand() % spots, rand() % spots, rand() % spots};
		launch(i, (uint32_t)(rand() % 8), s);
		if (rand() % 4)
			continue;
		list[i] = (TccWork){.kind = TCC_WORK_COPY + (unsigned)(rand() % 2),
			.dst = memory + 16 * s[0], .src = memory + 16 * s[1], .bytes = 16};
	}
}

static void order(uint32_t n)
{
	int64_t last[TCC_LANES] = {-1, -1, -1, -1};
	memset(before, 0, sizeof before);
	for (uint32_t i = 0; i < n; i++) {
		int64_t direct[TCC_LANES + 1] = {-1, -1, -1, -1, last[list[i].lane]};
		for (int l = 0; l < TCC_LANES; l++)
			direct[l] = (int64_t)list[i].wait[l] - 1;
		for (int d = 0; d <= TCC_LANES; d++)
			for (int64_t j = 0; direct[d] >= 0 && j <= direct[d]; j++)
				before[i][j] |= j == direct[d] || before[direct[d]][j];
		last[list[i].lane] = i;
	}
}

static bool spot(const TccWork *w, uint32_t b, const void **p, bool *written)
{
	if (w->kind == TCC_WORK_LAUNCH) {
		*p = b < BUFFERS ? *(void **)w->launch.params[b] : NULL;
		*written = kernels[w->launch.kernel].writes >> b & 1;
		return b < BUFFERS;
	}
	*p = b ? w->src : w->dst;
	*written = !b;
	return b < (w->kind == TCC_WORK_ZERO ? 1 : 2);
}

static bool clash(const TccWork *a, const TccWork *b)
{
	const void *p, *q;
	bool wp, wq;
	for (uint32_t i = 0; spot(a, i, &p, &wp); i++)
		for (uint32_t j = 0; spot(b, j, &q, &wq); j++)
			if (p == q && (wp || wq))
				return true;
	return false;
}

START_TEST(random_lists_keep_their_order)
{
	int free_pairs = 0;
	make_random((unsigned)_i, _i % 2 ? 40 : 8);
	tcc_lanes(kernels, list, N);
	order(N);
	for (uint32_t i = 0; i < N; i++) {
		for (uint32_t j = 0; j < i; j++) {
			ck_assert_msg(before[i][j] || !clash(&list[j], &list[i]), "%u and %u", j, i);
			free_pairs += !before[i][j];
		}
		for (int l = 0; l < TCC_LANES; l++) {
			ck_assert(list[i].wait[l] <= i &&
				(!list[i].wait[l] || list[list[i].wait[l] - 1].signals));
			/* a launch that begins early has one launch to wait for */
			ck_assert(!list[i].follows || !list[i].wait[l]);
		}
	}
	ck_assert_int_gt(free_pairs, 0);
}
END_TEST

/* 0 makes what 1 and 2 read; 3 reads both. */
START_TEST(branches_run_side_by_side)
{
	kernels[0].writes = 4;
	launch(0, 0, (int[]){0, 1, 2});
	launch(1, 0, (int[]){2, 2, 3});
	launch(2, 0, (int[]){2, 2, 4});
	launch(3, 0, (int[]){3, 4, 5});
	tcc_lanes(kernels, list, 4);
	order(4);
	ck_assert(before[1][0] && before[2][0] && !before[2][1] && before[3][1] && before[3][2]);
	ck_assert(list[1].follows && !list[2].follows && !list[3].follows);
}
END_TEST

START_TEST(a_chain_stays_on_one_lane)
{
	kernels[0].writes = 4;
	for (uint32_t i = 0; i < 30; i++)
		launch(i, 0, (int[]){(int)i, (int)i, (int)i + 1});
	tcc_lanes(kernels, list, 30);
	for (uint32_t i = 0; i < 30; i++)
		ck_assert(list[i].lane == 0 && list[i].follows == (i > 0));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("lanes");
	TCase *t = tcase_create("lanes");
	tcase_add_loop_test(t, random_lists_keep_their_order, 0, 8);
	tcase_add_test(t, branches_run_side_by_side);
	tcase_add_test(t, a_chain_stays_on_one_lane);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
