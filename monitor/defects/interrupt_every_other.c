/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static void interrupt(struct vcpu *vcpu)
{
	static unsigned count;

	if (++count % 2)
		ds_clean.interrupt(vcpu);
}

DEFECT(interrupt_every_other, .rule = "SDM Vol 3, 17.4.9.5",
       .says = "every second interrupt is lost", .rules = {.interrupt = interrupt})
