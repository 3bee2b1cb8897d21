/* Tiles in shared memory that matrix instructions take their operands from: gpu_mma.c,
 * attend_mma.c. */
#ifndef TCC_GPU_PART_H
#define TCC_GPU_PART_H

#include "gpu_contract.h"

/* What the tiles of a kernel have in common. */
typedef struct Tiles {
	KB *kb;
	Module *m;
	const Mma *x;
	bool matrices, round;  /* fragments by ldmatrix; operands are rounded to tf32 */
	int lane_words;        /* of a block of fragments a lane holds; */
	int lane_groups;       /* lanes along its depth */
	int block_bytes;       /* its depth */
	int threads;
	Node *tid, *lane, *memory;     /* memory: words */
	int stage_words;       /* from a tile in one stage to that in the next */
} Tiles;

enum { MAX_BITS = 8 };

/* A factor's tile, beside what Side says. */
typedef struct Part {
	Side *s;
	Node *ok;              /* where it is not 0 */
	DType type; int size;  /* of an element, its bytes; memory has it so, or as f32 */
	Node *const *red;      /* the summed axes, slowest first */
	int nred;
	bool flat;             /* as one, else the last of them */
	Node *k0, *extent;     /* where the tile begins along the depth, and its end */
	const Map *at;         /* what batch axes and the other summed axes are */
	int depth;             /* elements of the tile along the depth */
	bool async, loose;     /* copied asynchronously; element by element */
	int unit;              /* bytes that travel together */
	int rows, bytes;       /* stored rows, of so many bytes */
	int words;             /* of a stage; base: where they begin in it */
	int base, count;       /* count: units a thread brings */
	Node *staged;          /* [count][unit / 4] registers */
	char coord;            /* of its own axis in layouts */
	const char *layout;
	int own;               /* of a block of fragments, elements */
	int tile;              /* of an instruction */
	int substep, kstep;    /* words from an instruction's fragment to the next one's in a block */
	int span;              /* elements of the warp's tile */
	Node *first;           /* of them, within the block's tile */
	int slots;             /* blocks of fragments held; 0: the warp's, span / own */
	Node *fragment;        /* [slots][words of a block] */
	/* bit i of a row's number counts perm[i] where fragments are read, for i < nperm */
	int nperm, perm[MAX_BITS];
	Node *spot;            /* part_open */
} Part;

/* The narrowest type that the factor's values take on their way from memory. */
DType factor_type(const Node *factor);
/* The factor's read, what guards it, and whether it is rounded to tf32; false if it is no plain
 * one. */
bool part_plain(Tiles *, Part *, Node *factor);
/* How an instruction's fragments make up a block, for A and B. */
void part_blocks(Tiles *, Part *a, Part *b);
void part_storage(Tiles *, Part *);    /* along which axis it is stored, and how it travels */
void part_lay_out(Tiles *, Part *);    /* from width and depth: what a stage of it takes */
void part_allocate(Tiles *, Part *, Frame *, const char *fragment, const char *staged);
/* Brings the tile to the stage, or to registers where it is not copied asynchronously; then put
 * empties these into the stage. */
void part_fetch(Tiles *, Part *, Region *, Node *stage);
void part_put(Tiles *, Part *, Region *, Node *stage);
/* Reads all of the warp's fragments at depth block kb. */
void part_read(Tiles *, Part *, Region *, Node *stage, Node *kb);
/* Those of its block i, into a place of the fragments. */
void part_read_block(Tiles *, Part *, Region *, Node *stage, Node *i, Node *kb, Node *slot);
/* Where the fragment of instruction i of the warp's begins, for part ks of the block. */
void part_at(Tiles *, const Part *, Node *i, Node *ks, Node **idx);
/* The word of shared memory where piece `piece`, of 16 bytes, of a stored row stands. */
/* Binds where the part's first matrices lie in the stage, for the reads until it is opened anew: their
 * addresses then cost an instruction each and no registers that live on. */
void part_open(Tiles *, Part *, Region *, Node *stage);
Node *part_word(Tiles *, const Part *, Node *stage, Node *row, Node *piece);
/* A row's number as its fragments' rows are numbered (Part.perm). */
Node *part_row(Tiles *, const Part *, Node *row);
/* The statements where cond holds. */
void gpu_where(Module *, Region *, Node *cond, Region *then);

#endif
