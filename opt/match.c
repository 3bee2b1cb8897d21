/*
 * Matching a rule's pattern at a node, and building what stands for it.
 *
 * Goals are solved in order, each choice tried before the next: a goal is one pattern and the node
 * it must match, or several factors of a product (terms of a sum) and the node that must be made of
 * them, in any order and grouping. What depends on constants alone is a constant here, however it
 * is spelled: folding computes it. Values inside of the pattern must have no user outside of it:
 * else they would be computed twice.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "rules.h"

enum { MAX_TERMS = 6, MAX_MATCHED = 64 };

typedef struct Goal {
	Pat *const *pats;
	int n;                 /* 1, or terms joined by op */
	const Op *op;
	Node *node;            /* NULL: an absent operand */
	const struct Goal *next;
} Goal;

typedef struct Match {
	Asked a;
	const Pattern *p;
	Node *root;
	Value val[MAX_SLOTS];
	bool set[MAX_SLOTS];
	Node *node[MAX_PATS];
	Node *matched[MAX_MATCHED];
	int nmatched;
	Node *result;
} Match;

static bool solve(Match *, const Goal *);

/* ---- what is known of values ---------------------------------------------------------------- */

bool
graph_has(const Graph *g, const Node *n)
{
	return map_get(&g->uses, n) != NULL;
}

intptr_t
graph_uses(const Graph *g, const Node *n)
{
	intptr_t k = (intptr_t)map_get(&g->uses, n);

	return k ? k - 1 : 0;
}

void
graph_use(Graph *g, const Node *n, intptr_t more)
{
	if (n)
		map_put(&g->uses, n, (void *)(graph_uses(g, n) + more + 1));
}

void
graph_count(Graph *g, Node *const *roots, int nroots)
{
	Node **list;
	int i, k, j, n;

	list = topo(roots, nroots, false, &n);
	for (i = 0; i < n; i++) {
		graph_use(g, list[i], 0);
		for (k = 0; k < list[i]->nin; k++)
			graph_use(g, list[i]->in[k], 1);
		for (k = 0; k < list[i]->nregions; k++)
			for (j = 0; list[i]->regions[k] && j < list[i]->regions[k]->nresults; j++)
				graph_use(g, list[i]->regions[k]->results[j], 1);
	}
	for (i = 0; i < nroots; i++)
		graph_use(g, roots[i], 1);
	free(list);
}

void
graph_free(Graph *g)
{
	map_free(&g->uses);
	map_free(&g->known);
}

bool
graph_known(Graph *g, Node *n)
{
	void *r = map_get(&g->known, n);
	bool ok;
	int i;

	if (r)
		return r == n;
	ok = n->code == O_CONST
		|| ((n->code == O_GRAPH || n->code == O_RESULT) && n->nin && !n->nregions);
	for (i = 0; i < n->nin && ok; i++)
		ok = !n->in[i] || (n->in[i]->type->kind != T_SCALAR && graph_known(g, n->in[i]));
	map_put(&g->known, n, ok ? (void *)n : g);
	return ok;
}

/* The number of a pattern as a value of the type; about: within 4 units in the last place, those of
 * f32 in f64, whose constants often come from there. */
static bool
is_number(const Pat *p, const Node *n)
{
	DType t = n->type->dtype;
	Num v, want;
	double ulp;

	if (!uniform_value(n, &v))
		return false;
	if (!dt_float(t)) {
		want = num_cast(t, DT_F64, (Num){.f = p->num});
		return dtypes[t].cls != 'C' && p->num == nearbyint(p->num) && v.i == want.i;
	}
	want = num_round(t, p->num);
	if (!p->about)
		return v.f == want.f && !signbit(v.f) == !signbit(p->num);
	ulp = t == DT_F64 || t == DT_F32 ? 0x1p-22 : t == DT_F16 ? 0x1p-9 : 0x1p-6;
	return fabs(v.f - p->num) <= ulp * fabs(p->num);
}

/* ---- matching ------------------------------------------------------------------------------- */

static bool
same_value(const Value *a, const Value *b)
{
	if (a->k != b->k)
		return false;
	switch (a->k) {
	case V_NODE: return a->n == b->n;
	case V_INT: return a->i == b->i;
	case V_FLT: return memcmp(&a->f, &b->f, sizeof a->f) == 0;
	case V_STR: return strcmp(a->s, b->s) == 0;
	case V_INTS: return a->count == b->count
		&& memcmp(a->is, b->is, sizeof *a->is * (size_t)a->count) == 0;
	case V_ATTRS: return a->attrs == b->attrs;
	default: return true;
	}
}

/* Gives the slot a value, or compares; *made: to be taken back. */
static bool
bind(Match *x, int slot, Value v, bool *made)
{
	*made = !x->set[slot];
	if (!*made)
		return same_value(&x->val[slot], &v);
	x->set[slot] = true;
	x->val[slot] = v;
	return true;
}

static Value
attr_value(const Attr *a)
{
	if (!a)
		return (Value){.k = V_NONE};
	switch (a->kind) {
	case A_INT: return (Value){.k = V_INT, .i = a->i, .f = (double)a->i};
	case A_FLOAT: return (Value){.k = V_FLT, .f = a->f};
	case A_STR: return (Value){.k = V_STR, .s = a->s};
	case A_INTS: return (Value){.k = V_INTS, .count = a->n, .is = a->is};
	default: return (Value){.k = V_NONE};
	}
}

static const PatAttr *
named(const Pat *p, const char *name)
{
	int i;

	for (i = 0; i < p->nattrs; i++)
		if (strcmp(p->attr[i].name, name) == 0)
			return &p->attr[i];
	return NULL;
}

/* Attributes that the pattern does not name: anything with a rest, else their defaults. */
static bool
others_default(const Pat *p, const Node *n)
{
	const Sig *s = op_sig(p->op);
	const Attr *a;
	Value v, d;
	int i;

	for (i = 0; i < s->nattrs; i++) {
		if (named(p, s->attrs[i].name) || !(a = attr_find(n->attrs, s->attrs[i].name)))
			continue;
		v = attr_value(a);
		d = attr_value(s->attrs[i].has_default ? &s->attrs[i].value : NULL);
		if (v.k == V_NONE || !same_value(&v, &d))
			return false;
	}
	return true;
}

static bool
match_attrs(Match *x, const Pat *p, const Node *n, bool *made)
{
	Value v;
	int i;

	if (p->rest < 0 && !others_default(p, n))
		return false;
	v = (Value){.k = V_ATTRS, .attrs = n->attrs};
	if (p->rest >= 0 && !bind(x, p->rest, v, &made[p->nattrs]))
		return false;
	for (i = 0; i < p->nattrs; i++) {
		v = attr_value(attr_find(n->attrs, p->attr[i].name));
		if (p->attr[i].slot >= 0 ? !bind(x, p->attr[i].slot, v, &made[i])
		    : !(same_value(&v, &p->attr[i].v) || (v.k == V_FLT && v.f == p->attr[i].v.f)))
			return false;
	}
	return true;
}

static void
forget_attrs(Match *x, const Pat *p, const bool *made)
{
	int i;

	for (i = 0; i < p->nattrs; i++)
		if (made[i])
			x->set[p->attr[i].slot] = false;
	if (p->rest >= 0 && made[p->nattrs])
		x->set[p->rest] = false;
}

/* Marks the node, and a first result's operator, as part of what is replaced. */
static bool
take(Match *x, Node *n)
{
	int i;

	for (i = 0; i < x->nmatched && x->matched[i] != n; i++)
		;
	if (i == MAX_MATCHED)
		return false;
	if (i == x->nmatched)
		x->matched[x->nmatched++] = n;
	return n->code != O_RESULT || take(x, n->in[0]);
}

/* The operator whose (first) result the node is. */
static Node *
operator_of(Node *n)
{
	return n->code == O_RESULT && n->n == 0 ? n->in[0] : n;
}

/* The pattern's operands each with its node, then what follows. */
static bool
match_operands(Match *x, const Pat *p, Node *n, const Goal *next)
{
	Goal g[64];
	int i;

	for (i = n->nin > p->nargs ? n->nin : p->nargs; i-- > 0;) {
		Node *in = i < n->nin ? n->in[i] : NULL;
		if (i >= p->nargs) {
			if (in)
				return false;
			continue;
		}
		g[i] = (Goal){&p->arg[i], 1, NULL, in, next};
		next = &g[i];
	}
	return solve(x, next);
}

/* The factors of a product in the pattern, or its two operands. */
static int
terms(const Match *x, Pat *p, bool associative, Pat **out, int n)
{
	bool real = x->p->rule->cls != RULE_EXACT;
	int i;

	for (i = 0; i < 2; i++)
		if (real && associative && p->arg[i]->kind == PAT_CALL && p->arg[i]->op == p->op
		 && !p->arg[i]->shared && n < MAX_TERMS - 2)
			n = terms(x, p->arg[i], associative, out, n);
		else
			out[n++] = p->arg[i];
	return n;
}

static bool
match_call(Match *x, Pat *p, Node *n, const Goal *next)
{
	Node *op = operator_of(n);
	bool made[MAX_PAT_ARGS + 1] = {false}, associative, ok;
	Pat *list[MAX_TERMS];
	Goal g;
	int kept = x->nmatched;

	if (x->node[p->id])
		return x->node[p->id] == n && solve(x, next);
	if (op->op != p->op || op->nregions || op->nin > 60 || graph_known(x->a.graph, op))
		return false;
	ok = match_attrs(x, p, op, made);
	x->node[p->id] = n;
	if (ok && op_commutes(p->op, &associative)) {
		g = (Goal){list, terms(x, p, associative, list, 0), p->op, n, next};
		ok = solve(x, &g);
	} else if (ok) {
		ok = take(x, n) && match_operands(x, p, op, next);
	}
	if (!ok) {
		x->node[p->id] = NULL;
		x->nmatched = kept;
		forget_attrs(x, p, made);
	}
	return ok;
}

/* The terms parted in two for the node's operands, in every way. */
static bool
match_terms(Match *x, const Goal *goal)
{
	Pat *part[2][MAX_TERMS];
	Goal left, right;
	int kept = x->nmatched, mask, i, n[2];
	Node *node = goal->node;

	if (node->op != goal->op || graph_known(x->a.graph, node) || !take(x, node))
		return false;
	for (mask = 1; mask < (1 << goal->n) - 1; mask++) {
		for (i = 0, n[0] = n[1] = 0; i < goal->n; i++)
			part[mask >> i & 1][n[mask >> i & 1]++] = goal->pats[i];
		right = (Goal){part[0], n[0], goal->op, node->in[1], goal->next};
		left = (Goal){part[1], n[1], goal->op, node->in[0], &right};
		if (solve(x, &left))
			return true;
	}
	x->nmatched = kept;
	return false;
}

static bool
match_name(Match *x, Pat *p, Node *n, const Goal *next)
{
	Value v = {.k = n ? V_NODE : V_NONE, .n = n};
	bool made;

	if ((!n && !p->optional) || (n && p->kind == PAT_KNOWN && !graph_known(x->a.graph, n)))
		return false;
	if (bind(x, p->slot, v, &made) && solve(x, next))
		return true;
	if (made)
		x->set[p->slot] = false;
	return false;
}

static bool accept(Match *);

static bool
solve(Match *x, const Goal *g)
{
	Pat *p;

	if (!g)
		return accept(x);
	if (g->n > 1)
		return match_terms(x, g);
	p = g->pats[0];
	if (p->kind == PAT_ANY || p->kind == PAT_KNOWN)
		return match_name(x, p, g->node, g->next);
	if (!g->node)
		return false;
	if (p->kind == PAT_NUM)
		return is_number(p, g->node) && solve(x, g->next);
	return match_call(x, p, g->node, g->next);
}

/* ---- accepting ------------------------------------------------------------------------------ */

/* Is what was matched used by nothing else, but for the root? */
static bool
closed(const Match *x)
{
	intptr_t inside;
	int i, j, k;

	for (i = 0; i < x->nmatched; i++) {
		if (x->matched[i] == x->root)
			continue;
		for (j = 0, inside = 0; j < x->nmatched; j++)
			for (k = 0; k < x->matched[j]->nin; k++)
				inside += x->matched[j]->in[k] == x->matched[i];
		if (inside != graph_uses(x->a.graph, x->matched[i]))
			return false;
	}
	return true;
}

static int
variables(const Match *x, Var *v)
{
	int i;

	for (i = 0; i < x->p->nslots; i++)
		v[i] = (Var){x->p->name[i], (size_t)x->p->len[i],
			x->set[i] ? x->val[i] : (Value){0}};
	return x->p->nslots;
}

static bool
accept(Match *x)
{
	const Rule *rule = x->p->rule;
	Var vars[MAX_SLOTS];
	Value v = {0};
	int n = variables(x, vars), i;

	if (!closed(x))
		return false;
	if (*rule->condition) {
		if (body_values(&x->a.build, rule->condition, n, vars, fact, &v, 1) != 1)
			return false;
		if (v.k == V_NODE || v.i == 0)
			return false;
	}
	for (i = x->nmatched, x->a.build.loc = NULL; i-- > 0;)
		x->a.build.loc = loc_union(x->a.build.m, x->a.build.loc, x->matched[i]->loc);
	if (body_values(&x->a.build, rule->replacement, n, vars, fact, &v, 1) != 1 || v.k != V_NODE
	 || v.n->type != x->root->type || v.n == x->root)
		return false;
	x->result = v.n;
	return true;
}

Node *
rule_apply(Graph *g, const Pattern *p, Node *n, const Loc **loc)
{
	static const Op op = {.name = "a rewrite rule"};
	Module *m = g->m;
	Match x = {.a = {{.m = m, .op = &op}, g}, .p = p, .root = n};
	Goal goal = {&p->root, 1, NULL, n, NULL};
	Diag quiet = {0}, *diag = m->diag;
	int requires = m->requires.n;

	if (operator_of(n)->op != p->root->op)
		return NULL;
	m->diag = &quiet;
	solve(&x, &goal);
	m->diag = diag;
	m->requires.n = requires;                        /* the pattern has required them already */
	if (!x.result)
		return NULL;
	*loc = x.a.build.loc;
	return x.result;
}
