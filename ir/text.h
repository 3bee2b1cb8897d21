/* What the printer and the parser of the IR's text share. */
#ifndef TCC_TEXT_H
#define TCC_TEXT_H

#include "ir/ir.h"

/* Larger closed expressions stand on a line of their own; in graph level, four times as large ones
 * are not shown in types and requirements. */
enum { TEXT_INLINE = 16 };

bool text_reserved(const char *word);                    /* has a meaning in expressions */
void text_num(FILE *, DType, Num);                       /* a literal, with its type */
int text_precedence(OpCode);             /* of an infix operation, from 2; 0: not infix */
extern const char *const text_buf_classes[];             /* by BufClass; NULL at the end */

/* As module_print; constants beyond 64 KB go to `data`, which the text calls data_name: a file
 * beside it. Without it they are elided and the text cannot be read back. */
void module_print_data(Module *, Level, FILE *, FILE *data, const char *data_name);

#endif
