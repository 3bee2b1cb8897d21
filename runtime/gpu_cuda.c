/* The CUDA body: libcuda's driver API. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "gpu.h"

static const char *const calls[] = {
	"cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuModuleLoadData",
	"cuModuleUnload", "cuModuleGetFunction", "cuMemAlloc_v2", "cuMemFree_v2",
	"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemsetD8Async",
	"cuStreamCreate", "cuStreamDestroy_v2", "cuStreamSynchronize", "cuLaunchKernel",
	"cuMemHostAlloc", "cuMemFreeHost",
};
_Static_assert(sizeof calls == sizeof(GpuCalls), "a name for each call");

static const char *const graphs[] = {
	"cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags",
	"cuGraphDestroy",
	"cuGraphLaunch", "cuGraphExecDestroy", "cuEventCreate", "cuEventDestroy_v2", "cuEventRecord",
	"cuStreamWaitEvent",
};
_Static_assert(sizeof graphs == sizeof(GpuGraphs), "a name for each call");

enum { RETAIN, RELEASE, SET_CURRENT, ATTRIBUTE, SET_FUNCTION, ERROR_STRING, NMORE };

static const char *const more[NMORE] = {
	"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2", "cuCtxSetCurrent",
	"cuDeviceGetAttribute", "cuFuncSetAttribute", "cuGetErrorString",
};

/* Values of cuda.h */
enum { MAJOR = 75, MINOR = 76, MAX_DYNAMIC_SHARED = 8 };

typedef int Retain(void **context, int device);
typedef int Release(int device);
typedef int SetCurrent(void *context);
typedef int Attribute(int *value, int which, int device);
typedef int SetFunction(void *function, int which, int value);
typedef int ErrorString(int code, const char **text);

/* What an old driver may lack. */
enum { LAUNCH_EX, MAP_TILED, MAP_IM2COL };

static const char *const optional[GPU_OPTIONAL] = {
	"cuLaunchKernelEx", "cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col",
};

static int ready(Gpu *g, TccErr *err)
{
	int rc = ((Retain *)g->extra[RETAIN])(&g->context, g->device);
	if (!rc)
		return 0;
	g->context = NULL;
	return tcc_gpu_fail(g, rc, "making a context", err);
}

static int enter(Gpu *g)
{
	return ((SetCurrent *)g->extra[SET_CURRENT])(g->context);
}

static void release(Gpu *g)
{
	if (g->context)
		((Release *)g->extra[RELEASE])(g->device);
}

static const char *error(Gpu *g, int code)
{
	const char *text = NULL;
	((ErrorString *)g->extra[ERROR_STRING])(code, &text);
	return text;
}

static int allow_shared(Gpu *g, void *function, unsigned bytes)
{
	return ((SetFunction *)g->extra[SET_FUNCTION])(function, MAX_DYNAMIC_SHARED, (int)bytes);
}

/*
 * How well an image fits a device of compute capability cc (89 for 8.9); 0: not at all. A cubin
 * runs on its own minor version and later ones of the same major, with a letter (sm_90a) on that
 * one alone; PTX runs on its version and everything later, after compilation by the driver.
 */
static int fitness(const char *arch, int cc)
{
	bool cubin = !strncmp(arch, "sm_", 3);
	const char *digits = arch + (cubin ? 3 : 8);
	char *end;
	if (!cubin && strncmp(arch, "compute_", 8))
		return 0;
	int v = (int)strtol(digits, &end, 10);
	if (v > cc || (*end && v != cc) || (cubin && v / 10 != cc / 10))
		return 0;
	return v + (cubin ? 1000 : 0) + (*end ? 1 : 0);
}

static int capability(Gpu *g)
{
	int major = 0, minor = 0;
	((Attribute *)g->extra[ATTRIBUTE])(&major, MAJOR, g->device);
	((Attribute *)g->extra[ATTRIBUTE])(&minor, MINOR, g->device);
	return 10 * major + minor;
}

static void arch(Gpu *g, char *text, size_t size)
{
	snprintf(text, size, "sm_%d", capability(g));
}

/*
 * The CUDA version whose driver takes the images, from the PTX's own: 7.0 came with CUDA 11.0, 8.0
 * with 12.0, 9.0 with 13.0. A toolkit's cubins need a driver of its major version, its PTX one of
 * its minor version too.
 */
static int needs(const TccModel *m)
{
	int major = 0, minor = 0;
	for (uint64_t i = 0; i < m->nimages; i++) {
		const char *v = strncmp(m->images[i].arch, "compute_", 8) ? NULL
			: strstr(m->images[i].data, ".version ");
		if (v && sscanf(v, ".version %d.%d", &major, &minor) == 2 && major >= 7)
			return (major + 4) * 1000 + minor * 10;
	}
	return 0;
}

static uint64_t choose(Gpu *g, uint64_t *order)
{
	const TccModel *m = g->dev.model;
	uint64_t n = 0;
	int cc = capability(g);
	for (uint64_t i = 0; i < m->nimages; i++) {
		int fit = fitness(m->images[i].arch, cc);
		if (!fit)
			continue;
		uint64_t at = n++;
		for (; at && fitness(m->images[order[at - 1]].arch, cc) < fit; at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
	return n;
}

/* CUlaunchAttribute, CUlaunchConfig */
typedef struct LaunchAttribute {
	uint64_t id;
	union { int on; char bytes[64]; } value;
} LaunchAttribute;
typedef struct LaunchConfig {
	unsigned grid[3], block[3], shared;
	void *stream;
	LaunchAttribute *attributes;
	unsigned nattributes;
} LaunchConfig;
typedef int LaunchEx(const LaunchConfig *c, void *function, void **params, void **extra);

enum { PROGRAMMATIC_SERIALIZATION = 6, RECORDS_EARLY = 12030 };

/* A programmatic dependent launch; recorded ones keep it from CUDA 12.3 on. */
static int launch_early(Gpu *g, void *stream, const TccKernel *k, void *function,
                        const TccLaunch *l)
{
	LaunchAttribute early = {.id = PROGRAMMATIC_SERIALIZATION, .value.on = 1};
	LaunchConfig c = {
		.grid = {(unsigned)l->grid[0], (unsigned)l->grid[1], (unsigned)l->grid[2]},
		.block = {k->block[0], k->block[1], k->block[2]},
		.shared = k->shared, .stream = stream, .attributes = &early, .nattributes = 1,
	};
	if (g->version < RECORDS_EARLY || !g->optional[LAUNCH_EX])
		return -1;
	return ((LaunchEx *)g->optional[LAUNCH_EX])(&c, function, l->params, NULL);
}

static const GpuDriver driver = {
	.ops = &tcc_device_cuda,
	.what = "CUDA",
	.libraries = {"libcuda.so.1", "libcuda.so"},
	.calls = calls,
	.graphs = graphs,
	.more = more,
	.nmore = NMORE,
	.hint = "it comes with NVIDIA's display driver",
	.version = "cuDriverGetVersion",
	.major = 1000,
	.arch = arch,
	.ready = ready,
	.enter = enter,
	.error = error,
	.choose = choose,
	.close = release,
	.allow_shared = allow_shared,
	.launch_early = launch_early,
	.optional = optional,
	.needs = needs,
};

/* Values of cuda.h, by size of an element */
enum { MAP_U8 = 0, MAP_U16 = 1, MAP_F32 = 7, PROMOTE_256 = 3 };

typedef int EncodeTiled(void *map, int type, uint32_t rank, void *p, const uint64_t *dim,
                        const uint64_t *stride, const uint32_t *box, const uint32_t *step,
                        int interleave, int swizzle, int promote, int fill);
typedef int EncodeIm2col(void *map, int type, uint32_t rank, void *p, const uint64_t *dim,
                         const uint64_t *stride, const int *lower, const int *upper,
                         uint32_t channels, uint32_t pixels, const uint32_t *step, int interleave,
                         int swizzle, int promote, int fill);

/* cuTensorMapEncodeTiled or Im2col: a driver for CUDA 12 or later has them. */
static int make_map(TccDevice *dev, const TccBox *b, TccMapArg *arg, TccErr *err)
{
	const TccMap *r = b->row;
	Gpu *g = (Gpu *)dev;
	void *fn = g->optional[r->gathers ? MAP_IM2COL : MAP_TILED];
	int type = b->size == 1 ? MAP_U8 : b->size == 2 ? MAP_U16 : MAP_F32, lower[TCC_MAP_RANK],
		upper[TCC_MAP_RANK];
	int swizzle = r->swizzle == 128 ? 3 : r->swizzle == 64 ? 2 : r->swizzle == 32 ? 1 : 0;
	uint64_t dim[TCC_MAP_RANK], stride[TCC_MAP_RANK];
	if (!fn)
		return tcc_fail(err, TCC_NO_DEVICE, "the CUDA driver is too old: it makes no tensor maps");
	for (int i = 0; i < TCC_MAP_RANK; i++) {
		dim[i] = (uint64_t)b->dim[i];
		stride[i] = i + 1 < TCC_MAP_RANK ? (uint64_t)b->stride[i + 1] : 0;
	}
	for (int i = 0; i < TCC_MAP_RANK - 2; i++) {
		lower[i] = (int)b->lower[i];
		upper[i] = (int)b->upper[i];
	}
	int rc = r->gathers
		? ((EncodeIm2col *)fn)(arg, type, r->rank, b->p, dim, stride, lower, upper, r->box[0],
		                       r->box[1], r->step, 0, swizzle, PROMOTE_256, 0)
		: ((EncodeTiled *)fn)(arg, type, r->rank, b->p, dim, stride, r->box, r->step, 0, swizzle,
		                      PROMOTE_256, 0);
	return rc ? tcc_gpu_fail(g, rc, "making a tensor map", err) : 0;
}

static int open_cuda(TccDevice **dev, const TccModel *m, const TccModel *all, int ordinal,
                     TccErr *err)
{
	return tcc_gpu_open(&driver, dev, m, all, ordinal, err);
}

const TccDeviceOps tcc_device_cuda = {
	.queue = &tcc_queue_ops,
	.name = "cuda",
	.image_kind = TCC_IMAGE_CUDA,
	.device_type = TCC_DEV_CUDA,
	.open = open_cuda,
	.close = tcc_gpu_close,
	.enter = tcc_gpu_enter,
	.stream_new = tcc_gpu_stream_new,
	.stream_free = tcc_gpu_stream_free,
	.alloc = tcc_gpu_alloc,
	.free = tcc_gpu_free,
	.upload = tcc_gpu_upload,
	.download = tcc_gpu_download,
	.copy = tcc_gpu_copy,
	.zero = tcc_gpu_zero,
	.map = make_map,
	.launch = tcc_gpu_launch,
	.sync = tcc_gpu_sync,
	.pin = tcc_gpu_pin,
	.unpin = tcc_gpu_unpin,
	.graph_new = tcc_gpu_graph_new,
	.graph_launch = tcc_gpu_graph_launch,
	.graph_free = tcc_gpu_graph_free,
};
