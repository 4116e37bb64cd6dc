// SPDX-License-Identifier: MIT
// The functions of an ELF file, by name or by where they begin.
#define _GNU_SOURCE
#include "tools/view/code.h"
#include "tools/view/view.h"

#include <gelf.h>
#include <libiberty/demangle.h>
#include <search.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A template can have a name of many pages. */
enum { MANGLED_MOST = 2048, NAME_MOST = 1024 };

static int compare_names(const void *left, const void *right)
{
	return strcmp(left, right);
}

const char *names_keep(void **names, const char *name)
{
	size_t length = name ? strlen(name) : 0;
	char *copy, **kept;

	if (!name)
		return NULL;
	copy = make_printable(memcpy(allocate(length + 1, 1), name, length), length);
	kept = tsearch(copy, names, compare_names);
	if (!kept)
		fail("no memory for the names of a file");
	if (*kept != copy)
		free(copy);
	return *kept;
}

struct demangled {
	char name[NAME_MOST];
	size_t used;
	jmp_buf too_long;
};

static void add_text(const char *text, size_t size, void *argument)
{
	struct demangled *demangled = argument;

	if (size >= sizeof(demangled->name) - demangled->used)
		longjmp(demangled->too_long, 1);
	memcpy(demangled->name + demangled->used, text, size);
	demangled->used += size;
}

typedef int (*demangler)(const char *name, int options, demangle_callbackref callback,
			 void *opaque);

/* A name of few letters can stand for one without an end. */
static __attribute__((noinline)) bool try_demangler(demangler by, const char *name,
						    struct demangled *demangled)
{
	memset(demangled->name, 0, sizeof(demangled->name));
	demangled->used = 0;
	return !setjmp(demangled->too_long) &&
	       by(name, DMGL_PARAMS | DMGL_ANSI, add_text, demangled);
}

const char *functions_demangle(const char *name)
{
	static struct demangled demangled;

	if (!name || name[0] != '_' || (name[1] != 'Z' && name[1] != 'R') ||
	    strnlen(name, MANGLED_MOST) == MANGLED_MOST)
		return name;
	return try_demangler(rust_demangle_callback, name, &demangled) ||
			       (name[1] == 'Z' &&
				try_demangler(cplus_demangle_v3_callback, name, &demangled))
		       ? demangled.name
		       : name;
}

bool function_is(const struct function *function, const char *name)
{
	size_t length = strlen(name);

	return !strncmp(function->name, name, length) &&
	       (!function->name[length] || function->name[length] == '(');
}

static int compare_functions(const void *left, const void *right)
{
	const struct function *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* A name with a dot, if its symbol has no type, is a label inside a function of nasm. */
static bool is_function(const GElf_Shdr *section, const GElf_Sym *symbol, const char *name)
{
	if (!name || !*name || !(section->sh_flags & SHF_EXECINSTR))
		return false;
	return GELF_ST_TYPE(symbol->st_info) == STT_FUNC ||
	       GELF_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC ||
	       (GELF_ST_TYPE(symbol->st_info) == STT_NOTYPE && !strchr(name, '.'));
}

static void read_symbols(struct functions *functions, Elf *elf, Elf_Scn *section,
			 const GElf_Shdr *header)
{
	Elf_Data *data = elf_getdata(section, NULL);
	size_t count = data && header->sh_entsize ? header->sh_size / header->sh_entsize : 0;

	functions->function = allocate(count + 1, sizeof(*functions->function));
	for (size_t i = 0; i < count; i++) {
		GElf_Sym symbol;
		GElf_Shdr holder;
		const char *name;

		if (!gelf_getsym(data, (int)i, &symbol) || symbol.st_shndx == SHN_UNDEF ||
		    symbol.st_shndx >= SHN_LORESERVE ||
		    !gelf_getshdr(elf_getscn(elf, symbol.st_shndx), &holder))
			continue;
		name = elf_strptr(elf, header->sh_link, symbol.st_name);
		if (is_function(&holder, &symbol, name))
			functions->function[functions->count++] = (struct function){
				symbol.st_value, symbol.st_value + symbol.st_size,
				holder.sh_addr + holder.sh_size,
				names_keep(&functions->names, functions_demangle(name))};
	}
}

/* Sorted, one a place; one without a size reaches to the next. */
static void arrange(struct functions *functions)
{
	struct function *function = functions->function;
	size_t kept = 0;

	qsort(function, functions->count, sizeof(*function), compare_functions);
	for (size_t i = 0; i < functions->count; i++) {
		bool sized = function[i].end > function[i].start;
		struct function *last = kept ? &function[kept - 1] : NULL;

		if (last && function[i].start == last->start &&
		    !(sized && last->end == last->start))
			continue;
		if (last && function[i].start == last->start)
			kept--;
		else if (last && !sized && function[i].start < last->end)
			continue; /* a label within a function */
		function[kept++] = function[i];
	}
	functions->count = kept;
	for (size_t i = 0; i < kept; i++)
		if (function[i].end == function[i].start)
			function[i].end = i + 1 < kept && function[i + 1].start < function[i].limit
						  ? function[i + 1].start
						  : function[i].limit;
}

static void read_table(struct functions *functions, Elf *elf, unsigned type)
{
	Elf_Scn *section = NULL;

	while (elf && !functions->function && (section = elf_nextscn(elf, section))) {
		GElf_Shdr header;

		if (gelf_getshdr(section, &header) && header.sh_type == type)
			read_symbols(functions, elf, section, &header);
	}
}

/* --- Functions without a name -------------------------------------------------------------------
 */

/* What is loaded at `address`, `size` bytes of it; NULL: not in the file. */
static const uint8_t *bytes_at(Elf *elf, uint64_t address, uint64_t size)
{
	size_t count = 0, file_size;
	const uint8_t *file = (const uint8_t *)elf_rawfile(elf, &file_size);

	elf_getphdrnum(elf, &count);
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr header;
		uint64_t offset;

		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD)
			continue;
		offset = address - header.p_vaddr;
		if (offset >= header.p_filesz || size > header.p_filesz - offset ||
		    header.p_offset > file_size || header.p_filesz > file_size - header.p_offset)
			continue;
		return file + header.p_offset + offset;
	}
	return NULL;
}

static int64_t signed_at(const uint8_t *bytes)
{
	int32_t number;

	memcpy(&number, bytes, sizeof(number));
	return number;
}

/* The innermost function that begins at or before `address`; NULL: none. */
static const struct function *find(const struct functions *functions, size_t count,
				   uint64_t address)
{
	size_t before = COUNT_FIRST(count, at, functions->function[at].start <= address);

	return before ? &functions->function[before - 1] : NULL;
}

/* What .eh_frame_hdr (Linux Standard Base 5.0, 10.6.2) begins with, as every linker writes it. */
enum {
	HEADER_BYTES = 12,
	ROW_BYTES = 8,
	FDE_BYTES = 16,
	VERSION = 1,
	UDATA4 = 3,
	DATAREL_SDATA4 = 0x3b
};

/* Exceptions are unwound by a table of all functions, in stripped files too: each has its start
 * there. */
static void add_unnamed(struct functions *functions, Elf *elf, const GElf_Phdr *table,
			const char *file)
{
	const uint8_t *header = bytes_at(elf, table->p_vaddr, HEADER_BYTES), *rows;
	size_t named = functions->count;
	uint32_t count;

	if (!header || header[0] != VERSION || header[2] != UDATA4 || header[3] != DATAREL_SDATA4)
		return;
	memcpy(&count, header + 8, sizeof(count));
	rows = bytes_at(elf, table->p_vaddr + HEADER_BYTES, (uint64_t)count * ROW_BYTES);
	if (!rows)
		return;
	functions->function =
		reallocate(functions->function, named + count + 1, sizeof(*functions->function));
	for (uint32_t i = 0; i < count; i++) {
		uint64_t start = table->p_vaddr + (uint64_t)signed_at(rows + ROW_BYTES * (size_t)i);
		uint64_t entry =
			table->p_vaddr + (uint64_t)signed_at(rows + ROW_BYTES * (size_t)i + 4);
		const uint8_t *fde = bytes_at(elf, entry, FDE_BYTES);
		const struct function *there = find(functions, named, start);
		uint64_t end = fde ? start + (uint32_t)signed_at(fde + 12) : start;
		char name[NAME_MOST];

		if (end <= start || (there && there->end > start))
			continue;
		snprintf(name, sizeof(name), "%.900s:0x%llx", file, (unsigned long long)start);
		functions->function[functions->count++] =
			(struct function){start, end, end, names_keep(&functions->names, name)};
	}
	if (functions->count > named)
		arrange(functions);
}

/* --- The kernel's -------------------------------------------------------------------------------
 */

/* /proc/kallsyms: address, type, name and module of each symbol; those of T and W are functions. */
static void read_kernel(struct functions *functions, const char *core)
{
	const char *slash = strrchr(core, '/');
	char *path = NULL, *line = NULL, name[512];
	size_t room = 0, allocated = 0;
	FILE *in;

	if (asprintf(&path, "%.*skallsyms", (int)(slash ? slash + 1 - core : 0), core) < 0)
		fail("no memory for the name of a file");
	in = fopen(path, "r");
	free(path);
	while (in && getline(&line, &allocated, in) > 0) {
		unsigned long long start;
		char type;

		if (sscanf(line, "%llx %c %511s", &start, &type, name) != 3 || !start ||
		    !strchr("tTwW", type))
			continue;
		if (functions->count == room) {
			room = room ? 2 * room : 4096;
			functions->function =
				reallocate(functions->function, room, sizeof(*functions->function));
		}
		functions->function[functions->count++] = (struct function){
			start, start, UINT64_MAX, names_keep(&functions->names, name)};
	}
	free(line);
	if (in)
		fclose(in);
}

void functions_read(struct functions *functions, Elf *elf, Elf *debug, const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t count = 0;
	GElf_Ehdr header;

	if (gelf_getehdr(elf, &header) && header.e_type == ET_CORE)
		read_kernel(functions, path);
	read_table(functions, elf, SHT_SYMTAB);
	read_table(functions, debug, SHT_SYMTAB);
	read_table(functions, elf, SHT_DYNSYM);
	if (functions->function)
		arrange(functions);
	elf_getphdrnum(elf, &count);
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr segment;

		if (gelf_getphdr(elf, (int)i, &segment) && segment.p_type == PT_GNU_EH_FRAME)
			add_unnamed(functions, elf, &segment, slash ? slash + 1 : path);
	}
}

void functions_free(struct functions *functions)
{
	free(functions->function);
	tdestroy(functions->names, free);
}
