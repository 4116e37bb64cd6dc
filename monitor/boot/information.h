/* SPDX-License-Identifier: MIT */
/* Multiboot information for the kernel. Pure: any context, host tests too. */
#ifndef SPOOR_MONITOR_BOOT_INFORMATION_H
#define SPOOR_MONITOR_BOOT_INFORMATION_H

#include <stdbool.h>
#include <stddef.h>

#include "abi/boot_info.h"

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

#endif
