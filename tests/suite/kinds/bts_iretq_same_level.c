// SPDX-License-Identifier: MIT
#include "tests/lib/exact.h"

extern const char iret_same[], iret_same_to[];

TEST(bts_iretq_same_level, .group = "K", .ids = "K6", .needs = NEED_BTS,
     .claim = "IRETQ within CPL 0 leaves one record, to where it returns",
     .source = "SDM Vol 3, 17.4.4: taken branches")
{
	struct rig rig;

	rig_open(&rig, 16);
	EXACTLY (&rig)
		TRACED(rig_all(), "movq %%rsp, %%rax\n\t"
				  "movl %%ss, %%ecx\n\tpushq %%rcx\n\tpushq %%rax\n\tpushfq\n\t"
				  "movl %%cs, %%ecx\n\tpushq %%rcx\n\t"
				  "leaq iret_same_to(%%rip), %%rcx\n\tpushq %%rcx\n"
				  "iret_same: iretq\n\tud2\n"
				  "iret_same_to:\n\t");
	EXPECT_EQ(rig_count(&rig), 1);
	rig_expect(&rig, 0, iret_same, iret_same_to, "iretq");
	rig_close(&rig);
}
