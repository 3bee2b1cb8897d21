/* Printing loop level: kernels, the host plan, the memory plan. */
#include <stdlib.h>
#include <string.h>

#include "ir/plan.h"
#include "ir/print.h"

static const char *const space_names[] = { "global", "reg", "shared", "stack", "map", "tile" };

static void buffer(P *p, Node *b)
{
	pr_name_value(p, b);
	const char *s = map_get(&p->name, b);
	fputs(s, p->f);
	if (b->name && strcmp(s, pr_value_text(p, b->name))) {
		fputc(' ', p->f);
		pr_quoted(p->f, b->name, '"');
	}
	fprintf(p->f, ": %s %s [", dtypes[b->type->dtype].text, space_names[b->type->space]);
	for (int i = 0; i < b->nin; i++) {
		if (i)
			fputs(", ", p->f);
		if (pr_unknown(b->in[i]) || pr_hidden(p, b->in[i]))
			fputc('?', p->f);
		else
			pr_expr(p, b->in[i], 0);
	}
	fputc(']', p->f);
}

static void statements(P *, const Region *);

static void braces(P *p, const Region *r)
{
	fputs(" {", p->f);
	p->tabs++;
	statements(p, r);
	p->tabs--;
	pr_nl(p);
	fputc('}', p->f);
}

/* A value that later statements use by its number. */
static void numbered(P *p, Node *n, const char *prefix)
{
	fprintf(p->f, "%s%%%d = ", prefix, p->nvalue);
	map_put(&p->name, n, arena_printf(p->m->arena, "%%%d", p->nvalue++));
}

static void element(P *p, Node *buffer, Node *const *idx)
{
	pr_value(p, buffer);
	fputc('[', p->f);
	for (int i = 0; i < buffer->nin; i++) {
		if (i)
			fputs(", ", p->f);
		pr_full_expr(p, idx[i]);
	}
	fputc(']', p->f);
}

static void place(P *p, const Node *n, int k, const char *before)
{
	Spot at = l_spot(n, k);
	fputs(before, p->f);
	element(p, at.buffer, at.idx);
}

static void numbers(P *p, const Node *n, const char *before)
{
	Node *const *v;
	int k = l_numbers(n, &v);
	for (int i = 0; i < k; i++) {
		fputs(i ? ", " : before, p->f);
		pr_full_expr(p, v[i]);
	}
}

static void for_loop(P *p, Node *n)
{
	int saved = p->naxis;
	fprintf(p->f, "for %s (", for_names[n->n]);
	pr_axes(p, n->in, 1, ")");
	braces(p, n->regions[0]);
	p->naxis = saved;
}

static void word(P *p, const char *text, Node *e)
{
	fputs(text, p->f);
	pr_full_expr(p, e);
}

static void when(P *p, Node *n)
{
	word(p, "when ", n->in[0]);
	braces(p, n->regions[0]);
	if (n->nregions > 1) {
		fputs(" else", p->f);
		braces(p, n->regions[1]);
	}
}

static void store(P *p, Node *n)
{
	fputs("store ", p->f);
	element(p, n->in[0], n->in + 1);
	word(p, " = ", n->in[n->nin - 1]);
}

static void let(P *p, Node *n)
{
	fprintf(p->f, "let %%%d = ", p->nvalue);
	pr_full_expr(p, n->in[0]);
	map_put(&p->name, n, arena_printf(p->m->arena, "%%%d", p->nvalue++));
}

static void call_host(P *p, Node *n)
{
	numbered(p, n, "");
	fputs("call ", p->f);
	if (pr_identifier(n->name))
		fputs(n->name, p->f);
	else
		pr_quoted(p->f, n->name, '"');
	fputc('(', p->f);
	for (int i = 0; i < n->nin; i++) {
		if (i)
			fputs(", ", p->f);
		if (n->in[i]->type->kind == T_SCALAR)
			pr_full_expr(p, n->in[i]);
		else
			pr_value(p, n->in[i]);
	}
	fputc(')', p->f);
}

static void prefetch(P *p, Node *n)
{
	fputs("prefetch ", p->f);
	pr_value(p, n->in[0]);
	word(p, "[", n->in[1]);
	fputc(']', p->f);
}

static void mma(P *p, Node *n)
{
	fprintf(p->f, "mma %s ", n->name);
	for (int i = 0; i < 3; i++)
		place(p, n, i, i ? ", " : "");
	numbers(p, n, " by ");
}

static void synch(P *p, Node *n)
{
	bool has = l_spot(n, 0).buffer;
	fprintf(p->f, "sync %s", n->name);
	if (has)
		place(p, n, 0, " ");
	numbers(p, n, has ? ", " : " ");
}

static void move(P *p, Node *n)
{
	fprintf(p->f, "move %s %lld ", n->name, (long long)n->n);
	place(p, n, 0, "");
	place(p, n, 1, " = ");
	if (l_spot(n, 2).buffer)
		place(p, n, 2, " on ");
	if (l_move_cond(n))
		word(p, " if ", l_move_cond(n));
	if (l_move_stride(n))
		word(p, " by ", l_move_stride(n));
}

static void statement(P *p, Node *n)
{
	pr_nl(p);
	switch (n->code) {
	case O_FOR: for_loop(p, n); break;
	case O_WHEN: when(p, n); break;
	case O_WHILE:
		fputs("while", p->f);
		braces(p, n->regions[0]);
		break;
	case O_BREAK: word(p, "break ", n->in[0]); break;
	case O_STORE: store(p, n); break;
	case O_LET: let(p, n); break;
	case O_CALL: call_host(p, n); break;
	case O_ALLOC:
		fputs("alloc ", p->f);
		buffer(p, n->in[0]);
		break;
	case O_BARRIER: fputs("barrier", p->f); break;
	case O_PREFETCH: prefetch(p, n); break;
	case O_COMMIT: fputs("commit", p->f); break;
	case O_WAIT: fprintf(p->f, "wait %lld", (long long)n->n); break;
	case O_MMA: mma(p, n); break;
	case O_SYNCH: synch(p, n); break;
	case O_MOVE: move(p, n); break;
	default: fprintf(p->f, "// %s?", n->op->name);
	}
	pr_loc(p, n->loc);
}

static void statements(P *p, const Region *r)
{
	for (int i = 0; i < r->nresults; i++)
		statement(p, r->results[i]);
}

static void kernel_head(P *p, Kernel *k)
{
	fputs("kernel ", p->f);
	pr_quoted(p->f, k->name, '"');
	fputs(" (", p->f);
	for (int i = 0; i < k->nbufs; i++) {
		if (i)
			fputs(", ", p->f);
		if (k->writes && k->writes[i])
			fputs("out ", p->f);
		buffer(p, k->bufs[i]);
	}
	fputs(") (", p->f);
	for (int i = 0; i < k->nsyms; i++) {
		if (i)
			fputs(", ", p->f);
		pr_sym_name(p->f, k->syms[i]->name);
		fputs(": ", p->f);
		pr_range(p, k->syms[i]);
		if (k->args[i] == k->syms[i] || pr_hidden(p, k->args[i]))
			continue;                      /* the plan has it */
		fputs(" = ", p->f);
		pr_full_expr(p, k->args[i]);
	}
	fputs(") {", p->f);
}

static void list(P *p, const char *before, int n, Node *const *e)
{
	for (int i = 0; i < n; i++) {
		fputs(i ? ", " : before, p->f);
		pr_full_expr(p, e[i]);
	}
}

static void ints(P *p, const char *before, int n, const int *v)
{
	for (int i = 0; i < n; i++)
		fprintf(p->f, "%s%d", i ? ", " : before, v[i]);
}

static void tensor_map(P *p, const Kernel *k, const TensorMap *t)
{
	pr_nl(p);
	fputs("map ", p->f);
	buffer(p, t->view);
	fputs(" of ", p->f);
	pr_value(p, k->bufs[t->buf]);
	fputs(" from ", p->f);
	pr_full_expr(p, t->offset);
	list(p, " dims ", t->rank, t->dim);
	list(p, " strides ", t->rank, t->stride);
	ints(p, " box ", t->gathers ? 2 : t->rank, t->box);
	if (t->gathers) {
		list(p, " lower ", t->rank - 2, t->lower);
		list(p, " upper ", t->rank - 2, t->upper);
		ints(p, " step ", t->rank - 2, t->step + 1);
	}
	fprintf(p->f, " swizzle %d", t->swizzle);
}

static void kernel(P *p, Kernel *k)
{
	p->naxis = p->nlet = p->ncarry = 0;
	pr_nl(p);
	kernel_head(p, k);
	p->tabs++;
	if (k->schedule) {
		pr_nl(p);
		fputs("schedule ", p->f);
		pr_quoted(p->f, k->schedule, '"');
	}
	if (k->grid[0] && !pr_hidden(p, k->grid[0])) {
		pr_nl(p);
		fputs("grid ", p->f);
		for (int i = 0; i < 3 && k->grid[i] && !pr_hidden(p, k->grid[i]); i++) {
			if (i)
				fputs(", ", p->f);
			pr_full_expr(p, k->grid[i]);
		}
	}
	if (k->block)
		pr_nl(p), fprintf(p->f, "block %d", k->block);
	if (k->index32)
		pr_nl(p), fputs("index32", p->f);
	if (k->shared)
		pr_nl(p), fprintf(p->f, "shared %lld", (long long)k->shared);
	if (k->scratch) {
		pr_nl(p);
		fputs("scratch ", p->f);
		pr_full_expr(p, k->scratch);
	}
	if (k->flops != 0 || k->bytes != 0) {
		pr_nl(p);
		fputs("cost ", p->f);
		pr_attr_double(p, k->flops);
		fputs(", ", p->f);
		pr_attr_double(p, k->bytes);
	}
	for (int i = 0; i < k->nerrors; i++) {
		pr_nl(p);
		fputs("error ", p->f);
		pr_quoted(p->f, k->errors[i], '"');
	}
	if (k->loc) {
		pr_nl(p);
		fputs("from", p->f);
		pr_loc(p, k->loc);
	}
	for (int i = 0; i < k->nmaps; i++)
		tensor_map(p, k, &k->maps[i]);
	pr_nl(p);
	fputs("body", p->f);
	braces(p, k->body);
	p->tabs--;
	pr_nl(p);
	fputc('}', p->f);
}

/* ---- the memory plan ----------------------------------------------------------------------- */

const char *const text_buf_classes[] = { [BUF_ARENA] = "arena", [BUF_INPUT] = "input",
	[BUF_OUTPUT] = "output", [BUF_WEIGHT] = "weight", [BUF_CONST] = "const", [BUF_HEAP] = "heap",
	[BUF_VIEW] = "view", [BUF_HOST] = "host", [BUF_VALUE] = "value", NULL };

static void payload(P *p, const Data *d, DType t)
{
	fprintf(p->f, " %s %lld", dtypes[t].text, (long long)d->count);
	pr_data_text(p, d, t);
}

static void plan_buf(P *p, const PlanBuf *b)
{
	pr_nl(p);
	fprintf(p->f, "buf %s %s", text_buf_classes[b->cls],
		b->dtype == DT_NONE ? "none" : dtypes[b->dtype].text);
	if (b->name) {
		fputc(' ', p->f);
		pr_quoted(p->f, b->name, '"');
	}
	fprintf(p->f, " index %d alias %d life %u..%u size %lld at %lld", b->index, b->alias, b->first,
		b->last, (long long)b->size, (long long)b->offset);
	if (b->data) {
		fputs(" data", p->f);
		payload(p, b->data, b->dtype == DT_NONE ? DT_U8 : b->dtype);
	}
}

static void memory(P *p, const Plan *a)
{
	pr_nl(p);
	fprintf(p->f, "memory %s %lld", a->is_static ? "static" : "dynamic", (long long)a->arena_bytes);
	if (a->formula) {
		fputc(' ', p->f);
		pr_quoted(p->f, a->formula, '"');
	}
	fputs(" {", p->f);
	p->tabs++;
	for (int i = 0; i < a->nbufs; i++)
		plan_buf(p, &a->bufs[i]);
	for (int i = 0; i < a->ntexts; i++) {
		pr_nl(p);
		fputs("text ", p->f);
		pr_quoted(p->f, a->texts[i], '"');
	}
	for (int i = 0; a->in_buf && i < p->m->main->nparams; i++) {
		pr_nl(p);
		fprintf(p->f, "in %d", a->in_buf[i]);
		if (a->in_default && a->in_default[i]) {
			fputs(" default", p->f);
			payload(p, a->in_default[i], p->m->main->params[i]->type->dtype);
		}
	}
	p->tabs--;
	pr_nl(p);
	fputs("}\n", p->f);
}

/* What the statements use from outside: symbols, and large closed expressions. */
static void collect_statements(P *p, Walk *w, const Region *r)
{
	for (int i = 0; i < r->nresults; i++) {
		Node *n = r->results[i];
		for (int k = 0; k < n->nin; k++)
			pr_collect(p, w, n->in[k]);
		for (int k = 0; k < n->nregions; k++)
			collect_statements(p, w, n->regions[k]);
	}
}

static void collect_map(P *p, Walk *w, const TensorMap *t)
{
	pr_collect(p, w, t->view);
	pr_collect(p, w, t->offset);
	for (int i = 0; i < t->rank; i++) {
		pr_collect(p, w, t->dim[i]);
		pr_collect(p, w, t->stride[i]);
	}
	for (int i = 0; t->gathers && i < t->rank - 2; i++) {
		pr_collect(p, w, t->lower[i]);
		pr_collect(p, w, t->upper[i]);
	}
}

/* Types of outputs may read tensors, which this level does not show, but their symbols stand. */
static void collect_symbols(P *p, Walk *w, const Type *t)
{
	for (int i = 0; t->kind == T_TENSOR && i < t->rank; i++) {
		int n;
		Node **list = topo_scalar(t->dims[i], &n);
		for (int k = 0; k < n; k++)
			if (list[k]->code == O_SYM)
				pr_collect(p, w, list[k]);
		free(list);
	}
	for (int i = 0; t->elem && i < t->rank; i++)
		collect_symbols(p, w, t->elem[i]);
}

void pr_loops(P *p)
{
	Walk w = { 0 };
	Region *r = p->m->main;
	pr_collect_head(p, &w);
	for (int i = 0; i < p->m->kernels.n; i++) {
		Kernel *k = p->m->kernels.at[i];
		for (int j = 0; j < k->nsyms; j++) {
			pr_collect(p, &w, k->syms[j]);
			if (!pr_reads(k->args[j]))
				pr_collect(p, &w, k->args[j]);
		}
		for (int j = 0; j < k->nbufs; j++)
			pr_collect(p, &w, k->bufs[j]);
		for (int j = 0; j < k->nmaps; j++)
			collect_map(p, &w, &k->maps[j]);
		collect_statements(p, &w, k->body);
	}
	if (p->m->plan)
		collect_statements(p, &w, p->m->plan);
	for (int i = 0; i < r->nresults; i++)
		collect_symbols(p, &w, r->results[i]->type);
	pr_place(p, &w);
	pr_order(p, &w);
	pr_take_symbols(p, &w);
	pr_symbols(p, &w);
	library_print(p->m, p->level, p->f);
	pr_ledger(p);
	for (int i = 0; i < w.list.n; i++)
		if (pr_is_line(p, w.list.at[i]))
			pr_line(p, &w, w.list.at[i]);
	pr_nl(p);
	fputs("func main(", p->f);
	for (int i = 0; i < r->nparams; i++) {
		if (i)
			fputs(", ", p->f);
		pr_param(p, r->params[i]);
		pr_input_name(p, i);
	}
	fputs(")", p->f);
	for (int i = 0; i < r->nresults; i++) {
		fputs(i ? ", " : " -> ", p->f);
		pr_output_name(p, i);
		pr_type_text(p, r->results[i]->type);
	}
	fputc('\n', p->f);
	for (int i = 0; i < p->m->kernels.n; i++) {
		kernel(p, p->m->kernels.at[i]);
		fputc('\n', p->f);
	}
	if (p->m->plan) {
		p->naxis = p->nlet = p->ncarry = 0;
		pr_nl(p);
		fputs("plan", p->f);
		braces(p, p->m->plan);
		fputc('\n', p->f);
	}
	if (p->m->memory)
		memory(p, p->m->memory);
	pr_finish(p, &w);
}
