/* SPDX-License-Identifier: MIT */
/*
 * Turns what a Multiboot 1 or 2 loader left into one struct boot_info. Nothing the loader said is
 * trusted: every address, length, alignment and text is checked, unknown tags are passed over.
 * Early boot, one CPU; no allocation.
 */
#ifndef SPOOR_LIB_BOOT_INFO_H
#define SPOOR_LIB_BOOT_INFO_H

#include "abi/boot_info.h"

/* A pointer to `bytes` of physical memory at `physical`, or NULL where they cannot be read. */
typedef const void *(*boot_memory)(uint64_t physical, uint64_t bytes);

/*
 * `magic` and `physical` as the loader left them in EAX and EBX. NULL, or a sentence that says
 * what is wrong; `info` is then filled as far as it could be.
 */
const char *boot_info_read(struct boot_info *info, uint32_t magic, uint64_t physical,
			   boot_memory memory);

#endif
