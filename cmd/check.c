/* check, ops, passes, targets: what there is, and what a model needs. */
#include <string.h>
#include "cmd.h"

int
cmd_check(const Options *o)
{
	Compilation c = {0};
	int code;

	if (o->nfiles != 1) {
		fputs("error: check takes one model\n", stderr);
		return X_USAGE;
	}
	load_model(&c, o, o->files[0], o->target.n ? o->target.at[0] : NULL);
	code = c.diag.errors ? c.diag.code : X_OK;
	if (!code && !o->quiet)
		printf("%s: no problems found\n", o->files[0]);
	compilation_free(&c);
	return code;
}

int
cmd_ops(const Options *o)
{
	static const char *const kinds[] = {"core", "scalar", "elementwise", "composed", "index", "structured"};
	const Op *op;

	(void)o;
	for (op = op_next(NULL); op; op = op_next(op))
		printf("%-24s %-32s %3d  %-12s %s\n", op->name, op->onnx ? op->onnx : "-", op->since, kinds[op->kind], op->doc);
	return X_OK;
}

int
cmd_passes(const Options *o)
{
	static const char *const levels[] = {"graph", "tensor", "loop"};
	const Pass *p;

	(void)o;
	for (p = passes; p->name; p++)
		printf("%-10s %-6s -> %-6s %s\n", p->name, levels[p->needs], levels[p->leaves], p->doc);
	return X_OK;
}

int
cmd_targets(const Options *o)
{
	Diag d = {.out = stderr};
	Module *m = module_new(&d);
	const Machine *t;
	int i;

	(void)o;
	for (i = 0; (t = machine_at(m, i)); i++)
		printf("%-16s %s\n", t->name, t->triple ? t->triple : "");
	module_free(m);
	return X_OK;
}
