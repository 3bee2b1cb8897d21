/* Traversal and rewriting; nothing here recurses, since models nest deeply. */
#include <stdlib.h>
#include <string.h>
#include "ir.h"

static void *
xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		abort();
	return p;
}

/* ---- maps by node --------------------------------------------------------------------------- */

static uint32_t
map_slot(const Map *m, const Node *k)
{
	uint32_t j = k->id * 2654435761u & (m->cap - 1);

	while (m->key[j] && m->key[j] != k)
		j = (j + 1) & (m->cap - 1);
	return j;
}

void *
map_get(const Map *m, const Node *k)
{
	uint32_t j;

	if (!m->cap)
		return NULL;
	j = map_slot(m, k);
	return m->key[j] ? m->val[j] : NULL;
}

void
map_put(Map *m, const Node *k, void *v)
{
	Map old = *m;
	uint32_t i, j;

	if (m->n * 2 >= m->cap) {
		m->cap = m->cap ? m->cap * 2 : 32;
		m->key = xcalloc(m->cap, sizeof *m->key);
		m->val = xcalloc(m->cap, sizeof *m->val);
		for (i = 0; i < old.cap; i++)
			if (old.key[i]) {
				j = map_slot(m, old.key[i]);
				m->key[j] = old.key[i];
				m->val[j] = old.val[i];
			}
		free(old.key);
		free(old.val);
	}
	j = map_slot(m, k);
	if (!m->key[j])
		m->n++;
	m->key[j] = k;
	m->val[j] = v;
}

void
map_free(Map *m)
{
	free(m->key);
	free(m->val);
	*m = (Map){0};
}

typedef enum DefKind { NO_DEFS, SYM_DEFS, ALL_DEFS } DefKind;
/* Which definitions are entered, and the loops or ifs that decide symbols. */
typedef struct Defs { DefKind kind; const Map *owner; } Defs;

/* ---- depth-first order ----------------------------------------------------------------------- */

typedef struct Frame { Node *n; int next; } Frame;
/* The set of nodes that were met grows with them, not with the module: most walks are of a small
 * part. */
typedef struct Walk {
	uint32_t *seen, nseen, seencap;        /* a hash table of ids + 1 */
	Frame *stack; int depth, cap;
	Node **out; int n, outcap;
} Walk;

static uint32_t *
seen_slot(const Walk *w, uint32_t key)
{
	uint32_t j = key * 2654435761u & (w->seencap - 1);

	while (w->seen[j] && w->seen[j] != key)
		j = (j + 1) & (w->seencap - 1);
	return &w->seen[j];
}

static void
grow_seen(Walk *w)
{
	uint32_t *old = w->seen, cap = w->seencap, j;

	w->seencap = cap ? cap * 4 : 64;
	w->seen = xcalloc(w->seencap, sizeof *w->seen);
	for (j = 0; j < cap; j++)
		if (old[j])
			*seen_slot(w, old[j]) = old[j];
	free(old);
}

static bool
visit(Walk *w, Node *n)
{
	uint32_t *slot;

	if (w->nseen * 2 >= w->seencap)
		grow_seen(w);
	slot = seen_slot(w, n->id + 1);
	if (*slot)
		return false;
	*slot = n->id + 1;
	w->nseen++;
	if (w->depth == w->cap) {
		w->cap = w->cap ? w->cap * 2 : 64;
		w->stack = realloc(w->stack, sizeof *w->stack * (size_t)w->cap);
		if (!w->stack)
			abort();
	}
	w->stack[w->depth++] = (Frame){n, 0};
	return true;
}

static void
leave(Walk *w)
{
	if (w->n == w->outcap) {
		w->outcap = w->outcap ? w->outcap * 2 : 64;
		w->out = realloc(w->out, sizeof *w->out * (size_t)w->outcap);
		if (!w->out)
			abort();
	}
	w->out[w->n++] = w->stack[--w->depth].n;
}

/* The k-th child: operands, then regions' params and results, then the definition. */
static Node *
child(const Node *n, int k, Defs defs, bool *end)
{
	int r;

	*end = false;
	if (k < n->nin)
		return n->in[k];
	k -= n->nin;
	for (r = 0; r < n->nregions; r++) {
		if (!n->regions[r])              /* an absent one */
			continue;
		if (k < n->regions[r]->nparams)
			return n->regions[r]->params[k];
		k -= n->regions[r]->nparams;
		if (k < n->regions[r]->nresults)
			return n->regions[r]->results[k];
		k -= n->regions[r]->nresults;
	}
	/* a symbol's def is its value */
	if ((defs.kind == ALL_DEFS || (defs.kind == SYM_DEFS && n->code == O_SYM)) && k-- == 0)
		return n->def;
	if (defs.owner && n->code == O_SYM && k == 0)
		return map_get(defs.owner, n);
	*end = true;
	return NULL;
}

static bool
scalar_child(const Node *n, int k, Node **c)
{
	/* statements: their value is elsewhere */
	if (k >= n->nin || n->code == O_LET || n->code == O_CALL)
		return false;
	*c = n->in[k];
	if (*c && (*c)->type->kind != T_SCALAR)
		*c = NULL;
	return true;
}

static Node **
walk(Node *const *roots, int nroots, Defs defs, bool scalars, int *n)
{
	Walk w = {0};
	Frame *f;
	Node *c = NULL;
	bool end;
	int i;

	for (i = 0; i < nroots; i++) {
		if (roots[i])
			visit(&w, roots[i]);
		while (w.depth) {
			f = &w.stack[w.depth - 1];
			if (scalars)
				end = !scalar_child(f->n, f->next, &c);
			else
				c = child(f->n, f->next, defs, &end);
			f->next++;
			if (end)
				leave(&w);
			else if (c)
				visit(&w, c);
		}
	}
	free(w.seen);
	free(w.stack);
	*n = w.n;
	return w.out ? w.out : xcalloc(1, sizeof *w.out);
}

Node **
topo(Node *const *roots, int nroots, bool defs, int *n)
{
	return walk(roots, nroots, (Defs){defs ? ALL_DEFS : SYM_DEFS, NULL}, false, n);
}

Node **
topo_decided(Node *const *roots, int nroots, const Map *owner, int *n)
{
	return walk(roots, nroots, (Defs){ALL_DEFS, owner}, false, n);
}

Node **
topo_statements(const Region *r, int *n)
{
	return walk(r->results, r->nresults, (Defs){NO_DEFS, NULL}, false, n);
}

Node **
topo_scalar(Node *e, int *n)
{
	return walk(&e, 1, (Defs){NO_DEFS, NULL}, true, n);
}

bool
contains(const Node *e, const Node *part)
{
	Node *root = (Node *)e, **list;
	int i, n;
	bool found = false;

	if (e == part)
		return true;
	if (e->id < part->id || e->size == 1)
		return false;
	if (e->nin == 2 && e->size <= 3)
		return e->in[0] == part || e->in[1] == part;
	list = walk(&root, 1, (Defs){NO_DEFS, NULL}, true, &n);
	for (i = 0; i < n && !found; i++)
		found = list[i] == part;
	free(list);
	return found;
}

/* Does the loop or if n decide the dimension? Others may only hand on what they were given. */
static bool
decides(const Node *n, const LoopSym *s)
{
	const Type *t = n->type, *in;
	const Region *body = n->regions[0];
	const Node *go = body->results[0];
	int k = s->result, axis = s->axis;

	if (k >= t->rank || t->elem[k]->kind != T_TENSOR || axis >= t->elem[k]->rank ||
		t->elem[k]->dims[axis] != s->sym)
		return false;
	if (n->code == O_IF)
		in = body->results[k]->type;
	else if (k < n->n)
		in = n->in[2 + k]->type;
	else if (axis > 0) {
		in = body->results[1 + k]->type;
		axis--;
	/* the rounds: known where a condition does not end them */
	} else
		return !n->in[0] || (go->code != O_CONST &&
		(go->code != O_TENSOR || go->in[go->nin - 1]->code != O_NUM));
	return in->dims[axis] != s->sym;
}

void
symbol_owners(Module *m, Map *owner)
{
	Node **list;
	int i, k, n;

	if (!m->loopsyms.n)
		return;
	list = topo(m->main->results, m->main->nresults, true, &n);
	for (i = 0; i < n; i++)
		for (k = 0; (list[i]->code == O_LOOP || list[i]->code == O_IF) && k < m->loopsyms.n; k++)
			if (decides(list[i], m->loopsyms.at[k]))
				map_put(owner, ((LoopSym *)m->loopsyms.at[k])->sym, list[i]);
	free(list);
}

/* ---- substitution ---------------------------------------------------------------------------- */

static void
collect_binders(Node **list, int n, Map *bound)
{
	int i, k;

	for (i = 0; i < n; i++)
		if (list[i]->code == O_REDUCE)
			for (k = 0; k + 1 < list[i]->nin; k++)
				map_put(bound, list[i]->in[k], list[i]);
		else if (list[i]->code == O_ITER) {
			map_put(bound, list[i]->in[0], list[i]);
			map_put(bound, list[i]->in[1], list[i]);
		}
}

static Node *
rebuild(Module *m, Node *n, Node **in)
{
	Node t;

	switch (n->code) {
	case O_READ:
		return x_read(m, in[0], in + 1);
	case O_REDUCE:
		return x_reduce(m, (Comb)n->n, n->nin - 1, in, in[n->nin - 1]);
	case O_ITER:
		return x_iter(m, in[0], in[1], in[2], in[3]);
	default:
		if (n->code < O_NUM)
			return x_op(m, n->code, n->nin, in, n->type->dtype);
		t = *n;
		t.in = in;
		return node_make(m, t);
	}
}

Node *
subst(Module *m, Node *e, Map *map, bool fresh)
{
	Node **list, *n, *r, **in, *buf[64];
	Map done = {0}, bound = {0};
	bool changed;
	int i, k, count;

	list = walk(&e, 1, (Defs){NO_DEFS, NULL}, true, &count);
	collect_binders(list, count, &bound);
	for (i = 0; i < count; i++) {
		n = list[i];
		if ((r = map_get(map, n))) {
			map_put(&done, n, r);
			continue;
		}
		in = n->nin <= 64 ? buf : xcalloc((size_t)n->nin, sizeof *in);
		changed = false;
		for (k = 0; k < n->nin; k++) {
			in[k] = n->in[k];
			if (in[k]) {
				r = in[k]->type->kind == T_SCALAR ? map_get(&done, in[k]) : map_get(map, in[k]);
				if (r)
					in[k] = r;
			}
			changed |= in[k] != n->in[k];
		}
		if (n->code == O_AXIS)
			r = map_get(&bound, n) && (changed || fresh) ? x_axis(m, in[0]) : n;
		else if (n->code == O_CARRY)
			r = fresh && map_get(&bound, n) ? x_carry(m, n->type->dtype) : n;
		else
			r = changed ? rebuild(m, n, in) : n;
		map_put(&done, n, r);
		if (in != buf)
			free(in);
	}
	r = map_get(&done, e);
	free(list);
	map_free(&done);
	map_free(&bound);
	return r;
}

Node *
subst1(Module *m, Node *e, const Node *from, Node *to)
{
	Map map = {0};
	Node *r;

	map_put(&map, from, to);
	r = subst(m, e, &map, false);
	map_free(&map);
	return r;
}
