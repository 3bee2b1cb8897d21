/*
 * Calls of a user's operators in C (abi.h, TccFunction). Arguments: the result's buffer, its
 * number, type, rank and sizes; the buffer of the attributes and their bytes; how many operands,
 * and of each -1, or its buffer, type, rank and sizes.
 */
#include <string.h>
#include "host.h"

/* What the arguments at *a say of a tensor: type, rank, sizes; false after an error. */
static bool described(TccContext *ctx, const int64_t **a, TccValue *v, uint64_t *bytes)
{
	uint32_t dtype = (uint32_t)(*a)[0];
	int64_t rank = (*a)[1], *shape;
	if (rank < 0 || rank > TCC_MAX_RANK || !tcc_tensor_size(dtype, (int)rank, *a + 2, NULL, bytes))
		return host_fail(ctx, "a tensor's size is negative or overflows");
	shape = tcc_run_alloc(ctx, (uint64_t)rank * sizeof *shape, true);
	if (!shape)
		return false;
	if (rank)
		memcpy(shape, *a + 2, (uint64_t)rank * sizeof *shape);
	*v = (TccValue){.kind = TCC_TENSOR, .dtype = dtype};
	tcc_tensor_set(&v->u.tensor, dtype, (int)rank, shape, NULL);
	*a += 2 + rank;
	return true;
}

/* ir/library.c wrote them. */
static const TccFunctionAttr *attributes(TccContext *ctx, const char *p, uint64_t size, uint32_t *n)
{
	uint32_t head[4];
	TccFunctionAttr *list;
	const char *end = p + size;
	*n = 0;
	for (const char *q = p; end - q >= (long)sizeof head; q += sizeof head + head[2] + head[3],
		++*n)
		memcpy(head, q, sizeof head);
	list = tcc_run_alloc(ctx, *n * sizeof *list, true);
	for (uint32_t i = 0; list && i < *n; i++) {
		memcpy(head, p, sizeof head);
		list[i] = (TccFunctionAttr){.name = p + sizeof head, .kind = head[0], .n = head[1]};
		list[i].u.s = p + sizeof head + head[2];
		p += sizeof head + head[2] + head[3];
	}
	return list;
}

static bool operands(TccContext *ctx, const int64_t *a, TccValue *v, uint32_t n)
{
	uint64_t bytes;
	for (uint32_t i = 0; i < n; i++) {
		int64_t buffer = *a++;
		v[i] = (TccValue){.kind = TCC_NONE};
		if (buffer < 0)
			continue;
		if (!described(ctx, &a, &v[i], &bytes))
			return false;
		if (bytes && !(v[i].u.tensor.data = (void *)host_bytes(ctx, buffer, bytes)))
			return false;
	}
	return true;
}

int64_t tcc_function_call(TccContext *ctx, uint64_t k, const int64_t *a)
{
	const TccModel *m = tcc_inst_model(ctx->inst);
	TccCall call = {.size = sizeof call, .result = (uint32_t)a[1]};
	TccValue out, *in;
	uint64_t bytes, attr_bytes;
	const int64_t *p = a + 2;
	if (k >= m->nfunctions)
		return host_fail(ctx, "the model calls a function that it does not have");
	if (!described(ctx, &p, &out, &bytes))
		return 0;
	attr_bytes = (uint64_t)p[1];
	call.ninputs = (uint32_t)p[2];
	const char *attrs = attr_bytes ? host_bytes(ctx, p[0], attr_bytes) : "";
	in = tcc_run_alloc(ctx, call.ninputs * sizeof *in, true);
	out.u.tensor.data = tcc_run_alloc(ctx, bytes, true);
	if (!attrs || !in || !out.u.tensor.data || !operands(ctx, p + 3, in, call.ninputs))
		return 0;
	call.attrs = attributes(ctx, attrs, attr_bytes, &call.nattrs);
	call.inputs = in;
	call.output = &out;
	if (m->functions[k](&call))
		return host_fail(ctx, call.error ? call.error : "an operator's function failed");
	return host_deliver(ctx, a[0], out.u.tensor.data, bytes);
}
