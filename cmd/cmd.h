/* The command line: commands, options, and what they share. */
#ifndef TCC_CMD_H
#define TCC_CMD_H

#include <cJSON.h>
#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "opt/opt.h"
#include "runtime/rt.h"

#define TCC_ML_VERSION "0.1.0"

enum { MAX_LIST = 256, JSON_VERSION = 1 };
typedef struct List { int n; const char *at[MAX_LIST]; } List;

/* What the options say; zero is the default. Filled from the table in options.c. */
typedef struct Options {
	const struct Cmd *cmd;
	const char **files; int nfiles;        /* what is no option: room for argc */
	List target, emit, shape, dim, freeze, library, input, output, data;
	const char *out, *output_dir, *stage, *dump_after, *dump_dir, *stop_after, *only,
		*disabled, *prefix, *weights, *host, *graph, *device, *cuda, *color, *simulate, *level,
		*precision, *trace, *baseline, *tuning;
	const char *json;      /* file, or "" for stdout */
	int threads, jobs, iters, warmup, timeout, seed, max_seconds;
	int64_t max_arena, max_memory;         /* bytes; 0: no limit */
	double rtol, atol, max_ulp, duration, max_regress, budget;     /* -1: not given */
	bool time_passes, check_passes, strict, use_static, require_tuning, verbose, quiet, help;
	struct Watch *watch;   /* supervise.c */
} Options;

/* ---- main.c -------------------------------------------------------------------------------- */

typedef struct Cmd {
	const char *name;
	unsigned bit;          /* in Opt.commands */
	int min, max;          /* arguments; max -1: any number */
	const char *args, *doc;
	int (*run)(const Options *);
	const char *more;      /* a paragraph for --help */
} Cmd;
extern const Cmd commands[];           /* ended by a NULL name */

/* "tcc-ml: error: ..." on stderr; returns the code. */
int complain(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- options.c ----------------------------------------------------------------------------- */

typedef enum OptKind { OPT_FLAG, OPT_TEXT, OPT_LIST, OPT_INT, OPT_REAL, OPT_SIZE, OPT_CHOICE,
	OPT_CHOICES, OPT_MAYBE } OptKind;

typedef struct Opt {
	const char *name;
	char brief;            /* short name, or 0 */
	OptKind kind;          /* CHOICE(S): arg lists the words; MAYBE: the value may be left out */
	size_t at;             /* in Options */
	const char *arg;       /* NULL: none */
	unsigned commands;     /* bits of those that take it */
	const char *doc;
} Opt;
extern const Opt options[];            /* ended by a NULL name */

/* The options that change what is compiled: they stand in the manifest. */
enum { OPT_MANIFEST = 1 << 30 };

/* 0, or X_USAGE after a message; what is left goes to o->files */
int parse_options(int argc, char **argv, const Cmd *, Options *);
/* Is the word in "a|b|c" or "a,b,c"? */
bool is_listed(const char *list, const char *word);
/* The text that the option was given, or NULL; of a list, item i. */
const char *option_text(const Options *, const Opt *, int i);

/* ---- help.c -------------------------------------------------------------------------------- */

void help_all(FILE *), help_command(const Cmd *, FILE *), help_man(FILE *), help_completion(FILE *);

/* ---- supervise.c --------------------------------------------------------------------------- */

/* Runs the command in a process of its own, within the limits of the options: a crash of ours ends
 * with a message and X_BUG, intermediate files go whatever happens. The exit code. */
int supervise(const Options *);
double now(void);                      /* seconds of a steady clock */
/* What is being done, for messages about a limit or a crash. */
void phase(const Options *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A folder that is removed when the command ends, however it does. False with errno. */
bool scratch_folder(const Options *, char *path, size_t size);
void remove_tree(const char *path);

/* ---- json.c -------------------------------------------------------------------------------- */

/* {"version": 1, "command": NAME, "messages": []}, or NULL without --json. All the functions of
 * this part do nothing with a NULL. */
cJSON *json_new(const Options *);
void json_text(cJSON *, const char *key, const char *), json_real(cJSON *, const char *key, double),
	json_flag(cJSON *, const char *key, bool);
cJSON *json_list(cJSON *, const char *key), *json_object(cJSON *, const char *key);
cJSON *json_add(cJSON *list);          /* a new object at its end */
void json_add_text(cJSON *list, const char *), json_add_real(cJSON *list, double);
void json_print(const cJSON *, FILE *);
/* Adds the exit code, writes where --json says, frees. The code, or that of a failure to write. */
int json_end(const Options *, cJSON *, int code);

/* ---- build.c: a model on its way ----------------------------------------------------------- */

typedef struct Reference Reference;

typedef struct Compilation {
	const Options *o;
	cJSON *json;           /* where messages go as well; not owned */
	Diag diag;
	Module *m;
	OnnxModel *onnx;       /* NULL for IR */
	char *text;            /* of IR */
	Level level;
	Job job;
	Jit *jit;
	int ndumps;
	Reference *reference;  /* --check-passes */
	Node **given;          /* its inputs; NULL: made up */
} Compilation;

/* execute.c: the module's hook for folding. */
bool execute_constants(Module *, int n, Node *const *roots, Node **out);

/* Loads a model or IR file for the target (NULL: as the options say). False after errors: the exit
 * code is c->diag.code. */
bool load_model(Compilation *, const Options *, const char *path, const char *target);
/* Runs the passes to loop level, or as far as the options say. */
bool compile_module(Compilation *);
/* Can a GPU's kernels be compiled here, so that their registers are known? (inspect.c) */
bool has_compiler(const Machine *);
/* A job for the module at loop level. */
Job make_job(Compilation *, EmitKind, const char *prefix);
/* An instance in memory. NULL after errors. */
const TccModel *model_in_memory(Compilation *);
/* The exit code of what went wrong: X_BUG if nothing is known. */
int failure(const Compilation *);
void compilation_free(Compilation *);
/* Prints the module; large constants into PATH.data. f is used if path is NULL: they are elided. */
bool print_module(Compilation *, const char *path, FILE *f);
bool is_ir(const char *path);
extern const char *const level_names[3];

/* ---- predict.c ----------------------------------------------------------------------------- */

bool has_driver(const Machine *);      /* of a GPU */
/* The table or JSON of profile, predicted; the model is loaded. The exit code. */
int predict_model(Compilation *);

/* hostwork.c: what a GPU's plan leaves to the host */
enum { MAX_ROUTINES = 64 };
typedef struct HostWork {
	int waits, waits_in_loops;     /* places of the plan where it fetches from the device */
	int nroutines;
	const char *routines[MAX_ROUTINES];
} HostWork;

HostWork host_work(Module *);
const char *host_work_text(Module *, const HostWork *);
void host_work_json(const HostWork *, cJSON *);

/* ---- passcheck.c: --check-passes ----------------------------------------------------------- */

/* Makes inputs and the results that every pass must keep. False after errors. */
bool start_check(Compilation *);
/* The results of a module at loop level on constants. */
int run_inputs(Compilation *, Node *const *in, TccValue *out, TccErr *);
void check_pass(Compilation *, const char *pass);    /* reports a pass after which they differ */
void end_check(Compilation *);

/* ---- values.c: values in files, and comparing them ----------------------------------------- */

#define DEFAULT_RTOL 1e-3
typedef struct Tolerance { double rtol, atol, max_ulp; } Tolerance;   /* max_ulp < 0: not asked */

int read_input(const TccModel *, int i, const char *name, const char *file, TccValue *, TccErr *);
int read_output(const TccModel *, int i, const char *name, const char *file, TccValue *, TccErr *);
/* numpy's rule |a - b| <= atol + rtol*|b|, and at most max_ulp units in the last place; types and
 * shapes equal, NaN equal to NaN. False: says why. */
bool values_equal(const TccValue *got, const TccValue *want, const Tolerance *, char *why,
	size_t size);
/* A constant of the value, and back. NULL, or a code: it is no tensor. */
Node *node_of_value(Module *, const TccValue *);
int value_of_node(const Node *, TccValue *, TccErr *);
/* A file's value as a constant. NULL: with err->code 0 it is no tensor. */
Node *read_constant(Module *, const char *path, const char *name, TccErr *);
/* The folder's file KIND_I, with any ending that is read; false: path is the last that was
 * tried. */
bool find_data_file(char *path, size_t size, const char *folder, const char *kind, int i);
/* Made-up inputs of the main region as constants; false after an error. */
bool make_inputs(Compilation *, Node **inputs);

/* ---- the commands -------------------------------------------------------------------------- */

int cmd_compile(const Options *), cmd_check(const Options *), cmd_run(const Options *),
	cmd_verify(const Options *), cmd_bench(const Options *), cmd_profile(const Options *),
	cmd_inspect(const Options *), cmd_opt(const Options *), cmd_ops(const Options *),
	cmd_targets(const Options *), cmd_passes(const Options *), cmd_doctor(const Options *),
	cmd_reduce(const Options *), cmd_diff(const Options *), cmd_tune(const Options *);

/* compile.c: the file's name without folder and ending. */
void stem_of(const char *path, char *buf, size_t size);

/* inspect.c: the document of inspect --json -v of a model or an artefact; an exit code. */
int inspect_into(const Options *, const char *path, cJSON *);

/* ---- artefact.c: programs and libraries that tcc-ml has made ------------------------------- */

bool is_artefact(const char *path);    /* an ELF file or archive */
bool is_program(const char *path);     /* an ELF file that can be started */
/* The name of a library's exported TccModel. */
bool artefact_symbol(const char *path, char *name, size_t size);
/* Calls fn (or not, if NULL) for the tables of each variant, in a model that has nothing but them.
 * The number of variants. */
int artefact_meta(const char *path, void (*fn)(void *, const TccModel *), void *user);

/* ---- manifest.c ---------------------------------------------------------------------------- */

/* The manifest's text, in the module's arena. */
const char *manifest(Compilation *, const char *sha256);
/* The SHA-256 of a file as text, worked out by a thread. */
typedef struct FileHash FileHash;
FileHash *hash_start(const char *path);
void hash_end(FileHash *, char text[65]);      /* "" if it could not be read */

/* ---- graph.c ------------------------------------------------------------------------------- */

typedef struct Graph Graph;
Graph *graph_new(Module *);            /* of a module at graph level; in its arena */
/* kind: dot, html. The kernels are those that the module has now. */
void graph_print(const Graph *, Module *, const char *kind, FILE *);

#endif
