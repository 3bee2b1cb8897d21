/*
 * Control flow that the import itself decides: an If whose condition is known, or can be chosen by
 * what the rest of the graph takes; a Loop of few rounds that differ.
 */
#include <stdlib.h>
#include <string.h>

#include "frontend/import.h"

/* ---- conditions known at compile time ------------------------------------------------------- */

static const OnnxGraph *branch_of(const OnnxNode *n, bool yes)
{
	for (int i = 0; i < n->nattr; i++)
		if (n->attr[i].kind == OA_GRAPH
				&& !strcmp(n->attr[i].name, yes ? "then_branch" : "else_branch"))
			return n->attr[i].g[0];
	return NULL;
}

/* The value of a tensor's only element, if it is known. */
static bool element_known(Import *im, Node *t, int64_t *v)
{
	Node *zero[MAX_RANK];

	if (t->type->kind != T_TENSOR)
		return false;
	for (int i = 0; i < rank_of(t); i++) {
		if (!is_intv(dim_of(t, i), 1))
			return false;
		zero[i] = x_idx(im->m, 0);
	}
	return is_int(x_read(im->m, t, zero), v);
}

/* The branch that an If takes, if that is known; the other one may be nonsense for these shapes. */
const OnnxGraph *taken_branch(Import *im, const OnnxNode *n, Node *cond)
{
	const Choice *c;
	int64_t v;

	for (c = im->choices; c; c = c->next)
		if (c->node == n)
			return branch_of(n, c->yes);
	if (*n->domain || strcmp(n->op, "If") || !cond || cond->type->kind != T_TENSOR
			|| dtype_of(cond) != DT_BOOL || !element_known(im, cond, &v))
		return NULL;
	const OnnxGraph *g = branch_of(n, v != 0);
	return g && g->nin == 0 ? g : NULL;
}

/* False: an If in it is open. */
bool import_branch(Import *im, const OnnxNode *n, const OnnxGraph *g, Env *e)
{
	Env inner = { .up = e };

	bind_initializers(im, g, &inner);
	if (!import_nodes(im, g, &inner, 0, true))
		return false;
	for (int i = 0; i < n->nout; i++)
		env_bind(im, e, n->out[i], i < g->nout ? env_lookup(&inner, g->out[i].name) : NULL);
	if (n->nout > g->nout)
		node_error(im->om, n, X_INVALID, "it has %d outputs, its %s %d", n->nout, g->attr, g->nout);
	return true;
}

/* ---- loops that are not the same from round to round ----------------------------------------- */

enum { MAX_ROUNDS = 64, MAX_ROUND_NODES = 4096 };

/*
 * The body of a loop that is written out: its few rounds are known, and their values differ in rank
 * or shape arithmetic needs the round's number (exporters write strided views so). NULL for others.
 */
const OnnxGraph *body_to_write_out(Import *im, const OnnxNode *n, Node **in, Env *e,
	int64_t *rounds)
{
	int64_t go = 1;

	if (*n->domain || strcmp(n->op, "Loop") || n->nin < 2 || !in[0]
	 || !element_known(im, in[0], rounds)
			|| (in[1] && !element_known(im, in[1], &go)) || !go)
		return NULL;
	Form f = form_of(im, n, in);
	const OnnxAttr *a = form_attr(&f, "body");
	if (!a || a->kind != OA_GRAPH || *rounds < 1 || *rounds > MAX_ROUNDS
			|| a->g[0]->nnode * *rounds > MAX_ROUND_NODES || a->g[0]->nin != n->nin
			|| a->g[0]->nout < n->nin - 1 || !upgrade(&f) || f.nin != n->nin)
		return NULL;
	return rounds_agree(im, &f, a->g[0], e) ? NULL : a->g[0];
}

/* What the rounds gave, stacked. */
static Node *stacked(Import *im, Node **each, int rounds, const Loc *loc)
{
	const Attr *attrs = attrs_add(im->m, NULL, (Attr){ .name = "axis", .kind = A_INT });
	Node *all = graph_op(im->m, row_of("", "SequenceConstruct"), rounds, each, NULL, 1, 0, NULL,
		loc);

	attrs = attrs_add(im->m, attrs, (Attr){ .name = "new_axis", .kind = A_INT, .i = 1 });
	return all ? graph_op(im->m, row_of("", "ConcatFromSequence"), 1, &all, attrs, 1, 0, NULL, loc)
		: NULL;
}

/* False: an If in it is open. */
bool import_rounds(Import *im, const OnnxNode *n, Node **in, const OnnxGraph *g, int rounds, Env *e)
{
	int carried = n->nin - 2, scans = g->nout - 1 - carried, max = rounds;
	Node **value = NEWN(im->m, Node *, n->nin), **each = NEWN(im->m, Node *, scans * rounds + 1);
	const Loc *loc = node_loc(im->om, n);
	int64_t go = 1;

	memcpy(value, in, sizeof *in * (size_t)n->nin);
	for (int r = 0; r < rounds && go; r++) {
		Env round = { .up = e };
		value[0] = t_scalar(im->m, DT_I64, (Num){ .i = r });
		value[1] = t_scalar(im->m, DT_BOOL, (Num){ .i = 1 });
		for (int i = 0; i < g->nin; i++)
			env_bind(im, &round, g->in[i].name, value[i]);
		bind_initializers(im, g, &round);
		if (!import_nodes(im, g, &round, 0, true))
			return false;
		for (int i = 0; i < g->nout; i++) {
			Node *v = env_lookup(&round, g->out[i].name);
			if (!v || v == &poison)
				rounds = 0;
			else if (i <= carried)
				value[1 + i] = v;
			else
				each[(i - 1 - carried) * max + r] = v;
		}
		if (rounds && !element_known(im, value[1], &go)) {
			diag_error(im->om->diag, X_UNSUPPORTED, loc,
				"its rounds differ in shape, and how many there "
				"are is known only at run time");
			rounds = 0;
		}
		if (!go)
			rounds = r + 1;
	}
	for (int i = 0; i < n->nout; i++)
		env_bind(im, e, n->out[i], !rounds ? NULL : i < carried ? value[2 + i]
			: i < carried + scans ? stacked(im, each + (i - carried) * max, rounds, loc) : NULL);
	return true;
}

/* ---- open conditions ------------------------------------------------------------------------- */

bool ranks_differ(const Region *a, const Region *b)
{
	for (int i = 0; i < a->nresults && i < b->nresults; i++) {
		const Type *s = a->results[i]->type, *t = b->results[i]->type;
		if (s->kind == T_TENSOR && t->kind == T_TENSOR && s->rank != t->rank)
			return true;
	}
	return false;
}

/*
 * Exporters write "squeeze if this dimension is 1" as an If whose branches differ in rank, followed
 * by nodes that only one of the ranks suits. Where the condition depends on the inputs' shapes
 * alone and exactly one branch lets the rest of the graph be made, that branch is taken and its
 * condition becomes a requirement, checked at entry. Where both do, and the outputs' ranks agree,
 * the rest is made for each.
 */
enum { MAX_FORKS = 6 };

static bool of_shapes(Module *m, Node *cond)
{
	int n;
	Node **list = topo_scalar(cond, &n);
	bool ok = true;

	for (int i = 0; i < n; i++) {
		OpCode c = list[i]->code;
		bool found = false;
		for (int k = 0; c == O_SYM && !found && k < m->symdefs.n; k++)
			found = ((SymDef *)m->symdefs.at[k])->sym == list[i];
		ok &= found || (c != O_SYM && c != O_READ && c != O_AXIS && c != O_CARRY && c != O_REDUCE
			&& c != O_ITER);
	}
	free(list);
	return ok;
}

/*
 * The graph from node `at` on with that branch of the open If taken, as a region that gives the
 * graph's outputs. Made without a sound; NULL if it cannot be made. What it requires holds under
 * the condition.
 */
static Region *rest_of(Import *im, const OnnxGraph *g, Env *e, int at, bool yes)
{
	Env inner = { .up = e };
	Region *r = region_new(im->m, yes ? "then_branch" : "else_branch");
	Choice choice = { im->open, yes, im->choices };
	int conditions = im->m->requires.n;
	Attempt a;

	attempt_begin(&a, im);
	a.im.forks++;
	a.im.choices = &choice;
	bool ok = import_nodes(&a.im, g, &inner, at, false) && add_results(&a.im, g, &inner, r);
	ok = attempt_end(&a) && ok;
	region_requires(im->m, conditions, im->open_cond, yes);
	return ok ? r : NULL;
}

/* Both ways lead to outputs of the same ranks: the rest of the graph becomes an If itself. */
static bool bind_both(Import *im, const OnnxGraph *g, Env *e, int at, Region **rest)
{
	if (ranks_differ(rest[0], rest[1]))
		return false;
	Node *r = graph_op(im->m, row_of("", "If"), 1, &im->open_cond, NULL, g->nout, 2, rest,
		node_loc(im->om, g->node[at]));
	for (int i = 0; i < g->nout; i++)
		env_bind(im, e, g->out[i].name, r ? t_result(im->m, r, i) : NULL);
	return true;
}

/* Node `at` is or holds an open If. ONE: the choice is noted and the node can be made; BOTH: all
 * is. */
Chosen choose_branch(Import *im, const OnnxGraph *g, Env *e, int at)
{
	Module *m = im->m;
	Node *zero[MAX_RANK], *cond;
	Region *rest[2] = { NULL, NULL };
	int conditions = m->requires.n;

	for (int i = 0; i < MAX_RANK; i++)
		zero[i] = x_idx(m, 0);
	cond = x_read(m, im->open_cond, zero);
	for (int i = 0; i < 2 && im->forks < MAX_FORKS; i++)
		rest[i] = rest_of(im, g, e, at, i == 0);
	if (rest[0] && rest[1] && bind_both(im, g, e, at, rest))
		return CHOSEN_BOTH;
	m->requires.n = conditions;
	if (!rest[0] == !rest[1] || !of_shapes(m, cond))
		return CHOSEN_NONE;
	bool yes = rest[0] != NULL;
	require(m, yes ? cond : x_not(m, cond), node_loc(im->om, im->open),
		"inputs of this shape would take "
		"its %s, whose result has not the rank that the rest of the model takes",
		yes ? "else_branch" : "then_branch");
	Choice *c = NEW(m, Choice);
	*c = (Choice){ im->open, yes, im->choices };
	im->choices = c;
	return CHOSEN_ONE;
}
