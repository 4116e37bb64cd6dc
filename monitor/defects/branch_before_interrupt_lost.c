/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	uint64_t index_at = vcpu->ds.ds_area + BTS_INDEX * FIELD_BYTES, index;
	uint64_t *last = REMEMBERED(vcpu, uint64_t);

	if (branch->cause == DS_INTERRUPT && branch->from == *last &&
	    ds_load(vcpu, &vcpu->ds.area, index_at, &index, 1)) {
		index -= RECORD_BYTES;
		ds_store(vcpu, &vcpu->ds.area, index_at, &index, 1);
	}
	*last = branch->to;
	ds_clean.store(vcpu, branch);
}

DEFECT(branch_before_interrupt_lost, "SDM Vol 3, 17.4.4",
       "an interrupt right behind a taken branch overwrites its record", rules->store = store)
