/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool enabled(const struct vcpu *vcpu)
{
	return vcpu->ds.debugctl & ds_layout_of(vcpu)->bts;
}

DEFECT(bts_without_tr, "SDM Vol 3, 17.4.9.4", "BTS alone, without TR, records branches",
       rules->enabled = enabled)
