/* Kernels of the simulator's tests, in the device dialect: right ones, and ones with a planted
 * fault. A line that a finding must name carries a mark, which the test looks for. */
#include "runtime/device/tcc_dev.h"

TCC_KERNEL(axpy, 256)(float *TCC_RESTRICT y, const float *TCC_RESTRICT x, f32 a, i64 n)
{
	i64 i = (i64)tcc_bx() * 256 + tcc_tx();

	if (i < n)
		y[i] = y[i] + a * x[i];
}

/* n / 4 threads, 16 bytes each */
TCC_KERNEL(axpy4, 256)(float *TCC_RESTRICT y, const float *TCC_RESTRICT x, f32 a, i64 n)
{
	i64 i = (i64)tcc_bx() * 256 + tcc_tx();

	if (i >= n / 4)
		return;
	f32x4 u = tcc_ld_f32x4(x + i * 4), v = tcc_ld_f32x4(y + i * 4);
	tcc_st_f32x4(y + i * 4,
		tcc_f32x4(v.x + a * u.x, v.y + a * u.y, v.z + a * u.z, v.w + a * u.w));
}

TCC_KERNEL(axpy4_misaligned, 256)(float *TCC_RESTRICT y, const float *TCC_RESTRICT x)
{
	i64 i = (i64)tcc_bx() * 256 + tcc_tx();

	tcc_st_f32x4(y + i * 4, tcc_ld_f32x4(x + 1 + i * 4)); /* MARK misaligned */
}

TCC_KERNEL(store_past_end, 256)(float *y, i64 n)
{
	i64 i = (i64)tcc_bx() * 256 + tcc_tx();

	if (i <= n)
		y[i] = 1.0f; /* MARK past_end */
}

/* A column of 32 words for each lane: 32 sectors a request. */
TCC_KERNEL(strided, 32)(float *y, const float *x)
{
	y[tcc_tx()] = x[tcc_tx() * 32];
}

/* c[m,n] = a[m,k] b[k,n]: 64x64 tiles, 16 deep, 4x4 a thread; m, n, k multiples of the tile. */
TCC_KERNEL(sgemm, 256)(float *TCC_RESTRICT c, const float *TCC_RESTRICT a,
	const float *TCC_RESTRICT b, i64 n, i64 k)
{
	TCC_SHARED(float, sa, 16 * 68);
	TCC_SHARED(float, sb, 16 * 64);
	i32 t = tcc_tx(), tr = t / 16, tc = t % 16;
	float acc[4][4];

	TCC_UNROLL
	for (i32 i = 0; i < 16; i++)
		acc[i / 4][i % 4] = 0;
	for (i64 k0 = 0; k0 < k; k0 += 16) {
		f32x4 u = tcc_ld_f32x4(a + (i64)(tcc_by() * 64 + t / 4) * k + k0 + t % 4 * 4);
		f32x4 v = tcc_ld_f32x4(b + (k0 + t / 16) * n + tcc_bx() * 64 + t % 16 * 4);

#ifndef NO_BARRIER
		tcc_barrier();
#endif
		sa[(t % 4 * 4 + 0) * 68 + t / 4] = u.x;
		sa[(t % 4 * 4 + 1) * 68 + t / 4] = u.y;
		sa[(t % 4 * 4 + 2) * 68 + t / 4] = u.z;
		sa[(t % 4 * 4 + 3) * 68 + t / 4] = u.w;
		tcc_st_f32x4(sb + t / 16 * 64 + t % 16 * 4, v);
		tcc_barrier();
		TCC_UNROLL
		for (i32 kk = 0; kk < 16; kk++) {
			f32x4 x = tcc_ld_f32x4(sa + kk * 68 + tr * 4);
			f32x4 y = tcc_ld_f32x4(sb + kk * 64 + tc * 4);
			float xs[4] = { x.x, x.y, x.z, x.w }, ys[4] = { y.x, y.y, y.z, y.w };

			TCC_UNROLL
			for (i32 i = 0; i < 16; i++)
				acc[i / 4][i % 4] = tcc_fma_f32(xs[i / 4], ys[i % 4],
					acc[i / 4][i % 4]);
		}
	}
	TCC_UNROLL
	for (i32 i = 0; i < 4; i++)
		tcc_st_f32x4(c + (i64)(tcc_by() * 64 + tr * 4 + i) * n + tcc_bx() * 64 + tc * 4,
			tcc_f32x4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]));
}

/* A warp for each row: y = x - max(x), over the sum of it plus n. */
TCC_KERNEL(rows, 128)(float *TCC_RESTRICT y, const float *TCC_RESTRICT x, i64 n)
{
	const float *row = x + (tcc_bx() * (128 / tcc_warp) + tcc_tx() / tcc_warp) * n;
	float *out = y + (row - x);
	float m = tcc_as_f32((i32)0xff800000), s = 0;

	for (i64 i = tcc_lane(); i < n; i += tcc_warp)
		m = tcc_max_f32(m, row[i]);
	for (i32 k = tcc_warp / 2; k; k >>= 1)
		m = tcc_max_f32(m, tcc_shfl_xor_f32(m, k));
	for (i64 i = tcc_lane(); i < n; i += tcc_warp)
		s += row[i] - m + 2.0f;
	for (i32 k = tcc_warp / 2; k; k >>= 1)
		s += tcc_shfl_xor_f32(s, k);
	for (i64 i = tcc_lane(); i < n; i += tcc_warp)
		out[i] = tcc_div_f32(row[i] - m + 2.0f, s);
}

TCC_KERNEL(missing_barrier, 64)(float *y)
{
	TCC_SHARED(float, s, 64);

	s[tcc_tx()] = y[tcc_tx()];
	tcc_barrier();
	s[tcc_tx()] += 1.0f;
	y[tcc_tx()] = s[63 - tcc_tx()];
}

/* Overwritten while others may still read. */
TCC_KERNEL(missing_second_barrier, 64)(float *y)
{
	TCC_SHARED(float, s, 64);
	float sum = 0;

	for (i32 i = 0; i < 2; i++) {
		s[tcc_tx()] = (float)(tcc_tx() + i);
		tcc_barrier();
		sum += s[63 - tcc_tx()];
	}
	y[tcc_tx()] = sum;
}

TCC_KERNEL(blocks_race, 32)(i32 *y)
{
	y[tcc_tx()] = tcc_bx(); /* MARK blocks_race */
}

TCC_KERNEL(undefined_global, 32)(float *y, const float *x)
{
	y[tcc_tx()] = x[tcc_tx()] + 1.0f; /* MARK undefined_global */
}

TCC_KERNEL(undefined_shared, 32)(float *y)
{
	TCC_SHARED(float, s, 33);

	s[tcc_tx()] = 1.0f;
	tcc_barrier();
	y[tcc_tx()] = s[tcc_tx() + 1]; /* MARK undefined_shared */
}

TCC_KERNEL(past_shared, 32)(float *y)
{
	TCC_SHARED(float, s, 32);
	TCC_SHARED(float, other, 32);

	s[tcc_tx()] = 1.0f;
	tcc_barrier();
	s[tcc_tx() + 1] = 1.0f; /* MARK past_shared */
	tcc_barrier();
	other[tcc_tx()] = 2.0f;
	y[tcc_tx()] = other[tcc_tx()] + s[tcc_tx()];
}

TCC_KERNEL(divergent_barrier, 64)(float *y)
{
	if (tcc_tx() < 40)
		tcc_barrier(); /* MARK divergent_barrier */
	y[tcc_tx()] = 0;
}

TCC_KERNEL(two_barriers, 64)(float *y)
{
	if (tcc_tx() < 32)
		tcc_barrier(); /* MARK two_barriers */
	else
		tcc_barrier();
	y[tcc_tx()] = 0;
}

TCC_KERNEL(divergent_shuffle, 32)(float *y)
{
	float v = 1;

	if (tcc_tx() < 16)
		v += tcc_shfl_xor_f32(v, 1);
	y[tcc_tx()] = v;
}

#if TCC_DEV_SIM /* ptxas refuses it */
TCC_KERNEL(much_shared, 32)(float *y)
{
	TCC_SHARED(float, big, 12 * 1024);
	TCC_SHARED(float, more, 1024);

	big[tcc_tx()] = more[tcc_tx()] = y[tcc_tx()];
	y[tcc_tx()] = big[tcc_tx()] + more[tcc_tx()];
}
#endif

TCC_KERNEL(dynamic_shared, 64)(i32 *y)
{
	TCC_SHARED(i32, fixed, 64);
	TCC_SHARED_DYN(dyn);
	u8 *bytes = (u8 *)dyn;

	fixed[tcc_tx()] = tcc_tx();
	bytes[tcc_tx()] = (u8)tcc_tx();
	tcc_barrier();
	y[tcc_tx()] = fixed[tcc_tx() ^ 1] + bytes[tcc_tx() ^ 2];
}

/* Writes rows and reads columns of a 32x32 tile; pad 0 conflicts 32 ways, pad 1 not at all. */
TCC_KERNEL(transpose, 32)(float *TCC_RESTRICT y, const float *TCC_RESTRICT x, i32 pad)
{
	TCC_SHARED(float, tile, 32 * 33);

	for (i32 i = 0; i < 32; i++)
		tile[i * (32 + pad) + tcc_tx()] = x[i * 32 + tcc_tx()];
	tcc_barrier();
	for (i32 i = 0; i < 32; i++)
		y[i * 32 + tcc_tx()] = tile[tcc_tx() * (32 + pad) + i];
}

/* 16-byte chunks of a 64-byte row, one row a lane; swizzled by chunk ^= row >> 1 & 3. */
TCC_KERNEL(chunks, 32)(float *y, i32 swizzle)
{
	TCC_SHARED(float, s, 32 * 16);
	i32 row = tcc_tx();
	f32x4 sum = tcc_f32x4(0, 0, 0, 0);

	for (i32 i = 0; i < 16; i++)
		s[i * 32 + row] = (float)i;
	tcc_barrier();
	for (i32 q = 0; q < 4; q++) {
		f32x4 v = tcc_ld_f32x4(s + row * 16 + (swizzle ? q ^ (row >> 1 & 3) : q) * 4);

		sum.x += v.x;
	}
	y[row] = sum.x;
}

TCC_KERNEL(atomics, 64)(f32 *f, i32 *i, i64 *l)
{
	tcc_atomic_add_f32(f, 1.0f);
	tcc_atomic_max_f32(f + 1, (f32)tcc_tx());
	tcc_atomic_min_i32(i, -tcc_tx());
	tcc_atomic_or_i32(i + 1, 1 << (tcc_tx() & 15));
	tcc_atomic_add_i64(l, tcc_tx());
	tcc_atomic_mul_i64(l + 1, tcc_tx() == 5 ? -3 : 1);
}

/* Two lanes of a warp that meet with a warp barrier between are no race; without one, they are. */
TCC_KERNEL(warp_exchange, 64)(i32 *y, i32 careful)
{
	TCC_SHARED(i32, s, 64);
	i32 sum = 0;

	for (i32 i = 0; i < 3; i++) {
		s[tcc_tx()] = tcc_tx() * i;
		tcc_warp_barrier();
		sum += s[tcc_tx() ^ 5];
		if (careful)
			tcc_warp_barrier();
	}
	y[tcc_tx()] = sum;
}

/* Copies a block of 128 floats through shared memory, two groups in flight. */
TCC_KERNEL(async_copy, 32)(float *y, const float *x, i32 pending)
{
	TCC_SHARED(float, s, 256);
	i32 t = tcc_tx();

	tcc_cp_async16(s + 4 * t, x + 4 * t);
	tcc_cp_commit();
	tcc_cp_async16_if(s + 128 + 4 * t, x + 128 + 4 * t, t < 16);
	tcc_cp_commit();
	tcc_cp_wait(1);
	tcc_barrier();
	for (i32 i = 0; i < 4; i++)
		y[i * 32 + t] = s[i * 32 + t];
	tcc_cp_wait(pending);
	tcc_barrier();
	for (i32 i = 4; i < 8; i++)
		y[i * 32 + t] = s[i * 32 + t]; /* MARK async_copy */
}

TCC_KERNEL(wild, 32)(float *y)
{
	*(float *)(u64)64 = y[0]; /* MARK wild */
}

#if !TCC_DEV_AMD && tcc_warp == 32
/* c[16,8] = a[16,16] b[16,8] */
TCC_KERNEL(mma, 32)(f32 *c, const f16 *a, const f16 *b)
{
	TCC_SHARED(f16, sa, 16 * 16);
	TCC_SHARED(f16, sb, 16 * 8);
	i32 l = tcc_lane();
	u32 x[4], y[4];
	f32 d[4] = { 0, 0, 0, 0 };

	for (i32 i = l; i < 256; i += 32)
		sa[i] = a[i];
	for (i32 i = l; i < 128; i += 32)
		sb[i] = b[i];
	tcc_warp_barrier();
	tcc_ldmatrix_x4(x, sa + (l & 15) * 16 + (l >> 4) * 8);
	tcc_ldmatrix_x4_trans(y, sb + (l & 15) * 8);
	tcc_mma_m16n8k16_f16(d, x, y);
	for (i32 i = 0; i < 4; i++)
		c[(l / 4 + 8 * (i >> 1)) * 8 + l % 4 * 2 + (i & 1)] = d[i];
}
#endif

#if TCC_DEV_SIM
#if tcc_warp == 32
TCC_SIM_ENTRY(mma)
{
	mma(TCC_ARG(f32 *, 0), TCC_ARG(const f16 *, 1), TCC_ARG(const f16 *, 2));
}
#endif
TCC_SIM_ENTRY(axpy)
{
	axpy(TCC_ARG(float *, 0), TCC_ARG(const float *, 1), TCC_ARG(f32, 2), TCC_ARG(i64, 3));
}
TCC_SIM_ENTRY(axpy4)
{
	axpy4(TCC_ARG(float *, 0), TCC_ARG(const float *, 1), TCC_ARG(f32, 2), TCC_ARG(i64, 3));
}
TCC_SIM_ENTRY(sgemm)
{
	sgemm(TCC_ARG(float *, 0), TCC_ARG(const float *, 1), TCC_ARG(const float *, 2),
		TCC_ARG(i64, 3), TCC_ARG(i64, 4));
}
TCC_SIM_ENTRY(rows)
{
	rows(TCC_ARG(float *, 0), TCC_ARG(const float *, 1), TCC_ARG(i64, 2));
}
TCC_SIM_ENTRY(store_past_end) { store_past_end(TCC_ARG(float *, 0), TCC_ARG(i64, 1)); }
TCC_SIM_ENTRY(transpose)
{
	transpose(TCC_ARG(float *, 0), TCC_ARG(const float *, 1), TCC_ARG(i32, 2));
}
TCC_SIM_ENTRY(chunks) { chunks(TCC_ARG(float *, 0), TCC_ARG(i32, 1)); }
TCC_SIM_ENTRY(atomics)
{
	atomics(TCC_ARG(f32 *, 0), TCC_ARG(i32 *, 1), TCC_ARG(i64 *, 2));
}
TCC_SIM_ENTRY(warp_exchange) { warp_exchange(TCC_ARG(i32 *, 0), TCC_ARG(i32, 1)); }
TCC_SIM_ENTRY(async_copy)
{
	async_copy(TCC_ARG(float *, 0), TCC_ARG(const float *, 1), TCC_ARG(i32, 2));
}
TCC_SIM_ENTRY(blocks_race) { blocks_race(TCC_ARG(i32 *, 0)); }
TCC_SIM_ENTRY(dynamic_shared) { dynamic_shared(TCC_ARG(i32 *, 0)); }

#define ENTRY1(name) TCC_SIM_ENTRY(name) { name(TCC_ARG(float *, 0)); }
#define ENTRY2(name) TCC_SIM_ENTRY(name) { name(TCC_ARG(float *, 0), TCC_ARG(float *, 1)); }
ENTRY2(axpy4_misaligned)
ENTRY2(strided)
ENTRY2(undefined_global)
ENTRY1(missing_barrier)
ENTRY1(missing_second_barrier)
ENTRY1(undefined_shared)
ENTRY1(past_shared)
ENTRY1(divergent_barrier)
ENTRY1(two_barriers)
ENTRY1(divergent_shuffle)
ENTRY1(much_shared)
ENTRY1(wild)

/* The dialect's own functions, called by the host test in the place of a kernel. */
#define HOST(name, type, expr) \
	TCC_EXTERN_C __attribute__((visibility("default"), no_sanitize("thread"))) \
	type host_##name { return expr; }
HOST(fmod_f32(f32 a, f32 b), f32, tcc_fmod_f32(a, b))
HOST(fmod_f64(f64 a, f64 b), f64, tcc_fmod_f64(a, b))
HOST(f16_to_f32(f16 h), f32, tcc_f16_to_f32(h))
HOST(f32_to_f16(f32 x), f16, tcc_f32_to_f16(x))
HOST(f32_to_bf16(f32 x), bf16, tcc_f32_to_bf16(x))
HOST(f64_to_f16(f64 x), f16, tcc_f64_to_f16(x))
HOST(f32_to_i8(f32 x), i8, tcc_f32_to_i8(x))
HOST(f32_to_i32(f32 x), i32, tcc_f32_to_i32(x))
HOST(f64_to_u64(f64 x), u64, tcc_f64_to_u64(x))
HOST(f32_to_i64(f32 x), i64, tcc_f32_to_i64(x))
HOST(div_i32(i32 a, i32 b), i32, tcc_div_i32(a, b))
HOST(rem_i64(i64 a, i64 b), i64, tcc_rem_i64(a, b))
HOST(min_f32(f32 a, f32 b), f32, tcc_min_f32(a, b))
HOST(max_f32(f32 a, f32 b), f32, tcc_max_f32(a, b))
#endif
