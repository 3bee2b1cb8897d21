/* Loop level: statements. */
#include <string.h>
#include "ir.h"

static Node *
statement(Module *m, Region *r, Node t)
{
	Node *n;

	if (!t.type)
		t.type = ty_of(m, T_VOID, DT_NONE, NULL);
	n = node_make(m, t);
	if (r)
		region_add(m, r, n);
	return n;
}

Node *
l_for(Module *m, Region *r, ForKind kind, Node *axis, Region *body)
{
	return statement(m, r, (Node){.op = core_op(O_FOR), .nin = 1, .in = &axis, .nregions = 1,
		.regions = &body, .n = kind});
}

static Region **
regions2(Module *m, Region *a, Region *b)
{
	Region **r = NEWN(m, Region *, 2);

	r[0] = a;
	r[1] = b;
	return r;
}

Node *
l_buffer(Module *m, const char *name, DType d, Space space, int n, Node *const *extents)
{
	return node_make(m, (Node){.op = core_op(O_BUFFER), .type = ty_buffer(m, d, space), .nin = n,
		.in = (Node **)extents,
		.name = intern(m, name)});
}

Node *
l_alloc(Module *m, Region *r, Node *buffer)
{
	statement(m, r, (Node){.op = core_op(O_ALLOC), .nin = 1, .in = &buffer});
	return buffer;
}

static void
type_range(DType d, Node *t)
{
	int bits = dtypes[d].bits;

	t->lo = INT64_MIN;
	t->hi = INT64_MAX;
	if (d == DT_BOOL)
		t->lo = 0, t->hi = 1;
	else if (dt_int(d) && bits < 64) {
		t->lo = dtypes[d].cls == 'U' ? 0 : -((int64_t)1 << (bits - 1));
		t->hi = dtypes[d].cls == 'U' ? ((int64_t)1 << bits) - 1 : ((int64_t)1 << (bits - 1)) - 1;
	}
}

Node *
l_load(Module *m, Node *buffer, int n, Node *const *idx)
{
	Node *in[MAX_RANK + 1], t;

	in[0] = buffer;
	memcpy(in + 1, idx, sizeof *idx * (size_t)n);
	t = (Node){.op = core_op(O_LOAD), .type = ty_scalar(m, buffer->type->dtype), .nin = n + 1,
		.in = in};
	type_range(buffer->type->dtype, &t);
	return node_make(m, t);
}

Node *
l_store(Module *m, Region *r, Node *buffer, int n, Node *const *idx, Node *value)
{
	Node *in[MAX_RANK + 2];

	in[0] = buffer;
	memcpy(in + 1, idx, sizeof *idx * (size_t)n);
	in[n + 1] = value;
	return statement(m, r, (Node){.op = core_op(O_STORE), .nin = n + 2, .in = in});
}

Node *
l_let(Module *m, Region *r, Node *value)
{
	if (value->code == O_NUM || value->code == O_SYM || value->code == O_AXIS)
		return value;
	return statement(m, r, (Node){.op = core_op(O_LET), .type = value->type, .nin = 1, .in = &value,
		.lo = value->lo, .hi = value->hi});
}

Node *
l_when(Module *m, Region *r, Node *cond, Region *then, Region *els)
{
	return statement(m, r, (Node){.op = core_op(O_WHEN), .nin = 1, .in = &cond,
		.nregions = els ? 2 : 1,
		.regions = regions2(m, then, els)});
}

Node *
l_barrier(Module *m, Region *r)
{
	return statement(m, r, (Node){.op = core_op(O_BARRIER)});
}

const char *const move_kinds[N_MOVES] = {"async", "words", "matrices", "transposed", "box", "tile"};

enum { MAX_NUMBERS = 8 };

static Node *
places(Module *m, Region *r, Node t, int n, const Spot *p, int nlast, Node *const *last)
{
	Node *in[3 * (MAX_RANK + 1) + MAX_NUMBERS];
	int i;

	for (i = 0; i < n; i++) {
		in[t.nin++] = p[i].buffer;
		memcpy(in + t.nin, p[i].idx, sizeof *in * (size_t)p[i].buffer->nin);
		t.nin += p[i].buffer->nin;
	}
	for (i = 0; i < nlast; i++)
		in[t.nin++] = last[i];
	t.in = in;
	return statement(m, r, t);
}

Node *
l_move(Module *m, Region *r, MoveKind kind, int bytes, Spot to, Spot from, Node *cond)
{
	return places(m, r, (Node){.op = core_op(O_MOVE), .n = bytes,
		.name = intern(m, move_kinds[kind])},
		2, (Spot[]){to, from}, cond != NULL, &cond);
}

Node *
l_move_box(Module *m, Region *r, int bytes, Spot to, Spot from, Spot on)
{
	return places(m, r, (Node){.op = core_op(O_MOVE), .n = bytes,
		.name = intern(m, move_kinds[MOVE_BOX])}, 3, (Spot[]){to, from, on}, 0, NULL);
}

Node *
l_move_tile(Module *m, Region *r, Spot to, Spot from, Node *stride)
{
	const Node *t = to.buffer->type->space == SP_TILE ? to.buffer : from.buffer;
	int64_t words = 0;

	if (t->nin)
		is_int(t->in[t->nin - 1], &words);
	return places(m, r, (Node){.op = core_op(O_MOVE), .n = 4 * words,
		.name = intern(m, move_kinds[MOVE_TILE])}, 2, (Spot[]){to, from}, 1, &stride);
}

Node *
l_commit(Module *m, Region *r)
{
	return statement(m, r, (Node){.op = core_op(O_COMMIT)});
}

Node *
l_wait(Module *m, Region *r, int pending)
{
	return statement(m, r, (Node){.op = core_op(O_WAIT), .n = pending});
}

Node *
l_mma(Module *m, Region *r, const char *instruction, Spot c, Spot a, Spot b)
{
	return places(m, r, (Node){.op = core_op(O_MMA), .name = intern(m, instruction)}, 3,
		(Spot[]){c, a, b}, 0, NULL);
}

Node *
l_mma_group(Module *m, Region *r, const char *instruction, int n, Spot c, Spot a, Stored sa, Spot b,
	Stored sb)
{
	Node *v[] = {x_idx(m, n), x_idx(m, sa.row), x_idx(m, sa.next), x_idx(m, sb.row),
		x_idx(m, sb.next)};

	return places(m, r, (Node){.op = core_op(O_MMA), .name = intern(m, instruction)}, 3,
		(Spot[]){c, a, b}, 5, v);
}

static const SyncRow syncs[] = {
#define SYNC(name, places, numbers) {#name, places, numbers},
#include "sync.def"
#undef SYNC
};

const SyncRow *
sync_find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof syncs / sizeof *syncs; i++)
		if (strcmp(syncs[i].name, name) == 0)
			return &syncs[i];
	return NULL;
}

Node *
l_sync(Module *m, Region *r, const char *name, Spot place, int n, Node *const *args)
{
	return places(m, r, (Node){.op = core_op(O_SYNCH), .name = intern(m, name)},
		place.buffer != NULL, &place, n, args);
}

int
l_numbers(const Node *s, Node *const **v)
{
	int at = 0;

	while (at < s->nin && s->in[at]->code == O_BUFFER)
		at += 1 + s->in[at]->nin;
	*v = s->in + at;
	return s->nin - at;
}

Spot
l_spot(const Node *s, int k)
{
	int at = 0;

	for (; k > 0 && at < s->nin && s->in[at]->code == O_BUFFER; k--)
		at += 1 + s->in[at]->nin;
	if (at >= s->nin || s->in[at]->code != O_BUFFER)
		return (Spot){0};
	return (Spot){s->in[at], s->in + at + 1};
}

/* What stands behind the places, of a tile's move or of another. */
static Node *
last_of(const Node *s, bool tile)
{
	Node *const *v;

	return l_numbers(s, &v) && tile == !strcmp(s->name, move_kinds[MOVE_TILE]) ? v[0] : NULL;
}

Node *
l_move_cond(const Node *s)
{
	return last_of(s, false);
}

Node *
l_move_stride(const Node *s)
{
	return last_of(s, true);
}

Node *
l_prefetch(Module *m, Region *r, Node *buffer, Node *index)
{
	return statement(m, r,
		(Node){.op = core_op(O_PREFETCH), .nin = 2, .in = (Node *[]){buffer, index}});
}

Node *
l_call(Module *m, Region *r, const char *name, int n, Node *const *args)
{
	return statement(m, r, (Node){.op = core_op(O_CALL), .type = ty_scalar(m, DT_INDEX), .nin = n,
		.in = (Node **)args,
		.name = intern(m, name), .lo = INT64_MIN, .hi = INT64_MAX});
}

Node *
l_while(Module *m, Region *r, Region *body)
{
	return statement(m, r, (Node){.op = core_op(O_WHILE), .nregions = 1,
		.regions = regions2(m, body, NULL)});
}

Node *
l_break(Module *m, Region *r, Node *cond)
{
	return statement(m, r, (Node){.op = core_op(O_BREAK), .nin = 1, .in = &cond});
}

Node *
l_fold(Module *m, Comb c, Node *buffer, Node *axis, int n, Node *const *idx)
{
	return l_fold_apart(m, c, buffer, axis, 1, n, idx);
}

Node *
l_fold_apart(Module *m, Comb c, Node *buffer, Node *axis, int step, int n, Node *const *idx)
{
	Node *in[MAX_RANK + 2], t;

	in[0] = buffer;
	in[1] = axis;
	if (n)
		memcpy(in + 2, idx, sizeof *idx * (size_t)n);
	t = (Node){.op = core_op(O_FOLD), .type = ty_scalar(m, buffer->type->dtype), .nin = n + 2,
		.in = in, .n = c, .num.i = step};
	type_range(buffer->type->dtype, &t);
	return node_make(m, t);
}
