#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <dlpack/dlpack.h>
#include "runtime/rt.h"

_Static_assert(sizeof(TccTensor) == sizeof(DLTensor), "TccTensor is DLPack's tensor");
_Static_assert(offsetof(TccTensor, data) == offsetof(DLTensor, data), "");
_Static_assert(offsetof(TccTensor, device_type) == offsetof(DLTensor, device), "");
_Static_assert(offsetof(TccTensor, ndim) == offsetof(DLTensor, ndim), "");
_Static_assert(offsetof(TccTensor, code) == offsetof(DLTensor, dtype), "");
_Static_assert(offsetof(TccTensor, shape) == offsetof(DLTensor, shape), "");
_Static_assert(offsetof(TccTensor, strides) == offsetof(DLTensor, strides), "");
_Static_assert(offsetof(TccTensor, byte_offset) == offsetof(DLTensor, byte_offset), "");
_Static_assert((int)TCC_DEV_CUDA == kDLCUDA && (int)TCC_DEV_HIP == kDLROCM, "");

static const TccWant anything = {.rank = -1};

static void check_equal(const TccValue *a, const TccValue *b)
{
	ck_assert_uint_eq(a->kind, b->kind);
	if (a->kind == TCC_SEQUENCE) {
		ck_assert_uint_eq(a->u.seq.n, b->u.seq.n);
		for (uint64_t i = 0; i < a->u.seq.n; i++)
			check_equal(&a->u.seq.items[i], &b->u.seq.items[i]);
	} else if (a->kind == TCC_MAP) {
		check_equal(a->u.map.keys, b->u.map.keys);
		check_equal(a->u.map.values, b->u.map.values);
	}
	if (a->kind != TCC_TENSOR)
		return;
	const TccTensor *x = &a->u.tensor, *y = &b->u.tensor;
	uint64_t bytes;
	ck_assert_uint_eq(a->dtype, b->dtype);
	ck_assert_int_eq(x->ndim, y->ndim);
	ck_assert(!x->ndim || !memcmp(x->shape, y->shape, x->ndim * 8));
	tcc_tensor_size(a->dtype, x->ndim, x->shape, NULL, &bytes);
	if (a->dtype != TCC_STRING) {
		ck_assert(!memcmp(x->data, y->data, bytes));
		return;
	}
	const TccStr *s = x->data, *t = y->data;
	for (uint64_t i = 0; i < tcc_tensor_count(x); i++)
		ck_assert(s[i].size == t[i].size && !memcmp(s[i].data, t[i].data, s[i].size));
}

static TccValue sample(uint32_t dtype, int rank, const int64_t *dims)
{
	TccValue v;
	uint64_t bytes, bits = tcc_dtype_bits(dtype);
	if (dtype == TCC_STRING) {
		static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80zyx";
		ck_assert_int_eq(tcc_strings_new(&v, rank, dims, sizeof text, NULL), 0);
		char *to = memcpy(tcc_strings_bytes(&v), text, sizeof text);
		TccStr *s = v.u.tensor.data;
		for (uint64_t i = 0; i < tcc_tensor_count(&v.u.tensor); i++)
			s[i] = (TccStr){to, i % 3 == 2 ? 0 : i % 3 ? 10 : 1};
		return v;
	}
	ck_assert_int_eq(tcc_tensor_new(&v, dtype, rank, dims, NULL), 0);
	tcc_tensor_size(dtype, rank, dims, NULL, &bytes);
	uint8_t *p = v.u.tensor.data;
	for (uint64_t i = 0; i < bytes; i++)
		p[i] = dtype == TCC_BOOL ? i & 1 : (uint8_t)(i * 37 + 11);
	uint64_t tail = tcc_tensor_count(&v.u.tensor) * bits % 8;
	if (tail)
		p[bytes - 1] &= (1 << tail) - 1;
	return v;
}

static const int64_t shapes[][3] = {{2, 3, 5}, {7, 0, 0}, {1, 1, 1}, {3, 0, 4}};
static const int ranks[] = {3, 1, 0, 3};

/* Every type and a few shapes through a format, with and without knowing what to expect. */
static void round_trips(const char *path)
{
	for (uint32_t d = 1; d < TCC_NDTYPES; d++)
		for (size_t k = 0; k < TCC_COUNT(ranks); k++) {
			TccErr err = {0};
			TccValue v = sample(d, ranks[k], shapes[k]), w;
			TccWant want = {TCC_TENSOR, 0, d, 0, false, ranks[k], shapes[k]};
			int rc = tcc_write_value(path, "x", &v, &err);
			ck_assert_msg(!rc, "%s", err.text);
			rc = tcc_read_value(path, "x", &want, &w, &err);
			ck_assert_msg(!rc, "%s", err.text);
			check_equal(&v, &w);
			tcc_value_free(&v);
			tcc_value_free(&w);
		}
	unlink(path);
}

START_TEST(tensors_round_trip)
{
	round_trips("/tmp/tcc_test_rt.npy");
	round_trips("/tmp/tcc_test_rt.npz");
	round_trips("/tmp/tcc_test_rt.pb");
}
END_TEST

START_TEST(raw_and_text)
{
	TccErr err = {0};
	int64_t dims[] = {2, 3}, open[] = {-1, 3}, wrong[] = {-1, 4};
	TccValue v = sample(TCC_I64, 2, dims), w;
	TccWant want = {TCC_TENSOR, 0, TCC_I64, 0, false, 2, open};
	const char *paths[] = {"/tmp/tcc_test_rt.raw", "/tmp/tcc_test_rt.txt"};
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(tcc_write_value(paths[i], "x", &v, &err), 0);
		ck_assert_int_eq(tcc_read_value(paths[i], "x", &want, &w, &err), 0);
		check_equal(&v, &w);
		tcc_value_free(&w);
		want.dims = wrong;
		ck_assert_int_eq(tcc_read_value(paths[i], "x", &want, &w, &err), TCC_BAD_DATA);
		want.dims = open;
		err = (TccErr){0};
		unlink(paths[i]);
	}
	tcc_value_free(&v);
	v = sample(TCC_STRING, 1, (int64_t[]){5});
	ck_assert_int_eq(tcc_write_value(paths[1], "x", &v, &err), 0);
	ck_assert_int_eq(tcc_read_value(paths[1], "x", NULL, &w, &err), 0);
	check_equal(&v, &w);
	tcc_value_free(&v);
	tcc_value_free(&w);
	unlink(paths[1]);
}
END_TEST

START_TEST(pb_sequences_and_maps)
{
	TccErr err = {0};
	TccBuf b = {0};
	TccValue v, w;
	ck_assert_int_eq(tcc_sequence_new(&v, TCC_F32, 3, &err), 0);
	v.u.seq.items[0] = sample(TCC_F32, 2, (int64_t[]){2, 2});
	v.u.seq.items[1] = sample(TCC_F32, 1, (int64_t[]){0});
	v.u.seq.items[2] = sample(TCC_F32, 0, NULL);
	TccWant want = {.kind = TCC_SEQUENCE, .rank = -1};
	ck_assert_int_eq(tcc_pb_write(&v, "s", &b, &err), 0);
	ck_assert_int_eq(tcc_pb_read((TccBytes){b.p, b.n}, &want, &w, &err), 0);
	check_equal(&v, &w);
	tcc_value_free(&v);
	tcc_value_free(&w);
	tcc_buf_free(&b);
	for (int strings = 0; strings < 2; strings++) {
		ck_assert_int_eq(tcc_sequence_new(&v, 0, 1, &err), 0);
		TccValue *m = &v.u.seq.items[0];
		ck_assert_int_eq(tcc_map_new(m, TCC_F32, &err), 0);
		*m->u.map.keys = sample(strings ? TCC_STRING : TCC_I64, 1, (int64_t[]){3});
		*m->u.map.values = sample(TCC_F32, 1, (int64_t[]){3});
		ck_assert_int_eq(tcc_pb_write(&v, NULL, &b, &err), 0);
		ck_assert_int_eq(tcc_pb_read((TccBytes){b.p, b.n}, &want, &w, &err), 0);
		check_equal(&v, &w);
		tcc_value_free(&v);
		tcc_value_free(&w);
		tcc_buf_free(&b);
	}
	v = (TccValue){0};
	want = (TccWant){.kind = TCC_TENSOR, .optional = true, .rank = -1};
	ck_assert_int_eq(tcc_pb_write(&v, NULL, &b, &err), 0);
	ck_assert_int_eq(tcc_pb_read((TccBytes){b.p, b.n}, &want, &w, &err), 0);
	ck_assert_uint_eq(w.kind, TCC_NONE);
	tcc_buf_free(&b);
}
END_TEST

static TccBytes text(const char *s, size_t n)
{
	return (TccBytes){(const uint8_t *)s, n};
}

/* A .npy header by hand, then data. */
static TccBuf npy(const char *dict, const void *data, uint64_t n)
{
	TccBuf b = {0};
	uint8_t len[] = {(uint8_t)strlen(dict), 0};
	tcc_buf_add(&b, "\x93NUMPY\x01\x00", 8);
	tcc_buf_add(&b, len, 2);
	tcc_buf_add(&b, dict, strlen(dict));
	tcc_buf_add(&b, data, n);
	return b;
}

START_TEST(npy_orders)
{
	TccErr err = {0};
	TccValue v;
	const uint8_t big[] = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6};
	TccBuf b = npy("{'shape': (2, 3L), \"descr\": '>i2', 'fortran_order': True, }\n", big, 12);
	ck_assert_int_eq(tcc_npy_read((TccBytes){b.p, b.n}, &anything, &v, &err), 0);
	const int16_t want[] = {1, 3, 5, 2, 4, 6};
	ck_assert_uint_eq(v.dtype, TCC_I16);
	ck_assert(!memcmp(v.u.tensor.data, want, sizeof want));
	tcc_value_free(&v);
	tcc_buf_free(&b);
	b = npy("{'descr': '<u2', 'fortran_order': False, 'shape': (1,)}", big, 2);
	TccWant bf16 = {TCC_TENSOR, 0, TCC_BF16, 0, false, -1, NULL};
	ck_assert_int_eq(tcc_npy_read((TccBytes){b.p, b.n}, &bf16, &v, &err), 0);
	ck_assert_uint_eq(v.dtype, TCC_BF16);
	tcc_value_free(&v);
	tcc_buf_free(&b);
}
END_TEST

START_TEST(npy_refused)
{
	static const char *const dicts[] = {
		"{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}",              /* too short */
		"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
		"{'descr': '<f4', 'fortran_order': False}",
		"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
		"{'descr': '<f7', 'fortran_order': False, 'shape': (1,)}",
		"{'descr': '<f99999999999999999999', 'fortran_order': False, 'shape': (1,)}",
		"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
		"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1,",
		"{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
		"{'x': 1}", "{", "", "{'descr",
	};
	for (size_t i = 0; i < TCC_COUNT(dicts); i++) {
		TccErr err = {0};
		TccValue v;
		TccBuf b = npy(dicts[i], "0123456789ab", 12);
		ck_assert_msg(tcc_npy_read((TccBytes){b.p, b.n}, &anything, &v, &err), "%s", dicts[i]);
		ck_assert(*err.text);
		tcc_buf_free(&b);
	}
}
END_TEST

/* Damages each byte and cuts at each length: an error or a value, never more. */
static void abuse(const TccBuf *good, const TccWant *want,
                  int (*read)(TccBytes, const TccWant *, TccValue *, TccErr *))
{
	static const uint8_t masks[] = {0x01, 0x80, 0xff, 0x7f};
	uint8_t *copy = malloc(good->n);
	for (uint64_t at = 0; at < good->n; at++)
		for (size_t m = 0; m < TCC_COUNT(masks); m++) {
			TccErr err = {0};
			TccValue v;
			memcpy(copy, good->p, good->n);
			copy[at] ^= masks[m];
			if (!read((TccBytes){copy, good->n}, want, &v, &err))
				tcc_value_free(&v);
			else if (!*err.text)
				ck_abort_msg("an error without a message");
		}
	for (uint64_t n = 0; n < good->n; n++) {
		TccErr err = {0};
		TccValue v;
		uint8_t *cut = malloc(n + !n);  /* so that a sanitizer sees the end */
		memcpy(cut, good->p, n);
		if (!read((TccBytes){cut, n}, want, &v, &err))
			tcc_value_free(&v);
		free(cut);
	}
	free(copy);
}

static int read_first(TccBytes in, const TccWant *want, TccValue *v, TccErr *err)
{
	TccZip z;
	TccBuf b = {0};
	int rc = tcc_zip_open(&z, in, err);
	if (!rc)
		tcc_zip_find(&z, "nothing");
	if (!rc)
		rc = tcc_zip_entry(&z, 0, &b, err);
	if (!rc)
		rc = tcc_npy_read((TccBytes){b.p, b.n}, want, v, err);
	tcc_buf_free(&b);
	return rc;
}

START_TEST(damaged_files)
{
	const uint32_t types[] = {TCC_F32, TCC_STRING, TCC_I4, TCC_BOOL};
	for (size_t i = 0; i < TCC_COUNT(types); i++) {
		TccErr err = {0};
		TccBuf b = {0};
		const char *name = "x";
		TccValue v = sample(types[i], 2, (int64_t[]){2, 3});
		TccWant want = {TCC_TENSOR, 0, types[i], 0, false, -1, NULL};
		ck_assert_int_eq(tcc_npy_write(&v, &b, &err), 0);
		abuse(&b, &want, tcc_npy_read);
		tcc_buf_free(&b);
		ck_assert_int_eq(tcc_pb_write(&v, "x", &b, &err), 0);
		abuse(&b, &want, tcc_pb_read);
		want.kind = TCC_SEQUENCE;
		abuse(&b, &want, tcc_pb_read);
		want.kind = TCC_MAP;
		abuse(&b, &want, tcc_pb_read);
		want.optional = true;
		abuse(&b, &want, tcc_pb_read);
		tcc_buf_free(&b);
		ck_assert_int_eq(tcc_npz_write(1, &name, &v, &b, &err), 0);
		abuse(&b, &want, read_first);
		tcc_buf_free(&b);
		tcc_value_free(&v);
	}
}
END_TEST

START_TEST(typed_fields)
{
	TccErr err = {0};
	TccValue v;
	/* dims 3, type int8, packed int32_data 1 -1 127 */
	static const char i8[] = "\x08\x03\x10\x03\x2a\x0c\x01"
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x7f";
	ck_assert_int_eq(tcc_pb_read(text(i8, sizeof i8 - 1), &anything, &v, &err), 0);
	ck_assert(!memcmp(v.u.tensor.data, "\x01\xff\x7f", 3));
	tcc_value_free(&v);
	/* dims 1, type float, float_data 1.0, not packed */
	static const char f32[] = "\x08\x01\x10\x01\x25\x00\x00\x80\x3f";
	ck_assert_int_eq(tcc_pb_read(text(f32, sizeof f32 - 1), &anything, &v, &err), 0);
	ck_assert(*(float *)v.u.tensor.data == 1);
	tcc_value_free(&v);
	ck_assert_int_ne(tcc_pb_read(text(f32, sizeof f32 - 2), &anything, &v, &err), 0);
	/* two elements are claimed, one is there */
	static const char few[] = "\x08\x02\x10\x01\x25\x00\x00\x80\x3f";
	err = (TccErr){0};
	ck_assert_int_eq(tcc_pb_read(text(few, sizeof few - 1), &anything, &v, &err), TCC_BAD_FILE);
}
END_TEST

START_TEST(inflates)
{
	/* what zlib makes of 14 times "abc" with fixed codes, and of a rule with dynamic ones */
	static const char fixed[] = "\x4b\x4c\x4a\x4e\x24\x0e\x01\x00";
	static const char dynamic[] =
		"\xd5\xca\x47\x01\x00\x30\x08\x04\x30\xad\xdc\x04\xff\x06\xaa\xa3\x79\x67\xd8\xd4"
		"\xa4\x8f\xaa\x8d\x38\x07\x68\xcb\x48\xb1\xbc\x99\x1f\xca\x03";
	uint8_t out[200];
	ck_assert(tcc_inflate(text(fixed, sizeof fixed - 1), out, 42));
	ck_assert(!memcmp(out, "abcabcabcabc", 12) && !memcmp(out + 30, "abcabcabcabc", 12));
	ck_assert(tcc_inflate(text(dynamic, sizeof dynamic - 1), out, 200));
	for (int i = 0; i < 200; i++)
		ck_assert_int_eq(out[i], 97 + i * i % 7 + i % 5);
	for (size_t n = 0; n < sizeof dynamic - 1; n++)
		ck_assert(!tcc_inflate(text(dynamic, n), out, 200));
	uint8_t stored[] = {1, 3, 0, 0xfc, 0xff, 'x', 'y', 'z'};
	ck_assert(tcc_inflate((TccBytes){stored, sizeof stored}, out, 3));
	ck_assert(!memcmp(out, "xyz", 3));
	ck_assert(!tcc_inflate((TccBytes){stored, sizeof stored}, out, 2));
	ck_assert(!tcc_inflate((TccBytes){stored, sizeof stored - 1}, out, 3));
	ck_assert_uint_eq(tcc_crc32((const uint8_t *)"123456789", 9), 0xcbf43926);
}
END_TEST

START_TEST(pictures)
{
	TccErr err = {0};
	TccValue v;
	static const char ppm[] = "P6 # comment\n2 1\n255\n\xff\x00\x00\x00\xff\x33";
	int64_t nchw[] = {1, 3, -1, -1}, grey[] = {-1, 1, 1, 2}, nhwc[] = {1, 1, 2, 3};
	TccWant want = {TCC_TENSOR, 0, TCC_F32, 0, false, 4, nchw};
	ck_assert_int_eq(tcc_pnm_read(text(ppm, sizeof ppm - 1), &want, &v, &err), 0);
	const float *f = v.u.tensor.data;
	ck_assert_int_eq(v.u.tensor.shape[3], 2);
	ck_assert(f[0] == 1 && f[1] == 0 && f[2] == 0 && f[3] == 1 && f[4] == 0 && f[5] == 0.2f);
	tcc_value_free(&v);
	want.dims = nhwc;
	want.dtype = TCC_U8;
	ck_assert_int_eq(tcc_pnm_read(text(ppm, sizeof ppm - 1), &want, &v, &err), 0);
	ck_assert(!memcmp(v.u.tensor.data, "\xff\x00\x00\x00\xff\x33", 6));
	tcc_value_free(&v);
	want.dims = grey;
	want.dtype = TCC_F32;
	ck_assert_int_eq(tcc_pnm_read(text(ppm, sizeof ppm - 1), &want, &v, &err), 0);
	ck_assert(fabsf(*(float *)v.u.tensor.data - 0.299f) < 1e-6);
	tcc_value_free(&v);
	for (size_t n = 0; n < sizeof ppm - 1; n++)
		ck_assert_int_ne(tcc_pnm_read(text(ppm, n), &want, &v, &err), 0);
}
END_TEST

START_TEST(elements)
{
	static const uint8_t b[] = {0x38, 0xf8, 0x7f, 0x00, 0x80, 0xfe, 0x12, 0x03};
	ck_assert(tcc_element(TCC_F8E4M3FN, b, 0) == 1);
	ck_assert(tcc_element(TCC_F8E4M3FN, b, 1) == -256);
	ck_assert(isnan(tcc_element(TCC_F8E4M3FN, b, 2)));
	ck_assert(isnan(tcc_element(TCC_F8E4M3FNUZ, b, 4)));
	ck_assert(tcc_element(TCC_F8E5M2, b, 0) == 0.5);
	ck_assert(tcc_element(TCC_F8E8M0, b, 2) == 1);
	ck_assert(tcc_element(TCC_F4E2M1, b, 13) == 0.5);
	ck_assert(tcc_element(TCC_F4E2M1, b, 14) == 1.5);
	ck_assert_int_eq(tcc_element_int(TCC_I4, b, 3), -1);
	ck_assert_int_eq(tcc_element_int(TCC_I2, b, 25), 0);
	ck_assert_int_eq(tcc_element_int(TCC_U2, b, 28), 3);
	ck_assert(tcc_element_int(TCC_F32, &(float){1e30f}, 0) == INT64_MAX);
	ck_assert(tcc_element_int(TCC_F32, &(float){NAN}, 0) == 0);
	ck_assert(tcc_element(TCC_F16, &(uint16_t){0x0001}, 0) == 0x1p-24);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("files");
	TCase *c = tcase_create("files");
	tcase_set_timeout(c, 60);
	tcase_add_test(c, tensors_round_trip);
	tcase_add_test(c, raw_and_text);
	tcase_add_test(c, pb_sequences_and_maps);
	tcase_add_test(c, npy_orders);
	tcase_add_test(c, npy_refused);
	tcase_add_test(c, damaged_files);
	tcase_add_test(c, typed_fields);
	tcase_add_test(c, inflates);
	tcase_add_test(c, pictures);
	tcase_add_test(c, elements);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
