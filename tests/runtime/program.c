/* The model written by hand as a program, with the runtime's main. */
#include "tests/runtime/model.h"

static Blob blob;
static TccModel model;
const TccModel *const tcc_main_model = &model;

__attribute__((constructor)) static void build(void)
{
	model = hand_model(&blob);
}
