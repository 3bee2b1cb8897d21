/* The passes in order. A pass is a row here, a file, and a test. */
#include <string.h>
#include <time.h>
#include "opt.h"

/* name, level it needs, level it leaves, can be left out, function, what it does in 40 columns */
const Pass passes[] = {
	{"simplify",  LEVEL_GRAPH,  LEVEL_GRAPH,  true,  pass_simplify,
		"apply the rewrite rules"},
	{"lower",     LEVEL_GRAPH,  LEVEL_TENSOR, false, pass_lower,
		"replace operators by their definitions"},
	{"quantized", LEVEL_TENSOR, LEVEL_TENSOR, true,  pass_quantized,
		"sum dequantized bytes as integers"},
	{"narrow",    LEVEL_TENSOR, LEVEL_TENSOR, true,  pass_narrow,
		"move and compare bytes, not floats"},
	{"precision", LEVEL_TENSOR, LEVEL_TENSOR, true,  pass_precision,
		"round operands of products on request"},
	{"dot4",      LEVEL_TENSOR, LEVEL_TENSOR, true,  pass_dot4,
		"sum products of bytes and halves in words"},
	{"inline",    LEVEL_TENSOR, LEVEL_TENSOR, true,  pass_inline,
		"write producers into their consumers"},
	{"scales",    LEVEL_TENSOR, LEVEL_TENSOR, true,  pass_scales,
		"scale sums of narrow weights once"},
	{"hoist",     LEVEL_TENSOR, LEVEL_TENSOR, true,  pass_hoist,
		"compute invariant reductions once"},
	{"fold",      LEVEL_TENSOR, LEVEL_TENSOR, true,  pass_fold,
		"compute what depends on constants alone"},
	{"winograd",  LEVEL_TENSOR, LEVEL_TENSOR, true,  pass_winograd,
		"make convolutions with fewer products"},
	{"widen",     LEVEL_TENSOR, LEVEL_TENSOR, true,  pass_widen,
		"keep halves that are read often as f32"},
	{"siblings",  LEVEL_TENSOR, LEVEL_TENSOR, true,  pass_siblings,
		"join products of one operand (GPUs)"},
	{"decode",    LEVEL_TENSOR, LEVEL_TENSOR, true,  pass_decode,
		"cut keys of attentions of few rows (GPUs)"},
	{"split",     LEVEL_TENSOR, LEVEL_TENSOR, true,  pass_split,
		"cut long reductions where blocks are few"},
	{"sizes",     LEVEL_TENSOR, LEVEL_TENSOR, false, pass_sizes,
		"name the sizes that run-time data decide"},
	{"group",     LEVEL_TENSOR, LEVEL_TENSOR, true,  pass_group,
		"gather tensors into kernels"},
	{"pack",      LEVEL_TENSOR, LEVEL_TENSOR, true,  pass_pack,
		"copy operands of products into panels"},
	{"layout",    LEVEL_TENSOR, LEVEL_TENSOR, true,  pass_layout,
		"choose how values lie in memory"},
	{"schedule",  LEVEL_TENSOR, LEVEL_LOOP,   false, pass_schedule,
		"make the kernels and the host plan"},
	{0}
};

static const char *const level_names[] = {"graph", "tensor", "loop"};

static bool
listed(const char *list, const char *name)
{
	size_t n = strlen(name);
	const char *p = list;

	while (p && (p = strstr(p, name))) {
		if ((p == list || p[-1] == ',') && (p[n] == 0 || p[n] == ','))
			return true;
		p += n;
	}
	return false;
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool
run_passes(Module *m, Level *level, const PassOptions *o)
{
	const Pass *p;
	double t;

	for (p = passes; p->name; p++) {
		if (p->needs < *level || (o->only && !listed(o->only, p->name)))
			continue;
		if (p->optional && (listed(o->disabled, p->name) || o->level == 0))
			continue;
		if (p->needs > *level) {
			diag_error(m->diag, X_USAGE, NULL,
				"pass '%s' needs %s level, but the module is at %s level", p->name,
				level_names[p->needs], level_names[*level]);
			return false;
		}
		t = now();
		if (o->before)
			o->before(p->name, o->ctx);
		if (!p->run(m) || m->diag->errors)
			return false;
		*level = p->leaves;
		if (o->time)
			fprintf(o->time, "%-10s %8.1f ms\n", p->name, (now() - t) * 1e3);
		if (o->after)
			o->after(m, *level, p->name, o->ctx);
		if (!module_verify(m, *level))
			return false;
		if (o->stop && strcmp(o->stop, p->name) == 0)
			break;
	}
	return true;
}
