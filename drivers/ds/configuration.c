// SPDX-License-Identifier: MIT
#include "drivers/ds/configuration.h"

#define BIT(n) (1ull << (n))

/* SDM Vol 3 (2016), 17.5 and 17.13: the bits of MSR_DEBUGCTLB and IA32_DEBUGCTL are the same. */
#define P6_BITS	    .tr = BIT(6), .bts = BIT(7), .btint = BIT(8)
#define P6_FILTERS  .off_os = BIT(9), .off_usr = BIT(10)
#define FIELDS_OF_4 .field_size = 4, .record_size = 12 /* no IA-32e mode */
#define FIELDS_OF_8 .field_size = 8, .record_size = 24 /* IA-32e mode always has these */

/* SDM Vol 3 (2009), 18.15.1: MSR_DEBUGCTLA. */
static const struct ds_configuration netburst = {
	.name = "NetBurst",
	.tr = BIT(2),
	.bts = BIT(3),
	.btint = BIT(4),
	.off_os = BIT(5),
	.off_usr = BIT(6),
	.predicted = BIT(4),
	.pebs_counters = BIT(0),	  /* IQ_COUNTER4 */
	.pebs_enable = BIT(25) | BIT(24), /* ENABLE_PEBS_MY_THR, UOP_TAG: docs/bts.md */
	FIELDS_OF_8,
};

/* 17.13 and 17.14: no CPL bits. */
static const struct ds_configuration pentium_m = {.name = "Pentium M", P6_BITS, FIELDS_OF_4};
static const struct ds_configuration core_duo = {.name = "Core Duo", P6_BITS, FIELDS_OF_4};

/* Erratum AR62 of the Core 2 specification updates. PEBS: table 18-10. */
static const struct ds_configuration core2 = {
	.name = "Core 2",
	P6_BITS,
	P6_FILTERS,
	.filter_changes_from = true,
	.pebs_counters = BIT(0),
	FIELDS_OF_8,
};

/* Bonnell to Goldmont. PEBS: SDM Vol 3, tables 18-10 and 18-19. */
static const struct ds_configuration atom = {
	.name = "Atom",
	P6_BITS,
	P6_FILTERS,
	.pebs_counters = BIT(0),
	.pebs_reserved = true,
	FIELDS_OF_8,
};

/* SDM Vol 3 (2016), 17.6. PEBS: figure 18-21. */
static const struct ds_configuration nehalem = {
	.name = "Nehalem and later",
	P6_BITS,
	P6_FILTERS,
	.pebs_counters = BIT(0) | BIT(1) | BIT(2) | BIT(3),
	FIELDS_OF_8,
};

const struct ds_configuration *ds_configuration = &nehalem;

/* Models that are not listed are as Nehalem. */
static const struct {
	uint8_t model;
	const struct ds_configuration *is;
} family_6[] = {
	{0x09, &pentium_m}, {0x0d, &pentium_m}, {0x0e, &core_duo},
	{0x0f, &core2},	    {0x16, &core2},		       /* Merom */
	{0x17, &core2},	    {0x1d, &core2},		       /* Penryn */
	{0x1c, &atom},	    {0x26, &atom},		       /* Bonnell */
	{0x27, &atom},	    {0x35, &atom},	{0x36, &atom}, /* Saltwell */
	{0x37, &atom},	    {0x4a, &atom},	{0x4c, &atom},
	{0x4d, &atom},	    {0x5a, &atom},	{0x5d, &atom}, /* Silvermont */
	{0x5c, &atom},	    {0x5f, &atom},		       /* Goldmont */
};

const struct ds_configuration *ds_find_configuration(unsigned family, unsigned model)
{
	if (family == 15)
		return &netburst;
	for (unsigned i = 0; family == 6 && i < sizeof(family_6) / sizeof(family_6[0]); i++)
		if (family_6[i].model == model)
			return family_6[i].is;
	return &nehalem;
}

bool ds_is_suspended_by_pt(unsigned family, unsigned model)
{
	static const uint8_t models[] = {0x3d, 0x47, 0x4e, 0x4f, 0x56, 0x5e};

	for (unsigned i = 0; i < sizeof(models); i++)
		if (family == 6 && model == models[i])
			return true;
	return false;
}
