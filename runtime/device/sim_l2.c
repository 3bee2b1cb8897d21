/*
 * The second cache: what a launch asks of global memory, sector by sector, and what of it memory itself must
 * move. Blocks run here one after the other; on a machine many run at once. So a block's accesses are kept
 * until as many blocks are there as run at once, and then replayed side by side: the first of each, the second
 * of each. The cache is of whole sectors, associative, drops what was used least recently, and is empty when a
 * launch begins. A sector that is written is not fetched; it moves when it is dropped or the launch ends.
 */
#include "sim_impl.h"

#include <stdlib.h>
#include <string.h>

enum { SECTOR_BITS = 5, NONE = -1 };

typedef struct Line {
	uint64_t sector;
	int32_t next, older, newer;     /* in its chain; by use */
	bool dirty;
} Line;

typedef struct Trace {
	uint64_t *at;                   /* sector << 1 | written */
	uint64_t n, cap;
} Trace;

struct SimL2 {
	Line *line;
	int32_t *chain, n, cap, oldest, newest;
	uint32_t chains;
	Trace *traces;                  /* of the blocks that run at once */
	uint32_t ntraces, blocks;
	bool failed;
};

void sim_l2_free(SimL2 *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->blocks; i++)
		free(c->traces[i].at);
	free(c->traces);
	free(c->line);
	free(c->chain);
	free(c);
}

SimL2 *sim_l2_new(uint64_t bytes, uint32_t blocks)
{
	SimL2 *c = calloc(1, sizeof *c);

	if (!c || bytes >> SECTOR_BITS >= INT32_MAX / 2)
		return free(c), NULL;
	c->cap = (int32_t)(bytes >> SECTOR_BITS);
	for (c->chains = 1; c->chains < (uint32_t)c->cap; c->chains *= 2)
		;
	c->blocks = blocks;
	c->line = calloc((size_t)c->cap + 1, sizeof *c->line);
	c->chain = malloc(c->chains * sizeof *c->chain);
	c->traces = calloc(blocks, sizeof *c->traces);
	if (!c->cap || !c->line || !c->chain || !c->traces)
		return sim_l2_free(c), NULL;
	return c;
}

static int32_t *chain_of(SimL2 *c, uint64_t sector)
{
	return &c->chain[(sector * 0x9e3779b97f4a7c15 >> 32) & (c->chains - 1)];
}

static void take_out(SimL2 *c, int32_t i)
{
	Line *l = &c->line[i];

	*(l->older == NONE ? &c->oldest : &c->line[l->older].newer) = l->newer;
	*(l->newer == NONE ? &c->newest : &c->line[l->newer].older) = l->older;
}

static void put_newest(SimL2 *c, int32_t i)
{
	c->line[i].older = c->newest;
	c->line[i].newer = NONE;
	*(c->newest == NONE ? &c->oldest : &c->line[c->newest].newer) = i;
	c->newest = i;
}

/* A free line, or the oldest one's, which moves to memory if it is dirty. */
static int32_t make_room(SimL2 *c, SimCounters *count)
{
	int32_t i = c->oldest, *p;

	if (c->n < c->cap)
		return c->n++;
	take_out(c, i);
	count->dram_written += c->line[i].dirty ? 1 << SECTOR_BITS : 0;
	for (p = chain_of(c, c->line[i].sector); *p != i; p = &c->line[*p].next)
		;
	*p = c->line[i].next;
	return i;
}

static void use(SimL2 *c, uint64_t sector, bool written, SimCounters *count)
{
	int32_t i = *chain_of(c, sector);

	while (i != NONE && c->line[i].sector != sector)
		i = c->line[i].next;
	if (i != NONE) {
		take_out(c, i);
	} else {
		i = make_room(c, count);
		c->line[i] = (Line){ .sector = sector, .next = *chain_of(c, sector) };
		*chain_of(c, sector) = i;
		count->dram_read += written ? 0 : 1 << SECTOR_BITS;
	}
	put_newest(c, i);
	c->line[i].dirty |= written;
}

static void replay(SimL2 *c, SimCounters *count)
{
	bool more = true;

	for (uint64_t i = 0; more; i++) {
		more = false;
		for (uint32_t b = 0; b < c->ntraces; b++) {
			Trace *t = &c->traces[b];

			if (i >= t->n)
				continue;
			use(c, t->at[i] >> 1, t->at[i] & 1, count);
			more = true;
		}
	}
	for (uint32_t b = 0; b < c->ntraces; b++)
		c->traces[b].n = 0;
	c->ntraces = 0;
}

void sim_l2_start(SimL2 *c)
{
	memset(c->chain, 0xff, c->chains * sizeof *c->chain);
	c->n = 0;
	c->oldest = c->newest = NONE;
	c->ntraces = 0;
}

void sim_l2_block(SimL2 *c, SimCounters *count)
{
	if (c->ntraces == c->blocks)
		replay(c, count);
	c->ntraces++;
}

bool sim_l2_access(SimL2 *c, uint64_t addr, uint64_t bytes, bool written)
{
	Trace *t = &c->traces[c->ntraces - 1];

	for (uint64_t s = addr >> SECTOR_BITS; s <= (addr + bytes - 1) >> SECTOR_BITS; s++) {
		uint64_t item = s << 1 | written;

		if (t->n && t->at[t->n - 1] == item)
			continue;
		if (t->n == t->cap) {
			uint64_t cap = t->cap ? 2 * t->cap : 1024, *p = realloc(t->at, cap * sizeof *p);

			if (!p)
				return false;
			t->at = p;
			t->cap = cap;
		}
		t->at[t->n++] = item;
	}
	return true;
}

void sim_l2_end(SimL2 *c, SimCounters *count)
{
	replay(c, count);
	for (int32_t i = 0; i < c->n; i++)
		count->dram_written += c->line[i].dirty ? 1 << SECTOR_BITS : 0;
}
