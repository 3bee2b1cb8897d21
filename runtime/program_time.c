/* Timing the model and its kernels: --bench and --profile. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "program.h"

static double ms_since(uint64_t start)
{
	return (double)(tcc_now() - start) / 1e6;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double quantile(const double *sorted, long n, double q)
{
	long i = (long)ceil(q * (double)n) - 1;
	return sorted[i < 0 ? 0 : i];
}

typedef struct Timing {
	double first_ms, total_ms, h2d, exec, d2h;
	double *ms;
	long n;
} Timing;

static bool enough(const Args *a, const Timing *t, uint64_t start)
{
	if (a->iters)
		return t->n >= a->iters;
	return t->n >= 10 && ms_since(start) > a->duration * 1e3;
}

static int measure(Program *p, Timing *t)
{
	long room = 0;
	uint64_t start = tcc_now();
	int rc = tcc_run_once(p);
	t->first_ms = ms_since(start);
	for (long i = 0; !rc && i < p->args.warmup; i++)
		rc = tcc_run_once(p);
	tcc_profile_reset(p->ctx);
	for (start = tcc_now(); !rc && !enough(&p->args, t, start);) {
		if (t->n == room) {
			room = 2 * room + 1024;
			double *ms = realloc(t->ms, room * sizeof *ms);
			if (!ms)
				return tcc_report(p, TCC_BUDGET, "out of memory");
			t->ms = ms;
		}
		uint64_t begin = tcc_now();
		rc = tcc_run_once(p);
		t->ms[t->n] = ms_since(begin);
		TccTimes times = tcc_times(p->ctx);
		t->total_ms += t->ms[t->n++];
		t->h2d += (double)times.h2d / 1e6;
		t->exec += (double)times.exec / 1e6;
		t->d2h += (double)times.d2h / 1e6;
	}
	if (t->n)
		qsort(t->ms, t->n, sizeof *t->ms, by_value);
	return rc;
}

static void print_bench(const Program *p, const Timing *t)
{
	const struct { const char *name; double v; } rows[] = {
		{"load_ms", p->load_ms},
		{"first_ms", t->first_ms},
		{"min_ms", t->ms[0]},
		{"median_ms", quantile(t->ms, t->n, 0.5)},
		{"p90_ms", quantile(t->ms, t->n, 0.90)},
		{"p95_ms", quantile(t->ms, t->n, 0.95)},
		{"p99_ms", quantile(t->ms, t->n, 0.99)},
		{"h2d_ms", t->h2d / (double)t->n},
		{"exec_ms", t->exec / (double)t->n},
		{"d2h_ms", t->d2h / (double)t->n},
		{"throughput", (double)t->n * 1e3 / t->total_ms},
		{"iterations", (double)t->n},
		{"arena_bytes", (double)tcc_arena_bytes(p->ctx)},
	};
	if (p->json)
		fprintf(p->json, "{\n  \"version\": 1");
	for (size_t i = 0; i < TCC_COUNT(rows); i++) {
		if (p->json)
			fprintf(p->json, ",\n  \"%s\": %.9g", rows[i].name, rows[i].v);
		else
			printf("%-12s %.6g\n", rows[i].name, rows[i].v);
	}
	if (p->json)
		fprintf(p->json, "\n}\n");
}

typedef struct Row {
	const TccProfile *sums;
	const TccKernel *kernel;
} Row;

static int by_time(const void *a, const void *b)
{
	const TccProfile *x = ((const Row *)a)->sums, *y = ((const Row *)b)->sums;
	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return x < y ? -1 : x > y;
}

/* The share of its time that a kernel would take if only its operations or its bytes counted. */
static double roofline(const Program *p, const TccProfile *r, const char **limit)
{
	const TccProgramHook *h = p->hook;
	double ns = r->ns ? (double)r->ns : 1;
	double flops = h && h->flops_us > 0 ? r->flops / h->flops_us * 1e3 : 0;
	double bytes = h && h->bytes_us > 0 ? r->bytes / h->bytes_us * 1e3 : 0;
	*limit = bytes > flops ? "memory" : "compute";
	return (bytes > flops ? bytes : flops) / ns;
}

static void json_nodes(FILE *f, const char *nodes)
{
	fprintf(f, ", \"nodes\": [");
	while (*nodes) {
		const char *end = strstr(nodes, ", ");
		char one[256];
		snprintf(one, sizeof one, "%.*s", end ? (int)(end - nodes) : 255, nodes);
		tcc_json_text(f, one);
		fprintf(f, end ? ", " : "");
		nodes = end ? end + 2 : nodes + strlen(nodes);
	}
	fprintf(f, "]");
}

static void json_profile(const Program *p, const Row *rows, uint32_t n, double runs)
{
	FILE *f = p->json;
	fprintf(f, "{\n  \"version\": 1,\n  \"kernels\": [");
	for (uint32_t i = 0; i < n; i++) {
		const TccProfile *r = rows[i].sums;
		fprintf(f, "%s\n    {\"name\": ", i ? "," : "");
		tcc_json_text(f, tcc_string(p->model, rows[i].kernel->name));
		json_nodes(f, tcc_string(p->model, rows[i].kernel->nodes));
		fprintf(f, ", \"launches\": %.9g, \"time_us\": %.9g, \"flops\": %.9g, \"bytes\": %.9g",
		        (double)r->launches / runs, (double)r->ns / 1e3 / runs, r->flops / runs,
		        r->bytes / runs);
		const char *limit;
		double share = roofline(p, r, &limit);
		if (share > 0)
			fprintf(f, ", \"roofline_share\": %.9g, \"limit\": \"%s\"", share, limit);
		fprintf(f, "}");
	}
	fprintf(f, "\n  ],\n  \"round_trips\": %llu\n}\n", (unsigned long long)tcc_round_trips(p->ctx));
}

static void text_profile(const Program *p, const Row *rows, uint32_t n, double runs)
{
	double total = 0;
	for (uint32_t i = 0; i < n; i++)
		total += (double)rows[i].sums->ns;
	printf("%10s %6s %8s %8s %8s %8s  %s\n", "us", "share", "launches", "GFLOP/s", "GB/s",
		"roofline",
	       "kernel (nodes)");
	for (uint32_t i = 0; i < n && rows[i].sums->launches; i++) {
		const TccProfile *r = rows[i].sums;
		double ns = r->ns ? (double)r->ns : 1;
		const char *limit;
		double share = roofline(p, r, &limit);
		printf("%10.2f %5.1f%% %8.3g %8.3g %8.3g %7.0f%%  %s (%s)\n", ns / 1e3 / runs,
		       100 * ns / (total > 0 ? total : 1), (double)r->launches / runs, r->flops / ns,
		       r->bytes / ns, 100 * share, tcc_string(p->model, rows[i].kernel->name),
		       tcc_string(p->model, rows[i].kernel->nodes));
	}
	printf("%10.2f 100.0%%\n", total / 1e3 / runs);
	if (tcc_round_trips(p->ctx) > 1)
		printf("the host waited for the device %llu times a run\n",
		       (unsigned long long)tcc_round_trips(p->ctx));
}

/* The trace event format of Chrome and Perfetto: times in microseconds. */
static int write_trace(const Program *p)
{
	const TccKernel *k = tcc_rows(p->model, p->meta->kernels);
	uint64_t n;
	const TccEvent *e = tcc_events(p->ctx, &n);
	FILE *f = fopen(p->args.trace, "w");
	if (!f)
		return tcc_report(p, TCC_USAGE, "cannot write %s", p->args.trace);
	fprintf(f, "{\"traceEvents\": [");
	for (uint64_t i = 0; i < n; i++) {
		fprintf(f, "%s\n{\"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"ts\": %.3f, \"dur\": %.3f, "
		        "\"name\": ", i ? "," : "", (double)e[i].start_ns / 1e3, (double)e[i].ns / 1e3);
		tcc_json_text(f, tcc_string(p->model, k[e[i].kernel].name));
		fprintf(f, ", \"args\": {\"nodes\": ");
		tcc_json_text(f, tcc_string(p->model, k[e[i].kernel].nodes));
		fprintf(f, "}}");
	}
	fprintf(f, "\n]}\n");
	return fclose(f) ? tcc_report(p, TCC_USAGE, "cannot write %s", p->args.trace) : 0;
}

static int print_profile(const Program *p, long runs)
{
	uint32_t n = p->meta->kernels.count;
	Row *rows = calloc(n + 1, sizeof *rows);
	if (!rows)
		return tcc_report(p, TCC_BUDGET, "out of memory");
	for (uint32_t i = 0; i < n; i++)
		rows[i] = (Row){tcc_profile(p->ctx) + i,
		                (const TccKernel *)tcc_rows(p->model, p->meta->kernels) + i};
	qsort(rows, n, sizeof *rows, by_time);
	(p->json ? json_profile : text_profile)(p, rows, n, (double)runs);
	free(rows);
	return 0;
}

int tcc_time_model(Program *p)
{
	Timing t = {0};
	int rc = tcc_make_inputs(p);
	if (!rc)
		rc = measure(p, &t);
	if (!rc && p->args.profile)
		rc = print_profile(p, t.n);
	if (!rc && p->args.profile && p->args.trace)
		rc = write_trace(p);
	if (!rc && !p->args.profile)
		print_bench(p, &t);
	free(t.ms);
	return rc ? rc : tcc_write_files(p);
}
