/* The c, cuda and hip targets on a whole module: a softmax of rows with a hand-written plan. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "codegen/tool.h"
#include "runtime/rt.h"
#include "tests/codegen/kernels.h"

#include <check.h>     /* last: its macro `fail` */

static Diag diag;

static void set(Module *m, Region *r, Node *args, int i, Node *v)
{
	store1(m, r, args, kidx(m, i), v);
}

/* Input x f32[rows, ROW], output y of the same type. */
static Module *softmax_module(bool gpu)
{
	diag = (Diag){ .out = stderr };
	Module *m = module_new(&diag);
	Kernel *k = k_softmax(m, gpu);
	Node *dims[2] = { k->syms[0], kidx(m, ROW) };
	Node *x = t_param(m, "x", ty_tensor(m, DT_F32, 2, dims), 0);
	Region *p = m->plan = region_new(m, "plan");
	Plan *mem = NEW(m, Plan);

	m->name = "softmax";
	m->main->params = arena_dup(m->arena, &x, sizeof x);
	m->main->nparams = 1;
	region_add(m, m->main, x);
	vec_push(m, &m->kernels, k);
	mem->nbufs = 2;
	mem->bufs = NEWN(m, PlanBuf, 2);
	mem->bufs[0] = (PlanBuf){ .cls = BUF_INPUT, .dtype = DT_F32, .alias = -1, .size = -1,
		.offset = -1 };
	mem->bufs[1] = (PlanBuf){ .cls = BUF_OUTPUT, .dtype = DT_F32, .alias = -1, .size = -1,
		.offset = -1 };
	mem->in_buf = NEWN(m, int, 1);
	m->memory = mem;

	Node *rows = l_call(m, p, "dim", 2, (Node *[]){ kidx(m, 0), kidx(m, 0) });
	Node *shape = tile(m, "shape", DT_INDEX, SP_STACK, 2, 0, 0);
	Node *args = tile(m, "args", DT_INDEX, SP_STACK, 8, 0, 0);
	l_alloc(m, p, shape);
	set(m, p, shape, 0, rows);
	set(m, p, shape, 1, kidx(m, ROW));
	l_call(m, p, "place", 0, NULL);
	l_call(m, p, "output", 4, (Node *[]){ kidx(m, 0), kidx(m, 1), kidx(m, 2), shape });
	l_alloc(m, p, args);
	int64_t fixed[8] = { 0, 1, 1, ROW, 2, 0, 1, 1 };
	for (int i = 1; i < 7; i++)
		set(m, p, args, i - (i > 4), kidx(m, fixed[i]));
	set(m, p, args, 0, rows);
	set(m, p, args, 4, kidx(m, 0));
	set(m, p, args, 5, kidx(m, 1));
	set(m, p, args, 6, rows);
	l_call(m, p, "launch", 2, (Node *[]){ kidx(m, 0), args });
	return m;
}

static Job job_for(Module *m, const char *target, EmitKind kind)
{
	Job job = { .m = m, .machine = machine_of(m, target), .kind = kind, .prefix = "softmax",
		.level = 2, .nvariants = 1, .jobs = 2 };

	ck_assert_ptr_nonnull(job.machine);
	m->machine = job.machine;
	job.host = machine_of(m, "native");
	m->host = job.host;
	return job;
}

static const char *tmp(const char *name)
{
	static char buf[4][512];
	static int at;
	const char *t = getenv("TCC_TMP");

	at = (at + 1) % 4;
	snprintf(buf[at], sizeof buf[at], "%s/%s", t ? t : "/tmp/w/cprint/tt", name);
	return buf[at];
}

/* Devices are taken from the archive when something of theirs is asked for. */
struct Sim *(*const wanted)(TccDevice *) = tcc_device_simulator;

static void check_run(const TccModel *model, const char *device)
{
	enum { N = 5 };
	TccOptions opt = { .size = sizeof opt, .threads = 1, .device = device };
	TccInst *inst;
	TccContext *ctx;
	float *x = aligned_alloc(64, N * ROW * 4);
	int64_t shape[2] = { N, ROW };
	TccValue in = { .kind = TCC_TENSOR, .dtype = TCC_F32 }, out = { 0 };

	for (int i = 0; i < N * ROW; i++)
		x[i] = (float)(i * 37 % 101) / 17 - 3;
	in.u.tensor = (TccTensor){ .data = x, .device_type = TCC_DEV_CPU, .ndim = 2, .code = 2,
		.bits = 32, .lanes = 1, .shape = shape };
	ck_assert_msg(tcc_load(model, &opt, &inst) == 0, "%s", tcc_inst_error(inst));
	ck_assert_int_eq(tcc_context_new(inst, &ctx), 0);
	ck_assert_msg(tcc_run(ctx, &in, 1, &out, 1) == 0, "%s", tcc_error(ctx));
	ck_assert_int_eq(out.u.tensor.shape[0], N);
	const float *y = out.u.tensor.data;
	for (int r = 0; r < N; r++) {
		double most = -INFINITY, sum = 0;
		for (int i = 0; i < ROW; i++)
			most = fmax(most, x[r * ROW + i]);
		for (int i = 0; i < ROW; i++)
			sum += exp(x[r * ROW + i] - most);
		for (int i = 0; i < ROW; i++)
			ck_assert_double_eq_tol(y[r * ROW + i], exp(x[r * ROW + i] - most) / sum, 1e-7);
	}
	tcc_context_free(ctx);
	tcc_unload(inst);
	free(x);
}

START_TEST(c_in_memory)
{
	Module *m = softmax_module(false);
	Job job = job_for(m, "c", EMIT_OBJ);
	Jit *jit = jit_load(&job);

	ck_assert_ptr_nonnull(jit);
	check_run(jit_model(jit), "cpu");
	jit_free(jit);
	job_free(&job);
	module_free(m);
}
END_TEST

static const char *const sims[] = { "sm_80", "gfx942" };

START_TEST(simulated)
{
	Module *m = softmax_module(true);
	Job job = job_for(m, sims[_i / 2], EMIT_OBJ);

	if (!tool_found(clang_name()))
		return;
	job.simulate = true;
	job.simulate_fast = _i % 2;
	Jit *jit = jit_load(&job);
	ck_assert_ptr_nonnull(jit);
	check_run(jit_model(jit), "sim");
	jit_free(jit);
	job_free(&job);
	module_free(m);
}
END_TEST

/* The part of a kind whose name begins so. */
static const Part *part(const Job *job, PartKind kind, const char *name)
{
	for (int k = 0; k < job->nparts; k++)
		if (job->parts[k].kind == kind && !strncmp(job->parts[k].name, name, strlen(name)))
			return &job->parts[k];
	return NULL;
}

static const char *const gpus[] = { "sm_75", "sm_80", "sm_90", "sm_120", "gfx90a", "gfx942",
	"gfx1100",
	"gfx1200" };

START_TEST(images)
{
	bool hip = gpus[_i][0] == 'g';
	int major, minor;
	char where[512];

	if (hip ? !tool_found(clang_name()) : !cuda_nvrtc(&major, &minor, where, sizeof where))
		return;
	Module *m = softmax_module(true);
	Job job = job_for(m, gpus[_i], hip ? EMIT_HSACO : EMIT_CUBIN);
	ck_assert_int_eq(codegen_emit(&job), 0);
	const Part *p = part(&job, PART_IMAGE, gpus[_i]);
	ck_assert_ptr_nonnull(p);
	ck_assert_int_eq(memcmp(p->data, "\177ELF", 4), 0);
	if (!hip) {
		p = part(&job, PART_IMAGE, "compute_");
		ck_assert_ptr_nonnull(p);
		ck_assert_ptr_nonnull(strstr(p->data, ".entry k0_softmax_rows"));
	}
	ck_assert_ptr_nonnull(job.use);
	ck_assert_int_gt(job.use[0].registers, 0);
	ck_assert_int_eq(job.use[0].spills, 0);
	ck_assert_int_eq(job.use[0].shared, 128);
	ck_assert_int_eq(codegen_link(&job, 1, tmp(gpus[_i])), 0);
	job_free(&job);
	module_free(m);
}
END_TEST

static bool exists(const char *dir, const char *name)
{
	char path[1024];
	struct stat s;
	snprintf(path, sizeof path, "%s/%s", dir, name);
	return stat(path, &s) == 0;
}

static const char *const sources[] = { "c", "native", "sm_80", "gfx942" };

/* A folder of source builds by itself. */
START_TEST(source)
{
	bool gpu = _i >= 2;
	Module *m = softmax_module(gpu);
	Job job = job_for(m, sources[_i], EMIT_SRC);
	char cmd[1024];
	const char *dir = arena_printf(m->arena, "%s.src", tmp(sources[_i]));

	ck_assert_int_eq(codegen_emit(&job), 0);
	ck_assert_int_eq(codegen_link(&job, 1, dir), 0);
	ck_assert(exists(dir, "Makefile") && exists(dir, "model.c") && exists(dir, "runtime/abi.h"));
	ck_assert(exists(dir, !gpu ? "kernels.c" : _i == 2 ? "kernels.cu" : "kernels.hip"));
	snprintf(cmd, sizeof cmd, "make -s -C %s model.o%s >/dev/null", dir, gpu ? "" : " kernels.o");
	if (_i != 2 || tool_found("nvcc"))
		ck_assert_int_eq(system(cmd), 0);
	job_free(&job);
	module_free(m);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("targets");
	TCase *t = tcase_create("targets");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, c_in_memory);
	tcase_add_loop_test(t, simulated, 0, 4);
	tcase_add_loop_test(t, images, 0, sizeof gpus / sizeof *gpus);
	tcase_add_loop_test(t, source, 0, 4);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
