// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "tools/view/code.h"

#include "lib/frame.h"
#include "tools/view/inlined.h"
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

#define PAGE 4096u

/* Where a row of a line table begins; one without a file ends a sequence. */
struct row {
	uint64_t address;
	struct line line;
};

struct code {
	uint64_t serial;
	uint64_t bias; /* what is added to the file's addresses */
	void *shifted; /* the same file at other addresses: the root of tsearch() */
	struct function *
		*moved; /* of such a one, of those functions that were asked for; or NULL */
	uint64_t entry;
	char *path;
	int fd;
	int debug_fd;
	Elf *elf, *debug; /* `debug`: of a file with its symbols and lines; NULL: there is none */
	Dwarf *dwarf;
	struct inlined *inlined;
	const uint8_t *file;
	size_t file_size;
	struct segment *segments;
	size_t segment_count;
	struct functions functions;
	struct row *rows;
	size_t row_count;
	const uint8_t *build_id;
	size_t build_id_size;
	uint32_t checksum;
};

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
			row.line.file = names_keep(&code->functions.names,
						   path_as_given(dwarf_linesrc(line, NULL, NULL)));
		add_row(code, room, row);
	}
}

static void read_lines(struct code *code)
{
	Dwarf_Off offset = 0, next;
	size_t header_size, room = 0;

	code->dwarf = dwarf_begin_elf(code->debug ? code->debug : code->elf, DWARF_C_READ, NULL);
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

/* Where Debian and others have what they stripped a file of; its addresses are the file's. */
static void open_debug(struct code *code)
{
	char path[128] = "/usr/lib/debug/.build-id/";
	size_t used = strlen(path);

	if (code->build_id_size < 2 || code->build_id_size > 20)
		return;
	for (size_t i = 0; i < code->build_id_size; i++)
		used += (size_t)snprintf(path + used, sizeof(path) - used,
					 i == 1 ? "/%02x" : "%02x", code->build_id[i]);
	snprintf(path + used, sizeof(path) - used, ".debug");
	code->debug_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (code->debug_fd >= 0)
		code->debug = elf_begin(code->debug_fd, ELF_C_READ_MMAP, NULL);
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
	code->entry = header.e_entry;
	return NULL;
}

static uint64_t opened;

struct code *code_open(const char *path, char *error, size_t size)
{
	struct code *code = allocate(1, sizeof(*code));
	const char *wrong;

	code->serial = ++opened;
	code->debug_fd = -1;
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
	read_notes(code);
	open_debug(code);
	functions_read(&code->functions, code->elf, code->debug, code->path);
	read_lines(code);
	code->inlined = inlined_open(code->dwarf, &code->functions.names);
	return code;
}

static int compare_biases(const void *left, const void *right)
{
	const struct code *a = left, *b = right;

	return (a->bias > b->bias) - (a->bias < b->bias);
}

/* The tables stay the file's: a program has its libraries at other addresses each time it runs. */
static const struct code *shift(struct code *code, uint64_t bias)
{
	struct code key = {.bias = bias}, *shifted,
		    **found = tfind(&key, &code->shifted, compare_biases);

	if (found)
		return *found;
	shifted = allocate(1, sizeof(*shifted));
	*shifted = *code;
	shifted->serial = ++opened;
	shifted->bias = bias;
	shifted->moved = allocate(code->functions.count, sizeof(*shifted->moved));
	if (!tsearch(shifted, &code->shifted, compare_biases))
		fail("no memory for the addresses of %s", code->path);
	return shifted;
}

const struct code *code_mapped(struct code *code, uint64_t address, uint64_t offset)
{
	const struct segment *segment = code->segments, *end = segment + code->segment_count;
	uint64_t bias;

	/* A map begins with the page in which the segment does. */
	while (segment < end && !(segment->executable && offset + PAGE > segment->offset &&
				  offset < segment->offset + segment->file_size))
		segment++;
	if (segment == end)
		return NULL;
	bias = address - offset + segment->offset - segment->address;
	return bias ? shift(code, bias) : code;
}

static void free_shifted(void *node)
{
	struct code *shifted = node;

	for (size_t i = 0; i < shifted->functions.count; i++)
		free(shifted->moved[i]);
	free(shifted->moved);
	free(shifted);
}

void code_close(struct code *code)
{
	if (!code)
		return;
	tdestroy(code->shifted, free_shifted);
	inlined_free(code->inlined);
	if (code->dwarf)
		dwarf_end(code->dwarf);
	if (code->debug)
		elf_end(code->debug);
	if (code->debug_fd >= 0)
		close(code->debug_fd);
	if (code->elf)
		elf_end(code->elf);
	if (code->fd >= 0)
		close(code->fd);
	free(code->segments);
	free(code->rows);
	functions_free(&code->functions);
	free(code->path);
	free(code);
}

uint64_t code_entry(const struct code *code)
{
	return code->entry + code->bias;
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
	segment->address += code->bias;
	return true;
}

const uint8_t *code_bytes(const struct code *code, uint64_t address, size_t *left)
{
	for (size_t i = 0; i < code->segment_count; i++) {
		const struct segment *segment = &code->segments[i];
		uint64_t offset = address - code->bias - segment->address;

		if (segment->executable && offset < segment->file_size) {
			*left = segment->file_size - offset;
			return code->file + segment->offset + offset;
		}
	}
	return NULL;
}

const struct function *code_function(const struct code *code, uint64_t address)
{
	size_t at = COUNT_FIRST(code->functions.count, n,
				code->functions.function[n].start <= address - code->bias);
	const struct function *function = at ? &code->functions.function[at - 1] : NULL;
	struct function *moved;

	if (!function || address - code->bias >= function->end)
		return NULL;
	if (!code->moved)
		return function;
	moved = code->moved[at - 1];
	if (!moved) {
		moved = code->moved[at - 1] = allocate(1, sizeof(*moved));
		*moved = (struct function){function->start + code->bias, function->end + code->bias,
					   function->limit + code->bias, function->name};
	}
	return moved;
}

uint64_t code_symbol(const struct code *code, const char *name)
{
	for (size_t i = 0; i < code->functions.count; i++)
		if (function_is(&code->functions.function[i], name))
			return code->functions.function[i].start;
	return 0;
}

bool code_has_symbols(const struct code *code)
{
	return code->functions.count > 0;
}

struct line code_line(const struct code *code, uint64_t address)
{
	size_t count =
		COUNT_FIRST(code->row_count, n, code->rows[n].address <= address - code->bias);

	return count ? code->rows[count - 1].line : (struct line){0};
}

const struct inline_frame *code_inlined(const struct code *code, uint64_t address)
{
	return inlined_at(code->inlined, address - code->bias);
}
