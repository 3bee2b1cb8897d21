/* A compiled model, as a shared object; and another one of the same model as a peer. */
#include <dlfcn.h>
#include <string.h>
#include "bench.h"

typedef struct Program {
	const TccUserApi *api;
	TccInst *inst;
	TccContext *ctx;
	TccValue out[MAX_PORTS];
} Program;
static Program ours, other;

static const char *
load(Program *p, const char *so, const Args *a)
{
	TccOptions options = {.size = sizeof options, .threads = a->threads};
	void *lib = dlopen(so, RTLD_NOW | RTLD_LOCAL);
	const TccModel *m;

	if (!lib)
		return dlerror();
	m = dlsym(lib, a->model);
	p->api = dlsym(lib, a->api);
	if (!m || !p->api)
		return "symbols not found";
	if (p->api->load(m, &options, &p->inst))
		return p->api->inst_error(p->inst);
	return p->api->context_new(p->inst, &p->ctx) ? p->api->error(p->ctx) : NULL;
}

static const char *
run(Program *p)
{
	memset(p->out, 0, (size_t)ports.nout * sizeof *p->out);
	return p->api->run(p->ctx, ports.in, ports.nin, p->out, ports.nout) ? p->api->error(p->ctx)
		: NULL;
}

static const float *
output(const TccValue *v)
{
	const TccTensor *t = &v->u.tensor;

	if (v->kind != TCC_TENSOR || v->dtype != TCC_F32)
		return NULL;
	return (const float *)((const char *)t->data + t->byte_offset);
}

const TccValue *
tcc_output(int k)
{
	return &ours.out[k];
}

static const char *
load_ours(const Args *a)
{
	return load(&ours, a->so, a);
}

static const char *
run_ours(void)
{
	return run(&ours);
}

static const float *
output_of_ours(int k)
{
	return output(&ours.out[k]);
}

static const char *
load_other(const Args *a)
{
	return load(&other, a->other, a);
}

static const char *
run_other(void)
{
	return run(&other);
}

static const float *
output_of_other(int k)
{
	return output(&other.out[k]);
}

const Engine engine_tcc = {"tcc", load_ours, run_ours, output_of_ours};
const Engine engine_other = {"other", load_other, run_other, output_of_other};
