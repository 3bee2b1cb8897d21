/* Artefacts that tcc-ml has made, found by their contents: nothing in them is run here. */
#define _GNU_SOURCE
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cmd.h"

#include <fcntl.h>      /* last: its macro O_TRUNC */

typedef struct File { const unsigned char *p; size_t n; } File;

static bool
map(const char *path, File *f)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *p = MAP_FAILED;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
		p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	*f = (File){p == MAP_FAILED ? NULL : p, p == MAP_FAILED ? 0 : (size_t)st.st_size};
	return f->p != NULL;
}

static void
unmap(File *f)
{
	munmap((void *)f->p, f->n);
}

static bool
starts(const File *f, const char *magic, size_t n)
{
	return f->n >= n && memcmp(f->p, magic, n) == 0;
}

bool
is_artefact(const char *path)
{
	File f;
	bool yes;

	if (!map(path, &f))
		return false;
	yes = starts(&f, ELFMAG, 4) || starts(&f, "!<arch>\n", 8);
	unmap(&f);
	return yes;
}

/* ---- ELF, of 64 bits and little-endian as all our machines are ----------------------------- */

/* The headers at an offset, if that many are within the file. */
static const void *
within(const File *f, uint64_t at, uint64_t n, uint64_t size)
{
	return size && at <= f->n && n <= (f->n - at) / size && at % 8 == 0 ? f->p + at : NULL;
}

static const Elf64_Ehdr *
elf(const File *f)
{
	const Elf64_Ehdr *h = (const void *)f->p;

	return f->n >= sizeof *h && memcmp(f->p, ELFMAG, 4) == 0 && h->e_ident[EI_CLASS] == ELFCLASS64
		&& h->e_ident[EI_DATA] == ELFDATA2LSB ? h : NULL;
}

/* A program has an interpreter, or is linked statically to a fixed place; static-pie has flags. */
bool
is_program(const char *path)
{
	const Elf64_Ehdr *h;
	const Elf64_Phdr *p;
	bool yes = false;
	File f;
	int i;

	if (!map(path, &f))
		return false;
	h = elf(&f);
	p = h ? within(&f, h->e_phoff, h->e_phnum, sizeof *p) : NULL;
	yes = p && h->e_type == ET_EXEC;
	for (i = 0; p && i < h->e_phnum; i++)
		yes |= p[i].p_type == PT_INTERP;
	unmap(&f);
	return yes;
}

bool
artefact_symbol(const char *path, char *name, size_t size)
{
	static const char tail[] = "_tcc_model";
	const Elf64_Ehdr *h;
	const Elf64_Shdr *s, *str;
	const Elf64_Sym *sym;
	bool found = false;
	const char *text;
	uint64_t k, n;
	File f;
	int i;

	if (!map(path, &f))
		return false;
	h = elf(&f);
	s = h ? within(&f, h->e_shoff, h->e_shnum, sizeof *s) : NULL;
	for (i = 0; s && i < h->e_shnum && !found; i++) {
		if (s[i].sh_type != SHT_DYNSYM || s[i].sh_link >= h->e_shnum)
			continue;
		str = &s[s[i].sh_link];
		sym = within(&f, s[i].sh_offset, s[i].sh_size / sizeof *sym, sizeof *sym);
		if (!sym || str->sh_offset > f.n || str->sh_size > f.n - str->sh_offset)
			continue;
		for (k = 0; k < s[i].sh_size / sizeof *sym && !found; k++) {
			if (sym[k].st_name >= str->sh_size)
				continue;
			text = (const char *)f.p + str->sh_offset + sym[k].st_name;
			n = strnlen(text, str->sh_size - sym[k].st_name);
			found = n < size && n < str->sh_size - sym[k].st_name && n >= sizeof tail - 1
				&& strcmp(text + n - (sizeof tail - 1), tail) == 0;
			if (found)
				memcpy(name, text, n + 1);
		}
	}
	unmap(&f);
	return found;
}

/* ---- tables -------------------------------------------------------------------------------- */

/* Bytes of the tables at p, of which n are there: the texts' are last, and 8 zeros follow. 0: they
 * are broken. */
static size_t
meta_size(const unsigned char *p, size_t n)
{
	TccMeta h;
	uint64_t end;

	if (n < sizeof h)
		return 0;
	memcpy(&h, p, sizeof h);
	end = (uint64_t)h.texts.offset + (uint64_t)h.texts.count * sizeof(TccString) + 8;
	return end <= n && end >= sizeof h ? (size_t)end : 0;
}

static int32_t
no_plan(TccRun *run)
{
	(void)run;
	return TCC_UNSUPPORTED;
}

/* A copy of the tables as a model that has nothing else; false if they are broken. */
static bool
read_meta(const unsigned char *p, size_t n, TccModel *m)
{
	size_t size = meta_size(p, n);
	uint8_t *copy = size ? tcc_alloc(size) : NULL;
	TccErr err = {0};

	if (!copy)
		return false;
	memcpy(copy, p, size);
	*m = (TccModel){.abi_version = TCC_ABI_VERSION, .image_kind = TCC_IMAGE_SIM, .meta = copy,
		.meta_size = size, .weights_size = INT64_MAX, .plan = no_plan};
	if (tcc_model_check(m, &err) == 0)
		return true;
	free(copy);
	return false;
}

int
artefact_meta(const char *path, void (*fn)(void *, const TccModel *), void *user)
{
	const unsigned char *at;
	int count = 0;
	TccModel m;
	File f;

	if (!map(path, &f))
		return 0;
	for (at = f.p; (at = memmem(at, f.n - (size_t)(at - f.p), "TCCMETA1", 8)); at += 8) {
		if (!read_meta(at, f.n - (size_t)(at - f.p), &m))
			continue;
		count++;
		if (fn)
			fn(user, &m);
		free((void *)m.meta);
	}
	unmap(&f);
	return count;
}
