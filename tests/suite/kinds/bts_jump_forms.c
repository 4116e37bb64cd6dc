// SPDX-License-Identifier: MIT
#include "tests/lib/exact.h"

extern const char form_short[], form_near[], form_register[], form_memory[], form_next[],
	form_short_to[], form_near_to[], form_register_to[], form_memory_to[], form_next_to[];

TEST(bts_jump_forms, .group = "K", .ids = "K1", .needs = NEED_BTS,
     .claim =
	     "JMP is recorded in each form: rel8, rel32, register, memory, to the next instruction",
     .source = "SDM Vol 3, 17.4.4; SDM Vol 2, JMP")
{
	const char *target = form_memory_to;
	struct rig rig;

	rig_open(&rig, 16);
	EXACTLY (&rig)
		TRACED_WITH(rig_all(),
			    "form_short: jmp form_short_to\n\tud2\n"
			    "form_short_to: nop\n"
			    "form_near: jmp form_near_to\n\t.fill 200, 1, 0xcc\n"
			    "form_near_to: leaq form_register_to(%%rip), %%rax\n"
			    "form_register: jmp *%%rax\n\tud2\n"
			    "form_register_to: nop\n"
			    "form_memory: jmp *(%[target])\n\tud2\n"
			    "form_memory_to: nop\n"
			    "form_next: .byte 0xeb, 0\n"
			    "form_next_to:\n\t",
			    , AND([target] "r"(&target)));
	EXPECT_EQ(rig_count(&rig), 5);
	rig_expect(&rig, 0, form_short, form_short_to, "jmp rel8");
	rig_expect(&rig, 1, form_near, form_near_to, "jmp rel32");
	rig_expect(&rig, 2, form_register, form_register_to, "jmp register");
	rig_expect(&rig, 3, form_memory, form_memory_to, "jmp memory");
	rig_expect(&rig, 4, form_next, form_next_to, "jmp to the next instruction");
	rig_close(&rig);
}
