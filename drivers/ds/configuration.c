/* SPDX-License-Identifier: MIT */
#include "drivers/ds/configuration.h"

#define BIT(n) (1ull << (n))

/* SDM Vol 3 (2009), 18.15.1: MSR_DEBUGCTLA. Formats: IA-32e mode always has 8-byte fields. */
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
	.field_size = 8,
	.record_size = 24,
};

/* SDM Vol 3 (2016), 17.13 and 17.14: MSR_DEBUGCTLB, no CPL bits, no IA-32e mode. */
static const struct ds_configuration pentium_m = {
	.name = "Pentium M",
	.tr = BIT(6),
	.bts = BIT(7),
	.btint = BIT(8),
	.field_size = 4,
	.record_size = 12,
};

static const struct ds_configuration core_duo = {
	.name = "Core Duo",
	.tr = BIT(6),
	.bts = BIT(7),
	.btint = BIT(8),
	.field_size = 4,
	.record_size = 12,
};

/* SDM Vol 3 (2016), 17.5: IA32_DEBUGCTL. Erratum AR62 of the Core 2 specification updates. */
static const struct ds_configuration core2 = {
	.name = "Core 2",
	.tr = BIT(6),
	.bts = BIT(7),
	.btint = BIT(8),
	.off_os = BIT(9),
	.off_usr = BIT(10),
	.filter_changes_from = true,
	.pebs_counters = BIT(0), /* table 18-10 */
	.field_size = 8,
	.record_size = 24,
};

/* The same bits; Bonnell to Goldmont. PEBS: SDM Vol 3, tables 18-10 and 18-19. */
static const struct ds_configuration atom = {
	.name = "Atom",
	.tr = BIT(6),
	.bts = BIT(7),
	.btint = BIT(8),
	.off_os = BIT(9),
	.off_usr = BIT(10),
	.pebs_counters = BIT(0),
	.pebs_reserved = true,
	.field_size = 8,
	.record_size = 24,
};

/* SDM Vol 3 (2016), 17.6: the same bits; a row of its own for the name. */
static const struct ds_configuration nehalem = {
	.name = "Nehalem and later",
	.tr = BIT(6),
	.bts = BIT(7),
	.btint = BIT(8),
	.off_os = BIT(9),
	.off_usr = BIT(10),
	.pebs_counters = BIT(0) | BIT(1) | BIT(2) | BIT(3), /* figure 18-21 */
	.field_size = 8,
	.record_size = 24,
};

const struct ds_configuration *ds_configuration = &nehalem;

const struct ds_configuration *ds_find_configuration(unsigned family, unsigned model)
{
	if (family == 15)
		return &netburst;
	if (family != 6)
		return &nehalem;
	switch (model) {
	case 0x09:
	case 0x0d:
		return &pentium_m;
	case 0x0e:
		return &core_duo;
	case 0x0f: /* Merom */
	case 0x16:
	case 0x17: /* Penryn */
	case 0x1d:
		return &core2;
	case 0x1c: /* Bonnell */
	case 0x26:
	case 0x27: /* Saltwell */
	case 0x35:
	case 0x36:
	case 0x37: /* Silvermont */
	case 0x4a:
	case 0x4c:
	case 0x4d:
	case 0x5a:
	case 0x5d:
	case 0x5c: /* Goldmont */
	case 0x5f:
		return &atom;
	default:
		return &nehalem;
	}
}

bool ds_is_suspended_by_pt(unsigned family, unsigned model)
{
	static const uint8_t models[] = {0x3d, 0x47, 0x4e, 0x4f, 0x56, 0x5e};

	for (unsigned i = 0; i < sizeof(models); i++)
		if (family == 6 && model == models[i])
			return true;
	return false;
}
