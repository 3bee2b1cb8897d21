/*
 * Source lines of addresses, from the .debug_line section (DWARF 4, sections 6.2.4 and 6.2.5) of
 * the shared object that holds them. Read only when there is a finding to report; the object is
 * our own compiler's, yet every offset is checked, for a missing line must not become a crash.
 */
#define _GNU_SOURCE
#include "sim_impl.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

/* A piece of the file; reads past the end give 0 and set bad. */
typedef struct Bytes {
	const uint8_t *p, *end;
	bool bad;
} Bytes;

static uint64_t take(Bytes *b, int n)
{
	uint64_t v = 0;

	if (b->end - b->p < n) {
		b->bad = true;
		b->p = b->end;
		return 0;
	}
	for (int i = 0; i < n; i++)
		v |= (uint64_t)*b->p++ << 8 * i;
	return v;
}

static uint64_t uleb(Bytes *b)
{
	uint64_t v = 0, byte;
	int shift = 0;

	do {
		byte = take(b, 1);
		if (shift < 64)
			v |= (byte & 127) << shift;
		shift += 7;
	} while (byte & 128);
	return v;
}

static int64_t sleb(Bytes *b)
{
	uint64_t v = 0, byte;
	int shift = 0;

	do {
		byte = take(b, 1);
		if (shift < 64)
			v |= (byte & 127) << shift;
		shift += 7;
	} while (byte & 128);
	return (int64_t)(byte & 64 && shift < 64 ? v | ~(uint64_t)0 << shift : v);
}

static const char *text(Bytes *b)
{
	const uint8_t *s = b->p, *nul = memchr(s, 0, (size_t)(b->end - s));

	b->bad |= !nul;
	b->p = nul ? nul + 1 : b->end;
	return nul ? (const char *)s : "";
}

static const char *file_name(Bytes files, uint64_t index)
{
	const char *name = "";

	for (uint64_t i = 0; i < index && !files.bad; i++) {
		name = text(&files);
		if (!*name)
			return "";
		for (int k = 0; k < 3; k++)
			uleb(&files);
	}
	const char *slash = strrchr(name, '/');
	return slash ? slash + 1 : name;
}

typedef struct Row {
	uint64_t address, file;
	int64_t line;
} Row;

/* Runs one unit's program; true when a row covers the address. */
static bool run_program(Bytes *b, uint64_t want, const uint8_t *lengths, int base, int8_t line_base,
	uint8_t line_range, uint8_t step, Row *found)
{
	Row row = { 0, 1, 1 }, last = row;
	bool have = false;

	while (b->p < b->end && !b->bad) {
		int op = (int)take(b, 1);
		bool emit = false, end = false;

		if (op >= base) {
			row.address += (uint64_t)((op - base) / line_range) * step;
			row.line += line_base + (op - base) % line_range;
			emit = true;
		} else if (op == 0) {
			uint64_t size = uleb(b);
			Bytes ext = { b->p, b->end, false };

			if (size > (uint64_t)(b->end - b->p))
				return false;
			ext.end = b->p + size;
			b->p += size;
			switch (take(&ext, 1)) {
			case 1: emit = end = true; break;
			case 2: row.address = take(&ext, 8); break;
			}
		} else {
			switch (op) {
			case 1: emit = true; break;
			case 2: row.address += uleb(b) * step; break;
			case 3: row.line += sleb(b); break;
			case 4: row.file = uleb(b); break;
			case 8: row.address += (uint64_t)((255 - base) / line_range) * step; break;
			case 9: row.address += take(b, 2); break;
			default:
				for (int i = 0; i < lengths[op - 1]; i++)
					uleb(b);
			}
		}
		if (!emit)
			continue;
		if (have && want >= last.address && want < row.address && last.line > 0) {
			*found = last;
			return true;
		}
		last = row;
		have = !end;
		if (end)
			row = (Row){ 0, 1, 1 };
	}
	return false;
}

static bool unit(Bytes *all, uint64_t want, char *buf, size_t size)
{
	uint64_t length = take(all, 4);

	if (length > (uint64_t)(all->end - all->p)) {
		all->bad = true;        /* also the 64-bit form, which nobody writes for us */
		return false;
	}
	Bytes b = { all->p, all->p + length, false };
	all->p = b.end;
	if (take(&b, 2) != 4)
		return false;
	uint64_t header = take(&b, 4);
	if (header > (uint64_t)(b.end - b.p))
		return false;
	const uint8_t *program = b.p + header;
	uint8_t step = (uint8_t)take(&b, 1);
	take(&b, 2);                    /* operations per instruction; default is_stmt */
	int8_t line_base = (int8_t)take(&b, 1);
	uint8_t line_range = (uint8_t)take(&b, 1);
	int base = (int)take(&b, 1);
	uint8_t lengths[256] = { 0 };
	for (int i = 0; i + 1 < base; i++)
		lengths[i] = (uint8_t)take(&b, 1);
	while (!b.bad && *text(&b))     /* folders */
		;
	Bytes files = b;
	Row row;
	b.p = program;
	if (b.bad || !line_range || !base ||
	    !run_program(&b, want, lengths, base, line_base, line_range, step, &row))
		return false;
	snprintf(buf, size, "%s:%lld", file_name(files, row.file), (long long)row.line);
	return true;
}

static uint8_t *read_file(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = NULL;
	long n;

	if (f && !fseek(f, 0, SEEK_END) && (n = ftell(f)) > 0 && !fseek(f, 0, SEEK_SET)) {
		data = malloc((size_t)n);
		*size = data ? fread(data, 1, (size_t)n, f) : 0;
	}
	if (f)
		fclose(f);
	return data;
}

/* The section's bytes; an empty piece when there is none. */
static Bytes section(const uint8_t *file, size_t size, const char *name)
{
	Elf64_Ehdr h;
	Elf64_Shdr s, strings;
	Bytes none = { file, file, true };

	if (size < sizeof h)
		return none;
	memcpy(&h, file, sizeof h);
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_shentsize != sizeof s || h.e_shoff > size ||
	    (uint64_t)h.e_shnum * sizeof s > size - h.e_shoff || h.e_shstrndx >= h.e_shnum)
		return none;
	memcpy(&strings, file + h.e_shoff + h.e_shstrndx * sizeof s, sizeof s);
	if (strings.sh_offset > size || strings.sh_size > size - strings.sh_offset)
		return none;
	for (int i = 0; i < h.e_shnum; i++) {
		size_t n = strlen(name) + 1;

		memcpy(&s, file + h.e_shoff + (size_t)i * sizeof s, sizeof s);
		if (s.sh_name > strings.sh_size || strings.sh_size - s.sh_name < n ||
		    memcmp(file + strings.sh_offset + s.sh_name, name, n))
			continue;
		if (s.sh_offset > size || s.sh_size > size - s.sh_offset)
			return none;
		return (Bytes){ file + s.sh_offset, file + s.sh_offset + s.sh_size, false };
	}
	return none;
}

bool sim_line_of(const void *pc, char *buf, size_t size)
{
	Dl_info info;
	size_t n = 0;
	bool ok = false;

	if (!pc || !dladdr(pc, &info) || !info.dli_fname)
		return false;
	uint8_t *file = read_file(info.dli_fname, &n);
	if (!file)
		return false;
	Bytes lines = section(file, n, ".debug_line");
	uint64_t want = (uint64_t)((const uint8_t *)pc - (const uint8_t *)info.dli_fbase) - 1;
	while (lines.p < lines.end && !lines.bad && !ok)
		ok = unit(&lines, want, buf, size);
	free(file);
	return ok;
}
