// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/trap.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/rig.h"

// A debug exception clears LBR and BTF and leaves TR and BTS set: a debugger that steps a traced
// task finds its own exceptions in the trace. Passing means: recording goes on, and the way back
// from the handler is recorded.

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

struct single_step_step {
	uint64_t debugctl, rip;
};

static struct single_step_step trace_single_step(uint64_t value)
{
	struct single_step_step step = {0};

	TRACED_WITH(value,
		    "xorl %%r8d, %%r8d\n\txorl %%r9d, %%r9d\n\t"
		    "pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n"
		    "step_target: nop\n"
		    "step_next: movq %%r8, %[debugctl]\n\tmovq %%r9, %[rip]\n\t",
		    OPERANDS([debugctl] "=&r"(step.debugctl), [rip] "=&r"(step.rip)), , "r8", "r9");
	return step;
}

static void check_single_step(struct rig *rig, uint64_t value)
{
	struct single_step_step step = {0};
	size_t count;

	EXACTLY (rig) {
		own_idt_load();
		step = trace_single_step(value);
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
	check_single_step(&rig, rig_all());
	if (msr_try(IA32_DEBUGCTL, rig_all() | LBR, 0).read_back == (rig_all() | LBR))
		check_single_step(&rig, rig_all() | LBR);
	rig_close(&rig);
	__asm__ volatile("movq %0, %%dr6" : : "r"(dr6));
}

#define AT 0x00005a0000001000ul

/* INT1; JMP over nothing; SYSCALL */
static const uint8_t user_code[] = {0xf1, 0xeb, 0x00, 0x0f, 0x05};

TEST(bts_user_debug_exception, .group = "K", .ids = "K10", .needs = NEED_BTS,
     .claim = "#DB in ring 3 leaves TR and BTS set, and the next branch there is recorded",
     .source = "SDM Vol 3, 17.4.2: a debug exception does not clear TR")
{
	struct trap_frame frame;
	uint8_t *page = test_area(1);
	size_t found = 0;
	struct rig rig;

	memcpy(page, user_code, sizeof(user_code));
	code_map(AT, page, VM_USER);
	rig_open(&rig, 4096);
	own_idt_copy();
	own_idt_set(VECTOR_DB, step_handler, false);
	lapic_set_task_priority(0xf0);
	EXACTLY (&rig) {
		frame = (struct trap_frame){.rip = AT};
		own_idt_load();
		wrmsr(IA32_DEBUGCTL, rig_all());
		user_run(&frame);
		wrmsr(IA32_DEBUGCTL, 0);
		own_idt_unload();
	}
	lapic_set_task_priority(0);
	EXPECT_EQ(frame.vector, VECTOR_SYSCALL);
	EXPECT_EQ(frame.r8, rig_all());
	for (size_t slot = 0; slot < rig_count(&rig); slot++)
		found += rig_record(&rig, slot).from == AT + 1 &&
			 rig_record(&rig, slot).to == AT + 3;
	EXPECT_EQ(found, 1);
	rig_close(&rig);
	code_unmap(AT);
}

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

struct block_step_step {
	uint64_t debugctl, rip, count;
};

/* Four instructions without a branch, one branch that is not taken, one that is. */
static struct block_step_step trace_block_step(uint64_t value)
{
	struct block_step_step step = {0};

	TRACED_WITH(value,
		    "xorl %%r8d, %%r8d\n\txorl %%r9d, %%r9d\n\txorl %%r10d, %%r10d\n\t"
		    "pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
		    "nop\n\tmovl $1, %%eax\n\ttestl %%eax, %%eax\n\tjz block_target\n\tnop\n"
		    "block_first: jnz block_target\n\tnop\n"
		    "block_target: nop\n\tnop\n"
		    "block_end: movq %%r8, %[debugctl]\n\tmovq %%r9, %[rip]\n\t"
		    "movq %%r10, %[count]\n\t",
		    OPERANDS([debugctl] "=&r"(step.debugctl), [rip] "=&r"(step.rip),
			     [count] "=&r"(step.count)),
		    , "r8", "r9", "r10");
	return step;
}

static void check_block_step(struct rig *rig)
{
	struct block_step_step step = {0};
	size_t slot = 1;

	EXACTLY (rig) {
		own_idt_load();
		step = trace_block_step(rig_all() | BTF);
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
	check_block_step(&rig);
	rig_close(&rig);
	__asm__ volatile("movq %0, %%dr6" : : "r"(dr6));
}

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
static uint64_t trace_breakpoint(uint64_t debugctl)
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
		    OPERANDS([seen] "=&r"(seen)),
		    OPERANDS([on] "r"(DR7_FIRST), [off] "r"(DR7_RESET)), "r8");
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
		seen = trace_breakpoint(rig_interrupt());
		own_idt_unload();
	}
	EXPECT_EQ(seen, rig_interrupt());
	if (rig_record(&rig, 0).to == (uint64_t)breakpoint_handler)
		rig_expect(&rig, slot++, breakpoint_at, breakpoint_handler, "#DB");
	rig_expect(&rig, slot++, breakpoint_iret, breakpoint_at, "iretq");
	rig_expect(&rig, slot++, breakpoint_at, breakpoint_to, "the jmp with the breakpoint");
	rig_expect(&rig, slot++, breakpoint_last, breakpoint_end, "jmp after MOV DR7");
	EXPECT_EQ(rig_count(&rig), slot);
	rig_close(&rig);
	__asm__ volatile("movq %0, %%dr6" : : "r"(dr6));
}
