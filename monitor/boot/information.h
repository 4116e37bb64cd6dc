/* SPDX-License-Identifier: MIT */
/* Multiboot 2 information for the kernel. Pure: any context, host tests too. */
#ifndef SPOOR_MONITOR_BOOT_INFORMATION_H
#define SPOOR_MONITOR_BOOT_INFORMATION_H

#include <stddef.h>

#include "abi/boot_info.h"

/*
 * Writes what `info` says (command line, loader name, modules, memory map, RSDP, EFI system
 * table) into `buffer`, which is aligned to 8. Returns the bytes used, or 0 if `size` is too small.
 */
size_t information_build(void *buffer, size_t size, const struct boot_info *info);

#endif
