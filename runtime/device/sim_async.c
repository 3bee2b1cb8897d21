/*
 * What runs beside the threads of a block on sm_90 and up: copies of boxes that a tensor map describes,
 * products of warp groups, and the barriers in memory whose phases say that they are done.
 *
 * A copy lands, and a product reads its tiles and gives its sums, at the last moment that is allowed: when
 * nobody can go on without it, or at its wait; with a seed sometimes before. Until then the copy's
 * destination and the product's registers hold nothing that makes sense.
 *
 * Order: with phases and barriers of a part of the block, who comes after whom is no longer one number, so
 * a block that uses them keeps a clock for each thread: row t says up to which segment thread t has seen
 * every other one, and which phases it has waited for. Threads release what they did when they arrive, and
 * acquire what others did when they wait.
 *
 * Sources: PTX ISA, mbarrier, cp.async.bulk.tensor, "Tensors" (im2col, swizzling), wgmma; the layouts of
 * tiles as CuTe states them (mma_traits_sm90_gmma.hpp: canonical layouts of GMMA descriptors). Written apart
 * from the compiler's schedule, which makes the descriptors and maps that are taken apart here.
 */
#include "sim_impl.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BOXES = 256, MAX_PRODUCTS = 64, MAX_READS = 512, MAX_CHAINS = 4, GROUP = 128, MAX_GROUPS = MAX_THREADS / GROUP,
	ROWS = 64, HELD = 4, MAX_COLUMNS = 256, PARTS = 16, REGISTERS = 65536 };

/* A barrier in memory. */
typedef struct Phase {
	const void *at;
	int arrivals, pending;
	int64_t bytes;          /* announced and not landed */
	uint32_t ended;         /* phases */
	const Thread *maker;
	uint32_t made;          /* its segment then */
	uint32_t *clock;        /* what those who arrived had seen and done */
} Phase;

/* A tensor map as the simulator packs it into an argument of 128 bytes. */
typedef struct Packed {
	uint8_t *p;
	uint64_t stride[SIM_MAP_RANK];
	uint32_t dim[SIM_MAP_RANK];
	uint16_t box[SIM_MAP_RANK];
	int16_t lower[SIM_MAP_RANK - 2], upper[SIM_MAP_RANK - 2];
	uint8_t step[SIM_MAP_RANK], rank, size, swizzle, gathers;
	uint32_t magic;
} Packed;
_Static_assert(sizeof(Packed) <= 128, "an argument's size");

typedef struct Box {
	Packed map;
	uint8_t *dst;
	Phase *on;
	int at[SIM_MAP_RANK], moved[SIM_MAP_RANK];
} Box;

typedef struct Tile { uint64_t at; uint32_t leading, stride; int span; bool along; } Tile;
/* Sums that products are under way for: of which matrix, in whose registers. */
typedef struct Chain {
	const void *c;          /* what names it: its first register; NULL: none */
	int n, pending;
	uint32_t sum[ROWS][MAX_COLUMNS];
	uint32_t *to[GROUP][MAX_COLUMNS / 2];
} Chain;
typedef struct Product {
	const SimProduct *x;
	Tile a, b;
	int n;
	bool anew, held;        /* held: A is what the registers hold when the product is done */
	const uint32_t *from[GROUP][HELD];
	Chain *chain;
	uint32_t group;
} Product;
/* Bytes of shared memory that a group's products have read. */
typedef struct Reads { uint64_t lo, hi; uint32_t group, segment; bool done; } Reads;

typedef struct WarpGroup {
	int arrived;
	bool fenced;
	uint32_t open;          /* group of products that is not committed */
	Product products[MAX_PRODUCTS];
	int nproducts;
	Chain chains[MAX_CHAINS];
	Reads reads[MAX_READS];
	int nreads;
	int regs;
} WarpGroup;

/* What threads that meet at a group operation bring. */
typedef struct GroupOperand {
	uint32_t *c, *const *each;      /* registers of the sums: in a row, or one by one */
	const uint32_t *from[HELD];     /* registers of A; NULL: a tile */
	uint64_t a, b;
	int n;
	bool anew;                      /* the sums so far do not count */
} GroupOperand;

static struct {
	Phase phases[SIM_MAX_PHASES];
	int nphases;
	Box boxes[MAX_BOXES];
	int nboxes;
	WarpGroup groups[MAX_GROUPS];
	int part[PARTS], part_threads[PARTS];
	uint64_t random;
	bool used;
} now;

static bool halt(const char *kind, const void *pc, const char *what)
{
	sim_find_at(kind, pc, "%s", what);
	sim_sched_stop();
	return false;
}

/* --- clocks -------------------------------------------------------------------------------- */

static uint32_t *clock_of(const Thread *t)
{
	return sim_run.clocks + (size_t)t->index * (size_t)sim_run.clock_len;
}

static void join(uint32_t *to, const uint32_t *from)
{
	for (int i = 0; i < sim_run.clock_len; i++)
		to[i] = to[i] > from[i] ? to[i] : from[i];
}

/* The block begins to use clocks; what was ordered by its barriers stays so. */
static bool start_clocks(void)
{
	Launch *r = &sim_run;

	if (r->clocks || !r->traced)
		return true;
	r->clock_len = r->nthreads + SIM_MAX_PHASES;
	size_t n = (size_t)r->clock_len * (size_t)(r->nthreads + SIM_MAX_PHASES + 1);
	r->clocks = calloc(n, sizeof *r->clocks);
	if (!r->clocks) {
		r->failed = true;
		sim_sched_stop();
		return false;
	}
	r->base_segment = (uint32_t)(r->stamp >> 20 & 0x3ffff);
	for (int i = 0; i < r->nthreads; i++)
		r->threads[i].segment = r->base_segment;
	return true;
}

static uint32_t *phase_clock(int k)
{
	return sim_run.clocks + (size_t)(sim_run.nthreads + k) * (size_t)sim_run.clock_len;
}

/* The threads of the block have all met. */
void sim_async_barrier(void)
{
	Launch *r = &sim_run;
	uint32_t last = 0, *all = r->clocks + (size_t)(r->clock_len) * (size_t)r->clock_len;

	if (!r->clocks)
		return;
	memset(all, 0, (size_t)r->clock_len * sizeof *all);
	for (int i = 0; i < r->nthreads; i++) {
		join(all, clock_of(&r->threads[i]));
		last = r->threads[i].segment > last ? r->threads[i].segment : last;
	}
	r->base_segment = last + 1;
	for (int i = 0; i < r->nthreads; i++) {
		r->threads[i].segment = last + 1;
		memcpy(clock_of(&r->threads[i]), all, (size_t)r->clock_len * sizeof *all);
	}
}

/* So many threads from `first` on, or those that wait at a part's barrier, have met. */
static void meet_all(Thread *const *list, int n)
{
	Launch *r = &sim_run;
	uint32_t *all = r->clocks + (size_t)(r->clock_len) * (size_t)r->clock_len;

	if (!r->clocks)
		return;
	memset(all, 0, (size_t)r->clock_len * sizeof *all);
	for (int i = 0; i < n; i++)
		join(all, clock_of(list[i]));
	for (int i = 0; i < n; i++)
		all[list[i]->index] = ++list[i]->segment;
	for (int i = 0; i < n; i++)
		memcpy(clock_of(list[i]), all, (size_t)r->clock_len * sizeof *all);
}

void sim_async_warp_barrier(const Warp *w)
{
	Thread *list[MAX_WARP];

	for (int i = 0; i < w->size; i++)
		list[i] = &sim_run.threads[w->first + i];
	meet_all(list, w->size);
}

/* --- random choices ------------------------------------------------------------------------ */

static uint64_t draw(void)
{
	now.random = now.random * 6364136223846793005u + 1442695040888963407u;
	return now.random >> 33;
}

static bool early(void)
{
	return sim_run.sim->config.seed && draw() % 4 == 0;
}

void sim_async_start(void)
{
	Launch *r = &sim_run;

	free(r->clocks);
	r->clocks = NULL;
	now.random = r->sim->config.seed * 0x9e3779b97f4a7c15u + r->serial;
	if (!now.used)
		return;
	now.used = false;
	now.nphases = now.nboxes = 0;
	memset(now.part, 0, sizeof now.part);
	for (int i = 0; i < MAX_GROUPS; i++) {
		WarpGroup *g = &now.groups[i];

		g->arrived = g->nproducts = g->nreads = g->regs = 0;
		g->fenced = false;
		g->open = 0;
		for (int k = 0; k < MAX_CHAINS; k++)
			g->chains[k].c = NULL;
	}
}

/* --- barriers in memory -------------------------------------------------------------------- */

static Phase *phase_at(const void *at)
{
	for (int i = 0; i < now.nphases; i++)
		if (now.phases[i].at == at)
			return &now.phases[i];
	return NULL;
}

static Phase *find_phase(const void *at, const void *pc)
{
	Launch *r = &sim_run;
	Phase *p = phase_at(at);

	if (!p)
		halt("undefined", pc, "a barrier in memory that nobody has made");
	else if (r->clocks && p->maker != r->cur && p->made >= r->base_segment &&
		 clock_of(r->cur)[p->maker->index] <= p->made)
		sim_find_at("race", pc, "a barrier in memory is used with no barrier after it was made");
	return p;
}

void tcc_sim_phase_init(uint64_t *at, int32_t arrivals)
{
	const void *pc = __builtin_return_address(0);
	Phase *p = phase_at(at);

	now.used = true;
	if (!start_clocks())
		return;
	if ((uint64_t)at & 7 || arrivals < 1 || (!p && now.nphases == SIM_MAX_PHASES)) {
		halt("alignment", pc, "a barrier in memory that cannot be made");
		return;
	}
	if (!sim_trace_access(at, 8, A_WRITE, pc))
		return;
	p = p ? p : &now.phases[now.nphases++];
	*p = (Phase){ .at = at, .arrivals = arrivals, .pending = arrivals, .maker = sim_run.cur,
		.made = sim_run.cur->segment };
	if (sim_run.clocks)
		p->clock = memset(phase_clock((int)(p - now.phases)), 0,
			(size_t)sim_run.clock_len * sizeof *p->clock);
}

static void wake(ThreadState state, const void *what)
{
	Launch *r = &sim_run;

	for (int i = 0; i < r->nthreads; i++)
		if (r->threads[i].state == state && r->threads[i].operand == what)
			sim_sched_ready(&r->threads[i]);
}

static void try_end(Phase *p)
{
	if (p->pending || p->bytes)
		return;
	p->ended++;
	p->pending = p->arrivals;
	wake(T_AT_PHASE, p);
}

void tcc_sim_phase_arrive(uint64_t *at, int32_t bytes)
{
	const void *pc = __builtin_return_address(0);
	Thread *t = sim_run.cur;
	Phase *p = find_phase(at, pc);

	if (!p || !sim_trace_access(at, 8, A_ATOMIC, pc))
		return;
	if (sim_run.clocks) {
		join(p->clock, clock_of(t));
		p->clock[t->index] = ++t->segment;
	}
	p->bytes += bytes;
	if (!p->pending--)
		halt("divergence", pc, "more arrivals than a phase was made for: it has not ended");
	try_end(p);
}

static void land(int i);

void tcc_sim_phase_wait(uint64_t *at, int32_t parity)
{
	const void *pc = __builtin_return_address(0);
	Thread *t = sim_run.cur;
	Phase *p = find_phase(at, pc);

	if (!p || !sim_trace_access(at, 8, A_ATOMIC, pc))
		return;
	if (now.nboxes && early())
		land((int)(draw() % (uint64_t)now.nboxes));
	while ((p->ended & 1) == (uint32_t)parity) {
		t->pc = pc;
		t->operand = p;
		sim_sched_wait(T_AT_PHASE);
	}
	if (sim_run.clocks) {
		join(clock_of(t), p->clock);
		clock_of(t)[sim_run.nthreads + (p - now.phases)] = p->ended;
	}
}

void tcc_sim_part_barrier(int32_t which, int32_t threads)
{
	Launch *r = &sim_run;
	const void *pc = __builtin_return_address(0);
	Thread *t = r->cur, *list[MAX_THREADS];
	int n = 0;

	now.used = true;
	if (!start_clocks())
		return;
	if (which < 1 || which >= PARTS || threads < r->sim->config.warp || threads % r->sim->config.warp ||
	    (now.part[which] && now.part_threads[which] != threads)) {
		halt("divergence", pc, "a barrier of a part with a wrong number or count");
		return;
	}
	now.part_threads[which] = threads;
	t->pc = pc;
	t->operand = &now.part[which];
	if (++now.part[which] < threads) {
		sim_sched_wait(T_AT_PART);
		return;
	}
	for (int i = 0; i < r->nthreads; i++)
		if (&r->threads[i] == t || (r->threads[i].state == T_AT_PART && r->threads[i].operand == t->operand))
			list[n++] = &r->threads[i];
	meet_all(list, n);
	now.part[which] = 0;
	if (r->count)
		sim_count_flush();
	wake(T_AT_PART, t->operand);
}

/* What the thread has stored so far is seen by copies and products. */
void tcc_sim_fence(void)
{
	Thread *t = sim_run.cur;

	now.used = true;
	if (start_clocks() && sim_run.clocks)
		t->fenced = ++t->segment;
}

void tcc_sim_regs(int32_t n, int32_t take)
{
	Launch *r = &sim_run;
	const void *pc = __builtin_return_address(0);
	WarpGroup *g = &now.groups[r->cur->index / GROUP];
	int all = 0;

	now.used = true;
	if (n % 8 || n < 24 || n > 256)
		halt("shared", pc, "registers of a thread: a multiple of 8 from 24 to 256");
	g->regs = n;
	for (int i = 0; i < (r->nthreads + GROUP - 1) / GROUP; i++)
		all += now.groups[i].regs * GROUP;
	if (take && all > REGISTERS)
		halt("shared", pc, "more registers than a block can have");
}

/* --- boxes --------------------------------------------------------------------------------- */

static const char *broken_rule(const SimTensor *t)
{
	uint64_t inner = t->box[0] * (uint64_t)t->size;

	if (t->rank < (t->gathers ? 3 : 1) || t->rank > SIM_MAP_RANK)
		return "its rank";
	if ((uint64_t)t->p & 15)
		return "it does not begin at 16 bytes";
	if (inner % 16 || (t->swizzle && inner != (uint64_t)t->swizzle))
		return "a row of its box";
	for (int i = 0; i < t->rank; i++) {
		if (t->dim[i] < 1 || t->dim[i] > UINT32_MAX)
			return "a dimension";
		if (i && (t->stride[i] & 15 || t->stride[i] < 16 || t->stride[i] >= (int64_t)1 << 40))
			return "a distance that is no multiple of 16 bytes";
		if (!t->gathers && (t->box[i] < 1 || t->box[i] > 256))
			return "a side of its box";
		if (t->step[i] < 1 || t->step[i] > 8)
			return "a step";
	}
	/* bits that an offset of a corner has, by the number of dimensions between */
	int limit = t->rank == 3 ? 32768 : t->rank == 4 ? 128 : 16;
	for (int i = 0; t->gathers && i < t->rank - 2; i++)
		if (t->lower[i] < -limit || t->lower[i] >= limit || t->upper[i] < -limit || t->upper[i] >= limit ||
		    t->dim[i + 1] + t->upper[i] <= t->lower[i])
			return "a corner";
	return t->gathers && (t->box[0] > 256 || t->box[1] > 1024) ? "its pixels" : NULL;
}

const char *sim_map(const SimTensor *t, void *arg)
{
	const char *why = broken_rule(t);
	Packed p = { .p = t->p, .rank = (uint8_t)t->rank, .size = (uint8_t)t->size, .swizzle = (uint8_t)t->swizzle,
		.gathers = t->gathers, .magic = 0x70616d74 };

	for (int i = 0; !why && i < t->rank; i++) {
		p.dim[i] = (uint32_t)t->dim[i];
		p.stride[i] = i ? (uint64_t)t->stride[i] : (uint64_t)t->size;
		p.box[i] = (uint16_t)t->box[i];
		p.step[i] = (uint8_t)t->step[i];
	}
	for (int i = 0; !why && t->gathers && i < t->rank - 2; i++) {
		p.lower[i] = (int16_t)t->lower[i];
		p.upper[i] = (int16_t)t->upper[i];
	}
	memset(arg, 0, 128);
	memcpy(arg, &p, sizeof p);
	return why;
}

/* Pieces of 16 bytes change places: bits 4.. of the address by bits 7.. */
static uint64_t swizzled(uint64_t at, int span)
{
	int bits = span == 128 ? 3 : span == 64 ? 2 : span == 32 ? 1 : 0;

	return at ^ (at >> 3 & (((uint64_t)1 << bits) - 1) << 4);
}

/* The next place of the box, or the next pixel; at has what the first dimension's row begins with. */
static void advance(const Box *b, int *at, int *in)
{
	const Packed *m = &b->map;

	for (int i = 1; i < m->rank; i++) {
		if (!m->gathers) {
			at[i]++;
			if (++in[i] < m->box[i])
				return;
			in[i] = 0;
			at[i] = b->at[i];
			continue;
		}
		if (i == m->rank - 1) {
			at[i]++;
			return;
		}
		at[i] += m->step[i];
		if (at[i] <= (int)m->dim[i] - 1 + m->upper[i - 1])
			return;
		at[i] = m->lower[i - 1];
	}
}

/* Where the row at these coordinates lies; NULL: outside. *n: its bytes inside, from byte *skip on. */
static const uint8_t *row_at(const Box *b, const int *at, uint32_t *skip, uint32_t *n)
{
	const Packed *m = &b->map;
	const uint8_t *p = m->p;
	int from = at[0] < 0 ? -at[0] : 0, to = m->box[0];

	for (int i = 1; i < m->rank; i++) {
		int x = at[i] + b->moved[i];

		if (x < 0 || x >= (int64_t)m->dim[i])
			return NULL;
		p += (uint64_t)x * m->stride[i];
	}
	if (at[0] + (int64_t)to > (int64_t)m->dim[0])
		to = (int)((int64_t)m->dim[0] - at[0]);
	if (to <= from)
		return NULL;
	*skip = (uint32_t)(from * m->size);
	*n = (uint32_t)((to - from) * m->size);
	return p + (int64_t)(at[0] + from) * m->size;
}

static int box_rows(const Packed *m)
{
	int n = 1;

	for (int i = 1; i < (m->gathers ? 2 : m->rank); i++)
		n *= m->box[i];
	return n;
}

static void put_row(const Box *b, int row, const uint8_t *from, uint32_t skip, uint32_t n)
{
	uint32_t bytes = (uint32_t)b->map.box[0] * b->map.size;
	uint8_t line[512] = { 0 };
	uint64_t base = (uint64_t)(b->dst - sim_run.shared) + (uint64_t)row * bytes;

	if (from)
		memcpy(line + skip, from, n);
	for (uint32_t k = 0; k < bytes; k += 16)
		memcpy(sim_run.shared + swizzled(base + k, b->map.swizzle), line + k, 16);
}

/* Copy number i of those under way lands. */
static void land(int i)
{
	Launch *r = &sim_run;
	Box b = now.boxes[i];
	int at[SIM_MAP_RANK], in[SIM_MAP_RANK] = { 0 }, rows = box_rows(&b.map);
	uint32_t skip = 0, n = 0, bytes = (uint32_t)rows * b.map.box[0] * b.map.size;

	memmove(now.boxes + i, now.boxes + i + 1, (size_t)(--now.nboxes - i) * sizeof b);
	memcpy(at, b.at, sizeof at);
	for (int row = 0; row < rows; row++) {
		const uint8_t *from = row_at(&b, at, &skip, &n);

		put_row(&b, row, from, skip, n);
		advance(&b, at, in);
	}
	if (r->traced)
		sim_trace_box_land(b.dst, bytes, (int)(b.on - now.phases), b.on->ended);
	b.on->bytes -= bytes;
	try_end(b.on);
}

bool sim_async_land(void)
{
	if (!now.nboxes)
		return false;
	land(sim_run.sim->config.seed ? (int)(draw() % (uint64_t)now.nboxes) : 0);
	return true;
}

/* Is the copy's destination still read by products, or by ones that its issuer has not heard of? */
static bool still_read(uint64_t lo, uint64_t hi)
{
	bool found = false;

	for (int g = 0; g < MAX_GROUPS; g++) {
		WarpGroup *w = &now.groups[g];
		int kept = 0;

		for (int i = 0; i < w->nreads; i++) {
			const Reads *x = &w->reads[i];
			bool over = x->lo < hi && lo < x->hi;

			found |= over && (!x->done || clock_of(sim_run.cur)[g * GROUP] <= x->segment);
			if (!over)
				w->reads[kept++] = *x;
		}
		w->nreads = kept;
	}
	return found;
}

static bool check_box(const Box *b, const void *pc)
{
	int at[SIM_MAP_RANK], in[SIM_MAP_RANK] = { 0 }, rows = box_rows(&b->map);
	uint32_t skip = 0, n = 0, bytes = (uint32_t)rows * b->map.box[0] * b->map.size;
	uint64_t lo = (uint64_t)(b->dst - sim_run.shared);

	if (lo & (b->map.swizzle ? 8 * (uint64_t)b->map.swizzle - 1 : 127))
		return halt("alignment", pc, "a box's place in shared memory is not aligned to its swizzle");
	memcpy(at, b->at, sizeof at);
	for (int row = 0; row < rows; row++) {
		const uint8_t *from = row_at(b, at, &skip, &n);

		if (from && !sim_trace_access(from, n, A_READ, pc))
			return false;
		advance(b, at, in);
	}
	if (!sim_trace_copy_issue(b->dst, bytes, pc))
		return false;
	if (still_read(lo, lo + bytes))
		sim_find_at("race", pc, "a box is copied to where products may still read");
	return true;
}

void tcc_sim_box(void *dst, const void *map, uint64_t *bar, int32_t n, const int32_t *at, const int32_t *moved)
{
	const void *pc = __builtin_return_address(0);
	Box b = { .dst = dst, .on = find_phase(bar, pc) };

	memcpy(&b.map, map, sizeof b.map);
	if (!b.on)
		return;
	if (b.map.magic != 0x70616d74 || b.map.rank != n || b.map.gathers != (moved != NULL) || now.nboxes == MAX_BOXES) {
		halt("bounds", pc, "a box of no tensor map, or of one with other dimensions");
		return;
	}
	for (int i = 0; i < n; i++) {
		b.at[i] = at[i];
		b.moved[i] = moved && i && i < n - 1 ? moved[i - 1] : 0;
	}
	if (sim_run.traced && !check_box(&b, pc))
		return;
	sim_run.c->boxes++;
	now.boxes[now.nboxes++] = b;
	if (early())
		land(now.nboxes - 1);
}

/* --- products of warp groups --------------------------------------------------------------- */

uint32_t tcc_sim_shared_addr(const void *p)
{
	return (uint32_t)((const uint8_t *)p - sim_run.shared);
}

static Tile take_apart(uint64_t d, bool along)
{
	static const int spans[] = { 16, 128, 64, 32 };

	return (Tile){ .at = (d & 0x3fff) << 4, .leading = (uint32_t)(d >> 16 & 0x3fff) << 4,
		.stride = (uint32_t)(d >> 32 & 0x3fff) << 4, .span = spans[d >> 62], .along = along };
}

/*
 * Where element (i, k) of the tile lies, i along its own axis. In pieces of 16 bytes (T elements), with W
 * pieces a span: along the depth ((8,m),(T,2)):((W T,stride),(1,T)), else ((T,W,m),(8,k)):((1,T,leading),
 * (W T,stride)). Without a swizzle pieces that follow each other lie `leading` apart; it is not used.
 */
static uint64_t element_at(const Tile *t, int size, int i, int k)
{
	int T = 16 / size, W = t->span / 16;
	uint64_t off;

	if (!t->along)
		off = (uint64_t)(i % 8 * W * 16) + (uint64_t)(i / 8) * t->stride + (uint64_t)(k * size);
	else
		off = (uint64_t)(i % T * size) + (uint64_t)(i / T % W * 16) + (uint64_t)(i / (T * W)) * t->leading +
			(uint64_t)(k % 8 * W * 16) + (uint64_t)(k / 8) * t->stride;
	return swizzled(t->at + off, t->span);
}

static int row_of(int t, int e) { return 16 * (t / 32) + t % 32 / 4 + 8 * (e >> 1 & 1); }
static int column_of(int t, int e) { return 8 * (e >> 2) + 2 * (t % 4) + (e & 1); }

/* A in registers, two elements each: element e of a thread has C's row, and the depth of C's column. */
static void read_held(const Product *p, float a[ROWS][64])
{
	for (int t = 0; t < GROUP; t++)
		for (int e = 0; e < 2 * HELD; e++)
			a[row_of(t, e)][column_of(t, e)] =
				sim_matrix_float(p->x, (const uint8_t *)p->from[t][e / 2] + e % 2 * 2, false);
}

/* Sums between the threads' registers and a matrix. */
static void move_sums(Chain *c, bool out)
{
	for (int t = 0; t < GROUP; t++)
		for (int e = 0; e < c->n / 2; e++) {
			uint32_t *reg = c->to[t][e], *sum = &c->sum[row_of(t, e)][column_of(t, e)];

			if (out)
				*reg = *sum;
			else
				*sum = *reg;
			if (!out && sim_run.traced)
				*reg = 0x7fc0dead;
		}
}

static void multiply(const Product *p)
{
	static float fa[ROWS][64], fb[64][MAX_COLUMNS];         /* under the launch's lock */
	static int32_t ia[ROWS][64], ib[64][MAX_COLUMNS];
	const SimProduct *x = p->x;
	int size = x->size;

	for (int k = 0; k < x->k; k++)
		for (int i = p->held ? ROWS : 0; i < ROWS + p->n; i++) {
			bool b = i >= ROWS;
			int j = b ? i - ROWS : i;
			const uint8_t *at = sim_run.shared + element_at(b ? &p->b : &p->a, size, j, k);

			if (x->floats)
				*(b ? &fb[k][j] : &fa[j][k]) = sim_matrix_float(x, at, b);
			else
				*(b ? &ib[k][j] : &ia[j][k]) = sim_matrix_byte(x, at, b);
		}
	if (p->held)
		read_held(p, fa);
	if (p->anew)
		memset(p->chain->sum, 0, sizeof p->chain->sum);
	for (int i = 0; i < ROWS; i++)
		for (int k = 0; k < x->k; k++)
			for (int j = 0; j < p->n; j++)
				if (x->floats)
					((float *)p->chain->sum[i])[j] += fa[i][k] * fb[k][j];
				else
					p->chain->sum[i][j] += (uint32_t)(ia[i][k] * ib[k][j]);
}

/* The group's oldest product is done. */
static void complete(WarpGroup *g)
{
	Product *p = &g->products[0];

	multiply(p);
	if (--p->chain->pending == 0) {
		move_sums(p->chain, true);
		p->chain->c = NULL;
	}
	memmove(g->products, g->products + 1, (size_t)--g->nproducts * sizeof *p);
}

/* Meets the other threads of the group; true for the last, which then must call release_group. */
static bool meet_group(GroupOperand *x, const void *pc)
{
	Launch *r = &sim_run;
	Thread *t = r->cur, *first = &r->threads[t->index / GROUP * GROUP];
	WarpGroup *g = &now.groups[t->index / GROUP];

	now.used = true;
	if (first->index + GROUP > r->nthreads)
		return halt("divergence", pc, "a product of a warp group that is not whole");
	t->pc = pc;
	t->operand = x;
	if (++g->arrived < GROUP) {
		sim_sched_wait(T_AT_GROUP);
		return false;
	}
	g->arrived = 0;
	for (int i = 0; i < GROUP; i++) {
		const GroupOperand *y = first[i].operand;

		if (first[i].pc != pc || y->a != x->a || y->b != x->b || y->n != x->n || y->anew != x->anew ||
		    !y->from[0] != !x->from[0])
			return halt("divergence", pc, "threads of a warp group meet at different products");
	}
	return true;
}

static void release_group(void)
{
	Thread *first = &sim_run.threads[sim_run.cur->index / GROUP * GROUP];

	for (int i = 0; i < GROUP; i++)
		if (first[i].state == T_AT_GROUP)
			sim_sched_ready(&first[i]);
}

/* Reads of the tile, n x k elements: may the group see what lies there? */
static bool check_tile(WarpGroup *g, const Tile *t, int size, int n, int k, const void *pc)
{
	const Thread *first = &sim_run.threads[(g - now.groups) * GROUP];
	uint64_t lo = UINT64_MAX, hi = 0;
	int T = 16 / size, along = t->along ? T : 1, deep = t->along ? 1 : T;

	if (t->at & (t->along ? 8 * (uint64_t)t->span - 1 : 15))
		return halt("alignment", pc, "a tile of a product is not aligned to its swizzle");
	for (int i = 0; i < n; i += along)
		for (int j = 0; j < k; j += deep) {
			uint64_t at = element_at(t, size, i, j);

			if (!sim_trace_tile(sim_run.shared + at, first, GROUP, pc))
				return false;
			lo = at < lo ? at : lo;
			hi = at + 16 > hi ? at + 16 : hi;
		}
	for (int i = 0; i < g->nreads; i++)
		if (g->reads[i].lo == lo && g->reads[i].hi == hi) {
			g->reads[i].done = false;
			g->reads[i].group = g->open;
			return true;
		}
	if (g->nreads < MAX_READS)
		g->reads[g->nreads++] = (Reads){ .lo = lo, .hi = hi, .group = g->open };
	return true;
}

static uint32_t *register_of(const GroupOperand *o, int e)
{
	return o->each ? o->each[e] : o->c + e;
}

static Chain *chain_of(WarpGroup *g, int n)
{
	const Thread *first = &sim_run.threads[(g - now.groups) * GROUP];
	const void *c = register_of(first->operand, 0);
	Chain *empty = NULL;

	for (int i = 0; i < MAX_CHAINS; i++) {
		if (g->chains[i].c == c && g->chains[i].n == n)
			return &g->chains[i];
		if (!g->chains[i].c)
			empty = &g->chains[i];
	}
	if (!empty)
		return NULL;
	empty->c = c;
	empty->n = n;
	empty->pending = 0;
	for (int i = 0; i < GROUP; i++)
		for (int e = 0; e < n / 2; e++)
			empty->to[i][e] = register_of(first[i].operand, e);
	move_sums(empty, false);
	return empty;
}

static void issue(WarpGroup *g, const SimProduct *x, const GroupOperand *o, Tile a, Tile b, const void *pc)
{
	if (!g->fenced)
		sim_find_at("race", pc, "products without a fence after the last wait");
	if (sim_run.traced && ((!o->from[0] && !check_tile(g, &a, x->size, ROWS, x->k, pc)) ||
	    !check_tile(g, &b, x->size, o->n, x->k, pc)))
		return;
	Chain *c = chain_of(g, o->n);
	if (!c || g->nproducts == MAX_PRODUCTS) {
		halt("divergence", pc, "more products under way than the simulator has room for");
		return;
	}
	c->pending++;
	Product *p = &g->products[g->nproducts++];
	*p = (Product){ .x = x, .a = a, .b = b, .n = o->n, .anew = o->anew, .held = o->from[0] != NULL,
		.chain = c, .group = g->open };
	const Thread *first = &sim_run.threads[(g - now.groups) * GROUP];
	for (int i = 0; p->held && i < GROUP; i++)
		memcpy(p->from[i], ((const GroupOperand *)first[i].operand)->from, sizeof p->from[i]);
	sim_run.c->mma++;
}

static void product(const char *name, GroupOperand o, bool ma, bool mb, const void *pc)
{
	const SimProduct *x = sim_product(name);

	if (!x || o.n % 8 || o.n < 8 || o.n > MAX_COLUMNS || ((ma || mb || o.from[0]) && x->size != 2)) {
		halt("divergence", pc, "no such product of a warp group");
		return;
	}
	if (!meet_group(&o, pc))
		return;
	issue(&now.groups[sim_run.cur->index / GROUP], x, &o, take_apart(o.a, ma), take_apart(o.b, mb), pc);
	release_group();
}

void tcc_sim_wgmma(const char *name, int32_t n, void *c, uint64_t a, uint64_t b, int32_t ma, int32_t mb)
{
	product(name, (GroupOperand){ .c = c, .a = a, .b = b, .n = n }, ma, mb, __builtin_return_address(0));
}

void tcc_sim_wgmma_held(const char *name, int32_t n, void *c, const uint32_t *a, uint64_t b, int32_t mb)
{
	GroupOperand o = { .c = c, .b = b, .n = n };

	for (int i = 0; i < HELD; i++)
		o.from[i] = a + i;
	product(name, o, false, mb, __builtin_return_address(0));
}

void tcc_sim_wgmma_into(const char *name, int32_t n, uint32_t *const *c, uint32_t *const *held, uint64_t a, uint64_t b,
	int32_t keep, int32_t ma, int32_t mb)
{
	GroupOperand o = { .each = c, .a = a, .b = b, .n = n, .anew = !keep };

	for (int i = 0; held && i < HELD; i++)
		o.from[i] = held[i];
	product(name, o, ma, mb, __builtin_return_address(0));
}

void tcc_sim_wgmma_fence(void)
{
	now.groups[sim_run.cur->index / GROUP].fenced = true;
}

/* All of a group's warps commit alike; the last thread counts. */
void tcc_sim_wgmma_commit(void)
{
	WarpGroup *g = &now.groups[sim_run.cur->index / GROUP];
	GroupOperand o = { 0 };

	if (!meet_group(&o, __builtin_return_address(0)))
		return;
	g->open++;
	while (g->nproducts && early())
		complete(g);
	release_group();
}

void tcc_sim_wgmma_wait(int32_t pending)
{
	WarpGroup *g = &now.groups[sim_run.cur->index / GROUP];
	GroupOperand o = { .n = pending };

	if (!meet_group(&o, __builtin_return_address(0)))
		return;
	while (g->nproducts && g->products[0].group + (uint32_t)pending < g->open)
		complete(g);
	g->fenced = false;
	for (int i = 0; i < g->nreads; i++)
		if (!g->reads[i].done && g->reads[i].group + (uint32_t)pending < g->open) {
			g->reads[i].done = true;
			g->reads[i].segment = sim_run.threads[(g - now.groups) * GROUP].segment;
		}
	release_group();
}

/* --- the block's end ----------------------------------------------------------------------- */

void sim_async_end(void)
{
	const void *pc = (const void *)sim_run.kernel;

	if (!now.used || sim_run.ended)
		return;
	if (now.nboxes)
		sim_find_at("race", pc, "a box is under way where the block has ended");
	for (int g = 0; g < MAX_GROUPS; g++)
		if (now.groups[g].nproducts)
			sim_find_at("race", pc, "products are under way where the block has ended");
}
