/*
 * Protobuf to the structures of frontend.h. The bytes are walked once, iteratively, against the
 * schema's own descriptors before protobuf-c sees them: that finds truncation (with the place),
 * wrong wire types, doubled submessages (which protobuf-c would merge, slowly) and nesting that
 * would overflow its stack. After the walk the recursions below are bounded by ONNX_MAX_NEST.
 */
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "frontend/frontend.h"
#include "frontend/onnx.pb-c.h"

/* ---- the wire ------------------------------------------------------------------------------- */

enum { STACK = 512 };   /* holds ONNX_MAX_NEST levels of every recursive message together */

typedef struct Frame {
	const ProtobufCMessageDescriptor *type;
	size_t end;
	uint64_t seen;   /* singular submessages, by field position */
} Frame;

typedef struct Wire {
	const uint8_t *bytes;
	size_t size, at;
	Frame stack[STACK];
	int depth;       /* frames on the stack, less one */
	bool known;      /* a field of ModelProto was seen */
	const char *error;
} Wire;

typedef ProtobufCFieldDescriptor Field;

static bool wire_fail(Module *m, Wire *w, const char *error)
{
	(void)m;
	w->error = error;
	return false;
}

/* What ends early in the outermost frame ends with the file. */
static bool wire_short(Module *m, Wire *w)
{
	const Frame *f = &w->stack[w->depth];

	if (w->depth == 0 && w->known)
		return wire_fail(m, w, arena_printf(m->arena, "the file is not a complete ONNX "
			"protobuf (truncated at byte %zu)", w->size));
	if (w->depth == 0)
		return wire_fail(m, w, "not an ONNX model");
	return wire_fail(m, w, arena_printf(m->arena, "not a valid ONNX model: a field at byte %zu "
		"runs past the end of its %s", w->at, f->type->short_name));
}

static bool varint(Module *m, Wire *w, uint64_t *v)
{
	size_t end = w->stack[w->depth].end;

	*v = 0;
	for (int shift = 0; shift < 70; shift += 7) {
		if (w->at == end)
			return wire_short(m, w);
		uint8_t b = w->bytes[w->at++];
		*v |= shift < 64 ? (uint64_t)(b & 0x7f) << shift : 0;
		if (!(b & 0x80))
			return true;
	}
	return wire_fail(m, w, w->known ? arena_printf(m->arena,
		"not a valid ONNX model: bad number before byte %zu", w->at) : "not an ONNX model");
}

static int wire_type_of(const Field *f)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_FLOAT:
		return PROTOBUF_C_WIRE_TYPE_32BIT;
	case PROTOBUF_C_TYPE_DOUBLE:
		return PROTOBUF_C_WIRE_TYPE_64BIT;
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_MESSAGE:
		return PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
	default:
		return PROTOBUF_C_WIRE_TYPE_VARINT;
	}
}

/* Repeated numbers may be packed or not, whatever the schema says. */
static bool wire_type_fits(const Field *f, int type)
{
	return type == wire_type_of(f) || (f->label == PROTOBUF_C_LABEL_REPEATED
		&& type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED);
}

/* protobuf-c trusts the length of a packed list of fixed-width numbers, and its varints' ends. */
static bool packed_fits(Module *m, Wire *w, const Field *f, size_t len)
{
	int type = wire_type_of(f);
	size_t width = type == PROTOBUF_C_WIRE_TYPE_32BIT ? 4 : 8;

	if (type == PROTOBUF_C_WIRE_TYPE_VARINT ? len == 0 || !(w->bytes[w->at + len - 1] & 0x80)
			: type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED || len % width == 0)
		return true;
	return wire_fail(m, w, arena_printf(m->arena, "not a valid ONNX model: the list '%s' of %s at "
		"byte %zu ends within a number", f->name, w->stack[w->depth].type->short_name, w->at));
}

static bool wire_enter(Module *m, Wire *w, const Field *f, size_t len)
{
	Frame *top = &w->stack[w->depth];
	const ProtobufCMessageDescriptor *type = f->descriptor;
	size_t at = (size_t)(f - top->type->fields);
	int same = 0;

	if (f->label != PROTOBUF_C_LABEL_REPEATED && at < 64) {
		if (top->seen >> at & 1)
			return wire_fail(m, w, arena_printf(m->arena, "not a valid ONNX model: '%s' stands "
				"twice in a %s (byte %zu)", f->name, top->type->short_name, w->at));
		top->seen |= (uint64_t)1 << at;
	}
	for (int i = 0; i <= w->depth; i++)
		same += w->stack[i].type == type;
	if (same > ONNX_MAX_NEST || w->depth + 1 == STACK)
		return wire_fail(m, w, arena_printf(m->arena, "%s nested too deeply (limit %d)",
			type == &onnx__type_proto__descriptor ? "types" :
			type == &onnx__graph_proto__descriptor ||
			type == &onnx__node_proto__descriptor ||
			type == &onnx__attribute_proto__descriptor ? "subgraphs" : "values",
			ONNX_MAX_NEST));
	w->stack[++w->depth] = (Frame){ .type = type, .end = w->at + len };
	return true;
}

static bool wire_field(Module *m, Wire *w)
{
	const Frame *top = &w->stack[w->depth];
	size_t start = w->at;
	uint64_t tag, len = 0;

	if (!varint(m, w, &tag))
		return false;
	int type = (int)(tag & 7);
	const Field *f = tag >> 3 <= INT_MAX
		? protobuf_c_message_descriptor_get_field(top->type, (unsigned)(tag >> 3)) : NULL;
	if (tag >> 3 == 0 || tag >> 32 || type == 3 || type == 4 || type > 5
			|| (f && !wire_type_fits(f, type)))
		return wire_fail(m, w, w->known ? arena_printf(m->arena, "not a valid ONNX model: field "
			"%" PRIu64 " of %s at byte %zu has wire type %d", tag >> 3, top->type->short_name,
			start, type) : "not an ONNX model");
	w->known |= f && w->depth == 0;
	switch (type) {
	case PROTOBUF_C_WIRE_TYPE_VARINT:
		return varint(m, w, &len);
	case PROTOBUF_C_WIRE_TYPE_64BIT:
		len = 8;
		break;
	case PROTOBUF_C_WIRE_TYPE_32BIT:
		len = 4;
		break;
	default:
		if (!varint(m, w, &len))
			return false;
	}
	if (len > top->end - w->at)
		return wire_short(m, w);
	if (len > INT_MAX)
		return wire_fail(m, w, arena_printf(m->arena, "not a valid ONNX model: the field at byte "
			"%zu has %" PRIu64 " bytes; protobuf allows 2 GB", start, len));
	if (f && type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED) {
		if (f->type == PROTOBUF_C_TYPE_MESSAGE)
			return wire_enter(m, w, f, (size_t)len);
		if (!packed_fits(m, w, f, (size_t)len))
			return false;
	}
	w->at += (size_t)len;
	return true;
}

/* NULL if protobuf-c may have the bytes, else what is wrong with them. */
static const char *wire_check(Module *m, const uint8_t *bytes, size_t size)
{
	Wire *w = NEW(m, Wire);

	w->bytes = bytes;
	w->size = size;
	w->stack[0] = (Frame){ .type = &onnx__model_proto__descriptor, .end = size };
	for (;;) {
		if (w->at < w->stack[w->depth].end) {
			if (!wire_field(m, w))
				return w->error;
		} else if (w->depth-- == 0)
			return w->known ? NULL : "not an ONNX model";
	}
}

static void *pb_alloc(void *m, size_t size)
{
	return arena_alloc(((Module *)m)->arena, size);
}

static void pb_free(void *m, void *p)
{
	(void)m, (void)p;
}

/* ---- strings -------------------------------------------------------------------------------- */

static OnnxBytes bytes_of(ProtobufCBinaryData b)
{
	return (OnnxBytes){ (const char *)b.data, b.len };
}

/* Length of the well-formed sequence at s, 0 if there is none (n > 0). */
static size_t utf8_len(const unsigned char *s, size_t n)
{
	static const struct { unsigned char lo, hi, first_lo, first_hi, len; } rows[] = {
		{ 0x00, 0x7f, 0x00, 0x00, 1 }, { 0xc2, 0xdf, 0x80, 0xbf, 2 },
		{ 0xe0, 0xe0, 0xa0, 0xbf, 3 }, { 0xe1, 0xec, 0x80, 0xbf, 3 },
		{ 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 },
		{ 0xf0, 0xf0, 0x90, 0xbf, 4 }, { 0xf1, 0xf3, 0x80, 0xbf, 4 },
		{ 0xf4, 0xf4, 0x80, 0x8f, 4 },
	};

	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
		if (s[0] < rows[r].lo || s[0] > rows[r].hi)
			continue;
		if (rows[r].len > n)
			return 0;
		for (size_t i = 1; i < rows[r].len; i++)
			if (s[i] < (i == 1 ? rows[r].first_lo : 0x80)
					|| s[i] > (i == 1 ? rows[r].first_hi : 0xbf))
				return 0;
		return rows[r].len;
	}
	return 0;
}

bool onnx_utf8(OnnxBytes b)
{
	for (size_t i = 0, n; i < b.n; i += n)
		if (!(n = utf8_len((const unsigned char *)b.p + i, b.n - i)))
			return false;
	return true;
}

const char *onnx_name(OnnxModel *om, OnnxBytes b, const char *what)
{
	if (b.n == 0)
		return intern(om->m, "");
	if (memchr(b.p, 0, b.n) || !onnx_utf8(b)) {
		diag_error(om->diag, X_INVALID, NULL, "%s holds %s", what,
			memchr(b.p, 0, b.n) ? "a zero byte" : "bytes that are not UTF-8");
		return NULL;
	}
	char *s = arena_alloc(om->m->arena, b.n + 1);
	memcpy(s, b.p, b.n);
	return intern(om->m, s);
}

/* A bad name was reported; "?" keeps the rest going. */
static const char *name_of(OnnxModel *om, ProtobufCBinaryData b, const char *what)
{
	const char *s = onnx_name(om, bytes_of(b), what);
	return s ? s : intern(om->m, "?");
}

static const char *domain_of(OnnxModel *om, ProtobufCBinaryData b)
{
	const char *s = name_of(om, b, "a domain");
	return intern(om->m, strcmp(s, "ai.onnx") ? s : "");
}

static const char **names_of(OnnxModel *om, size_t n, const ProtobufCBinaryData *b,
	const char *what)
{
	const char **list = NEWN(om->m, const char *, n);

	for (size_t i = 0; i < n; i++)
		list[i] = name_of(om, b[i], what);
	return list;
}

static OnnxBytes *byte_lists(OnnxModel *om, size_t n, const ProtobufCBinaryData *b)
{
	OnnxBytes *list = NEWN(om->m, OnnxBytes, n);

	for (size_t i = 0; i < n; i++)
		list[i] = bytes_of(b[i]);
	return list;
}

/* ---- tensors and types ---------------------------------------------------------------------- */

/* `what` says where it stands: "initializer", "attribute \"value\" of Constant 'c'". */
static OnnxTensor *tensor_of(OnnxModel *om, const Onnx__TensorProto *t, const char *what)
{
	const char *name = name_of(om, t->name, "a tensor's name");
	OnnxPair *ext = NEWN(om->m, OnnxPair, t->n_external_data);

	for (size_t i = 0; i < t->n_external_data; i++)
		ext[i] = (OnnxPair){ bytes_of(t->external_data[i]->key),
			bytes_of(t->external_data[i]->value) };
	return tensor_read(om, &(TensorFields){
		.what = *name ? arena_printf(om->m->arena, "%s \"%s\"", what, name) : what,
		.name = name, .type = t->data_type,
		.ndims = t->n_dims, .dims = t->dims,
		.nf32 = t->n_float_data, .f32 = t->float_data,
		.ni32 = t->n_int32_data, .i32 = t->int32_data,
		.ni64 = t->n_int64_data, .i64 = t->int64_data,
		.nf64 = t->n_double_data, .f64 = t->double_data,
		.nu64 = t->n_uint64_data, .u64 = t->uint64_data,
		.nstr = t->n_string_data, .str = byte_lists(om, t->n_string_data, t->string_data),
		.has_raw = t->has_raw_data, .raw = bytes_of(t->raw_data),
		.external = t->data_location == 1, .segment = t->segment != NULL,
		.next = t->n_external_data, .ext = ext,
	});
}

static OnnxTensor *sparse_of(OnnxModel *om, const Onnx__SparseTensorProto *s, const char *what)
{
	if (!s->values || !s->indices) {
		diag_error(om->diag, X_INVALID, NULL, "%s: sparse tensor without %s", what,
			s->values ? "indices" : "values");
		return NULL;
	}
	OnnxTensor *v = tensor_of(om, s->values, what);
	OnnxTensor *i = tensor_of(om, s->indices, arena_printf(om->m->arena, "indices of %s", what));
	return v && i ? tensor_dense(om, what, v, i, s->n_dims, s->dims) : NULL;
}

static void shape_of(OnnxModel *om, OnnxType *t, const Onnx__TensorShapeProto *s)
{
	if (!s)
		return;
	t->has_shape = true;
	t->rank = (int)s->n_dim;
	t->dims = NEWN(om->m, OnnxDim, s->n_dim);
	for (size_t i = 0; i < s->n_dim; i++) {
		const Onnx__TensorShapeProto__Dimension *d = s->dim[i];
		t->dims[i] = (OnnxDim){ .value = d->has_dim_value && d->dim_value >= 0 ? d->dim_value : -1,
			.param = name_of(om, d->dim_param, "a dimension's name") };
	}
}

static OnnxType *type_of(OnnxModel *om, const Onnx__TypeProto *p)
{
	OnnxType *t = NEW(om->m, OnnxType);

	if (!p)
		return NULL;
	if (p->tensor_type) {
		t->kind = OT_TENSOR;
		t->elem = p->tensor_type->elem_type;
		shape_of(om, t, p->tensor_type->shape);
	} else if (p->sparse_tensor_type) {
		t->kind = OT_SPARSE;
		t->elem = p->sparse_tensor_type->elem_type;
		shape_of(om, t, p->sparse_tensor_type->shape);
	} else if (p->sequence_type) {
		t->kind = OT_SEQ;
		t->of = type_of(om, p->sequence_type->elem_type);
	} else if (p->optional_type) {
		t->kind = OT_OPTIONAL;
		t->of = type_of(om, p->optional_type->elem_type);
	} else if (p->map_type) {
		t->kind = OT_MAP;
		t->elem = p->map_type->key_type;
		t->of = type_of(om, p->map_type->value_type);
	} else if (p->opaque_type)
		t->kind = OT_OPAQUE;
	else
		return NULL;
	return t;
}

/* ---- graphs --------------------------------------------------------------------------------- */

static OnnxGraph *graph_of(OnnxModel *, const Onnx__GraphProto *, OnnxNode *owner, const char *attr,
	OnnxFunction *);

/* Early files leave the type out: the field that is there says it. */
static OnnxAttrKind attr_kind(const Onnx__AttributeProto *p)
{
	if (p->has_type && p->type)
		return p->type > 0 && p->type < N_ONNX_ATTRS ? (OnnxAttrKind)p->type : N_ONNX_ATTRS;
	return p->has_f ? OA_FLOAT : p->has_i ? OA_INT : p->has_s ? OA_STRING : p->t ? OA_TENSOR
		: p->g ? OA_GRAPH : p->n_floats ? OA_FLOATS : p->n_ints ? OA_INTS
		: p->n_strings ? OA_STRINGS : p->n_tensors ? OA_TENSORS : p->n_graphs ? OA_GRAPHS
		: p->sparse_tensor ? OA_SPARSE : p->n_sparse_tensors ? OA_SPARSES
		: p->tp ? OA_TYPE : p->n_type_protos ? OA_TYPES : OA_NONE;
}

static int attr_count(const Onnx__AttributeProto *p, OnnxAttrKind kind)
{
	switch (kind) {
	case OA_NONE: return 0;
	case OA_TENSOR: return p->t != NULL;
	case OA_GRAPH: return p->g != NULL;
	case OA_SPARSE: return p->sparse_tensor != NULL;
	case OA_TYPE: return p->tp != NULL;
	case OA_FLOATS: return (int)p->n_floats;
	case OA_INTS: return (int)p->n_ints;
	case OA_STRINGS: return (int)p->n_strings;
	case OA_TENSORS: return (int)p->n_tensors;
	case OA_GRAPHS: return (int)p->n_graphs;
	case OA_SPARSES: return (int)p->n_sparse_tensors;
	case OA_TYPES: return (int)p->n_type_protos;
	default: return 1;
	}
}

static const char *attr_text(OnnxModel *om, const OnnxAttr *a, const OnnxNode *node,
	const OnnxFunction *fn)
{
	if (!node)
		return arena_printf(om->m->arena, "attribute \"%s\" of function %s", a->name, fn->name);
	return arena_printf(om->m->arena, "attribute \"%s\" of %s '%s'", a->name, node->op,
		*node->name || !node->nout ? node->name : node->out[0]);
}

static void attr_values(OnnxModel *om, OnnxAttr *a, const Onnx__AttributeProto *p, OnnxNode *node,
	OnnxFunction *fn)
{
	Module *m = om->m;
	bool sparse = a->kind == OA_SPARSE || a->kind == OA_SPARSES;
	const char *what = sparse || a->kind == OA_TENSOR || a->kind == OA_TENSORS
		? attr_text(om, a, node, fn) : NULL;

	switch (a->kind) {
	case OA_FLOAT:
		a->f = arena_dup(m->arena, &p->f, sizeof p->f);
		break;
	case OA_INT:
		a->i = arena_dup(m->arena, &p->i, sizeof p->i);
		break;
	case OA_STRING:
		a->s = byte_lists(om, 1, &p->s);
		break;
	case OA_FLOATS:
		a->f = p->floats;
		break;
	case OA_INTS:
		a->i = p->ints;
		break;
	case OA_STRINGS:
		a->s = byte_lists(om, p->n_strings, p->strings);
		break;
	case OA_TENSOR:
	case OA_TENSORS:
		a->t = NEWN(m, OnnxTensor *, a->n);
		for (int i = 0; i < a->n; i++)
			a->t[i] = tensor_of(om, a->kind == OA_TENSOR ? p->t : p->tensors[i], what);
		break;
	case OA_SPARSE:
	case OA_SPARSES:
		a->t = NEWN(m, OnnxTensor *, a->n);
		for (int i = 0; i < a->n; i++)
			a->t[i] = sparse_of(om, a->kind == OA_SPARSE ? p->sparse_tensor
				: p->sparse_tensors[i], what);
		break;
	case OA_GRAPH:
	case OA_GRAPHS:
		a->g = NEWN(m, OnnxGraph *, a->n);
		for (int i = 0; i < a->n; i++)
			a->g[i] = graph_of(om, a->kind == OA_GRAPH ? p->g : p->graphs[i], node,
				a->name, fn);
		break;
	case OA_TYPE:
	case OA_TYPES:
		a->type = NEWN(m, OnnxType *, a->n);
		for (int i = 0; i < a->n; i++)
			a->type[i] = type_of(om, a->kind == OA_TYPE ? p->tp : p->type_protos[i]);
		break;
	default:
		break;
	}
}

static void attr_of(OnnxModel *om, OnnxAttr *a, const Onnx__AttributeProto *p, OnnxNode *node,
	OnnxFunction *fn)
{
	a->name = name_of(om, p->name, "an attribute's name");
	a->ref = name_of(om, p->ref_attr_name, "an attribute's name");
	a->kind = attr_kind(p);
	if (a->kind == N_ONNX_ATTRS) {
		diag_error(om->diag, X_UNSUPPORTED, NULL, "%s has unknown type %" PRId32,
			attr_text(om, a, node, fn), p->type);
		a->kind = OA_NONE;
	}
	if (*a->ref)
		return;
	a->n = attr_count(p, a->kind);
	if (a->n == 0 && (a->kind == OA_TENSOR || a->kind == OA_GRAPH || a->kind == OA_SPARSE
			|| a->kind == OA_TYPE))
		diag_error(om->diag, X_INVALID, NULL, "%s has no value", attr_text(om, a, node, fn));
	attr_values(om, a, p, node, fn);
}

static OnnxNode *node_of(OnnxModel *om, const Onnx__NodeProto *p, OnnxGraph *g, int index)
{
	OnnxNode *n = NEW(om->m, OnnxNode);

	n->op = name_of(om, p->op_type, "an operator's name");
	n->domain = domain_of(om, p->domain);
	n->overload = name_of(om, p->overload, "an overload's name");
	n->name = name_of(om, p->name, "a node's name");
	n->nin = (int)p->n_input;
	n->in = names_of(om, p->n_input, p->input, "a node input's name");
	n->nout = (int)p->n_output;
	n->out = names_of(om, p->n_output, p->output, "a node output's name");
	n->graph = g;
	n->index = index;
	n->nattr = (int)p->n_attribute;
	n->attr = NEWN(om->m, OnnxAttr, n->nattr);
	for (int i = 0; i < n->nattr; i++)
		attr_of(om, &n->attr[i], p->attribute[i], n, g->function);
	return n;
}

static void nodes_of(OnnxModel *om, OnnxGraph *g, size_t n, Onnx__NodeProto *const *p)
{
	g->nnode = (int)n;
	g->node = NEWN(om->m, OnnxNode *, n);
	for (int i = 0; i < g->nnode; i++)
		g->node[i] = node_of(om, p[i], g, i);
}

static OnnxValue *values_of(OnnxModel *om, size_t n, Onnx__ValueInfoProto *const *p,
	const char *what)
{
	OnnxValue *list = NEWN(om->m, OnnxValue, n);

	for (size_t i = 0; i < n; i++)
		list[i] = (OnnxValue){ name_of(om, p[i]->name, what), type_of(om, p[i]->type) };
	return list;
}

static OnnxGraph *graph_of(OnnxModel *om, const Onnx__GraphProto *p, OnnxNode *owner,
	const char *attr, OnnxFunction *fn)
{
	OnnxGraph *g = NEW(om->m, OnnxGraph);
	size_t ninit = p->n_initializer;

	g->name = name_of(om, p->name, "a graph's name");
	g->owner = owner;
	g->attr = attr;
	g->function = fn;
	g->nin = (int)p->n_input;
	g->in = values_of(om, p->n_input, p->input, "a graph input's name");
	g->nout = (int)p->n_output;
	g->out = values_of(om, p->n_output, p->output, "a graph output's name");
	g->ninit = (int)(ninit + p->n_sparse_initializer);
	g->init = NEWN(om->m, OnnxTensor *, g->ninit);
	for (size_t i = 0; i < ninit; i++)
		g->init[i] = tensor_of(om, p->initializer[i], "initializer");
	for (size_t i = 0; i < p->n_sparse_initializer; i++)
		g->init[ninit + i] = sparse_of(om, p->sparse_initializer[i], "sparse initializer");
	nodes_of(om, g, p->n_node, p->node);
	return g;
}

static OnnxValue *untyped(OnnxModel *om, size_t n, const ProtobufCBinaryData *b, const char *what)
{
	OnnxValue *list = NEWN(om->m, OnnxValue, n);

	for (size_t i = 0; i < n; i++)
		list[i].name = name_of(om, b[i], what);
	return list;
}

static OnnxOpset *opsets_of(OnnxModel *om, size_t n, Onnx__OperatorSetIdProto *const *p)
{
	OnnxOpset *list = NEWN(om->m, OnnxOpset, n);

	for (size_t i = 0; i < n; i++)
		list[i] = (OnnxOpset){ domain_of(om, p[i]->domain), p[i]->version };
	return list;
}

static void function_decode(OnnxModel *om, OnnxFunction *f, const Onnx__FunctionProto *p)
{
	size_t bare = p->n_attribute;

	f->domain = domain_of(om, p->domain);
	f->name = name_of(om, p->name, "a function's name");
	f->overload = name_of(om, p->overload, "an overload's name");
	f->nopset = (int)p->n_opset_import;
	f->opset = opsets_of(om, p->n_opset_import, p->opset_import);
	f->nparam = (int)(bare + p->n_attribute_proto);
	f->param = NEWN(om->m, OnnxAttr, f->nparam);
	for (size_t i = 0; i < bare; i++)
		f->param[i].name = name_of(om, p->attribute[i], "a function attribute's name");
	for (size_t i = 0; i < p->n_attribute_proto; i++)
		attr_of(om, &f->param[bare + i], p->attribute_proto[i], NULL, f);
	f->body = NEW(om->m, OnnxGraph);
	f->body->name = f->name;
	f->body->function = f;
	f->body->nin = (int)p->n_input;
	f->body->in = untyped(om, p->n_input, p->input, "a function input's name");
	f->body->nout = (int)p->n_output;
	f->body->out = untyped(om, p->n_output, p->output, "a function output's name");
	nodes_of(om, f->body, p->n_node, p->node);
}

static void model_of(OnnxModel *om, const Onnx__ModelProto *p)
{
	const char *tool = name_of(om, p->producer_name, "the producer's name");
	const char *version = name_of(om, p->producer_version, "the producer's version");

	om->ir_version = p->ir_version;
	om->producer = arena_printf(om->m->arena, "%s%s%s", tool, *version ? " " : "", version);
	om->nopset = (int)p->n_opset_import;
	om->opset = opsets_of(om, p->n_opset_import, p->opset_import);
	om->nfunction = (int)p->n_functions;
	om->function = NEWN(om->m, OnnxFunction, om->nfunction);
	for (int i = 0; i < om->nfunction; i++)
		function_decode(om, &om->function[i], p->functions[i]);
	if (p->graph)
		om->graph = graph_of(om, p->graph, NULL, NULL, NULL);
	else
		diag_error(om->diag, X_INVALID, NULL, "not an ONNX model: it has no graph");
}

OnnxModel *onnx_decode(Module *m, const uint8_t *bytes, size_t size, const char *dir,
	const char *path)
{
	OnnxModel *om = NEW(m, OnnxModel);
	ProtobufCAllocator in_arena = { pb_alloc, pb_free, m };
	const char *error = wire_check(m, bytes, size);

	om->m = m;
	om->diag = m->diag;
	om->dir = dir;
	om->path = path;
	if (size > INT_MAX)
		error = "not a valid ONNX model: protobuf allows 2 GB";
	if (error) {
		diag_error(m->diag, X_INVALID, NULL, "%s", error);
		return NULL;
	}
	Onnx__ModelProto *p = onnx__model_proto__unpack(&in_arena, size, bytes);
	if (!p) {
		diag_error(m->diag, X_INVALID, NULL, "not a valid ONNX model: protobuf cannot read it");
		return NULL;
	}
	model_of(om, p);
	return om;
}
