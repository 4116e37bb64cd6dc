/* SPDX-License-Identifier: MIT */
/* Ways into a handler that the kernel itself does not use, or hopes never to use. */
#include "drivers/apic/lapic.h"
#include "kernel/trap/trap.h"
#include "tests/lib/exact.h"
#include "tests/lib/own_idt.h"

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
	struct rig rig;

	rig_open(&rig, 16);
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
	rig_close(&rig);
}

static void trace_double(uint64_t address)
{
	TRACED_WITH(rig_all(),
		    "leaq gate_double_out(%%rip), %%rbx\n"
		    "gate_double: movq (%[address]), %%rax\n"
		    "gate_double_out:\n\t",
		    , AND([address] "r"(address)), "rbx");
}

/* The #GP never reaches a handler: its gate is broken. What RIP a #DF saves is not defined. */
TEST(bts_double_fault, .group = "K", .ids = "K5", .needs = NEED_BTS,
     .claim = "of a fault that becomes #DF there is one record, to the handler of #DF",
     .source = "SDM Vol 3, 17.4.4 and 6.15: taken branch, interrupt, or exception, #DF")
{
	struct rig rig;

	rig_open(&rig, 16);
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
	rig_close(&rig);
}
