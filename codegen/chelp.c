/*
 * Helper functions of generated C: what the two dialects lack of scalar.def. A helper is written
 * once, before the kernels, when a kernel first names it, after those that it needs.
 *
 * In a text $t stands for the type, $u for its unsigned twin, $b for its width.
 */
#include <stdlib.h>
#include <string.h>

#include "codegen/cprint.h"

const char c_prelude[] =
	"#include <stddef.h>\n"
	"#include <stdint.h>\n"
	"#include <string.h>\n"
	"\n"
	"typedef int8_t i8;\n"
	"typedef uint8_t u8;\n"
	"typedef int16_t i16;\n"
	"typedef uint16_t u16;\n"
	"typedef int32_t i32;\n"
	"typedef uint32_t u32;\n"
	"typedef int64_t i64;\n"
	"typedef uint64_t u64;\n"
	"typedef float f32;\n"
	"typedef double f64;\n"
	"typedef u16 f16, bf16;       /* bits: they compute as f32 */\n"
	"typedef struct { u64 re, im; } c128;  /* only moved */\n"
	"\n"
	"#define TCC_FN static inline\n"
	"#if defined(__GNUC__)\n"
	"#define TCC_ENTRY __attribute__((visibility(\"hidden\")))\n"
	"#define TCC_EXPORT __attribute__((visibility(\"default\")))\n"
	"#else\n"
	"#define TCC_ENTRY\n"
	"#define TCC_EXPORT\n"
	"#endif\n"
	"#if defined(__clang__)\n"
	"#pragma STDC FP_CONTRACT OFF\n"
	"#define TCC_UNROLL _Pragma(\"unroll\")\n"
	"#define TCC_VECTOR _Pragma(\"clang loop vectorize(assume_safety)\")\n"
	"#elif defined(__GNUC__)\n"
	"#define TCC_UNROLL _Pragma(\"GCC unroll 64\")\n"
	"#define TCC_VECTOR _Pragma(\"GCC ivdep\")\n"
	"#else\n"
	"#define TCC_UNROLL\n"
	"#define TCC_VECTOR\n"
	"#endif\n"
	"\n";

/* dev: tcc_dev.h has it, for the types named ("*": all). kind: of the types that the text suits,
 * I any integer, S signed, F f32 and f64, A any number, N no type. */
typedef struct Help {
	const char *name;
	char kind;
	const char *dev;
	const char *needs;     /* full names; with $t */
	const char *text;
} Help;

/* Without an instruction for it: values below 2^23 (2^52) go through an integer. */
#define ROUND(op, gnu, adjust) "#if defined(__SSE4_1__) || defined(__aarch64__)\n" \
	"TCC_FN $t tcc_" op "_$t($t x) { return __builtin_" gnu "$s(x); }\n" \
	"#else\n" \
	"TCC_FN $t tcc_" op "_$t($t x)\n" \
	"{\n" \
	"	const $t a = tcc_abs_$t(x), i = a < $m ? ($t)($i)x : x;\n" \
	"	const $t r = " adjust ";\n" \
	"	return a < $m ? tcc_copysign_$t(r, x) : x;\n" \
	"}\n" \
	"#endif\n"

static const Help helps[] = {
	/* bits */
	{ "tcc_as_i32", 'N', "*", "",
		"TCC_FN i32 tcc_as_i32(f32 x) { i32 r; memcpy(&r, &x, 4); return r; }\n" },
	{ "tcc_as_f32", 'N', "*", "",
		"TCC_FN f32 tcc_as_f32(i32 x) { f32 r; memcpy(&r, &x, 4); return r; }\n" },
	{ "tcc_as_i64", 'N', "*", "",
		"TCC_FN i64 tcc_as_i64(f64 x) { i64 r; memcpy(&r, &x, 8); return r; }\n" },
	{ "tcc_as_f64", 'N', "*", "",
		"TCC_FN f64 tcc_as_f64(i64 x) { f64 r; memcpy(&r, &x, 8); return r; }\n" },

	/* integers: x / 0 is 0, x % 0 is 0, MIN / -1 is MIN; counts beyond the width shift all out */
	{ "div", 'S', "i32 i64", "",
		"TCC_FN $t tcc_div_$t($t a, $t b)\n"
		"{\n"
		"	return b == 0 ? 0 : b == -1 ? ($t)(0 - ($u)a) : ($t)(a / b);\n"
		"}\n" },
	{ "div", 'I', "u32 u64", "",
		"TCC_FN $t tcc_div_$t($t a, $t b) { return b == 0 ? 0 : ($t)(a / b); }\n" },
	{ "rem", 'S', "i32 i64", "",
		"TCC_FN $t tcc_rem_$t($t a, $t b) { return b == 0 || b == -1 ? 0 : ($t)(a % b); }\n" },
	{ "rem", 'I', "u32 u64", "",
		"TCC_FN $t tcc_rem_$t($t a, $t b) { return b == 0 ? 0 : ($t)(a % b); }\n" },
	{ "floordiv", 'S', "", "tcc_div_$t",
		"TCC_FN $t tcc_floordiv_$t($t a, $t b)\n"
		"{\n"
		"	const $t q = tcc_div_$t(a, b);\n"
		"	return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? ($t)(q - 1) : q;\n"
		"}\n" },
	{ "mod", 'S', "", "tcc_rem_$t",
		"TCC_FN $t tcc_mod_$t($t a, $t b)\n"
		"{\n"
		"	const $t r = tcc_rem_$t(a, b);\n"
		"	return r != 0 && (r < 0) != (b < 0) ? ($t)(r + b) : r;\n"
		"}\n" },
	{ "min", 'I', "", "", "TCC_FN $t tcc_min_$t($t a, $t b) { return a < b ? a : b; }\n" },
	{ "max", 'I', "", "", "TCC_FN $t tcc_max_$t($t a, $t b) { return a > b ? a : b; }\n" },
	{ "neg", 'S', "", "", "TCC_FN $t tcc_neg_$t($t a) { return ($t)(0 - ($u)a); }\n" },
	{ "abs", 'S', "", "", "TCC_FN $t tcc_abs_$t($t a) { return a < 0 ? ($t)(0 - ($u)a) : a; }\n" },
	{ "abs", 'I', "", "", "TCC_FN $t tcc_abs_$t($t a) { return a; }\n" },
	{ "shl", 'I', "", "",
		"TCC_FN $t tcc_shl_$t($t a, $t n)\n"
		"{\n"
		"	return ($u)n < $b ? ($t)(($u)a << (n & ($b - 1))) : ($t)0;\n"
		"}\n" },
	{ "shr", 'S', "", "",
		"TCC_FN $t tcc_shr_$t($t a, $t n) "
		"{ return ($t)(a >> (($u)n < $b ? n & ($b - 1) : $b - 1)); }\n" },
	{ "shr", 'I', "", "",
		"TCC_FN $t tcc_shr_$t($t a, $t n) "
		"{ return n < $b ? ($t)(a >> (n & ($b - 1))) : ($t)0; }\n" },
	{ "dot4", 'S', "", "",
		"TCC_FN $t tcc_dot4_$t($t a, $t b)\n"
		"{\n"
		"	$u sum = 0;\n"
		"	TCC_UNROLL\n"
		"	for (int i = 0; i < 32; i += 8)\n"
		"		sum += ($u)((i32)(u8)(a >> i) * (i8)(b >> i));\n"
		"	return ($t)sum;\n"
		"}\n" },
	{ "tcc_popc_u32", 'N', "*", "",
		"TCC_FN i32 tcc_popc_u32(u32 x)\n"
		"{\n"
		"	x = x - (x >> 1 & 0x55555555);\n"
		"	x = (x & 0x33333333) + (x >> 2 & 0x33333333);\n"
		"	return (i32)(((x + (x >> 4)) & 0x0f0f0f0f) * 0x01010101u >> 24);\n"
		"}\n" },
	{ "tcc_popc_u64", 'N', "*", "tcc_popc_u32",
		"TCC_FN i32 tcc_popc_u64(u64 x) "
		"{ return tcc_popc_u32((u32)x) + tcc_popc_u32((u32)(x >> 32)); }\n" },
	/* an index that was read: outside [0, n) it is clamped and the error is kept */
	{ "bound", 'S', "", "",
		"TCC_FN $t tcc_bound_$t($t i, $t n, i32 *err, i32 code)\n"
		"{\n"
		"	if (i >= 0 && i < n)\n"
		"		return i;\n"
		"	*err = code;\n"
		"	return i < 0 || n <= 0 ? 0 : ($t)(n - 1);\n"
		"}\n" },
	{ "clamp", 'S', "", "",
		"TCC_FN $t tcc_clamp_$t($t i, $t n) "
		"{ return i < 0 || n <= 0 ? 0 : i < n ? i : ($t)(n - 1); }\n" },

	/* floats */
	{ "abs", 'F', "*", "$as_i $as_f",
		"TCC_FN $t tcc_abs_$t($t a) { return tcc_as_$t(tcc_as_$i(a) & $x); }\n" },
	{ "copysign", 'F', "*", "$as_i $as_f",
		"TCC_FN $t tcc_copysign_$t($t a, $t s)\n"
		"{\n"
		"	return tcc_as_$t((tcc_as_$i(a) & $x) | (tcc_as_$i(s) & ~$x));\n"
		"}\n" },
	{ "sqrt", 'F', "*", "",
		"#if defined(__GNUC__)\n"
		"TCC_FN $t tcc_sqrt_$t($t x) { return __builtin_sqrt$s(x); }\n"
		"#else\n"
		"$t sqrt$s($t);\n"
		"TCC_FN $t tcc_sqrt_$t($t x) { return sqrt$s(x); }\n"
		"#endif\n" },
	{ "floor", 'F', "*", "tcc_abs_$t tcc_copysign_$t",
		ROUND("floor", "floor", "i > x ? i - 1 : i") },
	{ "ceil", 'F', "*", "tcc_abs_$t tcc_copysign_$t", ROUND("ceil", "ceil", "i < x ? i + 1 : i") },
	{ "trunc", 'F', "*", "tcc_abs_$t tcc_copysign_$t", ROUND("trunc", "trunc", "i") },
	{ "rint", 'F', "*", "tcc_abs_$t tcc_copysign_$t",
		"#if defined(__SSE4_1__) || defined(__aarch64__)\n"
		"TCC_FN $t tcc_rint_$t($t x) { return __builtin_rint$s(x); }\n"
		"#else\n"
		"TCC_FN $t tcc_rint_$t($t x)\n"
		"{\n"
		"	const $t a = tcc_abs_$t(x), r = (a + $m) - $m;\n"
		"	return a < $m ? tcc_copysign_$t(r, x) : x;\n"
		"}\n"
		"#endif\n" },
	/* NaN if either is NaN; -0 is less than +0 */
	{ "min", 'F', "*", "$as_i $as_f",
		"TCC_FN $t tcc_min_$t($t a, $t b)\n"
		"{\n"
		"	const $t zero = tcc_as_$t(tcc_as_$i(a) | tcc_as_$i(b));\n"
		"	return a < b ? a : b < a ? b : a == b ? zero : a + b;\n"
		"}\n" },
	{ "max", 'F', "*", "$as_i $as_f",
		"TCC_FN $t tcc_max_$t($t a, $t b)\n"
		"{\n"
		"	const $t zero = tcc_as_$t(tcc_as_$i(a) & tcc_as_$i(b));\n"
		"	return a > b ? a : b > a ? b : a == b ? zero : a + b;\n"
		"}\n" },
	{ "muladd", 'F', "", "",
		"#if defined(__FMA__) || defined(__aarch64__) || defined(__riscv_fdiv)\n"
		"TCC_FN $t tcc_muladd_$t($t a, $t b, $t c) { return __builtin_fma$s(a, b, c); }\n"
		"#else\n"
		"TCC_FN $t tcc_muladd_$t($t a, $t b, $t c) { return a * b + c; }\n"
		"#endif\n" },
	{ "fma", 'F', "*", "",
		"#if defined(__GNUC__)\n"
		"TCC_FN $t tcc_fma_$t($t a, $t b, $t c) { return __builtin_fma$s(a, b, c); }\n"
		"#else\n"
		"$t fma$s($t, $t, $t);\n"
		"TCC_FN $t tcc_fma_$t($t a, $t b, $t c) { return fma$s(a, b, c); }\n"
		"#endif\n" },
	/* long division on the significands, exact as C's: one bit of the quotient a step */
	{ "fmod", 'F', "*", "$as_i $as_f",
		"TCC_FN $t tcc_fmod_$t($t a, $t b)\n"
		"{\n"
		"	const $v frac = ((($v)1) << $d) - 1, inf = ($v)$e << $d;\n"
		"	const $v s = ($v)tcc_as_$i(a) & ~($v)$x;\n"
		"	$v x = ($v)tcc_as_$i(a) & $x, y = ($v)tcc_as_$i(b) & $x;\n"
		"	if (y == 0 || x >= inf || y > inf)\n"
		"		return (a * b) / (a * b);\n"
		"	if (x < y)\n"
		"		return a;\n"
		"	i32 ex = (i32)(x >> $d), ey = (i32)(y >> $d);\n"
		"	x = ex ? (x & frac) | (frac + 1) : x;\n"
		"	y = ey ? (y & frac) | (frac + 1) : y;\n"
		"	for (ex += !ex; x <= frac; ex--)\n"
		"		x <<= 1;\n"
		"	for (ey += !ey; y <= frac; ey--)\n"
		"		y <<= 1;\n"
		"	for (; ex > ey; ex--)\n"
		"		x = (x >= y ? x - y : x) << 1;\n"
		"	x = x >= y ? x - y : x;\n"
		"	if (x == 0)\n"
		"		return tcc_as_$t(($i)s);\n"
		"	for (; x <= frac; ex--)\n"
		"		x <<= 1;\n"
		"	x = ex > 0 ? (x & frac) | (($v)ex << $d) : x >> (1 - ex);\n"
		"	return tcc_as_$t(($i)(s | x));\n"
		"}\n" },

	/* half types: round to nearest even */
	{ "tcc_f16_to_f32", 'N', "*", "tcc_as_i32 tcc_as_f32",
		"#if defined(__F16C__) || defined(__aarch64__)\n"
		"TCC_FN f32 tcc_f16_to_f32(f16 h) { _Float16 x; memcpy(&x, &h, 2); return (f32)x; }\n"
		"#else\n"
		"TCC_FN f32 tcc_f16_to_f32(f16 h)\n"
		"{\n"
		"	const u32 s = (u32)(h & 0x8000) << 16, x = h & 0x7fff;\n"
		"	const u32 small = (u32)tcc_as_i32((f32)(i32)x * 5.9604645e-08f);\n"
		"	const u32 rest = (x << 13) + (x >= 0x7c00 ? 0x70000000u : 0x38000000u);\n"
		"	return tcc_as_f32((i32)(s | (x < 0x400 ? small : rest)));\n"
		"}\n"
		"#endif\n" },
	{ "tcc_f32_to_f16", 'N', "*", "tcc_as_i32 tcc_as_f32",
		"#if defined(__F16C__) || defined(__aarch64__)\n"
		"TCC_FN f16 tcc_f32_to_f16(f32 a) "
		"{ _Float16 x = (_Float16)a; f16 h; memcpy(&h, &x, 2); return h; }\n"
		"#else\n"
		"TCC_FN f16 tcc_f32_to_f16(f32 a)\n"
		"{\n"
		"	const u32 bits = (u32)tcc_as_i32(a), s = bits >> 16 & 0x8000, x = bits & 0x7fffffff;\n"
		"	/* subnormal: adding 0.5 makes the addition round at 2^-24 */\n"
		"	const u32 small = (u32)tcc_as_i32(tcc_as_f32((i32)x) + 0.5f) - 0x3f000000;\n"
		"	const u32 rest = (x - 0x38000000 + 0xfff + (x >> 13 & 1)) >> 13;\n"
		"	const u32 big = x > 0x7f800000 ? 0x7e00 | (x >> 13 & 0x1ff) : 0x7c00;\n"
		"	return (f16)(s | (x >= 0x477ff000 ? big : x < 0x38800000 ? small : rest));\n"
		"}\n"
		"#endif\n" },
	{ "tcc_bf16_to_f32", 'N', "*", "tcc_as_f32",
		"TCC_FN f32 tcc_bf16_to_f32(bf16 h) { return tcc_as_f32((i32)((u32)h << 16)); }\n" },
	{ "tcc_f32_to_bf16", 'N', "*", "tcc_as_i32",
		"TCC_FN bf16 tcc_f32_to_bf16(f32 a)\n"
		"{\n"
		"	const u32 x = (u32)tcc_as_i32(a);\n"
		"	return (bf16)(a != a ? x >> 16 | 0x40 : (x + 0x7fff + (x >> 16 & 1)) >> 16);\n"
		"}\n" },

	/* 8-bit and 4-bit floats: nearest even, saturating */
	{ "tcc_small_value", 'N', "", "tcc_as_f32",
		"/* The value of magnitude bits v with that many bits of fraction. */\n"
		"TCC_FN f32 tcc_small_value(i32 v, i32 fraction, i32 bias)\n"
		"{\n"
		"	const i32 shift = 23 - fraction;\n"
		"	return v >> fraction ? tcc_as_f32((v << shift) + ((127 - bias) << 23)) :\n"
		"		(f32)v * tcc_as_f32((128 - bias - fraction) << 23);\n"
		"}\n" },
	{ "tcc_small_bits", 'N', "", "tcc_as_i32 tcc_as_f32",
		"/* The magnitude bits nearest to |x|, at most max. */\n"
		"TCC_FN i32 tcc_small_bits(f32 x, i32 fraction, i32 bias, i32 max)\n"
		"{\n"
		"	const i32 u = tcc_as_i32(x) & 0x7fffffff, shift = 23 - fraction;\n"
		"	/* subnormal: the addition rounds at the last place */\n"
		"	const i32 one = (151 - bias - fraction) << 23;\n"
		"	const i32 small = tcc_as_i32(tcc_as_f32(u) + tcc_as_f32(one)) - one;\n"
		"	const i32 half = (1 << (shift - 1)) - 1 + (u >> shift & 1);\n"
		"	const i32 rest = (i32)(((u32)u + (u32)half) >> shift) - ((127 - bias) << fraction);\n"
		"	const i32 r = u < (128 - bias) << 23 ? small : rest;\n"
		"	return r > max ? max : r;\n"
		"}\n" },
#define SMALL_TO(t, sign, nan, inf, fraction, bias) \
	{ "tcc_" t "_to_f32", 'N', "", "tcc_small_value tcc_as_f32", \
		"TCC_FN f32 tcc_" t "_to_f32(u8 h)\n" \
		"{\n" \
		"	const i32 v = h & (" #sign " - 1), s = (h & " #sign ") / " #sign ";\n" \
		"	const f32 a = " nan " ? tcc_as_f32(0x7fc00000) : " inf \
		"tcc_small_value(v, " #fraction ", " #bias ");\n" \
		"	return s ? -a : a;\n" \
		"}\n" }
#define TO_SMALL(t, sign, nan, zero, fraction, bias, max) \
	{ "tcc_f32_to_" t, 'N', "", "tcc_small_bits tcc_as_i32", \
		"TCC_FN u8 tcc_f32_to_" t "(f32 x)\n" \
		"{\n" \
		"	const i32 s = tcc_as_i32(x) < 0 ? " #sign " : 0;\n" \
		"	const i32 r = tcc_small_bits(x, " #fraction ", " #bias ", " #max ");\n" \
		"	return (u8)(x != x ? " nan " : " zero "r | s);\n" \
		"}\n" }
	SMALL_TO("f8e4m3fn", 128, "v == 0x7f", "", 3, 7),
	SMALL_TO("f8e4m3fnuz", 128, "h == 0x80", "", 3, 8),
	SMALL_TO("f8e5m2", 128, "v > 0x7c", "v == 0x7c ? tcc_as_f32(0x7f800000) : ", 2, 15),
	SMALL_TO("f8e5m2fnuz", 128, "h == 0x80", "", 2, 16),
	SMALL_TO("f4e2m1", 8, "0", "", 1, 1),
	TO_SMALL("f8e4m3fn", 128, "0x7f | s", "", 3, 7, 0x7e),
	TO_SMALL("f8e4m3fnuz", 128, "0x80", "r == 0 ? 0 : ", 3, 8, 0x7f),
	TO_SMALL("f8e5m2", 128, "0x7e | s", "", 2, 15, 0x7b),
	TO_SMALL("f8e5m2fnuz", 128, "0x80", "r == 0 ? 0 : ", 2, 16, 0x7f),
	TO_SMALL("f4e2m1", 8, "8", "", 1, 1, 7),
	{ "tcc_f8e8m0_to_f32", 'N', "", "tcc_as_f32",
		"TCC_FN f32 tcc_f8e8m0_to_f32(u8 v)\n"
		"{\n"
		"	return tcc_as_f32(v == 0xff ? 0x7fc00000 : v == 0 ? 0x00400000 : v << 23);\n"
		"}\n" },
	{ "tcc_f32_to_f8e8m0", 'N', "", "tcc_as_i32",
		"/* The power of two at or above |x|. */\n"
		"TCC_FN u8 tcc_f32_to_f8e8m0(f32 x)\n"
		"{\n"
		"	const i32 u = tcc_as_i32(x) & 0x7fffffff, e = (u >> 23) + ((u & 0x7fffff) != 0);\n"
		"	return (u8)(u >= 0x7f800000 ? 0xff : u <= 0x400000 ? 0 : e > 254 ? 254 : e);\n"
		"}\n" },
};

static bool suits(char kind, DType d)
{
	switch (kind) {
	case 'N': return d == DT_NONE;
	case 'F': return d == DT_F32 || d == DT_F64;
	case 'S': return dt_int(d) && dt_signed(d) && dtypes[d].bits >= 8;
	default: return (dt_int(d) || d == DT_BOOL) && dtypes[d].bits >= 8;
	}
}

static const Help *find(const char *name, DType d)
{
	for (size_t k = 0; k < sizeof helps / sizeof *helps; k++)
		if (suits(helps[k].kind, d) && !strcmp(helps[k].name, name))
			return &helps[k];
	return NULL;
}

/* Is the word in the list of words? */
static bool listed(const char *list, const char *word)
{
	size_t n = strlen(word);
	if (!strcmp(list, "*"))
		return true;
	for (const char *p = list; (p = strstr(p, word)); p += n)
		if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == 0))
			return true;
	return false;
}

/* The text of a letter after $ for a type. */
static const char *letter(char c, DType d)
{
	static const char *const uns[] = { "u8", "u16", "u32", "u64" };
	static const char *const width[] = { "8", "16", "32", "64" };
	int bits = dtypes[d].bits, k = bits <= 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3;
	bool wide = bits == 64;

	switch (c) {
	case 't': return cstorage(d);
	case 'u': return uns[k];
	case 'b': return width[k];
	case 's': return d == DT_F32 ? "f" : "";           /* suffix of C's functions */
	case 'i': return wide ? "i64" : "i32";             /* an integer of the float's width */
	case 'v': return wide ? "u64" : "u32";
	case 'm': return wide ? "4503599627370496.0" : "8388608.0f";
	case 'x': return wide ? "0x7fffffffffffffff" : "0x7fffffff";
	case 'd': return wide ? "52" : "23";
	case 'e': return wide ? "2047" : "255";
	default: return "$";
	}
}

static void put_text(FILE *o, const char *text, DType d)
{
	for (; *text; text++)
		if (*text != '$')
			fputc(*text, o);
		else
			fputs(letter(*++text, d), o);
}

bool c_once(CFile *f, const char *name)
{
	for (int k = 0; k < f->used.n; k++)
		if (f->used.at[k] == name)
			return false;
	vec_push(f->m, &f->used, (void *)name);
	return true;
}

static void need_all(CFile *f, const char *needs, DType d)
{
	char name[64];

	while (*needs) {
		size_t n = strcspn(needs, " ");
		if (!strncmp(needs, "$as_i", 5))
			snprintf(name, sizeof name, "tcc_as_%s", letter('i', d));
		else if (!strncmp(needs, "$as_f", 5))
			snprintf(name, sizeof name, "tcc_as_%s", letter('t', d));
		else
			snprintf(name, sizeof name, "%.*s", (int)n, needs);
		char *type = strstr(name, "_$t");
		if (type) {
			*type = 0;
			c_help(f, name + 4, d);
		} else {
			c_help(f, name, DT_NONE);
		}
		needs += n + (needs[n] == ' ');
	}
}

/* ---- folds ----------------------------------------------------------------------------------- */

/* v comb w, as text. */
static const char *combined(CFile *f, const char *comb, DType d)
{
	const char *t = cstorage(d), *u = letter('u', d);

	if (!strcmp(comb, "min") || !strcmp(comb, "max"))
		return arena_printf(f->m->arena, "%s(v, w)", c_help(f, comb, d));
	const char *op = !strcmp(comb, "sum") ? "+" : !strcmp(comb, "prod") ? "*" :
		!strcmp(comb, "and") ? "&" : "|";
	if (dt_float(d))
		return arena_printf(f->m->arena, "v %s w", op);
	if (dtypes[d].bits == 16)
		u = "u32";     /* u16 * u16 would be a signed product */
	return arena_printf(f->m->arena, "(%s)((%s)v %s (%s)w)", t, u, op, u);
}

/* Lanes are elements: the upper half onto the lower until one is left. */
static void cpu_fold(FILE *o, const char *comb, const char *t, const char *both)
{
	fprintf(o, "TCC_FN %s tcc_fold_%s_%s(const %s *lane, i64 n)\n"
		"{\n"
		"	%s a[256];\n"
		"	if (n > 256)\n"
		"		n = 256;\n"
		"	memcpy(a, lane, (size_t)n * sizeof *a);\n"
		"	while (n > 1) {\n"
		"		const i64 h = (n + 1) / 2;\n"
		"		for (i64 i = 0; i + h < n; i++) {\n"
		"			const %s v = a[i], w = a[i + h];\n"
		"			a[i] = %s;\n"
		"		}\n"
		"		n = h;\n"
		"	}\n"
		"	return a[0];\n"
		"}\n", t, comb, t, t, t, t, both);
}

/* Threads of a block, a power of two (so many lanes apart) or a multiple of the warp: by
 * shuffles within a warp, then over the warps in order, so that every thread gets the same bits. */
static void gpu_fold(FILE *o, const char *comb, DType d, const char *both)
{
	const char *t = cstorage(d);
	bool flt = dt_float(d), wide = dtypes[d].bits == 64;
	const char *s = flt ? t : wide ? "i64" : "i32";

	fprintf(o, "TCC_SYNC_FN %s tcc_fold_%s_%s(%s *part, %s v, i32 block, i32 apart)\n"
		"{\n"
		"	TCC_UNROLL\n"
		"	for (i32 m = (block < tcc_warp ? block : tcc_warp) / 2; m > 0; m /= 2) {\n"
		"		const %s w = (%s)tcc_shfl_xor_%s(v, m * apart);\n"
		"		v = %s;\n"
		"	}\n"
		"	if (block > tcc_warp) {\n"
		"		tcc_barrier();\n"
		"		if (tcc_lane() == 0)\n"
		"			part[tcc_tx() / tcc_warp] = v;\n"
		"		tcc_barrier();\n"
		"		v = part[0];\n"
		"		for (i32 i = 1; i < block / tcc_warp; i++) {\n"
		"			const %s w = part[i];\n"
		"			v = %s;\n"
		"		}\n"
		"	}\n"
		"	return v;\n"
		"}\n", t, comb, t, t, t, t, t, s, both, t, both);
}

static const char *fold_help(CFile *f, const char *name, DType d)
{
	const char *full = intern(f->m, arena_printf(f->m->arena, "tcc_%s_%s", name, cstorage(d)));

	if (!c_once(f, full))
		return full;
	const char *both = combined(f, name + 5, d);
	if (f->gpu)
		gpu_fold(f->helpers, name + 5, d, both);
	else
		cpu_fold(f->helpers, name + 5, cstorage(d), both);
	fputc('\n', f->helpers);
	return full;
}

/* ---- helpers --------------------------------------------------------------------------------- */

const char *c_help(CFile *f, const char *name, DType d)
{
	if (!strncmp(name, "fold_", 5))
		return fold_help(f, name, d);
	const Help *h = find(name, d);
	if (!h) {
		cfile_error(f, arena_printf(f->m->arena, "%s of %s", name, dtypes[d].text));
		return name;
	}
	const char *full = intern(f->m, d == DT_NONE ? name :
		arena_printf(f->m->arena, "tcc_%s_%s", name, cstorage(d)));
	if ((f->gpu && listed(h->dev, d == DT_NONE ? name : cstorage(d))) || !c_once(f, full))
		return full;
	need_all(f, h->needs, d);
	put_text(f->helpers, h->text, d);
	fputc('\n', f->helpers);
	return full;
}

/* Float to integer: truncates, saturates, NaN gives 0. */
static void saturate(CFile *f, const char *name, DType from, DType to)
{
	int bits = dtypes[to].bits;
	bool sign = dt_signed(to);
	int64_t max = sign ? (int64_t)(~0ull >> (65 - bits)) : (int64_t)(~0ull >> (64 - bits));
	FILE *o = f->helpers;

	fprintf(o, "TCC_FN %s %s(%s x)\n{\n\treturn x != x ? 0 : x >= ", cstorage(to), name,
		cstorage(from));
	c_literal(f, o, from, (Num){ .f = (sign ? 1 : 2) * (double)(1ull << (bits - 1)) });
	fputs(" ? ", o);
	c_literal(f, o, to, (Num){ .i = max });
	fputs(" : x <= ", o);
	c_literal(f, o, from, (Num){ .f = sign ? -(double)(1ull << (bits - 1)) : 0 });
	fputs(" ? ", o);
	c_literal(f, o, to, (Num){ .i = sign ? -max - 1 : 0 });
	fprintf(o, " : (%s)x;\n}\n\n", cstorage(to));
}

const char *c_convert(CFile *f, DType from, DType to)
{
	const char *name = intern(f->m, arena_printf(f->m->arena, "tcc_%s_to_%s",
		dt_float(from) ? dtypes[from].text : cstorage(from),
		dt_float(to) ? dtypes[to].text : cstorage(to)));

	if (dt_small(from) || dt_small(to))
		return c_help(f, name, DT_NONE);
	if (!f->gpu && c_once(f, name))
		saturate(f, name, from, to);
	return name;
}

const char *c_math(CFile *f, OpCode op, DType d)
{
	const char *name = intern(f->m, arena_printf(f->m->arena, "tcc_%s_%s", core_op(op)->name,
		cstorage(d)));
	int nin = scalar_ops[op].arity;
	Node *in[2];

	if ((f->gpu && op == O_EX2) || !c_once(f, name))      /* an instruction there */
		return name;
	for (int k = 0; k < nin; k++)
		in[k] = x_carry(f->m, d);
	Node *e = math_expand(f->m, op, nin, in);
	if (!e) {
		cfile_error(f, core_op(op)->name);
		return name;
	}
	cfile_function(f, name, nin, in, e);
	return name;
}
