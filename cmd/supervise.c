/*
 * A command in a process of its own. The parent waits for it, within the limits that were given,
 * says what a crash means, and removes the folder of intermediate files however the child ended.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cmd.h"

/* Shared with the child. */
typedef struct Watch {
	char phase[256];
	char folders[8][512];  /* that go in the end; the first is the child's TMPDIR */
} Watch;

/* The signals that ask us to end. Both processes hold them back while a folder is made and noted;
 * the parent does so all the time, and takes them one by one. */
static const int ends[] = {SIGINT, SIGTERM, SIGHUP, 0};

static void
hold(sigset_t *old)
{
	sigset_t set;
	int i;

	sigemptyset(&set);
	for (i = 0; ends[i]; i++)
		sigaddset(&set, ends[i]);
	sigprocmask(SIG_BLOCK, &set, old);
}

void
phase(const Options *o, const char *fmt, ...)
{
	va_list ap;

	if (!o->watch)
		return;
	va_start(ap, fmt);
	vsnprintf(o->watch->phase, sizeof o->watch->phase, fmt, ap);
	va_end(ap);
}

/* ---- folders ------------------------------------------------------------------------------- */

void
remove_tree(const char *path)
{
	struct dirent *e;
	struct stat st;
	char sub[4096];
	DIR *d;

	if (lstat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
		unlink(path);
		return;
	}
	d = opendir(path);
	while (d && (e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) {
			snprintf(sub, sizeof sub, "%s/%s", path, e->d_name);
			remove_tree(sub);
		}
	if (d)
		closedir(d);
	rmdir(path);
}

bool
scratch_folder(const Options *o, char *path, size_t size)
{
	size_t n = strlen(path);
	sigset_t old;
	bool made;
	int i;

	for (i = 0; o->watch && i < 7 && o->watch->folders[i][0]; i++)
		;
	if (n + 16 > size || n + 16 > sizeof o->watch->folders[0]) {
		errno = ENAMETOOLONG;
		return false;
	}
	memcpy(path + n, ".tcc-ml.XXXXXX", 15);
	hold(&old);
	made = mkdtemp(path);
	if (made && o->watch)
		snprintf(o->watch->folders[i], sizeof o->watch->folders[i], "%s", path);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return made;
}

/* ---- limits -------------------------------------------------------------------------------- */

double
now(void)
{
	return (double)tcc_now() * 1e-9;
}

/* Bytes of memory that the process has; 0 if that is not known. */
static int64_t
resident(pid_t pid)
{
	char path[64];
	long pages = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
	f = fopen(path, "r");
	if (f && fscanf(f, "%*d %ld", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

/* A message and true if the child has gone over a limit. */
static bool
exceeded(const Options *o, pid_t pid, double start)
{
	const char *in = o->watch->phase;

	if (o->max_seconds && now() - start > o->max_seconds)
		complain(X_BUDGET, "%s: compiling takes over %d s; it was in %s", o->files[0],
			o->max_seconds, in);
	else if (o->max_memory && resident(pid) > o->max_memory)
		complain(X_BUDGET, "%s: compiling takes over %lld bytes of memory; it was in %s",
			o->files[0], (long long)o->max_memory, in);
	else
		return false;
	return true;
}

/* The child's status; over: a limit was exceeded, and the child killed; caught: a signal that came
 * meanwhile, which was passed on, or 0. */
static int
wait_for(const Options *o, pid_t pid, bool *over, int *caught)
{
	const struct timespec tick = {.tv_nsec = 10000000};
	bool limited = o->max_seconds || o->max_memory;
	double start = now();
	sigset_t set;
	int status = 0, sig;
	pid_t r;

	sigprocmask(SIG_BLOCK, NULL, &set);
	while ((r = waitpid(pid, &status, WNOHANG)) == 0 || (r < 0 && errno == EINTR)) {
		if (limited && !*over && (*over = exceeded(o, pid, start)))
			kill(pid, SIGKILL);
		sig = limited ? sigtimedwait(&set, NULL, &tick) : sigwaitinfo(&set, NULL);
		if (sig > 0 && sig != SIGCHLD)
			kill(pid, *caught = sig);
	}
	return status;
}

/* The tools that it had started end with it, those that they had started a little later. */
static void
wait_for_orphans(void)
{
	while (wait(NULL) > 0 || errno == EINTR)
		;
}

/* ---- the end ------------------------------------------------------------------------------- */

/* Ends as the child did, so that the shell sees it. */
static void
same_end(int sig)
{
	signal(sig, SIG_DFL);
	raise(sig);
}

static int
verdict(const Options *o, int status)
{
	int sig;

	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	sig = WTERMSIG(status);
	if (sig == SIGKILL)
		return complain(X_BUDGET, "%s was killed in %s; perhaps there was not enough memory",
			o->cmd->name, *o->watch->phase ? o->watch->phase : "its work");
	if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGPIPE)
		same_end(sig);
	complain(X_BUG, "%s in %s: this is a bug in tcc-ml", strsignal(sig),
		*o->watch->phase ? o->watch->phase : o->cmd->name);
	fprintf(stderr, "tcc-ml: note: please report it with the command and the model\n");
	return X_BUG;
}

void __lsan_do_leak_check(void) __attribute__((weak));    /* in sanitized builds only */

static void
child(const Options *o, pid_t parent)
{
	int code;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(X_BUG);
	code = o->cmd->run(o);
	if (fflush(stdout) || ferror(stdout))
		code = code ? code : complain(X_TOOL, "stdout: %s", strerror(errno));
	if (__lsan_do_leak_check)
		__lsan_do_leak_check();
	_exit(code);
}

int
supervise(const Options *given)
{
	Options o = *given;
	const char *base = getenv("TMPDIR");
	char tmp[512];
	bool over = false;
	int status, i, caught = 0;
	sigset_t old, set;
	pid_t pid, self = getpid();

	o.watch = mmap(NULL, sizeof *o.watch, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	if (o.watch == MAP_FAILED)
		return complain(X_BUDGET, "out of memory");
	signal(SIGCHLD, SIG_DFL);
	hold(&old);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	snprintf(tmp, sizeof tmp, "%.450s/", base && *base ? base : "/tmp");
	if (scratch_folder(&o, tmp, sizeof tmp))
		setenv("TMPDIR", tmp, 1);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, &old, NULL);
		child(&o, self);
	}
	status = pid < 0 ? 0 : wait_for(&o, pid, &over, &caught);
	wait_for_orphans();
	for (i = 0; i < 8; i++)
		if (o.watch->folders[i][0])
			remove_tree(o.watch->folders[i]);
	if (pid < 0)
		return complain(X_BUDGET, "cannot start a process: %s", strerror(errno));
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (caught)
		same_end(caught);
	return over ? X_BUDGET : verdict(&o, status);
}
