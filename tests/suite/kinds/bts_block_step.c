// SPDX-License-Identifier: MIT
#include "kernel/trap/trap.h"
#include "tests/lib/exact.h"
#include "tests/lib/msr_trial.h"
#include "tests/lib/own_idt.h"

#define BTF 2ull

extern const char block_handler[], block_iret[], block_first[], block_target[], block_end[];

/* Counts in R10; leaves IA32_DEBUGCTL in R8 and the return address in R9, and ends the stepping. */
__asm__(".pushsection .text\n"
	"block_handler: pushq %rax\n\tpushq %rcx\n\tpushq %rdx\n\tincq %r10\n\t"
	"movl $0x1d9, %ecx\n\trdmsr\n\tshlq $32, %rdx\n\tleaq (%rax, %rdx), %r8\n\t"
	"movq 24(%rsp), %r9\n\tandq $~0x100, 40(%rsp)\n\t"
	"popq %rdx\n\tpopq %rcx\n\tpopq %rax\n"
	"block_iret: iretq\n"
	".popsection");

struct step {
	uint64_t debugctl, rip, count;
};

/* Four instructions without a branch, one branch that is not taken, one that is. */
static struct step trace(uint64_t value)
{
	struct step step = {0};

	TRACED_WITH(value,
		    "xorl %%r8d, %%r8d\n\txorl %%r9d, %%r9d\n\txorl %%r10d, %%r10d\n\t"
		    "pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
		    "nop\n\tmovl $1, %%eax\n\ttestl %%eax, %%eax\n\tjz block_target\n\tnop\n"
		    "block_first: jnz block_target\n\tnop\n"
		    "block_target: nop\n\tnop\n"
		    "block_end: movq %%r8, %[debugctl]\n\tmovq %%r9, %[rip]\n\t"
		    "movq %%r10, %[count]\n\t",
		    AND([debugctl] "=&r"(step.debugctl), [rip] "=&r"(step.rip),
			[count] "=&r"(step.count)),
		    , "r8", "r9", "r10");
	return step;
}

static void check(struct rig *rig)
{
	struct step step = {0};
	size_t slot = 1;

	EXACTLY (rig) {
		own_idt_load();
		step = trace(rig_all() | BTF);
		own_idt_unload();
	}
	EXPECT_EQ(step.count, 1);
	EXPECT_EQ(step.rip, block_target);
	EXPECT_EQ(step.debugctl, rig_all());
	rig_expect(rig, 0, block_first, block_target, "jnz");
	if (rig_count(rig) == 3)
		rig_expect(rig, slot++, block_target, block_handler, "#DB");
	EXPECT_EQ(rig_count(rig), slot + 1);
	rig_expect(rig, slot, block_iret, block_target, "iretq");
}

TEST(bts_block_step, .group = "K", .ids = "K10", .needs = NEED_BTS,
     .claim = "with BTF, TF traps the first taken branch only; #DB clears BTF, not TR and BTS",
     .source = "SDM Vol 3, 17.4.2 and 17.4.3: single-stepping on branches")
{
	struct rig rig;
	uint64_t dr6;

	__asm__ volatile("movq %%dr6, %0" : "=r"(dr6));
	rig_open(&rig, 16);
	own_idt_copy();
	own_idt_set(VECTOR_DB, block_handler, false);
	if (msr_try(IA32_DEBUGCTL, rig_all() | BTF, 0).read_back != (rig_all() | BTF))
		test_skip("the processor does not take BTF beside TR and BTS");
	check(&rig);
	rig_close(&rig);
	__asm__ volatile("movq %0, %%dr6" : : "r"(dr6));
}
