/*
 * Quotients that are only seen rounded to an integer of a few bits (quantization):
 *
 *	d(rint(x / s) + z)   ->   d(rint(fma(x, r, x * t)) + z)        s, z constants, r + t = 1/s
 *
 * with r the reciprocal cut to f32 and t what is left of it: two operations in place of a division,
 * which takes as long as thirty. Both quotients grow with x, for r and t have one sign, and neither
 * makes a NaN of what is none. So they are rounded alike for every x if they are so beside each of
 * the few places where the integer changes, which is tried for each s and z: the rewrite is exact.
 */
#include <math.h>
#include "ir/ir.h"
#include "ir/machine.h"
#include "opt/opt.h"

enum { MAX_BITS = 8 };

typedef struct Quotient { float s, r, t; } Quotient;

/* With volatile, so that each operation is rounded, whatever host. */
static float
divided(const Quotient *q, float x)
{
	volatile float y = x / q->s;

	return rintf(y);
}

static float
multiplied(const Quotient *q, float x)
{
	volatile float low = x * q->t, y = fmaf(x, q->r, low);

	return rintf(y);
}

/* Are both rounded alike between the integers, and beyond them to such beyond them? */
static bool
rounded_alike(const Quotient *q, int least, int most)
{
	volatile float x;
	int n;

	for (n = least + 1; n <= most; n++) {    /* x: the first that gives n */
		x = (float)((n - 0.5) * (double)q->s);
		while (divided(q, x) >= (float)n)
			x = nextafterf(x, -INFINITY);
		while (divided(q, x) < (float)n)
			x = nextafterf(x, INFINITY);
		if (multiplied(q, x) < (float)n || multiplied(q, nextafterf(x, -INFINITY)) >= (float)n)
			return false;
	}
	return true;
}

/* The reciprocal of s in two parts, each of s's sign; false out of range of floats. */
static bool
reciprocal_of(double s, Quotient *q)
{
	if (!(s > 0x1p-80 && s < 0x1p80))
		return false;
	*q = (Quotient){.s = (float)s, .r = (float)(1 / s)};
	if ((double)q->r * s > 1)
		q->r = nextafterf(q->r, 0);
	q->t = (float)((1 - (double)q->r * s) / s);
	return true;
}

Node *
rounded_quotient(Module *m, DType to, Node *e)
{
	Node *add = e->code == O_ADD && e->in[1]->code == O_NUM ? e : NULL, *rint_ = add ? e->in[0] : e,
		*div = rint_->code == O_RINT ? rint_->in[0] : NULL, *x, *y;
	double z = add ? add->in[1]->num.f : 0;
	int bits = dtypes[to].bits, lo = dt_signed(to) ? -(1 << (bits - 1)) : 0;
	Quotient q;

	if (!m->machine || (!machine_fma(m->machine) && !machine_gpu(m->machine)) || !dt_int(to)
	 || bits > MAX_BITS || !div || div->code != O_DIV || div->type->dtype != DT_F32
	 || div->in[1]->code != O_NUM || z != rint(z) || fabs(z) > 1 << MAX_BITS
	 || !reciprocal_of(div->in[1]->num.f, &q)
	 || !rounded_alike(&q, lo - (int)z, lo + (1 << bits) - 1 - (int)z))
		return e;
	x = div->in[0];
	y = x_mul(m, x, x_flt(m, DT_F32, q.r));
	if (q.t != 0)
		y = x_op(m, O_FMA, 3, (Node *[]){x, x_flt(m, DT_F32, q.r), x_mul(m, x, x_flt(m, DT_F32, q.t))},
			DT_F32);
	y = x1(m, O_RINT, y);
	return add ? x_add(m, y, add->in[1]) : y;
}
