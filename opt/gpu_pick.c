/*
 * Which tile a product on matrix units takes: of all that fit, the one that the performance model
 * (ir/clocks.c) says is fastest. The same counts that the model finds in the kernel's text are
 * computed here from the tile.
 *
 * A step is rounds of copies and products over the tile's depth. Deep steps and many stages keep more
 * bytes under way where blocks are few and the latency of memory decides; small ones leave room for
 * more blocks on a unit where these are many.
 */
#include "gpu_pick.h"

/* Rows, columns, warps along each. */
static const struct { int m, n, wm, wn; } shapes[] = {
	{256, 128, 4, 2}, {128, 256, 2, 4}, {192, 160, 4, 2}, {160, 192, 2, 4}, {192, 128, 4, 2},
	{128, 192, 2, 4}, {128, 128, 2, 2},
	{128, 96, 2, 2}, {96, 128, 2, 2}, {128, 64, 2, 2}, {64, 128, 2, 2}, {96, 64, 2, 2}, {64, 96, 2, 2},
	{64, 64, 2, 2}, {64, 32, 2, 1}, {32, 64, 1, 2}, {64, 32, 2, 2}, {32, 64, 2, 2}, {32, 128, 1, 4},
	{128, 32, 4, 1}, {16, 128, 1, 4}, {16, 64, 1, 2}, {16, 64, 1, 4}, {32, 32, 1, 1}, {32, 32, 2, 2},
	{16, 32, 1, 1}, {16, 32, 1, 2}, {32, 16, 1, 1}, {32, 16, 2, 1},
};
enum {
	GROUP = 8, MAX_THREADS = 256, MAX_ACC = 128, MAX_REGISTERS = 232,
	OTHER_REGISTERS = 48,  /* addresses and the like */
	MAX_DEEPER = 4,        /* times the least depth of a step */
	MAX_STAGES = 6,
	MAX_PRODUCTS = 192,    /* instructions of a warp in a step, which is written out */
	GROUP_ROWS = 64,       /* of an instruction of a warp group */
	SLICE_BYTES = 40 * 4 * GROUP_ROWS,   /* where a group's sums pass through shared memory, least */
	BARRIER_BYTES = 256,
};

/* Of the time of bytes, what is taken not to overlap: 0.5 agrees best with nvidia-matmul-heuristics on four GPUs
 * (tests/heuristics: 5.8 % mean regret; 6.5 % with 0.1, 7.9 % with 0). */
static const double traffic_share = 0.5;

static int64_t
stage_bytes(const Product *p, const MmaTile *t)
{
	return (int64_t)(t->m + t->n) * t->bk * p->size;
}

static int
registers(const Product *p, const MmaTile *t)
{
	int threads = t->wm * t->wn * p->mach->warp * (p->x->m >= GROUP_ROWS ? 4 : 1), acc = t->m * t->n / threads;
	int fragments = (t->m / t->wm / p->own_m + t->n / t->wn / p->own_n) * p->lane_words;
	/* what is on its way, and where it comes from: elements each have a place */
	int each_m = p->async_m ? 0 : p->loose_m ? 6 : 2, each_n = p->async_n ? 0 : p->loose_n ? 6 : 2;
	int staged = (each_m * t->m + each_n * t->n) * t->bk * p->size / threads / 4;

	return acc + fragments + staged + OTHER_REGISTERS;
}

/* Are its parts whole blocks, do they fit? */
static bool
fits(const Product *p, const MmaTile *t)
{
	int sm = t->m / t->wm, sn = t->n / t->wn, warp = p->mach->warp;

	return sm % p->own_m == 0 && sn % p->own_n == 0 && sm * sn / warp <= MAX_ACC
		&& t->wm * t->wn * warp <= MAX_THREADS && registers(p, t) <= MAX_REGISTERS
		&& stage_bytes(p, t) * t->stages <= p->mach->smem_block
		&& sm / p->x->m * (sn / p->x->n) * (t->bk / p->x->k) <= MAX_PRODUCTS;
}

static double
up(double x)
{
	double n = (double)(int64_t)x;

	return n < x ? n + 1 : n;
}

static double
least(double a, double b)
{
	return a < b ? a : b;
}

/* Bytes of a step that a block brings from memory: its share of what the blocks that run at once need,
 * GROUP rows of tiles column by column; nothing twice where the second cache holds all. */
static double
fetched(const Product *p, const MmaTile *t, double at_once)
{
	double rows = least(up(p->m / t->m), GROUP), columns = least(up(at_once / rows), up(p->n / t->n));
	double all = p->batch * (p->m + p->n) * p->depth * p->outer * p->size;
	double blocks = p->batch * up(p->m / t->m) * up(p->n / t->n), once = all / blocks / up(p->depth / t->bk)
		/ p->outer;
	double wave = (rows * t->m + columns * t->n) * t->bk * p->size / least(at_once, rows * columns);

	return all <= (double)p->mach->l2 || wave < once ? once
		: once + (wave - once) * (1 - (double)p->mach->l2 / all);
}

double
tile_us(const Product *p, const MmaTile *t)
{
	int warps = t->wm * t->wn, all = p->x->m >= GROUP_ROWS ? 4 * (warps + 1) : warps;
	double steps = p->outer * up(p->depth / t->bk), bytes = (double)stage_bytes(p, t);
	double read = (double)warps * (t->m / t->wm + t->n / t->wn) * t->bk * p->size;
	double products = (double)(t->m / p->x->m) * (t->n / p->x->n) * ((double)t->bk / p->x->k);
	double result = (double)t->m * t->n;
	Launch l = {.blocks = p->batch * up(p->m / t->m) * up(p->n / t->n), .warps = all,
		.shared = stage_bytes(p, t) * t->stages, .registers = registers(p, t)};
	double at_once = least(l.blocks, gpu_resident(p->mach, &l) * p->mach->units);
	Phase phases[] = {
		{.waits = block_clocks},
		{
			.matrix = steps * products * mma_clocks(p->mach, p->x),
			.issued = steps * (products + read / 512 + bytes / 512),
			.passes = steps * (read + bytes) / 128,
			.l2 = steps * bytes,
			.dram = steps * fetched(p, t, at_once),
			.waits = steps * (load_clocks / (p->async_m && p->async_n ? t->stages - 1 : 1) + barrier_clocks),
		}, {
			.passes = 2 * result * 4 / 128,
			.l2 = result * p->result_bytes,
			.dram = result * p->result_bytes,
			.waits = p->reads_result ? load_clocks : 0,
		},
	};

	return work_us(p->mach, &l, phases, sizeof phases / sizeof *phases, NULL);
}

/*
 * What tiles are compared by: the time, and for traffic that the time hides in part. Where the matrix units
 * are the limit by little, less traffic is worth more than the time says: copies and products do not overlap
 * wholly.
 */
double
tile_cost(const Product *p, const MmaTile *t)
{
	double blocks = p->batch * up(p->m / t->m) * up(p->n / t->n);
	double bytes = blocks * p->outer * up(p->depth / t->bk) * (double)stage_bytes(p, t);

	return tile_us(p, t) + traffic_share * bytes / ((double)p->mach->l2_clk * p->mach->units * p->mach->ghz * 1e3);
}

bool
pick_tile(const Product *p, int least_bk, int deepest, MmaTile *best)
{
	double us, found = -1;
	bool async = p->async_m || p->async_n;
	size_t i;

	for (i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		MmaTile t = {shapes[i].m, shapes[i].n, shapes[i].wm, shapes[i].wn, 0, 0};
		for (t.bk = least_bk; t.bk <= deepest && t.bk <= (async ? MAX_DEEPER : 1) * least_bk; t.bk *= 2)
			for (t.stages = async ? 3 : 2; t.stages <= (async ? MAX_STAGES : 2); t.stages++) {
				us = fits(p, &t) ? tile_cost(p, &t) : -1;
				if (us >= 0 && (found < 0 || us < found))
					found = us, *best = t;
			}
	}
	return found >= 0;
}

/* Rows, columns, groups along the rows. */
static const struct { int m, n, groups; } group_shapes[] = {
	{128, 256, 2}, {256, 128, 2}, {128, 192, 2}, {128, 128, 2}, {128, 96, 2}, {128, 64, 2}, {128, 32, 2},
	{64, 256, 1}, {64, 192, 1}, {64, 128, 1}, {64, 96, 1}, {64, 64, 1}, {64, 32, 1}, {64, 16, 1},
};

bool
pick_group(const Product *p, int bk, MmaTile *best, double *us)
{
	int64_t room = p->mach->smem_block - BARRIER_BYTES;
	bool found = false;
	double one;
	size_t i;

	for (i = 0; i < sizeof group_shapes / sizeof *group_shapes; i++) {
		MmaTile t = {group_shapes[i].m, group_shapes[i].n, group_shapes[i].groups, 1, bk, 2};
		for (; t.stages <= MAX_STAGES && stage_bytes(p, &t) * t.stages + SLICE_BYTES * t.wm <= room; t.stages++) {
			one = tile_us(p, &t);
			if (!found || one <= *us)   /* alike: more bytes under way */
				*us = one, *best = t, found = true;
		}
	}
	return found;
}
