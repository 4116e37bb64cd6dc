// SPDX-License-Identifier: MIT
#include "tests/lib/exact.h"

extern const char call_near[], call_near_back[], call_register[], call_register_back[],
	call_memory[], call_memory_back[], call_next[], call_next_to[], call_function[], call_ret[],
	call_pop_function[], call_ret_pop[];

__asm__(".pushsection .text\n"
	"call_function: nop\n"
	"call_ret: ret\n"
	"call_pop_function: nop\n"
	"call_ret_pop: ret $16\n"
	".popsection");

TEST(bts_calls_and_returns, .group = "K", .ids = "K2", .needs = NEED_BTS,
     .claim = "CALL in each form, RET and RET n leave one record each; RET's from is the RET",
     .source = "SDM Vol 3, 17.4.4; SDM Vol 2, CALL and RET")
{
	const char *target = call_pop_function;
	uint64_t before = 0, after = 1;
	struct rig rig;

	rig_open(&rig, 16);
	EXACTLY (&rig)
		TRACED_WITH(rig_all(),
			    "movq %%rsp, %[before]\n"
			    "call_near: call call_function\n"
			    "call_near_back: leaq call_function(%%rip), %%rax\n"
			    "call_register: call *%%rax\n"
			    "call_register_back: pushq $1\n\tpushq $2\n"
			    "call_memory: call *(%[target])\n"
			    "call_memory_back: nop\n"
			    "call_next: call call_next_to\n"
			    "call_next_to: popq %%rax\n\tmovq %%rsp, %[after]\n\t",
			    AND([before] "=&r"(before), [after] "=&r"(after)),
			    AND([target] "r"(&target)));
	EXPECT_EQ(after, before);
	EXPECT_EQ(rig_count(&rig), 7);
	rig_expect(&rig, 0, call_near, call_function, "call rel32");
	rig_expect(&rig, 1, call_ret, call_near_back, "ret");
	rig_expect(&rig, 2, call_register, call_function, "call register");
	rig_expect(&rig, 3, call_ret, call_register_back, "ret");
	rig_expect(&rig, 4, call_memory, call_pop_function, "call memory");
	rig_expect(&rig, 5, call_ret_pop, call_memory_back, "ret 16");
	rig_expect(&rig, 6, call_next, call_next_to, "call of the next instruction");
	rig_close(&rig);
}
