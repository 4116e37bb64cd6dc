// SPDX-License-Identifier: MIT
#include "monitor/silicon.h"
#include "monitor/ds/memory.h"

const struct ds_rules ds_clean = {
	.enumerate = ds_rule_enumerate,
	.init = ds_rule_init,
	.read_msr = ds_rule_read_msr,
	.write_msr = ds_rule_write_msr,
	.enabled = ds_rule_enabled,
	.event = ds_rule_event,
	.note = ds_rule_note,
	.filter = ds_rule_filter,
	.store = ds_rule_store,
	.record = ds_rule_record,
	.overflow = ds_rule_overflow,
	.advance = ds_rule_advance,
	.threshold = ds_rule_threshold,
	.interrupt = ds_rule_interrupt,
	.deliver = ds_rule_deliver,
};

void ds_make(struct ds_silicon *ds, const struct ds_behaviour *behaviour)
{
	ds->behaviour = *behaviour;
	ds->rules = ds_clean;
	ds->clean = true;
}

struct ds_rules *ds_break(struct ds_silicon *ds)
{
	ds->clean = false;
	return &ds->rules;
}

void ds_reset(struct vcpu *vcpu)
{
	vcpu->ds = (struct ds_state){0};
	ds_forget(vcpu);
}

void ds_init(struct vcpu *vcpu)
{
	ds_rules_of(vcpu)->init(vcpu);
}

struct ds_enumeration ds_enumerate(const struct vcpu *vcpu)
{
	return ds_rules_of(vcpu)->enumerate(vcpu);
}

bool ds_read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	return ds_rules_of(vcpu)->read_msr(vcpu, index, value);
}

bool ds_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	return ds_rules_of(vcpu)->write_msr(vcpu, index, value);
}

void ds_note(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_rules_of(vcpu)->note(vcpu, occasion);
}

struct ds_delivery ds_deliver(struct vcpu *vcpu, uint32_t entry)
{
	return ds_rules_of(vcpu)->deliver(vcpu, entry);
}
