/* SPDX-License-Identifier: MIT */
/* Nested page tables: guest-physical is physical, except for the monitor's own memory. */
#include "monitor/host/paging.h"
#include "monitor/svm/guest.h"

#define NESTED_FLAGS (PAGE_WRITABLE | PAGE_USER)

/* What the guest finds where the monitor stands; shared by all of it. */
static uint8_t nobody[PAGE_SIZE] __attribute__((aligned(PAGE_SIZE)));

static bool is_hidden(const struct guest *guest, uint64_t physical)
{
	return physical >= guest->hidden.start && physical < guest->hidden.end;
}

static void map_around_hidden(struct guest *guest, uint64_t large_page)
{
	for (uint64_t at = large_page; at < large_page + LARGE_PAGE_SIZE; at += PAGE_SIZE)
		map_page(guest->nested_root, at, is_hidden(guest, at) ? image_physical(nobody) : at,
			 NESTED_FLAGS);
}

void nested_map(struct guest *guest, uint64_t physical)
{
	uint64_t large_page = physical & ~(LARGE_PAGE_SIZE - 1);
	struct range range = {large_page, large_page + LARGE_PAGE_SIZE};

	if (ranges_overlap(range, guest->hidden))
		map_around_hidden(guest, large_page);
	else
		map_page(guest->nested_root, large_page, large_page, NESTED_FLAGS | PAGE_LARGE);
	guest->stale_translations = true;
}

void nested_init(struct guest *guest, const struct boot_info *info)
{
	uint64_t end = memory_end(info);

	guest->nested_root = page_allocate();
	for (uint64_t at = 0; at < end; at += LARGE_PAGE_SIZE)
		nested_map(guest, at);
}

static bool is_memory(const struct boot_info *info, uint64_t physical)
{
	for (unsigned i = 0; i < info->region_count; i++) {
		const struct boot_region *region = &info->regions[i];

		if (region->type == MEMORY_USABLE && physical >= region->base &&
		    physical - region->base < region->length)
			return true;
	}
	return false;
}

uint8_t *nested_page(const struct guest *guest, uint64_t physical)
{
	physical = page_down(physical);
	if (is_hidden(guest, physical))
		return nobody;
	if (guest->memory_only && !is_memory(guest->memory_only, physical))
		return NULL;
	return physical < direct_end() ? direct(physical) : NULL;
}
