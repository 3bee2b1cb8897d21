/* Values in files: the choice of format, and the formats that are a few lines. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include "rt.h"

/* --- bytes ------------------------------------------------------------------------------- */

uint8_t *tcc_buf_add(TccBuf *b, const void *p, uint64_t n)
{
	uint64_t need;
	if (b->failed || __builtin_add_overflow(b->n, n, &need) || need > PTRDIFF_MAX / 2) {
		b->failed = true;
		return NULL;
	}
	if (need > b->cap || !b->p) {
		uint64_t cap = need + b->cap / 2 + 64;
		uint8_t *q = realloc(b->p, cap);
		if (!q) {
			b->failed = true;
			return NULL;
		}
		b->p = q;
		b->cap = cap;
	}
	uint8_t *at = b->p + b->n;
	b->n = need;
	if (p && n)
		memcpy(at, p, n);
	return at;
}

void tcc_buf_free(TccBuf *b)
{
	free(b->p);
	*b = (TccBuf){0};
}

static int cannot(const char *path, TccErr *err)
{
	return tcc_fail(err, TCC_BAD_FILE, "%s: %s", path, strerror(errno));
}

static int read_all(int fd, TccBuf *b, const char *path, TccErr *err)
{
	struct stat st;
	if (fstat(fd, &st))
		return cannot(path, err);
	if (S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return cannot(path, err);
	}
	uint64_t step = S_ISREG(st.st_mode) ? (uint64_t)st.st_size + 1 : 1 << 16;
	for (;;) {
		uint8_t *to = tcc_buf_add(b, NULL, step);
		if (!to)
			return tcc_no_memory(err, b->n + step);
		ssize_t n = read(fd, to, step < 1 << 30 ? step : 1 << 30);
		b->n -= step - (n > 0 ? n : 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? cannot(path, err) : 0;
		if ((uint64_t)n < step)
			step = step - n > 1 << 16 ? step - n : 1 << 16;
	}
}

int tcc_read_file(const char *path, TccBuf *b, TccErr *err)
{
	*b = (TccBuf){0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return cannot(path, err);
	int rc = read_all(fd, b, path, err);
	close(fd);
	if (rc)
		tcc_buf_free(b);
	return rc;
}

int tcc_write_file(const char *path, const TccBuf *b, TccErr *err)
{
	if (b->failed)
		return tcc_no_memory(err, b->n);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		return cannot(path, err);
	for (uint64_t at = 0; at < b->n;) {
		ssize_t n = write(fd, b->p + at, b->n - at < 1 << 30 ? b->n - at : 1 << 30);
		if (n < 0 && errno != EINTR) {
			int rc = cannot(path, err);
			close(fd);
			return rc;
		}
		at += n > 0 ? n : 0;
	}
	return close(fd) ? cannot(path, err) : 0;
}

/* --- raw --------------------------------------------------------------------------------- */

/* The wanted dims, with the one that is not known made so that they hold `count` elements. */
static int solve_dims(const TccWant *w, uint64_t count, int64_t *dims, TccErr *err)
{
	int unknown = -1;
	int64_t known = 1;
	for (int i = 0; i < w->rank; i++) {
		dims[i] = w->dims[i];
		if (dims[i] < 0 && unknown >= 0)
			return tcc_fail(err, TCC_BAD_DATA, "more than one dimension is open; a file that tells "
			                "its shape (.npy) is needed");
		if (dims[i] < 0)
			unknown = i;
		else if (__builtin_mul_overflow(known, dims[i], &known))
			return tcc_fail(err, TCC_BAD_DATA, "the wanted size overflows");
	}
	if (unknown >= 0 && known && count % known == 0)
		dims[unknown] = count / known;
	else if (unknown >= 0 || (uint64_t)known != count)
		return tcc_fail(err, TCC_BAD_DATA, "it holds %llu elements, which is not what the input's "
		                "shape needs (%lld%s)", (unsigned long long)count, (long long)known,
		                unknown >= 0 ? " or a multiple" : "");
	return 0;
}

static int need_type(const TccWant *w, TccErr *err)
{
	if (w->dtype && w->kind <= TCC_TENSOR)
		return 0;
	return tcc_fail(err, TCC_UNSUPPORTED, "a file of this format needs to know a tensor's type");
}

static int read_raw(TccBytes in, const TccWant *w, TccValue *v, TccErr *err)
{
	int64_t dims[TCC_MAX_RANK];
	int bits = tcc_dtype_bits(w->dtype), rank = w->rank;
	uint64_t bytes, count;
	int rc = need_type(w, err);
	if (rc)
		return rc;
	if (w->dtype == TCC_STRING)
		return tcc_fail(err, TCC_UNSUPPORTED, "strings are not read from raw files; use .txt");
	count = in.n * 8 / bits;
	if (bits < 8 && w->rank >= 0) {
		/* the last byte may be half full: trust a shape that is all known */
		uint64_t full;
		if (tcc_tensor_size(w->dtype, w->rank, w->dims, &full, &bytes) && bytes == in.n)
			count = full;
	}
	if (rank < 0) {
		rank = 1;
		dims[0] = count;
	} else if ((rc = solve_dims(w, count, dims, err))) {
		return rc;
	}
	if (!tcc_tensor_size(w->dtype, rank, dims, NULL, &bytes) || bytes != in.n)
		return tcc_fail(err, TCC_BAD_DATA, "its size is not a multiple of an element's");
	if ((rc = tcc_tensor_new(v, w->dtype, rank, dims, err)))
		return rc;
	if (in.n)
		memcpy(v->u.tensor.data, in.p, in.n);
	return 0;
}

static int write_raw(const TccValue *v, const char *name, TccBuf *out, TccErr *err)
{
	uint64_t bytes;
	(void)name;
	if (v->kind != TCC_TENSOR || v->dtype == TCC_STRING || !tcc_is_compact(&v->u.tensor))
		return tcc_fail(err, TCC_UNSUPPORTED, "only a numeric tensor is written as raw data");
	tcc_tensor_size(v->dtype, v->u.tensor.ndim, v->u.tensor.shape, NULL, &bytes);
	tcc_buf_add(out, tcc_tensor_data(&v->u.tensor), bytes);
	return 0;
}

/* --- text -------------------------------------------------------------------------------- */

/* The next line without its end, or false at the end of the file. */
static bool next_line(TccBytes *in, TccBytes *line)
{
	if (!in->n)
		return false;
	const uint8_t *end = memchr(in->p, '\n', in->n);
	uint64_t n = end ? (uint64_t)(end - in->p) : in->n, used = n + (end != NULL);
	*line = (TccBytes){in->p, n && in->p[n - 1] == '\r' ? n - 1 : n};
	*in = (TccBytes){in->p + used, in->n - used};
	return true;
}

static int text_shape(const TccWant *w, uint64_t count, int64_t *dims, int *rank, TccErr *err)
{
	*rank = w->rank < 0 ? 1 : w->rank;
	dims[0] = count;
	return w->rank < 0 ? 0 : solve_dims(w, count, dims, err);
}

static int read_lines(TccBytes in, const TccWant *w, TccValue *v, TccErr *err)
{
	int64_t dims[TCC_MAX_RANK];
	int rank, rc;
	uint64_t count = 0, bytes = 0;
	TccBytes line, rest = in;
	while (next_line(&rest, &line)) {
		count++;
		bytes += line.n;
	}
	if ((rc = text_shape(w, count, dims, &rank, err)) ||
	    (rc = tcc_strings_new(v, rank, dims, bytes, err)))
		return rc;
	TccStr *s = v->u.tensor.data;
	char *to = tcc_strings_bytes(v);
	while (next_line(&in, &line)) {
		if (line.n)
			memcpy(to, line.p, line.n);
		*s++ = (TccStr){to, line.n};
		to += line.n;
	}
	return 0;
}

/* Numbers of the plain types; enough for vectors written by hand. */
static int read_numbers(TccBytes in, const TccWant *w, TccValue *v, TccErr *err)
{
	int64_t dims[TCC_MAX_RANK];
	int rank, rc;
	uint64_t count = 0;
	for (uint64_t i = 0; i < in.n; i++)
		count += !isspace(in.p[i]) && (!i || isspace(in.p[i - 1]));
	if ((rc = text_shape(w, count, dims, &rank, err)) ||
	    (rc = tcc_tensor_new(v, w->dtype, rank, dims, err)))
		return rc;
	void *to = v->u.tensor.data;
	char word[64];
	for (uint64_t i = 0, k = 0; i < in.n; k++) {
		char *end = word;
		size_t n = 0;
		for (; i < in.n && isspace(in.p[i]); i++)
			;
		for (; i < in.n && !isspace(in.p[i]); i++)
			if (n + 1 < sizeof word)
				word[n++] = in.p[i];
		if (!n)
			break;
		word[n] = 0;
		switch (w->dtype) {
		case TCC_F32: ((float *)to)[k] = strtof(word, &end); break;
		case TCC_F64: ((double *)to)[k] = strtod(word, &end); break;
		case TCC_I32: ((int32_t *)to)[k] = (int32_t)strtol(word, &end, 10); break;
		case TCC_I64: ((int64_t *)to)[k] = strtoll(word, &end, 10); break;
		}
		if (*end || end == word) {
			tcc_value_free(v);
			return tcc_fail(err, TCC_BAD_FILE, "'%s' is not a number of type %s", word,
			                tcc_dtype_name(w->dtype));
		}
	}
	return 0;
}

static int read_text(TccBytes in, const TccWant *w, TccValue *v, TccErr *err)
{
	if (w->kind > TCC_TENSOR)
		return need_type(w, err);
	if (!w->dtype || w->dtype == TCC_STRING)
		return read_lines(in, w, v, err);
	if (w->dtype != TCC_F32 && w->dtype != TCC_F64 && w->dtype != TCC_I32 && w->dtype != TCC_I64)
		return tcc_fail(err, TCC_UNSUPPORTED, "elements of type %s are not read from text",
		                tcc_dtype_name(w->dtype));
	return read_numbers(in, w, v, err);
}

static int write_text(const TccValue *v, const char *name, TccBuf *out, TccErr *err)
{
	(void)name;
	if (v->kind != TCC_TENSOR || !tcc_is_compact(&v->u.tensor))
		return tcc_fail(err, TCC_UNSUPPORTED, "only a tensor is written as text");
	uint64_t n = tcc_tensor_count(&v->u.tensor);
	const void *data = tcc_tensor_data(&v->u.tensor);
	TccDtypeInfo info = {0};
	tcc_dtype_info(v->dtype, &info);
	for (uint64_t i = 0; i < n; i++) {
		char buf[64];
		const TccStr *s = data;
		if (v->dtype == TCC_STRING)
			tcc_buf_add(out, s[i].data, s[i].size);
		else if (info.code <= 1 || v->dtype == TCC_BOOL)
			tcc_buf_add(out, buf, snprintf(buf, sizeof buf, "%" PRId64,
			                               tcc_element_int(v->dtype, data, i)));
		else
			tcc_buf_add(out, buf, snprintf(buf, sizeof buf, "%.9g",
			                               tcc_element(v->dtype, data, i)));
		tcc_buf_add(out, "\n", 1);
	}
	return 0;
}

/* --- .npz -------------------------------------------------------------------------------- */

static int read_npz(TccBytes in, const char *name, const TccWant *w, TccValue *v, TccErr *err)
{
	TccZip z;
	TccBuf b = {0};
	int rc = tcc_zip_open(&z, in, err);
	if (rc)
		return rc;
	int64_t i = name ? tcc_zip_find(&z, name) : -1;
	if (i < 0 && z.n == 1)
		i = 0;
	if (i < 0)
		return tcc_fail(err, TCC_BAD_DATA, "it has %u members, none of them named '%s'", z.n,
		                name ? name : "");
	if (!(rc = tcc_zip_entry(&z, (uint32_t)i, &b, err)))
		rc = tcc_npy_read((TccBytes){b.p, b.n}, w, v, err);
	tcc_buf_free(&b);
	return rc;
}

static int write_npz(const TccValue *v, const char *name, TccBuf *out, TccErr *err)
{
	return tcc_npz_write(1, &name, v, out, err);
}

static int write_npy(const TccValue *v, const char *name, TccBuf *out, TccErr *err)
{
	(void)name;
	return tcc_npy_write(v, out, err);
}

static int write_pb(const TccValue *v, const char *name, TccBuf *out, TccErr *err)
{
	return tcc_pb_write(v, name, out, err);
}

/* --- the formats ------------------------------------------------------------------------- */

static const struct Format {
	char ending[8];
	int (*read)(TccBytes in, const TccWant *want, TccValue *v, TccErr *err);
	int (*write)(const TccValue *v, const char *name, TccBuf *out, TccErr *err);
} formats[] = {
	{".npy", tcc_npy_read, write_npy},
	{".npz", NULL,         write_npz},
	{".pb",  tcc_pb_read,  write_pb},
	{".raw", read_raw,     write_raw},
	{".bin", read_raw,     write_raw},
	{".txt", read_text,    write_text},
	{".pgm", tcc_pnm_read, NULL},
	{".ppm", tcc_pnm_read, NULL},
	{".pnm", tcc_pnm_read, NULL},
};

static const struct Format *format_of(const char *path, TccErr *err)
{
	const char *dot = strrchr(path, '.');
	for (size_t i = 0; dot && i < TCC_COUNT(formats); i++)
		if (!strcasecmp(dot, formats[i].ending))
			return &formats[i];
	tcc_fail(err, TCC_USAGE, "%s: the name must end in .npy, .npz, .pb, .raw, .bin, .txt or (to "
	         "read) .pgm, .ppm", path);
	return NULL;
}

/* Kernels count on 0 and 1. */
static void normalise_bools(TccValue *v)
{
	if (v->kind == TCC_SEQUENCE)
		for (uint64_t i = 0; i < v->u.seq.n; i++)
			normalise_bools(&v->u.seq.items[i]);
	if (v->kind != TCC_TENSOR || v->dtype != TCC_BOOL)
		return;
	uint8_t *p = v->u.tensor.data;
	for (uint64_t i = 0, n = tcc_tensor_count(&v->u.tensor); i < n; i++)
		p[i] = p[i] != 0;
}

/* The type in the file against the wanted one; shapes are compared when the model runs. */
static int check_type(const TccWant *w, const TccValue *v, TccErr *err)
{
	if (v->kind == TCC_TENSOR && w->kind == TCC_TENSOR && w->dtype && v->dtype != w->dtype)
		return tcc_fail(err, TCC_BAD_DATA, "it holds elements of type %s, the model takes %s",
		                tcc_dtype_name(v->dtype), tcc_dtype_name(w->dtype));
	return 0;
}

static int with_path(const char *path, TccErr *local, TccErr *err)
{
	return tcc_fail(err, local->code, "%s: %s", path, local->text);
}

int tcc_read_value(const char *path, const char *name, const TccWant *want, TccValue *v,
                   TccErr *err)
{
	static const TccWant anything = {.rank = -1};
	TccErr local = {0};
	TccBuf b;
	*v = (TccValue){0};
	const struct Format *f = format_of(path, err);
	if (!f)
		return TCC_USAGE;
	int rc = tcc_read_file(path, &b, err);
	if (rc)
		return rc;
	if (!want)
		want = &anything;
	TccBytes in = {b.p, b.n};
	rc = f->read ? f->read(in, want, v, &local) : read_npz(in, name, want, v, &local);
	if (!rc)
		rc = check_type(want, v, &local);
	tcc_buf_free(&b);
	if (!rc) {
		normalise_bools(v);
		return 0;
	}
	tcc_value_free(v);
	return with_path(path, &local, err);
}

int tcc_write_value(const char *path, const char *name, const TccValue *v, TccErr *err)
{
	TccErr local = {0};
	TccBuf b = {0};
	const struct Format *f = format_of(path, err);
	if (!f)
		return TCC_USAGE;
	int rc = f->write ? f->write(v, name, &b, &local)
	                  : tcc_fail(&local, TCC_UNSUPPORTED, "pictures are not written");
	rc = rc ? with_path(path, &local, err) : tcc_write_file(path, &b, err);
	tcc_buf_free(&b);
	return rc;
}

TccWant tcc_want(const TccModel *m, const TccPort *p, int64_t *dims)
{
	const TccDim *d = tcc_rows(m, tcc_meta(m)->dims);
	for (int a = 0; a < p->rank; a++)
		dims[a] = d[p->dims + a].size;
	return (TccWant){
		.kind = p->kind, .elem_kind = p->elem_kind, .dtype = p->dtype,
		.key_dtype = p->key_dtype, .optional = p->optional, .rank = p->rank, .dims = dims,
	};
}
