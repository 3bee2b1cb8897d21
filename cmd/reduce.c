/*
 * reduce: the smallest part of a model that still fails, with the values that go in and should come
 * out, and the pass that breaks it. The evaluator says what every value of the graph should be. A
 * part is a node with what is above it down to a cut; the values at the cut are its inputs. Each
 * part is compiled and run in a process of its own, so that crashes and hangs are verdicts too.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cmd.h"

enum { SECONDS = 60 };                 /* --timeout's default */

/* What a part's process ends with, beside exit codes. */
enum { CRASH = 128, HANG };

typedef struct Reduce {
	const Options *o;
	Compilation c;
	Tolerance tol;
	Map value;             /* node of the graph, or input -> constant */
	Node **node;           /* tensors that the graph makes, operands first */
	int n, tried;
	char *why;             /* shared with the parts' processes: WHY bytes */
} Reduce;
enum { WHY = 1200 };

/* ---- parts --------------------------------------------------------------------------------- */

typedef struct Piece {
	Node *root;
	Map cut;               /* nodes that are inputs */
} Piece;

static Node *
param_for(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	(void)m;
	(void)in;
	(void)done;
	return map_get(ctx, n);
}

/* The nodes of the part: first those at its cut, *ncut of them, then the others, operands first.
 * Only operands are followed: what stands inside of a loop or an if belongs to it. malloc'ed. */
static Node **
part_nodes(const Piece *p, int *ncut, int *n)
{
	Node **list = malloc(sizeof *list), **inner = NULL, **stack = malloc(sizeof *stack), *x;
	int depth = 1, cap = 1, ninner = 0, i;
	Map seen = {0};

	*ncut = 0;
	stack[0] = p->root;
	map_put(&seen, p->root, p->root);
	while (depth) {
		x = stack[--depth];
		if (x != p->root && (map_get(&p->cut, x) || x->code == O_PARAM)) {
			list = realloc(list, sizeof *list * (size_t)(*ncut + 1));
			list[(*ncut)++] = x;
			continue;
		}
		inner = realloc(inner, sizeof *inner * (size_t)(ninner + 1));
		inner[ninner++] = x;
		if (depth + x->nin > cap) {
			cap = 2 * (depth + x->nin);
			stack = realloc(stack, sizeof *stack * (size_t)cap);
		}
		for (i = 0; i < x->nin; i++)
			if (x->in[i] && !map_get(&seen, x->in[i])) {
				map_put(&seen, x->in[i], x);
				stack[depth++] = x->in[i];
			}
	}
	list = realloc(list, sizeof *list * (size_t)(*ncut + ninner + 1));
	for (i = 0; i < ninner; i++)
		list[*ncut + i] = inner[ninner - 1 - i];
	*n = *ncut + ninner;
	map_free(&seen);
	free(inner);
	free(stack);
	return list;
}

/* Makes the module the part: false if a value at the cut is no tensor. Constants of the inputs
 * and of the result go to in and want. */
static bool
take_part(Reduce *r, const Piece *p, Node ***in, Node **want)
{
	Module *m = r->c.m;
	Map params = {0};
	int ncut, n, i;
	Node **list = part_nodes(p, &ncut, &n), *v;

	m->main = arena_dup(m->arena, m->main, sizeof *m->main);
	m->main->params = NEWN(m, Node *, ncut + 1);
	m->main->nparams = ncut;
	m->in_names = NEWN(m, const char *, ncut + 1);
	*in = NEWN(m, Node *, ncut + 1);
	for (i = 0; i < ncut; i++) {
		v = map_get(&r->value, list[i]);
		if (!v)
			return false;
		(*in)[i] = v;
		m->in_names[i] = arena_printf(m->arena, "in_%d", i);
		m->main->params[i] = t_param(m, m->in_names[i], v->type, i);
		map_put(&params, list[i], m->main->params[i]);
	}
	free(list);
	m->main->results = NEWN(m, Node *, 1);
	m->main->results[0] = p->root;
	m->main->nresults = 1;
	m->out_names = NEWN(m, const char *, 1);
	m->out_names[0] = "out";
	m->requires.n = m->symdefs.n = 0;
	*want = map_get(&r->value, p->root);
	rewrite_module(m, false, param_for, &params);
	map_free(&params);
	return *want != NULL;
}

/* ---- judging ------------------------------------------------------------------------------- */

/* Compiles the module and runs it; an exit code. */
static int
try_module(Reduce *r, Node **in, const Node *want)
{
	TccValue got = {0}, expected = {0};
	TccErr err = {0};
	int code = X_OK;

	r->c.diag.out = NULL;
	if (!compile_module(&r->c) || r->c.diag.errors)
		code = failure(&r->c);
	else if ((code = run_inputs(&r->c, in, &got, &err)) == 0
	 && (code = value_of_node(want, &expected, &err)) == 0
	 && !values_equal(&got, &expected, &r->tol, r->why, WHY))
		return X_DIFFER;
	if (code)
		snprintf(r->why, WHY, "%s", err.text[0] ? err.text : r->c.diag.first);
	return code;
}

/* The verdict on the part: X_OK, or the code that it ends with. */
static int
judge(Reduce *r, const Piece *p)
{
	int status, seconds = r->o->timeout ? r->o->timeout : SECONDS;
	Node **in, *want;
	pid_t pid;

	r->tried++;
	phase(r->o, "part %d of the model", r->tried);
	r->why[0] = 0;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		alarm((unsigned)seconds);
		freopen("/dev/null", "w", stderr);
		_exit(take_part(r, p, &in, &want) ? try_module(r, in, want) : X_OK);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return X_OK;
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	snprintf(r->why, WHY, WTERMSIG(status) == SIGALRM ? "it takes over %d seconds" : "signal %d",
		WTERMSIG(status) == SIGALRM ? seconds : WTERMSIG(status));
	return WTERMSIG(status) == SIGALRM ? HANG : CRASH;
}

/* ---- searching ----------------------------------------------------------------------------- */

/* The first node that fails alone, on right operands. */
static bool
one_node(Reduce *r, int code, Piece *p)
{
	Map all = {0};
	int i;

	for (i = 0; i < r->n; i++)
		map_put(&all, r->node[i], r->node[i]);
	for (i = 0; i < r->n; i++) {
		*p = (Piece){r->node[i], all};
		if (judge(r, p) == code)
			return true;
	}
	map_free(&all);
	return false;
}

/* The first node that fails when all above it is computed. Half the rest may be right again: any
 * failing one will do. */
static void
first_prefix(Reduce *r, int code, Piece *p)
{
	int lo = 0, hi = r->n - 1, mid;

	while (lo < hi) {
		mid = (lo + hi) / 2;
		p->root = r->node[mid];
		if (judge(r, p) == code)
			hi = mid;
		else
			lo = mid + 1;
	}
	p->root = r->node[lo];
}

/* Cuts node by node, from the inputs down, what can be cut while it fails. */
static void
cut_down(Reduce *r, int code, Piece *p)
{
	int i, k, ncut, n, step;
	Node **list = part_nodes(p, &ncut, &n);
	Piece q;

	for (step = (n - ncut) / 2; step > 0; step /= 2)
		for (i = ncut; i < n - 1; i += step) {
			q = (Piece){.root = p->root};
			for (k = 0; k < n; k++)
				if (map_get(&p->cut, list[k])
				 || (k >= i && k < i + step && map_get(&r->value, list[k]) && list[k] != p->root))
					map_put(&q.cut, list[k], list[k]);
			if (judge(r, &q) == code) {
				map_free(&p->cut);
				*p = q;
			} else {
				map_free(&q.cut);
			}
		}
	free(list);
}

/* ---- the model ----------------------------------------------------------------------------- */

/* Reads input i from a folder or an archive; NULL: there is none, or an error was reported. */
static Node *
read_data(Reduce *r, const char *data, int i)
{
	const char *name = r->c.m->in_names[i];
	char path[4096];
	TccErr err = {0};
	struct stat st;
	Node *n;

	if (stat(data, &st) == 0 && S_ISDIR(st.st_mode))
		find_data_file(path, sizeof path, data, "input", i);
	else
		snprintf(path, sizeof path, "%s", data);
	n = read_constant(r->c.m, path, name, &err);
	if (!n)
		diag_error(&r->c.diag, err.code ? err.code : X_UNSUPPORTED, NULL, "input '%s': %s", name,
			err.code ? err.text : "it is no tensor");
	return n;
}

/* NAME=2x3, malloc'ed. */
static const char *
shape_text(const char *name, const Node *value)
{
	int64_t dims[MAX_RANK];
	char *text;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	int k;

	if (!f || !const_dims(value, dims))
		abort();
	fprintf(f, "%s=", name);
	for (k = 0; k < rank_of(value); k++)
		fprintf(f, "%s%lld", k ? "x" : "", (long long)dims[k]);
	fclose(f);
	return text;
}

/* The model with the shapes that its inputs have; the inputs as constants. */
static bool
load(Reduce *r, const char *path, Options *fixed)
{
	const char *data = r->o->data.n ? r->o->data.at[0] : NULL;
	Node **in;
	int i;

	if (!load_model(&r->c, fixed, path, NULL))
		return false;
	if (r->c.level != LEVEL_GRAPH) {
		diag_error(&r->c.diag, X_USAGE, NULL, "reduce takes a model at graph level");
		return false;
	}
	in = NEWN(r->c.m, Node *, r->c.m->main->nparams + 1);
	if (!data && !make_inputs(&r->c, in))
		return false;
	for (i = 0; i < r->c.m->main->nparams; i++) {
		if (data && !(in[i] = read_data(r, data, i)))
			return false;
		map_put(&r->value, r->c.m->main->params[i], in[i]);
		if (!r->c.m->symdefs.n || fixed->shape.n == MAX_LIST)
			continue;
		if (rank_of(in[i]))
			fixed->shape.at[fixed->shape.n++] = shape_text(r->c.m->in_names[i], in[i]);
	}
	return true;
}

/* Evaluates all tensors that the graph makes. */
static bool
evaluate(Reduce *r)
{
	Module *m = r->c.m;
	Region whole = *m->main;
	int i, n = 0, nin = m->main->nparams;
	Node **list = NULL, **in = NEWN(m, Node *, nin + 1), **out;
	Map seen = {0};
	Piece p = {0};

	for (i = 0; i < nin; i++)
		in[i] = map_get(&r->value, m->main->params[i]);
	for (i = 0; i < whole.nresults; i++) {
		int ncut, k, count;
		p.root = whole.results[i];
		Node **part = part_nodes(&p, &ncut, &count);
		list = realloc(list, sizeof *list * (size_t)(n + count + 1));
		for (k = ncut; k < count; k++)
			if (part[k]->code != O_CONST && part[k]->type->kind == T_TENSOR
			 && !map_get(&seen, part[k])) {
				map_put(&seen, part[k], part[k]);
				list[n++] = part[k];
			}
		free(part);
	}
	map_free(&seen);
	r->node = list;
	r->n = n;
	out = NEWN(m, Node *, n + 1);
	m->main->results = list;
	m->main->nresults = n;
	phase(r->o, "the evaluator");
	if (!module_eval(m, r->c.level, in, out, false))
		return false;
	for (i = 0; i < n; i++)
		map_put(&r->value, list[i], out[i]);
	*m->main = whole;
	return true;
}

/* ---- the result ---------------------------------------------------------------------------- */

static bool
write_value(Reduce *r, const char *dir, const char *what, int i, const Node *v)
{
	const char *path = arena_printf(r->c.m->arena, "%s/%s_%d.npy", dir, what, i);
	TccValue t = {0};
	TccErr err = {0};
	bool ok = value_of_node(v, &t, &err) == 0 && tcc_write_value(path, what, &t, &err) == 0;

	if (!ok)
		diag_error(&r->c.diag, err.code, NULL, "%s: %s", path, err.text);
	tcc_value_free(&t);
	return ok;
}

/* Names the pass, by --check-passes on the part's values. */
static void
blame(Reduce *r, Node **in)
{
	Options o = *r->o;

	o.check_passes = true;
	r->c.o = &o;
	r->c.given = in;
	r->c.diag.out = NULL;
	r->why[0] = 0;
	if (!compile_module(&r->c) || r->c.diag.errors)
		snprintf(r->why, WHY, "%s", r->c.diag.first);
}

static int
write_part(Reduce *r, const Piece *p, const char *dir)
{
	Node **in, *want;
	bool ok;
	int i;

	mkdir(dir, 0777);
	if (!take_part(r, p, &in, &want))
		return X_BUG;
	ok = print_module(&r->c, arena_printf(r->c.m->arena, "%s/model.ir", dir), NULL);
	for (i = 0; i < r->c.m->main->nparams && ok; i++)
		ok = write_value(r, dir, "input", i, in[i]);
	if (!ok || !write_value(r, dir, "output", 0, want))
		return r->c.diag.code;
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		blame(r, in);
		_exit(0);
	}
	waitpid(pid, &i, 0);
	return X_OK;
}

static int
search(Reduce *r)
{
	const char *dir = r->o->out ? r->o->out : "reduced";
	Piece p = {0};
	int i, code = X_OK, left = 0, ncut, n;
	char first[WHY];
	Node **list;

	for (i = 0; i < r->c.m->main->nresults && !code; i++) {
		p.root = r->c.m->main->results[i];
		code = judge(r, &p);
	}
	if (!code) {
		printf("%s does not fail: %d parts were tried\n", r->o->files[0], r->tried);
		return X_OK;
	}
	if (!one_node(r, code, &p)) {
		p = (Piece){0};
		first_prefix(r, code, &p);
		cut_down(r, code, &p);
	}
	judge(r, &p);
	snprintf(first, sizeof first, "%s", r->why);
	list = part_nodes(&p, &ncut, &n);
	for (i = ncut; i < n; i++)
		left += list[i]->code != O_CONST;
	free(list);
	i = write_part(r, &p, dir);
	if (i)
		return i;
	printf("%s: %s\n%d of %d nodes are left, %d parts were tried: %s/model.ir\n", r->o->files[0],
		first, left, r->n, r->tried, dir);
	if (r->why[0])
		printf("%s\n", r->why);
	printf("tcc-ml verify %s/model.ir --data %s shows it\n", dir, dir);
	return X_DIFFER;
}

int
cmd_reduce(const Options *o)
{
	Options fixed = *o;
	Reduce r = {.o = o, .tol = {
		o->rtol >= 0 ? o->rtol : DEFAULT_RTOL, o->atol >= 0 ? o->atol : 1e-5, o->max_ulp}};
	int code;
	bool ok;

	r.why = mmap(NULL, WHY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (r.why == MAP_FAILED)
		abort();
	ok = load(&r, o->files[0], &fixed);
	if (ok && fixed.shape.n > o->shape.n) {        /* again, with sizes that are numbers */
		compilation_free(&r.c);
		map_free(&r.value);
		r.c = (Compilation){0};
		ok = load(&r, o->files[0], &fixed);
	}
	ok = ok && evaluate(&r);
	code = ok ? search(&r) : failure(&r.c);
	map_free(&r.value);
	free(r.node);
	compilation_free(&r.c);
	while (fixed.shape.n > o->shape.n)
		free((char *)fixed.shape.at[--fixed.shape.n]);
	munmap(r.why, WHY);
	return code;
}
