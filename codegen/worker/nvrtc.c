/*
 * A program of its own that runs NVRTC once. NVRTC's optimizer orders some of its work by the
 * addresses of its objects, so the code it makes differs between runs of one program; here
 * addresses are not random (where the system allows that), the environment is empty and the stack
 * is a fresh one, so that equal sources give equal code.
 *
 * usage: nvrtc_worker DIR OPTION... -- LIBRARY...
 * Reads kernels.cu and tcc_dev.h in DIR; writes cubin, ptx and log there. The libraries are tried in
 * turn. Exit code: 0; 1: the compilation failed, see the log; 2: no library opens; 3: anything else.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

typedef struct Program Program;

static struct {
	int (*CreateProgram)(Program **, const char *, const char *, int, const char *const *,
		const char *const *);
	int (*CompileProgram)(Program *, int, const char *const *);
	int (*GetProgramLogSize)(Program *, size_t *);
	int (*GetProgramLog)(Program *, char *);
	int (*GetCUBINSize)(Program *, size_t *);
	int (*GetCUBIN)(Program *, char *);
	int (*GetPTXSize)(Program *, size_t *);
	int (*GetPTX)(Program *, char *);
} rtc;

static int resolve(const char *path)
{
	const struct { void *at; const char *name; } entries[] = {
		{ &rtc.CreateProgram, "nvrtcCreateProgram" },
		{ &rtc.CompileProgram, "nvrtcCompileProgram" },
		{ &rtc.GetProgramLogSize, "nvrtcGetProgramLogSize" },
		{ &rtc.GetProgramLog, "nvrtcGetProgramLog" },
		{ &rtc.GetCUBINSize, "nvrtcGetCUBINSize" }, { &rtc.GetCUBIN, "nvrtcGetCUBIN" },
		{ &rtc.GetPTXSize, "nvrtcGetPTXSize" }, { &rtc.GetPTX, "nvrtcGetPTX" } };
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	for (size_t k = 0; lib && k < sizeof entries / sizeof *entries; k++) {
		void *p = dlsym(lib, entries[k].name);
		if (!p)
			return 0;
		memcpy(entries[k].at, &p, sizeof p);
	}
	return lib != NULL;
}

static char *text_of(const char *name)
{
	FILE *f = fopen(name, "rb");
	char *p = NULL;
	long n;

	if (f && fseek(f, 0, SEEK_END) == 0 && (n = ftell(f)) >= 0 && fseek(f, 0, SEEK_SET) == 0 &&
			(p = calloc(1, (size_t)n + 1)) && fread(p, 1, (size_t)n, f) != (size_t)n)
		p = NULL;
	if (f)
		fclose(f);
	return p;
}

static int put(Program *p, const char *name, int (*size_of)(Program *, size_t *),
	int (*get)(Program *, char *))
{
	size_t size;
	char *data;
	FILE *f;

	if (size_of(p, &size) || !(data = calloc(1, size + 1)) || get(p, data) || !(f = fopen(name, "wb")))
		return 3;
	int bad = fwrite(data, 1, size, f) != size;
	return fclose(f) || bad ? 3 : 0;
}

typedef struct Work { int nopts, code; char **opts; } Work;

static void *compile(void *arg)
{
	Work *w = arg;
	const char *header = text_of("tcc_dev.h"), *include = "tcc_dev.h", *text = text_of("kernels.cu");
	Program *p;

	w->code = 3;
	if (!header || !text || rtc.CreateProgram(&p, text, "kernels.cu", 1, &header, &include))
		return NULL;
	int failed = rtc.CompileProgram(p, w->nopts, (const char *const *)w->opts);
	w->code = put(p, "log", rtc.GetProgramLogSize, rtc.GetProgramLog);
	if (failed)
		w->code = 1;
	if (w->code == 0)
		w->code = put(p, "cubin", rtc.GetCUBINSize, rtc.GetCUBIN);
	if (w->code == 0)
		w->code = put(p, "ptx", rtc.GetPTXSize, rtc.GetPTX);
	return NULL;
}

static int run(char **opts)
{
	Work w = { .opts = opts };
	pthread_attr_t attr;
	pthread_t t;
	char **lib;

	while (opts[w.nopts] && strcmp(opts[w.nopts], "--"))
		w.nopts++;
	if (!opts[w.nopts])
		return 3;
	for (lib = opts + w.nopts + 1; *lib && !resolve(*lib); lib++)
		;
	if (!*lib)
		return 2;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 20);
	if (pthread_create(&t, &attr, compile, &w) || pthread_join(t, NULL))
		return 3;
	return w.code;
}

int main(int argc, char **argv)
{
	char path[4096], *env[] = { "NVRTC_WORKER=1", path, NULL };
	const char *libs = getenv("LD_LIBRARY_PATH");
	int now = personality(0xffffffff);

	if (argc < 4)
		return 3;
	if (!getenv("NVRTC_WORKER") && now != -1) {
		snprintf(path, sizeof path, "LD_LIBRARY_PATH=%s", libs ? libs : "");
		personality((unsigned long)now | ADDR_NO_RANDOMIZE);
		execve("/proc/self/exe", argv, env);
	}
	int code = chdir(argv[1]) ? 3 : run(argv + 2);
	fflush(NULL);
	_exit(code);           /* the library's destructors are slow */
}
