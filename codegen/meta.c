/*
 * The tables of a compiled model (abi.h part 3) and the layout of its weights: bytes that every
 * target puts into its output as they are. The blob is the TccMeta, all strings, then the tables.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "codegen.h"
#include "cprint.h"
#include "runtime/abi.h"

_Static_assert(BUF_ARENA == (int)TCC_BUF_ARENA && BUF_OUTPUT == (int)TCC_BUF_OUTPUT
	&& BUF_CONST == (int)TCC_BUF_CONST && BUF_VALUE == (int)TCC_BUF_VALUE, "one order of classes");

#define MAX_EMBED ((int64_t)1 << 30)

typedef struct Bytes { unsigned char *at; size_t n, cap; } Bytes;

typedef struct Lay {
	Module *m;
	Job *job;
	Meta *meta;
	uint32_t *digest;      /* per kernel */
	Bytes strings;
	int wcap;
	const Data **data;     /* per weight part */
	uint32_t ntexts;
	Bytes texts, inputs, outputs, dims, kernels, buffers, maps;
} Lay;

static void *
grow(Bytes *b, size_t n)
{
	if (b->n + n > b->cap) {
		b->cap = (b->n + n) * 2;
		b->at = realloc(b->at, b->cap);
		if (!b->at)
			abort();
	}
	b->n += n;
	return memset(b->at + b->n - n, 0, n);
}

/* ---- strings --------------------------------------------------------------------------------- */

static TccString
str(Lay *l, const char *s)
{
	size_t n, i;

	if (!s || !*s)
		return 0;
	n = strlen(s) + 1;
	/* short pools are searched, so that equal names share a place */
	for (i = 0; l->strings.n < 1 << 14 && i + n <= l->strings.n; i++)
		if (memcmp(l->strings.at + i, s, n) == 0)
			return (TccString)(sizeof(TccMeta) + i);
	memcpy(grow(&l->strings, n), s, n);
	return (TccString)(sizeof(TccMeta) + l->strings.n - n);
}

static uint32_t
text(Lay *l, const char *s)
{
	TccString at = str(l, s);

	memcpy(grow(&l->texts, sizeof at), &at, sizeof at);
	return l->ntexts++;
}

/* A C identifier; anything else becomes an underscore. */
static void
ident(char *out, size_t size, const char *s)
{
	size_t i;

	for (i = 0; s[i] && i + 1 < size; i++)
		out[i] = isalnum((unsigned char)s[i]) ? s[i] : '_';
	out[i] = 0;
}

/* The same as an identifier that no row before has. */
static TccString
unique_ident(Lay *l, const char *name, const Bytes *ports, const Bytes *ports2)
{
	const Bytes *b[2] = {ports, ports2};
	char id[128], base[112];
	size_t i, k;
	int try = 0;
	bool taken;

	ident(base, sizeof base, name);
	if (!base[0] || isdigit((unsigned char)base[0])) {
		memmove(base + 1, base, sizeof base - 1);
		base[0] = '_';
		base[sizeof base - 1] = 0;
	}
	snprintf(id, sizeof id, "%s", base);
	do {
		for (taken = false, k = 0; k < 2; k++)
			for (i = 0; b[k] && i + sizeof(TccPort) <= b[k]->n; i += sizeof(TccPort))
				taken |= strcmp((char *)l->strings.at + ((TccPort *)(b[k]->at + i))->ident
					- sizeof(TccMeta), id) == 0;
		if (taken)
			snprintf(id, sizeof id, "%s_%d", base, ++try);
	} while (taken);
	return str(l, id);
}

static const char *
nodes_text(Module *m, const Loc *loc)
{
	const char *s = "", *sep = "";
	int n = 0;

	for (; loc; loc = loc->next, sep = ", ") {
		if (n++ == 32)
			return arena_printf(m->arena, "%s ...", s);
		s = arena_printf(m->arena, "%s%s%s", s, sep,
			loc->name ? loc->name : loc->type ? loc->type : "?");
	}
	return s;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* A string constant: TccStr rows whose pointers are offsets from the weights' start, then the
 * bytes. */
static void *
string_rows(Lay *l, const Data *d, int64_t offset, int64_t *size)
{
	TccStr *row;
	char *p;
	size_t n = 0;
	int64_t i;

	for (i = 0; i < d->count; i++)
		n += strlen(d->strings[i]);
	*size = d->count * (int64_t)sizeof(TccStr) + (int64_t)n;
	row = arena_alloc(l->m->arena, (size_t)*size + 1);
	p = (char *)(row + d->count);
	for (i = 0; i < d->count; i++) {
		row[i].size = strlen(d->strings[i]);
		row[i].data = (const char *)(intptr_t)(offset + (p - (char *)row));
		memcpy(p, d->strings[i], row[i].size);
		p += row[i].size;
	}
	return row;
}

static bool
same_data(const Data *a, const Data *b)
{
	return a == b || (a->size == b->size && a->count == b->count && !a->strings && !b->strings
		&& (a->bytes == b->bytes
			|| (a->size < 1 << 16 && memcmp(a->bytes, b->bytes, a->size) == 0)));
}

/* Places the data; equal contents once. Index of its part. */
static int
weight(Lay *l, const Data *d)
{
	Meta *t = l->meta;
	WeightPart *w;
	int i;

	for (i = 0; i < t->nweights; i++)
		if (same_data(l->data[i], d))
			return i;
	if (t->nweights == l->wcap) {
		l->wcap = l->wcap ? l->wcap * 2 : 64;
		t->weights = realloc(t->weights, sizeof *t->weights * (size_t)l->wcap);
		l->data = realloc(l->data, sizeof *l->data * (size_t)l->wcap);
		if (!t->weights || !l->data)
			abort();
	}
	w = &t->weights[t->nweights];
	l->data[t->nweights] = d;
	w->offset = (t->weights_size + 63) / 64 * 64;
	w->size = (int64_t)d->size;
	w->bytes = d->strings ? string_rows(l, d, w->offset, &w->size) : d->bytes;
	t->weights_size = w->offset + w->size;
	return t->nweights++;
}

static uint64_t
hash_weights(const Meta *t)
{
	uint64_t h = 0x9e3779b97f4a7c15u, w;
	const unsigned char *p;
	int64_t n;
	int i;

	for (i = 0; i < t->nweights; i++) {
		h = (h ^ (uint64_t)t->weights[i].offset) * 0xff51afd7ed558ccdu;
		p = t->weights[i].bytes;
		for (n = t->weights[i].size; n >= 8; n -= 8, p += 8) {
			memcpy(&w, p, 8);
			h = (h ^ w) * 0xff51afd7ed558ccdu;
			h ^= h >> 29;
		}
		for (; n > 0; n--)
			h = (h ^ *p++) * 0x100000001b3u;
	}
	return h;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void
dim_row(Lay *l, Node *d)
{
	TccDim *r = grow(&l->dims, sizeof *r);
	int64_t v;

	r->size = is_int(d, &v) ? v : -1;
	if (d->code == O_NUM && r->size < 0)     /* of what a sequence or optional holds: not known */
		return;
	r->lo = r->size >= 0 ? r->size : d->lo < 0 ? 0 : d->lo;
	r->hi = r->size >= 0 ? r->size : d->hi >= INT32_MAX ? 0 : d->hi;
	if (d->code == O_SYM && d->name) {
		TccString s = str(l, d->name);

		((TccDim *)(l->dims.at + l->dims.n) - 1)->symbol = s;
	}
}

static void
port_type(Lay *l, TccPort *p, const Type *t)
{
	int i;

	switch (t->kind) {
	case T_OPTIONAL:
		port_type(l, p, t->elem[0]);
		p->optional = 1;
		return;
	case T_SEQ:
		p->kind = TCC_SEQUENCE;
		p->elem_kind = t->elem[0]->kind == T_MAP ? TCC_MAP : TCC_TENSOR;
		p->dtype = (uint32_t)dtypes[
			t->elem[0]->kind == T_MAP ? t->elem[0]->elem[0]->dtype : t->elem[0]->dtype].onnx;
		p->key_dtype = t->elem[0]->kind == T_MAP ? (uint32_t)dtypes[t->elem[0]->dtype].onnx : 0;
		p->rank = -1;
		return;
	case T_MAP:
		p->kind = TCC_MAP;
		p->key_dtype = (uint32_t)dtypes[t->dtype].onnx;
		p->dtype = (uint32_t)dtypes[t->elem[0]->dtype].onnx;
		p->rank = -1;
		return;
	default:
		p->kind = TCC_TENSOR;
		p->dtype = (uint32_t)dtypes[t->dtype].onnx;
		p->rank = t->rank;
		p->dims = (uint32_t)(l->dims.n / sizeof(TccDim));
		for (i = 0; i < t->rank; i++)
			dim_row(l, t->dims[i]);
	}
}

static void
port(Lay *l, Bytes *table, const Type *t, const char *name, int buffer, const Data *def)
{
	TccPort p = {0};
	int w;

	p.name = str(l, name);
	p.ident = unique_ident(l, name ? name : "value", &l->inputs, &l->outputs);
	port_type(l, &p, t);
	p.buffer = buffer < 0 ? UINT32_MAX : (uint32_t)buffer;
	p.default_offset = TCC_NO_DEFAULT;
	if (def) {
		w = weight(l, def);
		p.default_offset = (uint64_t)l->meta->weights[w].offset;
		p.default_size = def->strings ? (uint64_t)def->count * sizeof(TccStr) : def->size;
	}
	memcpy(grow(table, sizeof p), &p, sizeof p);
}

static void
ports(Lay *l)
{
	const Plan *plan = l->m->memory;
	Region *r = l->m->main;
	int i;

	for (i = 0; i < r->nparams; i++)
		port(l, &l->inputs, r->params[i]->type,
			l->m->in_names ? l->m->in_names[i] : r->params[i]->name,
			plan && plan->in_buf ? plan->in_buf[i] : -1,
			plan && plan->in_default ? plan->in_default[i] : NULL);
	for (i = 0; i < r->nresults; i++)
		port(l, &l->outputs, r->results[i]->type, output_name(l->m, i), -1, NULL);
}

/* Its name if that begins with its number, as schedules name kernels; else with the number
 * before it. */
static char *
kernel_ident(Lay *l, const char *name, int i)
{
	char id[80], *number = arena_printf(l->m->arena, "k%d", i);
	size_t n = strlen(number);

	ident(id, sizeof id, name);
	if (strncmp(id, number, n) == 0 && (id[n] == '_' || !id[n]))
		return arena_dup(l->m->arena, id, strlen(id) + 1);
	return arena_printf(l->m->arena, "%s_%s", number, id);
}

static void
map_row(Lay *l, const Kernel *k, const TensorMap *t)
{
	TccMap r = {.buffer = (uint32_t)t->buf, .rank = (uint32_t)t->rank, .gathers = t->gathers,
		.dtype = (uint32_t)dtypes[k->bufs[t->buf]->type->dtype].onnx,
		.swizzle = (uint32_t)t->swizzle};
	int i;

	for (i = 0; i < t->rank; i++) {
		r.box[i] = (uint32_t)t->box[i];
		r.step[i] = t->gathers && i && i < t->rank - 1 ? (uint32_t)t->step[i] : 1;
	}
	memcpy(grow(&l->maps, sizeof r), &r, sizeof r);
}

static void
kernel_row(Lay *l, const Kernel *k, int i)
{
	TccKernel r = {0};
	int e;

	l->meta->idents[i] = kernel_ident(l, k->name ? k->name : "kernel", i);
	r.name = str(l, k->name);
	r.symbol = str(l, l->meta->idents[l->meta->twin[i]]);
	r.nodes = str(l, nodes_text(l->m, k->loc));
	r.nbufs = (uint32_t)k->nbufs;
	r.nsyms = (uint32_t)k->nsyms;
	r.block[0] = (uint32_t)(k->block > 0 ? k->block : 1);
	r.block[1] = r.block[2] = 1;
	if (k->shared <= STATIC_SHARED && !k->nmaps)
		r.shared_static = (uint32_t)k->shared;
	else
		r.shared = (uint32_t)k->shared;
	if (k->scratch)
		r.scratch = k->scratch->hi > INT32_MAX ? INT32_MAX : (uint32_t)k->scratch->hi;
	r.errors = l->ntexts;
	r.nerrors = (uint32_t)k->nerrors;
	for (e = 0; e < k->nerrors; e++)
		text(l, k->errors[e]);
	r.maps = (uint32_t)(l->maps.n / sizeof(TccMap));
	r.nmaps = (uint32_t)k->nmaps;
	for (e = 0; e < k->nmaps; e++)
		map_row(l, k, &k->maps[e]);
	r.digest = l->digest[i];
	for (e = 0; e < k->nbufs; e++)
		r.writes |= (uint64_t)k->writes[e] << (e < 63 ? e : 63);
	if (l->m->machine && machine_has(l->m->machine, "grid-wait"))
		r.flags |= TCC_KERNEL_WAITS;
	r.flops = k->flops;
	r.bytes = k->bytes;
	memcpy(grow(&l->kernels, sizeof r), &r, sizeof r);
}

static void
buffer_row(Lay *l, const PlanBuf *b)
{
	TccBuffer r = {0};
	int w;

	r.cls = (uint32_t)b->cls;
	r.dtype = (uint32_t)dtypes[b->dtype].onnx;
	r.index = (uint32_t)b->index;
	r.alias = b->alias;
	r.first = b->first;
	r.last = b->last;
	r.name = str(l, b->name);
	r.size = b->size < 0 ? TCC_NO_SIZE : (uint64_t)b->size;
	r.offset = b->offset < 0 ? TCC_NO_SIZE : (uint64_t)b->offset;
	if (b->data) {
		w = weight(l, b->data);
		r.digest = (uint32_t)(b->data->hash ^ b->data->hash >> 32);
		r.offset = (uint64_t)l->meta->weights[w].offset;
		r.size = b->data->strings ? (uint64_t)b->data->count * sizeof(TccStr) : b->data->size;
	}
	memcpy(grow(&l->buffers, sizeof r), &r, sizeof r);
}

static const char *
ledger(Module *m)
{
	const char *s = "";
	const Ledger *e;
	int i;

	for (i = 0; i < m->ledger.n; i++) {
		e = m->ledger.at[i];
		s = arena_printf(m->arena, "%s%s (%s): %s, error %.3g\n", s, e->what, e->cls,
			nodes_text(m, e->loc), e->error);
	}
	return s;
}

/* Puts a table behind what is there. */
static TccTable
table(Bytes *out, Bytes *rows, size_t size)
{
	TccTable t;

	grow(out, (8 - out->n % 8) % 8);
	t.offset = (uint32_t)out->n;
	t.count = (uint32_t)(rows->n / size);
	if (rows->n)
		memcpy(grow(out, rows->n), rows->at, rows->n);
	free(rows->at);
	return t;
}

static void
finish(Lay *l)
{
	const Plan *plan = l->m->memory;
	TccMeta h = {.magic = {'T', 'C', 'C', 'M', 'E', 'T', 'A', '1'}};
	Bytes out = {0};

	if (l->meta->weights_size > MAX_EMBED && !l->job->in_memory)
		l->job->weights_file = true;
	h.flags = (plan && plan->is_static ? TCC_META_STATIC : 0) |
		(l->job->weights_on_demand ? TCC_META_ON_DEMAND : 0);
	h.name = str(l, l->m->name);
	h.prefix = str(l, l->job->prefix ? l->job->prefix : "model");
	h.manifest = str(l, l->job->manifest);
	h.precision = str(l, ledger(l->m));
	h.arena_formula = str(l, plan ? plan->formula : NULL);
	h.weights_file = str(l, l->job->weights_file ? l->job->weights_name : NULL);
	h.target = str(l, l->job->target_text ? l->job->target_text : l->job->machine->name);
	h.arena_bytes = plan && plan->is_static ? (uint64_t)plan->arena_bytes : 0;
	h.weights_id = l->job->weights_file ? hash_weights(l->meta) : 0;
	grow(&out, sizeof h);
	if (l->strings.n)
		memcpy(grow(&out, l->strings.n), l->strings.at, l->strings.n);
	free(l->strings.at);
	h.inputs = table(&out, &l->inputs, sizeof(TccPort));
	h.outputs = table(&out, &l->outputs, sizeof(TccPort));
	h.dims = table(&out, &l->dims, sizeof(TccDim));
	h.kernels = table(&out, &l->kernels, sizeof(TccKernel));
	h.buffers = table(&out, &l->buffers, sizeof(TccBuffer));
	h.texts = table(&out, &l->texts, sizeof(TccString));
	h.maps = table(&out, &l->maps, sizeof(TccMap));
	grow(&out, 8);         /* the last byte is 0: strings end within the blob */
	memcpy(out.at, &h, sizeof h);
	l->meta->bytes = out.at;
	l->meta->size = out.n;
}

/* Code for CPUs is printed for its digest alone, which nobody asks of a program in memory. */
static int *
twins(Job *job, uint32_t *digest)
{
	bool source = job->machine->kind != M_CPU || job->kind == EMIT_SRC;
	int i, n = job->m->kernels.n, *twin = NULL;

	if (source || !job->in_memory)
		twin = cprint_twins(job->m, machine_gpu(job->machine), digest);
	if (source)
		return twin;
	twin = NEWN(job->m, int, n + 1);
	for (i = 0; i < n; i++)
		twin[i] = i;
	return twin;
}

const Meta *
meta_get(Job *job)
{
	Lay l = {.m = job->m, .job = job};
	const Plan *plan = job->m->memory;
	int i, n = job->m->kernels.n;

	if (job->meta)
		return job->meta;
	l.meta = job->meta = calloc(1, sizeof *job->meta);
	if (!l.meta)
		abort();
	l.meta->idents = NEWN(job->m, char *, n + 1);
	l.digest = NEWN(job->m, uint32_t, n + 1);
	l.meta->twin = twins(job, l.digest);
	/* texts of check() come first: the plan counts them from 0 */
	for (i = 0; plan && i < plan->ntexts; i++)
		text(&l, plan->texts[i]);
	for (i = 0; plan && i < plan->nbufs; i++)
		buffer_row(&l, &plan->bufs[i]);
	ports(&l);
	for (i = 0; i < n; i++)
		kernel_row(&l, job->m->kernels.at[i], i);
	finish(&l);
	free(l.data);
	return job->meta;
}

/* ---- the weights as bytes -------------------------------------------------------------------- */

bool
meta_same_weights(const Meta *a, const Meta *b)
{
	const WeightPart *p = a->weights, *q = b->weights;
	int i;

	if (a->nweights != b->nweights || a->weights_size != b->weights_size)
		return false;
	for (i = 0; i < a->nweights; i++, p++, q++)
		if (p->offset != q->offset || p->size != q->size
		 || (p->bytes != q->bytes && memcmp(p->bytes, q->bytes, (size_t)p->size)))
			return false;
	return true;
}

int
meta_write_weights(const Meta *t, FILE *fp)
{
	static const char zero[64];
	int64_t at = 0;
	int i;

	for (i = 0; i < t->nweights; i++) {
		size_t gap = (size_t)(t->weights[i].offset - at), size = (size_t)t->weights[i].size;

		if (fwrite(zero, 1, gap, fp) != gap || fwrite(t->weights[i].bytes, 1, size, fp) != size)
			return -1;
		at = t->weights[i].offset + t->weights[i].size;
	}
	return 0;
}

int
meta_write_weights_file(const Meta *t, const char *path, Diag *d)
{
	TccWeightsHeader h = {.magic = {'T', 'C', 'C', 'W', 'G', 'H', 'T', '1'}};
	char tmp[4096];
	FILE *fp;
	bool ok;

	h.size = (uint64_t)t->weights_size;
	h.id = ((const TccMeta *)(const void *)t->bytes)->weights_id;
	snprintf(tmp, sizeof tmp, "%s.tmp", path);
	fp = fopen(tmp, "wb");
	ok = fp && fwrite(&h, sizeof h, 1, fp) == 1 && meta_write_weights(t, fp) == 0;
	if (fp)
		ok = fclose(fp) == 0 && ok;
	ok = ok && rename(tmp, path) == 0;
	if (!ok) {
		remove(tmp);
		diag_error(d, X_TOOL, NULL, "cannot write %s", path);
		return X_TOOL;
	}
	return X_OK;
}

/* ---- routines -------------------------------------------------------------------------------- */

/* The names of the user's functions that the plan calls, each once, in order: symbols in list,
 * which has room for n; how many there are. */
static int
called_functions(const Module *m, const char **list, int room)
{
	Node **calls = NULL;
	int i, k, n, count = 0;

	if (m->plan)
		calls = topo_statements(m->plan, &n);
	for (i = 0; calls && i < n; i++) {
		if (calls[i]->code != O_CALL || strncmp(calls[i]->name, "host.c.", 7) != 0)
			continue;
		for (k = 0; k < count && strcmp(list[k], calls[i]->name + 7) != 0; k++)
			;
		if (k == count && count < room)
			list[count++] = calls[i]->name + 7;
	}
	free(calls);
	return count;
}

enum { MAX_FUNCTIONS = 256 };

const Function *const *
plan_functions(Module *m, int *n)
{
	const char *names[MAX_FUNCTIONS];
	const Function **list;
	int i;

	*n = called_functions(m, names, MAX_FUNCTIONS);
	list = NEWN(m, const Function *, *n + 1);
	for (i = 0; i < *n; i++)
		if (!(list[i] = library_function(m, names[i]))) {
			diag_error(m->diag, X_INVALID, NULL, "the function %s is not declared", names[i]);
			return NULL;
		}
	return list;
}

int
plan_routine(const Module *m, const char *call)
{
	const char *functions[MAX_FUNCTIONS];
	int count;

	static const char *const names[] = {
#define NAME(name, lib, args) #name,
		TCC_HOST(NAME)
#undef NAME
	};
	int i;

	if (strncmp(call, "host.", 5) != 0)
		return -1;
	if (strncmp(call, "host.c.", 7) == 0) {
		count = called_functions(m, functions, MAX_FUNCTIONS);
		for (i = 0; i < count && strcmp(functions[i], call + 7) != 0; i++)
			;
		return i < count ? TCC_NHOST + i : -1;
	}
	for (i = 0; i < TCC_NHOST && strcmp(names[i], call + 5) != 0; i++)
		;
	return i < TCC_NHOST ? i : -1;
}

bool
plan_needs(const Module *m, int lib)
{
	static const int libs[] = {
#define LIB(name, lib, args) HOST_##lib,
		TCC_HOST(LIB)
#undef LIB
	};
	Node **list = NULL;
	bool yes = false;
	int i, k, n = 0;

	if (m->plan)
		list = topo_statements(m->plan, &n);
	for (i = 0; i < n && !yes; i++)
		if (list[i]->code == O_CALL && (k = plan_routine(m, list[i]->name)) >= 0)
			yes = lib < 0 || (k < TCC_NHOST && libs[k] == lib);
	free(list);
	return yes;
}

const HostLib host_libs[] = {
#define LIB(name, source, library) {"tcc_lib_" #name, source, library, HOST_##name},
	TCC_HOST_LIB(LIB)
#undef LIB
	{NULL, NULL, NULL, 0}
};
