/* Readers of data files: the first byte chooses the format and what is wanted of it. */
#include "runtime/rt.h"

static int read_zip(TccBytes in, const TccWant *want, TccValue *v, TccErr *err)
{
	TccZip z;
	TccBuf b = {0};
	char name[64];
	int rc = tcc_zip_open(&z, in, err);
	for (uint32_t i = 0; !rc && i < z.n && i < 4; i++) {
		if (!(rc = tcc_zip_name(&z, i, name, sizeof name, err)))
			rc = tcc_zip_entry(&z, i, &b, err);
		if (!rc && !tcc_npy_read((TccBytes){b.p, b.n}, want, v, err))
			tcc_value_free(v);
		tcc_buf_free(&b);
	}
	return 1;
}

static int inflate(TccBytes in, const TccWant *want, TccValue *v, TccErr *err)
{
	static uint8_t out[4096];
	(void)want, (void)v, (void)err;
	tcc_inflate(in, out, sizeof out);
	return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int (*const readers[])(TccBytes, const TccWant *, TccValue *, TccErr *) = {
		tcc_npy_read, tcc_pb_read, tcc_pnm_read, read_zip, inflate,
	};
	static const uint32_t dtypes[] = {TCC_NODTYPE, TCC_F32, TCC_U8, TCC_STRING, TCC_I4, TCC_BF16};
	int64_t dims[] = {-1, 3, -1, -1};
	TccErr err = {0};
	TccValue v;
	if (size < 2)
		return 0;
	TccWant want = {
		.kind = data[1] & 3, .optional = data[1] >> 2 & 1, .rank = (data[1] >> 3 & 7) - 1,
		.dtype = dtypes[data[0] / 5 % TCC_COUNT(dtypes)], .dims = dims,
	};
	if (want.rank > 4)
		want.rank = 4;
	if (!readers[data[0] % 5]((TccBytes){data + 2, size - 2}, &want, &v, &err))
		tcc_value_free(&v);
	return 0;
}
