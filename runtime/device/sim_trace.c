/*
 * What the simulator sees of memory: the hooks that -fsanitize=thread calls, and the shadow
 * memory in which an access meets those before it.
 *
 * The shadow holds, for each granule of 4 bytes, two stamps (see Shadow): of the thread that
 * wrote it last and of the one that read it last. A granule is halved for the whole buffer when
 * the first smaller access comes. With x the stamp found and m the running thread's:
 *   concurrent(x, m)  other block of this launch; or same block and segment, other thread, and
 *                     not two lanes of one warp with a warp barrier between them
 *   read  races with a concurrent last write; write with a concurrent last write or last read
 * Fibers run one at a time, so a race shows by its stamps and never by its result.
 */
#define _GNU_SOURCE
#include "sim_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* LANES + w: several lanes of warp w; PHASE0 + k: a copy, on barrier in memory k */
enum { LANES = MAX_THREADS, PHASE0 = LANES + 64, MANY = 0x7ff };

#define SERIAL(x) ((x) >> 38)
#define SEGMENT(x) ((x) >> 20)  /* serial and segment */
#define WSEG(x) ((x) >> 12 & 0xff)
#define THREAD(x) ((int)((x) >> 1 & MANY))
#define FLAG ((uint64_t)1)

#define INLINE static inline __attribute__((always_inline))     /* millions of accesses a second */

void *sim_map_zero(uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* --- shadow ------------------------------------------------------------------------------ */

static uint64_t plane_bytes(const Shadow *sh, int shift)
{
	return ((sh->bytes >> shift) + 2) * sizeof(uint64_t);
}

void sim_shadow_free(Shadow *sh)
{
	if (sh->w)
		munmap(sh->w, plane_bytes(sh, sh->shift));
	if (sh->r)
		munmap(sh->r, plane_bytes(sh, sh->shift));
	sh->w = sh->r = NULL;
}

static uint64_t *split_plane(const Shadow *sh, uint64_t *old, int shift)
{
	uint64_t *plane = sim_map_zero(plane_bytes(sh, shift));
	uint64_t n = plane ? sh->bytes >> sh->shift : 0;
	int times = 1 << (sh->shift - shift);

	for (uint64_t i = 0; i <= n && plane; i++)
		for (int k = 0; old[i] && k < times && i * (uint64_t)times <= sh->bytes >> shift; k++)
			plane[i * (uint64_t)times + (uint64_t)k] = old[i];
	return plane;
}

/* Makes the planes, with a granule no larger than 1 << shift; false: out of memory. */
static bool shadow_ready(Shadow *sh, int shift)
{
	if (!sh->w) {
		if (sh->shift > shift)
			sh->shift = shift;
		sh->w = sim_map_zero(plane_bytes(sh, sh->shift));
		sh->r = sim_map_zero(plane_bytes(sh, sh->shift));
		return sh->w && sh->r;
	}
	if (sh->shift <= shift)
		return true;
	uint64_t *w = split_plane(sh, sh->w, shift), *r = split_plane(sh, sh->r, shift);
	sim_shadow_free(sh);
	sh->shift = shift;
	sh->w = w;
	sh->r = r;
	return w && r;
}

static void wipe(Shadow *sh)
{
	if (sh->w)
		madvise(sh->w, plane_bytes(sh, sh->shift), MADV_DONTNEED);
	if (sh->r)
		madvise(sh->r, plane_bytes(sh, sh->shift), MADV_DONTNEED);
}

void sim_trace_wipe(Sim *s)
{
	for (int i = 0; i < s->nregions; i++)
		wipe(&s->regions[i]->shadow);
	wipe(&sim_run.shared_shadow);
}

void sim_trace_trim(Sim *s)
{
	uint64_t sum = 0;

	for (int i = 0; i < s->nregions; i++)
		if (s->regions[i]->shadow.w)
			sum += 2 * plane_bytes(&s->regions[i]->shadow, s->regions[i]->shadow.shift);
	for (int i = 0; i < s->nregions && sum > (uint64_t)1 << 30; i++)
		wipe(&s->regions[i]->shadow);
}

/* Of another launch; in shared memory (local), of another block. */
INLINE bool stale(uint64_t x, bool local)
{
	return local ? SERIAL(x) != sim_run.serial : x - sim_run.first_stamp >= sim_run.stamps;
}

INLINE int warp_of(uint64_t x)
{
	int t = THREAD(x);

	return t == MANY ? -1 : t >= LANES ? t - LANES : t >> sim_run.warp_shift;
}

/* Has thread t seen what was done in x, by another thread of the block or by a copy? Of what several
 * threads did it is taken to have. */
static bool seen(const Thread *t, uint64_t x)
{
	const Launch *r = &sim_run;
	const uint32_t *clock = r->clocks + (size_t)t->index * (size_t)r->clock_len;
	uint32_t segment = (uint32_t)(x >> 20 & 0x3ffff);
	int u = THREAD(x);

	if (u >= PHASE0 && u < MANY)
		return clock[r->nthreads + u - PHASE0] > segment;
	return u >= LANES || segment < r->base_segment || clock[u] > segment;
}

INLINE bool concurrent(uint64_t x, uint64_t me, bool local)
{
	if (SERIAL(x) != SERIAL(me))
		return !stale(x, local);
	if (__builtin_expect(sim_run.clocks != NULL, 0))
		return THREAD(x) != THREAD(me) && !seen(sim_run.cur, x);
	if (SEGMENT(x) != SEGMENT(me) || THREAD(x) == THREAD(me))
		return false;
	return warp_of(x) != warp_of(me) || WSEG(x) == WSEG(me);
}

INLINE uint64_t my_stamp(void)
{
	const Thread *t = sim_run.cur;

	if (__builtin_expect(sim_run.clocks != NULL, 0))
		return sim_run.serial << 38 | (uint64_t)(t->segment & 0x3ffff) << 20 | (uint64_t)t->index << 1;
	return sim_run.stamp | (uint64_t)t->wseg << 12 | (uint64_t)t->index << 1;
}

/* The reading stamp after one more read: of several it keeps the latest that all stand for. */
INLINE uint64_t merge_read(uint64_t x, uint64_t me, bool local)
{
	if (SERIAL(x) != SERIAL(me))
		return stale(x, local) ? me : me | FLAG;
	if (SEGMENT(x) != SEGMENT(me) || THREAD(x) == THREAD(me))
		return me | (x & FLAG);
	int who = warp_of(x) == warp_of(me) ? LANES + warp_of(me) : MANY;
	return (me & ~((uint64_t)MANY << 1)) | (uint64_t)who << 1 | (x & FLAG);
}

/* Where an address is, for texts. */
static const char *place(const uint8_t *p, char *buf, size_t size)
{
	const Launch *r = &sim_run;
	const Sim *s = r->sim;

	for (int i = r->narrays - 1; i >= 0 && p >= r->shared && p < r->shared + r->shared_cap; i--) {
		const SharedArray *a = &r->arrays[i];

		if (p < r->shared + a->at && i > 0)
			continue;
		snprintf(buf, size, "shared %s + %lld (of %llu bytes)", a->name,
			(long long)(p - (r->shared + a->at)), (unsigned long long)a->bytes);
		return buf;
	}
	uint64_t best = UINT64_MAX;
	snprintf(buf, size, "address %p, near no buffer", (const void *)p);
	for (int i = 0; i < (s->nviews ? s->nviews : s->nregions); i++) {
		const uint8_t *base = s->nviews ? s->views[i].p : s->regions[i]->p;
		uint64_t n = s->nviews ? s->views[i].bytes : s->regions[i]->bytes;
		uint64_t far = p < base ? (uint64_t)(base - p) : p < base + n ? 0 :
			(uint64_t)(p - (base + n)) + 1;

		if (far >= best || far > 1 << 20)
			continue;
		best = far;
		if (s->nviews)
			snprintf(buf, size, "%s + %lld (of %llu bytes)", s->views[i].name,
				(long long)(p - base), (unsigned long long)n);
		else
			snprintf(buf, size, "buffer %p + %lld (of %llu bytes)",
				(const void *)base, (long long)(p - base), (unsigned long long)n);
	}
	return buf;
}

__attribute__((noinline, cold))
static void report_race(const uint8_t *p, Access a, uint64_t x, bool x_wrote, const void *pc)
{
	static const char *const doing[] = { "read", "write", "atomic" };
	char at[160], who[80] = "several threads";
	uint32_t b[3];

	sim_block_of_serial(SERIAL(x), b);
	if (SERIAL(x) != sim_run.serial)
		snprintf(who, sizeof who, "block %u,%u,%u", b[0], b[1], b[2]);
	else if (THREAD(x) < LANES)
		snprintf(who, sizeof who, "thread %d", THREAD(x));
	sim_find_at("race", pc, "%s of %s meets a %s by %s%s", doing[a], place(p, at, sizeof at),
		x_wrote ? "write" : "read", who,
		SERIAL(x) == sim_run.serial ? ", with no barrier between" : "");
}

/* 1 if this is the granule's first read of the launch. */
INLINE uint64_t meet_read(Shadow *sh, const uint8_t *base, uint64_t i, uint64_t me, bool local,
	const void *pc)
{
	uint64_t w = sh->w[i], r = sh->r[i];

	if (concurrent(w, me, local))
		report_race(base + (i << sh->shift), A_READ, w, true, pc);
	if (r == me)
		return 0;
	sh->r[i] = merge_read(r, me, local);
	return stale(r, local);
}

/* Does an access meet others that no barrier orders, for the stamps found? */
INLINE bool write_races(uint64_t w, uint64_t me, bool local, Access a)
{
	return w != me && concurrent(w, me, local) && !(a == A_ATOMIC && w & FLAG);
}

INLINE bool read_races(uint64_t r, uint64_t me, bool local)
{
	return r != me && !stale(r, local) && (r & FLAG || concurrent(r, me, local));
}

INLINE uint64_t meet_write(Shadow *sh, const uint8_t *base, uint64_t i, uint64_t me, bool local,
	Access a, const void *pc)
{
	uint64_t w = sh->w[i], r = sh->r[i];

	if (write_races(w, me, local, a))
		report_race(base + (i << sh->shift), a, w, true, pc);
	if (read_races(r, me, local))
		report_race(base + (i << sh->shift), a, r, false, pc);
	sh->w[i] = me | (a == A_ATOMIC ? FLAG : 0);
	return stale(w, local);
}

/* Meets the accesses before; returns how many bytes were not touched this way in this launch. */
static uint64_t meet(Shadow *sh, const uint8_t *base, uint64_t off, uint64_t bytes, Access a,
	const void *pc)
{
	uint64_t me = my_stamp(), fresh = 0, last = (off + bytes - 1) >> sh->shift;
	bool local = sh == &sim_run.shared_shadow;

	for (uint64_t i = off >> sh->shift; i <= last; i++)
		fresh += a == A_READ ? meet_read(sh, base, i, me, local, pc) :
			meet_write(sh, base, i, me, local, a, pc);
	fresh <<= sh->shift;
	return fresh < bytes ? fresh : bytes;
}

static int granule(uint64_t p, uint64_t bytes)
{
	uint64_t x = p | bytes;

	return x & 1 ? 0 : x & 2 ? 1 : 2;
}

static Near *near_of(const void *pc)
{
	return &sim_run.near[(uint64_t)pc % NEARS];
}

/* --- accesses ---------------------------------------------------------------------------- */

static bool stop(const char *kind, const void *pc, const uint8_t *p, uint64_t bytes, Access a)
{
	static const char *const doing[] = { "read", "write", "atomic" };
	char at[160];

	sim_find_at(kind, pc, "%s of %llu bytes at %s", doing[a], (unsigned long long)bytes,
		place(p, at, sizeof at));
	sim_sched_stop();
	return false;
}

static bool no_memory(void)
{
	sim_run.failed = true;
	sim_sched_stop();
	return false;
}

static bool shared_access(const uint8_t *p, uint64_t bytes, Access a, const void *pc)
{
	Launch *r = &sim_run;
	Shadow *sh = &r->shared_shadow;
	uint64_t off = (uint64_t)(p - r->shared);
	const SharedArray *in = NULL;

	for (int i = 0; i < r->narrays && !in; i++)
		if (off >= r->arrays[i].at && off + bytes <= r->arrays[i].at + r->arrays[i].bytes)
			in = &r->arrays[i];
	if (!in)
		return stop("bounds", pc, p, bytes, a);
	*near_of(pc) = (Near){ .pc = pc, .p = r->shared + in->at, .bytes = in->bytes,
		.packed = in->packed };
	if (!shadow_ready(sh, granule(off, bytes)))
		return no_memory();
	uint64_t last = (off + bytes - 1) >> sh->shift;
	for (uint64_t i = off >> sh->shift; a != A_WRITE && i <= last; i++) {
		char at[160];

		if (SERIAL(sh->w[i]) == r->serial)
			continue;
		sim_find_at("undefined", pc, "read of %s, which nobody has written",
			place(r->shared + (i << sh->shift), at, sizeof at));
		break;
	}
	meet(sh, r->shared, off, bytes, a, pc);
	if (r->count)
		sim_count_access(pc, in->packed + (off - in->at), bytes, a != A_READ, true);
	return true;
}

static Region *find_region(const uint8_t *p)
{
	Sim *s = sim_run.sim;
	int lo = 0, hi = s->nregions;

	while (lo < hi) {
		int mid = (lo + hi) / 2;

		if (s->regions[mid]->p > p)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo ? s->regions[lo - 1] : NULL;
}

/* Inside one of the launch's views, if it has any; the instruction is likely to stay there. */
static bool in_views(Region *g, const uint8_t *p, uint64_t bytes, const void *pc)
{
	const Sim *s = sim_run.sim;

	for (int i = 0; i < s->nviews; i++)
		if (p >= s->views[i].p && bytes <= s->views[i].bytes &&
		    (uint64_t)(p - s->views[i].p) <= s->views[i].bytes - bytes) {
			*near_of(pc) = (Near){ .pc = pc, .p = s->views[i].p,
				.bytes = s->views[i].bytes, .region = g };
			return true;
		}
	if (!s->nviews)
		*near_of(pc) = (Near){ .pc = pc, .p = g->p, .bytes = g->bytes, .region = g };
	return !s->nviews;
}

/* Not a buffer: the thread's own stack, or a constant of the kernel's object. */
static bool other_access(const uint8_t *p, uint64_t bytes, Access a, const void *pc)
{
	const Launch *r = &sim_run;

	if (sim_fiber_owns(r->cur->stack, p))
		return true;
	if (a == A_READ && p >= r->image_lo && p < r->image_hi)
		return true;
	return stop("bounds", pc, p, bytes, a);
}

static void check_defined(const Region *g, uint64_t off, uint64_t bytes, const void *pc)
{
	const uint8_t *bad;
	uint32_t word;
	char at[160];

	if (bytes == 4 && (memcpy(&word, g->def + off, 4), word == 0x01010101))
		return;
	bad = memchr(g->def + off, 0, bytes);
	if (bad)
		sim_find_at("undefined", pc, "read of %s, which nobody has written",
			place(g->p + (bad - g->def), at, sizeof at));
}

static bool global_access(const uint8_t *p, uint64_t bytes, Access a, const void *pc)
{
	Launch *r = &sim_run;
	Region *g = find_region(p);

	if (!g || (uint64_t)(p - g->p) >= g->bytes)
		return other_access(p, bytes, a, pc);
	uint64_t off = (uint64_t)(p - g->p);
	if (bytes > g->bytes - off || !in_views(g, p, bytes, pc))
		return stop("bounds", pc, p, bytes, a);
	if (!shadow_ready(&g->shadow, granule(off, bytes)))
		return no_memory();
	if (a != A_WRITE && !g->all_defined)
		check_defined(g, off, bytes, pc);
	if (a != A_READ && !g->all_defined)
		memset(g->def + off, 1, bytes);
	uint64_t fresh = meet(&g->shadow, g->p, off, bytes, a, pc);
	if (r->count) {
		*(a == A_READ ? &r->c->ld_unique : &r->c->st_unique) += fresh;
		sim_count_access(pc, (uint64_t)p, bytes, a != A_READ, false);
	}
	return true;
}

bool sim_trace_access(const void *at, uint64_t bytes, Access a, const void *pc)
{
	Launch *r = &sim_run;
	const uint8_t *p = at;

	if (!r->cur || !r->traced || !bytes)
		return true;
	if ((uint64_t)(p - r->shared) < r->shared_cap)
		return shared_access(p, bytes, a, pc);
	return global_access(p, bytes, a, pc);
}

/* --- the common accesses ------------------------------------------------------------------ */

/* Written in an earlier segment of this block, or, in global memory, before this launch. */
INLINE bool settled(uint64_t w, bool local)
{
	const Launch *r = &sim_run;
	uint64_t base = r->serial << 38;

	if (__builtin_expect(r->clocks != NULL, 0) && THREAD(w) >= PHASE0 && THREAD(w) < MANY)
		return false;
	return w - base < r->stamp - base || (!local && w - r->first_stamp >= r->stamps);
}

/*
 * Like meet, where nothing is found and the n granules from i on have one history, so that they
 * are judged together; -1: they are not.
 */
INLINE int64_t meet_alike(Shadow *sh, uint64_t i, uint64_t n, Access a, bool local)
{
	uint64_t me = my_stamp(), *w = sh->w + i, *r = sh->r + i, x = r[0], y = w[0];
	bool odd = false;

	for (uint64_t k = 0; k < n; k++)
		odd |= (r[k] != x) | (a == A_READ ? !settled(w[k], local) : w[k] != y);
	if (odd || (a != A_READ && (write_races(y, me, local, a) || read_races(x, me, local))))
		return -1;
	if (a == A_READ && x == me)
		return 0;
	uint64_t *cells = a == A_READ ? r : w;
	uint64_t now = a == A_READ ? merge_read(x, me, local) : me | (a == A_ATOMIC ? FLAG : 0);
	for (uint64_t k = 0; k < n; k++)
		cells[k] = now;
	return stale(a == A_READ ? x : y, local) ? (int64_t)n : 0;
}

/* Like meet, of n aligned bytes, a power of two, in whole granules. */
INLINE uint64_t meet_aligned(Shadow *sh, const uint8_t *base, uint64_t off, uint64_t n, Access a,
	bool local, const void *pc)
{
	int64_t fresh = sh->shift == 2 ? meet_alike(sh, off >> 2, n >> 2, a, local) :
		meet_alike(sh, off >> sh->shift, n >> sh->shift, a, local);

	return fresh < 0 ? meet(sh, base, off, n, a, pc) : (uint64_t)fresh << sh->shift;
}

INLINE bool whole_granules(const Shadow *sh, uint64_t n)
{
	return sh->w && n >> sh->shift;
}

INLINE void count_common(Near *near, uint64_t addr, uint64_t n, Access a)
{
	Site **s = &near->site[a != A_READ];

	if (!*s)
		*s = sim_count_site(near->pc, n, a != A_READ, !near->region);
	sim_count_at(*s, addr);
}

INLINE bool common_shared(Near *near, const uint8_t *p, uint64_t n, Access a)
{
	Launch *r = &sim_run;
	Shadow *sh = &r->shared_shadow;
	uint64_t off = (uint64_t)(p - r->shared);

	if (!whole_granules(sh, n))
		return false;
	for (uint64_t i = off >> sh->shift; a != A_WRITE && i < (off + n) >> sh->shift; i++)
		if (SERIAL(sh->w[i]) != r->serial)
			return false;
	meet_aligned(sh, r->shared, off, n, a, true, near->pc);
	if (r->count)
		count_common(near, near->packed + (uint64_t)(p - near->p), n, a);
	return true;
}

INLINE bool all_defined(const uint8_t *def, uint64_t n)
{
	const uint64_t ones = 0x0101010101010101;
	uint64_t x = 0, y = 0;

	memcpy(&x, def, n < 8 ? n : 8);
	if (n > 8)
		memcpy(&y, def + 8, n - 8);
	return n > 8 ? (x & y) == ones : x == ones >> (8 - n) * 8;
}

INLINE bool common_global(Near *near, const uint8_t *p, uint64_t n, Access a)
{
	Launch *r = &sim_run;
	Region *g = near->region;
	uint64_t off = (uint64_t)(p - g->p);

	if (!whole_granules(&g->shadow, n))
		return false;
	if (a != A_WRITE && !g->all_defined && !all_defined(g->def + off, n))
		return false;
	if (a != A_READ && !g->all_defined)
		memset(g->def + off, 1, n);
	uint64_t fresh = meet_aligned(&g->shadow, g->p, off, n, a, false, near->pc);
	if (r->count) {
		*(a == A_READ ? &r->c->ld_unique : &r->c->st_unique) += fresh;
		count_common(near, (uint64_t)p, n, a);
	}
	return true;
}

/* An aligned access of a power of two of bytes, in whole granules, where the instruction has been
 * before in this block; false: another, not yet judged. */
INLINE bool common_access(const uint8_t *p, uint64_t n, Access a, const void *pc)
{
	Near *near = near_of(pc);
	uint64_t in = (uint64_t)(p - near->p);

	if (near->pc != pc || (uint64_t)p & (n - 1) || in >= near->bytes || in + n > near->bytes)
		return false;
	return near->region ? common_global(near, p, n, a) : common_shared(near, p, n, a);
}

/* --- asynchronous copies ----------------------------------------------------------------- */

bool sim_trace_copy_issue(void *dst, uint32_t bytes, const void *pc)
{
	Launch *r = &sim_run;
	Shadow *sh = &r->shared_shadow;
	uint64_t off = (uint64_t)((uint8_t *)dst - r->shared);

	if (off >= r->shared_cap)
		return stop("bounds", pc, dst, bytes, A_WRITE);
	if (!sim_trace_access(dst, bytes, A_WRITE, pc))
		return false;
	/* until it lands, nobody may read it */
	memset(dst, 0xff, bytes);
	for (uint64_t i = off >> sh->shift; i <= (off + bytes - 1) >> sh->shift; i++)
		sh->w[i] = 0;
	return true;
}

void sim_trace_copy_land(void *dst, uint32_t bytes)
{
	Launch *r = &sim_run;
	Shadow *sh = &r->shared_shadow;
	uint64_t off = (uint64_t)((uint8_t *)dst - r->shared);

	for (uint64_t i = off >> sh->shift; i <= (off + bytes - 1) >> sh->shift; i++)
		sh->w[i] = my_stamp();
}

void sim_trace_box_land(void *dst, uint32_t bytes, int k, uint32_t phase)
{
	Launch *r = &sim_run;
	Shadow *sh = &r->shared_shadow;
	uint64_t off = (uint64_t)((uint8_t *)dst - r->shared);

	for (uint64_t i = off >> sh->shift; i <= (off + bytes - 1) >> sh->shift; i++)
		sh->w[i] = r->serial << 38 | (uint64_t)(phase & 0x3ffff) << 20 | (uint64_t)(PHASE0 + k) << 1;
}

/* What may keep the product from the bytes that x wrote; NULL: nothing. */
static const char *hidden(uint64_t x, const Thread *first, int n)
{
	int u = THREAD(x);

	if (u < LANES && sim_run.threads[u].fenced <= (x >> 20 & 0x3ffff))
		return "has no memory fence behind it";
	for (int i = 0; i < n; i++)
		if (first + i != &sim_run.threads[u < LANES ? u : 0] && !seen(first + i, x))
			return "it has not waited for";
	return NULL;
}

bool sim_trace_tile(const void *at, const Thread *first, int n, const void *pc)
{
	Launch *r = &sim_run;
	Shadow *sh = &r->shared_shadow;
	const uint8_t *p = at;
	uint64_t off = (uint64_t)(p - r->shared);
	static uint64_t last;           /* a stamp judged before, by threads that have only gone on */
	static const Thread *by;
	const char *why;
	char text[160];

	if (off >= r->shared_at)
		return stop("bounds", pc, p, 16, A_READ);
	for (uint64_t i = off >> sh->shift; i <= (off + 15) >> sh->shift; i++) {
		uint64_t x = sh->w[i];

		if (x == last && by == first && SERIAL(x) == r->serial)
			continue;
		if (SERIAL(x) != r->serial)
			sim_find_at("undefined", pc, "a product reads %s, which nobody has written",
				place(r->shared + (i << sh->shift), text, sizeof text));
		else if ((why = hidden(x, first, n)))
			sim_find_at("race", pc, "a product reads %s, whose write %s",
				place(r->shared + (i << sh->shift), text, sizeof text), why);
		else
			last = x, by = first;
	}
	return true;
}

/* --- the hooks --------------------------------------------------------------------------- */

void __tsan_init(void) {}
void __tsan_func_entry(void *pc) { (void)pc; }
void __tsan_func_exit(void) {}
void __tsan_ignore_thread_begin(void) {}
void __tsan_ignore_thread_end(void) {}
void __tsan_vptr_update(void **vptr, void *val) { (void)vptr; (void)val; }
void __tsan_vptr_read(void **vptr) { (void)vptr; }

INLINE void access_aligned(const void *p, uint64_t bytes, Access a, const void *pc)
{
	if (!sim_run.cur || !sim_run.traced || common_access(p, bytes, a, pc))
		return;
	if ((uint64_t)p & (bytes - 1) && !sim_fiber_owns(sim_run.cur->stack, p))
		stop("alignment", pc, p, bytes, a);
	else
		sim_trace_access(p, bytes, a, pc);
}

INLINE void access_any(const void *p, uint64_t bytes, Access a, const void *pc)
{
	if (sim_run.cur && sim_run.traced && !common_access(p, bytes, a, pc))
		sim_trace_access(p, bytes, a, pc);
}

#define PC __builtin_return_address(0)

/* The names without "unaligned" state that the compiler relies on the alignment. */
#define HOOKS(n) \
	void __tsan_read##n(void *p) { access_aligned(p, n, A_READ, PC); } \
	void __tsan_write##n(void *p) { access_aligned(p, n, A_WRITE, PC); } \
	void __tsan_unaligned_read##n(void *p) { access_any(p, n, A_READ, PC); } \
	void __tsan_unaligned_write##n(void *p) { access_any(p, n, A_WRITE, PC); } \
	void __tsan_read_write##n(void *p) \
	{ \
		access_aligned(p, n, A_READ, PC); \
		access_aligned(p, n, A_WRITE, PC); \
	} \
	void __tsan_unaligned_read_write##n(void *p) \
	{ \
		sim_trace_access(p, n, A_READ, PC); \
		sim_trace_access(p, n, A_WRITE, PC); \
	} \
	void __tsan_volatile_read##n(void *p) { access_aligned(p, n, A_READ, PC); } \
	void __tsan_volatile_write##n(void *p) { access_aligned(p, n, A_WRITE, PC); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

void __tsan_read_range(void *p, uint64_t n) { sim_trace_access(p, n, A_READ, PC); }
void __tsan_write_range(void *p, uint64_t n) { sim_trace_access(p, n, A_WRITE, PC); }

void *__tsan_memset(void *d, int c, uint64_t n)
{
	sim_trace_access(d, n, A_WRITE, PC);
	return memset(d, c, n);
}
void *__tsan_memcpy(void *d, const void *s, uint64_t n)
{
	sim_trace_access(s, n, A_READ, PC);
	sim_trace_access(d, n, A_WRITE, PC);
	return memcpy(d, s, n);
}
void *__tsan_memmove(void *d, const void *s, uint64_t n)
{
	sim_trace_access(s, n, A_READ, PC);
	sim_trace_access(d, n, A_WRITE, PC);
	return memmove(d, s, n);
}

/* The real operation follows the check, for a program may call the hooks from several threads. */
static void atomic_access(const void *p, uint64_t bytes, const void *pc)
{
	access_aligned(p, bytes, A_ATOMIC, pc);
	if (sim_run.cur)
		sim_run.c->atomics++;
}

#define FETCH(bits, type, op) \
	type __tsan_atomic##bits##_fetch_##op(volatile type *p, type v, int order) \
	{ \
		(void)order; \
		atomic_access((const void *)p, sizeof *p, PC); \
		return __atomic_fetch_##op(p, v, __ATOMIC_SEQ_CST); \
	}
#define CAS(bits, type, kind) \
	int __tsan_atomic##bits##_compare_exchange_##kind(volatile type *p, type *old, type v, \
		int order, int fail) \
	{ \
		(void)order; \
		(void)fail; \
		atomic_access((const void *)p, sizeof *p, PC); \
		return __atomic_compare_exchange_n(p, old, v, 0, __ATOMIC_SEQ_CST, \
			__ATOMIC_SEQ_CST); \
	}
#define ATOMICS(bits, type) \
	FETCH(bits, type, add) \
	FETCH(bits, type, sub) \
	FETCH(bits, type, and) \
	FETCH(bits, type, or) \
	FETCH(bits, type, xor) \
	FETCH(bits, type, nand) \
	CAS(bits, type, strong) \
	CAS(bits, type, weak) \
	type __tsan_atomic##bits##_compare_exchange_val(volatile type *p, type old, type v, \
		int order, int fail) \
	{ \
		(void)order; \
		(void)fail; \
		atomic_access((const void *)p, sizeof *p, PC); \
		__atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
		return old; \
	} \
	type __tsan_atomic##bits##_exchange(volatile type *p, type v, int order) \
	{ \
		(void)order; \
		atomic_access((const void *)p, sizeof *p, PC); \
		return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); \
	} \
	type __tsan_atomic##bits##_load(const volatile type *p, int order) \
	{ \
		(void)order; \
		atomic_access((const void *)p, sizeof *p, PC); \
		return __atomic_load_n(p, __ATOMIC_SEQ_CST); \
	} \
	void __tsan_atomic##bits##_store(volatile type *p, type v, int order) \
	{ \
		(void)order; \
		atomic_access((const void *)p, sizeof *p, PC); \
		__atomic_store_n(p, v, __ATOMIC_SEQ_CST); \
	}
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

void __tsan_atomic_thread_fence(int order) { (void)order; }
void __tsan_atomic_signal_fence(int order) { (void)order; }
