/* The families' tables, and what their builders share. */
#ifndef TCC_OPS_H
#define TCC_OPS_H

#include "../ir.h"

extern const Op ops_elementwise[], ops_reduce[], ops_contract[], ops_shape[], ops_index[], ops_order[];

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

/* shape.c */
/* The elements of a list operand as index expressions; false after an error was reported. */
bool list_arg(Build *, Node *t, const char *what, int *n, Node ***e);
/* An expression as a dimension: what was read at run time is made nonnegative. */
Node *extent(Module *, Node *e);
/* Within +-2^42 where it comes from a model or a reading, so that adding a dimension cannot overflow. */
Node *saturate(Module *, Node *e);
Node *wrap_index(Module *, Node *i, Node *dim);          /* i, or i + dim if it is negative */
Node *scalar_arg(Module *, Node *t);                     /* the element of a tensor that has one */
Node *x_any_axis(Module *, Node *axis, int d, int rank); /* does axis (perhaps negative) name dimension d? */
Node *computed_index(Module *, Node *scalar);            /* an integer scalar that kernels compute, as an index */
Node *reshape(Module *, Node *x, int rank, Node *const *dims);
/* The entries of an optional attribute of n integers, `none` without it; false after an error. */
bool spatial_attr(Build *, const char *name, int n, int64_t none, int64_t *v);
/* A sum over axes in the element's type, half types accumulated in f32. */
Node *sum_over(Module *, int n, Node *const *axes, Node *body);

/* index.c, order.c */
/* The indices below n for which `mark` (over axis) holds, in order: i64[their number]. */
Node *places_of(Build *, Node *n, Node *axis, Node *mark);
/* Running comb along an axis; half types accumulate in f32. */
Node *running(Build *, Comb, Node *x, int axis, bool exclusive, bool reverse);

#endif
