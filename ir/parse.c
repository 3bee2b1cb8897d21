/*
 * Reads the text that print.c writes (grammar in ir/README.md) and builds the module. Scalars are
 * built exactly as stated, without simplification, so that print(parse(t)) is t; graph operators go
 * through graph_op, which checks them against their rows and makes their definitions.
 *
 * The text may be hostile: every number, name, type and depth is checked. The first error ends the
 * reading, with its line and column.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ir/machine.h"
#include "ir/parse.h"

/* ---- lines --------------------------------------------------------------------------------- */

static void lines(P *p, Region *r);
static void scalar_line(P *p);
static void defined_symbol(P *p);

/* A parameter's name: stated after its number, or the one it is used by. */
const char *ps_own_name(P *p, const char *used)
{
	if (p->tok == T_STR)
		return ps_string(p);
	return isdigit((unsigned char)*used) ? NULL : intern(p->m, used + (*used == '"'));
}

static Node *param(P *p, int position)
{
	if (p->tok != T_VALUE)
		ps_bad(p, "a parameter is expected");
	const char *name = intern(p->m, p->str), *own;
	ps_next(p);
	own = ps_own_name(p, name);
	ps_want(p, ":");
	Node *n = t_param(p->m, own, ps_type(p, false), position);
	ps_enter(p, &p->values, name, n);
	return n;
}

static void params(P *p, Region *r)
{
	Nodes v = { 0 };
	ps_want(p, "(");
	while (!ps_is(p, ")")) {
		ps_append(p, &v, param(p, v.n));
		if (!ps_eat(p, ","))
			break;
	}
	ps_want(p, ")");
	r->params = v.at;
	r->nparams = v.n;
}

static Region *region(P *p)
{
	Region *r = region_new(p->m, p->tok == T_STR ? ps_string(p) : ps_word(p, "a region's name"));
	ps_deeper(p);
	params(p, r);
	ps_want(p, "{");
	lines(p, r);
	ps_want(p, "yield");
	while (!ps_is(p, "}")) {
		Node *n = ps_value(p);
		if (n->type->kind == T_SCALAR || n->type->kind == T_BUFFER)
			ps_bad(p, "a region gives tensors");
		region_add(p->m, r, n);
		if (!ps_eat(p, ","))
			break;
	}
	ps_want(p, "}");
	p->depth--;
	return r;
}

static int regions(P *p, Region ***list)
{
	Region *r[64];
	int n = 0;
	*list = NULL;
	if (!ps_eat(p, "{"))
		return 0;
	while (!ps_is(p, "}")) {
		if (n == 64)
			ps_bad(p, "too many regions");
		r[n++] = region(p);
	}
	ps_next(p);
	*list = arena_dup(p->m->arena, r, sizeof *r * (size_t)n);
	return n;
}

static const Attr *choices(P *p)
{
	return ps_eat(p, "with") ? ps_attributes(p, NULL) : NULL;
}

static Node *tensor(P *p)
{
	Node *in[MAX_RANK + 1], *dims[MAX_RANK];
	int saved = p->nlocals;
	ps_next(p);
	int n = ps_axis_list(p, in, MAX_RANK);
	DType d = ps_dtype(p);
	const Attr *with = choices(p);
	in[n] = ps_block(p);
	p->nlocals = saved;
	if (in[n]->type->dtype != d)
		ps_bad(p, "the body is %s, not %s", dtypes[in[n]->type->dtype].text, dtypes[d].text);
	for (int i = 0; i < n; i++)
		dims[i] = in[i]->in[0];
	Node *t = ps_raw(p, O_TENSOR, ty_tensor(p->m, d, n, dims), n + 1, in, 0);
	return with ? node_with(p->m, t, with) : t;
}

static Node *scatter(P *p)
{
	Node *axes[MAX_RANK * 2], *idx[MAX_RANK];
	int saved = p->nlocals, n, k = 0;
	ps_next(p);
	int c = ps_comb(p);
	if (c < 0)
		ps_bad(p, "a combination is expected");
	ps_next(p);
	Node *base = ps_value(p);
	if (base->type->kind != T_TENSOR)
		ps_bad(p, "a tensor is expected");
	ps_check_comb(p, c, base->type->dtype);
	const Attr *with = choices(p);
	n = ps_axis_list(p, axes, MAX_RANK * 2);
	ps_want(p, "[");
	while (!ps_is(p, "]")) {
		if (k == base->type->rank)
			break;
		idx[k++] = ps_index_expr(p);
		if (!ps_eat(p, ","))
			break;
	}
	if (k != base->type->rank)
		ps_bad(p, "%d indices are expected", base->type->rank);
	ps_want(p, "]");
	ps_want(p, "=");
	Node *v = ps_expr(p);
	ps_want(p, "if");
	Node *cond = ps_expr(p);
	p->nlocals = saved;
	if (v->type->dtype != base->type->dtype || cond->type->dtype != DT_BOOL)
		ps_bad(p, "the value must be %s and the condition bool", dtypes[base->type->dtype].text);
	Node *t = t_scatter(p->m, c, base, n, axes, idx, v, cond);
	return with && t->code == O_SCATTER ? node_with(p->m, t, with) : t;
}

static const Op *core_line(const char *name)
{
	static const OpCode codes[] = { O_TUPLE, O_SEQ, O_IF, O_LOOP, O_HOST };
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		if (!strcmp(core_op(codes[i])->name, name))
			return core_op(codes[i]);
	return NULL;
}

/* The operands must suit the operation, or later passes would stumble. */
static void check_core(P *p, const Node *t)
{
	int want_regions = t->op->code == O_IF ? 2 : t->op->code == O_LOOP ? 1 : 0;
	if (t->nregions != want_regions)
		ps_bad(p, "%s has %d regions", t->op->name, want_regions);
	if (t->op->code == O_TUPLE) {
		if (t->type->kind != T_TUPLE || t->type->rank != t->nin)
			ps_bad(p, "the type has another number of results");
		for (int i = 0; i < t->nin; i++)
			if (t->in[i] && !ps_agree(p, t->type->elem[i], t->in[i]->type))
				ps_bad(p, "the type of result %d differs", i);
	}
	if (t->op->code == O_SEQ &&
		((t->type->kind != T_SEQ && t->type->kind != T_OPTIONAL) || t->type->rank != 1
			|| (t->type->kind == T_OPTIONAL && t->nin > 1)))
		ps_bad(p, "seq gives a sequence, or an optional of one element");
	for (int i = 0; t->op->code == O_SEQ && i < t->nin; i++)
		if (!t->in[i] || !ty_join(p->m, t->type->elem[0], t->in[i]->type))
			ps_bad(p, "element %d does not fit the type", i);
	if (t->op->code == O_IF && (t->nin != 1 || !t->in[0] || t->in[0]->type->kind != T_TENSOR ||
			t->in[0]->type->dtype != DT_BOOL || t->type->kind != T_TUPLE))
		ps_bad(p, "if takes a bool and gives a tuple");
	if (t->op->code == O_LOOP && (t->nin < 2 || t->type->kind != T_TUPLE || t->n < 0 ||
			t->nin != t->n + 2 || t->type->rank < t->n))
		ps_bad(p, "loop<n> takes a trip count, a condition and n values, and gives a tuple");
	if (t->op->code == O_LOOP && (t->regions[0]->nparams != t->n + 1 ||
			t->regions[0]->nresults != t->type->rank + 1))
		ps_bad(p,
			"a loop's body takes the trip and the values, and gives the condition and the results");
	for (int k = 0; t->op->code == O_IF && k < 2; k++)
		if (t->regions[k]->nresults != t->type->rank || t->regions[k]->nparams)
			ps_bad(p, "a branch gives %d results", t->type->rank);
}

/* An operator's builder relies on its regions. */
static void check_regions(P *p, const Op *op, int n)
{
	const Sig *s = op_sig(op);
	int least = 0, most = 0;
	for (int i = 0; i < s->nattrs; i++)
		if (s->attrs[i].kind == A_REGION) {
			most++;
			least += s->attrs[i].required;
		}
	if (n < least || n > most)
		ps_bad(p, "%s has %d regions, not %d", op->name, most, n);
}

static int count_suffix(P *p)
{
	int n = 0;
	if (ps_is(p, "<")) {
		ps_next(p);
		n = ps_small(p, 0, MAX_LIST);
		ps_want(p, ">");
	}
	return n;
}

static Node *general_line(P *p)
{
	const char *name = ps_word(p, "an operator");
	const Op *op = core_line(name);
	Nodes in = { 0 };
	Region **rs;
	Node t = { 0 };
	if (!op) {
		op = library_find(p->m, strncmp(name, "op.", 3) ? name : name + 3, NULL);
		if (!op)
			ps_bad(p, "there is no operator '%s'", name);
	}
	t.op = op;
	t.n = count_suffix(p);
	if (op->code == O_HOST && op == core_op(O_HOST))
		t.name = ps_string(p);
	while (p->tok == T_VALUE || (p->tok == T_WORD && !strcmp(p->str, "_"))) {
		ps_append(p, &in, ps_optional_value(p));
		if (!ps_eat(p, ","))
			break;
	}
	for (int i = 0; i < in.n; i++)
		if (in.at[i] && (in.at[i]->type->kind == T_SCALAR || in.at[i]->type->kind == T_BUFFER))
			ps_bad(p, "operand %d is not a tensor", i + 1);
	t.attrs = ps_attributes(p, op);
	bool core = op == core_line(name);
	if (core || ps_is(p, ":")) {
		ps_want(p, ":");
		t.type = ps_type(p, !core);
	}
	t.nregions = regions(p, &rs);
	t.regions = rs;
	t.loc = ps_location(p);
	t.in = in.at;
	t.nin = in.n;
	if (core) {
		check_core(p, &t);
		return node_make(p->m, t);
	}
	if (op->code != O_GRAPH || !op->sig)
		ps_bad(p, "'%s' is no operator", name);
	check_regions(p, op, t.nregions);
	int nout = t.n ? (int)t.n : op_sig(op)->nout;
	Node *n = graph_op(p->m, op, in.n, in.at, t.attrs, nout, t.nregions, rs, t.loc);
	if (!n)
		ps_bad(p, "%s cannot be built", name);
	if (t.type && !ps_agree(p, t.type, n->type))
		ps_bad(p, "%s has another type than is stated", name);
	return n;
}

static Node *right_side(P *p)
{
	Node *n;
	p->nlocals = 0;
	if (ps_is(p, "tensor"))
		n = tensor(p);
	else if (ps_is(p, "scatter"))
		n = scatter(p);
	else if (ps_is(p, "const"))
		n = ps_constant(p);
	else
		return general_line(p);
	const Loc *l = ps_location(p);
	if (l)
		n->loc = l;
	if (p->level == LEVEL_GRAPH && n->type->kind == T_TENSOR)
		infer_elems(p->m, n);
	return n;
}

static void requirement(P *p)
{
	p->nlocals = 0;
	ps_next(p);
	Node *cond = ps_expr(p);
	if (cond->type->dtype != DT_BOOL)
		ps_bad(p, "a condition is expected");
	ps_want(p, ":");
	const char *text = ps_string(p);
	const Loc *l = ps_location(p);
	map_put(&p->stated, cond, cond);
	require(p->m, cond, l, "%s", text);
	/* an operator may have required the same in other words */
	for (int i = 0; i < p->m->requires.n; i++) {
		Require *r = p->m->requires.at[i];
		if (r->cond == cond) {
			r->message = text;
			r->loc = l;
		}
	}
}

/* Does the condition read what the text does not show? */
static bool hidden(const Map *shown, Node *cond)
{
	int n;
	bool found = false;
	Node **list = topo_scalar(cond, &n);
	for (int i = 0; i < n && !found; i++) {
		Node *t = list[i]->code == O_READ ? list[i]->in[0] : NULL;
		while (t && t->code == O_RESULT)
			t = t->in[0];
		found = t && !map_get(shown, t);
	}
	free(list);
	return found || cond->size > 4 * TEXT_INLINE;
}

/* Operators make their requirements when they are made; of those that could have been stated, what
 * is not stated does not hold. */
static void keep_stated(P *p)
{
	Map shown = { 0 };
	Vec *v = &p->m->requires;
	int n = 0;
	for (uint32_t i = 0; i < p->values.cap; i++)
		if (p->values.key[i])
			map_put(&shown, p->values.val[i], p->values.val[i]);
	for (int i = 0; i < v->n; i++) {
		Require *r = v->at[i];
		if (map_get(&p->stated, r->cond) || hidden(&shown, r->cond))
			v->at[n++] = r;
	}
	v->n = n;
	map_free(&shown);
}

static void lines(P *p, Region *r)
{
	(void)r;
	for (;;) {
		if (p->tok == T_VALUE) {
			const char *name = intern(p->m, p->str);
			if (ps_lookup(p, &p->values, name))
				ps_bad(p, "%%%s is defined twice", name);
			ps_next(p);
			ps_want(p, "=");
			ps_enter(p, &p->values, name, right_side(p));
		} else if (ps_is(p, "let")) {
			scalar_line(p);
		} else if (ps_is(p, "require")) {
			requirement(p);
		} else if (ps_is(p, "sym")) {
			defined_symbol(p);
		} else {
			return;
		}
	}
}

/* let %3 = e: a scalar that many lines use */
static void scalar_line(P *p)
{
	ps_next(p);
	if (p->tok != T_VALUE)
		ps_bad(p, "a value's name is expected");
	const char *name = intern(p->m, p->str);
	ps_next(p);
	ps_want(p, "=");
	p->nlocals = 0;
	ps_enter(p, &p->values, name, ps_expr(p));
}

/* ---- the head ------------------------------------------------------------------------------ */

Node *ps_declare(P *p, const char *name, int64_t lo, int64_t hi)
{
	if (lo > hi)
		ps_bad(p, "the range is empty");
	Node *s = x_sym(p->m, name, lo, hi);
	ps_enter(p, &p->symbols, name, s);
	/* fresh symbols are called s1, s2 ...: keep them apart */
	char *end;
	bool fresh = name[0] == 's' && isdigit((unsigned char)name[1]);
	long long k = fresh ? strtoll(name + 1, &end, 10) : -1;
	if (k >= p->m->nextid && k < INT64_MAX / 2)
		p->m->nextid = k + 1;
	return s;
}

void ps_bounds(P *p, int64_t *lo, int64_t *hi)
{
	*lo = ps_integer(p);
	ps_want(p, "..");
	*hi = ps_integer(p);
}

const char *ps_symbol_name(P *p)
{
	if (p->tok == T_WORD && text_reserved(p->str))
		ps_bad(p, "'%s' has a meaning: write `%s`", p->str, p->str);
	if (p->tok != T_WORD && p->tok != T_SYMBOL)
		ps_bad(p, "a symbol is expected");
	const char *s = intern(p->m, p->str);
	ps_next(p);
	return s;
}

/* sym s4 : 0..100 = e: stands for a large expression */
static void defined_symbol(P *p)
{
	int64_t lo, hi;
	ps_next(p);
	const char *name = ps_symbol_name(p);
	ps_want(p, ":");
	ps_bounds(p, &lo, &hi);
	ps_want(p, "=");
	p->nlocals = 0;
	Node *e = ps_index_expr(p), *s = ps_declare(p, name, lo, hi);
	s->def = e;
	map_put(&p->m->named, e, s);
}

/* sym N : 0..100 = dim(%x, 0), dim(%y, 1) */
static void symbol(P *p)
{
	int64_t lo, hi;
	ps_next(p);
	const char *name = ps_symbol_name(p);
	ps_want(p, ":");
	ps_bounds(p, &lo, &hi);
	Node *s = ps_declare(p, name, lo, hi);
	if (!ps_eat(p, "="))
		return;
	if (ps_eat(p, "result")) {
		LoopSym *d = NEW(p->m, LoopSym);
		d->sym = s;
		ps_want(p, "(");
		d->result = ps_small(p, 0, MAX_LIST);
		ps_want(p, ",");
		d->axis = ps_small(p, 0, MAX_RANK - 1);
		ps_want(p, ")");
		vec_push(p->m, &p->m->loopsyms, d);
		return;
	}
	do {
		ps_want(p, "dim");
		ps_want(p, "(");
		if (p->tok != T_VALUE)
			ps_bad(p, "an input is expected");
		p->dims = realloc(p->dims, sizeof *p->dims * (size_t)(p->ndims + 1));
		if (!p->dims)
			abort();
		Dim *d = &p->dims[p->ndims++];
		*d = (Dim){ .sym = s, .input = intern(p->m, p->str) };
		ps_next(p);
		ps_want(p, ",");
		d->axis = ps_small(p, 0, MAX_RANK - 1);
		ps_want(p, ")");
	} while (ps_eat(p, ","));
}

static void resolve_dims(P *p)
{
	Region *r = p->m->main;
	for (int i = 0; i < p->ndims; i++) {
		Dim *d = &p->dims[i];
		Node *n = ps_lookup(p, &p->values, d->input);
		int k = 0;
		while (k < r->nparams && r->params[k] != n)
			k++;
		if (k == r->nparams || n->type->kind != T_TENSOR || d->axis >= n->type->rank)
			ps_bad(p, "symbol %s: there is no axis %d of an input %%%s", d->sym->name, d->axis,
				d->input);
		SymDef *s = NEW(p->m, SymDef);
		*s = (SymDef){ d->sym, k, d->axis };
		vec_push(p->m, &p->m->symdefs, s);
	}
}

static void ledger(P *p)
{
	const char *what, *cls;
	double error;

	ps_next(p);
	what = ps_string(p);
	cls = ps_string(p);
	error = ps_real(p);
	ledger_add(p->m, what, cls, error, ps_location(p));
}

static const Machine *machine(P *p)
{
	ps_next(p);
	const char *name = ps_string(p);
	const Machine *t = machine_find(p->m, name);
	if (!t)
		diag_warn(p->m->diag, NULL, "no machine '%s' is known: state the target again", name);
	return t;
}

static Precision precision(P *p)
{
	const char *name = ps_word(p, "a precision");

	for (int k = 0; k < N_PRECISIONS; k++)
		if (!strcmp(precision_names[k], name))
			return k;
	ps_bad(p, "'%s' is no precision", name);
}

static void head(P *p)
{
	static const char *const levels[] = { "graph", "tensor", "loop", NULL };
	int k = 0;
	ps_want(p, "module");
	p->m->name = ps_string(p);
	const char *w = ps_word(p, "a level");
	while (levels[k] && strcmp(levels[k], w))
		k++;
	if (!levels[k])
		ps_bad(p, "'%s' is no level: graph, tensor or loop", w);
	p->level = k;
	p->m->strict = ps_eat(p, "strict");
	if (ps_eat(p, "precision"))
		p->m->precision = precision(p);
	if (ps_is(p, "target"))
		p->m->machine = machine(p);
	if (ps_is(p, "host"))
		p->m->host = machine(p);
	for (;;)
		if (ps_is(p, "sym"))
			symbol(p);
		else if (ps_is(p, "ledger"))
			ledger(p);
		else if (ps_is(p, "let"))
			scalar_line(p);
		else if (ps_is(p, "operator"))
			ps_operator(p);
		else
			break;
}

void ps_inputs(P *p)
{
	Region *r = p->m->main;
	const char **names = NULL;
	Nodes v = { 0 };
	int cap = 0;
	ps_want(p, "func");
	ps_want(p, "main");
	ps_want(p, "(");
	while (!ps_is(p, ")")) {
		if (v.n == cap) {
			const char **old = names;
			names = NEWN(p->m, const char *, cap = cap ? cap * 2 : 8);
			if (v.n)
				memcpy(names, old, sizeof *names * (size_t)v.n);
		}
		Node *n = param(p, v.n);
		names[v.n] = ps_eat(p, "=") ? ps_string(p) : n->name;
		ps_append(p, &v, n);
		if (!ps_eat(p, ","))
			break;
	}
	ps_want(p, ")");
	r->params = v.at;
	r->nparams = v.n;
	p->m->in_names = names;
	resolve_dims(p);
}

/* ["name" =], or NULL */
const char *ps_output_name(P *p)
{
	if (p->tok != T_STR)
		return NULL;
	const char *name = ps_string(p);
	ps_want(p, "=");
	return name;
}

void ps_output(P *p, const char ***names, int *cap, Node *n, const char *name)
{
	Region *r = p->m->main;
	if (r->nresults == *cap) {
		const char **old = *names;
		*names = NEWN(p->m, const char *, *cap = *cap ? *cap * 2 : 8);
		if (r->nresults)
			memcpy(*names, old, sizeof *old * (size_t)r->nresults);
	}
	(*names)[r->nresults] = name;
	region_add(p->m, r, n);
}

static void main_region(P *p)
{
	const char **names = NULL;
	int cap = 0;
	ps_inputs(p);
	ps_want(p, "{");
	lines(p, p->m->main);
	ps_want(p, "return");
	while (!ps_is(p, "}")) {
		const char *name = ps_output_name(p);
		Node *n = ps_value(p);
		if (n->type->kind == T_SCALAR)
			ps_bad(p, "an output is a tensor");
		ps_output(p, &names, &cap, n, name);
		if (!ps_eat(p, ","))
			break;
	}
	ps_want(p, "}");
	p->m->out_names = names;
	keep_stated(p);
}

Module *module_parse(const char *text, const char *file, Diag *diag, Level *level)
{
	P *p = calloc(1, sizeof *p);
	if (!p)
		abort();
	p->m = module_new(diag);
	p->file = file;
	p->text = p->s = p->start = text;
	int errors = diag->errors;
	Module *m = p->m;
	if (!setjmp(p->fail)) {
		p->any = x_sym(m, "?", 0, INT64_MAX);
		ps_next(p);
		head(p);
		if (p->level == LEVEL_LOOP)
			ps_loops(p);
		else
			main_region(p);
		if (p->tok != T_END)
			ps_bad(p, "the end of the text is expected");
		*level = p->level;
	}
	free(p->values.key);
	free(p->values.val);
	free(p->symbols.key);
	free(p->symbols.val);
	map_free(&p->stated);
	free(p->locals);
	free(p->dims);
	free(p);
	if (diag->errors == errors && module_verify_text(m, *level))
		return m;
	module_free(m);
	return NULL;
}
