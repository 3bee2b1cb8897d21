/* What searches for sequences share: the importer makes the regions, search.c the rest. */
#ifndef TCC_OPS_SEARCH_H
#define TCC_OPS_SEARCH_H

#include "ops.h"

/*
 * A search's operands, NULL where left out, and attributes. Sizes are index expressions: rows are
 * those of the decoder's operands, beams of them for each of the batch; a sequence has `prompt`
 * tokens when it begins and room for `length`; vocab: how many tokens there are.
 */
typedef struct Search {
	Build *b;
	Node *min_length, *kept, *length_penalty, *repetition, *vocab_mask, *prefix_mask,
		*presence_mask,
		*temperature, *seed;
	Node *batch, *beams, *rows, *prompt, *length, *vocab;
	Node *ids;             /* [batch, prompt] i32 */
	DType d;               /* of scores */
	int64_t eos, pad, ngram;
} Search;

/*
 * One step: logits [batch if it is the first, else rows, any, vocab]; the sequences have `at`
 * tokens before it, of which it adds the next; number: of the step, from 0.
 */
typedef struct Round { Node *logits, *at, *number; bool first; } Round;

/* search_scores.c: the scores of each row's next token, f32[rows, vocab], from the logits (or their
 * logarithms after a softmax), by the operator's list of rules; sequences: i32[rows, length]. */
Node *search_scores(Search *, const Round *, Node *sequences, bool logs);
/* Sampling's: i32[batch] tokens drawn; *filtered: the scores that were left. NULL after an
 * error. */
Node *search_draw(Search *, const Round *, Node *scores, Node **filtered);

#endif
