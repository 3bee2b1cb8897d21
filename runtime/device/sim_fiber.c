/* Fibers of the simulator: a stack for each thread of a block, and the switch between them. */
#define _GNU_SOURCE
#include "sim_impl.h"

#include <string.h>
#include <sys/mman.h>

enum { STACK = 256 << 10, PAGE = 4096 };

#if defined(__x86_64__)

void sim_fiber_jump(void **from, void *to);

/* Saves what a call preserves; the SSE and x87 control words are the same in all fibers. */
__asm__(
	".text\n"
	".hidden sim_fiber_jump\n"
	".globl sim_fiber_jump\n"
	".type sim_fiber_jump,@function\n"
	"sim_fiber_jump:\n"
	"	pushq %rbp\n"
	"	pushq %rbx\n"
	"	pushq %r12\n"
	"	pushq %r13\n"
	"	pushq %r14\n"
	"	pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rsp\n"
	"	popq %r15\n"
	"	popq %r14\n"
	"	popq %r13\n"
	"	popq %r12\n"
	"	popq %rbx\n"
	"	popq %rbp\n"
	"	ret\n"
	".size sim_fiber_jump,.-sim_fiber_jump\n"
);

static void *frame(uint8_t *top, void (*entry)(void))
{
	void **sp = (void **)top;

	*--sp = NULL;           /* return address of entry, which never returns */
	*--sp = (void *)entry;
	return memset(sp - 6, 0, 6 * sizeof *sp);
}

#elif defined(__aarch64__)

void sim_fiber_jump(void **from, void *to);

__asm__(
	".text\n"
	".hidden sim_fiber_jump\n"
	".globl sim_fiber_jump\n"
	".type sim_fiber_jump,%function\n"
	"sim_fiber_jump:\n"
	"	sub sp, sp, #160\n"
	"	stp x19, x20, [sp]\n"
	"	stp x21, x22, [sp, #16]\n"
	"	stp x23, x24, [sp, #32]\n"
	"	stp x25, x26, [sp, #48]\n"
	"	stp x27, x28, [sp, #64]\n"
	"	stp x29, x30, [sp, #80]\n"
	"	stp d8, d9, [sp, #96]\n"
	"	stp d10, d11, [sp, #112]\n"
	"	stp d12, d13, [sp, #128]\n"
	"	stp d14, d15, [sp, #144]\n"
	"	mov x9, sp\n"
	"	str x9, [x0]\n"
	"	mov sp, x1\n"
	"	ldp x19, x20, [sp]\n"
	"	ldp x21, x22, [sp, #16]\n"
	"	ldp x23, x24, [sp, #32]\n"
	"	ldp x25, x26, [sp, #48]\n"
	"	ldp x27, x28, [sp, #64]\n"
	"	ldp x29, x30, [sp, #80]\n"
	"	ldp d8, d9, [sp, #96]\n"
	"	ldp d10, d11, [sp, #112]\n"
	"	ldp d12, d13, [sp, #128]\n"
	"	ldp d14, d15, [sp, #144]\n"
	"	add sp, sp, #160\n"
	"	ret\n"
	".size sim_fiber_jump,.-sim_fiber_jump\n"
);

static void *frame(uint8_t *top, void (*entry)(void))
{
	uint64_t *sp = (uint64_t *)(top - 160);

	memset(sp, 0, 160);
	sp[11] = (uint64_t)entry;       /* x30 */
	return sp;
}

#else

#include <ucontext.h>

/* A context for each stack and one for the caller; sp is a pointer to one. */
static ucontext_t contexts[MAX_THREADS + 1];

static void sim_fiber_jump(void **from, void *to)
{
	/* the running fiber's own context: by its stack, or the last one for the main stack */
	char here;
	uint8_t *p = (uint8_t *)&here;
	int i = MAX_THREADS;

	if (p >= sim_run.stacks && p < sim_run.stacks + (size_t)MAX_THREADS * STACK)
		i = (int)((p - sim_run.stacks) / STACK);
	*from = &contexts[i];
	swapcontext(&contexts[i], to);
}

static void *frame(uint8_t *top, void (*entry)(void))
{
	int i = (int)((top - 1 - sim_run.stacks) / STACK);
	uint8_t *low = sim_run.stacks + (size_t)i * STACK + PAGE;

	getcontext(&contexts[i]);
	contexts[i].uc_stack.ss_sp = low;
	contexts[i].uc_stack.ss_size = (size_t)(top - low);
	contexts[i].uc_link = NULL;
	makecontext(&contexts[i], entry, 0);
	return &contexts[i];
}

#endif

#if defined(__SANITIZE_ADDRESS__) && (defined(__x86_64__) || defined(__aarch64__))

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

/* What the sanitizer keeps for a suspended stack; the last is the host thread's own. */
static void *kept[MAX_THREADS + 1];
static const void *host_low;
static size_t host_size;

static int stack_of(const void *p)
{
	size_t off = (size_t)((const uint8_t *)p - sim_run.stacks);

	return off < (size_t)MAX_THREADS * STACK ? (int)(off / STACK) : MAX_THREADS;
}

/* Before the jump: where execution goes on, and whether anybody comes back. */
static void leave(const void *to, bool for_good)
{
	char here;
	int i = stack_of(to);
	void **keep = for_good ? NULL : &kept[stack_of(&here)];

	if (i == MAX_THREADS)
		__sanitizer_start_switch_fiber(keep, host_low, host_size);
	else
		__sanitizer_start_switch_fiber(keep, sim_run.stacks + (size_t)i * STACK + PAGE, STACK - PAGE);
}

static void arrive(void)
{
	char here;
	const void *low;
	size_t size;

	__sanitizer_finish_switch_fiber(kept[stack_of(&here)], &low, &size);
	if (stack_of(low) == MAX_THREADS) {
		host_low = low;
		host_size = size;
	}
}

/* A stack begins anew: what the frames left that a fiber was in when its launch ended. */
static void wipe(int stack)
{
	kept[stack] = NULL;
	__asan_unpoison_memory_region(sim_run.stacks + (size_t)stack * STACK + PAGE, STACK - PAGE);
}

#else

static void leave(const void *to, bool for_good) { (void)to, (void)for_good; }
static void arrive(void) { }
static void wipe(int stack) { (void)stack; }

#endif

void sim_fiber_switch(void **from, void *to)
{
	void *gone;

	leave(to, !from);
	sim_fiber_jump(from ? from : &gone, to);
	arrive();
}

void sim_fiber_begun(void)
{
	arrive();
}

bool sim_fiber_stacks(void)
{
	if (sim_run.stacks)
		return true;
	void *p = mmap(NULL, (size_t)MAX_THREADS * STACK, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return false;
	sim_run.stacks = p;
	for (int i = 0; i < MAX_THREADS; i++)   /* an overflow faults instead of spoiling others */
		mprotect(sim_run.stacks + (size_t)i * STACK, PAGE, PROT_NONE);
	return true;
}

bool sim_fiber_owns(int stack, const void *p)
{
	uint64_t low = (uint64_t)(sim_run.stacks + (size_t)stack * STACK);

	return (uint64_t)p - low < STACK;
}

void *sim_fiber_prepare(int stack, void (*entry)(void))
{
	/* equal offsets in all stacks would make them share the same few cache sets */
	size_t colour = (size_t)(stack % 61) * 192;

	wipe(stack);
	return frame(sim_run.stacks + (size_t)(stack + 1) * STACK - 64 - colour, entry);
}
