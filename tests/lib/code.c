// SPDX-License-Identifier: MIT
#include "tests/lib/code.h"

#include "kernel/mm/vm.h"
#include "tests/framework/test.h"

void code_map(uint64_t linear, const void *page, unsigned flags)
{
	uint64_t physical = *vm_entry((uint64_t)page) & PTE_ADDRESS;

	if (!vm_map(linear, physical, VM_EXECUTE | flags))
		test_error("no memory for the page tables of %lx", linear);
}

void code_unmap(uint64_t linear)
{
	vm_unmap(linear);
}

static void protect(void *area, size_t pages, unsigned flags)
{
	for (size_t i = 0; i < pages; i++)
		vm_protect((uint64_t)area + i * PAGE_SIZE, flags);
}

void code_seal(void *area, size_t pages)
{
	protect(area, pages, VM_EXECUTE);
}

void code_unseal(void *area, size_t pages)
{
	protect(area, pages, VM_WRITE);
}
