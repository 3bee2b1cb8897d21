/* Small ONNX models, written field by field. */
#ifndef TEST_MODELS_H
#define TEST_MODELS_H

#include <stdio.h>

#include "tests/frontend/wire.h"

static inline void put_value(Msg *g, int field, const char *name)
{
	Msg v = { 0 };

	put_str(&v, 1, name);
	put_msg(g, field, &v);
}

/* "Op in in > out out" */
static inline Msg node(const char *text)
{
	Msg n = { 0 };
	char copy[256], *save, *word;
	int field = 4;

	snprintf(copy, sizeof copy, "%s", text);
	for (word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		if (!strcmp(word, ">")) {
			field = 2;
			continue;
		}
		put_str(&n, field, strcmp(word, "-") ? word : "");
		field = field == 4 ? 1 : field;
	}
	return n;
}

static inline void put_node(Msg *g, const char *text)
{
	Msg n = node(text);

	put_msg(g, 1, &n);
}

static inline Msg model_at(const Msg *graph, int opset)
{
	Msg m = { 0 }, set = { 0 };

	put_int(&m, 1, 8);
	put_int(&set, 2, opset);
	put_msg(&m, 8, &set);
	put_msg(&m, 7, graph);
	return m;
}

static inline Msg model(const Msg *graph)
{
	return model_at(graph, 17);
}

/* A float32 (or other) tensor value; dims: "2,N,?" with "" for rank 0. */
static inline void put_typed(Msg *g, int field, const char *name, int elem, const char *dims)
{
	Msg v = { 0 }, type = { 0 }, tensor = { 0 }, shape = { 0 };
	char copy[256], *save, *word;

	snprintf(copy, sizeof copy, "%s", dims);
	for (word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		Msg dim = { 0 };
		if (*word >= '0' && *word <= '9')
			put_int(&dim, 1, strtol(word, NULL, 10));
		else if (*word != '?')
			put_str(&dim, 2, word);
		put_msg(&shape, 1, &dim);
	}
	put_int(&tensor, 1, elem);
	put_msg(&tensor, 2, &shape);
	put_msg(&type, 1, &tensor);
	put_str(&v, 1, name);
	put_msg(&v, 2, &type);
	put_msg(g, field, &v);
}

static inline void put_attr_int(Msg *n, const char *name, int64_t v)
{
	Msg a = { 0 };

	put_str(&a, 1, name);
	put_int(&a, 20, 2);
	put_int(&a, 3, v);
	put_msg(n, 5, &a);
}

static inline void put_attr_float(Msg *n, const char *name, float v)
{
	Msg a = { 0 };

	put_str(&a, 1, name);
	put_int(&a, 20, 1);
	put_varint(&a, 2 << 3 | 5);
	memcpy(a.b + a.n, &v, 4);
	a.n += 4;
	put_msg(n, 5, &a);
}

static inline void put_attr_str(Msg *n, const char *name, const char *v)
{
	Msg a = { 0 };

	put_str(&a, 1, name);
	put_int(&a, 20, 3);
	put_str(&a, 4, v);
	put_msg(n, 5, &a);
}

static inline void put_attr_ints(Msg *n, const char *name, int count, const int64_t *v)
{
	Msg a = { 0 };

	put_str(&a, 1, name);
	put_int(&a, 20, 7);
	for (int i = 0; i < count; i++)
		put_int(&a, 8, v[i]);
	put_msg(n, 5, &a);
}

static inline void put_attr_graph(Msg *n, const char *name, const Msg *g)
{
	Msg a = { 0 };

	put_str(&a, 1, name);
	put_int(&a, 20, 5);
	put_msg(&a, 6, g);
	put_msg(n, 5, &a);
}

#endif
