/* inspect --graph: the operators of a model, grouped by the kernels that compute them, for Graphviz
 * or as a page that shows itself. */
#include <stdlib.h>
#include <string.h>
#include "cmd.h"

typedef struct Vertex {
	const char *op, *name, *type;
	const Loc *loc;
	int *from, nfrom;      /* vertices */
	int kernel;            /* -1: none */
	int rank, x;           /* of the page: row and column */
} Vertex;

struct Graph { int n; Vertex *at; };

/* ---- making -------------------------------------------------------------------------------- */

static const char *
type_name(Module *m, const Type *t)
{
	const char *s = t->kind == T_TENSOR ? dtypes[t->dtype].text : "";
	int i;

	for (i = 0; t->kind == T_TENSOR && i < t->rank; i++)
		s = arena_printf(m->arena, "%s%s%s", s, i ? "," : "[", expr_print(m, t->dims[i]));
	return t->kind == T_TENSOR && t->rank ? arena_printf(m->arena, "%s]", s) : s;
}

static bool
is_shown(const Node *n)
{
	return n->code == O_GRAPH || n->code == O_PARAM;
}

/* Vertices that a node's value comes from: through results of tuples and the like. */
static void
add_sources(Module *m, Map *ids, const Node *n, Vec *out, int depth)
{
	int i;

	if (!n || depth > 8)
		return;
	if (is_shown(n)) {
		if (map_get(ids, n))
			vec_push(m, out, map_get(ids, n));
		return;
	}
	for (i = 0; i < n->nin; i++)
		add_sources(m, ids, n->in[i], out, depth + 1);
}

static void
connect(Module *m, Map *ids, Vertex *v, const Node *n)
{
	Vec from = {0};
	int i, k;

	for (i = 0; i < n->nin; i++)
		add_sources(m, ids, n->in[i], &from, 0);
	for (i = 0; i < n->nregions; i++)
		for (k = 0; n->regions[i] && k < n->regions[i]->nresults; k++)
			add_sources(m, ids, n->regions[i]->results[k], &from, 0);
	v->from = NEWN(m, int, from.n + 1);
	for (i = 0; i < from.n; i++) {
		int id = (int)(intptr_t)from.at[i] - 1;
		for (k = 0; k < v->nfrom && v->from[k] != id; k++)
			;
		if (k == v->nfrom)
			v->from[v->nfrom++] = id;
	}
}

Graph *
graph_new(Module *m)
{
	Graph *g = NEW(m, Graph);
	Map ids = {0};
	Vertex *v;
	int n, i;
	Node **list = topo(m->main->results, m->main->nresults, false, &n);

	g->at = NEWN(m, Vertex, n + 1);
	for (i = 0; i < n; i++) {
		if (!is_shown(list[i]))
			continue;
		v = &g->at[g->n++];
		*v = (Vertex){.loc = list[i]->loc, .kernel = -1, .type = type_name(m, list[i]->type)};
		v->op = list[i]->op->onnx ? list[i]->op->onnx : list[i]->op->name;
		v->name = v->loc && v->loc->name ? v->loc->name : "";
		if (list[i]->code == O_PARAM) {
			v->op = "input";
			v->name = list[i]->name;
		}
		map_put(&ids, list[i], (void *)(intptr_t)g->n);
		connect(m, &ids, v, list[i]);
	}
	map_free(&ids);
	free(list);
	return g;
}

static bool
same_place(const Loc *a, const Loc *b)
{
	return a->index == b->index && a->name && b->name && strcmp(a->name, b->name) == 0;
}

/* A node that several kernels compute is shown in the last. */
static void
find_kernels(const Graph *g, Module *m)
{
	const Loc *a, *b;
	int i, k;

	for (k = 0; k < m->kernels.n; k++)
		for (b = ((const Kernel *)m->kernels.at[k])->loc; b; b = b->next)
			for (i = 0; i < g->n; i++)
				for (a = g->at[i].loc; a; a = a->next)
					if (same_place(a, b))
						g->at[i].kernel = k;
}

/* ---- dot ----------------------------------------------------------------------------------- */

static void
quote(FILE *f, const char *s)
{
	for (; s && *s; s++) {
		if (*s == '"' || *s == '\\')
			fputc('\\', f);
		fputc(*s == '\n' ? ' ' : *s, f);
	}
}

static void
dot_vertex(const Graph *g, int i, FILE *f)
{
	const Vertex *v = &g->at[i];

	fprintf(f, "\t\tn%d [label=\"", i);
	quote(f, v->op);
	fputs("\\n", f);
	quote(f, v->type);
	fputs("\", tooltip=\"", f);
	quote(f, v->name);
	fprintf(f, "\"%s];\n", strcmp(v->op, "input") ? "" : ", shape=ellipse");
}

static void
print_dot(const Graph *g, Module *m, FILE *f)
{
	int i, k;

	fputs("digraph \"", f);
	quote(f, m->name);
	fputs("\" {\n\tnode [shape=box, fontname=sans, fontsize=10];\n", f);
	for (k = -1; k < m->kernels.n; k++) {
		if (k >= 0) {
			fprintf(f, "\tsubgraph cluster_%d {\n\t\tlabel=\"", k);
			quote(f, ((const Kernel *)m->kernels.at[k])->name);
			fputs("\"; style=filled; color=gray90; fontname=sans; fontsize=9;\n", f);
		}
		for (i = 0; i < g->n; i++)
			if (g->at[i].kernel == k)
				dot_vertex(g, i, f);
		if (k >= 0)
			fputs("\t}\n", f);
	}
	for (i = 0; i < g->n; i++)
		for (k = 0; k < g->at[i].nfrom; k++)
			fprintf(f, "\tn%d -> n%d;\n", g->at[i].from[k], i);
	fputs("}\n", f);
}

/* ---- html ---------------------------------------------------------------------------------- */

enum { WIDE = 150, HIGH = 34, DX = 170, DY = 62 };

/* Rows by the longest path from the inputs; in a row, by the place of what comes before. */
static void
layout(const Graph *g, int *rows, int *columns)
{
	int i, k, *used = calloc((size_t)g->n + 1, sizeof *used);
	Vertex *v;
	long sum;

	if (!used)
		abort();
	for (i = 0; i < g->n; i++) {
		v = &g->at[i];
		for (v->rank = 0, sum = 0, k = 0; k < v->nfrom; k++) {
			if (v->rank <= g->at[v->from[k]].rank)
				v->rank = g->at[v->from[k]].rank + 1;
			sum += g->at[v->from[k]].x;
		}
		v->x = v->nfrom ? (int)(sum / v->nfrom) : 0;
		if (v->x < used[v->rank])
			v->x = used[v->rank];
		used[v->rank] = v->x + 1;
		if (v->rank >= *rows)
			*rows = v->rank + 1;
		if (v->x >= *columns)
			*columns = v->x + 1;
	}
	free(used);
}

static void
escape(FILE *f, const char *s)
{
	for (; s && *s; s++)
		if (*s == '<' || *s == '&' || *s == '>' || *s == '"')
			fprintf(f, "&#%d;", *s);
		else
			fputc(*s, f);
}

static void
html_vertex(const Vertex *v, Module *m, FILE *f)
{
	int x = 10 + v->x * DX, y = 10 + v->rank * DY;

	fprintf(f, "<g><title>");
	escape(f, v->name);
	if (v->kernel >= 0) {
		fputs(" in kernel ", f);
		escape(f, ((const Kernel *)m->kernels.at[v->kernel])->name);
	}
	fprintf(f,
		"</title><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"hsl(%d,%s)\"/>",
		x, y,
		WIDE, HIGH, v->kernel * 137 % 360, v->kernel < 0 ? "0%,95%" : "60%,85%");
	fprintf(f, "<text x=\"%d\" y=\"%d\">", x + 6, y + 14);
	escape(f, v->op);
	fprintf(f, "</text><text x=\"%d\" y=\"%d\" class=\"t\">", x + 6, y + 27);
	escape(f, v->type);
	fputs("</text></g>\n", f);
}

static void
print_html(const Graph *g, Module *m, FILE *f)
{
	int rows = 1, columns = 1, i, k;
	const Vertex *a, *b;
	const Kernel *kn;

	layout(g, &rows, &columns);
	fputs("<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>", f);
	escape(f, m->name);
	fputs("</title><style>body{font:13px sans-serif}text{font:11px sans-serif}"
		".t{fill:#555;font-size:9px}rect{stroke:#999}path{stroke:#888;fill:none}"
		"td{padding:1px 8px}</style></head><body>\n<h1>", f);
	escape(f, m->name);
	fprintf(f,
		"</h1>\n<p>%d operators in %d kernels; a colour is a kernel.</p>\n"
		"<svg width=\"%d\" height=\"%d\">\n",
		g->n, m->kernels.n, columns * DX + 20, rows * DY + 20);
	for (i = 0; i < g->n; i++)
		for (b = &g->at[i], k = 0; k < b->nfrom; k++) {
			a = &g->at[b->from[k]];
			fprintf(f, "<path d=\"M%d %dC%d %d %d %d %d %d\"/>\n", a->x * DX + 10 + WIDE / 2,
				a->rank * DY + 10 + HIGH,
				a->x * DX + 10 + WIDE / 2, a->rank * DY + DY, b->x * DX + 10 + WIDE / 2,
				b->rank * DY - 10,
				b->x * DX + 10 + WIDE / 2, b->rank * DY + 10);
		}
	for (i = 0; i < g->n; i++)
		html_vertex(&g->at[i], m, f);
	fputs("</svg>\n<table>\n", f);
	for (k = 0; k < m->kernels.n; k++) {
		kn = m->kernels.at[k];
		fprintf(f, "<tr><td style=\"background:hsl(%d,60%%,85%%)\">%d</td><td>", k * 137 % 360, k);
		escape(f, kn->name);
		fputs("</td><td>", f);
		escape(f, kn->schedule);
		fputs("</td></tr>\n", f);
	}
	fputs("</table></body></html>\n", f);
}

void
graph_print(const Graph *g, Module *m, const char *kind, FILE *f)
{
	find_kernels(g, m);
	(strcmp(kind, "dot") == 0 ? print_dot : print_html)(g, m, f);
}
