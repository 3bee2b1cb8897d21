/* Reading values, types, locations, constants and attributes. */
#include <fcntl.h>
enum { OPEN_READ = O_RDONLY | O_CLOEXEC };
#undef O_TRUNC                 /* open(2)'s; ours is an operation */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "ir/parse.h"

/* ---- values, types ------------------------------------------------------------------------- */

/* %name, %name.0 */
Node *ps_value(P *p)
{
	if (p->tok != T_VALUE)
		ps_bad(p, "a value is expected");
	Node *n = ps_lookup(p, &p->values, p->str);
	if (!n)
		ps_bad(p, "there is no value %%%s here", p->str);
	while (*p->s == '.' && isdigit((unsigned char)p->s[1])) {
		int64_t k = 0;
		for (p->s++; isdigit((unsigned char)*p->s) && k < MAX_LIST; p->s++)
			k = k * 10 + (*p->s - '0');
		if (n->type->kind != T_TUPLE || k >= n->type->rank)
			ps_bad(p, "there is no result %lld", (long long)k);
		Node *r = t_result(p->m, n, (int)k);
		if (!r)
			ps_bad(p, "result %lld is absent", (long long)k);
		n = r;
	}
	ps_next(p);
	return n;
}

Node *ps_optional_value(P *p)
{
	if (p->tok == T_WORD && !strcmp(p->str, "_")) {
		ps_next(p);
		return NULL;
	}
	return ps_value(p);
}


static const Type *tensor_type(P *p, DType d, bool loose)
{
	Node *dims[MAX_RANK];
	int n = 0;
	if (p->inner && (ps_is(p, "*") || ps_is(p, "!"))) {
		n = ps_is(p, "*") ? -1 : -2;
		ps_next(p);
		ps_want(p, "]");
		return ty_tensor(p->m, d, n, NULL);
	}
	while (!ps_is(p, "]")) {
		if (n == MAX_RANK)
			ps_bad(p, "more than %d dimensions", MAX_RANK);
		if (loose && ps_eat(p, "?"))
			dims[n] = p->any;
		else
			dims[n] = ps_index_expr(p);
		int64_t v;
		if (is_int(dims[n++], &v) && v < (p->inner ? -1 : 0))
			ps_bad(p, "a dimension is negative");
		if (!ps_eat(p, ","))
			break;
	}
	ps_want(p, "]");
	return ty_tensor(p->m, d, n, dims);
}

static const Type *tuple_type(P *p, bool loose)
{
	const Type **elem = NULL;
	int n = 0, cap = 0;
	while (!ps_is(p, ")")) {
		if (n == cap) {
			const Type **old = elem;
			if (n == MAX_LIST)
				ps_bad(p, "too many results");
			elem = NEWN(p->m, const Type *, cap = cap ? cap * 2 : 8);
			if (n)
				memcpy(elem, old, sizeof *elem * (size_t)n);
		}
		elem[n++] = ps_type(p, loose);
		if (!ps_eat(p, ","))
			break;
	}
	ps_want(p, ")");
	return ty_tuple(p->m, n, elem);
}

const Type *ps_type(P *p, bool loose)
{
	const Type *t;
	DType d = DT_NONE;
	ps_deeper(p);
	if (ps_eat(p, "(")) {
		t = tuple_type(p, loose);
	} else if (ps_eat(p, "void")) {
		t = ty_of(p->m, T_VOID, DT_NONE, NULL);
	} else if (ps_is(p, "seq") || ps_is(p, "optional") || ps_is(p, "map")) {
		TypeKind k = ps_is(p, "seq") ? T_SEQ : ps_is(p, "map") ? T_MAP : T_OPTIONAL;
		ps_next(p);
		ps_want(p, "<");
		if (k == T_MAP) {
			d = ps_dtype(p);
			ps_want(p, ",");
		}
		p->inner++;
		const Type *e = ps_is(p, ">") ? NULL : ps_type(p, loose);
		p->inner--;
		/* ">>" ends two */
		if (p->tok == T_PUNCT && !strcmp(p->punct, ">>")) {
			p->punct[1] = 0;
			p->start++;
		} else {
			ps_want(p, ">");
		}
		t = ty_of(p->m, k, d, e);
	} else {
		d = ps_dtype(p);
		t = ps_eat(p, "[") ? tensor_type(p, d, loose) : ty_scalar(p->m, d);
	}
	p->depth--;
	return t;
}

/* Is the stated type that of the operator? Dimensions are compared where both are numbers. */
bool ps_agree(P *p, const Type *a, const Type *b)
{
	if (a->kind != b->kind || a->dtype != b->dtype || a->rank != b->rank)
		return false;
	for (int i = 0; a->kind == T_TENSOR && i < a->rank; i++) {
		int64_t x, y;
		if (a->dims[i] != p->any && is_int(a->dims[i], &x) && is_int(b->dims[i], &y) && x != y)
			return false;
	}
	for (int i = 0; a->elem && b->elem && i < a->rank; i++)
		if (!ps_agree(p, a->elem[i], b->elem[i]))
			return false;
	return true;
}

const Loc *ps_location(P *p)
{
	const Loc *first = NULL, **tail = &first;
	if (!ps_is(p, "loc"))
		return NULL;
	ps_next(p);
	ps_want(p, "(");
	do {
		const char *name = ps_string(p), *kind = NULL;
		int index = -1;
		if (ps_eat(p, ",")) {
			if (p->tok == T_NUM) {
				index = ps_small(p, 0, INT32_MAX);
			} else {
				kind = p->tok == T_STR ? ps_string(p) : ps_word(p, "an operator's name");
				if (ps_eat(p, ","))
					index = ps_small(p, 0, INT32_MAX);
			}
		}
		Loc *l = (Loc *)loc_new(p->m, name, kind, index);
		*tail = l;
		tail = &l->next;
	} while (ps_eat(p, ";"));
	ps_want(p, ")");
	return first;
}

/* ---- constants ----------------------------------------------------------------------------- */

static int digit64(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26
		: c >= '0' && c <= '9' ? c - '0' + 52 : c == '+' ? 62 : c == '/' ? 63 : -1;
}

static void base64(P *p, Data *d)
{
	if (p->tok != T_STR)
		ps_bad(p, "base64 digits in quotes are expected");
	const char *s = p->str;
	size_t len = strlen(s), n = 0;
	uint8_t *out = (uint8_t *)d->bytes;
	if (len != (d->size + 2) / 3 * 4)
		ps_bad(p, "%zu bytes of base64 are expected", d->size);
	for (size_t i = 0; i < len; i += 4) {
		uint32_t v = 0;
		int pad = 0;
		for (int k = 0; k < 4; k++) {
			int x = digit64(s[i + k]);
			if (x < 0 && (s[i + k] != '=' || i + 4 < len || k < 2))
				ps_bad(p, "'%c' is no digit of base64", s[i + k]);
			pad += x < 0;
			v = v << 6 | (x < 0 ? 0 : (uint32_t)x);
		}
		for (int k = 0; k < 3 - pad && n < d->size; k++)
			out[n++] = (uint8_t)(v >> (16 - 8 * k));
	}
	if (n != d->size)
		ps_bad(p, "%zu bytes of base64 are expected, there are %zu", d->size, n);
	ps_next(p);
}

/* The bytes lie in a file beside this one; it stays mapped. */
static void map_file(P *p, const char *name)
{
	if (p->mapped_name && !strcmp(name, p->mapped_name))
		return;
	if (strchr(name, '/') || !strcmp(name, "..") || !*name || !p->file)
		ps_bad(p, "the data file '%s' must lie beside the text", name);
	const char *slash = strrchr(p->file, '/');
	const char *path = slash ? arena_printf(p->m->arena, "%.*s/%s", (int)(slash - p->file), p->file,
		name) : name;
	int fd = open(path, OPEN_READ);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size == 0) {
		if (fd >= 0)
			close(fd);
		ps_bad(p, "cannot read the data file '%s'", path);
	}
	void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		ps_bad(p, "cannot map the data file '%s'", path);
	p->mapped_name = name;
	p->mapped = at;
	p->mapped_size = (size_t)st.st_size;
}

static void number_into(P *p, Data *d, DType t, int64_t k)
{
	Num n;
	if (t == DT_BOOL) {
		n.i = ps_is(p, "true");
		if (!ps_is(p, "true") && !ps_is(p, "false"))
			ps_bad(p, "true or false is expected");
		ps_next(p);
	} else if (dt_float(t)) {
		bool minus = ps_eat(p, "-");
		Node *s = ps_special(p, minus);
		if (!s && p->tok != T_NUM)
			ps_bad(p, "a number is expected");
		n = s ? s->num : num_round(t, (minus ? -1 : 1) * strtod(p->str, NULL));
		if (!s)
			ps_next(p);
	} else {
		bool minus = ps_eat(p, "-");
		if (p->tok != T_NUM || p->is_float || p->suffix)
			ps_bad(p, "an integer is expected");
		n.i = ps_digits(p, minus, t == DT_U64 && !minus);
		if (num_cast(t, DT_I64, n).i != n.i)
			ps_bad(p, "%s does not fit %s", p->str, dtypes[t].text);
		ps_next(p);
	}
	data_set((void *)d->bytes, t, k, n);
}

static Data *data_list(P *p, DType t, int64_t count)
{
	int64_t k = 0;
	if (count > MAX_LIST)
		ps_bad(p, "too many elements for a list");
	Data *d = data_new(p->m, t, count, NULL);
	for (; !ps_is(p, "}"); k++) {
		if (k == count)
			ps_bad(p, "%lld elements are expected", (long long)count);
		if (t == DT_STRING)
			d->strings[k] = ps_string(p);
		else
			number_into(p, d, t, k);
		if (!ps_eat(p, ","))
			k++, (void)0;
		else
			continue;
		break;
	}
	if (k != count)
		ps_bad(p, "%lld elements are expected, there are %lld", (long long)count, (long long)k);
	ps_want(p, "}");
	return d;
}

Data *ps_payload(P *p, DType t, int64_t count)
{
	int64_t bits;
	if (!mul_ok(count, dtypes[t].bits ? dtypes[t].bits : 1, &bits) || count < 0)
		ps_bad(p, "the constant is too large");
	size_t size = (size_t)((uint64_t)(bits + 7) / 8);
	if (ps_eat(p, "{"))
		return data_list(p, t, count);
	if (t == DT_STRING)
		ps_bad(p, "strings are expected");
	if (ps_eat(p, "base64")) {
		if (p->tok != T_STR || strlen(p->str) / 4 * 3 + 3 < size)
			ps_bad(p, "%zu bytes of base64 are expected", size);
		Data *d = data_new(p->m, t, count, NULL);
		base64(p, d);
		return d;
	}
	if (ps_eat(p, "file")) {
		const char *name = ps_string(p);
		int64_t offset = ps_integer(p), stated = ps_integer(p);
		map_file(p, name);
		if (offset < 0 || stated != (int64_t)size || (uint64_t)offset > p->mapped_size ||
				size > p->mapped_size - (size_t)offset)
			ps_bad(p, "%zu bytes at %lld do not lie in '%s'", size, (long long)offset, name);
		return data_new(p->m, t, count, p->mapped + offset);
	}
	if (ps_is(p, "elided"))
		ps_bad(p, "this constant was left out of the dump: dump into a folder to keep it");
	ps_bad(p, "the constant's elements are expected");
}

Node *ps_constant(P *p)
{
	int64_t dims[MAX_RANK], count = 1;
	ps_next(p);
	const Type *t = ps_type(p, false);
	if (t->kind != T_TENSOR)
		ps_bad(p, "a tensor type is expected");
	for (int i = 0; i < t->rank; i++)
		if (!is_int(t->dims[i], &dims[i]) || !mul_ok(count, dims[i], &count))
			ps_bad(p, "a constant's dimensions are numbers");
	const Attr *with = ps_eat(p, "with") ? ps_attributes(p, NULL) : NULL;
	Node *n = t_const(p->m, t->dtype, t->rank, dims, ps_payload(p, t->dtype, count));
	return with ? node_with(p->m, n, with) : n;
}

/* ---- attributes ---------------------------------------------------------------------------- */

double ps_real(P *p)
{
	bool minus = ps_eat(p, "-");
	double v;
	if (ps_is(p, "inf") || ps_is(p, "nan"))
		v = ps_is(p, "inf") ? INFINITY : NAN;
	else if (p->tok == T_NUM && !p->suffix)
		v = strtod(p->str, NULL);
	else
		ps_bad(p, "a number is expected");
	ps_next(p);
	return minus ? -v : v;
}

/* Does a number with a fraction stand here? */
static bool at_real(P *p)
{
	const char *s = p->s;
	if (!ps_is(p, "-"))
		return ps_is(p, "inf") || ps_is(p, "nan") || (p->tok == T_NUM && p->is_float);
	s += strspn(s, " ");
	if (!strncmp(s, "inf", 3) || !strncmp(s, "nan", 3))
		return true;
	s += strspn(s, "0123456789");
	return *s == '.' || *s == 'e';
}

static void attr_list(P *p, Attr *a, int known)
{
	int64_t *is_ = NULL;
	double *fs = NULL;
	const char **ss = NULL;
	int cap = 0;
	a->kind = known >= 0 ? (AttrKind)known : p->tok == T_STR ? A_STRS
		: at_real(p) ? A_FLOATS : A_INTS;
	while (!ps_is(p, "]")) {
		if (a->n == cap) {
			int64_t *i0 = is_;
			double *f0 = fs;
			const char **s0 = ss;
			if (a->n >= MAX_LIST)
				ps_bad(p, "the list is too long");
			cap = cap ? cap * 2 : 8;
			is_ = NEWN(p->m, int64_t, cap);
			fs = NEWN(p->m, double, cap);
			ss = NEWN(p->m, const char *, cap);
			if (a->n) {
				memcpy(is_, i0, sizeof *is_ * (size_t)a->n);
				memcpy(fs, f0, sizeof *fs * (size_t)a->n);
				memcpy(ss, s0, sizeof *ss * (size_t)a->n);
			}
		}
		if (a->kind == A_STRS)
			ss[a->n++] = ps_string(p);
		else if (a->kind == A_FLOATS)
			fs[a->n++] = ps_real(p);
		else
			is_[a->n++] = ps_integer(p);
		if (!ps_eat(p, ","))
			break;
	}
	ps_want(p, "]");
	a->is = a->kind == A_INTS ? is_ ? is_ : NEWN(p->m, int64_t, 1) : NULL;
	a->fs = a->kind == A_FLOATS ? fs ? fs : NEWN(p->m, double, 1) : NULL;
	a->ss = a->kind == A_STRS ? ss ? ss : NEWN(p->m, const char *, 1) : NULL;
}

static int stated_kind(const Op *op, const char *name)
{
	const Sig *s = op && op->code == O_GRAPH && op->sig ? op_sig(op) : NULL;
	for (int i = 0; s && i < s->nattrs; i++)
		if (!strcmp(s->attrs[i].name, name))
			return (int)s->attrs[i].kind;
	return -1;
}

static Attr attribute(P *p, const Op *op)
{
	Attr a = { .name = p->tok == T_STR ? ps_string(p) : ps_word(p, "an attribute's name") };
	int kind = stated_kind(op, a.name);
	ps_want(p, "=");
	if (p->tok == T_STR) {
		a.kind = A_STR;
		a.s = ps_string(p);
	} else if (p->tok == T_VALUE) {
		a.kind = A_TENSOR;
		a.t = ps_value(p);
	} else if (ps_eat(p, "type")) {
		a.kind = A_TYPE;
		a.type = ps_type(p, false);
	} else if (ps_eat(p, "[")) {
		bool list = kind == A_INTS || kind == A_FLOATS || kind == A_STRS;
		attr_list(p, &a, list && !ps_is(p, "]") ? (p->tok == T_STR) == (kind == A_STRS) ? kind : -1
			: list ? kind : -1);
	} else if (ps_is(p, "ints") || ps_is(p, "floats") || ps_is(p, "strs")) {
		int k = ps_is(p, "ints") ? A_INTS : ps_is(p, "floats") ? A_FLOATS : A_STRS;
		ps_next(p);
		ps_want(p, "[");
		attr_list(p, &a, k);
	} else if (kind == A_FLOAT || at_real(p)) {
		a.kind = A_FLOAT;
		a.f = ps_real(p);
	} else {
		a.kind = A_INT;
		a.i = ps_integer(p);
	}
	return a;
}

const Attr *ps_attributes(P *p, const Op *op)
{
	const Attr *list = NULL;
	int n = 0;
	if (!ps_eat(p, "{"))
		return NULL;
	while (!ps_is(p, "}")) {
		Attr a = attribute(p, op);
		if (attr_find(list, a.name) || ++n > 256)
			ps_bad(p, "attribute '%s' is stated twice", a.name);
		list = attrs_add(p->m, list, a);
		if (!ps_eat(p, ","))
			break;
	}
	ps_want(p, "}");
	return list;
}
