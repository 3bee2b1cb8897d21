/*
 * --check-passes: after each pass the module is compiled and run, and its results are held to those
 * of the model as imported. What a pass left before loop level goes through its text into a module
 * of its own and from there only through the passes that cannot be left out, so that the first pass
 * whose results differ is the one to blame. The model's own results come from the evaluator where
 * it is small, else from the same way.
 */
#include <stdlib.h>
#include <string.h>
#include "cmd.h"

enum { EVALUATED = 4 << 20 };          /* bytes of constants up to which a model is evaluated */

struct Reference {
	Node **in;
	TccValue *out;
	char dir[512];         /* for texts */
};

/* ---- running ------------------------------------------------------------------------------- */

int
run_inputs(Compilation *c, Node *const *inputs, TccValue *out, TccErr *err)
{
	int nin = c->m->main->nparams, nout = c->m->main->nresults, i;
	TccOptions to = {.size = sizeof to, .threads = 1};
	const TccModel *model = model_in_memory(c);
	TccValue *in = calloc((size_t)nin + 1, sizeof *in),
		*made = calloc((size_t)nout + 1, sizeof *made);
	TccInst *inst = NULL;
	TccContext *ctx = NULL;
	int code = model && in && made ? 0 : X_BUG;

	for (i = 0; i < nin && !code; i++)
		code = value_of_node(inputs[i], &in[i], err);
	if (!code && (code = tcc_load(model, &to, &inst)))
		tcc_fail(err, code, "%s", tcc_inst_error(inst));
	if (!code && ((code = tcc_context_new(inst, &ctx))
	 || (code = tcc_run(ctx, in, (uint64_t)nin, made, (uint64_t)nout))))
		tcc_fail(err, code, "%s", tcc_error(ctx));
	for (i = 0; i < nout && !code; i++)
		code = tcc_value_copy(&out[i], &made[i], err);
	for (i = 0; in && i < nin; i++)
		tcc_value_free(&in[i]);
	tcc_context_free(ctx);
	tcc_unload(inst);
	free(in);
	free(made);
	jit_free(c->jit);
	c->jit = NULL;
	job_free(&c->job);
	return code;
}

/* The module's text, compiled by the passes that it needs and run. */
static int
run_text(Compilation *c, const char *path, TccValue *out, TccErr *err)
{
	Options o = *c->o;
	Compilation copy = {0};
	int code = X_BUG;

	o.shape.n = o.dim.n = o.freeze.n = 0;
	o.check_passes = o.time_passes = false;
	o.only = o.disabled = o.stop_after = o.dump_after = o.dump_dir = NULL;
	o.level = "0";
	if (print_module(c, path, NULL) && load_model(&copy, &o, path, c->m->machine->name)
	 && compile_module(&copy))
		code = run_inputs(&copy, c->reference->in, out, err);
	if (code && !err->code)
		tcc_fail(err, code, "%s", copy.diag.first);
	compilation_free(&copy);
	return code;
}

static int
run_module(Compilation *c, TccValue *out, TccErr *err)
{
	if (c->level == LEVEL_LOOP)
		return run_inputs(c, c->reference->in, out, err);
	return run_text(c, arena_printf(c->m->arena, "%s/module.ir", c->reference->dir), out, err);
}

/* ---- checking ------------------------------------------------------------------------------ */

static bool
is_small(const Module *m)
{
	Node **list;
	size_t size = 0;
	int i, n;

	list = topo(m->main->results, m->main->nresults, false, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_CONST)
			size += list[i]->data->size;
	free(list);
	return size <= EVALUATED;
}

static int
evaluate(Compilation *c, TccValue *out, TccErr *err)
{
	Node **nodes = NEWN(c->m, Node *, c->m->main->nresults + 1);
	int i, code;

	phase(c->o, "the evaluator");
	if (!module_eval(c->m, c->level, c->reference->in, nodes, false))
		return c->diag.code ? c->diag.code : X_BUG;
	for (i = 0; i < c->m->main->nresults; i++)
		if ((code = value_of_node(nodes[i], &out[i], err)))
			return code;
	return 0;
}

/* Made-up indices may be outside of what they index: 1 in every element of an integer input. */
static void
tame_integers(Compilation *c)
{
	Node **in = c->reference->in;
	int64_t dims[MAX_RANK], k;
	Data *d;
	int i;

	for (i = 0; i < c->m->main->nparams; i++) {
		if (!in[i] || in[i]->code != O_CONST || !dt_int(dtype_of(in[i]))
		 || !const_dims(in[i], dims))
			continue;
		d = data_new(c->m, dtype_of(in[i]), in[i]->data->count, NULL);
		for (k = 0; k < d->count; k++)
			data_set((void *)d->bytes, dtype_of(in[i]), k, (Num){.i = 1});
		in[i] = t_const(c->m, dtype_of(in[i]), rank_of(in[i]), dims, d);
	}
}

static int
model_results(Compilation *c, TccErr *err)
{
	return is_small(c->m) ? evaluate(c, c->reference->out, err)
		: run_module(c, c->reference->out, err);
}

bool
start_check(Compilation *c)
{
	Reference *r = c->reference = NEW(c->m, Reference);
	const char *tmp = getenv("TMPDIR");
	TccErr err = {0};
	int code;

	r->in = NEWN(c->m, Node *, c->m->main->nparams + 1);
	r->out = NEWN(c->m, TccValue, c->m->main->nresults + 1);
	if (c->level == LEVEL_LOOP) {
		diag_error(&c->diag, X_USAGE, NULL, "--check-passes: no pass follows loop level");
		return false;
	}
	snprintf(r->dir, sizeof r->dir, "%.400s/", tmp && *tmp ? tmp : "/tmp");
	if (!scratch_folder(c->o, r->dir, sizeof r->dir)) {
		diag_error(&c->diag, X_TOOL, NULL, "cannot make a folder in %s", r->dir);
		return false;
	}
	if (c->given)
		memcpy(r->in, c->given, sizeof *r->in * (size_t)c->m->main->nparams);
	else if (!make_inputs(c, r->in))
		return false;
	code = model_results(c, &err);
	if (code == X_DATA && !c->diag.errors) {
		tame_integers(c);
		err = (TccErr){0};
		code = model_results(c, &err);
	}
	if (code && !c->diag.errors)
		diag_error(&c->diag, code, NULL, "--check-passes: the model does not run: %s",
			err.text);
	return !code;
}

void
check_pass(Compilation *c, const char *pass)
{
	const Tolerance tol = {1e-3, 1e-5, -1};
	int n = c->m->main->nresults, i, code;
	TccValue *got = calloc((size_t)n + 1, sizeof *got);
	TccErr err = {0};
	char why[1000];

	code = got ? run_module(c, got, &err) : X_BUDGET;
	if (code)
		diag_error(&c->diag, X_BUG, NULL, "after pass '%s' the module does not run: %s",
			pass, err.text);
	for (i = 0; i < n && !code && !c->diag.errors; i++)
		if (!values_equal(&got[i], &c->reference->out[i], &tol, why, sizeof why))
			diag_error(&c->diag, X_BUG, NULL, "pass '%s' changes output '%s': %s", pass,
				output_name(c->m, i), why);
	for (i = 0; got && i < n; i++)
		tcc_value_free(&got[i]);
	free(got);
}

void
end_check(Compilation *c)
{
	int i;

	if (!c->reference)
		return;
	for (i = 0; i < c->m->main->nresults; i++)
		tcc_value_free(&c->reference->out[i]);
	remove_tree(c->reference->dir);
}
