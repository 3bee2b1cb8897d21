/* tcc-ml: the commands. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "cmd.h"

/* name, bit, least and most arguments, arguments, what it does, function, paragraph; a bit is the
 * row's place, and options.c names the bits */
const Cmd commands[] = {
	{"compile", 1 << 0, 1, 1, "MODEL", "compile a model to an artefact", cmd_compile,
		"MODEL is an ONNX file, or IR text (FILE.ir). The artefact is an executable that needs "
		"the C library only, or what --emit says. Beside so and a stands a header with the model's "
		"names and shapes. A failed compilation leaves nothing behind. The same input and options "
		"give the same bytes, in any folder and on any day."},
	{"check", 1 << 1, 1, 1, "MODEL", "report every problem and unsupported node", cmd_check,
		"Reads the model and takes it through the passes without generating code; needs no tools."},
	{"run", 1 << 2, 1, 1, "MODEL|FILE.ir|PROGRAM", "compile in memory and run, or run an artefact",
		cmd_run,
		"Files are .npy, .npz, .pb, .raw, .bin, .txt and, to read, .pgm and .ppm. Without --output "
		"and --output-dir the first elements of the outputs are printed."},
	{"verify", 1 << 3, 1, -1, "MODEL|DIR...", "run and compare with what is expected", cmd_verify,
		"A DIR holds model.onnx and test_data_set_N with input_I.pb and output_I.pb, and may "
		"hold data.json with rtol and atol; without outputs the built-in evaluator says them. A "
		"MODEL is compared with --data, else with the evaluator on made-up inputs. Each case "
		"prints PASS, FAIL, UNSUPPORTED, ERROR or SKIP, its name and the reason; at last come "
		"the counts. Exit code 1: not all passed."},
	{"bench", 1 << 4, 1, 1, "MODEL|FILE.ir|PROGRAM", "time a model", cmd_bench,
		"load_ms and first_ms are the cold start; the latencies are those of warm runs. Inputs "
		"that are not given are made up."},
	{"profile", 1 << 5, 1, 1, "MODEL|FILE.ir|PROGRAM", "time its kernels", cmd_profile,
		"Time, operations and bytes of each kernel, with the ONNX nodes that it came from. In the "
		"simulator: memory requests, sectors and bank conflicts instead of times."},
	{"inspect", 1 << 6, 1, 1, "MODEL|FILE.ir|PROGRAM", "describe a model or an artefact",
		cmd_inspect,
		"Inputs, outputs, operators, kernels, memory, precision and, of an artefact, its manifest. "
		"With --verbose also every buffer. For GPU targets the kernels are compiled, if the "
		"compiler is installed, for their use of registers."},
	{"opt", 1 << 7, 1, 1, "FILE.ir|MODEL", "run passes and print the IR", cmd_opt,
		"Without --passes: all of them that follow the text's level."},
	{"reduce", 1 << 12, 1, 1, "MODEL|FILE.ir", "find the smallest part that fails", cmd_reduce,
		"Holds the compiled model to the evaluator, on the inputs of --data or made-up ones, "
		"with the shapes that these have. Of what differs, is refused, crashes or hangs it looks "
		"for the smallest part that still does, writes it to the folder OUT with the values that "
		"go in and should come out, and names the pass that breaks it. Exit code 1: it fails."},
	{"diff", 1 << 13, 2, 2, "A B", "where two models or artefacts differ", cmd_diff,
		"Compares what inspect tells of them: options, tools, inputs, outputs, the code of "
		"kernels, constants, memory. Models are compiled for it. Of each part the first "
		"difference is printed, with --verbose all. Exit code 1: they differ."},
	{"tune", 1 << 14, 1, 1, "MODEL|FILE.ir", "measure schedules and write the fastest", cmd_tune,
		"Measures the tiles that products and convolutions could have on this CPU, on the inputs "
		"that are given or made-up ones, and writes OUT (default NAME.tuning), which compile, "
		"run and the others read with --tuning. Lines of several machines may stand in one file."},
	{"ops", 1 << 8, 0, -1, "[NAME...]", "the operators that are supported", cmd_ops,
		"Operator, newest version, types and targets. With --verbose also the signature and what "
		"it does."},
	{"targets", 1 << 9, 0, -1, "[NAME...]", "the machines that can be compiled for", cmd_targets,
		"With names: what is known of them."},
	{"passes", 1 << 10, 0, 0, "", "the passes, in order", cmd_passes,
		"Level before and after, and what each does. With --verbose also the rewrite rules."},
	{"doctor", 1 << 11, 0, 0, "", "what is installed, and what is missing", cmd_doctor,
		"Names the command that installs what is missing. Exit code 5 if executables cannot be "
		"made."},
	{0}
};

int
complain(int code, const char *fmt, ...)
{
	va_list ap;

	fputs("tcc-ml: error: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return code;
}

static const Cmd *
find_command(const char *name)
{
	const Cmd *c;

	for (c = commands; c->name && strcmp(c->name, name); c++)
		;
	return c->name ? c : NULL;
}

/* --help and its like; -1 if it is none of them. */
static int
about(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	bool help = is_listed("help|--help|-h", what);
	const Cmd *c = help && argc > 2 ? find_command(argv[2]) : NULL;

	if (help && argc > 2 && !c)
		return complain(X_USAGE, "unknown command '%s'", argv[2]);
	if (c)
		help_command(c, stdout);
	else if (help)
		help_all(stdout);
	else if (strcmp(what, "--version") == 0)
		printf("tcc-ml %s\n", TCC_ML_VERSION);
	else if (strcmp(what, "--man") == 0)
		help_man(stdout);
	else if (strcmp(what, "--completion") == 0)
		help_completion(stdout);
	else
		return -1;
	return X_OK;
}

/* What was printed may not have arrived: a full disk. */
static int
finish(int code)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	return code ? code : complain(X_TOOL, "stdout: %s", strerror(errno));
}

int
main(int argc, char **argv)
{
	const Cmd *c;
	Options o = {0};
	int code;

	if (argc < 2) {
		help_all(stderr);
		return X_USAGE;
	}
	if ((code = about(argc, argv)) >= 0)
		return finish(code);
	c = find_command(argv[1]);
	if (!c)
		return complain(X_USAGE, "unknown command '%s'; `tcc-ml --help` lists them", argv[1]);
	code = parse_options(argc - 2, argv + 2, c, &o);
	if (!code && o.help)
		help_command(c, stdout);
	else if (!code)
		code = supervise(&o);
	free(o.files);
	return finish(code);
}
