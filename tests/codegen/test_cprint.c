/* The C printer: what it prints is compiled by gcc and by the simulator's clang, run and compared. */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/cprint.h"
#include "runtime/abi.h"
#include "runtime/device/sim.h"
#include "tests/codegen/kernels.h"

#include <check.h>     /* last: its macro `fail` */

static char dir[256];

static const char *path(const char *name)
{
	static char buf[4][512];
	static int at;
	const char *t = getenv("TCC_TMP");

	at = (at + 1) % 4;
	if (!*dir) {
		snprintf(dir, sizeof dir, "%s/cprintXXXXXX", t ? t : "/tmp");
		ck_assert_ptr_nonnull(mkdtemp(dir));
	}
	snprintf(buf[at], sizeof buf[at], "%s/%s", dir, name);
	return buf[at];
}

static bool shell(const char *fmt, const char *a, const char *b)
{
	char cmd[2048];
	snprintf(cmd, sizeof cmd, fmt, a, b);
	return system(cmd) == 0;
}

static bool has(const char *tool)
{
	return shell("command -v %s >/dev/null 2>&1%s", tool, "");
}

static void write_text(const char *file, const char *first, const char *second, const char *last)
{
	FILE *f = fopen(file, "w");
	ck_assert_ptr_nonnull(f);
	fprintf(f, "%s%s%s", first, second, last);
	fclose(f);
}

static Module *module(void)
{
	static Diag d;
	memset(&d, 0, sizeof d);
	d.out = stderr;
	return module_new(&d);
}

/* The CPU kernel, compiled by cc. */
static TccKernelFn *cpu(Module *m, Kernel *k, const char *cc)
{
	CFile *f = cfile_new(m, false);
	const char *c = path("k.c"), *so = path(k->name);
	char entry[256];
	size_t n;

	cfile_kernel(f, k, k->name, k->loc);
	char *text = cfile_finish(f, &n);
	ck_assert_ptr_nonnull(text);
	snprintf(entry, sizeof entry, "\nvoid *const entry = (void *)%s;\n", k->name);
	write_text(c, c_prelude, text, entry);
	free(text);
	char cmd[512];
	snprintf(cmd, sizeof cmd, "%s -std=c11 -Wall -Wno-unused -Werror -O2 -ffp-contract=off "
		"-fno-math-errno -fno-trapping-math -fPIC -shared", cc);
	char full[2048];
	snprintf(full, sizeof full, "%s %s -o %s.so", cmd, c, so);
	ck_assert_msg(system(full) == 0, "%s", full);
	snprintf(full, sizeof full, "%s.so", so);
	void *h = dlopen(full, RTLD_NOW | RTLD_LOCAL);
	ck_assert_msg(h != NULL, "%s", dlerror());
	remove(full);
	return *(TccKernelFn **)dlsym(h, "entry");
}

/* The same as a device kernel in the simulator; NULL without clang-22. */
static SimKernel *gpu(Module *m, Kernel *k)
{
	CFile *f = cfile_new(m, true);
	const char *c = path("k.cu"), *so = path("k.sim.so");
	char full[2048];
	size_t n;

	cfile_kernel(f, k, k->name, k->loc);
	cfile_sim_entry(f, k, k->name);
	char *text = cfile_finish(f, &n);
	ck_assert_ptr_nonnull(text);
	write_text(c, "#include \"runtime/device/tcc_dev.h\"\n", text, "");
	free(text);
	if (!has("clang-22"))
		return NULL;
	snprintf(full, sizeof full, "clang-22 -x c -std=gnu11 -DTCC_SIM -Dtcc_warp=32 -I. -fPIC -shared "
		"-march=native -ffp-contract=off -fno-math-errno -O1 -gline-tables-only -gdwarf-4 "
		"-fsanitize=thread -fno-builtin -fno-vectorize -fno-slp-vectorize -fno-unroll-loops "
		"-mllvm -tsan-instrument-func-entry-exit=0 -mllvm -tsan-instrument-read-before-write=1 "
		"-Wall -Wno-unused -Werror %s -o %s", c, so);
	ck_assert_msg(system(full) == 0, "%s", full);
	void *h = dlopen(so, RTLD_NOW | RTLD_LOCAL);
	ck_assert_msg(h != NULL, "%s", dlerror());
	snprintf(full, sizeof full, "%s__sim", k->name);
	return (SimKernel *)dlsym(h, full);
}

/* Runs a kernel on copies of the buffers, the last of which is the result. */
typedef struct Run { int nbufs; void *buf[4]; size_t size[4]; int64_t sym; int32_t err; int findings; bool expected; } Run;

static void run_cpu(TccKernelFn *fn, Run *r, int64_t units)
{
	static unsigned char scratch[1 << 16];
	fn(r->buf, &r->sym, 0, units / 2, scratch, &r->err);
	fn(r->buf, &r->sym, units / 2, units, scratch, &r->err);
}

static void run_gpu(SimKernel *fn, const Kernel *k, Run *r, uint32_t gx, uint32_t gy)
{
	SimConfig cfg = { .warp = 32, .traced = true, .seed = 7 };
	Sim *s = sim_new(&cfg);
	void *args[8], *dev[5];
	const SimFinding *found;
	uint32_t grid[3] = { gx, gy, 1 }, block[3] = { (uint32_t)k->block, 1, 1 };
	int n = 0;

	for (int b = 0; b < r->nbufs; b++) {
		dev[b] = sim_alloc(s, r->size[b]);
		memcpy(dev[b], r->buf[b], r->size[b]);
		sim_written(s, dev[b], r->size[b]);
		args[n++] = &dev[b];
	}
	if (k->nsyms)
		args[n++] = &r->sym;
	dev[4] = sim_alloc(s, 4);
	memcpy(dev[4], &r->err, 4);
	sim_written(s, dev[4], 4);
	args[n++] = &dev[4];
	sim_launch(s, fn, k->name, grid, block, 0, args);
	r->findings = sim_findings(s, &found);
	if (r->findings && !r->expected)
		sim_report(s, stderr);
	memcpy(r->buf[r->nbufs - 1], dev[r->nbufs - 1], r->size[r->nbufs - 1]);
	memcpy(&r->err, dev[4], 4);
	sim_free(s);
}

static void add_buf(Run *r, size_t bytes)
{
	r->buf[r->nbufs] = aligned_alloc(64, (bytes + 63) / 64 * 64);
	ck_assert_ptr_nonnull(r->buf[r->nbufs]);
	memset(r->buf[r->nbufs], 0, bytes);
	r->size[r->nbufs++] = bytes;
}

static void done(Module *m, Run *r)
{
	for (int b = 0; b < r->nbufs; b++)
		free(r->buf[b]);
	module_free(m);
}

static void fill(float *x, size_t n)
{
	uint32_t s = 12345;
	for (size_t i = 0; i < n; i++) {
		s = s * 1664525 + 1013904223;
		x[i] = (float)(s >> 8) / (1 << 23) - 1;
	}
}

static void run(Module *m, Kernel *(*make)(Module *, bool), Run *r, bool on_gpu, const char *cc,
	int64_t units, uint32_t gx, uint32_t gy)
{
	Kernel *k = make(m, on_gpu);

	if (!on_gpu) {
		run_cpu(cpu(m, k, cc), r, units);
		return;
	}
	SimKernel *fn = gpu(m, k);
	ck_assert_ptr_nonnull(fn);
	run_gpu(fn, k, r, gx, gy);
	ck_assert_int_eq(r->findings, 0);
}

static bool skip(int way)
{
	return (way > 0 && !has("clang-22")) || (way == 0 && !has("gcc"));
}

static const char *const compilers[] = { "gcc", "clang-22", NULL };

#define WAYS 3     /* gcc, clang, simulator */

START_TEST(axpy)
{
	if (skip(_i))
		return;
	enum { N = 1000 };
	Module *m = module();
	Run r = { .sym = N };
	add_buf(&r, (N + 1) * 4);
	add_buf(&r, N * 4);
	float *x = r.buf[0], *y = r.buf[1], want[N];
	fill(x, N + 1);
	fill(y, N);
	for (int i = 0; i < N; i++)
		want[i] = y[i] + x[N] * x[i];
	run(m, k_axpy, &r, _i == 2, compilers[_i], N, (N + 255) / 256, 1);
	ck_assert_int_eq(memcmp(y, want, sizeof want), 0);
	done(m, &r);
}
END_TEST

START_TEST(softmax)
{
	if (skip(_i))
		return;
	enum { N = 5 };
	Module *m = module();
	Run r = { .sym = N };
	add_buf(&r, N * ROW * 4);
	add_buf(&r, N * ROW * 4);
	float *x = r.buf[0], *y = r.buf[1];
	fill(x, N * ROW);
	run(m, k_softmax, &r, _i == 2, compilers[_i], N, N, 1);
	for (int i = 0; i < N; i++) {
		double most = -INFINITY, sum = 0;
		for (int j = 0; j < ROW; j++)
			most = fmax(most, x[i * ROW + j]);
		for (int j = 0; j < ROW; j++)
			sum += exp(x[i * ROW + j] - most);
		for (int j = 0; j < ROW; j++)
			ck_assert_double_eq_tol(y[i * ROW + j], exp(x[i * ROW + j] - most) / sum, 1e-8);
	}
	done(m, &r);
}
END_TEST

static Kernel *matmul(Module *m, bool on_gpu)
{
	return on_gpu ? k_matmul_gpu(m, false) : k_matmul_cpu(m);
}

static void matmul_data(Run *r)
{
	for (int k = 0; k < 3; k++)
		add_buf(r, MM * MM * 4);
	fill(r->buf[0], MM * MM);
	fill(r->buf[1], MM * MM);
}

START_TEST(contraction)
{
	if (skip(_i))
		return;
	Module *m = module();
	Run r = { 0 };
	matmul_data(&r);
	float *a = r.buf[0], *b = r.buf[1], *c = r.buf[2];
	run(m, matmul, &r, _i == 2, compilers[_i], MM / 4, MM / 64, MM / 64);
	for (int i = 0; i < MM; i++)
		for (int j = 0; j < MM; j++) {
			double sum = 0;
			for (int k = 0; k < MM; k++)
				sum += (double)a[i * MM + k] * b[k * MM + j];
			ck_assert_double_eq_tol(c[i * MM + j], sum, 1e-4);
		}
	done(m, &r);
}
END_TEST

/* The simulator sees what is missing when the second barrier is left out. */
START_TEST(race)
{
	if (skip(2))
		return;
	Module *m = module();
	Run r = { .expected = true };
	matmul_data(&r);
	Kernel *k = k_matmul_gpu(m, true);
	run_gpu(gpu(m, k), k, &r, 2, 2);
	ck_assert_int_gt(r.findings, 0);
	done(m, &r);
}
END_TEST

/* Guarded loads: what the mask hides is not read (its index is bad); what it shows is checked. */
START_TEST(gather)
{
	if (skip(_i))
		return;
	enum { N = 2048 };
	for (int bad = 0; bad < 2; bad++) {
		Module *m = module();
		Run r = { .sym = N };
		add_buf(&r, 100 * 4);
		add_buf(&r, N * 8);
		add_buf(&r, N);
		add_buf(&r, N * 4);
		float *t = r.buf[0], *y = r.buf[3];
		int64_t *idx = r.buf[1];
		uint8_t *mask = r.buf[2];
		fill(t, 100);
		for (int i = 0; i < N; i++) {
			idx[i] = i % 7 == 0 ? -5000000000 : i % 100;
			mask[i] = i % 7 != 0;
		}
		mask[14] = bad;
		run(m, k_gather, &r, _i == 2, compilers[_i], N / 8, N / 1024, 1);
		ck_assert_int_eq(r.err, bad);
		for (int i = 0; i < N; i++)
			if (i != 14)
				ck_assert_float_eq(y[i], i % 7 ? t[i % 100] * t[i % 100] + t[i % 100] : -1);
		done(m, &r);
	}
}
END_TEST

/* Every f16 through 2x + 1 and back. */
START_TEST(half)
{
	if (skip(_i))
		return;
	enum { N = 1 << 16 };
	Module *m = module();
	Run r = { .sym = N };
	add_buf(&r, N * 2);
	add_buf(&r, N * 2);
	uint16_t *x = r.buf[0], *y = r.buf[1];
	for (int i = 0; i < N; i++)
		x[i] = (uint16_t)i;
	run(m, k_half, &r, _i == 2, compilers[_i], N / 8, N / 1024, 1);
	for (int i = 0; i < N; i++) {
		Data d = { .count = 1, .size = 2, .bytes = &x[i] }, e = { .count = 1, .size = 2, .bytes = &y[i] };
		double v = data_get(&d, DT_F16, 0).f, got = data_get(&e, DT_F16, 0).f;
		double want = num_round(DT_F16, fmax((float)(2 * v + 1), 0)).f;
		if (isnan(v))
			ck_assert(isnan(got));
		else
			ck_assert_double_eq(got, want);
	}
	done(m, &r);
}
END_TEST

START_TEST(int8)
{
	if (skip(_i))
		return;
	enum { N = 1024 };
	Module *m = module();
	Run r = { .sym = N };
	add_buf(&r, N);
	add_buf(&r, N);
	int8_t *x = r.buf[0], *y = r.buf[1];
	for (int i = 0; i < N; i++)
		x[i] = (int8_t)i;
	run(m, k_int8, &r, _i == 2, compilers[_i], N / 8, N / 1024, 1);
	for (int i = 0; i < N; i++) {
		double v = rint(x[i] * 1.5);
		int8_t f = (int8_t)(v > 127 ? 127 : v < -128 ? -128 : v);
		ck_assert_int_eq(y[i], (int8_t)(f - (int8_t)(x[i] + x[i])));
	}
	done(m, &r);
}
END_TEST

/* y[i] = b * sum over k of x[k, i] for i < n: loops, a tile and values inside of masked lanes. */
static Kernel *k_columns(Module *m, bool on_gpu)
{
	enum { K = 5 };
	Node *n = x_sym(m, "n", 0, 1 << 20), *u, *v, *k2, *zero = kidx(m, 0);
	Node *size = x_muli(m, n, K);
	Node *b[2] = { buf(m, "x", DT_F32, size), buf(m, "y", DT_F32, n) };
	Kernel *k = kernel(m, "columns", 2, b, 1, 1, &n);
	Region *r = cpu_frame(m, k, x_ceildiv(m, n, kidx(m, 16)), &u), *in = region_new(m, "then"), *rk;
	Node *acc = tile(m, "acc", DT_F32, SP_REG, 1, 0, 0);

	(void)on_gpu;
	r = loop(m, r, F_VECTOR, 16, &v);
	Node *i = x_add(m, x_muli(m, u, 16), v);
	l_when(m, r, x_lt(m, i, n), in, NULL);
	Node *first = l_let(m, in, x_add(m, load1(m, b[0], i), x_flt(m, DT_F32, 1)));
	l_alloc(m, in, acc);
	store1(m, in, acc, zero, x_flt(m, DT_F32, 0));
	rk = loop(m, in, F_SERIAL, K, &k2);
	Node *uniform = l_let(m, rk, x_mul(m, k2, n));
	store1(m, rk, acc, zero, x_add(m, load1(m, acc, zero), load1(m, b[0], x_add(m, uniform, i))));
	store1(m, in, b[1], i, x_mul(m, load1(m, acc, zero), first));
	return k;
}

START_TEST(columns)
{
	if (skip(_i))
		return;
	enum { N = 100, K = 5 };
	Module *m = module();
	Run r = { .sym = N };
	add_buf(&r, N * K * 4);
	add_buf(&r, N * 4);
	float *x = r.buf[0], *y = r.buf[1];
	fill(x, N * K);
	run(m, k_columns, &r, false, compilers[_i], (N + 15) / 16, 0, 0);
	for (int i = 0; i < N; i++) {
		float sum = 0;
		for (int k = 0; k < K; k++)
			sum += x[k * N + i];
		ck_assert_float_eq(y[i], sum * (x[i] + 1));
	}
	done(m, &r);
}
END_TEST

/* y[i] = 3 * x[i] for i < n, the last vector cut off; x shifted by one is not aligned. */
static Kernel *k_cut(Module *m, bool on_gpu)
{
	Node *n = x_sym(m, "n", 0, 1 << 20), *u, *by, *t, *v, *i;
	Node *b[2] = { buf(m, "x", DT_F32, x_addi(m, n, 1)), buf(m, "y", DT_F32, n) };
	Kernel *k = kernel(m, "cut", 2, b, 1, 1, &n);
	Region *out, *r = on_gpu ? gpu_frame(m, k, x_ceildiv(m, n, kidx(m, 256)), NULL, 64, &u, &by, &t, &out) :
		cpu_frame(m, k, x_ceildiv(m, n, kidx(m, 4)), &u), *in = region_new(m, "then");

	if (on_gpu)
		l_for(m, out, F_BLOCK, t, r);
	r = loop(m, r, F_VECTOR, 4, &v);
	i = x_add(m, x_muli(m, on_gpu ? x_add(m, x_muli(m, u, 64), t) : u, 4), v);
	l_when(m, r, x_lt(m, i, n), in, NULL);
	store1(m, in, b[1], i, x_add(m, x_mul(m, load1(m, b[0], i), x_flt(m, DT_F32, 2)),
		load1(m, b[0], x_addi(m, i, 1))));
	return k;
}

START_TEST(cut)
{
	if (skip(_i))
		return;
	enum { N = 1003 };
	Module *m = module();
	Run r = { .sym = N };
	add_buf(&r, (N + 1) * 4);
	add_buf(&r, N * 4);
	float *x = r.buf[0], *y = r.buf[1];
	fill(x, N + 1);
	run(m, k_cut, &r, _i == 2, compilers[_i], (N + 3) / 4, (N + 255) / 256, 1);
	for (int i = 0; i < N; i++)
		ck_assert_float_eq(y[i], x[i] * 2 + x[i + 1]);
	done(m, &r);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cprint");
	TCase *t = tcase_create("kernels");

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, axpy, 0, WAYS);
	tcase_add_loop_test(t, softmax, 0, WAYS);
	tcase_add_loop_test(t, contraction, 0, WAYS);
	tcase_add_test(t, race);
	tcase_add_loop_test(t, gather, 0, WAYS);
	tcase_add_loop_test(t, half, 0, WAYS);
	tcase_add_loop_test(t, int8, 0, WAYS);
	tcase_add_loop_test(t, columns, 0, WAYS - 1);
	tcase_add_loop_test(t, cut, 0, WAYS);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	if (*dir)
		shell("rm -rf %s%s", dir, "");
	return failed != 0;
}
