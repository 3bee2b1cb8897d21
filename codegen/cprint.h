/*
 * Loop level as readable C-family source, for two dialects: the device dialect of
 * runtime/device/tcc_dev.h (CUDA, HIP and the simulator compile the same text) and C11. Both name
 * types (f32, i64) and helper functions (tcc_min_f32) alike; what C lacks, and what the device
 * header does not have, is written before the kernels as it is used (chelp.c).
 */
#ifndef TCC_CPRINT_H
#define TCC_CPRINT_H

#include "ir/ir.h"

/* ---- cprint.c: files, kernels, plans --------------------------------------------------------- */

typedef struct CFile {
	Module *m;
	bool gpu;              /* the device dialect, else C11 */
	bool failed;           /* an error was reported */
	const Loc *loc;        /* of the kernel that is printed, for errors */
	FILE *helpers, *out;   /* helper functions stand before the rest */
	char *helpers_text, *text;
	size_t helpers_size, size;
	Vec used;              /* interned names of the helpers written so far */
} CFile;

CFile *cfile_new(Module *, bool gpu);
/* One kernel as a function of that name: a TccKernelFn, or a device kernel. from: the nodes that it
 * is said to come from. */
void cfile_kernel(CFile *, const Kernel *, const char *name, const Loc *from);
/* Per kernel of the module the first one that prints the same, in the arena. */
int *cprint_twins(Module *, bool gpu, uint32_t *digest);
/* Where kernel k and its twins come from. */
const Loc *cprint_origin(Module *, const int *twin, int k);
/* A helper function of scalars (carry nodes) with that value, before the kernels. */
void cfile_function(CFile *, const char *name, int nin, Node *const *params, Node *value);
/* The simulator's entry of a device kernel (TCC_SIM_ENTRY). */
void cfile_sim_entry(CFile *, const Kernel *, const char *name);
/* The host plan as `static int32_t name(TccRun *run)`. */
void cfile_plan(CFile *, Region *plan, const char *name);
size_t cfile_size(CFile *);                            /* of the text so far */
int cfile_warp(const CFile *);                         /* threads that run together */
/* The text: helpers, then what was printed. malloc'ed; NULL after an error. Frees the file. */
char *cfile_finish(CFile *, size_t *size);
/* "Conv 'conv1', Relu 'relu1' and 3 more": at most n nodes, in the arena, fit for a comment. */
const char *loc_text(Module *, const Loc *, int n);

/* ---- one function being printed, shared by cprint.c and cexpr.c ------------------------------ */

typedef struct CSet { const char **at; uint32_t cap, n; } CSet;
/* See cexpr.c. References are positions, since the arrays move. */
typedef struct CInst {
	Node *n;
	int scope, uses, next, then_scope, else_scope;
	const char *name;
} CInst;
typedef struct CInfo { Node *n; int inst, weight; bool impure; } CInfo;
typedef struct CScope { int parent, depth, owner; int *bound, nbound, capbound; } CScope;

typedef struct CFn {
	CFile *f;
	FILE *o;
	int indent;
	Map names;             /* axes, symbols, lets, buffers, calls: to their names */
	CSet taken;            /* interned identifiers in use */
	Vec bases, counts;     /* of numbered identifiers */
	Vec axes;              /* names of the open loops */
	Map spread;            /* GPU: register tiles whose last index is the thread */
	Map used;              /* plan: calls whose result is used */
	bool index32;          /* Kernel.index32: sizes and what indexes them fit 32 bits */
	Map narrow;            /* see cfn_narrow */
	bool in_block, plan;
	bool rolled;           /* within a loop that reads its tiles from memory */
	int64_t shared_used;   /* bytes of shared memory named so far */
	Node *scratch_used;    /* the same of scratch memory; NULL: none */
	const Kernel *k;
	Map lanes;             /* accesses in a vector loop that are lanes of an array: to its element */
	/* inside a vector loop that is split into loops over lanes (clanes.c): prints a region */
	void (*lane_region)(void *state, struct CFn *, Region *);
	void *lane_state;
	Map *lane_priv;        /* register tiles with an element for each lane */
	const char *lane_name;
	int64_t lane_count;
	/* the statement being printed */
	Map infos;
	CInfo *info;
	int ninfo, capinfo;
	CInst *inst;
	int ninst, capinst;
	CScope *scope;
	int nscope, capscope;
	int at;                /* the scope in which cx prints */
} CFn;

const char *cfn_name(CFn *, const char *base, bool numbered);  /* an unused identifier */
const char *cfn_define(CFn *, const Node *, const char *base, bool numbered);
void cfn_line(CFn *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cfn_indent(CFn *);
void cfn_region(CFn *, Region *);
void cfn_statement(CFn *, Node *);
void cfn_loop(CFn *, Node *loop);            /* as it stands */
const char *cfn_axis(CFn *, Node *axis, const char *base);   /* names an open loop's variable */
bool cfn_narrow(CFn *, const Node *);        /* does an index fit 32 bits? */
const char *ctype(CFn *, const Node *);      /* of a scalar's value: "f32", "i64" */
const char *cstorage(DType);                 /* of a buffer's element */
void cfile_error(CFile *, const char *what);
char *c_ident(Module *, const char *text);   /* a C identifier like the text, in the arena */

/* ---- cexpr.c: expressions -------------------------------------------------------------------- */

/* Prepares the printing of a statement whose expressions are given, and prints as constants what
 * it uses more than once. Between begin and end, cx prints an expression in place. */
void cx_begin(CFn *, int n, Node *const *exprs);
void cx(CFn *, Node *, int prec);
void cx_end(CFn *);
void cx_element(CFn *, Node *buf, int n, Node *const *idx);   /* in place, as an lvalue */
const char *cx_base(const Node *);                            /* of the name of a constant */

/* For cspell.c: has the node a text of its own; does it load; its instance in a scope, or NULL. */
bool cx_leaf(const Node *);
bool cx_impure(CFn *, const Node *);
CInst *cx_inst(CFn *, const Node *, int scope);

/* ---- cspell.c: spelling ---------------------------------------------------------------------- */

void cx_spell(CFn *, Node *, int prec);                       /* by its operation, not its name */
/* Precedence of C's operators, for cx: the context's. An operand of * needs P_MUL. */
enum { P_NONE, P_COND, P_LOR, P_LAND, P_OR, P_XOR, P_AND, P_EQ, P_REL, P_SHIFT, P_ADD, P_MUL,
	P_UNARY, P_POST };
void c_literal(CFile *, FILE *, DType, Num);
/* The largest power of two, at most 64, that is proved to divide an index expression. */
int64_t known_divisor(const Node *);
/* The number of first values of the axis for which a condition holds, where it holds for no others;
 * NULL: it is not of that form. */
Node *cx_first_lanes(Module *, Node *cond, Node *axis);

/* ---- ctile.c: long code over register tiles -------------------------------------------------- */

/* True: the loop is long when unrolled; the tiles that it reads are copied to memory, and it is
 * to be printed as a loop, after which tile_in_registers gives the tiles their names back. */
bool tile_in_memory(CFn *, Node *loop, Map *names);
void tile_in_registers(CFn *, Node *loop, Map *names);

/* ---- clanes.c: vector loops of the C dialect ------------------------------------------------- */

void clane_loop(CFn *, Node *loop);

/* ---- cvec.c: vector memory accesses of the device dialect ------------------------------------ */

/* Prints a vector loop of straight statements whose contiguous, aligned accesses become vectors.
 * False: it is not of that form, and nothing was printed. */
bool cvec_loop(CFn *, Node *loop);

/* ---- cmatrix.c: moves and matrix instructions of the device dialect -------------------------- */

void cmatrix_statement(CFn *, Node *);

/* ---- chelp.c: helper functions --------------------------------------------------------------- */

/* Writes the helper and those it needs before the kernels, once. d fills in a type, DT_NONE: none.
 * Returns its name, "tcc_min_f32". */
const char *c_help(CFile *, const char *name, DType d);
const char *c_convert(CFile *, DType from, DType to);   /* "tcc_f16_to_f32" */
const char *c_math(CFile *, OpCode, DType);             /* from math_expand */
bool c_once(CFile *, const char *name);                 /* first time that it is asked? */
extern const char c_prelude[];                          /* types and macros of the C dialect */

#endif
