/* Inputs and outputs of the program: files, made-up inputs, a summary on the terminal. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "program.h"

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
	const char *name = tcc_string(p->model, p->in[i].name);
	return rc ? tcc_report(p, rc, "input '%s': %s", name, p->err.text) : 0;
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
		return tcc_report(p, rc, "%s: %s", file, p->err.text);
	for (uint32_t i = 0; !rc && i < p->meta->inputs.count; i++)
		if (tcc_zip_find(&z, tcc_string(p->model, p->in[i].name)) >= 0) {
			used++;
			rc = read_input(p, i, file);
		}
	tcc_buf_free(&b);
	if (!rc && !used)
		return tcc_report(p, TCC_USAGE, "%s: none of its members has the name of an input", file);
	return rc;
}

int tcc_read_inputs(Program *p)
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

int tcc_make_inputs(Program *p)
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
			return tcc_report(p, TCC_USAGE, "input '%s' is no tensor and must be given",
			              tcc_string(p->model, port->name));
		for (int a = 0; a < port->rank; a++) {
			const TccDim *x = &d[port->dims + a];
			dims[a] = x->size >= 0 ? x->size : x->lo > 1 ? x->lo : 1;
		}
		int rc = tcc_tensor_new(&p->inputs[i], port->dtype, port->rank < 0 ? 1 : port->rank,
		                        port->rank < 0 ? (int64_t[]){1} : dims, &p->err);
		if (rc)
			return tcc_report(p, rc, "%s", p->err.text);
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
	return rc ? tcc_report(p, rc, "%s", p->err.text) : 0;
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
	int rc = names && values ? 0 : tcc_report(p, TCC_BUDGET, "out of memory");
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
			tcc_report(p, rc, "%s: %s", file, p->err.text);
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
		return tcc_report(p, TCC_BAD_FILE, "%s: %s", dir, strerror(errno));
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
		tcc_json_text(p->json, tcc_string(p->model, p->out[i].name));
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

int tcc_write_files(Program *p)
{
	int rc = write_named(p);
	return !rc && p->args.output_dir ? write_to_dir(p) : rc;
}

int tcc_write_outputs(Program *p)
{
	int rc = tcc_write_files(p);
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
