/* Memory: one arena a module, freed as a whole. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "ir.h"

enum { CHUNK = 1 << 20 };

typedef struct Chunk Chunk;
struct Chunk { Chunk *next; size_t used, cap; };
struct Arena { Chunk *head; };

static void
die_memory(void)
{
	fputs("tcc-ml: out of memory\n", stderr);
	abort();
}

Arena *
arena_new(void)
{
	Arena *a = calloc(1, sizeof *a);

	if (!a)
		die_memory();
	return a;
}

void
arena_free(Arena *a)
{
	Chunk *c, *next;

	if (!a)
		return;
	for (c = a->head; c; c = next) {
		next = c->next;
		free(c);
	}
	free(a);
}

void *
arena_alloc(Arena *a, size_t size)
{
	size_t head = (sizeof(Chunk) + 15) & ~(size_t)15, cap;
	Chunk *c = a->head;
	void *p;

	size = (size + 15) & ~(size_t)15;
	if (!c || c->cap - c->used < size) {
		cap = size > CHUNK / 4 ? size : CHUNK;
		c = calloc(1, head + cap);
		if (!c)
			die_memory();
		c->cap = cap;
		if (a->head && cap != CHUNK) {      /* a big one: keep filling the current chunk */
			c->next = a->head->next;
			a->head->next = c;
		} else {
			c->next = a->head;
			a->head = c;
		}
	}
	p = (char *)c + head + c->used;
	c->used += size;
	return p;
}

void *
arena_dup(Arena *a, const void *p, size_t size)
{
	void *q = arena_alloc(a, size ? size : 1);

	if (size)
		memcpy(q, p, size);
	return q;
}

char *
arena_printf(Arena *a, const char *fmt, ...)
{
	va_list ap, ap2;
	char *s;
	int n;

	va_start(ap, fmt);
	va_copy(ap2, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	s = arena_alloc(a, (size_t)(n < 0 ? 0 : n) + 1);
	vsnprintf(s, (size_t)(n < 0 ? 0 : n) + 1, fmt, ap2);
	va_end(ap2);
	return s;
}

bool
mul_ok(int64_t a, int64_t b, int64_t *r)
{
	return !__builtin_mul_overflow(a, b, r);
}

int64_t
sat_add(int64_t a, int64_t b)
{
	int64_t r;

	if (a == INT64_MAX || b == INT64_MAX)
		return a == INT64_MIN || b == INT64_MIN ? 0 : INT64_MAX;
	if (a == INT64_MIN || b == INT64_MIN)
		return INT64_MIN;
	if (__builtin_add_overflow(a, b, &r))
		return a > 0 ? INT64_MAX : INT64_MIN;
	return r;
}

int64_t
sat_mul(int64_t a, int64_t b)
{
	int64_t r;

	if (__builtin_mul_overflow(a, b, &r))
		return (a > 0) == (b > 0) ? INT64_MAX : INT64_MIN;
	return r;
}

void
vec_push(Module *m, Vec *v, void *p)
{
	void **q;

	if (v->n == v->cap) {
		v->cap = v->cap ? v->cap * 2 : 8;
		q = NEWN(m, void *, v->cap);
		if (v->n)
			memcpy(q, v->at, sizeof *q * (size_t)v->n);
		v->at = q;
	}
	v->at[v->n++] = p;
}
