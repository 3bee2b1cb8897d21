/* Messages as compilers write them: file, place, what was found; collected, counted, never
 * fatal. */
#include <stdarg.h>
#include <string.h>
#include "ir.h"

static void
emit(Diag *d, const char *kind, const char *color, int code, const Loc *loc, const char *text)
{
	if (d->sink)
		d->sink(d->user, kind, code, loc, text);
	if (!d->out)
		return;
	if (d->file)
		fprintf(d->out, "%s: ", d->file);
	fprintf(d->out, "%s%s:%s ", d->color ? color : "", kind, d->color ? "\033[0m" : "");
	if (loc) {
		fprintf(d->out, "%s '%s'", loc->type ? loc->type : "node", loc->name ? loc->name : "");
		if (loc->index >= 0)
			fprintf(d->out, " (node %d)", loc->index);
		fputs(": ", d->out);
	}
	fprintf(d->out, "%s\n", text);
}

void
diag_error(Diag *d, int code, const Loc *loc, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (!d->errors++) {
		d->code = code;
		if (loc)
			snprintf(d->first, sizeof d->first, "%s '%s': %.800s", loc->type ? loc->type : "node",
				loc->name ? loc->name : "", text);
		else
			snprintf(d->first, sizeof d->first, "%s", text);
	}
	emit(d, "error", "\033[1;31m", code, loc, text);
}

void
diag_warn(Diag *d, const Loc *loc, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	d->warnings++;
	if (d->quiet)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	emit(d, "warning", "\033[1;35m", 0, loc, text);
}

void
diag_note(Diag *d, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (d->quiet)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	emit(d, "note", "\033[1;36m", 0, NULL, text);
}
