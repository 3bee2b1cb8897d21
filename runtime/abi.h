/*
 * abi.h - the one contract between compiled models, the runtime and its callers.
 *
 * Part 1: values, which programs pass in and get out.
 * Part 2: the library that a program calls (tcc_load, tcc_context_new, tcc_run).
 * Part 3: what a compiled model exports (TccModel) and how its data are laid out (TccMeta).
 * Part 4: the entry points that a model's host plan calls (TccApi, TccHostFn).
 *
 * The header stands alone. A compiled object has no undefined symbol: its plan reaches the runtime
 * through the TccRun that it is given. All data are little-endian; sizes are in bytes, shapes in
 * elements.
 */
#ifndef TCC_ABI_H
#define TCC_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TCC_ABI_VERSION 3

/* Status codes are the exit codes of the programs. */
enum {
	TCC_OK          = 0,
	TCC_USAGE       = 2,    /* a wrong call: unknown name, null argument */
	TCC_BAD_FILE    = 3,    /* a data or weights file is unreadable or invalid */
	TCC_UNSUPPORTED = 4,
	TCC_NO_DEVICE   = 5,    /* the device or its driver is missing, unfit or failed */
	TCC_BAD_DATA    = 6,    /* inputs break the model's types or shapes, or an index was bad */
	TCC_BUDGET      = 7,    /* out of memory */
	TCC_BUG         = 70,
};

/*
 * 1. Values
 */

/*
 * Element types, with ONNX's numbers. Sub-byte elements are packed, low bits first, and the last
 * byte of a tensor is padded with zeros. The DLPack code is that of version 1.1.
 * number  identifier      name            bits  DLPack code
 */
#define TCC_DTYPES(X) \
	X( 1, F32,          "float32",        32,  2) \
	X( 2, U8,           "uint8",           8,  1) \
	X( 3, I8,           "int8",            8,  0) \
	X( 4, U16,          "uint16",         16,  1) \
	X( 5, I16,          "int16",          16,  0) \
	X( 6, I32,          "int32",          32,  0) \
	X( 7, I64,          "int64",          64,  0) \
	X( 8, STRING,       "string",        128,  3) \
	X( 9, BOOL,         "bool",            8,  6) \
	X(10, F16,          "float16",        16,  2) \
	X(11, F64,          "float64",        64,  2) \
	X(12, U32,          "uint32",         32,  1) \
	X(13, U64,          "uint64",         64,  1) \
	X(14, C64,          "complex64",      64,  5) \
	X(15, C128,         "complex128",    128,  5) \
	X(16, BF16,         "bfloat16",       16,  4) \
	X(17, F8E4M3FN,     "float8e4m3fn",    8, 10) \
	X(18, F8E4M3FNUZ,   "float8e4m3fnuz",  8, 11) \
	X(19, F8E5M2,       "float8e5m2",      8, 12) \
	X(20, F8E5M2FNUZ,   "float8e5m2fnuz",  8, 13) \
	X(21, U4,           "uint4",           4,  1) \
	X(22, I4,           "int4",            4,  0) \
	X(23, F4E2M1,       "float4e2m1",      4, 17) \
	X(24, F8E8M0,       "float8e8m0",      8, 14) \
	X(25, U2,           "uint2",           2,  1) \
	X(26, I2,           "int2",            2,  0)

typedef enum TccDtype {
	TCC_NODTYPE,
#define TCC_DTYPE_ENUM(number, id, name, bits, dl) TCC_##id = number,
	TCC_DTYPES(TCC_DTYPE_ENUM)
#undef TCC_DTYPE_ENUM
	TCC_NDTYPES
} TccDtype;

/* DLPack's device types that we know. */
enum {
	TCC_DEV_CPU  = 1,
	TCC_DEV_CUDA = 2,
	TCC_DEV_CUDA_HOST = 3,
	TCC_DEV_HIP  = 10,
	TCC_DEV_HIP_HOST = 11,
	TCC_DEV_SIM  = 12,      /* kDLExtDev */
	TCC_DEV_CUDA_MANAGED = 13,
};

/*
 * A tensor: binary compatible with DLPack's DLTensor (a test compares the two), so a DLTensor may
 * be passed by a cast. strides is in elements, or NULL for compact row-major.
 */
typedef struct TccTensor {
	void *data;             /* may be NULL when there are no elements */
	int32_t device_type;
	int32_t device_id;
	int32_t ndim;
	uint8_t code;
	uint8_t bits;
	uint16_t lanes;
	int64_t *shape;
	int64_t *strides;
	uint64_t byte_offset;   /* where the first element is, from data */
} TccTensor;

/* The element of a string tensor: UTF-8 (or any) bytes, not terminated. */
typedef struct TccStr {
	const char *data;
	uint64_t size;
} TccStr;

typedef enum TccKind {
	TCC_NONE,               /* an absent optional */
	TCC_TENSOR,             /* with dtype TCC_STRING, data is an array of TccStr on the host */
	TCC_SEQUENCE,
	TCC_MAP,
} TccKind;

typedef struct TccValue TccValue;
struct TccValue {
	uint32_t kind;          /* TccKind */
	uint32_t dtype;         /* TccDtype of a tensor, a map's values, a sequence's tensors */
	union {
		TccTensor tensor;
		struct {
			uint64_t n;
			TccValue *items;
		} seq;
		struct {
			TccValue *keys;     /* int64 or string tensor [n] */
			TccValue *values;   /* tensor [n] */
		} map;
	} u;
};

/*
 * 2. The library
 *
 * Nothing here prints, exits, raises a signal or has global state. Every function that can fail
 * returns a status code; the message is in the object that it was called on.
 */

typedef struct TccModel TccModel;
typedef struct TccInst TccInst;         /* a loaded model: weights and device, shared by contexts */
typedef struct TccContext TccContext;   /* one per caller: activations, outputs, thread pool */

/* Calls body(arg, i) for every i in [0, n), in any order and on any threads; returns when done. */
typedef void TccParallelFor(void *user, int64_t n, void (*body)(void *arg, int64_t i), void *arg);

enum {
	TCC_PROFILE_KERNELS   = 1,      /* time every kernel: tcc_profile */
	TCC_PROFILE_TRANSFERS = 2,      /* wait between upload, kernels and download: tcc_times */
	TCC_PROFILE_EVENTS    = 4,      /* with KERNELS: every launch of the last run: tcc_events */
};

/* Zero means the default everywhere. */
typedef struct TccOptions {
	uint32_t size;                  /* sizeof(TccOptions): later versions append fields */
	int32_t threads;                /* 0: the CPUs that this process may use */
	const char *weights;            /* weights file, for a model whose weights are not embedded */
	const char *device;             /* "cpu", "cuda", "cuda:1", "hip", "sim" ...; NULL: what fits */
	TccParallelFor *parallel_for;   /* use the caller's threads; then `threads` is how many parts */
	void *parallel_user;
	void *stream;                   /* CUstream or hipStream_t to launch on */
	uint32_t profile;               /* TCC_PROFILE_* */
} TccOptions;

/*
 * Maps the weights, picks among the variants of `model` (its `next` list) the first that the
 * machine can run, opens its device and uploads to it. `model` must outlive the instance.
 * On failure *inst still is an instance, fit for tcc_inst_error and tcc_unload only (NULL when
 * there was no memory for one). An instance is immutable and may be used by many threads.
 */
int tcc_load(const TccModel *model, const TccOptions *options, TccInst **inst);
void tcc_unload(TccInst *inst);         /* its contexts must be freed first; NULL is fine */
const char *tcc_inst_error(const TccInst *inst);

/* A context is used by one thread at a time. *ctx on failure as *inst above. */
int tcc_context_new(TccInst *inst, TccContext **ctx);
void tcc_context_free(TccContext *ctx);
const char *tcc_error(const TccContext *ctx);   /* of the last failed call; "" if none */

/*
 * Runs the model. inputs and outputs stand in the model's order. An input with a default may be
 * of kind TCC_NONE, and trailing ones may be left out. On entry an output is either TCC_NONE (or
 * what the previous run put there), and then gets memory of the context that lives until its next
 * run, or a compact tensor whose data has room for the result (ndim and shape are its capacity:
 * the array `shape` is overwritten with the real shape, so the product must suffice and the rank
 * must be equal). Strings and sequences may point into the inputs' memory. Output memory must not
 * overlap an input's.
 */
int tcc_run(TccContext *ctx, const TccValue *inputs, uint64_t ninputs,
            TccValue *outputs, uint64_t noutputs);

/* Sums over all runs since the context was made or tcc_profile_reset. */
typedef struct TccProfile {
	uint64_t launches;
	uint64_t ns;
	double flops, bytes;            /* 0: not known */
} TccProfile;

const TccProfile *tcc_profile(const TccContext *ctx);   /* one per kernel; NULL if not asked for */
void tcc_profile_reset(TccContext *ctx);

/* A launch of the last run, in order; valid until the next run. */
typedef struct TccEvent {
	uint32_t kernel;
	uint64_t start_ns, ns;          /* since the run began; how long */
} TccEvent;
const TccEvent *tcc_events(const TccContext *ctx, uint64_t *n);

/* Nanoseconds of the last run: upload, kernels, download (device models; else all in exec). */
typedef struct TccTimes {
	uint64_t h2d, exec, d2h;
} TccTimes;

TccTimes tcc_times(const TccContext *ctx);
uint64_t tcc_arena_bytes(const TccContext *ctx);        /* as of the last run */
/* How often the last run waited for the device: once for its results, and for each datum on
 * which the plan depends; 0 on a CPU. */
uint64_t tcc_round_trips(const TccContext *ctx);
const TccModel *tcc_inst_model(const TccInst *inst);    /* the variant that was picked */

/* The same functions as a table: what a shared object exports under its own prefix. */
typedef struct TccUserApi {
	uint32_t abi_version;
	uint32_t size;
	int (*load)(const TccModel *, const TccOptions *, TccInst **);
	void (*unload)(TccInst *);
	const char *(*inst_error)(const TccInst *);
	int (*context_new)(TccInst *, TccContext **);
	void (*context_free)(TccContext *);
	const char *(*error)(const TccContext *);
	int (*run)(TccContext *, const TccValue *, uint64_t, TccValue *, uint64_t);
	TccTimes (*times)(const TccContext *);
	uint64_t (*arena_bytes)(const TccContext *);
} TccUserApi;

extern const TccUserApi tcc_user_api;

/*
 * 3. A compiled model
 */

typedef struct TccRun TccRun;

/*
 * A user's operator in C (tcc-ml's --op-library). It is called on the host, for a GPU's model with
 * copies of the operands, once for each result that the model uses, on one thread of the run that
 * needs it; the same operands must give the same result. inputs are compact tensors, or TCC_NONE
 * where an optional one is left out; output is compact and has the declared shape, its memory is to
 * be filled. Returns 0; anything else ends the run with code 6 and `error`, which may be set to a
 * text that outlives the call.
 */
typedef struct TccFunctionAttr {
	const char *name;
	uint32_t kind;                  /* 0 integer, 1 float, 2 string, 3 integers, 4 floats */
	uint32_t n;                     /* how many; bytes of a string, which a 0 ends */
	union {
		const int64_t *i;
		const double *f;
		const char *s;
	} u;
} TccFunctionAttr;

typedef struct TccCall {
	uint32_t size;                  /* sizeof(TccCall): later versions append fields */
	uint32_t result;                /* which is asked for, from 0 */
	uint32_t ninputs, nattrs;
	const TccValue *inputs;
	const TccValue *output;
	const TccFunctionAttr *attrs;   /* by name; defaults are filled in */
	const char *error;
} TccCall;

typedef int TccFunction(TccCall *call);

/*
 * A CPU kernel computes the units [begin, end) of its parallel extent. bufs and syms are the
 * launch's arguments; scratch is the calling thread's own memory of TccKernel.scratch bytes,
 * 64-byte aligned; *err gets 1 + the index of the error node whose index was bad (and clamped).
 * The split must not show in the result.
 *
 * A device kernel has the parameters: nbufs pointers, nsyms int64 (long long), when nerrors is not
 * 0 `int *err` with the same meaning, and nmaps tensor maps of 128 bytes (CUtensorMap).
 */
typedef void TccKernelFn(void *const *bufs, const int64_t *syms, int64_t begin, int64_t end,
                         unsigned char *scratch, int32_t *err);

enum { TCC_IMAGE_NONE, TCC_IMAGE_CUDA, TCC_IMAGE_HIP, TCC_IMAGE_SIM };

/*
 * CUDA: a cubin (arch "sm_80") or, last, PTX text ending in NUL (arch "compute_75").
 * HIP: a code object (arch "gfx942"). Simulator: a shared object (arch of the simulated machine);
 * with size 0, data is the path of one.
 */
typedef struct TccImage {
	const char *arch;
	const void *data;
	uint64_t size;
} TccImage;

/*
 * Exported as <prefix>_tcc_model; an executable's object also exports
 * `const TccModel *const tcc_main_model`, which points to it, for the runtime's main.
 *
 * Linking: the object and libtcc_rt.a. What few models need is taken from the archive only when
 * asked for: -u tcc_device_cuda, tcc_device_hip or tcc_device_sim for a device (these need libdl),
 * -u tcc_host_call for a plan that calls host().
 * `needs` may name what cpu.c lists; a name that it does not know is refused at load.
 */
struct TccModel {
	uint32_t abi_version;           /* TCC_ABI_VERSION */
	uint32_t image_kind;            /* TCC_IMAGE_NONE: kernels run on the CPU */
	const char *machine;            /* what it is for, for people: "x86-64-v3", "sm_80" */
	const char *needs;              /* CPU features, by LLVM's names: "avx2,fma"; NULL: none */
	const uint8_t *meta;            /* a TccMeta, 8-byte aligned */
	uint64_t meta_size;
	const void *weights;            /* embedded blob, 64-byte aligned; NULL: in a file */
	uint64_t weights_size;
	TccKernelFn *const *kernels;    /* as many as TccMeta.kernels; NULL for a device model */
	int32_t (*plan)(TccRun *run);   /* returns 0 or the status that ended it */
	const TccImage *images;
	uint64_t nimages;
	const TccModel *next;           /* another variant of the same model, or NULL */
	TccFunction *const *functions;  /* the user's operators: what host() calls from TCC_NHOST on */
	uint64_t nfunctions;
};

/*
 * A weights file is this header, then the blob. The id (any hash of the blob) must equal that in
 * the model's TccMeta.
 */
typedef struct TccWeightsHeader {
	char magic[8];                  /* "TCCWGHT1" */
	uint64_t size;                  /* of the blob */
	uint64_t id;
	uint8_t zero[40];
} TccWeightsHeader;

/*
 * The meta blob starts with a TccMeta. A table is an array of its row type, 8-byte aligned, at
 * `offset` from the blob's start; a TccString is the offset of a NUL-terminated string in it, 0
 * for none. The runtime checks every offset and index when it loads the model.
 */
typedef uint32_t TccString;

typedef struct TccTable {
	uint32_t offset;
	uint32_t count;
} TccTable;

enum {
	TCC_META_STATIC = 1,    /* every buffer has a constant size and every arena buffer an offset */
	TCC_META_ON_DEMAND = 2, /* a device gets weights piece by piece when they are used first */
};

typedef struct TccMeta {
	char magic[8];                  /* "TCCMETA1" */
	uint32_t flags;                 /* TCC_META_* */
	TccString name;                 /* the model's */
	TccString prefix;               /* symbol prefix, a C identifier */
	TccString manifest;             /* JSON */
	TccString precision;            /* precision ledger: a line an entry */
	TccString arena_formula;        /* peak arena bytes as an expression of the symbols */
	TccString weights_file;         /* name (no folder) of the weights file */
	TccString target;               /* what it was compiled for */
	TccTable inputs;                /* TccPort */
	TccTable outputs;               /* TccPort */
	TccTable dims;                  /* TccDim */
	TccTable kernels;               /* TccKernel */
	TccTable buffers;               /* TccBuffer */
	TccTable texts;                 /* TccString: messages of check(), error nodes */
	TccTable maps;                  /* TccMap */
	uint64_t arena_bytes;           /* peak when TCC_META_STATIC, else 0 */
	uint64_t weights_id;
} TccMeta;

/* A dimension: fixed, or bound anew by every run. */
typedef struct TccDim {
	int64_t size;                   /* -1: not constant */
	int64_t lo, hi;                 /* inclusive range it may have; hi 0: no bound */
	TccString symbol;               /* dim_param's text, 0 if it has none */
	uint32_t zero;
} TccDim;

#define TCC_NO_DEFAULT UINT64_MAX

/* An input or output. */
typedef struct TccPort {
	TccString name;                 /* the ONNX name */
	TccString ident;                /* the same as a C identifier, unique */
	uint32_t kind;                  /* TccKind */
	uint32_t elem_kind;             /* of a sequence's elements */
	uint32_t dtype;                 /* as in TccValue */
	uint32_t key_dtype;             /* of maps */
	uint32_t optional;              /* 1: may be TCC_NONE (an ONNX optional type) */
	int32_t rank;                   /* -1: unknown */
	uint32_t dims;                  /* first of `rank` rows of TccMeta.dims */
	uint32_t buffer;                /* the buffer of class TCC_BUF_INPUT; UINT32_MAX: not used */
	uint64_t default_offset;        /* of an initializer in the weights, or TCC_NO_DEFAULT */
	uint64_t default_size;
} TccPort;

enum {
	TCC_KERNEL_WAITS = 1,   /* device: waits for the launch before it by itself, first of all (sm_90) */
};

typedef struct TccKernel {
	TccString name;                 /* readable and unique in the model */
	TccString symbol;               /* its function in a device image */
	TccString nodes;                /* the ONNX nodes it came from, for people */
	uint32_t nbufs, nsyms;          /* of a launch's arguments */
	uint32_t block[3];              /* device: threads per block */
	uint32_t shared;                /* device: dynamic shared memory per block */
	uint32_t shared_static;         /* device: what the image itself declares */
	uint32_t scratch;               /* CPU: bytes per thread */
	uint32_t errors, nerrors;       /* rows of TccMeta.texts: the node of each error code */
	uint32_t maps, nmaps;           /* rows of TccMeta.maps */
	uint32_t digest;                /* of its code before that is compiled; 0: not known */
	uint32_t flags;                 /* TCC_KERNEL_* */
	uint64_t writes;                /* bit i: buffer i is written; the last bit: all from 63 on */
	double flops, bytes;            /* per unit of grid x (times y and z); 0: not known */
} TccKernel;

#define TCC_MAP_RANK 5

/*
 * A tensor as a device's copies of boxes see it, made at each launch; dimensions fastest first.
 * What depends on sizes stands in the launch's arguments: elements from the buffer's first to the
 * tensor's, rank sizes, rank - 1 distances in elements (of the second dimension and on), and of a
 * gathering map (im2col) the lower, then the upper corners of the rank - 2 dimensions between the
 * first and the last.
 */
typedef struct TccMap {
	uint32_t buffer;                /* of the kernel's */
	uint32_t dtype;
	uint32_t rank;
	uint32_t gathers;               /* 1: box is channels and pixels */
	uint32_t swizzle;               /* bytes: 0, 32, 64, 128 */
	uint32_t box[TCC_MAP_RANK];     /* elements */
	uint32_t step[TCC_MAP_RANK];    /* of a gathering map, from a pixel to the next */
} TccMap;

/*
 * Classes of buffers, where their memory comes from and who may write it.
 */
enum {
	TCC_BUF_ARENA,          /* size() then place(); lives from step first to last */
	TCC_BUF_INPUT,          /* input `index`; read only */
	TCC_BUF_OUTPUT,         /* output `index`: output() gives it memory, before it is written */
	TCC_BUF_WEIGHT,         /* [offset, offset + size) of the weights; read only */
	TCC_BUF_CONST,          /* the same, kept on the host: for load(), host() and string constants */
	TCC_BUF_HEAP,           /* alloc() whenever its size is known; or the result of a host function */
	TCC_BUF_VIEW,           /* alias() sets it */
	TCC_BUF_HOST,           /* like HEAP, but always in host memory (strings) */
	TCC_BUF_VALUE,          /* a sequence, map or optional: made by host functions */
};

#define TCC_NO_SIZE UINT64_MAX

/*
 * String constants: the bytes at [offset, offset + size) are an array of TccStr whose data fields
 * are offsets from the weights' start; the runtime makes them pointers in a copy at load.
 */
typedef struct TccBuffer {
	uint32_t cls;                   /* TCC_BUF_* */
	uint32_t dtype;                 /* TccDtype; TCC_NODTYPE for raw bytes */
	uint32_t index;                 /* of the input or output */
	int32_t alias;                  /* in place: shares the memory of this arena buffer; -1: none */
	uint32_t first, last;           /* steps of life, inclusive */
	TccString name;                 /* 0 if it has none */
	uint32_t digest;                /* of a constant's contents; 0: not known */
	uint64_t size;                  /* constant size, or TCC_NO_SIZE */
	uint64_t offset;                /* in the weights; in the arena if placed, else TCC_NO_SIZE */
} TccBuffer;

static inline const TccMeta *tcc_meta(const TccModel *m)
{
	return (const TccMeta *)(const void *)m->meta;
}

/* The string at `s`; "" if there is none. */
static inline const char *tcc_string(const TccModel *m, TccString s)
{
	return s ? (const char *)m->meta + s : "";
}

static inline const void *tcc_rows(const TccModel *m, TccTable t)
{
	return m->meta + t.offset;
}

/*
 * 4. What a plan calls
 *
 * A plan is called once per run, on one thread. It computes with int64 scalars and calls the
 * entries of run->api, each with run as first argument.
 *
 * Errors: the first one is kept in run->status with its message. Entries of type `int32_t` return
 * run->status, and the plan must return at once what is not 0. Entries of type `int64_t` return a
 * value, and 0 once status is set. Everything called after an error has no effect.
 *
 * Order: check() the shapes, size() the arena buffers that have no constant size, place() once,
 * output() for each output buffer before its first write, then launches and control flow.
 * Device work is asynchronous; load() and host() wait for it.
 *
 * type, name, parameters after run (l: int64_t, p: const int64_t *; a codegen table), the same in C
 */
#define TCC_API(X) \
	/* Size of axis `axis` of input `input`; its rank; whether it was given (not TCC_NONE). */ \
	X(int64_t, dim,         "ll",     (TccRun *, int64_t input, int64_t axis)) \
	X(int64_t, rank,        "l",      (TccRun *, int64_t input)) \
	X(int64_t, present,     "l",      (TccRun *, int64_t input)) \
	/* Fails with TCC_BAD_DATA if cond is 0. `text` is a row of TccMeta.texts, in which $0 and $1 \
	 * stand for a and b. */ \
	X(int32_t, check,       "llll",   (TccRun *, int64_t cond, int64_t text, int64_t a, int64_t b)) \
	/* The size of an arena buffer in this run. */ \
	X(int32_t, size,        "ll",     (TccRun *, int64_t buffer, int64_t bytes)) \
	/* Gives every arena buffer its memory. */ \
	X(int32_t, place,       "",       (TccRun *)) \
	/* Gives a heap or host buffer (at least) this much memory; what it held is lost. */ \
	X(int32_t, alloc,       "ll",     (TccRun *, int64_t buffer, int64_t bytes)) \
	/* Gives it back before the run's end. */ \
	X(int32_t, release,     "l",      (TccRun *, int64_t buffer)) \
	/* args: grid x, y, z (a CPU splits x over its threads; y = z = 1), cost of one unit of x in \
	 * flops or bytes, nbufs buffers, nsyms scalars, what maps depend on. An empty grid launches \
	 * nothing. */ \
	X(int32_t, launch,      "lp",     (TccRun *, int64_t kernel, const int64_t *args)) \
	/* Element `index` of a buffer, as dtype (integer, bool; floats are truncated, saturating). */ \
	X(int64_t, load,        "lll",    (TccRun *, int64_t buffer, int64_t dtype, int64_t index)) \
	/* Output i has this shape. A buffer of class OUTPUT gets its memory now, the caller's if \
	 * given; any other must be complete and is copied (a value buffer is taken: rank, dims 0). */ \
	X(int32_t, output,      "lllp",   (TccRun *, int64_t i, int64_t buffer, int64_t rank, \
	                                   const int64_t *dims)) \
	X(int32_t, copy,        "lllll",  (TccRun *, int64_t dst, int64_t dst_offset, int64_t src, \
	                                   int64_t src_offset, int64_t bytes)) \
	/* Exchanges the memory of two buffers for the rest of the run. */ \
	X(int32_t, swap,        "ll",     (TccRun *, int64_t a, int64_t b)) \
	/* Makes `buffer` a view at an offset into `base`, as base's memory is now. */ \
	X(int32_t, alias,       "lll",    (TccRun *, int64_t buffer, int64_t base, int64_t offset)) \
	/* Growing results of loops: a list of byte strings, made, appended to by copy, and written \
	 * end to end into a heap buffer, which is allocated for it. list_concat returns the bytes. */ \
	X(int64_t, list_new,    "",       (TccRun *)) \
	X(int32_t, list_push,   "lll",    (TccRun *, int64_t list, int64_t buffer, int64_t bytes)) \
	X(int64_t, list_count,  "l",      (TccRun *, int64_t list)) \
	X(int64_t, list_concat, "ll",     (TccRun *, int64_t list, int64_t dst)) \
	/* Calls a routine of the runtime; what it returns is the routine's own. */ \
	X(int64_t, host,        "lp",     (TccRun *, int64_t fn, const int64_t *args))

typedef struct TccApi {
#define TCC_API_FIELD(type, name, sig, params) type (*name) params;
	TCC_API(TCC_API_FIELD)
#undef TCC_API_FIELD
} TccApi;

/* The position of each entry in TccApi: TCC_API_dim is 0, and so on. */
enum {
#define TCC_API_INDEX(type, name, sig, params) TCC_API_##name,
	TCC_API(TCC_API_INDEX)
#undef TCC_API_INDEX
	TCC_NAPI
};

struct TccRun {
	const TccApi *api;
	int32_t status;         /* 0, or the first error's code */
	/* the rest is the runtime's */
};

/*
 * Routines for host(). Arguments are buffers (b), integers (i) or a count n and n integers (i*).
 * Sequences are immutable: an insertion makes a new one that shares its elements.
 * name, library (below; core: none), arguments
 */
#define TCC_HOST(X) \
	/* Sequences: seq and dst are value buffers; pos may be negative (from the end). */ \
	X(seq_new,     core, "dst dtype")                    /* empty */ \
	X(seq_len,     core, "dst seq")                      /* dst: int64 */ \
	X(seq_insert,  core, "dst seq pos buffer rank dims...")    /* copies the tensor; pos INT64_MAX appends */ \
	X(seq_erase,   core, "dst seq pos") \
	/* dst: int64 [rank], an element's sizes; dims: what they must be, -1 where anything goes */ \
	X(seq_shape,   core, "dst seq pos rank dims...") \
	X(seq_at,      core, "view seq pos")                 /* view becomes the element's memory */ \
	/* Parts of a tensor along an axis: n of the sizes in a buffer of int64, or with n -1 all of the \
	 * one size, but for the last. keep 0: without the axis. */ \
	X(seq_split,   core, "dst buffer axis keep sizes n rank dims...") \
	/* All elements end to end along an axis, which fresh says is a new one; rank is theirs. */ \
	X(seq_cat_shape, core, "dst seq axis fresh rank")    /* dst: int64 [rank + fresh] */ \
	X(seq_cat,     core, "dst seq axis fresh") \
	/* Optionals and values as a whole. */ \
	X(value_none,  core, "dst")                          /* an absent optional */ \
	X(value_has,   core, "dst value")                    /* dst: bool */ \
	X(value_move,  core, "dst src")                      /* dst is the same value */ \
	X(value_take,  core, "dst src")                      /* likewise, and it must be there */ \
	X(value_wrap,  core, "dst buffer rank dims...")      /* a present optional: copies the tensor */ \
	X(value_shape, core, "dst value rank dims...")       /* as seq_shape, of an optional tensor */ \
	X(value_get,   core, "view value")                   /* view becomes its memory */ \
	/* A sequence of n maps from keys (int64 or string constant [c]) to float scores [n, c]. */ \
	X(zipmap,      core, "dst keys scores n c") \
	/* Strings, element by element: n of them; a stride is 0 (one for all) or 1. What makes strings \
	 * has a host buffer as dst, which it allocates. */ \
	X(str_equal,   core, "dst a a_stride b b_stride n")  /* dst: bool */ \
	X(str_concat,  core, "dst a a_stride b b_stride n") \
	X(str_where,   core, "dst c c_stride a a_stride b b_stride n")  /* c: bool */ \
	X(str_take,    core, "dst a m index n")              /* of a's m elements; index int64, "" outside */ \
	X(str_hash,    core, "dst a n seed")                 /* dst: uint32 or int32, MurmurHash3_x86_32 */ \
	X(str_find,    core, "dst a n table m")              /* dst: int64, first place in table or -1 */ \
	X(str_rank,    core, "dst a n")                      /* dst: int64, place of each in byte order */ \
	X(str_parse,   core, "dst a n")                      /* dst: float32, float64, int64 or uint64 */ \
	X(str_format,  core, "dst a n")                      /* of numbers, as Python's str() */ \
	/* Parts of strings around a delimiter, "" for white space; at most `most` cuts, -1: all. */ \
	X(str_parts,   core, "dst a n delimiter most") /* dst: int64, how many */ \
	X(str_split,   core, "dst a n delimiter most width") /* dst: [n, width], filled up with "" */ \
	X(str_case,    unicode, "dst a n upper language")    /* language: ISO 639, or "" */ \
	X(str_match,   regex, "dst a n pattern")             /* dst: bool, whether all of it matches */ \
	/* Tokens of strings: a mode of tokens (see lib_regex.c), patterns or separators in order. */ \
	X(str_tokens,  regex, "dst a n mode patterns m least mark") /* dst: int64, how many */ \
	X(str_tokenize, regex, "dst a n mode patterns m least mark width pad") \
	/* A picture in a buffer of n bytes; format: 0 RGB, 1 BGR, 2 greyscale. */ \
	X(image_shape, image, "dst buffer n")                /* dst: int64, height and width */ \
	X(image_decode, image, "dst buffer n format") \
	/* n uniform numbers of [0, 1) as float64: MT19937 as numpy's RandomState(seed) has them. */ \
	X(mersenne,    core, "dst n seed") \
	/* A map's keys, in ascending order, and what belongs to them. */ \
	X(map_len,     core, "dst map")                /* dst: int64 */ \
	X(map_keys,    core, "dst map") \
	X(map_values,  core, "dst map")

/*
 * The libraries that routines need beyond the C library; a program carries the sources and links
 * the libraries of those that its plan calls. name, source, what the linker gets
 */
#define TCC_HOST_LIB(X) \
	X(unicode, "runtime/lib_unicode.c", "unistring") \
	X(regex,   "runtime/lib_regex.c",   "pcre2-8") \
	X(image,   "runtime/lib_image.c",   "tiff Lerc openjp2 webp png16 jpeg jbig zstd lzma deflate z " \
	                                    "stdc++ gcc_eh")

enum {
#define TCC_HOST_INDEX(name, lib, args) TCC_HOST_##name,
	TCC_HOST(TCC_HOST_INDEX)
#undef TCC_HOST_INDEX
	TCC_NHOST
};

#ifdef __cplusplus
}
#endif
#endif
