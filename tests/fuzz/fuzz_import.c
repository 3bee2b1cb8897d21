/* Any bytes as a model, up to the graph level: an error or a module, never a crash. */
#include "frontend/frontend.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	Diag diag = { .quiet = true };
	Module *m = module_new(&diag);
	OnnxModel *om = onnx_read(m, bytes, size, NULL);
	bool ok = om && onnx_import(om, NULL);

	if (ok != (diag.errors == 0) || diag.code == X_BUG)
		__builtin_trap();
	onnx_close(om);
	module_free(m);
	return 0;
}
