/* The HIP body: libamdhip64, which has a driver-like API beside the one for C++. */
#include "gpu.h"

static const char *const calls[] = {
	"hipInit", "hipGetDeviceCount", "hipDeviceGet", "hipDeviceGetName", "hipModuleLoadData",
	"hipModuleUnload", "hipModuleGetFunction", "hipMalloc", "hipFree", "hipMemcpyHtoDAsync",
	"hipMemcpyDtoHAsync", "hipMemcpyDtoDAsync", "hipMemsetD8Async", "hipStreamCreateWithFlags",
	"hipStreamDestroy", "hipStreamSynchronize", "hipModuleLaunchKernel",
};
_Static_assert(sizeof calls == sizeof(GpuCalls), "a name for each call");

static const char *const graphs[] = {
	"hipStreamBeginCapture", "hipStreamEndCapture", "hipGraphInstantiateWithFlags", "hipGraphDestroy",
	"hipGraphLaunch", "hipGraphExecDestroy",
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

/* The loader refuses a code object of another machine, so each may be tried. */
static uint64_t choose(Gpu *g, uint64_t *order)
{
	for (uint64_t i = 0; i < g->dev.model->nimages; i++)
		order[i] = i;
	return g->dev.model->nimages;
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
};

static int open_hip(TccDevice **dev, const TccModel *m, int ordinal, TccErr *err)
{
	return tcc_gpu_open(&driver, dev, m, ordinal, err);
}

const TccDeviceOps tcc_device_hip = {
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
	.graph_new = tcc_gpu_graph_new,
	.graph_launch = tcc_gpu_graph_launch,
	.graph_free = tcc_gpu_graph_free,
};
