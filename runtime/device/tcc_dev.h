/*
 * The device dialect: what an emitted GPU kernel may name.
 *
 * A kernel is one text in the common subset of C11 and C++ and is compiled three ways:
 *   NVIDIA     NVRTC or nvcc, sm_75 and up     --fmad=false
 *   AMD        clang -x hip, no ROCm           -ffp-contract=off -nogpulib -nogpuinc
 *   simulator  clang as C, -DTCC_SIM           see sim.h for the command line
 * The flags matter: nvcc and HIP fuse a*b+c by default, and the IR's float contract does not
 * allow it. Division and square root are IEEE on all three; never pass a fast-math flag.
 *
 * This file is pasted whole before the kernels, so it includes nothing.
 *
 *   TCC_KERNEL(axpy, 256)(float *TCC_RESTRICT y, const float *TCC_RESTRICT x, f32 a, i32 n)
 *   {
 *           i32 i = tcc_bx() * 256 + tcc_tx();
 *           if (i < n)
 *                   y[i] = y[i] + a * x[i];
 *   }
 *
 * Rules of the dialect
 *   - Launched with exactly the number of threads that TCC_KERNEL states (x only).
 *   - TCC_SHARED and TCC_SHARED_DYN stand at the top of a kernel, in one order for all threads;
 *     the name is used as a pointer (no sizeof). At most 48 KiB on NVIDIA, 64 KiB on AMD
 *     without TCC_SHARED_DYN.
 *   - All threads of a block reach tcc_barrier(), all lanes of a warp reach a tcc_shfl_* or
 *     tcc_mma_*: none of them stands in a branch that may diverge, or after an early return.
 *   - Vectors are loaded, stored, built, and read by component; there is no vector arithmetic.
 *   - Lanes that talk through shared memory need a barrier between, tcc_warp_barrier() when they
 *     are of one warp. A shuffle orders no memory.
 */
#ifndef TCC_DEV_H
#define TCC_DEV_H

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
typedef u16 f16;        /* storage of IEEE binary16; convert to f32 to compute */
typedef u16 bf16;       /* storage of bfloat16 */
typedef struct { u64 re, im; } c128;    /* only moved */

#define TCC_RESTRICT __restrict__

#if defined(TCC_SIM)
#define TCC_DEV_SIM 1
#elif defined(__HIP__) || defined(__AMDGCN__)
#define TCC_DEV_AMD 1
#elif defined(__CUDACC__)
#define TCC_DEV_NV 1
#else
#error "tcc_dev.h: compile with nvcc, NVRTC, clang -x hip, or -DTCC_SIM"
#endif

#ifdef __cplusplus
#define TCC_EXTERN_C extern "C"
#else
#define TCC_EXTERN_C
#endif

#ifdef __clang__
#pragma clang fp contract(off)
#endif

/* --- kernels, memory spaces, indices, barriers ------------------------------------------- */

#if TCC_DEV_NV

#pragma nv_diag_suppress 177    /* no kernel uses every function */
#define TCC_FN static __device__ __forceinline__
#define TCC_SYNC_FN TCC_FN      /* holds barriers or shuffles */
/* without the 1 ptxas rather spills a register or two than run fewer blocks at once */
#define TCC_KERNEL(name, block) extern "C" __global__ void __launch_bounds__(block, 1) name
#define TCC_SHARED(type, name, count) __shared__ __align__(16) type name[count]
#define TCC_SHARED_DYN(name) extern __shared__ __align__(1024) unsigned char name[]
#define TCC_ROLLED
#define TCC_UNROLL _Pragma("unroll")
#define tcc_warp 32

TCC_FN i32 tcc_tx(void) { return (i32)threadIdx.x; }
TCC_FN i32 tcc_bx(void) { return (i32)blockIdx.x; }
TCC_FN i32 tcc_by(void) { return (i32)blockIdx.y; }
TCC_FN i32 tcc_bz(void) { return (i32)blockIdx.z; }
TCC_FN i32 tcc_gx(void) { return (i32)gridDim.x; }
TCC_FN i32 tcc_gy(void) { return (i32)gridDim.y; }
TCC_FN i32 tcc_gz(void) { return (i32)gridDim.z; }
TCC_FN void tcc_barrier(void) { __syncthreads(); }
TCC_FN void tcc_warp_barrier(void) { __syncwarp(); }

#elif TCC_DEV_AMD

#define TCC_FN static inline __attribute__((device, always_inline))
#define TCC_SYNC_FN TCC_FN
#define TCC_KERNEL(name, block) extern "C" __attribute__((global, \
	amdgpu_flat_work_group_size(block, block))) void name
#define TCC_SHARED(type, name, count) __attribute__((shared, aligned(16))) type name[count]
#define TCC_SHARED_DYN(name) \
	extern __attribute__((shared, aligned(128))) unsigned char name[]
/* LLVM unrolls short loops whole, reads all of their fragments first, and spills them */
#define TCC_ROLLED _Pragma("unroll 1")
#define TCC_UNROLL _Pragma("unroll")
#ifdef __GFX9__
#define tcc_warp 64
#else
#define tcc_warp 32
#endif

TCC_FN i32 tcc_tx(void) { return (i32)__builtin_amdgcn_workitem_id_x(); }
TCC_FN i32 tcc_bx(void) { return (i32)__builtin_amdgcn_workgroup_id_x(); }
TCC_FN i32 tcc_by(void) { return (i32)__builtin_amdgcn_workgroup_id_y(); }
TCC_FN i32 tcc_bz(void) { return (i32)__builtin_amdgcn_workgroup_id_z(); }
TCC_FN i32 tcc_gx(void)
{
	return (i32)(__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x());
}
TCC_FN i32 tcc_gy(void)
{
	return (i32)(__builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y());
}
TCC_FN i32 tcc_gz(void)
{
	return (i32)(__builtin_amdgcn_grid_size_z() / __builtin_amdgcn_workgroup_size_z());
}
TCC_FN void tcc_barrier(void)
{
	__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
	__builtin_amdgcn_s_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
TCC_FN void tcc_warp_barrier(void)
{
	__builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
	__builtin_amdgcn_wave_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

#else /* simulator: services of sim.c, resolved when the kernel's object is opened */

/* nodebug: what is inlined has the line of the kernel that calls it */
#define TCC_FN static inline __attribute__((always_inline, unused, nodebug, nomerge))
/* A function that threads meet in: its calls are not copied, and have lines of their own. */
#define TCC_SYNC_FN static __attribute__((noinline, unused, nomerge, noduplicate))
#define TCC_KERNEL(name, block) TCC_EXTERN_C __attribute__((noinline)) void name
#define TCC_SHARED(type, name, count) type *const name = (type *)tcc_sim_shared(#name, \
	(u64)(count) * sizeof(type))
#define TCC_SHARED_DYN(name) unsigned char *const name = (unsigned char *)tcc_sim_shared(#name, 0)
#define TCC_ROLLED
#define TCC_UNROLL
#ifndef tcc_warp
#define tcc_warp 32     /* 64 for the gfx9 family: -Dtcc_warp=64 */
#endif

/* The entry the simulator calls for each thread; its body passes TCC_ARG(type, i) for the i-th
 * parameter: TCC_SIM_ENTRY(axpy) { axpy(TCC_ARG(float *, 0), TCC_ARG(const float *, 1), ...); } */
#define TCC_SIM_ENTRY(name) TCC_EXTERN_C __attribute__((visibility("default"), \
	no_sanitize("thread"))) void name##__sim(void **tcc_args)
#define TCC_ARG(type, i) (*(type *)tcc_args[i])

/* One barrier of the source stays one call, so its address tells which it is. */
#define TCC_SIM_SYNC __attribute__((noduplicate, nomerge, noinline))
#define TCC_SIM_ID __attribute__((const, nothrow))
TCC_EXTERN_C void *tcc_sim_shared(const char *name, u64 bytes);
TCC_EXTERN_C TCC_SIM_ID i32 tcc_sim_tx(void);
TCC_EXTERN_C TCC_SIM_ID i32 tcc_sim_block(i32 dim);
TCC_EXTERN_C TCC_SIM_ID i32 tcc_sim_grid(i32 dim);
TCC_EXTERN_C TCC_SIM_SYNC void tcc_sim_barrier(void);
TCC_EXTERN_C TCC_SIM_SYNC void tcc_sim_warp_barrier(void);
TCC_EXTERN_C TCC_SIM_SYNC u64 tcc_sim_shfl_xor(u64 bits, i32 mask);
TCC_EXTERN_C TCC_SIM_SYNC u64 tcc_sim_shfl(u64 bits, i32 lane);
TCC_EXTERN_C void tcc_sim_cp_async(void *dst, const void *src, i32 bytes, i32 keep);
TCC_EXTERN_C void tcc_sim_cp_commit(void);
TCC_EXTERN_C void tcc_sim_cp_wait(i32 pending);
TCC_EXTERN_C TCC_SIM_SYNC void tcc_sim_mma(const char *name, void *c, const u32 *a, const u32 *b);
TCC_EXTERN_C TCC_SIM_SYNC void tcc_sim_ldmatrix(u32 *r, const void *row, i32 trans);
TCC_EXTERN_C u32 tcc_sim_shared_addr(const void *p);
TCC_EXTERN_C TCC_SIM_SYNC void tcc_sim_phase_init(u64 *bar, i32 arrivals);
TCC_EXTERN_C TCC_SIM_SYNC void tcc_sim_phase_arrive(u64 *bar, i32 bytes);
TCC_EXTERN_C TCC_SIM_SYNC void tcc_sim_phase_wait(u64 *bar, i32 parity);
TCC_EXTERN_C TCC_SIM_SYNC void tcc_sim_part_barrier(i32 which, i32 threads);
TCC_EXTERN_C TCC_SIM_SYNC void tcc_sim_fence(void);
TCC_EXTERN_C TCC_SIM_SYNC void tcc_sim_regs(i32 n, i32 take);
TCC_EXTERN_C TCC_SIM_SYNC void tcc_sim_box(void *dst, const void *map, u64 *bar, i32 n, const i32 *at,
	const i32 *moved);
TCC_EXTERN_C TCC_SIM_SYNC void tcc_sim_wgmma(const char *name, i32 n, void *c, u64 a, u64 b, i32 ma, i32 mb);
TCC_EXTERN_C TCC_SIM_SYNC void tcc_sim_wgmma_held(const char *name, i32 n, void *c, const u32 *a, u64 b, i32 mb);
/* c: where each register of the sums is; held: of the first factor, or NULL; keep: they count */
TCC_EXTERN_C TCC_SIM_SYNC void tcc_sim_wgmma_into(const char *name, i32 n, u32 *const *c, u32 *const *held, u64 a,
	u64 b, i32 keep, i32 ma, i32 mb);
TCC_EXTERN_C TCC_SIM_SYNC void tcc_sim_wgmma_fence(void);
TCC_EXTERN_C TCC_SIM_SYNC void tcc_sim_wgmma_commit(void);
TCC_EXTERN_C TCC_SIM_SYNC void tcc_sim_wgmma_wait(i32 pending);

TCC_FN i32 tcc_tx(void) { return tcc_sim_tx(); }
TCC_FN i32 tcc_bx(void) { return tcc_sim_block(0); }
TCC_FN i32 tcc_by(void) { return tcc_sim_block(1); }
TCC_FN i32 tcc_bz(void) { return tcc_sim_block(2); }
TCC_FN i32 tcc_gx(void) { return tcc_sim_grid(0); }
TCC_FN i32 tcc_gy(void) { return tcc_sim_grid(1); }
TCC_FN i32 tcc_gz(void) { return tcc_sim_grid(2); }
/* What threads meet at are macros: a wrapper's call could be copied before it is inlined, and then
 * one barrier of the source would be two. */
#define tcc_barrier() tcc_sim_barrier()
#define tcc_warp_barrier() tcc_sim_warp_barrier()

#endif

TCC_FN i32 tcc_lane(void) { return tcc_tx() & (tcc_warp - 1); }

/* --- bit casts ----------------------------------------------------------------------------- */

#if TCC_DEV_NV
TCC_FN i32 tcc_as_i32(f32 x) { return __float_as_int(x); }
TCC_FN f32 tcc_as_f32(i32 x) { return __int_as_float(x); }
TCC_FN i64 tcc_as_i64(f64 x) { return __double_as_longlong(x); }
TCC_FN f64 tcc_as_f64(i64 x) { return __longlong_as_double(x); }
#else
#define TCC_BITCAST(name, to, from) \
	TCC_FN to name(from x) { union { from f; to t; } u; u.f = x; return u.t; }
TCC_BITCAST(tcc_as_i32, i32, f32)
TCC_BITCAST(tcc_as_f32, f32, i32)
TCC_BITCAST(tcc_as_i64, i64, f64)
TCC_BITCAST(tcc_as_f64, f64, i64)
#undef TCC_BITCAST
#endif

/* --- floating point ------------------------------------------------------------------------ */

#if TCC_DEV_NV

TCC_FN f32 tcc_fma_f32(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
TCC_FN f64 tcc_fma_f64(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }
TCC_FN f32 tcc_div_f32(f32 a, f32 b) { return __fdiv_rn(a, b); }
TCC_FN f64 tcc_div_f64(f64 a, f64 b) { return __ddiv_rn(a, b); }
TCC_FN f32 tcc_sqrt_f32(f32 a) { return __fsqrt_rn(a); }
TCC_FN f64 tcc_sqrt_f64(f64 a) { return __dsqrt_rn(a); }
/* 2^a within 2^-22 of itself */
TCC_FN f32 tcc_ex2_f32(f32 a)
{
	f32 r;

	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
	return r;
}
TCC_FN f32 tcc_floor_f32(f32 a) { return floorf(a); }
TCC_FN f64 tcc_floor_f64(f64 a) { return floor(a); }
TCC_FN f32 tcc_ceil_f32(f32 a) { return ceilf(a); }
TCC_FN f64 tcc_ceil_f64(f64 a) { return ceil(a); }
TCC_FN f32 tcc_trunc_f32(f32 a) { return truncf(a); }
TCC_FN f64 tcc_trunc_f64(f64 a) { return trunc(a); }
TCC_FN f32 tcc_rint_f32(f32 a) { return rintf(a); }
TCC_FN f64 tcc_rint_f64(f64 a) { return rint(a); }
TCC_FN f32 tcc_abs_f32(f32 a) { return fabsf(a); }
TCC_FN f64 tcc_abs_f64(f64 a) { return fabs(a); }
TCC_FN f32 tcc_copysign_f32(f32 a, f32 s) { return copysignf(a, s); }
TCC_FN f64 tcc_copysign_f64(f64 a, f64 s) { return copysign(a, s); }
TCC_FN f32 tcc_fmod_f32(f32 a, f32 b) { return fmodf(a, b); }
TCC_FN f64 tcc_fmod_f64(f64 a, f64 b) { return fmod(a, b); }

/* IEEE 754-2019 minimum and maximum: NaN wins, -0 < +0 (which PTX min and max obey). */
#if __CUDA_ARCH__ >= 800
TCC_FN f32 tcc_min_f32(f32 a, f32 b)
{
	f32 r;
	asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
	return r;
}
TCC_FN f32 tcc_max_f32(f32 a, f32 b)
{
	f32 r;
	asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
	return r;
}
#else
TCC_FN f32 tcc_min_f32(f32 a, f32 b) { return a != a || b != b ? a + b : fminf(a, b); }
TCC_FN f32 tcc_max_f32(f32 a, f32 b) { return a != a || b != b ? a + b : fmaxf(a, b); }
#endif
TCC_FN f64 tcc_min_f64(f64 a, f64 b) { return a != a || b != b ? a + b : fmin(a, b); }
TCC_FN f64 tcc_max_f64(f64 a, f64 b) { return a != a || b != b ? a + b : fmax(a, b); }

#else

TCC_FN f32 tcc_fma_f32(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
TCC_FN f64 tcc_fma_f64(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
TCC_FN f32 tcc_div_f32(f32 a, f32 b) { return a / b; }
TCC_FN f64 tcc_div_f64(f64 a, f64 b) { return a / b; }
TCC_FN f32 tcc_sqrt_f32(f32 a) { return __builtin_elementwise_sqrt(a); }
TCC_FN f64 tcc_sqrt_f64(f64 a) { return __builtin_elementwise_sqrt(a); }
#if TCC_DEV_SIM
TCC_FN f32 tcc_ex2_f32(f32 a) { return a < -126 ? 0 : __builtin_exp2f(a); }
#else
TCC_FN f32 tcc_ex2_f32(f32 a) { return __builtin_amdgcn_exp2f(a); }
#endif
TCC_FN f32 tcc_floor_f32(f32 a) { return __builtin_floorf(a); }
TCC_FN f64 tcc_floor_f64(f64 a) { return __builtin_floor(a); }
TCC_FN f32 tcc_ceil_f32(f32 a) { return __builtin_ceilf(a); }
TCC_FN f64 tcc_ceil_f64(f64 a) { return __builtin_ceil(a); }
TCC_FN f32 tcc_trunc_f32(f32 a) { return __builtin_truncf(a); }
TCC_FN f64 tcc_trunc_f64(f64 a) { return __builtin_trunc(a); }
TCC_FN f32 tcc_rint_f32(f32 a) { return __builtin_rintf(a); }
TCC_FN f64 tcc_rint_f64(f64 a) { return __builtin_rint(a); }
TCC_FN f32 tcc_abs_f32(f32 a) { return __builtin_fabsf(a); }
TCC_FN f64 tcc_abs_f64(f64 a) { return __builtin_fabs(a); }
TCC_FN f32 tcc_copysign_f32(f32 a, f32 s) { return __builtin_copysignf(a, s); }
TCC_FN f64 tcc_copysign_f64(f64 a, f64 s) { return __builtin_copysign(a, s); }
TCC_FN f32 tcc_min_f32(f32 a, f32 b) { return __builtin_elementwise_minimum(a, b); }
TCC_FN f64 tcc_min_f64(f64 a, f64 b) { return __builtin_elementwise_minimum(a, b); }
TCC_FN f32 tcc_max_f32(f32 a, f32 b) { return __builtin_elementwise_maximum(a, b); }
TCC_FN f64 tcc_max_f64(f64 a, f64 b) { return __builtin_elementwise_maximum(a, b); }

/* fmod by long division on the significands, exact as C's: one bit of the quotient a step. */
#define TCC_FMOD(name, flt, uint, as_int, as_flt, mant, emax) \
TCC_FN flt name(flt a, flt b) \
{ \
	const uint one = 1, sign = one << (sizeof(uint) * 8 - 1), frac = (one << mant) - 1; \
	uint x = (uint)as_int(a) & ~sign, y = (uint)as_int(b) & ~sign, s = (uint)as_int(a) & sign; \
	if (y == 0 || x >= ((uint)emax << mant) || y > ((uint)emax << mant)) \
		return (a * b) / (a * b); \
	if (x < y) \
		return a; \
	i32 ex = (i32)(x >> mant), ey = (i32)(y >> mant); \
	x = ex ? (x & frac) | (frac + 1) : x; \
	y = ey ? (y & frac) | (frac + 1) : y; \
	for (ex += !ex; x <= frac; ex--) \
		x <<= 1; \
	for (ey += !ey; y <= frac; ey--) \
		y <<= 1; \
	for (; ex > ey; ex--) { \
		if (x >= y) \
			x -= y; \
		x <<= 1; \
	} \
	if (x >= y) \
		x -= y; \
	if (x == 0) \
		return as_flt(s); \
	for (; x <= frac; ex--) \
		x <<= 1; \
	x = ex > 0 ? (x & frac) | ((uint)ex << mant) : x >> (1 - ex); \
	return as_flt(s | x); \
}
TCC_FMOD(tcc_fmod_f32, f32, u32, tcc_as_i32, tcc_as_f32, 23, 255)
TCC_FMOD(tcc_fmod_f64, f64, u64, tcc_as_i64, tcc_as_f64, 52, 2047)
#undef TCC_FMOD

#endif

/* --- half types: round to nearest even ----------------------------------------------------- */

#if TCC_DEV_NV

TCC_FN f32 tcc_f16_to_f32(f16 h)
{
	f32 r;
	asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h));
	return r;
}
TCC_FN f16 tcc_f32_to_f16(f32 x)
{
	f16 r;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
	return r;
}

#elif TCC_DEV_AMD

TCC_FN f32 tcc_f16_to_f32(f16 h) { return (f32)__builtin_bit_cast(_Float16, h); }
TCC_FN f16 tcc_f32_to_f16(f32 x) { return __builtin_bit_cast(f16, (_Float16)x); }

#else

TCC_FN f32 tcc_f16_to_f32(f16 h)
{
	u32 s = (u32)(h & 0x8000) << 16, x = h & 0x7fff;
	f32 sub = (f32)x * 0x1p-24f;

	if (x < 0x400)
		return tcc_as_f32((i32)(s | (u32)tcc_as_i32(sub)));
	return tcc_as_f32((i32)(s | ((x << 13) + (x >= 0x7c00 ? 0x70000000u : 0x38000000u))));
}
TCC_FN f16 tcc_f32_to_f16(f32 a)
{
	u32 bits = (u32)tcc_as_i32(a), s = bits >> 16 & 0x8000, x = bits & 0x7fffffff;

	if (x > 0x7f800000)
		return (f16)(s | 0x7e00 | (x >> 13 & 0x1ff));
	if (x >= 0x477ff000)
		return (f16)(s | 0x7c00);
	if (x < 0x38800000)     /* subnormal: adding 0.5 lets the hardware round at 2^-24 */
		return (f16)(s | (((u32)tcc_as_i32(tcc_as_f32((i32)x) + 0.5f)) - 0x3f000000));
	return (f16)(s | ((x - 0x38000000 + 0xfff + (x >> 13 & 1)) >> 13));
}

#endif

/* Sums and products of halves: one rounding, the same as of the f32 result. */
#if TCC_DEV_NV
#define TCC_HALF_OP(op, sign) \
TCC_FN f16 tcc_##op##_f16(f16 a, f16 b) \
{ \
	f16 r; \
	asm(#op ".rn.f16 %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b)); \
	return r; \
}
#elif TCC_DEV_AMD
#define TCC_HALF_OP(op, sign) \
TCC_FN f16 tcc_##op##_f16(f16 a, f16 b) \
{ \
	return __builtin_bit_cast(f16, \
		(_Float16)(__builtin_bit_cast(_Float16, a) sign __builtin_bit_cast(_Float16, b))); \
}
#else
#define TCC_HALF_OP(op, sign) \
TCC_FN f16 tcc_##op##_f16(f16 a, f16 b) { return tcc_f32_to_f16(tcc_f16_to_f32(a) sign tcc_f16_to_f32(b)); }
#endif
TCC_HALF_OP(add, +)
TCC_HALF_OP(sub, -)
TCC_HALF_OP(mul, *)
#undef TCC_HALF_OP

TCC_FN f32 tcc_bf16_to_f32(bf16 h) { return tcc_as_f32((i32)((u32)h << 16)); }
#if TCC_DEV_NV && __CUDA_ARCH__ >= 800
TCC_FN bf16 tcc_f32_to_bf16(f32 x)
{
	bf16 r;
	asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
	return r;
}
#else
TCC_FN bf16 tcc_f32_to_bf16(f32 a)
{
	u32 x = (u32)tcc_as_i32(a);

	if (a != a)
		return (bf16)(x >> 16 | 0x40);
	return (bf16)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}
#endif

/* f64 to f32 rounded to odd: a second rounding to a half type then gives the nearest. */
TCC_FN f32 tcc_f64_to_f32_odd(f64 a)
{
	f32 r = (f32)a;
	i32 x = tcc_as_i32(r);

	if ((f64)r == a || a != a || x & 1)
		return r;
	return tcc_as_f32(x + (tcc_abs_f64((f64)r) > tcc_abs_f64(a) ? -1 : 1));
}
TCC_FN f16 tcc_f64_to_f16(f64 a) { return tcc_f32_to_f16(tcc_f64_to_f32_odd(a)); }
TCC_FN bf16 tcc_f64_to_bf16(f64 a) { return tcc_f32_to_bf16(tcc_f64_to_f32_odd(a)); }

/* --- integers ------------------------------------------------------------------------------ */

/* x / 0 is 0, x % 0 is 0, MIN / -1 is MIN, MIN % -1 is 0: the same on every target, no trap. */
#define TCC_DIVS(sfx, T, U) \
TCC_FN T tcc_div_##sfx(T a, T b) \
{ \
	return b == 0 ? 0 : b == -1 ? (T)(0 - (U)a) : a / b; \
} \
TCC_FN T tcc_rem_##sfx(T a, T b) { return b == 0 || b == -1 ? 0 : a % b; }
#define TCC_DIVU(sfx, T) \
TCC_FN T tcc_div_##sfx(T a, T b) { return b == 0 ? 0 : a / b; } \
TCC_FN T tcc_rem_##sfx(T a, T b) { return b == 0 ? 0 : a % b; }
TCC_DIVS(i32, i32, u32)
TCC_DIVS(i64, i64, u64)
TCC_DIVU(u32, u32)
TCC_DIVU(u64, u64)
#undef TCC_DIVS
#undef TCC_DIVU

/* Truncating, saturating conversions; NaN gives 0. hi is the first float above the range. */
#define TCC_SAT(from, to, lo, hi, min, max) \
TCC_FN to tcc_##from##_to_##to(from x) \
{ \
	return x != x ? 0 : x >= (from)hi ? max : x <= (from)lo ? min : (to)x; \
}
#define TCC_SATS(from) \
TCC_SAT(from, i8, -129, 128, -128, 127) \
TCC_SAT(from, u8, -1, 256, 0, 255) \
TCC_SAT(from, i16, -32769, 32768, -32768, 32767) \
TCC_SAT(from, u16, -1, 65536, 0, 65535) \
TCC_SAT(from, i32, -2147483648.0, 2147483648.0, -2147483647 - 1, 2147483647) \
TCC_SAT(from, u32, -1, 4294967296.0, 0, 4294967295u) \
TCC_SAT(from, i64, -9223372036854775808.0, 9223372036854775808.0, \
	-9223372036854775807ll - 1, 9223372036854775807ll) \
TCC_SAT(from, u64, -1, 18446744073709551616.0, 0, 18446744073709551615ull)
TCC_SATS(f32)
TCC_SATS(f64)
#undef TCC_SATS
#undef TCC_SAT

#if TCC_DEV_NV
TCC_FN i32 tcc_popc_u32(u32 x) { return __popc(x); }
TCC_FN i32 tcc_popc_u64(u64 x) { return __popcll(x); }
TCC_FN i32 tcc_clz_u32(u32 x) { return __clz((i32)x); }
TCC_FN i32 tcc_clz_u64(u64 x) { return __clzll((i64)x); }
TCC_FN u64 tcc_mulhi_u64(u64 a, u64 b) { return __umul64hi(a, b); }
TCC_FN i64 tcc_mulhi_i64(i64 a, i64 b) { return __mul64hi(a, b); }
#else
TCC_FN i32 tcc_popc_u32(u32 x) { return __builtin_popcount(x); }
TCC_FN i32 tcc_popc_u64(u64 x) { return __builtin_popcountll(x); }
TCC_FN i32 tcc_clz_u32(u32 x) { return x ? __builtin_clz(x) : 32; }
TCC_FN i32 tcc_clz_u64(u64 x) { return x ? __builtin_clzll(x) : 64; }
TCC_FN u64 tcc_mulhi_u64(u64 a, u64 b) { return (u64)((unsigned __int128)a * b >> 64); }
TCC_FN i64 tcc_mulhi_i64(i64 a, i64 b) { return (i64)((__int128)a * b >> 64); }
#endif
TCC_FN u32 tcc_mulhi_u32(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
TCC_FN i32 tcc_mulhi_i32(i32 a, i32 b) { return (i32)((i64)a * b >> 32); }

/* --- vectors: memory access of 8 or 16 bytes, aligned to their size ------------------------ */

#if TCC_DEV_NV
typedef float2 f32x2;
typedef float4 f32x4;
typedef double2 f64x2;
typedef int2 i32x2;
typedef int4 i32x4;
typedef longlong2 i64x2;
#else
#define TCC_VEC(name, type, n) \
	typedef type name __attribute__((ext_vector_type(n), may_alias))
TCC_VEC(f32x2, f32, 2);
TCC_VEC(f32x4, f32, 4);
TCC_VEC(f64x2, f64, 2);
TCC_VEC(i32x2, i32, 2);
TCC_VEC(i32x4, i32, 4);
TCC_VEC(i64x2, i64, 2);
#undef TCC_VEC
#endif
/* Packed small elements travel as words; tcc_word, tcc_u8_at and tcc_u16_at take them apart. */
typedef i32x4 u8x16, i8x16, f16x8, bf16x8, i16x8;
typedef i32x2 u8x8, i8x8, f16x4, bf16x4, i16x4;

#define TCC_LDST(vec) \
TCC_FN vec tcc_ld_##vec(const void *p) { return *(const vec *)p; } \
TCC_FN void tcc_st_##vec(void *p, vec v) { *(vec *)p = v; }
TCC_LDST(f32x2)
TCC_LDST(f32x4)
TCC_LDST(f64x2)
TCC_LDST(i32x2)
TCC_LDST(i32x4)
TCC_LDST(i64x2)
#undef TCC_LDST

#define TCC_MAKE2(vec, T) \
TCC_FN vec tcc_##vec(T x, T y) { vec v; v.x = x; v.y = y; return v; }
#define TCC_MAKE4(vec, T) \
TCC_FN vec tcc_##vec(T x, T y, T z, T w) \
{ \
	vec v; \
	v.x = x; \
	v.y = y; \
	v.z = z; \
	v.w = w; \
	return v; \
}
TCC_MAKE2(f32x2, f32)
TCC_MAKE2(f64x2, f64)
TCC_MAKE2(i32x2, i32)
TCC_MAKE2(i64x2, i64)
TCC_MAKE4(f32x4, f32)
TCC_MAKE4(i32x4, i32)
#undef TCC_MAKE2
#undef TCC_MAKE4

TCC_FN u32 tcc_word(i32x4 v, i32 i)
{
	return (u32)(i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w);
}
TCC_FN u8 tcc_u8_at(i32x4 v, i32 i) { return (u8)(tcc_word(v, i >> 2) >> (i & 3) * 8); }
TCC_FN c128 tcc_c128_zero(void) { c128 z = {0, 0}; return z; }
TCC_FN u16 tcc_u16_at(i32x4 v, i32 i) { return (u16)(tcc_word(v, i >> 1) >> (i & 1) * 16); }
TCC_FN i32 tcc_pack_u16(u16 lo, u16 hi) { return (i32)((u32)lo | (u32)hi << 16); }
TCC_FN i32 tcc_pack_u8(u8 a, u8 b, u8 c, u8 d)
{
	return (i32)((u32)a | (u32)b << 8 | (u32)c << 16 | (u32)d << 24);
}

/* --- shuffles: the value of lane ^ mask (mask < tcc_warp), or of a named lane -------------- */

/* An exchange with mask < n stays inside aligned groups of n lanes, so loops over mask =
 * n/2 ... 1 reduce each such sub-warp on its own. All lanes of the warp take part. */
#if TCC_DEV_NV

TCC_FN i32 tcc_shfl_xor_i32(i32 v, i32 mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
TCC_FN i64 tcc_shfl_xor_i64(i64 v, i32 mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
TCC_FN i32 tcc_shfl_i32(i32 v, i32 lane) { return __shfl_sync(0xffffffffu, v, lane); }
TCC_FN i64 tcc_shfl_i64(i64 v, i32 lane) { return __shfl_sync(0xffffffffu, v, lane); }

#elif TCC_DEV_AMD

TCC_FN i32 tcc_shfl_i32(i32 v, i32 lane) { return __builtin_amdgcn_ds_bpermute(lane << 2, v); }
TCC_FN i32 tcc_shfl_xor_i32(i32 v, i32 mask)
{
	switch (mask) { /* constants avoid the address computation; 1 and 2 need no LDS */
	case 1: return __builtin_amdgcn_mov_dpp(v, 0xb1, 0xf, 0xf, 1);
	case 2: return __builtin_amdgcn_mov_dpp(v, 0x4e, 0xf, 0xf, 1);
	case 4: return __builtin_amdgcn_ds_swizzle(v, 4 << 10 | 0x1f);
	case 8: return __builtin_amdgcn_ds_swizzle(v, 8 << 10 | 0x1f);
	case 16: return __builtin_amdgcn_ds_swizzle(v, 16 << 10 | 0x1f);
	}
	return tcc_shfl_i32(v, tcc_lane() ^ mask);
}
#define TCC_SHFL64(name) \
TCC_FN i64 name##_i64(i64 v, i32 arg) \
{ \
	u32 lo = (u32)name##_i32((i32)v, arg), hi = (u32)name##_i32((i32)(v >> 32), arg); \
	return (i64)((u64)hi << 32 | lo); \
}
TCC_SHFL64(tcc_shfl)
TCC_SHFL64(tcc_shfl_xor)
#undef TCC_SHFL64

#else

#define tcc_shfl_xor_i32(v, mask) ((i32)tcc_sim_shfl_xor((u32)(v), mask))
#define tcc_shfl_xor_i64(v, mask) ((i64)tcc_sim_shfl_xor((u64)(v), mask))
#define tcc_shfl_i32(v, lane) ((i32)tcc_sim_shfl((u32)(v), lane))
#define tcc_shfl_i64(v, lane) ((i64)tcc_sim_shfl((u64)(v), lane))
#define tcc_shfl_xor_f32(v, mask) tcc_as_f32(tcc_shfl_xor_i32(tcc_as_i32(v), mask))
#define tcc_shfl_xor_f64(v, mask) tcc_as_f64(tcc_shfl_xor_i64(tcc_as_i64(v), mask))
#define tcc_shfl_f32(v, lane) tcc_as_f32(tcc_shfl_i32(tcc_as_i32(v), lane))
#define tcc_shfl_f64(v, lane) tcc_as_f64(tcc_shfl_i64(tcc_as_i64(v), lane))

#endif

#if !TCC_DEV_SIM
TCC_FN f32 tcc_shfl_xor_f32(f32 v, i32 mask)
{
	return tcc_as_f32(tcc_shfl_xor_i32(tcc_as_i32(v), mask));
}
TCC_FN f64 tcc_shfl_xor_f64(f64 v, i32 mask)
{
	return tcc_as_f64(tcc_shfl_xor_i64(tcc_as_i64(v), mask));
}
TCC_FN f32 tcc_shfl_f32(f32 v, i32 lane) { return tcc_as_f32(tcc_shfl_i32(tcc_as_i32(v), lane)); }
TCC_FN f64 tcc_shfl_f64(f64 v, i32 lane) { return tcc_as_f64(tcc_shfl_i64(tcc_as_i64(v), lane)); }
#endif

/* --- atomics: relaxed, device scope; each returns the value before ------------------------- */

#if TCC_DEV_NV
TCC_FN i32 tcc_cas_i32(i32 *p, i32 old, i32 val) { return atomicCAS(p, old, val); }
TCC_FN i64 tcc_cas_i64(i64 *p, i64 old, i64 val)
{
	return (i64)atomicCAS((u64 *)p, (u64)old, (u64)val);
}
TCC_FN i32 tcc_atomic_add_i32(i32 *p, i32 v) { return atomicAdd(p, v); }
TCC_FN i64 tcc_atomic_add_i64(i64 *p, i64 v) { return (i64)atomicAdd((u64 *)p, (u64)v); }
TCC_FN f32 tcc_atomic_add_f32(f32 *p, f32 v) { return atomicAdd(p, v); }
TCC_FN f64 tcc_atomic_add_f64(f64 *p, f64 v) { return atomicAdd(p, v); }
TCC_FN i32 tcc_atomic_min_i32(i32 *p, i32 v) { return atomicMin(p, v); }
TCC_FN i32 tcc_atomic_max_i32(i32 *p, i32 v) { return atomicMax(p, v); }
TCC_FN i64 tcc_atomic_min_i64(i64 *p, i64 v) { return atomicMin(p, v); }
TCC_FN i64 tcc_atomic_max_i64(i64 *p, i64 v) { return atomicMax(p, v); }
TCC_FN i32 tcc_atomic_or_i32(i32 *p, i32 v) { return atomicOr(p, v); }
#else
#if TCC_DEV_AMD
#define TCC_AT(op, p, v) \
	__hip_atomic_fetch_##op(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define TCC_CAS(p, old, v) __hip_atomic_compare_exchange_strong(p, old, v, \
	__ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#else
#define TCC_AT(op, p, v) __atomic_fetch_##op(p, v, __ATOMIC_RELAXED)
#define TCC_CAS(p, old, v) \
	__atomic_compare_exchange_n(p, old, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#endif
TCC_FN i32 tcc_cas_i32(i32 *p, i32 old, i32 v) { TCC_CAS(p, &old, v); return old; }
TCC_FN i64 tcc_cas_i64(i64 *p, i64 old, i64 v) { TCC_CAS(p, &old, v); return old; }
TCC_FN i32 tcc_atomic_add_i32(i32 *p, i32 v) { return TCC_AT(add, p, v); }
TCC_FN i64 tcc_atomic_add_i64(i64 *p, i64 v) { return TCC_AT(add, p, v); }
TCC_FN i32 tcc_atomic_or_i32(i32 *p, i32 v) { return TCC_AT(or, p, v); }
#if TCC_DEV_AMD
TCC_FN i32 tcc_atomic_min_i32(i32 *p, i32 v) { return TCC_AT(min, p, v); }
TCC_FN i32 tcc_atomic_max_i32(i32 *p, i32 v) { return TCC_AT(max, p, v); }
TCC_FN i64 tcc_atomic_min_i64(i64 *p, i64 v) { return TCC_AT(min, p, v); }
TCC_FN i64 tcc_atomic_max_i64(i64 *p, i64 v) { return TCC_AT(max, p, v); }
#endif
#undef TCC_AT
#undef TCC_CAS
#endif

/* What the hardware lacks, or gives with other NaN rules: a compare-and-swap loop. It starts
 * from a guess, not from a read, so that every access to the word is atomic. */
#define TCC_CASLOOP(name, T, I, as_int, as_flt, expr) \
TCC_FN T tcc_atomic_##name(T *p, T v) \
{ \
	I seen = 0, old; \
	do { \
		T x = as_flt(seen); \
		old = seen; \
		seen = tcc_cas_##I((I *)p, old, as_int(expr)); \
	} while (seen != old); \
	return as_flt(seen); \
}
#define TCC_SAME(x) (x)
#if TCC_DEV_SIM /* an atomic minimum would pass by the simulator unseen: no hook exists for it */
TCC_CASLOOP(min_i32, i32, i32, TCC_SAME, TCC_SAME, x < v ? x : v)
TCC_CASLOOP(max_i32, i32, i32, TCC_SAME, TCC_SAME, x > v ? x : v)
TCC_CASLOOP(min_i64, i64, i64, TCC_SAME, TCC_SAME, x < v ? x : v)
TCC_CASLOOP(max_i64, i64, i64, TCC_SAME, TCC_SAME, x > v ? x : v)
#endif
TCC_CASLOOP(min_f32, f32, i32, tcc_as_i32, tcc_as_f32, tcc_min_f32(x, v))
TCC_CASLOOP(max_f32, f32, i32, tcc_as_i32, tcc_as_f32, tcc_max_f32(x, v))
TCC_CASLOOP(mul_f32, f32, i32, tcc_as_i32, tcc_as_f32, x * v)
TCC_CASLOOP(min_f64, f64, i64, tcc_as_i64, tcc_as_f64, tcc_min_f64(x, v))
TCC_CASLOOP(max_f64, f64, i64, tcc_as_i64, tcc_as_f64, tcc_max_f64(x, v))
TCC_CASLOOP(mul_f64, f64, i64, tcc_as_i64, tcc_as_f64, x * v)
TCC_CASLOOP(mul_i32, i32, i32, TCC_SAME, TCC_SAME, (i32)((u32)x * (u32)v))
TCC_CASLOOP(mul_i64, i64, i64, TCC_SAME, TCC_SAME, (i64)((u64)x * (u64)v))
#if !TCC_DEV_NV
TCC_CASLOOP(add_f32, f32, i32, tcc_as_i32, tcc_as_f32, x + v)
TCC_CASLOOP(add_f64, f64, i64, tcc_as_i64, tcc_as_f64, x + v)
#endif
#undef TCC_SAME
#undef TCC_CASLOOP

/* --- asynchronous copies, global to shared ------------------------------------------------- */

/* tcc_cp_wait(n) returns when at most n committed groups of this thread are unfinished, n a
 * constant; then a barrier shows the data to the block. Where keep is 0, zeros are written and
 * the source is not read. Copies are aligned to their size, of 16, 8 or 4 bytes. */
#if TCC_DEV_NV
TCC_FN u32 tcc_shared_addr(const void *p)
{
	u32 a;
	asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(a) : "l"(p));
	return a;
}
#endif
#if TCC_DEV_NV && __CUDA_ARCH__ >= 800
TCC_FN void tcc_cp_async16_if(void *dst, const void *src, i32 keep)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(tcc_shared_addr(dst)),
		"l"(src), "r"(keep ? 16 : 0) : "memory");
}
TCC_FN void tcc_cp_async8_if(void *dst, const void *src, i32 keep)
{
	asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" :: "r"(tcc_shared_addr(dst)),
		"l"(src), "r"(keep ? 8 : 0) : "memory");
}
TCC_FN void tcc_cp_async4_if(void *dst, const void *src, i32 keep)
{
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(tcc_shared_addr(dst)),
		"l"(src), "r"(keep ? 4 : 0) : "memory");
}
TCC_FN void tcc_cp_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
#define TCC_CP_WAIT(n) case n: asm volatile("cp.async.wait_group " #n ";" ::: "memory"); break;
TCC_FN void tcc_cp_wait(i32 n)
{
	switch (n) {
	TCC_CP_WAIT(1) TCC_CP_WAIT(2) TCC_CP_WAIT(3) TCC_CP_WAIT(4) TCC_CP_WAIT(5) TCC_CP_WAIT(6)
	default: asm volatile("cp.async.wait_all;" ::: "memory");
	}
}
#undef TCC_CP_WAIT
#elif TCC_DEV_SIM
TCC_FN void tcc_cp_async16_if(void *dst, const void *src, i32 keep)
{
	tcc_sim_cp_async(dst, src, 16, keep);
}
TCC_FN void tcc_cp_async8_if(void *dst, const void *src, i32 keep)
{
	tcc_sim_cp_async(dst, src, 8, keep);
}
TCC_FN void tcc_cp_async4_if(void *dst, const void *src, i32 keep)
{
	tcc_sim_cp_async(dst, src, 4, keep);
}
TCC_FN void tcc_cp_commit(void) { tcc_sim_cp_commit(); }
TCC_FN void tcc_cp_wait(i32 n) { tcc_sim_cp_wait(n); }
#else
TCC_FN void tcc_cp_async16_if(void *dst, const void *src, i32 keep)
{
	i32x4 v = tcc_i32x4(0, 0, 0, 0);

	if (keep)
		v = tcc_ld_i32x4(src);
	tcc_st_i32x4(dst, v);
}
TCC_FN void tcc_cp_async8_if(void *dst, const void *src, i32 keep)
{
	i32x2 v = tcc_i32x2(0, 0);

	if (keep)
		v = tcc_ld_i32x2(src);
	tcc_st_i32x2(dst, v);
}
TCC_FN void tcc_cp_async4_if(void *dst, const void *src, i32 keep)
{
	*(i32 *)dst = keep ? *(const i32 *)src : 0;
}
TCC_FN void tcc_cp_commit(void) {}
TCC_FN void tcc_cp_wait(i32 n) { (void)n; }
#endif
TCC_FN void tcc_cp_async16(void *dst, const void *src) { tcc_cp_async16_if(dst, src, 1); }
TCC_FN void tcc_cp_async8(void *dst, const void *src) { tcc_cp_async8_if(dst, src, 1); }
TCC_FN void tcc_cp_async4(void *dst, const void *src) { tcc_cp_async4_if(dst, src, 1); }

/* --- words between a thread's registers and memory, aligned to their size ------------------- */

#define TCC_WORDS(n, vec, get, make) \
TCC_FN void tcc_load_w##n(u32 *r, const void *p) { const vec v = *(const vec *)p; get } \
TCC_FN void tcc_load_w##n##_if(u32 *r, const void *p, i32 keep) \
{ \
	for (i32 i = 0; i < n; i++) \
		r[i] = 0; \
	if (keep) \
		tcc_load_w##n(r, p); \
} \
TCC_FN void tcc_store_w##n(void *p, const u32 *r) { *(vec *)p = make; }
TCC_WORDS(1, i32, r[0] = (u32)v;, (i32)r[0])
TCC_WORDS(2, i32x2, r[0] = (u32)v.x; r[1] = (u32)v.y;, tcc_i32x2((i32)r[0], (i32)r[1]))
TCC_WORDS(4, i32x4, r[0] = (u32)v.x; r[1] = (u32)v.y; r[2] = (u32)v.z; r[3] = (u32)v.w;,
	tcc_i32x4((i32)r[0], (i32)r[1], (i32)r[2], (i32)r[3]))
#undef TCC_WORDS

/* --- matrix units --------------------------------------------------------------------------- */

/* tcc_mma_NAME(c, a, b): C += A B by a warp; ir/mma.def says of each name the sizes, the types and
 * where a lane's elements lie. a and b are words, c is f32 or i32.
 * tcc_ldmatrix_x4 (NVIDIA): lane l names the 16-byte row l%8 of 8x8 matrix l/8, in shared memory. */
#if TCC_DEV_NV

#define TCC_MMA_A4_B2(name, acc, con, op) \
TCC_FN void tcc_mma_##name(acc *c, const u32 *a, const u32 *b) \
{ \
	asm volatile("mma.sync.aligned." op " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
		: "+" con(c[0]), "+" con(c[1]), "+" con(c[2]), "+" con(c[3]) \
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
}
#define TCC_MMA_A1_B1(name, op) \
TCC_FN void tcc_mma_##name(i32 *c, const u32 *a, const u32 *b) \
{ \
	asm volatile("mma.sync.aligned." op " {%0,%1}, {%2}, {%3}, {%0,%1};" \
		: "+r"(c[0]), "+r"(c[1]) : "r"(a[0]), "r"(b[0])); \
}
TCC_FN void tcc_mma_m16n8k8_f16(f32 *c, const u32 *a, const u32 *b)
{
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
		"{%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}
TCC_MMA_A1_B1(m8n8k16_s8, "m8n8k16.row.col.s32.s8.s8.s32")
TCC_MMA_A1_B1(m8n8k16_u8, "m8n8k16.row.col.s32.u8.u8.s32")
TCC_MMA_A1_B1(m8n8k16_u8s8, "m8n8k16.row.col.s32.u8.s8.s32")
TCC_MMA_A1_B1(m8n8k16_s8u8, "m8n8k16.row.col.s32.s8.u8.s32")
#if __CUDA_ARCH__ >= 800
TCC_MMA_A4_B2(m16n8k16_f16, f32, "f", "m16n8k16.row.col.f32.f16.f16.f32")
TCC_MMA_A4_B2(m16n8k16_bf16, f32, "f", "m16n8k16.row.col.f32.bf16.bf16.f32")
TCC_MMA_A4_B2(m16n8k8_tf32, f32, "f", "m16n8k8.row.col.f32.tf32.tf32.f32")
TCC_MMA_A4_B2(m16n8k32_s8, i32, "r", "m16n8k32.row.col.s32.s8.s8.s32")
TCC_MMA_A4_B2(m16n8k32_u8, i32, "r", "m16n8k32.row.col.s32.u8.u8.s32")
TCC_MMA_A4_B2(m16n8k32_u8s8, i32, "r", "m16n8k32.row.col.s32.u8.s8.s32")
TCC_MMA_A4_B2(m16n8k32_s8u8, i32, "r", "m16n8k32.row.col.s32.s8.u8.s32")
#else
TCC_FN void tcc_mma_m16n8k16_f16(f32 *c, const u32 *a, const u32 *b)
{
	tcc_mma_m16n8k8_f16(c, a, b);
	tcc_mma_m16n8k8_f16(c, a + 2, b + 1);
}
#endif
#undef TCC_MMA_A4_B2
#undef TCC_MMA_A1_B1
#define TCC_LDMATRIX(name, trans) \
TCC_FN void name(u32 *r, const void *row) \
{ \
	asm volatile("ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0,%1,%2,%3}, [%4];" \
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) \
		: "r"(tcc_shared_addr(row)) : "memory"); \
}
TCC_LDMATRIX(tcc_ldmatrix_x4, "")
TCC_LDMATRIX(tcc_ldmatrix_x4_trans, ".trans")
#undef TCC_LDMATRIX

#elif TCC_DEV_AMD

typedef _Float16 tcc_h4 __attribute__((ext_vector_type(4)));
typedef _Float16 tcc_h8 __attribute__((ext_vector_type(8)));
typedef _Float16 tcc_h16 __attribute__((ext_vector_type(16)));
typedef short tcc_s4 __attribute__((ext_vector_type(4)));
typedef short tcc_s8 __attribute__((ext_vector_type(8)));
typedef short tcc_s16 __attribute__((ext_vector_type(16)));
typedef __bf16 tcc_b8 __attribute__((ext_vector_type(8)));
typedef i32 tcc_i2 __attribute__((ext_vector_type(2)));
typedef i32 tcc_i4 __attribute__((ext_vector_type(4)));
typedef i32 tcc_i8 __attribute__((ext_vector_type(8)));
typedef f32 tcc_f4 __attribute__((ext_vector_type(4)));
typedef f32 tcc_f8 __attribute__((ext_vector_type(8)));

#define TCC_MMA(name, acc, cvec, op, expr) \
TCC_FN void tcc_mma_##name(acc *c, const u32 *a, const u32 *b) \
{ \
	op x, y; \
	cvec z; \
	__builtin_memcpy(&x, a, sizeof x); \
	__builtin_memcpy(&y, b, sizeof y); \
	__builtin_memcpy(&z, c, sizeof z); \
	z = expr; \
	__builtin_memcpy(c, &z, sizeof z); \
}
#if defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
TCC_MMA(mfma_16x16x16_f16, f32, tcc_f4, tcc_h4, __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, z, 0, 0, 0))
TCC_MMA(mfma_16x16x16_bf16, f32, tcc_f4, tcc_s4,
	__builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, z, 0, 0, 0))
#endif
#if defined(__gfx90a__)
TCC_MMA(mfma_16x16x16_i8, i32, tcc_i4, i32, __builtin_amdgcn_mfma_i32_16x16x16i8(x, y, z, 0, 0, 0))
#endif
#if defined(__gfx942__) || defined(__gfx950__)
TCC_MMA(mfma_16x16x32_i8, i32, tcc_i4, long, __builtin_amdgcn_mfma_i32_16x16x32_i8(x, y, z, 0, 0, 0))
#endif
#if defined(__gfx950__)
TCC_MMA(mfma_16x16x32_f16, f32, tcc_f4, tcc_h8,
	__builtin_amdgcn_mfma_f32_16x16x32_f16(x, y, z, 0, 0, 0))
TCC_MMA(mfma_16x16x32_bf16, f32, tcc_f4, tcc_b8,
	__builtin_amdgcn_mfma_f32_16x16x32_bf16(x, y, z, 0, 0, 0))
TCC_MMA(mfma_16x16x64_i8, i32, tcc_i4, tcc_i4,
	__builtin_amdgcn_mfma_i32_16x16x64_i8(x, y, z, 0, 0, 0))
#endif
#if defined(__GFX11__)
TCC_MMA(wmma11_f16, f32, tcc_f8, tcc_h16, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, z))
TCC_MMA(wmma11_bf16, f32, tcc_f8, tcc_s16, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(x, y, z))
TCC_MMA(wmma11_i8, i32, tcc_i8, tcc_i4,
	__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(1, x, 1, y, z, 0))
TCC_MMA(wmma11_u8, i32, tcc_i8, tcc_i4,
	__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(0, x, 0, y, z, 0))
TCC_MMA(wmma11_u8i8, i32, tcc_i8, tcc_i4,
	__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(0, x, 1, y, z, 0))
TCC_MMA(wmma11_i8u8, i32, tcc_i8, tcc_i4,
	__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(1, x, 0, y, z, 0))
#endif
#if defined(__GFX12__)
TCC_MMA(wmma12_f16, f32, tcc_f8, tcc_h8, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, y, z))
TCC_MMA(wmma12_bf16, f32, tcc_f8, tcc_s8, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(x, y, z))
TCC_MMA(wmma12_i8, i32, tcc_i8, tcc_i2,
	__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(1, x, 1, y, z, 0))
TCC_MMA(wmma12_u8, i32, tcc_i8, tcc_i2,
	__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(0, x, 0, y, z, 0))
TCC_MMA(wmma12_u8i8, i32, tcc_i8, tcc_i2,
	__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(0, x, 1, y, z, 0))
TCC_MMA(wmma12_i8u8, i32, tcc_i8, tcc_i2,
	__builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(1, x, 0, y, z, 0))
#endif
#undef TCC_MMA

#else

#define tcc_mma_m16n8k16_f16(c, a, b) tcc_sim_mma("m16n8k16_f16", c, a, b)
#define tcc_mma_m16n8k16_bf16(c, a, b) tcc_sim_mma("m16n8k16_bf16", c, a, b)
#define tcc_mma_m16n8k8_tf32(c, a, b) tcc_sim_mma("m16n8k8_tf32", c, a, b)
#define tcc_mma_m16n8k32_s8(c, a, b) tcc_sim_mma("m16n8k32_s8", c, a, b)
#define tcc_mma_m16n8k32_u8(c, a, b) tcc_sim_mma("m16n8k32_u8", c, a, b)
#define tcc_mma_m16n8k8_f16(c, a, b) tcc_sim_mma("m16n8k8_f16", c, a, b)
#define tcc_mma_m8n8k16_s8(c, a, b) tcc_sim_mma("m8n8k16_s8", c, a, b)
#define tcc_mma_m8n8k16_u8(c, a, b) tcc_sim_mma("m8n8k16_u8", c, a, b)
#define tcc_mma_mfma_16x16x16_f16(c, a, b) tcc_sim_mma("mfma_16x16x16_f16", c, a, b)
#define tcc_mma_mfma_16x16x16_bf16(c, a, b) tcc_sim_mma("mfma_16x16x16_bf16", c, a, b)
#define tcc_mma_mfma_16x16x16_i8(c, a, b) tcc_sim_mma("mfma_16x16x16_i8", c, a, b)
#define tcc_mma_mfma_16x16x32_i8(c, a, b) tcc_sim_mma("mfma_16x16x32_i8", c, a, b)
#define tcc_mma_mfma_16x16x32_f16(c, a, b) tcc_sim_mma("mfma_16x16x32_f16", c, a, b)
#define tcc_mma_mfma_16x16x32_bf16(c, a, b) tcc_sim_mma("mfma_16x16x32_bf16", c, a, b)
#define tcc_mma_mfma_16x16x64_i8(c, a, b) tcc_sim_mma("mfma_16x16x64_i8", c, a, b)
#define tcc_mma_wmma11_f16(c, a, b) tcc_sim_mma("wmma11_f16", c, a, b)
#define tcc_mma_wmma11_bf16(c, a, b) tcc_sim_mma("wmma11_bf16", c, a, b)
#define tcc_mma_wmma11_i8(c, a, b) tcc_sim_mma("wmma11_i8", c, a, b)
#define tcc_mma_wmma11_u8(c, a, b) tcc_sim_mma("wmma11_u8", c, a, b)
#define tcc_mma_wmma12_f16(c, a, b) tcc_sim_mma("wmma12_f16", c, a, b)
#define tcc_mma_wmma12_bf16(c, a, b) tcc_sim_mma("wmma12_bf16", c, a, b)
#define tcc_mma_wmma12_i8(c, a, b) tcc_sim_mma("wmma12_i8", c, a, b)
#define tcc_mma_wmma12_u8(c, a, b) tcc_sim_mma("wmma12_u8", c, a, b)
#define tcc_mma_m16n8k32_u8s8(c, a, b) tcc_sim_mma("m16n8k32_u8s8", c, a, b)
#define tcc_mma_m16n8k32_s8u8(c, a, b) tcc_sim_mma("m16n8k32_s8u8", c, a, b)
#define tcc_mma_m8n8k16_u8s8(c, a, b) tcc_sim_mma("m8n8k16_u8s8", c, a, b)
#define tcc_mma_m8n8k16_s8u8(c, a, b) tcc_sim_mma("m8n8k16_s8u8", c, a, b)
#define tcc_mma_wmma11_u8i8(c, a, b) tcc_sim_mma("wmma11_u8i8", c, a, b)
#define tcc_mma_wmma11_i8u8(c, a, b) tcc_sim_mma("wmma11_i8u8", c, a, b)
#define tcc_mma_wmma12_u8i8(c, a, b) tcc_sim_mma("wmma12_u8i8", c, a, b)
#define tcc_mma_wmma12_i8u8(c, a, b) tcc_sim_mma("wmma12_i8u8", c, a, b)
#define tcc_ldmatrix_x4(r, row) tcc_sim_ldmatrix(r, row, 0)
#define tcc_ldmatrix_x4_trans(r, row) tcc_sim_ldmatrix(r, row, 1)

#endif

/* --- boxes and products of warp groups: sm_90 and up, sm_90a -------------------------------- */

/* ir/sync.def says what the functions of phases, groups and grids are for. Barriers are u64 in shared
 * memory. tcc_boxN(dst, map, bar, c...) copies the box at N coordinates, fastest first; tcc_gatherN
 * (im2col) has N - 2 offsets behind them. tcc_wgmma(type, n, majors, c, a, b): C += A B of 64 x n by four
 * warps, A and B tiles in shared memory that tcc_tile describes; each stored along the depth (k) or along
 * its own axis (m). A in registers (r): four words of halves, as tcc_mma's. */
#if TCC_DEV_SIM
typedef struct tcc_map_s { u64 w[16]; } tcc_map;
#else
typedef struct tcc_map_s { u64 w[16]; } __attribute__((aligned(64))) tcc_map;
#endif

#if TCC_DEV_NV && __CUDA_ARCH__ >= 900
#define TCC_MAP const __grid_constant__ tcc_map

TCC_FN void tcc_phase_init(u64 *bar, i32 arrivals)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(tcc_shared_addr(bar)), "r"(arrivals)
		: "memory");
}
TCC_FN void tcc_phase_fence(void) { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
TCC_FN void tcc_phase_expect(u64 *bar, i32 bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(tcc_shared_addr(bar)),
		"r"(bytes) : "memory");
}
TCC_FN void tcc_phase_arrive(u64 *bar)
{
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(tcc_shared_addr(bar)) : "memory");
}
TCC_FN void tcc_phase_wait(u64 *bar, i32 parity)
{
	u32 done;

	do {
		asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
			"selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(tcc_shared_addr(bar)), "r"(parity)
			: "memory");
	} while (!done);
}
TCC_FN void tcc_part_barrier(i32 which, i32 threads)
{
	asm volatile("bar.sync %0, %1;" :: "r"(which), "r"(threads) : "memory");
}
TCC_FN void tcc_memory_fence(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
TCC_FN void tcc_grid_wait(void) { asm volatile("griddepcontrol.wait;" ::: "memory"); }
TCC_FN void tcc_grid_launch(void) { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

#define TCC_BOX(n, params, list, ...) \
TCC_FN void tcc_box##n(void *dst, const tcc_map *map, u64 *bar, params) \
{ \
	asm volatile("cp.async.bulk.tensor." #n "d.shared::cluster.global.mbarrier::complete_tx::bytes " \
		"[%0], [%1, {" list "}], [%2];" :: "r"(tcc_shared_addr(dst)), "l"(map), \
		"r"(tcc_shared_addr(bar)), __VA_ARGS__ : "memory"); \
}
#define TCC_GATHER(n, params, list, ...) \
TCC_FN void tcc_gather##n(void *dst, const tcc_map *map, u64 *bar, params) \
{ \
	asm volatile("cp.async.bulk.tensor." #n "d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes " \
		"[%0], [%1, {" list ";" :: "r"(tcc_shared_addr(dst)), "l"(map), \
		"r"(tcc_shared_addr(bar)), __VA_ARGS__ : "memory"); \
}
#define TCC_LIST(...) __VA_ARGS__
TCC_BOX(1, i32 a, "%3", "r"(a))
TCC_BOX(2, TCC_LIST(i32 a, i32 b), "%3, %4", "r"(a), "r"(b))
TCC_BOX(3, TCC_LIST(i32 a, i32 b, i32 c), "%3, %4, %5", "r"(a), "r"(b), "r"(c))
TCC_BOX(4, TCC_LIST(i32 a, i32 b, i32 c, i32 d), "%3, %4, %5, %6", "r"(a), "r"(b), "r"(c), "r"(d))
TCC_BOX(5, TCC_LIST(i32 a, i32 b, i32 c, i32 d, i32 e), "%3, %4, %5, %6, %7", "r"(a), "r"(b), "r"(c),
	"r"(d), "r"(e))
TCC_GATHER(3, TCC_LIST(i32 a, i32 b, i32 c, i32 u), "%3, %4, %5}], [%2], {%6}", "r"(a), "r"(b), "r"(c),
	"h"((u16)u))
TCC_GATHER(4, TCC_LIST(i32 a, i32 b, i32 c, i32 d, i32 u, i32 v), "%3, %4, %5, %6}], [%2], {%7, %8}",
	"r"(a), "r"(b), "r"(c), "r"(d), "h"((u16)u), "h"((u16)v))
TCC_GATHER(5, TCC_LIST(i32 a, i32 b, i32 c, i32 d, i32 e, i32 u, i32 v, i32 w),
	"%3, %4, %5, %6, %7}], [%2], {%8, %9, %10}", "r"(a), "r"(b), "r"(c), "r"(d), "r"(e),
	"h"((u16)u), "h"((u16)v), "h"((u16)w))
#undef TCC_LIST
#undef TCC_BOX
#undef TCC_GATHER
#elif TCC_DEV_SIM
#define TCC_MAP tcc_map
#define tcc_phase_init(bar, n) tcc_sim_phase_init(bar, n)
#define tcc_phase_fence() ((void)0)
#define tcc_phase_expect(bar, bytes) tcc_sim_phase_arrive(bar, bytes)
#define tcc_phase_arrive(bar) tcc_sim_phase_arrive(bar, 0)
#define tcc_phase_wait(bar, parity) tcc_sim_phase_wait(bar, parity)
#define tcc_part_barrier(which, threads) tcc_sim_part_barrier(which, threads)
#define tcc_memory_fence() tcc_sim_fence()
#define tcc_grid_wait() ((void)0)
#define tcc_grid_launch() ((void)0)
#define TCC_BOX(dst, map, bar, n, ...) tcc_sim_box(dst, map, bar, n, (const i32[]){ __VA_ARGS__ }, 0)
#define tcc_box1(dst, map, bar, ...) TCC_BOX(dst, map, bar, 1, __VA_ARGS__)
#define tcc_box2(dst, map, bar, ...) TCC_BOX(dst, map, bar, 2, __VA_ARGS__)
#define tcc_box3(dst, map, bar, ...) TCC_BOX(dst, map, bar, 3, __VA_ARGS__)
#define tcc_box4(dst, map, bar, ...) TCC_BOX(dst, map, bar, 4, __VA_ARGS__)
#define tcc_box5(dst, map, bar, ...) TCC_BOX(dst, map, bar, 5, __VA_ARGS__)
#define tcc_gather3(dst, map, bar, a, b, c, ...) tcc_sim_box(dst, map, bar, 3, (const i32[]){ a, b, c }, \
	(const i32[]){ __VA_ARGS__ })
#define tcc_gather4(dst, map, bar, a, b, c, d, ...) tcc_sim_box(dst, map, bar, 4, \
	(const i32[]){ a, b, c, d }, (const i32[]){ __VA_ARGS__ })
#define tcc_gather5(dst, map, bar, a, b, c, d, e, ...) tcc_sim_box(dst, map, bar, 5, \
	(const i32[]){ a, b, c, d, e }, (const i32[]){ __VA_ARGS__ })
#endif

#if TCC_DEV_SIM
#define tcc_shared_addr tcc_sim_shared_addr
#endif
#if TCC_DEV_SIM || (TCC_DEV_NV && __CUDA_ARCH__ >= 900)
/* A matrix descriptor of wgmma: rows of `row` bytes, 8 of them a block of the swizzle, block after block;
 * next: 0, or, stored along its own axis, bytes from the tile's first `row` bytes of it to the next ones. */
TCC_FN u64 tcc_tile(const u32 *p, i32 row, i32 next)
{
	u64 mode = row == 128 ? 1 : row == 64 ? 2 : 3, leading = next ? (u64)next >> 4 : 1;

	return (u64)(tcc_shared_addr(p) & 0x3ffff) >> 4 | leading << 16 | (u64)(8 * row >> 4) << 32 | mode << 62;
}
#endif

#if TCC_DEV_NV && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define tcc_regs_drop(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 " #n ";")
#define tcc_regs_take(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 " #n ";")
TCC_FN void tcc_mma_fence(void) { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TCC_FN void tcc_mma_commit(void) { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define tcc_mma_wait(n) asm volatile("wgmma.wait_group.sync.aligned " #n ";" ::: "memory")
/* nothing that uses them moves above */
TCC_FN void tcc_mma_keep(f32 *c, i32 n)
{
	TCC_UNROLL
	for (i32 i = 0; i < n; i++)
		asm volatile("" : "+f"(c[i]) :: "memory");
}
TCC_FN void tcc_mma_keep(i32 *c, i32 n)
{
	TCC_UNROLL
	for (i32 i = 0; i < n; i++)
		asm volatile("" : "+r"(c[i]) :: "memory");
}
#define TCC_P0 "%0,%1,%2,%3,%4,%5,%6,%7"
#define TCC_P1 "%8,%9,%10,%11,%12,%13,%14,%15"
#define TCC_P2 "%16,%17,%18,%19,%20,%21,%22,%23"
#define TCC_P3 "%24,%25,%26,%27,%28,%29,%30,%31"
#define TCC_P4 "%32,%33,%34,%35,%36,%37,%38,%39"
#define TCC_P5 "%40,%41,%42,%43,%44,%45,%46,%47"
#define TCC_P6 "%48,%49,%50,%51,%52,%53,%54,%55"
#define TCC_P7 "%56,%57,%58,%59,%60,%61,%62,%63"
#define TCC_P8 "%64,%65,%66,%67,%68,%69,%70,%71"
#define TCC_P9 "%72,%73,%74,%75,%76,%77,%78,%79"
#define TCC_P10 "%80,%81,%82,%83,%84,%85,%86,%87"
#define TCC_P11 "%88,%89,%90,%91,%92,%93,%94,%95"
#define TCC_P12 "%96,%97,%98,%99,%100,%101,%102,%103"
#define TCC_P13 "%104,%105,%106,%107,%108,%109,%110,%111"
#define TCC_P14 "%112,%113,%114,%115,%116,%117,%118,%119"
#define TCC_P15 "%120,%121,%122,%123,%124,%125,%126,%127"
#define TCC_8(k, c, i) "+" k(c[i]), "+" k(c[i + 1]), "+" k(c[i + 2]), "+" k(c[i + 3]), \
	"+" k(c[i + 4]), "+" k(c[i + 5]), "+" k(c[i + 6]), "+" k(c[i + 7])
#define TCC_S16 TCC_P0
#define TCC_C16(k, c) TCC_8(k, c, 0)
#define TCC_S32 TCC_P0 "," TCC_P1
#define TCC_C32(k, c) TCC_8(k, c, 0), TCC_8(k, c, 8)
#define TCC_S64 TCC_P0 "," TCC_P1 "," TCC_P2 "," TCC_P3
#define TCC_C64(k, c) TCC_8(k, c, 0), TCC_8(k, c, 8), TCC_8(k, c, 16), TCC_8(k, c, 24)
#define TCC_S96 TCC_S64 "," TCC_P4 "," TCC_P5
#define TCC_C96(k, c) TCC_C64(k, c), TCC_8(k, c, 32), TCC_8(k, c, 40)
#define TCC_S128 TCC_S64 "," TCC_P4 "," TCC_P5 "," TCC_P6 "," TCC_P7
#define TCC_C128(k, c) TCC_C64(k, c), TCC_8(k, c, 32), TCC_8(k, c, 40), TCC_8(k, c, 48), TCC_8(k, c, 56)
#define TCC_S192 TCC_S128 "," TCC_P8 "," TCC_P9 "," TCC_P10 "," TCC_P11
#define TCC_C192(k, c) TCC_C128(k, c), TCC_8(k, c, 64), TCC_8(k, c, 72), TCC_8(k, c, 80), TCC_8(k, c, 88)
#define TCC_S256 TCC_S128 "," TCC_P8 "," TCC_P9 "," TCC_P10 "," TCC_P11 "," TCC_P12 "," TCC_P13 "," TCC_P14 "," TCC_P15
#define TCC_C256(k, c) TCC_C128(k, c), TCC_8(k, c, 64), TCC_8(k, c, 72), TCC_8(k, c, 80), TCC_8(k, c, 88), \
	TCC_8(k, c, 96), TCC_8(k, c, 104), TCC_8(k, c, 112), TCC_8(k, c, 120)
#define TCC_WGMMA(name, acc, k, n, a, b, on, op, tail) \
TCC_FN void tcc_wgmma_##name(acc *c, u64 x, u64 y) \
{ \
	asm volatile("{ .reg .pred p; setp.ne.b32 p, " on ", 0; wgmma.mma_async.sync.aligned.m64n" #n op \
		" {" TCC_S##n "}, " a ", " b ", p" tail "; }" : TCC_C##n(k, c) : "l"(x), "l"(y), "r"(1)); \
}
#define TCC_WGMMA_R(name, n, held, b, on, op, tail) \
TCC_FN void tcc_wgmma_##name(f32 *c, const u32 *x, u64 y) \
{ \
	asm volatile("{ .reg .pred p; setp.ne.b32 p, " on ", 0; wgmma.mma_async.sync.aligned.m64n" #n op \
		" {" TCC_S##n "}, {" held "}, " b ", p" tail "; }" : TCC_C##n("f", c) \
		: "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y), "r"(1)); \
}
#define TCC_WGMMA_16(t, n, a, b, on, op) \
	TCC_WGMMA(t##_n##n##_kk, f32, "f", n, a, b, on, op, ", 1, 1, 0, 0") \
	TCC_WGMMA(t##_n##n##_km, f32, "f", n, a, b, on, op, ", 1, 1, 0, 1") \
	TCC_WGMMA(t##_n##n##_mk, f32, "f", n, a, b, on, op, ", 1, 1, 1, 0") \
	TCC_WGMMA(t##_n##n##_mm, f32, "f", n, a, b, on, op, ", 1, 1, 1, 1")
#define TCC_WGMMAS_R(n, held, b, on) \
	TCC_WGMMA_R(f16_n##n##_rk, n, held, b, on, "k16.f32.f16.f16", ", 1, 1, 0") \
	TCC_WGMMA_R(f16_n##n##_rm, n, held, b, on, "k16.f32.f16.f16", ", 1, 1, 1") \
	TCC_WGMMA_R(bf16_n##n##_rk, n, held, b, on, "k16.f32.bf16.bf16", ", 1, 1, 0") \
	TCC_WGMMA_R(bf16_n##n##_rm, n, held, b, on, "k16.f32.bf16.bf16", ", 1, 1, 1")
#define TCC_WGMMAS(n, a, b, on) \
	TCC_WGMMA_16(f16, n, a, b, on, "k16.f32.f16.f16") \
	TCC_WGMMA_16(bf16, n, a, b, on, "k16.f32.bf16.bf16") \
	TCC_WGMMA(s8_n##n##_kk, i32, "r", n, a, b, on, "k32.s32.s8.s8", "") \
	TCC_WGMMA(u8_n##n##_kk, i32, "r", n, a, b, on, "k32.s32.u8.u8", "") \
	TCC_WGMMA(u8s8_n##n##_kk, i32, "r", n, a, b, on, "k32.s32.u8.s8", "") \
	TCC_WGMMA(s8u8_n##n##_kk, i32, "r", n, a, b, on, "k32.s32.s8.u8", "")
TCC_WGMMAS(16, "%8", "%9", "%10")
TCC_WGMMAS(32, "%16", "%17", "%18")
TCC_WGMMAS(64, "%32", "%33", "%34")
TCC_WGMMAS(96, "%48", "%49", "%50")
TCC_WGMMAS(128, "%64", "%65", "%66")
TCC_WGMMAS(192, "%96", "%97", "%98")
TCC_WGMMAS(256, "%128", "%129", "%130")
TCC_WGMMAS_R(32, "%16, %17, %18, %19", "%20", "%21")
TCC_WGMMAS_R(64, "%32, %33, %34, %35", "%36", "%37")
TCC_WGMMAS_R(128, "%64, %65, %66, %67", "%68", "%69")
TCC_WGMMAS_R(256, "%128, %129, %130, %131", "%132", "%133")
#define tcc_wgmma(t, n, majors, c, a, b) tcc_wgmma_##t##_n##n##_##majors(c, a, b)
#undef TCC_WGMMAS_R
#undef TCC_WGMMAS
#undef TCC_WGMMA_R
#undef TCC_WGMMA_16
#undef TCC_WGMMA
#elif TCC_DEV_SIM
#define tcc_regs_drop(n) tcc_sim_regs(n, 0)
#define tcc_regs_take(n) tcc_sim_regs(n, 1)
#define tcc_mma_fence() tcc_sim_wgmma_fence()
#define tcc_mma_commit() tcc_sim_wgmma_commit()
#define tcc_mma_wait(n) tcc_sim_wgmma_wait(n)
#define tcc_mma_keep(c, n) ((void)(c))
#define tcc_wgmma(t, n, majors, c, a, b) tcc_wgmma_##majors(t, n, c, a, b)
#define tcc_wgmma_kk(t, n, c, a, b) tcc_sim_wgmma("wgmma_" #t, n, c, a, b, 0, 0)
#define tcc_wgmma_km(t, n, c, a, b) tcc_sim_wgmma("wgmma_" #t, n, c, a, b, 0, 1)
#define tcc_wgmma_mk(t, n, c, a, b) tcc_sim_wgmma("wgmma_" #t, n, c, a, b, 1, 0)
#define tcc_wgmma_mm(t, n, c, a, b) tcc_sim_wgmma("wgmma_" #t, n, c, a, b, 1, 1)
#define tcc_wgmma_rk(t, n, c, a, b) tcc_sim_wgmma_held("wgmma_" #t, n, c, a, b, 0)
#define tcc_wgmma_rm(t, n, c, a, b) tcc_sim_wgmma_held("wgmma_" #t, n, c, a, b, 1)
#endif

#endif
