/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"

struct change {
	uint64_t old;
	bool fresh;
};

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == DS_MSR_AREA)
		*REMEMBERED(vcpu, struct change) = (struct change){vcpu->ds.ds_area, true};
	return ds_clean.write_msr(vcpu, index, value);
}

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	struct change *change = REMEMBERED(vcpu, struct change);
	uint64_t area = vcpu->ds.ds_area;

	if (change->fresh)
		vcpu->ds.ds_area = change->old;
	change->fresh = false;
	ds_clean.store(vcpu, branch);
	vcpu->ds.ds_area = area;
}

DEFECT(area_change_one_late, "SDM Vol 3, 17.4.9.1",
       "the first record after a write of IA32_DS_AREA goes to the old one",
       rules->write_msr = write_msr, rules->store = store)
