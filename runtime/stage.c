/* What a run moves to a device and back: one transfer each way for all that is small, by pinned
 * memory. */
#include <string.h>
#include "rt.h"

static bool reports_errors(const TccInst *inst)
{
	for (uint32_t i = 0; i < inst->meta->kernels.count; i++)
		if (inst->kernels[i].nerrors)
			return true;
	return false;
}

/* No more than the model's inputs and outputs can need, if that is known. */
static uint64_t part_of_stage(const TccInst *inst, TccTable ports, uint64_t most)
{
	const TccPort *p = tcc_rows(inst->model, ports);
	uint64_t sum = 0;
	for (uint32_t i = 0; i < ports.count; i++) {
		int64_t dims[TCC_MAX_RANK];
		uint64_t bytes = TCC_STAGE_EACH;
		for (int a = 0; a < p[i].rank; a++)
			dims[a] = inst->dims[p[i].dims + a].size;
		if (p[i].kind != TCC_TENSOR || p[i].rank < 0 ||
		    !tcc_tensor_size(p[i].dtype, p[i].rank, dims, NULL, &bytes) || bytes > TCC_STAGE_EACH)
			bytes = TCC_STAGE_EACH;
		sum += tcc_round_up(bytes, TCC_STAGE_ALIGN);
	}
	return sum < most ? sum : most;
}

int tcc_stage_new(TccContext *ctx)
{
	const TccInst *inst = ctx->inst;
	TccStage *s = &ctx->stage;
	TccBlock host = {0};
	void *p = NULL;
	s->words = part_of_stage(inst, inst->meta->inputs, TCC_STAGE_IN);
	s->words_bytes = reports_errors(inst) ? inst->meta->kernels.count * sizeof *ctx->errors : 0;
	s->end = tcc_round_up(s->words + s->words_bytes, TCC_STAGE_ALIGN) +
	         part_of_stage(inst, inst->meta->outputs, TCC_STAGE_OUT);
	int rc = tcc_pinned_fit(ctx, &host, s->end);
	s->host = host.p;
	if (!rc)
		rc = inst->dev->ops->alloc(inst->dev, s->end ? s->end : 1, &p, &ctx->err);
	s->dev = p;
	/* what lies between outputs comes back too */
	if (!rc)
		rc = inst->dev->ops->zero(inst->dev, ctx->stream, p, s->end ? s->end : 1, &ctx->err);
	if (!rc)
		ctx->errors = (int32_t *)(void *)(s->host + s->words);
	return rc;
}

/* Small inputs and zeroed error words, in one transfer. */
int tcc_stage_send(TccContext *ctx)
{
	TccStage *s = &ctx->stage;
	uint64_t bytes = s->words + s->words_bytes - s->low;
	if (!bytes)
		return 0;
	return tcc_queue_move(ctx, TCC_WORK_UP, s->dev + s->low, s->host + s->low, bytes);
}

static bool staged(const TccContext *ctx, const TccOut *o)
{
	return o->from >= ctx->stage.dev && o->from < ctx->stage.dev + ctx->stage.end;
}

/* Error words and small outputs in one transfer, large outputs in one each; the host waits once
 * for all. Transfers to memory of ours belong to the queue's work; the caller's may be another
 * each time. */
static int receive(TccContext *ctx)
{
	TccDevice *dev = ctx->inst->dev;
	TccStage *s = &ctx->stage;
	uint64_t end = s->used_out ? s->high : s->words + s->words_bytes;
	int rc = 0;
	for (uint32_t i = 0; !rc && i < ctx->inst->meta->outputs.count; i++) {
		TccOut *o = &ctx->out[i];
		if (o->download_to && !staged(ctx, o) && o->download_to == o->host.p)
			rc = tcc_queue_move(ctx, TCC_WORK_DOWN, o->download_to, o->from, o->bytes);
	}
	if (!rc && end > s->words)
		rc = tcc_queue_move(ctx, TCC_WORK_DOWN, s->host + s->words, s->dev + s->words,
			end - s->words);
	if (!rc)
		rc = tcc_queue_flush(ctx);
	for (uint32_t i = 0; !rc && i < ctx->inst->meta->outputs.count; i++) {
		TccOut *o = &ctx->out[i];
		if (o->download_to && !staged(ctx, o) && o->download_to != o->host.p)
			rc = dev->ops->download(dev, ctx->stream, o->download_to, o->from, o->bytes, &ctx->err);
	}
	ctx->round_trips++;
	return rc ? rc : tcc_queue_wait(ctx);
}

/* Device results to the host. */
int tcc_stage_receive(TccContext *ctx)
{
	int rc = receive(ctx);
	for (uint32_t i = 0; !rc && i < ctx->inst->meta->outputs.count; i++) {
		const TccOut *o = &ctx->out[i];
		if (o->download_to && staged(ctx, o))
			memcpy(o->download_to, ctx->stage.host + (o->from - ctx->stage.dev), o->bytes);
	}
	return rc;
}

static int upload_piece(TccContext *ctx, uint64_t i)
{
	TccInst *inst = ctx->inst;
	uint64_t at = i * TCC_PIECE, left = inst->model->weights_size - at;
	TccDevice *dev = inst->dev;
	int rc = dev->ops->upload(dev, ctx->stream, inst->dev_weights + at, inst->weights + at,
	                          left < TCC_PIECE ? left : TCC_PIECE, &ctx->err);
	/* other contexts' streams do not wait for this one */
	if (!rc)
		rc = dev->ops->sync(dev, ctx->stream, &ctx->err);
	if (!rc)
		__atomic_store_n(&inst->resident[i], 1, __ATOMIC_RELEASE);
	return rc;
}

int tcc_stage_need(TccContext *ctx, const void *p, uint64_t bytes)
{
	TccInst *inst = ctx->inst;
	uint64_t from = (uint64_t)((const uint8_t *)p - inst->dev_weights),
		size = inst->model->weights_size;
	int rc = 0;
	if (!inst->resident || !bytes || (const uint8_t *)p < inst->dev_weights || from >= size)
		return 0;
	uint64_t last = (bytes < size - from ? from + bytes - 1 : size - 1) / TCC_PIECE;
	for (uint64_t i = from / TCC_PIECE; !rc && i <= last; i++) {
		if (__atomic_load_n(&inst->resident[i], __ATOMIC_ACQUIRE))
			continue;
		pthread_mutex_lock(&inst->piece_lock);
		if (!inst->resident[i])
			rc = upload_piece(ctx, i);
		pthread_mutex_unlock(&inst->piece_lock);
	}
	return rc;
}
