// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "lib/string.h"
#include "tests/lib/calibration.h"
#include "tests/lib/chain.h"
#include "tests/lib/circular.h"

#define BOUNDARY 0xffffc7ff00000000ul /* a multiple of 4 GiB that nothing is mapped at */
#define PAGES	 2		      /* one on either side */
#define BEFORE	 5		      /* slots before it */
#define SLOTS	 12

static void map(const uint8_t *pages)
{
	for (size_t i = 0; i < PAGES; i++) {
		uint64_t physical = *vm_entry((uint64_t)pages + i * PAGE_SIZE) & PTE_ADDRESS;

		if (!vm_map(BOUNDARY - PAGE_SIZE + i * PAGE_SIZE, physical, VM_WRITE))
			test_error("no memory for page tables");
	}
}

static void unmap(void)
{
	for (size_t i = 0; i < PAGES; i++)
		vm_unmap(BOUNDARY - PAGE_SIZE + i * PAGE_SIZE);
}

/* The rig's own buffer waits meanwhile. */
static void place(struct rig *rig, const struct calibration *c)
{
	rig->base = BOUNDARY - BEFORE * rig->record;
	rig->slots = SLOTS;
	ds_set(rig->area, DS_BTS_BUFFER_BASE, rig->base);
	rig_shorten(rig, SLOTS, maximum_extra(c->maximum));
}

TEST(bts_buffer_across_4g, .group = "L", .ids = "L4", .needs = NEED_BTS,
     .claim = "base, index, maximum and threshold are compared and moved as 64-bit addresses",
     .source = "SDM Vol 3, 17.4.9.1 and figure 17-8")
{
	const struct calibration *c = calibration();
	const uint8_t *pages = test_area(PAGES);
	struct rig rig, own;

	rig_open(&rig, SLOTS);
	own = rig;
	map(pages);
	place(&rig, c);
	chain_trace(&rig, rig_all(), &chain_a, SLOTS - 2);
	EXPECT_EQ(rig_index(&rig), rig.base + (SLOTS - 2) * rig.record);
	chain_expect(&rig, 0, SLOTS - 2, &chain_a, SLOTS - 2, 0);
	rig_reset(&rig);
	chain_trace(&rig, rig_all(), &chain_a, 3 * SLOTS);
	EXPECT(rig_index(&rig) >= rig.base && rig_index(&rig) <= rig.base + SLOTS * rig.record);
	EXPECT_EQ(rig_used(&rig), SLOTS - c->unused);
	rig_close(&own);
	unmap();
}
