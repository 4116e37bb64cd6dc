/* SPDX-License-Identifier: MIT */
/*
 * The kernel's address space: 4-level paging, every page NX or read-only (W^X), all kernel pages
 * pre-marked Accessed and Dirty, as the DS area and trace buffers need (SDM 17.4.9.1).
 */
#pragma once

#include "kernel/mm/page.h"

#include <stdbool.h>

enum {
	VM_READ = 0,
	VM_WRITE = 1u << 0,
	VM_EXECUTE = 1u << 1, /* never together with VM_WRITE */
	VM_USER = 1u << 2,
	VM_UNCACHED = 1u << 3,
};

/* Bits of a page-table entry (SDM Vol 3, 4.5). */
#define PTE_PRESENT  (1ul << 0)
#define PTE_WRITABLE (1ul << 1)
#define PTE_USER     (1ul << 2)
#define PTE_UNCACHED (3ul << 3) /* PWT and PCD: entry 3 of the reset PAT, UC */
#define PTE_ACCESSED (1ul << 5)
#define PTE_DIRTY    (1ul << 6)
#define PTE_LARGE    (1ul << 7)
#define PTE_NX	     (1ul << 63)
#define PTE_ADDRESS  0x000ffffffffff000ul

/* Leaves the boot tables for the kernel's own. NULL, or what went wrong. Once, at boot. */
const char *vm_init(const struct boot_info *info);

/*
 * Maps one page; replaces what stood there. False when memory for tables is out. Task or boot
 * context.
 */
bool vm_map(uint64_t linear, uint64_t physical, unsigned flags);

/* The entry that maps the 4 KiB page at `linear`, NULL if there is none. For tests that look. */
uint64_t *vm_entry(uint64_t linear);

/*
 * The same in the tables whose top one is at `top`; missing tables are made on the way if
 * `make`, NULL then when memory is out. The caller keeps others from the same tables.
 */
uint64_t *vm_entry_under(uint64_t top, uint64_t linear, bool make);

/*
 * Unmaps and frees what is mapped of these pages there, once no CPU can reach it any more. Returns
 * how many pages it freed. Not under a lock.
 */
size_t vm_unmap(uint64_t top, uint64_t linear, size_t pages);

/* The bits of an entry, but the address, that give the rights `flags`. */
uint64_t vm_entry_bits(unsigned flags);

/* Pages that went into the tables of the kernel. They are kept: no leak. */
uint64_t vm_table_count(void);

/* Drops this CPU's cached translation of `linear`. */
static inline void vm_flush(uint64_t linear)
{
	__asm__ volatile("invlpg (%0)" : : "r"(linear) : "memory");
}

/* The physical address of the kernel's top-level table: what CR3 holds. */
uint64_t vm_root(void);

/* Takes up the kernel's address space on a CPU that still has the boot tables. */
void vm_load(void);

/*
 * Areas: runs of zeroed pages, contiguous in linear memory only, each with a not-present page
 * before and after it, so that an overrun faults instead of spreading. Stacks, DS areas and trace
 * buffers are areas. NULL when memory is out; nothing is kept then. Task context; takes locks.
 */
void *area_alloc(size_t pages, unsigned flags);

/* `area` NULL is allowed. `pages` as it was asked for. */
void area_free(void *area, size_t pages);
