/* Binding a run's inputs: checks them against the model and finds or makes memory for them. */
#include <string.h>
#include "rt.h"

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

bool tcc_on_host(const TccTensor *t)
{
	return t->device_type == TCC_DEV_CPU || t->device_type == TCC_DEV_CUDA_HOST ||
	       t->device_type == TCC_DEV_HIP_HOST;
}

bool tcc_on_device(const TccContext *ctx, const TccTensor *t)
{
	const TccDevice *dev = ctx->inst->dev;
	if (!dev)
		return false;
	if (t->device_type == TCC_DEV_CUDA_MANAGED)
		return dev->ops->device_type == TCC_DEV_CUDA;
	return t->device_type == dev->ops->device_type && t->device_id == dev->ordinal;
}

/* A place in the stage for so many bytes on their way to the device; NULL: none is left. */
static uint8_t *stage_input(TccContext *ctx, uint64_t bytes, uint8_t **dev)
{
	TccStage *s = &ctx->stage;
	uint64_t room = tcc_round_up(bytes, TCC_STAGE_ALIGN);
	if (bytes > TCC_STAGE_EACH || room > s->low)
		return NULL;
	s->low -= room;
	*dev = s->dev + s->low;
	return s->host + s->low;
}

/* Uses the caller's memory where it can, else a copy. */
static int bind_tensor(TccContext *ctx, uint32_t i, const TccTensor *t, uint64_t bytes, TccSlot *s)
{
	const TccDevice *dev = ctx->inst->dev;
	const char *name = tcc_string(ctx->inst->model, ctx->inst->inputs[i].name);
	bool to_dev = dev && ctx->inst->inputs[i].dtype != TCC_STRING, direct = tcc_is_compact(t);
	*s = (TccSlot){.p = tcc_tensor_data(t), .size = bytes, .host = !to_dev};
	if (!tcc_on_host(t)) {
		if (!to_dev || !tcc_on_device(ctx, t) || !direct)
			return tcc_fail(&ctx->err, TCC_BAD_DATA, "input '%s' is on another device, or not "
			                "compact there", name);
		return 0;
	}
	if (direct && !to_dev && aligned(t))
		return 0;
	uint8_t *place = to_dev ? stage_input(ctx, bytes, &s->p) : NULL;
	if (place) {
		if (direct)
			memcpy(place, tcc_tensor_data(t), bytes);
		else
			tcc_compact(place, t);
		return 0;
	}
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

int tcc_bind_inputs(TccContext *ctx, const TccValue *inputs, uint64_t n)
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
