/*
 * tune: measures the schedules that could be chosen and writes which are fastest (opt/tuning.c).
 *
 * The model is compiled a few times, each time with another candidate of every decision; all of
 * these run in turn, so that a busy machine disturbs them alike, and the least time of each
 * decision's kernels counts. What was chosen is compiled and measured against the estimate's
 * choices in the same way.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cmd.h"
#include "ir/machine.h"

enum { MAX_VARIANTS = 5, LEAST_RUNS = 5, MAX_INPUTS = 256, SECONDS = 60 };
#define GAIN 1.02                      /* by which a choice must be faster than the estimate's */

/* The model with one choice for each decision, ready to run. */
typedef struct Variant {
	Compilation c;
	TccInst *inst;
	TccContext *ctx;
	TccValue *out;
	uint64_t noutputs;
	double ns;             /* least of all kernels; 0: none yet */
	double *kernel_ns;     /* least of each kernel */
} Variant;

typedef struct Tune {
	const Options *o;
	Variant variants[MAX_VARIANTS];
	int n;
	TccValue in[MAX_INPUTS];
	int nin;
	int code;
} Tune;

/* ---- compiling ----------------------------------------------------------------------------- */

/* Candidate i of every decision that the first variant met; the last one where there are fewer. */
static void
choose_candidates(Module *m, const Tuning *met, int i)
{
	const Decision *d;
	int k;

	for (k = 0; k < met->decisions.n; k++) {
		d = met->decisions.at[k];
		if (d->n > 0)
			decision(m, d->key)->choice = d->candidates[i < d->n ? i : d->n - 1];
	}
}

/* met: NULL for the estimate's own choices. False after an error. */
static bool
compile_variant(Tune *t, Variant *v, const Tuning *met, int i)
{
	Compilation *c = &v->c;

	phase(t->o, "variant %d", i + 1);
	if (!load_model(c, t->o, t->o->files[0], NULL))
		return false;
	if (c->m->machine->kind != M_CPU) {
		diag_error(&c->diag, X_UNSUPPORTED, NULL, "what is tuned is measured here: %s is no CPU",
			c->m->machine->name);
		return false;
	}
	c->m->tuning = NEW(c->m, Tuning);
	c->m->tuning->records = !met;
	if (met)
		choose_candidates(c->m, met, i);
	return compile_module(c) && model_in_memory(c);
}

static bool
open_variant(Tune *t, Variant *v)
{
	TccOptions to = {.size = sizeof to, .threads = t->o->threads, .profile = TCC_PROFILE_KERNELS};
	const TccModel *model = jit_model(v->c.jit);
	uint64_t k;

	if (tcc_load(model, &to, &v->inst) || tcc_context_new(v->inst, &v->ctx)) {
		diag_error(&v->c.diag, X_TOOL, NULL, "%s",
			v->ctx ? tcc_error(v->ctx) : tcc_inst_error(v->inst));
		return false;
	}
	v->noutputs = tcc_meta(model)->outputs.count;
	v->out = NEWN(v->c.m, TccValue, v->noutputs + 1);
	v->kernel_ns = NEWN(v->c.m, double, v->c.m->kernels.n + 1);
	for (k = 0; k < (uint64_t)v->c.m->kernels.n; k++)
		v->kernel_ns[k] = -1;
	return true;
}

static bool
add_variant(Tune *t, const Tuning *met, int i)
{
	Variant *v = &t->variants[t->n++];
	bool ok = compile_variant(t, v, met, i) && open_variant(t, v);

	if (!ok)
		t->code = failure(&v->c);
	return ok;
}

static void
drop_variant(Variant *v)
{
	if (v->ctx)
		tcc_context_free(v->ctx);
	if (v->inst)
		tcc_unload(v->inst);
	compilation_free(&v->c);
	*v = (Variant){0};
}

/* The most candidates that a decision of a kernel has. */
static int
most_candidates(Module *m)
{
	const Kernel *k;
	int i, n, most = 0;

	for (i = 0; i < m->kernels.n; i++) {
		k = m->kernels.at[i];
		n = k->decision ? decision(m, k->decision)->n : 0;
		most = n > most ? n : most;
	}
	return most;
}

/* ---- inputs -------------------------------------------------------------------------------- */

static bool
given_input(Tune *t, const TccModel *model, int i, TccErr *err)
{
	const TccPort *ports = tcc_rows(model, tcc_meta(model)->inputs);
	const char *name = tcc_string(model, ports[i].name), *at;
	size_t n = strlen(name);
	int k;

	for (k = 0; k < t->o->input.n; k++) {
		at = t->o->input.at[k];
		if (strncmp(at, name, n) == 0 && at[n] == '=')
			return read_input(model, i, name, at + n + 1, &t->in[i], err) == 0;
	}
	err->code = X_USAGE;
	snprintf(err->text, sizeof err->text, "no --input %s=FILE: give all inputs or none", name);
	return false;
}

/* From files, or made up. */
static bool
open_inputs(Tune *t)
{
	Compilation c = {.json = NULL}, *first = &t->variants[0].c;
	const TccModel *model = jit_model(first->jit);
	Node *made[MAX_INPUTS];
	TccErr err = {0};
	bool ok;

	t->nin = (int)tcc_meta(model)->inputs.count;
	ok = t->nin <= MAX_INPUTS;
	if (!ok)
		tcc_fail(&err, X_UNSUPPORTED, "it has over %d inputs", MAX_INPUTS);
	if (ok && !t->o->input.n &&
			!(load_model(&c, t->o, t->o->files[0], NULL) && make_inputs(&c, made))) {
		t->code = failure(&c);
		compilation_free(&c);
		return false;
	}
	for (int i = 0; i < t->nin && ok; i++)
		ok = t->o->input.n ? given_input(t, model, i, &err)
			: value_of_node(made[i], &t->in[i], &err) == 0;
	compilation_free(&c);
	if (!ok)
		t->code = complain(err.code, "%s: %s", t->o->files[0], err.text);
	return ok;
}

/* ---- measuring ----------------------------------------------------------------------------- */

static bool
run_once(Tune *t, Variant *v)
{
	const TccProfile *p;
	double all = 0;
	int k;

	tcc_profile_reset(v->ctx);
	memset(v->out, 0, sizeof *v->out * v->noutputs);
	if (tcc_run(v->ctx, t->in, (uint64_t)t->nin, v->out, v->noutputs)) {
		diag_error(&v->c.diag, X_DATA, NULL, "%s", tcc_error(v->ctx));
		t->code = failure(&v->c);
		return false;
	}
	p = tcc_profile(v->ctx);
	for (k = 0; k < v->c.m->kernels.n; k++) {
		all += (double)p[k].ns;
		if (v->kernel_ns[k] < 0 || (double)p[k].ns < v->kernel_ns[k])
			v->kernel_ns[k] = (double)p[k].ns;
	}
	if (v->ns <= 0 || all < v->ns)
		v->ns = all;
	return true;
}

/* All of the variants from the first on in turn, for so many seconds. */
static bool
run_in_turn(Tune *t, int n, double seconds)
{
	double end = now() + seconds;
	int i, k;

	phase(t->o, "measuring");
	for (i = 0; i < LEAST_RUNS || now() < end; i++)
		for (k = 0; k < n; k++)
			if (!run_once(t, &t->variants[k]))
				return false;
	return true;
}

/* Of the decision's kernels. */
static double
decision_ns(const Variant *v, const char *key)
{
	const Kernel *k;
	double ns = 0;
	int i;

	for (i = 0; i < v->c.m->kernels.n; i++) {
		k = v->c.m->kernels.at[i];
		if (k->decision && strcmp(k->decision, key) == 0)
			ns += v->kernel_ns[i];
	}
	return ns;
}

/* ---- choosing ------------------------------------------------------------------------------ */

/* The index of the fastest candidate; the estimate's own unless another is clearly faster. */
static int
fastest(const Tune *t, const Decision *d, double *gain)
{
	double own = decision_ns(&t->variants[0], d->key), least = own / GAIN, ns;
	int i, best = 0;

	for (i = 1; i < t->n && i < d->n; i++) {
		ns = decision_ns(&t->variants[i], d->key);
		if (ns > 0 && ns < least) {
			least = ns;
			best = i;
		}
	}
	*gain = best ? own / least : 1;
	return best;
}

static void
write_decision(const Decision *d, int best, double gain, FILE *f)
{
	fprintf(f, "%s: %s", d->key, d->candidates[best]);
	if (best)
		fprintf(f, "   # %.2f times as fast as %s", gain, d->candidates[0]);
	fputc('\n', f);
}

/* Lines for all decisions of kernels, in the order of first use; how many are not the
 * estimate's. */
static int
choose(const Tune *t, FILE *f)
{
	Module *m = t->variants[0].c.m;
	double gain;
	Decision *d;
	int i, best, changed = 0;

	fprintf(f, "# measured by tcc-ml %s tune\nmachine %s\n", TCC_ML_VERSION, m->machine->name);
	for (i = 0; i < m->tuning->decisions.n; i++) {
		d = m->tuning->decisions.at[i];
		if (!d->n || decision_ns(&t->variants[0], d->key) <= 0)
			continue;
		best = fastest(t, d, &gain);
		changed += best > 0;
		write_decision(d, best, gain, f);
	}
	return changed;
}

/* The model with all choices beside the model without, both measured anew. */
static bool
confirm(Tune *t, const char *file, double seconds, double *gain)
{
	Variant *own = &t->variants[0], *v = &t->variants[1];
	Options tuned = *t->o;
	int i;

	while (t->n > 1)
		drop_variant(&t->variants[--t->n]);
	tuned.tuning = file;
	t->n = 2;
	if (!load_model(&v->c, &tuned, tuned.files[0], NULL) || !compile_module(&v->c)
	 || !model_in_memory(&v->c) || !open_variant(t, v)) {
		t->code = failure(&v->c);
		return false;
	}
	for (i = 0; i < 2; i++)
		t->variants[i].ns = 0;
	if (!run_in_turn(t, 2, seconds))
		return false;
	*gain = own->ns / v->ns;
	return true;
}

static void
report(const Tune *t, cJSON *json, const char *path, int changed, double gain)
{
	json_text(json, "file", path);
	json_real(json, "changed", changed);
	json_real(json, "speedup", gain);
	if (!t->o->quiet && (!t->o->json || *t->o->json))
		printf("%s: %d tiles differ from the estimate's; "
			"the kernels take %.3f of their time before\n", path,
			changed, 1 / gain);
}

static int
write_choices(Tune *t, const char *path, double seconds)
{
	FILE *f = fopen(path, "w");
	cJSON *json = json_new(t->o);
	double gain = 1;
	int changed;

	if (!f)
		return complain(X_TOOL, "cannot write %s: %s", path, strerror(errno));
	changed = choose(t, f);
	if (fclose(f))
		return complain(X_TOOL, "cannot write %s: %s", path, strerror(errno));
	if (!changed || confirm(t, path, seconds, &gain))
		report(t, json, path, changed, gain);
	return json_end(t->o, json, t->code);
}

/* ---- the command --------------------------------------------------------------------------- */

int
cmd_tune(const Options *o)
{
	Tune t = {.o = o};
	double budget = o->budget > 0 ? o->budget : SECONDS, end = now() + budget;
	char stem[256], path[4096];
	int i, n;

	stem_of(o->files[0], stem, sizeof stem);
	snprintf(path, sizeof path, o->out ? "%s" : "%s.tuning", o->out ? o->out : stem);
	if (add_variant(&t, NULL, 0) && open_inputs(&t)) {
		n = most_candidates(t.variants[0].c.m);
		/* a variant costs what the first did */
		for (i = 1; i < n && i < MAX_VARIANTS && !t.code && end - now() > budget / 2; i++)
			add_variant(&t, t.variants[0].c.m->tuning, i);
		if (!t.code && run_in_turn(&t, t.n, (end - now()) * 2 / 3))
			t.code = write_choices(&t, path, (end - now()) / 2);
	}
	for (i = 0; i < t.nin; i++)
		tcc_value_free(&t.in[i]);
	while (t.n > 0)
		drop_variant(&t.variants[--t.n]);
	return t.code;
}
