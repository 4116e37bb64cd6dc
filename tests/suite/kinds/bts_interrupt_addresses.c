// SPDX-License-Identifier: MIT
#include "tests/lib/exact.h"
#include "tests/lib/pending.h"

extern const char interrupt_first[], interrupt_last[];

TEST(bts_interrupt_addresses, .group = "K", .ids = "K8 K6", .needs = NEED_BTS,
     .claim = "the record of an interrupt leads from the RIP that it saves to the handler's first "
	      "instruction",
     .source = "SDM Vol 3, 17.4.4 and 17.11.2")
{
	struct pending pending;
	struct rig rig;

	rig_open(&rig, 1024);
	EXACTLY (&rig) {
		pending_raise(&pending);
		TRACED(rig_all(), "sti\n"
				  "interrupt_first: nop\n\tnop\n\tnop\n\t.fill 64, 1, 0x90\n"
				  "interrupt_last: cli\n\t");
		pending_settle();
	}
	EXPECT(pending.rip > (uint64_t)interrupt_first && pending.rip <= (uint64_t)interrupt_last);
	pending_expect(&rig, 0, &pending);
	rig_close(&rig);
}
