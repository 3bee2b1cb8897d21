/* tcc-ml: the commands. */
#include <string.h>
#include "cmd.h"

/* name, arguments, function, what it does */
const Command commands[] = {
	{"compile", "MODEL", "compile a model to an artefact", cmd_compile},
	{"check",   "MODEL", "report every problem and unsupported node", cmd_check},
	{"run",     "MODEL", "compile in memory and run", cmd_run},
	{"verify",  "MODEL|DIR...", "run and compare with expected outputs", cmd_verify},
	{"ops",     "", "the operators that are supported", cmd_ops},
	{"passes",  "", "the passes, in order", cmd_passes},
	{"targets", "", "the machines that can be compiled for", cmd_targets},
	{0}
};

static int
usage(FILE *f)
{
	const Command *c;

	fputs("usage: tcc-ml COMMAND [options] ...\n\n", f);
	for (c = commands; c->name; c++)
		fprintf(f, "  %-8s %-13s %s\n", c->name, c->args, c->doc);
	fputs("\n", f);
	print_options(f);
	return f == stdout ? X_OK : X_USAGE;
}

int
main(int argc, char **argv)
{
	const Command *c;
	Options o = {0};

	if (argc < 2)
		return usage(stderr);
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
		return usage(stdout);
	for (c = commands; c->name && strcmp(c->name, argv[1]); c++)
		;
	if (!c->name) {
		fprintf(stderr, "error: unknown command '%s'; try tcc-ml --help\n", argv[1]);
		return X_USAGE;
	}
	if (parse_options(argc - 2, argv + 2, &o))
		return X_USAGE;
	return o.help ? usage(stdout) : c->run(&o);
}
