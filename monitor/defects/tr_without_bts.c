/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"

static bool enabled(const struct vcpu *vcpu)
{
	return vcpu->ds.debugctl & ds_layout_of(vcpu)->tr;
}

DEFECT(tr_without_bts, "SDM Vol 3, 17.4.9.4", "TR alone, without BTS, records branches",
       rules->enabled = enabled)
