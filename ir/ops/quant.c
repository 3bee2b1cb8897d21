/* Quantization: between floats and narrow types, by scales and zero points. */
#include <string.h>
#include "ops.h"

/*
 * The scale or zero point of x's element at the given axes: one for all, one for each index of an
 * axis, or one for each block of block elements along it.
 */
Node *
quant_param(Build *b, Node *t, Node *x, int axis, int64_t block, Node *const *axes)
{
	Module *m = b->m;
	Node *idx[MAX_RANK], *e, *ok;
	bool in;
	int i;

	if (rank_of(t) == 0 || (rank_of(t) == 1 && is_intv(dim_of(t, 0), 1)))
		return scalar_arg(m, t);
	in = axis >= -rank_of(x) && axis < rank_of(x);
	if (!in && (rank_of(t) != 1 || dim_of(t, 0)->code == O_NUM))
		return fail(b, "axis %d is outside [%d, %d]", axis, -rank_of(x), rank_of(x) - 1);
	axis += axis < 0 ? rank_of(x) : 0;
	if (block <= 0 && rank_of(t) == 1) {
		ok = x_eq(m, dim_of(t, 0), in ? dim_of(x, axis) : x_idx(m, 1));
		require(m, x_or(m, ok, x_eq(m, dim_of(t, 0), x_idx(m, 1))), b->loc,
			"%s scales for %s elements of axis %d",
			expr_print(m, dim_of(t, 0)), in ? expr_print(m, dim_of(x, axis)) : "no", axis);
		idx[0] = in ? x_stretched(m, dim_of(t, 0), axes[axis]) : x_idx(m, 0);
		return x_read(m, t, idx);
	}
	if (block <= 0 || rank_of(t) != rank_of(x))
		return fail(b, "the scale has %d dimensions, the operand %d, block_size is %lld",
			rank_of(t), rank_of(x),
			(long long)block);
	for (i = 0; i < rank_of(x); i++) {
		e = i == axis ? x_ceildiv(m, dim_of(x, i), x_idx(m, block)) : dim_of(x, i);
		require(m, x_eq(m, dim_of(t, i), e), b->loc,
			"the scale has %s elements at axis %d, must have %s",
			expr_print(m, dim_of(t, i)), i, expr_print(m, e));
		idx[i] = i == axis ? x_fdiv(m, axes[i], x_idx(m, block)) : axes[i];
	}
	return x_read(m, t, idx);
}

static bool
type_attr(Build *b, const char *name, DType *d)
{
	int64_t code = attr_int(b, name);

	if (code == 0)
		return true;
	*d = dtype_of_onnx((int)code);
	if (*d != DT_NONE && dtypes[*d].bits > 0 && dtypes[*d].cls != 'C')
		return true;
	return fail(b, "%s %lld is no type of numbers", name, (long long)code) != NULL;
}

/* The division is rounded to its own type, then to an integer, halves to even. */
static Node *
build_quantize(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *axes[MAX_RANK], *s, *z = NULL, *v, *t;
	DType d = b->in[2] ? dtype_of(b->in[2]) : DT_U8, asked = d, c = dtype_of(b->in[1]), wide;
	int axis = (int)attr_int(b, "axis");
	int64_t block = attr_int(b, "block_size");

	if (!dt_float(c) || dtypes[c].bits < 16)
		c = acc_type(dtype_of(x));
	c = dt_float(c) ? c : DT_F32;
	if (!type_attr(b, "precision", &c) || !type_attr(b, "output_dtype", &asked))
		return NULL;
	if (b->in[2] && asked != d)
		return fail(b, "output_dtype is %s, the zero point %s", dtypes[asked].text, dtypes[d].text);
	d = asked;
	axes_new(m, rank_of(x), x->type->dims, axes);
	s = quant_param(b, b->in[1], x, axis, block, axes);
	if (!s || (b->in[2] && !(z = quant_param(b, b->in[2], x, axis, block, axes))))
		return NULL;
	v = x2(m, O_DIV, x_cast(m, c, x_read(m, x, axes)), x_cast(m, c, s));
	if (!dt_float(d)) {
		wide = acc_type(c);
		v = x1(m, O_RINT, x_cast(m, wide, v));
		v = x_cast(m, d, z ? x_add(m, v, x_cast(m, wide, z)) : v);
		return t_tensor(m, rank_of(x), axes, v);
	}
	if (z && dtypes[d].bits < 8)
		v = x_add(m, v, x_cast(m, c, z));
	t = t_tensor(m, rank_of(x), axes, v);
	return call(b, "cast", 1, &t,
		arena_printf(m->arena, "saturate=%d, to=%d", attr_int(b, "saturate") != 0,
		dtypes[d].onnx));
}

/* (x - zero) * scale: the difference is exact, the product rounded once. */
static Node *
build_dequantize(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *axes[MAX_RANK], *s, *z = NULL, *v;
	DType d = dtype_of(b->in[1]), dx = dtype_of(x), c = DT_F32;
	int axis = (int)attr_int(b, "axis");
	int64_t block = attr_int(b, "block_size");

	if (dtypes[d].bits < 16)
		d = DT_F32;
	if (!type_attr(b, "output_dtype", &d))
		return NULL;
	if (!dt_float(d))
		return fail(b, "output_dtype is %s, must be a float", dtypes[d].text);
	if (d == DT_F64)
		c = d;
	axes_new(m, rank_of(x), x->type->dims, axes);
	s = quant_param(b, b->in[1], x, axis, block, axes);
	if (!s || (b->in[2] && !(z = quant_param(b, b->in[2], x, axis, block, axes))))
		return NULL;
	v = x_read(m, x, axes);
	if (!dt_float(dx)) {
		v = x_cast(m, DT_I32, v);
		v = z ? x_sub(m, v, x_cast(m, DT_I32, z)) : v;
		z = NULL;
	}
	v = x_cast(m, c, v);
	if (z && dtypes[dx].bits < 8)
		v = x_sub(m, v, x_cast(m, c, z));
	return t_tensor(m, rank_of(x), axes, x_cast(m, d, x_mul(m, v, x_cast(m, c, s))));
}

#define Q_TYPES "i8|u8|i16|u16|i32|i4|u4|i2|u2|f8e4m3fn|f8e4m3fnuz|f8e5m2|f8e5m2fnuz|f4e2m1"

const Op ops_quant[] = {
	BUILD("quantize_linear", "QuantizeLinear", 28, "(x: float|i32, scale: float|i32, zero: num?)"
		" {axis: int = 1, block_size: int = 0, output_dtype: int = 0, precision: int = 0,"
		" saturate: int = 1} -> y",
		build_quantize, "x / scale rounded, plus the zero point"),
	BUILD("dequantize_linear", "DequantizeLinear", 28, "(x: " Q_TYPES ", scale: float, zero: x?)"
		" {axis: int = 1, block_size: int = 0, output_dtype: int = 0} -> y",
		build_dequantize, "(x - zero point) scale"),
	COMP("dynamic_quantize_linear", "DynamicQuantizeLinear", 11, "(x: f32) {} -> y, scale, zero",
		"lo = min(reduce_min(x, keepdims=0), 0); hi = max(reduce_max(x, keepdims=0), 0);"
		"s = (hi - lo) / 255; z = cast(round(clip(0 - lo / s, 0, 255)), u8);"
		"quantize_linear(x, s, z), s, z", "quantized to bytes by its own range"),
	{0}
};
