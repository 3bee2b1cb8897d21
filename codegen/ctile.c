/*
 * Register tiles in C. A C compiler keeps an array in registers where all its indices are
 * constants, which is why loops over a tile are unrolled. What is done to its finished elements may
 * be long (an activation, a quantization), and would be written out for each of them: such a loop
 * reads a copy of the tile in memory instead and stays a loop.
 */
#include <stdlib.h>
#include "codegen/cprint.h"

enum { LONG_CODE = 400, MAX_TILES = 8 };

typedef struct Tiles { Node *at[MAX_TILES]; int n; bool written; } Tiles;

static void note_tiles(Tiles *t, Node *e)
{
	int n;
	Node **list = topo_scalar(e, &n);

	for (int i = 0; i < n; i++) {
		Node *b = list[i]->code == O_LOAD ? list[i]->in[0] : NULL;
		int k = 0;
		if (!b || b->code != O_BUFFER || b->type->space != SP_REG)
			continue;
		while (k < t->n && t->at[k] != b)
			k++;
		if (k == MAX_TILES)
			t->written = true;
		else if (k == t->n)
			t->at[t->n++] = b;
	}
	free(list);
}

/* The scalar operations that a region is when its loops are unrolled. t->written: it is no such
 * end of a tile. */
static int64_t code_of(Tiles *t, Region *r)
{
	int64_t size = 0, n;

	for (int i = 0; i < r->nresults; i++) {
		Node *s = r->results[i];
		if (s->code == O_FOR) {
			n = s->n == F_UNROLL && is_int(s->in[0]->in[0], &n) ? n : 1;
			t->written |= s->n != F_UNROLL && s->n != F_VECTOR;
			size += n * code_of(t, s->regions[0]);
			continue;
		}
		t->written |= s->code != O_STORE && s->code != O_LET;
		t->written |= s->code == O_STORE && s->in[0]->type->space == SP_REG;
		for (int k = s->code == O_STORE; k < s->nin; k++) {
			note_tiles(t, s->in[k]);
			size += s->in[k]->size;
		}
	}
	return size;
}

static void copy_tile(CFn *c, Node *b, const char *name, const char *copy)
{
	static const char axis[] = "ijklmnpqr";
	int64_t v = 0;

	cfn_indent(c);
	fprintf(c->o, "%s %s", cstorage(b->type->dtype), copy);
	for (int k = 0; k < b->nin; k++)
		fprintf(c->o, "[%lld]", is_int(b->in[k], &v) ? (long long)v : 0);
	fputs(";\n", c->o);
	for (int k = 0; k < b->nin; k++) {
		cfn_line(c, k + 1 < b->nin ? "TCC_UNROLL" : "TCC_VECTOR");
		is_int(b->in[k], &v);
		cfn_line(c, "for (i64 t%c = 0; t%c < %lld; t%c++)", axis[k], axis[k], (long long)v,
			axis[k]);
		c->indent++;
	}
	cfn_indent(c);
	for (int side = 0; side < 2; side++) {
		fputs(side ? name : copy, c->o);
		for (int k = 0; k < b->nin; k++)
			fprintf(c->o, "[t%c]", axis[k]);
		fputs(side ? ";\n" : " = ", c->o);
	}
	c->indent -= b->nin;
}

bool tile_in_memory(CFn *c, Node *loop, Map *names)
{
	Tiles t = {0};
	int64_t n;

	if (c->f->gpu || c->lane_priv || !is_int(loop->in[0]->in[0], &n)
			|| n * code_of(&t, loop->regions[0]) < LONG_CODE || t.written || !t.n)
		return false;
	for (int i = 0; i < t.n; i++)
		if (t.at[i]->nin < 1 || t.at[i]->nin > 6)
			return false;
	for (int i = 0; i < t.n; i++) {
		const char *name = map_get(&c->names, t.at[i]), *copy = cfn_name(c, "done", true);
		map_put(names, t.at[i], (void *)name);
		copy_tile(c, t.at[i], name, copy);
		map_put(&c->names, t.at[i], (void *)copy);
	}
	return true;
}

void tile_in_registers(CFn *c, Node *loop, Map *names)
{
	Tiles t = {0};

	code_of(&t, loop->regions[0]);
	for (int i = 0; i < t.n; i++)
		map_put(&c->names, t.at[i], map_get(names, t.at[i]));
	map_free(names);
}
