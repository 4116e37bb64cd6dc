// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "tests/lib/rig.h"

/* `linear` gets the physical page that `entry` names; the record of a jump follows at once. */
static void remap(struct rig *rig, uint64_t entry, bool by_cr3)
{
	uint64_t *place = vm_entry(rig->base);

	if (by_cr3)
		TRACED_WITH(rig_all(),
			    "jmp 1f\n\tud2\n1:\tmovq %[entry], (%[place])\n\t"
			    "movq %%cr3, %%rax\n\tmovq %%rax, %%cr3\n\tjmp 2f\n\tud2\n2:\n\t",
			    , AND([entry] "r"(entry), [place] "r"(place)));
	else
		TRACED_WITH(rig_all(),
			    "jmp 1f\n\tud2\n1:\tmovq %[entry], (%[place])\n\t"
			    "invlpg (%[linear])\n\tjmp 2f\n\tud2\n2:\n\t",
			    , AND([entry] "r"(entry), [place] "r"(place), [linear] "r"(rig->base)));
}

/* The first jump is recorded in the one page, the second in the other. */
static void check(struct rig *rig, bool by_cr3)
{
	uint64_t *own = vm_entry(rig->base), old = *own;
	uint8_t *other = test_area(1);
	uint64_t *there = (uint64_t *)(void *)(other + (rig->base & (PAGE_SIZE - 1)));

	remap(rig, *vm_entry((uint64_t)other), by_cr3);
	*own = old;
	vm_flush(rig->base);
	EXPECT_EQ(rig_count(rig), 2);
	EXPECT(rig_record(rig, 0).from != 0);
	EXPECT_EQ(rig_record(rig, 1).from, 0);
	EXPECT_EQ(there[0], 0);
	EXPECT(there[3] != 0 && there[4] > there[3]);
	rig_reset(rig);
}

TEST(bts_buffer_remapped, .group = "L", .ids = "L4", .needs = NEED_BTS,
     .claim = "the buffer is found by the page tables: INVLPG or MOV CR3 makes a change count",
     .source = "SDM Vol 3, 17.4.9.2: linear addresses; SDM Vol 3, 4.10.4")
{
	struct rig rig;

	rig_open(&rig, 16);
	check(&rig, false);
	check(&rig, true);
	rig_close(&rig);
}
