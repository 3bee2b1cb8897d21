/* Products of few rows: their form (few.c) and their schedule (gpu_few.c). */
#ifndef TCC_FEW_H
#define TCC_FEW_H

#include "sched.h"

enum {
	MAX_FEW = 8, MAX_PRODUCTS = 4,
	FEW_PROLOGUE = 40 * 1024,   /* bytes of shared memory for what comes before the products */
};

typedef struct FewProduct {
	Node *reduce, *ea, *eb;   /* sum of ea * eb; eb is of weights */
	Node *b;               /* the weights' read in eb */
	int nred; Node *red[MAX_RANK * 2];   /* the summed axes, slowest first */
	int64_t depth;         /* of all of them */
	int each;              /* steps of the depth that one element of the weights has the bits for */
} FewProduct;

typedef struct Few {
	Node *t, *n;           /* n: the axis of the columns */
	int64_t columns, rows;
	int nrow; Node *row[MAX_RANK];   /* the rows' axes, slowest first */
	int nproducts; FewProduct product[MAX_PRODUCTS];
} Few;

bool few_of(Module *, Node *t, Few *);
/* May a block compute all of t before its products? */
bool few_prologue(Module *, Node *t);
/* Is t a product of few rows over the same rows and columns as out? */
bool few_beside(Module *, Node *t, const Few *out);

/* A member in shared memory, row-major, has FEW_PAD elements of room after each FEW_RUN: threads
 * that read runs of up to so many side by side hit distinct banks. */
enum { FEW_RUN = 32, FEW_PAD = 4 };
int64_t few_padded(int64_t n);           /* places that n elements take */
int64_t few_bytes(const Node *t);

#endif
