/*
 * Calls of the runtime's routines (runtime/host*.c): what is not data-parallel, and what holds
 * sequences, optionals and maps.
 */
#include <stdlib.h>
#include <string.h>
#include "plan.h"

static void
call_routine(Planner *p, Region *out, const char *name, int n, Node *const *v)
{
	Node *args = arg_array(p, out, n, v);

	l_call(p->m, out, arena_printf(p->m->arena, "host.%s", name), 1, &args);
}

/* A sequence of known elements, one after the other. */
void
run_seq(Planner *p, Region *out, Node *n)
{
	Node *v[MAX_RANK + 5], *e;
	int id = value_buffer(p, n), i, k, c;
	bool seq = n->type->kind == T_SEQ;

	for (i = 0; i < n->nin; i++)
		ensure(p, out, n->in[i]);
	p->step++;
	v[0] = x_idx(p->m, id);
	v[1] = x_idx(p->m, dtypes[n->type->elem[0]->dtype].onnx);
	call_routine(p, out, seq ? "seq_new" : "value_none", seq ? 2 : 1, v);
	for (i = 0; i < n->nin; i++) {
		e = n->in[i];
		if (e->type->kind != T_TENSOR) {
			if (seq)
				diag_error(p->m->diag, X_UNSUPPORTED, n->loc, "a sequence of sequences");
			move_value(p, out, id, value_buffer(p, e));
			continue;
		}
		touch_buffer(p, e);
		c = 1;
		if (seq) {
			v[c++] = x_idx(p->m, id);
			v[c++] = x_idx(p->m, i);
		}
		v[c++] = x_idx(p->m, root_buffer(p, e));
		v[c++] = x_idx(p->m, rank_of(e));
		for (k = 0; k < rank_of(e); k++)
			v[c++] = host_value(p, out, dim_of(e, k));
		call_routine(p, out, seq ? "seq_insert" : "value_wrap", c, v);
	}
}

/*
 * One or more arguments of a routine, from the pattern at *c, which moves past it: d the result's
 * buffer, v the same as a view that the routine sets, 0..9 an operand's, nKD the size of operand
 * K's dimension D (1 past its rank), N the result's number of elements, NK operand K's, RK operand
 * K's rank and sizes, =K the integer that operand K holds, SK 0 if operand K has one element and
 * the result another number, else 1, #V the integer V.
 */
static int
host_argument(Planner *p, Region *out, Node *n, int id, const char **c, Node **v)
{
	char kind = *(*c)++, *end;
	bool other = strchr("nRS=", kind) || (kind == 'N' && **c >= '0' && **c <= '9');
	Node *t = other ? n->in[*(*c)++ - '0'] : kind >= '0' && kind <= '9' ? n->in[kind - '0'] : n;
	int d, k = 0;

	switch (kind) {
	case 'd': case 'v':
		v[k++] = x_idx(p->m, id);
		break;
	case '#':
		v[k++] = x_idx(p->m, strtoll(*c, &end, 10));
		*c = end;
		break;
	case 'n':
		d = *(*c)++ - '0';
		v[k++] = host_value(p, out, rank_of(t) > d ? dim_of(t, d) : x_idx(p->m, 1));
		break;
	case 'N':
		v[k++] = host_value(p, out, numel(p->m, t));
		break;
	case 'R':
		v[k++] = x_idx(p->m, rank_of(t));
		for (d = 0; d < rank_of(t); d++)
			v[k++] = host_value(p, out, dim_of(t, d));
		break;
	case '=':
		v[k++] = scalar_value(p, out, t);
		break;
	case 'S':
		v[k++] = host_value(p, out,
			x_select(p->m, x_eq(p->m, numel(p->m, t), x_idx(p->m, 1)), x_idx(p->m, 0),
				x_idx(p->m, 1)));
		break;
	default:
		touch_buffer(p, t);
		v[k++] = x_idx(p->m, root_buffer(p, t));
	}
	return k;
}

/* A host node names a routine of the runtime and, in its attribute "args", the routine's
 * arguments. */
void
run_host(Planner *p, Region *out, Node *n)
{
	Node *v[64];
	const Attr *pattern = attr_find(n->attrs, "args");
	const char *c = pattern ? pattern->s : NULL;
	int i, k = 0, id;

	for (i = 0; i < n->nin; i++)
		if (n->in[i])
			ensure(p, out, n->in[i]);
	if (!c) {
		diag_error(p->m->diag, X_UNSUPPORTED, n->loc, "the routine %s is not there", n->name);
		return;
	}
	p->step++;
	if (n->type->kind == T_TENSOR) {
		bool string = dtype_of(n) == DT_STRING, view = strchr(c, 'v') != NULL;
		id = storage_of(p->s, n)->id = new_buf(p,
			view ? BUF_VIEW
			: string ? BUF_HOST
			: BUF_HEAP,
			storage_type(dtype_of(n)), NULL);
		if (!view)
			allocate_buffer(p, out, id, host_value(p, out, bytes_of(p, n)));
	} else
		id = value_buffer(p, n);
	while (*c)
		if (*c == ' ')
			c++;
		else
			k += host_argument(p, out, n, id, &c, v + k);
	call_routine(p, out, n->name, k, v);
}
