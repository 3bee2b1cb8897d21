/* Functions of tests/ops/functions.ops. */
#include <string.h>
#include <tcc-ml/abi.h>

static const TccFunctionAttr *attr(const TccCall *c, const char *name)
{
	for (uint32_t i = 0; i < c->nattrs; i++)
		if (!strcmp(c->attrs[i].name, name))
			return &c->attrs[i];
	return NULL;
}

static int64_t count(const TccTensor *t)
{
	int64_t n = 1;
	for (int i = 0; i < t->ndim; i++)
		n *= t->shape[i];
	return n;
}

/* The rows of x sorted upward, or where each element came from; plus `by`, times gain. */
int test_sorted(TccCall *c)
{
	const TccTensor *x = &c->inputs[0].u.tensor, *y = &c->output->u.tensor;
	const float *by = c->inputs[1].kind == TCC_NONE ? NULL : c->inputs[1].u.tensor.data,
		*v = x->data;
	int64_t n = x->shape[1];
	for (int64_t r = 0; r < x->shape[0]; r++, v += n)
		for (int64_t i = 0; i < n; i++) {
			int64_t place = 0;
			for (int64_t k = 0; k < n; k++)
				place += v[k] < v[i] || (v[k] == v[i] && k < i);
			if (c->result == 0)
				((float *)y->data)[r * n + place] = (v[i] + (by ? *by : 0)) *
					(float)*attr(c, "gain")->u.f;
			else
				((int64_t *)y->data)[r * n + place] = i;
		}
	return 0;
}

/* Each integer of the attribute that often as the operand says; what else the attributes hold. */
int test_spread(TccCall *c)
{
	const TccFunctionAttr *list = attr(c, "list"), *mode = attr(c, "mode"),
		*scales = attr(c, "scales");
	const int64_t *x = c->inputs[0].u.tensor.data;
	double *y = c->output->u.tensor.data;
	if (strcmp(mode->u.s, "plain")) {
		c->error = "there is only a plain mode";
		return 1;
	}
	for (int64_t i = 0, n = count(&c->inputs[0].u.tensor); i < n; i++)
		for (uint32_t k = 0; k < list->n; k++)
			y[i * list->n + k] = (double)(x[i] * list->u.i[k]) * scales->u.f[0];
	return 0;
}
