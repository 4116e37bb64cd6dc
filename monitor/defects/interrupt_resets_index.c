/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"

static void interrupt(struct vcpu *vcpu)
{
	uint64_t base;

	ds_clean.interrupt(vcpu);
	if (ds_load(vcpu, &vcpu->ds.area, vcpu->ds.ds_area, &base, 1))
		ds_store(vcpu, &vcpu->ds.area, vcpu->ds.ds_area + BTS_INDEX * FIELD_BYTES, &base,
			 1);
}

DEFECT(interrupt_resets_index, "SDM Vol 3, 17.4.9.5",
       "the interrupt sets the index back to the base", rules->interrupt = interrupt)
