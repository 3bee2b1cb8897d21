/*
 * Tile instructions against plain C: those of the CPU where it has them, else those of the emulator
 * (amx_emu.c), which is what tests of generated code rely on.
 */
#ifdef __x86_64__
#include "amx_emu.c"

#include <check.h>

#pragma GCC target("amx-tile,amx-int8,amx-bf16")
#include <immintrin.h>

#define HALVES(f) (uint16_t)(bits_of(f) >> 16)

#define C 0
#define A 3
#define B 6
enum { MARK = 0x5a };
/* the intrinsics of configurations do not say which memory they use */
#define MEMORY __asm__ volatile("" ::: "memory")

static Config cfg;
static uint8_t left[ROWS][ROW_BYTES], right[ROWS][ROW_BYTES], sums[ROWS + 1][ROW_BYTES + 8];

static uint32_t
bits_of(float f)
{
	uint32_t u;

	memcpy(&u, &f, 4);
	return u;
}

static void
fill(void *at, size_t n)
{
	uint8_t *p = at;

	while (n--)
		*p++ = (uint8_t)(rand() >> 7);
}

static void
load(void)
{
	MEMORY;
	_tile_loadconfig(&cfg);
}

/* C is m x n, A has k words a row. */
static void
configure(int m, int n, int k)
{
	memset(&cfg, 0, sizeof cfg);
	cfg.palette = 1;
	cfg.rows[C] = cfg.rows[A] = (uint8_t)m;
	cfg.rows[B] = (uint8_t)k;
	cfg.colsb[C] = cfg.colsb[B] = (uint16_t)(4 * n);
	cfg.colsb[A] = (uint16_t)(4 * k);
	load();
}

static void
dot(int op)
{
	_tile_loadd(C, sums, sizeof *sums);
	_tile_loadd(A, left, ROW_BYTES);
	_tile_stream_loadd(B, right, ROW_BYTES);
	switch (op) {
	case TDPBSSD: _tile_dpbssd(C, A, B); break;
	case TDPBSUD: _tile_dpbsud(C, A, B); break;
	case TDPBUSD: _tile_dpbusd(C, A, B); break;
	case TDPBUUD: _tile_dpbuud(C, A, B); break;
	default: _tile_dpbf16ps(C, A, B);
	}
	_tile_stored(C, sums, sizeof *sums);
}

START_TEST(bytes)
{
	int op = TDPBSSD + _i, round, m, n, k, i, j, d;
	bool sa = op == TDPBSSD || op == TDPBSUD, sb = op == TDPBSSD || op == TDPBUSD;
	uint8_t old[ROWS + 1][ROW_BYTES + 8];
	uint32_t want, got;

	for (round = 0; round < 200; round++) {
		m = 1 + rand() % 16, n = 1 + rand() % 16, k = 1 + rand() % 16;
		fill(left, sizeof left);
		fill(right, sizeof right);
		fill(sums, sizeof sums);
		memcpy(old, sums, sizeof sums);
		configure(m, n, k);
		dot(op);
		for (i = 0; i < ROWS + 1; i++)
			for (j = 0; j < ROW_BYTES + 8; j += 4) {
				memcpy(&want, old[i] + j, 4);
				memcpy(&got, sums[i] + j, 4);
				for (d = 0; i < m && j < 4 * n && d < 4 * k; d++)
					want += (uint32_t)((sa ? (int8_t)left[i][d] : left[i][d])
						* (sb ? (int8_t)right[d / 4][j + d % 4] : right[d / 4][j + d % 4]));
				if (want != got)
					ck_abort_msg("instruction %d, %dx%dx%d at %d %d: %u, not %u", op, m, n, k, i,
					j / 4, got, want);
			}
	}
}
END_TEST

static void
put_half(uint8_t *at, float f)
{
	uint16_t h = HALVES(f);

	memcpy(at, &h, 2);
}

static float
sum_at(int i, int j)
{
	float f;

	memcpy(&f, sums[i] + 4 * j, 4);
	return f;
}

/* Small integers: every order gives the same sums. */
START_TEST(halves)
{
	int x[ROWS][2 * ROWS], y[2 * ROWS][ROWS], round, m, n, k, i, j, d, want;

	for (round = 0; round < 200; round++) {
		m = 1 + rand() % 16, n = 1 + rand() % 16, k = 1 + rand() % 16;
		memset(sums, 0, sizeof sums);
		for (i = 0; i < ROWS; i++)
			for (d = 0; d < 2 * ROWS; d++) {
				put_half(left[i] + 2 * d, (float)(x[i][d] = rand() % 255 - 127));
				put_half(right[d / 2] + 4 * i + d % 2 * 2, (float)(y[d][i] = rand() % 255 - 127));
			}
		configure(m, n, k);
		dot(TDPBF16PS);
		for (i = 0; i < m; i++)
			for (j = 0; j < n; j++) {
				for (d = 0, want = 0; d < 2 * k; d++)
					want += x[i][d] * y[d][j];
				if (sum_at(i, j) != (float)want)
					ck_abort_msg("%dx%dx%d at %d %d: %g, not %d", m, n, k, i, j,
					sum_at(i, j), want);
			}
	}
}
END_TEST

/* One sum of two words: c + (a0 b0 + a2 b2) + (a1 b1 + a3 b3). */
static float
sum_of(float c, const float *a, const float *b)
{
	int d;

	memcpy(sums, &c, 4);
	for (d = 0; d < 4; d++) {
		put_half(left[0] + 2 * d, a[d]);
		put_half(right[d / 2] + d % 2 * 2, b[d]);
	}
	configure(1, 1, 2);
	dot(TDPBF16PS);
	return sum_at(0, 0);
}

START_TEST(order)
{
	const float one[4] = {1, 1, 1, 1}, big = 0x1p24f, tiny = 0x1p-126f;

	/* even and odd apart: big + 1 rounds to big twice, or 1 + 1 is added to it at once */
	ck_assert(sum_of(0, (float[]){big, 1, 0, 1}, one) == big + 2);
	ck_assert(sum_of(0, (float[]){big, 1, 1, 0}, one) == big);
	ck_assert(sum_of(big, (float[]){1, 1, 0, 0}, one) == big + 2);
	/* ties to even */
	ck_assert(sum_of(0, (float[]){big, 0, 3, 0}, one) == big + 4);
	/* subnormal operands, products and accumulators are zeros */
	ck_assert(sum_of(0, (float[]){tiny / 2, 0, 0, 0}, (float[]){0x1p20f, 1, 1, 1}) == 0);
	ck_assert(sum_of(0, (float[]){tiny, 0, 0, 0}, (float[]){0.5f, 1, 1, 1}) == 0);
	ck_assert(sum_of(0, (float[]){tiny, 0, 0, 0}, one) == tiny);
	ck_assert(isnan(sum_of(0, (float[]){INFINITY, 0, 0, 0}, (float[]){0, 1, 1, 1})));
}
END_TEST

/* What lies beyond a tile's rows and columns is zeros, and is not stored. */
START_TEST(edges)
{
	fill(left, sizeof left);
	memset(sums, MARK, sizeof sums);
	configure(3, 16, 5);
	ck_assert_int_eq(cfg.colsb[A], 20);
	_tile_loadd(A, left, ROW_BYTES);
	_tile_stored(A, sums, sizeof *sums);
	ck_assert(!memcmp(sums[2], left[2], 20));
	ck_assert_int_eq(sums[2][20], MARK);
	ck_assert_int_eq(sums[3][0], MARK);
	_tile_zero(A);
	_tile_stored(A, sums, sizeof *sums);
	ck_assert_int_eq(sums[0][19], 0);
	memset(&cfg, MARK, sizeof cfg);
	MEMORY;
	_tile_storeconfig(&cfg);
	MEMORY;
	ck_assert_int_eq(cfg.rows[B], 5);
	ck_assert_int_eq(cfg.zero[3], 0);
	_tile_release();
}
END_TEST

START_TEST(unconfigured)
{
	_tile_release();
	_tile_zero(C);
}
END_TEST

START_TEST(unlike)
{
	configure(4, 4, 4);
	cfg.rows[B] = 5;
	load();
	dot(TDPBSSD);
}
END_TEST

START_TEST(invalid)
{
	configure(4, 4, 4);
	cfg.rows[C] = 17;
	load();
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("amx");
	TCase *t = tcase_create("tiles");
	SRunner *r;
	int failed;

	syscall(SYS_arch_prctl, ASK_PERMISSION, 18L);
	tcase_add_loop_test(t, bytes, 0, 4);
	tcase_add_test(t, halves);
	tcase_add_test(t, order);
	tcase_add_test(t, edges);
	tcase_add_test_raise_signal(t, unconfigured, SIGILL);
	tcase_add_test_raise_signal(t, unlike, SIGILL);
	tcase_add_test_raise_signal(t, invalid, SIGSEGV);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}

#else
#include <stdio.h>

int
main(void)
{
	puts("tiles are those of x86-64");
	return 77;
}
#endif
