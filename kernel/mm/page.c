// SPDX-License-Identifier: MIT
// Fresh pages are taken in order from the loader's memory map; freed ones are kept in a list that
// runs through the pages themselves. Nothing is touched before it is used: boot stays short on
// machines with much memory.
#include "kernel/mm/page.h"

#include "kernel/image.h"
#include "kernel/lock.h"
#include "lib/string.h"

struct span {
	uint64_t next, end; /* fresh pages: [next, end) */
};

static struct spinlock lock;
#define SPANS (BOOT_MAX_REGIONS + BOOT_MAX_MODULES)

static struct span spans[SPANS];
static unsigned span_count, current;
static uint64_t freed; /* head of the list; 0: empty */
static uint64_t free_pages, total_pages, kept_back;

/* The first MiB is left to firmware and to starting processors; the kernel stands above it. */
static uint64_t lowest(void)
{
	return ((uint64_t)kernel_end - KERNEL_BASE + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1);
}

/* What the loader's modules from `first` on do not take of [start, end). */
static void add_span(const struct boot_info *info, unsigned first, uint64_t start, uint64_t end)
{
	for (unsigned i = first; i < info->module_count && start < end; i++) {
		uint64_t from = info->modules[i].start & ~(PAGE_SIZE - 1);
		uint64_t to = (info->modules[i].end + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1);

		if (to <= start || from >= end)
			continue;
		if (from > start)
			add_span(info, i + 1, start, from);
		start = to;
	}
	if (start >= end || span_count == SPANS)
		return;
	spans[span_count++] = (struct span){.next = start, .end = end};
	total_pages += (end - start) / PAGE_SIZE;
}

void page_init(const struct boot_info *info)
{
	for (unsigned i = 0; i < info->region_count; i++) {
		const struct boot_region *region = &info->regions[i];
		uint64_t start = (region->base + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1);
		uint64_t end = (region->base + region->length) & ~(PAGE_SIZE - 1);

		if (region->type != MEMORY_USABLE)
			continue;
		if (start < lowest())
			start = lowest();
		add_span(info, 0, start, end);
	}
	free_pages = total_pages;
}

static uint64_t take(void)
{
	uint64_t page = freed;

	if (page) {
		freed = *(uint64_t *)direct(page);
		return page;
	}
	while (current < span_count && spans[current].next == spans[current].end)
		current++;
	if (current == span_count)
		return 0;
	page = spans[current].next;
	spans[current].next += PAGE_SIZE;
	return page;
}

uint64_t page_alloc(void)
{
	uint64_t flags = spin_lock(&lock);
	uint64_t page = free_pages > kept_back ? take() : 0;

	if (page)
		free_pages--;
	spin_unlock(&lock, flags);
	if (page)
		memset(direct(page), 0, PAGE_SIZE);
	return page;
}

void page_free(uint64_t physical)
{
	uint64_t flags = spin_lock(&lock);

	*(uint64_t *)direct(physical) = freed;
	freed = physical;
	free_pages++;
	spin_unlock(&lock, flags);
}

void page_keep_back(uint64_t pages)
{
	uint64_t flags = spin_lock(&lock);

	kept_back = pages;
	spin_unlock(&lock, flags);
}

uint64_t page_free_count(void)
{
	return free_pages;
}

uint64_t page_total(void)
{
	return total_pages;
}
