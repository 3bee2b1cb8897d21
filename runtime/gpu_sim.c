/* The simulator as a device: kernels of a shared object, run by device/sim.h. Global memory is
 * host memory that the simulator watches. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "device/sim.h"
#include "rt.h"

_Static_assert(TCC_MAP_RANK == SIM_MAP_RANK, "one rank");

typedef struct SimDevice {
	TccDevice dev;
	pthread_mutex_t lock;   /* one Sim for all contexts */
	Sim *sim;
	int file;               /* the object, from which the simulator reads source lines */
	void *object;
	SimKernel **kernels;
} SimDevice;

/* Shared memory that a block may ask for, by the start of the machine's name. */
static const struct { const char *arch; uint64_t shared; int warp; } machines[] = {
	{"sm_75",  64 << 10, 32}, {"sm_86",  99 << 10, 32}, {"sm_89", 99 << 10, 32},
	{"sm_8",  163 << 10, 32}, {"sm_12",  99 << 10, 32}, {"sm_",  227 << 10, 32},
	{"gfx950", 160 << 10, 64}, {"gfx9", 64 << 10, 64}, {"", 64 << 10, 32},
};

static SimDevice *sim(TccDevice *dev)
{
	return (SimDevice *)dev;
}

struct Sim *tcc_device_simulator(TccDevice *dev)
{
	return dev->ops == &tcc_device_sim ? sim(dev)->sim : NULL;
}

static void sim_close(TccDevice *dev)
{
	SimDevice *d = sim(dev);
	sim_free(d->sim);
	if (d->object)
		dlclose(d->object);
	if (d->file >= 0)
		close(d->file);
	pthread_mutex_destroy(&d->lock);
	free(d->kernels);
	free(d);
}

/* Puts the image where the dynamic linker can read it. */
static int write_object(SimDevice *d, const TccImage *image, TccErr *err)
{
	const char *p = image->data;
	d->file = memfd_create("kernels", MFD_CLOEXEC);
	for (uint64_t at = 0; d->file >= 0 && at < image->size;) {
		ssize_t n = write(d->file, p + at, image->size - at);
		if (n <= 0)
			return tcc_fail(err, TCC_NO_DEVICE, "the simulator's kernels cannot be written");
		at += n;
	}
	return d->file >= 0 ? 0 : tcc_fail(err, TCC_NO_DEVICE, "the simulator needs memfd_create");
}

static int open_object(SimDevice *d, const TccImage *image, TccErr *err)
{
	char path[64];
	const char *name = image->data;
	if (image->size) {
		int rc = write_object(d, image, err);
		if (rc)
			return rc;
		snprintf(path, sizeof path, "/proc/self/fd/%d", d->file);
		name = path;
	}
	d->object = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	return d->object ? 0 : tcc_fail(err, TCC_NO_DEVICE, "the simulator cannot open its kernels: %s",
	                                dlerror());
}

static int find_kernels(SimDevice *d, TccErr *err)
{
	const TccModel *m = d->dev.model;
	const TccMeta *h = tcc_meta(m);
	const TccKernel *k = tcc_rows(m, h->kernels);
	d->kernels = calloc(h->kernels.count + 1, sizeof *d->kernels);
	if (!d->kernels)
		return tcc_no_memory(err, h->kernels.count);
	for (uint32_t i = 0; i < h->kernels.count; i++) {
		char name[300];
		snprintf(name, sizeof name, "%s__sim", tcc_string(m, k[i].symbol));
		*(void **)&d->kernels[i] = dlsym(d->object, name);
		if (!d->kernels[i])
			return tcc_fail(err, TCC_NO_DEVICE, "the simulator's kernels lack %s", name);
	}
	return 0;
}

static uint64_t from_environment(const char *name, uint64_t other)
{
	const char *text = getenv(name);
	unsigned long long v = text ? strtoull(text, NULL, 10) : 0;
	return v && v <= UINT32_MAX ? v : other;
}

static int make_sim(SimDevice *d, const TccImage *image, TccErr *err)
{
	size_t i = 0;
	while (strncmp(image->arch, machines[i].arch, strlen(machines[i].arch)))
		i++;
	/* a traced object calls the simulator's hooks by name */
	bool traced = !image->size || memmem(image->data, image->size, "__tsan_", 7);
	SimConfig c = {
		.warp = machines[i].warp,
		.max_shared = machines[i].shared,
		.traced = traced,
		.count = traced,
		/* for tests: what memory moves, for a second cache of so many bytes and so many blocks
		 * at once */
		.l2 = traced ? from_environment("TCC_SIM_L2", 0) : 0,
		.at_once = (uint32_t)from_environment("TCC_SIM_BLOCKS", 1),
	};
	d->sim = sim_new(&c);
	return d->sim ? 0 : tcc_fail(err, TCC_NO_DEVICE, "the simulator cannot be made");
}

static int sim_open(TccDevice **dev, const TccModel *m, const TccModel *all, int ordinal,
                    TccErr *err)
{
	(void)all;
	if (!m->nimages || ordinal)
		return tcc_fail(err, TCC_NO_DEVICE, "there is no simulated device %d", ordinal);
	SimDevice *d = calloc(1, sizeof *d);
	if (!d)
		return tcc_no_memory(err, sizeof *d);
	d->dev = (TccDevice){.ops = &tcc_device_sim, .model = m};
	d->file = -1;
	pthread_mutex_init(&d->lock, NULL);
	int rc = open_object(d, &m->images[0], err);
	if (!rc)
		rc = make_sim(d, &m->images[0], err);
	if (!rc)
		rc = find_kernels(d, err);
	if (rc) {
		sim_close(&d->dev);
		return rc;
	}
	*dev = &d->dev;
	return 0;
}

static int sim_enter(TccDevice *dev, TccErr *err)
{
	(void)dev, (void)err;
	return 0;
}

static int sim_stream_new(TccDevice *dev, void **stream, TccErr *err)
{
	(void)dev, (void)err;
	*stream = NULL;
	return 0;
}

static void sim_stream_free(TccDevice *dev, void *stream)
{
	(void)dev, (void)stream;
}

static int sim_malloc(TccDevice *dev, uint64_t bytes, void **p, TccErr *err)
{
	pthread_mutex_lock(&sim(dev)->lock);
	*p = sim_alloc(sim(dev)->sim, bytes);
	pthread_mutex_unlock(&sim(dev)->lock);
	return *p ? 0 : tcc_no_memory(err, bytes);
}

static void sim_mfree(TccDevice *dev, void *p)
{
	pthread_mutex_lock(&sim(dev)->lock);
	sim_release(sim(dev)->sim, p);
	pthread_mutex_unlock(&sim(dev)->lock);
}

static void written(TccDevice *dev, const void *p, uint64_t bytes)
{
	pthread_mutex_lock(&sim(dev)->lock);
	sim_written(sim(dev)->sim, p, bytes);
	pthread_mutex_unlock(&sim(dev)->lock);
}

/* The first new finding is the error; the others are in the simulator's report. */
static int found(SimDevice *d, int code, int before, const char *what, TccErr *err)
{
	const SimFinding *list;
	int n;
	if (code == SIM_OK)
		return 0;
	if (code == SIM_NOMEM)
		return tcc_no_memory(err, 0);
	if (code == SIM_FINDINGS && (n = sim_findings(d->sim, &list)) > 0) {
		const SimFinding *f = &list[before < n ? before : n - 1];
		return tcc_fail(err, TCC_BUG, "simulator: %s: %s", f->kind, f->text);
	}
	return tcc_fail(err, TCC_BUG, "simulator: %s: an invalid launch", what);
}

static int sim_upload(TccDevice *dev, void *stream, void *dst, const void *src, uint64_t bytes,
                      TccErr *err)
{
	(void)stream, (void)err;
	memcpy(dst, src, bytes);
	written(dev, dst, bytes);
	return 0;
}

static int sim_download(TccDevice *dev, void *stream, void *dst, const void *src, uint64_t bytes,
                        TccErr *err)
{
	SimDevice *d = sim(dev);
	(void)stream;
	const SimFinding *list;
	pthread_mutex_lock(&d->lock);
	int before = sim_findings(d->sim, &list);
	int rc = found(d, sim_host_reads(d->sim, src, bytes, "a result"), before, "a result", err);
	pthread_mutex_unlock(&d->lock);
	memcpy(dst, src, bytes);
	return rc;
}

static int sim_copy(TccDevice *dev, void *stream, void *dst, const void *src, uint64_t bytes,
                    TccErr *err)
{
	(void)stream, (void)err;
	memmove(dst, src, bytes);
	written(dev, dst, bytes);
	return 0;
}

static int sim_zero(TccDevice *dev, void *stream, void *dst, uint64_t bytes, TccErr *err)
{
	(void)stream, (void)err;
	memset(dst, 0, bytes);
	written(dev, dst, bytes);
	return 0;
}

static int make_map(TccDevice *dev, const TccBox *b, TccMapArg *arg, TccErr *err)
{
	const TccMap *r = b->row;
	SimTensor t = {.p = b->p, .rank = (int)r->rank, .size = (int)b->size,
		.swizzle = (int)r->swizzle, .gathers = r->gathers};
	(void)dev;
	for (int i = 0; i < TCC_MAP_RANK; i++) {
		t.dim[i] = b->dim[i];
		t.stride[i] = b->stride[i];
		t.box[i] = r->box[i];
		t.step[i] = r->step[i];
	}
	memcpy(t.lower, b->lower, sizeof t.lower);
	memcpy(t.upper, b->upper, sizeof t.upper);
	const char *why = sim_map(&t, arg);
	return why ? tcc_fail(err, TCC_BUG, "simulator: a tensor map breaks a rule: %s", why) : 0;
}

static int sim_run(TccDevice *dev, void *stream, const TccLaunch *l, TccErr *err)
{
	SimDevice *d = sim(dev);
	const TccModel *m = dev->model;
	const TccKernel *k = (const TccKernel *)tcc_rows(m, tcc_meta(m)->kernels) + l->kernel;
	const char *name = tcc_string(m, k->name);
	uint32_t grid[3] = {(uint32_t)l->grid[0], (uint32_t)l->grid[1], (uint32_t)l->grid[2]};
	const SimFinding *list;
	int rc = SIM_OK;
	(void)stream;
	pthread_mutex_lock(&d->lock);
	int before = sim_findings(d->sim, &list);
	for (uint32_t i = 0; i < l->nbufs && rc == SIM_OK; i++)
		if (l->sizes[i])
			rc = sim_view(d->sim, *(void **)l->params[i], l->sizes[i], l->names[i]);
	if (l->err && rc == SIM_OK)
		rc = sim_view(d->sim, l->err, sizeof *l->err, "err");
	if (rc == SIM_OK)
		rc = sim_launch(d->sim, d->kernels[l->kernel], name, grid, k->block, k->shared, l->params);
	rc = found(d, rc, before, name, err);
	pthread_mutex_unlock(&d->lock);
	return rc;
}

static int sim_sync(TccDevice *dev, void *stream, TccErr *err)
{
	(void)dev, (void)stream, (void)err;
	return 0;
}

static void sim_forget(TccDevice *dev, void *p, uint64_t bytes)
{
	if (!bytes)
		return;
	pthread_mutex_lock(&sim(dev)->lock);
	sim_undefined(sim(dev)->sim, p, bytes);
	pthread_mutex_unlock(&sim(dev)->lock);
}

/* A graph is its list, issued in an order as far from the list's as the lanes allow: the last
 * lane first. */
typedef struct SimGraph { const TccWork *list; uint32_t n; } SimGraph;

static int sim_graph_new(TccDevice *dev, void *stream, const TccWork *list, uint32_t n,
                         void **graph, TccErr *err)
{
	SimGraph *g = malloc(sizeof *g);
	(void)dev, (void)stream;
	if (!g)
		return tcc_no_memory(err, sizeof *g);
	*g = (SimGraph){list, n};
	*graph = g;
	return 0;
}

/* The lane's first piece from i on. */
static uint32_t seek(const SimGraph *g, uint32_t i, int lane)
{
	while (i < g->n && g->list[i].lane != lane)
		i++;
	return i;
}

static bool ready(const SimGraph *g, uint32_t i, const uint32_t next[TCC_LANES])
{
	for (int l = 0; i < g->n && l < TCC_LANES; l++)
		if (g->list[i].wait[l] && next[l] < g->list[i].wait[l])
			return false;
	return i < g->n;
}

static int sim_graph_launch(TccDevice *dev, void *stream, void *graph, TccErr *err)
{
	const SimGraph *g = graph;
	uint32_t next[TCC_LANES] = {0};
	int rc = 0, lane = TCC_LANES - 1;
	for (int l = 0; l < TCC_LANES; l++)
		next[l] = seek(g, 0, l);
	while (!rc && lane >= 0) {
		if (!ready(g, next[lane], next)) {
			lane--;
			continue;
		}
		rc = tcc_issue(dev, stream, &g->list[next[lane]], g->list[next[lane]].follows, err);
		next[lane] = seek(g, next[lane] + 1, lane);
		lane = TCC_LANES - 1;
	}
	return rc;
}

static void sim_graph_free(TccDevice *dev, void *graph)
{
	(void)dev;
	free(graph);
}

const TccDeviceOps tcc_device_sim = {
	.queue = &tcc_queue_ops,
	.name = "sim",
	.image_kind = TCC_IMAGE_SIM,
	.device_type = TCC_DEV_SIM,
	.open = sim_open,
	.close = sim_close,
	.enter = sim_enter,
	.stream_new = sim_stream_new,
	.stream_free = sim_stream_free,
	.alloc = sim_malloc,
	.free = sim_mfree,
	.upload = sim_upload,
	.download = sim_download,
	.copy = sim_copy,
	.zero = sim_zero,
	.map = make_map,
	.launch = sim_run,
	.sync = sim_sync,
	.forget = sim_forget,
	.graph_new = sim_graph_new,
	.graph_launch = sim_graph_launch,
	.graph_free = sim_graph_free,
};
