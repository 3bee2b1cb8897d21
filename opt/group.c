/*
 * Grouping: materialised tensors that can share a loop over their outer axes become one kernel.
 *
 * A consumer joins the kernel of a producer if it reads the producer's elements of the same outer
 * index only (softmax: a row's maximum, exponentials and sum; layer normalisation), if nothing
 * outside stands between them, and if the shared loop leaves enough to run in parallel.
 *
 * A product of few rows takes in what comes before it (few.c); on a GPU maps that read the same one
 * are computed side by side, for a launch costs more than they.
 *
 * pass_group writes what it decides on the tensors: members of one kernel have the same number as
 * attribute `kernel`, and `outer` says how many leading axes they share. A tensor without them is a
 * kernel of its own. What is written already stays.
 */
#include <stdlib.h>
#include <string.h>
#include "few.h"

/* A kernel's limits: elements of a member at one outer index; those, and the work in element_cost's
 * terms, where fewer than MIN_OUTER indices run side by side; members. */
enum {
	MAX_INNER = 1 << 16, MAX_ALONE = 4096, MAX_ALONE_COST = 1 << 17, MIN_OUTER = 2,
	MAX_MEMBERS = 24, MAX_BESIDE = 8,
};

typedef struct Grouper {
	Sched *s;
	Node **list; int n;
	Map group;             /* tensor -> Group */
	Map outside;           /* tensor -> used by something that is no tensor */
	Map readers;           /* tensor -> Vec of the tensors and scatters that read it */
	Map owner;             /* symbol -> the loop or if that decides it */
	Map place;             /* node -> its place in list, from 1 */
	Map stated;            /* number of a kernel -> the Group that has it, as attributes say */
	int *reach;            /* by place, as a tree of maxima: see reach_from */
	Vec groups;
} Grouper;

/* ---- places ---------------------------------------------------------------------------------- */

static int
place_of(const Grouper *q, const Node *n)
{
	return (int)(intptr_t)map_get(&q->place, n);
}

/* The largest place of a kernel that has a member at or above this place: how far down one gets from
 * there by going from member to member. 0: none. A Fenwick tree, for kernels only grow. */
static int
reach_from(const Grouper *q, int place)
{
	int far = 0;

	for (; place > 0; place &= place - 1)
		far = q->reach[place] > far ? q->reach[place] : far;
	return far;
}

static void
note_place(Grouper *q, Group *g, const Node *t)
{
	int i, at = place_of(q, t);

	g->first = !g->first || at < g->first ? at : g->first;
	g->last = at > g->last ? at : g->last;
	for (i = g->first; i > 0 && i <= q->n; i += i & -i)
		q->reach[i] = g->last > q->reach[i] ? g->last : q->reach[i];
}

static bool
reads_reduced(Node **list, int n, const Node *read)
{
	int i;

	for (i = 0; i < n; i++)
		if (list[i]->code == O_REDUCE && contains(list[i], read))
			return true;
	return false;
}

/* Sums over a sliding window (depthwise convolution, pooling): its lanes are chosen by layout. */
static bool
is_window(Node *t)
{
	Node **list, *r;
	int i, k, n;
	bool yes = false;

	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n && !yes; i++)
		for (r = list[i], k = 1; r->code == O_READ && k < r->nin && !yes; k++)
			yes = r->in[k]->code == O_ADD && reads_reduced(list, n, r);
	free(list);
	return yes;
}

/* Does the tensor have a schedule of its own, or may it need no kernel (a padding, words)? */
static bool
stands_alone(const Sched *s, Node *t)
{
	return holds_product(s->mach, t, NULL) || is_window(t)
		|| is_sorting(s->m, t) || (s->gpu ? is_scan(s->m, t) : viewed_by(s->m, t) != NULL);
}

/* Elements at one index of the outer axes; those of unknown extent count for nothing on a CPU,
 * for some on a GPU, where one block computes them all. */
static int64_t
size_from(const Sched *s, const Node *t, int from)
{
	int64_t n = 1;
	int i;

	for (i = from; i < rank_of(t); i++)
		n = sat_mul(n, const_or(dim_of(t, i), s->gpu ? 64 : 1));
	return n;
}

static double
likely_cost(const Sched *s, const Node *t, int from)
{
	double n = element_cost(t->in[t->nin - 1]);
	int i;

	for (i = from; i < rank_of(t); i++)
		n *= (double)likely_extent(s->m, dim_of(t, i));
	return n;
}

static bool
long_member(const Sched *s, const Group *g, const Node *t, int nouter)
{
	int i;

	for (i = 0; i < g->n; i++)
		if (size_from(s, g->members[i], nouter) >= LONG_ROW)
			return true;
	return size_from(s, t, nouter) >= LONG_ROW;
}

/* Have the kernel's threads too few outer indices for the work that there is likely to be? */
static bool
too_few(const Sched *s, const Group *g, const Node *t, int nouter)
{
	double outer = 1, cost = likely_cost(s, t, nouter);
	int i;

	for (i = 0; i < nouter; i++)
		outer *= (double)likely_extent(s->m, dim_of(t, i));
	for (i = 0; i < g->n; i++)
		cost += likely_cost(s, g->members[i], nouter);
	if (s->gpu)
		return 2 * outer <= s->mach->units && long_member(s, g, t, nouter);
	return outer < MIN_OUTER && cost > MAX_ALONE_COST;
}

/* Is there a reduction for each element along an inner axis? */
static bool
reduces_inside(const Node *t, int nouter)
{
	Node **list;
	int i, k, n;
	bool yes = false;

	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n; i++)
		for (k = nouter; k < rank_of(t) && list[i]->code == O_REDUCE && !yes; k++)
			yes = !is_intv(dim_of(t, k), 1) && contains(list[i], t->in[k]);
	free(list);
	return yes;
}

/* Does each of them leave a GPU's block work that its threads share? */
static bool
threads_share(const Sched *s, const Group *g, const Node *t, int nouter)
{
	int i;

	for (i = 0; s->gpu && i < g->n; i++)
		if (reduces_inside(g->members[i], nouter))
			return false;
	return !s->gpu || !reduces_inside(t, nouter);
}

/* How many leading axes of the consumer are the producer's own in every read of it. */
static int
shared_prefix(Node *consumer, Node *producer)
{
	Node **list, *r;
	int i, d, n, k = rank_of(producer) < rank_of(consumer) ? rank_of(producer) : rank_of(consumer);

	list = topo_scalar(consumer->in[consumer->nin - 1], &n);
	for (i = 0; i < n; i++) {
		r = list[i];
		if (r->code != O_READ || r->in[0] != producer)
			continue;
		for (d = 0; d < k; d++)
			if (dim_of(producer, d) != consumer->in[d]->in[0]
			 || (r->in[d + 1] != consumer->in[d] && !is_intv(dim_of(producer, d), 1)))
				break;
		k = d;
	}
	free(list);
	return k;
}

bool
member_of(const Group *g, const Node *t)
{
	int i;

	for (i = 0; i < g->n; i++)
		if (g->members[i] == t)
			return true;
	return false;
}

typedef struct Search { Grouper *q; Vec todo; Map seen; } Search;

static void
look_at(Search *s, Node *n)
{
	if (!n || map_get(&s->seen, n))
		return;
	map_put(&s->seen, n, n);
	vec_push(s->q->s->m, &s->todo, n);
}

/* What n needs: operands, what its regions give, what a symbol stands for; for a tensor, what its
 * whole kernel needs. */
static void
look_above(Search *s, Node *n)
{
	Group *h = map_get(&s->q->group, n);
	int i, k;

	for (i = 0; i < n->nin; i++)
		look_at(s, n->in[i]);
	for (i = 0; i < n->nregions; i++)
		for (k = 0; n->regions[i] && k < n->regions[i]->nresults; k++)
			look_at(s, n->regions[i]->results[k]);
	look_at(s, n->def);
	if (n->code == O_SYM)
		look_at(s, map_get(&s->q->owner, n));
	for (i = 0; h && i < h->n; i++)
		look_at(s, h->members[i]);
}

/* Does t depend on a member of g through something that is not in g? Operands come before their users,
 * so what is above g's first member leads to g only by a kernel that reaches from there to below. */
static bool
around(Grouper *q, Group *g, Node *t)
{
	Search s = {.q = q};
	Node **list, *n;
	int i, k, count, at;
	bool bad = false, through = reach_from(q, g->first - 1) >= g->first;

	for (k = 0; k < t->nin; k++) {
		list = topo_scalar(t->in[k], &count);
		for (i = 0; i < count; i++)
			if (list[i]->code == O_SYM)
				look_at(&s, list[i]);
			else if (list[i]->code == O_READ && !member_of(g, list[i]->in[0]))
				look_at(&s, list[i]->in[0]);
		free(list);
	}
	while (s.todo.n && !bad) {
		n = s.todo.at[--s.todo.n];
		at = place_of(q, n);
		if (at && at < g->first && !through)
			continue;
		bad = member_of(g, n);
		look_above(&s, n);
	}
	map_free(&s.seen);
	return bad;
}

/* May t join the kernel, and over how many outer axes? */
static bool
fits(Grouper *q, Group *g, Node *t, int *nouter)
{
	int64_t outer, inner, d;
	int i, n, k = g->nouter, p;
	Node **list;

	if (map_get(&q->s->home, t) != g->home || g->n >= MAX_MEMBERS)
		return false;
	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n; i++)
		if (list[i]->code == O_READ && member_of(g, list[i]->in[0])) {
			p = shared_prefix(t, list[i]->in[0]);
			k = p < k ? p : k;
		}
	free(list);
	if (rank_of(t) < k)
		k = rank_of(t);
	if (k < 1)
		return false;
	for (i = 0, outer = 1; i < k; i++)
		outer = is_int(dim_of(t, i), &d) ? sat_mul(outer, d) : INT64_MAX;
	inner = size_from(q->s, t, k);
	for (i = 0; i < g->n; i++)
		if (size_from(q->s, g->members[i], k) > inner)
			inner = size_from(q->s, g->members[i], k);
	if (inner > MAX_INNER || (outer < MIN_OUTER && inner > MAX_ALONE) || !threads_share(q->s, g, t, k)
	 || too_few(q->s, g, t, k))
		return false;
	*nouter = k;
	return true;
}

static Group *
new_group(Grouper *q, Node *t)
{
	Group *g = NEW(q->s->m, Group);

	g->members = NEWN(q->s->m, Node *, MAX_MEMBERS);
	g->local = NEWN(q->s->m, bool, MAX_MEMBERS);
	g->members[g->n++] = t;
	note_place(q, g, t);
	g->nouter = rank_of(t);
	g->home = map_get(&q->s->home, t);
	g->loc = t->loc;
	vec_push(q->s->m, &q->groups, g);
	map_put(&q->group, t, g);
	return g;
}

static void
add_member(Grouper *q, Group *g, Node *t, int nouter)
{
	g->members[g->n++] = t;
	note_place(q, g, t);
	g->nouter = nouter;
	g->loc = loc_union(q->s->m, g->loc, t->loc);
	map_put(&q->group, t, g);
}

/* ---- side by side ---------------------------------------------------------------------------- */

static bool
reads_member(const Group *g, Node *t)
{
	Node **list;
	int i, n;
	bool yes = false;

	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n; i++)
		yes |= list[i]->code == O_READ && member_of(g, list[i]->in[0]);
	free(list);
	return yes;
}

static bool
is_map(const Node *t)
{
	return t->code == O_TENSOR && body_is_plain(t->in[t->nin - 1]);
}

/* The kernel of maps that t, a map too, may stand beside: they read what t reads, a product of few
 * rows, and neither waits for the other. A launch costs more than such maps. NULL: none. */
static Group *
find_beside(Grouper *q, Node *t)
{
	Node **list;
	const Vec *readers;
	Group *g, *found = NULL;
	Few f;
	int i, k, n;

	if (!q->s->gpu || !is_map(t))
		return NULL;
	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n && !found; i++) {
		if (list[i]->code != O_READ || !few_of(q->s->m, list[i]->in[0], &f))
			continue;
		readers = map_get(&q->readers, list[i]->in[0]);
		for (k = 0; readers && k < readers->n && !found; k++) {
			g = map_get(&q->group, readers->at[k]);
			if (g && (g->beside || g->n == 1) && g->n < MAX_BESIDE && is_map(g->members[0]) && !g->few
			 && g->home == map_get(&q->s->home, t) && !reads_member(g, t) && !around(q, g, t))
				found = g;
		}
	}
	free(list);
	return found;
}

/* Does each compute plain elements, and none read another's? */
static bool
stand_beside(const Group *g)
{
	int i;

	for (i = 0; i < g->n; i++)
		if (!is_map(g->members[i]) || reads_member(g, g->members[i]))
			return false;
	return true;
}

/* Puts t into the kernel with which it shares most outer axes, or into one of its own. */
static void
place(Grouper *q, Node *t)
{
	Node **list;
	Group *g, *best = NULL;
	int i, n, k, bestk = 0;

	if (t->code != O_TENSOR || stands_alone(q->s, t)) {
		new_group(q, t);
		return;
	}
	list = topo_scalar(t->in[t->nin - 1], &n);
	for (i = 0; i < n; i++) {
		if (list[i]->code != O_READ || !(g = map_get(&q->group, list[i]->in[0])) || g == best)
			continue;
		if (g->members[0]->code != O_TENSOR || g->attends || g->few || g->beside || stands_alone(q->s, g->members[0]))
			continue;
		if (fits(q, g, t, &k) && k > bestk && !around(q, g, t)) {
			best = g;
			bestk = k;
		}
	}
	free(list);
	if (!best && (best = find_beside(q, t)))
		best->beside = true;
	if (!best) {
		new_group(q, t);
		return;
	}
	add_member(q, best, t, bestk);
}

/* ---- attention ------------------------------------------------------------------------------- */

static bool
among(const Attention *a, const Node *t)
{
	int i;

	for (i = 0; i < a->n; i++)
		if (a->members[i] == t)
			return true;
	return false;
}

/* Does anything beside the attention read its member t? */
static bool
leaves(Grouper *q, const Attention *a, const Node *t)
{
	const Vec *readers = map_get(&q->readers, t);
	int i;

	if (map_get(&q->outside, t))
		return true;
	for (i = 0; readers && i < readers->n; i++)
		if (!among(a, readers->at[i]))
			return true;
	return false;
}

/* May others read member t? They may have the result, and scores that are read key by key. */
static bool
may_leave(const Attention *a, const Node *t)
{
	return t == a->out || (t == a->score && a->at == a->key);
}

/* All of an attention into one kernel, if nothing else needs what must stay within. */
static void
place_attention(Grouper *q, Node *out)
{
	Attention a;
	Group *g;
	int i;

	if (!attention_of(q->s, out, &a))
		return;
	for (i = 0; i < a.n; i++)
		if (map_get(&q->group, a.members[i]) || attr_find(a.members[i]->attrs, "kernel")
		 || map_get(&q->s->home, a.members[i]) != map_get(&q->s->home, out)
		 || (!may_leave(&a, a.members[i]) && leaves(q, &a, a.members[i])))
			return;
	g = new_group(q, a.members[0]);
	for (i = 1; i < a.n; i++)
		add_member(q, g, a.members[i], a.nouter);
	g->attends = true;
	ledger_add(q->s->m, "online_softmax", "real", 4 * ulp_of(dtype_of(out)), g->loc);
}

/* The sums of a part of an attention's keys (decode.c) into one kernel. */
static void
place_parts(Grouper *q, Node *total)
{
	const Vec *readers;
	Group *g;
	KeyParts p;
	int i;

	if (map_get(&q->group, total) || attr_find(total->attrs, "kernel") || !key_parts(q->s->m, total, &p))
		return;
	readers = map_get(&q->readers, p.score);
	for (i = 0; i < readers->n; i++)
		if (key_parts_sum(q->s->m, &p, readers->at[i]))
			p.sum = readers->at[i];
	if (!p.sum || map_get(&q->group, p.score) || map_get(&q->outside, p.score))
		return;
	g = new_group(q, p.score);
	add_member(q, g, p.max, p.nouter);
	add_member(q, g, p.sum, p.nouter);
	add_member(q, g, total, p.nouter);
}

/* Are the members all that belongs to the last one's attention? */
static bool
attends(Sched *s, const Group *g)
{
	Attention a;
	int i;

	if (!attention_of(s, g->members[g->n - 1], &a) || a.n != g->n || a.nouter != g->nouter)
		return false;
	for (i = 0; i < g->n; i++)
		if (!among(&a, g->members[i]) || (!may_leave(&a, g->members[i]) && !g->local[i]))
			return false;
	return true;
}

/* ---- products of few rows -------------------------------------------------------------------- */

/* Do only t's of the kernel read p, and nothing that is no tensor? */
static bool
read_within(Grouper *q, const Vec *members, const Node *p)
{
	const Vec *readers = map_get(&q->readers, p);
	int i, k;

	if (map_get(&q->outside, p))
		return false;
	for (i = 0; readers && i < readers->n; i++) {
		for (k = 0; k < members->n && members->at[k] != readers->at[i]; k++)
			;
		if (k == members->n)
			return false;
	}
	return true;
}

/* May p join the kernel of the product: beside it, or before it? */
static bool
may_enter(Grouper *q, const Few *out, const Vec *members, Node *p, int64_t *bytes)
{
	int i;

	if (p->code != O_TENSOR || map_get(&q->group, p) || attr_find(p->attrs, "kernel")
	 || map_get(&q->s->home, p) != map_get(&q->s->home, out->t) || members->n == MAX_MEMBERS
	 || !read_within(q, members, p))
		return false;
	for (i = 0; i < members->n; i++)
		if (members->at[i] == p)
			return false;
	if (few_beside(q->s->m, p, out) && shared_prefix(out->t, p) == rank_of(p))
		return true;
	if (holds_product(q->s->mach, p, NULL) || is_sorting(q->s->m, p) || is_scan(q->s->m, p)
	 || !few_prologue(q->s->m, p)
	 || *bytes + few_bytes(p) > FEW_PROLOGUE)
		return false;
	*bytes += few_bytes(p);
	return true;
}

/* Adds what the members read and may enter, once; true if there was something. */
static bool
widen(Grouper *q, const Few *out, Vec *members, int64_t *bytes)
{
	Node **list, *t;
	int i, k, n, had = members->n;

	for (i = 0; i < members->n; i++) {
		t = members->at[i];
		list = topo_scalar(t->in[t->nin - 1], &n);
		for (k = 0; k < n; k++)
			if (list[k]->code == O_READ && may_enter(q, out, members, list[k]->in[0], bytes))
				vec_push(q->s->m, members, list[k]->in[0]);
		free(list);
	}
	return members->n > had;
}

/* A product of few rows and all that may enter its kernel. */
static void
place_few(Grouper *q, Node *out)
{
	Vec in = {0};
	Group *g;
	Few f;
	int64_t bytes = 0;
	int i, k;

	if (map_get(&q->group, out) || attr_find(out->attrs, "kernel") || !few_of(q->s->m, out, &f))
		return;
	vec_push(q->s->m, &in, out);
	while (widen(q, &f, &in, &bytes))
		;
	for (i = 1; i < in.n; i++) {                 /* producers first */
		Node *t = in.at[i];
		for (k = i; k > 0 && place_of(q, in.at[k - 1]) > place_of(q, t); k--)
			in.at[k] = in.at[k - 1];
		in.at[k] = t;
	}
	g = new_group(q, in.at[0]);
	for (i = 1; i < in.n; i++)
		add_member(q, g, in.at[i], 0);
	g->few = true;
}

/* ---- what the attributes say ----------------------------------------------------------------- */

static int64_t
stated(const Node *t, const char *name, int64_t otherwise)
{
	const Attr *a = attr_find(t->attrs, name);

	return a && a->kind == A_INT ? a->i : otherwise;
}

/* Do all members run over the same outer axes, each reading the others' elements of its own
 * only? */
static bool
consistent(const Group *g)
{
	Node **list, *t;
	int i, k, d, n;
	bool ok = g->nouter >= 0;

	for (i = 0; i < g->n && ok; i++) {
		t = g->members[i];
		ok = t->code == O_TENSOR && rank_of(t) >= g->nouter;
		for (d = 0; ok && d < g->nouter; d++)
			ok = dim_of(t, d) == dim_of(g->members[0], d);
		if (!ok)
			break;
		list = topo_scalar(t->in[t->nin - 1], &n);
		for (k = 0; k < n && ok; k++)
			if (list[k]->code == O_READ && member_of(g, list[k]->in[0]))
				ok = shared_prefix(t, list[k]->in[0]) >= g->nouter;
		free(list);
	}
	return ok;
}

static void
join_stated(Grouper *q, Node *t)
{
	int64_t kernel = stated(t, "kernel", -1), outer = stated(t, "outer", rank_of(t));
	Node *number = x_idx(q->s->m, kernel);
	Group *g = kernel >= 0 ? map_get(&q->stated, number) : NULL;

	if (g && g->n < MAX_MEMBERS && g->nouter == outer && g->home == map_get(&q->s->home, t)) {
		add_member(q, g, t, (int)outer);
		return;
	}
	if (g)
		diag_error(q->s->m->diag, X_INVALID, t->loc,
			"kernel %lld: a member differs in outer axes or region, or there are over %d",
			(long long)kernel, MAX_MEMBERS);
	g = new_group(q, t);
	if (kernel >= 0)
		map_put(&q->stated, number, g);
	g->nouter = kernel >= 0 && outer >= 0 && outer <= rank_of(t) ? (int)outer : rank_of(t);
}

/* ---- order ----------------------------------------------------------------------------------- */

static void
note_outside(Grouper *q, const Node *t, Node *user)
{
	if (t)
		map_put(&q->outside, t, user);
}

static void
note_reader(Grouper *q, const Node *t, Node *user)
{
	Vec *v = map_get(&q->readers, t);

	if (!v)
		map_put(&q->readers, t, v = NEW(q->s->m, Vec));
	vec_push(q->s->m, v, user);
}

/* What a tensor's scalars read from other kernels, or where not the element at its own axes is
 * meant. */
static void
note_reads(Grouper *q, Node *t)
{
	const Group *g = map_get(&q->group, t);
	Node **list;
	int i, k, n;

	for (k = 0; k < t->nin; k++) {
		if (!t->in[k] || t->in[k]->type->kind != T_SCALAR)
			continue;
		list = topo_scalar(t->in[k], &n);
		for (i = 0; i < n; i++) {
			if (list[i]->code != O_READ)
				continue;
			note_reader(q, list[i]->in[0], t);
			if (map_get(&q->group, list[i]->in[0]) != g || k + 1 < t->nin)
				note_outside(q, list[i]->in[0], t);
		}
		free(list);
	}
}

/* The host reads the tensors that the expression reads. */
static void
read_by_host(Grouper *q, Node *expr)
{
	Node **e;
	int i, n;

	e = topo_scalar(expr, &n);
	for (i = 0; i < n; i++)
		if (e[i]->code == O_READ)
			map_put(&q->outside, e[i]->in[0], e[i]);
	free(e);
}

/* Fills `outside` and `readers`. */
static void
find_users(Grouper *q)
{
	const Module *m = q->s->m;
	Node *n;
	int i, k, j;

	for (i = 0; i < q->n; i++) {
		n = q->list[i];
		if (n->type->kind == T_SCALAR)
			continue;
		for (k = 0; k < n->nin; k++)
			if (n->in[k] && n->in[k]->type->kind == T_TENSOR)
				note_outside(q, n->in[k], n);
		for (k = 0; k < n->nregions; k++)
			for (j = 0; j < n->regions[k]->nresults; j++)
				note_outside(q, n->regions[k]->results[j], n);
		if (n->code == O_TENSOR || n->code == O_SCATTER)
			note_reads(q, n);
	}
	for (i = 0; i < m->main->nresults; i++)
		map_put(&q->outside, m->main->results[i], m->main->results[i]);
	for (i = 0; i < q->n; i++)
		if (q->list[i]->code == O_SYM && q->list[i]->def)
			read_by_host(q, q->list[i]->def);
	for (i = 0; i < m->requires.n; i++)
		read_by_host(q, ((Require *)m->requires.at[i])->cond);
}

/* Which groups wait for which: of each, in their present order, reads of groups that do not stand in the
 * new order yet, and the groups that read it, as often as they do. */
typedef struct Order { int *waits; Vec *readers; Map place; } Order;

static void
note_wait(Grouper *q, Order *o, int i, const Node *t)
{
	const Group *h = map_get(&q->group, t);
	int k;

	if (!h || h == q->groups.at[i])
		return;
	o->waits[i]++;
	k = (int)(intptr_t)map_get(&o->place, h->members[0]);
	if (k)
		vec_push(q->s->m, &o->readers[k - 1], (void *)(intptr_t)i);
}

static void
note_waits(Grouper *q, Order *o, int i)
{
	const Group *g = q->groups.at[i];
	Node **list, *t;
	int j, k, c, n;

	for (j = 0; j < g->n; j++)
		for (t = g->members[j], k = 0; k < t->nin; k++) {
			if (!t->in[k])
				continue;
			if (t->in[k]->type->kind != T_SCALAR) {
				note_wait(q, o, i, t->in[k]);
				continue;
			}
			list = topo_scalar(t->in[k], &n);
			for (c = 0; c < n; c++)
				if (list[c]->code == O_READ)
					note_wait(q, o, i, list[c]->in[0]);
			free(list);
		}
}

static void
take_place(Grouper *q, Order *o, int i, Vec *out)
{
	const Vec *v = &o->readers[i];
	int k;

	vec_push(q->s->m, out, q->groups.at[i]);
	for (k = 0; k < v->n; k++)
		o->waits[(intptr_t)v->at[k]]--;
}

/* Groups in an order in which each comes after what it reads. */
static void
sort_groups(Grouper *q)
{
	Module *m = q->s->m;
	int i, n = q->groups.n, left = n, last = -1, waiting, *rest = NEWN(m, int, n + 1);
	Order o = {.waits = NEWN(m, int, n + 1), .readers = NEWN(m, Vec, n + 1)};
	Vec out = {0};

	for (i = 0; i < n; i++)
		map_put(&o.place, ((Group *)q->groups.at[i])->members[0], (void *)(intptr_t)(i + 1));
	for (i = 0; i < n; i++) {
		note_waits(q, &o, i);
		rest[i] = i;
	}
	/* the last member's position orders them, unless a group waits for another: then repeat */
	for (; left > 0 && out.n != last; left = waiting) {
		last = out.n;
		for (i = waiting = 0; i < left; i++)
			if (o.waits[rest[i]])
				rest[waiting++] = rest[i];
			else
				take_place(q, &o, rest[i], &out);
	}
	if (left > 0)
		diag_error(m->diag, X_INVALID, NULL, "%d kernels wait for each other", left);
	q->groups = out;
	map_free(&o.place);
}

static Grouper
open_grouper(Sched *s)
{
	Grouper q = {.s = s};
	Vec roots = {0};
	int i;

	for (i = 0; i < s->m->main->nresults; i++)
		vec_push(s->m, &roots, s->m->main->results[i]);
	for (i = 0; i < s->m->requires.n; i++)
		vec_push(s->m, &roots, ((Require *)s->m->requires.at[i])->cond);
	symbol_owners(s->m, &q.owner);
	q.list = topo_decided((Node **)roots.at, roots.n, &q.owner, &q.n);
	for (i = 0; i < q.n; i++)
		map_put(&q.place, q.list[i], (void *)(intptr_t)(i + 1));
	q.reach = NEWN(s->m, int, q.n + 1);
	return q;
}

static void
close_grouper(Grouper *q)
{
	free(q->list);
	map_free(&q->group);
	map_free(&q->outside);
	map_free(&q->stated);
	map_free(&q->readers);
	map_free(&q->owner);
	map_free(&q->place);
}

static bool
is_computed(const Node *t)
{
	return t->code == O_TENSOR || t->code == O_SCATTER;
}

Vec
groups_of(Sched *s)
{
	Grouper q = open_grouper(s);
	Group *g;
	int i, k;

	for (i = 0; i < q.n; i++)
		if (is_computed(q.list[i]))
			join_stated(&q, q.list[i]);
	find_users(&q);
	for (i = 0; i < q.groups.n; i++) {
		g = q.groups.at[i];
		for (k = 0; k < g->n; k++)
			g->local[k] = !map_get(&q.outside, g->members[k]);
		g->attends = g->n > 1 && attends(s, g);
		g->few = g->n > 1 && g->nouter == 0 && few_group(s->m, g);
		g->beside = g->n > 1 && g->nouter == 0 && !g->few && s->gpu && stand_beside(g);
		if (g->n > 1 && !g->attends && !g->few && !g->beside && (!consistent(g) || g->nouter == 0))
			diag_error(s->m->diag, X_INVALID, g->loc,
				"kernel %lld: its members do not share %d outer axes",
				(long long)stated(g->members[0], "kernel", -1), g->nouter);
	}
	sort_groups(&q);
	close_grouper(&q);
	return q.groups;
}

static void
state(Module *m, Map *attrs, Node *t, const char *name, int64_t v)
{
	const Attr *had = map_get(attrs, t);

	map_put(attrs, t,
		(void *)attrs_add(m, had ? had : t->attrs, (Attr){.name = name, .kind = A_INT, .i = v}));
}

/* Needs the tensor level with its sizes named; leaves attributes on the members of larger
 * kernels. */
bool
pass_group(Module *m)
{
	Sched s = sched_open(m);
	Grouper q = open_grouper(&s);
	Map attrs = {0};
	Group *g;
	int64_t number = 0;
	int i, k;

	home_regions(m, &s.home);
	find_users(&q);
	for (i = 0; i < q.n; i++) {
		place_attention(&q, q.list[i]);
		place_parts(&q, q.list[i]);
	}
	for (i = q.n; i-- > 0;)
		place_few(&q, q.list[i]);
	for (i = 0; i < q.n; i++) {
		if (map_get(&q.group, q.list[i]))
			continue;
		number = is_computed(q.list[i]) && stated(q.list[i], "kernel", -1) >= number
			? stated(q.list[i], "kernel", -1) + 1 : number;
		if (is_computed(q.list[i]) && attr_find(q.list[i]->attrs, "kernel"))
			join_stated(&q, q.list[i]);
		else if (is_computed(q.list[i]))
			place(&q, q.list[i]);
	}
	sort_groups(&q);
	for (i = 0; i < q.groups.n; i++) {
		g = q.groups.at[i];
		for (k = 0; g->n > 1 && k < g->n; k++) {
			if (!attr_find(g->members[k]->attrs, "kernel"))
				state(m, &attrs, g->members[k], "kernel", number);
			state(m, &attrs, g->members[k], "outer", g->nouter);
		}
		number += g->n > 1;
	}
	close_grouper(&q);
	annotate(m, &attrs);
	map_free(&attrs);
	sched_close(&s);
	return m->diag->errors == 0;
}
