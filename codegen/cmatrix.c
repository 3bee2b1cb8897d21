/* Moves and matrix instructions as calls of the device header, where each is an instruction. */
#include <string.h>

#include "codegen/cprint.h"

static void spot(CFn *c, const char *before, const Node *s, int k)
{
	Spot p = l_spot(s, k);

	fprintf(c->o, "%s&", before);
	cx_element(c, p.buffer, p.buffer->nin, p.idx);
}

/* The function that makes the move: tcc_cp_async16, tcc_load_w4, tcc_store_w4, tcc_ldmatrix_x4 */
static const char *mover(CFn *c, const Node *s)
{
	bool load = l_spot(s, 0).buffer->type->space == SP_REG;
	int n = (int)s->n;

	if (!strcmp(s->name, move_kinds[MOVE_ASYNC]))
		return arena_printf(c->f->m->arena, "tcc_cp_async%d", n);
	if (!strcmp(s->name, move_kinds[MOVE_WORDS]))
		return arena_printf(c->f->m->arena, "tcc_%s_w%d", load ? "load" : "store", n / 4);
	return strcmp(s->name, move_kinds[MOVE_TRANSPOSED])
		? "tcc_ldmatrix_x4" : "tcc_ldmatrix_x4_trans";
}

static void values(CFn *c, int n, Node *const *v)
{
	for (int k = 0; k < n; k++) {
		fputs(", ", c->o);
		cx(c, v[k], P_COND);
	}
}

/* tcc_box2(&to, &map, &on, coordinates), tcc_gather4 with offsets behind them */
static void box(CFn *c, const Node *s)
{
	Spot from = l_spot(s, 1);
	int n = from.buffer->nin;
	bool gathers = false;

	for (int k = 0; k < c->k->nmaps; k++)
		gathers |= c->k->maps[k].view == from.buffer && c->k->maps[k].gathers;
	fprintf(c->o, "tcc_%s%d(", gathers ? "gather" : "box", gathers ? (n + 2) / 2 : n);
	spot(c, "", s, 0);
	fprintf(c->o, ", &%s", (const char *)map_get(&c->names, from.buffer));
	spot(c, ", ", s, 2);
	values(c, n, from.idx);
}

static void stored(CFn *c, const Node *s, int k, Node *const *v)
{
	spot(c, ", tcc_tile(", s, k);
	values(c, 2, v + 2 * k - 1);
	fputc(')', c->o);
}

static bool along(Node *const *v, int k)
{
	return !is_intv(v[2 * k], 0);
}

/* tcc_wgmma(f16, 128, km, &c, tcc_tile(&a, 128, 0), tcc_tile(&b, 128, 8192));
 * tcc_wgmma(f16, 128, rm, &c, &a, tcc_tile(&b, 128, 8192)) where A lies in registers */
static void group_product(CFn *c, const Node *s, Node *const *v)
{
	bool held = l_spot(s, 1).buffer->type->space == SP_REG;
	int64_t n = 0;

	is_int(v[0], &n);
	fprintf(c->o, "tcc_wgmma(%s, %d, %c%c, ", strchr(s->name, '_') + 1, (int)n,
		held ? 'r' : along(v, 1) ? 'm' : 'k', along(v, 2) ? 'm' : 'k');
	spot(c, "", s, 0);
	if (held)
		spot(c, ", ", s, 1);
	else
		stored(c, s, 1, v);
	stored(c, s, 2, v);
}

static void waiting(CFn *c, const Node *s, int n, Node *const *v)
{
	bool place = l_spot(s, 0).buffer != NULL;

	fprintf(c->o, "tcc_%s(", s->name);
	if (place)
		spot(c, "", s, 0);
	if (!place && n)
		cx(c, v[0], P_COND);
	values(c, n - !place, v + !place);
}

static void moved(CFn *c, const Node *s)
{
	Node *cond = l_move_cond(s);

	fprintf(c->o, "%s%s(", mover(c, s), cond ? "_if" : "");
	spot(c, "", s, 0);
	spot(c, ", ", s, 1);
	if (cond)
		values(c, 1, &cond);
}

static void product(CFn *c, const Node *s)
{
	fprintf(c->o, "tcc_mma_%s(", s->name);
	for (int k = 0; k < 3; k++)
		spot(c, k ? ", " : "", s, k);
}

void cmatrix_statement(CFn *c, Node *s)
{
	Node *x[3 * (MAX_RANK + 1) + 8], *const *v;
	int n = 0, numbers = l_numbers(s, &v);

	for (int k = 0; k < s->nin; k++)
		if (s->in[k]->code != O_BUFFER)
			x[n++] = s->in[k];
	cx_begin(c, n, x);
	cfn_indent(c);
	if (s->code == O_SYNCH)
		waiting(c, s, numbers, v);
	else if (s->code == O_MMA && numbers)
		group_product(c, s, v);
	else if (s->code == O_MMA)
		product(c, s);
	else if (!strcmp(s->name, move_kinds[MOVE_BOX]))
		box(c, s);
	else
		moved(c, s);
	fputs(");\n", c->o);
	cx_end(c);
}
