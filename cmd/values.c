/* Values: in files, made up, as constants of the IR; and comparing them. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "cmd.h"

/* ---- files --------------------------------------------------------------------------------- */

static int
read_port(const TccModel *model, bool output, int i, const char *name, const char *file,
	TccValue *v, TccErr *err)
{
	const TccMeta *meta = tcc_meta(model);
	const TccPort *ports = tcc_rows(model, output ? meta->outputs : meta->inputs);
	int64_t dims[TCC_MAX_RANK];
	TccWant want = tcc_want(model, &ports[i], dims);

	if (output) {        /* the file says what is expected: nothing is taken over */
		want.rank = -1;
		want.dims = NULL;
	}
	return tcc_read_value(file, name, &want, v, err);
}

int
read_input(const TccModel *model, int i, const char *name, const char *file, TccValue *v,
	TccErr *err)
{
	return read_port(model, false, i, name, file, v, err);
}

int
read_output(const TccModel *model, int i, const char *name, const char *file, TccValue *v,
	TccErr *err)
{
	return read_port(model, true, i, name, file, v, err);
}

/* ---- comparing ----------------------------------------------------------------------------- */

typedef struct Why { char *at; size_t size; } Why;

static bool
differ(const Why *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->at, w->size, fmt, ap);
	va_end(ap);
	return false;
}

/* Bits of the significand and exponent of the smallest number; 0 bits: not a float. */
static int
float_bits(uint32_t dtype, int *least)
{
	switch (dtype) {
	case TCC_F64: *least = -1074; return 53;
	case TCC_F32: *least = -149; return 24;
	case TCC_F16: *least = -24; return 11;
	case TCC_BF16: *least = -133; return 8;
	case TCC_F8E4M3FN: *least = -9; return 4;
	case TCC_F8E4M3FNUZ: *least = -10; return 4;
	case TCC_F8E5M2: *least = -16; return 3;
	case TCC_F8E5M2FNUZ: *least = -17; return 3;
	default: return 0;
	}
}

/* |a - b| in units of b's last place. */
static double
ulps(double a, double b, uint32_t dtype)
{
	int least = 0, bits = float_bits(dtype, &least), e;

	if (!bits)
		return fabs(a - b);
	frexp(b, &e);
	e -= bits;
	return ldexp(fabs(a - b), -(b == 0 || e < least ? least : e));
}

static bool
close_enough(double a, double b, uint32_t dtype, const Tolerance *t)
{
	if (isnan(a) || isnan(b))
		return isnan(a) && isnan(b);
	if (isinf(a) || isinf(b))
		return a == b;
	if (t->max_ulp >= 0)
		return ulps(a, b, dtype) <= t->max_ulp;
	/* bfloat16 has 8 bits: where the default stands, the official tests allow 2^-6 */
	return fabs(a - b) <= t->atol + (dtype == TCC_BF16 && t->rtol == DEFAULT_RTOL ? 0x1p-6
		: t->rtol) * fabs(b);
}

static bool
strings_equal(const TccTensor *g, const TccTensor *w, uint64_t n, const Why *why)
{
	const TccStr *a = tcc_tensor_data(g), *b = tcc_tensor_data(w);
	uint64_t i;

	for (i = 0; i < n; i++)
		if (a[i].size != b[i].size || (a[i].size && memcmp(a[i].data, b[i].data, a[i].size)))
			return differ(why, "element %llu is \"%.*s\", expected \"%.*s\"", (unsigned long long)i,
				(int)(a[i].size < 200 ? a[i].size : 200), a[i].data,
				(int)(b[i].size < 200 ? b[i].size : 200), b[i].data);
	return true;
}

static bool
same_shape(const TccValue *got, const TccValue *want, const Why *why)
{
	const TccTensor *g = &got->u.tensor, *w = &want->u.tensor;
	char x[128], y[128];
	int d;

	for (d = 0; d < g->ndim && g->ndim == w->ndim && g->shape[d] == w->shape[d]; d++)
		;
	if (g->ndim == w->ndim && d == g->ndim)
		return true;
	tcc_type_text(x, sizeof x, got->dtype, g->ndim, g->shape, NULL);
	tcc_type_text(y, sizeof y, want->dtype, w->ndim, w->shape, NULL);
	return differ(why, "shape %s, expected %s", x, y);
}

/* Elements that differ. */
typedef struct Differences { uint64_t n, first; double got, want, worst, worst_ulp; } Differences;

/* Wide integers are compared exactly, and as doubles where they differ. */
static void
compare_element(const TccValue *got, const TccValue *want, uint64_t i, const Tolerance *tol,
	Differences *d)
{
	const void *g = tcc_tensor_data(&got->u.tensor), *w = tcc_tensor_data(&want->u.tensor);
	double a = tcc_element(got->dtype, g, i), b = tcc_element(want->dtype, w, i), u;
	bool wide = want->dtype == TCC_I64 || want->dtype == TCC_U64;

	if (wide && tcc_element_int(got->dtype, g, i) == tcc_element_int(want->dtype, w, i))
		return;
	if ((!wide || a != b) && close_enough(a, b, want->dtype, tol))
		return;
	if (!d->n++) {
		d->first = i;
		d->got = a;
		d->want = b;
	}
	u = ulps(a, b, want->dtype);
	d->worst = fmax(d->worst, fabs(a - b));
	d->worst_ulp = fmax(d->worst_ulp, u);
}

/* A complex tensor's parts as elements of their own. */
static void
parts(const TccValue *v, TccValue *as, int64_t *shape)
{
	*as = *v;
	if (v->dtype != TCC_C64 && v->dtype != TCC_C128)
		return;
	shape[0] = (int64_t)tcc_tensor_count(&v->u.tensor) * 2;
	tcc_tensor_set(&as->u.tensor, v->dtype == TCC_C64 ? TCC_F32 : TCC_F64, 1, shape,
		tcc_tensor_data(&v->u.tensor));
	as->dtype = v->dtype == TCC_C64 ? TCC_F32 : TCC_F64;
}

static bool
tensors_equal(const TccValue *got, const TccValue *want, const Tolerance *tol, const Why *why)
{
	Differences d = {0};
	int64_t n1, n2;
	TccValue a, b;
	uint64_t i, n;

	if (got->dtype != want->dtype)
		return differ(why, "type %s, expected %s", tcc_dtype_name(got->dtype),
			tcc_dtype_name(want->dtype));
	if (!same_shape(got, want, why))
		return false;
	if (got->dtype == TCC_STRING)
		return strings_equal(&got->u.tensor, &want->u.tensor, tcc_tensor_count(&got->u.tensor),
			why);
	parts(got, &a, &n1);
	parts(want, &b, &n2);
	n = tcc_tensor_count(&a.u.tensor);
	for (i = 0; i < n; i++)
		compare_element(&a, &b, i, tol, &d);
	if (!d.n)
		return true;
	return differ(why,
		"%llu of %llu elements differ, the first is %.9g, expected %.9g, at %llu; "
		"largest difference %.3g (%.3g ulp)", (unsigned long long)d.n, (unsigned long long)n,
		d.got, d.want, (unsigned long long)d.first, d.worst, d.worst_ulp);
}

/* The keys of a map in the order of the other's, if they are the same set: maps have no order. */
static bool
maps_equal(const TccValue *got, const TccValue *want, const Tolerance *tol, const Why *why)
{
	const Tolerance exact = {0, 0, -1};
	char inner[400];

	if (!values_equal(got->u.map.keys, want->u.map.keys, &exact, inner, sizeof inner))
		return differ(why, "keys: %s", inner);
	return values_equal(got->u.map.values, want->u.map.values, tol, why->at, why->size);
}

bool
values_equal(const TccValue *got, const TccValue *want, const Tolerance *tol, char *text,
	size_t size)
{
	static const char *const kinds[] = {"absent", "a tensor", "a sequence", "a map"};
	const Why why = {text, size};
	char inner[500];
	uint64_t i;

	if (got->kind != want->kind)
		return differ(&why, "it is %s, expected %s", kinds[got->kind & 3], kinds[want->kind & 3]);
	switch (got->kind) {
	case TCC_TENSOR:
		return tensors_equal(got, want, tol, &why);
	case TCC_SEQUENCE:
		if (got->u.seq.n != want->u.seq.n)
			return differ(&why, "a sequence of %llu, expected %llu",
				(unsigned long long)got->u.seq.n,
				(unsigned long long)want->u.seq.n);
		for (i = 0; i < got->u.seq.n; i++)
			if (!values_equal(&got->u.seq.items[i], &want->u.seq.items[i], tol, inner,
				sizeof inner))
				return differ(&why, "item %llu: %s", (unsigned long long)i, inner);
		return true;
	case TCC_MAP:
		return maps_equal(got, want, tol, &why);
	default:
		return true;
	}
}

/* ---- constants of the IR ------------------------------------------------------------------- */

Node *
node_of_value(Module *m, const TccValue *v)
{
	const TccTensor *t = &v->u.tensor;
	DType dt = v->kind == TCC_TENSOR ? dtype_of_onnx((int)v->dtype) : DT_NONE;
	uint64_t n, i, bytes;
	const TccStr *s;
	Data *d;

	if (dt == DT_NONE || t->ndim > MAX_RANK)
		return NULL;
	n = tcc_tensor_count(t);
	if (dt != DT_STRING) {
		if (!tcc_tensor_size(v->dtype, t->ndim, t->shape, NULL, &bytes))
			return NULL;
		return t_const(m, dt, t->ndim, t->shape, data_new(m, dt, (int64_t)n,
			bytes ? arena_dup(m->arena, tcc_tensor_data(t), bytes) : NULL));
	}
	d = data_new(m, DT_STRING, (int64_t)n, NULL);
	s = tcc_tensor_data(t);
	for (i = 0; i < n; i++)
		d->strings[i] = arena_printf(m->arena, "%.*s", (int)s[i].size, s[i].data ? s[i].data : "");
	return t_const(m, DT_STRING, t->ndim, t->shape, d);
}

Node *
read_constant(Module *m, const char *path, const char *name, TccErr *err)
{
	TccWant want = {.rank = -1};
	TccValue v = {0};
	Node *n = tcc_read_value(path, name, &want, &v, err) == 0 ? node_of_value(m, &v) : NULL;

	tcc_value_free(&v);
	return n;
}

bool
find_data_file(char *path, size_t size, const char *folder, const char *kind, int i)
{
	static const char *const endings[] = {"pb", "npy", "txt", "bin", "raw"};
	size_t e;

	for (e = 0; e < TCC_COUNT(endings); e++) {
		snprintf(path, size, "%s/%s_%d.%s", folder, kind, i, endings[e]);
		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
}

int
value_of_node(const Node *c, TccValue *v, TccErr *err)
{
	int64_t dims[MAX_RANK], i;
	uint64_t bytes = 0;
	TccStr *s;
	char *p;
	int code;

	if (!c || c->code != O_CONST || !const_dims(c, dims))
		return tcc_fail(err, X_UNSUPPORTED, "it is no tensor");
	if (c->type->dtype != DT_STRING) {
		code = tcc_tensor_new(v, (uint32_t)dtypes[c->type->dtype].onnx, c->type->rank, dims, err);
		if (!code && c->data->size)
			memcpy(v->u.tensor.data, c->data->bytes, c->data->size);
		return code;
	}
	for (i = 0; i < c->data->count; i++)
		bytes += strlen(c->data->strings[i]);
	code = tcc_strings_new(v, c->type->rank, dims, bytes, err);
	if (code)
		return code;
	s = v->u.tensor.data;
	p = tcc_strings_bytes(v);
	for (i = 0; i < c->data->count; i++) {
		s[i] = (TccStr){p, strlen(c->data->strings[i])};
		memcpy(p, c->data->strings[i], s[i].size);
		p += s[i].size;
	}
	return 0;
}

/* ---- made-up inputs ------------------------------------------------------------------------ */

/* splitmix64: the same everywhere. */
static uint64_t
next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Floats in [-1, 1), integers 0 to 3 (they may be indices or tokens), strings "a" to "d". */
static void
fill(Data *d, DType t, uint64_t *state)
{
	static const char *const strings[] = {"a", "b", "c", "d"};
	int64_t i;
	uint64_t r;

	for (i = 0; i < d->count; i++) {
		r = next_random(state) >> 40;
		if (t == DT_STRING)
			d->strings[i] = strings[r & 3];
		else if (dt_float(t))
			data_set((void *)d->bytes, t, i, num_round(t, (double)r / (1 << 23) - 1));
		else
			data_set((void *)d->bytes, t, i,
				(Num){.i = (int64_t)(r & (t == DT_BOOL || dtypes[t].bits < 3 ? 1 : 3))});
	}
}

/* A size for a dimension that is not fixed: 3, if its range allows. */
static int64_t
some_size(const Node *dim)
{
	int64_t v;

	if (is_int(dim, &v))
		return v;
	return dim->lo > 3 ? dim->lo : dim->hi < 3 ? dim->hi : 3;
}

bool
make_inputs(Compilation *c, Node **inputs)
{
	Region *r = c->m->main;
	uint64_t state = (uint64_t)(c->o->seed < 0 ? 1 : c->o->seed);
	int64_t dims[MAX_RANK], n;
	const Type *t;
	bool ok;
	Data *d;
	int i, k;

	for (i = 0; i < r->nparams; i++) {
		t = r->params[i]->type;
		ok = t->kind == T_TENSOR && dtypes[t->dtype].cls != 'C';
		for (n = 1, k = 0; ok && k < t->rank; k++) {
			dims[k] = some_size(t->dims[k]);
			ok = mul_ok(n, dims[k], &n) && n < (int64_t)1 << 32;
		}
		if (!ok) {
			diag_error(&c->diag, X_UNSUPPORTED, NULL,
				"no value can be made up for input '%s': give --data", c->m->in_names[i]);
			return false;
		}
		d = data_new(c->m, t->dtype, n, NULL);
		fill(d, t->dtype, &state);
		d->hash = next_random(&state);       /* as good as one of the contents */
		inputs[i] = t_const(c->m, t->dtype, t->rank, dims, d);
	}
	return true;
}
