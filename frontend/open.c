/* From a file to a checked model: decode, check, inline. */
/* First: fcntl.h and unistd.h define O_TRUNC and X_OK, which ir.h has as enumerators. */
#include "frontend/frontend.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static OnnxModel *finish(OnnxModel *om)
{
	if (!om)
		return NULL;
	bool ok = om->diag->errors == 0;
	ok = onnx_check(om) && ok && onnx_inline(om);
	if (ok)
		return om;
	onnx_close(om);
	return NULL;
}

OnnxModel *onnx_read(Module *m, const uint8_t *bytes, size_t size, const char *dir)
{
	return finish(onnx_decode(m, bytes, size, dir, NULL));
}

static const char *folder(Module *m, const char *path)
{
	const char *slash = strrchr(path, '/');

	return !slash ? "." : slash == path ? "/"
		: arena_printf(m->arena, "%.*s", (int)(slash - path), path);
}

/* The whole file, mapped; false after reporting. */
static bool map_file(Module *m, const char *path, void **at, size_t *size)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		diag_error(m->diag, X_INVALID, NULL, "cannot read the model: %s",
			fd < 0 ? strerror(errno) : S_ISDIR(st.st_mode) ? "it is a folder"
			: "not a regular file");
		if (fd >= 0)
			close(fd);
		return false;
	}
	*size = (size_t)st.st_size;
	*at = *size ? mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
	close(fd);
	if (*at == MAP_FAILED)
		diag_error(m->diag, X_INVALID, NULL, "cannot read the model: %s", strerror(errno));
	return *at != MAP_FAILED;
}

OnnxModel *onnx_open(Module *m, const char *path)
{
	void *at;
	size_t size;

	if (!map_file(m, path, &at, &size))
		return NULL;
	OnnxModel *om = onnx_decode(m, at, size, folder(m, path), path);
	if (at)
		munmap(at, size);
	return finish(om);
}

void onnx_close(OnnxModel *om)
{
	if (om)
		extern_close(om);
}
