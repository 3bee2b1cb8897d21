/*
 * profile of a model for a GPU that is not here: what the performance model (ir/predict.c) says of
 * each kernel. Registers are the compiler's where it is installed.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "cmd.h"
#include "ir/predict.h"

bool
has_driver(const Machine *t)
{
	static const char *const names[] = {"libcuda.so.1", "libamdhip64.so.7", "libamdhip64.so.6",
		"libamdhip64.so.5"};
	size_t first = t->kind == M_CUDA ? 0 : 1, end = t->kind == M_CUDA ? 1 : TCC_COUNT(names), i;
	void *lib = NULL;

	for (i = first; i < end && !lib; i++)
		lib = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
	if (lib)
		dlclose(lib);
	return lib != NULL;
}

typedef struct Row { const Kernel *k; Prediction p; int registers, spills; } Row;

static int
by_time(const void *a, const void *b)
{
	double x = ((const Row *)a)->p.us, y = ((const Row *)b)->p.us;

	return x != y ? (x < y) - (x > y)
		: strcmp(((const Row *)a)->k->name, ((const Row *)b)->k->name);
}

static void
kernel_row(cJSON *j, const Row *r)
{
	cJSON *nodes;
	const Loc *l;

	json_text(j, "name", r->k->name);
	nodes = json_list(j, "nodes");
	for (l = r->k->loc; l; l = l->next)
		json_add_text(nodes, l->name ? l->name : l->type);
	json_real(j, "predicted_us", r->p.us);
	json_real(j, "flops", r->p.flops);
	json_real(j, "bytes", r->p.bytes);
	json_real(j, "roofline_share", r->p.roofline_share);
	json_text(j, "limit", r->p.limit);
	json_real(j, "sector_ratio", r->p.sector_ratio);
	json_real(j, "wavefront_ratio", r->p.wavefront_ratio);
	if (r->registers) {
		json_real(j, "registers", r->registers);
		json_real(j, "spills", r->spills);
	}
	json_real(j, "occupancy", r->p.occupancy);
	json_real(j, "blocks", r->p.blocks);
}

static const char *
origin(const Kernel *k, char *text, size_t size)
{
	const Loc *l;
	size_t n = 0;

	for (l = k->loc, *text = 0; l && n < size; l = l->next)
		n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "",
			l->name ? l->name : l->type);
	return text;
}

static void
table(const Machine *t, const Row *rows, int n, double total)
{
	char nodes[160];
	int i;

	printf("prediction for %s, not measured: each kernel once\n", t->name);
	printf("%10s %6s  %-8s %8s %6s %8s %8s %7s  %s\n", "us", "share", "limit", "roofline", "occup.",
		"GFLOP/s", "GB/s", "sectors", "kernel (nodes)");
	for (i = 0; i < n; i++) {
		const Prediction *p = &rows[i].p;
		printf("%10.2f %5.1f%%  %-8s %7.0f%% %5.0f%% %8.4g %8.4g %7.2f  %s (%s)\n", p->us,
			100 * p->us / total, p->limit, 100 * p->roofline_share, 100 * p->occupancy,
			p->flops / p->us / 1e3, p->bytes / p->us / 1e3, p->sector_ratio, rows[i].k->name,
			origin(rows[i].k, nodes, sizeof nodes));
	}
	printf("%10.2f 100.0%%  %d kernels\n", total, n);
}

static void
tell_host_work(Module *m, cJSON *json, bool text)
{
	HostWork w = host_work(m);

	host_work_json(&w, json);
	if (text && (w.waits || w.nroutines))
		printf("%s\n", host_work_text(m, &w));
}

static void
document(cJSON *json, const Machine *t, const Row *rows, int n, double total)
{
	cJSON *list;
	int i;

	json_text(json, "target", t->name);
	json_flag(json, "prediction", true);
	json_real(json, "predicted_us", total);
	list = json_list(json, "kernels");
	for (i = 0; i < n; i++)
		kernel_row(json_add(list), &rows[i]);
}

/* Fills the rows; the code of what went wrong. */
static int
predict_all(Compilation *c, Row *rows, double *total)
{
	Module *m = c->m;
	Node *unknown;
	int i;

	for (i = 0, *total = 0; i < m->kernels.n; i++) {
		rows[i].k = m->kernels.at[i];
		rows[i].registers = c->job.use ? c->job.use[i].registers : 0;
		rows[i].spills = c->job.use ? c->job.use[i].spills : 0;
		if (!kernel_predict(m, rows[i].k, m->machine, rows[i].registers, &rows[i].p, &unknown))
			return complain(X_USAGE, "the size %s is not known: fix it with --dim %s=N or --shape",
				expr_print(m, unknown), expr_print(m, unknown));
		*total += rows[i].p.us;
	}
	return X_OK;
}

int
predict_model(Compilation *c)
{
	const Options *o = c->o;
	cJSON *json = json_new(o);
	Module *m = c->m;
	Row *rows = NULL;
	double total;
	int code = X_OK;

	if (!compile_module(c))
		code = failure(c);
	else if (c->level != LEVEL_LOOP)
		code = complain(X_USAGE, "profile needs all passes");
	if (!code && has_compiler(m->machine)) {
		c->job = make_job(c, m->machine->kind == M_CUDA ? EMIT_CUBIN : EMIT_HSACO, "model");
		phase(o, "code generation");
		code = codegen_emit(&c->job);
	}
	if (!code) {
		rows = NEWN(m, Row, m->kernels.n);
		code = predict_all(c, rows, &total);
	}
	if (!code) {
		qsort(rows, (size_t)m->kernels.n, sizeof *rows, by_time);
		if (!o->json || *o->json)
			table(m->machine, rows, m->kernels.n, total);
		document(json, m->machine, rows, m->kernels.n, total);
		tell_host_work(m, json, !o->json || *o->json);
	}
	return json_end(o, json, code);
}
