/*
 * The expansions of ir/math.c against libm: evaluated node by node by num_eval, once with fused and
 * once with separate muladd, on random bit patterns, on values where the functions are interesting
 * and on special values. TCC_MATH_EXHAUSTIVE=1 runs every f32 (minutes a function).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"

/* after ir.h: it has a macro `fail` */
#include <check.h>

enum { MAX_CODE = 512 };

/* An expression of up to two carries as a list of nodes, operands first. */
typedef struct Program { int n, nin; Node *code[MAX_CODE]; int in[MAX_CODE][3]; Node *arg[2]; } Program;

static Program compile(Node *root, Node *a, Node *b)
{
	Program p = { .arg = { a, b } };
	int n;
	Node **list = topo(&root, 1, false, &n);
	ck_assert_int_lt(n, MAX_CODE);
	for (int i = 0; i < n; i++) {
		p.code[i] = list[i];
		for (int k = 0; k < list[i]->nin; k++)
			for (int j = 0; j < i; j++)
				if (list[j] == list[i]->in[k])
					p.in[i][k] = j;
	}
	p.n = n;
	free(list);
	return p;
}

static Num eval(const Program *p, Num a, Num b, bool fused)
{
	static Num v[MAX_CODE];
	for (int i = 0; i < p->n; i++) {
		Node *e = p->code[i];
		if (e->code == O_NUM) {
			v[i] = e->num;
		} else if (e == p->arg[0] || e == p->arg[1]) {
			v[i] = e == p->arg[0] ? a : b;
		} else {
			Num in[3];
			DType d = e->type->dtype;
			for (int k = 0; k < e->nin; k++)
				in[k] = v[p->in[i][k]];
			bool ok;
			if (e->code == O_MULADD && !fused) {
				Num t[2] = { { 0 }, in[2] };
				ok = num_eval(O_MUL, d, d, in, &t[0]) && num_eval(O_ADD, d, d, t, &v[i]);
			} else {
				ok = num_eval(e->code, d, e->in[e->code == O_SELECT]->type->dtype, in, &v[i]);
			}
			if (!ok)                       /* ck_assert is slow */
				ck_abort_msg("%s", core_op(e->code)->name);
		}
	}
	return v[p->n - 1];
}

static long double truth(OpCode op, DType d, long double x, long double y)
{
	int sign;
	bool f = d == DT_F32;
	switch (op) {
	case O_EXP: return f ? exp(x) : expl(x);
	case O_LOG: return f ? log(x) : logl(x);
	case O_LOG1P: return f ? log1p(x) : log1pl(x);
	case O_EXPM1: return f ? expm1(x) : expm1l(x);
	case O_POW: return powl(x, y);
	case O_SIN: case O_SIN_FAR: return f ? sin(x) : sinl(x);
	case O_COS: case O_COS_FAR: return f ? cos(x) : cosl(x);
	case O_TAN: case O_TAN_FAR: return f ? tan(x) : tanl(x);
	case O_ASIN: return f ? asin(x) : asinl(x);
	case O_ACOS: return f ? acos(x) : acosl(x);
	case O_ATAN: return f ? atan(x) : atanl(x);
	case O_SINH: return f ? sinh(x) : sinhl(x);
	case O_COSH: return f ? cosh(x) : coshl(x);
	case O_TANH: return f ? tanh(x) : tanhl(x);
	case O_ASINH: return f ? asinh(x) : asinhl(x);
	case O_ACOSH: return f ? acosh(x) : acoshl(x);
	case O_ATANH: return f ? atanh(x) : atanhl(x);
	case O_ERF: return f ? erf(x) : erfl(x);
	case O_LGAMMA: return lgammal_r(x, &sign);
	default: return NAN;
	}
}

/* lgamma: of 1 where the value is smaller */
static double ulp_error(OpCode op, DType d, double got, long double want)
{
	if (op == O_LGAMMA && fabsl(want) < 1)
		return (double)(fabsl(got - want) * ldexpl(1, d == DT_F32 ? 23 : 52));
	double near = d == DT_F32 ? (float)want : (double)want;
	if (isnan(near) || isnan(got))
		return isnan(near) && isnan(got) ? 0 : INFINITY;
	if (near == got && signbit(near) == signbit(got))
		return 0;
	if (near == 0 && got == 0)
		return INFINITY;               /* the sign of zero */
	int least = d == DT_F32 ? -126 : -1022, e = want == 0 ? least : ilogbl(want);
	if (isinf(near) || isinf(got))
		return isinf(near) && isinf(got) ? INFINITY
			: e == (d == DT_F32 ? 127 : 1023) || e == (d == DT_F32 ? 128 : 1024) ? 1
			: INFINITY;
	e = e < least ? least : e;
	return (double)(fabsl(got - want) / ldexpl(1, e - (d == DT_F32 ? 23 : 52)));
}

typedef struct Worst { double ulp, x, y, got; } Worst;

static void sample(const Program *p, OpCode op, DType d, double x, double y, Worst *w)
{
	if (op >= O_SIN_FAR && !(fabs(x) >= 0.5))
		return;
	for (int fused = 0; fused < 2; fused++) {
		double got = eval(p, (Num){ .f = x }, (Num){ .f = y }, fused).f;
		double e = ulp_error(op, d, got, truth(op, d, x, y));
		if (e > w->ulp || isnan(e))
			*w = (Worst){ e, x, y, got };
	}
}

static uint64_t state = 88172645463325252u;

static uint64_t rnd(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static double unit(void)
{
	return (double)(rnd() >> 11) * 0x1p-53;
}

static double of_bits(DType d, uint64_t u)
{
	double f;
	float s;
	uint32_t w = (uint32_t)u;
	memcpy(&s, &w, 4);
	memcpy(&f, &u, 8);
	return d == DT_F32 ? s : f;
}

static double draw(DType d, int i)
{
	double v;
	switch (i % 7) {
	case 0: v = of_bits(d, rnd()); break;
	case 1: v = (unit() - 0.5) * 4; break;
	case 2: v = (unit() - 0.5) * 200; break;
	case 3: v = (unit() - 0.5) * 1600; break;
	case 5: v = (double)(rnd() >> (12 + rnd() % 52)) * 1.57079632679489661923L; break;   /* k pi/2 */
	case 4: v = 1 + (unit() - 0.5) * ldexp(1, -(int)(rnd() % 50)); break;
	default: v = (unit() - 0.5) * ldexp(1, 25 - (int)(rnd() % 80)); break;
	}
	return num_round(d, v).f;
}

static const double specials[] = { 0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 1.5, -2.5, INFINITY,
	-INFINITY, NAN, 1e-45, -1e-45, 1.17549435e-38, 1e-40, 3.4028235e38, -3.4028235e38, 88.72283,
	88.7229, -87.33655, -103.97, -104.5, 709.78, 709.79, -745.1, -745.2, 5e-324, 2.3e-308,
	1.7e308, 0.92, 0.55, 9.01, 4.0, 6.0, 1e10, -1e10, 127, 128, -149, -150, 1e-8, 16777215,
	16777216, 9007199254740991, 0.25, 1 - 0x1p-24, 1 + 0x1p-23, 1 - 0x1p-53, 1 + 0x1p-52 };

static void run_op(OpCode op, DType d)
{
	Module *m = module_new(&(Diag){ 0 });
	Node *a = x_carry(m, d), *b = x_carry(m, d), *in[2] = { a, b };
	int nin = op == O_POW ? 2 : 1, nspecial = sizeof specials / sizeof *specials;
	Node *e = math_expand(m, op, nin, in);
	ck_assert_ptr_nonnull(e);
	Program p = compile(e, a, b);
	Worst w = { 0 };
	for (int i = 0; i < nspecial; i++)
		for (int j = 0; j < (nin == 2 ? nspecial : 1); j++)
			sample(&p, op, d, num_round(d, specials[i]).f, num_round(d, specials[j]).f, &w);
	const char *all = getenv("TCC_MATH_EXHAUSTIVE"), *count = getenv("TCC_MATH_SAMPLES");
	if (all && d == DT_F32 && nin == 1)
		for (uint64_t u = 0; u < 1ull << 32; u++)
			sample(&p, op, d, of_bits(d, u), 0, &w);
	int n = count ? atoi(count) : 20000;
	for (int i = 0; i < n; i++)
		sample(&p, op, d, draw(d, i), nin == 2 ? draw(d, i / 7) : 0, &w);
	printf("%-7s %s %3d nodes %8.3f ulp at %.17g, %.17g: %.17g, should be %.17Lg\n",
		core_op(op)->name, dtypes[d].text, p.n, w.ulp, w.x, w.y, w.got, truth(op, d, w.x, w.y));
	fflush(stdout);
	ck_assert_double_le(w.ulp, math_ulp(op, d));
	module_free(m);
}

START_TEST(f32_ops)
{
	run_op(O_EXP + _i, DT_F32);
}
END_TEST

START_TEST(f64_ops)
{
	run_op(O_EXP + _i, DT_F64);
}
END_TEST

/* What ex2's meaning promises; a result next to the smallest normal number may be 0. */
START_TEST(powers_of_two)
{
	Module *m = module_new(&(Diag){ 0 });
	Node *a = x_carry(m, DT_F32);
	Program p = compile(math_expand(m, O_EX2, 1, &a), a, a);

	for (double x = 1; x > -160; x -= 0.00390626) {
		double y = (float)x, want = exp2(y), got = eval(&p, (Num){ .f = y }, (Num){ 0 }, true).f;

		ck_assert_msg(y < -125 ? got >= 0 && got < 0x1p-124 : fabs(got - want) <= 0x1p-18 * want,
			"2^%.9g: %.9g, should be %.9g", y, got, want);
	}
	ck_assert(eval(&p, (Num){ .f = -INFINITY }, (Num){ 0 }, true).f == 0);
	ck_assert(isnan(eval(&p, (Num){ .f = NAN }, (Num){ 0 }, true).f));
	module_free(m);
}
END_TEST

/* What math_exp_low states of f32. */
START_TEST(low_exponentials)
{
	Module *m = module_new(&(Diag){ 0 });
	Node *a = x_carry(m, DT_F32);
	Program p = compile(math_exp_low(m, a), a, a);

	for (int fused = 0; fused < 2; fused++) {
		for (double x = -0.0; x > -110; x -= 0.000390626) {
			double y = (float)x, want = exp(y), got = eval(&p, (Num){ .f = y }, (Num){ 0 }, fused).f,
				ulp = ldexp(1, ilogb(want) - 23);
			ck_assert_msg(y < -87.7 ? got == 0 : fabs(got - want) <= (y < -87.3 ? 0x1p-126 : 2 * ulp),
				"e^%.9g: %.9g, should be %.9g", y, got, want);
		}
		ck_assert(eval(&p, (Num){ .f = 0 }, (Num){ 0 }, fused).f == 1);
		ck_assert(eval(&p, (Num){ .f = -INFINITY }, (Num){ 0 }, fused).f == 0);
		ck_assert(isnan(eval(&p, (Num){ .f = NAN }, (Num){ 0 }, fused).f));
	}
	module_free(m);
}
END_TEST

/* Functions of half types, over every value. */
static void run_half(OpCode op, DType d)
{
	Module *m = module_new(&(Diag){ 0 });
	Node *a = x_carry(m, DT_F32), *e = math_half(m, op, d, a);
	ck_assert_ptr_nonnull(e);
	Program p = compile(e, a, NULL);
	double worst = 0;
	for (int k = 0; k < 1 << 16; k++) {
		uint8_t byte[2] = { k & 255, k >> 8 };
		double x = data_get(&(Data){ .bytes = byte }, d, 0).f;
		long double want = truth(op, d, x, 0);
		double got = num_round(d, eval(&p, (Num){ .f = x }, (Num){ 0 }, true).f).f;
		int at = want ? (int)logbl(fabsl(want)) : -200, least = d == DT_F16 ? -14 : -126;
		if (isnan(x)) {
			ck_assert(isnan(got));
			continue;
		}
		double off = (double)fabsl(got - want) / ldexp(1, (at < least ? least : at) - (d == DT_F16 ? 10 : 7));
		worst = off > worst ? off : worst;
		ck_assert_msg(off <= 0.6, "%s(%g) of %s: %g, should be %Lg", core_op(op)->name, x, dtypes[d].text,
			got, want);
	}
	printf("%-7s %s %8.3f ulp\n", core_op(op)->name, dtypes[d].text, worst);
	module_free(m);
}

START_TEST(halves)
{
	run_half(O_ERF, _i ? DT_BF16 : DT_F16);
}
END_TEST

/* Casts: every code both ways, and f32 values around each. */
static void run_cast(DType d)
{
	Module *m = module_new(&(Diag){ 0 });
	bool f4 = d == DT_F4E2M1;
	Node *a = x_carry(m, DT_F32), *c = x_carry(m, f4 ? DT_U8 : d);
	Program enc = compile(math_cast(m, d, DT_F32, a), a, NULL);
	Program dec = compile(math_cast(m, DT_F32, d, c), c, NULL);
	int bits = dtypes[d].bits;
	for (int k = 0; k < 1 << bits; k++) {
		uint8_t byte[2] = { k & 255, k >> 8 };
		double v = data_get(&(Data){ .bytes = byte }, d, 0).f;
		double got = eval(&dec, f4 ? (Num){ .i = k } : (Num){ .f = v }, (Num){ 0 }, true).f;
		ck_assert_msg(isnan(v) ? isnan(got) : v == got && signbit(v) == signbit(got),
			"%s code %d: %g, should be %g", dtypes[d].text, k, got, v);
	}
	for (int i = 0; i < 200000; i++) {
		uint64_t u = i < 100000 ? rnd() : (uint64_t)(rnd() % 65536) << 16 | (rnd() % 3 - 1);
		double x = of_bits(DT_F32, u);
		double want = num_round(d, x).f;
		Num r = eval(&enc, (Num){ .f = x }, (Num){ 0 }, true);
		uint8_t byte = (uint8_t)r.i;
		double got = f4 ? data_get(&(Data){ .bytes = &byte }, d, 0).f : r.f;
		ck_assert_msg(isnan(want) ? isnan(got) : want == got && signbit(want) == signbit(got),
			"%s(%.9g): %g, should be %g", dtypes[d].text, x, got, want);
	}
	module_free(m);
}

START_TEST(casts)
{
	run_cast(DT_F4E2M1 + _i);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("math");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 0);
	tcase_add_test(t, powers_of_two);
	tcase_add_test(t, low_exponentials);
	tcase_add_loop_test(t, f32_ops, 0, O_TAN_FAR - O_EXP + 1);
	tcase_add_loop_test(t, f64_ops, 0, O_TAN_FAR - O_EXP + 1);
	tcase_add_loop_test(t, casts, 0, DT_F16 - DT_F4E2M1 + 1);
	tcase_add_loop_test(t, halves, 0, 2);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
