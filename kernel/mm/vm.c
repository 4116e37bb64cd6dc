// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"

#include "kernel/lock.h"
#include "kernel/mm/page.h"
#include "kernel/smp/smp.h"

#include <stddef.h>

#define LARGE_PAGE 0x200000ul
#define TABLE_BITS (PTE_PRESENT | PTE_WRITABLE | PTE_USER | PTE_ACCESSED)

static uint64_t root, tables;
static struct spinlock lock;

static unsigned slot(uint64_t linear, unsigned level)
{
	return (linear >> (12 + 9 * level)) & 511;
}

uint64_t vm_entry_bits(unsigned flags)
{
	uint64_t bits = PTE_PRESENT | PTE_ACCESSED | PTE_DIRTY;

	if (flags & VM_WRITE)
		bits |= PTE_WRITABLE;
	if (flags & VM_USER)
		bits |= PTE_USER;
	if (flags & VM_UNCACHED)
		bits |= PTE_UNCACHED;
	if (!(flags & VM_EXECUTE))
		bits |= PTE_NX;
	return bits;
}

/* The entry for `linear` at `level` (0: 4 KiB, 1: 2 MiB); tables are made on the way if `make`. */
static uint64_t *walk(uint64_t top, uint64_t linear, unsigned level, bool make)
{
	uint64_t *table = direct(top);

	for (unsigned at = 3; at > level; at--) {
		uint64_t *entry = &table[slot(linear, at)];

		if (!(*entry & PTE_PRESENT)) {
			uint64_t page = make ? page_alloc() : 0;

			if (!page)
				return NULL;
			*entry = page | TABLE_BITS;
			if (top == root) /* under the lock: other tables are made without it */
				tables++;
		} else if (*entry & PTE_LARGE) {
			return NULL;
		}
		table = direct(*entry & PTE_ADDRESS);
	}
	return &table[slot(linear, level)];
}

uint64_t vm_table_count(void)
{
	return tables;
}

bool vm_map(uint64_t linear, uint64_t physical, unsigned flags)
{
	uint64_t *entry;
	SPIN_GUARD(&lock);

	entry = walk(root, linear, 0, true);
	if (!entry)
		return false;
	*entry = physical | vm_entry_bits(flags);
	vm_flush(linear);
	return true;
}

uint64_t *vm_entry(uint64_t linear)
{
	return walk(root, linear, 0, false);
}

uint64_t *vm_entry_under(uint64_t top, uint64_t linear, bool make)
{
	return walk(top, linear, 0, make);
}

size_t vm_unmap(uint64_t top, uint64_t linear, size_t pages)
{
	size_t freed = 0;
	uint64_t *entry;

	for (size_t i = 0; i < pages; i++) {
		entry = vm_entry_under(top, linear + i * PAGE_SIZE, false);
		if (entry)
			*entry &= ~PTE_PRESENT;
	}
	if (pages)
		smp_flush(linear, pages * PAGE_SIZE);
	for (size_t i = 0; i < pages; i++) {
		entry = vm_entry_under(top, linear + i * PAGE_SIZE, false);
		if (!entry || !*entry)
			continue;
		page_free(*entry & PTE_ADDRESS);
		*entry = 0;
		freed++;
	}
	return freed;
}

uint64_t vm_root(void)
{
	return root;
}

/* The rights of the image's parts, also where the direct map shows them. */
static unsigned image_rights(uint64_t linear)
{
	if (linear >= (uint64_t)text_start && linear < (uint64_t)text_end)
		return VM_EXECUTE;
	if (linear >= (uint64_t)text_end && linear < (uint64_t)rodata_end)
		return VM_READ;
	return VM_WRITE;
}

static bool map_image(void)
{
	for (uint64_t at = (uint64_t)text_start; at < (uint64_t)kernel_end; at += PAGE_SIZE)
		if (!vm_map(at, at - KERNEL_BASE, image_rights(at)))
			return false;
	return true;
}

/* RAM at [start, end) in the direct map: large pages but where the image is. */
static bool map_direct(uint64_t start, uint64_t end)
{
	uint64_t image_end = (uint64_t)kernel_end - KERNEL_BASE;
	uint64_t at = start & ~(PAGE_SIZE - 1);

	while (at < end) {
		uint64_t *entry = walk(root, DIRECT_MAP + at, 1, true);

		if (!entry)
			return false;
		/* Two loader regions may meet inside one large page, whose table then exists. */
		if (at % LARGE_PAGE || at + LARGE_PAGE > end || at < image_end ||
		    (*entry & PTE_PRESENT && !(*entry & PTE_LARGE))) {
			if (!vm_map(DIRECT_MAP + at, at, image_rights(KERNEL_BASE + at) & VM_WRITE))
				return false;
			at += PAGE_SIZE;
		} else {
			*entry = at | vm_entry_bits(VM_WRITE) | PTE_LARGE;
			at += LARGE_PAGE;
		}
	}
	return true;
}

const char *vm_init(const struct boot_info *info)
{
	static const char out_of_memory[] = "not enough memory for the kernel's page tables";

	root = page_alloc();
	if (!root || !map_image() || !map_direct(0, KERNEL_LOAD))
		return out_of_memory;
	for (unsigned i = 0; i < info->region_count; i++) {
		const struct boot_region *region = &info->regions[i];

		if (region->type == MEMORY_USABLE || region->type == MEMORY_ACPI_RECLAIMABLE ||
		    region->type == MEMORY_ACPI_NVS)
			if (!map_direct(region->base, region->base + region->length))
				return out_of_memory;
	}
	vm_load();
	return NULL;
}

void vm_load(void)
{
	__asm__ volatile("mov %0, %%cr3" : : "r"(root) : "memory");
}
