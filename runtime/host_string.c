/* Strings: routines of the runtime (abi.h, TCC_HOST). */
#define _GNU_SOURCE
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "host.h"

static bool equal(TccStr a, TccStr b)
{
	return a.size == b.size && !(a.size && memcmp(a.data, b.data, a.size));
}

int64_t do_str_equal(TccContext *ctx, const int64_t *a)
{
	const TccStr *x = host_strings(ctx, a[1]), *y = host_strings(ctx, a[3]);
	uint8_t *r = tcc_run_alloc(ctx, a[5], true);
	for (int64_t i = 0; r && i < a[5]; i++)
		r[i] = equal(x[i * a[2]], y[i * a[4]]);
	return host_deliver(ctx, a[0], r, a[5]);
}

int64_t do_str_concat(TccContext *ctx, const int64_t *a)
{
	const TccStr *x = host_strings(ctx, a[1]), *y = host_strings(ctx, a[3]);
	uint64_t bytes = 0;
	if (tcc_slot_fit(ctx, a[0], a[5] * sizeof *x))
		return 0;
	for (int64_t i = 0; i < a[5]; i++)
		bytes += x[i * a[2]].size + y[i * a[4]].size;
	char *to = tcc_run_alloc(ctx, bytes, true);
	TccStr *r = (TccStr *)(void *)ctx->slots[a[0]].p;
	for (int64_t i = 0; to && i < a[5]; i++) {
		TccStr p = x[i * a[2]], q = y[i * a[4]];
		r[i] = (TccStr){to, p.size + q.size};
		if (p.size)
			memcpy(to, p.data, p.size);
		if (q.size)
			memcpy(to + p.size, q.data, q.size);
		to += r[i].size;
	}
	return 0;
}

int64_t do_str_where(TccContext *ctx, const int64_t *a)
{
	const TccStr *x = host_strings(ctx, a[3]), *y = host_strings(ctx, a[5]);
	const uint8_t *c = host_bytes(ctx, a[1], a[2] ? a[7] : 1);
	if (!c || tcc_slot_fit(ctx, a[0], a[7] * sizeof *x))
		return 0;
	TccStr *r = (TccStr *)(void *)ctx->slots[a[0]].p;
	for (int64_t i = 0; i < a[7]; i++)
		r[i] = c[i * a[2]] ? x[i * a[4]] : y[i * a[6]];
	return 0;
}

int64_t do_str_take(TccContext *ctx, const int64_t *a)
{
	const TccStr *x = host_strings(ctx, a[1]);
	const int64_t *at = host_bytes(ctx, a[3], a[4] * sizeof *at);
	if (!at || tcc_slot_fit(ctx, a[0], a[4] * sizeof *x))
		return 0;
	TccStr *r = (TccStr *)(void *)ctx->slots[a[0]].p;
	for (int64_t i = 0; i < a[4]; i++)
		r[i] = at[i] >= 0 && at[i] < a[2] ? x[at[i]] : (TccStr){0};
	return 0;
}

static uint64_t hash_str(TccStr s)
{
	uint64_t h = 0xcbf29ce484222325;
	for (uint64_t i = 0; i < s.size; i++)
		h = (h ^ (uint8_t)s.data[i]) * 0x100000001b3;
	return h ^ h >> 29;
}

static uint32_t rotated(uint32_t x, int r)
{
	return x << r | x >> (32 - r);
}

/* MurmurHash3_x86_32 (Austin Appleby, public domain). */
static uint32_t murmur(TccStr s, uint32_t h)
{
	for (uint64_t i = 0; i < s.size; i += 4) {
		uint32_t k = 0;
		for (uint64_t j = i; j < s.size && j < i + 4; j++)
			k |= (uint32_t)(uint8_t)s.data[j] << 8 * (j - i);
		h ^= rotated(k * 0xcc9e2d51u, 15) * 0x1b873593u;
		if (i + 4 <= s.size)
			h = rotated(h, 13) * 5 + 0xe6546b64u;
	}
	h ^= (uint32_t)s.size;
	h = (h ^ h >> 16) * 0x85ebca6bu;
	h = (h ^ h >> 13) * 0xc2b2ae35u;
	return h ^ h >> 16;
}

int64_t do_str_hash(TccContext *ctx, const int64_t *a)
{
	const TccStr *x = host_strings(ctx, a[1]);
	uint32_t *r = tcc_run_alloc(ctx, a[2] * sizeof *r, true);
	for (int64_t i = 0; r && i < a[2]; i++)
		r[i] = murmur(x[i], (uint32_t)a[3]);
	return host_deliver(ctx, a[0], r, a[2] * sizeof *r);
}

int64_t do_str_find(TccContext *ctx, const int64_t *a)
{
	const TccStr *x = host_strings(ctx, a[1]), *t = host_strings(ctx, a[3]);
	int64_t n = a[2], m = a[4];
	uint64_t size = 8;
	while (size < 2 * (uint64_t)m)
		size *= 2;
	int64_t *r = tcc_run_alloc(ctx, n * sizeof *r, true);
	int64_t *table = tcc_run_alloc(ctx, size * sizeof *table, true);  /* 1 + place, 0: empty */
	if (!r || !table)
		return 0;
	for (int64_t i = 0; i < m; i++) {
		uint64_t h = hash_str(t[i]) & (size - 1);
		while (table[h] && !equal(t[table[h] - 1], t[i]))
			h = (h + 1) & (size - 1);
		if (!table[h])
			table[h] = i + 1;
	}
	for (int64_t i = 0; i < n; i++) {
		uint64_t h = hash_str(x[i]) & (size - 1);
		while (table[h] && !equal(t[table[h] - 1], x[i]))
			h = (h + 1) & (size - 1);
		r[i] = table[h] - 1;
	}
	return host_deliver(ctx, a[0], r, n * sizeof *r);
}

typedef struct Ranked {
	TccStr s;
	int64_t at;
} Ranked;

static int by_bytes(const void *x, const void *y)
{
	TccStr a = ((const Ranked *)x)->s, b = ((const Ranked *)y)->s;
	uint64_t n = a.size < b.size ? a.size : b.size;
	int c = n ? memcmp(a.data, b.data, n) : 0;
	return c ? c : (a.size > b.size) - (a.size < b.size);
}

/* Equal strings have one place. */
int64_t do_str_rank(TccContext *ctx, const int64_t *a)
{
	const TccStr *x = host_strings(ctx, a[1]);
	uint64_t n = (uint64_t)a[2];
	Ranked *k = tcc_run_alloc(ctx, n * sizeof *k, true);
	int64_t *r = tcc_run_alloc(ctx, n * sizeof *r, true), place = 0;
	if (!k || !r || !n)
		return 0;
	for (uint64_t i = 0; i < n; i++)
		k[i] = (Ranked){x[i], (int64_t)i};
	qsort(k, n, sizeof *k, by_bytes);
	for (uint64_t i = 0; i < n; i++) {
		place += i && by_bytes(&k[i - 1], &k[i]);
		r[k[i].at] = place;
	}
	return host_deliver(ctx, a[0], r, n * sizeof *r);
}

/* Number syntax must not follow the program's locale. Returns what to give to c_locale_end. */
typedef struct Locale {
	locale_t c, old;
} Locale;

static Locale c_locale_begin(void)
{
	Locale l = {.c = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
	if (l.c)
		l.old = uselocale(l.c);
	return l;
}

static void c_locale_end(Locale l)
{
	if (l.c) {
		uselocale(l.old);
		freelocale(l.c);
	}
}

static bool parse(TccStr s, uint32_t dtype, void *to)
{
	char buf[400], *end;
	if (s.size >= sizeof buf || !s.size)
		return false;
	memcpy(buf, s.data, s.size);
	buf[s.size] = 0;
	switch (dtype) {
	case TCC_F32: *(float *)to = strtof(buf, &end); break;
	case TCC_F64: *(double *)to = strtod(buf, &end); break;
	case TCC_I64: *(int64_t *)to = strtoll(buf, &end, 10); break;
	case TCC_U64: *(uint64_t *)to = strtoull(buf, &end, 10); break;
	default: return false;
	}
	return end != buf && !*end;
}

int64_t do_str_parse(TccContext *ctx, const int64_t *a)
{
	uint32_t dtype = ctx->inst->buffers[a[0]].dtype;
	uint64_t size = tcc_dtype_bits(dtype) / 8;
	const TccStr *x = host_strings(ctx, a[1]);
	uint8_t *r = tcc_run_alloc(ctx, a[2] * size, true);
	bool ok = r;
	Locale l = c_locale_begin();
	for (int64_t i = 0; ok && i < a[2]; i++)
		ok = parse(x[i], dtype, r + i * size);
	c_locale_end(l);
	if (r && !ok)
		return host_fail(ctx, "a string is not a number");
	return host_deliver(ctx, a[0], r, a[2] * size);
}

/* The shortest digits that read back as v, laid out as Python does. */
static int format_float(char *buf, size_t size, double v, bool single)
{
	char e[40];
	int digits = 0, exponent;
	if (isnan(v) || isinf(v))
		return snprintf(buf, size, "%s", isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
	do
		snprintf(e, sizeof e, "%.*e", digits, v);
	while (++digits < 18 && (single ? strtof(e, NULL) != (float)v : strtod(e, NULL) != v));
	exponent = atoi(strchr(e, 'e') + 1);
	if (exponent < -4 || exponent >= 16)
		return snprintf(buf, size, "%s", e);
	int places = digits - 1 - exponent;
	return snprintf(buf, size, "%.*f", places < 1 ? 1 : places, v);
}

static int format(char *buf, size_t size, uint32_t dtype, const void *data, int64_t i)
{
	if (dtype == TCC_BOOL)
		return snprintf(buf, size, "%s", ((const uint8_t *)data)[i] ? "True" : "False");
	if (dtype == TCC_U64)
		return snprintf(buf, size, "%" PRIu64, ((const uint64_t *)data)[i]);
	double v = tcc_element(dtype, data, i);
	TccDtypeInfo info = {0};
	tcc_dtype_info(dtype, &info);
	bool integer = info.code <= 1;
	return integer ? snprintf(buf, size, "%" PRId64, tcc_element_int(dtype, data, i))
	               : format_float(buf, size, v, dtype != TCC_F64);
}

int64_t do_str_format(TccContext *ctx, const int64_t *a)
{
	const TccSlot *s = &ctx->slots[a[1]];
	uint32_t dtype = ctx->inst->buffers[a[1]].dtype;
	uint64_t bytes = (a[2] * (uint64_t)tcc_dtype_bits(dtype) + 7) / 8;
	void *data = s->host ? s->p : tcc_run_alloc(ctx, bytes, true);
	if (!data || tcc_slot_fit(ctx, a[0], a[2] * sizeof(TccStr)))
		return 0;
	if (!s->host && tcc_move(ctx, data, true, s->p, false, bytes))
		return 0;
	TccStr *r = (TccStr *)(void *)ctx->slots[a[0]].p;
	Locale l = c_locale_begin();
	for (int64_t i = 0; i < a[2]; i++) {
		char buf[64];
		int n = format(buf, sizeof buf, dtype, data, i);
		char *to = tcc_run_alloc(ctx, n, true);
		if (!to)
			break;
		memcpy(to, buf, n);
		r[i] = (TccStr){to, n};
	}
	c_locale_end(l);
	return 0;
}

/* --- parts ------------------------------------------------------------------------------------ */

/* Bytes of the white space character at p (as Unicode has it), 0 if there is none. */
static uint64_t space_at(const char *p, const char *end)
{
	const unsigned char *u = (const unsigned char *)p;
	if (p < end && (*u == ' ' || (*u >= 9 && *u <= 13) || (*u >= 0x1c && *u <= 0x1f)))
		return 1;
	if (end - p >= 2 && u[0] == 0xc2 && (u[1] == 0x85 || u[1] == 0xa0))
		return 2;
	if (end - p < 3)
		return 0;
	uint32_t c = (uint32_t)u[0] << 16 | (uint32_t)u[1] << 8 | u[2];
	bool yes = c == 0xe19a80 || (c >= 0xe28080 && c <= 0xe2808a) || c == 0xe280a8 ||
	           c == 0xe280a9 || c == 0xe280af || c == 0xe2819f || c == 0xe38080;
	return yes ? 3 : 0;
}

static const char *skip_space(const char *p, const char *end)
{
	for (uint64_t n; (n = space_at(p, end)) > 0;)
		p += n;
	return p;
}

/* The next part of [*p, end); *p moves behind the delimiter. last: all that is left. False:
 * none. */
static bool next_part(const char **p, const char *end, TccStr by, bool last, TccStr *part)
{
	const char *b = by.size ? *p : skip_space(*p, end), *e = b;
	if (by.size ? !b : b == end)
		return false;
	if (by.size) {
		e = last ? NULL : memmem(b, (size_t)(end - b), by.data, by.size);
		*p = e ? e + by.size : NULL;
		e = e ? e : end;
	} else {
		while (e < end && (last || !space_at(e, end)))
			e++;
		*p = e;
	}
	*part = (TccStr){(char *)b, (uint64_t)(e - b)};
	return true;
}

/* How many parts; to: at most `width` of them. */
static int64_t parts(TccStr s, TccStr by, int64_t most, TccStr *to, int64_t width)
{
	static const char nothing[1];
	const char *p = s.size ? s.data : nothing, *end = p + s.size;
	int64_t n = 0;
	for (TccStr one; next_part(&p, end, by, n == most, &one); n++)
		if (to && n < width)
			to[n] = one;
	return n;
}

int64_t do_str_parts(TccContext *ctx, const int64_t *a)
{
	const TccStr *x = host_strings(ctx, a[1]), *by = host_strings(ctx, a[3]);
	int64_t *r = tcc_run_alloc(ctx, (uint64_t)a[2] * sizeof *r, true);
	for (int64_t i = 0; r && i < a[2]; i++)
		r[i] = parts(x[i], *by, a[4], NULL, 0);
	return host_deliver(ctx, a[0], r, (uint64_t)a[2] * sizeof *r);
}

int64_t do_str_split(TccContext *ctx, const int64_t *a)
{
	const TccStr *x = host_strings(ctx, a[1]), *by = host_strings(ctx, a[3]);
	TccStr *r = host_result(ctx, a[0], a[2] * a[5]);
	if (!r)
		return 0;
	memset(r, 0, (uint64_t)(a[2] * a[5]) * sizeof *r);
	for (int64_t i = 0; i < a[2]; i++)
		parts(x[i], *by, a[4], r + i * a[5], a[5]);
	return 0;
}
