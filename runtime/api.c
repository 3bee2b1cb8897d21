/* The entry points of a plan (abi.h, part 4). A plan is compiled code: ids are not checked. */
#include <stdlib.h>
#include <string.h>
#include "rt.h"

static TccContext *of(TccRun *run)
{
	return (TccContext *)run;
}

/* After a call that may have set ctx->err. */
static int32_t result(TccContext *ctx)
{
	return ctx->run.status = ctx->err.code;
}

/* --- shapes ------------------------------------------------------------------------------ */

static int64_t api_dim(TccRun *run, int64_t input, int64_t axis)
{
	TccContext *ctx = of(run);
	const TccBound *b = &ctx->bound[input];
	if (axis < 0 || axis >= b->rank)
		return 0;
	if (b->shape)
		return b->shape[axis];
	int64_t n = ctx->inst->dims[ctx->inst->inputs[input].dims + axis].size;
	return n < 0 ? 0 : n;
}

static int64_t api_rank(TccRun *run, int64_t input)
{
	return of(run)->bound[input].rank;
}

static int64_t api_present(TccRun *run, int64_t input)
{
	return of(run)->bound[input].given;
}

/* Puts a and b for $0 and $1. */
static void fill_in(char *to, size_t size, const char *text, int64_t a, int64_t b)
{
	size_t at = 0;
	while (*text && at + 1 < size) {
		if (text[0] == '$' && (text[1] == '0' || text[1] == '1')) {
			int n = snprintf(to + at, size - at, "%lld", (long long)(text[1] == '0' ? a : b));
			at += (size_t)n < size - at ? (size_t)n : size - at - 1;
			text += 2;
		} else {
			to[at++] = *text++;
		}
	}
	to[at] = 0;
}

static int32_t api_check(TccRun *run, int64_t cond, int64_t text, int64_t a, int64_t b)
{
	TccContext *ctx = of(run);
	char message[400];
	if (run->status || cond)
		return run->status;
	fill_in(message, sizeof message, tcc_string(ctx->inst->model, ctx->inst->texts[text]), a, b);
	tcc_fail(&ctx->err, TCC_BAD_DATA, "%s", message);
	return result(ctx);
}

/* --- memory ------------------------------------------------------------------------------ */

static bool bad_size(TccContext *ctx, int64_t buffer, int64_t bytes)
{
	if (bytes >= 0)
		return false;
	const char *name = tcc_string(ctx->inst->model, ctx->inst->buffers[buffer].name);
	tcc_fail(&ctx->err, TCC_BAD_DATA, "the size of '%s' is negative or overflows", name);
	result(ctx);
	return true;
}

static int32_t api_size(TccRun *run, int64_t buffer, int64_t bytes)
{
	TccContext *ctx = of(run);
	if (!run->status && !bad_size(ctx, buffer, bytes))
		ctx->sizes[buffer] = bytes;
	return run->status;
}

static int32_t api_place(TccRun *run)
{
	if (run->status)
		return run->status;
	tcc_place(of(run));
	return result(of(run));
}

static int32_t api_alloc(TccRun *run, int64_t buffer, int64_t bytes)
{
	TccContext *ctx = of(run);
	if (!run->status && !bad_size(ctx, buffer, bytes))
		tcc_slot_fit(ctx, buffer, bytes);
	return run->status;
}

/* Small blocks are kept for the next run. */
static int32_t api_release(TccRun *run, int64_t buffer)
{
	TccContext *ctx = of(run);
	TccSlot *s = &ctx->slots[buffer];
	if (s->cap > 1 << 16) {
		tcc_block_free(ctx, s->p, s->host);
		s->cap = 0;
		s->p = NULL;
	}
	s->size = 0;
	return run->status;
}

static int32_t api_copy(TccRun *run, int64_t dst, int64_t dst_offset, int64_t src,
                        int64_t src_offset, int64_t bytes)
{
	TccContext *ctx = of(run);
	TccSlot *d = &ctx->slots[dst], *s = &ctx->slots[src];
	if (!run->status && bytes > 0)
		tcc_move(ctx, d->p + dst_offset, d->host, s->p + src_offset, s->host, bytes);
	return run->status;
}

static int32_t api_swap(TccRun *run, int64_t a, int64_t b)
{
	TccContext *ctx = of(run);
	TccSlot t = ctx->slots[a];
	ctx->slots[a] = ctx->slots[b];
	ctx->slots[b] = t;
	ctx->swapped = true;
	return run->status;
}

static int32_t api_alias(TccRun *run, int64_t buffer, int64_t base, int64_t offset)
{
	TccContext *ctx = of(run);
	const TccSlot *b = &ctx->slots[base];
	TccSlot *s = &ctx->slots[buffer];
	if (run->status)
		return run->status;
	if (s->cap)
		tcc_block_free(ctx, s->p, s->host);
	*s = (TccSlot){
		.p = b->p ? b->p + offset : NULL,
		.size = (uint64_t)offset < b->size ? b->size - offset : 0,
		.host = b->host,
	};
	return 0;
}

/* --- kernels ----------------------------------------------------------------------------- */

static int note_event(TccContext *ctx, uint32_t kernel, uint64_t start, uint64_t ns)
{
	if (ctx->nevents == ctx->events_cap) {
		uint64_t cap = 2 * ctx->events_cap + 256;
		void *p = realloc(ctx->events, cap * sizeof *ctx->events);
		if (!p)
			return tcc_no_memory(&ctx->err, cap * sizeof *ctx->events);
		ctx->events = p;
		ctx->events_cap = cap;
	}
	ctx->events[ctx->nevents++] = (TccEvent){kernel, start - ctx->began, ns};
	return 0;
}

static int timed_launch(TccContext *ctx, uint32_t kernel, const int64_t *args)
{
	const TccKernel *k = &ctx->inst->kernels[kernel];
	TccDevice *dev = ctx->inst->dev;
	TccProfile *p = &ctx->profile[kernel];
	double units = (double)args[0] * args[1] * args[2];
	uint64_t start = tcc_now();
	int rc = ctx->launch(ctx, kernel, args);
	if (!rc && dev)
		rc = tcc_queue_wait(ctx);
	uint64_t ns = tcc_now() - start;
	if (!rc && ctx->inst->options.profile & TCC_PROFILE_EVENTS)
		rc = note_event(ctx, kernel, start, ns);
	p->ns += ns;
	p->launches++;
	p->flops += units * k->flops;
	for (uint32_t i = 0; i < k->nbufs; i++)
		p->bytes += (double)ctx->slots[args[TCC_LAUNCH_BUFFERS + i]].size;
	return rc;
}

static int32_t api_launch(TccRun *run, int64_t kernel, const int64_t *args)
{
	TccContext *ctx = of(run);
	if (run->status || args[0] <= 0 || args[1] <= 0 || args[2] <= 0)
		return run->status;
	if (ctx->profile)
		return run->status = timed_launch(ctx, (uint32_t)kernel, args);
	return run->status = ctx->launch(ctx, (uint32_t)kernel, args);
}

/* Fetches all of a small buffer, once for all its elements. False: it is large. */
static bool peek(TccContext *ctx, const TccSlot *s)
{
	if (s->size > sizeof ctx->peeked)
		return false;
	if (ctx->peek_at == s->p && ctx->peek_bytes == s->size)
		return true;
	if (!tcc_move(ctx, ctx->peeked, true, s->p, false, s->size)) {
		ctx->peek_at = s->p;
		ctx->peek_bytes = s->size;
	}
	return true;
}

/* An input of the caller's in host memory, of which the device has a copy. */
static bool given_on_host(const TccContext *ctx, const TccSlot *s)
{
	return s->value && s->value >= ctx->inputs && s->value < ctx->inputs + ctx->ninputs &&
	       s->value->kind == TCC_TENSOR && tcc_on_host(&s->value->u.tensor) &&
	       tcc_is_compact(&s->value->u.tensor);
}

static int64_t api_load(TccRun *run, int64_t buffer, int64_t dtype, int64_t index)
{
	TccContext *ctx = of(run);
	const TccSlot *s = &ctx->slots[buffer];
	uint64_t bits = tcc_dtype_bits((uint32_t)dtype), word[2] = {0};
	/* plans read an element of a list that may be shorter, and choose by its length afterwards */
	if (run->status || !bits || ((uint64_t)index + 1) * bits > s->size * 8)
		return 0;
	if (s->host)
		return tcc_element_int((uint32_t)dtype, s->p, index);
	if (given_on_host(ctx, s))
		return tcc_element_int((uint32_t)dtype, tcc_tensor_data(&s->value->u.tensor), index);
	if (peek(ctx, s))
		return run->status ? 0 : tcc_element_int((uint32_t)dtype, ctx->peeked, index);
	uint64_t in_byte = bits < 8 ? 8 / bits : 1;
	if (tcc_move(ctx, word, true, s->p + index * bits / 8, false, bits < 8 ? 1 : bits / 8))
		return 0;
	return tcc_element_int((uint32_t)dtype, word, bits < 8 ? index % in_byte : 0);
}

static int64_t api_host(TccRun *run, int64_t fn, const int64_t *args)
{
	TccContext *ctx = of(run);
	if (run->status)
		return 0;
	if (tcc_host_call)
		return tcc_host_call(ctx, fn, args);
	tcc_fail(&ctx->err, TCC_BUG, "the program was linked without -u tcc_host_call");
	result(ctx);
	return 0;
}

/* --- lists ------------------------------------------------------------------------------- */

static int64_t api_list_new(TccRun *run)
{
	TccContext *ctx = of(run);
	if (run->status)
		return 0;
	/* a power of two is full */
	if (!(ctx->nlists & (ctx->nlists - 1))) {
		uint64_t bytes = (ctx->nlists ? 2 * (uint64_t)ctx->nlists : 1) * sizeof *ctx->lists;
		void *p = realloc(ctx->lists, bytes);
		if (!p) {
			tcc_no_memory(&ctx->err, bytes);
			result(ctx);
			return 0;
		}
		ctx->lists = p;
	}
	ctx->lists[ctx->nlists] = (TccList){0};
	return ctx->nlists++;
}

static int list_grow(TccContext *ctx, TccList *l, uint64_t bytes)
{
	bool host = !ctx->inst->dev;
	TccBlock b = {0};
	uint64_t want = 2 * l->cap > l->used + bytes ? 2 * l->cap : l->used + bytes;
	if (tcc_block_fit(ctx, &b, want, host))
		return ctx->run.status;
	tcc_move(ctx, b.p, host, l->p, host, l->used);
	/* the copy is in the stream's order, the release is not */
	if (!host && !tcc_queue_flush(ctx))
		tcc_ops(ctx)->sync(ctx->inst->dev, ctx->stream, &ctx->err);
	tcc_block_free(ctx, l->p, host);
	l->p = b.p;
	l->cap = b.cap;
	return result(ctx);
}

static int32_t api_list_push(TccRun *run, int64_t list, int64_t buffer, int64_t bytes)
{
	TccContext *ctx = of(run);
	TccList *l = &ctx->lists[list];
	const TccSlot *s = &ctx->slots[buffer];
	if (run->status || bad_size(ctx, buffer, bytes))
		return run->status;
	if (l->cap - l->used < (uint64_t)bytes && list_grow(ctx, l, bytes))
		return run->status;
	if (tcc_move(ctx, l->p + l->used, !ctx->inst->dev, s->p, s->host, bytes))
		return run->status;
	l->used += bytes;
	l->count++;
	return 0;
}

static int64_t api_list_count(TccRun *run, int64_t list)
{
	return run->status ? 0 : (int64_t)of(run)->lists[list].count;
}

/* The buffer takes the list's memory; the list is empty then. */
static int64_t api_list_concat(TccRun *run, int64_t list, int64_t dst)
{
	TccContext *ctx = of(run);
	if (run->status)
		return 0;
	TccList *l = &ctx->lists[list];
	TccSlot *s = &ctx->slots[dst];
	int64_t bytes = l->used;
	if (!l->cap) {
		tcc_slot_fit(ctx, dst, 0);
		return 0;
	}
	if (s->cap)
		tcc_block_free(ctx, s->p, s->host);
	*s = (TccSlot){.p = l->p, .size = l->used, .cap = l->cap, .host = !ctx->inst->dev};
	*l = (TccList){0};
	return bytes;
}

/* --- outputs ----------------------------------------------------------------------------- */

static int wrong_output(TccContext *ctx, int64_t i, const char *why)
{
	return tcc_fail(&ctx->err, TCC_BAD_DATA, "output '%s': the memory given for it %s",
	                tcc_string(ctx->inst->model, ctx->inst->outputs[i].name), why);
}

/* Not so when it is what the previous run left there. */
static bool callers_memory(const TccContext *ctx, int64_t i)
{
	const TccValue *v = &ctx->outputs[i];
	const void *ours = ctx->out[i].host.p;
	return v->kind == TCC_TENSOR && !(ours && v->u.tensor.data == ours);
}

/* Whether the caller's tensor can take the result; writes the shape into it. */
static int use_callers(TccContext *ctx, int64_t i, int rank, const int64_t *dims, uint64_t count)
{
	TccValue *v = &ctx->outputs[i];
	TccTensor *t = &v->u.tensor;
	uint64_t room;
	uint32_t dtype = ctx->inst->outputs[i].dtype;
	if (tcc_dtype_of(t) != dtype)
		return wrong_output(ctx, i, "has another element type");
	if (t->ndim != rank)
		return wrong_output(ctx, i, "has another rank");
	if (!tcc_on_host(t) && (dtype == TCC_STRING || !tcc_on_device(ctx, t)))
		return wrong_output(ctx, i, "is on another device");
	if (!tcc_tensor_size(dtype, rank, t->shape, &room, NULL) || !tcc_is_compact(t))
		return wrong_output(ctx, i, "has a bad shape or strides");
	if (room < count || (count && !t->data))
		return wrong_output(ctx, i, "is too small");
	if (rank)
		memcpy(t->shape, dims, rank * sizeof *dims);
	t->strides = NULL;
	v->dtype = dtype;
	return 0;
}

static int use_ours(TccContext *ctx, int64_t i, int rank, const int64_t *dims, uint64_t bytes)
{
	uint32_t dtype = ctx->inst->outputs[i].dtype;
	TccOut *o = &ctx->out[i];
	int64_t *shape = tcc_run_alloc(ctx, rank * sizeof *shape, true);
	if (!shape || tcc_pinned_fit(ctx, &o->host, bytes))
		return ctx->run.status;
	if (rank)
		memcpy(shape, dims, rank * sizeof *dims);
	TccValue *v = &ctx->outputs[i];
	*v = (TccValue){.kind = TCC_TENSOR, .dtype = dtype};
	tcc_tensor_set(&v->u.tensor, dtype, rank, shape, o->host.p);
	return 0;
}

/* A place in the stage for so many bytes on their way to the host; NULL: none is left. */
static uint8_t *stage_output(TccContext *ctx, uint64_t bytes)
{
	TccStage *s = &ctx->stage;
	uint64_t room = tcc_round_up(bytes, TCC_STAGE_ALIGN);
	if (bytes > TCC_STAGE_EACH || room > s->end - s->high)
		return NULL;
	s->high += room;
	s->used_out = true;
	return s->dev + s->high - room;
}

/* Where a kernel writes output i: the result's memory, or a block of the device. */
static int bind_output(TccContext *ctx, int64_t i, TccSlot *s, uint64_t bytes)
{
	TccOut *o = &ctx->out[i];
	const TccDevice *dev = ctx->inst->dev;
	const TccTensor *t = &ctx->outputs[i].u.tensor;
	bool host = !dev || ctx->inst->outputs[i].dtype == TCC_STRING;
	*s = (TccSlot){.p = tcc_tensor_data(t), .size = bytes, .host = host};
	if (host || tcc_on_device(ctx, t))
		return 0;
	o->download_to = s->p;
	o->bytes = bytes;
	if (!(s->p = stage_output(ctx, bytes))) {
		if (tcc_block_fit(ctx, &o->dev, bytes, false))
			return ctx->run.status;
		s->p = o->dev.p;
	}
	o->from = s->p;
	if (dev->ops->forget)
		dev->ops->forget(ctx->inst->dev, s->p, bytes);
	return 0;
}

static int copy_output(TccContext *ctx, int64_t i, const TccSlot *s, uint64_t bytes)
{
	const TccTensor *t = &ctx->outputs[i].u.tensor;
	TccOut *o = &ctx->out[i];
	bool host = !tcc_on_device(ctx, t);
	uint8_t *place = host && !s->host && bytes ? stage_output(ctx, bytes) : NULL;
	if (!place)
		return tcc_move(ctx, tcc_tensor_data(t), host, s->p, s->host, bytes);
	o->download_to = tcc_tensor_data(t);
	o->from = place;
	o->bytes = bytes;
	return tcc_move(ctx, place, false, s->p, false, bytes);
}

/* Brings a value's tensors to the host. */
static int take_value(TccContext *ctx, TccValue *dst, const TccValue *src)
{
	*dst = *src;
	TccTensor *t = &dst->u.tensor;
	if (src->kind == TCC_SEQUENCE) {
		uint64_t n = src->u.seq.n;
		dst->u.seq.items = tcc_run_alloc(ctx, n * sizeof *dst, true);
		for (uint64_t k = 0; dst->u.seq.items && k < n && !ctx->run.status; k++)
			take_value(ctx, &dst->u.seq.items[k], &src->u.seq.items[k]);
	} else if (src->kind == TCC_TENSOR && ctx->inst->dev &&
	           t->device_type == tcc_ops(ctx)->device_type) {
		uint64_t bytes = 0;
		tcc_tensor_size(src->dtype, t->ndim, t->shape, NULL, &bytes);
		void *from = t->data;
		t->data = tcc_run_alloc(ctx, bytes, true);
		t->device_type = TCC_DEV_CPU;
		if (t->data)
			tcc_move(ctx, t->data, true, from, false, bytes);
	}
	return ctx->run.status;
}

static int output_tensor(TccContext *ctx, int64_t i, int64_t buffer, int rank,
                         const int64_t *dims)
{
	const TccBuffer *b = &ctx->inst->buffers[buffer];
	uint64_t count, bytes;
	if (!tcc_tensor_size(ctx->inst->outputs[i].dtype, rank, dims, &count, &bytes))
		return tcc_fail(&ctx->err, TCC_BAD_DATA, "output '%s': its size is negative or overflows",
		                tcc_string(ctx->inst->model, ctx->inst->outputs[i].name));
	int rc = callers_memory(ctx, i) ? use_callers(ctx, i, rank, dims, count)
	                                : use_ours(ctx, i, rank, dims, bytes);
	if (rc)
		return rc;
	if (b->cls == TCC_BUF_OUTPUT && b->index == i)
		return bind_output(ctx, i, &ctx->slots[buffer], bytes);
	return copy_output(ctx, i, &ctx->slots[buffer], bytes);
}

static int32_t api_output(TccRun *run, int64_t i, int64_t buffer, int64_t rank,
                          const int64_t *dims)
{
	static const TccValue none;
	TccContext *ctx = of(run);
	if (run->status)
		return run->status;
	const TccValue *v = ctx->slots[buffer].value;
	if (ctx->inst->buffers[buffer].cls == TCC_BUF_VALUE ||
	    ctx->inst->outputs[i].kind != TCC_TENSOR)
		take_value(ctx, &ctx->outputs[i], v ? v : &none);
	else if (rank < 0 || rank > TCC_MAX_RANK)
		tcc_fail(&ctx->err, TCC_BUG, "output %lld has rank %lld", (long long)i, (long long)rank);
	else
		output_tensor(ctx, i, buffer, (int)rank, dims);
	ctx->out[i].done = true;
	return result(ctx);
}

const TccApi tcc_api = {
#define ENTRY(type, name, sig, params) .name = api_##name,
	TCC_API(ENTRY)
#undef ENTRY
};
