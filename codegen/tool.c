/* Running compilers: a temporary folder, processes side by side, their output. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/tool.h"

#include <fcntl.h>      /* last: its macro O_TRUNC */

int work_open(Work *w, Module *m)
{
	const char *t = getenv("TMPDIR");

	w->m = m;
	w->dir = arena_printf(m->arena, "%s/tcc-ml-XXXXXX", t && *t ? t : "/tmp");
	if (mkdtemp(w->dir))
		return X_OK;
	diag_error(m->diag, X_TOOL, NULL, "cannot make a folder like %s: %s", w->dir, strerror(errno));
	w->dir = NULL;
	return X_TOOL;
}

static void remove_all(const Work *w, const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		char *p = arena_printf(w->m->arena, "%s/%s", dir, e->d_name);
		struct stat s;
		if (lstat(p, &s) == 0 && S_ISDIR(s.st_mode))
			remove_all(w, p);
		else
			unlink(p);
	}
	if (d)
		closedir(d);
	rmdir(dir);
}

void work_close(Work *w)
{
	if (w->dir)
		remove_all(w, w->dir);
	w->dir = NULL;
}

const char *work_path(const Work *w, const char *name)
{
	return arena_printf(w->m->arena, "%s/%s", w->dir, name);
}

int work_write(const Work *w, const char *name, const void *data, size_t size)
{
	const char *path = work_path(w, name);
	char *slash = strrchr(name, '/');

	if (slash)
		mkdir(work_path(w, arena_printf(w->m->arena, "%.*s", (int)(slash - name), name)), 0777);
	if (write_file(path, data, size) == 0)
		return X_OK;
	diag_error(w->m->diag, X_TOOL, NULL, "cannot write %s: %s", path, strerror(errno));
	return X_TOOL;
}

void command_add(Command *c, const char *arg)
{
	if (c->argc < (int)(sizeof c->argv / sizeof *c->argv) - 1)
		c->argv[c->argc++] = arg;
}

void command_add_words(Command *c, Module *m, const char *words)
{
	while (*(words += strspn(words, " ")) != '\0') {
		int n = (int)strcspn(words, " ");
		command_add(c, arena_printf(m->arena, "%.*s", n, words));
		words += n;
	}
}

const char *tool_cc(void)
{
	const char *cc = getenv("CC");
	return cc && cc[strspn(cc, " ")] ? cc : "cc";
}

char *file_read(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	char *p = NULL;
	long n;

	if (f && fseek(f, 0, SEEK_END) == 0 && (n = ftell(f)) >= 0 && fseek(f, 0, SEEK_SET) == 0 &&
			(p = malloc((size_t)n + 1))) {
		if (fread(p, 1, (size_t)n, f) != (size_t)n) {
			free(p);
			p = NULL;
		} else {
			p[n] = 0;
			if (size)
				*size = (size_t)n;
		}
	}
	if (f)
		fclose(f);
	return p;
}

bool tool_found(const char *name)
{
	const char *p = getenv("PATH");
	char path[4096];

	if (strchr(name, '/'))
		return access(name, X_OK) == 0;
	for (; p && *p; p += strcspn(p, ":"), p += *p == ':') {
		snprintf(path, sizeof path, "%.*s/%s", (int)strcspn(p, ":"), p, name);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

static const char *log_path(const Work *w, int k)
{
	return arena_printf(w->m->arena, "%s/log%d", w->dir, k);
}

static pid_t start(const Command *c, const char *log)
{
	pid_t self = getpid(), pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != self)
		_exit(127);
	int out = open(log, O_CREAT | O_WRONLY | O_TRUNC, 0666), in = open("/dev/null", O_RDONLY);
	if (out >= 0) {
		dup2(out, 1);
		dup2(out, 2);
	}
	if (in >= 0)
		dup2(in, 0);
	execvp(c->argv[0], (char *const *)c->argv);
	dprintf(2, "%s: %s\n", c->argv[0], strerror(errno));
	_exit(127);
}

static void report(Diag *d, const Command *c)
{
	const char *out = c->output ? c->output : "";

	if (c->status == 0 || c->quiet)
		return;
	if (c->status == 127)
		diag_error(d, X_TOOL, NULL, "%s: cannot run %s (tcc-ml doctor says how to install it)",
			c->what, c->argv[0]);
	else
		diag_error(d, X_TOOL, NULL, "%s: %s failed with status %d:\n%.2000s", c->what, c->argv[0],
			c->status, out);
}

int commands_run(const Work *w, Command *c, int n, int jobs)
{
	pid_t *pid = calloc((size_t)n + 1, sizeof *pid);
	int next = 0, live = 0, code = X_OK, status;

	if (!pid)
		abort();
	for (int k = 0; k < n; k++)
		c[k].status = 127;
	while (next < n || live > 0) {
		if (next < n && live < (jobs > 0 ? jobs : 1)) {
			pid[next] = start(&c[next], log_path(w, next));
			live += pid[next] > 0;
			next++;
			continue;
		}
		/* only ours: the caller may have other children */
		for (int k = 0; k < next; k++)
			if (pid[k] > 0) {
				pid_t r = waitpid(pid[k], &status, 0);
				if (r < 0 && errno == EINTR)
					break;
				c[k].status = r < 0 ? 127 : WIFEXITED(status) ? WEXITSTATUS(status) : 128;
				pid[k] = 0;
				live--;
				break;
			}
	}
	for (int k = 0; k < n; k++) {
		c[k].output = file_read(log_path(w, k), NULL);
		report(w->m->diag, &c[k]);
		if (c[k].status)
			code = X_TOOL;
	}
	free(pid);
	return code;
}

void commands_free(Command *c, int n)
{
	for (int k = 0; k < n; k++)
		free(c[k].output);
}
