/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	const uint64_t zero = 0;
	uint64_t field[2];

	if (ds_load(vcpu, &vcpu->ds.area, vcpu->ds.ds_area, field, 2) &&
	    field[BTS_INDEX] == field[BTS_BASE])
		ds_store(vcpu, &vcpu->ds.buffer, field[BTS_BASE] - FIELD_BYTES, &zero, 1);
	ds_clean.store(vcpu, branch);
}

DEFECT(writes_before_base, "SDM Vol 3, 17.4.9.1",
       "a record in the first slot clears the quadword before the base", rules->store = store)
