/*
 * Boxes, phases and products of warp groups in the simulator: a right kernel is right whatever the order and
 * however its tiles are stored; planted faults are found; boxes lie as the sources say.
 *
 * Where bytes lie is stated here from the published tables, apart from the simulator: CUDA programming guide,
 * "Swizzle modes" (128, 64, 32 bytes: pieces of 16 exchanged with the row within 8, 4, 2 rows of 128 bytes),
 * and CuTe's Layout_K_SW*_Atom, Layout_MN_SW128_Atom, which the product reads (mma_traits_sm90_gmma.hpp).
 */
#include "runtime/device/sim.h"

#include <check.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLANG "clang-22 -x c -std=gnu11 -DTCC_SIM -I. -fPIC -shared -march=native " \
	"-ffp-contract=off -fno-math-errno -O1 -gline-tables-only -gdwarf-4 -fsanitize=thread -fno-builtin " \
	"-fno-vectorize -fno-slp-vectorize -fno-unroll-loops -mllvm -tsan-instrument-func-entry-exit=0 " \
	"-mllvm -tsan-instrument-read-before-write=1 "

enum { SHARED = 40 << 10, SIDE = 64 };

static void *build(const char *flags, const char *name)
{
	const char *tmp = getenv("TCC_TMP");
	char path[256], cmd[1024];

	snprintf(path, sizeof path, "%s/async_%s.so", tmp ? tmp : "/tmp", name);
	snprintf(cmd, sizeof cmd, CLANG "%s -o %s tests/sim/async.c", flags, path);
	ck_assert_msg(system(cmd) == 0, "cannot compile: %s", cmd);
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	ck_assert_msg(h != NULL, "%s", h ? "" : dlerror());
	return h;
}

static Sim *new_sim(uint64_t seed)
{
	Sim *s = sim_new(&(SimConfig){ .warp = 32, .seed = seed, .traced = true, .count = true,
		.max_shared = 227 << 10 });

	ck_assert_ptr_nonnull(s);
	return s;
}

static int launch(Sim *s, void *object, const char *name, uint32_t threads, void **args)
{
	char entry[64];

	snprintf(entry, sizeof entry, "%s__sim", name);
	SimKernel *k = (SimKernel *)dlsym(object, entry);
	ck_assert_ptr_nonnull(k);
	return sim_launch(s, k, name, (uint32_t[3]){ 1, 1, 1 }, (uint32_t[3]){ threads, 1, 1 }, SHARED,
		args);
}

/* Small whole numbers as f16: exact in every order. */
static uint16_t half(int v)
{
	static const uint16_t bits[] = { 0xc000, 0xbc00, 0, 0x3c00, 0x4000 };

	return bits[v + 2];
}

static int number(int i, int k, int salt)
{
	return (i * 7 + k * 3 + salt + i * k) % 5 - 2;
}

typedef struct Factor { uint16_t *p; uint64_t map[16]; } Factor;

/* rows x width numbers, a box of so many of them. */
static Factor factor(Sim *s, int rows, int width, int box_rows, int box_width, int salt,
	bool transposed)
{
	Factor f = { .p = sim_alloc(s, (uint64_t)(rows * width) * 2) };
	SimTensor t = { .p = f.p, .rank = 2, .size = 2, .swizzle = box_width * 2,
		.dim = { width, rows }, .stride = { 2, width * 2 },
		.box = { (uint32_t)box_width, (uint32_t)box_rows }, .step = { 1, 1 } };

	for (int i = 0; i < rows; i++)
		for (int k = 0; k < width; k++)
			f.p[i * width + k] = half(transposed ? number(k, i, salt) : number(i, k, salt));
	sim_written(s, f.p, (uint64_t)(rows * width) * 2);
	const char *why = sim_map(&t, f.map);
	ck_assert_msg(!why, "a map breaks a rule: %s", why);
	return f;
}

/* Runs the product; its status. */
static int run(Sim *s, void *object, int row, bool along, int64_t steps)
{
	int k = row / 2, depth = k * (int)steps;
	float *c = sim_alloc(s, SIDE * SIDE * 4);
	Factor a = factor(s, SIDE, depth, SIDE, k, 1, false);
	Factor b = along ? factor(s, depth, SIDE, k, SIDE, 2, true)
		: factor(s, SIDE, depth, SIDE, k, 2, false);
	int rc = launch(s, object, "product", 256, (void *[]){ &c, &steps, a.map, b.map });

	for (int t = 0; t < 128 && rc == SIM_OK; t++)
		for (int e = 0; e < SIDE / 2; e++) {
			/* PTX ISA, accumulator D of wgmma.mma_async.m64nN */
			int i = t / 32 * 16 + t % 32 / 4 + (e / 2 % 2) * 8, j = e / 4 * 8 + t % 4 * 2 + e % 2,
				want = 0;

			for (int x = 0; x < depth; x++)
				want += number(i, x, 1) * number(j, x, 2);
			ck_assert_float_eq(c[e * 128 + t], (float)want);
		}
	return rc;
}

START_TEST(right_in_every_order)
{
	static const struct { const char *flags; int row; bool along; } forms[] = {
		{ "-DROW=128", 128, false }, { "-DROW=64", 64, false }, { "-DROW=32", 32, false },
		{ "-DROW=128 -DALONG=1", 128, true }, { "-DROW=128 -DALONG=1 -DHELD=1", 128, true },
	};
	void *object = build(forms[_i].flags, "right");
	const SimFinding *f;

	for (uint64_t seed = 0; seed < 12; seed++) {
		Sim *s = new_sim(seed);
		int rc = run(s, object, forms[_i].row, forms[_i].along, 5);

		ck_assert_msg(rc == SIM_OK, "seed %d: %s", (int)seed,
			sim_findings(s, &f) ? f[0].text : "?");
		sim_free(s);
	}
	dlclose(object);
}
END_TEST

/* kind of finding, for FAULT 1 ... */
static const char *const kinds[] = { "race", "divergence", "divergence", "race", "race", "race" };

START_TEST(faults_are_found)
{
	char flags[32];
	const SimFinding *f;

	snprintf(flags, sizeof flags, "-DFAULT=%d", _i + 1);
	void *object = build(flags, "fault");
	for (uint64_t seed = 0; seed < 4; seed++) {
		Sim *s = new_sim(seed);
		int rc = run(s, object, 128, false, 5);

		ck_assert_msg(rc == SIM_FINDINGS, "fault %d, seed %d: not found", _i + 1, (int)seed);
		int n = sim_findings(s, &f);
		bool found = false;
		for (int i = 0; i < n; i++)
			found |= !strcmp(f[i].kind, kinds[_i]) || !strcmp(f[i].kind, "undefined");
		ck_assert_msg(found, "fault %d: %s", _i + 1, f[0].text);
		if (!seed)
			printf("%s\n", f[0].text);
		sim_free(s);
	}
	dlclose(object);
}
END_TEST

START_TEST(parts_of_a_block)
{
	int32_t *out;

	for (int fault = 0; fault < 2; fault++) {
		void *object = build(fault ? "-DFAULT=7" : "", "parts");
		Sim *s = new_sim(3);

		out = sim_alloc(s, 3 * 64 * 4);
		ck_assert_int_eq(launch(s, object, "halves", 64, (void *[]){ &out }),
			fault ? SIM_FINDINGS : SIM_OK);
		for (int i = 0; i < 3 * 64 && !fault; i++)
			ck_assert_int_eq(out[i], i % 64 / 32 * 32 + (i % 32 + 1) % 32 + i / 64);
		sim_free(s);
		dlclose(object);
	}
}
END_TEST

/* Byte b of row r of a box of spans of so many bytes. */
static int place(int span, int r, int b)
{
	int at = r * span + b, line = at / 128, piece = at / 16 % 8;

	piece ^= span == 128 ? line % 8 : span == 64 ? line % 4 : span == 32 ? line % 2 : 0;
	return line * 128 + piece * 16 + at % 16;
}

START_TEST(boxes_lie_swizzled)
{
	static const int spans[] = { 128, 64, 32 };
	int span = spans[_i], rows = 24, width = span * 2;
	Sim *s = new_sim(0);
	uint8_t *p = sim_alloc(s, (uint64_t)(rows * width)), *out = sim_alloc(s, 32768);
	SimTensor t = { .p = p, .rank = 2, .size = 1, .swizzle = span, .dim = { span - 9, rows - 3 },
		.stride = { 1, width }, .box = { (uint32_t)span, (uint32_t)rows }, .step = { 1, 1 } };
	uint64_t map[16];
	int64_t bytes = span * rows;
	void *object = build("", "lies");

	for (int i = 0; i < rows * width; i++)
		p[i] = (uint8_t)(i * 31 + i / 256 + 1);
	sim_written(s, p, (uint64_t)(rows * width));
	ck_assert_ptr_null(sim_map(&t, map));
	ck_assert_int_eq(launch(s, object, "lies", 32, (void *[]){ &out, &bytes, map }), SIM_OK);
	for (int r = 0; r < rows; r++)
		for (int b = 0; b < span; b++) {
			bool inside = b >= 1 && b - 1 < span - 9 && r < rows - 3;      /* the box begins at -1 */

			ck_assert_int_eq(out[place(span, r, b)], inside ? p[r * width + b - 1] : 0);
		}
	sim_free(s);
	dlclose(object);
}
END_TEST

START_TEST(pixels_are_gathered)
{
	enum { N = 2, H = 7, W = 5, C = 32, PIXELS = 20 };
	Sim *s = new_sim(0);
	uint8_t *p = sim_alloc(s, N * H * W * C), *out = sim_alloc(s, 32768);
	/* a 3 x 4 filter, 2 apart, one element of padding before, two (down) and one (right) behind */
	SimTensor t = { .p = p, .rank = 4, .size = 1, .swizzle = 32, .gathers = true,
		.dim = { C, W, H, N }, .stride = { 1, C, W * C, H * W * C }, .box = { C, PIXELS },
		.step = { 1, 2, 2, 1 }, .lower = { -1, -1 }, .upper = { 1 - 3, 2 - 2 } };
	uint64_t map[16];
	int64_t bytes = C * PIXELS;
	void *object = build("", "pixels");
	int w = 1, h = -1, n = 0;

	for (int i = 0; i < N * H * W * C; i++)
		p[i] = (uint8_t)(i * 13 + i / 256 + 1);
	sim_written(s, p, N * H * W * C);
	ck_assert_ptr_null(sim_map(&t, map));
	ck_assert_int_eq(launch(s, object, "pixels", 32, (void *[]){ &out, &bytes, map }), SIM_OK);
	/* PTX ISA, im2col mode: from the first pixel along w, then h, then n, within the bounding
	 * box */
	for (int i = 0; i < PIXELS; i++) {
		for (int c = 0; c < C; c++) {
			int y = h + 2, x = w + 1;
			bool inside = x >= 0 && x < W && y >= 0 && y < H && n < N;

			ck_assert_int_eq(out[place(32, i, c)], inside ? p[((n * H + y) * W + x) * C + c] : 0);
		}
		if ((w += 2) > W - 1 - 2)
			w = -1, h += 2;
		if (h > H - 1)
			h = -1, n++;
	}
	sim_free(s);
	dlclose(object);
}
END_TEST

START_TEST(maps_that_break_rules)
{
	static uint8_t bytes[4096] __attribute__((aligned(64)));
	SimTensor good = { .p = bytes, .rank = 2, .size = 2, .swizzle = 128, .dim = { 64, 8 },
		.stride = { 2, 128 }, .box = { 64, 8 }, .step = { 1, 1 } };
	SimTensor t[] = { good, good, good, good, good };
	uint64_t map[16];

	t[0].p = bytes + 8;
	t[1].stride[1] = 136;
	t[2].dim[1] = 0;
	t[3].box[1] = 257;
	t[4].box[0] = 72;
	ck_assert_ptr_null(sim_map(&good, map));
	for (size_t i = 0; i < sizeof t / sizeof *t; i++)
		ck_assert_msg(sim_map(&t[i], map) != NULL, "%d", (int)i);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("async");
	TCase *tc = tcase_create("async");

	if (system("clang-22 --version >/dev/null 2>&1")) {
		puts("clang-22 is missing");
		return 77;
	}
	tcase_add_loop_test(tc, right_in_every_order, 0, 5);
	tcase_add_loop_test(tc, faults_are_found, 0, 6);
	tcase_add_loop_test(tc, boxes_lie_swizzled, 0, 3);
	tcase_add_test(tc, parts_of_a_block);
	tcase_add_test(tc, pixels_are_gathered);
	tcase_add_test(tc, maps_that_break_rules);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
