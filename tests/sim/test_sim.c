/* The simulator: planted faults are found, right kernels have none, and counts are right. */
#include "runtime/device/sim.h"

#include <check.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLANG "clang-22 -x c -std=gnu11 -DTCC_SIM -I. -fPIC -shared -march=native " \
	"-ffp-contract=off -fno-math-errno "
#define TRACED "-O1 -gline-tables-only -gdwarf-4 -fsanitize=thread -fno-builtin -fno-vectorize " \
	"-fno-slp-vectorize -fno-unroll-loops -mllvm -tsan-instrument-func-entry-exit=0 " \
	"-mllvm -tsan-instrument-read-before-write=1 "
#define SOURCE "tests/sim/kernels.c"

static void *traced32, *traced64, *fast32, *nobarrier32;

static void *build(const char *flags, const char *name)
{
	const char *tmp = getenv("TCC_TMP");
	char path[256], cmd[1024];

	snprintf(path, sizeof path, "%s/%s.so", tmp ? tmp : "/tmp", name);
	snprintf(cmd, sizeof cmd, CLANG "%s -o %s " SOURCE, flags, path);
	if (system(cmd)) {
		fprintf(stderr, "cannot compile: %s\n", cmd);
		exit(1);
	}
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!h) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return h;
}

static Sim *new_sim(int warp, uint64_t seed, bool traced)
{
	Sim *s = sim_new(&(SimConfig){ .warp = warp, .seed = seed, .traced = traced,
		.count = traced });

	ck_assert_ptr_nonnull(s);
	return s;
}

static int launch(Sim *s, void *object, const char *name, uint32_t grid, uint32_t block,
	void **args)
{
	char entry[64];

	snprintf(entry, sizeof entry, "%s__sim", name);
	SimKernel *k = (SimKernel *)dlsym(object, entry);
	ck_assert_msg(k != NULL, "no kernel %s", name);
	return sim_launch(s, k, name, (uint32_t[3]){ grid, 1, 1 }, (uint32_t[3]){ block, 1, 1 }, 128,
		args);
}

static float *floats(Sim *s, int n)
{
	float *p = sim_alloc(s, (uint64_t)n * 4);

	ck_assert_ptr_nonnull(p);
	for (int i = 0; i < n; i++)
		p[i] = (float)(i * 37 % 101) - 50;
	sim_written(s, p, (uint64_t)n * 4);
	return p;
}

static const SimCounters *counters(Sim *s)
{
	const SimCounters *c;

	ck_assert_int_eq(sim_counters(s, &c), 1);
	return c;
}

/* The line of kernels.c that carries the mark. */
static int line_with(const char *mark)
{
	FILE *f = fopen(SOURCE, "r");
	char line[256], want[64];
	int n = 0;

	snprintf(want, sizeof want, "MARK %s ", mark);
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof line, f)) {
		n++;
		if (strstr(line, want))
			break;
	}
	fclose(f);
	return n;
}

/* Exactly one finding, of this kind, in this kernel; at the marked line, or at any (NULL), and
 * then others of the kind may follow. */
static void expect(Sim *s, const char *kind, const char *kernel, const char *mark)
{
	const SimFinding *f;
	int n = sim_findings(s, &f);
	char place[64];

	ck_assert_int_ge(n, 1);
	ck_assert_msg(strstr(f[0].text, "kernels.c:") != NULL, "no line: %s", f[0].text);
	ck_assert_str_eq(f[0].kind, kind);
	ck_assert_str_eq(f[0].kernel, kernel);
	if (mark) {
		snprintf(place, sizeof place, "kernels.c:%d: ", line_with(mark));
		ck_assert_msg(strstr(f[0].text, place) != NULL, "%s: want %s", f[0].text, place);
	}
	for (int i = 1; i < n; i++)
		ck_assert_msg(!mark && !strcmp(f[i].kind, kind), "also: %s", f[i].text);
	printf("%s\n", f[0].text);
}

static void clean(Sim *s)
{
	const SimFinding *f;

	ck_assert_msg(sim_findings(s, &f) == 0, "%s", f[0].text);
}

/* Runs a kernel of float pointers with a planted fault. */
static void planted(const char *kernel, uint32_t grid, uint32_t block, const char *kind,
	const char *mark)
{
	for (uint64_t seed = 0; seed < 3; seed++) {
		Sim *s = new_sim(32, seed, true);
		float *y = floats(s, 4096), *x = floats(s, 4096);

		ck_assert_int_eq(launch(s, traced32, kernel, grid, block, (void *[]){ &y, &x }),
			SIM_FINDINGS);
		expect(s, kind, kernel, mark);
		sim_free(s);
	}
}

START_TEST(finds_races)
{
	planted("missing_barrier", 2, 64, "race", NULL);
	planted("missing_second_barrier", 2, 64, "race", NULL);
	planted("blocks_race", 2, 32, "race", "blocks_race");
}
END_TEST

START_TEST(finds_bounds)
{
	Sim *s = new_sim(32, 0, true);
	float *y = sim_alloc(s, 1000 * 4);
	int64_t n = 1000;

	ck_assert_int_eq(launch(s, traced32, "store_past_end", 4, 256, (void *[]){ &y, &n }),
		SIM_FINDINGS);
	expect(s, "bounds", "store_past_end", "past_end");
	sim_clear(s);
	n = 999;
	ck_assert_int_eq(launch(s, traced32, "store_past_end", 4, 256, (void *[]){ &y, &n }),
		SIM_OK);
	/* a view is narrower than its region */
	sim_view(s, y, 999 * 4, "y");
	ck_assert_int_eq(launch(s, traced32, "store_past_end", 4, 256, (void *[]){ &y, &n }),
		SIM_FINDINGS);
	expect(s, "bounds", "store_past_end", "past_end");
	sim_free(s);
	planted("past_shared", 1, 32, "bounds", "past_shared");
	planted("wild", 1, 32, "bounds", "wild");
}
END_TEST

START_TEST(finds_misalignment)
{
	planted("axpy4_misaligned", 1, 256, "alignment", "misaligned");
}
END_TEST

START_TEST(finds_undefined)
{
	Sim *s = new_sim(32, 0, true);
	float *x = sim_alloc(s, 128), *y = sim_alloc(s, 128);

	memset(x, 0, 128);
	sim_written(s, x, 124);
	ck_assert_int_eq(launch(s, traced32, "undefined_global", 1, 32, (void *[]){ &y, &x }),
		SIM_FINDINGS);
	expect(s, "undefined", "undefined_global", "undefined_global");
	sim_clear(s);
	sim_written(s, x, 128);
	ck_assert_int_eq(launch(s, traced32, "undefined_global", 1, 32, (void *[]){ &y, &x }),
		SIM_OK);
	ck_assert_int_eq(sim_host_reads(s, y, 128, "output y"), SIM_OK);
	sim_undefined(s, y, 4);
	ck_assert_int_eq(sim_host_reads(s, y, 128, "output y"), SIM_FINDINGS);
	sim_free(s);
	planted("undefined_shared", 1, 32, "undefined", "undefined_shared");
}
END_TEST

START_TEST(finds_divergence)
{
	planted("divergent_barrier", 1, 64, "divergence", "divergent_barrier");
	planted("two_barriers", 1, 64, "divergence", "two_barriers");
	planted("divergent_shuffle", 1, 32, "divergence", NULL);
}
END_TEST

START_TEST(finds_too_much_shared)
{
	planted("much_shared", 1, 32, "shared", NULL);
}
END_TEST

/* c against a plain product when the launch had no finding; returns its status */
static int sgemm(Sim *s, void *object, int m, int n, int k)
{
	float *a = floats(s, m * k), *b = floats(s, k * n), *c = sim_alloc(s, (uint64_t)(m * n) * 4);
	int64_t n64 = n, k64 = k;
	SimKernel *fn = (SimKernel *)dlsym(object, "sgemm__sim");
	int rc = sim_launch(s, fn, "sgemm", (uint32_t[3]){ (uint32_t)n / 64, (uint32_t)m / 64, 1 },
		(uint32_t[3]){ 256, 1, 1 }, 0, (void *[]){ &c, &a, &b, &n64, &k64 });

	for (int i = 0; i < m && rc == SIM_OK; i += 7)
		for (int j = 0; j < n; j += 5) {
			float want = 0;

			for (int p = 0; p < k; p++)
				want += a[i * k + p] * b[p * n + j];
			ck_assert_float_eq(c[i * n + j], want);
		}
	return rc;
}

START_TEST(tiled_product)
{
	for (uint64_t seed = 0; seed < 4; seed++) {
		Sim *s = new_sim(32, seed, true);

		ck_assert_int_eq(sgemm(s, traced32, 128, 192, 64), SIM_OK);
		clean(s);
		const SimCounters *c = counters(s);
		/* 6 tiles, each reads 64 rows of a and 64 columns of b once */
		ck_assert_uint_eq(c->ld_bytes, 6 * 2 * 64 * 64 * 4);
		ck_assert_uint_eq(c->ld_unique, (128 + 192) * 64 * 4);
		ck_assert_uint_eq(c->st_bytes, 128 * 192 * 4);
		ck_assert_uint_eq(c->st_unique, 128 * 192 * 4);
		ck_assert_uint_eq(c->ld_sectors, c->ld_ideal);
		ck_assert_uint_eq(c->st_sectors, c->st_ideal);
		ck_assert_uint_eq(c->barriers, 6 * 4 * 2);
		ck_assert_uint_eq(c->shared_bytes, 16 * (68 + 64) * 4);
		sim_free(s);
	}
}
END_TEST

START_TEST(tiled_product_without_a_barrier)
{
	Sim *s = new_sim(32, 0, true);
	const SimFinding *f;

	sgemm(s, nobarrier32, 64, 64, 64);
	ck_assert_int_ge(sim_findings(s, &f), 1);
	ck_assert_str_eq(f[0].kind, "race");
	sim_free(s);
}
END_TEST

START_TEST(fast_product)
{
	Sim *s = new_sim(32, 0, false);

	ck_assert_int_eq(sgemm(s, fast32, 128, 64, 128), SIM_OK);
	sim_free(s);
}
END_TEST

static void check_rows(void *object, int warp)
{
	Sim *s = new_sim(warp, (uint64_t)warp, true);
	float *x = floats(s, 16 * 200), *y = sim_alloc(s, 16 * 200 * 4);
	int64_t n = 200;

	ck_assert_int_eq(launch(s, object, "rows", (uint32_t)(16 * warp / 128), 128,
		(void *[]){ &y, &x, &n }), SIM_OK);
	clean(s);
	for (int r = 0; r < 16; r++) {
		float m = -INFINITY, sum = 0;

		for (int i = 0; i < n; i++)
			m = fmaxf(m, x[r * n + i]);
		for (int i = 0; i < n; i++)
			sum += x[r * n + i] - m + 2;
		for (int i = 0; i < n; i++)
			ck_assert_float_eq_tol(y[r * n + i], (x[r * n + i] - m + 2) / sum, 1e-6);
	}
	ck_assert_uint_eq(counters(s)->ld_unique, 16 * 200 * 4);
	ck_assert_uint_eq(counters(s)->st_bytes, 16 * 200 * 4);
	ck_assert_uint_eq(counters(s)->shuffles, 16 * 2 * (warp == 32 ? 5 : 6));
	sim_free(s);
}

/* What memory moves: all once where the cache holds it or the blocks that run at once share it,
 * else what each block reads. */
START_TEST(second_cache)
{
	enum { ONE = 2 * 64 * 64 * 4, DISTINCT = (128 + 192) * 64 * 4, RESULT = 128 * 192 * 4 };
	static const struct { uint64_t l2; uint32_t at_once; uint64_t read; } cases[] = {
		{ 1 << 20, 1, DISTINCT }, { 1 << 13, 6, DISTINCT }, { 1 << 11, 1, 6 * ONE },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		Sim *s = sim_new(&(SimConfig){ .warp = 32, .traced = true, .count = true, .l2 = cases[i].l2,
			.at_once = cases[i].at_once });

		ck_assert_ptr_nonnull(s);
		ck_assert_int_eq(sgemm(s, traced32, 128, 192, 64), SIM_OK);
		ck_assert_uint_eq(counters(s)->dram_read, cases[i].read);
		ck_assert_uint_eq(counters(s)->dram_written, RESULT);
		sim_free(s);
	}
}
END_TEST

START_TEST(warp_rows)
{
	check_rows(traced32, 32);
	check_rows(traced64, 64);
}
END_TEST

START_TEST(counts_sectors)
{
	Sim *s = new_sim(32, 5, true);
	float *y = floats(s, 4096), *x = floats(s, 4096), a = 2;
	int64_t n = 4001;

	ck_assert_int_eq(launch(s, traced32, "axpy", 16, 256, (void *[]){ &y, &x, &a, &n }),
		SIM_OK);
	const SimCounters *c = counters(s);
	ck_assert_uint_eq(c->ld_requests, 2 * 126);
	ck_assert_uint_eq(c->ld_bytes, 2 * 4001 * 4);
	ck_assert_uint_eq(c->ld_sectors, c->ld_ideal);
	ck_assert_uint_eq(c->ld_sectors, 2 * 501);
	ck_assert_uint_eq(c->st_sectors, 501);
	ck_assert_uint_eq(c->st_unique, 4001 * 4);
	sim_free(s);

	s = new_sim(32, 0, true);
	y = floats(s, 4096);
	x = floats(s, 4096);
	n = 4096;
	ck_assert_int_eq(launch(s, traced32, "axpy4", 4, 256, (void *[]){ &y, &x, &a, &n }), SIM_OK);
	c = counters(s);
	ck_assert_uint_eq(c->ld_requests, 2 * 32);
	ck_assert_uint_eq(c->ld_sectors, 2 * 512);
	ck_assert_uint_eq(c->ld_ideal, 2 * 512);
	sim_free(s);

	s = new_sim(32, 0, true);
	y = floats(s, 1024);
	x = floats(s, 1024);
	ck_assert_int_eq(launch(s, traced32, "strided", 1, 32, (void *[]){ &y, &x }), SIM_OK);
	c = counters(s);
	ck_assert_uint_eq(c->ld_sectors, 32);
	ck_assert_uint_eq(c->ld_ideal, 4);
	sim_free(s);
}
END_TEST

static const SimCounters *shared_counts(Sim *s, const char *kernel, int arg)
{
	float *y = floats(s, 1024), *x = floats(s, 1024);
	int32_t v = arg;
	bool chunks = !strcmp(kernel, "chunks");

	ck_assert_int_eq(launch(s, traced32, kernel, 1, 32,
		chunks ? (void *[]){ &y, &v } : (void *[]){ &y, &x, &v }), SIM_OK);
	clean(s);
	return counters(s);
}

START_TEST(counts_bank_conflicts)
{
	Sim *s = new_sim(32, 0, true);
	const SimCounters *c = shared_counts(s, "transpose", 1);
	ck_assert_uint_eq(c->shared_requests, 64);
	ck_assert_uint_eq(c->shared_ideal, 64);
	ck_assert_uint_eq(c->shared_wavefronts, 64);
	sim_free(s);

	s = new_sim(32, 0, true);
	c = shared_counts(s, "transpose", 0);
	ck_assert_uint_eq(c->shared_wavefronts, 32 + 32 * 32);
	sim_free(s);

	/* each quarter warp: 8 rows of 64 bytes; unswizzled, 4 of them share each bank */
	s = new_sim(32, 0, true);
	c = shared_counts(s, "chunks", 1);
	ck_assert_uint_eq(c->shared_ideal, 16 + 4 * 4);
	ck_assert_uint_eq(c->shared_wavefronts, 16 + 4 * 4);
	sim_free(s);

	s = new_sim(32, 0, true);
	c = shared_counts(s, "chunks", 0);
	ck_assert_uint_eq(c->shared_wavefronts, 16 + 4 * 4 * 4);
	sim_free(s);
}
END_TEST

START_TEST(atomics_do_not_race)
{
	Sim *s = new_sim(32, 3, true);
	float *f = sim_alloc(s, 8);
	int32_t *i = sim_alloc(s, 8);
	int64_t *l = sim_alloc(s, 16);

	f[0] = 0;
	f[1] = -1;
	i[0] = i[1] = 0;
	l[0] = 0;
	l[1] = 7;
	sim_written(s, f, 8);
	sim_written(s, i, 8);
	sim_written(s, l, 16);
	ck_assert_int_eq(launch(s, traced32, "atomics", 3, 64, (void *[]){ &f, &i, &l }), SIM_OK);
	clean(s);
	ck_assert_float_eq(f[0], 192);
	ck_assert_float_eq(f[1], 63);
	ck_assert_int_eq(i[0], -63);
	ck_assert_int_eq(i[1], 0xffff);
	ck_assert_int_eq(l[0], 3 * 63 * 32);
	ck_assert_int_eq(l[1], 7 * -27);
	sim_free(s);
}
END_TEST

START_TEST(warp_barriers_order_lanes)
{
	Sim *s = new_sim(32, 9, true);
	int32_t *y = sim_alloc(s, 64 * 4), careful = 1;

	ck_assert_int_eq(launch(s, traced32, "warp_exchange", 2, 64, (void *[]){ &y, &careful }),
		SIM_FINDINGS);     /* both blocks write y */
	expect(s, "race", "warp_exchange", NULL);
	sim_clear(s);
	ck_assert_int_eq(launch(s, traced32, "warp_exchange", 1, 64, (void *[]){ &y, &careful }),
		SIM_OK);
	for (int t = 0; t < 64; t++)
		ck_assert_int_eq(y[t], (t ^ 5) * 3);
	careful = 0;
	ck_assert_int_eq(launch(s, traced32, "warp_exchange", 1, 64, (void *[]){ &y, &careful }),
		SIM_FINDINGS);
	sim_free(s);
}
END_TEST

START_TEST(copies_land_at_the_wait)
{
	Sim *s = new_sim(32, 0, true);
	float *x = floats(s, 192), *y = sim_alloc(s, 256 * 4);
	int32_t pending = 0;

	ck_assert_int_eq(launch(s, traced32, "async_copy", 1, 32, (void *[]){ &y, &x, &pending }),
		SIM_OK);
	clean(s);
	for (int i = 0; i < 256; i++)
		ck_assert_float_eq(y[i], i < 192 ? x[i] : 0);
	pending = 1;
	ck_assert_int_eq(launch(s, traced32, "async_copy", 1, 32, (void *[]){ &y, &x, &pending }),
		SIM_FINDINGS);
	expect(s, "undefined", "async_copy", "async_copy");
	sim_free(s);
}
END_TEST

START_TEST(dynamic_shared_memory)
{
	Sim *s = new_sim(32, 0, true);
	int32_t *y = sim_alloc(s, 64 * 4);

	ck_assert_int_eq(launch(s, traced32, "dynamic_shared", 1, 64, (void *[]){ &y }), SIM_OK);
	clean(s);
	for (int t = 0; t < 64; t++)
		ck_assert_int_eq(y[t], (t ^ 1) + (t ^ 2));
	ck_assert_uint_eq(counters(s)->shared_bytes, 256 + 128);
	sim_free(s);
}
END_TEST

/* 0 to 2047 by 1/8, exact in binary16 */
static uint16_t half(int eighths)
{
	_Float16 h = (_Float16)((float)eighths / 8);
	uint16_t bits;

	memcpy(&bits, &h, 2);
	return bits;
}

START_TEST(matrix_fragments)
{
	Sim *s = new_sim(32, 6, true);
	uint16_t *a = sim_alloc(s, 512), *b = sim_alloc(s, 256);
	float *c = sim_alloc(s, 512), fa[256], fb[128];

	for (int i = 0; i < 256; i++)
		a[i] = half(i * 7 % 61 - 30), fa[i] = (float)(i * 7 % 61 - 30) / 8;
	for (int i = 0; i < 128; i++)
		b[i] = half(i * 5 % 47 - 20), fb[i] = (float)(i * 5 % 47 - 20) / 8;
	sim_written(s, a, 512);
	sim_written(s, b, 256);
	ck_assert_int_eq(launch(s, traced32, "mma", 1, 32, (void *[]){ &c, &a, &b }), SIM_OK);
	clean(s);
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < 8; j++) {
			float want = 0;

			for (int k = 0; k < 16; k++)
				want += fa[i * 16 + k] * fb[k * 8 + j];
			ck_assert_float_eq(c[i * 8 + j], want);
		}
	ck_assert_uint_eq(counters(s)->mma, 1);
	sim_free(s);
}
END_TEST

START_TEST(bad_launches)
{
	Sim *s = new_sim(32, 0, true);
	float *y = floats(s, 64);

	ck_assert_int_eq(launch(s, traced32, "wild", 1, 2048, (void *[]){ &y }), SIM_INVALID);
	ck_assert_int_eq(launch(s, traced32, "wild", 1, 0, (void *[]){ &y }), SIM_INVALID);
	ck_assert_int_eq(launch(s, traced32, "wild", 0, 32, (void *[]){ &y }), SIM_OK);
	ck_assert_int_eq(sim_register(s, y + 8, 4, true), SIM_INVALID);
	sim_free(s);
}
END_TEST

#define FN(name, type, ...) type (*name)(__VA_ARGS__) = (type (*)(__VA_ARGS__))dlsym(fast32, \
	"host_" #name)

START_TEST(header_fmod)
{
	FN(fmod_f32, float, float, float);
	FN(fmod_f64, double, double, double);
	uint64_t x = 1;

	for (int i = 0; i < 200000; i++) {
		union { uint64_t u; double d; } a, b;
		union { uint32_t u; float f; } p, q;

		a.u = x = x * 6364136223846793005u + 1442695040888963407u;
		b.u = x = x * 6364136223846793005u + 1442695040888963407u;
		if (i & 1)      /* near exponents; every fourth subnormal */
			b.u = (b.u & ~(0x7ffull << 52)) | (i & 2 ? 0 : a.u & 0x7ffull << 52);
		p.u = (uint32_t)(a.u >> 32);
		q.u = (uint32_t)(b.u >> 32);
		if (i & 1)
			q.u = (q.u & ~(0xffu << 23)) | (i & 2 ? 0 : p.u & 0xffu << 23);
		float f = fmod_f32(p.f, q.f), g = fmodf(p.f, q.f);
		ck_assert_msg(f == g || (f != f && g != g), "fmodf(%a, %a) = %a", p.f, q.f, f);
		ck_assert_int_eq(!signbit(f) && f == f, !signbit(g) && g == g);
		if (i % 16 < 2 || i & 1) {
			double d = fmod_f64(a.d, b.d), e = fmod(a.d, b.d);

			ck_assert_msg(d == e || (d != d && e != e), "fmod(%a, %a)", a.d, b.d);
		}
	}
	ck_assert_float_eq(fmod_f32(5, INFINITY), 5);
	ck_assert(isnan(fmod_f32(INFINITY, 2)) && isnan(fmod_f32(1, 0)) && isnan(fmod_f32(NAN, 1)));
}
END_TEST

START_TEST(header_conversions)
{
	FN(f16_to_f32, float, uint16_t);
	FN(f32_to_f16, uint16_t, float);
	FN(f64_to_f16, uint16_t, double);
	FN(f32_to_bf16, uint16_t, float);
	FN(f32_to_i8, signed char, float);
	FN(f32_to_i32, int32_t, float);
	FN(f32_to_i64, int64_t, float);
	FN(f64_to_u64, uint64_t, double);
	FN(div_i32, int32_t, int32_t, int32_t);
	FN(rem_i64, int64_t, int64_t, int64_t);
	FN(min_f32, float, float, float);
	FN(max_f32, float, float, float);
	uint32_t x = 1;

	for (uint32_t i = 0; i < 65536; i++) {
		uint16_t h = (uint16_t)i;
		_Float16 want;
		memcpy(&want, &h, 2);
		float f = f16_to_f32(h);
		ck_assert(f == (float)want || (f != f && want != want));
		ck_assert(f != f || f32_to_f16(f) == h);
	}
	for (int i = 0; i < 400000; i++) {
		union { uint32_t u; float f; } a;
		_Float16 h;
		uint16_t bits;

		x = x * 1664525 + 1013904223;
		a.u = i & 1 ? (x & 0x8fffffff) | 0x30000000 : x;
		if (i % 3 == 0)
			a.u &= 0xfffff000;      /* many ties */
		h = (_Float16)a.f;
		memcpy(&bits, &h, 2);
		ck_assert(a.f != a.f || f32_to_f16(a.f) == bits);
		double d = (double)a.f * (1 + (i % 5 - 2) * 0x1p-40);
		h = (_Float16)d;
		memcpy(&bits, &h, 2);
		ck_assert_msg(d != d || f64_to_f16(d) == bits, "%a", d);
	}
	ck_assert_uint_eq(f32_to_bf16(1.00390625f), 0x3f80);
	ck_assert_uint_eq(f32_to_bf16(1.01171875f), 0x3f82);
	ck_assert_uint_eq(f32_to_bf16(INFINITY), 0x7f80);
	ck_assert_uint_eq(f32_to_bf16(NAN) & 0x7fc0, 0x7fc0);
	ck_assert_int_eq(f32_to_i8(-300), -128);
	ck_assert_int_eq(f32_to_i8(127.9f), 127);
	ck_assert_int_eq(f32_to_i8(NAN), 0);
	ck_assert_int_eq(f32_to_i32(3e9f), INT32_MAX);
	ck_assert_int_eq(f32_to_i32(-INFINITY), INT32_MIN);
	ck_assert_int_eq(f32_to_i64(1e30f), INT64_MAX);
	ck_assert_uint_eq(f64_to_u64(-0.5), 0);
	ck_assert_uint_eq(f64_to_u64(1e30), UINT64_MAX);
	ck_assert_int_eq(div_i32(7, 0), 0);
	ck_assert_int_eq(div_i32(INT32_MIN, -1), INT32_MIN);
	ck_assert_int_eq(rem_i64(INT64_MIN, -1), 0);
	ck_assert(isnan(min_f32(NAN, 1)) && isnan(max_f32(1, NAN)));
	ck_assert(signbit(min_f32(0.0f, -0.0f)) && !signbit(max_f32(-0.0f, 0.0f)));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		finds_races, finds_bounds, finds_misalignment,
		finds_undefined, finds_divergence, finds_too_much_shared, tiled_product, second_cache,
		tiled_product_without_a_barrier, fast_product, warp_rows, counts_sectors,
		counts_bank_conflicts, atomics_do_not_race, warp_barriers_order_lanes,
		copies_land_at_the_wait, dynamic_shared_memory, matrix_fragments, bad_launches,
		header_fmod, header_conversions,
	};
	Suite *suite = suite_create("sim");
	TCase *tc = tcase_create("sim");

	if (system("clang-22 --version >/dev/null 2>&1")) {
		puts("clang-22 is missing");
		return 77;
	}
	traced32 = build(TRACED, "traced32");
	traced64 = build(TRACED "-Dtcc_warp=64", "traced64");
	fast32 = build("-O2", "fast32");
	nobarrier32 = build(TRACED "-DNO_BARRIER", "nobarrier32");
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(tc, tests[i]);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
