/* The files that tcc-ml carries within itself: the runtime's sources by their path in the tree
 * ("runtime/abi.h"), and its library as "libtcc_rt.a". A byte 0 follows each, so text can be
 * used as a string. The table ends with a null name. */
#ifndef CODEGEN_EMBED_H
#define CODEGEN_EMBED_H

#include <stddef.h>

struct tcc_embed {
	const char *name;
	const void *data;
	size_t size;
};

extern const struct tcc_embed tcc_embed[];

#endif
