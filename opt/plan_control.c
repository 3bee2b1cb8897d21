/*
 * Branches and loops of the plan. Either side of a branch computes its results where it likes; the
 * branch's results are views, set to one side's buffers. A loop's carried values have a buffer
 * each, that its results are too; at the end of an iteration the next values are copied there,
 * those that other copies would overwrite saved first. Results that a loop gathers go into one
 * buffer of known size, each iteration's at its place, or into a list of the runtime that is joined
 * at the end.
 */
#include <stdlib.h>
#include "plan.h"

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

static void
call_numbers(Planner *p, Region *out, const char *name, int n, int64_t a, int64_t b, int64_t c)
{
	Node *args[3] = {x_idx(p->m, a), x_idx(p->m, b), x_idx(p->m, c)};

	l_call(p->m, out, name, n, args);
}

void
run_if(Planner *p, Region *out, Node *n)
{
	Region *side[2] = {region_new(p->m, NULL), region_new(p->m, NULL)};
	Node *cond, *r, *v;
	int i, k, rank = n->type->rank;
	uint32_t from = p->step;

	ensure(p, out, n->in[0]);
	cond = x_ne(p->m, host_value(p, out, x_cast(p->m, DT_INDEX, x_read(p->m, n->in[0], NULL))),
		x_idx(p->m, 0));
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
		scope_push(p, n->regions[k]);
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
			touch_buffer(p, v);
			call_numbers(p, side[k], "alias", 3, storage_of(p->s, r)->id, storage_of(p->s, v)->id,
				0);
			assign_dims(p, side[k], 1, &r, &v);
		}
		scope_pop(p);
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
	bind_value(p, sym, i);
	launch_kernel(p, out, k);
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
	st->id = new_buf(p,
		dtype_of(param) == DT_STRING ? BUF_HOST
		: is_int(bytes, &v) ? BUF_ARENA
		: BUF_HEAP,
		storage_type(dtype_of(param)), NULL);
	storage_of(p->s, result)->id = st->id;
	add_view(p, result, param);
	b = buf_at(p, st->id);
	if (b->cls == BUF_ARENA)
		b->size = v;
	else
		allocate_buffer(p, out, st->id, host_value(p, out, bytes_of(p, init)));
	p->step++;
	copy_all(p, out, param, init);
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
				tmp[i] = new_buf(p,
					v->type->kind != T_TENSOR ? BUF_VALUE
					: dtype_of(v) == DT_STRING ? BUF_HOST
					: BUF_HEAP,
					storage_type(dtype_of(v)), NULL);
		if (tmp[i] < 0)
			continue;
		if (v->type->kind != T_TENSOR) {
			move_value(p, in, tmp[i], root_buffer(p, v));
			continue;
		}
		bytes = host_value(p, in, bytes_of(p, v));
		allocate_buffer(p, in, tmp[i], bytes);
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
		bytes = host_value(p, in, bytes_of(p, v));
		if (buf_at(p, root_buffer(p, param))->cls != BUF_ARENA)
			allocate_buffer(p, in, root_buffer(p, param), bytes);
		touch_buffer(p, v);
		touch_buffer(p, param);
		copy_bytes(p, in, root_buffer(p, param), x_idx(p->m, 0),
			tmp[i] >= 0 ? tmp[i] : root_buffer(p, v), bytes);
	}
	assign_dims(p, in, nc, r->params + 1, r->results + 1);
}

/* A result that a loop gathers, an iteration after the other; list NULL: each has its place. */
typedef struct Gathered { Node *res, *item, *list; } Gathered;

static bool
has_local_dims(Planner *p, Node *t)
{
	int i;
	bool yes = false;

	for (i = 0; i < rank_of(t); i++)
		yes |= is_local_sym(p, dim_of(t, i)) || has_read(dim_of(t, i));
	return yes;
}

/* Memory for what the loop gathers. */
static void
gathered_buffer(Planner *p, Region *out, Gathered *g)
{
	declare_dims(p, out, g->res);
	if (!has_local_dims(p, g->res)) {
		result_buffer(p, out, g->res);
		return;
	}
	storage_of(p->s, g->res)->id = new_buf(p, BUF_HEAP, storage_type(dtype_of(g->res)), NULL);
	g->list = l_call(p->m, out, "list_new", 0, NULL);
}

/* Sizes within an iteration become those of the result: the last one's. */
static void
assign_tail(Planner *p, Region *in, Gathered *g)
{
	Node *tail[MAX_RANK + 1] = {0};
	int d;

	for (d = 1; d < rank_of(g->res); d++)
		if (is_local_sym(p, dim_of(g->res, d)) && dim_of(g->res, d) != dim_of(g->item, d - 1))
			tail[d] = l_let(p->m, in, host_value(p, in, dim_of(g->item, d - 1)));
	for (d = 1; d < rank_of(g->res); d++)
		if (tail[d])
			cell_set(p, in, map_get(&p->cells, dim_of(g->res, d)), tail[d]);
}

/* Iteration `it` adds its part. */
static void
gather(Planner *p, Region *in, Gathered *g, Node *it)
{
	Node *args[3], *bytes;

	p->step++;
	touch_buffer(p, g->item);
	touch_buffer(p, g->res);
	if (!g->list) {
		bytes = host_value(p, in, bytes_of(p, g->item));
		copy_bytes(p, in, root_buffer(p, g->res), x_mul(p->m, it, bytes), root_buffer(p, g->item),
			bytes);
		return;
	}
	args[0] = g->list;
	args[1] = x_idx(p->m, root_buffer(p, g->item));
	args[2] = host_value(p, in, bytes_of(p, g->item));
	l_call(p->m, in, "list_push", 3, args);
	assign_tail(p, in, g);
}

/* After the loop: the number of parts, and the list as one. */
static void
join_parts(Planner *p, Region *out, Gathered *g, Node *count)
{
	Node *args[2], *size = rank_of(g->res) ? dim_of(g->res, 0) : NULL;

	if (size && is_local_sym(p, size) && map_get(&p->cells, size))
		cell_set(p, out, map_get(&p->cells, size), cell_get(p, out, count));
	if (g->list) {
		args[0] = g->list;
		args[1] = x_idx(p->m, root_buffer(p, g->res));
		l_call(p->m, out, "list_concat", 2, args);
	}
}

/* The number of the iteration, for the plan and, if they read it, for kernels. */
static void
bind_iteration(Planner *p, Region *in, Node *n, Node *it)
{
	Region *r = n->regions[0];
	Node *param = r->params[0];

	bind_value(p, x_read(p->m, param, NULL), x_cast(p->m, dtype_of(param), it));
	if (!read_by_kernels(r, param))
		return;
	storage_of(p->s, param)->id = new_buf(p, BUF_ARENA, dtype_of(param), NULL);
	buf_at(p, storage_of(p->s, param)->id)->size = dtypes[dtype_of(param)].bits / 8;
	store_trip(p, in, n->loc, param, it);
}

static void
start_carried(Planner *p, Region *out, Node *n, int i)
{
	Node *res = t_result(p->m, n, i), *param = n->regions[0]->params[1 + i], *init = n->in[2 + i];

	declare_dims(p, out, param);
	declare_dims(p, out, res);
	carried_buffer(p, out, param, res, init);
	assign_dims(p, out, 1, &param, &init);
}

/* The value of an operand, or of a result of the body, without dims. */
static Node *
plain_value(Planner *p, Region *out, Node *t)
{
	return host_value(p, out, x_cast(p->m, DT_INDEX, x_read(p->m, t, NULL)));
}

/* The statements of one iteration. */
static void
loop_body(Planner *p, Region *in, Node *n, Gathered *g, Node *it, Node *go)
{
	Region *r = n->regions[0];
	Node *cond;
	int i;

	bind_iteration(p, in, n, it);
	run_region(p, in, r);
	for (i = 0; i < r->nresults; i++)
		if (r->results[i])
			ensure(p, in, r->results[i]);
	for (i = 0; i < r->nresults - 1 - (int)n->n; i++)
		gather(p, in, &g[i], it);
	cond = r->results[0] ? l_let(p->m, in, plain_value(p, in, r->results[0])) : NULL;
	next_values(p, in, n);
	if (cond)
		cell_set(p, in, go, cond);
}

void
run_loop(Planner *p, Region *out, Node *n)
{
	Region *r = n->regions[0], *in = region_new(p->m, NULL);
	int nc = (int)n->n, ng = r->nresults - 1 - nc, i;
	Node *trip = NULL, *count, *go, *it;
	Gathered *g = NEWN(p->m, Gathered, ng + 1);
	uint32_t from = p->step;

	for (i = 0; i < n->nin; i++)
		if (n->in[i])
			ensure(p, out, n->in[i]);
	if (n->in[0])
		trip = l_let(p->m, out, plain_value(p, out, n->in[0]));
	go = cell_new(p, out, n->in[1] ? plain_value(p, out, n->in[1]) : x_idx(p->m, 1));
	count = cell_new(p, out, x_idx(p->m, 0));
	for (i = 0; i < nc; i++)
		start_carried(p, out, n, i);
	for (i = 0; i < ng; i++) {
		g[i] = (Gathered){t_result(p->m, n, nc + i), r->results[1 + nc + i], NULL};
		gathered_buffer(p, out, &g[i]);
	}
	p->step++;
	scope_push(p, r);
	it = cell_get(p, in, count);
	it->lo = 0;
	if (trip)
		l_break(p->m, in, x_le(p->m, trip, it));
	l_break(p->m, in, x_eq(p->m, cell_get(p, in, go), x_idx(p->m, 0)));
	loop_body(p, in, n, g, it, go);
	cell_set(p, in, count, x_addi(p->m, it, 1));
	scope_pop(p);
	p->step++;
	l_while(p->m, out, in);
	for (i = 0; i < nc; i++) {
		Node *res = t_result(p->m, n, i);
		assign_dims(p, out, 1, &res, &r->params[1 + i]);
	}
	for (i = 0; i < ng; i++)
		join_parts(p, out, &g[i], count);
	extend(p, from);
}
