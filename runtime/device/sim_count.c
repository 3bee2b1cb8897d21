/*
 * What the simulator counts of memory: the requests that the lanes of a warp make together.
 *
 * Lanes run one after the other, so the accesses of one instruction arrive apart. A site (an
 * instruction, by its return address) keeps a row for each time a lane has come by: the k-th
 * access of each lane since the warp last stopped goes into row k. When the warp stops, each row
 * is a request. Lanes that diverge by count of iterations still fall into the right rows.
 *
 * Global memory: 32-byte sectors. Shared memory: 32 banks of 4 bytes; accesses of 8 bytes go by
 * half warps, of 16 by quarters, two of which share a pass when that costs none of them more.
 */
#include "sim_impl.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 1 << 14, BANKS = 32, MAX_WORDS = MAX_WARP * 4 };

/* A set of words, by bank. */
typedef struct Pass {
	int n[BANKS], degree, words;
	uint64_t word[BANKS][MAX_WARP];
} Pass;

static void pass_add(Pass *p, uint64_t word)
{
	int b = (int)(word % BANKS);

	for (int i = 0; i < p->n[b]; i++)
		if (p->word[b][i] == word)
			return;
	if (p->n[b] == MAX_WARP)
		return;
	p->word[b][p->n[b]++] = word;
	p->words++;
	if (p->degree < p->n[b])
		p->degree = p->n[b];
}

static void pass_clear(Pass *p)
{
	memset(p->n, 0, sizeof p->n);
	p->degree = p->words = 0;
}

static void pass_unite(Pass *p, const Pass *q)
{
	for (int b = 0; b < BANKS; b++)
		for (int i = 0; i < q->n[b]; i++)
			pass_add(p, q->word[b][i]);
}

static void pass_lanes(Pass *p, const Site *s, const uint64_t *addr, uint64_t mask)
{
	for (; mask; mask &= mask - 1) {
		uint64_t a = addr[__builtin_ctzll(mask)];

		for (uint64_t w = a / 4; w <= (a + s->bytes - 1) / 4; w++)
			pass_add(p, w);
	}
}

/* Consecutive lanes at consecutive addresses, or all at one. */
static bool regular(const Site *s, const uint64_t *addr, int n, bool *same)
{
	uint64_t step = n > 1 ? addr[1] - addr[0] : 0;

	*same = !step;
	if (step && step != s->bytes)
		return false;
	for (int i = 1; i < n; i++)
		if (addr[i] - addr[i - 1] != step)
			return false;
	return true;
}

static Request measure_shared(const Site *s, const uint64_t *addr, uint64_t mask)
{
	static Pass all, now, both;     /* under the launch's lock */
	int lanes = s->bytes <= 4 ? 32 : s->bytes <= 8 ? 16 : 8;
	uint64_t waves = 0;
	int n = __builtin_popcountll(mask);
	bool same;

	if (n == sim_run.sim->config.warp && regular(s, addr, n, &same)) {
		waves = same ? 1 : ((uint64_t)n * s->bytes + 4 * BANKS - 1) / (4 * BANKS);
		return (Request){ waves, waves, 0 };
	}
	pass_clear(&all);
	pass_clear(&both);
	for (int at = 0; at < MAX_WARP; at += lanes) {
		uint64_t part = mask >> at & (((uint64_t)1 << lanes) - 1);

		if (!part)
			continue;
		pass_clear(&now);
		pass_lanes(&now, s, addr + at, part);
		pass_unite(&all, &now);
		int before = both.degree, most = before > now.degree ? before : now.degree;
		pass_unite(&both, &now);
		if (before && both.degree > most) {
			waves += (uint64_t)before;
			pass_clear(&both);
			pass_unite(&both, &now);
		}
	}
	return (Request){ waves + (uint64_t)both.degree, (uint64_t)(all.words + BANKS - 1) / BANKS, 0 };
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Sorts and drops equal ones; returns how many are left. */
static int distinct(uint64_t *v, int n)
{
	int k = 0;

	qsort(v, (size_t)n, sizeof *v, by_value);
	for (int i = 0; i < n; i++)
		if (!i || v[i] != v[i - 1])
			v[k++] = v[i];
	return k;
}

static Request measure_global(const Site *s, const uint64_t *addr, uint64_t mask)
{
	uint64_t v[2 * MAX_WARP], sectors, bytes;
	int n = 0, k = 0;
	bool same;

	for (uint64_t m = mask; m; m &= m - 1)
		v[n++] = addr[__builtin_ctzll(m)];
	if (regular(s, v, n, &same)) {
		uint64_t last = same ? v[0] : v[n - 1];

		sectors = (last + s->bytes - 1) / 32 - v[0] / 32 + 1;
		bytes = (last - v[0]) + s->bytes;
	} else {
		n = distinct(v, n);
		bytes = (uint64_t)n * s->bytes;
		uint64_t sec[2 * MAX_WARP];
		for (int i = 0; i < n; i++) {
			sec[k++] = v[i] / 32;
			if ((v[i] + s->bytes - 1) / 32 != v[i] / 32)
				sec[k++] = v[i] / 32 + 1;
		}
		sectors = (uint64_t)distinct(sec, k);
	}
	return (Request){ sectors, (bytes + 31) / 32, bytes };
}

/* The row has the addresses of the last one, moved by whole sectors or words: costs the same. */
static bool like_last(const Site *s, const uint64_t *addr, uint64_t mask)
{
	int first = __builtin_ctzll(mask);
	uint64_t move = addr[first] - s->last_addr[first];

	if (mask != s->last_mask || move & (s->shared ? 3 : 31))
		return false;
	for (uint64_t m = mask; m; m &= m - 1) {
		int i = __builtin_ctzll(m);

		if (addr[i] - s->last_addr[i] != move)
			return false;
	}
	return true;
}

static void count_row(SimCounters *c, Site *s, const uint64_t *addr, uint64_t mask)
{
	SimL2 *l2 = sim_run.sim->l2;

	for (uint64_t m = l2 && !s->shared ? mask : 0; m; m &= m - 1)
		if (!sim_l2_access(l2, addr[__builtin_ctzll(m)], s->bytes, s->write))
			sim_run.failed = true;
	if (!like_last(s, addr, mask)) {
		s->last = s->shared ? measure_shared(s, addr, mask) : measure_global(s, addr, mask);
		s->last_mask = mask;
		memcpy(s->last_addr, addr, (size_t)sim_run.sim->config.warp * sizeof *addr);
	}
	if (s->shared) {
		c->shared_requests++;
		c->shared_wavefronts += s->last.passes;
		c->shared_ideal += s->last.ideal;
	} else if (s->write) {
		c->st_requests++;
		c->st_sectors += s->last.passes;
		c->st_ideal += s->last.ideal;
		c->st_bytes += s->last.bytes;
	} else {
		c->ld_requests++;
		c->ld_sectors += s->last.passes;
		c->ld_ideal += s->last.ideal;
		c->ld_bytes += s->last.bytes;
	}
}

Site *sim_count_site(const void *pc, uint64_t bytes, bool write, bool shared)
{
	Site *sites = sim_run.sim->sites;
	uint64_t key = (uint64_t)pc << 8 | bytes << 2 | (uint64_t)write << 1 | shared;
	uint64_t at = (key * 0x9e3779b97f4a7c15) >> 52;

	for (int k = 0; k < SITES; k++, at = (at + 1) % SITES) {
		Site *s = &sites[at];

		if (s->key == key)
			return s;
		if (!s->key) {
			sim_run.sim->nsites++;
			s->key = key;
			s->write = write;
			s->shared = shared;
			s->bytes = (uint16_t)bytes;
			s->last_mask = 0;
			return s;
		}
	}
	return NULL;
}

static bool grow(Site *s)
{
	int lanes = sim_run.sim->config.warp;
	uint32_t cap = s->cap ? s->cap * 4 : 16;
	uint64_t *mask = realloc(s->mask, cap * sizeof *mask);

	if (mask)
		s->mask = mask;
	uint64_t *addr = mask ? realloc(s->addr, (size_t)cap * (size_t)lanes * sizeof *addr) : NULL;
	if (!addr)
		return false;
	s->addr = addr;
	s->cap = cap;
	return true;
}

void sim_count_at(Site *s, uint64_t addr)
{
	Launch *r = &sim_run;
	const Thread *t = r->cur;

	if (!s)
		return;
	uint32_t row = s->seen[t->lane]++;
	if (row >= s->rows) {
		if (row == MAX_ROWS || (row == s->cap && !grow(s))) {
			s->seen[t->lane]--;
			s->over++;
			return;
		}
		s->mask[s->rows++] = 0;
		if (!s->live) {
			s->live = 1;
			r->live[r->nlive++] = s;
		}
	}
	s->mask[row] |= (uint64_t)1 << t->lane;
	s->addr[(uint64_t)row * (uint64_t)r->sim->config.warp + t->lane] = addr;
}

/* A long access, as of memset, counts as accesses of 16 bytes. */
void sim_count_access(const void *pc, uint64_t addr, uint64_t bytes, bool write, bool shared)
{
	for (; bytes > 16; bytes -= 16, addr += 16)
		sim_count_at(sim_count_site(pc, 16, write, shared), addr);
	sim_count_at(sim_count_site(pc, bytes, write, shared), addr);
}

static void flush_site(Site *s, SimCounters *c)
{
	int lanes = sim_run.sim->config.warp;
	SimCounters sum = { 0 };
	uint64_t kept = 0;

	for (uint32_t i = 0; i < s->rows; i++) {
		const uint64_t *addr = s->addr + (uint64_t)i * (uint64_t)lanes;

		if (s->over)
			kept += (uint64_t)__builtin_popcountll(s->mask[i]);
		count_row(&sum, s, addr, s->mask[i]);
	}
	/* accesses beyond the rows count like those within */
#define SUM(field) c->field += sum.field + (s->over ? sum.field * s->over / kept : 0);
	SUM(ld_requests) SUM(ld_sectors) SUM(ld_ideal) SUM(ld_bytes)
	SUM(st_requests) SUM(st_sectors) SUM(st_ideal) SUM(st_bytes)
	SUM(shared_requests) SUM(shared_wavefronts) SUM(shared_ideal)
#undef SUM
	memset(s->seen, 0, sizeof s->seen);
	s->rows = 0;
	s->over = 0;
	s->live = 0;
}

void sim_count_flush(void)
{
	Launch *r = &sim_run;

	for (int i = 0; i < r->nlive; i++)
		flush_site(r->live[i], r->c);
	r->nlive = 0;
}

/* Forgets the instructions of earlier kernels when they fill the table; rows stay allocated. */
void sim_count_start(Sim *s)
{
	if (s->nsites < SITES / 2)
		return;
	for (int i = 0; i < SITES; i++)
		s->sites[i].key = 0;
	s->nsites = 0;
}

void sim_count_free(Sim *s)
{
	for (int i = 0; i < SITES; i++) {
		free(s->sites[i].mask);
		free(s->sites[i].addr);
	}
}
