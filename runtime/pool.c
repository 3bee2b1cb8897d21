/*
 * A pool of threads for one context.
 *
 * One word, the epoch, tells the workers of a job: its low bits are the number of threads, the
 * rest counts jobs. Each thread owns as many pieces, in order (the caller the first ones: the
 * same data stay in the same caches), but whoever is done takes pieces that nobody has begun,
 * the owner's last ones first, so that a worker that sleeps or was taken off its CPU holds
 * nobody up for more than a piece. A piece is taken by writing the job's epoch into its word.
 * Late workers find all pieces of a finished job taken, by it or a later one, and look at
 * nothing else, so the fields of the next job may be written as soon as all pieces are done. How
 * many pieces an owner has is written after their words, for that a late worker does read.
 *
 * Between jobs a worker spins for some 50 us, for jobs of one run follow each other closely (a
 * spinning fork and join costs 0.4 us, one through the kernel 6 us), then it sleeps on the epoch.
 * With more threads than CPUs nobody spins.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif
#include "rt.h"

enum {
	THREAD_BITS = 10,
	THREADS = 1 << THREAD_BITS,
	SPINS = 2048,
};

_Static_assert(TCC_MAX_THREADS < THREADS, "a job's threads fit the epoch word");

/* A thread of the pool, the caller the first. Each group of fields, here and below, has cache lines
 * of its own (two, as CPUs fetch pairs). */
typedef struct Worker {
	TccPool *pool;
	pthread_t thread;
	int number;
	_Alignas(128) atomic_int pieces;        /* that it owns in the last job with any */
	atomic_uint taken[TCC_MAX_PIECES];      /* the last job in which each was taken */
} Worker;

struct TccPool {
	_Alignas(128) atomic_uint epoch;
	_Alignas(128) atomic_uint pending;      /* pieces of the job not done */
	atomic_uint waiting;                    /* the caller sleeps on pending */
	_Alignas(128) atomic_uint sleepers;
	_Alignas(128) TccJob *fn;
	void *arg;
	atomic_bool stop;
	int nthreads;
	int spins;
	Worker workers[];
};

static inline void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");          /* as long as an x86 pause; yield is a nop */
#elif defined(__riscv)
	__asm__ volatile(".4byte 0x100000f");
#endif
}

/* Sleeps while *word is `value`; may wake without cause. */
static void word_wait(atomic_uint *word, unsigned value)
{
#ifdef __linux__
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
#else
	(void)word, (void)value;
	sched_yield();
#endif
}

static void word_wake(atomic_uint *word)
{
#ifdef __linux__
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 0x7fffffff, NULL, NULL, 0);
#else
	(void)word;
#endif
}

static unsigned next_epoch(TccPool *p, unsigned seen)
{
	for (int i = 0; i < p->spins; i++) {
		unsigned e = atomic_load_explicit(&p->epoch, memory_order_acquire);
		if (e != seen)
			return e;
		cpu_pause();
	}
	atomic_fetch_add(&p->sleepers, 1);
	unsigned e;
	while ((e = atomic_load(&p->epoch)) == seen)
		word_wait(&p->epoch, seen);
	atomic_fetch_sub(&p->sleepers, 1);
	return e;
}

static void piece_done(TccPool *p)
{
	if (atomic_fetch_sub(&p->pending, 1) == 1 && atomic_load(&p->waiting))
		word_wake(&p->pending);
}

/* Takes the piece for the job of that epoch, unless someone has, or the job is over. */
static bool take(atomic_uint *piece, unsigned epoch)
{
	unsigned last = atomic_load_explicit(piece, memory_order_acquire);
	return (int)(last / THREADS * THREADS - epoch / THREADS * THREADS) < 0
	       && atomic_compare_exchange_strong(piece, &last, epoch);
}

/* What is left of an owner's pieces: the owner begins at the first one, others at the last. */
static void do_owned(TccPool *p, int owner, int self, unsigned epoch)
{
	Worker *w = &p->workers[owner];
	int n = atomic_load_explicit(&w->pieces, memory_order_acquire);
	for (int i = 0; i < n; i++) {
		int k = owner == self ? i : n - 1 - i;
		if (take(&w->taken[k], epoch)) {
			p->fn(p->arg, owner * n + k, self);
			piece_done(p);
		}
	}
}

/* The thread's own pieces of the job, then the others', the next one's first. */
static void do_pieces(TccPool *p, int self, unsigned epoch)
{
	int n = (int)(epoch % THREADS);
	for (int i = 0; i < n; i++)
		do_owned(p, self + i < n ? self + i : self + i - n, self, epoch);
}

static void *work(void *arg)
{
	Worker *w = arg;
	TccPool *p = w->pool;
	for (unsigned seen = 0; ;) {
		seen = next_epoch(p, seen);
		if (atomic_load_explicit(&p->stop, memory_order_relaxed))
			return NULL;
		if (w->number < (int)(seen % THREADS))
			do_pieces(p, w->number, seen);
	}
}

/* nthreads 0 wakes the workers and gives them nothing. The job's epoch. */
static unsigned publish(TccPool *p, int nthreads, int pieces)
{
	unsigned e = atomic_load_explicit(&p->epoch, memory_order_relaxed),
	         now = (e / THREADS + 1) * THREADS + nthreads;
	for (Worker *w = p->workers; w < p->workers + nthreads; w++) {
		for (int k = 0; k < pieces; k++)        /* by the last job: those long past could seem to come */
			atomic_store_explicit(&w->taken[k], e, memory_order_relaxed);
		atomic_store_explicit(&w->pieces, pieces, memory_order_release);
	}
	atomic_store(&p->epoch, now);
	if (atomic_load(&p->sleepers))
		word_wake(&p->epoch);
	return now;
}

static void wait_pieces(TccPool *p)
{
	for (int i = 0; i < p->spins; i++) {
		if (!atomic_load_explicit(&p->pending, memory_order_acquire))
			return;
		cpu_pause();
	}
	atomic_store(&p->waiting, 1);
	for (unsigned left; (left = atomic_load(&p->pending));)
		word_wait(&p->pending, left);
	atomic_store(&p->waiting, 0);
}

void tcc_pool_run(TccPool *p, int nthreads, int pieces, TccJob *fn, void *arg)
{
	p->fn = fn;
	p->arg = arg;
	atomic_store_explicit(&p->pending, nthreads * pieces, memory_order_relaxed);
	do_pieces(p, 0, publish(p, nthreads, pieces));
	wait_pieces(p);
}

void tcc_pool_heat(TccPool *p)
{
	if (p->spins && tcc_pool_cold(p))
		publish(p, 0, 0);
}

bool tcc_pool_cold(const TccPool *p)
{
	return atomic_load_explicit(&((TccPool *)p)->sleepers, memory_order_relaxed) != 0;
}

/* CPUs' worth of time that the control group allows, rounded up; 0: no limit. */
static int cpu_quota(void)
{
	long quota, period;
	int n = 0;
	FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
	if (!f)
		return 0;
	if (fscanf(f, "%ld %ld", &quota, &period) == 2 && quota > 0 && period > 0)
		n = (int)((quota + period - 1) / period);
	fclose(f);
	return n;
}

int tcc_cpu_count(void)
{
	int n = 0, quota = cpu_quota();
#ifdef __linux__
	cpu_set_t set;
	if (!sched_getaffinity(0, sizeof set, &set))
		n = CPU_COUNT(&set);
#endif
	if (n < 1)
		n = (int)sysconf(_SC_NPROCESSORS_ONLN);
	if (quota && quota < n)
		n = quota;
	return n < 1 ? 1 : n;
}

/* Workers take no signals: those are for the program's own threads. */
static bool start(Worker *w)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	bool ok = !pthread_create(&w->thread, NULL, work, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return ok;
}

TccPool *tcc_pool_new(int nthreads)
{
	if (nthreads > TCC_MAX_THREADS)
		nthreads = TCC_MAX_THREADS;
	void *block;
	size_t bytes = sizeof(TccPool) + nthreads * sizeof(Worker);
	if (posix_memalign(&block, _Alignof(TccPool), bytes))
		return NULL;
	memset(block, 0, bytes);
	TccPool *p = block;
	p->spins = nthreads <= tcc_cpu_count() ? SPINS : 0;
	for (p->nthreads = 1; p->nthreads < nthreads; p->nthreads++) {
		Worker *w = &p->workers[p->nthreads];
		w->pool = p;
		w->number = p->nthreads;
		if (!start(w)) {
			tcc_pool_free(p);
			return NULL;
		}
	}
	return p;
}

void tcc_pool_free(TccPool *p)
{
	if (!p)
		return;
	atomic_store(&p->stop, true);
	publish(p, 0, 0);
	for (int i = 1; i < p->nthreads; i++)
		pthread_join(p->workers[i].thread, NULL);
	free(p);
}
