// SPDX-License-Identifier: MIT
/* The points of struct pebs_behaviour and their choices, by the words of vbts=; the unit's row. */
#include <stddef.h>

#include "monitor/pebs/rules.h"
#include "monitor/silicon.h"
#include "monitor/unit.h"

#define POINT(text, field) .name = text, .offset = offsetof(struct pebs_behaviour, field)

static void make(struct silicon *silicon)
{
	silicon->pebs = pebs_clean;
}

static const struct point points[] = {
	{POINT("pebs", available),
	 .choices = {{"1", "PEBS is available"}, {"0", "IA32_MISC_ENABLE: it is not"}}},
	{POINT("pebs-ip", ip),
	 .choices = {{"next", "a PEBS record shows the RIP after its instruction"},
		     {"instruction", "a PEBS record shows the RIP of its instruction"}}},
	{POINT("pebs-trigger", trigger),
	 .choices = {{"reached", "every PEBS record at or past the threshold interrupts"},
		     {"equal", "only the PEBS record that meets the threshold interrupts"}}},
	{POINT("pebs-full", full),
	 .choices = {{"silent", "a PEBS record without room changes nothing"},
		     {"status", "a PEBS record without room sets OvfBuf"},
		     {"interrupts", "each PEBS record without room sets OvfBuf and interrupts"}}},
	{POINT("pebs-skid", skid),
	 .choices = {{"0", "PEBS samples the event after the one that overflows a counter"},
		     {"3", "without PDIR it samples the third one after that event"},
		     {"varies", "without PDIR it samples one of the first eight after it"}}},
	{.name = NULL},
};

static const struct msr_range msrs[] = {
	{0x3f1, 0x3f2}, /* IA32_PEBS_ENABLE, MSR_PEBS_DATA_CFG, MSR_PEBS_MATRIX_VERT */
	{0x3f6, 0x3f7}, /* MSR_PEBS_LD_LAT_THRESHOLD, MSR_PEBS_FRONTEND */
	{0},
};

const struct unit pebs_unit = {
	.name = "pebs",
	.make = make,
	.stop = pebs_stop,
	/* INIT and RESET: the Debug Store is off. SDM Vol 3, 17.4.9. */
	.state = {offsetof(struct vcpu, pebs), sizeof(struct pebs_state)},
	.msrs = msrs,
	.read_msr = pebs_read_msr,
	.write_msr = pebs_write_msr,
	.levels = pmu_levels,
	.points = points,
	.behaviour = offsetof(struct behaviour, pebs),
};
