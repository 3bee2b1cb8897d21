/* The passes over the IR, from ONNX operators to kernels and a host plan. */
#ifndef TCC_OPT_H
#define TCC_OPT_H

#include "ir/ir.h"

/* ---- legalize.c ---------------------------------------------------------------------------- */

/* The expression in operations that targets have (ir/README.md). Of the same type, but for
 * sub-byte types, which become their storage type. */
Node *legalize(Module *, Node *scalar_expr);
/* How kernels hold a type in memory: i2 and i4 in i8, u2, u4 and the code of f4e2m1 in u8, others
 * as they are. The borders of the program pack and unpack. */
DType storage_type(DType);
Node *to_storage(Module *, Node *scalar_expr);
Node *from_storage(Module *, DType, Node *stored);

#endif
