/*
 * Recurrent operators: a core loop over the time steps whose body computes the new states from the
 * old ones. What the inputs give to the gates is one contraction for all steps, before the loop.
 */
#include <string.h>
#include <strings.h>
#include "rnn.h"

/* ---- activations ----------------------------------------------------------------------------- */

/* name, takes alpha, takes beta, defaults */
static const struct { const char *name; bool alpha, beta; double a, b; } acts[] = {
	{"Sigmoid",         false, false, 0,    0},
	{"Tanh",            false, false, 0,    0},
	{"Relu",            false, false, 0,    0},
	{"Affine",          true,  true,  1,    0},
	{"LeakyRelu",       true,  false, 0.01, 0},
	{"ThresholdedRelu", true,  false, 1,    0},
	{"ScaledTanh",      true,  true,  1,    1},
	{"HardSigmoid",     true,  true,  0.2,  0.5},
	{"Elu",             true,  false, 1,    0},
	{"Softsign",        false, false, 0,    0},
	{"Softplus",        false, false, 0,    0},
};
enum { SIGMOID, TANH, RELU, AFFINE, LEAKY_RELU, THRESHOLDED_RELU, SCALED_TANH, HARD_SIGMOID, ELU,
	SOFTSIGN, SOFTPLUS,
	NACTS };
_Static_assert(sizeof acts / sizeof *acts == NACTS, "one row for each activation");

static Node *
activate(Module *m, Act act, Node *x)
{
	DType d = x->type->dtype;
	Node *zero = x_int(m, d, 0), *one = x_int(m, d, 1), *a = x_flt(m, d, act.alpha),
		*b = x_flt(m, d, act.beta);

	switch (act.kind) {
	case SIGMOID:
		return x2(m, O_DIV, one, x_add(m, one, x1(m, O_EXP, x1(m, O_NEG, x))));
	case TANH:
		return x1(m, O_TANH, x);
	case RELU:
		return x_max(m, x, zero);
	case AFFINE:
		return x_add(m, x_mul(m, x, a), b);
	case LEAKY_RELU:
		return x_select(m, x_lt(m, x, zero), x_mul(m, x, a), x);
	case THRESHOLDED_RELU:
		return x_select(m, x_lt(m, x, a), zero, x);
	case SCALED_TANH:
		return x_mul(m, a, x1(m, O_TANH, x_mul(m, b, x)));
	case HARD_SIGMOID:
		return x_min(m, x_max(m, x_add(m, x_mul(m, x, a), b), zero), one);
	case ELU:
		return x_select(m, x_lt(m, x, zero), x_mul(m, a, x1(m, O_EXPM1, x)), x);
	case SOFTSIGN:
		return x2(m, O_DIV, x, x_add(m, one, x1(m, O_ABS, x)));
	default:
		return x_add(m, x_max(m, x, zero),
			x1(m, O_LOG1P, x1(m, O_EXP, x1(m, O_NEG, x1(m, O_ABS, x)))));
	}
}

static bool
find_act(Build *b, const char *name, Act *a)
{
	int i;

	for (i = 0; i < NACTS; i++)
		if (strcasecmp(name, acts[i].name) == 0) {
			*a = (Act){i, acts[i].a, acts[i].b};
			return true;
		}
	return fail(b, "activation \"%s\" is not known", name) != NULL;
}

/* Alphas and betas are taken in order by those activations that have them. */
static bool
activations(Build *b, Rnn *r, const char *const *defaults)
{
	const Attr *names = attr_find(b->attrs, "activations"),
		*as = attr_find(b->attrs, "activation_alpha");
	const Attr *bs = attr_find(b->attrs, "activation_beta");
	int i, na = 0, nb = 0, n = r->nact * r->dirs;

	if (names && names->n < n)
		return fail(b, "%d activations, %d are needed", names->n, n) != NULL;
	for (i = 0; i < n; i++) {
		Act *a = &r->act[i / r->nact][i % r->nact];
		if (!find_act(b, names ? names->ss[i] : defaults[i % r->nact], a))
			return false;
		if (acts[a->kind].alpha && as && na < as->n)
			a->alpha = as->fs[na++];
		if (acts[a->kind].beta && bs && nb < bs->n)
			a->beta = bs->fs[nb++];
	}
	return true;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static bool
expect_dims(Build *b, Node *t, const char *what, int rank, Node *const *dims)
{
	int i;

	if (!t)
		return true;
	if (rank_of(t) != rank)
		return fail(b, "%s has %d dimensions, must have %d", what, rank_of(t), rank) != NULL;
	for (i = 0; i < rank; i++)
		require(b->m, x_eq(b->m, dim_of(t, i), dims[i]), b->loc,
			"%s has %s elements at axis %d, must have %s", what,
			expr_print(b->m, dim_of(t, i)), i, expr_print(b->m, dims[i]));
	return true;
}

bool
rnn_args(Build *b, Rnn *r, int gates, int nact, const char *const *defaults)
{
	Module *m = b->m;
	const char *dir = attr_str(b, "direction");
	const Attr *hidden = attr_find(b->attrs, "hidden_size");
	bool both = strcmp(dir, "bidirectional") == 0;
	Node *dirs, *gh;

	r->b = b;
	r->gates = gates;
	r->nact = nact;
	r->dirs = both ? 2 : 1;
	r->reverse = strcmp(dir, "reverse") == 0;
	if (!both && !r->reverse && strcmp(dir, "forward"))
		return fail(b, "direction is \"%s\", must be forward, reverse or bidirectional",
			dir) != NULL;
	r->d = dtype_of(r->x);
	r->acc = acc_type(r->d);
	r->batch_first = attr_int(b, "layout") != 0;
	r->clips = attr_find(b->attrs, "clip") != NULL;
	r->clip = attr_float(b, "clip");
	if (rank_of(r->x) != 3 || rank_of(r->r) != 3)
		return fail(b, "X and R must have 3 dimensions, have %d and %d", rank_of(r->x),
			rank_of(r->r)) != NULL;
	r->T = dim_of(r->x, r->batch_first ? 1 : 0);
	r->B = dim_of(r->x, r->batch_first ? 0 : 1);
	r->I = dim_of(r->x, 2);
	if (hidden)
		require(m, x_eq(m, r->H, x_idx(m, hidden->i)), b->loc, "hidden_size is %lld, R has %s",
			(long long)hidden->i,
			expr_print(m, r->H));
	dirs = x_idx(m, r->dirs);
	gh = x_muli(m, r->H, gates);
	Node *bias[2] = {dirs, x_muli(m, gh, 2)}, *peep[2] = {dirs, x_muli(m, r->H, 3)};
	Node *state[3] = {r->batch_first ? r->B : dirs, r->batch_first ? dirs : r->B, r->H};
	return expect_dims(b, r->bias, "B", 2, bias)
		&& expect_dims(b, r->lens, "sequence_lens", 1, &r->B)
		&& expect_dims(b, r->h0, "initial_h", 3, state)
			&& expect_dims(b, r->c0, "initial_c", 3, state)
		&& expect_dims(b, r->p, "P", 2, peep) && activations(b, r, defaults);
}

/* ---- contractions ---------------------------------------------------------------------------- */

Node *
rnn_x(Rnn *r, Node *t, Node *b, Node *i)
{
	Node *idx[3] = {r->batch_first ? b : t, r->batch_first ? t : b, i};

	return x_read(r->b->m, r->x, idx);
}

/* The biases of both sides; that of a state's side which is to be reset is not added here. */
Node *
rnn_bias(Rnn *r, int dir, Node *n)
{
	Module *m = r->b->m;
	Node *gh = x_muli(m, r->H, r->gates), *idx[2] = {x_idx(m, dir), n}, *w, *s;

	if (!r->bias)
		return NULL;
	w = x_cast(m, r->acc, x_read(m, r->bias, idx));
	idx[1] = x_add(m, gh, n);
	s = x_cast(m, r->acc, x_read(m, r->bias, idx));
	if (r->reset_first)
		s = x_select(m, x_lt(m, n, x_muli(m, r->H, 2)), s, x_int(m, r->acc, 0));
	return x_add(m, w, s);
}

static Node *
float_input(Rnn *r, int dir)
{
	Module *m = r->b->m;
	Node *axes[3], *i = x_axis(m, r->I), *idx[3], *e, *t, *bias;

	axes[0] = x_axis(m, r->T);
	axes[1] = x_axis(m, r->B);
	axes[2] = x_axis(m, x_muli(m, r->H, r->gates));
	idx[0] = x_idx(m, dir);
	idx[1] = axes[2];
	idx[2] = i;
	e = sum_of_products(m, r->acc, 1, &i, rnn_x(r, axes[0], axes[1], i), x_read(m, r->w, idx));
	t = t_tensor(m, 3, axes, e);
	if (!r->bias)
		return t;
	axes_new(m, 3, t->type->dims, axes);
	bias = rnn_bias(r, dir, axes[2]);
	return t_tensor(m, 3, axes, x_add(m, x_read(m, t, axes), bias));
}

/* h times a part of R, from gate `from` on. */
static Node *
state_product(Rnn *r, int dir, Node *h, int from, int gates)
{
	Module *m = r->b->m;
	Node *axes[2], *k = x_axis(m, r->H), *idx[3], *at[2];

	axes[0] = at[0] = x_axis(m, r->B);
	axes[1] = x_axis(m, x_muli(m, r->H, gates));
	at[1] = k;
	idx[0] = x_idx(m, dir);
	idx[1] = x_add(m, axes[1], x_muli(m, r->H, from));
	idx[2] = k;
	return t_tensor(m, 2, axes,
		sum_of_products(m, r->acc, 1, &k, x_read(m, h, at), x_read(m, r->r, idx)));
}

Node *
rnn_float_state(Step *s)
{
	Rnn *r = s->r;

	/* a hidden gate that sees the state after its reset has its own product */
	return state_product(r, s->dir, s->h, 0, r->gates == 3 && !r->reset_first ? 2 : r->gates);
}

/* ---- steps ----------------------------------------------------------------------------------- */

Node *
rnn_length(Rnn *r, Node *b)
{
	Module *m = r->b->m;

	if (!r->lens)
		return r->T;
	return x_min(m, x_max(m, x_cast(m, DT_INDEX, x_read(m, r->lens, &b)), x_idx(m, 0)), r->T);
}

static bool
goes_back(const Rnn *r, int dir)
{
	return r->reverse || dir == 1;
}

Node *
rnn_round(Step *s)
{
	return x_cast(s->r->b->m, DT_INDEX, x_read(s->r->b->m, s->trip, NULL));
}

/* NULL where every step is within the sequence. */
static Node *
step_valid(Step *s, Node *b)
{
	return s->r->lens ? x_lt(s->r->b->m, rnn_round(s), rnn_length(s->r, b)) : NULL;
}

static Node *
gate_element(Step *s, int gate, Node *h)
{
	return x_add(s->r->b->m, x_muli(s->r->b->m, s->r->H, gate), h);
}

static Node *
gate_input(Step *s, int gate, Node *b, Node *h)
{
	Module *m = s->r->b->m;
	Node *t = rnn_round(s), *idx[3];

	idx[0] = goes_back(s->r, s->dir) ? x_sub(m, x_addi(m, rnn_length(s->r, b), -1), t) : t;
	idx[1] = b;
	idx[2] = gate_element(s, gate, h);
	return x_read(m, s->input, idx);
}

static Node *
gate_state(Step *s, int gate, Node *b, Node *h)
{
	Node *idx[2] = {b, gate_element(s, gate, h)};

	return x_read(s->r->b->m, s->state, idx);
}

static Node *
gate_sum(Step *s, int gate, Node *b, Node *h)
{
	return x_add(s->r->b->m, gate_input(s, gate, b, h), gate_state(s, gate, b, h));
}

/* Activation f, g or h (0, 1, 2). The clip is of gates: the cell state goes to h as it is. */
static Node *
act(Step *s, int which, Node *x)
{
	Module *m = s->r->b->m;
	DType d = x->type->dtype;

	if (s->r->clips && which != 2)
		x = x_max(m, x_min(m, x, x_flt(m, d, s->r->clip)), x_flt(m, d, -s->r->clip));
	return activate(m, s->r->act[s->dir][which], x);
}

static Node *
acc_read(Step *s, Node *t, Node *const *idx)
{
	return x_cast(s->r->b->m, s->r->acc, x_read(s->r->b->m, t, idx));
}

/* The new state, or the old one past the end of a sequence. */
static Node *
state_tensor(Step *s, Node *const *axes, Node *e, Node *old)
{
	Module *m = s->r->b->m;
	Node *valid = step_valid(s, axes[0]);

	e = x_cast(m, s->r->d, e);
	return t_tensor(m, 2, axes, valid ? x_select(m, valid, e, x_read(m, old, axes)) : e);
}

static void
state_axes(Rnn *r, Node **axes)
{
	axes[0] = x_axis(r->b->m, r->B);
	axes[1] = x_axis(r->b->m, r->H);
}

static Node *
peephole(Step *s, int gate, Node *h, Node *c, Node *e)
{
	Module *m = s->r->b->m;
	Node *idx[2];

	if (!s->r->p)
		return e;
	idx[0] = x_idx(m, s->dir);
	idx[1] = gate_element(s, gate, h);
	return x_add(m, e, x_mul(m, acc_read(s, s->r->p, idx), c));
}

/* Gates in the order i, o, f, c. */
void
lstm_cell(Step *s)
{
	Rnn *r = s->r;
	Module *m = r->b->m;
	Node *ax[2], *c, *i, *f, *g, *o;

	state_axes(r, ax);
	c = acc_read(s, s->c, ax);
	i = act(s, 0, peephole(s, 0, ax[1], c, gate_sum(s, 0, ax[0], ax[1])));
	if (attr_int(r->b, "input_forget"))
		f = x_sub(m, x_int(m, r->acc, 1), i);
	else
		f = act(s, 0, peephole(s, 2, ax[1], c, gate_sum(s, 2, ax[0], ax[1])));
	g = act(s, 1, gate_sum(s, 3, ax[0], ax[1]));
	s->new_c = state_tensor(s, ax, x_add(m, x_mul(m, f, c), x_mul(m, i, g)), s->c);
	state_axes(r, ax);
	c = acc_read(s, s->new_c, ax);
	o = act(s, 0, peephole(s, 1, ax[1], c, gate_sum(s, 1, ax[0], ax[1])));
	s->new_h = state_tensor(s, ax, x_mul(m, o, act(s, 2, c)), s->h);
}

/* What the state gives to the hidden gate: (r * h) R, or r * (h R + bias). */
static Node *
hidden_state(Step *s, Node *const *ax)
{
	Rnn *r = s->r;
	Module *m = r->b->m;
	Node *ra[2], *e, *t, *bias, *idx[2];

	if (r->reset_first) {
		e = gate_state(s, 2, ax[0], ax[1]);
		idx[0] = x_idx(m, s->dir);
		idx[1] = x_add(m, x_muli(m, r->H, 5), ax[1]);
		bias = r->bias ? acc_read(s, r->bias, idx) : NULL;
		return x_mul(m, act(s, 0, gate_sum(s, 1, ax[0], ax[1])), bias ? x_add(m, e, bias) : e);
	}
	state_axes(r, ra);
	e = x_mul(m, act(s, 0, gate_sum(s, 1, ra[0], ra[1])), acc_read(s, s->h, ra));
	e = x_cast(m, r->d, e);
	if (r->lens)                             /* past the end there is no input to read */
		e = x_select(m, step_valid(s, ra[0]), e, x_int(m, r->d, 0));
	t = state_product(r, s->dir, t_tensor(m, 2, ra, e), 2, 1);
	return x_read(m, t, ax);
}

/* Gates in the order z, r, h. */
static void
gru_cell(Step *s)
{
	Rnn *r = s->r;
	Module *m = r->b->m;
	Node *ax[2], *z, *h, *old;

	state_axes(r, ax);
	old = acc_read(s, s->h, ax);
	z = act(s, 0, gate_sum(s, 0, ax[0], ax[1]));
	h = act(s, 1, x_add(m, gate_input(s, 2, ax[0], ax[1]), hidden_state(s, ax)));
	h = x_add(m, x_mul(m, x_sub(m, x_int(m, r->acc, 1), z), h), x_mul(m, z, old));
	s->new_h = state_tensor(s, ax, h, s->h);
}

static void
rnn_cell(Step *s)
{
	Node *ax[2];

	state_axes(s->r, ax);
	s->new_h = state_tensor(s, ax, act(s, 0, gate_sum(s, 0, ax[0], ax[1])), s->h);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* [B, H]: direction dir of an initial state; zeros without one. */
static Node *
initial(Rnn *r, int dir, Node *given)
{
	Module *m = r->b->m;
	Node *ax[2], *idx[3];

	state_axes(r, ax);
	idx[0] = r->batch_first ? ax[0] : x_idx(m, dir);
	idx[1] = r->batch_first ? x_idx(m, dir) : ax[0];
	idx[2] = ax[1];
	return t_tensor(m, 2, ax, given ? x_read(m, given, idx) : x_int(m, r->d, 0));
}

/* The states after a step, as they stand in Y: 0 past the end. */
static Node *
step_output(Step *s)
{
	Module *m = s->r->b->m;
	Node *ax[2], *e, *valid;

	state_axes(s->r, ax);
	e = x_read(m, s->new_h, ax);
	valid = step_valid(s, ax[0]);
	return t_tensor(m, 2, ax, valid ? x_select(m, valid, e, x_int(m, s->r->d, 0)) : e);
}

/* A carried state of the body, which begins as `init`. */
static Node *
carried(Rnn *r, Region *body, Node **init, const char *name, Node *begin)
{
	Node *p = t_param(r->b->m, name, begin->type, body->nparams);

	init[body->nparams - 1] = begin;
	return body->params[body->nparams++] = p;
}

/* One direction: a tuple of the last h, (the last c, other states,) and the
 * stacked steps [T, B, H] in the loop's order. */
static Node *
direction(Rnn *r, int dir, bool cell_state)
{
	Module *m = r->b->m;
	Step s = {.r = r, .dir = dir};
	Region *body = region_new(m, "step");
	Node *init[3];

	s.input = r->input(r, dir);
	body->params = NEWN(m, Node *, 4);
	body->params[body->nparams++] = s.trip =
		t_param(m, "round", ty_tensor(m, DT_I64, 0, NULL), 0);
	s.h = carried(r, body, init, "h", initial(r, dir, r->h0));
	if (cell_state)
		s.c = carried(r, body, init, "c", initial(r, dir, r->c0));
	if (r->more)
		s.more = carried(r, body, init, "more", r->more(r, dir));
	s.state = r->state(&s);
	r->cell(&s);
	region_add(m, body, t_scalar(m, DT_BOOL, (Num){.i = 1}));
	region_add(m, body, s.new_h);
	if (cell_state)
		region_add(m, body, s.new_c);
	if (r->more)
		region_add(m, body, r->more_next(&s));
	region_add(m, body, step_output(&s));
	return loop_build(r->b, t_scalar_expr(m, DT_I64, r->T), NULL, body->nparams - 1, init, body);
}

/* The element at time t of direction dir. */
static Node *
stacked_read(Rnn *r, int dir, Node *y, Node *t, Node *b, Node *h)
{
	Module *m = r->b->m;
	Node *idx[3] = {t, b, h}, *len = rnn_length(r, b), *e;

	if (!goes_back(r, dir))
		return x_read(m, y, idx);
	idx[0] = x_sub(m, x_addi(m, len, -1), t);
	e = x_read(m, y, idx);
	return r->lens ? x_select(m, x_lt(m, t, len), e, x_int(m, r->d, 0)) : e;
}

Node *
rnn_build(Rnn *r, bool cell_state)
{
	Module *m = r->b->m;
	Node *loop[2], *out[3], *ax[4], *e[2], *at[2];
	int dir, k, n = cell_state ? 2 : 1;

	for (dir = 0; dir < r->dirs; dir++)
		if (!(loop[dir] = direction(r, dir, cell_state)))
			return NULL;
	for (k = 0; k < n; k++) {
		ax[r->batch_first ? 1 : 0] = x_axis(m, x_idx(m, r->dirs));
		ax[r->batch_first ? 0 : 1] = at[0] = x_axis(m, r->B);
		ax[2] = at[1] = x_axis(m, r->H);
		for (dir = 0; dir < r->dirs; dir++)
			e[dir] = x_read(m, t_result(m, loop[dir], k), at);
		if (r->dirs == 2)
			e[0] = x_select(m, x_eq(m, ax[r->batch_first ? 1 : 0], x_idx(m, 0)), e[0], e[1]);
		out[1 + k] = t_tensor(m, 3, ax, e[0]);
	}
	Node *t = x_axis(m, r->T), *d = x_axis(m, x_idx(m, r->dirs)), *b = x_axis(m, r->B),
		*h = x_axis(m, r->H);
	ax[0] = r->batch_first ? b : t;
	ax[1] = r->batch_first ? t : d;
	ax[2] = r->batch_first ? d : b;
	ax[3] = h;
	for (dir = 0; dir < r->dirs; dir++)
		e[dir] = stacked_read(r, dir, t_result(m, loop[dir], loop[dir]->type->rank - 1), t, b, h);
	out[0] = t_tensor(m, 4, ax,
		r->dirs == 2 ? x_select(m, x_eq(m, d, x_idx(m, 0)), e[0], e[1]) : e[0]);
	return t_tuple(m, 1 + n, out);
}

/* W, R, and then what rnn_args checks. */
bool
rnn_float_args(Build *b, Rnn *r, int gates, int nact, const char *const *defaults, Node *wider)
{
	Module *m = b->m;
	Node *gh;

	r->x = b->in[0];
	r->w = b->in[1];
	r->r = b->in[2];
	r->bias = b->in[3];
	r->lens = b->in[4];
	r->h0 = b->in[5];
	r->input = float_input;
	r->state = rnn_float_state;
	if (rank_of(r->r) != 3)
		return fail(b, "R has %d dimensions, must have 3", rank_of(r->r)) != NULL;
	r->H = dim_of(r->r, 2);
	if (!rnn_args(b, r, gates, nact, defaults))
		return false;
	gh = x_muli(m, r->H, gates);
	Node *w[3] = {x_idx(m, r->dirs), gh, x_add(m, r->I, wider)},
		*rr[3] = {x_idx(m, r->dirs), gh, r->H};
	return expect_dims(b, r->w, "W", 3, w) && expect_dims(b, r->r, "R", 3, rr);
}

static Node *
build_lstm(Build *b)
{
	static const char *const defaults[] = {"Sigmoid", "Tanh", "Tanh"};
	Rnn r = {.c0 = b->in[6], .p = b->in[7], .cell = lstm_cell};

	return rnn_float_args(b, &r, 4, 3, defaults, x_idx(b->m, 0)) ? rnn_build(&r, true) : NULL;
}

static Node *
build_gru(Build *b)
{
	static const char *const defaults[] = {"Sigmoid", "Tanh"};
	Rnn r = {.cell = gru_cell, .reset_first = attr_int(b, "linear_before_reset") != 0};

	return rnn_float_args(b, &r, 3, 2, defaults, x_idx(b->m, 0)) ? rnn_build(&r, false) : NULL;
}

static Node *
build_rnn(Build *b)
{
	static const char *const defaults[] = {"Tanh"};
	Rnn r = {.cell = rnn_cell};

	return rnn_float_args(b, &r, 1, 1, defaults, x_idx(b->m, 0)) ? rnn_build(&r, false) : NULL;
}

#define RNN_IN "(x: float, w: x, r: x, bias: x?, sequence_lens: i32?, initial_h: x?"
#define RNN_ACT "activation_alpha: floats?, activation_beta: floats?, activations: strs?, clip: float?," \
	" direction: str = \"forward\", hidden_size: int?"

const Op ops_rnn[] = {
	STRUCT("lstm", "LSTM", 22,
		RNN_IN ", initial_c: x?, p: x?) {" RNN_ACT ", input_forget: int = 0, layout: int = 0}"
		" -> y?, y_h?, y_c?", build_lstm, "long short-term memory"),
	STRUCT("gru", "GRU", 22,
	RNN_IN ") {" RNN_ACT ", layout: int = 0, linear_before_reset: int = 0} -> y?, y_h?",
		build_gru, "gated recurrent units"),
	STRUCT("rnn", "RNN", 22, RNN_IN ") {" RNN_ACT ", layout: int = 0} -> y?, y_h?", build_rnn,
		"a recurrent layer"),
	{0}
};
