/* SPDX-License-Identifier: MIT */
#include "kernel/trap/trap.h"
#include "tests/lib/exact.h"
#include "tests/lib/own_idt.h"

#define DR7_RESET 0x400ul
#define DR7_FIRST 0x402ul /* G0: execution of the byte at DR0 */

extern const char breakpoint_handler[], breakpoint_iret[], breakpoint_set[], breakpoint_at[],
	breakpoint_to[], breakpoint_last[], breakpoint_end[];

/* Leaves IA32_DEBUGCTL in R8, and RFLAGS.RF set so that the instruction runs. */
__asm__(".pushsection .text\n"
	"breakpoint_handler: pushq %rax\n\tpushq %rcx\n\tpushq %rdx\n\t"
	"movl $0x1d9, %ecx\n\trdmsr\n\tshlq $32, %rdx\n\tleaq (%rax, %rdx), %r8\n\t"
	"orq $0x10000, 40(%rsp)\n\t"
	"popq %rdx\n\tpopq %rcx\n\tpopq %rax\n"
	"breakpoint_iret: iretq\n"
	".popsection");

/* DR7 is written between two jumps; the second one meets the breakpoint. */
static uint64_t trace(uint64_t debugctl)
{
	uint64_t seen = 0;

	TRACED_WITH(debugctl,
		    "xorl %%r8d, %%r8d\n\tleaq breakpoint_at(%%rip), %%rax\n\tmovq %%rax, %%dr0\n\t"
		    "nop\n"
		    "breakpoint_set: movq %[on], %%dr7\n"
		    "breakpoint_at: jmp breakpoint_to\n\tud2\n"
		    "breakpoint_to: movq %[off], %%dr7\n"
		    "breakpoint_last: jmp breakpoint_end\n\tud2\n"
		    "breakpoint_end: movq %%r8, %[seen]\n\t",
		    AND([seen] "=&r"(seen)), AND([on] "r"(DR7_FIRST), [off] "r"(DR7_RESET)), "r8");
	return seen;
}

TEST(bts_breakpoint, .group = "K", .ids = "K10", .needs = NEED_BTS,
     .claim = "MOV DR7 and the #DB of a breakpoint leave TR and BTS set; the branches go on",
     .source = "SDM Vol 3, 17.4.3 and 17.4.4: a debug exception does not automatically clear TR")
{
	struct rig rig;
	uint64_t dr6, seen = 0;
	size_t slot = 0;

	__asm__ volatile("movq %%dr6, %0" : "=r"(dr6));
	rig_open(&rig, 16);
	own_idt_copy();
	own_idt_set(VECTOR_DB, breakpoint_handler, false);
	EXACTLY (&rig) {
		own_idt_load();
		seen = trace(rig_interrupt());
		own_idt_unload();
	}
	EXPECT_EQ(seen, rig_interrupt());
	if (rig_record(&rig, 0).to == (uint64_t)breakpoint_handler)
		rig_expect(&rig, slot++, breakpoint_at, breakpoint_handler, "#DB");
	rig_expect(&rig, slot++, breakpoint_iret, breakpoint_at, "iretq");
	rig_expect(&rig, slot++, breakpoint_at, breakpoint_to, "the jmp with the breakpoint");
	rig_expect(&rig, slot++, breakpoint_last, breakpoint_end, "jmp behind MOV DR7");
	EXPECT_EQ(rig_count(&rig), slot);
	rig_close(&rig);
	__asm__ volatile("movq %0, %%dr6" : : "r"(dr6));
}
