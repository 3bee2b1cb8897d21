/*
 * The model written by hand as a program, with the runtime's main. With IMAGE_KIND it is a device
 * model: IMAGE is the simulator's object, or any text for the drivers that the test brings.
 */
#include "tests/runtime/model.h"

static Blob blob;
static TccModel model;
const TccModel *const tcc_main_model = &model;

__attribute__((constructor)) static void build(void)
{
	model = hand_model(&blob);
#ifdef IMAGE_KIND
	static const TccImage images[] = {
		{"sm_75", IMAGE, 0}, {"sm_90a", IMAGE, 0}, {"sm_80", IMAGE, 0}, {"compute_75", IMAGE, 0},
	};
	model.image_kind = IMAGE_KIND;
	model.kernels = NULL;
	model.images = images;
	model.nimages = IMAGE_KIND == TCC_IMAGE_SIM ? 1 : TCC_COUNT(images);
#endif
}
