/* What recurrent operators share with their quantized forms. */
#ifndef TCC_OPS_RNN_H
#define TCC_OPS_RNN_H

#include "ops.h"

typedef struct Act { int kind; double alpha, beta; } Act;
typedef struct Rnn Rnn;
typedef struct Step Step;

/* Shapes: w [dirs, gates * H, I], r [dirs, gates * H, H], bias [dirs,
 * 2 * gates * H], lens [B], p [dirs, 3 * H]. */
struct Rnn {
	Build *b;
	Node *x, *w, *r, *bias, *lens, *h0, *c0, *p;
	Node *T, *B, *I, *H;
	DType d, acc;          /* of the operands; computed in */
	int gates, dirs, nact;
	bool batch_first, reverse, clips, reset_first;
	/* one loop has both directions: tensors of a step begin with their axis */
	bool both;
	double clip;
	Act act[2][3];
	Node *(*input)(Rnn *, int dir);              /* [T, B, gates * H]: what x gives to the gates */
	Node *(*state)(Step *);                      /* [B, gates * H]: what the states give */
	void (*cell)(Step *);
	/* a carried state besides h and c: what it begins as, and what it is after new_h; NULL: none.
	 * With one, each direction has a loop of its own */
	Node *(*more)(Rnn *, int dir);
	Node *(*more_next)(Step *);
	void *own;             /* the operator's own */
};

/* An element of a tensor over [direction,] batch entry, unit: its axes, and these three. */
typedef struct Cell { int n; Node *ax[3], *d, *b, *h; } Cell;

/* One round of the loop of direction dir, or of both: h, c, more are the carried states, new_h,
 * new_c (tensors) what the cell makes. */
struct Step { Rnn *r; int dir; Node *trip, *h, *c, *more, *input, *state, *new_h, *new_c; };

/* Reads the attributes and shapes that all kinds have; false after an error. */
bool rnn_args(Build *, Rnn *, int gates, int nact, const char *const *acts);
Node *rnn_build(Rnn *, bool cell_state);
Node *rnn_x(Rnn *, Node *t, Node *b, Node *i);  /* an element of x whatever its layout */
/* The first axes of a tensor of direction dir, or of both: that of the direction, where both have
 * one; what the direction is there. */
Node *rnn_direction(Rnn *, int dir, Node **axes);
Cell rnn_cell(Rnn *, int dir, Node *units);
/* the cell's element, but of that unit */
Node *rnn_read(Rnn *, Node *t, const Cell *, Node *unit);
/* what is added to gate element n of direction d, in acc; NULL if nothing */
Node *rnn_bias(Rnn *, Node *d, Node *n);
Node *rnn_round(Step *);
Node *rnn_length(Rnn *, Node *b);                /* of batch entry b, within [0, T] */
void lstm_cell(Step *);
/* The arguments of LSTM, GRU and RNN: X, W, R, B, sequence_lens, initial_h. W has `wider` columns
 * more than X. */
bool rnn_float_args(Build *, Rnn *, int gates, int nact, const char *const *acts, Node *wider);
Node *rnn_float_state(Step *);

#endif
