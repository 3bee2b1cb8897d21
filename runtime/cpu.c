/*
 * What this CPU can do. A feature is a row: LLVM's name and where the hardware or the kernel says
 * that it is there.
 */
#define _GNU_SOURCE
#include <string.h>
#include "rt.h"

/* REFUSED: the CPU has it, the system withholds it. */
typedef enum Found { ABSENT, REFUSED, PRESENT } Found;

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { EAX, EBX, ECX, EDX };
/* State that the system must save, as bits of XCR0. That of tiles only the system can tell. */
enum { SSE = 0x2, AVX = 0x6, AVX512 = 0xe6, TILES = 0x60000, AMX = TILES | AVX };
/* arch_prctl's requests, and the state that it gives only to processes that ask */
enum { GET_XCOMP_SUPP = 0x1021, REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };

/* name, CPUID leaf, subleaf, register, bit, state */
static const struct Feature {
	char name[16];                  /* in the row: no relocation */
	uint32_t leaf, sub;
	uint8_t reg, bit;
	uint32_t state;
} features[] = {
	{"sse2",         1, 0, EDX, 26, SSE},
	{"sse3",         1, 0, ECX,  0, SSE},
	{"pclmul",       1, 0, ECX,  1, SSE},
	{"ssse3",        1, 0, ECX,  9, SSE},
	{"fma",          1, 0, ECX, 12, AVX},
	{"cx16",         1, 0, ECX, 13, 0},
	{"sse4.1",       1, 0, ECX, 19, SSE},
	{"sse4.2",       1, 0, ECX, 20, SSE},
	{"movbe",        1, 0, ECX, 22, 0},
	{"popcnt",       1, 0, ECX, 23, 0},
	{"avx",          1, 0, ECX, 28, AVX},
	{"f16c",         1, 0, ECX, 29, AVX},
	{"bmi",          7, 0, EBX,  3, 0},
	{"avx2",         7, 0, EBX,  5, AVX},
	{"bmi2",         7, 0, EBX,  8, 0},
	{"avx512f",      7, 0, EBX, 16, AVX512},
	{"avx512dq",     7, 0, EBX, 17, AVX512},
	{"avx512ifma",   7, 0, EBX, 21, AVX512},
	{"avx512cd",     7, 0, EBX, 28, AVX512},
	{"avx512bw",     7, 0, EBX, 30, AVX512},
	{"avx512vl",     7, 0, EBX, 31, AVX512},
	{"avx512vbmi",   7, 0, ECX,  1, AVX512},
	{"avx512vbmi2",  7, 0, ECX,  6, AVX512},
	{"gfni",         7, 0, ECX,  8, SSE},
	{"avx512vnni",   7, 0, ECX, 11, AVX512},
	{"avx512bitalg", 7, 0, ECX, 12, AVX512},
	{"avx512vpopcntdq", 7, 0, ECX, 14, AVX512},
	{"amx-bf16",     7, 0, EDX, 22, AMX},
	{"avx512fp16",   7, 0, EDX, 23, AVX512},
	{"amx-tile",     7, 0, EDX, 24, AMX},
	{"amx-int8",     7, 0, EDX, 25, AMX},
	{"avxvnni",      7, 1, EAX,  4, AVX},
	{"avx512bf16",   7, 1, EAX,  5, AVX512},
	{"amx-fp16",     7, 1, EAX, 21, AMX},
	{"avxvnniint8",  7, 1, EDX,  4, AVX},
	{"lzcnt",        0x80000001, 0, ECX, 5, 0},
};

static uint64_t saved_state(void)
{
	uint32_t r[4], lo, hi;
	__cpuid(1, r[0], r[1], r[2], r[3]);
	if (!(r[ECX] >> 27 & 1))
		return SSE;
	__asm__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	return (uint64_t)hi << 32 | lo;
}

/* Linux gives the tile registers only to who asks, for all threads of the process. */
static bool amx_permitted(void)
{
	unsigned long saved = 0;
	return !syscall(SYS_arch_prctl, GET_XCOMP_SUPP, &saved) && (saved & TILES) == TILES &&
	       !syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XTILEDATA);
}

/* Has the CPU it, and does the system save what it computes with? */
static Found look(const struct Feature *f)
{
	uint32_t r[4], state = f->state & ~(uint32_t)TILES;
	if (!__get_cpuid_count(f->leaf, f->sub, &r[0], &r[1], &r[2], &r[3]))
		return ABSENT;
	if (!(r[f->reg] >> f->bit & 1) || (saved_state() & state) != state)
		return ABSENT;
	return f->state != AMX || amx_permitted() ? PRESENT : REFUSED;
}

#elif defined(__linux__) && (defined(__aarch64__) || defined(__riscv))
#include <sys/auxv.h>

/* name, auxiliary vector's entry, bit (of the kernel's hwcap.h) */
static const struct Feature {
	char name[16];
	unsigned long entry;
	uint8_t bit;
} features[] = {
#ifdef __aarch64__
	{"neon",     AT_HWCAP,   1},
	{"fp-armv8", AT_HWCAP,   0},
	{"lse",      AT_HWCAP,   8},
	{"fullfp16", AT_HWCAP,  10},
	{"rdm",      AT_HWCAP,  12},
	{"dotprod",  AT_HWCAP,  20},
	{"fp16fml",  AT_HWCAP,  23},
	{"sve",      AT_HWCAP,  22},
	{"sve2",     AT_HWCAP2,  1},
	{"i8mm",     AT_HWCAP2, 13},
	{"bf16",     AT_HWCAP2, 14},
	{"sme",      AT_HWCAP2, 23},
#else
	{"m", AT_HWCAP, 'm' - 'a'},
	{"a", AT_HWCAP, 'a' - 'a'},
	{"f", AT_HWCAP, 'f' - 'a'},
	{"d", AT_HWCAP, 'd' - 'a'},
	{"c", AT_HWCAP, 'c' - 'a'},
	{"v", AT_HWCAP, 'v' - 'a'},
#endif
};

static Found look(const struct Feature *f)
{
	return getauxval(f->entry) >> f->bit & 1 ? PRESENT : ABSENT;
}

#else

static const struct Feature {
	char name[16];
} features[] = {{""}};

static Found look(const struct Feature *f)
{
	(void)f;
	return ABSENT;
}

#endif

int tcc_cpu_check(const char *needs, TccErr *err)
{
	for (const char *s = needs; s && *s;) {
		size_t n = strcspn(s, ","), i = 0;
		while (i < TCC_COUNT(features) &&
		       (strlen(features[i].name) != n || memcmp(features[i].name, s, n)))
			i++;
		Found found = i < TCC_COUNT(features) ? look(&features[i]) : ABSENT;
		if (n && found == REFUSED)
			return tcc_fail(err, TCC_NO_DEVICE,
				"the system does not permit '%.*s' (arch_prctl), which "
			                "the program was compiled for", (int)n, s);
		if (n && found == ABSENT)
			return tcc_fail(err, TCC_NO_DEVICE, "this CPU lacks '%.*s', which the program was "
			                "compiled for", (int)n, s);
		s += n;
		s += *s == ',';
	}
	return 0;
}
