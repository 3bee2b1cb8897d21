/*
 * What the host plan refers to by number: the buffers of a compiled model, the texts of its
 * checks. Made by opt's planning pass, read by code generation (codegen/meta.c), which lays out
 * the weights and writes the tables of runtime/abi.h from it.
 */
#ifndef TCC_PLAN_H
#define TCC_PLAN_H

#include "ir.h"

/* In the order of abi.h's TCC_BUF_* (codegen/meta.c asserts it). */
typedef enum BufClass { BUF_ARENA, BUF_INPUT, BUF_OUTPUT, BUF_WEIGHT, BUF_CONST, BUF_HEAP, BUF_VIEW,
	BUF_HOST, BUF_VALUE } BufClass;

/* Buffer i of the plan: `args` of launches and the calls of the plan name it by i. */
typedef struct PlanBuf {
	BufClass cls;
	DType dtype;           /* of its elements; DT_NONE for raw bytes */
	const char *name;      /* or NULL */
	int index;             /* of the input or output */
	int alias;             /* -1, or the arena buffer whose memory it takes over in place */
	uint32_t first, last;  /* steps of life, inclusive */
	int64_t size;          /* bytes, or -1 if not constant */
	Node *bytes;           /* while it is planned: the same as an expression, or NULL */
	int64_t offset;        /* in the arena if placed at compile time, else -1 */
	const Data *data;      /* WEIGHT, CONST: the contents */
} PlanBuf;

typedef struct Plan {
	int nbufs, ntexts;
	PlanBuf *bufs;
	const char **texts;    /* of check(): text k */
	int *in_buf;           /* per input: its buffer, or -1 if it is not used */
	/* per input: the initializer it defaults to, or NULL; may be NULL as a whole */
	const Data **in_default;
	bool is_static;        /* every size constant, every arena buffer placed */
	int64_t arena_bytes;   /* peak, if is_static */
	const char *formula;   /* peak as text in the symbols, or NULL */
} Plan;

#endif
