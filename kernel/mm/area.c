// SPDX-License-Identifier: MIT
// Linear addresses are taken upwards from AREA_START and used again for areas of the same size.
#include "kernel/mm/vm.h"

#include "drivers/mmio.h"
#include "drivers/processor.h"
#include "kernel/lock.h"

/* All areas stand under one entry of the top-level table, which every address space shares. */
#define AREA_START 0xffffc00000000000ul
#define AREA_END   (AREA_START + (1ul << 39))
#define REUSABLE   512

struct range {
	uint64_t start;
	size_t pages;
};

static struct spinlock lock;
static uint64_t next = AREA_START;
static struct range reusable[REUSABLE];
static unsigned reusable_count;

/* 0 when the addresses are used up. */
static uint64_t take_range(size_t pages)
{
	uint64_t start;
	SPIN_GUARD(&lock);

	for (struct range *range = reusable; range < reusable + reusable_count; range++)
		if (range->pages == pages) {
			start = range->start;
			*range = reusable[--reusable_count];
			return start;
		}
	if (pages >= (AREA_END - next) / PAGE_SIZE)
		return 0;
	start = next + PAGE_SIZE;
	next = start + pages * PAGE_SIZE;
	return start;
}

/* When the table is full the addresses are given up; there are 512 GiB of them. */
static void give_range(uint64_t start, size_t pages)
{
	SPIN_GUARD(&lock);

	if (reusable_count < REUSABLE)
		reusable[reusable_count++] = (struct range){.start = start, .pages = pages};
}

void *area_alloc(size_t pages, unsigned flags)
{
	uint64_t start = take_range(pages);

	if (!start)
		return NULL;
	for (size_t i = 0; i < pages; i++) {
		uint64_t page = page_alloc();

		if (page && vm_map(start + i * PAGE_SIZE, page, flags))
			continue;
		if (page)
			page_free(page);
		vm_unmap(vm_root(), start, i);
		give_range(start, pages);
		return NULL;
	}
	return (void *)start;
}

void area_free(void *area, size_t pages)
{
	if (!area)
		return;
	vm_unmap(vm_root(), (uint64_t)area, pages);
	give_range((uint64_t)area, pages);
}

/* Bits of a physical address that this CPU has (SDM Vol 2, CPUID 80000008H). */
static uint64_t physical_limit(void)
{
	unsigned bits =
		cpuid(0x80000000, 0).eax >= 0x80000008 ? cpuid(0x80000008, 0).eax & 0xff : 36;

	return 1ul << (bits < 52 ? bits : 52);
}

static void *map_physical(uint64_t physical, uint64_t bytes, unsigned flags)
{
	uint64_t limit = physical_limit(), offset = physical % PAGE_SIZE, start;
	size_t pages;

	if (!bytes || bytes > limit || physical > limit - bytes)
		return NULL;
	pages = (size_t)((offset + bytes + PAGE_SIZE - 1) / PAGE_SIZE);
	start = take_range(pages);
	if (!start)
		return NULL;
	for (size_t i = 0; i < pages; i++)
		if (!vm_map(start + i * PAGE_SIZE, physical - offset + i * PAGE_SIZE, flags))
			return NULL;
	return (void *)(start + offset);
}

volatile void *mmio_map(uint64_t physical, uint64_t bytes)
{
	return map_physical(physical, bytes, VM_WRITE | VM_UNCACHED);
}

const void *physical_map(uint64_t physical, uint64_t bytes)
{
	return map_physical(physical, bytes, VM_READ);
}
