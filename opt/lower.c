/*
 * lower: graph level to tensor level. Every operator is replaced by its definition; small tensors
 * whose elements are all known become constants. Needs a built graph; leaves no graph operator.
 */
#include "opt.h"

/* A constant with the known elements of n, or NULL. */
static Node *
materialize(Module *m, Node *n)
{
	int64_t dims[MAX_RANK], count = 1, k;
	Data *d;
	int i;

	if (!n->elems || n->type->kind != T_TENSOR || !const_dims(n, dims))
		return NULL;
	for (i = 0; i < rank_of(n); i++)
		count *= dims[i];
	for (k = 0; k < count; k++)
		if (!n->elems[k] || n->elems[k]->code != O_NUM)
			return NULL;
	d = data_new(m, dtype_of(n), count, NULL);
	for (k = 0; k < count; k++)
		data_set((void *)d->bytes, dtype_of(n), k, n->elems[k]->num);
	return t_const(m, dtype_of(n), rank_of(n), dims, d);
}

static Node *
lower_node(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Node *c;

	(void)in;
	(void)ctx;
	if (n->type && n->type->kind == T_TENSOR && n->code != O_PARAM && n->code != O_CONST
	 && (c = materialize(m, n)))
		return c;
	return n->def && n->code != O_SYM ? map_get(done, n->def) : NULL;
}

bool
pass_lower(Module *m)
{
	rewrite_module(m, true, lower_node, NULL);
	return true;
}
