/* Matrix instructions and where their fragments lie: the rows of mma.def. */
#include <stdlib.h>
#include <string.h>
#include "machine.h"

static const Mma rows[] = {
#define MMA(n_, k_, f_, l_, m_, nn_, kk_, t_, tb_, acc_, a_, b_, c_) \
	{.name = n_, .kind = k_, .first = f_, .last = l_, .m = m_, .n = nn_, .k = kk_, .type = t_, \
	.type_b = tb_, .acc = acc_, .a = a_, .b = b_, .c = c_},
#include "mma.def"
#undef MMA
};
enum { NROWS = sizeof rows / sizeof *rows };

typedef struct Group { const char *feature; Mma x; } Group;
static const Group groups[] = {
#define MMA(...)
#define MMA_GROUP(n_, f_, kk_, t_, tb_, acc_) \
	{f_, {.name = n_, .kind = M_CUDA, .m = 64, .n = 8, .k = kk_, .type = t_, .type_b = tb_, .acc = acc_, \
	.c = C16x8}},
#include "mma.def"
#undef MMA
};
enum { NGROUPS = sizeof groups / sizeof *groups };

typedef struct TileRow { const char *feature; Mma x; } TileRow;
static const TileRow tiles[] = {
#define MMA(...)
#define MMA_TILE(n_, f_, kk_, t_, tb_, acc_, a_, b_, cycles_) \
	{f_, {.name = n_, .kind = M_CPU, .m = 16, .n = 16, .k = kk_, .type = t_, .type_b = tb_, .acc = acc_, \
	.a = a_, .b = b_, .c = "| c1 c2 c4 c8 r1 r2 r4 r8", .cycles = cycles_}},
#include "mma.def"
#undef MMA
};
enum { NTILES = sizeof tiles / sizeof *tiles };

const Mma *
mma_at(int i)
{
	return i >= 0 && i < NROWS ? &rows[i] : NULL;
}

const Mma *
mma_find(const char *name)
{
	int i;

	for (i = 0; i < NROWS; i++)
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	for (i = 0; i < NGROUPS; i++)
		if (strcmp(groups[i].x.name, name) == 0)
			return &groups[i].x;
	for (i = 0; i < NTILES; i++)
		if (strcmp(tiles[i].x.name, name) == 0)
			return &tiles[i].x;
	return NULL;
}

const Mma *
machine_mma_tile(const Machine *t, DType a, DType b)
{
	int i;

	for (i = 0; i < NTILES; i++)
		if (machine_has(t, tiles[i].feature) && tiles[i].x.type == a && tiles[i].x.type_b == b)
			return &tiles[i].x;
	return NULL;
}

const char *
mma_feature(const Mma *x)
{
	int i;

	for (i = 0; i < NTILES && &tiles[i].x != x; i++)
		;
	return i < NTILES ? tiles[i].feature : NULL;
}

const Mma *
machine_mma_group(const Machine *t, DType a, DType b)
{
	int i;

	for (i = 0; i < NGROUPS; i++)
		if (machine_has(t, groups[i].feature) && groups[i].x.type == a && groups[i].x.type_b == b)
			return &groups[i].x;
	return NULL;
}

const Mma *
machine_mma(const Machine *t, DType a, DType b)
{
	int i;

	for (i = 0; i < NROWS; i++)
		if (rows[i].kind == t->kind && rows[i].first <= t->cc && t->cc <= rows[i].last
		 && rows[i].type == a && rows[i].type_b == b)
			return &rows[i];
	return NULL;
}

/* ---- layouts --------------------------------------------------------------------------------- */

/* The next bit's coordinate and step; false at the bar or the end. */
static bool
next_bit(const char **p, char *coord, int *step)
{
	while (**p == ' ')
		++*p;
	if (!**p || **p == '|')
		return false;
	*coord = *(*p)++;
	*step = *coord == '-' ? 0 : (int)strtol(*p, (char **)p, 10);
	return true;
}

static const char *
part(const char *layout, bool elements)
{
	return elements ? strchr(layout, '|') + 1 : layout;
}

int
layout_bits(const char *layout, bool elements)
{
	const char *p = part(layout, elements);
	char coord;
	int n = 0, step;

	while (next_bit(&p, &coord, &step))
		n++;
	return n;
}

int
layout_at(const char *layout, char coord, int lane, int element)
{
	const char *p;
	char c;
	int sum = 0, i, step, side, v;

	for (side = 0; side < 2; side++)
		for (p = part(layout, side), v = side ? element : lane, i = 0; next_bit(&p, &c, &step); i++)
			sum += c == coord ? (v >> i & 1) * step : 0;
	return sum;
}

/* Bits at..at+n-1 of v, the lowest moving by step. */
static Node *
bits_of(Module *m, Node *v, int at, int n, int step)
{
	v = x_fdiv(m, v, x_idx(m, (int64_t)1 << at));
	return x_muli(m, x_mod(m, v, x_idx(m, (int64_t)1 << n)), step);
}

Node *
layout_node(Module *m, const char *layout, char coord, Node *lane, Node *element)
{
	const char *p;
	char c;
	Node *sum = x_idx(m, 0), *v;
	int side, i, step, at, n, first;

	for (side = 0; side < 2; side++) {
		p = part(layout, side), v = side ? element : lane;
		for (i = n = at = first = 0; next_bit(&p, &c, &step); i++) {
			if (c == coord && n && step == first << n) {
				n++;
				continue;
			}
			if (n)
				sum = x_add(m, sum, bits_of(m, v, at, n, first));
			n = c == coord, at = i, first = step;
		}
		if (n)
			sum = x_add(m, sum, bits_of(m, v, at, n, first));
	}
	return sum;
}
