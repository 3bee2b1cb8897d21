/*
 * com.microsoft's searches for sequences: GreedySearch, Sampling, BeamSearch, WhisperBeamSearch.
 *
 * A decoder gives the logits of each row's next token. The first step's come from the prompt, the
 * others from a core loop around the decoder's region: its carried values are the sequences, the
 * decoder's past, and what the kind of search keeps. A row is a beam of an entry of the batch; the
 * rows of the first step are the batch's, since all beams begin alike.
 *
 * Hypotheses of a beam search are the sequences that ended, at most `beams` for each entry, best
 * first. A step offers the 2 * beams best continuations of all beams: those that end are new
 * hypotheses if they stand among the first half, the first `beams` others are the new beams. An
 * entry is done when it has all its hypotheses and, unless it stops early, none can become better.
 */
#include <math.h>
#include <string.h>
#include "search.h"

enum { MAX_STATES = 8, SEQUENCES = 0 };

/* What a kind of search keeps from step to step, begun and stepped; state[0] are the sequences. */
typedef struct Kind {
	const char *const *names;      /* of the states after the sequences, ended by NULL */
	bool logs;                     /* scores are logarithms of probabilities */
	void (*begin)(Search *, Node **state);
	/* state: replaced by the new one. *rows: i64[rows], where each new row comes from among the old
	 * (of the first step: the batch's); NULL: as it was. *shown: what the search can list of each
	 * step. false after an error. */
	bool (*step)(Search *, const Round *, Node *scores, Node **state, Node **rows, Node **shown);
	Node *(*finish)(Search *, Node **state, Node *shown);
} Kind;

/* ---- operands -------------------------------------------------------------------------------- */

Node *
search_operand(const Op *op, int nin, Node *const *in, const char *name)
{
	const Sig *s = op_sig(op);
	int i;

	for (i = 0; i < s->nin && i < nin; i++)
		if (strcmp(s->in[i].name, name) == 0)
			return in[i];
	return NULL;
}

static Node *
size_arg(Module *m, Node *t)
{
	return extent(m, saturate(m, x_cast(m, DT_INDEX, scalar_arg(m, t))));
}

SearchSizes
search_sizes(Module *m, const Op *op, int nin, Node *const *in)
{
	Node *beams = search_operand(op, nin, in, "num_beams");
	SearchSizes z;

	z.batch = dim_of(in[0], 0);
	z.beams = beams ? size_arg(m, beams) : x_idx(m, 1);
	z.rows = x_mul(m, z.batch, z.beams);
	z.length = size_arg(m, in[1]);
	return z;
}

Node *
search_expanded(Module *m, Node *x, int axis, Node *beams)
{
	Node *ax[MAX_RANK], *idx[MAX_RANK];
	int i;

	for (i = 0; i < rank_of(x); i++)
		idx[i] = ax[i] = x_axis(m, i == axis ? x_mul(m, dim_of(x, i), beams) : dim_of(x, i));
	idx[axis] = x_fdiv(m, ax[axis], beams);
	return t_tensor(m, rank_of(x), ax, x_read(m, x, idx));
}

static Node *
operand(Build *b, const char *name)
{
	return search_operand(b->op, b->nin, b->in, name);
}

static bool
is_tensor(const Node *t, DType d, int rank)
{
	return t && t->type->kind == T_TENSOR && (d == DT_NONE || dtype_of(t) == d)
		&& rank_of(t) == rank;
}

/* The importer makes regions right; a text may hold any. */
static bool
fit_regions(Search *s)
{
	Build *b = s->b;
	Region *dec = b->nregions == 2 ? b->regions[0] : NULL, *first = dec ? b->regions[1] : NULL;
	int i, past = dec ? dec->nparams - 2 : 0;
	bool ok = dec && past > 0 && dec->nresults == past + 1 && first->nparams == 0
		&& first->nresults == past + 2 && is_tensor(dec->params[0], DT_I64, 0)
		&& is_tensor(dec->params[1], DT_I32, 2) && is_tensor(first->results[0], DT_I32, 2)
		&& is_tensor(dec->results[0], DT_NONE, 3) && is_tensor(first->results[1], DT_NONE, 3)
		&& dt_float(dtype_of(dec->results[0])) && dt_float(dtype_of(first->results[1]));

	for (i = 0; ok && i < past; i++) {
		Node *p = dec->params[2 + i];
		int rank = p->type->kind == T_TENSOR ? rank_of(p) : 0;
		ok = (rank == 4 || rank == 5) && is_tensor(dec->results[1 + i], dtype_of(p), rank)
			&& is_tensor(first->results[2 + i], dtype_of(p), rank);
	}
	return ok || fail(b, "its decoder does not give logits and a past for each past it takes")
		!= NULL;
}

static bool
expect_mask(Build *b, const char *name, Node *t, int rank, Node *batch, Node *vocab)
{
	if (!t)
		return true;
	if (rank_of(t) != rank)
		return fail(b, "%s has %d dimensions, must have %d", name, rank_of(t), rank) != NULL;
	if (rank == 2)
		expect_dim(b, name, dim_of(t, 0), batch, false);
	expect_dim(b, name, dim_of(t, rank - 1), vocab, false);
	return true;
}

static bool
open_search(Build *b, Search *s)
{
	Module *m = b->m;
	Node *logits, *processor = operand(b, "logits_processor"), *penalty;
	int64_t vocab = attr_int(b, "vocab_size");
	SearchSizes z;

	*s = (Search){.b = b, .min_length = operand(b, "min_length"),
		.kept = operand(b, "num_return_sequences"), .length_penalty = operand(b, "length_penalty"),
		.repetition = operand(b, "repetition_penalty"), .vocab_mask = operand(b, "vocab_mask"),
		.prefix_mask = operand(b, "prefix_vocab_mask"),
		.presence_mask = operand(b, "presence_mask"),
		.temperature = operand(b, "temperature"), .seed = operand(b, "seed"),
		.eos = attr_int(b, "eos_token_id"), .pad = attr_int(b, "pad_token_id"),
		.ngram = attr_int(b, "no_repeat_ngram_size")};
	if (!fit_regions(s))
		return false;
	if (processor && !is_intv(scalar_arg(m, processor), 0))
		return unsupported(b, "logits_processor must be a constant 0: the rules of timestamps"
			" are not"
			" published") != NULL;
	z = search_sizes(m, b->op, b->nin, b->in);
	s->batch = z.batch;
	s->beams = z.beams;
	s->rows = z.rows;
	s->length = z.length;
	s->ids = b->regions[1]->results[0];
	s->prompt = dim_of(s->ids, 1);
	if (!s->temperature && attr_find(b->attrs, "temperature") && attr_float(b, "temperature") != 1)
		s->temperature = t_scalar(m, DT_F32, num_round(DT_F32, attr_float(b, "temperature")));
	logits = b->regions[1]->results[1];
	s->vocab = vocab > 0 ? x_idx(m, vocab) : dim_of(logits, 2);
	if (vocab > 0)
		require(m, x_le(m, s->vocab, dim_of(logits, 2)), b->loc,
			"vocab_size is %lld, the logits have"
			" %s", (long long)vocab, expr_print(m, dim_of(logits, 2)));
	penalty = s->length_penalty ? s->length_penalty : s->repetition;
	s->d = penalty ? dtype_of(penalty) : dtype_of(logits);
	require(m, x_lt(m, s->prompt, s->length), b->loc,
		"max_length is %s, which leaves no room after %s tokens", expr_print(m, s->length),
		expr_print(m, s->prompt));
	return expect_mask(b, "vocab_mask", s->vocab_mask, 1, s->batch, s->vocab)
		&& expect_mask(b, "prefix_vocab_mask", s->prefix_mask, 2, s->batch, s->vocab)
		&& expect_mask(b, "presence_mask", s->presence_mask, 2, s->batch, s->vocab);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* i32[rows, length]: the prompt of each row, and pads. */
static Node *
begun_sequences(Search *s)
{
	Module *m = s->b->m;
	Node *ax[2] = {x_axis(m, s->rows), x_axis(m, s->length)}, *e;

	e = x_read(m, s->ids, (Node *[]){x_fdiv(m, ax[0], s->beams), ax[1]});
	e = x_select(m, x_lt(m, ax[1], s->prompt), e, x_int(m, DT_I32, s->pad));
	return t_tensor(m, 2, ax, e);
}

/* The past of the new rows: dimension 0 holds them, of five 1. */
static Node *
chosen_rows(Search *s, const Round *q, Node *past, Node *rows)
{
	Module *m = s->b->m;
	Node *ax[MAX_RANK], *idx[MAX_RANK];
	int i, at = rank_of(past) == 5;

	if (!q->first && !rows)
		return past;
	for (i = 0; i < rank_of(past); i++)
		idx[i] = ax[i] = x_axis(m, i == at ? s->rows : dim_of(past, i));
	idx[at] = rows ? x_cast(m, DT_INDEX, x_read(m, rows, &ax[at])) : x_fdiv(m, ax[at], s->beams);
	return t_tensor(m, rank_of(past), ax, x_read(m, past, idx));
}

/* A step from logits and past at `from`, with the state; false after an error. */
static bool
step(Search *s, const Kind *k, const Round *q, Node **state, int npast, Node *const *from,
	Node **past, Node **shown)
{
	Node *scores = search_scores(s, q, state[SEQUENCES], k->logs), *rows = NULL;
	int i;

	if (!scores || !k->step(s, q, scores, state, &rows, shown))
		return false;
	for (i = 0; i < npast; i++)
		past[i] = chosen_rows(s, q, from[i], rows);
	return true;
}

/* bool[]: is an entry of the batch not done? */
static Node *
any_left(Search *s, Node *done)
{
	Module *m = s->b->m;
	Node *b = x_axis(m, s->batch);

	return t_scalar_expr(m, DT_BOOL,
		x_reduce(m, COMB_OR, 1, &b, x_not(m, x_read(m, done, &b))));
}

/* A search under way: past values and states as they stand, shown: of the first and the other
 * steps. */
typedef struct Walk {
	Search s;
	const Kind *kind;
	Region *decoder;
	int npast, states;
	Node **past, *state[MAX_STATES], *shown[2];
} Walk;

/* The first step, outside of the loop; false after an error. */
static bool
first_step(Walk *w)
{
	Module *m = w->s.b->m;
	Region *first = w->s.b->regions[1];
	Round q = {first->results[1], w->s.prompt, x_idx(m, 0), true};

	w->past = NEWN(m, Node *, w->npast);
	w->state[SEQUENCES] = begun_sequences(&w->s);
	w->kind->begin(&w->s, w->state);
	for (w->states = 1; w->kind->names[w->states - 1]; w->states++)
		;
	return step(&w->s, w->kind, &q, w->state, w->npast, first->results + 2, w->past, &w->shown[0]);
}

/* The loop's body around the decoder: the carried values are those of its region, then the states.
 * NULL after an error. */
static Region *
step_body(Walk *w)
{
	Module *m = w->s.b->m;
	Region *dec = w->decoder, *body = region_new(m, "step");
	Node *state[MAX_STATES], **past = NEWN(m, Node *, w->npast), *number;
	int i;

	body->params = NEWN(m, Node *, dec->nparams + w->states);
	memcpy(body->params, dec->params, sizeof *dec->params * (size_t)dec->nparams);
	body->nparams = dec->nparams;
	state[SEQUENCES] = dec->params[1];
	for (i = 1; i < w->states; i++, body->nparams++)
		state[i] = body->params[body->nparams] =
			t_param(m, w->kind->names[i - 1], w->state[i]->type, body->nparams);
	number = x_addi(m, x_cast(m, DT_INDEX, scalar_arg(m, body->params[0])), 1);
	Round q = {dec->results[0], x_add(m, w->s.prompt, number), number, false};
	if (!step(&w->s, w->kind, &q, state, w->npast, dec->results + 1, past, &w->shown[1]))
		return NULL;
	region_add(m, body, any_left(&w->s, state[1]));
	region_add(m, body, state[SEQUENCES]);
	for (i = 0; i < w->npast; i++)
		region_add(m, body, past[i]);
	for (i = 1; i < w->states; i++)
		region_add(m, body, state[i]);
	if (w->shown[1])
		region_add(m, body, w->shown[1]);
	return body;
}

/* state[1] says which entries are done. */
static Node *
search(Build *b, const Kind *k)
{
	Module *m = b->m;
	Walk w = {.kind = k, .decoder = b->regions[0], .npast = b->regions[0]->nparams - 2};
	Region *body;
	Node **init, *loop, *trips;
	int i, n = 0;

	if (!open_search(b, &w.s) || !first_step(&w) || !(body = step_body(&w)))
		return NULL;
	init = NEWN(m, Node *, w.npast + w.states);
	init[n++] = w.state[SEQUENCES];
	for (i = 0; i < w.npast; i++)
		init[n++] = w.past[i];
	for (i = 1; i < w.states; i++)
		init[n++] = w.state[i];
	trips = x_addi(m, x_sub(m, w.s.length, w.s.prompt), -1);
	loop = loop_build(b, t_scalar_expr(m, DT_I64, trips), any_left(&w.s, w.state[1]), n, init,
		body);
	if (!loop)
		return NULL;
	w.state[SEQUENCES] = t_result(m, loop, 0);
	for (i = 1; i < w.states; i++)
		w.state[i] = t_result(m, loop, w.npast + i);
	if (w.shown[1])
		w.state[w.states] = t_result(m, loop, n);
	return k->finish(&w.s, w.state, w.shown[0]);
}

/* i32[rows, length]: `token` at place `at` of the sequences that `row` (of rows; NULL: itself)
 * names. */
static Node *
appended(Search *s, const Round *q, Node *sequences, Node *rows, Node *tokens)
{
	Module *m = s->b->m;
	Node *ax[2] = {x_axis(m, s->rows), x_axis(m, s->length)}, *from = ax[0], *e;

	if (rows)
		from = x_cast(m, DT_INDEX, x_read(m, rows, ax));
	e = x_read(m, sequences, (Node *[]){from, ax[1]});
	e = x_select(m, x_eq(m, ax[1], q->at), x_read(m, tokens, ax), e);
	return t_tensor(m, 2, ax, e);
}

/* ---- greedy search and sampling -------------------------------------------------------------- */

enum { DONE = 1, FILTERED };

static void
greedy_begin(Search *s, Node **state)
{
	Node *b = x_axis(s->b->m, s->batch);

	state[DONE] = t_tensor(s->b->m, 1, &b, x_bool(s->b->m, false));
}

/* Those that are done, or are now, get pads. token: [batch, 1]. */
static void
greedy_append(Search *s, const Round *q, Node *token, Node **state)
{
	Module *m = s->b->m;
	Node *b = x_axis(m, s->batch), *done, *tokens, *e;

	e = x_read(m, token, (Node *[]){b, x_idx(m, 0)});
	done = x_or(m, x_read(m, state[DONE], &b), x_eq(m, e, x_int(m, dtype_of(token), s->eos)));
	done = t_tensor(m, 1, &b, done);
	b = x_axis(m, s->batch);
	e = x_cast(m, DT_I32, x_read(m, token, (Node *[]){b, x_idx(m, 0)}));
	tokens = t_tensor(m, 1, &b, x_select(m, x_read(m, done, &b), x_int(m, DT_I32, s->pad), e));
	state[SEQUENCES] = appended(s, q, state[SEQUENCES], NULL, tokens);
	state[DONE] = done;
}

static bool
greedy_step(Search *s, const Round *q, Node *scores, Node **state, Node **rows, Node **shown)
{
	Node *token = call(s->b, "argmax", 1, &scores, "axis=1");

	(void)rows, (void)shown;
	if (token)
		greedy_append(s, q, token, state);
	return token != NULL;
}

static Node *
greedy_finish(Search *s, Node **state, Node *shown)
{
	(void)shown;
	return s->b->nout == 1 ? t_tuple(s->b->m, 1, state) : fail(s->b, "it has one result");
}

static void
sampling_begin(Search *s, Node **state)
{
	Module *m = s->b->m;
	Node *ax[2] = {x_axis(m, s->batch), x_axis(m, s->vocab)};

	greedy_begin(s, state);
	state[FILTERED] = t_tensor(m, 2, ax, x_int(m, DT_F32, 0));
}

static bool
sampling_step(Search *s, const Round *q, Node *scores, Node **state, Node **rows, Node **shown)
{
	Node *filtered, *token = search_draw(s, q, scores, &filtered);

	(void)rows, (void)shown;
	if (!token)
		return false;
	greedy_append(s, q, token, state);
	state[FILTERED] = filtered;
	return true;
}

static Node *
sampling_finish(Search *s, Node **state, Node *shown)
{
	(void)shown;
	if (s->b->nout > 2)
		return fail(s->b, "it has two results");
	state[1] = state[FILTERED];
	return t_tuple(s->b->m, s->b->nout, state);
}

/* ---- beam search ----------------------------------------------------------------------------- */

enum { SCORES = 2, HYPOTHESES, HYPOTHESIS_SCORES, COUNTS, LISTED };

/* The best continuations: f32[batch, 2 * beams], and i64 of the same shape, beam * vocab +
 * token. */
typedef struct Offer { Node *scores, *places; } Offer;

static Node *
worst(Module *m)
{
	return x_flt(m, DT_F32, -INFINITY);
}

static Node *
row(const Search *s, Node *b, Node *k)
{
	return x_add(s->b->m, x_mul(s->b->m, b, s->beams), k);
}

static void
beam_begin(Search *s, Node **state)
{
	Module *m = s->b->m;
	Node *ax[3] = {x_axis(m, s->batch), x_axis(m, s->beams), x_axis(m, s->length)};
	Node *other = x_flt(m, DT_F32, -1e9f);    /* so that the beams of an entry differ */

	state[DONE] = t_tensor(m, 1, ax, x_bool(m, false));
	state[SCORES] = t_tensor(m, 2, ax,
		x_select(m, x_eq(m, ax[1], x_idx(m, 0)), x_int(m, DT_F32, 0), other));
	state[HYPOTHESES] = t_tensor(m, 3, ax, x_int(m, DT_I32, s->pad));
	state[HYPOTHESIS_SCORES] = t_tensor(m, 2, ax, worst(m));
	state[COUNTS] = t_tensor(m, 1, ax, x_int(m, DT_I64, 0));
}

/* The k first of f32[batch, any]: values and indices. */
static bool
best_of(Search *s, Node *t, Node *k, Offer *o)
{
	Module *m = s->b->m;
	Node *in[2] = {t, t_exprs(m, DT_I64, 1, &k)}, *r;

	r = graph_op(m, op_find("topk"), 2, in, NULL, 2, 0, NULL, s->b->loc);
	if (r)
		*o = (Offer){t_result(m, r, 0), t_result(m, r, 1)};
	return r != NULL;
}

static Node *
offered(const Search *s, const Offer *o, Node *b, Node *j)
{
	return x_cast(s->b->m, DT_INDEX, x_read(s->b->m, o->places, (Node *[]){b, j}));
}

static Node *offered_token(const Search *s, const Offer *o, Node *b, Node *j)
{
	return x_mod(s->b->m, offered(s, o, b, j), s->vocab);
}

static Node *offered_beam(const Search *s, const Offer *o, Node *b, Node *j)
{
	return x_fdiv(s->b->m, offered(s, o, b, j), s->vocab);
}

static Node *
offered_ends(const Search *s, const Offer *o, Node *b, Node *j)
{
	return x_eq(s->b->m, offered_token(s, o, b, j), x_idx(s->b->m, s->eos));
}

/* score / length ^ length_penalty */
static Node *
normalized(const Search *s, Node *score, Node *length)
{
	Module *m = s->b->m;
	Node *p = s->length_penalty ? x_cast(m, DT_F32, scalar_arg(m, s->length_penalty))
		: x_int(m, DT_F32, 1);

	return x2(m, O_DIV, score, x2(m, O_POW, x_cast(m, DT_F32, length), p));
}

/* i64[batch, beams]: which continuation each new beam is. */
static Node *
picked(const Search *s, const Offer *o)
{
	Module *m = s->b->m;
	Node *two = x_muli(m, s->beams, 2), *ax[2] = {x_axis(m, s->batch), x_axis(m, two)},
		*i = x_axis(m, two), *before, *one = x_int(m, DT_I64, 1), *none = x_int(m, DT_I64, 0),
		*j, *e;

	e = x_and(m, x_lt(m, i, ax[1]), x_not(m, offered_ends(s, o, ax[0], i)));
	before = t_tensor(m, 2, ax, x_reduce(m, COMB_SUM, 1, &i, x_select(m, e, one, none)));
	ax[0] = x_axis(m, s->batch);
	ax[1] = x_axis(m, s->beams);
	j = x_axis(m, two);
	e = x_eq(m, x_read(m, before, (Node *[]){ax[0], j}), x_cast(m, DT_I64, ax[1]));
	e = x_and(m, e, x_not(m, offered_ends(s, o, ax[0], j)));
	return t_tensor(m, 2, ax,
		x_reduce(m, COMB_SUM, 1, &j, x_select(m, e, x_cast(m, DT_I64, j), none)));
}

/*
 * The hypotheses with others added: the best `beams` of both, old ones first where they are equal.
 * other[batch, beams]: scores of those that are added, minus infinity for none; beam: i64, whose
 * sequences they are.
 */
static bool
add_hypotheses(Search *s, Node **state, Node *other, Node *beam)
{
	Module *m = s->b->m;
	Node *ax[3] = {x_axis(m, s->batch), x_axis(m, x_muli(m, s->beams, 2)), NULL}, *k, *e, *at, *old,
		*from, *i;
	Offer best;

	k = x_sub(m, ax[1], s->beams);
	old = x_select(m, x_lt(m, x_cast(m, DT_I64, ax[1]), x_read(m, state[COUNTS], ax)),
		x_read(m, state[HYPOTHESIS_SCORES], ax), worst(m));
	e = x_select(m, x_lt(m, ax[1], s->beams), old, x_read(m, other, (Node *[]){ax[0], k}));
	if (!best_of(s, t_tensor(m, 2, ax, e), s->beams, &best))
		return false;
	ax[0] = x_axis(m, s->batch);
	ax[1] = x_axis(m, s->beams);
	ax[2] = x_axis(m, s->length);
	at = x_cast(m, DT_INDEX, x_read(m, best.places, ax));
	k = x_sub(m, at, s->beams);
	from = x_cast(m, DT_INDEX, x_read(m, beam, (Node *[]){ax[0], k}));
	e = x_select(m, x_lt(m, at, s->beams),
		x_read(m, state[HYPOTHESES], (Node *[]){ax[0], at, ax[2]}),
		x_read(m, state[SEQUENCES], (Node *[]){row(s, ax[0], from), ax[2]}));
	state[HYPOTHESES] = t_tensor(m, 3, ax, e);
	state[HYPOTHESIS_SCORES] = best.scores;
	ax[0] = x_axis(m, s->batch);
	i = x_axis(m, s->beams);
	e = x_lt(m, worst(m), x_read(m, other, (Node *[]){ax[0], i}));
	e = x_reduce(m, COMB_SUM, 1, &i, x_select(m, e, x_int(m, DT_I64, 1), x_int(m, DT_I64, 0)));
	e = x_add(m, x_read(m, state[COUNTS], ax), e);
	state[COUNTS] = t_tensor(m, 1, ax, x_min(m, e, x_cast(m, DT_I64, s->beams)));
	return true;
}

/* Of the continuations those that end, as hypotheses. */
static bool
add_ended(Search *s, const Round *q, const Offer *o, Node **state)
{
	Module *m = s->b->m;
	Node *ax[2] = {x_axis(m, s->batch), x_axis(m, s->beams)}, *e, *scores, *beam;

	e = x_and(m, x_not(m, x_read(m, state[DONE], ax)), offered_ends(s, o, ax[0], ax[1]));
	e = x_select(m, e, normalized(s, x_read(m, o->scores, ax), q->at), worst(m));
	scores = t_tensor(m, 2, ax, e);
	axes_new(m, 2, scores->type->dims, ax);
	beam = t_tensor(m, 2, ax, x_cast(m, DT_I64, offered_beam(s, o, ax[0], ax[1])));
	return add_hypotheses(s, state, scores, beam);
}

static Node *
done_now(Search *s, const Round *q, const Offer *o, Node **state)
{
	Module *m = s->b->m;
	Node *b = x_axis(m, s->batch), *e, *least, *best;

	e = x_bool(m, true);
	if (!attr_int(s->b, "early_stopping")) {
		least = x_read(m, state[HYPOTHESIS_SCORES], (Node *[]){b, x_addi(m, s->beams, -1)});
		best = x_read(m, o->scores, (Node *[]){b, x_idx(m, 0)});
		e = x_le(m, normalized(s, best, q->at), least);
	}
	e = x_and(m, e, x_le(m, x_cast(m, DT_I64, s->beams), x_read(m, state[COUNTS], &b)));
	return t_tensor(m, 1, &b, x_or(m, x_read(m, state[DONE], &b), e));
}

/* f32[batch, beams * vocab]: of a whole sequence with each next token. */
static Node *
whole_scores(Search *s, Node *scores, Node *beams)
{
	Module *m = s->b->m;
	Node *ax[2] = {x_axis(m, s->batch), x_axis(m, x_mul(m, s->beams, s->vocab))}, *k, *v;

	k = x_fdiv(m, ax[1], s->vocab);
	v = x_mod(m, ax[1], s->vocab);
	return t_tensor(m, 2, ax, x_add(m, x_read(m, scores, (Node *[]){row(s, ax[0], k), v}),
		x_read(m, beams, (Node *[]){ax[0], k})));
}

static bool
beam_step(Search *s, const Round *q, Node *scores, Node **state, Node **rows, Node **shown)
{
	Module *m = s->b->m;
	Node *whole = whole_scores(s, scores, state[SCORES]), *pick, *ax[2], *j, *b, *k, *e, *tokens,
		*from, *done = state[DONE], *dims[3] = {s->batch, s->beams, s->vocab};
	Offer o;

	if (s->b->nout > 2)
		*shown = reshape(m, whole, 3, dims);
	if (!best_of(s, whole, x_muli(m, s->beams, 2), &o))
		return false;
	pick = picked(s, &o);
	if (!add_ended(s, q, &o, state))
		return false;
	state[DONE] = done_now(s, q, &o, state);
	ax[0] = x_axis(m, s->batch);
	ax[1] = x_axis(m, s->beams);
	j = x_cast(m, DT_INDEX, x_read(m, pick, ax));
	e = x_read(m, o.scores, (Node *[]){ax[0], j});
	state[SCORES] = t_tensor(m, 2, ax, x_select(m, x_read(m, done, ax), x_int(m, DT_F32, 0), e));
	ax[0] = x_axis(m, s->rows);
	b = x_fdiv(m, ax[0], s->beams);
	k = x_mod(m, ax[0], s->beams);
	j = x_cast(m, DT_INDEX, x_read(m, pick, (Node *[]){b, k}));
	e = x_cast(m, DT_I32, offered_token(s, &o, b, j));
	tokens = t_tensor(m, 1, ax, x_select(m, x_read(m, done, &b), x_int(m, DT_I32, s->pad), e));
	e = x_select(m, x_read(m, done, &b), k, offered_beam(s, &o, b, j));
	from = t_tensor(m, 1, ax, x_cast(m, DT_I64, row(s, b, e)));
	state[SEQUENCES] = appended(s, q, state[SEQUENCES], from, tokens);
	*rows = q->first ? NULL : from;
	return true;
}

/* The scores of all steps; 0 for those that were not taken. */
static Node *
listed_scores(Search *s, Node *first, Node *others)
{
	Module *m = s->b->m;
	Node *ax[4], *e, *at;

	ax[0] = x_axis(m, x_sub(m, s->length, s->prompt));
	axes_new(m, 3, first->type->dims, ax + 1);
	at = x_addi(m, ax[0], -1);
	e = x_select(m, x_lt(m, at, dim_of(others, 0)),
		x_read(m, others, (Node *[]){at, ax[1], ax[2], ax[3]}), x_int(m, DT_F32, 0));
	e = x_select(m, x_eq(m, ax[0], x_idx(m, 0)), x_read(m, first, ax + 1), e);
	return t_tensor(m, 4, ax, x_cast(m, s->d, e));
}

/* f32[batch]: the probability of a token after the prompt. */
static Node *
probability(Search *s, int64_t token)
{
	Module *m = s->b->m;
	Node *logits = s->b->regions[1]->results[1], *b = x_axis(m, s->batch),
		*v = x_axis(m, s->vocab), *p;
	Node *ax[2] = {b, v}, *idx[3] = {b, x_addi(m, dim_of(logits, 1), -1), v};

	p = t_tensor(m, 2, ax, x_cast(m, DT_F32, x_read(m, logits, idx)));
	if (!(p = call(s->b, "softmax", 1, &p, "axis=-1")))
		return NULL;
	b = x_axis(m, s->batch);
	return t_tensor(m, 1, &b,
		x_cast(m, s->d, x_read(m, p, (Node *[]){b, x2(m, O_BOUND, x_idx(m, token), s->vocab)})));
}

/* The best hypotheses, the beams of what is not done among them. */
static Node *
beam_finish(Search *s, Node **state, Node *shown)
{
	Module *m = s->b->m;
	Build *b = s->b;
	Node *kept = s->kept ? size_arg(m, s->kept) : x_idx(m, 1), *ax[3], *e, *beam, *out[5] = {NULL},
		*end = s->length;

	ax[0] = x_axis(m, s->batch);
	ax[1] = x_axis(m, s->beams);
	e = normalized(s, x_read(m, state[SCORES], ax), end);
	e = t_tensor(m, 2, ax, x_select(m, x_read(m, state[DONE], ax), worst(m), e));
	axes_new(m, 2, e->type->dims, ax);
	beam = t_tensor(m, 2, ax, x_cast(m, DT_I64, ax[1]));
	require(m, x_le(m, kept, s->beams), b->loc, "num_return_sequences is %s, more than %s beams",
		expr_print(m, kept), expr_print(m, s->beams));
	if (!add_hypotheses(s, state, e, beam))
		return NULL;
	ax[0] = x_axis(m, s->batch);
	ax[1] = x_axis(m, kept);
	ax[2] = x_axis(m, s->length);
	out[0] = t_tensor(m, 3, ax, x_read(m, state[HYPOTHESES], ax));
	out[1] = t_tensor(m, 2, ax, x_cast(m, s->d, x_read(m, state[HYPOTHESIS_SCORES], ax)));
	if (b->nout > 2)
		out[2] = listed_scores(s, shown, state[LISTED]);
	if (b->nout > 4 && !(out[4] = probability(s, attr_int(b, "no_speech_token_id"))))
		return NULL;
	return b->nout > 5 ? fail(b, "it has no more than 5 results") : t_tuple(m, b->nout, out);
}

static const char *const greedy_states[] = {"done", NULL};
static const char *const sampling_states[] = {"done", "filtered", NULL};
static const char *const beam_states[] = {"done", "scores", "hypotheses", "hypothesis_scores",
	"counts", NULL};

static Node *
build_greedy(Build *b)
{
	static const Kind k = {greedy_states, false, greedy_begin, greedy_step, greedy_finish};

	return search(b, &k);
}

static Node *
build_sampling(Build *b)
{
	static const Kind k = {sampling_states, false, sampling_begin, sampling_step, sampling_finish};

	return search(b, &k);
}

static Node *
build_beam(Build *b)
{
	static const Kind k = {beam_states, true, beam_begin, beam_step, beam_finish};

	if (attr_int(b, "decoder_output_cross_qk"))
		return unsupported(b, "decoder_output_cross_qk: the products of cross attention are"
			" defined only"
			" by kernels for CUDA");
	return search(b, &k);
}

#define GRAPHS "decoder: region, encoder: region?, init_decoder: region?," \
	" decoder_start_token_id: int = -1," \
	" eos_token_id: int, pad_token_id: int, no_repeat_ngram_size: int = 0, vocab_size: int = -1"
#define BEAM_IN "max_length: i32, min_length: i32?, num_beams: i32, num_return_sequences: i32," \
	" length_penalty: f32|f16?, repetition_penalty: f32|f16?, vocab_mask: i32?," \
	" prefix_vocab_mask: i32?, attention_mask: i32?, decoder_input_ids: i32?," \
	" logits_processor: i32?"
#define GREEDY_IN "(input_ids: i32, max_length: i32, min_length: i32?, repetition_penalty: f32?," \
	" vocab_mask: i32?, prefix_vocab_mask: i32?, attention_mask: i32?"

const Op ops_search[] = {
	STRUCT("greedy_search", MS("GreedySearch"), 1,
		GREEDY_IN ") {" GRAPHS ", model_type: int = 0} -> y*", build_greedy,
		"the most likely next token, again and again"),
	STRUCT("sampling", MS("Sampling"), 1,
		GREEDY_IN ", presence_mask: i32?, seed: i32?) {" GRAPHS ", model_type: int = 0,"
		" custom: int = 0,"
		" filter_value: float = -1e20, min_tokens_to_keep: int = 0, presence_penalty: float = 0,"
		" temperature: float = 1, top_p: float = 0} -> y*",
		build_sampling, "a next token drawn from the likely ones, again and again"),
	STRUCT("beam_search", MS("BeamSearch"), 1, "(input_ids: i32|f32|f16, " BEAM_IN ") {" GRAPHS
		", model_type: int = 0, early_stopping: int = 0} -> y*",
		build_beam, "the most likely sequences of tokens, of several kept at a time"),
	STRUCT("whisper_beam_search", MS("WhisperBeamSearch"), 1, "(input_ids: f32|f16|i32, " BEAM_IN
		", cross_qk_layer_head: i32?, extra_decoding_ids: i32?, temperature: f32|f16?) {" GRAPHS
		", model_type: int = 2, early_stopping: int = 0, decoder_output_cross_qk: int = 0,"
		" translate_token_id: int?, no_speech_token_id: int = -1, transcribe_token_id: int?,"
		" start_of_lm_token_id: int?, no_timestamps_token_id: int?,"
		" beginning_timestamp_token_id: int?}"
		" -> y*", build_beam, "a beam search after an encoder of sound"),
	{0}
};
