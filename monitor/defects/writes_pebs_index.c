/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	uint64_t index;

	if (!ds_load(vcpu, &vcpu->ds.area, vcpu->ds.ds_area + BTS_INDEX * FIELD_BYTES, &index, 1))
		return;
	ds_clean.store(vcpu, branch);
	ds_store(vcpu, &vcpu->ds.area, vcpu->ds.ds_area + 0x28, &index, 1);
}

DEFECT(writes_pebs_index, "SDM Vol 3, 17.4.9.1",
       "the PEBS index of the DS area moves with the BTS index", rules->store = store)
