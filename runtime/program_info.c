/* What a model says of itself: --info. */
#include <stdlib.h>
#include <string.h>
#include "program.h"

void tcc_json_text(FILE *f, const char *s)
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
	                 port->kind == TCC_SEQUENCE && port->elem_kind == TCC_MAP
	                 ? kinds[TCC_MAP] : "");
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
	char images[300];
	tcc_image_list(m, images, sizeof images);
	if (*images)
		printf("images:  %s\n", images);
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
		tcc_json_text(f, tcc_string(p->model, port->name));
		fprintf(f, ", \"type\": ");
		tcc_json_text(f, type);
		fprintf(f, ", \"dtype\": \"%s\", \"shape\": ", tcc_dtype_name(port->dtype));
		if (port->rank < 0)
			fputs("null", f);
		for (int a = 0; a < port->rank; a++) {
			fputs(a ? ", " : "[", f);
			if (d[port->dims + a].size >= 0)
				fprintf(f, "%lld", (long long)d[port->dims + a].size);
			else
				tcc_json_text(f, tcc_string(p->model, d[port->dims + a].symbol));
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
	tcc_json_text(f, tcc_string(m, h->name));
	json_key(f, false, "target");
	tcc_json_text(f, tcc_string(m, h->target));
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
		tcc_json_text(f, tcc_string(m, h->arena_formula));
	json_key(f, false, "precision");
	tcc_json_text(f, tcc_string(m, h->precision));
	json_key(f, false, "manifest");
	fprintf(f, "%s\n}\n", h->manifest ? tcc_string(m, h->manifest) : "null");
}

void tcc_print_info(const Program *p)
{
	if (p->json)
		json_info(p);
	else
		text_info(p);
}
