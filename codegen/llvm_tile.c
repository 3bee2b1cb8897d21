/*
 * Tiles of a CPU's matrix unit (Intel AMX). A kernel's tiles are the unit's registers in the order
 * of their allocs; their shapes are loaded once when the kernel begins, which clears them, and
 * given back when it ends, so that no switch of threads saves them in between. The instructions
 * name registers, so the back end allocates nothing and keeps their order.
 */
#include "llvm.h"
#include "ir/machine.h"

static int
tiles_in(const Node *buffer)
{
	int64_t n = 1, e;
	int i;

	for (i = 0; i + 2 < buffer->nin; i++)
		n *= is_int(buffer->in[i], &e) && e > 0 && e <= UNIT_TILES ? e : UNIT_TILES + 1;
	return n > UNIT_TILES ? UNIT_TILES + 1 : (int)n;
}

/* The shapes of the buffer's tiles as LDTILECFG takes them, and its first register's number. */
static void
place_tiles(Fn *f, const Node *b, uint8_t *config, int *next)
{
	int64_t rows = 0, words = 0;
	int i, n = tiles_in(b);

	is_int(b->in[b->nin - 2], &rows);
	is_int(b->in[b->nin - 1], &words);
	if (*next + n > UNIT_TILES || rows < 1 || rows > TILE_ROWS || words < 1 || words > TILE_WORDS) {
		bug(f, "tiles that the matrix unit has not");
		return;
	}
	map_put(&f->tiles, b, (void *)(intptr_t)(*next + 1));
	for (i = 0; i < n; i++, ++*next) {
		config[16 + 2 * *next] = (uint8_t)(4 * words);
		config[48 + *next] = (uint8_t)rows;
	}
}

static void
find_tiles(Fn *f, Region *r, uint8_t *config, int *next)
{
	Node *s;
	int i, k;

	for (i = 0; r && i < r->nresults; i++) {
		s = r->results[i];
		if (s->code == O_ALLOC && s->in[0]->type->space == SP_TILE && !map_get(&f->tiles, s->in[0]))
			place_tiles(f, s->in[0], config, next);
		for (k = 0; k < s->nregions; k++)
			find_tiles(f, s->regions[k], config, next);
	}
}

bool
tiles_begin(Fn *f, Region *body)
{
	uint8_t config[64] = {1};
	int n = 0;
	Val text, g;

	find_tiles(f, body, config, &n);
	if (n == 0)
		return false;
	text = LLVMConstStringInContext2(f->cx, (char *)config, sizeof config, true);
	g = LLVMAddGlobal(f->mod, LLVMTypeOf(text), "tiles");
	LLVMSetInitializer(g, text);
	LLVMSetGlobalConstant(g, true);
	LLVMSetLinkage(g, LLVMPrivateLinkage);
	LLVMSetAlignment(g, 64);
	intrinsic(f, "llvm.x86.ldtilecfg", NULL, NULL, 1, &g);
	return true;
}

void
tiles_end(Fn *f)
{
	intrinsic(f, "llvm.x86.tilerelease", NULL, NULL, 0, NULL);
}

/* The register of a place in a tile buffer. */
static Val
tile_at(Fn *f, const Node *b, Node *const *idx)
{
	Node *e = x_idx(f->m, 0);
	intptr_t first = (intptr_t)map_get(&f->tiles, b);
	int64_t k = -1;
	int i;

	for (i = 0; i + 2 < b->nin; i++)
		e = x_add(f->m, x_mul(f->m, e, b->in[i]), idx[i]);
	if (f->nconsts)
		e = subst(f->m, e, &f->consts, false);
	if (!first || !is_int(e, &k) || k < 0 || k >= tiles_in(b))
		bug(f, "a tile without a number");
	return LLVMConstInt(LLVMInt8TypeInContext(f->cx), (uint64_t)(first - 1 + k) & 7, false);
}

void
tile_move(Fn *f, Node *s)
{
	Spot to = l_spot(s, 0), from = l_spot(s, 1);
	bool load = to.buffer->type->space == SP_TILE;
	Spot tile = load ? to : from, mem = load ? from : to;
	Val stride = LLVMBuildMul(f->b, ex_index(f, l_move_stride(s)), i64c(f, 4), "");
	Val in[3] = {tile_at(f, tile.buffer, tile.idx), place_of(f, mem.buffer, mem.idx), stride};

	if (in[1])
		intrinsic(f, load ? "llvm.x86.tileloadd64" : "llvm.x86.tilestored64", NULL, NULL, 3, in);
}

void
tile_clear(Fn *f, Node *s)
{
	Val t = tile_at(f, s->in[0], s->in + 1);

	intrinsic(f, "llvm.x86.tilezero", NULL, NULL, 1, &t);
}

void
tile_mma(Fn *f, Node *s)
{
	char name[64];
	Val in[3];
	int i;

	for (i = 0; i < 3; i++)
		in[i] = tile_at(f, l_spot(s, i).buffer, l_spot(s, i).idx);
	snprintf(name, sizeof name, "llvm.x86.%s", s->name);
	intrinsic(f, name, NULL, NULL, 3, in);
}
