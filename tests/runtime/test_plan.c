/* Entry points of a plan that the hand-written model does not use: each test is a plan. */
#include <check.h>
#include <math.h>
#include "tests/runtime/blob.h"

enum { OUT_A, OUT_SEQ };
enum { P_X, P_A, P_B, P_HEAP, P_VIEW, P_OUT, P_CONST, P_SEQ, P_SEQ2, P_NAMES, P_STR, P_BOOL,
       P_I64, P_NUM, P_COUNT };

static const struct {
	int64_t numbers[3];
	char text[16];
	TccStr names[3];
} weights __attribute__((aligned(64))) = {
	{7, -8, 9}, "redgreenblue",
	{{(char *)24, 3}, {(char *)27, 5}, {(char *)32, 4}},
};

static Blob blob;
static TccInst *inst;
static TccContext *ctx;
static TccValue out[2];
static float input[8] = {0, 1, 2, 3, 4, 5, 6, 7};

static void build_plan_meta(Blob *b)
{
	*b = (Blob){.size = sizeof(TccMeta)};
	TccMeta m = {0};
	memcpy(m.magic, "TCCMETA1", 8);
	m.name = put_string(b, "plan");
	TccDim dims[] = {{-1, 0, 0, put_string(b, "N"), 0}};
	TccPort in[] = {port(b, "x", TCC_F32, 1, 0, P_X)};
	TccPort o[] = {port(b, "a", TCC_F32, -1, 0, P_OUT), port(b, "seq", TCC_F32, -1, 0, P_SEQ)};
	o[OUT_SEQ].kind = TCC_SEQUENCE;
	TccBuffer bufs[P_COUNT];
	static const struct { uint32_t cls, dtype; } rows[P_COUNT] = {
		[P_X] = {TCC_BUF_INPUT, TCC_F32}, [P_A] = {TCC_BUF_ARENA, TCC_F32},
		[P_B] = {TCC_BUF_ARENA, TCC_F32}, [P_HEAP] = {TCC_BUF_HEAP, TCC_F32},
		[P_VIEW] = {TCC_BUF_VIEW, TCC_F32}, [P_OUT] = {TCC_BUF_OUTPUT, TCC_F32},
		[P_CONST] = {TCC_BUF_CONST, TCC_I64}, [P_SEQ] = {TCC_BUF_VALUE, TCC_F32},
		[P_SEQ2] = {TCC_BUF_VALUE, TCC_F32}, [P_NAMES] = {TCC_BUF_CONST, TCC_STRING},
		[P_STR] = {TCC_BUF_HOST, TCC_STRING}, [P_BOOL] = {TCC_BUF_HEAP, TCC_BOOL},
		[P_I64] = {TCC_BUF_HEAP, TCC_I64}, [P_NUM] = {TCC_BUF_HEAP, TCC_F64},
	};
	for (int i = 0; i < P_COUNT; i++)
		bufs[i] = buffer(b, rows[i].cls, rows[i].dtype, "b");
	bufs[P_A].last = bufs[P_B].last = 9;
	bufs[P_CONST].offset = 0;
	bufs[P_CONST].size = sizeof weights.numbers;
	bufs[P_NAMES].offset = offsetof(__typeof__(weights), names);
	bufs[P_NAMES].size = sizeof weights.names;
	m.dims = PUT_ROWS(b, dims);
	m.inputs = PUT_ROWS(b, in);
	m.outputs = PUT_ROWS(b, o);
	m.kernels = put_rows(b, NULL, 0, 1);
	m.buffers = PUT_ROWS(b, bufs);
	m.texts = put_rows(b, NULL, 0, 1);
	b->bytes[b->size++] = 0;
	memcpy(b->bytes, &m, sizeof m);
}

/* Runs a plan on x = 0 .. n - 1, twice: what the first leaves must not show in the second. */
static void run_plan(int32_t (*p)(TccRun *), int64_t n, int code)
{
	static TccModel model;
	build_plan_meta(&blob);
	model = (TccModel){
		.abi_version = TCC_ABI_VERSION, .meta = blob.bytes, .meta_size = blob.size,
		.weights = &weights, .weights_size = sizeof weights, .plan = p,
	};
	ck_assert_int_eq(tcc_load(&model, NULL, &inst), 0);
	ck_assert_int_eq(tcc_context_new(inst, &ctx), 0);
	TccValue x = {.kind = TCC_TENSOR, .dtype = TCC_F32};
	tcc_tensor_set(&x.u.tensor, TCC_F32, 1, &n, input);
	memset(out, 0, sizeof out);
	for (int i = 0; i < 2; i++) {
		int rc = tcc_run(ctx, &x, 1, out, 2);
		ck_assert_msg(rc == code, "%d: %s", rc, tcc_error(ctx));
	}
}

static void done(void)
{
	tcc_context_free(ctx);
	tcc_unload(inst);
}

static void check_floats(const TccValue *v, int n, const float *want)
{
	ck_assert_uint_eq(v->kind, TCC_TENSOR);
	ck_assert_uint_eq(tcc_tensor_count(&v->u.tensor), n);
	for (int i = 0; i < n; i++)
		ck_assert_msg(((float *)v->u.tensor.data)[i] == want[i], "%d", i);
}

static int32_t no_seq(TccRun *run)
{
	run->api->host(run, TCC_HOST_seq_new, (int64_t[]){P_SEQ, TCC_F32});
	return run->api->output(run, OUT_SEQ, P_SEQ, 0, NULL);
}

static int32_t plan_swaps(TccRun *run)
{
	const TccApi *api = run->api;
	int64_t n = api->dim(run, 0, 0) * 4;
	TRY(api->size(run, P_A, n));
	TRY(api->size(run, P_B, n));
	TRY(api->place(run));
	TRY(api->copy(run, P_A, 0, P_X, 0, n));
	TRY(api->copy(run, P_B, 0, P_X, 4, n - 4));
	TRY(api->copy(run, P_B, n - 4, P_X, 0, 4));     /* a: 0 1 2 3, b: 1 2 3 0 */
	TRY(api->swap(run, P_A, P_B));
	TRY(api->alloc(run, P_HEAP, n));
	TRY(api->copy(run, P_HEAP, 0, P_A, 0, n));
	TRY(api->swap(run, P_HEAP, P_B));               /* heap: 0 1 2 3, b: 1 2 3 0 */
	TRY(api->alias(run, P_VIEW, P_B, 4));           /* 2 3 0 */
	TRY(api->copy(run, P_HEAP, 0, P_VIEW, 0, 8));   /* 2 3 2 3 */
	TRY(api->output(run, OUT_A, P_HEAP, 2, (int64_t[]){2, n / 8}));
	return no_seq(run);
}

START_TEST(swaps_copies_views)
{
	run_plan(plan_swaps, 4, 0);
	check_floats(&out[0], 4, (float[]){2, 3, 2, 3});
	ck_assert_int_eq(out[0].u.tensor.ndim, 2);
	done();
}
END_TEST

static int32_t plan_list(TccRun *run)
{
	const TccApi *api = run->api;
	int64_t l = api->list_new(run), other = api->list_new(run);
	for (int64_t i = 0; i < 100; i++) {
		TRY(api->alias(run, P_VIEW, P_X, 4 * (i % 4)));
		TRY(api->list_push(run, l, P_VIEW, 8));
		TRY(api->list_push(run, other, P_X, 0));
	}
	TRY(api->check(run, api->list_count(run, l) == 100, 0, 0, 0));
	TRY(api->check(run, api->list_concat(run, other, P_HEAP) == 0, 0, 0, 0));
	TRY(api->check(run, api->list_concat(run, l, P_HEAP) == 800, 0, 0, 0));
	TRY(api->output(run, OUT_A, P_HEAP, 1, (int64_t[]){200}));
	TRY(api->release(run, P_HEAP));
	return no_seq(run);
}

START_TEST(lists)
{
	float want[200];
	for (int i = 0; i < 100; i++) {
		want[2 * i] = (float)(i % 4);
		want[2 * i + 1] = (float)(i % 4 + 1);
	}
	run_plan(plan_list, 8, 0);
	check_floats(&out[0], 200, want);
	done();
}
END_TEST

static int32_t plan_load(TccRun *run)
{
	const TccApi *api = run->api;
	float v[4] = {
		(float)api->load(run, P_CONST, TCC_I64, 1), (float)api->load(run, P_X, TCC_F32, 3),
		(float)api->dim(run, 0, 0), (float)(10 * api->rank(run, 0) + api->present(run, 0)),
	};
	TRY(api->output(run, OUT_A, P_OUT, 1, (int64_t[]){4}));
	memcpy(((TccContext *)run)->slots[P_OUT].p, v, sizeof v);
	return no_seq(run);
}

START_TEST(scalars)
{
	run_plan(plan_load, 5, 0);
	check_floats(&out[0], 4, (float[]){-8, 3, 5, 11});
	done();
}
END_TEST

static int32_t plan_negative(TccRun *run)
{
	run->api->size(run, P_A, -1);
	run->api->place(run);
	ck_assert_int_eq(run->api->load(run, P_X, TCC_F32, 3), 0);
	return run->api->output(run, OUT_A, P_X, 1, (int64_t[]){1});
}

START_TEST(errors_stick)
{
	run_plan(plan_negative, 5, TCC_BAD_DATA);
	ck_assert_str_eq(tcc_error(ctx), "the size of 'b' is negative or overflows");
	done();
}
END_TEST

#define HOST(name, ...) api->host(run, TCC_HOST_##name, (int64_t[]){__VA_ARGS__})

static int32_t plan_sequence(TccRun *run)
{
	const TccApi *api = run->api;
	HOST(seq_new, P_SEQ, TCC_F32);
	for (int64_t i = 0; i < 4; i++) {
		TRY(api->alias(run, P_VIEW, P_X, 4 * i));
		HOST(seq_insert, P_SEQ, P_SEQ, i == 3 ? -2 : i, P_VIEW, 2, 1, i + 1);
	}
	/* [0] [3 4 5 6] [1 2] [2 3 4] */
	HOST(value_move, P_SEQ2, P_SEQ);
	HOST(seq_erase, P_SEQ, P_SEQ, -2);
	TRY(api->alloc(run, P_I64, 24));
	HOST(seq_len, P_I64, P_SEQ);
	TRY(api->check(run, api->load(run, P_I64, TCC_I64, 0) == 3, 0, 0, 0));
	HOST(seq_len, P_I64, P_SEQ2);
	TRY(api->check(run, api->load(run, P_I64, TCC_I64, 0) == 4, 0, 0, 0));
	HOST(seq_shape, P_I64, P_SEQ, 1, 2, 1, -1);
	TRY(api->check(run, api->load(run, P_I64, TCC_I64, 1) == 4, 0, 0, 0));
	HOST(seq_at, P_VIEW, P_SEQ2, 2);
	TRY(api->output(run, OUT_A, P_VIEW, 1, (int64_t[]){2}));
	return api->output(run, OUT_SEQ, P_SEQ, 0, NULL);
}

START_TEST(sequences)
{
	run_plan(plan_sequence, 8, 0);
	check_floats(&out[0], 2, (float[]){1, 2});
	ck_assert_uint_eq(out[1].u.seq.n, 3);
	check_floats(&out[1].u.seq.items[0], 1, (float[]){0});
	check_floats(&out[1].u.seq.items[1], 4, (float[]){3, 4, 5, 6});
	check_floats(&out[1].u.seq.items[2], 3, (float[]){2, 3, 4});
	done();
}
END_TEST

static int32_t plan_bad_position(TccRun *run)
{
	const TccApi *api = run->api;
	HOST(seq_new, P_SEQ, TCC_F32);
	HOST(seq_at, P_VIEW, P_SEQ, 0);
	return run->status;
}

START_TEST(bad_position)
{
	run_plan(plan_bad_position, 1, TCC_BAD_DATA);
	ck_assert_str_eq(tcc_error(ctx), "a position is outside of its sequence");
	done();
}
END_TEST

static int32_t plan_optional(TccRun *run)
{
	const TccApi *api = run->api;
	HOST(value_none, P_SEQ2);
	TRY(api->alloc(run, P_BOOL, 1));
	TRY(api->alloc(run, P_I64, 24));
	HOST(value_has, P_BOOL, P_SEQ2);
	TRY(api->check(run, !api->load(run, P_BOOL, TCC_BOOL, 0), 0, 0, 0));
	HOST(value_wrap, P_SEQ2, P_X, 1, 3);
	HOST(value_has, P_BOOL, P_SEQ2);
	HOST(value_shape, P_I64, P_SEQ2, 1, -1);
	TRY(api->check(run, api->load(run, P_BOOL, TCC_BOOL, 0) &&
	               api->load(run, P_I64, TCC_I64, 0) == 3, 0, 0, 0));
	HOST(value_get, P_VIEW, P_SEQ2);
	TRY(api->output(run, OUT_A, P_VIEW, 1, (int64_t[]){3}));
	return no_seq(run);
}

START_TEST(optionals)
{
	run_plan(plan_optional, 3, 0);
	check_floats(&out[0], 3, (float[]){0, 1, 2});
	done();
}
END_TEST

static int32_t plan_zipmap(TccRun *run)
{
	const TccApi *api = run->api;
	HOST(zipmap, P_SEQ, P_NAMES, P_X, 2, 3);
	TRY(api->output(run, OUT_A, P_X, 1, (int64_t[]){1}));
	return api->output(run, OUT_SEQ, P_SEQ, 0, NULL);
}

START_TEST(zipmap)
{
	run_plan(plan_zipmap, 6, 0);
	ck_assert_uint_eq(out[1].u.seq.n, 2);
	const TccValue *m = &out[1].u.seq.items[1];
	ck_assert_uint_eq(m->kind, TCC_MAP);
	check_floats(m->u.map.values, 3, (float[]){3, 4, 5});
	const TccStr *s = m->u.map.keys->u.tensor.data;
	ck_assert(s[1].size == 5 && !memcmp(s[1].data, "green", 5));
	done();
}
END_TEST

static bool is(const TccContext *c, int buffer, int i, const char *want)
{
	const TccStr *s = (const TccStr *)(const void *)c->slots[buffer].p + i;
	return s->size == strlen(want) && !memcmp(s->data, want, s->size);
}

static int32_t plan_strings(TccRun *run)
{
	const TccApi *api = run->api;
	const TccContext *c = (TccContext *)run;
	TRY(api->alloc(run, P_BOOL, 3));
	TRY(api->alloc(run, P_I64, 24));
	TRY(api->alloc(run, P_NUM, 24));
	HOST(str_concat, P_STR, P_NAMES, 1, P_NAMES, 0, 3);
	ck_assert(is(c, P_STR, 1, "greenred") && is(c, P_STR, 2, "bluered"));
	HOST(str_equal, P_BOOL, P_NAMES, 1, P_NAMES, 0, 3);
	ck_assert(c->slots[P_BOOL].p[0] == 1 && c->slots[P_BOOL].p[1] == 0);
	HOST(str_find, P_I64, P_STR, 3, P_NAMES, 3);
	ck_assert_int_eq(api->load(run, P_I64, TCC_I64, 1), -1);
	HOST(str_find, P_I64, P_NAMES, 3, P_NAMES, 3);
	ck_assert_int_eq(api->load(run, P_I64, TCC_I64, 2), 2);
	HOST(str_format, P_STR, P_CONST, 3);
	ck_assert(is(c, P_STR, 1, "-8"));
	HOST(str_parse, P_NUM, P_STR, 3);
	double *v = (double *)(void *)c->slots[P_NUM].p;
	ck_assert(v[0] == 7 && v[1] == -8);
	v[0] = 0.1, v[1] = 1e22, v[2] = -INFINITY;
	HOST(str_format, P_STR, P_NUM, 3);
	ck_assert(is(c, P_STR, 0, "0.1") && is(c, P_STR, 1, "1e+22") && is(c, P_STR, 2, "-inf"));
	HOST(str_format, P_STR, P_X, 2);
	ck_assert(is(c, P_STR, 1, "1.0"));
	TRY(run->status);
	HOST(str_parse, P_NUM, P_NAMES, 1);
	return run->status;
}

START_TEST(strings)
{
	run_plan(plan_strings, 3, TCC_BAD_DATA);
	ck_assert_str_eq(tcc_error(ctx), "a string is not a number");
	done();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("plan");
	TCase *c = tcase_create("plan");
	tcase_add_test(c, swaps_copies_views);
	tcase_add_test(c, lists);
	tcase_add_test(c, scalars);
	tcase_add_test(c, errors_stick);
	tcase_add_test(c, sequences);
	tcase_add_test(c, bad_position);
	tcase_add_test(c, optionals);
	tcase_add_test(c, zipmap);
	tcase_add_test(c, strings);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
