// SPDX-License-Identifier: MIT
/* Layout and constants: System V ABI, chapters 4 and 5, with the ELF-64 object file format. */
#include "lib/elf.h"

#include "lib/string.h"

/* A header of either class: this, three words of the class, and struct header_end. */
struct header_start {
	uint8_t magic[4], class, data, version, os_abi, padding[8];
	uint16_t type, machine;
	uint32_t version2;
};
enum { ENTRY, PROGRAM_HEADERS, SECTION_HEADERS, HEADER_WORDS };
struct header_end {
	uint32_t flags;
	uint16_t header_size, program_header_size, program_header_count;
	uint16_t section_header_size, section_header_count, section_names;
};
_Static_assert(sizeof(struct header_start) + HEADER_WORDS * 8 + sizeof(struct header_end) == 64,
	       "Elf64_Ehdr");
_Static_assert(sizeof(struct header_start) + HEADER_WORDS * 4 + sizeof(struct header_end) == 52,
	       "Elf32_Ehdr");

/* Words of a program header, whose first is the type, in class 64 with the flags. */
enum { OFFSET = 1, VIRTUAL_ADDRESS, PHYSICAL_ADDRESS, FILE_SIZE, MEMORY_SIZE };
enum { FLAGS_32 = 24, FLAGS_64 = 4, BYTES_32 = 32, BYTES_64 = 56 };

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

/* Word `n` at `at`, which may be at any alignment. */
static uint64_t read_word(const uint8_t *at, unsigned n, bool is_32)
{
	size_t size = is_32 ? sizeof(uint32_t) : sizeof(uint64_t);
	uint64_t word = 0;

	memcpy(&word, at + n * size, size);
	return word;
}

static const char *check_start(const struct header_start *header, bool is_32)
{
	if (memcmp(header->magic, "\177ELF", 4) != 0)
		return "not an ELF file";
	if (header->class != (is_32 ? CLASS_32 : CLASS_64) || header->data != LITTLE_ENDIAN ||
	    header->machine != (is_32 ? MACHINE_386 : MACHINE_X86_64))
		return is_32 ? "not an ELF32 file for i386" : "not an ELF64 file for x86-64";
	if (header->version != VERSION_CURRENT || header->type != TYPE_EXECUTABLE)
		return "not an executable ELF file";
	return NULL;
}

struct program_header {
	uint64_t offset, virtual_address, physical_address, file_size, memory_size;
	uint32_t type, flags;
};

static struct program_header read_program_header(const struct elf_image *elf, unsigned i)
{
	bool is_32 = elf->is_32;
	const uint8_t *at = elf->base + elf->headers + i * (is_32 ? BYTES_32 : BYTES_64);

	return (struct program_header){
		.offset = read_word(at, OFFSET, is_32),
		.virtual_address = read_word(at, VIRTUAL_ADDRESS, is_32),
		.physical_address = read_word(at, PHYSICAL_ADDRESS, is_32),
		.file_size = read_word(at, FILE_SIZE, is_32),
		.memory_size = read_word(at, MEMORY_SIZE, is_32),
		.type = (uint32_t)read_word(at, 0, true),
		.flags = (uint32_t)read_word(at + (is_32 ? FLAGS_32 : FLAGS_64), 0, true),
	};
}

static const char *check_segment(const struct program_header *segment, size_t size)
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
		struct program_header segment = read_program_header(elf, i);
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

const char *elf_open(struct elf_image *elf, const void *image, size_t size)
{
	const size_t class_at = offsetof(struct header_start, class);
	bool is_32 = size > class_at && ((const uint8_t *)image)[class_at] == CLASS_32;
	const uint8_t *words = (const uint8_t *)image + sizeof(struct header_start);
	size_t end = sizeof(struct header_start) + HEADER_WORDS * (is_32 ? 4u : 8u);
	struct header_start header;
	struct header_end counts;
	const char *fault;

	if (size < end + sizeof(counts))
		return "too short for an ELF file";
	memcpy(&header, image, sizeof(header));
	memcpy(&counts, (const uint8_t *)image + end, sizeof(counts));
	fault = check_start(&header, is_32);
	if (fault)
		return fault;
	*elf = (struct elf_image){.base = image,
				  .size = size,
				  .entry = read_word(words, ENTRY, is_32),
				  .headers = read_word(words, PROGRAM_HEADERS, is_32),
				  .header_count = counts.program_header_count,
				  .is_32 = is_32};
	if (counts.program_header_size != (is_32 ? BYTES_32 : BYTES_64))
		return "ELF program headers of an unknown size";
	if (!within(elf->headers, (uint64_t)elf->header_count * counts.program_header_size, size))
		return "ELF program headers outside the file";
	return check_segments(elf);
}

bool elf_next_segment(const struct elf_image *elf, unsigned *cursor, struct elf_segment *segment)
{
	while (*cursor < elf->header_count) {
		struct program_header header = read_program_header(elf, (*cursor)++);

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
