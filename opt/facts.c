/*
 * What conditions and replacements of rules can ask and make beside operators, as calls in their
 * text: a row of `facts` each. They are asked of what a pattern's names stand for.
 */
#include <math.h>
#include <string.h>
#include "rules.h"

static Value node_value(Node *n) { return (Value){.k = n ? V_NODE : V_NONE, .n = n}; }
static Value int_value(int64_t i) { return (Value){.k = V_INT, .i = i, .f = (double)i}; }
static DType type_of(const Value *v) { return dtype_of(v->n); }

/* ---- constants ------------------------------------------------------------------------------ */

/* Do all elements pass? Only what has one value or stands in memory can tell. */
static bool
all_elements(const Node *n, bool (*ok)(DType, Num))
{
	const Node *d = definition((Node *)n);
	DType t = dtype_of(n);
	int64_t k;
	Num v;

	if (uniform_value(n, &v))
		return ok(t, v);
	for (k = 0; d->code == O_CONST && dt_number(t) && k < d->data->count; k++)
		if (!ok(t, data_get(d->data, t, k)))
			return false;
	return d->code == O_CONST && dt_number(t);
}

/* Plus or minus a power of two whose reciprocal is a normal number. */
static bool
is_power(DType t, Num v)
{
	int e, limit = t == DT_F16 ? 14 : 126;

	return dt_float(t) && fabs(frexp(v.f, &e)) == 0.5 && e - 1 <= limit && 1 - e <= limit;
}

/* Far from overflow and underflow. */
static bool
is_tame(DType t, Num v)
{
	double limit = t == DT_F16 ? 256 : 0x1p60;

	return dt_float(t) && fabs(v.f) <= limit && fabs(v.f) >= 1 / limit;
}

static bool
is_natural(DType t, Num v)
{
	return dt_int(t) && v.i >= 0;
}

/* The elements of a constant integer list as places among rank axes: their mask, 0 if one is twice
 * or outside, or if it is no such list. */
static uint64_t
axes_of(const Node *list, int rank)
{
	const Node *d = definition((Node *)list);
	uint64_t mask = 0;
	int64_t k, v;

	if (d->code != O_CONST || !dt_int(dtype_of(d)))
		return 0;
	for (k = 0; k < d->data->count; k++) {
		v = data_get(d->data, dtype_of(d), k).i;
		v += v < 0 ? rank : 0;
		if (v < 0 || v >= rank || mask >> v & 1)
			return 0;
		mask |= (uint64_t)1 << v;
	}
	return mask;
}

/* ---- the facts ------------------------------------------------------------------------------ */

static Value
known(Asked *a, const Value *v)
{
	return int_value(graph_known(a->graph, v[0].n));
}

static Value
uniform(Asked *a, const Value *v)
{
	Num num;

	(void)a;
	return int_value(uniform_value(v[0].n, &num));
}

static Value
value(Asked *a, const Value *v)
{
	Num num;

	(void)a;
	if (!uniform_value(v[0].n, &num))
		return (Value){0};
	return dt_float(type_of(v)) ? (Value){.k = V_FLT, .f = num.f} : int_value(num.i);
}

static Value
pow2(Asked *a, const Value *v)
{
	(void)a;
	return int_value(all_elements(v[0].n, is_power));
}

static Value
tame(Asked *a, const Value *v)
{
	(void)a;
	return int_value(all_elements(v[0].n, is_tame));
}

static Value
natural(Asked *a, const Value *v)
{
	(void)a;
	return int_value(all_elements(v[0].n, is_natural));
}

static Value
integer(Asked *a, const Value *v)
{
	(void)a;
	return int_value(dt_int(dtype_of_onnx((int)v[0].i)));
}

static int
mantissa(DType t)
{
	return t == DT_F64 ? 53 : t == DT_F32 ? 24 : t == DT_F16 ? 11 : t == DT_BF16 ? 8 : 0;
}

static bool
holds_type(DType w, DType t)
{
	int bits = dtypes[t].bits - dt_signed(t);        /* of an integer's magnitude */

	if (w == t || t == DT_BOOL)
		return w == t || dt_int(w) || mantissa(w);
	if (dt_int(t) && dt_int(w))
		return dtypes[w].bits - dt_signed(w) >= bits && (dt_signed(w) || !dt_signed(t));
	if (dt_int(t))
		return bits <= mantissa(w);
	return (w == DT_F64 && mantissa(t)) || (w == DT_F32 && (t == DT_F16 || t == DT_BF16));
}

static Value
holds(Asked *a, const Value *v)
{
	(void)a;
	return int_value(holds_type(dtype_of_onnx((int)v[1].i), type_of(v)));
}

static Value
dim(Asked *a, const Value *v)
{
	int64_t n;

	(void)a;
	if (v[1].i < 0 || v[1].i >= rank_of(v[0].n) || !is_int(dim_of(v[0].n, (int)v[1].i), &n))
		return int_value(-1);
	return int_value(n);
}

static Value
along(Asked *a, const Value *v)
{
	const Node *s = v[0].n, *y = v[1].n;
	int64_t axis = v[2].i < 0 ? v[2].i + rank_of(y) : v[2].i;
	int i, off = rank_of(y) - rank_of(s);

	(void)a;
	for (i = 0; i < rank_of(s) && off >= 0; i++)
		if (!is_intv(dim_of(s, i), 1)
		 && (off + i != axis || dim_of(s, i) != dim_of(y, off + i)))
			return int_value(false);
	return int_value(off >= 0);
}

static Value
stored(Asked *a, const Value *v)
{
	Num num;

	return int_value(graph_uses(a->graph, v[0].n) <= 1 && !uniform_value(v[0].n, &num));
}

static Value
nested(Asked *a, const Value *v)
{
	int64_t x[MAX_RANK], y[MAX_RANK], p, q, nx = 1, ny = 1, both = 1;
	int i, rx = rank_of(v[0].n), ry = rank_of(v[1].n);

	(void)a;
	if (!const_dims(v[0].n, x) || !const_dims(v[1].n, y))
		return int_value(false);
	for (i = 1; i <= rx || i <= ry; i++) {
		p = i <= rx ? x[rx - i] : 1;
		q = i <= ry ? y[ry - i] : 1;
		nx = sat_mul(nx, p);
		ny = sat_mul(ny, q);
		both = sat_mul(both, p == 1 ? q : p);
	}
	return int_value(both <= nx || both <= ny);
}

static Value
spread(Asked *a, const Value *v)
{
	const Node *y = v[0].n, *x = v[1].n;
	int last = rank_of(x) - 1;

	(void)a;
	if (last < 0 || is_intv(dim_of(x, last), 1) || rank_of(y) > rank_of(x))
		return int_value(false);
	return int_value(rank_of(y) == 0 || is_intv(dim_of(y, rank_of(y) - 1), 1));
}

static Value
apart(Asked *a, const Value *v)
{
	int rank = rank_of(v[2].n);
	uint64_t x = axes_of(v[0].n, rank), y = axes_of(v[1].n, rank);

	(void)a;
	return int_value(x && y && !(x & y));
}

static Value
plain(Asked *a, const Value *v)
{
	const Attr *x = attr_find(v[0].attrs, "alpha"), *y = attr_find(v[0].attrs, "beta");

	(void)a;
	return int_value((!x || x->f == 1) && (!y || y->f == 1));
}

static Value
after(Asked *a, const Value *v)
{
	int64_t *r = NEWN(a->build.m, int64_t, v[1].count + 1);
	int i;

	if (v[0].k != V_INTS || v[1].k != V_INTS || v[0].count != v[1].count)
		return (Value){0};
	for (i = 0; i < v[1].count; i++) {
		if (v[1].is[i] < 0 || v[1].is[i] >= v[0].count)
			return (Value){0};
		r[i] = v[0].is[v[1].is[i]];
	}
	return (Value){.k = V_INTS, .count = v[1].count, .is = r};
}

static Value
column(Asked *a, const Value *v)
{
	int64_t dims[MAX_RANK] = {-1}, k;
	Node *in[2] = {v[0].n};

	for (k = 1; k < v[1].i && k < MAX_RANK; k++)
		dims[k] = 1;
	in[1] = t_ints(a->build.m, (int)k, dims);
	return node_value(call(&a->build, "reshape", 2, in, NULL));
}

static Value
grouped(Asked *a, const Value *v)
{
	const Node *r = v[0].n, *x = v[1].n;
	int64_t groups, channels;

	(void)a;
	if (rank_of(r) != 3 || rank_of(x) < 3 || dim_of(r, 0) != dim_of(x, 0)
	 || !is_int(dim_of(r, 1), &groups) || !is_int(dim_of(x, 1), &channels) || groups < 1
	 || channels % groups)
		return int_value(0);
	return int_value(channels / groups);
}

static Value
pads(Asked *a, const Value *v)
{
	const Node *d = definition(v[0].n);
	int rank = d->code == O_CONST && dt_int(dtype_of(d)) ? (int)(d->data->count / 2) : 0;
	int n = rank - 2, i, at;
	int64_t *r = NEWN(a->build.m, int64_t, rank * 2 + 1), p;

	if (rank < 3 || (v[1].k == V_INTS && v[1].count != 2 * n))
		return (Value){0};
	for (i = 0; i < 2 * rank; i++) {
		p = data_get(d->data, dtype_of(d), i).i;
		if (i % rank < 2 && p)
			return (Value){0};
		if (i % rank < 2)
			continue;
		at = i / rank * n + i % rank - 2;
		r[at] = sat_add(p, v[1].k == V_INTS ? v[1].is[at] : 0);
	}
	return (Value){.k = V_INTS, .count = 2 * n, .is = r};
}

/*
 * name, what its arguments are (n a node, b an attribute or number), function, what it says. Of no
 * value where it has no answer.
 */
static const struct Fact {
	const char *name, *args;
	Value (*of)(Asked *, const Value *);
	const char *doc;
} facts[] = {
	{"known",   "n",   known,   "does it depend on constants alone?"},
	{"uniform", "n",   uniform, "have all elements one value, known now?"},
	{"value",   "n",   value,   "that value"},
	{"pow2",    "n",   pow2,    "are all elements powers of two, or minus such?"},
	{"tame",    "n",   tame,    "is no element near overflow or underflow?"},
	{"natural", "n",   natural, "is it a constant of integers, none negative?"},
	{"integer", "b",   integer, "is the type an integer's?"},
	{"holds",   "nb",  holds,   "is every value of x's type one of the type's?"},
	{"dim",     "nb",  dim,     "the extent of an axis, -1 if not known now"},
	{"along",   "nnb", along,   "does it, broadcast to y, vary along this axis of y alone?"},
	{"spread",  "nn",  spread,  "is it broadcast along the last axis of x?"},
	{"stored",  "n",   stored,  "does a constant stand in memory for this use alone?"},
	{"nested",  "nn",  nested,  "are they together no larger than one of them?"},
	{"apart",   "nnn", apart,   "do two constant lists name axes of x, none twice?"},
	{"plain",   "b",   plain,   "are alpha and beta, where they are attributes, 1?"},
	{"after",   "bb",  after,   "the permutation of transpose(transpose(., q), p)"},
	{"column",  "nb",  column,  "its elements as [elements, 1, ...] of rank k"},
	{"grouped", "nn",  grouped, "r is x with channels in groups, as [n, groups, rest]: of how many; else 0"},
	{"pads",    "nb",  pads,    "a convolution's pads and those of a Pad's list before it"},
	{0}
};

static bool
args_fit(const char *args, int n, const Value *v)
{
	int i;

	for (i = 0; i < n && args[i]; i++)
		if (args[i] == 'n' && (v[i].k != V_NODE || v[i].n->type->kind != T_TENSOR))
			return false;
	return i == n && !args[i];
}

bool
fact(Build *b, const char *name, size_t len, int n, const Value *v, Value *r)
{
	const struct Fact *f;

	for (f = facts; f->name; f++)
		if (strlen(f->name) == len && memcmp(f->name, name, len) == 0
		 && args_fit(f->args, n, v)) {
			*r = f->of((Asked *)b, v);
			return true;
		}
	return false;
}
