/*
 * simplify: the rewrite rules (rules.def) at graph level, to a fixpoint. Needs graph level; leaves
 * it. Definitions are not entered: what an operator is made of is the row's business.
 *
 * Sweeps go from operands to users, so a rule sees operands as simple as they become; what a
 * replacement is made of is looked at in the next sweep. Inexact rules stand in the precision
 * ledger, once for each place.
 */
#include <float.h>
#include <stdlib.h>
#include "rules.h"

enum { MAX_SWEEPS = 12, MAX_STEPS = 16 };

typedef struct Sweep {
	Graph g;               /* of the new graph */
	Graph old;             /* its nodes are those of the graph, not of definitions */
	Pattern **pattern;     /* ended by NULL */
	bool changed;
} Sweep;

/* ---- preparing ------------------------------------------------------------------------------ */

static Pattern **
parse_rules(Module *m)
{
	Pattern **list;
	int n, k = 0;

	for (n = 0; rules[n].name; n++)
		;
	list = NEWN(m, Pattern *, n + 1);
	for (n = 0; rules[n].name; n++)
		if ((rules[n].cls == RULE_EXACT || !m->strict)
		 && (list[k] = pattern_parse(m, &rules[n])))
			k++;
	return list;
}

/* ---- rewriting ------------------------------------------------------------------------------ */

/* The operator on new operands. Its type stays: sizes that data decide keep their symbols, since
 * then the definition is rewritten instead of made anew. */
static Node *
renewed(Module *m, Node *n, Node **in, Map *done)
{
	Diag quiet = {0}, *diag = m->diag;
	int requires = m->requires.n;
	Node *r = NULL;

	if (n->code == O_GRAPH && !n->nregions) {
		m->diag = &quiet;
		r = graph_op(m, n->op, n->nin, in, n->attrs, n->n ? (int)n->n : 1, 0, NULL, n->loc);
		m->diag = diag;
		m->requires.n = requires;
	}
	return r && r->type == map_type(m, n->type, done) ? r : rebuild_node(m, n, in, done);
}

/* What the node is by its definition: one of its operands (casts to the same type, slices of all, a
 * product with 1 ...), or a result of the branch that is known to be taken. */
static Node *
forwarded(Node *n)
{
	Node *d = n->def, *op = n->code == O_RESULT ? n->in[0] : n;
	int i, k;

	if (!d || d->type != n->type || d == n)
		return NULL;
	for (i = 0; i < op->nin; i++)
		if (op->in[i] == d)
			return d;
	for (i = 0; i < op->nregions && definition(op)->code == O_TUPLE; i++)
		for (k = 0; k < op->regions[i]->nresults; k++)
			if (op->regions[i]->results[k] == d)
				return d;
	return NULL;
}

double
ulp_of(DType t)
{
	return t == DT_F64 ? DBL_EPSILON : t == DT_F16 ? 0x1p-10 : t == DT_BF16 ? 0x1p-7
		: FLT_EPSILON;
}

/* A simpler node of the same value, or NULL. */
static Node *
step(Sweep *s, Node *n)
{
	Module *m = s->g.m;
	const Loc *loc;
	Pattern **p;
	Node *r;

	if ((r = forwarded(n)))
		return r;
	for (p = s->pattern; *p; p++) {
		if (!(r = rule_apply(&s->g, *p, n, &loc)))
			continue;
		if (r->code == O_GRAPH)
			r->loc = loc_union(m, r->loc, loc);
		if ((*p)->rule->cls != RULE_EXACT)
			ledger_add(m, (*p)->rule->name, rule_classes[(*p)->rule->cls],
				(*p)->rule->ulp * ulp_of(dtype_of(n)), loc);
		return r;
	}
	return NULL;
}

static Node *
simplify_node(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Sweep *s = ctx;
	Node *t = n, *r;
	int i;

	if (n->code == O_CONST)
		graph_use(&s->g, n, graph_uses(&s->old, n));
	if (!graph_has(&s->old, n) || (n->code != O_GRAPH && n->code != O_RESULT) || n->nregions)
		return NULL;
	for (i = 0; i < n->nin && in[i] == n->in[i]; i++)
		;
	if (i < n->nin)
		t = renewed(m, n, in, done);
	for (i = 0; i < MAX_STEPS && t->type->kind == T_TENSOR && (r = step(s, t)); i++) {
		t = r;
		s->changed = true;
	}
	graph_use(&s->g, t, graph_uses(&s->old, n));
	graph_known(&s->g, t);           /* operands first: asked later, it need not go deep */
	return t;
}

static bool
sweep(Module *m, Pattern **pattern)
{
	Sweep s = {.g = {.m = m}, .old = {.m = m}, .pattern = pattern};

	graph_count(&s.old, m->main->results, m->main->nresults);
	rewrite_module(m, false, simplify_node, &s);
	graph_free(&s.g);
	graph_free(&s.old);
	return s.changed;
}

bool
pass_simplify(Module *m)
{
	Pattern **pattern = parse_rules(m);
	int i;

	for (i = 0; i < MAX_SWEEPS && !m->diag->errors && sweep(m, pattern); i++)
		;
	return m->diag->errors == 0;
}
