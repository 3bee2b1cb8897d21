/* run: compile in memory and run on given inputs. */
#include <stdlib.h>
#include <string.h>
#include "cmd.h"

static const char *
find_file(const List *l, const char *name)
{
	size_t n = strlen(name);
	int i;

	for (i = 0; i < l->n; i++)
		if (strncmp(l->at[i], name, n) == 0 && l->at[i][n] == '=')
			return l->at[i] + n + 1;
	return NULL;
}

static int
complain(const char *what, int code)
{
	fprintf(stderr, "error: %s\n", what);
	return code;
}

static int
run_model(const TccModel *model, Module *m, const Options *o)
{
	int nin = m->main->nparams, nout = m->main->nresults, i, code;
	TccValue *in = calloc((size_t)nin + 1, sizeof *in), *out = calloc((size_t)nout + 1, sizeof *out);
	TccOptions to = {.size = sizeof to, .threads = o->threads};
	TccInst *inst = NULL;
	TccContext *ctx = NULL;
	TccErr err = {0};
	char path[4096];
	const char *f;

	if ((code = tcc_load(model, &to, &inst)))
		return complain(tcc_inst_error(inst), code);
	if ((code = tcc_context_new(inst, &ctx)))
		return complain(tcc_error(ctx), code);
	for (i = 0; i < nin && !code; i++) {
		f = find_file(&o->input, m->in_names[i]);
		if (!f) {
			fprintf(stderr, "error: no --input for '%s'\n", m->in_names[i]);
			code = X_USAGE;
		} else if ((code = read_input(model, i, m->in_names[i], f, &in[i], &err)))
			complain(err.text, code);
	}
	if (!code && (code = tcc_run(ctx, in, (uint64_t)nin, out, (uint64_t)nout)))
		complain(tcc_error(ctx), code);
	for (i = 0; i < nout && !code; i++) {
		f = find_file(&o->output, m->out_names[i]);
		snprintf(path, sizeof path, "%s/output_%d.npy", o->output_dir ? o->output_dir : ".", i);
		if (f || o->output_dir)
			if ((code = tcc_write_value(f ? f : path, m->out_names[i], &out[i], &err)))
				complain(err.text, code);
	}
	for (i = 0; i < nin; i++)
		tcc_value_free(&in[i]);
	tcc_context_free(ctx);
	tcc_unload(inst);
	free(in);
	free(out);
	return code;
}

int
cmd_run(const Options *o)
{
	Compilation c = {0};
	const TccModel *model;
	int code = 0;

	if (o->nfiles != 1)
		return complain("run takes one model", X_USAGE);
	if (!load_model(&c, o, o->files[0], o->target.n ? o->target.at[0] : NULL) || !compile_module(&c, o)
	 || !(model = model_in_memory(&c, o)))
		code = c.diag.code ? c.diag.code : X_BUG;
	else
		code = run_model(model, c.m, o);
	compilation_free(&c);
	return code;
}
