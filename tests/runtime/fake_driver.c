/*
 * A driver with the names of libcuda, or with -DHIP of libamdhip64, that runs the kernels of
 * model.h on the host. It checks what a driver would: the context is current, blocks are 32
 * threads, addresses come from it, streams of a recording meet again, and everything is given back
 * (FAKE_DRIVER_LOG tells). A graph runs in the order farthest from that of its recording that its edges
 * allow. FAKE_DRIVER_FAIL=memory, image, launch or run makes that fail. With -DIDLE it takes any program's image and
 * its kernels do nothing.
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
static int live, pinned, streams, modules, contexts, graphs, replays, events, early, uploads, downloads, syncs,
	kernels, launches;
static _Thread_local int current;
static const char *image, *loaded;

/* Steps of a recording: the last of each stream that it knows, 1 + its place. */
enum { STREAMS = 16 };
typedef struct After { int last[STREAMS]; } After;

/* A stream, or an event: what of the recording its next work comes after. */
typedef struct Stream { int live, capturing; After after; } Stream;
static Stream pool[STREAMS];
static int lanes, steps;               /* streams of the recording that had the most */

static int known(void *stream)
{
	Stream *s = stream;
	return s >= pool && s < pool + STREAMS && s->live;
}

static int fails(const char *what)
{
	const char *f = getenv("FAKE_DRIVER_FAIL");
	return f && !strcmp(f, what);
}

__attribute__((destructor)) static void tell(void)
{
	const char *path = getenv("FAKE_DRIVER_LOG");
	FILE *f = path ? fopen(path, "w") : NULL;
	if (f) {
		fprintf(f, "blocks %d streams %d modules %d contexts %d graphs %d replays %d pinned %d events %d\n",
		        live, streams, modules, contexts, graphs, replays, pinned, events);
		fprintf(f, "early %d uploads %d downloads %d syncs %d lanes %d kernels %d launches %d steps %d image %s\n", early,
		        uploads, downloads, syncs, lanes, kernels, launches, steps, loaded ? loaded : "own");
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
	const char *v = getenv("FAKE_DRIVER_VERSION");
	*version = v ? atoi(v) : CALL(12040, 60443483);
	return 0;
}

int CALL(cuDeviceGetName, hipDeviceGetName)(char *name, int size, int device)
{
	snprintf(name, size, "Fake");
	return device == 7 ? 0 : BAD;
}

#ifdef HIP
int hipGetDevicePropertiesR0600(void *properties, int device)
{
	const char *name = getenv("FAKE_DRIVER_GFX");
	memset(properties, 0, 1472);
	strcpy((char *)properties + 1160, name ? name : "");
	return device == 7 && name ? 0 : BAD;
}

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
#ifdef IDLE
	loaded = memcmp(image, "\177ELF", 4) && image[0] != 0x50 ? "PTX" : "code";
#endif
	if (fails("image") || (!loaded && strncmp(image, "kernels", 7)))
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
	{"add", add, 3}, {"relu", relu, 2}, {"sum", sum, 3}, {"pick", pick, 5},
};

static void nothing(void **p, unsigned i)
{
	(void)p, (void)i;
}

static int parameters(void *f)
{
	int i = 0;
	if ((Kernel *)f == nothing)
		return 0;
	while (all[i].k != (Kernel *)f)
		i++;
	return all[i].params;
}

int CALL(cuModuleGetFunction, hipModuleGetFunction)(void **f, void *module, const char *name)
{
	(void)module;
	kernels++;
	if (loaded) {
		*f = (void *)nothing;
		return 0;
	}
	for (int i = 0; i < 4; i++)
		if (!strcmp(name, all[i].name)) {
			*f = (void *)all[i].k;
			return 0;
		}
	return NOT_FOUND;
}

int CALL(cuMemAlloc_v2, hipMalloc)(uint64_t *p, size_t bytes)
{
	for (int i = 0; current && bytes && i < MAX && !fails("memory"); i++)
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

int CALL(cuMemHostAlloc, hipHostMalloc)(void **p, size_t bytes, unsigned flags)
{
	*p = malloc(bytes);
	pinned++;
	return current && !flags ? 0 : BAD;
}

int CALL(cuMemFreeHost, hipHostFree)(void *p)
{
	free(p);
	pinned--;
	return p ? 0 : BAD;
}

/* Work of a graph, or what is recorded for one: a kernel, a fill (no src) or a copy. */
typedef struct Step {
	Kernel *k;
	unsigned n;
	uint64_t params[8], dst, src;
	size_t bytes;
	After after;
	int stream;
} Step;
enum { STEPS = 1024 };
typedef struct Graph { Step at[STEPS]; int n; } Graph;
static Graph *recording;
static Stream *origin;

static int do_step(const Step *s)
{
	void *params[8];
	for (int k = 0; k < 8; k++)
		params[k] = (void *)&s->params[k];
	for (unsigned b = 0; s->k && b < s->n; b++)
		s->k(params, b);
	if (!s->k && s->src)
		memmove((void *)(uintptr_t)s->dst, (void *)(uintptr_t)s->src, s->bytes);
	else if (!s->k)
		memset((void *)(uintptr_t)s->dst, 0, s->bytes);
	return 0;
}

static int work(void *stream, Step s)
{
	Stream *t = stream;
	if (!current || !known(stream))
		return BAD;
	if (!t->capturing)
		return do_step(&s);
	if (recording->n == STEPS)
		return NO_MEMORY;
	s.after = t->after;
	s.stream = (int)(t - pool);
	recording->at[recording->n] = s;
	t->after.last[s.stream] = ++recording->n;
	steps = recording->n > steps ? recording->n : steps;
	return 0;
}

int CALL(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync)(uint64_t dst, const void *src, size_t n,
                                                   void *stream)
{
	uploads++;
	return inside(dst, n) ? work(stream, (Step){.dst = dst, .src = (uintptr_t)src, .bytes = n}) : BAD;
}

int CALL(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync)(void *dst, uint64_t src, size_t n,
                                                   void *stream)
{
	downloads++;
	return inside(src, n) ? work(stream, (Step){.dst = (uintptr_t)dst, .src = src, .bytes = n}) : BAD;
}

int CALL(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync)(uint64_t dst, uint64_t src, size_t n,
                                                   void *stream)
{
	return inside(dst, n) && inside(src, n) ? work(stream, (Step){.dst = dst, .src = src, .bytes = n}) : BAD;
}

int CALL(cuMemsetD8Async, hipMemsetD8Async)(uint64_t dst, unsigned char c, size_t n, void *stream)
{
	return inside(dst, n) && !c ? work(stream, (Step){.dst = dst, .bytes = n}) : BAD;
}

int CALL(cuStreamCreate, hipStreamCreateWithFlags)(void **stream, unsigned flags)
{
	for (int i = 0; current && flags == 1 && i < STREAMS; i++)
		if (!pool[i].live) {
			pool[i] = (Stream){.live = 1};
			*stream = &pool[i];
			streams++;
			return 0;
		}
	return BAD;
}

int CALL(cuStreamDestroy_v2, hipStreamDestroy)(void *stream)
{
	if (!known(stream))
		return BAD;
	((Stream *)stream)->live = 0;
	streams--;
	return 0;
}

int CALL(cuStreamSynchronize, hipStreamSynchronize)(void *stream)
{
	syncs++;
	if (fails("run"))
		return 719;
	return current && known(stream) && !((Stream *)stream)->capturing ? 0 : BAD;
}

int CALL(cuEventCreate, hipEventCreateWithFlags)(void **event, unsigned flags)
{
	*event = calloc(1, sizeof(Stream));
	events++;
	return flags == 2 ? 0 : BAD;
}

int CALL(cuEventDestroy_v2, hipEventDestroy)(void *event)
{
	free(event);
	events--;
	return 0;
}

int CALL(cuEventRecord, hipEventRecord)(void *event, void *stream)
{
	*(Stream *)event = *(Stream *)stream;
	return current && known(stream) ? 0 : BAD;
}

int CALL(cuStreamWaitEvent, hipStreamWaitEvent)(void *stream, void *event, unsigned flags)
{
	Stream *s = stream;
	const Stream *e = event;
	if (!current || !known(stream) || flags || !e->live)
		return BAD;
	s->capturing |= e->capturing;
	for (int i = 0; i < STREAMS; i++)
		if (e->after.last[i] > s->after.last[i])
			s->after.last[i] = e->after.last[i];
	return 0;
}

int CALL(cuLaunchKernel, hipModuleLaunchKernel)(void *f, unsigned gx, unsigned gy, unsigned gz,
	unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **params,
	void **extra)
{
	Step s = {.k = (Kernel *)f, .n = gx};
	launches++;
	if (!loaded && (gy != 1 || gz != 1 || bx != 32 || by != 1 || bz != 1 || shared || extra))
		return BAD;
	if (fails("launch"))
		return 701;
	for (int i = 0; i < parameters(f); i++)
		memcpy(&s.params[i], params[i], sizeof s.params[i]);
	return work(stream, s);
}

#ifndef HIP
typedef struct Config { unsigned g[3], b[3], shared; void *stream; const uint64_t *attributes; unsigned n; } Config;

int cuLaunchKernelEx(const Config *c, void *f, void **params, void **extra)
{
	/* programmatic stream serialization, on */
	if (c->n != 1 || c->attributes[0] != 6 || *(int *)(c->attributes + 1) != 1)
		return BAD;
	early++;
	return cuLaunchKernel(f, c->g[0], c->g[1], c->g[2], c->b[0], c->b[1], c->b[2], c->shared, c->stream, params,
	                      extra);
}
#endif

int CALL(cuStreamBeginCapture_v2, hipStreamBeginCapture)(void *stream, int mode)
{
	if (!current || !known(stream) || mode != 1 || recording)
		return BAD;
	recording = calloc(1, sizeof *recording);
	origin = stream;
	origin->capturing = 1;
	return 0;
}

int CALL(cuStreamEndCapture, hipStreamEndCapture)(void *stream, void **graph)
{
	int n = 0, apart = 0;
	for (int i = 0; i < STREAMS; i++) {
		n += pool[i].live && pool[i].capturing;
		apart |= pool[i].capturing && pool[i].after.last[i] > origin->after.last[i];
	}
	for (int i = 0; i < STREAMS; i++) {
		pool[i].capturing = 0;
		pool[i].after = (After){0};
	}
	lanes = n > lanes ? n : lanes;
	*graph = recording;
	recording = NULL;
	graphs++;
	return stream == origin && *graph && !apart ? 0 : BAD;
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

/* Whether all that the step comes after is done: of each stream, whose steps are done in order. */
static int ready(const Graph *g, int i, const char *done)
{
	for (int k = 0; k < STREAMS; k++)
		for (int j = g->at[i].after.last[k]; j > 0; j--)
			if (g->at[j - 1].stream == k && !done[j - 1])
				return 0;
	return 1;
}

int CALL(cuGraphLaunch, hipGraphLaunch)(void *graph, void *stream)
{
	const Graph *g = graph;
	char done[STEPS] = {0};
	replays++;
	for (int n = 0; n < g->n && !loaded; n++)
		for (int i = g->n - 1; i >= 0; i--)
			if (!done[i] && ready(g, i, done)) {
				do_step(&g->at[i]);
				done[i] = 1;
				break;
			}
	return current && known(stream) ? 0 : BAD;
}
