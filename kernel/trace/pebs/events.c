// SPDX-License-Identifier: MIT
// How each family samples the events that have names here: SDM Vol 3, tables 18-10, 18-12, 18-19
// and 18-22, and chapter 19.
#include "drivers/processor.h"
#include "kernel/trace/pebs/private.h"

#define CODE(select, mask) ((mask) << 8 | (select))

enum { ALL = 0xff, ONE = 1, SECOND = 2 };
enum { GOLDMONT_PLUS = 0x7a };

#define EVENT(name) PTRACE_PEBS_##name
#define LAST	    EVENT(EVENTS)

static const struct pebs_event core[LAST] = {
	[EVENT(INST_RETIRED)] = {CODE(0xc0, 0x00), ONE, false},
	[EVENT(BR_MISP_RETIRED_ALL_BRANCHES)] = {CODE(0xc5, 0x00), ONE, false},
};

/* Silvermont and Goldmont. */
static const struct pebs_event atom[LAST] = {
	[EVENT(INST_RETIRED)] = {CODE(0xc0, 0x00), ONE, false},
	[EVENT(BR_INST_RETIRED_ALL_BRANCHES)] = {CODE(0xc4, 0x00), ONE, false},
	[EVENT(BR_INST_RETIRED_CONDITIONAL)] = {CODE(0xc4, 0x7e), ONE, false},
	[EVENT(BR_INST_RETIRED_NEAR_CALL)] = {CODE(0xc4, 0xf9), ONE, false},
	[EVENT(BR_INST_RETIRED_NEAR_RETURN)] = {CODE(0xc4, 0xf7), ONE, false},
	[EVENT(BR_MISP_RETIRED_ALL_BRANCHES)] = {CODE(0xc5, 0x00), ONE, false},
};

static const struct pebs_event nehalem[LAST] = {
	[EVENT(INST_RETIRED)] = {CODE(0xc0, 0x01), ALL, false},
	[EVENT(BR_INST_RETIRED_ALL_BRANCHES)] = {CODE(0xc4, 0x04), ALL, false},
	[EVENT(BR_INST_RETIRED_CONDITIONAL)] = {CODE(0xc4, 0x01), ALL, false},
	[EVENT(BR_INST_RETIRED_NEAR_CALL)] = {CODE(0xc4, 0x02), ALL, false},
	[EVENT(MEM_INST_RETIRED_ALL_LOADS)] = {CODE(0x0b, 0x01), ALL, true},
	[EVENT(MEM_INST_RETIRED_ALL_STORES)] = {CODE(0x0b, 0x02), ALL, true},
};

/* Sandy Bridge to Comet Lake: instructions are INST_RETIRED.PREC_DIST. */
static const struct pebs_event sandy_bridge[LAST] = {
	[EVENT(INST_RETIRED)] = {CODE(0xc0, 0x01), SECOND, false},
	[EVENT(BR_INST_RETIRED_ALL_BRANCHES)] = {CODE(0xc4, 0x04), ALL, false},
	[EVENT(BR_INST_RETIRED_CONDITIONAL)] = {CODE(0xc4, 0x01), ALL, false},
	[EVENT(BR_INST_RETIRED_NEAR_CALL)] = {CODE(0xc4, 0x02), ALL, false},
	[EVENT(BR_INST_RETIRED_NEAR_RETURN)] = {CODE(0xc4, 0x08), ALL, false},
	[EVENT(BR_INST_RETIRED_NEAR_TAKEN)] = {CODE(0xc4, 0x20), ALL, false},
	[EVENT(BR_MISP_RETIRED_ALL_BRANCHES)] = {CODE(0xc5, 0x04), ALL, false},
	[EVENT(MEM_INST_RETIRED_ALL_LOADS)] = {CODE(0xd0, 0x81), ALL, true},
	[EVENT(MEM_INST_RETIRED_ALL_STORES)] = {CODE(0xd0, 0x82), ALL, true},
};

static const struct pebs_event ice_lake[LAST] = {
	[EVENT(INST_RETIRED)] = {CODE(0xc0, 0x00), ALL, false},
	[EVENT(BR_INST_RETIRED_ALL_BRANCHES)] = {CODE(0xc4, 0x00), ALL, false},
	[EVENT(BR_INST_RETIRED_CONDITIONAL)] = {CODE(0xc4, 0x11), ALL, false},
	[EVENT(BR_INST_RETIRED_NEAR_CALL)] = {CODE(0xc4, 0x02), ALL, false},
	[EVENT(BR_INST_RETIRED_NEAR_RETURN)] = {CODE(0xc4, 0x08), ALL, false},
	[EVENT(BR_INST_RETIRED_NEAR_TAKEN)] = {CODE(0xc4, 0x20), ALL, false},
	[EVENT(BR_MISP_RETIRED_ALL_BRANCHES)] = {CODE(0xc5, 0x00), ALL, false},
	[EVENT(MEM_INST_RETIRED_ALL_LOADS)] = {CODE(0xd0, 0x81), ALL, true},
	[EVENT(MEM_INST_RETIRED_ALL_STORES)] = {CODE(0xd0, 0x82), ALL, true},
};

/* Nehalem and Westmere of the processors with format 1. */
static bool is_nehalem(unsigned model)
{
	static const uint8_t models[] = {0x1a, 0x1e, 0x1f, 0x2e, 0x25, 0x2c, 0x2f};

	for (unsigned i = 0; i < sizeof(models); i++)
		if (model == models[i])
			return true;
	return false;
}

static const struct pebs_event *find_table(void)
{
	uint32_t signature = cpuid(1, 0).eax;
	unsigned model = (signature >> 4 & 0xf) | (signature >> 12 & 0xf0);

	if (!ds_caps()->pebs_format)
		return core;
	if (ds_caps()->pebs_format >= 4)
		return ice_lake;
	if (ds_configuration->pebs_reserved || model == GOLDMONT_PLUS)
		return atom;
	return is_nehalem(model) ? nehalem : sandy_bridge;
}

bool pebs_present(void)
{
	return ds_pebs_record_size() && pmu_caps()->version;
}

int pebs_find_event(unsigned event, struct pebs_event *found)
{
	if (!event || event >= LAST)
		return -EINVAL;
	*found = find_table()[event];
	return found->code ? 0 : -EOPNOTSUPP;
}
