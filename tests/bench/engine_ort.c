/* onnxruntime, by its C API. */
#include <dlfcn.h>
#include <stdio.h>
#include "bench.h"
#include "ort.h"

static Ort api;
static OrtEnv *env;
static OrtSession *session;
static OrtValue *in[MAX_PORTS], *out[MAX_PORTS];
static char message[512];

static const char *
failed(OrtStatus *s)
{
	if (!s)
		return NULL;
	snprintf(message, sizeof message, "%s", api.GetErrorMessage(s));
	api.ReleaseStatus(s);
	return message;
}

static const char *
open_api(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const OrtApiBase *(*base)(void) =
		lib ? (const OrtApiBase *(*)(void))dlsym(lib, "OrtGetApiBase") : NULL;
	const void *const *table;

	if (!base)
		return dlerror();
	table = base()->get_api(ORT_API_VERSION);
	if (!table)
		return "too old";
#define ORT_GET(number, name, result, parameters) api.name = (result (*) parameters)table[number];
	ORT_FUNCTIONS(ORT_GET)
#undef ORT_GET
	return NULL;
}

static const char *
make_inputs(void)
{
	OrtMemoryInfo *cpu;
	const char *why = failed(api.CreateCpuMemoryInfo(ORT_ARENA_ALLOCATOR, ORT_MEM_DEFAULT, &cpu));
	const TccTensor *x;
	int i;

	for (i = 0; i < ports.nin && !why; i++) {
		x = &ports.in[i].u.tensor;
		why = failed(api.CreateTensorWithDataAsOrtValue(cpu, x->data, ports.in_bytes[i], x->shape,
			(size_t)x->ndim, (int)ports.in[i].dtype, &in[i]));
	}
	return why;
}

static const char *
load(const Args *a)
{
	OrtSessionOptions *options;
	const char *why = open_api(a->ort);

	(void)(why || (why = failed(api.CreateEnv(ORT_WARNING + 1, "bench", &env)))
		|| (why = failed(api.CreateSessionOptions(&options)))
		|| (why = failed(api.SetSessionGraphOptimizationLevel(options, ORT_ENABLE_ALL)))
		|| (why = failed(api.SetIntraOpNumThreads(options, a->threads)))
		|| (why = failed(api.SetInterOpNumThreads(options, 1)))
		|| (why = failed(api.CreateSession(env, a->onnx, options, &session)))
		|| (why = make_inputs()));
	return why;
}

static const char *
run(void)
{
	int i;

	for (i = 0; i < ports.nout; i++) {
		if (out[i])
			api.ReleaseValue(out[i]);
		out[i] = NULL;
	}
	return failed(api.Run(session, NULL, (const char *const *)ports.in_names,
		(const OrtValue *const *)in, (size_t)ports.nin, (const char *const *)ports.out_names,
		(size_t)ports.nout, out));
}

static const float *
output(int k)
{
	int tensor = 0;
	float *data;

	if (failed(api.IsTensor(out[k], &tensor)) || !tensor
		|| failed(api.GetTensorMutableData(out[k], (void **)&data)))
		return NULL;
	return data;
}

const Engine engine_ort = {"ort", load, run, output};
