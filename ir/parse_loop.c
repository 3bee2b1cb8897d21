/* Reading loop level: kernels, the host plan, the memory plan. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ir/machine.h"
#include "ir/parse.h"
#include "ir/plan.h"

static Node *buffer(P *p)
{
	static const char *const spaces[] = { "global", "reg", "shared", "stack", "map", "tile", NULL };
	Node *extents[MAX_RANK];
	int n = 0, k = 0;
	if (p->tok != T_VALUE)
		ps_bad(p, "a buffer is expected");
	const char *name = intern(p->m, p->str), *own;
	ps_next(p);
	own = ps_own_name(p, name);
	ps_want(p, ":");
	DType d = ps_dtype(p);
	const char *w = ps_word(p, "a space");
	while (spaces[k] && strcmp(spaces[k], w))
		k++;
	if (!spaces[k])
		ps_bad(p, "'%s' is no space: global, reg, shared, stack or map", w);
	if (dtypes[d].bits < 8 || dtypes[d].cls == 'C')
		ps_bad(p, "no buffer of %s", dtypes[d].text);
	ps_want(p, "[");
	while (!ps_is(p, "]")) {
		if (n == MAX_RANK)
			ps_bad(p, "more than %d extents", MAX_RANK);
		extents[n++] = ps_eat(p, "?") ? p->any : ps_index_expr(p);
		if (!ps_eat(p, ","))
			break;
	}
	ps_want(p, "]");
	Node *b = l_buffer(p->m, own, d, k, n, extents);
	ps_enter(p, &p->values, name, b);
	return b;
}

static void statements(P *p, Region *r);

static Region *braces(P *p, const char *name)
{
	Region *r = region_new(p->m, name);
	ps_want(p, "{");
	ps_deeper(p);
	statements(p, r);
	p->depth--;
	ps_want(p, "}");
	return r;
}

static void for_statement(P *p, Region *r)
{
	int k = 0, saved = p->nlocals;
	ps_next(p);
	const char *w = ps_word(p, "a kind of loop");
	while (k <= F_BLOCK && strcmp(for_names[k], w))
		k++;
	if (k > F_BLOCK)
		ps_bad(p, "'%s' is no kind of loop", w);
	ps_want(p, "(");
	Node *a = ps_axis(p);
	ps_want(p, ")");
	Region *body = braces(p, "body");
	p->nlocals = saved;
	l_for(p->m, r, k, a, body);
}

/* %b[i, ...]: the buffer; idx has room for MAX_RANK. */
static Node *element(P *p, Node **idx)
{
	int n = 0;
	Node *b = ps_value(p);
	if (b->type->kind != T_BUFFER)
		ps_bad(p, "a buffer is expected");
	ps_want(p, "[");
	while (!ps_is(p, "]")) {
		if (n == b->nin)
			ps_bad(p, "%d indices are expected", b->nin);
		idx[n++] = ps_index_expr(p);
		if (!ps_eat(p, ","))
			break;
	}
	if (n != b->nin)
		ps_bad(p, "%d indices are expected", b->nin);
	ps_want(p, "]");
	return b;
}

static void store(P *p, Region *r)
{
	Node *idx[MAX_RANK];
	ps_next(p);
	Node *b = element(p, idx);
	ps_want(p, "=");
	Node *v = ps_expr(p);
	if (v->type->dtype != b->type->dtype)
		ps_bad(p, "a %s is stored into a buffer of %s", dtypes[v->type->dtype].text,
			dtypes[b->type->dtype].text);
	l_store(p->m, r, b, b->nin, idx, v);
}

static Node *condition(P *p)
{
	Node *c = ps_expr(p);
	if (c->type->dtype != DT_BOOL)
		ps_bad(p, "a condition is expected");
	return c;
}

static void move(P *p, Region *r)
{
	Node *to[MAX_RANK], *from[MAX_RANK], *on[MAX_RANK], *a, *b;
	int k = 0, bytes;
	const char *w = ps_word(p, "how to move");
	while (k < N_MOVES && strcmp(move_kinds[k], w))
		k++;
	if (k == N_MOVES)
		ps_bad(p, "'%s' is no way to move", w);
	bytes = ps_small(p, 1, 1 << 18);
	a = element(p, to);
	ps_want(p, "=");
	b = element(p, from);
	if (k == MOVE_BOX) {
		ps_want(p, "on");
		Node *c = element(p, on);
		l_move_box(p->m, r, bytes, (Spot){ a, to }, (Spot){ b, from }, (Spot){ c, on });
		return;
	}
	if (k == MOVE_TILE) {
		ps_want(p, "by");
		if (l_move_tile(p->m, r, (Spot){ a, to }, (Spot){ b, from }, ps_expr(p))->n != bytes)
			ps_bad(p, "a tile's rows have not %d bytes", bytes);
		return;
	}
	l_move(p->m, r, k, bytes, (Spot){ a, to }, (Spot){ b, from },
		ps_eat(p, "if") ? condition(p) : NULL);
}

static void mma(P *p, Region *r)
{
	Node *idx[3][MAX_RANK];
	Spot at[3];
	const char *name = ps_word(p, "an instruction");
	if (!mma_find(name))
		ps_bad(p, "no matrix instruction '%s' is known", name);
	for (int i = 0; i < 3; i++) {
		if (i)
			ps_want(p, ",");
		at[i] = (Spot){ element(p, idx[i]), idx[i] };
	}
	if (!ps_eat(p, "by")) {
		l_mma(p->m, r, name, at[0], at[1], at[2]);
		return;
	}
	int v[5];
	for (int i = 0; i < 5; i++) {
		if (i)
			ps_want(p, ",");
		v[i] = ps_small(p, 0, 1 << 18);
	}
	l_mma_group(p->m, r, name, v[0], at[0], at[1], (Stored){ v[1], v[2] }, at[2],
		(Stored){ v[3], v[4] });
}

static void sync_statement(P *p, Region *r)
{
	Node *idx[MAX_RANK], *v[4];
	Spot at = { 0 };
	const char *name = ps_word(p, "how to wait");
	const SyncRow *row = sync_find(name);
	if (!row)
		ps_bad(p, "'%s' is no row of sync.def", name);
	if (row->nplaces)
		at = (Spot){ element(p, idx), idx };
	for (int i = 0; i < row->nargs; i++) {
		if (i || row->nplaces)
			ps_want(p, ",");
		v[i] = ps_index_expr(p);
	}
	l_sync(p->m, r, name, at, row->nargs, v);
}

static void when(P *p, Region *r)
{
	ps_next(p);
	Node *c = condition(p);
	Region *then = braces(p, "then");
	l_when(p->m, r, c, then, ps_eat(p, "else") ? braces(p, "else") : NULL);
}

/* let %3 = e; a leaf is its own value */
static void let(P *p, Region *r)
{
	ps_next(p);
	if (p->tok != T_VALUE)
		ps_bad(p, "a value's name is expected");
	const char *name = intern(p->m, p->str);
	ps_next(p);
	ps_want(p, "=");
	Node *e = ps_expr(p);
	ps_enter(p, &p->values, name, l_let(p->m, r, e));
}

static void call_statement(P *p, Region *r)
{
	const char *name = intern(p->m, p->str);
	Nodes in = { 0 };
	ps_next(p);
	ps_want(p, "=");
	ps_want(p, "call");
	const char *entry = p->tok == T_STR ? ps_string(p) : ps_word(p, "a runtime entry");
	ps_want(p, "(");
	while (!ps_is(p, ")")) {
		Node *v = p->tok == T_VALUE ? ps_lookup(p, &p->values, p->str) : NULL;
		if (v && v->type->kind == T_BUFFER && *p->s != '[')
			ps_append(p, &in, ps_value(p));
		else
			ps_append(p, &in, ps_expr(p));
		if (!ps_eat(p, ","))
			break;
	}
	ps_want(p, ")");
	ps_enter(p, &p->values, name, l_call(p->m, r, entry, in.n, in.at));
}

static void prefetch(P *p, Region *r)
{
	ps_next(p);
	Node *b = ps_value(p);
	if (b->type->kind != T_BUFFER || b->nin != 1)
		ps_bad(p, "a buffer of one dimension is expected");
	ps_want(p, "[");
	Node *at = ps_index_expr(p);
	ps_want(p, "]");
	l_prefetch(p->m, r, b, at);
}

static void statements(P *p, Region *r)
{
	while (!ps_is(p, "}")) {
		int n = r->nresults;
		if (p->tok == T_VALUE) {
			call_statement(p, r);
		} else if (ps_is(p, "for")) {
			for_statement(p, r);
		} else if (ps_is(p, "store")) {
			store(p, r);
		} else if (ps_is(p, "let")) {
			let(p, r);
		} else if (ps_is(p, "when")) {
			when(p, r);
		} else if (ps_eat(p, "while")) {
			l_while(p->m, r, braces(p, "body"));
		} else if (ps_eat(p, "break")) {
			l_break(p->m, r, condition(p));
		} else if (ps_eat(p, "barrier")) {
			l_barrier(p->m, r);
		} else if (ps_is(p, "prefetch")) {
			prefetch(p, r);
		} else if (ps_eat(p, "move")) {
			move(p, r);
		} else if (ps_eat(p, "mma")) {
			mma(p, r);
		} else if (ps_eat(p, "sync")) {
			sync_statement(p, r);
		} else if (ps_eat(p, "commit")) {
			l_commit(p->m, r);
		} else if (ps_eat(p, "wait")) {
			l_wait(p->m, r, ps_small(p, 0, 16));
		} else if (ps_eat(p, "alloc")) {
			l_alloc(p->m, r, buffer(p));
		} else {
			ps_bad(p, "a statement is expected");
		}
		const Loc *l = ps_location(p);
		if (l && r->nresults > n)
			r->results[r->nresults - 1]->loc = l;
	}
}

static void kernel_head(P *p, Kernel *k)
{
	Nodes bufs = { 0 }, syms = { 0 }, args = { 0 };
	bool writes[4096];
	ps_next(p);
	k->name = ps_string(p);
	ps_want(p, "(");
	while (!ps_is(p, ")")) {
		if (bufs.n == 4096)
			ps_bad(p, "too many buffers");
		writes[bufs.n] = ps_eat(p, "out");
		ps_append(p, &bufs, buffer(p));
		if (!ps_eat(p, ","))
			break;
	}
	ps_want(p, ")");
	ps_want(p, "(");
	while (!ps_is(p, ")")) {
		int64_t lo, hi;
		const char *name = ps_symbol_name(p);
		ps_want(p, ":");
		ps_bounds(p, &lo, &hi);
		Node *s = ps_lookup(p, &p->symbols, name);
		ps_append(p, &syms, s ? s : ps_declare(p, name, lo, hi));
		ps_append(p, &args, ps_eat(p, "=") ? ps_index_expr(p) : syms.at[syms.n - 1]);
		if (!ps_eat(p, ","))
			break;
	}
	ps_want(p, ")");
	k->nbufs = bufs.n;
	k->bufs = bufs.at;
	k->writes = arena_dup(p->m->arena, writes, (size_t)bufs.n + !bufs.n);
	k->nsyms = syms.n;
	k->syms = syms.at;
	k->args = args.at;
}

static void kernel_errors(P *p, Kernel *k, const char *text)
{
	const char **list = NEWN(p->m, const char *, k->nerrors + 1);
	if (k->nerrors)
		memcpy(list, k->errors, sizeof *list * (size_t)k->nerrors);
	list[k->nerrors++] = text;
	k->errors = list;
}

static int exprs(P *p, const char *word, int most, Node **e)
{
	int n = 0;
	ps_want(p, word);
	do {
		if (n == most)
			ps_bad(p, "more than %d dimensions", most);
		e[n++] = ps_index_expr(p);
	} while (ps_eat(p, ","));
	return n;
}

static int ints(P *p, const char *word, int most, int *v)
{
	int n = 0;
	ps_want(p, word);
	do {
		if (n == most)
			ps_bad(p, "more than %d dimensions", most);
		v[n++] = ps_small(p, 1, 1 << 20);
	} while (ps_eat(p, ","));
	return n;
}

static void tensor_map(P *p, Kernel *k)
{
	TensorMap *all = NEWN(p->m, TensorMap, k->nmaps + 1), *t = all + k->nmaps;
	if (k->nmaps)
		memcpy(all, k->maps, sizeof *all * (size_t)k->nmaps);
	k->maps = all;
	t->view = buffer(p);
	ps_want(p, "of");
	Node *b = ps_value(p);
	while (t->buf < k->nbufs && k->bufs[t->buf] != b)
		t->buf++;
	if (t->buf == k->nbufs)
		ps_bad(p, "a map of another kernel's buffer");
	ps_want(p, "from");
	t->offset = ps_index_expr(p);
	t->rank = exprs(p, "dims", MAP_RANK, t->dim);
	bool alike = exprs(p, "strides", MAP_RANK, t->stride) == t->rank;
	int boxes = ints(p, "box", MAP_RANK, t->box);
	t->gathers = ps_is(p, "lower");
	if (t->gathers)
		alike = alike && t->rank > 2 && exprs(p, "lower", t->rank - 2, t->lower) == t->rank - 2
			&& exprs(p, "upper", t->rank - 2, t->upper) == t->rank - 2
			&& ints(p, "step", t->rank - 2, t->step + 1) == t->rank - 2;
	if (!alike || boxes != (t->gathers ? 2 : t->rank) ||
			t->view->nin != t->rank + (t->gathers ? t->rank - 2 : 0))
		ps_bad(p, "a map's lists do not fit each other");
	ps_want(p, "swizzle");
	t->swizzle = ps_small(p, 0, 128);
	k->nmaps++;
}

static void kernel(P *p)
{
	Kernel *k = NEW(p->m, Kernel);
	p->nlocals = 0;
	kernel_head(p, k);
	ps_want(p, "{");
	while (!k->body) {
		if (ps_eat(p, "schedule")) {
			k->schedule = ps_string(p);
		} else if (ps_eat(p, "grid")) {
			for (int i = 0; i < 3; i++) {
				k->grid[i] = ps_index_expr(p);
				if (!ps_eat(p, ","))
					break;
			}
		} else if (ps_eat(p, "block")) {
			k->block = ps_small(p, 0, 1 << 20);
		} else if (ps_eat(p, "index32")) {
			k->index32 = true;
		} else if (ps_eat(p, "shared")) {
			k->shared = ps_integer(p);
		} else if (ps_eat(p, "scratch")) {
			k->scratch = ps_index_expr(p);
		} else if (ps_eat(p, "cost")) {
			k->flops = ps_real(p);
			ps_want(p, ",");
			k->bytes = ps_real(p);
		} else if (ps_eat(p, "error")) {
			kernel_errors(p, k, ps_string(p));
		} else if (ps_eat(p, "from")) {
			k->loc = ps_location(p);
		} else if (ps_eat(p, "map")) {
			tensor_map(p, k);
		} else if (ps_eat(p, "body")) {
			k->body = braces(p, k->name);
		} else {
			ps_bad(p, "a part of a kernel is expected");
		}
	}
	ps_want(p, "}");
	vec_push(p->m, &p->m->kernels, k);
}

static const Data *stated_payload(P *p)
{
	DType d = ps_dtype(p);
	int64_t count = ps_integer(p);
	return ps_payload(p, d, count);
}

static PlanBuf plan_buf(P *p)
{
	PlanBuf b = { 0 };
	int k = 0;
	const char *w = ps_word(p, "a class of buffers");
	while (text_buf_classes[k] && strcmp(text_buf_classes[k], w))
		k++;
	if (!text_buf_classes[k])
		ps_bad(p, "'%s' is no class of buffers", w);
	b.cls = k;
	b.dtype = ps_eat(p, "none") ? DT_NONE : ps_dtype(p);
	if (p->tok == T_STR)
		b.name = ps_string(p);
	ps_want(p, "index");
	b.index = ps_small(p, INT32_MIN, INT32_MAX);
	ps_want(p, "alias");
	b.alias = ps_small(p, INT32_MIN, INT32_MAX);
	ps_want(p, "life");
	int64_t first, last;
	ps_bounds(p, &first, &last);
	if (first < 0 || first > UINT32_MAX || last < 0 || last > UINT32_MAX)
		ps_bad(p, "a step is a number of 32 bits");
	b.first = (uint32_t)first;
	b.last = (uint32_t)last;
	ps_want(p, "size");
	b.size = ps_integer(p);
	ps_want(p, "at");
	b.offset = ps_integer(p);
	if (ps_eat(p, "data"))
		b.data = stated_payload(p);
	return b;
}

static void memory(P *p)
{
	Plan *a = NEW(p->m, Plan);
	PlanBuf *bufs = NULL;
	const char **texts = NULL;
	int capb = 0, capt = 0, ins = 0, nparams = p->m->main->nparams;
	ps_next(p);
	a->is_static = ps_is(p, "static");
	if (!ps_eat(p, "static"))
		ps_want(p, "dynamic");
	a->arena_bytes = ps_integer(p);
	if (p->tok == T_STR)
		a->formula = ps_string(p);
	ps_want(p, "{");
	p->m->memory = a;
	while (!ps_eat(p, "}")) {
		if (ps_eat(p, "buf")) {
			if (a->nbufs == capb) {
				PlanBuf *old = bufs;
				bufs = NEWN(p->m, PlanBuf, capb = capb ? capb * 2 : 16);
				if (old)
					memcpy(bufs, old, sizeof *bufs * (size_t)a->nbufs);
			}
			bufs[a->nbufs++] = plan_buf(p);
		} else if (ps_eat(p, "text")) {
			if (a->ntexts == capt) {
				const char **old = texts;
				texts = NEWN(p->m, const char *, capt = capt ? capt * 2 : 16);
				if (old)
					memcpy(texts, old, sizeof *texts * (size_t)a->ntexts);
			}
			texts[a->ntexts++] = ps_string(p);
		} else if (ps_eat(p, "in")) {
			if (ins >= nparams)
				ps_bad(p, "more inputs than parameters");
			if (!a->in_buf) {
				a->in_buf = NEWN(p->m, int, nparams);
				a->in_default = NEWN(p->m, const Data *, nparams);
			}
			a->in_buf[ins] = ps_small(p, -1, INT32_MAX);
			a->in_default[ins++] = ps_eat(p, "default") ? stated_payload(p) : NULL;
		} else {
			ps_bad(p, "a part of the memory plan is expected");
		}
	}
	a->bufs = bufs;
	a->texts = texts;
	if (ins && ins != nparams)
		ps_bad(p, "%d inputs are expected, there are %d", nparams, ins);
}

void ps_loops(P *p)
{
	const char **names = NULL;
	int cap = 0;
	ps_inputs(p);
	while (p->m->main->nresults ? ps_eat(p, ",") : ps_eat(p, "->")) {
		const char *name = ps_output_name(p);
		/* stands for the output: only its type matters here */
		ps_output(p, &names, &cap, t_param(p->m, name ? name : "out", ps_type(p, true), -1), name);
	}
	p->m->out_names = names;
	for (;;)
		if (ps_is(p, "kernel"))
			kernel(p);
		else if (ps_eat(p, "plan"))
			p->nlocals = 0, p->m->plan = braces(p, "plan");
		else if (ps_is(p, "memory"))
			memory(p);
		else
			break;
}
