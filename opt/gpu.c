/*
 * GPU schedules, in SIMT form: a grid loop over blocks, a block loop over threads.
 *
 * map: a thread an element (four where the innermost extent allows 128-bit accesses), consecutive
 * threads on consecutive elements of the result's storage.
 * row: a block an outer point; threads stride along the row; a row's scalars are folded across the
 * block, its other values lie in shared memory (in global memory where they do not fit).
 * contract: gpu_contract.c.
 */
#include <stdlib.h>
#include <string.h>
#include "sched.h"

enum { THREADS = 256, SHARED_MAX = 48 * 1024 };

static int64_t
const_or(const Node *e, int64_t other)
{
	int64_t v;

	return is_int(e, &v) ? v : other;
}

Frame
gpu_frame(KB *kb, Node *blocks, int threads)
{
	Module *m = kb->m;
	Frame f = {.body = region_new(m, NULL), .block = region_new(m, NULL), .thread = region_new(m, NULL)};

	f.bid = x_axis(m, blocks);
	f.tid = x_axis(m, x_idx(m, threads));
	kb->k->grid[0] = blocks;
	kb->k->grid[1] = kb->k->grid[2] = x_idx(m, 1);
	kb->k->block = threads;
	return f;
}

Kernel *
gpu_close(KB *kb, Frame *f, const char *schedule)
{
	l_for(kb->m, f->block, F_BLOCK, f->tid, f->thread);
	l_for(kb->m, f->body, F_GRID_X, f->bid, f->block);
	return kb_finish(kb, f->body, schedule);
}

Node *
gpu_shared(KB *kb, Frame *f, const char *name, DType d, int n, Node *const *ext)
{
	int64_t size = dtypes[d].bits / 8;
	int i;

	for (i = 0; i < n; i++)
		size *= const_or(ext[i], 1);
	kb->k->shared += (size + 15) / 16 * 16;
	return l_alloc(kb->m, f->block, l_buffer(kb->m, name, d, SP_SHARED, n, ext));
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

/* ---- map ------------------------------------------------------------------------------------------ */

static void
element(KB *kb, Region *r, Nest *nest, Node *flat)
{
	Module *m = kb->m;
	Map map = {0};
	Node *idx[MAX_RANK];
	int d;

	digits(m, &map, nest->n, nest->axis, flat);
	for (d = 0; d < rank_of(nest->out); d++)
		idx[d] = subst(m, nest->out_idx[d], &map, false);
	kb_store(kb, r, nest->out, idx, kb_emit(kb, r, subst(m, nest->body, &map, false)));
	map_free(&map);
}

static Kernel *
map_gpu(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Nest nest = nest_of(&kb, g->members[0]);
	Node *n = axes_product(m, nest.n, nest.axis), *v, *unit, *flat;
	Region *in = region_new(m, NULL), *rv;
	int lanes = 1;
	Frame f;

	if (nest.n && const_or(nest.axis[nest.n - 1]->in[0], 1) % 4 == 0 && dtypes[storage_type(dtype_of(nest.out))].bits <= 32
	 && body_is_plain(nest.body))
		lanes = 4;
	f = gpu_frame(&kb, x_ceildiv(m, n, x_idx(m, THREADS * lanes)), THREADS);
	unit = l_let(m, f.thread, x_add(m, x_muli(m, f.bid, THREADS), f.tid));
	if (lanes == 1)
		element(&kb, in, &nest, unit);
	else {
		v = x_axis(m, x_idx(m, lanes));
		rv = region_new(m, NULL);
		flat = x_add(m, x_muli(m, unit, lanes), v);
		element(&kb, rv, &nest, flat);
		l_for(m, in, F_VECTOR, v, rv);
	}
	l_when(m, f.thread, x_lt(m, x_muli(m, unit, lanes), n), in, NULL);
	kb.k->flops = THREADS * lanes * element_cost(nest.body);
	return gpu_close(&kb, &f, arena_printf(m->arena, "class=map, threads=%d, lanes=%d", THREADS, lanes));
}

/* ---- row -------------------------------------------------------------------------------------------- */

/* The sum over a block: every thread takes its share, then all fold. */
static Node *
block_reduce(KB *kb, Frame *f, Node *red, int threads)
{
	Module *m = kb->m;
	Node *ext = x_idx(m, threads), *acc, *at, *k, *j, *body = red->in[red->nin - 1], *n, *v;
	Region *rj = region_new(m, NULL), *in = region_new(m, NULL);
	DType d = dt_small(red->type->dtype) ? DT_F32 : storage_type(red->type->dtype);
	Map map = {0};

	acc = l_alloc(m, f->block, l_buffer(m, "part", d, SP_REG, 1, &ext));
	l_store(m, f->thread, acc, 1, &f->tid, x_comb_identity(m, (Comb)red->n, d));
	n = axes_product(m, red->nin - 1, red->in);
	j = x_axis(m, x_ceildiv(m, n, ext));
	k = x_add(m, x_muli(m, j, threads), f->tid);
	at = l_let(m, rj, k);
	digits(m, &map, red->nin - 1, red->in, at);
	v = kb_emit(kb, in, subst(m, body, &map, false));
	map_free(&map);
	l_store(m, in, acc, 1, &f->tid, x_comb(m, (Comb)red->n, l_load(m, acc, 1, &f->tid), x_cast(m, d, v)));
	l_when(m, rj, x_lt(m, at, n), in, NULL);
	l_for(m, f->thread, F_SERIAL, j, rj);
	return l_let(m, f->thread, l_fold(m, (Comb)red->n, acc, f->tid, 0, NULL));
}

static bool
under_select(Node *e, Node *red)
{
	Node **list;
	int i, n;
	bool yes = false;

	list = topo_scalar(e, &n);
	for (i = 0; i < n && !yes; i++)
		yes = (list[i]->code == O_SELECT && (contains(list[i]->in[1], red) || contains(list[i]->in[2], red)))
			|| ((list[i]->code == O_ITER || list[i]->code == O_REDUCE) && list[i] != red && contains(list[i], red));
	free(list);
	return yes;
}

/* Replaces the reductions of e that every thread needs by values folded across the block. */
static Node *
fold_reductions(KB *kb, Frame *f, Node *e, int threads)
{
	Node **list;
	Map map = {0};
	int i, n;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_REDUCE && !under_select(e, list[i]))
			map_put(&map, list[i], block_reduce(kb, f, subst(kb->m, list[i], &map, false), threads));
	free(list);
	e = subst(kb->m, e, &map, false);
	map_free(&map);
	return e;
}

static void
row_member_gpu(KB *kb, Frame *f, Node *t, int nouter, Node **outer, bool local, int threads)
{
	Module *m = kb->m;
	Map map = {0};
	Node *idx[MAX_RANK], *body, *v, *n, *j, *at, *inner[MAX_RANK];
	Region *rj, *in;
	Local *l = NULL;
	int64_t size = dtypes[storage_type(dtype_of(t))].bits / 8, e;
	int i, ni = 0, rank = rank_of(t);
	bool fixed = true;

	for (i = 0; i < rank; i++) {
		if (is_intv(dim_of(t, i), 1))
			idx[i] = x_idx(m, 0);
		else if (i < nouter)
			idx[i] = outer[i];
		else {
			idx[i] = t->in[i];
			inner[ni++] = t->in[i];
			fixed &= is_int(dim_of(t, i), &e);
			size = fixed ? sat_mul(size, e) : size;
			continue;
		}
		map_put(&map, t->in[i], idx[i]);
	}
	body = subst(m, t->in[t->nin - 1], &map, false);
	map_free(&map);
	if (ni == 0) {
		in = region_new(m, NULL);
		v = l_let(m, f->thread, kb_emit(kb, f->thread, fold_reductions(kb, f, body, threads)));
		if (!local) {
			kb_store(kb, in, t, idx, v);
			l_when(m, f->thread, x_eq(m, f->tid, x_idx(m, 0)), in, NULL);
		}
		l = NEW(m, Local);
		l->value = v;
		map_put(&kb->local, t, l);
		return;
	}
	if (local && fixed && kb->k->shared + size <= SHARED_MAX) {
		l = NEW(m, Local);
		l->skip = nouter;
		l->buffer = gpu_shared(kb, f, "row", storage_type(dtype_of(t)), rank - nouter, t->type->dims + nouter);
	}
	n = axes_product(m, ni, inner);
	j = x_axis(m, x_ceildiv(m, n, x_idx(m, threads)));
	rj = region_new(m, NULL), in = region_new(m, NULL);
	at = l_let(m, rj, x_add(m, x_muli(m, j, threads), f->tid));
	digits(m, &map, ni, inner, at);
	v = kb_emit(kb, in, subst(m, body, &map, false));
	for (i = 0; i < rank; i++)
		idx[i] = subst(m, idx[i], &map, false);
	map_free(&map);
	if (l)
		l_store(m, in, l->buffer, rank - nouter, idx + nouter, legalize(m, to_storage(m, v)));
	else
		kb_store(kb, in, t, idx, v);
	l_when(m, rj, x_lt(m, at, n), in, NULL);
	l_for(m, f->thread, F_SERIAL, j, rj);
	l_barrier(m, f->thread);
	if (l)
		map_put(&kb->local, t, l);
}

/* As many threads as the longest row has elements, in whole warps. */
static int
row_threads(Sched *s, Group *g)
{
	int warp = s->mach->warp ? s->mach->warp : 32, t = warp, i, k, n;
	int64_t longest = 1, len;
	Node **list;

	for (i = 0; i < g->n; i++) {
		len = 1;
		for (k = g->nouter; k < rank_of(g->members[i]); k++)
			len = sat_mul(len, const_or(dim_of(g->members[i], k), 256));
		longest = len > longest ? len : longest;
		list = topo_scalar(g->members[i]->in[g->members[i]->nin - 1], &n);
		for (k = 0; k < n; k++)
			if (list[k]->code == O_REDUCE) {
				len = 1;
				for (int j = 0; j + 1 < list[k]->nin; j++)
					len = sat_mul(len, const_or(list[k]->in[j]->in[0], 256));
				longest = len > longest ? len : longest;
			}
		free(list);
	}
	while (t < THREADS && t < longest)
		t *= 2;
	return t;
}

static Kernel *
rows_gpu(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Node *outer[MAX_RANK], *rest, *n = x_idx(m, 1), *ext;
	int threads = row_threads(s, g), i, k;
	Frame f;

	for (i = 0; i < g->nouter; i++)
		n = x_mul(m, n, dim_of(g->members[0], i));
	f = gpu_frame(&kb, n, threads);
	rest = f.bid;
	for (i = g->nouter; i-- > 0;) {
		ext = dim_of(g->members[0], i);
		outer[i] = l_let(m, f.thread, i ? x_mod(m, rest, ext) : rest);
		rest = x_fdiv(m, rest, ext);
	}
	for (k = 0; k < g->n; k++)
		row_member_gpu(&kb, &f, g->members[k], g->nouter, outer, g->local[k], threads);
	kb.k->flops = threads * 16.0;
	return gpu_close(&kb, &f, arena_printf(m->arena, "class=row, threads=%d, members=%d", threads, g->n));
}

Kernel *
schedule_gpu(Sched *s, Group *g)
{
	Kernel *k;

	if (g->n > 1)
		return rows_gpu(s, g);
	if ((k = contract_gpu(s, g)))
		return k;
	if (long_rows(s, g->members[0])) {
		g->nouter = rank_of(g->members[0]);
		return rows_gpu(s, g);
	}
	return map_gpu(s, g);
}
