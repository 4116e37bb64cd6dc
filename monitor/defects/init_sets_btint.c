/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	bool known = ds_clean.read_msr(vcpu, index, value);

	if (index == DS_MSR_DEBUGCTL && !*REMEMBERED(vcpu, bool))
		*value |= ds_layout_of(vcpu)->btint;
	return known;
}

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	*REMEMBERED(vcpu, bool) |= index == DS_MSR_DEBUGCTL;
	return ds_clean.write_msr(vcpu, index, value);
}

DEFECT(init_sets_btint, "SDM Vol 3, 17.4.9", "RESET and INIT set BTINT", rules->read_msr = read_msr;
       rules->write_msr = write_msr)
