/*
 * PTX run by the simulator (codegen/ptx.c, runtime/device/tcc_ptx.h): each instruction gives what
 * the PTX ISA says, values worked out from its text; jumps, guards and memory do; faults are found
 * at their line of the PTX.
 */
#include "codegen/tool.h"
#include "runtime/device/sim.h"

#include <check.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define CLANG "clang-22 -x c -std=gnu11 -DTCC_SIM -Iruntime/device -fPIC -shared -march=native -w " \
	"-ffp-contract=off -fno-math-errno -O1 -gline-tables-only -gdwarf-4 -fsanitize=thread " \
	"-fno-builtin -mllvm -tsan-instrument-func-entry-exit=0 "

static const char head[] = ".version 8.0\n.target sm_80, debug\n.address_size 64\n";
static Diag diag;
static Module *m;

static void *
build(const char *ptx, const char *name)
{
	const char *tmp = getenv("TCC_TMP");
	char path[256], cmd[1024], *text;
	size_t size;
	FILE *f;
	void *h;

	text = ptx_to_c(m, ptx, &size);
	ck_assert_msg(text != NULL, "not translated: %s", diag.first);
	snprintf(path, sizeof path, "%s/%s.c", tmp ? tmp : "/tmp", name);
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fwrite(text, 1, size, f);
	fclose(f);
	free(text);
	snprintf(cmd, sizeof cmd, CLANG "-o %s.so %s", path, path);
	ck_assert_msg(system(cmd) == 0, "cannot compile: %s", cmd);
	strcat(path, ".so");
	h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	ck_assert_msg(h != NULL, "%s", h ? "" : dlerror());
	return h;
}

static int
launch(Sim *s, void *object, const char *name, uint32_t threads, void **args)
{
	SimKernel *k = (SimKernel *)dlsym(object, name);

	ck_assert_msg(k != NULL, "no kernel %s", name);
	return sim_launch(s, k, name, (uint32_t[3]){1, 1, 1}, (uint32_t[3]){threads, 1, 1}, 128, args);
}

/* ---- single instructions ------------------------------------------------------------------- */

/* d of the instruction with operands a, b, c in registers of the size that stands before it. */
static const struct Row {
	const char *sizes;     /* of d, a, b, c: h 16, w 32, d 64 bits, p predicate */
	const char *text;
	uint64_t want, a, b, c;
} ops[] = {
	{"wwww", "mad.lo.s32", 0xffffffff, 3, 0xffffffff, 2},
	{"dwww", "mul.wide.s32", 0xfffffffffffffffe, 0xffffffff, 2, 0},
	{"dwww", "mul.wide.u32", 0x1fffffffe, 0xffffffff, 2, 0},
	{"dwwd", "mad.wide.s32", 5, 0xfffffffe, 3, 11},
	{"wwww", "mul.hi.u32", 0xfffffffe, 0xffffffff, 0xffffffff, 0},
	{"wwww", "mul.hi.s32", 0, 0xffffffff, 0xffffffff, 0},
	{"hhhh", "mul.hi.u16", 0xfffe, 0xffff, 0xffff, 0},
	{"hhhh", "mul.hi.s16", 0xffff, 0xffff, 1, 0},
	{"whhh", "mul.wide.s16", 0xfffffffe, 0xffff, 2, 0},
	{"wwww", "div.s32", 0xfffffffd, 0xfffffff9, 2, 0},
	{"wwww", "rem.s32", 0xffffffff, 0xfffffff9, 2, 0},
	{"wwww", "div.u32", 0x7ffffffc, 0xfffffff9, 2, 0},
	{"dddd", "rem.u64", 4, 0xfffffffffffffff9, 5, 0},
	{"wwww", "min.s32", 0xffffffff, 0xffffffff, 1, 0},
	{"wwww", "min.u32", 1, 0xffffffff, 1, 0},
	{"wwww", "abs.s32", 7, 0xfffffff9, 0, 0},
	{"wwww", "neg.s32", 0xfffffff9, 7, 0, 0},
	{"wwww", "shl.b32", 0, 1, 32, 0},
	{"wwww", "shl.b32", 0x80000000, 1, 31, 0},
	{"wwww", "shr.s32", 0xffffffff, 0x80000000, 40, 0},
	{"wwww", "shr.u32", 0, 0x80000000, 32, 0},
	{"wwww", "shr.u32", 1, 0x80000000, 31, 0},
	{"hhww", "shr.s16", 0xfffe, 0xfff8, 2, 0},
	{"ddww", "shr.s64", 0xffffffffffffffff, 0x8000000000000000, 64, 0},
	{"wwww", "shf.l.wrap.b32", 0x34567812, 0x12345678, 0x12345678, 8},
	{"wwww", "shf.r.wrap.b32", 0x78123456, 0x12345678, 0x12345678, 40},
	{"wwww", "shf.r.clamp.b32", 7, 5, 7, 40},
	{"wwww", "bfe.u32", 0x56, 0x12345678, 8, 8},
	{"wwww", "bfe.s32", 0xffffffab, 0x0000ab00, 8, 8},
	{"wwww", "bfe.s32", 0, 0x0000ab00, 8, 0},
	{"wwww", "bfe.u32", 1, 0x80000000, 31, 9},
	{"wwww", "prmt.b32", 0x44ff1188, 0x88112233, 0x44556677, 0x7b23},
	{"wwww", "popc.b32", 5, 0x80010007, 0, 0},
	{"wdww", "clz.b64", 63, 1, 0, 0},
	{"wwww", "brev.b32", 0x1e6a2c48, 0x12345678, 0, 0},
	{"wwww", "not.b32", 0xfffffffe, 1, 0, 0},
	{"wwww", "xor.b32", 6, 5, 3, 0},
	{"wwww", "dp4a.s32.s32", 10 - 1 + 6 + 0, 0x00fe0105, 0x05fdff02, 0},
	{"wwww", "dp4a.u32.u32", 0xfe02, 0xff000001, 0xff000001, 0},
	{"wwww", "dp2a.lo.u32.u32", 3 * 5 + 7 * 2, 0x00070003, 0xffff0205, 0},
	{"wwww", "dp2a.hi.s32.s32", 3 * 5 - 7 * 2, 0xfff90003, 0x0205ffff, 0},
	/* 1.0f + 2^-24: rounds to even; fma keeps what mul and add would lose */
	{"wwww", "add.rn.f32", 0x3f800000, 0x3f800000, 0x33800000, 0},
	{"wwww", "fma.rn.f32", 0x34000001, 0x3f800001, 0x3f800001, 0xbf800001},
	{"wwww", "fma.rz.f32", 0x3f7fffff, 0xb3800000, 0x33800000, 0x3f800000},
	{"wwww", "fma.rm.f32", 0xbf800001, 0xb3800000, 0x33800000, 0xbf800000},
	{"wwww", "fma.rz.f32", 0xbf800000, 0xb3800000, 0x33800000, 0xbf800000},
	{"wwww", "sub.rn.f32", 0xbf800000, 0x3f800000, 0x40000000, 0},
	{"wwww", "div.rn.f32", 0x3eaaaaab, 0x3f800000, 0x40400000, 0},
	{"wwww", "sqrt.rn.f32", 0x3fb504f3, 0x40000000, 0, 0},
	{"wwww", "rcp.rn.f32", 0x3f000000, 0x40000000, 0, 0},
	{"wwww", "min.f32", 0x3f800000, 0x7fc00000, 0x3f800000, 0},
	{"wwww", "max.f32", 0, 0x80000000, 0, 0},
	{"wwww", "abs.f32", 0x3f800000, 0xbf800000, 0, 0},
	{"wwww", "copysign.f32", 0xc0000000, 0x80000000, 0x40000000, 0},
	{"dddd", "fma.rn.f64", 0x4014000000000000, 0x4000000000000000, 0x4000000000000000,
		0x3ff0000000000000},
	{"pwww", "setp.lt.s32", 1, 0xffffffff, 1, 0},
	{"pwww", "setp.lt.u32", 0, 0xffffffff, 1, 0},
	{"pwww", "setp.hs.u32", 1, 0xffffffff, 1, 0},
	{"pwww", "setp.eq.f32", 1, 0x80000000, 0, 0},
	{"pwww", "setp.ne.f32", 0, 0x7fc00000, 0, 0},
	{"pwww", "setp.neu.f32", 1, 0x7fc00000, 0, 0},
	{"pwww", "setp.gtu.f32", 1, 0x7fc00000, 0, 0},
	{"pwww", "setp.nan.f32", 1, 0x7fc00000, 0, 0},
	{"dwww", "cvt.s64.s32", 0xffffffffffffffff, 0xffffffff, 0, 0},
	{"dwww", "cvt.u64.u32", 0xffffffff, 0xffffffff, 0, 0},
	{"wwww", "cvt.s32.s8", 0xffffff80, 0x180, 0, 0},
	{"hwww", "cvt.u16.u32", 0x5678, 0x12345678, 0, 0},
	{"wwww", "cvt.rn.f32.s32", 0xbf800000, 0xffffffff, 0, 0},
	{"wwww", "cvt.rn.f32.u32", 0x4f800000, 0xffffffff, 0, 0},
	{"wwww", "cvt.rzi.s32.f32", 0xfffffffe, 0xc0200000, 0, 0},
	{"wwww", "cvt.rzi.s32.f32", 0x7fffffff, 0x7f800000, 0, 0},
	{"wwww", "cvt.rzi.u32.f32", 0, 0xc0200000, 0, 0},
	{"wwww", "cvt.rzi.s32.f32", 0, 0x7fc00000, 0, 0},
	{"wwww", "cvt.rni.f32.f32", 0x40000000, 0x40200000, 0, 0},
	{"wwww", "cvt.rmi.f32.f32", 0xc0400000, 0xc0200000, 0, 0},
	{"wwww", "cvt.rpi.f32.f32", 0xc0000000, 0xc0200000, 0, 0},
	{"dwww", "cvt.f64.f32", 0x3ff0000000000000, 0x3f800000, 0, 0},
	{"wdww", "cvt.rn.f32.f64", 0x3f800000, 0x3ff0000000000000, 0, 0},
	{"hwww", "cvt.rn.f16.f32", 0x3c00, 0x3f800fff, 0, 0},
	{"whww", "cvt.f32.f16", 0x33800000, 1, 0, 0},
	{"hwww", "cvt.rn.bf16.f32", 0x3f80, 0x3f808000, 0, 0},
};
enum { NOPS = sizeof ops / sizeof *ops };

static const char *
mov_type(char size)
{
	return size == 'h' ? "u16" : size == 'd' ? "u64" : "u32";
}

static int
operands(const char *text)
{
	static const char *const one[] = {"abs", "neg", "not", "popc", "clz", "brev", "cvt", "sqrt",
		"rcp"}, *const three[] = {"mad", "fma", "shf", "bfe", "prmt", "dp4a", "dp2a"};
	size_t k;

	for (k = 0; k < sizeof one / sizeof *one; k++)
		if (strncmp(text, one[k], strlen(one[k])) == 0)
			return 1;
	for (k = 0; k < sizeof three / sizeof *three; k++)
		if (strncmp(text, three[k], strlen(three[k])) == 0)
			return 3;
	return 2;
}

static void
put_op(FILE *f, const struct Row *o, int i)
{
	const uint64_t v[3] = {o->a, o->b, o->c};
	int k;

	for (k = 0; k < 3; k++)
		fprintf(f, "mov.%s %%%c%d, %llu;\n", mov_type(o->sizes[k + 1]), o->sizes[k + 1], k + 1,
			(unsigned long long)v[k]);
	fprintf(f, "%s %%%c0", o->text, o->sizes[0]);
	for (k = 0; k < operands(o->text); k++)
		fprintf(f, ", %%%c%d", o->sizes[k + 1], k + 1);
	fprintf(f, ";\n");
	if (o->sizes[0] == 'p')
		fprintf(f, "selp.u32 %%w0, 1, 0, %%p0;\n");
	if (o->sizes[0] != 'd')
		fprintf(f, "cvt.u64.%s %%d0, %%%c0;\n", mov_type(o->sizes[0]),
			o->sizes[0] == 'p' ? 'w' : o->sizes[0]);
	fprintf(f, "st.global.u64 [%%out+%d], %%d0;\n", 8 * i);
}

START_TEST(instructions)
{
	char *text;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	Sim *s = sim_new(&(SimConfig){.warp = 32, .traced = true});
	uint64_t *out = sim_alloc(s, 8 * NOPS);
	void *args[] = {&out};
	int i;

	fprintf(f, "%s.visible .entry all(.param .u64 all_0)\n.maxntid 1\n{\n.reg .pred %%p<4>;\n"
		".reg .b16 %%h<4>;\n.reg .b32 %%w<4>;\n.reg .b64 %%d<4>;\n.reg .b64 %%out;\n"
		"ld.param.u64 %%out, [all_0];\n", head);
	for (i = 0; i < NOPS; i++)
		put_op(f, &ops[i], i);
	fprintf(f, "ret;\n}\n");
	fclose(f);
	ck_assert_int_eq(launch(s, build(text, "ptx_ops"), "all__sim", 1, args), SIM_OK);
	for (i = 0; i < NOPS; i++)
		ck_assert_msg(out[i] == ops[i].want, "%s: %llx, want %llx", ops[i].text,
			(unsigned long long)out[i], (unsigned long long)ops[i].want);
	free(text);
	sim_release(s, out);
	sim_free(s);
}
END_TEST

/* ---- kernels ------------------------------------------------------------------------------- */

/* Threads turn an array around in shared memory, odd ones add 100: a loop, a guard, vectors,
 * shuffles, a scope of inline assembly. */
#define REVERSE(BARRIER) \
	".visible .entry reverse(.param .u64 .ptr .align 8 data, .param .u32 n)\n" \
	"{\n" \
	".reg .pred %p<3>; .reg .b32 %r<16>; .reg .b64 %rd<8>;\n" \
	".shared .align 16 .b8 tile[256];\n" \
	"ld.param.u64 %rd1, [data]; ld.param.u32 %r9, [n];\n" \
	"cvta.to.global.u64 %rd2, %rd1;\n" \
	"mov.u32 %r1, %tid.x;\n" \
	"mul.wide.u32 %rd3, %r1, 8;\n" \
	"add.s64 %rd4, %rd2, %rd3;\n" \
	"ld.global.nc.v2.u32 {%r2, %r3}, [%rd4];\n" \
	"shl.b32 %r4, %r1, 3;\n" \
	"mov.u32 %r5, tile;\n" \
	"add.s32 %r6, %r5, %r4;\n" \
	"st.shared.v2.u32 [%r6], {%r2, %r3};\n" \
	BARRIER "\n" \
	"sub.s32 %r7, 248, %r4;\n" \
	"add.s32 %r7, %r7, %r5;\n" \
	"ld.shared.u32 %r2, [%r7+4]; ld.shared.u32 %r3, [%r7];\n" \
	"and.b32 %r8, %r1, 1; setp.eq.s32 %p1, %r8, 1;\n" \
	"@%p1 add.s32 %r2, %r2, 100;\n" \
	"$LOOP:\n" \
	"setp.eq.s32 %p2, %r9, 0;\n" \
	"@%p2 bra $DONE;\n" \
	"sub.s32 %r9, %r9, 1;\n" \
	"{ .reg .b32 t; mov.b32 t, %r3; add.s32 %r3, t, 1000; }\n" \
	"bra.uni $LOOP;\n" \
	"$DONE:\n" \
	"shfl.sync.bfly.b32 %r10|%p1, %r3, 1, 31, -1;\n" \
	"st.global.v2.b32 [%rd4], {%r2, %r10};\n" \
	"ret;\n" \
	"}\n"

static int32_t *
numbers(Sim *s)
{
	int32_t *p = sim_alloc(s, 256);
	int i;

	for (i = 0; i < 64; i++)
		p[i] = i;
	sim_written(s, p, 256);
	return p;
}

START_TEST(kernel)
{
	char text[4096];
	Sim *s = sim_new(&(SimConfig){.warp = 32, .traced = true, .seed = 3});
	int32_t *p = numbers(s), n = 2;
	void *args[] = {&p, &n};
	int i;

	snprintf(text, sizeof text, "%s%s", head, REVERSE("bar.sync 0;"));
	ck_assert_int_eq(launch(s, build(text, "ptx_reverse"), "reverse__sim", 32, args), SIM_OK);
	for (i = 0; i < 32; i++) {
		ck_assert_int_eq(p[2 * i], 63 - 2 * i + (i & 1) * 100);
		ck_assert_int_eq(p[2 * i + 1], 62 - 2 * (i ^ 1) + 2000);
	}
	sim_release(s, p);
	sim_free(s);
}
END_TEST

START_TEST(missing_barrier)
{
	char text[4096];
	Sim *s = sim_new(&(SimConfig){.warp = 32, .traced = true});
	int32_t *p = numbers(s), n = 0;
	void *args[] = {&p, &n};
	const SimFinding *f;

	snprintf(text, sizeof text, "%s%s", head, REVERSE("//"));
	ck_assert_int_eq(launch(s, build(text, "ptx_race"), "reverse__sim", 32, args), SIM_FINDINGS);
	ck_assert_int_ge(sim_findings(s, &f), 1);
	ck_assert_msg(strstr(f[0].text, "kernels.ptx:2") != NULL, "%s", f[0].text);
	sim_release(s, p);
	sim_free(s);
}
END_TEST

/* A warp group multiplies 64 x 16 by 16 x 8, all ones, onto sums that begin as 5; a thread
 * stores its last sum. SHOW: what lies in shared memory is shown to products. */
#define PRODUCT(SHOW, FENCE, KEEP, WAIT) PRODUCT_OF("%rd2", "0, 0", SHOW, FENCE, KEEP, WAIT)
#define PRODUCT_OF(A, MAJORS, SHOW, FENCE, KEEP, WAIT) \
	".visible .entry product(.param .u64 out)\n" \
	"{\n" \
	".reg .pred %p<3>; .reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .f32 %f<5>;\n" \
	".shared .align 1024 .b8 tile[4096];\n" \
	"ld.param.u64 %rd1, [out];\n" \
	"mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 5; mov.u32 %r3, tile; add.s32 %r4, %r3, %r2;\n" \
	"mov.u32 %r5, 0x3c003c00;\n" \
	"st.shared.v4.u32 [%r4], {%r5, %r5, %r5, %r5}; st.shared.v4.u32 [%r4+16], {%r5, %r5, %r5, %r5};\n" \
	SHOW "bar.sync 0;\n" \
	"mov.f32 %f1, 0f40A00000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;\n" \
	"mov.u64 %rd2, 0xC000001000010000; mov.u64 %rd3, 0xC000001000010080;\n" \
	"mov.u32 %r6, " KEEP "; setp.ne.b32 %p1, %r6, 0;\n" \
	FENCE \
	"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, " A ", %rd3, %p1, 1, 1, " \
	MAJORS ";\n" \
	"wgmma.commit_group.sync.aligned;\n" \
	WAIT \
	"mul.wide.u32 %rd4, %r1, 4; add.s64 %rd5, %rd1, %rd4; st.global.f32 [%rd5], %f4;\n" \
	"wgmma.wait_group.sync.aligned 0;\n" \
	"ret;\n" \
	"}\n"
#define SHOW "fence.proxy.async.shared::cta;\n"
#define FENCE "wgmma.fence.sync.aligned;\n"
#define WAIT "wgmma.wait_group.sync.aligned 0;\n"

START_TEST(group_product)
{
	static const struct { const char *text; float want; } cases[] = {      /* 0: a finding, or no right sum */
		{PRODUCT(SHOW, FENCE, "1", WAIT), 21}, {PRODUCT(SHOW, FENCE, "0", WAIT), 16},
		{PRODUCT("", FENCE, "1", WAIT), 0}, {PRODUCT(SHOW, "", "1", WAIT), 0},
		{PRODUCT(SHOW, FENCE, "1", ""), 0},
		{PRODUCT_OF("{%r5, %r5, %r5, %r5}", "0", SHOW, FENCE, "1", WAIT), 21},
		{PRODUCT_OF("{%r5, %r5, %r5, %r5}", "0", SHOW, FENCE, "0", WAIT), 16},
		{PRODUCT_OF("{%r5, %r5, %r5, %r5}", "0", "", FENCE, "1", WAIT), 0},
	};
	char text[4096], name[32];
	Sim *s = sim_new(&(SimConfig){.warp = 32, .traced = true});
	float *out = sim_alloc(s, 512);
	void *args[] = {&out};
	const SimFinding *f;
	int rc, i;

	snprintf(text, sizeof text, "%s%s", head, cases[_i].text);
	snprintf(name, sizeof name, "ptx_product%d", _i);
	sim_written(s, out, 512);
	memset(out, 0, 512);
	rc = launch(s, build(text, name), "product__sim", 128, args);
	ck_assert_msg(cases[_i].want == 0 || rc == SIM_OK, "%s", sim_findings(s, &f) ? f[0].text : "?");
	for (i = 0; i < 128; i++)
		ck_assert(cases[_i].want ? out[i] == cases[_i].want : rc == SIM_FINDINGS || out[i] != 21);
	sim_release(s, out);
	sim_free(s);
}
END_TEST

START_TEST(not_understood)
{
	static const char *const texts[] = {
		".visible .entry k(.param .u64 a)\n{\n.reg .b32 %r<2>;\nmov.u32 %r1, {1;\n}\n",
		".visible .entry k(.param .u64 a)\n{\nld.global.u32;\n}\n",
		".visible .entry k(.param .u64 a)\n{\nret;\n",
		".visible .entry k(.param .u64 a)\n{\n.reg .b64 %d<2>; .reg .f32 %f<2>; .reg .pred %p<2>;\n"
			"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f1}, %d1, %d1, %p1, 1, 1, 0, 0;\nret;\n}\n",
		".visible .entry k(.param .u64 a)\n{\n.reg .b32 %r<2>; .reg .b64 %d<2>;\n"
			"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1], [%r1];\n"
			"ret;\n}\n",
		".visible .func k(.param .u64 a)\n{\nret;\n}\n",
		"nonsense",
	};
	size_t k, size;

	for (k = 0; k < sizeof texts / sizeof *texts; k++) {
		diag = (Diag){0};
		ck_assert_msg(ptx_to_c(m, texts[k], &size) == NULL, "taken: %s", texts[k]);
		ck_assert_int_eq(diag.code, X_UNSUPPORTED);
	}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("ptx");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	if (system("clang-22 --version >/dev/null 2>&1")) {
		puts("clang-22 is missing");
		return 77;
	}
	m = module_new(&diag);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, instructions);
	tcase_add_test(t, kernel);
	tcase_add_test(t, missing_barrier);
	tcase_add_loop_test(t, group_product, 0, 8);
	tcase_add_test(t, not_understood);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
