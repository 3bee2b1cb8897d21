/* compile: a model to artefacts. All is made in a folder beside the output, moved when whole. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <dirent.h>
#include "cmd.h"

enum { EMIT_IR = EMIT_NKINDS, NKINDS, MAX_TARGETS = 16 };

/* What is appended to the stem, and whether it is text, which goes to stdout without -o. */
static const struct { const char *name, *suffix; bool text; } kinds[NKINDS] = {
	[EMIT_EXE] = {"exe", "", false},
	[EMIT_SO] = {"so", ".so", false},
	[EMIT_A] = {"a", ".a", false},
	[EMIT_OBJ] = {"obj", ".o", false},
	[EMIT_SRC] = {"src", ".src", false},
	[EMIT_LLVM] = {"llvm", ".ll", true},
	[EMIT_ASM] = {"asm", ".s", true},
	[EMIT_PTX] = {"ptx", ".ptx", true},
	[EMIT_CUBIN] = {"cubin", ".cubin", false},
	[EMIT_HSACO] = {"hsaco", ".hsaco", false},
	[EMIT_STABLEHLO] = {"stablehlo", ".mlir", true},
	[EMIT_IR] = {"ir", ".ir", true},
};

typedef struct Work {
	const Options *o;
	cJSON *json;
	Compilation *c;        /* per target, as given */
	int order[MAX_TARGETS]; /* the targets as variants */
	int n;
	bool emit[NKINDS];
	int nemit;
	bool reported;
	const char *prefix, *stem;
	char dir[512];         /* where everything is made */
	char out[4096];        /* OUT's folder and a slash, or "" */
	cJSON *artefacts;
} Work;

/* ---- names --------------------------------------------------------------------------------- */

static const char *
base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The model's file name without its ending. */
void
stem_of(const char *path, char *buf, size_t size)
{
	char *dot;

	snprintf(buf, size, "%s", base_name(path));
	dot = strrchr(buf, '.');
	if (dot && dot != buf)
		*dot = 0;
}

/* A C identifier: what is none becomes an underscore. */
static void
identifier(char *s, size_t size)
{
	char *p;

	if (isdigit((unsigned char)*s) && strlen(s) + 2 < size) {
		memmove(s + 1, s, strlen(s) + 1);
		*s = '_';
	}
	for (p = s; *p; p++)
		if (!isalnum((unsigned char)*p))
			*p = '_';
	if (!*s)
		snprintf(s, size, "model");
}

static bool
is_identifier(const char *s)
{
	const char *p;

	for (p = s; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '_')
			return false;
	return *s && !isdigit((unsigned char)*s);
}

/* The name of an artefact without its folder. With several kinds OUT is their stem. */
static const char *
name_of(Work *w, int kind)
{
	const Options *o = w->o;

	if (o->out && w->nemit == 1)
		return base_name(o->out);
	return arena_printf(w->c->m->arena, "%s%s", o->out ? base_name(o->out) : w->stem,
		kinds[kind].suffix);
}

static bool
to_stdout(const Work *w, int kind)
{
	return kinds[kind].text && w->nemit == 1 && (!w->o->out || strcmp(w->o->out, "-") == 0);
}

/* ---- moving -------------------------------------------------------------------------------- */

/* Copies what is left of the file. False: not all could be written. */
static bool
copy_stream(FILE *in, FILE *out)
{
	char buf[1 << 14];
	size_t n;

	while ((n = fread(buf, 1, sizeof buf, in)) > 0)
		if (fwrite(buf, 1, n, out) != n)
			return false;
	return true;
}

/* Into a device or pipe, which nothing may take the place of. 0, or -1 with errno. */
static int
pour(const char *from, const char *to)
{
	FILE *in = fopen(from, "rb"), *out = in ? fopen(to, "wb") : NULL;
	bool ok = out && copy_stream(in, out);

	if (out)
		ok = fclose(out) == 0 && ok;
	if (in)
		fclose(in);
	return ok ? 0 : -1;
}

/* Moves a file or folder; into a folder that is there go the parts. 0, or -1 with errno. */
static int
move(const char *from, const char *to)
{
	struct stat a, b;
	struct dirent *e;
	char x[8192], y[8192];
	DIR *d;
	int r = 0;

	if (stat(to, &b) == 0 && !S_ISREG(b.st_mode) && !S_ISDIR(b.st_mode))
		return pour(from, to);
	if (stat(from, &a) || stat(to, &b) || !S_ISDIR(a.st_mode) || !S_ISDIR(b.st_mode))
		return rename(from, to);
	d = opendir(from);
	while (d && r == 0 && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(x, sizeof x, "%.4000s/%s", from, e->d_name);
		snprintf(y, sizeof y, "%.4000s/%s", to, e->d_name);
		r = move(x, y);
	}
	if (!d)
		return -1;
	closedir(d);
	return r;
}

static int
cannot(Work *w, const char *path)
{
	diag_error(&w->c->diag, X_TOOL, NULL, "cannot write %s: %s", path, strerror(errno));
	return X_TOOL;
}

/* A part of what was made, to its place. */
static int
install_one(Work *w, const char *name)
{
	char from[8192], to[8192];
	struct stat st;
	cJSON *j;

	snprintf(from, sizeof from, "%s/%s", w->dir, name);
	snprintf(to, sizeof to, "%s%s", w->out, name);
	if (stat(from, &st) || move(from, to))
		return cannot(w, to);
	j = json_add(w->artefacts);
	json_text(j, "file", to);
	if (S_ISREG(st.st_mode))
		json_real(j, "bytes", (double)st.st_size);
	if (w->o->verbose)
		diag_note(&w->c->diag, "wrote %s", to);
	return X_OK;
}

static int
install(Work *w)
{
	struct dirent **list;
	int n = scandir(w->dir, &list, NULL, alphasort), i, code = n < 0 ? cannot(w, w->dir) : X_OK;

	for (i = 0; i < n; i++) {
		if (!code && strcmp(list[i]->d_name, ".") && strcmp(list[i]->d_name, ".."))
			code = install_one(w, list[i]->d_name);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
	return code;
}

static int
copy_to_stdout(Work *w, const char *path)
{
	FILE *f = fopen(path, "rb");

	if (!f)
		return cannot(w, path);
	copy_stream(f, stdout);
	fclose(f);
	remove(path);
	return X_OK;
}

/* ---- what is asked for --------------------------------------------------------------------- */

static int
read_kinds(Work *w)
{
	const List *l = &w->o->emit;
	int i, k;

	for (i = 0; i < l->n; i++)
		for (k = 0; k < NKINDS; k++)
			if (strcmp(kinds[k].name, l->at[i]) == 0 && !w->emit[k]) {
				w->emit[k] = true;
				w->nemit++;
			}
	if (w->nemit == 0) {
		/* to stop early leaves only the IR */
		w->emit[w->o->stop_after ? EMIT_IR : EMIT_EXE] = true;
		w->nemit = 1;
	}
	if (w->o->stage && !w->emit[EMIT_IR])
		return complain(X_USAGE, "--stage is for --emit ir");
	if (w->o->out && w->o->out[strlen(w->o->out) - 1] == '/')
		return complain(X_USAGE, "-o %s: a file name is expected", w->o->out);
	return X_OK;
}

static int
open_work(Work *w, char *stem, size_t size)
{
	const Options *o = w->o;
	const char *out = o->out ? o->out : "";
	int code = read_kinds(w);

	if (code)
		return code;
	if (o->prefix && !is_identifier(o->prefix))
		return complain(X_USAGE, "--symbol-prefix %s: it must be a C identifier", o->prefix);
	stem_of(o->files[0], stem, size);
	w->stem = stem;
	w->n = o->target.n ? o->target.n : 1;
	if (w->n > MAX_TARGETS)
		return complain(X_USAGE, "at most %d targets go into an artefact", MAX_TARGETS);
	snprintf(w->out, sizeof w->out, "%.*s", (int)(base_name(out) - out), out);
	snprintf(w->dir, sizeof w->dir, "%.480s", w->out);
	if (!scratch_folder(o, w->dir, sizeof w->dir))
		return complain(X_TOOL, "cannot write into the folder of %s: %s", *out ? out : stem,
			strerror(errno));
	return X_OK;
}

/* ---- making -------------------------------------------------------------------------------- */

/* Graph level is that of the model as loaded, tensor level what the loops are made from. */
static int
emit_ir(Work *w, const char *path)
{
	Compilation c = {.json = w->json};
	Options o = *w->o;
	int code = X_OK, level = LEVEL_LOOP;

	if (o.stage)
		for (level = 0; strcmp(level_names[level], o.stage); level++)
			;
	if (level == LEVEL_TENSOR && !o.stop_after)
		o.stop_after = "inline";
	if (!load_model(&c, &o, o.files[0], o.target.n ? o.target.at[0] : NULL))
		code = failure(&c);
	else if (o.stage && (int)c.level > level)
		code = complain(X_USAGE, "%s is at %s level already", o.files[0], level_names[c.level]);
	else if (level != LEVEL_GRAPH && !compile_module(&c))
		code = failure(&c);
	else if (!print_module(&c, path, stdout))
		code = failure(&c);
	compilation_free(&c);
	return code;
}

/* One file serves all variants if they want the same bytes. */
static int
one_weights(Work *w, const Job *jobs)
{
	uint64_t id = ((const TccMeta *)(const void *)jobs->meta->bytes)->weights_id;
	int i;

	for (i = 1; i < w->n; i++)
		if (((const TccMeta *)(const void *)jobs[i].meta->bytes)->weights_id != id) {
			diag_error(&w->c->diag, X_UNSUPPORTED, NULL,
				"targets %s and %s lay out their weights differently: embed them, or make an "
				"artefact each", jobs[0].machine->name, jobs[i].machine->name);
			return X_UNSUPPORTED;
		}
	return X_OK;
}

static int
over_arena(Compilation *c)
{
	const Plan *p = c->m->memory;
	int64_t limit = c->o->max_arena;
	int i;

	if (!limit || (p->is_static && p->arena_bytes <= limit))
		return X_OK;
	if (!p->is_static) {
		diag_error(&c->diag, X_BUDGET, NULL,
			"--max-arena: the memory depends on the inputs' shapes (%s): fix them with "
			"--dim or --shape", p->formula ? p->formula : "no formula");
		return X_BUDGET;
	}
	diag_error(&c->diag, X_BUDGET, NULL,
		"activations need %lld bytes on %s, more than --max-arena %lld",
		(long long)p->arena_bytes, c->m->machine->name, (long long)limit);
	for (i = 0; i < p->nbufs; i++)
		if (p->bufs[i].cls == BUF_ARENA && p->bufs[i].size > limit / 4)
			diag_note(&c->diag, "buffer %d %s: %lld bytes, from step %u to %u", i,
				p->bufs[i].name ? p->bufs[i].name : "", (long long)p->bufs[i].size,
				p->bufs[i].first, p->bufs[i].last);
	return X_BUDGET;
}

/* What was made, in numbers. */
static void
report(Work *w, const Job *jobs)
{
	cJSON *list = json_list(w->json, "targets"), *j;
	const Plan *p;
	int i;

	for (i = 0; i < w->n; i++) {
		p = jobs[i].m->memory;
		j = json_add(list);
		json_text(j, "name", jobs[i].machine->name);
		json_real(j, "kernels", jobs[i].m->kernels.n);
		json_real(j, "weight_bytes", (double)jobs[i].meta->weights_size);
		if (p->is_static)
			json_real(j, "arena_bytes", (double)p->arena_bytes);
		else
			json_text(j, "arena_bytes", p->formula);
		HostWork host = host_work(jobs[i].m);
		if (machine_gpu(jobs[i].machine))
			host_work_json(&host, j);
		if (host.waits || host.nroutines)
			diag_note(&w->c->diag, "%s: %s", jobs[i].machine->name,
				host_work_text(jobs[i].m, &host));
		if (w->o->verbose)
			diag_note(&w->c->diag, p->is_static
				? "%s: %d kernels, %lld bytes of weights, %lld of activations"
				: "%s: %d kernels, %lld bytes of weights, activations as the shapes need",
				jobs[i].machine->name, jobs[i].m->kernels.n, (long long)jobs[i].meta->weights_size,
				(long long)p->arena_bytes);
	}
}

static int
emit_kind(Work *w, int kind, const char *texts[])
{
	const char *name = name_of(w, kind);
	const char *path = arena_printf(w->c->m->arena, "%s/%s", w->dir, name);
	Job jobs[MAX_TARGETS];
	int i, code = X_OK;

	for (i = 0; i < w->n; i++) {
		jobs[i] = make_job(&w->c[w->order[i]], (EmitKind)kind, w->prefix);
		jobs[i].variant = i;
		jobs[i].nvariants = w->n;
		jobs[i].manifest = texts[i];
		for (int k = i + 1; k < w->n; k++)
			jobs[i].covers |= w->c[w->order[k]].m->machine->kind == jobs[i].machine->kind;
		jobs[i].weights_name = arena_printf(w->c->m->arena, "%s.weights",
			kind == EMIT_SRC ? w->prefix : name);
	}
	for (i = 0; i < w->n && !code; i++) {
		phase(w->o, "code generation for %s", jobs[i].machine->name);
		code = codegen_emit(&jobs[i]);
		if (code && !w->c[w->order[i]].diag.errors)
			code = complain(X_BUG, "%s: no code for %s", w->o->files[0], jobs[i].machine->name);
	}
	if (!code && jobs[0].weights_file)
		code = one_weights(w, jobs);
	phase(w->o, "linking");
	if (!code)
		code = codegen_link(jobs, w->n, path);
	if (!code && to_stdout(w, kind))
		code = copy_to_stdout(w, path);
	if (!code && !w->reported)
		report(w, jobs);
	w->reported = true;
	for (i = 0; i < w->n; i++)
		job_free(&jobs[i]);
	return code;
}

static int
check_targets(Work *w)
{
	int i, k, code = X_OK;

	for (i = 0; i < w->n; i++)
		for (k = i + 1; k < w->n; k++)
			if (strcmp(w->c[i].m->machine->name, w->c[k].m->machine->name) == 0)
				code = complain(X_USAGE, "target %s is given twice", w->c[i].m->machine->name);
	for (i = 0; i < w->n; i++)
		if (w->o->use_static && machine_gpu(w->c[i].m->machine))
			code = complain(X_USAGE, "--static: a program for %s must open its driver",
				w->c[i].m->machine->name);
	return code;
}

/* The runtime takes the first variant that the machine can run: one before those that it covers;
 * else they stay as given. A GPU that has a later one's machine code would take an earlier one's
 * PTX. */
static void
order_variants(Work *w)
{
	const Machine *t;
	int i, k;

	for (i = 0; i < w->n; i++) {
		t = w->c[i].m->machine;
		for (k = 0; k < i && !machine_covers(t, w->c[w->order[k]].m->machine); k++)
			;
		memmove(w->order + k + 1, w->order + k, sizeof *w->order * (size_t)(i - k));
		w->order[k] = i;
	}
}

static int
compile_all(Work *w)
{
	const char *texts[MAX_TARGETS], *target;
	FileHash *hash = hash_start(w->o->files[0]);
	char sha[65], prefix[256];
	int i, kind, code = X_OK;

	for (i = 0; i < w->n && !code; i++) {
		target = w->o->target.n ? w->o->target.at[i] : NULL;
		w->c[i].json = w->json;
		if (!load_model(&w->c[i], w->o, w->o->files[0], target))
			code = failure(&w->c[i]);
	}
	code = code ? code : check_targets(w);
	for (i = 0; i < w->n && !code; i++) {
		if (!compile_module(&w->c[i]))
			code = failure(&w->c[i]);
		else if (w->c[i].level != LEVEL_LOOP)
			code = complain(X_USAGE, "only --emit ir can be made when passes are left out");
		else
			code = over_arena(&w->c[i]);
	}
	hash_end(hash, sha);
	if (code)
		return code;
	snprintf(prefix, sizeof prefix, "%.250s", w->o->prefix ? w->o->prefix : w->stem);
	identifier(prefix, sizeof prefix);
	w->prefix = prefix;
	order_variants(w);
	for (i = 0; i < w->n; i++)
		texts[i] = manifest(&w->c[w->order[i]], sha);
	for (kind = 0; kind < EMIT_NKINDS && !code; kind++)
		if (w->emit[kind])
			code = emit_kind(w, kind, texts);
	return code;
}

static int
work(Work *w)
{
	char path[8192];
	bool only_ir = w->nemit == 1 && w->emit[EMIT_IR];
	int code = X_OK;

	if (!only_ir)
		code = compile_all(w);
	if (!code && w->emit[EMIT_IR] && w->n > 1)
		code = complain(X_USAGE, "--emit ir takes one target");
	if (!code && w->emit[EMIT_IR]) {
		snprintf(path, sizeof path, "%s/%s%s", w->dir, w->o->out ? base_name(w->o->out) : w->stem,
			w->o->out && only_ir ? "" : kinds[EMIT_IR].suffix);
		code = emit_ir(w, to_stdout(w, EMIT_IR) ? NULL : path);
	}
	return code ? code : install(w);
}

int
cmd_compile(const Options *o)
{
	Work w = {.o = o, .json = json_new(o)};
	char stem[256];
	int code = open_work(&w, stem, sizeof stem), i;

	w.c = calloc(MAX_TARGETS, sizeof *w.c);
	if (!w.c)
		abort();
	w.artefacts = json_list(w.json, "artefacts");
	w.c->diag.out = stderr;
	if (!code)
		code = work(&w);
	if (w.c->m)
		json_text(w.json, "target", w.c->m->machine ? w.c->m->machine->name : NULL);
	for (i = 0; i < MAX_TARGETS; i++)
		if (w.c[i].m || w.c[i].text)
			compilation_free(&w.c[i]);
	free(w.c);
	return json_end(o, w.json, code);
}
