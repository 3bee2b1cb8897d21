/* Operators that only move elements, as an index for each element of the result; lists as in
 * shape.c. */
#include <stdlib.h>
#include <string.h>
#include "ops.h"

/* ---- transpose, expand, tile ----------------------------------------------------------------- */

static Node *
build_transpose(Build *b)
{
	Node *x = b->in[0], *axes[MAX_RANK], *idx[MAX_RANK] = {0};
	const int64_t *perm;
	int n, rank = rank_of(x), i;
	bool given = attr_ints(b, "perm", &n, &perm);

	if (given && n != rank)
		return fail(b, "perm has %d entries, the operand %d dimensions", n, rank);
	for (i = 0; i < rank; i++) {
		int64_t p = given ? perm[i] : rank - 1 - i;
		p += p < 0 ? rank : 0;
		if (p < 0 || p >= rank || idx[p])
			return fail(b, "perm is not a permutation");
		axes[i] = idx[p] = x_axis(b->m, dim_of(x, (int)p));
	}
	return t_tensor(b->m, rank, axes, x_read(b->m, x, idx));
}

static Node *
build_expand(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], **e, *axes[MAX_RANK], *d;
	int n, rank, i, off;

	if (!list_arg(b, b->in[1], "the shape", &n, &e))
		return NULL;
	rank = n > rank_of(x) ? n : rank_of(x);
	if (rank > MAX_RANK)
		return unsupported(b, "more than %d dimensions", MAX_RANK);
	for (i = 0; i < rank; i++) {
		off = i - (rank - rank_of(x));
		d = off >= 0 ? dim_of(x, off) : x_idx(m, 1);
		off = i - (rank - n);
		axes[i] = x_axis(m, off >= 0 ? dim_broadcast(m, d, extent(m, e[off]), b->loc) : d);
	}
	return t_tensor(m, rank, axes, x_bread(m, x, rank, axes));
}

static Node *
build_tile(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], **e, *axes[MAX_RANK], *idx[MAX_RANK];
	int n = rank_of(x), i;

	if (!list_of(b, b->in[1], "repeats", n, &e))
		return NULL;
	for (i = 0; i < n; i++) {
		axes[i] = x_axis(m, x_mul(m, dim_of(x, i), extent(m, e[i])));
		idx[i] = x_mod(m, axes[i], dim_of(x, i));
	}
	return t_tensor(m, n, axes, x_read(m, x, idx));
}

/* ---- concat, split, slice, pad --------------------------------------------------------------- */

typedef struct Part { Node *x, *from; } Part;      /* a tensor and the first index it stands at */

/* The element at axes of parts side by side along `axis`: halved until one part is left. */
static Node *
concat_read(Module *m, int n, const Part *p, int axis, int rank, Node *const *axes)
{
	Node *idx[MAX_RANK];

	if (n > 1)
		return x_select(m, x_lt(m, axes[axis], p[n / 2].from),
			concat_read(m, n / 2, p, axis, rank, axes),
			concat_read(m, n - n / 2, p + n / 2, axis, rank, axes));
	memcpy(idx, axes, sizeof *idx * (size_t)rank);
	idx[axis] = x_sub(m, axes[axis], p->from);
	return x_read(m, p->x, idx);
}

static Node *
build_concat(Build *b)
{
	Module *m = b->m;
	Node *axes[MAX_RANK], *dims[MAX_RANK], *from = x_idx(m, 0);
	Part *p = NEWN(m, Part, b->nin + 1);
	int rank = rank_of(b->in[0]), n = 0, i, k, axis = axis_attr(b, "axis", rank);

	if (axis < 0)
		return NULL;
	memcpy(dims, b->in[0]->type->dims, sizeof *dims * (size_t)rank);
	for (i = 0; i < b->nin; i++) {
		if (!b->in[i])
			continue;
		if (rank_of(b->in[i]) != rank)
			return fail(b, "operand %d has %d dimensions, the first %d", i,
				rank_of(b->in[i]), rank);
		for (k = 0; k < rank; k++) {
			if (k == axis)
				continue;
			require(m, x_eq(m, dims[k], dim_of(b->in[i], k)), b->loc,
				"operand %d has %s at dimension %d, the first %s", i,
				expr_print(m, dim_of(b->in[i], k)), k, expr_print(m, dims[k]));
			if (dim_of(b->in[i], k)->code == O_NUM)
				dims[k] = dim_of(b->in[i], k);
		}
		if (is_intv(dim_of(b->in[i], axis), 0))
			continue;
		p[n++] = (Part){b->in[i], from};
		from = x_add(m, from, dim_of(b->in[i], axis));
	}
	if (n == 0)
		return b->in[0];
	dims[axis] = from;
	axes_new(m, rank, dims, axes);
	return t_tensor(m, rank, axes, concat_read(m, n, p, axis, rank, axes));
}

/* x's part of the given length from an index of one axis on. */
static Node *
part_of(Module *m, Node *x, int axis, Node *from, Node *length)
{
	Node *axes[MAX_RANK], *idx[MAX_RANK];
	int i;

	for (i = 0; i < rank_of(x); i++)
		idx[i] = axes[i] = x_axis(m, i == axis ? length : dim_of(x, i));
	idx[axis] = x_add(m, axes[axis], from);
	return t_tensor(m, rank_of(x), axes, x_read(m, x, idx));
}

static Node *
build_split(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], **e, *chunk, *from = x_idx(m, 0), *dim, *length, **out;
	int axis = axis_attr(b, "axis", rank_of(x)), n, i;
	int64_t d;

	if (axis < 0)
		return NULL;
	dim = dim_of(x, axis);
	if (b->in[1]) {
		n = is_int(dim_of(b->in[1], 0), &d) ? (int)d : b->nout;
		if (!list_of(b, b->in[1], "split", n, &e))
			return NULL;
	} else {
		n = attr_find(b->attrs, "num_outputs") ? (int)attr_int(b, "num_outputs") : b->nout;
		if (n < 1 || n > 4096)
			return fail(b, "%d results", n);
		chunk = x_ceildiv(m, dim, x_idx(m, n));
		if (is_int(dim, &d) && (n - 1) * ((d + n - 1) / n) > d)
			return fail(b, "%lld elements cannot be split into %d parts of %lld",
				(long long)d, n, (long long)((d + n - 1) / n));
		e = NEWN(m, Node *, n);
		for (i = 0; i < n; i++)
			e[i] = i + 1 < n ? chunk : x_sub(m, dim, x_muli(m, chunk, n - 1));
	}
	if (b->nout > n)
		return fail(b, "%d results of %d parts", b->nout, n);
	out = NEWN(m, Node *, n + 1);
	for (i = 0; i < n; i++) {
		length = b->in[1] ? extent(m, e[i]) : e[i];
		out[i] = part_of(m, x, axis, from, length);
		from = x_add(m, from, length);
	}
	require(m, x_eq(m, from, dim), b->loc, "the parts have %s elements together, the axis %s",
		expr_print(m, from), expr_print(m, dim));
	return t_tuple(m, n, out);
}

/* The entry of a list for dimension d: that whose axis is d; `none` if there is none. axes NULL: in
 * order. */
static Node *
for_dim(Module *m, int n, Node *const *axes, Node *const *list, int d, int rank, Node *none)
{
	int i;

	if (!axes)
		return d < n ? list[d] : none;
	for (i = 0; i < n; i++)
		none = x_select(m, x_any_axis(m, axes[i], d, rank), list[i], none);
	return none;
}

static Node *
clamp(Module *m, Node *x, Node *lo, Node *hi)
{
	return x_min(m, x_max(m, x, lo), hi);
}

/* numpy's start:end:step on an axis of extent dim: the first index and how many. */
static void
slice_axis(Module *m, Node *dim, Node *start, Node *end, Node *step, Node **first, Node **count)
{
	Node *zero = x_idx(m, 0), *last = x_addi(m, dim, -1), *up = x_lt(m, zero, step);
	Node *s = wrap_index(m, start, dim), *e = wrap_index(m, end, dim), *f, *n;

	f = x_select(m, up, clamp(m, s, zero, dim), clamp(m, s, x_idx(m, -1), last));
	e = x_select(m, up, clamp(m, e, zero, dim), clamp(m, e, x_idx(m, -1), last));
	n = x_select(m, up, x_ceildiv(m, x_sub(m, e, f), step),
		x_ceildiv(m, x_sub(m, f, e), x_sub(m, zero, step)));
	*first = f;
	*count = x_max(m, n, zero);
}

/* What slices n axes: starts, ends, axes and steps, the last two NULL where they are left out. */
static bool
slice_lists(Build *b, int *n, Node ***st, Node ***en, Node ***ax, Node ***sp)
{
	static const char *const names[] = {"starts", "ends", "axes", "steps"};
	Node ***e[] = {st, en, ax, sp}, *t, *len;
	int rank = rank_of(b->in[0]), i, k;
	int64_t known = -1;

	for (i = 0; i < 4; i++) {
		t = b->in[i + 1];
		if (t && rank_of(t) != 1)
			return fail(b, "%s has %d dimensions, must have 1", names[i], rank_of(t)) != NULL;
		if (t && known < 0 && !is_int(dim_of(t, 0), &known))
			known = -1;
	}
	if (known > rank)
		return fail(b, "starts, ends, axes and steps must have one length, at most %d",
			rank) != NULL;
	*n = known < 0 ? rank : (int)known;
	len = dim_of(b->in[1], 0);
	for (i = 0; i < 4; i++) {
		if (!(t = b->in[i + 1]))
			continue;
		if (known >= 0 && !list_of(b, t, names[i], *n, e[i]))
			return false;
		require(b->m, x_eq(b->m, dim_of(t, 0), len), b->loc, "%s has %s entries, starts has %s",
			names[i],
			expr_print(b->m, dim_of(t, 0)), expr_print(b->m, len));
		if (known < 0 && !short_list(b, t, names[i], rank, x_idx(b->m, i == 3 ? 1 : 2 * rank), &k,
			e[i]))
			return false;
	}
	if (known < 0 && !*ax) {                 /* those there are: the first */
		*ax = NEWN(b->m, Node *, rank + 1);
		for (i = 0; i < rank; i++)
			(*ax)[i] = x_select(b->m, x_lt(b->m, x_idx(b->m, i), len), x_idx(b->m, i),
				x_idx(b->m, 2 * rank));
	}
	return !*ax || axes_in(b, rank, *n, *ax, known < 0 ? len : NULL);
}

static Node *
build_slice(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], **st, **en, **ax = NULL, **sp = NULL, *axes[MAX_RANK], *idx[MAX_RANK];
	int rank = rank_of(x), n = 0, d, i;

	if (!slice_lists(b, &n, &st, &en, &ax, &sp))
		return NULL;
	for (i = 0; i < n; i++) {
		st[i] = saturate(m, st[i]);
		en[i] = saturate(m, en[i]);
		if (!sp)
			continue;
		require(m, x_ne(m, sp[i], x_idx(m, 0)), b->loc, "a step is 0");
		sp[i] = saturate(m, sp[i]);
	}
	for (d = 0; d < rank; d++) {
		Node *dim = dim_of(x, d), *one = x_idx(m, 1), *first, *count, *step;
		step = sp ? for_dim(m, n, ax, sp, d, rank, one) : one;
		slice_axis(m, dim, for_dim(m, n, ax, st, d, rank, x_idx(m, 0)),
			for_dim(m, n, ax, en, d, rank, dim), step, &first, &count);
		axes[d] = x_axis(m, count);
		idx[d] = x_add(m, first, x_mul(m, axes[d], step));
	}
	return t_tensor(m, rank, axes, x_read(m, x, idx));
}

typedef enum PadMode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } PadMode;

/* The operand's index for i = result's index - pad, which lies outside [0, dim) within the pads. */
static Node *
pad_index(Module *m, PadMode mode, Node *i, Node *dim, Node *begin, Node *end)
{
	Node *last = x_addi(m, dim, -1), *zero = x_idx(m, 0), *t;

	switch (mode) {
	case PAD_EDGE:
		return clamp(m, i, zero, last);
	case PAD_WRAP:
		return x_mod(m, i, dim);
	case PAD_REFLECT:
		/* mirrored once at most */
		if (prove_le(m, begin, last) && prove_le(m, end, last)) {
			if (!is_intv(begin, 0))
				i = x1(m, O_ABS, i);
			return is_intv(end, 0) ? i
				: x_sub(m, last, x1(m, O_ABS, x_sub(m, last, i)));
		}
		t = x_mod(m, i, x_muli(m, last, 2));
		return x_min(m, t, x_sub(m, x_muli(m, last, 2), t));
	default:
		return i;
	}
}

static bool
pad_mode(Build *b, PadMode *mode)
{
	static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
	const char *s = attr_str(b, "mode");
	int i;

	for (i = 0; i < 4; i++)
		if (strcmp(s, names[i]) == 0) {
			*mode = (PadMode)i;
			return true;
		}
	fail(b, "mode is \"%s\", must be constant, reflect, edge or wrap", s);
	return false;
}

static Node *
build_pad(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], **pads, **ax, *axes[MAX_RANK], *idx[MAX_RANK], *in = x_bool(m, true),
		*zero = x_idx(m, 0), *v;
	int rank = rank_of(x), na = rank, d;
	int64_t n = -1;
	PadMode mode;

	if (!pad_mode(b, &mode))
		return NULL;
	if (rank_of(b->in[1]) != 1 || !const_dims(b->in[1], &n) || n > 2 * rank)
		n = -1;
	if (!axes_arg(b, b->in[3], NULL, rank, n < 0 ? -1 : (int)(n / 2), &na, &ax))
		return NULL;
	if (na > rank)
		return fail(b, "pads for %d axes of %d", na, rank);
	if (!list_of(b, b->in[1], "pads", 2 * na, &pads))
		return NULL;
	for (d = 0; d < 2 * na; d++)
		pads[d] = saturate(m, pads[d]);
	for (d = 0; d < rank; d++) {
		Node *dim = dim_of(x, d), *begin = for_dim(m, na, ax, pads, d, rank, zero);
		Node *end = for_dim(m, na, ax, pads + na, d, rank, zero),
			*size = x_add(m, x_add(m, dim, begin), end);
		require(m, x_le(m, zero, size), b->loc, "dimension %d becomes negative", d);
		axes[d] = x_axis(m, extent(m, size));
		idx[d] = x_sub(m, axes[d], begin);
		if (mode == PAD_CONSTANT)
			in = x_and(m, in, x_and(m, x_le(m, zero, idx[d]), x_lt(m, idx[d], dim)));
		else if (!is_intv(begin, 0) || !is_intv(end, 0))
			idx[d] = pad_index(m, mode, idx[d], dim, begin, end);
	}
	v = b->in[2] ? scalar_arg(m, b->in[2]) : x_int(m, dtype_of(x), 0);
	return t_tensor(m, rank, axes, x_select(m, in, x_read(m, x, idx), v));
}

static Node *
build_center_crop_pad(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], **e, **ax, *axes[MAX_RANK], *idx[MAX_RANK], *in = x_bool(m, true),
		*zero = x_idx(m, 0);
	int rank = rank_of(x), n = rank, d;

	if (!axes_arg(b, NULL, "axes", rank, -1, &n, &ax) || !list_of(b, b->in[1], "the shape", n, &e))
		return NULL;
	for (d = 0; d < rank; d++) {
		Node *dim = dim_of(x, d), *size = extent(m, for_dim(m, n, ax, e, d, rank, dim));
		Node *crop = x_fdiv(m, x_sub(m, dim, size), x_idx(m, 2)),
			*pad = x_fdiv(m, x_sub(m, size, dim), x_idx(m, 2));
		axes[d] = x_axis(m, size);
		idx[d] = x_add(m, axes[d],
			x_select(m, x_lt(m, dim, size), x_sub(m, zero, pad), crop));
		in = x_and(m, in, x_and(m, x_le(m, zero, idx[d]), x_lt(m, idx[d], dim)));
	}
	return t_tensor(m, rank, axes,
		x_select(m, in, x_read(m, x, idx), x_int(m, dtype_of(x), 0)));
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static bool
block_args(Build *b, int64_t *bs, bool *crd)
{
	const char *mode = attr_str(b, "mode");

	*bs = attr_int(b, "blocksize");
	*crd = strcmp(mode, "CRD") == 0;
	if (rank_of(b->in[0]) != 4)
		fail(b, "the operand has %d dimensions, must have 4", rank_of(b->in[0]));
	else if (*bs < 1 || *bs > 1 << 20)
		fail(b, "blocksize is %lld", (long long)*bs);
	else if (!*crd && strcmp(mode, "DCR"))
		fail(b, "mode is \"%s\", must be DCR or CRD", mode);
	else
		return true;
	return false;
}

static Node *
build_depth_to_space(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *d[4], *a[4], *idx[4], *bs, *h, *w, *block;
	int64_t size;
	bool crd;

	if (!block_args(b, &size, &crd))
		return NULL;
	bs = x_idx(m, size);
	memcpy(d, x->type->dims, sizeof d);
	block = x_mul(m, bs, bs);
	require(m, x_eq(m, x_mod(m, d[1], block), x_idx(m, 0)), b->loc,
		"%s channels are no multiple of %lld squared", expr_print(m, d[1]),
		(long long)size);
	d[1] = x_fdiv(m, d[1], block);
	d[2] = x_mul(m, d[2], bs);
	d[3] = x_mul(m, d[3], bs);
	axes_new(m, 4, d, a);
	h = x_mod(m, a[2], bs);
	w = x_mod(m, a[3], bs);
	idx[0] = a[0];
	if (crd)
		idx[1] = x_add(m, x_mul(m, x_add(m, x_mul(m, a[1], bs), h), bs), w);
	else
		idx[1] = x_add(m, x_mul(m, x_add(m, x_mul(m, h, bs), w), d[1]), a[1]);
	idx[2] = x_fdiv(m, a[2], bs);
	idx[3] = x_fdiv(m, a[3], bs);
	return t_tensor(m, 4, a, x_read(m, x, idx));
}

static Node *
build_space_to_depth(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *d[4], *a[4], *idx[4], *bs, *block, *c, *h, *w, *rest;
	int64_t size;
	bool crd;
	int i;

	if (!block_args(b, &size, &crd))
		return NULL;
	bs = x_idx(m, size);
	block = x_mul(m, bs, bs);
	memcpy(d, x->type->dims, sizeof d);
	for (i = 2; i < 4; i++) {
		require(m, x_eq(m, x_mod(m, d[i], bs), x_idx(m, 0)), b->loc,
			"%s is no multiple of %lld", expr_print(m, d[i]), (long long)size);
		d[i] = x_fdiv(m, d[i], bs);
	}
	d[1] = x_mul(m, d[1], block);
	axes_new(m, 4, d, a);
	if (crd) {
		c = x_fdiv(m, a[1], block);
		rest = x_mod(m, a[1], block);
	} else {
		c = x_mod(m, a[1], dim_of(x, 1));
		rest = x_fdiv(m, a[1], dim_of(x, 1));
	}
	h = x_fdiv(m, rest, bs);
	w = x_mod(m, rest, bs);
	idx[0] = a[0];
	idx[1] = c;
	idx[2] = x_add(m, x_mul(m, a[2], bs), h);
	idx[3] = x_add(m, x_mul(m, a[3], bs), w);
	return t_tensor(m, 4, a, x_read(m, x, idx));
}

static Node *
build_reverse_sequence(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], *axes[MAX_RANK], *idx[MAX_RANK], *len, *t;
	int rank = rank_of(x), batch, time;

	if (rank < 2 || rank_of(b->in[1]) != 1)
		return fail(b,
			"the operand has %d dimensions, sequence_lens %d; needed are 2 and 1", rank,
			rank_of(b->in[1]));
	if ((batch = axis_attr(b, "batch_axis", rank)) < 0
		|| (time = axis_attr(b, "time_axis", rank)) < 0)
		return NULL;
	if (batch == time)
		return fail(b, "batch_axis and time_axis are both %d", batch);
	axes_new(m, rank, x->type->dims, axes);
	memcpy(idx, axes, sizeof *idx * (size_t)rank);
	t = axes[time];
	len = x_cast(m, DT_INDEX, x_read(m, b->in[1], &axes[batch]));
	idx[time] = x_select(m, x_lt(m, t, len),
		x2(m, O_BOUND, x_sub(m, x_addi(m, len, -1), t), dim_of(x, time)), t);
	return t_tensor(m, rank, axes, x_read(m, x, idx));
}

/* ---- Col2Im ---------------------------------------------------------------------------------- */

bool
spatial_attr(Build *b, const char *name, int n, int64_t none, int64_t *v)
{
	const int64_t *a;
	int k, i;
	bool given = attr_ints(b, name, &k, &a) && k > 0;

	if (given && k != n) {
		fail(b, "%s has %d entries, must have %d", name, k, n);
		return false;
	}
	for (i = 0; i < n; i++)
		v[i] = given ? a[i] : none;
	return true;
}

/* Each pixel sums the entries of the columns that cover it: over the kernel, where the window's
 * place is whole. */
static Node *
build_col2im(Build *b)
{
	Module *m = b->m;
	Node *x = b->in[0], **image, **block, *axes[MAX_RANK], *red[MAX_RANK], *idx[3],
		*zero = x_idx(m, 0);
	Node *in = x_bool(m, true), *kflat = zero, *lflat = zero, *ksize, *v;
	int64_t dil[MAX_RANK], pads[2 * MAX_RANK], str[MAX_RANK];
	int n, nk, i;

	if (!list_arg(b, b->in[1], "image_shape", &n, &image)
		| !list_arg(b, b->in[2], "block_shape", &nk, &block))    /* both are told of */
		return NULL;
	if (rank_of(x) != 3 || n != nk || n + 2 > MAX_RANK)
		return fail(b, "the operand has %d dimensions, the image %d, the block %d",
			rank_of(x), n, nk);
	if (!spatial_attr(b, "dilations", n, 1, dil) || !spatial_attr(b, "pads", 2 * n, 0, pads)
	 || !spatial_attr(b, "strides", n, 1, str))
		return NULL;
	ksize = x_product(m, n, block);
	axes[0] = x_axis(m, dim_of(x, 0));
	axes[1] = x_axis(m, x_fdiv(m, dim_of(x, 1), ksize));
	for (i = 0; i < n; i++) {
		Node *size = extent(m, image[i]), *k = extent(m, block[i]), *off, *place, *places;
		axes[i + 2] = x_axis(m, size);
		red[i] = x_axis(m, k);
		off = x_sub(m, x_addi(m, axes[i + 2], pads[i]), x_muli(m, red[i], dil[i]));
		place = x_fdiv(m, off, x_idx(m, str[i]));
		places = x_sub(m, x_addi(m, size, pads[i] + pads[n + i] - 1),
			x_muli(m, x_addi(m, k, -1), dil[i]));
		places = x_addi(m, x_fdiv(m, places, x_idx(m, str[i])), 1);
		in = x_and(m, in, x_eq(m, x_mod(m, off, x_idx(m, str[i])), zero));
		in = x_and(m, in, x_and(m, x_le(m, zero, place), x_lt(m, place, places)));
		kflat = x_add(m, x_mul(m, kflat, k), red[i]);
		lflat = x_add(m, x_mul(m, lflat, places), place);
	}
	idx[0] = axes[0];
	idx[1] = x_add(m, x_mul(m, axes[1], ksize), kflat);
	idx[2] = lflat;
	v = x_select(m, in, x_read(m, x, idx), x_int(m, dtype_of(x), 0));
	return t_tensor(m, n + 2, axes, sum_over(m, n, red, v));
}

const Op ops_move[] = {
	BUILD("transpose",   "Transpose", 25, "(x: any) {perm: ints?} -> y", build_transpose,
		"permutes axes"),
	BUILD("expand",      "Expand",    13, "(x: any, shape: i64) {} -> y", build_expand,
		"broadcasts to a shape"),
	BUILD("tile",        "Tile",      13, "(x: any, repeats: i64) {} -> y", build_tile,
		"repeats along each axis"),
	BUILD("concat",      "Concat",    13, "(x: any, rest: x*) {axis: int} -> y", build_concat,
		"side by side along an axis"),
	BUILD("split",       "Split",     18,
		"(x: any, split: i64?) {axis: int = 0, num_outputs: int?} -> y*", build_split,
		"parts along an axis"),
	BUILD("slice",       "Slice",     13,
		"(x: any, starts: idx, ends: starts, axes: starts?, steps: starts?) {} -> y",
		build_slice, "start:end:step along axes"),
	BUILD("pad",         "Pad",       25,
		"(x: any, pads: i64, value: x?, axes: idx?) {mode: str = \"constant\"} -> y",
		build_pad, "elements added (or, by negative pads, removed) at the ends of axes"),
	BUILD("center_crop_pad", "CenterCropPad", 18, "(x: any, shape: idx) {axes: ints?} -> y",
		build_center_crop_pad, "cropped or padded to a shape around the middle"),
	BUILD("depth_to_space", "DepthToSpace", 28,
		"(x: any) {blocksize: int, mode: str = \"DCR\"} -> y", build_depth_to_space,
		"channels to blocks of pixels"),
	BUILD("space_to_depth", "SpaceToDepth", 28,
		"(x: any) {blocksize: int, mode: str = \"DCR\"} -> y", build_space_to_depth,
		"blocks of pixels to channels"),
	BUILD("reverse_sequence", "ReverseSequence", 28,
		"(x: any, sequence_lens: i64) {batch_axis: int = 1, time_axis: int = 0} -> y",
			build_reverse_sequence,
		"the first elements of each sequence reversed"),
	BUILD("col2im",      "Col2Im",    18, "(x: num, image_shape: i64, block_shape: i64)"
		" {dilations: ints?, pads: ints?, strides: ints?} -> y", build_col2im,
			"columns summed back to an image"),
	{0}
};
