/* What the files of the parser share; each says what it does at its head. */
#ifndef TCC_PARSE_H
#define TCC_PARSE_H

#include <setjmp.h>

#include "ir/text.h"

enum { MAX_DEPTH = 400, MAX_LIST = 1 << 20 };

typedef enum Tok { T_END, T_WORD, T_NUM, T_STR, T_SYMBOL, T_VALUE, T_PUNCT } Tok;

typedef struct Table { const char **key; Node **val; uint32_t cap, n; } Table;
typedef struct Local { const char *name; Node *n; } Local;
typedef struct Dim { Node *sym; const char *input; int axis; int line; } Dim;
typedef struct Nodes { Node **at; int n, cap; } Nodes;

typedef struct P {
	Module *m;
	Level level;
	const char *file, *s, *start; /* position after the token, and of the token */
	const char *text;
	Tok tok;
	char *str;             /* word, string, name */
	char punct[3];
	bool is_float;         /* of a number */
	const char *suffix;    /* type written after a number */
	jmp_buf fail;
	int depth, inner;      /* inner: within what a sequence or optional holds */
	Table values, symbols;
	Local *locals; int nlocals, caplocals;
	Dim *dims; int ndims;
	Map stated;            /* conditions of requirements */
	Node *any;             /* stands for "?" in types that are only compared */
	const char *mapped_name; const uint8_t *mapped; size_t mapped_size;
} P;

/* ---- lex.c ----------------------------------------------------------------------------------- */

_Noreturn void ps_bad(P *p, const char *fmt, ...)        /* reports and ends the reading */
	__attribute__((format(printf, 2, 3)));
void ps_deeper(P *p);                                    /* of what nests: p->depth-- after it */
bool ps_word_char(char c);
int ps_hex_digit(char c);
void ps_next(P *p);
bool ps_is(P *p, const char *s);
bool ps_eat(P *p, const char *s);                        /* takes the token if it is that */
void ps_want(P *p, const char *s);                       /* must be that */
const char *ps_word(P *p, const char *what);
const char *ps_string(P *p);
int64_t ps_digits(P *p, bool minus, bool uns);
int64_t ps_integer(P *p);
int ps_small(P *p, int64_t lo, int64_t hi);
DType ps_dtype(P *p);
Node *ps_lookup(P *p, const Table *t, const char *name);
void ps_enter(P *p, Table *t, const char *name, Node *n);
void ps_push_local(P *p, const char *name, Node *n);
Node *ps_find_local(P *p, const char *name);
void ps_append(P *p, Nodes *v, Node *n);

/* ---- parse_expr.c ---------------------------------------------------------------------------- */

Node *ps_index_expr(P *p);
Node *ps_raw(P *p, OpCode op, const Type *type, int nin, Node *const *in, int64_t n);
Node *ps_special(P *p, bool minus);
Node *ps_axis(P *p);
int ps_axis_list(P *p, Node **axes, int max);
Node *ps_block(P *p);
int ps_comb(P *p);
void ps_check_comb(P *p, int c, DType d);
Node *ps_expr(P *p);

/* ---- parse_data.c ---------------------------------------------------------------------------- */

Node *ps_value(P *p);
Node *ps_optional_value(P *p);
const Type *ps_type(P *p, bool loose);
bool ps_agree(P *p, const Type *a, const Type *b);
const Loc *ps_location(P *p);
Data *ps_payload(P *p, DType t, int64_t count);
Node *ps_constant(P *p);
double ps_real(P *p);
const Attr *ps_attributes(P *p, const Op *op);

/* ---- parse.c --------------------------------------------------------------------------------- */

const char *ps_own_name(P *p, const char *used);
Node *ps_declare(P *p, const char *name, int64_t lo, int64_t hi);
void ps_bounds(P *p, int64_t *lo, int64_t *hi);
const char *ps_symbol_name(P *p);
void ps_inputs(P *p);
const char *ps_output_name(P *);
void ps_output(P *p, const char ***names, int *cap, Node *n, const char *name);

/* ---- library.c ------------------------------------------------------------------------------- */

void ps_operator(P *p);                                  /* a declaration, into the module's library */

/* ---- parse_loop.c ---------------------------------------------------------------------------- */

void ps_loops(P *p);

#endif
