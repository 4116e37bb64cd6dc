// SPDX-License-Identifier: MIT
#include "tests/lib/exact.h"
#include "tests/lib/pending.h"

extern const char branch_before[], branch_before_to[];

/* STI lets one more instruction pass: the jump, after which the interrupt is due at once. */
TEST(bts_branch_then_interrupt, .group = "K", .ids = "K8", .needs = NEED_BTS,
     .claim = "an interrupt right after a taken branch leaves its record behind the branch's",
     .source =
	     "SDM Vol 3, 17.4.4 and 17.11.2; SDM Vol 2, STI: interrupts after the next instruction")
{
	struct pending pending;
	struct rig rig;

	rig_open(&rig, 1024);
	EXACTLY (&rig) {
		pending_raise(&pending);
		TRACED(rig_all(), "sti\n"
				  "branch_before: jmp branch_before_to\n\tud2\n"
				  "branch_before_to: .fill 64, 1, 0x90\n\tcli\n\t");
		pending_settle();
	}
	rig_expect(&rig, 0, branch_before, branch_before_to, "jmp");
	pending_expect(&rig, 1, &pending);
	EXPECT(pending.rip >= (uint64_t)branch_before_to);
	test_observe("interrupted_at", "target+%lu", pending.rip - (uint64_t)branch_before_to);
	rig_close(&rig);
}
