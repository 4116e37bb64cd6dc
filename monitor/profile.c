/* SPDX-License-Identifier: MIT */
#include "monitor/profile.h"

#include <stddef.h>

#define P6_LAYOUT                                                                                  \
	{                                                                                          \
		.tr = 1 << 6, .bts = 1 << 7, .btint = 1 << 8, .off_os = 1 << 9, .off_usr = 1 << 10 \
	}

static const struct profile profiles[] = {
	{.name = "nehalem",
	 .brand = "Spoor virtual processor with BTS, Nehalem class",
	 .signature = 0x000106a5, /* 06_1AH */
	 .last_leaf = 0x0d,
	 .performance = {2, 4, 48},
	 .layout = P6_LAYOUT},
	{.name = "netburst",
	 .brand = "Spoor virtual processor with BTS, NetBurst",
	 .signature = 0x00000f41, /* 0F_04H */
	 .last_leaf = 5,
	 .layout = {.tr = 1 << 2,
		    .bts = 1 << 3,
		    .btint = 1 << 4,
		    .off_os = 1 << 5,
		    .off_usr = 1 << 6},
	 .behaviour = {.predicted = DS_PREDICTED_BY_HISTORY}},
	/* TR and LBR cannot be set together: SDM Vol 3, 17.4.8. */
	{.name = "merom",
	 .brand = "Spoor virtual processor with BTS, Merom",
	 .signature = 0x000006fb, /* 06_0FH */
	 .last_leaf = 0x0a,
	 .performance = {2, 2, 40},
	 .layout = P6_LAYOUT,
	 .behaviour = {.lbr = DS_LBR_DROPPED}},
	{.name = "penryn",
	 .brand = "Spoor virtual processor with BTS, Penryn",
	 .signature = 0x0001067a, /* 06_17H */
	 .last_leaf = 0x0d,
	 .performance = {2, 2, 40},
	 .layout = P6_LAYOUT,
	 .behaviour = {.lbr = DS_LBR_DROPPED}},
	{.name = "bonnell",
	 .brand = "Spoor virtual processor with BTS, Bonnell",
	 .signature = 0x000106c2, /* 06_1CH */
	 .last_leaf = 0x0a,
	 .performance = {3, 2, 40},
	 .layout = P6_LAYOUT},
	{.name = "skylake",
	 .brand = "Spoor virtual processor with BTS, Skylake",
	 .signature = 0x000506e3, /* 06_5EH */
	 .last_leaf = 0x0d,
	 .performance = {3, 4, 48},
	 .layout = P6_LAYOUT},
};

const struct profile *profile_get(unsigned n)
{
	return n < sizeof(profiles) / sizeof(profiles[0]) ? &profiles[n] : NULL;
}
