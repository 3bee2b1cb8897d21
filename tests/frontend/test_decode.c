/* The ONNX reader: wire faults, tensors in every field, structure, functions. */
/* First: check.h and unistd.h define names that ir.h declares (fail, X_OK). */
#include "frontend/frontend.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/frontend/models.h"

static Diag diag;
static Module *mod;

static void setup(void)
{
	diag = (Diag){ 0 };
	mod = module_new(&diag);
}

static void teardown(void)
{
	module_free(mod);
}

static OnnxModel *read_model(const Msg *m, const char *dir)
{
	return onnx_read(mod, m->b, m->n, dir);
}

static void expect(const Msg *m, int code, const char *text)
{
	ck_assert_ptr_null(read_model(m, NULL));
	ck_assert_msg(strstr(diag.first, text), "got: %s", diag.first);
	ck_assert_int_eq(diag.code, code);
}

/* x -> nodes -> y */
static Msg simple(const char *const *nodes)
{
	Msg g = { 0 };

	for (; *nodes; nodes++)
		put_node(&g, *nodes);
	put_value(&g, 11, "x");
	put_value(&g, 12, "y");
	return model(&g);
}
#define SIMPLE(...) simple((const char *const[]){ __VA_ARGS__, NULL })

static Msg tensor(int type, int64_t dim)
{
	Msg t = { 0 };

	put_str(&t, 8, "w");
	put_int(&t, 2, type);
	put_int(&t, 1, dim);
	return t;
}

static Msg with_tensor(const Msg *t)
{
	Msg g = { 0 };

	put_msg(&g, 5, t);
	put_value(&g, 12, "w");
	return model(&g);
}

static const OnnxTensor *read_tensor(const Msg *t)
{
	Msg m = with_tensor(t);
	OnnxModel *om = read_model(&m, NULL);

	ck_assert_msg(om, "%s", diag.first);
	return om->graph->init[0];
}

/* ---- wire ----------------------------------------------------------------------------------- */

START_TEST(accepts)
{
	Msg m = SIMPLE("Relu x > y");
	OnnxModel *om = read_model(&m, NULL);

	ck_assert_msg(om, "%s", diag.first);
	ck_assert_str_eq(om->graph->node[0]->op, "Relu");
	ck_assert_int_eq(om->graph->node[0]->version, 17);
}
END_TEST

/* Whatever is cut off, there is an error and no crash. */
START_TEST(truncated_anywhere)
{
	Msg m = SIMPLE("Relu x > z", "Relu z > y");
	size_t n = m.n;

	for (m.n = 0; m.n < n; m.n++) {
		ck_assert_ptr_null(read_model(&m, NULL));
		ck_assert_int_gt(diag.errors, 0);
		diag.errors = 0;
	}
}
END_TEST

START_TEST(truncated_says_where)
{
	Msg m = SIMPLE("Relu x > y");

	m.n -= 3;
	char text[64];
	snprintf(text, sizeof text, "truncated at byte %zu", m.n);
	expect(&m, X_INVALID, text);
}
END_TEST

START_TEST(not_onnx)
{
	Msg m = { .n = 16, .b = "\x89PNG\r\n\x1a\n" };

	expect(&m, X_INVALID, "not an ONNX model");
}
END_TEST

START_TEST(empty_file)
{
	Msg m = { 0 };

	expect(&m, X_INVALID, "not an ONNX model");
}
END_TEST

START_TEST(inner_overrun)
{
	Msg n = node("Relu x > y"), g = { 0 };

	put_msg(&g, 1, &n);
	g.b[1] += 9;
	put_value(&g, 12, "y");
	Msg m = model(&g);
	g.n = 0;
	expect(&m, X_INVALID, "not a valid ONNX model");
}
END_TEST

START_TEST(doubled_graph)
{
	Msg m = SIMPLE("Relu x > y"), g = { 0 };

	put_msg(&m, 7, &g);
	expect(&m, X_INVALID, "stands twice");
}
END_TEST

START_TEST(wrong_wire_type)
{
	Msg m = SIMPLE("Relu x > y");

	put_int(&m, 7, 1);
	expect(&m, X_INVALID, "wire type 0");
}
END_TEST

/* 3000 types within types would overflow a recursive reader's stack. */
START_TEST(deep_types)
{
	static Msg a, b;
	Msg g = { 0 };

	a.n = 0;
	for (int i = 0; i < 3000; i++) {
		b.n = 0;
		put_msg(&b, 1, &a);
		a.n = 0;
		put_msg(&a, 4, &b);
	}
	b.n = 0;
	put_str(&b, 1, "y");
	put_msg(&b, 2, &a);
	put_msg(&g, 11, &b);
	Msg m = model(&g);
	expect(&m, X_INVALID, "types nested too deeply (limit 64)");
}
END_TEST

START_TEST(nul_in_name)
{
	Msg g = { 0 }, n = node("Relu x");

	put_bytes(&n, 2, "y\0z", 3);
	put_msg(&g, 1, &n);
	put_value(&g, 11, "x");
	Msg m = model(&g);
	expect(&m, X_INVALID, "a node output's name holds a zero byte");
}
END_TEST

START_TEST(no_utf8)
{
	ck_assert(onnx_utf8((OnnxBytes){ "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10 }));
	ck_assert(!onnx_utf8((OnnxBytes){ "\xc0\x80", 2 }));
	ck_assert(!onnx_utf8((OnnxBytes){ "\xed\xa0\x80", 3 }));
	ck_assert(!onnx_utf8((OnnxBytes){ "\xe2\x82", 2 }));
	ck_assert(!onnx_utf8((OnnxBytes){ "\xff", 1 }));
}
END_TEST

/* ---- tensors -------------------------------------------------------------------------------- */

/* type, count; field and its entries as varints or 8-byte words; the bytes that must come out */
static const struct { int type, count, field; int64_t v[4]; int n; const char *bytes; } typed[] = {
	{ 2, 2, 5, { 7, 255 }, 2, "\x07\xff" },
	{ 3, 2, 5, { -1, 127 }, 2, "\xff\x7f" },
	{ 4, 1, 5, { 65535 }, 1, "\xff\xff" },
	{ 6, 1, 5, { -2 }, 1, "\xfe\xff\xff\xff" },
	{ 7, 1, 7, { -2 }, 1, "\xfe\xff\xff\xff\xff\xff\xff\xff" },
	{ 9, 2, 5, { 0, 1 }, 2, "\x00\x01" },
	{ 10, 1, 5, { 0x3c00 }, 1, "\x00\x3c" },
	{ 12, 1, 11, { 4000000000 }, 1, "\x00\x28\x6b\xee" },
	{ 13, 1, 11, { -1 }, 1, "\xff\xff\xff\xff\xff\xff\xff\xff" },
	{ 17, 2, 5, { 0x38, 0xb8 }, 2, "\x38\xb8" },
	{ 21, 3, 5, { 0x21, 0x03 }, 2, "\x21\x03" },
	{ 22, 3, 5, { 0xf1, 0x07 }, 2, "\xf1\x07" },
	{ 23, 1, 5, { 0x0f }, 1, "\x0f" },
	{ 25, 5, 5, { 0xe4, 0x01 }, 2, "\xe4\x01" },
	{ 27, 4, 5, { 1, 2, 3, 63 }, 4, "\x81\x30\xfc" },
};

START_TEST(typed_fields)
{
	Msg t = tensor(typed[_i].type, typed[_i].count), list = { 0 };

	for (int i = 0; i < typed[_i].n; i++)
		put_varint(&list, (uint64_t)typed[_i].v[i]);
	put_msg(&t, typed[_i].field, &list);
	const OnnxTensor *r = read_tensor(&t);
	ck_assert_int_eq(r->count, typed[_i].count);
	ck_assert_mem_eq(r->data, typed[_i].bytes, r->size);
}
END_TEST

START_TEST(unpacked_numbers)
{
	Msg t = tensor(7, 2);

	put_int(&t, 7, 5);
	put_int(&t, 7, -6);
	ck_assert_mem_eq(read_tensor(&t)->data, ((int64_t[]){ 5, -6 }), 16);
}
END_TEST

START_TEST(raw_bool_is_0_or_1)
{
	Msg t = tensor(9, 3);

	put_bytes(&t, 9, "\x00\x02\x01", 3);
	ck_assert_mem_eq(read_tensor(&t)->data, "\x00\x01\x01", 3);
}
END_TEST

START_TEST(strings)
{
	Msg t = tensor(8, 2);

	put_str(&t, 6, "ab");
	put_bytes(&t, 6, "c\0d", 3);
	const OnnxTensor *r = read_tensor(&t);
	ck_assert_int_eq(r->strings[1].n, 3);
	ck_assert_mem_eq(r->strings[1].p, "c\0d", 3);
}
END_TEST

static void bad_tensor(Msg *t, int code, const char *text)
{
	Msg m = with_tensor(t);

	expect(&m, code, text);
	ck_assert_int_eq(diag.errors, 1);
}

START_TEST(raw_short)
{
	Msg t = tensor(1, 8);

	put_bytes(&t, 9, "123456789012", 12);
	bad_tensor(&t, X_INVALID, "initializer \"w\": 12 bytes of data for 8 float32 (32 bytes)");
}
END_TEST

START_TEST(count_overflows)
{
	Msg t = tensor(1, (int64_t)1 << 62);

	put_int(&t, 1, 4);
	bad_tensor(&t, X_INVALID, "element count overflows");
}
END_TEST

START_TEST(size_overflows)
{
	Msg t = tensor(11, INT64_MAX / 8);

	bad_tensor(&t, X_INVALID, "size overflows");
}
END_TEST

START_TEST(negative_dim)
{
	Msg t = tensor(1, -1);

	bad_tensor(&t, X_INVALID, "dimension 0 is -1");
}
END_TEST

START_TEST(wrong_field)
{
	Msg t = tensor(1, 1);

	put_int(&t, 7, 1);
	bad_tensor(&t, X_INVALID, "its data are in int64_data");
}
END_TEST

START_TEST(out_of_range)
{
	Msg t = tensor(2, 1);

	put_int(&t, 5, 256);
	bad_tensor(&t, X_INVALID, "int32_data[0] is 256, which is no uint8");
}
END_TEST

START_TEST(unknown_type)
{
	Msg t = tensor(99, 1);

	bad_tensor(&t, X_UNSUPPORTED, "unknown element type 99");
}
END_TEST

static Msg sparse(const int64_t *at, int n, int64_t dim)
{
	Msg v = tensor(6, n), i = { 0 }, s = { 0 }, g = { 0 }, list = { 0 }, ones = { 0 };

	for (int k = 0; k < n; k++) {
		put_varint(&list, (uint64_t)at[k]);
		put_varint(&ones, (uint64_t)k + 1);
	}
	put_msg(&v, 5, &ones);
	put_int(&i, 2, 7);
	put_int(&i, 1, n);
	put_msg(&i, 7, &list);
	put_msg(&s, 1, &v);
	put_msg(&s, 2, &i);
	put_int(&s, 3, dim);
	put_msg(&g, 15, &s);
	put_value(&g, 12, "w");
	return model(&g);
}

START_TEST(sparse_made_dense)
{
	Msg m = sparse((int64_t[]){ 1, 3 }, 2, 5);
	OnnxModel *om = read_model(&m, NULL);

	ck_assert_msg(om, "%s", diag.first);
	ck_assert_mem_eq(om->graph->init[0]->data, ((int32_t[]){ 0, 1, 0, 2, 0 }), 20);
}
END_TEST

START_TEST(sparse_outside)
{
	Msg m = sparse((int64_t[]){ 1, 5 }, 2, 5);

	expect(&m, X_INVALID, "sparse index 1 is outside the shape");
}
END_TEST

START_TEST(sparse_huge)
{
	Msg m = sparse((int64_t[]){ 1 }, 1, (int64_t)1 << 40);

	expect(&m, X_UNSUPPORTED, "bytes when dense");
}
END_TEST

/* ---- external data -------------------------------------------------------------------------- */

static char dir[] = "/tmp/tcc-extern-XXXXXX";

static void in_folder(void)
{
	FILE *f;

	setup();
	strcpy(dir + sizeof dir - 7, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chdir(dir), 0);
	f = fopen("w.bin", "wb");
	fwrite("0123456789abcdef", 1, 16, f);
	fclose(f);
}

static void out_of_folder(void)
{
	unlink("w.bin");
	unlink("link");
	ck_assert_int_eq(chdir("/"), 0);
	rmdir(dir);
	teardown();
}

static Msg external(const char *location, const char *offset, const char *length)
{
	Msg t = tensor(2, 4);

	put_int(&t, 14, 1);
	put_pair(&t, 13, "location", location);
	if (offset)
		put_pair(&t, 13, "offset", offset);
	if (length)
		put_pair(&t, 13, "length", length);
	return with_tensor(&t);
}

static void external_is(const Msg *m, const char *bytes)
{
	OnnxModel *om = read_model(m, dir);

	ck_assert_msg(om, "%s", diag.first);
	ck_assert_mem_eq(om->graph->init[0]->data, bytes, 4);
	onnx_close(om);
}

static void external_fails(const Msg *m, const char *text)
{
	ck_assert_ptr_null(read_model(m, dir));
	ck_assert_msg(strstr(diag.first, text), "got: %s", diag.first);
	ck_assert_int_eq(diag.code, X_INVALID);
	ck_assert_int_eq(diag.errors, 1);
}

START_TEST(external_reads)
{
	Msg m = external("w.bin", "3", "4");

	external_is(&m, "3456");
}
END_TEST

START_TEST(external_defaults)
{
	Msg m = external("./w.bin", NULL, NULL);

	external_is(&m, "0123");
}
END_TEST

static const struct { const char *location, *offset, *length, *text; } ext_faults[] = {
	{ "w.bin", "13", NULL, "needs bytes 13..17 of \"w.bin\", which has 16" },
	{ "w.bin", "0", "3", "external data of length 3, but 4 uint8 need 4 bytes" },
	{ "w.bin", "18446744073709551615", NULL, "offset is not a number of bytes" },
	{ "w.bin", "9223372036854775807", NULL, "needs bytes" },
	{ "w.bin", "-1", NULL, "offset is not a number of bytes" },
	{ "none.bin", NULL, NULL, "does not exist" },
	{ "/etc/passwd", NULL, NULL, "external data path must be relative: /etc/passwd" },
	{ "../passwd", NULL, NULL, "leaves the model folder" },
	{ "x/../../passwd", NULL, NULL, "leaves the model folder" },
	{ ".", NULL, NULL, "leaves the model folder" },
	{ "", NULL, NULL, "without a location" },
};

START_TEST(external_faults)
{
	Msg m = external(ext_faults[_i].location, ext_faults[_i].offset, ext_faults[_i].length);

	external_fails(&m, ext_faults[_i].text);
}
END_TEST

START_TEST(external_link_out)
{
	Msg m = external("link", NULL, NULL);

	ck_assert_int_eq(symlink("/etc/passwd", "link"), 0);
	external_fails(&m, "leaves the model folder");
}
END_TEST

START_TEST(external_link_within)
{
	Msg m = external("link", NULL, NULL);

	ck_assert_int_eq(symlink("w.bin", "link"), 0);
	external_is(&m, "0123");
}
END_TEST

/* ---- structure ------------------------------------------------------------------------------ */

START_TEST(undefined)
{
	Msg m = SIMPLE("Relu ghost > y");

	expect(&m, X_INVALID, "value \"ghost\" is not defined by any node, input or initializer");
}
END_TEST

START_TEST(all_reported)
{
	Msg m = SIMPLE("Relu ghost > a", "Relu spook > b");

	expect(&m, X_INVALID, "ghost");
	ck_assert_int_eq(diag.errors, 3);
}
END_TEST

START_TEST(defined_twice)
{
	Msg m = SIMPLE("Relu x > y", "Abs x > y");

	expect(&m, X_INVALID, "value \"y\" is defined a second time; Relu 'y' (node 0) defines it too");
}
END_TEST

START_TEST(sorts)
{
	Msg m = SIMPLE("Neg b > y", "Abs a > b", "Relu x > a");
	OnnxModel *om = read_model(&m, NULL);

	ck_assert_msg(om, "%s", diag.first);
	ck_assert_str_eq(om->graph->node[0]->op, "Relu");
	ck_assert_str_eq(om->graph->node[1]->op, "Abs");
	ck_assert_str_eq(om->graph->node[2]->op, "Neg");
	ck_assert_int_eq(om->graph->node[2]->index, 0);
}
END_TEST

START_TEST(cycle)
{
	Msg m = SIMPLE("Add x b > a", "Relu a > b", "Neg b > y");

	expect(&m, X_INVALID, "the nodes form a cycle");
	ck_assert_int_eq(diag.errors, 1);
}
END_TEST

START_TEST(optional_operands)
{
	Msg m = SIMPLE("Clip x - x > y");
	OnnxModel *om = read_model(&m, NULL);

	ck_assert_msg(om, "%s", diag.first);
	ck_assert_int_eq(om->graph->node[0]->nin, 3);
	ck_assert_str_eq(om->graph->node[0]->in[1], "");
}
END_TEST

static Msg versions(int64_t ir, const char *domain, int64_t opset)
{
	Msg m = { 0 }, set = { 0 }, g = { 0 };

	put_int(&m, 1, ir);
	put_str(&set, 1, domain);
	put_int(&set, 2, opset);
	put_msg(&m, 8, &set);
	put_node(&g, "Relu x > y");
	put_value(&g, 11, "x");
	put_value(&g, 12, "y");
	put_msg(&m, 7, &g);
	return m;
}

START_TEST(future_opset)
{
	Msg m = versions(8, "ai.onnx", 29);

	expect(&m, X_UNSUPPORTED, "opset 29 of ai.onnx is newer than the newest known (28)");
}
END_TEST

START_TEST(future_ir)
{
	Msg m = versions(15, "", 17);

	expect(&m, X_UNSUPPORTED, "IR version 15 is newer");
}
END_TEST

START_TEST(opset_not_imported)
{
	Msg m = versions(8, "custom", 1);
	OnnxModel *om = read_model(&m, NULL);

	ck_assert_msg(om, "%s", diag.first);
	ck_assert_int_eq(om->graph->node[0]->version, 28);
	ck_assert_int_eq(diag.warnings, 1);
}
END_TEST

/* ---- functions ------------------------------------------------------------------------------ */

static void put_function(Msg *m, const char *name, const char *const *nodes)
{
	Msg f = { 0 };

	put_str(&f, 1, name);
	put_str(&f, 10, "local");
	put_str(&f, 4, "a");
	put_str(&f, 5, "b");
	for (; *nodes; nodes++) {
		Msg n = node(*nodes);
		if (**nodes == '*') {   /* a call: "*name" */
			n = node(*nodes + 1);
			put_str(&n, 7, "local");
		}
		put_msg(&f, 7, &n);
	}
	put_msg(m, 25, &f);
}
#define FUNCTION(m, name, ...) put_function(m, name, (const char *const[]){ __VA_ARGS__, NULL })

static Msg calling(const char *text)
{
	Msg g = { 0 }, n = node(text);

	put_str(&n, 7, "local");
	put_str(&n, 3, "top");
	put_msg(&g, 1, &n);
	put_value(&g, 11, "x");
	put_value(&g, 12, "y");
	return model(&g);
}

START_TEST(inlines)
{
	Msg m = calling("f x > y");

	FUNCTION(&m, "f", "Relu a > t", "*g t > b");
	FUNCTION(&m, "g", "Neg a > t", "Abs t > b");
	OnnxModel *om = read_model(&m, NULL);
	ck_assert_msg(om, "%s", diag.first);
	ck_assert_int_eq(om->graph->nnode, 3);
	ck_assert_str_eq(om->graph->node[0]->out[0], "top/t");
	ck_assert_str_eq(om->graph->node[1]->in[0], "top/t");
	ck_assert_str_eq(om->graph->node[1]->out[0], "g/t");
	ck_assert_str_eq(om->graph->node[2]->out[0], "y");
}
END_TEST

START_TEST(passes_through)
{
	Msg m = calling("f x > y"), f = { 0 };

	put_str(&f, 1, "f");
	put_str(&f, 10, "local");
	put_str(&f, 4, "a");
	put_str(&f, 5, "a");
	put_msg(&m, 25, &f);
	OnnxModel *om = read_model(&m, NULL);
	ck_assert_msg(om, "%s", diag.first);
	ck_assert_str_eq(om->graph->node[0]->op, "Identity");
	ck_assert_str_eq(om->graph->node[0]->in[0], "x");
	ck_assert_str_eq(om->graph->node[0]->out[0], "y");
}
END_TEST

START_TEST(calls_itself)
{
	Msg m = calling("f x > y");

	FUNCTION(&m, "f", "*f a > b");
	expect(&m, X_INVALID, "function f calls itself");
}
END_TEST

/* 40 functions, each calling the next twice. */
START_TEST(exponential)
{
	Msg m = calling("f0 x > y");
	char name[8], first[32], second[32];

	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof name, "f%d", i);
		snprintf(first, sizeof first, i < 39 ? "*f%d a > t" : "Neg a > t", i + 1);
		snprintf(second, sizeof second, i < 39 ? "*f%d t > b" : "Neg t > b", i + 1);
		FUNCTION(&m, name, first, second);
	}
	expect(&m, X_UNSUPPORTED, "would grow to more than");
}
END_TEST

START_TEST(attribute_reference)
{
	Msg m = calling("f x > y"), f = { 0 }, n = node("LeakyRelu a > b"), a = { 0 }, d = { 0 };

	put_str(&a, 1, "alpha");
	put_str(&a, 21, "slope");
	put_int(&a, 20, 1);
	put_msg(&n, 5, &a);
	put_str(&d, 1, "slope");
	put_int(&d, 20, 2);
	put_int(&d, 3, 7);
	put_str(&f, 1, "f");
	put_str(&f, 10, "local");
	put_str(&f, 4, "a");
	put_str(&f, 5, "b");
	put_msg(&f, 7, &n);
	Msg bad = m, bad_f = f;
	put_str(&f, 6, "slope");
	put_msg(&m, 25, &f);
	OnnxModel *om = read_model(&m, NULL);
	ck_assert_msg(om, "%s", diag.first);
	ck_assert_int_eq(om->graph->node[0]->nattr, 0);
	put_msg(&bad_f, 11, &d);
	put_msg(&bad, 25, &bad_f);
	expect(&bad, X_INVALID, "attribute \"slope\" has not the type");
}
END_TEST

START_TEST(reference_outside)
{
	Msg g = { 0 }, n = node("LeakyRelu x > y"), a = { 0 };

	put_str(&a, 1, "alpha");
	put_str(&a, 21, "slope");
	put_msg(&n, 5, &a);
	put_msg(&g, 1, &n);
	put_value(&g, 11, "x");
	Msg m = model(&g);
	expect(&m, X_INVALID, "only a function's body may refer");
}
END_TEST

/* ---- subgraphs ------------------------------------------------------------------------------ */

static Msg branch_using(const char *text)
{
	Msg g = { 0 }, branch = { 0 }, a = { 0 }, n = node("If x > y");

	put_node(&branch, text);
	put_value(&branch, 12, "r");
	put_str(&a, 1, "then_branch");
	put_int(&a, 20, 5);
	put_msg(&a, 6, &branch);
	put_msg(&n, 5, &a);
	put_msg(&g, 1, &n);
	put_node(&g, "Relu x > late");
	put_value(&g, 11, "x");
	put_value(&g, 12, "y");
	return model(&g);
}

START_TEST(capture_orders)
{
	Msg m = branch_using("Neg late > r");
	OnnxModel *om = read_model(&m, NULL);

	ck_assert_msg(om, "%s", diag.first);
	ck_assert_str_eq(om->graph->node[0]->op, "Relu");
}
END_TEST

START_TEST(capture_of_own_result)
{
	Msg m = branch_using("Neg y > r");

	expect(&m, X_INVALID, "cycle");
}
END_TEST

START_TEST(undefined_in_subgraph)
{
	Msg m = branch_using("Neg ghost > r");

	expect(&m, X_INVALID, "Neg 'y/then_branch/r'");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("frontend");
	TCase *t = tcase_create("decode"), *e = tcase_create("external");
	const TTest *tests[] = {
		accepts, truncated_anywhere, truncated_says_where, not_onnx, empty_file, inner_overrun,
		doubled_graph, wrong_wire_type, deep_types, nul_in_name, no_utf8, unpacked_numbers,
		raw_bool_is_0_or_1, strings, raw_short, count_overflows, size_overflows, negative_dim,
		wrong_field, out_of_range, unknown_type, sparse_made_dense, sparse_outside, sparse_huge,
		undefined, all_reported, defined_twice, sorts, cycle, optional_operands, future_opset,
		future_ir, opset_not_imported, inlines, passes_through, calls_itself, exponential,
		attribute_reference, reference_outside, capture_orders, capture_of_own_result,
		undefined_in_subgraph,
	};

	tcase_add_checked_fixture(t, setup, teardown);
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(t, tests[i]);
	tcase_add_loop_test(t, typed_fields, 0, sizeof typed / sizeof *typed);
	tcase_add_checked_fixture(e, in_folder, out_of_folder);
	tcase_add_test(e, external_reads);
	tcase_add_test(e, external_defaults);
	tcase_add_loop_test(e, external_faults, 0, sizeof ext_faults / sizeof *ext_faults);
	tcase_add_test(e, external_link_out);
	tcase_add_test(e, external_link_within);
	suite_add_tcase(s, t);
	suite_add_tcase(s, e);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
