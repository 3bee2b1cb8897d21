/*
 * com.microsoft: attention of packed rows with a cache in pages. Sequence n has the new tokens
 * [ends[n], ends[n + 1]) of the operands' rows, after past[n] older ones; its key j lies in place
 * j % block of page table[n, j / block].
 */
#include <math.h>
#include <string.h>
#include "attention.h"

typedef struct Pages {
	Node *ends, *past, *table, *slots;   /* operands, i32; slots: where new keys go, or NULL */
	Node *lens, *seq;              /* i32[sequences] new tokens, i32[tokens] a token's sequence */
	Node *tokens, *block;          /* rows of the operands, places of a page */
	Node *sinks, *more;            /* more: lengths of auxiliary keys, or NULL */
	const Selected *selected;
	Node *keys;                    /* the most keys that a sequence has */
	int64_t window, turned;
	bool causal;
} Pages;

static Node *
value_of(Module *m, Node *list, Node *i)
{
	return x_cast(m, DT_INDEX, x_read(m, list, &i));
}

/* The row of new token i of sequence n. */
static Node *
row_of(Module *m, const Pages *p, Node *n, Node *i)
{
	return x2(m, O_BOUND, x_add(m, value_of(m, p->ends, n), i), p->tokens);
}

/* New tokens of each sequence, and the sequence of each token. */
static void
sequences(Module *m, Pages *p)
{
	Node *n = x_axis(m, dim_of(p->past, 0)), *t, *next = x_addi(m, n, 1), *e;

	e = x_sub(m, x_read(m, p->ends, &next), x_read(m, p->ends, &n));
	p->lens = t_tensor(m, 1, &n, x_max(m, e, x_int(m, DT_I32, 0)));
	t = x_axis(m, p->tokens);
	n = x_axis(m, dim_of(p->past, 0));
	next = x_addi(m, n, 1);
	e = x_cast(m, DT_I32, x_le(m, value_of(m, p->ends, next), t));
	p->seq = t_tensor(m, 1, &t, x_reduce(m, COMB_SUM, 1, &n, e));
}

/* The largest of what each sequence has, as an extent. */
static Node *
most(Module *m, const Pages *p, bool with_past)
{
	Node *n = x_axis(m, dim_of(p->past, 0)), *e = x_read(m, p->lens, &n);

	if (with_past)
		e = x_add(m, e, x_read(m, p->past, &n));
	e = x_reduce(m, COMB_MAX, 1, &n, x_cast(m, DT_I64, e));
	return extent(m, computed_index(m, x_max(m, e, x_int(m, DT_I64, 0))));
}

/* Rows [tokens, columns] as [sequences, heads, L, size], from column `first` on. */
static Node *
paged_heads(Module *m, const Pages *p, Node *x, int64_t heads, Node *first, Node *size, Node *L)
{
	Node *ax[4], *at[2], *e;

	axes_new(m, 4, (Node *[]){dim_of(p->past, 0), x_idx(m, heads), L, size}, ax);
	at[0] = row_of(m, p, ax[0], ax[2]);
	at[1] = x_add(m, x_add(m, x_mul(m, ax[1], size), ax[3]), first);
	e = x_lt(m, ax[2], value_of(m, p->lens, ax[0]));
	return t_tensor(m, 4, ax, x_select(m, e, x_read(m, x, at), x_int(m, dtype_of(x), 0)));
}

static Node *
paged_position(Module *m, Node *n, Node *s, void *arg)
{
	Pages *p = arg;

	return x_select(m, x_lt(m, s, value_of(m, p->lens, n)),
		x_add(m, value_of(m, p->past, n), s), x_idx(m, 0));
}

static bool
paged_rotary(Build *b, Pages *p, Att *a, Node *cos, Node *sin)
{
	Module *m = b->m;
	bool il = attr_int(b, "rotary_interleaved") == 1;
	int64_t first = attr_int(b, "rotary_offset");
	Node *rotated;

	if (!cos || !sin || rank_of(cos) != 2 || rank_of(sin) != 2)
		return fail(b, "do_rotary needs cos_cache and sin_cache of 2 dimensions") != NULL;
	if (first < 0 || first > 1 << 20)
		return fail(b, "rotary_offset is %lld", (long long)first) != NULL;
	rotated = x_muli(m, dim_of(cos, 1), 2);
	expect_shape(b, "sin_cache", sin, 2, cos->type->dims);
	require(m, x_le(m, x_addi(m, rotated, first), dim_of(a->q, 3)), b->loc,
		"the caches have %s columns for heads of %s", expr_print(m, dim_of(cos, 1)),
		expr_print(m, dim_of(a->q, 3)));
	a->q = rotary(b, a->q, cos, sin, paged_position, p, il, first, rotated);
	a->k = rotary(b, a->k, cos, sin, paged_position, p, il, first, rotated);
	return true;
}

/* ---- the cache ------------------------------------------------------------------------------- */

/* The scale of a cache's elements of head h: one, or of [heads, 1, size]; NULL: none. */
static Node *
page_scale(Module *m, Node *scale, Node *h, Node *e)
{
	if (!scale)
		return NULL;
	return rank_of(scale) == 3 ? x_read(m, scale, (Node *[]){h, x_idx(m, 0), e})
		: scalar_arg(m, scale);
}

static Node *
page_code(Module *m, Node *v, Node *scale, DType d)
{
	if (!scale)
		return x_cast(m, d, v);
	v = x2(m, O_DIV, x_cast(m, DT_F32, v), scale);
	if (dt_float(d))
		return x_cast(m, d, v);
	v = x_min(m, x_max(m, x1(m, O_RINT, v), x_flt(m, DT_F32, -128)), x_flt(m, DT_F32, 127));
	return x_cast(m, d, x_cast(m, DT_I32, v));
}

/* Where token t's key goes: a place of all pages' places, or -1. */
static Node *
token_slot(Module *m, const Pages *p, Node *t)
{
	Node *n, *j, *page;

	if (p->slots)
		return value_of(m, p->slots, t);
	n = x2(m, O_BOUND, value_of(m, p->seq, t), dim_of(p->past, 0));
	j = x_add(m, value_of(m, p->past, n), x_sub(m, t, value_of(m, p->ends, n)));
	page = x2(m, O_BOUND, x_fdiv(m, j, p->block), dim_of(p->table, 1));
	page = x_cast(m, DT_INDEX, x_read(m, p->table, (Node *[]){n, page}));
	return x_add(m, x_mul(m, page, p->block), x_mod(m, j, p->block));
}

/* The cache [pages, block, heads, size] with the new keys or values [sequences, heads, L, size]. */
static Node *
with_new(Module *m, const Pages *p, Node *cache, Node *new, Node *scale)
{
	Node *ax[3], *idx[4], *at[4], *slot, *n;

	axes_new(m, 3, (Node *[]){p->tokens, dim_of(new, 1), dim_of(new, 3)}, ax);
	n = x2(m, O_BOUND, value_of(m, p->seq, ax[0]), dim_of(p->past, 0));
	at[0] = n;
	at[1] = ax[1];
	at[2] = x2(m, O_BOUND, x_sub(m, ax[0], value_of(m, p->ends, n)), dim_of(new, 2));
	at[3] = ax[2];
	slot = token_slot(m, p, ax[0]);
	idx[0] = x2(m, O_BOUND, x_fdiv(m, slot, p->block), dim_of(cache, 0));
	idx[1] = x_mod(m, slot, p->block);
	idx[2] = ax[1];
	idx[3] = ax[2];
	return t_distinct(m, t_scatter(m, COMB_SET, cache, 3, ax, idx,
		page_code(m, x_read(m, new, at), page_scale(m, scale, ax[1], ax[2]), dtype_of(cache)),
		x_le(m, x_idx(m, 0), slot)));
}

/* The keys of each sequence, `size` elements each: [sequences, heads, keys, size]. */
static Node *
from_pages(Module *m, const Pages *p, Node *cache, Node *scale, Node *size, DType d)
{
	Node *ax[4], *at[4], *page, *e, *s, *total;

	axes_new(m, 4, (Node *[]){dim_of(p->past, 0), dim_of(cache, 2), p->keys, size}, ax);
	page = x2(m, O_BOUND, x_fdiv(m, ax[2], p->block), dim_of(p->table, 1));
	page = x_cast(m, DT_INDEX, x_read(m, p->table, (Node *[]){ax[0], page}));
	at[0] = x2(m, O_BOUND, page, dim_of(cache, 0));
	at[1] = x_mod(m, ax[2], p->block);
	at[2] = ax[1];
	at[3] = ax[3];
	e = x_read(m, cache, at);
	s = page_scale(m, scale, ax[1], ax[3]);
	e = s ? x_cast(m, d, x_mul(m, x_cast(m, DT_F32, e), s)) : x_cast(m, d, e);
	total = x_add(m, value_of(m, p->past, ax[0]), value_of(m, p->lens, ax[0]));
	return t_tensor(m, 4, ax, x_select(m, x_lt(m, ax[2], total), e, x_int(m, d, 0)));
}

/* ---- masks ----------------------------------------------------------------------------------- */

static Node *
paged_bias(Att *a, Node *n, Node *h, Node *i, Node *j)
{
	Module *m = a->b->m;
	Pages *g = a->arg;
	DType d = dtype_of(a->q);
	Node *past = value_of(m, g->past, n), *len = value_of(m, g->lens, n), *p = x_add(m, past, i),
		*ok, *in = x_lt(m, j, x_add(m, past, len));

	(void)h;
	if (g->more)
		in = x_select(m, x_lt(m, j, g->keys), in,
			x_lt(m, x_sub(m, j, g->keys), value_of(m, g->more, n)));
	if (g->selected)
		ok = selected_key(m, g->selected, row_of(m, g, n, i), p, j);
	else {
		ok = g->causal ? x_le(m, j, p) : x_bool(m, true);
		if (g->window >= 0)
			ok = x_and(m, ok, x_lt(m, x_addi(m, p, -g->window), j));
	}
	ok = x_and(m, x_and(m, in, x_lt(m, i, len)), ok);
	return x_select(m, ok, x_int(m, d, 0), x_flt(m, d, -INFINITY));
}

static Node *
paged_sink(Att *a, Node *h)
{
	return x_read(a->b->m, ((Pages *)a->arg)->sinks, &h);
}

/* ---- the operators --------------------------------------------------------------------------- */

/* Operands' places that the two operators number differently. */
typedef struct Places { int slots, cos, sink, norm, scale; } Places;

/* A cache's element type needs a scale, or must be the query's. */
static bool
page_type(Build *b, Node *cache, Node *scale, const char *kind_attr, const char *type_attr)
{
	const char *kind = attr_str(b, kind_attr), *type = type_attr ? attr_str(b, type_attr) : "";
	DType d = dtype_of(cache);
	bool same = d == dtype_of(b->in[0]);

	if (rank_of(cache) != 4)
		return fail(b, "a cache has %d dimensions, must have 4", rank_of(cache)) != NULL;
	if (d == DT_U8 || strcmp(type, "int4") == 0 || strcmp(type, "float4e2m1") == 0)
		return unsupported(b, "caches of 4-bit numbers") != NULL;
	if (same != (strcmp(kind, "NONE") == 0) || (!same && d != DT_I8 && d != DT_F8E4M3FN))
		return fail(b, "%s is \"%s\" for a cache of type %s", kind_attr, kind,
			dtypes[d].text) != NULL;
	if (!same && !scale)
		return fail(b, "a cache of type %s needs a scale", dtypes[d].text) != NULL;
	if (scale && rank_of(scale) == 3)
		expect_shape(b, "the scale of a cache", scale, 3,
			(Node *[]){dim_of(cache, 2), x_idx(b->m, 1), dim_of(cache, 3)});
	return true;
}

static bool
paged_args(Build *b, Pages *p, const Places *at)
{
	Module *m = b->m;
	Node **in = b->in, *B;
	int i;

	*p = (Pages){.ends = in[5], .past = in[6], .table = in[7], .slots = in[at->slots],
		.sinks = in[at->sink], .tokens = dim_of(in[0], 0),
		.window = attr_int(b, "local_window_size"), .causal = attr_int(b, "is_causal") != 0};
	for (i = 0; i < 3; i++)
		if (in[i] && rank_of(in[i]) != 2)
			return fail(b, "operand %d has %d dimensions, must have 2", i, rank_of(in[i])) != NULL;
	if (rank_of(p->ends) != 1 || rank_of(p->past) != 1 || rank_of(p->table) != 2
	 || (p->slots && rank_of(p->slots) != 1) || (p->sinks && rank_of(p->sinks) != 1))
		return fail(b, "lengths, slots or the table of pages have unfit dimensions") != NULL;
	B = dim_of(p->past, 0);
	expect_dim(b, "cumulative_sequence_length", dim_of(p->ends, 0), x_addi(m, B, 1), false);
	expect_dim(b, "block_table", dim_of(p->table, 0), B, false);
	if (p->slots)
		expect_dim(b, "slot_mapping", dim_of(p->slots, 0), p->tokens, false);
	sequences(m, p);
	return true;
}

/* Queries, and the new keys and values; *size: of a head's keys. */
static bool
paged_operands(Build *b, Pages *p, Att *a, bool latent, Node **size)
{
	Module *m = b->m;
	Node **in = b->in, *zero = x_idx(m, 0), *L = most(m, p, false), *columns = dim_of(in[0], 1);
	int64_t heads = head_count(b, "num_heads"), kv = heads ? head_count(b, "kv_num_heads") : 0, n;

	if (!heads || !kv)
		return false;
	if (latent ? !in[1] || in[2] || kv != 1 : !in[1] != !in[2])
		return fail(b, latent ? "a latent cache needs a key, no value, and kv_num_heads of 1"
			: "key and value must be given together") != NULL;
	n = in[1] ? heads : heads + 2 * kv;
	*size = x_fdiv(m, columns, x_idx(m, n));
	require(m, x_eq(m, x_muli(m, *size, n), columns), b->loc, "%s columns for %lld heads",
		expr_print(m, columns), (long long)heads);
	for (int i = 1; i < 3; i++)
		if (in[i])
			expect_shape(b, "key or value", in[i], 2,
				(Node *[]){p->tokens, x_muli(m, *size, kv)});
	a->q = paged_heads(m, p, in[0], heads, zero, *size, L);
	a->k = paged_heads(m, p, in[1] ? in[1] : in[0], kv, in[1] ? zero : x_muli(m, *size, heads),
		*size, L);
	if (!latent)
		a->v = paged_heads(m, p, in[2] ? in[2] : in[0], kv,
			in[2] ? zero : x_muli(m, *size, heads + kv), *size, L);
	for (int i = 3; i < (latent ? 4 : 5); i++)
		expect_shape(b, "a cache", in[i], 4,
			(Node *[]){dim_of(in[3], 0), dim_of(in[3], 1), x_idx(m, kv), *size});
	if (p->sinks)
		expect_dim(b, "head_sink", dim_of(p->sinks, 0), x_idx(m, heads), false);
	return true;
}

/* The rows of the tokens, [tokens, heads * size]. */
static Node *
paged_rows(Att *a, const Pages *p)
{
	Module *m = a->b->m;
	Node *y = join_heads(m, a, true), *ax[2], *at[3];

	axes_new(m, 2, (Node *[]){p->tokens, dim_of(y, 2)}, ax);
	at[0] = x2(m, O_BOUND, value_of(m, p->seq, ax[0]), dim_of(p->past, 0));
	at[1] = x2(m, O_BOUND, x_sub(m, ax[0], value_of(m, p->ends, at[0])), dim_of(y, 1));
	at[2] = ax[1];
	return t_tensor(m, 2, ax, x_read(m, y, at));
}

/* out: the caches; a's keys and values become those of the sequences. vsize NULL: as keys'. */
static bool
paged_caches(Build *b, Pages *p, Att *a, const Places *at, Node *size, Node *vsize, Node **out)
{
	Module *m = b->m;
	Node **in = b->in, **scale = in + at->scale;
	DType d = dtype_of(in[0]);

	if (!norm_heads(b, in[at->norm], in[at->norm + 1], a))
		return false;
	if (attr_int(b, "do_rotary") && !paged_rotary(b, p, a, in[at->cos], in[at->cos + 1]))
		return false;
	p->block = dim_of(in[3], 1);
	p->keys = most(m, p, true);
	out[0] = with_new(m, p, in[3], a->k, scale[0]);
	a->k = from_pages(m, p, out[0], scale[0], size, d);
	out[1] = vsize ? NULL : with_new(m, p, in[4], a->v, scale[1]);
	a->v = vsize ? from_pages(m, p, out[0], scale[0], vsize, d)
		: from_pages(m, p, out[1], scale[1], size, d);
	return true;
}

static Node *
build_paged_attention(Build *b)
{
	static const Places at = {.slots = 10, .cos = 8, .sink = 11, .norm = 12, .scale = 14};
	const char *layout = attr_str(b, "kv_cache_layout");
	bool latent = strcmp(layout, "LATENT") == 0;
	int64_t narrow = attr_int(b, "v_head_size");
	Module *m = b->m;
	Node **in = b->in, *size, *vsize = NULL, *out[3];
	Att a = {.b = b, .softmax = acc_type(dtype_of(in[0])), .scale = attr_float(b, "scale"),
		.softcap = attr_float(b, "softcap"), .bias = paged_bias, .guards = true};
	Pages p;

	if (!latent && strcmp(layout, "SEPARATE"))
		return fail(b, "kv_cache_layout is \"%s\"", layout);
	if ((latent ? in[4] != NULL : !in[4]) || narrow < 0 || (narrow && !latent))
		return fail(b, "value_cache or v_head_size do not fit the layout \"%s\"", layout);
	if (!page_type(b, in[3], in[14], "k_quant_type", "k_cache_dtype")
	 || (in[4] && !page_type(b, in[4], in[15], "v_quant_type", "v_cache_dtype")))
		return NULL;
	if (!paged_args(b, &p, &at) || !paged_operands(b, &p, &a, latent, &size))
		return NULL;
	if (latent) {
		vsize = narrow ? x_idx(m, narrow) : size;
		require(m, x_le(m, vsize, size), b->loc, "values of %s elements in keys of %s",
			expr_print(m, vsize), expr_print(m, size));
		if (narrow && a.scale == 0)
			require(m, x_eq(m, vsize, size), b->loc, "scale must be given with v_head_size");
	}
	a.arg = &p;
	a.sink = p.sinks ? paged_sink : NULL;
	if (!paged_caches(b, &p, &a, &at, size, vsize, out + 1) || !attention(&a))
		return NULL;
	out[0] = paged_rows(&a, &p);
	return t_tuple(m, 3, out);
}

/* Keys [sequences, places, heads or 1, size] as [sequences, heads, places, size]. */
static Node *
auxiliary_heads(Build *b, Node *x, Node *like)
{
	Module *m = b->m;
	Node *ax[4], *at[4];

	expect_dim(b, "auxiliary keys", dim_of(x, 0), dim_of(like, 0), false);
	expect_dim(b, "auxiliary keys", dim_of(x, 2), dim_of(like, 1), true);
	expect_dim(b, "auxiliary keys", dim_of(x, 3), dim_of(like, 3), false);
	axes_new(m, 4, (Node *[]){dim_of(x, 0), dim_of(like, 1), dim_of(x, 1), dim_of(x, 3)}, ax);
	at[0] = ax[0];
	at[1] = ax[2];
	at[2] = x_stretched(m, dim_of(x, 2), ax[1]);
	at[3] = ax[3];
	return t_tensor(m, 4, ax, x_read(m, x, at));
}

static bool
auxiliary_keys(Build *b, Pages *p, Att *a)
{
	Node **in = b->in, *v = in[12];

	if (rank_of(in[11]) != 4 || (v && rank_of(v) != 4) || (in[13] && rank_of(in[13]) != 1))
		return fail(b, "auxiliary keys, values or lengths have unfit dimensions") != NULL;
	if (!v && !attr_int(b, "auxiliary_kv_shared"))
		return fail(b, "there is no auxiliary_value") != NULL;
	if (in[13])
		expect_dim(b, "auxiliary_lengths", dim_of(in[13], 0), dim_of(p->past, 0), false);
	p->more = in[13];
	if (!p->more) {
		Node *n = x_axis(b->m, dim_of(p->past, 0));
		p->more = t_tensor(b->m, 1, &n, x_cast(b->m, DT_I32, dim_of(in[11], 1)));
	}
	a->k = append(b->m, a->k, auxiliary_heads(b, in[11], a->k), b->loc);
	a->v = append(b->m, a->v, auxiliary_heads(b, v ? v : in[11], a->v), b->loc);
	return true;
}

static Node *
build_sparse_paged(Build *b)
{
	static const Places at = {.slots = 8, .cos = 14, .sink = 16, .norm = 17, .scale = 19};
	Module *m = b->m;
	Node **in = b->in, *size, *out[3];
	Att a = {.b = b, .softmax = acc_type(dtype_of(in[0])), .scale = attr_float(b, "scale"),
		.softcap = attr_float(b, "softcap"), .bias = paged_bias, .guards = true};
	Selected chosen = {0};
	Pages p;

	if (strcmp(attr_str(b, "auxiliary_cache_layout"), "contiguous"))
		return fail(b, "auxiliary_cache_layout must be contiguous");
	if (!page_type(b, in[3], in[19], "k_quant_type", NULL)
	 || !page_type(b, in[4], in[20], "v_quant_type", NULL) || !paged_args(b, &p, &at)
	 || !paged_operands(b, &p, &a, false, &size))
		return NULL;
	a.arg = &p;
	a.sink = p.sinks ? paged_sink : NULL;
	if (!paged_caches(b, &p, &a, &at, size, NULL, out + 1))
		return NULL;
	chosen.main = p.keys;
	if (!selected_args(b, &chosen, in[9], in[10], p.tokens,
		in[11] && rank_of(in[11]) == 4 ? dim_of(in[11], 1) : NULL))
		return NULL;
	p.selected = &chosen;
	if ((chosen.local && !auxiliary_keys(b, &p, &a)) || !attention(&a))
		return NULL;
	out[0] = paged_rows(&a, &p);
	return t_tuple(m, 3, out);
}

const Op ops_contrib_paged[] = {
	BUILD("paged_attention", MS("PagedAttention"), 1,
		"(q: float, k: q?, v: q?, key_cache: float|i8|u8, value_cache: float|i8|u8?, ends: i32,"
		" past: i32, block_table: i32, cos: q?, sin: q?, slots: i32?, head_sink: q?, q_norm: q?,"
		" k_norm: q?, k_scale: f32?, v_scale: f32?, metadata: i32?) {do_rotary: int = 0,"
		" is_causal: int = 1, k_cache_dtype: str = \"\", k_quant_type: str = \"NONE\","
		" kv_cache_layout: str = \"SEPARATE\", kv_num_heads: int, local_window_size: int = -1,"
		" num_heads: int, qk_norm_epsilon: float = 1e-6, rotary_interleaved: int = 0,"
		" rotary_offset: int = 0, scale: float = 0, softcap: float = 0,"
		" v_cache_dtype: str = \"\", v_head_size: int = 0, v_quant_type: str = \"NONE\"}"
		" -> y, key_cache_out?, value_cache_out?", build_paged_attention,
		"attention of packed rows with a cache in pages"),
	BUILD("sparse_paged_attention", MS("SparsePagedAttention"), 1,
		"(q: float, k: q?, v: q?, key_cache: float|i8, value_cache: float|i8, ends: i32,"
		" past: i32, block_table: i32, slots: i32?, indices: i32, counts: i32,"
		" auxiliary_key: q?, auxiliary_value: q?, auxiliary_lengths: i32?, cos: q?, sin: q?,"
		" head_sink: q?, q_norm: q?, k_norm: q?, k_scale: f32?, v_scale: f32?, metadata: i32?)"
		" {attention_mode: str = \"selected_only\", auxiliary_cache_layout: str = \"contiguous\","
		" auxiliary_kv_shared: int = 0, do_rotary: int = 0, is_causal: int = 1,"
		" k_quant_type: str = \"NONE\", kv_num_heads: int, local_window_size: int = -1,"
		" num_heads: int, qk_norm_epsilon: float = 1e-6, rotary_interleaved: int = 0,"
		" rotary_offset: int = 0, scale: float = 0, selected_kv_source: str = \"main\","
		" softcap: float = 0, v_quant_type: str = \"NONE\"}"
		" -> y, key_cache_out?, value_cache_out?", build_sparse_paged,
		"attention of packed rows to selected keys of a cache in pages"),
	{0}
};
