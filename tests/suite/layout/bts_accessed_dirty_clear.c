// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "tests/lib/rig.h"
#include "tests/lib/two_jumps.h"

/* Software must set both bits before; what happens else is only measured. */
static uint64_t *clear(const void *linear)
{
	uint64_t *entry = vm_entry((uint64_t)linear);

	*entry &= ~(PTE_ACCESSED | PTE_DIRTY);
	vm_flush((uint64_t)linear);
	return entry;
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
	faulted = two_jumps_fault(rig_all());
	after = *entry;
	*entry = before | PTE_ACCESSED | PTE_DIRTY;
	EXPECT_EQ(after & ~(PTE_ACCESSED | PTE_DIRTY), before);
	if (!faulted) {
		found = right(&rig, 0, two_jumps_from1, two_jumps_to1);
		found += right(&rig, 1, two_jumps_from2, two_jumps_to2);
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
