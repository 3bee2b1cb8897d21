/* program.h - the program around a model, in parts: program.c takes the options and runs,
 * program_data.c reads inputs and writes outputs, program_info.c describes, program_time.c
 * times. */
#ifndef TCC_PROGRAM_H
#define TCC_PROGRAM_H

#include "rt.h"

typedef struct Pair {
	const char *name;       /* up to the '='; NULL: none was given */
	size_t name_size;
	const char *file;
} Pair;

typedef struct Args {
	Pair *inputs, *outputs;
	int ninputs, noutputs;
	const char *output_dir, *device, *weights, *json_file, *trace;
	long threads, warmup, iters;
	double duration;
	bool info, bench, profile, json, help;
} Args;

typedef struct Program {
	const char *name;
	const TccModel *whole;  /* with its variants */
	const TccModel *model;  /* the one of them in use */
	const TccProgramHook *hook;
	const TccMeta *meta;
	const TccPort *in, *out;
	Args args;
	TccErr err;
	FILE *json;
	TccInst *inst;
	TccContext *ctx;
	TccValue *inputs, *outputs;
	double load_ms;
} Program;

/* program.c. What returns an int returns an exit code, and has printed why it is not 0. */
int tcc_report(const Program *p, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int tcc_run_once(Program *p);

/* program_data.c */
int tcc_read_inputs(Program *p);
int tcc_make_inputs(Program *p);        /* made-up ones where none were given */
int tcc_write_files(Program *p);        /* what --output and --output-dir ask for */
int tcc_write_outputs(Program *p);      /* the same, or else prints a summary */

/* program_info.c */
void tcc_print_info(const Program *p);
void tcc_json_text(FILE *f, const char *s);

/* program_time.c: --bench and --profile */
int tcc_time_model(Program *p);

#endif
