/* Scaled dot-product attention, shared by the operators that have it inside. */
#ifndef TCC_OPS_ATTENTION_H
#define TCC_OPS_ATTENTION_H

#include "ops.h"

typedef struct Att Att;
struct Att {
	Build *b;
	Node *q, *k, *v;       /* [B, H, L, E], [B, KH, T, E], [B, KH, T, EV]; H a multiple of KH */
	double scale;          /* of scores; 0: 1 / sqrt(E) */
	double softcap;        /* 0: none */
	DType softmax;         /* type that the softmax is computed in */
	/* What is added to the score of query i and key j of batch entry n and head h; NULL:
	 * nothing. */
	Node *(*bias)(Att *, Node *n, Node *h, Node *i, Node *j);
	Node *(*sink)(Att *, Node *h);  /* a further score in each row's softmax; NULL: none */
	/* FlexAttention's graphs: 0 scores, 1 probabilities */
	Node *(*mod)(Att *, Node *scores, int which);
	bool guards;           /* a row may have no key: then it is 0 */
	void *arg;
	/* results, [B, KH, H / KH, L, T], and [B, KH, H / KH, L, EV] */
	Node *raw, *capped, *biased, *probs, *y;
};

bool attention(Att *);
/* [B, L, H * E] as [B, H, L, E]; `first` is the column of the first head. */
Node *split_heads(Build *, Node *x, int64_t heads, Node *first, Node *size);
Node *join_heads(Module *, const Att *, bool packed);    /* y as [B, L, H * EV] or [B, H, L, EV] */
Node *ungroup(Module *, Node *t);                        /* [B, KH, G, x, y] as [B, KH * G, x, y] */
/* a's elements, then b's, along axis 2 of 4. */
Node *append(Module *, Node *a, Node *b, const Loc *);
Node *rotary(Build *, Node *x4, Node *cos, Node *sin,
	Node *(*position)(Module *, Node *n, Node *s, void *), void *arg,
	bool interleaved, int64_t first, Node *rotated);

/* contrib_attention.c */
/* The attribute, or 0 after an error. */
int64_t head_count(Build *, const char *name);
/* split_heads of x plus a bias (or NULL) [columns], its part from column bias_from on. */
Node *biased_columns(Build *, Node *x, Node *bias, int64_t heads, Node *first, Node *bias_from,
	Node *size);
/* One of the operands in [..., heads, operands, size], as [..., heads * size]. */
Node *packed_part(Module *, Node *x, int part);

/* What is added to scores, as Attention's mask_index and attention_bias say. */
typedef struct Mask {
	Node *mask, *bias, *past;      /* past: keys before this call's, an index */
	bool causal;
	double filter;
} Mask;
bool mask_args(Build *, Mask *, Node *mask, Node *bias);
/* Checks the shapes, when operands and their past are known, and makes it a's bias. */
void use_mask(Att *, Mask *);

/* contrib_group.c */
/* Keys that an operand lists for each query, of the main cache or, local, of auxiliary ones behind
 * it beside a window of the main cache. */
typedef struct Selected {
	Node *seen;            /* bool[queries, keys of the source] */
	Node *main;            /* the main cache's keys, an index */
	int64_t window;        /* -1: none */
	bool local, causal;
} Selected;
/* From attributes and operands; s->main is set, aux the number of auxiliary keys or NULL. */
bool selected_args(Build *, Selected *s, Node *indices, Node *counts, Node *rows, Node *aux);
/* Does the query of a row, at position p, see key j? */
Node *selected_key(Module *, const Selected *, Node *row, Node *p, Node *j);
/* a's queries and keys over their root mean squares, times q and k; both may be NULL. */
bool norm_heads(Build *, Node *q, Node *k, Att *a);

#endif
