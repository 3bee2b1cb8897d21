/*
 * schedule: kernels and the host plan. The plan sizes and places the buffers, launches the kernels
 * in order and follows control flow (runtime/abi.h, part 4). Needs the tensor level with its sizes
 * named; leaves m->kernels, m->plan, m->memory.
 *
 * Items (kernels, loops, branches, sequences, routines) are planned region by region in the order
 * of the groups; whatever one needs, its reads and the sizes of its results included, is planned
 * first (`ensure`). Here are the kernels, the order, the checks and the outputs; memory is in
 * plan_buffers.c, integers of the plan in plan_values.c, control flow in plan_control.c, calls of
 * the runtime's routines in plan_host.c.
 */
#include <stdlib.h>
#include "plan.h"

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
	return arena_printf(m->arena, "%s '%s': %s", loc->type ? loc->type : "node",
		loc->name ? loc->name : "", msg);
}

static void
check(Planner *p, Region *out, Node *cond, const char *text, Node *a, Node *b)
{
	Node *args[4] = {x_cast(p->m, DT_INDEX, cond), x_idx(p->m, text_id(p, text)),
		a ? a : x_idx(p->m, 0), b ? b : x_idx(p->m, 0)};

	l_call(p->m, out, "check", 4, args);
}

/* Tensors of kernels that index in 32 bits must not be larger. */
static void
check_index32(Planner *p, Region *out, const Kernel *k)
{
	Node *limit = x_idx(p->m, INDEX32_MAX), *n;
	Region *at;
	int i;

	for (i = 0; i < k->nbufs; i++) {
		n = storage_of(p->s, k->tensors[i])->count;
		if (n->hi <= limit->hi || map_get(&p->checked, n))
			continue;
		at = of_inputs(p, n) ? p->sizes : out;
		if (at == p->sizes)
			map_put(&p->checked, n, n);
		n = host_value(p, at, n);
		check(p, at, x_le(p->m, n, limit),
			place_text(p->m, k->loc,
				"a tensor of $0 elements: kernels index at most $1 unless "
				"--dim gives ranges that allow more"),
			n, limit);
	}
}

/* What the launch says of the map (runtime/abi.h, TccMap); returns how many. */
static int
map_arguments(Planner *p, Region *out, const TensorMap *t, Node **v)
{
	int i, n = 0;

	v[n++] = host_value(p, out, t->offset);
	for (i = 0; i < t->rank; i++)
		v[n++] = host_value(p, out, t->dim[i]);
	for (i = 1; i < t->rank; i++)
		v[n++] = host_value(p, out, t->stride[i]);
	for (i = 0; t->gathers && i < t->rank - 2; i++)
		v[n++] = host_value(p, out, t->lower[i]);
	for (i = 0; t->gathers && i < t->rank - 2; i++)
		v[n++] = host_value(p, out, t->upper[i]);
	return n;
}

/* The values stand in out, the call in `at`, which may be a branch of it. */
static void
launch(Planner *p, Region *out, Region *at, Kernel *k)
{
	Node **v = NEWN(p->m, Node *, 4 + k->nbufs + k->nsyms + k->nmaps * 4 * MAP_RANK), *args[2];
	int i, n = 0, number = p->m->kernels.n;

	vec_push(p->m, &p->m->kernels, k);       /* sizes of its arguments may launch what they need */
	if (k->index32)
		check_index32(p, out, k);
	p->step++;
	for (i = 0; i < 3; i++)
		v[n++] = host_value(p, out, k->grid[i]);
	v[n++] = k->cost ? host_value(p, out, k->cost)
		: x_idx(p->m, k->flops < 1 ? 1 : k->flops > 1e15 ? (int64_t)1e15 : (int64_t)k->flops);
	for (i = 0; i < k->nbufs; i++) {
		touch_buffer(p, k->tensors[i]);
		v[n++] = x_idx(p->m, storage_of(p->s, k->tensors[i])->id);
	}
	for (i = 0; i < k->nsyms; i++)
		v[n++] = host_value(p, out, k->args[i]);
	for (i = 0; i < k->nmaps; i++)
		n += map_arguments(p, out, &k->maps[i], v + n);
	args[0] = x_idx(p->m, number);
	args[1] = arg_array(p, at, n, v);
	l_call(p->m, at, "launch", 2, args);
}

void
launch_kernel(Planner *p, Region *out, Kernel *k)
{
	Region *then, *els;

	if (!k->otherwise) {
		launch(p, out, out, k);
		return;
	}
	then = region_new(p->m, NULL), els = region_new(p->m, NULL);
	launch(p, out, then, k);
	launch(p, out, els, k->otherwise);
	l_when(p->m, out, host_value(p, out, k->fits), then, els);
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
	k = t->code == O_SCATTER ? scatter_kernel(p->s, t)
		: p->s->gpu ? schedule_gpu(p->s, g)
		: schedule_cpu(p->s, g);
	if (!k) {
		diag_error(p->m->diag, X_BUG, g->loc, "no schedule");
		return;
	}
	for (i = 0; i < k->nbufs; i++)
		if (k->tensors[i]->code == O_CONST)
			const_buffer(p, k->tensors[i]);
		else if (k->writes[i])
			result_buffer(p, out, k->tensors[i]);
	for (i = 0; i < g->n; i++)               /* what has no elements is not written */
		if (!g->local[i] && is_intv(numel(p->m, g->members[i]), 0))
			result_buffer(p, out, g->members[i]);
	launch_kernel(p, out, k);
}

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

void
ensure(Planner *p, Region *out, Node *t)
{
	Item *it = map_get(&p->item, t->code == O_RESULT ? t->in[0] : t);

	if (t->code == O_CONST)
		const_buffer(p, t);
	else if (t->code == O_PARAM
	 && (t->type->kind == T_TENSOR ? storage_of(p->s, t)->id < 0 : !map_get(&p->values, t)))
		input_buffer(p, t);
	 else if (it && it->home == p->scope->home)
		run_item(p, out, it);
}

void
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
		first = host_value(p, p->sizes, d->sym);
		args[0] = x_idx(m, d->input);
		args[1] = x_idx(m, d->axis);
		v = l_call(m, p->sizes, "dim", 2, args);
		check(p, p->sizes, x_eq(m, v, first),
			arena_printf(m->arena,
				"dimension %d of input '%s' is $0, but '%s' is $1 (dimension %d of input '%s')",
				d->axis, m->main->params[d->input]->name, d->sym->name, e->axis,
				m->main->params[e->input]->name),
			v, first);
	}
	for (i = 0; i < m->requires.n; i++) {
		r = m->requires.at[i];
		if (of_inputs(p, r->cond))
			check(p, p->sizes, host_value(p, p->sizes, r->cond), place_text(m, r->loc, r->message),
				NULL, NULL);
	}
}

/* A constant, or a tensor of the model's own region that may be computed for a check? */
static bool
is_outermost(Planner *p, Node *t)
{
	return t->code == O_CONST || ((t->code == O_PARAM || t->code == O_TENSOR)
		&& map_get(&p->s->home, t) == p->m->main);
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
			ok = !is_local_sym(p, list[k]) && (!t || is_outermost(p, t));
		}
		free(list);
		if (ok)
			check(p, out, host_value(p, out, r->cond), place_text(p->m, r->loc, r->message), NULL,
				NULL);
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
			args[3] = arg_array(p, out, 0, NULL);
			l_call(p->m, out, "output", 4, args);
			continue;
		}
		ensure(p, out, t);
		st = storage_of(p->s, t);
		p->step++;
		touch_buffer(p, t);
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
	Node *n = numel(m, t), *axis = x_axis(m, x_ceildiv(m, n, x_idx(m, per))), *body = NULL, *flat,
		*rest, *idx[MAX_RANK], *v;

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

/* The groups, then what else the plan does, each where it stands in the graph. */
static void
find_items(Planner *p, Vec groups)
{
	const Region *r = p->m->main;
	Node **list;
	int i, n;

	symbol_owners(p->m, &p->owner);
	list = topo_decided(r->results, r->nresults, &p->owner, &n);
	for (i = 0; i < groups.n; i++)
		add_item(p, groups.at[i], NULL);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_LOOP || list[i]->code == O_IF || list[i]->code == O_HOST
		 || list[i]->code == O_SEQ)
			add_item(p, NULL, list[i]);
	free(list);
}

/* All statements: before place(), and after it. */
static Region *
plan_statements(Planner *p, Vec groups)
{
	Module *m = p->m;
	Region *plan = region_new(m, "plan"), *body = region_new(m, NULL);
	int i;

	p->sizes = region_new(m, NULL);
	scope_push(p, m->main);
	find_items(p, groups);
	checks(p);
	late_checks(p, body);
	run_region(p, body, m->main);
	outputs(p, body);
	l_call(m, p->sizes, "place", 0, NULL);
	scope_pop(p);
	for (i = 0; i < p->sizes->nresults; i++)
		region_add(m, plan, p->sizes->results[i]);
	for (i = 0; i < body->nresults; i++)
		region_add(m, plan, body->results[i]);
	return plan;
}

/* The buffers and texts that the statements name by number. */
static void
store_memory(Planner *p)
{
	Plan *plan = p->s->plan;
	int i;
	bool fixed = true;

	plan->nbufs = p->s->bufs.n;
	plan->bufs = NEWN(p->m, PlanBuf, plan->nbufs + 1);
	for (i = 0; i < plan->nbufs; i++) {
		plan->bufs[i] = *buf_at(p, i);
		fixed &= plan->bufs[i].cls != BUF_ARENA || plan->bufs[i].size >= 0;
	}
	plan->ntexts = p->texts.n;
	plan->texts = (const char **)p->texts.at;
	if (fixed)
		place_static(p->m, plan);
	else
		plan->formula = peak_formula(p->m, plan);
	p->m->memory = plan;
}

static void
planner_free(Planner *p)
{
	map_free(&p->item);
	map_free(&p->views);
	map_free(&p->cells);
	map_free(&p->owner);
	map_free(&p->values);
	map_free(&p->checked);
}

static bool
make_plan(Sched *s)
{
	Module *m = s->m;
	Planner p = {.s = s, .m = m};
	Vec groups;
	int i;

	if (find_sizes(s)) {
		diag_error(m->diag, X_USAGE, NULL,
			"run-time data give sizes that have no name: run the pass 'sizes' first");
		return false;
	}
	pack_outputs(s);
	home_regions(m, &s->home);
	groups = groups_of(s);
	check_layouts(s);
	if (m->diag->errors)
		return false;
	s->plan = NEW(m, Plan);
	s->plan->in_buf = NEWN(m, int, m->main->nparams + 1);
	for (i = 0; i < m->main->nparams; i++)
		s->plan->in_buf[i] = -1;
	m->plan = plan_statements(&p, groups);
	restore_outputs(s);
	store_memory(&p);
	planner_free(&p);
	return m->diag->errors == 0;
}

bool
pass_schedule(Module *m)
{
	Sched s = sched_open(m);
	bool ok = make_plan(&s);

	sched_close(&s);
	return ok;
}
