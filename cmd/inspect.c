/*
 * inspect: a model or an artefact described. Both are read from the tables of a compiled model
 * (abi.h); of a model its operators, the kernels' schedules and what GPU compilers say are known
 * too.
 */
#include <stdlib.h>
#include <string.h>
#include "cmd.h"
#include "codegen/tool.h"

typedef struct Inspect {
	const Options *o;
	cJSON *json;           /* NULL: text */
	Compilation *c;        /* NULL: an artefact */
	const Job *job;        /* of a model */
	bool text;
} Inspect;

typedef struct Count { const char *name; int n; } Count;

static void
key(const Inspect *s, const char *name)
{
	if (s->text)
		printf("%-10s ", name);
}

/* ---- inputs and outputs -------------------------------------------------------------------- */

static void
port_type(const TccModel *m, const TccPort *p, char *buf, size_t size)
{
	static const char *const kinds[] = {"none", "", "sequence of ", "map to "};
	const TccDim *d = tcc_rows(m, tcc_meta(m)->dims);
	const char *symbols[TCC_MAX_RANK];
	int64_t dims[TCC_MAX_RANK];
	TccWant w = tcc_want(m, p, dims);
	int a, n;

	for (a = 0; a < w.rank; a++)
		symbols[a] = tcc_string(m, d[p->dims + (uint32_t)a].symbol);
	n = snprintf(buf, size, "%s%s%s", p->optional ? "optional " : "", kinds[p->kind & 3],
		p->kind == TCC_SEQUENCE && p->elem_kind == TCC_MAP ? kinds[TCC_MAP] : "");
	tcc_type_text(buf + n, size - (size_t)n, p->dtype, w.rank, dims, symbols);
}

static void
port_dims(const TccModel *m, const TccPort *p, cJSON *j)
{
	const TccDim *d = (const TccDim *)tcc_rows(m, tcc_meta(m)->dims) + p->dims;
	cJSON *shape = p->rank < 0 ? NULL : json_list(j, "shape");
	char range[64];
	int a;

	for (a = 0; a < p->rank; a++, d++)
		if (d->size >= 0)
			json_add_real(shape, (double)d->size);
		else if (d->symbol)
			json_add_text(shape, tcc_string(m, d->symbol));
		else {
			snprintf(range, sizeof range, d->hi ? "%lld..%lld" : "?", (long long)d->lo,
				(long long)d->hi);
			json_add_text(shape, range);
		}
}

static void
ports(const Inspect *s, const TccModel *m, const char *what, TccTable t)
{
	const TccPort *p = tcc_rows(m, t);
	cJSON *list = json_list(s->json, what), *j;
	char type[600];
	uint32_t i;

	if (s->text)
		printf("%s\n", what);
	for (i = 0; i < t.count; i++, p++) {
		port_type(m, p, type, sizeof type);
		if (s->text)
			printf("  %-24s %s%s\n", tcc_string(m, p->name), type,
				p->default_offset == TCC_NO_DEFAULT ? "" : ", has a default");
		j = json_add(list);
		json_text(j, "name", tcc_string(m, p->name));
		json_text(j, "identifier", tcc_string(m, p->ident));
		json_text(j, "type", type);
		json_text(j, "dtype", tcc_dtype_name(p->dtype));
		port_dims(m, p, j);
		json_flag(j, "default", p->default_offset != TCC_NO_DEFAULT);
	}
}

/* ---- operators ----------------------------------------------------------------------------- */

static void
count(Module *m, Vec *counts, const char *name)
{
	Count *k;
	int i;

	for (i = 0; i < counts->n; i++)
		if (strcmp((k = counts->at[i])->name, name) == 0) {
			k->n++;
			return;
		}
	k = NEW(m, Count);
	*k = (Count){name, 1};
	vec_push(m, counts, k);
}

static void
count_onnx(Module *m, Vec *counts, const OnnxGraph *g)
{
	const OnnxNode *n;
	int i, a, k;

	for (i = 0; i < g->nnode; i++) {
		n = g->node[i];
		count(m, counts, *n->domain ? arena_printf(m->arena, "%s:%s", n->domain, n->op) : n->op);
		for (a = 0; a < n->nattr; a++)
			for (k = 0; (n->attr[a].kind == OA_GRAPH || n->attr[a].kind == OA_GRAPHS)
				&& k < n->attr[a].n; k++)
				if (n->attr[a].g[k])
					count_onnx(m, counts, n->attr[a].g[k]);
	}
}

/* Of IR: its graph operators. */
static void
count_graph(Module *m, Vec *counts)
{
	int n, i;
	Node **list = topo(m->main->results, m->main->nresults, false, &n);

	for (i = 0; i < n; i++)
		if (list[i]->code == O_GRAPH)
			count(m, counts, list[i]->op->onnx ? list[i]->op->onnx : list[i]->op->name);
	free(list);
}

static int
by_count(const void *a, const void *b)
{
	const Count *x = *(Count *const *)a, *y = *(Count *const *)b;

	return x->n != y->n ? (x->n < y->n) - (x->n > y->n) : strcmp(x->name, y->name);
}

static void
operators(const Inspect *s)
{
	Module *m = s->c->m;
	cJSON *j = json_object(s->json, "operators");
	Vec counts = {0};
	const Count *k;
	int i, total = 0;

	if (s->c->onnx)
		count_onnx(m, &counts, s->c->onnx->graph);
	else
		count_graph(m, &counts);
	if (counts.n)
		qsort(counts.at, (size_t)counts.n, sizeof *counts.at, by_count);
	for (i = 0; i < counts.n; i++)
		total += ((const Count *)counts.at[i])->n;
	key(s, "operators");
	if (s->text)
		printf("%d", total);
	for (i = 0; i < counts.n; i++) {
		k = counts.at[i];
		if (s->text)
			printf("%s%s %d", i ? ", " : ": ", k->name, k->n);
		json_real(j, k->name, k->n);
	}
	if (s->text)
		printf("\n");
}

/* ---- kernels ------------------------------------------------------------------------------- */

/* Equal where code or contents are; nothing if it is not known. */
static void
json_digest(cJSON *j, uint32_t digest)
{
	char text[16];

	snprintf(text, sizeof text, "%08x", digest);
	if (digest)
		json_text(j, "digest", text);
}

/* What a launch runs, of which the kernel's operations and bytes are for one; 0: a run's sizes
 * decide. */
static double
grid_units(const Kernel *k)
{
	double units = 1;
	int64_t n;
	int i;

	for (i = 0; i < 3 && k->grid[i]; i++)
		units *= is_int(k->grid[i], &n) ? (double)n : 0;
	return units;
}

static void
kernel_json(const TccModel *m, const TccKernel *k, const Kernel *kn, const KernelUse *use, cJSON *j)
{
	double units = kn ? grid_units(kn) : 0;
	cJSON *nodes;
	const Loc *l;

	json_text(j, "name", tcc_string(m, k->name));
	if (kn) {
		nodes = json_list(j, "nodes");
		for (l = kn->loc; l; l = l->next)
			json_add_text(nodes, l->name ? l->name : l->type);
		if (kn->schedule)
			json_text(j, "schedule", kn->schedule);
	} else {
		json_text(j, "nodes", tcc_string(m, k->nodes));
	}
	if (k->block[0] > 1)
		json_real(j, "block", k->block[0]);
	if (k->shared + k->shared_static)
		json_real(j, "shared", k->shared + k->shared_static);
	if (k->scratch)
		json_real(j, "scratch", k->scratch);
	if (use) {
		json_real(j, "registers", use->registers);
		json_real(j, "spills", use->spills);
	}
	json_digest(j, k->digest);
	if (units > 0 && k->flops > 0)
		json_real(j, "flops", k->flops * units);
	if (units > 0 && k->bytes > 0)
		json_real(j, "bytes", k->bytes * units);
}

static void
kernel_text(const TccModel *m, const TccKernel *k, const Kernel *kn, const KernelUse *use)
{
	printf("  %-28s %s", tcc_string(m, k->name), tcc_string(m, k->nodes));
	if (kn && kn->schedule)
		printf("  {%s}", kn->schedule);
	if (use)
		printf("  %d registers%s", use->registers, use->spills ? "" : ", no spills");
	if (use && use->spills)
		printf(", %d bytes spilled", use->spills);
	printf("\n");
}

static void
kernels(const Inspect *s, const TccModel *m)
{
	TccTable t = tcc_meta(m)->kernels;
	const TccKernel *k = tcc_rows(m, t);
	cJSON *list;
	uint32_t i;

	key(s, "kernels");
	if (s->text)
		printf("%u\n", t.count);
	json_real(s->json, "kernel_count", t.count);
	list = json_list(s->json, "kernels");
	for (i = 0; i < t.count; i++, k++) {
		const Kernel *kn = s->c ? s->c->m->kernels.at[i] : NULL;
		const KernelUse *use = s->job && s->job->use ? &s->job->use[i] : NULL;
		if (s->text)
			kernel_text(m, k, kn, use);
		if (s->json)
			kernel_json(m, k, kn, use, json_add(list));
	}
}

/* ---- memory -------------------------------------------------------------------------------- */

static const char *const classes[] = {"arena", "input", "output", "weight", "const", "heap", "view",
	"host", "value"};
_Static_assert(TCC_COUNT(classes) == TCC_BUF_VALUE + 1, "a name for each class");

/* The end of the last part of the weights: artefacts in files know no more. */
static uint64_t
weight_bytes(const TccModel *m)
{
	const TccMeta *h = tcc_meta(m);
	const TccBuffer *b = tcc_rows(m, h->buffers);
	const TccPort *p = tcc_rows(m, h->inputs);
	uint64_t end = 0;
	uint32_t i;

	for (i = 0; i < h->buffers.count; i++)
		if ((b[i].cls == TCC_BUF_WEIGHT || b[i].cls == TCC_BUF_CONST)
			&& b[i].offset + b[i].size > end)
			end = b[i].offset + b[i].size;
	for (i = 0; i < h->inputs.count; i++)
		if (p[i].default_offset != TCC_NO_DEFAULT && p[i].default_offset + p[i].default_size > end)
			end = p[i].default_offset + p[i].default_size;
	return end;
}

static void
buffers(const Inspect *s, const TccModel *m)
{
	TccTable t = tcc_meta(m)->buffers;
	const TccBuffer *b = tcc_rows(m, t);
	cJSON *list = s->o->verbose ? json_list(s->json, "buffers") : NULL, *j;
	uint32_t i, n[TCC_COUNT(classes)] = {0};
	bool first = true;

	for (i = 0; i < t.count; i++)
		n[b[i].cls]++;
	key(s, "buffers");
	for (i = 0; s->text && i < TCC_COUNT(classes); i++)
		if (n[i]) {
			printf("%s%u %s", first ? "" : ", ", n[i], classes[i]);
			first = false;
		}
	if (s->text)
		printf("\n");
	for (i = 0; s->o->verbose && i < t.count; i++, b++) {
		if (s->text) {
			printf("  %4u %-7s %-24s %-10s", i, classes[b->cls], tcc_string(m, b->name),
				tcc_dtype_bits(b->dtype) ? tcc_dtype_name(b->dtype) : "bytes");
			if (b->size == TCC_NO_SIZE)
				printf(" %12s", "?");
			else
				printf(" %12llu", (unsigned long long)b->size);
			if (b->cls == TCC_BUF_ARENA)
				printf("  steps %u to %u", b->first, b->last);
			if (b->alias >= 0)
				printf(", in place of %d", b->alias);
			printf("\n");
		}
		j = json_add(list);
		json_text(j, "class", classes[b->cls]);
		if (b->name)
			json_text(j, "name", tcc_string(m, b->name));
		if (b->size != TCC_NO_SIZE)
			json_real(j, "bytes", (double)b->size);
		if (b->cls == TCC_BUF_ARENA) {
			json_real(j, "first", b->first);
			json_real(j, "last", b->last);
			if (b->offset != TCC_NO_SIZE)
				json_real(j, "offset", (double)b->offset);
		}
		json_digest(j, b->digest);
		if (b->alias >= 0)
			json_real(j, "alias", b->alias);
	}
}

static void
memory(const Inspect *s, const TccModel *m)
{
	const TccMeta *h = tcc_meta(m);
	uint64_t weights = weight_bytes(m);

	key(s, "weights");
	if (s->text)
		printf("%llu bytes%s%s\n", (unsigned long long)weights, h->weights_file ? ", in " : "",
			tcc_string(m, h->weights_file));
	json_real(s->json, "weight_bytes", (double)weights);
	key(s, "arena");
	if (h->flags & TCC_META_STATIC) {
		if (s->text)
			printf("%llu bytes\n", (unsigned long long)h->arena_bytes);
		json_real(s->json, "arena_bytes", (double)h->arena_bytes);
	} else {
		const char *f = h->arena_formula ? tcc_string(m, h->arena_formula)
			: "depends on the inputs' shapes";
		if (s->text)
			printf("%s\n", f);
		json_text(s->json, "arena_bytes", f);
	}
	buffers(s, m);
}

/* ---- the rest ------------------------------------------------------------------------------ */

static void
precision(const Inspect *s, const TccModel *m)
{
	const char *p = tcc_string(m, tcc_meta(m)->precision);
	cJSON *list = json_list(s->json, "precision"), *j;
	const Ledger *e;
	const Loc *l;
	int i;

	key(s, "precision");
	if (s->text)
		printf(*p ? "\n" : "exact but for the order of sums\n");
	for (; *p; p += strcspn(p, "\n"), p += *p != 0) {
		if (s->text)
			printf("  %.*s\n", (int)strcspn(p, "\n"), p);
		if (list && !s->c) {
			char *line = strndup(p, strcspn(p, "\n"));
			json_add_text(list, line ? line : "");
			free(line);
		}
	}
	for (i = 0; s->c && i < s->c->m->ledger.n; i++) {
		e = s->c->m->ledger.at[i];
		j = json_add(list);
		json_text(j, "what", e->what);
		json_text(j, "class", e->cls);
		json_real(j, "error", e->error);
		j = json_list(j, "nodes");
		for (l = e->loc; l; l = l->next)
			json_add_text(j, l->name ? l->name : l->type);
	}
}

static void
put_manifest(const Inspect *s, const char *text)
{
	cJSON *j = cJSON_Parse(text);

	if (s->text) {
		printf("manifest ");
		if (j)
			json_print(j, stdout);
	}
	if (s->json && j)
		cJSON_AddItemToObject(s->json, "manifest", j);
	else
		cJSON_Delete(j);
}

static void
describe(void *user, const TccModel *m)
{
	const Inspect *s = user;
	const TccMeta *h = tcc_meta(m);

	key(s, "model");
	if (s->text)
		printf("%s\n", tcc_string(m, h->name));
	json_text(s->json, "model", tcc_string(m, h->name));
	key(s, "target");
	if (s->text)
		printf("%s\n", tcc_string(m, h->target));
	json_text(s->json, "target", tcc_string(m, h->target));
	ports(s, m, "inputs", h->inputs);
	ports(s, m, "outputs", h->outputs);
	if (s->c)
		operators(s);
	kernels(s, m);
	memory(s, m);
	precision(s, m);
	if (h->manifest)
		put_manifest(s, tcc_string(m, h->manifest));
}

/* ---- models -------------------------------------------------------------------------------- */

static int32_t
no_plan(TccRun *run)
{
	(void)run;
	return TCC_UNSUPPORTED;
}

bool
has_compiler(const Machine *t)
{
	char where[512];
	int major, minor;

	if (t->kind == M_CUDA)
		return cuda_nvrtc(&major, &minor, where, sizeof where) || tool_found("nvcc");
	return t->kind == M_HIP && tool_found(clang_name());
}

static int
model_tables(Inspect *s, Compilation *c)
{
	const Machine *t = c->m->machine;
	const Meta *meta;
	TccModel m;
	int code;

	c->job = make_job(c, t->kind == M_CUDA ? EMIT_CUBIN : t->kind == M_HIP ? EMIT_HSACO : EMIT_OBJ,
		"model");
	phase(c->o, "code generation");
	if (!c->job.simulate && has_compiler(t) && (code = codegen_emit(&c->job)))
		return code;
	meta = meta_get(&c->job);
	if (!meta)
		return failure(c);
	m = (TccModel){.abi_version = TCC_ABI_VERSION, .image_kind = TCC_IMAGE_SIM, .meta = meta->bytes,
		.meta_size = meta->size,
		.weights_size = (uint64_t)meta->weights_size, .plan = no_plan};
	s->job = &c->job;
	describe(s, &m);
	return X_OK;
}

static int
inspect_model(Inspect *s, const char *path)
{
	Compilation c = {.json = s->json};
	Graph *g = NULL;
	int code = X_OK;

	s->c = &c;
	if (!load_model(&c, s->o, path, NULL))
		code = failure(&c);
	if (!code && s->o->graph && c.level != LEVEL_GRAPH)
		code = complain(X_USAGE, "--graph needs a model, or IR at graph level");
	else if (!code && s->o->graph)
		g = graph_new(c.m);
	if (!code && !compile_module(&c))
		code = failure(&c);
	if (!code && g)
		graph_print(g, c.m, s->o->graph, stdout);
	else if (!code && c.level != LEVEL_LOOP)
		code = complain(X_USAGE, "inspect needs all passes");
	else if (!code)
		code = model_tables(s, &c);
	compilation_free(&c);
	return code;
}

/* ---- artefacts ----------------------------------------------------------------------------- */

static void
describe_variant(void *user, const TccModel *m)
{
	Inspect s = *(Inspect *)user;

	if (s.json)                                  /* the first one's facts are the document's own */
		s.json = cJSON_GetObjectItem(s.json, "target")
			? json_add(cJSON_GetObjectItem(s.json, "variants")) : s.json;
	describe(&s, m);
	if (s.json == ((Inspect *)user)->json)
		json_list(s.json, "variants");
}

static int
inspect_artefact(Inspect *s, const char *path)
{
	if (s->o->graph || s->o->target.n)
		return complain(X_USAGE, "--%s is for models; %s is compiled",
			s->o->graph ? "graph" : "target", path);
	if (artefact_meta(path, describe_variant, s))
		return X_OK;
	return complain(X_INVALID, "%s: not made by tcc-ml", path);
}

int
inspect_into(const Options *o, const char *path, cJSON *json)
{
	Inspect s = {.o = o, .json = json};

	return is_artefact(path) ? inspect_artefact(&s, path) : inspect_model(&s, path);
}

int
cmd_inspect(const Options *o)
{
	Inspect s = {.o = o, .json = json_new(o), .text = (!o->json || *o->json) && !o->graph};
	int code;

	if (o->target.n > 1)
		return complain(X_USAGE, "inspect takes one --target");
	code = is_artefact(o->files[0]) ? inspect_artefact(&s, o->files[0])
		: inspect_model(&s, o->files[0]);
	return json_end(o, s.json, code);
}
