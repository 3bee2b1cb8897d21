/* A caller's state: memory, threads and the binding of inputs and outputs to a run. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "rt.h"

enum { HUGE_PAGE = 2 << 20 };

uint64_t tcc_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * UINT64_C(1000000000) + t.tv_nsec;
}

/* --- memory ------------------------------------------------------------------------------ */

static int fail(TccContext *ctx)
{
	return ctx->run.status = ctx->err.code;
}

/* Large host blocks start on a huge page and ask for them. */
static void *host_block(uint64_t bytes)
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
		p = host_block(bytes);
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
	else if (p)
		tcc_ops(ctx)->free(ctx->inst->dev, p);
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

void *tcc_run_alloc(TccContext *ctx, uint64_t bytes, bool host)
{
	TccChunk *c = ctx->chunks;
	uint64_t need = tcc_round_up(bytes, TCC_ALIGN);
	if (host && c && !c->dev && bytes <= c->size && need <= c->size - c->used) {
		c->used += need;
		return c->data + c->used - need;
	}
	uint64_t size = !host ? 0 : need < 4096 ? 4096 : need;
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

static void free_run(TccContext *ctx)
{
	while (ctx->chunks) {
		TccChunk *c = ctx->chunks;
		ctx->chunks = c->next;
		if (c->dev)
			tcc_block_free(ctx, c->dev, false);
		free(c);
	}
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
	if (dst_host && src_host)
		memmove(dst, src, bytes);
	else if (dst_host)
		dev->ops->download(dev, ctx->stream, dst, src, bytes, &ctx->err);
	else if (src_host)
		dev->ops->upload(dev, ctx->stream, dst, src, bytes, &ctx->err);
	else
		dev->ops->copy(dev, ctx->stream, dst, src, bytes, &ctx->err);
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
static void reset_slots(TccContext *ctx)
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
	if (dev && dev->ops->forget)
		dev->ops->forget(ctx->inst->dev, ctx->arena.p, ctx->arena_bytes);
	return 0;
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
	reset_slots(ctx);
	return rc;
}

static int make_threads(TccContext *ctx)
{
	const TccInst *inst = ctx->inst;
	const TccOptions *o = &inst->options;
	uint32_t nk = inst->meta->kernels.count;
	ctx->errors = calloc(nk + 1, sizeof *ctx->errors);
	if (o->profile & TCC_PROFILE_KERNELS)
		ctx->profile = calloc(nk + 1, sizeof *ctx->profile);
	if (!ctx->errors || (o->profile & TCC_PROFILE_KERNELS && !ctx->profile))
		return tcc_no_memory(&ctx->err, nk);
	ctx->threads = o->threads;
	if (inst->dev) {
		ctx->launch = tcc_launch_device;
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
	if (ctx->scratch_part && !(ctx->scratch = host_block(ctx->scratch_part * ctx->threads)))
		return tcc_no_memory(&ctx->err, ctx->scratch_part);
	return 0;
}

static int make_stream(TccContext *ctx)
{
	TccDevice *dev = ctx->inst->dev;
	void *p = NULL;
	if (!dev || dev->ops->enter(dev, &ctx->err))
		return ctx->err.code;
	ctx->stream = ctx->inst->options.stream;
	if (!ctx->stream) {
		if (dev->ops->stream_new(dev, &ctx->stream, &ctx->err))
			return ctx->err.code;
		ctx->own_stream = true;
	}
	uint32_t nk = ctx->inst->meta->kernels.count;
	dev->ops->alloc(dev, (nk + 1) * sizeof *ctx->errors, &p, &ctx->err);
	ctx->dev_errors = p;
	return ctx->err.code;
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
		free(ctx->out[i].host.p);
		tcc_block_free(ctx, ctx->out[i].dev.p, host);
	}
	free_run(ctx);
	tcc_block_free(ctx, ctx->arena.p, host);
	tcc_block_free(ctx, ctx->dev_errors, host);
}

void tcc_context_free(TccContext *ctx)
{
	if (!ctx)
		return;
	TccDevice *dev = ctx->inst->dev;
	if (!dev || !dev->ops->enter(dev, NULL))
		free_memory(ctx);
	if (ctx->own_stream)
		dev->ops->stream_free(dev, ctx->stream);
	for (int i = 0; i < TCC_PLACED; i++)
		free(ctx->placed[i].sizes);
	tcc_pool_free(ctx->pool);
	tcc_planner_free(ctx->planner);
	void *all[] = {ctx->slots, ctx->sizes, ctx->const_sizes, ctx->block_of, ctx->block_sizes,
	               ctx->bound, ctx->in_copy, ctx->out, ctx->lists, ctx->errors, ctx->profile,
	               ctx->scratch};
	for (size_t i = 0; i < TCC_COUNT(all); i++)
		free(all[i]);
	free(ctx);
}

/* --- inputs ------------------------------------------------------------------------------ */

static int wrong_input(TccContext *ctx, const TccPort *p, const TccTensor *t, uint32_t dtype)
{
	const TccInst *inst = ctx->inst;
	char want[200], got[200];
	int64_t dims[TCC_MAX_RANK];
	const char *symbols[TCC_MAX_RANK];
	for (int a = 0; a < p->rank; a++) {
		dims[a] = inst->dims[p->dims + a].size;
		symbols[a] = tcc_string(inst->model, inst->dims[p->dims + a].symbol);
	}
	tcc_type_text(want, sizeof want, p->dtype, p->rank, dims, symbols);
	tcc_type_text(got, sizeof got, dtype, t->ndim, t->shape, NULL);
	return tcc_fail(&ctx->err, TCC_BAD_DATA, "input '%s' is %s, the model takes %s",
	                tcc_string(inst->model, p->name), got, want);
}

static int check_dims(TccContext *ctx, const TccPort *p, const TccTensor *t)
{
	const TccInst *inst = ctx->inst;
	for (int a = 0; p->rank >= 0 && a < p->rank; a++) {
		const TccDim *d = &inst->dims[p->dims + a];
		int64_t n = t->shape[a];
		if (d->size >= 0 && n != d->size)
			return wrong_input(ctx, p, t, p->dtype);
		if (d->hi && (n < d->lo || n > d->hi))
			return tcc_fail(&ctx->err, TCC_BAD_DATA, "input '%s', dimension %d is %lld; the model "
			                "was compiled for %lld to %lld", tcc_string(inst->model, p->name), a,
			                (long long)n, (long long)d->lo, (long long)d->hi);
	}
	return 0;
}

/* Type, rank and dims; sets the bytes. */
static int check_tensor(TccContext *ctx, const TccPort *p, const TccValue *v, uint64_t *bytes)
{
	const TccTensor *t = &v->u.tensor;
	const char *name = tcc_string(ctx->inst->model, p->name);
	uint32_t dtype = tcc_dtype_of(t);
	if (t->ndim < 0 || t->ndim > TCC_MAX_RANK || (t->ndim && !t->shape))
		return tcc_fail(&ctx->err, TCC_USAGE, "input '%s': a bad rank or no shape", name);
	if (dtype != p->dtype || (v->dtype && v->dtype != dtype) ||
	    (p->rank >= 0 && t->ndim != p->rank))
		return wrong_input(ctx, p, t, dtype);
	if (!tcc_tensor_size(dtype, t->ndim, t->shape, NULL, bytes))
		return tcc_fail(&ctx->err, TCC_BAD_DATA, "input '%s': its size is negative or overflows",
		                name);
	if (*bytes && !t->data)
		return tcc_fail(&ctx->err, TCC_USAGE, "input '%s' has no data", name);
	if (!tcc_is_compact(t) && t->bits < 8)
		return tcc_fail(&ctx->err, TCC_UNSUPPORTED, "input '%s': strides of packed elements", name);
	return check_dims(ctx, p, t);
}

static bool aligned(const TccTensor *t)
{
	uint64_t unit = t->bits / 8;
	if (unit > 8)
		unit = 8;
	return unit < 2 || (uintptr_t)tcc_tensor_data(t) % unit == 0;
}

static bool on_host(const TccTensor *t)
{
	return t->device_type == TCC_DEV_CPU || t->device_type == 3 || t->device_type == 11;
}

/* Uses the caller's memory where it can, else a copy. */
static int bind_tensor(TccContext *ctx, uint32_t i, const TccTensor *t, uint64_t bytes, TccSlot *s)
{
	const TccDevice *dev = ctx->inst->dev;
	const char *name = tcc_string(ctx->inst->model, ctx->inst->inputs[i].name);
	bool to_dev = dev && ctx->inst->inputs[i].dtype != TCC_STRING, direct = tcc_is_compact(t);
	*s = (TccSlot){.p = tcc_tensor_data(t), .size = bytes, .host = !to_dev};
	if (!on_host(t)) {
		if (!to_dev || t->device_type != dev->ops->device_type || t->device_id != dev->ordinal ||
		    !direct)
			return tcc_fail(&ctx->err, TCC_BAD_DATA, "input '%s' is on another device, or not "
			                "compact there", name);
		return 0;
	}
	if (direct && !to_dev && aligned(t))
		return 0;
	if (tcc_block_fit(ctx, &ctx->in_copy[i], bytes, !to_dev))
		return ctx->run.status;
	s->p = ctx->in_copy[i].p;
	if (!to_dev) {
		tcc_compact(s->p, t);
		return 0;
	}
	if (direct)
		return tcc_move(ctx, s->p, false, tcc_tensor_data(t), true, bytes);
	void *flat = tcc_run_alloc(ctx, bytes, true);
	if (!flat)
		return ctx->run.status;
	tcc_compact(flat, t);
	return tcc_move(ctx, s->p, false, flat, true, bytes);
}

static const TccValue none_value;

static int bind_absent(TccContext *ctx, uint32_t i, TccSlot *s)
{
	const TccInst *inst = ctx->inst;
	const TccPort *p = &inst->inputs[i];
	ctx->bound[i] = (TccBound){.rank = p->rank};
	*s = (TccSlot){.host = !inst->dev || p->dtype == TCC_STRING, .size = p->default_size};
	if (p->default_offset != TCC_NO_DEFAULT) {
		s->p = s->host ? inst->constants[inst->meta->buffers.count + i]
		               : inst->dev_weights + p->default_offset;
		return 0;
	}
	s->value = &none_value;
	if (p->optional)
		return 0;
	return tcc_fail(&ctx->err, TCC_BAD_DATA, "input '%s' is missing",
	                tcc_string(inst->model, p->name));
}

static const char *kind_name(uint32_t kind)
{
	static const char *const names[] = {"nothing", "a tensor", "a sequence", "a map"};
	return kind < TCC_COUNT(names) ? names[kind] : "an unknown kind of value";
}

static int bind_input(TccContext *ctx, uint32_t i, const TccValue *v)
{
	const TccPort *p = &ctx->inst->inputs[i];
	TccSlot unused, *s = p->buffer == UINT32_MAX ? &unused : &ctx->slots[p->buffer];
	uint64_t bytes;
	if (!v || v->kind == TCC_NONE)
		return bind_absent(ctx, i, s);
	if (v->kind != p->kind)
		return tcc_fail(&ctx->err, TCC_BAD_DATA, "input '%s' is %s, the model takes %s",
		                tcc_string(ctx->inst->model, p->name), kind_name(v->kind),
		                kind_name(p->kind));
	ctx->bound[i] = (TccBound){.given = true};
	if (v->kind != TCC_TENSOR) {
		*s = (TccSlot){.value = v, .host = true};
		return 0;
	}
	int rc = check_tensor(ctx, p, v, &bytes);
	if (rc)
		return rc;
	ctx->bound[i].rank = v->u.tensor.ndim;
	ctx->bound[i].shape = v->u.tensor.shape;
	rc = bind_tensor(ctx, i, &v->u.tensor, bytes, s);
	s->value = v;
	return rc;
}

static int bind_inputs(TccContext *ctx, const TccValue *inputs, uint64_t n)
{
	uint32_t count = ctx->inst->meta->inputs.count;
	if (n > count)
		return tcc_fail(&ctx->err, TCC_USAGE, "%llu inputs given, the model has %u",
		                (unsigned long long)n, count);
	for (uint32_t i = 0; i < count; i++) {
		int rc = bind_input(ctx, i, i < n ? &inputs[i] : NULL);
		if (rc)
			return rc;
	}
	return 0;
}

/* --- a run ------------------------------------------------------------------------------- */

static int start_run(TccContext *ctx)
{
	TccDevice *dev = ctx->inst->dev;
	uint32_t nk = ctx->inst->meta->kernels.count;
	if (dev && dev->ops->enter(dev, &ctx->err))
		return ctx->err.code;
	free_run(ctx);
	if (ctx->swapped)
		reset_slots(ctx);
	memcpy(ctx->sizes, ctx->const_sizes, ctx->nbuffers * sizeof *ctx->sizes);
	memset(ctx->errors, 0, nk * sizeof *ctx->errors);
	for (uint32_t i = 0; i < ctx->inst->meta->outputs.count; i++) {
		ctx->out[i].done = false;
		ctx->out[i].download_to = NULL;
	}
	if (ctx->pool && ctx->last_ns > 30000)
		tcc_pool_heat(ctx->pool);
	return dev ? dev->ops->zero(dev, ctx->stream, ctx->dev_errors,
	                            (nk + 1) * sizeof *ctx->errors, &ctx->err) : 0;
}

/* Device results to the host; the download of the error words waits for all kernels. */
static int fetch(TccContext *ctx)
{
	TccDevice *dev = ctx->inst->dev;
	uint32_t nk = ctx->inst->meta->kernels.count;
	if (!dev)
		return 0;
	int rc = nk ? tcc_move(ctx, ctx->errors, true, ctx->dev_errors, false, nk * sizeof *ctx->errors)
	            : dev->ops->sync(dev, ctx->stream, &ctx->err);
	for (uint32_t i = 0; !rc && i < ctx->inst->meta->outputs.count; i++) {
		TccOut *o = &ctx->out[i];
		if (o->download_to)
			rc = tcc_move(ctx, o->download_to, true, o->dev.p, false, o->bytes);
	}
	return rc;
}

static int check_errors(TccContext *ctx)
{
	const TccInst *inst = ctx->inst;
	for (uint32_t k = 0; k < inst->meta->kernels.count; k++) {
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
	return dev->ops->sync(dev, ctx->stream, &ctx->err);
}

static int run(TccContext *ctx, const TccValue *inputs, uint64_t ninputs)
{
	uint64_t start = tcc_now();
	int rc = start_run(ctx);
	if (!rc)
		rc = bind_inputs(ctx, inputs, ninputs);
	if (!rc)
		rc = sync_for_times(ctx);
	uint64_t bound = tcc_now();
	ctx->run.status = rc;
	if (!rc)
		rc = ctx->inst->model->plan(&ctx->run);
	if (!rc)
		rc = ctx->run.status ? ctx->run.status : sync_for_times(ctx);
	uint64_t done = tcc_now();
	if (!rc)
		rc = fetch(ctx);
	if (!rc)
		rc = check_errors(ctx);
	ctx->last_ns = done - bound;
	ctx->times = (TccTimes){bound - start, done - bound, tcc_now() - done};
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
	int rc = run(ctx, inputs, ninputs);
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

void tcc_profile_reset(TccContext *ctx)
{
	if (ctx->profile)
		memset(ctx->profile, 0, ctx->inst->meta->kernels.count * sizeof *ctx->profile);
}

TccTimes tcc_times(const TccContext *ctx)
{
	return ctx->times;
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
