/* SPDX-License-Identifier: MIT */
/* What the readers of the two Multiboot versions share. Private to boot_info.c and those two. */
#ifndef SPOOR_LIB_BOOT_READER_H
#define SPOOR_LIB_BOOT_READER_H

#include <stdbool.h>

#include "lib/boot_info.h"

struct boot_reader {
	struct boot_info *info;
	boot_memory memory;
	const char *fault; /* the first one met */
};

/* Keeps the first fault; reading goes on. */
void boot_fault(struct boot_reader *reader, const char *sentence);

/* Copies `bytes` of physical memory. False, and a fault, where they cannot be read. */
bool boot_copy(struct boot_reader *reader, void *to, uint64_t physical, uint64_t bytes);

/*
 * Copies a text of at most `available` bytes, and cuts it off to `size` with its NUL. `too_long`
 * is the fault if that lost a part of it, NULL if the loss is none; a text without a NUL within
 * `available` bytes is a fault.
 */
void boot_copy_text(struct boot_reader *reader, char *to, size_t size, uint64_t physical,
		    uint64_t available, const char *too_long);

void boot_add_region(struct boot_reader *reader, uint64_t base, uint64_t length, uint32_t type);

/* The module's string: at `string`, at most `available` bytes; 0 bytes: it has none. */
void boot_add_module(struct boot_reader *reader, uint64_t start, uint64_t end, uint64_t string,
		     uint64_t available);

void multiboot1_read(struct boot_reader *reader, uint64_t physical);
void multiboot2_read(struct boot_reader *reader, uint64_t physical);

#endif
