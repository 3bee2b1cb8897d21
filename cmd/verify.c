/*
 * verify: runs cases and compares. A case is a folder in the form of the ONNX backend tests, or a
 * model with --data, or a model alone. The evaluator gives the results of a model alone and of a
 * folder whose test_data_set_0 has no outputs. Each case runs in a process of its own: one that
 * crashes or hangs fails alone.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cmd.h"

enum { MAX_JOBS = 64 };

/* What a case's process tells its parent, in shared memory. */
typedef struct Verdict { char word[16]; char why[1200]; int code; double ms; } Verdict;

static bool say(Verdict *v, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

enum { SKIP = -1 };

/* The code tells the word. True if it is a pass. */
static bool
say(Verdict *v, int code, const char *fmt, ...)
{
	va_list ap;
	char *p;

	v->code = code == SKIP ? X_OK : code;
	snprintf(v->word, sizeof v->word, "%s", code == SKIP ? "SKIP" : code == X_OK ? "PASS"
		: code == X_DIFFER ? "FAIL" : code == X_UNSUPPORTED ? "UNSUPPORTED" : "ERROR");
	va_start(ap, fmt);
	vsnprintf(v->why, sizeof v->why, fmt, ap);
	va_end(ap);
	for (p = v->why; *p; p++)                    /* a line a case */
		if (*p == '\n')
			*p = ' ';
	return code == X_OK;
}

/* ---- a case -------------------------------------------------------------------------------- */

typedef struct Case {
	const Options *o;
	Compilation c;
	const TccModel *model;
	TccInst *inst;
	TccContext *ctx;
	Tolerance tol;
	Verdict *v;
	int nin, nout;
	TccValue *in, *out, *want;
	bool *wanted;          /* per output: there is an expected value */
	Node **eval_in, **eval_out;
} Case;

static bool
exists(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0;
}

static bool
is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The options', else the folder's data.json, else the defaults. */
static void
tolerances(Case *k, const char *dir)
{
	const Options *o = k->o;
	char path[4096];
	TccBuf b = {0};
	cJSON *j, *x;

	k->tol = (Tolerance){DEFAULT_RTOL, 1e-7, o->max_ulp};
	snprintf(path, sizeof path, "%s/data.json", dir);
	if (is_folder(dir) && tcc_read_file(path, &b, NULL) == 0) {
		j = cJSON_ParseWithLength((char *)b.p, b.n);
		if ((x = cJSON_GetObjectItem(j, "rtol")) && cJSON_IsNumber(x))
			k->tol.rtol = x->valuedouble;
		if ((x = cJSON_GetObjectItem(j, "atol")) && cJSON_IsNumber(x))
			k->tol.atol = x->valuedouble;
		cJSON_Delete(j);
	}
	tcc_buf_free(&b);
	if (o->rtol >= 0)
		k->tol.rtol = o->rtol;
	if (o->atol >= 0)
		k->tol.atol = o->atol;
}

static const char *
in_name(const Case *k, int i)
{
	const TccPort *p = tcc_rows(k->model, tcc_meta(k->model)->inputs);

	return tcc_string(k->model, p[i].name);
}

static const char *
out_name(const Case *k, int i)
{
	const TccPort *p = tcc_rows(k->model, tcc_meta(k->model)->outputs);

	return tcc_string(k->model, p[i].name);
}

static void
clear_values(Case *k)
{
	int i;

	for (i = 0; i < k->nin; i++)
		tcc_value_free(&k->in[i]);
	for (i = 0; i < k->nout; i++)
		tcc_value_free(&k->want[i]);
	memset(k->wanted, 0, sizeof *k->wanted * (size_t)k->nout);
}

/* Runs on k->in and compares with what is wanted. */
static bool
run_case(Case *k)
{
	char why[1000];
	int i, n = 0, code;
	bool any = false;

	for (i = 0; i < k->nout; i++)
		any |= k->wanted[i];
	code = tcc_run(k->ctx, k->in, (uint64_t)k->nin, k->out, (uint64_t)k->nout);
	if (code)
		return say(k->v, code == TCC_BAD_DATA && any ? X_DIFFER : code, "%s", tcc_error(k->ctx));
	for (i = 0; i < k->nout; i++) {
		if (!k->wanted[i])
			continue;
		n++;
		if (!values_equal(&k->out[i], &k->want[i], &k->tol, why, sizeof why))
			return say(k->v, X_DIFFER, "output '%s': %s", out_name(k, i), why);
	}
	return n || k->nout == 0 ? say(k->v, X_OK, "%s", "") : say(k->v, SKIP, "no expected outputs");
}

/* ---- data in a folder ---------------------------------------------------------------------- */

static bool
read_set(Case *k, const char *set)
{
	char path[4096];
	TccErr err = {0};
	int i;

	for (i = 0; i < k->nin; i++)
		if (find_data_file(path, sizeof path, set, "input", i)
		 && read_input(k->model, i, in_name(k, i), path, &k->in[i], &err))
			return say(k->v, err.code, "input '%s': %s", in_name(k, i), err.text);
	for (i = 0; i < k->nout; i++) {
		k->wanted[i] = find_data_file(path, sizeof path, set, "output", i);
		if (k->wanted[i] && read_output(k->model, i, out_name(k, i), path, &k->want[i], &err))
			return say(k->v, err.code, "expected output '%s': %s", out_name(k, i), err.text);
	}
	return true;
}

static bool
run_set(Case *k, const char *set)
{
	bool ok = read_set(k, set) && run_case(k);

	clear_values(k);
	return ok;
}

/* The folder's test_data_set_N, or itself if it has the files. */
static bool
run_sets(Case *k, const char *dir)
{
	char path[4096];
	int i;

	for (i = 0;; i++) {
		snprintf(path, sizeof path, "%s/test_data_set_%d", dir, i);
		if (!exists(path))
			break;
		if (!run_set(k, path))
			return false;
	}
	if (i > 0)
		return true;
	if (find_data_file(path, sizeof path, dir, "output", 0)
	 || find_data_file(path, sizeof path, dir, "input", 0))
		return run_set(k, dir);
	return say(k->v, SKIP, "%s has no test_data_set_0", dir);
}

/* ---- data in an archive -------------------------------------------------------------------- */

/* A member by the value's name, or by its number: input_0, in_0. */
static bool
find_member(const TccZip *z, char *name, size_t size, const char *own, const char *kind,
	const char *brief, int i)
{
	snprintf(name, size, "%s", own);
	if (tcc_zip_find(z, name) >= 0)
		return true;
	snprintf(name, size, "%s_%d", kind, i);
	if (tcc_zip_find(z, name) >= 0)
		return true;
	snprintf(name, size, "%s_%d", brief, i);
	return tcc_zip_find(z, name) >= 0;
}

static bool
read_archive(Case *k, const TccZip *z, const char *file)
{
	char name[512];
	TccErr err = {0};
	int i;

	for (i = 0; i < k->nin; i++)
		if (find_member(z, name, sizeof name, in_name(k, i), "input", "in", i)
		 && read_input(k->model, i, name, file, &k->in[i], &err))
			return say(k->v, err.code, "input '%s': %s", in_name(k, i), err.text);
	for (i = 0; i < k->nout; i++) {
		k->wanted[i] = find_member(z, name, sizeof name, out_name(k, i), "output", "out", i);
		if (k->wanted[i] && read_output(k->model, i, name, file, &k->want[i], &err))
			return say(k->v, err.code, "expected output '%s': %s", out_name(k, i), err.text);
	}
	return true;
}

static bool
run_archive(Case *k, const char *file)
{
	TccBuf b = {0};
	TccErr err = {0};
	TccZip z;
	bool ok;

	if (tcc_read_file(file, &b, &err) || tcc_zip_open(&z, (TccBytes){b.p, b.n}, &err))
		ok = say(k->v, err.code, "%s: %s", file, err.text);
	else
		ok = read_archive(k, &z, file) && run_case(k);
	clear_values(k);
	tcc_buf_free(&b);
	return ok;
}

static bool
run_data(Case *k)
{
	const char *path;
	bool ok = true;
	int i;

	for (i = 0; i < k->o->data.n && ok; i++) {
		path = k->o->data.at[i];
		if (!exists(path))
			return say(k->v, X_INVALID, "%s: %s", path, strerror(errno));
		ok = is_folder(path) ? run_sets(k, path) : run_archive(k, path);
	}
	return ok;
}

/* ---- the evaluator's results --------------------------------------------------------------- */

/* The folder whose inputs the evaluator is to run; NULL: none. */
static const char *
set_to_evaluate(Case *k, const char *dir)
{
	char *set = arena_printf(k->c.m->arena, "%s/test_data_set_0", dir), path[4096];

	return find_data_file(path, sizeof path, set, "input", 0) &&
		!find_data_file(path, sizeof path, set, "output", 0) ? set : NULL;
}

static bool
given_inputs(Case *k, const char *set)
{
	Compilation *c = &k->c;
	char path[4096];
	TccErr err = {0};
	bool found;
	int i;

	for (i = 0; i < c->m->main->nparams; i++) {
		found = find_data_file(path, sizeof path, set, "input", i);
		k->eval_in[i] = found ? read_constant(c->m, path, c->m->in_names[i], &err) : NULL;
		if (!found || err.code)
			return say(k->v, X_INVALID, "input '%s': %s", c->m->in_names[i],
				found ? err.text : "no file");
		if (!k->eval_in[i])
			return say(k->v, X_UNSUPPORTED, "input '%s' is no tensor", c->m->in_names[i]);
	}
	return true;
}

/* Before the passes, which change the module. set: a folder of inputs, or NULL. */
static bool
evaluate(Case *k, const char *set)
{
	Compilation *c = &k->c;

	k->eval_in = NEWN(c->m, Node *, c->m->main->nparams + 1);
	k->eval_out = NEWN(c->m, Node *, c->m->main->nresults + 1);
	if (c->level == LEVEL_LOOP)
		return say(k->v, X_UNSUPPORTED, "the evaluator does not run loop level: give --data");
	if (set && !given_inputs(k, set))
		return false;
	say(k->v, X_BUG, "stopped in the evaluator; give --data");
	if ((set || make_inputs(c, k->eval_in))
	 && module_eval(c->m, c->level, k->eval_in, k->eval_out, k->tol.max_ulp >= 0))
		return true;
	return say(k->v, failure(c), "%s", c->diag.first);
}

/* An output that was computed in double, in the type that it has. */
static Node *
narrowed(Module *m, Node *n, DType t)
{
	int64_t dims[MAX_RANK], i;
	Data *d;

	if (!n || n->code != O_CONST || n->type->dtype == t || !dt_float(t)
	 || !dt_float(n->type->dtype) || !const_dims(n, dims))
		return n;
	d = data_new(m, t, n->data->count, NULL);
	for (i = 0; i < d->count; i++)
		data_set((void *)d->bytes, t, i, num_round(t, data_get(n->data, n->type->dtype, i).f));
	return t_const(m, t, n->type->rank, dims, d);
}

static bool
run_evaluated(Case *k)
{
	const TccPort *ports = tcc_rows(k->model, tcc_meta(k->model)->outputs);
	TccErr err = {0};
	bool ok = true;
	Node *n;
	int i;

	for (i = 0; i < k->nin && ok; i++)
		ok = value_of_node(k->eval_in[i], &k->in[i], &err) == 0;
	for (i = 0; i < k->nout && ok; i++) {
		n = narrowed(k->c.m, k->eval_out[i], dtype_of_onnx((int)ports[i].dtype));
		ok = k->wanted[i] = value_of_node(n, &k->want[i], &err) == 0;
	}
	ok = ok ? run_case(k) : say(k->v, X_UNSUPPORTED, "%s: give --data", err.text);
	clear_values(k);
	return ok;
}

/* ---- the whole of a case ------------------------------------------------------------------- */

static bool
load_case(Case *k, const char *path, const char *dir)
{
	TccOptions to = {.size = sizeof to, .threads = k->o->threads ? k->o->threads : 1};
	Compilation *c = &k->c;
	const char *set;
	int code;

	say(k->v, X_BUG, "stopped while loading");
	if (!load_model(c, k->o, path, NULL))
		return say(k->v, failure(c), "%s", c->diag.first);
	set = dir && !k->o->data.n ? set_to_evaluate(k, dir) : NULL;
	if ((set || (!dir && !k->o->data.n)) && !evaluate(k, set))
		return false;
	say(k->v, X_BUG, "stopped in the passes");
	if (!compile_module(c))
		return say(k->v, failure(c), "%s", c->diag.first);
	say(k->v, X_BUG, "stopped in code generation");
	if (!(k->model = model_in_memory(c)))
		return say(k->v, failure(c), "%s", c->diag.first);
	say(k->v, X_BUG, "stopped while running");
	if ((code = tcc_load(k->model, &to, &k->inst)))
		return say(k->v, code, "%s", tcc_inst_error(k->inst));
	if ((code = tcc_context_new(k->inst, &k->ctx)))
		return say(k->v, code, "%s", tcc_error(k->ctx));
	k->nin = (int)tcc_meta(k->model)->inputs.count;
	k->nout = (int)tcc_meta(k->model)->outputs.count;
	k->in = calloc((size_t)k->nin + 1, sizeof *k->in);
	k->out = calloc((size_t)k->nout + 1, sizeof *k->out);
	k->want = calloc((size_t)k->nout + 1, sizeof *k->want);
	k->wanted = calloc((size_t)k->nout + 1, sizeof *k->wanted);
	return (k->in && k->out && k->want && k->wanted) || say(k->v, X_BUDGET, "out of memory");
}

/* The process ends with it: nothing is freed. */
static void
whole_case(const char *path, const Options *o, Verdict *v)
{
	Case k = {.o = o, .v = v};
	char model[4096];
	bool folder = is_folder(path);

	snprintf(model, sizeof model, folder ? "%s/model.onnx" : "%s", path);
	tolerances(&k, path);
	if (!load_case(&k, model, folder ? path : NULL))
		return;
	if (k.eval_out)
		run_evaluated(&k);
	else if (o->data.n)
		run_data(&k);
	else
		run_sets(&k, path);
}

/* ---- processes ----------------------------------------------------------------------------- */

typedef struct Slot { pid_t pid; int index; double since; bool killed; } Slot;

static void
start(Slot *s, int index, const Options *o, Verdict *v)
{
	pid_t parent = getpid();

	fflush(NULL);
	*s = (Slot){.index = index, .since = now()};
	s->pid = fork();
	if (s->pid < 0)
		say(v, X_BUDGET, "cannot start a process: %s", strerror(errno));
	if (s->pid != 0)
		return;
	/* a group, so that compilers that it starts end with it */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || (o->nfiles > 1 && !o->verbose && !freopen("/dev/null", "w", stderr)))
		_exit(1);
	whole_case(o->files[index], o, v);
	fflush(NULL);
	_exit(0);
}

static void
finish(Slot *s, Verdict *v, int status, int timeout)
{
	char why[sizeof v->why];

	v->ms = (now() - s->since) * 1e3;
	snprintf(why, sizeof why, "%.1000s", v->why);
	if (s->killed)
		say(v, X_BUDGET, "%s: over %d s", why, timeout);
	else if (WIFSIGNALED(status))
		say(v, X_BUG, "%s: %s", why, strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status))
		say(v, X_BUG, "%s: ended with code %d", why, WEXITSTATUS(status));
	s->pid = 0;
}

static int
reap(Slot *slots, int n, Verdict *v, int timeout)
{
	int i, status, ended = 0;

	for (i = 0; i < n; i++) {
		if (slots[i].pid < 0)
			slots[i].pid = 0;
		if (!slots[i].pid)
			continue;
		if (waitpid(slots[i].pid, &status, WNOHANG) == slots[i].pid) {
			finish(&slots[i], &v[slots[i].index], status, timeout);
			ended++;
		} else if (now() - slots[i].since > timeout && !slots[i].killed) {
			slots[i].killed = true;
			if (kill(-slots[i].pid, SIGKILL))
				kill(slots[i].pid, SIGKILL);
		}
	}
	return ended;
}

/* ---- results ------------------------------------------------------------------------------- */

/* code: of the first that failed, X_DIFFER if any differs */
typedef struct Tally { int passed, failed, skipped, code; cJSON *cases; } Tally;

static const char *
case_name(char *buf, size_t size, const char *path)
{
	char *slash;

	snprintf(buf, size, "%s", path);
	while ((slash = strrchr(buf, '/')) && !slash[1] && slash != buf)
		*slash = 0;
	return slash && slash[1] ? slash + 1 : buf;
}

static void
print_case(const Options *o, Tally *t, const char *path, const Verdict *v)
{
	bool text = !o->json || *o->json, pass = strcmp(v->word, "PASS") == 0,
		skip = strcmp(v->word, "SKIP") == 0;
	char buf[4096];
	const char *name = case_name(buf, sizeof buf, path);
	cJSON *j = json_add(t->cases);

	t->passed += pass;
	t->skipped += skip;
	t->failed += !pass && !skip;
	if (!t->code || v->code == X_DIFFER)
		t->code = v->code;
	if (text)
		printf("%s %s%s%s\n", v->word, name, *v->why ? ": " : "", v->why);
	json_text(j, "name", name);
	json_text(j, "verdict", v->word);
	if (*v->why)
		json_text(j, "reason", v->why);
	json_real(j, "time_ms", v->ms);
}

static bool
is_running(const Slot *slots, int n, int index)
{
	int i;

	for (i = 0; i < n; i++)
		if (slots[i].pid && slots[i].index == index)
			return true;
	return false;
}

static void
run_all(const Options *o, Verdict *v, Tally *t)
{
	int n = o->nfiles, jobs = o->jobs ? o->jobs : 1, next = 0, printed = 0, i;
	Slot slots[MAX_JOBS] = {{0}};

	if (jobs > MAX_JOBS)
		jobs = MAX_JOBS;
	while (printed < n) {
		for (i = 0; i < jobs; i++)
			if (!slots[i].pid && next < n) {
				start(&slots[i], next, o, &v[next]);
				next++;
			}
		if (!reap(slots, jobs, v, o->timeout ? o->timeout : 60))
			usleep(1000);
		for (; printed < next && !is_running(slots, jobs, printed); printed++)
			print_case(o, t, o->files[printed], &v[printed]);
	}
}

int
cmd_verify(const Options *o)
{
	cJSON *json = json_new(o);
	Tally t = {.cases = json_list(json, "cases")};
	Verdict *v = mmap(NULL, sizeof *v * (size_t)o->nfiles, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (o->target.n > 1)
		return complain(X_USAGE, "verify takes one --target");
	if (v == MAP_FAILED)
		return complain(X_BUDGET, "out of memory");
	phase(o, "verify");
	run_all(o, v, &t);
	if (!o->json || *o->json)
		printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped);
	json_real(json, "passed", t.passed);
	json_real(json, "failed", t.failed);
	json_real(json, "skipped", t.skipped);
	return json_end(o, json, t.code);
}
