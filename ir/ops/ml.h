/* What the operators of ai.onnx.ml share. */
#ifndef TCC_OPS_ML_H
#define TCC_OPS_ML_H

#include "ops.h"

typedef enum Post { POST_NONE, POST_SOFTMAX, POST_LOGISTIC, POST_SOFTMAX_ZERO, POST_PROBIT } Post;
bool post_attr(Build *, Post *);                         /* the attribute post_transform */
/* Scores [n, k] after the transform. */
Node *post_transform(Build *, Post, Node *scores);
/* Two columns from one score [n, 1]: 1 - s (or -s, if signed_) and s; logistic(-s), logistic(s). */
Node *two_columns(Build *, Post, Node *score, bool signed_);
/* The labels of a classifier: int64 or string, [k]; NULL
 * after an error. ints: the attribute's name. */
Node *class_labels(Build *, const char *ints, const char *strings);
Node *label_of(Module *, Node *labels, Node *which);     /* labels[which[i]]: which i64[n] */
/* labels[score[i, 0] > above] */
Node *label_if(Module *, Node *labels, Node *score, double above);
/* x as [n, features]; a vector is one row. NULL after an error. */
Node *feature_rows(Build *, Node *x);
Node *ml_logistic(Module *, Node *x);                    /* of a scalar, without overflow */
/* x [n, f] times w' ([k, f]), plus bias [k] or NULL, in f32. */
Node *ml_affine(Build *, Node *x, Node *w, Node *bias);
/* the attribute, [k, features]; NULL after an error */
Node *ml_coefficients(Build *, int64_t k);
/* The label of the largest score [n, k], and the final scores, as a tuple. */
Node *ml_by_argmax(Build *, Node *labels, Node *scores, Node *final);
/* An attribute of floats or ints as a constant of the given dims; NULL if it is absent or empty. */
Node *attr_const(Build *, const char *name, DType, int rank, const int64_t *dims);
Node *string_const(Module *, int rank, int64_t n, const char *const *);   /* [n], or of rank 0 */
Node *one_string(Build *, const char *);                 /* of rank 0 */
int attr_len(const Build *, const char *name);

#endif
