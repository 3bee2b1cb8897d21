/* check, opt, and the lists: ops, targets, passes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cmd.h"

static bool
quiet_text(const Options *o)
{
	return o->json && !*o->json;
}

/* Is the name asked for, b also without its domain? Without names all are. */
static bool
asked(const Options *o, const char *a, const char *b)
{
	const char *c = b ? strrchr(b, ':') : NULL, *f;
	int i;

	for (i = 0; i < o->nfiles; i++) {
		f = o->files[i];
		if (strcasecmp(f, a) == 0 || (b && strcasecmp(f, b) == 0) ||
				(c && strcasecmp(f, c + 1) == 0))
			return true;
	}
	return o->nfiles == 0;
}

/* ---- check --------------------------------------------------------------------------------- */

static int
check_one(const Options *o, cJSON *json, const char *target)
{
	Compilation c = {.json = json};
	int code = X_OK;

	if (!load_model(&c, o, o->files[0], target) || !compile_module(&c))
		code = failure(&c);
	if (!code && !quiet_text(o))
		printf("%s: no problems found for %s%s\n", o->files[0], c.m->machine->name,
			c.diag.warnings ? ", but see the warnings" : "");
	compilation_free(&c);
	return code;
}

int
cmd_check(const Options *o)
{
	cJSON *json = json_new(o);
	int i, code = X_OK, r;

	for (i = 0; i < (o->target.n ? o->target.n : 1); i++) {
		r = check_one(o, json, o->target.n ? o->target.at[i] : NULL);
		code = code ? code : r;
	}
	json_flag(json, "ok", code == X_OK);
	return json_end(o, json, code);
}

/* ---- opt ----------------------------------------------------------------------------------- */

int
cmd_opt(const Options *o)
{
	cJSON *json = json_new(o);
	Compilation c = {.json = json};
	bool to_file = o->out && strcmp(o->out, "-");
	int code = X_OK;

	if (o->target.n > 1)
		return complain(X_USAGE, "opt takes one --target");
	if (o->json && !*o->json && !to_file)
		return complain(X_USAGE, "the IR goes to stdout: --json=FILE, or -o FILE");
	if (!load_model(&c, o, o->files[0], NULL) || !compile_module(&c)
	 || !print_module(&c, to_file ? o->out : NULL, stdout))
		code = failure(&c);
	else
		json_text(json, "level", level_names[c.level]);
	compilation_free(&c);
	return json_end(o, json, code);
}

/* ---- ops ----------------------------------------------------------------------------------- */

static const char *const row_kinds[] = {"core", "scalar", "elementwise", "composed", "index",
	"structured", "host"};

/* "float; int64" of the operands that say what they take. */
static void
types_of(const Op *op, char *buf, size_t size)
{
	const Sig *s = op_sig(op);
	size_t n = 0;
	int i;

	*buf = 0;
	for (i = 0; i < s->nin && n < size; i++)
		n += (size_t)snprintf(buf + n, size - n, "%s%s%s%s", i ? ", " : "",
			s->in[i].types && *s->in[i].types ? s->in[i].types : "any",
			s->in[i].optional ? "?" : "", s->in[i].variadic ? "..." : "");
}

/* "13 (12, 6)": the newest form, and the last versions of forms that become it. */
static void
versions_of(const Op *op, char *buf, size_t size, cJSON *list)
{
	int older[MAX_FORMS], n = older_forms(op->onnx, older), i;
	size_t at = (size_t)snprintf(buf, size, "%d", op->since);

	for (i = 0; i < n && at < size; i++) {
		at += (size_t)snprintf(buf + at, size - at, "%s%d%s", i ? ", " : " (", older[i],
			i + 1 == n ? ")" : "");
		json_add_real(list, older[i]);
	}
}

static void
print_op(const Options *o, const Op *op, cJSON *list)
{
	cJSON *j = json_add(list), *places;
	char types[300], versions[40];
	const char *where = op->kind == ROW_HOST ? "host" : "yes";
	int i;

	types_of(op, types, sizeof types);
	versions_of(op, versions, sizeof versions, json_list(j, "older_forms"));
	json_text(j, "name", op->name);
	json_text(j, "onnx", op->onnx);
	json_real(j, "since", op->since);
	json_text(j, "kind", row_kinds[op->kind]);
	json_text(j, "signature", op->sig);
	json_text(j, "doc", op->doc);
	places = json_object(j, "targets");
	for (i = 0; targets[i]; i++)
		json_text(places, targets[i]->name, where);
	if (quiet_text(o))
		return;
	printf("%-28s %-10s %-12s", op->onnx ? op->onnx : op->name, versions, row_kinds[op->kind]);
	for (i = 0; targets[i]; i++)
		printf(" %-5s", where);
	printf(" %s\n", types);
	if (o->verbose)
		printf("    %s\n    %s%s\n", op->doc ? op->doc : "", op->name, op->sig ? op->sig : "");
}

static int
by_name(const void *a, const void *b)
{
	const Op *x = *(const Op *const *)a, *y = *(const Op *const *)b;

	return strcmp(x->onnx ? x->onnx : x->name, y->onnx ? y->onnx : y->name);
}

int
cmd_ops(const Options *o)
{
	cJSON *json = json_new(o), *list = json_list(json, "operators");
	const Op *op, **all;
	int n = 0, shown = 0, i;

	for (op = op_next(NULL); op; op = op_next(op))
		n++;
	all = calloc((size_t)n + 1, sizeof *all);
	if (!all)
		abort();
	for (n = 0, op = op_next(NULL); op; op = op_next(op))
		if ((op->onnx || o->verbose || o->nfiles) && asked(o, op->name, op->onnx))
			all[n++] = op;
	qsort(all, (size_t)n, sizeof *all, by_name);
	if (!quiet_text(o) && !o->quiet) {
		printf("%-28s %-10s %-12s", "operator", "version", "definition");
		for (i = 0; targets[i]; i++)
			printf(" %-5s", targets[i]->name);
		printf(" %s\n", "operand types");
	}
	for (i = 0; i < n; i++, shown++)
		print_op(o, all[i], list);
	free(all);
	if (!quiet_text(o) && !o->quiet && !o->nfiles)
		printf("%d operators\n", shown);
	if (o->nfiles && !shown)
		return json_end(o, json, complain(X_UNSUPPORTED, "no operator of that name"));
	return json_end(o, json, X_OK);
}

/* ---- targets ------------------------------------------------------------------------------- */

static void
print_target(const Options *o, const Machine *t, cJSON *list)
{
	static const char *const kinds[] = {"cpu", "cuda", "hip", "c", "stablehlo"};
	const Target *code = target_for(t);
	cJSON *j = json_add(list), *emit;
	int k;

	json_text(j, "name", t->name);
	json_text(j, "kind", kinds[t->kind]);
	json_text(j, "base", t->base);
	if (t->triple)
		json_text(j, "triple", t->triple);
	if (t->has)
		json_text(j, "features", t->has);
	emit = json_list(j, "emit");
	for (k = 0; code && k < EMIT_NKINDS; k++)
		if (code->kinds >> k & 1)
			json_add_text(emit, emit_names[k]);
	if (quiet_text(o))
		return;
	if (o->quiet) {
		printf("%s\n", t->name);
		return;
	}
	if (o->verbose || o->nfiles) {
		printf("%s: %s\n", t->name, code ? code->doc : "no code generator yet");
		if (code && code->describe)
			code->describe(t, stdout);
	} else {
		printf("%-18s %-10s %s\n", t->name, kinds[t->kind],
			!code ? "no code generator yet" : t->triple ? t->triple : code->doc);
	}
}

int
cmd_targets(const Options *o)
{
	cJSON *json = json_new(o), *list = json_list(json, "targets");
	Diag d = {.out = stderr};
	Module *m = module_new(&d);
	const Machine *t, *native;
	int i, shown = 0;

	native = machine_of(m, "native");
	if (native && asked(o, "native", NULL)) {
		if (!quiet_text(o) && !o->quiet)
			printf("native is %s\n", native->name);
		if (o->nfiles && strcmp(o->files[0], "native") == 0)
			print_target(o, native, list);
		shown++;
	}
	json_text(json, "native", native ? native->name : NULL);
	for (i = 0; (t = machine_at(m, i)); i++)
		if (asked(o, t->name, NULL)) {
			print_target(o, t, list);
			shown++;
		}
	module_free(m);
	if (!shown)
		return json_end(o, json, complain(X_USAGE, "unknown target '%s'", o->files[0]));
	return json_end(o, json, X_OK);
}

/* ---- passes -------------------------------------------------------------------------------- */

/* Those that `simplify` applies; in text with -v alone. */
static void
print_rules(const Options *o, cJSON *json)
{
	cJSON *list = json_list(json, "rules"), *j;
	const Rule *r;

	for (r = rules; r->name; r++) {
		j = json_add(list);
		json_text(j, "name", r->name);
		json_text(j, "class", rule_classes[r->cls]);
		if (r->cls != RULE_EXACT)
			json_real(j, "ulp", r->ulp);
		json_text(j, "pattern", r->pattern);
		json_text(j, "replacement", r->replacement);
		if (*r->condition)
			json_text(j, "condition", r->condition);
		if (!quiet_text(o) && o->verbose)
			printf("  %-20s %-5s %s -> %s%s%s\n", r->name, rule_classes[r->cls],
				r->pattern, r->replacement, *r->condition ? " if " : "",
				r->condition);
	}
}

int
cmd_passes(const Options *o)
{
	cJSON *json = json_new(o), *list = json_list(json, "passes"), *j;
	const Pass *p;

	for (p = passes; p->name; p++) {
		j = json_add(list);
		json_text(j, "name", p->name);
		json_text(j, "needs", level_names[p->needs]);
		json_text(j, "leaves", level_names[p->leaves]);
		json_flag(j, "optional", p->optional);
		json_text(j, "doc", p->doc);
		if (!quiet_text(o))
			printf("%-10s %-6s -> %-6s %s%s\n", p->name, level_names[p->needs],
				level_names[p->leaves], p->doc,
				p->optional ? " (optional)" : "");
	}
	print_rules(o, json);
	return json_end(o, json, X_OK);
}
