/*
 * GPU schedule of the class order: positions in a sorted sequence (order.c says how they are known).
 *
 * A block sorts a row in shared memory: keys and their elements' numbers, by the merging network of
 * Batcher in the form where all comparators put the lesser first. Each merge begins by comparing
 * mirrored places, so that what lies past the row's end needs no storage: such comparators are left
 * out. Ties go by the elements' numbers, so the order is total and the result the one of counting.
 * Rows longer than shared memory takes are counted, THREADS elements a block.
 */
#include <stdlib.h>
#include "sched.h"

enum { THREADS = 512, PLACES = 4096, LEVELS = 12 };     /* PLACES = 1 << LEVELS, of 4-byte keys */

typedef struct Bitonic {
	KB *kb;
	Module *m;
	Frame f;
	Sorting o;
	Node *t, *idx[MAX_RANK];   /* the tensor, and its indices but along the axis */
	DType key;
	Node *n;               /* elements of a row */
	int most;              /* that a block sorts */
	Node *keys, *perm, *place;
} Bitonic;

static Node *
op(Module *m, OpCode c, Node *a, Node *b)
{
	return x_op(m, c, 2, (Node *[]){a, b}, DT_BOOL);
}

static Node *
i32(Module *m, int v)
{
	return x_int(m, DT_I32, v);
}

static Node *
as_place(Module *m, Region *r, Node *i32)
{
	Node *v = l_let(m, r, x_cast(m, DT_INDEX, i32));

	v->lo = 0;
	return v;
}

/* Runs body for the thread's share of n, element by element. */
static Node *
share(Bitonic *b, Region *r, Node *n, Region *in)
{
	Module *m = b->m;
	Node *step = x_axis(m, x_ceildiv(m, n, x_idx(m, THREADS)));

	l_for(m, r, F_SERIAL, step, in);
	return l_let(m, in, x_add(m, x_muli(m, step, THREADS), b->f.tid));
}

static void
bring_keys(Bitonic *b, Region *r)
{
	Module *m = b->m;
	Region *in = region_new(m, NULL), *own = region_new(m, NULL);
	Node *i = share(b, r, b->n, in), *v = kb_emit(b->kb, own, subst1(m, b->o.key, b->o.p, i));

	l_store(m, own, b->keys, 1, &i, legalize(m, to_storage(m, v)));
	l_store(m, own, b->perm, 1, &i, x_cast(m, DT_I32, i));
	l_when(m, in, x_lt(m, i, b->n), own, NULL);
	l_barrier(m, r);
}

/* Puts the elements at places lo and hi in order, where hi is one. */
static void
compare(Bitonic *b, Region *r, Node *lo, Node *hi)
{
	Module *m = b->m;
	Region *in = region_new(m, NULL), *swap = region_new(m, NULL);
	Node *k[2], *p[2], *at[2] = {as_place(m, r, lo), as_place(m, r, hi)};
	int i;

	for (i = 0; i < 2; i++) {
		k[i] = l_let(m, in, l_load(m, b->keys, 1, &at[i]));
		p[i] = l_let(m, in, l_load(m, b->perm, 1, &at[i]));
	}
	for (i = 0; i < 2; i++) {
		l_store(m, swap, b->keys, 1, &at[i], k[1 - i]);
		l_store(m, swap, b->perm, 1, &at[i], p[1 - i]);
	}
	l_when(m, in, legalize(m, x_before(m, from_storage(m, b->key, k[1]), from_storage(m, b->key, k[0]),
		p[1], p[0], b->o.descending)), swap, NULL);
	l_when(m, r, x_lt(m, at[1], b->n), in, NULL);
}

/* Comparators of places half apart: pair number x is the places x with a bit put in at half. The
 * first of a merge compares the second half mirrored. */
static void
stage(Bitonic *b, Region *r, Node *half, bool mirrored)
{
	Module *m = b->m;
	Region *in = region_new(m, NULL);
	Node *x = x_cast(m, DT_I32, share(b, r, b->n, in)), *rest, *lo, *hi;

	rest = l_let(m, in, op(m, O_AND, x, op(m, O_SUB, half, i32(m, 1))));
	lo = l_let(m, in, op(m, O_SUB, op(m, O_MUL, x, i32(m, 2)), rest));
	hi = mirrored ? op(m, O_SUB, op(m, O_ADD, lo, op(m, O_SUB, op(m, O_MUL, half, i32(m, 2)),
			i32(m, 1))), op(m, O_MUL, rest, i32(m, 2)))
		: op(m, O_ADD, lo, half);
	compare(b, in, lo, l_let(m, in, hi));
	l_barrier(m, r);
}

/* Merges runs of half places in pairs, half doubling as long as there are two. */
static void
network(Bitonic *b, Region *r)
{
	Module *m = b->m;
	Node *level = x_axis(m, x_idx(m, LEVELS)), *down, *half;
	Region *all = region_new(m, NULL), *in = region_new(m, NULL), *rest = region_new(m, NULL);

	half = l_let(m, all, op(m, O_SHL, i32(m, 1), x_cast(m, DT_I32, level)));
	stage(b, in, half, true);
	down = x_axis(m, level);
	stage(b, rest, l_let(m, rest, op(m, O_SHR, half, x_cast(m, DT_I32, x_addi(m, down, 1)))), false);
	l_for(m, in, F_SERIAL, down, rest);
	l_when(m, all, x_lt(m, x_cast(m, DT_INDEX, half), b->n), in, NULL);
	l_for(m, r, F_SERIAL, level, all);
}

/* Each element's place, stored in the elements' order. */
static void
store_places(Bitonic *b, Region *r)
{
	Module *m = b->m;
	Region *in = region_new(m, NULL), *own = region_new(m, NULL);
	Node *i = share(b, r, b->n, in), *at = as_place(m, own, l_load(m, b->perm, 1, &i));

	l_store(m, own, b->place, 1, &at, x_cast(m, DT_I32, i));
	l_when(m, in, x_lt(m, i, b->n), own, NULL);
	l_barrier(m, r);
	in = region_new(m, NULL), own = region_new(m, NULL);
	i = b->idx[b->o.axis] = share(b, r, b->n, in);
	kb_store(b->kb, own, b->t, b->idx, x_cast(m, dtype_of(b->t), l_load(m, b->place, 1, &i)));
	l_when(m, in, x_lt(m, i, b->n), own, NULL);
}

static void
sort_row(Bitonic *b, Region *r)
{
	bring_keys(b, r);
	network(b, r);
	store_places(b, r);
}

static void
count_part(Bitonic *b, Region *r, Node *part, Node *body)
{
	Module *m = b->m;
	Region *in = region_new(m, NULL);
	Node *q = l_let(m, r, x_add(m, x_muli(m, part, THREADS), b->f.tid));

	b->idx[b->o.axis] = q;
	kb_store(b->kb, in, b->t, b->idx, kb_emit(b->kb, in, subst1(m, body, b->o.q, q)));
	l_when(m, r, x_lt(m, q, b->n), in, NULL);
}

/* Shared memory as far as the row may need. */
static void
set_up(Bitonic *b)
{
	Node *size;

	b->most = PLACES / (dtypes[storage_type(b->key)].bits > 32 ? 2 : 1);
	size = x_idx(b->m, const_or(b->n, b->most) < b->most ? const_or(b->n, 0) : b->most);
	b->keys = gpu_shared(b->kb, &b->f, "keys", storage_type(b->key), 1, &size);
	b->perm = gpu_shared(b->kb, &b->f, "perm", DT_I32, 1, &size);
	b->place = gpu_shared(b->kb, &b->f, "places", DT_I32, 1, &size);
}

Kernel *
order_gpu(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Node *t = g->members[0], *axes[MAX_RANK], *body = t->in[t->nin - 1], *parts, *fits;
	Bitonic b = {.kb = &kb, .m = m, .t = t};
	Region *few = region_new(m, NULL), *many = region_new(m, NULL);
	Map map = {0};
	int i, n = 0;

	if (!sorting_of(m, t, &b.o) || const_or(b.n = dim_of(t, b.o.axis), 0) > PLACES)
		return NULL;
	b.key = b.o.key->type->dtype;
	for (i = 0; i + 1 < t->nin; i++)
		if (i != b.o.axis)
			axes[n++] = t->in[i];
	fits = x_le(m, b.n, x_idx(m, PLACES / (dtypes[storage_type(b.key)].bits > 32 ? 2 : 1)));
	parts = x_select(m, fits, x_idx(m, 1), x_ceildiv(m, b.n, x_idx(m, THREADS)));
	b.f = gpu_frame(&kb, x_mul(m, axes_product(m, n, axes), parts), THREADS);
	set_up(&b);
	digits(m, &map, n, axes, l_let(m, b.f.thread, x_fdiv(m, b.f.bid, parts)));
	for (i = 0; i + 1 < t->nin; i++)
		b.idx[i] = i == b.o.axis ? NULL : map_get(&map, t->in[i]);
	body = subst(m, body, &map, false);
	b.o.key = subst(m, b.o.key, &map, false);
	map_free(&map);
	sort_row(&b, few);
	count_part(&b, many, x_mod(m, b.f.bid, parts), body);
	l_when(m, b.f.thread, fits, few, many);
	kb.k->flops = THREADS * 400.0;
	return gpu_close(&kb, &b.f, arena_printf(m->arena, "class=order, threads=%d, sorted=%d", THREADS,
		b.most));
}
