/* The language of definitions for others than the rows: rewrite rules. body.c has its grammar. */
#ifndef TCC_BODY_H
#define TCC_BODY_H

#include "ir.h"

/* V_NONE: an absent operand or attribute. V_ATTRS: the attributes of a node, all of them. */
typedef enum VKind { V_NONE, V_NODE, V_INT, V_FLT, V_STR, V_INTS, V_TYPE, V_ATTRS } VKind;
typedef struct Value {
	VKind k;
	Node *n;
	int64_t i;
	double f;
	const char *s;
	int count;             /* of is */
	const int64_t *is;
	const Attr *attrs;
} Value;
typedef struct Var { const char *name; size_t len; Value v; } Var;

/* A call that the language does not know: sets *r and returns true, or false if neither does it. */
typedef bool BodyCall(Build *, const char *name, size_t len, int n, const Value *arg, Value *r);

/* The values of a text in tensors (operators make graph nodes) with some names bound, at most max.
 * 0 after an error was reported. more may be NULL. */
int body_values(Build *, const char *text, int nvars, const Var *, BodyCall *more, Value *out,
	int max);

#endif
