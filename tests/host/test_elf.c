// SPDX-License-Identifier: MIT
/* sources: lib/elf.c */
#include "lib/elf.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "tests/host/host.h"

/* A small executable: code at 1 MiB under a high half, data with a zeroed tail after it. */
static struct image {
	Elf64_Ehdr header;
	Elf64_Phdr segments[3];
	uint8_t code[64], data[32];
} image;

enum { HIGH_HALF_OFFSET = 0x100000 };
static const uint64_t high_half = 0xffffffff80000000;

static int build(void **state)
{
	memset(&image, 0, sizeof(image));
	memcpy(image.header.e_ident, ELFMAG, SELFMAG);
	image.header.e_ident[EI_CLASS] = ELFCLASS64;
	image.header.e_ident[EI_DATA] = ELFDATA2LSB;
	image.header.e_ident[EI_VERSION] = EV_CURRENT;
	image.header.e_type = ET_EXEC;
	image.header.e_machine = EM_X86_64;
	image.header.e_entry = high_half + HIGH_HALF_OFFSET + 16;
	image.header.e_phoff = offsetof(struct image, segments);
	image.header.e_phentsize = sizeof(Elf64_Phdr);
	image.header.e_phnum = 3;
	image.segments[0].p_type = PT_NOTE;
	image.segments[1] = (Elf64_Phdr){.p_type = PT_LOAD,
					 .p_flags = PF_R | PF_X,
					 .p_offset = offsetof(struct image, code),
					 .p_vaddr = high_half + HIGH_HALF_OFFSET,
					 .p_paddr = HIGH_HALF_OFFSET,
					 .p_filesz = 64,
					 .p_memsz = 64};
	image.segments[2] = (Elf64_Phdr){.p_type = PT_LOAD,
					 .p_flags = PF_R | PF_W,
					 .p_offset = offsetof(struct image, data),
					 .p_vaddr = high_half + HIGH_HALF_OFFSET + 0x1000,
					 .p_paddr = HIGH_HALF_OFFSET + 0x1000,
					 .p_filesz = 32,
					 .p_memsz = 4096};
	return 0;
}

/* Opens a copy of exactly `size` bytes, so that a read past the end is caught. */
static const char *open_copy(size_t size)
{
	struct elf_image elf;
	void *copy = malloc(size);
	const char *fault;

	memcpy(copy, &image, size);
	fault = elf_open(&elf, copy, size);
	free(copy);
	return fault;
}

UNIT(reads_the_segments, .setup_func = build)
{
	struct elf_image elf;
	struct elf_segment segment;
	unsigned cursor = 0;

	assert_null(elf_open(&elf, &image, sizeof(image)));
	assert_true(elf.entry == high_half + HIGH_HALF_OFFSET + 16);
	assert_int_equal(elf.entry_physical, HIGH_HALF_OFFSET + 16);

	assert_true(elf_next_segment(&elf, &cursor, &segment));
	assert_ptr_equal(segment.data, image.code);
	assert_int_equal(segment.physical_address, HIGH_HALF_OFFSET);
	assert_true(segment.readable && segment.executable && !segment.writable);
	assert_true(elf_next_segment(&elf, &cursor, &segment));
	assert_int_equal(segment.file_size, 32);
	assert_int_equal(segment.memory_size, 4096);
	assert_true(segment.readable && !segment.executable && segment.writable);
	assert_false(elf_next_segment(&elf, &cursor, &segment));
}

UNIT(every_truncation_is_refused, .setup_func = build)
{
	for (size_t size = 0; size < sizeof(image); size++)
		assert_non_null(open_copy(size));
	assert_null(open_copy(sizeof(image)));
}

UNIT(refuses_other_files, .setup_func = build)
{
	image.header.e_ident[EI_MAG1] = 'X';
	assert_string_equal(open_copy(sizeof(image)), "not an ELF file");
	build(state);
	image.header.e_ident[EI_CLASS] = ELFCLASS32;
	assert_string_equal(open_copy(sizeof(image)), "not an ELF32 file for i386");
	build(state);
	image.header.e_machine = EM_386;
	assert_string_equal(open_copy(sizeof(image)), "not an ELF64 file for x86-64");
	build(state);
	image.header.e_type = ET_DYN;
	assert_string_equal(open_copy(sizeof(image)), "not an executable ELF file");
	build(state);
	image.header.e_phentsize = 57;
	assert_string_equal(open_copy(sizeof(image)), "ELF program headers of an unknown size");
	build(state);
	image.header.e_phoff = UINT64_MAX - 8;
	assert_string_equal(open_copy(sizeof(image)), "ELF program headers outside the file");
}

UNIT(refuses_bad_segments, .setup_func = build)
{
	image.segments[2].p_filesz = 5000;
	assert_string_equal(open_copy(sizeof(image)),
			    "ELF segment larger in the file than in memory");
	build(state);
	image.segments[2].p_offset = UINT64_MAX - 16;
	assert_string_equal(open_copy(sizeof(image)), "ELF segment outside the file");
	build(state);
	image.segments[2].p_memsz = UINT64_MAX;
	assert_string_equal(open_copy(sizeof(image)), "ELF segment beyond the address space");
	build(state);
	image.segments[2].p_paddr = UINT64_MAX - 100;
	assert_string_equal(open_copy(sizeof(image)), "ELF segment beyond the address space");
}

UNIT(the_entry_stands_in_code, .setup_func = build)
{
	const char *sentence = "ELF entry point outside the executable segments";

	image.header.e_entry = image.segments[2].p_vaddr;
	assert_string_equal(open_copy(sizeof(image)), sentence);
	image.header.e_entry = image.segments[1].p_vaddr + 64;
	assert_string_equal(open_copy(sizeof(image)), sentence);
	image.header.e_entry = image.segments[1].p_vaddr - 1;
	assert_string_equal(open_copy(sizeof(image)), sentence);
	image.header.e_phnum = 0;
	assert_string_equal(open_copy(sizeof(image)), sentence);
}

UNIT(reads_either_class, .setup_func = build)
{
	static const struct {
		Elf32_Ehdr header;
		Elf32_Phdr segment;
		uint8_t code[64];
	} narrow = {
		.header = {.e_ident = ELFMAG,
			   .e_type = ET_EXEC,
			   .e_machine = EM_386,
			   .e_entry = 0xc0100010,
			   .e_phoff = sizeof(Elf32_Ehdr),
			   .e_phentsize = sizeof(Elf32_Phdr),
			   .e_phnum = 1},
		.segment = {.p_type = PT_LOAD,
			    .p_flags = PF_R | PF_X,
			    .p_offset = sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr),
			    .p_vaddr = 0xc0100000,
			    .p_paddr = 0x100000,
			    .p_filesz = 64,
			    .p_memsz = 128},
	};
	struct elf_image elf;
	struct elf_segment segment;
	unsigned cursor = 0;
	uint8_t *copy = malloc(sizeof(narrow));

	memcpy(copy, &narrow, sizeof(narrow));
	copy[EI_CLASS] = ELFCLASS32;
	copy[EI_DATA] = ELFDATA2LSB;
	copy[EI_VERSION] = EV_CURRENT;
	assert_null(elf_open(&elf, copy, sizeof(narrow)));
	assert_int_equal(elf.entry_physical, 0x100010);
	assert_true(elf_next_segment(&elf, &cursor, &segment));
	assert_int_equal(segment.physical_address, 0x100000);
	assert_int_equal(segment.memory_size, 128);
	assert_memory_equal(segment.data, narrow.code, 64);
	assert_false(elf_next_segment(&elf, &cursor, &segment));
	for (size_t size = 0; size < sizeof(narrow); size++) {
		uint8_t *cut = malloc(size);

		memcpy(cut, copy, size);
		assert_non_null(elf_open(&elf, cut, size));
		free(cut);
	}
	copy[offsetof(Elf32_Ehdr, e_machine)] = EM_ARM;
	assert_string_equal(elf_open(&elf, copy, sizeof(narrow)), "not an ELF32 file for i386");
	free(copy);
	assert_null(elf_open(&elf, &image, sizeof(image)));
	assert_int_equal(elf.entry_physical, HIGH_HALF_OFFSET + 16);
}
