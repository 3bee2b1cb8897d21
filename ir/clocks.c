/*
 * The performance model of GPUs: the time of a kernel from counts of its work and the machine's row.
 *
 *   rounds   blocks go in rounds of as many as the machine holds at once (registers, shared memory,
 *            threads), the last round of what is left
 *   phases   follow each other; a phase lasts as long as its busiest resource, for the blocks that
 *            share a unit and for the machine's memory
 *   latency  loads that wait for each other, and barriers: not shared with other blocks
 *
 * T = launch + sum over rounds and phases of max over resources. For a product in tiles that is, with
 * the phases start, steps and end,
 *   launch + rounds (1.5 latency + steps max(mma, shared, l2, dram, latency / (stages - 1)) + end)
 * The model's constants are all here, the machines' facts in machines.def.
 */
#include "predict.h"

const double
	launch_us = 1.5,       /* 1 to 2 measured */
	load_clocks = 600,     /* A100, H100: 500 to 700 measured */
	block_clocks = 900,    /* 1.5 loads */
	barrier_clocks = 30;

static const double
	dram_share = 0.88,     /* of the bandwidth that a copy reaches */
	issues = 4,            /* instructions of warps a clock and unit */
	special_lanes = 16,    /* a clock and unit */
	sync_share = 0.88,     /* of a matrix unit's peak, by instructions of warps */
	group_share = 0.8,     /* by those of warp groups */
	amd_share = 0.6,
	/* where warp groups have instructions of their own, those of warps reach less: mma.sync 62.9
	 * % on average on H100 (Luo et al., arXiv:2501.12084); later machines are taken to be alike */
	narrow_share = 0.629;

enum { PARTS = 4 };            /* of a unit: a warp uses those of one */

const char *const resources[N_RESOURCES] = {
	"dram", "l2", "matrix", "fp32", "special", "shared", "issue", "latency"};

static bool
of_group(const Mma *x)
{
	return x->m >= 64;
}

static double
reached(const Machine *t, const Mma *x)
{
	if (t->kind != M_CUDA)
		return amd_share;
	if (of_group(x))
		return group_share;
	return t->cc >= 90 && t->cc < 120 ? narrow_share : sync_share;
}

double
mma_clocks(const Machine *t, const Mma *x)
{
	int bits = dtypes[x->type].bits;
	double rate = x->acc == DT_I32 ? t->i8_clk : (double)t->fp16_clk * 16 / bits;

	return 2.0 * x->m * x->n * x->k / (rate * reached(t, x));
}

static double
least(double a, double b)
{
	return a < b ? a : b;
}

static double
up(double x)
{
	double n = (double)(int64_t)x;

	return n < x ? n + 1 : n;
}

double
gpu_resident(const Machine *t, const Launch *l)
{
	int threads = l->warps * t->warp;
	double n = least(t->blocks_unit, t->threads_unit / threads);

	if (l->shared)
		n = least(n, (double)(t->smem_unit / (l->shared + (t->kind == M_CUDA ? 1024 : 0))));
	if (l->registers)
		n = least(n, t->regs_unit / ((l->registers + 7) / 8 * 8 * threads));
	return n < 1 ? 1 : n;
}

/* Clocks of the phase with so many blocks on a unit, so many at once on the machine. */
static double
phase_clocks(const Machine *t, int warps, const Phase *p, double per, double all, double *by)
{
	double part = least(1, per * warps / PARTS), hz = t->ghz * 1e9, most = 0;
	double of[N_RESOURCES] = {
		[R_DRAM] = all * p->dram / (dram_share * t->gbs * 1e9 / hz),
		[R_L2] = per * p->l2 / t->l2_clk,
		[R_MATRIX] = per * p->matrix / part,
		[R_FP32] = per * p->plain * t->warp * 2 / t->fp32_clk / part,
		[R_SPECIAL] = per * p->special * t->warp / special_lanes / part,
		[R_SHARED] = per * p->passes,
		[R_ISSUE] = per * p->issued / issues / part,
		[R_LATENCY] = p->waits,
	};
	int i, k = 0;

	for (i = 0; i < N_RESOURCES; i++)
		if (of[i] > most)
			most = of[k = i];
	if (by)
		by[k] += most / (hz / 1e6);
	return most;
}

double
work_us(const Machine *t, const Launch *l, const Phase *phases, int n, double *by)
{
	double per = least(gpu_resident(t, l), up(l->blocks / t->units)), clocks = 0,
		one[N_RESOURCES] = {0};
	double rounds = (double)(int64_t)(l->blocks / (per * t->units));
	double rest = l->blocks - rounds * per * t->units;
	int i, k;

	for (i = 0; i < n && rounds > 0; i++)
		clocks += rounds * phase_clocks(t, l->warps, &phases[i], per, per * t->units, one);
	for (k = 0; by && k < N_RESOURCES; k++)
		by[k] += rounds * one[k];
	for (i = 0; i < n && rest > 0; i++)
		clocks += phase_clocks(t, l->warps, &phases[i], up(rest / t->units), rest, by);
	return clocks / (t->ghz * 1e3);
}
