// SPDX-License-Identifier: MIT
#include "tests/lib/own_gdt.h"

#include <stdint.h>

#include "lib/string.h"
#include "tests/framework/test.h"

enum { ENTRIES = (OWN_CODE_64 + 8) / 8 };

struct pointer {
	uint16_t limit;
	uint64_t base;
} __attribute__((packed));

static uint64_t table[ENTRIES] __attribute__((aligned(16)));
static struct pointer kernels;

/* The selectors that are loaded keep their places. */
void own_gdt_load(void)
{
	struct pointer own = {sizeof(table) - 1, (uint64_t)table};

	__asm__ volatile("sgdt %0" : "=m"(kernels));
	if (kernels.limit >= OWN_CODE_32)
		test_error("the kernel's GDT ends at %x", kernels.limit);
	memset(table, 0, sizeof(table));
	memcpy(table, (const void *)kernels.base, kernels.limit + 1ul);
	table[OWN_CODE_32 / 8] = 0x00cf9b000000ffff;
	table[OWN_DATA_32 / 8] = 0x00cf93000000ffff;
	table[OWN_CODE_16 / 8] = 0x00009b000000ffff;
	table[OWN_DATA_16 / 8] = 0x000093000000ffff;
	table[OWN_CODE_64 / 8] = 0x00af9b000000ffff;
	__asm__ volatile("lgdt %0" : : "m"(own));
}

void own_gdt_unload(void)
{
	__asm__ volatile("lgdt %0" : : "m"(kernels));
}

void own_gdt_copy(void *to, size_t bytes)
{
	memset(to, 0, bytes);
	memcpy(to, table, bytes < sizeof(table) ? bytes : sizeof(table));
}
