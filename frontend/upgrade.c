/*
 * Old forms of operators become the newest one, so that behind the frontend each has exactly one.
 * What changed is the schemas' history (onnx/defs); only what changed meaning or signature is here,
 * for a form that merely gained attributes with defaults or types is already the newest form.
 */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "frontend/frontend.h"

/* ---- attributes ----------------------------------------------------------------------------- */

static OnnxAttr *attr(Form *f, const char *name)
{
	for (int i = 0; i < f->nattr; i++)
		if (!strcmp(f->attr[i].name, name))
			return &f->attr[i];
	return NULL;
}

static void drop(Form *f, const char *name)
{
	OnnxAttr *a = attr(f, name);

	if (a)
		*a = f->attr[--f->nattr];
}

/* Takes the attribute away; false if it is missing or of another kind (then it stays, and the row
 * refuses it). */
static bool take(Form *f, const char *name, OnnxAttrKind kind, OnnxAttr *out)
{
	const OnnxAttr *a = attr(f, name);

	if (!a || a->kind != kind)
		return false;
	*out = *a;
	drop(f, name);
	return true;
}

static int64_t take_int(Form *f, const char *name, int64_t otherwise)
{
	OnnxAttr a;

	return take(f, name, OA_INT, &a) ? a.i[0] : otherwise;
}

static void set(Form *f, OnnxAttr a)
{
	a.name = intern(f->m, a.name);
	a.ref = intern(f->m, "");
	drop(f, a.name);
	f->attr[f->nattr++] = a;
}

static void set_int(Form *f, const char *name, int64_t v)
{
	set(f, (OnnxAttr){ .name = name, .kind = OA_INT, .n = 1,
		.i = arena_dup(f->m->arena, &v, sizeof v) });
}

static void set_str(Form *f, const char *name, const char *v)
{
	OnnxBytes b = { v, strlen(v) };

	set(f, (OnnxAttr){ .name = name, .kind = OA_STRING, .n = 1,
		.s = arena_dup(f->m->arena, &b, sizeof b) });
}

static bool str_is(const OnnxAttr *a, const char *s)
{
	return a && a->kind == OA_STRING && a->s[0].n == strlen(s) && !memcmp(a->s[0].p, s, a->s[0].n);
}

/* ---- operands ------------------------------------------------------------------------------- */

static void set_input(Form *f, int at, Node *v)
{
	while (f->nin <= at)
		f->in[f->nin++] = NULL;
	f->in[at] = v;
}

static Node *input(const Form *f, int at)
{
	Node *n = at < f->nin ? f->in[at] : NULL;

	return n && n->type->kind == T_TENSOR ? n : NULL;
}

static Node *floats(Form *f, int n, const float *v)
{
	int64_t dim = n;

	return t_const(f->m, DT_F32, 1, &dim, data_new(f->m, DT_F32, n, v));
}

/* An attribute of integers that has become an operand. */
static void ints_to_input(Form *f, const char *name, int at)
{
	OnnxAttr a;

	if (take(f, name, OA_INTS, &a))
		set_input(f, at, t_ints(f->m, a.n, a.i));
}

/* A float constant of x's type, rounded to it. */
static Node *scalar_like(Form *f, const Node *x, double v)
{
	DType d = dtype_of(x);

	return t_scalar(f->m, d, dt_float(d) ? num_round(d, v) : num_cast(d, DT_F64, (Num){ .f = v }));
}

static bool invalid(Form *f, const char *text)
{
	diag_error(f->om->diag, X_INVALID, f->loc, "%s", text);
	return false;
}

static bool unsupported_form(Form *f, const char *text)
{
	diag_error(f->om->diag, X_UNSUPPORTED, f->loc, "%s-%d: %s", f->node->op, f->node->version,
		text);
	return false;
}

/* Another operator's row applied to some of the operands; NULL after reporting. */
static Node *make(Form *f, const char *op, const Attr *attrs, int nin, Node *const *in)
{
	const Op *row = row_of("", op);

	for (int i = 0; i < nin; i++)
		if (!in[i])
			return NULL;
	if (!row) {
		unsupported_form(f, arena_printf(f->m->arena, "needs operator %s, which is not there", op));
		return NULL;
	}
	return graph_op(f->m, row, nin, in, attrs, 1, 0, NULL, f->loc);
}
#define MAKE(f, op, attrs, ...) make(f, op, attrs, sizeof((Node *[]){ __VA_ARGS__ }) / sizeof(Node *), \
	(Node *[]){ __VA_ARGS__ })

static const Attr *int_attr(Form *f, const char *name, int64_t v)
{
	return attrs_add(f->m, NULL, (Attr){ .name = name, .kind = A_INT, .i = v });
}

/* A vector of sizes, known wherever the sizes are. */
static Node *sizes(Form *f, int n, Node *const *e)
{
	Node *t = t_exprs(f->m, DT_I64, n, e);

	infer_elems(f->m, t);
	return t;
}

/* x with extents of 1 after its dimensions. */
static Node *pad_rank(Form *f, Node *x, int more)
{
	int64_t axes[MAX_RANK];

	for (int i = 0; i < more; i++)
		axes[i] = rank_of(x) + i;
	return MAKE(f, "Unsqueeze", NULL, x, t_ints(f->m, more, axes));
}

/* ---- the changes ---------------------------------------------------------------------------- */

static bool consumed_inputs(Form *f)
{
	drop(f, "consumed_inputs");
	return true;
}

/* broadcast=1: the second operand's dimensions stand from `axis` on, or last. */
static bool legacy_broadcast(Form *f)
{
	Node *a = input(f, 0), *b = input(f, 1);
	OnnxAttr axis;
	bool has_axis = take(f, "axis", OA_INT, &axis);

	if (!take_int(f, "broadcast", 0) || !has_axis || !a || !b)
		return true;
	int64_t at = axis.i[0] < 0 ? axis.i[0] + rank_of(a) : axis.i[0];
	int64_t more = rank_of(a) - at - rank_of(b);
	if (at < 0 || at > rank_of(a) || more < 0)
		return invalid(f, "broadcast axis leaves no room for the second operand");
	if (more)
		f->in[1] = pad_rank(f, b, (int)more);
	return f->in[1] != NULL;
}

static bool drop_broadcast(Form *f)
{
	drop(f, "broadcast");
	return true;
}

/* A slope of [C] meant the channels, whatever the rank. */
static bool prelu_slope(Form *f)
{
	Node *x = input(f, 0), *slope = input(f, 1);

	if (x && slope && rank_of(slope) == 1 && rank_of(x) > 2 && !is_intv(dim_of(slope, 0), 1))
		f->in[1] = pad_rank(f, slope, rank_of(x) - 2);
	return true;
}

static bool shape_to_input(Form *f)
{
	ints_to_input(f, "shape", 1);
	return true;
}

static bool axes_to_input(Form *f)
{
	ints_to_input(f, "axes", 1);
	return true;
}

static bool split_to_input(Form *f)
{
	Node *sizes = input(f, 1);

	if (sizes && dtype_of(sizes) != DT_I64)      /* version 1: they were of the operand's type */
		f->in[1] = MAKE(f, "Cast", int_attr(f, "to", dtypes[DT_I64].onnx), sizes);
	ints_to_input(f, "split", 1);
	return true;
}

/* Without sizes, the number of outputs was the number of parts. */
static bool split_parts(Form *f)
{
	if (f->nin < 2 || !f->in[1])
		set_int(f, "num_outputs", f->nout);
	return true;
}

static bool slice_to_inputs(Form *f)
{
	ints_to_input(f, "starts", 1);
	ints_to_input(f, "ends", 2);
	ints_to_input(f, "axes", 3);
	return true;
}

static bool topk_to_input(Form *f)
{
	OnnxAttr k;

	if (take(f, "k", OA_INT, &k))
		set_input(f, 1, t_ints(f->m, 1, k.i));
	return true;
}

static bool dft_axis(Form *f)
{
	int64_t axis = take_int(f, "axis", 1);

	set_input(f, 2, t_scalar(f->m, DT_I64, (Num){ .i = axis }));
	return true;
}

static bool clip_to_inputs(Form *f)
{
	OnnxAttr a;
	double lo = -FLT_MAX, hi = FLT_MAX;

	if (take(f, "min", OA_FLOAT, &a))
		lo = a.f[0];
	if (take(f, "max", OA_FLOAT, &a))
		hi = a.f[0];
	if (!input(f, 0))
		return true;
	set_input(f, 1, scalar_like(f, f->in[0], lo));
	set_input(f, 2, scalar_like(f, f->in[0], hi));
	return true;
}

static bool pad_to_inputs(Form *f)
{
	OnnxAttr a;

	ints_to_input(f, "paddings", 1);
	ints_to_input(f, "pads", 1);
	if (take(f, "value", OA_FLOAT, &a) && input(f, 0))
		set_input(f, 2, scalar_like(f, f->in[0], a.f[0]));
	return true;
}

static bool concat_axis(Form *f)
{
	if (!attr(f, "axis"))
		set_int(f, "axis", 1);
	return true;
}

/* `tiles` times along `axis`, both scalars. */
static bool tile_repeats(Form *f)
{
	Node *x = input(f, 0), *tiles = input(f, 1), *axis = input(f, 2), **t, **a, *r[MAX_RANK];
	int nt, na;

	if (!x || !tiles || !axis)
		return true;
	if (!index_elems(f->m, tiles, &nt, &t) || !index_elems(f->m, axis, &na, &a) || nt != 1 ||
		na != 1)
		return invalid(f, "tiles and axis must be single numbers");
	for (int i = 0; i < rank_of(x); i++)
		r[i] = x_select(f->m, x_or(f->m, x_eq(f->m, a[0], x_idx(f->m, i)),
			x_eq(f->m, a[0], x_idx(f->m, i - rank_of(x)))), t[0], x_idx(f->m, 1));
	f->nin = 2;
	f->in[1] = sizes(f, rank_of(x), r);
	return true;
}

/* Softmax and its kin took everything from `axis` on as one row. */
static bool coerce_rows(Form *f)
{
	Node *x = input(f, 0), *y;
	int64_t axis = take_int(f, "axis", 1);
	int rank = x ? rank_of(x) : 0;

	if (!x)
		return true;
	axis += axis < 0 ? rank : 0;
	if (axis < 0 || axis > rank)
		return invalid(f, "axis is outside the operand's dimensions");
	set_int(f, "axis", -1);
	if (axis == rank - 1)
		return true;
	y = MAKE(f, "Flatten", int_attr(f, "axis", axis), x);
	y = MAKE(f, f->op, int_attr(f, "axis", -1), y);
	f->result = MAKE(f, "Reshape", NULL, y, sizes(f, rank_of(x), x->type->dims));
	return f->result != NULL;
}

/* The type was written as a word. */
static bool cast_by_name(Form *f)
{
	static const char *const words[] = {
		"", "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL",
		"FLOAT16", "DOUBLE", "UINT32", "UINT64", "COMPLEX64", "COMPLEX128",
	};
	const OnnxAttr *to = attr(f, "to");

	for (int i = 1; i < (int)(sizeof words / sizeof *words); i++)
		if (str_is(to, words[i])) {
			set_int(f, "to", i);
			return true;
		}
	return to && to->kind == OA_STRING ? invalid(f, "attribute \"to\" names no type") : true;
}

/* Only inference is meant: is_test=0 is what exporters of that time left behind. */
static bool dropout_inputs(Form *f)
{
	drop(f, "is_test");
	drop(f, "ratio");
	if (f->node->version < 10 && f->nout > 1 && f->nin > 0 && f->in[0]->type->kind == T_TENSOR) {
		/* the mask was of the operand's type */
		Node *x = f->in[0], *axes[MAX_RANK];
		axes_new(f->m, rank_of(x), x->type->dims, axes);
		f->result = t_tuple(f->m, 2, (Node *[]){ x, t_tensor(f->m, rank_of(x), axes,
			x_int(f->m, dtype_of(x), 1)) });
	}
	return true;
}

static bool batchnorm_training(Form *f)
{
	drop(f, "is_test");
	return f->nout <= 1 || unsupported_form(f, "training outputs");
}

/* spatial=0: statistics for every element of a sample, not for a channel. */
static bool batchnorm_spatial(Form *f)
{
	Node *x = input(f, 0), *y, *d;
	OnnxAttr eps;
	double e = 1e-5f;

	if (take_int(f, "spatial", 1) || !x)
		return true;
	if (take(f, "epsilon", OA_FLOAT, &eps))
		e = eps.f[0];
	y = MAKE(f, "Sub", NULL, x, input(f, 3));
	d = MAKE(f, "Add", NULL, input(f, 4), scalar_like(f, x, e));
	d = MAKE(f, "Sqrt", NULL, d);
	y = MAKE(f, "Div", NULL, y, d);
	y = MAKE(f, "Mul", NULL, y, input(f, 1));
	f->result = MAKE(f, "Add", NULL, y, input(f, 2));
	return f->result != NULL || f->om->diag->errors || invalid(f, "an operand is missing");
}

/* Scale and bias were one number for each group. */
static bool groupnorm_channels(Form *f)
{
	Node *x = input(f, 0);
	const OnnxAttr *g = attr(f, "num_groups");
	Module *m = f->m;

	if (!x || rank_of(x) < 2 || !g || g->kind != OA_INT || g->i[0] < 1)
		return true;
	Node *groups = x_idx(m, g->i[0]);
	Node *per = x_fdiv(m, dim_of(x, 1), groups);
	for (int i = 1; i <= 2; i++) {
		Node *v = input(f, i);
		v = MAKE(f, "Unsqueeze", NULL, v, t_ints(m, 1, (int64_t[]){ 1 }));
		v = MAKE(f, "Expand", NULL, v, sizes(f, 2, (Node *[]){ groups, per }));
		v = MAKE(f, "Reshape", NULL, v, t_ints(m, 1, (int64_t[]){ -1 }));
		if (!v)
			return f->om->diag->errors || invalid(f, "an operand is missing");
		f->in[i] = v;
	}
	return true;
}

static bool output_sequence(Form *f)
{
	drop(f, "output_sequence");
	return true;
}

static void default_float(Form *f, const char *name, float v)
{
	if (!attr(f, name))
		set(f, (OnnxAttr){ .name = name, .kind = OA_FLOAT, .n = 1,
			.f = arena_dup(f->m->arena, &v, sizeof v) });
}

static bool selu_constants(Form *f)
{
	default_float(f, "alpha", 1.6732f);
	default_float(f, "gamma", 1.0507f);
	return true;
}

static bool pool_p(Form *f)
{
	OnnxAttr p;

	if (!take(f, "p", OA_FLOAT, &p))
		return true;
	if (!(p.f[0] >= 1 && p.f[0] < 1e9f) || p.f[0] != floorf(p.f[0]))
		return unsupported_form(f, "p is no whole number");
	set_int(f, "p", (int64_t)p.f[0]);
	return true;
}

static bool roialign_coordinates(Form *f)
{
	set_str(f, "coordinate_transformation_mode", "output_half_pixel");
	return true;
}

static bool gridsample_modes(Form *f)
{
	const OnnxAttr *mode = attr(f, "mode");

	if (str_is(mode, "bilinear"))
		set_str(f, "mode", "linear");
	else if (str_is(mode, "bicubic"))
		set_str(f, "mode", "cubic");
	return true;
}

/* Upsample and Resize-10: coordinates x_out / scale. */
static void asymmetric(Form *f, const char *nearest)
{
	Node *scales = f->nin > 1 ? f->in[1] : NULL;

	set_str(f, "coordinate_transformation_mode", "asymmetric");
	set_str(f, "nearest_mode", nearest);
	set_input(f, 1, NULL);
	set_input(f, 2, scales);
}

/* The scales with the axes that grow, or those that shrink, left as they are; *any: is one not? */
static Node *one_way(Form *f, const Node *scales, bool shrink, bool *any)
{
	int n = (int)scales->data->count;
	float *v = NEWN(f->m, float, n);

	*any = false;
	for (int i = 0; i < n; i++) {
		double s = data_get(scales->data, DT_F32, i).f;
		v[i] = (shrink ? s < 1 : s > 1) ? (float)s : 1;
		*any |= v[i] != 1;
	}
	return floats(f, n, v);
}

/* The text of version 10 leaves the rounding open; what ran it took the pixel before where an axis
 * grows and the one after where it shrinks. */
static bool resize_10(Form *f)
{
	Node *scales = input(f, 1), *down = NULL, *up = NULL, *x = input(f, 0);
	const OnnxAttr *mode = attr(f, "mode");
	bool shrinks = false, grows = false;

	if (x && scales && scales->data && dtype_of(scales) == DT_F32 &&
			(!mode || str_is(mode, "nearest"))) {
		down = one_way(f, scales, true, &shrinks);
		up = one_way(f, scales, false, &grows);
	}
	if (shrinks && grows) {
		const Attr *a = attrs_add(f->m, NULL, (Attr){ .name = "coordinate_transformation_mode",
			.kind = A_STR, .s = "asymmetric" });
		a = attrs_add(f->m, a, (Attr){ .name = "nearest_mode", .kind = A_STR, .s = "floor" });
		f->in[0] = graph_op(f->m, row_of("", "Resize"), 3, (Node *[]){ x, NULL, up }, a, 1, 0, NULL,
			f->loc);
		f->in[1] = down;
	}
	asymmetric(f, shrinks ? "ceil" : "floor");
	return f->in[0] != NULL;
}

static bool upsample(Form *f)
{
	OnnxAttr h, w, scales;

	if (str_is(attr(f, "mode"), "bilinear"))
		set_str(f, "mode", "linear");
	if (take(f, "height_scale", OA_FLOAT, &h) && take(f, "width_scale", OA_FLOAT, &w))
		set_input(f, 1, floats(f, 4, arena_dup(f->m->arena,
			(float[]){ 1, 1, h.f[0], w.f[0] }, 4 * sizeof(float))));
	else if (take(f, "scales", OA_FLOATS, &scales))
		set_input(f, 1, floats(f, scales.n, scales.f));
	asymmetric(f, "floor");
	return true;
}

/* An empty tensor is an operand left out. */
static bool resize_empty(Form *f)
{
	for (int i = 1; i < f->nin; i++) {
		const Node *v = input(f, i);
		if (v && rank_of(v) == 1 && is_intv(dim_of(v, 0), 0))
			f->in[i] = NULL;
	}
	return true;
}

static bool same_form(Form *f)
{
	(void)f;
	return true;
}

/* Words and their positions, both ways by the operand's type. */
static bool label_classes(Form *f)
{
	OnnxAttr words;
	Node *x = input(f, 0);

	if (!take(f, "classes_strings", OA_STRINGS, &words) || !x)
		return true;
	int64_t *at = NEWN(f->m, int64_t, words.n);
	for (int i = 0; i < words.n; i++)
		at[i] = i;
	bool from_words = dtype_of(x) == DT_STRING;
	words.name = from_words ? "keys_strings" : "values_strings";
	set(f, words);
	set(f, (OnnxAttr){ .name = from_words ? "values_int64s" : "keys_int64s", .kind = OA_INTS,
		.n = words.n, .i = at });
	return true;
}

/* op: as rows are named, "*" for every operator of ai.onnx
 * last: newest version of the form that the function changes (several apply in turn)
 * becomes: the operator's new name, if it has one */
enum { ALL = INT_MAX };
static const struct Change { const char *op; int last; bool (*fn)(Form *); const char *becomes;
	} changes[] = {
	/* op                  last  change                becomes */
	{ "*",                    5, consumed_inputs,      NULL },
	{ "Add",                  6, legacy_broadcast,     NULL },
	{ "And",                  6, legacy_broadcast,     NULL },
	{ "BatchNormalization",  13, batchnorm_training,   NULL },
	{ "BatchNormalization",   8, batchnorm_spatial,    NULL },
	{ "Cast",                 5, cast_by_name,         NULL },
	{ "Clip",                10, clip_to_inputs,       NULL },
	{ "Concat",               3, concat_axis,          NULL },
	{ "DFT",                 19, dft_axis,             NULL },
	{ "Div",                  6, legacy_broadcast,     NULL },
	{ "Dropout",             11, dropout_inputs,       NULL },
	{ "Equal",                6, legacy_broadcast,     NULL },
	{ "GRU",                  6, output_sequence,      NULL },
	{ "Gemm",                 6, drop_broadcast,       NULL },
	{ "GlobalLpPool",         1, pool_p,               NULL },
	{ "Greater",              6, legacy_broadcast,     NULL },
	{ "GridSample",          19, gridsample_modes,     NULL },
	{ "GroupNormalization",  20, groupnorm_channels,   NULL },
	{ "Hardmax",             12, coerce_rows,          NULL },
	{ "LSTM",                 6, output_sequence,      NULL },
	{ "Less",                 6, legacy_broadcast,     NULL },
	{ "LogSoftmax",          12, coerce_rows,          NULL },
	{ "LpPool",               1, pool_p,               NULL },
	{ "Mul",                  6, legacy_broadcast,     NULL },
	{ "Or",                   6, legacy_broadcast,     NULL },
	{ "PRelu",                6, prelu_slope,          NULL },
	{ "Pad",                 10, pad_to_inputs,        NULL },
	{ "Pow",                  6, legacy_broadcast,     NULL },
	{ "RNN",                  6, output_sequence,      NULL },
	{ "ReduceL1",            17, axes_to_input,        NULL },
	{ "ReduceL2",            17, axes_to_input,        NULL },
	{ "ReduceLogSum",        17, axes_to_input,        NULL },
	{ "ReduceLogSumExp",     17, axes_to_input,        NULL },
	{ "ReduceMax",           17, axes_to_input,        NULL },
	{ "ReduceMean",          17, axes_to_input,        NULL },
	{ "ReduceMin",           17, axes_to_input,        NULL },
	{ "ReduceProd",          17, axes_to_input,        NULL },
	{ "ReduceSum",           12, axes_to_input,        NULL },
	{ "ReduceSumSquare",     17, axes_to_input,        NULL },
	{ "Reshape",              4, shape_to_input,       NULL },
	{ "Resize",              10, resize_10,            NULL },
	{ "Resize",             ALL, resize_empty,         NULL },
	{ "RoiAlign",            15, roialign_coordinates, NULL },
	{ "Scatter",            ALL, same_form,            "ScatterElements" },
	{ "Selu",                 5, selu_constants,       NULL },
	{ "Slice",                9, slice_to_inputs,      NULL },
	{ "Softmax",             12, coerce_rows,          NULL },
	{ "Split",               12, split_to_input,       NULL },
	{ "Split",               17, split_parts,          NULL },
	{ "Squeeze",             12, axes_to_input,        NULL },
	{ "Sub",                  6, legacy_broadcast,     NULL },
	{ "Tile",                 5, tile_repeats,         NULL },
	{ "TopK",                 9, topk_to_input,        NULL },
	{ "Unsqueeze",           12, axes_to_input,        NULL },
	{ "Upsample",           ALL, upsample,             "Resize" },
	{ "Xor",                  6, legacy_broadcast,     NULL },
	{ "ai.onnx.ml:LabelEncoder", 1, label_classes,     NULL },
};
enum { N_CHANGES = sizeof changes / sizeof *changes };

static bool applies(const struct Change *c, const OnnxNode *n)
{
	size_t len = strlen(n->domain);

	if (n->version > c->last)
		return false;
	if (*c->op == '*')
		return len == 0;
	if (len == 0)
		return !strcmp(c->op, n->op);
	return !strncmp(c->op, n->domain, len) && c->op[len] == ':' && !strcmp(c->op + len + 1, n->op);
}

const char *upgraded_name(const OnnxNode *n)
{
	for (int i = 0; i < N_CHANGES; i++)
		if (changes[i].becomes && applies(&changes[i], n))
			return changes[i].becomes;
	return n->op;
}

int older_forms(const char *onnx, int *last)
{
	int n = 0;

	for (int i = 0; onnx && i < N_CHANGES; i++) {
		int at = n, v = changes[i].last;
		if (strcmp(changes[i].op, onnx) || v == ALL || n == MAX_FORMS)
			continue;
		for (; at > 0 && last[at - 1] < v; at--)
			last[at] = last[at - 1];
		last[at] = v;
		n++;
	}
	return n;
}

bool upgrade(Form *f)
{
	f->op = upgraded_name(f->node);
	for (int i = 0; i < N_CHANGES && !f->result; i++)
		if (applies(&changes[i], f->node) && !changes[i].fn(f))
			return false;
	return true;
}
