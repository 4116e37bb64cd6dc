// SPDX-License-Identifier: MIT
#include "tests/lib/visits.h"

static void expect_held(const struct rig *rig, const char *what)
{
	uint64_t area = rdmsr(IA32_DS_AREA);

	if (area != (uint64_t)rig->area)
		test_note("%s: IA32_DS_AREA is %lx", what, area);
	EXPECT_EQ(area, rig->area);
	wrmsr(IA32_DS_AREA, (uint64_t)rig->area);
}

TEST(ds_area_holds, .group = "M", .ids = "", .needs = NEED_BTS,
     .claim = "IA32_DS_AREA and IA32_DEBUGCTL keep their values over branches, MOV CR3, ring 3",
     .source =
	     "SDM Vol 3, 17.4.9 and table 35-2: 600H and 1D9H, written by software, cleared by RESET and INIT")
{
	uint64_t debugctl = 0;
	struct rig rig;

	rig_open(&rig, VISITS_SLOTS);
	expect_held(&rig, "written");
	TRACED(rig_all(), "jmp 1f\n\tud2\n1:\n\t");
	expect_held(&rig, "a branch recorded, and TR off again");
	TRACED_WITH(rig_interrupt(),
		    "movq %%cr3, %%rax\n\tmovq %%rax, %%cr3\n\tjmp 1f\n\tud2\n1:\t"
		    "movl $0x1d9, %%ecx\n\trdmsr\n\tshlq $32, %%rdx\n\torq %%rax, %%rdx\n\t"
		    "movq %%rdx, %[debugctl]\n\t",
		    AND([debugctl] "=&r"(debugctl)), );
	expect_held(&rig, "MOV CR3");
	EXPECT_EQ(debugctl, rig_interrupt());
	EXPECT_EQ(rig_count(&rig), 2);
	visits_open();
	EXPECT_EQ(visits_trace(&rig, rig_interrupt()).debugctl, rig_interrupt());
	visits_close();
	expect_held(&rig, "ring 3");
	rig_close(&rig);
}
