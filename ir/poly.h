/*
 * What the files of index arithmetic share: polynomials with integer coefficients over atoms (axes,
 * symbols, reads, quotients ...). One that does not fit is bad, and whoever meets it leaves the
 * expression as it is.
 */
#ifndef TCC_POLY_H
#define TCC_POLY_H

#include "ir.h"

enum { MAX_TERMS = 40, MAX_FACTORS = 8 };

typedef struct Term { int64_t c; int nf; Node *f[MAX_FACTORS]; } Term;
typedef struct Poly { int n; bool bad; Term t[MAX_TERMS]; } Poly;

static inline int64_t imin(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t imax(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- expr.c ---------------------------------------------------------------------------------- */

int64_t ifloordiv(int64_t, int64_t);
void mul_range(int64_t al, int64_t ah, int64_t bl, int64_t bh, int64_t *lo, int64_t *hi);
Node *raw2(Module *, OpCode, Node *, Node *);            /* as stated, without simplification */

/* ---- poly.c ---------------------------------------------------------------------------------- */

bool before(const Node *, const Node *);                 /* the order of factors */
Term without_factor(const Term *, int k);
void poly_one(Poly *, const Term *);                     /* is the monomial */
void poly_add_term(Poly *, const Term *, int64_t scale);
void poly_add(Poly *, const Poly *, int64_t scale);
bool term_mul(Term *r, const Term *a, const Term *b);
void poly_mul(Poly *r, const Poly *a, const Poly *b);    /* r is neither operand */
void poly_of(Poly *, Node *);
Node *poly_node(Module *, const Poly *);
bool poly_bound(const Poly *, bool upper, int64_t *);    /* false: none is found */
/* e's range, by the polynomial that it is */
void sharpen(Node *e, const Poly *);
bool diff_bound(Node *a, Node *b, bool upper, int64_t *);   /* of a - b */

/* ---- index.c --------------------------------------------------------------------------------- */

Node *index_arith(Module *, OpCode, Node *a, Node *b);   /* add, sub, mul */
/* floordiv (want_q) or mod; the divisor is positive where it matters. */
Node *index_divmod(Module *, bool want_q, Node *a, Node *b);

#endif
