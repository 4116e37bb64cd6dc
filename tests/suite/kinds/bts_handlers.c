// SPDX-License-Identifier: MIT
/*
 * What runs between an event and its IRETQ is code like any other. A kernel's own handler has
 * branches that change with its compiler, so the usual test looks at the way in and the way out
 * only; here the handler is four branches that are known.
 */
#include "drivers/apic/lapic.h"
#include "kernel/trap/trap.h"
#include "tests/lib/exact.h"
#include "tests/lib/own_idt.h"
#include "tests/lib/pending.h"

#define SLOTS	 2048
#define BRANCHES 4 /* of the handler, with its IRETQ */

extern const char handler_entry[], handler_inside[], handler_call[], handler_callee[],
	handler_called[], handler_iret[], handler_ud[], handler_ud_out[], handler_ud_next[],
	handler_ud_end[], handler_sti[], handler_cli[], handler_next[], handler_end[];

/*
 * Returns to `resume` unless that is 0, with all registers as they were: an NMI comes while others
 * use them. Its jump leads backward.
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

/* The handler's branches, from the slot behind its entry on, lead back to `to`. */
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
     .claim =
	     "branches inside an exception handler, and behind its IRETQ, are recorded like others",
     .source = "SDM Vol 3, 17.4.4: each taken branch")
{
	struct rig rig;

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
	rig_expect(&rig, 1 + BRANCHES, handler_ud_next, handler_ud_end, "jmp behind the iretq");
	rig_close(&rig);
}

/* Where the interrupt comes among the NOPs is the processor's choice; its record says where. */
TEST(bts_interrupt_handler, .group = "K", .ids = "K8 K6", .needs = NEED_BTS,
     .claim =
	     "branches inside an interrupt handler, and behind its IRETQ, are recorded like others",
     .source = "SDM Vol 3, 17.4.4: each taken branch")
{
	struct pending pending;
	uint64_t rip;
	struct rig rig;

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
	rig_expect(&rig, 1 + BRANCHES, handler_next, handler_end, "jmp behind the iretq");
	rig_close(&rig);
}

/* Sends it from within, and waits for at most 500 rounds. */
static void trace_nmi(void)
{
	handled = 0;
	TRACED_WITH(rig_all(),
		    "call lapic_self_nmi\n\t"
		    "movl $500, %%ecx\n"
		    "1:\tpause\n\tcmpq $0, %[handled]\n\tjne 2f\n\tdecl %%ecx\n\tjnz 1b\n2:\n\t",
		    , AND([handled] "m"(handled)), "rsi", "rdi", "r8", "r9", "r10", "r11");
}

TEST(bts_nmi_handler, .group = "K", .ids = "K8 K6", .needs = NEED_BTS,
     .claim = "branches inside an NMI handler, and behind its IRETQ, are recorded like others",
     .source = "SDM Vol 3, 17.4.4: each taken branch")
{
	struct rig rig;
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
	rig_close(&rig);
}
