#include <check.h>
#include <stdio.h>
#include <unistd.h>
#include "tests/runtime/model.h"

static Blob blob;
static TccModel model;
static TccInst *inst;
static TccContext *ctx;

static void load(const TccOptions *options)
{
	model = hand_model(&blob);
	int rc = tcc_load(&model, options, &inst);
	ck_assert_msg(!rc, "%s", tcc_inst_error(inst));
	rc = tcc_context_new(inst, &ctx);
	ck_assert_msg(!rc, "%s", tcc_error(ctx));
}

static void unload(void)
{
	tcc_context_free(ctx);
	tcc_unload(inst);
}

static TccValue make(uint32_t dtype, int rank, const int64_t *dims)
{
	TccValue v;
	ck_assert_int_eq(tcc_tensor_new(&v, dtype, rank, dims, NULL), 0);
	return v;
}

static TccValue floats(int64_t n)
{
	TccValue v = make(TCC_F32, 2, (int64_t[]){n, 4});
	for (int64_t i = 0; i < 4 * n; i++)
		((float *)v.u.tensor.data)[i] = (float)(i % 11) - 7;
	return v;
}

static TccValue indices(int64_t m, int64_t step)
{
	TccValue v = make(TCC_I64, 1, &m);
	for (int64_t i = 0; i < m; i++)
		((int64_t *)v.u.tensor.data)[i] = i * step;
	return v;
}

static void check_results(const TccValue *out, int64_t n, int64_t m, const float *b)
{
	const float *y = out[OUT_Y].u.tensor.data, *s = out[OUT_S].u.tensor.data;
	const float *t = out[OUT_T].u.tensor.data;
	ck_assert_int_eq(out[OUT_Y].u.tensor.ndim, 2);
	ck_assert_int_eq(out[OUT_Y].u.tensor.shape[0], n);
	ck_assert_int_eq(out[OUT_S].u.tensor.shape[0], n);
	ck_assert_int_eq(out[OUT_T].u.tensor.shape[0], m);
	int64_t wrong = 0;      /* an assertion of Check's for each element would take minutes */
	for (int64_t i = 0; i < n; i++) {
		float sum = 0;
		for (int j = 0; j < 4; j++) {
			float v = (float)((4 * i + j) % 11) - 7 + b[j];
			v = v > 0 ? v : 0;
			wrong += y[4 * i + j] != v;
			sum += v;
		}
		wrong += s[i] != sum;
	}
	ck_assert_int_eq(wrong, 0);
	for (int64_t i = 0; i < m; i++)
		ck_assert(t[i] == 10 * i);
}

static void run_sizes(int64_t n, int64_t m)
{
	TccValue in[] = {floats(n), indices(m, 1)}, out[3] = {0};
	int rc = tcc_run(ctx, in, 2, out, 3);
	ck_assert_msg(!rc, "%s", tcc_error(ctx));
	check_results(out, n, m, the_weights.b);
	rc = tcc_run(ctx, in, 2, out, 3);       /* what the last run left there is no caller's memory */
	ck_assert_msg(!rc, "%s", tcc_error(ctx));
	check_results(out, n, m, the_weights.b);
	tcc_value_free(&in[0]);
	tcc_value_free(&in[1]);
}

START_TEST(shapes_in_one_context)
{
	load(NULL);
	for (int64_t n = 0; n < 40; n += 3)
		run_sizes(n, n < 12 ? n : 12);
	run_sizes(5, 2);
	unload();
}
END_TEST

START_TEST(many_threads)
{
	load(&(TccOptions){.size = sizeof(TccOptions), .threads = 4});
	run_sizes(200000, 3);
	run_sizes(100001, 3);
	run_sizes(2, 1);
	unload();
}
END_TEST

static int parallel_calls;

static void serially(void *user, int64_t n, void (*body)(void *arg, int64_t i), void *arg)
{
	ck_assert_ptr_eq(user, &parallel_calls);
	parallel_calls++;
	for (int64_t i = n; i-- > 0;)
		body(arg, i);
}

START_TEST(callers_threads)
{
	load(&(TccOptions){.size = sizeof(TccOptions), .threads = 3, .parallel_for = serially,
	                   .parallel_user = &parallel_calls});
	run_sizes(100000, 3);
	ck_assert_int_eq(parallel_calls, 6);
	unload();
}
END_TEST

START_TEST(given_default_and_callers_outputs)
{
	load(NULL);
	TccValue in[] = {floats(6), indices(2, 1), make(TCC_F32, 1, (int64_t[]){4})};
	TccValue out[] = {make(TCC_F32, 2, (int64_t[]){9, 4}), make(TCC_F32, 1, (int64_t[]){6}), {0}};
	void *mine = out[OUT_Y].u.tensor.data;
	int rc = tcc_run(ctx, in, 3, out, 3);
	ck_assert_msg(!rc, "%s", tcc_error(ctx));
	check_results(out, 6, 2, (float[4]){0});
	ck_assert_ptr_eq(out[OUT_Y].u.tensor.data, mine);
	tcc_value_free(&out[OUT_Y]);
	out[OUT_Y] = make(TCC_F32, 2, (int64_t[]){5, 4});
	ck_assert_int_eq(tcc_run(ctx, in, 3, out, 3), TCC_BAD_DATA);
	ck_assert_str_eq(tcc_error(ctx), "output 'y': the memory given for it is too small");
	for (int i = 0; i < 3; i++)
		tcc_value_free(&in[i]);
	tcc_value_free(&out[OUT_Y]);
	tcc_value_free(&out[OUT_S]);
	unload();
}
END_TEST

START_TEST(strided_input)
{
	load(NULL);
	TccValue whole = floats(8), in[] = {whole, indices(1, 1)}, out[3] = {0};
	in[0].u.tensor.shape = (int64_t[]){4, 4};
	in[0].u.tensor.strides = (int64_t[]){8, 1};
	in[0].u.tensor.byte_offset = 16;
	ck_assert_int_eq(tcc_run(ctx, in, 2, out, 3), 0);
	const float *x = whole.u.tensor.data, *y = out[OUT_Y].u.tensor.data;
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < 4; j++) {
			float v = x[8 * i + 4 + j] + the_weights.b[j];
			ck_assert(y[4 * i + j] == (v > 0 ? v : 0));
		}
	tcc_value_free(&whole);
	tcc_value_free(&in[1]);
	unload();
}
END_TEST

static void expect_error(const TccValue *in, uint64_t n, int code, const char *text)
{
	TccValue out[3] = {0};
	ck_assert_int_eq(tcc_run(ctx, in, n, out, 3), code);
	ck_assert_str_eq(tcc_error(ctx), text);
}

START_TEST(bad_inputs)
{
	load(NULL);
	TccValue x = floats(3), i = indices(2, 1), big = indices(3, 6), many = indices(4, 1);
	TccValue wide = make(TCC_F32, 2, (int64_t[]){3, 5});
	expect_error((TccValue[]){x}, 1, TCC_BAD_DATA, "input 'i' is missing");
	expect_error((TccValue[]){i, x}, 2, TCC_BAD_DATA,
	             "input 'x' is int64[2], the model takes float32[N,4]");
	expect_error((TccValue[]){wide, i}, 2, TCC_BAD_DATA,
	             "input 'x' is float32[3,5], the model takes float32[N,4]");
	expect_error((TccValue[]){x, many}, 2, TCC_BAD_DATA,
	             "input 'i' has 4 elements, at most 3 can be used");
	expect_error((TccValue[]){x, big}, 2, TCC_BAD_DATA,
	             "node 'pick' (Gather): an index is out of range");
	expect_error((TccValue[]){x, i, wide, wide}, 4, TCC_USAGE, "4 inputs given, the model has 3");
	wide.u.tensor.shape = (int64_t[]){1 << 21, 4};
	expect_error((TccValue[]){wide, i}, 2, TCC_BAD_DATA,
	             "input 'x', dimension 0 is 2097152; the model was compiled for 0 to 1048576");
	run_sizes(3, 2);
	tcc_value_free(&x);
	tcc_value_free(&i);
	tcc_value_free(&big);
	tcc_value_free(&many);
	wide.u.tensor.shape = (int64_t *)(void *)((char *)wide.u.tensor.data - TCC_ALIGN);
	tcc_value_free(&wide);
	unload();
}
END_TEST

static void write_weights(const char *path, uint64_t id, uint64_t size)
{
	FILE *f = fopen(path, "wb");
	TccWeightsHeader h = {.size = size, .id = id};
	memcpy(h.magic, "TCCWGHT1", 8);
	fwrite(&h, sizeof h, 1, f);
	fwrite(&the_weights, sizeof the_weights, 1, f);
	fclose(f);
}

static int load_with_file(const char *path)
{
	model = hand_model(&blob);
	model.weights = NULL;
	return tcc_load(&model, &(TccOptions){.size = sizeof(TccOptions), .weights = path}, &inst);
}

START_TEST(weights_in_a_file)
{
	char path[] = "/tmp/tcc_weights_XXXXXX";
	ck_assert_int_ge(mkstemp(path), 0);
	write_weights(path, 77, sizeof the_weights);
	ck_assert_int_eq(load_with_file(path), 0);
	ck_assert_int_eq(tcc_context_new(inst, &ctx), 0);
	run_sizes(4, 4);
	unload();
	write_weights(path, 78, sizeof the_weights);
	ck_assert_int_eq(load_with_file(path), TCC_BAD_FILE);
	ck_assert(strstr(tcc_inst_error(inst), "another model"));
	tcc_unload(inst);
	ck_assert_int_eq(truncate(path, 100), 0);
	ck_assert_int_eq(load_with_file(path), TCC_BAD_FILE);
	tcc_unload(inst);
	unlink(path);
	ck_assert_int_eq(load_with_file(path), TCC_BAD_FILE);
	tcc_unload(inst);
	ck_assert_int_eq(load_with_file(NULL), TCC_BAD_FILE);
	ck_assert(strstr(tcc_inst_error(inst), "hand.weights"));
	tcc_unload(inst);
}
END_TEST

START_TEST(wrong_machine_and_device)
{
	model = hand_model(&blob);
	model.needs = "no-such-feature";
	ck_assert_int_eq(tcc_load(&model, NULL, &inst), TCC_NO_DEVICE);
	ck_assert(strstr(tcc_inst_error(inst), "no-such-feature"));
	tcc_unload(inst);
	TccModel other = model;
	other.needs = NULL;
	model.next = &other;
	ck_assert_int_eq(tcc_load(&model, NULL, &inst), 0);
	ck_assert_ptr_eq(tcc_inst_model(inst), &other);
	tcc_unload(inst);
	TccOptions o = {.size = sizeof o, .device = "cuda"};
	ck_assert_int_eq(tcc_load(&other, &o, &inst), TCC_NO_DEVICE);
	tcc_unload(inst);
}
END_TEST

/* Whatever byte of the meta is damaged, loading and running end in an orderly way. */
START_TEST(damaged_meta)
{
	TccValue x = floats(3), i = indices(2, 1);
	model = hand_model(&blob);
	uint32_t tables = tcc_meta(&model)->texts.offset + 8;
	for (uint32_t at = 0; at < tables; at++) {
		model = hand_model(&blob);
		blob.bytes[at] ^= 0x81;
		if (tcc_load(&model, NULL, &inst)) {
			ck_assert(*tcc_inst_error(inst));
		}
		tcc_unload(inst);
	}
	model = hand_model(&blob);
	for (uint64_t size = 0; size < sizeof(TccMeta) + 40; size++) {
		model.meta_size = size;
		ck_assert_int_ne(tcc_load(&model, NULL, &inst), 0);
		ck_assert_int_ne(tcc_context_new(inst, &ctx), 0);
		unload();
	}
	tcc_value_free(&x);
	tcc_value_free(&i);
}
END_TEST

START_TEST(profile)
{
	load(&(TccOptions){.size = sizeof(TccOptions), .profile = TCC_PROFILE_KERNELS});
	run_sizes(10, 2);
	const TccProfile *p = tcc_profile(ctx);
	ck_assert_int_eq(p[K_ADD].launches, 2);
	ck_assert(p[K_ADD].flops == 2 * 10 * 4);
	tcc_profile_reset(ctx);
	ck_assert_int_eq(p[K_ADD].launches, 0);
	unload();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("model");
	TCase *c = tcase_create("hand-written");
	tcase_set_timeout(c, 60);
	tcase_add_test(c, shapes_in_one_context);
	tcase_add_test(c, many_threads);
	tcase_add_test(c, callers_threads);
	tcase_add_test(c, given_default_and_callers_outputs);
	tcase_add_test(c, strided_input);
	tcase_add_test(c, bad_inputs);
	tcase_add_test(c, weights_in_a_file);
	tcase_add_test(c, wrong_machine_and_device);
	tcase_add_test(c, damaged_meta);
	tcase_add_test(c, profile);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
