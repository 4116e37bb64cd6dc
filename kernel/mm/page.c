// SPDX-License-Identifier: MIT
// Fresh pages are taken in order from the loader's memory map; freed ones are kept in lists that
// run through the pages themselves, a list for each size: what is freed serves its own size again,
// so that no mix of sizes breaks memory up. Only when fresh pages are out is a larger run split.
// Nothing is touched before it is used: boot stays short on machines with much memory.
#include "kernel/mm/page.h"

#include "kernel/lock.h"
#include "lib/string.h"

struct span {
	uint64_t first, next, end; /* fresh pages: [next, end) */
};

static struct spinlock lock;
#define SPANS (BOOT_MAX_REGIONS + BOOT_MAX_MODULES)

static struct span spans[SPANS];
static unsigned span_count;
static uint64_t freed[PAGE_ORDER_MOST + 1]; /* heads of the lists; 0: empty */
static uint64_t free_pages, total_pages, kept_back;

/* The first MiB is left to firmware and to starting processors; the kernel stands above it. */
static uint64_t lowest(void)
{
	return ((uint64_t)kernel_end - KERNEL_BASE + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1);
}

/* Adds the parts of [start, end) that no module of the loader from `first` on takes. */
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
	spans[span_count++] = (struct span){.first = start, .next = start, .end = end};
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

bool page_is_managed(uint64_t physical, uint64_t bytes)
{
	for (const struct span *span = spans; span < spans + span_count; span++)
		if (physical >= span->first && physical < span->end &&
		    bytes <= span->end - physical)
			return true;
	return false;
}

static uint64_t run_bytes(unsigned order)
{
	return PAGE_SIZE << order;
}

static void push(uint64_t run, unsigned order)
{
	*(uint64_t *)direct(run) = freed[order];
	freed[order] = run;
}

static uint64_t pop(unsigned order)
{
	uint64_t run = freed[order];

	if (run)
		freed[order] = *(uint64_t *)direct(run);
	return run;
}

static uint64_t take_fresh(unsigned order)
{
	uint64_t bytes = run_bytes(order);

	for (struct span *span = spans; span < spans + span_count; span++) {
		uint64_t run = (span->next + bytes - 1) & ~(bytes - 1);

		if (run > span->end || span->end - run < bytes)
			continue;
		for (uint64_t page = span->next; page < run; page += PAGE_SIZE)
			push(page, 0);
		span->next = run + bytes;
		return run;
	}
	return 0;
}

/* Of a larger run that was freed: its first part; the rest is freed in runs of the same size. */
static uint64_t take_part(unsigned order)
{
	uint64_t run = 0;

	for (unsigned larger = order + 1; larger <= PAGE_ORDER_MOST && !run; larger++) {
		run = pop(larger);
		for (uint64_t at = run_bytes(order); run && at < run_bytes(larger);
		     at += run_bytes(order))
			push(run + at, order);
	}
	return run;
}

static uint64_t take(unsigned order)
{
	uint64_t run = pop(order);

	if (!run)
		run = take_fresh(order);
	return run ? run : take_part(order);
}

uint64_t page_alloc_run(unsigned order)
{
	uint64_t flags = spin_lock(&lock);
	uint64_t left = free_pages > kept_back ? free_pages - kept_back : 0;
	uint64_t run = left >> order ? take(order) : 0;

	if (run)
		free_pages -= 1ul << order;
	spin_unlock(&lock, flags);
	if (run)
		memset(direct(run), 0, run_bytes(order));
	return run;
}

void page_free_run(uint64_t physical, unsigned order)
{
	SPIN_GUARD(&lock);

	push(physical, order);
	free_pages += 1ul << order;
}

void page_keep_back(uint64_t pages)
{
	kept_back = pages;
}

uint64_t page_free_count(void)
{
	return free_pages;
}

uint64_t page_total(void)
{
	return total_pages;
}
