/*
 * Times a compiled model (a shared object) and other engines on the same inputs, in turn, in one
 * process: several rounds of a block of runs of each; a round gives, for each peer, its
 * median by ours. Or one engine alone, for its load time, first run and peak memory. Or the machine.
 *
 * usage: bench together|alone ENGINE,... KEY=VALUE...      bench machine THREADS
 * ENGINE: tcc (first), other, ort, openvino. Keys: onnx, so, model, api, other, ort, openvino, precision, ports,
 * threads, rounds, seconds. `ports` is a file of lines `input NAME DTYPE FILE RANK DIM...` (DTYPE is
 * ONNX's number, FILE raw bytes) and `output NAME`. Writes one line of JSON; an engine that cannot
 * load or run the model has an `error` in it and is left out.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "bench.h"

enum { MAX_RUNS = 1 << 20, MAX_ROUNDS = 256, NENGINES = 4 };

typedef struct Side {
	const Engine *engine;
	const char *error;     /* NULL: none */
	double load_ms, first_ms;
	double *ms;            /* of all timed runs */
	int n;
	double speedup[MAX_ROUNDS];    /* its time by ours */
} Side;

Ports ports;

double
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void
fail(const char *what, const char *why)
{
	fprintf(stderr, "error: %s: %s\n", what, why);
	exit(1);
}

/* ---- inputs -------------------------------------------------------------------------------- */

static void *
read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	void *data;

	if (!f)
		fail(path, "cannot open");
	fseek(f, 0, SEEK_END);
	*size = (size_t)ftell(f);
	rewind(f);
	data = aligned_alloc(64, (*size + 64) & ~(size_t)63);
	if (fread(data, 1, *size, f) != *size)
		fail(path, "cannot read");
	fclose(f);
	return data;
}

static void
read_input(char **rest)
{
	static const struct { uint8_t code, bits; } types[] = {
#define DL(number, id, name, bits, dl) [number] = { dl, bits },
		TCC_DTYPES(DL)
#undef DL
	};
	char *name = strtok_r(NULL, " \n", rest);
	int dtype = atoi(strtok_r(NULL, " \n", rest));
	char *path = strtok_r(NULL, " \n", rest);
	int i, rank = atoi(strtok_r(NULL, " \n", rest));
	TccValue *v = &ports.in[ports.nin];

	v->kind = TCC_TENSOR;
	v->dtype = (uint32_t)dtype;
	v->u.tensor = (TccTensor){.device_type = TCC_DEV_CPU, .ndim = rank, .lanes = 1,
		.code = types[dtype].code, .bits = types[dtype].bits,
		.shape = calloc(MAX_RANK, sizeof(int64_t))};
	v->u.tensor.data = read_file(path, &ports.in_bytes[ports.nin]);
	for (i = 0; i < rank; i++)
		v->u.tensor.shape[i] = atoll(strtok_r(NULL, " \n", rest));
	ports.in_names[ports.nin++] = strdup(name);
}

static void
read_ports(const char *path)
{
	FILE *f = path ? fopen(path, "r") : NULL;
	char line[4096], *rest;
	const char *word;

	if (!f)
		fail(path ? path : "ports", "cannot open");
	while (fgets(line, sizeof line, f)) {
		word = strtok_r(line, " \n", &rest);
		if (ports.nin == MAX_PORTS || ports.nout == MAX_PORTS)
			fail(path, "too many inputs or outputs");
		if (word && !strcmp(word, "input"))
			read_input(&rest);
		else if (word && !strcmp(word, "output"))
			ports.out_names[ports.nout++] = strdup(strtok_r(NULL, " \n", &rest));
	}
	fclose(f);
}

/* ---- running ------------------------------------------------------------------------------- */

static bool
run(Side *s)
{
	const char *why = s->error ? NULL : s->engine->run();

	if (why)
		s->error = strdup(why);
	return !s->error;
}

static void
start(const Args *a, Side *s)
{
	double from = now_ms();
	const char *why = s->engine->load(a);

	s->error = why ? strdup(why) : NULL;
	s->load_ms = now_ms() - from;
	from = now_ms();
	run(s);
	s->first_ms = now_ms() - from;
	s->ms = malloc(MAX_RUNS * sizeof *s->ms);
}

static int
compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts. */
static double
quantile(double *v, int n, double q)
{
	qsort(v, (size_t)n, sizeof *v, compare_double);
	return v[(int)(q * (n - 1) + 0.5)];
}

/* Runs for about `seconds`, at least once, and gives the median of the first `most`; the first run
 * only warms caches. */
static double
block(Side *s, double seconds, int most)
{
	int from = s->n, n;
	double begin, end, *ms = malloc((size_t)most * sizeof *ms), median;

	run(s);
	end = now_ms() + seconds * 1e3;
	do {
		begin = now_ms();
		if (!run(s))
			break;
		if (s->n - from < most)
			s->ms[s->n++] = now_ms() - begin;
	} while (now_ms() < end);
	n = s->n - from;
	memcpy(ms, s->ms + from, (size_t)n * sizeof *ms);
	median = n ? quantile(ms, n, 0.5) : NAN;
	free(ms);
	return median;
}

/* Engines' idle threads spin for a while after a run. */
static void
rest_a_little(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL);
}

/* Largest difference of our float32 outputs from an engine's, relative to the output's largest
 * magnitude. */
static double
difference(const Engine *e)
{
	double worst = 0, scale, err;
	const TccTensor *x;
	const float *a, *b;
	int64_t n, i;
	int k;

	for (k = 0; k < ports.nout; k++) {
		a = engine_tcc.output(k);
		b = a ? e->output(k) : NULL;
		x = &tcc_output(k)->u.tensor;
		scale = err = 0;
		for (n = 1, i = 0; b && i < x->ndim; i++)
			n *= x->shape[i];
		for (i = 0; b && i < n; i++) {
			scale = fmax(scale, fabs(b[i]));
			err = fmax(err, fabs((double)a[i] - b[i]));
		}
		if (err > 0)
			worst = fmax(worst, err / scale);
	}
	return worst;
}

/* ---- reports ------------------------------------------------------------------------------- */

static void
put_text(const char *s)
{
	putchar('"');
	for (; *s; s++)
		putchar(*s == '"' || *s == '\\' || (unsigned char)*s < ' ' ? ' ' : *s);
	putchar('"');
}

static void
report(Side *s)
{
	printf("\"%s\": {\"load_ms\": %.3f, \"first_ms\": %.4f", s->engine->name, s->load_ms,
		s->first_ms);
	if (s->n)
		printf(", \"min_ms\": %.5f, \"median_ms\": %.5f, \"p90_ms\": %.5f, \"runs\": %d",
			quantile(s->ms, s->n, 0), quantile(s->ms, s->n, 0.5), quantile(s->ms, s->n, 0.9), s->n);
	if (s->error) {
		printf(", \"error\": ");
		put_text(s->error);
	}
}

static void
report_speedups(const Side *ours, Side *s, int rounds, double differs)
{
	int i;

	printf(", \"difference\": %.3g, \"rounds\": [", differs);
	for (i = 0; i < rounds; i++)
		printf("%s%.4f", i ? ", " : "", s->speedup[i]);
	printf("], \"speedup\": %.4f, \"min_speedup\": %.4f", quantile(s->speedup, rounds, 0.5),
		quantile(s->ms, s->n, 0) / quantile(ours->ms, ours->n, 0));
}

/* The most memory that this program had; what the shell or Python that began it had does not
 * count. */
static long
peak_kb(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long kb = 0;

	if (!f)
		fail("/proc/self/status", "cannot open");
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "VmHWM: %ld", &kb) == 1)
			break;
	fclose(f);
	return kb;
}

/* A fresh process's load, first run and memory; a few more runs, as memory may grow. */
static void
alone(const Args *a, Side *s)
{
	int i;

	start(a, s);
	for (i = 0; i < 3; i++)
		run(s);
	putchar('{');
	report(s);
	printf(", \"peak_kb\": %ld}}\n", peak_kb());
}

/* In turn, the first one changing from round to round. */
static void
together(const Args *a, Side *sides, int n)
{
	double ms[NENGINES], differs[NENGINES] = {0};
	int i, k;
	Side *s;

	for (k = 0; k < n; k++)
		start(a, &sides[k]);
	if (sides[0].error)
		fail("tcc-ml", sides[0].error);
	for (k = 1; k < n; k++)
		differs[k] = sides[k].error ? 0 : difference(sides[k].engine);
	for (i = 0; i < a->rounds; i++) {
		for (k = 0; k < n; k++) {
			s = &sides[(i + k) % n];
			rest_a_little();
			ms[(i + k) % n] = s->error ? NAN : block(s, a->seconds, MAX_RUNS / MAX_ROUNDS);
		}
		for (k = 1; k < n; k++)
			sides[k].speedup[i] = ms[k] / ms[0];
	}
	printf("{\"threads\": %d", a->threads);
	for (k = 0; k < n; k++) {
		printf(", ");
		report(&sides[k]);
		if (k && !sides[k].error)
			report_speedups(&sides[0], &sides[k], a->rounds, differs[k]);
		putchar('}');
	}
	puts("}");
}

/* ---- the command line ---------------------------------------------------------------------- */

static void
read_key(Args *a, const char *arg)
{
	const struct { const char *name; const char **at; } texts[] = {
		{"onnx", &a->onnx}, {"so", &a->so}, {"model", &a->model}, {"api", &a->api}, {"other", &a->other},
		{"ort", &a->ort}, {"openvino", &a->openvino}, {"precision", &a->precision},
		{"ports", &a->ports}};
	size_t i, n = strcspn(arg, "=");
	const char *value = arg + n + (arg[n] != 0);

	if (strncmp(arg, "threads=", 8) == 0)
		a->threads = atoi(value);
	else if (strncmp(arg, "rounds=", 7) == 0)
		a->rounds = atoi(value);
	else if (strncmp(arg, "seconds=", 8) == 0)
		a->seconds = atof(value);
	for (i = 0; i < sizeof texts / sizeof *texts; i++)
		if (strlen(texts[i].name) == n && memcmp(texts[i].name, arg, n) == 0)
			*texts[i].at = value;
}

static int
find_engines(const char *list, Side *sides)
{
	static const Engine *const engines[NENGINES] = {&engine_tcc, &engine_other, &engine_ort,
		&engine_openvino};
	size_t len;
	int i, n = 0;

	for (; *list; list += len, list += *list == ',') {
		len = strcspn(list, ",");
		for (i = 0; i < NENGINES; i++)
			if (strlen(engines[i]->name) == len && memcmp(engines[i]->name, list, len) == 0)
				break;
		if (i == NENGINES || n == NENGINES)
			fail(list, "no such engine");
		sides[n++].engine = engines[i];
	}
	return n;
}

int
main(int argc, char **argv)
{
	static Side sides[NENGINES];
	Args a = {.threads = 1, .rounds = 5, .seconds = 0.4, .precision = "f32"};
	int i, n;

	if (argc == 3 && strcmp(argv[1], "machine") == 0 && atoi(argv[2]) > 0) {
		measure_machine(atoi(argv[2]));
		return 0;
	}
	if (argc < 4) {
		fprintf(stderr, "usage: bench together|alone ENGINE,... KEY=VALUE...\n"
			"       bench machine THREADS\n");
		return 2;
	}
	for (i = 3; i < argc; i++)
		read_key(&a, argv[i]);
	if (a.rounds < 1 || a.rounds > MAX_ROUNDS)
		fail("rounds", "must be in [1, 256]");
	read_ports(a.ports);
	n = find_engines(argv[2], sides);
	if (strcmp(argv[1], "together") == 0)
		together(&a, sides, n);
	else
		alone(&a, sides);
	return 0;
}
