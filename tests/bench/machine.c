/* What the machine can do, for shares of it: multiply-adds of its widest vectors, bytes from
 * memory. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"

enum { CHAINS = 20, STEPS = 1 << 16, ROUNDS = 40, READ = 1 << 28, MAX_THREADS = 256 };

typedef struct Work {
	double (*fn)(struct Work *);   /* what it did, in units of 1e9 */
	pthread_barrier_t *start;
	char *buf;                     /* READ bytes */
	double done, ms;
} Work;

static volatile float sink;

/* Chains of vector multiply-adds, enough of them to hide the latency of each. */
#define FMA(NAME, TARGET, LANES) \
	static __attribute__((target(TARGET), optimize("O3"))) double \
	NAME(Work *w) \
	{ \
		typedef float Vec __attribute__((vector_size(4 * (LANES)))); \
		Vec acc[CHAINS], a, b; \
		int i, k; \
	\
		(void)w; \
		memset(acc, 0, sizeof acc); \
		for (i = 0; i < (LANES); i++) { \
			a[i] = 0.5f; \
			b[i] = (float)i; \
		} \
		for (i = 0; i < STEPS; i++) { \
			_Pragma("GCC unroll 20") \
			for (k = 0; k < CHAINS; k++) \
				acc[k] = acc[k] * a + b; \
			__asm__ volatile("" : "+v"(a)); \
		} \
		for (k = 1; k < CHAINS; k++) \
			acc[0] += acc[k]; \
		sink = acc[0][0]; \
		return 2.0 * (LANES) * CHAINS * STEPS / 1e9; \
	}

#ifdef __x86_64__
FMA(fma_avx512, "avx512f,fma", 16)
/* 16 registers: the chains do not all fit, so the loop is bound by fewer of them */
#undef CHAINS
#define CHAINS 12
FMA(fma_avx2, "avx2,fma", 8)
#undef CHAINS
#endif

static double
fma_any(Work *w)
{
	float acc[8] = {0}, a = 0.5f;
	int i, k;

	(void)w;
	for (i = 0; i < STEPS; i++) {
		for (k = 0; k < 8; k++)
			acc[k] = acc[k] * a + (float)k;
		__asm__ volatile("" : : "g"(acc) : "memory");
	}
	sink = acc[0];
	return 2.0 * 8 * STEPS / 1e9;
}

static double
read_memory(Work *w)
{
	const uint64_t *p = (const void *)w->buf;
	uint64_t s[8] = {0};
	size_t i;
	int k;

	for (i = 0; i < READ / 8; i += 8)
		for (k = 0; k < 8; k++)
			s[k] += p[i + (size_t)k];
	sink = (float)(s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7]);
	return READ / 1e9;
}

/* The best of several rounds of its own: noise only takes time. */
static void *
worker(void *arg)
{
	Work *w = arg;
	double t, least = 1e99;
	int i;

	w->fn(w);
	pthread_barrier_wait(w->start);
	for (i = 0; i < ROUNDS; i++) {
		t = now_ms();
		w->done = w->fn(w);
		t = now_ms() - t;
		least = t < least ? t : least;
	}
	w->ms = least;
	return NULL;
}

static double
per_second(double (*fn)(Work *), int threads, bool memory)
{
	pthread_barrier_t start;
	pthread_t id[MAX_THREADS];
	Work w[MAX_THREADS];
	double sum = 0;
	int i;

	pthread_barrier_init(&start, NULL, (unsigned)threads);
	for (i = 0; i < threads; i++) {
		w[i] = (Work){.fn = fn, .start = &start, .buf = memory ? malloc(READ) : NULL};
		if (memory)
			memset(w[i].buf, i, READ);
		if (pthread_create(&id[i], NULL, worker, &w[i]))
			exit(1);
	}
	for (i = 0; i < threads; i++) {
		pthread_join(id[i], NULL);
		sum += w[i].done / (w[i].ms / 1e3);
		free(w[i].buf);
	}
	return sum;
}

void
measure_machine(int threads)
{
	double (*fn)(Work *) = fma_any;

	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx512f"))
		fn = fma_avx512;
	else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		fn = fma_avx2;
#endif
	printf("{\"threads\": %d, \"gflops\": %.1f", threads, per_second(fn, threads, false));
	printf(", \"gbytes\": %.2f}\n", per_second(read_memory, threads, true));
}
