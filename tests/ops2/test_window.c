/* The resolver of windows: pads, places and what is padded, for convolutions and poolings. */
#include <string.h>

#include "ir/ops/ops.h"

/* after ir.h: it has a macro `fail` */
#include <check.h>

typedef struct Case {
	int64_t in, k, stride, dilation, begin, end;
	const char *pad;
	bool ceil;
	int64_t out, at, after;    /* places, and the pads that were chosen */
} Case;

static const Case cases[] = {
	/* in  k  s  d  b  e  auto_pad       ceil   out begin end */
	{   8, 3, 1, 1, 0, 0, "NOTSET",      false,  6, 0, 0 },
	{   8, 3, 1, 1, 1, 1, "NOTSET",      false,  8, 1, 1 },
	{   8, 3, 2, 1, 0, 0, "NOTSET",      false,  3, 0, 0 },
	{   8, 3, 2, 1, 0, 0, "NOTSET",      true,   4, 0, 0 },
	{   7, 3, 2, 1, 0, 0, "NOTSET",      true,   3, 0, 0 },
	{   8, 3, 1, 2, 0, 0, "NOTSET",      false,  4, 0, 0 },
	{   5, 3, 1, 2, 0, 0, "NOTSET",      false,  1, 0, 0 },
	{   8, 3, 2, 1, 2, 1, "NOTSET",      false,  5, 2, 1 },
	{   4, 1, 4, 1, 0, 0, "NOTSET",      false,  1, 0, 0 },
	/* a last window that would start in the padding is none */
	{   4, 2, 3, 1, 0, 2, "NOTSET",      true,   2, 0, 2 },
	{   2, 1, 2, 1, 0, 1, "NOTSET",      true,   1, 0, 1 },
	{   5, 2, 2, 1, 1, 1, "NOTSET",      true,   3, 1, 1 },
	/* ceil(in / stride) places; the odd pad at the end or the beginning */
	{   8, 3, 1, 1, 0, 0, "SAME_UPPER",  false,  8, 1, 1 },
	{   8, 3, 2, 1, 0, 0, "SAME_UPPER",  false,  4, 0, 1 },
	{   8, 3, 2, 1, 0, 0, "SAME_LOWER",  false,  4, 1, 0 },
	{   8, 2, 1, 1, 0, 0, "SAME_UPPER",  false,  8, 0, 1 },
	{   8, 2, 1, 1, 0, 0, "SAME_LOWER",  false,  8, 1, 0 },
	{   7, 3, 2, 2, 0, 0, "SAME_UPPER",  false,  4, 2, 2 },
	{   7, 1, 3, 1, 0, 0, "SAME_UPPER",  false,  3, 0, 0 },
	{   0, 3, 2, 1, 0, 0, "SAME_UPPER",  false,  0, 0, 0 },
	{   8, 3, 2, 1, 0, 0, "VALID",       false,  3, 0, 0 },
	{   9, 3, 2, 1, 4, 4, "VALID",       false,  4, 0, 0 },
	/* the window just fits, or not at all */
	{   3, 3, 1, 1, 0, 0, "NOTSET",      false,  1, 0, 0 },
	{   2, 3, 1, 1, 0, 0, "NOTSET",      false,  0, 0, 0 },
	{   8, 3, 1, 1, -1, -2, "NOTSET",    false,  3, -1, -2 },
};

static Diag quiet;

static Build build_for(Module *m, const Case *c)
{
	int64_t v[6] = { c->stride, c->dilation, c->begin, c->end };
	Build b = { .m = m, .op = op_find("max_pool") };
	static const char *const names[] = { "strides", "dilations", "pads" };
	for (int i = 0; i < 3; i++)
		b.attrs = attrs_add(m, b.attrs,
			(Attr){ .name = names[i], .kind = A_INTS, .n = i == 2 ? 2 : 1,
			.is = arena_dup(m->arena, v + i, sizeof *v * 2) });
	b.attrs = attrs_add(m, b.attrs, (Attr){ .name = "auto_pad", .kind = A_STR, .s = c->pad });
	return b;
}

static int64_t value(const Node *e)
{
	int64_t v = -99;
	ck_assert_msg(is_int(e, &v), "not a constant");
	return v;
}

START_TEST(places)
{
	const Case *c = &cases[_i];
	Module *m = module_new(&quiet);
	Node *in = x_idx(m, c->in), *k = x_idx(m, c->k);
	Build b = build_for(m, c);
	Window w;
	ck_assert(windows(&b, 1, &in, &k, c->ceil, &w));
	ck_assert_int_eq(value(w.out), c->out);
	ck_assert_int_eq(value(w.begin), c->at);
	ck_assert_int_eq(value(w.end), c->after);
	module_free(m);
}
END_TEST

/* A symbolic extent gives the same places when the symbol is replaced. */
START_TEST(symbolic)
{
	const Case *c = &cases[_i];
	Module *m = module_new(&quiet);
	Node *n = x_sym(m, "N", 0, 1 << 20), *k = x_idx(m, c->k);
	Build b = build_for(m, c);
	Window w;
	ck_assert(windows(&b, 1, &n, &k, c->ceil, &w));
	ck_assert_int_eq(value(subst1(m, w.out, n, x_idx(m, c->in))), c->out);
	ck_assert_int_eq(value(subst1(m, w.begin, n, x_idx(m, c->in))), c->at);
	module_free(m);
}
END_TEST

/* Every element that a window reads is in the padded operand, and every one of the operand is
 * read there. */
START_TEST(padding)
{
	const Case *c = &cases[_i];
	Module *m = module_new(&quiet);
	Node *in = x_idx(m, c->in), *k = x_idx(m, c->k), *x, *p;
	Build b = build_for(m, c);
	Window w;
	ck_assert(windows(&b, 1, &in, &k, c->ceil, &w));
	x = t_param(m, "x", ty_tensor(m, DT_F32, 1, &in), 0);
	p = window_padded(m, x, 1, &w, x_int(m, DT_F32, 0));
	int64_t have = value(dim_of(p, 0)), last = (c->out - 1) * c->stride + (c->k - 1) * c->dilation;
	if (c->out > 0)
		ck_assert_int_lt(last, have);
	if (p == x)
		ck_assert_int_eq(c->at, 0);
	module_free(m);
}
END_TEST

static bool accepts(const char *pad, int64_t stride, int64_t dilation, int64_t begin)
{
	Module *m = module_new(&quiet);
	Case c = { 8, 3, stride, dilation, begin, 0, pad, false, 0, 0, 0 };
	Node *in = x_idx(m, c.in), *k = x_idx(m, c.k);
	Build b = build_for(m, &c);
	Window w;
	bool ok = windows(&b, 1, &in, &k, false, &w);
	module_free(m);
	return ok;
}

START_TEST(hostile)
{
	ck_assert(accepts("NOTSET", 1, 1, 0));
	ck_assert(accepts("", 1, 1, 0));
	ck_assert(!accepts("SAME", 1, 1, 0));
	ck_assert(!accepts("NOTSET", 0, 1, 0));
	ck_assert(!accepts("NOTSET", -1, 1, 0));
	ck_assert(!accepts("NOTSET", 1, 0, 0));
	ck_assert(!accepts("NOTSET", INT64_MAX, 1, 0));
	ck_assert(!accepts("NOTSET", 1, 1, INT64_MAX));
	ck_assert(!accepts("NOTSET", 1, 1, INT64_MIN));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("window");
	TCase *t = tcase_create("window");
	int n = (int)(sizeof cases / sizeof *cases), failed;
	tcase_add_loop_test(t, places, 0, n);
	tcase_add_loop_test(t, symbolic, 0, n);
	tcase_add_loop_test(t, padding, 0, n);
	tcase_add_test(t, hostile);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
