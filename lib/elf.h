/* SPDX-License-Identifier: MIT */
/* Reads an executable in memory, ELF64 for x86-64 or ELF32 for i386; trusts nothing. Any context.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_segment {
	uint64_t virtual_address, physical_address;
	uint64_t memory_size;
	const uint8_t *data; /* within the image */
	uint64_t file_size;  /* <= memory_size */
	bool readable, writable, executable;
};

struct elf_image {
	const uint8_t *base;
	size_t size;
	uint64_t entry;		 /* virtual address, as the header has it */
	uint64_t entry_physical; /* where `entry` is under the segments' physical addresses */
	uint64_t headers;	 /* offset of the program headers */
	uint16_t header_count;
	bool is_32;
};

/* NULL, or a sentence that says why `image` is not an executable that can be loaded. */
const char *elf_open(struct elf_image *elf, const void *image, size_t size);

/* The next PT_LOAD segment; *cursor starts at 0. False after the last one. */
bool elf_next_segment(const struct elf_image *elf, unsigned *cursor, struct elf_segment *segment);
