/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool threshold(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	return vcpu->ds.debugctl & DEBUGCTL_BTINT || ds_clean.threshold(vcpu, field);
}

DEFECT(threshold_every_record, .rule = "SDM Vol 3, 17.4.9.1",
       .says = "with BTINT = 1 every record interrupts", .rules = {.threshold = threshold})
