/*
 * The program around a compiled model: reads inputs, runs, writes outputs, describes, times and
 * profiles the model. An executable's main is this, and so are tcc-ml's run and bench.
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "program.h"

/* --- options ----------------------------------------------------------------------------- */

enum Kind { FLAG, TEXT, NUMBER, SECONDS, PAIR_IN, PAIR_OUT, OPTIONAL_TEXT };

static const struct Option {
	char name[13], arg[10];         /* in the row: no relocations; no argument: empty */
	uint8_t kind;                   /* enum Kind */
	uint16_t field;
	char help[72];
} options[] = {
	{"--input", "NAME=FILE", PAIR_IN, 0,
	 "read an input; a .npz alone gives all that it names"},
	{"--output", "NAME=FILE", PAIR_OUT, 0, "write an output"},
	{"--output-dir", "DIR", TEXT, offsetof(Args, output_dir),
	 "write output_0.npy, output_1.npy ... there"},
	{"--threads", "N", NUMBER, offsetof(Args, threads),
	 "threads to use (default: the CPUs there are)"},
	{"--device", "D", TEXT, offsetof(Args, device), "cpu, cuda, cuda:1, hip, sim"},
	{"--weights", "FILE", TEXT, offsetof(Args, weights),
	 "the weights, where they are not in the program"},
	{"--info", "", FLAG, offsetof(Args, info), "describe the model"},
	{"--bench", "", FLAG, offsetof(Args, bench),
	 "time it, on made-up inputs where none are given"},
	{"--profile", "", FLAG, offsetof(Args, profile), "time its kernels"},
	{"--trace", "FILE", TEXT, offsetof(Args, trace),
	 "with --profile: the last run's launches, for chrome://tracing"},
	{"--warmup", "N", NUMBER, offsetof(Args, warmup),
	 "runs before the timed ones (default 5)"},
	{"--iters", "N", NUMBER, offsetof(Args, iters),
	 "timed runs (default: as many as the duration takes, 10 at least)"},
	{"--duration", "S", SECONDS, offsetof(Args, duration),
	 "seconds of timed runs (default 2)"},
	{"--json", "FILE", OPTIONAL_TEXT, offsetof(Args, json_file),
	 "results as JSON, to stdout or =FILE"},
	{"--help", "", FLAG, offsetof(Args, help), "this text"},
};

int tcc_report(const Program *p, int code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fprintf(stderr, "%s: error: ", p->name);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	return code;
}

static void help(const Program *p)
{
	printf("usage: %s [options]\nRuns the model '%s' (%s).\n\n", p->name,
	       tcc_string(p->model, p->meta->name), tcc_string(p->model, p->meta->target));
	for (size_t i = 0; i < TCC_COUNT(options); i++) {
		const struct Option *o = &options[i];
		char left[40];
		snprintf(left, sizeof left, o->kind == OPTIONAL_TEXT ? "%s[=%s]" : *o->arg ? "%s %s" : "%s",
		         o->name, o->arg);
		printf("  %-22s %s\n", left, o->help);
	}
	printf("\nFiles: .npy, .npz, .pb, .raw, .bin, .txt; to read also .pgm, .ppm.\n");
}

static const struct Option *find_option(const char *arg, const char **value)
{
	size_t n = strcspn(arg, "=");
	for (size_t i = 0; i < TCC_COUNT(options); i++)
		if (strlen(options[i].name) == n && !memcmp(options[i].name, arg, n)) {
			*value = arg[n] ? arg + n + 1 : NULL;
			return &options[i];
		}
	return NULL;
}

static void add_pair(Pair *list, int *n, const char *text)
{
	const char *eq = strchr(text, '=');
	list[(*n)++] = eq ? (Pair){text, eq - text, eq + 1} : (Pair){NULL, 0, text};
}

static int set_option(Program *p, const struct Option *o, const char *value)
{
	Args *a = &p->args;
	char *end = NULL;
	void *field = (char *)a + o->field;
	switch (o->kind) {
	case FLAG: *(bool *)field = true; return 0;
	case TEXT: *(const char **)field = value; return 0;
	case PAIR_IN: add_pair(a->inputs, &a->ninputs, value); return 0;
	case PAIR_OUT: add_pair(a->outputs, &a->noutputs, value); return 0;
	case OPTIONAL_TEXT: *(const char **)field = value; a->json = true; return 0;
	case NUMBER:
		*(long *)field = strtol(value, &end, 10);
		if (!*value || *end || *(long *)field < 0 || *(long *)field > INT_MAX)
			return tcc_report(p, TCC_USAGE, "%s: '%s' is not a number", o->name, value);
		return 0;
	case SECONDS:
		*(double *)field = strtod(value, &end);
		if (!*value || *end || !(*(double *)field > 0 && *(double *)field < 1e6))
			return tcc_report(p, TCC_USAGE, "%s: '%s' is not a time in seconds", o->name, value);
	}
	return 0;
}

static int parse_args(Program *p, int argc, char **argv)
{
	p->args = (Args){.warmup = 5, .duration = 2};
	p->args.inputs = calloc(argc + 1, sizeof(Pair));
	p->args.outputs = calloc(argc + 1, sizeof(Pair));
	if (!p->args.inputs || !p->args.outputs)
		return tcc_report(p, TCC_BUDGET, "out of memory");
	for (int i = 1; i < argc; i++) {
		const char *value;
		const struct Option *o = find_option(argv[i], &value);
		if (!o)
			return tcc_report(p, TCC_USAGE, "unknown option '%s'; --help lists all", argv[i]);
		if (o->kind == FLAG && value)
			return tcc_report(p, TCC_USAGE, "%s takes no value", o->name);
		if (o->kind != FLAG && o->kind != OPTIONAL_TEXT && !value) {
			if (++i == argc)
				return tcc_report(p, TCC_USAGE, "%s needs %s", o->name, o->arg);
			value = argv[i];
		}
		int rc = set_option(p, o, value);
		if (rc)
			return rc;
	}
	return 0;
}

static int open_json(Program *p)
{
	p->json = NULL;
	if (!p->args.json)
		return 0;
	p->json = p->args.json_file ? fopen(p->args.json_file, "w") : stdout;
	return p->json ? 0 : tcc_report(p, TCC_BAD_FILE, "%s: %s", p->args.json_file, strerror(errno));
}

/* A full disk shows when the file is closed. */
static int close_json(Program *p)
{
	if (!p->json || p->json == stdout)
		return 0;
	if (fclose(p->json))
		return tcc_report(p, TCC_BAD_FILE, "%s: %s", p->args.json_file, strerror(errno));
	return 0;
}

/* --- running ----------------------------------------------------------------------------- */

/* The weights file when none is given: the one that the model names, beside the program, or
 * PROGRAM.weights. */
static const char *weights_beside(Program *p, char *buf, size_t size)
{
	if (p->model->weights || !p->model->weights_size)
		return NULL;
	ssize_t n = readlink("/proc/self/exe", buf, size - 1);
	if (n < 0)
		n = 0;
	buf[n] = 0;
	char *slash = strrchr(buf, '/');
	const char *name = tcc_string(p->model, p->meta->weights_file);
	if (*name)
		n = slash ? slash + 1 - buf : 0;
	snprintf(buf + n, size - n, "%s", *name ? name : ".weights");
	return buf;
}

static int load(Program *p)
{
	char path[PATH_MAX];
	TccOptions o = {
		.size = sizeof o,
		.threads = (int32_t)p->args.threads,
		.device = p->args.device,
		.weights = p->args.weights ? p->args.weights : weights_beside(p, path, sizeof path),
		.profile = (p->args.profile ? TCC_PROFILE_KERNELS : 0) |
		           (p->args.trace ? TCC_PROFILE_EVENTS : 0) |
			(p->args.bench ? TCC_PROFILE_TRANSFERS : 0),
	};
	uint64_t start = tcc_now();
	int rc = tcc_load(p->whole, &o, &p->inst);
	if (rc)
		return tcc_report(p, rc, "%s", tcc_inst_error(p->inst));
	rc = tcc_context_new(p->inst, &p->ctx);
	p->load_ms = (double)(tcc_now() - start) / 1e6;
	return rc ? tcc_report(p, rc, "%s", tcc_error(p->ctx)) : 0;
}

int tcc_run_once(Program *p)
{
	int rc = tcc_run(p->ctx, p->inputs, p->meta->inputs.count, p->outputs, p->meta->outputs.count);
	return rc ? tcc_report(p, rc, "%s", tcc_error(p->ctx)) : 0;
}

/* A variant has its own tables. */
static void use_model(Program *p, const TccModel *m)
{
	p->model = m;
	p->meta = tcc_meta(m);
	p->in = tcc_rows(m, p->meta->inputs);
	p->out = tcc_rows(m, p->meta->outputs);
}

static int work(Program *p)
{
	if (p->args.info) {
		tcc_print_info(p);
		return 0;
	}
	int rc = load(p);
	if (rc)
		return rc;
	use_model(p, tcc_inst_model(p->inst));
	p->inputs = calloc(p->meta->inputs.count + 1, sizeof *p->inputs);
	p->outputs = calloc(p->meta->outputs.count + 1, sizeof *p->outputs);
	if (!p->inputs || !p->outputs)
		return tcc_report(p, TCC_BUDGET, "out of memory");
	if ((rc = tcc_read_inputs(p)))
		return rc;
	if (p->args.bench || p->args.profile)
		return tcc_time_model(p);
	rc = tcc_run_once(p);
	return rc ? rc : tcc_write_outputs(p);
}

static void clean_up(Program *p)
{
	if (p->hook && p->ctx)
		p->hook->done(p->hook->user, p->inst);
	for (uint32_t i = 0; p->inputs && i < p->meta->inputs.count; i++)
		tcc_value_free(&p->inputs[i]);
	tcc_context_free(p->ctx);
	tcc_unload(p->inst);
	free(p->inputs);
	free(p->outputs);
	free(p->args.inputs);
	free(p->args.outputs);
}

int tcc_program(const TccModel *model, const TccProgramHook *hook, int argc, char **argv)
{
	Program p = {.name = argc && argv[0] ? argv[0] : "model", .whole = model, .hook = hook};
	const char *slash = strrchr(p.name, '/');
	if (slash)
		p.name = slash + 1;
	int rc = tcc_model_check(model, &p.err);
	if (rc)
		return tcc_report(&p, rc, "%s", p.err.text);
	use_model(&p, model);
	rc = parse_args(&p, argc, argv);
	if (!rc && p.args.help)
		help(&p);
	else if (!rc && !(rc = open_json(&p))) {
		rc = work(&p);
		int rc2 = close_json(&p);
		rc = rc ? rc : rc2;
	}
	clean_up(&p);
	if (fflush(stdout) || ferror(stdout))
		rc = rc ? rc : tcc_report(&p, TCC_BAD_FILE, "stdout: %s", strerror(errno));
	return rc;
}
