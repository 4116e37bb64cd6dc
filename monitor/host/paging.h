/* SPDX-License-Identifier: MIT */
/*
 * Four-level page tables: the monitor's own, and the nested ones of the guest. Pages for them come
 * from a pool of physical memory that is never given back.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "abi/boot_info.h"
#include "monitor/memory.h"

#define PAGE_PRESENT  (1ull << 0)
#define PAGE_WRITABLE (1ull << 1)
#define PAGE_USER     (1ull << 2)
#define PAGE_UNCACHED (1ull << 3 | 1ull << 4) /* PWT, PCD */
#define PAGE_ACCESSED (1ull << 5)
#define PAGE_DIRTY    (1ull << 6)
#define PAGE_LARGE    (1ull << 7)
#define PAGE_NX	      (1ull << 63)

/* Pages that the pool must hold to map memory up to `end` four times by 2 MiB, and what
   maps_finely() says once by 4 KiB, with some to spare. */
uint64_t paging_pool_pages(const struct boot_info *info, uint64_t end);
void paging_pool_init(struct range pool);

/* The physical address of `bytes`, a number of pages, from the pool, aligned to `alignment`, with
   anything in them; of one zeroed page. Both end the run if the pool is exhausted. */
uint64_t pages_allocate(uint64_t bytes, uint64_t alignment);
uint64_t page_allocate(void);

/* `flags` with PAGE_LARGE maps 2 MiB. Whatever stood there is replaced. */
void map_page(uint64_t root, uint64_t virtual, uint64_t physical, uint64_t flags);
/* Maps the 2 MiB at `virtual` by `table`, which several roots may share. */
void map_table(uint64_t root, uint64_t virtual, uint64_t table);

/* End of the memory that the machine has by its map, at least 4 GiB, a multiple of 1 GiB. */
uint64_t memory_end(const struct boot_info *info);

/* PAGE_UNCACHED where the large page at `physical` holds no memory, else 0. */
uint64_t cache_flags(const struct boot_info *info, uint64_t physical);

/*
 * Whether the guest's large page at `physical` is mapped by 4 KiB: memory under QEMU's translator.
 * That remembers the larger of the guest's page and the nested one, and forgets every page of the
 * guest at an INVLPG where that is larger than the guest's own
 * (target/i386/tcg/sysemu/excp_helper.c, mmu_translate; accel/tcg/cputlb.c, tlb_flush_page_locked).
 */
bool maps_finely(const struct boot_info *info, uint64_t physical);
