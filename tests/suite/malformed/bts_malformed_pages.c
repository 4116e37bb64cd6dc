// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "tests/lib/malformed.h"
#include "tests/lib/two_jumps.h"

/* The entry of one page loses `bits` while two jumps are traced. */
static void check(const char *key, bool area, uint64_t bits)
{
	struct rig rig;
	uint64_t *entry, before;
	bool faulted;

	rig_open(&rig, MALFORMED_SLOTS);
	entry = vm_entry((uint64_t)(area ? rig.area_page : rig.pages));
	before = *entry;
	*entry = before & ~bits;
	vm_flush((uint64_t)(area ? rig.area_page : rig.pages));
	faulted = two_jumps_fault(rig_all());
	*entry = before;
	vm_flush((uint64_t)(area ? rig.area_page : rig.pages));
	test_observe(key, "fault:%d,index:%zu,first:%d", faulted, rig_count(&rig),
		     rig_record(&rig, 0).from != 0);
	EXPECT(rig_count(&rig) <= 2);
	for (size_t slot = 2; slot < MALFORMED_SLOTS; slot++)
		EXPECT_EQ(rig_record(&rig, slot).from | rig_record(&rig, slot).to, 0);
	rig_close(&rig);
}

TEST(bts_malformed_pages, .group = "X", .ids = "X4", .needs = NEED_BTS | NEED_UNSAFE,
     .claim =
	     "a DS area or buffer that is not present or read-only costs records or faults, no more",
     .source = "SDM Vol 3, 17.4.9.2: non-paged, present")
{
	check("buffer_not_present", false, PTE_PRESENT);
	check("buffer_read_only", false, PTE_WRITABLE);
	check("area_not_present", true, PTE_PRESENT);
	check("area_read_only", true, PTE_WRITABLE);
}
