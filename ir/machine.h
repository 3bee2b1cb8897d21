/*
 * Machines: facts that schedules, cost models and targets read. Rows stand in machines.def; a row
 * inherits from its base what it leaves 0. Sizes in bytes, clocks in GHz, bandwidths in GB/s.
 */
#ifndef TCC_MACHINE_H
#define TCC_MACHINE_H

#include "ir.h"

typedef enum MachineKind { M_CPU, M_CUDA, M_HIP, M_C, M_STABLEHLO } MachineKind;

struct Machine {
	const char *name;      /* as --target says it */
	const char *base;      /* the row it falls back to, or NULL */
	MachineKind kind;
	const char *triple;    /* CPU: LLVM's names of triple, CPU and features ("+sve,+fp16") */
	const char *cpu;
	const char *features;
	const char *has;       /* CPU: features that code generation may use, "avx2,fma"; in LLVM's names */
	int vector_bits;       /* widest vector that pays; 0: scalar code */
	int vector_regs;
	int fma_ports, fma_latency;  /* vector multiply-adds a cycle; cycles */
	int64_t l1, l2, l3;    /* data; l2 per core, l3 a core's share */
	int line;              /* of the cache */
	int cores;             /* assumed, for splitting work */
	double ghz, gbs;       /* gbs: memory bandwidth, one core of a CPU, the whole of a GPU */
	/* GPU */
	const char *arch;      /* what its compilers call it */
	int cc;                /* 80 for sm_80; gfx: the digits as hexadecimal, 0x942 */
	int warp;              /* threads that run together */
	int units;             /* multiprocessors, compute units */
	int64_t smem_unit, smem_block; /* shared memory of a unit, the most a block may have */
	int regs_unit;         /* 32-bit registers of a unit */
	int threads_unit, blocks_unit, threads_block, regs_thread;
	/* operations a cycle and unit: plain units; matrix units, with accumulators of f32 and of
	 * i32 */
	int fp32_clk, fp16_clk, i8_clk;
	int l2_clk;            /* bytes of the second cache a cycle and unit */
};

/* Row i with all that it inherits, in the module's arena; NULL past the last. */
const Machine *machine_at(Module *, int i);
/* The row of that name, of a CPU perhaps without some features ("emeraldrapids,-amx-tile"); NULL
 * if there is none: numbers are not guessed. */
const Machine *machine_find(Module *, const char *name);
/* Is the feature in the machine's list? */
bool machine_has(const Machine *, const char *feature);
/* Does code for b, another CPU of the same architecture, run on a? */
bool machine_covers(const Machine *a, const Machine *b);
/* In how many vectors each of its operands is spelled out for dot4 (scalar.def) on vectors: 1
 * where an instruction takes them as they are, 2 where it takes their bytes widened to 16 bits;
 * 0: it is not worth its while. */
int machine_dot4(const Machine *);
/* Has it the operation for values of the half type, in one rounding? The result is that of f32
 * rounded: 24 bits of fraction are more than twice 11 and two. The machine may be NULL. */
bool machine_half_op(const Machine *, OpCode, DType);
/* Do its vector instructions take an element in memory for all lanes? */
bool machine_broadcasts(const Machine *);
/* A machine for a CPU without a row: the newest architecture level of the triple that its
 * features ("avx2,fma,...": names without signs) contain, under the given name. NULL: no row for
 * the triple. */
const Machine *machine_generic(Module *, const char *name, const char *triple, const char *cpu,
	const char *features, const char *has);
/* Lanes of a vector of the type: vector_bits / bits, at least 1. */
int machine_lanes(const Machine *, DType);

/* ---- mma.c: matrix units --------------------------------------------------------------------- */

/* A matrix instruction: a row of mma.def, which explains the layouts. */
typedef struct Mma {
	const char *name;
	MachineKind kind;
	int first, last;       /* capabilities (Machine.cc) that have it */
	int m, n, k;
	DType type, type_b, acc;   /* of A, of B: of one size; of C */
	const char *a, *b, *c; /* layouts */
	int cycles;            /* of a CPU's unit, from one to the next; 0: not told here */
} Mma;

const Mma *mma_at(int i);                                 /* of those of a warp; NULL past the last */
const Mma *mma_find(const char *name);                    /* NULL: none */
const Mma *machine_mma(const Machine *, DType a, DType b);   /* the best one it has, NULL: none */
/* The one of a group of warps: no layouts but c, of a warp's 16 rows and 8 columns; n: a step of
 * columns. */
const Mma *machine_mma_group(const Machine *, DType a, DType b);
/* The one of whole tiles that a CPU has, NULL: none; and the feature that it takes (NULL: of a
 * GPU). */
const Mma *machine_mma_tile(const Machine *, DType a, DType b);
const char *mma_feature(const Mma *);
enum { TILE_ROWS = 16, TILE_WORDS = 16, UNIT_TILES = 8 };   /* of a CPU's matrix unit; words of four bytes */
/* How many bits the layout has for lanes, and for elements. */
int layout_bits(const char *layout, bool elements);
/* Row, column or depth ('r', 'c', 'k') of the element in the lane. */
int layout_at(const char *layout, char coord, int lane, int element);
Node *layout_node(Module *, const char *layout, char coord, Node *lane, Node *element);

static inline bool machine_gpu(const Machine *t) { return t->kind == M_CUDA || t->kind == M_HIP; }
static inline bool machine_fma(const Machine *t) { return t->fma_ports > 0; }

#endif
