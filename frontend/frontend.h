/*
 * From an ONNX file to the graph level. A model goes through
 *   decode.c   protobuf to the structures below (the wire is checked before protobuf-c sees it)
 *   tensor.c   the one reader of tensors; extern.c finds their external files
 *   check.c    names, definitions, order, operator sets; sorts the nodes
 *   inline.c   model-local functions
 *   import.c   nodes to ir.h's graph operators, upgrade.c's table making old forms new
 * Everything lives in the module's arena; external files stay mapped until onnx_close.
 */
#ifndef TCC_FRONTEND_H
#define TCC_FRONTEND_H

#include "ir/ir.h"

typedef struct OnnxModel OnnxModel;
typedef struct OnnxGraph OnnxGraph;
typedef struct OnnxNode OnnxNode;
typedef struct OnnxFunction OnnxFunction;
typedef struct OnnxTensor OnnxTensor;
typedef struct OnnxType OnnxType;

enum {
	ONNX_MAX_IR = 14,
	/* subgraphs within subgraphs, types within types, calls within calls */
	ONNX_MAX_NEST = 64,
	ONNX_MAX_NODES = 1 << 20,    /* after inlining */
	ONNX_MAX_LIST = 1000,        /* attributes of a node, operator sets of a model */
};

/* A map from interned names (names.c); zero-initialise. */
typedef struct Names { const char **key; void **val; int n, cap; } Names;
void *names_get(const Names *, const char *name);
void names_put(Module *, Names *, const char *name, void *val);

/* Not terminated, may hold any byte. Names, in contrast, are interned C strings, "" for none. */
typedef struct OnnxBytes { const char *p; size_t n; } OnnxBytes;
typedef struct OnnxPair { OnnxBytes key, value; } OnnxPair;

/* A tensor that could be read: its data are complete. Element types are TensorProto codes. */
struct OnnxTensor {
	const char *name;
	int type;
	int rank;
	int64_t *dims;
	int64_t count;               /* product of dims */
	size_t size;                 /* of data, in bytes */
	/* as raw_data lays it out, aligned to its element; NULL for strings */
	const void *data;
	const OnnxBytes *strings;    /* count of them; NULL for other types */
	const char *file;            /* external data: its file, else NULL */
	int64_t offset;
};

typedef enum OnnxTypeKind {
	OT_NONE, OT_TENSOR, OT_SPARSE, OT_SEQ, OT_OPTIONAL, OT_MAP, OT_OPAQUE
} OnnxTypeKind;

typedef struct OnnxDim {
	int64_t value;               /* -1 if not given as a number */
	const char *param;           /* "" if it has no name */
} OnnxDim;

struct OnnxType {
	OnnxTypeKind kind;
	int elem;                    /* tensors: element type; map: key type */
	bool has_shape;
	int rank;
	OnnxDim *dims;
	const OnnxType *of;          /* sequence, optional: element; map: value */
};

/* Numbered as AttributeProto.type. */
typedef enum OnnxAttrKind {
	OA_NONE, OA_FLOAT, OA_INT, OA_STRING, OA_TENSOR, OA_GRAPH,
	OA_FLOATS, OA_INTS, OA_STRINGS, OA_TENSORS, OA_GRAPHS,
	OA_SPARSE, OA_SPARSES, OA_TYPE, OA_TYPES,
	N_ONNX_ATTRS
} OnnxAttrKind;

/* A single value is a list of one. Sparse tensors are made dense. */
typedef struct OnnxAttr {
	const char *name;
	const char *ref;             /* in a function's body: the parameter it stands for, or "" */
	OnnxAttrKind kind;
	int n;
	union {
		float *f;
		int64_t *i;
		OnnxBytes *s;
		OnnxTensor **t;      /* NULL where the tensor is bad (and was reported) */
		OnnxGraph **g;
		OnnxType **type;
	};
} OnnxAttr;

struct OnnxNode {
	const char *op, *domain, *overload, *name;   /* domain "" is ai.onnx */
	int nin, nout, nattr;
	const char **in, **out;      /* "" where left out */
	OnnxAttr *attr;
	int version;                 /* of its domain's operator set */
	int index;                   /* position in its graph, as the file has it */
	OnnxGraph *graph;
	const OnnxNode *call;        /* inlined: the call that brought it in */
	const OnnxFunction *from;    /* inlined: the function it was written in */
};

typedef struct OnnxValue { const char *name; const OnnxType *type; } OnnxValue;

struct OnnxGraph {
	const char *name;
	int nnode, ninit, nin, nout;
	OnnxNode **node;             /* after check: in an order that respects their uses */
	OnnxTensor **init;           /* NULL where bad */
	OnnxValue *in, *out;         /* types as declared; NULL if none was */
	OnnxNode *owner;             /* subgraph: its node, and the attribute that holds it */
	const char *attr;
	OnnxFunction *function;      /* a function's body, or a graph within it */
};

typedef struct OnnxOpset { const char *domain; int64_t version; } OnnxOpset;

struct OnnxFunction {
	const char *domain, *name, *overload;
	int nparam;
	OnnxAttr *param;             /* kind OA_NONE: without a default */
	OnnxGraph *body;             /* in, out: untyped */
	int nopset;
	OnnxOpset *opset;
	int64_t total;               /* inline.c: nodes after inlining, 0 unknown, -1 being counted */
};

struct OnnxModel {
	Module *m;
	Diag *diag;
	const char *path, *dir;      /* dir: where external data lies; NULL: none allowed */
	int64_t ir_version;
	const char *producer;        /* name and version, for the manifest */
	int nopset;
	OnnxOpset *opset;
	OnnxGraph *graph;
	int nfunction;
	OnnxFunction *function;
	Names files;                 /* extern.c: by location */
	Names functions;             /* check.c: by function_key */
	Vec overridable;             /* import.c: names of the initializers that are inputs too */
};

/* Decodes, checks and inlines. NULL after errors, all of which were reported to m->diag. */
OnnxModel *onnx_open(Module *m, const char *path);
/* The same from memory, which need not outlive the call. dir: see OnnxModel. */
OnnxModel *onnx_read(Module *m, const uint8_t *bytes, size_t size, const char *dir);
void onnx_close(OnnxModel *);                   /* unmaps external data; NULL is fine */

/* ---- decode.c ------------------------------------------------------------------------------- */

OnnxModel *onnx_decode(Module *m, const uint8_t *bytes, size_t size, const char *dir,
	const char *path);
/* An interned name; NULL after reporting one that holds a NUL or is not UTF-8. */
const char *onnx_name(OnnxModel *, OnnxBytes, const char *what);
bool onnx_utf8(OnnxBytes);

/* ---- tensor.c ------------------------------------------------------------------------------- */

/* A TensorProto's fields as they lie in the message. */
typedef struct TensorFields {
	const char *what;            /* "initializer \"w\"": for messages */
	const char *name;
	int type;
	size_t ndims, nf32, ni32, ni64, nf64, nu64, nstr, next;
	const int64_t *dims;
	const float *f32;
	const int32_t *i32;
	const int64_t *i64;
	const double *f64;
	const uint64_t *u64;
	const OnnxBytes *str;
	bool has_raw, external, segment;
	OnnxBytes raw;
	const OnnxPair *ext;
} TensorFields;

/* NULL after reporting what is wrong. The result may point into the fields' arrays. */
OnnxTensor *tensor_read(OnnxModel *, const TensorFields *);
OnnxTensor *tensor_dense(OnnxModel *, const char *what, const OnnxTensor *values,
	const OnnxTensor *indices, size_t ndims, const int64_t *dims);
const char *onnx_type_name(int code);           /* "float32"; NULL if unknown */
int onnx_type_bits(int code);                   /* 0: string or unknown */

/* ---- extern.c ------------------------------------------------------------------------------- */

/* `need` bytes of external data in *at (NULL if need is 0); false after reporting. */
bool extern_data(OnnxModel *, const TensorFields *, size_t need, OnnxTensor *);
void extern_close(OnnxModel *);

/* ---- check.c -------------------------------------------------------------------------------- */

/* sorts nodes, sets their versions; false after errors */
bool onnx_check(OnnxModel *);
/* "Relu 'r' (node 3) in then_branch of If 'c' (node 9)" */
const char *node_text(OnnxModel *, const OnnxNode *);
const Loc *node_loc(OnnxModel *, const OnnxNode *);
void node_error(OnnxModel *, const OnnxNode *, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* the local function it calls, or NULL */
OnnxFunction *function_of(OnnxModel *, const OnnxNode *);

/* ---- inline.c ------------------------------------------------------------------------------- */

bool onnx_inline(OnnxModel *);                  /* needs check; leaves no calls, nodes in order */

/* ---- shapes.c ------------------------------------------------------------------------------- */

/* What the command line says about inputs. */
typedef struct ImportOptions {
	int nshape, ndim, nfreeze;
	const char *const *shape;    /* "x=1x3x224x224", "x=1..32x3x?x?" */
	const char *const *dim;      /* "N=8", "N=1..64" */
	const struct Freeze { const char *name; Node *value; } *freeze;  /* value: a constant */
} ImportOptions;

typedef struct ShapeTable ShapeTable;
/* NULL after reporting. Each dimension name becomes one symbol. */
ShapeTable *shapes_new(OnnxModel *, const ImportOptions *);
/* The i-th graph input's type; NULL after reporting. */
const Type *shapes_input(ShapeTable *, int i);
/* A type as declared, in which sizes that are no numbers are
 * unknown (ty_element); NULL if we have none. */
const Type *value_type(OnnxModel *, const OnnxType *);
bool is_initializer(const OnnxGraph *, const char *name);

/* ---- upgrade.c ------------------------------------------------------------------------------ */

/* A node on its way to graph_op: its operator's old forms become the newest one. */
typedef struct Form {
	OnnxModel *om;
	Module *m;
	const OnnxNode *node;
	const Loc *loc;
	const char *op;              /* may be renamed */
	int nin, nattr, nout;
	Node **in;                   /* room for FORM_ROOM more, NULL where left out */
	OnnxAttr *attr;              /* likewise */
	Node *result;                /* set where the old form is made of several nodes */
} Form;
enum { FORM_ROOM = 8 };

bool upgrade(Form *);                           /* false after reporting */
const char *upgraded_name(const OnnxNode *);    /* the operator's name in its newest form */
/* The last versions of older forms that become the newest one of the row "domain:Name", newest
 * first; a form that merely lacks types or attributes is none. Their number; onnx may be NULL. */
enum { MAX_FORMS = 8 };
int older_forms(const char *onnx, int *last);

/* ---- scan8.c --------------------------------------------------------------------------------- */

/* Scan-8 as a graph of newer nodes that reads the node's inputs and gives its outputs, by their
 * names; NULL after reporting. */
const OnnxGraph *scan8_graph(OnnxModel *, const OnnxNode *);

/* ---- import.c ------------------------------------------------------------------------------- */

/* Fills in m->main, its names and symbols. False after errors, all of which were reported. */
bool onnx_import(OnnxModel *, const ImportOptions *);
/* onnx_open and onnx_import; the model stays open, for its constants' sake, until onnx_close. */
OnnxModel *onnx_load(Module *m, const char *path, const ImportOptions *);
/* a constant; NULL after reporting */
Node *tensor_node(OnnxModel *, const OnnxTensor *, const Loc *);
const Op *row_of(const char *domain, const char *op);              /* NULL if there is none */

#endif
