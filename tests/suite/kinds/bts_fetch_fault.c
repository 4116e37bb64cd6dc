// SPDX-License-Identifier: MIT
// A program that jumps to nowhere faults at the target, and its stack may say nothing. The record
// of the jump, before that of the fault, is the only one that names the place it came from. Passing
// means: both are there, in that order.
#include "kernel/mm/vm.h"
#include "kernel/trap/trap.h"
#include "tests/lib/exact.h"
#include "tests/lib/own_idt.h"

extern const char fetch_jump[], fetch_out[];

static void trace(uint64_t nowhere)
{
	TRACED_WITH(rig_all(),
		    "leaq fetch_out(%%rip), %%rbx\n"
		    "fetch_jump: jmp *%[nowhere]\n\tud2\n"
		    "fetch_out:\n\t",
		    , AND([nowhere] "r"(nowhere)), "rbx");
}

TEST(bts_fetch_fault, .group = "K", .ids = "K5", .needs = NEED_BTS,
     .claim =
	     "a jump to a page that is not present is recorded, then the fault that its target raises",
     .source = "SDM Vol 3, 17.4.4 and 17.11.2: branch record, then exception record")
{
	uint8_t *nowhere = (uint8_t *)test_area(1) - PAGE_SIZE + 0x123;
	struct rig rig;

	rig_open(&rig, 16);
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
	rig_close(&rig);
}
