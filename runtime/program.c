/*
 * The program around a compiled model: reads inputs, runs, writes outputs, describes, times and
 * profiles the model. An executable's main is this, and so are tcc-ml's run and bench.
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "rt.h"

typedef struct Pair {
	const char *name;       /* up to the '='; NULL: none was given */
	size_t name_size;
	const char *file;
} Pair;

typedef struct Args {
	Pair *inputs, *outputs;
	int ninputs, noutputs;
	const char *output_dir, *device, *weights, *json_file;
	long threads, warmup, iters;
	double duration;
	bool info, bench, profile, json, help;
} Args;

typedef struct Program {
	const char *name;
	const TccModel *whole;  /* with its variants */
	const TccModel *model;  /* the one of them in use */
	const TccProgramHook *hook;
	const TccMeta *meta;
	const TccPort *in, *out;
	Args args;
	TccErr err;
	FILE *json;
	TccInst *inst;
	TccContext *ctx;
	TccValue *inputs, *outputs;
	double load_ms;
} Program;

/* --- options ----------------------------------------------------------------------------- */

enum Kind { FLAG, TEXT, NUMBER, SECONDS, PAIR_IN, PAIR_OUT, OPTIONAL_TEXT };

static const struct Option {
	const char *name, *arg, *help;
	enum Kind kind;
	size_t field;
} options[] = {
	{"--input", "NAME=FILE", "read an input; a .npz alone gives all that it names", PAIR_IN, 0},
	{"--output", "NAME=FILE", "write an output", PAIR_OUT, 0},
	{"--output-dir", "DIR", "write output_0.npy, output_1.npy ... there", TEXT,
	 offsetof(Args, output_dir)},
	{"--threads", "N", "threads to use (default: the CPUs there are)", NUMBER,
	 offsetof(Args, threads)},
	{"--device", "D", "cpu, cuda, cuda:1, hip, sim", TEXT, offsetof(Args, device)},
	{"--weights", "FILE", "the weights, where they are not in the program", TEXT,
	 offsetof(Args, weights)},
	{"--info", NULL, "describe the model", FLAG, offsetof(Args, info)},
	{"--bench", NULL, "time it, on made-up inputs where none are given", FLAG,
	 offsetof(Args, bench)},
	{"--profile", NULL, "time its kernels", FLAG, offsetof(Args, profile)},
	{"--warmup", "N", "runs before the timed ones (default 5)", NUMBER, offsetof(Args, warmup)},
	{"--iters", "N", "timed runs (default: as many as the duration takes, 10 at least)", NUMBER,
	 offsetof(Args, iters)},
	{"--duration", "S", "seconds of timed runs (default 2)", SECONDS, offsetof(Args, duration)},
	{"--json", "FILE", "results as JSON, to stdout or =FILE", OPTIONAL_TEXT,
	 offsetof(Args, json_file)},
	{"--help", NULL, "this text", FLAG, offsetof(Args, help)},
};

static int report(const Program *p, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int report(const Program *p, int code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fprintf(stderr, "%s: error: ", p->name);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	return code;
}

static void help(const Program *p)
{
	printf("usage: %s [options]\nRuns the model '%s' (%s).\n\n", p->name,
	       tcc_string(p->model, p->meta->name), tcc_string(p->model, p->meta->target));
	for (size_t i = 0; i < TCC_COUNT(options); i++) {
		const struct Option *o = &options[i];
		char left[40];
		snprintf(left, sizeof left, o->kind == OPTIONAL_TEXT ? "%s[=%s]" : o->arg ? "%s %s" : "%s",
		         o->name, o->arg);
		printf("  %-22s %s\n", left, o->help);
	}
	printf("\nFiles: .npy, .npz, .pb, .raw, .bin, .txt; to read also .pgm, .ppm.\n");
}

static const struct Option *find_option(const char *arg, const char **value)
{
	size_t n = strcspn(arg, "=");
	for (size_t i = 0; i < TCC_COUNT(options); i++)
		if (strlen(options[i].name) == n && !memcmp(options[i].name, arg, n)) {
			*value = arg[n] ? arg + n + 1 : NULL;
			return &options[i];
		}
	return NULL;
}

static void add_pair(Pair *list, int *n, const char *text)
{
	const char *eq = strchr(text, '=');
	list[(*n)++] = eq ? (Pair){text, eq - text, eq + 1} : (Pair){NULL, 0, text};
}

static int set_option(Program *p, const struct Option *o, const char *value)
{
	Args *a = &p->args;
	char *end = NULL;
	void *field = (char *)a + o->field;
	switch (o->kind) {
	case FLAG: *(bool *)field = true; return 0;
	case TEXT: *(const char **)field = value; return 0;
	case PAIR_IN: add_pair(a->inputs, &a->ninputs, value); return 0;
	case PAIR_OUT: add_pair(a->outputs, &a->noutputs, value); return 0;
	case OPTIONAL_TEXT: *(const char **)field = value; a->json = true; return 0;
	case NUMBER:
		*(long *)field = strtol(value, &end, 10);
		if (!*value || *end || *(long *)field < 0 || *(long *)field > INT_MAX)
			return report(p, TCC_USAGE, "%s: '%s' is not a number", o->name, value);
		return 0;
	case SECONDS:
		*(double *)field = strtod(value, &end);
		if (!*value || *end || !(*(double *)field > 0 && *(double *)field < 1e6))
			return report(p, TCC_USAGE, "%s: '%s' is not a time in seconds", o->name, value);
	}
	return 0;
}

static int parse_args(Program *p, int argc, char **argv)
{
	p->args = (Args){.warmup = 5, .duration = 2};
	p->args.inputs = calloc(argc + 1, sizeof(Pair));
	p->args.outputs = calloc(argc + 1, sizeof(Pair));
	if (!p->args.inputs || !p->args.outputs)
		return report(p, TCC_BUDGET, "out of memory");
	for (int i = 1; i < argc; i++) {
		const char *value;
		const struct Option *o = find_option(argv[i], &value);
		if (!o)
			return report(p, TCC_USAGE, "unknown option '%s'; --help lists all", argv[i]);
		if (o->kind == FLAG && value)
			return report(p, TCC_USAGE, "%s takes no value", o->name);
		if (o->kind != FLAG && o->kind != OPTIONAL_TEXT && !value) {
			if (++i == argc)
				return report(p, TCC_USAGE, "%s needs %s", o->name, o->arg);
			value = argv[i];
		}
		int rc = set_option(p, o, value);
		if (rc)
			return rc;
	}
	return 0;
}

/* --- JSON -------------------------------------------------------------------------------- */

static void json_text(FILE *f, const char *s)
{
	fputc('"', f);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			fputc('\\', f);
		if ((unsigned char)*s < 32)
			fprintf(f, "\\u%04x", *s);
		else
			fputc(*s, f);
	}
	fputc('"', f);
}

static void json_key(FILE *f, bool first, const char *key)
{
	fprintf(f, first ? "\n  \"%s\": " : ",\n  \"%s\": ", key);
}

static int open_json(Program *p)
{
	p->json = NULL;
	if (!p->args.json)
		return 0;
	p->json = p->args.json_file ? fopen(p->args.json_file, "w") : stdout;
	return p->json ? 0 : report(p, TCC_BAD_FILE, "%s: %s", p->args.json_file, strerror(errno));
}

/* A full disk shows when the file is closed. */
static int close_json(Program *p)
{
	if (!p->json || p->json == stdout)
		return 0;
	return fclose(p->json) ? report(p, TCC_BAD_FILE, "%s: %s", p->args.json_file, strerror(errno))
	                       : 0;
}

/* --- --info ------------------------------------------------------------------------------ */

static void port_type(const Program *p, const TccPort *port, char *buf, size_t size)
{
	static const char *const kinds[] = {"none", "", "sequence of ", "map to "};
	int64_t dims[TCC_MAX_RANK];
	const char *symbols[TCC_MAX_RANK];
	const TccDim *d = tcc_rows(p->model, p->meta->dims);
	TccWant w = tcc_want(p->model, port, dims);
	for (int a = 0; a < w.rank; a++)
		symbols[a] = tcc_string(p->model, d[port->dims + a].symbol);
	int n = snprintf(buf, size, "%s%s%s", port->optional ? "optional " : "", kinds[port->kind],
	                 port->kind == TCC_SEQUENCE && port->elem_kind == TCC_MAP ? kinds[TCC_MAP] : "");
	tcc_type_text(buf + n, size - n, port->dtype, w.rank, dims, symbols);
}

static void text_ports(const Program *p, const char *title, const TccPort *port, uint32_t n)
{
	char type[400];
	printf("%s:\n", title);
	for (uint32_t i = 0; i < n; i++) {
		port_type(p, &port[i], type, sizeof type);
		printf("  %-24s %s%s\n", tcc_string(p->model, port[i].name), type,
		       port[i].default_offset == TCC_NO_DEFAULT ? "" : " (has a default)");
	}
}

static void text_info(const Program *p)
{
	const TccModel *m = p->model;
	const TccMeta *h = p->meta;
	printf("model:   %s\ntarget:  %s\n", tcc_string(m, h->name), tcc_string(m, h->target));
	text_ports(p, "inputs", p->in, h->inputs.count);
	text_ports(p, "outputs", p->out, h->outputs.count);
	printf("kernels: %u\nweights: %llu bytes%s\n", h->kernels.count,
	       (unsigned long long)m->weights_size,
	       m->weights || !m->weights_size ? "" : ", in a file");
	if (h->flags & TCC_META_STATIC)
		printf("arena:   %llu bytes\n", (unsigned long long)h->arena_bytes);
	else
		printf("arena:   %s\n", h->arena_formula ? tcc_string(m, h->arena_formula)
		                                        : "depends on the inputs' shapes");
	if (h->precision)
		printf("precision:\n%s\n", tcc_string(m, h->precision));
}

static void json_ports(const Program *p, const TccPort *port, uint32_t n)
{
	FILE *f = p->json;
	const TccDim *d = tcc_rows(p->model, p->meta->dims);
	fputc('[', f);
	for (uint32_t i = 0; i < n; i++, port++) {
		char type[400];
		port_type(p, port, type, sizeof type);
		fprintf(f, "%s\n    {\"name\": ", i ? "," : "");
		json_text(f, tcc_string(p->model, port->name));
		fprintf(f, ", \"type\": ");
		json_text(f, type);
		fprintf(f, ", \"dtype\": \"%s\", \"shape\": ", tcc_dtype_name(port->dtype));
		if (port->rank < 0)
			fputs("null", f);
		for (int a = 0; a < port->rank; a++) {
			fputs(a ? ", " : "[", f);
			if (d[port->dims + a].size >= 0)
				fprintf(f, "%lld", (long long)d[port->dims + a].size);
			else
				json_text(f, tcc_string(p->model, d[port->dims + a].symbol));
		}
		fprintf(f, "%s, \"default\": %s}", port->rank < 0 ? "" : port->rank ? "]" : "[]",
		        port->default_offset == TCC_NO_DEFAULT ? "false" : "true");
	}
	fputs("\n  ]", f);
}

static void json_info(const Program *p)
{
	FILE *f = p->json;
	const TccModel *m = p->model;
	const TccMeta *h = p->meta;
	fprintf(f, "{\n  \"version\": 1");
	json_key(f, false, "model");
	json_text(f, tcc_string(m, h->name));
	json_key(f, false, "target");
	json_text(f, tcc_string(m, h->target));
	json_key(f, false, "inputs");
	json_ports(p, p->in, h->inputs.count);
	json_key(f, false, "outputs");
	json_ports(p, p->out, h->outputs.count);
	json_key(f, false, "kernels");
	fprintf(f, "%u", h->kernels.count);
	json_key(f, false, "weight_bytes");
	fprintf(f, "%llu", (unsigned long long)m->weights_size);
	json_key(f, false, "arena_bytes");
	if (h->flags & TCC_META_STATIC)
		fprintf(f, "%llu", (unsigned long long)h->arena_bytes);
	else
		json_text(f, tcc_string(m, h->arena_formula));
	json_key(f, false, "precision");
	json_text(f, tcc_string(m, h->precision));
	json_key(f, false, "manifest");
	fprintf(f, "%s\n}\n", h->manifest ? tcc_string(m, h->manifest) : "null");
}

/* --- inputs ------------------------------------------------------------------------------ */

static int find_port(const Program *p, const TccPort *port, uint32_t n, const Pair *pair)
{
	for (uint32_t i = 0; i < n; i++) {
		const char *names[] = {tcc_string(p->model, port[i].name),
		                       tcc_string(p->model, port[i].ident)};
		for (int k = 0; k < 2; k++)
			if (strlen(names[k]) == pair->name_size &&
			    !memcmp(names[k], pair->name, pair->name_size))
				return (int)i;
	}
	return -1;
}

static int no_such_port(const Program *p, const char *what, const TccPort *port, uint32_t n,
                        const Pair *pair)
{
	fprintf(stderr, "%s: error: the model has no %s '%.*s'; it has", p->name, what,
	        (int)pair->name_size, pair->name ? pair->name : "");
	for (uint32_t i = 0; i < n; i++)
		fprintf(stderr, "%s %s", i ? "," : "", tcc_string(p->model, port[i].name));
	fputc('\n', stderr);
	return TCC_USAGE;
}

static int read_input(Program *p, uint32_t i, const char *file)
{
	int64_t dims[TCC_MAX_RANK];
	TccWant want = tcc_want(p->model, &p->in[i], dims);
	tcc_value_free(&p->inputs[i]);
	int rc = tcc_read_value(file, tcc_string(p->model, p->in[i].name), &want, &p->inputs[i],
	                        &p->err);
	return rc ? report(p, rc, "input '%s': %s", tcc_string(p->model, p->in[i].name), p->err.text)
	          : 0;
}

/* Every member of an archive that has an input's name. */
static int read_archive(Program *p, const char *file)
{
	TccBuf b;
	TccZip z;
	int used = 0, rc = tcc_read_file(file, &b, &p->err);
	if (!rc)
		rc = tcc_zip_open(&z, (TccBytes){b.p, b.n}, &p->err);
	if (rc)
		return report(p, rc, "%s: %s", file, p->err.text);
	for (uint32_t i = 0; !rc && i < p->meta->inputs.count; i++)
		if (tcc_zip_find(&z, tcc_string(p->model, p->in[i].name)) >= 0) {
			used++;
			rc = read_input(p, i, file);
		}
	tcc_buf_free(&b);
	if (!rc && !used)
		return report(p, TCC_USAGE, "%s: none of its members has the name of an input", file);
	return rc;
}

static int read_inputs(Program *p)
{
	for (int k = 0; k < p->args.ninputs; k++) {
		const Pair *pair = &p->args.inputs[k];
		size_t n = strlen(pair->file);
		int rc, i;
		if (!pair->name && n > 4 && !strcmp(pair->file + n - 4, ".npz")) {
			rc = read_archive(p, pair->file);
		} else if (!pair->name && p->meta->inputs.count == 1) {
			rc = read_input(p, 0, pair->file);
		} else {
			i = find_port(p, p->in, p->meta->inputs.count, pair);
			rc = i < 0 ? no_such_port(p, "input", p->in, p->meta->inputs.count, pair)
			           : read_input(p, (uint32_t)i, pair->file);
		}
		if (rc)
			return rc;
	}
	return 0;
}

/* A fixed sequence of numbers, the same everywhere. */
static uint32_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

/* Floats from 0 to 1, integers 0 and 1, "a". */
static void fill_input(TccValue *v, uint64_t *state)
{
	TccTensor *t = &v->u.tensor;
	int bits = tcc_dtype_bits(v->dtype);
	uint8_t *to = t->data;
	for (uint64_t i = 0, n = tcc_tensor_count(t); i < n; i++) {
		uint32_t r = next_random(state);
		switch (v->dtype) {
		case TCC_F32: ((float *)t->data)[i] = (r & 0xffff) / 65536.0f; break;
		case TCC_F64: ((double *)t->data)[i] = (r & 0xffff) / 65536.0; break;
		case TCC_F16: ((uint16_t *)t->data)[i] = 0x3800 | (r & 0x3ff); break;
		case TCC_BF16: ((uint16_t *)t->data)[i] = 0x3f00 | (r & 0x7f); break;
		case TCC_STRING: ((TccStr *)t->data)[i] = (TccStr){"a", 1}; break;
		default:
			if (bits >= 8)
				to[i * (bits / 8)] = r & 1;
		}
	}
}

static int make_inputs(Program *p)
{
	uint64_t state = 1;
	const TccDim *d = tcc_rows(p->model, p->meta->dims);
	for (uint32_t i = 0; i < p->meta->inputs.count; i++) {
		const TccPort *port = &p->in[i];
		int64_t dims[TCC_MAX_RANK];
		if (p->inputs[i].kind != TCC_NONE || port->default_offset != TCC_NO_DEFAULT ||
		    port->optional)
			continue;
		if (port->kind != TCC_TENSOR)
			return report(p, TCC_USAGE, "input '%s' is no tensor and must be given",
			              tcc_string(p->model, port->name));
		for (int a = 0; a < port->rank; a++) {
			const TccDim *x = &d[port->dims + a];
			dims[a] = x->size >= 0 ? x->size : x->lo > 1 ? x->lo : 1;
		}
		int rc = tcc_tensor_new(&p->inputs[i], port->dtype, port->rank < 0 ? 1 : port->rank,
		                        port->rank < 0 ? (int64_t[]){1} : dims, &p->err);
		if (rc)
			return report(p, rc, "%s", p->err.text);
		fill_input(&p->inputs[i], &state);
	}
	return 0;
}

/* --- outputs ----------------------------------------------------------------------------- */

static void print_element(uint32_t dtype, const void *data, uint64_t i)
{
	const TccStr *s = data;
	TccDtypeInfo info = {0};
	tcc_dtype_info(dtype, &info);
	if (dtype == TCC_STRING)
		printf(" \"%.*s\"", (int)(s[i].size < 60 ? s[i].size : 60), s[i].size ? s[i].data : "");
	else if (info.code <= 1 || dtype == TCC_BOOL)
		printf(" %lld", (long long)tcc_element_int(dtype, data, i));
	else
		printf(" %.6g", tcc_element(dtype, data, i));
}

static void print_value(const TccValue *v)
{
	enum { SHOWN = 10 };
	char type[200];
	if (v->kind == TCC_TENSOR) {
		const TccTensor *t = &v->u.tensor;
		uint64_t n = tcc_tensor_count(t);
		tcc_type_text(type, sizeof type, v->dtype, t->ndim, t->shape, NULL);
		printf("%s:", type);
		for (uint64_t i = 0; i < n && i < SHOWN; i++)
			print_element(v->dtype, tcc_tensor_data(t), i);
		printf(n > SHOWN ? " ...\n" : "\n");
	} else if (v->kind == TCC_SEQUENCE) {
		printf("sequence of %llu\n", (unsigned long long)v->u.seq.n);
		for (uint64_t i = 0; i < v->u.seq.n && i < SHOWN; i++) {
			printf("  ");
			print_value(&v->u.seq.items[i]);
		}
	} else if (v->kind == TCC_MAP) {
		uint64_t n = tcc_tensor_count(&v->u.map.keys->u.tensor);
		for (uint64_t i = 0; i < n; i++) {
			print_element(v->u.map.keys->dtype, tcc_tensor_data(&v->u.map.keys->u.tensor), i);
			printf(":");
			print_element(v->u.map.values->dtype, tcc_tensor_data(&v->u.map.values->u.tensor), i);
		}
		printf("\n");
	} else {
		printf("none\n");
	}
}

static int write_output(Program *p, uint32_t i, const TccValue *v, const char *file)
{
	int rc = tcc_write_value(file, tcc_string(p->model, p->out[i].name), v, &p->err);
	return rc ? report(p, rc, "%s", p->err.text) : 0;
}

/* All outputs that go to this .npz, when its first comes; the others find it written. */
static int write_group(Program *p, int k)
{
	const Args *a = &p->args;
	const char *file = a->outputs[k].file;
	uint32_t n = 0;
	TccBuf b = {0};
	for (int j = 0; j < k; j++)
		if (!strcmp(a->outputs[j].file, file))
			return 0;
	const char **names = calloc(a->noutputs, sizeof *names);
	TccValue *values = calloc(a->noutputs, sizeof *values);
	int rc = names && values ? 0 : report(p, TCC_BUDGET, "out of memory");
	for (int j = k; !rc && j < a->noutputs; j++) {
		if (strcmp(a->outputs[j].file, file))
			continue;
		int i = find_port(p, p->out, p->meta->outputs.count, &a->outputs[j]);
		if (i < 0) {
			rc = no_such_port(p, "output", p->out, p->meta->outputs.count, &a->outputs[j]);
		} else {
			names[n] = tcc_string(p->model, p->out[i].name);
			values[n++] = p->outputs[i];
		}
	}
	if (!rc) {
		rc = tcc_npz_write(n, names, values, &b, &p->err);
		if (!rc)
			rc = tcc_write_file(file, &b, &p->err);
		if (rc)
			report(p, rc, "%s: %s", file, p->err.text);
	}
	tcc_buf_free(&b);
	free(names);
	free(values);
	return rc;
}

static int write_named(Program *p)
{
	for (int k = 0; k < p->args.noutputs; k++) {
		const Pair *pair = &p->args.outputs[k];
		size_t n = strlen(pair->file);
		int rc;
		if (n > 4 && !strcmp(pair->file + n - 4, ".npz")) {
			rc = write_group(p, k);
		} else {
			int i = find_port(p, p->out, p->meta->outputs.count, pair);
			rc = i < 0 ? no_such_port(p, "output", p->out, p->meta->outputs.count, pair)
			           : write_output(p, (uint32_t)i, &p->outputs[i], pair->file);
		}
		if (rc)
			return rc;
	}
	return 0;
}

static bool is_tensors(const TccValue *v)
{
	for (uint64_t i = 0; i < v->u.seq.n; i++)
		if (v->u.seq.items[i].kind != TCC_TENSOR)
			return false;
	return true;
}

static int write_to_dir(Program *p)
{
	const char *dir = p->args.output_dir;
	if (mkdir(dir, 0777) && errno != EEXIST)
		return report(p, TCC_BAD_FILE, "%s: %s", dir, strerror(errno));
	for (uint32_t i = 0; i < p->meta->outputs.count; i++) {
		const TccValue *v = &p->outputs[i];
		char path[PATH_MAX];
		int rc = 0;
		if (v->kind == TCC_SEQUENCE && is_tensors(v)) {
			for (uint64_t k = 0; !rc && k < v->u.seq.n; k++) {
				snprintf(path, sizeof path, "%s/output_%u_%llu.npy", dir, i,
				         (unsigned long long)k);
				rc = write_output(p, i, &v->u.seq.items[k], path);
			}
		} else {
			snprintf(path, sizeof path, "%s/output_%u.%s", dir, i,
			         v->kind == TCC_TENSOR ? "npy" : "pb");
			rc = write_output(p, i, v, path);
		}
		if (rc)
			return rc;
	}
	return 0;
}

static void json_outputs(const Program *p)
{
	static const char *const kinds[] = {"none", "tensor", "sequence", "map"};
	fprintf(p->json, "{\n  \"version\": 1,\n  \"outputs\": [");
	for (uint32_t i = 0; i < p->meta->outputs.count; i++) {
		const TccValue *v = &p->outputs[i];
		fprintf(p->json, "%s\n    {\"name\": ", i ? "," : "");
		json_text(p->json, tcc_string(p->model, p->out[i].name));
		fprintf(p->json, ", \"kind\": \"%s\"", kinds[v->kind]);
		if (v->kind == TCC_TENSOR) {
			fprintf(p->json, ", \"dtype\": \"%s\", \"shape\": [", tcc_dtype_name(v->dtype));
			for (int a = 0; a < v->u.tensor.ndim; a++)
				fprintf(p->json, "%s%lld", a ? ", " : "", (long long)v->u.tensor.shape[a]);
			fputc(']', p->json);
		}
		fputc('}', p->json);
	}
	fprintf(p->json, "\n  ]\n}\n");
}

static int write_outputs(Program *p)
{
	int rc = write_named(p);
	if (!rc && p->args.output_dir)
		rc = write_to_dir(p);
	if (p->json)
		json_outputs(p);
	if (rc || p->json || p->args.noutputs || p->args.output_dir)
		return rc;
	for (uint32_t i = 0; i < p->meta->outputs.count; i++) {
		printf("%s: ", tcc_string(p->model, p->out[i].name));
		print_value(&p->outputs[i]);
	}
	return 0;
}

/* --- running ----------------------------------------------------------------------------- */

static double ms_since(uint64_t start)
{
	return (double)(tcc_now() - start) / 1e6;
}

/* The weights file when none is given: the one that the model names, beside the program, or
 * PROGRAM.weights. */
static const char *weights_beside(Program *p, char *buf, size_t size)
{
	if (p->model->weights || !p->model->weights_size)
		return NULL;
	ssize_t n = readlink("/proc/self/exe", buf, size - 1);
	if (n < 0)
		n = 0;
	buf[n] = 0;
	char *slash = strrchr(buf, '/');
	const char *name = tcc_string(p->model, p->meta->weights_file);
	if (*name)
		n = slash ? slash + 1 - buf : 0;
	snprintf(buf + n, size - n, "%s", *name ? name : ".weights");
	return buf;
}

static int load(Program *p)
{
	char path[PATH_MAX];
	TccOptions o = {
		.size = sizeof o,
		.threads = (int32_t)p->args.threads,
		.device = p->args.device,
		.weights = p->args.weights ? p->args.weights : weights_beside(p, path, sizeof path),
		.profile = (p->args.profile ? TCC_PROFILE_KERNELS : 0) |
			(p->args.bench ? TCC_PROFILE_TRANSFERS : 0),
	};
	uint64_t start = tcc_now();
	int rc = tcc_load(p->whole, &o, &p->inst);
	if (rc)
		return report(p, rc, "%s", tcc_inst_error(p->inst));
	rc = tcc_context_new(p->inst, &p->ctx);
	p->load_ms = ms_since(start);
	return rc ? report(p, rc, "%s", tcc_error(p->ctx)) : 0;
}

static int run_once(Program *p)
{
	int rc = tcc_run(p->ctx, p->inputs, p->meta->inputs.count, p->outputs, p->meta->outputs.count);
	return rc ? report(p, rc, "%s", tcc_error(p->ctx)) : 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double quantile(const double *sorted, long n, double q)
{
	long i = (long)ceil(q * (double)n) - 1;
	return sorted[i < 0 ? 0 : i];
}

typedef struct Timing {
	double first_ms, total_ms, h2d, exec, d2h;
	double *ms;
	long n;
} Timing;

static bool enough(const Args *a, const Timing *t, uint64_t start)
{
	if (a->iters)
		return t->n >= a->iters;
	return t->n >= 10 && ms_since(start) > a->duration * 1e3;
}

static int measure(Program *p, Timing *t)
{
	long room = 0;
	uint64_t start = tcc_now();
	int rc = run_once(p);
	t->first_ms = ms_since(start);
	for (long i = 0; !rc && i < p->args.warmup; i++)
		rc = run_once(p);
	tcc_profile_reset(p->ctx);
	for (start = tcc_now(); !rc && !enough(&p->args, t, start);) {
		if (t->n == room) {
			room = 2 * room + 1024;
			double *ms = realloc(t->ms, room * sizeof *ms);
			if (!ms)
				return report(p, TCC_BUDGET, "out of memory");
			t->ms = ms;
		}
		uint64_t begin = tcc_now();
		rc = run_once(p);
		t->ms[t->n] = ms_since(begin);
		TccTimes times = tcc_times(p->ctx);
		t->total_ms += t->ms[t->n++];
		t->h2d += (double)times.h2d / 1e6;
		t->exec += (double)times.exec / 1e6;
		t->d2h += (double)times.d2h / 1e6;
	}
	if (t->n)
		qsort(t->ms, t->n, sizeof *t->ms, by_value);
	return rc;
}

static void print_bench(const Program *p, const Timing *t)
{
	const struct { const char *name; double v; } rows[] = {
		{"load_ms", p->load_ms},
		{"first_ms", t->first_ms},
		{"min_ms", t->ms[0]},
		{"median_ms", quantile(t->ms, t->n, 0.5)},
		{"p90_ms", quantile(t->ms, t->n, 0.90)},
		{"p95_ms", quantile(t->ms, t->n, 0.95)},
		{"p99_ms", quantile(t->ms, t->n, 0.99)},
		{"h2d_ms", t->h2d / (double)t->n},
		{"exec_ms", t->exec / (double)t->n},
		{"d2h_ms", t->d2h / (double)t->n},
		{"throughput", (double)t->n * 1e3 / t->total_ms},
		{"iterations", (double)t->n},
		{"arena_bytes", (double)tcc_arena_bytes(p->ctx)},
	};
	if (p->json)
		fprintf(p->json, "{\n  \"version\": 1");
	for (size_t i = 0; i < TCC_COUNT(rows); i++) {
		if (p->json)
			fprintf(p->json, ",\n  \"%s\": %.9g", rows[i].name, rows[i].v);
		else
			printf("%-12s %.6g\n", rows[i].name, rows[i].v);
	}
	if (p->json)
		fprintf(p->json, "\n}\n");
}

typedef struct Row {
	const TccProfile *sums;
	const TccKernel *kernel;
} Row;

static int by_time(const void *a, const void *b)
{
	const TccProfile *x = ((const Row *)a)->sums, *y = ((const Row *)b)->sums;
	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return x < y ? -1 : x > y;
}

static void json_profile(const Program *p, const Row *rows, uint32_t n, double runs)
{
	FILE *f = p->json;
	fprintf(f, "{\n  \"version\": 1,\n  \"kernels\": [");
	for (uint32_t i = 0; i < n; i++) {
		const TccProfile *r = rows[i].sums;
		fprintf(f, "%s\n    {\"name\": ", i ? "," : "");
		json_text(f, tcc_string(p->model, rows[i].kernel->name));
		fprintf(f, ", \"nodes\": ");
		json_text(f, tcc_string(p->model, rows[i].kernel->nodes));
		fprintf(f, ", \"launches\": %.9g, \"time_us\": %.9g, \"flops\": %.9g, \"bytes\": %.9g}",
		        (double)r->launches / runs, (double)r->ns / 1e3 / runs, r->flops / runs,
		        r->bytes / runs);
	}
	fprintf(f, "\n  ]\n}\n");
}

static void text_profile(const Program *p, const Row *rows, uint32_t n, double runs)
{
	double total = 0;
	for (uint32_t i = 0; i < n; i++)
		total += (double)rows[i].sums->ns;
	printf("%10s %6s %8s %8s %8s  %s\n", "us", "share", "launches", "GFLOP/s", "GB/s",
	       "kernel (nodes)");
	for (uint32_t i = 0; i < n && rows[i].sums->launches; i++) {
		const TccProfile *r = rows[i].sums;
		double ns = r->ns ? (double)r->ns : 1;
		printf("%10.2f %5.1f%% %8.3g %8.3g %8.3g  %s (%s)\n", ns / 1e3 / runs,
		       100 * ns / (total > 0 ? total : 1), (double)r->launches / runs, r->flops / ns,
		       r->bytes / ns, tcc_string(p->model, rows[i].kernel->name),
		       tcc_string(p->model, rows[i].kernel->nodes));
	}
	printf("%10.2f 100.0%%\n", total / 1e3 / runs);
}

static int print_profile(const Program *p, long runs)
{
	uint32_t n = p->meta->kernels.count;
	Row *rows = calloc(n + 1, sizeof *rows);
	if (!rows)
		return report(p, TCC_BUDGET, "out of memory");
	for (uint32_t i = 0; i < n; i++)
		rows[i] = (Row){tcc_profile(p->ctx) + i,
		                (const TccKernel *)tcc_rows(p->model, p->meta->kernels) + i};
	qsort(rows, n, sizeof *rows, by_time);
	(p->json ? json_profile : text_profile)(p, rows, n, (double)runs);
	free(rows);
	return 0;
}

static int time_model(Program *p)
{
	Timing t = {0};
	int rc = make_inputs(p);
	if (!rc)
		rc = measure(p, &t);
	if (!rc && p->args.profile)
		rc = print_profile(p, t.n);
	else if (!rc)
		print_bench(p, &t);
	free(t.ms);
	if (!rc)
		rc = write_named(p);
	if (!rc && p->args.output_dir)
		rc = write_to_dir(p);
	return rc;
}

/* A variant has its own tables. */
static void use_model(Program *p, const TccModel *m)
{
	p->model = m;
	p->meta = tcc_meta(m);
	p->in = tcc_rows(m, p->meta->inputs);
	p->out = tcc_rows(m, p->meta->outputs);
}

static int work(Program *p)
{
	if (p->args.info) {
		if (p->json)
			json_info(p);
		else
			text_info(p);
		return 0;
	}
	int rc = load(p);
	if (rc)
		return rc;
	use_model(p, tcc_inst_model(p->inst));
	p->inputs = calloc(p->meta->inputs.count + 1, sizeof *p->inputs);
	p->outputs = calloc(p->meta->outputs.count + 1, sizeof *p->outputs);
	if (!p->inputs || !p->outputs)
		return report(p, TCC_BUDGET, "out of memory");
	if ((rc = read_inputs(p)))
		return rc;
	if (p->args.bench || p->args.profile)
		return time_model(p);
	rc = run_once(p);
	return rc ? rc : write_outputs(p);
}

static void clean_up(Program *p)
{
	if (p->hook && p->ctx)
		p->hook->done(p->hook->user, p->inst);
	for (uint32_t i = 0; p->inputs && i < p->meta->inputs.count; i++)
		tcc_value_free(&p->inputs[i]);
	tcc_context_free(p->ctx);
	tcc_unload(p->inst);
	free(p->inputs);
	free(p->outputs);
	free(p->args.inputs);
	free(p->args.outputs);
}

int tcc_program(const TccModel *model, const TccProgramHook *hook, int argc, char **argv)
{
	Program p = {.name = argc && argv[0] ? argv[0] : "model", .whole = model, .hook = hook};
	const char *slash = strrchr(p.name, '/');
	if (slash)
		p.name = slash + 1;
	int rc = tcc_model_check(model, &p.err);
	if (rc)
		return report(&p, rc, "%s", p.err.text);
	use_model(&p, model);
	rc = parse_args(&p, argc, argv);
	if (!rc && p.args.help)
		help(&p);
	else if (!rc && !(rc = open_json(&p))) {
		rc = work(&p);
		int rc2 = close_json(&p);
		rc = rc ? rc : rc2;
	}
	clean_up(&p);
	if (fflush(stdout) || ferror(stdout))
		rc = rc ? rc : report(&p, TCC_BAD_FILE, "stdout: %s", strerror(errno));
	return rc;
}
