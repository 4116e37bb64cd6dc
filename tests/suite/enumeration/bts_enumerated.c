// SPDX-License-Identifier: MIT
#include "drivers/ds/ds.h"
#include "drivers/ds/registers.h"
#include "drivers/msr.h"
#include "kernel/cpu.h"
#include "kernel/trace/bts/bts.h"
#include "kernel/trace/context.h"
#include "tests/framework/test.h"
#include "tests/lib/msr_trial.h"
#include "tests/lib/rig.h"

/* The value has to be there, and nothing else. */
static void hold(uint32_t msr, const char *name, uint64_t value, uint64_t restore)
{
	struct msr_trial trial = msr_try(msr, value, restore);

	if (trial.refused)
		test_note("%s: writing %lx raised an exception", name, value);
	else if (trial.read_back != value)
		test_note("%s: wrote %lx, read %lx", name, value, trial.read_back);
	EXPECT(!trial.refused && trial.read_back == value);
}

static void check_exceptions_aside(void)
{
	const struct ds_caps *caps = ds_caps();

	if (caps->status == DS_BTS_UNAVAILABLE || caps->status == DS_PT_ACTIVE)
		test_skip("%s", bts_missing());
	if (caps->status == DS_ENUMERATED_BUT_ABSENT)
		test_note("the probe wrote %lx to MSR %x and %s %lx", caps->refused_value,
			  caps->refused_msr, caps->refused_with_gp ? "got #GP; before:" : "read",
			  caps->read_back);
	EXPECT_EQ(caps->status, DS_PRESENT);
}

/* Every MSR write here is fixed up, and undone before the next branch. */
TEST(bts_enumerated_is_present, .group = "E", .ids = "E6", .needs = NEED_DS,
     .claim = "TR, then BTS, can be set where CPUID and IA32_MISC_ENABLE say that BTS is there",
     .source = "SDM Vol 3, 17.4.5 and 17.4.9")
{
	const struct ds_configuration *c = ds_configuration;
	uint64_t old_area = 0, old_control = 0;
	uint8_t *area, *buffer;

	check_exceptions_aside();
	area = test_area(1);
	buffer = test_area(1);
	REQUIRE_EQ(ds_set_bts_buffer(area, buffer, 4096), 0);
	preemption_disable();
	REQUIRE_EQ(ds_checkout(&this_cpu()->trace->ds), 0);
	EXPECT(rdmsr_safe(IA32_DEBUGCTL, &old_control));
	EXPECT(rdmsr_safe(IA32_DS_AREA, &old_area));
	hold(IA32_DS_AREA, "IA32_DS_AREA", (uint64_t)area, old_area);
	if (wrmsr_safe(IA32_DS_AREA, (uint64_t)area)) {
		hold(IA32_DEBUGCTL, "IA32_DEBUGCTL", c->tr, old_control);
		hold(IA32_DEBUGCTL, "IA32_DEBUGCTL", c->tr | c->bts, old_control);
		hold(IA32_DEBUGCTL, "IA32_DEBUGCTL", old_control, old_control);
		wrmsr_safe(IA32_DS_AREA, old_area);
	}
	ds_checkin(&this_cpu()->trace->ds);
	preemption_enable();
}

extern const char format_from1[], format_from2[], format_to1[], format_to2[];

TEST(bts_record_format, .group = "E", .ids = "E5", .needs = NEED_BTS,
     .claim =
	     "in IA-32e mode a record is three quadwords, from, to and flags, whatever DTES64 says",
     .source = "SDM Vol 3, 17.4.9.1, figure 17-8 and figure 17-9")
{
	const uint64_t *raw;
	struct rig rig;

	rig_open(&rig, 16);
	EXACTLY (&rig)
		TRACED(rig_all(), "format_from1: jmp format_to1\n\tud2\n"
				  "format_to1: nop\n"
				  "format_from2: jmp format_to2\n\tud2\n"
				  "format_to2:\n\t");
	raw = (const uint64_t *)rig.base;
	EXPECT_EQ(rig_index(&rig), rig.base + 48);
	EXPECT_EQ(raw[0], format_from1);
	EXPECT_EQ(raw[1], format_to1);
	EXPECT_EQ(raw[3], format_from2);
	EXPECT_EQ(raw[4], format_to2);
	for (unsigned i = 6; i < 16 * 3; i++)
		EXPECT_EQ(raw[i], 0);
	test_observe("dtes64", "%d", ds_caps()->dtes64);
	test_observe("flags", "%lx", raw[2]);
	rig_close(&rig);
}
