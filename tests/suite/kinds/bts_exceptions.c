// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "drivers/lbr/lbr.h"
#include "drivers/lbr/registers.h"
#include "kernel/mm/vm.h"
#include "kernel/silicon.h"
#include "kernel/trap/trap.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/rig.h"

extern const char fault_de[], fault_ud[], fault_gp[], fault_ss[], fault_jmp[], fault_int[],
	fault_msr[];
extern const char fault_de_out[], fault_ud_out[], fault_gp_out[], fault_ss_out[], fault_jmp_out[],
	fault_int_out[], fault_msr_out[];

/* RBX: where the handler goes on. RDI: an address that raises #GP, or #PF; ECX too. EDX:EAX: what
   no MSR takes here. */
#define TRACED_FAULT(name, instruction, address)                                                   \
	TRACED_WITH(rig_all(),                                                                     \
		    "leaq fault_" name "_out(%%rip), %%rbx\n\txorl %%eax, %%eax\n\t"               \
		    "movl $0x80000000, %%edx\n\tmovl %%edi, %%ecx\n"                               \
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

static void trace_ss(uint64_t address)
{
	TRACED_FAULT("ss", "movq (%%rsp, %%rdi), %%rax", address);
}

static __attribute__((noinline)) void trace_jmp(uint64_t address)
{
	TRACED_FAULT("jmp", "jmp *%%rdi", address);
}

static void trace_int(uint64_t unused)
{
	TRACED_FAULT("int", "int $0x72", unused);
}

static __attribute__((noinline)) void trace_msr(uint64_t index)
{
	TRACED_FAULT("msr", "wrmsr", index);
}

enum { VECTOR_NP = 11 };

/* The record of the fault lies in two pages, or ends where one does. */
static void check(unsigned vector, bool error, void (*trace)(uint64_t), uint64_t address,
		  const char *from, const char *out)
{
	const char *handler = error ? own_handler_resume_error : own_handler_resume;
	const char *iret = error ? own_handler_resume_error_iret : own_handler_resume_iret;

	struct rig rig CLOSED_BY(rig_close);

	rig_open_at(&rig, 16, PAGE_SIZE - 8 - vector % 3 * 8);
	if (address == IA32_DEBUGCTL && !msr_try(IA32_DEBUGCTL, 1ul << 63, 0).refused)
		return; /* a bit that is reserved need not be refused */
	own_idt_copy();
	(vector == VECTOR_NP ? own_idt_make_absent : own_idt_break)(0x72);
	own_idt_set(vector, handler, false);
	EXACTLY (&rig) {
		own_idt_load();
		trace(address);
		own_idt_unload();
	}
	test_note("vector %u", vector);
	EXPECT_EQ(rig_count(&rig), 2);
	rig_expect(&rig, 0, from, handler);
	rig_expect(&rig, 1, iret, out);
}

TEST(bts_faults, .group = "K", .ids = "K5 K6 L4 V1", .needs = NEED_BTS,
     .claim = "the record of a fault, of a branch too, holds the faulting instruction and the "
	      "handler's first",
     .source = "SDM Vol 3, 17.4.4, 17.4.9 and 17.11.2")
{
	uint64_t not_present = (uint64_t)test_area(1) - PAGE_SIZE;

	check(VECTOR_DE, false, trace_de, 0, fault_de, fault_de_out);
	check(VECTOR_UD, false, trace_ud, 0, fault_ud, fault_ud_out);
	check(VECTOR_GP, true, trace_gp, 1ul << 63, fault_gp, fault_gp_out);
	check(VECTOR_PF, true, trace_gp, not_present, fault_gp, fault_gp_out);
	check(VECTOR_SS, true, trace_ss, 1ul << 63, fault_ss, fault_ss_out);
	check(VECTOR_GP, true, trace_jmp, 1ul << 63, fault_jmp, fault_jmp_out);
	check(VECTOR_GP, true, trace_int, 0, fault_int, fault_int_out);
	check(VECTOR_NP, true, trace_int, 0, fault_int, fault_int_out);
	check(VECTOR_GP, true, trace_msr, IA32_DS_AREA, fault_msr, fault_msr_out);
	check(VECTOR_GP, true, trace_msr, IA32_DEBUGCTL, fault_msr, fault_msr_out);
}

// A program that jumps to nowhere faults at the target, and its stack may say nothing. The record
// of the jump, before that of the fault, is the only one that names the place it came from. Passing
// means: both are there, in that order.

TEST(bts_fetch_fault, .group = "K", .ids = "K1 K5", .needs = NEED_BTS,
     .claim =
	     "a jump to a page that is not present is recorded, then the fault that its target raises",
     .source = "SDM Vol 3, 17.4.4 and 17.11.2: branch record, then exception record")
{
	uint8_t *const nowhere[] = {(uint8_t *)test_area(1) - PAGE_SIZE + 0x123, NULL};

	RIG(rig, 16);
	own_idt_begin(VECTOR_PF, own_handler_resume_error, false);
	for (unsigned n = 0; n < 2; n++) {
		EXACTLY (&rig) {
			own_idt_load();
			trace_jmp((uint64_t)nowhere[n]);
			own_idt_unload();
		}
		EXPECT_EQ(rig_count(&rig), 3);
		rig_expect(&rig, 0, fault_jmp, nowhere[n]);
		rig_expect(&rig, 1, nowhere[n], own_handler_resume_error);
		rig_expect(&rig, 2, own_handler_resume_error_iret, fault_jmp_out);
	}
}

/* Ways into a handler that the kernel itself does not use, or hopes never to use. */

#define HIGHEST_PRIORITY 0xf0 /* of tasks: all fixed interrupts wait */

extern const char gate_trap[], gate_trap_out[], gate_handler[], gate_iret[], gate_double[],
	gate_double_out[];

/* Leaves the flags of the handler in RCX. */
static uint64_t trace_trap(void)
{
	uint64_t flags = 0;

	TRACED_WITH(rig_all(),
		    "leaq gate_trap_out(%%rip), %%rbx\n\tsti\n"
		    "gate_trap: ud2\n"
		    "gate_handler: pushfq\n\tpopq %%rcx\n\tmovq %%rbx, (%%rsp)\n"
		    "gate_iret: iretq\n"
		    "gate_trap_out: cli\n\tmovq %%rcx, %[flags]\n\t",
		    OPERANDS([flags] "=&r"(flags)), , "rbx");
	return flags;
}

/* The shadow of STI lets #UD go first. How soon its handler is interrupted is the processor's. */
static void check_two_events(struct rig *rig)
{
	struct pending pending;

	own_idt_set(VECTOR_TEST, own_handler_return, false);
	EXACTLY (rig) {
		pending_raise(&pending);
		own_idt_load();
		trace_trap();
		own_idt_unload();
		lapic_eoi();
		pending_settle();
	}
	EXPECT_EQ(rig_count(rig), 4);
}

TEST(bts_trap_gate, .group = "K", .ids = "K5 K8", .needs = NEED_BTS,
     .claim =
	     "an exception is recorded through a trap gate, which leaves IF set, as through others",
     .source = "SDM Vol 3, 17.4.4 and 6.12.1.2: taken branch, interrupt, or exception")
{
	RIG(rig, 16);
	own_idt_begin(VECTOR_UD, gate_handler, false);
	own_idt_make_trap(VECTOR_UD);
	lapic_set_task_priority(HIGHEST_PRIORITY);
	EXACTLY (&rig) {
		own_idt_load();
		EXPECT(trace_trap() & 1u << 9);
		own_idt_unload();
	}
	lapic_set_task_priority(0);
	EXPECT_RECORDS(&rig, {gate_trap, gate_handler}, {gate_iret, gate_trap_out});
	check_two_events(&rig);
}

static void trace_double(uint64_t address)
{
	TRACED_WITH(rig_all(),
		    "leaq gate_double_out(%%rip), %%rbx\n"
		    "gate_double: movq (%[address]), %%rax\n"
		    "gate_double_out:\n\t",
		    , OPERANDS([address] "r"(address)), "rbx");
}

static void check_double(struct rig *rig, unsigned vector, uint64_t address, void spoil(unsigned))
{
	own_idt_begin(VECTOR_DF, own_handler_resume_error, false);
	spoil(vector);
	EXACTLY (rig) {
		own_idt_load();
		trace_double(address);
		own_idt_unload();
	}
	EXPECT_EQ(rig_count(rig), 2);
	EXPECT_EQ(rig_record(rig, 0).to, own_handler_resume_error);
	rig_expect(rig, 1, own_handler_resume_error_iret, gate_double_out);
}

/* #GP and #PF never reach a handler: their gates raise #GP or #NP. What RIP a #DF saves is not
   defined. */
TEST(bts_double_fault, .group = "K", .ids = "K5", .needs = NEED_BTS,
     .claim = "of a fault that becomes #DF there is one record, to the handler of #DF",
     .source = "SDM Vol 3, 17.4.4 and 6.15: taken branch, interrupt, or exception, #DF")
{
	uint64_t not_present = (uint64_t)test_area(1) - PAGE_SIZE;

	RIG(rig, 16);
	check_double(&rig, VECTOR_PF, not_present, own_idt_break);
	check_double(&rig, VECTOR_PF, not_present, own_idt_make_absent);
	check_double(&rig, VECTOR_GP, 1ul << 63, own_idt_make_absent);
	check_double(&rig, VECTOR_GP, 1ul << 63, own_idt_break);
	test_observe("df_from", "%s",
		     rig_record(&rig, 0).from == (uint64_t)gate_double ? "instruction"
								       : "elsewhere");
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
	rig_expect(rig, slot, handler_entry, handler_inside);
	rig_expect(rig, slot + 1, handler_call, handler_callee);
	rig_expect(rig, slot + 2, handler_callee, handler_called);
	rig_expect(rig, slot + 3, handler_iret, to);
}

static void open(struct rig *rig, unsigned vector)
{
	resume = 0;
	rig_open(rig, SLOTS);
	own_idt_begin(vector, handler_entry, false);
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
	rig_expect(&rig, 0, handler_ud, handler_entry);
	expect_handler(&rig, 1, handler_ud_out);
	rig_expect(&rig, 1 + BRANCHES, handler_ud_next, handler_ud_end);
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
	rig_expect(&rig, 1 + BRANCHES, handler_next, handler_end);
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

extern const char step_handler[], step_iret[], step_before[], step_on[], step_target[], step_next[];

/* Counts in R10; leaves IA32_DEBUGCTL in R8 and the return address in R9, and ends the stepping. */
__asm__(".pushsection .text\n"
	"step_handler: pushq %rax\n\tpushq %rcx\n\tpushq %rdx\n\tincq %r10\n\t"
	"movl $0x1d9, %ecx\n\trdmsr\n\tshlq $32, %rdx\n\tleaq (%rax, %rdx), %r8\n\t"
	"movq 24(%rsp), %r9\n\tandq $~0x100, 40(%rsp)\n\t"
	"popq %rdx\n\tpopq %rcx\n\tpopq %rax\n"
	"step_iret: iretq\n"
	".popsection");

struct single_step_step {
	uint64_t debugctl, rip;
};

/* RET leads forward to step_next, or backward to step_before, from where JE leads there. */
static struct single_step_step trace_single_step(uint64_t value, const char *to)
{
	struct single_step_step step = {0};

	TRACED_WITH(value,
		    "xorl %%r8d, %%r8d\n\txorl %%r9d, %%r9d\n\txorl %%r11d, %%r11d\n"
		    "step_before: incl %%r11d\n\tcmpl $2, %%r11d\n"
		    "step_on: je step_next\n\tpushq %[to]\n\t"
		    "pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n"
		    "step_target: ret\n"
		    "step_next: movq %%r8, %[debugctl]\n\tmovq %%r9, %[rip]\n\t",
		    OPERANDS([debugctl] "=&r"(step.debugctl), [rip] "=&r"(step.rip)),
		    OPERANDS([to] "r"(to)), "r8", "r9", "r10", "r11");
	return step;
}

static void check_single_step(struct rig *rig, uint64_t value)
{
	const char *to = value & LBR ? step_next : step_before;
	struct single_step_step step = {0};
	size_t count;

	EXACTLY (rig) {
		own_idt_load();
		step = trace_single_step(value, to);
		own_idt_unload();
	}
	EXPECT_EQ(step.rip, to);
	EXPECT_EQ(step.debugctl, rig_all());
	count = rig_count(rig);
	if (to == step_before)
		rig_expect(rig, --count, step_on, step_next);
	EXPECT(count == 2 || count == 3);
	rig_expect(rig, 0, step_target, to);
	if (count == 3)
		rig_expect(rig, 1, to, step_handler);
	rig_expect(rig, count - 1, step_iret, to);
	test_observe(value & LBR ? "db_with_lbr" : "db", "%s",
		     count == 3 ? "recorded" : "not_recorded");
}

TEST(bts_single_step, .group = "K", .ids = "K10", .needs = NEED_BTS,
     .claim = "#DB clears LBR and leaves TR and BTS set, and its way back is recorded",
     .source = "SDM Vol 3, 17.4.2: a debug exception does not clear TR")
{
	RIG(rig, 16);
	own_idt_begin(VECTOR_DB, step_handler, false);
	check_single_step(&rig, rig_all());
	if (msr_try(IA32_DEBUGCTL, rig_all() | LBR, 0).read_back == (rig_all() | LBR))
		check_single_step(&rig, rig_all() | LBR);
	__asm__ volatile("movq %0, %%dr6" : : "r"(DR6_RESET));
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
	own_idt_begin(VECTOR_DB, step_handler, false);
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

extern const char block_first[], block_target[], block_end[];

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

/* LBR, or LBREn, is set as well: #DB clears it too. Where TR refuses LBR, TR is alone. */
static void check_block_step(struct rig *rig)
{
	uint64_t debugctl = rig_interrupt() | BTF | rig_lbr();
	struct block_step_step step = {0};
	size_t slot = 1;

	EXACTLY (rig) {
		own_idt_load();
		if (lbr_caps()->architectural)
			wrmsr(IA32_LBR_CTL, LBR_CTL_LBREN);
		step = trace_block_step(debugctl);
		own_idt_unload();
	}
	EXPECT_EQ(step.count, 1);
	EXPECT_EQ(step.rip, block_target);
	EXPECT_EQ(step.debugctl, rig_interrupt());
	rig_expect(rig, 0, block_first, block_target);
	if (rig_count(rig) == 3)
		rig_expect(rig, slot++, block_target, step_handler);
	EXPECT_EQ(rig_count(rig), slot + 1);
	rig_expect(rig, slot, step_iret, block_target);
}

TEST(bts_block_step, .group = "K", .ids = "K10", .needs = NEED_BTS,
     .claim = "with BTF, TF traps the first taken branch only; #DB clears BTF, not TR, BTS and "
	      "BTINT",
     .source = "SDM Vol 3, 17.4.2 and 17.4.3: single-stepping on branches")
{
	RIG(rig, 16);
	own_idt_begin(VECTOR_DB, step_handler, false);
	if (silicon_is_foreign_guest() && msr_try(IA32_DEBUGCTL, BTF, 0).read_back != BTF)
		test_skip("the hypervisor does not take BTF");
	check_block_step(&rig);
	__asm__ volatile("movq %0, %%dr6" : : "r"(DR6_RESET));
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
__attribute__((noinline)) static uint64_t trace_breakpoint(uint64_t debugctl)
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

TEST(bts_breakpoint, .group = "K", .ids = "K10 P1", .needs = NEED_BTS,
     .claim = "MOV DR7 and the #DB of a breakpoint leave TR and BTS set; the branches go on",
     .source = "SDM Vol 3, 17.4.3 and 17.4.4: a debug exception does not automatically clear TR")
{
	uint64_t seen = 0;
	size_t slot = 0;

	RIG(rig, 16);
	own_idt_begin(VECTOR_DB, breakpoint_handler, false);
	EXACTLY (&rig) {
		own_idt_load();
		seen = trace_breakpoint(rig_interrupt());
		own_idt_unload();
	}
	EXPECT_EQ(seen, rig_interrupt());
	if (rig_record(&rig, 0).to == (uint64_t)breakpoint_handler)
		rig_expect(&rig, slot++, breakpoint_at, breakpoint_handler);
	rig_expect(&rig, slot++, breakpoint_iret, breakpoint_at);
	rig_expect(&rig, slot++, breakpoint_at, breakpoint_to);
	rig_expect(&rig, slot++, breakpoint_last, breakpoint_end);
	EXPECT_EQ(rig_count(&rig), slot);
	rig_reset(&rig);
	own_idt_load();
	if (ds_caps()->filters)
		trace_breakpoint(rig_all() | ds_configuration->off_os);
	own_idt_unload();
	EXPECT(!rig_count(&rig));
	__asm__ volatile("movq %0, %%dr6" : : "r"(DR6_RESET));
}
