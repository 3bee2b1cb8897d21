/* Memory of a context: blocks that grow, what lives for a run, buffers' slots and the arena. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "rt.h"

enum { HUGE_PAGE = 2 << 20 };

static int fail(TccContext *ctx)
{
	return ctx->run.status = ctx->err.code;
}

/* Large host blocks start on a huge page and ask for them. */
void *tcc_host_block(uint64_t bytes)
{
	void *p;
	if (bytes < 2 * HUGE_PAGE)
		return tcc_alloc(bytes);
	if (bytes > PTRDIFF_MAX - HUGE_PAGE || posix_memalign(&p, HUGE_PAGE, bytes))
		return NULL;
#ifdef MADV_HUGEPAGE
	madvise(p, bytes, MADV_HUGEPAGE);
#endif
	return p;
}

static void *block_new(TccContext *ctx, uint64_t bytes, bool host)
{
	void *p = NULL;
	if (host)
		p = tcc_host_block(bytes);
	else
		tcc_ops(ctx)->alloc(ctx->inst->dev, bytes ? bytes : 1, &p, &ctx->err);
	if (!p)
		tcc_no_memory(&ctx->err, bytes);
	fail(ctx);
	return p;
}

void tcc_block_free(TccContext *ctx, void *p, bool host)
{
	if (host)
		free(p);
	else if (p) {
		tcc_queue_flush(ctx);
		tcc_ops(ctx)->free(ctx->inst->dev, p);
	}
}

int tcc_block_fit(TccContext *ctx, TccBlock *b, uint64_t bytes, bool host)
{
	if (b->p && bytes <= b->cap)
		return 0;
	/* what grew once will grow again: a key-value cache grows by a token a run */
	uint64_t want = b->p && bytes < UINT64_MAX / 2 ? bytes + bytes / 4 : bytes;
	if (!want)
		want = TCC_ALIGN;       /* cap tells who owns a block, so it is not 0 */
	tcc_block_free(ctx, b->p, host);
	*b = (TccBlock){0};
	if (!(b->p = block_new(ctx, want, host)))
		return ctx->run.status;
	b->cap = want;
	return 0;
}

void tcc_pinned_free(TccContext *ctx, void *p)
{
	TccDevice *dev = ctx->inst->dev;
	if (p && dev && dev->ops->unpin)
		dev->ops->unpin(dev, p);
	else
		free(p);
}

int tcc_pinned_fit(TccContext *ctx, TccBlock *b, uint64_t bytes)
{
	TccDevice *dev = ctx->inst->dev;
	if (!dev || !dev->ops->pin)
		return tcc_block_fit(ctx, b, bytes, true);
	if (b->p && bytes <= b->cap)
		return 0;
	uint64_t want = bytes ? bytes : TCC_ALIGN;
	tcc_pinned_free(ctx, b->p);
	*b = (TccBlock){.p = dev->ops->pin(dev, want), .cap = want};
	if (!b->p)
		return ctx->run.status = tcc_no_memory(&ctx->err, want);
	return 0;
}

void *tcc_run_alloc(TccContext *ctx, uint64_t bytes, bool host)
{
	TccChunk *c = ctx->chunks;
	uint64_t need = tcc_round_up(bytes, TCC_ALIGN);
	if (host && c && !c->dev && bytes <= c->size && need <= c->size - c->used) {
		c->used += need;
		return c->data + c->used - need;
	}
	uint64_t size = !host ? 0 : need < TCC_CHUNK ? TCC_CHUNK : need;
	c = bytes > INT64_MAX / 2 ? NULL : tcc_alloc(sizeof *c + size);
	if (!c) {
		tcc_no_memory(&ctx->err, bytes);
		fail(ctx);
		return NULL;
	}
	*c = (TccChunk){.next = ctx->chunks, .used = need, .size = size};
	memset(c->data, 0, size);
	if (!host && !(c->dev = block_new(ctx, bytes, false))) {
		free(c);
		return NULL;
	}
	ctx->chunks = c;
	return host ? c->data : c->dev;
}

void tcc_free_run(TccContext *ctx)
{
	TccChunk *kept = NULL;
	while (ctx->chunks) {
		TccChunk *c = ctx->chunks;
		ctx->chunks = c->next;
		if (c->dev)
			tcc_block_free(ctx, c->dev, false);
		if (kept || c->size != TCC_CHUNK) {
			free(c);
			continue;
		}
		memset(c->data, 0, c->used);
		c->used = 0;
		c->next = NULL;
		kept = c;
	}
	ctx->chunks = kept;
	for (uint32_t i = 0; i < ctx->nlists; i++)
		tcc_block_free(ctx, ctx->lists[i].p, !ctx->inst->dev);
	ctx->nlists = 0;
}

int tcc_move(TccContext *ctx, void *dst, bool dst_host, const void *src, bool src_host,
             uint64_t bytes)
{
	TccDevice *dev = ctx->inst->dev;
	if (!bytes)
		return 0;
	if (!src_host && ctx->inst->resident && dev->ops->queue->need(ctx, src, bytes))
		return fail(ctx);
	if (dst_host != src_host && tcc_queue_flush(ctx))
		return fail(ctx);
	if (dst_host && src_host)
		memmove(dst, src, bytes);
	else if (dst_host) {
		if (!dev->ops->download(dev, ctx->stream, dst, src, bytes, &ctx->err))
			tcc_queue_wait(ctx);
		ctx->round_trips++;
	} else if (src_host) {
		ctx->peek_at = NULL;
		dev->ops->upload(dev, ctx->stream, dst, src, bytes, &ctx->err);
	} else
		tcc_queue_move(ctx, TCC_WORK_COPY, dst, src, bytes);
	return fail(ctx);
}

/* --- slots and the arena ----------------------------------------------------------------- */

static bool keeps_block(const TccBuffer *b)
{
	return b->cls == TCC_BUF_HEAP || b->cls == TCC_BUF_HOST;
}

/* Memory that a buffer has in every run. */
static void set_slot(TccContext *ctx, uint32_t i)
{
	const TccInst *inst = ctx->inst;
	const TccBuffer *b = &inst->buffers[i];
	TccSlot *s = &ctx->slots[i];
	if (keeps_block(b) && s->cap)
		return;
	*s = (TccSlot){.host = !inst->dev || b->cls == TCC_BUF_CONST || b->cls == TCC_BUF_HOST};
	if (b->cls == TCC_BUF_CONST || (b->cls == TCC_BUF_WEIGHT && !inst->dev))
		s->p = inst->constants[i];
	else if (b->cls == TCC_BUF_WEIGHT)
		s->p = inst->dev_weights + b->offset;
	else if (b->cls == TCC_BUF_ARENA && !ctx->planner && ctx->arena.p)
		s->p = (uint8_t *)ctx->arena.p + b->offset;
	else
		return;
	s->size = b->size;
}

/* Puts right what swaps have left. */
void tcc_reset_slots(TccContext *ctx)
{
	for (uint32_t i = 0; i < ctx->nbuffers; i++) {
		TccSlot *s = &ctx->slots[i];
		if (s->cap)
			tcc_block_free(ctx, s->p, s->host);
		s->cap = 0;
	}
	for (uint32_t i = 0; i < ctx->nbuffers; i++)
		set_slot(ctx, i);
	ctx->swapped = false;
}

int tcc_slot_fit(TccContext *ctx, int64_t buffer, uint64_t bytes)
{
	TccSlot *s = &ctx->slots[buffer];
	TccBlock b = {s->cap ? s->p : NULL, s->cap};
	s->host = !ctx->inst->dev || ctx->inst->buffers[buffer].cls == TCC_BUF_HOST;
	int rc = tcc_block_fit(ctx, &b, bytes, s->host);
	s->p = b.p;
	s->cap = b.cap;
	s->size = bytes;
	return rc;
}

static uint64_t hash_sizes(const uint64_t *v, uint32_t n)
{
	uint64_t h = 0x9e3779b97f4a7c15;
	for (uint32_t i = 0; i < n; i++)
		h = (h ^ v[i]) * 0xff51afd7ed558ccd, h ^= h >> 32;
	return h;
}

static TccPlaced *placed_slot(TccContext *ctx, uint64_t hash)
{
	TccPlaced *oldest = ctx->placed;
	for (int i = 0; i < TCC_PLACED; i++) {
		TccPlaced *p = &ctx->placed[i];
		if (p->used_at && p->hash == hash &&
		    !memcmp(p->sizes, ctx->block_sizes, ctx->nblocks * sizeof *p->sizes))
			return p;
		if (p->used_at < oldest->used_at)
			oldest = p;
	}
	oldest->used_at = 0;
	return oldest;
}

static TccPlaced *find_places(TccContext *ctx)
{
	uint64_t hash = hash_sizes(ctx->block_sizes, ctx->nblocks);
	TccPlaced *p = placed_slot(ctx, hash);
	if (!p->used_at) {
		uint64_t bytes = ctx->nblocks * sizeof *p->sizes;
		if (!p->sizes && !(p->sizes = malloc(2 * bytes + 1))) {
			tcc_no_memory(&ctx->err, 2 * bytes);
			return NULL;
		}
		p->offsets = p->sizes + ctx->nblocks;
		memcpy(p->sizes, ctx->block_sizes, bytes);
		p->hash = hash;
		p->total = tcc_planner_place(ctx->planner, p->sizes, p->offsets);
		if (p->total == UINT64_MAX) {
			tcc_no_memory(&ctx->err, p->total);
			return NULL;
		}
	}
	p->used_at = ++ctx->clock;
	return p;
}

static void gather_sizes(TccContext *ctx)
{
	memset(ctx->block_sizes, 0, ctx->nblocks * sizeof *ctx->block_sizes);
	for (uint32_t i = 0; i < ctx->nbuffers; i++) {
		uint32_t b = ctx->block_of[i];
		if (b != UINT32_MAX && ctx->sizes[i] != TCC_NO_SIZE && ctx->sizes[i] > ctx->block_sizes[b])
			ctx->block_sizes[b] = ctx->sizes[i];
	}
}

int tcc_place(TccContext *ctx)
{
	const TccDevice *dev = ctx->inst->dev;
	if (ctx->planner) {
		gather_sizes(ctx);
		TccPlaced *p = find_places(ctx);
		if (!p || tcc_block_fit(ctx, &ctx->arena, p->total, !dev))
			return fail(ctx);
		ctx->arena_bytes = p->total;
		for (uint32_t i = 0; i < ctx->nbuffers; i++) {
			if (ctx->block_of[i] == UINT32_MAX)
				continue;
			ctx->slots[i].p = (uint8_t *)ctx->arena.p + p->offsets[ctx->block_of[i]];
			ctx->slots[i].size = ctx->sizes[i] == TCC_NO_SIZE ? 0 : ctx->sizes[i];
		}
	}
	if (dev && dev->ops->forget && !tcc_queue_flush(ctx))
		dev->ops->forget(ctx->inst->dev, ctx->arena.p, ctx->arena_bytes);
	return ctx->run.status;
}
