// SPDX-License-Identifier: MIT
// A buddy allocator: where no run of a size is free a larger one is halved; one that is freed is
// joined with its other half if that is free. Free runs are in lists, one for each size, through
// the pages themselves. Memory that was never used enters them when they have no run that is large
// enough: nothing is touched before, and boot stays short on machines with much memory.
#include "kernel/mm/page.h"

#include "kernel/lock.h"
#include "lib/string.h"

/* At the start of a free run. */
struct run {
	struct run *next, **link; /* `link`: what points to it */
};

struct span {
	uint64_t first, next, end; /* never used: [next, end) */
	uint8_t *marks; /* of pages below `next`: 1 + the order of a free run that starts there */
};

static struct spinlock lock;
#define SPANS (BOOT_MAX_REGIONS + BOOT_MAX_MODULES)

static struct span spans[SPANS];
static unsigned span_count;
static struct run *lists[PAGE_ORDER_MOST + 1];
static uint64_t free_pages, total_pages, kept_back;

/* Adds the parts of [start, end) that no module of the loader from `first` on takes. */
static void add_span(const struct boot_info *info, unsigned first, uint64_t start, uint64_t end)
{
	uint64_t fresh;

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
	fresh = (start + (end - start) / PAGE_SIZE + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1);
	spans[span_count++] = (struct span){fresh, fresh, end, direct(start)};
	total_pages += (end - fresh) / PAGE_SIZE;
}

/* The first MiB is left to firmware and to starting processors; the kernel is above it. */
void page_init(const struct boot_info *info)
{
	uint64_t lowest = ((uint64_t)kernel_end - KERNEL_BASE + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1);

	for (unsigned i = 0; i < info->region_count; i++) {
		const struct boot_region *region = &info->regions[i];
		uint64_t start = (region->base + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1);
		uint64_t end = (region->base + region->length) & ~(PAGE_SIZE - 1);

		if (region->type != MEMORY_USABLE)
			continue;
		if (start < lowest)
			start = lowest;
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

/* The mark of a page; 0 where no memory is, or none that was used. */
static uint8_t *mark_of(uint64_t page)
{
	static uint8_t none;

	for (const struct span *span = spans; span < spans + span_count; span++)
		if (page >= span->first && page < span->next)
			return &span->marks[(page - span->first) / PAGE_SIZE];
	return &none;
}

static void add_run(uint64_t physical, unsigned order)
{
	struct run *run = direct(physical);

	*run = (struct run){lists[order], &lists[order]};
	if (run->next)
		run->next->link = &run->next;
	lists[order] = run;
	*mark_of(physical) = (uint8_t)(order + 1);
}

static void remove_run(uint64_t physical)
{
	const struct run *run = direct(physical);

	*run->link = run->next;
	if (run->next)
		run->next->link = run->link;
	*mark_of(physical) = 0;
}

/* Adds the largest aligned run at the next page of a span. False: all memory is or was used. */
static bool add_fresh(void)
{
	for (struct span *span = spans; span < spans + span_count; span++) {
		uint64_t run = span->next;
		unsigned order = PAGE_ORDER_MOST;

		if (run == span->end)
			continue;
		while (run % (PAGE_SIZE << order) || span->end - run < (PAGE_SIZE << order))
			order--;
		span->next += PAGE_SIZE << order;
		memset(mark_of(run), 0, 1ul << order);
		add_run(run, order);
		return true;
	}
	return false;
}

/* The first part of the smallest free run that is large enough; 0: there is none. */
static uint64_t take(unsigned order)
{
	unsigned larger = order;
	uint64_t run;

	while (!lists[larger])
		if (larger++ == PAGE_ORDER_MOST)
			return 0;
	run = (uint64_t)lists[larger] - DIRECT_MAP;
	remove_run(run);
	while (larger-- > order)
		add_run(run + (PAGE_SIZE << larger), larger);
	return run;
}

uint64_t page_alloc_run(unsigned order)
{
	uint64_t flags = spin_lock(&lock);
	bool may = free_pages >= kept_back && (free_pages - kept_back) >> order;
	uint64_t run = 0;

	while (may && !(run = take(order)))
		may = add_fresh();
	if (run)
		free_pages -= 1ul << order;
	spin_unlock(&lock, flags);
	if (run)
		memset(direct(run), 0, PAGE_SIZE << order);
	return run;
}

void page_free_run(uint64_t physical, unsigned order)
{
	SPIN_GUARD(&lock);

	free_pages += 1ul << order;
	for (; order < PAGE_ORDER_MOST; order++) {
		uint64_t other = physical ^ PAGE_SIZE << order;

		if (*mark_of(other) != order + 1)
			break;
		remove_run(other);
		physical &= other;
	}
	add_run(physical, order);
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
