/*
 * Integers of the plan: sizes, trip counts, elements that decide sizes. An expression of the tensor
 * level becomes one of the plan's: each symbol and each read in it is a `let` or call made once a
 * scope. What inputs alone decide is made before place(), in the outermost scope, for all of the
 * plan. A symbol that loops and branches decide lives in a cell on the stack, read where it is
 * used.
 */
#include <stdlib.h>
#include "plan.h"

static Node *
lookup(Planner *p, const Node *n)
{
	Scope *s;
	Node *v;

	for (s = p->scope; s; s = s->up)
		if ((v = map_get(&s->vals, n)))
			return v;
	return NULL;
}

void
bind_value(Planner *p, const Node *n, Node *v)
{
	map_put(&p->scope->vals, n, v);
}

static Node *
sym_value(Planner *p, Region *out, Node *sym)
{
	SymDef *d;
	Node *args[2], *v;
	int i;

	for (i = 0; i < p->m->symdefs.n; i++) {
		d = p->m->symdefs.at[i];
		if (d->sym != sym)
			continue;
		args[0] = x_idx(p->m, d->input);
		args[1] = x_idx(p->m, d->axis);
		v = l_call(p->m, out, "dim", 2, args);
		v->lo = sym->lo;
		v->hi = sym->hi;
		return v;
	}
	diag_error(p->m->diag, X_BUG, NULL, "the symbol %s has no definition", sym->name);
	return x_idx(p->m, 0);
}

/* An element of a tensor, loaded where the plan stands; an input's where it begins, for all of
 * it. */
static Node *
load_value(Planner *p, Region *out, Node *read)
{
	Node *t = read->in[0], *args[3], *v;
	Scope *save = p->scope;
	Storage *st;
	KB kb = kb_new(p->s, NULL);

	if ((v = lookup(p, read)))
		return v;
	if (out != p->sizes && of_inputs(p, read)) {
		while (p->scope->up)
			p->scope = p->scope->up;
		v = load_value(p, p->sizes, read);
		p->scope = save;
		return v;
	}
	ensure(p, out, t);
	touch_buffer(p, t);
	st = storage_of(p->s, t);
	if (st->id < 0) {
		diag_error(p->m->diag, X_BUG, t->loc, "a size is needed before it is known");
		return x_int(p->m, dtype_of(t), 0);
	}
	args[0] = x_idx(p->m, st->id);
	args[1] = x_idx(p->m, dtypes[storage_type(dtype_of(t))].onnx);
	args[2] = host_value(p, out, kb_address(&kb, t, read->in + 1));
	v = l_call(p->m, out, "load", 3, args);
	if (dt_float(dtype_of(t))) {
		diag_error(p->m->diag, X_UNSUPPORTED, t->loc,
			"a size depends on a floating-point value known only at run time");
		v = x_flt(p->m, dtype_of(t), 0);
	} else
		v = x_cast(p->m, dtype_of(t), v);
	bind_value(p, read, v);
	return v;
}

/* A symbol: one that changes is read where the plan stands, an input's size once at its
 * beginning. */
static Node *
symbol_value(Planner *p, Region *out, Node *sym)
{
	Node *v, *def = sym->def;
	Scope *top;

	if (!map_get(&p->cells, sym) && (v = map_get(&p->owner, sym)))
		ensure(p, out, v);
	if ((v = map_get(&p->cells, sym))) {
		v = cell_get(p, out, v);
		v->lo = sym->lo;
		v->hi = sym->hi;
		return v;
	}
	if ((v = lookup(p, sym)))
		return v;
	for (top = p->scope; top->up; top = top->up)
		;
	if (def && !of_inputs(p, sym)) {
		v = l_let(p->m, out, host_value(p, out, x_cast(p->m, DT_INDEX, def)));
		bind_value(p, sym, v);
		return v;
	}
	if (def) {   /* sizes or elements of inputs: known from the beginning */
		Scope *save = p->scope;
		p->scope = top;
		v = l_let(p->m, p->sizes, host_value(p, p->sizes, x_cast(p->m, DT_INDEX, def)));
		p->scope = save;
	} else
		v = sym_value(p, p->sizes, sym);
	map_put(&top->vals, sym, v);
	return v;
}

/* e in terms of the plan's own values. */
Node *
host_value(Planner *p, Region *out, Node *e)
{
	Node **list, *v;
	Map map = {0};
	int i, n;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_SYM)
			map_put(&map, list[i], symbol_value(p, out, list[i]));
		else if (list[i]->code == O_READ)
			map_put(&map, list[i], load_value(p, out, list[i]));
	free(list);
	v = subst(p->m, e, &map, false);
	map_free(&map);
	return legalize(p->m, v);
}

bool
has_read(Node *e)
{
	Node **list;
	int i, n;
	bool yes = false;

	list = topo_scalar(e, &n);
	for (i = 0; i < n && !yes; i++)
		yes = list[i]->code == O_READ;
	free(list);
	return yes;
}

/* Is e known when a run begins: from the sizes and elements of inputs alone? */
bool
of_inputs(Planner *p, Node *e)
{
	Node **list, *v;
	int i, k, n;
	bool ok = true;

	list = topo_scalar(e, &n);
	for (i = 0; i < n && ok; i++)
		if (list[i]->code == O_SYM && (v = list[i]->def))
			ok = of_inputs(p, v);
		else if (list[i]->code == O_SYM) {
			for (k = 0; k < p->m->symdefs.n; k++)
				if (((SymDef *)p->m->symdefs.at[k])->sym == list[i])
					break;
			ok = k < p->m->symdefs.n;
		} else if (list[i]->code == O_READ) {
			v = list[i]->in[0];
			ok = v->code == O_PARAM && map_get(&p->s->home, v) == p->m->main && list[i]->nin <= 2;
		}
	free(list);
	return ok;
}

Node *
arg_array(Planner *p, Region *out, int n, Node *const *v)
{
	Node *ext = x_idx(p->m, n ? n : 1), *b, *at;
	int i;

	b = l_alloc(p->m, out, l_buffer(p->m, "args", DT_INDEX, SP_STACK, 1, &ext));
	for (i = 0; i < n; i++) {
		at = x_idx(p->m, i);
		l_store(p->m, out, b, 1, &at, v[i]);
	}
	return b;
}

void
scope_push(Planner *p, Region *home)
{
	Scope *s = NEW(p->m, Scope);

	s->up = p->scope;
	s->home = home;
	p->scope = s;
}

void
scope_pop(Planner *p)
{
	map_free(&p->scope->vals);
	p->scope = p->scope->up;
}

Node *
cell_new(Planner *p, Region *out, Node *init)
{
	return arg_array(p, out, 1, &init);
}

Node *
cell_get(Planner *p, Region *out, Node *c)
{
	Node *zero = x_idx(p->m, 0);

	return l_let(p->m, out, l_load(p->m, c, 1, &zero));
}

void
cell_set(Planner *p, Region *out, Node *c, Node *v)
{
	Node *zero = x_idx(p->m, 0);

	l_store(p->m, out, c, 1, &zero, v);
}

bool
is_local_sym(Planner *p, const Node *d)
{
	int i;

	if (d->code != O_SYM || d->def)
		return false;
	for (i = 0; i < p->m->symdefs.n; i++)
		if (((SymDef *)p->m->symdefs.at[i])->sym == d)
			return false;
	return true;
}

void
declare_dims(Planner *p, Region *out, const Node *t)
{
	int i;

	if (t->type->kind != T_TENSOR)
		return;
	for (i = 0; i < rank_of(t); i++)
		if (is_local_sym(p, dim_of(t, i)) && !map_get(&p->cells, dim_of(t, i)))
			map_put(&p->cells, dim_of(t, i), cell_new(p, out, x_idx(p->m, 0)));
}

/* The symbolic dims of each t take the values of those of its v, all read before any is written. */
void
assign_dims(Planner *p, Region *out, int n, Node *const *t, Node *const *v)
{
	Node **val = NEWN(p->m, Node *, n * MAX_RANK + 1), *c;
	int i, k;

	for (k = 0; k < n; k++)
		for (i = 0; t[k]->type->kind == T_TENSOR && i < rank_of(t[k]); i++)
			if (is_local_sym(p, dim_of(t[k], i)) && dim_of(t[k], i) != dim_of(v[k], i))
				val[k * MAX_RANK + i] = l_let(p->m, out, host_value(p, out, dim_of(v[k], i)));
	for (k = 0; k < n; k++)
		for (i = 0; i < MAX_RANK; i++)
			if (val[k * MAX_RANK + i] && (c = map_get(&p->cells, dim_of(t[k], i))))
				cell_set(p, out, c, val[k * MAX_RANK + i]);
}

/* The integer that a tensor of one element holds, where the plan stands. */
Node *
scalar_value(Planner *p, Region *out, Node *t)
{
	Node *zero[MAX_RANK];
	int i;

	for (i = 0; i < rank_of(t); i++)
		zero[i] = x_idx(p->m, 0);
	return host_value(p, out, x_cast(p->m, DT_INDEX, x_read(p->m, t, zero)));
}
