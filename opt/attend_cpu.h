/* What the CPU schedules of attention share (attend_cpu.c). */
#ifndef TCC_ATTEND_CPU_H
#define TCC_ATTEND_CPU_H

#include "sched.h"

typedef struct Flash {
	KB *kb;
	Module *m;
	Attention a;
	DType type;            /* of sums and exponentials */
	int rows, keys;        /* of a full block */
	Node *row, *column;    /* axes of the result */
	Node *q0, *nrows, *k0, *nkeys;   /* the block's first row and key, and how many there are */
	Map out, score;        /* the other axes of result and score -> their values */
	Node *max, *sum, *rise;   /* a row's: [rows]; rise: what the last block scales its sums by */
	/* tensors of the exponentials, [q, k], and of the sums before and after a block, [2, q, c]: the
	 * last tile's rows may be computed twice, so they must not be their own operands */
	Node *exps, *total;
	Node *before, *after;  /* which of the two is which */
	/* with lanes across queries: their products, in tiles of as many vectors as do well and in one
	 * of the block's others, if there are any; the columns, copied; what the softmax is of, over
	 * the score's axes; and whether it may be computed past the last query */
	Contraction across, rest;
	Node *queries, *x;
	bool past_end;
} Flash;

Region *attend_loop(Flash *, Region *, Node *extent, Node **axis);
Node *attend_cell(Flash *, Node *buffer, Node *i);
void attend_set(Flash *, Region *, Node *buffer, Node *i, Node *v);
/* e, over the result's axes, for row q. */
Node *attend_at_row(Flash *, Node *e, Node *q);
/* Register tiles of the columns [first, first + count) for `extent` rows from t->base on; red: how
 * long the sums are. The factor of the columns is copied to panels where its lanes are apart. */
void attend_tiles(Flash *, Region *, Tile *t, Node *first, Node *count, Node *extent,
	const int64_t *red);

/* ---- attend_across.c ------------------------------------------------------------------------- */

/* Can it have lanes across queries, f->rows in a block, a multiple of the lanes? Sets f's fields
 * for that. */
bool across_fits(Flash *, const Group *);
/* Copies the block's queries, for all blocks of keys. */
void across_open(Flash *, Region *);
void across_scores(Flash *, Region *);
void across_softmax(Flash *, Region *);

#endif
