/*
 * com.microsoft:AttnLSTM: an LSTM whose input in each step is followed by the attention of the step
 * before (Bahdanau's, over a memory), which is a carried state of the loop. Its published
 * documentation is the definition:
 *   align = softmax(sum_u V[u] tanh((M MW)[s, u] + (h QW)[u])), context = align M,
 *   attention = concat(h, context) AW, or context without AW.
 */
#include <string.h>
#include "rnn.h"

/* qw [dirs, H, U], mw [dirs, D, U], v [dirs, U], memory [B, S, D], lens [B] or NULL, aw [dirs,
 * H + D, A] or NULL; keys: of each direction, [B, S, U]; size: of the attention. */
typedef struct Attn { Node *qw, *mw, *v, *memory, *lens, *aw, *keys[2], *size; } Attn;

/* sum over k of a[b, k] w[dir, first + k, u], as tensor [B, U]. */
static Node *
project(Rnn *r, int dir, Node *a, Node *w, Node *first)
{
	Module *m = r->b->m;
	Node *ax[2] = {x_axis(m, r->B), x_axis(m, dim_of(w, 2))}, *k = x_axis(m, dim_of(a, 1));

	return t_tensor(m, 2, ax, sum_of_products(m, r->acc, 1, &k, x_read(m, a, (Node *[]){ax[0], k}),
		x_read(m, w, (Node *[]){x_idx(m, dir), x_add(m, first, k), ax[1]})));
}

static Node *
keys(Rnn *r, int dir)
{
	Module *m = r->b->m;
	Attn *q = r->own;
	Node *ax[3], *k = x_axis(m, dim_of(q->mw, 1));

	ax[0] = x_axis(m, r->B);
	ax[1] = x_axis(m, dim_of(q->memory, 1));
	ax[2] = x_axis(m, dim_of(q->mw, 2));
	return t_tensor(m, 3, ax, sum_of_products(m, r->acc, 1, &k,
		x_read(m, q->memory, (Node *[]){ax[0], ax[1], k}),
		x_read(m, q->mw, (Node *[]){x_idx(m, dir), k, ax[2]})));
}

static Node *
attention_begin(Rnn *r, int dir)
{
	Module *m = r->b->m;
	Attn *q = r->own;
	Node *ax[2] = {x_axis(m, r->B), x_axis(m, q->size)};

	q->keys[dir] = keys(r, dir);
	return t_tensor(m, 2, ax, x_int(m, r->d, 0));
}

/* What h and the attention give to the gates. */
static Node *
attention_state(Step *s)
{
	Rnn *r = s->r;
	Module *m = r->b->m;
	Node *h = rnn_float_state(s), *ax[2], *k = x_axis(m, dim_of(s->more, 1)), *idx[3], *t;

	axes_new(m, 2, h->type->dims, ax);
	idx[0] = x_idx(m, s->dir);
	idx[1] = ax[1];
	idx[2] = x_add(m, r->I, k);
	t = t_tensor(m, 2, ax, sum_of_products(m, r->acc, 1, &k,
		x_read(m, s->more, (Node *[]){ax[0], k}), x_read(m, r->w, idx)));
	axes_new(m, 2, h->type->dims, ax);
	return t_tensor(m, 2, ax, x_add(m, x_read(m, h, ax), x_read(m, t, ax)));
}

/* [B, S]: minus infinity past the memory's length, which is at least 1. */
static Node *
scores(Step *s)
{
	Rnn *r = s->r;
	Module *m = r->b->m;
	Attn *q = r->own;
	Node *query = project(r, s->dir, s->new_h, q->qw, x_idx(m, 0)), *ax[2], *u, *e, *len;

	ax[0] = x_axis(m, r->B);
	ax[1] = x_axis(m, dim_of(q->memory, 1));
	u = x_axis(m, dim_of(q->v, 1));
	e = x1(m, O_TANH, x_add(m, x_read(m, q->keys[s->dir], (Node *[]){ax[0], ax[1], u}),
		x_read(m, query, (Node *[]){ax[0], u})));
	e = sum_of_products(m, r->acc, 1, &u, x_read(m, q->v, (Node *[]){x_idx(m, s->dir), u}), e);
	if (q->lens) {
		len = x_max(m, x_cast(m, DT_INDEX, x_read(m, q->lens, ax)), x_idx(m, 1));
		e = x_select(m, x_lt(m, ax[1], len), e, x_comb_identity(m, COMB_MAX, r->acc));
	}
	return t_tensor(m, 2, ax, e);
}

static Node *
attention_next(Step *s)
{
	Rnn *r = s->r;
	Module *m = r->b->m;
	Attn *q = r->own;
	Node *align, *context, *ax[2], *k, *cell, *rest, *t = scores(s);

	align = call(r->b, "softmax", 1, &t, "axis=-1");
	if (!align)
		return t;                            /* the error is reported */
	ax[0] = x_axis(m, r->B);
	ax[1] = x_axis(m, dim_of(q->memory, 2));
	k = x_axis(m, dim_of(q->memory, 1));
	context = t_tensor(m, 2, ax, sum_of_products(m, r->acc, 1, &k,
		x_read(m, align, (Node *[]){ax[0], k}),
		x_read(m, q->memory, (Node *[]){ax[0], k, ax[1]})));
	if (!q->aw)
		return context;
	cell = project(r, s->dir, s->new_h, q->aw, x_idx(m, 0));
	rest = project(r, s->dir, context, q->aw, r->H);
	axes_new(m, 2, cell->type->dims, ax);
	return t_tensor(m, 2, ax, x_add(m, x_read(m, cell, ax), x_read(m, rest, ax)));
}

static bool
attention_shapes(Build *b, Attn *q, int dirs, Node *H)
{
	Module *m = b->m;

	if (!q->qw || !q->mw || !q->v || !q->memory)
		return fail(b, "QW, MW, V and M must be given") != NULL;
	if (rank_of(q->qw) != 3 || rank_of(q->mw) != 3 || rank_of(q->v) != 2 || rank_of(q->memory) != 3
	 || (q->aw && rank_of(q->aw) != 3) || (q->lens && rank_of(q->lens) != 1))
		return fail(b, "QW, MW, M and AW must have 3 dimensions, V 2, memory_seq_lens 1") != NULL;
	Node *d = x_idx(m, dirs), *u = dim_of(q->v, 1), *depth = dim_of(q->memory, 2);
	expect_shape(b, "QW", q->qw, 3, (Node *[]){d, H, u});
	expect_shape(b, "MW", q->mw, 3, (Node *[]){d, depth, u});
	expect_dim(b, "V", dim_of(q->v, 0), d, false);
	q->size = q->aw ? dim_of(q->aw, 2) : depth;
	if (q->aw)
		expect_shape(b, "AW", q->aw, 3, (Node *[]){d, x_add(m, H, depth), q->size});
	return true;
}

static Node *
build_attn_lstm(Build *b)
{
	static const char *const defaults[] = {"Sigmoid", "Tanh", "Tanh"};
	Attn q = {b->in[8], b->in[9], b->in[10], b->in[11], b->in[12], b->in[13], {NULL, NULL}, NULL};
	Rnn r = {.c0 = b->in[6], .p = b->in[7], .cell = lstm_cell, .more = attention_begin,
		.more_next = attention_next, .own = &q};
	bool both = strcmp(attr_str(b, "direction"), "bidirectional") == 0;

	if (rank_of(b->in[2]) != 3)
		return fail(b, "R has %d dimensions, must have 3", rank_of(b->in[2]));
	if (!attention_shapes(b, &q, both ? 2 : 1, dim_of(b->in[2], 2))
	 || !rnn_float_args(b, &r, 4, 3, defaults, q.size))
		return NULL;
	r.state = attention_state;
	expect_dim(b, "M", dim_of(q.memory, 0), r.B, false);
	if (q.lens)
		expect_dim(b, "memory_seq_lens", dim_of(q.lens, 0), r.B, false);
	return rnn_build(&r, true);
}

const Op ops_attn_lstm[] = {
	STRUCT("attn_lstm", MS("AttnLSTM"), 1,
		"(x: f32|f64, w: x, r: x, bias: x?, sequence_lens: i32?, initial_h: x?, initial_c: x?,"
		" p: x?, qw: x?, mw: x?, v: x?, memory: x?, memory_lens: i32?, aw: x?)"
		" {activation_alpha: floats?, activation_beta: floats?, activations: strs?, clip: float?,"
		" direction: str = \"forward\", hidden_size: int?, input_forget: int = 0} -> y?, y_h?,"
		" y_c?",
		build_attn_lstm, "long short-term memory with attention over a memory"),
	{0}
};
