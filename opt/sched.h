/*
 * Scheduling: from groups of tensors to kernels. Private to opt/.
 */
#ifndef TCC_SCHED_H
#define TCC_SCHED_H

#include "opt.h"
#include "ir/machine.h"
#include "ir/plan.h"

/* How a materialised tensor lies in memory: dense, dims in some order, the last one contiguous. */
typedef struct Storage {
	Node *tensor;
	int id;                /* of its PlanBuf */
	int order[MAX_RANK];   /* order[rank-1] is the contiguous dimension */
	Node *stride[MAX_RANK]; /* elements, per dimension */
	/* > 0: the contiguous dimension in blocks of so many, the block number being the slowest:
	 * [N/block][...][block]; past the last element are zeros in a constant, else anything */
	int block;
	Node *panel;           /* elements of a block of columns */
	Node *count;           /* elements in all, padding included */
	/* elements around the tensor's own, which its kernel sets to fill (NULL: none reads them) */
	bool halo;
	Node *fill;
	Node *before[MAX_RANK], *after[MAX_RANK];   /* of a halo, per dimension: constants */
	/* the tensor whose elements and halo are this one's memory, or NULL; then before says where
	 * this one's begin */
	Node *of;
} Storage;

/* Tensors computed by one kernel over shared outer axes: member 0 .. n-1 in order. The first
 * nouter axes of every member are the same loop. */
typedef struct Group {
	int n, nouter;
	Node **members;
	int first, last;       /* members' least and largest place in the order of nodes */
	bool *local;           /* per member: not used outside the group */
	bool attends;          /* of attend.c's form, the last member its result */
	bool few;              /* of few.c's form, the last member its result */
	bool beside;           /* maps that blocks of one launch compute side by side */
	Region *home;
	const Loc *loc;
} Group;

typedef struct Sched {
	Module *m;
	const Machine *mach;
	Map storage;           /* tensor -> Storage */
	Map home;              /* node -> Region */
	Plan *plan;
	Vec bufs;              /* PlanBuf */
	Map sizereads;         /* while sizes are named: read -> symbol */
	Map alone;             /* while layouts are chosen: member of a kernel that is dissolved */
	int nkernels;
	int64_t constants;     /* bytes of the model's; 0: not counted yet */
	bool gpu;
	bool packing;          /* what products read by columns may still be copied into panels */
	Node **shape;   /* per output: the tensor whose type it has, where it was packed; or NULL */
} Sched;

/* A kernel under construction. */
typedef struct KB {
	Sched *s;
	Module *m;
	Kernel *k;
	Vec bufs;              /* buffer nodes */
	Vec tensors;           /* the tensor of each */
	Map buf;               /* tensor -> buffer node (global) */
	Map local;             /* tensor -> Local */
	Map assume;   /* conditions that hold where statements are being made -> what they are */
	Vec halos;             /* results that have one */
	Node *units, *unit;    /* of the parallel loop: how many compute the results; its axis */
	int in_vector;         /* lanes of the enclosing vector loop, 0: none */
	bool gpu;
} KB;

/* A member's value inside the kernel: a scalar per outer point, or a private buffer whose index k
 * is the tensor's at dimension dim[k], counted from base[k] (NULL: 0). */
typedef struct Local {
	Node *value, *buffer;
	int n, dim[MAX_RANK];
	Node *base[MAX_RANK];
	bool global;           /* kb_put stores it in memory as well */
} Local;

/*
 * A sum of products seen as result[.., m, .., n] = sum a[.., m, red] * b[n, red]: n is an axis of
 * the result that only b reads (the lanes), red the summed axes in the order of the loops, the last
 * one moving fastest. a and b are the reads in its factors (factor_read). It may stand in a sum
 * over blocks, `whole`, that scales what it gives for each: then that is accumulated beside it.
 */
typedef struct Contraction {
	Node *reduce, *a, *b, *ea, *eb;   /* ea, eb: the factors as expressions around the reads */
	Node *whole;           /* the sum of blocks around reduce, or reduce itself */
	bool swapped;          /* b is the product's first operand */
	Node *n; int nred; Node *red[MAX_RANK];
	int nr, mr;            /* register tile: columns, rows */
	int low;               /* rows of a lower one for row counts that it fits better; 0: there is none */
	bool streams;          /* b comes from memory in each run, for few rows */
	const char *key;       /* of the decision of the tile; NULL: nothing is tuned */
	bool tuned;            /* the tile is a tuning file's */
	bool recurs;           /* a is made in a loop: few rows again and again */
	/* the matrix unit's instruction that it takes, NULL: vectors; then tiles of rows, the rows of one, and
	 * the words of a step (unit.c) */
	const Mma *unit;
	int mt, rt, ks;
} Contraction;

/* ---- pick.c ---------------------------------------------------------------------------------- */

enum { MAX_ROWS = 14 };                /* of a register tile */
/* What the choice of a register tile depends on; 0 where a size is not known. */
typedef struct Tiling {
	DType d;
	int sums;              /* accumulators of an element */
	int parts;             /* that operands are split into to be multiplied */
	int block;             /* columns that are stored side by side, 0: all */
	int64_t m, n;          /* rows, columns */
	double depth;          /* of the sums, if columns are read again for further rows */
} Tiling;
/* Sets mr and nr, key and tuned; streams and red are set. */
void pick_registers(Sched *, Contraction *, const Tiling *);

/* ---- loops.c -------------------------------------------------------------------------------- */

Sched sched_open(Module *);                               /* for m->machine */
void sched_close(Sched *);
int64_t const_or(const Node *e, int64_t other);          /* its value if it is a constant */
/* The reduction that is the only loop of a scalar expression; NULL: there is none, or another. */
Node *only_reduction(Node *body);
/* adds each axis -> its digit of flat, the last one fastest */
void digits(Module *, Map *, int n, Node *const *axes, Node *flat);
Node *axes_product(Module *, int n, Node *const *axes);  /* of their extents */
Storage *storage_of(Sched *, Node *tensor);              /* made row-major on first use */
void storage_set_order(Sched *, Storage *, const int *order);
bool is_packed(const Sched *, const Node *tensor);
KB kb_new(Sched *, const Loc *);
Node *kb_buffer(KB *, Node *tensor, bool write);
Node *kb_address(KB *, Node *tensor, Node *const *idx);   /* flat element index */
/* e with reads turned into loads and loops hoisted into r as statements; legal for code
 * generation. */
Node *kb_emit(KB *, Region *r, Node *e);
void kb_store(KB *, Region *r, Node *tensor, Node *const *idx, Node *value);
void local_store(KB *, Region *r, const Local *, Node *const *idx, Node *value);
/* Stores where the tensor is kept: in its private buffer if it has one, in memory. */
void kb_put(KB *, Region *r, Node *tensor, Node *const *idx, Node *value);
Kernel *kb_finish(KB *, Region *body, const char *schedule);
/* Runs body(v) for idx in [0, extent) with lanes in vectors of w where it pays: full vectors,
 * then a masked tail. */
typedef void LoopBody(KB *, Region *, Node *idx, void *ctx);
void vector_loop(KB *, Region *, Node *extent, int w, LoopBody *, void *ctx);
int lanes_of(const Sched *, DType);                       /* of a full vector */
/* elements per step of the axis, NULL if not linear */
Node *elem_stride(KB *, Node *read, Node *axis);
/*
 * Writes what emit writes. Where the body's indices depend on whether sizes are 1 (a broadcast that
 * is not proved), twice: for when none is, so that addresses are plain, and for when any may be.
 */
typedef void Emit(KB *, Region *, void *ctx);
void kb_versions(KB *, Region *, Node *body, Emit *emit, void *ctx);
DType widest_type(Node *body);
DType widest_along(Node *body, const Node *axis);   /* of what varies with the axis */
/* the reduction, along the contiguous axis last if there is one */
Node *contiguous_last(KB *, Node *red);
Node *accumulate(KB *, Comb, Node *acc, Node *v);   /* acc comb v, of the accumulator's type */

/* ---- halo.c ---------------------------------------------------------------------------------- */

Node *padded_by(Module *, const Node *p);   /* what the padding p pads; NULL: it is none */
/* What the padding p pads, or whose bytes are its words; NULL: neither. */
Node *viewed_by(Module *, const Node *p);
void halo_widen(Sched *, Node *p);   /* what p views gets the halo for it, where that can be */
void halo_share(Sched *, Node *p);   /* p becomes a part of what it views, if the halo holds it */
void halo_check(Sched *, Node *p);                        /* the same, as p's attribute demands */
void stated_halo(Sched *, Storage *);                     /* as attributes say */
/* The number of the unit, of n, that the statements of `in` work for, and the loop over them and
 * over those that fill the halos of the group's results. */
Node *kb_units(KB *, const Group *, Region *in, Node *n);
void kb_parallel(KB *, Region *body, Region *in);

/* ---- layout.c -------------------------------------------------------------------------------- */

/* The order of the dimensions of c->b in panels of columns, in which the sum's loops read it; false:
 * there is none. */
bool panel_order(const Contraction *c, int *order);
void check_layouts(Sched *);   /* reports what may not be stored as attributes say */

/* A tensor's axes in the order of its storage, those of extent 1 dropped, neighbours merged. */
typedef struct Nest {
	int n;
	Node *axis[MAX_RANK * 2];
	Node *body, *out, *out_idx[MAX_RANK];
} Nest;
Nest nest_of(KB *, Node *tensor);
/* Merges axes k and k + 1 if core, a part of the body, walks them as one; the rest takes
 * quotient and remainder. */
bool merge_rows(KB *, Nest *, int k, Node *core);
double element_cost(Node *body);
double element_units(Node *tensor);                      /* of an element, to share work out by */
bool wants_rows(KB *, Nest *);                           /* reduces along a contiguous axis */
bool body_is_plain(Node *body);                          /* has no loop */
bool long_rows(Sched *, Node *tensor);                   /* worth a block each */

/* ---- cpu.c, contract.c ----------------------------------------------------------------- */

Kernel *schedule_cpu(Sched *, Group *);
Kernel *contract_cpu(Sched *, Group *);   /* NULL if the group is not a contraction */
Kernel *order_cpu(Sched *, Group *);                      /* NULL if the group does not sort */

/* A tensor of positions in a sorted sequence: it counts the elements p along the axis that stand
 * before q. key: what element p is compared by. */
typedef struct Sorting { Node *p, *q, *before, *key; int axis; bool descending; } Sorting;
bool sorting_of(Module *, Node *tensor, Sorting *);   /* only where n^2 steps are many */
bool is_sorting(Module *, Node *tensor);

/* Has the sum of products operands that are read again and again (a matrix product, a
 * convolution)? */
bool contraction_reuse(const Machine *, Node *tensor, Node *reduce);
/* Is there such a sum in the tensor's body, with the part in it (NULL: any)? */
/* Elements of a row that several blocks of a GPU share, where rows are fewer than half its units. */
enum { LONG_ROW = 1 << 15 };
bool holds_product(const Machine *, Node *tensor, const Node *part);
int64_t likely_extent(Module *, Node *extent);           /* a number to expect where it is none */
bool contraction_of(Sched *, Node *tensor, Contraction *);
/* The same with the lanes along a given axis. */
bool contraction_along(Sched *, Node *tensor, Node *n, Contraction *);
/* The read in a factor, under casts and roundings, or the largest in arithmetic on constants; with
 * guards also under a guard with a constant beside it (padding). NULL: something else. */
Node *factor_read(Node *factor, bool guards);
/* Is it more than a read: bits of it, or with others? */
bool spells_out(Node *factor);
/* one step of the sum */
Node *multiply_add(Module *, const Contraction *, Node *a, Node *b, Node *acc);

/* ---- window.c -------------------------------------------------------------------------------- */

Kernel *window_cpu(Sched *, Group *);   /* NULL if the group reduces no windows in lanes */

/* ---- transform.c ----------------------------------------------------------------------------- */

/* sum(axis[0], axis[1]) table[0][row[0], axis[0]] * table[1][row[1], axis[1]] * value */
typedef struct Transform { Node *sum, *value, *axis[2], *row[2], *table[2]; } Transform;
bool transform_of(Node *sum, Transform *);
/* Does the tensor hold a transform of the contraction's sums? How many rows these have (0: not known). */
bool transforms_product(Module *, Node *tensor, Contraction *, int64_t *rows);
Kernel *transform_cpu(Sched *, Group *);   /* NULL if the group is no tensor of transforms */
/* NULL if it is no transform of the contraction's sums */
Kernel *transformed_cpu(Sched *, Group *, Contraction *);

/* ---- tile.c ---------------------------------------------------------------------------------- */

/* A register tile of a contraction. */
/* Rows that were joined are told apart by division: by `by`, which is not known, of the row or of what
 * another division leaves. div and mod: what definitions have; q: the quotient of each of a tile's rows. */
enum { MAX_DIVISIONS = 4 };
typedef struct Division { Node *of, *by, *div, *mod, *q; int base; } Division;

typedef struct Tile {
	KB *kb;
	Contraction *c;
	Node *t;               /* what finished values are put to, at idx */
	Node *body;            /* they, in terms of the reduction c->reduce */
	Node *init;            /* what the sums begin with, NULL: 0 */
	Node *idx[MAX_RANK];   /* of the result, axes n and m still symbolic */
	Node *m;               /* the row axis, or NULL */
	Node *base;            /* of the rows that tile_rows counts; NULL: 0 */
	Node *m0, *n0;         /* first row (from base) and column of the tile */
	Node *last;            /* rows past it are it once more; NULL: there are none */
	Division division[MAX_DIVISIONS];
	int ndivisions;
	int rows, lanes, vecs;
	bool mask;             /* columns may end inside the tile */
	bool past_end;         /* those past the last one may be computed and put as well */
	bool padded;           /* b reads zeros past the last column */
	/* which row tile it is of those that use the columns in turn, and how many those are; NULL:
	 * nothing is fetched for the next ones */
	Node *turn, *turns, *others;   /* others: how many where one tile has all rows */
	Node *ahead;   /* elements from the columns to those that are used next; NULL: the next tile's */
	Node *acc;
	/* on a matrix unit: its tiles of the sums and of the factors; scratch memory for the sums and for rows */
	Node *tc, *ta, *tb, *sums, *rows_copy;
} Tile;

Node *tile_row(Tile *, Node *i);   /* the row axis' value for the tile's row i */

/* How many tiles tile_rows makes of that many rows. */
Node *row_tiles_of(Module *, const Contraction *, Node *extent);
/* The tile's columns from n0 on for rows number mt * mr and on, of `extent` rows. */
void tile_rows(Tile *, Region *, Node *mt, Node *extent);

/* ---- unit.c ---------------------------------------------------------------------------------- */

/* Takes the matrix unit for the contraction if that is faster than vectors: sets unit, tile and step. rows: that
 * there are likely to be in all. */
bool unit_pays(const Machine *, const Mma *, double rows, int64_t words);
bool pick_unit(Sched *, Contraction *, const Tiling *, double rows);
void unit_rows(Contraction *, int64_t m);   /* the tile's rows for an axis of m, 0: not known */
void unit_begin(Tile *, Region *);       /* its buffers */
Node *unit_sums(Tile *, Region *);       /* the tile's sums: a buffer [rows][vecs][lanes] in memory */

/* ---- panel.c --------------------------------------------------------------------------------- */

/* A buffer in the thread's scratch memory. */
Node *kb_scratch(KB *, Region *, const char *name, DType, int n, const int64_t *extent);
/* A tensor without a definition, for what only the kernel knows. */
Node *inner_tensor(Module *, const char *name, DType, int n, const int64_t *extent);
/* Bytes of a panel of c->nr columns; red: how long the summed axes are at most, -1: not known, and
 * then it is -1. */
int64_t panel_bytes(const Contraction *, const int64_t *red);
/* Copies the second factor's columns [n0, n0 + nr), of panel_bytes, and lets c read them there. */
void copy_panel(KB *, Region *, Contraction *, Node *n0, const int64_t *red);

/* ---- attend.c -------------------------------------------------------------------------------- */

enum { MAX_ATTENTION = 16, MAX_COLUMNS = 512 };

/* What attend.c finds, over the axes of the result and the key. */
typedef struct Attention {
	Node *out, *score;
	Node *reduce, *key;    /* of out: the sum of weighted values, its axis */
	int nouter;            /* dimensions of score but the keys */
	Node *outer[MAX_RANK]; /* out's axis for each of them; NULL: it has one element */
	int row;               /* that of them along which rows share keys and values */
	Node *x;               /* what the softmax is of, reading score */
	Node *at;              /* at this key; NULL: at several */
	Node *exp, *weight;    /* exp(x - max), and what is summed in terms of it */
	Node *value, *column;  /* what it weights; out's axis that only this has */
	Node *max, *sum;       /* the row's, reads; sum NULL: none divides by it */
	Contraction qk, pv;    /* lanes along the keys, along out's columns */
	int n; Node *members[MAX_ATTENTION];   /* score first, out last */
} Attention;

bool attention_of(Sched *, Node *out, Attention *);
/* The same whatever its sums are of: row, qk and pv stay empty. */
bool attention_at_all(Sched *, Node *out, Attention *);
bool scores_leave(const Group *, const Attention *);     /* does another kernel read them? */
/* What the reduction is, when total is the sum of exp * value, sum that of exp and max the row's
 * maximum, all of the reduction's type. */
Node *attention_scaled(Module *, const Attention *, Node *total, Node *sum, Node *max);
/*
 * How many keys rows [q0, q0 + rows) may look at: all but the last ones that the definition says to
 * be -inf for each of these rows, which add nothing to finite sums. Over the result's axes.
 */
Node *attention_end(Module *, const Attention *, Node *q0, Node *rows);
Kernel *attention_cpu(Sched *, Group *);
bool attention_fits_gpu(const Attention *);
Kernel *attention_gpu(Sched *, Group *);
/* attend_mma.c: on matrix units; NULL if they cannot */
Kernel *attention_mma(Sched *, Group *);
/* By warp groups; where its `fits` is not proved, `otherwise` is to be set. */
Kernel *attention_wgmma(Sched *, Group *);

/* ---- decode.c, gpu_decode.c ------------------------------------------------------------------- */

enum { MAX_DECODE_ROWS = 8 };

/* What decode.c leaves of an attention of few rows: the sums over a part of its keys. */
typedef struct KeyParts {
	Node *score, *max, *sum, *total;
	int nouter;            /* of their leading axes, the last one the part's number */
	Node *key, *count;     /* total's summed axis; the keys of a part that there are, <= its extent */
	Node *products;        /* score's sum of ea * eb: of queries, of keys */
	Node *ea, *eb, *value; /* value: over total's axes */
	Node *column;
	int64_t depth, columns;
	/* rows that read the same keys and values; how many consecutive ones of an outer axis these are */
	int rows;
	int64_t run[MAX_RANK];
} KeyParts;

bool key_parts(Module *, Node *total, KeyParts *);   /* sum stays NULL: nothing says it */
bool key_parts_sum(Module *, const KeyParts *, Node *t);   /* is it the parts' sum of exponentials? */
bool key_parts_group(Module *, const Group *, KeyParts *);
Kernel *decode_gpu(Sched *, Group *);     /* NULL if the group is no such */

/* ---- few.c, gpu_few.c ------------------------------------------------------------------------ */

bool few_group(Module *, const Group *);  /* are the members all of one product of few rows? */
/* Lays the weights of a product of few rows out as its kernel reads them. */
void few_layout(Sched *, Node *t);
Kernel *few_gpu(Sched *, Group *);        /* NULL if the group is no product of few rows */

/* ---- scatter.c ------------------------------------------------------------------------------ */

Kernel *scatter_kernel(Sched *, Node *scatter);

/* ---- gpu.c, gpu_*.c -------------------------------------------------------------------------- */

/* The frame of a kernel: statements for the block (shared memory) and for the thread. */
typedef struct Frame { Region *body, *block, *thread; Node *bid, *tid; } Frame;
Frame gpu_frame(KB *, Node *blocks, int threads);
Kernel *gpu_close(KB *, Frame *, const char *schedule);
/* allocated, constant extents */
Node *gpu_shared(KB *, Frame *, const char *name, DType, int n, Node *const *extents);
bool divisible(const Node *e, int w);                     /* whatever its axes and symbols are? */
/* Are elements at addr consecutive along the axis, w of them always aligned and within its
 * extent? */
bool in_vectors(Module *, Node *addr, Node *axis, int w);
/* e with comparisons that come out alike for w aligned lanes of the axis, [0, w), made at the
 * first. */
Node *by_vectors(Module *, Node *e, Node *axis, int w);
int vector_of(int bytes);   /* elements of that size that travel together: 8 or 16 bytes */
Kernel *schedule_gpu(Sched *, Group *);
Kernel *rows_gpu(Sched *, Group *);
Kernel *columns_gpu(Sched *, Group *);    /* NULL if it has no sums by columns */
/* gpu_mma.c: do matrix units take the product, and its factors with the depth contiguous? */
bool takes_depth(const Sched *, const Contraction *);
Kernel *contract_gpu(Sched *, Group *);   /* NULL if the group is not a contraction */
Kernel *order_gpu(Sched *, Group *);      /* NULL if the group does not sort */
bool is_scan(Module *, Node *tensor);
Kernel *scan_gpu(Sched *, Group *);       /* NULL if the group does not run along an axis */
Kernel *tile_gpu(Sched *, Group *);       /* NULL if the map reads nothing across */

/* ---- dot4.c ---------------------------------------------------------------------------------- */

/* An i32 of a byte, or of bits of one: i32(read), or i32(read) >> shift & mask of an unsigned one. */
typedef struct Byte { Node *read, *shift; int mask; } Byte;
bool byte_of(Node *e, Byte *);
/* Has the sum of two bytes' products an axis that both go through in fours? */
bool sums_in_fours(Module *, Node *reduce);
/* e's sum over the reduction's axes, made anew */
Node *sum_anew(Module *, Node *reduce, Node *e);
int word_elements(const Node *x);   /* of the tensor x, in a word of four bytes */
/* What t has the words of: its elements are four bytes, or two bf16, along a dimension, past the end `fill`;
 * NULL if it is none such. */
Node *words_of(Module *, const Node *t, int *dim, Node **fill);

/* ---- group.c --------------------------------------------------------------------------------- */

bool member_of(const Group *, const Node *tensor);
/* of Group, as attributes say, in order of execution within a home; needs s->home */
Vec groups_of(Sched *);


/* ---- formula.c ------------------------------------------------------------------------------- */

const char *peak_formula(Module *, const Plan *);        /* NULL if it would be long */

/* ---- sizes.c --------------------------------------------------------------------------------- */

int find_sizes(Sched *);   /* how many are unnamed; puts them into s->sizereads */

/* ---- place.c --------------------------------------------------------------------------------- */

void place_static(Module *, Plan *);   /* offsets of arena buffers of constant size */

#endif
