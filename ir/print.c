/*
 * The text of a module, at each level; parse.c reads it back to the same module. ir/README.md has
 * the grammar.
 *
 * What is a line: tensors and graph operators, and closed scalar expressions of more than INLINE
 * nodes, so that no line grows large however much the graph shares. A line stands in the innermost
 * region common to its uses, lines of a region in the order in which the nodes were made. Within an
 * expression what is used twice is bound by a `let` in the innermost loop common to its uses.
 * Names: values %N in the order of print (parameters keep theirs where unique), axes i, j, k ...,
 * lets t0, t1 ..., carries c0, c1 ..., each per line.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/machine.h"
#include "ir/print.h"

enum { INLINE = TEXT_INLINE, SHORT_CONST = 16, LONG_CONST = 64 << 10 };

/* ---- types, locations ---------------------------------------------------------------------- */

/* What was read from "?". */
bool pr_unknown(const Node *e)
{
	return e->code == O_SYM && !strcmp(e->name, "?");
}

/* Does the expression read what this level does not show, or is it too large for a line? */
bool pr_hidden(P *p, Node *e)
{
	int n;
	bool found = false;
	if (e->code == O_NUM)
		return false;
	Node **list = topo_scalar(e, &n);
	for (int i = 0; i < n && !found; i++) {
		Node *t = list[i]->code == O_READ ? pr_view(p, list[i]->in[0]) : NULL;
		while (t && t->code == O_RESULT)
			t = pr_view(p, t->in[0]);
		found = t && !map_get(&p->name, t);
		/* a fresh symbol of a definition, which is made anew with it */
		if (list[i]->code == O_SYM && !pr_name_has(&p->syms, list[i]->name))
			found = true;
	}
	free(list);
	return found || (p->level == LEVEL_GRAPH && e->size > 4 * INLINE);
}

void pr_type_text(P *p, const Type *t)
{
	switch (t->kind) {
	case T_SCALAR: fputs(dtypes[t->dtype].text, p->f); break;
	case T_TENSOR:
		fprintf(p->f, "%s[%s", dtypes[t->dtype].text, t->rank == -1 ? "*" : t->rank < 0 ? "!" : "");
		for (int i = 0; i < t->rank; i++) {
			if (i)
				fputs(", ", p->f);
			if (is_intv(t->dims[i], -1))
				fputs("-1", p->f);
			else if (pr_unknown(t->dims[i]) || (!p->loose && pr_hidden(p, t->dims[i])))
				fputc('?', p->f);
			else
				pr_expr(p, t->dims[i], 0);
		}
		fputc(']', p->f);
		break;
	case T_TUPLE:
		fputc('(', p->f);
		for (int i = 0; i < t->rank; i++) {
			if (i)
				fputs(", ", p->f);
			pr_type_text(p, t->elem[i]);
		}
		fputc(')', p->f);
		break;
	case T_SEQ: case T_OPTIONAL:
		fputs(t->kind == T_SEQ ? "seq<" : "optional<", p->f);
		if (t->rank)
			pr_type_text(p, t->elem[0]);
		fputc('>', p->f);
		break;
	case T_MAP:
		fprintf(p->f, "map<%s, ", dtypes[t->dtype].text);
		if (t->rank)
			pr_type_text(p, t->elem[0]);
		fputc('>', p->f);
		break;
	case T_BUFFER: fprintf(p->f, "buffer<%s>", dtypes[t->dtype].text); break;
	default: fputs("void", p->f); break;
	}
}

void pr_loc(P *p, const Loc *l)
{
	if (!l)
		return;
	fputs("  loc(", p->f);
	for (const Loc *x = l; x; x = x->next) {
		pr_quoted(p->f, x->name ? x->name : "", '"');
		if (x->type) {
			fputs(", ", p->f);
			if (pr_identifier(x->type))
				fputs(x->type, p->f);
			else
				pr_quoted(p->f, x->type, '"');
		}
		if (x->index >= 0)
			fprintf(p->f, ", %d", x->index);
		if (x->next)
			fputs("; ", p->f);
	}
	fputc(')', p->f);
}

/* ---- constants ----------------------------------------------------------------------------- */

static void base64(FILE *f, const uint8_t *b, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = b[i] << 16 | (i + 1 < n ? b[i + 1] << 8 : 0) | (i + 2 < n ? b[i + 2] : 0);
		fputc(digits[v >> 18], f);
		fputc(digits[v >> 12 & 63], f);
		fputc(i + 1 < n ? digits[v >> 6 & 63] : '=', f);
		fputc(i + 2 < n ? digits[v & 63] : '=', f);
	}
}

static bool listable(const Data *d, DType t)
{
	uint8_t back[16];
	if (d->count > SHORT_CONST || t == DT_STRING || dtypes[t].cls == 'C' || t == DT_F4E2M1)
		return t == DT_STRING;
	for (int64_t k = 0; k < d->count; k++) {
		int bits = dtypes[t].bits;
		Num v = data_get(d, t, k);
		if (dt_float(t) && !pr_plain_float(t, v.f))
			return false;
		memset(back, 0, sizeof back);
		data_set(back, t, 0, v);
		Num again = data_get(&(Data){ .bytes = back }, t, 0);
		if (bits >= 8 && memcmp(back, (const uint8_t *)d->bytes + k * (bits / 8), bits / 8))
			return false;
		if (bits < 8 && again.i != v.i)
			return false;
	}
	return true;
}

/* Without the type's suffix: it is stated. */
static void element(P *p, const Data *d, DType t, int64_t k)
{
	if (t == DT_STRING) {
		pr_quoted(p->f, d->strings[k], '"');
		return;
	}
	Num v = data_get(d, t, k);
	if (t == DT_BOOL)
		fputs(v.i ? "true" : "false", p->f);
	else if (!dt_float(t))
		fprintf(p->f, t == DT_U64 ? "%llu" : "%lld", (long long)v.i);
	else if (isnan(v.f))
		fputs("nan", p->f);
	else
		pr_float_text(p->f, t, v.f);
}

void pr_data_text(P *p, const Data *d, DType t)
{
	if (listable(d, t)) {
		fputs(" {", p->f);
		for (int64_t k = 0; k < d->count; k++) {
			if (k)
				fputs(", ", p->f);
			element(p, d, t, k);
		}
		fputc('}', p->f);
	} else if (d->size <= LONG_CONST) {
		fputs(" base64 \"", p->f);
		base64(p->f, d->bytes, d->size);
		fputc('"', p->f);
	} else if (p->data) {
		long at = ftell(p->data);
		for (; at % 64; at++)
			fputc(0, p->data);
		fwrite(d->bytes, 1, d->size, p->data);
		fputs(" file ", p->f);
		pr_quoted(p->f, p->data_name, '"');
		fprintf(p->f, " %ld %zu", at, d->size);
	} else {
		fprintf(p->f, " elided 0x%016llx %zu", (unsigned long long)d->hash, d->size);
	}
}

/* ---- attributes ---------------------------------------------------------------------------- */

void pr_attr_double(P *p, double v)
{
	if (isnan(v))
		fputs("nan", p->f);
	else
		pr_float_text(p->f, DT_F64, v);
}

static void attr_value(P *p, const Attr *a)
{
	static const char *const empty[] = { [A_INTS] = "ints", [A_FLOATS] = "floats",
		[A_STRS] = "strs" };
	switch (a->kind) {
	case A_INT: fprintf(p->f, "%lld", (long long)a->i); break;
	case A_FLOAT: pr_attr_double(p, a->f); break;
	case A_STR: pr_quoted(p->f, a->s ? a->s : "", '"'); break;
	case A_TENSOR: pr_value(p, a->t); break;
	case A_TYPE: fputs("type ", p->f); pr_type_text(p, a->type); break;
	case A_REGION: fputs("region", p->f); break;
	default:
		if (!a->n)
			fputs(empty[a->kind], p->f);
		fputc('[', p->f);
		for (int i = 0; i < a->n; i++) {
			if (i)
				fputs(", ", p->f);
			if (a->kind == A_INTS)
				fprintf(p->f, "%lld", (long long)a->is[i]);
			else if (a->kind == A_FLOATS)
				pr_attr_double(p, a->fs[i]);
			else
				pr_quoted(p->f, a->ss[i], '"');
		}
		fputc(']', p->f);
	}
}

static bool is_default(const Op *op, const Attr *a)
{
	const Sig *s = op_sig(op);
	for (int i = 0; i < s->nattrs; i++) {
		const Attr *d = &s->attrs[i].value;
		if (!s->attrs[i].has_default || strcmp(s->attrs[i].name, a->name) ||
				a->kind != s->attrs[i].kind)
			continue;
		switch (a->kind) {
		case A_INT: return a->i == d->i;
		case A_FLOAT: return a->f == d->f && !!signbit(a->f) == !!signbit(d->f);
		case A_STR: return !strcmp(a->s ? a->s : "", d->s ? d->s : "");
		case A_INTS: return a->n == d->n && (!a->n || !memcmp(a->is, d->is, sizeof *a->is * a->n));
		default: return false;
		}
	}
	return false;
}

static void attrs(P *p, const Node *n)
{
	bool any = false;
	for (const Attr *a = n->attrs; a; a = a->next) {
		if (n->code == O_GRAPH && is_default(n->op, a))
			continue;
		fputs(any ? ", " : " {", p->f);
		any = true;
		if (pr_identifier(a->name))
			fputs(a->name, p->f);
		else
			pr_quoted(p->f, a->name, '"');
		fputs(" = ", p->f);
		attr_value(p, a);
	}
	if (any)
		fputc('}', p->f);
}

/* ---- lines --------------------------------------------------------------------------------- */

static void region_lines(P *, Walk *, Region *);

static void operands(P *p, Node *const *in, int n)
{
	for (int i = 0; i < n; i++) {
		fputs(i ? ", " : " ", p->f);
		pr_value(p, in[i]);
	}
}

/* How a later pass is to treat a tensor-level value (opt/HACKING.md). */
static void choices(P *p, const Node *n)
{
	if (!n->attrs)
		return;
	fputs(" with", p->f);
	attrs(p, n);
}

static void tensor(P *p, Node *n)
{
	p->naxis = p->nlet = p->ncarry = 0;
	fputs("tensor (", p->f);
	pr_axes(p, n->in, n->nin - 1, ") ");
	fputs(dtypes[n->type->dtype].text, p->f);
	choices(p, n);
	fputc(' ', p->f);
	pr_body_expr(p, n->in[n->nin - 1]);
}

/* base, axes, indices, value, condition */
static void scatter(P *p, Node *n)
{
	int rank = n->type->rank, naxes = n->nin - rank - 3;
	p->naxis = p->nlet = p->ncarry = 0;
	fprintf(p->f, "scatter %s ", comb_names[n->n]);
	pr_value(p, n->in[0]);
	choices(p, n);
	fputs(" (", p->f);
	pr_axes(p, n->in + 1, naxes, ") [");
	for (int i = 0; i < rank; i++) {
		if (i)
			fputs(", ", p->f);
		pr_full_expr(p, n->in[1 + naxes + i]);
	}
	fputs("] = ", p->f);
	pr_full_expr(p, n->in[n->nin - 2]);
	fputs(" if ", p->f);
	pr_full_expr(p, n->in[n->nin - 1]);
}

static bool core_name(const char *s)
{
	for (int i = O_NUM; i < O_GRAPH; i++)
		if (!strcmp(core_op(i)->name, s))
			return true;
	return false;
}

void pr_param(P *p, Node *n)
{
	if (!map_get(&p->name, n))
		pr_name_value(p, n);
	const char *s = map_get(&p->name, n);
	fputs(s, p->f);
	if (n->name && strcmp(s, pr_value_text(p, n->name))) {
		fputc(' ', p->f);
		pr_quoted(p->f, n->name, '"');
	}
	fputs(": ", p->f);
	pr_type_text(p, n->type);
}

static void region(P *p, Walk *w, Region *r)
{
	pr_nl(p);
	if (r->name && pr_identifier(r->name))
		fprintf(p->f, "%s (", r->name);
	else {
		pr_quoted(p->f, r->name ? r->name : "", '"');
		fputs(" (", p->f);
	}
	for (int i = 0; i < r->nparams; i++) {
		if (i)
			fputs(", ", p->f);
		pr_param(p, r->params[i]);
	}
	fputs(") {", p->f);
	p->tabs++;
	region_lines(p, w, r);
	pr_nl(p);
	fputs("yield", p->f);
	for (int i = 0; i < r->nresults; i++) {
		fputs(i ? ", " : " ", p->f);
		pr_value(p, r->results[i]);
	}
	p->tabs--;
	pr_nl(p);
	fputc('}', p->f);
}

static void regions(P *p, Walk *w, Node *n)
{
	if (!n->nregions)
		return;
	fputs(" {", p->f);
	p->tabs++;
	for (int i = 0; i < n->nregions; i++)
		region(p, w, n->regions[i]);
	p->tabs--;
	pr_nl(p);
	fputc('}', p->f);
}

/* What stands right of "%n = ", but for regions and loc. */
static void line_text(P *p, Node *n)
{
	switch (n->code) {
	case O_TENSOR: tensor(p, n); return;
	case O_SCATTER: scatter(p, n); return;
	case O_CONST:
		fputs("const ", p->f);
		pr_type_text(p, n->type);
		choices(p, n);
		pr_data_text(p, n->data, n->type->dtype);
		return;
	case O_GRAPH:
		fprintf(p->f, "%s%s", core_name(n->op->name) ? "op." : "", n->op->name);
		break;
	case O_HOST:
		fputs("host ", p->f);
		pr_quoted(p->f, n->name ? n->name : "", '"');
		break;
	default: fputs(n->op->name, p->f);
	}
	if (n->n)
		fprintf(p->f, "<%lld>", (long long)n->n);
	int nin = n->nin;
	while (n->code == O_GRAPH && nin && !n->in[nin - 1])   /* padded by the row */
		nin--;
	operands(p, n->in, nin);
	attrs(p, n);
	fputs(" : ", p->f);
	pr_type_text(p, n->type);
}

void pr_range(P *p, Node *s)
{
	fprintf(p->f, "%lld..%lld", (long long)s->lo, (long long)s->hi);
}

static void symbol(P *p, Node *s)
{
	fputs("sym ", p->f);
	pr_sym_name(p->f, s->name);
	fputs(" : ", p->f);
	pr_range(p, s);
}

void pr_line(P *p, Walk *w, Node *n)
{
	pr_nl(p);
	if (n->code == O_SYM) {
		p->naxis = p->nlet = p->ncarry = 0;
		symbol(p, n);
		fputs(" = ", p->f);
		pr_full_expr(p, n->def);
		return;
	}
	if (n->type->kind == T_SCALAR) {
		char *s = arena_printf(p->m->arena, "%%%d", p->nvalue++);
		p->naxis = p->nlet = p->ncarry = 0;
		fprintf(p->f, "let %s = ", s);
		pr_full_expr(p, n);
		map_put(&p->name, n, s);
		return;
	}
	const char *s = arena_printf(p->m->arena, "%%%d", p->nvalue++);
	fprintf(p->f, "%s = ", s);
	line_text(p, n);
	regions(p, w, n);
	pr_loc(p, n->loc);
	map_put(&p->name, n, (void *)s);
}

static void region_lines(P *p, Walk *w, Region *r)
{
	for (int i = 0; i < w->list.n; i++) {
		Node *n = w->list.at[i];
		if (pr_is_line(p, n) && map_get(&p->home, n) == r)
			pr_line(p, w, n);
	}
}

static int by_id(const void *a, const void *b)
{
	const Node *x = *(Node *const *)a, *y = *(Node *const *)b;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* In the order in which they were made, unless a node needs a later one. */
void pr_order(P *p, Walk *w)
{
	bool ok = true;
	for (int i = 0; i < w->list.n && ok; i++) {
		Node *n = w->list.at[i];
		pr_needs(p, n, &w->needs);
		for (int k = 0; k < w->needs.n; k++)
			ok = ok && w->needs.at[k]->id <= n->id;
		for (int r = 0; r < n->nregions; r++)
			for (int k = 0; k < n->regions[r]->nresults; k++)
				if (n->regions[r]->results[k])
					ok = ok && pr_view(p, n->regions[r]->results[k])->id <= n->id;
	}
	if (ok)
		qsort(w->list.at, (size_t)w->list.n, sizeof *w->list.at, by_id);
}

/* ---- the head ------------------------------------------------------------------------------ */

void pr_symbols(P *p, Walk *w)
{
	for (int i = 0; i < w->list.n; i++) {
		Node *s = w->list.at[i];
		if (s->code != O_SYM || pr_unknown(s) || pr_stands_for(p, s))
			continue;
		pr_nl(p);
		symbol(p, s);
		bool first = true;
		for (int k = 0; k < p->m->symdefs.n; k++) {
			SymDef *d = p->m->symdefs.at[k];
			if (d->sym != s)
				continue;
			fputs(first ? " = dim(" : ", dim(", p->f);
			if (d->input >= 0 && d->input < p->m->main->nparams)
				pr_value(p, p->m->main->params[d->input]);
			fprintf(p->f, ", %d)", d->axis);
			first = false;
		}
		for (int k = 0; k < p->m->loopsyms.n; k++) {
			LoopSym *d = p->m->loopsyms.at[k];
			if (d->sym == s)
				fprintf(p->f, " = result(%d, %d)", d->result, d->axis);
		}
	}
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorted, since operators make theirs again in an order of their own. Those about values that this
 * level does not show are left out: making the operators makes them. */
static void requirements(P *p)
{
	char **text = pr_grow(NULL, sizeof *text * (size_t)p->m->requires.n);
	int n = 0;
	for (int i = 0; i < p->m->requires.n; i++) {
		Require *r = p->m->requires.at[i];
		FILE *out = p->f;
		size_t len;
		if (pr_hidden(p, r->cond))
			continue;
		p->f = open_memstream(&text[n++], &len);
		if (!p->f)
			abort();
		p->naxis = p->nlet = p->ncarry = 0;
		fputs("require ", p->f);
		pr_expr(p, r->cond, 0);
		fputs(" : ", p->f);
		pr_quoted(p->f, r->message, '"');
		pr_loc(p, r->loc);
		fclose(p->f);
		p->f = out;
	}
	qsort(text, (size_t)n, sizeof *text, by_text);
	for (int i = 0; i < n; i++) {
		if (!i || strcmp(text[i], text[i - 1])) {
			pr_nl(p);
			fputs(text[i], p->f);
		}
	}
	for (int i = 0; i < n; i++)
		free(text[i]);
	free(text);
}

void pr_ledger(P *p)
{
	for (int i = 0; i < p->m->ledger.n; i++) {
		Ledger *l = p->m->ledger.at[i];
		pr_nl(p);
		fputs("ledger ", p->f);
		pr_quoted(p->f, l->what, '"');
		fputc(' ', p->f);
		pr_quoted(p->f, l->cls, '"');
		fputc(' ', p->f);
		pr_attr_double(p, l->error);
		pr_loc(p, l->loc);
	}
}

void pr_head(P *p)
{
	static const char *const levels[] = { "graph", "tensor", "loop" };
	fputs("module ", p->f);
	pr_quoted(p->f, p->m->name ? p->m->name : "", '"');
	fprintf(p->f, " %s", levels[p->level]);
	if (p->m->strict)
		fputs(" strict", p->f);
	if (p->m->precision)
		fprintf(p->f, " precision %s", precision_names[p->m->precision]);
	if (p->m->machine) {
		fputs(" target ", p->f);
		pr_quoted(p->f, p->m->machine->name, '"');
	}
	if (p->m->host) {
		fputs(" host ", p->f);
		pr_quoted(p->f, p->m->host->name, '"');
	}
	fputc('\n', p->f);
}

/* ---- the main function --------------------------------------------------------------------- */

/* The model's name of the input, where the parameter's differs. */
void pr_input_name(P *p, int i)
{
	Node *n = p->m->main->params[i];
	const char *s = p->m->in_names ? p->m->in_names[i] : NULL;
	if (!s || (n->name && !strcmp(n->name, s)))
		return;
	fputs(" = ", p->f);
	pr_quoted(p->f, s, '"');
}

void pr_output_name(P *p, int i)
{
	if (!p->m->out_names || !p->m->out_names[i])
		return;
	pr_quoted(p->f, p->m->out_names[i], '"');
	fputs(" = ", p->f);
}

static void main_region(P *p, Walk *w)
{
	Region *r = p->m->main;
	pr_nl(p);
	fputs("func main(", p->f);
	for (int i = 0; i < r->nparams; i++) {
		Node *n = r->params[i];
		if (i)
			fputs(", ", p->f);
		pr_param(p, n);
		pr_input_name(p, i);
	}
	fputs(") {", p->f);
	p->tabs++;
	region_lines(p, w, r);
	requirements(p);
	pr_nl(p);
	fputs("return", p->f);
	for (int i = 0; i < r->nresults; i++) {
		fputs(i ? ", " : " ", p->f);
		pr_output_name(p, i);
		pr_value(p, r->results[i]);
	}
	p->tabs--;
	pr_nl(p);
	fputs("}\n", p->f);
}

void pr_collect_head(P *p, Walk *w)
{
	Region *r = p->m->main;
	for (int i = 0; i < p->m->symdefs.n; i++)
		pr_collect(p, w, ((SymDef *)p->m->symdefs.at[i])->sym);
	for (int i = 0; i < r->nparams; i++) {
		pr_name_value(p, r->params[i]);
		pr_collect(p, w, r->params[i]);
	}
}

void pr_finish(P *p, Walk *w)
{
	map_free(&w->seen);
	free(w->needs.at);
	map_free(&p->name);
	map_free(&p->home);
	map_free(&p->closed);
	free(p->syms.at);
	free(p->vals.at);
}

void pr_take_symbols(P *p, Walk *w)
{
	for (int i = 0; i < w->list.n; i++)
		if (((Node *)w->list.at[i])->code == O_SYM)
			pr_name_take(&p->syms, ((Node *)w->list.at[i])->name);
}

static void print_tensors(P *p)
{
	Walk w = { 0 };
	Region *r = p->m->main;
	pr_collect_head(p, &w);
	for (int i = 0; i < r->nresults; i++)
		pr_collect(p, &w, r->results[i]);
	if (p->level == LEVEL_TENSOR)
		for (int i = 0; i < p->m->requires.n; i++)
			pr_collect(p, &w, ((Require *)p->m->requires.at[i])->cond);
	pr_place(p, &w);
	pr_order(p, &w);
	library_print(p->m, p->level, p->f);
	pr_take_symbols(p, &w);
	pr_symbols(p, &w);
	pr_ledger(p);
	main_region(p, &w);
	pr_finish(p, &w);
}

void module_print_data(Module *m, Level level, FILE *f, FILE *data, const char *data_name)
{
	P p = { .m = m, .level = level, .f = f, .data = data, .data_name = data_name };
	pr_head(&p);
	if (level == LEVEL_LOOP)
		pr_loops(&p);
	else
		print_tensors(&p);
}

void module_print(Module *m, Level level, FILE *f)
{
	module_print_data(m, level, f, NULL, NULL);
}

char *expr_print(Module *m, Node *e)
{
	char *text, *r;
	size_t n;
	P p = { .m = m, .loose = true, .f = open_memstream(&text, &n) };
	if (!p.f)
		abort();
	if (e->size > 400)
		fprintf(p.f, "(an expression of %u operations)", e->size);
	else
		pr_expr(&p, e, 0);
	fclose(p.f);
	r = arena_printf(m->arena, "%s", text);
	free(text);
	map_free(&p.name);
	return r;
}
