/*
 * The plan's buffers: which there are, how long each lives, and who shares one. A tensor has the
 * buffer that its Storage numbers; a view (a result of a branch, a copy that would change nothing)
 * has another's or may be one of several, and its uses count for them. Lifetimes are steps of the
 * plan, from `first` to `last`: place.c and the runtime lay the arena out by them.
 *
 * In the arena is what has a size from the beginning of a run; what data decide is allocated where
 * it is made; sequences, optionals and maps are the runtime's own, never copied, only moved.
 */
#include <string.h>
#include "plan.h"

PlanBuf *
buf_at(Planner *p, int id)
{
	return p->s->bufs.at[id];
}

int
new_buf(Planner *p, BufClass cls, DType d, const char *name)
{
	PlanBuf *b = NEW(p->m, PlanBuf);

	*b = (PlanBuf){.cls = cls, .dtype = d, .name = name, .alias = -1, .first = p->step,
		.last = p->step, .size = -1, .offset = -1, .index = -1};
	vec_push(p->m, &p->s->bufs, b);
	return p->s->bufs.n - 1;
}

void
touch_buffer(Planner *p, Node *t)
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
				touch_buffer(p, v->at[i]);
}

/* A constant as its storage lays it out: unpacked, permuted, in padded blocks. */
static Data *
laid_out(Planner *p, Storage *st, const Data *d, DType dt)
{
	Module *m = p->m;
	DType sd = storage_type(dt);
	int64_t dims[MAX_RANK], stride[MAX_RANK], count, idx[MAX_RANK] = {0}, k, at, panel = 0,
		size = dtypes[sd].bits / 8;
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
			at += st->block && i == last ? idx[i] / st->block * panel + idx[i] % st->block
				: idx[i] * stride[i];
		if (sd == dt)
			memcpy(q + at * size, (const char *)d->bytes + k * size, (size_t)size);
		else
			data_set(q, sd, at, dt == DT_F4E2M1 ? data_get(d, DT_U4, k) : data_get(d, dt, k));
		for (i = rank; i-- > 0 && ++idx[i] == dims[i];)
			idx[i] = 0;
	}
	return out;
}

void
const_buffer(Planner *p, Node *t)
{
	Storage *st = storage_of(p->s, t);
	PlanBuf *b;

	if (st->id >= 0)
		return;
	st->id = new_buf(p, dtype_of(t) == DT_STRING ? BUF_CONST : BUF_WEIGHT,
		storage_type(dtype_of(t)), t->name);
	b = buf_at(p, st->id);
	b->first = 0;
	b->last = UINT32_MAX;
	b->data = dtype_of(t) == DT_STRING ? t->data : laid_out(p, st, t->data, dtype_of(t));
	b->size = (int64_t)b->data->size;
}

Node *
bytes_of(Planner *p, Node *t)
{
	return x_muli(p->m, storage_of(p->s, t)->count,
		dtype_of(t) == DT_STRING ? 16 : dtypes[storage_type(dtype_of(t))].bits / 8);
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

void
declare_output(Planner *p, Region *out, int i, int id, Node *t)
{
	Node *dims[MAX_RANK], *args[4];
	int k;

	if (p->s->shape[i])
		t = p->s->shape[i];
	for (k = 0; k < rank_of(t); k++)
		dims[k] = host_value(p, out, dim_of(t, k));
	args[0] = x_idx(p->m, i);
	args[1] = x_idx(p->m, id);
	args[2] = x_idx(p->m, rank_of(t));
	args[3] = arg_array(p, out, rank_of(t), dims);
	l_call(p->m, out, "output", 4, args);
}

void
allocate_buffer(Planner *p, Region *out, int id, Node *bytes)
{
	Node *args[2] = {x_idx(p->m, id), bytes};

	l_call(p->m, out, "alloc", 2, args);
}

/* The buffer that a kernel of this region writes t into. */
void
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
		st->id = new_buf(p, BUF_OUTPUT, storage_type(dtype_of(t)), output_name(p->m, o));
		b = buf_at(p, st->id);
		b->index = o;
		if (is_int(bytes, &v))
			b->size = v;
		declare_output(p, out, o, st->id, t);
		return;
	}
	st->id = new_buf(p, of_inputs(p, bytes) ? BUF_ARENA : BUF_HEAP, storage_type(dtype_of(t)),
		NULL);
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
		args[1] = host_value(p, p->sizes, bytes);
		p->scope = save;
		l_call(p->m, p->sizes, "size", 2, args);
	} else
		allocate_buffer(p, out, st->id, host_value(p, out, bytes));
}

/* Is t a read of another tensor's memory as it lies? Then no kernel is needed. */
Node *
same_memory(Planner *p, Node *t)
{
	KB kb = kb_new(p->s, NULL);
	Node *body = t->in[t->nin - 1], *a, *b;

	if (storage_of(p->s, t)->of)
		return storage_of(p->s, t)->of;
	if (t->code != O_TENSOR || body->code != O_READ || output_index(p, t) >= 0
	 || storage_of(p->s, t)->id >= 0)
		return NULL;
	if (storage_of(p->s, body->in[0])->block
	 || storage_of(p->s, t)->count != storage_of(p->s, body->in[0])->count)
		return NULL;
	a = kb_address(&kb, body->in[0], body->in + 1);
	b = kb_address(&kb, t, t->in);
	return a == b ? body->in[0] : NULL;
}

void
add_view(Planner *p, Node *t, Node *base)
{
	Vec *v = map_get(&p->views, t);

	if (!v) {
		v = NEW(p->m, Vec);
		map_put(&p->views, t, v);
	}
	vec_push(p->m, v, base);
}

void
copy_bytes(Planner *p, Region *out, int dst, Node *at, int src, Node *bytes)
{
	Node *args[5] = {x_idx(p->m, dst), at, x_idx(p->m, src), x_idx(p->m, 0), bytes};

	l_call(p->m, out, "copy", 5, args);
}

void
copy_all(Planner *p, Region *out, Node *dst, Node *src)
{
	p->step++;
	touch_buffer(p, src);
	touch_buffer(p, dst);
	copy_bytes(p, out, storage_of(p->s, dst)->id, x_idx(p->m, 0), storage_of(p->s, src)->id,
		host_value(p, out, bytes_of(p, src)));
}

/* Sequences and optionals are not copied: the buffer gets the same value. */
void
move_value(Planner *p, Region *out, int dst, int src)
{
	Node *args[2] = {x_idx(p->m, dst), x_idx(p->m, src)}, *list = arg_array(p, out, 2, args);

	l_call(p->m, out, "host.value_move", 1, &list);
}

int
root_buffer(Planner *p, Node *t)
{
	return t->type->kind == T_TENSOR ? storage_of(p->s, t)->id : value_buffer(p, t);
}

/* The buffer of a sequence, optional or map. */
int
value_buffer(Planner *p, Node *t)
{
	intptr_t id = (intptr_t)map_get(&p->values, t);

	if (!id) {
		id = new_buf(p, BUF_VALUE, DT_NONE, NULL) + 1;
		map_put(&p->values, t, (void *)id);
	}
	return (int)id - 1;
}

void
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
