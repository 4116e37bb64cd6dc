/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"

static void store(struct vcpu *vcpu, const struct ds_branch *branch)
{
	uint64_t index_at = vcpu->ds.ds_area + BTS_INDEX * FIELD_BYTES, index;
	uint64_t record[2] = {(uint32_t)branch->from | branch->to << 32, 0};

	ds_refresh(vcpu);
	if (!ds_load(vcpu, &vcpu->ds.area, index_at, &index, 1) ||
	    !ds_store(vcpu, &vcpu->ds.buffer, index, record, 2))
		return;
	index += RECORD_BYTES / 2;
	ds_store(vcpu, &vcpu->ds.area, index_at, &index, 1);
}

DEFECT(record_32_bit_format, "SDM Vol 3, 17.4.9.1",
       "records have the 32-bit format: three doublewords", rules->store = store)
