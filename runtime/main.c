/* main of an executable; tcc_main_model comes from the compiled object. */
#include "rt.h"

extern const TccModel *const tcc_main_model;

int main(int argc, char **argv)
{
	return tcc_program(tcc_main_model, NULL, argc, argv);
}
