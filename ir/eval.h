/* What the files of the evaluator share. */
#ifndef TCC_EVAL_H
#define TCC_EVAL_H

#include <stdlib.h>

#include "ir/ir.h"

typedef struct Val {
	DType d;
	int rank;
	int64_t dims[MAX_RANK];
	int64_t count;
	Num *num;
	const char **str;      /* of a string tensor */
	int n; struct Val **elem;  /* of a tuple */
	bool tuple;
	struct Val *next;      /* all values, to be freed */
} Val;

typedef struct Sym { int64_t v; int level; } Sym;

typedef struct Env { struct Env *up; int level, outer; Map vals; const Region *region; } Env;

typedef struct Prog Prog;           /* eval_expr.c */

typedef struct Eval {
	Module *m;
	bool wide, failed;
	Env *env;
	Map progs;             /* node -> Prog */
	Map syms;              /* symbol -> Sym */
	Map owner;             /* symbol that a loop or if defines -> that node */
	Val *all;
	uint64_t clock;
	struct Frame *stack; int depth, cap;
} Eval;

static inline void *grow(void *p, size_t size)
{
	p = realloc(p, size ? size : 1);
	if (!p)
		abort();
	return p;
}

static inline void *zeroed(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);
	if (!p)
		abort();
	return p;
}

#define FAIL(e, loc, ...) do { \
	if (!(e)->failed) \
		diag_error((e)->m->diag, X_DATA, loc, __VA_ARGS__); \
	(e)->failed = true; \
} while (0)

static inline DType held(const Eval *e, DType d)
{
	return e->wide && dt_float(d) ? DT_F64 : d;
}

/* Advances axes like an odometer, the last fastest; false past the end. */
static inline bool next_index(int64_t *at, const int64_t *extent, int n)
{
	for (int i = n; i-- > 0;) {
		if (++at[i] < extent[i])
			return true;
		at[i] = 0;
	}
	return false;
}

/* ---- eval.c ---------------------------------------------------------------------------------- */

Val *eval_find(Eval *, const Node *);                    /* NULL: not evaluated yet */
bool eval_sym(Eval *, const Node *, int64_t *);          /* false: nothing has set it */

/* ---- eval_expr.c ----------------------------------------------------------------------------- */

/* The node's program, made when first asked for, with the roots' values as results over the
 * axes. */
Prog *prog_of(Eval *, const Node *key, Node *const *roots, int n, Node *const *axes, int naxes);
void prog_free(Prog *);
/* before its first run with these tensors */
void prog_begin(Eval *, Prog *);
void prog_axes(Eval *, Prog *, const int64_t *at);
Num prog_run(Eval *, Prog *, int root);
void eval_closed(Eval *, Node *const *list, int n, int64_t *v);   /* such as dimensions */
Num eval_combine(int comb, DType, Num, Num);
Node **eval_scalars(Node *, int *n);                     /* all of an expression, operands first */

#endif
