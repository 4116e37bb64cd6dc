/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void note(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_clean.note(vcpu, occasion);
	if (occasion == DS_AT_MOV_CR3)
		ds_set_debugctl(vcpu, vcpu->ds.debugctl & ~ds_layout_of(vcpu)->tr);
}

DEFECT(mov_cr3_clears_tr, "SDM Vol 3, 17.4.4", "MOV to CR3 clears TR", rules->note = note)
