/* The families' tables, and what their builders share. */
#ifndef TCC_OPS_H
#define TCC_OPS_H

#include "../ir.h"

extern const Op ops_elementwise[], ops_shape[], ops_move[], ops_index[], ops_order[], ops_control[],
	ops_resize[], ops_random[], ops_reduce[], ops_contract[], ops_conv[], ops_pool[],
	ops_norm[], ops_quant[], ops_rnn[], ops_attention[], ops_loss[], ops_signal[], ops_ml[],
	ops_svm[], ops_trees[], ops_contrib[], ops_contrib_attention[], ops_contrib_fused[],
	ops_contrib_group[], ops_contrib_rotary[], ops_contrib_packed[], ops_contrib_decoder[],
	ops_contrib_nbits[], ops_contrib_ordered[], ops_contrib_paged[], ops_contrib_varlen[],
	ops_sequence[], ops_text[], ops_contrib_more[], ops_contrib_moe[], ops_contrib_tokens[],
	ops_contrib_mixed[], ops_matrix[], ops_attn_lstm[], ops_search[], ops_gradient[];

/* A family is a table of these, ended by {0}. Columns: IR name, ONNX name, newest since_version. */
#define ROW(kind, name, onnx, since, sig, body, fn, doc) \
	{name, onnx, since, kind, sig, body, fn, doc, O_GRAPH, NULL, NULL}
#define ELEM(name, onnx, since, sig, body, doc) \
	ROW(ROW_ELEM, name, onnx, since, sig, body, NULL, doc)
#define COMP(name, onnx, since, sig, body, doc) \
	ROW(ROW_COMP, name, onnx, since, sig, body, NULL, doc)
#define BUILD(name, onnx, since, sig, fn, doc) \
	ROW(ROW_INDEX, name, onnx, since, sig, NULL, fn, doc)
#define STRUCT(name, onnx, since, sig, fn, doc) \
	ROW(ROW_STRUCT, name, onnx, since, sig, NULL, fn, doc)
/* By routines of the runtime, on the host of every target: what is no array of numbers. */
#define HOST(name, onnx, since, sig, fn, doc) \
	ROW(ROW_HOST, name, onnx, since, sig, NULL, fn, doc)

/*
 * The axes an operator works on, from an operand known at run time or an attribute: on[d] is a bool
 * scalar per dimension (a constant where the axes are). all_if_empty: no axes means all of them.
 */
bool axes_mask(Build *, Node *operand, const char *attr, int rank, bool all_if_empty, Node **on);
/* A routine of the runtime applied element by element, with
 * broadcasting: args has SK for each operand K. */
Node *string_map(Build *, const char *name, const char *args, DType result);
/* An axis attribute made nonnegative; reports one out of range. -1 on error. */
int axis_attr(Build *, const char *name, int rank);

/* shape.c */
/* " of 'NAME', 'NAME'": the model's inputs that t depends on, for advice; "" if it has none. */
const char *inputs_named(Build *, Node *t);
/* The elements of a list operand as index expressions; false after an error was reported. */
bool list_arg(Build *, Node *t, const char *what, int *n, Node ***e);
/* Those of a list that must have n elements. */
bool list_of(Build *, Node *t, const char *what, int n, Node ***e);
/* Those of a list of any length up to `most`, which *n becomes where it is known only at run time:
 * then `none` stands for elements that are not there. */
bool short_list(Build *, Node *t, const char *what, int most, Node *none, int *n, Node ***e);
/* axes (input or attribute) as index expressions; *axes NULL and *n as it was if there are none.
 * want: how many there must be if only a run knows their number, or -1. */
bool axes_arg(Build *, Node *t, const char *attr, int rank, int want, int *n, Node ***axes);
/* Requires axes in range: n of them, or only the first len. */
bool axes_in(Build *, int rank, int n, Node *const *axes, Node *len);
Node *x_product(Module *, int n, Node *const *);
/* An expression as a dimension: what was read at run time is made nonnegative. */
Node *extent(Module *, Node *e);
/* Within +-2^42 where it comes from a model or a reading,
 * so that adding a dimension cannot overflow. */
Node *saturate(Module *, Node *e);
Node *wrap_index(Module *, Node *i, Node *dim);          /* i, or i + dim if it is negative */
Node *scalar_arg(Module *, Node *t);                     /* the element of a tensor that has one */
/* does axis (perhaps negative) name dimension d? */
Node *x_any_axis(Module *, Node *axis, int d, int rank);
/* an integer scalar that kernels compute, as an index */
Node *computed_index(Module *, Node *scalar);
Node *reshape(Module *, Node *x, int rank, Node *const *dims);
/* The entries of an optional attribute of n integers, `none` without it; false after an error. */
bool spatial_attr(Build *, const char *name, int n, int64_t none, int64_t *v);
/* A sum over axes in the element's type, half types accumulated in f32. */
Node *sum_over(Module *, int n, Node *const *axes, Node *body);

/* control.c */
/*
 * A `loop` node: body(round, carried...) -> condition, carried..., scanned... trip (i64), cond
 * (bool) may be NULL. A dimension of a body's parameter that is not the operand's is a symbol of
 * the body: it holds the parameter's dimension in each round.
 */
Node *loop_build(Build *, Node *trip, Node *cond, int ncarried, Node *const *init, Region *body);

/* sequence.c */
Node *seq_value(Module *, const Type *, int n, Node *const *elems);   /* of these elements */
bool seq_elems(Node *, int *n, Node ***elems);           /* its elements, if they are known */
Node *seq_append(Module *, Node *seq, Node *tensor);     /* types must fit */
Node *seq_unstack(Module *, Node *tensor);               /* its slices along the first axis */

/* index.c, order.c */
/* The indices below n for which `mark` (over axis) holds, in order: i64[their number]. */
Node *places_of(Build *, Node *n, Node *axis, Node *mark);
/* Running comb along an axis; half types accumulate in f32. */
Node *running(Build *, Comb, Node *x, int axis, bool exclusive, bool reverse);

/* random.c */
/* The generator's start (ir/README.md): from a tensor's element, the attribute or the node's
 * place. */
Node *random_seed(Build *, Node *given);
/* d[batch, n]: classes drawn by log-odds [batch, classes]; the draws' places begin at `first`. */
Node *classes_drawn(Build *, Node *odds, int64_t n, Node *seed, Node *first, DType d);

/* contract.c */
/* Requires that a dimension is what it must be; may_be_one: or 1. */
void expect_dim(Build *, const char *what, Node *have, Node *want, bool may_be_one);
/* Its first dimensions; a t of a lower rank is an error. */
void expect_shape(Build *, const char *what, Node *t, int rank, Node *const *want);
/* half types accumulate in f32, bytes in i32 */
DType acc_type(DType);
Node *sum_of_products(Module *, DType acc, int n, Node *const *axes, Node *a, Node *b);
/* round(e * scale) + zero, saturated to zero's type. */
Node *requantized(Module *, Node *e, Node *scale, Node *zero);

/* contrib.c */
#define MS(name) "com.microsoft:" name
/* Result i of another row. */
Node *call_result(Build *, const char *name, int nin, Node *const *in, const Attr *, int i);
const Attr *with_int(Build *, const Attr *list, const char *name, int64_t);
const Attr *with_float(Build *, const Attr *list, const char *name, double);
Node *call2(Build *, const char *name, Node *x, Node *y);  /* NULL where x or y is */
Node *as_type(Module *, Node *x, DType);                 /* x itself where it has the type */
Node *as_float(Module *, Node *e);                       /* a scalar as f32, or f64 if it is one */

/* contrib_more.c */
/* An element of quantized data as i32; bytes hold `per` of
 * them along the last axis, low bits first. */
Node *quantized_read(Module *, Node *t, Node *const *idx, int64_t per, int64_t bits);

/* quant.c */
Node *quant_param(Build *, Node *t, Node *x, int axis, int64_t block, Node *const *axes);

/* window.c */
/* A window of k elements, dilation apart, that slides along a dimension of `in` elements with begin
 * and end elements of padding: `out` places, at out * stride - begin. */
typedef struct Window { Node *in, *k, *begin, *end, *out; int64_t stride, dilation; bool ceil;
	} Window;
/* From the attributes auto_pad, strides, dilations, pads (each
 * may be missing); false after an error. */
bool windows(Build *, int n, Node *const *in, Node *const *kernel, bool ceil, Window *);
bool window_attrs(Build *, int n, int64_t *stride, int64_t *dilation, int64_t *pads);
bool window_kernel(Build *, int n, Node **kernel);       /* the attribute kernel_shape */
Node *window_span(Module *, const Window *);             /* from its first to its last element */
/* x with its last n dimensions padded as far as windows reach; x itself where none overhangs. */
Node *window_padded(Module *, Node *x, int n, const Window *, Node *fill);

#endif
