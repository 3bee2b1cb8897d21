/* Kernels at loop level, made by hand: what the tests of the code generators share. */
#ifndef TEST_KERNELS_H
#define TEST_KERNELS_H

#include "ir/ir.h"

static inline Node *kidx(Module *m, int64_t v) { return x_idx(m, v); }

static inline Node *load1(Module *m, Node *b, Node *i) { return l_load(m, b, 1, &i); }

static inline void store1(Module *m, Region *r, Node *b, Node *i, Node *v)
{
	l_store(m, r, b, 1, &i, v);
}

static inline Node *buf(Module *m, const char *name, DType d, Node *n)
{
	return l_buffer(m, name, d, SP_GLOBAL, 1, &n);
}

static inline Node *tile(Module *m, const char *name, DType d, Space s, int64_t a, int64_t b,
	int64_t c)
{
	int64_t e[3] = { a, b, c };
	Node *n[3];
	int rank = 0;

	for (int k = 0; k < 3; k++)
		if (e[k])
			n[rank++] = kidx(m, e[k]);
	return l_buffer(m, name, d, s, rank, n);
}

static inline Kernel *kernel(Module *m, const char *name, int nbufs, Node **bufs, int outs,
	int nsyms, Node **syms)
{
	Kernel *k = NEW(m, Kernel);

	k->name = name;
	k->nbufs = nbufs;
	k->bufs = arena_dup(m->arena, bufs, sizeof *bufs * (size_t)nbufs);
	k->writes = NEWN(m, bool, nbufs);
	for (int i = nbufs - outs; i < nbufs; i++)
		k->writes[i] = true;
	k->nsyms = nsyms;
	k->syms = syms ? arena_dup(m->arena, syms, sizeof *syms * (size_t)nsyms) : NULL;
	k->args = k->syms;
	k->body = region_new(m, name);
	k->grid[0] = k->grid[1] = k->grid[2] = kidx(m, 1);
	k->schedule = "class=test";
	return k;
}

/* The loops that a kernel begins with; *i the unit, *t the thread. Returns where statements go. */
static inline Region *cpu_frame(Module *m, Kernel *k, Node *units, Node **i)
{
	Region *r = region_new(m, "units");

	*i = x_axis(m, units);
	k->grid[0] = units;
	l_for(m, k->body, F_PARALLEL, *i, r);
	return r;
}

static inline Region *gpu_frame(Module *m, Kernel *k, Node *gx, Node *gy, int block, Node **bx,
	Node **by, Node **t, Region **outside)
{
	Region *rx = region_new(m, "bx"), *ry = rx, *rt = region_new(m, "t");

	*bx = x_axis(m, gx);
	l_for(m, k->body, F_GRID_X, *bx, rx);
	k->grid[0] = gx;
	if (gy) {
		ry = region_new(m, "by");
		*by = x_axis(m, gy);
		k->grid[1] = gy;
		l_for(m, rx, F_GRID_Y, *by, ry);
	}
	*outside = ry;
	*t = x_axis(m, kidx(m, block));
	k->block = block;
	/* allocations go before the block loop: the caller adds it when they are made */
	return rt;
}

static inline Region *loop(Module *m, Region *r, ForKind kind, int64_t n, Node **axis)
{
	Region *b = region_new(m, "body");

	*axis = x_axis(m, kidx(m, n));
	l_for(m, r, kind, *axis, b);
	return b;
}

/* y = y + a * x, n symbolic; a is x[n]. */
static inline Kernel *k_axpy(Module *m, bool gpu)
{
	Node *n = x_sym(m, "n", 0, INT32_MAX - 1), *i, *bx, *by, *t;
	Node *b[2] = { buf(m, "x", DT_F32, x_addi(m, n, 1)), buf(m, "y", DT_F32, n) };
	Kernel *k = kernel(m, "axpy", 2, b, 1, 1, &n);
	Region *out, *r, *in;

	if (gpu) {
		r = gpu_frame(m, k, x_ceildiv(m, n, kidx(m, 256)), NULL, 256, &bx, &by, &t, &out);
		l_for(m, out, F_BLOCK, t, r);
		i = x_add(m, x_muli(m, bx, 256), t);
		in = region_new(m, "then");
		l_when(m, r, x_lt(m, i, n), in, NULL);
	} else {
		in = cpu_frame(m, k, n, &i);
	}
	store1(m, in, b[1], i, x_add(m, load1(m, b[1], i),
		x_mul(m, load1(m, b[0], n), load1(m, b[0], i))));
	return k;
}

enum { ROW = 256 };

/* y[r, :] = softmax of x[r, :] in rows of ROW; lanes: 16 on a CPU, 128 threads on a GPU. */
static inline Kernel *k_softmax(Module *m, bool gpu)
{
	Node *n = x_sym(m, "rows", 0, 1 << 20), *r, *by, *t = NULL, *v, *c, *at, *acc[2], *let[2];
	Node *size = x_muli(m, n, ROW);
	Node *b[2] = { buf(m, "x", DT_F32, size), buf(m, "y", DT_F32, size) };
	Kernel *k = kernel(m, "softmax_rows", 2, b, 1, 1, &n);
	int lanes = gpu ? 128 : 16;
	Region *out, *body = gpu ? gpu_frame(m, k, n, NULL, lanes, &r, &by, &t, &out) :
		cpu_frame(m, k, n, &r), *in;

	for (int pass = 0; pass < 3; pass++) {
		Comb comb = pass ? COMB_SUM : COMB_MAX;
		if (pass < 2) {
			acc[pass] = tile(m, pass ? "sum" : "most", DT_F32, SP_REG, lanes, 0, 0);
			l_alloc(m, gpu ? out : body, acc[pass]);
			in = body;
			if (!gpu)
				in = loop(m, body, F_VECTOR, lanes, &v);
			else
				v = t;
			store1(m, in, acc[pass], v, x_comb_identity(m, comb, DT_F32));
		}
		in = loop(m, body, F_SERIAL, ROW / lanes, &c);
		if (!gpu)
			in = loop(m, in, F_VECTOR, lanes, &v);
		at = x_add(m, x_muli(m, r, ROW), x_add(m, x_muli(m, c, lanes), v));
		Node *x = load1(m, b[0], at);
		if (pass)
			x = x1(m, O_EXP, x_sub(m, x, let[0]));
		if (pass < 2) {
			store1(m, in, acc[pass], v, x_comb(m, comb, load1(m, acc[pass], v), x));
			let[pass] = l_let(m, body, l_fold(m, comb, acc[pass], v, 0, NULL));
		} else {
			store1(m, in, b[1], at, x2(m, O_DIV, x, let[1]));
		}
	}
	if (gpu)
		l_for(m, out, F_BLOCK, t, body);
	return k;
}

enum { MM = 128 };

static inline Node *muladd(Module *m, Node *a, Node *b, Node *c)
{
	Node *in[3] = { a, b, c };
	return x_op(m, O_MULADD, 3, in, DT_NONE);
}

/* c = a * b, MM x MM, a register tile of 4 x 2 vectors of 16. */
static inline Kernel *k_matmul_cpu(Module *m)
{
	Node *size = kidx(m, MM * MM), *u, *j, *i, *k2, *jj, *v;
	Node *b[3] = { buf(m, "a", DT_F32, size), buf(m, "b", DT_F32, size),
		buf(m, "c", DT_F32, size) };
	Kernel *k = kernel(m, "matmul", 3, b, 1, 0, NULL);
	Region *unit = cpu_frame(m, k, kidx(m, MM / 4), &u), *r, *rk;
	Node *acc = tile(m, "acc", DT_F32, SP_REG, 4, 2, 16);

	Region *rj = loop(m, unit, F_SERIAL, MM / 32, &j);
	l_alloc(m, rj, acc);
	for (int pass = 0; pass < 3; pass++) {
		rk = pass == 1 ? loop(m, rj, F_SERIAL, MM, &k2) : rj;
		r = loop(m, rk, F_UNROLL, 4, &i);
		r = loop(m, r, F_UNROLL, 2, &jj);
		r = loop(m, r, F_VECTOR, 16, &v);
		Node *idx[3] = { i, jj, v };
		Node *row = x_add(m, x_muli(m, u, 4), i);
		Node *col = x_add(m, x_muli(m, j, 32), x_add(m, x_muli(m, jj, 16), v));
		Node *old = l_load(m, acc, 3, idx);
		if (pass == 0)
			l_store(m, r, acc, 3, idx, x_flt(m, DT_F32, 0));
		else if (pass == 1)
			l_store(m, r, acc, 3, idx, muladd(m, load1(m, b[0], x_add(m, x_muli(m, row, MM), k2)),
				load1(m, b[1], x_add(m, x_muli(m, k2, MM), col)), old));
		else
			store1(m, r, b[2], x_add(m, x_muli(m, row, MM), col), old);
	}
	return k;
}

/* The same on a GPU: blocks of 64 x 64 by 256 threads of 4 x 4, steps of 16 in shared memory. */
static inline Kernel *k_matmul_gpu(Module *m, bool planted_race)
{
	Node *size = kidx(m, MM * MM), *bx = NULL, *by = NULL, *t, *i, *j, *kk, *k2, *v, *idx[2];
	Node *b[3] = { buf(m, "a", DT_F32, size), buf(m, "b", DT_F32, size),
		buf(m, "c", DT_F32, size) };
	Kernel *k = kernel(m, planted_race ? "matmul_race" : "matmul", 3, b, 1, 0, NULL);
	Region *out, *th = gpu_frame(m, k, kidx(m, MM / 64), kidx(m, MM / 64), 256, &bx, &by, &t, &out);
	Node *as = tile(m, "as", DT_F32, SP_SHARED, 16, 64, 0),
		*bs = tile(m, "bs", DT_F32, SP_SHARED, 16, 64, 0);
	Node *acc = tile(m, "acc", DT_F32, SP_REG, 4, 4, 256), *ai[3];
	Node *four = kidx(m, 4), *sixteen = kidx(m, 16);
	Region *r, *step;

	l_alloc(m, out, as);
	l_alloc(m, out, bs);
	l_alloc(m, out, acc);
	k->shared = 2 * 16 * 64 * 4;
	r = loop(m, loop(m, th, F_UNROLL, 4, &i), F_UNROLL, 4, &j);
	ai[0] = i, ai[1] = j, ai[2] = t;
	l_store(m, r, acc, 3, ai, x_flt(m, DT_F32, 0));
	step = loop(m, th, F_SERIAL, MM / 16, &kk);
	/* a: row t / 4, columns 4 * (t mod 4)...; b: row t / 16, columns 4 * (t mod 16)... */
	r = loop(m, step, F_VECTOR, 4, &v);
	Node *arow = x_add(m, x_muli(m, by, 64), x_fdiv(m, t, four));
	Node *acol = x_add(m, x_muli(m, x_mod(m, t, four), 4), v);
	idx[0] = acol, idx[1] = x_fdiv(m, t, four);
	l_store(m, r, as, 2, idx, load1(m, b[0],
		x_add(m, x_muli(m, arow, MM), x_add(m, x_muli(m, kk, 16), acol))));
	r = loop(m, step, F_VECTOR, 4, &v);
	Node *brow = x_add(m, x_muli(m, kk, 16), x_fdiv(m, t, sixteen));
	idx[0] = x_fdiv(m, t, sixteen), idx[1] = x_add(m, x_muli(m, x_mod(m, t, sixteen), 4), v);
	l_store(m, r, bs, 2, idx, load1(m, b[1],
		x_add(m, x_muli(m, brow, MM), x_add(m, x_muli(m, bx, 64), idx[1]))));
	l_barrier(m, step);
	r = loop(m, loop(m, loop(m, step, F_UNROLL, 16, &k2), F_UNROLL, 4, &i), F_UNROLL, 4, &j);
	ai[0] = i, ai[1] = j, ai[2] = t;
	Node *rowi = x_add(m, x_muli(m, x_fdiv(m, t, sixteen), 4), i);
	Node *colj = x_add(m, x_muli(m, x_mod(m, t, sixteen), 4), j);
	Node *ia[2] = { k2, rowi }, *ib[2] = { k2, colj };
	l_store(m, r, acc, 3, ai, muladd(m, l_load(m, as, 2, ia), l_load(m, bs, 2, ib),
		l_load(m, acc, 3, ai)));
	if (!planted_race)
		l_barrier(m, step);
	r = loop(m, loop(m, th, F_UNROLL, 4, &i), F_VECTOR, 4, &j);
	ai[0] = i, ai[1] = j, ai[2] = t;
	rowi = x_add(m, x_muli(m, by, 64), x_add(m, x_muli(m, x_fdiv(m, t, sixteen), 4), i));
	colj = x_add(m, x_muli(m, bx, 64), x_add(m, x_muli(m, x_mod(m, t, sixteen), 4), j));
	store1(m, r, b[2], x_add(m, x_muli(m, rowi, MM), colj), l_load(m, acc, 3, ai));
	l_for(m, out, F_BLOCK, t, th);
	return k;
}

/* Elementwise over n (a multiple of 8): value makes the element from its index. */
static inline Kernel *k_map(Module *m, bool gpu, const char *name, int nb, Node **b,
	Node *(*value)(Module *, Node **b, Node *i))
{
	Node *n = x_sym(m, "n", 0, 1 << 24), *i, *bx, *by, *t, *v;
	Node *units = x_ceildiv(m, n, kidx(m, gpu ? 1024 : 8));
	Kernel *k = kernel(m, name, nb, b, 1, 1, &n);
	Region *out, *r = gpu ? gpu_frame(m, k, units, NULL, 128, &bx, &by, &t, &out) :
		cpu_frame(m, k, units, &i), *in = r;

	if (gpu) {
		l_for(m, out, F_BLOCK, t, r);
		i = x_add(m, x_muli(m, bx, 128), t);
		in = region_new(m, "then");
		l_when(m, r, x_lt(m, x_muli(m, i, 8), n), in, NULL);
	}
	in = loop(m, in, F_VECTOR, 8, &v);
	i = x_add(m, x_muli(m, i, 8), v);
	store1(m, in, b[nb - 1], i, value(m, b, i));
	return k;
}

/* idx[i] outside of 100 rows is an error; where mask is 0 nothing is read. */
static inline Node *gather_value(Module *m, Node **b, Node *i)
{
	Node *j = x_cast(m, DT_INDEX, load1(m, b[1], i));
	Node *in[2] = { j, kidx(m, 100) };
	Node *at = x_op(m, O_BOUND, 2, in, DT_NONE);
	Node *x = load1(m, b[0], at);
	Node *ok = x_ne(m, load1(m, b[2], i), x_int(m, DT_U8, 0));
	return x_select(m, ok, x_add(m, x_mul(m, x, x), x), x_flt(m, DT_F32, -1));
}

static inline Kernel *k_gather(Module *m, bool gpu)
{
	Node *n = kidx(m, 1 << 20);
	Node *b[4] = { buf(m, "table", DT_F32, n), buf(m, "index", DT_I64, n), buf(m, "mask", DT_U8, n),
		buf(m, "y", DT_F32, n) };
	static const char *text[] = { "Gather 'g'" };
	Kernel *k = k_map(m, gpu, "gather", 4, b, gather_value);

	k->errors = text;
	k->nerrors = 1;
	return k;
}

/* f16: max(2x + 1, 0) */
static inline Node *half_value(Module *m, Node **b, Node *i)
{
	Node *x = x_cast(m, DT_F32, load1(m, b[0], i));
	x = x_add(m, x_mul(m, x, x_flt(m, DT_F32, 2)), x_flt(m, DT_F32, 1));
	return x_cast(m, DT_F16, x_max(m, x, x_flt(m, DT_F32, 0)));
}

static inline Kernel *k_half(Module *m, bool gpu)
{
	Node *n = kidx(m, 1 << 20);
	Node *b[2] = { buf(m, "x", DT_F16, n), buf(m, "y", DT_F16, n) };
	return k_map(m, gpu, "half", 2, b, half_value);
}

/* i8: round(x * 0.5f) saturated, plus wrapping x + x */
static inline Node *int8_value(Module *m, Node **b, Node *i)
{
	Node *x = load1(m, b[0], i);
	Node *f = x1(m, O_RINT, x_mul(m, x_cast(m, DT_F32, x), x_flt(m, DT_F32, 1.5)));
	return x_sub(m, x_cast(m, DT_I8, f), x_add(m, x, x));
}

static inline Kernel *k_int8(Module *m, bool gpu)
{
	Node *n = kidx(m, 1 << 20);
	Node *b[2] = { buf(m, "x", DT_I8, n), buf(m, "y", DT_I8, n) };
	return k_map(m, gpu, "int8", 2, b, int8_value);
}

#endif
