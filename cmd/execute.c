/*
 * Folding's hook: computes tensors that depend on constants alone, with our own code generation in
 * memory, for one machine whatever the target, so that constants have the same bytes everywhere.
 */
#include <stdlib.h>
#include <string.h>
#include "cmd.h"

#if defined(__x86_64__)
#define FOLD_MACHINE "x86-64-v2"       /* no fused multiply-add: the same sums on every host */
#else
#define FOLD_MACHINE "native"
#endif

static Node *
constant_of(Module *m, const Node *t, const TccValue *v)
{
	const TccTensor *x = &v->u.tensor;
	int64_t count = (int64_t)tcc_tensor_count(x);
	Data *d = data_new(m, dtype_of(t), count, NULL);

	if (d->size)
		memcpy((void *)d->bytes, tcc_tensor_data(x), d->size);
	return t_const(m, dtype_of(t), x->ndim, x->shape, d);
}

static bool
run_constants(Module *m, Job *job, int n, Node *const *roots, Node **out)
{
	TccOptions to = {.size = sizeof to, .threads = 1};
	TccInst *inst = NULL;
	TccContext *ctx = NULL;
	TccValue *v = calloc((size_t)n, sizeof *v);
	Jit *jit = jit_load(job);
	bool ok;
	int i;

	ok = v && jit && !tcc_load(jit_model(jit), &to, &inst) && !tcc_context_new(inst, &ctx)
		&& !tcc_run(ctx, NULL, 0, v, (uint64_t)n);
	for (i = 0; ok && i < n; i++)
		out[i] = constant_of(m, roots[i], &v[i]);
	if (!ok)
		diag_warn(m->diag, NULL, "constants are left to be computed at run time: %s",
			ctx ? tcc_error(ctx) : inst ? tcc_inst_error(inst) : "no code");
	tcc_context_free(ctx);
	tcc_unload(inst);
	if (jit)
		jit_free(jit);
	free(v);
	return ok;
}

bool
execute_constants(Module *m, int n, Node *const *roots, Node **out)
{
	Module saved = *m;
	Job job = {.m = m, .kind = EMIT_OBJ, .prefix = "fold", .level = 2, .jobs = 1};
	PassOptions kernels = {.level = 2, .disabled = "inline,fold"};
	Level level = LEVEL_TENSOR;
	bool ok;
	int i;

	m->main = region_new(m, "main");
	for (i = 0; i < n; i++)
		region_add(m, m->main, roots[i]);
	m->tuning = NULL;              /* constants have the same bytes whatever was tuned */
	m->requires = m->symdefs = m->kernels = (Vec){0};
	m->in_names = NULL;
	m->out_names = NEWN(m, const char *, n);
	for (i = 0; i < n; i++)
		m->out_names[i] = arena_printf(m->arena, "c%d", i);
	m->machine = m->host = machine_of(m, FOLD_MACHINE);
	job.machine = job.host = m->machine;
	ok = m->machine && run_passes(m, &level, &kernels) && run_constants(m, &job, n, roots, out);
	job_free(&job);
	m->main = saved.main;
	m->requires = saved.requires;
	m->symdefs = saved.symdefs;
	m->kernels = saved.kernels;
	m->plan = saved.plan;
	m->memory = saved.memory;
	m->in_names = saved.in_names;
	m->out_names = saved.out_names;
	m->tuning = saved.tuning;
	m->machine = saved.machine;
	m->host = saved.host;
	return ok;
}
