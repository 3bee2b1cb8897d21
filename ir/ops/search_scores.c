/*
 * What searches do to the scores of the next tokens before they choose: com.microsoft's rules, in
 * their order, and the filter and draw of Sampling.
 */
#include <float.h>
#include "search.h"

/* The row of the logits that row r of the search has. */
static Node *
logits_row(const Search *s, const Round *q, Node *r)
{
	return q->first ? x_fdiv(s->b->m, r, s->beams) : r;
}

/* f32[as the logits, vocab]: of the last token. */
static Node *
last_logits(const Search *s, const Round *q)
{
	Module *m = s->b->m;
	Node *ax[2] = {x_axis(m, dim_of(q->logits, 0)), x_axis(m, s->vocab)};
	Node *idx[3] = {ax[0], x_addi(m, dim_of(q->logits, 1), -1), ax[1]};

	return t_tensor(m, 2, ax, x_cast(m, DT_F32, x_read(m, q->logits, idx)));
}

static Node *
token_at(const Search *s, Node *sequences, Node *r, Node *j)
{
	return x_read(s->b->m, sequences, (Node *[]){r, j});
}

/* bool[rows, vocab]: tokens sequences[r, j + after] of those j for which `when` holds. */
static Node *
marked(const Search *s, Node *sequences, Node *r, Node *j, int64_t after, Node *when)
{
	Module *m = s->b->m;
	Node *ax[2] = {x_axis(m, s->rows), x_axis(m, s->vocab)}, *token, *in[2] = {r, j};

	token = x_cast(m, DT_INDEX, token_at(s, sequences, r, x_addi(m, j, after)));
	token = x_select(m, when, x2(m, O_BOUND, token, s->vocab), x_idx(m, 0));
	return t_scatter(m, COMB_SET, t_tensor(m, 2, ax, x_bool(m, false)), 2, in,
		(Node *[]){r, token}, x_bool(m, true), when);
}

static Node *
tokens_seen(const Search *s, const Round *q, Node *sequences)
{
	Module *m = s->b->m;
	Node *r = x_axis(m, s->rows), *j = x_axis(m, s->length);

	return marked(s, sequences, r, j, 0, x_lt(m, j, q->at));
}

/* The tokens that would end a sequence of n tokens which is there already. */
static Node *
tokens_repeating(const Search *s, const Round *q, Node *sequences)
{
	Module *m = s->b->m;
	int64_t before = s->ngram - 1;
	Node *r = x_axis(m, s->rows), *j = x_axis(m, s->length), *ax[2] = {r, j}, *k, *same, *fits;

	fits = x_le(m, x_addi(m, j, s->ngram), q->at);
	same = x_bool(m, true);
	if (before > 0) {
		k = x_axis(m, x_idx(m, before));
		same = x_eq(m, token_at(s, sequences, r, x_add(m, j, k)),
			token_at(s, sequences, r, x_add(m, x_addi(m, q->at, -before), k)));
		same = x_reduce(m, COMB_AND, 1, &k, same);
	}
	same = t_tensor(m, 2, ax, x_select(m, fits, same, x_bool(m, false)));
	r = x_axis(m, s->rows);
	j = x_axis(m, s->length);
	return marked(s, sequences, r, j, before, x_read(m, same, (Node *[]){r, j}));
}

static Node *
number_arg(Module *m, Node *t)
{
	return x_cast(m, DT_F32, scalar_arg(m, t));
}

Node *
search_scores(Search *s, const Round *q, Node *sequences, bool logs)
{
	Module *m = s->b->m;
	Node *logits = last_logits(s, q), *ax[2], *r, *v, *e, *p, *seen, *again,
		*lowest = x_flt(m, DT_F32, -FLT_MAX), *zero = x_int(m, DT_F32, 0),
		*none = x_int(m, DT_I32, 0);

	if (logs && !(logits = call(s->b, "log_softmax", 1, &logits, "axis=-1")))
		return NULL;
	seen = s->repetition ? tokens_seen(s, q, sequences) : NULL;
	again = s->ngram > 0 ? tokens_repeating(s, q, sequences) : NULL;
	ax[0] = r = x_axis(m, s->rows);
	ax[1] = v = x_axis(m, s->vocab);
	e = x_read(m, logits, (Node *[]){logits_row(s, q, r), v});
	if (seen) {
		p = number_arg(m, s->repetition);
		p = x_select(m, x_lt(m, e, zero), x_mul(m, e, p), x2(m, O_DIV, e, p));
		e = x_select(m, x_read(m, seen, ax), p, e);
	}
	if (again)
		e = x_select(m, x_read(m, again, ax), lowest, e);
	if (s->vocab_mask)
		e = x_select(m, x_eq(m, x_read(m, s->vocab_mask, &v), none), lowest, e);
	if (s->prefix_mask && q->first) {
		p = x_read(m, s->prefix_mask, (Node *[]){x_fdiv(m, r, s->beams), v});
		e = x_select(m, x_eq(m, p, none), lowest, e);
	}
	if (s->min_length) {
		p = x_lt(m, q->at, x_cast(m, DT_INDEX, scalar_arg(m, s->min_length)));
		e = x_select(m, x_and(m, p, x_eq(m, v, x_idx(m, s->eos))), lowest, e);
	}
	if (s->temperature)
		e = x2(m, O_DIV, e, number_arg(m, s->temperature));
	if (s->presence_mask) {
		p = x_cast(m, DT_F32, x_read(m, s->presence_mask, (Node *[]){x_fdiv(m, r, s->beams), v}));
		e = x_sub(m, e, x_mul(m, p, x_flt(m, DT_F32, attr_float(s->b, "presence_penalty"))));
	}
	return t_tensor(m, 2, ax, e);
}

/* ---- Sampling -------------------------------------------------------------------------------- */

/*
 * Of the sorted scores' probabilities, which are left out: ascending, those whose running sum is at
 * most 1 - top_p; in the custom form, descending, those after the sum exceeds top_p.
 */
static Node *
left_out(Search *s, Node *sums, Node *row, Node *j)
{
	Module *m = s->b->m;
	double p = attr_float(s->b, "top_p");
	int64_t keep = attr_int(s->b, "min_tokens_to_keep");
	Node *last = x_addi(m, j, -1), *e;

	if (attr_int(s->b, "custom")) {
		e = x_lt(m, x_flt(m, DT_F32, p), x_read(m, sums, (Node *[]){row, last}));
		return x_select(m, x_lt(m, x_idx(m, 0), j), e, x_bool(m, false));
	}
	e = x_le(m, x_read(m, sums, (Node *[]){row, j}), x_sub(m, x_int(m, DT_F32, 1),
		x_flt(m, DT_F32, p)));
	return x_and(m, e, x_or(m, x_eq(m, j, x_idx(m, 0)),
		x_lt(m, j, x_addi(m, s->vocab, -keep))));
}

Node *
search_draw(Search *s, const Round *q, Node *scores, Node **filtered)
{
	Module *m = s->b->m;
	const Attr *largest = attrs_add(m, NULL, (Attr){.name = "largest", .kind = A_INT,
		.i = attr_int(s->b, "custom") != 0});
	Node *k = t_exprs(m, DT_I64, 1, &s->vocab), *ax[2], *sorted, *sums, *at, *first;

	sorted = graph_op(m, op_find("topk"), 2, (Node *[]){scores, k}, largest, 2, 0, NULL, s->b->loc);
	if (!sorted)
		return NULL;
	at = t_result(m, sorted, 1);
	sums = t_result(m, sorted, 0);
	if (!(sums = call(s->b, "softmax", 1, &sums, "axis=-1")))
		return NULL;
	sums = running(s->b, COMB_SUM, sums, 1, false, false);
	axes_new(m, 2, scores->type->dims, ax);
	*filtered = t_distinct(m, t_scatter(m, COMB_SET, scores, 2, ax,
		(Node *[]){ax[0], x_cast(m, DT_INDEX, x_read(m, at, ax))},
		x_flt(m, DT_F32, attr_float(s->b, "filter_value")), left_out(s, sums, ax[0], ax[1])));
	first = x_mul(m, q->number, s->batch);
	return classes_drawn(s->b, *filtered, 1, random_seed(s->b, s->seed), first, DT_I32);
}
