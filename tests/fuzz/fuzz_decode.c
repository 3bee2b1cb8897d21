/* Any bytes as a model: an error or a checked model, never a crash. */
#include "frontend/frontend.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	Diag diag = { .quiet = true };
	Module *m = module_new(&diag);
	OnnxModel *om = onnx_read(m, bytes, size, NULL);

	if (!om && !diag.errors)
		__builtin_trap();
	onnx_close(om);
	module_free(m);
	return 0;
}
