// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "tests/lib/chain.h"
#include "tests/lib/exact.h"

#define BRANCHES 12
#define IN_FIRST 5 /* whole records before the page boundary */

static void exchange(uint8_t *a, uint8_t *b, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		uint8_t byte = a[i];

		a[i] = b[i];
		b[i] = byte;
	}
}

/* The first two pages of the buffer get physical pages that do not follow each other. */
static void part(struct rig *rig)
{
	uint64_t linear = (uint64_t)rig->pages;
	uint64_t *first = vm_entry(linear), *second = vm_entry(linear + PAGE_SIZE);
	uint64_t entry = *first;

	if ((*first & PTE_ADDRESS) + PAGE_SIZE == (*second & PTE_ADDRESS)) {
		exchange(rig->pages, rig->pages + PAGE_SIZE, PAGE_SIZE);
		*first = *second;
		*second = entry;
		vm_flush(linear);
		vm_flush(linear + PAGE_SIZE);
	}
	REQUIRE((*first & PTE_ADDRESS) + PAGE_SIZE != (*second & PTE_ADDRESS));
}

/* The record that crosses has its first `bytes` bytes in the first page. */
static void cross(size_t bytes)
{
	struct rig rig;

	rig_open_at(&rig, 2 * BRANCHES, PAGE_SIZE - 24 * IN_FIRST - bytes);
	part(&rig);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, BRANCHES);
	EXPECT_EQ(rig_index(&rig), rig.base + 24 * BRANCHES);
	chain_expect(&rig, 0, BRANCHES, &chain_a, BRANCHES, 0);
	rig_close(&rig);
}

TEST(bts_buffer_across_pages, .group = "L", .ids = "L4", .needs = NEED_BTS,
     .claim = "the buffer is contiguous in linear memory only: a record may cross physical pages",
     .source = "SDM Vol 3, 17.4.9.2: contiguous linear addresses")
{
	cross(0);
	cross(8);
	cross(16);
}
