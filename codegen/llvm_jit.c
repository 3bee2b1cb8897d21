/* Compilation in memory: the objects of a job, linked into this process by ORC. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include "llvm.h"
#include "tool.h"
#include "runtime/abi.h"

struct Jit {
	LLVMOrcLLJITRef jit;
	const TccModel *model;
	void *weights;         /* the blob, 64-byte aligned */
	void *functions;       /* the user's, as a shared object; NULL: none */
};

void
jit_free(Jit *j)
{
	LLVMErrorRef e;

	if (!j)
		return;
	if (j->jit) {
		e = LLVMOrcDisposeLLJIT(j->jit);
		if (e)
			LLVMConsumeError(e);
	}
	if (j->functions)
		dlclose(j->functions);
	free(j->weights);
	free(j);
}

const TccModel *
jit_model(const Jit *j)
{
	return j->model;
}

static Jit *
failed(Jit *j, Job *job, const char *what, LLVMErrorRef e)
{
	char *text = e ? LLVMGetErrorMessage(e) : NULL;

	diag_error(job->m->diag, X_BUG, NULL, "%s: %s", what, text ? text : "");
	LLVMDisposeErrorMessage(text);
	jit_free(j);
	return NULL;
}

static void *
blob(const Meta *t)
{
	size_t size = ((size_t)t->weights_size + 63) / 64 * 64;
	char *p = aligned_alloc(64, size ? size : 64);
	int64_t at = 0;
	int i;

	if (!p)
		return NULL;
	for (i = 0; i < t->nweights; i++) {
		memset(p + at, 0, (size_t)(t->weights[i].offset - at));
		memcpy(p + t->weights[i].offset, t->weights[i].bytes, (size_t)t->weights[i].size);
		at = t->weights[i].offset + t->weights[i].size;
	}
	return p;
}

static LLVMErrorRef
define(LLVMOrcLLJITRef jit, const char *name, void *p)
{
	LLVMOrcCSymbolMapPair pair = {LLVMOrcLLJITMangleAndIntern(jit, name),
		{(LLVMOrcExecutorAddress)(uintptr_t)p, {LLVMJITSymbolGenericFlagsExported, 0}}};

	return LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(jit), LLVMOrcAbsoluteSymbols(&pair, 1));
}

/* The user's functions as one shared object, opened; exit code, after a message. */
static int
open_functions(Jit *j, Job *job, const Work *w)
{
	Command c = {.what = "the operators' functions"};
	const char *path = work_path(w, "functions.so");
	Vec files = {0};
	int i, r = functions_files(w, job, tool_cc(), &files);

	command_add_words(&c, job->m, tool_cc());
	command_add(&c, "-shared");
	command_add(&c, "-Wl,--no-as-needed");   /* of shared objects nothing is referred to */
	command_add(&c, "-o");
	command_add(&c, path);
	for (i = 0; i < files.n && i < 60; i++)
		command_add(&c, files.at[i]);
	command_add(&c, "-lm");
	if (!r)
		r = commands_run(w, &c, 1, 1);
	commands_free(&c, 1);
	if (!r && !(j->functions = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
		diag_error(job->m->diag, X_TOOL, NULL, "cannot open the operators' functions: %s", dlerror());
		r = X_TOOL;
	}
	return r;
}

/* false after a message */
static bool
define_functions(Jit *j, Job *job)
{
	int i, n, r;
	const Function *const *list = plan_functions(job->m, &n);
	LLVMErrorRef e;
	Work w;
	void *at;

	if (!list || !n)
		return list != NULL;
	r = work_open(&w, job->m);
	if (!r)
		r = open_functions(j, job, &w);
	work_close(&w);
	for (i = 0; i < n && !r; i++) {
		at = dlsym(j->functions, list[i]->symbol);
		e = at ? define(j->jit, list[i]->symbol, at) : NULL;
		if (e)
			LLVMConsumeError(e);
		if (!at || e) {
			diag_error(job->m->diag, X_INVALID, NULL, "%s has no function %s", list[i]->file,
				list[i]->symbol);
			r = X_INVALID;
		}
	}
	return !r;
}

Jit *
jit_load(Job *job)
{
	Jit *j = calloc(1, sizeof *j);
	const char *prefix = job->prefix ? job->prefix : "model";
	LLVMMemoryBufferRef buf;
	LLVMOrcExecutorAddress at;
	LLVMErrorRef e;
	char *triple;
	int i;

	if (!j)
		abort();
	job->kind = EMIT_OBJ;
	job->in_memory = true;
	job->weights_file = false;
	if (!job->nparts && codegen_emit(job)) {
		free(j);
		return NULL;
	}
	triple = LLVMGetDefaultTargetTriple();
	llvm_init(triple);
	LLVMDisposeMessage(triple);
	e = LLVMOrcCreateLLJIT(&j->jit, NULL);
	if (e)
		return failed(j, job, "cannot start the linker in memory", e);
	for (i = 0; i < job->nparts; i++) {
		if (job->parts[i].kind != PART_OBJECT)
			continue;
		buf = LLVMCreateMemoryBufferWithMemoryRangeCopy(job->parts[i].data, job->parts[i].size, "part");
		e = LLVMOrcLLJITAddObjectFile(j->jit, LLVMOrcLLJITGetMainJITDylib(j->jit), buf);
		if (e)
			return failed(j, job, "cannot load the object", e);
	}
	if (job->meta->nweights) {
		j->weights = blob(job->meta);
		if (!j->weights) {
			diag_error(job->m->diag, X_BUDGET, NULL, "no memory for %lld bytes of weights",
				(long long)job->meta->weights_size);
			jit_free(j);
			return NULL;
		}
		e = define(j->jit, arena_printf(job->m->arena, "%s_weights", prefix), j->weights);
		if (e)
			return failed(j, job, "cannot place the weights", e);
	}
	if (!define_functions(j, job)) {
		jit_free(j);
		return NULL;
	}
	e = LLVMOrcLLJITLookup(j->jit, &at, arena_printf(job->m->arena, "%s_tcc_model", prefix));
	if (e)
		return failed(j, job, "cannot link in memory", e);
	j->model = (const TccModel *)(uintptr_t)at;
	return j;
}
