// SPDX-License-Identifier: MIT
#include "monitor/host/paging.h"

#include "lib/string.h"
#include "monitor/console.h"
#include "monitor/host/cpu.h"
#include "monitor/host/lock.h"

#define ADDRESS_MASK 0x000ffffffffff000ull
#define SPARE_PAGES  64
#define UPPER_LEVEL  (PAGE_PRESENT | PAGE_WRITABLE | PAGE_USER)
enum { PAGE_SHIFT = 12, LARGE_PAGE_SHIFT = 21 };

static struct range free_pages;

uint64_t paging_pool_pages(const struct boot_info *info, uint64_t end)
{
	uint64_t fine = 0;

	for (uint64_t at = 0; at < end; at += LARGE_PAGE_SIZE)
		fine += maps_finely(info, at);
	return fine + 4 * (end / GIB) + SPARE_PAGES;
}

void paging_pool_init(struct range pool)
{
	free_pages = pool;
}

uint64_t pages_allocate(uint64_t bytes, uint64_t alignment)
{
	static struct lock lock;
	uint64_t start;

	lock_take(&lock);
	start = (free_pages.start + alignment - 1) & ~(alignment - 1);
	if (start + bytes > free_pages.end)
		end_run(VERDICT_PANIC, "no page left for the monitor's own use");
	free_pages.start = start + bytes;
	lock_release(&lock);
	return start;
}

uint64_t page_allocate(void)
{
	uint64_t page = pages_allocate(PAGE_SIZE, PAGE_SIZE);

	memset(direct(page), 0, PAGE_SIZE);
	return page;
}

/* The entry in the table whose entries map 1 << `last` bytes. Upper levels allow everything, the
   last one decides. */
static uint64_t *entry_of(uint64_t root, uint64_t virtual, unsigned last)
{
	uint64_t *table = direct(root);

	for (unsigned shift = 39; shift > last; shift -= 9) {
		uint64_t *entry = &table[virtual >> shift & 511];

		if (!(*entry & PAGE_PRESENT) || *entry & PAGE_LARGE)
			*entry = page_allocate() | UPPER_LEVEL;
		table = direct(*entry & ADDRESS_MASK);
	}
	return &table[virtual >> last & 511];
}

void map_page(uint64_t root, uint64_t virtual, uint64_t physical, uint64_t flags)
{
	unsigned last = flags & PAGE_LARGE ? LARGE_PAGE_SHIFT : PAGE_SHIFT;

	*entry_of(root, virtual, last) = physical | flags | PAGE_PRESENT;
}

void map_table(uint64_t root, uint64_t virtual, uint64_t table)
{
	*entry_of(root, virtual, LARGE_PAGE_SHIFT) = table | UPPER_LEVEL;
}

uint64_t memory_end(const struct boot_info *info)
{
	uint64_t end = 4 * GIB;

	for (unsigned i = 0; i < info->region_count; i++) {
		const struct boot_region *region = &info->regions[i];

		if (region->type != MEMORY_RESERVED && region->base + region->length > end)
			end = region->base + region->length;
	}
	return (end + GIB - 1) & ~(GIB - 1);
}

uint64_t cache_flags(const struct boot_info *info, uint64_t physical)
{
	struct range page = {physical, physical + LARGE_PAGE_SIZE};

	for (unsigned i = 0; i < info->region_count; i++) {
		const struct boot_region *region = &info->regions[i];

		if (region->type == MEMORY_USABLE &&
		    ranges_overlap(page,
				   (struct range){region->base, region->base + region->length}))
			return 0;
	}
	return PAGE_UNCACHED;
}

bool maps_finely(const struct boot_info *info, uint64_t physical)
{
	return !cache_flags(info, physical) && is_emulator();
}
