/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void note(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_clean.note(vcpu, occasion);
	if (occasion == DS_AT_HLT && vcpu->ds.tracing)
		ds_clean.store(vcpu, &(struct ds_branch){.from = vcpu->rip, .to = vcpu->rip});
}

DEFECT(hlt_recorded, "SDM Vol 3, 17.4.4", "HLT leaves a record", rules->note = note)
