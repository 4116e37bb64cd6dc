// SPDX-License-Identifier: MIT
// A debug exception clears LBR and BTF and leaves TR and BTS set: a debugger that steps a traced
// task finds its own exceptions in the trace. Passing means: recording goes on, and the way back
// from the handler is recorded.
#include "kernel/trap/trap.h"
#include "tests/lib/exact.h"
#include "tests/lib/msr_trial.h"
#include "tests/lib/own_idt.h"

#define LBR 1ull

extern const char step_handler[], step_iret[], step_target[], step_next[];

/* Leaves IA32_DEBUGCTL in R8 and the return address in R9, and ends the single-stepping. */
__asm__(".pushsection .text\n"
	"step_handler: pushq %rax\n\tpushq %rcx\n\tpushq %rdx\n\t"
	"movl $0x1d9, %ecx\n\trdmsr\n\tshlq $32, %rdx\n\tleaq (%rax, %rdx), %r8\n\t"
	"movq 24(%rsp), %r9\n\tandq $~0x100, 40(%rsp)\n\t"
	"popq %rdx\n\tpopq %rcx\n\tpopq %rax\n"
	"step_iret: iretq\n"
	".popsection");

struct step {
	uint64_t debugctl, rip;
};

static struct step trace(uint64_t value)
{
	struct step step = {0};

	TRACED_WITH(value,
		    "xorl %%r8d, %%r8d\n\txorl %%r9d, %%r9d\n\t"
		    "pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n"
		    "step_target: nop\n"
		    "step_next: movq %%r8, %[debugctl]\n\tmovq %%r9, %[rip]\n\t",
		    AND([debugctl] "=&r"(step.debugctl), [rip] "=&r"(step.rip)), , "r8", "r9");
	return step;
}

static void check(struct rig *rig, uint64_t value)
{
	struct step step = {0};
	size_t count;

	EXACTLY (rig) {
		own_idt_load();
		step = trace(value);
		own_idt_unload();
	}
	EXPECT_EQ(step.rip, step_next);
	EXPECT_EQ(step.debugctl, rig_all());
	count = rig_count(rig);
	EXPECT(count == 1 || count == 2);
	if (count == 2)
		rig_expect(rig, 0, step_next, step_handler, "#DB");
	rig_expect(rig, count - 1, step_iret, step_next, "iretq");
	test_observe(value & LBR ? "db_with_lbr" : "db", "%s",
		     count == 2 ? "recorded" : "not_recorded");
}

TEST(bts_single_step, .group = "K", .ids = "K10", .needs = NEED_BTS,
     .claim = "#DB clears LBR and leaves TR and BTS set, and its way back is recorded",
     .source = "SDM Vol 3, 17.4.2: a debug exception does not clear TR")
{
	struct rig rig;
	uint64_t dr6;

	__asm__ volatile("movq %%dr6, %0" : "=r"(dr6));
	rig_open(&rig, 16);
	own_idt_copy();
	own_idt_set(VECTOR_DB, step_handler, false);
	check(&rig, rig_all());
	if (msr_try(IA32_DEBUGCTL, rig_all() | LBR, 0).read_back == (rig_all() | LBR))
		check(&rig, rig_all() | LBR);
	rig_close(&rig);
	__asm__ volatile("movq %0, %%dr6" : : "r"(dr6));
}
