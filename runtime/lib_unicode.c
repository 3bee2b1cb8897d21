/* Routines that need libunistring: case mapping as Unicode has it, of whole strings. */
#include <stdlib.h>
#include <string.h>
#include <unicase.h>
#include "host.h"

const char tcc_lib_unicode = 1;        /* what a link asks for that needs this file */

int64_t do_str_case(TccContext *ctx, const int64_t *a)
{
	const TccStr *x = host_strings(ctx, a[1]);
	TccStr lang = *host_strings(ctx, a[4]), *r = host_result(ctx, a[0], a[2]);
	char language[9] = "";
	if (lang.size && lang.size < sizeof language)
		memcpy(language, lang.data, lang.size);
	for (int64_t i = 0; r && i < a[2]; i++) {
		size_t n = 0;
		const uint8_t *s = (const uint8_t *)x[i].data;
		uint8_t *t = (a[3] ? u8_toupper : u8_tolower)(s ? s : (const uint8_t *)"", x[i].size,
		                                            language[0] ? language : NULL, NULL, NULL, &n);
		char *to = tcc_run_alloc(ctx, n, true);
		if (!t && n)
			return host_fail(ctx, "a string is not UTF-8");
		if (to && n)
			memcpy(to, t, n);
		free(t);
		r[i] = (TccStr){to, to ? n : 0};
	}
	return 0;
}
