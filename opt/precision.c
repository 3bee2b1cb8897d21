/*
 * precision: with the user's leave (--precision) the f32 operands of contractions are rounded to a
 * narrower float; sums stay f32. For a half type T
 *
 *	sum a * b  ->  sum f32(a') * f32(b'),  a' = T(a), b' = T(b) tensors of their own
 *
 * so that what makes a, or what a only moves, writes T, constants are stored as T, and schedules find products of T. tf32
 * has no storage of its own: its operands are rounded where they are read. What is summed without
 * reuse (depthwise convolutions, pooling, norms) gains nothing and stays f32. What else reads a (a
 * residual sum) reads a' too, so that a is stored once; the ledger says so. An input of the program
 * that could not be copied by pieces of 16 bytes anyway is rounded as it is read, which saves a launch.
 *
 * A CPU without matrix units of T multiplies floats no faster for their being rounded; what it gains
 * is memory traffic. There only weights are stored as T, of products whose time is that of bringing
 * the weights: those that fewer rows share than the machine multiplies while it waits for one. The
 * other operand is not rounded; all other products stay as they are, and the ledger says so.
 *
 * A CPU with a matrix unit of T (Intel AMX) has operands rounded like a GPU's, for products with rows and
 * depth enough to fill its tiles (unit.c); the others, those of attention among them, fare as without.
 *
 * Class approx: listed in the precision ledger. Each operand is off by half a unit in its last
 * place; the error told is that of a sum whose terms do not cancel.
 *
 * Needs the tensor level before producers are inlined; leaves the same level.
 */
#include <math.h>
#include <stdlib.h>
#include "sched.h"

/* steps from constants; rows that there are likely to be where they are not known and may be few; of weights
 * that one row is worth rounding for */
enum { MAX_STEPS = 8, MAX_LIKELY = 64, MIN_BYTES = 1 << 14 };
enum { PIECE = 8 };     /* elements of T that are copied as one, 16 bytes */

/* In the order of Precision: the type that operands are rounded to, and the bits of its fraction. */
static const struct { DType type; int bits; } kinds[] = {
	[PREC_MODEL] = {DT_NONE, 23},
	[PREC_TF32] = {DT_F32, 10},
	[PREC_BF16] = {DT_BF16, 7},
	[PREC_F16] = {DT_F16, 10},
};

/* Why a product on a CPU stays as it is. */
enum { NO_UNIT, COMPUTED, SMALL, N_REASONS };
static const char *const reasons[N_REASONS] = {
	[NO_UNIT] = "memory does not bound them, and vectors of this CPU multiply floats as fast",
	[COMPUTED] = "both their factors are computed, and multiplied in many parts",
	[SMALL] = "they have too few rows or too short sums for the matrix unit's tiles",
};

typedef struct Lowering {
	Module *m;
	DType to;
	Node *tensor;          /* whose reductions are seen */
	int lowered, kept;     /* its sums of products of floats, narrowed or not */
	bool rounded;          /* of a narrowed one both operands */
	const Mma *unit;       /* of a CPU that multiplies T, or NULL */
	int reason;            /* for keeping the last one */
	Vec stay[N_REASONS];   /* Loc of what is kept */
	const Loc *loc;
	Map narrow;            /* tensor -> the same rounded; */
	Map of;                /* the other way round */
	Map readers;           /* tensor -> Readers, before the pass */
} Lowering;

typedef struct Readers {
	int all, rounding;     /* bodies that read it; that want it rounded */
	bool kept;             /* read otherwise than by a body */
} Readers;

static Node *narrowed(Lowering *, Node *t);

/* A read of a rounded tensor, as f32? */
static bool
is_rounded(const Lowering *l, const Node *e)
{
	return e->code == O_CAST && e->type->dtype == DT_F32 && e->in[0]->code == O_READ
		&& map_get(&l->of, e->in[0]->in[0]);
}

/* e as l->to if it only moves elements, and zeros, from elsewhere: they are rounded there. NULL: it
 * computes. */
static Node *
moved(Lowering *l, Node *e)
{
	Module *m = l->m;
	Node *a, *b;

	if (e->code == O_NUM)
		return x_cast(m, l->to, e);
	if (is_rounded(l, e))
		return e->in[0];
	if (e->code == O_READ && e->type->dtype == DT_F32)
		return x_read(m, narrowed(l, e->in[0]), e->in + 1);
	if (e->code != O_SELECT)
		return NULL;
	a = moved(l, e->in[1]);
	b = a ? moved(l, e->in[2]) : NULL;
	return b ? x_select(m, e->in[0], a, b) : NULL;
}

static Node *
narrowed(Lowering *l, Node *t)
{
	Module *m = l->m;
	Node *axes[MAX_RANK], *r = map_get(&l->narrow, t), *e = NULL;
	Map map = {0};
	int i;

	if (r)
		return r;
	axes_new(m, rank_of(t), t->type->dims, axes);
	if (t->code == O_TENSOR && t->in[t->nin - 1]->code != O_NUM && (e = moved(l, t->in[t->nin - 1]))) {
		for (i = 0; i < rank_of(t); i++)
			map_put(&map, t->in[i], axes[i]);
		e = subst(m, e, &map, false);
		map_free(&map);
	}
	r = t_tensor(m, rank_of(t), axes, e ? e : x_cast(m, l->to, x_read(m, t, axes)));
	r->loc = t->loc ? t->loc : l->loc;
	map_put(&l->narrow, t, r);
	map_put(&l->of, r, t);
	return r;
}

static bool
is_input(const Module *m, const Node *t)
{
	int i;

	for (i = 0; i < m->main->nparams; i++)
		if (m->main->params[i] == t)
			return true;
	return false;
}

/* The read of what is padded or only moved; NULL: it is computed. */
static Node *
source_of(Module *m, Node *read)
{
	Node *e, *t = read->in[0];

	while (t->code == O_TENSOR) {
		e = element_of(m, t, read->in + 1);
		read = e->code == O_SELECT && e->in[2]->code == O_NUM ? e->in[1] : e;
		if (read->code != O_READ)
			return NULL;
		t = read->in[0];
	}
	return read;
}

/* Do elements lie in whole pieces along the axis, whatever the layout? Unknown is yes. */
static bool
has_pieces(Module *m, const Node *read, Node *axis)
{
	Node *coef, *rest;
	int i;

	for (i = 1; i < read->nin; i++)
		if (contains(read->in[i], axis) && (!linear_in(m, read->in[i], axis, &coef, &rest)
		 || (is_intv(coef, 1) && divisible(rest, PIECE) && divisible(axis->in[0], PIECE))))
			return true;
	return false;
}

/* Is the factor read from an input, and has no pieces? */
static bool
scattered_input(const Lowering *l, const Node *red, Node *read)
{
	int i;

	if (!(read = source_of(l->m, read)) || !is_input(l->m, read->in[0]))
		return false;
	for (i = 0; i + 1 < red->nin; i++)
		if (has_pieces(l->m, read, red->in[i]))
			return false;
	for (i = 0; i + 1 < l->tensor->nin; i++)
		if (has_pieces(l->m, read, l->tensor->in[i]))
			return false;
	return true;
}

/* The factor with its read rounded; NULL: it is none of f32. */
static Node *
lowered_factor(Lowering *l, Node *red, Node *e)
{
	Module *m = l->m;

	if (is_rounded(l, e))
		return e;
	if (e->code != O_READ || e->type->dtype != DT_F32)
		return NULL;
	if (l->to == DT_F32)
		return x1(m, O_TF32, e);
	if (m->machine->kind != M_CPU && scattered_input(l, red, e))
		return x_cast(m, DT_F32, x_cast(m, l->to, e));
	return x_cast(m, DT_F32, x_read(m, narrowed(l, e->in[0]), e->in + 1));
}

/* Is it made of constants, the largest of them no narrower than T already? */
static bool
wide_constants(const Node *t, int steps)
{
	Node **list;
	int i, n;
	bool ok = true;

	if (definition((Node *)t)->code == O_CONST)
		return dtype_of(t) == DT_F32;
	if (t->code != O_TENSOR || steps == 0)
		return false;
	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n && ok; i++)
		ok = list[i]->code != O_READ || wide_constants(list[i]->in[0], steps - 1);
	free(list);
	return ok;
}

/* Beyond so many rows that share a weight, multiplying takes longer than bringing it. */
static double
rows_bound(const Machine *t)
{
	double gflops = 2.0 * machine_lanes(t, DT_F32) * (t->fma_ports ? t->fma_ports : 1) * t->ghz;

	return t->gbs > 0 ? 2 * gflops / t->gbs : 0;
}

/* Bytes of the weights that the factor reads; 0 if it reads something else. */
static int64_t
weight_bytes(const Node *factor)
{
	int64_t size = 4, dims[MAX_RANK];
	int i;

	if (factor->code != O_READ || factor->type->dtype != DT_F32
	 || !wide_constants(factor->in[0], MAX_STEPS) || !const_dims(factor->in[0], dims))
		return 0;
	for (i = 0; i < rank_of(factor->in[0]); i++)
		size = sat_mul(size, dims[i]);
	return size;
}

/* Does the kernel wait for the weights that the factor reads? Rows that are not known are few. */
static bool
waits_for(const Lowering *l, const Node *factor)
{
	const Machine *mach = l->m->machine;
	int64_t size = weight_bytes(factor), rows = 1, v;
	bool known = true;
	int i;

	for (i = 0; i + 1 < l->tensor->nin; i++)
		if (!contains(factor, l->tensor->in[i])) {
			known &= is_int(l->tensor->in[i]->in[0], &v);
			rows = sat_mul(rows, likely_extent(l->m, l->tensor->in[i]->in[0]));
		}
	return size > mach->l1 && (double)rows <= (known ? rows_bound(mach) : MAX_LIKELY);
}

static Node *
lowered_weights(Module *m, Node *red, void *ctx)
{
	Lowering *l = ctx;
	Node *mul = red->in[red->nin - 1];
	int i;

	if (red->n != COMB_SUM || red->type->dtype != DT_F32 || mul->code != O_MUL)
		return NULL;
	for (i = 0; i < 2 && l->to != DT_F32; i++)
		if (waits_for(l, mul->in[i])) {
			l->lowered++;
			return x_reduce(m, COMB_SUM, red->nin - 1, red->in,
				x_mul(m, lowered_factor(l, red, mul->in[i]), mul->in[!i]));
		}
	if (mul->in[0]->code == O_READ && mul->in[1]->code == O_READ
	 && contraction_reuse(m->machine, l->tensor, red)) {
		l->kept++;
		vec_push(m, &l->stay[l->reason], (void *)l->loc);
	}
	return NULL;
}

/* Do both factors' reads move by one with the axis, in one dimension each? */
static bool
moves_alike(Module *m, const Node *mul, Node *axis)
{
	Node *coef, *rest, *read;
	int i, k, n;

	for (i = 0; i < 2; i++) {
		read = mul->in[i];
		for (k = 1, n = 0; k < read->nin; k++)
			if (contains(read->in[k], axis))
				n += linear_in(m, read->in[k], axis, &coef, &rest) && is_intv(coef, 1) ? 1 : 2;
		if (n != 1)
			return false;
	}
	return true;
}

/* Is the sum over an axis along which both factors have words to fill a unit's tiles, for rows
 * enough? Not where both have an axis of the result as well (attention): many products, of which each
 * would pack its own factor. */
static bool
fills_tiles(Lowering *l, Node *red, const Mma *x)
{
	Node *mul = red->in[red->nin - 1], *axis;
	double rows[2] = {1, 1};                 /* that share a column of the factor */
	int64_t size, depth = 0;
	int i, k;
	bool closed = false, apart = true, in[2];

	for (i = 0; i + 1 < red->nin; i++)       /* dot4.c takes the longest */
		if (is_int(red->in[i]->in[0], &size) && size > depth && moves_alike(l->m, mul, red->in[i]))
			depth = size;
	for (i = 0; i + 1 < l->tensor->nin; i++) {
		axis = l->tensor->in[i];
		for (k = 0; k < 2; k++)
			if (!(in[k] = contains(mul->in[k], axis)))
				rows[k] *= (double)likely_extent(l->m, axis->in[0]);
		apart &= !in[0] || !in[1] || is_intv(axis->in[0], 1);
	}
	for (k = 0; k < 2 && !closed; k++)
		if (wide_constants(mul->in[k]->in[0], MAX_STEPS)) {
			closed = true;
			rows[!k] = rows[k];
		}
	l->reason = closed || apart ? SMALL : COMPUTED;
	return depth > 0 && apart && unit_pays(l->m->machine, x, fmin(rows[0], rows[1]),
		(depth * dtypes[x->type].bits + 31) / 32);
}

/* Is the factor the same for all of the tensor: one row, which meets weights? */
static bool
is_one_row(const Lowering *l, const Node *factor)
{
	int i;

	for (i = 0; i + 1 < l->tensor->nin; i++)
		if (!is_intv(l->tensor->in[i]->in[0], 1) && contains(factor, l->tensor->in[i]))
			return false;
	return true;
}

/* The sum for one row: memory gives its time, so weights alone are rounded. */
static Node *
lowered_row(Lowering *l, Node *red)
{
	Node *mul = red->in[red->nin - 1];
	int i;

	for (i = 0; i < 2 && l->to != DT_F32; i++)
		if (weight_bytes(mul->in[i]) >= MIN_BYTES && is_one_row(l, mul->in[!i])) {
			l->lowered++;
			return x_reduce(l->m, COMB_SUM, red->nin - 1, red->in,
				x_mul(l->m, lowered_factor(l, red, mul->in[i]), mul->in[!i]));
		}
	return NULL;
}

static Node *
lowered_sum(Module *m, Node *red, void *ctx)
{
	Lowering *l = ctx;
	Node *mul = red->in[red->nin - 1], *a, *b;

	if (red->n != COMB_SUM || red->type->dtype != DT_F32 || mul->code != O_MUL)
		return NULL;
	if (!contraction_reuse(m->machine, l->tensor, red))
		return m->machine->kind == M_CPU ? NULL : lowered_row(l, red);
	if (m->machine->kind == M_CPU && (mul->in[0]->code != O_READ || mul->in[1]->code != O_READ
		|| !fills_tiles(l, red, l->unit)))
		return NULL;
	a = lowered_factor(l, red, mul->in[0]);
	b = a ? lowered_factor(l, red, mul->in[1]) : NULL;
	l->lowered += b != NULL;
	return b ? x_reduce(m, COMB_SUM, red->nin - 1, red->in, x_mul(m, a, b)) : NULL;
}

/* On a CPU: for its matrix unit, or else the weights alone. */
static Node *
lowered_cpu(Module *m, Node *red, void *ctx)
{
	Lowering *l = ctx;
	Node *r;

	l->reason = l->unit ? SMALL : NO_UNIT;
	r = l->unit ? lowered_sum(m, red, ctx) : NULL;
	l->rounded |= r != NULL;
	return r ? r : lowered_weights(m, red, ctx);
}

/* Is t stored rounded, for all that reads it? */
static bool
is_shared(const Lowering *l, const Node *t)
{
	const Readers *r = map_get(&l->readers, t);

	return r && r->rounding && r->rounding < r->all && !r->kept;
}

static Node *
lowered_node(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Lowering *l = ctx;
	Node *r;
	bool units = m->machine->kind != M_CPU;

	if (n->code == O_READ && is_shared(l, n->in[0]) && in[0]->code == O_TENSOR) {
		l->loc = in[0]->loc;
		return x_cast(m, DT_F32, x_read(m, narrowed(l, in[0]), in + 1));
	}
	if (n->code != O_TENSOR || (l->tensor = rebuild_node(m, n, in, done))->code != O_TENSOR)
		return NULL;
	l->loc = n->loc;
	l->lowered = l->kept = 0;
	l->rounded = units;
	r = replace_reductions(m, l->tensor, units ? lowered_sum : lowered_cpu, l);
	r->loc = n->loc;
	if (l->lowered)
		ledger_add(m, arena_printf(m->arena, "%s_%s", l->rounded ? "operands" : "weights",
			precision_names[m->precision]), "approx", ldexp(1, -kinds[m->precision].bits), n->loc);
	if (l->kept)
		ledger_add(m, "stays_f32", "exact", 0, n->loc);
	if (is_shared(l, n))
		ledger_add(m, arena_printf(m->arena, "stored_%s", precision_names[m->precision]), "approx",
			ldexp(1, -kinds[m->precision].bits), n->loc);
	return r;
}

/* ---- what is read by others too ---------------------------------------------------------------- */

static Readers *
readers_of(Lowering *l, const Node *t)
{
	Readers *r = map_get(&l->readers, t);

	if (!r)
		map_put(&l->readers, t, r = NEW(l->m, Readers));
	return r;
}

/* Do all its elements come from elsewhere as they are? */
static bool
only_moves(const Node *e)
{
	if (e->code == O_SELECT)
		return only_moves(e->in[1]) && only_moves(e->in[2]);
	return e->code == O_NUM || (e->code == O_READ && e->type->dtype == DT_F32);
}

/* The body's reads: how many tensors' it has, and which of them will be rounded for its sums. */
static void
count_reads(Lowering *l, const Node *t)
{
	Node **list, *mul, *body = t->in[t->nin - 1];
	int i, k, n;
	bool moves = t->code == O_TENSOR && body->code != O_NUM && only_moves(body) && readers_of(l, t)->rounding;

	list = topo_scalar(body, &n);
	for (i = 0; i < n; i++) {
		if (list[i]->code == O_READ) {
			readers_of(l, list[i]->in[0])->all++;
			readers_of(l, list[i]->in[0])->rounding += moves;
		}
		if (t->code != O_TENSOR || list[i]->code != O_REDUCE || list[i]->n != COMB_SUM
		 || list[i]->type->dtype != DT_F32 || (mul = list[i]->in[list[i]->nin - 1])->code != O_MUL
		 || !contraction_reuse(l->m->machine, (Node *)t, list[i]))
			continue;
		for (k = 0; k < 2; k++)
			if (mul->in[k]->code == O_READ && mul->in[k]->type->dtype == DT_F32
			 && mul->in[!k]->code == O_READ && mul->in[!k]->type->dtype == DT_F32)
				readers_of(l, mul->in[k]->in[0])->rounding++;
	}
	free(list);
}

/* Finds who reads each computed tensor, readers before what they read. */
static void
count_readers(Lowering *l)
{
	Module *m = l->m;
	Node **list, *t;
	int i, k, n;

	list = topo(m->main->results, m->main->nresults, false, &n);
	for (i = n; i-- > 0;) {
		t = list[i];
		if (t->code == O_TENSOR)
			count_reads(l, t);
		else
			for (k = 0; t->type->kind != T_SCALAR && k < t->nin; k++)
				if (t->in[k])
					readers_of(l, t->in[k])->kept = true;
		for (k = 0; k < t->nregions; k++)
			for (int j = 0; j < t->regions[k]->nresults; j++)
				if (t->regions[k]->results[j])
					readers_of(l, t->regions[k]->results[j])->kept = true;
		if (t->code != O_TENSOR || wide_constants(t, MAX_STEPS))
			readers_of(l, t)->kept = true;
	}
	free(list);
	for (i = 0; i < m->main->nresults; i++)
		readers_of(l, m->main->results[i])->kept = true;
}

/* Tells of the products that stay, by reason. */
static void
tell(Lowering *l)
{
	enum { NAMED = 6 };
	const Loc *loc;
	const char *s;
	int i, k;

	for (i = 0; i < N_REASONS; i++) {
		for (s = "", k = 0; k < l->stay[i].n && k < NAMED; k++) {
			loc = l->stay[i].at[k];
			s = arena_printf(l->m->arena, "%s%s'%s'", s, k ? ", " : "", loc && loc->name ? loc->name : "?");
		}
		if (k)
			diag_note(l->m->diag, "products that stay f32: %s%s (%d), since %s", s,
				l->stay[i].n > NAMED ? ", ..." : "", l->stay[i].n, reasons[i]);
	}
}

bool
pass_precision(Module *m)
{
	Lowering l = {.m = m, .to = kinds[m->precision].type};

	if (m->machine->kind == M_CPU && l.to != DT_NONE)
		l.unit = machine_mma_tile(m->machine, l.to, l.to);
	if (m->machine->kind != M_CPU && l.to != DT_NONE && l.to != DT_F32)
		count_readers(&l);
	if (m->precision != PREC_MODEL)
		rewrite_module(m, false, lowered_node, &l);
	tell(&l);
	map_free(&l.narrow);
	map_free(&l.of);
	map_free(&l.readers);
	return true;
}
