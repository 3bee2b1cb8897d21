/* What the routines of TCC_HOST share. Each is do_NAME(context, arguments as abi.h lists them). */
#ifndef TCC_HOST_H
#define TCC_HOST_H

#include "rt.h"

/* Weak where a library is needed, so that a program carries only those that its link asks for. */
#define TCC_LIB_core
#define TCC_LIB_unicode __attribute__((weak))
#define TCC_LIB_regex   __attribute__((weak))
#define TCC_LIB_image   __attribute__((weak))
#define DECLARE(name, lib, args) TCC_LIB_##lib int64_t do_##name(TccContext *, const int64_t *);
TCC_HOST(DECLARE)
#undef DECLARE

/* host_function.c: the model's function k, a user's operator. */
int64_t tcc_function_call(TccContext *, uint64_t k, const int64_t *args);

int64_t host_fail(TccContext *ctx, const char *what);   /* sets the run's error; returns 0 */
/* Puts a result made on the host into the buffer dst. from NULL: nothing. */
int64_t host_deliver(TccContext *ctx, int64_t dst, const void *from, uint64_t bytes);
/* What a kernel left in a buffer, where the host can read it; NULL after an error. */
const void *host_bytes(TccContext *ctx, int64_t buffer, uint64_t bytes);

/* An empty result buffer of n strings; NULL after an error. */
static inline TccStr *host_result(TccContext *ctx, int64_t dst, int64_t n)
{
	return tcc_slot_fit(ctx, dst, (uint64_t)n * sizeof(TccStr)) ? NULL
		: (TccStr *)(void *)ctx->slots[dst].p;
}

static inline const TccStr *host_strings(const TccContext *ctx, int64_t buffer)
{
	return (const TccStr *)(const void *)ctx->slots[buffer].p;
}

#endif
