/* Forests of decision trees as the operators' attributes give them. */
#ifndef TCC_OPS_TREES_H
#define TCC_OPS_TREES_H

#include "ml.h"

/* MEMBER: of a set; EQ, NEQ and MEMBER know no order. */
typedef enum Mode { LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF } Mode;

/* What the tables are made from. Children of an inner node: true, false. */
typedef struct TreeNode { Mode mode; int32_t feature; double value; int64_t child[2];
	bool missing_true; } TreeNode;
typedef struct Weight { int64_t leaf; int64_t target; double weight; } Weight;   /* leaf: a node */
typedef struct Forest {
	int64_t nnodes, ntrees, nweights, ninner, nleaves, ntargets;
	TreeNode *nodes;
	int64_t *roots;        /* a node of each tree */
	Weight *weights;
	int64_t *place;        /* a node's row in the tables */
	int depth;
	double *members;       /* of node's MEMBER sets, each ended by NaN; value is where one begins */
	int64_t nmembers;
} Forest;

/* tree_list.c */

/* An inner node; its leaves in the list: lo to mid if its condition holds, to hi if not. */
typedef struct Span { int64_t node, lo, mid, hi; } Span;

/* Trees' leaves (nodes) and inner nodes in the order of a walk from the left, tree by tree. */
typedef struct TreeList {
	const Forest *f;
	int64_t *leaves;
	Span *spans;
	int64_t *first_leaf, *first_span;    /* of a tree; one more at the end */
	int64_t nleaves, nspans;
	/* weights of a leaf follow one another: the first of a node, the next of a weight; -1: none */
	int64_t *head, *next;
} TreeList;
TreeList *list_forest(Module *, const Forest *);   /* NULL: too deep, too many nodes */

double below_threshold(DType c, double t);         /* x <= it is x < t; NaN: never */
/* The only target that leaves from..to-1 give to, -1: none, -2: there are several. */
int64_t leaves_target(const TreeList *, int64_t from, int64_t to);

/*
 * Where n items stand: in rows, one a target if each gives to one target, else one; in a row one
 * after another in their order, so that rows end together.
 */
typedef struct Layout { int64_t rows, columns, *row, *column; } Layout;
Layout lay_rows(Module *, const int64_t *target, int64_t n, int64_t ntargets);

/* Leaves `leaf` to leaf + n - 1 stand at a place of the Layout's rows, of the table's width. */
typedef struct Laid { int64_t leaf, n, place; } Laid;
typedef struct WeightTable { int64_t rows, width, leaves; DType dtype; Comb comb; } WeightTable;
/* [targets, width, leaves]: what the leaves give; the combiner's identity elsewhere */
Node *lay_weights(Module *, const TreeList *, const Laid *, int64_t n, const WeightTable *);

/*
 * [n, targets]: the weights of the leaves that the rows of x reach, combined over the trees;
 * compared and added up in type c. Costs are in steps of the masks' loop for one place, a row.
 */

/* tree_masks.c. NULL: it costs more than `below`, or conditions are no thresholds. */
Node *forest_by_masks(Build *, const TreeList *, Node *x, DType c, Comb, double below);

/* tree_intervals.c. NULL: the tables would be too large. */
typedef struct Intervals Intervals;
Intervals *find_intervals(Module *, const TreeList *, DType c, double *cost);
Node *forest_by_intervals(Build *, Intervals *, Node *x, Comb);

#endif
