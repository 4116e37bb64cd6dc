/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	uint64_t at = vcpu->ds.ds_area + BTS_THRESHOLD * FIELD_BYTES, value;

	ds_clean.store(vcpu, branch);
	if (!ds_load(vcpu, &vcpu->ds.area, at, &value, 1))
		return;
	value &= ~63ull;
	ds_store(vcpu, &vcpu->ds.area, at, &value, 1);
}

DEFECT(threshold_rewritten, "SDM Vol 3, 17.4.9.1",
       "the threshold in the DS area is rounded down to a cache line", rules->store = store)
