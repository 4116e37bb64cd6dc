/* SPDX-License-Identifier: MIT */
#include "drivers/apic/lapic.h"
#include "kernel/trap/trap.h"
#include "tests/lib/exact.h"
#include "tests/lib/own_idt.h"
#include "tests/lib/pending.h"

/* An exception, an interrupt and a software interrupt, with their IRETQs. */
static __attribute__((noinline)) size_t count(struct rig *rig, uint64_t debugctl)
{
	struct pending pending;

	EXACTLY (rig) {
		pending_raise(&pending);
		own_idt_load();
		TRACED_WITH(debugctl,
			    "leaq 1f(%%rip), %%rbx\n\tud2\n1:\tint %[vector]\n\t"
			    "sti\n\t.fill 64, 1, 0x90\n\tcli\n\t",
			    , AND([vector] "i"(VECTOR_TEST + 1)), "rbx");
		own_idt_unload();
		lapic_eoi();
		pending_settle();
	}
	return rig_count(rig);
}

TEST(bts_filter_events, .group = "P", .ids = "P1 P2", .needs = NEED_BTS | NEED_DSCPL,
     .claim = "BTS_OFF_OS leaves out interrupts and exceptions within CPL 0, BTS_OFF_USR does not",
     .source = "SDM Vol 3, 17.4.9.4 and table 17-6")
{
	const struct ds_configuration *c = ds_configuration;
	size_t all;
	struct rig rig;

	rig_open(&rig, 64);
	own_idt_copy();
	own_idt_set(VECTOR_UD, own_handler_resume, false);
	own_idt_set(VECTOR_TEST, own_handler_return, false);
	own_idt_set(VECTOR_TEST + 1, own_handler_return, false);
	all = count(&rig, rig_all());
	EXPECT(all == 5 || all == 6); /* INT n may not be recorded */
	EXPECT_EQ(count(&rig, rig_all() | c->off_usr), all);
	EXPECT_EQ(count(&rig, rig_all() | c->off_os), 0);
	rig_close(&rig);
}
