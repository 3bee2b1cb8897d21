/*
 * Legal expressions compute what the narrow ones state: every operation on every narrow type, on
 * all or on many operands, evaluated before and after by the evaluator.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"
#include "opt/opt.h"

/* after ir.h: it has a macro `fail` */
#include <check.h>

enum { COUNT = 4096 };

static uint64_t state = 88172645463325252u;

static uint64_t rnd(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

/* COUNT random values of a type; bit patterns of the width are all there for narrow types. */
static Node *values(Module *m, DType d, int seed)
{
	int64_t dim = COUNT;
	Data *data = data_new(m, d, dim, NULL);
	uint64_t *w = (uint64_t *)data->bytes;
	for (size_t i = 0; i < data->size / 8; i++)
		w[i] = rnd();
	for (int64_t k = 0; k < COUNT && dt_float(d) && dtypes[d].bits >= 32; k++) {
		double v = ldexp((double)(int64_t)rnd() / 0x1p63, (int)(rnd() % 40) - 20);
		data_set((void *)data->bytes, d, k, num_round(d, k % 16 == seed ? (k % 5) - 2 : v));
	}
	for (int64_t k = 0; k < COUNT && d == DT_BOOL; k++)
		data_set((void *)data->bytes, d, k, (Num){ .i = (int64_t)(rnd() & 1) });
	return t_const(m, d, 1, &dim, data);
}

/* What kernels do: loads and stores in the storage type, expressions legal. */
static Node *as_kernel(Module *m, Node *e)
{
	return legalize(m, to_storage(m, e));
}

static void check_legal(Node *root)
{
	int n;
	Node **list = topo_scalar(root, &n);
	for (int i = 0; i < n; i++) {
		Node *e = list[i];
		if (e->code >= O_NUM || e->code == O_CAST || e->code == O_BITS)
			continue;
		for (int k = 0; k < e->nin; k++)
			ck_assert_msg(!dt_small(e->in[k]->type->dtype) &&
				dtypes[e->in[k]->type->dtype].bits >= 8,
				"%s of %s", e->op->name, dtypes[e->in[k]->type->dtype].text);
	}
	free(list);
}

static void same(Module *m, Node *stated, Node *legal, const char *what)
{
	Node *out[2];
	m->main->nresults = 0;
	region_add(m, m->main, stated);
	region_add(m, m->main, legal);
	ck_assert_msg(module_verify(m, LEVEL_TENSOR) && module_eval(m, LEVEL_TENSOR, NULL, out, false),
		"%s: %s", what, m->diag->first);
	DType d = dtype_of(out[0]);
	ck_assert_int_eq(d, dtype_of(out[1]));
	for (int64_t k = 0; k < COUNT; k++) {
		Num a = data_get(out[0]->data, d, k), b = data_get(out[1]->data, d, k);
		bool ok = dt_float(d) ? (isnan(a.f) && isnan(b.f)) ||
			(a.f == b.f && !!signbit(a.f) == !!signbit(b.f)) : a.i == b.i;
		ck_assert_msg(ok, "%s, element %d: %g (%lld), not %g (%lld)", what, (int)k, b.f,
			(long long)b.i, a.f, (long long)a.i);
	}
}

/* e over x[i] and y[i], as stated and as a kernel would: storage tensors in, storage out. */
static void compare(Module *m, Node *axis, Node *e, const char *what)
{
	Node *legal = as_kernel(m, e);
	check_legal(legal);
	same(m, t_tensor(m, 1, &axis, to_storage(m, e)), t_tensor(m, 1, &axis, legal), what);
}

/* Sub-byte tensors are read from their storage. */
static Node *element(Module *m, Node *t, Node *axis)
{
	DType d = dtype_of(t);
	Node *a = x_axis(m, x_idx(m, COUNT));
	if (storage_type(d) == d)
		return x_read(m, t, &axis);
	Node *stored = t_tensor(m, 1, &a, to_storage(m, x_read(m, t, &a)));
	return from_storage(m, d, x_read(m, stored, &axis));
}

static bool fits(OpCode op, Node **in, DType to)
{
	char why[200];
	return scalar_fits(op, scalar_ops[op].arity, in, to, why, sizeof why);
}

START_TEST(operations)
{
	static const DType types[] = { DT_I2, DT_U2, DT_I4, DT_U4, DT_F4E2M1, DT_F8E4M3FN,
		DT_F8E4M3FNUZ, DT_F8E5M2, DT_F8E5M2FNUZ, DT_F8E8M0, DT_BF16, DT_F16 };
	DType d = types[_i];
	Module *m = module_new(&(Diag){ .out = stderr });
	Node *axis = x_axis(m, x_idx(m, COUNT));
	Node *x = element(m, values(m, d, 1), axis), *y = element(m, values(m, d, 2), axis);
	Node *c = element(m, values(m, DT_BOOL, 0), axis);
	for (int op = 0; op < O_NUM; op++) {
		bool cmp = op >= O_LT && op <= O_NE;
		Node *in[3] = { op == O_SELECT ? c : x, op == O_SELECT ? x : y, y };
		/* fma rounds twice where it is not exact; libm's own error is not ours */
		if (op == O_CAST || op == O_BITS || op == O_FMA || op == O_MULADD || op >= O_EXP)
			continue;
		if (!fits(op, in, cmp ? DT_BOOL : d))
			continue;
		compare(m, axis, x_op(m, op, scalar_ops[op].arity, in, d), core_op(op)->name);
	}
	/* two roundings in a row */
	if (dt_float(d))
		compare(m, axis, x_sub(m, x_mul(m, x, y), y), "x*y-y");
	module_free(m);
}
END_TEST

START_TEST(casts)
{
	DType from = DT_BOOL + _i;
	if (dtypes[from].bits == 0 || dtypes[from].cls == 'C')
		return;
	Module *m = module_new(&(Diag){ .out = stderr });
	Node *axis = x_axis(m, x_idx(m, COUNT));
	Node *x = from == DT_INDEX ? axis : element(m, values(m, from, 1), axis);
	for (int to = DT_BOOL; to < N_DTYPES; to++) {
		char what[60];
		if (dtypes[to].bits == 0 || dtypes[to].cls == 'C')
			continue;
		snprintf(what, sizeof what, "%s to %s", dtypes[from].text, dtypes[to].text);
		compare(m, axis, x_cast(m, to, x), what);
		if (dtypes[to].bits == dtypes[from].bits && from != DT_BOOL && to != DT_BOOL)
			compare(m, axis, x_bits(m, to, x), what);
	}
	module_free(m);
}
END_TEST

/* Where rounding by way of f32 or f64 would go wrong. */
START_TEST(double_rounding)
{
	Module *m = module_new(&(Diag){ .out = stderr });
	int64_t dim = COUNT;
	Data *f = data_new(m, DT_F64, dim, NULL), *i = data_new(m, DT_I64, dim, NULL);
	for (int64_t k = 0; k < COUNT; k++) {
		/* the middle of two values of f16 or bf16, a little off */
		double half = ldexp(1 + (double)(2 * (rnd() % 128) + 1) / (k & 1 ? 256 : 2048),
			(int)(k % 14));
		data_set((void *)f->bytes, DT_F64, k,
			(Num){ .f = half * (1 + ((int)(rnd() % 3) - 1) * 0x1p-40) });
		int64_t v = (int64_t)((2 * (rnd() % 128) + 257) << 54) + (int64_t)(rnd() % 3) - 1;
		data_set((void *)i->bytes, DT_I64, k, (Num){ .i = k & 2 ? -v : v });
	}
	Node *axis = x_axis(m, x_idx(m, COUNT));
	Node *x = x_read(m, t_const(m, DT_F64, 1, &dim, f), &axis);
	Node *y = x_read(m, t_const(m, DT_I64, 1, &dim, i), &axis);
	for (int to = DT_F8E4M3FN; to <= DT_F16; to++) {
		compare(m, axis, x_cast(m, to, x), dtypes[to].text);
		compare(m, axis, x_cast(m, to, y), dtypes[to].text);
	}
	module_free(m);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("legalize");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, operations, 0, 12);
	tcase_add_loop_test(t, casts, 0, N_DTYPES - 1);
	tcase_add_test(t, double_rounding);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
