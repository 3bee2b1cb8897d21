/*
 * Scan-8, whose operands have a batch in front, as a Loop over the batch around a newer Scan:
 *   loop b: states[b], final states and stacked outputs of Scan(state[b]..., scan[b]...)
 * With lengths, each batch's operands are cut to its length and its outputs filled up with zeros.
 */
#include <string.h>

#include "frontend/frontend.h"

enum { NEWER = 21 };                 /* the operator set of what is made */

typedef struct Maker { OnnxModel *om; const OnnxNode *scan; OnnxGraph *g; } Maker;

static const char *local_name(Maker *k, const char *what, int i)
{
	Module *m = k->om->m;

	return intern(m, arena_printf(m->arena, "%s/batch/%s%d", k->scan->out[0], what, i));
}

static OnnxAttr ints_attr(Maker *k, OnnxAttrKind kind, const char *name, int n, const int64_t *v)
{
	return (OnnxAttr){ .name = intern(k->om->m, name), .ref = intern(k->om->m, ""), .kind = kind,
		.n = n,
		.i = arena_dup(k->om->m->arena, v, sizeof *v * (size_t)n) };
}

/* Adds a node; in and out end with NULL. Returns its first result's name. */
static const char *add(Maker *k, const char *op, const char *const *in, const char *const *out,
	int nattr,
	const OnnxAttr *attr)
{
	Module *m = k->om->m;
	OnnxNode *n = NEW(m, OnnxNode);

	*n = *k->scan;
	n->op = intern(m, op);
	n->version = NEWER;
	for (n->nin = 0; in[n->nin]; n->nin++)
		;
	for (n->nout = 0; out[n->nout]; n->nout++)
		;
	n->in = arena_dup(m->arena, in, sizeof *in * (size_t)(n->nin + 1));
	n->out = arena_dup(m->arena, out, sizeof *out * (size_t)(n->nout + 1));
	n->nattr = nattr;
	n->attr = nattr ? arena_dup(m->arena, attr, sizeof *attr * (size_t)nattr) : NULL;
	n->graph = k->g;
	k->g->node[k->g->nnode++] = n;
	return out[0];
}

#define LIST(...) (const char *const[]){ __VA_ARGS__, NULL }

static const char *constant(Maker *k, const char *name, int64_t v)
{
	OnnxAttr a = ints_attr(k, OA_INTS, "value_ints", 1, &v);

	return add(k, "Constant", LIST(NULL), LIST(local_name(k, name, 0)), 1, &a);
}

static OnnxGraph *graph(Maker *k, int nnode, int nin, int nout)
{
	Module *m = k->om->m;
	OnnxGraph *g = NEW(m, OnnxGraph);

	g->node = NEWN(m, OnnxNode *, nnode);
	g->in = NEWN(m, OnnxValue, nin + 1);
	g->out = NEWN(m, OnnxValue, nout + 1);
	g->nin = nin;
	g->nout = nout;
	g->name = g->attr = intern(m, "body");
	g->owner = k->scan->graph ? k->scan->graph->owner : NULL;
	return g;
}

/* The loop's body: one batch. */
static OnnxGraph *body(Maker *k, int states, int scans)
{
	Module *m = k->om->m;
	const OnnxNode *s = k->scan;
	int n = states + scans, nattr = 0, i;
	const char **in = NEWN(m, const char *, n + 1), **out = NEWN(m, const char *, s->nout + 1),
		*len = NULL, *more = NULL;
	OnnxAttr attr[4];

	k->g = graph(k, 2 * n + s->nout + 16, 2, s->nout + 1);
	k->g->in[0].name = local_name(k, "b", 0);
	k->g->in[1].name = k->g->out[0].name = local_name(k, "go", 0);
	const char *zero = constant(k, "zero", 0), *b = k->g->in[0].name;
	if (*s->in[0]) {
		len = add(k, "Gather", LIST(s->in[0], b), LIST(local_name(k, "n", 0)), 0, NULL);
		len = add(k, "Unsqueeze", LIST(len, zero), LIST(local_name(k, "len", 0)), 0, NULL);
	}
	for (i = 0; i < n; i++) {
		in[i] = add(k, "Gather", LIST(s->in[1 + i], b), LIST(local_name(k, "x", i)), 0, NULL);
		if (i < states || !len)
			continue;
		if (i == states) {
			int64_t one = 1;
			OnnxAttr end = ints_attr(k, OA_INT, "end", 1, &one);
			const char *all = add(k, "Shape", LIST(in[i]), LIST(local_name(k, "all", 0)), 1, &end);
			more = add(k, "Sub", LIST(all, len), LIST(local_name(k, "more", 0)), 0, NULL);
		}
		in[i] = add(k, "Slice", LIST(in[i], zero, len, zero), LIST(local_name(k, "cut", i)), 0,
			NULL);
	}
	for (i = 0; i < s->nattr; i++) {
		attr[nattr] = s->attr[i];
		if (!strcmp(attr[nattr].name, "directions"))
			attr[nattr].name = intern(m, "scan_input_directions");
		if (++nattr == 4)
			break;
	}
	for (i = 0; i < s->nout; i++)
		out[i] = local_name(k, "y", i);
	add(k, "Scan", in, out, nattr, attr);
	for (i = 0; i < s->nout; i++) {
		if (i >= states && len) {
			int64_t axis = 0;
			OnnxAttr a = ints_attr(k, OA_INT, "axis", 1, &axis);
			const char *pads = add(k, "Concat", LIST(zero, more), LIST(local_name(k, "pads", i)), 1,
				&a);
			out[i] = add(k, "Pad", LIST(out[i], pads, "", zero), LIST(local_name(k, "full", i)), 0,
				NULL);
		}
		k->g->out[1 + i].name = out[i];
	}
	return k->g;
}

const OnnxGraph *scan8_graph(OnnxModel *om, const OnnxNode *n)
{
	Maker k = { .om = om, .scan = n };
	int scans = -1, i;
	OnnxAttr attr = { .kind = OA_GRAPH };

	for (i = 0; i < n->nattr; i++)
		if (!strcmp(n->attr[i].name, "num_scan_inputs") && n->attr[i].kind == OA_INT)
			scans = n->attr[i].i[0] > 0 && n->attr[i].i[0] < n->nin ? (int)n->attr[i].i[0] : -1;
	if (scans < 1 || !n->nout) {
		node_error(om, n, X_INVALID, "num_scan_inputs does not fit %d inputs", n->nin);
		return NULL;
	}
	attr.name = intern(om->m, "body");
	attr.ref = intern(om->m, "");
	attr.n = 1;
	OnnxGraph *b = body(&k, n->nin - 1 - scans, scans);
	attr.g = arena_dup(om->m->arena, &b, sizeof b);
	k.g = graph(&k, 4, 0, n->nout);
	int64_t one = 1;
	OnnxAttr end = ints_attr(&k, OA_INT, "end", 1, &one);
	const char *count = add(&k, "Shape", LIST(n->in[n->nin - 1]), LIST(local_name(&k, "count", 0)),
		1, &end);
	count = add(&k, "Squeeze", LIST(count), LIST(local_name(&k, "batches", 0)), 0, NULL);
	const char **out = NEWN(om->m, const char *, n->nout + 1);
	for (i = 0; i < n->nout; i++)
		k.g->out[i].name = out[i] = n->out[i];
	add(&k, "Loop", LIST(count, ""), out, 1, &attr);
	return k.g;
}
