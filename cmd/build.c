/* A model on its way from the file to code. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cmd.h"
#include "ir/text.h"

const char *const level_names[3] = {"graph", "tensor", "loop"};

/* ---- messages ------------------------------------------------------------------------------ */

static bool
use_color(const Options *o)
{
	if (o->color && strcmp(o->color, "auto"))
		return strcmp(o->color, "always") == 0;
	return isatty(2) && !getenv("NO_COLOR");
}

/* Every message as JSON too. */
static void
note_message(void *user, const char *kind, int code, const Loc *loc, const char *text)
{
	Compilation *c = user;
	cJSON *list = cJSON_GetObjectItem(c->json, "messages"), *j = json_add(list);

	json_text(j, "kind", kind);
	if (code)
		json_real(j, "code", code);
	json_text(j, "file", c->diag.file);
	if (loc) {
		json_text(j, "node", loc->name);
		json_text(j, "op_type", loc->type);
		if (loc->index >= 0)
			json_real(j, "index", loc->index);
	}
	json_text(j, "text", text);
}

int
failure(const Compilation *c)
{
	return c->diag.code ? c->diag.code : X_BUG;
}

/* ---- loading ------------------------------------------------------------------------------- */

static bool
ends(const char *s, const char *with)
{
	size_t n = strlen(s), k = strlen(with);

	return n >= k && strcmp(s + n - k, with) == 0;
}

/* The text of a module, or a file that begins like one. */
bool
is_ir(const char *path)
{
	char head[8] = "";
	FILE *f;
	size_t n;

	if (ends(path, ".ir"))
		return true;
	f = ends(path, ".onnx") ? NULL : fopen(path, "rb");
	if (!f)
		return false;
	n = fread(head, 1, sizeof head, f);
	fclose(f);
	return n == sizeof head
		&& (memcmp(head, "module \"", 8) == 0 || memcmp(head, "// after", 8) == 0);
}

static bool
load_ir(Compilation *c, const char *path)
{
	const Options *o = c->o;
	TccBuf b = {0};
	TccErr err = {0};

	if (o->shape.n || o->dim.n || o->freeze.n) {
		diag_error(&c->diag, X_USAGE, NULL,
			"--shape, --dim and --freeze are for ONNX models, not for IR");
		return false;
	}
	if (tcc_read_file(path, &b, &err)) {
		diag_error(&c->diag, X_INVALID, NULL, "cannot read the IR: %s", err.text);
		return false;
	}
	tcc_buf_add(&b, "", 1);
	c->text = (char *)b.p;                       /* tcc_buf_free is free */
	if (b.failed) {
		diag_error(&c->diag, X_BUDGET, NULL, "out of memory");
		return false;
	}
	if (strlen(c->text) + 1 != b.n) {
		diag_error(&c->diag, X_INVALID, NULL, "the IR holds a zero byte");
		return false;
	}
	c->m = module_parse(c->text, path, &c->diag, &c->level);
	return c->m != NULL;
}

/* The constants of --freeze. NULL after an error. */
static struct Freeze *
frozen(Compilation *c)
{
	const List *l = &c->o->freeze;
	struct Freeze *f = NEWN(c->m, struct Freeze, l->n + 1);
	TccErr err = {0};
	size_t n;
	int i;

	for (i = 0; i < l->n; i++) {
		n = strcspn(l->at[i], "=");
		f[i].name = arena_printf(c->m->arena, "%.*s", (int)n, l->at[i]);
		f[i].value = read_constant(c->m, l->at[i] + n + 1, f[i].name, &err);
		if (err.code) {
			diag_error(&c->diag, err.code, NULL, "--freeze %s: %s", f[i].name, err.text);
			return NULL;
		}
		if (!f[i].value) {
			diag_error(&c->diag, X_UNSUPPORTED, NULL,
				"--freeze %s: only a tensor can be a constant", f[i].name);
			return NULL;
		}
	}
	return f;
}

/* The operators of --op-library. */
static bool
load_libraries(Compilation *c)
{
	const char *model = c->diag.file;
	TccBuf b = {0};
	TccErr err = {0};
	bool ok = true;
	int i;

	for (i = 0; ok && i < c->o->library.n; i++, b = (TccBuf){0}) {
		c->diag.file = c->o->library.at[i];
		ok = !tcc_read_file(c->o->library.at[i], &b, &err);
		if (ok)
			ok = library_parse(c->m, arena_printf(c->m->arena, "%.*s", (int)b.n,
				(const char *)b.p));
		else
			diag_error(&c->diag, X_INVALID, NULL, "cannot read the operators: %s", err.text);
		tcc_buf_free(&b);
	}
	c->diag.file = model;
	return ok;
}

static bool
load_onnx(Compilation *c, const char *path)
{
	const Options *o = c->o;
	ImportOptions io = {.nshape = o->shape.n, .shape = o->shape.at, .ndim = o->dim.n,
		.dim = o->dim.at, .nfreeze = o->freeze.n};

	io.freeze = frozen(c);
	if (!io.freeze || !load_libraries(c))
		return false;
	c->onnx = onnx_load(c->m, path, &io);
	c->level = LEVEL_GRAPH;
	return c->onnx && !c->diag.errors;
}

/* Baseline of the architecture that we run on: an artefact for a GPU should start on any such
 * host. */
static const char *
baseline(void)
{
#if defined(__aarch64__)
	return "aarch64";
#elif defined(__riscv)
	return "riscv64";
#else
	return "x86-64-v2";
#endif
}

static bool
set_machines(Compilation *c, const char *target)
{
	Module *m = c->m;

	if (target || !m->machine) {
		m->machine = machine_of(m, target ? target : "native");
		m->host = NULL;
	}
	if (m->machine && (!m->host || c->o->host))
		m->host = machine_gpu(m->machine) ? machine_of(m, c->o->host ? c->o->host : baseline())
			: m->machine;
	if (c->o->host && m->machine && !machine_gpu(m->machine))
		diag_warn(&c->diag, NULL, "--host is for GPU targets; the host of %s is itself",
			m->machine->name);
	return m->machine && m->host && (c->level != LEVEL_LOOP || module_verify_text(m, c->level));
}

/* Later runs of the passes on the same text keep what it says. */
static bool
set_precision(Module *m, const Options *o)
{
	int k;

	for (k = 0; o->precision && k < N_PRECISIONS; k++)
		if (strcmp(o->precision, precision_names[k]) == 0)
			m->precision = (Precision)k;
	if (m->strict && m->precision)
		diag_error(m->diag, X_USAGE, NULL, "--strict allows no --precision %s",
			precision_names[m->precision]);
	return m->diag->errors == 0;
}

static bool
set_tuning(Compilation *c)
{
	if (c->o->require_tuning && !c->o->tuning)
		diag_error(&c->diag, X_USAGE, NULL, "--require-tuning needs --tuning FILE");
	if (!c->o->tuning || c->diag.errors)
		return c->diag.errors == 0;
	c->m->tuning = NEW(c->m, Tuning);
	c->m->tuning->required = c->o->require_tuning;
	return tuning_read(c->m, c->o->tuning);
}

bool
load_model(Compilation *c, const Options *o, const char *path, const char *target)
{
	bool ir = is_ir(path);

	c->o = o;
	c->diag = (Diag){.file = path, .out = stderr, .color = use_color(o), .quiet = o->quiet,
		.verbose = o->verbose};
	if (c->json) {
		c->diag.sink = note_message;
		c->diag.user = c;
	}
	phase(o, "loading %s", path);
	if (!target && o->target.n)
		target = o->target.at[0];
	if (!ir)
		c->m = module_new(&c->diag);
	else if (!load_ir(c, path))
		return false;
	c->m->strict = o->strict;
	if (!set_precision(c->m, o))
		return false;
	c->m->execute = execute_constants;
	if (!set_machines(c, target))
		return false;
	if (o->simulate && !machine_gpu(c->m->machine)) {
		diag_error(&c->diag, X_USAGE, NULL, "--simulate is for GPU targets, not for %s",
			c->m->machine->name);
		return false;
	}
	if (o->simulate && strcmp(o->simulate, "ptx") == 0 && c->m->machine->kind != M_CUDA) {
		diag_error(&c->diag, X_USAGE, NULL, "--simulate=ptx is for NVIDIA GPUs, not for %s",
			c->m->machine->name);
		return false;
	}
	return set_tuning(c) && (ir || load_onnx(c, path));
}

/* ---- dumps --------------------------------------------------------------------------------- */

bool
print_module(Compilation *c, const char *path, FILE *f)
{
	const char *data = NULL, *slash;
	FILE *d = NULL;
	bool ok;

	if (path) {
		data = arena_printf(c->m->arena, "%s.data", path);
		slash = strrchr(data, '/');
		f = fopen(path, "w");
		d = fopen(data, "wb");
		if (f && d)
			module_print_data(c->m, c->level, f, d, slash ? slash + 1 : data);
	} else {
		module_print(c->m, c->level, f);
	}
	ok = !path || (f && d);
	if (d) {
		if (ftell(d) == 0)
			remove(data);
		ok = fclose(d) == 0 && ok;
	}
	if (path && f)
		ok = fclose(f) == 0 && ok;
	if (!ok)
		diag_error(&c->diag, X_TOOL, NULL, "cannot write %s: %s", path, strerror(errno));
	return ok;
}

static void
dump(Compilation *c, const char *pass)
{
	const Options *o = c->o;
	int n = c->ndumps++;

	if (!o->dump_after && !o->dump_dir)
		return;
	if (o->dump_after && !is_listed(o->dump_after, pass) && !is_listed(o->dump_after, "all"))
		return;
	if (!o->dump_dir) {
		printf("// after %s\n", pass);
		print_module(c, NULL, stdout);
		return;
	}
	mkdir(o->dump_dir, 0777);
	if (o->target.n > 1)
		print_module(c, arena_printf(c->m->arena, "%s/%s-%02d-%s.ir", o->dump_dir,
			c->m->machine->name, n, pass), NULL);
	else
		print_module(c, arena_printf(c->m->arena, "%s/%02d-%s.ir", o->dump_dir, n, pass), NULL);
}

/* ---- passes -------------------------------------------------------------------------------- */

static void
before_pass(const char *pass, void *ctx)
{
	phase(((Compilation *)ctx)->o, "pass %s", pass);
}

static void
after_pass(Module *m, Level level, const char *pass, void *ctx)
{
	Compilation *c = ctx;

	(void)m;
	c->level = level;
	dump(c, pass);
	if (c->reference)
		check_pass(c, pass);
}

static int
level_of(const Options *o)
{
	return o->level ? atoi(o->level) : 2;
}

bool
compile_module(Compilation *c)
{
	const Options *o = c->o;
	PassOptions po = {.level = level_of(o), .only = o->only, .disabled = o->disabled,
		.stop = o->stop_after, .time = o->time_passes ? stderr : NULL, .before = before_pass,
		.after = after_pass, .ctx = c};

	if (o->check_passes && !start_check(c))
		return false;
	dump(c, "import");
	return run_passes(c->m, &c->level, &po) && !c->diag.errors;
}

/* ---- code ---------------------------------------------------------------------------------- */

Job
make_job(Compilation *c, EmitKind kind, const char *prefix)
{
	const Options *o = c->o;

	return (Job){.m = c->m, .machine = c->m->machine, .host = c->m->host, .kind = kind,
		.prefix = prefix, .level = level_of(o), .jobs = o->jobs ? o->jobs : 1,
		.use_static = o->use_static,
		.weights_file = o->weights && strcmp(o->weights, "embed") != 0,
		.weights_on_demand = o->weights && strcmp(o->weights, "mmap") == 0,
		.simulate = o->simulate != NULL,
		.simulate_fast = o->simulate && strcmp(o->simulate, "fast") == 0,
		.simulate_ptx = o->simulate && strcmp(o->simulate, "ptx") == 0, .backend = o->cuda};
}

const TccModel *
model_in_memory(Compilation *c)
{
	if (c->level != LEVEL_LOOP) {
		diag_error(&c->diag, X_USAGE, NULL, "the module is at %s level: not all passes were run",
			level_names[c->level]);
		return NULL;
	}
	if (c->m->machine->kind == M_CPU
	 && strcmp(c->m->machine->triple, machine_of(c->m, "native")->triple)) {
		diag_error(&c->diag, X_USAGE, NULL,
			"code for %s cannot run here: compile it, and start it under an emulator",
			c->m->machine->name);
		return NULL;
	}
	phase(c->o, "code generation");
	c->job = make_job(c, EMIT_EXE, "model");
	c->jit = jit_load(&c->job);
	phase(c->o, "the run");
	return c->jit ? jit_model(c->jit) : NULL;
}

void
compilation_free(Compilation *c)
{
	if (c->m)
		end_check(c);
	if (c->jit)
		jit_free(c->jit);
	job_free(&c->job);
	if (c->onnx)
		onnx_close(c->onnx);
	if (c->m)
		module_free(c->m);
	free(c->text);
}
