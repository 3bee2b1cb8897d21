/* .npy, versions 1 to 3 (numpy.lib.format): a header that is a Python dict, then the elements. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "rt.h"

typedef struct Header {
	char order;             /* of bytes: < > or | */
	char kind;
	uint64_t size;          /* of an element; characters of a U string */
	bool fortran;
	int rank;
	int64_t dims[TCC_MAX_RANK];
} Header;

static int bad(TccErr *err, const char *why)
{
	return tcc_fail(err, TCC_BAD_FILE, "not a valid .npy file: %s", why);
}

/* --- the header -------------------------------------------------------------------------- */

typedef struct Text {
	const char *p, *end;
} Text;

static void skip_space(Text *t)
{
	while (t->p < t->end && isspace((unsigned char)*t->p))
		t->p++;
}

static bool eat(Text *t, char c)
{
	skip_space(t);
	if (t->p == t->end || *t->p != c)
		return false;
	t->p++;
	return true;
}

static bool eat_word(Text *t, const char *word)
{
	size_t n = strlen(word);
	skip_space(t);
	if ((size_t)(t->end - t->p) < n || memcmp(t->p, word, n))
		return false;
	t->p += n;
	return true;
}

static bool quoted(Text *t, char *buf, size_t size)
{
	skip_space(t);
	if (t->p == t->end || (*t->p != '\'' && *t->p != '"'))
		return false;
	char quote = *t->p++;
	size_t n = 0;
	while (t->p < t->end && *t->p != quote && n + 1 < size)
		buf[n++] = *t->p++;
	buf[n] = 0;
	return t->p < t->end && *t->p++ == quote;
}

static bool number(Text *t, int64_t *v)
{
	skip_space(t);
	if (t->p == t->end || !isdigit((unsigned char)*t->p))
		return false;
	for (*v = 0; t->p < t->end && isdigit((unsigned char)*t->p); t->p++)
		if (__builtin_mul_overflow(*v, 10, v) || __builtin_add_overflow(*v, *t->p - '0', v))
			return false;
	eat(t, 'L');            /* Python 2 wrote long integers so */
	return true;
}

static int shape(Text *t, Header *h, TccErr *err)
{
	if (!eat(t, '('))
		return bad(err, "its shape is no tuple");
	for (h->rank = 0; !eat(t, ')');) {
		if (h->rank == TCC_MAX_RANK)
			return bad(err, "it has too many dimensions");
		if (!number(t, &h->dims[h->rank++]))
			return bad(err, "a dimension is no number");
		if (!eat(t, ',')) {
			if (!eat(t, ')'))
				return bad(err, "its shape does not end");
			break;
		}
	}
	return 0;
}

static int descr(Text *t, Header *h, TccErr *err)
{
	char buf[32];
	int64_t size;
	if (!quoted(t, buf, sizeof buf))
		return tcc_fail(err, TCC_UNSUPPORTED, "arrays of records are not supported");
	Text d = {buf, buf + strlen(buf)};
	if (d.p < d.end && strchr("<>|=", *d.p))
		h->order = *d.p++;
	h->kind = d.p < d.end ? *d.p++ : 0;
	if (h->kind == 'O')
		return tcc_fail(err, TCC_UNSUPPORTED, "arrays of Python objects are not read; save strings "
		                "with a U type");
	if (!number(&d, &size) || d.p != d.end || size > 1 << 24)
		return tcc_fail(err, TCC_UNSUPPORTED, "arrays of type '%s' are not supported", buf);
	h->size = size;
	return 0;
}

static int dict(Text t, Header *h, TccErr *err)
{
	int seen = 0, rc;
	if (!eat(&t, '{'))
		return bad(err, "its header is no dict");
	while (!eat(&t, '}')) {
		char key[16];
		if (!quoted(&t, key, sizeof key) || !eat(&t, ':'))
			return bad(err, "its header is damaged");
		if (!strcmp(key, "descr")) {
			if ((rc = descr(&t, h, err)))
				return rc;
			seen |= 1;
		} else if (!strcmp(key, "fortran_order")) {
			h->fortran = eat_word(&t, "True");
			if (!h->fortran && !eat_word(&t, "False"))
				return bad(err, "its order is neither True nor False");
			seen |= 2;
		} else if (!strcmp(key, "shape")) {
			if ((rc = shape(&t, h, err)))
				return rc;
			seen |= 4;
		} else {
			return bad(err, "its header has an unknown key");
		}
		eat(&t, ',');
	}
	return seen == 7 ? 0 : bad(err, "its header is incomplete");
}

static int header(TccBytes *in, Header *h, TccErr *err)
{
	const uint8_t *p = in->p;
	if (in->n < 12 || memcmp(p, "\x93NUMPY", 6))
		return bad(err, "its first bytes are not those of one");
	if (p[6] < 1 || p[6] > 3)
		return tcc_fail(err, TCC_UNSUPPORTED, "version %d of .npy is not known", p[6]);
	uint64_t at = p[6] == 1 ? 10 : 12, n = p[8] | p[9] << 8;
	if (p[6] > 1)
		n |= (uint64_t)p[10] << 16 | (uint64_t)p[11] << 24;
	if (n > in->n - at)
		return bad(err, "it ends within its header");
	Text t = {(const char *)p + at, (const char *)p + at + n};
	*in = (TccBytes){p + at + n, in->n - at - n};
	return dict(t, h, err);
}

/* --- elements ---------------------------------------------------------------------------- */

/* A type that numpy lacks may stand as void or as an unsigned or signed integer of its size. */
static bool stands_for(const Header *h, uint32_t dtype)
{
	TccDtypeInfo info;
	if (!tcc_dtype_info(dtype, &info))
		return false;
	if (info.npy == 'V')
		return (h->kind == 'V' || h->kind == 'u' || h->kind == 'i') && h->size == info.npy_size;
	return h->kind == info.npy && h->size == info.npy_size;
}

static uint32_t dtype_of(const Header *h, const TccWant *want)
{
	if (want->dtype && want->dtype != TCC_STRING && stands_for(h, want->dtype))
		return want->dtype;
	if (h->kind == 'V')
		return h->size == 2 ? TCC_BF16 : TCC_NODTYPE;
	for (uint32_t d = 1; d < TCC_NDTYPES; d++)
		if (d != TCC_STRING && stands_for(h, d)) {
			TccDtypeInfo info;
			tcc_dtype_info(d, &info);
			if (info.npy == h->kind)
				return d;
		}
	return TCC_NODTYPE;
}

static void swap_bytes(uint8_t *p, uint64_t n, uint64_t unit)
{
	for (; n >= unit; n -= unit, p += unit)
		for (uint64_t i = 0; i < unit / 2; i++) {
			uint8_t t = p[i];
			p[i] = p[unit - 1 - i];
			p[unit - 1 - i] = t;
		}
}

/* The file's elements as a tensor that has its strides. */
static TccTensor laid_out(Header *h, const void *data, int64_t *strides, uint64_t unit)
{
	TccTensor t = {
		.data = (void *)data, .ndim = h->rank, .bits = (uint8_t)(unit * 8), .lanes = 1,
		.shape = h->dims, .strides = strides,
	};
	int64_t step = 1;
	for (int k = 0; k < h->rank; k++) {
		int i = h->fortran ? k : h->rank - 1 - k;
		strides[i] = step;
		step *= h->dims[i] ? h->dims[i] : 1;
	}
	return t;
}

/* One byte per element to packed. */
static void pack(uint8_t *to, const uint8_t *from, uint64_t n, int bits)
{
	uint8_t mask = (uint8_t)((1 << bits) - 1);
	for (uint64_t i = 0; i < n; i++)
		to[i * bits / 8] |= (uint8_t)((from[i] & mask) << i * bits % 8);
}

static int read_numeric(TccBytes in, Header *h, const TccWant *want, TccValue *v, TccErr *err)
{
	int64_t strides[TCC_MAX_RANK];
	uint32_t dtype = dtype_of(h, want);
	uint64_t count, bits = tcc_dtype_bits(dtype), unit = h->size;
	if (!dtype)
		return tcc_fail(err, TCC_UNSUPPORTED, "arrays of type '%c%llu' are not supported here",
		                h->kind, (unsigned long long)h->size);
	if (!tcc_tensor_size(TCC_U8, h->rank, h->dims, &count, NULL) || (count && in.n / count < unit))
		return bad(err, "it ends before its last element");
	int rc = tcc_tensor_new(v, dtype, h->rank, h->dims, err);
	if (rc)
		return rc;
	TccTensor from = laid_out(h, in.p, strides, unit);
	if (bits >= 8) {
		tcc_compact(v->u.tensor.data, &from);
		if (h->order == '>')
			swap_bytes(v->u.tensor.data, count * unit, h->kind == 'c' ? unit / 2 : unit);
		return 0;
	}
	uint8_t *bytes = tcc_alloc(count);
	if (!bytes) {
		tcc_value_free(v);
		return tcc_no_memory(err, count);
	}
	tcc_compact(bytes, &from);
	pack(v->u.tensor.data, bytes, count, (int)bits);
	free(bytes);
	return 0;
}

/* --- strings ----------------------------------------------------------------------------- */

static uint32_t code_point(const uint8_t *p, bool big)
{
	return big ? (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]
	           : (uint32_t)p[3] << 24 | p[2] << 16 | p[1] << 8 | p[0];
}

/* UTF-8 of one code point; to may be NULL. What is none becomes U+FFFD. */
static int utf8(uint32_t c, char *to)
{
	uint8_t b[4];
	int n;
	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		c = 0xfffd;
	if (c < 0x80)
		b[0] = c, n = 1;
	else if (c < 0x800)
		b[0] = 0xc0 | c >> 6, b[1] = 0x80 | (c & 63), n = 2;
	else if (c < 0x10000)
		b[0] = 0xe0 | c >> 12, b[1] = 0x80 | (c >> 6 & 63), b[2] = 0x80 | (c & 63), n = 3;
	else
		b[0] = 0xf0 | c >> 18, b[1] = 0x80 | (c >> 12 & 63), b[2] = 0x80 | (c >> 6 & 63),
		b[3] = 0x80 | (c & 63), n = 4;
	if (to)
		memcpy(to, b, n);
	return n;
}

/* UTF-8 of an element of type U or S, without the zeros behind it. Returns the bytes. */
static uint64_t text_of(const Header *h, const uint8_t *p, char *to)
{
	uint64_t n = h->size, bytes = 0;
	if (h->kind == 'S') {
		while (n && !p[n - 1])
			n--;
		if (to && n)
			memcpy(to, p, n);
		return n;
	}
	while (n && !code_point(p + 4 * (n - 1), h->order == '>'))
		n--;
	for (uint64_t i = 0; i < n; i++)
		bytes += utf8(code_point(p + 4 * i, h->order == '>'), to ? to + bytes : NULL);
	return bytes;
}

static int read_strings(TccBytes in, Header *h, TccValue *v, TccErr *err)
{
	int64_t strides[TCC_MAX_RANK];
	uint64_t count, unit = h->size * (h->kind == 'U' ? 4 : 1), bytes = 0;
	if (!tcc_tensor_size(TCC_U8, h->rank, h->dims, &count, NULL) ||
	    (count && in.n / count < unit))
		return bad(err, "it ends before its last element");
	if (h->fortran && h->rank > 1)
		return tcc_fail(err, TCC_UNSUPPORTED, "strings in Fortran order are not supported");
	(void)laid_out(h, in.p, strides, 1);
	for (uint64_t i = 0; i < count; i++)
		bytes += text_of(h, in.p + i * unit, NULL);
	int rc = tcc_strings_new(v, h->rank, h->dims, bytes, err);
	if (rc)
		return rc;
	char *to = tcc_strings_bytes(v);
	TccStr *s = v->u.tensor.data;
	for (uint64_t i = 0; i < count; i++) {
		s[i] = (TccStr){to, text_of(h, in.p + i * unit, to)};
		to += s[i].size;
	}
	return 0;
}

int tcc_npy_read(TccBytes in, const TccWant *want, TccValue *v, TccErr *err)
{
	Header h = {0};
	*v = (TccValue){0};
	int rc = header(&in, &h, err);
	if (rc)
		return rc;
	return h.kind == 'U' || h.kind == 'S' ? read_strings(in, &h, v, err)
	                                      : read_numeric(in, &h, want, v, err);
}

/* --- writing ----------------------------------------------------------------------------- */

static void write_header(TccBuf *out, const char *descr, const TccTensor *t)
{
	static const uint8_t magic[10] = "\x93NUMPY\x01\x00";
	char word[32];
	uint64_t start = out->n;
	tcc_buf_add(out, magic, sizeof magic);
	tcc_buf_add(out, "{'descr': '", 11);
	tcc_buf_add(out, descr, strlen(descr));
	tcc_buf_add(out, "', 'fortran_order': False, 'shape': (", 37);
	for (int i = 0; i < t->ndim; i++)
		tcc_buf_add(out, word, snprintf(word, sizeof word, "%s%lld%s", i ? " " : "",
		                                (long long)t->shape[i],
		                                i + 1 < t->ndim || t->ndim == 1 ? "," : ""));
	tcc_buf_add(out, "), }", 4);
	while (!out->failed && (out->n - start + 1) % 64)
		tcc_buf_add(out, " ", 1);
	tcc_buf_add(out, "\n", 1);
	if (out->failed)
		return;
	uint64_t n = out->n - start - 10;       /* at most 64 dims: fits in 16 bits */
	out->p[start + 8] = n & 255;
	out->p[start + 9] = n >> 8;
}

/* The next code point of UTF-8 text, or -1 where it is none. Advances i. */
static int64_t next_code(TccStr s, uint64_t *i)
{
	const uint8_t *p = (const uint8_t *)s.data + *i;
	int n = *p < 0x80 ? 1 : *p >> 5 == 6 ? 2 : *p >> 4 == 14 ? 3 : *p >> 3 == 30 ? 4 : 0;
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	if (!n || s.size - *i < (uint64_t)n)
		return -1;
	uint32_t c = n == 1 ? *p : *p & (0x7f >> n);
	for (int k = 1; k < n; k++) {
		if (p[k] >> 6 != 2)
			return -1;
		c = c << 6 | (p[k] & 63);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return -1;
	*i += n;
	return c;
}

/* Code points of the text, or -1 if it is not UTF-8; written as UCS-4 unless to is NULL. */
static int64_t ucs4(TccStr s, uint8_t *to)
{
	int64_t n = 0;
	for (uint64_t i = 0; i < s.size; n++) {
		int64_t c = next_code(s, &i);
		if (c < 0)
			return -1;
		for (int k = 0; to && k < 4; k++)
			to[4 * n + k] = (uint8_t)(c >> 8 * k);
	}
	return n;
}

/* As U; as S when one is not UTF-8. */
static void write_strings(TccBuf *out, const TccTensor *t)
{
	const TccStr *s = tcc_tensor_data(t);
	uint64_t n = tcc_tensor_count(t), most_bytes = 1, most_codes = 1;
	bool text = true;
	char type[32];
	for (uint64_t i = 0; i < n; i++) {
		int64_t codes = ucs4(s[i], NULL);
		text &= codes >= 0;
		if (codes > (int64_t)most_codes)
			most_codes = codes;
		if (s[i].size > most_bytes)
			most_bytes = s[i].size;
	}
	uint64_t unit = text ? 4 * most_codes : most_bytes;
	snprintf(type, sizeof type, text ? "<U%llu" : "|S%llu",
	         (unsigned long long)(text ? most_codes : most_bytes));
	write_header(out, type, t);
	for (uint64_t i = 0; i < n; i++) {
		uint8_t *to = tcc_buf_add(out, NULL, unit);
		if (!to)
			return;
		memset(to, 0, unit);
		if (text)
			ucs4(s[i], to);
		else if (s[i].size)
			memcpy(to, s[i].data, s[i].size);
	}
}

static void write_packed(TccBuf *out, const TccValue *v)
{
	const TccTensor *t = &v->u.tensor;
	uint64_t n = tcc_tensor_count(t);
	const uint8_t *from = tcc_tensor_data(t);
	int bits = tcc_dtype_bits(v->dtype);
	bool is_signed = v->dtype == TCC_I4 || v->dtype == TCC_I2;
	uint8_t *to = tcc_buf_add(out, NULL, n);
	for (uint64_t i = 0; to && i < n; i++)
		to[i] = is_signed ? (uint8_t)tcc_element_int(v->dtype, from, i)
		                  : from[i * bits / 8] >> i * bits % 8 & ((1 << bits) - 1);
}

int tcc_npy_write(const TccValue *v, TccBuf *out, TccErr *err)
{
	const TccTensor *t = &v->u.tensor;
	TccDtypeInfo info;
	char type[8];
	if (v->kind != TCC_TENSOR || !tcc_dtype_info(v->dtype, &info))
		return tcc_fail(err, TCC_UNSUPPORTED, "only a tensor is written as .npy");
	if (v->dtype == TCC_STRING && tcc_is_compact(t)) {
		write_strings(out, t);
		return out->failed ? tcc_no_memory(err, out->n) : 0;
	}
	snprintf(type, sizeof type, "%c%c%d", info.npy_size == 1 && info.npy != 'V' ? '|' : '<',
	         info.npy, info.npy_size);
	write_header(out, type, t);
	if (info.bits < 8) {
		write_packed(out, v);
	} else {
		uint8_t *to = tcc_buf_add(out, NULL, tcc_tensor_count(t) * info.npy_size);
		if (to)
			tcc_compact(to, t);
	}
	return out->failed ? tcc_no_memory(err, out->n) : 0;
}
