/* Rewrite rules: rows of text (rules.def), parsed into patterns, applied by the rewrite pass. */
#ifndef TCC_RULES_H
#define TCC_RULES_H

#include "ir/body.h"
#include "opt.h"

/* ---- rules.c: patterns (the table is in opt.h) ---------------------------------------------- */

enum { MAX_PAT_ARGS = 8, MAX_SLOTS = 24, MAX_PATS = 48 };

/* Any value; one that depends on constants alone; a number; an operator. */
typedef enum PatKind { PAT_ANY, PAT_KNOWN, PAT_NUM, PAT_CALL } PatKind;

/* An attribute in a pattern: one that is named takes the value, or must have it. */
typedef struct PatAttr {
	const char *name;
	int slot;              /* -1: must equal v */
	Value v;
} PatAttr;

/* A value to be matched. */
typedef struct Pat Pat;
struct Pat {
	PatKind kind;
	int id;                /* of a call: its place in Match.node */
	int slot;              /* of a name */
	bool optional;         /* a name that may stand for an absent operand */
	bool shared;           /* stands under a name, perhaps several times */
	double num;
	bool about;            /* num: to 4 units in the last place */
	const Op *op;
	int nargs, nattrs;
	int rest;              /* slot for all attributes; -1: others are at their defaults */
	Pat *arg[MAX_PAT_ARGS];
	PatAttr attr[MAX_PAT_ARGS];
};

typedef struct Pattern {
	const Rule *rule;
	Pat *root;
	int nslots, ncalls;
	const char *name[MAX_SLOTS];   /* of the slots, as long as len */
	int len[MAX_SLOTS];
} Pattern;

/* The pattern in the module's arena; NULL after a message: a mistake in a row. */
Pattern *pattern_parse(Module *, const Rule *);
bool op_commutes(const Op *, bool *associative);

/* ---- match.c -------------------------------------------------------------------------------- */

/* What the pass knows of the graph. */
typedef struct Graph {
	Module *m;
	Map uses;              /* node -> 1 + how often it is an operand or result, an intptr_t */
	Map known;             /* node -> itself if it depends on constants alone, else the graph */
} Graph;

/* Counts the uses of all that the roots are made of. */
void graph_count(Graph *, Node *const *roots, int nroots);
void graph_use(Graph *, const Node *, intptr_t more);
intptr_t graph_uses(const Graph *, const Node *);
bool graph_has(const Graph *, const Node *);     /* was the node counted? */
void graph_free(Graph *);
bool graph_known(Graph *, Node *);
/* The replacement of a node by a rule, of the same type, and where what was matched came from; NULL
 * if the rule does not apply. Reports nothing. */
Node *rule_apply(Graph *, const Pattern *, Node *, const Loc **loc);

/* ---- facts.c -------------------------------------------------------------------------------- */

/* What calls in the texts of a rule are handed as their Build. */
typedef struct Asked { Build build; Graph *graph; } Asked;
BodyCall fact;

#endif
