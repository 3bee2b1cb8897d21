/*
 * GPU schedule of the class row: tensors over shared outer axes (a row each), with reductions along
 * the row.
 *
 * `width` threads have a row; of rows shorter than a warp's reach a block has several. Where
 * neighbours in memory are elements of neighbouring rows (statistics of a channel, channels
 * contiguous), a block has several rows too, and consecutive threads have consecutive rows: it is
 * `across`. They run along the row together, `lanes` elements at a time, in one loop after the
 * other: one for each reduction, which they then fold among them, one for each member's elements.
 * All loops deal out elements alike, so what a thread reads again as its own (the input of softmax,
 * the exponentials) stays in its registers and is read from memory once. Members that are read
 * otherwise lie in shared memory, or in global memory where they do not fit.
 */
#include <stdlib.h>
#include <string.h>
#include "sched.h"

enum { MOST = 256, ACROSS = 32, SECTOR = 32, SHARED_MAX = 47 * 1024, REGISTERS = 64, MAX_KEPT = 32 };

/* The axes of a loop along the row, those of extent 1 left out. */
typedef struct Loop { Node *axes[MAX_RANK * 2]; int n; } Loop;

typedef struct Member { Node *t, *body, *idx[MAX_RANK]; Loop loop; bool local; } Member;

/* Elements of a tensor that threads may keep: those at prefix..., loop axes... */
typedef struct Kept {
	Node *tensor, *prefix[MAX_RANK];
	int nprefix;
	Loop loop;
	int uses;              /* loops that read them */
	Node *buffer;          /* registers [steps][lanes]; NULL: not kept */
	bool ready;
} Kept;

typedef struct Row {
	KB *kb;
	Module *m;
	Frame f;
	Group *g;
	Member *member;
	int width, rows, lanes;
	bool across;
	Node *outer[MAX_RANK]; /* the shared axes */
	Node *count;           /* of rows */
	Node *lane;            /* the thread's place in its row */
	Node *inside;          /* is there such a row? NULL: surely */
	/* reads by the direction of their neighbours: along the row, across rows */
	int neighbours[2];
	int bytes;             /* of the smallest element read across */
	Kept kept[MAX_KEPT];
	int nkept;
	Map elsewhere;         /* members that are read otherwise than by own elements */
} Row;

/* One loop under construction. */
typedef struct Walk {
	Node *step, *v, *first, *ok;   /* first: element of lane 0 */
	Region *in, *body;             /* of a step; of an element */
	Map at;
	int64_t steps;                 /* 0: not known */
} Walk;

/* ---- what is read ---------------------------------------------------------------------------- */

static Loop
loop_of(int n, Node *const *axes)
{
	Loop l = {.n = 0};
	int i;

	for (i = 0; i < n; i++)
		if (!is_intv(axes[i]->in[0], 1))
			l.axes[l.n++] = axes[i];
	return l;
}

static Node *
extent_of(Row *q, const Loop *l)
{
	return axes_product(q->m, l->n, l->axes);
}

/* Does the read's element move as the loop does, over all of its last dimensions? */
static bool
reads_own(const Node *read, const Loop *l, int *nprefix)
{
	int i, k = l->n;

	for (i = read->nin - 1; i >= 1; i--) {
		if (is_intv(dim_of(read->in[0], i - 1), 1) && k)
			continue;
		if (k == 0)
			break;
		if (read->in[i] != l->axes[k - 1] || dim_of(read->in[0], i - 1) != l->axes[k - 1]->in[0])
			return false;
		k--;
	}
	*nprefix = i;
	return k == 0 && l->n > 0;
}

static Kept *
find_kept(Row *q, const Node *read, int nprefix)
{
	int i, k;

	for (i = 0; i < q->nkept; i++) {
		for (k = 0; k < nprefix && q->kept[i].prefix[k] == read->in[k + 1]; k++)
			;
		if (q->kept[i].tensor == read->in[0] && q->kept[i].nprefix == nprefix && k == nprefix)
			return &q->kept[i];
	}
	return NULL;
}

/* Are the read's first indices the same for all of a row? A member's must be the row's own. */
static bool
of_row(Row *q, const Node *read, int nprefix)
{
	Node **list;
	int i, j, k, n;
	bool ok = !member_of(q->g, read->in[0]) || nprefix <= q->g->nouter;

	for (k = 1; k <= nprefix && ok; k++) {
		list = topo_scalar(read->in[k], &n);
		for (i = 0; i < n && ok; i++) {
			for (j = 0; j < q->g->nouter && list[i] != q->outer[j]; j++)
				;
			ok = (list[i]->code != O_AXIS && list[i]->code != O_CARRY) || j < q->g->nouter;
		}
		free(list);
	}
	return ok;
}

static void
note_reads(Row *q, const Loop *l, Node *e)
{
	Node **list, *r;
	Kept *k;
	int i, n, np;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++) {
		r = list[i];
		if (r->code != O_READ)
			continue;
		if (!reads_own(r, l, &np) || !of_row(q, r, np)) {
			map_put(&q->elsewhere, r->in[0], r);
			continue;
		}
		if (!(k = find_kept(q, r, np))) {
			if (q->nkept == MAX_KEPT) {
				map_put(&q->elsewhere, r->in[0], r);
				continue;
			}
			k = &q->kept[q->nkept++];
			*k = (Kept){.tensor = r->in[0], .nprefix = np, .loop = *l};
			memcpy(k->prefix, r->in + 1, sizeof *r->in * (size_t)np);
		}
		k->uses++;
	}
	free(list);
}

/* Does a choice's branch, another loop or one of the axes stand around or in the reduction? */
static bool
stays(Node **list, int n, const Node *red, const Loop *inner)
{
	int i;

	for (i = 0; i < inner->n; i++)
		if (contains(red, inner->axes[i]))
			return true;
	for (i = 0; i < n; i++)
		if ((list[i]->code == O_SELECT
		 && (contains(list[i]->in[1], red) || contains(list[i]->in[2], red)))
		 || ((list[i]->code == O_ITER || list[i]->code == O_REDUCE) && list[i] != red
		 && contains(list[i], red)))
			return true;
	return false;
}

/* The reductions of a member that all threads of a row compute together; operands first. */
static Vec
folded(Row *q, Member *mb)
{
	Vec v = {0};
	Node **list;
	int i, n;

	list = topo_scalar(mb->body, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_REDUCE && !stays(list, n, list[i], &mb->loop))
			vec_push(q->m, &v, list[i]);
	free(list);
	return v;
}

/* Calls fn for each loop of the kernel with its expression, folded reductions as zeros. */
static void
each_loop(Row *q, void (*fn)(Row *, const Loop *, Node *))
{
	int i, k;

	for (k = 0; k < q->g->n; k++) {
		Member *mb = &q->member[k];
		Vec reds = folded(q, mb);
		Map zero = {0};
		for (i = 0; i < reds.n; i++) {
			Node *red = reds.at[i];
			Loop l = loop_of(red->nin - 1, red->in);
			fn(q, &l, subst(q->m, red->in[red->nin - 1], &zero, false));
			map_put(&zero, red, x_int(q->m, red->type->dtype, 0));
		}
		fn(q, &mb->loop, subst(q->m, mb->body, &zero, false));
		map_free(&zero);
	}
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static void
check_lanes(Row *q, const Loop *l, Node *e)
{
	Node **list, *last = l->n ? l->axes[l->n - 1] : NULL, *c;
	int i, n;

	if (!last)
		return;
	if (!divisible(last->in[0], q->lanes))
		q->lanes = 1;
	list = topo_scalar(e, &n);
	for (i = 0; i < n && q->lanes > 1; i++) {
		if (list[i]->code == O_REDUCE || list[i]->code == O_ITER)
			q->lanes = 1;
		if (list[i]->code != O_READ || !contains(list[i], last) || member_of(q->g, list[i]->in[0]))
			continue;
		c = elem_stride(q->kb, list[i], last);
		if (dtypes[storage_type(dtype_of(list[i]->in[0]))].bits < 16
		 || is_packed(q->kb->s, list[i]->in[0]) || !c
		 || (!is_intv(c, 0)
		 && !in_vectors(q->m, kb_address(q->kb, list[i]->in[0], list[i]->in + 1), last,
					q->lanes)))
			q->lanes = 1;
	}
	free(list);
}

static void
check_stores(Row *q)
{
	int k;

	for (k = 0; k < q->g->n; k++) {
		Member *mb = &q->member[k];
		Node *last = mb->loop.n ? mb->loop.axes[mb->loop.n - 1] : NULL;
		if (last && (dtypes[storage_type(dtype_of(mb->t))].bits < 16
		 || !in_vectors(q->m, kb_address(q->kb, mb->t, mb->idx), last, q->lanes)))
			q->lanes = 1;
	}
}

static int64_t
longest(Row *q)
{
	int64_t n = 1, len;
	int i, k;

	for (k = 0; k < q->g->n; k++) {
		Vec reds = folded(q, &q->member[k]);
		for (i = 0; i <= reds.n; i++) {
			Loop l = i < reds.n ? loop_of(((Node *)reds.at[i])->nin - 1, ((Node *)reds.at[i])->in)
				: q->member[k].loop;
			len = const_or(extent_of(q, &l), 1024);
			n = len > n ? len : n;
		}
	}
	return n;
}

/* Threads of a row: few steps, whole sectors, enough threads in all. */
static void
choose_width(Row *q, int least)
{
	const Machine *mach = q->kb->s->mach;
	int64_t vectors = (longest(q) + q->lanes - 1) / q->lanes, rows = const_or(q->count, 256);
	int w = q->lanes > 1 ? 2 : 8;

	while (w < MOST && (vectors > 8 * w || w < least))
		w *= 2;
	while (w < MOST && w < vectors && sat_mul(rows, w) < mach->units * 1024)
		w *= 2;
	q->width = w;
	q->rows = w <= mach->warp && w < 128 && !least ? 128 / w : 1;
}

static int64_t
steps_of(Row *q, const Loop *l)
{
	int64_t n = const_or(extent_of(q, l), 0);

	return (n + q->width * q->lanes - 1) / (q->width * q->lanes);
}

/* Reads that neighbouring threads share out well if they have neighbours of a row, and of
 * neighbouring rows. */
static void
count_directions(Row *q, const Loop *l, Node *e)
{
	Node **list, *c, *outer = q->outer[q->g->nouter - 1];
	int i, k, n, size;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++) {
		if (list[i]->code != O_READ || member_of(q->g, list[i]->in[0]))
			continue;
		for (k = 0; k < l->n && !contains(list[i], l->axes[k]); k++)
			;
		if (k == l->n)
			continue;
		c = elem_stride(q->kb, list[i], outer);
		if (c && is_intv(c, 1)) {
			size = dtypes[storage_type(dtype_of(list[i]->in[0]))].bits / 8;
			q->bytes = !q->bytes || size < q->bytes ? size : q->bytes;
			q->neighbours[1]++;
		}
		c = elem_stride(q->kb, list[i], l->axes[l->n - 1]);
		q->neighbours[0] += c && is_intv(c, 1);
	}
	free(list);
}

/* What registers hold: in order of appearance, as long as there are some. True if all members that
 * are read fit. */
static bool
choose_kept(Row *q)
{
	int64_t left = REGISTERS, words;
	bool all = true, member;
	int i, k, size;

	for (i = 0; i < q->nkept; i++) {
		Kept *p = &q->kept[i];
		size = dtypes[storage_type(dtype_of(p->tensor))].bits / 8;
		member = member_of(q->g, p->tensor);
		words = steps_of(q, &p->loop) * q->lanes * (size > 4 ? size / 4 : 1);
		p->buffer = NULL;
		if ((member || p->uses > 1) && words > 0 && words <= left
		 && !(member && map_get(&q->elsewhere, p->tensor))) {
			left -= words;
			p->buffer = l_buffer(q->m, member ? "own" : "x", storage_type(dtype_of(p->tensor)),
				SP_REG, 2, (Node *[]){x_idx(q->m, steps_of(q, &p->loop)), x_idx(q->m, q->lanes)});
		}
		all &= p->buffer || !member;
	}
	for (k = 0; k < q->g->n; k++)
		all &= !q->member[k].loop.n || !map_get(&q->elsewhere, q->member[k].t);
	return all;
}

/* Members that registers do not hold lie elsewhere. */
static void
place_rest(Row *q)
{
	int i;

	for (i = 0; i < q->nkept; i++)
		if (!q->kept[i].buffer && member_of(q->g, q->kept[i].tensor))
			map_put(&q->elsewhere, q->kept[i].tensor, q->kept[i].tensor);
}

static void
choose_along(Row *q)
{
	choose_width(q, 0);
	if (!choose_kept(q)) {
		choose_width(q, q->kb->s->mach->warp);
		choose_kept(q);
	}
}

/* Up to ACROSS threads a row, so many rows that they read whole sectors; false if rows are better
 * taken along. */
static bool
choose_across(Row *q)
{
	int64_t n = longest(q);

	if (q->g->nouter == 0 || is_intv(q->outer[q->g->nouter - 1]->in[0], 1))
		return false;
	each_loop(q, count_directions);
	if (q->neighbours[1] <= q->neighbours[0])
		return false;
	for (q->width = 1; q->width < n && q->width < ACROSS
		&& MOST / (2 * q->width) * q->bytes >= SECTOR; q->width *= 2)
		;
	q->rows = MOST / q->width;
	q->lanes = 1;
	q->across = true;
	choose_kept(q);
	return true;
}

/* ---- loops ----------------------------------------------------------------------------------- */

static void
begin(Row *q, Walk *p, const Loop *l)
{
	Module *m = q->m;
	Node *n = extent_of(q, l), *unit;

	*p = (Walk){.in = region_new(m, NULL), .body = region_new(m, NULL), .steps = steps_of(q, l)};
	p->step = p->steps == 1 ? x_idx(m, 0)
		: x_axis(m, x_ceildiv(m, n, x_idx(m, q->width * q->lanes)));
	p->v = q->lanes > 1 ? x_axis(m, x_idx(m, q->lanes)) : x_idx(m, 0);
	unit = x_add(m, x_muli(m, p->step, q->width), q->lane);
	if (q->lanes == 1 && l->n > 1)
		unit = l_let(m, p->in, unit);
	p->first = x_muli(m, unit, q->lanes);
	p->ok = x_lt(m, p->first, n);
	digits(m, &p->at, l->n, l->axes, x_add(m, p->first, p->v));
}

static void
append(Module *m, Region *to, Region *from)
{
	int i;

	for (i = 0; i < from->nresults; i++)
		region_add(m, to, from->results[i]);
}

static void
end(Row *q, Walk *p, bool stores)
{
	Module *m = q->m;
	Region *all = p->body;
	Node *ok = stores && q->inside ? x_and(m, q->inside, p->ok) : p->ok;

	if (q->lanes > 1) {
		all = region_new(m, NULL);
		l_for(m, all, F_VECTOR, p->v, p->body);
	}
	if (is_intv(ok, 1))
		append(m, p->in, all);
	else
		l_when(m, p->in, ok, all, NULL);
	if (p->steps == 1)
		append(m, q->f.thread, p->in);
	else
		l_for(m, q->f.thread, p->steps && p->steps <= REGISTERS ? F_UNROLL : F_SERIAL, p->step,
			p->in);
	map_free(&p->at);
}

/* e at this walk's element, kept values from registers; those first read here are put there. */
static Node *
own_values(Row *q, Walk *p, const Loop *l, Node *e)
{
	Module *m = q->m;
	Node **list, *r, *at[2] = {p->step, p->v};
	Map map = {0};
	Kept *k;
	int i, n, np;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++) {
		r = list[i];
		if (r->code != O_READ || !reads_own(r, l, &np) || !(k = find_kept(q, r, np)) || !k->buffer)
			continue;
		if (!k->ready && !member_of(q->g, k->tensor))
			l_store(m, p->body, k->buffer, 2, at,
				legalize(m, to_storage(m, kb_emit(q->kb, p->body, subst(m, r, &p->at, false)))));
		k->ready = true;
		map_put(&map, r, from_storage(m, dtype_of(k->tensor), l_load(m, k->buffer, 2, at)));
	}
	free(list);
	for (i = 0; i < l->n; i++)
		map_put(&map, l->axes[i], map_get(&p->at, l->axes[i]));
	e = subst(m, e, &map, false);
	map_free(&map);
	return e;
}

/* ---- members --------------------------------------------------------------------------------- */

/* A reduction's share of each thread, combined over the threads of a row that lie `rows` apart. */
static Node *
fold_across(Row *q, Comb c, Node *acc)
{
	Module *m = q->m;
	Node *zero = x_idx(m, 0), *row = x_mod(m, q->f.tid, x_idx(m, q->rows)),
		*j = x_axis(m, x_idx(m, q->width)), *parts, *sum;
	Region *in = region_new(m, NULL);

	parts = gpu_shared(q->kb, &q->f, "parts", acc->type->dtype, 2,
		(Node *[]){x_idx(m, q->width), x_idx(m, q->rows)});
	l_store(m, q->f.thread, parts, 2, (Node *[]){q->lane, row}, l_load(m, acc, 1, &zero));
	l_barrier(m, q->f.thread);
	l_store(m, q->f.thread, acc, 1, &zero, x_comb_identity(m, c, acc->type->dtype));
	sum = x_comb(m, c, l_load(m, acc, 1, &zero), l_load(m, parts, 2, (Node *[]){j, row}));
	l_store(m, in, acc, 1, &zero, sum);
	l_for(m, q->f.thread, F_UNROLL, j, in);
	return l_load(m, acc, 1, &zero);
}

/* Each thread's share, then all of the row's threads fold. */
static Node *
fold_reduction(Row *q, Node *red)
{
	Module *m = q->m;
	Loop l = loop_of(red->nin - 1, red->in);
	DType d = dt_small(red->type->dtype) ? DT_F32 : storage_type(red->type->dtype);
	Comb c = (Comb)red->n;
	Node *acc, *e = red->in[red->nin - 1], *v, *idx[2], *sum,
		*ext[2] = {x_idx(m, q->lanes), x_idx(m, q->width)};
	int i, vec = q->lanes > 1;
	Region *r = region_new(m, NULL);
	Walk p;

	for (i = 0; i + 1 < red->nin; i++)
		if (is_intv(red->in[i]->in[0], 1))
			e = subst1(m, e, red->in[i], x_idx(m, 0));
	if (q->across)
		ext[1] = x_idx(m, 1);
	acc = l_alloc(m, q->across ? q->f.thread : q->f.block,
		l_buffer(m, "part", d, SP_REG, 1 + vec, ext + !vec));
	idx[0] = vec ? x_axis(m, ext[0]) : q->across ? x_idx(m, 0) : q->lane;
	idx[1] = q->lane;
	l_store(m, vec ? r : q->f.thread, acc, 1 + vec, idx, x_comb_identity(m, c, d));
	if (vec)
		l_for(m, q->f.thread, F_UNROLL, idx[0], r);
	begin(q, &p, &l);
	idx[0] = vec ? p.v : q->across ? x_idx(m, 0) : q->lane;
	v = kb_emit(q->kb, p.body, own_values(q, &p, &l, e));
	l_store(m, p.body, acc, 1 + vec, idx, accumulate(q->kb, c, l_load(m, acc, 1 + vec, idx), v));
	end(q, &p, false);
	if (vec) {
		for (i = 0, sum = NULL; i < q->lanes; i++) {
			idx[0] = x_idx(m, i);
			v = l_load(m, acc, 2, idx);
			sum = sum ? x_comb(m, c, sum, v) : v;
		}
		idx[0] = x_idx(m, 0);
		l_store(m, q->f.thread, acc, 2, idx, sum);
	}
	sum = q->across ? fold_across(q, c, acc) : l_fold(m, c, acc, q->f.tid, vec, idx);
	return x_cast(m, red->type->dtype, l_let(m, q->f.thread, sum));
}

static void
scalar_member(Row *q, Member *mb, Node *body)
{
	Module *m = q->m;
	Region *in = region_new(m, NULL);
	Local *l = NEW(m, Local);
	Node *first = x_eq(m, q->lane, x_idx(m, 0));

	l->value = l_let(m, q->f.thread, kb_emit(q->kb, q->f.thread, body));
	map_put(&q->kb->local, mb->t, l);
	if (mb->local)
		return;
	kb_store(q->kb, in, mb->t, mb->idx, l->value);
	l_when(m, q->f.thread, q->inside ? x_and(m, q->inside, first) : first, in, NULL);
}

/* Shared memory for a member that other threads read; NULL if there is not enough. */
static Local *
shared_row(Row *q, Member *mb)
{
	int64_t size = sat_mul(const_or(extent_of(q, &mb->loop), INT64_MAX),
		dtypes[storage_type(dtype_of(mb->t))].bits / 8);
	Local *l;
	int i;

	if (q->rows > 1 || q->kb->k->shared + size > SHARED_MAX || size == INT64_MAX)
		return NULL;
	l = NEW(q->m, Local);
	for (i = q->g->nouter; i < rank_of(mb->t); i++)
		l->dim[l->n++] = i;
	l->buffer = gpu_shared(q->kb, &q->f, "row", storage_type(dtype_of(mb->t)), l->n,
		mb->t->type->dims + q->g->nouter);
	return l;
}

static Kept *
kept_member(Row *q, const Node *t)
{
	int i;

	for (i = 0; i < q->nkept; i++)
		if (q->kept[i].tensor == t && q->kept[i].buffer)
			return &q->kept[i];
	return NULL;
}

static void
row_of_member(Row *q, Member *mb, Node *body)
{
	Module *m = q->m;
	Kept *k = kept_member(q, mb->t);
	bool shared = map_get(&q->elsewhere, mb->t);
	Local *l = shared ? shared_row(q, mb) : NULL;
	bool global = !mb->local || (shared && !l) || (!shared && !k);
	Node *v, *idx[MAX_RANK];
	Walk p;
	int i;

	begin(q, &p, &mb->loop);
	v = kb_emit(q->kb, p.body, own_values(q, &p, &mb->loop, body));
	if ((k != NULL) + (l != NULL) + global > 1)
		v = l_let(m, p.body, v);
	for (i = 0; i < rank_of(mb->t); i++)
		idx[i] = subst(m, mb->idx[i], &p.at, false);
	if (k)
		l_store(m, p.body, k->buffer, 2, (Node *[]){p.step, p.v}, legalize(m, to_storage(m, v)));
	if (l)
		local_store(q->kb, p.body, l, idx, v);
	if (global)
		kb_store(q->kb, p.body, mb->t, idx, v);
	end(q, &p, global);
	if (shared)
		l_barrier(m, q->f.thread);
	if (l)
		map_put(&q->kb->local, mb->t, l);
}

static void
emit_member(Row *q, Member *mb)
{
	Vec reds = folded(q, mb);
	Map map = {0};
	Node *body;
	int i;

	for (i = 0; i < reds.n; i++)
		map_put(&map, reds.at[i], fold_reduction(q, subst(q->m, reds.at[i], &map, false)));
	body = subst(q->m, mb->body, &map, false);
	map_free(&map);
	if (mb->loop.n)
		row_of_member(q, mb, body);
	else
		scalar_member(q, mb, body);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static void
set_up_member(Row *q, Member *mb, Node *t, bool local)
{
	Map map = {0};
	int i, first = 0;

	mb->t = t;
	mb->local = local;
	for (i = 0; i < rank_of(t); i++) {
		mb->idx[i] = is_intv(dim_of(t, i), 1) ? x_idx(q->m, 0)
			: i < q->g->nouter ? q->outer[i]
			: t->in[i];
		first = i < q->g->nouter ? i + 1 : first;
		if (mb->idx[i] != t->in[i])
			map_put(&map, t->in[i], mb->idx[i]);
	}
	mb->loop = loop_of(rank_of(t) - first, t->in + first);
	mb->body = subst(q->m, t->in[t->nin - 1], &map, false);
	map_free(&map);
}

/* The outer axes become digits of the row's number. */
static void
bind_outer(Row *q)
{
	Module *m = q->m;
	Node *row = q->f.bid, *rest, *n = x_idx(m, q->across ? q->rows : q->width),
		*slow = x_fdiv(m, q->f.tid, n), *fast = x_mod(m, q->f.tid, n);
	int i;

	if (q->rows > 1) {
		row = l_let(m, q->f.thread,
			x_add(m, x_muli(m, q->f.bid, q->rows), q->across ? fast : slow));
		q->inside = x_lt(m, row, q->count);
		q->inside = is_intv(q->inside, 1) ? NULL : q->inside;
		row = q->inside ? l_let(m, q->f.thread, x_min(m, row, x_addi(m, q->count, -1))) : row;
		q->lane = l_let(m, q->f.thread, q->across ? slow : fast);
	} else
		q->lane = q->f.tid;
	for (i = q->g->nouter, rest = row; i-- > 0;) {
		Node *axis = q->outer[i], *ext = axis->in[0],
			*d = l_let(m, q->f.thread, i ? x_mod(m, rest, ext) : rest);
		int k, j;
		for (k = 0; k < q->g->n; k++) {
			Member *mb = &q->member[k];
			mb->body = subst1(m, mb->body, axis, d);
			for (j = 0; j < rank_of(mb->t); j++)
				mb->idx[j] = subst1(m, mb->idx[j], axis, d);
		}
		for (k = 0; k < q->nkept; k++)
			for (j = 0; j < q->kept[k].nprefix; j++)
				q->kept[k].prefix[j] = subst1(m, q->kept[k].prefix[j], axis, d);
		rest = x_fdiv(m, rest, ext);
	}
}

Kernel *
rows_gpu(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Row q = {.kb = &kb, .m = m, .g = g, .lanes = 4, .count = x_idx(m, 1)};
	int i, k;

	q.member = NEWN(m, Member, g->n);
	for (i = 0; i < g->nouter; i++) {
		q.outer[i] = x_axis(m, dim_of(g->members[0], i));
		q.count = x_mul(m, q.count, q.outer[i]->in[0]);
	}
	for (k = 0; k < g->n; k++)
		set_up_member(&q, &q.member[k], g->members[k], g->local[k]);
	each_loop(&q, check_lanes);
	check_stores(&q);
	each_loop(&q, note_reads);
	if (!choose_across(&q))
		choose_along(&q);
	place_rest(&q);
	q.f = gpu_frame(&kb, x_ceildiv(m, q.count, x_idx(m, q.rows)), q.width * q.rows);
	bind_outer(&q);
	for (i = 0; i < q.nkept; i++)
		if (q.kept[i].buffer)
			l_alloc(m, q.f.thread, q.kept[i].buffer);
	for (k = 0; k < g->n; k++)
		emit_member(&q, &q.member[k]);
	kb.k->flops = q.width * q.rows * 16.0;
	map_free(&q.elsewhere);
	return gpu_close(&kb, &q.f,
		arena_printf(m->arena, "class=row, threads=%d, rows=%d%s, lanes=%d, members=%d", q.width,
			q.rows, q.across ? " across" : "", q.lanes, g->n));
}
