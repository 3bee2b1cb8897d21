/*
 * Routines that need PCRE2. Patterns are RE2's: what PCRE2 would take otherwise is told to it by
 * options ($ is the very end; classes are ASCII's), and matching is by its algorithm that does not
 * backtrack.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>
#include "host.h"

const char tcc_lib_regex = 1;        /* what a link asks for that needs this file */

static int64_t bad_pattern(TccContext *ctx, int code, size_t at)
{
	PCRE2_UCHAR text[200];
	pcre2_get_error_message(code, text, sizeof text);
	tcc_fail(&ctx->err, TCC_BAD_DATA, "a regular expression is wrong at byte %zu: %s", at,
		(char *)text);
	ctx->run.status = ctx->err.code;
	return 0;
}

typedef struct Regex {
	pcre2_code *code;
	pcre2_match_data *match;
	int work[1000];
} Regex;

static bool regex_open(TccContext *ctx, Regex *r, TccStr pattern)
{
	int error;
	size_t at;
	r->match = NULL;
	r->code = pcre2_compile((PCRE2_SPTR)(pattern.data ? pattern.data : ""), pattern.size,
	                        PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &error, &at,
	                        NULL);
	if (!r->code)
		return bad_pattern(ctx, error, at);
	r->match = pcre2_match_data_create(16, NULL);
	return r->match || host_fail(ctx, "no memory");
}

static void regex_close(Regex *r)
{
	pcre2_match_data_free(r->match);
	pcre2_code_free(r->code);
}

/* The longest match at or after `from`; its end, or -1; *begin. options: PCRE2_ANCHORED and the
 * like. */
static int64_t find(TccContext *ctx, Regex *r, TccStr s, uint64_t from, uint32_t options,
                    uint64_t *begin)
{
	int n = pcre2_dfa_match(r->code, (PCRE2_SPTR)(s.data ? s.data : ""), s.size, from, options,
	                        r->match, NULL, r->work, (int)TCC_COUNT(r->work));
	if (n == PCRE2_ERROR_NOMATCH)
		return -1;
	if (n < 0) {
		bad_pattern(ctx, n, 0);
		return -1;
	}
	const size_t *at = pcre2_get_ovector_pointer(r->match);
	*begin = at[0];
	return (int64_t)at[1];
}

int64_t do_str_match(TccContext *ctx, const int64_t *a)
{
	const TccStr *x = host_strings(ctx, a[1]);
	uint8_t *r = tcc_run_alloc(ctx, (uint64_t)a[2], true);
	uint64_t begin;
	Regex re;
	bool ok = r && regex_open(ctx, &re, *host_strings(ctx, a[3]));
	for (int64_t i = 0; ok && i < a[2] && !ctx->run.status; i++)
		r[i] = find(ctx, &re, x[i], 0, PCRE2_ANCHORED | PCRE2_ENDANCHORED, &begin) >= 0;
	if (ok)
		regex_close(&re);
	return host_deliver(ctx, a[0], r, (uint64_t)a[2]);
}

/* --- tokens ---------------------------------------------------------------------------------- */

enum { BY_CHARACTER, BY_SEPARATORS, BY_PATTERN };

/* One kind of tokens of a string, collected in `to`, at most `room` of them counted beyond. */
typedef struct Tokens {
	TccContext *ctx;
	Regex *re;
	int64_t mode, m, least;
	TccStr *to;
	int64_t room, n;
} Tokens;

static uint64_t char_size(const char *p, const char *end)
{
	uint64_t n = 1;
	while (p + n < end && (p[n] & 0xc0) == 0x80)
		n++;
	return n;
}

static void add_token(Tokens *t, const char *b, const char *e)
{
	int64_t chars = 0;
	for (const char *p = b; p < e; p += char_size(p, e))
		chars++;
	if (chars < t->least || b == e)
		return;
	if (t->to && t->n < t->room)
		t->to[t->n] = (TccStr){(char *)b, (uint64_t)(e - b)};
	t->n++;
}

/* Between matches of separator k those of k + 1, and so on. */
static void split_by(Tokens *t, TccStr s, int64_t k)
{
	uint64_t at = 0, from = 0, b = 0;
	if (k == t->m) {
		add_token(t, s.data, s.data + s.size);
		return;
	}
	while (from <= s.size && !t->ctx->run.status) {
		int64_t e = find(t->ctx, &t->re[k], s, from, 0, &b);
		if (e < 0)
			break;
		if ((uint64_t)e == b) {
			from = b + (b < s.size ? char_size(s.data + b, s.data + s.size) : 1);
			continue;
		}
		split_by(t, (TccStr){s.data + at, b - at}, k + 1);
		at = from = (uint64_t)e;
	}
	split_by(t, (TccStr){s.data + at, s.size - at}, k + 1);
}

static void tokens_of(Tokens *t, TccStr s)
{
	const char *end = s.data + s.size;
	uint64_t at = 0, b = 0;
	t->n = 0;
	if (t->mode == BY_CHARACTER) {
		for (const char *p = s.data; p < end; p += char_size(p, end))
			add_token(t, p, p + char_size(p, end));
	} else if (t->mode == BY_SEPARATORS) {
		split_by(t, s, 0);
	} else {
		while (at < s.size && !t->ctx->run.status) {
			int64_t e = find(t->ctx, t->re, s, at, 0, &b);
			if (e < 0)
				break;
			add_token(t, s.data + b, s.data + e);
			at = (uint64_t)e > b ? (uint64_t)e : b + char_size(s.data + b, end);
		}
	}
}

/* Arguments from `mode` on: mode patterns m least. False after an error. */
static bool tokens_open(TccContext *ctx, Tokens *t, const int64_t *a)
{
	*t = (Tokens){.ctx = ctx, .mode = a[0], .m = a[2], .least = a[3]};
	t->re = tcc_run_alloc(ctx, (uint64_t)(t->m + 1) * sizeof *t->re, true);
	for (int64_t k = 0; t->re && k < t->m; k++)
		if (!regex_open(ctx, &t->re[k], host_strings(ctx, a[1])[k]))
			return false;
	return t->re;
}

static void tokens_close(Tokens *t)
{
	for (int64_t k = 0; t->re && k < t->m; k++)
		if (t->re[k].code)
			regex_close(&t->re[k]);
}

int64_t do_str_tokens(TccContext *ctx, const int64_t *a)
{
	const TccStr *x = host_strings(ctx, a[1]);
	int64_t *r = tcc_run_alloc(ctx, (uint64_t)a[2] * sizeof *r, true);
	Tokens t;
	if (tokens_open(ctx, &t, a + 3))
		for (int64_t i = 0; r && i < a[2]; i++) {
			tokens_of(&t, x[i]);
			r[i] = t.n + (a[7] ? 2 : 0);
		}
	tokens_close(&t);
	return host_deliver(ctx, a[0], r, (uint64_t)a[2] * sizeof *r);
}

int64_t do_str_tokenize(TccContext *ctx, const int64_t *a)
{
	const TccStr *x = host_strings(ctx, a[1]), pad = *host_strings(ctx, a[9]);
	int64_t width = a[8], mark = a[7];
	TccStr *r = host_result(ctx, a[0], a[2] * width);
	Tokens t;
	if (tokens_open(ctx, &t, a + 3))
		for (int64_t i = 0; r && i < a[2]; i++) {
			TccStr *row = r + i * width;
			t.to = row + mark;
			t.room = width - 2 * mark;
			tokens_of(&t, x[i]);
			int64_t n = t.n < t.room ? t.n : t.room;
			if (mark) {
				row[0] = (TccStr){(char *)"\002", 1};
				row[n + 1] = (TccStr){(char *)"\003", 1};
				n += 2;
			}
			for (; n < width; n++)
				row[n] = pad;
		}
	tokens_close(&t);
	return 0;
}
