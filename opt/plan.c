/*
 * The host plan: which buffers there are and how long they live, and the program that sizes them,
 * launches the kernels in order and follows control flow (runtime/abi.h, part 4). Needs the tensor
 * level with its sizes named; leaves m->kernels, m->plan, m->memory.
 */
#include <stdlib.h>
#include <string.h>
#include "sched.h"

typedef struct Scope { struct Scope *up; Region *home; Map vals; } Scope;

typedef struct Planner {
	Sched *s;
	Module *m;
	Vec items;             /* Group or a loop, branch, host node, wrapped as Item */
	Map item;              /* tensor or node -> Item */
	Map views;             /* RESULT of a branch -> Vec of tensors it may be */
	Vec texts;
	Scope *scope;
	uint32_t step;
	Region *sizes;         /* statements before place() */
	Map cells;             /* symbol that changes -> its stack cell */
	Map owner;             /* symbol -> the loop or if that decides it */
	Map values;            /* host node -> its value buffer + 1 */
	Map checked;           /* numbers of elements that fit 32 bits, by a check before place() */
} Planner;

typedef struct Item { Group *g; Node *n; Region *home; bool done, busy; } Item;

static int value_buffer(Planner *, Node *);
static void run_region(Planner *, Region *out, Region *home);
static void ensure(Planner *, Region *out, Node *t);
static Node *cell_get(Planner *, Region *out, Node *c);
static bool of_inputs(Planner *, Node *e);
static void check(Planner *, Region *out, Node *cond, const char *text, Node *a, Node *b);
static const char *place_text(Module *, const Loc *, const char *msg);

/* ---- buffers ------------------------------------------------------------------------------------ */

static PlanBuf *
buf_at(Planner *p, int id)
{
	return p->s->bufs.at[id];
}

static int
new_buf(Planner *p, BufClass cls, DType d, const char *name)
{
	PlanBuf *b = NEW(p->m, PlanBuf);

	*b = (PlanBuf){.cls = cls, .dtype = d, .name = name, .alias = -1, .first = p->step, .last = p->step, .size = -1,
		.offset = -1, .index = -1};
	vec_push(p->m, &p->s->bufs, b);
	return p->s->bufs.n - 1;
}

static void
touch(Planner *p, Node *t)
{
	Storage *st;
	PlanBuf *b;
	Vec *v;
	int i;

	if (t->type->kind != T_TENSOR)           /* a value: the runtime's own */
		return;
	st = storage_of(p->s, t);
	if (st->id >= 0) {
		b = buf_at(p, st->id);
		if (b->last < p->step)
			b->last = p->step;
	}
	if ((v = map_get(&p->views, t)))
		for (i = 0; i < v->n; i++)
			if (v->at[i] != t)
				touch(p, v->at[i]);
}

/* A constant as its storage lays it out: unpacked, permuted, in padded blocks. */
static Data *
laid_out(Planner *p, Storage *st, const Data *d, DType dt)
{
	Module *m = p->m;
	DType sd = storage_type(dt);
	int64_t dims[MAX_RANK], stride[MAX_RANK], count, idx[MAX_RANK] = {0}, k, at, panel = 0, size = dtypes[sd].bits / 8;
	int i, rank = rank_of(st->tensor), last = rank ? st->order[rank - 1] : 0;
	bool plain = !st->block && sd == dt;
	Data *out;
	char *q;

	const_dims(st->tensor, dims);
	is_int(st->count, &count);
	for (i = 0; i < rank; i++) {
		is_int(st->stride[i], &stride[i]);
		plain &= st->order[i] == i;
	}
	if (plain)
		return (Data *)d;
	if (st->block)
		is_int(st->panel, &panel);
	out = data_new(m, sd, count, NULL);
	q = (char *)out->bytes;
	for (k = 0; k < d->count; k++) {
		for (i = 0, at = 0; i < rank; i++)
			at += st->block && i == last ? idx[i] / st->block * panel + idx[i] % st->block : idx[i] * stride[i];
		if (sd == dt)
			memcpy(q + at * size, (const char *)d->bytes + k * size, (size_t)size);
		else
			data_set(q, sd, at, dt == DT_F4E2M1 ? data_get(d, DT_U4, k) : data_get(d, dt, k));
		for (i = rank; i-- > 0 && ++idx[i] == dims[i];)
			idx[i] = 0;
	}
	return out;
}

static void
const_buffer(Planner *p, Node *t)
{
	Storage *st = storage_of(p->s, t);
	PlanBuf *b;

	if (st->id >= 0)
		return;
	st->id = new_buf(p, dtype_of(t) == DT_STRING ? BUF_CONST : BUF_WEIGHT, storage_type(dtype_of(t)), t->name);
	b = buf_at(p, st->id);
	b->first = 0;
	b->last = UINT32_MAX;
	b->data = dtype_of(t) == DT_STRING ? t->data : laid_out(p, st, t->data, dtype_of(t));
	b->size = (int64_t)b->data->size;
}

/* ---- host values ---------------------------------------------------------------------------------- */

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

static void
bind(Planner *p, const Node *n, Node *v)
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

static Node *host(Planner *, Region *out, Node *e);

/* An element of a tensor, loaded where the plan stands; an input's where it begins, for all of it. */
static Node *
load_value(Planner *p, Region *out, Node *read)
{
	Node *t = read->in[0], *args[3], *v;
	Scope *save = p->scope;
	Storage *st;
	int k;

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
	touch(p, t);
	st = storage_of(p->s, t);
	if (st->id < 0) {
		diag_error(p->m->diag, X_BUG, t->loc, "a size is needed before it is known");
		return x_int(p->m, dtype_of(t), 0);
	}
	args[0] = x_idx(p->m, st->id);
	args[1] = x_idx(p->m, dtypes[storage_type(dtype_of(t))].onnx);
	args[2] = x_idx(p->m, 0);
	for (k = 0; k < rank_of(t); k++)
		args[2] = x_add(p->m, args[2], x_mul(p->m, host(p, out, st->stride[k]), x_add(p->m,
			host(p, out, x_cast(p->m, DT_INDEX, read->in[k + 1])), st->before[k] ? host(p, out, st->before[k]) : x_idx(p->m, 0))));
	v = l_call(p->m, out, "load", 3, args);
	if (dt_float(dtype_of(t))) {
		diag_error(p->m->diag, X_UNSUPPORTED, t->loc, "a size depends on a floating-point value known only at run time");
		v = x_flt(p->m, dtype_of(t), 0);
	} else
		v = x_cast(p->m, dtype_of(t), v);
	bind(p, read, v);
	return v;
}

/* A symbol: one that changes is read where the plan stands, an input's size once at its beginning. */
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
		v = l_let(p->m, out, host(p, out, x_cast(p->m, DT_INDEX, def)));
		bind(p, sym, v);
		return v;
	}
	if (def) {                               /* sizes or elements of inputs: known from the beginning */
		Scope *save = p->scope;
		p->scope = top;
		v = l_let(p->m, p->sizes, host(p, p->sizes, x_cast(p->m, DT_INDEX, def)));
		p->scope = save;
	} else
		v = sym_value(p, p->sizes, sym);
	map_put(&top->vals, sym, v);
	return v;
}

/* e in terms of the plan's own values. */
static Node *
host(Planner *p, Region *out, Node *e)
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

static bool
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
static bool
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

static Node *
bytes_of(Planner *p, Node *t)
{
	return x_muli(p->m, storage_of(p->s, t)->count, dtype_of(t) == DT_STRING ? 16 : dtypes[storage_type(dtype_of(t))].bits / 8);
}

static int
output_index(Planner *p, const Node *t)
{
	int i;

	for (i = 0; i < p->m->main->nresults; i++)
		if (p->m->main->results[i] == t)
			return i;
	return -1;
}

static Node *
array(Planner *p, Region *out, int n, Node *const *v)
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

static void
declare_output(Planner *p, Region *out, int i, int id, Node *t)
{
	Node *dims[MAX_RANK], *args[4];
	int k;

	if (p->s->shape[i])
		t = p->s->shape[i];
	for (k = 0; k < rank_of(t); k++)
		dims[k] = host(p, out, dim_of(t, k));
	args[0] = x_idx(p->m, i);
	args[1] = x_idx(p->m, id);
	args[2] = x_idx(p->m, rank_of(t));
	args[3] = array(p, out, rank_of(t), dims);
	l_call(p->m, out, "output", 4, args);
}

static void
allocate(Planner *p, Region *out, int id, Node *bytes)
{
	Node *args[2] = {x_idx(p->m, id), bytes};

	l_call(p->m, out, "alloc", 2, args);
}

/* The buffer that a kernel of this region writes t into. */
static void
result_buffer(Planner *p, Region *out, Node *t)
{
	Storage *st = storage_of(p->s, t);
	Node *bytes = bytes_of(p, t), *args[2];
	int o = output_index(p, t);
	PlanBuf *b;
	int64_t v;

	if (st->id >= 0)
		return;
	if (o >= 0 && p->scope->home == p->m->main) {
		st->id = new_buf(p, BUF_OUTPUT, storage_type(dtype_of(t)), p->m->out_names ? p->m->out_names[o] : NULL);
		b = buf_at(p, st->id);
		b->index = o;
		if (is_int(bytes, &v))
			b->size = v;
		declare_output(p, out, o, st->id, t);
		return;
	}
	st->id = new_buf(p, of_inputs(p, bytes) ? BUF_ARENA : BUF_HEAP, storage_type(dtype_of(t)), NULL);
	b = buf_at(p, st->id);
	b->bytes = bytes;
	args[0] = x_idx(p->m, st->id);
	if (is_int(bytes, &v)) {
		b->size = v;
		return;
	}
	if (b->cls == BUF_ARENA) {
		Scope *save = p->scope;
		while (p->scope->up)
			p->scope = p->scope->up;
		args[1] = host(p, p->sizes, bytes);
		p->scope = save;
		l_call(p->m, p->sizes, "size", 2, args);
	} else
		allocate(p, out, st->id, host(p, out, bytes));
}

/* ---- kernels ------------------------------------------------------------------------------------------ */

/* Tensors of kernels that index in 32 bits must not be larger. */
static void
check_index32(Planner *p, Region *out, const Kernel *k, Vec *tensors)
{
	Node *limit = x_idx(p->m, INDEX32_MAX), *n;
	Region *at;
	int i;

	for (i = 0; i < k->nbufs; i++) {
		n = storage_of(p->s, tensors->at[i])->count;
		if (n->hi <= limit->hi || map_get(&p->checked, n))
			continue;
		at = of_inputs(p, n) ? p->sizes : out;
		if (at == p->sizes)
			map_put(&p->checked, n, n);
		n = host(p, at, n);
		check(p, at, x_le(p->m, n, limit), place_text(p->m, k->loc, "a tensor of $0 elements: kernels index at most $1 unless "
			"--dim gives ranges that allow more"), n, limit);
	}
}

static void
launch(Planner *p, Region *out, Kernel *k, Vec *tensors)
{
	Node **v = NEWN(p->m, Node *, 4 + k->nbufs + k->nsyms), *args[2];
	int i, n = 0, number = p->m->kernels.n;

	vec_push(p->m, &p->m->kernels, k);       /* sizes of its arguments may launch what they need */
	if (k->index32)
		check_index32(p, out, k, tensors);
	p->step++;
	for (i = 0; i < 3; i++)
		v[n++] = host(p, out, k->grid[i]);
	v[n++] = k->cost ? host(p, out, k->cost)
		: x_idx(p->m, k->flops < 1 ? 1 : k->flops > 1e15 ? (int64_t)1e15 : (int64_t)k->flops);
	for (i = 0; i < k->nbufs; i++) {
		touch(p, tensors->at[i]);
		v[n++] = x_idx(p->m, storage_of(p->s, tensors->at[i])->id);
	}
	for (i = 0; i < k->nsyms; i++)
		v[n++] = host(p, out, k->args[i]);
	args[0] = x_idx(p->m, number);
	args[1] = array(p, out, n, v);
	l_call(p->m, out, "launch", 2, args);
}

/* Is t a read of another tensor's memory as it lies? Then no kernel is needed. */
static Node *
same_memory(Planner *p, Node *t)
{
	KB kb = kb_new(p->s, NULL);
	Node *body = t->in[t->nin - 1], *a, *b;

	if (storage_of(p->s, t)->of)
		return storage_of(p->s, t)->of;
	if (t->code != O_TENSOR || body->code != O_READ || output_index(p, t) >= 0 || storage_of(p->s, t)->id >= 0)
		return NULL;
	if (storage_of(p->s, body->in[0])->block || storage_of(p->s, t)->count != storage_of(p->s, body->in[0])->count)
		return NULL;
	a = kb_address(&kb, body->in[0], body->in + 1);
	b = kb_address(&kb, t, t->in);
	return a == b ? body->in[0] : NULL;
}

static void
add_view(Planner *p, Node *t, Node *base)
{
	Vec *v = map_get(&p->views, t);

	if (!v) {
		v = NEW(p->m, Vec);
		map_put(&p->views, t, v);
	}
	vec_push(p->m, v, base);
}

static void
copy_bytes(Planner *p, Region *out, int dst, Node *at, int src, Node *bytes)
{
	Node *args[5] = {x_idx(p->m, dst), at, x_idx(p->m, src), x_idx(p->m, 0), bytes};

	l_call(p->m, out, "copy", 5, args);
}

static void
copy_all(Planner *p, Region *out, Node *dst, Node *src)
{
	p->step++;
	touch(p, src);
	touch(p, dst);
	copy_bytes(p, out, storage_of(p->s, dst)->id, x_idx(p->m, 0), storage_of(p->s, src)->id, host(p, out, bytes_of(p, src)));
}

/* Everything that the scalars of a tensor's definition read. */
static void
ensure_reads(Planner *p, Region *out, Node *t)
{
	Node **list;
	int i, k, n;

	for (k = 0; k < t->nin; k++) {
		if (!t->in[k])
			continue;
		if (t->in[k]->type->kind != T_SCALAR) {
			ensure(p, out, t->in[k]);
			continue;
		}
		list = topo_scalar(t->in[k], &n);
		for (i = 0; i < n; i++)
			if (list[i]->code == O_READ)
				ensure(p, out, list[i]->in[0]);
		free(list);
	}
}

static void
run_group(Planner *p, Region *out, Group *g)
{
	Kernel *k;
	Node *base, *t = g->members[0];
	Vec tensors;
	int i;

	for (i = 0; i < g->n; i++) {
		ensure_reads(p, out, g->members[i]);
	}
	if (g->n == 1 && (base = same_memory(p, t))) {
		storage_of(p->s, t)->id = storage_of(p->s, base)->id;
		add_view(p, t, base);
		return;
	}
	if (t->code == O_SCATTER) {
		result_buffer(p, out, t);
		copy_all(p, out, t, t->in[0]);
	}
	k = t->code == O_SCATTER ? scatter_kernel(p->s, t) : p->s->gpu ? schedule_gpu(p->s, g) : schedule_cpu(p->s, g);
	if (!k) {
		diag_error(p->m->diag, X_BUG, g->loc, "no schedule");
		return;
	}
	tensors = p->s->touched;                 /* sizing the results may run other groups */
	p->s->touched = (Vec){0};
	for (i = 0; i < tensors.n; i++)
		if (((Node *)tensors.at[i])->code == O_CONST)
			const_buffer(p, tensors.at[i]);
		else if (k->writes[i])
			result_buffer(p, out, tensors.at[i]);
	launch(p, out, k, &tensors);
}

/* ---- control flow ------------------------------------------------------------------------------------------ */

static void
push(Planner *p, Region *home)
{
	Scope *s = NEW(p->m, Scope);

	s->up = p->scope;
	s->home = home;
	p->scope = s;
}

static void
pop(Planner *p)
{
	map_free(&p->scope->vals);
	p->scope = p->scope->up;
}

/* What was live before a loop and used in it lives to its end. */
static void
extend(Planner *p, uint32_t from)
{
	PlanBuf *b;
	int i;

	for (i = 0; i < p->s->bufs.n; i++) {
		b = p->s->bufs.at[i];
		if (b->first <= from && b->last > from && b->last < p->step)
			b->last = p->step;
	}
}

static Node *
cell(Planner *p, Region *out, Node *init)
{
	return array(p, out, 1, &init);
}

static Node *
cell_get(Planner *p, Region *out, Node *c)
{
	Node *zero = x_idx(p->m, 0);

	return l_let(p->m, out, l_load(p->m, c, 1, &zero));
}

static void
cell_set(Planner *p, Region *out, Node *c, Node *v)
{
	Node *zero = x_idx(p->m, 0);

	l_store(p->m, out, c, 1, &zero, v);
}

/* ---- symbols that change: trip counts, sizes of what loops carry and branches give ------------------- */

static bool
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

static void
declare_dims(Planner *p, Region *out, const Node *t)
{
	int i;

	if (t->type->kind != T_TENSOR)
		return;
	for (i = 0; i < rank_of(t); i++)
		if (is_local_sym(p, dim_of(t, i)) && !map_get(&p->cells, dim_of(t, i)))
			map_put(&p->cells, dim_of(t, i), cell(p, out, x_idx(p->m, 0)));
}

/* The symbolic dims of t take the values of the dims of v, all read before any is written. */
static void
assign_dims(Planner *p, Region *out, const Node *t, const Node *v)
{
	Node *val[MAX_RANK], *c;
	int i;

	if (t->type->kind != T_TENSOR)
		return;
	for (i = 0; i < rank_of(t); i++)
		val[i] = is_local_sym(p, dim_of(t, i)) && dim_of(t, i) != dim_of(v, i)
			? l_let(p->m, out, host(p, out, dim_of(v, i))) : NULL;
	for (i = 0; i < rank_of(t); i++)
		if (val[i] && (c = map_get(&p->cells, dim_of(t, i))))
			cell_set(p, out, c, val[i]);
}

static void
call5(Planner *p, Region *out, const char *name, int n, int64_t a, int64_t b, int64_t c)
{
	Node *args[3] = {x_idx(p->m, a), x_idx(p->m, b), x_idx(p->m, c)};

	l_call(p->m, out, name, n, args);
}

/* Sequences and optionals are not copied: the buffer gets the same value. */
static void
move_value(Planner *p, Region *out, int dst, int src)
{
	Node *args[2] = {x_idx(p->m, dst), x_idx(p->m, src)}, *list = array(p, out, 2, args);

	l_call(p->m, out, "host.value_move", 1, &list);
}

static void
run_if(Planner *p, Region *out, Node *n)
{
	Region *side[2] = {region_new(p->m, NULL), region_new(p->m, NULL)};
	Node *cond, *r, *v;
	int i, k, rank = n->type->rank;
	uint32_t from = p->step;

	ensure(p, out, n->in[0]);
	cond = x_ne(p->m, host(p, out, x_cast(p->m, DT_INDEX, x_read(p->m, n->in[0], NULL))), x_idx(p->m, 0));
	for (i = 0; i < rank; i++) {
		r = t_result(p->m, n, i);
		if (r->type->kind != T_TENSOR) {
			value_buffer(p, r);
			continue;
		}
		storage_of(p->s, r)->id = new_buf(p, BUF_VIEW, storage_type(dtype_of(r)), NULL);
		declare_dims(p, out, r);
	}
	for (k = 0; k < 2; k++) {
		push(p, n->regions[k]);
		run_region(p, side[k], n->regions[k]);
		for (i = 0; i < rank; i++) {
			r = t_result(p->m, n, i);
			v = n->regions[k]->results[i];
			ensure(p, side[k], v);
			if (r->type->kind != T_TENSOR) {
				move_value(p, side[k], value_buffer(p, r), value_buffer(p, v));
				continue;
			}
			add_view(p, r, v);
			touch(p, v);
			call5(p, side[k], "alias", 3, storage_of(p->s, r)->id, storage_of(p->s, v)->id, 0);
			assign_dims(p, side[k], r, v);
		}
		pop(p);
	}
	p->step++;
	extend(p, from);
	l_when(p->m, out, cond, side[0], side[1]);
}

/* A kernel that writes the iteration's number into the region's first parameter. */
static void
store_trip(Planner *p, Region *out, const Loc *loc, Node *param, Node *i)
{
	KB kb = kb_new(p->s, loc);
	Region *body = region_new(p->m, NULL), *in = body, *q;
	Node *sym = x_sym(p->m, NULL, 0, INT64_MAX), *ax;
	Kernel *k;
	Vec tensors;
	int d;

	for (d = F_GRID_X; p->s->gpu && d <= F_BLOCK; d += F_BLOCK - F_GRID_X) {
		q = region_new(p->m, NULL);
		ax = x_axis(p->m, x_idx(p->m, 1));
		l_for(p->m, in, (ForKind)d, ax, q);
		in = q;
	}
	kb_store(&kb, in, param, NULL, x_cast(p->m, dtype_of(param), sym));
	kb.k->grid[0] = kb.k->grid[1] = kb.k->grid[2] = x_idx(p->m, 1);
	kb.k->block = 1;
	k = kb_finish(&kb, body, "class=trip");
	tensors = p->s->touched;
	p->s->touched = (Vec){0};
	bind(p, sym, i);
	launch(p, out, k, &tensors);
}

static bool
read_by_kernels(const Region *r, const Node *param)
{
	Node **list, **body;
	int i, k, j, n, c;
	bool yes = false;

	list = topo(r->results, r->nresults, false, &n);
	for (i = 0; i < n && !yes; i++)
		for (k = 0; k < list[i]->nin && !yes; k++) {
			if (!list[i]->in[k] || list[i]->type->kind == T_SCALAR)
				continue;
			if (list[i]->in[k] == param)
				yes = true;
			if (list[i]->in[k]->type->kind != T_SCALAR)
				continue;
			body = topo_scalar(list[i]->in[k], &c);
			for (j = 0; j < c && !yes; j++)
				yes = body[j]->code == O_READ && body[j]->in[0] == param;
			free(body);
		}
	for (i = 0; i < r->nresults; i++)
		yes |= r->results[i] == param;
	free(list);
	return yes;
}

/* Memory that a loop carries from one iteration to the next; the result of the loop is the same. */
static void
carried_buffer(Planner *p, Region *out, Node *param, Node *result, Node *init)
{
	Node *bytes;
	Storage *st;
	int64_t v;
	PlanBuf *b;

	if (param->type->kind != T_TENSOR) {
		map_put(&p->values, result, (void *)(intptr_t)(value_buffer(p, param) + 1));
		move_value(p, out, value_buffer(p, param), value_buffer(p, init));
		return;
	}
	bytes = bytes_of(p, param);
	st = storage_of(p->s, param);
	st->id = new_buf(p, dtype_of(param) == DT_STRING ? BUF_HOST : is_int(bytes, &v) ? BUF_ARENA : BUF_HEAP,
		storage_type(dtype_of(param)), NULL);
	storage_of(p->s, result)->id = st->id;
	add_view(p, result, param);
	b = buf_at(p, st->id);
	if (b->cls == BUF_ARENA)
		b->size = v;
	else
		allocate(p, out, st->id, host(p, out, bytes_of(p, init)));
	p->step++;
	copy_all(p, out, param, init);
}

static int
root_buffer(Planner *p, Node *t)
{
	return t->type->kind == T_TENSOR ? storage_of(p->s, t)->id : value_buffer(p, t);
}

static void
next_values(Planner *p, Region *in, Node *n)
{
	Region *r = n->regions[0];
	Node *param, *v, *bytes;
	int i, k, nc = (int)n->n, *tmp = NEWN(p->m, int, nc + 1);

	for (i = 0; i < nc; i++) {               /* values that are other carried memory: saved first */
		v = r->results[1 + i];
		tmp[i] = -1;
		for (k = 0; k < nc; k++)
			if (k != i && root_buffer(p, v) == root_buffer(p, r->params[1 + k]))
				tmp[i] = new_buf(p, v->type->kind != T_TENSOR ? BUF_VALUE : dtype_of(v) == DT_STRING ? BUF_HOST : BUF_HEAP,
					storage_type(dtype_of(v)), NULL);
		if (tmp[i] < 0)
			continue;
		if (v->type->kind != T_TENSOR) {
			move_value(p, in, tmp[i], root_buffer(p, v));
			continue;
		}
		bytes = host(p, in, bytes_of(p, v));
		allocate(p, in, tmp[i], bytes);
		copy_bytes(p, in, tmp[i], x_idx(p->m, 0), root_buffer(p, v), bytes);
	}
	for (i = 0; i < nc; i++) {
		param = r->params[1 + i];
		v = r->results[1 + i];
		if (root_buffer(p, v) == root_buffer(p, param))
			continue;
		if (v->type->kind != T_TENSOR) {
			move_value(p, in, root_buffer(p, param), tmp[i] >= 0 ? tmp[i] : root_buffer(p, v));
			continue;
		}
		bytes = host(p, in, bytes_of(p, v));
		if (buf_at(p, root_buffer(p, param))->cls != BUF_ARENA)
			allocate(p, in, root_buffer(p, param), bytes);
		touch(p, v);
		touch(p, param);
		copy_bytes(p, in, root_buffer(p, param), x_idx(p->m, 0), tmp[i] >= 0 ? tmp[i] : root_buffer(p, v), bytes);
	}
	for (i = 0; i < nc; i++)
		assign_dims(p, in, r->params[1 + i], r->results[1 + i]);
}

static void
run_loop(Planner *p, Region *out, Node *n)
{
	Region *r = n->regions[0], *in = region_new(p->m, NULL);
	int nc = (int)n->n, ns = r->nresults - 1 - nc, i, d;
	Node *trip = NULL, *count, *go, *it, *res, *v, *cond, **list = NEWN(p->m, Node *, ns + 1), *args[3], *bytes;
	uint32_t from = p->step;
	bool grows;

	for (i = 0; i < n->nin; i++)
		if (n->in[i])
			ensure(p, out, n->in[i]);
	if (n->in[0])
		trip = l_let(p->m, out, host(p, out, x_cast(p->m, DT_INDEX, x_read(p->m, n->in[0], NULL))));
	go = cell(p, out, n->in[1] ? host(p, out, x_cast(p->m, DT_INDEX, x_read(p->m, n->in[1], NULL))) : x_idx(p->m, 1));
	count = cell(p, out, x_idx(p->m, 0));
	for (i = 0; i < nc; i++) {
		res = t_result(p->m, n, i);
		declare_dims(p, out, r->params[1 + i]);
		declare_dims(p, out, res);
		carried_buffer(p, out, r->params[1 + i], res, n->in[2 + i]);
		assign_dims(p, out, r->params[1 + i], n->in[2 + i]);
	}
	for (i = 0; i < ns; i++) {
		res = t_result(p->m, n, nc + i);
		declare_dims(p, out, res);
		for (d = 0, grows = false; d < rank_of(res); d++)
			grows |= is_local_sym(p, dim_of(res, d)) || has_read(dim_of(res, d));
		if (!grows) {
			result_buffer(p, out, res);
			continue;
		}
		storage_of(p->s, res)->id = new_buf(p, BUF_HEAP, storage_type(dtype_of(res)), NULL);
		list[i] = l_call(p->m, out, "list_new", 0, NULL);
	}
	p->step++;
	push(p, r);
	it = cell_get(p, in, count);
	it->lo = 0;
	if (trip)
		l_break(p->m, in, x_le(p->m, trip, it));
	l_break(p->m, in, x_eq(p->m, cell_get(p, in, go), x_idx(p->m, 0)));
	bind(p, x_read(p->m, r->params[0], NULL), x_cast(p->m, dtype_of(r->params[0]), it));
	if (read_by_kernels(r, r->params[0])) {
		storage_of(p->s, r->params[0])->id = new_buf(p, BUF_ARENA, dtype_of(r->params[0]), NULL);
		buf_at(p, storage_of(p->s, r->params[0])->id)->size = dtypes[dtype_of(r->params[0])].bits / 8;
		store_trip(p, in, n->loc, r->params[0], it);
	}
	run_region(p, in, r);
	for (i = 0; i < r->nresults; i++)
		if (r->results[i])
			ensure(p, in, r->results[i]);
	for (i = 0; i < ns; i++) {
		v = r->results[1 + nc + i];
		res = t_result(p->m, n, nc + i);
		p->step++;
		touch(p, v);
		touch(p, res);
		if (list[i]) {
			args[0] = list[i];
			args[1] = x_idx(p->m, root_buffer(p, v));
			args[2] = host(p, in, bytes_of(p, v));
			l_call(p->m, in, "list_push", 3, args);
			Node *tail[MAX_RANK + 1] = {0};      /* sizes within a step: the last one's */
			for (d = 1; d < rank_of(res); d++)
				if (is_local_sym(p, dim_of(res, d)) && dim_of(res, d) != dim_of(v, d - 1))
					tail[d] = l_let(p->m, in, host(p, in, dim_of(v, d - 1)));
			for (d = 1; d < rank_of(res); d++)
				if (tail[d])
					cell_set(p, in, map_get(&p->cells, dim_of(res, d)), tail[d]);
			continue;
		}
		bytes = host(p, in, bytes_of(p, v));
		copy_bytes(p, in, root_buffer(p, res), x_mul(p->m, it, bytes), root_buffer(p, v), bytes);
	}
	cond = r->results[0] ? l_let(p->m, in, host(p, in, x_cast(p->m, DT_INDEX, x_read(p->m, r->results[0], NULL)))) : NULL;
	next_values(p, in, n);
	if (cond)
		cell_set(p, in, go, cond);
	cell_set(p, in, count, x_addi(p->m, it, 1));
	pop(p);
	p->step++;
	l_while(p->m, out, in);
	for (i = 0; i < nc; i++)
		assign_dims(p, out, t_result(p->m, n, i), r->params[1 + i]);
	for (i = 0; i < ns; i++) {
		res = t_result(p->m, n, nc + i);
		if (rank_of(res) && is_local_sym(p, dim_of(res, 0)) && map_get(&p->cells, dim_of(res, 0)))
			cell_set(p, out, map_get(&p->cells, dim_of(res, 0)), cell_get(p, out, count));
		if (list[i]) {
			args[0] = list[i];
			args[1] = x_idx(p->m, root_buffer(p, res));
			l_call(p->m, out, "list_concat", 2, args);
		}
	}
	extend(p, from);
}

/* ---- routines of the runtime ---------------------------------------------------------------------------- */

/* The buffer of a sequence, optional or map. */
static int
value_buffer(Planner *p, Node *t)
{
	intptr_t id = (intptr_t)map_get(&p->values, t);

	if (!id) {
		id = new_buf(p, BUF_VALUE, DT_NONE, NULL) + 1;
		map_put(&p->values, t, (void *)id);
	}
	return (int)id - 1;
}

static void
call_routine(Planner *p, Region *out, const char *name, int n, Node *const *v)
{
	Node *args = array(p, out, n, v);

	l_call(p->m, out, arena_printf(p->m->arena, "host.%s", name), 1, &args);
}

/* A sequence of known elements, one after the other. */
static void
run_seq(Planner *p, Region *out, Node *n)
{
	Node *v[MAX_RANK + 5], *e;
	int id = value_buffer(p, n), i, k, c;
	bool seq = n->type->kind == T_SEQ;

	for (i = 0; i < n->nin; i++)
		ensure(p, out, n->in[i]);
	p->step++;
	v[0] = x_idx(p->m, id);
	v[1] = x_idx(p->m, dtypes[n->type->elem[0]->dtype].onnx);
	call_routine(p, out, seq ? "seq_new" : "value_none", seq ? 2 : 1, v);
	for (i = 0; i < n->nin; i++) {
		e = n->in[i];
		if (e->type->kind != T_TENSOR) {
			if (seq)
				diag_error(p->m->diag, X_UNSUPPORTED, n->loc, "a sequence of sequences");
			move_value(p, out, id, value_buffer(p, e));
			continue;
		}
		touch(p, e);
		c = 1;
		if (seq) {
			v[c++] = x_idx(p->m, id);
			v[c++] = x_idx(p->m, i);
		}
		v[c++] = x_idx(p->m, root_buffer(p, e));
		v[c++] = x_idx(p->m, rank_of(e));
		for (k = 0; k < rank_of(e); k++)
			v[c++] = host(p, out, dim_of(e, k));
		call_routine(p, out, seq ? "seq_insert" : "value_wrap", c, v);
	}
}

/* The integer that a tensor of one element holds, where the plan stands. */
static Node *
scalar_value(Planner *p, Region *out, Node *t)
{
	Node *zero[MAX_RANK];
	int i;

	for (i = 0; i < rank_of(t); i++)
		zero[i] = x_idx(p->m, 0);
	return host(p, out, x_cast(p->m, DT_INDEX, x_read(p->m, t, zero)));
}

/*
 * One or more arguments of a routine, from the pattern at *c, which moves past it: d the result's
 * buffer, v the same as a view that the routine sets, 0..9 an operand's, nKD the size of operand K's
 * dimension D (1 past its rank), N the result's number of elements, NK operand K's, RK operand K's rank
 * and sizes, =K the integer that operand K holds, SK 0 if operand K has one element and the result
 * another number, else 1, #V the integer V.
 */
static int
host_argument(Planner *p, Region *out, Node *n, int id, const char **c, Node **v)
{
	char kind = *(*c)++, *end;
	bool other = strchr("nRS=", kind) || (kind == 'N' && **c >= '0' && **c <= '9');
	Node *t = other ? n->in[*(*c)++ - '0'] : kind >= '0' && kind <= '9' ? n->in[kind - '0'] : n;
	int d, k = 0;

	switch (kind) {
	case 'd': case 'v':
		v[k++] = x_idx(p->m, id);
		break;
	case '#':
		v[k++] = x_idx(p->m, strtoll(*c, &end, 10));
		*c = end;
		break;
	case 'n':
		d = *(*c)++ - '0';
		v[k++] = host(p, out, rank_of(t) > d ? dim_of(t, d) : x_idx(p->m, 1));
		break;
	case 'N':
		v[k++] = host(p, out, numel(p->m, t));
		break;
	case 'R':
		v[k++] = x_idx(p->m, rank_of(t));
		for (d = 0; d < rank_of(t); d++)
			v[k++] = host(p, out, dim_of(t, d));
		break;
	case '=':
		v[k++] = scalar_value(p, out, t);
		break;
	case 'S':
		v[k++] = host(p, out, x_select(p->m, x_eq(p->m, numel(p->m, t), x_idx(p->m, 1)), x_idx(p->m, 0), x_idx(p->m, 1)));
		break;
	default:
		touch(p, t);
		v[k++] = x_idx(p->m, root_buffer(p, t));
	}
	return k;
}

/* A host node names a routine of the runtime and, in its attribute "args", the routine's arguments. */
static void
run_host(Planner *p, Region *out, Node *n)
{
	Node *v[64];
	const Attr *pattern = attr_find(n->attrs, "args");
	const char *c = pattern ? pattern->s : NULL;
	int i, k = 0, id;

	for (i = 0; i < n->nin; i++)
		if (n->in[i])
			ensure(p, out, n->in[i]);
	if (!c) {
		diag_error(p->m->diag, X_UNSUPPORTED, n->loc, "the routine %s is not there", n->name);
		return;
	}
	p->step++;
	if (n->type->kind == T_TENSOR) {
		bool string = dtype_of(n) == DT_STRING, view = strchr(c, 'v') != NULL;
		id = storage_of(p->s, n)->id = new_buf(p, view ? BUF_VIEW : string ? BUF_HOST : BUF_HEAP, storage_type(dtype_of(n)),
			NULL);
		if (!view)
			allocate(p, out, id, host(p, out, bytes_of(p, n)));
	} else
		id = value_buffer(p, n);
	while (*c)
		if (*c == ' ')
			c++;
		else
			k += host_argument(p, out, n, id, &c, v + k);
	call_routine(p, out, n->name, k, v);
}

/* ---- regions ------------------------------------------------------------------------------------------------ */

static void
run_item(Planner *p, Region *out, Item *it)
{
	Node **list;
	Item *x;
	int i, n;

	if (it->done || it->busy)
		return;
	it->busy = true;
	if (it->n && it->n->nregions) {          /* what its regions use from here */
		list = topo_decided(&it->n, 1, &p->owner, &n);
		for (i = 0; i < n; i++)
			if ((x = map_get(&p->item, list[i])) && x->home == it->home)
				run_item(p, out, x);
		free(list);
	}
	if (it->g)
		run_group(p, out, it->g);
	else if (it->n->code == O_IF)
		run_if(p, out, it->n);
	else if (it->n->code == O_LOOP)
		run_loop(p, out, it->n);
	else if (it->n->code == O_SEQ)
		run_seq(p, out, it->n);
	else
		run_host(p, out, it->n);
	it->done = true;
	it->busy = false;
}

static void
input_buffer(Planner *p, Node *t)
{
	bool tensor = t->type->kind == T_TENSOR;
	int i, id;

	for (i = 0; i < p->m->main->nparams && p->m->main->params[i] != t; i++)
		;
	if (i == p->m->main->nparams)
		return;
	id = new_buf(p, BUF_INPUT, tensor ? storage_type(dtype_of(t)) : DT_NONE, t->name);
	buf_at(p, id)->index = i;
	p->s->plan->in_buf[i] = id;
	if (tensor)
		storage_of(p->s, t)->id = id;
	else
		map_put(&p->values, t, (void *)(intptr_t)(id + 1));
}

static void
ensure(Planner *p, Region *out, Node *t)
{
	Item *it = map_get(&p->item, t->code == O_RESULT ? t->in[0] : t);

	if (t->code == O_CONST)
		const_buffer(p, t);
	else if (t->code == O_PARAM && (t->type->kind == T_TENSOR ? storage_of(p->s, t)->id < 0 : !map_get(&p->values, t)))
		input_buffer(p, t);
	 else if (it && it->home == p->scope->home)
		run_item(p, out, it);
}

static void
run_region(Planner *p, Region *out, Region *home)
{
	Item *it;
	int i;

	for (i = 0; i < p->items.n; i++) {
		it = p->items.at[i];
		if (it->home == home)
			run_item(p, out, it);
	}
}

static void
add_item(Planner *p, Group *g, Node *n)
{
	Item *it = NEW(p->m, Item);
	int i;

	it->g = g;
	it->n = n;
	it->home = g ? g->home : map_get(&p->s->home, n);
	vec_push(p->m, &p->items, it);
	if (n)
		map_put(&p->item, n, it);
	for (i = 0; g && i < g->n; i++)
		map_put(&p->item, g->members[i], it);
}

static int
text_id(Planner *p, const char *s)
{
	vec_push(p->m, &p->texts, (void *)s);
	return p->texts.n - 1;
}

static const char *
place_text(Module *m, const Loc *loc, const char *msg)
{
	if (!loc)
		return msg;
	return arena_printf(m->arena, "%s '%s': %s", loc->type ? loc->type : "node", loc->name ? loc->name : "", msg);
}

static void
check(Planner *p, Region *out, Node *cond, const char *text, Node *a, Node *b)
{
	Node *args[4] = {x_cast(p->m, DT_INDEX, cond), x_idx(p->m, text_id(p, text)), a ? a : x_idx(p->m, 0), b ? b : x_idx(p->m, 0)};

	l_call(p->m, out, "check", 4, args);
}

static void
checks(Planner *p)
{
	Module *m = p->m;
	SymDef *d, *e;
	Require *r;
	Node *args[2], *v, *first;
	int i, k;

	for (i = 0; i < m->symdefs.n; i++) {
		d = m->symdefs.at[i];
		for (k = 0; k < i; k++)
			if (((SymDef *)m->symdefs.at[k])->sym == d->sym)
				break;
		if (k == i)
			continue;
		e = m->symdefs.at[k];
		first = host(p, p->sizes, d->sym);
		args[0] = x_idx(m, d->input);
		args[1] = x_idx(m, d->axis);
		v = l_call(m, p->sizes, "dim", 2, args);
		check(p, p->sizes, x_eq(m, v, first), arena_printf(m->arena,
			"dimension %d of input '%s' is $0, but '%s' is $1 (dimension %d of input '%s')", d->axis,
			m->main->params[d->input]->name, d->sym->name, e->axis, m->main->params[e->input]->name), v, first);
	}
	for (i = 0; i < m->requires.n; i++) {
		r = m->requires.at[i];
		if (of_inputs(p, r->cond))
			check(p, p->sizes, host(p, p->sizes, r->cond), place_text(m, r->loc, r->message), NULL, NULL);
	}
}

static void
late_checks(Planner *p, Region *out)
{
	Require *r;
	Node **list, *t;
	int i, k, n;
	bool ok;

	for (i = 0; i < p->m->requires.n; i++) {
		r = p->m->requires.at[i];
		if (of_inputs(p, r->cond))
			continue;
		list = topo_scalar(r->cond, &n);
		for (k = 0, ok = true; k < n && ok; k++) {
			t = list[k]->code == O_READ ? list[k]->in[0] : NULL;
			ok = !is_local_sym(p, list[k]) && (!t || t->code == O_CONST || (t->code == O_PARAM
				? (Region *)map_get(&p->s->home, t) == p->m->main : t->code == O_TENSOR && map_get(&p->s->home, t) == p->m->main));
		}
		free(list);
		if (ok)
			check(p, out, host(p, out, r->cond), place_text(p->m, r->loc, r->message), NULL, NULL);
	}
}

static void
outputs(Planner *p, Region *out)
{
	Node *t, *args[4];
	Storage *st;
	int i;

	for (i = 0; i < p->m->main->nresults; i++) {
		t = p->m->main->results[i];
		if (t->type->kind != T_TENSOR) {
			ensure(p, out, t);
			args[0] = x_idx(p->m, i);
			args[1] = x_idx(p->m, value_buffer(p, t));
			args[2] = x_idx(p->m, 0);
			args[3] = array(p, out, 0, NULL);
			l_call(p->m, out, "output", 4, args);
			continue;
		}
		ensure(p, out, t);
		st = storage_of(p->s, t);
		p->step++;
		touch(p, t);
		if (st->id >= 0 && buf_at(p, st->id)->cls == BUF_OUTPUT && buf_at(p, st->id)->index == i)
			continue;
		declare_output(p, out, i, st->id, t);
	}
}

/* t's sub-byte elements packed into bytes, low bits first. */
static Node *
packed(Module *m, Node *t)
{
	DType d = dtype_of(t);
	int bits = dtypes[d].bits, per = 8 / bits, k, i;
	Node *n = numel(m, t), *axis = x_axis(m, x_ceildiv(m, n, x_idx(m, per))), *body = NULL, *flat, *rest, *idx[MAX_RANK], *v;

	for (k = 0; k < per; k++) {
		flat = rest = x_addi(m, x_muli(m, axis, per), k);
		for (i = rank_of(t); i-- > 0;) {
			idx[i] = i ? x_mod(m, rest, dim_of(t, i)) : rest;
			rest = x_fdiv(m, rest, dim_of(t, i));
		}
		v = x_read(m, t, idx);
		v = d == DT_F4E2M1 ? x_cast(m, DT_U8, x_bits(m, DT_U4, v))
			: x_and(m, x_bits(m, DT_U8, x_cast(m, DT_I8, v)), x_int(m, DT_U8, (1 << bits) - 1));
		v = x_select(m, x_lt(m, flat, n), v, x_int(m, DT_U8, 0));
		v = x2(m, O_SHL, v, x_int(m, DT_U8, k * bits));
		body = body ? x_or(m, body, v) : v;
	}
	v = t_tensor(m, 1, &axis, body);
	v->loc = t->loc;
	return v;
}

static void
pack_outputs(Sched *s)
{
	Node *t;
	int i;

	s->shape = NEWN(s->m, Node *, s->m->main->nresults + 1);
	for (i = 0; i < s->m->main->nresults; i++) {
		t = s->m->main->results[i];
		if (t->type->kind != T_TENSOR || dtypes[dtype_of(t)].bits >= 8 || dtype_of(t) == DT_STRING)
			continue;
		s->shape[i] = t;
		s->m->main->results[i] = packed(s->m, t);
	}
}

static void
restore_outputs(Sched *s)
{
	int i;

	for (i = 0; i < s->m->main->nresults; i++)
		if (s->shape[i])
			s->m->main->results[i] = s->shape[i];
}

static bool
make_plan(Sched *s)
{
	Planner p = {.s = s, .m = s->m};
	Region *body = region_new(s->m, NULL), *plan = region_new(s->m, "plan");
	Vec groups;
	Node **list;
	PlanBuf *b;
	int i, n;
	bool fixed = true;

	if (find_sizes(s)) {
		diag_error(s->m->diag, X_USAGE, NULL, "run-time data give sizes that have no name: run the pass 'sizes' first");
		return false;
	}
	pack_outputs(s);
	home_regions(s->m, &s->home);
	groups = groups_of(s);
	check_layouts(s);
	if (s->m->diag->errors)
		return false;
	s->plan = NEW(s->m, Plan);
	s->plan->in_buf = NEWN(s->m, int, s->m->main->nparams + 1);
	for (i = 0; i < s->m->main->nparams; i++)
		s->plan->in_buf[i] = -1;
	p.sizes = region_new(s->m, NULL);
	push(&p, s->m->main);
	symbol_owners(s->m, &p.owner);
	list = topo_decided(s->m->main->results, s->m->main->nresults, &p.owner, &n);
	for (i = 0; i < groups.n; i++)
		add_item(&p, groups.at[i], NULL);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_LOOP || list[i]->code == O_IF || list[i]->code == O_HOST
		 || list[i]->code == O_SEQ)
			add_item(&p, NULL, list[i]);
	free(list);
	checks(&p);
	late_checks(&p, body);
	run_region(&p, body, s->m->main);
	outputs(&p, body);
	l_call(s->m, p.sizes, "place", 0, NULL);
	for (i = 0; i < p.sizes->nresults; i++)
		region_add(s->m, plan, p.sizes->results[i]);
	for (i = 0; i < body->nresults; i++)
		region_add(s->m, plan, body->results[i]);
	pop(&p);
	restore_outputs(s);
	s->plan->nbufs = s->bufs.n;
	s->plan->bufs = NEWN(s->m, PlanBuf, s->bufs.n + 1);
	for (i = 0; i < s->bufs.n; i++) {
		b = s->bufs.at[i];
		s->plan->bufs[i] = *b;
		fixed &= b->cls != BUF_ARENA || b->size >= 0;
	}
	s->plan->ntexts = p.texts.n;
	s->plan->texts = (const char **)p.texts.at;
	if (fixed)
		place_static(s->m, s->plan);
	else
		s->plan->formula = peak_formula(s->m, s->plan);
	s->m->plan = plan;
	s->m->memory = s->plan;
	map_free(&p.item);
	map_free(&p.views);
	map_free(&p.cells);
	map_free(&p.owner);
	map_free(&p.values);
	map_free(&p.checked);
	return s->m->diag->errors == 0;
}

bool
pass_schedule(Module *m)
{
	Sched s = sched_open(m);
	bool ok = make_plan(&s);

	sched_close(&s);
	return ok;
}
