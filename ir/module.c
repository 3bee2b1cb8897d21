/* The module: interned strings, types, attributes and nodes. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "ir.h"

typedef struct Table { uint32_t cap, n; void **at; uint32_t *hash; } Table;
struct Interns { Table strings, types, nodes, attrs; };

const char *const comb_names[] = {"set", "sum", "prod", "min", "max", "and", "or"};
const char *const for_names[] = {"serial", "parallel", "unroll", "vector", "grid.x", "grid.y",
	"grid.z", "block"};

const ScalarOp scalar_ops[] = {
#define SC(N, text, arity, res, takes, infix, doc) [O_##N] = {arity, res, takes, infix},
#include "scalar.def"
#undef SC
};

static const Op core_ops[] = {
#define SC(N, text, arity, res, takes, infix, doc_) [O_##N] = {.name = text, .kind = ROW_SCALAR, .doc = doc_, .code = O_##N},
#include "scalar.def"
#undef SC
#define CORE(N, text, level, doc_) [O_##N] = {.name = text, .kind = ROW_CORE, .doc = doc_, .code = O_##N},
#include "core.def"
#undef CORE
};

const Op *
core_op(OpCode c)
{
	return &core_ops[c];
}

Module *
module_new(Diag *d)
{
	Arena *a = arena_new();
	Module *m = arena_alloc(a, sizeof *m);

	m->arena = a;
	m->diag = d;
	m->name = "model";
	m->interns = NEW(m, struct Interns);
	m->main = region_new(m, "main");
	return m;
}

void
module_free(Module *m)
{
	Table *t;
	int i;

	if (!m)
		return;
	for (i = 0; i < 4; i++) {
		t = (Table *)m->interns + i;
		free(t->at);
		free(t->hash);
	}
	map_free(&m->named);
	arena_free(m->arena);
}

const char *
output_name(const Module *m, int output)
{
	const char *name = m->out_names ? m->out_names[output] : NULL;

	return name ? name : arena_printf(m->arena, "output_%d", output);
}

/* ---- hash tables ---------------------------------------------------------------------------- */

static uint32_t
mix(uint32_t h, uint64_t v)
{
	v ^= h;
	v *= 0x9e3779b97f4a7c15u;
	return (uint32_t)(v >> 32) ^ (uint32_t)v * 31u;
}

static uint32_t
hash_bytes(uint32_t h, const void *p, size_t n)
{
	const unsigned char *s = p;
	uint64_t w;

	for (; n >= 8; n -= 8, s += 8) {
		memcpy(&w, s, 8);
		h = mix(h, w);
	}
	for (; n; n--)
		h = mix(h, *s++);
	return h;
}

static void
table_grow(Table *t)
{
	uint32_t cap = t->cap ? t->cap * 2 : 256, i, j;
	void **at = calloc(cap, sizeof *at);
	uint32_t *hash = calloc(cap, sizeof *hash);

	if (!at || !hash)
		abort();
	for (i = 0; i < t->cap; i++)
		if (t->at[i]) {
			for (j = t->hash[i] & (cap - 1); at[j]; j = (j + 1) & (cap - 1))
				;
			at[j] = t->at[i];
			hash[j] = t->hash[i];
		}
	free(t->at);
	free(t->hash);
	t->at = at;
	t->hash = hash;
	t->cap = cap;
}

/* The entry equal to key, or NULL with *slot set to where it belongs. */
static void *
table_find(Table *t, uint32_t h, const void *key, bool (*eq)(const void *, const void *),
	uint32_t *slot)
{
	uint32_t j;

	if (t->n * 2 >= t->cap)
		table_grow(t);
	for (j = h & (t->cap - 1); t->at[j]; j = (j + 1) & (t->cap - 1))
		if (t->hash[j] == h && eq(t->at[j], key))
			return t->at[j];
	*slot = j;
	return NULL;
}

static void *
table_add(Table *t, uint32_t h, uint32_t slot, void *p)
{
	t->at[slot] = p;
	t->hash[slot] = h;
	t->n++;
	return p;
}

/* ---- strings, types, data -------------------------------------------------------------------- */

static bool
eq_string(const void *a, const void *b)
{
	return strcmp(a, b) == 0;
}

const char *
intern(Module *m, const char *s)
{
	Table *t = &m->interns->strings;
	size_t n;
	uint32_t h, slot;
	void *p;

	if (!s)
		return NULL;
	n = strlen(s);
	h = hash_bytes(1, s, n);
	p = table_find(t, h, s, eq_string, &slot);
	return p ? p : table_add(t, h, slot, arena_dup(m->arena, s, n + 1));
}

static bool
eq_type(const void *x, const void *y)
{
	const Type *a = x, *b = y;

	return a->kind == b->kind && a->dtype == b->dtype && a->space == b->space && a->rank == b->rank
		&& (!a->dims) == (!b->dims) && (!a->elem) == (!b->elem)
		&& (!a->dims || a->rank < 1
			|| memcmp(a->dims, b->dims, sizeof *a->dims * (size_t)a->rank) == 0)
		&& (!a->elem || !a->rank
			|| memcmp(a->elem, b->elem, sizeof *a->elem * (size_t)a->rank) == 0);
}

static const Type *
type_intern(Module *m, Type t)
{
	Table *tab = &m->interns->types;
	uint32_t h = mix(mix(mix(7, t.kind), t.dtype), (uint64_t)t.space << 32 | (uint32_t)t.rank),
		slot;
	Type *p;
	int i;

	for (i = 0; i < t.rank; i++)
		h = mix(h, (uintptr_t)(t.dims ? (const void *)t.dims[i] : (const void *)t.elem[i]));
	p = table_find(tab, h, &t, eq_type, &slot);
	if (p)
		return p;
	p = NEW(m, Type);
	*p = t;
	if (t.dims)
		p->dims = arena_dup(m->arena, t.dims, t.rank > 0 ? sizeof *t.dims * (size_t)t.rank : 0);
	if (t.elem)
		p->elem = arena_dup(m->arena, t.elem, sizeof *t.elem * (size_t)t.rank);
	return table_add(tab, h, slot, p);
}

const Type *
ty_scalar(Module *m, DType d)
{
	return type_intern(m, (Type){.kind = T_SCALAR, .dtype = d});
}

const Type *
ty_tensor(Module *m, DType d, int rank, Node *const *dims)
{
	return type_intern(m, (Type){.kind = T_TENSOR, .dtype = d, .rank = rank,
		.dims = (Node **)dims});
}

const Type *
ty_buffer(Module *m, DType d, Space s)
{
	return type_intern(m, (Type){.kind = T_BUFFER, .dtype = d, .space = s});
}

const Type *
ty_tuple(Module *m, int n, const Type *const *elem)
{
	return type_intern(m, (Type){.kind = T_TUPLE, .rank = n, .elem = (const Type **)elem});
}

const Type *
ty_of(Module *m, TypeKind k, DType d, const Type *elem)
{
	return type_intern(m, (Type){.kind = k, .dtype = d, .rank = elem != NULL,
		.elem = elem ? &elem : NULL});
}

const Type *
ty_element(Module *m, const Type *t)
{
	Node *dims[MAX_RANK];
	int i;

	if (t->kind != T_TENSOR)
		return t;
	for (i = 0; i < t->rank; i++)
		dims[i] = t->dims[i]->code == O_NUM ? t->dims[i] : x_idx(m, -1);
	return ty_tensor(m, t->dtype, t->rank, dims);
}

const Type *
ty_join(Module *m, const Type *a, const Type *b)
{
	const Type *e;
	Node *dims[MAX_RANK];
	int i;

	if (a == b)
		return a;
	if (a->kind != b->kind || a->dtype != b->dtype)
		return NULL;
	if (a->kind == T_TENSOR) {
		if (a->rank == -2 || b->rank == -2)
			return a->rank == -2 ? b : a;
		if (a->rank != b->rank)
			return ty_tensor(m, a->dtype, -1, NULL);
		for (i = 0; i < a->rank; i++)
			dims[i] = a->dims[i] == b->dims[i] ? a->dims[i] : x_idx(m, -1);
		return ty_tensor(m, a->dtype, a->rank, dims);
	}
	if ((a->kind != T_SEQ && a->kind != T_OPTIONAL) || !a->rank || !b->rank)
		return NULL;
	e = ty_join(m, a->elem[0], b->elem[0]);
	return e ? ty_of(m, a->kind, a->dtype, e) : NULL;
}

Data *
data_new(Module *m, DType d, int64_t count, const void *bytes)
{
	Data *p = NEW(m, Data);

	p->count = count;
	if (d == DT_STRING) {
		p->strings = NEWN(m, const char *, count + 1);
		if (bytes)
			memcpy(p->strings, bytes, sizeof *p->strings * (size_t)count);
		return p;
	}
	p->size = (size_t)((count * dtypes[d].bits + 7) / 8);
	p->bytes = bytes ? bytes : arena_alloc(m->arena, p->size ? p->size : 1);
	return p;
}

const Loc *
loc_new(Module *m, const char *name, const char *type, int index)
{
	Loc *l = NEW(m, Loc);

	*l = (Loc){intern(m, name), intern(m, type), index, NULL};
	return l;
}

static bool
loc_has(const Loc *l, const Loc *x)
{
	for (; l; l = l->next)
		if (l->name == x->name && l->type == x->type && l->index == x->index)
			return true;
	return false;
}

const Loc *
loc_union(Module *m, const Loc *a, const Loc *b)
{
	const Loc *l;
	const Loc *head = NULL, **tail = &head;
	Loc *c;

	if (!a || a == b)
		return b;
	for (l = b; l && loc_has(a, l); l = l->next)
		;
	if (!l)
		return a;
	for (l = a; l; l = l->next) {
		c = arena_dup(m->arena, l, sizeof *l);
		*tail = c;
		tail = &c->next;
	}
	for (l = b; l; l = l->next)
		if (!loc_has(a, l)) {
			c = arena_dup(m->arena, l, sizeof *l);
			*tail = c;
			tail = &c->next;
		}
	*tail = NULL;
	return head;
}

void
require(Module *m, Node *cond, const Loc *loc, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	int64_t v;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (is_int(cond, &v)) {
		if (!v)
			diag_error(m->diag, X_INVALID, loc, "%s", text);
		return;
	}
	require_again(m, &(Require){cond, arena_printf(m->arena, "%s", text), loc});
}

void
require_again(Module *m, const Require *r)
{
	int i;

	for (i = 0; i < m->requires.n; i++)
		if (((Require *)m->requires.at[i])->cond == r->cond)
			return;
	vec_push(m, &m->requires, arena_dup(m->arena, r, sizeof *r));
}

/* ---- attributes ------------------------------------------------------------------------------ */

static bool
eq_attr(const void *x, const void *y)
{
	const Attr *a = x, *b = y;
	int i;

	if (a->name != b->name || a->kind != b->kind || a->n != b->n || a->next != b->next
	 || a->i != b->i
	 || memcmp(&a->f, &b->f, sizeof a->f) || a->s != b->s || a->t != b->t || a->r != b->r
	 || a->type != b->type)
		return false;
	for (i = 0; i < a->n; i++)
		if ((a->is && a->is[i] != b->is[i])
		 || (a->fs && memcmp(&a->fs[i], &b->fs[i], sizeof(double)))
		 || (a->ss && a->ss[i] != b->ss[i]))
			return false;
	return true;
}

static const Attr *
attr_cons(Module *m, Attr a)
{
	Table *t = &m->interns->attrs;
	uint32_t h = mix(mix(mix(3, (uintptr_t)a.name), (uint64_t)a.i), (uintptr_t)a.next), slot;
	const char **ss;
	Attr *p;
	int i;

	h = hash_bytes(h, &a.f, sizeof a.f);
	for (i = 0; i < a.n; i++)
		h = a.is ? mix(h, (uint64_t)a.is[i]) : a.fs ? hash_bytes(h, &a.fs[i], sizeof(double))
			: mix(h, 1);
	if (a.ss) {
		ss = NEWN(m, const char *, a.n + 1);
		for (i = 0; i < a.n; i++)
			ss[i] = intern(m, a.ss[i]);
		a.ss = ss;
	}
	p = table_find(t, h, &a, eq_attr, &slot);
	if (p)
		return p;
	p = arena_dup(m->arena, &a, sizeof a);
	if (a.is)
		p->is = arena_dup(m->arena, a.is, sizeof *a.is * (size_t)a.n);
	if (a.fs)
		p->fs = arena_dup(m->arena, a.fs, sizeof *a.fs * (size_t)a.n);
	return table_add(t, h, slot, p);
}

/* Sorted by name; an attribute of the same name is replaced. */
const Attr *
attrs_add(Module *m, const Attr *list, Attr a)
{
	Attr head;
	int c;

	a.name = intern(m, a.name);
	a.s = intern(m, a.s);
	c = list ? strcmp(list->name, a.name) : 1;
	if (c < 0) {
		head = *list;
		head.next = attrs_add(m, list->next, a);
		return attr_cons(m, head);
	}
	a.next = c == 0 ? list->next : list;
	return attr_cons(m, a);
}

const Attr *
attr_find(const Attr *a, const char *name)
{
	for (; a; a = a->next)
		if (strcmp(a->name, name) == 0)
			return a;
	return NULL;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static uint64_t
data_hash(const Data *d)
{
	uint32_t h = 11, low = 13;

	for (int64_t i = 0; d->strings && i < d->count; i++)
		h = hash_bytes(h, d->strings[i], strlen(d->strings[i]) + 1);
	h = hash_bytes(h, d->bytes, d->size);
	low = hash_bytes(low, d->bytes, d->size < 4096 ? d->size : 4096);
	return (uint64_t)h << 32 | low | 1;
}

static bool
eq_data(const Data *a, const Data *b)
{
	if (a == b)
		return true;
	if (!a || !b || a->hash != b->hash || a->size != b->size || a->count != b->count
		|| !a->strings != !b->strings)
		return false;
	for (int64_t i = 0; a->strings && i < a->count; i++)
		if (strcmp(a->strings[i], b->strings[i]))
			return false;
	return a->size == 0 || memcmp(a->bytes, b->bytes, a->size) == 0;
}

static bool
eq_node(const void *x, const void *y)
{
	const Node *a = x, *b = y;

	return a->op == b->op && a->type == b->type && a->nin == b->nin && a->attrs == b->attrs
		&& a->name == b->name && a->n == b->n && memcmp(&a->num, &b->num, sizeof a->num) == 0
		&& eq_data(a->data, b->data)
		&& (a->nin == 0 || memcmp(a->in, b->in, sizeof *a->in * (size_t)a->nin) == 0);
}

/* Statements and what has an identity of its own are never merged. */
static bool
unique(const Node *t)
{
	switch (t->code) {
	case O_AXIS: case O_CARRY: case O_PARAM: case O_FOR: case O_STORE: case O_LET: case O_WHEN:
	case O_WHILE: case O_BREAK: case O_ALLOC: case O_BARRIER: case O_PREFETCH: case O_CALL:
	case O_BUFFER: case O_HOST: case O_MOVE: case O_COMMIT: case O_WAIT: case O_MMA: case O_SYNCH:
		return true;
	default:
		return t->nregions > 0;
	}
}

Node *
node_make(Module *m, Node t)
{
	Table *tab = &m->interns->nodes;
	uint32_t h, slot = 0;
	uint64_t size = 1;
	Node *p;
	int i;

	t.code = t.op->code;
	h = mix(mix(mix(5, (uintptr_t)t.op), (uintptr_t)t.type), (uintptr_t)t.attrs);
	h = mix(mix(mix(h, (uintptr_t)t.name), (uint64_t)t.n), (uint64_t)t.num.i);
	if (t.data && !t.data->hash)
		t.data->hash = data_hash(t.data);
	if (t.data)
		h = mix(h, t.data->hash);
	for (i = 0; i < t.nin; i++)
		h = mix(h, t.in[i] ? (uint64_t)t.in[i]->id + 1 : 0);
	t.hash = h;
	if (!unique(&t)) {
		p = table_find(tab, h, &t, eq_node, &slot);
		if (p) {
			if (t.loc && t.op->code == O_GRAPH)
				p->loc = loc_union(m, p->loc, t.loc);
			return p;
		}
	}
	for (i = 0; i < t.nin; i++)
		if (t.in[i] && t.in[i]->type && t.in[i]->type->kind == T_SCALAR)
			size += t.in[i]->size;
	t.size = size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
	if (!t.loc && (t.code == O_TENSOR || t.code == O_SCATTER || t.code == O_LOOP || t.code == O_IF
	 || t.code == O_HOST))
		t.loc = m->building;
	t.id = m->nnodes++;
	p = arena_dup(m->arena, &t, sizeof t);
	if (t.nin)
		p->in = arena_dup(m->arena, t.in, sizeof *t.in * (size_t)t.nin);
	if (t.nregions)
		p->regions = arena_dup(m->arena, t.regions, sizeof *t.regions * (size_t)t.nregions);
	return unique(&t) ? p : table_add(tab, h, slot, p);
}

Node *
node_with(Module *m, const Node *n, const Attr *attrs)
{
	Node t = *n;

	t.attrs = attrs;
	return node_make(m, t);
}

Region *
region_new(Module *m, const char *name)
{
	Region *r = NEW(m, Region);

	r->name = intern(m, name);
	return r;
}

const char *const precision_names[N_PRECISIONS] = {"f32", "tf32", "bf16", "f16"};

static bool
same_place(const Loc *a, const Loc *b)
{
	for (; a && b && a != b; a = a->next, b = b->next)
		if (a->index != b->index || a->name != b->name)
			return false;
	return a == b;
}

void
ledger_add(Module *m, const char *what, const char *cls, double error, const Loc *loc)
{
	Ledger *l;
	int i;

	for (i = m->ledger.n; i-- > 0;) {
		l = m->ledger.at[i];
		if (same_place(l->loc, loc) && strcmp(l->what, what) == 0)
			return;                              /* a pass that ran before has told */
	}
	l = NEW(m, Ledger);
	*l = (Ledger){what, cls, error, loc};
	vec_push(m, &m->ledger, l);
}

void
region_add(Module *m, Region *r, Node *n)
{
	Node **p;

	if (r->nresults == r->cap) {
		r->cap = r->cap ? r->cap * 2 : 4;
		p = NEWN(m, Node *, r->cap);
		if (r->nresults)
			memcpy(p, r->results, sizeof *p * (size_t)r->nresults);
		r->results = p;
	}
	r->results[r->nresults++] = n;
}
