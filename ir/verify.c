/*
 * The verifier: what each level may hold (ir/README.md). It runs after every pass, where what it
 * finds is a bug of ours, and over text that was read, whose author's error it is.
 *
 * all levels      operations have operands of fitting types; axes and carried values are used
 *                 within what binds them only
 * graph, tensor   reads have an index a dimension; regions give what their node states, and their
 *                 parameters are used inside only; tensor level has no graph operators
 * loop            statements store what the buffer holds; buffers are parameters or allocated
 *                 around the use; lets are used after they stand; kernels use their own symbols
 *                 only, and legal arithmetic
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ir/machine.h"

typedef struct V {
	Module *m;
	Level level;
	int found;
	Map scope;             /* loop level: axes, buffers, lets, calls that are visible */
	Map syms;              /* loop level: the kernel's symbols */
	bool kernel, in_while, text;
	const Loc *loc;
	const char *where;
} V;

static void __attribute__((format(printf, 2, 3))) bug(V *v, const char *fmt, ...)
{
	static const char *const levels[] = { "graph", "tensor", "loop" };
	char text[300];
	va_list ap;
	if (v->found++ > 8)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	diag_error(v->m->diag, v->text ? X_INVALID : X_BUG, v->loc, "%s%s level%s%s%s: %s%s",
		v->text ? "" : "internal error (", levels[v->level], v->where ? ", " : "",
		v->where ? v->where : "", v->text ? "" : ")", text, v->text ? "" : "; please report this");
}

/* ---- scalar operations --------------------------------------------------------------------- */

/* May the operands have the type? */
static bool applies(const ScalarOp *op, DType d)
{
	switch (op->takes) {
	case 'N': return d != DT_BOOL;
	case 'I': return dt_int(d);
	case 'F': return dt_float(d);
	case 'L': return !dt_float(d);
	case 'X': return d == DT_INDEX;
	case 'i': return d == DT_I32;
	case 'f': return d == DT_F32;
	default: return true;
	}
}

bool scalar_fits(OpCode op, int nin, Node *const *in, DType to, char *why, size_t size)
{
	const ScalarOp *row = &scalar_ops[op];
	const char *name = core_op(op)->name;
	int first = op == O_SELECT;
	if (nin != row->arity) {
		snprintf(why, size, "%s takes %d operands, not %d", name, row->arity, nin);
		return false;
	}
	for (int i = 0; i < nin; i++)
		if (!in[i] || in[i]->type->kind != T_SCALAR || in[i]->type->dtype == DT_STRING ||
				(op != O_SELECT && !dt_number(in[i]->type->dtype))) {
			snprintf(why, size, "operand %d of %s is no number", i + 1, name);
			return false;
		}
	DType d = in[first]->type->dtype;
	if (first && in[0]->type->dtype != DT_BOOL) {
		snprintf(why, size, "the condition is %s, not bool", dtypes[in[0]->type->dtype].text);
		return false;
	}
	for (int i = first + 1; i < nin; i++)
		if (in[i]->type != in[first]->type) {
			snprintf(why, size, "%s of %s and %s", name, dtypes[d].text,
				dtypes[in[i]->type->dtype].text);
			return false;
		}
	if (!applies(row, d)) {
		snprintf(why, size, "%s of %s", name, dtypes[d].text);
		return false;
	}
	if (row->result == 'T' && !dt_number(to)) {
		snprintf(why, size, "no conversion to %s", dtypes[to].text);
		return false;
	}
	if (op == O_BITS && dtypes[to].bits != dtypes[d].bits) {
		snprintf(why, size, "%s and %s differ in width", dtypes[to].text, dtypes[d].text);
		return false;
	}
	DType gives = row->result == 'B' ? DT_BOOL : row->result == 'f' ? DT_F32 : d;
	if (row->result != 'T' && to != gives) {
		snprintf(why, size, "the result of %s of %s is called %s", name, dtypes[d].text,
			dtypes[to].text);
		return false;
	}
	return true;
}

static bool is_index(const Node *e)
{
	return e && e->type->kind == T_SCALAR && e->type->dtype == DT_INDEX;
}

/* What the loop level's code generation may compute with (opt/legalize.c). */
static bool legal(const Machine *mach, const Node *e)
{
	DType d = e->type->dtype;
	if (e->code >= O_NUM || e->code == O_CAST || e->code == O_BITS)
		return dtypes[d].bits >= 8;
	if (machine_half_op(mach, e->code, d))
		return true;
	for (int i = 0; i < e->nin; i++)
		if (dt_small(e->in[i]->type->dtype) || dtypes[e->in[i]->type->dtype].bits < 8)
			return false;
	return !dt_small(d) && dtypes[d].bits >= 8;
}

static void check_element(V *v, const Node *e)
{
	const Node *t = e->in[0];
	TypeKind kind = e->code == O_READ ? T_TENSOR : T_BUFFER;
	int skip = e->code == O_FOLD ? 2 : 1;
	if (!t || !t->type || t->type->kind != kind) {
		bug(v, "%s of no %s", e->op->name, kind == T_TENSOR ? "tensor" : "buffer");
		return;
	}
	int rank = kind == T_TENSOR ? t->type->rank : t->nin;
	if (e->nin - skip + (e->code == O_FOLD) != rank)
		bug(v, "%s with %d indices of %d", e->op->name, e->nin - skip, rank);
	for (int i = skip; i < e->nin; i++)
		if (!is_index(e->in[i]))
			bug(v, "an index is no index");
	if (e->type->dtype != t->type->dtype)
		bug(v, "%s of %s gives %s", e->op->name, dtypes[t->type->dtype].text,
			dtypes[e->type->dtype].text);
}

static void check_loop_scalar(V *v, const Node *e)
{
	switch (e->code) {
	case O_READ: case O_REDUCE: case O_CARRY:
		bug(v, "%s stands at loop level", e->op->name);
		break;
	case O_LOAD: case O_FOLD:
		if (!map_get(&v->scope, e->in[0]))
			bug(v, "buffer %s is used where it is not", e->in[0]->name ? e->in[0]->name : "");
		break;
	case O_AXIS: case O_LET: case O_CALL:
		if (!map_get(&v->scope, e))
			bug(v, "%s is used outside of where it stands", e->op->name);
		break;
	case O_SYM:
		if (v->kernel && !map_get(&v->syms, e))
			bug(v, "symbol %s is no parameter of the kernel", e->name);
		break;
	default: break;
	}
	if (v->kernel && !legal(v->m->machine, e))
		bug(v, "%s of %s is not legal for code generation", e->op->name,
			dtypes[e->code < O_NUM && e->nin ? e->in[e->code == O_SELECT]->type->dtype
				: e->type->dtype].text);
}

static void check_scalar(V *v, const Node *e)
{
	char why[200];
	if (e->type->kind != T_SCALAR) {
		bug(v, "%s stands for a scalar", e->op->name);
		return;
	}
	switch (e->code) {
	case O_NUM: case O_SYM: case O_CARRY: case O_LET: case O_CALL: break;
	case O_AXIS:
		if (e->nin != 1 || !is_index(e->in[0]))
			bug(v, "an axis without an extent");
		break;
	case O_READ: case O_LOAD: case O_FOLD: check_element(v, e); break;
	case O_REDUCE:
		if (e->nin < 2 || e->in[e->nin - 1]->type != e->type)
			bug(v, "a reduction's body has another type");
		for (int i = 0; i + 1 < e->nin; i++)
			if (e->in[i]->code != O_AXIS)
				bug(v, "a reduction over no axis");
		break;
	case O_ITER:
		if (e->nin != 4 || e->in[0]->code != O_AXIS || e->in[1]->code != O_CARRY ||
				e->in[1]->type != e->type || e->in[2]->type != e->type || e->in[3]->type != e->type)
			bug(v, "an iter whose parts do not fit");
		break;
	default:
		if (e->code >= O_NUM)
			bug(v, "%s stands for a scalar", e->op->name);
		else if (!scalar_fits(e->code, e->nin, e->in, e->type->dtype, why, sizeof why))
			bug(v, "%s", why);
	}
	if (v->level == LEVEL_LOOP)
		check_loop_scalar(v, e);
}

/* ---- what binds axes ----------------------------------------------------------------------- */

/*
 * The scalars of an expression; outer: the axes that hold around it. Each loop inside has a bit,
 * and a node the bits of the loops whose axes or carried value it needs: at its loop a bit ends,
 * and none may be left at the root. Beyond 63 loops only what is bound at all is checked.
 */
static void check_expr(V *v, Node *root, Node *const *outer, int nouter)
{
	int n, loops = 0;
	Map bit = { 0 }, need = { 0 }, own = { 0 }, across = { 0 };
	if (!root) {
		bug(v, "an expression is missing");
		return;
	}
	if (root->code == O_NUM)
		return;
	Node **list = topo_scalar(root, &n);
	for (int i = 0; i < n; i++) {
		Node *e = list[i];
		if (e->code == O_FOLD)                 /* names the axis of a loop that has ended */
			map_put(&across, e->in[1], e);
		int nb = e->code == O_REDUCE ? e->nin - 1 : e->code == O_ITER ? 2 : 0;
		if (!nb)
			continue;
		uint64_t b = 1ull << (loops < 63 ? loops : 63);
		loops++;
		map_put(&own, e, (void *)(uintptr_t)b);
		for (int k = 0; k < nb; k++)
			map_put(&bit, e->in[k], (void *)(uintptr_t)((uintptr_t)map_get(&bit, e->in[k]) | b));
	}
	for (int i = 0; i < n; i++) {
		Node *e = list[i];
		uint64_t s = (uintptr_t)map_get(&bit, e);
		if (!map_get(&across, e))
			check_scalar(v, e);
		if ((e->code == O_AXIS || e->code == O_CARRY) && !s && v->level != LEVEL_LOOP) {
			int k = 0;
			while (k < nouter && outer[k] != e)
				k++;
			if (k == nouter)
				bug(v, "%s %lld is not bound", e->op->name, (long long)e->n);
		}
		for (int k = 0; k < e->nin; k++)
			if (e->in[k] && e->in[k]->type->kind == T_SCALAR)
				s |= (uintptr_t)map_get(&need, e->in[k]);
		s &= ~(uint64_t)(uintptr_t)map_get(&own, e);
		map_put(&need, e, (void *)(uintptr_t)s);
	}
	if (loops < 63 && map_get(&need, root))
		bug(v, "an axis is used outside of its loop");
	map_free(&bit);
	map_free(&need);
	map_free(&own);
	map_free(&across);
	free(list);
}

/* ---- tensors ------------------------------------------------------------------------------- */

static void check_type(V *v, const Type *t)
{
	if (!t) {
		bug(v, "a type is missing");
		return;
	}
	for (int i = 0; t->kind == T_TENSOR && i < t->rank; i++) {
		if (!is_index(t->dims[i]))
			bug(v, "a dimension is no index");
		else
			check_expr(v, t->dims[i], NULL, 0);
	}
	for (int i = 0; t->elem && i < t->rank; i++)
		check_type(v, t->elem[i]);
}

static void check_axes(V *v, Node *const *axes, int n)
{
	for (int i = 0; i < n; i++)
		if (!axes[i] || axes[i]->code != O_AXIS)
			bug(v, "an axis is no axis");
		else
			check_expr(v, axes[i]->in[0], NULL, 0);
}

static void check_tensor(V *v, Node *n)
{
	int rank = n->nin - 1;
	if (rank < 0 || n->type->kind != T_TENSOR || n->type->rank != rank) {
		bug(v, "tensor with %d axes has %d dimensions", rank, n->type->rank);
		return;
	}
	check_axes(v, n->in, rank);
	for (int i = 0; i < rank; i++)
		if (n->in[i]->in[0] != n->type->dims[i])
			bug(v, "dimension %d of a tensor is not its axis's extent", i);
	check_expr(v, n->in[rank], n->in, rank);
	if (n->in[rank] && n->in[rank]->type->dtype != n->type->dtype)
		bug(v, "the body of a tensor of %s is %s", dtypes[n->type->dtype].text,
			dtypes[n->in[rank]->type->dtype].text);
}

static void check_scatter(V *v, Node *n)
{
	int rank = n->type->rank, naxes = n->nin - rank - 3;
	if (naxes < 0 || n->in[0]->type->kind != T_TENSOR || n->in[0]->type->dtype != n->type->dtype) {
		bug(v, "scatter whose parts do not fit");
		return;
	}
	check_axes(v, n->in + 1, naxes);
	for (int i = 1 + naxes; i < n->nin; i++)
		check_expr(v, n->in[i], n->in + 1, naxes);
	if (n->in[n->nin - 2]->type->dtype != n->type->dtype ||
			n->in[n->nin - 1]->type->dtype != DT_BOOL)
		bug(v, "scatter of a value or condition of another type");
}

static void check_regions(V *v, Node *n)
{
	for (int r = 0; r < n->nregions; r++)
		for (int i = 0; i < n->regions[r]->nresults; i++)
			if (!n->regions[r]->results[i]) {
				bug(v, "a region of %s gives nothing", n->op->name);
				return;
			}
	if (n->code == O_IF && (n->nregions != 2 || n->type->kind != T_TUPLE ||
			n->regions[0]->nresults != n->type->rank || n->regions[1]->nresults != n->type->rank))
		bug(v, "an if whose branches do not give its results");
	if (n->code == O_LOOP && (n->nregions != 1 || n->type->kind != T_TUPLE || n->nin != n->n + 2 ||
			n->regions[0]->nparams != n->n + 1 || n->regions[0]->nresults != n->type->rank + 1))
		bug(v, "a loop whose body does not fit its results");
}

static void check_const(V *v, const Node *n)
{
	int64_t dims[MAX_RANK], count = 1;
	if (!n->data || n->type->kind != T_TENSOR || !const_dims(n, dims)) {
		bug(v, "a constant without data or size");
		return;
	}
	for (int i = 0; i < n->type->rank; i++)
		if (!mul_ok(count, dims[i], &count))
			count = -1;
	if (count != n->data->count)
		bug(v, "a constant of %lld elements has %lld", (long long)count, (long long)n->data->count);
}

static void check_node(V *v, Node *n)
{
	v->loc = n->loc;
	if (!n->type) {
		bug(v, "%s has no type", n->op->name);
		return;
	}
	if (n->type->kind == T_SCALAR)
		return;                                /* with what uses it */
	switch (n->code) {
	case O_PARAM: check_type(v, n->type); break;
	case O_CONST: check_const(v, n); break;
	case O_TENSOR: check_tensor(v, n); break;
	case O_SCATTER: check_scatter(v, n); break;
	case O_TUPLE:
		if (n->type->kind != T_TUPLE || n->type->rank != n->nin)
			bug(v, "a tuple of %d has %d values", n->type->rank, n->nin);
		break;
	case O_RESULT:
		if (n->nin != 1 || n->in[0]->type->kind != T_TUPLE || n->n < 0 ||
				n->n >= n->in[0]->type->rank || n->in[0]->type->elem[n->n] != n->type)
			bug(v, "result %lld does not fit its tuple", (long long)n->n);
		break;
	case O_SEQ:
		if ((n->type->kind != T_SEQ && n->type->kind != T_OPTIONAL) || n->type->rank != 1)
			bug(v, "a sequence is of another type");
		break;
	case O_IF: case O_LOOP: case O_HOST:
		check_regions(v, n);
		check_type(v, n->type);
		break;
	case O_GRAPH:
		if (v->level != LEVEL_GRAPH)
			bug(v, "operator %s stands at tensor level", n->op->name);
		else if (!n->def)
			bug(v, "operator %s has no definition", n->op->name);
		break;
	case O_BUFFER: bug(v, "a buffer stands at tensor level"); break;
	default: bug(v, "%s stands at tensor level", n->op->name);
	}
}

/* Parameters of regions must not escape: of the nodes outside of a region none may need one. */
static void check_params(V *v, Node **list, int n)
{
	Map inside = { 0 };                            /* parameter -> owner of its region */
	Map escapes = { 0 };                           /* node -> a parameter it needs */
	for (int i = 0; i < n; i++)
		for (int r = 0; r < list[i]->nregions; r++)
			for (int k = 0; k < list[i]->regions[r]->nparams; k++)
				map_put(&inside, list[i]->regions[r]->params[k], list[i]);
	if (!inside.n)
		return;
	for (int i = 0; i < n; i++) {
		Node *e = list[i], *p = map_get(&inside, e) ? e : NULL;
		/* one witness is enough; the innermost owner ends it */
		for (int k = 0; k < e->nin && !p; k++)
			p = e->in[k] ? map_get(&escapes, e->in[k]) : NULL;
		if (p)
			map_put(&escapes, e, p);
	}
	Region *main = v->m->main;
	for (int i = 0; i < main->nresults; i++) {
		Node *p = main->results[i] ? map_get(&escapes, main->results[i]) : NULL;
		if (p)
			bug(v, "parameter %s of a region is used outside of it", p->name ? p->name : "");
	}
	map_free(&inside);
	map_free(&escapes);
}

static void verify_tensors(V *v)
{
	Region *r = v->m->main;
	int n;
	for (int i = 0; i < r->nresults; i++)
		if (!r->results[i]) {
			bug(v, "output %d is missing", i);
			return;
		}
	Node **list = topo(r->results, r->nresults, false, &n);
	for (int i = 0; i < n && v->found < 8; i++)
		check_node(v, list[i]);
	check_params(v, list, n);
	free(list);
	v->loc = NULL;
	for (int i = 0; i < r->nparams; i++)
		check_type(v, r->params[i]->type);
	for (int i = 0; i < v->m->requires.n; i++) {
		const Require *q = v->m->requires.at[i];
		v->loc = q->loc;
		if (q->cond->type->dtype != DT_BOOL)
			bug(v, "a requirement is no condition");
		check_expr(v, q->cond, NULL, 0);
	}
}

/* ---- loop level ---------------------------------------------------------------------------- */

static void check_statements(V *v, const Region *r);

static void show(V *v, Vec *shown, Node *n)
{
	if (map_get(&v->scope, n))
		return;
	map_put(&v->scope, n, n);
	vec_push(v->m, shown, n);
}

static void check_store(V *v, Node *n)
{
	Node *b = n->in[0];
	if (n->nin < 2 || b->type->kind != T_BUFFER || n->nin - 2 != b->nin) {
		bug(v, "a store with %d indices of %d", n->nin - 2, b->nin);
		return;
	}
	if (!map_get(&v->scope, b))
		bug(v, "buffer %s is stored to where it is not", b->name ? b->name : "");
	for (int i = 1; i < n->nin; i++)
		check_expr(v, n->in[i], NULL, 0);
	for (int i = 1; i + 1 < n->nin; i++)
		if (!is_index(n->in[i]))
			bug(v, "a store at no index");
	if (n->in[n->nin - 1]->type->dtype != b->type->dtype)
		bug(v, "a %s is stored into %s", dtypes[n->in[n->nin - 1]->type->dtype].text,
			dtypes[b->type->dtype].text);
}

static void check_prefetch(V *v, Node *n)
{
	if (n->nin != 2 || n->in[0]->type->kind != T_BUFFER || !is_index(n->in[1])) {
		bug(v, "a prefetch of no element");
		return;
	}
	if (!map_get(&v->scope, n->in[0]))
		bug(v, "a buffer is prefetched where it is not");
	check_expr(v, n->in[1], NULL, 0);
}

static bool check_place(V *v, const Node *n, int k)
{
	Spot p = l_spot(n, k);
	if (!p.buffer || !map_get(&v->scope, p.buffer)) {
		bug(v, "%s at no place", n->op->name);
		return false;
	}
	for (int i = 0; i < p.buffer->nin; i++) {
		check_expr(v, p.idx[i], NULL, 0);
		if (!is_index(p.idx[i]))
			bug(v, "%s at no index", n->op->name);
	}
	return true;
}

static bool is_barrier(const Node *b)
{
	return b->type->space == SP_SHARED && b->type->dtype == DT_U64;
}

static void check_box(V *v, Node *n)
{
	if (!check_place(v, n, 2))
		return;
	if (l_spot(n, 0).buffer->type->space != SP_SHARED || l_spot(n, 1).buffer->type->space != SP_MAP
			|| !is_barrier(l_spot(n, 2).buffer))
		bug(v, "a box is moved between wrong memories");
}

static void check_sync(V *v, Node *n)
{
	const SyncRow *row = sync_find(n->name);
	Node *const *x;
	int nx = l_numbers(n, &x);
	if (!row || nx != row->nargs || !l_spot(n, 0).buffer != !row->nplaces) {
		bug(v, "%s is no sync", n->name);
		return;
	}
	bool regs = row->nplaces && l_spot(n, 0).buffer->type->space == SP_REG;
	if (row->nplaces && check_place(v, n, 0) && !regs && !is_barrier(l_spot(n, 0).buffer))
		bug(v, "%s at no barrier", n->name);
	for (int i = 0; i < nx; i++)
		check_expr(v, x[i], NULL, 0);
}

static bool is_tile(const Node *b)
{
	return b->type->space == SP_TILE && b->nin >= 2;
}

static void check_tile_move(V *v, Node *n)
{
	Node *to = l_spot(n, 0).buffer, *from = l_spot(n, 1).buffer;
	check_expr(v, l_move_stride(n), NULL, 0);
	if (is_tile(to) == is_tile(from) || !is_index(l_move_stride(n))
			|| dtypes[to->type->dtype].bits != 32 || dtypes[from->type->dtype].bits != 32)
		bug(v, "a tile is moved between wrong memories");
}

static void check_move(V *v, Node *n)
{
	if (!check_place(v, n, 0) || !check_place(v, n, 1))
		return;
	if (l_move_stride(n)) {
		check_tile_move(v, n);
		return;
	}
	if (n->name == intern(v->m, move_kinds[MOVE_BOX])) {
		check_box(v, n);
		return;
	}
	Node *to = l_spot(n, 0).buffer, *from = l_spot(n, 1).buffer, *cond = l_move_cond(n);
	Space a = to->type->space, b = from->type->space;
	bool async = n->name == intern(v->m, move_kinds[MOVE_ASYNC]);
	bool words = n->name == intern(v->m, move_kinds[MOVE_WORDS]);
	if (async ? a != SP_SHARED || b != SP_GLOBAL || (n->n != 4 && n->n != 8 && n->n != 16)
			: (a == SP_REG) == (b == SP_REG) || n->n < 4 || n->n > 16 || (n->n & (n->n - 1)))
		bug(v, "a move of %lld bytes between wrong memories", (long long)n->n);
	if (!async && (a == SP_REG ? to : from)->type->dtype != DT_U32)
		bug(v, "words are moved in registers of another type");
	if (!async && !words && (a != SP_REG || b != SP_SHARED || n->n != 16))
		bug(v, "matrices are moved between wrong memories");
	if (!cond)
		return;
	check_expr(v, cond, NULL, 0);
	if (cond->type->dtype != DT_BOOL || (!async && a != SP_REG))
		bug(v, "a move under a wrong condition");
}

/* Rows (up 1) or words of a row (up 0) of the tile at place k. */
static Node *tile_side(Node *n, int k, int up)
{
	const Node *b = l_spot(n, k).buffer;
	return b && is_tile(b) ? b->in[b->nin - 1 - up] : NULL;
}

/* On a CPU: whole tiles, C m x n, A m x k, B k x n words. */
static void check_tile_mma(V *v, Node *n)
{
	if (!tile_side(n, 0, 0) || tile_side(n, 0, 1) != tile_side(n, 1, 1)
			|| tile_side(n, 0, 0) != tile_side(n, 2, 0) || tile_side(n, 1, 0) != tile_side(n, 2, 1))
		bug(v, "%s of tiles that do not fit", n->name);
}

/* May operand i of the instruction lie there? A group's first factor has a choice, if it is no
 * byte's. */
static bool mma_place(const Mma *x, bool group, int i, Space space)
{
	if (x->kind == M_CPU)
		return space == SP_TILE;
	if (group && i)
		return space == SP_SHARED || (space == SP_REG && i == 1 && dtypes[x->type].bits == 16);
	return space == SP_REG;
}

static void check_mma(V *v, Node *n)
{
	const Mma *x = mma_find(n->name);
	if (!x)
		bug(v, "%s is no matrix instruction", n->name);
	Node *const *by;
	bool group = l_numbers(n, &by) > 0;
	if (x && group != !x->a)
		bug(v, "%s with wrong numbers", n->name);
	for (int i = 0; i < 3; i++)
		if (check_place(v, n, i) && x && (!mma_place(x, group, i, l_spot(n, i).buffer->type->space)
				|| l_spot(n, i).buffer->type->dtype != (i ? DT_U32 : x->acc)))
			bug(v, "%s of a wrong buffer", n->name);
	if (x && x->kind == M_CPU)
		check_tile_mma(v, n);
}

static void check_buffer(V *v, const Node *b)
{
	if (b->code != O_BUFFER || b->type->kind != T_BUFFER) {
		bug(v, "no buffer where one is allocated");
		return;
	}
	if (dtypes[b->type->dtype].bits < 8)
		bug(v, "a buffer of %s", dtypes[b->type->dtype].text);
	for (int i = 0; i < b->nin; i++) {
		int64_t x;
		bool fixed = b->type->space == SP_REG || b->type->space == SP_SHARED ||
			b->type->space == SP_TILE;
		if (fixed && (!is_int(b->in[i], &x) || x < 0))
			bug(v, "an extent of %s is no constant", b->name ? b->name : "a tile");
	}
}

static void check_for(V *v, Node *n, Vec *shown)
{
	Node *a = n->nin == 1 ? n->in[0] : NULL;
	const Machine *machine = v->m->machine;
	bool gpu = machine && machine_gpu(machine);
	int64_t x;
	if (!a || a->code != O_AXIS || n->nregions != 1) {
		bug(v, "a for without axis or body");
		return;
	}
	check_expr(v, a->in[0], NULL, 0);
	if ((n->n == F_UNROLL || n->n == F_VECTOR || n->n == F_BLOCK) && !is_int(a->in[0], &x))
		bug(v, "the extent of a %s loop is no constant", for_names[n->n]);
	if (map_get(&v->scope, a))
		bug(v, "an axis is bound twice");
	if (v->kernel && machine && (gpu ? n->n == F_PARALLEL : n->n >= F_GRID_X))
		bug(v, "a %s loop in a kernel for %s", for_names[n->n], machine->name);
	int before = shown->n;
	show(v, shown, a);
	check_statements(v, n->regions[0]);
	if (shown->n > before) {
		map_put(&v->scope, a, NULL);
		shown->n = before;
	}
}

static void check_statement(V *v, Node *n, Vec *shown)
{
	bool in_while = v->in_while;
	if (n->loc)
		v->loc = n->loc;
	switch (n->code) {
	case O_FOR: check_for(v, n, shown); break;
	case O_STORE: check_store(v, n); break;
	case O_LET:
		check_expr(v, n->in[0], NULL, 0);
		show(v, shown, n);
		break;
	case O_WHEN:
		check_expr(v, n->in[0], NULL, 0);
		if (n->in[0]->type->dtype != DT_BOOL)
			bug(v, "a when without a condition");
		for (int i = 0; i < n->nregions; i++)
			check_statements(v, n->regions[i]);
		break;
	case O_WHILE:
		if (v->kernel)
			bug(v, "a while in a kernel");
		v->in_while = true;
		check_statements(v, n->regions[0]);
		v->in_while = in_while;
		break;
	case O_BREAK:
		if (!v->in_while)
			bug(v, "a break outside of a while");
		check_expr(v, n->in[0], NULL, 0);
		break;
	case O_ALLOC:
		check_buffer(v, n->in[0]);
		show(v, shown, n->in[0]);
		break;
	case O_BARRIER: case O_COMMIT: case O_WAIT: break;
	case O_MOVE: check_move(v, n); break;
	case O_MMA: check_mma(v, n); break;
	case O_SYNCH: check_sync(v, n); break;
	case O_PREFETCH: check_prefetch(v, n); break;
	case O_CALL:
		if (v->kernel)
			bug(v, "a call in a kernel");
		for (int i = 0; i < n->nin; i++) {
			if (n->in[i]->type->kind == T_SCALAR)
				check_expr(v, n->in[i], NULL, 0);
			else if (!map_get(&v->scope, n->in[i]))
				bug(v, "a buffer is passed where it is not");
		}
		show(v, shown, n);
		break;
	default: bug(v, "%s stands for a statement", n->op->name);
	}
}

static void check_statements(V *v, const Region *r)
{
	Vec shown = { 0 };
	for (int i = 0; i < r->nresults && v->found < 8; i++)
		check_statement(v, r->results[i], &shown);
	for (int i = 0; i < shown.n; i++)
		map_put(&v->scope, shown.at[i], NULL);
}

static void check_kernel(V *v, Kernel *k)
{
	v->kernel = true;
	v->where = k->name;
	v->loc = k->loc;
	for (int i = 0; i < k->nbufs; i++) {
		check_buffer(v, k->bufs[i]);
		if (k->bufs[i]->type->space != SP_GLOBAL || k->bufs[i]->nin != 1)
			bug(v, "parameter %d is no global buffer of one extent", i);
		map_put(&v->scope, k->bufs[i], k->bufs[i]);
	}
	for (int i = 0; i < k->nmaps; i++) {
		const TensorMap *t = &k->maps[i];
		if (t->view->type->space != SP_MAP || t->buf >= k->nbufs
				|| t->view->nin != t->rank + (t->gathers ? t->rank - 2 : 0))
			bug(v, "map %d is no view of a buffer", i);
		map_put(&v->scope, t->view, t->view);
	}
	for (int i = 0; i < k->nsyms; i++)
		map_put(&v->syms, k->syms[i], k->syms[i]);
	if (v->m->machine && v->m->machine->smem_block && k->shared > v->m->machine->smem_block)
		bug(v, "a block has %lld bytes of shared memory, %s has %lld", (long long)k->shared,
			v->m->machine->name, (long long)v->m->machine->smem_block);
	check_statements(v, k->body);
	map_free(&v->scope);
	map_free(&v->syms);
	v->kernel = false;
}

static void verify_loops(V *v)
{
	for (int i = 0; i < v->m->kernels.n && v->found < 8; i++)
		check_kernel(v, v->m->kernels.at[i]);
	v->where = "the plan";
	v->loc = NULL;
	if (v->m->plan)
		check_statements(v, v->m->plan);
	map_free(&v->scope);
}

static bool verify(V *v)
{
	if (v->level == LEVEL_LOOP)
		verify_loops(v);
	else
		verify_tensors(v);
	return v->found == 0;
}

bool module_verify(Module *m, Level level)
{
	V v = { .m = m, .level = level };
	return verify(&v);
}

bool module_verify_text(Module *m, Level level)
{
	V v = { .m = m, .level = level, .text = true };
	return verify(&v);
}
