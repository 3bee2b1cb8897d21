/*
 * A caller with a stream and memory of its own on the device, as DLPack describes it: nothing of it
 * is copied. Works with the test's driver (fake_driver.c), whose functions it calls for its own
 * memory.
 */
#include <dlfcn.h>
#include "tests/runtime/model.h"

static Blob blob;
static void *driver;

#define CHECK(cond) do { if (!(cond)) { printf("line %d: %s: %s\n", __LINE__, #cond, ctx ? tcc_error(ctx) : \
	tcc_inst_error(inst)); return 1; } } while (0)

static int call_alloc(uint64_t *p, size_t n)
{
	int (*alloc)(uint64_t *, size_t);
	*(void **)&alloc = dlsym(driver, "cuMemAlloc_v2");
	return alloc(p, n);
}

static void call_free(uint64_t p)
{
	int (*give_back)(uint64_t);
	*(void **)&give_back = dlsym(driver, "cuMemFree_v2");
	give_back(p);
}

static TccValue on_device(uint32_t dtype, int rank, int64_t *shape, uint64_t p)
{
	TccValue v = {.kind = TCC_TENSOR, .dtype = dtype};
	tcc_tensor_set(&v.u.tensor, dtype, rank, shape, (void *)(uintptr_t)p);
	v.u.tensor.device_type = TCC_DEV_CUDA;
	return v;
}

static int use(TccInst *inst, TccContext *ctx)
{
	int64_t sx[] = {2, 4}, si[] = {1}, sy[] = {2, 4}, ss[] = {2}, st[] = {1}, at = 3;
	float t = 0;
	uint64_t x, y, s;
	CHECK(!call_alloc(&x, 32) && !call_alloc(&y, 32) && !call_alloc(&s, 8));
	/* the test's driver has the device's memory on the host */
	for (int i = 0; i < 8; i++)
		((float *)(uintptr_t)x)[i] = (float)i;
	TccValue in[] = {on_device(TCC_F32, 2, sx, x), {.kind = TCC_TENSOR, .dtype = TCC_I64}};
	TccValue out[] = {on_device(TCC_F32, 2, sy, y), on_device(TCC_F32, 1, ss, s),
		{.kind = TCC_TENSOR, .dtype = TCC_F32}};
	tcc_tensor_set(&in[1].u.tensor, TCC_I64, 1, si, &at);
	tcc_tensor_set(&out[2].u.tensor, TCC_F32, 1, st, &t);
	for (int run = 0; run < 4; run++) {
		((float *)(uintptr_t)y)[7] = t = 0;
		CHECK(!tcc_run(ctx, in, 2, out, 3));
		CHECK(t == 30 && ((float *)(uintptr_t)y)[7] == 11 && ((float *)(uintptr_t)s)[1] == 32);
		CHECK(tcc_round_trips(ctx) == 1);
	}
	in[0].u.tensor.device_id = 1;
	CHECK(tcc_run(ctx, in, 2, out, 3) == TCC_BAD_DATA &&
		strstr(tcc_error(ctx), "'x' is on another device"));
	in[0].u.tensor.device_id = 0;
	out[0].u.tensor.device_type = TCC_DEV_HIP;
	CHECK(tcc_run(ctx, in, 2, out, 3) == TCC_BAD_DATA &&
		strstr(tcc_error(ctx), "is on another device"));
	call_free(x);
	call_free(y);
	call_free(s);
	return 0;
}

int main(void)
{
	static const TccImage images[] = {{"sm_80", "kernels", 0}};
	TccModel model = hand_model(&blob);
	TccInst *inst = NULL, *first = NULL;
	TccContext *ctx = NULL;
	int (*stream_new)(void **, unsigned), (*stream_free)(void *);
	TccOptions o = {.size = sizeof o};
	model.image_kind = TCC_IMAGE_CUDA;
	model.kernels = NULL;
	model.images = images;
	model.nimages = 1;
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver)
		return 77;
	*(void **)&stream_new = dlsym(driver, "cuStreamCreate");
	*(void **)&stream_free = dlsym(driver, "cuStreamDestroy_v2");
	CHECK(!tcc_load(&model, NULL, &first));
	CHECK(!stream_new(&o.stream, 1));
	CHECK(!tcc_load(&model, &o, &inst));
	CHECK(!tcc_context_new(inst, &ctx));
	int rc = use(inst, ctx);
	tcc_context_free(ctx);
	stream_free(o.stream);
	tcc_unload(inst);
	tcc_unload(first);
	return rc;
}
