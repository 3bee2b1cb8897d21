/*
 * A compiled model written by hand, as code generation would write it:
 *   y = max(x + b, 0), rows of x summed into s, t = table[i]
 * with inputs x f32[N,4], i i64[M], b f32[4] (a default), outputs y f32[N,4], s f32[N], t f32[M].
 */
#include "tests/runtime/blob.h"

enum { IN_X, IN_I, IN_B };
enum { OUT_Y, OUT_S, OUT_T };
enum { K_ADD, K_RELU, K_SUM, K_PICK };
enum { B_X, B_I, B_B, B_SUM, B_Y, B_S, B_T, B_TABLE };

typedef struct Weights {
	float b[4];
	float table[12];
} Weights;

static const Weights the_weights __attribute__((aligned(64))) = {
	{1, 2, 3, 4}, {0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110}
};

static void k_add(void *const *bufs, const int64_t *syms, int64_t begin, int64_t end,
                  unsigned char *scratch, int32_t *err)
{
	const float *x = bufs[0], *b = bufs[1];
	float *y = bufs[2];
	(void)syms, (void)scratch, (void)err;
	for (int64_t i = begin; i < end; i++)
		for (int j = 0; j < 4; j++)
			y[4 * i + j] = x[4 * i + j] + b[j];
}

static void k_relu(void *const *bufs, const int64_t *syms, int64_t begin, int64_t end,
                   unsigned char *scratch, int32_t *err)
{
	const float *x = bufs[0];
	float *y = bufs[1];
	(void)syms, (void)scratch, (void)err;
	for (int64_t i = 4 * begin; i < 4 * end; i++)
		y[i] = x[i] > 0 ? x[i] : 0;
}

static void k_sum(void *const *bufs, const int64_t *syms, int64_t begin, int64_t end,
                  unsigned char *scratch, int32_t *err)
{
	const float *x = bufs[0];
	float *y = bufs[1], *part = (float *)(void *)scratch;
	(void)err;
	for (int64_t i = begin; i < end; i++) {
		part[0] = 0;
		for (int64_t j = 0; j < syms[0]; j++)
			part[0] += x[syms[0] * i + j];
		y[i] = part[0];
	}
}

static void k_pick(void *const *bufs, const int64_t *syms, int64_t begin, int64_t end,
                   unsigned char *scratch, int32_t *err)
{
	const int64_t *at = bufs[0];
	const float *table = bufs[1];
	float *y = bufs[2];
	(void)scratch;
	for (int64_t i = begin; i < end; i++) {
		int64_t k = at[i];
		if (k < 0 || k >= syms[0]) {
			*err = 1;
			k = 0;
		}
		y[i] = table[k];
	}
}

static TccKernelFn *const kernels[] = {k_add, k_relu, k_sum, k_pick};

static int32_t plan(TccRun *run)
{
	const TccApi *api = run->api;
	int64_t n = api->dim(run, IN_X, 0), m = api->dim(run, IN_I, 0);
	TRY(api->check(run, m <= n, 0, m, n));
	TRY(api->size(run, B_SUM, n * 16));
	TRY(api->place(run));
	TRY(api->output(run, OUT_Y, B_Y, 2, (int64_t[]){n, 4}));
	TRY(api->output(run, OUT_S, B_S, 1, (int64_t[]){n}));
	TRY(api->launch(run, K_ADD, (int64_t[]){n, 1, 1, 4, B_X, B_B, B_SUM}));
	TRY(api->launch(run, K_RELU, (int64_t[]){n, 1, 1, 4, B_SUM, B_Y}));
	TRY(api->launch(run, K_SUM, (int64_t[]){n, 1, 1, 4, B_Y, B_S, 4}));
	TRY(api->alloc(run, B_T, m * 4));
	TRY(api->launch(run, K_PICK, (int64_t[]){m, 1, 1, 1, B_I, B_TABLE, B_T, 12}));
	return api->output(run, OUT_T, B_T, 1, (int64_t[]){m});
}

static TccKernel kernel(Blob *b, const char *name, uint32_t nbufs, uint32_t nsyms)
{
	TccString s = put_string(b, name);
	return (TccKernel){
		.name = s, .symbol = s, .nodes = s, .nbufs = nbufs, .nsyms = nsyms, .block = {32, 1, 1},
		.scratch = 64, .flops = 4, .bytes = 32,
	};
}

static void build_meta(Blob *b)
{
	*b = (Blob){.size = sizeof(TccMeta)};
	TccMeta m = {0};
	memcpy(m.magic, "TCCMETA1", 8);
	m.name = put_string(b, "hand");
	m.prefix = put_string(b, "hand");
	m.manifest = put_string(b, "{}");
	m.weights_file = put_string(b, "hand.weights");
	m.target = put_string(b, "test");
	m.weights_id = 77;
#ifdef ON_DEMAND
	m.flags = TCC_META_ON_DEMAND;
#endif
	TccDim dims[] = {
		{-1, 0, 1 << 20, put_string(b, "N"), 0}, {4, 0, 0, 0, 0}, {-1, 0, 0, put_string(b, "M"), 0},
	};
	TccPort in[] = {
		port(b, "x", TCC_F32, 2, 0, B_X), port(b, "i", TCC_I64, 1, 2, B_I),
		port(b, "b", TCC_F32, 1, 1, B_B),
	};
	in[IN_B].default_offset = offsetof(Weights, b);
	in[IN_B].default_size = sizeof the_weights.b;
	TccPort out[] = {
		port(b, "y", TCC_F32, 2, 0, B_Y), port(b, "s", TCC_F32, 1, 0, B_S),
		port(b, "t", TCC_F32, 1, 2, B_T),
	};
	TccKernel k[] = {
		kernel(b, "add", 3, 0), kernel(b, "relu", 2, 0), kernel(b, "sum", 2, 1),
		kernel(b, "pick", 3, 1),
	};
	for (size_t i = 0; i < TCC_COUNT(k); i++) {
		k[i].writes = UINT64_C(1) << (k[i].nbufs - 1);
		k[i].flags = TCC_KERNEL_WAITS;
	}
	k[K_PICK].errors = 1;
	k[K_PICK].nerrors = 1;
	TccBuffer bufs[] = {
		buffer(b, TCC_BUF_INPUT, TCC_F32, "x"), buffer(b, TCC_BUF_INPUT, TCC_I64, "i"),
		buffer(b, TCC_BUF_INPUT, TCC_F32, "b"), buffer(b, TCC_BUF_ARENA, TCC_F32, "sum"),
		buffer(b, TCC_BUF_OUTPUT, TCC_F32, "y"), buffer(b, TCC_BUF_OUTPUT, TCC_F32, "s"),
		buffer(b, TCC_BUF_HEAP, TCC_F32, "t"), buffer(b, TCC_BUF_WEIGHT, TCC_F32, "table"),
	};
	bufs[B_I].index = IN_I;
	bufs[B_B].index = IN_B;
	bufs[B_S].index = OUT_S;
	bufs[B_SUM].last = 3;
	bufs[B_TABLE].offset = offsetof(Weights, table);
	bufs[B_TABLE].size = sizeof the_weights.table;
	TccString texts[] = {
		put_string(b, "input 'i' has $0 elements, at most $1 can be used"),
		put_string(b, "node 'pick' (Gather)"),
	};
	m.dims = PUT_ROWS(b, dims);
	m.inputs = PUT_ROWS(b, in);
	m.outputs = PUT_ROWS(b, out);
	m.kernels = PUT_ROWS(b, k);
	m.buffers = PUT_ROWS(b, bufs);
	m.texts = PUT_ROWS(b, texts);
	b->bytes[b->size++] = 0;
	memcpy(b->bytes, &m, sizeof m);
}

static TccModel hand_model(Blob *b)
{
	build_meta(b);
	return (TccModel){
		.abi_version = TCC_ABI_VERSION,
		.machine = "test",
		.meta = b->bytes,
		.meta_size = b->size,
		.weights = &the_weights,
		.weights_size = sizeof the_weights,
		.kernels = kernels,
		.plan = plan,
	};
}
