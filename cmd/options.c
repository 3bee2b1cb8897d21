/* Options: one table from which the parser and the help text come. */
#include <stdlib.h>
#include <string.h>
#include "cmd.h"

typedef enum Kind { FLAG, TEXT, LIST, INT, REAL, JSON } Kind;

#define AT(f) offsetof(Options, f)
/* long name, short, kind, where, argument, what it does */
static const struct { const char *name; char brief; Kind kind; size_t at; const char *arg, *doc; } table[] = {
	{"target",        0,  LIST, AT(target),       "T",         "machine to compile for (default native); again for more"},
	{"output-file",   'o', TEXT, AT(out),         "OUT",       "where the artefact goes"},
	{"emit",          0,  LIST, AT(emit),         "KIND",      "exe, so, a, obj, src, llvm, asm, ptx, cubin, hsaco, ir, stablehlo"},
	{"stage",         0,  TEXT, AT(stage),        "LEVEL",     "of --emit ir: graph, tensor or loop"},
	{"shape",         0,  LIST, AT(shape),        "NAME=DIMS", "fix or bound an input's shape: x=1x3x224x224, x=1..32x3x?x?"},
	{"dim",           0,  LIST, AT(dim),          "N=V",       "fix or bound a symbolic dimension"},
	{"freeze",        0,  LIST, AT(freeze),       "NAME=FILE", "an input becomes a constant"},
	{"input",         0,  LIST, AT(input),        "NAME=FILE", "an input's value (.npy, .npz, .pb, .raw, pictures, text)"},
	{"output",        0,  LIST, AT(output),       "NAME=FILE", "where an output goes"},
	{"output-dir",    0,  TEXT, AT(output_dir),   "DIR",       "write all outputs as DIR/output_N.npy"},
	{"data",          0,  LIST, AT(data),         "DIR",       "expected inputs and outputs"},
	{"rtol",          0,  REAL, AT(rtol),         "R",         "relative tolerance (default 1e-3)"},
	{"atol",          0,  REAL, AT(atol),         "A",         "absolute tolerance (default 1e-7)"},
	{"timeout",       0,  INT,  AT(timeout),      "S",         "seconds a case may take (default 60)"},
	{"simulate",      0,  FLAG, AT(simulate),     NULL,        "run a GPU target's source on the CPU, with all checks"},
	{"threads",       0,  INT,  AT(threads),      "N",         "threads at run time"},
	{"jobs",          'j', INT, AT(jobs),         "N",         "work side by side"},
	{"level",         'O', TEXT, AT(level),       "0..3",      "optimisation (default 2)"},
	{"passes",        0,  TEXT, AT(only),         "A,B",       "run these passes only"},
	{"disable-pass",  0,  TEXT, AT(disabled),     "A,B",       "leave passes out"},
	{"dump-after",    0,  TEXT, AT(dump_after),   "PASS|all",  "print the IR after a pass"},
	{"dump-dir",      0,  TEXT, AT(dump_dir),     "DIR",       "write the dumps there"},
	{"stop-after",    0,  TEXT, AT(stop_after),   "PASS",      "stop there"},
	{"time-passes",   0,  FLAG, AT(time_passes),  NULL,        "say how long each pass took"},
	{"strict",        0,  FLAG, AT(strict),       NULL,        "only exact rewrites"},
	{"static",        0,  FLAG, AT(use_static),   NULL,        "link statically"},
	{"symbol-prefix", 0,  TEXT, AT(prefix),       "P",         "prefix of exported symbols"},
	{"weights",       0,  TEXT, AT(weights),      "embed|file", "where the weights go"},
	{"host",          0,  TEXT, AT(host),         "CPU",       "CPU of a GPU target's host code"},
	{"json",          0,  JSON, AT(json),         "FILE",      "machine-readable output"},
	{"color",         0,  TEXT, AT(color),        "WHEN",      "auto, always, never"},
	{"verbose",       'v', FLAG, AT(verbose),     NULL,        "say more"},
	{"quiet",         'q', FLAG, AT(quiet),       NULL,        "only errors"},
	{"help",          'h', FLAG, AT(help),        NULL,        "this text"},
};
enum { NOPT = sizeof table / sizeof *table };

void
print_options(FILE *f)
{
	char left[64];
	size_t i;

	for (i = 0; i < NOPT; i++) {
		snprintf(left, sizeof left, "%s%.1s%s--%s%s%s", table[i].brief ? "-" : "", table[i].brief ? &table[i].brief : "",
			table[i].brief ? ", " : "", table[i].name, table[i].arg ? " " : "", table[i].arg ? table[i].arg : "");
		fprintf(f, "  %-28s %s\n", left, table[i].doc);
	}
}

static int
wrong(const char *opt, const char *what)
{
	fprintf(stderr, "error: %s: %s\n", opt, what);
	return X_USAGE;
}

static int
set(Options *o, size_t i, const char *opt, const char *val)
{
	char *at = (char *)o + table[i].at, *end;
	List *l;

	switch (table[i].kind) {
	case FLAG: *(bool *)at = true; break;
	case TEXT: *(const char **)at = val; break;
	case JSON: *(const char **)at = val ? val : ""; break;
	case LIST:
		l = (List *)at;
		if (l->n == MAX_LIST)
			return wrong(opt, "given too often");
		l->at[l->n++] = val;
		break;
	case INT:
		*(int *)at = (int)strtol(val, &end, 10);
		if (*end || end == val || *(int *)at < 0)
			return wrong(opt, "a number is expected");
		break;
	case REAL:
		*(double *)at = strtod(val, &end);
		if (*end || end == val)
			return wrong(opt, "a number is expected");
		break;
	}
	return 0;
}

int
parse_options(int argc, char **argv, Options *o)
{
	const char *a, *val;
	size_t k, n;
	int i;

	o->rtol = o->atol = -1;
	o->files = calloc((size_t)argc + 1, sizeof *o->files);
	if (!o->files)
		abort();
	for (i = 0; i < argc; i++) {
		a = argv[i];
		if (a[0] != '-' || !a[1]) {
			o->files[o->nfiles++] = a;
			continue;
		}
		val = NULL;
		if (strncmp(a, "--simulate=fast", 15) == 0) {
			o->simulate = o->simulate_fast = true;
			continue;
		}
		if (a[1] == '-') {
			n = strcspn(a + 2, "=");
			for (k = 0; k < NOPT && (strlen(table[k].name) != n || memcmp(table[k].name, a + 2, n)); k++)
				;
			if (a[2 + n])
				val = a + 3 + n;
		} else {
			for (k = 0; k < NOPT && table[k].brief != a[1]; k++)
				;
			if (a[2])
				val = a + 2;
		}
		if (k == NOPT)
			return wrong(a, "unknown option");
		if (table[k].kind == FLAG && val)
			return wrong(a, "takes no value");
		if (!val && table[k].kind != FLAG && table[k].kind != JSON) {
			if (++i == argc)
				return wrong(a, "a value is missing");
			val = argv[i];
		}
		if (set(o, k, a, val))
			return X_USAGE;
	}
	return 0;
}
