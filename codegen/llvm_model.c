/* The descriptor of a compiled model (TccModel) with its tables, images and kernel pointers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "llvm.h"
#include "ir/machine.h"
#include "runtime/abi.h"

static bool
multiplies_by(Region *r, const char *feature, size_t len)
{
	const char *f;
	Node *s;
	int i, k;

	for (i = 0; r && i < r->nresults; i++) {
		s = r->results[i];
		f = s->code == O_MMA ? mma_feature(mma_find(s->name)) : NULL;
		if (f && (strncmp("amx-tile", feature, len) == 0
			|| (strlen(f) == len && strncmp(f, feature, len) == 0)))
			return true;
		for (k = 0; k < s->nregions; k++)
			if (multiplies_by(s->regions[k], feature, len))
				return true;
	}
	return false;
}

/* Has a kernel an instruction of the matrix unit that takes the feature? */
static bool
takes_unit(Module *m, const char *feature, size_t len)
{
	int i;

	for (i = 0; i < m->kernels.n; i++)
		if (multiplies_by(((Kernel *)m->kernels.at[i])->body, feature, len))
			return true;
	return false;
}

/* Features that the code may use, as the runtime checks them; of the matrix unit what kernels use. */
char *
needs_of(Module *m, const Machine *t)
{
	const char *p = t->has ? t->has : "";
	char *s = arena_alloc(m->arena, strlen(p) + 1), *out = s;
	size_t n;

	if (strncmp(t->triple, "wasm", 4) == 0)
		return NULL;
	for (; *p; p += n + (p[n] == ',')) {
		n = strcspn(p, ",");
		if (strncmp(p, "amx", 3) == 0 && !takes_unit(m, p, n))
			continue;
		if (out != s)
			*out++ = ',';
		memcpy(out, p, n);
		out += n;
	}
	return *s ? s : NULL;
}

static Val
global(Chunk *c, const char *name, Val init, unsigned align)
{
	Val g = LLVMAddGlobal(c->mod, LLVMTypeOf(init), name);

	LLVMSetInitializer(g, init);
	LLVMSetGlobalConstant(g, true);
	LLVMSetLinkage(g, LLVMPrivateLinkage);
	LLVMSetAlignment(g, align);
	return g;
}

static Val
bytes(Chunk *c, const char *name, const void *p, size_t n, unsigned align)
{
	return global(c, name, LLVMConstStringInContext2(c->cx, p, n, true), align);
}

static Val
null(Chunk *c)
{
	return LLVMConstNull(LLVMPointerTypeInContext(c->cx, 0));
}

static Val
string(Chunk *c, const char *s)
{
	return s ? bytes(c, "s", s, strlen(s) + 1, 1) : null(c);
}

static Val
i32(Chunk *c, uint64_t v)
{
	return LLVMConstInt(LLVMInt32TypeInContext(c->cx), v, false);
}

static Val
i64(Chunk *c, uint64_t v)
{
	return LLVMConstInt(LLVMInt64TypeInContext(c->cx), v, false);
}

static Val
external(Chunk *c, Ty t, const char *name, bool function)
{
	Val g = LLVMGetNamedFunction(c->mod, name);

	if (!g)
		g = LLVMGetNamedGlobal(c->mod, name);
	if (!g) {
		g = function ? LLVMAddFunction(c->mod, name, t) : LLVMAddGlobal(c->mod, t, name);
		LLVMSetVisibility(g, LLVMHiddenVisibility);
	}
	return g;
}

static Val
kernels(Chunk *c, char *const *names, int n)
{
	Ty p = LLVMPointerTypeInContext(c->cx, 0), l = LLVMInt64TypeInContext(c->cx);
	Ty t = LLVMFunctionType(LLVMVoidTypeInContext(c->cx), (Ty[]){p, p, l, l, p, p}, 6, false);
	Val *v = malloc(sizeof *v * ((size_t)n + 1)), g;
	int i;

	if (!v)
		abort();
	for (i = 0; i < n; i++)
		v[i] = external(c, t, names[i], true);
	g = global(c, "kernels", LLVMConstArray2(p, v, (uint64_t)n), 8);
	free(v);
	return g;
}

static Val
images(Chunk *c, uint64_t *n)
{
	Ty p = LLVMPointerTypeInContext(c->cx, 0), l = LLVMInt64TypeInContext(c->cx);
	Ty t = LLVMStructTypeInContext(c->cx, (Ty[]){p, p, l}, 3, false);
	Val row[64], g;
	const Part *part;
	int i;

	for (*n = 0, i = 0; i < c->job->nparts && *n < 64; i++) {
		part = &c->job->parts[i];
		if (part->kind != PART_IMAGE)
			continue;
		row[*n] = LLVMConstStructInContext(c->cx, (Val[]){string(c, part->name),
			bytes(c, "image", part->data, part->size, 64), i64(c, part->size)}, 3, false);
		(*n)++;
	}
	if (!*n)
		return null(c);
	g = LLVMConstArray2(t, row, *n);
	return global(c, "images", g, 8);
}

/* The other variants' symbols: P_v1_tcc_model ... */
static const char *
symbol(Chunk *c, int variant, const char *what)
{
	const char *p = c->job->prefix ? c->job->prefix : "model";

	return variant ? arena_printf(c->job->m->arena, "%s_v%d_%s", p, variant, what)
		: arena_printf(c->job->m->arena, "%s_%s", p, what);
}

/* ELF objects get their weights from an object of their own; WebAssembly's hold them. */
bool
llvm_weights_inside(const Job *job)
{
	return job->machine->kind == M_CPU && strncmp(job->machine->triple, "wasm", 4) == 0;
}

static Val
weights(Chunk *c, const Meta *meta)
{
	char *blob;
	Val g;
	int i;

	if (!llvm_weights_inside(c->job))
		return external(c, LLVMInt8TypeInContext(c->cx), symbol(c, c->job->variant, "weights"), false);
	blob = calloc(1, (size_t)meta->weights_size + 1);
	if (!blob)
		abort();
	for (i = 0; i < meta->nweights; i++)
		memcpy(blob + meta->weights[i].offset, meta->weights[i].bytes, (size_t)meta->weights[i].size);
	g = bytes(c, "weights", blob, (size_t)meta->weights_size, 64);
	free(blob);
	return g;
}

/* The user's functions, from objects that are linked beside; null without any. */
static Val
functions(Chunk *c, int *n)
{
	const Function *const *list = plan_functions(c->job->m, n);
	Ty p = LLVMPointerTypeInContext(c->cx, 0), t;
	Val v[256];
	int i;

	if (!list || !*n)
		return *n = 0, null(c);
	t = LLVMFunctionType(LLVMInt32TypeInContext(c->cx), &p, 1, false);
	for (i = 0; i < *n; i++) {
		v[i] = LLVMGetNamedFunction(c->mod, list[i]->symbol);
		if (!v[i])
			v[i] = LLVMAddFunction(c->mod, list[i]->symbol, t);
	}
	return global(c, "functions", LLVMConstArray2(p, v, (uint64_t)*n), 8);
}

void
emit_model(Chunk *c, char *const *names, int image_kind, const char *plan)
{
	const Job *job = c->job;
	const Meta *meta = job->meta;
	Ty p = LLVMPointerTypeInContext(c->cx, 0);
	Ty pt = LLVMFunctionType(LLVMInt32TypeInContext(c->cx), &p, 1, false), t;
	const Machine *cpu = image_kind && job->host ? job->host : job->machine;
	uint64_t nimages;
	int nfunctions;
	Val f[15], im = images(c, &nimages), model;
	bool embed = meta->nweights && !job->weights_file;

	f[0] = i32(c, TCC_ABI_VERSION);
	f[1] = i32(c, (uint64_t)image_kind);
	f[2] = string(c, job->target_text ? job->target_text : job->machine->name);
	f[3] = string(c, needs_of(job->m, cpu));
	f[4] = bytes(c, "meta", meta->bytes, meta->size, 8);
	f[5] = i64(c, meta->size);
	f[6] = embed ? weights(c, meta) : null(c);
	f[7] = i64(c, (uint64_t)meta->weights_size);
	f[8] = image_kind ? null(c) : kernels(c, names, job->m->kernels.n);
	f[9] = external(c, pt, plan, true);
	f[10] = im;
	f[11] = i64(c, nimages);
	f[12] = job->variant + 1 < job->nvariants
		? external(c, LLVMInt8TypeInContext(c->cx), symbol(c, job->variant + 1, "tcc_model"), false) : null(c);
	f[13] = functions(c, &nfunctions);
	f[14] = i64(c, (uint64_t)nfunctions);
	t = LLVMTypeOf(LLVMConstStructInContext(c->cx, f, 15, false));
	model = LLVMAddGlobal(c->mod, t, symbol(c, job->variant, "tcc_model"));
	LLVMSetInitializer(model, LLVMConstStructInContext(c->cx, f, 15, false));
	LLVMSetGlobalConstant(model, true);
	LLVMSetAlignment(model, 8);
	if (job->variant) {
		LLVMSetVisibility(model, LLVMHiddenVisibility);
	} else if (job->kind == EMIT_EXE) {
		LLVMSetVisibility(model, LLVMHiddenVisibility);
		im = LLVMAddGlobal(c->mod, p, "tcc_main_model");
		LLVMSetInitializer(im, model);
		LLVMSetGlobalConstant(im, true);
		LLVMSetVisibility(im, LLVMHiddenVisibility);
	}
}
