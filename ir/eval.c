/*
 * The evaluator: graph level through definitions, and tensor level, element by element. It judges
 * passes and code, so it is small and plain and shares nothing with code generation; num.c states
 * the arithmetic. A reduction of floats accumulates in double and rounds once.
 *
 * Tensors are evaluated in the order of their needs; what a region needs, when the region runs. A
 * value is kept with the outermost region it depends on, so that loops do not repeat what is the
 * same in each round.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval.h"

enum { MAX_COUNT = 1 << 30 };

/* ---- values -------------------------------------------------------------------------------- */

static Val *val_new(Eval *e, DType d, int rank, const int64_t *dims)
{
	Val *v = zeroed(1, sizeof *v);
	v->d = d;
	v->rank = rank;
	v->count = 1;
	v->next = e->all;
	e->all = v;
	for (int i = 0; i < rank; i++) {
		v->dims[i] = dims[i];
		if (dims[i] < 0 || !mul_ok(v->count, dims[i], &v->count) || v->count > MAX_COUNT) {
			FAIL(e, NULL, "a tensor of %lld elements in one dimension is too large to evaluate",
				(long long)dims[i]);
			v->count = 0;
			return v;
		}
	}
	if (d == DT_STRING)
		v->str = zeroed((size_t)v->count, sizeof *v->str);
	else
		v->num = zeroed((size_t)v->count, sizeof *v->num);
	return v;
}

static Val *tuple_new(Eval *e, int n)
{
	Val *v = zeroed(1, sizeof *v);
	v->tuple = true;
	v->n = n;
	v->elem = zeroed((size_t)n, sizeof *v->elem);
	v->next = e->all;
	e->all = v;
	return v;
}

static Val *val_of_const(Eval *e, const Node *n)
{
	int64_t dims[MAX_RANK];
	const_dims(n, dims);
	Val *v = val_new(e, n->type->dtype, n->type->rank, dims);
	for (int64_t k = 0; k < v->count && k < n->data->count; k++)
		if (v->str)
			v->str[k] = n->data->strings[k];
		else
			v->num[k] = data_get(n->data, v->d, k);
	return v;
}

static Node *const_of_val(Eval *e, const Val *v)
{
	Module *m = e->m;
	DType d = held(e, v->d);
	Data *data = data_new(m, d, v->count, v->str);
	for (int64_t k = 0; !v->str && k < v->count; k++)
		data_set((void *)data->bytes, d, k, v->num[k]);
	return t_const(m, d, v->rank, v->dims, data);
}

static void sym_put(Eval *e, const Node *s, int64_t v)
{
	Sym *p = map_get(&e->syms, s);
	if (!p)
		map_put(&e->syms, s, p = arena_alloc(e->m->arena, sizeof *p));
	*p = (Sym){ v, e->env->level };
}

bool eval_sym(Eval *e, const Node *s, int64_t *v)
{
	const Sym *p = map_get(&e->syms, s);
	if (p)
		*v = p->v;
	return p != NULL;
}

/* ---- environments -------------------------------------------------------------------------- */

/* The node's value and the level of the environment that has it. */
static Val *find_at(Eval *e, const Node *n, int *level)
{
	for (Env *v = e->env; v; v = v->up) {
		Val *x = map_get(&v->vals, n);
		if (!x)
			continue;
		for (Env *w = e->env; w != v; w = w->up)
			w->outer = v->level > w->outer ? v->level : w->outer;
		*level = v->level;
		return x;
	}
	return NULL;
}

Val *eval_find(Eval *e, const Node *n)
{
	int level;
	return find_at(e, n, &level);
}

static void keep(Eval *e, const Node *n, Val *v, int level)
{
	Env *at = e->env;
	while (at->level > level && at->up)
		at = at->up;
	map_put(&at->vals, n, v);
}

/* ---- tensors ------------------------------------------------------------------------------- */

static Val *eval_tensor(Eval *e, Node *n)
{
	int rank = n->nin - 1;
	Node *roots[MAX_RANK + 1];
	int64_t dims[MAX_RANK], at[MAX_RANK] = { 0 };
	for (int i = 0; i < rank; i++)
		roots[i] = n->in[i]->in[0];
	roots[rank] = n->in[rank];
	Prog *p = prog_of(e, n, roots, rank + 1, n->in, rank);
	prog_begin(e, p);
	for (int i = 0; i < rank && !e->failed; i++)
		dims[i] = prog_run(e, p, i).i;
	if (e->failed)
		return NULL;
	Val *v = val_new(e, n->type->dtype, rank, dims);
	if (v->count && !v->num) {
		FAIL(e, n->loc, "strings cannot be computed with");
		return v;
	}
	for (int64_t k = 0; k < v->count && !e->failed; k++) {
		prog_axes(e, p, at);
		v->num[k] = prog_run(e, p, rank);
		next_index(at, dims, rank);
	}
	return v;
}

static void scatter_one(Eval *e, const Node *n, Prog *p, Val *v, int naxes)
{
	int64_t flat = 0;
	if (!prog_run(e, p, naxes + v->rank + 1).i)
		return;
	for (int i = 0; i < v->rank && !e->failed; i++) {
		int64_t k = prog_run(e, p, naxes + i).i;
		if (k < 0 || k >= v->dims[i])
			FAIL(e, n->loc, "index %lld of axis %d is outside [0, %lld)", (long long)k, i,
				(long long)v->dims[i]);
		flat = flat * v->dims[i] + k;
	}
	Num x = prog_run(e, p, naxes + v->rank);
	if (e->failed)
		return;
	v->num[flat] = eval_combine((int)n->n, v->d, v->num[flat], x);
	if (dt_float(v->d) && !e->wide)
		v->num[flat] = num_round(v->d, v->num[flat].f);
}

static Val *eval_scatter(Eval *e, Node *n)
{
	int rank = n->type->rank, naxes = n->nin - rank - 3;
	Val *base = eval_find(e, definition(n->in[0]));
	Node *roots[MAX_RANK * 3 + 2];
	int64_t extent[MAX_RANK * 2], at[MAX_RANK * 2] = { 0 };
	bool any = true;
	if (!base || naxes > MAX_RANK * 2 || !base->num)
		return NULL;
	for (int i = 0; i < naxes; i++)
		roots[i] = n->in[1 + i]->in[0];
	for (int i = 0; i < rank + 2; i++)
		roots[naxes + i] = n->in[1 + naxes + i];
	Prog *p = prog_of(e, n, roots, naxes + rank + 2, n->in + 1, naxes);
	prog_begin(e, p);
	for (int i = 0; i < naxes; i++) {
		extent[i] = prog_run(e, p, i).i;
		any = any && extent[i] > 0;
	}
	Val *v = val_new(e, base->d, base->rank, base->dims);
	if (v->count)
		memcpy(v->num, base->num, sizeof *v->num * (size_t)v->count);
	if (any && !e->failed)
		do {
			prog_axes(e, p, at);
			scatter_one(e, n, p, v, naxes);
		} while (!e->failed && next_index(at, extent, naxes));
	return v;
}

/* ---- regions ------------------------------------------------------------------------------- */

static bool eval_region(Eval *e, const Region *r, Val *const *params, Val **results, int *outer);

/* The dimensions of a parameter that are symbols are those of the value. */
static void bind_symbols(Eval *e, const Type *t, const Val *v)
{
	for (int i = 0; t->kind == T_TENSOR && i < t->rank && i < v->rank; i++)
		if (t->dims[i]->code == O_SYM && !t->dims[i]->def)
			sym_put(e, t->dims[i], v->dims[i]);
}

static void bind_loop_symbols(Eval *e, const Node *n, const Val *v)
{
	for (int i = 0; i < e->m->loopsyms.n; i++) {
		const LoopSym *s = e->m->loopsyms.at[i];
		if (s->result < n->type->rank && s->result < v->n && v->elem[s->result]) {
			const Type *t = n->type->elem[s->result];
			if (t->kind == T_TENSOR && s->axis < t->rank && t->dims[s->axis] == s->sym)
				sym_put(e, s->sym, v->elem[s->result]->dims[s->axis]);
		}
	}
}

static int64_t scalar_value(const Val *v)
{
	return v && v->num && v->count ? v->num[0].i : 0;
}

static Val *eval_if(Eval *e, Node *n, int *level)
{
	Val *c = eval_find(e, definition(n->in[0]));
	const Region *r = n->regions[scalar_value(c) ? 0 : 1];
	Val *t = tuple_new(e, r->nresults);
	if (!eval_region(e, r, NULL, t->elem, level))
		return NULL;
	bind_loop_symbols(e, n, t);
	return t;
}

/* A size that only a round could have told. */
static bool own_symbol(Eval *e, const Node *d)
{
	return d->code == O_SYM && !d->def && !map_get(&e->syms, d);
}

/* The rounds' values of one scanned output, stacked. */
static Val *stack(Eval *e, const Type *t, Val *const *v, int64_t n)
{
	int64_t dims[MAX_RANK];
	if (n) {
		dims[0] = n;
		for (int i = 0; i < v[0]->rank && i + 1 < MAX_RANK; i++)
			dims[i + 1] = v[0]->dims[i];
	} else {
		Node *rest[MAX_RANK];
		for (int i = 1; i < t->rank; i++)
			rest[i - 1] = own_symbol(e, t->dims[i]) ? x_idx(e->m, 0) : t->dims[i];
		dims[0] = 0;
		eval_closed(e, rest, t->rank - 1, dims + 1);
	}
	Val *r = val_new(e, t->dtype, t->rank, dims);
	for (int64_t k = 0, at = 0; k < n && !e->failed; at += v[k++]->count) {
		if (at + v[k]->count > r->count || (v[k]->num == NULL) != (r->num == NULL)) {
			FAIL(e, NULL, "a scanned value changes its shape");
			break;
		}
		if (r->num)
			memcpy(r->num + at, v[k]->num, sizeof *r->num * (size_t)v[k]->count);
		else
			memcpy(r->str + at, v[k]->str, sizeof *r->str * (size_t)v[k]->count);
	}
	return r;
}

static Val *eval_loop(Eval *e, Node *n, int *level)
{
	Region *r = n->regions[0];
	int carried = (int)n->n, scans = r->nresults - 1 - carried;
	int64_t trips = n->in[0] ? scalar_value(eval_find(e, definition(n->in[0]))) : INT64_MAX, k = 0;
	bool go = !n->in[1] || scalar_value(eval_find(e, definition(n->in[1])));
	Val **params = zeroed((size_t)carried + 1, sizeof *params);
	Val **results = zeroed((size_t)r->nresults, sizeof *results);
	Val **rows = NULL;
	Val *t = tuple_new(e, carried + scans);
	for (int i = 0; i < carried; i++)
		params[1 + i] = eval_find(e, definition(n->in[2 + i]));
	for (; go && k < trips && !e->failed; k++) {
		params[0] = val_new(e, DT_I64, 0, NULL);
		params[0]->num[0].i = k;
		if (!eval_region(e, r, params, results, level))
			break;
		go = scalar_value(results[0]);
		for (int i = 0; i < carried; i++)
			params[1 + i] = results[1 + i];
		rows = grow(rows, sizeof *rows * (size_t)(k + 1) * (size_t)(scans + !scans));
		for (int i = 0; i < scans; i++)
			rows[k * scans + i] = results[1 + carried + i];
	}
	for (int i = 0; i < carried; i++)
		t->elem[i] = params[1 + i];
	Val **column = zeroed((size_t)k, sizeof *column);
	for (int i = 0; i < scans && !e->failed; i++) {
		for (int64_t q = 0; q < k; q++)
			column[q] = rows[q * scans + i];
		t->elem[carried + i] = stack(e, n->type->elem[carried + i], column, k);
	}
	if (!e->failed)
		bind_loop_symbols(e, n, t);
	free(column);
	free(params);
	free(results);
	free(rows);
	return t;
}

static Val *eval_node(Eval *e, Node *n, int *level)
{
	switch (n->code) {
	case O_CONST: return val_of_const(e, n);
	case O_TENSOR: return eval_tensor(e, n);
	case O_SCATTER: return eval_scatter(e, n);
	case O_IF: return eval_if(e, n, level);
	case O_LOOP: return eval_loop(e, n, level);
	case O_TUPLE: {
		Val *t = tuple_new(e, n->nin);
		for (int i = 0; i < n->nin; i++)
			t->elem[i] = n->in[i] ? eval_find(e, definition(n->in[i])) : NULL;
		return t;
	}
	case O_RESULT: {
		Val *t = eval_find(e, definition(n->in[0]));
		return t && t->tuple && n->n < t->n ? t->elem[n->n] : NULL;
	}
	default:
		FAIL(e, n->loc, "%s%s%s cannot be evaluated", n->op->name, n->name ? " " : "",
			n->name ? n->name : "");
		return NULL;
	}
}

/* ---- order of evaluation ------------------------------------------------------------------- */

typedef struct Needs { Node **at; int n, cap; } Needs;

static void need(Needs *s, Node *n)
{
	if (!n)
		return;
	if (s->n == s->cap)
		s->at = grow(s->at, sizeof *s->at * (size_t)(s->cap = s->cap ? s->cap * 2 : 32));
	s->at[s->n++] = definition(n);
}

/* Tensors that a scalar reads; loops that define its symbols. */
static void need_scalar(Eval *e, Needs *s, Node *x)
{
	int n;
	if (x->code == O_NUM)
		return;
	Node **list = eval_scalars(x, &n);
	for (int i = 0; i < n; i++)
		if (list[i]->code == O_READ)
			need(s, list[i]->in[0]);
		else if (list[i]->code == O_SYM && map_get(&e->owner, list[i]))
			need(s, map_get(&e->owner, list[i]));
	free(list);
}

static void needs(Eval *e, Node *n, Needs *s)
{
	s->n = 0;
	for (int i = 0; i < n->nin; i++) {
		Node *x = n->in[i];
		if (!x)
			continue;
		if (x->type->kind != T_SCALAR)
			need(s, x);
		else
			need_scalar(e, s, x->code == O_AXIS ? x->in[0] : x);
	}
	/* of a loop that may run no round, the dimensions of scanned results */
	for (int i = 0; n->code == O_LOOP && i < n->type->rank; i++)
		for (int k = 1; n->type->elem[i]->kind == T_TENSOR && k < n->type->elem[i]->rank; k++)
			if (!map_get(&e->owner, n->type->elem[i]->dims[k]))
				need_scalar(e, s, n->type->elem[i]->dims[k]);
}

/* The innermost region whose rounds give the scalar's symbols other values. */
static int symbol_level(Eval *e, Node *x)
{
	int n, level = 0;
	if (x->code == O_NUM)
		return 0;
	Node **list = eval_scalars(x, &n);
	for (int i = 0; i < n; i++) {
		const Sym *s = list[i]->code == O_SYM ? map_get(&e->syms, list[i]) : NULL;
		level = s && s->level > level ? s->level : level;
	}
	free(list);
	return level;
}

static void eval_here(Eval *e, Node *n, Needs *s)
{
	int level = 0, l;
	needs(e, n, s);
	for (int i = 0; i < s->n; i++)
		if (find_at(e, s->at[i], &l))
			level = l > level ? l : level;
	for (int i = 0; i < n->nin; i++)
		if (n->in[i] && n->in[i]->type->kind == T_SCALAR) {
			l = symbol_level(e, n->in[i]->code == O_AXIS ? n->in[i]->in[0] : n->in[i]);
			level = l > level ? l : level;
		}
	Val *v = eval_node(e, n, &level);
	if (!v)
		FAIL(e, n->loc, "a value cannot be computed");
	if (!e->failed)
		keep(e, n, v, level);
}

/* All that the roots need, and they, in the current environment. */
static bool eval_all(Eval *e, Node *const *roots, int n)
{
	typedef struct Visit { Node *n; bool ready; } Visit;
	Visit *stack = NULL;
	int depth = 0, cap = 0;
	Needs s = { 0 };
	for (int i = n; i-- > 0;) {
		stack = grow(stack, sizeof *stack * (size_t)(depth + 1));
		stack[depth++] = (Visit){ definition(roots[i]), false };
	}
	cap = depth;
	while (depth && !e->failed) {
		Visit *v = &stack[depth - 1];
		if (eval_find(e, v->n)) {
			depth--;
			continue;
		}
		if (v->ready) {
			eval_here(e, v->n, &s);
			depth--;
			continue;
		}
		v->ready = true;
		needs(e, v->n, &s);
		if (depth + s.n > cap)
			stack = grow(stack, sizeof *stack * (size_t)(cap = depth + s.n + 64));
		for (int i = 0; i < s.n; i++)
			if (!eval_find(e, s.at[i]))
				stack[depth++] = (Visit){ s.at[i], false };
	}
	free(stack);
	free(s.at);
	return !e->failed;
}

static bool eval_region(Eval *e, const Region *r, Val *const *params, Val **results, int *outer)
{
	Env env = { .up = e->env, .level = e->env->level + 1, .region = r };
	e->env = &env;
	for (int i = 0; i < r->nparams; i++) {
		map_put(&env.vals, r->params[i], params[i]);
		bind_symbols(e, r->params[i]->type, params[i]);
	}
	bool ok = eval_all(e, r->results, r->nresults);
	for (int i = 0; ok && i < r->nresults; i++) {
		results[i] = eval_find(e, definition(r->results[i]));
		ok = results[i] != NULL;
	}
	e->env = env.up;
	map_free(&env.vals);
	if (env.outer > *outer && env.outer <= env.level - 1)
		*outer = env.outer;
	return ok;
}

/* ---- the module ---------------------------------------------------------------------------- */

static bool bind_inputs(Eval *e, Node *const *inputs)
{
	Region *r = e->m->main;
	for (int i = 0; i < r->nparams; i++) {
		const Type *t = r->params[i]->type;
		if (!inputs[i] || inputs[i]->code != O_CONST || t->kind != T_TENSOR ||
				inputs[i]->type->dtype != t->dtype || inputs[i]->type->rank != t->rank) {
			FAIL(e, NULL, "input %d does not fit %s", i,
				r->params[i]->name ? r->params[i]->name : "");
			return false;
		}
		map_put(&e->env->vals, r->params[i], val_of_const(e, inputs[i]));
	}
	for (int i = 0; i < e->m->symdefs.n; i++) {
		const SymDef *d = e->m->symdefs.at[i];
		const Val *v = map_get(&e->env->vals, r->params[d->input]);
		int64_t old;
		if (!eval_sym(e, d->sym, &old))
			sym_put(e, d->sym, v->dims[d->axis]);
		else if (old != v->dims[d->axis])
			FAIL(e, NULL, "%s is %lld and %lld", d->sym->name, (long long)old,
				(long long)v->dims[d->axis]);
	}
	return !e->failed;
}

/* Stated dimensions and requirements. */
static void check_inputs(Eval *e)
{
	Region *r = e->m->main;
	for (int i = 0; i < r->nparams && !e->failed; i++) {
		const Val *v = map_get(&e->env->vals, r->params[i]);
		int64_t dims[MAX_RANK];
		eval_closed(e, r->params[i]->type->dims, r->params[i]->type->rank, dims);
		for (int k = 0; k < v->rank && !e->failed; k++)
			if (v->dims[k] != dims[k])
				FAIL(e, NULL, "input %s: axis %d is %lld, expected %lld", r->params[i]->name, k,
					(long long)v->dims[k], (long long)dims[k]);
	}
	Needs s = { 0 };
	for (int i = 0; i < e->m->requires.n && !e->failed; i++) {
		const Require *q = e->m->requires.at[i];
		int64_t ok = 1;
		s.n = 0;
		need_scalar(e, &s, q->cond);
		if (eval_all(e, s.at, s.n))
			eval_closed(e, &q->cond, 1, &ok);
		if (!ok && !e->failed)
			FAIL(e, q->loc, "%s", q->message);
	}
	free(s.at);
}

static void eval_free(Eval *e)
{
	for (Val *v = e->all, *next; v; v = next) {
		next = v->next;
		free(v->num);
		free(v->str);
		free(v->elem);
		free(v);
	}
	for (uint32_t i = 0; i < e->progs.cap; i++)
		if (e->progs.key[i])
			prog_free(e->progs.val[i]);
	map_free(&e->progs);
	map_free(&e->syms);
	map_free(&e->owner);
	map_free(&e->env->vals);
	free(e->stack);
}

bool module_eval(Module *m, Level level, Node *const *inputs, Node **outputs, bool wide)
{
	Env env = { 0 };
	Eval e = { .m = m, .wide = wide, .env = &env };
	Region *r = m->main;
	if (level == LEVEL_LOOP) {
		diag_error(m->diag, X_UNSUPPORTED, NULL, "loop level is not evaluated: run it instead");
		return false;
	}
	symbol_owners(m, &e.owner);
	if (bind_inputs(&e, inputs)) {
		check_inputs(&e);
		eval_all(&e, r->results, r->nresults);
		for (int i = 0; i < r->nresults && !e.failed; i++) {
			Val *v = eval_find(&e, definition(r->results[i]));
			if (!v || v->tuple)
				FAIL(&e, NULL, "output %d is no tensor", i);
			else
				outputs[i] = const_of_val(&e, v);
		}
	}
	eval_free(&e);
	return !e.failed;
}
