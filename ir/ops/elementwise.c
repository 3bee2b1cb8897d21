/* Element-wise operators: a scalar expression over broadcast operands. */
#include "ops.h"

const Op ops_elementwise[] = {
	ELEM("add",     "Add",     14, "(a: num, b: a) {} -> y", "a + b", "sum"),
	ELEM("sub",     "Sub",     14, "(a: num, b: a) {} -> y", "a - b", "difference"),
	ELEM("mul",     "Mul",     14, "(a: num, b: a) {} -> y", "a * b", "product"),
	ELEM("div",     "Div",     14, "(a: num, b: a) {} -> y", "a / b", "quotient; integers truncate"),
	ELEM("neg",     "Neg",     13, "(x: num) {} -> y", "-x", "negation"),
	ELEM("exp",     "Exp",     13, "(x: float) {} -> y", "exp(x)", "exponential"),
	ELEM("sqrt",    "Sqrt",    13, "(x: float) {} -> y", "sqrt(x)", "square root"),
	ELEM("relu",    "Relu",    14, "(x: num) {} -> y", "max(x, 0)", "max(x, 0)"),
	ELEM("sigmoid", "Sigmoid", 13, "(x: float) {} -> y", "1 / (1 + exp(-x))", "logistic function"),
	ELEM("tanh",    "Tanh",    13, "(x: float) {} -> y", "tanh(x)", "hyperbolic tangent"),
	ELEM("erf",     "Erf",     13, "(x: num) {} -> y", "erf(x)", "error function"),
	{0}
};
