/*
 * Machines by --target's text. `native` becomes a row and a feature list: the row of the CPU's name
 * if this one has all of the row's features (a virtual machine may hide some), else the generic
 * row of those that it has.
 */
#include <string.h>
#include "llvm.h"

#define X86 "x86_64-unknown-linux-gnu"
#define ARM "aarch64-unknown-linux-gnu"

static bool
listed(const char *list, const char *name, size_t n)
{
	const char *p = list;

	for (; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == 0))
			return true;
	return false;
}

/* Every feature that some row of the architecture names: what the runtime can check. */
static const char *
known_features(Module *m, const char *triple)
{
	const Machine *t;
	const char *s = "";
	int i;

	for (i = 0; (t = machine_at(m, i)); i++)
		if (t->triple && strcmp(t->triple, triple) == 0 && t->has && *t->has)
			s = arena_printf(m->arena, "%s%s%s", s, *s ? "," : "", t->has);
	return s;
}

/* What is known of "+a,-b,+c", as "a,c" in the order of the table. */
static const char *
positive(Module *m, const char *triple, const char *features)
{
	const char *p = known_features(m, triple), *s = "", *name;
	size_t n;

	for (; *p; p += n + (p[n] == ',')) {
		n = strcspn(p, ",");
		name = arena_printf(m->arena, "+%.*s", (int)n, p);
		if (listed(features, name, n + 1) && !listed(s, p, n))
			s = arena_printf(m->arena, "%s%s%s", s, *s ? "," : "", name + 1);
	}
	return s;
}

static const char *
host_triple(void)
{
#if defined(__aarch64__)
	return ARM;
#elif defined(__riscv)
	return "riscv64-unknown-linux-gnu";
#else
	return X86;
#endif
}

/* The row's name without the features that are not there, as machine_find reads it. */
static const char *
name_without(Module *m, const Machine *row, const char *has)
{
	const char *p, *s = row->name;
	size_t n;

	for (p = row->has ? row->has : ""; *p; p += n + (p[n] == ',')) {
		n = strcspn(p, ",");
		if (!listed(has, p, n))
			s = arena_printf(m->arena, "%s,-%.*s", s, (int)n, p);
	}
	return s;
}

/* A virtual machine hides features of its CPU, not the rest. */
static void
take_caches(Machine *t, const Machine *row)
{
	t->fma_latency = row->fma_latency;
	t->l1 = row->l1, t->l2 = row->l2, t->l3 = row->l3, t->line = row->line;
	t->cores = row->cores, t->ghz = row->ghz, t->gbs = row->gbs;
}

static const Machine *
native(Module *m)
{
	char *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
	const char *triple = host_triple(), *has = positive(m, triple, features);
	const Machine *row = machine_find(m, cpu);
	Machine *t;
	bool all = row != NULL;
	const char *p;
	size_t n;

	for (p = row && row->has ? row->has : ""; *p && all; p += n + (p[n] == ',')) {
		n = strcspn(p, ",");
		all = listed(has, p, n);
	}
	if (all) {
		t = arena_dup(m->arena, row, sizeof *row);
		t->features = intern(m, features);
		t->has = has;
	} else {
		t = (Machine *)machine_generic(m, row ? name_without(m, row, has) : cpu, triple, cpu, features, has);
		if (t && row)
			take_caches(t, row);
	}
	LLVMDisposeMessage(cpu);
	LLVMDisposeMessage(features);
	return t;
}

const Machine *
machine_of(Module *m, const char *text)
{
	const Machine *t;

	if (!text || strcmp(text, "native") == 0)
		return native(m);
	t = machine_find(m, text);
	if (!t)
		diag_error(m->diag, X_USAGE, NULL, "unknown target '%s': tcc-ml targets lists them", text);
	return t;
}
