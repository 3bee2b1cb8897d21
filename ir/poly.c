/*
 * Index expressions as polynomials, and their numeric bounds. Bounds are found by replacing axes by
 * their extremes (an axis of extent N lies in [0, N-1]), which needs no number: i*M + j < N*M holds
 * for i < N, j < M whatever N and M are.
 */
#include <stdlib.h>
#include <string.h>
#include "poly.h"

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
	if (depth == 0 || a->nin != b->nin || a->nin == 0 || a->code == O_AXIS ||
		a->type->kind != T_SCALAR)
		return a->id < b->id ? -1 : 1;
	for (i = 0; i < a->nin && c == 0; i++)
		c = cmp_node(a->in[i], b->in[i], depth - 1);
	return c ? c : a->id < b->id ? -1 : 1;
}

bool
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

void
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

void
poly_add(Poly *p, const Poly *q, int64_t scale)
{
	int i;

	p->bad |= q->bad;
	for (i = 0; i < q->n && !p->bad; i++)
		poly_add_term(p, &q->t[i], scale);
}

bool
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

void
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

void
poly_of(Poly *p, Node *e)
{
	Poly *a, *b;

	switch (e->code) {
	case O_NUM:
		poly_one(p, &(Term){.c = e->num.i});
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
		break;                               /* too large: opaque */
	default:
		break;
	}
	poly_one(p, &(Term){.c = 1, .nf = 1, .f = {e}});
}

void
poly_one(Poly *p, const Term *t)
{
	p->n = 0;
	p->bad = false;
	poly_add_term(p, t, 1);
}

Term
without_factor(const Term *t, int k)
{
	Term r = *t;

	memmove(&r.f[k], &r.f[k + 1], sizeof *r.f * (size_t)(--r.nf - k));
	return r;
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

void
sharpen(Node *e, const Poly *p)
{
	int64_t v;

	if (poly_bound(p, false, &v))
		e->lo = imax(e->lo, v);
	if (poly_bound(p, true, &v))
		e->hi = imin(e->hi, v);
}

Node *
poly_node(Module *m, const Poly *p)
{
	Node *e = NULL;
	int i;

	if (p->n == 0)
		return x_idx(m, 0);
	for (i = 0; i < p->n && p->t[i].c < 0; i++)    /* begin with a positive term, if there is one */
		;
	if (i == p->n)
		i = 0;
	e = term_node(m, &p->t[i], p->t[i].c);
	for (int k = 0; k < p->n; k++)
		if (k != i)
			e = raw2(m, p->t[k].c < 0 ? O_SUB : O_ADD, e,
				term_node(m, &p->t[k], p->t[k].c < 0 ? -p->t[k].c : p->t[k].c));
	if (e->code == O_ADD || e->code == O_SUB)
		sharpen(e, p);
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

/* A monomial c * axis * rest with rest >= 0 and an extent that is no number, *k the axis; or
 * p->n. */
static int
symbolic_axis(const Poly *p, int *k)
{
	const Term *t;
	int i;

	for (i = 0; i < p->n; i++)
		for (t = &p->t[i], *k = 0; *k < t->nf; ++*k)
			if (t->f[*k]->code == O_AXIS && t->f[*k]->in[0]->code != O_NUM && rest_nonneg(t, *k))
				return i;
	return p->n;
}

/* Puts an extreme of the monomial in its place: c * (extent - 1) * rest, or 0. */
static void
to_extreme(Poly *p, int i, int k, bool upper)
{
	Term t = without_factor(&p->t[i], k);
	Node *axis = p->t[i].f[k];
	Poly *w;

	memmove(&p->t[i], &p->t[i + 1], sizeof(Term) * (size_t)(--p->n - i));
	if ((t.c > 0) != upper)
		return;
	w = malloc(3 * sizeof *w);
	poly_of(w, axis->in[0]);
	poly_add_term(w, &(Term){.c = 1}, -1);
	poly_one(w + 1, &t);
	poly_mul(w + 2, w + 1, w);
	poly_add(p, w + 2, 1);
	free(w);
}

static bool
bound_by_ranges(const Poly *p, bool upper, int64_t *v)
{
	int64_t sum = 0, lo, hi;
	int i, k;

	for (i = 0; i < p->n; i++) {
		lo = hi = p->t[i].c;
		for (k = 0; k < p->t[i].nf; k++)
			mul_range(lo, hi, p->t[i].f[k]->lo, p->t[i].f[k]->hi, &lo, &hi);
		sum = sat_add(sum, upper ? hi : lo);
		if (sum == INT64_MAX || sum == INT64_MIN)
			return false;
	}
	*v = sum;
	return true;
}

/*
 * Axes with a symbolic extent are first replaced by their extremes, which lets N cancel; then
 * ranges bound the rest. Each replaced axis is gone, so this ends.
 */
bool
poly_bound(const Poly *p0, bool upper, int64_t *v)
{
	Poly *p = malloc(sizeof *p);
	int i, k, rounds;
	bool ok;

	*p = *p0;
	for (rounds = 0; rounds < 12 && !p->bad && (i = symbolic_axis(p, &k)) < p->n; rounds++)
		to_extreme(p, i, k, upper);
	ok = !p->bad && bound_by_ranges(p, upper, v);
	free(p);
	return ok;
}

bool
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
