/*
 * The evaluator's scalars.
 *
 * A scalar body is a program of slots, operands first. A slot's value holds for one setting of the
 * axes it depends on: each group of axes (those of the tensor, those of a reduce, those of an iter)
 * has an epoch that changes with its axes, and a slot remembers the epoch of the innermost group it
 * depends on. What a slot always needs is computed in one list, in order; the side of a select that
 * is chosen, and the body of a loop for each setting of its axes, have lists of their own. A stack
 * holds the lists and loops under way, since expressions may be deep.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval.h"

typedef struct Slot {
	Node *e;
	int nin, in;           /* operands: from prog->args[in] */
	int group;             /* innermost group of axes that it depends on; 0: none */
	uint64_t stamp;        /* epoch of that group for which v holds */
	Num v;
	Val *tensor;           /* of a read */
} Slot;

/* Slots that one slot always needs, and it, in order. */
typedef struct List { int *at, n; } List;

struct Prog {
	Slot *slot; int n;
	int *args; int nargs;
	int *root; int nroots;
	uint64_t *epoch; int ngroups;   /* 0: no axes, 1: the tensor's axes, then reduces and iters */
	int *own;              /* per slot: the group of a reduce or iter */
	List *list;            /* per slot: made when first wanted */
	int axis[MAX_RANK * 2], naxes;  /* slots of the outer axes; -1: not used */
};

/* A list under way (next: position in it), or a reduce or iter. */
typedef struct Frame { int slot, next; bool loop; Num acc; int64_t at[MAX_RANK * 2]; } Frame;

/* ---- making a program ------------------------------------------------------------------------ */

static bool binds(const Node *e)
{
	return e->code == O_REDUCE || e->code == O_ITER;
}

/* An operand of a scalar; of a symbol that stands for an expression, that. */
static Node *operand(const Node *e, int k)
{
	if (e->code == O_SYM)
		return k == 0 ? e->def : NULL;
	Node *x = k < e->nin ? e->in[k] : NULL;
	return x && x->type->kind == T_SCALAR ? x : NULL;
}

/* All scalars of the roots, operands first, numbered from 1 in index. */
static Node **scalars(Node *const *roots, int n, Map *index, int *count)
{
	typedef struct Visit { Node *n; int next; } Visit;
	Visit *stack = NULL;
	Node **all = NULL;
	Map seen = { 0 };
	int depth = 0, cap = 0, total = 0, room = 0;
	for (int r = 0; r < n; r++) {
		Node *x = roots[r];
		for (;;) {
			if (x && !map_get(&seen, x)) {
				map_put(&seen, x, x);
				if (depth == cap)
					stack = grow(stack, sizeof *stack * (size_t)(cap = cap ? cap * 2 : 64));
				stack[depth++] = (Visit){ x, 0 };
			}
			if (!depth)
				break;
			Visit *v = &stack[depth - 1];
			int kids = v->n->code == O_SYM ? 1 : v->n->nin;
			if (v->next < kids) {
				x = operand(v->n, v->next++);
				continue;
			}
			if (total == room)
				all = grow(all, sizeof *all * (size_t)(room = room ? room * 2 : 64));
			all[total++] = v->n;
			map_put(index, v->n, (void *)(intptr_t)total);
			depth--;
			x = NULL;
		}
	}
	map_free(&seen);
	free(stack);
	*count = total;
	return all;
}

Node **eval_scalars(Node *e, int *n)
{
	Map index = { 0 };
	Node **list = scalars(&e, 1, &index, n);
	map_free(&index);
	return list;
}

static int index_of(const Map *index, const Node *n)
{
	return (int)(intptr_t)map_get(index, n) - 1;
}

/* Which groups each slot depends on; the deepest is its group. */
static void find_groups(Prog *p, Map *index, Node *const *axes, int naxes)
{
	int ngroups = 2, words;
	p->own = zeroed((size_t)p->n, sizeof *p->own);
	for (int i = 0; i < p->n; i++)
		if (binds(p->slot[i].e))
			p->own[i] = ngroups++;
	words = (ngroups + 63) / 64;
	uint64_t *dep = zeroed((size_t)p->n * (size_t)words, sizeof *dep);
	uint64_t *bound = zeroed((size_t)p->n * (size_t)words, sizeof *bound);
	int *depth = zeroed((size_t)ngroups, sizeof *depth);
#define AT(set, i) ((set) + (size_t)(i) * (size_t)words)
	for (int k = 0; k < naxes; k++)
		if (index_of(index, axes[k]) >= 0)
			AT(bound, index_of(index, axes[k]))[0] |= 2;
	for (int i = 0; i < p->n; i++) {
		Node *e = p->slot[i].e;
		int nb = e->code == O_REDUCE ? e->nin - 1 : e->code == O_ITER ? 2 : 0;
		for (int k = 0; k < nb; k++)
			AT(bound, index_of(index, e->in[k]))[p->own[i] / 64] |= 1ull << p->own[i] % 64;
	}
	for (int i = 0; i < p->n; i++) {
		Slot *s = &p->slot[i];
		for (int w = 0; w < words; w++)
			AT(dep, i)[w] = AT(bound, i)[w];
		for (int k = 0; k < s->nin; k++)
			for (int w = 0; w < words && p->args[s->in + k] >= 0; w++)
				AT(dep, i)[w] |= AT(dep, p->args[s->in + k])[w];
		if (p->own[i])
			AT(dep, i)[p->own[i] / 64] &= ~(1ull << p->own[i] % 64);
	}
	depth[1] = 1;
	for (int i = p->n; i-- > 0;)
		if (p->own[i])
			for (int g = 1; g < ngroups; g++)
				if (AT(dep, i)[g / 64] >> g % 64 & 1 && depth[g] >= depth[p->own[i]])
					depth[p->own[i]] = depth[g] + 1;
	for (int i = 0; i < p->n; i++)
		for (int g = 1; g < ngroups; g++)
			if (AT(dep, i)[g / 64] >> g % 64 & 1 && depth[g] >= depth[p->slot[i].group])
				p->slot[i].group = g;
#undef AT
	p->ngroups = ngroups;
	p->epoch = zeroed((size_t)ngroups, sizeof *p->epoch);
	free(dep);
	free(bound);
	free(depth);
}

static Prog *compile(Node *const *roots, int nroots, Node *const *axes, int naxes)
{
	Prog *p = zeroed(1, sizeof *p);
	Map index = { 0 };
	Node **list = scalars(roots, nroots, &index, &p->n);
	int nargs = 0;
	p->slot = zeroed((size_t)p->n, sizeof *p->slot);
	p->list = zeroed((size_t)p->n, sizeof *p->list);
	for (int i = 0; i < p->n; i++)
		nargs += list[i]->nin + 1;
	p->args = zeroed((size_t)nargs, sizeof *p->args);
	for (int i = 0; i < p->n; i++) {
		Slot *s = &p->slot[i];
		s->e = list[i];
		s->in = p->nargs;
		s->nin = list[i]->nin;
		for (int k = 0; k < s->nin; k++)
			p->args[p->nargs++] = list[i]->in[k] ? index_of(&index, list[i]->in[k]) : -1;
		if (list[i]->code == O_SYM && list[i]->def) {
			s->nin = 1;
			p->args[p->nargs++] = index_of(&index, list[i]->def);
		}
	}
	p->root = zeroed((size_t)nroots, sizeof *p->root);
	p->nroots = nroots;
	for (int r = 0; r < nroots; r++)
		p->root[r] = index_of(&index, roots[r]);
	p->naxes = naxes;
	for (int k = 0; k < naxes; k++)
		p->axis[k] = index_of(&index, axes[k]);
	find_groups(p, &index, axes, naxes);
	map_free(&index);
	free(list);
	return p;
}

void prog_free(Prog *p)
{
	for (int i = 0; i < p->n; i++)
		free(p->list[i].at);
	free(p->list);
	free(p->slot);
	free(p->args);
	free(p->root);
	free(p->own);
	free(p->epoch);
	free(p);
}

Prog *prog_of(Eval *e, const Node *key, Node *const *roots, int n, Node *const *axes,
	int naxes)
{
	Prog *p = map_get(&e->progs, key);
	if (!p)
		map_put(&e->progs, key, p = compile(roots, n, axes, naxes));
	return p;
}

/* ---- running a program --------------------------------------------------------------------- */

static void enter(Eval *e, Prog *p, int group)
{
	p->epoch[group] = ++e->clock;
}

static bool fresh(const Prog *p, int slot)
{
	const Slot *s = &p->slot[slot];
	return s->e->code == O_AXIS || s->e->code == O_CARRY || s->stamp == p->epoch[s->group];
}

static void set(Prog *p, int slot, Num v)
{
	p->slot[slot].v = v;
	p->slot[slot].stamp = p->epoch[p->slot[slot].group];
}

static void push(Eval *e, int slot, bool loop)
{
	if (e->depth == e->cap)
		e->stack = grow(e->stack, sizeof *e->stack * (size_t)(e->cap = e->cap ? e->cap * 2 : 64));
	Frame *f = &e->stack[e->depth++];
	f->slot = slot;
	f->loop = loop;
	f->next = 0;
}

/* Operand k of the slot, if the slot cannot do without it: not the sides of a select, the body of
 * a loop, its axes (whose extents it needs) and its carried value. */
static int strict(const Prog *p, const Slot *s, int k)
{
	int a = p->args[s->in + k];
	OpCode code = s->e->code;
	if ((code == O_SELECT && k > 0) || (code == O_REDUCE && k == s->nin - 1) ||
			(code == O_ITER && (k == 1 || k == 3)) || code == O_AXIS)
		return -1;
	if (binds(s->e) && k < s->nin - 1 && a >= 0 && p->slot[a].e->code == O_AXIS)
		return p->args[p->slot[a].in];
	return a;
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static const List *list_of(Prog *p, int slot)
{
	List *l = &p->list[slot];
	int done = 0, cap = 16;
	if (l->at)
		return l;
	Map seen = { 0 };
	l->at = grow(NULL, sizeof *l->at * (size_t)cap);
	l->at[l->n++] = slot;
	map_put(&seen, p->slot[slot].e, l);
	while (done < l->n) {
		const Slot *s = &p->slot[l->at[done++]];
		for (int k = 0; k < s->nin; k++) {
			int a = strict(p, s, k);
			if (a < 0 || map_get(&seen, p->slot[a].e))
				continue;
			map_put(&seen, p->slot[a].e, l);
			if (l->n == cap)
				l->at = grow(l->at, sizeof *l->at * (size_t)(cap *= 2));
			l->at[l->n++] = a;
		}
	}
	map_free(&seen);
	qsort(l->at, (size_t)l->n, sizeof *l->at, by_number);    /* slots stand in order of need */
	return l;
}

/* Starts the next program run: symbols and tensors are looked up again. */
void prog_begin(Eval *e, Prog *p)
{
	for (int g = 0; g < p->ngroups; g++)
		enter(e, p, g);
	for (int i = 0; i < p->n; i++)
		if (p->slot[i].e->code == O_READ) {
			p->slot[i].tensor = eval_find(e, definition(p->slot[i].e->in[0]));
			if (!p->slot[i].tensor)
				FAIL(e, NULL, "a value is read before it is computed");
		}
}

static void read_tensor(Eval *e, Prog *p, int slot)
{
	Slot *s = &p->slot[slot];
	Val *t = s->tensor;
	int64_t flat = 0;
	if (!t || t->rank != s->nin - 1) {
		FAIL(e, NULL, "a value is read that is not there");
		return;
	}
	for (int i = 0; i < t->rank; i++) {
		int64_t k = p->slot[p->args[s->in + 1 + i]].v.i;
		if (k < 0 || k >= t->dims[i]) {
			FAIL(e, s->e->in[0]->loc, "index %lld of axis %d is outside [0, %lld)", (long long)k, i,
				(long long)t->dims[i]);
			return;
		}
		flat = flat * t->dims[i] + k;
	}
	if (!t->num) {
		FAIL(e, NULL, "an element of a string tensor is computed with");
		return;
	}
	set(p, slot, t->num[flat]);
}

static void apply(Eval *e, Prog *p, int slot)
{
	Slot *s = &p->slot[slot];
	Node *n = s->e;
	Num in[3], r = { 0 };
	DType from = n->in[n->code == O_SELECT]->type->dtype, to = n->type->dtype;
	for (int k = 0; k < s->nin && k < 3; k++)
		in[k] = p->slot[p->args[s->in + k]].v;
	if (n->code == O_BOUND) {
		r.i = in[0].i < 0 ? 0 : in[0].i >= in[1].i ? in[1].i - 1 : in[0].i;
		r.i = r.i < 0 ? 0 : r.i;
		if (r.i != in[0].i)
			FAIL(e, n->loc, "index %lld is outside [0, %lld)", (long long)in[0].i,
				(long long)in[1].i);
	} else if (n->code == O_BITS && e->wide && dt_float(from)) {
		in[0] = num_round(from, in[0].f);
		num_eval(O_BITS, to, from, in, &r);
	} else if (n->code == O_BITS) {
		num_eval(O_BITS, to, from, in, &r);
	} else if (!num_eval(n->code, held(e, to), held(e, from), in, &r)) {
		FAIL(e, NULL, "%s of %s cannot be evaluated", n->op->name, dtypes[from].text);
	}
	set(p, slot, r);
}

static Num identity(int comb, DType d)
{
	int bits = dtypes[d].bits;
	int64_t top = d == DT_BOOL ? 1 : dt_signed(d) ? (int64_t)((1ull << (bits - 1)) - 1)
		: bits >= 64 ? -1 : (int64_t)((1ull << bits) - 1);
	int64_t low = dt_signed(d) ? -top - 1 : 0;
	bool f = dt_float(d);
	switch (comb) {
	case COMB_PROD: return f ? (Num){ .f = 1 } : (Num){ .i = 1 };
	case COMB_MIN: return f ? num_round(d, INFINITY) : (Num){ .i = top };
	case COMB_MAX: return f ? num_round(d, -INFINITY) : (Num){ .i = low };
	case COMB_AND: return (Num){ .i = d == DT_BOOL || !dt_signed(d) ? top : -1 };
	default: return (Num){ 0 };
	}
}

/* a comb b; sums and products of floats in double, rounded by the caller at the end */
Num eval_combine(int comb, DType d, Num a, Num b)
{
	static const OpCode op[] = { [COMB_SUM] = O_ADD, [COMB_PROD] = O_MUL, [COMB_MIN] = O_MIN,
		[COMB_MAX] = O_MAX, [COMB_AND] = O_AND, [COMB_OR] = O_OR };
	Num r = b;
	DType t = dt_float(d) ? DT_F64 : d;
	if (comb != COMB_SET)
		num_eval(op[comb], t, t, (Num[]){ a, b }, &r);
	return r;
}

static void finish_loop(Eval *e, Prog *p, int slot, Num v)
{
	set(p, slot, v);
	e->depth--;
}

static void next_round(Eval *e, Prog *p, int slot, int body)
{
	enter(e, p, p->own[slot]);
	if (!fresh(p, body))
		push(e, body, false);
}

/* next: 0 at first, 1 when the first value is there, 2 later */
static void run_reduce(Eval *e, Prog *p, Frame *f)
{
	Slot *s = &p->slot[f->slot];
	int n = s->nin - 1, body = p->args[s->in + n], slot = f->slot;
	int64_t extent[MAX_RANK * 2];
	DType d = s->e->type->dtype;
	bool any = true;
	for (int k = 0; k < n; k++) {
		extent[k] = p->slot[p->args[p->slot[p->args[s->in + k]].in]].v.i;
		any = any && extent[k] > 0;
	}
	if (!any) {
		finish_loop(e, p, slot, identity((int)s->e->n, held(e, d)));
		return;
	}
	if (f->next == 0) {
		memset(f->at, 0, sizeof f->at);
		f->next = 1;
	} else {
		Num v = p->slot[body].v;
		f->acc = f->next == 1 ? v : eval_combine((int)s->e->n, d, f->acc, v);
		f->next = 2;
		if (!next_index(f->at, extent, n)) {
			finish_loop(e, p, slot, dt_float(d) && !e->wide ? num_round(d, f->acc.f) : f->acc);
			return;
		}
	}
	for (int k = 0; k < n; k++)
		p->slot[p->args[s->in + k]].v.i = f->at[k];
	next_round(e, p, slot, body);
}

static void run_iter(Eval *e, Prog *p, Frame *f)
{
	Slot *s = &p->slot[f->slot];
	int axis = p->args[s->in], carry = p->args[s->in + 1], body = p->args[s->in + 3];
	int slot = f->slot;
	f->acc = p->slot[f->next ? body : p->args[s->in + 2]].v;
	f->at[0] = f->next ? f->at[0] + 1 : 0;
	f->next = 1;
	if (f->at[0] >= p->slot[p->args[p->slot[axis].in]].v.i) {
		finish_loop(e, p, slot, f->acc);
		return;
	}
	if (axis >= 0)
		p->slot[axis].v.i = f->at[0];
	if (carry >= 0)
		p->slot[carry].v = f->acc;
	next_round(e, p, slot, body);
}

static void symbol(Eval *e, Prog *p, int slot)
{
	Slot *s = &p->slot[slot];
	int64_t v = 0;
	if (s->e->def)
		v = p->slot[p->args[s->in]].v.i;
	else if (!eval_sym(e, s->e, &v))
		FAIL(e, NULL, "the value of %s is not known", s->e->name);
	set(p, slot, (Num){ .i = v });
}

/* Goes on with a list until something must be done first, which is pushed. */
static void run_list(Eval *e, Prog *p, Frame *f)
{
	const List *l = list_of(p, f->slot);
	for (; f->next < l->n && !e->failed; f->next++) {
		int slot = l->at[f->next];
		Slot *s = &p->slot[slot];
		if (fresh(p, slot))
			continue;
		switch (s->e->code) {
		case O_REDUCE: case O_ITER:
			push(e, slot, true);
			return;
		case O_SELECT: {
			int x = p->args[s->in + (p->slot[p->args[s->in]].v.i ? 1 : 2)];
			if (!fresh(p, x)) {
				push(e, x, false);
				return;
			}
			set(p, slot, p->slot[x].v);
			break;
		}
		case O_NUM: set(p, slot, s->e->num); break;
		case O_SYM: symbol(e, p, slot); break;
		case O_READ: read_tensor(e, p, slot); break;
		default:
			if (s->e->code < O_NUM)
				apply(e, p, slot);
			else
				FAIL(e, NULL, "%s cannot be evaluated here", s->e->op->name);
		}
	}
	e->depth--;
}

Num prog_run(Eval *e, Prog *p, int root)
{
	int slot = p->root[root], base = e->depth;
	if (!fresh(p, slot))
		push(e, slot, false);
	while (e->depth > base && !e->failed) {
		Frame *f = &e->stack[e->depth - 1];
		if (!f->loop)
			run_list(e, p, f);
		else if (p->slot[f->slot].e->code == O_REDUCE)
			run_reduce(e, p, f);
		else
			run_iter(e, p, f);
	}
	e->depth = base;
	return p->slot[slot].v;
}

void prog_axes(Eval *e, Prog *p, const int64_t *at)
{
	for (int k = 0; k < p->naxes; k++)
		if (p->axis[k] >= 0)
			p->slot[p->axis[k]].v.i = at[k];
	enter(e, p, 1);
}

/* Values of closed expressions, such as dimensions. */
void eval_closed(Eval *e, Node *const *list, int n, int64_t *v)
{
	Prog *p = compile(list, n, NULL, 0);
	prog_begin(e, p);
	for (int i = 0; i < n && !e->failed; i++)
		v[i] = prog_run(e, p, i).i;
	prog_free(p);
}
