/* What the CUDA and HIP targets and the simulator share: the kernels' text, the host's part. */
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/cprint.h"
#include "codegen/embed.h"
#include "codegen/tool.h"
#include "runtime/abi.h"

char *gpu_source(Job *job, bool sim, size_t *size)
{
	CFile *f = cfile_new(job->m, true);
	char *text = NULL, *body;
	size_t n;

	const int *twin = job->meta->twin;
	for (int k = 0; k < job->m->kernels.n; k++)
		if (twin[k] == k)
			cfile_kernel(f, job->m->kernels.at[k], job->meta->idents[k],
				cprint_origin(job->m, twin, k));
	if (sim) {
		fputs("#ifdef TCC_SIM\n", f->out);
		for (int k = 0; k < job->m->kernels.n; k++)
			if (twin[k] == k)
				cfile_sim_entry(f, job->m->kernels.at[k], job->meta->idents[k]);
		fputs("#endif\n", f->out);
	}
	body = cfile_finish(f, &n);
	if (!body)
		return NULL;
	FILE *o = open_memstream(&text, size);
	fprintf(o, "/* Kernels for %s, made by tcc-ml; tcc_dev.h describes the dialect. */\n"
		"#include \"tcc_dev.h\"\n\n", job->machine->name);
	fwrite(body, 1, n, o);
	fclose(o);
	free(body);
	return text;
}

const struct tcc_embed *gpu_header(Job *job, const char *name)
{
	static const char folder[] = "runtime/device/";

	for (const struct tcc_embed *e = tcc_embed; e->name; e++)
		if (!strncmp(e->name, folder, sizeof folder - 1) &&
				!strcmp(e->name + sizeof folder - 1, name))
			return e;
	diag_error(job->m->diag, X_BUG, NULL, "%s is not within tcc-ml", name);
	return NULL;
}

int gpu_host(Job *job, int image_kind)
{
	if (job->kind == EMIT_PTX || job->kind == EMIT_CUBIN || job->kind == EMIT_HSACO)
		return X_OK;
	return job->kind == EMIT_SRC ? c_emit_text(job, image_kind) : llvm_emit_host(job, image_kind);
}

/* The one part of an --emit ptx, cubin or hsaco. */
static int write_part(Job *job, const char *path)
{
	for (int k = 0; k < job->nparts; k++) {
		Part *p = &job->parts[k];
		bool ptx = p->kind == PART_IMAGE && !strncmp(p->name, "compute_", 8);
		if (p->kind != PART_IMAGE || ptx != (job->kind == EMIT_PTX))
			continue;
		size_t size = ptx ? strlen(p->data) : p->size;
		if (write_file(path, p->data, size) == 0)
			return X_OK;
		diag_error(job->m->diag, X_TOOL, NULL, "cannot write %s", path);
		return X_TOOL;
	}
	diag_error(job->m->diag, X_BUG, NULL, "no %s was made", emit_names[job->kind]);
	return X_BUG;
}

int gpu_link(Job *jobs, int n, const char *path)
{
	switch (jobs->kind) {
	case EMIT_PTX: case EMIT_CUBIN: case EMIT_HSACO:
		if (n == 1)
			return write_part(jobs, path);
		diag_error(jobs->m->diag, X_USAGE, NULL, "--emit %s takes one target",
			emit_names[jobs->kind]);
		return X_USAGE;
	case EMIT_SRC:
		return src_link(jobs, n, path);
	default:
		return link_native(jobs, n, path);
	}
}

void gpu_report(Job *job)
{
	for (int k = 0; job->use && k < job->m->kernels.n; k++) {
		const Kernel *kn = job->m->kernels.at[k];
		if (job->meta->twin[k] != k)
			job->use[k] = job->use[job->meta->twin[k]];
		else if (job->use[k].spills)
			diag_warn(job->m->diag, kn->loc, "kernel %s spills %d bytes of registers for %s (%s)",
				job->meta->idents[k], job->use[k].spills, job->machine->name,
				kn->schedule ? kn->schedule : "");
	}
}

KernelUse *gpu_use(Job *job, const char *name, size_t n)
{
	if (!job->use)
		job->use = NEWN(job->m, KernelUse, job->m->kernels.n);
	for (int k = 0; k < job->m->kernels.n; k++)
		if (strlen(job->meta->idents[k]) == n && !strncmp(job->meta->idents[k], name, n))
			return &job->use[k];
	return NULL;
}

void gpu_describe(const Machine *t, FILE *o)
{
	fprintf(o, "%d units at %.2f GHz, %.0f GB/s, warps of %d, %lld KB of shared memory a block\n",
		t->units, t->ghz, t->gbs, t->warp, (long long)t->smem_block / 1024);
}
