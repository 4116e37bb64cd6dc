// SPDX-License-Identifier: MIT
// Events in the stack of last branches: exceptions, interrupts, IRET; debug exceptions; and code of
// compatibility mode.
#include "drivers/apic/lapic.h"
#include "drivers/processor.h"
#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/trap.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pmu_rig.h"
#include "tests/lib/rig.h"
#include "tests/lib/user_visits.h"

#define ADDRESS ((1ull << 48) - 1)

static void expect_entry(const struct lbr_stack *s, unsigned back, uint64_t from, uint64_t to)
{
	EXPECT_EQ(lbr_newest(s, back, false) & ADDRESS, from & ADDRESS);
	EXPECT_EQ(lbr_newest(s, back, true) & ADDRESS, to & ADDRESS);
}

#define LABELS(name) extern const char lbr_##name[], lbr_##name##_out[]
#define RAISER(name, instruction)                                                                  \
	LABELS(name);                                                                              \
	static void raise_##name(uint64_t address)                                                 \
	{                                                                                          \
		TRACED_WITH(LBR,                                                                   \
			    "leaq lbr_" #name "_out(%%rip), %%rbx\n\txorl %%eax, %%eax\n\t"        \
			    "xorl %%ecx, %%ecx\n"                                                  \
			    "lbr_" #name ": " instruction "\nlbr_" #name "_out:\n\t",              \
			    , OPERANDS("D"(address)), "rbx");                                      \
	}

RAISER(de, "divl %%ecx")
RAISER(ud, "ud2")
RAISER(gp, "movq (%%rdi), %%rax")
RAISER(pf, "movq (%%rdi), %%rax")
RAISER(int, "int $0x60")

static void check(const struct lbr_stack *s, unsigned vector, bool error, void (*raise)(uint64_t),
		  uint64_t address, const char *from, const char *out)
{
	const char *handler = error ? own_handler_resume_error : own_handler_resume;
	const char *iret = error ? own_handler_resume_error_iret : own_handler_resume_iret;

	test_note("vector %u", vector);
	own_idt_copy();
	own_idt_set(vector, handler, false);
	own_idt_load();
	raise(address);
	own_idt_unload();
	expect_entry(s, 1, (uint64_t)from, (uint64_t)handler);
	expect_entry(s, 0, (uint64_t)iret, (uint64_t)out);
}

TEST(lbr_faults, .group = "pmu", .ids = "LB6 LB21 LB22", .needs = 0,
     .claim = "faults and INT n enter the LBR stack, from the instruction to the handler's first "
	      "one, and so does IRETQ",
     .source = "SDM Vol 3, 17.4.8 and 17.11.2")
{
	uint64_t not_present = (uint64_t)test_area(1) - PAGE_SIZE;
	LBR_STACK(s);

	check(s, VECTOR_DE, false, raise_de, 0, lbr_de, lbr_de_out);
	check(s, VECTOR_UD, false, raise_ud, 0, lbr_ud, lbr_ud_out);
	check(s, VECTOR_GP, true, raise_gp, 1ul << 63, lbr_gp, lbr_gp_out);
	check(s, VECTOR_PF, true, raise_pf, not_present, lbr_pf, lbr_pf_out);
	check(s, 0x60, false, raise_int, 0, lbr_int, lbr_int_out);
}

/*
 * Handlers that clear LBR, and leave in the variables here what IA32_DEBUGCTL was and the RIP that
 * was saved. The first returns there, the others to lbr_resume, without TF.
 */
extern const char lbr_stop[], lbr_stop_resume[], lbr_stop_error[];
extern volatile uint64_t lbr_seen, lbr_rip, lbr_resume;
volatile uint64_t lbr_seen, lbr_rip, lbr_resume;
#define STOP                                                                                       \
	"pushq %rax\n\tpushq %rcx\n\tpushq %rdx\n\tmovl $0x1d9, %ecx\n\trdmsr\n\t"                 \
	"movl %eax, lbr_seen(%rip)\n\txorl %eax, %eax\n\txorl %edx, %edx\n\twrmsr\n\t"             \
	"movq 24(%rsp), %rax\n\tmovq %rax, lbr_rip(%rip)\n\t"
#define RESUME "movq lbr_resume(%rip), %rax\n\tmovq %rax, 24(%rsp)\n\tandq $~0x100, 40(%rsp)\n\t"
#define POP    "popq %rdx\n\tpopq %rcx\n\tpopq %rax\n\tiretq\n"
__asm__(".pushsection .text\nlbr_stop: " STOP POP "lbr_stop_error: addq $8, %rsp\n"
	"lbr_stop_resume: " STOP RESUME POP ".popsection");

static void expect_interrupt(const struct lbr_stack *s, uint64_t seen)
{
	EXPECT_EQ(seen & LBR, LBR);
	expect_entry(s, 0, lbr_rip, (uint64_t)lbr_stop);
}

extern const char lbr_after_hlt[];

TEST(lbr_interrupts, .group = "pmu", .ids = "LB21", .needs = 0,
     .claim = "an interrupt, one that ends HLT too, and an NMI enter the LBR stack, from the RIP "
	      "that is saved",
     .source = "SDM Vol 3, 17.4.8 and 17.11.2")
{
	LBR_STACK(s);
	struct pending pending;

	own_idt_copy();
	own_idt_set(VECTOR_TEST, lbr_stop, false);
	own_idt_set(VECTOR_NMI, lbr_stop, false);
	lbr_seen = 0;
	pending_raise(&pending);
	own_idt_load();
	TRACED(LBR, "jmp 1f\n1: sti\n\tnop\n\t.fill 64, 1, 0x90\n\tcli");
	own_idt_unload();
	lapic_eoi();
	pending_settle();
	expect_interrupt(s, lbr_seen);
	lbr_seen = 0;
	pending_raise(&pending);
	own_idt_load();
	TRACED(LBR, "jmp 1f\n1: sti\n\thlt\nlbr_after_hlt: cli");
	own_idt_unload();
	lapic_eoi();
	pending_settle();
	EXPECT_EQ(lbr_rip, (uint64_t)lbr_after_hlt);
	expect_interrupt(s, lbr_seen);
	lbr_seen = 0;
	own_idt_load();
	TRACED_WITH(LBR,
		    "call lapic_self_nmi\n\tmovl $500, %%ecx\n"
		    "1:\tpause\n\tcmpq $0, %[seen]\n\tjne 2f\n\tdecl %%ecx\n\tjnz 1b\n2:\n\t",
		    , OPERANDS([seen] "m"(lbr_seen)), "rsi", "rdi", "r8", "r9", "r10", "r11");
	own_idt_unload();
	expect_interrupt(s, lbr_seen);
}

/* In ring 3 at VISITS_AT: `event`, at an even place, then SYSCALL. Its handler clears LBR. */
enum { EVENT_AT = 2, SYSCALL_AT = 8 };

static void visit(uint8_t *page, const char *event, size_t bytes, unsigned vector, bool error)
{
	static const uint8_t code[] = {0x31, 0xc9, [SYSCALL_AT] = 0x0f, 0x05};
	struct trap_frame frame = {.rip = VISITS_AT};

	memcpy(page, code, sizeof(code));
	memset(page + EVENT_AT, 0x90, SYSCALL_AT - EVENT_AT);
	memcpy(page + EVENT_AT, event, bytes);
	lbr_resume = VISITS_AT + SYSCALL_AT;
	lbr_seen = 0;
	own_idt_copy();
	own_idt_set(vector, error ? lbr_stop_error : lbr_stop_resume, true);
	lapic_set_task_priority(0xf0);
	own_idt_load();
	wrmsr(IA32_DEBUGCTL, LBR);
	user_run(&frame);
	wrmsr(IA32_DEBUGCTL, 0);
	own_idt_unload();
	lapic_set_task_priority(0);
	EXPECT_EQ(frame.vector, VECTOR_SYSCALL);
}

static void expect_from_ring_3(const struct lbr_stack *s, const char *handler)
{
	EXPECT_EQ(lbr_seen & LBR, LBR);
	expect_entry(s, 0, VISITS_AT + EVENT_AT, (uint64_t)handler);
	EXPECT_EQ(lbr_newest(s, 1, true), VISITS_AT);
	EXPECT(lbr_newest(s, 1, false) >> 47 & 1);
}

TEST(lbr_user_faults, .group = "pmu", .ids = "LB21 LB22", .needs = 0,
     .claim = "a fault of ring 3 enters the LBR stack, after the IRETQ that led there",
     .source = "SDM Vol 3, 17.4.8 and 17.11.2")
{
	uint8_t *page = test_area(1);
	const struct lbr_stack *s;

	code_map(VISITS_AT, page, VM_USER);
	s = lbr_open();
	visit(page, "\x0f\x0b", 2, VECTOR_UD, false);
	expect_from_ring_3(s, lbr_stop_resume);
	visit(page, "\xf7\xf1", 2, VECTOR_DE, false);
	expect_from_ring_3(s, lbr_stop_resume);
	visit(page, "\xf4", 1, VECTOR_GP, true);
	expect_from_ring_3(s, lbr_stop_error);
	visit(page, "\x8b\x01", 2, VECTOR_PF, true);
	expect_from_ring_3(s, lbr_stop_error);
	lbr_close();
	code_unmap(VISITS_AT);
}

extern const char lbr_x_ud[], lbr_x_int[];

/* Far branches alone: the kernel's handler has none but its IRET. */
TEST(lbr_exceptions, .group = "pmu", .ids = "LB21 LB22", .needs = 0,
     .claim =
	     "an exception is in the LBR stack, from the instruction to the handler, and so is IRET",
     .source = "SDM Vol 3, 17.4.8 and 17.11.2")
{
	const struct lbr_stack *s = lbr_stack();

	if (!s->select)
		test_skip("no MSR_LBR_SELECT before Nehalem");
	lbr_open();

	wrmsr(MSR_LBR_SELECT, 0x1fc & ~(1u << CODE_FAR));
	TRACED(LBR, "lbr_x_ud: ud2\nlbr_x_int: nop\n" EXCEPTION_TABLE("lbr_x_ud", "lbr_x_int"));
	wrmsr(MSR_LBR_SELECT, 0);
	EXPECT_EQ(lbr_newest(s, 1, false) & ADDRESS, (uint64_t)lbr_x_ud & ADDRESS);
	EXPECT_EQ(lbr_newest(s, 1, true), trap_entry(VECTOR_UD));
	EXPECT_EQ(lbr_newest(s, 0, true), (uint64_t)lbr_x_int);
	lbr_close();
}

/* Leaves IA32_DEBUGCTL in R8, TOS in R10; clears TF of the frame. */
extern const char lbr_db_handler[];
__asm__(".pushsection .text\nlbr_db_handler:\n\t"
	"movl $0x1d9, %ecx\n\trdmsr\n\tmovl %eax, %r8d\n\t"
	"andq $~0x100, 16(%rsp)\n\tiretq\n.popsection");

TEST(lbr_debug_exception, .group = "pmu", .ids = "LB28 LB29", .needs = 0,
     .claim = "a debug exception clears LBR and is not in the LBR stack",
     .source = "SDM Vol 3, 17.4.2")
{
	LBR_STACK(s);
	uint32_t before = lbr_top(s);
	uint64_t debugctl = LBR;

	own_idt_copy();
	own_idt_set(VECTOR_DB, lbr_db_handler, false);
	own_idt_load();
	TRACED_WITH(LBR, "pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tnop\n\tmovq %%r8, %[debugctl]",
		    OPERANDS([debugctl] "=&r"(debugctl)), , "r8");
	own_idt_unload();
	__asm__ volatile("movq %0, %%dr6" : : "r"(DR6_RESET));
	EXPECT_EQ(debugctl & LBR, 0);
	EXPECT_EQ(lbr_top(s), before);
}

/* DR7 with G0: execution; a write of four bytes. SDM Vol 3, 17.2.4. */
#define DR7_RESET   0x400ul
#define DR7_EXECUTE 0x402ul
#define DR7_WRITE   0xd0402ul

static volatile uint32_t watched;

/* The handler goes on at lbr_db_out, where LBR would have counted the JMP. */
extern const char lbr_db_out[], lbr_db_at[];

static void debug(uint64_t dr0, uint64_t dr7, uint64_t flags)
{
	lbr_resume = (uint64_t)lbr_db_out;
	lbr_seen = LBR;
	own_idt_load();
	TRACED_WITH(LBR,
		    "movq %[dr0], %%dr0\n\tmovq %[dr7], %%dr7\n\t"
		    "pushq %[flags]\n\tpopfq\n\t"
		    "movl $1, %[watched]\n\tnop\n"
		    "lbr_db_at: nop\n\t.byte 0xf1\n\tjmp lbr_db_out\n"
		    "lbr_db_out: movq %[reset], %%dr7\n\t",
		    OPERANDS([watched] "+m"(watched)),
		    OPERANDS([dr0] "r"(dr0), [dr7] "r"(dr7), [flags] "r"(flags),
			     [reset] "r"(DR7_RESET)));
	own_idt_unload();
}

static void check_debug(const struct lbr_stack *s, uint64_t dr0, uint64_t dr7, uint64_t flags)
{
	uint32_t before = lbr_top(s);

	debug(dr0, dr7, flags);
	EXPECT_EQ(lbr_seen & LBR, 0);
	EXPECT_EQ(lbr_top(s), before);
}

static void check_user_debug(const struct lbr_stack *s, uint8_t *page, const char *event)
{
	visit(page, event, 1, VECTOR_DB, false);
	EXPECT_EQ(lbr_seen & LBR, 0);
	EXPECT_EQ(lbr_rip & ~1ull, VISITS_AT + EVENT_AT);
	EXPECT_EQ(lbr_newest(s, 0, true), VISITS_AT);
}

TEST(lbr_debug_exceptions, .group = "pmu", .ids = "LB28 LB29", .needs = 0,
     .claim = "each debug exception clears LBR and is not in the LBR stack: TF, breakpoints on "
	      "execution and data, INT1, in ring 0 and in ring 3",
     .source = "SDM Vol 3, 17.4.2")
{
	uint8_t *page = test_area(1);
	const struct lbr_stack *s;

	code_map(VISITS_AT, page, VM_USER);
	s = lbr_open();
	own_idt_copy();
	own_idt_set(VECTOR_DB, lbr_stop_resume, false);
	check_debug(s, 0, DR7_RESET, 0x102);
	check_debug(s, (uint64_t)lbr_db_at, DR7_EXECUTE, 2);
	check_debug(s, (uint64_t)&watched, DR7_WRITE, 2);
	check_debug(s, 0, DR7_RESET, 2);
	check_user_debug(s, page, "\xf1");
	__asm__ volatile("movq %0, %%dr0\n\tmovq %1, %%dr7"
			 :
			 : "r"(VISITS_AT + EVENT_AT), "r"(DR7_EXECUTE));
	check_user_debug(s, page, "\x90");
	__asm__ volatile("movq %0, %%dr7\n\tmovq %1, %%dr6" : : "r"(DR7_RESET), "r"(DR6_RESET));
	lbr_close();
	code_unmap(VISITS_AT);
}

/*
 * Below 4 GiB: into 32-bit code by a far return, jumps there, back by a far jump. The page keeps
 * RSP, as the upper halves of registers may be lost: SDM Vol 1, 3.4.1.1. The upper half of what
 * the last jump there has for its operand is not 0.
 */
#define COMPATIBILITY_AT 0x5a001000ul
#define RSP_AT		 0x800 /* in the page */

extern const uint8_t compatibility[], compatibility_jmp[], compatibility_jmp_to[],
	compatibility_jcxz[], compatibility_jcxz_to[], compatibility_register[],
	compatibility_register_to[], compatibility_out[], compatibility_end[];
extern const char lbr_into[], lbr_back[];
__asm__(".pushsection .rodata\n\t.code32\ncompatibility: nop\n"
	"compatibility_jmp: jmp compatibility_jmp_to\n\tud2\n"
	"compatibility_jmp_to: xorl %ecx, %ecx\n"
	"compatibility_jcxz: jecxz compatibility_jcxz_to\n\tud2\n"
	"compatibility_jcxz_to: nop\n"
	"compatibility_register: jmp *%eax\n\tud2\n"
	"compatibility_register_to: nop\n"
	"compatibility_out: ljmpl $8, $0x5a001000+compatibility_64-compatibility\n\t.code64\n"
	"compatibility_64: movq 0x5a001800, %rsp\n\tret\n"
	"compatibility_end: .popsection");
_Static_assert(KERNEL_CODE == 8, "compatibility_out counts on it");

static uint64_t at(const uint8_t *label)
{
	return COMPATIBILITY_AT + (uint64_t)(label - compatibility);
}

static void run_compatibility(uint8_t *page)
{
	uint64_t target = at(compatibility_register_to) | 0xabcdull << 32;
	uint8_t *rsp = page + RSP_AT;

	TRACED_WITH(LBR,
		    "movq %[target], %%rax\n\t"
		    "pushq %%rbx\n\tpushq %%rbp\n\tpushq %%r12\n\tpushq %%r13\n\tpushq %%r14\n\t"
		    "pushq %%r15\n\tleaq lbr_back(%%rip), %%rdx\n\tpushq %%rdx\n\t"
		    "movq %%rsp, (%[rsp])\n\tpushq %[selector]\n\tpushq %[entry]\n"
		    "lbr_into: lretq\n"
		    "lbr_back: popq %%r15\n\tpopq %%r14\n\tpopq %%r13\n\tpopq %%r12\n\t"
		    "popq %%rbp\n\tpopq %%rbx\n\t",
		    OPERANDS([target] "+D"(target), [rsp] "+S"(rsp)),
		    OPERANDS([selector] "i"(OWN_CODE_32), [entry] "i"(COMPATIBILITY_AT)), "r8",
		    "r9", "r10", "r11");
}

TEST(lbr_compatibility_mode, .group = "pmu", .ids = "LB31", .needs = 0,
     .claim = "the upper halves of addresses in compatibility mode are 0 in the LBR stack",
     .source = "SDM Vol 3, 17.4.8.1")
{
	uint8_t *page = test_area(1);
	const struct lbr_stack *s;
	uint64_t flags;

	memcpy(page, compatibility, (size_t)(compatibility_end - compatibility));
	code_map(COMPATIBILITY_AT, page, 0);
	s = lbr_open();
	flags = lbr_from_flags(s);
	own_gdt_load();
	run_compatibility(page);
	own_gdt_unload();
	EXPECT_EQ(lbr_newest(s, 0, true), (uint64_t)lbr_back);
	EXPECT_EQ(lbr_newest(s, 1, false) & ~flags, at(compatibility_out));
	EXPECT_EQ(lbr_newest(s, 2, false) & ~flags, at(compatibility_register));
	EXPECT_EQ(lbr_newest(s, 2, true), at(compatibility_register_to));
	EXPECT_EQ(lbr_newest(s, 3, false) & ~flags, at(compatibility_jcxz));
	EXPECT_EQ(lbr_newest(s, 3, true), at(compatibility_jcxz_to));
	if (s->depth > 4) {
		EXPECT_EQ(lbr_newest(s, 4, false) & ~flags, at(compatibility_jmp));
		EXPECT_EQ(lbr_newest(s, 4, true), at(compatibility_jmp_to));
		EXPECT_EQ(lbr_newest(s, 5, true), at(compatibility));
	}
	lbr_close();
	code_unmap(COMPATIBILITY_AT);
}

/* 16-bit code, below 64 KiB: JMP, JCXZ and LOOP, then a far JMP to 64-bit code: JMP to RBX. */
#define CODE_16_AT 0x9000u
static const uint8_t code_16[] = {0xeb, 0x00, 0x31, 0xc9, 0xe3, 0x00, 0xb9, 0x02, 0x00,
				  0xe2, 0xfe, 0xea, 0x10, 0x90, 0x08, 0x00, 0xff, 0xe3};
/* The places of branches that are taken, in order. */
static const struct {
	uint8_t from, to;
} taken_16[] = {{0, 2}, {4, 6}, {9, 9}, {11, 16}};
enum { TAKEN_16 = sizeof(taken_16) / sizeof(taken_16[0]), JUMP_16 = 16 };

extern const char lbr_from_16[];

static void run_16(void)
{
	TRACED_WITH(LBR,
		    "leaq lbr_from_16(%%rip), %%rbx\n\tpushq %[selector]\n\tpushq %[entry]\n\t"
		    "lretq\nlbr_from_16:",
		    , OPERANDS([selector] "i"(OWN_CODE_16), [entry] "i"(CODE_16_AT)), "rbx");
}

TEST(lbr_16_bit_code, .group = "pmu", .ids = "LB2 LB6 LB31", .needs = 0,
     .claim =
	     "branches of 16-bit code enter the LBR stack, and the upper halves of their addresses "
	     "are 0",
     .source = "SDM Vol 3, 17.4.8 and 17.4.8.1")
{
	uint8_t *page = test_area(1);
	const struct lbr_stack *s;
	uint64_t flags;

	memcpy(page, code_16, sizeof(code_16));
	code_map(CODE_16_AT, page, 0);
	s = lbr_open();
	flags = lbr_from_flags(s);
	own_gdt_load();
	run_16();
	own_gdt_unload();
	EXPECT_EQ(lbr_newest(s, 0, false) & ~flags, CODE_16_AT + JUMP_16);
	EXPECT_EQ(lbr_newest(s, 0, true), (uint64_t)lbr_from_16);
	for (unsigned back = 1; back <= TAKEN_16 && back < s->depth; back++) {
		EXPECT_EQ(lbr_newest(s, back, false) & ~flags,
			  CODE_16_AT + taken_16[TAKEN_16 - back].from);
		EXPECT_EQ(lbr_newest(s, back, true), CODE_16_AT + taken_16[TAKEN_16 - back].to);
	}
	lbr_close();
	code_unmap(CODE_16_AT);
}
