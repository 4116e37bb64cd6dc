// SPDX-License-Identifier: MIT
/*
 * IA32_DEBUGCTL is software's: what an event may change of it is written (LBR and BTF at #DB). A
 * BTINT that some event clears makes a buffer wrap that was to interrupt, much later and far away.
 */
#include "drivers/apic/lapic.h"
#include "kernel/trap/trap.h"
#include "tests/lib/exact.h"
#include "tests/lib/own_idt.h"
#include "tests/lib/pending.h"

extern const char holds_handler[];

static volatile uint64_t seen __attribute__((used)), events __attribute__((used)),
	resume __attribute__((used));

/*
 * Keeps IA32_DEBUGCTL, and returns to `resume` unless that is 0, with all registers as they were:
 * an NMI comes while others use them.
 */
__asm__(".pushsection .text\n"
	"holds_handler: pushq %rax\n\tpushq %rcx\n\tpushq %rdx\n\t"
	"movl $0x1d9, %ecx\n\trdmsr\n\tshlq $32, %rdx\n\torq %rdx, %rax\n\t"
	"movq %rax, seen(%rip)\n\tincq events(%rip)\n\t"
	"movq resume(%rip), %rax\n\ttestq %rax, %rax\n\tcmovzq 24(%rsp), %rax\n\t"
	"movq %rax, 24(%rsp)\n\tmovq $0, resume(%rip)\n\t"
	"popq %rdx\n\tpopq %rcx\n\tpopq %rax\n\tiretq\n"
	".popsection");

/* `before` ... and IA32_DEBUGCTL as it stands behind the event. */
#define AFTER(debugctl, before)                                                                    \
	({                                                                                         \
		uint64_t after = 0;                                                                \
		TRACED_WITH(debugctl,                                                              \
			    before "\n\tmovl $0x1d9, %%ecx\n\trdmsr\n\tshlq $32, %%rdx\n\t"        \
				   "orq %%rax, %%rdx\n\tmovq %%rdx, %[after]\n\t",                 \
			    AND([after] "=&r"(after)), , "rbx", "rsi", "rdi", "r8", "r9", "r10",   \
			    "r11");                                                                \
		after;                                                                             \
	})

static uint64_t after_fault(uint64_t debugctl)
{
	return AFTER(debugctl, "leaq 1f(%%rip), %%rbx\n\tmovq %%rbx, resume(%%rip)\n\tud2\n1:");
}

static uint64_t after_software(uint64_t debugctl)
{
	return AFTER(debugctl, "int $0x31");
}

static uint64_t after_interrupt(uint64_t debugctl)
{
	return AFTER(debugctl, "sti\n\t.fill 64, 1, 0x90\n\tcli");
}

static uint64_t after_halt(uint64_t debugctl)
{
	return AFTER(debugctl, "sti\n\thlt\n\tcli");
}

/* Waits for the NMI for at most 500 rounds. */
static uint64_t after_nmi(uint64_t debugctl)
{
	return AFTER(debugctl, "call lapic_self_nmi\n\tmovl $500, %%ecx\n"
			       "1:\tpause\n\tcmpq $0, events(%%rip)\n\tjne 2f\n\tdecl %%ecx\n\t"
			       "jnz 1b\n2:");
}

static void check(struct rig *rig, const char *what, uint64_t debugctl,
		  uint64_t after_event(uint64_t debugctl))
{
	bool interrupt = after_event == after_interrupt || after_event == after_halt;
	struct pending pending;
	uint64_t after;

	rig_reset(rig);
	seen = events = resume = 0;
	if (interrupt)
		pending_raise(&pending);
	own_idt_load();
	after = after_event(debugctl);
	own_idt_unload();
	if (interrupt) {
		lapic_eoi();
		pending_settle();
	}
	if (seen != debugctl || after != debugctl)
		test_note("%s: IA32_DEBUGCTL was %lx, %lx in the handler, %lx after", what,
			  debugctl, seen, after);
	EXPECT_EQ(events, 1);
	EXPECT_EQ(seen, debugctl);
	EXPECT_EQ(after, debugctl);
}

TEST(bts_controls_over_events, .group = "M", .ids = "M2", .needs = NEED_BTS,
     .claim = "no exception, interrupt, NMI, HLT or IRET changes TR, BTS, BTINT and the filters",
     .source = "SDM Vol 3, 17.4.3, 17.4.4 and table 35-2: 1D9H, what #DB clears")
{
	const struct ds_configuration *c = ds_configuration;
	uint64_t filters[] = {0, ds_caps()->dscpl ? c->off_usr : 0,
			      ds_caps()->dscpl ? c->off_os : 0};
	struct rig rig;

	_Static_assert(VECTOR_TEST + 1 == 0x31, "after_software() counts on it");
	rig_open(&rig, 1024);
	own_idt_copy();
	own_idt_set(VECTOR_UD, holds_handler, false);
	own_idt_set(VECTOR_NMI, holds_handler, false);
	own_idt_set(VECTOR_TEST, holds_handler, false);
	own_idt_set(VECTOR_TEST + 1, holds_handler, false);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t debugctl = rig_interrupt() | filters[i];

		check(&rig, "#UD", debugctl, after_fault);
		check(&rig, "INT n", debugctl, after_software);
		check(&rig, "interrupt", debugctl, after_interrupt);
		check(&rig, "HLT", debugctl, after_halt);
		check(&rig, "NMI", debugctl, after_nmi);
	}
	rig_close(&rig);
}
