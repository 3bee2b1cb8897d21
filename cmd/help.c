/* --help, the man page and completion, from the tables of commands and options. */
#include <string.h>
#include "cmd.h"

static const struct { int code; const char *doc; } codes[] = {
	{X_OK, "success"},
	{X_DIFFER, "results differ"},
	{X_USAGE, "usage"},
	{X_INVALID, "the model or a data file is unreadable or invalid"},
	{X_UNSUPPORTED, "something in it is unsupported"},
	{X_TOOL, "a tool or device that is needed is missing or failed"},
	{X_DATA, "the data given at run time is invalid"},
	{X_BUDGET, "a limit is exceeded"},
	{X_BUG, "a bug in tcc-ml"},
};
enum { NCODES = sizeof codes / sizeof *codes };

static const struct { const char *opt, *doc; } plain[] = {
	{"--help [COMMAND]", "describe tcc-ml, or a command"},
	{"--version", "the version"},
	{"--man", "the man page, for man -l -"},
	{"--completion", "completion for bash: eval \"$(tcc-ml --completion)\""},
};
enum { NPLAIN = sizeof plain / sizeof *plain };

/* ---- --help -------------------------------------------------------------------------------- */

/* Words, with line breaks before column 80; the lines begin with `indent` blanks. */
static void
wrap(FILE *f, const char *s, int indent, int col)
{
	int n;

	for (; *s; s += n, s += *s == ' ') {
		n = (int)strcspn(s, " ");
		if (col > indent && col + 1 + n > 79) {
			fprintf(f, "\n%*s", indent, "");
			col = indent;
		} else if (col > indent) {
			fputc(' ', f);
			col++;
		}
		fprintf(f, "%.*s", n, s);
		col += n;
	}
	fputc('\n', f);
}

static void
option_name(char *buf, size_t size, const Opt *t)
{
	if (t->brief && t->kind == OPT_CHOICE)           /* -O2 */
		snprintf(buf, size, "-%c%s", t->brief, t->arg);
	else if (t->brief && t->arg)
		snprintf(buf, size, "-%c %s, --%s %s", t->brief, t->arg, t->name, t->arg);
	else if (t->brief)
		snprintf(buf, size, "-%c, --%s", t->brief, t->name);
	else if (t->kind == OPT_MAYBE)
		snprintf(buf, size, "--%s[=%s]", t->name, t->arg);
	else
		snprintf(buf, size, "--%s%s%s", t->name, t->arg ? " " : "", t->arg ? t->arg : "");
}

static void
row(FILE *f, const char *left, const char *doc)
{
	enum { LEFT = 26 };
	int n = (int)strlen(left) + 2;

	if (n >= LEFT) {
		fprintf(f, "  %s\n", left);
		n = 0;
	} else {
		fprintf(f, "  %s", left);
	}
	fprintf(f, "%*s", LEFT - n, "");
	wrap(f, doc, LEFT, LEFT);
}

void
help_all(FILE *f)
{
	const Cmd *c;
	int i;

	fputs("usage: tcc-ml COMMAND [options] ...\n"
		"Compiles ONNX models to programs for CPUs and GPUs.\n\n"
		"Commands (tcc-ml COMMAND --help says more)\n", f);
	for (c = commands; c->name; c++)
		row(f, c->name, c->doc);
	fputs("\nOptions\n", f);
	for (i = 0; i < NPLAIN; i++)
		row(f, plain[i].opt, plain[i].doc);
	fputs("\nExit codes\n", f);
	for (i = 0; i < NCODES; i++)
		fprintf(f, "  %2d  %s\n", codes[i].code, codes[i].doc);
}

void
help_command(const Cmd *c, FILE *f)
{
	char name[160];
	const Opt *t;

	fprintf(f, "usage: tcc-ml %s [options]%s%s\n", c->name, *c->args ? " " : "", c->args);
	wrap(f, c->more, 0, 0);
	fputs("\nOptions\n", f);
	for (t = options; t->name; t++)
		if (t->commands & c->bit) {
			option_name(name, sizeof name, t);
			row(f, name, t->doc);
		}
}

/* ---- the man page -------------------------------------------------------------------------- */

/* Text for troff: hyphens as they are, no requests by accident. */
static void
troff(FILE *f, const char *s)
{
	for (; *s; s++)
		if (*s == '-')
			fputs("\\-", f);
		else if (*s == '\\')
			fputs("\\e", f);
		else if (*s == '.' || *s == '\'')
			fprintf(f, "\\&%c", *s);
		else
			fputc(*s, f);
}

static void
item(FILE *f, const char *left, const char *doc)
{
	fputs(".TP\n.B ", f);
	troff(f, left);
	fputc('\n', f);
	troff(f, doc);
	fputc('\n', f);
}

static void
option_item(FILE *f, const Opt *t)
{
	char name[160];
	const Cmd *c;
	bool all = true;
	const char *sep = "\nCommands: ";

	option_name(name, sizeof name, t);
	item(f, name, t->doc);
	for (c = commands; c->name; c++)
		all &= (t->commands & c->bit) != 0;
	for (c = commands; c->name && !all; c++)
		if (t->commands & c->bit) {
			fprintf(f, "%s%s", sep, c->name);
			sep = ", ";
		}
	fputs(all ? "" : ".\n", f);
}

void
help_man(FILE *f)
{
	char text[16];
	const Cmd *c;
	const Opt *t;
	int i;

	fprintf(f,
		".TH TCC-ML 1 \"\" \"tcc-ml %s\"\n.SH NAME\ntcc\\-ml \\- compile ONNX models to programs\n",
		TCC_ML_VERSION);
	fputs(".SH SYNOPSIS\n", f);
	for (c = commands; c->name; c++) {
		fprintf(f, ".B tcc\\-ml %s\n[options] ", c->name);
		troff(f, c->args);
		fputs(c[1].name ? "\n.br\n" : "\n", f);
	}
	fputs(".SH COMMANDS\n", f);
	for (c = commands; c->name; c++) {
		item(f, c->name, c->more);
	}
	fputs(".SH OPTIONS\n", f);
	for (i = 0; i < NPLAIN; i++)
		item(f, plain[i].opt, plain[i].doc);
	for (t = options; t->name; t++)
		option_item(f, t);
	fputs(".SH EXIT STATUS\n", f);
	for (i = 0; i < NCODES; i++) {
		snprintf(text, sizeof text, "%d", codes[i].code);
		item(f, text, codes[i].doc);
	}
	fputs(".SH ENVIRONMENT\n", f);
	item(f, "TMPDIR", "where intermediate files go (default /tmp)");
	item(f, "CC", "the C compiler that links artefacts and compiles the c target (default cc)");
	item(f, "TCC_NVRTC", "the libnvrtc.so to use");
}

/* ---- completion ---------------------------------------------------------------------------- */

static void
words(FILE *f, const char *list)
{
	for (; *list; list++)
		fputc(*list == '|' ? ' ' : *list, f);
}

void
help_completion(FILE *f)
{
	const Cmd *c;
	const Opt *t;

	fputs("_tcc_ml() {\n"
		"\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=\n"
		"\tif [ \"$COMP_CWORD\" = 1 ]; then\n\t\twords='", f);
	for (c = commands; c->name; c++)
		fprintf(f, "%s ", c->name);
	fputs("help --help --version --man --completion'\n\telse case $prev in\n", f);
	for (t = options; t->name; t++)
		if (t->kind == OPT_CHOICE || t->kind == OPT_CHOICES) {
			fprintf(f, "\t--%s) words='", t->name);
			words(f, t->arg);
			fputs("' ;;\n", f);
		}
	fputs("\t--target|--host) words=$(tcc-ml targets -q 2>/dev/null) ;;\n"
		"\t*) case $cur in -*) case ${COMP_WORDS[1]} in\n", f);
	for (c = commands; c->name; c++) {
		fprintf(f, "\t\t%s) words='", c->name);
		for (t = options; t->name; t++)
			if (t->commands & c->bit)
				fprintf(f, "--%s ", t->name);
		fputs("' ;;\n", f);
	}
	fputs("\t\tesac ;; esac ;;\n\tesac; fi\n"
		"\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\n"
		"complete -o default -F _tcc_ml tcc-ml\n", f);
}
