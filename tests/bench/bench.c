/*
 * Times a compiled model (a shared object) and onnxruntime on the same inputs, in turn, in one
 * process: several rounds of a block of runs of each; a round gives the ratio of its medians. Or one
 * side alone (`ours`, `ort`), for its load time, first run and peak memory.
 *
 * usage: bench both|ours|ort ORT-LIBRARY MODEL.onnx MODEL.so MODEL-SYMBOL API-SYMBOL INPUTS THREADS
 *        ROUNDS SECONDS
 * INPUTS is a file of lines `input NAME DTYPE FILE RANK DIM...` (DTYPE is ONNX's number, FILE raw
 * bytes) and `output NAME`. Writes one line of JSON.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/abi.h"
#include "ort.h"

enum { MAX_PORTS = 256, MAX_RANK = 16, MAX_RUNS = 1 << 20, MAX_ROUNDS = 256 };

typedef struct Times {
	double *ms;
	int n;
} Times;

typedef struct Side {
	const char *name;
	int (*run)(void *state);        /* 0, or it has printed why not */
	void *state;
	double load_ms, first_ms;
	Times times;
} Side;

static char *in_names[MAX_PORTS], *out_names[MAX_PORTS];
static TccValue in_values[MAX_PORTS];
static size_t in_bytes[MAX_PORTS];
static int nin, nout;

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "error: %s: %s\n", what, why);
	exit(1);
}

static void *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	void *data;

	if (!f)
		fail(path, "cannot open");
	fseek(f, 0, SEEK_END);
	*size = ftell(f);
	rewind(f);
	data = aligned_alloc(64, (*size + 64) & ~(size_t)63);
	if (fread(data, 1, *size, f) != *size)
		fail(path, "cannot read");
	fclose(f);
	return data;
}

static void read_input(char *line, char **rest)
{
	static const struct { uint8_t code, bits; } types[] = {
#define DL(number, id, name, bits, dl) [number] = { dl, bits },
		TCC_DTYPES(DL)
#undef DL
	};
	char *name = strtok_r(NULL, " \n", rest);
	int dtype = atoi(strtok_r(NULL, " \n", rest));
	char *path = strtok_r(NULL, " \n", rest);
	int rank = atoi(strtok_r(NULL, " \n", rest));
	TccValue *v = &in_values[nin];

	(void)line;
	v->kind = TCC_TENSOR;
	v->dtype = dtype;
	v->u.tensor = (TccTensor){ .device_type = TCC_DEV_CPU, .ndim = rank, .lanes = 1,
		.code = types[dtype].code, .bits = types[dtype].bits,
		.shape = calloc(MAX_RANK, sizeof(int64_t)) };
	v->u.tensor.data = read_file(path, &in_bytes[nin]);
	for (int i = 0; i < rank; i++)
		v->u.tensor.shape[i] = atoll(strtok_r(NULL, " \n", rest));
	in_names[nin++] = strdup(name);
}

static void read_ports(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[4096], *rest;

	if (!f)
		fail(path, "cannot open");
	while (fgets(line, sizeof line, f)) {
		const char *word = strtok_r(line, " \n", &rest);

		if (nin == MAX_PORTS || nout == MAX_PORTS)
			fail(path, "too many inputs or outputs");
		if (word && !strcmp(word, "input"))
			read_input(line, &rest);
		else if (word && !strcmp(word, "output"))
			out_names[nout++] = strdup(strtok_r(NULL, " \n", &rest));
	}
	fclose(f);
}

/* --- ours ---------------------------------------------------------------------------------- */

typedef struct Ours {
	const TccUserApi *api;
	TccInst *inst;
	TccContext *ctx;
	TccValue out[MAX_PORTS];
} Ours;

static int ours_run(void *state)
{
	Ours *o = state;

	memset(o->out, 0, nout * sizeof *o->out);
	if (!o->api->run(o->ctx, in_values, nin, o->out, nout))
		return 0;
	fprintf(stderr, "error: tcc-ml: %s\n", o->api->error(o->ctx));
	return -1;
}

static void ours_load(Ours *o, const char *so, const char *model, const char *api, int threads)
{
	TccOptions options = { .size = sizeof options, .threads = threads };
	void *lib = dlopen(so, RTLD_NOW | RTLD_LOCAL);
	const TccModel *m;

	if (!lib)
		fail(so, dlerror());
	m = dlsym(lib, model);
	o->api = dlsym(lib, api);
	if (!m || !o->api)
		fail(so, "symbols not found");
	if (o->api->load(m, &options, &o->inst))
		fail(so, o->api->inst_error(o->inst));
	if (o->api->context_new(o->inst, &o->ctx))
		fail(so, o->api->error(o->ctx));
}

/* --- theirs -------------------------------------------------------------------------------- */

typedef struct Theirs {
	Ort api;
	OrtEnv *env;
	OrtSession *session;
	OrtValue *in[MAX_PORTS], *out[MAX_PORTS];
} Theirs;

static int ort_failed(const Ort *api, OrtStatus *s)
{
	if (!s)
		return 0;
	fprintf(stderr, "error: onnxruntime: %s\n", api->GetErrorMessage(s));
	api->ReleaseStatus(s);
	return -1;
}

static int theirs_run(void *state)
{
	Theirs *t = state;

	for (int i = 0; i < nout; i++) {
		if (t->out[i])
			t->api.ReleaseValue(t->out[i]);
		t->out[i] = NULL;
	}
	return ort_failed(&t->api, t->api.Run(t->session, NULL, (const char *const *)in_names,
		(const OrtValue *const *)t->in, nin, (const char *const *)out_names, nout, t->out));
}

static void ort_open(Ort *api, const char *path)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const OrtApiBase *(*base)(void) = lib ? (const OrtApiBase *(*)(void))dlsym(lib, "OrtGetApiBase")
	                                      : NULL;
	const void *const *table;

	if (!base)
		fail(path, dlerror());
	table = base()->get_api(ORT_API_VERSION);
	if (!table)
		fail(path, "too old");
#define ORT_GET(number, name, result, parameters) api->name = (result (*) parameters)table[number];
	ORT_FUNCTIONS(ORT_GET)
#undef ORT_GET
}

static void theirs_load(Theirs *t, const char *lib, const char *model, int threads)
{
	OrtSessionOptions *options;
	OrtMemoryInfo *cpu;
	const Ort *a = &t->api;
	int bad;

	ort_open(&t->api, lib);
	bad = ort_failed(a, a->CreateEnv(ORT_WARNING + 1, "bench", &t->env)) ||
	      ort_failed(a, a->CreateSessionOptions(&options)) ||
	      ort_failed(a, a->SetSessionGraphOptimizationLevel(options, ORT_ENABLE_ALL)) ||
	      ort_failed(a, a->SetIntraOpNumThreads(options, threads)) ||
	      ort_failed(a, a->SetInterOpNumThreads(options, 1)) ||
	      ort_failed(a, a->CreateSession(t->env, model, options, &t->session)) ||
	      ort_failed(a, a->CreateCpuMemoryInfo(ORT_ARENA_ALLOCATOR, ORT_MEM_DEFAULT, &cpu));
	for (int i = 0; i < nin && !bad; i++) {
		const TccTensor *x = &in_values[i].u.tensor;

		bad = ort_failed(a, a->CreateTensorWithDataAsOrtValue(cpu, x->data, in_bytes[i],
			x->shape, x->ndim, in_values[i].dtype, &t->in[i]));
	}
	if (bad)
		exit(1);
}

/* Largest difference of the float32 outputs, relative to the output's largest magnitude. */
static double difference(const Ours *o, Theirs *t)
{
	double worst = 0;

	for (int k = 0; k < nout; k++) {
		const TccTensor *x = &o->out[k].u.tensor;
		double scale = 0, err = 0;
		const float *a, *b;
		int64_t n = 1;
		int tensor = 0;

		if (ort_failed(&t->api, t->api.IsTensor(t->out[k], &tensor)) || !tensor ||
		    o->out[k].kind != TCC_TENSOR || o->out[k].dtype != TCC_F32 ||
		    ort_failed(&t->api, t->api.GetTensorMutableData(t->out[k], (void **)&b)))
			continue;
		for (int i = 0; i < x->ndim; i++)
			n *= x->shape[i];
		a = (const float *)((const char *)x->data + x->byte_offset);
		for (int64_t i = 0; i < n; i++) {
			scale = fmax(scale, fabs(b[i]));
			err = fmax(err, fabs((double)a[i] - b[i]));
		}
		if (err > 0)
			worst = fmax(worst, err / scale);
	}
	return worst;
}

/* --- timing -------------------------------------------------------------------------------- */

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double quantile(double *ms, int n, double q)
{
	qsort(ms, n, sizeof *ms, compare_double);
	return ms[(int)(q * (n - 1) + 0.5)];
}

/* Runs for about `seconds`, at least once, and gives the median of the first `most`; the first run only warms
 * caches. */
static double block(Side *s, double seconds, int most)
{
	int from = s->times.n, n;
	double end, *ms = malloc(most * sizeof *ms), median;

	if (s->run(s->state))
		exit(1);
	end = now_ms() + seconds * 1e3;
	do {
		double start = now_ms();

		if (s->run(s->state))
			exit(1);
		if (s->times.n - from < most)
			s->times.ms[s->times.n++] = now_ms() - start;
	} while (now_ms() < end);
	n = s->times.n - from;
	memcpy(ms, s->times.ms + from, n * sizeof *ms);
	median = quantile(ms, n, 0.5);
	free(ms);
	return median;
}

static void rest_a_little(void)
{
	/* onnxruntime's idle threads spin for a while after a run */
	nanosleep(&(struct timespec){ .tv_nsec = 50 * 1000 * 1000 }, NULL);
}

static void report(Side *s)
{
	double *ms = s->times.ms;
	int n = s->times.n;

	printf("\"%s\": {\"load_ms\": %.3f, \"first_ms\": %.4f", s->name, s->load_ms, s->first_ms);
	if (n)
		printf(", \"min_ms\": %.5f, \"median_ms\": %.5f, \"p90_ms\": %.5f, \"runs\": %d",
		       quantile(ms, n, 0), quantile(ms, n, 0.5), quantile(ms, n, 0.9), n);
	printf("}");
}

static void first_run(Side *s)
{
	double start = now_ms();

	if (s->run(s->state))
		exit(1);
	s->first_ms = now_ms() - start;
	s->times.ms = malloc(MAX_RUNS * sizeof *s->times.ms);
}

typedef struct Args {
	const char *mode, *ort, *onnx, *so, *model, *api, *ports;
	int threads, rounds;
	double seconds;
} Args;

static void load(const Args *a, Side *s)
{
	double start = now_ms();

	if (s->run == ours_run)
		ours_load(s->state, a->so, a->model, a->api, a->threads);
	else
		theirs_load(s->state, a->ort, a->onnx, a->threads);
	s->load_ms = now_ms() - start;
}

/* The most memory that this program had; what the shell or Python that began it had does not count. */
static long peak_kb(void)
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
static void alone(const Args *a, Side *s)
{
	load(a, s);
	first_run(s);
	for (int i = 0; i < 3; i++)
		if (s->run(s->state))
			exit(1);
	printf("{");
	report(s);
	printf(", \"peak_kb\": %ld}\n", peak_kb());
}

/* In turn, the first one changing from round to round. */
static void compete(const Args *a, Side *ours, Side *theirs)
{
	double ratio[MAX_ROUNDS], ms[2], d;

	load(a, ours);
	load(a, theirs);
	first_run(ours);
	first_run(theirs);
	d = difference(ours->state, theirs->state);
	printf("{\"rounds\": [");
	for (int i = 0; i < a->rounds; i++) {
		for (int k = 0; k < 2; k++) {
			int side = (i + k) % 2;

			rest_a_little();
			ms[side] = block(side ? theirs : ours, a->seconds, MAX_RUNS / MAX_ROUNDS);
		}
		ratio[i] = ms[0] / ms[1];
		printf("%s%.4f", i ? ", " : "", ratio[i]);
	}
	printf("], ");
	report(ours);
	printf(", ");
	report(theirs);
	printf(", \"threads\": %d, \"difference\": %.3g, \"ratio\": %.4f, \"min_ratio\": %.4f}\n",
	       a->threads, d, quantile(ratio, a->rounds, 0.5),
	       quantile(ours->times.ms, ours->times.n, 0) / quantile(theirs->times.ms, theirs->times.n, 0));
}

int main(int argc, char **argv)
{
	static Ours o;
	static Theirs t;
	Side ours = { .name = "ours", .run = ours_run, .state = &o };
	Side theirs = { .name = "ort", .run = theirs_run, .state = &t };
	Args a;

	if (argc != 11) {
		fprintf(stderr, "usage: bench both|ours|ort ORT-LIBRARY MODEL.onnx MODEL.so MODEL-SYMBOL "
		        "API-SYMBOL INPUTS THREADS ROUNDS SECONDS\n");
		return 2;
	}
	a = (Args){ argv[1], argv[2], argv[3], argv[4], argv[5], argv[6], argv[7],
		atoi(argv[8]), atoi(argv[9]), atof(argv[10]) };
	if (a.rounds < 1 || a.rounds > MAX_ROUNDS)
		fail(argv[9], "rounds must be in [1, 256]");
	read_ports(a.ports);
	if (!strcmp(a.mode, "both"))
		compete(&a, &ours, &theirs);
	else
		alone(&a, !strcmp(a.mode, "ours") ? &ours : &theirs);
	return 0;
}
