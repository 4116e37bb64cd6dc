/* SPDX-License-Identifier: MIT */
/* Physical memory in pages of 4 KiB. Any context but NMI; takes a lock, never sleeps. */
#pragma once

#include "abi/boot_info.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE_SIZE 4096ul

/* Where the linker put the parts of the kernel (linker.ld). */
#define KERNEL_BASE 0xffffffff80000000ul
#define KERNEL_LOAD 0x100000ul

extern const uint64_t text_start[], text_end[], rodata_end[];
extern uint8_t kernel_end[];

/* All RAM that page_alloc() hands out is readable and writable from here on. */
#define DIRECT_MAP 0xffff800000000000ul

static inline void *direct(uint64_t physical)
{
	return (void *)(DIRECT_MAP + physical);
}

/* Takes over the usable memory that `info` names, less what the kernel occupies. Once, at boot. */
void page_init(const struct boot_info *info);

/*
 * The physical address of 1 << order zeroed pages, contiguous and aligned to their size, or 0 where
 * no such run is left. They are freed as they were allocated, and joined with what is free beside
 * them: once everything is freed there are as many runs of each size as there were before.
 */
enum { PAGE_ORDER_MOST = 8 };
uint64_t page_alloc_run(unsigned order);
void page_free_run(uint64_t physical, unsigned order);

static inline uint64_t page_alloc(void)
{
	return page_alloc_run(0);
}

static inline void page_free(uint64_t physical)
{
	page_free_run(physical, 0);
}

/* Memory is out for page_alloc() while no more than `pages` are free; 0 at boot. For tests. */
void page_keep_back(uint64_t pages);

/* True if page_alloc() may hand out all of these bytes: RAM, and none of the kernel's own. */
bool page_is_managed(uint64_t physical, uint64_t bytes);

/* Pages that are free, and pages there were at boot. */
uint64_t page_free_count(void);
uint64_t page_total(void);
