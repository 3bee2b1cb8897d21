/* verify: run cases in the form of the ONNX backend tests and compare; each case in a process of its own. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cJSON.h>
#include "cmd.h"

/* What a case's process tells its parent, in shared memory. */
typedef struct Verdict { char word[16]; char why[1200]; } Verdict;

static bool
say(Verdict *v, const char *word, const char *fmt, const char *a, const char *b)
{
	char *p;

	snprintf(v->word, sizeof v->word, "%s", word);
	snprintf(v->why, sizeof v->why, fmt, a, b);
	for (p = v->why; *p; p++)
		if (*p == '\n')
			*p = ' ';
	return strcmp(word, "PASS") == 0;
}

static void
tolerances(const char *dir, const Options *o, double *rtol, double *atol)
{
	char path[4096];
	TccBuf b = {0};
	cJSON *j, *x;

	*rtol = 1e-3;
	*atol = 1e-7;
	snprintf(path, sizeof path, "%s/data.json", dir);
	if (tcc_read_file(path, &b, NULL) == 0) {
		j = cJSON_ParseWithLength((char *)b.p, b.n);
		if ((x = cJSON_GetObjectItem(j, "rtol")) && cJSON_IsNumber(x))
			*rtol = x->valuedouble;
		if ((x = cJSON_GetObjectItem(j, "atol")) && cJSON_IsNumber(x))
			*atol = x->valuedouble;
		cJSON_Delete(j);
	}
	tcc_buf_free(&b);
	if (o->rtol >= 0)
		*rtol = o->rtol;
	if (o->atol >= 0)
		*atol = o->atol;
}

static bool
exists(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0;
}

static bool
run_set(Compilation *c, const TccModel *model, TccContext *ctx, const char *set, double rtol, double atol, Verdict *v)
{
	int nin = c->m->main->nparams, nout = c->m->main->nresults, i, code;
	TccValue *in = calloc((size_t)nin + 1, sizeof *in), *out = calloc((size_t)nout + 1, sizeof *out), want;
	char path[4096], why[1000];
	TccErr err = {0};
	bool ok = true;

	for (i = 0; i < nin && ok; i++) {
		snprintf(path, sizeof path, "%s/input_%d.pb", set, i);
		if (exists(path) && read_input(model, i, c->m->in_names[i], path, &in[i], &err))
			ok = say(v, "ERROR", "input: %s%s", err.text, "");
	}
	if (ok && (code = tcc_run(ctx, in, (uint64_t)nin, out, (uint64_t)nout)))
		ok = say(v, code == TCC_UNSUPPORTED ? "UNSUPPORTED" : code == TCC_BAD_DATA ? "FAIL" : "ERROR", "%s%s", tcc_error(ctx), "");
	for (i = 0; i < nout && ok; i++) {
		snprintf(path, sizeof path, "%s/output_%d.pb", set, i);
		if (!exists(path))
			continue;
		memset(&want, 0, sizeof want);
		if (read_output(model, i, c->m->out_names[i], path, &want, &err))
			ok = say(v, "ERROR", "expected output: %s%s", err.text, "");
		else if (!values_equal(&out[i], &want, rtol, atol, why, sizeof why))
			ok = say(v, "FAIL", "output '%s': %s", c->m->out_names[i], why);
		tcc_value_free(&want);
	}
	for (i = 0; i < nin; i++)
		tcc_value_free(&in[i]);
	free(in);
	free(out);
	return ok;
}

static const char *
word_of(int code)
{
	return code == X_UNSUPPORTED ? "UNSUPPORTED" : "ERROR";
}

static void
run_case(const char *dir, const Options *o, Verdict *v)
{
	Compilation c = {0};
	TccOptions to = {.size = sizeof to, .threads = o->threads ? o->threads : 1};
	TccInst *inst = NULL;
	TccContext *ctx = NULL;
	const TccModel *model;
	char path[4096];
	double rtol, atol;
	int i, code;

	tolerances(dir, o, &rtol, &atol);
	snprintf(path, sizeof path, "%s/model.onnx", dir);
	say(v, "ERROR", "stopped while loading%s%s", "", "");
	if (!load_model(&c, o, path, o->target.n ? o->target.at[0] : NULL) || !compile_module(&c, o)) {
		say(v, word_of(c.diag.code), "%s%s", c.diag.first, "");
		return;
	}
	say(v, "ERROR", "stopped in code generation%s%s", "", "");
	model = model_in_memory(&c, o);
	if (!model) {
		say(v, word_of(c.diag.code), "%s%s", c.diag.first, "");
		return;
	}
	if ((code = tcc_load(model, &to, &inst))) {
		say(v, word_of(code), "%s%s", tcc_inst_error(inst), "");
		return;
	}
	if ((code = tcc_context_new(inst, &ctx))) {
		say(v, word_of(code), "%s%s", tcc_error(ctx), "");
		return;
	}
	say(v, "ERROR", "stopped while running%s%s", "", "");
	for (i = 0;; i++) {
		snprintf(path, sizeof path, "%s/test_data_set_%d", dir, i);
		if (!exists(path))
			break;
		if (!run_set(&c, model, ctx, path, rtol, atol, v))
			return;
	}
	if (i == 0)
		say(v, "SKIP", "no test_data_set_0%s%s", "", "");
	else
		say(v, "PASS", "%s%s", "", "");
}

typedef struct Slot { pid_t pid; int index; time_t since; } Slot;

static void
finish(Slot *s, Verdict *v, int status)
{
	char why[100];

	if (WIFSIGNALED(status)) {
		snprintf(why, sizeof why, "%s: %s", v->why, WTERMSIG(status) == SIGKILL ? "timed out" : strsignal(WTERMSIG(status)));
		say(v, "ERROR", "%s%s", why, "");
	}
	s->pid = 0;
}

static void
start(Slot *s, int index, const Options *o, Verdict *v)
{
	fflush(NULL);
	s->index = index;
	s->since = time(NULL);
	s->pid = fork();
	if (s->pid == 0) {
		if (!o->verbose && !freopen("/dev/null", "w", stderr))
			_exit(1);
		run_case(o->files[index], o, v);
		fflush(NULL);
		_exit(0);
	}
}

static void
reap(Slot *slots, int n, Verdict *v, int timeout)
{
	int i, status;

	for (i = 0; i < n; i++) {
		if (!slots[i].pid)
			continue;
		if (waitpid(slots[i].pid, &status, WNOHANG) == slots[i].pid)
			finish(&slots[i], &v[slots[i].index], status);
		else if (time(NULL) - slots[i].since > timeout)
			kill(slots[i].pid, SIGKILL);
	}
}

int
cmd_verify(const Options *o)
{
	int n = o->nfiles, jobs = o->jobs ? o->jobs : 1, next = 0, printed = 0, i, passed = 0, failed = 0, skipped = 0, busy;
	Slot slots[64] = {{0}};
	Verdict *v;
	const char *name;

	if (n == 0) {
		fputs("error: verify takes models or directories\n", stderr);
		return X_USAGE;
	}
	if (jobs > 64)
		jobs = 64;
	v = mmap(NULL, sizeof *v * (size_t)n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (v == MAP_FAILED)
		return X_BUDGET;
	while (printed < n) {
		for (i = 0, busy = 0; i < jobs; i++) {
			if (!slots[i].pid && next < n) {
				start(&slots[i], next, o, &v[next]);
				next++;
			}
			busy += slots[i].pid != 0;
		}
		reap(slots, jobs, v, o->timeout ? o->timeout : 60);
		for (; printed < next; printed++) {
			for (i = 0; i < jobs && !(slots[i].pid && slots[i].index == printed); i++)
				;
			if (i < jobs)
				break;
			name = strrchr(o->files[printed], '/') && strrchr(o->files[printed], '/')[1]
				? strrchr(o->files[printed], '/') + 1 : o->files[printed];
			printf("%s %s%s%s\n", v[printed].word, name, *v[printed].why ? ": " : "", v[printed].why);
			passed += strcmp(v[printed].word, "PASS") == 0;
			skipped += strcmp(v[printed].word, "SKIP") == 0;
		}
		if (busy)
			usleep(1000);
	}
	failed = n - passed - skipped;
	printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
	return failed ? X_DIFFER : X_OK;
}
