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

/*
 * [n, targets]: the weights of the leaves that the rows of x reach, combined over the trees;
 * compared and added up in type c. NULL: the forest's trees are too large, or their conditions
 * are no thresholds, so that they had better be walked.
 */
Node *forest_by_masks(Build *, const Forest *, Node *x, DType c, Comb);

#endif
