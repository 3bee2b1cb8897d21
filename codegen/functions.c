/* A user's operators in C (--op-library): their sources compiled, their files for who links. */
#include <stdlib.h>
#include <string.h>
#include "embed.h"
#include "tool.h"

static bool
ends(const char *s, const char *tail)
{
	size_t n = strlen(s), k = strlen(tail);

	return n >= k && strcmp(s + n - k, tail) == 0;
}

bool
function_shared(const char *path)
{
	return ends(path, ".so");
}

static int
write_abi(const Work *w)
{
	const struct tcc_embed *e;

	for (e = tcc_embed; e->name && strcmp(e->name, "runtime/abi.h") != 0; e++)
		;
	return e->name ? work_write(w, "tcc-ml/abi.h", e->data, e->size) : X_BUG;
}

static int
compiled(const Work *w, Job *job, const char *cc, const char *source, const char *object)
{
	Module *m = job->m;
	Command c = {.what = source};
	int r;

	command_add_words(&c, m, cc);
	command_add(&c, arena_printf(m->arena, "-O%d", job->level));
	command_add(&c, "-fPIC");
	command_add(&c, "-g0");
	command_add(&c, arena_printf(m->arena, "-I%s", w->dir));
	command_add(&c, "-c");
	command_add(&c, source);
	command_add(&c, "-o");
	command_add(&c, object);
	r = write_abi(w);
	if (!r)
		r = commands_run(w, &c, 1, 1);
	commands_free(&c, 1);
	return r;
}

int
functions_files(const Work *w, Job *job, const char *cc, Vec *paths)
{
	Module *m = job->m;
	int i, k, n, first = paths->n, r = X_OK;
	const Function *const *list = plan_functions(m, &n);
	const char **seen = NEWN(m, const char *, n + 1), *path;

	for (i = 0; list && i < n && !r; i++) {
		for (k = 0; k < i && strcmp(seen[k], list[i]->file) != 0; k++)
			;
		seen[i] = path = list[i]->file;
		if (k < i)
			continue;
		if (ends(path, ".c")) {
			path = work_path(w, arena_printf(m->arena, "function_%d.o", paths->n - first));
			r = compiled(w, job, cc, list[i]->file, path);
		}
		vec_push(m, paths, (void *)path);
	}
	return list ? r : X_INVALID;
}
