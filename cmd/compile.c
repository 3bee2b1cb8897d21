/* compile: a model to an artefact. */
#include <stdlib.h>
#include <string.h>
#include "cmd.h"

static int
kind_of(const char *s)
{
	int i;

	for (i = 0; i < EMIT_NKINDS; i++)
		if (strcmp(emit_names[i], s) == 0)
			return i;
	return -1;
}

int
cmd_compile(const Options *o)
{
	Compilation c = {0};
	const char *emit = o->emit.n ? o->emit.at[0] : "exe";
	int kind = kind_of(emit), code = 0;
	static const char *const levels[] = {"graph", "tensor", "loop"};
	Options po = *o;

	if (o->nfiles != 1) {
		fputs("error: compile takes one model\n", stderr);
		return X_USAGE;
	}
	if (strcmp(emit, "ir") == 0) {
		const char *stage = o->stage ? o->stage : "loop";
		if (strcmp(stage, "tensor") == 0 && !o->stop_after)
			po.stop_after = "inline";
		if (!load_model(&c, o, o->files[0], o->target.n ? o->target.at[0] : NULL)
		 || (strcmp(stage, "graph") && !compile_module(&c, &po)))
			code = c.diag.code ? c.diag.code : X_BUG;
		else {
			FILE *f = o->out ? fopen(o->out, "w") : stdout;
			(void)levels;
			module_print(c.m, c.level, f);
			if (f != stdout)
				fclose(f);
		}
		compilation_free(&c);
		return code;
	}
	if (kind < 0) {
		fprintf(stderr, "error: --emit %s: unknown kind\n", emit);
		return X_USAGE;
	}
	if (!load_model(&c, o, o->files[0], o->target.n ? o->target.at[0] : NULL) || !compile_module(&c, o))
		code = c.diag.code ? c.diag.code : X_BUG;
	if (!code) {
		c.job = (Job){.m = c.m, .machine = c.m->machine, .host = c.m->host, .kind = (EmitKind)kind, .prefix = o->prefix ? o->prefix : "model",
			.level = o->level ? atoi(o->level) : 2, .jobs = o->jobs ? o->jobs : 1, .use_static = o->use_static,
			.weights_file = o->weights && strcmp(o->weights, "file") == 0, .simulate = o->simulate};
		code = codegen_emit(&c.job);
		if (!code)
			code = codegen_link(&c.job, 1, o->out ? o->out : "model");
	}
	compilation_free(&c);
	return code;
}
