// SPDX-License-Identifier: MIT
/*
 * Which events there are. What is counted of them: docs/monitor.md, "Counters". Events that a
 * profile does not list count nothing.
 */
#include <stddef.h>

#include "monitor/pmu/rules.h"
#include "monitor/silicon.h"

#define CODE(select, mask) ((mask) << 8 | (select))
#define ALL_GENERAL	   ((1u << PMU_GENERAL) - 1)
#define ANY_BRANCH	   RETIRED_BRANCH
#define TAKEN		   (RETIRED_BRANCH | RETIRED_TAKEN)
#define CONDITIONAL	   (RETIRED_BRANCH | RETIRED_CONDITIONAL)
#define MISPREDICTED	   (RETIRED_BRANCH | RETIRED_MISPREDICTED)

/* SDM Vol 3, table 18-1. Cache events are not available. */
static const struct pmu_event architectural[] = {
	{.code = CODE(0x3c, 0x00), .kind = EVENT_CYCLES},
	{.code = CODE(0x3c, 0x01), .kind = EVENT_CYCLES},
	{.code = CODE(0xc0, 0x00), .has = RETIRED},
	{.code = CODE(0xc4, 0x00), .has = ANY_BRANCH},
	{.code = CODE(0xc5, 0x00), .has = MISPREDICTED},
	{.code = 0},
};

/* Fixed counters: SDM Vol 3, table 18-8 (instructions; core cycles; reference cycles). */
static const struct pmu_event fixed[PMU_FIXED] = {
	{.has = RETIRED, .precise = 1}, {.kind = EVENT_CYCLES}, {.kind = EVENT_CYCLES}};

/* The one of netburst.c. */
static const struct pmu_event execution_event = {.has = RETIRED, .precise = 1};

/* SDM Vol 3, table 18-10 and chapter 19: the precise ones of those that exist here. */
const struct pmu_event pmu_events_core[] = {
	{.code = CODE(0xc0, 0x00), .has = RETIRED, .precise = 1},
	{.code = CODE(0xc5, 0x00), .has = MISPREDICTED, .precise = 1},
	{.code = 0},
};

/* SDM Vol 3, tables 19-13 and 18-22; instructions without unit mask, as which Linux samples cycles
   (CMASK 16, inverted): Linux 6.1, ds.c. */
const struct pmu_event pmu_events_nehalem[] = {
	{.code = CODE(0x0b, 0x01), .has = RETIRED_LOAD, .precise = 0xf},
	{.code = CODE(0x0b, 0x02), .has = RETIRED_STORE, .precise = 0xf},
	{.code = CODE(0x0b, 0x10), .has = RETIRED_LOAD, .precise = 0xf, .kind = EVENT_LATENCY},
	{.code = CODE(0xc0, 0x00), .has = RETIRED, .precise = 0xf},
	{.code = CODE(0xc0, 0x01), .has = RETIRED, .precise = 0xf},
	{.code = CODE(0xc4, 0x01), .has = CONDITIONAL, .precise = 0xf},
	{.code = CODE(0xc4, 0x02), .has = RETIRED_CALL, .precise = 0xf},
	{.code = CODE(0xc4, 0x04), .has = ANY_BRANCH, .precise = 0xf},
	{.code = CODE(0xc5, 0x02), .has = RETIRED_CALL | RETIRED_MISPREDICTED, .precise = 0xf},
	{.code = 0},
};

/* SDM Vol 3, tables 19-4 to 19-7: MEM_UOPS_RETIRED or MEM_INST_RETIRED, BR_INST_RETIRED; and
   UOPS_RETIRED.ALL, one of each instruction, as which Linux samples cycles of haswell. */
#define MEMORY_OF_HASWELL                                                                          \
	{.code = CODE(0xcd, 0x01), .has = RETIRED_LOAD, .precise = 0xf, .kind = EVENT_LATENCY},    \
		{.code = CODE(0xd0, 0x81), .has = RETIRED_LOAD, .precise = 0xf},                   \
	{                                                                                          \
		.code = CODE(0xd0, 0x82), .has = RETIRED_STORE, .precise = 0xf                     \
	}

/* The first two are skylake's alone: instructions and branches by their architectural codes, of
   which the manual's list of precise events has others. Linux 6.1 (ds.c,
   intel_skl_pebs_event_constraints) samples cycles by the first, inverted, with CMASK 16, and takes
   any event there. */
const struct pmu_event pmu_events_skylake[] = {
	{.code = CODE(0xc0, 0x00), .has = RETIRED, .precise = 0xf},
	{.code = CODE(0xc4, 0x00), .has = ANY_BRANCH, .precise = 0xf},
	MEMORY_OF_HASWELL,
	{.code = CODE(0xc0, 0x01), .has = RETIRED, .precise = 2},
	{.code = CODE(0xc2, 0x01), .has = RETIRED, .precise = 0xf},
	{.code = CODE(0xc4, 0x01), .has = CONDITIONAL, .precise = 0xf},
	{.code = CODE(0xc4, 0x02), .has = RETIRED_CALL, .precise = 0xf},
	{.code = CODE(0xc4, 0x04), .has = ANY_BRANCH, .precise = 0xf},
	{.code = CODE(0xc4, 0x08), .has = RETIRED_RETURN, .precise = 0xf},
	{.code = CODE(0xc4, 0x10), .has = CONDITIONAL, .without = RETIRED_TAKEN},
	{.code = CODE(0xc4, 0x20), .has = TAKEN, .without = RETIRED_FAR, .precise = 0xf},
	{.code = CODE(0xc4, 0x40), .has = RETIRED_FAR},
	{.code = CODE(0xc5, 0x01), .has = CONDITIONAL | RETIRED_MISPREDICTED, .precise = 0xf},
	{.code = CODE(0xc5, 0x04), .has = MISPREDICTED, .precise = 0xf},
	{.code = CODE(0xc5, 0x20), .has = TAKEN | RETIRED_MISPREDICTED, .precise = 0xf},
	{.code = 0},
};

const struct pmu_event pmu_events_icelake[] = {
	MEMORY_OF_HASWELL,
	{.code = CODE(0xc0, 0x00), .has = RETIRED, .precise = ALL_GENERAL},
	{.code = CODE(0xc4, 0x00), .has = ANY_BRANCH, .precise = ALL_GENERAL},
	{.code = CODE(0xc4, 0x01), .has = CONDITIONAL | RETIRED_TAKEN, .precise = ALL_GENERAL},
	{.code = CODE(0xc4, 0x02), .has = RETIRED_CALL, .precise = ALL_GENERAL},
	{.code = CODE(0xc4, 0x08), .has = RETIRED_RETURN, .precise = ALL_GENERAL},
	{.code = CODE(0xc4, 0x10),
	 .has = CONDITIONAL,
	 .without = RETIRED_TAKEN,
	 .precise = ALL_GENERAL},
	{.code = CODE(0xc4, 0x11), .has = CONDITIONAL, .precise = ALL_GENERAL},
	{.code = CODE(0xc4, 0x20), .has = TAKEN, .without = RETIRED_FAR, .precise = ALL_GENERAL},
	{.code = CODE(0xc4, 0x40), .has = RETIRED_FAR, .precise = ALL_GENERAL},
	{.code = CODE(0xc4, 0x80), .has = RETIRED_INDIRECT, .precise = ALL_GENERAL},
	{.code = CODE(0xc5, 0x00), .has = MISPREDICTED, .precise = ALL_GENERAL},
	{.code = 0},
};

static const struct pmu_event *look_up(const struct pmu_event *events, uint16_t code)
{
	for (; events && events->code; events++)
		if (events->code == code)
			return events;
	return NULL;
}

bool is_netburst(const struct vcpu *vcpu)
{
	return vcpu->silicon->profile->netburst;
}

const struct pmu_event *pmu_event_of(const struct vcpu *vcpu, unsigned n)
{
	const struct pmu_event *event;
	uint16_t code;

	if (is_netburst(vcpu))
		return &execution_event;
	if (n >= PMU_GENERAL)
		return &fixed[n - PMU_GENERAL];
	code = (uint16_t)(vcpu->pmu.event_select[n] & SELECT_EVENT);
	event = look_up(vcpu->silicon->profile->performance.events, code);
	return event ? event : look_up(architectural, code);
}
