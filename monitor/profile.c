// SPDX-License-Identifier: MIT
#include "monitor/profile.h"

#include <stddef.h>

#include "lib/string.h"
#include "monitor/pmu/rules.h"

#define P6_LAYOUT                                                                                  \
	{                                                                                          \
		.tr = 1 << 6, .bts = 1 << 7, .btint = 1 << 8, .off_os = 1 << 9, .off_usr = 1 << 10 \
	}

/* SDM Vol 3, 17.5, 17.7 and tables 35-2 and following. */
#define LBR_OF_CORE(n)                                                                             \
	{                                                                                          \
		.depth = (n), .from = 0x40, .to = 0x60, .top = 0x1c9                               \
	}
#define LBR_STACK(n, ...)                                                                          \
	{                                                                                          \
		.depth = (n), .from = 0x680, .to = 0x6c0, __VA_ARGS__                              \
	}

/* From Haswell on Linux has the counters run again before it unmasks the LVT entry (Linux 6.1.192,
   arch/x86/events/intel/core.c:3067 and 3115 to 3124): an interrupt between waits, then. */
static const struct profile profiles[] = {
	{.name = "nehalem",
	 .brand = "Spoor virtual processor with BTS, Nehalem class",
	 .signature = 0x000106a5, /* 06_1AH */
	 .last_leaf = 0x0d,
	 .performance = {3, 4, 48, 0x1c3, pmu_events_nehalem},
	 .lbr = LBR_STACK(16, .top = 0x1c9, .select = 0x1ff, .flags = true),
	 .layout = P6_LAYOUT},
	{.name = "netburst",
	 .brand = "Spoor virtual processor with BTS, NetBurst",
	 .signature = 0x00000f41, /* 0F_04H */
	 .last_leaf = 5,
	 .performance = {0, 1, 40, 0, NULL},
	 .lbr = LBR_STACK(16, .top = 0x1da),
	 .netburst = true,
	 .layout = {.tr = 1 << 2,
		    .bts = 1 << 3,
		    .btint = 1 << 4,
		    .off_os = 1 << 5,
		    .off_usr = 1 << 6},
	 .variants = {"predicted=history", "pebs-ip=instruction"}},
	/* TR and LBR cannot be set together: SDM Vol 3, 17.4.8. */
	{.name = "merom",
	 .brand = "Spoor virtual processor with BTS, Merom",
	 .signature = 0x000006fb, /* 06_0FH */
	 .last_leaf = 0x0a,
	 .performance = {2, 2, 40, 0xc1, pmu_events_core},
	 .lbr = LBR_OF_CORE(4),
	 .layout = P6_LAYOUT,
	 .variants = {"lbr=dropped"}},
	{.name = "penryn",
	 .brand = "Spoor virtual processor with BTS, Penryn",
	 .signature = 0x0001067a, /* 06_17H */
	 .last_leaf = 0x0d,
	 .performance = {2, 2, 40, 0xc1, pmu_events_core},
	 .lbr = LBR_OF_CORE(4),
	 .layout = P6_LAYOUT,
	 .variants = {"lbr=dropped"}},
	{.name = "bonnell",
	 .brand = "Spoor virtual processor with BTS, Bonnell",
	 .signature = 0x000106c2, /* 06_1CH */
	 .last_leaf = 0x0a,
	 .performance = {3, 2, 40, 0xc2, pmu_events_core},
	 .lbr = LBR_OF_CORE(8),
	 .layout = P6_LAYOUT},
	{.name = "skylake",
	 .brand = "Spoor virtual processor with BTS, Skylake",
	 .signature = 0x000506e3, /* 06_5EH */
	 .last_leaf = 0x0d,
	 .performance = {4, 4, 48, 0x23c5, pmu_events_skylake},
	 .lbr = LBR_STACK(32, .info = 0xdc0, .top = 0x1c9, .select = 0x3ff),
	 .layout = P6_LAYOUT,
	 .variants = {"masked=waits"}},
	{.name = "haswell",
	 .brand = "Spoor virtual processor with BTS, Haswell",
	 .signature = 0x000306c3, /* 06_3CH */
	 .last_leaf = 0x0d,
	 .performance = {3, 4, 48, 0x22c4, pmu_events_haswell},
	 .lbr = LBR_STACK(16, .top = 0x1c9, .select = 0x3ff, .flags = true),
	 .layout = P6_LAYOUT,
	 .variants = {"masked=waits"}},
	{.name = "broadwell",
	 .brand = "Spoor virtual processor with BTS, Broadwell",
	 .signature = 0x000306d4, /* 06_3DH */
	 .last_leaf = 0x0d,
	 .performance = {3, 4, 48, 0x22c4, pmu_events_haswell},
	 .lbr = LBR_STACK(16, .top = 0x1c9, .select = 0x3ff, .flags = true),
	 .layout = P6_LAYOUT,
	 .variants = {"masked=waits"}},
	{.name = "icelake",
	 .brand = "Spoor virtual processor with BTS, Ice Lake",
	 .signature = 0x000706e5, /* 06_7EH */
	 .last_leaf = 0x0d,
	 .performance = {5, 8, 48, 0x64c5, pmu_events_icelake},
	 .lbr = LBR_STACK(32, .info = 0xdc0, .top = 0x1c9, .select = 0x3ff),
	 .layout = P6_LAYOUT,
	 .variants = {"masked=waits"}},
	{.name = "sapphire-rapids",
	 .brand = "Spoor virtual processor, Sapphire Rapids",
	 .signature = 0x000806f8, /* 06_8FH */
	 .last_leaf = 0x1c,
	 .performance = {5, 8, 48, 0x64ff, pmu_events_icelake},
	 .lbr = {.depth = 32, .depths = 0x0b},
	 .layout = P6_LAYOUT,
	 .variants = {"masked=waits"}},
};

const struct profile *profile_get(unsigned n)
{
	return n < sizeof(profiles) / sizeof(profiles[0]) ? &profiles[n] : NULL;
}

const struct profile *profile_find(const char *name)
{
	const struct profile *profile;

	for (unsigned n = 0; (profile = profile_get(n)); n++)
		if (strcmp(name, profile->name) == 0)
			break;
	return profile;
}
