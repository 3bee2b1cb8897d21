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
	return strcmp(s->name, move_kinds[MOVE_TRANSPOSED]) ? "tcc_ldmatrix_x4" : "tcc_ldmatrix_x4_trans";
}

void cmatrix_statement(CFn *c, Node *s)
{
	Node *x[3 * (MAX_RANK + 1) + 1], *cond = s->code == O_MOVE ? l_move_cond(s) : NULL;
	int n = 0;

	for (int k = 0; k < s->nin; k++)
		if (s->in[k]->code != O_BUFFER)
			x[n++] = s->in[k];
	cx_begin(c, n, x);
	cfn_indent(c);
	if (s->code == O_MMA)
		fprintf(c->o, "tcc_mma_%s(", s->name);
	else
		fprintf(c->o, "%s%s(", mover(c, s), cond ? "_if" : "");
	spot(c, "", s, 0);
	spot(c, ", ", s, 1);
	if (s->code == O_MMA)
		spot(c, ", ", s, 2);
	if (cond) {
		fputs(", ", c->o);
		cx(c, cond, P_COND);
	}
	fputs(");\n", c->o);
	cx_end(c);
}
