/* What the GPU schedules of attention share: the definition at rows and keys of a block. */
#ifndef TCC_ATTEND_FORM_H
#define TCC_ATTEND_FORM_H

#include "sched.h"

/* A block has query rows of one batch and head; its rows are numbered along several axes of the
 * result as one, those along which the keys and values are the same. */
typedef struct Flash {
	KB *kb;
	Module *m;
	Frame f;
	Attention a;
	DType type;            /* of sums and exponentials */
	bool leave;            /* the scores are read by others */
	Node *rows[MAX_RANK], *extent;   /* the axes, slowest first; how many rows there are */
	int nrows;
	Node *column;          /* axis of the result */
	Map out, score;        /* the other axes of result and score -> their values */
	Node *n;               /* keys in all */
} Flash;

void flash_open(Flash *, KB *, const Group *);
void flash_close(Flash *);
/* Blocks for each block of rows: of the other axes. */
Node *flash_batch(Flash *);
/* Binds those axes by the block's number among them. */
void flash_bind(Flash *, Region *, Node *number);
/* Within the extent: the last element stands for those past it. */
Node *flash_clamp(Module *, Node *i, Node *extent);
/* e, over axes of the result and the key's, at a row, key and column; those that are NULL stay. */
Node *flash_at(Flash *, Node *e, Node *row, Node *key, Node *column);
/* e, over the score's own axes, as over the result's and the key's. */
Node *flash_of_score(Flash *, Node *e);
/* A factor of the scores likewise, with `deep` in place of the axes that they sum over. */
Node *flash_factor(Flash *, Node *e, Node *deep);
/*
 * What the softmax is of, from a sum of products, at a row and a key of which both may be past
 * the end: such keys have -inf. Stores scores that others read.
 */
Node *flash_score(Flash *, Region *, Node *sum, Node *row, Node *key);
/* The key from which on none of the rows [q0, q0 + rows) looks at any, made a statement of r. */
Node *flash_end(Flash *, Region *r, Node *q0, int rows);
/* The result at a row and column, in terms of what its reduction is there; idx: where it goes. */
Node *flash_result(Flash *, Node *reduced, Node *row, Node *column, Node **idx);
/* What its reduction is, from the sums of exponentials times values, of exponentials, the
 * maximum. */
Node *flash_reduced(Flash *, Node *total, Node *sum, Node *max);

#endif
