/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void note(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_clean.note(vcpu, occasion);
	if (occasion == DS_AT_HLT)
		ds_set_debugctl(vcpu, vcpu->ds.debugctl & ~(uint64_t)DEBUGCTL_TR);
}

DEFECT(hlt_clears_tr, .rule = "SDM Vol 3, 17.4.4", .says = "HLT clears TR", .rules = {.note = note})
