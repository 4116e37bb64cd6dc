// SPDX-License-Identifier: MIT
/* Layout and constants: System V ABI, chapters 4 and 5, with the ELF-64 object file format. */
#include "lib/elf.h"

#include "lib/string.h"

struct elf64_header {
	uint8_t magic[4], class, data, version, os_abi, padding[8];
	uint16_t type, machine;
	uint32_t version2;
	uint64_t entry, program_headers, section_headers;
	uint32_t flags;
	uint16_t header_size, program_header_size, program_header_count;
	uint16_t section_header_size, section_header_count, section_names;
};
_Static_assert(sizeof(struct elf64_header) == 64, "Elf64_Ehdr");

struct elf64_program_header {
	uint32_t type, flags;
	uint64_t offset, virtual_address, physical_address, file_size, memory_size, align;
};
_Static_assert(sizeof(struct elf64_program_header) == 56, "Elf64_Phdr");

struct elf32_header {
	uint8_t magic[4], class, data, version, os_abi, padding[8];
	uint16_t type, machine;
	uint32_t version2, entry, program_headers, section_headers, flags;
	uint16_t header_size, program_header_size, program_header_count;
	uint16_t section_header_size, section_header_count, section_names;
};
_Static_assert(sizeof(struct elf32_header) == 52, "Elf32_Ehdr");

struct elf32_program_header {
	uint32_t type, offset, virtual_address, physical_address, file_size, memory_size, flags,
		align;
};
_Static_assert(sizeof(struct elf32_program_header) == 32, "Elf32_Phdr");

enum { CLASS_32 = 1, CLASS_64 = 2, LITTLE_ENDIAN = 1, VERSION_CURRENT = 1 };
enum { TYPE_EXECUTABLE = 2, MACHINE_386 = 3, MACHINE_X86_64 = 62, SEGMENT_LOAD = 1 };
enum { FLAG_EXECUTE = 1, FLAG_WRITE = 2, FLAG_READ = 4 };

static bool within(uint64_t offset, uint64_t length, uint64_t size)
{
	return offset <= size && length <= size - offset;
}

static bool wraps(uint64_t start, uint64_t length)
{
	return start + length < start;
}

static struct elf64_header widen_header(const struct elf32_header *from)
{
	struct elf64_header header = {
		.class = from->class,
		.data = from->data,
		.version = from->version,
		.type = from->type,
		.machine = from->machine,
		.entry = from->entry,
		.program_headers = from->program_headers,
		.program_header_size = from->program_header_size,
		.program_header_count = from->program_header_count,
	};

	memcpy(header.magic, from->magic, sizeof(header.magic));
	return header;
}

static struct elf64_program_header widen_program_header(const struct elf32_program_header *from)
{
	return (struct elf64_program_header){
		.type = from->type,
		.flags = from->flags,
		.offset = from->offset,
		.virtual_address = from->virtual_address,
		.physical_address = from->physical_address,
		.file_size = from->file_size,
		.memory_size = from->memory_size,
	};
}

static const char *check_header(const struct elf64_header *header, bool is_32, size_t size)
{
	size_t each =
		is_32 ? sizeof(struct elf32_program_header) : sizeof(struct elf64_program_header);

	if (memcmp(header->magic, "\177ELF", 4) != 0)
		return "not an ELF file";
	if (header->class != (is_32 ? CLASS_32 : CLASS_64) || header->data != LITTLE_ENDIAN ||
	    header->machine != (is_32 ? MACHINE_386 : MACHINE_X86_64))
		return is_32 ? "not an ELF32 file for i386" : "not an ELF64 file for x86-64";
	if (header->version != VERSION_CURRENT || header->type != TYPE_EXECUTABLE)
		return "not an executable ELF file";
	if (header->program_header_size != each)
		return "ELF program headers of an unknown size";
	if (!within(header->program_headers, header->program_header_count * each, size))
		return "ELF program headers outside the file";
	return NULL;
}

/* Sections, and so the program headers, may be at any alignment in memory: copy. */
static struct elf64_program_header read_program_header(const struct elf_image *elf, unsigned i)
{
	struct elf64_program_header result;
	struct elf32_program_header narrow;

	if (elf->is_32) {
		memcpy(&narrow, elf->base + elf->headers + i * sizeof(narrow), sizeof(narrow));
		return widen_program_header(&narrow);
	}
	memcpy(&result, elf->base + elf->headers + i * sizeof(result), sizeof(result));
	return result;
}

static const char *check_segment(const struct elf64_program_header *segment, size_t size)
{
	if (segment->file_size > segment->memory_size)
		return "ELF segment larger in the file than in memory";
	if (!within(segment->offset, segment->file_size, size))
		return "ELF segment outside the file";
	if (wraps(segment->virtual_address, segment->memory_size) ||
	    wraps(segment->physical_address, segment->memory_size))
		return "ELF segment beyond the address space";
	return NULL;
}

/* All segments; finds where the entry point is loaded. */
static const char *check_segments(struct elf_image *elf)
{
	bool entry_found = false;

	for (unsigned i = 0; i < elf->header_count; i++) {
		struct elf64_program_header segment = read_program_header(elf, i);
		const char *fault;

		if (segment.type != SEGMENT_LOAD)
			continue;
		fault = check_segment(&segment, elf->size);
		if (fault)
			return fault;
		if ((segment.flags & FLAG_EXECUTE) &&
		    elf->entry - segment.virtual_address < segment.file_size) {
			elf->entry_physical =
				elf->entry - segment.virtual_address + segment.physical_address;
			entry_found = true;
		}
	}
	return entry_found ? NULL : "ELF entry point outside the executable segments";
}

static const char *open_class(struct elf_image *elf, const void *image, size_t size, bool is_32)
{
	struct elf64_header header;
	struct elf32_header narrow;
	const char *fault;

	if (size < (is_32 ? sizeof(narrow) : sizeof(header)))
		return "too short for an ELF file";
	if (is_32) {
		memcpy(&narrow, image, sizeof(narrow));
		header = widen_header(&narrow);
	} else {
		memcpy(&header, image, sizeof(header));
	}
	fault = check_header(&header, is_32, size);
	if (fault)
		return fault;
	*elf = (struct elf_image){.base = image,
				  .size = size,
				  .entry = header.entry,
				  .headers = header.program_headers,
				  .header_count = header.program_header_count,
				  .is_32 = is_32};
	return check_segments(elf);
}

const char *elf_open(struct elf_image *elf, const void *image, size_t size)
{
	return open_class(elf, image, size, false);
}

const char *elf_open_either(struct elf_image *elf, const void *image, size_t size)
{
	const size_t class_at = offsetof(struct elf32_header, class);
	bool is_32 = size > class_at && ((const uint8_t *)image)[class_at] == CLASS_32;

	return open_class(elf, image, size, is_32);
}

bool elf_next_segment(const struct elf_image *elf, unsigned *cursor, struct elf_segment *segment)
{
	while (*cursor < elf->header_count) {
		struct elf64_program_header header = read_program_header(elf, (*cursor)++);

		if (header.type != SEGMENT_LOAD || !header.memory_size)
			continue;
		*segment = (struct elf_segment){
			.virtual_address = header.virtual_address,
			.physical_address = header.physical_address,
			.memory_size = header.memory_size,
			.data = elf->base + header.offset,
			.file_size = header.file_size,
			.readable = header.flags & FLAG_READ,
			.writable = header.flags & FLAG_WRITE,
			.executable = header.flags & FLAG_EXECUTE,
		};
		return true;
	}
	return false;
}
