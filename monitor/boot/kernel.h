/* SPDX-License-Identifier: MIT */
/* The kernel that the monitor was given as its first module. Failures end the run. */
#pragma once

#include "abi/boot_info.h"
#include "monitor/memory.h"

/* How its loader enters it: a Multiboot 2 loader, or one of Linux. 32-bit protected mode, paging
   and interrupts off, all other general registers 0. */
struct kernel_entry {
	uint32_t entry; /* physical address */
	uint32_t eax, ebx, esi;
	/* Physical address of a page that need not survive the entry; at its start is the GDT. */
	uint32_t scratch;
};

/* Linux wants these selectors, Multiboot 2 any. */
enum { KERNEL_CS = 0x10, KERNEL_DS = 0x18, KERNEL_GDT_BYTES = 4 * 8 };

/* Bytes that modules_copy() needs. */
uint64_t modules_size(const struct boot_info *info);

/* Copies all modules to `to` and corrects `info`: nothing else must survive kernel_load(). */
void modules_copy(struct boot_info *info, uint64_t to);

/*
 * Loads the first module and takes it out of `info`: its string becomes the command line. An ELF64
 * kernel goes to its physical addresses; a Linux kernel (bzImage) to where it can be, and the
 * second module is its initrd. `taken` is memory that must survive. Returns the physical address of
 * its entry.
 */
uint32_t kernel_load(struct boot_info *info, struct range taken);

/* Takes a page below 1 MiB, for processors to start at, out of the memory map; 0: there is none. */
uint64_t low_page_reserve(struct boot_info *info);

/* Builds the Multiboot 2 information, or Linux's boot parameters, that describe `info`, in memory
   that nothing else takes; Linux's ACPI RSDP is reserved in the memory map. */
struct kernel_entry kernel_inform(struct boot_info *info, struct range taken, uint32_t entry);

/* Gives the processor to the kernel and ends the monitor. `root`: the page tables in use. */
_Noreturn void handover(const struct kernel_entry *kernel, uint64_t root);
