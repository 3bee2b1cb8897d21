/* Any bytes as the IR's text: an error, or a module that verifies, prints and is read back. */
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"

static char *print(Module *m, Level level)
{
	char *text;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	module_print(m, level, f);
	fclose(f);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	Diag diag = { .quiet = true };
	Level level;
	char *text = calloc(1, size + 1);
	if (size)
		memcpy(text, bytes, size);
	Module *m = module_parse(text, "fuzz.ir", &diag, &level);
	if (!m && !diag.errors)
		__builtin_trap();
	if (m) {
		char *once = print(m, level);
		Module *again = module_parse(once, "fuzz.ir", &diag, &level);
		if (again)
			module_free(again);
		else if (!strstr(once, " elided "))
			__builtin_trap();
		free(once);
		module_free(m);
	}
	free(text);
	return 0;
}
