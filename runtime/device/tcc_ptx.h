/*
 * PTX instructions as C, for the simulator: codegen/ptx.c writes a kernel's PTX as calls of these,
 * an instruction a line. It follows tcc_dev.h, compiled with -DTCC_SIM.
 *
 * The name of a function is the instruction's, with _ for each dot. Registers are unsigned integers
 * of their size; floats stand in them as bits. Shared memory is addressed by the distance from the
 * kernel's first array in it, which the name `ptx_shared` points to. Meanings: PTX ISA.
 */
#ifndef TCC_PTX_H
#define TCC_PTX_H

typedef u8 ptx_pred;

#define PTX_F32(x) tcc_as_f32((i32)(x))
#define PTX_F64(x) tcc_as_f64((i64)(x))
#define PTX_B32(x) ((u32)tcc_as_i32(x))
#define PTX_B64(x) ((u64)tcc_as_i64(x))

/* --- memory -------------------------------------------------------------------------------- */

#define PTX_GLOBAL(a) ((u8 *)(a))
#define PTX_SHARED(a) (ptx_shared + (u32)(a))
#define PTX_AT(type, p) (*(type *)(p))
#define ptx_cvta_shared_u64(a) ((u64)PTX_SHARED(a))
#define ptx_cvta_to_shared_u64(a) ((u64)((u8 *)(a) - ptx_shared))

#define PTX_VEC(name, type, n) \
	typedef type name __attribute__((ext_vector_type(n), may_alias));
#define PTX_VECS(T) PTX_VEC(ptx_##T##x2, T, 2) PTX_VEC(ptx_##T##x4, T, 4)
PTX_VECS(u8)
PTX_VECS(u16)
PTX_VECS(u32)
PTX_VECS(u64)

/* --- special registers --------------------------------------------------------------------- */

#define ptx_reg_tid_x() ((u32)tcc_tx())
#define ptx_reg_ctaid_x() ((u32)tcc_bx())
#define ptx_reg_ctaid_y() ((u32)tcc_by())
#define ptx_reg_ctaid_z() ((u32)tcc_bz())
#define ptx_reg_nctaid_x() ((u32)tcc_gx())
#define ptx_reg_nctaid_y() ((u32)tcc_gy())
#define ptx_reg_nctaid_z() ((u32)tcc_gz())
#define ptx_reg_laneid() ((u32)tcc_lane())

/* --- moves --------------------------------------------------------------------------------- */

TCC_FN u64 ptx_pack_b64(u32 lo, u32 hi) { return (u64)hi << 32 | lo; }
TCC_FN u32 ptx_pack_b32(u16 lo, u16 hi) { return (u32)hi << 16 | lo; }
TCC_FN void ptx_unpack_b64(u32 *lo, u32 *hi, u64 a) { *lo = (u32)a; *hi = (u32)(a >> 32); }
TCC_FN void ptx_unpack_b32(u16 *lo, u16 *hi, u32 a) { *lo = (u16)a; *hi = (u16)(a >> 16); }

/* --- integers ------------------------------------------------------------------------------ */

/* A shift by the size or more gives what a shift by all bits would. */
#define PTX_LOGIC(T, U, BITS) \
TCC_FN U ptx_and_##T(U a, U b) { return a & b; } \
TCC_FN U ptx_or_##T(U a, U b) { return a | b; } \
TCC_FN U ptx_xor_##T(U a, U b) { return a ^ b; } \
TCC_FN U ptx_not_##T(U a) { return (U)~a; } \
TCC_FN U ptx_shl_##T(U a, u32 n) { return n < BITS ? (U)(a << n) : 0; }
PTX_LOGIC(b16, u16, 16)
PTX_LOGIC(b32, u32, 32)
PTX_LOGIC(b64, u64, 64)
TCC_FN ptx_pred ptx_and_pred(ptx_pred a, ptx_pred b) { return a & b; }
TCC_FN ptx_pred ptx_or_pred(ptx_pred a, ptx_pred b) { return a | b; }
TCC_FN ptx_pred ptx_xor_pred(ptx_pred a, ptx_pred b) { return a ^ b; }
TCC_FN ptx_pred ptx_not_pred(ptx_pred a) { return !a; }

/* U: the register's type, V: the value's. Division by zero must not trap here; what it gives is the
 * machine's affair. */
#define PTX_INT(T, U, V, BITS) \
TCC_FN U ptx_add_##T(U a, U b) { return (U)(a + b); } \
TCC_FN U ptx_sub_##T(U a, U b) { return (U)(a - b); } \
TCC_FN U ptx_mul_lo_##T(U a, U b) { return (U)((u64)a * b); } \
TCC_FN U ptx_mad_lo_##T(U a, U b, U c) { return (U)((u64)a * b + c); } \
TCC_FN U ptx_div_##T(U a, U b) \
{ \
	return b == 0 ? (U)~(U)0 : (V)b == (V)-1 && (V)-1 < 0 ? (U)(0 - a) : (U)((V)a / (V)b); \
} \
TCC_FN U ptx_rem_##T(U a, U b) { return (U)(a - ptx_div_##T(a, b) * (u64)b); } \
TCC_FN U ptx_min_##T(U a, U b) { return (V)a < (V)b ? a : b; } \
TCC_FN U ptx_max_##T(U a, U b) { return (V)a > (V)b ? a : b; } \
TCC_FN U ptx_abs_##T(U a) { return (V)a < 0 ? (U)(0 - a) : a; } \
TCC_FN U ptx_neg_##T(U a) { return (U)(0 - a); } \
TCC_FN U ptx_shr_##T(U a, u32 n) { return (U)((V)a >> (n < BITS - 1 ? n : BITS - 1) \
	>> (n >= BITS)); }
PTX_INT(s16, u16, i16, 16)
PTX_INT(u16, u16, u16, 16)
PTX_INT(s32, u32, i32, 32)
PTX_INT(u32, u32, u32, 32)
PTX_INT(s64, u64, i64, 64)
PTX_INT(u64, u64, u64, 64)
#define ptx_shr_b16 ptx_shr_u16
#define ptx_shr_b32 ptx_shr_u32
#define ptx_shr_b64 ptx_shr_u64

#define PTX_WIDE(T, U, V, W, UW) \
TCC_FN UW ptx_mul_wide_##T(U a, U b) { return (UW)((W)(V)a * (V)b); } \
TCC_FN UW ptx_mad_wide_##T(U a, U b, UW c) { return ptx_mul_wide_##T(a, b) + c; }
PTX_WIDE(s16, u16, i16, i32, u32)
PTX_WIDE(u16, u16, u16, u32, u32)
PTX_WIDE(s32, u32, i32, i64, u64)
PTX_WIDE(u32, u32, u32, u64, u64)
TCC_FN u16 ptx_mul_hi_s16(u16 a, u16 b) { return (u16)((i32)(i16)a * (i16)b >> 16); }
TCC_FN u16 ptx_mul_hi_u16(u16 a, u16 b) { return (u16)((u32)a * b >> 16); }
TCC_FN u32 ptx_mul_hi_s32(u32 a, u32 b) { return (u32)tcc_mulhi_i32((i32)a, (i32)b); }
TCC_FN u32 ptx_mul_hi_u32(u32 a, u32 b) { return tcc_mulhi_u32(a, b); }
TCC_FN u64 ptx_mul_hi_s64(u64 a, u64 b) { return (u64)tcc_mulhi_i64((i64)a, (i64)b); }
TCC_FN u64 ptx_mul_hi_u64(u64 a, u64 b) { return tcc_mulhi_u64(a, b); }

TCC_FN u32 ptx_popc_b32(u32 a) { return (u32)tcc_popc_u32(a); }
TCC_FN u32 ptx_popc_b64(u64 a) { return (u32)tcc_popc_u64(a); }
TCC_FN u32 ptx_clz_b32(u32 a) { return (u32)tcc_clz_u32(a); }
TCC_FN u32 ptx_clz_b64(u64 a) { return (u32)tcc_clz_u64(a); }
TCC_FN u32 ptx_brev_b32(u32 a) { return __builtin_bitreverse32(a); }
TCC_FN u64 ptx_brev_b64(u64 a) { return __builtin_bitreverse64(a); }

TCC_FN u32 ptx_shf_l_wrap_b32(u32 a, u32 b, u32 n)
{
	return (u32)((((u64)b << 32 | a) << (n & 31)) >> 32);
}
TCC_FN u32 ptx_shf_r_wrap_b32(u32 a, u32 b, u32 n) { return (u32)(((u64)b << 32 | a) >> (n & 31)); }
TCC_FN u32 ptx_shf_l_clamp_b32(u32 a, u32 b, u32 n)
{
	return n >= 32 ? a : ptx_shf_l_wrap_b32(a, b, n);
}
TCC_FN u32 ptx_shf_r_clamp_b32(u32 a, u32 b, u32 n)
{
	return n >= 32 ? b : ptx_shf_r_wrap_b32(a, b, n);
}

/* A field of n bits from bit at on; the sign of a signed one fills what is above the register. */
#define PTX_BFE(T, U, BITS, SIGNED) \
TCC_FN U ptx_bfe_##T(U a, u32 at, u32 n) \
{ \
	u32 i; \
	U r = 0, sign; \
	at &= 255; \
	n &= 255; \
	sign = SIGNED && n ? a >> (at + n - 1 < BITS - 1 ? at + n - 1 : BITS - 1) & 1 : 0; \
	for (i = 0; i < BITS; i++) \
		r |= (U)(i < n && at + i < BITS ? a >> (at + i) & 1 : sign) << i; \
	return r; \
}
PTX_BFE(u32, u32, 32, 0)
PTX_BFE(s32, u32, 32, 1)
PTX_BFE(u64, u64, 64, 0)
PTX_BFE(s64, u64, 64, 1)
#define PTX_BFI(T, U, BITS) \
TCC_FN U ptx_bfi_##T(U a, U b, u32 at, u32 n) \
{ \
	U mask; \
	at &= 255; \
	n &= 255; \
	mask = at < BITS && n ? (n < BITS ? ((U)1 << n) - 1 : ~(U)0) << at : 0; \
	return (b & ~mask) | (at < BITS ? a << at & mask : 0); \
}
PTX_BFI(b32, u32, 32)
PTX_BFI(b64, u64, 64)

TCC_FN u32 ptx_prmt_b32(u32 a, u32 b, u32 c)
{
	u64 v = (u64)b << 32 | a;
	u32 r = 0, i, byte;

	for (i = 0; i < 4; i++) {
		byte = (u32)(v >> (c >> 4 * i & 7) * 8) & 255;
		if (c >> (4 * i + 3) & 1)
			byte = byte & 128 ? 255 : 0;
		r |= byte << 8 * i;
	}
	return r;
}
TCC_FN u32 ptx_lop3_b32(u32 a, u32 b, u32 c, u32 table)
{
	u32 r = 0, i;

	for (i = 0; i < 8; i++)
		if (table >> i & 1)
			r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
	return r;
}

#define PTX_DP4A(T, VA, VB) \
TCC_FN u32 ptx_dp4a_##T(u32 a, u32 b, u32 c) \
{ \
	i32 i; \
	for (i = 0; i < 4; i++) \
		c += (u32)((i32)(VA)(a >> 8 * i) * (i32)(VB)(b >> 8 * i)); \
	return c; \
}
PTX_DP4A(s32_s32, i8, i8)
PTX_DP4A(u32_u32, u8, u8)
PTX_DP4A(u32_s32, u8, i8)
PTX_DP4A(s32_u32, i8, u8)

/* Two halves of a by the lower or the upper two bytes of b. */
#define PTX_DP2A(PART, AT, T, VA, VB) \
TCC_FN u32 ptx_dp2a_##PART##_##T(u32 a, u32 b, u32 c) \
{ \
	i32 i; \
	for (i = 0; i < 2; i++) \
		c += (u32)((i32)(VA)(a >> 16 * i) * (i32)(VB)(b >> (AT + 8 * i))); \
	return c; \
}
#define PTX_DP2AS(T, VA, VB) PTX_DP2A(lo, 0, T, VA, VB) PTX_DP2A(hi, 16, T, VA, VB)
PTX_DP2AS(s32_s32, i16, i8)
PTX_DP2AS(u32_u32, u16, u8)
PTX_DP2AS(u32_s32, u16, i8)
PTX_DP2AS(s32_u32, i16, u8)

/* --- floating point ------------------------------------------------------------------------ */

TCC_FN u16 ptx_add_rn_f16(u16 a, u16 b) { return tcc_add_f16(a, b); }
TCC_FN u16 ptx_sub_rn_f16(u16 a, u16 b) { return tcc_sub_f16(a, b); }
TCC_FN u16 ptx_mul_rn_f16(u16 a, u16 b) { return tcc_mul_f16(a, b); }

#define PTX_FLOAT(T, U, V, F, B) \
TCC_FN U ptx_add_rn_##T(U a, U b) { return B(F(a) + F(b)); } \
TCC_FN U ptx_sub_rn_##T(U a, U b) { return B(F(a) - F(b)); } \
TCC_FN U ptx_mul_rn_##T(U a, U b) { return B(F(a) * F(b)); } \
TCC_FN U ptx_div_rn_##T(U a, U b) { return B(F(a) / F(b)); } \
TCC_FN U ptx_rcp_rn_##T(U a) { return B((V)1 / F(a)); } \
TCC_FN U ptx_sqrt_rn_##T(U a) { return B(tcc_sqrt_##V(F(a))); } \
TCC_FN U ptx_fma_rn_##T(U a, U b, U c) { return B(tcc_fma_##V(F(a), F(b), F(c))); } \
TCC_FN U ptx_abs_##T(U a) { return a & ~((U)1 << (sizeof(U) * 8 - 1)); } \
TCC_FN U ptx_neg_##T(U a) { return a ^ (U)1 << (sizeof(U) * 8 - 1); } \
TCC_FN U ptx_copysign_##T(U a, U b) { return B(tcc_copysign_##V(F(b), F(a))); } \
TCC_FN U ptx_min_NaN_##T(U a, U b) { return B(tcc_min_##V(F(a), F(b))); } \
TCC_FN U ptx_max_NaN_##T(U a, U b) { return B(tcc_max_##V(F(a), F(b))); } \
TCC_FN U ptx_min_##T(U a, U b) \
{ \
	return F(a) != F(a) ? b : F(b) != F(b) ? a : ptx_min_NaN_##T(a, b); \
} \
TCC_FN U ptx_max_##T(U a, U b) \
{ \
	return F(a) != F(a) ? b : F(b) != F(b) ? a : ptx_max_NaN_##T(a, b); \
}
PTX_FLOAT(f32, u32, f32, PTX_F32, PTX_B32)
PTX_FLOAT(f64, u64, f64, PTX_F64, PTX_B64)

/* a * b + c towards 0 or down: the sum in f64 rounded to odd, so that going on to f32 rounds once */
TCC_FN u32 ptx_fma_directed(u32 a, u32 b, u32 c, i32 down)
{
	f64 p = (f64)PTX_F32(a) * PTX_F32(b), z = PTX_F32(c), s = p + z, t = s - p;
	f64 err = (p - (s - t)) + (z - t);
	i64 bits = tcc_as_i64(s);
	f32 r;

	if (err == err && err != 0 && !(bits & 1))
		s = tcc_as_f64(bits + ((err > 0) == (s > 0) ? 1 : -1));
	r = (f32)s;
	if (s == s && (down || s > 0 ? (f64)r > s : (f64)r < s))
		r = tcc_as_f32(tcc_as_i32(r) + (r > 0 ? -1 : r < 0 ? (down ? 1 : -1) : 0));
	return PTX_B32(r);
}
TCC_FN u32 ptx_fma_rz_f32(u32 a, u32 b, u32 c) { return ptx_fma_directed(a, b, c, 0); }
TCC_FN u32 ptx_fma_rm_f32(u32 a, u32 b, u32 c) { return ptx_fma_directed(a, b, c, 1); }
/* within an ulp or two on a device; whoever uses them must bear that */
#define ptx_div_approx_f32 ptx_div_rn_f32
TCC_FN u32 ptx_rcp_approx_ftz_f32(u32 a)
{
	u32 x = a & 0x7f800000 ? a : a & 0x80000000, r = ptx_rcp_rn_f32(x);

	return r & 0x7f800000 ? r : r & 0x80000000;
}
TCC_FN u32 ptx_ex2_approx_ftz_f32(u32 a) { return PTX_B32(tcc_ex2_f32(PTX_F32(a))); }
/* without a rounding they may be contracted; NVRTC does so before it writes PTX */
#define ptx_add_f32 ptx_add_rn_f32
#define ptx_sub_f32 ptx_sub_rn_f32
#define ptx_mul_f32 ptx_mul_rn_f32
#define ptx_add_f64 ptx_add_rn_f64
#define ptx_sub_f64 ptx_sub_rn_f64
#define ptx_mul_f64 ptx_mul_rn_f64

/* --- comparisons --------------------------------------------------------------------------- */

#define PTX_CMP(NAME, T, U, EXPR) TCC_FN ptx_pred ptx_cmp_##NAME##_##T(U a, U b) { return EXPR; }
#define PTX_CMPS(T, U, V) \
PTX_CMP(eq, T, U, a == b) PTX_CMP(ne, T, U, a != b) \
PTX_CMP(lt, T, U, (V)a < (V)b) PTX_CMP(le, T, U, (V)a <= (V)b) \
PTX_CMP(gt, T, U, (V)a > (V)b) PTX_CMP(ge, T, U, (V)a >= (V)b) \
PTX_CMP(lo, T, U, a < b) PTX_CMP(ls, T, U, a <= b) \
PTX_CMP(hi, T, U, a > b) PTX_CMP(hs, T, U, a >= b)
PTX_CMPS(s16, u16, i16)
PTX_CMPS(u16, u16, u16)
PTX_CMPS(b16, u16, u16)
PTX_CMPS(s32, u32, i32)
PTX_CMPS(u32, u32, u32)
PTX_CMPS(b32, u32, u32)
PTX_CMPS(s64, u64, i64)
PTX_CMPS(u64, u64, u64)
PTX_CMPS(b64, u64, u64)
#define PTX_CMPF(T, U, F) \
PTX_CMP(eq, T, U, F(a) == F(b)) \
PTX_CMP(lt, T, U, F(a) < F(b)) PTX_CMP(le, T, U, F(a) <= F(b)) \
PTX_CMP(gt, T, U, F(a) > F(b)) PTX_CMP(ge, T, U, F(a) >= F(b)) \
PTX_CMP(ne, T, U, F(a) < F(b) || F(a) > F(b)) PTX_CMP(neu, T, U, F(a) != F(b)) \
PTX_CMP(equ, T, U, !(F(a) < F(b) || F(a) > F(b))) \
PTX_CMP(ltu, T, U, !(F(a) >= F(b))) PTX_CMP(leu, T, U, !(F(a) > F(b))) \
PTX_CMP(gtu, T, U, !(F(a) <= F(b))) PTX_CMP(geu, T, U, !(F(a) < F(b))) \
PTX_CMP(num, T, U, F(a) == F(a) && F(b) == F(b)) \
PTX_CMP(nan, T, U, F(a) != F(a) || F(b) != F(b))
PTX_CMPF(f32, u32, PTX_F32)
PTX_CMPF(f64, u64, PTX_F64)
TCC_FN ptx_pred ptx_testp_notanumber_f32(u32 a) { return PTX_F32(a) != PTX_F32(a); }
TCC_FN ptx_pred ptx_testp_notanumber_f64(u64 a) { return PTX_F64(a) != PTX_F64(a); }
TCC_FN ptx_pred ptx_testp_infinite_f32(u32 a) { return (a & 0x7fffffff) == 0x7f800000; }

/* --- conversions --------------------------------------------------------------------------- */

/* Between integers a value is extended or cut; registers may be wider than its type. */
#define PTX_CVT_INT(D, VD, S, VS) \
TCC_FN u64 ptx_cvt_##D##_##S(u64 a) { return (u64)(VD)(VS)a; }
#define PTX_CVT_INTS(S, VS) \
PTX_CVT_INT(s8, i8, S, VS) PTX_CVT_INT(u8, u8, S, VS) \
PTX_CVT_INT(s16, i16, S, VS) PTX_CVT_INT(u16, u16, S, VS) \
PTX_CVT_INT(s32, i32, S, VS) PTX_CVT_INT(u32, u32, S, VS) \
PTX_CVT_INT(s64, i64, S, VS) PTX_CVT_INT(u64, u64, S, VS)
PTX_CVT_INTS(s8, i8)
PTX_CVT_INTS(u8, u8)
PTX_CVT_INTS(s16, i16)
PTX_CVT_INTS(u16, u16)
PTX_CVT_INTS(s32, i32)
PTX_CVT_INTS(u32, u32)
PTX_CVT_INTS(s64, i64)
PTX_CVT_INTS(u64, u64)

#define PTX_CVT_TO_FLOAT(S, VS) \
TCC_FN u32 ptx_cvt_rn_f32_##S(u64 a) { return PTX_B32((f32)(VS)a); } \
TCC_FN u64 ptx_cvt_rn_f64_##S(u64 a) { return PTX_B64((f64)(VS)a); }
PTX_CVT_TO_FLOAT(s8, i8)
PTX_CVT_TO_FLOAT(u8, u8)
PTX_CVT_TO_FLOAT(s16, i16)
PTX_CVT_TO_FLOAT(u16, u16)
PTX_CVT_TO_FLOAT(s32, i32)
PTX_CVT_TO_FLOAT(u32, u32)
PTX_CVT_TO_FLOAT(s64, i64)
PTX_CVT_TO_FLOAT(u64, u64)

/* To integers floats saturate; NaN gives 0, or for 64 bits the bits 1 << 63. */
#define PTX_CVT_TO_INT(R, FN, D, VD, F, V, NAN_BITS) \
TCC_FN u64 ptx_cvt_##R##_##D##_##V(u64 a) \
{ \
	V x = F(a); \
	return x != x ? (u64)NAN_BITS : (u64)tcc_##V##_to_##VD(tcc_##FN##_##V(x)); \
}
#define PTX_CVT_ROUND(R, FN, F, V) \
PTX_CVT_TO_INT(R, FN, s16, i16, F, V, 0) PTX_CVT_TO_INT(R, FN, u16, u16, F, V, 0) \
PTX_CVT_TO_INT(R, FN, s8, i8, F, V, 0) PTX_CVT_TO_INT(R, FN, u8, u8, F, V, 0) \
PTX_CVT_TO_INT(R, FN, s32, i32, F, V, 0) PTX_CVT_TO_INT(R, FN, u32, u32, F, V, 0) \
PTX_CVT_TO_INT(R, FN, s64, i64, F, V, 1 << 63) PTX_CVT_TO_INT(R, FN, u64, u64, F, V, 1 << 63)
#define PTX_CVT_ROUNDS(F, V, U, B) \
PTX_CVT_ROUND(rzi, trunc, F, V) \
PTX_CVT_ROUND(rni, rint, F, V) \
PTX_CVT_ROUND(rmi, floor, F, V) \
PTX_CVT_ROUND(rpi, ceil, F, V) \
TCC_FN U ptx_cvt_rzi_##V##_##V(U a) { return B(tcc_trunc_##V(F(a))); } \
TCC_FN U ptx_cvt_rni_##V##_##V(U a) { return B(tcc_rint_##V(F(a))); } \
TCC_FN U ptx_cvt_rmi_##V##_##V(U a) { return B(tcc_floor_##V(F(a))); } \
TCC_FN U ptx_cvt_rpi_##V##_##V(U a) { return B(tcc_ceil_##V(F(a))); }
PTX_CVT_ROUNDS(PTX_F32, f32, u32, PTX_B32)
PTX_CVT_ROUNDS(PTX_F64, f64, u64, PTX_B64)

TCC_FN u64 ptx_cvt_f64_f32(u32 a) { return PTX_B64((f64)PTX_F32(a)); }
TCC_FN u32 ptx_cvt_rn_f32_f64(u64 a) { return PTX_B32((f32)PTX_F64(a)); }
TCC_FN u32 ptx_cvt_f32_f16(u16 a) { return PTX_B32(tcc_f16_to_f32(a)); }
TCC_FN u16 ptx_cvt_rn_f16_f32(u32 a) { return tcc_f32_to_f16(PTX_F32(a)); }
TCC_FN u16 ptx_cvt_rn_f16_f64(u64 a) { return tcc_f64_to_f16(PTX_F64(a)); }
TCC_FN u32 ptx_cvt_f32_bf16(u16 a) { return PTX_B32(tcc_bf16_to_f32(a)); }
TCC_FN u16 ptx_cvt_rn_bf16_f32(u32 a) { return tcc_f32_to_bf16(PTX_F32(a)); }

/* --- threads: what they meet at are macros, as in tcc_dev.h -------------------------------- */

/* of the whole block, or of so many threads */
#define PTX_THIRD(a, b, c, ...) c
#define ptx_bar_whole(which) tcc_sim_barrier()
#define ptx_bar_part(which, threads) tcc_sim_part_barrier((i32)(which), (i32)(threads))
#define ptx_bar_sync(...) PTX_THIRD(__VA_ARGS__, ptx_bar_part, ptx_bar_whole, 0)(__VA_ARGS__)
#define ptx_barrier_sync ptx_bar_sync
#define ptx_bar_warp_sync(lanes) tcc_sim_warp_barrier()
#define ptx_shfl_sync_bfly_b32(v, mask, clamp, lanes) ((u32)tcc_sim_shfl_xor(v, (i32)(mask)))
#define ptx_shfl_sync_idx_b32(v, lane, clamp, lanes) ((u32)tcc_sim_shfl(v, (i32)(lane) & 31))
TCC_FN void ptx_membar_gl(void) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
/* launches come one after the other here */
TCC_FN void ptx_griddepcontrol_wait(void) {}
TCC_FN void ptx_griddepcontrol_launch_dependents(void) {}
TCC_FN void ptx_membar_cta(void) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

/* --- atomics ------------------------------------------------------------------------------- */

#define PTX_ATOM(NAME, T, U, FN, V) \
TCC_FN U ptx_atom_##NAME##_##T(u8 *p, U v) { return (U)FN((V *)p, (V)v); }
PTX_ATOM(add, s32, u32, tcc_atomic_add_i32, i32)
PTX_ATOM(add, u32, u32, tcc_atomic_add_i32, i32)
PTX_ATOM(add, u64, u64, tcc_atomic_add_i64, i64)
PTX_ATOM(or, b32, u32, tcc_atomic_or_i32, i32)
PTX_ATOM(min, s32, u32, tcc_atomic_min_i32, i32)
PTX_ATOM(max, s32, u32, tcc_atomic_max_i32, i32)
PTX_ATOM(min, s64, u64, tcc_atomic_min_i64, i64)
PTX_ATOM(max, s64, u64, tcc_atomic_max_i64, i64)
TCC_FN u32 ptx_atom_add_f32(u8 *p, u32 v) { return PTX_B32(tcc_atomic_add_f32((f32 *)p, PTX_F32(v))); }
TCC_FN u64 ptx_atom_add_f64(u8 *p, u64 v) { return PTX_B64(tcc_atomic_add_f64((f64 *)p, PTX_F64(v))); }
TCC_FN u32 ptx_atom_cas_b32(u8 *p, u32 a, u32 b) { return (u32)tcc_cas_i32((i32 *)p, (i32)a, (i32)b); }
TCC_FN u64 ptx_atom_cas_b64(u8 *p, u64 a, u64 b) { return (u64)tcc_cas_i64((i64 *)p, (i64)a, (i64)b); }

/* --- asynchronous copies ------------------------------------------------------------------- */

#define ptx_cp_async(dst, src, bytes, keep) tcc_sim_cp_async(dst, src, bytes, (keep) != 0)
#define ptx_cp_async_commit_group() tcc_sim_cp_commit()
#define ptx_cp_async_wait_group(n) tcc_sim_cp_wait((i32)(n))
#define ptx_cp_async_wait_all() tcc_sim_cp_wait(0)

/* --- sm_90: phases, boxes, products of warp groups ------------------------------------------- */

#define ptx_mbarrier_init_b64(bar, arrivals) tcc_sim_phase_init((u64 *)(bar), (i32)(arrivals))
#define ptx_mbarrier_arrive_b64(bar) tcc_sim_phase_arrive((u64 *)(bar), 0)
#define ptx_mbarrier_arrive_expect_tx_b64(bar, bytes) tcc_sim_phase_arrive((u64 *)(bar), (i32)(bytes))
#define ptx_mbarrier_try_wait_parity_b64(bar, parity) (tcc_sim_phase_wait((u64 *)(bar), (i32)(parity)), 1)
#define ptx_fence_mbarrier_init_release_cluster() ((void)0)
#define ptx_fence_proxy_async() tcc_sim_fence()
#define ptx_griddepcontrol_wait() ((void)0)
#define ptx_griddepcontrol_launch_dependents() ((void)0)
#define ptx_setmaxnreg_dec_sync_aligned_u32(n) tcc_sim_regs((i32)(n), 0)
#define ptx_setmaxnreg_inc_sync_aligned_u32(n) tcc_sim_regs((i32)(n), 1)
#define ptx_wgmma_fence_sync_aligned() tcc_sim_wgmma_fence()
#define ptx_wgmma_commit_group_sync_aligned() tcc_sim_wgmma_commit()
#define ptx_wgmma_wait_group_sync_aligned(n) tcc_sim_wgmma_wait((i32)(n))

/* --- matrices ------------------------------------------------------------------------------- */

#define PTX_LDMATRIX(a, b, c, d, row, trans) do { \
	u32 r_[4]; \
	tcc_sim_ldmatrix(r_, row, trans); \
	*(a) = r_[0], *(b) = r_[1], *(c) = r_[2], *(d) = r_[3]; \
} while (0)
#define ptx_ldmatrix_sync_aligned_m8n8_x4_b16(a, b, c, d, row) PTX_LDMATRIX(a, b, c, d, row, 0)
#define ptx_ldmatrix_sync_aligned_m8n8_x4_trans_b16(a, b, c, d, row) PTX_LDMATRIX(a, b, c, d, row, 1)
#define PTX_MMA_4_4_2(name, d0, d1, d2, d3, a0, a1, a2, a3, b0, b1, c0, c1, c2, c3) do { \
	u32 a_[4] = { a0, a1, a2, a3 }, b_[2] = { b0, b1 }, c_[4] = { c0, c1, c2, c3 }; \
	tcc_sim_mma(name, c_, a_, b_); \
	*(d0) = c_[0], *(d1) = c_[1], *(d2) = c_[2], *(d3) = c_[3]; \
} while (0)
#define ptx_mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(...) \
	PTX_MMA_4_4_2("m16n8k16_f16", __VA_ARGS__)
#define ptx_mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32(...) \
	PTX_MMA_4_4_2("m16n8k16_bf16", __VA_ARGS__)
#define ptx_mma_sync_aligned_m16n8k8_row_col_f32_tf32_tf32_f32(...) \
	PTX_MMA_4_4_2("m16n8k8_tf32", __VA_ARGS__)
#define ptx_mma_sync_aligned_m16n8k32_row_col_s32_s8_s8_s32(...) \
	PTX_MMA_4_4_2("m16n8k32_s8", __VA_ARGS__)
#define ptx_mma_sync_aligned_m16n8k32_row_col_s32_u8_u8_s32(...) \
	PTX_MMA_4_4_2("m16n8k32_u8", __VA_ARGS__)
#define ptx_mma_sync_aligned_m16n8k32_row_col_s32_u8_s8_s32(...) \
	PTX_MMA_4_4_2("m16n8k32_u8s8", __VA_ARGS__)
#define ptx_mma_sync_aligned_m16n8k32_row_col_s32_s8_u8_s32(...) \
	PTX_MMA_4_4_2("m16n8k32_s8u8", __VA_ARGS__)
#define ptx_mma_sync_aligned_m16n8k8_row_col_f32_f16_f16_f32(d0, d1, d2, d3, a0, a1, b0, c0, c1, c2, c3) \
	PTX_MMA_4_4_2("m16n8k8_f16", d0, d1, d2, d3, a0, a1, 0, 0, b0, 0, c0, c1, c2, c3)
#define PTX_MMA_2_1_1(name, d0, d1, a0, b0, c0, c1) do { \
	u32 a_[1] = { a0 }, b_[1] = { b0 }, c_[2] = { c0, c1 }; \
	tcc_sim_mma(name, c_, a_, b_); \
	*(d0) = c_[0], *(d1) = c_[1]; \
} while (0)
#define ptx_mma_sync_aligned_m8n8k16_row_col_s32_s8_s8_s32(...) PTX_MMA_2_1_1("m8n8k16_s8", __VA_ARGS__)
#define ptx_mma_sync_aligned_m8n8k16_row_col_s32_u8_u8_s32(...) PTX_MMA_2_1_1("m8n8k16_u8", __VA_ARGS__)
#define ptx_mma_sync_aligned_m8n8k16_row_col_s32_u8_s8_s32(...) PTX_MMA_2_1_1("m8n8k16_u8s8", __VA_ARGS__)
#define ptx_mma_sync_aligned_m8n8k16_row_col_s32_s8_u8_s32(...) PTX_MMA_2_1_1("m8n8k16_s8u8", __VA_ARGS__)

#endif
