/*
 * The `src` artefact: a folder with the program's source, the runtime's, the weights and a Makefile
 * that builds the program with the user's own tools.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "codegen/codegen.h"
#include "codegen/embed.h"
#include "codegen/tool.h"
#include "runtime/abi.h"

typedef struct Folder {
	Job *job;
	const char *path;
	FILE *objects, *sim;   /* the Makefile's lists: of the program, of the simulated one */
	int code;
} Folder;

static void put_file(Folder *f, const char *name, const void *data, size_t size)
{
	Module *m = f->job->m;
	const char *path = arena_printf(m->arena, "%s/%s", f->path, name);

	if (f->code)
		return;
	for (const char *p = strchr(name, '/'); p; p = strchr(p + 1, '/'))
		mkdir(arena_printf(m->arena, "%s/%.*s", f->path, (int)(p - name), name), 0777);
	if (write_file(path, data, size)) {
		diag_error(m->diag, X_TOOL, NULL, "cannot write %s: %s", path, strerror(errno));
		f->code = X_TOOL;
	}
}

static void put_object(FILE *list, const char *name)
{
	const char *dot = strrchr(name, '.');
	fprintf(list, " \\\n\t%.*s.o", (int)(dot - name), name);
}

static bool ends(const char *s, const char *tail)
{
	size_t n = strlen(s), k = strlen(tail);
	return n >= k && !strcmp(s + n - k, tail);
}

static bool begins(const char *s, const char *head)
{
	return !strncmp(s, head, strlen(head));
}

/* Not where the plan calls no routine of the library that the file needs. */
static bool lib_wanted(const Job *job, const char *name)
{
	for (const HostLib *h = host_libs; h->symbol; h++)
		if (!strcmp(name, h->source))
			return plan_needs(job->m, h->lib);
	return true;
}

/* Does this target's program need the file of the runtime? */
static bool wanted(const Job *job, const char *name)
{
	bool gpu = machine_gpu(job->machine), cuda = job->machine->kind == M_CUDA;

	if (!lib_wanted(job, name))
		return false;
	if (begins(name, "runtime/device/"))
		return gpu && ends(name, "/tcc_dev.h");
	if (begins(name, "runtime/gpu"))
		return gpu && !begins(name, "runtime/gpu_sim") &&
			!begins(name, cuda ? "runtime/gpu_hip" : "runtime/gpu_cuda");
	return begins(name, "runtime/");
}

/* And the program that runs a GPU's kernels in the simulator? */
static bool wanted_sim(const Job *job, const char *name)
{
	return machine_gpu(job->machine) && lib_wanted(job, name) && begins(name, "runtime/") &&
		!begins(name, "runtime/gpu_cuda") && !begins(name, "runtime/gpu_hip");
}

static void put_runtime(Folder *f)
{
	for (const struct tcc_embed *e = tcc_embed; e->name; e++) {
		bool real = wanted(f->job, e->name), sim = wanted_sim(f->job, e->name);
		if (!real && !sim)
			continue;
		put_file(f, ends(e->name, "/tcc_dev.h") ? "tcc_dev.h" : e->name, e->data, e->size);
		if (real && ends(e->name, ".c"))
			put_object(f->objects, e->name);
		if (sim && ends(e->name, ".c"))
			put_object(f->sim, e->name);
	}
}

/* The user's functions: sources and objects are copied, shared objects linked where they lie. */
static void put_functions(Folder *f, FILE *libs)
{
	int n;
	const Function *const *list = plan_functions(f->job->m, &n);

	for (int i = 0; list && i < n; i++) {
		const char *path = list[i]->file, *dot = strrchr(path, '.');
		bool seen = false;
		for (int k = 0; k < i; k++)
			seen |= !strcmp(list[k]->file, path);
		if (seen)
			continue;
		if (function_shared(path)) {
			fprintf(libs, " %s", path);
			continue;
		}
		size_t size;
		char *text = file_read(path, &size);
		const char *name = arena_printf(f->job->m->arena, "function_%d%s", i, dot ? dot : ".o");
		if (text)
			put_file(f, name, text, size);
		else
			f->code = X_TOOL;
		free(text);
		put_object(f->objects, name);
		put_object(f->sim, name);
	}
	for (const struct tcc_embed *e = tcc_embed; n && e->name; e++)
		if (!strcmp(e->name, "runtime/abi.h"))
			put_file(f, "tcc-ml/abi.h", e->data, e->size);
}

static void put_parts(Folder *f)
{
	for (int k = 0; k < f->job->nparts; k++) {
		Part *p = &f->job->parts[k];
		if (p->kind != PART_TEXT)
			continue;
		put_file(f, p->name, p->data, p->size);
		if (ends(p->name, ".c"))
			put_object(f->objects, p->name);
	}
}

/* ---- the Makefile ---------------------------------------------------------------------------- */

static const char head[] =
	"# Builds the program from its source: `make`. CC and CFLAGS%s are yours to choose.\n"
	"# The flags below are not: they keep the compiler to the arithmetic of the model.\n"
	"CC = cc\n"
	"CFLAGS = -O2\n"
	"FLAGS = -std=gnu11 -I. -ftree-vectorize -ffp-contract=off -fno-math-errno \\\n"
	"\t-fno-trapping-math -fno-strict-aliasing -ffunction-sections -fdata-sections\n";

static const char tail[] =
	"\n"
	"%s: $(OBJS)\n"
	"\t$(CC) $(CFLAGS) -Wl,--gc-sections -o $@ $(OBJS) $(LDFLAGS) $(LIBS) -lpthread%s -lm\n"
	"\n"
	"%%.o: %%.c\n"
	"\t$(CC) $(FLAGS) $(CFLAGS) -c -o $@ $<\n"
	"\n"
	"clean:\n"
	"\trm -f %s $(OBJS)%s\n"
	"\n"
	".PHONY: clean\n";

static const char cuda_rules[] =
	"\n"
	"NVCC = nvcc\n"
	"ARCH = %s\n"
	"NVFLAGS = -std=c++17 --fmad=false --maxrregcount=255 -I.\n"
	"\n"
	"model.o: kernels.%s.bin kernels.compute_%s.bin\n"
	"\n"
	"kernels.%s.bin: kernels.cu tcc_dev.h\n"
	"\t$(NVCC) $(NVFLAGS) -arch=$(ARCH) -cubin -o $@ kernels.cu\n"
	"\n"
	"kernels.compute_%s.bin: kernels.cu tcc_dev.h\n"
	"\t$(NVCC) $(NVFLAGS) -arch=$(ARCH) -ptx -o $@ kernels.cu\n";

static const char hip_rules[] =
	"\n"
	"HIPCC = clang-22\n"
	"ARCH = %s\n"
	"HIPFLAGS = -x hip -std=c++17 --cuda-device-only --no-gpu-bundle-output -O3 \\\n"
	"\t-ffp-contract=off -mcode-object-version=5 -nogpulib -nogpuinc -fuse-cuid=none -I.\n"
	"\n"
	"model.o: kernels.%s.bin\n"
	"\n"
	"kernels.%s.bin: kernels.hip tcc_dev.h\n"
	"\t$(HIPCC) $(HIPFLAGS) --offload-arch=$(ARCH) -o $@ kernels.hip\n";

static const char sim_rules[] =
	"\n"
	"# The same program with its kernels in the simulator, which needs clang and no GPU.\n"
	"SIMCC = clang-22\n"
	"SIMFLAGS = %s\n"
	"SIMOBJS = model.sim.o%s\n"
	"\n"
	"simulated: $(SIMOBJS)\n"
	"\t$(CC) $(CFLAGS) -rdynamic -o $@ $(SIMOBJS) $(LDFLAGS) $(LIBS) -lpthread -ldl -lm\n"
	"\n"
	"model.sim.o: model.c kernels.sim.bin\n"
	"\t$(CC) $(FLAGS) $(CFLAGS) -DTCC_SIMULATE -c -o $@ model.c\n"
	"\n"
	"kernels.sim.bin: %s tcc_dev.h\n"
	"\t$(SIMCC) $(SIMFLAGS) -I. -o $@ %s\n";

static void put_sim_rules(Folder *f, FILE *o, const char *objects)
{
	const char *kernels = f->job->machine->kind == M_CUDA ? "kernels.cu" : "kernels.hip";
	char *flags = NULL;
	size_t size;
	FILE *t = open_memstream(&flags, &size);

	if (!t)
		abort();
	sim_flags(f->job->machine, t);
	fclose(t);
	fprintf(o, sim_rules, flags, objects, kernels, kernels);
	free(flags);
}

/* The program is called as the model, unless a file or goal of the Makefile is. */
static const char *program_name(const Job *job)
{
	static const char *const taken[] = { "runtime", "clean", "simulated" };
	const char *name = job->prefix ? job->prefix : "model";

	for (size_t k = 0; k < sizeof taken / sizeof *taken; k++)
		if (!strcmp(name, taken[k]))
			return arena_printf(job->m->arena, "%s_program", name);
	return name;
}

static void put_makefile(Folder *f, const char *objects, const char *sim, const char *libs)
{
	const Machine *t = f->job->machine;
	const char *name = program_name(f->job), *arch = t->arch;
	char *text = NULL;
	size_t size;
	FILE *o = open_memstream(&text, &size);

	if (!o)
		abort();
	fprintf(o, head, t->kind == M_CUDA ? ", NVCC" : t->kind == M_HIP ? ", HIPCC" : "");
	fputs("LIBS =", o);
	for (const HostLib *h = host_libs; h->symbol; h++)
		if (plan_needs(f->job->m, h->lib))
			for (const char *s = h->library; *s; s += strcspn(s, " ") + (s[strcspn(s, " ")] == ' '))
				fprintf(o, " -l%.*s", (int)strcspn(s, " "), s);
	fprintf(o, "%s\nOBJS =%s\n", libs, objects);
	fprintf(o, tail, name, machine_gpu(t) ? " -ldl" : "", name,
		machine_gpu(t) ? " simulated $(SIMOBJS) kernels.*.bin" : "");
	if (t->kind == M_CUDA)
		fprintf(o, cuda_rules, arch, arch, arch + 3, arch, arch + 3);
	else if (t->kind == M_HIP)
		fprintf(o, hip_rules, arch, arch, arch);
	if (machine_gpu(t))
		put_sim_rules(f, o, sim);
	fclose(o);
	put_file(f, "Makefile", text, size);
	free(text);
}

static void put_weights(Folder *f)
{
	const Meta *meta = f->job->meta;

	if (f->code || !meta->nweights)
		return;
	f->code = meta_write_weights_file(meta, arena_printf(f->job->m->arena, "%s/%s", f->path,
		f->job->weights_name), f->job->m->diag);
}

int src_link(Job *job, int n, const char *path)
{
	Folder f = { .job = job, .path = path };
	char *objects = NULL, *sim = NULL, *libs = NULL;
	size_t size, sim_size, libs_size;

	if (n != 1) {
		diag_error(job->m->diag, X_USAGE, NULL, "--emit src takes one target");
		return X_USAGE;
	}
	if (mkdir(path, 0777) && errno != EEXIST) {
		diag_error(job->m->diag, X_TOOL, NULL, "cannot make the folder %s: %s", path,
			strerror(errno));
		return X_TOOL;
	}
	f.objects = open_memstream(&objects, &size);
	f.sim = open_memstream(&sim, &sim_size);
	FILE *l = open_memstream(&libs, &libs_size);
	if (!f.objects || !f.sim || !l)
		abort();
	put_parts(&f);
	put_runtime(&f);
	put_functions(&f, l);
	fclose(l);
	fclose(f.objects);
	fclose(f.sim);
	put_makefile(&f, objects, sim, libs);
	free(objects);
	free(sim);
	free(libs);
	put_weights(&f);
	return f.code;
}
