// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "tools/view/code.h"

#include "lib/frame.h"
#include "tools/view/view.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where a row of a line table begins; one without a file ends a sequence. */
struct row {
	uint64_t address;
	struct line line;
};

struct code {
	uint64_t serial;
	char *path;
	int fd;
	Elf *elf;
	Dwarf *dwarf;
	const uint8_t *file;
	size_t file_size;
	struct segment *segments;
	size_t segment_count;
	struct function *functions;
	size_t function_count;
	struct row *rows;
	size_t row_count;
	const uint8_t *build_id;
	size_t build_id_size;
	uint32_t checksum;
	void *names; /* of functions and source files: the root of tsearch() */
};

static int compare_names(const void *left, const void *right)
{
	return strcmp(left, right);
}

/* `name` of the file in printable characters, one copy for all that are the same; NULL: none. */
static const char *keep_name(struct code *code, const char *name)
{
	size_t length = name ? strlen(name) : 0;
	char *copy, **kept;

	if (!name)
		return NULL;
	copy = make_printable(memcpy(allocate(length + 1, 1), name, length), length);
	kept = tsearch(copy, &code->names, compare_names);
	if (!kept)
		fail("no memory for the names of %s", code->path);
	if (*kept != copy)
		free(copy);
	return *kept;
}

static int compare_functions(const void *left, const void *right)
{
	const struct function *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* At one address the end of a sequence is before the row that begins the next. */
static int compare_rows(const void *left, const void *right)
{
	const struct row *a = left, *b = right;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return !!a->line.file - !!b->line.file;
}

static void read_segments(struct code *code)
{
	size_t count = 0;

	elf_getphdrnum(code->elf, &count);
	code->segments = allocate(count + 1, sizeof(*code->segments));
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr header;

		if (!gelf_getphdr(code->elf, (int)i, &header) || header.p_type != PT_LOAD ||
		    header.p_offset > code->file_size ||
		    header.p_filesz > code->file_size - header.p_offset)
			continue;
		code->segments[code->segment_count++] =
			(struct segment){header.p_vaddr, header.p_offset, header.p_filesz,
					 header.p_memsz, header.p_flags & PF_X};
	}
}

/* A name with a dot, if its symbol has no type, is a label inside a function of nasm. */
static bool is_function(const GElf_Shdr *section, const GElf_Sym *symbol, const char *name)
{
	if (!name || !*name || !(section->sh_flags & SHF_EXECINSTR))
		return false;
	return GELF_ST_TYPE(symbol->st_info) == STT_FUNC ||
	       (GELF_ST_TYPE(symbol->st_info) == STT_NOTYPE && !strchr(name, '.'));
}

static void read_symbols(struct code *code, Elf_Scn *section, const GElf_Shdr *header)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t count = data && header->sh_entsize ? header->sh_size / header->sh_entsize : 0;

	code->functions = allocate(count + 1, sizeof(*code->functions));
	for (size_t i = 0; i < count; i++) {
		GElf_Sym symbol;
		GElf_Shdr holder;
		const char *name;

		if (!gelf_getsym(data, (int)i, &symbol) || symbol.st_shndx >= SHN_LORESERVE ||
		    !gelf_getshdr(elf_getscn(code->elf, symbol.st_shndx), &holder))
			continue;
		name = elf_strptr(code->elf, header->sh_link, symbol.st_name);
		if (is_function(&holder, &symbol, name))
			code->functions[code->function_count++] = (struct function){
				symbol.st_value, symbol.st_value + symbol.st_size,
				holder.sh_addr + holder.sh_size, keep_name(code, name)};
	}
}

/* Sorted, one a place; one without a size reaches to the next. */
static void arrange_functions(struct code *code)
{
	struct function *functions = code->functions;
	size_t kept = 0;

	qsort(functions, code->function_count, sizeof(*functions), compare_functions);
	for (size_t i = 0; i < code->function_count; i++) {
		bool sized = functions[i].end > functions[i].start;
		struct function *last = kept ? &functions[kept - 1] : NULL;

		if (last && functions[i].start == last->start &&
		    !(sized && last->end == last->start))
			continue;
		if (last && functions[i].start == last->start)
			kept--;
		else if (last && !sized && functions[i].start < last->end)
			continue; /* a label within a function */
		functions[kept++] = functions[i];
	}
	code->function_count = kept;
	for (size_t i = 0; i < kept; i++)
		if (functions[i].end == functions[i].start)
			functions[i].end =
				i + 1 < kept && functions[i + 1].start < functions[i].limit
					? functions[i + 1].start
					: functions[i].limit;
}

static void read_sections(struct code *code)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(code->elf, section))) {
		GElf_Shdr header;

		if (gelf_getshdr(section, &header) && header.sh_type == SHT_SYMTAB &&
		    !code->functions)
			read_symbols(code, section, &header);
	}
	if (code->functions)
		arrange_functions(code);
}

static void read_notes(struct code *code)
{
	size_t count = 0;

	elf_getphdrnum(code->elf, &count);
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr header;
		Elf_Data *data;
		GElf_Nhdr note;
		size_t at = 0, name, contents, next;

		if (!gelf_getphdr(code->elf, (int)i, &header) || header.p_type != PT_NOTE)
			continue;
		data = elf_getdata_rawchunk(code->elf, (int64_t)header.p_offset, header.p_filesz,
					    ELF_T_NHDR);
		for (; data && (next = gelf_getnote(data, at, &note, &name, &contents)) > 0;
		     at = next)
			if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
			    !memcmp((char *)data->d_buf + name, "GNU", 4)) {
				code->build_id = (uint8_t *)data->d_buf + contents;
				code->build_id_size = note.n_descsz;
			}
	}
}

static void add_row(struct code *code, size_t *room, struct row row)
{
	if (code->row_count == *room) {
		*room = *room ? 2 * *room : 4096;
		code->rows = reallocate(code->rows, *room, sizeof(*code->rows));
	}
	code->rows[code->row_count++] = row;
}

/* nasm puts the directory and "//" before the path that it was given. */
static const char *path_as_given(const char *path)
{
	const char *twice = path ? strstr(path, "//") : NULL;

	return twice ? twice + 2 : path;
}

static void read_unit(struct code *code, Dwarf_Die *unit, size_t *room)
{
	Dwarf_Lines *lines;
	size_t count;

	if (dwarf_getsrclines(unit, &lines, &count))
		return;
	for (size_t i = 0; i < count; i++) {
		Dwarf_Line *line = dwarf_onesrcline(lines, i);
		struct row row = {0};
		bool ends = false;

		if (dwarf_lineaddr(line, &row.address) || dwarf_lineendsequence(line, &ends))
			continue;
		dwarf_lineno(line, &row.line.number);
		if (!ends)
			row.line.file =
				keep_name(code, path_as_given(dwarf_linesrc(line, NULL, NULL)));
		add_row(code, room, row);
	}
}

static void read_lines(struct code *code)
{
	Dwarf_Off offset = 0, next;
	size_t header_size, room = 0;

	code->dwarf = dwarf_begin_elf(code->elf, DWARF_C_READ, NULL);
	while (code->dwarf &&
	       !dwarf_nextcu(code->dwarf, offset, &next, &header_size, NULL, NULL, NULL)) {
		Dwarf_Die unit;

		if (dwarf_offdie(code->dwarf, offset + header_size, &unit))
			read_unit(code, &unit, &room);
		offset = next;
	}
	if (code->rows)
		qsort(code->rows, code->row_count, sizeof(*code->rows), compare_rows);
}

/* NULL, or what is wrong with the file. */
static const char *open_elf(struct code *code)
{
	GElf_Ehdr header;

	elf_version(EV_CURRENT);
	code->fd = open(code->path, O_RDONLY | O_CLOEXEC);
	if (code->fd < 0)
		return strerror(errno);
	code->elf = elf_begin(code->fd, ELF_C_READ_MMAP, NULL);
	code->file = code->elf ? (const uint8_t *)elf_rawfile(code->elf, &code->file_size) : NULL;
	if (!code->file || elf_kind(code->elf) != ELF_K_ELF || !gelf_getehdr(code->elf, &header))
		return "is not an ELF file";
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64)
		return "is not an ELF file for x86-64 in 64-bit format";
	return NULL;
}

struct code *code_open(const char *path, char *error, size_t size)
{
	static uint64_t opened;
	struct code *code = allocate(1, sizeof(*code));
	const char *wrong;

	code->serial = ++opened;

	code->path = strdup(path);
	wrong = open_elf(code);
	if (wrong) {
		snprintf(error, size, "%s: %s", path, wrong);
		code_close(code);
		return NULL;
	}
	read_segments(code);
	for (size_t i = 0; i < code->segment_count; i++)
		code->checksum = crc32c(code->checksum, code->file + code->segments[i].offset,
					code->segments[i].file_size);
	read_sections(code);
	read_notes(code);
	read_lines(code);
	return code;
}

void code_close(struct code *code)
{
	if (!code)
		return;
	if (code->dwarf)
		dwarf_end(code->dwarf);
	if (code->elf)
		elf_end(code->elf);
	if (code->fd >= 0)
		close(code->fd);
	free(code->segments);
	free(code->functions);
	free(code->rows);
	tdestroy(code->names, free);
	free(code->path);
	free(code);
}

const char *code_path(const struct code *code)
{
	return code->path;
}

uint64_t code_serial(const struct code *code)
{
	return code->serial;
}

const uint8_t *code_build_id(const struct code *code, size_t *size)
{
	*size = code->build_id_size;
	return code->build_id;
}

uint32_t code_checksum(const struct code *code)
{
	return code->checksum;
}

bool code_segment(const struct code *code, unsigned index, struct segment *segment)
{
	if (index >= code->segment_count)
		return false;
	*segment = code->segments[index];
	return true;
}

const uint8_t *code_bytes(const struct code *code, uint64_t address, size_t *left)
{
	for (size_t i = 0; i < code->segment_count; i++) {
		const struct segment *segment = &code->segments[i];
		uint64_t offset = address - segment->address;

		if (segment->executable && offset < segment->file_size) {
			*left = segment->file_size - offset;
			return code->file + segment->offset + offset;
		}
	}
	return NULL;
}

/* How many of the first elements begin at or below `address`. */
#define COUNT_UP_TO(array, count, member, address)                                                 \
	({                                                                                         \
		size_t low_ = 0, high_ = (count);                                                  \
		while (low_ < high_) {                                                             \
			size_t middle_ = low_ + (high_ - low_) / 2;                                \
			if ((array)[middle_].member <= (address))                                  \
				low_ = middle_ + 1;                                                \
			else                                                                       \
				high_ = middle_;                                                   \
		}                                                                                  \
		low_;                                                                              \
	})

const struct function *code_function(const struct code *code, uint64_t address)
{
	size_t count = COUNT_UP_TO(code->functions, code->function_count, start, address);

	return count && address < code->functions[count - 1].end ? &code->functions[count - 1]
								 : NULL;
}

uint64_t code_symbol(const struct code *code, const char *name)
{
	for (size_t i = 0; i < code->function_count; i++)
		if (!strcmp(code->functions[i].name, name))
			return code->functions[i].start;
	return 0;
}

bool code_has_symbols(const struct code *code)
{
	return code->function_count > 0;
}

struct line code_line(const struct code *code, uint64_t address)
{
	size_t count = COUNT_UP_TO(code->rows, code->row_count, address, address);

	return count ? code->rows[count - 1].line : (struct line){0};
}
