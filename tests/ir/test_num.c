/* Scalar arithmetic against values worked out by hand from scalar.def and the ONNX text. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "ir/ir.h"

/* after ir.h: it has a macro `fail` */
#include <check.h>

static double rounded(DType d, double x)
{
	return num_round(d, x).f;
}

START_TEST(rounding)
{
	static const struct { DType d; double x, want; } rows[] = {
		{ DT_F32, 1.0000000596046448, 1.0 }, { DT_F32, 1e40, INFINITY },
		{ DT_F16, 65504, 65504 }, { DT_F16, 65519.9, 65504 }, { DT_F16, 65520, INFINITY },
		{ DT_F16, 0x1p-24, 0x1p-24 }, { DT_F16, 0x1p-25, 0 }, { DT_F16, 0x1.8p-25, 0x1p-24 },
		{ DT_F16, 2049, 2048 }, { DT_F16, 2051, 2052 }, { DT_BF16, 257, 256 },
		{ DT_BF16, 259, 260 }, { DT_BF16, 3.4e38, INFINITY },
		{ DT_F8E4M3FN, 448, 448 }, { DT_F8E4M3FN, 1e9, 448 }, { DT_F8E4M3FN, -INFINITY, -448 },
		{ DT_F8E4M3FN, 0x1p-9, 0x1p-9 }, { DT_F8E4M3FN, 0x1p-10, 0 }, { DT_F8E4M3FN, 17, 16 },
		{ DT_F8E4M3FNUZ, 240, 240 }, { DT_F8E4M3FNUZ, 1e9, 240 }, { DT_F8E4M3FNUZ, -0.0, 0 },
		{ DT_F8E5M2, 57344, 57344 }, { DT_F8E5M2, INFINITY, 57344 },
		{ DT_F8E5M2FNUZ, -1e9, -57344 },
		{ DT_F8E8M0, 1.1, 2 }, { DT_F8E8M0, 1, 1 }, { DT_F8E8M0, 0, 0x1p-127 },
		{ DT_F8E8M0, -3, 4 }, { DT_F8E8M0, 3e38, 0x1p127 },
		{ DT_F4E2M1, 0.25, 0 }, { DT_F4E2M1, 0.26, 0.5 }, { DT_F4E2M1, 2.5, 2 },
		{ DT_F4E2M1, 5, 4 }, { DT_F4E2M1, 5.1, 6 }, { DT_F4E2M1, -100, -6 },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		ck_assert_msg(rounded(rows[i].d, rows[i].x) == rows[i].want, "%s(%g) is %g, not %g",
			dtypes[rows[i].d].text, rows[i].x, rounded(rows[i].d, rows[i].x), rows[i].want);
	ck_assert(isnan(rounded(DT_F8E4M3FN, NAN)) && isnan(rounded(DT_F8E8M0, INFINITY)));
	ck_assert(rounded(DT_F4E2M1, NAN) == 0 && signbit(rounded(DT_F4E2M1, NAN)));
	ck_assert(!signbit(rounded(DT_F8E5M2FNUZ, -0.0)) && signbit(rounded(DT_F8E5M2, -0.0)));
}
END_TEST

/* Every bit pattern of every narrow type survives data_get and data_set, whatever its place. */
START_TEST(payloads)
{
	for (int d = 1; d < N_DTYPES; d++) {
		int bits = dtypes[d].bits;
		if (bits == 0 || bits > 16 || d == DT_BOOL)
			continue;
		for (uint32_t u = 0; u < 1u << bits; u++) {
			uint8_t in[4] = { 0 }, out[4] = { 0 };
			int k = bits < 8 ? (int)(u % (8 / bits)) : 0;
			if (bits < 8)
				in[0] = (uint8_t)(u << k * bits);
			else
				memcpy(in, &u, 2);
			Num n = data_get(&(Data){ .bytes = in }, d, k);
			data_set(out, d, k, n);
			if (dt_float(d) && isnan(n.f))
				ck_assert(isnan(data_get(&(Data){ .bytes = out }, d, k).f));
			else
				ck_assert_msg(!memcmp(in, out, 4), "%s %x", dtypes[d].text, u);
		}
	}
}
END_TEST

START_TEST(casts)
{
	static const struct { DType to; double x; int64_t want; } rows[] = {
		{ DT_I8, 127.9, 127 }, { DT_I8, 1e9, 127 }, { DT_I8, -1e9, -128 }, { DT_U8, -1, 0 },
		{ DT_U8, 300, 255 }, { DT_I32, -2.9, -2 }, { DT_I64, 1e30, INT64_MAX },
		{ DT_U64, 1e30, -1 }, { DT_U64, 0x1p63, INT64_MIN }, { DT_I4, 100, 7 }, { DT_BOOL, 0.1, 1 },
		{ DT_I64, NAN, 0 }, { DT_BOOL, NAN, 1 },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		ck_assert_int_eq(num_cast(rows[i].to, DT_F64, (Num){ .f = rows[i].x }).i, rows[i].want);
	ck_assert_int_eq(num_cast(DT_I8, DT_I32, (Num){ .i = 200 }).i, -56);
	ck_assert_int_eq(num_cast(DT_U4, DT_I32, (Num){ .i = -1 }).i, 15);
	ck_assert_int_eq(num_cast(DT_U32, DT_I32, (Num){ .i = -1 }).i, 4294967295);
	ck_assert(num_cast(DT_F32, DT_U64, (Num){ .i = -1 }).f == 0x1p64);
	/* once, not by way of double: just above the middle of two bf16 */
	ck_assert(num_cast(DT_BF16, DT_I64, (Num){ .i = (1ll << 62) + (1ll << 54) + 1 }).f ==
		0x1p62 + 0x1p55);
}
END_TEST

static int64_t ints(int op, DType d, int64_t a, int64_t b)
{
	Num r = { 0 }, in[2] = { { .i = a }, { .i = b } };
	ck_assert(num_eval(op, op >= O_LT && op <= O_NE ? DT_BOOL : d, d, in, &r));
	return r.i;
}

START_TEST(integers)
{
	static const struct { int op; DType d; int64_t a, b, want; } rows[] = {
		{ O_ADD, DT_I8, 127, 1, -128 }, { O_MUL, DT_U8, 16, 17, 16 },
		{ O_SUB, DT_U32, 0, 1, 4294967295 }, { O_DIV, DT_I32, -7, 2, -3 },
		{ O_DIV, DT_I32, 5, 0, 0 }, { O_DIV, DT_I32, INT32_MIN, -1, INT32_MIN },
		{ O_REM, DT_I32, -7, 2, -1 }, { O_REM, DT_I64, INT64_MIN, -1, 0 },
		{ O_REM, DT_I32, 5, 0, 0 }, { O_FLOORDIV, DT_I32, -7, 2, -4 }, { O_MOD, DT_I32, -7, 2, 1 },
		{ O_MOD, DT_I32, 7, -2, -1 }, { O_FLOORDIV, DT_U64, -1, 2, INT64_MAX },
		{ O_MIN, DT_U64, -1, 1, 1 }, { O_LT, DT_U64, 1, -1, 1 }, { O_LT, DT_I64, 1, -1, 0 },
		{ O_SHL, DT_I8, 1, 7, -128 }, { O_SHL, DT_I8, 1, 8, 0 }, { O_SHR, DT_I8, -128, 9, -1 },
		{ O_SHR, DT_U8, 128, 9, 0 }, { O_SHR, DT_U8, 128, 7, 1 }, { O_SHL, DT_I32, 1, -1, 0 },
		{ O_AND, DT_U4, 12, 10, 8 }, { O_XOR, DT_I8, -1, 1, -2 },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		ck_assert_msg(ints(rows[i].op, rows[i].d, rows[i].a, rows[i].b) == rows[i].want, "row %zu",
			i);
	ck_assert_int_eq(ints(O_ABS, DT_I8, -128, 0), -128);
	ck_assert_int_eq(ints(O_NEG, DT_U8, 1, 0), 255);
	ck_assert_int_eq(ints(O_NOT, DT_U8, 1, 0), 254);
	ck_assert_int_eq(ints(O_NOT, DT_BOOL, 1, 0), 0);
	ck_assert_int_eq(ints(O_POPCNT, DT_I8, -1, 0), 8);
	Num r, out[2] = { { .i = 3 }, { .i = 3 } };
	ck_assert(!num_eval(O_BOUND, DT_INDEX, DT_INDEX, out, &r));       /* must be reported at run time */
}
END_TEST

static double floats(int op, DType d, double a, double b)
{
	Num r = { 0 }, in[3] = { { .f = a }, { .f = b } };
	ck_assert(num_eval(op, d, d, in, &r));
	return r.f;
}

START_TEST(reals)
{
	ck_assert(signbit(floats(O_MIN, DT_F32, 0.0, -0.0)) &&
		!signbit(floats(O_MAX, DT_F32, -0.0, 0.0)));
	ck_assert(isnan(floats(O_MIN, DT_F32, 1, NAN)) && isnan(floats(O_MAX, DT_F32, NAN, 1)));
	ck_assert(floats(O_ADD, DT_F32, 16777216, 1) == 16777216);
	ck_assert(floats(O_ADD, DT_F16, 2048, 1) == 2048);
	ck_assert(floats(O_MUL, DT_F16, 256, 256) == INFINITY);
	ck_assert(floats(O_TF32, DT_F32, 1 + 0x1p-11, 0) == 1 + 0x1p-10);
	ck_assert(floats(O_TF32, DT_F32, -1 - 0x1.8p-12, 0) == -1);
	ck_assert(floats(O_TF32, DT_F32, INFINITY, 0) == INFINITY);
	ck_assert(floats(O_EX2, DT_F32, -3, 0) == 0.125 && floats(O_EX2, DT_F32, -INFINITY, 0) == 0);
	ck_assert(floats(O_RINT, DT_F32, 2.5, 0) == 2 && floats(O_RINT, DT_F32, -0.5, 0) == 0);
	ck_assert(signbit(floats(O_REM, DT_F32, -4, 2)) && floats(O_REM, DT_F32, -5, 3) == -2);
	ck_assert(isnan(floats(O_REM, DT_F32, 1, 0)));
	ck_assert(floats(O_EXP, DT_F32, 1, 0) == (float)exp(1));
	Num r, in[3] = { { .f = 1 + 0x1p-23 }, { .f = 1 - 0x1p-23 }, { .f = -1 } };
	ck_assert(num_eval(O_FMA, DT_F32, DT_F32, in, &r) && r.f == -0x1p-46);
	float f = -0.0f;
	uint32_t u;
	memcpy(&u, &f, 4);
	ck_assert(num_eval(O_BITS, DT_U32, DT_F32, (Num[]){ { .f = -0.0 } }, &r) && r.i == u);
}
END_TEST

START_TEST(names)
{
	for (int d = 1; d < N_DTYPES; d++)
		ck_assert_int_eq(dtype_parse(dtypes[d].text), d);
	ck_assert_int_eq(dtype_parse("f33"), DT_NONE);
	ck_assert_int_eq(dtype_of_onnx(10), DT_F16);
	ck_assert_int_eq(dtype_of_onnx(0), DT_NONE);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("num");
	TCase *t = tcase_create("all");
	tcase_add_test(t, rounding);
	tcase_add_test(t, payloads);
	tcase_add_test(t, casts);
	tcase_add_test(t, integers);
	tcase_add_test(t, reals);
	tcase_add_test(t, names);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
