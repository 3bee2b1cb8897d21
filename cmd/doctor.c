/* doctor: what is installed, what is missing and the command that installs it. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "cmd.h"
#include "codegen/tool.h"

typedef struct Finding {
	const char *name, *purpose, *install;
	bool needed, found;
	char what[300];
} Finding;

/* The first line of what a program prints with --version. */
static bool
program(const char *name, const char *arg, char *what, size_t size)
{
	char command[300], *nl;
	FILE *p;

	if (!tool_found(name))
		return false;
	snprintf(what, size, "found");
	snprintf(command, sizeof command, "</dev/null 2>/dev/null %s %s", name, arg);
	p = popen(command, "r");
	if (!p)
		return true;
	if (!fgets(what, (int)size, p))
		snprintf(what, size, "found");
	nl = strchr(what, '\n');
	if (nl)
		*nl = 0;
	while (fgetc(p) != EOF)
		;
	pclose(p);
	return true;
}

static bool
nvcc(char *what, size_t size)
{
	char all[300] = "";

	/* its version stands in the fourth line */
	if (!program("nvcc", "--version | sed -n 's/.*release \\([0-9.]*\\).*/nvcc \\1/p'", all,
		sizeof all))
		return false;
	snprintf(what, size, "%s", all);
	return true;
}

static bool
nvrtc(char *what, size_t size)
{
	char where[200];
	int major, minor;

	if (!cuda_nvrtc(&major, &minor, where, sizeof where))
		return false;
	snprintf(what, size, "NVRTC %d.%d, %s", major, minor, where);
	return true;
}

static bool
library(const char *name, char *what, size_t size)
{
	void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		return false;
	snprintf(what, size, "%s", name);
	dlclose(lib);
	return true;
}

static bool
llvm(char *what, size_t size)
{
	snprintf(what, size, "LLVM %s, within tcc-ml", codegen_llvm_version());
	return true;
}

static bool
runtime(char *what, size_t size)
{
	snprintf(what, size, "tcc-ml %s, ABI %d", TCC_ML_VERSION, TCC_ABI_VERSION);
	return true;
}

enum Probe { PROGRAM, LIBRARY, FUNCTION };

/* name, how it is found, function, what it is for, what installs it, do executables need it? */
static const struct Row {
	const char *name;
	enum Probe probe;
	bool (*fn)(char *, size_t);
	const char *purpose, *install;
	bool needed;
} rows[] = {
	{"tcc-ml", FUNCTION, runtime, "this program", "", true},
	{"llvm", FUNCTION, llvm, "code for CPUs", "", true},
	{"cc", PROGRAM, NULL,
		"links executables and libraries; compiles --target c", "apt install gcc libc6-dev", true},
	{"ar", PROGRAM, NULL, "makes archives", "apt install binutils", false},
	{"clang-22", PROGRAM, NULL,
		"compiles AMD kernels, and every kernel for --simulate", "apt install clang-22", false},
	{"ld.lld-22", PROGRAM, NULL, "links AMD code objects", "apt install lld-22", false},
	{"llvm-readelf-22", PROGRAM, NULL,
		"reads the registers that AMD kernels use", "apt install llvm-22", false},
	{"nvrtc", FUNCTION, nvrtc, "compiles NVIDIA kernels", "pip install nvidia-cuda-nvrtc", false},
	{"nvcc", FUNCTION, nvcc,
		"compiles NVIDIA kernels, with --cuda-compiler nvcc", "install the CUDA toolkit", false},
	{"libcuda.so.1", LIBRARY, NULL,
		"runs programs on NVIDIA GPUs", "install NVIDIA's driver", false},
	{"libamdhip64.so", LIBRARY, NULL,
		"runs programs on AMD GPUs", "install ROCm's HIP runtime", false},
	{"aarch64-linux-gnu-gcc", PROGRAM, NULL,
		"links programs for aarch64", "apt install gcc-aarch64-linux-gnu "
		"libc6-dev-arm64-cross", false},
	{"qemu-aarch64", PROGRAM, NULL,
		"runs programs for aarch64 here", "apt install qemu-user", false},
	{"riscv64-linux-gnu-gcc", PROGRAM, NULL,
		"links programs for riscv64", "apt install gcc-riscv64-linux-gnu "
		"libc6-dev-riscv64-cross", false},
	{"qemu-riscv64", PROGRAM, NULL,
		"runs programs for riscv64 here", "apt install qemu-user", false},
};

static Finding
probe(const struct Row *r)
{
	Finding f = {.name = r->name, .purpose = r->purpose, .install = r->install,
		.needed = r->needed};

	switch (r->probe) {
	case PROGRAM: f.found = program(r->name, "--version", f.what, sizeof f.what); break;
	case LIBRARY: f.found = library(r->name, f.what, sizeof f.what); break;
	case FUNCTION: f.found = r->fn(f.what, sizeof f.what); break;
	}
	return f;
}

int
cmd_doctor(const Options *o)
{
	cJSON *json = json_new(o), *list = json_list(json, "tools"), *j;
	bool text = !o->json || *o->json;
	int code = X_OK;
	size_t i;

	for (i = 0; i < TCC_COUNT(rows); i++) {
		Finding f = probe(&rows[i]);
		if (f.needed && !f.found)
			code = X_TOOL;
		j = json_add(list);
		json_text(j, "name", f.name);
		json_flag(j, "found", f.found);
		json_flag(j, "needed", f.needed);
		json_text(j, "purpose", f.purpose);
		json_text(j, f.found ? "what" : "install", f.found ? f.what : f.install);
		if (text && f.found)
			printf("ok       %-22s %s\n", f.name, f.what);
		else if (text)
			printf("missing  %-22s %s: %s\n", f.name, f.purpose, f.install);
	}
	if (code)
		complain(code, "executables cannot be made: see what is missing");
	return json_end(o, json, code);
}
