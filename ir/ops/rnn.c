/*
 * Recurrent operators: a core loop over the time steps whose body computes the new states from the
 * old ones. What the inputs give to the gates is one contraction for all steps, before the loop.
 * Both directions take one loop, whose states have an axis for them: half the steps, and threads
 * share the directions out.
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
	r->both = both && !r->more;
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

/* ---- elements -------------------------------------------------------------------------------- */

Node *
rnn_direction(Rnn *r, int dir, Node **axes)
{
	if (!r->both)
		return x_idx(r->b->m, dir);
	return axes[0] = x_axis(r->b->m, x_idx(r->b->m, 2));
}

Cell
rnn_cell(Rnn *r, int dir, Node *units)
{
	Cell e = {.n = 2 + r->both};

	e.d = rnn_direction(r, dir, e.ax);
	e.b = e.ax[r->both] = x_axis(r->b->m, r->B);
	e.h = e.ax[r->both + 1] = x_axis(r->b->m, units);
	return e;
}

static Cell
state_cell(const Step *s)
{
	return rnn_cell(s->r, s->dir, s->r->H);
}

Node *
rnn_read(Rnn *r, Node *t, const Cell *e, Node *unit)
{
	Node *idx[3] = {e->ax[0], e->ax[1], e->ax[2]};

	idx[e->n - 1] = unit;
	return x_read(r->b->m, t, idx);
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
rnn_bias(Rnn *r, Node *d, Node *n)
{
	Module *m = r->b->m;
	Node *gh = x_muli(m, r->H, r->gates), *idx[2] = {d, n}, *w, *s;

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
	Node *all[4], **ax = all + r->both, *i = x_axis(m, r->I), *d = rnn_direction(r, dir, all), *e,
		*t,
		*bias;
	int n = 3 + r->both;

	ax[0] = x_axis(m, r->T);
	ax[1] = x_axis(m, r->B);
	ax[2] = x_axis(m, x_muli(m, r->H, r->gates));
	e = sum_of_products(m, r->acc, 1, &i, rnn_x(r, ax[0], ax[1], i),
		x_read(m, r->w, (Node *[]){d, ax[2], i}));
	t = t_tensor(m, n, all, e);
	if (!r->bias)
		return t;
	axes_new(m, n, t->type->dims, all);
	bias = rnn_bias(r, r->both ? all[0] : d, ax[2]);
	return t_tensor(m, n, all, x_add(m, x_read(m, t, all), bias));
}

/* h times a part of R, from gate `from` on. */
static Node *
state_product(Step *s, Node *h, int from, int gates)
{
	Rnn *r = s->r;
	Module *m = r->b->m;
	Cell e = rnn_cell(r, s->dir, x_muli(m, r->H, gates));
	Node *k = x_axis(m, r->H), *n = x_add(m, e.h, x_muli(m, r->H, from));

	return t_tensor(m, e.n, e.ax, sum_of_products(m, r->acc, 1, &k, rnn_read(r, h, &e, k),
		x_read(m, r->r, (Node *[]){e.d, n, k})));
}

Node *
rnn_float_state(Step *s)
{
	Rnn *r = s->r;

	/* a hidden gate that sees the state after its reset has its own product */
	return state_product(s, s->h, 0, r->gates == 3 && !r->reset_first ? 2 : r->gates);
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

/* The step that stands at place t, or the place of step t, of a sequence of batch entry b. */
static Node *
step_place(Rnn *r, int dir, Node *d, Node *t, Node *b)
{
	Module *m = r->b->m;
	Node *back = x_sub(m, x_addi(m, rnn_length(r, b), -1), t);

	if (r->both)
		return x_select(m, x_eq(m, d, x_idx(m, 0)), t, back);
	return r->reverse || dir == 1 ? back : t;
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
gate_input(Step *s, int gate, const Cell *e)
{
	Node *idx[4] = {e->d}, **at = idx + s->r->both;

	at[0] = step_place(s->r, s->dir, e->d, rnn_round(s), e->b);
	at[1] = e->b;
	at[2] = gate_element(s, gate, e->h);
	return x_read(s->r->b->m, s->input, idx);
}

static Node *
gate_state(Step *s, int gate, const Cell *e)
{
	return rnn_read(s->r, s->state, e, gate_element(s, gate, e->h));
}

static Node *
gate_sum(Step *s, int gate, const Cell *e)
{
	return x_add(s->r->b->m, gate_input(s, gate, e), gate_state(s, gate, e));
}

/* Activation f, g or h (0, 1, 2). The clip is of gates: the cell state goes to h as it is. */
static Node *
act(Step *s, int which, const Cell *e, Node *x)
{
	Rnn *r = s->r;
	Module *m = r->b->m;
	DType t = x->type->dtype;
	Act a = r->act[0][which], b = r->act[1][which];

	if (r->clips && which != 2)
		x = x_max(m, x_min(m, x, x_flt(m, t, r->clip)), x_flt(m, t, -r->clip));
	if (!r->both)
		return activate(m, s->dir ? b : a, x);
	if (a.kind == b.kind && a.alpha == b.alpha && a.beta == b.beta)
		return activate(m, a, x);
	return x_select(m, x_eq(m, e->d, x_idx(m, 0)), activate(m, a, x), activate(m, b, x));
}

static Node *
acc_read(Step *s, Node *t, Node *const *idx)
{
	return x_cast(s->r->b->m, s->r->acc, x_read(s->r->b->m, t, idx));
}

/* The new state, or the old one past the end of a sequence. */
static Node *
state_tensor(Step *s, const Cell *e, Node *x, Node *old)
{
	Module *m = s->r->b->m;
	Node *valid = step_valid(s, e->b);

	x = x_cast(m, s->r->d, x);
	return t_tensor(m, e->n, e->ax, valid ? x_select(m, valid, x, x_read(m, old, e->ax)) : x);
}

static Node *
peephole(Step *s, int gate, const Cell *e, Node *c, Node *x)
{
	Module *m = s->r->b->m;
	Node *idx[2] = {e->d, gate_element(s, gate, e->h)};

	return s->r->p ? x_add(m, x, x_mul(m, acc_read(s, s->r->p, idx), c)) : x;
}

/* Gates in the order i, o, f, c. */
void
lstm_cell(Step *s)
{
	Rnn *r = s->r;
	Module *m = r->b->m;
	Cell e = state_cell(s);
	Node *c = acc_read(s, s->c, e.ax), *i, *f, *g, *o;

	i = act(s, 0, &e, peephole(s, 0, &e, c, gate_sum(s, 0, &e)));
	if (attr_int(r->b, "input_forget"))
		f = x_sub(m, x_int(m, r->acc, 1), i);
	else
		f = act(s, 0, &e, peephole(s, 2, &e, c, gate_sum(s, 2, &e)));
	g = act(s, 1, &e, gate_sum(s, 3, &e));
	s->new_c = state_tensor(s, &e, x_add(m, x_mul(m, f, c), x_mul(m, i, g)), s->c);
	e = state_cell(s);
	c = acc_read(s, s->new_c, e.ax);
	o = act(s, 0, &e, peephole(s, 1, &e, c, gate_sum(s, 1, &e)));
	s->new_h = state_tensor(s, &e, x_mul(m, o, act(s, 2, &e, c)), s->h);
}

/* What the state gives to the hidden gate: (r * h) R, or r * (h R + bias). */
static Node *
hidden_state(Step *s, const Cell *at)
{
	Rnn *r = s->r;
	Module *m = r->b->m;
	Cell e;
	Node *x, *bias;

	if (r->reset_first) {
		x = gate_state(s, 2, at);
		bias = r->bias ? acc_read(s, r->bias,
			(Node *[]){at->d, x_add(m, x_muli(m, r->H, 5), at->h)}) : NULL;
		return x_mul(m, act(s, 0, at, gate_sum(s, 1, at)), bias ? x_add(m, x, bias) : x);
	}
	e = state_cell(s);
	x = x_mul(m, act(s, 0, &e, gate_sum(s, 1, &e)), acc_read(s, s->h, e.ax));
	x = x_cast(m, r->d, x);
	if (r->lens)                             /* past the end there is no input to read */
		x = x_select(m, step_valid(s, e.b), x, x_int(m, r->d, 0));
	return x_read(m, state_product(s, t_tensor(m, e.n, e.ax, x), 2, 1), at->ax);
}

/* Gates in the order z, r, h. */
static void
gru_cell(Step *s)
{
	Rnn *r = s->r;
	Module *m = r->b->m;
	Cell e = state_cell(s);
	Node *old = acc_read(s, s->h, e.ax), *z, *h;

	z = act(s, 0, &e, gate_sum(s, 0, &e));
	h = act(s, 1, &e, x_add(m, gate_input(s, 2, &e), hidden_state(s, &e)));
	h = x_add(m, x_mul(m, x_sub(m, x_int(m, r->acc, 1), z), h), x_mul(m, z, old));
	s->new_h = state_tensor(s, &e, h, s->h);
}

static void
plain_cell(Step *s)
{
	Cell e = state_cell(s);

	s->new_h = state_tensor(s, &e, act(s, 0, &e, gate_sum(s, 0, &e)), s->h);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* What a state begins with; zeros where it is not given. */
static Node *
initial(Step *s, Node *given)
{
	Rnn *r = s->r;
	Module *m = r->b->m;
	Cell e = state_cell(s);
	Node *idx[3] = {r->batch_first ? e.b : e.d, r->batch_first ? e.d : e.b, e.h};

	return t_tensor(m, e.n, e.ax, given ? x_read(m, given, idx) : x_int(m, r->d, 0));
}

/* The states after a step, as they stand in Y: 0 past the end. */
static Node *
step_output(Step *s)
{
	Module *m = s->r->b->m;
	Cell c = state_cell(s);
	Node *e = x_read(m, s->new_h, c.ax), *valid = step_valid(s, c.b);

	return t_tensor(m, c.n, c.ax, valid ? x_select(m, valid, e, x_int(m, s->r->d, 0)) : e);
}

/* A carried state of the body, which begins as `init`. */
static Node *
carried(Rnn *r, Region *body, Node **init, const char *name, Node *begin)
{
	Node *p = t_param(r->b->m, name, begin->type, body->nparams);

	init[body->nparams - 1] = begin;
	return body->params[body->nparams++] = p;
}

/* One direction, or both: a tuple of the last h, (the last c, other states,) and the stacked steps
 * [T, (2,) B, H] in the loop's order. */
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
	s.h = carried(r, body, init, "h", initial(&s, r->h0));
	if (cell_state)
		s.c = carried(r, body, init, "c", initial(&s, r->c0));
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

/* Of what each loop gives the element of direction d. */
static Node *
of_direction(Rnn *r, Node *d, Node *const *e)
{
	return r->dirs == 1 || r->both ? e[0]
		: x_select(r->b->m, x_eq(r->b->m, d, x_idx(r->b->m, 0)), e[0], e[1]);
}

/* A last state, [dirs, B, H]: result k of the loops. */
static Node *
last_state(Rnn *r, Node *const *loop, int k)
{
	Module *m = r->b->m;
	Node *d = x_axis(m, x_idx(m, r->dirs)), *b = x_axis(m, r->B), *h = x_axis(m, r->H), *e[2],
		*idx[3] = {d, b, h}, *ax[3] = {r->batch_first ? b : d, r->batch_first ? d : b, h};
	int i;

	for (i = 0; i < 2 && loop[i]; i++)
		e[i] = x_read(m, t_result(m, loop[i], k), idx + !r->both);
	return t_tensor(m, 3, ax, of_direction(r, d, e));
}

/* The element at place t, [dirs, B, H] of each: stacked steps of direction dir, or of both. */
static Node *
stacked_read(Rnn *r, int dir, Node *y, Node *d, Node *t, Node *b, Node *h)
{
	Module *m = r->b->m;
	Node *at = step_place(r, dir, d, t, b), *e;

	e = x_read(m, y, r->both ? (Node *[]){at, d, b, h} : (Node *[]){at, b, h});
	return r->lens && at != t ? x_select(m, x_lt(m, t, rnn_length(r, b)), e, x_int(m, r->d, 0)) : e;
}

static Node *
all_steps(Rnn *r, Node *const *loop)
{
	Module *m = r->b->m;
	Node *t = x_axis(m, r->T), *d = x_axis(m, x_idx(m, r->dirs)), *b = x_axis(m, r->B),
		*h = x_axis(m, r->H), *e[2],
		*ax[4] = {r->batch_first ? b : t, r->batch_first ? t : d, r->batch_first ? d : b, h};
	int i;

	for (i = 0; i < 2 && loop[i]; i++)
		e[i] = stacked_read(r, i, t_result(m, loop[i], loop[i]->type->rank - 1), d, t, b, h);
	return t_tensor(m, 4, ax, of_direction(r, d, e));
}

Node *
rnn_build(Rnn *r, bool cell_state)
{
	Node *loop[2] = {NULL, NULL}, *out[3];
	int i, n = cell_state ? 2 : 1;

	for (i = 0; i < (r->both ? 1 : r->dirs); i++)
		if (!(loop[i] = direction(r, i, cell_state)))
			return NULL;
	out[0] = all_steps(r, loop);
	for (i = 0; i < n; i++)
		out[1 + i] = last_state(r, loop, i);
	return t_tuple(r->b->m, 1 + n, out);
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
	Rnn r = {.cell = plain_cell};

	return rnn_float_args(b, &r, 1, 1, defaults, x_idx(b->m, 0)) ? rnn_build(&r, false) : NULL;
}

#define RNN_IN "(x: float, w: x, r: x, bias: x?, sequence_lens: i32?, initial_h: x?"
#define RNN_ACT "activation_alpha: floats?, activation_beta: floats?, activations: strs?," \
	" clip: float?," \
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
