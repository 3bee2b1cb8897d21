/*
 * run, bench, profile: the program around a model (runtime/program.c), in this process on a model
 * compiled in memory, or as what it already is.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cmd.h"
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

/* ---- artefacts -------------------------------------------------------------------------------------- */

static int
start_program(const char *path, Argv *a)
{
	char *name = strchr(path, '/') ? strdup(path) : malloc(strlen(path) + 3);

	if (!name)
		abort();
	if (!strchr(path, '/'))
		sprintf(name, "./%s", path);
	fflush(NULL);
	execv(name, a->at);
	return complain(errno == ENOEXEC || errno == ENOENT ? X_TOOL : X_INVALID, "cannot start %s: %s", path,
		errno == ENOEXEC || errno == ENOENT ? "it is for another machine: use an emulator" : strerror(errno));
}

static int
open_library(const char *path, const TccModel **model)
{
	char *name = strchr(path, '/') ? strdup(path) : malloc(strlen(path) + 3), symbol[512];
	void *lib;

	if (!name)
		abort();
	if (!strchr(path, '/'))
		sprintf(name, "./%s", path);
	if (!artefact_symbol(path, symbol, sizeof symbol))
		return complain(X_INVALID, "%s: neither a program nor a library made by tcc-ml", path);
	lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	*model = lib ? dlsym(lib, symbol) : NULL;
	return *model ? X_OK : complain(X_TOOL, "cannot load %s: %s", path, dlerror());
}

static int
run_artefact(const Options *o, const char *path, Argv *a)
{
	const TccModel *model;
	int code;

	if (!artefact_meta(path, NULL, NULL))
		return complain(X_INVALID, "%s: not made by tcc-ml", path);
	if (is_program(path))
		return start_program(path, a);
	code = open_library(path, &model);
	(void)o;
	return code ? code : tcc_program(model, NULL, a->n, a->at);
}

/* ---- models ------------------------------------------------------------------------------------------- */

/* What the simulator has counted, for a profile or with -v. */
static void
report_simulator(void *user, TccInst *inst)
{
	const Options *o = user;
	Sim *s = inst->dev ? tcc_device_simulator(inst->dev) : NULL;

	if (s)
		sim_report(s, strcmp(o->cmd->name, "profile") == 0 ? stdout : stderr);
}

static int
run_model(const Options *o, const char *path, Argv *a)
{
	TccProgramHook hook = {report_simulator, (void *)o};
	Compilation c = {.json = NULL};
	const TccModel *model;
	bool report = o->simulate && (o->verbose || strcmp(o->cmd->name, "profile") == 0);
	int code;

	if (o->target.n > 1)
		return complain(X_USAGE, "%s takes one --target", o->cmd->name);
	if (!load_model(&c, o, path, NULL) || !compile_module(&c) || !(model = model_in_memory(&c)))
		code = failure(&c);
	else
		code = tcc_program(model, report ? &hook : NULL, a->n, a->at);
	compilation_free(&c);
	return code;
}

static int
program(const Options *o, const char *mode)
{
	const char *path = o->files[0];
	Argv a = arguments(o, path, mode);
	int code = is_artefact(path) ? run_artefact(o, path, &a) : run_model(o, path, &a);

	while (a.n)
		free(a.at[--a.n]);
	free(a.at);
	return code;
}

int
cmd_run(const Options *o)
{
	return program(o, NULL);
}

int
cmd_bench(const Options *o)
{
	return program(o, "--bench");
}

int
cmd_profile(const Options *o)
{
	return program(o, "--profile");
}
