/*
 * The GPU simulator: runs kernels of the device dialect (tcc_dev.h) on the CPU.
 *
 * A kernel's object is a shared object made from the emitted source, which starts with
 * tcc_dev.h and holds, for each kernel, its TCC_SIM_ENTRY; dlsym "<kernel>__sim" is what
 * sim_launch takes. Two ways to compile it, with clang (vector types are clang's):
 *
 *   both    -x c -std=gnu11 -DTCC_SIM -Dtcc_warp=32|64 -fPIC -shared -march=native
 *           -ffp-contract=off -fno-math-errno
 *   traced  -O1 -gline-tables-only -gdwarf-4 -fsanitize=thread -fno-builtin -fno-vectorize
 *           -fno-slp-vectorize -fno-unroll-loops -mllvm -tsan-instrument-func-entry-exit=0
 *           -mllvm -tsan-instrument-read-before-write=1
 *   fast    -O2
 *
 * A traced object calls __tsan_read4 and the like before every access of memory that others can
 * see. These hooks are this simulator's own, found in the program that opens the object: link
 * the program with -rdynamic and never with libtsan. The vectorizers are off since a request of
 * the GPU must stay one access. Keep the object's file until the Sim is freed: source lines of
 * findings are read from it.
 *
 * In a traced kernel every access is judged before it is made:
 *   race       two threads touch a byte, one of them writes, and no barrier orders them; in
 *              shared memory, and in global memory within one launch (atomics race only with
 *              plain accesses)
 *   bounds     outside of the allocations, or of the launch's views; byte-exact
 *   undefined  bytes read that nobody has written
 *   alignment  an access of n bytes not aligned to n
 *   divergence a barrier or a warp operation that not all threads reach, or from different lines;
 *              a phase of a barrier in memory that does not end
 *   shared     more shared memory than the machine has
 * A finding has a text of one line; a launch with findings returns SIM_FINDINGS. What would
 * crash (bounds, alignment, divergence) ends the launch at once; the process goes on.
 * Fast kernels have no checks but divergence and shared, and no counters of memory.
 *
 * Blocks run one after the other, threads as fibers of one host thread; seed permutes them.
 * A launch holds a lock of the process, so Sims may be used from several threads.
 */
#ifndef TCC_SIM_H
#define TCC_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct Sim Sim;
typedef void SimKernel(void **args);    /* args[i] points to the value of parameter i */

typedef struct SimConfig {
	int warp;               /* lanes: 32, or 64 for gfx9; the objects' tcc_warp */
	uint32_t max_threads;   /* of a block; 0: 1024 */
	uint64_t max_shared;    /* bytes a block may have; 0: 48 KiB */
	uint64_t seed;          /* order of blocks, warps and lanes; 0: ascending */
	bool traced;            /* kernels are traced (else the hooks, if called, do nothing) */
	bool count;             /* fill the memory counters of SimCounters (traced only) */
	uint64_t l2;            /* bytes of the second cache: count what memory moves; 0: do not */
	uint32_t at_once;       /* blocks that the machine runs at once, with l2 */
} SimConfig;

enum { SIM_OK, SIM_FINDINGS, SIM_NOMEM, SIM_INVALID };

typedef struct SimFinding {
	const char *kind;       /* "race", "bounds", "undefined", "alignment", ... as above */
	const char *kernel;
	const char *text;       /* a line without end of line */
	uint64_t count;         /* times seen at this place */
} SimFinding;

/*
 * Sums over the launches of a kernel. A request is one access of a warp, all its lanes together.
 * A sector is 32 bytes of global memory; a wavefront is one pass over the 32 banks of 4 bytes of
 * shared memory. Ideal: what the distinct bytes of each request need. Bytes: the distinct bytes
 * of each request; unique: distinct over a launch.
 */
typedef struct SimCounters {
	const char *kernel;
	uint64_t launches, blocks, threads;
	uint64_t ld_requests, ld_sectors, ld_ideal, ld_bytes, ld_unique;
	uint64_t st_requests, st_sectors, st_ideal, st_bytes, st_unique;
	uint64_t dram_read, dram_written;       /* with SimConfig.l2 */
	uint64_t shared_requests, shared_wavefronts, shared_ideal;
	uint64_t atomics, barriers, shuffles, mma, ldmatrix, cp_async;  /* by warp, barriers by block */
	uint64_t boxes;
	uint64_t shared_bytes;  /* of a block, the most seen */
} SimCounters;

Sim *sim_new(const SimConfig *config);  /* NULL: out of memory or a bad config */
void sim_free(Sim *s);

/*
 * Global memory. sim_alloc gives memory that is undefined and has an unregistered gap of at
 * least 4 KiB on both sides. sim_register takes the caller's own memory. Regions are disjoint.
 */
void *sim_alloc(Sim *s, uint64_t bytes);
void sim_release(Sim *s, void *p);      /* of sim_alloc or sim_register; NULL is allowed */
int sim_register(Sim *s, void *p, uint64_t bytes, bool initialised);

/* The host has written these bytes, or their content is no longer meant to be read. */
void sim_written(Sim *s, const void *p, uint64_t bytes);
void sim_undefined(Sim *s, const void *p, uint64_t bytes);
/* The host is about to read: SIM_FINDINGS if a byte is undefined. what names it in the text. */
int sim_host_reads(Sim *s, const void *p, uint64_t bytes, const char *what);

/*
 * Declares one buffer of the next launch, inside a region. When a launch has any view, global
 * accesses outside of its views are out of bounds, though they hit a region. Views may overlap.
 * The name is copied. A launch consumes its views.
 */
int sim_view(Sim *s, const void *p, uint64_t bytes, const char *name);

/* A tensor as copies of boxes see it: CUtensorMap's facts; distances in bytes. */
enum { SIM_MAP_RANK = 5 };
typedef struct SimTensor {
	void *p;
	int rank, size;         /* size of an element */
	int swizzle;            /* bytes: 0, 32, 64, 128 */
	bool gathers;           /* im2col: box is channels, pixels */
	int64_t dim[SIM_MAP_RANK], stride[SIM_MAP_RANK];
	uint32_t box[SIM_MAP_RANK], step[SIM_MAP_RANK];
	int64_t lower[SIM_MAP_RANK - 2], upper[SIM_MAP_RANK - 2];
} SimTensor;
/* The argument, 128 bytes, for a kernel's TCC_MAP parameter; what rule of the hardware it breaks, or NULL. */
const char *sim_map(const SimTensor *t, void *arg);

/* shared: bytes of TCC_SHARED_DYN. The name is for reports and is copied. */
int sim_launch(Sim *s, SimKernel *kernel, const char *name, const uint32_t grid[3],
	const uint32_t block[3], uint64_t shared, void **args);

/* Findings since the last clear; the texts live until then. */
int sim_findings(const Sim *s, const SimFinding **list);
void sim_clear(Sim *s);

/* Counters by kernel, in order of first launch; valid until the next launch. */
int sim_counters(const Sim *s, const SimCounters **list);

/* Both as text for people. */
void sim_report(const Sim *s, FILE *out);

#endif
