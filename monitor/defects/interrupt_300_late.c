/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void interrupt(struct vcpu *vcpu)
{
	if (!vcpu->ds.skid)
		vcpu->ds.skid = 300;
}

DEFECT(interrupt_300_late, "SDM Vol 3, 17.4.9.1", "the interrupt comes three hundred branches late",
       rules->interrupt = interrupt)
