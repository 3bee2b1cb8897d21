/* gpu.h - what the CUDA and HIP bodies share: their driver APIs are one in all but names. */
#ifndef TCC_GPU_H
#define TCC_GPU_H

#include "rt.h"

/* Addresses of the device are integers here; both drivers pass them as 64-bit values. */
typedef struct GpuCalls {
	int (*init)(unsigned flags);
	int (*count)(int *n);
	int (*get)(int *device, int ordinal);
	int (*name)(char *name, int size, int device);
	int (*module_load)(void **module, const void *image);
	int (*module_unload)(void *module);
	int (*function)(void **function, void *module, const char *name);
	int (*alloc)(uint64_t *p, size_t bytes);
	int (*free)(uint64_t p);
	int (*upload)(uint64_t dst, const void *src, size_t bytes, void *stream);
	int (*download)(void *dst, uint64_t src, size_t bytes, void *stream);
	int (*copy)(uint64_t dst, uint64_t src, size_t bytes, void *stream);
	int (*fill)(uint64_t dst, unsigned char byte, size_t bytes, void *stream);
	int (*stream_new)(void **stream, unsigned flags);
	int (*stream_free)(void *stream);
	int (*stream_sync)(void *stream);
	int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
	              unsigned bz, unsigned shared, void *stream, void **params, void **extra);
	int (*pin)(void **p, size_t bytes, unsigned flags);
	int (*unpin)(void *p);
} GpuCalls;

/* Graphs, recorded from a stream; an old driver may lack them. */
typedef struct GpuGraphs {
	int (*begin)(void *stream, int mode);
	int (*end)(void *stream, void **graph);
	int (*instantiate)(void **exec, void *graph, unsigned long long flags);
	int (*destroy)(void *graph);
	int (*launch)(void *exec, void *stream);
	int (*destroy_exec)(void *exec);
	int (*event_new)(void **event, unsigned flags);
	int (*event_free)(void *event);
	int (*record)(void *event, void *stream);
	int (*wait)(void *stream, void *event, unsigned flags);
} GpuGraphs;

typedef struct Gpu Gpu;

enum { GPU_OPTIONAL = 3 };

/* One of the two drivers. */
typedef struct GpuDriver {
	const TccDeviceOps *ops;
	const char *what;               /* "CUDA" */
	const char *libraries[4];       /* names to try, in order */
	const char *const *calls;       /* names of GpuCalls' functions, in its order */
	const char *const *graphs;      /* of GpuGraphs' */
	const char *const *more;        /* of Gpu.extra, nmore of them */
	int nmore;
	const char *const *optional;    /* names of calls that it may lack; may be NULL */
	const char *hint;               /* what to do when there is no library */
	const char *version;            /* call that gives the driver's version; it may lack it */
	int major;                      /* what the version's major number is multiplied by */
	int (*ready)(Gpu *g, TccErr *err);      /* the device is known; may be NULL */
	int (*enter)(Gpu *g);
	const char *(*error)(Gpu *g, int code);
	/* Places the images in the order in which to try them; returns how many can fit. */
	uint64_t (*choose)(Gpu *g, uint64_t *order);
	/* The API version that the model's images need, as the driver numbers it; 0: not known. May
	 * be NULL. */
	int (*needs)(const TccModel *m);
	/* The device's architecture as --target says it, or nothing; may be NULL. */
	void (*arch)(Gpu *g, char *text, size_t size);
	void (*close)(Gpu *g);
	int (*allow_shared)(Gpu *g, void *function, unsigned bytes);
	/* Launches a kernel that may begin before the stream's work ahead of it ends, since it waits
	 * for that by itself; NULL, or -1: the driver cannot. */
	int (*launch_early)(Gpu *g, void *stream, const TccKernel *k, void *function,
		const TccLaunch *l);
} GpuDriver;

struct Gpu {
	TccDevice dev;
	const GpuDriver *driver;
	const TccModel *all;            /* variants, of which dev.model is one */
	void *library;
	GpuCalls f;
	GpuGraphs graphs;               /* all or none */
	void *extra[8];                 /* the driver's further calls */
	void *optional[GPU_OPTIONAL];   /* NULL where the driver has none */
	int version;                    /* of the API that the driver has, as it numbers them; 0: not known */
	void *context;
	int device;
	void *module;
	void **functions;               /* per kernel */
};

int tcc_gpu_open(const GpuDriver *driver, TccDevice **dev, const TccModel *m, const TccModel *all,
                 int ordinal, TccErr *err);
int tcc_gpu_fail(Gpu *g, int code, const char *doing, TccErr *err);

/* The functions of a TccDeviceOps, all but open. */
void tcc_gpu_close(TccDevice *dev);
int tcc_gpu_enter(TccDevice *dev, TccErr *err);
int tcc_gpu_stream_new(TccDevice *dev, void **stream, TccErr *err);
void tcc_gpu_stream_free(TccDevice *dev, void *stream);
int tcc_gpu_alloc(TccDevice *dev, uint64_t bytes, void **p, TccErr *err);
void tcc_gpu_free(TccDevice *dev, void *p);
int tcc_gpu_upload(TccDevice *dev, void *stream, void *dst, const void *src, uint64_t bytes,
                   TccErr *err);
int tcc_gpu_download(TccDevice *dev, void *stream, void *dst, const void *src, uint64_t bytes,
                     TccErr *err);
int tcc_gpu_copy(TccDevice *dev, void *stream, void *dst, const void *src, uint64_t bytes,
                 TccErr *err);
int tcc_gpu_zero(TccDevice *dev, void *stream, void *dst, uint64_t bytes, TccErr *err);
int tcc_gpu_launch(TccDevice *dev, void *stream, const TccLaunch *l, TccErr *err);
int tcc_gpu_sync(TccDevice *dev, void *stream, TccErr *err);
void *tcc_gpu_pin(TccDevice *dev, uint64_t bytes);
void tcc_gpu_unpin(TccDevice *dev, void *p);
int tcc_gpu_graph_new(TccDevice *dev, void *stream, const TccWork *list, uint32_t n, void **graph,
                      TccErr *err);
int tcc_gpu_graph_launch(TccDevice *dev, void *stream, void *graph, TccErr *err);
void tcc_gpu_graph_free(TccDevice *dev, void *graph);

#endif
