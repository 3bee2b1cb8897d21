/* A GPU through its driver's library, opened at run time. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "gpu.h"

enum { NON_BLOCKING = 1, STATIC_SHARED = 48 << 10, CAPTURE_THREAD_LOCAL = 1, NO_TIMING = 2 };

static Gpu *gpu(TccDevice *dev)
{
	return (Gpu *)dev;
}

int tcc_gpu_fail(Gpu *g, int code, const char *doing, TccErr *err)
{
	const char *why = g->driver->error(g, code);
	return tcc_fail(err, TCC_NO_DEVICE, "%s: %s failed: %s (%d)", g->driver->what, doing,
	                why ? why : "unknown error", code);
}

static int check(TccDevice *dev, int code, const char *doing, TccErr *err)
{
	return code ? tcc_gpu_fail(gpu(dev), code, doing, err) : 0;
}

/* --- opening ----------------------------------------------------------------------------- */

static int open_library(Gpu *g, TccErr *err)
{
	const GpuDriver *d = g->driver;
	char tried[200] = "";
	for (int i = 0; i < 4 && d->libraries[i]; i++) {
		g->library = dlopen(d->libraries[i], RTLD_NOW | RTLD_LOCAL);
		if (g->library)
			return 0;
		size_t n = strlen(tried);
		snprintf(tried + n, sizeof tried - n, "%s%s", i ? ", " : "", d->libraries[i]);
	}
	return tcc_fail(err, TCC_NO_DEVICE, "no %s driver on this machine: %s was not found; %s",
	                d->what, tried, d->hint);
}

static int find_calls(Gpu *g, const char *const *names, int n, void **to, TccErr *err)
{
	for (int i = 0; i < n; i++) {
		to[i] = dlsym(g->library, names[i]);
		if (!to[i])
			return tcc_fail(err, TCC_NO_DEVICE, "the %s driver is too old: it has no %s",
			                g->driver->what, names[i]);
	}
	return 0;
}

static void find_graphs(Gpu *g)
{
	void **to = (void **)&g->graphs;
	bool all = true;
	for (size_t i = 0; i < sizeof g->graphs / sizeof *to; i++)
		all &= (to[i] = dlsym(g->library, g->driver->graphs[i])) != NULL;
	if (!all)
		g->graphs = (GpuGraphs){0};
}

static void find_optional(Gpu *g)
{
	int (*version)(int *) = NULL;
	for (int i = 0; g->driver->optional && i < GPU_OPTIONAL; i++)
		g->optional[i] = g->driver->optional[i] ? dlsym(g->library, g->driver->optional[i]) : NULL;
	*(void **)&version = dlsym(g->library, g->driver->version);
	if (version && version(&g->version))
		g->version = 0;
}

static int find_device(Gpu *g, int ordinal, TccErr *err)
{
	int n = 0, rc = g->f.init(0);
	if (!rc)
		rc = g->f.count(&n);
	if (rc || !n) {
		const char *why = rc ? g->driver->error(g, rc) : NULL;
		return tcc_fail(err, TCC_NO_DEVICE, "the %s driver finds no device%s%s", g->driver->what,
		                why ? ": " : "", why ? why : "");
	}
	if (ordinal >= n)
		return tcc_fail(err, TCC_NO_DEVICE, "there is no %s device %d; the driver finds %d",
		                g->driver->what, ordinal, n);
	return check(&g->dev, g->f.get(&g->device, ordinal), "opening the device", err);
}

static void put_version(const Gpu *g, char *text, size_t size, const char *before, int v)
{
	int big = g->driver->major;
	snprintf(text, size, "%s %s %d.%d", before, g->driver->what, v / big, v % big / (big / 100));
}

/* "NVIDIA L4, sm_89, driver for CUDA 12.4" */
static void describe(Gpu *g, char *text, size_t size)
{
	char name[128] = "?", arch[32] = "";
	g->f.name(name, sizeof name, g->device);
	if (g->driver->arch)
		g->driver->arch(g, arch, sizeof arch);
	int n = snprintf(text, size, "%s%s%s", name, *arch ? ", " : "", arch);
	if (g->version && n > 0 && (size_t)n < size)
		put_version(g, text + n, size - n, ", driver for", g->version);
}

/* code: why the driver refuses the images that fit; 0: none fits. */
static int unfit(Gpu *g, int code, TccErr *err)
{
	const TccModel *m = g->all;
	char device[256], list[160], needs[64] = "";
	int version = 0;
	describe(g, device, sizeof device);
	tcc_image_list(m, list, sizeof list);
	for (const TccModel *v = m; v && g->driver->needs && !version; v = v->next)
		version = v->image_kind == m->image_kind ? g->driver->needs(v) : 0;
	if (version)
		put_version(g, needs, sizeof needs, ", made for a driver of", version);
	const char *why = code ? g->driver->error(g, code) : NULL;
	bool old = code && g->version && version > g->version;
	return tcc_fail(err, TCC_NO_DEVICE, "the device (%s) cannot run what the program was compiled "
	                "for: %s%s%s%s; %s", device, list, needs, why ? "; the driver says: " : "",
	                why ? why : "", old ? "renew the driver"
	                : code ? "compile with its --target too, or renew the driver"
	                : "compile with its --target too");
}

static int load_module(Gpu *g, TccErr *err)
{
	const TccModel *m = g->dev.model;
	uint64_t *order = calloc(m->nimages + 1, sizeof *order);
	int rc = 0;
	if (!order)
		return tcc_no_memory(err, m->nimages);
	uint64_t n = g->driver->choose(g, order);
	for (uint64_t i = 0; i < n; i++) {
		rc = g->f.module_load(&g->module, m->images[order[i]].data);
		if (!rc)
			break;
		g->module = NULL;
	}
	free(order);
	return g->module ? 0 : unfit(g, rc, err);
}

static int find_kernels(Gpu *g, TccErr *err)
{
	const TccModel *m = g->dev.model;
	const TccMeta *h = tcc_meta(m);
	const TccKernel *k = tcc_rows(m, h->kernels);
	g->functions = calloc(h->kernels.count + 1, sizeof *g->functions);
	if (!g->functions)
		return tcc_no_memory(err, h->kernels.count);
	for (uint32_t i = 0; i < h->kernels.count; i++) {
		const char *name = tcc_string(m, k[i].symbol);
		int rc = g->f.function(&g->functions[i], g->module, name);
		if (!rc && k[i].shared + k[i].shared_static > STATIC_SHARED && g->driver->allow_shared)
			rc = g->driver->allow_shared(g, g->functions[i], k[i].shared);
		if (rc)
			return tcc_gpu_fail(g, rc, name, err);
	}
	return 0;
}

int tcc_gpu_open(const GpuDriver *driver, TccDevice **dev, const TccModel *m, const TccModel *all,
                 int ordinal, TccErr *err)
{
	Gpu *g = calloc(1, sizeof *g);
	if (!g)
		return tcc_no_memory(err, sizeof *g);
	g->dev = (TccDevice){.ops = driver->ops, .model = m, .ordinal = ordinal};
	g->driver = driver;
	g->all = all;
	int rc = open_library(g, err);
	if (!rc)
		rc = find_calls(g, driver->calls, sizeof g->f / sizeof(void *), (void **)&g->f, err);
	if (!rc)
		rc = find_calls(g, driver->more, driver->nmore, g->extra, err);
	if (!rc) {
		find_graphs(g);
		find_optional(g);
	}
	if (!rc)
		rc = find_device(g, ordinal, err);
	if (!rc && driver->ready)
		rc = driver->ready(g, err);
	if (!rc)
		rc = tcc_gpu_enter(&g->dev, err);
	if (!rc)
		rc = load_module(g, err);
	if (!rc)
		rc = find_kernels(g, err);
	if (rc) {
		tcc_gpu_close(&g->dev);
		return rc;
	}
	*dev = &g->dev;
	return 0;
}

/* The library stays: drivers do not like to be unloaded. */
void tcc_gpu_close(TccDevice *dev)
{
	Gpu *g = gpu(dev);
	if (g->module && !g->driver->enter(g))
		g->f.module_unload(g->module);
	if (g->driver->close)
		g->driver->close(g);
	free(g->functions);
	free(g);
}

/* --- work -------------------------------------------------------------------------------- */

int tcc_gpu_enter(TccDevice *dev, TccErr *err)
{
	return check(dev, gpu(dev)->driver->enter(gpu(dev)), "selecting the device", err);
}

int tcc_gpu_stream_new(TccDevice *dev, void **stream, TccErr *err)
{
	return check(dev, gpu(dev)->f.stream_new(stream, NON_BLOCKING), "making a stream", err);
}

void tcc_gpu_stream_free(TccDevice *dev, void *stream)
{
	gpu(dev)->f.stream_free(stream);
}

int tcc_gpu_alloc(TccDevice *dev, uint64_t bytes, void **p, TccErr *err)
{
	uint64_t at = 0;
	int rc = gpu(dev)->f.alloc(&at, bytes);
	*p = (void *)(uintptr_t)at;
	if (!rc)
		return 0;
	*p = NULL;
	return tcc_fail(err, TCC_BUDGET, "%s: no memory for %llu bytes on the device: %s",
	                gpu(dev)->driver->what, (unsigned long long)bytes,
	                gpu(dev)->driver->error(gpu(dev), rc));
}

void tcc_gpu_free(TccDevice *dev, void *p)
{
	gpu(dev)->f.free((uintptr_t)p);
}

int tcc_gpu_upload(TccDevice *dev, void *stream, void *dst, const void *src, uint64_t bytes,
                   TccErr *err)
{
	return check(dev, gpu(dev)->f.upload((uintptr_t)dst, src, bytes, stream), "upload", err);
}

int tcc_gpu_download(TccDevice *dev, void *stream, void *dst, const void *src, uint64_t bytes,
                     TccErr *err)
{
	return check(dev, gpu(dev)->f.download(dst, (uintptr_t)src, bytes, stream), "download", err);
}

int tcc_gpu_copy(TccDevice *dev, void *stream, void *dst, const void *src, uint64_t bytes,
                 TccErr *err)
{
	return check(dev, gpu(dev)->f.copy((uintptr_t)dst, (uintptr_t)src, bytes, stream), "copy", err);
}

int tcc_gpu_zero(TccDevice *dev, void *stream, void *dst, uint64_t bytes, TccErr *err)
{
	return check(dev, gpu(dev)->f.fill((uintptr_t)dst, 0, bytes, stream), "clearing memory", err);
}

int tcc_gpu_launch(TccDevice *dev, void *stream, const TccLaunch *l, TccErr *err)
{
	Gpu *g = gpu(dev);
	const TccModel *m = dev->model;
	const TccKernel *k = (const TccKernel *)tcc_rows(m, tcc_meta(m)->kernels) + l->kernel;
	int rc = -1;
	if (l->follows && k->flags & TCC_KERNEL_WAITS && g->driver->launch_early)
		rc = g->driver->launch_early(g, stream, k, g->functions[l->kernel], l);
	if (rc >= 0)
		return rc ? tcc_gpu_fail(g, rc, tcc_string(m, k->name), err) : 0;
	rc = g->f.launch(g->functions[l->kernel], (unsigned)l->grid[0], (unsigned)l->grid[1],
	                     (unsigned)l->grid[2], k->block[0], k->block[1], k->block[2], k->shared,
	                     stream, l->params, NULL);
	return rc ? tcc_gpu_fail(g, rc, tcc_string(m, k->name), err) : 0;
}

void *tcc_gpu_pin(TccDevice *dev, uint64_t bytes)
{
	void *p = NULL;
	return gpu(dev)->f.pin(&p, bytes, 0) ? NULL : p;
}

void tcc_gpu_unpin(TccDevice *dev, void *p)
{
	gpu(dev)->f.unpin(p);
}

int tcc_gpu_sync(TccDevice *dev, void *stream, TccErr *err)
{
	return check(dev, gpu(dev)->f.stream_sync(stream), "running the kernels", err);
}

/* --- graphs ------------------------------------------------------------------------------ */

/* What a list is recorded with: a stream for each lane, an event for each piece that another
 * lane waits for. */
typedef struct Recorder {
	Gpu *g;
	const TccWork *list;
	uint32_t n;
	void *stream[TCC_LANES];        /* lane 0: the caller's */
	bool begun[TCC_LANES];
	void **event;                   /* per piece, then one for the start and one for each lane's end */
} Recorder;

static void *event(Recorder *r, uint32_t i, int *rc)
{
	if (!*rc && !r->event[i])
		*rc = r->g->graphs.event_new(&r->event[i], NO_TIMING);
	return r->event[i];
}

static int record(Recorder *r, uint32_t i, int lane)
{
	int rc = 0;
	void *e = event(r, i, &rc);
	return rc ? rc : r->g->graphs.record(e, r->stream[lane]);
}

/* A lane's stream belongs to the recording once it waits for something of it. */
static int begin_lane(Recorder *r, const TccWork *w)
{
	int rc = 0;
	if (!r->stream[w->lane])
		rc = r->g->f.stream_new(&r->stream[w->lane], NON_BLOCKING);
	if (!rc && w->lane && !r->begun[w->lane])
		rc = r->g->graphs.wait(r->stream[w->lane], r->event[r->n], 0);
	r->begun[w->lane] = true;
	for (int l = 0; !rc && l < TCC_LANES; l++)
		if (w->wait[l])
			rc = r->g->graphs.wait(r->stream[w->lane], r->event[w->wait[l] - 1], 0);
	return rc;
}

/* 0, a code of the driver's, or a negative one of ours with its message. */
static int record_piece(Recorder *r, uint32_t i, TccErr *err)
{
	const TccWork *w = &r->list[i];
	int rc = begin_lane(r, w);
	if (rc)
		return rc;
	if (tcc_issue(&r->g->dev, r->stream[w->lane], w, w->follows, err))
		return -1;
	return w->signals ? record(r, i, w->lane) : 0;
}

static int record_all(Recorder *r, TccErr *err)
{
	int rc = record(r, r->n, 0);
	r->begun[0] = true;
	for (uint32_t i = 0; !rc && i < r->n; i++)
		rc = record_piece(r, i, err);
	for (int l = 1; l < TCC_LANES; l++) {
		if (!r->begun[l])
			continue;
		/* even after a failure: a recording whose streams have not met again cannot be ended */
		int met = record(r, r->n + (uint32_t)l, l);
		if (!met)
			met = r->g->graphs.wait(r->stream[0], r->event[r->n + (uint32_t)l], 0);
		rc = rc ? rc : met;
	}
	return rc;
}

static void recorder_free(Recorder *r)
{
	for (uint32_t i = 0; i < r->n + TCC_LANES; i++)
		if (r->event[i])
			r->g->graphs.event_free(r->event[i]);
	for (int l = 1; l < TCC_LANES; l++)
		if (r->stream[l])
			r->g->f.stream_free(r->stream[l]);
	free(r->event);
}

int tcc_gpu_graph_new(TccDevice *dev, void *stream, const TccWork *list, uint32_t n, void **graph,
                      TccErr *err)
{
	Gpu *g = gpu(dev);
	Recorder r = {.g = g, .list = list, .n = n, .stream = {stream}};
	void *recorded = NULL;
	if (!g->graphs.begin)
		return tcc_fail(err, TCC_UNSUPPORTED, "the %s driver has no graphs", g->driver->what);
	r.event = calloc((size_t)n + TCC_LANES, sizeof *r.event);
	if (!r.event)
		return tcc_no_memory(err, n * sizeof *r.event);
	int rc = g->graphs.begin(stream, CAPTURE_THREAD_LOCAL);
	if (!rc) {
		rc = record_all(&r, err);
		int end = g->graphs.end(stream, &recorded);
		rc = rc ? rc : end;
	}
	if (!rc)
		rc = g->graphs.instantiate(graph, recorded, 0);
	if (recorded)
		g->graphs.destroy(recorded);
	recorder_free(&r);
	return rc < 0 ? err->code : check(dev, rc, "making a graph", err);
}

int tcc_gpu_graph_launch(TccDevice *dev, void *stream, void *graph, TccErr *err)
{
	return check(dev, gpu(dev)->graphs.launch(graph, stream), "launching a graph", err);
}

void tcc_gpu_graph_free(TccDevice *dev, void *graph)
{
	gpu(dev)->graphs.destroy_exec(graph);
}
