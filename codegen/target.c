/* The list of targets, and what is common to them. */
#include <stdlib.h>
#include <string.h>
#include "codegen.h"

const char *const emit_names[EMIT_NKINDS] = {"exe", "so", "a", "obj", "src", "llvm", "asm", "ptx",
	"cubin", "hsaco", "stablehlo"};

extern const Target target_llvm, target_c, target_cuda, target_hip;

const Target *const targets[] = {&target_llvm, &target_c, &target_cuda, &target_hip, NULL};

const Target *
target_for(const Machine *t)
{
	size_t i;

	for (i = 0; i < sizeof targets / sizeof *targets; i++)
		if (targets[i] && targets[i]->takes(t))
			return targets[i];
	return NULL;
}

int
codegen_emit(Job *job)
{
	Diag *d = job->m->diag;

	/* source of a CPU's program is C, and C has no assembler to embed weights with */
	if (job->kind == EMIT_SRC) {
		job->weights_file = true;
		if (!job->weights_name)
			job->weights_name = arena_printf(job->m->arena, "%s.weights",
				job->prefix ? job->prefix : "model");
	}
	if (!job->target)
		job->target = job->kind == EMIT_SRC && job->machine->kind == M_CPU ? &target_c
			: target_for(job->machine);
	if (!job->target) {
		diag_error(d, X_UNSUPPORTED, NULL, "no code generator for target %s", job->machine->name);
		return X_UNSUPPORTED;
	}
	if (!(job->target->kinds >> job->kind & 1)) {
		diag_error(d, X_USAGE, NULL, "target %s cannot emit %s", job->machine->name,
			emit_names[job->kind]);
		return X_USAGE;
	}
	if (!meta_get(job))
		return d->code ? d->code : X_BUG;
	return job->target->emit(job);
}

int
codegen_link(Job *jobs, int n, const char *path)
{
	return jobs->target->link(jobs, n, path);
}

void
job_part(Job *job, PartKind kind, const char *name, const void *data, size_t size)
{
	Part *p = realloc(job->parts, sizeof *p * ((size_t)job->nparts + 1));

	if (!p)
		abort();
	job->parts = p;
	p += job->nparts++;
	*p = (Part){kind, strdup(name), malloc(size + 1), size};
	if (!p->data || !p->name)
		abort();
	memcpy(p->data, data, size);
	p->data[size] = 0;
}

void
job_free(Job *job)
{
	int i;

	for (i = 0; i < job->nparts; i++) {
		free(job->parts[i].name);
		free(job->parts[i].data);
	}
	free(job->parts);
	if (job->meta) {
		free(job->meta->bytes);
		free(job->meta->weights);
		free(job->meta);
	}
	job->parts = NULL;
	job->nparts = 0;
	job->meta = NULL;
}
