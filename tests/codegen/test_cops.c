/*
 * Every scalar operation on every type, as printed C and as a device kernel in the simulator, over
 * special values, against num.c.
 */
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

enum { MAXV = 48, MAXC = 900 };

/* A case: op on operands of type `from` with a result of type `to`. */
typedef struct Case { OpCode op; DType from, to; int nin; Kernel *k; char name[48]; } Case;

static Case cases[MAXC];
static int ncases;
static Module *mod;

static const DType ints[] = { DT_I8, DT_U8, DT_I16, DT_U16, DT_I32, DT_U32, DT_I64, DT_U64 };
static const DType smalls[] = { DT_F16, DT_BF16, DT_F8E4M3FN, DT_F8E4M3FNUZ, DT_F8E5M2,
	DT_F8E5M2FNUZ, DT_F8E8M0 };

static int values(DType d, Num *v)
{
	static const double flt[] = { 0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3.7, -3.7, 1e-45,
		-1e-45, 1e-40, 1.17549435e-38, 5.9e-8, 6.1e-5, 127.5, 128, -128.5, -129, 255.5, 256, 448,
		464, 480, 57344, 61440, 65504, 65519, 65520, 2147483520.0, 2147483648.0, -2147483648.0,
		4294967296.0, 8388609.0, 9223372036854775808.0, 1.8446744073709552e19, 3.3e38, -3.3e38,
		INFINITY, -INFINITY, NAN };
	static const int64_t whole[] = { 0, 1, 2, 3, 5, 7, 8, 13, 31, 32, 63, 64, 100, -1, -2, -3, -7,
		-100, 127, 128, -128, 255, 256, 32767, -32768, 65535, INT32_MAX, INT32_MIN, UINT32_MAX,
		INT64_MAX, INT64_MIN, INT64_MAX - 1, 0x123456789abcdef };
	int n = 0;

	if (dt_float(d))
		for (size_t k = 0; k < sizeof flt / sizeof *flt; k++)
			v[n++] = num_round(d, flt[k]);
	else
		for (size_t k = 0; k < sizeof whole / sizeof *whole; k++)
			v[n++] = num_cast(d, DT_I64, (Num){ .i = whole[k] });
	return n;
}

static void add_case(OpCode op, DType from, DType to, int nin, bool gpu)
{
	Case *c = &cases[ncases++];
	Module *m = mod;
	Node *count = kidx(m, 1 << 20), *i, *j, *l, *bx, *by, *t;
	Node *b[4] = { buf(m, "a", from, count), buf(m, "b", from, count), buf(m, "c", from, count),
		buf(m, "y", to, count) };
	Num v[MAXV];
	int n = values(from, v);
	Region *out, *r;

	ck_assert_int_lt(ncases, MAXC);
	*c = (Case){ op, from, to, nin, NULL, "" };
	snprintf(c->name, sizeof c->name, "t_%s_%s_%s", core_op(op)->name, dtypes[from].text,
		dtypes[to].text);
	c->k = kernel(m, c->name, 4, b, 1, 0, NULL);
	if (gpu) {
		r = gpu_frame(m, c->k, kidx(m, n), NULL, 64, &bx, &by, &t, &out);
		l_for(m, out, F_BLOCK, t, r);
		Region *in = region_new(m, "then");
		l_when(m, r, x_lt(m, t, kidx(m, n)), in, NULL);
		i = bx, j = t, r = in;
	} else {
		r = cpu_frame(m, c->k, kidx(m, n), &i);
		r = loop(m, r, F_SERIAL, n, &j);
	}
	l = x_mod(m, x_add(m, i, j), kidx(m, n));
	Node *x[3] = { load1(m, b[0], i), load1(m, b[1], j), load1(m, b[2], l) };
	store1(m, r, b[3], x_add(m, x_muli(m, i, n), j), x_op(m, op, nin, x, to));
}

static void make_cases(bool gpu)
{
	static const OpCode both[] = { O_ADD, O_SUB, O_MUL, O_DIV, O_REM, O_MIN, O_MAX },
		cmp[] = { O_LT, O_LE, O_EQ, O_NE },
		whole[] = { O_FLOORDIV, O_MOD, O_AND, O_OR, O_XOR, O_SHL, O_SHR },
		flt[] = { O_SQRT, O_FLOOR, O_CEIL, O_TRUNC, O_RINT };
	DType arith[10];

	ncases = 0;
	memcpy(arith, ints, sizeof ints);
	arith[8] = DT_F32;
	arith[9] = DT_F64;
	for (int k = 0; k < 10; k++) {
		for (size_t o = 0; o < sizeof both / sizeof *both; o++)
			add_case(both[o], arith[k], arith[k], 2, gpu);
		for (size_t o = 0; o < sizeof cmp / sizeof *cmp; o++)
			add_case(cmp[o], arith[k], DT_BOOL, 2, gpu);
		add_case(O_NEG, arith[k], arith[k], 1, gpu);
		add_case(O_ABS, arith[k], arith[k], 1, gpu);
		for (int j = 0; j < 10; j++)
			if (j != k)
				add_case(O_CAST, arith[k], arith[j], 1, gpu);
		add_case(O_CAST, arith[k], DT_BOOL, 1, gpu);
		add_case(O_CAST, DT_BOOL, arith[k], 1, gpu);
	}
	for (int k = 0; k < 8; k++) {
		for (size_t o = 0; o < sizeof whole / sizeof *whole; o++)
			add_case(whole[o], ints[k], ints[k], 2, gpu);
		add_case(O_NOT, ints[k], ints[k], 1, gpu);
		add_case(O_POPCNT, ints[k], ints[k], 1, gpu);
	}
	add_case(O_DOT4, DT_I32, DT_I32, 2, gpu);
	for (int k = 8; k < 10; k++) {
		for (size_t o = 0; o < sizeof flt / sizeof *flt; o++)
			add_case(flt[o], arith[k], arith[k], 1, gpu);
		add_case(O_FMA, arith[k], arith[k], 3, gpu);
	}
	for (size_t k = 0; k < sizeof smalls / sizeof *smalls; k++) {
		add_case(O_CAST, DT_F32, smalls[k], 1, gpu);
		add_case(O_CAST, smalls[k], DT_F32, 1, gpu);
	}
	add_case(O_BITS, DT_F32, DT_U32, 1, gpu);
	add_case(O_BITS, DT_I32, DT_F32, 1, gpu);
	add_case(O_BITS, DT_F64, DT_I64, 1, gpu);
	add_case(O_BITS, DT_U64, DT_F64, 1, gpu);
}

static char *print_all(bool gpu)
{
	CFile *f = cfile_new(mod, gpu);
	size_t n;

	for (int k = 0; k < ncases; k++) {
		cfile_kernel(f, cases[k].k, cases[k].name, NULL);
		if (gpu)
			cfile_sim_entry(f, cases[k].k, cases[k].name);
	}
	if (!gpu) {
		fputs("TccKernelFn_ *const entries[] = {\n", f->out);
		for (int k = 0; k < ncases; k++)
			fprintf(f->out, "\t%s,\n", cases[k].name);
		fputs("};\n", f->out);
	}
	char *text = cfile_finish(f, &n);
	ck_assert_ptr_nonnull(text);
	return text;
}

static void *build(const char *text, const char *how, bool gpu)
{
	const char *t = getenv("TCC_TMP");
	char dir[512], cmd[2048];

	snprintf(dir, sizeof dir, "%s/copsXXXXXX", t ? t : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(cmd, sizeof cmd, "%s/k.c", dir);
	FILE *f = fopen(cmd, "w");
	fprintf(f, "%s%s%s", gpu ? "#include \"runtime/device/tcc_dev.h\"\n" : c_prelude, gpu ? "" :
		"typedef void TccKernelFn_(void *const *, const i64 *, i64, i64, unsigned char *, i32 *);\n", text);
	fclose(f);
	snprintf(cmd, sizeof cmd, "%s -I. -fPIC -shared %s/k.c -o %s/k.so -lm", how, dir, dir);
	ck_assert_msg(system(cmd) == 0, "%s", cmd);
	snprintf(cmd, sizeof cmd, "%s/k.so", dir);
	void *h = dlopen(cmd, RTLD_NOW | RTLD_LOCAL);
	ck_assert_msg(h != NULL, "%s", dlerror());
	if (!t) {
		snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
		ck_assert_int_eq(system(cmd), 0);
	}
	return h;
}

static bool same(DType d, Num a, Num b)
{
	if (!dt_float(d))
		return a.i == b.i;
	return (isnan(a.f) && isnan(b.f)) || (a.f == b.f && signbit(a.f) == signbit(b.f));
}

static Num element(DType d, const void *at, int k)
{
	Data data = { .bytes = at };
	return data_get(&data, d, k);
}

static int check_case(const Case *c, const Num *v, int n, const void *y)
{
	int bad = 0;

	for (int i = 0; i < n; i++)
		for (int j = 0; j < n && (j == 0 || c->nin > 1); j++) {
			Num in[3] = { v[i], v[j], v[(i + j) % n] }, want;
			if (c->op == O_CAST)
				want = num_cast(c->to, c->from, in[0]);
			else if (!num_eval(c->op, c->to, c->from, in, &want))
				continue;
			Num got = element(c->to, y, i * n + j);
			if (!same(c->to, got, want) && bad++ < 3)
				printf("%s: %g %lld, %g %lld: got %g %lld, want %g %lld\n", c->name,
					dt_float(c->from) ? in[0].f : 0, dt_float(c->from) ? 0 : (long long)in[0].i,
					dt_float(c->from) ? in[1].f : 0, dt_float(c->from) ? 0 : (long long)in[1].i,
					dt_float(c->to) ? got.f : 0, dt_float(c->to) ? 0 : (long long)got.i,
					dt_float(c->to) ? want.f : 0, dt_float(c->to) ? 0 : (long long)want.i);
		}
	return bad;
}

static unsigned char in_bytes[MAXV * 8], out_bytes[MAXV * MAXV * 8];

static void run_sim(void *lib, const Case *c, int n)
{
	SimConfig cfg = { .warp = 32 };
	Sim *s = sim_new(&cfg);
	void *in = in_bytes, *out = out_bytes, *args[] = { &in, &in, &in, &out };
	char name[64];

	snprintf(name, sizeof name, "%s__sim", c->name);
	SimKernel *fn = (SimKernel *)dlsym(lib, name);
	ck_assert_ptr_nonnull(fn);
	ck_assert_int_eq(sim_launch(s, fn, c->name, (uint32_t[]){ (uint32_t)n, 1, 1 },
		(uint32_t[]){ 64, 1, 1 }, 0, args), SIM_OK);
	sim_free(s);
}

static const char *const ways[] = {
	"gcc -std=gnu11 -Wall -Wno-unused -Werror -O2 -ffp-contract=off -fno-math-errno -fno-trapping-math",
	"gcc -std=gnu11 -O1 -march=native -ffp-contract=off -fno-math-errno -fno-trapping-math "
		"-fsanitize=undefined -fno-sanitize-recover=undefined -static-libubsan",
	"clang-22 -std=gnu11 -Wall -Wno-unused -Werror -O2 -ffp-contract=off -fno-math-errno",
	"clang-22 -x c -std=gnu11 -DTCC_SIM -Dtcc_warp=32 -O2 -ffp-contract=off -fno-math-errno" };

START_TEST(operations)
{
	bool gpu = _i == 3;
	static Diag d;

	if (system(_i < 2 ? "command -v gcc >/dev/null" : "command -v clang-22 >/dev/null"))
		return;
	d = (Diag){ .out = stderr };
	mod = module_new(&d);
	make_cases(gpu);
	char *text = print_all(gpu);
	void *lib = build(text, ways[_i], gpu);
	TccKernelFn *const *entries = gpu ? NULL : dlsym(lib, "entries");
	int bad = 0;

	free(text);
	for (int k = 0; k < ncases; k++) {
		Num v[MAXV];
		int n = values(cases[k].from, v);
		for (int i = 0; i < n; i++)
			data_set(in_bytes, cases[k].from, i, v[i]);
		if (gpu)
			run_sim(lib, &cases[k], n);
		else
			entries[k]((void *[]){ in_bytes, in_bytes, in_bytes, out_bytes }, NULL, 0, n, NULL,
				NULL);
		bad += check_case(&cases[k], v, n, out_bytes);
	}
	ck_assert_int_eq(bad, 0);
	module_free(mod);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cops");
	TCase *t = tcase_create("operations");

	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, operations, 0, 4);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
