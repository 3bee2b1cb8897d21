/*
 * The intermediate representation: one node for scalars, tensors, graph operators and loop
 * statements, at three levels (graph, tensor, loop). See doc/ir.md for the language.
 *
 * Ownership: everything lives in the module's arena and dies with it. Nodes are immutable once
 * made (a region's lists are filled while it is built). Not thread-safe: a module per thread.
 */
#ifndef TCC_IR_H
#define TCC_IR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
#undef X_OK                                              /* access(2)'s; ours is an exit code */

typedef struct Arena Arena;
typedef struct Module Module;
typedef struct Node Node;
typedef struct Type Type;
typedef struct Region Region;
typedef struct Op Op;
typedef struct Attr Attr;
typedef struct Data Data;
typedef struct Loc Loc;
typedef struct Diag Diag;
typedef struct Map Map;
typedef struct Kernel Kernel;
typedef struct Require Require;
typedef struct Machine Machine;
typedef struct Tuning Tuning;

/* ---- arena.c: memory and strings ----------------------------------------------------------- */

Arena *arena_new(void);
void arena_free(Arena *);
void *arena_alloc(Arena *, size_t size);                 /* zeroed, 16-byte aligned, never NULL */
char *arena_printf(Arena *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void *arena_dup(Arena *, const void *, size_t size);
#define NEW(m, type) ((type *)arena_alloc((m)->arena, sizeof(type)))
#define NEWN(m, type, n) ((type *)arena_alloc((m)->arena, sizeof(type) * (size_t)(n)))

bool mul_ok(int64_t a, int64_t b, int64_t *r);           /* false on overflow */
int64_t sat_add(int64_t, int64_t), sat_mul(int64_t, int64_t);

struct Map { uint32_t cap, n; const Node **key; void **val; };   /* by node; zero-initialise */

/* A growable array of pointers in the arena. */
typedef struct Vec { void **at; int n, cap; } Vec;
void vec_push(Module *, Vec *, void *);

/* ---- diag.c: messages ----------------------------------------------------------------------- */

/* Exit codes of the command line (CLI.md); DIAG_* say which a message stands for. */
enum { X_OK = 0, X_DIFFER = 1, X_USAGE = 2, X_INVALID = 3, X_UNSUPPORTED = 4, X_TOOL = 5,
	X_DATA = 6, X_BUDGET = 7, X_BUG = 70 };

/* Collects errors, so that one run reports all. The first error's code is the exit code. */
struct Diag {
	const char *file;      /* prefix of every message, or NULL */
	FILE *out;             /* NULL: keep quiet */
	int errors, warnings;
	int code;              /* of the first error; 0 if none */
	char first[1024];      /* text of the first error */
	bool color, quiet, verbose;
	/* gets every message as well; may be NULL. kind: "error", "warning", "note" */
	void (*sink)(void *user, const char *kind, int code, const Loc *, const char *text);
	void *user;
};
void diag_error(Diag *, int code, const Loc *, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void diag_warn(Diag *, const Loc *, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void diag_note(Diag *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- types ----------------------------------------------------------------------------------- */

typedef enum DType {
#define DT(N, text, bits, cls, onnx) DT_##N,
#include "dtypes.def"
#undef DT
	N_DTYPES
} DType;

typedef struct DTypeInfo { const char *text; int bits; char cls; int onnx; } DTypeInfo;
extern const DTypeInfo dtypes[N_DTYPES];
DType dtype_parse(const char *text);                     /* DT_NONE if unknown */
DType dtype_of_onnx(int code);                           /* DT_NONE if unknown */
static inline bool dt_float(DType d) { return dtypes[d].cls == 'F'; }
static inline bool dt_int(DType d)
{
	return dtypes[d].cls == 'I' || dtypes[d].cls == 'U' || dtypes[d].cls == 'X';
}
static inline bool dt_signed(DType d) { return dtypes[d].cls == 'I' || dtypes[d].cls == 'X'; }
/* Complex elements and strings are moved and chosen among,
 * never computed with; a complex literal is 0. */
static inline bool dt_number(DType d) { return dtypes[d].bits > 0 && dtypes[d].cls != 'C'; }
static inline bool dt_small(DType d) { return dt_float(d) && dtypes[d].bits < 32; }

typedef enum Space { SP_GLOBAL, SP_REG, SP_SHARED, SP_STACK, SP_MAP, SP_TILE } Space;

typedef enum TypeKind { T_SCALAR, T_TENSOR, T_BUFFER, T_TUPLE, T_SEQ, T_OPTIONAL, T_MAP,
	T_VOID } TypeKind;

/* Interned: equal types are one pointer. */
struct Type {
	TypeKind kind;
	DType dtype;           /* element; key of a map */
	Space space;           /* buffer */
	int rank;              /* tensor: number of dims; tuple: number of elems */
	Node **dims;           /* tensor: index expressions */
	const Type **elem;     /* tuple: its types; seq, optional: the element; map: the value */
};
const Type *ty_scalar(Module *, DType);
const Type *ty_tensor(Module *, DType, int rank, Node *const *dims);
const Type *ty_buffer(Module *, DType, Space);
const Type *ty_tuple(Module *, int n, const Type *const *);
const Type *ty_of(Module *, TypeKind, DType, const Type *elem);   /* seq, optional, map, void */
/*
 * What a sequence or optional says of its elements: the type of tensors with sizes that are
 * numbers, or -1 where nothing is known; rank -1 where that is not known either (text: "f32[*]"),
 * -2 where there are none ("f32[!]").
 */
const Type *ty_element(Module *, const Type *);
/* of elements that are either; NULL: none is */
const Type *ty_join(Module *, const Type *, const Type *);

/* A constant's payload, as ONNX lays it out: row-major, little-endian, sub-byte types packed low
 * bits first, bool a byte. Strings: an array of char pointers, NUL-terminated. Shared by hash. */
struct Data {
	int64_t count;         /* elements */
	size_t size;           /* bytes */
	const void *bytes;     /* size bytes; may be mapped from a file; owned by whoever made it */
	const char **strings;
	uint64_t hash;         /* of the contents; node_make computes it */
	const char *file; int64_t offset;   /* where it lies on disk, if it does */
};
/* bytes NULL: zeroed, writable by the maker. DT_STRING: bytes are count char pointers, copied. */
Data *data_new(Module *, DType, int64_t count, const void *bytes);

/* Scalar constant: integers and bool in i (sign- or zero-extended to 64 bits), floats in f
 * (exactly a value of the type). */
typedef union Num { int64_t i; double f; } Num;
Num data_get(const Data *, DType, int64_t k);
void data_set(void *bytes, DType, int64_t k, Num);
/* num.c: scalar arithmetic as scalar.def states it; the one that folds and evaluates. */
struct OpKindTag;
Num num_round(DType, double);                            /* to the type; f8: saturating */
Num num_cast(DType to, DType from, Num);
/* false: not a foldable op */
bool num_eval(int op, DType result, DType operand, const Num *in, Num *out);

/* ---- ops ------------------------------------------------------------------------------------- */

typedef enum OpCode {
#define SC(N, text, arity, res, takes, infix, doc) O_##N,
#include "scalar.def"
#undef SC
#define CORE(N, text, level, doc) O_##N,
#include "core.def"
#undef CORE
	O_GRAPH                /* every graph operator: its row is Node.op */
} OpCode;

/* The row of an operation of scalar.def: by OpCode, below O_NUM. */
typedef struct ScalarOp { int arity; char result, takes; const char *infix; } ScalarOp;
extern const ScalarOp scalar_ops[];

typedef enum Comb { COMB_SET, COMB_SUM, COMB_PROD, COMB_MIN, COMB_MAX, COMB_AND, COMB_OR } Comb;
extern const char *const comb_names[];
typedef enum ForKind { F_SERIAL, F_PARALLEL, F_UNROLL, F_VECTOR, F_GRID_X, F_GRID_Y, F_GRID_Z,
	F_BLOCK } ForKind;
extern const char *const for_names[];

typedef enum RowKind { ROW_CORE, ROW_SCALAR, ROW_ELEM, ROW_COMP, ROW_INDEX, ROW_STRUCT,
	ROW_HOST } RowKind;
typedef struct Build Build;
typedef struct Sig Sig;

/* A row of the operator table. Scalar and core nodes have rows as well (made from the .def
 * files). */
struct Op {
	const char *name;      /* in the IR: leaky_relu */
	/* in a model: LeakyRelu, or "ai.onnx.ml:Scaler", "com.microsoft:Gelu"; NULL if none */
	const char *onnx;
	int since;             /* newest since_version whose form this row states */
	RowKind kind;
	const char *sig;       /* "(x: float, slope: x?) {alpha: float = 0.01} -> x"; see op.c */
	const char *body;      /* ELEM, COMP: the definition in the language of body.c */
	Node *(*build)(Build *); /* INDEX, STRUCT, COMP: makes the definition; NULL after an error */
	const char *doc;       /* a line */
	OpCode code;           /* core and scalar rows */
	Sig *parsed;           /* of a user's operator; rows' are found by op_sig */
	const struct Function *function;   /* HOST, of a user's operator: what computes it */
};

/* A user's C function (runtime/abi.h, TccFunction), and the source (.c), object (.o) or shared
 * object (.so) that has it. */
typedef struct Function { const char *symbol, *file; } Function;

/* Attribute of a graph node; lists are interned, sorted by name, defaults filled in. */
typedef enum AttrKind { A_INT, A_FLOAT, A_STR, A_INTS, A_FLOATS, A_STRS, A_TENSOR, A_REGION,
	A_TYPE } AttrKind;
struct Attr {
	const char *name;      /* interned */
	AttrKind kind;
	int n;                 /* length of a list */
	int64_t i; double f; const char *s;
	const int64_t *is; const double *fs; const char *const *ss;
	Node *t; Region *r; const Type *type;
	const Attr *next;
};

/* ---- nodes ----------------------------------------------------------------------------------- */

struct Node {
	const Op *op;
	OpCode code;           /* op->code */
	const Type *type;
	int nin, nregions;
	Node **in;             /* an absent optional operand is NULL */
	const Attr *attrs;
	Region **regions;
	const char *name;      /* param, sym, buffer, host, call; interned */
	int64_t n;             /* see core.def */
	Num num;
	Data *data;
	Node *def;             /* graph operator: its definition (tensor, tuple, or another graph node);
	                        * symbol: its value as an expression, NULL if an input's size or local to a region */
	Node **elems;          /* known elements of a small tensor, in row-major order, or NULL */
	int64_t lo, hi;        /* integer and index scalars: every value lies in lo..hi */
	const Loc *loc;
	uint32_t id;           /* dense, in order of making */
	uint32_t hash;
	uint32_t size;         /* scalars: nodes of the expression as a tree, saturating */
	int nneeds;            /* graph operator: conditions that building it required */
	const Require *needs;
};

/* A function, a branch, a loop body, a list of statements. */
struct Region {
	const char *name;
	int nparams, nresults;
	Node **params;
	Node **results;        /* loop level: the statements, in order */
	int cap;               /* of results, while it is built */
};

/* Where a node came from: an ordered set of ONNX nodes. */
struct Loc {
	/* node's name, or its first output's, with the path of functions and subgraphs */
	const char *name;
	const char *type;      /* ONNX op type */
	int index;             /* position in its graph, -1 if unknown */
	const Loc *next;
};
const Loc *loc_new(Module *, const char *name, const char *type, int index);
const Loc *loc_union(Module *, const Loc *, const Loc *);

/* A condition on the input's shapes that the program checks once a run (exit code 6). */
struct Require { Node *cond; const char *message; const Loc *loc; };
void require_again(Module *, const Require *);           /* unless it stands already */

/* An axis of an input that defines a symbol; the first one defines it, the others are checked. */
typedef struct SymDef { Node *sym; int input, axis; } SymDef;

/* A dimension that a loop or an if decides: the node whose tuple has the symbol at this result and
 * axis defines it by what it computed. Other dimensions of its results are expressions of what is
 * around it. */
typedef struct LoopSym { Node *sym; int result, axis; } LoopSym;

/* What --precision allows operands of contractions to be rounded to. */
typedef enum Precision { PREC_MODEL, PREC_TF32, PREC_BF16, PREC_F16, N_PRECISIONS } Precision;
/* as the option says them; f32: the model's own */
extern const char *const precision_names[N_PRECISIONS];

/* Precision ledger: what was rewritten inexactly or reduced. error:
 * relative to the result's largest magnitude. */
typedef struct Ledger { const char *what, *cls; double error; const Loc *loc; } Ledger;
void ledger_add(Module *, const char *what, const char *cls, double error, const Loc *);

struct Module {
	Arena *arena;
	Diag *diag;
	const char *name;      /* of the model */
	/* params: inputs; results: outputs (Node.name of neither is needed: see below) */
	Region *main;
	const char **in_names, **out_names;
	Vec requires, symdefs, loopsyms, ledger, kernels;
	Vec library;           /* Op: the user's operators, in the order of their declarations */
	Region *plan;          /* loop level: the host plan */
	struct Plan *memory;   /* loop level: what the plan refers to by number (plan.h) */
	const Machine *machine, *host;
	uint32_t nnodes;
	int64_t nextid;        /* axes, carries, fresh symbols */
	bool strict;           /* only exact rewrites */
	Tuning *tuning; /* measured schedules (opt/tuning.c), or NULL */
	Precision precision;
	/* within a proof about sizes: those that making its terms asks for stay short */
	bool proving;
	/* folding: computes n tensors that depend on constants alone;
	 * bound by cmd. NULL: nothing is folded. */
	bool (*execute)(Module *, int n, Node *const *tensors, Node **constants);
	struct Interns *interns;
	Map named;             /* x_named: expression -> symbol */
	const Loc *building;   /* place of the operator being built: of its tensors */
};
Module *module_new(Diag *);
void module_free(Module *);
/* or output_0 ..., as its file is called */
const char *output_name(const Module *, int output);
const char *intern(Module *, const char *);              /* equal strings, one pointer */
void require(Module *, Node *cond, const Loc *, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Interns and returns the node described by t (op, type, in, attrs, name, n, num, data); nodes
 * with regions, and axes, carries, fresh symbols, are always new. Computes hash, size, range. */
Node *node_make(Module *, Node t);
Node *node_with(Module *, const Node *, const Attr *attrs);   /* the same with these attributes */
const Op *core_op(OpCode);                               /* row of a scalar or core node */

/* ---- expr.c: scalars ------------------------------------------------------------------------- */
/* Constructors simplify: constants fold, index expressions become canonical polynomials, what a
 * range proves vanishes. Float identities only where bit-exact. */

Node *x_num(Module *, DType, Num);
/* integers, bool, and floats from an integer */
Node *x_int(Module *, DType, int64_t);
Node *x_flt(Module *, DType, double);
Node *x_idx(Module *, int64_t);                          /* index constant */
Node *x_bool(Module *, bool);
Node *x_axis(Module *, Node *extent);                    /* a new one, in [0, extent) */
Node *x_sym(Module *, const char *name, int64_t lo, int64_t hi);   /* name NULL: a fresh one */
/* a symbol whose def is the (large) index expression: keeps sizes small */
Node *x_named(Module *, Node *);
Node *x_carry(Module *, DType);
/* any scalar.def row; `to` for cast, bits */
Node *x_op(Module *, OpCode, int nin, Node *const *in, DType to);
/* The node as stated, without simplification: for the parser and where a form must stay. */
Node *x_raw(Module *, OpCode, int nin, Node *const *in, DType result);
Node *x1(Module *, OpCode, Node *), *x2(Module *, OpCode, Node *, Node *);
Node *x_select(Module *, Node *cond, Node *a, Node *b);
Node *x_cast(Module *, DType, Node *);
Node *x_bits(Module *, DType, Node *);
static inline Node *x_add(Module *m, Node *a, Node *b) { return x2(m, O_ADD, a, b); }
static inline Node *x_sub(Module *m, Node *a, Node *b) { return x2(m, O_SUB, a, b); }
static inline Node *x_mul(Module *m, Node *a, Node *b) { return x2(m, O_MUL, a, b); }
static inline Node *x_fdiv(Module *m, Node *a, Node *b) { return x2(m, O_FLOORDIV, a, b); }
static inline Node *x_mod(Module *m, Node *a, Node *b) { return x2(m, O_MOD, a, b); }
static inline Node *x_min(Module *m, Node *a, Node *b) { return x2(m, O_MIN, a, b); }
static inline Node *x_max(Module *m, Node *a, Node *b) { return x2(m, O_MAX, a, b); }
static inline Node *x_lt(Module *m, Node *a, Node *b) { return x2(m, O_LT, a, b); }
static inline Node *x_le(Module *m, Node *a, Node *b) { return x2(m, O_LE, a, b); }
static inline Node *x_eq(Module *m, Node *a, Node *b) { return x2(m, O_EQ, a, b); }
static inline Node *x_ne(Module *m, Node *a, Node *b) { return x2(m, O_NE, a, b); }
static inline Node *x_and(Module *m, Node *a, Node *b) { return x2(m, O_AND, a, b); }
static inline Node *x_or(Module *m, Node *a, Node *b) { return x2(m, O_OR, a, b); }
static inline Node *x_not(Module *m, Node *a) { return x1(m, O_NOT, a); }
/* with an index constant */
Node *x_addi(Module *, Node *, int64_t), *x_muli(Module *, Node *, int64_t);
Node *x_ceildiv(Module *, Node *, Node *);
Node *x_reduce(Module *, Comb, int naxes, Node *const *axes, Node *body);
Node *x_iter(Module *, Node *axis, Node *carry, Node *init, Node *step);
Node *x_comb(Module *, Comb, Node *a, Node *b);          /* COMB_SUM: add ... */
/* sum 0, prod 1, min +inf/MAX, max -inf/MIN */
Node *x_comb_identity(Module *, Comb, DType);

bool is_int(const Node *, int64_t *v);                   /* an integer or index constant? */
bool is_intv(const Node *, int64_t v);
bool prove_lt(Module *, Node *a, Node *b), prove_le(Module *, Node *a, Node *b),
	prove_eq(Module *, Node *a, Node *b);
/* e = coef * axis + rest with rest and coef free of the axis; false if it is not of that form. */
bool linear_in(Module *, Node *e, Node *axis, Node **coef, Node **rest);
/* does the scalar expression use the node? */
bool contains(const Node *e, const Node *part);

/* ---- walk.c: traversal and rewriting --------------------------------------------------------- */

void *map_get(const Map *, const Node *);
void map_put(Map *, const Node *, void *);               /* malloc'ed: map_free */
void map_free(Map *);

/* Every node reachable from the roots, operands before users, each once; regions' results and
 * params before their node; graph operators' definitions too if defs. malloc'ed. Iterative. */
Node **topo(Node *const *roots, int nroots, bool defs, int *n);
/* The same for a region of statements; what symbols stand for is not entered. */
Node **topo_statements(const Region *, int *n);
/* The scalar nodes of an expression, operands first; does
 * not enter the tensors it reads. malloc'ed. */
Node **topo_scalar(Node *e, int *n);
/* With definitions, and before each symbol that a loop or if decides that node (symbol_owners). */
Node **topo_decided(Node *const *roots, int nroots, const Map *owner, int *n);
/* Puts, for each LoopSym reachable from the results, its symbol and the loop or if that decides
 * it. */
void symbol_owners(Module *, Map *owner);
/* Rebuilds e with the nodes of map replaced; bound axes and carries of reduce and iter are renewed
 * when `fresh`; goes through scalar nodes only, tensor operands of reads are looked up in map as
 * well. */
Node *subst(Module *, Node *e, Map *map, bool fresh);
Node *subst1(Module *, Node *e, const Node *from, Node *to);

/* ---- tensor.c: building tensors -------------------------------------------------------------- */

Node *t_param(Module *, const char *name, const Type *, int position);
Node *t_const(Module *, DType, int rank, const int64_t *dims, Data *);
Node *t_scalar(Module *, DType, Num);                    /* rank 0 constant */
/* Have all elements one value, known from a constant or a definition
 * that is a number? Not of strings. */
bool uniform_value(const Node *tensor, Num *v);
/* 0, or an element of a tensor of zeros? integers */
bool is_zero(const Node *scalar);
Node *t_ints(Module *, int n, const int64_t *);          /* i64[n] constant */
/* [n] tensor of index or scalar expressions */
Node *t_exprs(Module *, DType, int n, Node *const *e);
Node *t_scalar_expr(Module *, DType, Node *e);           /* rank 0 tensor of a scalar expression */
void axes_new(Module *, int rank, Node *const *extents, Node **axes);
Node *t_tensor(Module *, int rank, Node *const *axes, Node *body);
/* Of its own even where it copies a tensor in order: the attributes say why. */
Node *t_tensor_with(Module *, int rank, Node *const *axes, Node *body, const Attr *attrs);
/* A routine of the runtime (abi.h, TCC_HOST); args: how its arguments come about
 * (opt/plan_host.c). */
Node *t_host(Module *, const char *name, const char *args, const Type *, int nin, Node *const *in);
Node *t_scatter(Module *, Comb, Node *base, int naxes, Node *const *axes, Node *const *idx,
	Node *value, Node *cond);
/* said of one whose updates all go to different places */
Node *t_distinct(Module *, Node *scatter);
Node *t_tuple(Module *, int n, Node *const *);
/* looks through tuples and definitions of tuples */
Node *t_result(Module *, Node *tuple, int i);
/* one index a dimension; uses known elements */
Node *x_read(Module *, Node *tensor, Node *const *idx);
/* The index into a dimension that is 1 or has room for i. */
Node *x_stretched(Module *, Node *dim, Node *i);
/* Reads with numpy broadcasting to the given axes of a result of the given rank. */
Node *x_bread(Module *, Node *tensor, int rank, Node *const *axes);
/* The broadcast of two dimensions: proved equal, or 1, else a select; records a requirement. */
Node *dim_broadcast(Module *, Node *a, Node *b, const Loc *);
/* dims: room for MAX_RANK */
bool dims_broadcast(Module *, int n, Node *const *tensors, int *rank, Node **dims, const Loc *);
/* The order that sorting means. a strictly before b, NaN last; equal in it; and the total one of
 * elements p with key a and q with key b, where equal keys stand by their indices. */
Node *x_ascending(Module *, Node *a, Node *b);
Node *x_same(Module *, Node *a, Node *b);
Node *x_before(Module *, Node *a, Node *b, Node *p, Node *q, bool descending);
Node *numel(Module *, const Node *tensor);               /* product of the dims */
bool const_dims(const Node *tensor, int64_t *dims);      /* all constant? */
enum { MAX_RANK = 16, MAX_ELEMS = 1024 };
static inline int rank_of(const Node *t) { return t->type->rank; }
static inline DType dtype_of(const Node *t) { return t->type->dtype; }
static inline Node *dim_of(const Node *t, int i) { return t->type->dims[i]; }
/* The elements of a small 1-D (or 0-D) integer tensor as index expressions: constants, symbols, or
 * reads at run time. False if its length is not a constant. n elements, in the arena. */
bool index_elems(Module *, Node *tensor, int *n, Node ***elems);
/* sets elems from the definition, where they are known */
void infer_elems(Module *, Node *);
Node *definition(Node *);                                /* the end of its chain of definitions */

/* ---- op.c: graph operators ------------------------------------------------------------------- */

/* NULL-terminated list of NULL-name-terminated tables */
extern const Op *const op_families[];
const Op *op_find(const char *name);                     /* by the IR's name */
const Op *op_find_onnx(const char *domain, const char *type);
const Op *op_next(const Op *);                           /* every graph row, NULL to begin */
/* Likewise of the module's own operators (Module.library) first: those declared before one; all
 * if it is NULL. */
const Op *library_find(const Module *, const char *name, const Op *before);
const Op *library_find_onnx(const Module *, const char *domain, const char *type);   /* of them alone */

/* The parsed signature of a row. */
typedef struct SigOperand {
	const char *name;
	bool optional, variadic;
	const char *types;
} SigOperand;
typedef struct SigAttr {
	const char *name;
	AttrKind kind;
	bool required, has_default;
	Attr value;
} SigAttr;
struct Sig {
	int nin, nattrs, nout, min_out;
	SigOperand *in;
	SigAttr *attrs;
	SigOperand *out;
	bool variadic_out;
};
const Sig *op_sig(const Op *);
Sig *sig_parse(Module *, const char *text);              /* NULL: it is none */

/* What a builder sees. */
struct Build {
	Module *m;
	const Op *op;
	int nin; Node **in;    /* padded with NULL to the signature's length */
	const Attr *attrs;
	int nregions; Region **regions;
	int nout;              /* results that the model asks for (variadic results: Split) */
	const Loc *loc;
};
/* Makes a graph node: checks operands and attributes against the row, fills in defaults, interns,
 * builds the definition. NULL after an error was reported. */
Node *graph_op(Module *, const Op *, int nin, Node *const *in, const Attr *attrs, int nout,
	int nregions, Region *const *regions, const Loc *);
/* For builders: calls another row. attrs as "axis=1, keepdims=0" text, NULL for none. */
Node *call(Build *, const char *name, int nin, Node *const *in, const char *attrs);
/* invalid model (3): returns NULL */
Node *fail(Build *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* (4): returns NULL */
Node *unsupported(Build *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

const Attr *attr_find(const Attr *, const char *name);
int64_t attr_int(const Build *, const char *name);       /* by the row's default if absent */
double attr_float(const Build *, const char *name);
const char *attr_str(const Build *, const char *name);
bool attr_ints(const Build *, const char *name, int *n, const int64_t **v);   /* false if absent */
const Attr *attrs_add(Module *, const Attr *list, Attr a);                    /* interned, sorted */

/* ops/control.c, for the importer: x's slice at index `trip`
 * (rank 0) of an axis, from the end if reverse. */
Node *scan_element(Module *, Node *x, int axis, Node *trip, bool reverse);
/*
 * ops/search.c, for the importer: sizes that a search's operands state, and an operand by its name in
 * the row's signature (NULL: left out). The regions of a search:
 *   decoder  (round: i64, sequences: i32[rows, length], past...) -> logits, past...: a step whose
 *            last token is sequences[:, p], p the length of the past's next to last dimension, all
 *            of which are one symbol; the past's rows are dimension 0, of five 1
 *   first    () -> i32[batch, prompt] tokens, logits, past...: of the prompt, with rows for the batch
 */
typedef struct SearchSizes { Node *batch, *beams, *rows, *length; } SearchSizes;
Node *search_operand(const Op *, int nin, Node *const *in, const char *name);
SearchSizes search_sizes(Module *, const Op *, int nin, Node *const *in);
Node *search_expanded(Module *, Node *x, int axis, Node *beams);   /* each row so many times */
/* Requirements number `from` and on were made within a region: they hold only where cond (NULL:
 * always) is `when`, and are dropped if they cannot be checked when a run begins. */
void region_requires(Module *, int from, Node *cond, bool when);

typedef enum Level { LEVEL_GRAPH, LEVEL_TENSOR, LEVEL_LOOP } Level;

/* library.c: a user's operators. */
bool library_parse(Module *, const char *text);          /* adds those it declares; false after errors */
void library_print(const Module *, Level, FILE *);       /* beyond graph level only functions */
/* The user's function of that name; NULL if none is declared. */
const Function *library_function(const Module *, const char *symbol);

/* body.c: the definitions' language. */
Node *body_expand(Build *);                              /* of an ELEM or COMP row with text */

/* ---- print.c, parse.c, verify.c, eval.c ------------------------------------------------------ */

void module_print(Module *, Level, FILE *);
char *expr_print(Module *, Node *scalar);                /* infix, in the arena */
/* NULL after errors */
Module *module_parse(const char *text, const char *file, Diag *, Level *);
bool module_verify(Module *, Level);                     /* false: a bug of ours, reported */
bool module_verify_text(Module *, Level);                /* false: an error of the text, reported */
/* Do the operands fit the scalar operation? If not, why. */
bool scalar_fits(OpCode, int nin, Node *const *in, DType result, char *why, size_t size);
/* Evaluates the module's main region: inputs and outputs as constants. wide: all floats in
 * double. */
bool module_eval(Module *, Level, Node *const *inputs, Node **outputs, bool wide);

/* ---- math.c: expansions ---------------------------------------------------------------------- */

/* The expansion of a scalar operation (exp ...) in terms of the spelled ones; NULL if it is
 * spelled. Operand type f32 or f64 (narrower floats compute in f32 before this is asked). */
Node *math_expand(Module *, OpCode, int nin, Node *const *in);
/* The function of a value of a half type d, in f32: near enough that rounded to d it is within
 * 0.6 ulp. NULL: nothing cheaper than math_expand does. */
Node *math_half(Module *, OpCode, DType d, Node *f32);
/* e^a of an f32 or f64 a <= 0, to be summed beside e^0: in f32 within 2 ulp where that is a
 * normal number, and 0 below -87.7. A NaN stays one. */
Node *math_exp_low(Module *, Node *a);
double math_ulp(OpCode, DType);                          /* its stated error */
/* Casts between f32 and a narrower float by integer operations; NULL for other pairs. f4e2m1 stands
 * as its code in a u8. */
Node *math_cast(Module *, DType to, DType from, Node *in);

/* ---- loop level ------------------------------------------------------------------------------ */

/* Kernel: buffers are the body's `buffer` nodes of space global; scalars its `sym` nodes. */
/* leaves room for what lies past a last tile */
enum { INDEX32_MAX = INT32_MAX - (1 << 16) };

/*
 * A tensor in global memory as the hardware's copies of boxes see it (GPU): an argument of the
 * kernel, made by the host at each launch from the actual sizes. Elements of a box that lie outside
 * of the tensor are 0. Dimensions stand fastest first. A gathering map (im2col) walks over pixels
 * instead: its box is box[0] channels of box[1] pixels that follow each other by step[] in the last
 * dimensions, from `lower` to the dimension's end plus `upper`.
 */
enum { MAP_RANK = 5 };
typedef struct TensorMap {
	/* a buffer of space map; a place in it is the coordinates of a box's first element, then of a
	 * gathering map how far each dimension between the first and the last is moved */
	Node *view;
	int buf;               /* of the kernel's */
	int rank, box[MAP_RANK], step[MAP_RANK];
	bool gathers;
	int swizzle;           /* bytes of a row within which pieces of 16 change places: 32, 64, 128 */
	/* host expressions; elements, from the buffer's first and from one to the next (stride[0] is
	 * 1) */
	Node *offset, *dim[MAP_RANK], *stride[MAP_RANK];
	Node *lower[MAP_RANK - 2], *upper[MAP_RANK - 2];   /* of the dimensions between, fastest first */
} TensorMap;

struct Kernel {
	const char *name;
	int nbufs, nsyms;
	Node **bufs;           /* buffer nodes: parameters in order */
	bool *writes;          /* per buffer: stored to */
	Node **syms;           /* sym nodes: the scalar parameters */
	Node **args;           /* per sym: the host's expression for it */
	int nmaps;
	TensorMap *maps;
	Region *body;          /* CPU: begins with one `for parallel` (the runtime splits it), or has none.
	                        * GPU: grid loops around one block loop around the statements of a thread */
	Node *grid[3];         /* host expressions: parallel extent in grid[0] on a CPU */
	int block;             /* threads of a block */
	int64_t shared;        /* bytes of shared memory, each buffer rounded up to 16 */
	bool index32;          /* GPU: the plan checks that no buffer has INDEX32_MAX elements or more, so that what
	                        * symbols of sizes make up fits 32 bits */
	/* bytes of stack buffers per thread of the pool, a host expression; NULL: none */
	Node *scratch;
	double flops, bytes;   /* per unit of grid[0] * grid[1] * grid[2], estimated */
	/* flops as a host expression, where they depend on sizes; NULL: as above */
	Node *cost;
	const char *schedule;  /* "class=map, vector=16": printed */
	const char *decision;  /* key of what a tuning file may say of it (opt/tuning.c), or NULL */
	const Loc *loc;
	const char **errors;   /* texts for bound: error number k+1 is errors[k] */
	int nerrors;
	/* while it is planned: the tensors of its buffers; where the condition does not hold, the
	 * kernel that is launched instead; NULL: it always fits */
	Node **tensors, *fits;
	Kernel *otherwise;
};

Region *region_new(Module *, const char *name);
void region_add(Module *, Region *, Node *);             /* appends a result or statement */
/* Statements (also appended to the region). loop.c */
Node *l_for(Module *, Region *, ForKind, Node *axis, Region *body);
/* not a statement */
Node *l_buffer(Module *, const char *name, DType, Space, int n, Node *const *extents);
Node *l_alloc(Module *, Region *, Node *buffer);
Node *l_load(Module *, Node *buffer, int n, Node *const *idx);        /* an expression */
Node *l_store(Module *, Region *, Node *buffer, int n, Node *const *idx, Node *value);
Node *l_let(Module *, Region *, Node *value);                         /* usable as the value */
Node *l_when(Module *, Region *, Node *cond, Region *then, Region *els);
Node *l_barrier(Module *, Region *);
Node *l_prefetch(Module *, Region *, Node *buffer, Node *index);   /* index: past the end, too */
/* How a move is made: asynchronously from global to shared memory, 4 or 16 bytes a thread; words
 * of a thread's own between its registers (u32) and memory; or a warp's 8 x 8 matrices of 2-byte
 * elements, 4 of them, from shared memory to 4 words a lane: lane l names row l % 8, 16 bytes,
 * of matrix l / 8, and gets of matrix j as word j its elements 2 (l % 4) and after of row l / 4;
 * transposed: these rows of column l / 4. Or a box of a tensor map to shared memory, by one
 * thread (l_move_box); or a tile of a CPU's matrix unit (l_move_tile). */
typedef enum MoveKind { MOVE_ASYNC, MOVE_WORDS, MOVE_MATRICES, MOVE_TRANSPOSED, MOVE_BOX, MOVE_TILE,
	N_MOVES } MoveKind;
extern const char *const move_kinds[N_MOVES];
/* idx: as many as it has extents */
typedef struct Spot { Node *buffer, *const *idx; } Spot;
/* cond NULL: always */
Node *l_move(Module *, Region *, MoveKind, int bytes, Spot to, Spot from, Node *cond);
/* The box of `bytes` at a tensor map's coordinates, pieces swizzled as the map says; its bytes
 * count at the barrier `on` (sync.def) when they have landed. */
Node *l_move_box(Module *, Region *, int bytes, Spot to, Spot from, Spot on);
/* A matrix unit's tile to or from memory: row i from the place in memory on, i strides of
 * elements behind. */
Node *l_move_tile(Module *, Region *, Spot to, Spot from, Node *stride);
Node *l_commit(Module *, Region *);
Node *l_wait(Module *, Region *, int pending);
Node *l_mma(Module *, Region *, const char *instruction, Spot c, Spot a, Spot b);
/*
 * The same by a group of four warps from tiles in shared memory, asynchronously (sync.def): m x n
 * of the instruction's. Of each tile: bytes of a stored row, its swizzle; bytes from a block of
 * rows to the next where the tile is stored along its own axis, 0 where along the depth. A may be a
 * fragment in registers instead, as the warp instruction of 16 rows has it, of 2-byte elements;
 * they stay as they are until the product is waited for.
 */
typedef struct Stored { int row, next; } Stored;
Node *l_mma_group(Module *, Region *, const char *instruction, int n, Spot c, Spot a, Stored,
	Spot b, Stored);
/* The numbers behind an mma's or sync's places; how many */
int l_numbers(const Node *statement, Node *const **v);
/* A row of sync.def, which says what it is for; place.buffer NULL where it has none. */
Node *l_sync(Module *, Region *, const char *name, Spot place, int n, Node *const *args);
typedef struct SyncRow { const char *name; int nplaces, nargs; } SyncRow;
const SyncRow *sync_find(const char *name);              /* NULL: none */
/* of a move or mma; buffer NULL: it has no more */
Spot l_spot(const Node *statement, int k);
Node *l_move_cond(const Node *move);                     /* NULL: none */
Node *l_move_stride(const Node *move);                   /* NULL: it moves no tile */
Node *l_while(Module *, Region *, Region *body);
Node *l_break(Module *, Region *, Node *cond);
/* usable as its int64 (index) result */
Node *l_call(Module *, Region *, const char *name, int n, Node *const *args);
/* an expression, see core.def */
Node *l_fold(Module *, Comb, Node *buffer, Node *axis, int n, Node *const *idx);
/* The same on a GPU, where a group's threads are every step'th of a warp: a power of two. */
Node *l_fold_apart(Module *, Comb, Node *buffer, Node *axis, int step, int n, Node *const *idx);

#endif
