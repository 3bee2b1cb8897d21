/*
 * Artefacts for CPUs and for hosts of devices: the parts of the jobs, their weights and the
 * runtime, put together by the system's compiler driver (a cross compiler's for another
 * architecture, whose runtime is compiled from the sources that we carry). Nothing of the machine's
 * paths or of the time gets into the output.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "codegen.h"
#include "embed.h"
#include "tool.h"
#include "runtime/abi.h"

/* ---- files and commands ---------------------------------------------------------------------- */

int
write_file(const char *path, const void *data, size_t size)
{
	size_t n = strlen(path);
	char *tmp = malloc(n + 8);
	FILE *fp;
	bool ok;

	if (!tmp)
		return -1;
	memcpy(tmp, path, n);
	memcpy(tmp + n, ".tmp", 5);
	fp = fopen(tmp, "wb");
	ok = fp && fwrite(data, 1, size, fp) == size;
	if (fp)
		ok = fclose(fp) == 0 && ok;
	ok = ok && rename(tmp, path) == 0;
	if (!ok)
		remove(tmp);
	free(tmp);
	return ok ? 0 : -1;
}

static int
cannot_write(Diag *d, const char *path)
{
	diag_error(d, X_TOOL, NULL, "cannot write %s: %s", path, strerror(errno));
	return X_TOOL;
}

/* What an artefact is made from: objects, in a folder for intermediate files. */
typedef struct Link {
	Job *jobs;
	int n;
	Module *m;
	Diag *d;
	Work work;
	const char *cc, *ar;
	Vec objects;
	Command cmd;
} Link;

static const char *
tmp(Link *l, const char *name)
{
	return work_path(&l->work, name);
}

static void arg(Link *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void
arg(Link *l, const char *fmt, ...)
{
	char text[4096];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	command_add(&l->cmd, arena_dup(l->m->arena, text, strlen(text) + 1));
}

/* Takes the arguments so far as a command. */
static Command
take(Link *l, const char *what)
{
	Command c = l->cmd;

	c.what = what;
	l->cmd = (Command){0};
	return c;
}

static int
run(Link *l, const char *what)
{
	Command c = take(l, what);
	int r = commands_run(&l->work, &c, 1, 1);

	commands_free(&c, 1);
	return r;
}

/* The objects as arguments, in a file: there may be many. */
static int
object_args(Link *l)
{
	const char *s = "";
	int i;

	for (i = 0; i < l->objects.n; i++)
		s = arena_printf(l->m->arena, "%s%s\n", s, (char *)l->objects.at[i]);
	arg(l, "@%s", tmp(l, "objects"));
	return work_write(&l->work, "objects", s, strlen(s));
}

/* ---- tools of an architecture ---------------------------------------------------------------- */

static const struct { const char *arch, *cc, *ar; } tools[] = {
	{"x86_64", "x86_64-linux-gnu-gcc", "x86_64-linux-gnu-ar"},
	{"aarch64", "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ar"},
	{"riscv64", "riscv64-linux-gnu-gcc", "riscv64-linux-gnu-ar"},
	{NULL, NULL, NULL}
};

#if defined(__x86_64__)
#define HERE "x86_64"
#elif defined(__aarch64__)
#define HERE "aarch64"
#elif defined(__riscv)
#define HERE "riscv64"
#else
#define HERE ""
#endif

static const Machine *
cpu_of(const Job *job)
{
	return job->machine->kind == M_CPU ? job->machine : job->host;
}

static bool
find_tools(Link *l)
{
	const Machine *t = cpu_of(l->jobs);
	int i;

	for (i = 0; t && tools[i].arch; i++) {
		if (strncmp(t->triple, tools[i].arch, strlen(tools[i].arch)))
			continue;
		if (strcmp(tools[i].arch, HERE) == 0) {
			l->cc = tool_cc();
			l->ar = "ar";
		} else {
			l->cc = tools[i].cc;
			l->ar = tools[i].ar;
		}
		return true;
	}
	diag_error(l->d, X_UNSUPPORTED, NULL, "no runtime for %s: only --emit obj, asm and llvm",
		t ? t->triple : "this target");
	return false;
}

static const struct tcc_embed *
embedded(const char *name)
{
	const struct tcc_embed *e;

	for (e = tcc_embed; e->name; e++)
		if (strcmp(e->name, name) == 0)
			return e;
	return NULL;
}

/* ---- the runtime ----------------------------------------------------------------------------- */

static bool
native(const Link *l)
{
	return strncmp(cpu_of(l->jobs)->triple, HERE "-", sizeof HERE) == 0;
}

static bool
ends(const char *s, const char *with)
{
	size_t n = strlen(s), k = strlen(with);

	return n >= k && strcmp(s + n - k, with) == 0;
}

/* Do plans call routines of the runtime that need the library (-1: any)? */
static bool needs(const Link *, int lib);

/*
 * Is it a source of the runtime that this program can need? Device bodies need what only a host
 * with a driver has, and some routines a library.
 */
static bool
wanted(const Link *l, const char *name)
{
	const HostLib *h;

	for (h = host_libs; h->symbol; h++)
		if (strcmp(name, h->source) == 0)
			return needs(l, h->lib);
	return strncmp(name, "runtime/", 8) == 0 && !strchr(name + 8, '/') && ends(name, ".c");
}

static void
cross_compile(Link *l, const char *source, const char *object)
{
	command_add_words(&l->cmd, l->m, l->cc);
	arg(l, "-std=gnu11");
	arg(l, "-Os");
	arg(l, "-fPIC");
	arg(l, "-fno-asynchronous-unwind-tables");
	arg(l, "-ffunction-sections");
	arg(l, "-fdata-sections");
	arg(l, "-ffile-prefix-map=%s=.", l->work.dir);
	arg(l, "-w");
	arg(l, "-I%s", l->work.dir);
	arg(l, "-c");
	arg(l, "-o");
	arg(l, "%s", object);
	arg(l, "%s", source);
}

static int
cross_runtime(Link *l, const char *lib)
{
	enum { MAX = 128 };
	const struct tcc_embed *e;
	Command cmd[MAX];
	const char *objects = "", *o;
	int n = 0, r = X_OK;

	for (e = tcc_embed; e->name && !r; e++)
		if (strncmp(e->name, "runtime/", 8) == 0)
			r = work_write(&l->work, e->name, e->data, e->size);
	for (e = tcc_embed; e->name && !r && n < MAX; e++) {
		if (!wanted(l, e->name))
			continue;
		o = arena_printf(l->m->arena, "%s.o", tmp(l, e->name));
		cross_compile(l, tmp(l, e->name), o);
		cmd[n++] = take(l, "the runtime");
		objects = arena_printf(l->m->arena, "%s%s\n", objects, o);
	}
	if (!r)
		r = commands_run(&l->work, cmd, n, l->jobs->jobs > 2 ? l->jobs->jobs : 2);
	commands_free(cmd, n);
	if (r)
		return r;
	arg(l, "%s", l->ar);
	arg(l, "rcsD");
	arg(l, "%s", lib);
	arg(l, "@%s", tmp(l, "runtime.list"));
	r = work_write(&l->work, "runtime.list", objects, strlen(objects));
	return r ? r : run(l, "the runtime");
}

/* The runtime as an archive in the folder. */
static int
runtime(Link *l, const char *lib)
{
	const struct tcc_embed *e = embedded("libtcc_rt.a");

	if (!native(l))
		return cross_runtime(l, lib);
	if (!e) {
		diag_error(l->d, X_BUG, NULL, "built without its runtime");
		return X_BUG;
	}
	return work_write(&l->work, "libtcc_rt.a", e->data, e->size);
}

/* ---- objects --------------------------------------------------------------------------------- */

static const char *
symbol(Link *l, const Job *job, const char *what)
{
	const char *p = job->prefix ? job->prefix : "model";

	return job->variant ? arena_printf(l->m->arena, "%s_v%d_%s", p, job->variant, what)
		: arena_printf(l->m->arena, "%s_%s", p, what);
}

static int
write_parts(Link *l)
{
	const Part *p;
	const char *name;
	int i, k;

	for (i = 0; i < l->n; i++)
		for (k = 0; k < l->jobs[i].nparts; k++) {
			p = &l->jobs[i].parts[k];
			if (p->kind != PART_OBJECT)
				continue;
			name = arena_printf(l->m->arena, "%s_%d_%s",
				l->jobs->prefix ? l->jobs->prefix : "model", i, p->name);
			if (work_write(&l->work, name, p->data, p->size))
				return X_TOOL;
			vec_push(l->m, &l->objects, (void *)tmp(l, name));
		}
	return X_OK;
}

static bool
needs(const Link *l, int lib)
{
	bool yes = false;
	int i;

	for (i = 0; i < l->n; i++)
		yes |= plan_needs(l->jobs[i].m, lib);
	return yes;
}

static bool
embeds(const Job *job)
{
	return job->meta->nweights && !job->weights_file;
}

/* An object for each of the weights; machines with equal ones share it. */
static int
weights(Link *l)
{
	const char *path, *symbols[64];
	Job *job;
	FILE *fp;
	bool ok, seen;
	int i, k, n;

	for (i = 0; i < l->n; i++) {
		job = &l->jobs[i];
		for (k = 0, n = 0, seen = false; k < l->n && embeds(job); k++) {
			if (!embeds(&l->jobs[k]) || !meta_same_weights(job->meta, l->jobs[k].meta) || n == 64)
				continue;
			seen |= k < i;
			symbols[n++] = symbol(l, &l->jobs[k], "weights");
		}
		if (seen || !n)
			continue;
		path = tmp(l, arena_printf(l->m->arena, "%s_%d_weights.o",
			l->jobs->prefix ? l->jobs->prefix : "model", i));
		fp = fopen(path, "wb");
		ok = fp && elf_write_weights(job->meta, cpu_of(job)->triple, n, symbols, fp) == 0;
		if (fp)
			ok = fclose(fp) == 0 && ok;
		if (!ok)
			return cannot_write(l->d, path);
		vec_push(l->m, &l->objects, (void *)path);
	}
	return X_OK;
}

_Static_assert(sizeof(TccUserApi) == 8 + 9 * sizeof(void *), "the table lists every function");

/* For libraries: the table of the runtime's functions under the prefix. */
static int
api(Link *l)
{
	const char *s = symbol(l, l->jobs, "tcc_api"), *text, *obj;
	const HostLib *h;

	text = arena_printf(l->m->arena, "\t.section .data.rel.ro, \"aw\"\n\t.balign 8\n\t.globl %s\n"
		"\t.type %s, %%object\n%s:\n\t.long %d, %d\n\t.quad tcc_load, tcc_unload, tcc_inst_error\n"
		"\t.quad tcc_context_new, tcc_context_free, tcc_error, tcc_run, tcc_times, tcc_arena_bytes\n"
		"\t.size %s, . - %s\n\t.section .note.GNU-stack, \"\", %%progbits\n",
		s, s, s, TCC_ABI_VERSION, (int)sizeof(TccUserApi), s, s);
	/* references that draw routines into the user's program */
	if (needs(l, -1))
		text = arena_printf(l->m->arena,
			"%s\t.section .data.rel.ro, \"aw\"\n\t.quad tcc_host_call\n", text);
	for (h = host_libs; h->symbol; h++)
		if (needs(l, h->lib))
			text = arena_printf(l->m->arena, "%s\t.quad %s\n", text, h->symbol);
	if (work_write(&l->work, "api.s", text, strlen(text)))
		return X_TOOL;
	obj = tmp(l, arena_printf(l->m->arena, "%s_api.o",
		l->jobs->prefix ? l->jobs->prefix : "model"));
	command_add_words(&l->cmd, l->m, l->cc);
	arg(l, "-c");
	arg(l, "-o");
	arg(l, "%s", obj);
	arg(l, "%s", tmp(l, "api.s"));
	vec_push(l->m, &l->objects, (void *)obj);
	return run(l, "the library's table");
}

/* ---- the header beside a library ------------------------------------------------------------- */

static void
port_lines(FILE *fp, const Job *job, const char *kind, const TccTable *t)
{
	const unsigned char *meta = job->meta->bytes;
	const TccMeta *h = (const TccMeta *)(const void *)meta;
	const TccPort *p = (const TccPort *)(const void *)(meta + t->offset);
	const TccDim *d;
	const char *prefix = job->prefix ? job->prefix : "model";
	uint32_t i;
	int k;

	fprintf(fp, "enum {\n");
	for (i = 0; i < t->count; i++, p++) {
		fprintf(fp, "\t%s_%s_%s,\t/* \"%s\": ", prefix, kind, (const char *)meta + p->ident,
			(const char *)meta + p->name);
		fprintf(fp, "%s", p->kind == TCC_TENSOR ? dtypes[dtype_of_onnx((int)p->dtype)].text
			: p->kind == TCC_SEQUENCE ? "sequence" : p->kind == TCC_MAP ? "map" : "none");
		if (p->rank >= 0)
			fprintf(fp, "[");
		d = (const TccDim *)(const void *)(meta + h->dims.offset) + p->dims;
		for (k = 0; k < p->rank; k++, d++) {
			fprintf(fp, "%s", k ? ", " : "");
			if (d->size >= 0)
				fprintf(fp, "%lld", (long long)d->size);
			else
				fprintf(fp, "%s", d->symbol ? (const char *)meta + d->symbol : "?");
		}
		fprintf(fp, "%s%s */\n", p->rank >= 0 ? "]" : "", p->optional ? ", optional" : "");
	}
	fprintf(fp, "\t%s_%s_count\n};\n\n", prefix, kind);
}

static int
header(Link *l, const char *path)
{
	const Job *job = l->jobs;
	const char *prefix = job->prefix ? job->prefix : "model";
	const struct tcc_embed *abi = embedded("runtime/abi.h");
	const TccMeta *h = (const TccMeta *)(const void *)job->meta->bytes;
	size_t size;
	char *text = NULL, *name = arena_printf(l->m->arena, "%s", path), *dot = strrchr(name, '.');
	FILE *fp = open_memstream(&text, &size);
	int r;

	if (!fp)
		abort();
	fprintf(fp,
		"/* The compiled model %s: positions of its inputs and outputs, and how to call it. */\n"
		"#ifndef TCC_MODEL_%s_H\n#define TCC_MODEL_%s_H\n\n", job->m->name ? job->m->name : prefix,
		prefix, prefix);
	fprintf(fp, "%s\n", abi ? (const char *)abi->data : "#include <tcc-ml/abi.h>");
	fprintf(fp, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
	fprintf(fp, "extern const TccModel %s_tcc_model;\nextern const TccUserApi %s_tcc_api;\n\n",
		prefix, prefix);
	port_lines(fp, job, "in", &h->inputs);
	port_lines(fp, job, "out", &h->outputs);
	fprintf(fp, "#ifdef __cplusplus\n}\n#endif\n#endif\n");
	fclose(fp);
	if (dot && !strchr(dot, '/'))
		*dot = 0;
	name = arena_printf(l->m->arena, "%s.h", name);
	r = write_file(name, text, size) ? cannot_write(l->d, name) : X_OK;
	free(text);
	return r;
}

/* ---- artefacts ------------------------------------------------------------------------------- */

static int
common_args(Link *l, const char *path)
{
	int r;

	command_add_words(&l->cmd, l->m, l->cc);
	arg(l, "-o");
	arg(l, "%s", path);
	r = object_args(l);
	arg(l, "-Wl,--gc-sections,--build-id=none,-z,noseparate-code,-z,noexecstack");
	arg(l, "-s");
	return r;
}

/* Devices that the runtime must be able to open. */
static void
device_args(Link *l)
{
	const HostLib *h;
	const char *library;
	bool dl = false;
	int i, n;

	for (i = 0; i < l->n; i++) {
		if (l->jobs[i].machine->kind == M_CPU)
			continue;
		arg(l, "-Wl,-u,%s", l->jobs[i].simulate ? "tcc_device_sim"
			: l->jobs[i].machine->kind == M_HIP ? "tcc_device_hip" : "tcc_device_cuda");
		dl = true;
	}
	if (needs(l, -1))
		arg(l, "-Wl,-u,tcc_host_call");
	for (h = host_libs; h->symbol; h++)
		if (needs(l, h->lib))
			arg(l, "-Wl,-u,%s", h->symbol);
	arg(l, "%s", tmp(l, "libtcc_rt.a"));
	for (h = host_libs; h->symbol; h++)
		if (needs(l, h->lib)) {
			/* archives of libraries are no position-independent code: a shared object needs them
			 * beside it */
			arg(l, l->jobs->kind == EMIT_SO ? "-Wl,--as-needed" : "-Wl,-Bstatic");
			for (library = h->library; *library; library += n + (library[n] == ' ')) {
				n = (int)strcspn(library, " ");
				arg(l, "-l%.*s", n, library);
			}
			if (!l->jobs->use_static && l->jobs->kind != EMIT_SO)
				arg(l, "-Wl,-Bdynamic");
		}
	arg(l, "-pthread");
	arg(l, "-lm");
	if (dl)
		arg(l, "-ldl");
}

static int
program(Link *l, const char *path)
{
	int r = common_args(l, path);

	if (l->jobs->use_static)
		arg(l, "-static");
	device_args(l);
	return r ? r : run(l, path);
}

static int
shared(Link *l, const char *path)
{
	char *text = arena_printf(l->m->arena, "{ global: %s; %s; local: *; };\n",
		symbol(l, l->jobs, "tcc_model"), symbol(l, l->jobs, "tcc_api"));
	int r = work_write(&l->work, "exports", text, strlen(text));

	if (!r)
		r = common_args(l, path);
	arg(l, "-shared");
	arg(l, "-Wl,-z,defs,--version-script=%s", tmp(l, "exports"));
	device_args(l);
	if (!r)
		r = run(l, path);
	return r ? r : header(l, path);
}

static int
archive(Link *l, const char *path)
{
	const char *lib = tmp(l, "libtcc_rt.a");
	size_t size;
	char *bytes;
	int r;

	arg(l, "%s", l->ar);
	arg(l, "rcsD");
	arg(l, "%s", lib);
	r = object_args(l);
	if (!r)
		r = run(l, path);
	if (r)
		return r;
	bytes = file_read(lib, &size);
	r = bytes && write_file(path, bytes, size) == 0 ? X_OK : cannot_write(l->d, path);
	free(bytes);
	return r ? r : header(l, path);
}

static int
object(Link *l, const char *path)
{
	int r;

	command_add_words(&l->cmd, l->m, l->cc);
	arg(l, "-r");
	arg(l, "-nostdlib");
	arg(l, "-o");
	arg(l, "%s", path);
	r = object_args(l);
	return r ? r : run(l, path);
}

/* The one part of a job, as it is. */
static int
part_out(Job *job, PartKind kind, const char *path)
{
	int i;

	for (i = 0; i < job->nparts; i++)
		if (job->parts[i].kind == kind)
			return write_file(path, job->parts[i].data, job->parts[i].size)
				? cannot_write(job->m->diag, path) : X_OK;
	return X_BUG;
}

/* The user's functions, of all variants alike. An archive or object takes no shared objects. */
static int
functions(Link *l)
{
	bool whole = l->jobs->kind == EMIT_EXE || l->jobs->kind == EMIT_SO;
	Vec paths = {0};
	int i, r = functions_files(&l->work, l->jobs, l->cc, &paths);

	for (i = 0; i < paths.n; i++)
		if (whole || !function_shared(paths.at[i]))
			vec_push(l->m, &l->objects, paths.at[i]);
		else
			diag_note(l->d, "who links the result must link %s as well", (const char *)paths.at[i]);
	return r;
}

static int
build(Link *l, const char *path)
{
	EmitKind kind = l->jobs->kind;
	int r = X_OK;

	if (!find_tools(l))
		return X_UNSUPPORTED;
	r = write_parts(l);
	if (!r)
		r = functions(l);
	if (!r)
		r = weights(l);
	if (!r && (kind == EMIT_SO || kind == EMIT_A))
		r = api(l);
	if (!r && kind != EMIT_OBJ)
		r = runtime(l, tmp(l, "libtcc_rt.a"));
	if (r)
		return r;
	switch (kind) {
	case EMIT_EXE: return program(l, path);
	case EMIT_SO: return shared(l, path);
	case EMIT_A: return archive(l, path);
	default: return object(l, path);
	}
}

int
link_native(Job *jobs, int n, const char *path)
{
	Link l = {.jobs = jobs, .n = n, .m = jobs->m, .d = jobs->m->diag};
	char *w;
	int r;

	if (jobs->kind == EMIT_LLVM || jobs->kind == EMIT_ASM)
		return part_out(jobs, PART_TEXT, path);
	if (jobs->kind == EMIT_OBJ && llvm_weights_inside(jobs))
		return part_out(jobs, PART_OBJECT, path);
	r = work_open(&l.work, l.m);
	if (!r)
		r = build(&l, path);
	work_close(&l.work);
	if (!r && jobs->weights_file && jobs->meta->nweights) {
		w = arena_printf(jobs->m->arena, "%s.weights", path);
		r = meta_write_weights_file(jobs->meta, w, jobs->m->diag);
	}
	return r;
}
