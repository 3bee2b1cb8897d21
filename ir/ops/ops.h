/* The families' tables, and what their builders share. */
#ifndef TCC_OPS_H
#define TCC_OPS_H

#include "../ir.h"

extern const Op ops_elementwise[], ops_reduce[], ops_contract[];

/* A family is a table of these, ended by {0}. Columns: IR name, ONNX name, newest since_version. */
#define ELEM(name, onnx, since, sig, body, doc)  {name, onnx, since, ROW_ELEM, sig, body, NULL, doc, O_GRAPH, NULL}
#define COMP(name, onnx, since, sig, body, doc)  {name, onnx, since, ROW_COMP, sig, body, NULL, doc, O_GRAPH, NULL}
#define BUILD(name, onnx, since, sig, fn, doc)   {name, onnx, since, ROW_INDEX, sig, NULL, fn, doc, O_GRAPH, NULL}
#define STRUCT(name, onnx, since, sig, fn, doc)  {name, onnx, since, ROW_STRUCT, sig, NULL, fn, doc, O_GRAPH, NULL}

/*
 * The axes an operator works on, from an operand known at run time or an attribute: on[d] is a bool
 * scalar per dimension (a constant where the axes are). all_if_empty: no axes means all of them.
 */
bool axes_mask(Build *, Node *operand, const char *attr, int rank, bool all_if_empty, Node **on);
/* A node that stands for a runtime routine, with the operator's attributes. */
Node *host_op(Build *, const char *name, const Type *, int nin, Node *const *in);
/* An axis attribute made nonnegative; reports one out of range. -1 on error. */
int axis_attr(Build *, const char *name, int rank);

#endif
