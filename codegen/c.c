/*
 * The c target: the whole program as C11. Kernels stand in files of bounded size, which compile
 * side by side; model.c has the host plan, the tables of abi.h and the descriptor.
 */
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/cprint.h"
#include "codegen/embed.h"
#include "codegen/tool.h"
#include "runtime/abi.h"

enum { FILE_SIZE = 150000 };     /* of a file with kernels, after which the next one begins */

/* The Makefile of src.c says the same. */
static const char *const flags[] = { "-std=gnu11", "-ftree-vectorize", "-fPIC",
	"-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing",
	"-fvisibility=hidden", "-w", NULL };

static const char *prefix_of(const Job *job) { return job->prefix ? job->prefix : "model"; }

/* PREFIX_x, or PREFIX_v1_x for the second variant of an artefact. */
static const char *symbol(const Job *job, int variant, const char *what)
{
	Module *m = job->m;
	return variant ? arena_printf(m->arena, "%s_v%d_%s", prefix_of(job), variant, what) :
		arena_printf(m->arena, "%s_%s", prefix_of(job), what);
}

static void part_text(Job *job, const char *name, FILE *f, char **text, size_t *size)
{
	fclose(f);
	job_part(job, PART_TEXT, name, *text, *size);
	free(*text);
}

/* ---- kernels --------------------------------------------------------------------------------- */

static const char *kernel_symbol(const Job *job, int k)
{
	return symbol(job, job->variant, job->meta->idents[job->meta->twin[k]]);
}

static void put_kernel(Job *job, CFile *f, int k)
{
	if (job->meta->twin[k] == k)
		cfile_kernel(f, job->m->kernels.at[k], kernel_symbol(job, k),
			cprint_origin(job->m, job->meta->twin, k));
}

static int kernel_file(Job *job, int from, int *to, int number)
{
	CFile *f = cfile_new(job->m, false);
	char *text = NULL, *body;
	size_t size, n;

	for (*to = from; *to < job->m->kernels.n && cfile_size(f) < FILE_SIZE; ++*to)
		put_kernel(job, f, *to);
	body = cfile_finish(f, &n);
	if (!body)
		return X_BUG;
	FILE *o = open_memstream(&text, &size);
	fputs("/* Kernels as C11, made by tcc-ml. */\n", o);
	fputs(c_prelude, o);
	fwrite(body, 1, n, o);
	free(body);
	part_text(job, number ? arena_printf(job->m->arena, "kernels_%d.c", number) : "kernels.c", o,
		&text, &size);
	return X_OK;
}

static int kernel_files(Job *job)
{
	int code = X_OK;

	for (int at = 0, number = 0; at < job->m->kernels.n && code == X_OK; number++)
		code = kernel_file(job, at, &at, number);
	return code;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void put_string(FILE *o, const char *s)
{
	if (!s) {
		fputs("NULL", o);
		return;
	}
	fputc('"', o);
	for (; *s; s++)
		if (*s == '"' || *s == '\\')
			fprintf(o, "\\%c", *s);
		else if ((unsigned char)*s < ' ')
			fprintf(o, "\\%03o", *s);
		else
			fputc(*s, o);
	fputc('"', o);
}

static void put_meta(FILE *o, const Meta *meta)
{
	fputs("/* A TccMeta and its tables: names, shapes, buffers, kernels. */\n"
		"static const _Alignas(8) unsigned char meta[] = {", o);
	for (size_t k = 0; k < meta->size; k++)
		fprintf(o, "%s%d,", k % 24 ? "" : "\n\t", meta->bytes[k]);
	fputs("\n};\n\n", o);
}

static void put_kernels(Job *job, FILE *o)
{
	int n = job->m->kernels.n;

	if (!n)
		return;
	for (int k = 0; k < n; k++)
		if (job->meta->twin[k] == k)
			fprintf(o, "extern TCC_ENTRY TccKernelFn %s;\n", kernel_symbol(job, k));
	fputs("static TccKernelFn *const kernels[] = {\n", o);
	for (int k = 0; k < n; k++)
		fprintf(o, "\t%s,\n", kernel_symbol(job, k));
	fputs("};\n\n", o);
}

/* Names of the images that the Makefile of src.c builds. */
static int image_names(Job *job, int device, const char *names[2])
{
	names[0] = job->machine->arch;
	if (device != TCC_IMAGE_CUDA)
		return 1;
	names[1] = arena_printf(job->m->arena, "compute_%s", job->machine->arch + 3);
	return 2;
}

/* An image lies in a file that the assembler includes. PTX is text: a 0 belongs to it. */
static void put_image(FILE *o, int k, const char *file, bool text)
{
	fprintf(o, "extern TCC_ENTRY const unsigned char image_%d[], image_%d_end[];\n"
		"__asm__(\".section .rodata\\n.balign 64\\n.globl image_%d\\nimage_%d:\\n\"\n"
		"\t\".incbin \\\"kernels.%s.bin\\\"\\n%s.globl image_%d_end\\nimage_%d_end:\\n\"\n"
		"\t\".byte 0\\n.text\");\n", k, k, k, k, file, text ? ".byte 0\\n" : "", k, k);
}

static void put_image_table(FILE *o, int n, const char *const *names)
{
	fprintf(o, "static TccImage images[%d];\n"
		"/* Sizes are known when the program is linked, and set when it starts. */\n"
		"__attribute__((constructor)) static void set_images(void)\n{\n", n);
	for (int k = 0; k < n; k++)
		fprintf(o,
			"\timages[%d] = (TccImage){ \"%s\", image_%d, (uint64_t)(image_%d_end - image_%d) };\n",
			k, names[k], k, k, k);
	fputs("}\n", o);
}

static void put_images(Job *job, FILE *o, int device)
{
	const char *names[2];
	int n = image_names(job, device, names);

	fputs("#ifdef TCC_SIMULATE\n#define IMAGE_KIND TCC_IMAGE_SIM\n", o);
	put_image(o, 0, "sim", false);
	put_image_table(o, 1, names);
	fprintf(o, "#else\n#define IMAGE_KIND %s\n", device == TCC_IMAGE_CUDA ? "TCC_IMAGE_CUDA" :
		"TCC_IMAGE_HIP");
	for (int k = 0; k < n; k++)
		put_image(o, k, names[k], k > 0);
	put_image_table(o, n, names);
	fputs("#endif\n\n", o);
}

/* The user's functions that the plan calls; how many. */
static int put_functions(Job *job, FILE *o)
{
	int n;
	const Function *const *list = plan_functions(job->m, &n);

	if (!list || !n)
		return 0;
	for (int i = 0; i < n; i++)
		fprintf(o, "extern TccFunction %s;\n", list[i]->symbol);
	fputs("static TccFunction *const functions[] = { ", o);
	for (int i = 0; i < n; i++)
		fprintf(o, "%s%s", i ? ", " : "", list[i]->symbol);
	fputs(" };\n\n", o);
	return n;
}

static void put_model(Job *job, FILE *o, int device)
{
	bool embed = job->meta->nweights && !job->weights_file;
	const char *model = symbol(job, job->variant, "tcc_model");
	const char *weights = symbol(job, job->variant, "weights");
	bool next = job->variant + 1 < job->nvariants;
	int functions = put_functions(job, o);

	if (embed)
		fprintf(o, "extern TCC_ENTRY const unsigned char %s[];\n", weights);
	if (next)
		fprintf(o, "extern TCC_ENTRY const TccModel %s;\n",
			symbol(job, job->variant + 1, "tcc_model"));
	fprintf(o, "%sconst TccModel %s = {\n\t.abi_version = TCC_ABI_VERSION,\n",
		job->variant ? "TCC_ENTRY " : "TCC_EXPORT ", model);
	fprintf(o, "\t.image_kind = %s,\n\t.machine = ", device ? "IMAGE_KIND" : "TCC_IMAGE_NONE");
	put_string(o, job->target_text ? job->target_text : job->machine->name);
	fprintf(o, ",\n\t.meta = meta,\n\t.meta_size = sizeof meta,\n");
	if (embed)
		fprintf(o, "\t.weights = %s,\n", weights);
	fprintf(o, "\t.weights_size = %lld,\n", (long long)job->meta->weights_size);
	if (job->m->kernels.n && !device)
		fputs("\t.kernels = kernels,\n", o);
	fputs("\t.plan = plan,\n", o);
	if (device)
		fputs("\t.images = images,\n\t.nimages = sizeof images / sizeof *images,\n", o);
	if (next)
		fprintf(o, "\t.next = &%s,\n", symbol(job, job->variant + 1, "tcc_model"));
	if (functions)
		fprintf(o, "\t.functions = functions,\n\t.nfunctions = %d,\n", functions);
	fputs("};\n", o);
	if (job->variant == 0 && (job->kind == EMIT_EXE || job->kind == EMIT_SRC))
		fprintf(o, "\nconst TccModel *const tcc_main_model = &%s;\n", model);
}

static int model_file(Job *job, int device, bool kernels)
{
	CFile *f = cfile_new(job->m, false);
	char *text = NULL, *body;
	size_t size, n;

	for (int k = 0; kernels && k < job->m->kernels.n; k++)
		put_kernel(job, f, k);
	cfile_plan(f, job->m->plan, "plan");
	body = cfile_finish(f, &n);
	if (!body)
		return X_BUG;
	FILE *o = open_memstream(&text, &size);
	fprintf(o, "/* Host side of the model '%s', made by tcc-ml: the plan of a run, and tables. */\n"
		"#include \"runtime/abi.h\"\n\n", c_ident(job->m, job->m->name ? job->m->name : "model"));
	fputs(c_prelude, o);
	fwrite(body, 1, n, o);
	free(body);
	put_meta(o, job->meta);
	if (device)
		put_images(job, o, device);
	else
		put_kernels(job, o);
	put_model(job, o, device);
	part_text(job, "model.c", o, &text, &size);
	return X_OK;
}

int c_emit_text(Job *job, int device)
{
	/* to read, the kernels stand alone; to compile, a few are not worth a file */
	bool inside = !device && job->kind != EMIT_SRC && job->m->kernels.n <= 8;
	int code = device || inside ? X_OK : kernel_files(job);
	return code ? code : model_file(job, device, inside);
}

/* ---- objects --------------------------------------------------------------------------------- */

static int write_abi(const Work *w)
{
	for (const struct tcc_embed *e = tcc_embed; e->name; e++)
		if (!strcmp(e->name, "runtime/abi.h"))
			return work_write(w, e->name, e->data, e->size);
	diag_error(w->m->diag, X_BUG, NULL, "runtime/abi.h is not within tcc-ml");
	return X_BUG;
}

static const char *object_name(Module *m, const char *text)
{
	return arena_printf(m->arena, "%.*s.o", (int)strcspn(text, "."), text);
}

/* Compiles the text parts of this job from `first` on and adds their objects. */
static int compile(Job *job, const Work *w, int first)
{
	int n = job->nparts - first, code = X_OK;
	Command *c = NEWN(job->m, Command, n);

	for (int k = 0; k < n && code == X_OK; k++) {
		Part *p = &job->parts[first + k];
		code = work_write(w, p->name, p->data, p->size);
		c[k].what = "the C target";
		command_add_words(&c[k], job->m, tool_cc());
		command_add(&c[k], arena_printf(job->m->arena, "-O%d", job->level));
		for (int i = 0; flags[i]; i++)
			command_add(&c[k], flags[i]);
		command_add(&c[k], arena_printf(job->m->arena, "-I%s", w->dir));
		command_add(&c[k], arena_printf(job->m->arena, "-ffile-prefix-map=%s=.", w->dir));
		command_add(&c[k], "-c");
		command_add(&c[k], work_path(w, p->name));
		command_add(&c[k], "-o");
		command_add(&c[k], work_path(w, object_name(job->m, p->name)));
	}
	if (code == X_OK)
		code = commands_run(w, c, n, job->jobs);
	commands_free(c, n);
	for (int k = 0; k < n && code == X_OK; k++) {
		size_t size;
		const char *name = object_name(job->m, job->parts[first + k].name);
		char *o = file_read(work_path(w, name), &size);
		if (o)
			job_part(job, PART_OBJECT, name, o, size);
		else
			code = X_TOOL;
		free(o);
	}
	return code;
}

/* The row of the machine that cc compiles for, whose linker links. */
static const char *here(void)
{
#if defined(__aarch64__)
	return "aarch64";
#elif defined(__riscv)
	return "riscv64";
#else
	return "x86-64";
#endif
}

static int emit(Job *job)
{
	Work w;
	int first = job->nparts, code;

	if (!job->host || job->host->kind != M_CPU)
		job->host = machine_find(job->m, here());
	code = c_emit_text(job, TCC_IMAGE_NONE);
	if (code || job->kind == EMIT_SRC)
		return code;
	code = work_open(&w, job->m);
	if (code == X_OK)
		code = write_abi(&w);
	if (code == X_OK)
		code = compile(job, &w, first);
	work_close(&w);
	return code;
}

static int make(Job *jobs, int n, const char *path)
{
	return jobs->kind == EMIT_SRC ? src_link(jobs, n, path) : link_native(jobs, n, path);
}

static bool takes(const Machine *t) { return t->kind == M_C; }

static void describe(const Machine *t, FILE *o)
{
	(void)t;
	fputs("portable C11 source, compiled by cc (or $CC)\n", o);
}

const Target target_c = {
	.name = "c",
	.doc = "portable C11, for any CPU with a C compiler",
	.kinds = 1 << EMIT_EXE | 1 << EMIT_SO | 1 << EMIT_A | 1 << EMIT_OBJ | 1 << EMIT_SRC,
	.takes = takes,
	.describe = describe,
	.emit = emit,
	.link = make,
};
