/* Strings and pictures: routines of the runtime do what kernels
 * cannot, the rest is moves of places. */
#include <stdlib.h>
#include <string.h>
#include "ml.h"

static Node *
like(Build *b, const char *name, const char *args, DType d, Node *x, int nin, Node *const *in)
{
	return t_host(b->m, name, args, ty_tensor(b->m, d, rank_of(x), x->type->dims), nin, in);
}

static Node *
build_string_concat(Build *b)
{
	return string_map(b, "str_concat", "d 0 S0 1 S1 N", DT_STRING);
}

static Node *
build_regex_full_match(Build *b)
{
	Node *in[2] = {b->in[0], one_string(b, attr_str(b, "pattern"))};

	return like(b, "str_match", "d 0 N 1", DT_BOOL, in[0], 2, in);
}

/* ---- normalization --------------------------------------------------------------------------- */

/* Upper or lower case as the language of a locale has it. */
static Node *
cased(Build *b, Node *x, bool upper, Node *language)
{
	return like(b, "str_case", upper ? "d 0 N #1 1" : "d 0 N #0 1", DT_STRING, x, 2,
		(Node *[]){x, language});
}

/* Strings of x, [n], that are not in `stop`; "" where none is left. */
static Node *
without(Build *b, Node *x, Node *key, Node *stop)
{
	Module *m = b->m;
	Node *found = like(b, "str_find", "d 0 N 1 N1", DT_I64, x, 2, (Node *[]){key, stop}), *place,
		*axis, *count, *dim, *at;

	axis = x_axis(m, dim_of(x, 0));
	place = places_of(b, dim_of(x, 0), axis, x_lt(m, x_read(m, found, &axis), x_int(m, DT_I64, 0)));
	count = dim_of(place, 0);
	dim = x_max(m, count, x_idx(m, 1));
	axis = x_axis(m, dim);
	at = t_tensor(m, 1, &axis,
		x_select(m, x_lt(m, axis, count), x_read(m, place, &axis), x_int(m, DT_I64, -1)));
	return like(b, "str_take", "d 0 N0 1 N", DT_STRING, at, 2, (Node *[]){x, at});
}

static Node *
build_string_normalizer(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *flat, *stop, *key, *language, *dims[2], *n = numel(m, x);
	const char *action = attr_str(b, "case_change_action"), *locale = attr_str(b, "locale");
	int64_t words = attr_len(b, "stopwords");
	int rank = rank_of(x);
	bool exact = attr_int(b, "is_case_sensitive") != 0, upper = strcmp(action, "UPPER") == 0;

	if (!upper && strcmp(action, "LOWER") && strcmp(action, "NONE"))
		return fail(b, "case_change_action is \"%s\", must be LOWER, UPPER or NONE", action);
	if (rank != 1 && rank != 2)
		return fail(b, "the operand has %d dimensions, must have 1 or 2", rank);
	if (rank == 2)
		expect_dim(b, "the first dimension", dim_of(x, 0), x_idx(m, 1), false);
	stop = attr_const(b, "stopwords", DT_STRING, 1, &words);
	language = one_string(b, arena_printf(m->arena, "%.*s", (int)strcspn(locale, "_-."), locale));
	flat = reshape(m, x, 1, &n);
	if (stop) {
		key = exact ? flat : cased(b, flat, false, language);
		flat = without(b, flat, key, exact ? stop : cased(b, stop, false, language));
	}
	if (strcmp(action, "NONE"))
		flat = cased(b, flat, upper, language);
	dims[0] = x_idx(m, 1);
	dims[1] = dim_of(flat, 0);
	return rank == 2 ? reshape(m, flat, 2, dims) : flat;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* The largest element of a tensor of counts, as a scalar tensor that the host can read. */
static Node *
largest(Build *b, Node *counts)
{
	Module *m = b->m;
	Node *n = numel(m, counts), *flat = reshape(m, counts, 1, &n), *axis = x_axis(m, n);
	Node *most = x_reduce(m, COMB_MAX, 1, &axis, x_read(m, flat, &axis));

	return t_tensor(m, 0, NULL, x_max(m, most, x_int(m, DT_I64, 0)));
}

/* x's dims and one more, which is known when `width` is. */
static const Type *
widened(Build *b, Node *x, Node *width)
{
	Node *dims[MAX_RANK];

	memcpy(dims, x->type->dims, sizeof *dims * (size_t)rank_of(x));
	dims[rank_of(x)] = extent(b->m, x_cast(b->m, DT_INDEX, x_read(b->m, width, NULL)));
	return ty_tensor(b->m, DT_STRING, rank_of(x) + 1, dims);
}

static Node *
build_string_split(Build *b)
{
	Node *x = b->in[0], *by = one_string(b, attr_str(b, "delimiter")), *counts, *width, *parts;
	const Attr *most = attr_find(b->attrs, "maxsplit");
	long long cuts = most ? (long long)most->i : -1;

	if (rank_of(x) == MAX_RANK || cuts < -1)
		return fail(b, cuts < -1 ? "maxsplit is negative" : "the operand has too many dimensions");
	counts = like(b, "str_parts", arena_printf(b->m->arena, "d 0 N 1 #%lld", cuts), DT_I64, x, 2,
		(Node *[]){x, by});
	width = largest(b, counts);
	parts = t_host(b->m, "str_split", arena_printf(b->m->arena, "d 0 N0 1 #%lld =2", cuts),
		widened(b, x, width), 3,
		(Node *[]){x, by, width});
	return t_tuple(b->m, 2, (Node *[]){parts, counts});
}

static Node *
build_tokenizer(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *counts, *width, *patterns, *pad = one_string(b, attr_str(b, "pad_value"));
	const char *exp = attr_str(b, "tokenexp");
	const Attr *sep = attr_find(b->attrs, "separators");
	int64_t n = sep ? sep->n : 0, least = attr_int(b, "mincharnum");
	bool chars = n == 1 && !*sep->ss[0];
	const char *args;

	if ((n > 0) == (*exp != 0))
		return fail(b, "either separators or tokenexp must be given");
	if (least < 1 || rank_of(x) < 1 || rank_of(x) > 2)
		return fail(b, least < 1 ? "mincharnum is less than 1"
			: "the operand must have 1 or 2 dimensions");
	patterns = *exp ? one_string(b, exp) : attr_const(b, "separators", DT_STRING, 1, &n);
	args = arena_printf(m->arena, "#%d 1 #%lld #%lld #%d", chars ? 0 : *exp ? 2 : 1,
		(long long)(chars ? 0 : *exp ? 1 : n),
		(long long)(chars ? 1 : least), attr_int(b, "mark") != 0);
	counts = like(b, "str_tokens", arena_printf(m->arena, "d 0 N %s", args), DT_I64, x, 2,
		(Node *[]){x, patterns});
	width = largest(b, counts);
	return t_host(m, "str_tokenize", arena_printf(m->arena, "d 0 N0 %s =2 3", args),
		widened(b, x, width), 4,
		(Node *[]){x, patterns, width, pad});
}

/* ---- n-grams --------------------------------------------------------------------------------- */

/*
 * The pool as a trie: level k has an entry for each n-gram's first k + 1 items, sorted by the place
 * of the first k in the level above and the last item. gram: which n-gram of the pool it is, or -1.
 */
typedef struct Entry { int64_t prefix, item, gram; } Entry;
typedef struct TrieLevel { Entry *at; int64_t n; } TrieLevel;

static int
by_entry(const void *x, const void *y)
{
	const Entry *a = x, *b = y;

	if (a->prefix != b->prefix)
		return a->prefix < b->prefix ? -1 : 1;
	return (a->item > b->item) - (a->item < b->item);
}

/* A level from the k-th items of the n-grams that have them; place[g] moves from level to level. */
static TrieLevel
trie_level(Module *m, const int64_t *items, const int64_t *first, const int64_t *length,
	int64_t grams, int64_t *place,
	int64_t k)
{
	TrieLevel l = {NEWN(m, Entry, grams + 1), 0};
	Entry key, *e;
	int64_t g, n = 0;

	for (g = 0; g < grams; g++)
		if (length[g] > k)
			l.at[n++] = (Entry){place[g], items[first[g] + k], -1};
	qsort(l.at, (size_t)n, sizeof *l.at, by_entry);
	for (g = 0; g < n; g++)
		if (!l.n || by_entry(&l.at[l.n - 1], &l.at[g]))
			l.at[l.n++] = l.at[g];
	for (g = 0; g < grams; g++) {
		if (length[g] <= k)
			continue;
		key = (Entry){place[g], items[first[g] + k], -1};
		e = bsearch(&key, l.at, (size_t)l.n, sizeof *l.at, by_entry);
		place[g] = e - l.at;
		if (length[g] == k + 1 && e->gram < 0)
			e->gram = g;
	}
	return l;
}

/* A column of a level as a constant: 0 prefix, 1 item, 2 gram. */
static Node *
level_column(Module *m, const TrieLevel *l, int which)
{
	int64_t *v = NEWN(m, int64_t, l->n + 1), i;

	for (i = 0; i < l->n; i++)
		v[i] = which == 0 ? l->at[i].prefix : which == 1 ? l->at[i].item : l->at[i].gram;
	return t_ints(m, (int)l->n, v);
}

/* The place in a level of (prefix, item), or -1: by bisection. */
static Node *
level_find(Module *m, const TrieLevel *l, Node *prefix, Node *item)
{
	Node *prefixes = level_column(m, l, 0), *items = level_column(m, l, 1), *step, *at, *p, *i,
		*less, *k, *pos, *end;
	int bits = 0;

	while ((int64_t)1 << bits <= l->n)
		bits++;
	k = x_axis(m, x_idx(m, bits));
	pos = x_carry(m, DT_I64);
	step = x2(m, O_SHL, x_int(m, DT_I64, 1), x_cast(m, DT_I64, x_sub(m, x_idx(m, bits - 1), k)));
	end = x_add(m, pos, step);
	at = x_cast(m, DT_INDEX, x_sub(m, end, x_int(m, DT_I64, 1)));
	at = x_min(m, x_max(m, at, x_idx(m, 0)), x_idx(m, l->n - 1));
	p = x_read(m, prefixes, &at);
	i = x_read(m, items, &at);
	less = x_or(m, x_lt(m, p, prefix), x_and(m, x_eq(m, p, prefix), x_lt(m, i, item)));
	less = x_and(m, less, x_le(m, end, x_int(m, DT_I64, l->n)));
	pos = x_iter(m, k, pos, x_int(m, DT_I64, 0), x_select(m, less, end, pos));
	at = x_min(m, x_max(m, x_cast(m, DT_INDEX, pos), x_idx(m, 0)), x_idx(m, l->n - 1));
	less = x_and(m, x_eq(m, x_read(m, prefixes, &at), prefix),
		x_eq(m, x_read(m, items, &at), item));
	return x_select(m, x_and(m, less, x_lt(m, pos, x_int(m, DT_I64, l->n))), pos,
		x_int(m, DT_I64, -1));
}

typedef struct Grams {
	int64_t n, *items, *first, *length;
	int64_t shortest, longest, skips;
} Grams;

/* Where each n-gram of the pool begins and how long it is. */
static bool
pool_grams(Build *b, int64_t total, Grams *g)
{
	int n, i;
	const int64_t *starts, *columns;
	int64_t at = 0, end;

	g->shortest = attr_int(b, "min_gram_length");
	g->longest = attr_int(b, "max_gram_length");
	g->skips = attr_int(b, "max_skip_count");
	if (g->shortest < 1 || g->longest < g->shortest || g->longest > 64 || g->skips < 0 ||
		g->skips > 1024)
		return fail(b, "n-grams of %lld to %lld items, %lld of them skipped",
			(long long)g->shortest,
			(long long)g->longest, (long long)g->skips) != NULL;
	attr_ints(b, "ngram_counts", &n, &starts);
	g->first = NEWN(b->m, int64_t, total + 1);
	g->length = NEWN(b->m, int64_t, total + 1);
	for (i = 0; i < n; i++) {
		end = i + 1 < n ? starts[i + 1] : total;
		if (starts[i] != at || end < at || end > total || (end - at) % (i + 1))
			return fail(b, "ngram_counts does not divide the pool of %lld items",
				(long long)total) != NULL;
		for (; at < end; at += i + 1, g->n++) {
			g->first[g->n] = at;
			g->length[g->n] = i + 1;
		}
	}
	attr_ints(b, "ngram_indexes", &n, &columns);
	if (at != total || n != g->n)
		return fail(b, "%d ngram_indexes for %lld n-grams", n, (long long)g->n) != NULL;
	return true;
}

/* The items of x as integers, and those of the pool likewise. */
static Node *
gram_items(Build *b, Node *x, int64_t total, Grams *g)
{
	Module *m = b->m;
	Node *pool, *axes[2];
	const Attr *words = attr_find(b->attrs, "pool_strings");
	const char **s;
	int64_t i, k, n = 0;

	if (dtype_of(x) != DT_STRING) {
		g->items = arena_dup(m->arena, attr_find(b->attrs, "pool_int64s")->is,
			sizeof *g->items * (size_t)total);
		axes_new(m, 2, x->type->dims, axes);
		return t_tensor(m, 2, axes, x_cast(m, DT_I64, x_read(m, x, axes)));
	}
	/* attributes' strings are interned: equal ones are one pointer */
	g->items = NEWN(m, int64_t, total + 1);
	s = NEWN(m, const char *, total + 1);
	for (i = 0; i < total; i++) {
		for (k = n; k-- > 0 && s[k] != words->ss[i];)
			;
		g->items[i] = k < 0 ? n : k;
		if (k < 0)
			s[n++] = words->ss[i];
	}
	pool = string_const(m, 1, n, s);
	return like(b, "str_find", "d 0 N 1 N1", DT_I64, x, 2, (Node *[]){x, pool});
}

/* counts plus one for each n-gram of k + 1 items of which `place` tells the last, [rows, n]. */
static Node *
count_grams(Module *m, Node *counts, Node *place, const TrieLevel *l)
{
	Node *axes[2], *idx[2], *at, *gram = level_column(m, l, 2), *p;

	axes_new(m, 2, place->type->dims, axes);
	p = x_read(m, place, axes);
	at = x_min(m, x_max(m, x_cast(m, DT_INDEX, p), x_idx(m, 0)), x_idx(m, l->n - 1));
	gram = x_read(m, gram, &at);
	idx[0] = axes[0];
	idx[1] = x_max(m, x_cast(m, DT_INDEX, gram), x_idx(m, 0));
	return t_scatter(m, COMB_SUM, counts, 2, axes, idx, x_flt(m, DT_F32, 1),
		x_and(m, x_le(m, x_int(m, DT_I64, 0), p), x_le(m, x_int(m, DT_I64, 0), gram)));
}

/* How often each n-gram of the pool stands in each row of x, [rows, items]: f32[rows, n-grams]. */
static Node *
gram_counts(Build *b, Node *x, const Grams *g)
{
	Module *m = b->m;
	TrieLevel *level = NEWN(m, TrieLevel, g->longest);
	int64_t *above = NEWN(m, int64_t, g->n + 1), k, skip;
	Node *axes[2], *idx[2], *counts, *state, *last, *none = x_int(m, DT_I64, -1),
		*dims[2] = {dim_of(x, 0), x_idx(m, g->n)};

	for (k = 0; k < g->longest; k++)
		level[k] = trie_level(m, g->items, g->first, g->length, g->n, above, k);
	axes_new(m, 2, dims, axes);
	counts = t_tensor(m, 2, axes, x_int(m, DT_F32, 0));
	for (skip = 0; skip <= g->skips; skip++)
		for (k = 0, state = NULL; k < g->longest && level[k].n; k++) {
			axes_new(m, 2, x->type->dims, axes);
			idx[0] = axes[0];
			idx[1] = x_addi(m, axes[1], k * (skip + 1));
			last = x_read(m, x, idx);
			last = level_find(m, &level[k], state ? x_read(m, state, axes) : x_int(m, DT_I64, 0),
				last);
			state = t_tensor(m, 2, axes, x_select(m, x_lt(m, idx[1], dim_of(x, 1)), last, none));
			if (k + 1 >= g->shortest && (k || !skip))
				counts = count_grams(m, counts, state, &level[k]);
		}
	return counts;
}

/* Counts weighted and put to their columns. */
static Node *
gram_columns(Build *b, Node *counts, const Grams *g, const char *mode)
{
	Module *m = b->m;
	Node *axes[2], *idx[2], *base, *dims[2] = {dim_of(counts, 0), NULL}, *weights = NULL, *column,
		*v;
	const int64_t *columns;
	int64_t width = 0, i;
	int n;

	attr_ints(b, "ngram_indexes", &n, &columns);
	for (i = 0; i < n; i++) {
		if (columns[i] < 0 || columns[i] > 1 << 28)
			return fail(b, "ngram_indexes has the entry %lld", (long long)columns[i]);
		width = columns[i] >= width ? columns[i] + 1 : width;
	}
	if (strcmp(mode, "TF") && attr_len(b, "weights") &&
		!(weights = attr_const(b, "weights", DT_F32, 1, &g->n)))
		return NULL;
	column = t_ints(m, n, columns);
	dims[1] = x_idx(m, width);
	axes_new(m, 2, dims, axes);
	base = t_tensor(m, 2, axes, x_int(m, DT_F32, 0));
	axes_new(m, 2, counts->type->dims, axes);
	v = x_read(m, counts, axes);
	if (!strcmp(mode, "IDF"))
		v = x_min(m, v, x_flt(m, DT_F32, 1));
	if (weights)
		v = x_mul(m, v, x_read(m, weights, &axes[1]));
	idx[0] = axes[0];
	idx[1] = x_cast(m, DT_INDEX, x_read(m, column, &axes[1]));
	return t_scatter(m, COMB_SUM, base, 2, axes, idx, v, NULL);
}

static Node *
build_tf_idf(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *y, *dims[2], *items;
	const char *mode = attr_str(b, "mode");
	int64_t strings = attr_len(b, "pool_strings"), total = strings + attr_len(b, "pool_int64s");
	Grams g = {0};

	if (strcmp(mode, "TF") && strcmp(mode, "IDF") && strcmp(mode, "TFIDF"))
		return fail(b, "mode is \"%s\", must be TF, IDF or TFIDF", mode);
	if (rank_of(x) < 1 || rank_of(x) > 2)
		return fail(b, "the operand has %d dimensions, must have 1 or 2", rank_of(x));
	if (total == 0 || (strings > 0) != (dtype_of(x) == DT_STRING) || (strings && total > strings))
		return fail(b, "the pool is empty, or not of the operand's type");
	dims[0] = rank_of(x) == 2 ? dim_of(x, 0) : x_idx(m, 1);
	dims[1] = dim_of(x, rank_of(x) - 1);
	if (!pool_grams(b, total, &g))
		return NULL;
	items = gram_items(b, reshape(m, x, 2, dims), total, &g);
	y = gram_columns(b, gram_counts(b, items, &g), &g, mode);
	return y && rank_of(x) == 1 ? reshape(m, y, 1, &y->type->dims[1]) : y;
}

/* ---- pictures -------------------------------------------------------------------------------- */

static Node *
build_image_decoder(Build *b)
{
	static const char *const formats[] = {"RGB", "BGR", "Grayscale"};
	Module *m = b->m;
	const char *format = attr_str(b, "pixel_format");
	Node *x = b->in[0], *two = x_idx(m, 2), *sizes, *dims[3], *at;
	int i, k;

	for (k = 0; k < 3 && strcmp(format, formats[k]); k++)
		;
	if (k == 3 || rank_of(x) != 1)
		return fail(b, k == 3 ? "pixel_format \"%s\" is not known"
			: "the operand must have 1 dimension", format);
	sizes = t_host(m, "image_shape", "d 0 N0", ty_tensor(m, DT_I64, 1, &two), 1, &x);
	for (i = 0; i < 2; i++) {
		at = x_idx(m, i);
		dims[i] = extent(m, x_cast(m, DT_INDEX, x_read(m, sizes, &at)));
	}
	dims[2] = x_idx(m, k == 2 ? 1 : 3);
	return t_host(m, "image_decode", arena_printf(m->arena, "d 0 N0 #%d", k),
		ty_tensor(m, DT_U8, 3, dims), 2,
		(Node *[]){x, sizes});
}

const Op ops_text[] = {
	HOST("string_concat", "StringConcat", 20, "(x: string, y: string) {} -> z", build_string_concat,
		"strings end to end"),
	HOST("string_split", "StringSplit", 20, "(x: string) {delimiter: str?, maxsplit: int?} -> y, n",
	build_string_split,
		"parts of strings, and their number"),
	HOST("string_normalizer", "StringNormalizer", 10,
	"(x: string) {case_change_action: str = \"NONE\","
		" is_case_sensitive: int = 0, locale: str?, stopwords: strs?} -> y",
		build_string_normalizer,
		"words without some, in one case"),
	HOST("regex_full_match", "RegexFullMatch", 20, "(x: string) {pattern: str?} -> y",
	build_regex_full_match,
		"whether strings match an expression"),
	HOST("tokenizer", "com.microsoft:Tokenizer", 1,
	"(x: string) {mark: int, mincharnum: int, pad_value: str,"
		" separators: strs?, tokenexp: str?} -> y", build_tokenizer, "tokens of strings"),
	HOST("image_decoder", "ImageDecoder", 20, "(x: u8) {pixel_format: str = \"RGB\"} -> y",
	build_image_decoder,
		"the pixels of a picture in a file"),
	STRUCT("tf_idf_vectorizer", "TfIdfVectorizer", 9,
	"(x: string|i32|i64) {max_gram_length: int, max_skip_count: int,"
		" min_gram_length: int, mode: str, ngram_counts: ints, ngram_indexes: ints,"
		" pool_int64s: ints?, pool_strings: strs?, weights: floats?} -> y", build_tf_idf,
		"how often n-grams stand in a sequence"),
	{0}
};
