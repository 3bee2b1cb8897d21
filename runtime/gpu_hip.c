/* The HIP body: libamdhip64, which has a driver-like API beside the one for C++. */
#include <stdlib.h>
#include <string.h>
#include "gpu.h"

static const char *const calls[] = {
	"hipInit", "hipGetDeviceCount", "hipDeviceGet", "hipDeviceGetName", "hipModuleLoadData",
	"hipModuleUnload", "hipModuleGetFunction", "hipMalloc", "hipFree", "hipMemcpyHtoDAsync",
	"hipMemcpyDtoHAsync", "hipMemcpyDtoDAsync", "hipMemsetD8Async", "hipStreamCreateWithFlags",
	"hipStreamDestroy", "hipStreamSynchronize", "hipModuleLaunchKernel", "hipHostMalloc",
	"hipHostFree",
};
_Static_assert(sizeof calls == sizeof(GpuCalls), "a name for each call");

static const char *const graphs[] = {
	"hipStreamBeginCapture", "hipStreamEndCapture", "hipGraphInstantiateWithFlags",
	"hipGraphDestroy",
	"hipGraphLaunch", "hipGraphExecDestroy", "hipEventCreateWithFlags", "hipEventDestroy",
	"hipEventRecord", "hipStreamWaitEvent",
};
_Static_assert(sizeof graphs == sizeof(GpuGraphs), "a name for each call");

enum { SET_DEVICE, ERROR_STRING, NMORE };

static const char *const more[NMORE] = {"hipSetDevice", "hipGetErrorString"};

typedef int SetDevice(int ordinal);
typedef const char *ErrorString(int code);

static int enter(Gpu *g)
{
	return ((SetDevice *)g->extra[SET_DEVICE])(g->dev.ordinal);
}

static const char *error(Gpu *g, int code)
{
	return ((ErrorString *)g->extra[ERROR_STRING])(code);
}

/* What an old driver may lack; hipDeviceProp_t has changed its form with this name. */
enum { PROPERTIES, PROPERTIES_OLD };

static const char *const optional[GPU_OPTIONAL] = {"hipGetDevicePropertiesR0600",
	"hipGetDeviceProperties"};

typedef int Properties(void *properties, int device);

/* "gfx942" of "gfx942:sramecc+:xnack-": where it stands among the properties differs from one
 * version to the next, but nothing else there begins so. */
static void arch(Gpu *g, char *text, size_t size)
{
	static const size_t most = 8192;
	char *all = calloc(1, most + 16);
	void *fn = g->optional[PROPERTIES] ? g->optional[PROPERTIES] : g->optional[PROPERTIES_OLD];
	*text = 0;
	if (all && fn && !((Properties *)fn)(all, g->device))
		for (size_t i = 0; i < most && !*text; i++)
			if (!strncmp(all + i, "gfx", 3) && all[i + 3] >= '1' && all[i + 3] <= '9')
				snprintf(text, size, "%.*s", (int)strcspn(all + i, ":"), all + i);
	free(all);
}

/* The code object of the device's architecture; where that is not known each is tried, since the
 * loader refuses another machine's. */
static uint64_t choose(Gpu *g, uint64_t *order)
{
	const TccModel *m = g->dev.model;
	char name[64];
	uint64_t n = 0;
	arch(g, name, sizeof name);
	for (uint64_t i = 0; i < m->nimages; i++)
		if (!*name || !strcmp(name, m->images[i].arch))
			order[n++] = i;
	return n;
}

static const GpuDriver driver = {
	.ops = &tcc_device_hip,
	.what = "HIP",
	.libraries = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"},
	.calls = calls,
	.graphs = graphs,
	.more = more,
	.nmore = NMORE,
	.hint = "it comes with AMD's ROCm runtime",
	.version = "hipDriverGetVersion",
	.major = 10000000,
	.enter = enter,
	.error = error,
	.choose = choose,
	.arch = arch,
	.optional = optional,
};

static int open_hip(TccDevice **dev, const TccModel *m, const TccModel *all, int ordinal,
                    TccErr *err)
{
	return tcc_gpu_open(&driver, dev, m, all, ordinal, err);
}

const TccDeviceOps tcc_device_hip = {
	.queue = &tcc_queue_ops,
	.name = "hip",
	.image_kind = TCC_IMAGE_HIP,
	.device_type = TCC_DEV_HIP,
	.open = open_hip,
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
	.launch = tcc_gpu_launch,
	.sync = tcc_gpu_sync,
	.pin = tcc_gpu_pin,
	.unpin = tcc_gpu_unpin,
	.graph_new = tcc_gpu_graph_new,
	.graph_launch = tcc_gpu_graph_launch,
	.graph_free = tcc_gpu_graph_free,
};
