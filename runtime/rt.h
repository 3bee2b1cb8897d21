/*
 * rt.h - what the runtime's files share, and what tcc-ml uses of the runtime beyond abi.h: data
 * files, values with memory of their own, the buffer planner, the thread pool, the devices.
 */
#ifndef TCC_RT_H
#define TCC_RT_H

#include <stdbool.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include "abi.h"
#include "place.h"

#define TCC_MAX_RANK 64
#define TCC_MAX_ARGS 256        /* buffers, and scalars, of a launch */
#define TCC_MAX_MAPS 8
#define TCC_COUNT(a) (sizeof(a) / sizeof *(a))

/* --- error.c: the first error of an object and its message ------------------------------- */

typedef struct TccErr {
	int code;               /* 0: none */
	char text[500];
} TccErr;

/* Keeps the error unless there is one already; returns the code that is kept. err may be NULL. */
int tcc_fail(TccErr *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int tcc_no_memory(TccErr *err, uint64_t bytes);

/* Memory aligned to TCC_ALIGN, never NULL for 0 bytes; released by free(). */
void *tcc_alloc(uint64_t bytes);

static inline uint64_t tcc_round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* --- dtype.c ----------------------------------------------------------------------------- */

typedef struct TccDtypeInfo {
	const char *name;
	uint8_t bits;
	uint8_t code;           /* DLPack's */
	char npy;               /* numpy's kind: b i u f c V, 0: none */
	uint8_t npy_size;       /* bytes of an element in .npy: sub-byte elements take one each */
} TccDtypeInfo;

bool tcc_dtype_info(uint32_t dtype, TccDtypeInfo *info);        /* false: no such type */
int tcc_dtype_bits(uint32_t dtype);                     /* 0: no such type */
const char *tcc_dtype_name(uint32_t dtype);             /* "?": no such type */
uint32_t tcc_dtype_of(const TccTensor *t);              /* TCC_NODTYPE: none of ours */

/* Product of the dims and the bytes of such a tensor; false if a dim is negative or the product
 * leaves int64. Either result may be NULL. */
bool tcc_tensor_size(uint32_t dtype, int rank, const int64_t *dims, uint64_t *count,
                     uint64_t *bytes);

/* Element `i` of compact numeric data; a complex number's real part. */
double tcc_element(uint32_t dtype, const void *data, uint64_t i);
/* The same as an integer: exact for integers, floats truncated and saturated, NaN is 0. */
int64_t tcc_element_int(uint32_t dtype, const void *data, uint64_t i);

/* "float32[2,N,?]" into buf; symbols may be NULL. */
void tcc_type_text(char *buf, size_t size, uint32_t dtype, int rank, const int64_t *dims,
                   const char *const *symbols);

/* --- value.c: values that own their memory ----------------------------------------------- */

/* A zeroed tensor on the host; dims may be NULL for rank 0. */
int tcc_tensor_new(TccValue *v, uint32_t dtype, int rank, const int64_t *dims, TccErr *err);
/* A string tensor with room for `bytes` bytes behind its elements, at tcc_strings_bytes(v). */
int tcc_strings_new(TccValue *v, int rank, const int64_t *dims, uint64_t bytes, TccErr *err);
char *tcc_strings_bytes(const TccValue *v);
int tcc_sequence_new(TccValue *v, uint32_t dtype, uint64_t n, TccErr *err);
int tcc_map_new(TccValue *v, uint32_t dtype, TccErr *err);
void tcc_tensor_set(TccTensor *t, uint32_t dtype, int rank, int64_t *shape, void *data);
void tcc_value_free(TccValue *v);       /* of a value made here; leaves TCC_NONE */
int tcc_value_copy(TccValue *dst, const TccValue *src, TccErr *err);    /* deep, host only */

bool tcc_is_compact(const TccTensor *t);
/* Copies a strided tensor's elements in row-major order; elements of whole bytes only. */
void tcc_compact(void *dst, const TccTensor *t);
uint64_t tcc_tensor_count(const TccTensor *t);
static inline void *tcc_tensor_data(const TccTensor *t)
{
	return t->data ? (char *)t->data + t->byte_offset : NULL;
}

/* --- pool.c: threads for one context ----------------------------------------------------- */

typedef struct TccPool TccPool;
typedef void TccJob(void *arg, int piece, int thread);

#define TCC_MAX_THREADS 512
#define TCC_MAX_PIECES 8                /* of a thread */

int tcc_cpu_count(void);                /* CPUs that this process may use */
TccPool *tcc_pool_new(int nthreads);    /* the caller is one of them; NULL: could not start */
void tcc_pool_free(TccPool *p);
/* Runs fn for each piece in [0, nthreads * pieces) on nthreads of the pool's threads, [0,
 * nthreads). */
void tcc_pool_run(TccPool *p, int nthreads, int pieces, TccJob *fn, void *arg);
void tcc_pool_heat(TccPool *p);         /* work is about to come: wakes sleepers */
bool tcc_pool_cold(const TccPool *p);   /* a run would have to wake a thread */

/* --- cpu.c ------------------------------------------------------------------------------- */

/* Whether this CPU has the comma-separated features; the first missing one is put into err. */
int tcc_cpu_check(const char *needs, TccErr *err);

/* --- file.c: values in files ------------------------------------------------------------- */

typedef struct TccBytes {
	const uint8_t *p;
	uint64_t n;
} TccBytes;

/* Bytes that grow; after an append without memory, failed is set and all appends do nothing. */
typedef struct TccBuf {
	uint8_t *p;
	uint64_t n, cap;
	bool failed;
} TccBuf;

/* Returns where they are, NULL if it failed; p NULL makes room only. */
uint8_t *tcc_buf_add(TccBuf *b, const void *p, uint64_t n);
void tcc_buf_free(TccBuf *b);

/* What a file should hold. All zero but rank -1: whatever it says itself. */
typedef struct TccWant {
	uint32_t kind;          /* TccKind; TCC_NONE: a tensor, if the format does not tell */
	uint32_t elem_kind;     /* of a sequence */
	uint32_t dtype;
	uint32_t key_dtype;     /* of maps */
	bool optional;          /* .pb holds an OptionalProto */
	int rank;               /* -1: not known */
	const int64_t *dims;    /* -1: not known */
} TccWant;

/* An input's or output's; dims has room for TCC_MAX_RANK. */
TccWant tcc_want(const TccModel *m, const TccPort *p, int64_t *dims);

int tcc_read_file(const char *path, TccBuf *b, TccErr *err);
int tcc_write_file(const char *path, const TccBuf *b, TccErr *err);

/*
 * Reads a value; the name's ending tells the format:
 *   .npy        tensors. Types that numpy lacks are raw bits (V1, V2), as ml_dtypes writes them, or
 *               the same as u1, u2; sub-byte elements take a byte each. Strings are U or S
 *   .npz        its member `name`, or its only one; stored or deflated
 *   .pb         TensorProto, or SequenceProto, OptionalProto, MapProto where one is wanted
 *   .raw .bin   the elements, row-major, little-endian; one unknown dim is found from the size
 *   .pgm .ppm .pnm   binary pictures (P5, P6) for [N,C,H,W], [N,H,W,C], [H,W,C] or [H,W] with N 1:
 *               uint8 as they are, floats from 0 to 1; grey and colour are converted
 *   .txt        strings, one a line; or numbers between white space
 * Every length in the file is checked. Errors name the file.
 */
int tcc_read_value(const char *path, const char *name, const TccWant *want, TccValue *v,
                   TccErr *err);
int tcc_write_value(const char *path, const char *name, const TccValue *v, TccErr *err);

/* The formats, from and to memory; their errors do not name the file. */
int tcc_npy_read(TccBytes in, const TccWant *want, TccValue *v, TccErr *err);
int tcc_npy_write(const TccValue *v, TccBuf *out, TccErr *err);
int tcc_pb_read(TccBytes in, const TccWant *want, TccValue *v, TccErr *err);
int tcc_pb_write(const TccValue *v, const char *name, TccBuf *out, TccErr *err);
int tcc_pnm_read(TccBytes in, const TccWant *want, TccValue *v, TccErr *err);

/* Zip archives. entry: its content, owned by *b. find: -1, or the place of name or name.npy. */
typedef struct TccZip {
	TccBytes file;
	uint64_t at;            /* of the central directory */
	uint32_t n;
} TccZip;

int tcc_zip_open(TccZip *z, TccBytes file, TccErr *err);
int tcc_zip_name(const TccZip *z, uint32_t i, char *name, size_t size, TccErr *err);
int64_t tcc_zip_find(const TccZip *z, const char *name);
int tcc_zip_entry(const TccZip *z, uint32_t i, TccBuf *b, TccErr *err);
int tcc_npz_write(uint32_t n, const char *const *names, const TccValue *values, TccBuf *out,
                  TccErr *err);
uint32_t tcc_crc32(const uint8_t *p, uint64_t n);

/* Raw deflate data; false unless they make exactly out_n bytes. */
bool tcc_inflate(TccBytes in, uint8_t *out, uint64_t out_n);

/* --- program.c: the program around a model ------------------------------------------------ */

/* For callers that want more than the program says: done sees the instance, if it was loaded,
 * before it goes. */
typedef struct TccProgramHook {
	void (*done)(void *user, TccInst *inst);
	void *user;
	double flops_us, bytes_us;      /* what the machine does at most; 0: not known */
} TccProgramHook;

/* Does what the options say (--help lists them) and returns the exit code; prints. hook may be
 * NULL. */
int tcc_program(const TccModel *model, const TccProgramHook *hook, int argc, char **argv);

/* --- devices ----------------------------------------------------------------------------- */

/*
 * A device opened for a model: its image is loaded and its kernels are found. Contexts share it;
 * each has a stream. All functions but open may be called by several threads at once after
 * enter(), which every thread calls first. Copies and launches are in the stream's order.
 */
typedef struct TccDevice TccDevice;
typedef struct TccQueue TccQueue;

/* A tensor map with what its launch says of it; distances in bytes. */
typedef struct TccBox {
	const TccMap *row;
	void *p;
	uint32_t size;                  /* bytes of an element */
	int64_t dim[TCC_MAP_RANK], stride[TCC_MAP_RANK];
	int64_t lower[TCC_MAP_RANK - 2], upper[TCC_MAP_RANK - 2];
} TccBox;

/* As a kernel gets it; the device's own affair. */
enum { TCC_MAP_WORDS = 16 };
typedef struct TccMapArg { _Alignas(64) uint64_t w[TCC_MAP_WORDS]; } TccMapArg;

typedef struct TccLaunch {
	uint32_t kernel;
	int64_t grid[3];
	void **params;                  /* to each parameter's value */
	uint32_t nbufs;                 /* the first ones are pointers, to so many bytes each: */
	const uint64_t *sizes;
	const char *const *names;
	int32_t *err;                   /* the parameter before the maps; NULL: there is none */
	uint32_t nmaps;                 /* the last parameters are so many TccMapArg, others 8 bytes */
	bool follows;                   /* the stream's work before it is a launch, and it waits for nothing
	                                 * else: it may begin before that ends, if its kernel knows */
} TccLaunch;

enum { TCC_LANES = 4 };

/* Work of a stream that may be held back (queue.c). UP and DOWN are transfers from and to pinned
 * memory of the context, which must stay until the stream is waited for. */
typedef enum TccWorkKind {
	TCC_WORK_LAUNCH, TCC_WORK_COPY, TCC_WORK_ZERO, TCC_WORK_UP, TCC_WORK_DOWN
} TccWorkKind;
typedef struct TccWork {
	TccWorkKind kind;
	uint8_t lane;                   /* these four by lanes.c */
	bool signals;                   /* a piece of another lane waits for it */
	bool follows;                   /* as in TccLaunch */
	uint32_t wait[TCC_LANES];       /* 1 + the piece of each other lane to wait for; 0: none */
	TccLaunch launch;
	uint32_t nparams;               /* of the launch */
	void *dst;
	const void *src;
	uint64_t bytes;
} TccWork;

/* Runs a kernel with the plan's arguments, as abi.h states them. */
typedef int TccLaunchFn(TccContext *ctx, uint32_t kernel, const int64_t *args);

/* A context's work on a device, held back until something waits for it (queue.c), and its transfers
 * (stage.c): what only programs with a device carry. */
typedef struct TccQueueOps {
	int (*open)(TccContext *ctx);
	void (*close)(TccContext *ctx);
	void (*drop)(TccContext *ctx);          /* what a failed run has left */
	int (*send)(TccContext *ctx);           /* inputs are bound */
	TccLaunchFn *kernel;
	int (*launch)(TccContext *ctx, const TccLaunch *l, uint32_t nparams);
	int (*move)(TccContext *ctx, TccWorkKind kind, void *dst, const void *src, uint64_t bytes);
	int (*flush)(TccContext *ctx);
	int (*wait)(TccContext *ctx);           /* flushes, then waits for the device */
	int (*need)(TccContext *ctx, const void *p, uint64_t bytes);    /* weights that are about to be read */
	int (*receive)(TccContext *ctx);        /* results to the host, and waits */
} TccQueueOps;

extern const TccQueueOps tcc_queue_ops;

typedef struct TccDeviceOps {
	const TccQueueOps *queue;       /* &tcc_queue_ops */
	const char *name;               /* as in TccOptions.device */
	uint32_t image_kind;
	int32_t device_type;            /* DLPack's */
	/* m: the variant, of the models `all` */
	int (*open)(TccDevice **dev, const TccModel *m, const TccModel *all, int ordinal, TccErr *err);
	void (*close)(TccDevice *dev);
	int (*enter)(TccDevice *dev, TccErr *err);
	int (*stream_new)(TccDevice *dev, void **stream, TccErr *err);
	void (*stream_free)(TccDevice *dev, void *stream);
	int (*alloc)(TccDevice *dev, uint64_t bytes, void **p, TccErr *err);
	void (*free)(TccDevice *dev, void *p);
	int (*upload)(TccDevice *dev, void *stream, void *dst, const void *src, uint64_t bytes,
	              TccErr *err);     /* src must stay until the stream is waited for */
	int (*download)(TccDevice *dev, void *stream, void *dst, const void *src, uint64_t bytes,
	                TccErr *err);   /* done when the stream was waited for */
	/* Host memory that transfers need no copy of; NULL: any is. pin returns NULL when there is
	 * none. */
	void *(*pin)(TccDevice *dev, uint64_t bytes);
	void (*unpin)(TccDevice *dev, void *p);
	int (*copy)(TccDevice *dev, void *stream, void *dst, const void *src, uint64_t bytes,
	            TccErr *err);
	int (*zero)(TccDevice *dev, void *stream, void *dst, uint64_t bytes, TccErr *err);
	int (*map)(TccDevice *dev, const TccBox *box, TccMapArg *arg, TccErr *err);  /* may be NULL */
	int (*launch)(TccDevice *dev, void *stream, const TccLaunch *l, TccErr *err);
	int (*sync)(TccDevice *dev, void *stream, TccErr *err);
	void (*forget)(TccDevice *dev, void *p, uint64_t bytes);        /* content is undefined now;
	                                                                 * may be NULL */
	/* The list, with its lanes, as one piece of work; it stays as long as the graph. May be
	 * NULL, and may fail: then the work is issued piece by piece. */
	int (*graph_new)(TccDevice *dev, void *stream, const TccWork *list, uint32_t n, void **graph,
	                 TccErr *err);
	int (*graph_launch)(TccDevice *dev, void *stream, void *graph, TccErr *err);
	void (*graph_free)(TccDevice *dev, void *graph);
} TccDeviceOps;

struct TccDevice {
	const TccDeviceOps *ops;
	const TccModel *model;
	int ordinal;
};

/* Weak, so that a program carries only the bodies that its link asks for (abi.h, part 3). */
extern const TccDeviceOps tcc_device_cuda __attribute__((weak));
extern const TccDeviceOps tcc_device_hip __attribute__((weak));
extern const TccDeviceOps tcc_device_sim __attribute__((weak));

/* The simulator behind a device that tcc_device_sim opened, for its findings and counters. */
struct Sim *tcc_device_simulator(TccDevice *dev);

/* --- a model, a caller's state, a run ---------------------------------------------------- */

int tcc_model_check(const TccModel *m, TccErr *err);
/* "sm_90, sm_80, compute_80": images of the model and of its further variants of its kind. */
void tcc_image_list(const TccModel *m, char *text, size_t size);

struct TccInst {
	const TccModel *model;          /* the variant that was picked */
	const TccMeta *meta;
	const TccKernel *kernels;
	const TccBuffer *buffers;
	const TccPort *inputs, *outputs;
	const TccDim *dims;
	const TccString *texts;
	const uint8_t *weights;         /* on the host */
	void *mapped;                   /* of the weights file */
	uint64_t mapped_size;
	void **constants;               /* per buffer, then per input's default: host memory or NULL */
	TccDevice *dev;                 /* NULL: the CPU */
	uint8_t *dev_weights;
	uint8_t *resident;              /* per piece of the weights: the device has it; NULL: it has all */
	pthread_mutex_t piece_lock;
	TccOptions options;
	TccErr err;
};

/* Memory of a buffer in the present run. */
typedef struct TccSlot {
	uint8_t *p;
	uint64_t size;          /* bytes that may be used at p */
	uint64_t cap;           /* of the block at p if the slot owns it, else 0 */
	const TccValue *value;  /* of a value buffer or a sequence input */
	bool host;              /* p is host memory */
} TccSlot;

/* A block that is kept from run to run and replaced when it is too small. */
typedef struct TccBlock {
	void *p;
	uint64_t cap;
} TccBlock;

/* Memory that lives until the next run starts. */
enum { TCC_CHUNK = 4096 };     /* the least; one is kept between runs */
typedef struct TccChunk TccChunk;
struct TccChunk {
	TccChunk *next;
	void *dev;              /* a block of the device; else `size` bytes at data */
	uint64_t used, size;
	_Alignas(TCC_ALIGN) uint8_t data[];
};

/* Offsets of the arena for one set of sizes. */
typedef struct TccPlaced {
	uint64_t *sizes;        /* the key; NULL: empty */
	uint64_t *offsets;
	uint64_t hash, total, used_at;
} TccPlaced;

enum { TCC_PLACED = 8 };

/* What an input is in the present run. */
typedef struct TccBound {
	bool given;
	int rank;
	const int64_t *shape;   /* NULL: the port's constant dims */
} TccBound;

typedef struct TccOut {
	bool done;
	TccBlock host, dev;     /* memory of ours */
	void *download_to;      /* at the end of the run, from `from` */
	const uint8_t *from;    /* dev.p, or a part of the stage, in device memory */
	uint64_t bytes;
} TccOut;

/*
 * What a run moves in one transfer each way: a block of the device and one of pinned memory of the
 * same form, first small inputs, then the kernels' error words, then small outputs. Inputs are
 * placed downwards from the words, outputs upwards.
 */
enum { TCC_STAGE_IN = 256 << 10, TCC_STAGE_OUT = 256 << 10, TCC_STAGE_EACH = 64 << 10,
       TCC_STAGE_ALIGN = 256 };
typedef struct TccStage {
	uint8_t *host, *dev;
	uint64_t words;         /* where the error words are, and their bytes */
	uint64_t words_bytes;
	uint64_t end;
	uint64_t low, high;     /* what the present run uses */
	bool used_out;
} TccStage;

typedef struct TccList {
	uint8_t *p;
	uint64_t used, cap, count;
} TccList;

struct TccContext {
	TccRun run;             /* first: a plan's TccRun is its context */
	TccInst *inst;
	TccErr err;             /* err.code is run.status */

	/* buffers */
	uint32_t nbuffers;
	TccSlot *slots;
	bool swapped;           /* slots have been exchanged since they were set up */
	uint64_t *sizes;        /* as size() said; TCC_NO_SIZE: not yet */
	uint64_t *const_sizes;
	uint32_t nblocks;       /* arena buffers that are not in place of another */
	uint32_t *block_of;     /* of a buffer; UINT32_MAX: not in the arena */
	uint64_t *block_sizes;
	TccPlanner *planner;    /* NULL: the compiler has placed everything */
	TccPlaced placed[TCC_PLACED];
	uint64_t clock;         /* counts uses of `placed` */
	TccBlock arena;
	uint64_t arena_bytes;   /* in the last run */

	/* kernels */
	TccLaunchFn *launch;
	int32_t *errors;        /* a word per kernel, on the host; of a device's kernels, in the stage */
	int threads;
	TccPool *pool;          /* NULL: one thread, or the caller's threads */
	uint8_t *scratch;       /* a part for each thread */
	uint64_t scratch_part;
	int64_t shareable;      /* cost of this run's kernels that hot threads are worth sharing */
	int64_t missed;         /* of those that one thread computed since the others slept */
	bool heated, shared;    /* in this run: threads were woken at its start; some had work */
	int unheated;           /* runs to come that wake none */
	void *stream;           /* of the device */
	bool own_stream;
	TccQueue *queue;        /* NULL: work is issued at once */
	TccStage stage;
	uint64_t peeked[32];    /* what load() last fetched from the device, from `peek_at` on */
	const uint8_t *peek_at; /* NULL: nothing, or it may have changed */
	uint64_t peek_bytes;
	uint64_t round_trips;   /* of this run: the host has waited for the device */
	TccTimes times;
	TccProfile *profile;
	TccEvent *events;       /* of the present run */
	uint64_t nevents, events_cap, began;

	/* the present run */
	TccBound *bound;        /* per input */
	TccBlock *in_copy;      /* per input: a compact or uploaded copy */
	const TccValue *inputs; /* the caller's */
	uint64_t ninputs;
	TccValue *outputs;
	TccOut *out;            /* per output */
	TccChunk *chunks;
	TccList *lists;
	uint32_t nlists;
};

static inline const TccDeviceOps *tcc_ops(const TccContext *ctx)
{
	return ctx->inst->dev->ops;
}

uint64_t tcc_now(void);         /* ns of a steady clock */

/* memory.c */
void *tcc_host_block(uint64_t bytes);   /* aligned; large ones on huge pages; for free() */
/* A block of at least `bytes`; what it held is lost when it grows. */
int tcc_block_fit(TccContext *ctx, TccBlock *b, uint64_t bytes, bool host);
void tcc_block_free(TccContext *ctx, void *p, bool host);
/* Memory until the next run, zeroed on the host. NULL: the error is set. */
void *tcc_run_alloc(TccContext *ctx, uint64_t bytes, bool host);
void tcc_free_run(TccContext *ctx);
/* Copies in the stream's order, between host and device as told. */
int tcc_move(TccContext *ctx, void *dst, bool dst_host, const void *src, bool src_host,
             uint64_t bytes);
/* Pinned memory where the device has it; what it held is lost when it grows. */
int tcc_pinned_fit(TccContext *ctx, TccBlock *b, uint64_t bytes);
void tcc_pinned_free(TccContext *ctx, void *p);
int tcc_slot_fit(TccContext *ctx, int64_t buffer, uint64_t bytes);
void tcc_reset_slots(TccContext *ctx);  /* to what buffers have in every run */
int tcc_place(TccContext *ctx);         /* gives the arena's buffers their memory */

/* queue.c; with a device only */
static inline int tcc_queue_launch(TccContext *ctx, const TccLaunch *l, uint32_t nparams)
{
	return tcc_ops(ctx)->queue->launch(ctx, l, nparams);
}
static inline int tcc_queue_move(TccContext *ctx, TccWorkKind kind, void *dst, const void *src,
                                 uint64_t bytes)
{
	return tcc_ops(ctx)->queue->move(ctx, kind, dst, src, bytes);
}
static inline int tcc_queue_flush(TccContext *ctx)
{
	return tcc_ops(ctx)->queue->flush(ctx);
}
static inline int tcc_queue_wait(TccContext *ctx)
{
	return tcc_ops(ctx)->queue->wait(ctx);
}
int tcc_issue(TccDevice *dev, void *stream, const TccWork *w, bool follows, TccErr *err);

enum { TCC_PIECE = 1 << 20 };   /* of weights, uploaded at once */

/* stage.c */
int tcc_stage_new(TccContext *ctx);
int tcc_stage_send(TccContext *ctx);
int tcc_stage_need(TccContext *ctx, const void *p, uint64_t bytes);
int tcc_stage_receive(TccContext *ctx);

/* lanes.c: sets lane, signals, follows and wait of each piece */
void tcc_lanes(const TccKernel *kernels, TccWork *list, uint32_t n);

/* bind.c */
bool tcc_on_host(const TccTensor *t);
bool tcc_on_device(const TccContext *ctx, const TccTensor *t);
int tcc_bind_inputs(TccContext *ctx, const TccValue *inputs, uint64_t n);

/* launch.c: args are grid x, y, z, cost, buffers, scalars */
enum { TCC_LAUNCH_BUFFERS = 4 };
TccLaunchFn tcc_launch_one, tcc_launch_pool, tcc_launch_user, tcc_launch_device;

/* api.c, host.c */
extern const TccApi tcc_api;
/* Weak as the devices are. */
int64_t tcc_host_call(TccContext *ctx, int64_t fn, const int64_t *args) __attribute__((weak));

#endif
