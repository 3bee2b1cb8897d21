/*
 * The evaluator: graph level through definitions, and tensor level, element by element. It judges
 * passes and code, so it is small and plain and shares nothing with code generation; num.c states
 * the arithmetic. A reduction of floats accumulates in double and rounds once.
 *
 * Tensors are evaluated in the order of their needs; what a region needs, when the region runs. A
 * value is kept with the outermost region it depends on, so that loops do not repeat what is the
 * same in each round.
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

#include "ir/ir.h"

enum { MAX_COUNT = 1 << 30 };

typedef struct Val {
	DType d;
	int rank;
	int64_t dims[MAX_RANK];
	int64_t count;
	Num *num;
	const char **str;      /* of a string tensor */
	int n; struct Val **elem;  /* of a tuple */
	bool tuple;
	struct Val *next;      /* all values, to be freed */
} Val;

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

typedef struct Prog {
	Slot *slot; int n;
	int *args; int nargs;
	int *root; int nroots;
	uint64_t *epoch; int ngroups;   /* 0: no axes, 1: the tensor's axes, then reduces and iters */
	int *own;              /* per slot: the group of a reduce or iter */
	List *list;            /* per slot: made when first wanted */
	int axis[MAX_RANK * 2], naxes;  /* slots of the outer axes; -1: not used */
} Prog;

typedef struct Sym { int64_t v; int level; } Sym;

typedef struct Env { struct Env *up; int level, outer; Map vals; const Region *region; } Env;

/* A list under way (next: position in it), or a reduce or iter. */
typedef struct Frame { int slot, next; bool loop; Num acc; int64_t at[MAX_RANK * 2]; } Frame;

typedef struct Eval {
	Module *m;
	bool wide, failed;
	Env *env;
	Map progs;             /* node -> Prog */
	Map syms;              /* symbol -> Sym */
	Map owner;             /* symbol that a loop or if defines -> that node */
	Val *all;
	uint64_t clock;
	Frame *stack; int depth, cap;
} Eval;

static void *grow(void *p, size_t size)
{
	p = realloc(p, size ? size : 1);
	if (!p)
		abort();
	return p;
}

static void *zeroed(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);
	if (!p)
		abort();
	return p;
}

#define FAIL(e, loc, ...) do { \
	if (!(e)->failed) \
		diag_error((e)->m->diag, X_DATA, loc, __VA_ARGS__); \
	(e)->failed = true; \
} while (0)

static DType held(const Eval *e, DType d)
{
	return e->wide && dt_float(d) ? DT_F64 : d;
}

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
	Data *data = data_new(m, d, v->count, NULL);
	if (v->str)
		data->strings = arena_dup(m->arena, v->str, sizeof *v->str * (size_t)v->count);
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

static bool sym_get(Eval *e, const Node *s, int64_t *v)
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

static Val *find(Eval *e, const Node *n)
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

/* ---- programs ------------------------------------------------------------------------------ */

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

static Node **scalars_of(Node *e, int *n)
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

static void prog_free(Prog *p)
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

static Prog *prog_of(Eval *e, const Node *key, Node *const *roots, int n, Node *const *axes,
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
static void begin(Eval *e, Prog *p)
{
	for (int g = 0; g < p->ngroups; g++)
		enter(e, p, g);
	for (int i = 0; i < p->n; i++)
		if (p->slot[i].e->code == O_READ) {
			p->slot[i].tensor = find(e, definition(p->slot[i].e->in[0]));
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
static Num combine(int comb, DType d, Num a, Num b)
{
	static const OpCode op[] = { [COMB_SUM] = O_ADD, [COMB_PROD] = O_MUL, [COMB_MIN] = O_MIN,
		[COMB_MAX] = O_MAX, [COMB_AND] = O_AND, [COMB_OR] = O_OR };
	Num r = b;
	DType t = dt_float(d) ? DT_F64 : d;
	if (comb != COMB_SET)
		num_eval(op[comb], t, t, (Num[]){ a, b }, &r);
	return r;
}

/* Advances axes like an odometer, the last fastest; false past the end. */
static bool step(int64_t *at, const int64_t *extent, int n)
{
	for (int i = n; i-- > 0;) {
		if (++at[i] < extent[i])
			return true;
		at[i] = 0;
	}
	return false;
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
		f->acc = f->next == 1 ? v : combine((int)s->e->n, d, f->acc, v);
		f->next = 2;
		if (!step(f->at, extent, n)) {
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
	else if (!sym_get(e, s->e, &v))
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

static Num run(Eval *e, Prog *p, int root)
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

static void set_axes(Eval *e, Prog *p, const int64_t *at)
{
	for (int k = 0; k < p->naxes; k++)
		if (p->axis[k] >= 0)
			p->slot[p->axis[k]].v.i = at[k];
	enter(e, p, 1);
}

/* Values of closed expressions, such as dimensions. */
static void eval_closed(Eval *e, Node *const *list, int n, int64_t *v)
{
	Prog *p = compile(list, n, NULL, 0);
	begin(e, p);
	for (int i = 0; i < n && !e->failed; i++)
		v[i] = run(e, p, i).i;
	prog_free(p);
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
	begin(e, p);
	for (int i = 0; i < rank && !e->failed; i++)
		dims[i] = run(e, p, i).i;
	if (e->failed)
		return NULL;
	Val *v = val_new(e, n->type->dtype, rank, dims);
	if (v->count && !v->num) {
		FAIL(e, n->loc, "strings cannot be computed with");
		return v;
	}
	for (int64_t k = 0; k < v->count && !e->failed; k++) {
		set_axes(e, p, at);
		v->num[k] = run(e, p, rank);
		step(at, dims, rank);
	}
	return v;
}

static void scatter_one(Eval *e, const Node *n, Prog *p, Val *v, int naxes)
{
	int64_t flat = 0;
	if (!run(e, p, naxes + v->rank + 1).i)
		return;
	for (int i = 0; i < v->rank && !e->failed; i++) {
		int64_t k = run(e, p, naxes + i).i;
		if (k < 0 || k >= v->dims[i])
			FAIL(e, n->loc, "index %lld of axis %d is outside [0, %lld)", (long long)k, i,
				(long long)v->dims[i]);
		flat = flat * v->dims[i] + k;
	}
	Num x = run(e, p, naxes + v->rank);
	if (e->failed)
		return;
	v->num[flat] = combine((int)n->n, v->d, v->num[flat], x);
	if (dt_float(v->d) && !e->wide)
		v->num[flat] = num_round(v->d, v->num[flat].f);
}

static Val *eval_scatter(Eval *e, Node *n)
{
	int rank = n->type->rank, naxes = n->nin - rank - 3;
	Val *base = find(e, definition(n->in[0]));
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
	begin(e, p);
	for (int i = 0; i < naxes; i++) {
		extent[i] = run(e, p, i).i;
		any = any && extent[i] > 0;
	}
	Val *v = val_new(e, base->d, base->rank, base->dims);
	if (v->count)
		memcpy(v->num, base->num, sizeof *v->num * (size_t)v->count);
	if (any && !e->failed)
		do {
			set_axes(e, p, at);
			scatter_one(e, n, p, v, naxes);
		} while (!e->failed && step(at, extent, naxes));
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
	Val *c = find(e, definition(n->in[0]));
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
	int64_t trips = n->in[0] ? scalar_value(find(e, definition(n->in[0]))) : INT64_MAX, k = 0;
	bool go = !n->in[1] || scalar_value(find(e, definition(n->in[1])));
	Val **params = zeroed((size_t)carried + 1, sizeof *params);
	Val **results = zeroed((size_t)r->nresults, sizeof *results);
	Val **rows = NULL;
	Val *t = tuple_new(e, carried + scans);
	for (int i = 0; i < carried; i++)
		params[1 + i] = find(e, definition(n->in[2 + i]));
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
			t->elem[i] = n->in[i] ? find(e, definition(n->in[i])) : NULL;
		return t;
	}
	case O_RESULT: {
		Val *t = find(e, definition(n->in[0]));
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
	Node **list = scalars_of(x, &n);
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
	Node **list = scalars_of(x, &n);
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
		if (find(e, v->n)) {
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
			if (!find(e, s.at[i]))
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
		results[i] = find(e, definition(r->results[i]));
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
		if (!sym_get(e, d->sym, &old))
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
			Val *v = find(&e, definition(r->results[i]));
			if (!v || v->tuple)
				FAIL(&e, NULL, "output %d is no tensor", i);
			else
				outputs[i] = const_of_val(&e, v);
		}
	}
	eval_free(&e);
	return !e.failed;
}
