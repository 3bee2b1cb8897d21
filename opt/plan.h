/*
 * Making the host plan. Private to opt/plan*.c.
 *
 * The plan is one list of statements (loop level, on the host). What depends on the sizes and
 * elements of inputs alone stands before the call of place(), in `sizes`: there the arena is laid
 * out. The rest follows in the order of execution, in the region `out` that functions are handed.
 */
#ifndef TCC_OPT_PLAN_H
#define TCC_OPT_PLAN_H

#include "sched.h"

/* A region that is being planned, within those around it: values hold in it and in regions
 * inside. */
typedef struct Scope { struct Scope *up; Region *home; Map vals; } Scope;

/* What the plan does at one place: a kernel, or a loop, branch, sequence or routine. */
typedef struct Item { Group *g; Node *n; Region *home; bool done, busy; } Item;

typedef struct Planner {
	Sched *s;
	Module *m;
	Vec items;             /* Item */
	Map item;              /* tensor or node -> Item */
	Map views;             /* tensor -> Vec of tensors whose memory it is or may be */
	Vec texts;
	Scope *scope;
	uint32_t step;         /* of the plan, as lifetimes count them */
	Region *sizes;         /* statements before place() */
	Map cells;             /* symbol that changes -> its stack cell */
	Map owner;             /* symbol -> the loop or if that decides it */
	Map values;            /* sequence, optional or map -> its value buffer + 1 */
	Map checked;           /* numbers of elements that fit 32 bits, by a check before place() */
} Planner;

/* ---- plan.c ---------------------------------------------------------------------------------- */

/* Plans what computes t, if that stands in the region being planned and is not done. */
void ensure(Planner *, Region *out, Node *t);
void run_region(Planner *, Region *out, Region *home);   /* all items of the region */
/* The kernel, or the one instead where it does not fit; its tensors have buffers by now. */
void launch_kernel(Planner *, Region *out, Kernel *);

/* ---- plan_buffers.c -------------------------------------------------------------------------- */

PlanBuf *buf_at(Planner *, int id);
int new_buf(Planner *, BufClass, DType, const char *name);   /* its number; lives at this step */
void touch_buffer(Planner *, Node *t);   /* t is used at this step, and what it is a view of */
void const_buffer(Planner *, Node *t);
void input_buffer(Planner *, Node *t);   /* of a parameter of the model; else none */
/* that a kernel of this region writes t into */
void result_buffer(Planner *, Region *out, Node *t);
void allocate_buffer(Planner *, Region *out, int id, Node *bytes);
/* output i is t, in buffer id */
void declare_output(Planner *, Region *out, int i, int id, Node *t);
Node *bytes_of(Planner *, Node *t);
void add_view(Planner *, Node *t, Node *base);
Node *same_memory(Planner *, Node *t);   /* the tensor whose memory t is as it lies, or NULL */
/* to byte `at` of dst */
void copy_bytes(Planner *, Region *out, int dst, Node *at, int src, Node *bytes);
void copy_all(Planner *, Region *out, Node *dst, Node *src);
int value_buffer(Planner *, Node *t);                    /* of a sequence, optional or map */
int root_buffer(Planner *, Node *t);                     /* of a tensor or value */
void move_value(Planner *, Region *out, int dst, int src);

/* ---- plan_values.c --------------------------------------------------------------------------- */

void scope_push(Planner *, Region *home);
void scope_pop(Planner *);
void bind_value(Planner *, const Node *n, Node *v);      /* in this scope a symbol or read is v */
/* e in terms of the plan's own values; plans what they need. */
Node *host_value(Planner *, Region *out, Node *e);
/* the integer that a tensor of one element holds */
Node *scalar_value(Planner *, Region *out, Node *t);
bool has_read(Node *e);
bool of_inputs(Planner *, Node *e);   /* known when a run begins, from inputs alone? */
Node *arg_array(Planner *, Region *out, int n, Node *const *v);   /* on the stack */
/* an integer on the stack that statements change */
Node *cell_new(Planner *, Region *out, Node *init);
Node *cell_get(Planner *, Region *out, Node *c);
void cell_set(Planner *, Region *out, Node *c, Node *v);
bool is_local_sym(Planner *, const Node *);   /* a symbol that a loop or branch decides? */
/* cells for such symbols among t's dims */
void declare_dims(Planner *, Region *out, const Node *t);
/* they take v's, all read first */
void assign_dims(Planner *, Region *out, int n, Node *const *t, Node *const *v);

/* ---- plan_control.c, plan_host.c ------------------------------------------------------------- */

void run_if(Planner *, Region *out, Node *);
void run_loop(Planner *, Region *out, Node *);
void run_seq(Planner *, Region *out, Node *);   /* a sequence or optional of known elements */
void run_host(Planner *, Region *out, Node *);

#endif
