/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void note(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_clean.note(vcpu, occasion);
	if (occasion == DS_AT_MOV_CR3)
		vcpu->ds.ds_area = 0;
}

DEFECT(mov_cr3_clears_area, "SDM Vol 4, table 2-2, 600H", "MOV to CR3 clears IA32_DS_AREA",
       rules->note = note)
