#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"

/* Keys are interned, so that their address is their identity; tables grow in the arena. */

static int slot(const Names *t, const char *name)
{
	uint64_t h = (uint64_t)(uintptr_t)name * 0x9E3779B97F4A7C15u;
	int i = (int)(h >> 33) & (t->cap - 1);

	while (t->key[i] && t->key[i] != name)
		i = (i + 1) & (t->cap - 1);
	return i;
}

void *names_get(const Names *t, const char *name)
{
	return t->cap ? t->val[slot(t, name)] : NULL;
}

static void grow(Module *m, Names *t)
{
	Names old = *t;

	t->cap = old.cap ? old.cap * 2 : 16;
	t->key = NEWN(m, const char *, t->cap);
	t->val = NEWN(m, void *, t->cap);
	for (int i = 0; i < old.cap; i++) {
		if (!old.key[i])
			continue;
		int k = slot(t, old.key[i]);
		t->key[k] = old.key[i];
		t->val[k] = old.val[i];
	}
}

void names_put(Module *m, Names *t, const char *name, void *val)
{
	if (t->n * 2 >= t->cap)
		grow(m, t);
	int k = slot(t, name);
	t->n += !t->key[k];
	t->key[k] = name;
	t->val[k] = val;
}
