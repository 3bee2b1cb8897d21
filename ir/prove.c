/* Proofs of a < b, a <= b, a == b for index expressions: bounds of the difference, and cases. */
#include <stdlib.h>
#include "poly.h"

enum { PROOF_DEPTH = 6 };

static bool prove(Module *, Node *a, Node *b, bool strict, int depth);

/* A factor of a term, which a proof replaces: the term is alone with it, or it is a name. */
typedef struct Atom { Node *n; int64_t c; } Atom;

static bool
both_sides(const Atom *x)
{
	return x->n->code == O_SELECT || (x->n->code == O_MIN) == (x->c < 0);
}

/* What to replace first: names, what needs both of its sides, what needs one, quotients (the
 * largest). */
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
 * rest + c floor(n/k) < 0 or <= 0 with the quotient bounded by its operand: (n - k + 1)/k <= it <=
 * n/k. Everything is multiplied by k; a strict bound d <= -1 becomes k d <= -k.
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
 * min's sides, and is needed that both of max's and select's, satisfies it (and the reverse where
 * it is subtracted). A name stands for what it names.
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
	/* q < b if q*d < b*d; q <= b if q < b + 1 */
	if (a->code == O_FLOORDIV && a->in[1]->lo > 0) {
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

/* A proof makes terms, and making them asks for proofs: those look at ranges only, or they would
 * multiply. */
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
