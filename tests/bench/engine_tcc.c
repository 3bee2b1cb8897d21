/* A compiled model, as a shared object. */
#include <dlfcn.h>
#include <string.h>
#include "bench.h"

static const TccUserApi *user_api;
static TccInst *inst;
static TccContext *ctx;
static TccValue out[MAX_PORTS];

static const char *
load(const Args *a)
{
	TccOptions options = {.size = sizeof options, .threads = a->threads};
	void *lib = dlopen(a->so, RTLD_NOW | RTLD_LOCAL);
	const TccModel *m;

	if (!lib)
		return dlerror();
	m = dlsym(lib, a->model);
	user_api = dlsym(lib, a->api);
	if (!m || !user_api)
		return "symbols not found";
	if (user_api->load(m, &options, &inst))
		return user_api->inst_error(inst);
	return user_api->context_new(inst, &ctx) ? user_api->error(ctx) : NULL;
}

static const char *
run(void)
{
	memset(out, 0, (size_t)ports.nout * sizeof *out);
	return user_api->run(ctx, ports.in, ports.nin, out, ports.nout) ? user_api->error(ctx) : NULL;
}

const TccValue *
tcc_output(int k)
{
	return &out[k];
}

static const float *
output(int k)
{
	const TccTensor *t = &out[k].u.tensor;

	if (out[k].kind != TCC_TENSOR || out[k].dtype != TCC_F32)
		return NULL;
	return (const float *)((const char *)t->data + t->byte_offset);
}

const Engine engine_tcc = {"tcc", load, run, output};
