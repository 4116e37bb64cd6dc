/* SPDX-License-Identifier: MIT */
/* The kernel that the monitor was given as its first module. Failures end the run. */
#ifndef SPOOR_MONITOR_BOOT_KERNEL_H
#define SPOOR_MONITOR_BOOT_KERNEL_H

#include "abi/boot_info.h"
#include "monitor/memory.h"

/* How a Multiboot 2 loader enters it; all physical addresses. */
struct kernel_entry {
	uint32_t entry;
	uint32_t information;
	uint32_t scratch; /* a free page that need not survive the entry */
};

/* Bytes that modules_copy() needs. */
uint64_t modules_size(const struct boot_info *info);

/* Copies all modules to `to` and corrects `info`: nothing else must survive kernel_load(). */
void modules_copy(struct boot_info *info, uint64_t to);

/*
 * Loads the first module to its physical addresses and takes it out of `info`: its string becomes
 * the command line. `taken` is memory that must survive.
 */
uint32_t kernel_load(struct boot_info *info, struct range taken);

/* Takes a page below 1 MiB, for processors to start at, out of the memory map; 0: there is none. */
uint64_t low_page_reserve(struct boot_info *info);

/* Builds the information that describes `info` where the loaded kernel does not stand. */
struct kernel_entry kernel_inform(const struct boot_info *info, struct range taken, uint32_t entry);

#endif
