/* SPDX-License-Identifier: MIT */
/*
 * The machine that the kernel finds: questions to the memory map, the one change made to it,
 * and Multiboot information. Pure: any context, host tests too.
 */
#pragma once

#include "abi/boot_info.h"
#include "monitor/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether all of `range` is usable memory and nothing else claims a part of it. */
bool memory_usable(const struct boot_info *info, struct range range);

/* End of the highest usable region; 0 without one. */
uint64_t memory_top(const struct boot_info *info);

/* Usable memory from `start` on without a gap, in KiB. */
uint32_t memory_from(const struct boot_info *info, uint64_t start);

#define MEMORY_MOST_AVOIDED 16

/* Where a block of memory may stand. */
struct memory_request {
	uint64_t size;
	struct range within;
	bool from_top; /* the highest place rather than the lowest */
	unsigned avoided;
	struct range avoid[MEMORY_MOST_AVOIDED];
};

/* Adds a range that the block must not overlap. */
void memory_avoid(struct memory_request *request, struct range range);

/* Finds a page-aligned place in usable memory. False: there is none. */
bool memory_find(const struct boot_info *info, const struct memory_request *request,
		 uint64_t *start);

/* Makes `range` reserved. False, and nothing changed: the map has no room for more regions. */
bool memory_reserve(struct boot_info *info, struct range range);

/*
 * Makes all processors but `most` of them, and all with an APIC ID above 254, disabled ones in the
 * MADT at `madt`, a valid table of `length` bytes. Processor `self` is one that stays. Returns how
 * many are enabled afterwards; *listed is how many were.
 */
unsigned information_limit_processors(uint8_t *madt, uint32_t length, unsigned most, uint32_t self,
				      unsigned *listed);

/* How many processors that MADT lists, those included that are disabled: they may be plugged in. */
unsigned information_count_processors(const uint8_t *madt, uint32_t length);

/*
 * Writes what `info` says (command line, loader name, modules, memory map, RSDP, EFI system
 * table) into `buffer`, which is aligned to 8. Returns the bytes used, or 0 if `size` is too small.
 */
size_t information_build(void *buffer, size_t size, const struct boot_info *info);

/* Whether the kernel's file has the header of Multiboot 1 and none of Multiboot 2. */
bool information_wanted_1(const void *image, size_t size);

/*
 * The same by Multiboot 1, which has no RSDP and no EFI system table: what is at the start of
 * `buffer` is the information. `physical` is the buffer's own address, below 4 GiB.
 */
size_t information_build_1(void *buffer, size_t size, uint32_t physical,
			   const struct boot_info *info);

/* main.c: start.asm calls it, with what the loader left in EAX and EBX. */
void monitor_main(uint32_t magic, uint64_t information);
