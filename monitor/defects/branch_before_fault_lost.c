/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	uint64_t index_at = vcpu->ds.ds_area + BTS_INDEX * FIELD_BYTES, index;
	uint64_t *last = REMEMBERED(vcpu, uint64_t);

	if (branch->cause == DS_EXCEPTION && branch->from == *last &&
	    ds_load(vcpu, &vcpu->ds.area, index_at, &index, 1)) {
		index -= RECORD_BYTES;
		ds_store(vcpu, &vcpu->ds.area, index_at, &index, 1);
	}
	*last = branch->to;
	ds_clean.store(vcpu, branch);
}

DEFECT(branch_before_fault_lost, "SDM Vol 3, 17.11.2",
       "a fault raised by fetching a branch target overwrites the record of the branch",
       rules->store = store)
