/*
 * Code generation: from a module at loop level to an artefact. A target is one struct of functions
 * and one entry of the list in target.c; machines are rows of ir/machines.def.
 *
 *   Job job = { .m = m, .machine = machine_find("native", ...), ... };
 *   codegen_emit(&job)              kernels and host plan -> job.parts, in memory
 *   codegen_link(&job, 1, path)     parts + runtime -> the artefact, on disk
 *   jit_load(&job)                  instead of linking: a TccModel in this process
 *
 * Everything returns an exit code (X_OK, X_TOOL, X_BUG ...) after reporting to job->m->diag.
 * Output bytes depend on the module, the options and the tools only.
 */
#ifndef TCC_CODEGEN_H
#define TCC_CODEGEN_H

#include "runtime/abi.h"
#include "ir/ir.h"
#include "ir/machine.h"
#include "ir/plan.h"

struct TccModel;
typedef struct Target Target;
typedef struct Job Job;

/* What --emit asks for. */
typedef enum EmitKind { EMIT_EXE, EMIT_SO, EMIT_A, EMIT_OBJ, EMIT_SRC, EMIT_LLVM, EMIT_ASM,
	EMIT_PTX, EMIT_CUBIN, EMIT_HSACO, EMIT_STABLEHLO, EMIT_NKINDS } EmitKind;
extern const char *const emit_names[EMIT_NKINDS];

/* A piece of output: an object file, a source text, a device image. malloc'ed; job_free frees
 * it. */
typedef enum PartKind { PART_OBJECT, PART_TEXT, PART_IMAGE } PartKind;
typedef struct Part {
	PartKind kind;
	char *name;            /* file name without folder: "model.c"; image: the arch ("sm_80") */
	char *data;
	size_t size;
} Part;

/* What the GPU's compiler says of a kernel: registers of a thread, bytes of spilled registers
 * and of other local memory, bytes of shared memory. */
typedef struct KernelUse { int registers, spills, local, shared; } KernelUse;

/* One target's share of a compilation. Zero means default everywhere. */
struct Job {
	Module *m;             /* at loop level */
	const Target *target;  /* filled by codegen_emit from the machine if NULL */
	const Machine *machine, *host;  /* host: CPU of a GPU target's plan */
	EmitKind kind;
	const char *prefix;    /* symbol prefix, a C identifier */
	const char *target_text; /* as the user gave it */
	const char *manifest;  /* JSON text, or NULL */
	int level;             /* -O: 0..3 */
	int jobs;              /* -j: threads of code generation, 0: 1 */
	bool weights_on_demand; /* a device gets what is used, when it is used first */
	bool weights_file;     /* in OUT.weights instead of embedded; meta_get sets it beyond 1 GB */
	bool in_memory;        /* for jit_load, which sets it */
	bool use_static;       /* --static */
	bool simulate, simulate_fast; /* GPU: for the simulator, on the host */
	bool simulate_ptx;     /* and it runs the PTX that the compiler makes of the source */
	const char *weights_name; /* file name of OUT.weights, without folder */
	int variant, nvariants; /* several targets in one artefact: this one's place, how many */
	bool covers;            /* a later variant is for the same kind of device */
	const char *backend;   /* cuda: "nvrtc" (default) or "nvcc" */

	struct KernelUse *use; /* GPU: per kernel, what its compiler reports; NULL: not known */
	Part *parts;           /* results of emit */
	int nparts;
	struct Meta *meta;     /* made once, by meta_get */
};

/* Device kernels with more shared memory than this get it from the launch, in bytes. */
enum { STATIC_SHARED = 47 * 1024 };

struct Target {
	const char *name;      /* "llvm", "c", "cuda", "hip" */
	const char *doc;       /* a line, for `tcc-ml targets` */
	unsigned kinds;        /* bit per EmitKind that it can make */
	bool (*takes)(const Machine *);              /* is it the one for this machine? */
	void (*describe)(const Machine *, FILE *);   /* facts for people, a few lines */
	int (*emit)(Job *);                          /* fills parts */
	/* Writes the artefact of all jobs (variants of one model, first one preferred) to the path;
	 * job[0].kind says which. Every job has been emitted. */
	int (*link)(Job *jobs, int n, const char *path);
};

/* ---- target.c ------------------------------------------------------------------------------- */

extern const Target *const targets[];        /* NULL-terminated */
const Target *target_for(const Machine *);   /* NULL: nobody takes it */
int codegen_emit(Job *);
int codegen_link(Job *, int n, const char *path);
void job_free(Job *);                        /* parts and meta; not the module */
void job_part(Job *, PartKind, const char *name, const void *data, size_t size);  /* copies */

/* Machine of --target's text: rows of machine.c, CPU names that LLVM knows, native. NULL after a
 * message with exit code X_USAGE. Lives in the module's arena, or is static. */
const Machine *machine_of(Module *, const char *text);

/* ---- meta.c: tables and weights, the same bytes for every target ---------------------------- */

typedef struct WeightPart { int64_t offset, size; const void *bytes; } WeightPart;
typedef struct Meta {
	unsigned char *bytes;  /* the meta blob: a TccMeta and its tables */
	size_t size;
	int64_t weights_size;  /* of the blob, padding included */
	int nweights;
	WeightPart *weights;   /* by offset; gaps are zero */
	char **idents;         /* per kernel: unique C identifier, "k3_conv_relu" */
	int *twin;             /* per kernel: the first with the same code, whose identifier is the symbol;
	                        * itself where code is not printed */
} Meta;

const Meta *meta_get(Job *);                 /* NULL after an error; owned by the job */
/* The number of the routine that a plan's call "host.NAME" means (TCC_HOST), or from TCC_NHOST
 * on of the user's function that "host.c.NAME" means; -1 if it is none. */
int plan_routine(const Module *, const char *call);
/* The user's functions that the plan calls, as plan_routine numbers them; NULL after an error. */
const Function *const *plan_functions(Module *, int *n);
/* A library of TCC_HOST_LIB: the symbol that draws its object in, its source, what to link. */
enum { HOST_core,
#define TCC_HOST_LIB_NUMBER(name, source, library) HOST_##name,
	TCC_HOST_LIB(TCC_HOST_LIB_NUMBER)
#undef TCC_HOST_LIB_NUMBER
};
typedef struct HostLib { const char *symbol, *source, *library; int lib; } HostLib;
extern const HostLib host_libs[];            /* ended by a symbol of NULL */
bool plan_needs(const Module *, int lib);    /* does the plan call such routines? -1: any at all */
bool meta_same_weights(const Meta *, const Meta *);   /* byte for byte */
int meta_write_weights(const Meta *, FILE *);  /* the blob alone; 0, or -1 on a write error */
int meta_write_weights_file(const Meta *, const char *path, Diag *);  /* header + blob */

/* ---- llvm.c --------------------------------------------------------------------------------- */

/* The host side of a device model as an object for job->host: plan, meta, weights reference and
 * the images (PART_IMAGE parts) of the job. Appends a PART_OBJECT. */
int llvm_emit_host(Job *, int image_kind);
bool llvm_weights_inside(const Job *);       /* does the object hold the weights? */
const char *codegen_llvm_version(void);      /* "22.1.0" */

/* ---- link.c --------------------------------------------------------------------------------- */

/* exe, so, a, obj from PART_OBJECT parts, weights and the runtime. */
int link_native(Job *, int n, const char *path);
/* Writes a file whole or not at all (temporary name, rename). 0, or -1 with errno. */
int write_file(const char *path, const void *data, size_t size);

/* ---- elf.c ---------------------------------------------------------------------------------- */

/* The weights as an object file under n hidden symbols. 0, or -1 on a write error. */
int elf_write_weights(const Meta *, const char *triple, int n, const char *const *symbols, FILE *);

/* ---- llvm_jit.c ------------------------------------------------------------------------------ */

typedef struct Jit Jit;
Jit *jit_load(Job *);                        /* emits if needed; NULL after an error */
const struct TccModel *jit_model(const Jit *);
void jit_free(Jit *);

#endif
