/*
 * An ELF object that holds the weights under hidden symbols: an assembler's .incbin would copy the
 * bytes twice more. 64-bit, little-endian, no relocations.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include "codegen.h"

#ifndef EM_RISCV
#define EM_RISCV 243
#endif

enum { S_NULL, S_DATA, S_SYMTAB, S_STRTAB, S_NAMES, S_STACK, NSECTIONS };

/* Offsets of these in the table of section names. */
static const char names[] = "\0.rodata.weights\0.symtab\0.strtab\0.shstrtab\0.note.GNU-stack";
enum { N_DATA = 1, N_SYMTAB = 17, N_STRTAB = 25, N_NAMES = 33, N_STACK = 43 };

static Elf64_Ehdr
file_header(const char *triple, uint64_t sections)
{
	Elf64_Ehdr h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_REL, .e_machine = EM_X86_64, .e_version = EV_CURRENT, .e_shoff = sections,
		.e_ehsize = sizeof h, .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = NSECTIONS,
		.e_shstrndx = S_NAMES};

	if (strncmp(triple, "aarch64", 7) == 0)
		h.e_machine = EM_AARCH64;
	if (strncmp(triple, "riscv64", 7) == 0) {
		h.e_machine = EM_RISCV;
		h.e_flags = 5;         /* compressed instructions, doubles in registers: lp64d */
	}
	return h;
}

/* Symbols for the whole section, and their names: a 0, then one after the other. */
static void
symbols(int n, const char *const *symbol, uint64_t size, Elf64_Sym *sym, char *strs)
{
	uint32_t at = 1;
	int i;

	memset(sym, 0, sizeof *sym);
	strs[0] = 0;
	for (i = 0; i < n; i++) {
		sym[i + 1] = (Elf64_Sym){.st_name = at, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
			.st_other = STV_HIDDEN, .st_shndx = S_DATA, .st_size = size};
		memcpy(strs + at, symbol[i], strlen(symbol[i]) + 1);
		at += (uint32_t)strlen(symbol[i]) + 1;
	}
}

int
elf_write_weights(const Meta *meta, const char *triple, int n, const char *const *symbol, FILE *fp)
{
	uint64_t size = (uint64_t)meta->weights_size, at = 64 + size, pad = (8 - at % 8) % 8, nstrs = 1;
	uint64_t syms = at + pad, nsyms = ((uint64_t)n + 1) * sizeof(Elf64_Sym), strs = syms + nsyms,
		nms, sections;
	Elf64_Sym *sym = malloc(nsyms);
	Elf64_Ehdr h;
	char *text;
	bool ok;
	int i;

	for (i = 0; i < n; i++)
		nstrs += strlen(symbol[i]) + 1;
	text = malloc(nstrs);
	if (!sym || !text)
		abort();
	symbols(n, symbol, size, sym, text);
	nms = strs + nstrs;
	sections = (nms + sizeof names + 7) / 8 * 8;
	h = file_header(triple, sections);
	Elf64_Shdr s[NSECTIONS] = {
		[S_DATA] = {.sh_name = N_DATA, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC,
			.sh_offset = 64, .sh_size = size, .sh_addralign = 64},
		[S_SYMTAB] = {.sh_name = N_SYMTAB, .sh_type = SHT_SYMTAB, .sh_offset = syms,
			.sh_size = nsyms, .sh_link = S_STRTAB, .sh_info = 1, .sh_addralign = 8,
			.sh_entsize = sizeof *sym},
		[S_STRTAB] = {.sh_name = N_STRTAB, .sh_type = SHT_STRTAB, .sh_offset = strs,
			.sh_size = nstrs, .sh_addralign = 1},
		[S_NAMES] = {.sh_name = N_NAMES, .sh_type = SHT_STRTAB, .sh_offset = nms,
			.sh_size = sizeof names, .sh_addralign = 1},
		[S_STACK] = {.sh_name = N_STACK, .sh_type = SHT_PROGBITS, .sh_offset = nms,
			.sh_addralign = 1},
	};
	static const char zero[64];

	_Static_assert(sizeof(Elf64_Ehdr) == 64, "weights follow the header, aligned");
	ok = fwrite(&h, sizeof h, 1, fp) == 1 && meta_write_weights(meta, fp) == 0;
	ok = ok && fwrite(zero, 1, pad, fp) == pad && fwrite(sym, 1, nsyms, fp) == nsyms;
	ok = ok && fwrite(text, 1, nstrs, fp) == nstrs && fwrite(names, sizeof names, 1, fp) == 1;
	pad = sections - nms - sizeof names;
	ok = ok && fwrite(zero, 1, pad, fp) == pad && fwrite(s, sizeof s, 1, fp) == 1;
	free(sym);
	free(text);
	return ok ? 0 : -1;
}
