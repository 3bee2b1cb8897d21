/*
 * Vector loops of the C dialect, printed as loops over lanes that compilers vectorise: the
 * innermost ones. Where the body of a vector loop has loops of its own,
 *
 *   vector v { a; for k { b; c }; d }
 *
 * becomes, since its iterations are independent, loops over lanes inside of the other loops:
 *
 *   for v { a }  for k { for v { b; c } }  for v { d }
 *
 * Statements without loops that stand behind each other are one run, with one loop over lanes. A
 * value of one run that another uses, and a register tile that is allocated inside, get an element
 * for each lane. What is the same for all lanes stays scalar. If the loops or branches differ
 * between lanes, the vector loop is printed as it stands.
 *
 * A body that is one `when` with a condition that holds for the first so many lanes is a shorter
 * loop.
 */
#include <stdlib.h>
#include <string.h>

#include "codegen/cprint.h"

typedef struct Lanes {
	CFn *c;
	Node *axis;
	const char *v, *limit;  /* of the loops over lanes */
	int64_t w;
	Map varies;             /* expressions: 1 the same for all lanes, 2 not */
	Map run;                /* statements without loops: to the first of their run */
	Map wide;               /* lets that another run uses */
	Map priv;               /* register tiles allocated inside */
} Lanes;

/* ---- what differs between lanes -------------------------------------------------------------- */

static bool varies(Lanes *l, Node *e)
{
	intptr_t known = (intptr_t)map_get(&l->varies, e);
	bool yes = e == l->axis;

	if (known || e->code == O_NUM || e->code == O_SYM || e->code == O_AXIS || e->code == O_LET ||
			e->code == O_BUFFER)
		return known == 2 || yes;
	if (e->code == O_LOAD && map_get(&l->priv, e->in[0]))
		yes = true;
	for (int k = e->code == O_LOAD; k < e->nin && !yes; k++)
		yes = varies(l, e->in[k]);
	map_put(&l->varies, e, (void *)(intptr_t)(yes ? 2 : 1));
	return yes;
}

static bool has_load(const Node *e)
{
	if (e->code == O_LOAD || e->code == O_FOLD)
		return true;
	for (int k = 0; k < e->nin && e->code != O_LET && e->code != O_AXIS; k++)
		if (has_load(e->in[k]))
			return true;
	return false;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static bool plain_region(const Region *r)
{
	if (!r)
		return true;
	for (int k = 0; k < r->nresults; k++) {
		const Node *s = r->results[k];
		if (s->code == O_WHEN ? !plain_region(s->regions[0]) ||
				(s->nregions > 1 && !plain_region(s->regions[1])) :
				s->code != O_STORE && s->code != O_LET)
			return false;
	}
	return true;
}

/* Does the statement belong in a loop over lanes (or, scalar and allocation, before it)? */
static bool in_run(Lanes *l, Node *s)
{
	switch (s->code) {
	case O_STORE: case O_ALLOC:
		return true;
	case O_LET:
		return varies(l, s->in[0]) || s->in[0]->size > 1000 || !has_load(s->in[0]);
	case O_WHEN:
		return varies(l, s->in[0]) && plain_region(s->regions[0]) &&
			(s->nregions < 2 || plain_region(s->regions[1]));
	default:
		return false;
	}
}

static void uses(Lanes *l, Node *e, const Node *run, Map *seen)
{
	if (e->code == O_LET) {
		Node *own = map_get(&l->run, e);
		if (own && own != run)
			map_put(&l->wide, e, e);
		return;
	}
	if (e->type->kind != T_SCALAR || e->code == O_AXIS || map_get(seen, e))
		return;
	map_put(seen, e, e);
	for (int k = 0; k < e->nin; k++)
		uses(l, e->in[k], run, seen);
}

static void note_uses(Lanes *l, Node *s, const Node *run)
{
	Map seen = { 0 };

	for (int k = s->code == O_STORE; k < s->nin; k++)
		uses(l, s->code == O_FOR ? s->in[0]->in[0] : s->in[k], run, &seen);
	map_free(&seen);
	for (int r = 0; r < s->nregions; r++)
		for (int k = 0; s->regions[r] && k < s->regions[r]->nresults; k++)
			note_uses(l, s->regions[r]->results[k], run);
}

/* Finds runs and what varies; false if the region cannot be split into loops over lanes. */
static bool analyse(Lanes *l, Region *r)
{
	Node *run = NULL;

	for (int k = 0; r && k < r->nresults; k++) {
		Node *s = r->results[k];
		if (s->code == O_LET)
			map_put(&l->varies, s, (void *)(intptr_t)(varies(l, s->in[0]) ? 2 : 1));
		if (s->code == O_ALLOC) {
			if (s->in[0]->type->space != SP_REG)
				return false;
			map_put(&l->priv, s->in[0], s);
		}
		if (in_run(l, s)) {
			run = run ? run : s;
			map_put(&l->run, s, run);
			note_uses(l, s, run);
			continue;
		}
		run = NULL;
		if (s->code == O_LET) {
			note_uses(l, s, s);
			continue;
		}
		if ((s->code != O_FOR && s->code != O_WHEN) || (s->code == O_FOR &&
				(s->n == F_VECTOR || s->n == F_PARALLEL || varies(l, s->in[0]->in[0]))) ||
				(s->code == O_WHEN && varies(l, s->in[0])))
			return false;
		Map seen = { 0 };
		uses(l, s->code == O_FOR ? s->in[0]->in[0] : s->in[0], s, &seen);
		map_free(&seen);
		for (int i = 0; i < s->nregions; i++)
			if (!analyse(l, s->regions[i]))
				return false;
	}
	return true;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void assign(Lanes *l, Node *let)
{
	CFn *c = l->c;
	Node *v = let->in[0];

	cx_begin(c, 1, &v);
	cfn_indent(c);
	fprintf(c->o, "%s = ", (const char *)map_get(&c->names, let));
	cx(c, v, P_NONE);
	fputs(";\n", c->o);
	cx_end(c);
}

/* Before the loop: allocations, scalars, and arrays for what others use. True: more is left. */
static bool before(Lanes *l, Node *s)
{
	CFn *c = l->c;

	if (s->code == O_ALLOC || (s->code == O_LET && !varies(l, s->in[0]))) {
		cfn_statement(c, s);
		return false;
	}
	if (s->code == O_LET && map_get(&l->wide, s)) {
		const char *name = cfn_name(c, cx_base(s->in[0]), true);
		cfn_line(c, "%s %s[%lld];", ctype(c, s->in[0]), name, (long long)l->w);
		map_put(&c->names, s, arena_printf(c->f->m->arena, "%s[%s]", name, l->v));
	}
	return true;
}

static void print_region(void *lanes, CFn *, Region *);

static void print_run(Lanes *l, Region *r, int from, int to)
{
	CFn *c = l->c;
	bool any = false;

	for (int k = from; k < to; k++)
		any |= before(l, r->results[k]);
	if (!any)
		return;
	c->lane_region = NULL;         /* what follows is one lane's */
	cfn_line(c, "TCC_VECTOR");
	cfn_line(c, "for (i64 %s = 0; %s < %s; %s++) {", l->v, l->v, l->limit, l->v);
	c->indent++;
	for (int k = from; k < to; k++) {
		Node *s = r->results[k];
		if (s->code == O_LET && map_get(&l->wide, s) && varies(l, s->in[0]))
			assign(l, s);
		else if (s->code != O_ALLOC && (s->code != O_LET || varies(l, s->in[0])))
			cfn_statement(c, s);
	}
	c->indent--;
	cfn_line(c, "}");
	c->lane_region = print_region;
}

static void print_region(void *lanes, CFn *c, Region *r)
{
	Lanes *l = lanes;
	(void)c;

	for (int k = 0; r && k < r->nresults;) {
		Node *run = map_get(&l->run, r->results[k]);
		int to = k;
		if (!run) {
			cfn_statement(l->c, r->results[k++]);
			continue;
		}
		while (to < r->nresults && map_get(&l->run, r->results[to]) == run)
			to++;
		print_run(l, r, k, to);
		k = to;
	}
}

static const char *limit_text(CFn *c, Node *lanes, int64_t w)
{
	Node *n = x_min(c->f->m, lanes, x_idx(c->f->m, w));
	const char *name;

	cx_begin(c, 1, &n);
	name = cfn_name(c, "lanes", true);
	cfn_indent(c);
	fprintf(c->o, "const i64 %s = ", name);
	cx(c, n, P_NONE);
	fputs(";\n", c->o);
	cx_end(c);
	return name;
}

static Region *shortened(Lanes *l, Region *r)
{
	Node *s = r->nresults == 1 ? r->results[0] : NULL, *n;

	if (!s || s->code != O_WHEN || (s->nregions > 1 && s->regions[1]) ||
			!(n = cx_first_lanes(l->c->f->m, s->in[0], l->axis)))
		return r;
	l->limit = limit_text(l->c, n, l->w);
	return s->regions[0];
}

static void whole(Lanes *l, Region *r)
{
	CFn *c = l->c;

	if (plain_region(r))
		cfn_line(c, "TCC_VECTOR");
	cfn_line(c, "for (i64 %s = 0; %s < %s; %s++) {", l->v, l->v, l->limit, l->v);
	c->indent++;
	cfn_region(c, r);
	c->indent--;
	cfn_line(c, "}");
}

void clane_loop(CFn *c, Node *s)
{
	Lanes l = { .c = c, .axis = s->in[0] };

	if (!is_int(l.axis->in[0], &l.w)) {
		cfile_error(c->f, "a vector loop of variable length");
		return;
	}
	l.limit = arena_printf(c->f->m->arena, "%lld", (long long)l.w);
	Region *r = shortened(&l, s->regions[0]);
	l.v = cfn_axis(c, l.axis, "v");
	if (!c->lane_region && !plain_region(r) && analyse(&l, r)) {
		c->lane_region = print_region;
		c->lane_state = &l;
		c->lane_priv = &l.priv;
		c->lane_name = l.v;
		c->lane_count = l.w;
		print_region(&l, c, r);
		c->lane_region = NULL;
		c->lane_priv = NULL;
	} else {
		whole(&l, r);
	}
	c->axes.n--;
	map_free(&l.varies);
	map_free(&l.run);
	map_free(&l.wide);
	map_free(&l.priv);
}
