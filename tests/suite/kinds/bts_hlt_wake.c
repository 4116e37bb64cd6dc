// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "kernel/trap/trap.h"
#include "tests/lib/exact.h"
#include "tests/lib/own_idt.h"
#include "tests/lib/pending.h"

extern const char hlt_next[];

TEST(bts_hlt_wake, .group = "K", .ids = "K11", .needs = NEED_BTS,
     .claim =
	     "waking from HLT leaves no record but the interrupt's, from the instruction behind HLT",
     .source = "SDM Vol 3, 17.4.4; SDM Vol 2, HLT: the saved RIP is that of the next instruction")
{
	struct pending pending;
	struct rig rig;

	rig_open(&rig, 1024);
	EXACTLY (&rig) {
		pending_raise(&pending);
		TRACED(rig_all(), "sti\n\thlt\nhlt_next: cli\n\t");
		pending_settle();
	}
	EXPECT_EQ(pending.rip, hlt_next);
	pending_expect_way(&rig, 0, &pending);
	EXPECT_OR_ERRATUM(rig_record(&rig, 0).from == pending.rip, "AAJ122");
	rig_close(&rig);
}

extern const char hlt_before[], hlt_before_to[], hlt_behind[], hlt_after[], hlt_after_to[];

TEST(bts_hlt_between, .group = "K", .ids = "K11", .needs = NEED_BTS,
     .claim =
	     "HLT loses neither the record of the branch before it nor those of the branches after",
     .source = "SDM Vol 3, 17.4.4: each taken branch")
{
	struct pending pending;
	struct rig rig;

	rig_open(&rig, 64);
	own_idt_copy();
	own_idt_set(VECTOR_TEST, own_handler_return, false);
	EXACTLY (&rig) {
		pending_raise(&pending);
		own_idt_load();
		TRACED(rig_all(), "hlt_before: jmp hlt_before_to\n\tud2\n"
				  "hlt_before_to: sti\n\thlt\n"
				  "hlt_behind: cli\n"
				  "hlt_after: jmp hlt_after_to\n\tud2\n"
				  "hlt_after_to:\n\t");
		own_idt_unload();
		lapic_eoi();
		pending_settle();
	}
	EXPECT_EQ(rig_count(&rig), 4);
	rig_expect(&rig, 0, hlt_before, hlt_before_to, "jmp before HLT");
	EXPECT_EQ(rig_record(&rig, 1).to, own_handler_return);
	rig_expect(&rig, 2, own_handler_return, hlt_behind, "iretq");
	rig_expect(&rig, 3, hlt_after, hlt_after_to, "jmp after HLT");
	rig_close(&rig);
}
