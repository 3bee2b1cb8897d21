/* Values in files, and comparing them. */
#include <math.h>
#include <string.h>
#include "cmd.h"

static int
read_port(const TccModel *model, bool output, int i, const char *name, const char *file, TccValue *v, TccErr *err)
{
	const TccMeta *meta = (const TccMeta *)(const void *)model->meta;
	const TccTable *t = output ? &meta->outputs : &meta->inputs;
	const TccPort *ports = (const TccPort *)(const void *)(model->meta + t->offset);
	int64_t dims[TCC_MAX_RANK];
	TccWant want = tcc_want(model, &ports[i], dims);

	if (output) {                            /* the file says what is expected: nothing is taken over */
		want.rank = -1;
		want.dims = NULL;
	}
	return tcc_read_value(file, name, &want, v, err);
}

int
read_input(const TccModel *model, int i, const char *name, const char *file, TccValue *v, TccErr *err)
{
	return read_port(model, false, i, name, file, v, err);
}

int
read_output(const TccModel *model, int i, const char *name, const char *file, TccValue *v, TccErr *err)
{
	return read_port(model, true, i, name, file, v, err);
}

static bool
differ(char *why, size_t size, const char *fmt, double a, double b, long long at)
{
	snprintf(why, size, fmt, a, b, at);
	return false;
}

static bool
close_enough(double a, double b, double rtol, double atol)
{
	if (isnan(a) || isnan(b))
		return isnan(a) && isnan(b);
	if (isinf(a) || isinf(b))
		return a == b;
	return fabs(a - b) <= atol + rtol * fabs(b);
}

static bool
strings_equal(const TccTensor *g, const TccTensor *w, uint64_t n, char *why, size_t size)
{
	const TccStr *a = tcc_tensor_data(g), *b = tcc_tensor_data(w);
	uint64_t i;

	for (i = 0; i < n; i++)
		if (a[i].size != b[i].size || memcmp(a[i].data, b[i].data, a[i].size)) {
			snprintf(why, size, "element %llu is \"%.*s\", expected \"%.*s\"", (unsigned long long)i,
				(int)a[i].size, a[i].data, (int)b[i].size, b[i].data);
			return false;
		}
	return true;
}

static bool
tensors_equal(const TccValue *got, const TccValue *want, double rtol, double atol, char *why, size_t size)
{
	const TccTensor *g = &got->u.tensor, *w = &want->u.tensor;
	uint64_t n, i, bad = 0, first = 0;
	double a, b, worst = 0;
	int d;

	if (got->dtype != want->dtype) {
		snprintf(why, size, "type %s, expected %s", tcc_dtype_name(got->dtype), tcc_dtype_name(want->dtype));
		return false;
	}
	for (d = 0; d < g->ndim && g->ndim == w->ndim && g->shape[d] == w->shape[d]; d++)
		;
	if (g->ndim != w->ndim || d < g->ndim) {
		char x[128], y[128];
		tcc_type_text(x, sizeof x, got->dtype, g->ndim, g->shape, NULL);
		tcc_type_text(y, sizeof y, want->dtype, w->ndim, w->shape, NULL);
		snprintf(why, size, "shape %s, expected %s", x, y);
		return false;
	}
	n = tcc_tensor_count(g);
	if (got->dtype == TCC_STRING)
		return strings_equal(g, w, n, why, size);
	for (i = 0; i < n; i++) {
		if (got->dtype == TCC_F32 || got->dtype == TCC_F64 || tcc_dtype_bits(got->dtype) < 32 || got->dtype == TCC_U32) {
			a = tcc_element(got->dtype, tcc_tensor_data(g), i);
			b = tcc_element(want->dtype, tcc_tensor_data(w), i);
			if (close_enough(a, b, rtol, atol))
				continue;
		} else {
			int64_t x = tcc_element_int(got->dtype, tcc_tensor_data(g), i), y = tcc_element_int(want->dtype, tcc_tensor_data(w), i);
			a = (double)x, b = (double)y;
			if (x == y || close_enough(a, b, rtol, atol))
				continue;
		}
		if (!bad++)
			first = i;
		if (fabs(a - b) > worst)
			worst = fabs(a - b);
	}
	if (!bad)
		return true;
	a = tcc_element(got->dtype, tcc_tensor_data(g), first);
	b = tcc_element(want->dtype, tcc_tensor_data(w), first);
	snprintf(why, size, "%llu of %llu elements differ, the first is %.9g, expected %.9g, at %llu; largest difference %g",
		(unsigned long long)bad, (unsigned long long)n, a, b, (unsigned long long)first, worst);
	return false;
}

bool
values_equal(const TccValue *got, const TccValue *want, double rtol, double atol, char *why, size_t size)
{
	uint64_t i;

	if (got->kind != want->kind)
		return differ(why, size, "kind of value %g, expected %g%.0lld", got->kind, want->kind, 0);
	switch (got->kind) {
	case TCC_TENSOR:
		return tensors_equal(got, want, rtol, atol, why, size);
	case TCC_SEQUENCE:
		if (got->u.seq.n != want->u.seq.n)
			return differ(why, size, "sequence of %g values, expected %g%.0lld", (double)got->u.seq.n, (double)want->u.seq.n, 0);
		for (i = 0; i < got->u.seq.n; i++)
			if (!values_equal(&got->u.seq.items[i], &want->u.seq.items[i], rtol, atol, why, size))
				return false;
		return true;
	case TCC_MAP:
		return values_equal(got->u.map.keys, want->u.map.keys, rtol, atol, why, size)
			&& values_equal(got->u.map.values, want->u.map.values, rtol, atol, why, size);
	default:
		return true;
	}
}
