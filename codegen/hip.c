/* The HIP target: the kernels' source through clang, without ROCm; one code object a machine. */
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/embed.h"
#include "codegen/tool.h"
#include "runtime/abi.h"

const char *clang_name(void)
{
	static const char *const names[] = { "clang-22", "clang-23", "clang", NULL };

	for (int k = 0; names[k]; k++)
		if (tool_found(names[k]))
			return names[k];
	return names[0];
}

/* ---- the code object's notes ----------------------------------------------------------------- */

static int field(const char *from, const char *to, const char *name)
{
	const char *p = strstr(from, name);
	return p && p < to ? atoi(p + strlen(name)) : 0;
}

/* Kernels are entries of a list in YAML, each with its keys sorted: .name stands amid them, so an
 * entry is what lies between two .agpr_count or .args keys ("  - " begins it). */
static void read_notes(Job *job, const char *notes)
{
	const char *list = notes ? strstr(notes, "amdhsa.kernels:") : NULL;

	for (const char *p = list ? strstr(list, "\n  - ") : NULL; p;) {
		const char *next = strstr(p + 1, "\n  - "), *end = next ? next : p + strlen(p);
		const char *name = strstr(p, "\n    .name:");
		if (name && name < end) {
			name += strlen("\n    .name:");
			name += strspn(name, " ");
			KernelUse *u = gpu_use(job, name, strcspn(name, " \n"));
			if (u) {
				u->registers = field(p, end, ".vgpr_count:");
				u->spills = 4 * (field(p, end, ".vgpr_spill_count:") +
					field(p, end, ".sgpr_spill_count:"));
				u->local = field(p, end, ".private_segment_fixed_size:");
				u->shared = field(p, end, ".group_segment_fixed_size:");
			}
		}
		p = next;
	}
}

static void notes(Job *job, const Work *w, const char *object)
{
	Command c = { .what = "the HIP target" };
	const char *args[] = { "llvm-readelf-22", "--notes", object };

	if (!tool_found(args[0]))
		return;
	for (int k = 0; k < 3; k++)
		command_add(&c, args[k]);
	if (commands_run(w, &c, 1, 1) == X_OK)
		read_notes(job, c.output);
	commands_free(&c, 1);
}

/* ---- compiling ------------------------------------------------------------------------------- */

static int compile(Job *job, const Work *w)
{
	Command c = { .what = "the HIP target" };
	const char *args[] = { clang_name(), "-x", "hip", "-std=c++17", "--cuda-device-only",
		"--no-gpu-bundle-output", "-O3", "-ffp-contract=off", "-mcode-object-version=5",
		arena_printf(job->m->arena, "--offload-arch=%s", job->machine->arch), "-nogpulib",
		"-nogpuinc", "-fuse-cuid=none", "-w", work_path(w, "kernels.hip"), "-o",
		work_path(w, "kernels.co") };
	char *image = NULL;
	size_t size = 0;

	for (size_t k = 0; k < sizeof args / sizeof *args; k++)
		command_add(&c, args[k]);
	int code = commands_run(w, &c, 1, 1);
	commands_free(&c, 1);
	if (code == X_OK && (image = file_read(work_path(w, "kernels.co"), &size))) {
		job_part(job, PART_IMAGE, job->machine->arch, image, size);
		notes(job, w, work_path(w, "kernels.co"));
	}
	free(image);
	return code;
}

static int image(Job *job, const char *text, size_t size)
{
	const struct tcc_embed *dev = gpu_header(job, "tcc_dev.h");
	Work w;
	int code = dev ? work_open(&w, job->m) : X_BUG;

	if (code)
		return code;
	code = work_write(&w, "tcc_dev.h", dev->data, dev->size);
	if (code == X_OK)
		code = work_write(&w, "kernels.hip", text, size);
	if (code == X_OK)
		code = compile(job, &w);
	work_close(&w);
	return code;
}

static int emit(Job *job)
{
	size_t size;

	if (job->simulate)
		return sim_image(job);
	char *text = gpu_source(job, job->kind == EMIT_SRC, &size);
	if (!text)
		return X_BUG;
	job_part(job, PART_TEXT, "kernels.hip", text, size);
	int code = job->kind == EMIT_SRC || job->m->kernels.n == 0 ? X_OK : image(job, text, size);
	free(text);
	gpu_report(job);
	return code ? code : gpu_host(job, TCC_IMAGE_HIP);
}

static bool takes(const Machine *t) { return t->kind == M_HIP; }

const Target target_hip = {
	.name = "hip",
	.doc = "HIP source, compiled by clang without ROCm",
	.kinds = 1 << EMIT_EXE | 1 << EMIT_SO | 1 << EMIT_A | 1 << EMIT_OBJ | 1 << EMIT_SRC |
		1 << EMIT_HSACO,
	.takes = takes,
	.describe = gpu_describe,
	.emit = emit,
	.link = gpu_link,
};
