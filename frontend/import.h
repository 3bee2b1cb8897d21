/* What the files of the import share. */
#ifndef TCC_IMPORT_H
#define TCC_IMPORT_H

#include "frontend/frontend.h"

typedef struct Env Env;
struct Env {
	Names vals;      /* name to Node, or to poison */
	Env *up;
};

/* Which branch an If takes that is open: its branches differ in rank. */
typedef struct Choice Choice;
struct Choice { const OnnxNode *node; bool yes; const Choice *next; };

typedef struct Import {
	OnnxModel *om;
	Module *m;
	Names missing;   /* "domain:op-version" to Missing */
	Vec order;       /* of Missing */
	int64_t *work;   /* nodes imported: bodies within bodies are made several times */
	int forks;       /* attempts around this one: see choose_branch */
	bool settled;    /* no choice was found: the row may say what is wrong */
	const Choice *choices;
	const OnnxNode *open;   /* the open If that stopped an import, and its condition */
	Node *open_cond;
} Import;

extern Node poison;      /* stands for what could not be made, which is reported */

/* ---- import.c -------------------------------------------------------------------------------- */

Node *env_lookup(const Env *, const char *name);
void env_bind(Import *, Env *, const char *name, Node *);   /* NULL: poison */
bool bind_initializers(Import *, const OnnxGraph *, Env *);
bool add_results(Import *, const OnnxGraph *, const Env *, Region *);   /* false: one is poisoned */
Form form_of(Import *, const OnnxNode *, Node **in);
/* The graph's nodes from first on. inlined: what cannot be chosen here may be where the graph has
 * its place; then false. */
bool import_nodes(Import *, const OnnxGraph *, Env *, int first, bool inlined);

/* ---- import_body.c --------------------------------------------------------------------------- */

const OnnxAttr *form_attr(const Form *, const char *name);
Region *import_body(Import *, const Form *, const OnnxGraph *, Env *);   /* NULL after reporting */
/* One body for all rounds of a loop, with the carried values' ranks kept? */
bool rounds_agree(Import *, const Form *, const OnnxGraph *, Env *);

/* An import without a sound, which may fail; end: was nothing wrong? */
typedef struct Attempt { Import im; Diag quiet, *loud; } Attempt;
void attempt_begin(Attempt *, const Import *);
bool attempt_end(Attempt *);

/* ---- search.c -------------------------------------------------------------------------------- */

/* The regions of an operator that searches with a decoder; false after reporting. */
bool search_regions(Import *, const Form *, const Op *, Env *, int *n, Region **);

/* ---- gradient.c ------------------------------------------------------------------------------ */

/* A Gradient among the graph's nodes; NULL after reporting. */
Node *import_gradient(Import *, const OnnxNode *, Node **in, Env *);

/* ---- import_flow.c --------------------------------------------------------------------------- */

/* The branch that an If takes, if that is known; the other one may be nonsense for these shapes. */
const OnnxGraph *taken_branch(Import *, const OnnxNode *, Node *cond);
/* false: an If in it is open */
bool import_branch(Import *, const OnnxNode *, const OnnxGraph *, Env *);
/* The body of a loop that is to be written out, and how often. NULL for others. */
const OnnxGraph *body_to_write_out(Import *, const OnnxNode *, Node **in, Env *, int64_t *rounds);
bool import_rounds(Import *, const OnnxNode *, Node **in, const OnnxGraph *, int rounds, Env *);
bool ranks_differ(const Region *, const Region *);
/* Node `at` is or holds an open If. ONE: the choice is noted and the node can be made; BOTH: all
 * is. */
typedef enum Chosen { CHOSEN_NONE, CHOSEN_ONE, CHOSEN_BOTH } Chosen;
Chosen choose_branch(Import *, const OnnxGraph *, Env *, int at);

#endif
