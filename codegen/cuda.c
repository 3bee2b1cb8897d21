/*
 * The CUDA target: kernels as source of the device dialect, compiled to a cubin and PTX by NVRTC
 * (a library of the toolkit or of PyPI's nvidia-cuda-nvrtc, opened when needed) or by nvcc.
 */
#define _GNU_SOURCE     /* dladdr */
#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "codegen/embed.h"
#include "codegen/tool.h"
#include "runtime/abi.h"

/* ---- NVRTC -------------------------------------------------------------------------------------- */

typedef struct Program Program;

/* The entries that are used, as nvrtc.h declares them (nvrtcResult is an enum, 0 success). */
typedef struct Nvrtc {
	void *lib;
	int (*Version)(int *, int *);
	int (*CreateProgram)(Program **, const char *, const char *, int, const char *const *,
		const char *const *);
	int (*CompileProgram)(Program *, int, const char *const *);
	int (*GetProgramLogSize)(Program *, size_t *);
	int (*GetProgramLog)(Program *, char *);
	int (*GetCUBINSize)(Program *, size_t *);
	int (*GetCUBIN)(Program *, char *);
	int (*GetPTXSize)(Program *, size_t *);
	int (*GetPTX)(Program *, char *);
	int (*DestroyProgram)(Program **);
} Nvrtc;

static bool resolve(Nvrtc *n)
{
	const struct { void *at; const char *name; } entries[] = {
		{ &n->Version, "nvrtcVersion" }, { &n->CreateProgram, "nvrtcCreateProgram" },
		{ &n->CompileProgram, "nvrtcCompileProgram" },
		{ &n->GetProgramLogSize, "nvrtcGetProgramLogSize" },
		{ &n->GetProgramLog, "nvrtcGetProgramLog" },
		{ &n->GetCUBINSize, "nvrtcGetCUBINSize" }, { &n->GetCUBIN, "nvrtcGetCUBIN" },
		{ &n->GetPTXSize, "nvrtcGetPTXSize" }, { &n->GetPTX, "nvrtcGetPTX" },
		{ &n->DestroyProgram, "nvrtcDestroyProgram" } };

	for (size_t k = 0; k < sizeof entries / sizeof *entries; k++) {
		void *p = dlsym(n->lib, entries[k].name);
		if (!p)
			return false;
		memcpy(entries[k].at, &p, sizeof p);
	}
	return true;
}

static bool open_lib(Nvrtc *n, const char *path)
{
	n->lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (n->lib && resolve(n))
		return true;
	if (n->lib)
		dlclose(n->lib);
	n->lib = NULL;
	return false;
}

/* The newest file that the pattern names. */
static bool open_glob(Nvrtc *n, const char *dir, const char *pattern)
{
	char text[4096];
	glob_t g;
	bool ok = false;

	if (!dir || !*dir)
		return false;
	snprintf(text, sizeof text, "%s/%s", dir, pattern);
	if (glob(text, 0, NULL, &g) == 0)
		for (size_t k = g.gl_pathc; k-- > 0 && !ok;)
			ok = open_lib(n, g.gl_pathv[k]);
	globfree(&g);
	return ok;
}

#define PYPI "lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1[0-9]"

/* TCC_NVRTC names the library; else the toolkit, the loader's path, and virtual environments:
 * the active one, and the one that stands beside tcc-ml. */
static bool open_nvrtc(Nvrtc *n)
{
	static const char *const plain[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", NULL };
	const char *own = getenv("TCC_NVRTC");
	char exe[4096];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 16);

	if (own && *own)
		return open_lib(n, own);
	if (open_glob(n, getenv("CUDA_HOME"), "lib64/libnvrtc.so.1[0-9]") ||
			open_glob(n, getenv("CUDA_PATH"), "lib64/libnvrtc.so.1[0-9]"))
		return true;
	for (int k = 0; plain[k]; k++)
		if (open_lib(n, plain[k]))
			return true;
	if (open_glob(n, "/usr/local/cuda", "lib64/libnvrtc.so.1[0-9]") ||
			open_glob(n, getenv("VIRTUAL_ENV"), PYPI))
		return true;
	for (int up = 0; up < 4 && len > 0; up++) {      /* build/tcc-ml, build/tests/x/test_x */
		while (len > 0 && exe[len - 1] != '/')
			len--;
		if (len < 2)
			break;
		exe[--len] = 0;
		strcpy(exe + len, "/venv");
		bool ok = open_glob(n, exe, PYPI);
		exe[len] = 0;
		if (ok)
			return true;
	}
	return open_glob(n, ".", "build/venv/" PYPI);
}

bool cuda_nvrtc(int *major, int *minor, char *where, size_t size)
{
	Nvrtc n = { 0 };
	Dl_info info;

	if (!open_nvrtc(&n) || n.Version(major, minor))
		return false;
	if (dladdr(dlsym(n.lib, "nvrtcVersion"), &info))
		snprintf(where, size, "%s", info.dli_fname);
	return true;
}

/* ---- what ptxas -v says ---------------------------------------------------------------------- */

static int number_before(const char *line, const char *end, const char *what)
{
	const char *p = strstr(line, what);

	if (!p || p > end)
		return 0;
	while (p > line && p[-1] == ' ')
		p--;
	while (p > line && p[-1] >= '0' && p[-1] <= '9')
		p--;
	return atoi(p);
}

static void read_ptxas(Job *job, const char *log)
{
	KernelUse *u = NULL;

	for (const char *p = log ? log : ""; *p;) {
		const char *end = p + strcspn(p, "\n"), *q;
		if ((q = strstr(p, "Compiling entry function '")) && q < end) {
			q += strlen("Compiling entry function '");
			u = gpu_use(job, q, strcspn(q, "'\n"));
		} else if (u && number_before(p, end, " bytes stack frame")) {
			u->local = number_before(p, end, " bytes stack frame");
		}
		if (u && (q = strstr(p, "bytes spill stores")) && q < end)
			u->spills = number_before(p, end, " bytes spill stores");
		if (u && (q = strstr(p, " registers")) && q < end) {
			u->registers = number_before(p, end, " registers");
			u->shared = number_before(p, end, " bytes smem");
		}
		p = end + (*end == '\n');
	}
}

/* ---- compiling ---------------------------------------------------------------------------------- */

static int failed(Job *job, const char *what, const char *log)
{
	diag_error(job->m->diag, X_TOOL, NULL, "%s for %s:\n%.2000s", what, job->machine->name,
		log ? log : "");
	return X_TOOL;
}

static char *fetch(Nvrtc *n, Program *p, bool ptx, size_t *size)
{
	char *data;

	if ((ptx ? n->GetPTXSize : n->GetCUBINSize)(p, size) || *size == 0 || !(data = malloc(*size)))
		return NULL;
	if ((ptx ? n->GetPTX : n->GetCUBIN)(p, data)) {
		free(data);
		return NULL;
	}
	return data;
}

static char *log_of(Nvrtc *n, Program *p)
{
	size_t size;
	char *log;

	if (n->GetProgramLogSize(p, &size) || !(log = calloc(1, size + 1)))
		return NULL;
	n->GetProgramLog(p, log);
	return log;
}

static const char *ptx_name(Job *job)
{
	return arena_printf(job->m->arena, "compute_%s", job->machine->name + 3);
}

static int with_nvrtc(Job *job, Nvrtc *n, const char *text)
{
	const struct tcc_embed *dev = gpu_header(job);
	const char *header = dev ? dev->data : "", *include = "tcc_dev.h";
	/* with no limit ptxas spills a register or two to run more blocks at once */
	const char *opts[] = { arena_printf(job->m->arena, "--gpu-architecture=%s", job->machine->name),
		"--fmad=false", "--std=c++17", "--maxrregcount=255", "--ptxas-options=-v" };
	int nopts = sizeof opts / sizeof *opts, rc;
	Program *p;
	size_t size, ptx_size;

	if (n->CreateProgram(&p, text, "kernels.cu", 1, &header, &include))
		return failed(job, "NVRTC does not start", NULL);
	rc = n->CompileProgram(p, nopts, opts);
	char *log = log_of(n, p), *cubin = rc ? NULL : fetch(n, p, false, &size);
	char *ptx = rc ? NULL : fetch(n, p, true, &ptx_size);
	if (cubin && ptx) {
		read_ptxas(job, log);
		job_part(job, PART_IMAGE, job->machine->name, cubin, size);
		job_part(job, PART_IMAGE, ptx_name(job), ptx, ptx_size);
	} else {
		rc = failed(job, "NVRTC does not compile the kernels", log);
	}
	free(cubin);
	free(ptx);
	free(log);
	n->DestroyProgram(&p);
	return rc ? X_TOOL : X_OK;
}

static void nvcc_command(Job *job, const Work *w, Command *c, const char *what, const char *out)
{
	const char *args[] = { "nvcc", what, arena_printf(job->m->arena, "-arch=%s", job->machine->name),
		"--fmad=false", "-std=c++17", "--maxrregcount=255", "-Xptxas", "-v", work_path(w, "kernels.cu"), "-o",
		work_path(w, out) };

	c->what = "the CUDA target";
	for (size_t k = 0; k < sizeof args / sizeof *args; k++)
		command_add(c, args[k]);
}

static int with_nvcc(Job *job, const char *text, size_t size)
{
	Command c[2] = { 0 };
	Work w;
	int code = work_open(&w, job->m);

	if (code == X_OK)
		code = work_write(&w, "tcc_dev.h", gpu_header(job)->data, gpu_header(job)->size);
	if (code == X_OK)
		code = work_write(&w, "kernels.cu", text, size);
	if (code == X_OK) {
		nvcc_command(job, &w, &c[0], "-cubin", "cubin");
		nvcc_command(job, &w, &c[1], "-ptx", "ptx");
		code = commands_run(&w, c, 2, job->jobs);
	}
	if (code == X_OK) {
		size_t nc = 0, np = 0;
		char *cubin = file_read(work_path(&w, "cubin"), &nc), *ptx = file_read(work_path(&w, "ptx"), &np);
		read_ptxas(job, c[0].output);
		if (cubin)
			job_part(job, PART_IMAGE, job->machine->name, cubin, nc);
		if (ptx)
			job_part(job, PART_IMAGE, ptx_name(job), ptx, np + 1);
		if (!cubin || !ptx)
			code = failed(job, "nvcc wrote no image", NULL);
		free(cubin);
		free(ptx);
	}
	commands_free(c, 2);
	work_close(&w);
	return code;
}

static int images(Job *job, const char *text, size_t size)
{
	Nvrtc n = { 0 };
	bool nvcc = job->backend && !strcmp(job->backend, "nvcc");

	if (job->m->kernels.n == 0)
		return X_OK;
	if (!nvcc && open_nvrtc(&n))
		return with_nvrtc(job, &n, text);     /* stays open: closing it is slow, and unsafe */
	if (nvcc || tool_found("nvcc"))
		return with_nvcc(job, text, size);
	return failed(job, "no CUDA compiler: pip install nvidia-cuda-nvrtc, or set TCC_NVRTC to a "
		"libnvrtc.so, or install the toolkit's nvcc; it is needed", NULL);
}

static int emit(Job *job)
{
	size_t size;

	if (job->simulate)
		return sim_image(job);
	char *text = gpu_source(job, job->kind == EMIT_SRC, &size);
	if (!text)
		return X_BUG;
	job_part(job, PART_TEXT, "kernels.cu", text, size);
	int code = job->kind == EMIT_SRC ? X_OK : images(job, text, size);
	free(text);
	gpu_report(job);
	return code ? code : gpu_host(job, TCC_IMAGE_CUDA);
}

static bool takes(const Machine *t) { return t->kind == M_CUDA; }

const Target target_cuda = {
	.name = "cuda",
	.doc = "CUDA source, compiled by NVRTC or nvcc",
	.kinds = 1 << EMIT_EXE | 1 << EMIT_SO | 1 << EMIT_A | 1 << EMIT_OBJ | 1 << EMIT_SRC |
		1 << EMIT_PTX | 1 << EMIT_CUBIN,
	.takes = takes,
	.describe = gpu_describe,
	.emit = emit,
	.link = gpu_link,
};
