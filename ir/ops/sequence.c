/*
 * Sequences and optionals. Where the elements are known (`seq`), what is done with them is resolved
 * when the node is made, and nothing of it is left at run time. Slices of one tensor stay that
 * tensor. All other values are held by the runtime (abi.h) and changed by its routines; what a node
 * says of their elements' sizes is a promise that is checked where an element is taken out.
 */
#include <string.h>
#include "ops.h"

enum { MAX_STATIC = 64 };        /* parts of a split that become elements of their own */

Node *
seq_value(Module *m, const Type *type, int n, Node *const *elems)
{
	return node_make(m, (Node){.op = core_op(O_SEQ), .type = type, .nin = n, .in = (Node **)elems,
		.loc = m->building});
}

bool
seq_elems(Node *x, int *n, Node ***elems)
{
	Node *d = definition(x);

	if (d->code != O_SEQ)
		return false;
	*n = d->nin;
	*elems = d->in;
	return true;
}

/* The tensor whose slices along the first axis are the sequence; NULL: it is no such sequence. */
static Node *
stacked(Node *x)
{
	Node *d = definition(x);

	return d->code == O_HOST && !strcmp(d->name, "seq_split") && attr_find(d->attrs, "stack")
		? d->in[0]
		: NULL;
}

Node *
seq_unstack(Module *m, Node *t)
{
	Node *d[MAX_RANK], *in[2] = {t, t_ints(m, 1, (int64_t[]){1})};
	const Attr *attrs = attrs_add(m, NULL,
		(Attr){.name = "args", .kind = A_STR, .s = "d 0 #0 #0 1 #-1 R0"});
	const Type *elem;
	int i;

	for (i = 1; i < rank_of(t); i++)
		d[i - 1] = dim_of(t, i);
	elem = ty_element(m, ty_tensor(m, dtype_of(t), rank_of(t) - 1, d));
	return node_make(m, (Node){.op = core_op(O_HOST), .type = ty_of(m, T_SEQ, DT_NONE, elem),
		.nin = 2, .in = in, .attrs = attrs_add(m, attrs,
		(Attr){.name = "stack", .kind = A_INT, .i = 1}),
		.name = intern(m, "seq_split"), .loc = m->building});
}

Node *
seq_append(Module *m, Node *seq, Node *t)
{
	const Type *old = seq->type->elem[0], *new = ty_element(m, t->type);
	Node **e, **all;
	int n;

	if (seq_elems(seq, &n, &e)) {
		new = ty_join(m, old, new);
		all = NEWN(m, Node *, n + 1);
		memcpy(all, e, sizeof *e * (size_t)n);
		all[n] = t;
		return seq_value(m, ty_of(m, T_SEQ, DT_NONE, new), n + 1, all);
	}
	return t_host(m, "seq_insert", arena_printf(m->arena, "d 0 #%lld 1 R1", (long long)INT64_MAX),
		ty_of(m, T_SEQ, DT_NONE, ty_join(m, old, new)), 2, (Node *[]){seq, t});
}

/* ---- construction ---------------------------------------------------------------------------- */

static Node *
build_empty(Build *b)
{
	DType d = dtype_of_onnx((int)attr_int(b, "dtype"));

	if (d == DT_NONE)
		return fail(b, "dtype %lld is no type", (long long)attr_int(b, "dtype"));
	return seq_value(b->m, ty_of(b->m, T_SEQ, DT_NONE, ty_tensor(b->m, d, -2, NULL)), 0, NULL);
}

static Node *
build_construct(Build *b)
{
	const Type *t = NULL, *e;
	int i, n = b->nin;

	while (n > 1 && !b->in[n - 1])
		n--;
	for (i = 0; i < n; i++) {
		if (!b->in[i])
			return fail(b, "element %d is left out", i);
		e = ty_element(b->m, b->in[i]->type);
		t = t ? ty_join(b->m, t, e) : e;
		if (!t || e->kind != T_TENSOR)
			return fail(b, "the elements are of different types");
	}
	return seq_value(b->m, ty_of(b->m, T_SEQ, DT_NONE, t), n, b->in);
}

/* A position that is known: in [0, end], counted from the end when negative. *known tells if so. */
static bool
position(Build *b, Node *operand, int64_t none, int64_t n, int64_t end, bool *known, int64_t *at)
{
	*at = none;
	*known = !operand || is_int(scalar_arg(b->m, operand), at);
	if (!*known)
		return true;
	if (*at < -n || *at > end) {
		fail(b, "position %lld is outside of a sequence of %lld", (long long)*at, (long long)n);
		return false;
	}
	*at += *at < 0 ? n : 0;
	return true;
}

static Node *
build_insert(Build *b)
{
	Module *m = b->m;
	Node *seq = b->in[0], *t = b->in[1], **e, **all;
	const Type *new = ty_join(m, seq->type->elem[0], ty_element(m, t->type));
	int64_t at;
	bool known;
	int n;

	if (!new)
		return fail(b, "the tensor is %s, the sequence's elements are not",
			dtypes[dtype_of(t)].text);
	if (seq_elems(seq, &n, &e)) {
		if (!position(b, b->in[2], n, n, n, &known, &at))
			return NULL;
		if (known) {
			all = NEWN(m, Node *, n + 1);
			memcpy(all, e, sizeof *e * (size_t)at);
			all[at] = t;
			memcpy(all + at + 1, e + at, sizeof *e * (size_t)(n - at));
			return seq_value(m, ty_of(m, T_SEQ, DT_NONE, new), n + 1, all);
		}
	}
	if (!b->in[2])
		return seq_append(m, seq, t);
	return t_host(m, "seq_insert", "d 0 =2 1 R1", ty_of(m, T_SEQ, DT_NONE, new), 3,
		(Node *[]){seq, t, b->in[2]});
}

static Node *
build_erase(Build *b)
{
	Module *m = b->m;
	Node *seq = b->in[0], **e, **all;
	int64_t at;
	bool known;
	int n;

	if (seq_elems(seq, &n, &e)) {
		if (!position(b, b->in[1], n - 1, n, n - 1, &known, &at))
			return NULL;
		if (known) {
			all = NEWN(m, Node *, n);
			memcpy(all, e, sizeof *e * (size_t)at);
			memcpy(all + at, e + at + 1, sizeof *e * (size_t)(n - 1 - at));
			return seq_value(m, seq->type, n - 1, all);
		}
	}
	if (!b->in[1])
		return t_host(m, "seq_erase", "d 0 #-1", seq->type, 1, &seq);
	return t_host(m, "seq_erase", "d 0 =1", seq->type, 2, (Node *[]){seq, b->in[1]});
}

/* ---- elements -------------------------------------------------------------------------------- */

/*
 * The tensor that routine `get` finds in a value, with the sizes that routine `shape` tells where
 * the type does not. extra: an operand both need, or NULL.
 */
static Node *
taken(Build *b, const char *shape, const char *shape_args, const char *get, const char *args,
	const Type *t, Node *value, Node *extra)
{
	Module *m = b->m;
	Node *in[3] = {value, extra, NULL}, *dims[MAX_RANK], *sizes,
		*len = x_idx(m, t->rank < 0 ? 0 : t->rank), *at;
	const char *want = arena_printf(m->arena, "%s #%d", shape_args, t->rank);
	int i;

	if (t->rank < 0)
		return unsupported(b,
			"the rank of the elements is not known; declare the shape of the sequence's "
			"elements in the model");
	for (i = 0; i < t->rank; i++)
		want = arena_printf(m->arena, "%s #%lld", want, (long long)t->dims[i]->num.i);
	sizes = t_host(m, shape, want, ty_tensor(m, DT_I64, 1, &len), extra ? 2 : 1, in);
	for (i = 0; i < t->rank; i++) {
		at = x_idx(m, i);
		dims[i] = is_intv(t->dims[i], -1) ? extent(m, x_cast(m, DT_INDEX, x_read(m, sizes, &at)))
			: t->dims[i];
	}
	in[extra ? 2 : 1] = sizes;               /* checked before it is taken */
	return t_host(m, get, args, ty_tensor(m, t->dtype, t->rank, dims), extra ? 3 : 2, in);
}

/* Slice i of x along the first axis. */
static Node *
slice_at(Module *m, Node *x, Node *i)
{
	Node *axes[MAX_RANK], *idx[MAX_RANK];

	idx[0] = x2(m, O_BOUND, wrap_index(m, i, dim_of(x, 0)), dim_of(x, 0));
	axes_new(m, rank_of(x) - 1, x->type->dims + 1, axes);
	memcpy(idx + 1, axes, sizeof *axes * (size_t)(rank_of(x) - 1));
	return t_tensor(m, rank_of(x) - 1, axes, x_read(m, x, idx));
}

/* Element i of those that are all of one type. */
static Node *
choose_elem(Module *m, int n, Node *const *e, Node *i)
{
	Node *axes[MAX_RANK], *count = x_idx(m, n), *body;
	int k;

	i = x2(m, O_BOUND, wrap_index(m, i, count), count);
	axes_new(m, rank_of(e[0]), e[0]->type->dims, axes);
	body = x_read(m, e[n - 1], axes);
	for (k = n - 1; k-- > 0;)
		body = x_select(m, x_eq(m, i, x_idx(m, k)), x_read(m, e[k], axes), body);
	return t_tensor(m, rank_of(e[0]), axes, body);
}

static Node *
build_at(Build *b)
{
	Module *m = b->m;
	Node *seq = b->in[0], **e, *i = x_cast(m, DT_INDEX, scalar_arg(m, b->in[1])), *x = stacked(seq);
	int64_t at;
	bool known, same = true;
	int n, k;

	if (x)
		return slice_at(m, x, i);
	if (seq_elems(seq, &n, &e)) {
		if (!position(b, b->in[1], 0, n, n - 1, &known, &at))
			return NULL;
		if (known)
			return e[at];
		for (k = 1; k < n; k++)
			same &= e[k]->type == e[0]->type;
		if (n && n <= 16 && same)
			return choose_elem(m, n, e, i);
	}
	if (seq->type->elem[0]->kind != T_TENSOR)
		return unsupported(b, "elements that are no tensors");
	return taken(b, "seq_shape", "d 0 =1", "seq_at", "v 0 =1", seq->type->elem[0], seq, b->in[1]);
}

static Node *
build_length(Build *b)
{
	Module *m = b->m;
	Node *x = stacked(b->in[0]), **e;
	int n;

	if (x)
		return t_scalar_expr(m, DT_I64, dim_of(x, 0));
	if (seq_elems(b->in[0], &n, &e))
		return t_scalar(m, DT_I64, (Num){.i = n});
	return t_host(m, "seq_len", "d 0", ty_tensor(m, DT_I64, 0, NULL), 1, b->in);
}

/* ---- splitting and joining ------------------------------------------------------------------- */

/* A sequence of x's parts: `along` elements along the axis,
 * -1: they differ; without it unless keep. */
static const Type *
parts_type(Module *m, Node *x, int axis, bool keep, int64_t along)
{
	Node *dims[MAX_RANK];
	int i, k = 0;

	for (i = 0; i < rank_of(x); i++)
		if (i != axis || keep)
			dims[k++] = i != axis ? dim_of(x, i) : x_idx(m, along);
	return ty_of(m, T_SEQ, DT_NONE, ty_element(m, ty_tensor(m, dtype_of(x), k, dims)));
}

/* n parts as values of their own; sizes lists theirs. */
static Node *
split_known(Build *b, Node *x, Node *sizes, int n, int axis, bool keep, const Type *type)
{
	Module *m = b->m;
	const Attr *attrs = attrs_add(m, NULL, (Attr){.name = "axis", .kind = A_INT, .i = axis});
	Node *r, **parts = NEWN(m, Node *, n + 1), *in[2] = {x, sizes};
	int i;

	r = graph_op(m, op_find("split"), 2, in, attrs, n, 0, NULL, b->loc);
	in[1] = t_ints(m, 1, (int64_t[]){axis});
	for (i = 0; r && i < n; i++) {
		in[0] = parts[i] = t_result(m, r, i);
		if (!keep)
			parts[i] = call(b, "squeeze", 2, in, NULL);
		if (!parts[i])
			return NULL;
	}
	return r ? seq_value(m, type, n, parts) : NULL;
}

/* A list of n sizes that are all `size`, but for the last one. */
static Node *
equal_sizes(Module *m, int64_t n, int64_t size, int64_t dim)
{
	int64_t *sizes = NEWN(m, int64_t, n + 1), i;

	for (i = 0; i < n; i++)
		sizes[i] = i + 1 < n ? size : dim - size * (n - 1);
	return t_ints(m, (int)n, sizes);
}

static Node *
build_split_to_sequence(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *split = b->in[1];
	int axis = axis_attr(b, "axis", rank_of(x));
	int64_t dim, size = 1, n, along;
	bool keep = split || attr_int(b, "keepdims"), lone, one;

	if (axis < 0)
		return NULL;
	if (split && dtype_of(split) != DT_I64 && !(split = call(b, "cast", 1, &split, "to=7")))
		return NULL;
	lone = !split || rank_of(split) == 0;    /* one size for all parts; one: it is known */
	one = lone && (!split || is_int(scalar_arg(m, split), &size));
	if (one && size < 1)
		return fail(b, "parts of %lld elements", (long long)size);
	along = one && size == 1 ? 1 : -1;
	if (!lone && is_int(dim_of(split, 0), &n) && n <= MAX_STATIC)
		return split_known(b, x, split, (int)n, axis, keep, parts_type(m, x, axis, keep, along));
	if (one && is_int(dim_of(x, axis), &dim) && (n = dim / size + (dim % size != 0)) <= MAX_STATIC)
		return split_known(b, x, equal_sizes(m, n, size, dim), (int)n, axis, keep,
			parts_type(m, x, axis, keep, along));
	along = is_intv(dim_of(x, axis), 1) ? 1 : along;
	return t_host(m, "seq_split",
		arena_printf(m->arena, "d 0 #%d #%d 1 %s R0", axis, keep, lone ? "#-1" : "N1"),
		parts_type(m, x, axis, keep, along), 2,
		(Node *[]){x, split ? split : t_ints(m, 1, &size)});
}

/* A stack's first axis moved to where it belongs and, unless it is a new one, merged with the
 * next. */
static Node *
concat_stack(Build *b, Node *x, int axis, bool fresh)
{
	Module *m = b->m;
	Node *dims[MAX_RANK];
	int64_t perm[MAX_RANK];
	int rank = rank_of(x), i, k = 0;

	for (i = 1; i < rank; i++) {
		if (k == axis)
			perm[k++] = 0;
		perm[k++] = i;
	}
	if (k == axis)
		perm[k++] = 0;
	x = graph_op(m, op_find("transpose"), 1, &x,
		attrs_add(m, NULL, (Attr){.name = "perm", .kind = A_INTS, .is = perm, .n = rank}), 1, 0,
		NULL, b->loc);
	if (!x || fresh)
		return x;
	for (i = k = 0; i < rank; i++)
		if (i == axis) {
			dims[k++] = x_mul(m, dim_of(x, i), dim_of(x, i + 1));
			i++;
		} else
			dims[k++] = dim_of(x, i);
	return reshape(m, x, k, dims);
}

static Node *
concat_known(Build *b, int n, Node *const *e, int axis, bool fresh)
{
	Module *m = b->m;
	Node **in = NEWN(m, Node *, n);
	int i;

	for (i = 0; i < n; i++) {
		in[i] = fresh
			? call(b, "unsqueeze", 2, (Node *[]){e[i], t_ints(m, 1, (int64_t[]){axis})}, NULL)
			: e[i];
		if (!in[i])
			return NULL;
	}
	return call(b, "concat", n, in, arena_printf(m->arena, "axis=%d", axis));
}

static Node *
build_concat_from_sequence(Build *b)
{
	Module *m = b->m;
	Node *seq = b->in[0], **e, *x = stacked(seq), *dims[MAX_RANK], *len, *sizes;
	const Type *t = seq->type->elem[0];
	int64_t axis = attr_int(b, "axis"), fresh = attr_int(b, "new_axis");
	int n = 0, i, rank = x ? rank_of(x) - 1 : t->rank;
	bool known = seq_elems(seq, &n, &e);

	if (fresh != 0 && fresh != 1)
		return fail(b, "new_axis is %lld", (long long)fresh);
	if (t->kind != T_TENSOR || (known && n == 0))
		return fail(b, known ? "the sequence is empty" : "the elements are no tensors");
	if (rank < 0)
		return unsupported(b, "the rank of the elements is not known");
	if (rank + fresh < 1 || rank + fresh > MAX_RANK || axis < -rank - fresh || axis >= rank + fresh)
		return fail(b, "axis %lld of elements of %d dimensions", (long long)axis, rank);
	axis += axis < 0 ? rank + fresh : 0;
	if (x)
		return concat_stack(b, x, (int)axis, fresh);
	if (known)
		return concat_known(b, n, e, (int)axis, fresh);
	len = x_idx(m, rank + fresh);
	sizes = t_host(m, "seq_cat_shape",
		arena_printf(m->arena, "d 0 #%d #%d #%d", (int)axis, (int)fresh, rank),
		ty_tensor(m, DT_I64, 1, &len), 1, &seq);
	for (i = 0; i < rank + fresh; i++) {
		Node *at = x_idx(m, i);
		dims[i] = extent(m, x_cast(m, DT_INDEX, x_read(m, sizes, &at)));
	}
	return t_host(m, "seq_cat", arena_printf(m->arena, "d 0 #%d #%d", (int)axis, (int)fresh),
		ty_tensor(m, t->dtype, rank + (int)fresh, dims), 2, (Node *[]){seq, sizes});
}

/* ---- optionals ------------------------------------------------------------------------------- */

static Node *
build_optional(Build *b)
{
	Module *m = b->m;
	const Attr *type = attr_find(b->attrs, "type");
	const Type *t = b->in[0] ? ty_element(m, b->in[0]->type) : type ? type->type : NULL;

	if (!t)
		return fail(b, "there is neither an element nor a type");
	if (t->kind == T_OPTIONAL)
		return fail(b, "the element is itself optional");
	return seq_value(m, ty_of(m, T_OPTIONAL, DT_NONE, t), b->in[0] != NULL, b->in);
}

static Node *
build_has_element(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], **e;
	int n;

	if (x && x->type->kind == T_OPTIONAL && !seq_elems(x, &n, &e))
		return t_host(m, "value_has", "d 0", ty_tensor(m, DT_BOOL, 0, NULL), 1, &x);
	return t_scalar(m, DT_BOOL, (Num){.i = x && (x->type->kind != T_OPTIONAL || n)});
}

static Node *
build_get_element(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], **e;
	const Type *t;
	int n;

	if (x->type->kind != T_OPTIONAL)
		return x;
	if (seq_elems(x, &n, &e))
		return n ? e[0] : fail(b, "the optional value is absent");
	t = x->type->elem[0];
	if (t->kind != T_TENSOR)
		return t_host(m, "value_take", "d 0", t, 1, &x);
	return taken(b, "value_shape", "d 0", "value_get", "v 0", t, x, NULL);
}

/* ---- mapping --------------------------------------------------------------------------------- */

/*
 * The importer has made a body of one parameter, the round, in which elements of the sequences
 * stand for its inputs: a loop over the first sequence that appends to one sequence for each
 * result.
 */
static Node *
build_map(Build *b)
{
	Module *m = b->m;
	Region *each = b->regions[0], *body = region_new(m, "body");
	Node *len, **acc = NEWN(m, Node *, each->nresults + 1);
	const Type *t;
	int i, n = each->nresults;

	len = call(b, "sequence_length", 1, b->in, NULL);
	if (!len || each->nparams != 1)
		return len ? fail(b, "its body has %d inputs", each->nparams) : NULL;
	for (i = 1; i < b->nin; i++)
		if (b->in[i] && b->in[i]->type->kind == T_SEQ) {
			Node *other = call(b, "sequence_length", 1, &b->in[i], NULL);
			if (other)
				require(m, x_eq(m, x_read(m, len, NULL), x_read(m, other, NULL)), b->loc,
					"its sequences differ in length");
		}
	body->nparams = 1 + n;
	body->params = NEWN(m, Node *, n + 1);
	body->params[0] = each->params[0];
	region_add(m, body, t_scalar(m, DT_BOOL, (Num){.i = 1}));
	for (i = 0; i < n; i++) {
		t = ty_of(m, T_SEQ, DT_NONE, ty_element(m, each->results[i]->type));
		if (each->results[i]->type->kind != T_TENSOR)
			return fail(b, "result %d of its body is no tensor", i);
		acc[i] = seq_value(m, t, 0, NULL);
		body->params[1 + i] = t_param(m, "all", t, 1 + i);
		region_add(m, body, seq_append(m, body->params[1 + i], each->results[i]));
	}
	return loop_build(b, len, NULL, n, acc, body);
}

const Op ops_sequence[] = {
	HOST("sequence_empty",     "SequenceEmpty",     11, "() {dtype: int = 1} -> seq", build_empty,
		"no elements"),
	HOST("sequence_construct", "SequenceConstruct", 11, "(x: data, rest: x*) {} -> seq",
		build_construct, "a sequence of the operands"),
	HOST("sequence_insert",    "SequenceInsert",    11,
		"(s: seq, x: data, position: idx?) {} -> seq",
		build_insert, "a sequence with an element more"),
	HOST("sequence_erase",     "SequenceErase",     11, "(s: seq, position: idx?) {} -> seq",
		build_erase, "a sequence with an element less"),
	HOST("sequence_at",        "SequenceAt",        11, "(s: seq, position: idx) {} -> y",
		build_at, "an element of a sequence"),
	HOST("sequence_length",    "SequenceLength",    11, "(s: seq) {} -> n", build_length,
		"how many elements"),
	HOST("split_to_sequence",  "SplitToSequence",   24,
		"(x: data, split: idx?) {axis: int = 0, keepdims: int = 1} -> seq",
		build_split_to_sequence, "parts of a tensor along an axis"),
	HOST("concat_from_sequence", "ConcatFromSequence", 11,
		"(s: seq) {axis: int, new_axis: int = 0} -> y",
		build_concat_from_sequence, "elements end to end, or stacked"),
	HOST("sequence_map",       "SequenceMap",       17,
		"(s: seq, rest: any*) {body: region} -> y*",
		build_map, "a graph for each element"),
	HOST("optional",           "Optional",          15, "(x: any?) {type: type?} -> y",
		build_optional, "a value that may be absent"),
	HOST("optional_has_element", "OptionalHasElement", 28, "(x: any?) {} -> y", build_has_element,
		"is it there?"),
	HOST("optional_get_element", "OptionalGetElement", 28, "(x: any) {} -> y", build_get_element,
		"the value, which must be there"),
	{0}
};
