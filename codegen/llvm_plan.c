/*
 * The host plan: int64 scalars, stack arrays and calls through run->api. A plan with many launches
 * becomes several functions, cut at its top level, since LLVM's time grows faster than a function;
 * what one part computes for another lies in a frame of int64s.
 */
#include <stdlib.h>
#include <string.h>
#include "llvm.h"
#include "runtime/abi.h"

enum { MAX_LAUNCHES = 200 };

static const struct { const char *name, *sig; bool status; } entries[] = {
#define ENTRY(type, name, sig, params) {#name, sig, sizeof(type) == 4},
	TCC_API(ENTRY)
#undef ENTRY
};

static Ty
l64(Fn *f)
{
	return LLVMInt64TypeInContext(f->cx);
}

static Ty
l32(Fn *f)
{
	return LLVMInt32TypeInContext(f->cx);
}

static Val
slot(Fn *f, intptr_t i)
{
	Val k = i64c(f, i - 1);

	return LLVMBuildGEP2(f->b, l64(f), f->frame, &k, 1, "");
}

Val
plan_value(Fn *f, Node *e)
{
	intptr_t i = f->frame ? (intptr_t)map_get(&f->slots, e) : 0;

	return i ? LLVMBuildLoad2(f->b, l64(f), slot(f, i), "") : bug(f, "a value outside its scope");
}

/* Returns what is not 0. */
static void
return_if(Fn *f, Val status)
{
	Block fail = new_block(f, "fail"), on = new_block(f, "on");

	LLVMBuildCondBr(f->b, LLVMBuildICmp(f->b, LLVMIntEQ, status, LLVMConstNull(l32(f)), ""), on, fail);
	LLVMPositionBuilderAtEnd(f->b, fail);
	LLVMBuildRet(f->b, status);
	LLVMPositionBuilderAtEnd(f->b, on);
}

static Val
argument(Fn *f, Node *a, char kind)
{
	Mem *m;

	if (kind == 'l')
		return ex_index(f, a);
	m = a->code == O_BUFFER ? map_get(&f->mem, a) : NULL;
	return m ? m->base : LLVMConstNull(LLVMPointerTypeInContext(f->cx, 0));
}

static void
call_(Fn *f, Node *s)
{
	Ty ptr = LLVMPointerTypeInContext(f->cx, 0), types[8], t;
	Val args[8], fn, k, r;
	size_t e;
	int i, routine = plan_routine(f->m, s->name), given = routine >= 0;

	for (e = 0; e < TCC_NAPI && strcmp(entries[e].name, given ? "host" : s->name) != 0; e++)
		;
	if (e == TCC_NAPI || (size_t)(s->nin + given) != strlen(entries[e].sig) || s->nin > 6) {
		bug(f, e == TCC_NAPI ? "a call of an unknown entry" : "a call with wrong arguments");
		return;
	}
	types[0] = ptr;
	args[0] = f->run;
	if (given) {
		types[1] = l64(f);
		args[1] = i64c(f, routine);
	}
	for (i = 0; i < s->nin; i++) {
		types[i + given + 1] = entries[e].sig[i + given] == 'l' ? l64(f) : ptr;
		args[i + given + 1] = argument(f, s->in[i], entries[e].sig[i + given]);
	}
	t = LLVMFunctionType(entries[e].status ? l32(f) : l64(f), types, (unsigned)(s->nin + given) + 1, false);
	k = i64c(f, (int64_t)e);
	fn = LLVMBuildLoad2(f->b, ptr, LLVMBuildGEP2(f->b, ptr, f->api, &k, 1, ""), "");
	r = LLVMBuildCall2(f->b, t, fn, args, (unsigned)(s->nin + given) + 1, "");
	if (entries[e].status) {
		return_if(f, r);
		return;
	}
	map_put(&f->env, s, r);
	map_put(&f->depth, s, (void *)(intptr_t)f->loops);
}

static void
while_(Fn *f, Node *s)
{
	Block in = new_block(f, "while"), out = new_block(f, "end"), old = f->leave;

	LLVMBuildBr(f->b, in);
	LLVMPositionBuilderAtEnd(f->b, in);
	f->leave = out;
	emit_region(f, s->regions[0]);
	f->leave = old;
	LLVMBuildBr(f->b, in);
	LLVMPositionBuilderAtEnd(f->b, out);
}

void
plan_stmt(Fn *f, Node *s)
{
	Block on;

	if (!f->run) {
		bug(f, "a statement of the host plan");
	} else if (s->code == O_CALL) {
		call_(f, s);
	} else if (s->code == O_WHILE) {
		while_(f, s);
	} else if (f->leave) {
		on = new_block(f, "on");
		LLVMBuildCondBr(f->b, ex(f, s->in[0]), f->leave, on);
		LLVMPositionBuilderAtEnd(f->b, on);
	} else {
		bug(f, "a break outside a while");
	}
}

/* ---- functions ---------------------------------------------------------------------------------- */

static int
launches(const Node *s)
{
	int n = s->code == O_CALL && strcmp(s->name, "launch") == 0, i, k;

	for (i = 0; i < s->nregions; i++)
		for (k = 0; s->regions[i] && k < s->regions[i]->nresults; k++)
			n += launches(s->regions[i]->results[k]);
	return n;
}

static void
begin(Fn *f, Chunk *c, const char *symbol, bool framed)
{
	Ty p = LLVMPointerTypeInContext(c->cx, 0);

	f->t = c->job->host ? c->job->host : c->job->machine;
	fn_begin(f, c, symbol, LLVMFunctionType(LLVMInt32TypeInContext(c->cx), (Ty[]){p, p}, framed ? 2 : 1, false));
	f->run = LLVMGetParam(f->fn, 0);
	if (framed)
		f->frame = LLVMGetParam(f->fn, 1);
	f->api = LLVMBuildLoad2(f->b, p, f->run, "api");
	LLVMSetMetadata(f->api, f->md_invariant,
		LLVMMetadataAsValue(f->cx, LLVMMDNodeInContext2(f->cx, NULL, 0)));
}

static void
end(Fn *f)
{
	LLVMBuildRet(f->b, LLVMConstNull(l32(f)));
	fn_end(f, "the host plan");
}

/* Places in the frame for what the statements at the top define. Their number. */
static intptr_t
place(Module *m, Region *r, Map *slots)
{
	intptr_t n = 0;
	int64_t size, e;
	Node *s;
	int i, k;

	(void)m;
	for (i = 0; i < r->nresults; i++) {
		s = r->results[i];
		if (s->code == O_LET || s->code == O_CALL) {
			map_put(slots, s, (void *)++n);
		} else if (s->code == O_ALLOC) {
			for (size = 1, k = 0; k < s->in[0]->nin; k++)
				size *= is_int(s->in[0]->in[k], &e) ? e : 0;
			map_put(slots, s->in[0], (void *)(n + 1));
			n += size;
		}
	}
	return n;
}

/* Statements [from, to) as a function of their own. */
static void
part(Chunk *c, const char *symbol, Region *r, int from, int to)
{
	Fn f = {0};
	Node *s;
	Mem *m;
	intptr_t at;
	int i;

	begin(&f, c, symbol, true);
	place(f.m, r, &f.slots);
	for (i = 0; i < r->nresults; i++) {
		s = r->results[i];
		if (s->code != O_ALLOC)
			continue;
		m = NEW(f.m, Mem);
		m->elem = l64(&f);
		m->base = slot(&f, (intptr_t)map_get(&f.slots, s->in[0]));
		map_put(&f.mem, s->in[0], m);
	}
	for (i = from; i < to && !f.why; i++) {
		s = r->results[i];
		memo_next(&f);
		emit_stmt(&f, s);
		at = (intptr_t)map_get(&f.slots, s);
		if (at && map_get(&f.env, s))
			LLVMBuildStore(f.b, map_get(&f.env, s), slot(&f, at));
	}
	end(&f);
}

static void
parts(Chunk *c, Fn *f, const char *symbol, Region *r)
{
	Ty p = LLVMPointerTypeInContext(c->cx, 0);
	Ty t = LLVMFunctionType(LLVMInt32TypeInContext(c->cx), (Ty[]){p, p}, 2, false);
	Val frame = local(f, LLVMArrayType2(l64(f), (uint64_t)place(f->m, r, &f->slots) + 1), "frame");
	char name[256];
	int i = 0, from, n, k = 0;

	while (i < r->nresults) {
		from = i;
		for (n = 0; i < r->nresults && (n == 0 || n + launches(r->results[i]) <= MAX_LAUNCHES); i++)
			n += launches(r->results[i]);
		snprintf(name, sizeof name, "%s_%d", symbol, k++);
		part(c, name, r, from, i);
		LLVMSetLinkage(LLVMGetNamedFunction(c->mod, name), LLVMInternalLinkage);
		return_if(f, LLVMBuildCall2(f->b, t, LLVMGetNamedFunction(c->mod, name),
			(Val[]){f->run, frame}, 2, ""));
	}
}

Val
emit_plan(Chunk *c, const char *symbol)
{
	Region *r = c->job->m->plan;
	Fn f = {0};
	int i, n = 0;

	begin(&f, c, symbol, false);
	for (i = 0; i < r->nresults; i++)
		n += launches(r->results[i]);
	if (n <= MAX_LAUNCHES)
		emit_region(&f, r);
	else
		parts(c, &f, symbol, r);
	end(&f);
	return f.fn;
}
