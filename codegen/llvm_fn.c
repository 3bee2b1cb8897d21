/*
 * Statements, and the function of a kernel. Loops are written rotated (test at the end, guard in
 * front) so that no pass has to do it; unroll loops are unrolled here, and register tiles become
 * allocas with constant indices that SROA turns into values.
 */
#include <stdlib.h>
#include <string.h>
#include "llvm.h"

enum { MAX_LANES = 64, MAX_UNROLL = 4096, MAX_SCOPES = 48 };

void
emit_region(Fn *f, Region *r)
{
	Mark mark = memo_mark(f);
	int i;

	for (i = 0; i < r->nresults && !f->why; i++) {
		memo_next(f);
		emit_stmt(f, r->results[i]);
	}
	memo_next(f);
	memo_undo(f, mark);
}

/* ---- loops ------------------------------------------------------------------------------------ */

/* for axis in [lo, hi): body. nonempty: proved. */
static void
loop(Fn *f, Node *axis, Val lo, Val hi, bool nonempty, Region *body)
{
	Block head = LLVMGetInsertBlock(f->b), in = new_block(f, "loop"), out = new_block(f, "end"), back[2];
	Val i, next, from[2];

	if (nonempty)
		LLVMBuildBr(f->b, in);
	else
		LLVMBuildCondBr(f->b, LLVMBuildICmp(f->b, LLVMIntSLT, lo, hi, ""), in, out);
	LLVMPositionBuilderAtEnd(f->b, in);
	i = LLVMBuildPhi(f->b, LLVMInt64TypeInContext(f->cx), "i");
	f->loops++;
	map_put(&f->env, axis, i);
	map_put(&f->depth, axis, (void *)(intptr_t)f->loops);
	emit_region(f, body);
	f->loops--;
	next = LLVMBuildNSWAdd(f->b, i, i64c(f, 1), "");
	from[0] = lo;
	from[1] = next;
	back[0] = head;
	back[1] = LLVMGetInsertBlock(f->b);
	LLVMBuildCondBr(f->b, LLVMBuildICmp(f->b, LLVMIntSLT, next, hi, ""), in, out);
	LLVMAddIncoming(i, from, back, 2);
	LLVMPositionBuilderAtEnd(f->b, out);
}

static void
unrolled(Fn *f, Node *axis, int64_t n, Region *body)
{
	int64_t i;

	f->nconsts++;
	for (i = 0; i < n && !f->why; i++) {
		map_put(&f->env, axis, i64c(f, i));
		map_put(&f->consts, axis, x_idx(f->m, i));
		map_put(&f->depth, axis, NULL);
		emit_region(f, body);
	}
	map_put(&f->consts, axis, NULL);
	f->nconsts--;
}

/* ---- vector loops ------------------------------------------------------------------------------- */

/* Register tiles that are allocated inside a vector loop are private to the lanes. on: noted with
 * their storage; off: forgotten, after a loop that is written for one lane after all. */
static void
private_tiles(Fn *f, Region *r, int lanes, bool on)
{
	Node *s, *b;
	Mem *m;
	int64_t n, e;
	int i, k;

	for (i = 0; i < r->nresults; i++) {
		s = r->results[i];
		for (k = 0; k < s->nregions; k++)
			private_tiles(f, s->regions[k], lanes, on);
		if (s->code != O_ALLOC || s->in[0]->type->space != SP_REG)
			continue;
		b = s->in[0];
		if (!on) {
			map_put(&f->mem, b, NULL);
			continue;
		}
		for (n = 1, k = 0; k < b->nin; k++)
			n *= is_int(b->in[k], &e) ? e : 0;
		m = NEW(f->m, Mem);
		m->elem = mem_type(f->cx, b->type->dtype);
		m->lanes = lanes;
		m->base = local(f, LLVMArrayType2(vec_of(m->elem, lanes), (uint64_t)n), b->name ? b->name : "");
		map_put(&f->mem, b, m);
	}
}

static bool vector_ok(Fn *, Region *);

static bool
vector_stmt_ok(Fn *f, Node *s)
{
	Val old = f->mask;
	bool ok;
	int i;

	switch (s->code) {
	case O_FOR:
		return s->n != F_VECTOR && s->n != F_PARALLEL && !varies(f, s->in[0]->in[0])
			&& vector_ok(f, s->regions[0]);
	case O_STORE:
		return st_vector_ok(f, s);
	case O_ALLOC:
		return s->in[0]->type->space == SP_REG;
	case O_LET: case O_BARRIER: case O_PREFETCH:
		return true;
	case O_WHEN:
		if (varies(f, s->in[0]))
			f->mask = LLVMGetPoison(LLVMInt1TypeInContext(f->cx));   /* only asked whether there is one */
		for (ok = true, i = 0; i < s->nregions && ok; i++)
			ok = !s->regions[i] || vector_ok(f, s->regions[i]);
		f->mask = old;
		return ok;
	default:
		return false;
	}
}

static bool
vector_ok(Fn *f, Region *r)
{
	int i;

	for (i = 0; i < r->nresults; i++)
		if (!vector_stmt_ok(f, r->results[i]))
			return false;
	return true;
}

/* True if the loop was written for all lanes at once. */
static bool
vector(Fn *f, Node *axis, int64_t n, Region *body)
{
	bool ok;

	if (f->vaxis || n < 2 || n > MAX_LANES || (n & (n - 1)) || f->t->vector_bits == 0)
		return false;
	f->vaxis = axis;
	f->lanes = (int)n;
	private_tiles(f, body, f->lanes, true);
	ok = vector_ok(f, body);
	if (ok)
		emit_region(f, body);
	private_tiles(f, body, 0, false);
	map_free(&f->varies);
	f->vaxis = NULL;
	f->lanes = 0;
	return ok;
}

/* Nodes that a region's loops would become if all were unrolled, from its small constant extents;
 * more than `most` counts as most + 1. */
static int
unrolled_size(Region *r, int most)
{
	int64_t n;
	int size = 0, i, k, in;
	Node *s;

	for (i = 0; i < r->nresults && size <= most; i++) {
		s = r->results[i];
		for (k = 0; k < s->nin && s->code != O_FOR; k++)
			size += s->in[k]->size > (uint32_t)most ? most + 1 : (int)s->in[k]->size;
		for (k = 0; k < s->nregions && size <= most; k++) {
			in = s->regions[k] ? unrolled_size(s->regions[k], most) : 0;
			if (s->code != O_FOR || s->n == F_VECTOR)
				size += in;
			else
				size += is_int(s->in[0]->in[0], &n) && n <= 16 ? (int)n * in : most + 1;
		}
	}
	return size <= most ? size : most + 1;
}

enum { SMALL_TRIPS = 8, SMALL_BODY = 160 };

/* Windows of a few taps and the like: a loop would cost more than what it does. */
static bool
worth_unrolling(const Fn *f, int64_t n, Region *body)
{
	return !f->run && f->c->job->level > 0 && n <= SMALL_TRIPS
		&& n * unrolled_size(body, SMALL_BODY) <= SMALL_BODY;
}

static void
for_(Fn *f, Node *s)
{
	Node *axis = s->in[0], *extent = axis->in[0];
	Region *body = s->regions[0];
	int64_t n = -1;
	bool fixed = is_int(extent, &n);

	if (fixed && n <= 0)
		return;
	if (fixed && ((s->n == F_VECTOR && vector(f, axis, n, body)) || transposed(f, s)))
		return;
	if (fixed && (n == 1 || (s->n == F_UNROLL && n <= MAX_UNROLL) || worth_unrolling(f, n, body))) {
		unrolled(f, axis, n, body);
		return;
	}
	loop(f, axis, i64c(f, 0), ex_index(f, extent), fixed || extent->lo > 0, body);
}

/* ---- the other statements -------------------------------------------------------------------------- */

static void
branch(Fn *f, Node *s, Val c)
{
	Region *els = s->nregions > 1 ? s->regions[1] : NULL;
	Block a = new_block(f, "then"), on = new_block(f, "on"), b = els ? new_block(f, "else") : on;

	LLVMBuildCondBr(f->b, c, a, b);
	LLVMPositionBuilderAtEnd(f->b, a);
	emit_region(f, s->regions[0]);
	LLVMBuildBr(f->b, on);
	if (els) {
		LLVMPositionBuilderAtEnd(f->b, b);
		emit_region(f, els);
		LLVMBuildBr(f->b, on);
	}
	LLVMPositionBuilderAtEnd(f->b, on);
}

static void
when(Fn *f, Node *s)
{
	Val c = ex(f, s->in[0]), old = f->mask, not;

	if (!is_vec(c)) {
		branch(f, s, c);
		return;
	}
	f->mask = old ? LLVMBuildAnd(f->b, old, c, "") : c;
	emit_region(f, s->regions[0]);
	if (s->nregions > 1 && s->regions[1]) {
		not = LLVMBuildNot(f->b, c, "");
		f->mask = old ? LLVMBuildAnd(f->b, old, not, "") : not;
		emit_region(f, s->regions[1]);
	}
	f->mask = old;
}

static void
alloc(Fn *f, Node *b)
{
	Mem *m;
	int64_t n = 1, e;
	int k;

	if (map_get(&f->mem, b) || b->type->space == SP_TILE)
		return;         /* met before, in an unrolled loop; private; or on the stack */
	for (k = 0; k < b->nin; k++)
		n = is_int(b->in[k], &e) && e >= 0 && n < 1 << 20 ? n * e : -1;
	if (n < 0 || n > 1 << 20) {
		bug(f, "a register tile without a small constant size");
		return;
	}
	m = NEW(f->m, Mem);
	m->elem = mem_type(f->cx, b->type->dtype);
	m->base = local(f, LLVMArrayType2(m->elem, (uint64_t)(n ? n : 1)), b->name ? b->name : "");
	map_put(&f->mem, b, m);
}

void
emit_stmt(Fn *f, Node *s)
{
	switch (s->code) {
	case O_FOR:
		for_(f, s);
		break;
	case O_STORE:
		if (s->in[0]->type->space == SP_TILE)
			tile_clear(f, s);
		else
			st(f, s);
		break;
	case O_MOVE:
		tile_move(f, s);
		break;
	case O_MMA:
		tile_mma(f, s);
		break;
	case O_LET:
		map_put(&f->depth, s, (void *)(intptr_t)f->loops);
		map_put(&f->env, s, ex(f, s->in[0]));
		break;
	case O_WHEN:
		when(f, s);
		break;
	case O_ALLOC:
		alloc(f, s->in[0]);
		break;
	case O_BARRIER:
		break;
	case O_PREFETCH:
		prefetch(f, s);
		break;
	case O_CALL: case O_WHILE: case O_BREAK:
		plan_stmt(f, s);
		break;
	default:
		bug(f, s->op->name);
	}
}

/* ---- kernels ------------------------------------------------------------------------------------------ */

static LLVMMetadataRef
text_node(Fn *f, const char *name, LLVMMetadataRef second)
{
	LLVMMetadataRef n[2] = {LLVMMDStringInContext2(f->cx, name, strlen(name)), second};

	return LLVMMDNodeInContext2(f->cx, n, second ? 2 : 1);
}

/* Buffers do not overlap: every written one has a scope of its own, those that are only read share
 * one. Names that are unique in the module make the nodes unique. */
static void
scopes(Fn *f, const char *symbol, Mem **mem, const bool *written, int n)
{
	LLVMMetadataRef domain = text_node(f, symbol, NULL), all[MAX_SCOPES + 2], rest[MAX_SCOPES + 2];
	char name[256];
	int i, k, j, nw = 0, own[MAX_SCOPES + 2];

	for (i = 0; i < n; i++)
		nw += written[i];
	if (nw > MAX_SCOPES)
		return;
	snprintf(name, sizeof name, "%s.read", symbol);
	all[0] = text_node(f, name, domain);
	for (i = 0, k = 1; i < n; i++)
		if (written[i]) {
			snprintf(name, sizeof name, "%s.%d", symbol, i);
			all[k] = text_node(f, name, domain);
			own[k++] = i;
		}
	for (i = 0; i < n; i++) {
		for (k = 0, j = 0; k <= nw; k++)
			if (written[i] ? k == 0 || own[k] != i : k > 0)
				rest[j++] = all[k];
		for (k = 0; written[i] && k <= nw && (k == 0 || own[k] != i); k++)
			;
		mem[i]->scope = LLVMMDNodeInContext2(f->cx, &all[written[i] ? k : 0], 1);
		mem[i]->noalias = LLVMMDNodeInContext2(f->cx, rest, (size_t)j);
	}
}

/* Stack buffers in order of their allocs; at most max. */
static int
stack_allocs(Region *r, Node **out, int n, int max)
{
	Node *s;
	int i, k;

	for (i = 0; i < r->nresults; i++) {
		s = r->results[i];
		if (s->code == O_ALLOC && s->in[0]->type->space == SP_STACK && n < max)
			out[n++] = s->in[0];
		for (k = 0; k < s->nregions; k++)
			if (s->regions[k])
				n = stack_allocs(s->regions[k], out, n, max);
	}
	return n;
}

static Val
param_load(Fn *f, Val base, int i, Ty t)
{
	Val k = i64c(f, i), v;

	v = LLVMBuildLoad2(f->b, t, LLVMBuildGEP2(f->b, t, base, &k, 1, ""), "");
	LLVMSetMetadata(v, f->md_invariant, LLVMMetadataAsValue(f->cx, LLVMMDNodeInContext2(f->cx, NULL, 0)));
	return v;
}

/* Buffers and symbols of the kernel as values at its head; stack buffers behind each other. */
static void
bind(Fn *f, const Kernel *k, const char *symbol)
{
	Node *stack[256], *b, *bytes, *at = x_idx(f->m, 0);
	int ns = stack_allocs(k->body, stack, 0, 256), n = k->nbufs + ns, i, j;
	Mem **mem = NEWN(f->m, Mem *, n + 1);
	bool *written = NEWN(f->m, bool, n + 1);
	Ty pt = LLVMPointerTypeInContext(f->cx, 0);
	Val off;

	for (i = 0; i < k->nsyms; i++)
		map_put(&f->env, k->syms[i], param_load(f, LLVMGetParam(f->fn, 1), i, LLVMInt64TypeInContext(f->cx)));
	for (i = 0; i < n; i++) {
		b = i < k->nbufs ? k->bufs[i] : stack[i - k->nbufs];
		mem[i] = NEW(f->m, Mem);
		mem[i]->elem = mem_type(f->cx, b->type->dtype);
		written[i] = i >= k->nbufs || k->writes[i];
		mem[i]->fixed = !written[i];
		if (i < k->nbufs) {
			mem[i]->base = param_load(f, LLVMGetParam(f->fn, 0), i, pt);
		} else {
			off = ex_index(f, at);
			mem[i]->base = LLVMBuildGEP2(f->b, LLVMInt8TypeInContext(f->cx), LLVMGetParam(f->fn, 4), &off, 1, "");
			bytes = x_idx(f->m, dtypes[b->type->dtype].bits < 8 ? 1 : dtypes[b->type->dtype].bits / 8);
			for (j = 0; j < b->nin; j++)
				bytes = x_mul(f->m, bytes, b->in[j]);
			at = x_add(f->m, at, x_muli(f->m, x_ceildiv(f->m, bytes, x_idx(f->m, 64)), 64));
		}
		map_put(&f->mem, b, mem[i]);
	}
	scopes(f, symbol, mem, written, n);
}

static void
enum_attr(Fn *f, unsigned at, const char *name)
{
	unsigned k = LLVMGetEnumAttributeKindForName(name, strlen(name));

	LLVMAddAttributeAtIndex(f->fn, at, LLVMCreateEnumAttribute(f->cx, k, 0));
}

static void
text_attr(Fn *f, Val fn, const char *name, const char *value)
{
	LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, LLVMCreateStringAttribute(f->cx, name,
		(unsigned)strlen(name), value, (unsigned)strlen(value)));
}

void
fn_attributes(Fn *f, Val fn)
{
	unsigned k = LLVMGetEnumAttributeKindForName("nounwind", 8);
	char width[16];

	LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(f->cx, k, 0));
	text_attr(f, fn, "target-cpu", f->t->cpu);
	text_attr(f, fn, "target-features", f->t->features);
	text_attr(f, fn, "no-builtins", "");
	if (f->t->vector_bits) {
		snprintf(width, sizeof width, "%d", f->t->vector_bits);
		text_attr(f, fn, "prefer-vector-width", width);
	}
}

static void
kernel_params(Fn *f)
{
	enum_attr(f, 1, "noalias");
	enum_attr(f, 2, "noalias");
	enum_attr(f, 5, "noalias");
	enum_attr(f, 6, "noalias");
	enum_attr(f, 1, "readonly");
	enum_attr(f, 2, "readonly");
}

/* The body: its parallel loop runs over the given part. */
static void
kernel_body(Fn *f, Region *r)
{
	Node *s;
	int i;

	for (i = 0; i < r->nresults && !f->why; i++) {
		s = r->results[i];
		memo_next(f);
		if (s->code == O_FOR && s->n == F_PARALLEL)
			loop(f, s->in[0], LLVMGetParam(f->fn, 2), LLVMGetParam(f->fn, 3), false, s->regions[0]);
		else
			emit_stmt(f, s);
	}
}

void
fn_begin(Fn *f, Chunk *c, const char *symbol, Ty type)
{
	f->c = c;
	f->m = c->job->m;
	f->cx = c->cx;
	f->mod = c->mod;
	f->b = LLVMCreateBuilderInContext(c->cx);
	f->fn = LLVMAddFunction(c->mod, symbol, type);
	LLVMSetVisibility(f->fn, LLVMHiddenVisibility);
	f->md_scope = LLVMGetMDKindIDInContext(c->cx, "alias.scope", 11);
	f->md_noalias = LLVMGetMDKindIDInContext(c->cx, "noalias", 7);
	f->md_invariant = LLVMGetMDKindIDInContext(c->cx, "invariant.load", 14);
	fn_attributes(f, f->fn);
	f->entry = new_block(f, "entry");
	f->body = new_block(f, "body");
	LLVMPositionBuilderAtEnd(f->b, f->body);
}

void
fn_end(Fn *f, const char *what)
{
	LLVMPositionBuilderAtEnd(f->b, f->entry);
	LLVMBuildBr(f->b, f->body);
	if (f->why && !f->c->error) {
		f->c->error = malloc(512);
		if (f->c->error)
			snprintf(f->c->error, 512, "%s: cannot write %s", what, f->why);
	}
	map_free(&f->env);
	map_free(&f->depth);
	map_free(&f->mem);
	map_free(&f->tiles);
	map_free(&f->consts);
	map_free(&f->memo);
	map_free(&f->stable);
	map_free(&f->varies);
	map_free(&f->slots);
	LLVMDisposeBuilder(f->b);
}

Val
emit_kernel(Chunk *c, const Kernel *k, const char *symbol)
{
	Fn f = {.k = k, .t = c->job->machine};
	bool tiles;
	Ty p = LLVMPointerTypeInContext(c->cx, 0), l = LLVMInt64TypeInContext(c->cx);
	Ty t = LLVMFunctionType(LLVMVoidTypeInContext(c->cx), (Ty[]){p, p, l, l, p, p}, 6, false);

	fn_begin(&f, c, symbol, t);
	f.err = LLVMGetParam(f.fn, 5);
	kernel_params(&f);
	bind(&f, k, symbol);
	tiles = tiles_begin(&f, k->body);
	kernel_body(&f, k->body);
	if (tiles)
		tiles_end(&f);
	LLVMBuildRetVoid(f.b);
	fn_end(&f, k->name);
	return f.fn;
}
