/*
 * The simulator's launch: blocks one after the other, the threads of a block as fibers.
 *
 * A thread runs until it must wait. Then the fiber itself looks for the next thread: first among
 * the lanes of its warp, in the block's order of lanes, then in the next warp that has a ready
 * one. So a warp runs until none of its lanes can go on, which is what lets sim_count.c see the
 * requests of a warp together. A fiber whose thread has ended runs the next new thread on the
 * same stack: a kernel that never waits is a plain loop over its threads.
 */
#define _GNU_SOURCE
#include "sim_impl.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

Launch sim_run;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

enum { SHARED_CAP = 1 << 20 };

/* --- findings ---------------------------------------------------------------------------- */

/* Counts a finding that is known already. */
static bool known(Sim *s, const char *kind, const void *pc, const char *kernel)
{
	for (int i = 0; i < s->nfindings; i++) {
		SimFinding *f = &s->findings[i];

		if (s->places[i] == pc && !strcmp(f->kind, kind) && !strcmp(f->kernel, kernel)) {
			f->count++;
			return true;
		}
	}
	return false;
}

static void add(Sim *s, const char *kind, const void *pc, const char *kernel, const char *text)
{
	char *copy = s->nfindings < MAX_FINDINGS ? strdup(text) : NULL;
	char *name = copy ? strdup(kernel) : NULL;
	if (!name) {
		free(copy);
		s->more++;
		return;
	}
	s->places[s->nfindings] = pc;
	s->findings[s->nfindings++] = (SimFinding){ kind, name, copy, 1 };
}

void sim_find_at(const char *kind, const void *pc, const char *fmt, ...)
{
	Launch *r = &sim_run;
	Thread *t = r->cur;
	char what[320], place[128] = "", text[640];
	va_list ap;

	if (known(r->sim, kind, pc, r->name))
		return;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	r->cur = NULL;          /* the hooks stay quiet in here */
	sim_line_of(pc, place, sizeof place);
	if (t)
		snprintf(text, sizeof text, "%s: %s%s%s: %s (block %u,%u,%u thread %d)", r->name,
			place, *place ? ": " : "", kind, what, r->block_at[0], r->block_at[1],
			r->block_at[2], t->index);
	else
		snprintf(text, sizeof text, "%s: %s%s%s: %s", r->name, place, *place ? ": " : "",
			kind, what);
	add(r->sim, kind, pc, r->name, text);
	r->cur = t;
}

int sim_findings(const Sim *s, const SimFinding **list)
{
	*list = s->findings;
	return s->nfindings;
}

void sim_clear(Sim *s)
{
	for (int i = 0; i < s->nfindings; i++) {
		free((char *)s->findings[i].text);
		free((char *)s->findings[i].kernel);
	}
	s->nfindings = 0;
	s->more = 0;
}

int sim_counters(const Sim *s, const SimCounters **list)
{
	*list = s->counters;
	return s->ncounters;
}

static double ratio(uint64_t a, uint64_t b)
{
	return b ? (double)a / (double)b : 1;
}

void sim_report(const Sim *s, FILE *out)
{
	for (int i = 0; i < s->nfindings; i++)
		fprintf(out, "%s [%llu times]\n", s->findings[i].text,
			(unsigned long long)s->findings[i].count);
	if (s->more)
		fprintf(out, "%llu further findings\n", (unsigned long long)s->more);
	for (int i = 0; i < s->ncounters; i++) {
		const SimCounters *c = &s->counters[i];

		fprintf(out, "%s: launches %llu threads %llu  read %llu B (%llu distinct) sectors "
			"%.2f of ideal  written %llu B (%llu) sectors %.2f  shared wavefronts %.2f"
			"  mma %llu boxes %llu", c->kernel, (unsigned long long)c->launches,
			(unsigned long long)c->threads, (unsigned long long)c->ld_bytes,
			(unsigned long long)c->ld_unique, ratio(c->ld_sectors, c->ld_ideal),
			(unsigned long long)c->st_bytes, (unsigned long long)c->st_unique,
			ratio(c->st_sectors, c->st_ideal),
			ratio(c->shared_wavefronts, c->shared_ideal),
			(unsigned long long)c->mma, (unsigned long long)c->boxes);
		if (s->l2)
			fprintf(out, "  memory reads %llu B writes %llu B", (unsigned long long)c->dram_read,
				(unsigned long long)c->dram_written);
		fputc('\n', out);
	}
}

/* --- schedule ---------------------------------------------------------------------------- */

static void switch_to(Thread *t);

/* Leaves the launch's fibers as they are; nobody comes back. */
static void to_main(void)
{
	sim_run.cur = NULL;
	sim_fiber_switch(NULL, sim_run.main_sp);
}

void sim_sched_stop(void)
{
	sim_run.ended = true;
	to_main();
}

/* Next ready lane of the warp after the one that ran last, in the block's order of lanes. */
static Thread *next_lane(Warp *w)
{
	Launch *r = &sim_run;
	int lanes = r->sim->config.warp;

	for (int k = 1; w->ready && k <= lanes; k++) {
		int pos = (w->pos + k) & (lanes - 1), lane = pos ^ r->lane_xor;
		Thread *t = &r->threads[w->first + lane];

		if (lane < w->size && (t->state == T_READY || t->state == T_NEW)) {
			w->pos = pos;
			return t;
		}
	}
	return NULL;
}

/* The thread to run next; NULL: none can. */
static Thread *next_thread(void)
{
	Launch *r = &sim_run;
	Thread *t = next_lane(&r->warps[r->warp_order[r->cur_warp]]);

	if (t)
		return t;
	if (r->count)
		sim_count_flush();
	while (!r->nready && sim_async_land())
		;
	for (int k = 0; k < r->nwarps && r->nready; k++) {
		r->cur_warp = r->cur_warp + 1 < r->nwarps ? r->cur_warp + 1 : 0;
		t = next_lane(&r->warps[r->warp_order[r->cur_warp]]);
		if (t)
			return t;
	}
	return NULL;
}

static void set_state(Thread *t, ThreadState state)
{
	Warp *w = &sim_run.warps[t->warp];
	bool was = t->state <= T_READY, is = state <= T_READY;

	w->ready += is - was;
	sim_run.nready += is - was;
	t->state = (uint8_t)state;
}

void sim_sched_ready(Thread *t)
{
	set_state(t, T_READY);
}

/* A fiber: runs its thread, then further new ones. */
static void fiber_main(void)
{
	Launch *r = &sim_run;

	sim_fiber_begun();
	for (;;) {
		r->kernel(r->args);
		Thread *t = r->cur;
		set_state(t, T_DONE);
		r->ndone++;
		Thread *n = next_thread();
		if (!n)
			to_main();
		else if (n->state == T_NEW) {
			n->stack = t->stack;
			set_state(n, T_READY);
			r->cur = n;
		} else {
			r->free_stacks[r->nfree++] = t->stack;
			switch_to(n);
		}
	}
}

static void switch_to(Thread *n)
{
	Launch *r = &sim_run;
	Thread *t = r->cur;

	if (n->state == T_NEW) {
		n->stack = r->free_stacks[--r->nfree];
		n->sp = sim_fiber_prepare(n->stack, fiber_main);
		set_state(n, T_READY);
	}
	r->cur = n;
	sim_fiber_switch(t ? &t->sp : NULL, n->sp);
}

void sim_sched_wait(ThreadState why)
{
	Launch *r = &sim_run;
	Thread *t = r->cur;

	set_state(t, why);
	Thread *n = next_thread();
	if (n)
		switch_to(n);
	else
		to_main();
}

void sim_sched_wake_warp(Warp *w)
{
	Thread *t = &sim_run.threads[w->first];

	for (int i = 0; i < w->size; i++)
		if (t[i].state == T_AT_WARP)
			set_state(&t[i], T_READY);
}

static const char *where(const Thread *t, char *buf, size_t size)
{
	char line[96] = "";
	static const char *const states[] = { [T_DONE] = "has ended", [T_AT_BARRIER] = "waits at the barrier",
		[T_AT_WARP] = "waits at a warp operation", [T_AT_GROUP] = "waits at a warp group's operation",
		[T_AT_PHASE] = "waits for a phase", [T_AT_PART] = "waits at a part's barrier" };
	const char *what = states[t->state] ? states[t->state] : "runs";

	if (t->state != T_DONE)
		sim_line_of(t->pc, line, sizeof line);
	snprintf(buf, size, "thread %d %s%s%s", t->index, what, *line ? ", " : "", line);
	return buf;
}

/* No thread can go on though some have not ended. */
static void report_deadlock(void)
{
	Launch *r = &sim_run;
	const Thread *waits = NULL, *other = NULL;
	char a[160], b[160];

	for (int i = 0; i < r->nthreads; i++)
		if (!waits && r->threads[i].state != T_DONE)
			waits = &r->threads[i];
	for (int i = 0; i < r->nthreads; i++) {
		const Thread *t = &r->threads[i];

		if (!other && (t->state != waits->state || t->pc != waits->pc))
			other = t;
	}
	sim_find_at("divergence", waits->pc, "block %u,%u,%u: %s while %s; %d of %d threads wait",
		r->block_at[0], r->block_at[1], r->block_at[2], where(waits, a, sizeof a),
		other ? where(other, b, sizeof b) : "nobody can come", r->nthreads - r->ndone,
		r->nthreads);
	r->ended = true;
}

/* --- barriers and shared arrays: called by kernels --------------------------------------- */

static void pass_barrier(void)
{
	Launch *r = &sim_run;
	const Thread *odd = NULL;

	for (int i = 1; i < r->nthreads && !odd; i++)
		if (r->threads[i].pc != r->threads[0].pc)
			odd = &r->threads[i];
	if (odd) {
		char line[96] = "?";

		sim_line_of(odd->pc, line, sizeof line);
		sim_find_at("divergence", r->threads[0].pc,
			"threads meet at different barriers, thread 0 here, thread %d at %s",
			odd->index, line);
	}
	if (r->count)
		sim_count_flush();
	r->c->barriers++;
	r->nbarrier = 0;
	r->stamp += (uint64_t)1 << 20;
	if (!(r->stamp >> 20 & 0x3ffff))
		r->stamp -= (uint64_t)1 << 38;  /* the segment wraps inside its own bits */
	sim_async_barrier();
	if (r->clocks)
		r->stamp = r->serial << 38 | (uint64_t)(r->base_segment & 0x3ffff) << 20;
	for (int i = 0; i < r->nthreads; i++) {
		r->threads[i].wseg = 0;
		set_state(&r->threads[i], T_READY);
	}
}

void tcc_sim_barrier(void)
{
	Launch *r = &sim_run;
	Thread *t = r->cur;

	t->pc = __builtin_return_address(0);
	if (++r->nbarrier < r->nthreads) {
		sim_sched_wait(T_AT_BARRIER);
		return;
	}
	set_state(t, T_AT_BARRIER);
	pass_barrier();
}

/* Declares the next array when the block's first thread comes by. */
static SharedArray *declare_shared(const char *name, uint64_t bytes, const void *pc)
{
	Launch *r = &sim_run;
	uint64_t limit = r->sim->config.max_shared;

	if (r->narrays == MAX_SHARED_ARRAYS || bytes > limit || r->shared_packed + bytes > limit) {
		sim_find_at("shared", pc, "%s of %llu bytes after %llu others: the machine has %llu",
			name, (unsigned long long)bytes, (unsigned long long)r->shared_packed,
			(unsigned long long)limit);
		return NULL;
	}
	SharedArray *a = &r->arrays[r->narrays++];
	*a = (SharedArray){ name, r->shared_at, r->shared_packed, bytes };
	r->shared_packed += (bytes + 15) & ~(uint64_t)15;
	r->shared_at += ((bytes + 127) & ~(uint64_t)127) + SHARED_GAP;
	if (r->traced)
		memset(r->shared + a->at, 0xff, bytes);
	if (r->c->shared_bytes < r->shared_packed)
		r->c->shared_bytes = r->shared_packed;
	return a;
}

void *tcc_sim_shared(const char *name, uint64_t bytes)
{
	Launch *r = &sim_run;
	const void *pc = __builtin_return_address(0);
	int i = r->cur->nshared++;

	if (!bytes)
		bytes = r->dyn_shared;
	SharedArray *a = i < r->narrays ? &r->arrays[i] : declare_shared(name, bytes, pc);
	if (a && (a->bytes != bytes || strcmp(a->name, name))) {
		sim_find_at("divergence", pc, "threads declare shared arrays in different orders");
		a = NULL;
	}
	if (!a) {
		sim_sched_stop();
		return NULL;
	}
	return r->shared + a->at;
}

int32_t tcc_sim_tx(void) { return sim_run.cur->tx; }
int32_t tcc_sim_block(int32_t dim) { return (int32_t)sim_run.block_at[dim]; }
int32_t tcc_sim_grid(int32_t dim) { return (int32_t)sim_run.grid[dim]; }

/* --- blocks ------------------------------------------------------------------------------ */

/* splitmix64 */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static void block_at(uint64_t i, uint32_t at[3])
{
	Launch *r = &sim_run;
	uint64_t b = (r->order_at + i * r->order_step) % r->nblocks;

	at[0] = (uint32_t)(b % r->grid[0]);
	at[1] = (uint32_t)(b / r->grid[0] % r->grid[1]);
	at[2] = (uint32_t)(b / r->grid[0] / r->grid[1]);
}

void sim_block_of_serial(uint64_t serial, uint32_t at[3])
{
	block_at(serial - sim_run.first_serial, at);
}

/* The order of warps and lanes: as they are, or drawn from the seed and the block. */
static void order_threads(uint64_t block)
{
	Launch *r = &sim_run;
	uint64_t seed = r->sim->config.seed, x = mix(seed ^ mix(block));

	for (int i = 0; i < r->nwarps; i++)
		r->warp_order[i] = (uint16_t)i;
	r->lane_xor = 0;
	if (!seed)
		return;
	r->lane_xor = (int)(x & (uint64_t)(r->sim->config.warp - 1));
	for (int i = r->nwarps - 1; i > 0; i--) {
		x = mix(x);
		int j = (int)(x % (uint64_t)(i + 1));
		uint16_t w = r->warp_order[i];
		r->warp_order[i] = r->warp_order[j];
		r->warp_order[j] = w;
	}
}

static void init_block(uint64_t block)
{
	Launch *r = &sim_run;
	int lanes = r->sim->config.warp;

	block_at(block, r->block_at);
	order_threads(block);
	r->serial = r->first_serial + block;
	r->stamp = r->serial << 38;
	r->nready = r->nthreads;
	sim_async_start();
	r->nbarrier = r->ndone = r->cur_warp = 0;
	r->narrays = 0;
	memset(r->near, 0, sizeof r->near);
	r->shared_at = r->shared_packed = 0;
	for (int i = 0; i < MAX_THREADS; i++)
		r->free_stacks[i] = MAX_THREADS - 1 - i;
	r->nfree = MAX_THREADS;
	for (int i = 0; i < r->nwarps; i++) {
		int left = r->nthreads - i * lanes;

		sim_warp_start(&r->warps[i], i * lanes, left < lanes ? left : lanes);
	}
}

static void run_block(uint64_t block)
{
	Launch *r = &sim_run;

	init_block(block);
	r->cur = NULL;
	Thread *first = next_lane(&r->warps[r->warp_order[0]]);
	first->stack = r->free_stacks[--r->nfree];
	first->sp = sim_fiber_prepare(first->stack, fiber_main);
	set_state(first, T_READY);
	r->cur = first;
	sim_fiber_switch(&r->main_sp, first->sp);
	r->cur = NULL;
	if (!r->ended && r->ndone < r->nthreads)
		report_deadlock();
	sim_async_end();
}

/* --- launch ------------------------------------------------------------------------------ */

static SimCounters *counters_of(Sim *s, const char *name)
{
	for (int i = 0; i < s->ncounters; i++)
		if (!strcmp(s->counters[i].kernel, name))
			return &s->counters[i];
	if (s->ncounters == s->counter_cap) {
		int cap = s->counter_cap ? s->counter_cap * 2 : 16;
		SimCounters *c = realloc(s->counters, (size_t)cap * sizeof *c);

		if (!c)
			return NULL;
		s->counters = c;
		s->counter_cap = cap;
	}
	char *copy = strdup(name);
	if (!copy)
		return NULL;
	SimCounters *c = &s->counters[s->ncounters++];
	*c = (SimCounters){ .kernel = copy };
	return c;
}

static int find_image(struct dl_phdr_info *info, size_t size, void *arg)
{
	Launch *r = arg;
	uint64_t pc = (uint64_t)r->kernel;
	uint64_t lo = UINT64_MAX, hi = 0;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		uint64_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

		if (info->dlpi_phdr[i].p_type != PT_LOAD)
			continue;
		lo = at < lo ? at : lo;
		hi = at + info->dlpi_phdr[i].p_memsz > hi ? at + info->dlpi_phdr[i].p_memsz : hi;
	}
	if (pc < lo || pc >= hi)
		return 0;
	r->image_lo = (const uint8_t *)lo;
	r->image_hi = (const uint8_t *)hi;
	return 1;
}

/* Memory and thread indices that do not change from block to block; false: out of memory. */
static bool prepare(Launch *r, const uint32_t block[3])
{
	Sim *s = r->sim;
	uint64_t seed = s->config.seed, cap = s->config.max_shared + 2 * SHARED_GAP *
		(uint64_t)MAX_SHARED_ARRAYS;

	if (r->shared_cap < cap) {
		if (r->shared)
			munmap(r->shared, r->shared_cap);
		sim_shadow_free(&r->shared_shadow);
		r->shared_cap = 0;
		r->shared = sim_map_zero(cap);
		if (!r->shared)
			return false;
		r->shared_cap = cap;
		r->shared_shadow = (Shadow){ .bytes = cap, .shift = 2 };
	}
	if (!sim_fiber_stacks())
		return false;
	r->nthreads = (int)(block[0] * block[1] * block[2]);
	r->warp_shift = s->config.warp == 64 ? 6 : 5;
	r->nwarps = (r->nthreads + s->config.warp - 1) / s->config.warp;
	for (int i = 0; i < r->nthreads; i++) {
		Thread *t = &r->threads[i];

		t->index = (uint16_t)i;
		t->tx = (int32_t)((uint32_t)i % block[0]);
		t->warp = (uint16_t)(i / s->config.warp);
		t->lane = (uint16_t)(i % s->config.warp);
	}
	r->order_at = seed ? mix(seed) % r->nblocks : 0;
	r->order_step = seed & 1 && r->nblocks > 1 ? r->nblocks - 1 : 1;
	return true;
}

static bool valid(const Sim *s, const uint32_t grid[3], const uint32_t block[3])
{
	uint64_t n = 1, threads = 1;

	for (int i = 0; i < 3; i++) {
		if (grid[i] > INT32_MAX || block[i] > MAX_THREADS)
			return false;
		n *= grid[i];
		if (n > UINT32_MAX)
			return false;
		threads *= block[i];
	}
	return threads && threads <= s->config.max_threads;
}

int sim_launch(Sim *s, SimKernel *kernel, const char *name, const uint32_t grid[3],
	const uint32_t block[3], uint64_t shared, void **args)
{
	enum { LAST_SERIAL = 1 << 26 };
	Launch *r = &sim_run;
	static uint64_t next_serial = 1, wipes; /* under the lock */
	int status = SIM_INVALID;

	pthread_mutex_lock(&lock);
	uint64_t before = s->nfindings + s->more;
	SimCounters *c = counters_of(s, name);
	r->sim = s;
	r->c = c;
	r->kernel = kernel;
	r->args = args;
	r->name = name;
	memcpy(r->grid, grid, sizeof r->grid);
	r->nblocks = (uint64_t)grid[0] * grid[1] * grid[2];
	r->dyn_shared = shared;
	r->ended = r->failed = false;
	r->traced = s->config.traced;
	r->count = s->config.traced && s->config.count;
	if (!c || (valid(s, grid, block) && r->nblocks && !prepare(r, block))) {
		status = SIM_NOMEM;
	} else if (valid(s, grid, block) && r->nblocks < LAST_SERIAL) {
		if (next_serial + r->nblocks >= LAST_SERIAL) {
			wipes++;
			next_serial = 1;
		}
		if (s->wipes != wipes)
			sim_trace_wipe(s);
		s->wipes = wipes;
		r->first_serial = next_serial;
		r->first_stamp = next_serial << 38;
		r->stamps = r->nblocks << 38;
		next_serial += r->nblocks;
		dl_iterate_phdr(find_image, r);
		sim_count_start(s);
		c->launches++;
		c->blocks += r->nblocks;
		c->threads += r->nblocks * (uint64_t)r->nthreads;
		if (s->l2)
			sim_l2_start(s->l2);
		for (uint64_t b = 0; b < r->nblocks && !r->ended && !r->failed; b++) {
			if (s->l2)
				sim_l2_block(s->l2, c);
			run_block(b);
			if (r->count && s->l2)
				sim_count_flush();      /* its accesses are its own */
		}
		if (r->count)
			sim_count_flush();
		if (s->l2)
			sim_l2_end(s->l2, c);
		status = r->failed ? SIM_NOMEM :
			s->nfindings + s->more != before || r->ended ? SIM_FINDINGS : SIM_OK;
		if (r->traced)
			sim_trace_trim(s);
	}
	r->sim = NULL;
	s->nviews = 0;
	pthread_mutex_unlock(&lock);
	return status;
}

/* --- the simulator and its memory -------------------------------------------------------- */

Sim *sim_new(const SimConfig *config)
{
	Sim *s = calloc(1, sizeof *s);

	if (!s)
		return NULL;
	s->config = *config;
	if (!s->config.max_threads)
		s->config.max_threads = MAX_THREADS;
	if (!s->config.max_shared)
		s->config.max_shared = 48 << 10;
	s->sites = calloc(SITES, sizeof *s->sites);
	if (config->l2)
		s->l2 = sim_l2_new(config->l2, config->at_once);
	if (s->sites && !s->l2 == !config->l2 && (config->warp == 32 || config->warp == 64) &&
	    s->config.max_threads <= MAX_THREADS && s->config.max_shared <= SHARED_CAP)
		return s;
	sim_free(s);
	return NULL;
}

static void free_region(Region *g)
{
	if (g->own)
		munmap(g->p - GAP, GAP + ((g->bytes + GAP - 1) & ~(uint64_t)(GAP - 1)) + GAP);
	if (g->def)
		munmap(g->def, g->bytes);
	sim_shadow_free(&g->shadow);
	free(g);
}

void sim_free(Sim *s)
{
	if (!s)
		return;
	sim_l2_free(s->l2);
	sim_clear(s);
	for (int i = 0; i < s->nregions; i++)
		free_region(s->regions[i]);
	for (int i = 0; i < s->ncounters; i++)
		free((char *)s->counters[i].kernel);
	if (s->sites)
		sim_count_free(s);
	free(s->sites);
	free(s->regions);
	free(s->counters);
	free(s->views);
	free(s);
}

int sim_register(Sim *s, void *p, uint64_t bytes, bool initialised)
{
	if (s->nregions == s->region_cap) {
		int cap = s->region_cap ? s->region_cap * 2 : 16;
		Region **list = realloc(s->regions, (size_t)cap * sizeof *list);

		if (!list)
			return SIM_NOMEM;
		s->regions = list;
		s->region_cap = cap;
	}
	int i = s->nregions;
	while (i > 0 && s->regions[i - 1]->p > (uint8_t *)p)
		i--;
	if ((i > 0 && s->regions[i - 1]->p + s->regions[i - 1]->bytes > (uint8_t *)p) ||
	    (i < s->nregions && (uint8_t *)p + bytes > s->regions[i]->p))
		return SIM_INVALID;
	Region *g = calloc(1, sizeof *g);
	if (!g)
		return SIM_NOMEM;
	*g = (Region){ .p = p, .bytes = bytes, .all_defined = initialised || !bytes,
		.shadow = { .bytes = bytes, .shift = 2 } };
	if (!g->all_defined && !(g->def = sim_map_zero(bytes))) {
		free(g);
		return SIM_NOMEM;
	}
	memmove(s->regions + i + 1, s->regions + i, (size_t)(s->nregions - i) * sizeof g);
	s->regions[i] = g;
	s->nregions++;
	return SIM_OK;
}

static Region *region_at(const Sim *s, const void *p)
{
	int lo = 0, hi = s->nregions;

	while (lo < hi) {
		int mid = (lo + hi) / 2;

		if (s->regions[mid]->p > (const uint8_t *)p)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo ? s->regions[lo - 1] : NULL;
}

void *sim_alloc(Sim *s, uint64_t bytes)
{
	uint64_t size = bytes ? bytes : 1;

	if (size > (uint64_t)1 << 46)
		return NULL;
	uint64_t room = GAP + ((size + GAP - 1) & ~(uint64_t)(GAP - 1)) + GAP;
	uint8_t *p = sim_map_zero(room);
	if (!p)
		return NULL;
	if (sim_register(s, p + GAP, size, false) != SIM_OK) {
		munmap(p, room);
		return NULL;
	}
	region_at(s, p + GAP)->own = true;
	return p + GAP;
}

void sim_release(Sim *s, void *p)
{
	for (int i = 0; i < s->nregions; i++) {
		if (s->regions[i]->p != p)
			continue;
		free_region(s->regions[i]);
		memmove(s->regions + i, s->regions + i + 1,
			(size_t)(s->nregions - i - 1) * sizeof *s->regions);
		s->nregions--;
		return;
	}
}

/* The region that holds the bytes, cut to its end; NULL: none. */
static Region *region_of(Sim *s, const void *p, uint64_t *bytes)
{
	Region *g = region_at(s, p);
	uint64_t off = g ? (uint64_t)((const uint8_t *)p - g->p) : 0;

	if (!g || off >= g->bytes)
		return NULL;
	if (*bytes > g->bytes - off)
		*bytes = g->bytes - off;
	return g;
}

void sim_written(Sim *s, const void *p, uint64_t bytes)
{
	Region *g = region_of(s, p, &bytes);

	if (!s->config.traced || !g || g->all_defined)
		return;
	if (bytes < g->bytes) {
		memset(g->def + ((const uint8_t *)p - g->p), 1, bytes);
		return;
	}
	g->all_defined = true;
	munmap(g->def, g->bytes);
	g->def = NULL;
}

void sim_undefined(Sim *s, const void *p, uint64_t bytes)
{
	Region *g = region_of(s, p, &bytes);

	if (!s->config.traced || !g)
		return;
	if (!g->def) {
		g->def = sim_map_zero(g->bytes);
		if (!g->def)
			return; /* without the map everything counts as defined */
		memset(g->def, 1, g->bytes);
		g->all_defined = false;
	}
	memset(g->def + ((const uint8_t *)p - g->p), 0, bytes);
}

int sim_host_reads(Sim *s, const void *p, uint64_t bytes, const char *what)
{
	Region *g = region_of(s, p, &bytes);

	if (!s->config.traced || !g || g->all_defined || !bytes)
		return SIM_OK;
	const uint8_t *def = g->def + ((const uint8_t *)p - g->p), *bad = memchr(def, 0, bytes);
	if (!bad)
		return SIM_OK;
	char text[256];
	snprintf(text, sizeof text, "%s: undefined: byte %llu of %llu was never written", what,
		(unsigned long long)(bad - def), (unsigned long long)bytes);
	pthread_mutex_lock(&lock);
	if (!known(s, "undefined", p, what))
		add(s, "undefined", p, what, text);
	pthread_mutex_unlock(&lock);
	return SIM_FINDINGS;
}

int sim_view(Sim *s, const void *p, uint64_t bytes, const char *name)
{
	if (s->nviews == s->view_cap) {
		int cap = s->view_cap ? s->view_cap * 2 : 16;
		View *list = realloc(s->views, (size_t)cap * sizeof *list);

		if (!list)
			return SIM_NOMEM;
		s->views = list;
		s->view_cap = cap;
	}
	View *v = &s->views[s->nviews++];
	*v = (View){ .p = p, .bytes = bytes };
	snprintf(v->name, sizeof v->name, "%s", name);
	return SIM_OK;
}
