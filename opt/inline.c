/*
 * inline: producers are written into the bodies of their consumers where that is no more work than
 * a trip through memory. Needs the tensor level; leaves fewer tensors, each of which is computed
 * into memory (or a kernel's own storage) once.
 *
 * Producers are decided first, so that chains collapse and costs add up along them. For each read
 * of a producer we ask how often an element is evaluated: once (the indices are distinct axes of
 * the consumer, all of them), or repeatedly (an axis of the consumer does not appear, or indices
 * overlap as in a window). Reductions are inlined only where read once and unguarded, which makes
 * the consumer their epilogue. Arithmetic read repeatedly stays out of loops; pure movement goes in
 * as long as the addresses stay affine.
 */
#include <stdlib.h>
#include "few.h"

/* COST_ENOUGH: so much for an element that a trip through memory is nothing beside it; longer chains
 * are cut, else compiling them takes time in the square of their length. */
enum { COST_CHEAP = 2, COST_SHARED = 10, COST_ENOUGH = 300, COST_APPENDED = 40, MAX_BODY = 600 };
/* Operations to spell out a weight; rows that share those, few; steps from constants. */
enum { COST_SPELLED = 10, FEW_ROWS = 64, MAX_STEPS = 8 };

typedef struct Use {
	Node *read, *user;
	bool once;             /* every element of the producer is read once */
	bool whole;            /* the same, with axes of the user joined or split */
	bool guarded;          /* evaluated under a condition */
	bool reduced;          /* inside a reduction of the user */
	struct Use *next;
} Use;

typedef struct Info { Use *uses; int nuses; bool kept, inlined, has_loop; const Loc *loc; } Info;

typedef struct Inliner { Module *m; Map info, home; } Inliner;

/* ---- costs ----------------------------------------------------------------------------------- */

static double
op_cost(const Node *n)
{
	switch (n->code) {
	case O_NUM: case O_AXIS: case O_SYM: case O_CARRY:
		return 0;
	case O_READ: return 0.5;
	case O_DIV: case O_SQRT: case O_REM: return dt_float(n->type->dtype) ? 4 : 6;
	case O_FLOORDIV: case O_MOD: return n->in[1]->code == O_NUM ? 2 : 6;
	case O_SELECT: case O_CAST: return 0.5;
	case O_TF32: return 3;
	default:
		if (n->code >= O_EXP && n->code < O_NUM)     /* those with expansions */
			return 12;
		return n->type->dtype == DT_INDEX ? 0.25 : 1;
	}
}

double
body_cost(Node *body, bool *has_loop)
{
	Node **list;
	double c = 0;
	int i, n;

	*has_loop = false;
	list = topo_scalar(body, &n);
	for (i = 0; i < n; i++) {
		c += op_cost(list[i]);
		*has_loop |= list[i]->code == O_REDUCE || list[i]->code == O_ITER;
	}
	free(list);
	return c;
}

/* Only reads, selects and index arithmetic? */
static bool
is_movement(Node *body)
{
	Node **list;
	int i, n;
	bool ok = true;

	list = topo_scalar(body, &n);
	for (i = 0; i < n && ok; i++)
		ok = list[i]->code == O_READ || list[i]->code == O_NUM || list[i]->code == O_SELECT
			|| list[i]->code == O_SYM || list[i]->code == O_AXIS || list[i]->type->dtype == DT_INDEX
			|| list[i]->type->dtype == DT_BOOL;
	free(list);
	return ok;
}

/* ---- how reads read -------------------------------------------------------------------------- */

/* Scope of a node of the user's body: its tensor axes and the axes of enclosing reductions. */
typedef struct Scope { Map red; Map guard; Map under; } Scope;

static bool
axis_in(Node *const *axes, int n, const Node *a)
{
	int i;

	for (i = 0; i < n; i++)
		if (axes[i] == a)
			return true;
	return false;
}

/* Are the indices distinct scope axes (plus constants), covering every scope axis that has
 * extent? */
static bool
reads_once(Node *read, Node *const *scope, int nscope)
{
	Node *used[MAX_RANK * 2], *e, *c, *dim;
	int nused = 0, i, k;

	for (i = 1; i < read->nin; i++) {
		e = read->in[i];
		dim = dim_of(read->in[0], i - 1);
		if (is_intv(dim, 1))
			continue;
		for (k = 0; k < nscope; k++)
			if (e == scope[k])
				break;
		if (k == nscope) {   /* an offset or a reversal is fine, if only one axis moves */
			if (e->code != O_ADD && e->code != O_SUB)
				return false;
			for (k = 0, c = NULL; k < nscope; k++)
				if (contains(e, scope[k])) {
					if (c)
						return false;
					c = scope[k];
				}
			if (!c)
				return false;
			if (axis_in(used, nused, c))
				return false;
			used[nused++] = c;
			continue;
		}
		if (axis_in(used, nused, e))
			return false;
		used[nused++] = e;
	}
	for (k = 0; k < nscope; k++)
		if (!is_intv(scope[k]->in[0], 1) && !axis_in(used, nused, scope[k]))
			return false;
	return true;
}

/* Quotients and remainders by constants alone. */
static bool
plain_digits(Node *e)
{
	Node **list;
	int i, n;
	bool ok = true;

	list = topo_scalar(e, &n);
	for (i = 0; i < n && ok; i++)
		ok = (list[i]->code != O_FLOORDIV && list[i]->code != O_MOD) || list[i]->in[1]->code == O_NUM;
	free(list);
	return ok;
}

/* Do the scope's axes, as the digits of a number, walk the tensor in the order of its elements? */
static bool
reads_in_order(Module *m, Node *read, Node *const *scope, int nscope)
{
	Node *at = x_idx(m, 0), *flat = at;
	int i;

	for (i = 1; i < read->nin; i++) {
		if (read->in[i]->type->dtype != DT_INDEX || !plain_digits(read->in[i]))
			return false;
		at = x_add(m, x_mul(m, at, dim_of(read->in[0], i - 1)), read->in[i]);
	}
	for (i = 0; i < nscope; i++)
		flat = x_add(m, x_mul(m, flat, scope[i]->in[0]), scope[i]);
	return at == flat;
}

static void
mark(Map *map, Node *root, Node *value)
{
	Node **list;
	int i, n;

	list = topo_scalar(root, &n);
	for (i = 0; i < n; i++)
		if (!map_get(map, list[i]))
			map_put(map, list[i], value);
	free(list);
}

static Info *
info_of(Inliner *f, Node *t)
{
	Info *x = map_get(&f->info, t);

	if (!x) {
		x = NEW(f->m, Info);
		map_put(&f->info, t, x);
	}
	return x;
}

/* Records every read in a tensor's scalar expressions. */
static void
collect(Inliner *f, Node *user, Node *body, Node *const *axes, int naxes, bool affine)
{
	Node **list, *scope[MAX_RANK * 4];
	Map guarded = {0};
	Use *u;
	int i, k, j, n, ns;
	Info *x;

	list = topo_scalar(body, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_SELECT) {
			mark(&guarded, list[i]->in[1], list[i]);
			mark(&guarded, list[i]->in[2], list[i]);
		} else if (list[i]->code == O_ITER)
			mark(&guarded, list[i]->in[3], list[i]);
	for (i = 0; i < n; i++) {
		if (list[i]->code != O_READ)
			continue;
		for (ns = 0; ns < naxes; ns++)
			scope[ns] = axes[ns];
		u = NEW(f->m, Use);
		for (k = i + 1; k < n; k++)          /* reductions that enclose it come later */
			if ((list[k]->code == O_REDUCE || list[k]->code == O_ITER)
			 && contains(list[k], list[i])) {
				u->reduced = true;
				for (j = 0; list[k]->code == O_REDUCE && j + 1 < list[k]->nin
				 && ns < MAX_RANK * 4; j++)
					scope[ns++] = list[k]->in[j];
			}
		u->read = list[i];
		u->user = user;
		u->once = affine && reads_once(list[i], scope, ns);
		u->whole = u->once || (affine && reads_in_order(f->m, list[i], scope, ns));
		u->guarded = map_get(&guarded, list[i]) != NULL;
		x = info_of(f, list[i]->in[0]);
		u->next = x->uses;
		x->uses = u;
		x->nuses++;
	}
	free(list);
	map_free(&guarded);
}

static void
collect_user(Inliner *f, Node *n)
{
	int i, na;

	if (n->code == O_TENSOR)
		collect(f, n, n->in[n->nin - 1], n->in, n->nin - 1, true);
	else if (n->code == O_SCATTER) {
		na = n->nin - rank_of(n) - 3;
		info_of(f, n->in[0])->kept = true;
		for (i = 1 + na; i < n->nin; i++)
			collect(f, n, n->in[i], n->in + 1, na, i == n->nin - 2);
	} else if (n->type->kind != T_SCALAR) {
		for (i = 0; i < n->nin; i++)
			if (n->in[i] && n->in[i]->type->kind == T_TENSOR)
				info_of(f, n->in[i])->kept = true;
	}
}

/* What sizes read is read by the host: it must be in memory. */
static void
keep_sizes(Inliner *f, Node *e)
{
	Node **list;
	int i, n;

	list = topo_scalar(e, &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_READ)
			info_of(f, list[i]->in[0])->kept = true;
	free(list);
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* Is it the same for all elements, as sizes are? */
static bool
is_uniform(Node *e)
{
	Node **list;
	int i, n;
	bool yes = true;

	list = topo_scalar(e, &n);
	for (i = 0; i < n && yes; i++)
		yes = list[i]->code != O_READ && list[i]->code != O_AXIS && list[i]->code != O_CARRY;
	free(list);
	return yes;
}

/* Does the producer's body, read as this use does, keep affine addresses? A GPU takes a guard
 * along. */
static bool
stays_affine(Module *m, Node *p, Use *u)
{
	Map map = {0};
	Node **list, *e;
	int i, n;
	bool ok = true;

	for (i = 0; i + 1 < p->nin; i++)
		map_put(&map, p->in[i], u->read->in[i + 1]);
	e = subst(m, p->in[p->nin - 1], &map, false);
	map_free(&map);
	list = topo_scalar(e, &n);
	for (i = 0; i < n && ok; i++)
		ok = ((list[i]->code != O_FLOORDIV && list[i]->code != O_MOD) || is_uniform(list[i]))
			&& (list[i]->code != O_SELECT
				|| (list[i] == e && e->in[2]->code == O_NUM && machine_gpu(m->machine)));
	free(list);
	return ok;
}

/* Is p a padding that the user reads in windows? */
static bool
pads_windows(Module *m, Node *p, const Use *u)
{
	return u->reduced && !u->once && is_padding(m, p, NULL);
}

/*
 * Does a CPU's loop over windows want its padding in memory? Then it needs no guard, and the
 * padding costs nothing where the kernel that computes what is padded writes it around its result
 * (layout.c). Kernels of a GPU guard their reads.
 */
static bool
wants_padding(Module *m, Node *p, const Use *u)
{
	return !machine_gpu(m->machine) && pads_windows(m, p, u);
}

/* Does the user make words of p's bytes? They are free where p lies in memory. */
static bool
wants_bytes(Module *m, const Use *u)
{
	Node *fill;
	int dim;

	return words_of(m, u->user, &dim, &fill) != NULL;
}

/* Are they words that a sum reads? Where bytes lie side by side they are a view, which costs nothing. */
static bool
reads_words(Module *m, const Node *p, const Use *u)
{
	Node *fill;
	int dim;

	return u->reduced && words_of(m, p, &dim, &fill) != NULL;
}

/* Is the read that of such a padding? Nothing more is written into it: it stays free, or can be
 * free. */
static bool
fills_padding(Inliner *f, const Use *u)
{
	Use *v;

	if (u->user->code != O_TENSOR || !u->guarded)
		return false;
	for (v = info_of(f, u->user)->uses; v; v = v->next)
		if (pads_windows(f->m, u->user, v)
		 || (is_padding(f->m, u->user, NULL) && wants_bytes(f->m, v)))
			return true;
	return false;
}

/* Is the read an operand of a sum of products with reuse? Those want plain addresses. */
static bool
feeds_product(Module *m, Use *u)
{
	return u->user->code != O_TENSOR || holds_product(m->machine, u->user, u->read);
}

/* Does it read anything at a place made of several axes? No layout of that puts it in order. */
static bool
flattens(Node *body)
{
	Node **list;
	int i, k, j, n, axes;
	bool yes = false;

	list = topo_scalar(body, &n);
	for (i = 0; i < n && !yes; i++)
		for (k = 1; list[i]->code == O_READ && k < list[i]->nin && !yes; k++) {
			for (j = 0, axes = 0; j < n; j++)
				axes += list[j]->code == O_AXIS && contains(list[i]->in[k], list[j]);
			yes = axes > 1;
		}
	free(list);
	return yes;
}

/* Arithmetic on constants alone, of no more elements than those, or their elements in another
 * order: folding computes it once and for all. */
static bool
is_folded(const Node *p)
{
	Node **list;
	int64_t dims[MAX_RANK], size = 1, in = 0;
	int i, n;
	bool ok = const_dims(p, dims) && (!is_movement(p->in[p->nin - 1]) || flattens(p->in[p->nin - 1]));

	for (i = 0; i < rank_of(p) && ok; i++)
		size = sat_mul(size, dims[i]);
	list = topo_scalar(p->in[p->nin - 1], &n);
	for (i = 0; i < n && ok; i++)
		if (list[i]->code == O_SYM)
			ok = false;
		else if (list[i]->code == O_READ && (ok = list[i]->in[0]->code == O_CONST))
			in = sat_add(in, list[i]->in[0]->data->count);
	free(list);
	return ok && size <= in;
}

/* Bytes of the constants that the tensor is made of; 0: it is made of something else. */
static double
bytes_behind(const Node *p)
{
	Node **list, *t;
	int64_t dims[MAX_RANK];
	double sum = 0, size;
	int i, k, n;
	bool ok = true;

	list = topo_scalar(p->in[p->nin - 1], &n);
	for (i = 0; i < n && ok; i++) {
		if (list[i]->code != O_READ)
			continue;
		t = list[i]->in[0];
		ok = from_constants(t, MAX_STEPS) && const_dims(t, dims);
		size = ok ? dtypes[dtype_of(t)].bits / 8.0 : 0;
		for (k = 0; ok && k < rank_of(t); k++)
			size *= (double)dims[k];
		sum += size;
	}
	free(list);
	return ok ? sum : 0;
}

/* How many elements of the user an element that it reads here goes into, likely. */
static double
reuse(Module *m, const Use *u)
{
	double n = 1;
	int i;

	for (i = 0; i + 1 < u->user->nin; i++)
		if (!contains(u->read, u->user->in[i]))
			n *= (double)likely_extent(m, u->user->in[i]->in[0]);
	return n;
}

/* Does a GPU meet p with a known few rows? Then its kernel takes weights as they are stored (few.c). */
static bool
meets_few(const Use *u)
{
	int64_t n = 1;
	int i;

	for (i = 0; i + 1 < u->user->nin; i++)
		if (!contains(u->read, u->user->in[i]))
			n = sat_mul(n, const_or(u->user->in[i]->in[0], INT64_MAX));
	return n <= MAX_FEW;
}

/*
 * Is p much larger than the constants that it is made of, and a factor of the user's sum of
 * products? Such weights are spelled out in registers, once a tile of rows: they come from memory
 * at their small size.
 */
static bool
is_spelled_out(Inliner *f, const Node *p, const Use *u, double cost)
{
	double size, behind = bytes_behind(p);
	int64_t dims[MAX_RANK];
	int i;

	if (u->user->code != O_TENSOR || !u->reduced || u->guarded || !behind || cost > COST_SPELLED
	 || !feeds_product(f->m, (Use *)u) || !const_dims(p, dims))
		return false;
	if (machine_gpu(f->m->machine) && !meets_few(u))
		return false;
	size = dtypes[dtype_of(p)].bits / 8.0;
	for (i = 0; i < rank_of(p); i++)
		size *= (double)dims[i];
	return size >= 5 * behind || (size >= 3 * behind && reuse(f->m, u) <= FEW_ROWS);
}

/* Is p read once, by a tensor of constants as it is one itself? What that becomes decides. */
static bool
only_of_constants(const Info *x, const Node *p)
{
	return x->nuses == 1 && x->uses->once && x->uses->user->code == O_TENSOR && p->in[p->nin - 1]->size < MAX_BODY
		&& from_constants((Node *)p, MAX_STEPS) && from_constants(x->uses->user, MAX_STEPS);
}

/* Does a copy on a GPU take the element in at some of its places (what is appended to a cache)? The copy
 * waits for memory, and so little is computed beside it. */
static bool
is_appended(Inliner *f, const Use *u, double cost)
{
	return machine_gpu(f->m->machine) && u->guarded && !u->reduced && cost <= COST_APPENDED
		&& u->user->code == O_TENSOR && is_movement(u->user->in[u->user->nin - 1]);
}

static bool
decide(Inliner *f, Node *old, Node *p)
{
	Info *x = info_of(f, old);
	Node *body = p->in[p->nin - 1];
	bool loop, move, once = true, whole = true;
	double cost;
	Use *u;

	if (x->kept || !x->uses || p->code != O_TENSOR)
		return false;
	cost = body_cost(body, &loop);
	for (u = x->uses; u && !loop && is_spelled_out(f, p, u, cost); u = u->next)
		;
	if (!u || (!loop && only_of_constants(x, p)))
		return true;
	if (f->m->execute && is_folded(p))
		return false;
	for (u = x->uses; u; u = u->next) {
		once &= u->once && map_get(&f->home, u->user) == map_get(&f->home, old);
		whole &= u->whole && map_get(&f->home, u->user) == map_get(&f->home, old);
	}
	for (u = x->uses; u; u = u->next)
		if (fills_padding(f, u) || wants_padding(f->m, p, u) || wants_bytes(f->m, u)
		 || reads_words(f->m, p, u))
			return false;
	if (body->size > MAX_BODY && x->nuses > 1)
		return false;
	if (loop) {   /* one loop an epilogue: two products would share no schedule */
		if (x->nuses != 1 || !once || x->uses->guarded || x->uses->reduced
		 || x->uses->user->code != O_TENSOR || info_of(f, x->uses->user)->has_loop)
			return false;
		body_cost(x->uses->user->in[x->uses->user->nin - 1], &loop);
		if (loop)
			return false;
		info_of(f, x->uses->user)->has_loop = true;
		return true;
	}
	if (cost > COST_ENOUGH)
		return false;
	move = is_movement(body);
	if (once || (whole && !move))
		return x->nuses == 1 || cost * (x->nuses - 1) <= COST_SHARED || (move && body->size < 24);
	for (u = x->uses; u; u = u->next) {
		if (u->once)
			continue;
		if (u->reduced && !(move && (!feeds_product(f->m, u) || stays_affine(f->m, p, u))))
			return false;
		if (!move && cost > COST_CHEAP && !is_appended(f, u, cost))
			return false;
		if (move && body->size > 64 && !pads_windows(f->m, p, u))
			return false;
	}
	return true;
}

/* Where the producers written into n came from. */
static const Loc *
inlined_locs(Inliner *f, Node *n)
{
	const Loc *loc = NULL;
	Node **list;
	Info *x;
	int i, count;

	list = topo_scalar(n->in[n->nin - 1], &count);
	for (i = 0; i < count; i++)
		if (list[i]->code == O_READ && (x = map_get(&f->info, list[i]->in[0])) && x->inlined)
			loc = loc_union(f->m, loc, x->loc);
	free(list);
	return loc;
}

static Node *
inline_node(Module *m, Node *n, Node **in, Map *done, void *ctx)
{
	Inliner *f = ctx;
	Node *p, *r;
	Map map = {0};
	Info *x;
	int i;

	(void)done;
	if (n->code == O_READ && (x = map_get(&f->info, n->in[0])) && x->inlined) {
		p = in[0];
		for (i = 0; i + 1 < p->nin; i++)
			map_put(&map, p->in[i], in[i + 1]);
		r = subst(m, p->in[p->nin - 1], &map, true);
		map_free(&map);
		return r;
	}
	if (n->code == O_TENSOR) {
		r = t_tensor(m, n->nin - 1, in, in[n->nin - 1]);
		if (r->code == O_TENSOR) {
			r->loc = loc_union(m, inlined_locs(f, n), n->loc);
			info_of(f, n)->loc = r->loc;
			info_of(f, n)->inlined = decide(f, n, r);
		}
		return r;
	}
	return NULL;
}

static void
inline_once(Module *m)
{
	Inliner f = {.m = m};
	Node **list;
	int i, k, n;

	list = topo(m->main->results, m->main->nresults, false, &n);
	for (i = 0; i < n; i++) {
		collect_user(&f, list[i]);
		if (list[i]->code == O_AXIS)
			keep_sizes(&f, list[i]->in[0]);
		else if (list[i]->code == O_SYM && list[i]->def)
			keep_sizes(&f, list[i]->def);
		for (k = 0; k < list[i]->nregions; k++)
			for (int j = 0; j < list[i]->regions[k]->nresults; j++)
				if (list[i]->regions[k]->results[j]
				 && list[i]->regions[k]->results[j]->type->kind == T_TENSOR)
					info_of(&f, list[i]->regions[k]->results[j])->kept = true;
	}
	free(list);
	for (i = 0; i < m->main->nresults; i++)
		info_of(&f, m->main->results[i])->kept = true;
	for (i = 0; i < m->requires.n; i++)
		keep_sizes(&f, ((Require *)m->requires.at[i])->cond);
	home_regions(m, &f.home);
	rewrite_module(m, false, inline_node, &f);
	map_free(&f.info);
	map_free(&f.home);
}

/* Twice: what a chain reads at both ends (x * sigmoid(x)) has one reader once the chain is one. */
bool
pass_inline(Module *m)
{
	inline_once(m);
	inline_once(m);
	return true;
}
