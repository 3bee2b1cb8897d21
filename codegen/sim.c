/*
 * The simulator as a way to run a GPU target: the same kernels, compiled for the CPU as sim.h says,
 * are the device image of a host program whose device is "sim".
 */
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/embed.h"
#include "codegen/tool.h"
#include "runtime/abi.h"

static const char *const common[] = { "-x", "c", "-std=gnu11", "-DTCC_SIM", "-fPIC", "-shared",
	"-march=native", "-ffp-contract=off", "-fno-math-errno", "-w", NULL };
static const char *const traced[] = { "-O1", "-gline-tables-only", "-gdwarf-4", "-fsanitize=thread",
	"-fno-builtin", "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops", "-mllvm",
	"-tsan-instrument-func-entry-exit=0", "-mllvm", "-tsan-instrument-read-before-write=1", NULL };
static const char *const fast[] = { "-O2", NULL };

static void add_all(Command *c, const char *const *args)
{
	for (int k = 0; args[k]; k++)
		command_add(c, args[k]);
}

void sim_flags(const Machine *t, FILE *o)
{
	for (int k = 0; common[k]; k++)
		fprintf(o, "%s%s", k ? " " : "", common[k]);
	for (int k = 0; traced[k]; k++)
		fprintf(o, " %s", traced[k]);
	fprintf(o, " -Dtcc_warp=%d", t->warp);
}

static int compile(Job *job, const Work *w)
{
	Command c = { .what = "the simulator" };
	const char *object = work_path(w, "kernels.so");
	size_t size;

	command_add(&c, clang_name());
	add_all(&c, common);
	add_all(&c, job->simulate_fast ? fast : traced);
	command_add(&c, arena_printf(job->m->arena, "-Dtcc_warp=%d", job->machine->warp));
	/* findings name lines of kernels.cu: not of a folder that is gone */
	command_add(&c, arena_printf(job->m->arena, "-ffile-prefix-map=%s/=", w->dir));
	command_add(&c, work_path(w, "kernels.cu"));
	command_add(&c, "-o");
	command_add(&c, object);
	int code = commands_run(w, &c, 1, 1);
	commands_free(&c, 1);
	char *image = code ? NULL : file_read(object, &size);
	if (image)
		job_part(job, PART_IMAGE, job->machine->name, image, size);
	free(image);
	return code;
}

int sim_image(Job *job)
{
	const struct tcc_embed *dev = gpu_header(job);
	size_t size;
	Work w;
	int code;

	if (!dev)
		return X_BUG;
	char *text = gpu_source(job, true, &size);
	if (!text)
		return X_BUG;
	job_part(job, PART_TEXT, "kernels.cu", text, size);
	code = work_open(&w, job->m);
	if (code == X_OK)
		code = work_write(&w, "tcc_dev.h", dev->data, dev->size);
	if (code == X_OK)
		code = work_write(&w, "kernels.cu", text, size);
	free(text);
	if (code == X_OK)
		code = compile(job, &w);
	work_close(&w);
	return code ? code : gpu_host(job, TCC_IMAGE_SIM);
}
