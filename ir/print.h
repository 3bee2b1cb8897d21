/* What the files of the printer share; each says what it does at its head. */
#ifndef TCC_PRINT_H
#define TCC_PRINT_H

#include "ir/text.h"

/* A block of an expression: the whole, or the body of a reduce or iter. */
typedef struct Scope { int parent, depth; } Scope;

typedef struct Names { char **at; uint32_t cap, n; } Names;

typedef struct P {
	Module *m;
	Level level;
	FILE *f;
	FILE *data;            /* where large constants go, or NULL */
	const char *data_name;
	bool loose;            /* expr_print: what has no name is described */
	int tabs;
	int nvalue, naxis, nlet, ncarry;
	Map name;              /* node -> text */
	Map home;              /* line -> Region */
	Map closed;            /* scalar without axes, carries and statements */
	Names syms, vals;      /* names taken: symbols, values */
	/* the expression being printed */
	Map scope;             /* node -> scope + 1 */
	Map inner;             /* reduce, iter -> the scope of its body + 1 */
	Node **list; int count;
	Scope *scopes; int nscopes;
	Map let;               /* bound by a let */
} P;

/* What a node needs: operands, dimensions of its type, attributes. */
typedef struct Needs { Node **at; int n, cap; } Needs;

/* Nodes to print, needs first, regions' contents before their owner. */
typedef struct Walk { Vec list; Map seen; Needs needs; } Walk;

void *pr_grow(void *p, size_t size);
void pr_nl(P *);

/* ---- print_expr.c ---------------------------------------------------------------------------- */

bool pr_name_take(Names *t, const char *s);              /* false if it was taken */
bool pr_name_has(const Names *t, const char *s);
bool pr_identifier(const char *s);
void pr_quoted(FILE *f, const char *s, char q);
void pr_sym_name(FILE *f, const char *s);
const char *pr_value_text(P *p, const char *s);
void pr_name_value(P *p, Node *n);         /* its own name if no other has it, else a number */
void pr_float_text(FILE *f, DType d, double v);
bool pr_plain_float(DType d, double v);                  /* is it read back from decimal digits? */
void pr_value(P *p, Node *n);
void pr_axes(P *p, Node *const *a, int n, const char *close);
void pr_expr(P *p, Node *e, int prec);
void pr_full_expr(P *p, Node *e);                        /* on its own: in braces if it has lets */
void pr_body_expr(P *p, Node *e);                        /* always in braces */

/* ---- print_place.c --------------------------------------------------------------------------- */

Node *pr_view(P *p, Node *n);                            /* what the level shows for it */
bool pr_stands_for(P *p, const Node *n);
bool pr_reads(Node *e);
void pr_needs(P *p, Node *n, Needs *s);
bool pr_is_line(P *p, Node *n);
void pr_collect(P *p, Walk *w, Node *root);
void pr_place(P *p, Walk *w);

/* ---- print.c --------------------------------------------------------------------------------- */

bool pr_unknown(const Node *e);
bool pr_hidden(P *p, Node *e);                           /* reads what the level does not show */
void pr_type_text(P *p, const Type *t);
void pr_loc(P *p, const Loc *l);
void pr_data_text(P *p, const Data *d, DType t);
void pr_attr_double(P *p, double v);
void pr_param(P *p, Node *n);
void pr_range(P *p, Node *s);
void pr_line(P *p, Walk *w, Node *n);
void pr_order(P *p, Walk *w);
void pr_symbols(P *p, Walk *w);
void pr_ledger(P *p);
void pr_head(P *p);
void pr_input_name(P *p, int i);
void pr_output_name(P *p, int i);
void pr_collect_head(P *p, Walk *w);
void pr_finish(P *p, Walk *w);
void pr_take_symbols(P *p, Walk *w);

/* ---- print_loop.c ---------------------------------------------------------------------------- */

void pr_loops(P *p);

#endif
