// SPDX-License-Identifier: MIT
// Events in the stack of last branches: exceptions, interrupts, IRET; debug exceptions; and code of
// compatibility mode.
#include "drivers/apic/lapic.h"
#include "drivers/lbr/lbr.h"
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
	EXPECT_FROM(s, back, from);
	EXPECT_TO(s, back, to);
}

/* All 64 bits, but flags of FROM. */
static void expect_whole(const struct lbr_stack *s, unsigned back, uint64_t from, uint64_t to)
{
	uint64_t flags = lbr_from_flags(s);

	EXPECT_EQ(lbr_newest(s, back, false) | flags, from | flags);
	EXPECT_EQ(lbr_newest(s, back, true), to);
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
RAISER(refused, "int $0x70")

static void check(const struct lbr_stack *s, unsigned vector, bool error, void (*raise)(uint64_t),
		  uint64_t address, const char *from, const char *out)
{
	const char *handler = error ? own_handler_resume_error : own_handler_resume;
	const char *iret = error ? own_handler_resume_error_iret : own_handler_resume_iret;

	uint32_t before = lbr_top(s);

	test_note("vector %u", vector);
	own_idt_copy();
	own_idt_break(0x70);
	own_idt_set(vector, handler, false);
	own_idt_load();
	raise(address);
	own_idt_unload();
	EXPECT_EQ(lbr_since(s, before), 2);
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
	check(s, VECTOR_GP, true, raise_refused, 0, lbr_refused, lbr_refused_out);
}

/*
 * Handlers that clear LBR, or LBREn, which is bit 0 as well, and leave in the variables here what
 * its register was, IA32_DEBUGCTL or that in lbr_control, and the RIP that was saved. The first,
 * which jumps before, returns there, the others to lbr_resume, without TF.
 */
extern const char lbr_stops[], lbr_stop_in[], lbr_stop_resume[], lbr_stop_error[];
extern volatile uint64_t lbr_seen, lbr_rip, lbr_resume, lbr_control;
volatile uint64_t lbr_seen, lbr_rip, lbr_resume, lbr_control = IA32_DEBUGCTL;
#define STOP                                                                                       \
	"pushq %rax\n\tpushq %rcx\n\tpushq %rdx\n\tmovl lbr_control(%rip), %ecx\n\trdmsr\n\t"      \
	"movl %eax, lbr_seen(%rip)\n\txorl %eax, %eax\n\txorl %edx, %edx\n\twrmsr\n\t"             \
	"movq 24(%rsp), %rax\n\tmovq %rax, lbr_rip(%rip)\n\t"
#define RESUME "movq lbr_resume(%rip), %rax\n\tmovq %rax, 24(%rsp)\n\tandq $~0x100, 40(%rsp)\n\t"
#define POP    "popq %rdx\n\tpopq %rcx\n\tpopq %rax\n\tiretq\n"
__asm__(".pushsection .text\nlbr_stops: jmp lbr_stop_in\nlbr_stop_in: " STOP POP
	"lbr_stop_error: addq $8, %rsp\n"
	"lbr_stop_resume: " STOP RESUME POP ".popsection");

/* Architectural last branch records begin, empty, before a test sets LBR of IA32_DEBUGCTL. */
#define ARCHITECTURAL (LBR_CTL_LBREN | LBR_CTL_OS | LBR_CTL_USR | LBR_CTL_KINDS)

static void begin(const struct lbr_stack *s, uint64_t control)
{
	if (s->top)
		return;
	lbr_control = IA32_LBR_CTL;
	wrmsr(IA32_LBR_DEPTH, s->depth);
	wrmsr(IA32_LBR_CTL, control);
}

/* FREEZE_LBRS_ON_PMI where it is there: an NMI or a #DB has nothing to do with it. */
static uint64_t freeze_bit(void)
{
	return msr_try(IA32_DEBUGCTL, FREEZE_LBRS, 0).read_back & FREEZE_LBRS;
}

static void expect_interrupt(const struct lbr_stack *s, uint64_t seen)
{
	EXPECT_EQ(seen & LBR, LBR);
	expect_entry(s, 1, lbr_rip, (uint64_t)lbr_stops);
	expect_entry(s, 0, (uint64_t)lbr_stops, (uint64_t)lbr_stop_in);
}

extern const char lbr_before_hlt[], lbr_after_hlt[];

TEST(lbr_interrupts, .group = "pmu", .ids = "LB21 LB26 LB59", .needs = ON_EACH_CPU,
     .claim = "an interrupt, one that ends HLT too, and an NMI enter the LBR stack, from the RIP "
	      "that is saved, and after it a branch of its handler",
     .source = "SDM Vol 3, 17.4.8 and 17.11.2; SDM Vol 3 of 2022, 18.1.1")
{
	const struct lbr_stack *s CLOSED_BY(lbr_closed) = lbr_open_either();
	uint64_t freeze = freeze_bit();
	struct pending pending;

	own_idt_begin(VECTOR_TEST, lbr_stops, false);
	own_idt_set(VECTOR_NMI, lbr_stops, false);
	lbr_seen = 0;
	pending_raise(&pending);
	own_idt_load();
	begin(s, ARCHITECTURAL);
	TRACED(LBR, "jmp 1f\n1: sti\n\tnop\n\t.fill 64, 1, 0x90\n\tcli");
	own_idt_unload();
	lapic_eoi();
	pending_settle();
	expect_interrupt(s, lbr_seen);
	lbr_seen = 0;
	pending_raise(&pending);
	own_idt_load();
	begin(s, ARCHITECTURAL);
	TRACED(LBR, "lbr_before_hlt: jmp 1f\n1: sti\n\thlt\nlbr_after_hlt: cli");
	own_idt_unload();
	lapic_eoi();
	pending_settle();
	EXPECT_EQ(lbr_rip, (uint64_t)lbr_after_hlt);
	EXPECT_FROM(s, 2, lbr_before_hlt);
	expect_interrupt(s, lbr_seen);
	lbr_seen = 0;
	own_idt_load();
	begin(s, ARCHITECTURAL);
	TRACED_WITH(LBR | freeze,
		    "call lapic_self_nmi\n\tmovl $500, %%ecx\n"
		    "1:\tpause\n\tcmpq $0, %[seen]\n\tjne 2f\n\tdecl %%ecx\n\tjnz 1b\n2:\n\t",
		    , OPERANDS([seen] "m"(lbr_seen)), "rsi", "rdi", "r8", "r9", "r10", "r11");
	own_idt_unload();
	expect_interrupt(s, lbr_seen);
}

#define CR0_TS	  (1ul << 3)
#define CR0_AM	  (1ul << 18)
#define FLAG_AC	  (1ul << 18)
#define VECTOR_NM 7

/* Of the last pages that ring 3 may have. */
#define VISIT_AT 0x7fffffffd000ul

/* In ring 3 at VISIT_AT: `event`, at an even place, then SYSCALL. Its handler clears LBR. */
enum { EVENT_AT = 2, SYSCALL_AT = 8 };

static uint64_t recorded = ARCHITECTURAL;

static void visit(const struct lbr_stack *s, uint8_t *page, const char *event, size_t bytes,
		  unsigned vector, bool error)
{
	static const uint8_t code[] = {0x31, 0xc9, [SYSCALL_AT] = 0x0f, 0x05};
	struct trap_frame frame = {.rip = VISIT_AT, .rflags = FLAG_AC | 2};
	struct pending pending;

	memcpy(page, code, sizeof(code));
	memset(page + EVENT_AT, 0x90, SYSCALL_AT - EVENT_AT);
	memcpy(page + EVENT_AT, event, bytes);
	lbr_resume = VISIT_AT + SYSCALL_AT;
	lbr_seen = 0;
	own_idt_begin(vector, error ? lbr_stop_error : lbr_stop_resume, true);
	lapic_set_task_priority(0xf0);
	if (vector == VECTOR_TEST)
		pending_raise(&pending); /* until IF is set */
	own_idt_load();
	begin(s, recorded);
	wrmsr(IA32_DEBUGCTL, LBR);
	user_run(&frame);
	wrmsr(IA32_DEBUGCTL, 0);
	own_idt_unload();
	lapic_set_task_priority(0);
	EXPECT_EQ(frame.vector, VECTOR_SYSCALL);
	if (vector != VECTOR_TEST)
		return;
	lapic_eoi();
	pending_settle();
}

static void expect_from_ring_3(const struct lbr_stack *s, uint64_t from, const char *handler)
{
	EXPECT_EQ(lbr_seen & LBR, LBR);
	expect_whole(s, 0, from, (uint64_t)handler);
	EXPECT_EQ(lbr_newest(s, 1, true), VISIT_AT);
	EXPECT(lbr_newest(s, 1, false) >> 47 & 1);
	if (s->top)
		return;
	EXPECT_EQ(rdmsr(IA32_LER_FROM_IP), lbr_newest(s, 1, false));
	EXPECT_EQ(rdmsr(IA32_LER_TO_IP), VISIT_AT);
}

/* UD2, FNOP, DIV by 0, HLT, a load from 0, INT3, INT n, one from VISIT_AT + 1; an interrupt. */
static const struct {
	char code[SYSCALL_AT - EVENT_AT];
	uint8_t vector;
	bool error;
} raisers[] = {{"\x0f\x0b", VECTOR_UD, false},	{"\xd9\xd0", VECTOR_NM, false},
	       {"\xf7\xf1", VECTOR_DE, false},	{"\xf4\x90", VECTOR_GP, true},
	       {"\x8b\x01", VECTOR_PF, true},	{"\xcc\x90", VECTOR_BP, false},
	       {"\xcd\x60", 0x60, false},	{"\x8b\x05\xf9\xff\xff\xff", VECTOR_AC, true},
	       {"\x90\x90", VECTOR_TEST, false}};

static void visit_without(const struct lbr_stack *s, uint8_t *page, uint64_t level)
{
	recorded = ARCHITECTURAL & ~level;
	visit(s, page, raisers[0].code, sizeof(raisers[0].code), raisers[0].vector, false);
	recorded = ARCHITECTURAL;
}

/* With OS alone the source of a fault in ring 3 is all ones, of 64 or 32 bits, or its own. With USR
   alone the fault does not enter. */
static void expect_levels(const struct lbr_stack *s, uint8_t *page)
{
	uint64_t from;

	if (s->top)
		return;
	visit_without(s, page, LBR_CTL_USR);
	from = lbr_newest(s, 0, false);
	EXPECT(from == UINT64_MAX || from == UINT32_MAX || from == VISIT_AT + EVENT_AT);
	visit_without(s, page, LBR_CTL_OS);
	EXPECT_EQ(lbr_newest(s, 0, true), VISIT_AT);
}

TEST(lbr_user_faults, .group = "pmu", .ids = "LB5 LB6 LB21 LB22 LB59 LB60 LB61 LB72",
     .needs = ON_EACH_CPU,
     .claim =
	     "a fault of ring 3, INT3, INT n and an interrupt enter the LBR stack, after the IRETQ that "
	     "led there, which architectural records have in IA32_LER_*",
     .source = "SDM Vol 3, 17.4.8 and 17.11.2; SDM Vol 3 of 2022, 18.1.1")
{
	uint8_t *page = test_area(1);
	const struct lbr_stack *s;
	uint64_t cr0;

	code_map(VISIT_AT, page, VM_USER);
	s = lbr_open_either();
	__asm__ volatile("mov %%cr0, %0" : "=r"(cr0));
	__asm__ volatile("mov %0, %%cr0" : : "r"(cr0 | CR0_AM | CR0_TS));
	for (size_t n = 0; n < sizeof(raisers) / sizeof(raisers[0]); n++) {
		bool error = raisers[n].error;

		visit(s, page, raisers[n].code, sizeof(raisers[n].code), raisers[n].vector, error);
		EXPECT(lbr_rip - VISIT_AT <= SYSCALL_AT);
		expect_from_ring_3(s,
				   raisers[n].vector == VECTOR_TEST ? lbr_rip : VISIT_AT + EVENT_AT,
				   error ? lbr_stop_error : lbr_stop_resume);
	}
	__asm__ volatile("mov %0, %%cr0" : : "r"(cr0));
	expect_levels(s, page);
	lbr_close();
	code_unmap(VISIT_AT);
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
	EXPECT_FROM(s, 1, lbr_x_ud);
	EXPECT_EQ(lbr_newest(s, 1, true), trap_entry(VECTOR_UD));
	EXPECT_EQ(lbr_newest(s, 0, true), (uint64_t)lbr_x_int);
	lbr_close();
}

#define NO_JCC 4ull /* of MSR_LBR_SELECT: no Jcc is in what debug() executes */

/* DR7 with G0: execution; a write of four bytes. SDM Vol 3, 17.2.4. */
#define DR7_RESET   0x400ul
#define DR7_EXECUTE 0x402ul
#define DR7_WRITE   0xd0402ul
#define DR7_DETECT  0x2400ul /* GD: the next MOV of a debug register */

static volatile uint32_t watched;

/* After one branch an exception that DR7, with DR0, or TF of `flags` asks for, or at last INT1. The
   handler goes on at lbr_db_out, where another branch follows. */
extern const char lbr_db_begin[], lbr_db_out[], lbr_db_at[];

static void debug(uint64_t debugctl, uint64_t dr0, uint64_t dr7, uint64_t flags)
{
	lbr_resume = (uint64_t)lbr_db_out;
	lbr_seen = UINT32_MAX;
	own_idt_load();
	TRACED_WITH(debugctl,
		    "movq %[dr0], %%dr0\n\tmovq %[dr7], %%dr7\n"
		    "lbr_db_begin: jmp 1f\n1:\tpushq %[flags]\n\tpopfq\n\t"
		    "movl $1, %[watched]\n\tnop\n"
		    "lbr_db_at: nop\n\tmovq %%dr6, %%rax\n\t.byte 0xf1\n"
		    "lbr_db_out: jmp 1f\n1:\tmovq %[reset], %%dr7\n\t",
		    OPERANDS([watched] "+m"(watched)),
		    OPERANDS([dr0] "r"(dr0), [dr7] "r"(dr7), [flags] "r"(flags),
			     [reset] "r"(DR7_RESET)));
	own_idt_unload();
	__asm__ volatile("movq %0, %%dr6" : : "r"(DR6_RESET));
}

/* Each kind of them. */
static void debug_each(void (*each)(uint64_t dr0, uint64_t dr7, uint64_t flags))
{
	each(0, DR7_RESET, 0x102);
	each((uint64_t)lbr_db_at, DR7_EXECUTE, 2);
	each((uint64_t)&watched, DR7_WRITE, 2);
	each(0, DR7_DETECT, 2);
	each(0, DR7_RESET, 2);
}

static void check_debug(uint64_t dr0, uint64_t dr7, uint64_t flags)
{
	const struct lbr_stack *s = lbr_known();
	uint64_t freeze = freeze_bit();
	uint32_t before = lbr_top(s);

	if (s->select)
		wrmsr(MSR_LBR_SELECT, NO_JCC);
	debug(LBR | freeze, dr0, dr7, flags);
	EXPECT_EQ(lbr_seen, freeze);
	EXPECT_EQ(lbr_since(s, before), 1);
	if (!s->select)
		return;
	EXPECT_EQ(rdmsr(MSR_LBR_SELECT), NO_JCC);
	wrmsr(MSR_LBR_SELECT, 0);
}

TEST(lbr_debug_exception, .group = "pmu", .ids = "LB28 LB29", .needs = 0,
     .claim = "a debug exception clears LBR alone and is not in the LBR stack",
     .source = "SDM Vol 3, 17.4.2")
{
	LBR_STACK(s);

	own_idt_begin(VECTOR_DB, lbr_stop_resume, false);
	check_debug(0, DR7_RESET, 0x102);
}

static void check_user_debug(const struct lbr_stack *s, uint8_t *page, const char *event)
{
	visit(s, page, event, 1, VECTOR_DB, false);
	EXPECT_EQ(lbr_seen & LBR, 0);
	EXPECT_EQ(lbr_rip & ~1ull, VISIT_AT + EVENT_AT);
	EXPECT_EQ(lbr_newest(s, 0, true), VISIT_AT);
}

TEST(lbr_debug_exceptions, .group = "pmu", .ids = "LB28 LB29", .needs = ON_EACH_CPU,
     .claim = "each debug exception clears LBR, and neither TOS nor LBR_SELECT, and is not in the "
	      "LBR stack: TF, breakpoints on execution and data, GD, INT1, in ring 0 and in ring 3",
     .source = "SDM Vol 3, 17.4.2")
{
	uint8_t *page = test_area(1);
	const struct lbr_stack *s;

	code_map(VISIT_AT, page, VM_USER);
	s = lbr_open();
	own_idt_begin(VECTOR_DB, lbr_stop_resume, false);
	debug_each(check_debug);
	if (pmu_caps()->version >= 4 &&
	    wrmsr_safe(IA32_PERF_GLOBAL_STATUS_SET, STATUS_LBR_FRZ)) { /* nothing enters then */
		debug(LBR, 0, DR7_RESET, 0x102);
		EXPECT_EQ(lbr_seen & LBR, 0);
		pmu_rig_clear(STATUS_LBR_FRZ);
	}
	check_user_debug(s, page, "\xf1");
	__asm__ volatile("movq %0, %%dr0\n\tmovq %1, %%dr7"
			 :
			 : "r"(VISIT_AT + EVENT_AT), "r"(DR7_EXECUTE));
	check_user_debug(s, page, "\x90");
	__asm__ volatile("movq %0, %%dr7\n\tmovq %1, %%dr6" : : "r"(DR7_RESET), "r"(DR6_RESET));
	lbr_close();
	code_unmap(VISIT_AT);
}

/* --- Of architectural last branch records --- */

/* Leaves IA32_LBR_CTL in lbr_seen, takes the breakpoint away, goes on as lbr_stop_resume. */
extern const char lbr_arch_stop[];
__asm__(".pushsection .text\nlbr_arch_stop:\n\t"
	"pushq %rax\n\tpushq %rcx\n\tpushq %rdx\n\tmovl $0x14ce, %ecx\n\trdmsr\n\t"
	"movl %eax, lbr_seen(%rip)\n\tmovl $0x400, %eax\n\tmovq %rax, %dr7\n\t" RESUME POP
	".popsection");

#define SEEN_CLEARED ((uint32_t)ARCHITECTURAL & ~LBR_CTL_LBREN)

static void check_arch_debug(uint64_t dr0, uint64_t dr7, uint64_t flags)
{
	wrmsr(IA32_LBR_CTL, ARCHITECTURAL);
	debug(0, dr0, dr7, flags);
	wrmsr(IA32_LBR_CTL, 0);
	EXPECT_EQ(lbr_seen, SEEN_CLEARED);
	EXPECT_EQ(rdmsr(IA32_LBR_0_FROM_IP), (uint64_t)lbr_db_begin);
}

/* IA32_DEBUGCTL.LBR is cleared likewise on other processors; here the bit is in another register.
 */
TEST(lbr_arch_debug_exception, .group = "LB", .ids = "LB62", .needs = NEED_LBR | ON_EACH_CPU,
     .claim =
	     "each debug exception clears LBREn before its handler runs, and no other bit of "
	     "IA32_LBR_CTL: TF, breakpoints on execution and data, GD, INT1; neither it nor the branches "
	     "after it are recorded",
     .source = "SDM Vol 3 of 2022, 18.1.4")
{
	arch_lbr_borrow();
	own_idt_begin(VECTOR_DB, lbr_arch_stop, false);
	debug_each(check_arch_debug);
	if (lbr_caps()->freezes) {
		wrmsr(IA32_PERF_GLOBAL_STATUS_SET, STATUS_LBR_FRZ);
		check_arch_debug(0, DR7_RESET, 0x102);
		pmu_rig_clear(STATUS_LBR_FRZ);
	}
	arch_lbr_give_back();
}

TEST(lbr_arch_user_debug_exception, .group = "LB", .ids = "LB62", .needs = NEED_LBR,
     .claim = "a debug exception of ring 3 clears LBREn before its handler runs; neither it nor "
	      "the branches after it are recorded",
     .source = "SDM Vol 3 of 2022, 18.1.4")
{
	unsigned depth = arch_lbr_borrow();

	user_branches_open();
	own_idt_begin(VECTOR_DB, lbr_arch_stop, false);
	lbr_seen = UINT32_MAX;
	lbr_resume = VISITS_AT;
	own_idt_load();
	__asm__ volatile("movq %0, %%dr0\n\tmovq %1, %%dr7" : : "r"(VISITS_AT), "r"(DR7_EXECUTE));
	wrmsr(IA32_LBR_CTL, ARCHITECTURAL);
	user_branches_run(0);
	wrmsr(IA32_LBR_CTL, 0);
	own_idt_unload();
	__asm__ volatile("movq %0, %%dr6" : : "r"(DR6_RESET));
	EXPECT_EQ(lbr_seen, SEEN_CLEARED);
	EXPECT_EQ(rdmsr(IA32_LBR_0_TO_IP), VISITS_AT);
	for (unsigned n = 0; n < depth; n++)
		EXPECT(rdmsr(IA32_LBR_0_FROM_IP + n) - VISITS_AT >= PAGE_SIZE);
	user_branches_close();
	arch_lbr_give_back();
}

/* --- Narrow code --- */

/*
 * From 2 to 4 GiB: into 32-bit code by a far return, a call, in which there is one of the next
 * instruction, jumps, and back by a far jump. The page keeps RSP, as the upper halves of registers
 * may be lost: SDM Vol 1, 3.4.1.1; the next one is the stack there. The upper half of what the
 * last jump there has for its operand is not 0.
 */
#define COMPATIBILITY_AT 0xda001000ul
#define RSP_AT		 0x800 /* in the page */

extern const uint8_t compatibility[], compatibility_call[], compatibility_next[],
	compatibility_ret[], compatibility_jmp[], compatibility_jmp_to[], compatibility_jcxz[],
	compatibility_jcxz_to[], compatibility_register[], compatibility_register_to[],
	compatibility_out[], compatibility_end[];
extern const char lbr_into[], lbr_back[];
__asm__(".pushsection .rodata\n\t.code32\ncompatibility:"
	"\tmovl $0x88, %ecx\n\tmovl %ecx, %ss\n\tmovl $0xda003000, %esp\n"
	"compatibility_call: call compatibility_next\n"
	"compatibility_jmp: jmp compatibility_jmp_to\n"
	"compatibility_next: call 1f\n1:\tpopl %ecx\n"
	"compatibility_ret: ret\n"
	"compatibility_jmp_to: xorl %ecx, %ecx\n"
	"compatibility_jcxz: jecxz compatibility_jcxz_to\n\tud2\n"
	"compatibility_jcxz_to: nop\n"
	"compatibility_register: jmp *%eax\n\tud2\n"
	"compatibility_register_to: nop\n"
	"compatibility_out: ljmpl $8, $0xda001000+compatibility_64-compatibility\n\t.code64\n"
	"compatibility_64: movabsq 0xda001800, %rax\n\tmovq %rax, %rsp\n\t"
	"movl $0x10, %ecx\n\tmovl %ecx, %ss\n\tpopq %rax\n\tjmp *%rax\n"
	"compatibility_end: .popsection");
_Static_assert(KERNEL_CODE == 8 && KERNEL_DATA == 0x10 && OWN_DATA_32 == 0x88, "assembly above");

static uint64_t base;  /* of the segment that it runs in */
static uint64_t shift; /* of addresses in entries: 0, or, where they are offsets, that base */

static uint64_t at(const uint8_t *label)
{
	return COMPATIBILITY_AT + (uint64_t)(label - compatibility) - shift;
}

/* Ends either kind. */
#define END "movl lbr_control(%%rip), %%ecx\n\txorl %%eax, %%eax\n\txorl %%edx, %%edx\n\twrmsr\n\t"

static void run_compatibility(uint8_t *page)
{
	uint64_t target = (at(compatibility_register_to) - base) | 0xabcdull << 32;
	uint64_t selector = base ? OWN_CODE_32_BASED : OWN_CODE_32, entry = COMPATIBILITY_AT - base;
	uint8_t *rsp = page + RSP_AT;

	TRACED_WITH(LBR,
		    "movq %[target], %%rax\n\t"
		    "pushq %%rbx\n\tpushq %%rbp\n\tpushq %%r12\n\tpushq %%r13\n\tpushq %%r14\n\t"
		    "pushq %%r15\n\tleaq lbr_back(%%rip), %%rdx\n\tpushq %%rdx\n\t"
		    "movq %%rsp, (%[rsp])\n\tpushq %[selector]\n\tpushq %[entry]\n"
		    "lbr_into: lretq\n"
		    "lbr_back: popq %%r15\n\tpopq %%r14\n\tpopq %%r13\n\tpopq %%r12\n\t"
		    "popq %%rbp\n\tpopq %%rbx\n\t" END,
		    OPERANDS([target] "+D"(target), [rsp] "+S"(rsp)),
		    OPERANDS([selector] "r"(selector), [entry] "r"(entry)), "r8", "r9", "r10",
		    "r11");
}

/* EN_CALLSTACK with what it needs: SDM Vol 3, 17.9. CALL_STACK: SDM Vol 3 of 2022, 18.1.2. */
#define CALL_STACK 0x3c6u
#define CALLS	   (LBR_CTL_LBREN | LBR_CTL_OS | LBR_CTL_CALL_STACK | 7 << 19)

/* BR_TYPE of compatibility_ret. */
enum { RETURN = 5 };

/* No call of the code in that page is left. */
static void expect_no_calls(const struct lbr_stack *s, void (*run)(uint8_t *page), uint8_t *page,
			    uint64_t code_at)
{
	uint32_t before = s->top ? lbr_top(s) : 0;

	if (!(lbr_caps()->select & LBR_SELECT_CALL_STACK))
		return;
	if (s->top)
		wrmsr(MSR_LBR_SELECT, CALL_STACK);
	begin(s, CALLS);
	run(page);
	if (s->top) {
		wrmsr(MSR_LBR_SELECT, 0);
		EXPECT_EQ(lbr_top(s), before);
	}
	EXPECT((lbr_newest(s, 0, false) & ADDRESS) - code_at >= PAGE_SIZE);
}

/* No branch of that code, nor the way there, is of a kind that enters. */
static void expect_no_kinds(const struct lbr_stack *s, uint8_t *page)
{
	uint32_t before = s->top ? lbr_top(s) : 0;

	if (!(lbr_caps()->select & LBR_SELECT_WITHOUT(0)))
		return;
	if (s->top)
		wrmsr(MSR_LBR_SELECT, 0x1fc);
	begin(s, ARCHITECTURAL & ~LBR_CTL_KINDS);
	run_compatibility(page);
	if (s->top)
		wrmsr(MSR_LBR_SELECT, 0);
	EXPECT(s->top ? !lbr_since(s, before) : !lbr_newest(s, 0, true));
}

TEST(lbr_compatibility_mode, .group = "pmu", .ids = "LB5 LB8 LB18 LB20 LB31 LB57 LB58 LB64 LB77",
     .needs = 0,
     .claim = "in compatibility mode the upper halves of addresses are 0 in the LBR stack, and no "
	      "others; in format 1 addresses are linear, in others FROM and TO alike linear or "
	      "offsets; returns take calls off; kinds are left out",
     .source = "SDM Vol 3, 17.4.8.1 and 17.9; SDM Vol 3 of 2022, 18.1.2")
{
	bool linear = (pmu_rig_capabilities() & 0x3f) == 1 ||
		      (lbr_caps()->architectural && cpuid(LBR_LEAF, 0).eax >> 31);
	uint8_t *page = test_area(2);
	uint64_t flags;
	const struct lbr_stack *s;
	unsigned less = 0; /* a CALL of the next instruction, which may be left out */

	memcpy(page, compatibility, (size_t)(compatibility_end - compatibility));
	code_map(COMPATIBILITY_AT, page, 0);
	code_map_data(COMPATIBILITY_AT + PAGE_SIZE, page + PAGE_SIZE, 0);
	s = lbr_open_either();
	flags = lbr_from_flags(s);
	own_gdt_load();
	base = shift = 0;
	expect_no_calls(s, run_compatibility, page, COMPATIBILITY_AT);
	expect_no_kinds(s, page);
	begin(s, ARCHITECTURAL);
	base = OWN_BASE;
	run_compatibility(page);
	own_gdt_unload();
	if (!linear && (lbr_newest(s, 1, false) & ~flags) == at(compatibility_out) - base)
		shift = base;
	EXPECT_EQ(lbr_newest(s, 0, true), (uint64_t)lbr_back);
	EXPECT_EQ(lbr_newest(s, 1, false) & ~flags, at(compatibility_out));
	expect_whole(s, 2, at(compatibility_register), at(compatibility_register_to));
	expect_whole(s, 3, at(compatibility_jcxz), at(compatibility_jcxz_to));
	if (lbr_caps()->kinds)
		EXPECT_EQ(rdmsr(IA32_LBR_0_INFO + 5) >> LBR_INFO_BR_TYPE & 0xf, RETURN);
	if (s->depth > 4) {
		expect_whole(s, 4, at(compatibility_jmp), at(compatibility_jmp_to));
		expect_whole(s, 5, at(compatibility_ret), at(compatibility_jmp));
		less = !s->top && rdmsr(IA32_LBR_0_FROM_IP + 6) == at(compatibility_call);
		expect_whole(s, 7 - less, at(compatibility_call), at(compatibility_next));
	}
	if (s->depth > 8)
		expect_whole(s, 8 - less, (uint64_t)lbr_into, at(compatibility));
	lbr_close();
	code_unmap(COMPATIBILITY_AT + PAGE_SIZE);
	code_unmap(COMPATIBILITY_AT);
}

/* 16-bit code, below 64 KiB: a CALL of the next instruction, JMP, JCXZ and LOOP, then a far JMP to
   64-bit code: JMP to RBX. The page keeps RSP; the next one is the stack there. */
#define CODE_16_AT 0x9000u
static const uint8_t code_16[] = {0xe8, 0x00, 0x00, 0x58, 0xeb, 0x00, 0x31, 0xc9, 0xe3, 0x00, 0xb9,
				  0x02, 0x00, 0xe2, 0xfe, 0xea, 0x14, 0x90, 0x08, 0x00, 0xff, 0xe3};
/* The places of branches that are taken, in order, after the CALL. */
static const struct {
	uint8_t from, to;
} taken_16[] = {{4, 6}, {8, 10}, {13, 13}, {15, 20}};
enum { TAKEN_16 = sizeof(taken_16) / sizeof(taken_16[0]), JUMP_16 = 20 };

extern const char lbr_from_16[];

static void run_16(uint8_t *page)
{
	TRACED_WITH(LBR,
		    "leaq lbr_from_16(%%rip), %%rbx\n\tmovq %%rsp, %[rsp]\n\t"
		    "movl %[data], %%ss\n\tmovl $0xb000, %%esp\n\t"
		    "pushq %[selector]\n\tpushq %[entry]\n\tlretq\n"
		    "lbr_from_16: movl $0x10, %%ecx\n\tmovl %%ecx, %%ss\n\t"
		    "movq 0x9800, %%rsp\n\t" END,
		    ,
		    OPERANDS([rsp] "m"(page[RSP_AT]), [data] "r"(OWN_DATA_16),
			     [selector] "i"(OWN_CODE_16), [entry] "i"(CODE_16_AT)),
		    "rbx");
}

TEST(lbr_16_bit_code, .group = "pmu", .ids = "LB2 LB6 LB20 LB31 LB77", .needs = 0,
     .claim =
	     "branches of 16-bit code enter the LBR stack, and the upper halves of their addresses "
	     "are 0; in a call stack a call of the next instruction does not enter",
     .source = "SDM Vol 3, 17.4.8, 17.4.8.1 and 17.9; SDM Vol 3 of 2022, 18.1.2")
{
	uint8_t *page = test_area(2);
	const struct lbr_stack *s;

	memcpy(page, code_16, sizeof(code_16));
	code_map(CODE_16_AT, page, 0);
	code_map_data(CODE_16_AT + PAGE_SIZE, page + PAGE_SIZE, 0);
	s = lbr_open_either();
	own_gdt_load();
	expect_no_calls(s, run_16, page, CODE_16_AT);
	begin(s, ARCHITECTURAL);
	run_16(page);
	own_gdt_unload();
	expect_whole(s, 0, CODE_16_AT + JUMP_16, (uint64_t)lbr_from_16);
	for (unsigned back = 1; back <= TAKEN_16 && back < s->depth; back++) {
		expect_whole(s, back, CODE_16_AT + taken_16[TAKEN_16 - back].from,
			     CODE_16_AT + taken_16[TAKEN_16 - back].to);
	}
	lbr_close();
	code_unmap(CODE_16_AT + PAGE_SIZE);
	code_unmap(CODE_16_AT);
}
