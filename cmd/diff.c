/*
 * diff: where two models or artefacts differ. Both are described as inspect --json describes them,
 * and the documents are compared: options and tools first, then inputs and outputs, kernels,
 * constants, memory. Of each part the first difference is told, with --verbose all.
 */
#include <stdlib.h>
#include <string.h>
#include "cmd.h"

typedef struct Diff {
	const Options *o;
	cJSON *list;           /* of --json */
	bool mixed;            /* a model and an artefact: only what is known of both counts */
	int n;
} Diff;

/* The parts of a document, the cause before the effect, and what to call them. */
static const struct { const char *name, *title; } parts[] = {
	{"manifest", "option"}, {"target", "target"}, {"inputs", "input"}, {"outputs", "output"},
	{"precision", "precision"}, {"kernel_count", "kernels"}, {"kernels", "kernel"},
	{"weight_bytes", "weights"}, {"buffers", "buffer"}, {"arena_bytes", "arena"},
	{"variants", "variant"},
};

static void
tell(Diff *d, const char *title, const char *path, const cJSON *a, const cJSON *b)
{
	char *x = a ? cJSON_PrintUnformatted(a) : NULL, *y = b ? cJSON_PrintUnformatted(b) : NULL;
	cJSON *j = json_add(d->list);

	if (!d->o->json || *d->o->json)
		printf("%s%s%s: %.200s | %.200s\n", title, *path ? " " : "", path, x ? x : "none",
			y ? y : "none");
	json_text(j, "part", title);
	json_text(j, "where", path);
	json_text(j, "a", x ? x : "");
	json_text(j, "b", y ? y : "");
	free(x);
	free(y);
	d->n++;
}

/* What an element of a list is called: its name, else its number. */
static void
element_path(char *buf, size_t size, const char *path, const cJSON *e, int i)
{
	const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(e, "name"));

	if (name)
		snprintf(buf, size, "%s%s%s", path, *path ? "." : "", name);
	else
		snprintf(buf, size, "%s%s%d", path, *path ? "." : "", i);
}

static bool walk(Diff *, const char *title, const char *path, const cJSON *a, const cJSON *b);

static bool
walk_list(Diff *d, const char *title, const char *path, const cJSON *a, const cJSON *b)
{
	const cJSON *x = a->child, *y = b->child;
	bool more = true;
	char at[600];
	int i;

	for (i = 0; (x || y) && more; i++) {
		element_path(at, sizeof at, path, x ? x : y, i);
		more = walk(d, title, at, x, y);
		x = x ? x->next : NULL;
		y = y ? y->next : NULL;
	}
	return more;
}

static bool
walk_object(Diff *d, const char *title, const char *path, const cJSON *a, const cJSON *b)
{
	bool more = true;
	const cJSON *x;
	char at[600];

	cJSON_ArrayForEach(x, a) {
		snprintf(at, sizeof at, "%s%s%s", path, *path ? "." : "", x->string);
		if (more)
			more = walk(d, title, at, x, cJSON_GetObjectItemCaseSensitive(b, x->string));
	}
	cJSON_ArrayForEach(x, b) {
		snprintf(at, sizeof at, "%s%s%s", path, *path ? "." : "", x->string);
		if (more && !cJSON_GetObjectItemCaseSensitive(a, x->string))
			more = walk(d, title, at, NULL, x);
	}
	return more;
}

/* False: enough was told of this part. */
static bool
walk(Diff *d, const char *title, const char *path, const cJSON *a, const cJSON *b)
{
	if (cJSON_IsObject(a) && cJSON_IsObject(b))
		return walk_object(d, title, path, a, b);
	if (cJSON_IsArray(a) && cJSON_IsArray(b))
		return walk_list(d, title, path, a, b);
	if (d->mixed && (!a || !b || a->type != b->type))
		return true;
	if ((!a && !b) || cJSON_Compare(a, b, true))
		return true;
	tell(d, title, path, a, b);
	return d->o->verbose;
}

static bool
same_bytes(const char *a, const char *b)
{
	TccBuf x = {0}, y = {0};
	bool same = tcc_read_file(a, &x, NULL) == 0 && tcc_read_file(b, &y, NULL) == 0 && x.n == y.n
		&& memcmp(x.p, y.p, x.n) == 0;

	tcc_buf_free(&x);
	tcc_buf_free(&y);
	return same;
}

static int
finish(const Diff *d)
{
	const char *a = d->o->files[0], *b = d->o->files[1];
	bool text = !d->o->json || *d->o->json;

	if (d->n)
		return X_DIFFER;
	if (text && is_artefact(a) && is_artefact(b) && !same_bytes(a, b))
		printf("all that is described is equal, the files are not: "
			"symbols, prefixes or tools differ\n");
	else if (text)
		printf("no difference\n");
	return X_OK;
}

int
cmd_diff(const Options *o)
{
	Diff d = {.o = o, .mixed = is_artefact(o->files[0]) != is_artefact(o->files[1])};
	cJSON *json = json_new(o), *doc[2];
	Options quiet = *o;
	int i, code = X_OK;
	size_t k;

	quiet.json = NULL;
	quiet.verbose = true;                        /* buffers too */
	d.list = json_list(json, "differences");
	for (i = 0; i < 2; i++) {
		doc[i] = cJSON_CreateObject();
		if (!doc[i])
			abort();
		if (!code)
			code = inspect_into(&quiet, o->files[i], doc[i]);
	}
	for (k = 0; k < sizeof parts / sizeof *parts && !code; k++)
		walk(&d, parts[k].title, "", cJSON_GetObjectItem(doc[0], parts[k].name),
			cJSON_GetObjectItem(doc[1], parts[k].name));
	cJSON_Delete(doc[0]);
	cJSON_Delete(doc[1]);
	return json_end(o, json, code ? code : finish(&d));
}
