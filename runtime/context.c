/* A caller's state: how it is made, what a run does, what it can tell. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "rt.h"

/* Work in kernels that threads can share, in cost units (launch.c), that pays waking them early:
 * some 20 us are won, a wake costs the caller 2. */
enum {
	HEAT_COST = 1 << 20,
	HEAT_REST = 64,         /* runs without, after one whose threads were woken and got nothing */
};

uint64_t tcc_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * UINT64_C(1000000000) + t.tv_nsec;
}

/* --- making a context -------------------------------------------------------------------- */

static uint32_t root_of(const TccBuffer *b, uint32_t i)
{
	while (b[i].alias >= 0)
		i = b[i].alias;
	return i;
}

/* Arena buffers in place of one another form a block, alive as long as any of them. */
static int make_blocks(TccContext *ctx)
{
	const TccBuffer *b = ctx->inst->buffers;
	uint32_t n = ctx->nbuffers, *life = calloc(2 * n + 1, sizeof *life);
	uint32_t *first = life, *last = life + n;
	if (!life)
		return tcc_no_memory(&ctx->err, n);
	for (uint32_t i = 0; i < n; i++) {
		ctx->block_of[i] = UINT32_MAX;
		if (b[i].cls != TCC_BUF_ARENA || b[i].alias >= 0)
			continue;
		first[ctx->nblocks] = b[i].first;
		last[ctx->nblocks] = b[i].last;
		ctx->block_of[i] = ctx->nblocks++;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (b[i].cls != TCC_BUF_ARENA || b[i].alias < 0)
			continue;
		uint32_t k = ctx->block_of[i] = ctx->block_of[root_of(b, i)];
		if (b[i].first < first[k])
			first[k] = b[i].first;
		if (b[i].last > last[k])
			last[k] = b[i].last;
	}
	ctx->planner = tcc_planner_new(ctx->nblocks, first, last);
	free(life);
	return ctx->planner ? 0 : tcc_no_memory(&ctx->err, n);
}

static int make_memory(TccContext *ctx)
{
	const TccInst *inst = ctx->inst;
	const TccMeta *h = inst->meta;
	uint32_t n = ctx->nbuffers = h->buffers.count;
	ctx->slots = calloc(n + 1, sizeof *ctx->slots);
	ctx->sizes = calloc(n + 1, sizeof *ctx->sizes);
	ctx->const_sizes = calloc(n + 1, sizeof *ctx->const_sizes);
	ctx->block_of = calloc(n + 1, sizeof *ctx->block_of);
	ctx->block_sizes = calloc(n + 1, sizeof *ctx->block_sizes);
	ctx->bound = calloc(h->inputs.count + 1, sizeof *ctx->bound);
	ctx->in_copy = calloc(h->inputs.count + 1, sizeof *ctx->in_copy);
	ctx->out = calloc(h->outputs.count + 1, sizeof *ctx->out);
	if (!ctx->slots || !ctx->sizes || !ctx->const_sizes || !ctx->block_of || !ctx->block_sizes ||
	    !ctx->bound || !ctx->in_copy || !ctx->out)
		return tcc_no_memory(&ctx->err, n);
	for (uint32_t i = 0; i < n; i++)
		ctx->const_sizes[i] = inst->buffers[i].size;
	int rc = 0;
	if (!(h->flags & TCC_META_STATIC))
		rc = make_blocks(ctx);
	else if (h->arena_bytes)
		rc = tcc_block_fit(ctx, &ctx->arena, h->arena_bytes, !inst->dev);
	if (!ctx->planner)
		ctx->arena_bytes = h->arena_bytes;
	tcc_reset_slots(ctx);
	return rc;
}

static int make_threads(TccContext *ctx)
{
	const TccInst *inst = ctx->inst;
	const TccOptions *o = &inst->options;
	uint32_t nk = inst->meta->kernels.count;
	if (!inst->dev && !(ctx->errors = calloc(nk + 1, sizeof *ctx->errors)))
		return tcc_no_memory(&ctx->err, nk);
	if (o->profile & TCC_PROFILE_KERNELS)
		ctx->profile = calloc(nk + 1, sizeof *ctx->profile);
	if (o->profile & TCC_PROFILE_KERNELS && !ctx->profile)
		return tcc_no_memory(&ctx->err, nk);
	ctx->threads = o->threads;
	if (inst->dev) {
		ctx->launch = inst->dev->ops->queue->kernel;
		return 0;
	}
	ctx->launch = tcc_launch_one;
	if (o->parallel_for)
		ctx->launch = tcc_launch_user;
	else if (ctx->threads > 1) {
		ctx->launch = tcc_launch_pool;
		if (!(ctx->pool = tcc_pool_new(ctx->threads)))
			return tcc_fail(&ctx->err, TCC_BUDGET, "could not start %d threads", ctx->threads);
	}
	for (uint32_t i = 0; i < nk; i++)
		if (inst->kernels[i].scratch > ctx->scratch_part)
			ctx->scratch_part = inst->kernels[i].scratch;
	/* a page between the parts keeps the prefetchers apart */
	ctx->scratch_part = tcc_round_up(ctx->scratch_part, 4096);
	if (ctx->scratch_part && !(ctx->scratch = tcc_host_block(ctx->scratch_part * ctx->threads)))
		return tcc_no_memory(&ctx->err, ctx->scratch_part);
	return 0;
}

static int make_stream(TccContext *ctx)
{
	TccDevice *dev = ctx->inst->dev;
	if (!dev || dev->ops->enter(dev, &ctx->err))
		return ctx->err.code;
	ctx->stream = ctx->inst->options.stream;
	if (!ctx->stream) {
		if (dev->ops->stream_new(dev, &ctx->stream, &ctx->err))
			return ctx->err.code;
		ctx->own_stream = true;
	}
	return dev->ops->queue->open(ctx);
}

int tcc_context_new(TccInst *inst, TccContext **out)
{
	TccContext *ctx = *out = calloc(1, sizeof *ctx);
	if (!ctx)
		return TCC_BUDGET;
	ctx->run.api = &tcc_api;
	ctx->inst = inst;
	if (inst->err.code || !inst->meta)
		return tcc_fail(&ctx->err, TCC_USAGE, "the model was not loaded: %s", inst->err.text);
	int rc = make_stream(ctx);
	if (!rc)
		rc = make_threads(ctx);
	return rc ? rc : make_memory(ctx);
}

static void free_memory(TccContext *ctx)
{
	const TccMeta *h = ctx->inst->meta;
	bool host = !ctx->inst->dev;
	for (uint32_t i = 0; ctx->slots && i < ctx->nbuffers; i++)
		if (ctx->slots[i].cap)
			tcc_block_free(ctx, ctx->slots[i].p, ctx->slots[i].host);
	for (uint32_t i = 0; ctx->in_copy && i < h->inputs.count; i++)
		tcc_block_free(ctx, ctx->in_copy[i].p, host || ctx->inst->inputs[i].dtype == TCC_STRING);
	for (uint32_t i = 0; ctx->out && i < h->outputs.count; i++) {
		tcc_pinned_free(ctx, ctx->out[i].host.p);
		tcc_block_free(ctx, ctx->out[i].dev.p, host);
	}
	tcc_free_run(ctx);
	tcc_block_free(ctx, ctx->arena.p, host);
	if (!host) {
		tcc_block_free(ctx, ctx->stage.dev, false);
		tcc_pinned_free(ctx, ctx->stage.host);
		ctx->errors = NULL;
	}
}

void tcc_context_free(TccContext *ctx)
{
	if (!ctx)
		return;
	TccDevice *dev = ctx->inst->dev;
	if (!dev || !dev->ops->enter(dev, NULL)) {
		if (dev)
			dev->ops->queue->drop(ctx);
		free_memory(ctx);
		if (dev)
			dev->ops->queue->close(ctx);
	}
	if (ctx->own_stream)
		dev->ops->stream_free(dev, ctx->stream);
	for (int i = 0; i < TCC_PLACED; i++)
		free(ctx->placed[i].sizes);
	tcc_pool_free(ctx->pool);
	tcc_planner_free(ctx->planner);
	void *all[] = {ctx->slots, ctx->sizes, ctx->const_sizes, ctx->block_of, ctx->block_sizes,
	               ctx->bound, ctx->in_copy, ctx->out, ctx->lists, ctx->errors, ctx->profile,
	               ctx->events, ctx->scratch, ctx->chunks};
	for (size_t i = 0; i < TCC_COUNT(all); i++)
		free(all[i]);
	free(ctx);
}

/* --- a run ------------------------------------------------------------------------------- */

/* Wakes the pool's threads for a run whose last one had work for them: they are there when it
 * begins, or, where it begins late and they sleep again, for nothing, which is not soon tried
 * again. */
static void heat(TccContext *ctx)
{
	if (ctx->heated && !ctx->shared)
		ctx->unheated = HEAT_REST;
	ctx->heated = ctx->pool && ctx->shareable > HEAT_COST && !ctx->unheated;
	if (ctx->heated)
		tcc_pool_heat(ctx->pool);
	else if (ctx->unheated)
		ctx->unheated--;
	ctx->shareable = ctx->missed = 0;
	ctx->shared = false;
}

static int start_run(TccContext *ctx)
{
	TccDevice *dev = ctx->inst->dev;
	uint32_t nk = ctx->inst->meta->kernels.count;
	if (dev && dev->ops->enter(dev, &ctx->err))
		return ctx->err.code;
	ctx->nevents = 0;
	if (dev)
		dev->ops->queue->drop(ctx);
	tcc_free_run(ctx);
	if (ctx->swapped)
		tcc_reset_slots(ctx);
	memcpy(ctx->sizes, ctx->const_sizes, ctx->nbuffers * sizeof *ctx->sizes);
	memset(ctx->errors, 0, dev ? ctx->stage.words_bytes : nk * sizeof *ctx->errors);
	ctx->stage.low = ctx->stage.words;
	ctx->stage.used_out = false;
	ctx->stage.high = tcc_round_up(ctx->stage.words + ctx->stage.words_bytes, TCC_STAGE_ALIGN);
	ctx->peek_at = NULL;
	ctx->round_trips = 0;
	for (uint32_t i = 0; i < ctx->inst->meta->outputs.count; i++) {
		ctx->out[i].done = false;
		ctx->out[i].download_to = NULL;
	}
	heat(ctx);
	return 0;
}

static int check_errors(TccContext *ctx)
{
	const TccInst *inst = ctx->inst;
	for (uint32_t k = 0; k < inst->meta->kernels.count &&
		(!inst->dev || ctx->stage.words_bytes); k++) {
		const TccKernel *kernel = &inst->kernels[k];
		int32_t code = ctx->errors[k];
		if (!code)
			continue;
		if (code < 1 || (uint32_t)code > kernel->nerrors)
			return tcc_fail(&ctx->err, TCC_BUG, "kernel %s: unknown error %d",
			                tcc_string(inst->model, kernel->name), code);
		return tcc_fail(&ctx->err, TCC_BAD_DATA, "%s: an index is out of range",
		                tcc_string(inst->model, inst->texts[kernel->errors + code - 1]));
	}
	for (uint32_t i = 0; i < inst->meta->outputs.count; i++)
		if (!ctx->out[i].done)
			return tcc_fail(&ctx->err, TCC_BUG, "output '%s' was not made",
			                tcc_string(inst->model, inst->outputs[i].name));
	return 0;
}

static int sync_for_times(TccContext *ctx)
{
	TccDevice *dev = ctx->inst->dev;
	if (!dev || !(ctx->inst->options.profile & TCC_PROFILE_TRANSFERS))
		return 0;
	return tcc_queue_wait(ctx);
}

static int run(TccContext *ctx, const TccValue *inputs, uint64_t ninputs)
{
	uint64_t start = ctx->began = tcc_now();
	int rc = start_run(ctx);
	if (!rc)
		rc = tcc_bind_inputs(ctx, inputs, ninputs);
	if (!rc)
		rc = ctx->inst->dev ? tcc_ops(ctx)->queue->send(ctx) : 0;
	if (!rc)
		rc = sync_for_times(ctx);
	/* on the host nothing is moved, and a clock is dear beside a small model */
	bool dev = ctx->inst->dev;
	uint64_t bound = dev ? tcc_now() : start;
	ctx->run.status = rc;
	if (!rc)
		rc = ctx->inst->model->plan(&ctx->run);
	if (!rc)
		rc = ctx->run.status ? ctx->run.status : sync_for_times(ctx);
	uint64_t done = tcc_now();
	if (!rc)
		rc = ctx->inst->dev ? tcc_ops(ctx)->queue->receive(ctx) : 0;
	if (!rc)
		rc = check_errors(ctx);
	ctx->times = (TccTimes){bound - start, done - bound, dev ? tcc_now() - done : 0};
	return rc;
}

int tcc_run(TccContext *ctx, const TccValue *inputs, uint64_t ninputs,
            TccValue *outputs, uint64_t noutputs)
{
	if (!ctx->launch)
		return ctx->err.code ? ctx->err.code : TCC_USAGE;
	ctx->err = (TccErr){0};
	ctx->run.status = 0;
	if (noutputs != ctx->inst->meta->outputs.count)
		return tcc_fail(&ctx->err, TCC_USAGE, "room for %llu outputs given, the model has %u",
		                (unsigned long long)noutputs, ctx->inst->meta->outputs.count);
	ctx->outputs = outputs;
	ctx->inputs = inputs;
	ctx->ninputs = ninputs;
	int rc = run(ctx, inputs, ninputs);
	if (rc && ctx->inst->dev) {
		/* the caller may free what transfers are still about */
		tcc_ops(ctx)->queue->drop(ctx);
		tcc_ops(ctx)->sync(ctx->inst->dev, ctx->stream, NULL);
	}
	if (rc && !ctx->err.code)
		tcc_fail(&ctx->err, rc, "the model's plan ended with code %d", rc);
	return rc;
}

/* --- what a context can tell ------------------------------------------------------------- */

const char *tcc_error(const TccContext *ctx)
{
	return ctx ? ctx->err.text : "out of memory";
}

const TccProfile *tcc_profile(const TccContext *ctx)
{
	return ctx->profile;
}

const TccEvent *tcc_events(const TccContext *ctx, uint64_t *n)
{
	*n = ctx->nevents;
	return ctx->events;
}

void tcc_profile_reset(TccContext *ctx)
{
	if (ctx->profile)
		memset(ctx->profile, 0, ctx->inst->meta->kernels.count * sizeof *ctx->profile);
}

TccTimes tcc_times(const TccContext *ctx)
{
	return ctx->times;
}

uint64_t tcc_round_trips(const TccContext *ctx)
{
	return ctx->round_trips;
}

uint64_t tcc_arena_bytes(const TccContext *ctx)
{
	return ctx->arena_bytes;
}

const TccUserApi tcc_user_api = {
	.abi_version = TCC_ABI_VERSION,
	.size = sizeof(TccUserApi),
	.load = tcc_load,
	.unload = tcc_unload,
	.inst_error = tcc_inst_error,
	.context_new = tcc_context_new,
	.context_free = tcc_context_free,
	.error = tcc_error,
	.run = tcc_run,
	.times = tcc_times,
	.arena_bytes = tcc_arena_bytes,
};
