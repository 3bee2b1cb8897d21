/*
 * Quotients rounded to bytes without a division are those with one: all over the floats for one
 * scale, and around each place where the byte changes for many scales and zero points.
 */
#include <math.h>
#include <stdlib.h>

#include "ir/ir.h"
#include "ir/machine.h"
#include "opt/opt.h"

/* after ir.h: it has a macro `fail` */
#include <check.h>

/* What the expression without a division computes: fma(x, r, x * t), t = 0: x * r. */
typedef struct Form { float r, t; } Form;

static Module *module(const char *machine)
{
	Module *m = module_new(&(Diag){ .out = stderr });

	m->machine = machine_find(m, machine);
	return m;
}

static Node *rounded(Module *m, float s, float z)
{
	Node *axis = x_axis(m, x_idx(m, 8)), *e;
	int64_t dim = 8;
	e = x_read(m, t_const(m, DT_F32, 1, &dim, data_new(m, DT_F32, 8, NULL)), &axis);
	e = x1(m, O_RINT, x2(m, O_DIV, e, x_flt(m, DT_F32, s)));
	return x_add(m, e, x_flt(m, DT_F32, z));
}

/* The form of rint(x / s) + z as type d sees it; false if it keeps its division. */
static bool form_of(Module *m, DType d, float s, float z, Form *f)
{
	Node *e = rounded(m, s, z), *r = rounded_quotient(m, d, e);
	if (r == e)
		return false;
	ck_assert(r->code == O_ADD && r->in[0]->code == O_RINT);
	r = r->in[0]->in[0];
	*f = (Form){0};
	if (r->code == O_MUL) {
		f->r = (float)r->in[1]->num.f;
		return true;
	}
	ck_assert(r->code == O_FMA && r->in[2]->code == O_MUL && r->in[0] == r->in[2]->in[0]);
	f->r = (float)r->in[1]->num.f;
	f->t = (float)r->in[2]->in[1]->num.f;
	return true;
}

static bool alike(Form f, float x, float s, float lo, float hi)
{
	float a = rintf(x / s), b = f.t == 0 ? rintf(x * f.r) : rintf(fmaf(x, f.r, x * f.t));
	a = a < lo ? lo : a > hi ? hi : a;
	b = b < lo ? lo : b > hi ? hi : b;
	return a == b || (isnan(a) && isnan(b));
}

static uint32_t state = 2463534242u;

static uint32_t rnd(void)
{
	state ^= state << 13;
	state ^= state >> 17;
	return state ^= state << 5;
}

START_TEST(all_over)
{
	Module *m = module("x86-64-v3");
	const float s = 0.0176339f;
	Form f;
	ck_assert(form_of(m, DT_I8, s, 0, &f));
	for (uint32_t i = 0; i < 1u << 31; i += i < 0x3b000000 || i > 0x40200000 ? 1021 : 61) {
		union { uint32_t u; float f; } x = {i};
		if (!alike(f, x.f, s, -128, 127) || !alike(f, -x.f, s, -128, 127))
			ck_abort_msg("%a", x.f);
	}
	module_free(m);
}
END_TEST

/* Also for powers of two and what is next to them; 20 floats each way from where the byte
 * changes. */
START_TEST(every_step)
{
	Module *m = module("x86-64-v3");
	Form f;
	int kept = 0;
	for (int i = 0; i < 400; i++) {
		uint32_t bits = i % 10 == 0 ? rnd() % 3 : rnd() >> 9;
		float s = ldexpf(1 + (float)bits * 0x1p-23f, (int)(rnd() % 60) - 40);
		bool is_signed = rnd() & 1;
		int z = (int)(rnd() % 256) - (is_signed ? 128 : 0), lo = (is_signed ? -128 : 0) - z;
		if (!form_of(m, is_signed ? DT_I8 : DT_U8, s, (float)z, &f)) {
			kept++;
			continue;
		}
		for (int n = lo - 2; n <= lo + 257; n++) {
			float x = (float)((n + 0.5) * (double)s);
			for (int k = 0; k < 20; k++)
				x = nextafterf(x, -INFINITY);
			for (int k = 0; k < 40; k++, x = nextafterf(x, INFINITY))
				ck_assert_msg(alike(f, x, s, (float)lo, (float)lo + 255), "%a / %a", x, s);
		}
		for (int k = 0; k < 1000; k++) {
			union { uint32_t u; float f; } x = {rnd()};
			ck_assert_msg(alike(f, x.f, s, (float)lo, (float)lo + 255), "%a / %a", x.f, s);
		}
	}
	ck_assert_int_le(kept, 4);
	module_free(m);
}
END_TEST

/* Not where it would not be the same, or not faster. */
START_TEST(kept)
{
	Module *m = module("x86-64-v3"), *old = module("x86-64-v2");
	Form f;
	ck_assert(form_of(m, DT_U8, 3, 128, &f));
	ck_assert(!form_of(m, DT_I16, 3, 0, &f));
	ck_assert(!form_of(m, DT_U8, 3, 0.5f, &f));
	ck_assert(!form_of(m, DT_U8, -3, 0, &f));
	ck_assert(!form_of(m, DT_U8, 0, 0, &f));
	ck_assert(!form_of(m, DT_U8, INFINITY, 0, &f));
	ck_assert(!form_of(m, DT_U8, NAN, 0, &f));
	ck_assert(!form_of(m, DT_U8, 0x1p-140f, 0, &f));
	ck_assert(!form_of(old, DT_U8, 3, 128, &f));
	module_free(m);
	module_free(old);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("quotient");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 120);
	tcase_add_test(t, all_over);
	tcase_add_test(t, every_step);
	tcase_add_test(t, kept);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
