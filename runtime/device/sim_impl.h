/* The simulator's inner parts; only sim*.c include this. */
#ifndef TCC_SIM_IMPL_H
#define TCC_SIM_IMPL_H

#include "sim.h"
#include "sim_matrix.h"

enum { MAX_THREADS = 1024, MAX_WARP = 64, MAX_SHARED_ARRAYS = 64, MAX_FINDINGS = 64 };
enum { GAP = 4096, SHARED_GAP = 128, SIM_MAX_PHASES = 64 };

typedef enum ThreadState { T_NEW, T_READY, T_AT_WARP, T_AT_BARRIER, T_AT_GROUP, T_AT_PHASE, T_AT_PART,
	T_DONE } ThreadState;

/* What lanes meet for; all lanes of a warp must meet for the same. */
typedef enum Meeting { M_WARP_BARRIER, M_SHUFFLE, M_MMA, M_LDMATRIX } Meeting;

/* A copy whose data land when its group is waited for. */
typedef struct Copy {
	void *dst;
	const void *src;        /* NULL: zeros */
	uint32_t bytes, group;
} Copy;

typedef struct Thread {
	void *sp;               /* of its suspended fiber */
	const void *pc;         /* where it waits */
	void *operand;          /* what it brings to a meeting */
	uint16_t index, warp, lane;
	uint8_t state, meeting, wseg;
	int32_t tx;
	int nshared;            /* shared arrays declared so far */
	int stack;              /* its fiber's */
	uint32_t group;         /* copy group that is open */
	Copy *copies;
	int ncopies, cap;
	uint32_t segment, fenced;       /* its own count of them while the block keeps clocks; at its last fence */
} Thread;

typedef struct Warp {
	int first, size;        /* threads */
	int ready, arrived;
	int pos;                /* place of the lane that ran last, in the order of lanes */
	int parity;             /* which half of slots the next shuffle uses */
	uint64_t slots[2][MAX_WARP];
} Warp;

typedef struct SharedArray {
	const char *name;
	uint64_t at, packed, bytes;     /* place in the simulated arena, and in a real one */
} SharedArray;

/*
 * Who touched a granule last. A cell is a stamp: serial number of the block (26 bits), number of
 * block barriers passed (18), of warp barriers since (8), thread (11), flag (1). Serials grow
 * over launches, so old cells need no clearing. The flag of a reading cell says that several
 * blocks have read, of a writing cell that the write was atomic; thread MANY: several threads.
 * While a block keeps clocks (sim_async.c), segments are a thread's own. A box that a copy has brought
 * is of thread PHASE0 + k, its barrier in memory, and has the number of the phase as segment.
 */
typedef struct Shadow {
	uint64_t *w, *r;        /* mapped on demand; NULL: none yet */
	uint64_t bytes;         /* covered */
	int shift;              /* log2 of the granule */
} Shadow;

typedef struct Region {
	uint8_t *p;
	uint64_t bytes;
	bool own;               /* mapped by sim_alloc */
	bool all_defined;       /* def is not kept */
	uint8_t *def;           /* a byte for each byte: 1 defined; mapped on demand */
	Shadow shadow;
} Region;

typedef struct View {
	const uint8_t *p;
	uint64_t bytes;
	char name[40];
} View;

/* What one access of a warp costs: sectors or wavefronts. */
typedef struct Request {
	uint64_t passes, ideal, bytes;
} Request;

/* Accesses of one instruction by one warp since it last stopped; see sim_count.c. */
typedef struct Site {
	uint64_t key;           /* the instruction's address and what follows, in one; 0: none */
	uint8_t write, shared, live;
	uint16_t bytes;
	uint32_t rows, cap;
	uint64_t over;          /* accesses beyond the rows kept */
	uint32_t seen[MAX_WARP];
	uint64_t *mask, *addr;  /* by row; by row and lane */
	Request last;           /* of the row counted last, and that row */
	uint64_t last_mask, last_addr[MAX_WARP];
} Site;

/* What an instruction touched last in this block: a view, a region when there are none, or a
 * shared array. */
typedef struct Near {
	const void *pc;
	const uint8_t *p;
	uint64_t bytes;
	Region *region;         /* NULL: a shared array, at this place of a real arena: */
	uint64_t packed;
	Site *site[2];          /* of its reads and of its writes; NULL: not known yet */
} Near;

enum { SITES = 4096, NEARS = 256 };

typedef struct SimL2 SimL2;

struct Sim {
	SimConfig config;
	SimL2 *l2;              /* NULL: none */
	Region **regions;       /* by address */
	int nregions, region_cap;
	View *views;
	int nviews, view_cap;
	SimFinding findings[MAX_FINDINGS];
	const void *places[MAX_FINDINGS];
	int nfindings;
	uint64_t more;          /* findings beyond the table */
	uint64_t wipes;         /* times that serials have started again, as its shadows know */
	SimCounters *counters;
	int ncounters, counter_cap;
	Site *sites;            /* hash table by key, SITES long, kept between launches */
	int nsites;
};

/* The running launch. One at a time in the process: the hooks have no other way to find it. */
typedef struct Launch {
	Thread *cur;            /* NULL: no kernel is running */
	Sim *sim;
	SimCounters *c;
	SimKernel *kernel;
	void **args;
	const char *name;
	uint32_t grid[3], block_at[3];
	uint64_t nblocks, order_at, order_step;   /* block i of the run is at + i * step mod n */
	uint64_t first_serial, serial;
	uint64_t stamp;         /* serial and segment of the running block, rest 0 */
	uint64_t first_stamp, stamps;   /* of the launch's first block; times the number of blocks */
	int nthreads, nwarps, nready, nbarrier, ndone;
	int cur_warp;           /* place in warp_order */
	int lane_xor, warp_shift;       /* warp_shift: log2 of the lanes */
	bool ended;             /* a finding ended the launch */
	bool failed;            /* out of memory */
	bool count, traced;
	uint64_t dyn_shared;
	uint8_t *shared;        /* arena, shared_cap bytes */
	uint64_t shared_cap, shared_at, shared_packed;
	int narrays;
	SharedArray arrays[MAX_SHARED_ARRAYS];
	Shadow shared_shadow;
	Near near[NEARS];       /* by the instruction's address */
	const uint8_t *image_lo, *image_hi;     /* the kernel's object */
	void *main_sp;
	int nfree, free_stacks[MAX_THREADS];
	uint8_t *stacks;
	Thread threads[MAX_THREADS];
	Warp warps[MAX_THREADS / 32];
	uint16_t warp_order[MAX_THREADS / 32];
	Site *live[SITES];      /* sites with rows */
	int nlive;
	/* sim_async.c; NULL: the block keeps no clocks. Rows of threads, then of barriers in memory. */
	uint32_t *clocks;
	int clock_len;
	uint32_t base_segment;  /* what was done in earlier ones, all have seen */
} Launch;

extern Launch sim_run;

/* --- sim_fiber.c: stacks and switches ------------------------------------------------------ */

bool sim_fiber_stacks(void);        /* maps them when first called */
bool sim_fiber_owns(int stack, const void *p);
void *sim_fiber_prepare(int stack, void (*entry)(void));    /* a suspended fiber: its sp */
void sim_fiber_switch(void **from, void *to);       /* from NULL: nobody comes back */
void sim_fiber_begun(void);         /* what a fiber calls first */

/* --- sim.c: blocks, schedule, findings ----------------------------------------------------- */

void sim_sched_stop(void);          /* ends the launch: leaves the fiber for good */
void sim_sched_wait(ThreadState why);   /* gives way until the thread is ready again */
void sim_sched_ready(Thread *t);         /* it can go on */
void sim_sched_wake_warp(Warp *w);
/* Adds a finding of the running kernel at pc (a return address, or NULL). */
void sim_find_at(const char *kind, const void *pc, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void sim_block_of_serial(uint64_t serial, uint32_t at[3]);

/* --- sim_warp.c ---------------------------------------------------------------------------- */

void sim_warp_start(Warp *w, int first, int size);      /* of a new block */

/* --- sim_trace.c: shadow memory and hooks -------------------------------------------------- */

typedef enum Access { A_READ, A_WRITE, A_ATOMIC } Access;

/* Checks an access and counts it; false: it must not be made, the launch has ended. */
bool sim_trace_access(const void *p, uint64_t bytes, Access a, const void *pc);
/* The destination of an asynchronous copy, when it is issued and when it lands. */
bool sim_trace_copy_issue(void *dst, uint32_t bytes, const void *pc);
void sim_trace_copy_land(void *dst, uint32_t bytes);
void sim_shadow_free(Shadow *sh);
void *sim_map_zero(uint64_t bytes);
void sim_trace_wipe(Sim *s);        /* forgets who touched what: serials start again */
void sim_trace_trim(Sim *s);        /* gives shadow memory back when it is much */

/* Of a box: it has landed, in this phase of barrier k. */
void sim_trace_box_land(void *dst, uint32_t bytes, int k, uint32_t phase);
/* 16 bytes that n threads from `first` on read by a product; false: the launch has ended. */
bool sim_trace_tile(const void *p, const Thread *first, int n, const void *pc);

/* --- sim_async.c --------------------------------------------------------------------------- */

void sim_async_start(void);             /* of a block */
void sim_async_end(void);
void sim_async_barrier(void);           /* the whole block has met */
void sim_async_warp_barrier(const Warp *w);
bool sim_async_land(void);              /* nobody can go on: a copy lands; false: none is under way */

/* --- sim_count.c --------------------------------------------------------------------------- */

void sim_count_access(const void *pc, uint64_t addr, uint64_t bytes, bool write, bool shared);
/* The same in two steps, for at most 16 bytes; a site stays while the launch runs. NULL: too many. */
Site *sim_count_site(const void *pc, uint64_t bytes, bool write, bool shared);
void sim_count_at(Site *s, uint64_t addr);
void sim_count_flush(void);         /* the warp has stopped: its requests are complete */
void sim_count_start(Sim *s);   /* before a launch */
void sim_count_free(Sim *s);

/* --- sim_line.c ---------------------------------------------------------------------------- */

/* "file:line" of the call before a return address; false if not known. */
bool sim_line_of(const void *pc, char *buf, size_t size);

/* --- sim_l2.c ------------------------------------------------------------------------------ */

SimL2 *sim_l2_new(uint64_t bytes, uint32_t blocks);     /* NULL: out of memory, or nothing to do */
void sim_l2_free(SimL2 *);
void sim_l2_start(SimL2 *);                             /* a launch begins */
void sim_l2_block(SimL2 *, SimCounters *);              /* its next block */
bool sim_l2_access(SimL2 *, uint64_t addr, uint64_t bytes, bool written);      /* false: no memory */
void sim_l2_end(SimL2 *, SimCounters *);

#endif
