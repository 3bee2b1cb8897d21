/* The table of matrix instructions against layouts from independent sources (layouts.txt), and
 * against the simulator, which states them apart: products of random matrices. */
#include <stdlib.h>
#include <string.h>

#include "ir/machine.h"
#include "runtime/device/sim_matrix.h"

#include <check.h>

enum { MAX_SIDE = 64, LANES = 64 };

static const char *
layout_of(const Mma *x, char matrix)
{
	return matrix == 'A' ? x->a : matrix == 'B' ? x->b : x->c;
}

START_TEST(sources)
{
	FILE *f = fopen("tests/ir/layouts.txt", "r");
	char line[4096], name[64], matrix, *p;
	int lane, first, second, used, e, lines = 0;

	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof line, f)) {
		if (*line == '#')
			continue;
		ck_assert_int_eq(sscanf(line, "%63s %c %d%n", name, &matrix, &lane, &used), 3);
		const Mma *x = mma_find(name);
		ck_assert_msg(x != NULL, "no instruction %s", name);
		const char *layout = layout_of(x, matrix);
		for (p = line + used, e = 0; sscanf(p, " %d,%d%n", &first, &second, &used) == 2; p += used, e++) {
			ck_assert_msg(layout_at(layout, matrix == 'B' ? 'c' : 'r', lane, e) == first,
				"%s %c lane %d element %d", name, matrix, lane, e);
			ck_assert_msg(layout_at(layout, matrix == 'C' ? 'c' : 'k', lane, e) == second,
				"%s %c lane %d element %d", name, matrix, lane, e);
		}
		ck_assert_int_eq(e, 1 << layout_bits(layout, true));
		lines++;
	}
	fclose(f);
	ck_assert_int_gt(lines, 300);
}
END_TEST

/* A small number as an element's bits: exact in every type. */
static uint32_t
element_bits(DType d, int v)
{
	union { float f; uint32_t u; } x = {.f = (float)v};
	static const uint16_t f16[] = {0, 0x3c00, 0x4000, 0x4200};

	if (d == DT_F16)
		return f16[v];
	return d == DT_BF16 ? x.u >> 16 : d == DT_F32 ? x.u : (uint32_t)v;
}

static void
fill(uint32_t *words, const char *layout, char own, int lane, DType d, int (*m)[MAX_SIDE])
{
	int bits = dtypes[d].bits, e;

	for (e = 0; e < 1 << layout_bits(layout, true); e++)
		words[e * bits / 32] |= element_bits(d,
			m[layout_at(layout, own, lane, e)][layout_at(layout, 'k', lane, e)]) << e * bits % 32;
}

START_TEST(simulated)
{
	const Mma *x = mma_at(_i);
	int lanes = 1 << layout_bits(x->c, false), a[MAX_SIDE][MAX_SIDE], b[MAX_SIDE][MAX_SIDE], l, i, k, e;
	static uint32_t wa[LANES][8], wb[LANES][8];
	union { float f[8]; int32_t i[8]; } c[LANES];
	SimFragments f[LANES];
	const SimFragments *p[LANES];

	srand(7);
	for (i = 0; i < MAX_SIDE; i++)
		for (k = 0; k < MAX_SIDE; k++)
			a[i][k] = rand() % 4, b[i][k] = rand() % 4;
	memset(wa, 0, sizeof wa);
	memset(wb, 0, sizeof wb);
	memset(c, 0, sizeof c);
	for (l = 0; l < lanes; l++) {
		fill(wa[l], x->a, 'r', l, x->type, a);
		fill(wb[l], x->b, 'c', l, x->type_b, b);
		f[l] = (SimFragments){&c[l], wa[l], wb[l]};
		p[l] = &f[l];
	}
	ck_assert_msg(sim_matrix(x->name, lanes, p), "the simulator has no %s", x->name);
	for (l = 0; l < lanes; l++)
		for (e = 0; e < 1 << layout_bits(x->c, true); e++) {
			int want = 0, row = layout_at(x->c, 'r', l, e), col = layout_at(x->c, 'c', l, e);
			for (k = 0; k < x->k; k++)
				want += a[row][k] * b[col][k];
			ck_assert_int_eq(x->acc == DT_F32 ? (int)c[l].f[e] : c[l].i[e], want);
		}
}
END_TEST

int
main(void)
{
	Suite *s = suite_create("mma");
	TCase *t = tcase_create("all");
	SRunner *r;
	int n = 0, failed;

	while (mma_at(n))
		n++;
	tcase_add_test(t, sources);
	tcase_add_loop_test(t, simulated, 0, n);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
