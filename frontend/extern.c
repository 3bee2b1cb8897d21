/*
 * External data: files beside the model, mapped once each. A location is relative and must end,
 * all links resolved, in the model's own folder (or in the folder of the file that the model is a
 * link to: download caches keep both that way).
 */
/* First: fcntl.h and unistd.h define O_TRUNC and X_OK, which ir.h has as enumerators. */
#include "frontend/frontend.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct OnnxFile {
	const char *location;   /* interned */
	void *at;               /* NULL if empty or bad */
	size_t size;
	bool ok;
} OnnxFile;

#define BAD(om, ...) (diag_error((om)->diag, X_INVALID, NULL, __VA_ARGS__), false)

static const OnnxBytes *entry(const TensorFields *f, const char *key)
{
	for (size_t i = 0; i < f->next; i++)
		if (f->ext[i].key.n == strlen(key) && !memcmp(f->ext[i].key.p, key, f->ext[i].key.n))
			return &f->ext[i].value;
	return NULL;
}

/* A decimal number; true and *v unchanged if the entry is missing. */
static bool number(OnnxModel *om, const TensorFields *f, const char *key, uint64_t *v)
{
	const OnnxBytes *b = entry(f, key);
	uint64_t n = 0;
	bool ok = b && b->n > 0;

	if (!b)
		return true;
	for (size_t i = 0; ok && i < b->n; i++)
		ok = b->p[i] >= '0' && b->p[i] <= '9' && !__builtin_mul_overflow(n, 10u, &n)
			&& !__builtin_add_overflow(n, (uint64_t)(b->p[i] - '0'), &n);
	if (!ok || n > INT64_MAX)
		return BAD(om, "%s: external data's %s is not a number of bytes: \"%.*s\"", f->what, key,
			(int)(b->n < 40 ? b->n : 40), b->p);
	*v = n;
	return true;
}

static bool within(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return !strncmp(path, dir, n) && (path[n] == '/' || (n == 1 && path[n]));
}

/* The folder that the model file itself lies in once its links are followed; malloc'ed. */
static char *home(const OnnxModel *om)
{
	char *real = om->path ? realpath(om->path, NULL) : NULL;
	char *slash = real ? strrchr(real, '/') : NULL;

	if (slash)
		slash[slash == real] = 0;
	return real;
}

/* Do its ".." lead out, links aside? Asked first, so that nothing outside is even looked at. */
static bool climbs(const char *location)
{
	int depth = 0;

	for (const char *s = location; *s && depth >= 0;) {
		size_t n = strcspn(s, "/");
		depth += n == 2 && !memcmp(s, "..", 2) ? -1 : n == 0 || (n == 1 && *s == '.') ? 0 : 1;
		s += n;
		s += strspn(s, "/");
	}
	return depth < 0;
}

/* The real path of a location within the model's folder, malloc'ed; NULL after reporting. */
static char *resolve(OnnxModel *om, const TensorFields *f, const char *location)
{
	char *base = realpath(om->dir, NULL), *own = home(om), *real = NULL;

	if (base) {
		real = realpath(arena_printf(om->m->arena, "%s/%s", base, location), NULL);
		if (!real && errno != ENOENT)
			diag_error(om->diag, X_INVALID, NULL, "%s: external data file \"%s\": %s", f->what,
				location, strerror(errno));
		else if (!real)
			diag_error(om->diag, X_INVALID, NULL, "%s: external data file \"%s\" does not exist",
				f->what, location);
		else if (!within(real, base) && !(own && within(real, own))) {
			diag_error(om->diag, X_INVALID, NULL, "%s: external data path \"%s\" leaves the "
				"model folder", f->what, location);
			free(real);
			real = NULL;
		}
	}
	free(base);
	free(own);
	return real;
}

static bool map(OnnxModel *om, const TensorFields *f, const char *path, OnnxFile *file)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		diag_error(om->diag, X_INVALID, NULL, "%s: external data file \"%s\": %s", f->what,
			file->location, fd < 0 ? strerror(errno) : "not a regular file");
		if (fd >= 0)
			close(fd);
		return false;
	}
	file->size = (size_t)st.st_size;
	if (file->size)
		file->at = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (file->at == MAP_FAILED) {
		file->at = NULL;
		return BAD(om, "%s: external data file \"%s\": %s", f->what, file->location,
			strerror(errno));
	}
	return true;
}

/* Each file is opened, and complained about, once. */
static OnnxFile *file_of(OnnxModel *om, const TensorFields *f, const char *location)
{
	OnnxFile *file = names_get(&om->files, location);

	if (file)
		return file;
	file = NEW(om->m, OnnxFile);
	file->location = location;
	names_put(om->m, &om->files, location, file);
	char *path = resolve(om, f, location);
	file->ok = path && map(om, f, path, file);
	free(path);
	return file;
}

static const char *location_of(OnnxModel *om, const TensorFields *f)
{
	const OnnxBytes *b = entry(f, "location");
	const char *s = b ? onnx_name(om, *b, "an external data location") : "";

	if (!s)
		return NULL;
	if (!*s)
		diag_error(om->diag, X_INVALID, NULL, "%s: external data without a location", f->what);
	else if (*s == '/')
		diag_error(om->diag, X_INVALID, NULL, "%s: external data path must be relative: %s",
			f->what,
			s);
	else if (climbs(s))
		diag_error(om->diag, X_INVALID, NULL, "%s: external data path \"%s\" leaves the model "
			"folder", f->what, s);
	else if (!om->dir)
		diag_error(om->diag, X_INVALID, NULL, "%s: external data, but the model has no folder",
			f->what);
	else
		return s;
	return NULL;
}

bool extern_data(OnnxModel *om, const TensorFields *f, size_t need, OnnxTensor *t)
{
	const char *location = location_of(om, f);
	uint64_t offset = 0, length = need;

	if (!location || !number(om, f, "offset", &offset) || !number(om, f, "length", &length))
		return false;
	if (length == 0)
		length = need;   /* some exporters write 0 for "all of it" */
	if (length != need)
		return BAD(om, "%s: external data of length %" PRIu64 ", but %" PRId64 " %s need %zu bytes",
			f->what, length, t->count, onnx_type_name(t->type), need);
	OnnxFile *file = file_of(om, f, location);
	if (!file->ok)
		return false;
	if (offset > file->size || need > file->size - offset)
		return BAD(om, "%s needs bytes %" PRIu64 "..%" PRIu64 " of \"%s\", which has %zu", f->what,
			offset, offset + need, location, file->size);
	if (need) {
		t->data = (const uint8_t *)file->at + offset;
		t->file = location;
		t->offset = (int64_t)offset;
	}
	return true;
}

void extern_close(OnnxModel *om)
{
	for (int i = 0; i < om->files.cap; i++) {
		OnnxFile *f = om->files.val[i];
		if (f && f->at)
			munmap(f->at, f->size);
	}
	om->files = (Names){ 0 };
}
