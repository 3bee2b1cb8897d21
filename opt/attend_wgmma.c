/*
 * GPU schedule of attention by instructions of warp groups (Hopper; Shah et al., "FlashAttention-3",
 * 2024). Two groups have 64 query rows each, all keys and columns; a third one's first thread has
 * keys and values brought as boxes (TMA), a block of keys ahead. Queries stay in registers, as
 * fragments, and so do the exponentials: both products take their first factor from there and the
 * second one from shared memory, as the boxes lie there. While one group computes its exponentials,
 * the other's products run.
 *
 *	full    bytes of a block of keys, or of values, have landed: for each stage, two
 *	empty   each warp of both groups has let go of the stage
 *
 * What a group does with a block beside the products, and how sums are stored at the end, is as in
 * attend_mma.c: a warp's 16 rows of a group's product lie in its lanes as those of its own
 * instruction do.
 *
 * A row of a box is 128 bytes: keys and values are cut into bands of 64 columns. A box's dimensions
 * are the tensor's own; keys past the last one are zeros, since the tensor ends with them.
 */
#include "attend_mma.h"
#include "gpu_box.h"

enum {
	GROUP = 128, BAND = 64, ROW = 128, COPIER_REGS = 24, GROUP_REGS = 240,
	GROUPS_MEET = 1        /* the barrier of both groups */
};

/* The boxes of keys or values: key `from` on, one band after another. */
typedef struct Boxes {
	TensorMap map;
	Node *at[MAP_RANK];    /* a box's place, NULL: its first key */
	int bands, base;       /* words in a stage before the first */
} Boxes;

typedef struct Wg {
	Mm q;
	const Mma *x;          /* the groups' instruction */
	Boxes k, v;
	Node *bars, *fits;
	int stage_words;
} Wg;

/* ---- boxes ----------------------------------------------------------------------------------- */

/* The index of dimension d as a place of boxes: inner moves along the first dimension by one, the
 * key is all of another. */
static bool
place_in(Wg *w, Boxes *b, Node *t, int d, Node *idx, Node *inner)
{
	Module *m = w->q.o.m;
	Node *key = w->q.o.a.key, *coef, *rest;
	int k = b->map.rank;

	if (contains(idx, inner)) {
		if (k || !linear_in(m, idx, inner, &coef, &rest) || !is_intv(coef, 1) || contains(rest, key))
			return false;
		b->at[k] = rest;
	} else if (contains(idx, key)) {
		if (!k || idx != key || !prove_eq(m, dim_of(t, d), key->in[0]))
			return false;
		b->at[k] = NULL;
	} else {
		b->at[k] = idx;
	}
	return true;
}

static bool
boxes_of(Wg *w, Boxes *b, Part *p, Node *inner, int columns)
{
	Mm *q = &w->q;
	Module *m = q->o.m;
	Node *t = p->s->read->in[0], *idx;
	Storage *st = storage_of(q->o.kb->s, t);
	int i, d, keyed = 0, size = am_elem_size(q);

	if (!is_intv(p->ok, 1) || st->block || st->halo || st->of || dtype_of(t) != p->type)
		return false;
	b->map.offset = x_idx(m, 0);
	for (i = rank_of(t) - 1; i >= 0; i--) {
		d = st->order[i], idx = x_cast(m, DT_INDEX, p->s->read->in[1 + d]);
		if (is_intv(dim_of(t, d), 1) && is_intv(idx, 0))
			continue;
		if (b->map.rank == MAP_RANK || !place_in(w, b, t, d, idx, inner))
			return false;
		keyed += !b->at[b->map.rank];
		if (!box_dim(m, &w->fits, &b->map, size, dim_of(t, d), st->stride[d],
			!b->map.rank ? BAND : b->at[b->map.rank] ? 1 : q->keys))
			return false;
	}
	b->map.swizzle = ROW;
	b->bands = columns / BAND;
	return keyed == 1 && is_intv(b->map.stride[0], 1) && contains(p->s->read, inner);
}

static void
make_map(Wg *w, Boxes *b, Part *p, const char *name)
{
	b->map.view = l_buffer(w->q.o.m, name, p->type, SP_MAP, b->map.rank, b->map.dim);
	box_map(w->q.o.kb, &b->map, p->s->read->in[0]);
}

/* Bytes of a band; it begins at a multiple of what is swizzled. */
static int
band_bytes(const Wg *w)
{
	return w->q.keys * ROW;
}

/* Has the bands of a block of keys brought to the stage. */
static void
copy(Wg *w, Region *r, const Boxes *b, Node *stage, Node *key, Node *full)
{
	Module *m = w->q.o.m;
	Node *at[MAP_RANK], *word;
	int i, k;

	for (k = 0; k < b->bands; k++) {
		for (i = 0; i < b->map.rank; i++)
			at[i] = !b->at[i] ? key : i ? b->at[i] : x_addi(m, b->at[0], k * BAND);
		word = x_addi(m, x_muli(m, stage, w->stage_words), b->base + k * band_bytes(w) / 4);
		l_move_box(m, r, band_bytes(w), (Spot){w->q.t.memory, &word}, (Spot){b->map.view, at},
			(Spot){w->bars, &full});
	}
}

/* ---- phases ---------------------------------------------------------------------------------- */

static Node *
keys_full(Wg *w, Node *stage)
{
	(void)w;
	return stage;
}

static Node *
values_full(Wg *w, Node *stage)
{
	return x_addi(w->q.o.m, stage, STAGES);
}

static Node *
empty(Wg *w, Node *stage)
{
	return x_addi(w->q.o.m, stage, 2 * STAGES);
}

static void
make_barriers(Wg *w, Region *r)
{
	Module *m = w->q.o.m;
	Node *s = x_axis(m, x_idx(m, STAGES));
	Region *then = region_new(m, NULL), *in = region_new(m, NULL);

	box_phase(m, in, w->bars, "phase_init", keys_full(w, s), x_idx(m, 1));
	box_phase(m, in, w->bars, "phase_init", values_full(w, s), x_idx(m, 1));
	box_phase(m, in, w->bars, "phase_init", empty(w, s), x_idx(m, w->q.warps));
	l_for(m, then, F_UNROLL, s, in);
	box_order(m, then, "phase_fence", 0, NULL);
	l_when(m, r, x_eq(m, w->q.o.f.tid, x_idx(m, 0)), then, NULL);
	l_barrier(m, r);
}

/* ---- the copier ------------------------------------------------------------------------------ */

static void
copier(Wg *w, Region *r, Node *total)
{
	Module *m = w->q.o.m;
	Node *block = x_axis(m, total), *parity, *stage, *key;
	Region *then = region_new(m, NULL), *in = region_new(m, NULL);

	stage = box_stage(m, in, block, STAGES, &parity);
	key = l_let(m, in, x_muli(m, block, w->q.keys));
	box_phase(m, in, w->bars, "phase_wait", empty(w, stage), x_sub(m, x_idx(m, 1), parity));
	box_phase(m, in, w->bars, "phase_expect", keys_full(w, stage),
		x_idx(m, w->k.bands * band_bytes(w)));
	copy(w, in, &w->k, stage, key, keys_full(w, stage));
	box_phase(m, in, w->bars, "phase_expect", values_full(w, stage),
		x_idx(m, w->v.bands * band_bytes(w)));
	copy(w, in, &w->v, stage, key, values_full(w, stage));
	l_for(m, then, F_SERIAL, block, in);
	l_when(m, r, x_eq(m, w->q.o.f.tid, x_idx(m, 0)), then, NULL);
}

/* ---- the groups ------------------------------------------------------------------------------ */

/* The group's products so far are waited for: n registers of sums are theirs. */
static void
complete(Wg *w, Region *r, Node *sums, int n)
{
	Module *m = w->q.o.m;
	Node *zero = x_idx(m, 0), *count = x_idx(m, n);

	box_order(m, r, "mma_commit", 0, NULL);
	box_order(m, r, "mma_wait", 1, &zero);
	l_sync(m, r, "mma_keep", (Spot){sums, (Node *[]){zero, zero, zero}}, 1, &count);
}

/* Queries times keys: these lie along the depth, bands of it after each other. */
static void
scores(Wg *w, Region *r, Node *stage)
{
	Mm *q = &w->q;
	Module *m = q->o.m;
	Node *k, *zero = x_idx(m, 0), *word;
	int per = BAND / q->t.x->k;
	Region *in;

	am_clear(q, r, q->s, q->keys / q->key_tile);
	box_order(m, r, "mma_fence", 0, NULL);
	in = am_unroll(q, r, q->depth / q->t.x->k, &k);
	word = x_addi(m, x_muli(m, stage, w->stage_words), w->k.base);
	word = x_add(m, word, x_muli(m, x_fdiv(m, k, x_idx(m, per)), band_bytes(w) / 4));
	word = x_add(m, word, x_muli(m, x_mod(m, k, x_idx(m, per)), q->t.block_bytes / 4));
	l_mma_group(m, in, w->x->name, q->keys, (Spot){q->s, (Node *[]){zero, zero, zero}},
		(Spot){q->q.fragment, (Node *[]){k, zero}}, (Stored){0}, (Spot){q->t.memory, &word}, (Stored){ROW, 0});
	complete(w, r, q->s, q->keys / 2);
}

/* Exponentials times values: these lie along their columns. */
static void
values(Wg *w, Region *r, Node *stage)
{
	Mm *q = &w->q;
	Module *m = q->o.m;
	Node *k, *zero = x_idx(m, 0), *word;
	Region *in;

	box_order(m, r, "mma_fence", 0, NULL);
	in = am_unroll(q, r, q->keys / q->t.x->k, &k);
	word = x_addi(m, x_muli(m, stage, w->stage_words), w->v.base);
	word = x_add(m, word, x_muli(m, k, q->t.x->k * ROW / 4));
	l_mma_group(m, in, w->x->name, q->columns, (Spot){q->sums, (Node *[]){zero, zero, zero}},
		(Spot){q->p, (Node *[]){k, zero}}, (Stored){0}, (Spot){q->t.memory, &word},
		(Stored){ROW, band_bytes(w)});
	complete(w, r, q->sums, q->columns / 2);
}

static void
pass_over(Wg *w, Region *r, Node *total)
{
	Mm *q = &w->q;
	Module *m = q->o.m;
	Node *block = x_axis(m, total), *parity, *stage;
	Region *in = region_new(m, NULL), *then = region_new(m, NULL);

	stage = box_stage(m, in, block, STAGES, &parity);
	q->k0 = l_let(m, in, x_muli(m, block, q->keys));
	box_phase(m, in, w->bars, "phase_wait", keys_full(w, stage), parity);
	scores(w, in, stage);
	am_softmax(q, in);
	box_phase(m, in, w->bars, "phase_wait", values_full(w, stage), parity);
	values(w, in, stage);
	box_phase(m, then, w->bars, "phase_arrive", empty(w, stage), NULL);
	l_when(m, in, x_eq(m, q->t.lane, x_idx(m, 0)), then, NULL);
	l_for(m, r, F_SERIAL, block, in);
}

static void
groups_meet(Wg *w, Region *r)
{
	Module *m = w->q.o.m;

	box_order(m, r, "part_barrier", 2, (Node *[]){x_idx(m, GROUPS_MEET), x_idx(m, w->q.t.threads)});
}

/* The queries by way of shared memory to registers. */
static void
read_queries(Wg *w, Region *r)
{
	Mm *q = &w->q;
	Module *m = q->o.m;
	Node *zero = x_idx(m, 0), *kb;
	Region *in;

	part_fetch(&q->t, &q->q, r, zero);
	part_put(&q->t, &q->q, r, zero);
	l_commit(m, r);
	l_wait(m, r, 0);
	groups_meet(w, r);
	in = am_unroll(q, r, q->depth * am_elem_size(q) / q->t.block_bytes, &kb);
	part_read_block(&q->t, &q->q, in, zero, zero, kb, kb);
}

static void
groups(Wg *w, Region *r, Node *total)
{
	Mm *q = &w->q;

	am_open_rows(q, r);
	read_queries(w, r);
	pass_over(w, r, total);
	groups_meet(w, r);
	am_spread(q, r);
	groups_meet(w, r);
	am_write_rows(q, r);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

static void
locate(Wg *w, Region *r, Node *blocks)
{
	Mm *q = &w->q;
	Module *m = q->o.m;
	Node *warp = x_idx(m, q->o.kb->s->mach->warp);

	/* of the groups' threads; the copiers' are not used */
	q->t.tid = l_let(m, r, x_max(m, x_addi(m, q->o.f.tid, -GROUP), x_idx(m, 0)));
	q->row_block = l_let(m, r, x_mod(m, q->o.f.bid, blocks));
	q->q0 = x_muli(m, q->row_block, q->warps * q->q.span);
	q->t.lane = l_let(m, r, x_mod(m, q->o.f.tid, warp));
	q->warp = l_let(m, r, x_fdiv(m, q->t.tid, warp));
	q->place = l_let(m, r, x_mod(m, x_fdiv(m, q->t.lane, x_idx(m, q->apart)), x_idx(m, q->group)));
	q->q.first = l_let(m, r, x_muli(m, q->warp, q->q.span));
	flash_bind(&q->o, r, x_fdiv(m, q->o.f.bid, blocks));
}

static void
allocate(Wg *w)
{
	Mm *q = &w->q;
	Module *m = q->o.m;
	int out = q->warps * q->q.span * am_out_words(q), total;
	Node *n;

	part_storage(&q->t, &q->q);
	part_lay_out(&q->t, &q->q);
	w->v.base = w->k.bands * band_bytes(w) / 4;
	w->stage_words = w->v.base + w->v.bands * band_bytes(w) / 4;
	q->q.base = STAGES * w->stage_words;
	total = q->q.base + q->q.words;
	n = x_idx(m, total > out ? total : out);
	q->t.memory = gpu_shared(q->o.kb, &q->o.f, "tiles", DT_U32, 1, &n);
	n = x_idx(m, 3 * STAGES);
	w->bars = gpu_shared(q->o.kb, &q->o.f, "bars", DT_U64, 1, &n);
	am_open_registers(q);
	q->o.kb->k->maps = NEWN(m, TensorMap, 2);
	make_map(w, &w->k, &q->k, "keys");
	make_map(w, &w->v, &q->v, "values");
}

static void
emit(Wg *w, Region *r)
{
	Mm *q = &w->q;
	Module *m = q->o.m;
	Region *copies = region_new(m, NULL), *products = region_new(m, NULL);
	Node *total;

	allocate(w);
	make_barriers(w, r);
	total = x_ceildiv(m, flash_end(&q->o, r, q->q0, q->warps * q->q.span), x_idx(m, q->keys));
	total = total->code == O_NUM ? total : l_let(m, r, total);
	box_order(m, copies, "regs_drop", 1, (Node *[]){x_idx(m, COPIER_REGS)});
	box_order(m, products, "regs_take", 1, (Node *[]){x_idx(m, GROUP_REGS)});
	copier(w, copies, total);
	groups(w, products, total);
	l_when(m, r, x_lt(m, q->o.f.tid, x_idx(m, GROUP)), copies, products);
}

static Kernel *
close_kernel(Wg *w)
{
	Mm *q = &w->q;
	KB *kb = q->o.kb;

	kb->k->flops = 2.0 * q->warps * q->q.span * (double)(q->depth + q->columns)
		* (double)const_or(q->o.a.key->in[0], 128);
	kb->k->fits = is_intv(w->fits, 1) ? NULL : w->fits;
	return gpu_close(kb, &q->o.f, arena_printf(q->o.m->arena,
		"class=attention, mma=%s, block=[%d,%d,%d], groups=2, stages=%d", w->x->name, q->warps * q->q.span,
		q->keys, q->depth, STAGES));
}

Kernel *
attention_wgmma(Sched *s, Group *g)
{
	KB kb = kb_new(s, g->loc);
	Module *m = s->m;
	Wg w = {.fits = x_bool(m, true)};
	Mm *q = &w.q;
	Node *blocks, *deep;
	Kernel *k = NULL;

	if (!attention_of(s, g->members[g->n - 1], &q->o.a))
		return NULL;
	flash_open(&q->o, &kb, g);
	q->t.kb = &kb, q->t.m = m;
	if (!am_plan_groups(q, s))
		return NULL;
	w.x = machine_mma_group(s->mach, q->t.x->type, q->t.x->type);
	blocks = x_ceildiv(m, q->o.extent, x_idx(m, q->warps * q->q.span));
	q->o.f = gpu_frame(&kb, x_mul(m, blocks, flash_batch(&q->o)), q->t.threads + GROUP);
	locate(&w, q->o.f.thread, blocks);
	q->o.n = kb_emit(&kb, q->o.f.thread, q->o.a.key->in[0]);
	deep = x_axis(m, axes_product(m, q->o.a.qk.nred, q->o.a.qk.red));
	if (am_open_parts(q, &deep) && boxes_of(&w, &w.k, &q->k, deep, q->depth)
	 && boxes_of(&w, &w.v, &q->v, q->o.column, q->columns)) {
		emit(&w, q->o.f.thread);
		k = close_kernel(&w);
	}
	flash_close(&q->o);
	if (!k)
		map_free(&kb.buf);
	return k;
}
