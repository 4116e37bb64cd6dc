/* SPDX-License-Identifier: MIT */
/*
 * Turns what a Multiboot 1 or 2 loader left into one struct boot_info. Nothing the loader said is
 * trusted: every address, length, alignment and text is checked, unknown tags are passed over.
 * Early boot, one CPU; no allocation.
 *
 * Rules: memory regions come out sorted by base, may overlap (the map is the loader's), without
 * empty ones, and cut off where they would pass the end of the address space. A command line or
 * module string that does not fit is cut off and is an error, since a lost word changes what a run
 * does; a loader name that does not fit is only cut off. Of an RSDP only the size is checked.
 * [info_start, info_end) is the Multiboot 2 information, or Multiboot 1's first structure: the
 * rest of it is scattered, and nothing in `info` points to any of it.
 */
#pragma once

#include "abi/boot_info.h"

/* A pointer to `bytes` of physical memory at `physical`, or NULL where they cannot be read. */
typedef const void *(*boot_memory)(uint64_t physical, uint64_t bytes);

/*
 * `magic` and `physical` as the loader left them in EAX and EBX. NULL, or a sentence that says
 * what is wrong (the first thing, if there are several); `info` is then filled as far as it could
 * be.
 */
const char *boot_info_read(struct boot_info *info, uint32_t magic, uint64_t physical,
			   boot_memory memory);
