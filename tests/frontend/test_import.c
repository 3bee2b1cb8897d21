/* Import: symbols, options, old forms, constants, subgraphs, faults. */
/* First: check.h and unistd.h define names that ir.h declares (fail, X_OK). */
#include "frontend/frontend.h"

#include <check.h>

#include "tests/frontend/models.h"

enum { F32 = 1, I64 = 7, BOOL = 9 };

static Diag diag;
static Module *mod;
static OnnxModel *onnx;
static ImportOptions options;

static void setup(void)
{
	diag = (Diag){ 0 };
	options = (ImportOptions){ 0 };
	mod = module_new(&diag);
	onnx = NULL;
}

static void teardown(void)
{
	onnx_close(onnx);
	module_free(mod);
}

static bool import(const Msg *m)
{
	onnx = onnx_read(mod, m->b, m->n, NULL);
	return onnx && onnx_import(onnx, &options);
}

static Node *result(const Msg *m)
{
	bool ok = import(m);

	ck_assert_msg(ok, "%s", diag.first);
	ck_assert_int_ge(mod->main->nresults, 1);
	return mod->main->results[0];
}

static void fails(const Msg *m, int code, const char *text)
{
	ck_assert(!import(m));
	ck_assert_msg(strstr(diag.first, text), "got: %s", diag.first);
	ck_assert_int_eq(diag.code, code);
}

static bool has_dims(const Node *t, int n, const int64_t *want)
{
	int64_t v;

	if (rank_of(t) != n)
		return false;
	for (int i = 0; i < n; i++)
		if (!is_int(dim_of(t, i), &v) || v != want[i])
			return false;
	return true;
}
#define DIMS(...) sizeof((int64_t[]){ __VA_ARGS__ }) / 8, (int64_t[]){ __VA_ARGS__ }

/* One node from x (and y) to out. */
static Msg one(const Msg *n, const char *xdims, const char *ydims, int opset)
{
	Msg g = { 0 };

	put_msg(&g, 1, n);
	put_typed(&g, 11, "x", F32, xdims);
	if (ydims)
		put_typed(&g, 11, "y", F32, ydims);
	put_value(&g, 12, "out");
	return model_at(&g, opset);
}

/* ---- symbols and options -------------------------------------------------------------------- */

START_TEST(shared_symbol)
{
	Msg n = node("Add x y > out"), m = one(&n, "N,3", "N,1", 17);
	Node *r = result(&m);

	ck_assert_ptr_eq(dim_of(mod->main->params[0], 0), dim_of(mod->main->params[1], 0));
	ck_assert_ptr_eq(dim_of(r, 0), dim_of(mod->main->params[0], 0));
	ck_assert_int_eq(mod->symdefs.n, 2);
	ck_assert_int_eq(((SymDef *)mod->symdefs.at[1])->input, 1);
	ck_assert_int_eq(mod->requires.n, 0);
}
END_TEST

START_TEST(unnamed_differ)
{
	Msg n = node("Add x y > out"), m = one(&n, "?,3", "?,3", 17);

	result(&m);
	ck_assert_ptr_ne(dim_of(mod->main->params[0], 0), dim_of(mod->main->params[1], 0));
}
END_TEST

/* A formula is a name as any other; different names never become one symbol. */
START_TEST(odd_names)
{
	Msg n = node("Concat x y > out");

	put_attr_int(&n, "axis", 1);
	Msg m = one(&n, "(2*k+1),3", "(2*k)+1,3", 17);
	result(&m);
	Node *a = dim_of(mod->main->params[0], 0), *b = dim_of(mod->main->params[1], 0);
	ck_assert_ptr_ne(a, b);
	ck_assert_str_eq(a->name, "d2_k_1");
	ck_assert_str_eq(b->name, "d2_k_1_1");
}
END_TEST

START_TEST(zero_is_unknown)
{
	Msg n = node("Relu x > out"), m = one(&n, "0,3", NULL, 17);

	ck_assert_int_eq(dim_of(result(&m), 0)->code, O_SYM);
}
END_TEST

START_TEST(dim_fixes)
{
	Msg n = node("Relu x > out"), m = one(&n, "N,3", NULL, 17);

	options.ndim = 1;
	options.dim = (const char *[]){ "N=8" };
	ck_assert(has_dims(result(&m), DIMS(8, 3)));
}
END_TEST

START_TEST(dim_bounds)
{
	Msg n = node("Relu x > out"), m = one(&n, "N,3", NULL, 17);

	options.ndim = 1;
	options.dim = (const char *[]){ "N=2..8" };
	Node *d = dim_of(result(&m), 0);
	ck_assert_int_eq(d->lo, 2);
	ck_assert_int_eq(d->hi, 8);
}
END_TEST

START_TEST(shape_fixes_all_of_the_name)
{
	Msg n = node("Add x y > out"), m = one(&n, "N,?", "N,1", 17);

	options.nshape = 1;
	options.shape = (const char *[]){ "x=4x5" };
	ck_assert(has_dims(result(&m), DIMS(4, 5)));
	ck_assert(has_dims(mod->main->params[1], DIMS(4, 1)));
}
END_TEST

static const struct { const char *shape, *dim, *text; } bad_options[] = {
	{ "z=1x2", NULL, "no input of this name" },
	{ "x=1x2x3", NULL, "has 2 dimensions" },
	{ "x=1xq", NULL, "expected sizes" },
	{ "x=1x4", NULL, "the model fixes dimension 1 to 3" },
	{ "x", NULL, "expected NAME=" },
	{ "x=2x3", "N=4", "contradicts" },
	{ NULL, "M=4", "no input has a dimension of this name" },
	{ NULL, "N=-4", "expected a size" },
	{ NULL, "N=9..4", "expected a size" },
};

START_TEST(faulty_options)
{
	Msg n = node("Relu x > out"), m = one(&n, "N,3", NULL, 17);

	options.nshape = bad_options[_i].shape != NULL;
	options.shape = &bad_options[_i].shape;
	options.ndim = bad_options[_i].dim != NULL;
	options.dim = &bad_options[_i].dim;
	fails(&m, X_USAGE, bad_options[_i].text);
}
END_TEST

static struct Freeze freeze_y(int64_t dim)
{
	static float v[4] = { 1, 2, 3, 4 };

	return (struct Freeze){ "y", t_const(mod, DT_F32, 1, &dim, data_new(mod, DT_F32, dim, v)) };
}

START_TEST(freezes)
{
	Msg n = node("Add x y > out"), m = one(&n, "N,3", "3", 17);
	struct Freeze f = freeze_y(3);

	options.nfreeze = 1;
	options.freeze = &f;
	ck_assert_int_eq(result(&m)->in[1]->code, O_CONST);
	ck_assert_int_eq(mod->main->nparams, 1);
}
END_TEST

START_TEST(freezes_misfit)
{
	Msg n = node("Add x y > out"), m = one(&n, "N,3", "3", 17);
	struct Freeze f = freeze_y(4);

	options.nfreeze = 1;
	options.freeze = &f;
	fails(&m, X_USAGE, "--freeze y");
}
END_TEST

START_TEST(overridable_initializer)
{
	Msg g = { 0 }, t = { 0 };

	put_node(&g, "Add x w > out");
	put_str(&t, 8, "w");
	put_int(&t, 2, F32);
	put_bytes(&t, 9, "\0\0\200\077", 4);
	put_msg(&g, 5, &t);
	put_typed(&g, 11, "x", F32, "N");
	put_typed(&g, 11, "w", F32, "");
	put_value(&g, 12, "out");
	Msg m = model(&g);
	result(&m);
	ck_assert_int_eq(mod->main->nparams, 1);
	ck_assert_int_eq(onnx->overridable.n, 1);
	ck_assert_str_eq(onnx->overridable.at[0], "w");
}
END_TEST

START_TEST(no_shape)
{
	Msg g = { 0 }, v = { 0 }, type = { 0 }, tensor = { 0 };

	put_node(&g, "Relu x > out");
	put_int(&tensor, 1, F32);
	put_msg(&type, 1, &tensor);
	put_str(&v, 1, "x");
	put_msg(&v, 2, &type);
	put_msg(&g, 11, &v);
	put_value(&g, 12, "out");
	Msg m = model(&g);
	fails(&m, X_UNSUPPORTED, "give one with --shape");
}
END_TEST

/* ---- old forms ------------------------------------------------------------------------------ */

START_TEST(squeeze_11)
{
	Msg n = node("Squeeze x > out");

	put_attr_ints(&n, "axes", 1, (int64_t[]){ 1 });
	Msg m = one(&n, "2,1,3", NULL, 11);
	ck_assert(has_dims(result(&m), DIMS(2, 3)));
}
END_TEST

START_TEST(reduce_17)
{
	Msg n = node("ReduceMax x > out");

	put_attr_ints(&n, "axes", 2, (int64_t[]){ 0, -1 });
	put_attr_int(&n, "keepdims", 0);
	Msg m = one(&n, "2,5,3", NULL, 17);
	ck_assert(has_dims(result(&m), DIMS(5)));
}
END_TEST

START_TEST(slice_9)
{
	Msg n = node("Slice x > out");

	put_attr_ints(&n, "starts", 1, (int64_t[]){ 1 });
	put_attr_ints(&n, "ends", 1, (int64_t[]){ 3 });
	put_attr_ints(&n, "axes", 1, (int64_t[]){ 1 });
	Msg m = one(&n, "2,5", NULL, 9);
	ck_assert(has_dims(result(&m), DIMS(2, 2)));
}
END_TEST

START_TEST(pad_2)
{
	Msg n = node("Pad x > out");

	put_attr_ints(&n, "pads", 4, (int64_t[]){ 0, 1, 0, 2 });
	put_attr_float(&n, "value", 5);
	Msg m = one(&n, "2,5", NULL, 2);
	Node *r = result(&m);
	ck_assert(has_dims(r, DIMS(2, 8)));
	ck_assert(data_get(r->in[2]->data, DT_F32, 0).f == 5);
}
END_TEST

START_TEST(clip_6)
{
	Msg n = node("Clip x > out");

	put_attr_float(&n, "min", 1);
	Msg m = one(&n, "2", NULL, 6);
	Node *r = result(&m);
	ck_assert(data_get(r->in[1]->data, DT_F32, 0).f == 1);
	ck_assert(data_get(r->in[2]->data, DT_F32, 0).f > 3.4e38);
}
END_TEST

START_TEST(reshape_1)
{
	Msg n = node("Reshape x > out");

	put_attr_ints(&n, "shape", 2, (int64_t[]){ 3, -1 });
	put_attr_ints(&n, "consumed_inputs", 1, (int64_t[]){ 0 });
	Msg m = one(&n, "2,6", NULL, 1);
	ck_assert(has_dims(result(&m), DIMS(3, 4)));
}
END_TEST

START_TEST(split_13)
{
	Msg n = node("Split x > out b c");

	Msg m = one(&n, "6", NULL, 13);
	ck_assert(has_dims(result(&m), DIMS(2)));
}
END_TEST

/* [2,3,4,5] + [3,4] from axis 1 on */
START_TEST(add_6_axis)
{
	Msg n = node("Add x y > out");

	put_attr_int(&n, "broadcast", 1);
	put_attr_int(&n, "axis", 1);
	Msg m = one(&n, "2,3,4,5", "3,4", 6);
	ck_assert(has_dims(result(&m), DIMS(2, 3, 4, 5)));
	ck_assert(has_dims(result(&m)->in[1], DIMS(3, 4, 1)));
}
END_TEST

START_TEST(softmax_11_rows)
{
	Msg n = node("Softmax x > out"), m = one(&n, "2,3,4", NULL, 11);
	Node *r = result(&m);

	ck_assert(has_dims(r, DIMS(2, 3, 4)));
	ck_assert_str_eq(r->op->name, "reshape");
	ck_assert(has_dims(r->in[0], DIMS(2, 12)));
}
END_TEST

START_TEST(softmax_11_last)
{
	Msg n = node("Softmax x > out"), m = one(&n, "2,3", NULL, 11);

	ck_assert_str_eq(result(&m)->op->name, "softmax");
}
END_TEST

START_TEST(cast_1)
{
	Msg n = node("Cast x > out");

	put_attr_str(&n, "to", "INT64");
	Msg m = one(&n, "2", NULL, 1);
	ck_assert_int_eq(dtype_of(result(&m)), DT_I64);
}
END_TEST

START_TEST(dropout_7)
{
	Msg n = node("Dropout x > out");

	put_attr_float(&n, "ratio", 0.5f);
	Msg m = one(&n, "2,3", NULL, 7);
	ck_assert(has_dims(result(&m), DIMS(2, 3)));
}
END_TEST

START_TEST(tile_1)
{
	Msg g = { 0 }, n = node("Tile x t a > out"), t = node("Constant > t"), a = node("Constant > a");

	/* an operand-less Constant: "Constant > t" has no inputs */
	put_attr_int(&t, "value_int", 3);
	put_attr_int(&a, "value_int", 1);
	put_msg(&g, 1, &t);
	put_msg(&g, 1, &a);
	put_msg(&g, 1, &n);
	put_typed(&g, 11, "x", F32, "2,5");
	put_value(&g, 12, "out");
	Msg m = model_at(&g, 1);
	ck_assert(has_dims(result(&m), DIMS(2, 15)));
}
END_TEST

START_TEST(attribute_of_new_form)
{
	Msg n = node("Squeeze x > out");

	put_attr_ints(&n, "axes", 1, (int64_t[]){ 1 });
	Msg m = one(&n, "2,1,3", NULL, 13);
	fails(&m, X_UNSUPPORTED, "unknown attribute 'axes'");
}
END_TEST

/* ---- constants ------------------------------------------------------------------------------ */

START_TEST(constant_ints)
{
	Msg g = { 0 }, n = node("Constant > out");

	put_attr_ints(&n, "value_ints", 3, (int64_t[]){ 4, 5, -6 });
	put_msg(&g, 1, &n);
	put_value(&g, 12, "out");
	Msg m = model(&g);
	Node *r = result(&m);
	ck_assert(has_dims(r, DIMS(3)));
	ck_assert_int_eq(data_get(r->data, DT_I64, 2).i, -6);
}
END_TEST

START_TEST(constant_string)
{
	Msg g = { 0 }, n = node("Constant > out");

	put_attr_str(&n, "value_string", "word");
	put_msg(&g, 1, &n);
	put_value(&g, 12, "out");
	Msg m = model(&g);
	Node *r = result(&m);
	ck_assert_int_eq(rank_of(r), 0);
	ck_assert_str_eq(r->data->strings[0], "word");
}
END_TEST

/* ---- subgraphs ------------------------------------------------------------------------------ */

static Msg branch(const char *text)
{
	Msg g = { 0 };

	put_node(&g, text);
	put_value(&g, 12, "r");
	return g;
}

/* The branch not taken has no operator that exists; its condition is a shape's. */
START_TEST(known_condition)
{
	Msg g = { 0 }, n = node("If c > out"), yes = branch("Relu x > r"), no = branch("Zorp x > r");
	Msg two = node("Constant > two"), cast = node("Cast q > c");

	put_attr_int(&two, "value_int", 2);
	put_attr_int(&cast, "to", BOOL);
	put_attr_graph(&n, "then_branch", &yes);
	put_attr_graph(&n, "else_branch", &no);
	put_node(&g, "Size x > s");
	put_msg(&g, 1, &two);
	put_node(&g, "Greater s two > q");
	put_msg(&g, 1, &cast);
	put_msg(&g, 1, &n);
	put_typed(&g, 11, "x", F32, "3");
	put_value(&g, 12, "out");
	Msg m = model(&g);
	ck_assert_str_eq(result(&m)->op->name, "relu");
}
END_TEST

/* "squeeze if the dimension is 1", as exporters write it */
static Msg squeeze_if_one(bool needs_vector)
{
	Msg g = { 0 }, s = node("Shape x > s"), one = node("Constant > one"), n = node("If c > r");
	Msg yes = branch("Squeeze x one > r"), no = branch("Identity x > r"),
		cat = node("Concat r y > out");

	put_attr_int(&s, "start", 1);
	put_attr_ints(&one, "value_ints", 1, (int64_t[]){ 1 });
	put_attr_graph(&n, "then_branch", &yes);
	put_attr_graph(&n, "else_branch", &no);
	put_attr_int(&cat, "axis", 0);
	put_msg(&g, 1, &s);
	put_msg(&g, 1, &one);
	put_node(&g, "Equal s one > c");
	put_msg(&g, 1, &n);
	put_typed(&g, 11, "x", F32, "N,k");
	put_typed(&g, 11, "y", F32, "3");
	if (needs_vector)
		put_msg(&g, 1, &cat);
	else
		put_node(&g, "Relu r > out");
	put_value(&g, 12, "out");
	return model(&g);
}

START_TEST(rank_settled_by_the_rest)
{
	Msg m = squeeze_if_one(true);

	ck_assert_int_eq(rank_of(result(&m)), 1);
	ck_assert_str_eq(((Require *)mod->requires.at[0])->message,
		"inputs of this shape would take its "
		"else_branch, whose result has not the rank that the rest of the model takes");
}
END_TEST

START_TEST(rank_open)
{
	Msg m = squeeze_if_one(false);

	fails(&m, X_UNSUPPORTED, "the condition is known only at run time");
}
END_TEST

START_TEST(rank_known_by_option)
{
	Msg m = squeeze_if_one(false);

	options.ndim = 1;
	options.dim = (const char *[]){ "k=2" };
	ck_assert_int_eq(rank_of(result(&m)), 2);
}
END_TEST

/* A carried value that grows: its dimension becomes a symbol. */
START_TEST(loop_grows)
{
	Msg g = { 0 }, body = { 0 }, n = node("Loop trips - x > out"), cat = node("Concat v x > w");

	put_attr_int(&cat, "axis", 0);
	put_value(&body, 11, "i");
	put_value(&body, 11, "c");
	put_value(&body, 11, "v");
	put_node(&body, "Identity c > d");
	put_msg(&body, 1, &cat);
	put_value(&body, 12, "d");
	put_value(&body, 12, "w");
	put_attr_graph(&n, "body", &body);
	put_msg(&g, 1, &n);
	put_typed(&g, 11, "trips", I64, "");
	put_typed(&g, 11, "x", F32, "2,3");
	put_value(&g, 12, "out");
	Msg m = model(&g);
	Node *r = result(&m);
	int64_t v;
	ck_assert_int_eq(rank_of(r), 2);
	ck_assert(!is_int(dim_of(r, 0), &v));
	ck_assert(is_int(dim_of(r, 1), &v) && v == 3);
}
END_TEST

/* ---- faults --------------------------------------------------------------------------------- */

START_TEST(unknown_operators)
{
	Msg g = { 0 };

	put_node(&g, "Zorp x > a");
	put_node(&g, "Relu a > b");
	put_node(&g, "Zorp b > c");
	put_node(&g, "Blub c > out");
	put_typed(&g, 11, "x", F32, "3");
	put_value(&g, 12, "out");
	Msg m = model(&g);
	fails(&m, X_UNSUPPORTED, "unknown operator \"Zorp\" (domain ai.onnx, opset 17), in 2 nodes");
	ck_assert_int_eq(diag.errors, 2);
}
END_TEST

START_TEST(attribute_type)
{
	Msg n = node("LeakyRelu x > out");

	put_attr_str(&n, "alpha", "much");
	Msg m = one(&n, "2", NULL, 17);
	fails(&m, X_INVALID, "LeakyRelu.alpha must be FLOAT, is STRING");
}
END_TEST

START_TEST(output_too_many)
{
	Msg g = { 0 };

	put_node(&g, "Relu x > out more");
	put_typed(&g, 11, "x", F32, "3");
	put_value(&g, 12, "out");
	Msg m = model(&g);
	fails(&m, X_INVALID, "output 1 (\"more\") does not exist");
}
END_TEST

START_TEST(every_fault)
{
	Msg g = { 0 };

	put_node(&g, "MatMul x x > a");
	put_node(&g, "Zorp x > b");
	put_node(&g, "Add a b > out");
	put_node(&g, "Unsqueeze x > c");
	put_typed(&g, 11, "x", F32, "3,4");
	put_value(&g, 12, "out");
	Msg m = model(&g);
	fails(&m, X_INVALID, "MatMul 'a'");
	ck_assert_int_eq(diag.errors, 3);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("import");
	TCase *t = tcase_create("import");
	const TTest *tests[] = {
		shared_symbol, unnamed_differ, odd_names, zero_is_unknown, dim_fixes, dim_bounds,
		shape_fixes_all_of_the_name, freezes, freezes_misfit, overridable_initializer, no_shape,
		squeeze_11, reduce_17, slice_9, pad_2, clip_6, reshape_1, split_13, add_6_axis,
		softmax_11_rows, softmax_11_last, cast_1, dropout_7, tile_1, attribute_of_new_form,
		constant_ints, constant_string, known_condition, rank_settled_by_the_rest, rank_open,
		rank_known_by_option, loop_grows, unknown_operators, attribute_type,
		output_too_many, every_fault,
	};

	tcase_add_checked_fixture(t, setup, teardown);
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(t, tests[i]);
	tcase_add_loop_test(t, faulty_options, 0, sizeof bad_options / sizeof *bad_options);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
