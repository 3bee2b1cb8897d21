/*
 * Schedules that were measured. Where a schedule chooses by an estimate of cost, the choice is a decision.
 * Its key is text that holds all that the estimate depends on but the machine: one measurement serves every
 * kernel alike, in any model. A tuning file has the lines `machine NAME` and, below it, KEY: CHOICE, the choice
 * as kernels' schedules print it; # begins a comment.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "opt.h"
#include "ir/machine.h"

enum { MAX_CANDIDATES = 5 };

Decision *
decision(Module *m, const char *key)
{
	Decision *d;
	int i;

	for (i = 0; i < m->tuning->decisions.n; i++) {
		d = m->tuning->decisions.at[i];
		if (strcmp(d->key, key) == 0)
			return d;
	}
	d = NEW(m, Decision);
	d->key = key;
	d->candidates = NEWN(m, const char *, MAX_CANDIDATES);
	vec_push(m, &m->tuning->decisions, d);
	return d;
}

void
offer(Decision *d, const char *choice)
{
	int i;

	for (i = 0; i < d->n; i++)
		if (strcmp(d->candidates[i], choice) == 0)
			return;
	if (d->n < MAX_CANDIDATES)
		d->candidates[d->n++] = choice;
}

void
require_choice(Module *m, const char *key, const Loc *loc)
{
	Decision *d = m->tuning && m->tuning->required && key ? decision(m, key) : NULL;

	if (!d || d->choice || d->missed)
		return;
	d->missed = true;
	diag_error(m->diag, X_UNSUPPORTED, loc, "the tuning file has no line for machine %s, '%s'",
		m->machine->name, key);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Cuts comment and blanks off; NULL if nothing is left. */
static char *
trimmed(char *line)
{
	size_t n;

	line[strcspn(line, "#\r\n")] = 0;
	line += strspn(line, " \t");
	for (n = strlen(line); n && strchr(" \t", line[n - 1]);)
		line[--n] = 0;
	return *line ? line : NULL;
}

/* `here`: do the lines that follow speak of this machine? False: it is no line of such a file. */
static bool
take_line(Module *m, char *line, bool *here)
{
	char *value = strchr(line, ':');

	if (strncmp(line, "machine ", 8) == 0) {
		*here = strcmp(trimmed(line + 8) ? trimmed(line + 8) : "", m->machine->name) == 0;
		return true;
	}
	if (!value || value == line || !trimmed(value + 1))
		return false;
	*value++ = 0;
	if (*here)
		decision(m, arena_printf(m->arena, "%s", trimmed(line)))->choice
			= arena_printf(m->arena, "%s", trimmed(value));
	return true;
}

bool
tuning_read(Module *m, const char *path)
{
	FILE *f = fopen(path, "r");
	char *line = NULL, *text;
	bool here = false, ok = f != NULL;
	size_t cap = 0;
	int at = 0;

	if (!f)
		diag_error(m->diag, X_INVALID, NULL, "%s: %s", path, strerror(errno));
	while (ok && getline(&line, &cap, f) >= 0) {
		at++;
		text = trimmed(line);
		ok = !text || take_line(m, text, &here);
		if (!ok)
			diag_error(m->diag, X_INVALID, NULL, "%s:%d: expected `machine NAME` or `KEY: CHOICE`",
				path, at);
	}
	free(line);
	if (f)
		fclose(f);
	return ok;
}
