// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "kernel/trap/trap.h"
#include "tests/lib/exact.h"
#include "tests/lib/text.h"

#define SLOTS 8192

static volatile uint64_t nmi_rip;

static bool came(struct trap_frame *frame)
{
	if (nmi_rip)
		return false;
	nmi_rip = frame->rip;
	return true;
}

/* Sends it from within, since nothing can hold an NMI back, and waits for at most 1000 rounds. */
static void trace(void)
{
	TRACED_WITH(rig_all(),
		    "call lapic_self_nmi\n\t"
		    "movl $1000, %%ecx\n"
		    "1:\tpause\n\tcmpq $0, %[rip]\n\tjne 2f\n\tdecl %%ecx\n\tjnz 1b\n2:\t",
		    , AND([rip] "m"(nmi_rip)), "rsi", "rdi", "r8", "r9", "r10", "r11");
}

TEST(bts_nmi_addresses, .group = "K", .ids = "K8 K6", .needs = NEED_BTS,
     .claim = "the record of an NMI leads from the RIP that it saves to the handler's first "
	      "instruction",
     .source = "SDM Vol 3, 17.4.4 and 17.11.2")
{
	unsigned entries = 0, returns = 0;
	struct rig rig;

	rig_open(&rig, SLOTS);
	EXACTLY (&rig) {
		nmi_rip = 0;
		nmi_add_handler(came);
		trace();
		nmi_remove_handler(came);
	}
	REQUIRE(nmi_rip != 0);
	for (size_t slot = 0; slot < rig_count(&rig); slot++) {
		struct bts_struct record = rig_record(&rig, slot);

		if (record.to == trap_entry(VECTOR_NMI)) {
			EXPECT_EQ(record.from, nmi_rip);
			entries++;
		} else if (record.to == nmi_rip && entries && !returns) {
			EXPECT(text_is_iretq(record.from));
			returns++;
		}
	}
	EXPECT_EQ(entries, 1);
	EXPECT_EQ(returns, 1);
	rig_close(&rig);
}
