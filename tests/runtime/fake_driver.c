/*
 * A driver with the names of libcuda, or with -DHIP of libamdhip64, that runs the kernels of
 * model.h on the host. It checks what a driver would: the context is current, blocks are 32
 * threads, addresses come from it, and everything is given back (FAKE_DRIVER_LOG tells).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HIP
#define CALL(cuda, hip) hip
#else
#define CALL(cuda, hip) cuda
#endif

enum { BAD = 1, NO_MEMORY = 2, NO_BINARY = 209, NOT_FOUND = 500 };
enum { MAX = 256 };

typedef void Kernel(void **params, unsigned block);

static struct { uint64_t p; size_t n; } blocks[MAX];
static int live, streams, modules, contexts, graphs, replays;
static _Thread_local int current;
static const char *image;

__attribute__((destructor)) static void tell(void)
{
	const char *path = getenv("FAKE_DRIVER_LOG");
	FILE *f = path ? fopen(path, "w") : NULL;
	if (f) {
		fprintf(f, "blocks %d streams %d modules %d contexts %d graphs %d replays %d\n", live,
		        streams, modules, contexts, graphs, replays);
		fclose(f);
	}
}

static int inside(uint64_t p, size_t n)
{
	for (int i = 0; i < MAX; i++)
		if (blocks[i].p && p >= blocks[i].p && p + n <= blocks[i].p + blocks[i].n)
			return 1;
	return 0;
}

int CALL(cuInit, hipInit)(unsigned flags)
{
	return flags ? BAD : getenv("FAKE_DRIVER_BROKEN") ? 100 : 0;
}

int CALL(cuDeviceGetCount, hipGetDeviceCount)(int *n)
{
	*n = 1;
	return 0;
}

int CALL(cuDeviceGet, hipDeviceGet)(int *device, int ordinal)
{
	*device = 7;
	return ordinal ? BAD : 0;
}

int CALL(cuDriverGetVersion, hipDriverGetVersion)(int *version)
{
	*version = CALL(12040, 60443483);
	return 0;
}

int CALL(cuDeviceGetName, hipDeviceGetName)(char *name, int size, int device)
{
	snprintf(name, size, "Fake");
	return device == 7 ? 0 : BAD;
}

#ifdef HIP
int hipSetDevice(int ordinal)
{
	current = 1;
	return ordinal ? BAD : 0;
}

const char *hipGetErrorString(int code)
{
	return code == 100 ? "no device" : "fake error";
}
#else
int cuDevicePrimaryCtxRetain(void **context, int device)
{
	*context = &contexts;
	contexts++;
	return device == 7 ? 0 : BAD;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
	contexts--;
	return device == 7 ? 0 : BAD;
}

int cuCtxSetCurrent(void *context)
{
	current = context == &contexts;
	return current ? 0 : BAD;
}

int cuDeviceGetAttribute(int *value, int which, int device)
{
	const char *cc = getenv("FAKE_DRIVER_CC");
	int v = cc ? atoi(cc) : 86;
	*value = which == 75 ? v / 10 : v % 10;
	return device == 7 ? 0 : BAD;
}

int cuFuncSetAttribute(void *function, int which, int value)
{
	return !function || which != 8 || value < 0 ? BAD : 0;
}

int cuGetErrorString(int code, const char **text)
{
	*text = code == 100 ? "no device" : "fake error";
	return 0;
}
#endif

int CALL(cuModuleLoadData, hipModuleLoadData)(void **module, const void *data)
{
	if (!current)
		return BAD;
	image = data;
	if (strncmp(image, "kernels", 7))
		return NO_BINARY;
	*module = &image;
	modules++;
	return 0;
}

int CALL(cuModuleUnload, hipModuleUnload)(void *module)
{
	modules--;
	return current && module == &image ? 0 : BAD;
}

static void add(void **p, unsigned i)
{
	const float *x = *(float **)p[0], *b = *(float **)p[1];
	float *y = *(float **)p[2];
	for (int j = 0; j < 4; j++)
		y[4 * i + j] = x[4 * i + j] + b[j];
}

static void relu(void **p, unsigned i)
{
	const float *x = *(float **)p[0];
	float *y = *(float **)p[1];
	for (unsigned j = 4 * i; j < 4 * i + 4; j++)
		y[j] = x[j] > 0 ? x[j] : 0;
}

static void sum(void **p, unsigned i)
{
	const float *x = *(float **)p[0];
	float s = 0;
	int64_t n = *(int64_t *)p[2];
	for (int64_t j = 0; j < n; j++)
		s += x[n * i + j];
	(*(float **)p[1])[i] = s;
}

static void pick(void **p, unsigned i)
{
	int64_t k = (*(int64_t **)p[0])[i], n = *(int64_t *)p[3];
	if (k < 0 || k >= n) {
		**(int32_t **)p[4] = 1;
		k = 0;
	}
	(*(float **)p[2])[i] = (*(float **)p[1])[k];
}

static const struct { const char *name; Kernel *k; int params; } all[] = {
	{"add", add, 4}, {"relu", relu, 3}, {"sum", sum, 4}, {"pick", pick, 5},
};

static int parameters(void *f)
{
	int i = 0;
	while (all[i].k != (Kernel *)f)
		i++;
	return all[i].params;
}

int CALL(cuModuleGetFunction, hipModuleGetFunction)(void **f, void *module, const char *name)
{
	(void)module;
	for (int i = 0; i < 4; i++)
		if (!strcmp(name, all[i].name)) {
			*f = (void *)all[i].k;
			return 0;
		}
	return NOT_FOUND;
}

int CALL(cuMemAlloc_v2, hipMalloc)(uint64_t *p, size_t bytes)
{
	for (int i = 0; current && bytes && i < MAX; i++)
		if (!blocks[i].p) {
			*p = blocks[i].p = (uintptr_t)malloc(bytes);
			blocks[i].n = bytes;
			live++;
			return 0;
		}
	return NO_MEMORY;
}

int CALL(cuMemFree_v2, hipFree)(uint64_t p)
{
	for (int i = 0; current && p && i < MAX; i++)
		if (blocks[i].p == p) {
			free((void *)(uintptr_t)p);
			blocks[i].p = 0;
			live--;
			return 0;
		}
	return BAD;
}

int CALL(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync)(uint64_t dst, const void *src, size_t n,
                                                   void *stream)
{
	if (!current || !stream || !inside(dst, n))
		return BAD;
	memcpy((void *)(uintptr_t)dst, src, n);
	return 0;
}

/* Work of a graph, or what is recorded for one. */
typedef struct Step { Kernel *k; unsigned n; uint64_t params[8], dst, src; size_t bytes; } Step;
typedef struct Graph { Step at[64]; int n; } Graph;
static Graph *recording;

static int record(Step s)
{
	if (recording->n == 64)
		return NO_MEMORY;
	recording->at[recording->n++] = s;
	return 0;
}

int CALL(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync)(void *dst, uint64_t src, size_t n,
                                                   void *stream)
{
	if (!current || !stream || !inside(src, n) || recording)
		return BAD;
	memcpy(dst, (void *)(uintptr_t)src, n);
	return 0;
}

int CALL(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync)(uint64_t dst, uint64_t src, size_t n,
                                                   void *stream)
{
	if (!current || !stream || !inside(dst, n) || !inside(src, n))
		return BAD;
	if (recording)
		return record((Step){.dst = dst, .src = src, .bytes = n});
	memmove((void *)(uintptr_t)dst, (void *)(uintptr_t)src, n);
	return 0;
}

int CALL(cuMemsetD8Async, hipMemsetD8Async)(uint64_t dst, unsigned char c, size_t n, void *stream)
{
	if (!current || !stream || !inside(dst, n))
		return BAD;
	if (recording)
		return record((Step){.dst = dst, .bytes = n});
	memset((void *)(uintptr_t)dst, c, n);
	return 0;
}

int CALL(cuStreamCreate, hipStreamCreateWithFlags)(void **stream, unsigned flags)
{
	*stream = &streams;
	streams++;
	return current && flags == 1 ? 0 : BAD;
}

int CALL(cuStreamDestroy_v2, hipStreamDestroy)(void *stream)
{
	streams--;
	return stream == &streams ? 0 : BAD;
}

int CALL(cuStreamSynchronize, hipStreamSynchronize)(void *stream)
{
	return current && stream == &streams ? 0 : BAD;
}

int CALL(cuLaunchKernel, hipModuleLaunchKernel)(void *f, unsigned gx, unsigned gy, unsigned gz,
	unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **params,
	void **extra)
{
	if (!current || gy != 1 || gz != 1 || bx != 32 || by != 1 || bz != 1 || shared || extra ||
	    stream != &streams)
		return BAD;
	if (recording) {
		Step s = {.k = (Kernel *)f, .n = gx};
		for (int i = 0; i < parameters(f); i++)
			memcpy(&s.params[i], params[i], sizeof s.params[i]);
		return record(s);
	}
	for (unsigned i = 0; i < gx; i++)
		((Kernel *)f)(params, i);
	return 0;
}

int CALL(cuStreamBeginCapture_v2, hipStreamBeginCapture)(void *stream, int mode)
{
	if (!current || stream != &streams || mode != 1 || recording)
		return BAD;
	recording = calloc(1, sizeof *recording);
	return 0;
}

int CALL(cuStreamEndCapture, hipStreamEndCapture)(void *stream, void **graph)
{
	*graph = recording;
	recording = NULL;
	graphs++;
	return stream == &streams && *graph ? 0 : BAD;
}

int CALL(cuGraphInstantiateWithFlags, hipGraphInstantiateWithFlags)(void **exec, void *graph,
                                                                    unsigned long long flags)
{
	*exec = memcpy(malloc(sizeof(Graph)), graph, sizeof(Graph));
	graphs++;
	return getenv("FAKE_DRIVER_NO_GRAPHS") || flags ? graphs--, free(*exec), BAD : 0;
}

int CALL(cuGraphDestroy, hipGraphDestroy)(void *graph)
{
	graphs--;
	free(graph);
	return 0;
}

int CALL(cuGraphExecDestroy, hipGraphExecDestroy)(void *graph)
{
	graphs--;
	free(graph);
	return current ? 0 : BAD;
}

int CALL(cuGraphLaunch, hipGraphLaunch)(void *graph, void *stream)
{
	const Graph *g = graph;
	void *params[8];
	replays++;
	for (int i = 0; i < g->n; i++) {
		const Step *s = &g->at[i];
		for (int k = 0; k < 8; k++)
			params[k] = (void *)&s->params[k];
		for (unsigned b = 0; s->k && b < s->n; b++)
			s->k(params, b);
		if (!s->k && s->src)
			memmove((void *)(uintptr_t)s->dst, (void *)(uintptr_t)s->src, s->bytes);
		else if (!s->k)
			memset((void *)(uintptr_t)s->dst, 0, s->bytes);
	}
	return current && stream == &streams ? 0 : BAD;
}
