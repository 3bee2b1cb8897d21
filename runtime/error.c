#include <stdarg.h>
#include <stdlib.h>
#include "rt.h"

int tcc_fail(TccErr *err, int code, const char *fmt, ...)
{
	if (!err)
		return code;
	if (err->code)
		return err->code;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof err->text, fmt, ap);
	va_end(ap);
	return err->code = code;
}

int tcc_no_memory(TccErr *err, uint64_t bytes)
{
	return tcc_fail(err, TCC_BUDGET, "out of memory: %llu bytes", (unsigned long long)bytes);
}

void *tcc_alloc(uint64_t bytes)
{
	void *p;
	if (bytes > PTRDIFF_MAX - TCC_ALIGN)
		return NULL;
	return posix_memalign(&p, TCC_ALIGN, bytes ? bytes : 1) ? NULL : p;
}
