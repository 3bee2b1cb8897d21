/*
 * Ensembles of decision trees. The nodes of all trees stand in constant tables, inner ones before
 * the leaves; a leaf is its own child. An element's leaf in a tree is an iter over the depth that
 * carries a node's number; leaves are then looked up in tables of weights and summed over the
 * trees. Most forests have a form that is not walked: by intervals (tree_intervals.c), or by masks
 * where there are more features than conditions on one (tree_masks.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "trees.h"

enum { WALK_COST = 24 };        /* of a node, in steps of masks */

/* ---- attributes ------------------------------------------------------------------------------ */

/* Entry k of NAME (floats, a tensor) or NAME_as_tensor. */
static double
number(Build *b, const char *name, int64_t k)
{
	const Attr *a = attr_find(b->attrs, name);
	const Node *c;

	if (a && a->kind == A_FLOATS)
		return a->fs[k];
	if (!a || a->kind != A_TENSOR)
		a = attr_find(b->attrs, arena_printf(b->m->arena, "%s_as_tensor", name));
	c = a ? definition(a->t) : NULL;
	return c && dt_float(dtype_of(c)) ? data_get(c->data, dtype_of(c), k).f : c
		? (double)data_get(c->data, dtype_of(c), k).i : 0;
}

static int64_t
numbers(Build *b, const char *name)
{
	const Attr *a = attr_find(b->attrs, name), *t;
	const Node *d;

	t = a && a->kind == A_TENSOR ? a
		: attr_find(b->attrs, arena_printf(b->m->arena, "%s_as_tensor", name));
	if (a && a->kind == A_FLOATS)
		return a->n;
	if (!t)
		return 0;
	d = definition(t->t);
	return d->code == O_CONST &&
		(dt_float(dtype_of(d)) || dt_int(dtype_of(d))) ? d->data->count : -1;
}

static const int64_t *
ints(Build *b, const char *name, int64_t n)
{
	const Attr *a = attr_find(b->attrs, name);

	if (a && a->n == n)
		return a->is;
	fail(b, "%s has %d entries, must have %lld", name, a ? a->n : 0, (long long)n);
	return NULL;
}

static bool
parse_mode(Build *b, const char *s, Mode *m)
{
	static const char *const names[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT",
		"BRANCH_EQ", "BRANCH_NEQ",
		"BRANCH_MEMBER", "LEAF"};
	int i;

	for (i = 0; i < 8; i++)
		if (i != MEMBER && strcmp(s, names[i]) == 0) {
			*m = (Mode)i;
			return true;
		}
	return fail(b, "mode \"%s\" is not known", s) != NULL;
}

static bool
feature_ok(Build *b, int64_t f)
{
	return (f >= 0 && f < INT32_MAX) || fail(b, "feature %lld is no column", (long long)f) != NULL;
}

/* ---- the older form: nodes named by tree and number ------------------------------------------ */

typedef struct Key { int64_t tree, id, node; } Key;

static int
by_key(const void *x, const void *y)
{
	const Key *a = x, *b = y;

	if (a->tree != b->tree)
		return a->tree < b->tree ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

static int64_t
find_node(const Key *keys, int64_t n, int64_t tree, int64_t id)
{
	Key k = {tree, id, 0}, *r = bsearch(&k, keys, (size_t)n, sizeof k, by_key);

	return r ? r->node : -1;
}

/* The roots: of each tree the node that is no child of another. */
static bool
find_roots(Build *b, Forest *f, const Key *keys)
{
	char *child = arena_alloc(b->m->arena, (size_t)f->nnodes + 1);
	int64_t i;

	for (i = 0; i < f->nnodes; i++)
		if (f->nodes[i].mode != LEAF)
			child[f->nodes[i].child[0]] = child[f->nodes[i].child[1]] = 1;
	f->roots = NEWN(b->m, int64_t, f->nnodes + 1);
	for (i = 0; i < f->nnodes; i++) {
		if (i && keys[i].tree == keys[i - 1].tree && keys[i].id == keys[i - 1].id)
			return fail(b, "node %lld of tree %lld stands twice", (long long)keys[i].id,
				(long long)keys[i].tree) != NULL;
		if (!child[keys[i].node])
			f->roots[f->ntrees++] = keys[i].node;
	}
	return true;
}

/* What the nodes say; *keys: theirs, sorted. */
static bool
named_nodes(Build *b, Forest *f, Key **keys)
{
	const Attr *modes = attr_find(b->attrs, "nodes_modes");
	const char *track = "nodes_missing_value_tracks_true";
	int64_t n = modes ? modes->n : 0, i;
	const int64_t *tree = ints(b, "nodes_treeids", n), *id = ints(b, "nodes_nodeids", n);
	const int64_t *feature = ints(b, "nodes_featureids", n), *yes = ints(b, "nodes_truenodeids", n);
	const int64_t *no = ints(b, "nodes_falsenodeids", n), *missing = NULL;

	if (!tree || !id || !feature || !yes || !no
	 || (attr_len(b, track) && !(missing = ints(b, track, n))))
		return false;
	if (numbers(b, "nodes_values") != n)
		return fail(b, "%lld values for %lld nodes", (long long)numbers(b, "nodes_values"),
			(long long)n) != NULL;
	f->nnodes = n;
	f->nodes = NEWN(b->m, TreeNode, n + 1);
	*keys = NEWN(b->m, Key, n + 1);
	for (i = 0; i < n; i++)
		(*keys)[i] = (Key){tree[i], id[i], i};
	qsort(*keys, (size_t)n, sizeof **keys, by_key);
	for (i = 0; i < n; i++) {
		TreeNode *t = &f->nodes[i];
		if (!parse_mode(b, modes->ss[i], &t->mode))
			return false;
		if (t->mode == LEAF)
			continue;
		if (!feature_ok(b, feature[i]))
			return false;
		t->feature = (int32_t)feature[i];
		t->value = number(b, "nodes_values", i);
		t->missing_true = missing && missing[i];
		t->child[0] = find_node(*keys, n, tree[i], yes[i]);
		t->child[1] = find_node(*keys, n, tree[i], no[i]);
		if (t->child[0] < 0 || t->child[1] < 0)
			return fail(b, "a child of node %lld of tree %lld does not exist", (long long)id[i],
				(long long)tree[i]) != NULL;
	}
	return true;
}

/* prefix: "class" or "target". */
static bool
named_weights(Build *b, const char *prefix, Forest *f, const Key *keys)
{
	Arena *ar = b->m->arena;
	const char *ids = arena_printf(ar, "%s_ids", prefix);
	const char *weights = arena_printf(ar, "%s_weights", prefix);
	int64_t n = attr_len(b, ids), i, leaf;
	const int64_t *tree = ints(b, arena_printf(ar, "%s_treeids", prefix), n);
	const int64_t *node = ints(b, arena_printf(ar, "%s_nodeids", prefix), n);
	const int64_t *id = ints(b, ids, n);

	if (!tree || !node || !id)
		return false;
	if (numbers(b, weights) != n)
		return fail(b, "%lld weights for %lld leaves", (long long)numbers(b, weights),
			(long long)n) != NULL;
	f->weights = NEWN(b->m, Weight, n + 1);
	for (i = 0; i < n; i++) {
		leaf = find_node(keys, f->nnodes, tree[i], node[i]);
		if (leaf < 0 || id[i] < 0 || id[i] >= f->ntargets)
			return fail(b, "weight %lld is for node %lld of tree %lld and result %lld, which do "
				"not exist", (long long)i, (long long)node[i], (long long)tree[i],
				(long long)id[i]) != NULL;
		if (f->nodes[leaf].mode == LEAF)         /* a weight of an inner node has no effect */
			f->weights[f->nweights++] = (Weight){leaf, id[i], number(b, weights, i)};
	}
	return true;
}

static bool
named_forest(Build *b, const char *prefix, Forest *f)
{
	Key *keys = NULL;

	return named_nodes(b, f, &keys) && find_roots(b, f, keys) && named_weights(b, prefix, f, keys);
}

/* ---- the newer form: inner nodes and leaves in arrays of their own --------------------------- */

/* Node i's set begins at *at of the members, which moves past it. */
static bool
member_set(Build *b, Forest *f, int64_t i, int64_t *at)
{
	f->nodes[i].value = (double)*at;
	while (*at < f->nmembers && !isnan(f->members[*at]))
		++*at;
	if ((*at)++ >= f->nmembers)
		return fail(b, "membership_values end before node %lld's", (long long)i) != NULL;
	return true;
}

/* n inner nodes; leaves, of which there are l, come behind them. */
static bool
array_nodes(Build *b, Forest *f, int64_t n, int64_t l)
{
	const int64_t *feature = ints(b, "nodes_featureids", n), *node[2], *leaf[2], *missing = NULL;
	const char *const tracks = "nodes_missing_value_tracks_true";
	int64_t i, k, c, at = 0;
	double mode;

	node[0] = ints(b, "nodes_truenodeids", n);
	node[1] = ints(b, "nodes_falsenodeids", n);
	leaf[0] = ints(b, "nodes_trueleafs", n);
	leaf[1] = ints(b, "nodes_falseleafs", n);
	if (!feature || !node[0] || !node[1] || !leaf[0] || !leaf[1])
		return false;
	if (attr_len(b, tracks) && !(missing = ints(b, tracks, n)))
		return false;
	for (i = 0; i < n; i++) {
		mode = number(b, "nodes_modes", i);
		if (!(mode >= 0 && mode <= MEMBER) || !feature_ok(b, feature[i]))
			return fail(b, "node %lld has mode %g", (long long)i, mode) != NULL;
		f->nodes[i] = (TreeNode){.mode = (Mode)mode, .feature = (int32_t)feature[i],
			.value = number(b, "nodes_splits", i), .missing_true = missing && missing[i]};
		if (f->nodes[i].mode == MEMBER && !member_set(b, f, i, &at))
			return false;
		for (k = 0; k < 2; k++) {
			c = node[k][i];
			if (c < 0 || c >= (leaf[k][i] ? l : n))
				return fail(b, "a child of node %lld does not exist", (long long)i) != NULL;
			f->nodes[i].child[k] = leaf[k][i] ? n + c : c;
		}
	}
	return true;
}

static bool
array_leaves(Build *b, Forest *f, int64_t n, int64_t l)
{
	const int64_t *target = ints(b, "leaf_targetids", l);
	int64_t i;

	if (!target)
		return false;
	f->weights = NEWN(b->m, Weight, l + 1);
	for (i = 0; i < l; i++) {
		f->nodes[n + i].mode = LEAF;
		if (target[i] < 0 || target[i] >= f->ntargets)
			return fail(b, "leaf %lld is for result %lld of %lld", (long long)i,
				(long long)target[i], (long long)f->ntargets) != NULL;
		f->weights[f->nweights++] = (Weight){n + i, target[i], number(b, "leaf_weights", i)};
	}
	return true;
}

static bool
array_roots(Build *b, Forest *f, int64_t n)
{
	const int64_t *roots;
	int64_t i;

	f->ntrees = attr_len(b, "tree_roots");
	if (!(roots = ints(b, "tree_roots", f->ntrees)))
		return false;
	f->roots = NEWN(b->m, int64_t, f->ntrees + 1);
	for (i = 0; i < f->ntrees; i++) {
		if (roots[i] < 0 || roots[i] >= n)
			return fail(b, "root %lld does not exist", (long long)roots[i]) != NULL;
		f->roots[i] = roots[i];
	}
	return true;
}

static bool
array_forest(Build *b, Forest *f)
{
	int64_t n = numbers(b, "nodes_modes"), l = attr_len(b, "leaf_targetids"), i;
	int64_t splits = numbers(b, "nodes_splits"), weights = numbers(b, "leaf_weights");

	if (n < 0 || splits != n || weights != l)
		return fail(b, "%lld splits for %lld nodes, %lld weights for %lld leaves",
			(long long)splits, (long long)n, (long long)weights, (long long)l) != NULL;
	f->nmembers = numbers(b, "membership_values");
	if (f->nmembers < 0)
		return fail(b, "membership_values are no numbers") != NULL;
	f->members = NEWN(b->m, double, f->nmembers + 1);
	for (i = 0; i < f->nmembers; i++)
		f->members[i] = number(b, "membership_values", i);
	f->members[f->nmembers] = NAN;
	f->nnodes = n + l;
	f->nodes = NEWN(b->m, TreeNode, n + l + 1);
	return array_nodes(b, f, n, l) && array_leaves(b, f, n, l) && array_roots(b, f, n);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The depth of the deepest tree; false if there is a cycle. Trees may share subtrees. */
static bool
measure(Build *b, Forest *f)
{
	int64_t *stack = NEWN(b->m, int64_t, f->nnodes + 1), top, i, k;
	/* 0 unseen, -1 being looked at, else levels below + 1 */
	int *height = NEWN(b->m, int, f->nnodes + 1);
	char *next = NEWN(b->m, char, f->nnodes + 1);    /* children that were looked at */

	for (i = 0; i < f->ntrees; i++) {
		stack[0] = f->roots[i];
		for (top = height[stack[0]] == 0 ? 1 : 0; top > 0;) {
			TreeNode *t = &f->nodes[stack[top - 1]];
			int *h = &height[stack[top - 1]], *c;
			if (t->mode == LEAF) {
				*h = 1;
				top--;
				continue;
			}
			*h = -1;
			k = next[stack[top - 1]]++;
			if (k < 2 && height[t->child[k]] < 0)
				return fail(b, "the nodes of a tree form a cycle") != NULL;
			if (k < 2 && height[t->child[k]] == 0)
				stack[top++] = t->child[k];
			if (k < 2)
				continue;
			c = height;
			*h = 1 + (c[t->child[0]] > c[t->child[1]] ? c[t->child[0]] : c[t->child[1]]);
			top--;
		}
		if (height[f->roots[i]] - 1 > f->depth)
			f->depth = height[f->roots[i]] - 1;
	}
	return true;
}

static void
place_nodes(Build *b, Forest *f)
{
	int64_t i;

	f->place = NEWN(b->m, int64_t, f->nnodes + 1);
	for (i = 0; i < f->nnodes; i++)
		if (f->nodes[i].mode != LEAF)
			f->place[i] = f->ninner++;
	for (i = 0; i < f->nnodes; i++)
		if (f->nodes[i].mode == LEAF)
			f->place[i] = f->ninner + f->nleaves++;
}

typedef enum Column { C_FEATURE, C_VALUE, C_MODE, C_MISSING } Column;

/* A column of the nodes' table. */
static Node *
node_table(Module *m, const Forest *f, DType d, Column what)
{
	int64_t n = f->nnodes, i;
	Data *p = data_new(m, d, n, NULL);
	Num v = {0};

	for (i = 0; i < n; i++) {
		const TreeNode *t = &f->nodes[i];
		switch (what) {
		case C_FEATURE: v.i = t->feature; break;
		case C_VALUE: v = num_round(d, t->mode == LEAF || t->mode == MEMBER ? 0 : t->value); break;
		case C_MODE: v.i = t->mode; break;
		case C_MISSING: v.i = t->missing_true; break;
		}
		data_set((void *)p->bytes, d, f->place[i], v);
	}
	return t_const(m, d, 1, &n, p);
}

/* [nodes, 2]: where to go from a node if its condition is false, true. */
static Node *
child_table(Module *m, const Forest *f)
{
	int64_t dims[2] = {f->nnodes, 2}, i;
	Data *p = data_new(m, DT_I32, 2 * f->nnodes, NULL);
	int32_t *t = (int32_t *)p->bytes;

	for (i = 0; i < f->nnodes; i++) {
		bool leaf = f->nodes[i].mode == LEAF;
		t[2 * f->place[i]] = (int32_t)f->place[leaf ? i : f->nodes[i].child[1]];
		t[2 * f->place[i] + 1] = (int32_t)f->place[leaf ? i : f->nodes[i].child[0]];
	}
	return t_const(m, DT_I32, 2, dims, p);
}

static Node *
root_table(Module *m, const Forest *f)
{
	Data *p = data_new(m, DT_I32, f->ntrees, NULL);
	int64_t i;

	for (i = 0; i < f->ntrees; i++)
		((int32_t *)p->bytes)[i] = (int32_t)f->place[f->roots[i]];
	return t_const(m, DT_I32, 1, &f->ntrees, p);
}

/* Is x in the set of the node? `first` (by node) is where its set begins among the members. */
static Node *
member_of(Module *m, const Forest *f, Node *x, Node *node)
{
	DType d = x->type->dtype;
	int64_t n = f->nnodes, count = f->nmembers + 1, i, longest = 0;
	Data *begin = data_new(m, DT_I32, n, NULL), *len = data_new(m, DT_I32, n, NULL),
		*all = data_new(m, d, count, NULL);
	Node *tb, *tl, *tm, *k, *at, *hit;

	for (i = 0; i < count; i++)
		data_set((void *)all->bytes, d, i, num_round(d, f->members[i]));
	for (i = 0; i < n; i++) {
		int64_t at0 = (int64_t)f->nodes[i].value, size = 0;
		if (f->nodes[i].mode != MEMBER)
			continue;
		while (!isnan(f->members[at0 + size]))
			size++;
		((int32_t *)begin->bytes)[f->place[i]] = (int32_t)at0;
		((int32_t *)len->bytes)[f->place[i]] = (int32_t)size;
		longest = size > longest ? size : longest;
	}
	tb = t_const(m, DT_I32, 1, &n, begin);
	tl = t_const(m, DT_I32, 1, &n, len);
	tm = t_const(m, d, 1, &count, all);
	k = x_axis(m, x_idx(m, longest));
	at = x_add(m, x_cast(m, DT_INDEX, x_read(m, tb, &node)), k);
	hit = x_lt(m, x_cast(m, DT_I32, k), x_read(m, tl, &node));
	hit = x_select(m, hit, x_eq(m, x, x_read(m, tm, &at)), x_bool(m, false));
	return x_reduce(m, COMB_OR, 1, &k, hit);
}

/* Does x satisfy the node's condition? Only the modes that occur are asked for. */
static Node *
condition(Module *m, const Forest *f, Node *x, Node *v, Node *node)
{
	bool used[LEAF + 1] = {false}, missing = false;
	Node *mode = NULL, *e = NULL, *test, *modes;
	int64_t i;
	int k, n = 0;

	for (i = 0; i < f->nnodes; i++) {
		used[f->nodes[i].mode] = true;
		missing |= f->nodes[i].missing_true;
	}
	for (k = 0; k < LEAF; k++)
		n += used[k];
	if (n > 1) {
		modes = node_table(m, f, DT_I32, C_MODE);
		mode = x_read(m, modes, &node);
	}
	for (k = 0; k < LEAF; k++) {
		if (!used[k])
			continue;
		switch ((Mode)k) {
		case LEQ: test = x_le(m, x, v); break;
		case LT: test = x_lt(m, x, v); break;
		case GTE: test = x_le(m, v, x); break;
		case GT: test = x_lt(m, v, x); break;
		case EQ: test = x_eq(m, x, v); break;
		case NEQ: test = x_ne(m, x, v); break;
		default: test = member_of(m, f, x, node); break;
		}
		e = e ? x_select(m, x_eq(m, mode, x_int(m, DT_I32, k)), test, e) : test;
	}
	if (!e)
		return x_bool(m, false);
	if (missing)
		e = x_or(m, e, x_and(m, x_ne(m, x, x),
			x_read(m, node_table(m, f, DT_BOOL, C_MISSING), &node)));
	return e;
}

/* [n, trees]: the number of the leaf that each row reaches, from 0. */
static Node *
leaves(Build *b, const Forest *f, Node *x, DType c)
{
	Module *m = b->m;
	Node *axes[2], *step, *carry = x_carry(m, DT_I32), *node = x_cast(m, DT_INDEX, carry), *idx[2],
		*e, *v, *feature;
	Node *table;

	axes[0] = x_axis(m, dim_of(x, 0));
	axes[1] = x_axis(m, x_idx(m, f->ntrees));
	step = x_axis(m, x_idx(m, f->depth));
	feature = node_table(m, f, DT_I32, C_FEATURE);
	table = node_table(m, f, c, C_VALUE);
	v = x_read(m, table, &node);
	idx[0] = axes[0];
	idx[1] = x_cast(m, DT_INDEX, x_read(m, feature, &node));
	e = condition(m, f, x_cast(m, c, x_read(m, x, idx)), v, node);
	idx[0] = node;
	idx[1] = x_select(m, e, x_idx(m, 1), x_idx(m, 0));
	e = x_read(m, child_table(m, f), idx);
	e = x_iter(m, step, carry, x_read(m, root_table(m, f), &axes[1]), e);
	return t_tensor(m, 2, axes, x_sub(m, e, x_int(m, DT_I32, f->ninner)));
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Does no leaf have more than one weight? */
static bool
single(Build *b, const Forest *f)
{
	char *seen = arena_alloc(b->m->arena, (size_t)f->nnodes + 1);
	int64_t i;

	for (i = 0; i < f->nweights; i++)
		if (seen[f->weights[i].leaf]++)
			return false;
	return true;
}

/*
 * The weight of leaf `leaf` for target `target`, by a table of [leaves, targets] or, where each
 * leaf has one weight, of the weights and their targets. none: for those that have no weight.
 */
static Node *
weight_read(Build *b, const Forest *f, DType c, Comb comb, Node *leaf, Node *target)
{
	Module *m = b->m;
	int64_t n = f->nleaves, dims[2] = {n, f->ntargets}, i, count, at;
	Num none = x_comb_identity(m, comb, c)->num, v;
	bool one = single(b, f);
	Data *w, *t;
	Node *idx[2] = {leaf, target}, *e;

	if (f->ntargets == 1)
		dims[1] = 1;
	count = one ? n : n * dims[1];
	if (!one && !mul_ok(n, f->ntargets, &count))
		return fail(b, "too many leaves");
	if (count > (int64_t)1 << 26)
		return unsupported(b, "%lld leaves with %lld results", (long long)n,
			(long long)f->ntargets);
	w = data_new(m, c, count, NULL);
	t = data_new(m, DT_I32, n, NULL);
	for (i = 0; i < count; i++)
		data_set((void *)w->bytes, c, i, none);
	for (i = 0; i < f->nweights; i++) {
		int64_t l = f->place[f->weights[i].leaf] - f->ninner;
		at = one ? l : l * f->ntargets + f->weights[i].target;
		v = data_get(w, c, at);
		v.f = comb == COMB_SUM ? v.f + f->weights[i].weight : comb == COMB_MIN
			? fmin(v.f, f->weights[i].weight)
			: fmax(v.f, f->weights[i].weight);
		data_set((void *)w->bytes, c, at, num_round(c, v.f));
		data_set((void *)t->bytes, DT_I32, l, (Num){.i = f->weights[i].target});
	}
	if (!one)
		return x_read(m, t_const(m, c, 2, dims, w), idx);
	e = x_read(m, t_const(m, c, 1, &n, w), &leaf);
	if (f->ntargets == 1)
		return e;
	return x_select(m, x_eq(m, x_read(m, t_const(m, DT_I32, 1, &n, t), &leaf),
		x_cast(m, DT_I32, target)), e,
		x_num(m, c, none));
}

static void
check_features(Build *b, const Forest *f, Node *x)
{
	int64_t i, last = -1;

	for (i = 0; i < f->nnodes; i++)
		if (f->nodes[i].mode != LEAF && f->nodes[i].feature > last)
			last = f->nodes[i].feature;
	require(b->m, x_lt(b->m, x_idx(b->m, last), dim_of(x, 1)), b->loc,
		"a tree asks for feature %lld of %s", (long long)last, expr_print(b->m, dim_of(x, 1)));
}

/* The forest in the form without walks that costs least, or NULL: walks do. */
static Node *
without_walk(Build *b, const Forest *f, Node *x, DType c, Comb comb)
{
	const TreeList *list = list_forest(b->m, f);
	double cost, walk = WALK_COST * (double)f->ntrees * (f->depth + 1);
	Intervals *v = list ? find_intervals(b->m, list, c, &cost) : NULL;
	Node *e;

	if (!list)
		return NULL;
	v = v && cost < walk ? v : NULL;
	e = forest_by_masks(b, list, x, c, comb, v ? cost : walk);
	return e ? e : v ? forest_by_intervals(b, v, x, comb) : NULL;
}

/* [n, targets]: the combined weights of all trees. */
static Node *
combined(Build *b, Forest *f, Node *x, DType c, Comb comb)
{
	Module *m = b->m;
	Node *leaf, *axes[2], *t, *idx[2], *e;

	if (f->ntrees < 1 || f->ntargets < 1 || f->nnodes > INT32_MAX)
		return fail(b, "%lld trees with %lld results", (long long)f->ntrees,
			(long long)f->ntargets);
	if (!measure(b, f))
		return NULL;
	check_features(b, f, x);
	if ((e = without_walk(b, f, x, c, comb)))
		return e;
	place_nodes(b, f);
	leaf = leaves(b, f, x, c);
	axes[0] = idx[0] = x_axis(m, dim_of(x, 0));
	axes[1] = x_axis(m, x_idx(m, f->ntargets));
	idx[1] = t = x_axis(m, x_idx(m, f->ntrees));
	e = weight_read(b, f, c, comb, x_cast(m, DT_INDEX, x_read(m, leaf, idx)), axes[1]);
	return e ? t_tensor(m, 2, axes, x_reduce(m, comb, 1, &t, e)) : NULL;
}

/* scores * factor + base (one for all or one each), as type d. */
static Node *
based(Build *b, Node *scores, double divide, DType d)
{
	Module *m = b->m;
	int64_t n = numbers(b, "base_values"), i;
	Node *axes[2], *e, *at;
	DType c = dtype_of(scores);
	Data *p;

	axes_new(m, 2, scores->type->dims, axes);
	e = x_read(m, scores, axes);
	if (divide != 1)
		e = x2(m, O_DIV, e, x_flt(m, c, divide));
	if (n > 0) {
		p = data_new(m, c, n, NULL);
		for (i = 0; i < n; i++)
			data_set((void *)p->bytes, c, i, num_round(c, number(b, "base_values", i)));
		require(m, x_or(m, x_bool(m, n == 1), x_eq(m, dim_of(scores, 1), x_idx(m, n))), b->loc,
			"%lld base values for %s results", (long long)n, expr_print(m, dim_of(scores, 1)));
		at = n == 1 ? x_idx(m, 0) : axes[1];
		e = x_add(m, e, x_read(m, t_const(m, c, 1, &n, p), &at));
	}
	return t_tensor(m, 2, axes, x_cast(m, d, e));
}

static DType
compute_type(Build *b)
{
	return dtype_of(b->in[0]) == DT_F64 ? DT_F64 : DT_F32;
}

static Node *
build_tree_regressor(Build *b)
{
	static const char *const names[] = {"AVERAGE", "SUM", "MIN", "MAX"};
	const char *how = attr_str(b, "aggregate_function");
	Forest f = {.ntargets = attr_int(b, "n_targets")};
	Node *x = feature_rows(b, b->in[0]), *s;
	Post post;
	int k;

	for (k = 0; k < 4 && strcmp(how, names[k]); k++)
		;
	if (k == 4)
		return fail(b, "aggregate_function \"%s\" is not known", how);
	if (f.ntargets < 1 || f.ntargets > 1 << 24)
		return fail(b, "n_targets is %lld", (long long)f.ntargets);
	if (!x || !post_attr(b, &post) || !named_forest(b, "target", &f))
		return NULL;
	s = combined(b, &f, x, compute_type(b), k == 2 ? COMB_MIN : k == 3 ? COMB_MAX : COMB_SUM);
	if (!s)
		return NULL;
	return post_transform(b, post, based(b, s, k == 0 ? (double)f.ntrees : 1, DT_F32));
}

static Node *
build_tree_ensemble(Build *b)
{
	int64_t how = attr_int(b, "aggregate_function"), post = attr_int(b, "post_transform");
	Forest f = {.ntargets = attr_find(b->attrs, "n_targets") ? attr_int(b, "n_targets") : 1};
	DType d = dtype_of(b->in[0]);
	Node *x = feature_rows(b, b->in[0]), *s;

	if (how < 0 || how > 3 || post < 0 || post > POST_PROBIT)
		return fail(b, "aggregate_function %lld, post_transform %lld", (long long)how,
			(long long)post);
	if (f.ntargets < 1 || f.ntargets > 1 << 24)
		return fail(b, "n_targets is %lld", (long long)f.ntargets);
	if (!x || !array_forest(b, &f))
		return NULL;
	s = combined(b, &f, x, compute_type(b), how == 2 ? COMB_MIN : how == 3 ? COMB_MAX : COMB_SUM);
	if (!s)
		return NULL;
	return post_transform(b, (Post)post, based(b, s, how == 0 ? (double)f.ntrees : 1, d));
}

/* One class has all the weights: its score stands for both labels. */
static Node *
binary(Build *b, const Forest *f, Node *labels, Node *s, Post post)
{
	bool positive = true;
	int64_t i, cls = f->nweights ? f->weights[0].target : 0;
	Node *axes[2] = {x_axis(b->m, dim_of(s, 0)), x_axis(b->m, x_idx(b->m, 1))},
		*idx[2] = {axes[0], x_idx(b->m, cls)};

	for (i = 0; i < f->nweights; i++)
		positive &= f->weights[i].weight >= 0;
	s = t_tensor(b->m, 2, axes, x_read(b->m, s, idx));
	return t_tuple(b->m, 2, (Node *[]){label_if(b->m, labels, s, positive ? 0.5 : 0),
		two_columns(b, post, s, !positive)});
}

/* One label: 1 where its score is positive, else 0. */
static Node *
lone_label(Module *m, Node *s)
{
	Node *axis = x_axis(m, dim_of(s, 0)), *idx[2] = {axis, x_idx(m, 0)}, *e = x_read(m, s, idx);

	return t_tensor(m, 1, &axis, x_cast(m, DT_I64, x_lt(m, x_int(m, e->type->dtype, 0), e)));
}

static Node *
build_tree_classifier(Build *b)
{
	Module *m = b->m;
	Node *labels = class_labels(b, "classlabels_int64s", "classlabels_strings"), *x, *s, *which,
		*out[2];
	Forest f = {.ntargets = labels ? dim_of(labels, 0)->num.i : 0};
	bool one = true;
	int64_t i;
	Post post;

	x = labels ? feature_rows(b, b->in[0]) : NULL;
	if (!x || !post_attr(b, &post) || !named_forest(b, "class", &f))
		return NULL;
	for (i = 0; i < f.nweights; i++)
		one &= f.weights[i].target == f.weights[0].target;
	if (f.ntargets == 2 && one && numbers(b, "base_values") < 2) {
		for (i = 0; i < f.nweights; i++)
			f.weights[i].target = 0;
		f.ntargets = 1;
		s = combined(b, &f, x, compute_type(b), COMB_SUM);
		return s ? binary(b, &f, labels, based(b, s, 1, DT_F32), post) : NULL;
	}
	s = combined(b, &f, x, compute_type(b), COMB_SUM);
	if (!s)
		return NULL;
	s = based(b, s, 1, DT_F32);
	if (f.ntargets == 1 && dtype_of(labels) == DT_I64) {
		out[0] = lone_label(m, s);
	} else {
		which = call(b, "argmax", 1, &s, "axis=1, keepdims=0");
		if (!which)
			return NULL;
		out[0] = label_of(m, labels, which);
	}
	out[1] = post_transform(b, post, s);
	return out[1] ? t_tuple(m, 2, out) : NULL;
}

#define NAMED "nodes_falsenodeids: ints?, nodes_featureids: ints?, nodes_hitrates: floats?," \
	" nodes_hitrates_as_tensor: tensor?, nodes_missing_value_tracks_true: ints?," \
	" nodes_modes: strs?," \
	" nodes_nodeids: ints?, nodes_treeids: ints?, nodes_truenodeids: ints?," \
	" nodes_values: floats?," \
	" nodes_values_as_tensor: tensor?, post_transform: str = \"NONE\""
#define BASE "base_values: floats?, base_values_as_tensor: tensor?, "
#define ML_NUM "f32|f64|i64|i32"

const Op ops_trees[] = {
	BUILD("tree_ensemble_regressor", "ai.onnx.ml:TreeEnsembleRegressor", 5, "(x: " ML_NUM ")"
		" {aggregate_function: str = \"SUM\", " BASE "n_targets: int?, " NAMED ","
		" target_ids: ints?, target_nodeids: ints?,"
		" target_treeids: ints?, target_weights: floats?, target_weights_as_tensor: tensor?} -> y",
		build_tree_regressor, "regression by trees"),
	BUILD("tree_ensemble_classifier", "ai.onnx.ml:TreeEnsembleClassifier", 5, "(x: " ML_NUM ")"
		" {" BASE "class_ids: ints?, class_nodeids: ints?, class_treeids: ints?,"
		" class_weights: floats?,"
		" class_weights_as_tensor: tensor?, classlabels_int64s: ints?, classlabels_strings: strs?, "
			NAMED "} -> y, z",
		build_tree_classifier, "classification by trees: labels, scores"),
	BUILD("tree_ensemble", "ai.onnx.ml:TreeEnsemble", 5,
	"(x: float) {aggregate_function: int = 1, leaf_targetids: ints,"
		" leaf_weights: tensor, membership_values: tensor?, n_targets: int?,"
		" nodes_falseleafs: ints, nodes_falsenodeids: ints, nodes_featureids: ints,"
		" nodes_hitrates: tensor?, nodes_missing_value_tracks_true: ints?, nodes_modes: tensor,"
		" nodes_splits: tensor, nodes_trueleafs: ints, nodes_truenodeids: ints,"
		" post_transform: int = 0, tree_roots: ints} -> y",
		build_tree_ensemble,
		"trees given by arrays"),
	{0}
};
