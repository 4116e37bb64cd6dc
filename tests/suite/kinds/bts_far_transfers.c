// SPDX-License-Identifier: MIT
#include "tests/lib/exact.h"

struct far_pointer {
	uint64_t offset;
	uint16_t selector;
} __attribute__((packed));

/* As bytes: of a 64-bit far pointer, GNU as and clang know different spellings. */
#define LJMP_RAX  ".byte 0x48, 0xff, 0x28"
#define LCALL_RAX ".byte 0x48, 0xff, 0x18"

extern const char far_jump[], far_jumped[], far_call[], far_callee[], far_callee_ret[],
	far_called[], far_return[], far_returned[];

TEST(bts_far_transfers, .group = "K", .ids = "K3", .needs = NEED_BTS,
     .claim =
	     "far JMP, CALL and RET within 64-bit mode leave one record each, from and to as written",
     .source = "SDM Vol 3, 17.4.4 and 17.4.9")
{
	struct far_pointer jump = {(uint64_t)far_jumped, 0}, call = {(uint64_t)far_callee, 0};
	struct rig rig;

	__asm__("mov %%cs, %0" : "=r"(jump.selector));
	call.selector = jump.selector;
	rig_open(&rig, 16);
	EXACTLY (&rig)
		TRACED_WITH(rig_all(),
			    "leaq %[jump], %%rax\n"
			    "far_jump: " LJMP_RAX "\n\tnop\n"
			    "far_jumped: nop\n"
			    "leaq %[call], %%rax\n"
			    "far_call: " LCALL_RAX "\n"
			    "far_called: movl %%cs, %%eax\n\tpushq %%rax\n\t"
			    "leaq far_returned(%%rip), %%rax\n\tpushq %%rax\n"
			    "far_return: lretq\n"
			    "far_callee: nop\n"
			    "far_callee_ret: lretq\n"
			    "far_returned:\n\t",
			    , AND([jump] "m"(jump), [call] "m"(call)));
	EXPECT_EQ(rig_count(&rig), 4);
	rig_expect(&rig, 0, far_jump, far_jumped, "far jmp");
	rig_expect(&rig, 1, far_call, far_callee, "far call");
	rig_expect(&rig, 2, far_callee_ret, far_called, "far ret");
	rig_expect(&rig, 3, far_return, far_returned, "far ret");
	rig_close(&rig);
}
