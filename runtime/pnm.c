/* Binary portable greymaps and pixmaps (P5, P6) as image tensors. */
#include <string.h>
#include "rt.h"

typedef struct Picture {
	int64_t width, height;
	int channels, bytes;    /* per pixel; per sample */
	uint32_t max;
	const uint8_t *data;
} Picture;

typedef struct Layout {
	int h, w, c;            /* axes; c -1: none */
	int channels;
} Layout;

static int bad(TccErr *err, const char *why)
{
	return tcc_fail(err, TCC_BAD_FILE, "not a valid P5 or P6 picture: %s", why);
}

/* A number of the header, after white space and comments; -1: none. */
static int64_t number(TccBytes *in)
{
	int64_t v = -1;
	while (in->n && (in->p[0] == '#' || in->p[0] <= ' ')) {
		if (in->p[0] == '#')
			while (in->n && in->p[0] != '\n')
				in->p++, in->n--;
		else
			in->p++, in->n--;
	}
	for (; in->n && in->p[0] >= '0' && in->p[0] <= '9' && v < 1 << 24; in->p++, in->n--)
		v = (v < 0 ? 0 : v * 10) + in->p[0] - '0';
	return v;
}

static int parse(TccBytes in, Picture *p, TccErr *err)
{
	if (in.n < 8 || in.p[0] != 'P' || (in.p[1] != '5' && in.p[1] != '6'))
		return bad(err, "its first bytes are not those of one");
	p->channels = in.p[1] == '5' ? 1 : 3;
	in = (TccBytes){in.p + 2, in.n - 2};
	p->width = number(&in);
	p->height = number(&in);
	int64_t max = number(&in);
	if (p->width < 1 || p->height < 1 || p->width > 1 << 20 || p->height > 1 << 20)
		return bad(err, "its size is missing or too large");
	if (max < 1 || max > 65535 || !in.n)
		return bad(err, "its greatest value is not in 1 to 65535");
	p->max = (uint32_t)max;
	p->bytes = max > 255 ? 2 : 1;
	p->data = in.p + 1;
	if ((in.n - 1) / p->bytes / p->channels / p->width < (uint64_t)p->height)
		return bad(err, "it is cut short");
	return 0;
}

/* Channels first or last, if that can be. */
static bool try_layout(const TccWant *w, const Picture *p, bool channels_first, Layout *l)
{
	int first = w->rank - 3;
	int64_t c = w->dims[channels_first ? first : first + 2];
	*l = channels_first ? (Layout){first + 1, first + 2, first, 0}
	                    : (Layout){first, first + 1, first + 2, 0};
	l->channels = c < 0 ? p->channels : (int)c;
	return c < 0 || c == 1 || c == 3;
}

static bool same_size(const TccWant *w, const Picture *p, const Layout *l)
{
	return (w->dims[l->h] < 0 || w->dims[l->h] == p->height) &&
		(w->dims[l->w] < 0 || w->dims[l->w] == p->width);
}

/* Which axes of the input are what; where both ways can be, the one that has the right size. */
static bool find_layout(const TccWant *w, const Picture *p, Layout *l)
{
	if (w->rank == 2) {
		*l = (Layout){0, 1, -1, 1};
		return true;
	}
	if ((w->rank != 3 && w->rank != 4) || (w->rank == 4 && w->dims[0] > 1))
		return false;
	Layout last;
	bool is_first = try_layout(w, p, true, l), is_last = try_layout(w, p, false, &last);
	if (is_last && (!is_first || (!same_size(w, p, l) && same_size(w, p, &last))))
		*l = last;
	return is_first || is_last;
}

/* Sample c of a pixel in 0 to 1, converted to `channels` channels. */
static double sample(const Picture *p, int64_t pixel, int c, int channels)
{
	double v[3];
	for (int k = 0; k < p->channels; k++) {
		const uint8_t *s = p->data + (pixel * p->channels + k) * p->bytes;
		v[k] = (p->bytes == 2 ? s[0] << 8 | s[1] : s[0]) / (double)p->max;
		if (v[k] > 1)
			v[k] = 1;       /* no valid picture has more than max */
	}
	if (p->channels == channels)
		return v[c];
	return p->channels == 1 ? v[0] : 0.299 * v[0] + 0.587 * v[1] + 0.114 * v[2];
}

static void fill(const Picture *p, const Layout *l, TccValue *v)
{
	int64_t stride_c = l->c > l->w ? 1 : p->width * p->height;
	int64_t stride_p = l->c > l->w ? l->channels : 1;
	for (int64_t i = 0; i < p->width * p->height; i++)
		for (int c = 0; c < l->channels; c++) {
			int64_t at = i * stride_p + c * stride_c;
			double s = sample(p, i, c, l->channels);
			if (v->dtype == TCC_U8)
				((uint8_t *)v->u.tensor.data)[at] = (uint8_t)(s * 255 + 0.5);
			else
				((float *)v->u.tensor.data)[at] = (float)s;
		}
}

int tcc_pnm_read(TccBytes in, const TccWant *w, TccValue *v, TccErr *err)
{
	Picture p = {0};
	Layout l;
	int64_t dims[TCC_MAX_RANK];
	int rc = parse(in, &p, err);
	if (rc)
		return rc;
	if (w->kind > TCC_TENSOR || (w->dtype != TCC_U8 && w->dtype != TCC_F32))
		return tcc_fail(err, TCC_UNSUPPORTED, "a picture can only be a tensor of uint8 or float32");
	if (!find_layout(w, &p, &l))
		return tcc_fail(err, TCC_UNSUPPORTED, "a picture needs an input of shape [1,C,H,W], "
		                "[1,H,W,C], [C,H,W], [H,W,C] or [H,W], with C 1 or 3");
	if (!same_size(w, &p, &l))
		return tcc_fail(err, TCC_BAD_DATA,
			"the picture is %lld wide and %lld high, the input needs "
		                "%lld and %lld", (long long)p.width, (long long)p.height,
		                (long long)w->dims[l.w], (long long)w->dims[l.h]);
	dims[0] = 1;
	dims[l.h] = p.height;
	dims[l.w] = p.width;
	if (l.c >= 0)
		dims[l.c] = l.channels;
	if ((rc = tcc_tensor_new(v, w->dtype, w->rank, dims, err)))
		return rc;
	fill(&p, &l, v);
	return 0;
}
