/* Windows that slide over spatial dimensions: the one resolver of convolutions and poolings. */
#include <string.h>
#include "ops.h"

/* Beyond any dimension: sums of a dimension and such pads cannot overflow. */
enum { MAX_PAD = 1 << 30 };

typedef enum AutoPad { PADS_GIVEN, SAME_UPPER, SAME_LOWER, VALID } AutoPad;

static bool
auto_pad(Build *b, AutoPad *a)
{
	static const char *const names[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
	const char *s = attr_str(b, "auto_pad");
	int i;

	*a = PADS_GIVEN;
	for (i = 0; i < 4; i++)
		if (strcmp(s, names[i]) == 0) {
			*a = (AutoPad)i;
			return true;
		}
	if (*s == 0)
		return true;
	fail(b, "auto_pad is \"%s\", must be NOTSET, SAME_UPPER, SAME_LOWER or VALID", s);
	return false;
}

static bool
in_range(Build *b, const char *name, int n, const int64_t *v, int64_t lo)
{
	int i;

	for (i = 0; i < n; i++)
		if (v[i] < lo || v[i] > MAX_PAD) {
			fail(b, "%s has the entry %lld, outside [%lld, 2^30]", name, (long long)v[i],
				(long long)lo);
			return false;
		}
	return true;
}

bool
window_attrs(Build *b, int n, int64_t *stride, int64_t *dilation, int64_t *pads)
{
	return spatial_attr(b, "strides", n, 1, stride) && in_range(b, "strides", n, stride, 1)
		&& spatial_attr(b, "dilations", n, 1, dilation) && in_range(b, "dilations", n, dilation, 1)
		&& spatial_attr(b, "pads", 2 * n, 0, pads) && in_range(b, "pads", 2 * n, pads, -MAX_PAD);
}

Node *
window_span(Module *m, const Window *w)
{
	return x_addi(m, x_muli(m, x_addi(m, w->k, -1), w->dilation), 1);
}

/* in, k, stride, dilation are set; the rest follows from how the window is padded. */
static void
place(Module *m, Window *w, AutoPad a, int64_t begin, int64_t end, bool ceil)
{
	Node *span = window_span(m, w), *zero = x_idx(m, 0), *one = x_idx(m, 1),
		*s = x_idx(m, w->stride);
	Node *total, *half, *rest, *last;

	w->begin = w->end = zero;
	if (a == SAME_UPPER || a == SAME_LOWER) {
		w->out = x_ceildiv(m, w->in, s);
		total = x_sub(m, x_add(m, x_mul(m, x_addi(m, w->out, -1), s), span), w->in);
		total = x_select(m, x_lt(m, zero, w->in), x_max(m, total, zero), zero);
		half = x_fdiv(m, total, x_idx(m, 2));
		rest = x_sub(m, total, half);
		w->begin = a == SAME_UPPER ? half : rest;
		w->end = a == SAME_UPPER ? rest : half;
		return;
	}
	if (a == PADS_GIVEN) {
		w->begin = x_idx(m, begin);
		w->end = x_idx(m, end);
	}
	rest = x_sub(m, x_add(m, x_add(m, w->in, w->begin), w->end), span);
	w->out = x_add(m, ceil ? x_ceildiv(m, rest, s) : x_fdiv(m, rest, s), one);
	if (!ceil)
		return;
	/* a window that starts in the end's pad is none */
	last = x_mul(m, x_addi(m, w->out, -1), s);
	w->out = x_select(m, x_lt(m, last, x_add(m, w->in, w->begin)), w->out, x_addi(m, w->out, -1));
}

bool
windows(Build *b, int n, Node *const *in, Node *const *kernel, bool ceil, Window *w)
{
	Module *m = b->m;
	int64_t stride[MAX_RANK], dilation[MAX_RANK], pads[2 * MAX_RANK];
	AutoPad a;
	int i;

	if (!auto_pad(b, &a) || !window_attrs(b, n, stride, dilation, pads))
		return false;
	for (i = 0; i < n; i++) {
		w[i] = (Window){.in = in[i], .k = kernel[i], .stride = stride[i], .dilation = dilation[i],
			.ceil = ceil};
		place(m, &w[i], a, pads[i], pads[n + i], ceil);
		require(m, x_le(m, x_idx(m, 0), w[i].out), b->loc,
			"spatial dimension %d has %s elements, fewer than the window spans (%s)", i,
			expr_print(m, in[i]), expr_print(m, window_span(m, &w[i])));
	}
	return true;
}

bool
window_kernel(Build *b, int n, Node **kernel)
{
	int64_t k[MAX_RANK];
	int i, given;
	const int64_t *v;

	if (!attr_ints(b, "kernel_shape", &given, &v) || given != n) {
		fail(b, "kernel_shape has %d entries, the operand %d spatial dimensions", given, n);
		return false;
	}
	memcpy(k, v, sizeof *k * (size_t)n);
	for (i = 0; i < n; i++)
		kernel[i] = x_idx(b->m, k[i]);
	return in_range(b, "kernel_shape", n, k, 1);
}

/* Does a window reach over the ends of the dimension? */
static bool
overhangs(Module *m, const Window *w)
{
	Node *reach = x_add(m, x_muli(m, x_addi(m, w->out, -1), w->stride), window_span(m, w));

	if (!is_intv(w->begin, 0))
		return true;
	if (prove_le(m, reach, w->in))
		return false;
	return !is_intv(w->end, 0) || w->ceil;
}

Node *
window_padded(Module *m, Node *x, int n, const Window *w, Node *fill)
{
	Node *axes[MAX_RANK], *idx[MAX_RANK], *in = x_bool(m, true), *reach;
	int rank = rank_of(x), i, d;
	bool any = false;

	for (d = 0; d < rank - n; d++)
		idx[d] = axes[d] = x_axis(m, dim_of(x, d));
	for (i = 0; i < n; i++, d++) {
		if (!overhangs(m, &w[i])) {
			idx[d] = axes[d] = x_axis(m, w[i].in);
			continue;
		}
		any = true;
		reach = x_add(m, x_muli(m, x_addi(m, w[i].out, -1), w[i].stride), window_span(m, &w[i]));
		axes[d] = x_axis(m, reach);
		idx[d] = x_sub(m, axes[d], w[i].begin);
		in = x_and(m, in, x_and(m, x_le(m, x_idx(m, 0), idx[d]), x_lt(m, idx[d], w[i].in)));
	}
	return any ? t_tensor(m, rank, axes, x_select(m, in, x_read(m, x, idx), fill)) : x;
}
