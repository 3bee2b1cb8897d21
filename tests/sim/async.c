/* Kernels of test_async.c: a product by a warp group from boxes, one way right and, by FAULT,
 * wrong. */
#include "runtime/device/tcc_dev.h"

#ifndef FAULT
#define FAULT 0
#endif
#ifndef ROW
#define ROW 128         /* bytes of a stored row of A: the depth of a step */
#endif
#ifndef ALONG
#define ALONG 0         /* B is stored along its own axis: 64 columns of 128 bytes */
#endif
#ifndef HELD
#define HELD 0          /* A comes from registers, B is ALONG */
#endif

enum { COLUMNS = 64, K = ROW / 2, STAGES = 2, STAGE = 16384 };

/* c[64,64] = a[64,k] b: two stages; a copier's warp and a group. b is [64,k], or [k,64] ALONG. */
TCC_KERNEL(product, 256)(f32 *TCC_RESTRICT c, i64 steps, TCC_MAP a, TCC_MAP b)
{
	TCC_SHARED_DYN(memory);
	u32 *const tiles = (u32 *)memory;
	u64 *const bars = (u64 *)(memory + STAGES * STAGE);
	i32 t = tcc_tx();

	if (t == 0) {
		for (i32 s = 0; s < STAGES; s++) {
			tcc_phase_init(&bars[s], 1);
			tcc_phase_init(&bars[STAGES + s], 4);
		}
		tcc_phase_fence();
	}
	if (FAULT != 1)
		tcc_barrier();
	if (t < 128) {
		for (i32 k = 0; t == 0 && k < steps; k++) {
			i32 s = k % STAGES;

			if (FAULT != 2)
				tcc_phase_wait(&bars[STAGES + s], k / STAGES % 2 ^ 1);
			tcc_phase_expect(&bars[s], (64 + COLUMNS) * ROW + (FAULT == 3 ? 16 : 0));
			tcc_box2(&tiles[s * STAGE / 4], &a, &bars[s], k * K, 0);
			if (ALONG)
				tcc_box2(&tiles[s * STAGE / 4 + 2048], &b, &bars[s], 0, k * K);
			else
				tcc_box2(&tiles[s * STAGE / 4 + 2048], &b, &bars[s], k * K, 0);
		}
		return;
	}
	f32 acc[COLUMNS / 2];
	u32 held[K / 16][4];
	for (i32 i = 0; i < COLUMNS / 2; i++)
		acc[i] = 0;
	for (i32 k = 0; k < steps; k++) {
		i32 s = k % STAGES;

		if (FAULT != 4)
			tcc_phase_wait(&bars[s], k / STAGES % 2);
		if (FAULT != 5)
			tcc_mma_fence();
		for (i32 i = 0; i < K / 16 && HELD; i++) {
			for (i32 w = 0; w < 4; w++) {
				i32 row = (t - 128) / 32 * 16 + t % 32 / 4 + 8 * (w & 1),
					deep = i * 16 + t % 4 * 2 + 8 * (w >> 1);

				held[i][w] = tiles[s * STAGE / 4 + row * 32 + (deep / 8 ^ row % 8) * 4 +
					deep % 8 / 2];
			}
			tcc_wgmma_rm(f16, COLUMNS, acc, held[i],
				tcc_tile(&tiles[s * STAGE / 4 + 2048 + i * 512], 128, 8192));
		}
		for (i32 i = 0; i < K / 16 && !HELD; i++)
			tcc_sim_wgmma("wgmma_f16", COLUMNS, acc,
				tcc_tile(&tiles[s * STAGE / 4 + i * 8], ROW, 0),
				ALONG ? tcc_tile(&tiles[s * STAGE / 4 + 2048 + i * 512], 128, 8192)
				: tcc_tile(&tiles[s * STAGE / 4 + 2048 + i * 8], ROW, 0), 0, ALONG);
		tcc_mma_commit();
		if (FAULT != 6)
			tcc_mma_wait(0);
		if (HELD)               /* all have read */
			tcc_part_barrier(1, 128);
		if (t % 32 == 0)
			tcc_phase_arrive(&bars[STAGES + s]);
	}
	if (FAULT == 6)
		tcc_mma_wait(1);
	for (i32 i = 0; i < COLUMNS / 2; i++)
		c[i * 128 + t - 128] = acc[i];
}

/* The bytes of a box as they lie in shared memory. */
TCC_KERNEL(lies, 32)(u8 *TCC_RESTRICT out, i64 bytes, TCC_MAP a)
{
	TCC_SHARED_DYN(memory);
	u64 *const bar = (u64 *)(memory + 32768);

	if (tcc_tx() == 0) {
		tcc_phase_init(bar, 1);
		tcc_phase_fence();
		tcc_phase_expect(bar, (i32)bytes);
		tcc_box2(memory, &a, bar, -1, 0);
	}
	tcc_barrier();
	tcc_phase_wait(bar, 0);
	for (i32 i = tcc_tx(); i < bytes; i += 32)
		out[i] = memory[i];
}

/* Pixels of a picture [n][h][w][c], moved by (1, 2). */
TCC_KERNEL(pixels, 32)(u8 *TCC_RESTRICT out, i64 bytes, TCC_MAP a)
{
	TCC_SHARED_DYN(memory);
	u64 *const bar = (u64 *)(memory + 32768);

	if (tcc_tx() == 0) {
		tcc_phase_init(bar, 1);
		tcc_phase_fence();
		tcc_phase_expect(bar, (i32)bytes);
		tcc_gather4(memory, &a, bar, 0, 1, -1, 0, 1, 2);
	}
	tcc_barrier();
	tcc_phase_wait(bar, 0);
	for (i32 i = tcc_tx(); i < bytes; i += 32)
		out[i] = memory[i];
}

/* Two halves of the block pass numbers on through shared memory, each by a barrier of its own. */
TCC_KERNEL(halves, 64)(i32 *TCC_RESTRICT out)
{
	TCC_SHARED(i32, x, 64);
	i32 t = tcc_tx(), half = t / 32;

	for (i32 k = 0; k < 3; k++) {
		x[t] = t + k;
		tcc_part_barrier(1 + half, 32);
		out[k * 64 + t] = x[half * 32 + (t + 1) % 32];
		if (FAULT != 7)
			tcc_part_barrier(1 + half, 32);
	}
}

TCC_SIM_ENTRY(product) { product(TCC_ARG(f32 *, 0), TCC_ARG(i64, 1), TCC_ARG(tcc_map, 2), TCC_ARG(tcc_map, 3)); }
TCC_SIM_ENTRY(lies) { lies(TCC_ARG(u8 *, 0), TCC_ARG(i64, 1), TCC_ARG(tcc_map, 2)); }
TCC_SIM_ENTRY(pixels) { pixels(TCC_ARG(u8 *, 0), TCC_ARG(i64, 1), TCC_ARG(tcc_map, 2)); }
TCC_SIM_ENTRY(halves) { halves(TCC_ARG(i32 *, 0)); }
