/* The passes over the IR, from ONNX operators to kernels and a host plan. */
#ifndef TCC_OPT_H
#define TCC_OPT_H

#include "ir/ir.h"

/* ---- legalize.c ---------------------------------------------------------------------------- */

/* The expression in operations that targets have (ir/README.md). Of the same type, but for
 * sub-byte types, which become their storage type. */
/* acc + dot2(a, b) (scalar.def), legal if they are */
Node *multiply_pairs(Module *, Node *a, Node *b, Node *acc);
Node *legalize(Module *, Node *scalar_expr);
/* How kernels hold a type in memory: i2 and i4 in i8, u2, u4 and the code of f4e2m1 in u8, others
 * as they are. The borders of the program pack and unpack. */
DType storage_type(DType);
Node *to_storage(Module *, Node *scalar_expr);
Node *from_storage(Module *, DType, Node *stored);

/* ---- quotient.c ---------------------------------------------------------------------------- */

/* A legal f32 that gives the same as x where it is cast to the type: without a division, if x is a
 * quotient by a constant, rounded; x itself otherwise. */
Node *rounded_quotient(Module *, DType to, Node *x);

/* ---- rewrite.c ----------------------------------------------------------------------------- */

/*
 * Rebuilds the main region: fn sees each node with its new operands and gives the replacement, or
 * NULL for the same operation on the new operands. done maps old nodes to new ones so far. With
 * defs, definitions come before the graph nodes they define; without, they are rewritten where
 * those are rebuilt.
 */
typedef Node *Rewriter(Module *, Node *, Node **in, Map *done, void *);
void rewrite_module(Module *, bool defs, Rewriter *fn, void *);
Node *rebuild_node(Module *, Node *, Node **in, Map *done);
/* Its definition with its axes at idx: its element there. */
Node *element_of(Module *, Node *tensor, Node *const *idx);
/* The tensor with what fn gives for the reductions in its definition; NULL keeps one. */
typedef Node *Reducer(Module *, Node *reduction, void *);
Node *replace_reductions(Module *, Node *tensor, Reducer *fn, void *);
/* Does the tensor depend on nothing but constants, within so many steps? */
bool from_constants(Node *tensor, int steps);
const Type *map_type(Module *, const Type *, Map *done);   /* its dims with their nodes replaced */
/* Gives each node that the map holds the attributes that it maps to; &no_attrs stands for none. */
void annotate(Module *, Map *attrs);
extern const Attr no_attrs;

/* ---- tuning.c: schedules that were measured -------------------------------------------------- */

typedef struct Decision {
	const char *key;
	const char *choice;            /* the tuning file's, NULL: none */
	const char **candidates; int n;        /* while tuning: what may be measured, the estimate's best first */
	bool missed;                   /* reported as missing */
} Decision;
struct Tuning {
	Vec decisions;
	bool records;                  /* schedules offer candidates */
	bool required;                 /* a kernel's decision without a choice is an error */
};
/* Of m->tuning; made on first use. */
Decision *decision(Module *, const char *key);
void offer(Decision *, const char *choice);    /* one more candidate, unless it has enough */
void require_choice(Module *, const char *key, const Loc *);
/* Reads the lines for m->machine into m->tuning; false after an error, with the file's line. */
bool tuning_read(Module *, const char *path);

/* ---- passes.c: the passes in order --------------------------------------------------------- */

typedef struct Pass {
	const char *name;
	Level needs, leaves;
	bool optional;         /* may be disabled; left out at -O0 */
	bool (*run)(Module *); /* false after errors */
	const char *doc;
} Pass;
extern const Pass passes[];    /* ended by a NULL name */

typedef struct PassOptions {
	int level;             /* -O */
	const char *only;      /* comma-separated names to run alone, or NULL: all */
	const char *disabled, *stop;
	FILE *time;            /* where --time-passes prints, or NULL */
	void (*before)(const char *pass, void *ctx);                   /* may be NULL */
	void (*after)(Module *, Level, const char *pass, void *ctx);   /* --dump-after; may be NULL */
	void *ctx;
} PassOptions;

/* From *level as far as the options say; m->machine set. Verifies after every pass. */
bool run_passes(Module *, Level *level, const PassOptions *);

bool pass_simplify(Module *);   /* graph -> graph: rewrite rules */
bool pass_lower(Module *);      /* graph -> tensor level */
bool pass_quantized(Module *);  /* tensor -> tensor: sums of dequantized bytes as integers */
bool pass_narrow(Module *);     /* tensor -> tensor: quantization before what moves or compares */
bool pass_dot4(Module *);       /* tensor -> tensor: products of bytes in fours */
bool pass_precision(Module *);  /* tensor -> tensor: narrower operands of contractions */
bool pass_inline(Module *);     /* tensor -> tensor: producers into consumers */
bool pass_scales(Module *);     /* tensor -> tensor: scales of narrow weights out of sums */
bool pass_widen(Module *);      /* tensor -> tensor: halves that products read often as f32 */
bool pass_siblings(Module *);   /* tensor -> tensor: products of one operand as one, for GPUs */
bool pass_hoist(Module *);      /* tensor -> tensor: reductions out of axes they do not depend on */
bool pass_fold(Module *);       /* tensor -> tensor: closed tensors become constants */
bool pass_winograd(Module *);   /* tensor -> tensor: convolutions by fewer products */
bool pass_decode(Module *);     /* tensor -> tensor: keys of attentions of few rows in parts, for GPUs */
bool pass_split(Module *);      /* tensor -> tensor: long sums in parts, where blocks are few */
bool pass_sizes(Module *);      /* tensor -> tensor: symbols for sizes that run-time data give */
bool pass_group(Module *);      /* tensor -> tensor: says which tensors share a kernel */
bool pass_pack(Module *);       /* tensor -> tensor: operands of products into panels */
bool pass_layout(Module *);     /* tensor -> tensor: says how values lie in memory */
bool pass_schedule(Module *);   /* tensor -> loop level */

/* ---- rules.c: the table of rewrite rules, that `simplify` applies (rules.def) ---------------- */

/* What a replacement may change (opt/HACKING.md). */
typedef enum RuleClass { RULE_EXACT, RULE_REAL } RuleClass;
extern const char *const rule_classes[];

typedef struct Rule {
	const char *name;
	RuleClass cls;
	double ulp;            /* real: the error it may add, in units in the last place of the result's
	                        * largest magnitude; its test holds it to that */
	const char *pattern, *replacement;
	const char *condition; /* "": none */
	const char *samples;   /* what its test runs on (tests/opt/test_rules.c) */
} Rule;
extern const Rule rules[];     /* ended by a NULL name */

/* ---- home.c -------------------------------------------------------------------------------- */

void home_regions(Module *, Map *home);      /* node -> the Region that computes it */

/* ---- halo.c -------------------------------------------------------------------------------- */

/*
 * Is t another tensor with a constant around it (parts of it may be cut off): select(the indices
 * are within the other's extents, read other[axis - shift, ...], constant)? The shifts, if asked
 * for: room for MAX_RANK.
 */
bool is_padding(Module *, const Node *t, Node **shift);

/* ---- simplify.c ---------------------------------------------------------------------------- */

double ulp_of(DType);   /* the unit in the last place of 1 */

/* ---- inline.c ------------------------------------------------------------------------------ */

/* of one evaluation, in simple operations, loops counted once */
double body_cost(Node *body, bool *has_loop);

#endif
