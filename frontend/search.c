/*
 * The subgraphs of com.microsoft's searches (GreedySearch, Sampling, BeamSearch, WhisperBeamSearch)
 * as the regions that the row's builder takes (ir.h, "ops/search.c"). Their inputs are told by
 * place and name, as onnxruntime's conversion tools write them; B is the batch, R the rows, P what
 * is past:
 *
 *   decoder only      input_ids [R, 1], position_ids [R, 1], attention_mask [R, P + 1], past_i
 *                     [2, R, heads, P, size]... -> logits, present_i...
 *   encoder           encoder_input_ids, encoder_attention_mask (not of sound), decoder_input_ids
 *                     -> logits, encoder_hidden_states, past of itself..., of the encoder...
 *                     or without decoder_input_ids -> past of the encoder...
 *   its decoder       input_ids [R, 1] or [R, P + 1], encoder_attention_mask (not of sound),
 *                     encoder_hidden_states (may be missing), past of itself [R, heads, P,
 *                     size]..., of the encoder... -> logits, present of itself...
 *
 * What does not change from step to step, or follows from the sequences and P, is bound to values;
 * only the past is a parameter of the decoder's region.
 */
#include <string.h>

#include "frontend/import.h"

enum { MODEL_DECODER = 0, MODEL_SOUND = 2 };

typedef struct Search {
	Import *im;
	Module *m;
	const Form *f;
	Env *up;
	SearchSizes z;
	int64_t model, pad, start;
	const OnnxGraph *decoder, *encoder, *init;
	Node *prompt;                /* [B, S] i32 */
	Node *mask;                  /* of the prompt or what is encoded: [B, S] i32 */
	Node *words, *lengths;       /* tokens that are no pads: [B, S] i32, how many: [B] i64 */
	int self, cross;             /* pasts of itself, of the encoder */
} Search;

static bool unfit(Search *s, const char *what)
{
	diag_error(s->im->om->diag, X_UNSUPPORTED, s->f->loc, "%s", what);
	return false;
}

static int64_t int_attr(const Form *f, const char *name, int64_t none)
{
	const OnnxAttr *a = form_attr(f, name);

	return a && a->kind == OA_INT ? a->i[0] : none;
}

static const OnnxGraph *graph_attr(const Form *f, const char *name)
{
	const OnnxAttr *a = form_attr(f, name);

	return a && a->kind == OA_GRAPH ? a->g[0] : NULL;
}

/* ---- what follows from the prompt ------------------------------------------------------------ */

static Node *one_if(Module *m, Node *cond, DType d)
{
	return x_select(m, cond, x_int(m, d, 1), x_int(m, d, 0));
}

/* i32[B, S]: 1 for tokens that count. A decoder's own prompt: all that are no pads; an
 * encoder's: all after the pads at its begin. */
static Node *mask_of(Search *s, Node *ids)
{
	Module *m = s->m;
	Node *ax[2], *j, *pad = x_int(m, dtype_of(ids), s->pad), *e;

	axes_new(m, 2, ids->type->dims, ax);
	if (s->model == MODEL_DECODER) {
		e = x_ne(m, x_read(m, ids, ax), pad);
	} else {
		j = x_axis(m, dim_of(ids, 1));
		e = x_and(m, x_le(m, j, ax[1]), x_ne(m, x_read(m, ids, (Node *[]){ ax[0], j }), pad));
		e = x_reduce(m, COMB_OR, 1, &j, e);
	}
	return t_tensor(m, 2, ax, one_if(m, e, DT_I32));
}

/* How many words there are before j (NULL: in all). */
static Node *counted(Search *s, Node *b, Node *j)
{
	Module *m = s->m;
	Node *i = x_axis(m, dim_of(s->words, 1)), *e;

	e = x_ne(m, x_read(m, s->words, (Node *[]){ b, i }), x_int(m, DT_I32, 0));
	if (j)
		e = x_and(m, e, x_lt(m, i, j));
	return x_reduce(m, COMB_SUM, 1, &i, one_if(m, e, DT_I64));
}

/* i32[B, S]: a word's place among the words; 0 for pads. */
static Node *positions_of(Search *s)
{
	Module *m = s->m;
	Node *ax[2], *e;

	axes_new(m, 2, s->words->type->dims, ax);
	e = x_ne(m, x_read(m, s->words, ax), x_int(m, DT_I32, 0));
	e = x_select(m, e, x_cast(m, DT_I32, counted(s, ax[0], ax[1])), x_int(m, DT_I32, 0));
	return t_tensor(m, 2, ax, e);
}

/* i32[R, 1], of the token after P others. */
static Node *next_position(Search *s, Node *past)
{
	Module *m = s->m;
	Node *ax[2] = { x_axis(m, s->z.rows), x_axis(m, x_idx(m, 1)) }, *b, *e;

	b = x_fdiv(m, ax[0], s->z.beams);
	e = x_sub(m, x_cast(m, DT_I64, past), x_cast(m, DT_I64, dim_of(s->prompt, 1)));
	e = x_add(m, x_read(m, s->lengths, &b), e);
	return t_tensor(m, 2, ax, x_cast(m, DT_I32, e));
}

/* i32[R, P + 1]: the prompt's mask, then 1. */
static Node *longer_mask(Search *s, Node *past)
{
	Module *m = s->m;
	Node *ax[2] = { x_axis(m, s->z.rows), x_axis(m, x_addi(m, past, 1)) }, *e;

	e = x_read(m, s->mask, (Node *[]){ x_fdiv(m, ax[0], s->z.beams), ax[1] });
	e = x_select(m, x_lt(m, ax[1], dim_of(s->prompt, 1)), e, x_int(m, DT_I32, 1));
	return t_tensor(m, 2, ax, e);
}

/* The last token of the sequences, [R, 1]; whole: all, [R, P + 1]. */
static Node *tokens_of(Search *s, Node *sequences, Node *past, bool whole)
{
	Module *m = s->m;
	Node *ax[2] = { x_axis(m, s->z.rows), x_axis(m, whole ? x_addi(m, past, 1) : x_idx(m, 1)) };

	return t_tensor(m, 2, ax, x_read(m, sequences, (Node *[]){ ax[0], whole ? ax[1] : past }));
}

static Node *start_tokens(Search *s)
{
	Node *ax[2] = { x_axis(s->m, s->z.batch), x_axis(s->m, x_idx(s->m, 1)) };

	return t_tensor(s->m, 2, ax, x_int(s->m, DT_I32, s->start));
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* The graph with its inputs bound, its results added to the region; false after reporting. */
static bool import_bound(Search *s, const OnnxGraph *g, Node *const *in, Region *r)
{
	Env e = { .up = s->up };

	for (int i = 0; i < g->nin; i++) {
		if (!in[i])
			return false;
		env_bind(s->im, &e, g->in[i].name, in[i]);
	}
	if (!bind_initializers(s->im, g, &e))
		return false;
	import_nodes(s->im, g, &e, 0, false);
	return add_results(s->im, g, &e, r);
}

/* Size `axis` of a graph's input as declared, which must be a number. -1 after reporting. */
static int64_t declared(Search *s, const OnnxGraph *g, int input, int rank, int axis)
{
	const OnnxType *t = g->in[input].type;

	if (t && t->kind == OT_TENSOR && t->has_shape && t->rank == rank && t->dims[axis].value >= 0)
		return t->dims[axis].value;
	diag_error(s->im->om->diag, X_INVALID, s->f->loc,
		"input \"%s\" of its %s must be declared with %d"
		" dimensions and a number for dimension %d", g->in[input].name, g->attr, rank, axis);
	return -1;
}

/* The past before the first step, of a decoder's input: without elements. */
static Node *empty_past(Search *s, const OnnxGraph *g, int input, int rank)
{
	Module *m = s->m;
	int64_t heads = declared(s, g, input, rank, rank - 3),
		size = declared(s, g, input, rank, rank - 1);
	DType d = g->in[input].type ? dtype_of_onnx(g->in[input].type->elem) : DT_NONE;
	Node *ax[5], *dims[5] = { x_idx(m, 2), s->z.batch, x_idx(m, heads), x_idx(m, 0),
		x_idx(m, size) };

	if (heads < 0 || size < 0 || (!dt_float(d) && !unfit(s, "a past is not declared as floats")))
		return NULL;
	axes_new(m, rank, dims + 5 - rank, ax);
	return t_tensor(m, rank, ax, x_int(m, d, 0));
}

/* Inputs of a decoder before its past. */
static int before_past(Search *s, const OnnxGraph *g)
{
	int n = s->model == MODEL_DECODER ? 3 : s->model == MODEL_SOUND ? 1 : 2;

	if (s->model != MODEL_DECODER && n < g->nin && !strcmp(g->in[n].name, "encoder_hidden_states"))
		n++;
	return n;
}

static bool decoder_fits(Search *s, const OnnxGraph *g)
{
	int n = before_past(s, g), past = g->nin - n, self = g->nout - 1;

	for (int i = n; i < g->nin; i++)
		if (strncmp(g->in[i].name, "past_key", 8) && strncmp(g->in[i].name, "past_value", 10)
				&& (strncmp(g->in[i].name, "past_", 5) ||
				!strcmp(g->in[i].name, "past_sequence_length")))
			return unfit(s, arena_printf(s->m->arena,
			"its decoder takes \"%s\": a past in a buffer of"
				" its final size is defined only by kernels for CUDA", g->in[i].name));
	s->self = self;
	s->cross = s->model == MODEL_DECODER ? 0 : self;
	if (self < 1 || past != s->self + s->cross)
		return unfit(s, arena_printf(s->m->arena,
			"its decoder has %d inputs for the past and %d results"
			" after the logits", past, self));
	return true;
}

/* The whole prompt through the decoder. */
static bool first_decoder(Search *s, const OnnxGraph *g, Node *const *cross, Region *r)
{
	Node **in = NEWN(s->m, Node *, g->nin + 1);
	int n = before_past(s, g);

	in[0] = s->prompt;
	if (s->model == MODEL_DECODER) {
		in[1] = positions_of(s);
		in[2] = s->mask;
	} else if (n > 2 || (s->model == MODEL_SOUND && n > 1)) {
		return unfit(s, "its encoder gives no hidden states, which its decoder takes");
	} else if (n > 1) {
		in[1] = s->mask;
	}
	for (int i = 0; i < s->self; i++)
		in[n + i] = empty_past(s, g, n + i, s->model == MODEL_DECODER ? 5 : 4);
	for (int i = 0; i < s->cross; i++)
		in[n + s->self + i] = cross[i];
	return import_bound(s, g, in, r);
}

/* [R, ...] of [B, ...]. */
static Node *expanded(Search *s, Node *x)
{
	bool rows = x && x->type->kind == T_TENSOR && rank_of(x);

	return rows ? search_expanded(s->m, x, 0, s->z.beams) : NULL;
}

/*
 * The encoder, and if it stops there the decoder's first step. steady: the decoder's inputs that
 * stay, the encoder's mask and hidden states (NULL: none) and its past. false after reporting.
 */
static bool encode(Search *s, Region *first, Node **steady)
{
	const OnnxGraph *g = s->encoder;
	Region *all = region_new(s->m, g->attr);
	Node *in[3] = { s->f->in[0] };
	int n = 1, at;

	if (s->model != MODEL_SOUND)
		in[n++] = s->mask;
	bool logits = g->nin == n + 1;
	in[n] = s->prompt;
	if (!logits && g->nin != n)
		return unfit(s, arena_printf(s->m->arena, "its encoder has %d inputs", g->nin));
	if (!import_bound(s, g, in, all))
		return false;
	at = logits ? 2 + s->self : 0;
	if (all->nresults != at + s->cross)
		return unfit(s, arena_printf(s->m->arena, "its encoder has %d results, %d are needed",
			all->nresults, at + s->cross));
	steady[0] = s->model == MODEL_SOUND ? NULL : s->mask;
	steady[1] = logits ? all->results[1] : NULL;
	memcpy(steady + 2, all->results + at, sizeof *steady * (size_t)s->cross);
	if (!logits)
		return first_decoder(s, s->decoder, steady + 2, first);
	region_add(s->m, first, all->results[0]);
	for (int i = 0; i < s->self; i++)
		region_add(s->m, first, all->results[2 + i]);
	return true;
}

/* ---- the regions ----------------------------------------------------------------------------- */

/* A parameter for the past: as the first step gave it, with R rows and P tokens. */
static Node *past_param(Search *s, Node *given, Node *past, int position)
{
	int rank = given->type->kind == T_TENSOR ? rank_of(given) : 0;
	Node *dims[5];

	if (rank != (s->model == MODEL_DECODER ? 5 : 4)
			&& !unfit(s, "a past has not the number of dimensions it must have"))
		return NULL;
	memcpy(dims, given->type->dims, sizeof *dims * (size_t)rank);
	dims[rank - 4] = s->z.rows;
	dims[rank - 2] = past;
	return t_param(s->m, arena_printf(s->m->arena, "past_%d", position - 2),
		ty_tensor(s->m, dtype_of(given), rank, dims), position);
}

/* first: the tokens, logits and past of the first step. */
static Region *decoder_region(Search *s, const Region *first, Node *const *steady)
{
	Module *m = s->m;
	const OnnxGraph *g = s->decoder;
	Region *r = region_new(m, "decoder");
	Node **in = NEWN(m, Node *, g->nin + 1), *past = x_sym(m, NULL, 0, INT32_MAX);
	Node *dims[2] = { s->z.rows, s->z.length };
	const OnnxType *ids = g->in[0].type;
	bool whole = s->model != MODEL_DECODER && ids && ids->has_shape && ids->rank == 2
		&& ids->dims[1].value != 1;
	int n = before_past(s, g), k = 0;

	r->params = NEWN(m, Node *, s->self + 2);
	r->params[k++] = t_param(m, "round", ty_tensor(m, DT_I64, 0, NULL), 0);
	r->params[k++] = t_param(m, "sequences", ty_tensor(m, DT_I32, 2, dims), 1);
	for (int i = 0; i < s->self; i++, k++)
		if (!(in[n + i] = r->params[k] = past_param(s, first->results[2 + i], past, k)))
			return NULL;
	r->nparams = k;
	in[0] = tokens_of(s, r->params[1], past, whole);
	if (s->model == MODEL_DECODER) {
		in[1] = next_position(s, past);
		in[2] = longer_mask(s, past);
	} else {
		int hidden = s->model == MODEL_SOUND ? 1 : 2;
		if (hidden == 2)
			in[1] = expanded(s, steady[0]);
		if (n > hidden)
			in[hidden] = expanded(s, steady[1]);
		for (int i = 0; i < s->cross; i++)
			in[n + s->self + i] = expanded(s, steady[2 + i]);
	}
	return import_bound(s, g, in, r) ? r : NULL;
}

/* The tokens that sequences begin with, and the mask; false after reporting. */
static bool begin(Search *s, const Op *op)
{
	Node *given = search_operand(op, s->f->nin, s->f->in, "decoder_input_ids");

	s->mask = search_operand(op, s->f->nin, s->f->in, "attention_mask");
	if (s->model != MODEL_SOUND) {
		if (rank_of(s->f->in[0]) != 2 || dtype_of(s->f->in[0]) != DT_I32)
			return unfit(s, "its input_ids are not i32 of 2 dimensions");
		s->words = mask_of(s, s->f->in[0]);
		s->mask = s->mask ? s->mask : s->words;
		if (rank_of(s->mask) != 2)
			return unfit(s, "its attention_mask has not 2 dimensions");
	}
	if (s->model == MODEL_DECODER) {
		Node *b = x_axis(s->m, s->z.batch);
		s->prompt = s->f->in[0];
		s->lengths = t_tensor(s->m, 1, &b, counted(s, b, NULL));
		return true;
	}
	if (given ? rank_of(given) != 2 || dtype_of(given) != DT_I32 : s->start < 0)
		return unfit(s, "it needs decoder_start_token_id or decoder_input_ids to begin with");
	s->prompt = given ? given : start_tokens(s);
	return true;
}

/* False after reporting; regions: decoder, first. */
static bool make_regions(Search *s, const Op *op, Region **regions)
{
	Node **steady = NULL;
	bool ok;

	if (!begin(s, op) || !decoder_fits(s, s->decoder))
		return false;
	steady = NEWN(s->m, Node *, s->cross + 2);
	regions[1] = region_new(s->m, "first");
	region_add(s->m, regions[1], s->prompt);
	if (s->model == MODEL_DECODER)
		ok = (!s->init || decoder_fits(s, s->init))
			&& first_decoder(s, s->init ? s->init : s->decoder, NULL, regions[1]);
	else
		ok = encode(s, regions[1], steady);
	return ok && (regions[0] = decoder_region(s, regions[1], steady));
}

bool search_regions(Import *im, const Form *f, const Op *op, Env *e, int *n, Region **regions)
{
	Search s = { .im = im, .m = im->m, .f = f, .up = e,
		.pad = int_attr(f, "pad_token_id", -1), .start = int_attr(f, "decoder_start_token_id", -1),
		.decoder = graph_attr(f, "decoder"), .encoder = graph_attr(f, "encoder"),
		.init = graph_attr(f, "init_decoder") };
	const Sig *sig = op_sig(op);
	int conditions = im->m->requires.n, errors = im->om->diag->errors;

	*n = 2;
	for (int i = 0; i < sig->nattrs; i++)
		if (!strcmp(sig->attrs[i].name, "model_type"))
			s.model = int_attr(f, "model_type", sig->attrs[i].value.i);
	if (f->nin < 2 || !f->in[0] || !f->in[1] || f->in[0]->type->kind != T_TENSOR
			|| f->in[1]->type->kind != T_TENSOR || !rank_of(f->in[0])) {
		diag_error(im->om->diag, X_INVALID, f->loc, "input_ids and max_length must be given");
		return false;
	}
	if (s.model < MODEL_DECODER || s.model > MODEL_SOUND || !s.decoder
			|| (s.model != MODEL_DECODER) != (s.encoder != NULL) || (s.model && s.init)) {
		diag_error(im->om->diag, X_INVALID, f->loc,
			"model_type %lld does not fit the subgraphs it has", (long long)s.model);
		return false;
	}
	s.z = search_sizes(im->m, op, f->nin, f->in);
	bool ok = make_regions(&s, op, regions);
	region_requires(im->m, conditions, NULL, true);
	return ok && im->om->diag->errors == errors;
}
