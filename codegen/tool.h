/* Compilers run by the C family of targets, the folder that they work in, what they report. */
#ifndef TCC_TOOL_H
#define TCC_TOOL_H

#include "codegen/codegen.h"

/* ---- tool.c -------------------------------------------------------------------------------- */

/* A folder for intermediate files. */
typedef struct Work { Module *m; char *dir; } Work;

int work_open(Work *, Module *);                     /* exit code, after a message */
void work_close(Work *);                             /* removes it with all that is in it */
const char *work_path(const Work *, const char *name);   /* in the arena */
int work_write(const Work *, const char *name, const void *, size_t);

/* A command: argv ends with NULL; argv[0] is looked up in PATH. After a run, status is its exit
 * code (127: it could not be started) and output what it wrote, malloc'ed. */
typedef struct Command {
	const char *what;      /* in messages */
	const char *argv[80];
	int argc, status;
	char *output;
	bool quiet;            /* the caller reports */
} Command;

void command_add(Command *, const char *arg);
void command_add_words(Command *, Module *, const char *words);   /* parted by spaces */
const char *tool_cc(void);                           /* $CC, perhaps with options, or cc */
/* Runs them, at most `jobs` at a time, and reports those that fail. Exit code. */
int commands_run(const Work *, Command *, int n, int jobs);
void commands_free(Command *, int n);
/* The whole file, with a 0 behind it; malloc'ed; NULL if it cannot be read. */
char *file_read(const char *path, size_t *size);
/* Is the program in PATH? */
bool tool_found(const char *name);

/* ---- functions.c ----------------------------------------------------------------------------- */

/* The files of the functions that the job's plan calls, each once, in `paths` (const char *):
 * sources compiled by cc, objects and shared objects where they lie. Exit code, after a message. */
int functions_files(const Work *, Job *, const char *cc, Vec *paths);
bool function_shared(const char *path);              /* a shared object? */

/* ---- c.c ------------------------------------------------------------------------------------- */

/* The files of the program as C source, without the runtime: parts of kind PART_TEXT. device: only
 * the host side, for images of that kind (TCC_IMAGE_*). */
int c_emit_text(Job *, int device);

/* ---- src.c ----------------------------------------------------------------------------------- */

/* Writes PART_TEXT parts, weights, runtime and a Makefile into the folder. */
int src_link(Job *, int n, const char *path);

/* ---- gpu.c ----------------------------------------------------------------------------------- */

/* The kernels as one text of the device dialect, malloc'ed. sim: with the simulator's entries. */
char *gpu_source(Job *, bool sim, size_t *size);
const struct tcc_embed *gpu_header(Job *, const char *name);   /* of runtime/device */
/* Adds the host part; for --emit src its source. */
int gpu_host(Job *, int image_kind);
int gpu_link(Job *, int n, const char *path);
void gpu_report(Job *);                              /* warns of kernels that spill registers */
KernelUse *gpu_use(Job *, const char *name, size_t n);   /* of the kernel of that symbol, or NULL */
void gpu_describe(const Machine *, FILE *);

/* ---- cuda.c, hip.c, sim.c -------------------------------------------------------------------- */

/* Is there an NVRTC? Its version and place, for `doctor`. */
bool cuda_nvrtc(int *major, int *minor, char *where, size_t size);
/* The PTX of the source, malloc'ed; NULL after a message. */
char *cuda_ptx(Job *, const char *text, size_t size);
const char *clang_name(void);                        /* the clang that is there, or the wanted one */
/* Emits a job of a GPU target for the simulator: image and host part. */
int sim_image(Job *);
void sim_flags(const Machine *, FILE *);             /* clang's, with all checks */

/* ---- ptx.c ----------------------------------------------------------------------------------- */

/* PTX as C for the simulator: the kernels and their entries; malloc'ed. NULL after a message. */
char *ptx_to_c(Module *, const char *ptx, size_t *size);

#endif
