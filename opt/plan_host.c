/*
 * Calls of the runtime's routines (runtime/host*.c): what is not data-parallel, and what holds
 * sequences, optionals and maps.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "plan.h"

enum { MAX_ARGS = 256 };         /* of a routine */

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

/* The operand that a digit names, NULL: there is none. */
static Node *
named_operand(const Node *n, char digit)
{
	int i = digit - '0';

	return digit >= '0' && digit <= '9' && i < n->nin ? n->in[i] : NULL;
}

/* Arguments that tell of a tensor: sizes, or the integer it holds. How many; letters as below. */
static int
tensor_argument(Planner *p, Region *out, char kind, Node *t, Node **v)
{
	Module *m = p->m;
	Node *one;
	int d;

	switch (kind) {
	case 'N':
		v[0] = host_value(p, out, numel(m, t));
		return 1;
	case 'R':
		v[0] = x_idx(m, rank_of(t));
		for (d = 0; d < rank_of(t); d++)
			v[1 + d] = host_value(p, out, dim_of(t, d));
		return 1 + rank_of(t);
	case '=':
		v[0] = scalar_value(p, out, t);
		return 1;
	default:
		one = x_eq(m, numel(m, t), x_idx(m, 1));
		v[0] = host_value(p, out, x_select(m, one, x_idx(m, 0), x_idx(m, 1)));
		return 1;
	}
}

/*
 * One or more arguments of a routine, from the pattern at *c, which moves past it: d the result's
 * buffer, v the same as a view that the routine sets, 0..9 an operand's, nKD the size of operand
 * K's dimension D (1 past its rank), N the result's number of elements, NK operand K's, R and RK the
 * same of rank and sizes, =K the integer that operand K holds, SK 0 if operand K has one element, else
 * 1, #V the integer V. 0: the pattern, which may come from a text, is none of these.
 */
static int
host_argument(Planner *p, Region *out, Node *n, int id, const char **c, Node **v)
{
	char kind = *(*c)++, *end;
	bool sized = strchr("nNRS=", kind), own = strchr("NR", kind) && !isdigit((unsigned char)**c);
	Node *t = own ? n : named_operand(n, sized ? **c : kind);
	int d;

	if (kind == 'd' || kind == 'v') {
		v[0] = x_idx(p->m, id);
		return 1;
	}
	if (kind == '#') {
		v[0] = x_idx(p->m, strtoll(*c, &end, 10));
		d = end > *c;
		*c = end;
		return d;
	}
	if (!t || (sized && t->type->kind != T_TENSOR))
		return 0;
	*c += sized && !own;
	if (kind == 'n') {
		if (!isdigit((unsigned char)**c))
			return 0;
		d = *(*c)++ - '0';
		v[0] = host_value(p, out, rank_of(t) > d ? dim_of(t, d) : x_idx(p->m, 1));
		return 1;
	}
	if (sized)
		return tensor_argument(p, out, kind, t, v);
	touch_buffer(p, t);
	v[0] = x_idx(p->m, root_buffer(p, t));
	return 1;
}

/* The arguments, and how many; -1 after a message. */
static int
host_arguments(Planner *p, Region *out, Node *n, int id, const char *pattern, Node **v)
{
	const char *c = pattern + strspn(pattern, " ");
	int k = 0, more;

	while (*c) {
		more = k + 1 + MAX_RANK <= MAX_ARGS ? host_argument(p, out, n, id, &c, v + k) : 0;
		if (!more) {
			diag_error(p->m->diag, X_INVALID, n->loc,
				"the routine %s has no argument %d in \"%s\"", n->name, k + 1, pattern);
			return -1;
		}
		k += more;
		c += strspn(c, " ");
	}
	return k;
}

/* For a GPU: what a user's function costs in transfers. */
static void
report_transfers(Planner *p, Node *n)
{
	Node *there = x_idx(p->m, 0);
	int i;

	for (i = 0; i < n->nin; i++)
		if (n->in[i]->code != O_CONST)
			there = x_add(p->m, there, bytes_of(p, n->in[i]));
	diag_note(p->m->diag, "%s '%s' runs on the host (%s): %s bytes are copied there and %s back",
		n->loc && n->loc->type ? n->loc->type : "an operator",
		n->loc && n->loc->name ? n->loc->name : "?", n->name + 2, expr_print(p->m, there),
		expr_print(p->m, bytes_of(p, n)));
}

/* A host node names a routine of the runtime and, in its attribute "args", the routine's
 * arguments. */
void
run_host(Planner *p, Region *out, Node *n)
{
	Node *v[MAX_ARGS];
	const Attr *args = attr_find(n->attrs, "args");
	BufClass cls;
	int i, k, id;

	for (i = 0; i < n->nin; i++)
		if (n->in[i])
			ensure(p, out, n->in[i]);
	if (!args || args->kind != A_STR) {
		diag_error(p->m->diag, X_UNSUPPORTED, n->loc, "the routine %s is not there", n->name);
		return;
	}
	p->step++;
	if (n->type->kind == T_TENSOR) {
		cls = strchr(args->s, 'v') ? BUF_VIEW : dtype_of(n) == DT_STRING ? BUF_HOST : BUF_HEAP;
		id = storage_of(p->s, n)->id = new_buf(p, cls, storage_type(dtype_of(n)), NULL);
		if (cls != BUF_VIEW)
			allocate_buffer(p, out, id, host_value(p, out, bytes_of(p, n)));
	} else
		id = value_buffer(p, n);
	if (p->s->gpu && strncmp(n->name, "c.", 2) == 0)
		report_transfers(p, n);
	k = host_arguments(p, out, n, id, args->s, v);
	if (k >= 0)
		call_routine(p, out, n->name, k, v);
}
