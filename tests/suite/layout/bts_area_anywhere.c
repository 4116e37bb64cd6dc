// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "tests/lib/chain.h"
#include "tests/lib/exact.h"

#define BRANCHES 12

/* The area of `rig` from here on: the fields of the one that it has, and no pattern. */
static void move(struct rig *rig, void *area)
{
	for (unsigned field = DS_BTS_BUFFER_BASE; field <= DS_BTS_INTERRUPT_THRESHOLD; field++)
		ds_set(area, field, ds_get(rig->area, field));
	rig->area = area;
	wrmsr(IA32_DS_AREA, (uint64_t)area);
}

TEST(bts_area_anywhere, .group = "L", .ids = "L1 L4", .needs = NEED_BTS,
     .claim = "the DS area may begin anywhere in a page, and its fields may lie in two",
     .source = "SDM Vol 3, 17.4.9, 17.4.9.2 and figure 17-8: contiguous linear addresses")
{
	static const size_t offsets[] = {0,	    64,	       2048 + 8, 4096 - 32,
					 4096 - 24, 4096 - 16, 4096 - 8, 4096};
	uint8_t *pages = test_area(3);
	struct rig rig, moved;

	rig_open(&rig, 2 * BRANCHES);
	for (unsigned i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		moved = rig;
		move(&moved, pages + offsets[i]);
		EXACTLY (&moved)
			chain_trace(&moved, rig_all(), &chain_a, BRANCHES);
		EXPECT_EQ(rig_count(&moved), BRANCHES);
		chain_expect(&moved, 0, BRANCHES, &chain_a, BRANCHES, 0);
	}
	wrmsr(IA32_DS_AREA, (uint64_t)rig.area);
	rig_close(&rig);
}

/* The page of the DS area becomes another, with the same content, between two jumps. */
static void remap(uint64_t *place, uint64_t entry, const void *area)
{
	TRACED_WITH(rig_all(),
		    "jmp 1f\n\tud2\n1:\tmovq %[entry], (%[place])\n\tinvlpg (%[area])\n\t"
		    "jmp 2f\n\tud2\n2:\n\t",
		    , AND([entry] "r"(entry), [place] "r"(place), [area] "r"(area)));
}

TEST(bts_area_remapped, .group = "L", .ids = "L4", .needs = NEED_BTS,
     .claim = "the DS area is found by the page tables: INVLPG makes a change count",
     .source = "SDM Vol 3, 17.4.9.2 and 4.10.4: linear addresses, invalidation")
{
	uint8_t *other = test_area(1);
	uint64_t *place, old;
	struct rig rig;

	rig_open(&rig, 16);
	for (unsigned field = DS_BTS_BUFFER_BASE; field <= DS_BTS_INTERRUPT_THRESHOLD; field++)
		ds_set(other, field, ds_get(rig.area, field));
	ds_set(other, DS_BTS_INDEX, rig.base + 4 * rig.record);
	place = vm_entry((uint64_t)rig.area);
	old = *place;
	remap(place, *vm_entry((uint64_t)other), rig.area);
	*place = old;
	vm_flush((uint64_t)rig.area);
	EXPECT_EQ(rig_count(&rig), 1);
	EXPECT_EQ(ds_get(other, DS_BTS_INDEX), rig.base + 5 * rig.record);
	EXPECT(rig_record(&rig, 0).from != 0);
	EXPECT(rig_record(&rig, 4).from > rig_record(&rig, 0).from);
	rig_close(&rig);
}

#define MANY 100000 /* 2.4 MB */

TEST(bts_buffer_large, .group = "L", .ids = "L1", .needs = NEED_BTS,
     .claim = "a buffer of more than 2 MiB is filled from end to end",
     .source = "SDM Vol 3, 17.4.9: BTS absolute maximum")
{
	struct rig rig;

	rig_open(&rig, MANY + 2);
	EXACTLY (&rig)
		chain_trace(&rig, rig_all(), &chain_a, MANY);
	EXPECT_EQ(rig_count(&rig), MANY);
	chain_expect(&rig, 0, MANY, &chain_a, MANY, 0);
	rig_close(&rig);
}
