// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "tests/lib/malformed.h"
#include "tests/lib/two_jumps.h"

/* Page 0 stands for nothing: it is mapped only here, with fields that are all zero. */
static void check(const char *key, bool mapped)
{
	uint8_t *page = test_area(1);
	struct rig rig;
	size_t changed = 0;
	bool faulted;

	rig_open(&rig, MALFORMED_SLOTS);
	if (mapped && !vm_map(0, *vm_entry((uint64_t)page) & PTE_ADDRESS, VM_WRITE))
		test_error("no memory for page tables");
	wrmsr(IA32_DS_AREA, 0);
	faulted = two_jumps_fault(rig_all());
	wrmsr(IA32_DS_AREA, (uint64_t)rig.area);
	if (mapped)
		vm_unmap(0);
	for (size_t i = 0; i < PAGE_SIZE; i++)
		changed += page[i] != 0;
	test_observe(key, "fault:%d,bytes:%zu", faulted, changed);
	EXPECT_EQ(rig_count(&rig), 0);
	EXPECT_EQ(rig_record(&rig, 0).from, 0);
	rig_close(&rig);
}

TEST(bts_malformed_area_zero, .group = "X", .ids = "X1", .needs = NEED_BTS | NEED_UNSAFE,
     .claim = "IA32_DS_AREA = 0 with TR and BTS set hangs nothing",
     .source = "Linux 2.6.32, ds.c: \"the hardware would crash\"")
{
	check("page_0_absent", false);
	check("page_0_zero", true);
}
