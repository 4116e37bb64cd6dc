// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/trap.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/rig.h"

extern const char fault_de[], fault_ud[], fault_gp[], fault_pf[];
extern const char fault_de_out[], fault_ud_out[], fault_gp_out[], fault_pf_out[];

/* RBX: where the handler goes on. RDI: an address that raises #GP, or #PF. */
#define TRACED_FAULT(name, instruction, address)                                                   \
	TRACED_WITH(rig_all(),                                                                     \
		    "leaq fault_" name "_out(%%rip), %%rbx\n\txorl %%eax, %%eax\n\t"               \
		    "xorl %%ecx, %%ecx\n"                                                          \
		    "fault_" name ": " instruction "\nfault_" name "_out:\n\t",                    \
		    , OPERANDS("D"(address)), "rbx")

static void trace_de(uint64_t unused)
{
	TRACED_FAULT("de", "divl %%ecx", unused);
}

static void trace_ud(uint64_t unused)
{
	TRACED_FAULT("ud", "ud2", unused);
}

static void trace_gp(uint64_t address)
{
	TRACED_FAULT("gp", "movq (%%rdi), %%rax", address);
}

static void trace_pf(uint64_t address)
{
	TRACED_FAULT("pf", "movq (%%rdi), %%rax", address);
}

static void check(unsigned vector, bool error, void (*trace)(uint64_t), uint64_t address,
		  const char *from, const char *out)
{
	const char *handler = error ? own_handler_resume_error : own_handler_resume;
	const char *iret = error ? own_handler_resume_error_iret : own_handler_resume_iret;

	RIG(rig, 16);
	own_idt_copy();
	own_idt_set(vector, handler, false);
	EXACTLY (&rig) {
		own_idt_load();
		trace(address);
		own_idt_unload();
	}
	test_note("vector %u", vector);
	EXPECT_EQ(rig_count(&rig), 2);
	rig_expect(&rig, 0, from, handler, "fault");
	rig_expect(&rig, 1, iret, out, "iretq");
}

TEST(bts_faults, .group = "K", .ids = "K5 K6", .needs = NEED_BTS,
     .claim = "the record of a fault holds the faulting instruction and the handler's first",
     .source = "SDM Vol 3, 17.4.4, 17.4.9 and 17.11.2")
{
	uint64_t not_present = (uint64_t)test_area(1) - PAGE_SIZE;

	check(VECTOR_DE, false, trace_de, 0, fault_de, fault_de_out);
	check(VECTOR_UD, false, trace_ud, 0, fault_ud, fault_ud_out);
	check(VECTOR_GP, true, trace_gp, 1ul << 63, fault_gp, fault_gp_out);
	check(VECTOR_PF, true, trace_pf, not_present, fault_pf, fault_pf_out);
}

// A program that jumps to nowhere faults at the target, and its stack may say nothing. The record
// of the jump, before that of the fault, is the only one that names the place it came from. Passing
// means: both are there, in that order.

extern const char fetch_jump[], fetch_out[];

static void trace(uint64_t nowhere)
{
	TRACED_WITH(rig_all(),
		    "leaq fetch_out(%%rip), %%rbx\n"
		    "fetch_jump: jmp *%[nowhere]\n\tud2\n"
		    "fetch_out:\n\t",
		    , OPERANDS([nowhere] "r"(nowhere)), "rbx");
}

TEST(bts_fetch_fault, .group = "K", .ids = "K5", .needs = NEED_BTS,
     .claim =
	     "a jump to a page that is not present is recorded, then the fault that its target raises",
     .source = "SDM Vol 3, 17.4.4 and 17.11.2: branch record, then exception record")
{
	uint8_t *nowhere = (uint8_t *)test_area(1) - PAGE_SIZE + 0x123;

	RIG(rig, 16);
	own_idt_copy();
	own_idt_set(VECTOR_PF, own_handler_resume_error, false);
	EXACTLY (&rig) {
		own_idt_load();
		trace((uint64_t)nowhere);
		own_idt_unload();
	}
	EXPECT_EQ(rig_count(&rig), 3);
	rig_expect(&rig, 0, fetch_jump, nowhere, "jmp");
	rig_expect(&rig, 1, nowhere, own_handler_resume_error, "#PF");
	rig_expect(&rig, 2, own_handler_resume_error_iret, fetch_out, "iretq");
}

/* Ways into a handler that the kernel itself does not use, or hopes never to use. */

#define HIGHEST_PRIORITY 0xf0 /* of tasks: all fixed interrupts wait */

extern const char gate_trap[], gate_trap_out[], gate_double[], gate_double_out[];

static void trace_trap(void)
{
	TRACED_WITH(rig_all(),
		    "leaq gate_trap_out(%%rip), %%rbx\n\tsti\n"
		    "gate_trap: ud2\n"
		    "gate_trap_out: cli\n\t",
		    , , "rbx");
}

TEST(bts_trap_gate, .group = "K", .ids = "K5", .needs = NEED_BTS,
     .claim =
	     "an exception is recorded through a trap gate, which leaves IF set, as through others",
     .source = "SDM Vol 3, 17.4.4 and 6.12.1.2: taken branch, interrupt, or exception")
{
	RIG(rig, 16);
	own_idt_copy();
	own_idt_set(VECTOR_UD, own_handler_resume, false);
	own_idt_make_trap(VECTOR_UD);
	lapic_set_task_priority(HIGHEST_PRIORITY);
	EXACTLY (&rig) {
		own_idt_load();
		trace_trap();
		own_idt_unload();
	}
	lapic_set_task_priority(0);
	EXPECT_EQ(rig_count(&rig), 2);
	rig_expect(&rig, 0, gate_trap, own_handler_resume, "#UD");
	rig_expect(&rig, 1, own_handler_resume_iret, gate_trap_out, "iretq");
}

static void trace_double(uint64_t address)
{
	TRACED_WITH(rig_all(),
		    "leaq gate_double_out(%%rip), %%rbx\n"
		    "gate_double: movq (%[address]), %%rax\n"
		    "gate_double_out:\n\t",
		    , OPERANDS([address] "r"(address)), "rbx");
}

/* The #GP never reaches a handler: its gate is broken. What RIP a #DF saves is not defined. */
TEST(bts_double_fault, .group = "K", .ids = "K5", .needs = NEED_BTS,
     .claim = "of a fault that becomes #DF there is one record, to the handler of #DF",
     .source = "SDM Vol 3, 17.4.4 and 6.15: taken branch, interrupt, or exception, #DF")
{
	RIG(rig, 16);
	own_idt_copy();
	own_idt_break(VECTOR_GP);
	own_idt_set(VECTOR_DF, own_handler_resume_error, false);
	EXACTLY (&rig) {
		own_idt_load();
		trace_double(1ul << 63);
		own_idt_unload();
	}
	EXPECT_EQ(rig_count(&rig), 2);
	EXPECT_EQ(rig_record(&rig, 0).to, own_handler_resume_error);
	test_observe("df_from", "%s",
		     rig_record(&rig, 0).from == (uint64_t)gate_double ? "instruction"
								       : "elsewhere");
	rig_expect(&rig, 1, own_handler_resume_error_iret, gate_double_out, "iretq");
}

/*
 * What runs between an event and its IRETQ is code like any other. A kernel's own handler has
 * branches that change with its compiler, so the usual test looks at the way in and the way out
 * only; here the handler is four branches that are known.
 */

#define SLOTS	 2048
#define BRANCHES 4 /* of the handler, with its IRETQ */

extern const char handler_entry[], handler_inside[], handler_call[], handler_callee[],
	handler_called[], handler_iret[], handler_ud[], handler_ud_out[], handler_ud_next[],
	handler_ud_end[], handler_sti[], handler_cli[], handler_next[], handler_end[];

/*
 * Returns to `resume` unless that is 0, with all registers as they were: an NMI arrives while
 * others use them. Its jump leads backward.
 */
__asm__(".pushsection .text\n"
	"handler_inside: incq handled(%rip)\n"
	"handler_call: call handler_callee\n"
	"handler_called: pushq %rbx\n\tmovq resume(%rip), %rbx\n\ttestq %rbx, %rbx\n\t"
	"cmovzq 8(%rsp), %rbx\n\tmovq %rbx, 8(%rsp)\n\tpopq %rbx\n"
	"handler_iret: iretq\n"
	"handler_callee: ret\n"
	"handler_entry: jmp handler_inside\n"
	".popsection");

static volatile uint64_t handled __attribute__((used)), resume __attribute__((used));

/* The handler's branches, from the slot after its entry on, lead back to `to`. */
static void expect_handler(const struct rig *rig, size_t slot, const void *to)
{
	rig_expect(rig, slot, handler_entry, handler_inside, "the handler's jump");
	rig_expect(rig, slot + 1, handler_call, handler_callee, "its call");
	rig_expect(rig, slot + 2, handler_callee, handler_called, "its return");
	rig_expect(rig, slot + 3, handler_iret, to, "its iretq");
}

static void open(struct rig *rig, unsigned vector)
{
	resume = 0;
	rig_open(rig, SLOTS);
	own_idt_copy();
	own_idt_set(vector, handler_entry, false);
}

TEST(bts_exception_handler, .group = "K", .ids = "K5 K6", .needs = NEED_BTS,
     .claim = "branches inside an exception handler, and after its IRETQ, are recorded like others",
     .source = "SDM Vol 3, 17.4.4: each taken branch")
{
	struct rig rig CLOSED_BY(rig_close);

	open(&rig, VECTOR_UD);
	resume = (uint64_t)handler_ud_out;
	EXACTLY (&rig) {
		own_idt_load();
		TRACED_WITH(rig_all(),
			    "handler_ud: ud2\n"
			    "handler_ud_out: nop\n"
			    "handler_ud_next: jmp handler_ud_end\n\tud2\n"
			    "handler_ud_end:\n\t",
			    , );
		own_idt_unload();
	}
	EXPECT_EQ(rig_count(&rig), 2 + BRANCHES);
	rig_expect(&rig, 0, handler_ud, handler_entry, "#UD");
	expect_handler(&rig, 1, handler_ud_out);
	rig_expect(&rig, 1 + BRANCHES, handler_ud_next, handler_ud_end, "jmp after the iretq");
}

/* Where the interrupt is among the NOPs is the processor's choice; its record says where. */
TEST(bts_interrupt_handler, .group = "K", .ids = "K8 K6", .needs = NEED_BTS,
     .claim = "branches inside an interrupt handler, and after its IRETQ, are recorded like others",
     .source = "SDM Vol 3, 17.4.4: each taken branch")
{
	struct pending pending;
	uint64_t rip;
	struct rig rig CLOSED_BY(rig_close);

	open(&rig, VECTOR_TEST);
	EXACTLY (&rig) {
		pending_raise(&pending);
		own_idt_load();
		TRACED_WITH(rig_all(),
			    "sti\n"
			    "handler_sti: nop\n\t.fill 64, 1, 0x90\n"
			    "handler_cli: cli\n"
			    "handler_next: jmp handler_end\n\tud2\n"
			    "handler_end:\n\t",
			    , );
		own_idt_unload();
		lapic_eoi();
		pending_settle();
	}
	EXPECT_EQ(rig_count(&rig), 2 + BRANCHES);
	rip = rig_record(&rig, 0).from;
	EXPECT(rip > (uint64_t)handler_sti && rip <= (uint64_t)handler_cli);
	EXPECT_EQ(rig_record(&rig, 0).to, handler_entry);
	expect_handler(&rig, 1, (void *)rip);
	rig_expect(&rig, 1 + BRANCHES, handler_next, handler_end, "jmp after the iretq");
}

/* Sends it from within, and waits for at most 500 rounds. */
static void trace_nmi(void)
{
	handled = 0;
	TRACED_WITH(rig_all(),
		    "call lapic_self_nmi\n\t"
		    "movl $500, %%ecx\n"
		    "1:\tpause\n\tcmpq $0, %[handled]\n\tjne 2f\n\tdecl %%ecx\n\tjnz 1b\n2:\n\t",
		    , OPERANDS([handled] "m"(handled)), "rsi", "rdi", "r8", "r9", "r10", "r11");
}

TEST(bts_nmi_handler, .group = "K", .ids = "K8 K6", .needs = NEED_BTS,
     .claim = "branches inside an NMI handler, and after its IRETQ, are recorded like others",
     .source = "SDM Vol 3, 17.4.4: each taken branch")
{
	struct rig rig CLOSED_BY(rig_close);
	size_t slot = 0;

	open(&rig, VECTOR_NMI);
	EXACTLY (&rig) {
		own_idt_load();
		trace_nmi();
		own_idt_unload();
	}
	EXPECT_EQ(handled, 1);
	while (slot < rig_count(&rig) && rig_record(&rig, slot).to != (uint64_t)handler_entry)
		slot++;
	EXPECT(slot + 1 + BRANCHES < rig_count(&rig));
	expect_handler(&rig, slot + 1, (void *)rig_record(&rig, slot).from);
}

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
	if (msr_try(IA32_DEBUGCTL, BTF, 0).read_back != BTF)
		test_skip("the processor does not take BTF");
	EXPECT_EQ(msr_try(IA32_DEBUGCTL, rig_all() | BTF, 0).read_back, rig_all() | BTF);
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
