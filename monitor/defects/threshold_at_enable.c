/* SPDX-License-Identifier: MIT */
#include "monitor/defects/defect.h"
#include "monitor/ds/memory.h"

static bool write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	bool was_on = vcpu->ds.tracing, done = ds_clean.write_msr(vcpu, index, value);
	uint64_t field[BTS_FIELDS];

	if (!was_on && vcpu->ds.tracing &&
	    ds_load(vcpu, &vcpu->ds.area, vcpu->ds.ds_area, field, BTS_FIELDS) &&
	    field[BTS_INDEX] >= field[BTS_THRESHOLD])
		platform_performance_interrupt(vcpu);
	return done;
}

DEFECT(threshold_at_enable, "SDM Vol 3, 17.4.9.1",
       "setting TR with the index at the threshold interrupts before any branch",
       rules->write_msr = write_msr)
