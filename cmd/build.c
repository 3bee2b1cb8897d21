/* A model on its way from the file to code. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cmd.h"

static bool
use_color(const Options *o)
{
	if (o->color && strcmp(o->color, "always") == 0)
		return true;
	return !(o->color && strcmp(o->color, "never") == 0) && isatty(2);
}

bool
load_model(Compilation *c, const Options *o, const char *path, const char *target)
{
	ImportOptions io = {.nshape = o->shape.n, .shape = o->shape.at, .ndim = o->dim.n, .dim = o->dim.at};

	c->diag = (Diag){.file = path, .out = stderr, .color = use_color(o), .quiet = o->quiet, .verbose = o->verbose};
	c->m = module_new(&c->diag);
	c->m->strict = o->strict;
	c->m->machine = machine_of(c->m, target ? target : "native");
	if (!c->m->machine)
		return false;
	c->m->host = machine_gpu(c->m->machine) ? machine_of(c->m, o->host ? o->host : "native") : c->m->machine;
	if (!c->m->host)
		return false;
	c->onnx = onnx_load(c->m, path, &io);
	c->level = LEVEL_GRAPH;
	return c->onnx && !c->diag.errors;
}

static void
dump(Module *m, Level level, const char *pass, void *ctx)
{
	const Options *o = ctx;

	if (o->dump_after && (strcmp(o->dump_after, "all") == 0 || strcmp(o->dump_after, pass) == 0)) {
		printf("// after %s\n", pass);
		module_print(m, level, stdout);
	}
}

bool
compile_module(Compilation *c, const Options *o)
{
	PassOptions po = {.level = o->level ? atoi(o->level) : 2, .only = o->only, .disabled = o->disabled,
		.stop = o->stop_after, .time = o->time_passes ? stderr : NULL, .after = dump, .ctx = (void *)o};

	return run_passes(c->m, &c->level, &po);
}

const struct TccModel *
model_in_memory(Compilation *c, const Options *o)
{
	c->job = (Job){.m = c->m, .machine = c->m->machine, .host = c->m->host, .kind = EMIT_EXE, .prefix = "model",
		.level = o->level ? atoi(o->level) : 2, .jobs = 1, .simulate = o->simulate, .simulate_fast = o->simulate_fast};
	c->jit = jit_load(&c->job);
	return c->jit ? jit_model(c->jit) : NULL;
}

void
compilation_free(Compilation *c)
{
	if (c->jit)
		jit_free(c->jit);
	job_free(&c->job);
	if (c->onnx)
		onnx_close(c->onnx);
	module_free(c->m);
}
