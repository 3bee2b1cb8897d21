/*
 * Expressions as C text.
 *
 * An expression is a DAG, and select evaluates only its chosen side, which may guard loads. What
 * a statement uses more than once becomes a constant before it, in the right scope: scope 0 is
 * the statement itself, and each side of a select that loads is a scope of its own. A node with
 * no load in it may be evaluated anywhere and goes to scope 0. One with a load goes where its
 * evaluation is certain: a scope that uses it directly, or one in which both sides of a select
 * use it; if only different guards reach it, it has an instance under each of them. A select with
 * constants inside a side is printed as an if statement that sets a variable.
 *
 * Analysis: operands before users (topological order) in `info`; backwards over it, uses become
 * instances; forwards, instances become named constants or stay in place.
 */
#include <stdlib.h>
#include <string.h>

#include "codegen/cprint.h"

enum { MAX_WEIGHT = 12, MAX_INSTANCES = 64 };

static void *grow(void *at, int n, int *cap, size_t size)
{
	if (n < *cap)
		return at;
	*cap = *cap ? 2 * *cap : 64;
	at = realloc(at, (size_t)*cap * size);
	if (!at)
		abort();
	return at;
}

/* ---- analysis -------------------------------------------------------------------------------- */

bool cx_leaf(const Node *n)
{
	switch (n->code) {
	case O_NUM: case O_AXIS: case O_SYM: case O_LET: case O_CALL: case O_CARRY: case O_BUFFER:
		return true;
	default:
		return false;
	}
}

/* Operands that are expressions: not the buffer of a load, not buffer and axis of a fold; none of
 * what is the lane of an array. */
static int first_operand(CFn *c, const Node *n)
{
	if (map_get(&c->lanes, n))
		return n->nin;
	return n->code == O_LOAD ? 1 : n->code == O_FOLD ? 2 : 0;
}

static int info_of(CFn *c, const Node *n)
{
	return (int)(intptr_t)map_get(&c->infos, n) - 1;
}

static int info_new(CFn *c, Node *n)
{
	c->info = grow(c->info, c->ninfo, &c->capinfo, sizeof *c->info);
	c->info[c->ninfo] = (CInfo){ .n = n, .inst = -1 };
	map_put(&c->infos, n, (void *)(intptr_t)(c->ninfo + 1));
	return c->ninfo++;
}

/* Numbers the nodes below root, operands first, without recursion. */
static void order(CFn *c, Node *root)
{
	typedef struct Frame { Node *n; int next; } Frame;
	Frame *stack = NULL;
	int n = 0, cap = 0;

	if (cx_leaf(root) || map_get(&c->infos, root))
		return;
	stack = grow(stack, n, &cap, sizeof *stack);
	stack[n++] = (Frame){ root, first_operand(c, root) };
	while (n) {
		Frame *f = &stack[n - 1];
		if (f->next == f->n->nin) {
			if (!map_get(&c->infos, f->n))
				info_new(c, f->n);
			n--;
			continue;
		}
		Node *o = f->n->in[f->next++];
		if (cx_leaf(o) || map_get(&c->infos, o))
			continue;
		stack = grow(stack, n, &cap, sizeof *stack);
		stack[n++] = (Frame){ o, first_operand(c, o) };
	}
	free(stack);
}

static int scope_new(CFn *c, int parent, int owner)
{
	c->scope = grow(c->scope, c->nscope, &c->capscope, sizeof *c->scope);
	c->scope[c->nscope] = (CScope){ .parent = parent, .owner = owner,
		.depth = parent < 0 ? 0 : c->scope[parent].depth + 1 };
	return c->nscope++;
}

static bool scope_inside(CFn *c, int s, int outer)
{
	while (c->scope[s].depth > c->scope[outer].depth)
		s = c->scope[s].parent;
	return s == outer;
}

bool cx_impure(CFn *c, const Node *n)
{
	return !cx_leaf(n) && c->info[info_of(c, n)].impure;
}

static void mark_impure(CFn *c, CInfo *i)
{
	const Node *n = i->n;
	i->impure = (n->code == O_LOAD && !map_get(&c->lanes, n)) || n->code == O_BOUND;
	if (n->code == O_FOLD)
		return;
	for (int k = first_operand(c, n); k < n->nin && !i->impure; k++)
		i->impure = cx_impure(c, n->in[k]);
}

static void use(CFn *c, Node *n, int scope)
{
	if (cx_leaf(n))
		return;
	CInfo *i = &c->info[info_of(c, n)];
	if (!i->impure)
		scope = 0;
	for (int k = i->inst; k >= 0; k = c->inst[k].next)
		if (c->inst[k].scope == scope) {
			c->inst[k].uses++;
			return;
		}
	c->inst = grow(c->inst, c->ninst, &c->capinst, sizeof *c->inst);
	c->inst[c->ninst] = (CInst){ .n = n, .scope = scope, .uses = 1, .next = i->inst,
		.then_scope = -1, .else_scope = -1 };
	i->inst = c->ninst++;
}

/* Takes instance b out of the list of i, giving its uses to a. */
static void merge(CFn *c, CInfo *i, int a, int b)
{
	c->inst[a].uses += c->inst[b].uses;
	for (int *p = &i->inst; *p >= 0; p = &c->inst[*p].next)
		if (*p == b) {
			*p = c->inst[b].next;
			return;
		}
}

/* One step of reducing the instances: an instance inside another's scope is the same evaluation;
 * two under both sides of one select are one before it. */
static bool settle_step(CFn *c, CInfo *i)
{
	for (int a = i->inst; a >= 0; a = c->inst[a].next)
		for (int b = i->inst; b >= 0; b = c->inst[b].next) {
			if (a == b)
				continue;
			int sa = c->inst[a].scope, sb = c->inst[b].scope;
			if (scope_inside(c, sb, sa)) {
				merge(c, i, a, b);
				return true;
			}
			if (c->scope[sa].owner >= 0 && c->scope[sa].owner == c->scope[sb].owner) {
				c->inst[a].scope = c->scope[sa].parent;
				merge(c, i, a, b);
				return true;
			}
		}
	return false;
}

/* A minimum or maximum that min_max prints as a comparison. */
static bool min_max_of_const(CFn *c, const Node *n)
{
	return !c->f->gpu && (n->code == O_MIN || n->code == O_MAX) && dt_float(n->type->dtype) &&
		(n->in[0]->code == O_NUM || n->in[1]->code == O_NUM);
}

static void spread_uses(CFn *c, int k)
{
	Node *n = c->inst[k].n;
	int scope = c->inst[k].scope;
	bool lazy = n->code == O_SELECT && !map_get(&c->lanes, n) &&
		(cx_impure(c, n->in[1]) || cx_impure(c, n->in[2]));

	for (int j = first_operand(c, n); j < n->nin; j++) {
		int s = scope;
		if (lazy && j > 0) {
			s = scope_new(c, scope, k);
			*(j == 1 ? &c->inst[k].then_scope : &c->inst[k].else_scope) = s;
		}
		use(c, n->in[j], s);
		if (min_max_of_const(c, n))
			use(c, n->in[j], s);     /* it is printed twice */
	}
}

/* Small index arithmetic reads better, and costs no more, when it is repeated. */
static bool cheap(const CInfo *i)
{
	return i->weight <= 2 && i->n->type->dtype == DT_INDEX && !i->impure && i->n->code != O_CAST;
}

static bool side_is_block(CFn *c, int scope)
{
	return scope >= 0 && c->scope[scope].nbound > 0;
}

static bool wants_name(CFn *c, const CInfo *i, const CInst *t)
{
	if (i->n->code == O_FOLD || side_is_block(c, t->then_scope) || side_is_block(c, t->else_scope))
		return true;
	return t->uses > 1 ? !cheap(i) : i->weight > MAX_WEIGHT;
}

const char *cx_base(const Node *n)
{
	if (n->code == O_LOAD && n->in[0]->name)
		return n->in[0]->name;
	return n->code == O_FOLD ? comb_names[n->n] : "t";
}

static void name_instances(CFn *c, CInfo *i, bool root)
{
	int weight = 1;
	for (int k = first_operand(c, i->n); k < i->n->nin; k++)
		if (!cx_leaf(i->n->in[k])) {
			CInfo *o = &c->info[info_of(c, i->n->in[k])];
			weight += o->inst >= 0 && c->inst[o->inst].name ? 1 : o->weight;
		} else {
			weight++;
		}
	i->weight = weight;
	for (int k = i->inst; k >= 0; k = c->inst[k].next) {
		CInst *t = &c->inst[k];
		if ((root && t->uses == 1 && t->scope == 0 &&
				!side_is_block(c, t->then_scope) && !side_is_block(c, t->else_scope)) ||
				!wants_name(c, i, t))
			continue;
		t->name = cfn_name(c, cx_base(i->n), true);
		CScope *s = &c->scope[t->scope];
		s->bound = grow(s->bound, s->nbound, &s->capbound, sizeof *s->bound);
		s->bound[s->nbound++] = k;
	}
}

static void print_scope(CFn *, int scope);

void cx_begin(CFn *c, int n, Node *const *exprs)
{
	scope_new(c, -1, -1);
	for (int k = 0; k < n; k++)
		order(c, exprs[k]);
	for (int k = 0; k < c->ninfo; k++)
		mark_impure(c, &c->info[k]);
	for (int k = 0; k < n; k++)
		use(c, exprs[k], 0);
	for (int k = c->ninfo - 1; k >= 0; k--) {
		int count = 0;
		while (settle_step(c, &c->info[k]))
			;
		for (int t = c->info[k].inst; t >= 0; t = c->inst[t].next, count++)
			spread_uses(c, t);
		if (count > MAX_INSTANCES) {
			cfile_error(c->f, "an expression whose loads stand under too many guards");
			break;
		}
	}
	for (int k = 0; k < c->ninfo; k++) {
		bool root = false;
		for (int r = 0; r < n; r++)
			root = root || exprs[r] == c->info[k].n;
		name_instances(c, &c->info[k], root);
	}
	c->at = 0;
	print_scope(c, 0);
}

void cx_end(CFn *c)
{
	for (int k = 0; k < c->nscope; k++)
		free(c->scope[k].bound);
	c->ninfo = c->ninst = c->nscope = 0;
	map_free(&c->infos);
	c->infos = (Map){ 0 };
}

/* The instance of a node that is in force in a scope. */
CInst *cx_inst(CFn *c, const Node *n, int scope)
{
	int i = info_of(c, n);
	for (int k = i < 0 ? -1 : c->info[i].inst; k >= 0; k = c->inst[k].next)
		if (scope_inside(c, scope, c->inst[k].scope))
			return &c->inst[k];
	return NULL;
}

/* ---- named constants ------------------------------------------------------------------------- */

static void print_side(CFn *c, const CInst *t, int scope, Node *value)
{
	int at = c->at;

	c->indent++;
	if (scope >= 0) {
		c->at = scope;
		print_scope(c, scope);
	}
	cfn_indent(c);
	fprintf(c->o, "%s = ", t->name);
	cx(c, value, P_NONE);
	fputs(";\n", c->o);
	c->at = at;
	c->indent--;
}

/* A select with constants in its sides. */
static void print_if(CFn *c, CInst t)
{
	cfn_line(c, "%s %s;", ctype(c, t.n), t.name);
	cfn_indent(c);
	fputs("if (", c->o);
	cx(c, t.n->in[0], P_NONE);
	fputs(") {\n", c->o);
	print_side(c, &t, t.then_scope, t.n->in[1]);
	cfn_line(c, "} else {");
	print_side(c, &t, t.else_scope, t.n->in[2]);
	cfn_line(c, "}");
}

static void print_scope(CFn *c, int scope)
{
	for (int k = 0; k < c->scope[scope].nbound; k++) {
		int i = c->scope[scope].bound[k];
		CInst t = c->inst[i];
		if (side_is_block(c, t.then_scope) || side_is_block(c, t.else_scope)) {
			print_if(c, t);
			continue;
		}
		cfn_indent(c);
		fprintf(c->o, "const %s %s = ", ctype(c, t.n), t.name);
		cx_spell(c, t.n, P_NONE);
		fputs(";\n", c->o);
	}
}
