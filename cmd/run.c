/*
 * run, bench, profile: the program around a model (runtime/program.c), in this process on a model
 * compiled in memory, or as what it already is.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cmd.h"
#include "ir/machine.h"
#include "runtime/device/sim.h"

/* The program's own command line. */
typedef struct Argv { int n; char **at; } Argv;

static void
add(Argv *a, const char *opt, const char *value)
{
	a->at = realloc(a->at, sizeof *a->at * ((size_t)a->n + 3));
	if (!a->at)
		abort();
	a->at[a->n++] = strdup(opt);
	if (value)
		a->at[a->n++] = strdup(value);
	a->at[a->n] = NULL;
}

static void
add_number(Argv *a, const char *opt, double v)
{
	char text[32];

	snprintf(text, sizeof text, "%.15g", v);
	add(a, opt, text);
}

static Argv
arguments(const Options *o, const char *name, const char *mode)
{
	Argv a = {0};
	int i;

	add(&a, name, NULL);
	if (mode)
		add(&a, mode, NULL);
	for (i = 0; i < o->input.n; i++)
		add(&a, "--input", o->input.at[i]);
	for (i = 0; i < o->output.n; i++)
		add(&a, "--output", o->output.at[i]);
	if (o->output_dir)
		add(&a, "--output-dir", o->output_dir);
	if (o->threads)
		add_number(&a, "--threads", o->threads);
	if (o->device)
		add(&a, "--device", o->device);
	if (o->trace)
		add(&a, "--trace", o->trace);
	if (o->warmup >= 0)
		add_number(&a, "--warmup", o->warmup);
	if (o->iters)
		add_number(&a, "--iters", o->iters);
	if (o->duration > 0)
		add_number(&a, "--duration", o->duration);
	if (o->json && *o->json) {
		char text[PATH_MAX];
		snprintf(text, sizeof text, "--json=%s", o->json);
		add(&a, text, NULL);
	} else if (o->json) {
		add(&a, "--json", NULL);
	}
	return a;
}

static void
arguments_free(Argv *a)
{
	while (a->n)
		free(a->at[--a->n]);
	free(a->at);
}

/* ---- artefacts ----------------------------------------------------------------------------- */

/* The path with a folder, so that nothing searches for it; the caller frees it. */
static char *
in_folder(const char *path)
{
	char *name = malloc(strlen(path) + 3);

	if (!name)
		abort();
	sprintf(name, "%s%s", strchr(path, '/') ? "" : "./", path);
	return name;
}

static int
start_program(const char *path, Argv *a)
{
	fflush(NULL);
	execv(path, a->at);
	if (errno == ENOEXEC || errno == ENOENT)     /* or its interpreter is missing */
		return complain(X_TOOL, "cannot start %s: it is for another machine: use an emulator",
			path);
	return complain(X_INVALID, "cannot start %s: %s", path, strerror(errno));
}

static int
open_library(const char *path, const TccModel **model)
{
	char symbol[512];
	void *lib;

	if (!artefact_symbol(path, symbol, sizeof symbol))
		return complain(X_INVALID, "%s: neither a program nor a library made by tcc-ml", path);
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	*model = lib ? dlsym(lib, symbol) : NULL;
	return *model ? X_OK : complain(X_TOOL, "cannot load %s: %s", path, dlerror());
}

static int
run_artefact(const Options *o, const char *file, const char *mode)
{
	Argv a = arguments(o, file, mode);
	char *path = in_folder(file);
	const TccModel *model;
	int code;

	if (!artefact_meta(path, NULL, NULL))
		code = complain(X_INVALID, "%s: not made by tcc-ml", path);
	else if (is_program(path))
		code = start_program(path, &a);
	else if ((code = open_library(path, &model)) == X_OK)
		code = tcc_program(model, NULL, a.n, a.at);
	free(path);
	arguments_free(&a);
	return code;
}

/* ---- the simulator's counters -------------------------------------------------------------- */

static double
ratio(uint64_t actual, uint64_t ideal)
{
	return ideal ? (double)actual / (double)ideal : 1;
}

static void
put_counters(const SimCounters *k, cJSON *j)
{
	cJSON_DeleteItemFromObject(j, "time_us");    /* of the simulation */
	json_real(j, "sector_ratio", ratio(k->ld_sectors + k->st_sectors, k->ld_ideal + k->st_ideal));
	json_real(j, "wavefront_ratio", ratio(k->shared_wavefronts, k->shared_ideal));
	json_real(j, "read_bytes", (double)k->ld_bytes / (double)k->launches);
	json_real(j, "read_unique_bytes", (double)k->ld_unique / (double)k->launches);
	json_real(j, "written_bytes", (double)k->st_bytes / (double)k->launches);
	json_real(j, "written_unique_bytes", (double)k->st_unique / (double)k->launches);
	json_real(j, "mma", (double)k->mma);
	json_real(j, "shared_bytes", (double)k->shared_bytes);
}

static void
put_kernel(const SimCounters *k, const char *name, cJSON *list)
{
	cJSON *j;

	cJSON_ArrayForEach(j, list)
		if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(j, "name")), name) == 0)
			put_counters(k, j);
}

/* A run whose simulator is to be reported. */
typedef struct Report { const Options *o; char json[512]; } Report;

/* The program's profile with the counters of its kernels; theirs are named by symbol or name. */
static void
merge(const Report *r, Sim *s, const TccModel *m)
{
	const TccKernel *k = tcc_rows(m, tcc_meta(m)->kernels);
	TccBuf b = {0};
	const SimCounters *c;
	cJSON *doc, *list;
	int n = sim_counters(s, &c), i;
	uint32_t x;

	if (tcc_read_file(r->json, &b, NULL))
		return;
	doc = cJSON_ParseWithLength((char *)b.p, b.n);
	list = cJSON_GetObjectItem(doc, "kernels");
	for (i = 0; i < n; i++)
		for (x = 0; x < tcc_meta(m)->kernels.count; x++)
			if (strcmp(c[i].kernel, tcc_string(m, k[x].symbol)) == 0
			 || strcmp(c[i].kernel, tcc_string(m, k[x].name)) == 0)
				put_kernel(&c[i], tcc_string(m, k[x].name), list);
	json_end(r->o, doc, X_OK);
	tcc_buf_free(&b);
}

/* What a CPU does at most in a microsecond, on so many threads. */
static void
peaks(TccProgramHook *h, const Machine *t, int threads)
{
	if (t->kind != M_CPU)
		return;
	threads = threads > 0 ? threads : (int)sysconf(_SC_NPROCESSORS_ONLN);
	h->flops_us = threads * 2e3 * t->ghz * (t->fma_ports ? t->fma_ports : 1)
		* machine_lanes(t, DT_F32);
	h->bytes_us = threads * t->gbs * 1e3;
}

static void
report_simulator(void *user, TccInst *inst)
{
	const Report *r = user;
	Sim *s = inst->dev ? tcc_device_simulator(inst->dev) : NULL;

	if (s && *r->json)
		merge(r, s, inst->model);
	else if (s)
		sim_report(s, strcmp(r->o->cmd->name, "profile") == 0 ? stdout : stderr);
}

/* ---- models -------------------------------------------------------------------------------- */

static int
run_model(const Options *o, const char *path, const char *mode)
{
	bool profile = strcmp(o->cmd->name, "profile") == 0;
	bool report = o->simulate && (o->verbose || profile);
	Report r = {.o = o};
	TccProgramHook hook = {.done = report_simulator, .user = &r};
	Compilation c = {.json = NULL};
	Options mine = *o;
	const TccModel *model;
	Argv a;
	int code;

	if (o->target.n > 1)
		return complain(X_USAGE, "%s takes one --target", o->cmd->name);
	if (report && profile && o->json) {
		snprintf(r.json, sizeof r.json, "%.400s/profile.json", getenv("TMPDIR"));
		mine.json = r.json;
	}
	a = arguments(&mine, path, mode);
	if (!load_model(&c, o, path, NULL))
		code = failure(&c);
	else if (profile && machine_gpu(c.m->machine) && !o->simulate && !has_driver(c.m->machine))
		code = predict_model(&c);
	else if (!compile_module(&c) || !(model = model_in_memory(&c)))
		code = failure(&c);
	else {
		peaks(&hook, c.m->machine, o->threads);
		code = tcc_program(model, report || profile ? &hook : NULL, a.n, a.at);
	}
	compilation_free(&c);
	arguments_free(&a);
	return code;
}

static int
program(const Options *o, const char *mode)
{
	return is_artefact(o->files[0]) ? run_artefact(o, o->files[0], mode)
		: run_model(o, o->files[0], mode);
}

int
cmd_run(const Options *o)
{
	return program(o, NULL);
}

/* ---- a baseline ---------------------------------------------------------------------------- */

/* The median latency in a file that bench --json has written; not above 0 after a message. */
static double
median_of(const char *path)
{
	TccBuf b = {0};
	TccErr err = {0};
	cJSON *doc;
	double ms = 0;

	if (tcc_read_file(path, &b, &err)) {
		complain(X_INVALID, "%s: %s", path, err.text);
		return 0;
	}
	doc = cJSON_ParseWithLength((char *)b.p, b.n);
	ms = cJSON_GetNumberValue(cJSON_GetObjectItem(doc, "median_ms"));
	cJSON_Delete(doc);
	tcc_buf_free(&b);
	if (!(ms > 0))
		complain(X_INVALID, "%s: no median_ms above 0, as bench --json writes it", path);
	return ms;
}

static int
compare_medians(const Options *o, double ms, double base)
{
	double change = 100 * (ms / base - 1), most = o->max_regress >= 0 ? o->max_regress : 10;

	if (!o->quiet)
		fprintf(stderr, "median %.6g ms, baseline %.6g ms: %+.1f %%\n", ms, base, change);
	return change > most
		? complain(X_DIFFER, "%.1f %% slower than %s; %g %% are allowed", change, o->baseline, most)
		: X_OK;
}

/* The program in a process of its own, since it may replace this one; then its median is
 * compared. */
static int
against_baseline(const Options *o)
{
	Options mine = *o;
	char path[512];
	double ms, base = median_of(o->baseline);
	int status;
	pid_t pid;

	if (!(base > 0))
		return X_INVALID;
	snprintf(path, sizeof path, "%.400s/bench.json", getenv("TMPDIR"));
	if (!o->json || !*o->json)
		mine.json = path;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		status = program(&mine, "--bench");
		fflush(NULL);
		_exit(status);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return complain(X_TOOL, "cannot start a process: %s", strerror(errno));
	if (!WIFEXITED(status))
		return complain(X_BUG, "the measured program ended by signal %d", WTERMSIG(status));
	if (WEXITSTATUS(status))
		return WEXITSTATUS(status);
	ms = median_of(mine.json);
	return ms > 0 ? compare_medians(o, ms, base) : X_INVALID;
}

int
cmd_bench(const Options *o)
{
	return o->baseline ? against_baseline(o) : program(o, "--bench");
}

int
cmd_profile(const Options *o)
{
	return program(o, "--profile");
}
