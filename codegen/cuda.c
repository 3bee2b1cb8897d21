/*
 * The CUDA target: kernels as source of the device dialect, compiled to a cubin and PTX by NVRTC
 * (a library of the toolkit or of PyPI's nvidia-cuda-nvrtc, opened when needed) or by nvcc.
 */
#define _GNU_SOURCE     /* dladdr, memfd_create */
#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "codegen/embed.h"
#include "codegen/tool.h"
#include "runtime/abi.h"

/* ---- where NVRTC is -------------------------------------------------------------------------- */

typedef struct Paths { int n; char *at[64]; } Paths;

static void add_path(Paths *p, const char *path)
{
	if (p->n < (int)(sizeof p->at / sizeof *p->at) && (p->at[p->n] = strdup(path)))
		p->n++;
}

static void free_paths(Paths *p)
{
	for (int k = 0; k < p->n; k++)
		free(p->at[k]);
	p->n = 0;
}

/* The files that the pattern names, the newest version first. */
static void add_glob(Paths *p, const char *dir, const char *pattern)
{
	char text[4096];
	glob_t g;

	if (!dir || !*dir)
		return;
	snprintf(text, sizeof text, "%s/%s", dir, pattern);
	if (glob(text, 0, NULL, &g) == 0)
		for (size_t k = g.gl_pathc; k-- > 0;)
			add_path(p, g.gl_pathv[k]);
	globfree(&g);
}

#define TOOLKIT "lib64/libnvrtc.so.1[0-9]"
#define PYPI "lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1[0-9]"

/* Virtual environments that stand beside the program: build/tcc-ml, build/tests/x/test_x. */
static void add_beside(Paths *p)
{
	char exe[4096];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 16);

	for (int up = 0; up < 4 && len > 0; up++) {
		while (len > 0 && exe[len - 1] != '/')
			len--;
		if (len < 2)
			break;
		exe[--len] = 0;
		strcpy(exe + len, "/venv");
		add_glob(p, exe, PYPI);
		exe[len] = 0;
	}
}

/* TCC_NVRTC names the library; else the toolkit, the loader's path, virtual environments. */
static void find_nvrtc(Paths *p)
{
	const char *own = getenv("TCC_NVRTC");

	if (own && *own) {
		add_path(p, own);
		return;
	}
	add_glob(p, getenv("CUDA_HOME"), TOOLKIT);
	add_glob(p, getenv("CUDA_PATH"), TOOLKIT);
	add_path(p, "libnvrtc.so.13");
	add_path(p, "libnvrtc.so.12");
	add_path(p, "libnvrtc.so");
	add_glob(p, "/usr/local/cuda", TOOLKIT);
	add_glob(p, getenv("VIRTUAL_ENV"), PYPI);
	add_beside(p);
	add_glob(p, ".", "build/venv/" PYPI);
}

bool cuda_nvrtc(int *major, int *minor, char *where, size_t size)
{
	Paths p = { 0 };
	int (*version)(int *, int *) = NULL;
	Dl_info info;

	find_nvrtc(&p);
	for (int k = 0; k < p.n && !version; k++) {
		void *lib = dlopen(p.at[k], RTLD_NOW | RTLD_LOCAL),
			*fn = lib ? dlsym(lib, "nvrtcVersion") : NULL;
		memcpy(&version, &fn, sizeof fn);
	}
	free_paths(&p);
	if (!version || version(major, minor))
		return false;
	if (dladdr((void *)version, &info))
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

/* ---- compiling ------------------------------------------------------------------------------- */

enum { NO_NVRTC = -1 };

static int failed(Job *job, const char *what, const char *log)
{
	diag_error(job->m->diag, X_TOOL, NULL, "%s for %s%s%.2000s", what, job->machine->name,
		log ? ":\n" : "", log ? log : "");
	return X_TOOL;
}

static const char *ptx_name(Job *job)
{
	return arena_printf(job->m->arena, "compute_%s", job->machine->arch + 3);
}

/* Adds the images that lie in the folder. */
static int take_images(Job *job, const Work *w)
{
	size_t nc = 0, np = 0;
	char *cubin = file_read(work_path(w, "cubin"), &nc), *ptx = file_read(work_path(w, "ptx"), &np);
	int code = cubin && ptx ? X_OK : failed(job, "the CUDA compiler wrote no image", NULL);

	if (code == X_OK) {
		job_part(job, PART_IMAGE, job->machine->arch, cubin, nc);
		/* the lowest machine's will do for what is newer than all */
		if (!job->covers)
			job_part(job, PART_IMAGE, ptx_name(job), ptx, strlen(ptx) + 1);
	}
	free(cubin);
	free(ptx);
	return code;
}

static int write_source(Job *job, const Work *w, const char *text, size_t size)
{
	const struct tcc_embed *dev = gpu_header(job, "tcc_dev.h");
	int code = dev ? work_write(w, "tcc_dev.h", dev->data, dev->size) : X_BUG;
	return code ? code : work_write(w, "kernels.cu", text, size);
}

/* The worker (worker/nvrtc.c) as a file in memory, to run as /proc/self/fd/N; -1: none. */
static int worker_file(void)
{
	int fd = -1;

	for (const struct tcc_embed *e = tcc_embed; e->name; e++) {
		size_t n = strlen(e->name), k = strlen("nvrtc_worker");
		if (n < k || strcmp(e->name + n - k, "nvrtc_worker"))
			continue;
		fd = memfd_create("nvrtc_worker", 0);
		for (size_t at = 0; fd >= 0 && at < e->size;) {
			ssize_t put = write(fd, (const char *)e->data + at, e->size - at);
			if (put <= 0)
				return -1;
			at += (size_t)put;
		}
	}
	return fd;
}

static int with_nvrtc(Job *job, const Work *w)
{
	Module *m = job->m;
	int fd = worker_file();
	/* with no limit ptxas spills a register or two to run more blocks at once */
	const char *args[] = { arena_printf(m->arena, "/proc/self/fd/%d", fd), w->dir,
		arena_printf(m->arena, "--gpu-architecture=%s", job->machine->arch), "--fmad=false",
		"--std=c++17", "--maxrregcount=255", "--ptxas-options=-v", "--" };
	Command c = { .what = "the CUDA target", .quiet = true };
	Paths p = { 0 };

	if (fd < 0)
		return failed(job, "NVRTC cannot be run", NULL);
	for (size_t k = 0; k < sizeof args / sizeof *args; k++)
		command_add(&c, args[k]);
	find_nvrtc(&p);
	for (int k = 0; k < p.n; k++)
		command_add(&c, p.at[k]);
	commands_run(w, &c, 1, 1);
	free_paths(&p);
	close(fd);
	char *log = file_read(work_path(w, "log"), NULL);
	int code = X_OK;
	if (c.status == 2 && !job->backend)
		code = NO_NVRTC;
	else if (c.status)
		code = failed(job, "NVRTC does not compile the kernels", log ? log : c.output);
	else
		read_ptxas(job, log);
	free(log);
	commands_free(&c, 1);
	return code;
}

static void nvcc_command(Job *job, const Work *w, Command *c, const char *what, const char *out)
{
	const char *args[] = { "nvcc", what,
		arena_printf(job->m->arena, "-arch=%s", job->machine->arch),
		"--fmad=false", "-std=c++17", "--maxrregcount=255", "-Xptxas", "-v",
		work_path(w, "kernels.cu"), "-o", work_path(w, out) };

	c->what = "the CUDA target";
	for (size_t k = 0; k < sizeof args / sizeof *args; k++)
		command_add(c, args[k]);
}

static int with_nvcc(Job *job, const Work *w)
{
	Command c[2] = { 0 };

	nvcc_command(job, w, &c[0], "-cubin", "cubin");
	nvcc_command(job, w, &c[1], "-ptx", "ptx");
	int code = commands_run(w, c, 2, job->jobs);
	if (code == X_OK)
		read_ptxas(job, c[0].output);
	commands_free(c, 2);
	return code;
}

/* Compiles the source in the folder: there lie cubin and ptx then. */
static int compile(Job *job, const Work *w, const char *text, size_t size)
{
	bool nvcc = job->backend && !strcmp(job->backend, "nvcc");
	int code = write_source(job, w, text, size);

	if (code == X_OK)
		code = nvcc ? NO_NVRTC : with_nvrtc(job, w);
	if (code == NO_NVRTC && (nvcc || tool_found("nvcc")))
		code = with_nvcc(job, w);
	if (code == NO_NVRTC)
		return failed(job,
			"no NVRTC and no nvcc: pip install nvidia-cuda-nvrtc, or set TCC_NVRTC to a "
			"libnvrtc.so, or install the CUDA toolkit; one is needed", NULL);
	return code;
}

static int images(Job *job, const char *text, size_t size)
{
	Work w;
	int code = job->m->kernels.n ? work_open(&w, job->m) : X_OK;

	if (code || job->m->kernels.n == 0)
		return code;
	code = compile(job, &w, text, size);
	if (code == X_OK)
		code = take_images(job, &w);
	work_close(&w);
	return code;
}

char *cuda_ptx(Job *job, const char *text, size_t size)
{
	char *ptx = NULL;
	Work w;

	if (work_open(&w, job->m))
		return NULL;
	if (compile(job, &w, text, size) == X_OK) {
		ptx = file_read(work_path(&w, "ptx"), NULL);
		if (!ptx)
			failed(job, "the CUDA compiler wrote no PTX", NULL);
	}
	work_close(&w);
	return ptx;
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
