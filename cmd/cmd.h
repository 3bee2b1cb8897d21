/* The command line: commands, options, and what they share. */
#ifndef TCC_CMD_H
#define TCC_CMD_H

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "opt/opt.h"
#include "runtime/rt.h"

enum { MAX_LIST = 256 };
typedef struct List { int n; const char *at[MAX_LIST]; } List;

/* What the options say; zero is the default. Filled from the table in options.c. */
typedef struct Options {
	const char **files; int nfiles;        /* what is no option: room for argc */
	List target, emit, shape, dim, freeze, input, output, data;
	const char *out, *output_dir, *stage, *dump_after, *dump_dir, *stop_after, *only, *disabled, *prefix, *weights,
		*host, *precision, *graph;
	const char *level;     /* "2" of -O2 */
	const char *json;      /* file, or "" for stdout */
	int threads, jobs, iters, warmup, timeout;
	double rtol, atol, max_ulp;
	bool simulate, simulate_fast, time_passes, check_passes, list_passes, strict, use_static, verbose, quiet, help;
	const char *color;
} Options;

typedef struct Command {
	const char *name, *args, *doc;
	int (*run)(const Options *);
} Command;
extern const Command commands[];       /* ended by a NULL name */

/* options.c: 0, or X_USAGE after a message; what is left goes to o->files */
int parse_options(int argc, char **argv, Options *o);
void print_options(FILE *);

/* build.c: a model on its way */
typedef struct Compilation {
	Diag diag;
	Module *m;
	OnnxModel *onnx;
	Level level;
	Job job;
	Jit *jit;
} Compilation;
/* Loads a model or IR file for the target (NULL: native). False after errors: code in c->diag.code. */
bool load_model(Compilation *, const Options *, const char *path, const char *target);
/* Runs the passes to loop level. */
bool compile_module(Compilation *, const Options *);
/* An instance in memory. NULL after errors. */
const struct TccModel *model_in_memory(Compilation *, const Options *);
void compilation_free(Compilation *);

/* values.c: an input of the model from a file. */
int read_input(const TccModel *, int i, const char *name, const char *file, TccValue *, TccErr *);
int read_output(const TccModel *, int i, const char *name, const char *file, TccValue *, TccErr *);
/* Compares with numpy's rule |a - b| <= atol + rtol*|b|, types and shapes equal, NaN equal to NaN; false: says why. */
bool values_equal(const TccValue *got, const TccValue *want, double rtol, double atol, char *why, size_t size);

int cmd_compile(const Options *), cmd_run(const Options *), cmd_verify(const Options *), cmd_check(const Options *),
	cmd_ops(const Options *), cmd_passes(const Options *), cmd_targets(const Options *);

#endif
