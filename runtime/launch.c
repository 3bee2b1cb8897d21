/* Launching a kernel: on the calling thread, over the pool, over the caller's threads, on a
 * device. args as in abi.h: grid x, y, z, cost, buffers, scalars. */
#include <string.h>
#include "rt.h"

enum {
	ARGS = TCC_LAUNCH_BUFFERS,
	/* Cost units, of which a thread does some 30 in a nanosecond at best: */
	HOT_COST = 1 << 17,     /* what pays a join of threads that spin */
	COLD_COST = 1 << 20,    /* ... that sleep */
	PART_COST = 1 << 16,    /* the least part worth giving away */
};

typedef struct CpuJob {
	TccKernelFn *fn;
	void *const *bufs;
	const int64_t *syms;
	int64_t extent;
	int pieces;             /* the extent is cut into, as equal as can be */
	uint8_t *scratch;
	uint64_t scratch_part;
	int32_t *err;
} CpuJob;

static void run_piece(void *arg, int piece, int thread)
{
	const CpuJob *j = arg;
	int64_t q = j->extent / j->pieces, r = j->extent % j->pieces;
	int64_t begin = q * piece + (piece < r ? piece : r), end = begin + q + (piece < r);
	if (begin < end)
		j->fn(j->bufs, j->syms, begin, end,
		      j->scratch ? j->scratch + j->scratch_part * thread : NULL, j->err);
}

static void run_piece_of_user(void *arg, int64_t piece)
{
	run_piece(arg, (int)piece, (int)piece);
}

/* Pieces of each of n threads: so many that none is held up for long by a slower one or by uneven
 * work, but all worth a switch. */
static int pieces_for(const int64_t *args, int n)
{
	int64_t most = (args[0] + n - 1) / n, cost = args[3] > 0 ? args[3] : 1;
	if (most > TCC_MAX_PIECES)
		most = TCC_MAX_PIECES;
	if (!__builtin_mul_overflow(args[0], cost, &cost) && most > cost / n / PART_COST)
		most = cost / n / PART_COST;
	return most > 1 ? (int)most : 1;
}

/* How many threads share a launch's work. */
static int threads_for(TccContext *ctx, const int64_t *args)
{
	int64_t total, cost = args[3] > 0 ? args[3] : 1, n = ctx->threads;
	if (__builtin_mul_overflow(args[0], cost, &total))
		total = INT64_MAX;
	if (total < HOT_COST)
		return 1;
	if (__builtin_add_overflow(ctx->shareable, total, &ctx->shareable))
		ctx->shareable = INT64_MAX;
	if (total < COLD_COST && ctx->pool && tcc_pool_cold(ctx->pool)) {
		if ((ctx->missed += total) >= COLD_COST) {      /* many small ones: for the next */
			tcc_pool_heat(ctx->pool);
			ctx->missed = 0;
		}
		return 1;
	}
	if (n > total / PART_COST)
		n = total / PART_COST;
	return (int)(n < args[0] ? n : args[0]);
}

static void gather(const TccContext *ctx, uint32_t n, const int64_t *ids, void **bufs)
{
	for (uint32_t i = 0; i < n; i++)
		bufs[i] = ctx->slots[ids[i]].p;
}

static inline CpuJob cpu_job(const TccContext *ctx, uint32_t kernel, const int64_t *args,
                             void *const *bufs)
{
	return (CpuJob){
		.fn = ctx->inst->model->kernels[kernel],
		.bufs = bufs,
		.syms = args + ARGS + ctx->inst->kernels[kernel].nbufs,
		.extent = args[0],
		.scratch = ctx->scratch,
		.scratch_part = ctx->scratch_part,
		.err = &ctx->errors[kernel],
	};
}

int tcc_launch_one(TccContext *ctx, uint32_t kernel, const int64_t *args)
{
	void *bufs[TCC_MAX_ARGS];
	uint32_t nbufs = ctx->inst->kernels[kernel].nbufs;
	gather(ctx, nbufs, args + ARGS, bufs);
	ctx->inst->model->kernels[kernel](bufs, args + ARGS + nbufs, 0, args[0], ctx->scratch,
	                                  &ctx->errors[kernel]);
	return 0;
}

int tcc_launch_pool(TccContext *ctx, uint32_t kernel, const int64_t *args)
{
	void *bufs[TCC_MAX_ARGS];
	int n = threads_for(ctx, args);
	if (n <= 1)
		return tcc_launch_one(ctx, kernel, args);
	ctx->shared = true;
	gather(ctx, ctx->inst->kernels[kernel].nbufs, args + ARGS, bufs);
	CpuJob j = cpu_job(ctx, kernel, args, bufs);
	int pieces = pieces_for(args, n);
	j.pieces = n * pieces;
	tcc_pool_run(ctx->pool, n, pieces, run_piece, &j);
	return 0;
}

int tcc_launch_user(TccContext *ctx, uint32_t kernel, const int64_t *args)
{
	void *bufs[TCC_MAX_ARGS];
	const TccOptions *o = &ctx->inst->options;
	int n = threads_for(ctx, args);
	if (n <= 1)
		return tcc_launch_one(ctx, kernel, args);
	gather(ctx, ctx->inst->kernels[kernel].nbufs, args + ARGS, bufs);
	CpuJob j = cpu_job(ctx, kernel, args, bufs);
	j.pieces = n;
	o->parallel_for(o->parallel_user, n, run_piece_of_user, &j);
	return 0;
}

static int bad_grid(TccContext *ctx, uint32_t kernel, const int64_t *grid)
{
	return tcc_fail(&ctx->err, TCC_BAD_DATA, "kernel %s: a grid of %lld x %lld x %lld blocks is "
	                "more than the device takes",
	                tcc_string(ctx->inst->model, ctx->inst->kernels[kernel].name),
	                (long long)grid[0], (long long)grid[1], (long long)grid[2]);
}

/* v: the map's arguments, as abi.h states them; returns how many. */
static int read_box(const TccMap *row, void *p, const int64_t *v, TccBox *box)
{
	uint32_t size = tcc_dtype_bits(row->dtype) / 8;
	int n = 1, between = row->gathers ? (int)row->rank - 2 : 0;
	*box = (TccBox){.row = row, .p = (uint8_t *)p + v[0] * size, .size = size};
	for (uint32_t i = 0; i < row->rank; i++)
		box->dim[i] = v[n++];
	for (uint32_t i = 1; i < row->rank; i++)
		box->stride[i] = v[n++] * size;
	for (int i = 0; i < between; i++)
		box->lower[i] = v[n++];
	for (int i = 0; i < between; i++)
		box->upper[i] = v[n++];
	return n;
}

static int make_maps(TccContext *ctx, const TccKernel *k, void *const *bufs, const int64_t *v,
                     TccMapArg *maps)
{
	const TccMap *row = (const TccMap *)tcc_rows(ctx->inst->model, ctx->inst->meta->maps) + k->maps;
	TccDevice *dev = ctx->inst->dev;
	int rc = 0;
	if (k->nmaps && !dev->ops->map)
		return tcc_fail(&ctx->err, TCC_NO_DEVICE, "the device copies no boxes");
	for (uint32_t i = 0; !rc && i < k->nmaps; i++) {
		TccBox box;
		v += read_box(&row[i], bufs[row[i].buffer], v, &box);
		rc = dev->ops->map(dev, &box, &maps[i], &ctx->err);
	}
	return rc;
}

int tcc_launch_device(TccContext *ctx, uint32_t kernel, const int64_t *args)
{
	const TccInst *inst = ctx->inst;
	const TccKernel *k = &inst->kernels[kernel];
	void *bufs[TCC_MAX_ARGS], *params[2 * TCC_MAX_ARGS + 1 + TCC_MAX_MAPS];
	TccMapArg maps[TCC_MAX_MAPS];
	uint64_t sizes[TCC_MAX_ARGS];
	const char *names[TCC_MAX_ARGS];
	int32_t *err = (int32_t *)(void *)(ctx->stage.dev + ctx->stage.words) + kernel;
	uint32_t n = k->nbufs + k->nsyms;
	if (args[0] > INT32_MAX || args[1] > 65535 || args[2] > 65535)
		return bad_grid(ctx, kernel, args);
	for (uint32_t i = 0; i < k->nbufs; i++) {
		const TccSlot *s = &ctx->slots[args[ARGS + i]];
		if (inst->resident && tcc_ops(ctx)->queue->need(ctx, s->p, s->size))
			return ctx->err.code;
		bufs[i] = s->p;
		sizes[i] = s->size;
		names[i] = tcc_string(inst->model, inst->buffers[args[ARGS + i]].name);
		params[i] = &bufs[i];
	}
	for (uint32_t i = 0; i < k->nsyms; i++)
		params[k->nbufs + i] = (void *)(args + ARGS + k->nbufs + i);
	if (k->nerrors)
		params[n++] = &err;
	for (uint32_t i = 0; i < k->nmaps; i++)
		params[n++] = &maps[i];
	int rc = args[0] && args[1] && args[2]
		? make_maps(ctx, k, bufs, args + ARGS + k->nbufs + k->nsyms, maps)
		: 0;
	if (rc)
		return rc;
	TccLaunch l = {
		.kernel = kernel,
		.grid = {args[0], args[1], args[2]},
		.params = params,
		.nbufs = k->nbufs,
		.sizes = sizes,
		.names = names,
		.err = k->nerrors ? err : NULL,
		.nmaps = k->nmaps,
	};
	return tcc_queue_launch(ctx, &l, n);
}
