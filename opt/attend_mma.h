/* What the parts of attention on matrix units share (attend_mma.c). */
#ifndef TCC_ATTEND_MMA_H
#define TCC_ATTEND_MMA_H

#include "attend_form.h"
#include "gpu_part.h"

enum { STAGES = 2, MOST_ELEMS = 16 };

/* Where an element of the operand comes from: C's element, of a tile among those of the depth;
 * the lane's half that has it, -1: all. */
typedef struct Source { int elem, tile, half; } Source;

typedef struct Mm {
	Flash o;
	Tiles t;
	Side sq, sk, sv;
	Part q, k, v;
	bool turned;
	bool resident;         /* the queries' fragments stay in registers */
	int warps, tiles, keys;        /* tiles of rows of a warp; keys of a block */
	int depth, columns;            /* padded */
	int row_tile, key_tile, column_tile;   /* of an instruction */
	int elems, nstats;             /* of C a lane has; rows of them in a tile */
	int stat[MOST_ELEMS];           /* an element's row among these */
	int nsource;
	Source source[MOST_ELEMS];      /* of the operand's elements */
	int group, apart;              /* lanes of the same rows, and how far apart they are */
	int half_lane;                 /* the lane bit that halves lie along; 0: none */
	Node *row_block, *q0, *k0;     /* the block's number along rows, its first row and key */
	Node *warp, *place;    /* the warp in the block, the lane in its group */
	Node *s, *sums, *p;            /* registers: scores, sums, the operand's words */
	Node *max, *sum, *rise, *part, *word;
} Mm;

/* ---- attend_mma.c ----------------------------------------------------------------------------- */

/* The parts' reads over the rows' axis or the key's and *deep or the column's; false: one is no plain read. */
bool am_open_parts(Mm *, Node **deep);
void am_open_registers(Mm *);
void am_open_rows(Mm *, Region *);                 /* sums and statistics of nothing */
int am_out_words(const Mm *);                      /* of a row that is to be stored */
/* What the reduction of the definition is, of the warp's rows, to shared memory; all see it there before the
 * result is stored, along its columns if they are contiguous. */
void am_spread(Mm *, Region *);
void am_write_rows(Mm *, Region *);

/* ---- attend_mma_fit.c ------------------------------------------------------------------------ */

/* Chooses instruction, orientation and tiles; false: it does not fit. */
bool am_plan(Mm *, Sched *);
/* The same for instructions of warp groups: fragments are still those of the warps' instruction. */
bool am_plan_groups(Mm *, Sched *);
int am_elem_size(const Mm *);
/* The coordinate of C's tiles along query rows, and along keys or columns: 'r' or 'c'. */
char am_own_coord(const Mm *);
char am_key_coord(const Mm *);

/* ---- attend_mma_block.c ---------------------------------------------------------------------- */

/* Scores, softmax and sums of a block of keys that lies in the stage; the block's first key is q->k0. */
void am_block(Mm *, Region *, Node *stage);
/* From the sums of products in q->s to the operand of the values, sums and statistics brought up to date. */
void am_softmax(Mm *, Region *);
/* A loop of n, unrolled, and its axis. */
Region *am_unroll(Mm *, Region *, int n, Node **axis);
/* An element of C's tile that has these rows and keys or columns; at: room for three. */
Node **am_spot_of(Mm *, Node *row, Node *other, Node *e, Node **at);
Node *am_load3(Mm *, Node *buffer, Node *row, Node *other, int e);
void am_store3(Mm *, Region *, Node *buffer, Node *row, Node *other, int e, Node *v);
/* The statistics of row number `stat` of the warp's tile i. */
Node *am_stat_at(Mm *, Node *buffer, Node *i, int stat);
void am_set_stat(Mm *, Region *, Node *buffer, Node *i, int stat, Node *v);
/* The row that element e of the warp's tile i is in: of the block, of all. */
Node *am_block_row(Mm *, Node *i, int e);
Node *am_row_at(Mm *, Node *i, int e);
void am_clear(Mm *, Region *, Node *buffer, int others);
/* v combined over the lanes of the same rows. */
Node *am_fold(Mm *, Region *, Comb, Node *v);

#endif
