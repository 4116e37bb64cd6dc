// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "kernel/trap/extable.h"
#include "tests/lib/rig.h"

extern const char clear_from1[], clear_to1[], clear_from2[], clear_to2[];

/* Software must set both bits before; what happens else is only measured. */
static uint64_t *clear(const void *linear)
{
	uint64_t *entry = vm_entry((uint64_t)linear);

	*entry &= ~(PTE_ACCESSED | PTE_DIRTY);
	vm_flush((uint64_t)linear);
	return entry;
}

/* A page fault for the store would be blamed on the jump or on its target: both go on. */
static bool trace_two_jumps(void)
{
	uint64_t faulted = 1;

	TRACED_WITH(rig_all(),
		    "clear_from1: jmp clear_to1\n\tud2\n"
		    "clear_to1: nop\n"
		    "clear_from2: jmp clear_to2\n\tud2\n"
		    "clear_to2: xorl %k[faulted], %k[faulted]\n"
		    "clear_out:\n\t" EXCEPTION_TABLE("clear_from1", "clear_out")
			    EXCEPTION_TABLE("clear_to1", "clear_out")
				    EXCEPTION_TABLE("clear_from2", "clear_out")
					    EXCEPTION_TABLE("clear_to2", "clear_out"),
		    AND([faulted] "+&r"(faulted)), );
	return faulted;
}

/* 1: the record is right; 0: nothing was stored. Anything else is corruption. */
static size_t right(const struct rig *rig, size_t slot, const char *from, const char *to)
{
	struct bts_struct record = rig_record(rig, slot);
	bool is = record.from == (uint64_t)from && record.to == (uint64_t)to;

	EXPECT(is || !(record.from | record.to | record.flags));
	return is;
}

/* With the bits clear in the entry of one page, the buffer's or the DS area's. */
static void measure(const char *key, bool buffer)
{
	struct rig rig;
	uint64_t *entry, before, after;
	size_t found = 0;
	bool faulted;

	rig_open(&rig, 16);
	entry = clear(buffer ? rig.pages : rig.area_page);
	before = *entry;
	faulted = trace_two_jumps();
	after = *entry;
	*entry = before | PTE_ACCESSED | PTE_DIRTY;
	EXPECT_EQ(after & ~(PTE_ACCESSED | PTE_DIRTY), before);
	if (!faulted) {
		found = right(&rig, 0, clear_from1, clear_to1);
		found += right(&rig, 1, clear_from2, clear_to2);
		EXPECT(rig_count(&rig) <= 2);
		for (size_t slot = 2; slot < 16; slot++)
			EXPECT_EQ(rig_record(&rig, slot).from | rig_record(&rig, slot).to, 0);
	}
	test_observe(key, "accessed:%d,dirty:%d,fault:%d,records:%zu,right:%zu",
		     (after & PTE_ACCESSED) != 0, (after & PTE_DIRTY) != 0, faulted,
		     rig_count(&rig), found);
	rig_close(&rig);
}

TEST(bts_accessed_dirty_clear, .group = "L", .ids = "L5", .needs = NEED_BTS,
     .claim =
	     "clear Accessed and Dirty bits of a page of the DS corrupt no memory and hang nothing",
     .source = "SDM Vol 3, 17.4.9.2: all pages pre-marked Accessed and Dirty")
{
	measure("buffer_page", true);
	measure("area_page", false);
}
