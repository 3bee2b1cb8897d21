/*
 * winograd: convolutions of stride 1 by Winograd's minimal filtering (Lavin and Gray, Fast
 * Algorithms for Convolutional Neural Networks, 2015). m outputs of a filter of r taps are made of
 * a = m + r - 1 products instead of m r: polynomials are multiplied at a points (Toom and Cook),
 *
 *	y = A' ((G w) (B' x))
 *
 * and in two dimensions, with a tile of a x a inputs p and m x m outputs,
 *
 *	u[s,t,c,k] = sum(i,j) G[s,i] G[t,j] w[k,c,i,j]                (now)
 *	v[s,t,p,c] = sum(i,j) B'[s,i] B'[t,j] x[c, m py + i, m px + j]
 *	y[k, m py + i, m px + j] = sum(s,t) A'[i,s] A'[j,t] (sum(c) v[s,t,p,c] u[s,t,c,k])
 *
 * The points 0, 1, -1, 1/2, -2 and infinity keep errors small and the entries of B' and A' exact
 * (Barabasz et al., Error Analysis and Improving the Accuracy of Winograd Convolution, 2018).
 *
 * Whether it pays is a matter of bytes as well: u has a^2 / r^2 times the weights' elements, which
 * at batch 1 come from memory. Both ways are estimated by the machine's row. Class real: a layer's
 * own weights must keep the error under 1e-5 of the output's largest magnitude on sampled inputs,
 * by sums of doubles; that is done here, each is listed in the precision ledger with what was
 * found, and none is rewritten with --strict.
 *
 * Needs the tensor level after folding; leaves v and y in terms of v. Their schedule stands in
 * transform.c; GPUs have none.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sched.h"

enum { MAX_POINTS = 6, MAX_TAPS = 5, SAMPLES = 4, MAX_COLUMNS_TRIED = 16 };
static const double MAX_ERROR = 1e-5;

/* F(m, r): at = A', g = G, bt = B'. */
typedef struct Toom {
	int m, r, a;
	double at[MAX_POINTS][MAX_POINTS], g[MAX_POINTS][MAX_TAPS], bt[MAX_POINTS][MAX_POINTS];
} Toom;

/* The convolution that a tensor is: sum over channels and taps of
 * x[.., c, y + i, z + j] w[k, c, i, j], in any order of the dimensions. */
typedef struct Layer {
	Node *t, *sum, *x, *w; /* x, w: the reads */
	Node *k, *c;           /* axes of output and input channels */
	Node *out[2], *tap[2]; /* axes of the window: of the result, of the sum */
	int dim[2];            /* of x: the window's */
	int wdim[4];           /* of w: those of k, c, tap[0], tap[1] */
	int nrows; Node *rows[MAX_RANK];   /* axes of the result that x has besides */
	int64_t nk, nc;
} Layer;

/* ---- the matrices ---------------------------------------------------------------------------- */

/* The coefficients of prod (z - point) over all but one of n points; skip < 0: over all. */
static void
polynomial(const double *points, int n, int skip, double *coef)
{
	int i, k, deg = 0;

	memset(coef, 0, sizeof *coef * MAX_POINTS);
	coef[0] = 1;
	for (i = 0; i < n; i++) {
		if (i == skip)
			continue;
		for (k = ++deg; k >= 0; k--)
			coef[k] = (k ? coef[k - 1] : 0) - points[i] * coef[k];
	}
}

static Toom
toom(int a, int r)
{
	static const double points[MAX_POINTS - 1] = {0, 1, -1, 0.5, -2};
	Toom f = {.m = a - r + 1, .r = r, .a = a};
	double n;
	int i, j;

	for (j = 0; j < a - 1; j++) {
		for (i = 0, n = 1; i < a - 1; i++)
			n *= i == j ? 1 : points[j] - points[i];
		for (i = 0; i < f.m; i++)
			f.at[i][j] = i ? pow(points[j], i) : 1;
		for (i = 0; i < r; i++)
			f.g[j][i] = (i ? pow(points[j], i) : 1) / n;
		polynomial(points, a - 1, j, f.bt[j]);
	}
	f.at[f.m - 1][a - 1] = f.g[a - 1][r - 1] = 1;
	polynomial(points, a - 1, -1, f.bt[a - 1]);
	return f;
}

/* ---- what is rewritten ----------------------------------------------------------------------- */

static int
axis_at(const Node *read, const Node *axis)
{
	int i;

	for (i = 1; i < read->nin; i++)
		if (read->in[i] == axis)
			return i - 1;
	return -1;
}

static bool
is_axis_of(const Node *t, const Node *axis)
{
	int i;

	for (i = 0; i + 1 < t->nin; i++)
		if (t->in[i] == axis)
			return true;
	return false;
}

/* w's dimensions: taps and channels of the sum, and the channel of the result. */
static bool
match_weights(Layer *l)
{
	int64_t dims[MAX_RANK];
	int i, d, taps = 0;
	bool plain;

	if (definition(l->w->in[0])->code != O_CONST || rank_of(l->w->in[0]) != 4 || l->sum->nin != 4
	 || !const_dims(l->w->in[0], dims))
		return false;
	for (i = 0; i < 3; i++) {
		if ((d = axis_at(l->w, l->sum->in[i])) < 0)
			return false;
		plain = axis_at(l->x, l->sum->in[i]) >= 0;
		if (plain ? l->c != NULL : taps == 2)
			return false;
		l->wdim[plain ? 1 : 2 + taps] = d;
		if (plain)
			l->c = l->sum->in[i];
		else
			l->tap[taps++] = l->sum->in[i];
	}
	for (d = 0; d < 4 && is_axis_of(l->sum, l->w->in[1 + d]); d++)
		;
	if (!l->c || d == 4 || !is_axis_of(l->t, l->w->in[1 + d]))
		return false;
	l->k = l->w->in[1 + d];
	l->wdim[0] = d;
	l->nk = dims[d];
	l->nc = dims[l->wdim[1]];
	return !contains(l->x, l->k);
}

/* x's: rows, the channel, and twice an axis of the result plus a tap. */
static bool
match_input(Module *m, Layer *l)
{
	Node *e, *coef, *rest;
	int d, i, k;

	for (d = 0; d < rank_of(l->x->in[0]); d++) {
		e = l->x->in[1 + d];
		for (k = 0; k < 2 && !contains(e, l->tap[k]); k++)
			;
		if (k < 2) {
			if (l->out[k] || !linear_in(m, e, l->tap[k], &coef, &rest) || !is_intv(coef, 1)
			 || !is_axis_of(l->t, rest))
				return false;
			l->out[k] = rest;
			l->dim[k] = d;
		} else if (e != l->c && is_axis_of(l->t, e))
			l->rows[l->nrows++] = e;
		else if (e != l->c && e->code != O_NUM)
			return false;
	}
	for (i = 0; i < l->nrows; i++)
		if (l->rows[i] == l->out[0] || l->rows[i] == l->out[1])
			return false;
	return l->out[0] && l->out[1] && l->out[0] != l->out[1] && axis_at(l->x, l->c) >= 0;
}

static bool
layer_of(Module *m, Node *t, Layer *l)
{
	Node **list, *mul;
	int i, n, loops = 0;

	*l = (Layer){.t = t};
	if (t->code != O_TENSOR)
		return false;
	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_REDUCE || list[i]->code == O_ITER) {
			l->sum = list[i];
			loops++;
		}
	free(list);
	if (loops != 1 || l->sum->code != O_REDUCE || l->sum->n != COMB_SUM
	 || l->sum->type->dtype != DT_F32)
		return false;
	mul = l->sum->in[l->sum->nin - 1];
	if (mul->code != O_MUL || mul->in[0]->code != O_READ || mul->in[1]->code != O_READ)
		return false;
	i = definition(mul->in[0]->in[0])->code == O_CONST;
	l->w = mul->in[!i];
	l->x = mul->in[i];
	return match_weights(l) && match_input(m, l);
}

static bool
taps_of(const Layer *l, int64_t *r)
{
	return is_int(l->tap[0]->in[0], r) && is_intv(l->tap[1]->in[0], *r) && *r >= 2 && *r <= MAX_TAPS;
}

/* ---- does it pay? ---------------------------------------------------------------------------- */

/* Rows of the result for one place of the window. */
static double
row_count(Module *m, const Layer *l)
{
	double n = 1;
	int i;

	for (i = 0; i < l->nrows; i++)
		n *= (double)likely_extent(m, l->rows[i]->in[0]);
	return n;
}

static double
tile_count(Module *m, const Layer *l, int size)
{
	double n = row_count(m, l);
	int i;

	for (i = 0; i < 2; i++)
		n *= ceil((double)likely_extent(m, l->out[i]->in[0]) / size);
	return n;
}

/* Seconds of so many multiply-adds of vectors at a share of the peak, and of bytes from memory. */
static double
seconds(const Machine *mach, double adds, double share, double bytes)
{
	double ports = mach->fma_ports ? mach->fma_ports : 1, ghz = mach->ghz ? mach->ghz : 2,
		gbs = mach->gbs ? mach->gbs : 10;

	return adds / (ports * ghz * 1e9 * share) + bytes / (gbs * 1e9);
}

/*
 * A product reaches some nine tenths of the peak, less where a sum is short. A transform makes each
 * of its elements of a in two passes, and reads and writes it. v goes through the caches; where
 * they do not hold it, through memory.
 */
static double
layer_time(const Sched *s, const Layer *l, const Toom *f)
{
	const Machine *mach = s->mach;
	double lanes = lanes_of(s, DT_F32), k = ceil((double)l->nk / lanes),
		c = ceil((double)l->nc / lanes), r2, a2, tiles, bytes, depth;

	if (!f) {
		r2 = (double)const_or(l->tap[0]->in[0], 1);
		r2 *= r2;
		return seconds(mach, tile_count(s->m, l, 1) * (double)l->nc * k * r2, 0.9,
			4 * r2 * (double)l->nc * (double)l->nk);
	}
	tiles = tile_count(s->m, l, f->m);
	a2 = f->a * f->a;
	depth = (double)l->nc / ((double)l->nc + 16);
	bytes = 4 * a2 * tiles * (double)l->nc;
	return seconds(mach, tiles * a2 * (double)l->nc * k, 0.9 * depth,
			4 * a2 * (double)l->nc * (double)l->nk)
		+ seconds(mach, tiles * a2 * (c + k) * (2 * f->a + 4), 0.7,
			bytes > (double)mach->l2 ? bytes : 0);
}

/* ---- the error ------------------------------------------------------------------------------- */

/* w: [k, c, taps]; x, v: [tile, c, a, a], and u: [c, a, a] of one k */
typedef struct Sample { Toom f; const float *w; float *x, *v, *u; int64_t nc, nk; } Sample;

/* splitmix64's next number, as one in [0, 1) */
static double
uniform(uint64_t *seed)
{
	uint64_t z = *seed += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* y = T x T' for n x a matrices T in f32 */
static void
both_sides(int n, int a, const double t[MAX_POINTS][MAX_POINTS], const float *x, float *y)
{
	float z[MAX_POINTS][MAX_POINTS];
	int i, j, k;

	memset(z, 0, sizeof z);
	for (i = 0; i < n; i++)
		for (j = 0; j < a; j++)
			for (k = 0; k < a; k++)
				z[i][j] += (float)t[i][k] * x[k * a + j];
	for (i = 0; i < n; i++)
		for (j = 0; j < n; j++)
			for (k = 0, y[i * n + j] = 0; k < a; k++)
				y[i * n + j] += z[i][k] * (float)t[j][k];
}

/* The larger one; NaN if one is. */
static double
larger(double a, double b)
{
	return a > b || isnan(a) ? a : b;
}

/* z = G w G' of one filter, in double */
static void
transform_filter(const Toom *f, const float *w, double *z)
{
	double y[MAX_POINTS][MAX_TAPS];
	int s, t, i, j;

	for (s = 0; s < f->a; s++)
		for (j = 0; j < f->r; j++)
			for (i = 0, y[s][j] = 0; i < f->r; i++)
				y[s][j] += f->g[s][i] * (double)w[i * f->r + j];
	for (s = 0; s < f->a; s++)
		for (t = 0; t < f->a; t++)
			for (j = 0, z[s * f->a + t] = 0; j < f->r; j++)
				z[s * f->a + t] += y[s][j] * f->g[t][j];
}

/* Output channel k of a tile: how far sums of floats are off, and the largest magnitude. */
static void
compare(const Sample *s, int64_t k, int tile, double *off, double *most)
{
	int a = s->f.a, a2 = a * a, r = s->f.r, m = s->f.m, i, j, p, q;
	float sum[MAX_POINTS * MAX_POINTS] = {0}, y[MAX_POINTS * MAX_POINTS];
	const float *x = s->x + tile * s->nc * a2, *v = s->v + tile * s->nc * a2,
		*w = s->w + k * s->nc * r * r;
	double exact[MAX_POINTS * MAX_POINTS] = {0};
	int64_t c;

	for (c = 0; c < s->nc; c++, x += a2, v += a2, w += r * r) {
		for (i = 0; i < a2; i++)
			sum[i] += v[i] * s->u[c * a2 + i];
		for (i = 0; i < m; i++)
			for (p = 0; p < r; p++)
				for (q = 0; q < r; q++)
					for (j = 0; j < m; j++)
						exact[i * m + j] += (double)x[(i + p) * a + j + q] * w[p * r + q];
	}
	both_sides(m, a, s->f.at, sum, y);
	for (i = 0; i < m * m; i++) {
		*off = larger(*off, fabs(y[i] - exact[i]));
		*most = larger(*most, fabs(exact[i]));
	}
}

/* Inputs of either sign, and positive ones. */
static void
sample_inputs(Sample *s)
{
	int64_t i, size = s->nc * s->f.a * s->f.a;
	uint64_t seed = 0;
	int tile;

	for (tile = 0; tile < SAMPLES; tile++)
		for (i = 0; i < size; i++)
			s->x[tile * size + i] = (float)(uniform(&seed) * (1 + tile % 2) - tile % 2);
	for (i = 0; i < SAMPLES * s->nc; i++)
		both_sides(s->f.a, s->f.a, s->f.bt, s->x + i * s->f.a * s->f.a, s->v + i * s->f.a * s->f.a);
}

/* The largest error by the largest magnitude. */
static double
sampled_error(const Toom *f, const float *w, int64_t nc, int64_t nk)
{
	int64_t size = nc * f->a * f->a, i, j, k,
		step = (nk + MAX_COLUMNS_TRIED - 1) / MAX_COLUMNS_TRIED;
	double off[2] = {0}, most[2] = {0}, z[MAX_POINTS * MAX_POINTS];
	Sample s = {.f = *f, .w = w, .nc = nc, .nk = nk};

	s.x = malloc(sizeof *s.x * (size_t)(size * (2 * SAMPLES + 1)));
	if (!s.x)
		abort();
	s.v = s.x + SAMPLES * size;
	s.u = s.v + SAMPLES * size;
	sample_inputs(&s);
	for (k = 0; k < nk; k += step) {
		for (i = 0; i < nc; i++) {
			transform_filter(f, w + (k * nc + i) * f->r * f->r, z);
			for (j = 0; j < f->a * f->a; j++)
				s.u[i * f->a * f->a + j] = (float)z[j];
		}
		for (i = 0; i < SAMPLES; i++)
			compare(&s, k, (int)i, &off[i % 2], &most[i % 2]);
	}
	free(s.x);
	off[0] = most[0] > 0 ? off[0] / most[0] : off[0];
	off[1] = most[1] > 0 ? off[1] / most[1] : off[1];
	return larger(off[0], off[1]);
}

/* ---- the tensors ----------------------------------------------------------------------------- */

/* The weights as [k, c, taps]. */
static float *
weights_in_order(const Layer *l, int64_t r)
{
	const Node *w = definition(l->w->in[0]);
	int64_t dims[MAX_RANK], stride[MAX_RANK], n = l->nk * l->nc * r * r, at, i;
	float *out = malloc(sizeof *out * (size_t)n);
	int d;

	if (!out || !const_dims(w, dims))
		abort();
	for (d = 3, at = 1; d >= 0; d--) {
		stride[d] = at;
		at *= dims[d];
	}
	for (i = 0; i < n; i++) {
		at = i % r * stride[l->wdim[3]] + i / r % r * stride[l->wdim[2]]
			+ i / (r * r) % l->nc * stride[l->wdim[1]] + i / (r * r) / l->nc * stride[l->wdim[0]];
		out[i] = (float)data_get(w->data, DT_F32, at).f;
	}
	return out;
}

/* u as [s, t, c, k], rounded once */
static void
transform_weights(const Toom *f, const float *w, int64_t nc, int64_t nk, float *u)
{
	double z[MAX_POINTS * MAX_POINTS];
	int64_t c, k;
	int i;

	for (c = 0; c < nc; c++)
		for (k = 0; k < nk; k++) {
			transform_filter(f, w + (k * nc + c) * f->r * f->r, z);
			for (i = 0; i < f->a * f->a; i++)
				u[(i * nc + c) * nk + k] = (float)z[i];
		}
}

static Node *
table(Module *m, int rows, int columns, const double t[MAX_POINTS][MAX_POINTS])
{
	int64_t dims[2] = {rows, columns};
	Data *d = data_new(m, DT_F32, rows * columns, NULL);
	int i;

	for (i = 0; i < rows * columns; i++)
		data_set((void *)d->bytes, DT_F32, i, (Num){.f = t[i / columns][i % columns]});
	return t_const(m, DT_F32, 2, dims, d);
}

static Node *
cell(Module *m, Node *t, Node *row, Node *column)
{
	return x_read(m, t, (Node *[]){row, column});
}

/* x with so many elements along the window, at least those it had: what is more is constant, and
 * used for no result that is kept. */
static Node *
reaching(Module *m, Node *x, const int *dim, Node *const *need)
{
	Node *axes[MAX_RANK], *idx[MAX_RANK], *shift[MAX_RANK], *in = x_bool(m, true), *fill, *from = x;
	bool padded = is_padding(m, x, shift), enough = true;
	int d, k;

	fill = padded ? x->in[x->nin - 1]->in[2] : x_int(m, dtype_of(x), 0);
	if (padded)
		from = padded_by(m, x);
	for (k = 0; k < 2; k++)
		enough &= prove_le(m, need[k], dim_of(x, dim[k]));
	if (enough)
		return x;
	for (d = 0; d < rank_of(x); d++) {
		k = d == dim[0] ? 0 : d == dim[1] ? 1 : -1;
		axes[d] = x_axis(m, k < 0 ? dim_of(x, d) : need[k]);
		idx[d] = padded ? x_sub(m, axes[d], shift[d]) : axes[d];
		in = x_and(m, in, x_and(m, x_le(m, x_idx(m, 0), idx[d]), x_lt(m, idx[d], dim_of(from, d))));
	}
	return t_tensor(m, rank_of(x), axes, x_select(m, in, x_read(m, from, idx), fill));
}

/* Tiles along the window, and rows and they as axes. */
static int
tile_axes(Module *m, const Layer *l, int size, Node **axes)
{
	int i;

	for (i = 0; i < l->nrows; i++)
		axes[i] = x_axis(m, l->rows[i]->in[0]);
	for (i = 0; i < 2; i++)
		axes[l->nrows + i] = x_axis(m, x_ceildiv(m, l->out[i]->in[0], x_idx(m, size)));
	return l->nrows + 2;
}

/* v[s, t, p, c] */
static Node *
transformed_input(Module *m, const Layer *l, const Toom *f)
{
	Node *tiles[MAX_RANK], *axes[4], *idx[MAX_RANK], *red[2], *need[2], *x, *e, *t,
		*bt = table(m, f->a, f->a, f->bt);
	Map map = {0};
	int n = tile_axes(m, l, f->m, tiles), i, d;

	axes[0] = x_axis(m, x_idx(m, f->a));
	axes[1] = x_axis(m, x_idx(m, f->a));
	axes[2] = x_axis(m, axes_product(m, n, tiles));
	axes[3] = x_axis(m, l->c->in[0]);
	digits(m, &map, n, tiles, axes[2]);
	for (i = 0; i < 2; i++) {
		red[i] = x_axis(m, x_idx(m, f->a));
		e = x_addi(m, l->out[i]->in[0], f->m - 1);   /* so that what it adds has a bound */
		need[i] = x_addi(m, x_sub(m, e, x_mod(m, e, x_idx(m, f->m))), f->r - 1);
	}
	x = reaching(m, l->x->in[0], l->dim, need);
	for (d = 0; d < rank_of(x); d++) {
		e = l->x->in[1 + d];
		for (i = 0; i < l->nrows; i++)
			if (e == l->rows[i])
				e = map_get(&map, tiles[i]);
		for (i = 0; i < 2; i++)
			if (d == l->dim[i])
				e = x_add(m, x_muli(m, map_get(&map, tiles[l->nrows + i]), f->m), red[i]);
		idx[d] = e == l->c ? axes[3] : e;
	}
	map_free(&map);
	e = x_mul(m, cell(m, bt, axes[1], red[1]), x_read(m, x, idx));
	e = x_reduce(m, COMB_SUM, 2, red, x_mul(m, cell(m, bt, axes[0], red[0]), e));
	t = t_tensor(m, 4, axes, e);
	t->loc = l->t->loc;
	return t;
}

/* The sum in terms of v and u. */
static Node *
transformed_sum(Module *m, const Layer *l, const Toom *f, Node *v, Node *u)
{
	Node *at = table(m, f->m, f->a, f->at), *red[2], *c = x_axis(m, l->c->in[0]),
		*size = x_idx(m, f->m), *tiles[MAX_RANK], *p = x_idx(m, 0), *e;
	int n = tile_axes(m, l, f->m, tiles), i;

	for (i = 0; i < n; i++)
		p = x_add(m, x_mul(m, p, tiles[i]->in[0]),
			i < l->nrows ? l->rows[i] : x_fdiv(m, l->out[i - l->nrows], size));
	for (i = 0; i < 2; i++)
		red[i] = x_axis(m, x_idx(m, f->a));
	e = x_mul(m, x_read(m, v, (Node *[]){red[0], red[1], p, c}),
		x_read(m, u, (Node *[]){red[0], red[1], c, l->k}));
	e = x_reduce(m, COMB_SUM, 1, &c, e);
	e = x_mul(m, cell(m, at, x_mod(m, l->out[1], size), red[1]), e);
	e = x_mul(m, cell(m, at, x_mod(m, l->out[0], size), red[0]), e);
	return x_reduce(m, COMB_SUM, 2, red, e);
}

/* u as a constant if the error is small enough. */
static Node *
weights_for(Module *m, const Layer *l, const Toom *f, double *error)
{
	int64_t dims[4] = {f->a, f->a, l->nc, l->nk};
	float *w = weights_in_order(l, f->r);
	Data *d = NULL;

	*error = sampled_error(f, w, l->nc, l->nk);
	if (*error < MAX_ERROR) {                /* no NaN either */
		d = data_new(m, DT_F32, dims[0] * dims[1] * dims[2] * dims[3], NULL);
		transform_weights(f, w, l->nc, l->nk, (float *)d->bytes);
	}
	free(w);
	return d ? t_const(m, DT_F32, 4, dims, d) : NULL;
}

static Node *
rewritten(Sched *s, const Layer *l)
{
	Module *m = s->m;
	double best = 0.9 * layer_time(s, l, NULL), time, error;
	int64_t r;
	Node *u = NULL, *x, *t = NULL;
	Toom f, take[2];
	int a, n = 0;

	if (!taps_of(l, &r))
		return NULL;
	for (a = 4; a <= MAX_POINTS; a += 2) {   /* the fastest first */
		if (a <= r)                      /* fewer than two results */
			continue;
		f = toom(a, (int)r);
		if ((time = layer_time(s, l, &f)) >= 0.9 * layer_time(s, l, NULL))
			continue;
		if (n && time < best)
			take[1] = take[0];
		take[n && time < best ? 0 : n] = f;
		best = n && time >= best ? best : time;
		n++;
	}
	for (a = 0; a < n && !u; a++) {
		f = take[a];
		u = weights_for(m, l, &f, &error);
	}
	if (!u)
		return NULL;
	x = transformed_sum(m, l, &f, transformed_input(m, l, &f), u);
	t = t_tensor(m, l->t->nin - 1, l->t->in, subst1(m, l->t->in[l->t->nin - 1], l->sum, x));
	t->loc = l->t->loc;
	ledger_add(m, arena_printf(m->arena, "winograd_%dx%d", f.m, f.m), "real", error, t->loc);
	return t;
}

static Node *
winograd_node(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Layer l;
	Node *t;

	if (n->code != O_TENSOR || (t = rebuild_node(m, n, in, done))->code != O_TENSOR)
		return NULL;
	t->loc = n->loc;
	return layer_of(m, t, &l) ? rewritten(ctx, &l) : NULL;
}

bool
pass_winograd(Module *m)
{
	Sched s = sched_open(m);

	if (!m->strict && !s.gpu)
		rewrite_module(m, false, winograd_node, &s);
	sched_close(&s);
	return true;
}
