/*
 * Inside of the LLVM target (llvm*.c): the state of a function that is being written, and what its
 * files offer each other. Nothing else includes llvm-c.
 *
 * Values: an expression is an LLVM scalar, or inside a vector loop a vector of that loop's lanes
 * when it varies over it. Registers hold bool as i1, integers as such, f32 and f64 as such, every
 * other float type as the integer of its bits. Memory holds bool and sub-byte types as a byte.
 * Varying index values are <n x i32> where their range allows, else <n x i64>.
 */
#ifndef TCC_LLVM_H
#define TCC_LLVM_H

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include "codegen.h"

typedef LLVMValueRef Val;
typedef LLVMTypeRef Ty;
typedef LLVMBasicBlockRef Block;

/* A unit of code generation with its own context: some of the kernels, or the plan. */
typedef struct Chunk {
	Job *job;
	LLVMContextRef cx;
	LLVMModuleRef mod;
	LLVMTargetMachineRef tm;
	const char *name;      /* in messages */
	const char *text;      /* the kernels' names and nodes, for a fatal error of LLVM's */
	char *out;             /* object or assembly, malloc'ed */
	size_t size;
	char *error;           /* message, malloc'ed */
} Chunk;

/* Where a buffer of the kernel lies. */
typedef struct Mem {
	Val base;              /* pointer, dominating every use */
	Ty elem;               /* memory type */
	int lanes;             /* > 0: private to the lanes of a vector loop, lane last */
	bool fixed;            /* only read */
	LLVMMetadataRef scope, noalias; /* alias.scope and noalias lists, or NULL */
} Mem;

typedef struct Fn {
	Chunk *c;
	Module *m;
	const Machine *t;
	const Kernel *k;
	LLVMContextRef cx;
	LLVMModuleRef mod;
	LLVMBuilderRef b;
	Val fn, err;
	Block entry, body;     /* allocas go to entry's end, before `body` */
	Map env;               /* axis, sym, let, call -> Val */
	Map depth;             /* axis, let -> loop depth + 1, as a pointer */
	Map mem;               /* buffer -> Mem */
	Map tiles;             /* buffer -> number of its first register + 1 */
	Map consts;            /* unrolled axis -> Node: its present value */
	int nconsts;
	int loops;             /* depth of loops here */
	/* values of expressions: those that read what may be written live as long as their statement,
	 * the others as long as their region */
	Map memo;
	struct MemoLog { Node **at; int n, cap; } kept, passing;
	Map stable;            /* node -> 1 no, 2 yes: reads nothing that may be written */
	/* the vector loop around, if any */
	Node *vaxis;
	int lanes;
	Val mask;              /* <lanes x i1>, NULL: all */
	Map varies;            /* node -> 1 no, 2 yes */
	unsigned md_scope, md_noalias, md_invariant;
	const char *why;       /* what could not be written: a bug */
	/* host plan: its parameter and api table; values of a plan in several functions */
	Val run, api, frame;
	Block leave;           /* where a break goes */
	Map slots;             /* let, call, buffer at the plan's top -> place in the frame + 1 */
} Fn;

/* ---- llvm_expr.c ---- */
Val ex(Fn *, Node *);                        /* value of a scalar expression */
Val ex_index(Fn *, Node *);                  /* uniform index value as i64 */
Val ex_lanes(Fn *, Node *);                  /* the same, as a vector of the loop's lanes */
Val splat(Fn *, Val, int lanes);
Val combine(Fn *, Comb, DType, Val, Val);
Val intrinsic(Fn *, const char *name, Ty overload, Ty overload2, int n, Val *args);
Val intr1(Fn *, const char *name, Val);      /* overloaded by the operands' type */
Val intr2(Fn *, const char *name, Val, Val);
Ty reg_type(Fn *, DType);
Ty mem_type(LLVMContextRef, DType);
Ty vec_of(Ty, int lanes);
bool is_vec(Val);
int val_lanes(Val);                           /* 0: a scalar */
unsigned val_bits(Val);                       /* of an element */
Val like_int(Fn *, Val like, int64_t);       /* a constant of its type */
Val like_flt(Fn *, Val like, double);
Val i64c(Fn *, int64_t);
bool varies(Fn *, Node *);
typedef struct Mark { int kept, passing; } Mark;
Mark memo_mark(Fn *);
void memo_undo(Fn *, Mark);                  /* forgets what came after: the end of a branch or region */
void memo_next(Fn *);                        /* another statement: forgets what it may have written */
Val bug(Fn *, const char *what);             /* notes it and returns poison of i64 */
bool has_effect(Node *);                     /* may fault or report: loads, bounds */
Block new_block(Fn *, const char *name);

/* ---- llvm_arith.c ---- */
bool x86(const Machine *);
bool fits32(const Node *);
Val widen(Fn *, Val, unsigned bits, bool sign);   /* an integer in another width */
/* div, rem, floordiv, mod; the nodes tell ranges */
Val divmod(Fn *, OpCode, DType, Node *na, Node *nb, Val a, Val b);
Val shift(Fn *, OpCode, DType, Val, Val);
Val compare(Fn *, OpCode, DType, Val, Val);
Val minmax(Fn *, bool max, DType, Val, Val);
Val rounding(Fn *, OpCode, DType, Val);
Val fused(Fn *, OpCode, DType, Val a, Val b, Val c);   /* fma, muladd */

/* ---- llvm_cast.c ---- */
bool as_bits(DType);                         /* is the type held as the integer of its bits? */
Val ex_cast(Fn *, Node *);
Val ex_bits(Fn *, Node *);

/* ---- llvm_rem.c ---- */
Val float_rem(Fn *, DType, Val, Val);

/* ---- llvm_mem.c ---- */
Val ld(Fn *, Node *load, Val passthru);      /* passthru: value of masked-off lanes, or NULL */
Val ld_or(Fn *, Node *load, Val cond, Node *other);  /* cond ? load : other, without a branch */
void st(Fn *, Node *store);
void prefetch(Fn *, Node *);
bool st_vector_ok(Fn *, Node *store);
/* Writes the loop, unrolled, if it stores in rows what lies in columns of a buffer that is only read. */
bool transposed(Fn *, Node *loop);
Val fold(Fn *, Node *);
Val local(Fn *, Ty, const char *name);       /* an alloca in the entry block */

Val place_of(Fn *, Node *buffer, Node *const *idx);   /* its address; NULL: a bug, noted */

/* ---- llvm_tile.c ---- */
bool tiles_begin(Fn *, Region *body);         /* the shapes of the body's tiles; false: it has none */
void tiles_end(Fn *);
void tile_move(Fn *, Node *);
void tile_clear(Fn *, Node *store);
void tile_mma(Fn *, Node *);

/* ---- llvm_fn.c ---- */
void emit_region(Fn *, Region *);
void emit_stmt(Fn *, Node *);
void fn_attributes(Fn *, Val fn);            /* the machine's CPU and features */
void fn_begin(Fn *, Chunk *, const char *symbol, Ty type);   /* the builder stands in the body */
void fn_end(Fn *, const char *what);         /* after the last return; reports what failed */
Val emit_kernel(Chunk *, const Kernel *, const char *symbol);

/* ---- llvm_plan.c ---- */
void plan_stmt(Fn *, Node *);                /* call, while, break */
Val plan_value(Fn *, Node *);                /* of a let or call in another function of the plan */
Val emit_plan(Chunk *, const char *symbol);

/* ---- llvm_model.c ---- */
/* The descriptor with its tables in the chunk's module; kernels[i]: symbol of kernel i. */
void emit_model(Chunk *, char *const *kernels, int image_kind, const char *plan);
char *needs_of(Module *, const Machine *);

void llvm_init(const char *triple);           /* makes the triple's back end known */

#endif
