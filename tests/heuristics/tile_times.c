/*
 * What the performance model says of tiles, for compare.py.
 * usage: tile_times MACHINE < lines "M N K"                             -> our tile and its time
 *                   MACHINE < lines "M N K bm bn bk wm wn stages split" -> that tile's time
 * f16 factors in rows and columns, f32 sums; microseconds; -1: it does not fit.
 */
#include <stdio.h>
#include <stdlib.h>
#include "opt/gpu_pick.h"

static Product
product(const Machine *mach, double m, double n, double k)
{
	return (Product){.mach = mach, .x = machine_mma(mach, DT_F16, DT_F16), .m = m, .n = n,
		.batch = 1, .outer = 1, .depth = k, .size = 2, .own_m = 16, .own_n = 16, .lane_words = 4,
		.async_m = mach->cc >= 80, .async_n = mach->cc >= 80, .result_bytes = 2};
}

/* Parts of the depth are computed beside each other, and added by another pass over them. */
static double
split_us(Product p, const MmaTile *t, int split)
{
	double sums = p.m * p.n * 4;

	if (split < 2)
		return tile_cost(&p, t);
	p.batch = split;
	p.depth /= split;
	return tile_cost(&p, t) + launch_us +
		(split * sums + p.m * p.n * 2) / (p.mach->gbs * 0.88 * 1e3);
}

int
main(int argc, char **argv)
{
	Module *m = module_new(&(Diag){0});
	const Machine *mach = argc > 1 ? machine_find(m, argv[1]) : NULL;
	char line[256];
	double x, y, z;
	MmaTile t;
	int split, n;

	if (!mach || !machine_gpu(mach))
		return fprintf(stderr, "usage: tile_times MACHINE\n"), 2;
	while (fgets(line, sizeof line, stdin)) {
		n = sscanf(line, "%lf %lf %lf %d %d %d %d %d %d %d", &x, &y, &z, &t.m, &t.n, &t.bk, &t.wm,
			&t.wn, &t.stages, &split);
		Product p = product(mach, x, y, z);
		if (n == 3 && pick_tile(&p, 32, (int)z, &t))
			printf("%d %d %d %d %d %d %.4f\n", t.m, t.n, t.bk, t.wm, t.wn, t.stages,
				tile_cost(&p, &t));
		else if (n == 10)
			printf("%.4f\n", split_us(p, &t, split));
		else
			printf("-1\n");
	}
	module_free(m);
	return 0;
}
