/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static uint64_t area;

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	bool known = ds_clean.write_msr(vcpu, index, value);

	if (index == DS_MSR_AREA && known)
		area = value;
	return known;
}

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	vcpu->ds.ds_area = area;
	ds_clean.store(vcpu, branch);
}

DEFECT(area_of_all, "SDM Vol 3, 17.4.9", "IA32_DS_AREA is one for all processors",
       rules->write_msr = write_msr;
       rules->store = store)
