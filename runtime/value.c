/* Values that own their memory: what files are read into and written from. */
#include <stdlib.h>
#include <string.h>
#include "rt.h"

/* Header of a tensor's one block: the shape, then (aligned) the data. */
static int tensor_new(TccValue *v, uint32_t dtype, int rank, const int64_t *dims, uint64_t extra,
                      TccErr *err)
{
	uint64_t bytes;
	*v = (TccValue){0};
	if (rank < 0 || rank > TCC_MAX_RANK)
		return tcc_fail(err, TCC_BAD_DATA, "a tensor of rank %d; at most %d are supported", rank,
		                TCC_MAX_RANK);
	if (!tcc_dtype_bits(dtype))
		return tcc_fail(err, TCC_BAD_DATA, "unknown element type %u", dtype);
	if (!tcc_tensor_size(dtype, rank, dims, NULL, &bytes))
		return tcc_fail(err, TCC_BAD_DATA, "a tensor's size is negative or overflows");
	uint64_t head = tcc_round_up(rank * sizeof(int64_t) + 1, TCC_ALIGN), total;
	if (__builtin_add_overflow(bytes, extra, &total) || __builtin_add_overflow(total, head, &total))
		return tcc_no_memory(err, UINT64_MAX);
	int64_t *block = tcc_alloc(total);
	if (!block)
		return tcc_no_memory(err, total);
	memset(block, 0, total);
	if (rank)
		memcpy(block, dims, rank * sizeof *dims);
	v->kind = TCC_TENSOR;
	v->dtype = dtype;
	tcc_tensor_set(&v->u.tensor, dtype, rank, block, (char *)block + head);
	return 0;
}

void tcc_tensor_set(TccTensor *t, uint32_t dtype, int rank, int64_t *shape, void *data)
{
	TccDtypeInfo info = {0};
	tcc_dtype_info(dtype, &info);
	*t = (TccTensor){
		.data = data, .device_type = TCC_DEV_CPU, .ndim = rank,
		.code = info.code, .bits = info.bits, .lanes = 1, .shape = shape,
	};
}

int tcc_tensor_new(TccValue *v, uint32_t dtype, int rank, const int64_t *dims, TccErr *err)
{
	return tensor_new(v, dtype, rank, dims, 0, err);
}

int tcc_strings_new(TccValue *v, int rank, const int64_t *dims, uint64_t bytes, TccErr *err)
{
	return tensor_new(v, TCC_STRING, rank, dims, bytes, err);
}

char *tcc_strings_bytes(const TccValue *v)
{
	return (char *)((TccStr *)v->u.tensor.data + tcc_tensor_count(&v->u.tensor));
}

int tcc_sequence_new(TccValue *v, uint32_t dtype, uint64_t n, TccErr *err)
{
	*v = (TccValue){.kind = TCC_SEQUENCE, .dtype = dtype};
	v->u.seq.items = calloc(n + !n, sizeof *v->u.seq.items);
	if (!v->u.seq.items)
		return tcc_no_memory(err, n);
	v->u.seq.n = n;
	return 0;
}

int tcc_map_new(TccValue *v, uint32_t dtype, TccErr *err)
{
	*v = (TccValue){.kind = TCC_MAP, .dtype = dtype};
	v->u.map.keys = calloc(2, sizeof *v->u.map.keys);
	if (!v->u.map.keys) {
		v->kind = TCC_NONE;
		return tcc_no_memory(err, 2 * sizeof *v);
	}
	v->u.map.values = v->u.map.keys + 1;
	return 0;
}

void tcc_value_free(TccValue *v)
{
	switch (v->kind) {
	case TCC_TENSOR:
		free(v->u.tensor.shape);
		break;
	case TCC_SEQUENCE:
		for (uint64_t i = 0; i < v->u.seq.n; i++)
			tcc_value_free(&v->u.seq.items[i]);
		free(v->u.seq.items);
		break;
	case TCC_MAP:
		tcc_value_free(v->u.map.keys);
		tcc_value_free(v->u.map.values);
		free(v->u.map.keys);
		break;
	}
	*v = (TccValue){0};
}

uint64_t tcc_tensor_count(const TccTensor *t)
{
	uint64_t n = 1;
	for (int i = 0; i < t->ndim; i++)
		n *= t->shape[i];
	return n;
}

bool tcc_is_compact(const TccTensor *t)
{
	int64_t want = 1;
	if (!t->strides || !tcc_tensor_count(t))
		return true;
	for (int i = t->ndim; i-- > 0; want *= t->shape[i])
		if (t->shape[i] != 1 && t->strides[i] != want)
			return false;
	return true;
}

void tcc_compact(void *dst, const TccTensor *t)
{
	const char *src = tcc_tensor_data(t);
	uint64_t size = t->bits / 8, n = tcc_tensor_count(t);
	if (tcc_is_compact(t)) {
		if (n)
			memcpy(dst, src, (n * t->bits + 7) / 8);
		return;
	}
	int64_t at[TCC_MAX_RANK] = {0};
	char *out = dst;
	for (uint64_t i = 0; i < n; i++, out += size) {
		memcpy(out, src, size);
		for (int a = t->ndim; a-- > 0;) {
			src += t->strides[a] * (int64_t)size;
			if (++at[a] < t->shape[a])
				break;
			src -= at[a] * t->strides[a] * (int64_t)size;
			at[a] = 0;
		}
	}
}

static int strings_copy(TccValue *dst, const TccTensor *t, TccErr *err)
{
	uint64_t n = tcc_tensor_count(t), bytes = 0;
	const TccStr *s = tcc_tensor_data(t);
	for (uint64_t i = 0; i < n; i++)
		bytes += s[i].size;
	int rc = tcc_strings_new(dst, t->ndim, t->shape, bytes, err);
	if (rc)
		return rc;
	char *to = tcc_strings_bytes(dst);
	TccStr *d = dst->u.tensor.data;
	for (uint64_t i = 0; i < n; i++) {
		if (s[i].size)
			memcpy(to, s[i].data, s[i].size);
		d[i] = (TccStr){to, s[i].size};
		to += s[i].size;
	}
	return 0;
}

static int tensor_copy(TccValue *dst, const TccValue *src, TccErr *err)
{
	const TccTensor *t = &src->u.tensor;
	if (src->dtype == TCC_STRING && tcc_is_compact(t))
		return strings_copy(dst, t, err);
	int rc = tcc_tensor_new(dst, src->dtype, t->ndim, t->shape, err);
	if (!rc)
		tcc_compact(dst->u.tensor.data, t);
	return rc;
}

int tcc_value_copy(TccValue *dst, const TccValue *src, TccErr *err)
{
	int rc = 0;
	*dst = (TccValue){0};
	switch (src->kind) {
	case TCC_TENSOR:
		rc = tensor_copy(dst, src, err);
		break;
	case TCC_SEQUENCE:
		rc = tcc_sequence_new(dst, src->dtype, src->u.seq.n, err);
		for (uint64_t i = 0; !rc && i < src->u.seq.n; i++)
			rc = tcc_value_copy(&dst->u.seq.items[i], &src->u.seq.items[i], err);
		break;
	case TCC_MAP:
		rc = tcc_map_new(dst, src->dtype, err);
		if (!rc)
			rc = tcc_value_copy(dst->u.map.keys, src->u.map.keys, err);
		if (!rc)
			rc = tcc_value_copy(dst->u.map.values, src->u.map.values, err);
		break;
	}
	if (rc)
		tcc_value_free(dst);
	return rc;
}
