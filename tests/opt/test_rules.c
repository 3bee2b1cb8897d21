/*
 * Every rewrite rule on its samples: it applies, and both sides are evaluated. Exact rules give the same
 * bits on special values; real ones stay within their stated error of the pattern computed in double,
 * and finite.
 *
 * samples = sample { ";" sample } ; sample = type { type } ":" item { item }
 * item    = name [ ":" type ] "[" dims "]" [ "=" number | "={" numbers "}" ]   // capital or stated: a constant
 *         | name "=" attribute | name "{" name "=" attribute, ... "}"          // what a pattern's names and ..a take
 * attribute = integer | number with a point | "text" | type | [ integers ]
 */
#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"
#include "opt/rules.h"

/* after ir.h: it has a macro `fail` */
#include <check.h>

enum { MAX_VARS = 16, ROUNDS = 4 };

static uint64_t state;

static uint64_t rnd(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

typedef struct Sample {
	Module *m;
	const Rule *rule;
	DType type;
	const char *p;
	int round, nvars;
	Var var[MAX_VARS];
	Node *input[MAX_VARS];         /* values of the module's parameters */
} Sample;

/* ---- values ------------------------------------------------------------------------------------ */

static Num special(DType d, int k)
{
	static const double f[] = { 0.0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 0.5, 3, 1e-3, DBL_MAX, -DBL_MAX,
		FLT_MAX, -FLT_MAX, 65504, FLT_MIN, FLT_MIN / 8, -FLT_MIN / 4096, DBL_MIN / 16, 6e-8, -6e-5, 1e20 };
	if (dt_float(d))
		return num_round(d, f[k % (int)(sizeof f / sizeof *f)]);
	int64_t v[] = { 0, 1, -1, INT64_MAX, INT64_MIN, 127, -128, 255, 32767, -32768, INT32_MAX, INT32_MIN, 7 };
	return num_cast(d, DT_I64, (Num){ .i = v[k % (int)(sizeof v / sizeof *v)] });
}

static Num ordinary(DType d)
{
	double v = ldexp((double)(int64_t)rnd() / 0x1p63, (int)(rnd() % 5));
	if (dt_float(d))
		return num_round(d, rnd() % 16 == 0 ? 0 : v);
	if (d == DT_BOOL)
		return (Num){ .i = (int64_t)(rnd() & 1) };
	return num_cast(d, DT_I64, (Num){ .i = (int64_t)(rnd() % 11) });
}

/* Of an operand: special values here and there, if the rule is to keep them. A constant is tame. */
static Node *tensor(Sample *s, DType d, int rank, const int64_t *dims, bool constant)
{
	int64_t count = 1;
	for (int i = 0; i < rank; i++)
		count *= dims[i];
	Data *data = data_new(s->m, d, count, NULL);
	for (int64_t k = 0; k < count; k++) {
		Num v = ordinary(d);
		if (constant && dt_float(d))
			v = num_round(d, s->rule->cls == RULE_EXACT ? ldexp(k % 2 ? -1 : 1, (int)(k % 5) - 2) : v.f + (v.f < 0 ? -.25 : .25));
		else if (s->rule->cls == RULE_EXACT && rnd() % 2)
			v = special(d, (int)k * 2 + s->round * 5 + s->nvars);
		data_set((void *)data->bytes, d, k, v);
	}
	return t_const(s->m, d, rank, dims, data);
}

/* ---- the samples' text ------------------------------------------------------------------------- */

static bool eat(Sample *s, const char *t)
{
	while (isspace((unsigned char)*s->p))
		s->p++;
	if (strncmp(s->p, t, strlen(t)))
		return false;
	s->p += strlen(t);
	return true;
}

static const char *word(Sample *s)
{
	const char *b;
	eat(s, "");
	for (b = s->p; isalnum((unsigned char)*s->p) || *s->p == '_'; s->p++)
		;
	return arena_printf(s->m->arena, "%.*s", (int)(s->p - b), b);
}

static double number(Sample *s)
{
	char *end;
	double f = strtod(s->p, &end);
	ck_assert_msg(end > s->p, "%s: a number is expected at '%s'", s->rule->name, s->p);
	s->p = end;
	return f;
}

static int integers(Sample *s, int64_t *v)
{
	int n = 0;
	while (!eat(s, "]") && n < MAX_RANK) {
		v[n++] = (int64_t)number(s);
		eat(s, ",");
	}
	return n;
}

static Value attribute(Sample *s)
{
	int64_t v[MAX_RANK];
	if (eat(s, "[")) {
		int n = integers(s, v);
		return (Value){ .k = V_INTS, .count = n, .is = arena_dup(s->m->arena, v, sizeof *v * (size_t)(n + 1)) };
	}
	if (eat(s, "\"")) {
		const char *t = word(s);
		ck_assert(eat(s, "\""));
		return (Value){ .k = V_STR, .s = t };
	}
	if (isalpha((unsigned char)*s->p)) {
		int64_t code = dtypes[dtype_parse(word(s))].onnx;
		return (Value){ .k = V_INT, .i = code, .f = (double)code };
	}
	const char *at = s->p;
	double f = number(s);
	if (memchr(at, '.', (size_t)(s->p - at)) || memchr(at, 'e', (size_t)(s->p - at)))
		return (Value){ .k = V_FLT, .f = f };
	return (Value){ .k = V_INT, .i = (int64_t)f, .f = f };
}

static const Attr *attributes(Sample *s)
{
	const Attr *list = NULL;
	while (!eat(s, "}")) {
		const char *name = word(s);
		ck_assert(eat(s, "="));
		Value v = attribute(s);
		Attr a = { .name = name, .kind = v.k == V_INTS ? A_INTS : v.k == V_FLT ? A_FLOAT : v.k == V_STR ? A_STR : A_INT,
			.i = v.i, .f = v.k == V_FLT ? v.f : 0, .s = v.s, .n = v.count, .is = v.is };
		list = attrs_add(s->m, list, a);
		eat(s, ",");
	}
	return list;
}

/* A constant with the stated elements, one for all or each. */
static Node *stated(Sample *s, DType d, int rank, const int64_t *dims)
{
	int64_t count = 1;
	bool each = eat(s, "{");
	for (int i = 0; i < rank; i++)
		count *= dims[i];
	Data *data = data_new(s->m, d, count, NULL);
	double f = 0;
	for (int64_t k = 0; k < count; k++) {
		if (k == 0 || each)
			f = number(s);
		eat(s, ",");
		data_set((void *)data->bytes, d, k, dt_float(d) ? num_round(d, f) : (Num){ .i = (int64_t)f });
	}
	if (each)
		ck_assert(eat(s, "}"));
	return t_const(s->m, d, rank, dims, data);
}

static void operand(Sample *s, const char *name, DType d, Var *v)
{
	Node *dims[MAX_RANK], *t;
	int64_t size[MAX_RANK];
	int rank = integers(s, size);
	bool given = eat(s, "="), constant = isupper((unsigned char)*name);
	t = given ? stated(s, d, rank, size) : tensor(s, d, rank, size, constant);
	if (!constant && !given) {
		for (int i = 0; i < rank; i++)
			dims[i] = x_idx(s->m, size[i]);
		int k = s->m->main->nparams++;
		s->input[k] = t;
		t = t_param(s->m, name, ty_tensor(s->m, d, rank, dims), k);
		s->m->main->params[k] = t;
	}
	v->v = (Value){ .k = V_NODE, .n = t };
}

static void item(Sample *s)
{
	Var *v = &s->var[s->nvars++];
	v->name = word(s);
	v->len = strlen(v->name);
	ck_assert_msg(v->len && s->nvars < MAX_VARS, "%s: a name is expected at '%s'", s->rule->name, s->p);
	if (eat(s, "{"))
		v->v = (Value){ .k = V_ATTRS, .attrs = attributes(s) };
	else if (eat(s, "="))
		v->v = attribute(s);
	else if (eat(s, "["))
		operand(s, v->name, s->type, v);
	else {
		ck_assert_msg(eat(s, ":"), "%s: a type is expected at '%s'", s->rule->name, s->p);
		DType d = dtype_parse(word(s));
		ck_assert(eat(s, "["));
		operand(s, v->name, d, v);
	}
}

/* What the sample does not give: absent operands and attributes. */
static void bind_others(Sample *s)
{
	Pattern *p = pattern_parse(s->m, s->rule);
	ck_assert_msg(p != NULL, "%s", s->m->diag->first);
	for (int i = 0; i < p->nslots && s->nvars < MAX_VARS; i++) {
		bool given = false;
		for (int k = 0; k < s->nvars; k++)
			given |= s->var[k].len == (size_t)p->len[i] && memcmp(s->var[k].name, p->name[i], (size_t)p->len[i]) == 0;
		if (!given)
			s->var[s->nvars++] = (Var){ p->name[i], (size_t)p->len[i], { 0 } };
	}
}

/* ---- comparing --------------------------------------------------------------------------------- */

/* The pattern's text as a definition: without what only matching knows. */
static char *as_body(Sample *s)
{
	char *t = arena_printf(s->m->arena, "%s", s->rule->pattern), *q = t;
	for (char *p = t; *p; p++)
		if (*p != '~' && *p != '?')
			*q++ = *p;
	*q = 0;
	return t;
}

static Node *rewritten(Sample *s, Node *left)
{
	Pattern *p = pattern_parse(s->m, s->rule);
	Graph g = { .m = s->m };
	const Loc *loc;
	ck_assert_msg(p != NULL, "%s", s->m->diag->first);
	graph_count(&g, &left, 1);
	Node *r = rule_apply(&g, p, left, &loc);
	graph_free(&g);
	ck_assert_msg(r != NULL, "rule %s does not match its own pattern: %s", s->rule->name, s->rule->samples);
	return r;
}

static void check_exact(Sample *s, Node *const *out)
{
	DType d = dtype_of(out[0]);
	for (int64_t k = 0; k < out[0]->data->count; k++) {
		Num a = data_get(out[0]->data, d, k), b = data_get(out[1]->data, d, k);
		bool ok = dt_float(d) ? (isnan(a.f) && isnan(b.f)) || (a.f == b.f && !!signbit(a.f) == !!signbit(b.f)) : a.i == b.i;
		ck_assert_msg(ok, "rule %s, %s, element %d: %g (%lld), not %g (%lld)", s->rule->name, dtypes[d].text, (int)k,
			b.f, (long long)b.i, a.f, (long long)a.i);
	}
}

/* out: the pattern and the replacement, as typed; wide: the pattern in double. */
static void check_real(Sample *s, Node *const *out, const Node *wide)
{
	DType d = dtype_of(out[0]);
	double top = 0, error = 0;
	for (int64_t k = 0; k < out[0]->data->count; k++) {
		double a = data_get(out[0]->data, d, k).f, b = data_get(out[1]->data, d, k).f,
			w = data_get(wide->data, dtype_of(wide), k).f;
		ck_assert_msg(isfinite(b) || !isfinite(a), "rule %s, %s: %g where the pattern gives %g", s->rule->name,
			dtypes[d].text, b, a);
		if (!isfinite(a) || !isfinite(w))
			continue;
		top = fmax(top, fabs(w));
		error = fmax(error, fabs(b - w));
	}
	error /= top > 0 ? top * ulp_of(d) : 1;
	if (getenv("VERBOSE"))
		printf("%-24s %-5s %6.2f ulp\n", s->rule->name, dtypes[d].text, error);
	/* the result itself is rounded: half a unit */
	ck_assert_msg(error <= s->rule->ulp + 0.5, "rule %s, %s: off by %.2f ulp, states %.2f", s->rule->name, dtypes[d].text,
		error, s->rule->ulp);
}

static void check_type(const Rule *rule, const char *items, DType type, int round)
{
	Diag diag = { .out = stderr };
	Sample s = { .m = module_new(&diag), .rule = rule, .type = type, .p = items, .round = round };
	Node *params[MAX_VARS], *out[2], *wide[2];
	Value v;
	state = 88172645463325252u + (uint64_t)round;
	s.m->main->params = params;
	while (eat(&s, ""), *s.p && *s.p != ';')
		item(&s);
	Build b = { .m = s.m, .op = &(Op){ .name = rule->name } };
	bind_others(&s);
	ck_assert_msg(body_values(&b, as_body(&s), s.nvars, s.var, NULL, &v, 1) == 1 && v.k == V_NODE, "%s: %s", rule->name, diag.first);
	Node *right = rewritten(&s, v.n);
	ck_assert_ptr_eq(right->type, v.n->type);
	region_add(s.m, s.m->main, v.n);
	region_add(s.m, s.m->main, right);
	ck_assert_msg(module_verify(s.m, LEVEL_GRAPH) && module_eval(s.m, LEVEL_GRAPH, s.input, out, false), "%s: %s", rule->name, diag.first);
	if (rule->cls == RULE_EXACT)
		check_exact(&s, out);
	else {
		ck_assert(module_eval(s.m, LEVEL_GRAPH, s.input, wide, true));
		check_real(&s, out, wide[0]);
	}
	module_free(s.m);
}

START_TEST(test_rule)
{
	const Rule *rule = &rules[_i];
	const char *p = rule->samples, *items;
	int n = 0;
	while (*p) {
		items = strchr(p, ':');
		ck_assert_msg(items != NULL, "%s: sample '%s' has no types", rule->name, p);
		for (; p < items; n++) {
			char name[16] = "";
			size_t len = 0;
			for (; isspace((unsigned char)*p); p++)
				;
			for (; isalnum((unsigned char)*p) && len < 15; p++)
				name[len++] = *p;
			ck_assert_msg(dtype_parse(name) != DT_NONE, "%s: no type: '%s'", rule->name, name);
			for (int round = 0; round < ROUNDS; round++)
				check_type(rule, items + 1, dtype_parse(name), round);
		}
		p = items + strcspn(items, ";");
		p += *p == ';';
	}
	ck_assert_msg(n > 0, "rule %s has no sample", rule->name);
}
END_TEST

/* A value that something else uses stays: the rule would compute it twice. */
START_TEST(test_inner_use)
{
	Diag diag = { .out = stderr };
	Module *m = module_new(&diag);
	Node *dim = x_idx(m, 4), *x = t_param(m, "x", ty_tensor(m, DT_F32, 1, &dim), 0), *roots[2];
	Build b = { .m = m, .op = &(Op){ .name = "test" } };
	const Loc *loc;
	const Rule *rule = rules;
	Graph one = { .m = m }, two = { .m = m };
	while (strcmp(rule->name, "neg_neg"))
		rule++;
	roots[1] = call(&b, "neg", 1, &x, NULL);
	roots[0] = call(&b, "neg", 1, &roots[1], NULL);
	graph_count(&one, roots, 1);
	graph_count(&two, roots, 2);
	Pattern *p = pattern_parse(m, rule);
	ck_assert_ptr_eq(rule_apply(&one, p, roots[0], &loc), x);
	ck_assert_ptr_null(rule_apply(&two, p, roots[0], &loc));
	graph_free(&one);
	graph_free(&two);
	module_free(m);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rules");
	TCase *t = tcase_create("rules");
	int n;
	for (n = 0; rules[n].name; n++)
		;
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, test_rule, 0, n);
	tcase_add_test(t, test_inner_use);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	n = srunner_ntests_failed(r);
	srunner_free(r);
	return n != 0;
}
