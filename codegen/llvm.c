/*
 * The CPU target: kernels and host plan through LLVM's C API. Kernels are taken in chunks, each
 * with a context of its own: their IR is written here, in order (a module of ours is not
 * thread-safe), then optimised and emitted by threads. What a chunk holds depends on the kernels
 * only, so the bytes do not depend on the number of threads.
 *
 * The pass pipeline is light: loops, vectors and tiles are already what they should be, and LLVM is
 * left to make values of tiles, hoist addresses, allocate registers and schedule.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include "llvm.h"
#include "tool.h"
#include "runtime/abi.h"

enum { CHUNK_KERNELS = 12, CHUNK_WEIGHT = 40000 };

/* ---- fatal errors ------------------------------------------------------------------------------ */

static _Thread_local const Chunk *working;

/* LLVM cannot go on after such an error, nor can this process: say what it was about. */
static void
fatal(const char *reason)
{
	fprintf(stderr, "tcc-ml: bug: LLVM: %s\n", reason);
	if (working)
		fprintf(stderr, "tcc-ml: note: while compiling %s\n%s", working->name,
			working->text ? working->text : "");
	fprintf(stderr, "tcc-ml: note: please report this with the model\n");
	fflush(NULL);
	_exit(X_BUG);
}

void
llvm_init(const char *triple)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	LLVMResetFatalErrorHandler();
	LLVMInstallFatalErrorHandler(fatal);
#define INIT(prefix, T) \
	if (strncmp(triple, prefix, strlen(prefix)) == 0) { \
		LLVMInitialize##T##TargetInfo(); \
		LLVMInitialize##T##Target(); \
		LLVMInitialize##T##TargetMC(); \
		LLVMInitialize##T##AsmPrinter(); \
	}
	INIT("x86_64", X86)
	INIT("aarch64", AArch64)
	INIT("riscv64", RISCV)
	INIT("wasm", WebAssembly)
#undef INIT
	pthread_mutex_unlock(&lock);
}

/* ---- chunks ---------------------------------------------------------------------------------------- */

static LLVMTargetMachineRef
target_machine(const Machine *t, int level, char **error)
{
	static const LLVMCodeGenOptLevel levels[] = {LLVMCodeGenLevelNone, LLVMCodeGenLevelDefault,
		LLVMCodeGenLevelDefault, LLVMCodeGenLevelAggressive};
	LLVMTargetMachineOptionsRef o;
	LLVMTargetMachineRef tm;
	LLVMTargetRef target;

	llvm_init(t->triple);
	if (LLVMGetTargetFromTriple(t->triple, &target, error))
		return NULL;
	o = LLVMCreateTargetMachineOptions();
	LLVMTargetMachineOptionsSetCPU(o, t->cpu);
	LLVMTargetMachineOptionsSetFeatures(o, t->features);
	if (strncmp(t->triple, "riscv64", 7) == 0)
		LLVMTargetMachineOptionsSetABI(o, "lp64d");
	LLVMTargetMachineOptionsSetCodeGenOptLevel(o, levels[level & 3]);
	LLVMTargetMachineOptionsSetRelocMode(o, LLVMRelocPIC);
	tm = LLVMCreateTargetMachineWithOptions(target, t->triple, o);
	LLVMDisposeTargetMachineOptions(o);
	return tm;
}

static bool
chunk_open(Chunk *c, Job *job, const Machine *t, const char *name)
{
	LLVMTargetDataRef layout;
	LLVMMetadataRef flag;

	*c = (Chunk){.job = job, .name = name};
	c->tm = target_machine(t, job->level, &c->error);
	if (!c->tm)
		return false;
	c->cx = LLVMContextCreate();
	c->mod = LLVMModuleCreateWithNameInContext("model", c->cx);
	LLVMSetTarget(c->mod, t->triple);
	layout = LLVMCreateTargetDataLayout(c->tm);
	LLVMSetModuleDataLayout(c->mod, layout);
	LLVMDisposeTargetData(layout);
	flag = LLVMValueAsMetadata(LLVMConstInt(LLVMInt32TypeInContext(c->cx), 2, false));
	LLVMAddModuleFlag(c->mod, LLVMModuleFlagBehaviorWarning, "PIC Level", 9, flag);
	if (strncmp(t->triple, "riscv64", 7) == 0)
		LLVMAddModuleFlag(c->mod, LLVMModuleFlagBehaviorError, "target-abi", 10,
			LLVMMDStringInContext2(c->cx, "lp64d", 5));
	return true;
}

static void
chunk_close(Chunk *c)
{
	if (c->mod)
		LLVMDisposeModule(c->mod);
	if (c->tm)
		LLVMDisposeTargetMachine(c->tm);
	if (c->cx)
		LLVMContextDispose(c->cx);
	free(c->out);
	free(c->error);
}

static const char *const pipelines[] = {
	NULL,
	"function(sroa<modify-cfg>,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>)",
	"function(sroa<modify-cfg>,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,"
		"loop-mssa(licm<allowspeculation>),early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,dse)",
	"function(sroa<modify-cfg>,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,"
		"loop-mssa(licm<allowspeculation>),gvn,instcombine<no-verify-fixpoint>,simplifycfg,dse)",
};

static void
chunk_fail(Chunk *c, const char *what, char *llvm)
{
	if (!c->error) {
		c->error = malloc(1024);
		if (c->error)
			snprintf(c->error, 1024, "%s: %s: %.800s", c->name, what, llvm ? llvm : "");
	}
}

/* Optimises and emits; any thread. */
static void
chunk_emit(Chunk *c)
{
	LLVMPassBuilderOptionsRef o;
	LLVMMemoryBufferRef buf = NULL;
	LLVMErrorRef e;
	char *text = NULL;
	EmitKind kind = c->job->kind;

	working = c;
	if (!c->error && LLVMVerifyModule(c->mod, LLVMReturnStatusAction, &text))
		chunk_fail(c, "LLVM rejects the code", text);
	LLVMDisposeMessage(text);
	text = NULL;
	if (!c->error && pipelines[c->job->level & 3]) {
		o = LLVMCreatePassBuilderOptions();
		e = LLVMRunPasses(c->mod, pipelines[c->job->level & 3], c->tm, o);
		LLVMDisposePassBuilderOptions(o);
		if (e) {
			text = LLVMGetErrorMessage(e);
			chunk_fail(c, "passes", text);
			LLVMDisposeErrorMessage(text);
			text = NULL;
		}
	}
	if (!c->error && kind == EMIT_LLVM) {
		text = LLVMPrintModuleToString(c->mod);
		c->size = strlen(text);
		c->out = strdup(text);
		LLVMDisposeMessage(text);
	} else if (!c->error) {
		if (LLVMTargetMachineEmitToMemoryBuffer(c->tm, c->mod,
				kind == EMIT_ASM ? LLVMAssemblyFile : LLVMObjectFile, &text, &buf)) {
			chunk_fail(c, "emission", text);
			LLVMDisposeMessage(text);
		} else {
			c->size = LLVMGetBufferSize(buf);
			c->out = malloc(c->size + 1);
			if (!c->out)
				abort();
			memcpy(c->out, LLVMGetBufferStart(buf), c->size);
			LLVMDisposeMemoryBuffer(buf);
		}
	}
	working = NULL;
}

/* ---- equal kernels ------------------------------------------------------------------------------------ */

typedef struct Print { Map ids; intptr_t n; unsigned char *at; size_t size, cap; } Print;

static void
put(Print *p, int64_t v)
{
	if (p->size + 8 > p->cap) {
		p->cap = p->cap ? p->cap * 2 : 4096;
		p->at = realloc(p->at, p->cap);
		if (!p->at)
			abort();
	}
	memcpy(p->at + p->size, &v, 8);
	p->size += 8;
}

/* A node as numbers: equal sequences are equal code. Names do not matter. */
static void
put_node(Print *p, Node *e)
{
	intptr_t id = e ? (intptr_t)map_get(&p->ids, e) : 0;
	int i, k;

	put(p, e ? id : -1);
	if (!e || id)
		return;
	map_put(&p->ids, e, (void *)++p->n);
	put(p, e->code | (int64_t)e->type->dtype << 16 | (int64_t)e->type->space << 24 | (int64_t)e->nin << 32);
	if (e->code != O_AXIS && e->code != O_SYM)
		put(p, e->n);
	put(p, e->num.i);
	put(p, e->lo);
	put(p, e->hi);
	for (i = 0; i < e->nin; i++)
		put_node(p, e->in[i]);
	put(p, e->nregions);
	for (i = 0; i < e->nregions; i++) {
		put(p, e->regions[i] ? e->regions[i]->nresults : -1);
		for (k = 0; e->regions[i] && k < e->regions[i]->nresults; k++)
			put_node(p, e->regions[i]->results[k]);
	}
}

static Print
print(const Kernel *k)
{
	Print p = {0};
	int i;

	put(&p, k->nbufs);
	for (i = 0; i < k->nbufs; i++) {
		put(&p, k->bufs[i]->type->dtype);
		put(&p, k->writes[i]);
		map_put(&p.ids, k->bufs[i], (void *)++p.n);
	}
	put(&p, k->nsyms);
	for (i = 0; i < k->nsyms; i++)
		put_node(&p, k->syms[i]);
	for (i = 0; i < k->body->nresults; i++)
		put_node(&p, k->body->results[i]);
	map_free(&p.ids);
	return p;
}

/* The kernel before this one with the same code, or itself. */
static void
find_equal(Module *m, int *same, size_t *weight)
{
	int n = m->kernels.n, i, j;
	Print *p = calloc((size_t)n + 1, sizeof *p);

	if (!p)
		abort();
	for (i = 0; i < n; i++) {
		p[i] = print(m->kernels.at[i]);
		weight[i] = p[i].size;
		for (j = 0; j < i && (p[j].size != p[i].size || memcmp(p[j].at, p[i].at, p[i].size)); j++)
			;
		same[i] = j < i ? same[j] : i;
	}
	for (i = 0; i < n; i++)
		free(p[i].at);
	free(p);
}

/* ---- emission -------------------------------------------------------------------------------------------- */

typedef struct Queue { Chunk *chunks; int n, next; pthread_mutex_t lock; } Queue;

static void *
worker(void *arg)
{
	Queue *w = arg;
	int i;

	for (;;) {
		pthread_mutex_lock(&w->lock);
		i = w->next++;
		pthread_mutex_unlock(&w->lock);
		if (i >= w->n)
			return NULL;
		chunk_emit(&w->chunks[i]);
	}
}

static void
emit_all(Chunk *chunks, int n, int threads)
{
	Queue w = {.chunks = chunks, .n = n, .lock = PTHREAD_MUTEX_INITIALIZER};
	pthread_t t[64];
	int i, k = 0;

	for (i = 1; i < threads && i < n && k < 64; i++)
		if (pthread_create(&t[k], NULL, worker, &w) == 0)
			k++;
	worker(&w);
	for (i = 0; i < k; i++)
		pthread_join(t[i], NULL);
}

static char *
symbol(Job *job, const char *ident)
{
	const char *p = job->prefix ? job->prefix : "model";

	if (job->variant)
		return arena_printf(job->m->arena, "%s_v%d_%s", p, job->variant, ident);
	return arena_printf(job->m->arena, "%s_%s", p, ident);
}

static void
describe_kernel(Chunk *c, const Kernel *k)
{
	const Loc *l;
	const char *s = "";
	int n = 0;

	for (l = k->loc; l && n++ < 8; l = l->next)
		s = arena_printf(c->job->m->arena, "%s %s '%s'", s, l->type ? l->type : "node", l->name ? l->name : "");
	c->text = arena_printf(c->job->m->arena, "%s  kernel %s:%s\n", c->text ? c->text : "", k->name, s);
}

static bool
is_text(const Job *job)
{
	return job->kind == EMIT_LLVM || job->kind == EMIT_ASM;
}

/* Text has everything in one module; objects are cut, but where we have no linker to join them. */
static bool
whole(const Job *job)
{
	return is_text(job) || llvm_weights_inside(job);
}

/* Kernels [from, n) until the chunk is full, and their symbols. The first that is not in it. */
static int
fill(Chunk *c, int from, const int *same, const size_t *weight, char **names)
{
	Job *job = c->job;
	int i, n = job->m->kernels.n, k = 0;
	size_t w = 0;
	const Kernel *kern;

	for (i = from; i < n; i++) {
		if (same[i] != i) {
			names[i] = names[same[i]];
			continue;
		}
		if (!whole(job) && k && (k == CHUNK_KERNELS || w + weight[i] > CHUNK_WEIGHT))
			break;
		kern = job->m->kernels.at[i];
		names[i] = symbol(job, job->meta->idents[i]);
		describe_kernel(c, kern);
		working = c;
		emit_kernel(c, kern, names[i]);
		working = NULL;
		k++;
		w += weight[i];
	}
	return i;
}

static int
collect(Job *job, Chunk *chunks, int n)
{
	const char *ext = job->kind == EMIT_LLVM ? "ll" : job->kind == EMIT_ASM ? "s" : "o";
	char name[32];
	int i, bad = 0;

	for (i = 0; i < n; i++) {
		if (chunks[i].error) {
			diag_error(job->m->diag, X_BUG, NULL, "%s", chunks[i].error);
			bad = X_BUG;
		}
	}
	for (i = 0; i < n && !bad; i++) {
		snprintf(name, sizeof name, "part%d.%s", job->nparts, ext);
		job_part(job, is_text(job) ? PART_TEXT : PART_OBJECT, name, chunks[i].out, chunks[i].size);
	}
	for (i = 0; i < n; i++)
		chunk_close(&chunks[i]);
	return bad;
}

/* Plan and descriptor, into the last chunk of a text, else into one of their own. */
static bool
emit_rest(Job *job, Chunk *c, char **names, int image_kind)
{
	char *plan = symbol(job, "plan");

	working = c;
	emit_plan(c, plan);
	emit_model(c, names, image_kind, plan);
	working = NULL;
	return true;
}

static int
emit(Job *job)
{
	int n = job->m->kernels.n, nchunks = 0, i = 0;
	int *same = NEWN(job->m, int, n + 1);
	size_t *weight = NEWN(job->m, size_t, n + 1);
	char **names = NEWN(job->m, char *, n + 1);
	Chunk *chunks = NEWN(job->m, Chunk, n + 2);

	if (job->kind == EMIT_SRC)
		return c_emit_text(job, TCC_IMAGE_NONE);
	if (!meta_get(job))
		return X_BUG;
	find_equal(job->m, same, weight);
	while (i < n) {
		if (!chunk_open(&chunks[nchunks++], job, job->machine, "kernels"))
			return collect(job, chunks, nchunks);
		i = fill(&chunks[nchunks - 1], i, same, weight, names);
	}
	if (!nchunks || !whole(job))
		if (!chunk_open(&chunks[nchunks++], job, job->machine, "the host plan"))
			return collect(job, chunks, nchunks);
	if (job->m->plan)
		emit_rest(job, &chunks[nchunks - 1], names, TCC_IMAGE_NONE);
	emit_all(chunks, nchunks, job->jobs);
	return collect(job, chunks, nchunks);
}

int
llvm_emit_host(Job *job, int image_kind)
{
	Chunk *c = NEW(job->m, Chunk);
	const Machine *host = job->host ? job->host : machine_find(job->m, "x86-64-v2");

	if (!meta_get(job))
		return X_BUG;
	if (chunk_open(c, job, host, "the host plan")) {
		emit_rest(job, c, NULL, image_kind);
		chunk_emit(c);
	}
	return collect(job, c, 1);
}

const char *
codegen_llvm_version(void)
{
	static char text[32];
	unsigned major, minor, patch;

	LLVMGetVersion(&major, &minor, &patch);
	snprintf(text, sizeof text, "%u.%u.%u", major, minor, patch);
	return text;
}

/* ---- the target ------------------------------------------------------------------------------------------------ */

static bool
takes(const Machine *t)
{
	return t->kind == M_CPU;
}

static void
describe(const Machine *t, FILE *o)
{
	fprintf(o, "%s: %s, cpu %s\n", t->name, t->triple, t->cpu);
	fprintf(o, "  features: %s\n", t->has && *t->has ? t->has : "-");
	fprintf(o, "  vectors: %d bits, %d registers; multiply-add: %s\n", t->vector_bits, t->vector_regs,
		machine_fma(t) ? "fused" : "separate");
	fprintf(o, "  caches: L1 %lld KB, L2 %lld KB, L3 %lld KB a core; %.1f GHz, %.0f GB/s a core\n",
		(long long)t->l1 / 1024, (long long)t->l2 / 1024, (long long)t->l3 / 1024, t->ghz, t->gbs);
}

static int
link_(Job *jobs, int n, const char *path)
{
	return jobs->kind == EMIT_SRC ? src_link(jobs, n, path) : link_native(jobs, n, path);
}

#define KIND(k) (1u << EMIT_##k)
const Target target_llvm = {
	.name = "llvm",
	.doc = "CPUs, through LLVM: native, x86-64-v2 ..., aarch64, riscv64, wasm32",
	.kinds = KIND(EXE) | KIND(SO) | KIND(A) | KIND(OBJ) | KIND(SRC) | KIND(LLVM) | KIND(ASM),
	.takes = takes,
	.describe = describe,
	.emit = emit,
	.link = link_,
};
