/*
 * Scalars: the constructors simplify, so that equal expressions meet as one pointer.
 *
 * Index arithmetic is kept as polynomials with integer coefficients over atoms (axes, symbols,
 * reads, quotients ...): sums of monomials in one order. Division and remainder split off the
 * divisible monomials and vanish where the rest provably lies in [0, divisor). Bounds are proved
 * by replacing axes by their extremes (an axis of extent N lies in [0, N-1]), which needs no
 * number: i*M + j < N*M holds for i < N, j < M whatever N and M are.
 */
#include <stdlib.h>
#include <string.h>
#include "ir.h"

enum { MAX_TERMS = 40, MAX_FACTORS = 8, NAME_SIZE = 5, PROOF_DEPTH = 6 };

typedef struct Term { int64_t c; int nf; Node *f[MAX_FACTORS]; } Term;
typedef struct Poly { int n; bool bad; Term t[MAX_TERMS]; } Poly;

/* ---- ranges ----------------------------------------------------------------------------------- */

static void
dtype_range(DType d, int64_t *lo, int64_t *hi)
{
	int bits = dtypes[d].bits;

	*lo = INT64_MIN;
	*hi = INT64_MAX;
	if (d == DT_BOOL)
		*lo = 0, *hi = 1;
	else if (dtypes[d].cls == 'U' && bits < 64)
		*lo = 0, *hi = ((int64_t)1 << bits) - 1;
	else if (dtypes[d].cls == 'I' && bits < 64)
		*lo = -((int64_t)1 << (bits - 1)), *hi = ((int64_t)1 << (bits - 1)) - 1;
}

static int64_t imin(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t imax(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t
ifloordiv(int64_t a, int64_t b)
{
	int64_t q;

	if (b == 0)
		return 0;
	if (b == -1)
		return a == INT64_MIN ? a : -a;
	q = a / b;
	return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static void
mul_range(int64_t al, int64_t ah, int64_t bl, int64_t bh, int64_t *lo, int64_t *hi)
{
	int64_t v[4] = {sat_mul(al, bl), sat_mul(al, bh), sat_mul(ah, bl), sat_mul(ah, bh)};
	int i;

	*lo = *hi = v[0];
	for (i = 1; i < 4; i++)
		*lo = imin(*lo, v[i]), *hi = imax(*hi, v[i]);
}

/* The range of an operation on integers, before wrapping. */
static void
op_range(OpCode op, int nin, Node *const *in, DType d, int64_t *lo, int64_t *hi)
{
	int64_t al = in[0]->lo, ah = in[0]->hi, bl = nin > 1 ? in[1]->lo : 0, bh = nin > 1 ? in[1]->hi : 0;
	int64_t dl, dh;

	dtype_range(d, &dl, &dh);
	*lo = dl;
	*hi = dh;
	switch (op) {
	case O_ADD: *lo = sat_add(al, bl); *hi = sat_add(ah, bh); break;
	case O_SUB:
		*lo = bh == INT64_MIN ? INT64_MAX : sat_add(al, -bh);
		*hi = bl == INT64_MIN ? INT64_MAX : sat_add(ah, -bl);
		break;
	case O_MUL: mul_range(al, ah, bl, bh, lo, hi); break;
	case O_MIN: *lo = imin(al, bl); *hi = imin(ah, bh); break;
	case O_MAX: *lo = imax(al, bl); *hi = imax(ah, bh); break;
	case O_NEG:
		*lo = ah == INT64_MIN ? INT64_MAX : -ah;
		*hi = al == INT64_MIN ? INT64_MAX : -al;
		break;
	case O_ABS: *lo = al >= 0 ? al : 0; *hi = imax(ah, al == INT64_MIN ? INT64_MAX : -al); break;
	case O_FLOORDIV: case O_DIV:
		if (bl > 0 && (op == O_FLOORDIV || al >= 0)) {
			*lo = imin(ifloordiv(al, bl), ifloordiv(al, bh));
			*hi = imax(ifloordiv(ah, bl), ifloordiv(ah, bh));
		} else if (al >= 0 && bl >= 0) {
			*lo = 0;
			*hi = ah;
		}
		break;
	case O_MOD: case O_REM:
		if (bl >= 0 && (op == O_MOD || al >= 0)) {
			*lo = 0;
			*hi = bh > 0 ? bh - 1 : 0;
			if (al >= 0)
				*hi = imin(*hi, ah);
		}
		break;
	case O_AND:
		if (al >= 0 || bl >= 0) {
			*lo = 0;
			*hi = al < 0 ? bh : bl < 0 ? ah : imin(ah, bh);
		}
		break;
	case O_SELECT: *lo = imin(in[1]->lo, in[2]->lo); *hi = imax(in[1]->hi, in[2]->hi); break;
	case O_BOUND: *lo = 0; *hi = imax(bh - 1, 0); break;
	case O_CAST:
		if (dtypes[in[0]->type->dtype].cls != 'F') {
			*lo = al;
			*hi = ah;
		}
		break;
	default: break;
	}
	if (d != DT_INDEX && (*lo < dl || *hi > dh || *lo > *hi))   /* may wrap */
		*lo = dl, *hi = dh;
}

/* ---- making nodes -------------------------------------------------------------------------------- */

static Node *
raw_op(Module *m, OpCode op, int nin, Node *const *in, DType d)
{
	Node t = {.op = core_op(op), .type = ty_scalar(m, d), .nin = nin, .in = (Node **)in};

	if (dtypes[d].cls == 'F')
		t.lo = INT64_MIN, t.hi = INT64_MAX;
	else
		op_range(op, nin, in, d, &t.lo, &t.hi);
	return node_make(m, t);
}

static Node *
raw2(Module *m, OpCode op, Node *a, Node *b)
{
	Node *in[2] = {a, b};
	bool cmp = op == O_LT || op == O_LE || op == O_EQ || op == O_NE;

	return raw_op(m, op, 2, in, cmp ? DT_BOOL : a->type->dtype);
}

Node *
x_num(Module *m, DType d, Num v)
{
	Node t = {.op = core_op(O_NUM), .type = ty_scalar(m, d), .num = v};

	if (dtypes[d].cls == 'F')
		t.lo = INT64_MIN, t.hi = INT64_MAX;
	else if (d == DT_U64 && v.i < 0)
		dtype_range(d, &t.lo, &t.hi);
	else
		t.lo = t.hi = v.i;
	return node_make(m, t);
}

Node *
x_int(Module *m, DType d, int64_t v)
{
	return x_num(m, d, dt_float(d) ? num_round(d, (double)v) : num_cast(d, DT_I64, (Num){.i = v}));
}

Node *
x_flt(Module *m, DType d, double v)
{
	return x_num(m, d, dt_float(d) ? num_round(d, v) : num_cast(d, DT_F64, (Num){.f = v}));
}

Node *
x_idx(Module *m, int64_t v)
{
	return x_num(m, DT_INDEX, (Num){.i = v});
}

Node *
x_bool(Module *m, bool v)
{
	return x_num(m, DT_BOOL, (Num){.i = v});
}

Node *
x_axis(Module *m, Node *extent)
{
	Node t = {.op = core_op(O_AXIS), .type = ty_scalar(m, DT_INDEX), .nin = 1, .in = &extent,
		.n = m->nextid++, .lo = 0, .hi = imax(extent->hi == INT64_MAX ? extent->hi : extent->hi - 1, 0)};

	return node_make(m, t);
}

Node *
x_sym(Module *m, const char *name, int64_t lo, int64_t hi)
{
	Node t = {.op = core_op(O_SYM), .type = ty_scalar(m, DT_INDEX), .lo = lo, .hi = hi};

	t.name = intern(m, name ? name : arena_printf(m->arena, "s%lld", (long long)m->nextid++));
	return node_make(m, t);
}

Node *
x_named(Module *m, Node *e)
{
	Node *s;

	if (e->size <= NAME_SIZE || e->code == O_SYM)
		return e;
	s = map_get(&m->named, e);
	if (!s) {
		s = x_sym(m, NULL, e->lo, e->hi);
		s->def = e;
		map_put(&m->named, e, s);
	}
	return s;
}

Node *
x_carry(Module *m, DType d)
{
	Node t = {.op = core_op(O_CARRY), .type = ty_scalar(m, d), .n = m->nextid++};

	dtype_range(d, &t.lo, &t.hi);
	return node_make(m, t);
}

bool
is_int(const Node *e, int64_t *v)
{
	if (!e || e->code != O_NUM || dtypes[e->type->dtype].cls == 'F')
		return false;
	*v = e->num.i;
	return true;
}

bool
is_intv(const Node *e, int64_t v)
{
	int64_t x;

	return is_int(e, &x) && x == v;
}

static bool
is_flt(const Node *e, double v)
{
	return e->code == O_NUM && dt_float(e->type->dtype) && memcmp(&e->num.f, &v, sizeof v) == 0;
}

/* ---- polynomials ----------------------------------------------------------------------------------- */

/*
 * An order of expressions that does not depend on when they were made, as far as their leaves
 * allow: text that is read back gives the same canonical forms.
 */
static int
cmp_node(const Node *a, const Node *b, int depth)
{
	int i, c = 0;

	if (a == b)
		return 0;
	if (a->code != b->code)
		return a->code < b->code ? -1 : 1;
	if (a->code == O_NUM && a->type == b->type && a->num.i != b->num.i)
		return a->num.i < b->num.i ? -1 : 1;
	if (a->code == O_SYM)
		return strcmp(a->name, b->name);
	if (depth == 0 || a->nin != b->nin || a->nin == 0 || a->code == O_AXIS || a->type->kind != T_SCALAR)
		return a->id < b->id ? -1 : 1;
	for (i = 0; i < a->nin && c == 0; i++)
		c = cmp_node(a->in[i], b->in[i], depth - 1);
	return c ? c : a->id < b->id ? -1 : 1;
}

static bool
before(const Node *a, const Node *b)
{
	return cmp_node(a, b, 8) <= 0;
}

static int
cmp_mono(const Term *a, const Term *b)
{
	int i;

	if (a->nf != b->nf)
		return b->nf - a->nf;               /* higher degree first */
	for (i = 0; i < a->nf; i++)
		if (a->f[i] != b->f[i])
			return cmp_node(a->f[i], b->f[i], 8);
	return 0;
}

static void
poly_add_term(Poly *p, const Term *t, int64_t scale)
{
	int64_t c = sat_mul(t->c, scale);
	int lo, k = -1;

	if (c == 0)
		return;
	if (c == INT64_MAX || c == INT64_MIN) {
		p->bad = true;
		return;
	}
	for (lo = 0; lo < p->n && (k = cmp_mono(&p->t[lo], t)) < 0; lo++)
		;
	if (lo < p->n && k == 0) {
		p->t[lo].c = sat_add(p->t[lo].c, c);
		if (p->t[lo].c == INT64_MAX || p->t[lo].c == INT64_MIN)
			p->bad = true;
		if (p->t[lo].c == 0)
			memmove(&p->t[lo], &p->t[lo + 1], sizeof(Term) * (size_t)(--p->n - lo));
		return;
	}
	if (p->n == MAX_TERMS) {
		p->bad = true;
		return;
	}
	memmove(&p->t[lo + 1], &p->t[lo], sizeof(Term) * (size_t)(p->n++ - lo));
	p->t[lo] = *t;
	p->t[lo].c = c;
}

static void
poly_add(Poly *p, const Poly *q, int64_t scale)
{
	int i;

	p->bad |= q->bad;
	for (i = 0; i < q->n && !p->bad; i++)
		poly_add_term(p, &q->t[i], scale);
}

static bool
term_mul(Term *r, const Term *a, const Term *b)
{
	int i = 0, j = 0;

	r->nf = 0;
	if (a->nf + b->nf > MAX_FACTORS || !mul_ok(a->c, b->c, &r->c))
		return false;
	while (i < a->nf || j < b->nf)
		if (j == b->nf || (i < a->nf && before(a->f[i], b->f[j])))
			r->f[r->nf++] = a->f[i++];
		else
			r->f[r->nf++] = b->f[j++];
	return true;
}

static void
poly_mul(Poly *r, const Poly *a, const Poly *b)
{
	Term t;
	int i, j;

	r->n = 0;
	r->bad = a->bad || b->bad || a->n * b->n > 2 * MAX_TERMS;
	for (i = 0; i < a->n && !r->bad; i++)
		for (j = 0; j < b->n && !r->bad; j++)
			if (term_mul(&t, &a->t[i], &b->t[j]))
				poly_add_term(r, &t, 1);
			else
				r->bad = true;
}

static void
poly_of(Poly *p, Node *e)
{
	Poly *a, *b;

	p->n = 0;
	p->bad = false;
	switch (e->code) {
	case O_NUM:
		poly_add_term(p, &(Term){.c = e->num.i}, 1);
		return;
	case O_ADD: case O_SUB:
		poly_of(p, e->in[0]);
		b = malloc(sizeof *b);
		poly_of(b, e->in[1]);
		poly_add(p, b, e->code == O_ADD ? 1 : -1);
		free(b);
		return;
	case O_MUL:
		a = malloc(2 * sizeof *a);
		poly_of(a, e->in[0]);
		poly_of(a + 1, e->in[1]);
		poly_mul(p, a, a + 1);
		free(a);
		if (!p->bad)
			return;
		p->n = 0;                            /* too large: opaque */
		p->bad = false;
		break;
	default:
		break;
	}
	poly_add_term(p, &(Term){.c = 1, .nf = 1, .f = {e}}, 1);
}

static Node *
term_node(Module *m, const Term *t, int64_t c)
{
	Node *e = NULL;
	int i;

	if (t->nf == 0)
		return x_idx(m, c);
	for (i = 0; i < t->nf; i++)
		e = e ? raw2(m, O_MUL, e, t->f[i]) : t->f[i];
	return c == 1 ? e : raw2(m, O_MUL, e, x_idx(m, c));
}

static bool poly_bound(const Poly *, bool upper, int64_t *);

static Node *
poly_node(Module *m, const Poly *p)
{
	Node *e = NULL, *in[2];
	Node t = {0};
	int i;

	if (p->n == 0)
		return x_idx(m, 0);
	for (i = 0; i < p->n && p->t[i].c < 0; i++)    /* begin with a positive term, if there is one */
		;
	if (i == p->n)
		i = 0;
	e = term_node(m, &p->t[i], p->t[i].c);
	for (int k = 0; k < p->n; k++) {
		if (k == i)
			continue;
		in[0] = e;
		in[1] = term_node(m, &p->t[k], p->t[k].c < 0 ? -p->t[k].c : p->t[k].c);
		t = (Node){.op = core_op(p->t[k].c < 0 ? O_SUB : O_ADD), .type = ty_scalar(m, DT_INDEX), .nin = 2, .in = in};
		op_range(t.op->code, 2, in, DT_INDEX, &t.lo, &t.hi);
		e = node_make(m, t);
	}
	if (e->code == O_ADD || e->code == O_SUB) {    /* a sharper range than the tree's */
		int64_t v;
		if (poly_bound(p, false, &v))
			e->lo = imax(e->lo, v);
		if (poly_bound(p, true, &v))
			e->hi = imin(e->hi, v);
	}
	return e;
}

/* The product of a monomial's factors but one, is it nonnegative? */
static bool
rest_nonneg(const Term *t, int skip)
{
	int i;

	for (i = 0; i < t->nf; i++)
		if (i != skip && t->f[i]->lo < 0)
			return false;
	return true;
}

/*
 * A numeric bound of p: axes with a symbolic extent are first replaced by their extremes, which
 * lets N cancel; then ranges. Each replaced axis is gone, so this ends.
 */
static bool
poly_bound(const Poly *p0, bool upper, int64_t *v)
{
	Poly *w = malloc(3 * sizeof *w), *p = w, *q = w + 1, *x = w + 2;
	int64_t sum = 0, lo, hi;
	int i, j = 0, k, rounds;
	Term t;

	*p = *p0;
	for (rounds = 0; rounds < 12 && !p->bad; rounds++) {
		for (i = 0; i < p->n; i++) {
			for (j = 0; j < p->t[i].nf; j++)
				if (p->t[i].f[j]->code == O_AXIS && p->t[i].f[j]->in[0]->code != O_NUM && rest_nonneg(&p->t[i], j))
					break;
			if (j < p->t[i].nf)
				break;
		}
		if (i == p->n)
			break;
		/* monomial c * axis * rest: at most c * (extent-1) * rest if c > 0 (upper), at least 0 */
		t = p->t[i];
		memmove(&p->t[i], &p->t[i + 1], sizeof(Term) * (size_t)(--p->n - i));
		if ((t.c > 0) != upper)
			continue;                    /* replaced by 0 */
		poly_of(x, t.f[j]->in[0]);
		poly_add_term(x, &(Term){.c = 1}, -1);
		for (k = j; k + 1 < t.nf; k++)
			t.f[k] = t.f[k + 1];
		t.nf--;
		q->n = 0;
		q->bad = false;
		poly_add_term(q, &t, 1);
		Poly *r = malloc(sizeof *r);
		poly_mul(r, q, x);
		poly_add(p, r, 1);
		free(r);
	}
	if (p->bad)
		goto no;
	for (i = 0; i < p->n; i++) {
		lo = hi = p->t[i].c;
		for (j = 0; j < p->t[i].nf; j++)
			mul_range(lo, hi, p->t[i].f[j]->lo, p->t[i].f[j]->hi, &lo, &hi);
		sum = sat_add(sum, upper ? hi : lo);
		if (sum == INT64_MAX || sum == INT64_MIN)
			goto no;
	}
	free(w);
	*v = sum;
	return true;
no:
	free(w);
	return false;
}

static bool
diff_bound(Node *a, Node *b, bool upper, int64_t *v)
{
	Poly *p = malloc(2 * sizeof *p);
	bool ok;

	poly_of(p, a);
	poly_of(p + 1, b);
	poly_add(p, p + 1, -1);
	ok = !p->bad && poly_bound(p, upper, v);
	free(p);
	return ok;
}

static bool prove(Module *, Node *a, Node *b, bool strict, int depth);

/* A factor of a term, which a proof replaces: the term is alone with it, or it is a name. */
typedef struct Atom { Node *n; int64_t c; } Atom;

static bool
both_sides(const Atom *x)
{
	return x->n->code == O_SELECT || (x->n->code == O_MIN) == (x->c < 0);
}

/* What to replace first: names, what needs both of its sides, what needs one, quotients (the largest). */
static int
urgency(const Atom *x)
{
	switch (x->n->code) {
	case O_SYM: return x->n->def ? 4 : 0;
	case O_MIN: case O_MAX: case O_SELECT: return both_sides(x) ? 3 : 2;
	case O_FLOORDIV: return x->n->in[1]->code == O_NUM && x->n->in[1]->num.i > 0;
	default: return 0;
	}
}

static Atom
find_atom(const Poly *p)
{
	Atom best = {0}, x;
	int i, k, u, most = 0;

	for (i = 0; i < p->n && !p->bad; i++)
		for (k = 0; k < p->t[i].nf; k++) {
			x = (Atom){p->t[i].f[k], p->t[i].c};
			if (p->t[i].nf > 1 && x.n->code != O_SYM)
				continue;
			u = urgency(&x);
			if (u > most || (u && u == most && x.n->size > best.n->size)) {
				most = u;
				best = x;
			}
		}
	return best;
}

/*
 * rest + c floor(n/k) < 0 or <= 0 with the quotient bounded by its operand: (n - k + 1)/k <= it <= n/k.
 * Everything is multiplied by k; a strict bound d <= -1 becomes k d <= -k.
 */
static bool
prove_quotient(Module *m, Node *rest, const Atom *x, bool strict, int depth)
{
	Node *zero = x_idx(m, 0), *k = x->n->in[1], *n = x->n->in[0], *d;

	if (x->c < 0)
		n = x_addi(m, x_sub(m, n, k), 1);
	d = x_add(m, x_mul(m, rest, k), x_muli(m, n, x->c));
	return prove(m, strict ? x_add(m, d, k) : d, zero, false, depth - 1);
}

/*
 * a < b or a <= b by cases: where the difference has a min, max or select, it suffices that one of
 * min's sides, and is needed that both of max's and select's, satisfies it (and the reverse where it
 * is subtracted). A name stands for what it names.
 */
static bool
prove_cases(Module *m, Node *a, Node *b, bool strict, int depth)
{
	Poly *p = malloc(2 * sizeof *p);
	Node *zero = x_idx(m, 0), *d = NULL, *rest = NULL, *side;
	Atom x;
	bool both, r = false;
	int i;

	poly_of(p, a);
	poly_of(p + 1, b);
	poly_add(p, p + 1, -1);
	x = find_atom(p);
	if (x.n) {
		d = poly_node(m, p);
		poly_add_term(p, &(Term){.c = -x.c, .nf = 1, .f = {x.n}}, 1);
		rest = poly_node(m, p);          /* without the atom's own term */
	}
	free(p);
	if (!x.n)
		return false;
	if (x.n->code == O_SYM)
		return prove(m, subst1(m, d, x.n, x.n->def), zero, strict, depth - 1);
	if (x.n->code == O_FLOORDIV)
		return prove_quotient(m, rest, &x, strict, depth);
	/* in a case the atom is that side wherever it stands; a bound replaces its own term only */
	both = both_sides(&x);
	for (i = 0; i < 2; i++) {
		side = x.n->in[x.n->code == O_SELECT ? i + 1 : i];
		side = both ? subst1(m, d, x.n, side) : x_add(m, rest, x_muli(m, side, x.c));
		r = prove(m, side, zero, strict, depth - 1);
		if (r != both)
			return r;
	}
	return both;
}

static bool
prove(Module *m, Node *a, Node *b, bool strict, int depth)
{
	int64_t v;

	if (strict ? a->hi < b->lo : a == b || a->hi <= b->lo)
		return true;
	if (diff_bound(a, b, true, &v) && (strict ? v < 0 : v <= 0))
		return true;
	if ((a->code == O_MOD || a->code == O_BOUND) && a->in[1] == b && b->lo > 0)
		return true;
	if (depth == 0)
		return false;
	if (a->code == O_FLOORDIV && a->in[1]->lo > 0) {       /* q < b if q*d < b*d; q <= b if q < b + 1 */
		b = strict ? b : x_addi(m, b, 1);
		return prove(m, a->in[0], x_mul(m, b, a->in[1]), true, depth - 1);
	}
	return prove_cases(m, a, b, strict, depth);
}

/* Is a name (a symbol with a definition) among the factors of its terms? */
static bool
has_name(Node *e)
{
	Poly *p = malloc(sizeof *p);
	bool found = false;
	int i, k;

	poly_of(p, e);
	for (i = 0; i < p->n && !found; i++)
		for (k = 0; k < p->t[i].nf; k++)
			found |= p->t[i].f[k]->code == O_SYM && p->t[i].f[k]->def;
	free(p);
	return found;
}

/* A proof makes terms, and making them asks for proofs: those look at ranges only, or they would multiply. */
static bool
prove_first(Module *m, Node *a, Node *b, bool strict)
{
	bool r, outer = !m->proving;

	m->proving = true;
	r = prove(m, a, b, strict, outer ? PROOF_DEPTH : 0);
	if (outer)
		m->proving = false;
	return r;
}

bool
prove_lt(Module *m, Node *a, Node *b)
{
	return prove_first(m, a, b, true);
}

bool
prove_le(Module *m, Node *a, Node *b)
{
	return prove_first(m, a, b, false);
}

bool
prove_eq(Module *m, Node *a, Node *b)
{
	int64_t v;

	if (a == b || (diff_bound(a, b, true, &v) && v == 0 && diff_bound(a, b, false, &v) && v == 0))
		return true;
	return (has_name(a) || has_name(b)) && prove_le(m, a, b) && prove_le(m, b, a);
}

Node *
x_raw(Module *m, OpCode op, int nin, Node *const *in, DType d)
{
	Node *e = raw_op(m, op, nin, in, d);
	Poly *p;
	int64_t v;

	if (d != DT_INDEX || (op != O_ADD && op != O_SUB))
		return e;
	p = malloc(sizeof *p);
	poly_of(p, e);
	if (!p->bad && poly_bound(p, false, &v))
		e->lo = imax(e->lo, v);
	if (!p->bad && poly_bound(p, true, &v))
		e->hi = imin(e->hi, v);
	free(p);
	return e;
}

static bool
same_term(const Term *a, const Term *b)
{
	return a->c == b->c && a->nf == b->nf && memcmp(a->f, b->f, sizeof *a->f * (size_t)a->nf) == 0;
}

static Term
without_factor(const Term *t, int k)
{
	Term r = *t;

	memmove(&r.f[k], &r.f[k + 1], sizeof *r.f * (size_t)(--r.nf - k));
	return r;
}

/* d floordiv(x, d) + mod(x, d) = x, both multiplied by the same: one such pair; false if there is none. */
static bool
recombine(Poly *p)
{
	Poly *w = malloc(3 * sizeof *w);
	Term rest, scaled, other;
	Node *f, *g;
	bool done = false;
	int i, j, k, l;

	for (i = 0; i < p->n && !p->bad; i++)
		for (k = 0; k < p->t[i].nf; k++) {
			f = p->t[i].f[k];
			if (f->code != O_MOD)
				continue;
			rest = without_factor(&p->t[i], k);
			poly_of(w, f->in[1]);
			if (w->n != 1 || !term_mul(&scaled, &rest, &w->t[0]))
				continue;
			for (j = 0; j < p->n; j++)
				for (l = 0; l < p->t[j].nf; l++) {
					g = p->t[j].f[l];
					if (g->code != O_FLOORDIV || g->in[0] != f->in[0] || g->in[1] != f->in[1])
						continue;
					other = without_factor(&p->t[j], l);
					if (!same_term(&other, &scaled))
						continue;
					other = p->t[j];
					scaled = p->t[i];
					poly_add_term(p, &other, -1);
					poly_add_term(p, &scaled, -1);
					w->n = 0, w->bad = false;
					poly_add_term(w, &rest, 1);
					poly_of(w + 1, f->in[0]);
					poly_mul(w + 2, w, w + 1);
					poly_add(p, w + 2, 1);
					done = true;
					goto end;
				}
		}
end:
	free(w);
	return done;
}

static Node *
index_arith(Module *m, OpCode op, Node *a, Node *b)
{
	Poly *p = malloc(3 * sizeof *p);
	Node *r;

	poly_of(p, a);
	poly_of(p + 1, b);
	if (op == O_MUL) {
		poly_mul(p + 2, p, p + 1);
		r = p[2].bad ? NULL : poly_node(m, p + 2);
	} else {
		poly_add(p, p + 1, op == O_ADD ? 1 : -1);
		while (recombine(p))
			;
		r = p->bad ? NULL : poly_node(m, p);
	}
	free(p);
	return r ? r : raw2(m, op, a, b);
}

/* t / d as a monomial, if it divides. */
static bool
term_div(const Term *t, const Term *d, Term *q)
{
	int i = 0, j = 0;

	if (d->c == 0 || t->c % d->c)
		return false;
	q->c = t->c / d->c;
	q->nf = 0;
	for (; i < t->nf; i++)
		if (j < d->nf && t->f[i] == d->f[j])
			j++;
		else
			q->f[q->nf++] = t->f[i];
	return j == d->nf;
}

/* p = q*d + r with the terms of q those divisible by the monomial d, or by exact division. */
static void
poly_split(const Poly *p, const Poly *d, Poly *q, Poly *r)
{
	Poly *s, *x;
	Term t;
	int i, k;

	q->n = r->n = 0;
	q->bad = r->bad = false;
	if (d->n == 1) {
		for (i = 0; i < p->n; i++)
			if (term_div(&p->t[i], &d->t[0], &t))
				poly_add_term(q, &t, 1);
			else if (p->t[i].nf == 0 && d->t[0].nf == 0 && d->t[0].c > 0) {
				t = (Term){.c = ifloordiv(p->t[i].c, d->t[0].c)};
				poly_add_term(q, &t, 1);
				t.c = p->t[i].c - t.c * d->t[0].c;
				poly_add_term(r, &t, 1);
			} else
				poly_add_term(r, &p->t[i], 1);
		return;
	}
	*r = *p;
	s = malloc(2 * sizeof *s);
	x = s + 1;
	for (k = 0; k < 2 * MAX_TERMS && r->n && !r->bad && d->n; k++) {
		if (!term_div(&r->t[0], &d->t[0], &t))
			break;
		poly_add_term(q, &t, 1);
		s->n = 0, s->bad = false;
		poly_add_term(s, &t, 1);
		poly_mul(x, s, d);
		poly_add(r, x, -1);
	}
	if (r->n || r->bad) {                       /* not exact: all is rest */
		q->n = 0;
		q->bad = false;
		*r = *p;
	}
	free(s);
}

static bool
in_zero_to(Module *m, Node *r, Node *d)
{
	int64_t v;
	Poly *p;
	bool ok = r->lo >= 0;

	if (!ok) {
		p = malloc(sizeof *p);
		poly_of(p, r);
		ok = poly_bound(p, false, &v) && v >= 0;
		free(p);
	}
	return ok && prove_lt(m, r, d);
}

/*
 * Where p is a multiple of g plus a rest in [0, g), and d is a multiple of g: p/g. The candidates for
 * g are the common factors of d and p's coefficients. NULL if there is none.
 */
static Node *
by_blocks(Module *m, const Poly *p, int64_t d, int64_t *g, Node **rest)
{
	Poly *q = malloc(2 * sizeof *q), *r = q + 1;
	Node *res = NULL, *rn;
	Term t;
	int64_t c, x, y;
	int i, k;

	for (i = 0; i < p->n && !res; i++) {
		for (x = d, y = p->t[i].c < 0 ? -p->t[i].c : p->t[i].c; y; c = x % y, x = y, y = c)
			;
		if (x <= 1 || p->t[i].nf == 0)
			continue;
		q->n = r->n = 0;
		q->bad = r->bad = false;
		for (k = 0; k < p->n; k++) {
			t = p->t[k];
			if (t.nf == 0) {                     /* a constant gives what it has */
				t.c = ifloordiv(p->t[k].c, x);
				poly_add_term(q, &t, 1);
				t.c = p->t[k].c - t.c * x;
				poly_add_term(r, &t, 1);
			} else if (t.c % x == 0) {
				t.c /= x;
				poly_add_term(q, &t, 1);
			} else
				poly_add_term(r, &t, 1);
		}
		rn = poly_node(m, r);
		if (is_intv(rn, 0) || in_zero_to(m, rn, x_idx(m, x))) {
			*g = x;
			*rest = rn;
			res = poly_node(m, q);
		}
	}
	free(q);
	return res;
}

/* floordiv (want_q) or mod of index expressions; the divisor is positive where it matters. */
static Node *
index_divmod(Module *m, bool want_q, Node *a, Node *b)
{
	Poly *p = malloc(4 * sizeof *p), *d = p + 1, *q = p + 2, *r = p + 3;
	Node *res, *rn, *rn2, *qn;
	int64_t x, y;

	if (is_int(a, &x) && is_int(b, &y)) {
		free(p);
		return x_idx(m, want_q ? ifloordiv(x, y) : y ? x - y * ifloordiv(x, y) : 0);
	}
	if (is_intv(b, 1)) {
		free(p);
		return want_q ? a : x_idx(m, 0);
	}
	/* Dividing by zero gives 0: harmless, since a zero extent means that nothing is evaluated. */
	if (want_q && a->code == O_FLOORDIV && is_int(b, &x) && is_int(a->in[1], &y) && x > 0 && y > 0 && mul_ok(x, y, &x)) {
		free(p);
		return index_divmod(m, true, a->in[0], x_idx(m, x));
	}
	poly_of(p, a);
	poly_of(d, b);
	poly_split(p, d, q, r);
	if (q->bad || r->bad) {
		free(p);
		return raw2(m, want_q ? O_FLOORDIV : O_MOD, a, b);
	}
	qn = poly_node(m, q);
	rn = poly_node(m, r);
	if (in_zero_to(m, rn, b) || is_intv(rn, 0)) {
		free(p);
		return want_q ? qn : rn;
	}
	if (is_int(b, &x) && x > 0 && (res = by_blocks(m, r, x, &y, &rn2))) {
		free(p);
		res = index_divmod(m, want_q, res, x_idx(m, x / y));
		return want_q ? x_add(m, qn, res) : x_add(m, x_muli(m, res, y), rn2);
	}
	free(p);
	if (b->lo < 0 && !is_intv(rn, 0))            /* the divisor's sign is unknown: leave it */
		return raw2(m, want_q ? O_FLOORDIV : O_MOD, a, b);
	if (want_q) {
		res = raw2(m, O_FLOORDIV, rn, b);
		return is_intv(qn, 0) ? res : index_arith(m, O_ADD, qn, res);
	}
	if (rn->code == O_MOD && rn->in[1] == b)
		return rn;
	return raw2(m, O_MOD, rn, b);
}

bool
linear_in(Module *m, Node *e, Node *axis, Node **coef, Node **rest)
{
	Poly *p, *c, *r;
	Term t;
	int i, j, k;
	bool ok = true;

	if (!contains(e, axis)) {
		*coef = x_idx(m, 0);
		*rest = e;
		return true;
	}
	if (e->type->dtype != DT_INDEX)
		return false;
	p = malloc(3 * sizeof *p);
	c = p + 1;
	r = p + 2;
	poly_of(p, e);
	c->n = r->n = 0;
	c->bad = r->bad = false;
	for (i = 0; i < p->n && ok; i++) {
		t = p->t[i];
		for (j = 0; j < t.nf && t.f[j] != axis; j++)
			;
		if (j < t.nf) {
			for (k = j; k + 1 < t.nf; k++)
				t.f[k] = t.f[k + 1];
			t.nf--;
			poly_add_term(c, &t, 1);
		} else
			poly_add_term(r, &t, 1);
		for (k = 0; k < t.nf && ok; k++)
			ok = !contains(t.f[k], axis);
	}
	if (ok && !p->bad && !c->bad && !r->bad) {
		*coef = poly_node(m, c);
		*rest = poly_node(m, r);
	} else
		ok = false;
	free(p);
	return ok;
}

/* ---- simplification of the other operations ------------------------------------------------------------ */

static bool
commutes(OpCode op)
{
	return op == O_ADD || op == O_MUL || op == O_MIN || op == O_MAX || op == O_AND || op == O_OR || op == O_XOR
		|| op == O_EQ || op == O_NE;
}

static Node *
index_op2(Module *m, OpCode op, Node *a, Node *b)
{
	switch (op) {
	case O_ADD: case O_SUB: case O_MUL:
		return index_arith(m, op, a, b);
	case O_FLOORDIV: case O_MOD:
		return index_divmod(m, op == O_FLOORDIV, a, b);
	case O_DIV: case O_REM:
		if (a->lo >= 0 && b->lo >= 0)
			return index_divmod(m, op == O_DIV, a, b);
		return NULL;
	case O_MIN:
		return prove_le(m, a, b) ? a : prove_le(m, b, a) ? b : NULL;
	case O_MAX:
		return prove_le(m, a, b) ? b : prove_le(m, b, a) ? a : NULL;
	case O_LT:
		return prove_lt(m, a, b) ? x_bool(m, true) : prove_le(m, b, a) ? x_bool(m, false) : NULL;
	case O_LE:
		return prove_le(m, a, b) ? x_bool(m, true) : prove_lt(m, b, a) ? x_bool(m, false) : NULL;
	case O_EQ: case O_NE:
		if (prove_eq(m, a, b))
			return x_bool(m, op == O_EQ);
		if (prove_lt(m, a, b) || prove_lt(m, b, a))
			return x_bool(m, op == O_NE);
		return NULL;
	default:
		return NULL;
	}
}

static Node *
bool_op2(Module *m, OpCode op, Node *a, Node *b)
{
	Node *t;

	if (op == O_AND || op == O_OR) {
		if (a->code == O_NUM)
			t = a, a = b, b = t;
		if (b->code == O_NUM)
			return (op == O_AND) == (b->num.i != 0) ? a : b;
		if (a == b)
			return a;
	}
	if ((op == O_EQ || op == O_NE || op == O_XOR) && b->code == O_NUM)
		return (op == O_EQ) == (b->num.i != 0) ? a : x1(m, O_NOT, a);
	return NULL;
}

/* Where 64-bit and 32-bit integers are casts of index expressions that fit, compute in index. */
static Node *
as_index(Module *m, Node *e)
{
	if (e->code == O_CAST && e->in[0]->type->dtype == DT_INDEX)
		return e->in[0]->lo >= e->lo && e->in[0]->hi <= e->hi ? e->in[0] : NULL;
	return e->code == O_NUM ? x_idx(m, e->num.i) : NULL;
}

static Node *
lift_to_index(Module *m, OpCode op, Node *a, Node *b)
{
	Node *x = as_index(m, a), *y = as_index(m, b), *r;
	DType d = a->type->dtype;
	int64_t lo, hi;

	if (!x || !y || (a->code == O_NUM && b->code == O_NUM) || d == DT_U64)
		return NULL;
	switch (op) {
	case O_DIV: case O_REM:
		if (x->lo < 0 || y->lo < 0)
			return NULL;
		op = op == O_DIV ? O_FLOORDIV : O_MOD;
		break;
	case O_ADD: case O_SUB: case O_MUL: case O_FLOORDIV: case O_MOD: case O_MIN: case O_MAX:
	case O_LT: case O_LE: case O_EQ: case O_NE:
		break;
	default:
		return NULL;
	}
	r = x2(m, op, x, y);
	if (r->type->dtype == DT_BOOL)
		return r;
	dtype_range(d, &lo, &hi);
	if (r->lo < lo || r->hi > hi || r->lo == INT64_MIN || r->hi == INT64_MAX)
		return NULL;
	return x_cast(m, d, r);
}

static Node *
int_op2(Module *m, OpCode op, Node *a, Node *b)
{
	Node *r = lift_to_index(m, op, a, b);

	if (r)
		return r;
	if ((op == O_ADD || op == O_SUB || op == O_OR || op == O_XOR || op == O_SHL || op == O_SHR) && is_intv(b, 0))
		return a;
	if ((op == O_MUL || op == O_DIV || op == O_FLOORDIV) && is_intv(b, 1))
		return a;
	if ((op == O_MUL || op == O_AND) && is_intv(b, 0))
		return b;
	if ((op == O_MIN || op == O_MAX) && a == b)
		return a;
	if (a->type->dtype != DT_U64) {
		if (op == O_LT && (a->hi < b->lo || a->lo >= b->hi))
			return x_bool(m, a->hi < b->lo);
		if (op == O_LE && (a->hi <= b->lo || a->lo > b->hi))
			return x_bool(m, a->hi <= b->lo);
		if ((op == O_EQ || op == O_NE) && (a->hi < b->lo || a->lo > b->hi))
			return x_bool(m, op == O_NE);
	}
	if ((op == O_EQ || op == O_LE || op == O_NE || op == O_LT) && a == b)
		return x_bool(m, op == O_EQ || op == O_LE);
	return NULL;
}

/* Bit-exact identities only (NaN payloads aside). */
static Node *
float_op2(OpCode op, Node *a, Node *b)
{
	if ((op == O_MUL || op == O_DIV) && is_flt(b, 1.0))
		return a;
	if ((op == O_SUB && is_flt(b, 0.0)) || (op == O_ADD && is_flt(b, -0.0)))
		return a;
	if ((op == O_MIN || op == O_MAX) && a == b)
		return a;
	return NULL;
}

/* Made of sizes and constants only, no element read? Arithmetic on sizes is taken not to overflow i32. */
static bool
sizes_only(Node *e)
{
	Node **list;
	bool ok = true;
	int i, n;

	if (e->size > 256)
		return false;
	list = topo_scalar(e, &n);
	for (i = 0; i < n && ok; i++)
		ok = list[i]->code != O_READ && list[i]->code != O_REDUCE && list[i]->code != O_ITER
			&& list[i]->code != O_CARRY && list[i]->code != O_AXIS;
	free(list);
	return ok;
}

/* Conversion of an index or wide integer expression to index: arithmetic moves inside. */
static Node *
cast_to_index(Module *m, Node *e)
{
	Node *in[3];
	int i;

	switch (e->code) {
	case O_CAST:
		if (e->in[0]->type->dtype == DT_INDEX && ((e->in[0]->lo >= e->lo && e->in[0]->hi <= e->hi)
		 || (e->type->dtype == DT_I32 && sizes_only(e->in[0]))))
			return e->in[0];
		return NULL;
	case O_ADD: case O_SUB: case O_MUL: case O_DIV: case O_REM: case O_FLOORDIV: case O_MOD: case O_MIN: case O_MAX: case O_NEG:
		if (e->type->dtype != DT_I64 && (e->type->dtype != DT_I32 || !sizes_only(e)))
			return NULL;
		for (i = 0; i < e->nin; i++)
			in[i] = x_cast(m, DT_INDEX, e->in[i]);
		return x_op(m, e->code, e->nin, in, DT_INDEX);
	case O_SELECT:
		return x_select(m, e->in[0], x_cast(m, DT_INDEX, e->in[1]), x_cast(m, DT_INDEX, e->in[2]));
	default:
		return NULL;
	}
}

static Node *
simplify_cast(Module *m, DType to, Node *e)
{
	DType from = e->type->dtype, mid;
	Node *r;

	if (to == from)
		return e;
	if (to == DT_INDEX && dt_int(from) && (r = cast_to_index(m, e)))
		return r;
	if (e->code != O_CAST)
		return NULL;
	mid = from;
	from = e->in[0]->type->dtype;
	if (dt_int(from) && dt_int(mid) && dt_int(to) && mid != DT_U64) {
		int64_t lo, hi;
		dtype_range(mid, &lo, &hi);
		if (e->in[0]->lo >= lo && e->in[0]->hi <= hi && from != DT_U64)
			return x_cast(m, to, e->in[0]);
	}
	/* a pair through a float that holds every value of the first type */
	if (dt_float(mid) && ((mid == DT_F64 && (from == DT_F32 || from == DT_F16 || from == DT_BF16))
	 || (mid == DT_F32 && (from == DT_F16 || from == DT_BF16))) && dt_float(to))
		return x_cast(m, to, e->in[0]);
	if (from == DT_BOOL && to == DT_BOOL)
		return e->in[0];
	return NULL;
}

static Node *
fold(Module *m, OpCode op, int nin, Node *const *in, DType d)
{
	Num v[3], r;
	int i;

	for (i = 0; i < nin; i++) {
		if (in[i]->code != O_NUM)
			return NULL;
		v[i] = in[i]->num;
	}
	return num_eval(op, d, in[op == O_SELECT ? 1 : 0]->type->dtype, v, &r) ? x_num(m, d, r) : NULL;
}

Node *
x_select(Module *m, Node *c, Node *a, Node *b)
{
	Node *in[3] = {c, a, b};

	if (c->code == O_NUM)
		return c->num.i ? a : b;
	if (a == b)
		return a;
	if (c->code == O_NOT)
		return x_select(m, c->in[0], b, a);
	if (a->type->dtype == DT_BOOL) {
		if (is_intv(a, 1) && is_intv(b, 0))
			return c;
		if (is_intv(a, 0) && is_intv(b, 1))
			return x_not(m, c);
	}
	/* nested selects on one condition */
	if (a->code == O_SELECT && a->in[0] == c)
		return x_select(m, c, a->in[1], b);
	if (b->code == O_SELECT && b->in[0] == c)
		return x_select(m, c, a, b->in[2]);
	return raw_op(m, O_SELECT, 3, in, a->type->dtype);
}

static DType
result_type(OpCode op, Node *const *in, DType to)
{
	static const char kinds[] = {
#define SC(N, text, arity, res, infix, doc) res,
#include "scalar.def"
#undef SC
	};

	switch (kinds[op]) {
	case 'B': return DT_BOOL;
	case '1': return in[1]->type->dtype;
	case 'T': return to;
	default: return in[0]->type->dtype;
	}
}

Node *
x_op(Module *m, OpCode op, int nin, Node *const *in, DType to)
{
	DType d = result_type(op, in, to), x = in[0]->type->dtype;
	Node *r = NULL, *a = in[0], *b = nin > 1 ? in[1] : NULL, *t;

	if (op == O_SELECT)
		return x_select(m, in[0], in[1], in[2]);
	if ((r = fold(m, op, nin, in, d)))
		return r;
	if (op == O_CAST)
		r = simplify_cast(m, d, a);
	else if (op == O_BITS)
		r = d == x ? a : a->code == O_BITS ? x_bits(m, d, a->in[0]) : NULL;
	else if (op == O_NOT)
		r = a->code == O_NOT ? a->in[0] : NULL;
	else if (op == O_NEG && x == DT_INDEX)
		r = index_arith(m, O_SUB, x_idx(m, 0), a);
	else if (op == O_BOUND) {
		if (x == DT_INDEX && a->lo >= 0 && prove_lt(m, a, b))
			r = a;
	} else if (op == O_ABS && dtypes[x].cls != 'F' && a->lo >= 0)
		r = a;
	else if (nin == 2) {
		if (commutes(op) && (a->code == O_NUM || (b->code != O_NUM && dtypes[x].cls != 'F' && !before(a, b))))
			t = a, a = b, b = t;
		if (x == DT_INDEX)
			r = index_op2(m, op, a, b);
		else if (x == DT_BOOL)
			r = bool_op2(m, op, a, b);
		else if (dt_int(x))
			r = int_op2(m, op, a, b);
		else if (dt_float(x))
			r = float_op2(op, a, b);
		if (!r && a == b && x == DT_INDEX && (op == O_EQ || op == O_LE))
			r = x_bool(m, true);
		if (!r)
			return raw_op(m, op, 2, (Node *[]){a, b}, d);
	}
	return r ? r : raw_op(m, op, nin, in, d);
}

Node *
x1(Module *m, OpCode op, Node *a)
{
	return x_op(m, op, 1, &a, a->type->dtype);
}

Node *
x2(Module *m, OpCode op, Node *a, Node *b)
{
	Node *in[2] = {a, b};

	return x_op(m, op, 2, in, a->type->dtype);
}

Node *
x_cast(Module *m, DType to, Node *a)
{
	return x_op(m, O_CAST, 1, &a, to);
}

Node *
x_bits(Module *m, DType to, Node *a)
{
	return x_op(m, O_BITS, 1, &a, to);
}

Node *
x_addi(Module *m, Node *a, int64_t v)
{
	return x_add(m, a, x_idx(m, v));
}

Node *
x_muli(Module *m, Node *a, int64_t v)
{
	return x_mul(m, a, x_idx(m, v));
}

Node *
x_ceildiv(Module *m, Node *a, Node *b)
{
	return x_fdiv(m, x_addi(m, x_add(m, a, b), -1), b);
}

Node *
x_comb(Module *m, Comb c, Node *a, Node *b)
{
	static const OpCode op[] = {[COMB_SUM] = O_ADD, [COMB_PROD] = O_MUL, [COMB_MIN] = O_MIN,
		[COMB_MAX] = O_MAX, [COMB_AND] = O_AND, [COMB_OR] = O_OR};

	return c == COMB_SET ? b : x2(m, op[c], a, b);
}

Node *
x_comb_identity(Module *m, Comb c, DType d)
{
	int64_t lo, hi;

	dtype_range(d, &lo, &hi);
	switch (c) {
	case COMB_PROD: case COMB_AND:
		return c == COMB_AND && d != DT_BOOL ? x_int(m, d, -1) : x_int(m, d, 1);
	case COMB_MIN:
		return dt_float(d) ? x_flt(m, d, __builtin_inf()) : d == DT_U64 ? x_int(m, d, -1) : x_int(m, d, hi);
	case COMB_MAX:
		return dt_float(d) ? x_flt(m, d, -__builtin_inf()) : d == DT_U64 ? x_int(m, d, 0) : x_int(m, d, lo);
	default:
		return x_int(m, d, 0);
	}
}

/* Axes of extent 1 vanish; a body that is empty for sure is the identity. */
Node *
x_reduce(Module *m, Comb c, int naxes, Node *const *axes, Node *body)
{
	Node *in[MAX_RANK * 2 + 1], t = {0};
	int i, n = 0;

	for (i = 0; i < naxes; i++)
		if (is_intv(axes[i]->in[0], 0))
			return x_comb_identity(m, c, body->type->dtype);
	for (i = 0; i < naxes; i++)
		if (is_intv(axes[i]->in[0], 1))
			body = subst1(m, body, axes[i], x_idx(m, 0));
		else
			in[n++] = axes[i];
	if (n == 0)
		return body;
	if ((c == COMB_MIN || c == COMB_MAX || c == COMB_AND || c == COMB_OR) && body->code == O_NUM) {
		for (i = 0; i < n && in[i]->in[0]->lo > 0; i++)
			;
		if (i == n)
			return body;
	}
	in[n] = body;
	t = (Node){.op = core_op(O_REDUCE), .type = body->type, .nin = n + 1, .in = in, .n = c};
	dtype_range(body->type->dtype, &t.lo, &t.hi);
	if (c == COMB_MIN || c == COMB_MAX) {
		Node *id = x_comb_identity(m, c, body->type->dtype);
		t.lo = imin(body->lo, id->lo);
		t.hi = imax(body->hi, id->hi);
	}
	return node_make(m, t);
}

Node *
x_iter(Module *m, Node *axis, Node *carry, Node *init, Node *step)
{
	Node *in[4] = {axis, carry, init, step};
	Node t = {.op = core_op(O_ITER), .type = init->type, .nin = 4, .in = in};

	if (is_intv(axis->in[0], 0))
		return init;
	dtype_range(init->type->dtype, &t.lo, &t.hi);
	return node_make(m, t);
}
