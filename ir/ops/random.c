/*
 * Random numbers: each element's bits come from its place and the seed alone, so that a kernel
 * makes them in any order and a run can be repeated. Without a seed the node's position is one.
 */
#include <math.h>
#include <string.h>
#include "ops.h"

static Node *u64(Module *m, uint64_t v) { return x_num(m, DT_U64, (Num){.i = (int64_t)v}); }

static uint64_t
scramble(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static uint64_t
seed_of(const Build *b)
{
	const Attr *a = attr_find(b->attrs, "seed");
	double v = a ? a->kind == A_INT ? (double)a->i : a->f : 0;
	uint64_t bits;

	memcpy(&bits, &v, sizeof bits);
	return scramble(bits + (a ? 1 : 2 + (uint64_t)(b->loc ? b->loc->index + 1 : 0)));
}

/* splitmix64's finisher. */
static Node *
finished(Module *m, Node *x)
{
	x = x_mul(m, x2(m, O_XOR, x, x2(m, O_SHR, x, u64(m, 30))), u64(m, 0xbf58476d1ce4e5b9u));
	x = x_mul(m, x2(m, O_XOR, x, x2(m, O_SHR, x, u64(m, 27))), u64(m, 0x94d049bb133111ebu));
	return x2(m, O_XOR, x, x2(m, O_SHR, x, u64(m, 31)));
}

Node *
random_seed(Build *b, Node *given)
{
	Module *m = b->m;
	Node *v;

	if (!given)
		return u64(m, seed_of(b));
	v = x_bits(m, DT_U64, x_cast(m, DT_F64, scalar_arg(m, given)));
	return finished(m, x_add(m, v, u64(m, 1)));
}

/* Uniform in [0, 1), in f32 or f64, of place i. */
static Node *
uniform_at(Module *m, DType f, Node *seed, Node *i)
{
	int bits = f == DT_F64 ? 53 : 24;
	Node *x = x_mul(m, x_cast(m, DT_U64, i), u64(m, 0x9e3779b97f4a7c15u));

	x = x2(m, O_SHR, finished(m, x_add(m, x, seed)), u64(m, 64 - (uint64_t)bits));
	return x_mul(m, x_cast(m, f, x_cast(m, DT_I64, x)), x_flt(m, f, ldexp(1, -bits)));
}

static Node *
place_of(Module *m, int rank, Node *const *axes)
{
	Node *i = x_idx(m, 0);
	int k;

	for (k = 0; k < rank; k++)
		i = x_add(m, x_mul(m, i, axes[k]->in[0]), axes[k]);
	return i;
}

static Node *
uniform(Module *m, DType f, uint64_t seed, int rank, Node *const *axes)
{
	return uniform_at(m, f, u64(m, seed), place_of(m, rank, axes));
}

static Node *
uniform_between(Build *b, DType f, int rank, Node *const *axes)
{
	Module *m = b->m;
	double low = attr_float(b, "low"), high = attr_float(b, "high");

	return x_add(m, x_mul(m, uniform(m, f, seed_of(b), rank, axes), x_flt(m, f, high - low)),
		x_flt(m, f, low));
}

/* Box and Muller's transform of two uniform numbers. */
static Node *
normal(Build *b, DType f, int rank, Node *const *axes)
{
	Module *m = b->m;
	uint64_t seed = seed_of(b);
	Node *u = x_sub(m, x_int(m, f, 1), uniform(m, f, seed, rank, axes)),
		*v = uniform(m, f, scramble(seed), rank, axes);

	u = x1(m, O_SQRT, x_mul(m, x1(m, O_LOG, u), x_int(m, f, -2)));
	v = x_mul(m, u, x1(m, O_COS, x_mul(m, v, x_flt(m, f, 2 * M_PI))));
	return x_add(m, x_mul(m, v, x_flt(m, f, attr_float(b, "scale"))),
		x_flt(m, f, attr_float(b, "mean")));
}

typedef Node *Draw(Build *, DType f, int rank, Node *const *axes);

static Node *
random_tensor(Build *b, DType d, int rank, Node *const *dims, Draw *draw)
{
	Node *axes[MAX_RANK];

	if (!dt_float(d) || dtypes[d].bits < 16)
		return fail(b, "random numbers of type %s are not defined", dtypes[d].text);
	axes_new(b->m, rank, dims, axes);
	return t_tensor(b->m, rank, axes,
		x_cast(b->m, d, draw(b, d == DT_F64 ? DT_F64 : DT_F32, rank, axes)));
}

static DType
result_dtype(const Build *b, DType none)
{
	return attr_find(b->attrs, "dtype") ? dtype_of_onnx((int)attr_int(b, "dtype")) : none;
}

static Node *
of_shape(Build *b, Draw *draw)
{
	Node *dims[MAX_RANK];
	const int64_t *v;
	int n, i;

	attr_ints(b, "shape", &n, &v);
	if (n > MAX_RANK)
		return unsupported(b, "more than %d dimensions", MAX_RANK);
	for (i = 0; i < n; i++) {
		if (v[i] < 0)
			return fail(b, "dimension %d is %lld", i, (long long)v[i]);
		dims[i] = x_idx(b->m, v[i]);
	}
	return random_tensor(b, result_dtype(b, DT_F32), n, dims, draw);
}

static Node *
like(Build *b, Draw *draw)
{
	const Type *t = b->in[0]->type;

	return random_tensor(b, result_dtype(b, t->dtype), t->rank, t->dims, draw);
}

static Node *build_uniform(Build *b)      { return of_shape(b, uniform_between); }
static Node *build_uniform_like(Build *b) { return like(b, uniform_between); }
static Node *build_normal(Build *b)       { return of_shape(b, normal); }
static Node *build_normal_like(Build *b)  { return like(b, normal); }

static Node *
build_bernoulli(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *axes[MAX_RANK], *p;
	DType d = result_dtype(b, dtype_of(x)), f = dtype_of(x) == DT_F64 ? DT_F64 : DT_F32;

	if (d == DT_NONE || (!dt_float(d) && !dt_int(d) && d != DT_BOOL))
		return fail(b, "the result's type is no number");
	axes_new(m, rank_of(x), x->type->dims, axes);
	p = x_cast(m, f, x_read(m, x, axes));
	p = x_lt(m, uniform(m, f, seed_of(b), rank_of(x), axes), p);
	return t_tensor(m, rank_of(x), axes, x_select(m, p, x_int(m, d, 1), x_int(m, d, 0)));
}

/* How many running sums of odds lie at or below a random part of the whole. */
Node *
classes_drawn(Build *b, Node *x, int64_t n, Node *seed, Node *first, DType d)
{
	Module *m = b->m;
	Node *odds, *sums, *axes[2], *j, *most, *whole, *at;
	DType f = DT_F64;

	axes_new(m, 2, x->type->dims, axes);
	j = x_axis(m, dim_of(x, 1));
	most = t_tensor(m, 1, axes,
		x_reduce(m, COMB_MAX, 1, &j, x_read(m, x, (Node *[]){axes[0], j})));
	axes_new(m, 2, x->type->dims, axes);
	odds = x_sub(m, x_cast(m, f, x_read(m, x, axes)), x_cast(m, f, x_read(m, most, axes)));
	odds = t_tensor(m, 2, axes, x1(m, O_EXP, odds));
	sums = running(b, COMB_SUM, odds, 1, false, false);
	axes[0] = x_axis(m, dim_of(x, 0));
	axes[1] = x_axis(m, x_idx(m, n));
	whole = x_read(m, sums, (Node *[]){axes[0], x_addi(m, dim_of(x, 1), -1)});
	at = x_add(m, first, place_of(m, 2, axes));
	at = t_tensor(m, 2, axes, x_mul(m, uniform_at(m, f, seed, at), whole));
	axes[0] = x_axis(m, dim_of(x, 0));
	axes[1] = x_axis(m, x_idx(m, n));
	j = x_axis(m, dim_of(x, 1));
	at = x_le(m, x_read(m, sums, (Node *[]){axes[0], j}), x_read(m, at, axes));
	at = x_reduce(m, COMB_SUM, 1, &j,
		x_select(m, at, x_int(m, DT_I64, 1), x_int(m, DT_I64, 0)));
	at = x_min(m, at, x_cast(m, DT_I64, x_addi(m, dim_of(x, 1), -1)));
	return t_tensor(m, 2, axes, x_cast(m, d, at));
}

static Node *
build_multinomial(Build *b)
{
	Node *x = b->in[0];
	DType d = dtype_of_onnx((int)attr_int(b, "dtype"));
	int64_t n = attr_int(b, "sample_size");

	if (rank_of(x) != 2 || n < 0 || (d != DT_I32 && d != DT_I64))
		return fail(b, "the operand has %d dimensions, the sample %lld", rank_of(x),
			(long long)n);
	return classes_drawn(b, x, n, random_seed(b, NULL), x_idx(b->m, 0), d);
}

/* ---- dropout --------------------------------------------------------------------------------- */

/*
 * Inference passes x on; training drops elements with probability ratio and scales the others. The
 * standard's tests are made with numpy's legacy generator, whose numbers come one after the other:
 * a routine's.
 */
static Node *
build_dropout(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *axes[MAX_RANK], *train, *ratio, *keep, *draw, *v, *out[2];
	DType d = dtype_of(x);

	train = b->in[2] ? scalar_arg(m, b->in[2]) : x_bool(m, false);
	ratio = b->in[1] ? scalar_arg(m, b->in[1]) : x_flt(m, DT_F32, 0.5);
	train = x_and(m, train, x_ne(m, ratio, x_int(m, ratio->type->dtype, 0)));
	axes_new(m, rank_of(x), x->type->dims, axes);
	keep = x_bool(m, true);
	v = x_read(m, x, axes);
	if (!is_intv(train, 0)) {
		draw = t_host(m, "mersenne",
			arena_printf(m->arena, "d N #%lld", (long long)attr_int(b, "seed")),
			ty_tensor(m, DT_F64, rank_of(x), x->type->dims), 0, NULL);
		keep = x_le(m, x_cast(m, DT_F64, ratio), x_read(m, draw, axes));
		keep = x_or(m, x_not(m, train), keep);
		v = x2(m, O_DIV, v, x_sub(m, x_int(m, d, 1), x_cast(m, d, ratio)));
		v = x_select(m, train, x_select(m, keep, v, x_int(m, d, 0)), x_read(m, x, axes));
	}
	out[0] = t_tensor(m, rank_of(x), axes, v);
	out[1] = t_tensor(m, rank_of(x), axes, keep);
	return t_tuple(m, 2, out);
}

const Op ops_random[] = {
	BUILD("random_uniform", "RandomUniform", 22,
		"() {dtype: int = 1, high: float = 1, low: float = 0, seed: float?, shape: ints} -> y",
			build_uniform,
		"uniform random numbers"),
	BUILD("random_uniform_like", "RandomUniformLike", 22,
		"(x: any) {dtype: int?, high: float = 1, low: float = 0, seed: float?} -> y",
			build_uniform_like,
		"uniform random numbers in a tensor's shape"),
	BUILD("random_normal", "RandomNormal", 22,
		"() {dtype: int = 1, mean: float = 0, scale: float = 1, seed: float?, shape: ints} -> y",
			build_normal,
		"normal random numbers"),
	BUILD("random_normal_like", "RandomNormalLike", 22,
		"(x: any) {dtype: int?, mean: float = 0, scale: float = 1, seed: float?} -> y",
			build_normal_like,
		"normal random numbers in a tensor's shape"),
	BUILD("bernoulli",     "Bernoulli",     22, "(x: float) {dtype: int?, seed: float?} -> y",
		build_bernoulli, "1 with the element's probability, else 0"),
	BUILD("multinomial",   "Multinomial",   22,
		"(x: float) {dtype: int = 6, sample_size: int = 1, seed: float?} -> y",
		build_multinomial, "samples of classes by their log-odds"),
	BUILD("dropout",       "Dropout",       22,
		"(x: float, ratio: float?, training_mode: bool?) {seed: int?} -> y, mask?",
			build_dropout,
		"the operand, or some of its elements if it trains"),
	{0}
};
