/*
 * As much of onnxruntime's C API as a benchmark needs. The API is a table of functions which only
 * grows at its end; its published order gives the numbers here, so no header is needed to build.
 */
#ifndef BENCH_ORT_H
#define BENCH_ORT_H

#include <stddef.h>
#include <stdint.h>

#define ORT_API_VERSION 17

typedef struct OrtStatus OrtStatus;     /* NULL: success */
typedef struct OrtEnv OrtEnv;
typedef struct OrtSession OrtSession;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtValue OrtValue;

typedef struct OrtApiBase {
	const void *const *(*get_api)(uint32_t version);        /* the table; NULL: too old */
	const char *(*version)(void);
} OrtApiBase;

/* number  name                    result       parameters */
#define ORT_FUNCTIONS(X) \
	X(  2, GetErrorMessage,        const char *, (const OrtStatus *)) \
	X(  3, CreateEnv,              OrtStatus *, (int log_level, const char *id, OrtEnv **)) \
	X(  7, CreateSession,          OrtStatus *, (const OrtEnv *, const char *path, \
	                                             const OrtSessionOptions *, OrtSession **)) \
	X(  9, Run,                    OrtStatus *, (OrtSession *, const void *run_options, \
	                                             const char *const *in_names, \
	                                             const OrtValue *const *in, size_t nin, \
	                                             const char *const *out_names, size_t nout, \
	                                             OrtValue **out)) \
	X( 10, CreateSessionOptions,   OrtStatus *, (OrtSessionOptions **)) \
	X( 23, SetSessionGraphOptimizationLevel, OrtStatus *, (OrtSessionOptions *, int level)) \
	X( 24, SetIntraOpNumThreads,   OrtStatus *, (OrtSessionOptions *, int)) \
	X( 25, SetInterOpNumThreads,   OrtStatus *, (OrtSessionOptions *, int)) \
	X( 49, CreateTensorWithDataAsOrtValue, OrtStatus *, (const OrtMemoryInfo *, void *data, \
	                                             size_t size, const int64_t *shape, size_t rank, \
	                                             int type, OrtValue **)) \
	X( 50, IsTensor,               OrtStatus *, (const OrtValue *, int *)) \
	X( 51, GetTensorMutableData,   OrtStatus *, (OrtValue *, void **)) \
	X( 69, CreateCpuMemoryInfo,    OrtStatus *, (int allocator, int mem_type, OrtMemoryInfo **)) \
	X( 93, ReleaseStatus,          void, (OrtStatus *)) \
	X( 94, ReleaseMemoryInfo,      void, (OrtMemoryInfo *)) \
	X( 95, ReleaseSession,         void, (OrtSession *)) \
	X( 96, ReleaseValue,           void, (OrtValue *)) \
	X(100, ReleaseSessionOptions,  void, (OrtSessionOptions *))

enum { ORT_WARNING = 2, ORT_ENABLE_ALL = 99, ORT_ARENA_ALLOCATOR = 1, ORT_MEM_DEFAULT = 0 };

typedef struct Ort {
#define ORT_FIELD(number, name, result, parameters) result (*name) parameters;
	ORT_FUNCTIONS(ORT_FIELD)
#undef ORT_FIELD
} Ort;

#endif
