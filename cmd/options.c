/* The options: one table from which the parser, the help, the man page, completion and the manifest
 * come. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cmd.h"

enum { COMPILE = 1 << 0, CHECK = 1 << 1, RUN = 1 << 2, VERIFY = 1 << 3, BENCH = 1 << 4,
	PROFILE = 1 << 5, INSPECT = 1 << 6, OPT = 1 << 7, OPS = 1 << 8, TARGETS = 1 << 9,
	PASSES = 1 << 10, DOCTOR = 1 << 11, REDUCE = 1 << 12, DIFF = 1 << 13, TUNE = 1 << 14,
	ALL = ~OPT_MANIFEST,
	TIMED = BENCH | PROFILE,                     /* run a model on what there is */
	/* load one */
	MODEL = COMPILE | CHECK | RUN | VERIFY | TIMED | INSPECT | OPT | REDUCE | DIFF | TUNE,
	PASS = MODEL,                                /* and take it through the passes */
	CODE = COMPILE | RUN | VERIFY | TIMED | INSPECT | REDUCE | DIFF | TUNE,  /* and generate code */
	KEPT = OPT_MANIFEST };

#define AT(f) offsetof(Options, f)

/* long name, short, kind, where, argument or its choices, commands that take it, what it does */
const Opt options[] = {
	{"target",              0,   OPT_LIST,    AT(target),       "T", MODEL | KEPT,
		"machine to compile for (default native; `tcc-ml targets` lists them); several make one "
		"artefact that chooses when it runs"},
	{"simulate",            0,   OPT_MAYBE,   AT(simulate),     "full|fast|ptx", CODE | KEPT,
		"run a GPU target's source on the CPU, with all checks; fast: without those of memory; "
		"ptx: the PTX that NVIDIA's compiler makes of it"},
	{"output-file",         'o', OPT_TEXT,    AT(out),          "OUT", COMPILE | OPT | REDUCE | TUNE,
		"where the artefact goes (default: the model's name in this folder; text: stdout)"},
	{"emit",                0,   OPT_CHOICES, AT(emit),
		"exe|so|a|obj|src|llvm|asm|ptx|cubin|hsaco|ir|stablehlo", COMPILE | KEPT,
		"what to make (default exe); several are made with OUT as their stem"},
	{"stage",               0,   OPT_CHOICE,  AT(stage),        "graph|tensor|loop", COMPILE,
		"level of --emit ir (default loop)"},
	{"shape",               0,   OPT_LIST,    AT(shape),        "NAME=DIMS", MODEL | KEPT,
		"fix or bound an input's shape: x=1x3x224x224, x=1..32x3x?x?"},
	{"dim",                 0,   OPT_LIST,    AT(dim),          "NAME=N", MODEL | KEPT,
		"fix or bound a dimension by its name: N=8, N=1..64"},
	{"freeze",              0,   OPT_LIST,    AT(freeze),       "NAME=FILE", MODEL,
		"make an input a constant"},
	{"op-library",          0,   OPT_LIST,    AT(library),      "FILE", MODEL | KEPT,
		"declarations of your own operators (ir/README.md)"},
	{"input",               0,   OPT_LIST,    AT(input),        "NAME=FILE", RUN | TIMED | TUNE,
		"an input's value; a .npz alone gives all that it names"},
	{"output",              0,   OPT_LIST,    AT(output),       "NAME=FILE", RUN,
		"where an output goes"},
	{"output-dir",          0,   OPT_TEXT,    AT(output_dir),   "DIR", RUN,
		"write output_0.npy, output_1.npy ... there"},
	{"data",                0,   OPT_LIST,    AT(data),         "DIR|FILE.npz", VERIFY | REDUCE,
		"inputs and expected outputs"},
	{"rtol",                0,   OPT_REAL,    AT(rtol),         "R", VERIFY | REDUCE,
		"relative tolerance (default 1e-3)"},
	{"atol",                0,   OPT_REAL,    AT(atol),         "A", VERIFY | REDUCE,
		"absolute tolerance (default 1e-7)"},
	{"max-ulp",             0,   OPT_REAL,    AT(max_ulp),      "U", VERIFY | REDUCE,
		"compare by units in the last place of the expected value's type instead"},
	{"seed",                0,   OPT_INT,     AT(seed),         "N", VERIFY | REDUCE | TUNE,
		"of the made-up inputs (default 1)"},
	{"timeout",             0,   OPT_INT,     AT(timeout),      "S", VERIFY | REDUCE,
		"seconds that a case may take (default 60)"},
	{"warmup",              0,   OPT_INT,     AT(warmup),       "N", TIMED,
		"runs before the timed ones (default 5)"},
	{"iters",               0,   OPT_INT,     AT(iters),        "N", TIMED,
		"timed runs (default: as many as the duration takes)"},
	{"trace",               0,   OPT_TEXT,    AT(trace),        "FILE", PROFILE,
		"the last run's launches, for chrome://tracing"},
	{"duration",            0,   OPT_REAL,    AT(duration),     "S", TIMED,
		"seconds of timed runs (default 2)"},
	{"baseline",            0,   OPT_TEXT,    AT(baseline),     "FILE", BENCH,
		"compare with what bench --json=FILE wrote; exit code 1 if it is too much slower"},
	{"max-regress",         0,   OPT_REAL,    AT(max_regress),  "PCT", BENCH,
		"per cent that the median may be above the baseline's (default 10)"},
	{"threads",             0,   OPT_INT,     AT(threads),      "N", RUN | VERIFY | TIMED | TUNE,
		"threads that run the model (default: the CPUs there are; verify: 1)"},
	{"device",              0,   OPT_TEXT,    AT(device),       "D", RUN | TIMED,
		"cpu, cuda, cuda:1, hip, sim"},
	{"budget",              0,   OPT_REAL,    AT(budget),       "S", TUNE,
		"seconds that measuring and compiling may take (default 60)"},
	{"tuning",              0,   OPT_TEXT,    AT(tuning),       "FILE", PASS & ~TUNE,
		"take the schedules that `tune` has measured"},
	{"require-tuning",      0,   OPT_FLAG,    AT(require_tuning), NULL, PASS & ~TUNE,
		"fail if the tuning file says nothing of a kernel that can be tuned"},
	{"jobs",                'j', OPT_INT,     AT(jobs),         "N", CODE,
		"work on so many parts side by side (default 1)"},
	{"opt-level",           'O', OPT_CHOICE,  AT(level),        "0|1|2|3", CODE | OPT | KEPT,
		"optimisation (default 2; 0 is for finding compiler bugs)"},
	{"strict",              0,   OPT_FLAG,    AT(strict),       NULL, PASS | KEPT,
		"only rewrites that are exact"},
	{"precision",           0,   OPT_CHOICE,  AT(precision),    "f32|tf32|bf16|f16", PASS | KEPT,
		"round f32 operands of matrix products and convolutions, sums stay f32; on a CPU without "
		"AMX only weights that products wait for (default f32: nothing is rounded)"},
	{"host",                0,   OPT_TEXT,    AT(host),         "CPU", PASS | KEPT,
		"CPU of a GPU target's host code (default: this machine's architecture)"},
	{"cuda-compiler",       0,   OPT_CHOICE,  AT(cuda),         "nvrtc|nvcc", CODE | KEPT,
		"what compiles CUDA source (default nvrtc)"},
	{"symbol-prefix",       0,   OPT_TEXT,    AT(prefix),       "P", COMPILE | KEPT,
		"prefix of the exported symbols (default: the model file's name)"},
	{"weights",             0,   OPT_CHOICE,  AT(weights),      "embed|file|mmap", COMPILE | KEPT,
		"in the artefact (default), or in OUT.weights beside it, mapped and shared"},
	{"static",              0,   OPT_FLAG,    AT(use_static),   NULL, COMPILE | KEPT,
		"link statically (CPU targets)"},
	{"max-arena",           0,   OPT_SIZE,    AT(max_arena),    "BYTES", COMPILE,
		"fail if activations need more memory: 64M"},
	{"max-compile-time",    0,   OPT_INT,     AT(max_seconds),  "S", COMPILE,
		"fail if compiling takes longer"},
	{"max-compile-memory",  0,   OPT_SIZE,    AT(max_memory),   "BYTES", COMPILE,
		"fail if compiling takes more memory: 2G"},
	{"passes",              0,   OPT_TEXT,    AT(only),         "A,B", PASS | KEPT,
		"run these passes only"},
	{"disable-pass",        0,   OPT_TEXT,    AT(disabled),     "A,B", PASS | KEPT,
		"leave passes out that can be"},
	{"stop-after",          0,   OPT_TEXT,    AT(stop_after),   "PASS", PASS & ~CHECK,
		"end there; compile prints the IR"},
	{"dump-after",          0,   OPT_TEXT,    AT(dump_after),   "PASS|all", PASS & ~CHECK,
		"print the IR after a pass; `import` is before the first"},
	{"dump-dir",            0,   OPT_TEXT,    AT(dump_dir),     "DIR", PASS & ~CHECK,
		"write the dumps there, with all constants (default: stdout; all of them)"},
	{"time-passes",         0,   OPT_FLAG,    AT(time_passes),  NULL, PASS,
		"say on stderr how long each pass took"},
	{"check-passes",        0,   OPT_FLAG,    AT(check_passes), NULL, PASS & ~CHECK,
		"run the module after each pass and name the first that changes a result"},
	{"graph",               0,   OPT_CHOICE,  AT(graph),        "dot|html", INSPECT,
		"draw the operators, grouped by kernel"},
	{"json",                0,   OPT_MAYBE,   AT(json),         "FILE", ALL,
		"results for programs, to stdout or =FILE"},
	{"color",               0,   OPT_CHOICE,  AT(color),        "auto|always|never", ALL,
		"messages in colour (default auto)"},
	{"verbose",             'v', OPT_FLAG,    AT(verbose),      NULL, ALL,
		"say more"},
	{"quiet",               'q', OPT_FLAG,    AT(quiet),        NULL, ALL,
		"errors and results only"},
	{"help",                'h', OPT_FLAG,    AT(help),         NULL, ALL,
		"describe the command"},
	{0}
};

/* ---- messages ------------------------------------------------------------------------------ */

static int
wrong(const Opt *t, const char *fmt, const char *a)
{
	char what[256];

	snprintf(what, sizeof what, fmt, a);
	return complain(X_USAGE, "--%s%s%s: %s", t->name, t->arg ? " " : "", t->arg ? t->arg : "",
		what);
}

/* Insertions, deletions and exchanges that make one word the other. */
static int
distance(const char *a, const char *b)
{
	int row[64], i, k, old, next, n = (int)strlen(b);

	if (n > 62)
		return 99;
	for (k = 0; k <= n; k++)
		row[k] = k;
	for (i = 1; a[i - 1]; i++) {
		old = row[0];
		row[0] = i;
		for (k = 1; k <= n; k++) {
			next = row[k];
			row[k] = old + (a[i - 1] != b[k - 1]);
			if (row[k] > row[k - 1] + 1)
				row[k] = row[k - 1] + 1;
			if (row[k] > next + 1)
				row[k] = next + 1;
			old = next;
		}
	}
	return row[n];
}

static int
unknown(const char *arg, const Cmd *cmd)
{
	const Opt *t, *best = NULL;
	char word[64];
	int d, least = 3;

	snprintf(word, sizeof word, "%s", arg + strspn(arg, "-"));
	word[strcspn(word, "=")] = 0;
	for (t = options; t->name && arg[1] == '-'; t++)
		if ((t->commands & cmd->bit) && (d = distance(word, t->name)) < least) {
			least = d;
			best = t;
		}
	return complain(X_USAGE, "unknown option '%s'%s%s%s; `tcc-ml %s --help` lists them", arg,
		best ? "; is it --" : "", best ? best->name : "", best ? "?" : "", cmd->name);
}

/* ---- values -------------------------------------------------------------------------------- */

bool
is_listed(const char *list, const char *word)
{
	size_t n = strlen(word);
	const char *p;

	for (p = list; p && *p; p += strcspn(p, "|,"), p += *p != 0)
		if (strcspn(p, "|,") == n && memcmp(p, word, n) == 0)
			return n > 0;
	return false;
}

static bool
read_size(const char *val, int64_t *v)
{
	static const char units[] = "KMGT";
	char *end;
	double x = strtod(val, &end);
	const char *u = *end ? strchr(units, *end) : NULL;

	if (u) {
		x *= (double)((int64_t)1024 << 10 * (u - units));
		end++;
	}
	*v = (int64_t)x;
	return end != val && !*end && x >= 1 && x < 9e18;
}

static int
add(List *l, const Opt *t, const char *val)
{
	if (l->n == MAX_LIST)
		return wrong(t, "%s", "given too often");
	l->at[l->n++] = val;
	return 0;
}

static int
set(Options *o, const Opt *t, const char *val)
{
	char *at = (char *)o + t->at, *end;
	long n;

	switch (t->kind) {
	case OPT_FLAG:
		*(bool *)at = true;
		return 0;
	case OPT_MAYBE:
		if (val && strcmp(t->arg, "FILE") && !is_listed(t->arg, val))
			return wrong(t, "'%s' is none of these", val);
		*(const char **)at = val ? val : "";
		return 0;
	case OPT_CHOICE:
	case OPT_CHOICES:
		if (!is_listed(t->arg, val))
			return wrong(t, "'%s' is none of these", val);
		if (t->kind == OPT_CHOICES)
			return add((List *)at, t, val);
		/* fallthrough */
	case OPT_TEXT:
		*(const char **)at = val;
		return 0;
	case OPT_LIST:
		if (strchr(t->arg, '=') && !(strchr(val, '=') > val) && t->at != AT(input))
			return wrong(t, "'%s' has no '='", val);
		return add((List *)at, t, val);
	case OPT_INT:
		n = strtol(val, &end, 10);
		if (*end || end == val || n < 0 || n > INT_MAX)
			return wrong(t, "'%s' is not a number", val);
		*(int *)at = (int)n;
		return 0;
	case OPT_REAL:
		*(double *)at = strtod(val, &end);
		if (*end || end == val || !(*(double *)at >= 0) || isinf(*(double *)at))
			return wrong(t, "'%s' is not a number", val);
		return 0;
	case OPT_SIZE:
		return read_size(val, (int64_t *)at) ? 0 : wrong(t, "'%s' is not a size", val);
	}
	return 0;
}

/* ---- the command line ---------------------------------------------------------------------- */

/* The option of an argument, and the value that stands in it. */
static const Opt *
find(const char *a, const char **val)
{
	size_t n = strcspn(a, "=");
	const Opt *t;

	*val = NULL;
	if (a[1] == '-') {
		for (t = options; t->name; t++)
			if (strlen(t->name) == n - 2 && memcmp(t->name, a + 2, n - 2) == 0)
				break;
		if (a[n])
			*val = a + n + 1;
	} else {
		for (t = options; t->name && t->brief != a[1]; t++)
			;
		if (a[2])
			*val = a + 2;
	}
	return t->name ? t : NULL;
}

static int
one_option(int argc, char **argv, int *i, const Cmd *cmd, Options *o)
{
	const char *a = argv[*i], *val;
	const Opt *t = find(a, &val);

	if (!t)
		return unknown(a, cmd);
	if (!(t->commands & cmd->bit))
		return complain(X_USAGE, "--%s is no option of '%s'", t->name, cmd->name);
	if (t->kind == OPT_FLAG && val)
		return wrong(t, "takes no value%s", "");
	if (!val && t->kind != OPT_FLAG && t->kind != OPT_MAYBE) {
		if (++*i == argc)
			return wrong(t, "a value is missing%s", "");
		val = argv[*i];
	}
	return set(o, t, val);
}

static int
check_count(const Cmd *cmd, const Options *o)
{
	if (o->help || (o->nfiles >= cmd->min && (cmd->max < 0 || o->nfiles <= cmd->max)))
		return 0;
	if (o->nfiles < cmd->min)
		return complain(X_USAGE, "%s needs %s", cmd->name, cmd->args);
	return complain(X_USAGE, "%s: '%s' is too much; it takes %s", cmd->name, o->files[cmd->max],
		*cmd->args ? cmd->args : "no arguments");
}

static int
check_passes(const Options *o)
{
	const char *lists[] = {o->only, o->disabled, o->stop_after, o->dump_after}, *p;
	char word[64];
	const Pass *t;
	int i;

	for (i = 0; i < 4; i++)
		for (p = lists[i]; p && *p; p += strcspn(p, ","), p += *p == ',') {
			snprintf(word, sizeof word, "%.*s", (int)strcspn(p, ","), p);
			for (t = passes; t->name && strcmp(t->name, word); t++)
				;
			if (!t->name && !(i == 3 && is_listed("all|import", word)))
				return complain(X_USAGE, "unknown pass '%s'; `tcc-ml passes` lists them", word);
			if (i == 1 && t->name && !t->optional)
				return complain(X_USAGE, "pass '%s' cannot be left out", word);
		}
	return 0;
}

int
parse_options(int argc, char **argv, const Cmd *cmd, Options *o)
{
	bool open = true;
	int i, code = 0;

	o->cmd = cmd;
	o->rtol = o->atol = o->max_ulp = o->duration = o->max_regress = o->budget = -1;
	o->seed = o->warmup = -1;
	o->files = calloc((size_t)argc + 1, sizeof *o->files);
	if (!o->files)
		abort();
	for (i = 0; i < argc && !code; i++) {
		if (open && strcmp(argv[i], "--") == 0)
			open = false;
		else if (open && argv[i][0] == '-' && argv[i][1])
			code = one_option(argc, argv, &i, cmd, o);
		else
			o->files[o->nfiles++] = argv[i];
	}
	if (!code)
		code = check_count(cmd, o);
	return code ? code : check_passes(o);
}

/* ---- what was given ------------------------------------------------------------------------ */

const char *
option_text(const Options *o, const Opt *t, int i)
{
	const char *at = (const char *)o + t->at;

	switch (t->kind) {
	case OPT_FLAG: return *(const bool *)at && i == 0 ? "true" : NULL;
	case OPT_LIST:
	case OPT_CHOICES: return i < ((const List *)at)->n ? ((const List *)at)->at[i] : NULL;
	case OPT_TEXT:
	case OPT_CHOICE:
	case OPT_MAYBE: return i == 0 ? *(const char *const *)at : NULL;
	default: return NULL;                        /* numbers: limits and the like */
	}
}
