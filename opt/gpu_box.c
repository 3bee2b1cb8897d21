/*
 * Tensors as the hardware's copies of boxes see them (TMA): dimensions fastest first, the first one
 * contiguous, the others multiples of 16 bytes apart. What only the sizes of a run tell becomes a
 * condition of the kernel.
 */
#include <stdlib.h>
#include "gpu_box.h"

bool
box_host_value(Node *e)
{
	Node **list;
	int i, n;
	bool yes = true;

	list = topo_scalar(e, &n);
	for (i = 0; i < n && yes; i++)
		yes = list[i]->code != O_READ && list[i]->code != O_AXIS && list[i]->code != O_LET;
	free(list);
	return yes;
}

bool
box_demand(Module *m, Node **fits, Node *cond)
{
	if (is_intv(cond, 0) || !box_host_value(cond))
		return false;
	*fits = x_and(m, *fits, cond);
	return true;
}

bool
box_sixteen(Module *m, Node **fits, Node *elements, int size)
{
	Node *bytes = x_muli(m, elements, size);

	return divisible(bytes, 16) ? box_host_value(bytes)
		: box_demand(m, fits, x_eq(m, x_mod(m, bytes, x_idx(m, 16)), x_idx(m, 0)));
}

bool
box_dim(Module *m, Node **fits, TensorMap *t, int size, Node *extent, Node *stride, int box)
{
	if (t->rank == MAP_RANK || !box_host_value(extent) || (t->rank && is_intv(extent, 1)
	 && !is_intv(stride, 1) && !divisible(x_muli(m, stride, size), 16)))
		return false;
	if (t->rank && (!box_sixteen(m, fits, stride, size)
	 || !box_demand(m, fits, x_lt(m, x_idx(m, 0), stride))))
		return false;
	if (!box_demand(m, fits, x_lt(m, x_idx(m, 0), extent)))
		return false;
	t->dim[t->rank] = extent;
	t->stride[t->rank] = stride;
	t->box[t->rank] = box;
	t->step[t->rank] = 1;
	t->rank++;
	return true;
}

void
box_map(KB *kb, TensorMap *t, Node *tensor)
{
	Node *buf = kb_buffer(kb, tensor, false);
	int i;

	for (i = 0; kb->bufs.at[i] != buf; i++)
		;
	t->buf = i;
	kb->k->maps[kb->k->nmaps++] = *t;
}

void
box_phase(Module *m, Region *r, Node *bars, const char *what, Node *bar, Node *number)
{
	l_sync(m, r, what, (Spot){bars, &bar}, number != NULL, &number);
}

void
box_order(Module *m, Region *r, const char *what, int n, Node *const *numbers)
{
	l_sync(m, r, what, (Spot){0}, n, numbers);
}

Node *
box_stage(Module *m, Region *r, Node *n, int stages, Node **parity)
{
	Node *all = x_idx(m, stages);

	if (parity)
		*parity = l_let(m, r, x_mod(m, x_fdiv(m, n, all), x_idx(m, 2)));
	return l_let(m, r, x_mod(m, n, all));
}
