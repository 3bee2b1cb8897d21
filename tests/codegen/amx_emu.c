/*
 * Intel AMX where the CPU has none: preloaded (LD_PRELOAD), or included by a test. Each tile
 * instruction raises SIGILL; the handler decodes it where it stopped, executes it on tiles held
 * for the thread, and steps over it. CPUID is made to fault (ARCH_SET_CPUID) and answers that the
 * CPU has AMX; arch_prctl's answers about permission are given here too. So machine code made for
 * sapphirerapids runs as it is.
 *
 * Facts: Intel SDM volume 2, the instructions' pages and "Intel AMX Instruction Exception
 * Classes"; volume 1, "Programming with Intel AMX". What the hardware refuses is refused here,
 * with the signal that it raises: #UD as SIGILL, #GP as SIGSEGV. TDPBF16PS sums products of even
 * and of odd elements apart, each in fused multiply-adds from 0 on, then adds the two, then that
 * to the accumulator; round to nearest even, subnormal operands and results are zeros, MXCSR does
 * not matter.
 *
 * In the environment: AMX_EMU_COUNTS=FILE counts what all processes execute, a 64-bit number for
 * each instruction in the order of the enum below. AMX_EMU_REFUSE=1 refuses the permission to use
 * tiles. Linux on x86-64 only.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { TILES = 8, ROWS = 16, ROW_BYTES = 64 };
enum { GET_SUPPORTED = 0x1021, GET_PERMITTED = 0x1022, ASK_PERMISSION = 0x1023,
	SET_CPUID = 0x1012 };
enum { TILE_STATE = 3 << 17, AMX_BITS = 1 << 22 | 1 << 24 | 1 << 25 };   /* CPUID.7.0 EDX */

typedef struct Config { uint8_t palette, start, zero[14]; uint16_t colsb[16]; uint8_t rows[16]; } Config;
typedef struct Tile { uint8_t row[ROWS][ROW_BYTES]; } Tile;

static __thread __attribute__((tls_model("initial-exec"))) struct { Config c; Tile t[TILES]; } amx;

enum { LDTILECFG, STTILECFG, TILERELEASE, TILEZERO, TILELOADD, TILELOADDT1, TILESTORED, TDPBF16PS,
	TDPBSSD, TDPBSUD, TDPBUSD, TDPBUUD, N_INSTRUCTIONS };
static uint64_t own_counts[N_INSTRUCTIONS], *amx_counts = own_counts;
static struct sigaction old_ill, old_segv;

/* ---- the instructions ------------------------------------------------------------------------ */

/* A signal to raise instead, 0: done. */
static int
load_config(const void *at)
{
	static const uint8_t zero[32];
	Config c;
	int i;

	memcpy(&c, at, sizeof c);
	if (c.palette > 1 || memcmp(c.zero, zero, sizeof c.zero) || memcmp(c.colsb + TILES, zero, 16)
	 || memcmp(c.rows + TILES, zero, TILES))
		return SIGSEGV;
	for (i = 0; c.palette && i < TILES; i++)
		if (c.colsb[i] > ROW_BYTES || c.rows[i] > ROWS || !c.colsb[i] != !c.rows[i])
			return SIGSEGV;
	memset(&amx, 0, sizeof amx);
	if (c.palette)
		amx.c = c;
	return 0;
}

static bool
valid(int t)
{
	return t < TILES && amx.c.palette && amx.c.rows[t];
}

static int
move(int t, uint8_t *base, int64_t stride, bool load)
{
	int i;

	if (!valid(t))
		return SIGILL;
	for (i = amx.c.start; i < amx.c.rows[t]; i++)
		if (load)
			memcpy(amx.t[t].row[i], base + i * stride, amx.c.colsb[t]);
		else
			memcpy(base + i * stride, amx.t[t].row[i], amx.c.colsb[t]);
	for (i = 0; load && i < ROWS; i++)
		memset(amx.t[t].row[i] + (i < amx.c.rows[t] ? amx.c.colsb[t] : 0), 0,
			i < amx.c.rows[t] ? ROW_BYTES - amx.c.colsb[t] : ROW_BYTES);
	amx.c.start = 0;
	return 0;
}

static float
flush(float x)
{
	return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x;
}

static float
half(const uint8_t *p)
{
	uint32_t bits = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 24;
	float f;

	memcpy(&f, &bits, 4);
	return flush(f);
}

static float
fused(float a, float b, float c)
{
	return flush(fmaf(a, b, c));
}

static void
dot_halves(float *c, int m, int a, int b, int n)
{
	float even = 0, odd = 0;
	const uint8_t *x, *y;
	int k;

	for (k = 0; k < amx.c.colsb[a] / 4; k++) {
		x = amx.t[a].row[m] + 4 * k;
		y = amx.t[b].row[k] + 4 * n;
		even = fused(half(x), half(y), even);
		odd = fused(half(x + 2), half(y + 2), odd);
	}
	*c = flush(*c + flush(even + odd));
}

static void
dot_bytes(uint32_t *c, int m, int a, int b, int n, bool sa, bool sb)
{
	int k, i, x, y;

	for (k = 0; k < amx.c.colsb[a] / 4; k++)
		for (i = 0; i < 4; i++) {
			x = amx.t[a].row[m][4 * k + i];
			y = amx.t[b].row[k][4 * n + i];
			*c += (uint32_t)((sa ? (int8_t)x : x) * (sb ? (int8_t)y : y));
		}
}

static int
multiply(int op, int c, int a, int b)
{
	static const struct { bool a, b; } sign[] = {[TDPBSSD] = {1, 1}, [TDPBSUD] = {1, 0},
		[TDPBUSD] = {0, 1}, [TDPBUUD] = {0, 0}};
	uint8_t *at;
	int m, n;
	union { float f; uint32_t u; } v;

	if (!valid(c) || !valid(a) || !valid(b) || c == a || c == b || a == b || amx.c.colsb[c] % 4
	 || amx.c.colsb[a] % 4 || amx.c.colsb[b] % 4 || amx.c.rows[c] != amx.c.rows[a]
	 || amx.c.colsb[c] != amx.c.colsb[b] || amx.c.colsb[a] / 4 != amx.c.rows[b])
		return SIGILL;
	for (m = 0; m < amx.c.rows[c]; m++)
		for (n = 0; n < amx.c.colsb[c] / 4; n++) {
			at = amx.t[c].row[m] + 4 * n;
			memcpy(&v, at, 4);
			if (op == TDPBF16PS)
				dot_halves(&v.f, m, a, b, n);
			else
				dot_bytes(&v.u, m, a, b, n, sign[op].a, sign[op].b);
			memcpy(at, &v, 4);
		}
	amx.c.start = 0;
	return 0;
}

/* ---- decoding -------------------------------------------------------------------------------- */

/* A tile instruction: a VEX prefix of three bytes, map 0F38, W 0, L 0. */
typedef struct Code { int op, length; int reg, rm, third; uint8_t *address; int64_t stride; } Code;

static int64_t
gpr(const ucontext_t *u, int i)
{
	static const int at[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI,
		REG_RDI, REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

	return u->uc_mcontext.gregs[at[i]];
}

static int32_t
signed_at(const uint8_t *p, int bytes)
{
	int32_t v;

	if (bytes == 1)
		return (int8_t)*p;
	memcpy(&v, p, 4);
	return v;
}

/* The memory operand; base without index is the address of a row, index << scale the rows'
 * distance. */
static void
decode_memory(const ucontext_t *u, const uint8_t *ip, Code *c)
{
	uint8_t modrm = ip[4], sib = ip[5], mod = modrm >> 6;
	int x = ~ip[1] >> 6 & 1, b = ~ip[1] >> 5 & 1, base = modrm & 7, index = 4;
	int64_t at = 0;

	c->length = 5;
	if (base == 4) {
		c->length = 6;
		base = sib & 7;
		index = (sib >> 3 & 7) | x << 3;
		c->stride = index == 4 ? 0 : (int64_t)((uint64_t)gpr(u, index) << (sib >> 6));
		if (mod == 0 && base == 5) {
			at = signed_at(ip + 6, 4);
			c->length += 4;
			mod = 4;
		}
	} else if (mod == 0 && base == 5) {
		c->length = 9;
		at = u->uc_mcontext.gregs[REG_RIP] + 9 + signed_at(ip + 5, 4);
		mod = 4;
	}
	if (mod != 4)
		at = gpr(u, base | b << 3);
	if (mod == 1 || mod == 2) {
		at += signed_at(ip + c->length, mod == 1 ? 1 : 4);
		c->length += mod == 1 ? 1 : 4;
	}
	c->address = (uint8_t *)at;
}

static bool
decode(const ucontext_t *u, Code *c)
{
	static const int8_t dots[4] = {TDPBUUD, TDPBUSD, TDPBSUD, TDPBSSD},
		moves[4] = {-1, TILELOADDT1, TILESTORED, TILELOADD};
	const uint8_t *ip = (const uint8_t *)u->uc_mcontext.gregs[REG_RIP];
	int pp = ip[2] & 3, op = -1, l = ip[2] >> 2 & 1;
	bool registers = ip[4] >> 6 == 3, unused = (~ip[2] >> 3 & 15) == 0;

	*c = (Code){.length = 5, .reg = ip[4] >> 3 & 7, .rm = ip[4] & 7, .third = ~ip[2] >> 3 & 15};
	if (ip[0] != 0xc4 || (ip[1] & 31) != 2 || ip[2] >> 7 || l)
		return false;
	if (ip[3] == 0x49 && registers && unused)
		op = pp == 0 && ip[4] == 0xc0 ? TILERELEASE : pp == 3 && c->rm == 0 ? TILEZERO : -1;
	else if (ip[3] == 0x49 && unused && c->reg == 0)
		op = pp == 0 ? LDTILECFG : pp == 1 ? STTILECFG : -1;
	else if (ip[3] == 0x4b && !registers && unused && c->rm == 4)
		op = moves[pp];
	else if (ip[3] == 0x5e && registers)
		op = dots[pp];
	else if (ip[3] == 0x5c && registers && pp == 2)
		op = TDPBF16PS;
	/* extended register numbers do not name tiles */
	if (op >= TILEZERO && !(ip[1] >> 7 & 1))
		return false;
	if (op >= 0 && !registers)
		decode_memory(u, ip, c);
	c->op = op;
	return op >= 0;
}

static int
execute(const Code *c)
{
	switch (c->op) {
	case LDTILECFG:
		return load_config(c->address);
	case STTILECFG:
		memcpy(c->address, &amx.c, sizeof amx.c);
		return 0;
	case TILERELEASE:
		memset(&amx, 0, sizeof amx);
		return 0;
	case TILEZERO:
		if (!valid(c->reg))
			return SIGILL;
		memset(&amx.t[c->reg], 0, sizeof(Tile));
		amx.c.start = 0;
		return 0;
	case TILELOADD: case TILELOADDT1: case TILESTORED:
		return move(c->reg, c->address, c->stride, c->op != TILESTORED);
	default:
		return multiply(c->op, c->reg, c->rm, c->third);
	}
}

/* ---- signals --------------------------------------------------------------------------------- */

static bool installed;

static int
set_action(int sig, const struct sigaction *a, struct sigaction *old)
{
	static int (*next)(int, const struct sigaction *, struct sigaction *);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "sigaction");
	return next(sig, a, old);
}

/* The program's own handlers get what is not ours. */
int
sigaction(int sig, const struct sigaction *a, struct sigaction *old)
{
	struct sigaction *kept = sig == SIGILL ? &old_ill : &old_segv, was = *kept;

	if (!installed || (sig != SIGILL && sig != SIGSEGV))
		return set_action(sig, a, old);
	if (a)
		*kept = *a;
	if (old)
		*old = was;
	return 0;
}

sighandler_t
signal(int sig, sighandler_t handler)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;

	return sigaction(sig, &a, &old) ? SIG_ERR : old.sa_handler;
}

/* A fault that is blocked would end the process: threads that block all signals do not block
 * these. */
int
pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	static int (*next)(int, const sigset_t *, sigset_t *);
	sigset_t mine;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "pthread_sigmask");
	if (set) {
		mine = *set;
		set = &mine;
	}
	if (set && how != SIG_UNBLOCK) {
		sigdelset(&mine, SIGILL);
		sigdelset(&mine, SIGSEGV);
	}
	return next(how, set, old);
}

/* The signal's own end: it is raised again where the program stands. */
static void
give_up(int sig)
{
	struct sigaction a = {.sa_handler = SIG_DFL};

	set_action(sig, &a, NULL);
}

/* As if the handler were not there. */
static void
pass_on(int sig, siginfo_t *info, void *u, const struct sigaction *old)
{
	if (old->sa_flags & SA_SIGINFO)
		old->sa_sigaction(sig, info, u);
	else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN)
		old->sa_handler(sig);
	else
		give_up(sig);
}

static void
on_illegal(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	int fault = sig;
	Code c;

	if (decode(u, &c) && !(fault = execute(&c))) {
		__atomic_fetch_add(&amx_counts[c.op], 1, __ATOMIC_RELAXED);
		u->uc_mcontext.gregs[REG_RIP] += c.length;
		return;
	}
	if (fault == SIGSEGV) {
		give_up(SIGSEGV);
		raise(SIGSEGV);
		return;
	}
	pass_on(sig, info, context, &old_ill);
}

/* The kernel's own entry: arch_prctl through libc is answered below. */
static long
kernel(long number, long a, long b)
{
	long r;

	__asm__ volatile("syscall" : "=a"(r) : "0"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
	return r;
}

static void
on_cpuid(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	greg_t *g = u->uc_mcontext.gregs;
	const uint8_t *ip = (const uint8_t *)g[REG_RIP];
	uint32_t leaf = (uint32_t)g[REG_RAX], sub = (uint32_t)g[REG_RCX], r[4];

	if (info->si_code != SI_KERNEL || ip[0] != 0x0f || ip[1] != 0xa2) {
		pass_on(sig, info, context, &old_segv);
		return;
	}
	kernel(SYS_arch_prctl, SET_CPUID, 1);
	__cpuid_count(leaf, sub, r[0], r[1], r[2], r[3]);
	kernel(SYS_arch_prctl, SET_CPUID, 0);
	if (leaf == 7 && sub == 0)
		r[3] |= AMX_BITS;
	g[REG_RAX] = r[0], g[REG_RBX] = r[1], g[REG_RCX] = r[2], g[REG_RDX] = r[3];
	g[REG_RIP] += 2;
}

/* ---- what the system says -------------------------------------------------------------------- */

long
syscall(long number, ...)
{
	static long (*next)(long, ...);
	long a[6], *mask;
	va_list list;
	int i;

	va_start(list, number);
	for (i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_arch_prctl && (a[0] == GET_SUPPORTED || a[0] == GET_PERMITTED)) {
		mask = (long *)a[1];
		*mask = TILE_STATE | 0xe7;
		return 0;
	}
	if (number == SYS_arch_prctl && a[0] == ASK_PERMISSION) {
		if (!getenv("AMX_EMU_REFUSE"))
			return 0;
		errno = EPERM;
		return -1;
	}
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "syscall");
	return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static bool
cpu_has_amx(void)
{
	uint32_t r[4];

	return __get_cpuid_count(7, 0, &r[0], &r[1], &r[2], &r[3]) && (r[3] & AMX_BITS) == AMX_BITS;
}

static void
share_counts(const char *file)
{
	int fd = open(file, O_RDWR | O_CREAT, 0666);
	void *at;

	if (fd < 0 || ftruncate(fd, sizeof own_counts))
		return;
	at = mmap(NULL, sizeof own_counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	amx_counts = at == MAP_FAILED ? own_counts : at;
	close(fd);
}

static void __attribute__((constructor))
install(void)
{
	struct sigaction a = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO | SA_NODEFER};

	if (cpu_has_amx())
		return;
	if (getenv("AMX_EMU_COUNTS"))
		share_counts(getenv("AMX_EMU_COUNTS"));
	set_action(SIGILL, &a, &old_ill);
	a.sa_sigaction = on_cpuid;
	set_action(SIGSEGV, &a, &old_segv);
	installed = true;
	kernel(SYS_arch_prctl, SET_CPUID, 0);
}
