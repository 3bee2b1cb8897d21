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
	"-march=native", "-ffp-contract=off", "-fno-math-errno", "-w",
	"-Werror=implicit-function-declaration", NULL };
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
		job_part(job, PART_IMAGE, job->machine->arch, image, size);
	free(image);
	return code;
}

static int write_header(Job *job, const Work *w, const char *name)
{
	const struct tcc_embed *dev = gpu_header(job, name);

	return dev ? work_write(w, name, dev->data, dev->size) : X_BUG;
}

/* What the CUDA compiler makes of the source, as C again. */
static char *through_ptx(Job *job, char *text, size_t *size)
{
	char *ptx = cuda_ptx(job, text, *size), *c = NULL;

	free(text);
	if (ptx) {
		job_part(job, PART_TEXT, "kernels.ptx", ptx, strlen(ptx));
		c = ptx_to_c(job->m, ptx, size);
	}
	free(ptx);
	return c;
}

/* The kernels as C that the simulator can run; NULL after a message. */
static char *source(Job *job, size_t *size)
{
	char *text = gpu_source(job, !job->simulate_ptx, size);

	if (!text)
		diag_error(job->m->diag, X_BUG, NULL, "the kernels have no source");
	else
		job_part(job, PART_TEXT, "kernels.cu", text, *size);
	return text && job->simulate_ptx && job->m->kernels.n ? through_ptx(job, text, size) : text;
}

int sim_image(Job *job)
{
	size_t size;
	char *text = source(job, &size);
	Work w;
	int code;

	if (!text)
		return job->m->diag->code;
	code = work_open(&w, job->m);
	if (code == X_OK)
		code = write_header(job, &w, "tcc_dev.h");
	if (code == X_OK && job->simulate_ptx)
		code = write_header(job, &w, "tcc_ptx.h");
	if (code == X_OK)
		code = work_write(&w, "kernels.cu", text, size);
	free(text);
	if (code == X_OK)
		code = compile(job, &w);
	work_close(&w);
	return code ? code : gpu_host(job, TCC_IMAGE_SIM);
}
