/*
 * From a scalar definition to statements: reads become loads at flat addresses, reductions and
 * iterations become loops around accumulators. A loop under a condition stays under it.
 */
#include <stdlib.h>
#include <string.h>
#include "sched.h"

enum { WRITTEN_OUT = 4, MAX_WRITTEN = 48 };   /* steps at once, of bodies of at most so many nodes */

/* ---- sizes and axes -------------------------------------------------------------------------- */

Node *
only_reduction(Node *body)
{
	Node **list, *loop = NULL;
	int i, n, loops = 0;

	list = topo_scalar(body, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_REDUCE || list[i]->code == O_ITER) {
			loop = list[i];
			loops++;
		}
	free(list);
	return loops == 1 && loop->code == O_REDUCE ? loop : NULL;
}

int64_t
const_or(const Node *e, int64_t other)
{
	int64_t v;

	return is_int(e, &v) ? v : other;
}

void
digits(Module *m, Map *map, int n, Node *const *axes, Node *flat)
{
	Node *ext;
	int i;

	for (i = n; i-- > 0;) {
		ext = axes[i]->in[0];
		map_put(map, axes[i], i ? x_mod(m, flat, ext) : flat);
		flat = x_fdiv(m, flat, ext);
	}
}

Node *
axes_product(Module *m, int n, Node *const *axes)
{
	Node *e = x_idx(m, 1);
	int i;

	for (i = 0; i < n; i++)
		e = x_mul(m, e, axes[i]->in[0]);
	return e;
}

Sched
sched_open(Module *m)
{
	return (Sched){.m = m, .mach = m->machine, .gpu = machine_gpu(m->machine)};
}

void
sched_close(Sched *s)
{
	map_free(&s->storage);
	map_free(&s->home);
	map_free(&s->sizereads);
	map_free(&s->alone);
}

/* ---- storage --------------------------------------------------------------------------------- */

static Node *
stored_extent(Sched *s, const Storage *st, int d)
{
	Node *n = dim_of(st->tensor, d);

	return st->halo ? x_add(s->m, x_add(s->m, st->before[d], n), st->after[d]) : n;
}

void
storage_set_order(Sched *s, Storage *st, const int *order)
{
	Node *n = x_idx(s->m, 1);
	int i, rank = rank_of(st->tensor);

	memcpy(st->order, order, sizeof *order * (size_t)rank);
	if (st->block)                           /* the last dimension counts within its block */
		n = x_idx(s->m, st->block);
	for (i = rank; i-- > 0;) {
		if (st->block && i == rank - 1) {
			st->stride[order[i]] = x_idx(s->m, 1);
			continue;
		}
		st->stride[order[i]] = n;
		n = x_mul(s->m, n, stored_extent(s, st, order[i]));
	}
	st->panel = n;
	if (st->block)
		n = x_mul(s->m, n,
			x_ceildiv(s->m, dim_of(st->tensor, order[rank - 1]), x_idx(s->m, st->block)));
	st->count = n;
}

/* The order that the tensor's attributes state, or row-major. */
static void
stated_order(Sched *s, const Node *t, int *order)
{
	const Attr *a = attr_find(t->attrs, "order");
	bool seen[MAX_RANK] = {0};
	int i, rank = rank_of(t);

	for (i = 0; i < rank; i++)
		order[i] = i;
	if (!a)
		return;
	for (i = 0; a->kind == A_INTS && a->n == rank && i < rank; i++) {
		if (a->is[i] < 0 || a->is[i] >= rank || seen[a->is[i]])
			break;
		seen[a->is[i]] = true;
		order[i] = (int)a->is[i];
	}
	if (i < rank || a->kind != A_INTS || a->n != rank)
		diag_error(s->m->diag, X_INVALID, t->loc, "'order' must list the %d dimensions once each",
			rank);
}

static int
stated_block(Sched *s, const Node *t)
{
	const Attr *a = attr_find(t->attrs, "block");

	if (a && (a->kind != A_INT || a->i <= 0 || a->i > 4096 || rank_of(t) == 0
	 || (t->code != O_CONST && t->code != O_TENSOR) || attr_find(t->attrs, "halo"))) {
		diag_error(s->m->diag, X_INVALID, t->loc,
			"only the last dimension of a constant or a computed tensor without a halo is stored "
			"in blocks, of 1 to 4096");
		return 0;
	}
	return a ? (int)a->i : 0;
}

Storage *
storage_of(Sched *s, Node *t)
{
	Storage *st = map_get(&s->storage, t);
	int order[MAX_RANK];

	if (st)
		return st;
	st = NEW(s->m, Storage);
	st->tensor = t;
	st->id = -1;
	st->block = stated_block(s, t);
	stated_order(s, t, order);
	stated_halo(s, st);
	storage_set_order(s, st, order);
	map_put(&s->storage, t, st);
	return st;
}

KB
kb_new(Sched *s, const Loc *loc)
{
	Kernel *k = NEW(s->m, Kernel);

	k->loc = loc;
	return (KB){.s = s, .m = s->m, .k = k};
}

Node *
kb_buffer(KB *kb, Node *t, bool write)
{
	Node *b = map_get(&kb->buf, t), *n;
	int i;

	if (!b) {
		n = storage_of(kb->s, t)->count;
		if (is_packed(kb->s, t))
			n = x_ceildiv(kb->m, n, x_idx(kb->m, 8 / dtypes[dtype_of(t)].bits));
		b = l_buffer(kb->m, arena_printf(kb->m->arena, "b%d", kb->bufs.n),
			is_packed(kb->s, t) ? DT_U8 : storage_type(dtype_of(t)), SP_GLOBAL, 1, &n);
		map_put(&kb->buf, t, b);
		vec_push(kb->m, &kb->bufs, b);
		vec_push(kb->m, &kb->tensors, t);
	}
	if (write) {
		if (!kb->k->writes)
			kb->k->writes = NEWN(kb->m, bool, 256);
		for (i = 0; i < kb->bufs.n && i < 256; i++)
			if (kb->bufs.at[i] == b)
				kb->k->writes[i] = true;
	}
	return b;
}

Node *
kb_address(KB *kb, Node *t, Node *const *idx)
{
	Storage *st = storage_of(kb->s, t);
	Node *a = x_idx(kb->m, 0), *e, *b;
	int i;

	for (i = 0; i < rank_of(t); i++) {
		if (is_intv(dim_of(t, i), 1) && !st->before[i])
			continue;
		e = is_intv(dim_of(t, i), 1) ? x_idx(kb->m, 0) : x_cast(kb->m, DT_INDEX, idx[i]);
		if (st->before[i])
			e = x_add(kb->m, e, st->before[i]);
		if (st->block && i == st->order[rank_of(t) - 1]) {
			b = x_idx(kb->m, st->block);
			a = x_add(kb->m, a,
				x_add(kb->m, x_mul(kb->m, x_fdiv(kb->m, e, b), st->panel), x_mod(kb->m, e, b)));
		} else
			a = x_add(kb->m, a, x_mul(kb->m, e, st->stride[i]));
	}
	return kb->assume.n ? subst(kb->m, a, &kb->assume, false) : a;
}

/* Inputs of the program hold sub-byte elements packed, low bits first. */
bool
is_packed(const Sched *s, const Node *t)
{
	int i;

	if (t->code != O_PARAM || dtypes[dtype_of(t)].bits >= 8 || dtype_of(t) == DT_STRING)
		return false;
	for (i = 0; i < s->m->main->nparams; i++)
		if (s->m->main->params[i] == t)
			return true;
	return false;
}

static Node *
load_packed(KB *kb, Node *t, Node *addr)
{
	Module *m = kb->m;
	DType d = dtype_of(t);
	int bits = dtypes[d].bits;
	Node *per = x_idx(m, 8 / bits), *at = x_fdiv(m, addr, per), *v,
		*half = x_int(m, DT_U8, 1 << (bits - 1));

	v = l_load(m, kb_buffer(kb, t, false), 1, &at);
	v = x2(m, O_SHR, v, x_cast(m, DT_U8, x_muli(m, x_mod(m, addr, per), bits)));
	v = x_and(m, v, x_int(m, DT_U8, (1 << bits) - 1));
	if (dtypes[d].cls == 'I')                /* sign bit to the top */
		v = x_bits(m, DT_I8, x_sub(m, x2(m, O_XOR, v, half), half));
	return from_storage(m, d, v);
}

static void
local_index(Module *m, const Local *l, Node *const *idx, Node **out)
{
	int i;

	for (i = 0; i < l->n; i++)
		out[i] = l->base[i] ? x_sub(m, idx[l->dim[i]], l->base[i]) : idx[l->dim[i]];
}

static Node *
load_of(KB *kb, Node *t, Node *const *idx)
{
	Local *l = map_get(&kb->local, t);
	Node *addr, *v, *own[MAX_RANK];

	if (l && l->value)
		return l->value;
	if (l) {
		local_index(kb->m, l, idx, own);
		v = l_load(kb->m, l->buffer, l->n, own);
		return from_storage(kb->m, dtype_of(t), v);
	}
	addr = kb_address(kb, t, idx);
	if (is_packed(kb->s, t))
		return load_packed(kb, t, addr);
	v = l_load(kb->m, kb_buffer(kb, t, false), 1, &addr);
	return from_storage(kb->m, dtype_of(t), v);
}

/* ---- loops in expressions -------------------------------------------------------------------- */

static bool
is_loop(const Node *n)
{
	return n->code == O_REDUCE || n->code == O_ITER;
}

/* Is the loop or choice n free of the axes and carries that loops around it bind? */
static bool
independent(Node *n, Node **list, int count)
{
	Node **own, *b;
	Map bound = {0};
	int i, k, nown;
	bool ok = true;

	own = topo_scalar(n, &nown);
	for (i = 0; i < nown; i++)
		for (k = 0; is_loop(own[i]) && k < own[i]->nin; k++)
			if (own[i]->in[k]->code == O_AXIS || own[i]->in[k]->code == O_CARRY)
				map_put(&bound, own[i]->in[k], own[i]);
	for (i = 0; i < count && ok; i++)
		for (k = 0; ok && is_loop(list[i]) && k + 1 < list[i]->nin
		 && (list[i]->code == O_REDUCE || k < 2); k++) {
			b = list[i]->in[k];
			ok = map_get(&bound, b) || !contains(n, b);
		}
	free(own);
	map_free(&bound);
	return ok;
}

/*
 * What becomes statements before e is evaluated: its loops, and its choices with loops in a branch,
 * that depend on no loop around them and stand under no such choice; operands first.
 */
static void
outermost(KB *kb, Node *e, Vec *found)
{
	Node **list, *n;
	Map loopy = {0}, reach = {0};
	int i, k, count;
	bool sel;

	list = topo_scalar(e, &count);
	for (i = 0; i < count; i++) {
		n = list[i];
		if (is_loop(n))
			map_put(&loopy, n, n);
		for (k = 0; k < n->nin; k++)
			if (n->in[k] && n->in[k]->type->kind == T_SCALAR && map_get(&loopy, n->in[k]))
				map_put(&loopy, n, n);
	}
	map_put(&reach, e, e);
	for (i = count; map_get(&loopy, e) && i-- > 0;) {
		n = list[i];
		if (!map_get(&reach, n) || !map_get(&loopy, n))
			continue;
		sel = n->code == O_SELECT && (map_get(&loopy, n->in[1]) || map_get(&loopy, n->in[2]));
		for (k = 0; k < (sel ? 1 : n->nin); k++)
			if (n->in[k] && n->in[k]->type->kind == T_SCALAR)
				map_put(&reach, n->in[k], n);
	}
	for (i = 0; map_get(&loopy, e) && i < count; i++) {
		n = list[i];
		sel = n->code == O_SELECT && (map_get(&loopy, n->in[1]) || map_get(&loopy, n->in[2]));
		if ((is_loop(n) || sel) && map_get(&reach, n) && independent(n, list, count))
			vec_push(kb->m, found, n);
	}
	free(list);
	map_free(&loopy);
	map_free(&reach);
}

static Node *
reg(KB *kb, Region *r, DType d, int n, Node *const *ext)
{
	return l_alloc(kb->m, r, l_buffer(kb->m, "acc", d, SP_REG, n, ext));
}

static DType
work_type(DType d)
{
	return dt_small(d) ? DT_F32 : storage_type(d);
}

/* The reads of e as loads, over values already emitted for its loops. */
static Node *
convert(KB *kb, Node *e, Map *done)
{
	Node **list, *n, *r, *in[MAX_RANK * 2 + 8];
	int i, k, count;
	bool changed;

	list = topo_scalar(e, &count);
	for (i = 0; i < count; i++) {
		n = list[i];
		if (map_get(done, n))
			continue;
		changed = false;
		for (k = 0; k < n->nin && k < MAX_RANK * 2 + 8; k++) {
			in[k] = n->in[k] && n->in[k]->type->kind == T_SCALAR ? map_get(done, n->in[k])
				: n->in[k];
			if (!in[k])
				in[k] = n->in[k];
			changed |= in[k] != n->in[k];
		}
		if (n->code == O_READ)
			r = load_of(kb, n->in[0], in + 1);
		else if (!changed || n->code == O_AXIS)
			r = n;
		else if (n->code < O_NUM)
			r = x_op(kb->m, n->code, n->nin, in, n->type->dtype);
		else {
			Node t = *n;
			t.in = in;
			r = node_make(kb->m, t);
		}
		map_put(done, n, r);
	}
	free(list);
	return map_get(done, e);
}

/* acc comb v; products are added with muladd where the contract allows (reductions only). */
Node *
accumulate(KB *kb, Comb c, Node *acc, Node *v)
{
	Node *in[3];

	if (v->type != acc->type)                    /* narrow values accumulate wide */
		v = x_cast(kb->m, acc->type->dtype, v);
	if (c == COMB_SUM && v->code == O_MUL
	 && (v->type->dtype == DT_F32 || v->type->dtype == DT_F64)) {
		in[0] = v->in[0], in[1] = v->in[1], in[2] = acc;
		return x_op(kb->m, O_MULADD, 3, in, v->type->dtype);
	}
	return x_comb(kb->m, c, acc, v);
}

/* elements of memory per step of the axis in a read's address; NULL if not linear */
Node *
elem_stride(KB *kb, Node *read, Node *axis)
{
	Node *a = kb_address(kb, read->in[0], read->in + 1), *c, *rest;

	return linear_in(kb->m, a, axis, &c, &rest) ? c : NULL;
}

/* Is the read at places that other reads give? Lanes gather it as well as single elements. */
static bool
looks_up(const KB *kb, const Node *read, const Node *axis)
{
	int i, k, n;
	bool yes = false;
	Node **list;

	for (k = 1; k < read->nin && !yes && !kb->s->gpu; k++) {
		list = topo_scalar(read->in[k], &n);
		for (i = 0; i < n && !yes; i++)
			yes = list[i]->code == O_READ && contains(list[i], axis);
		free(list);
	}
	return yes;
}

/* Do all reads in e that move with the axis move by one element a step, or look something up by
 * what does? There is one, and no scan. */
static bool
unit_stride(KB *kb, Node *e, Node *axis)
{
	Node **list, *c, *rest;
	Local *l;
	int i, n, unit = 0, other = 0;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_READ && contains(list[i], axis)) {
			if ((l = map_get(&kb->local, list[i]->in[0])) && l->buffer) {
				unit += linear_in(kb->m, list[i]->in[list[i]->nin - 1], axis, &c, &rest)
					&& is_intv(c, 1);
				continue;
			}
			c = elem_stride(kb, list[i], axis);
			if (c && is_intv(c, 1))
				unit++;
			else if (!looks_up(kb, list[i], axis))
				other++;
		} else if (list[i]->code == O_ITER)
			other += 100;
	free(list);
	return unit > 0 && other == 0;
}

/* A reduction in lanes: `rows` vectors of w partial results each in the tile acc. */
typedef struct RedCtx { Node *red, *axis, *acc, *body; int w, rows; } RedCtx;

/* One step: acc[u][v] comb= body at index i. */
static void
reduce_step(KB *kb, Region *r, RedCtx *c, Node *u, Node *v, Node *i)
{
	Node *body = subst1(kb->m, c->body, c->axis, i), *idx[2] = {u, v}, *val;

	kb->in_vector = c->w;
	val = kb_emit(kb, r, body);
	l_store(kb->m, r, c->acc, 2, idx,
		accumulate(kb, (Comb)c->red->n, l_load(kb->m, c->acc, 2, idx), val));
	kb->in_vector = 0;
}

/* The tile, each element the combination's identity. */
static void
clear_lanes(KB *kb, Region *r, RedCtx *c)
{
	Module *m = kb->m;
	DType d = work_type(c->red->type->dtype);
	Node *rows = x_idx(m, c->rows), *w = x_idx(m, c->w), *u, *v;
	Region *ru, *rv;

	c->acc = reg(kb, r, d, 2, (Node *[]){rows, w});
	u = x_axis(m, rows), v = x_axis(m, w);
	ru = region_new(m, NULL), rv = region_new(m, NULL);
	l_store(m, rv, c->acc, 2, (Node *[]){u, v}, x_comb_identity(m, (Comb)c->red->n, d));
	l_for(m, ru, F_VECTOR, v, rv);
	l_for(m, r, F_UNROLL, u, ru);
}

/* `blocks` times all rows of full vectors. */
static void
reduce_blocks(KB *kb, Region *r, RedCtx *c, Node *blocks)
{
	Module *m = kb->m;
	Node *j = x_axis(m, blocks), *u = x_axis(m, x_idx(m, c->rows)), *v = x_axis(m, x_idx(m, c->w));
	Region *rj = region_new(m, NULL), *ru = region_new(m, NULL), *rv = region_new(m, NULL);
	Node *at = x_add(m, x_muli(m, j, c->w * c->rows), x_muli(m, u, c->w));

	reduce_step(kb, rv, c, u, v, x_add(m, at, v));
	l_for(m, ru, F_VECTOR, v, rv);
	l_for(m, rj, F_UNROLL, u, ru);
	l_for(m, r, F_SERIAL, j, rj);
}

/* The last elements, from `first` on, in row 0: up to as many vectors as rows, the last one masked. */
static void
reduce_last(KB *kb, Region *r, RedCtx *c, Node *first, Node *count)
{
	Module *m = kb->m;
	Node *j = x_axis(m, x_ceildiv(m, count, x_idx(m, c->w))), *v = x_axis(m, x_idx(m, c->w));
	Region *rj = region_new(m, NULL), *rv = region_new(m, NULL), *step = region_new(m, NULL);
	Node *off = x_add(m, x_muli(m, j, c->w), v);

	reduce_step(kb, step, c, x_idx(m, 0), v, x_add(m, first, off));
	l_when(m, rv, x_lt(m, off, count), step, NULL);
	l_for(m, rj, F_VECTOR, v, rv);
	l_for(m, r, F_SERIAL, j, rj);
}

/* The rows of the tile into row 0. */
static void
reduce_rows(KB *kb, Region *r, RedCtx *c)
{
	Module *m = kb->m;
	Node *v = x_axis(m, x_idx(m, c->w)), *idx[2] = {NULL, v}, *total = NULL, *part;
	Region *rv = region_new(m, NULL);
	int i;

	for (i = 0; i < c->rows; i++) {
		idx[0] = x_idx(m, i);
		part = l_load(m, c->acc, 2, idx);
		total = total ? x_comb(m, (Comb)c->red->n, total, part) : part;
	}
	idx[0] = x_idx(m, 0);
	l_store(m, rv, c->acc, 2, idx, total);
	l_for(m, r, F_VECTOR, v, rv);
}

/*
 * A reduction along a contiguous axis: partial results in a distributed tile, elements taken in
 * turn; the tail goes through the same lanes under a mask, so the order of the sum depends on the
 * extent only. Outer reduction axes run around the lanes.
 */
static Node *
reduce_lanes(KB *kb, Region *r, Node *red, Node *body, int w)
{
	Module *m = kb->m;
	RedCtx c = {.red = red, .axis = red->in[red->nin - 2], .body = body, .w = w, .rows = 4};
	Node *n = c.axis->in[0], *axis, *blocks, *last;
	Region *in = r, *q;
	int64_t ext;
	int i;

	if (is_int(n, &ext) && ext < w * c.rows)
		c.rows = ext < w ? 1 : (int)(ext / w);
	clear_lanes(kb, r, &c);
	for (i = 0; i + 2 < red->nin; i++) {
		q = region_new(m, NULL);
		axis = x_axis(m, kb_emit(kb, in, red->in[i]->in[0]));
		c.body = subst1(m, c.body, red->in[i], axis);
		l_for(m, in, F_SERIAL, axis, q);
		in = q;
	}
	n = kb_emit(kb, in, n);
	blocks = x_fdiv(m, n, x_idx(m, w * c.rows));
	if (!is_intv(blocks, 0))
		reduce_blocks(kb, in, &c, blocks);
	last = x_sub(m, n, x_muli(m, blocks, w * c.rows));
	if (!is_intv(last, 0))
		reduce_last(kb, in, &c, x_muli(m, blocks, w * c.rows), last);
	if (c.rows > 1)
		reduce_rows(kb, r, &c);
	return l_let(m, r, l_fold(m, (Comb)red->n, c.acc, x_axis(m, x_idx(m, w)), 1,
		(Node *[]){x_idx(m, 0)}));
}

/* acc comb= body where the axis is at i. */
static void
serial_step(KB *kb, Region *r, Comb c, Node *acc, Node *body, Node *axis, Node *i)
{
	Module *m = kb->m;
	Node *zero = x_idx(m, 0), *v = kb_emit(kb, r, subst1(m, body, axis, i));

	l_store(m, r, acc, 1, &zero, accumulate(kb, c, l_load(m, acc, 1, &zero), v));
}

/* The innermost loop. In vectors, short steps of a known number are written out in fours: counting
 * would cost as much as they. */
static void
serial_steps(KB *kb, Region *r, Comb c, Node *acc, Node *body, Node *axis)
{
	Module *m = kb->m;
	Node *n = kb_emit(kb, r, axis->in[0]), *k, *u = x_axis(m, x_idx(m, WRITTEN_OUT));
	Region *in = region_new(m, NULL), *q = region_new(m, NULL);
	int64_t v = const_or(n, 0), i;

	if (!kb->in_vector || v < 2 * WRITTEN_OUT || body->size > MAX_WRITTEN) {
		k = x_axis(m, n);
		serial_step(kb, in, c, acc, body, axis, k);
		l_for(m, r, F_SERIAL, k, in);
		return;
	}
	k = x_axis(m, x_idx(m, v / WRITTEN_OUT));
	serial_step(kb, q, c, acc, body, axis, x_add(m, x_muli(m, k, WRITTEN_OUT), u));
	l_for(m, in, F_UNROLL, u, q);
	l_for(m, r, F_SERIAL, k, in);
	for (i = v - v % WRITTEN_OUT; i < v; i++)
		serial_step(kb, r, c, acc, body, axis, x_idx(m, i));
}

static Node *
reduce_serial(KB *kb, Region *r, Node *red, Node *body)
{
	Module *m = kb->m;
	Node *zero = x_idx(m, 0), *one = x_idx(m, 1), *acc, *axis;
	DType d = work_type(red->type->dtype);
	Region *in = r, *q;
	Comb c = (Comb)red->n;
	int i;

	acc = reg(kb, r, d, 1, &one);
	l_store(m, r, acc, 1, &zero, x_comb_identity(m, c, d));
	for (i = 0; i + 2 < red->nin; i++) {
		axis = x_axis(m, kb_emit(kb, in, red->in[i]->in[0]));
		body = subst1(m, body, red->in[i], axis);
		q = region_new(m, NULL);
		l_for(m, in, F_SERIAL, axis, q);
		in = q;
	}
	serial_steps(kb, in, c, acc, body, red->in[red->nin - 2]);
	return l_let(m, r, l_load(m, acc, 1, &zero));
}

Node *
contiguous_last(KB *kb, Node *red)
{
	Node *body = red->in[red->nin - 1], *last = red->in[red->nin - 2], *in[MAX_RANK * 2];
	int i, best = red->nin - 2;

	for (i = red->nin - 2; i >= 0 && red->nin <= MAX_RANK * 2 && !kb->s->gpu; i--)
		if (unit_stride(kb, body, red->in[i]) && (best == i || !unit_stride(kb, body, red->in[best])
		 || const_or(red->in[i]->in[0], 64) > const_or(red->in[best]->in[0], 64)))
			best = i;
	if (red->in[best] == last)
		return red;
	memcpy(in, red->in, sizeof *in * (size_t)red->nin);
	in[red->nin - 2] = red->in[best];
	in[best] = last;
	return x_reduce(kb->m, (Comb)red->n, red->nin - 1, in, body);
}

static Node *
emit_reduce(KB *kb, Region *r, Node *red)
{
	Node *body, *axis;
	int w;
	int64_t n;

	if (!kb->in_vector)
		red = contiguous_last(kb, red);
	body = red->in[red->nin - 1], axis = red->in[red->nin - 2];
	w = lanes_of(kb->s, widest_type(body));

	/* the accumulator of a narrow float was widened by the definition; of the rest here */
	if (!kb->in_vector && w > 1 && unit_stride(kb, body, axis)
		&& !(is_int(axis->in[0], &n) && n < 4))
		return x_cast(kb->m, red->type->dtype, reduce_lanes(kb, r, red, body, w));
	return x_cast(kb->m, red->type->dtype, reduce_serial(kb, r, red, body));
}

static Node *
emit_iter(KB *kb, Region *r, Node *it)
{
	Module *m = kb->m;
	Node *one = x_idx(m, 1), *zero = x_idx(m, 0), *cell, *axis, *carry, *step;
	DType d = storage_type(it->type->dtype);
	Region *body = region_new(m, NULL);

	cell = reg(kb, r, d, 1, &one);
	l_store(m, r, cell, 1, &zero, kb_emit(kb, r, it->in[2]));
	axis = x_axis(m, kb_emit(kb, r, it->in[0]->in[0]));
	carry = l_let(m, body, from_storage(m, it->type->dtype, l_load(m, cell, 1, &zero)));
	step = subst1(m, subst1(m, it->in[3], it->in[0], axis), it->in[1], carry);
	l_store(m, body, cell, 1, &zero, kb_emit(kb, body, step));
	l_for(m, r, F_SERIAL, axis, body);
	return l_let(m, r, from_storage(m, it->type->dtype, l_load(m, cell, 1, &zero)));
}

static Node *
emit_choice(KB *kb, Region *r, Node *sel)
{
	Module *m = kb->m;
	Node *one = x_idx(m, 1), *zero = x_idx(m, 0), *cell;
	Region *a = region_new(m, NULL), *b = region_new(m, NULL);
	DType d = storage_type(sel->type->dtype);

	cell = reg(kb, r, d, 1, &one);
	l_store(m, a, cell, 1, &zero, kb_emit(kb, a, sel->in[1]));
	l_store(m, b, cell, 1, &zero, kb_emit(kb, b, sel->in[2]));
	l_when(m, r, kb_emit(kb, r, sel->in[0]), a, b);
	return l_let(m, r, from_storage(m, sel->type->dtype, l_load(m, cell, 1, &zero)));
}

Node *
kb_emit(KB *kb, Region *r, Node *e)
{
	Vec loops = {0};
	Map done = {0}, none = {0};
	Node *n, *v;
	int i;

	if (kb->assume.n)
		e = subst(kb->m, e, &kb->assume, false);
	outermost(kb, e, &loops);
	for (i = 0; i < loops.n; i++) {
		n = subst(kb->m, loops.at[i], &done, false);
		v = n->code == O_REDUCE ? emit_reduce(kb, r, n) : n->code == O_ITER ? emit_iter(kb, r, n)
			: n->code == O_SELECT ? emit_choice(kb, r, n) : n;
		map_put(&done, loops.at[i], v);
	}
	v = legalize(kb->m, convert(kb, subst(kb->m, e, &done, false), &none));
	map_free(&none);
	map_free(&done);
	return v;
}

void
kb_store(KB *kb, Region *r, Node *t, Node *const *idx, Node *value)
{
	Node *addr = kb_address(kb, t, idx);

	l_store(kb->m, r, kb_buffer(kb, t, true), 1, &addr, legalize(kb->m, to_storage(kb->m, value)));
}

void
local_store(KB *kb, Region *r, const Local *l, Node *const *idx, Node *value)
{
	Node *own[MAX_RANK];

	local_index(kb->m, l, idx, own);
	l_store(kb->m, r, l->buffer, l->n, own, legalize(kb->m, to_storage(kb->m, value)));
}

void
kb_put(KB *kb, Region *r, Node *t, Node *const *idx, Node *value)
{
	const Local *l = map_get(&kb->local, t);

	if (l && l->buffer)
		local_store(kb, r, l, idx, value);
	if (!l || l->global)
		kb_store(kb, r, t, idx, value);
}

/* ---- versions -------------------------------------------------------------------------------- */

/* Is the condition that a size is 1, the same for the whole kernel? */
static bool
is_size_one(const Node *c)
{
	Node **list;
	int i, n;
	bool ok = c->code == O_EQ && (is_intv(c->in[0], 1) || is_intv(c->in[1], 1));

	if (!ok)
		return false;
	list = topo_scalar((Node *)c, &n);
	for (i = 0; i < n && ok; i++)
		ok = list[i]->type->dtype == DT_INDEX || list[i] == c;
	for (i = 0; i < n && ok; i++)
		ok = list[i]->code < O_NUM || list[i]->code == O_NUM || list[i]->code == O_SYM;
	free(list);
	return ok;
}

void
kb_versions(KB *kb, Region *r, Node *body, Emit *emit, void *ctx)
{
	Module *m = kb->m;
	Node **list, *usual = x_bool(m, true);
	Region *plain, *other;
	int i, n;

	list = topo_scalar(body, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_SELECT && list[i]->type->dtype == DT_INDEX
		 && is_size_one(list[i]->in[0])) {
			map_put(&kb->assume, list[i]->in[0], x_bool(m, false));
			usual = x_and(m, usual, x_not(m, list[i]->in[0]));
		}
	free(list);
	if (!kb->assume.n) {
		emit(kb, r, ctx);
		return;
	}
	plain = region_new(m, NULL), other = region_new(m, NULL);
	emit(kb, plain, ctx);
	map_free(&kb->assume);
	emit(kb, other, ctx);
	l_when(m, r, usual, plain, other);
}

/* ---- vectors --------------------------------------------------------------------------------- */

DType
widest_along(Node *body, const Node *axis)
{
	Node **list;
	DType w = DT_I8, d;
	int i, n;

	list = topo_scalar(body, &n);
	for (i = 0; i < n; i++) {
		d = work_type(list[i]->type->dtype);
		if (d != DT_INDEX && d != DT_BOOL && dtypes[d].bits > dtypes[w].bits
		 && (!axis || contains(list[i], axis)))
			w = d;
	}
	free(list);
	return dtypes[w].bits < 32 && w != DT_I8 ? DT_F32 : w == DT_I8 ? DT_I32 : w;
}

DType
widest_type(Node *body)
{
	return widest_along(body, NULL);
}

int
lanes_of(const Sched *s, DType d)
{
	return machine_lanes(s->mach, d);
}

void
vector_loop(KB *kb, Region *r, Node *n, int w, LoopBody *body, void *ctx)
{
	Module *m = kb->m;
	Node *full, *j, *v, *last, *at;
	Region *rj, *rv, *rb;
	int64_t ext;
	int save = kb->in_vector;

	if (w <= 1 || kb->in_vector) {
		j = x_axis(m, n);
		rj = region_new(m, NULL);
		body(kb, rj, j, ctx);
		l_for(m, r, F_SERIAL, j, rj);
		return;
	}
	while (is_int(n, &ext) && w > 2 && ext <= w / 2)
		w /= 2;
	full = x_fdiv(m, n, x_idx(m, w));
	if (!is_intv(full, 0)) {
		j = x_axis(m, full);
		v = x_axis(m, x_idx(m, w));
		rj = region_new(m, NULL), rv = region_new(m, NULL);
		kb->in_vector = w;
		body(kb, rv, x_add(m, x_muli(m, j, w), v), ctx);
		kb->in_vector = save;
		l_for(m, rj, F_VECTOR, v, rv);
		l_for(m, r, F_SERIAL, j, rj);
	}
	last = x_sub(m, n, x_muli(m, full, w));
	if (is_intv(last, 0))
		return;
	v = x_axis(m, x_idx(m, w));
	rv = region_new(m, NULL), rb = region_new(m, NULL);
	at = x_add(m, x_muli(m, full, w), v);
	kb->in_vector = w;
	body(kb, rb, at, ctx);
	kb->in_vector = save;
	l_when(m, rv, x_lt(m, v, last), rb, NULL);
	l_for(m, r, F_VECTOR, v, rv);
}

/* ---- finishing ------------------------------------------------------------------------------- */

static bool
known_sym(Vec *v, Node *s)
{
	int i;

	for (i = 0; i < v->n; i++)
		if (v->at[i] == s)
			return true;
	return false;
}

static void
collect_syms(KB *kb, Region *r, Vec *syms)
{
	Node **list;
	int i, n;

	list = topo_statements(r, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_SYM && !known_sym(syms, list[i]))
			vec_push(kb->m, syms, list[i]);
	free(list);
}

static const char *
kernel_name(Sched *s, const Loc *loc)
{
	char text[64] = "", *p = text;
	const char *c;
	int n = 0;

	for (; loc && n < 3; loc = loc->next, n++) {
		if (!loc->type || (size_t)(p - text) + strlen(loc->type) + 2 > sizeof text)
			break;
		*p++ = '_';
		for (c = loc->type; *c; c++)
			*p++ = *c >= 'A' && *c <= 'Z' ? (char)(*c + 32) : *c;
		*p = 0;
	}
	return arena_printf(s->m->arena, "k%d%s", s->nkernels++, text);
}

static int
cmp_sym(const void *a, const void *b)
{
	const Node *x = *(Node *const *)a, *y = *(Node *const *)b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* Do bounds that the user gave to all of its symbols allow a tensor that 32 bits cannot index? */
static bool
announced_large(KB *kb)
{
	Node *n, **list;
	int i, k, count;
	bool bounded;

	for (i = 0; i < kb->tensors.n; i++) {
		n = storage_of(kb->s, kb->tensors.at[i])->count;
		list = topo_scalar(n, &count);
		for (k = 0, bounded = n->hi > INDEX32_MAX; k < count; k++)
			bounded &= list[k]->code != O_SYM || list[k]->hi < INT32_MAX;
		free(list);
		if (bounded)
			return true;
	}
	return false;
}

Kernel *
kb_finish(KB *kb, Region *body, const char *schedule)
{
	Kernel *k = kb->k;
	Vec syms = {0};
	const Loc *l;
	size_t size = 1;
	char *text;

	collect_syms(kb, body, &syms);
	if (syms.n)
		qsort(syms.at, (size_t)syms.n, sizeof *syms.at, cmp_sym);
	k->name = kernel_name(kb->s, k->loc);
	k->tensors = (Node **)kb->tensors.at;
	k->nbufs = kb->bufs.n;
	k->bufs = (Node **)kb->bufs.at;
	if (!k->writes)
		k->writes = NEWN(kb->m, bool, 256);
	k->nsyms = syms.n;
	k->syms = (Node **)syms.at;
	k->args = (Node **)syms.at;
	k->body = body;
	k->schedule = schedule;
	k->index32 = kb->s->gpu && k->nsyms && !announced_large(kb);
	for (l = k->loc; l; l = l->next)
		size += (l->name ? strlen(l->name) : 0) + (l->type ? strlen(l->type) : 0) + 8;
	text = arena_alloc(kb->m->arena, size);
	for (l = k->loc; l; l = l->next) {
		if (l->type)
			strcat(strcat(text, l->type), " ");
		strcat(strcat(strcat(text, "'"), l->name ? l->name : "?"), l->next ? "', " : "'");
	}
	k->errors = NEWN(kb->m, const char *, 1);
	k->errors[0] = text;
	k->nerrors = 1;
	map_free(&kb->buf);
	map_free(&kb->local);
	return k;
}
