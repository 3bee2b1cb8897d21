/*
 * Index arithmetic in one form: sums of monomials in one order. Division and remainder split off
 * the divisible monomials and vanish where the rest provably lies in [0, divisor).
 */
#include <stdlib.h>
#include <string.h>
#include "poly.h"

static bool
same_term(const Term *a, const Term *b)
{
	return a->c == b->c && a->nf == b->nf && memcmp(a->f, b->f, sizeof *a->f * (size_t)a->nf) == 0;
}

/* The monomial that is `want` times floordiv of the operands of `mod`; p->n if there is none. */
static int
quotient_term(const Poly *p, const Node *mod, const Term *want)
{
	const Node *f;
	Term t;
	int i, k;

	for (i = 0; i < p->n; i++)
		for (k = 0; k < p->t[i].nf; k++) {
			f = p->t[i].f[k];
			if (f->code != O_FLOORDIV || f->in[0] != mod->in[0] || f->in[1] != mod->in[1])
				continue;
			t = without_factor(&p->t[i], k);
			if (same_term(&t, want))
				return i;
		}
	return p->n;
}

/* Replaces two monomials by t * x. */
static void
join_terms(Poly *p, int i, int j, const Term *t, Node *x)
{
	Poly *w = malloc(3 * sizeof *w);
	Term a = p->t[i], b = p->t[j];

	poly_add_term(p, &a, -1);
	poly_add_term(p, &b, -1);
	poly_one(w, t);
	poly_of(w + 1, x);
	poly_mul(w + 2, w, w + 1);
	poly_add(p, w + 2, 1);
	free(w);
}

/* d floordiv(x, d) + mod(x, d) = x, both multiplied by the same: one such pair; false if there is
 * none. */
static bool
recombine(Poly *p)
{
	Poly *d = malloc(sizeof *d);
	Term rest, scaled;
	Node *f;
	bool done = false;
	int i, j, k;

	for (i = 0; i < p->n && !p->bad && !done; i++)
		for (k = 0; k < p->t[i].nf && !done; k++) {
			f = p->t[i].f[k];
			if (f->code != O_MOD)
				continue;
			rest = without_factor(&p->t[i], k);
			poly_of(d, f->in[1]);
			if (d->n != 1 || !term_mul(&scaled, &rest, &d->t[0]))
				continue;
			j = quotient_term(p, f, &scaled);
			done = j < p->n;
			if (done)
				join_terms(p, i, j, &rest, f->in[0]);
		}
	free(d);
	return done;
}

Node *
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

/* p = q*d + r with the terms of q those divisible by the monomial d, and what divides of the
 * constant. */
static void
split_by_term(const Poly *p, const Term *d, Poly *q, Poly *r)
{
	Term t;
	int64_t c;
	int i;

	q->n = r->n = 0;
	q->bad = r->bad = false;
	for (i = 0; i < p->n; i++)
		if (term_div(&p->t[i], d, &t))
			poly_add_term(q, &t, 1);
		else if (p->t[i].nf == 0 && d->nf == 0 && d->c > 0) {
			c = ifloordiv(p->t[i].c, d->c);
			poly_add_term(q, &(Term){.c = c}, 1);
			poly_add_term(r, &(Term){.c = p->t[i].c - c * d->c}, 1);
		} else
			poly_add_term(r, &p->t[i], 1);
}

/* q = p/d by long division; false if something is left. */
static bool
divide(const Poly *p, const Poly *d, Poly *q)
{
	Poly *r = malloc(3 * sizeof *r), *s = r + 1, *x = r + 2;
	Term t;
	bool exact;
	int k;

	*r = *p;
	q->n = 0;
	q->bad = false;
	for (k = 0; k < 2 * MAX_TERMS && r->n && !r->bad && d->n; k++) {
		if (!term_div(&r->t[0], &d->t[0], &t))
			break;
		poly_add_term(q, &t, 1);
		poly_one(s, &t);
		poly_mul(x, s, d);
		poly_add(r, x, -1);
	}
	exact = !r->n && !r->bad;
	free(r);
	return exact;
}

/* a = *q * b + *r as far as monomials show it; false if it is too large. */
static bool
split(Module *m, Node *a, Node *b, Node **q, Node **r)
{
	Poly *p = malloc(4 * sizeof *p), *d = p + 1, *quotient = p + 2, *rest = p + 3;
	bool ok;

	poly_of(p, a);
	poly_of(d, b);
	if (d->n == 1)
		split_by_term(p, &d->t[0], quotient, rest);
	else if (divide(p, d, quotient))
		rest->n = 0, rest->bad = false;
	else {
		quotient->n = 0, quotient->bad = false;
		*rest = *p;
	}
	ok = !quotient->bad && !rest->bad;
	if (ok) {
		*q = poly_node(m, quotient);
		*r = poly_node(m, rest);
	}
	free(p);
	return ok;
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

static int64_t
gcd(int64_t a, int64_t b)
{
	int64_t c;

	for (; b; a = b, b = c)
		c = a % b;
	return a < 0 ? -a : a;
}

/*
 * Where e is a multiple of g plus a rest in [0, g), and d is a multiple of g: e/g. The candidates
 * for g are the common factors of d and e's coefficients. NULL if there is none.
 */
static Node *
by_blocks(Module *m, Node *e, int64_t d, int64_t *g, Node **rest)
{
	Poly *p = malloc(3 * sizeof *p), *q = p + 1, *r = p + 2;
	Node *res = NULL;
	int i;

	poly_of(p, e);
	for (i = 0; i < p->n && !res; i++) {
		*g = gcd(d, p->t[i].c);
		if (*g <= 1 || p->t[i].nf == 0)
			continue;
		split_by_term(p, &(Term){.c = *g}, q, r);
		*rest = poly_node(m, r);
		if (is_intv(*rest, 0) || in_zero_to(m, *rest, x_idx(m, *g)))
			res = poly_node(m, q);
	}
	free(p);
	return res;
}

/* Dividing by zero gives 0: harmless, since a zero extent means that nothing is evaluated. */
Node *
index_divmod(Module *m, bool want_q, Node *a, Node *b)
{
	OpCode op = want_q ? O_FLOORDIV : O_MOD;
	Node *q, *r, *rest, *res;
	int64_t x, y;

	if (is_int(a, &x) && is_int(b, &y))
		return x_idx(m, want_q ? ifloordiv(x, y) : y ? x - y * ifloordiv(x, y) : 0);
	if (is_intv(b, 1))
		return want_q ? a : x_idx(m, 0);
	if (want_q && a->code == O_FLOORDIV && is_int(b, &x) && is_int(a->in[1], &y) && x > 0 && y > 0
	 && mul_ok(x, y, &x))
		return index_divmod(m, true, a->in[0], x_idx(m, x));
	if (!split(m, a, b, &q, &r))
		return raw2(m, op, a, b);
	if (in_zero_to(m, r, b) || is_intv(r, 0))
		return want_q ? q : r;
	if (is_int(b, &x) && x > 0 && (res = by_blocks(m, r, x, &y, &rest))) {
		res = index_divmod(m, want_q, res, x_idx(m, x / y));
		return want_q ? x_add(m, q, res) : x_add(m, x_muli(m, res, y), rest);
	}
	if (b->lo < 0)                               /* the divisor's sign is unknown: leave it */
		return raw2(m, op, a, b);
	if (!want_q)
		return r->code == O_MOD && r->in[1] == b ? r : raw2(m, O_MOD, r, b);
	res = raw2(m, O_FLOORDIV, r, b);
	return is_intv(q, 0) ? res : index_arith(m, O_ADD, q, res);
}

bool
linear_in(Module *m, Node *e, Node *axis, Node **coef, Node **rest)
{
	Poly *p, *c, *r;
	Term t;
	int i, k;
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
		for (k = 0; k < t.nf && t.f[k] != axis; k++)
			;
		if (k < t.nf)
			t = without_factor(&t, k);
		poly_add_term(t.nf < p->t[i].nf ? c : r, &t, 1);
		for (k = 0; k < t.nf && ok; k++)
			ok = !contains(t.f[k], axis);
	}
	ok = ok && !p->bad && !c->bad && !r->bad;
	if (ok) {
		*coef = poly_node(m, c);
		*rest = poly_node(m, r);
	}
	free(p);
	return ok;
}
