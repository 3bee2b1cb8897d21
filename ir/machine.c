/*
 * The table of machines: rows of machines.def with what they inherit filled in. Everything is a
 * constant; a CPU without a row of its own has the facts of another (CPUS), or of the architecture
 * level that its features contain (machine_generic).
 */
#include <string.h>
#include "machine.h"

#define KB(x) ((int64_t)(x) * 1024)
static const Machine rows[] = {
#define CPU(n, b, t, c, f, h, bits, regs, ports, lat, l1_, l2_, l3_, ln, nc, g, bw) \
	{.name = n, .base = b, .kind = M_CPU, .triple = t, .cpu = c, .features = f, .has = h, \
	.vector_bits = bits, .vector_regs = regs, .fma_ports = ports, .fma_latency = lat, .l1 = KB(l1_), \
	.l2 = KB(l2_), .l3 = KB(l3_), .line = ln, .cores = nc, .ghz = g, .gbs = bw, .warp = 1},
#define CUDA(n, b, c, u, g, bw, l2_, su, sb, thr, blk, f32, f16, i8, l2c) \
	{.name = n, .base = b, .kind = M_CUDA, .arch = n, .cc = c, .units = u, .ghz = g, .gbs = bw, .l2 = KB(l2_), \
	.smem_unit = KB(su), .smem_block = KB(sb), .threads_unit = thr, .blocks_unit = blk, \
	.fp32_clk = f32, .fp16_clk = f16, .i8_clk = i8, .l2_clk = l2c, .warp = 32, .regs_unit = 65536, .threads_block = 1024, \
	.regs_thread = 255, .line = 128},
#define HIP(n, b, c, u, g, bw, l2_, su, sb, thr, blk, f32, f16, i8, l2c, w, r) \
	{.name = n, .base = b, .kind = M_HIP, .arch = n, .cc = c, .units = u, .ghz = g, .gbs = bw, .l2 = KB(l2_), \
	.smem_unit = KB(su), .smem_block = KB(sb), .threads_unit = thr, .blocks_unit = blk, \
	.fp32_clk = f32, .fp16_clk = f16, .i8_clk = i8, .l2_clk = l2c, .warp = w, .regs_unit = r, .threads_block = 1024, \
	.regs_thread = 256, .line = 128},
#define GPU(n, b, k, c, u, g, bw, l2_, f16, i8) \
	{.name = n, .base = b, .kind = k, .arch = b, .cc = c, .units = u, .ghz = g, .gbs = bw, .l2 = KB(l2_), \
	.fp16_clk = f16, .i8_clk = i8, .threads_block = 1024, .regs_thread = k == M_CUDA ? 255 : 256},
/* C is for some CPU with vectors: what compilers make of loops over eight floats pays everywhere */
#define OTHER(n, k) {.name = n, .kind = k, .warp = 1, .vector_bits = 256, .vector_regs = 16, \
	.fma_ports = 1, .fma_latency = 4, .l1 = 32 << 10, .l2 = 512 << 10, .l3 = 1 << 20, .line = 64, \
	.cores = 4, .ghz = 3, .gbs = 10},
#define CPUS(base, names)
#include "machines.def"
#undef CPU
#undef CPUS
#undef CUDA
#undef GPU
#undef HIP
#undef OTHER
};
enum { NROWS = sizeof rows / sizeof *rows };

static const struct { const char *base, *names; } further[] = {
#define CPU(...)
#define CUDA(...)
#define GPU(...)
#define HIP(...)
#define OTHER(...)
#define CPUS(b, n) {b, n},
#include "machines.def"
};

/* What GPUs have beside what their columns say, from the named row on. */
static const struct { const char *name, *has; } features[] = {
	{"sm_75", "ldmatrix,f16"}, {"sm_80", "cp.async"}, {"sm_90", "tma,grid-wait"}, {"sm_90a", "wgmma"}, {"gfx90a", "f16"},
	{"gfx1100", "f16"},
};

static const Machine *
row(const char *name)
{
	int i;

	for (i = 0; i < NROWS; i++)
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	return NULL;
}

static const char *
join(Module *m, const char *a, const char *b)
{
	if (!a || !*a)
		return b ? b : "";
	return b && *b ? arena_printf(m->arena, "%s,%s", a, b) : a;
}

/* Facts of the base where the row has none. */
static const Machine *
inherit(Module *m, const Machine *r)
{
	Machine *t = arena_dup(m->arena, r, sizeof *r);
	const Machine *b = r->base ? inherit(m, row(r->base)) : NULL;

	size_t i;

	for (i = 0; i < sizeof features / sizeof *features; i++)
		if (strcmp(features[i].name, r->name) == 0)
			t->has = features[i].has;
	if (!t->has)
		t->has = "";
	if (!b)
		return t;
#define FILL(f) if (!t->f) t->f = b->f
	FILL(triple); FILL(cpu); FILL(features);
	FILL(vector_bits); FILL(vector_regs); FILL(fma_ports); FILL(fma_latency);
	FILL(l1); FILL(l2); FILL(l3); FILL(line); FILL(cores); FILL(ghz); FILL(gbs);
	FILL(warp); FILL(units); FILL(smem_unit); FILL(smem_block); FILL(regs_unit);
	FILL(threads_unit); FILL(blocks_unit); FILL(fp32_clk); FILL(fp16_clk); FILL(i8_clk); FILL(l2_clk);
#undef FILL
	t->has = join(m, b->has, t->has);
	return t;
}

const Machine *
machine_at(Module *m, int i)
{
	return i >= 0 && i < NROWS ? inherit(m, &rows[i]) : NULL;
}

/* Is the word in the list with that separator? */
static bool
listed(const char *list, char sep, const char *word, size_t n)
{
	const char *p;

	for (p = list; p && *p; p = strchr(p, sep) ? strchr(p, sep) + 1 : NULL)
		if (strncmp(p, word, n) == 0 && (p[n] == sep || p[n] == 0))
			return true;
	return false;
}

/* The list without the words of another, "-a,-b". */
static const char *
without(Module *m, const char *list, const char *words)
{
	const char *s = "";
	size_t n;

	for (; list && *list; list += n + (list[n] == ',')) {
		n = strcspn(list, ",");
		if (!listed(words, ',', arena_printf(m->arena, "-%.*s", (int)n, list), n + 1))
			s = arena_printf(m->arena, "%s%s%.*s", s, *s ? "," : "", (int)n, list);
	}
	return s;
}

/* "row,-feature,-feature": a virtual machine's CPU, of which it hides some. */
static const Machine *
reduced(Module *m, const char *name, const char *minus)
{
	const Machine *r = machine_find(m, arena_printf(m->arena, "%.*s", (int)(minus - name), name));
	Machine *t = r && r->kind == M_CPU ? arena_dup(m->arena, r, sizeof *r) : NULL;

	if (!t)
		return NULL;
	t->name = intern(m, name);
	t->features = join(m, r->features, minus + 1);
	t->has = without(m, r->has, minus + 1);
	return t;
}

const Machine *
machine_find(Module *m, const char *name)
{
	const Machine *r = row(name);
	const char *minus = strstr(name, ",-");
	Machine *t;
	size_t i;

	if (r)
		return inherit(m, r);
	if (minus)
		return reduced(m, name, minus);
	for (i = 0; i < sizeof further / sizeof *further; i++)
		if (*name && !strchr(name, ' ') && listed(further[i].names, ' ', name, strlen(name))) {
			t = (Machine *)inherit(m, row(further[i].base));
			t->base = further[i].base;
			t->name = t->cpu = intern(m, name);
			return t;
		}
	return NULL;
}

bool
machine_has(const Machine *t, const char *feature)
{
	return t->has && listed(t->has, ',', feature, strlen(feature));
}

bool
machine_half_op(const Machine *t, OpCode op, DType d)
{
	return d == DT_F16 && (op == O_ADD || op == O_SUB || op == O_MUL) && t && machine_has(t, "f16");
}

int
machine_dot4(const Machine *t)
{
	if (machine_has(t, "avx512vnni") || machine_has(t, "avxvnni") || machine_has(t, "dotprod"))
		return 1;
	const char *widen = t->vector_bits > 256 ? "avx512bw" : t->vector_bits > 128 ? "avx2" : "sse4.1";
	return machine_has(t, widen) ? 2 : 0;
}

bool
machine_broadcasts(const Machine *t)
{
	return machine_has(t, "avx512f");
}

static bool
listed_all(const char *list, const char *words)
{
	const char *p = words, *e;

	for (; *p; p = *e ? e + 1 : e) {
		e = strchr(p, ',');
		if (!e)
			e = p + strlen(p);
		if (!listed(list, ',', p, (size_t)(e - p)))
			return false;
	}
	return true;
}

bool
machine_covers(const Machine *a, const Machine *b)
{
	if (a->kind != b->kind)
		return false;
	if (a->kind == M_CPU)
		return strcmp(a->triple, b->triple) == 0 && listed_all(a->has, b->has);
	return a->kind == M_CUDA && (a->cc > b->cc || (a->cc == b->cc && listed_all(a->has, b->has)));
}

const Machine *
machine_generic(Module *m, const char *name, const char *triple, const char *cpu,
	const char *features, const char *has)
{
	static const char *const levels[] = {"x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64",
		"aarch64+sve", "aarch64", "riscv64+v", "riscv64", "wasm32"};
	const char *dash = strchr(triple, '-');
	size_t i, n = dash ? (size_t)(dash - triple) : strlen(triple);
	const Machine *b;
	Machine *t;

	for (i = 0; i < sizeof levels / sizeof *levels; i++) {
		b = machine_find(m, levels[i]);
		if (strncmp(b->triple, triple, n) == 0 && b->triple[n] == '-' && listed_all(has, b->has))
			break;
	}
	if (i == sizeof levels / sizeof *levels)
		return NULL;
	t = arena_dup(m->arena, b, sizeof *b);
	t->name = intern(m, name);
	t->base = levels[i];
	t->cpu = intern(m, cpu);
	t->features = intern(m, features);
	t->has = intern(m, has);
	return t;
}

int
machine_lanes(const Machine *t, DType d)
{
	int bits = dtypes[d].bits < 8 ? 8 : dtypes[d].bits;

	return t->vector_bits > bits ? t->vector_bits / bits : 1;
}
