/* Kernels made by hand, compiled in memory for this machine, against plain C. */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "codegen/codegen.h"
#include "runtime/abi.h"
#include "kernels.h"
#include <check.h>             /* last: it has a macro `fail` */

typedef struct Ctx {
	Diag diag;
	Module *m;
	Job job;
	Jit *jit;
	TccKernelFn *fn;
} Ctx;

static const char *target = "native";

static Module *
begin(Ctx *c)
{
	*c = (Ctx){.diag = {.out = stderr}};
	c->m = module_new(&c->diag);
	return c->m;
}

static void
compile(Ctx *c, Kernel *k)
{
	vec_push(c->m, &c->m->kernels, k);
	c->m->plan = region_new(c->m, "plan");
	c->job = (Job){.m = c->m, .machine = machine_of(c->m, target), .level = 2, .prefix = "t"};
	c->m->machine = c->job.machine;
	c->jit = jit_load(&c->job);
	ck_assert_ptr_nonnull(c->jit);
	c->fn = jit_model(c->jit)->kernels[0];
}

static void
end(Ctx *c)
{
	jit_free(c->jit);
	job_free(&c->job);
	module_free(c->m);
}

static float *
floats(int n, int seed)
{
	float *p = aligned_alloc(64, ((size_t)n * 4 + 63) / 64 * 64 + 64);
	int i;

	for (i = 0; i < n; i++)
		p[i] = (float)((i * 7 + seed * 13) % 31 - 15) / 8;
	return p;
}

static void
run(Ctx *c, int nbufs, void **bufs, int64_t sym, int64_t begin, int64_t end, int32_t *err)
{
	static unsigned char scratch[1 << 16] __attribute__((aligned(64)));

	(void)nbufs;
	c->fn((void *const *)bufs, &sym, begin, end, scratch, err);
}

START_TEST(axpy)
{
	Ctx c;
	float *x = floats(1001, 1), *y = floats(1000, 2), *w = floats(1000, 2);
	int32_t err = 0;
	int i;

	begin(&c);
	compile(&c, k_axpy(c.m, false));
	run(&c, 2, (void *[]){x, y}, 1000, 0, 600, &err);
	run(&c, 2, (void *[]){x, y}, 1000, 600, 1000, &err);
	for (i = 0; i < 1000; i++)
		ck_assert_float_eq(y[i], w[i] + x[1000] * x[i]);
	end(&c);
}
END_TEST

/* y[i] = x[i] * 3 where i < n, in vectors of 16 with a masked tail. */
START_TEST(tail)
{
	Ctx c;
	Module *m = begin(&c);
	Node *n = x_sym(m, "n", 0, INT32_MAX - 1), *u, *v, *i;
	Node *b[2] = {buf(m, "x", DT_F32, n), buf(m, "y", DT_F32, n)};
	Kernel *k = kernel(m, "tail", 2, b, 1, 1, &n);
	Region *r = cpu_frame(m, k, x_ceildiv(m, n, kidx(m, 16)), &u), *in;
	float *x = floats(64, 1), *y = floats(64, 2), *w = floats(64, 2);
	int32_t err = 0;
	int j, len;

	r = loop(m, r, F_VECTOR, 16, &v);
	i = x_add(m, x_muli(m, u, 16), v);
	in = region_new(m, "then");
	l_when(m, r, x_lt(m, i, n), in, NULL);
	store1(m, in, b[1], i, x_mul(m, load1(m, b[0], i), x_flt(m, DT_F32, 3)));
	compile(&c, k);
	for (len = 0; len < 40; len++) {
		memcpy(y, w, 64 * 4);
		run(&c, 2, (void *[]){x, y}, len, 0, (len + 15) / 16, &err);
		for (j = 0; j < 64; j++)
			ck_assert_float_eq(y[j], j < len ? 3 * x[j] : w[j]);
	}
	end(&c);
}
END_TEST

/* y[u][v] = x[2 + step v + u] in squares of 16, 8 and 4. */
START_TEST(transpose)
{
	Ctx c;
	Module *m = begin(&c);
	int n = (int[]){16, 8, 4}[_i], j, l;
	Node *step = x_sym(m, "step", 0, 4096), *u, *v, *part;
	Node *b[2] = {buf(m, "x", DT_F32, kidx(m, 4096)), buf(m, "y", DT_F32, kidx(m, 16 * n))};
	Kernel *k = kernel(m, "transpose", 2, b, 1, 1, &step);
	Region *r = cpu_frame(m, k, kidx(m, 1), &part);
	float *x = floats(4096, 1), *y = floats(16 * n, 2);
	int32_t err = 0;

	for (j = 0; j < 4096; j++)
		x[j] = (float)j;
	r = loop(m, loop(m, r, F_UNROLL, n, &u), F_VECTOR, n, &v);
	store1(m, r, b[1], x_add(m, x_muli(m, u, 16), v), load1(m, b[0],
		x_addi(m, x_add(m, x_mul(m, v, step), u), 2)));
	compile(&c, k);
	for (l = 0; l < 200; l += l < 3 ? 1 : 61) {
		run(&c, 2, (void *[]){x, y}, l, 0, 1, &err);
		for (j = 0; j < n * n; j++)
			ck_assert_float_eq(y[j / n * 16 + j % n], (float)(2 + l * (j % n) + j / n));
	}
	end(&c);
}
END_TEST

START_TEST(softmax)
{
	Ctx c;
	int rows = 5, r, i;
	float *x = floats(rows * ROW, 3), *y = floats(rows * ROW, 4);
	int32_t err = 0;
	double most, sum;

	begin(&c);
	compile(&c, k_softmax(c.m, false));
	run(&c, 2, (void *[]){x, y}, rows, 0, rows, &err);
	for (r = 0; r < rows; r++) {
		most = -INFINITY;
		sum = 0;
		for (i = 0; i < ROW; i++)
			most = fmax(most, x[r * ROW + i]);
		for (i = 0; i < ROW; i++)
			sum += exp(x[r * ROW + i] - most);
		for (i = 0; i < ROW; i++)
			ck_assert_double_eq_tol(y[r * ROW + i], exp(x[r * ROW + i] - most) / sum, 1e-7);
	}
	end(&c);
}
END_TEST

START_TEST(matmul)
{
	Ctx c;
	float *a = floats(MM * MM, 1), *b = floats(MM * MM, 2), *y = floats(MM * MM, 3);
	int32_t err = 0;
	int i, j, k;
	double s;

	begin(&c);
	compile(&c, k_matmul_cpu(c.m));
	run(&c, 3, (void *[]){a, b, y}, 0, 0, MM / 4, &err);
	for (i = 0; i < MM; i++)
		for (j = 0; j < MM; j++) {
			for (s = 0, k = 0; k < MM; k++)
				s += (double)a[i * MM + k] * b[k * MM + j];
			ck_assert_double_eq_tol(y[i * MM + j], s, 1e-3);
		}
	end(&c);
}
END_TEST

START_TEST(gather)
{
	Ctx c;
	float *table = floats(100, 1), *y = floats(64, 2);
	int64_t index[64];
	unsigned char mask[64];
	int32_t err = 0;
	int i, at;

	begin(&c);
	compile(&c, k_gather(c.m, false));
	for (i = 0; i < 64; i++) {
		index[i] = (i * 37) % 100;
		mask[i] = i % 3 != 0;
		if (!mask[i])
			index[i] = INT64_MAX / 2;    /* not read, so no error */
	}
	run(&c, 4, (void *[]){table, index, mask, y}, 64, 0, 8, &err);
	ck_assert_int_eq(err, 0);
	for (i = 0; i < 64; i++)
		ck_assert_float_eq(y[i], mask[i] ? table[index[i]] * table[index[i]] + table[index[i]]
			: -1);
	index[4] = 100;
	index[5] = -1;
	mask[4] = mask[5] = 1;
	run(&c, 4, (void *[]){table, index, mask, y}, 64, 0, 8, &err);
	ck_assert_int_eq(err, 1);
	for (i = 4; i < 6; i++) {
		at = i == 4 ? 99 : 0;
		ck_assert_float_eq(y[i], table[at] * table[at] + table[at]);
	}
	end(&c);
}
END_TEST

static uint16_t
half_of(float v)
{
	uint16_t h;

	data_set(&h, DT_F16, 0, (Num){.f = v});
	return h;
}

START_TEST(half)
{
	static uint16_t x[65536], y[65536];
	Ctx c;
	int32_t err = 0;
	Data d = {.count = 65536, .size = sizeof x, .bytes = x};
	float v, w;
	int i;

	for (i = 0; i < 65536; i++)
		x[i] = (uint16_t)i;
	begin(&c);
	compile(&c, k_half(c.m, false));
	run(&c, 2, (void *[]){x, y}, 65536, 0, 65536 / 8, &err);
	for (i = 0; i < 65536; i++) {
		v = (float)data_get(&d, DT_F16, i).f * 2.0f + 1;
		w = v > 0 ? v : v != v ? v : 0;
		if (w != w)
			ck_assert_msg((y[i] & 0x7fff) > 0x7c00, "%04x -> %04x", x[i], y[i]);
		else
			ck_assert_msg(y[i] == half_of(w), "%04x -> %04x, not %04x", x[i], y[i], half_of(w));
	}
	end(&c);
}
END_TEST

START_TEST(int8)
{
	int8_t x[256], y[256];
	Ctx c;
	int32_t err = 0;
	int i;
	float f;

	for (i = 0; i < 256; i++)
		x[i] = (int8_t)i;
	begin(&c);
	compile(&c, k_int8(c.m, false));
	run(&c, 2, (void *[]){x, y}, 256, 0, 32, &err);
	for (i = 0; i < 256; i++) {
		f = rintf(x[i] * 1.5f);
		f = f > 127 ? 127 : f < -128 ? -128 : f;
		ck_assert_int_eq(y[i], (int8_t)((int8_t)f - (int8_t)(x[i] + x[i])));
	}
	end(&c);
}
END_TEST

/* Every scalar operation on special values, against num_eval, as vectors and alone. */

static Kernel *
op_kernel(Module *m, OpCode op, DType from, DType to, int arity, int n, bool vector)
{
	Node *size = kidx(m, n), *u, *v = kidx(m, 0), *i, *in[3], *y;
	Node *b[4] = {buf(m, "a", from, size), buf(m, "b", from, size), buf(m, "c", from, size),
		buf(m, "y", to, size)};
	Kernel *k = kernel(m, "op", 4, b, 1, 0, NULL);
	Region *r = cpu_frame(m, k, kidx(m, n / 16), &u);
	int j;

	r = loop(m, r, vector ? F_VECTOR : F_SERIAL, 16, &v);
	i = x_add(m, x_muli(m, u, 16), v);
	for (j = 0; j < 3; j++)
		in[j] = load1(m, b[j], i);
	y = x_op(m, op, arity, in, to);
	store1(m, r, b[3], i, y);
	return k;
}

static int
specials(DType d, Num *v)
{
	static const double f[] = {0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3.75, 1e10, -1e10, 1e-40,
		127.5, 128, -128.5, 255.5, 65504, 65520, 3e38, -3e38, INFINITY, -INFINITY, NAN,
		2147483648.0, -2147483649.0, 9.3e18, 0x1p-24, 0x1.8p-25, 448, 464, 480};
	int n = 0, i;
	int64_t k;

	if (dt_float(d)) {
		for (i = 0; i < (int)(sizeof f / sizeof *f); i++)
			v[n++].f = num_round(d, f[i]).f;
		return n;
	}
	for (i = 0; i < 32; i++) {
		k = i < 12 ? i - 5 : i < 22 ? (int64_t)(1ull << (i * 3 - 3)) - 1
			: -(int64_t)(1ull << (i * 2));
		v[n++] = num_cast(d, DT_I64, (Num){.i = i == 30 ? INT64_MIN : i == 31 ? INT64_MAX : k});
	}
	return n;
}

static bool
same(DType d, Num a, Num b)
{
	if (dt_float(d))
		return (a.f != a.f && b.f != b.f) || (a.f == b.f && signbit(a.f) == signbit(b.f));
	return a.i == b.i;
}

static void
check_op(OpCode op, DType from, DType to, int arity, bool vector)
{
	Num v[64], in[3], want, got;
	int n = specials(from, v), total = n * n, i, j;
	unsigned char *p[4];
	Ctx c;
	int32_t err = 0;
	Data d;

	total = (total + 15) / 16 * 16;
	for (j = 0; j < 4; j++)
		p[j] = calloc((size_t)total, 16);
	for (i = 0; i < total; i++)
		for (j = 0; j < 3; j++)
			data_set(p[j], from, i, v[(j == 0 ? i : j == 1 ? i / n : i * 5 + 3) % n]);
	begin(&c);
	compile(&c, op_kernel(c.m, op, from, to, arity, total, vector));
	run(&c, 4, (void **)p, 0, 0, total / 16, &err);
	for (i = 0; i < total; i++) {
		for (j = 0; j < 3; j++) {
			d = (Data){.count = total, .bytes = p[j]};
			in[j] = data_get(&d, from, i);
		}
		d.bytes = p[3];
		got = data_get(&d, to, i);
		if (!num_eval(op, to, from, in, &want))
			continue;
		if (dt_float(to))
			want = num_round(to, want.f);
		ck_assert_msg(same(to, got, want),
			"%s %s -> %s%s: (%g %lld, %g %lld, %g) gives %g %lld, not %g %lld", core_op(op)->name,
			dtypes[from].text, dtypes[to].text, vector ? " in a vector" : "", in[0].f,
			(long long)in[0].i, in[1].f, (long long)in[1].i, in[2].f, got.f, (long long)got.i,
			want.f, (long long)want.i);
	}
	for (j = 0; j < 4; j++)
		free(p[j]);
	end(&c);
}

START_TEST(arithmetic)
{
	static const struct { OpCode op; int arity; bool ints, floats; } ops[] = {
		{O_ADD, 2, 1, 1}, {O_SUB, 2, 1, 1}, {O_MUL, 2, 1, 1}, {O_DIV, 2, 1, 1}, {O_REM, 2, 1, 1},
		{O_FLOORDIV, 2, 1, 0}, {O_MOD, 2, 1, 0}, {O_MIN, 2, 1, 1}, {O_MAX, 2, 1, 1},
		{O_NEG, 1, 1, 1}, {O_ABS, 1, 1, 1}, {O_LT, 2, 1, 1}, {O_LE, 2, 1, 1}, {O_EQ, 2, 1, 1},
		{O_NE, 2, 1, 1}, {O_AND, 2, 1, 0}, {O_OR, 2, 1, 0}, {O_XOR, 2, 1, 0}, {O_NOT, 1, 1, 0},
		{O_SHL, 2, 1, 0}, {O_SHR, 2, 1, 0}, {O_SQRT, 1, 0, 1}, {O_FLOOR, 1, 0, 1},
		{O_CEIL, 1, 0, 1}, {O_TRUNC, 1, 0, 1}, {O_RINT, 1, 0, 1}, {O_FMA, 3, 0, 1},
		{O_POPCNT, 1, 1, 0},
	};
	static const DType types[] = {DT_I8, DT_U8, DT_I16, DT_U16, DT_I32, DT_U32, DT_I64, DT_U64,
		DT_F32, DT_F64};
	DType d = types[_i % 10];
	bool compare;
	size_t i;

	for (i = 0; i < sizeof ops / sizeof *ops; i++) {
		if (dt_float(d) ? !ops[i].floats : !ops[i].ints)
			continue;
		compare = ops[i].op >= O_LT && ops[i].op <= O_NE;
		check_op(ops[i].op, d, compare ? DT_BOOL : d, ops[i].arity, _i < 10);
	}
	if (d == DT_I32)
		check_op(O_DOT4, d, d, 2, _i < 10);
}
END_TEST

START_TEST(casts)
{
	static const DType types[] = {DT_BOOL, DT_I8, DT_U8, DT_I16, DT_U16, DT_I32, DT_U32, DT_I64,
		DT_U64, DT_F32, DT_F64, DT_F16, DT_BF16, DT_F8E4M3FN, DT_F8E4M3FNUZ, DT_F8E5M2,
		DT_F8E5M2FNUZ, DT_F8E8M0};
	int n = sizeof types / sizeof *types, i;
	DType from = types[_i % n];

	for (i = 0; i < n; i++)
		if (types[i] != from && (!dt_small(from) || types[i] == DT_F32) &&
				(!dt_small(types[i]) || from == DT_F32))
			check_op(O_CAST, from, types[i], 1, _i < n);
}
END_TEST

/* ---- a vector loop gives what the serial one gives ------------------------------------------- */

/* What a statement in the loop may look like: i is the unit, v the lane, n symbolic. */
typedef struct Shape {
	Module *m;
	Region *r;             /* the vector loop's body */
	Node *x, *ids, *bytes, *flags, *y, *z, *i, *v, *n;
} Shape;

static Node *
at(Shape *s, int64_t scale)
{
	return x_add(s->m, x_muli(s->m, s->i, 16 * scale), x_muli(s->m, s->v, scale));
}

static void
put(Shape *s, Node *value)
{
	store1(s->m, s->r, s->y, at(s, 1), value);
}

static Node *
x_at(Shape *s, Node *i)
{
	return load1(s->m, s->x, i);
}

static void
s_strides(Shape *s)
{
	Module *m = s->m;
	Node *e = x_at(s, at(s, 2));

	e = x_add(m, e, x_at(s, at(s, 3)));
	e = x_add(m, e, x_at(s, x_sub(m, x_idx(m, 1000), at(s, 1))));
	e = x_mul(m, e, x_at(s, s->i));
	e = x_add(m, e, x_at(s, x_mod(m, at(s, 7), x_idx(m, 13))));
	e = x_add(m, e, x_at(s, x_mul(m, s->v, s->n)));
	put(s, e);
}

/* Padding: varying and uniform conditions guard reads out of range. */
static void
s_guards(Shape *s)
{
	Module *m = s->m;
	Node *j = x_addi(m, at(s, 1), -20), *zero = x_flt(m, DT_F32, 0), *u = x_addi(m, s->i, -2), *e;

	e = x_select(m, x_le(m, x_idx(m, 0), j), x_at(s, j), zero);
	e = x_add(m, e, x_select(m, x_lt(m, at(s, 1), s->n), x_at(s, x_add(m, at(s, 1), x_idx(m, 5))),
		x_flt(m, DT_F32, 7)));
	e = x_add(m, e, x_select(m, x_le(m, x_idx(m, 0), u), x_at(s, u), zero));
	e = x_add(m, e, x_select(m, x_le(m, x_idx(m, 0), u), x_at(s, x_add(m, u, s->v)),
		x_flt(m, DT_F32, 2)));
	e = x_add(m, e, x_select(m, x_lt(m, u, s->n),
		x_mul(m, x_at(s, x_muli(m, s->v, 3)), x_at(s, s->v)), x_at(s, s->v)));
	e = x_add(m, e, x_select(m, x_lt(m, s->v, x_idx(m, 0)), x_at(s, x_idx(m, 1 << 30)), zero));
	put(s, x_select(m, x_and(m, x_lt(m, j, s->n),
		x_ne(m, load1(m, s->flags, at(s, 1)), x_bool(m, false))), e,
		x_select(m, x_lt(m, j, x_idx(m, 64)), x_at(s, x_max(m, j, x_idx(m, 0))), zero)));
}

static void
s_gathers(Shape *s)
{
	Module *m = s->m;
	Node *id = x_cast(m, DT_INDEX, load1(m, s->ids, at(s, 1))), *in[2] = {id, s->n};
	Node *b = x_op(m, O_BOUND, 2, in, DT_NONE), *let = l_let(m, s->r, b);

	put(s, x_add(m, x_at(s, let), x_cast(m, DT_F32, load1(m, s->bytes, x_add(m, let, s->v)))));
}

/* when with both sides, under a condition that varies; stores out of order. */
static void
s_when(Shape *s)
{
	Module *m = s->m;
	Region *a = region_new(m, "a"), *b = region_new(m, "b"), *r = s->r, *c = region_new(m, "c");
	Node *k = x_axis(m, x_idx(m, 3));

	l_when(m, r, x_lt(m, x_at(s, at(s, 1)), x_flt(m, DT_F32, 0)), a, b);
	s->r = a;
	put(s, x_at(s, at(s, 2)));
	s->r = b;
	put(s, x_flt(m, DT_F32, 1));
	l_for(m, b, F_SERIAL, k, c);
	s->r = c;
	store1(m, c, s->z, x_add(m, at(s, 3), k),
		x_cast(m, DT_U8, x_mul(m, x_at(s, at(s, 1)), x_cast(m, DT_F32, k))));
}

/* A lane's own tile: the index of the largest of 8, by an inner loop with a let and a when. */
static void
s_argmax(Shape *s)
{
	Module *m = s->m;
	Node *best = tile(m, "best", DT_F32, SP_REG, 1, 0, 0),
		*arg = tile(m, "arg", DT_I64, SP_REG, 1, 0, 0);
	Node *zero = x_idx(m, 0), *k = x_axis(m, x_idx(m, 8)), *e, *more, *old;
	Region *in = region_new(m, "in");

	l_alloc(m, s->r, best);
	l_alloc(m, s->r, arg);
	store1(m, s->r, best, zero, x_flt(m, DT_F32, -1000));
	store1(m, s->r, arg, zero, x_int(m, DT_I64, -1));
	l_for(m, s->r, F_SERIAL, k, in);
	e = l_let(m, in, x_at(s, x_add(m, x_muli(m, k, 50), at(s, 1))));
	more = l_let(m, in, x_lt(m, load1(m, best, zero), e));
	old = load1(m, arg, zero);
	store1(m, in, arg, zero, x_select(m, more, x_cast(m, DT_I64, k), old));
	store1(m, in, best, zero, x_select(m, more, e, load1(m, best, zero)));
	put(s, x_cast(m, DT_F32, load1(m, arg, zero)));
	store1(m, s->r, s->z, at(s, 1), x_cast(m, DT_U8,
		x_at(s, x_cast(m, DT_INDEX, load1(m, arg, zero)))));
}

/* A table in a lane's own tile, indexed by what varies; unrolled loops with floordiv. */
static void
s_table(Shape *s)
{
	Module *m = s->m;
	Node *t = tile(m, "t", DT_F32, SP_REG, 4, 0, 0), *k = x_axis(m, x_idx(m, 4)),
		*sum = x_flt(m, DT_F32, 0);
	Region *in = region_new(m, "in");

	l_alloc(m, s->r, t);
	l_for(m, s->r, F_UNROLL, k, in);
	store1(m, in, t, k, x_at(s, x_fdiv(m, x_add(m, x_muli(m, k, 16), s->v), x_idx(m, 16))));
	sum = x_add(m, load1(m, t, x_mod(m, x_cast(m, DT_INDEX, load1(m, s->bytes, at(s, 1))),
		x_idx(m, 4))), sum);
	put(s, sum);
}

static void
s_bools(Shape *s)
{
	Module *m = s->m;
	Node *f = load1(m, s->flags, at(s, 1)), *g = x_lt(m, x_at(s, at(s, 1)), x_flt(m, DT_F32, 0));

	put(s, x_cast(m, DT_F32, x_or(m, x_and(m, f, g), x_not(m, f))));
	store1(m, s->r, s->z, at(s, 1), x_cast(m, DT_U8, x2(m, O_XOR, f, g)));
	store1(m, s->r, s->flags, at(s, 1), x_not(m, g));
}

static void
s_integers(Shape *s)
{
	Module *m = s->m;
	Node *b = load1(m, s->bytes, at(s, 1)), *i = x_cast(m, DT_I32, load1(m, s->ids, at(s, 1))), *h;

	h = x_cast(m, DT_I32, x_cast(m, DT_I8, b));
	h = x2(m, O_DIV, x_mul(m, i, h), x_sub(m, h, x_int(m, DT_I32, 3)));
	h = x_add(m, h, x_mod(m, i, x_int(m, DT_I32, -7)));
	put(s, x_cast(m, DT_F32, h));
	store1(m, s->r, s->z, at(s, 1), x2(m, O_SHR, b, x_int(m, DT_U8, 3)));
}

static void (*const shapes[])(Shape *) = {s_strides, s_guards, s_gathers, s_when, s_argmax, s_table,
	s_bools, s_integers};

enum { SIZE = 4096 };

static void
run_shape(void (*make)(Shape *), ForKind kind, void **bufs, int32_t *err)
{
	Ctx c;
	Module *m = begin(&c);
	Node *n = x_sym(m, "n", 0, INT32_MAX - 1), *size = kidx(m, SIZE);
	Node *b[6] = {buf(m, "x", DT_F32, size), buf(m, "ids", DT_I64, size),
		buf(m, "bytes", DT_U8, size), buf(m, "flags", DT_BOOL, size), buf(m, "y", DT_F32, size),
		buf(m, "z", DT_U8, size)};
	Kernel *k = kernel(m, "shape", 6, b, 3, 1, &n);
	Shape s = {.m = m, .x = b[0], .ids = b[1], .bytes = b[2], .flags = b[3], .y = b[4], .z = b[5],
		.n = n};

	s.r = loop(m, cpu_frame(m, k, kidx(m, 10), &s.i), kind, 16, &s.v);
	make(&s);
	compile(&c, k);
	run(&c, 6, bufs, 100, 0, 10, err);
	end(&c);
}

START_TEST(lanes)
{
	void *bufs[2][6];
	int32_t err[2] = {0};
	int i, k;

	for (k = 0; k < 2; k++) {
		bufs[k][0] = floats(SIZE, 5);
		bufs[k][1] = calloc(SIZE, 8);
		bufs[k][2] = calloc(SIZE, 1);
		bufs[k][3] = calloc(SIZE, 1);
		bufs[k][4] = calloc(SIZE, 4);
		bufs[k][5] = calloc(SIZE, 1);
		for (i = 0; i < SIZE; i++) {
			((int64_t *)bufs[k][1])[i] = (i * 37 + 11) % 103;
			((unsigned char *)bufs[k][2])[i] = (unsigned char)(i * 29);
			((unsigned char *)bufs[k][3])[i] = i % 3 == 1;
		}
		run_shape(shapes[_i], k ? F_VECTOR : F_SERIAL, bufs[k], &err[k]);
	}
	ck_assert_int_eq(err[0], err[1]);
	for (i = 0; i < SIZE; i++) {
		ck_assert_msg(((float *)bufs[0][4])[i] == ((float *)bufs[1][4])[i],
			"y[%d]: %g, in a vector %g", i, ((float *)bufs[0][4])[i], ((float *)bufs[1][4])[i]);
		ck_assert_msg(((unsigned char *)bufs[0][5])[i] == ((unsigned char *)bufs[1][5])[i], "z[%d]",
			i);
		ck_assert_msg(((unsigned char *)bufs[0][3])[i] == ((unsigned char *)bufs[1][3])[i],
			"flags[%d]", i);
	}
}
END_TEST

/* ---- whole models: y = 3 x + w over n, with a plan ------------------------------------------- */

static Node *
array(Module *m, Region *r, int n, const int64_t *constant, Node *last)
{
	Node *len = kidx(m, n), *b = l_buffer(m, "args", DT_INDEX, SP_STACK, 1, &len), *at;
	int i;

	l_alloc(m, r, b);
	for (i = 0; i < n; i++) {
		at = kidx(m, i);
		l_store(m, r, b, 1, &at, i == n - 1 ? last : kidx(m, constant[i]));
	}
	return b;
}

static void
plan_call(Module *m, Region *r, const char *name, int n, Node *a, Node *b, Node *c, Node *d)
{
	Node *in[4] = {a, b, c, d};

	l_call(m, r, name, n, in);
}

/* launches: how often the kernel runs (each adds to y). */
static void
small_model(Ctx *c, int launches)
{
	static float w[64];
	Module *m = begin(c);
	Node *n = x_sym(m, "n", 0, 64), *i, *zero = kidx(m, 0), *one = kidx(m, 1), *b[3], *dim;
	Node *in[2] = {zero, zero}, *len;
	const Type *t = ty_tensor(m, DT_F32, 1, &n);
	static const int64_t args[] = {0, 1, 1, 8, 0, 2, 1, 0};
	Plan *plan = NEW(m, Plan);
	Region *r, *p;
	Kernel *k;
	Data *d;
	int j;

	for (j = 0; j < 64; j++)
		w[j] = (float)j;
	b[0] = buf(m, "x", DT_F32, n);
	b[1] = buf(m, "w", DT_F32, kidx(m, 64));
	b[2] = buf(m, "y", DT_F32, n);
	k = kernel(m, "scale", 3, b, 1, 1, &n);
	r = cpu_frame(m, k, n, &i);
	store1(m, r, b[2], i, x_add(m, x_mul(m, load1(m, b[0], i), x_flt(m, DT_F32, 3)),
		load1(m, b[1], i)));
	vec_push(m, &m->kernels, k);
	m->main->params = NEWN(m, Node *, 1);
	m->main->params[0] = t_param(m, "x", t, 0);
	m->main->nparams = 1;
	m->main->results = m->main->params;
	m->main->nresults = 1;
	m->in_names = NEWN(m, const char *, 1);
	m->out_names = NEWN(m, const char *, 1);
	m->in_names[0] = "x";
	m->out_names[0] = "y";
	d = data_new(m, DT_F32, 64, w);
	plan->nbufs = 3;
	plan->bufs = NEWN(m, PlanBuf, 3);
	plan->bufs[0] = (PlanBuf){.cls = BUF_INPUT, .dtype = DT_F32, .name = "x", .alias = -1,
		.size = -1, .offset = -1};
	plan->bufs[1] = (PlanBuf){.cls = BUF_OUTPUT, .dtype = DT_F32, .name = "y", .alias = -1,
		.size = -1, .offset = -1};
	plan->bufs[2] = (PlanBuf){.cls = BUF_WEIGHT, .dtype = DT_F32, .name = "w", .alias = -1,
		.size = 256, .data = d};
	plan->in_buf = NEWN(m, int, 1);
	plan->ntexts = 1;
	plan->texts = NEWN(m, const char *, 1);
	plan->texts[0] = "n is $0, more than $1";
	m->memory = plan;
	p = m->plan = region_new(m, "plan");
	dim = l_call(m, p, "dim", 2, in);
	plan_call(m, p, "check", 4, x_le(m, dim, kidx(m, 64)), zero, dim, kidx(m, 64));
	plan_call(m, p, "place", 0, NULL, NULL, NULL, NULL);
	len = array(m, p, 1, NULL, dim);
	plan_call(m, p, "output", 4, zero, one, one, len);
	for (j = 0; j < launches; j++) {
		Node *a = array(m, p, 8, args, dim), *at = zero;

		l_store(m, p, a, 1, &at, dim);
		/* the kernel's buffers: x, w, y are the plan's 0, 2, 1 */
		plan_call(m, p, "launch", 2, zero, a, NULL, NULL);
	}
	c->job = (Job){.m = m, .machine = machine_of(m, target), .level = 2, .prefix = "small"};
	m->machine = c->job.machine;
}

static void
run_small(const TccModel *model, int n, int want)
{
	TccInst *inst = NULL;
	TccContext *ctx = NULL;
	int64_t shape = n;
	float *x = floats(n, 1);
	TccValue in = {.kind = TCC_TENSOR, .dtype = TCC_F32}, out = {0};
	int i, r;

	in.u.tensor = (TccTensor){.data = x, .device_type = TCC_DEV_CPU, .ndim = 1, .code = 2,
		.bits = 32, .lanes = 1, .shape = &shape};
	r = tcc_load(model, NULL, &inst);
	ck_assert_msg(!r, "%s", tcc_inst_error(inst));
	ck_assert_int_eq(tcc_context_new(inst, &ctx), 0);
	r = tcc_run(ctx, &in, 1, &out, 1);
	ck_assert_msg(r == want, "%s", tcc_error(ctx));
	if (!r) {
		ck_assert_int_eq(out.u.tensor.shape[0], n);
		for (i = 0; i < n; i++)
			ck_assert_float_eq(((float *)out.u.tensor.data)[i], 3 * x[i] + (float)i);
	}
	tcc_context_free(ctx);
	tcc_unload(inst);
}

START_TEST(plan)
{
	Ctx c;

	small_model(&c, _i ? 450 : 1);    /* 450: the plan is cut in three */
	c.jit = jit_load(&c.job);
	ck_assert_ptr_nonnull(c.jit);
	run_small(jit_model(c.jit), 50, TCC_OK);
	run_small(jit_model(c.jit), 0, TCC_OK);
	run_small(jit_model(c.jit), 65, TCC_BAD_DATA);
	end(&c);
}
END_TEST

static void *
slurp(const char *path, size_t *size)
{
	FILE *fp = fopen(path, "rb");
	char *p;

	ck_assert_ptr_nonnull(fp);
	fseek(fp, 0, SEEK_END);
	*size = (size_t)ftell(fp);
	rewind(fp);
	p = malloc(*size);
	ck_assert_int_eq(fread(p, 1, *size, fp), *size);
	fclose(fp);
	return p;
}

/* Every kind of artefact, twice: equal bytes; the shared object runs. */
START_TEST(artefacts)
{
	static const EmitKind kinds[] = {EMIT_EXE, EMIT_SO, EMIT_A, EMIT_OBJ, EMIT_LLVM, EMIT_ASM};
	char dir[] = "/tmp/tcc-test.XXXXXX", path[2][64];
	size_t size[2];
	void *bytes[2], *lib;
	Ctx c;
	int k;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	for (k = 0; k < 2; k++) {
		snprintf(path[k], sizeof path[k], "%s/%d.out", dir, k);
		small_model(&c, 2);
		c.job.kind = kinds[_i];
		c.job.jobs = k + 1;
		ck_assert_int_eq(codegen_emit(&c.job), X_OK);
		ck_assert_int_eq(codegen_link(&c.job, 1, path[k]), X_OK);
		bytes[k] = slurp(path[k], &size[k]);
		end(&c);
	}
	ck_assert_int_eq(size[0], size[1]);
	ck_assert(memcmp(bytes[0], bytes[1], size[0]) == 0);
	if (kinds[_i] == EMIT_SO) {
		lib = dlopen(path[0], RTLD_NOW | RTLD_LOCAL);
		ck_assert_msg(lib != NULL, "%s", dlerror());
		run_small(dlsym(lib, "small_tcc_model"), 20, TCC_OK);
		ck_assert_ptr_nonnull(dlsym(lib, "small_tcc_api"));
	}
	if (kinds[_i] == EMIT_EXE)
		ck_assert_msg(size[0] < 100000, "%zu bytes", size[0]);
	free(bytes[0]);
	free(bytes[1]);
}
END_TEST

/* Two machines in one shared object; the one that this CPU lacks is passed over. */
START_TEST(variants)
{
	char dir[] = "/tmp/tcc-test.XXXXXX", path[64];
	const char *old = target;
	Ctx c[2];
	Job jobs[2];
	const TccModel *model;
	void *lib;
	int k;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/m.so", dir);
	for (k = 0; k < 2; k++) {
		target = k ? "x86-64-v2" : "graniterapids";
		small_model(&c[k], 1);
		jobs[k] = c[k].job;
		jobs[k].kind = EMIT_SO;
		jobs[k].variant = k;
		jobs[k].nvariants = 2;
		ck_assert_int_eq(codegen_emit(&jobs[k]), X_OK);
	}
	target = old;
	ck_assert_int_eq(codegen_link(jobs, 2, path), X_OK);
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	ck_assert_msg(lib != NULL, "%s", dlerror());
	model = dlsym(lib, "small_tcc_model");
	ck_assert_ptr_nonnull(model->next);
	ck_assert_ptr_null(model->next->next);
	run_small(model, 20, TCC_OK);
	for (k = 0; k < 2; k++) {
		job_free(&jobs[k]);
		module_free(c[k].m);
	}
}
END_TEST

int
main(int argc, char **argv)
{
	Suite *s = suite_create("llvm");
	TCase *t = tcase_create("kernels");
	SRunner *r;
	int bad;

	if (argc > 1)
		target = argv[1];
	tcase_set_timeout(t, 120);
	tcase_add_test(t, axpy);
	tcase_add_test(t, tail);
	tcase_add_loop_test(t, transpose, 0, 3);
	tcase_add_test(t, softmax);
	tcase_add_test(t, matmul);
	tcase_add_test(t, gather);
	tcase_add_test(t, half);
	tcase_add_test(t, int8);
	tcase_add_loop_test(t, arithmetic, 0, 20);
	tcase_add_loop_test(t, casts, 0, 36);
	tcase_add_loop_test(t, lanes, 0, sizeof shapes / sizeof *shapes);
	tcase_add_loop_test(t, plan, 0, 2);
	tcase_add_loop_test(t, artefacts, 0, 6);
#ifdef __x86_64__
	tcase_add_test(t, variants);
#endif
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	bad = srunner_ntests_failed(r);
	srunner_free(r);
	return bad != 0;
}
