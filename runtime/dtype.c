/* Element types: their facts, and reading an element as a number. */
#include <math.h>
#include <string.h>
#include "rt.h"

/* numpy's kind and size per type; what numpy lacks is stored as ml_dtypes does: raw bits as void,
 * one byte for each sub-byte element. */
static const struct { char kind; uint8_t size; } npy[TCC_NDTYPES] = {
	[TCC_F32] = {'f', 4}, [TCC_U8] = {'u', 1}, [TCC_I8] = {'i', 1}, [TCC_U16] = {'u', 2},
	[TCC_I16] = {'i', 2}, [TCC_I32] = {'i', 4}, [TCC_I64] = {'i', 8}, [TCC_STRING] = {'U', 4},
	[TCC_BOOL] = {'b', 1}, [TCC_F16] = {'f', 2}, [TCC_F64] = {'f', 8}, [TCC_U32] = {'u', 4},
	[TCC_U64] = {'u', 8}, [TCC_C64] = {'c', 8}, [TCC_C128] = {'c', 16}, [TCC_BF16] = {'V', 2},
	[TCC_F8E4M3FN] = {'V', 1}, [TCC_F8E4M3FNUZ] = {'V', 1}, [TCC_F8E5M2] = {'V', 1},
	[TCC_F8E5M2FNUZ] = {'V', 1}, [TCC_U4] = {'V', 1}, [TCC_I4] = {'V', 1},
	[TCC_F4E2M1] = {'V', 1}, [TCC_F8E8M0] = {'V', 1}, [TCC_U2] = {'V', 1}, [TCC_I2] = {'V', 1},
};

#define ROW(number, id, text, width, dl) [number] = {text, width, dl},
static const struct { char name[15]; uint8_t bits, code; } rows[TCC_NDTYPES] = {
	TCC_DTYPES(ROW)
};
#undef ROW

bool tcc_dtype_info(uint32_t dtype, TccDtypeInfo *info)
{
	if (dtype >= TCC_NDTYPES || !rows[dtype].bits)
		return false;
	*info = (TccDtypeInfo){rows[dtype].name, rows[dtype].bits, rows[dtype].code,
	                       npy[dtype].kind, npy[dtype].size};
	return true;
}

int tcc_dtype_bits(uint32_t dtype)
{
	return dtype < TCC_NDTYPES ? rows[dtype].bits : 0;
}

const char *tcc_dtype_name(uint32_t dtype)
{
	return dtype < TCC_NDTYPES && rows[dtype].bits ? rows[dtype].name : "?";
}

uint32_t tcc_dtype_of(const TccTensor *t)
{
	if (t->lanes != 1)
		return TCC_NODTYPE;
	for (uint32_t i = 1; i < TCC_NDTYPES; i++)
		if (rows[i].code == t->code && rows[i].bits == t->bits)
			return i;
	return TCC_NODTYPE;
}

bool tcc_tensor_size(uint32_t dtype, int rank, const int64_t *dims, uint64_t *count,
                     uint64_t *bytes)
{
	int64_t n = 1, b;
	bool empty = false, fits = true;
	for (int i = 0; i < rank; i++) {
		if (dims[i] < 0)
			return false;
		empty |= dims[i] == 0;
	}
	for (int i = 0; i < rank && !empty; i++)
		fits &= !__builtin_mul_overflow(n, dims[i], &n);
	if (empty)
		n = 0;
	fits &= !__builtin_mul_overflow(n, (int64_t)tcc_dtype_bits(dtype), &b) && b <= INT64_MAX - 7;
	if (!fits)
		return false;
	if (count)
		*count = n;
	if (bytes)
		*bytes = (uint64_t)(b + 7) / 8;
	return true;
}

void tcc_type_text(char *buf, size_t size, uint32_t dtype, int rank, const int64_t *dims,
                   const char *const *symbols)
{
	size_t at = snprintf(buf, size, "%s[", tcc_dtype_name(dtype));
	for (int i = 0; i < rank && at < size; i++) {
		const char *comma = i ? "," : "";
		if (dims[i] >= 0)
			at += snprintf(buf + at, size - at, "%s%lld", comma, (long long)dims[i]);
		else
			at += snprintf(buf + at, size - at, "%s%s", comma,
			               symbols && symbols[i] && *symbols[i] ? symbols[i] : "?");
	}
	if (at < size)
		snprintf(buf + at, size - at, rank < 0 ? "*]" : "]");
}

/*
 * A small float of e exponent and m mantissa bits. Kinds: IEEE has infinities, FN one NaN (all
 * ones), UZ one NaN (the sign alone), FINITE neither.
 */
enum { IEEE, FN, UZ, FINITE };

static double small_float(uint32_t x, int e, int m, int bias, int kind)
{
	uint32_t man = x & ((1u << m) - 1), exp = x >> m & ((1u << e) - 1);
	bool neg = x >> (e + m) & 1;
	uint32_t ones = (1u << e) - 1;
	double v;
	if (kind == UZ && neg && !exp && !man)
		return NAN;
	if (kind == FN && exp == ones && man == (1u << m) - 1)
		return NAN;
	if (kind == IEEE && exp == ones)
		v = man ? NAN : INFINITY;
	else if (exp)
		v = ldexp(1 + ldexp(man, -m), (int)exp - bias);
	else
		v = ldexp(man, 1 - bias - m);
	return neg ? -v : v;
}

static uint32_t sub_byte(const uint8_t *p, uint64_t i, int bits)
{
	uint64_t bit = i * bits;
	return p[bit / 8] >> bit % 8 & ((1u << bits) - 1);
}

#define AT(type) (((const struct { type v; } __attribute__((packed)) *)data)[i].v)

double tcc_element(uint32_t dtype, const void *data, uint64_t i)
{
	switch (dtype) {
	case TCC_F32: return AT(float);
	case TCC_F64: return AT(double);
	case TCC_C64: i *= 2; return AT(float);
	case TCC_C128: i *= 2; return AT(double);
	case TCC_F16: return small_float(AT(uint16_t), 5, 10, 15, IEEE);
	case TCC_BF16: return small_float(AT(uint16_t), 8, 7, 127, IEEE);
	case TCC_F8E4M3FN: return small_float(AT(uint8_t), 4, 3, 7, FN);
	case TCC_F8E4M3FNUZ: return small_float(AT(uint8_t), 4, 3, 8, UZ);
	case TCC_F8E5M2: return small_float(AT(uint8_t), 5, 2, 15, IEEE);
	case TCC_F8E5M2FNUZ: return small_float(AT(uint8_t), 5, 2, 16, UZ);
	case TCC_F4E2M1: return small_float(sub_byte(data, i, 4), 2, 1, 1, FINITE);
	case TCC_F8E8M0: return AT(uint8_t) == 255 ? NAN : ldexp(1, AT(uint8_t) - 127);
	case TCC_U64: return AT(uint64_t);
	default: return tcc_element_int(dtype, data, i);
	}
}

static int64_t saturate(double v)
{
	if (v != v)
		return 0;
	if (v >= 0x1p63)
		return INT64_MAX;
	return v <= -0x1p63 ? INT64_MIN : (int64_t)v;
}

int64_t tcc_element_int(uint32_t dtype, const void *data, uint64_t i)
{
	switch (dtype) {
	case TCC_U8: return AT(uint8_t);
	case TCC_I8: return AT(int8_t);
	case TCC_U16: return AT(uint16_t);
	case TCC_I16: return AT(int16_t);
	case TCC_U32: return AT(uint32_t);
	case TCC_I32: return AT(int32_t);
	case TCC_U64: return AT(uint64_t) > INT64_MAX ? INT64_MAX : (int64_t)AT(uint64_t);
	case TCC_I64: return AT(int64_t);
	case TCC_BOOL: return AT(uint8_t) != 0;
	case TCC_U4: return sub_byte(data, i, 4);
	case TCC_I4: return (int)(sub_byte(data, i, 4) ^ 8) - 8;
	case TCC_U2: return sub_byte(data, i, 2);
	case TCC_I2: return (int)(sub_byte(data, i, 2) ^ 2) - 2;
	case TCC_NODTYPE: case TCC_STRING: return 0;
	default: return dtype < TCC_NDTYPES ? saturate(tcc_element(dtype, data, i)) : 0;
	}
}
