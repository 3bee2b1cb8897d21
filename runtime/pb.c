/*
 * ONNX's data messages (TensorProto, SequenceProto, MapProto, OptionalProto) in protobuf's wire
 * format, read and written by hand: programs carry no protobuf library. Field numbers are those
 * of the published onnx.proto.
 */
#include <stdlib.h>
#include <string.h>
#include "rt.h"

enum { VARINT, FIXED64, LENGTH, FIXED32 = 5 };
enum { T_DIMS = 1, T_TYPE, T_SEGMENT, T_FLOAT, T_INT32, T_STRING, T_INT64, T_NAME, T_RAW, T_DOUBLE,
       T_UINT64, T_LOCATION = 14 };
enum { S_NAME = 1, S_TYPE, S_TENSORS, S_SPARSE, S_SEQUENCES, S_MAPS, S_OPTIONALS };
enum { M_NAME = 1, M_KEY_TYPE, M_KEYS, M_STRING_KEYS, M_VALUES };
enum { O_NAME = 1, O_TYPE, O_TENSOR, O_SPARSE, O_SEQUENCE, O_MAP, O_OPTIONAL };
enum { ELEM_NONE, ELEM_TENSOR, ELEM_SPARSE, ELEM_SEQUENCE, ELEM_MAP, ELEM_OPTIONAL };
enum { MAX_DEPTH = 16 };

static int bad(TccErr *err, const char *why)
{
	return tcc_fail(err, TCC_BAD_FILE, "not a valid ONNX tensor file: %s", why);
}

/* --- the wire ---------------------------------------------------------------------------- */

typedef struct Field {
	uint32_t number, type;
	uint64_t value;         /* VARINT, FIXED32, FIXED64 */
	TccBytes bytes;         /* LENGTH */
} Field;

static bool varint(TccBytes *in, uint64_t *v)
{
	*v = 0;
	for (int shift = 0; shift < 64 && in->n; shift += 7) {
		uint8_t b = *in->p++;
		in->n--;
		*v |= (uint64_t)(b & 127) << shift;
		if (b < 128)
			return true;
	}
	return false;
}

static bool fixed(TccBytes *in, int n, uint64_t *v)
{
	*v = 0;
	if (in->n < (uint64_t)n)
		return false;
	memcpy(v, in->p, n);
	in->p += n;
	in->n -= n;
	return true;
}

static bool next_field(TccBytes *in, Field *f)
{
	uint64_t key;
	if (!varint(in, &key) || key >> 3 > 536870911 || !(key >> 3))
		return false;
	f->number = (uint32_t)(key >> 3);
	f->type = key & 7;
	switch (f->type) {
	case VARINT: return varint(in, &f->value);
	case FIXED64: return fixed(in, 8, &f->value);
	case FIXED32: return fixed(in, 4, &f->value);
	case LENGTH:
		if (!varint(in, &f->value) || f->value > in->n)
			return false;
		f->bytes = (TccBytes){in->p, f->value};
		in->p += f->value;
		in->n -= f->value;
		return true;
	}
	return false;
}

/* The values of a repeated number, packed or not: calls of next_number walk them. */
static bool next_number(Field *f, int type, uint64_t *v)
{
	if (f->type == LENGTH) {
		if (!f->bytes.n)
			return false;
		bool ok = type == VARINT ? varint(&f->bytes, v)
		                         : fixed(&f->bytes, type == FIXED32 ? 4 : 8, v);
		if (!ok)
			f->bytes.n = 0, f->number = 0;     /* number 0 tells that it was damaged */
		return ok;
	}
	*v = f->value;
	f->bytes = (TccBytes){0};
	bool ok = (int)f->type == type;
	f->type = LENGTH;       /* the one value is used up */
	if (!ok)
		f->number = 0;
	return ok;
}

/* --- tensors ----------------------------------------------------------------------------- */

typedef struct Head {
	int64_t dims[TCC_MAX_RANK];
	int rank;
	uint32_t dtype;
	bool raw_given;
	TccBytes raw;
	uint64_t nstrings, string_bytes;
} Head;

/* Everything but the typed elements. */
static int read_head(TccBytes in, Head *h, TccErr *err)
{
	Field f;
	uint64_t v;
	while (in.n) {
		if (!next_field(&in, &f))
			return bad(err, "it is damaged");
		switch (f.number) {
		case T_DIMS:
			while (next_number(&f, VARINT, &v)) {
				if (h->rank == TCC_MAX_RANK)
					return bad(err, "it has too many dimensions");
				h->dims[h->rank++] = (int64_t)v;
			}
			if (!f.number)
				return bad(err, "its dimensions are damaged");
			break;
		case T_TYPE:
			h->dtype = f.type == VARINT && f.value < TCC_NDTYPES ? (uint32_t)f.value : TCC_NDTYPES;
			break;
		case T_RAW:
			if (f.type != LENGTH)
				return bad(err, "its raw data are damaged");
			h->raw = f.bytes;
			h->raw_given = true;
			break;
		case T_STRING:
			if (f.type != LENGTH)
				return bad(err, "a string is damaged");
			h->nstrings++;
			h->string_bytes += f.bytes.n;
			break;
		case T_SEGMENT:
			return tcc_fail(err, TCC_UNSUPPORTED, "tensors in segments are not supported");
		case T_LOCATION:
			if (f.value)
				return tcc_fail(err, TCC_UNSUPPORTED, "data outside of the file are not supported");
			break;
		}
	}
	if (!tcc_dtype_bits(h->dtype))
		return bad(err, "its element type is missing or unknown");
	return 0;
}

/* Which field holds elements of a type, on which wire type, and how many bytes of the tensor one
 * number in it makes. Packed types stand a byte in each int32. */
typedef struct Place {
	uint32_t field;
	int wire;
	int bytes;
} Place;

static Place place_of(uint32_t dtype)
{
	int bits = tcc_dtype_bits(dtype);
	switch (dtype) {
	case TCC_F32: case TCC_C64: return (Place){T_FLOAT, FIXED32, 4};
	case TCC_F64: case TCC_C128: return (Place){T_DOUBLE, FIXED64, 8};
	case TCC_I64: return (Place){T_INT64, VARINT, 8};
	case TCC_U32: return (Place){T_UINT64, VARINT, 4};
	case TCC_U64: return (Place){T_UINT64, VARINT, 8};
	default: return (Place){T_INT32, VARINT, bits < 8 ? 1 : bits / 8};
	}
}

static int read_typed(TccBytes in, uint32_t dtype, uint8_t *to, uint64_t bytes, TccErr *err)
{
	Place p = place_of(dtype);
	uint64_t at = 0, v;
	Field f;
	while (in.n && next_field(&in, &f)) {
		if (f.number != p.field)
			continue;
		while (next_number(&f, p.wire, &v)) {
			if (bytes - at < (uint64_t)p.bytes)
				return bad(err, "it has more elements than its dimensions say");
			memcpy(to + at, &v, p.bytes);
			at += p.bytes;
		}
		if (!f.number)
			return bad(err, "its elements are damaged");
	}
	return at == bytes ? 0 : bad(err, "it has fewer elements than its dimensions say");
}

static int read_strings(TccBytes in, const Head *h, TccValue *v, TccErr *err)
{
	uint64_t count;
	Field f;
	if (!tcc_tensor_size(TCC_STRING, h->rank, h->dims, &count, NULL) || count != h->nstrings)
		return bad(err, "it has another number of strings than its dimensions say");
	int rc = tcc_strings_new(v, h->rank, h->dims, h->string_bytes, err);
	if (rc)
		return rc;
	char *to = tcc_strings_bytes(v);
	TccStr *s = v->u.tensor.data;
	while (in.n && next_field(&in, &f)) {
		if (f.number != T_STRING)
			continue;
		if (f.bytes.n)
			memcpy(to, f.bytes.p, f.bytes.n);
		*s++ = (TccStr){to, f.bytes.n};
		to += f.bytes.n;
	}
	return 0;
}

static int read_tensor(TccBytes in, TccValue *v, TccErr *err)
{
	Head h = {0};
	uint64_t bytes;
	int rc = read_head(in, &h, err);
	if (rc)
		return rc;
	if (h.dtype == TCC_STRING)
		return read_strings(in, &h, v, err);
	if (!tcc_tensor_size(h.dtype, h.rank, h.dims, NULL, &bytes))
		return bad(err, "its size is negative or overflows");
	/* before memory is asked for: a byte of the file makes 8 of the tensor at most */
	if (h.raw_given ? h.raw.n != bytes : bytes / 8 > in.n)
		return bad(err, "its data have another size than its dimensions say");
	if ((rc = tcc_tensor_new(v, h.dtype, h.rank, h.dims, err)))
		return rc;
	if (!h.raw_given)
		rc = read_typed(in, h.dtype, v->u.tensor.data, bytes, err);
	else if (bytes)
		memcpy(v->u.tensor.data, h.raw.p, bytes);
	if (rc)
		tcc_value_free(v);
	return rc;
}

/* --- sequences, maps, optionals ---------------------------------------------------------- */

static int read_map(TccBytes in, TccValue *v, int depth, TccErr *err);

static bool is_element(const Field *f)
{
	return f->number >= S_TENSORS && f->number <= S_OPTIONALS && f->type == LENGTH;
}

static int read_sequence(TccBytes in, TccValue *v, int depth, TccErr *err);

static int read_element(const Field *f, TccValue *v, int depth, TccErr *err)
{
	switch (f->number) {
	case S_TENSORS: return read_tensor(f->bytes, v, err);
	case S_SEQUENCES: return read_sequence(f->bytes, v, depth + 1, err);
	case S_MAPS: return read_map(f->bytes, v, depth + 1, err);
	}
	return tcc_fail(err, TCC_UNSUPPORTED, "sequences of sparse or optional values are not "
	                "supported");
}

static int read_sequence(TccBytes in, TccValue *v, int depth, TccErr *err)
{
	Field f;
	uint64_t n = 0;
	if (depth > MAX_DEPTH)
		return bad(err, "it is nested too deeply");
	for (TccBytes rest = in; rest.n; n += is_element(&f))
		if (!next_field(&rest, &f))
			return bad(err, "a sequence is damaged");
	int rc = tcc_sequence_new(v, TCC_NODTYPE, n, err);
	for (uint64_t i = 0; !rc && i < n && next_field(&in, &f);)
		if (is_element(&f))
			rc = read_element(&f, &v->u.seq.items[i++], depth, err);
	if (rc)
		tcc_value_free(v);
	else if (n)
		v->dtype = v->u.seq.items[0].dtype;
	return rc;
}

static int string_keys(TccBytes in, uint64_t n, uint64_t bytes, TccValue *v, TccErr *err)
{
	Field f;
	int rc = tcc_strings_new(v, 1, (int64_t[]){(int64_t)n}, bytes, err);
	if (rc)
		return rc;
	char *to = tcc_strings_bytes(v);
	for (TccStr *s = v->u.tensor.data; in.n && next_field(&in, &f);)
		if (f.number == M_STRING_KEYS) {
			memcpy(to, f.bytes.p, f.bytes.n);
			*s++ = (TccStr){to, f.bytes.n};
			to += f.bytes.n;
		}
	return 0;
}

static int number_keys(TccBytes in, uint64_t n, TccValue *v, TccErr *err)
{
	Field f;
	uint64_t k, i = 0;
	int rc = tcc_tensor_new(v, TCC_I64, 1, (int64_t[]){(int64_t)n}, err);
	while (!rc && in.n && next_field(&in, &f))
		if (f.number == M_KEYS)
			while (next_number(&f, VARINT, &k) && i < n)
				((int64_t *)v->u.tensor.data)[i++] = (int64_t)k;
	return rc;
}

/* The map's values, a sequence of tensors of one element each, as one vector. */
static int join_values(TccValue *seq, TccValue *v, TccErr *err)
{
	uint64_t n = seq->u.seq.n;
	int rc = tcc_tensor_new(v, n ? seq->dtype : TCC_F32, 1, (int64_t[]){(int64_t)n}, err);
	for (uint64_t i = 0; !rc && i < n; i++) {
		const TccValue *e = &seq->u.seq.items[i];
		uint64_t size = tcc_dtype_bits(seq->dtype) / 8;
		if (e->kind != TCC_TENSOR || e->dtype != seq->dtype || e->dtype == TCC_STRING || !size ||
		    tcc_tensor_count(&e->u.tensor) != 1)
			return tcc_fail(err, TCC_UNSUPPORTED, "only maps to single numbers are supported");
		memcpy((char *)v->u.tensor.data + i * size, e->u.tensor.data, size);
	}
	return rc;
}

static int read_map(TccBytes in, TccValue *v, int depth, TccErr *err)
{
	Field f;
	uint64_t strings = 0, bytes = 0, numbers = 0, k;
	TccBytes values = {0};
	if (depth > MAX_DEPTH)
		return bad(err, "it is nested too deeply");
	for (TccBytes rest = in; rest.n;) {
		if (!next_field(&rest, &f) ||
		    ((f.number == M_STRING_KEYS || f.number == M_VALUES) && f.type != LENGTH))
			return bad(err, "a map is damaged");
		if (f.number == M_STRING_KEYS)
			strings++, bytes += f.bytes.n;
		else if (f.number == M_VALUES)
			values = f.bytes;
		else if (f.number == M_KEYS)
			while (next_number(&f, VARINT, &k))
				numbers++;
	}
	TccValue seq = {0};
	int rc = tcc_map_new(v, TCC_NODTYPE, err);
	if (!rc)
		rc = strings ? string_keys(in, strings, bytes, v->u.map.keys, err)
		             : number_keys(in, numbers, v->u.map.keys, err);
	if (!rc)
		rc = read_sequence(values, &seq, depth + 1, err);
	if (!rc)
		rc = join_values(&seq, v->u.map.values, err);
	if (!rc && seq.u.seq.n != (strings ? strings : numbers))
		rc = bad(err, "a map has another number of keys than of values");
	v->dtype = seq.dtype;
	tcc_value_free(&seq);
	if (rc)
		tcc_value_free(v);
	return rc;
}

static int read_optional(TccBytes in, TccValue *v, TccErr *err)
{
	Field f;
	while (in.n) {
		if (!next_field(&in, &f) ||
		    (f.number >= O_TENSOR && f.number <= O_OPTIONAL && f.type != LENGTH))
			return bad(err, "an optional is damaged");
		switch (f.number) {
		case O_TENSOR: return read_tensor(f.bytes, v, err);
		case O_SEQUENCE: return read_sequence(f.bytes, v, 0, err);
		case O_MAP: return read_map(f.bytes, v, 0, err);
		}
	}
	return 0;
}

int tcc_pb_read(TccBytes in, const TccWant *want, TccValue *v, TccErr *err)
{
	*v = (TccValue){0};
	if (want->optional)
		return read_optional(in, v, err);
	switch (want->kind) {
	case TCC_SEQUENCE: return read_sequence(in, v, 0, err);
	case TCC_MAP: return read_map(in, v, 0, err);
	}
	return read_tensor(in, v, err);
}

/* --- writing ----------------------------------------------------------------------------- */

static void put_varint(TccBuf *b, uint64_t v)
{
	uint8_t bytes[10];
	int n = 0;
	do
		bytes[n++] = (v & 127) | (v > 127) << 7;
	while (v >>= 7);
	tcc_buf_add(b, bytes, n);
}

static void put_number(TccBuf *b, int field, uint64_t v)
{
	put_varint(b, (uint64_t)field << 3 | VARINT);
	put_varint(b, v);
}

static void put_bytes(TccBuf *b, int field, const void *p, uint64_t n)
{
	put_varint(b, (uint64_t)field << 3 | LENGTH);
	put_varint(b, n);
	tcc_buf_add(b, p, n);
}

static void put_message(TccBuf *b, int field, TccBuf *message)
{
	b->failed |= message->failed;
	put_bytes(b, field, message->p, message->n);
	tcc_buf_free(message);
}

static void put_tensor(TccBuf *b, const TccValue *v, const char *name)
{
	const TccTensor *t = &v->u.tensor;
	uint64_t n = tcc_tensor_count(t), bytes = 0;
	for (int i = 0; i < t->ndim; i++)
		put_number(b, T_DIMS, t->shape[i]);
	put_number(b, T_TYPE, v->dtype);
	if (name && *name)
		put_bytes(b, T_NAME, name, strlen(name));
	if (v->dtype == TCC_STRING) {
		const TccStr *s = tcc_tensor_data(t);
		for (uint64_t i = 0; i < n; i++)
			put_bytes(b, T_STRING, s[i].data, s[i].size);
		return;
	}
	tcc_tensor_size(v->dtype, t->ndim, t->shape, NULL, &bytes);
	put_varint(b, T_RAW << 3 | LENGTH);
	put_varint(b, bytes);
	uint8_t *to = tcc_buf_add(b, NULL, bytes);
	if (to)
		tcc_compact(to, t);
}

static void put_sequence(TccBuf *b, const TccValue *v, const char *name);

static void put_map(TccBuf *b, const TccValue *v)
{
	const TccValue *keys = v->u.map.keys, *values = v->u.map.values;
	uint64_t n = tcc_tensor_count(&keys->u.tensor), size = tcc_dtype_bits(values->dtype) / 8;
	TccBuf seq = {0};
	put_number(b, M_KEY_TYPE, keys->dtype);
	for (uint64_t i = 0; i < n; i++) {
		const TccStr *s = tcc_tensor_data(&keys->u.tensor);
		if (keys->dtype == TCC_STRING)
			put_bytes(b, M_STRING_KEYS, s[i].data, s[i].size);
		else
			put_number(b, M_KEYS, tcc_element_int(keys->dtype, s, i));
	}
	put_number(&seq, S_TYPE, ELEM_TENSOR);
	for (uint64_t i = 0; i < n; i++) {
		TccBuf one = {0};
		TccValue e = {.kind = TCC_TENSOR, .dtype = values->dtype};
		char *data = tcc_tensor_data(&values->u.tensor);
		tcc_tensor_set(&e.u.tensor, values->dtype, 0, NULL, data + i * size);
		put_tensor(&one, &e, NULL);
		put_message(&seq, S_TENSORS, &one);
	}
	put_message(b, M_VALUES, &seq);
}

static void put_sequence(TccBuf *b, const TccValue *v, const char *name)
{
	uint32_t kind = v->u.seq.n ? v->u.seq.items[0].kind : TCC_TENSOR;
	if (name && *name)
		put_bytes(b, S_NAME, name, strlen(name));
	put_number(b, S_TYPE, kind == TCC_MAP ? ELEM_MAP : kind == TCC_SEQUENCE ? ELEM_SEQUENCE
	                                                                        : ELEM_TENSOR);
	for (uint64_t i = 0; i < v->u.seq.n; i++) {
		const TccValue *e = &v->u.seq.items[i];
		TccBuf one = {0};
		if (e->kind == TCC_MAP)
			put_map(&one, e);
		else if (e->kind == TCC_SEQUENCE)
			put_sequence(&one, e, NULL);
		else if (e->kind == TCC_TENSOR)
			put_tensor(&one, e, NULL);
		put_message(b, e->kind == TCC_MAP ? S_MAPS : e->kind == TCC_SEQUENCE ? S_SEQUENCES
		                                                                     : S_TENSORS, &one);
	}
}

int tcc_pb_write(const TccValue *v, const char *name, TccBuf *out, TccErr *err)
{
	switch (v->kind) {
	case TCC_TENSOR: put_tensor(out, v, name); break;
	case TCC_SEQUENCE: put_sequence(out, v, name); break;
	case TCC_MAP: put_map(out, v); break;
	default: put_number(out, O_TYPE, ELEM_NONE);    /* an empty OptionalProto */
	}
	return out->failed ? tcc_no_memory(err, out->n) : 0;
}
