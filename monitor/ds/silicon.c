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

void ds_make(struct silicon *silicon)
{
	silicon->ds.rules = ds_clean;
	silicon->ds.clean = true;
}

struct ds_rules *ds_break(struct ds_silicon *ds)
{
	ds->clean = false;
	return &ds->rules;
}

bool ds_is_plain(const struct silicon *silicon)
{
	const struct ds_behaviour *behaviour = &silicon->behaviour.ds;

	return silicon->ds.clean && behaviour->skid == DS_SKID_NONE &&
	       behaviour->predicted == DS_PREDICTED_CLEAR && behaviour->fault == DS_FAULT_NONE;
}

bool ds_has_levels(const struct silicon *silicon)
{
	const struct ds_behaviour *behaviour = &silicon->behaviour.ds;

	return silicon->ds.clean && behaviour->skid == DS_SKID_NONE &&
	       behaviour->ds_cpl != DS_CPL_ABSENT;
}

/* As many records of each processor as a kernel needs to find that there is a BTS. */
enum { BTS_FIRST = 1 };

static bool records_first(const struct vcpu *vcpu, const struct branch *branch)
{
	uint64_t *recorded = ((struct vcpu *)vcpu)->ds.remembered;

	if (!ds_clean.filter(vcpu, branch) || *recorded >= BTS_FIRST)
		return false;
	++*recorded;
	return true;
}

void ds_stop(struct silicon *silicon)
{
	ds_break(&silicon->ds)->filter = records_first;
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

bool ds_read_msr(struct vcpu *vcpu, uint32_t index, uint64_t *value)
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

struct delivery ds_deliver(struct vcpu *vcpu, uint32_t entry)
{
	return ds_rules_of(vcpu)->deliver(vcpu, entry);
}

void ds_cpuid(const struct vcpu *vcpu, uint32_t leaf, uint32_t subleaf, uint32_t value[4])
{
	struct ds_enumeration found;

	(void)subleaf;
	if (leaf != 1)
		return;
	found = ds_enumerate(vcpu);
	value[2] &= ~(uint32_t)(LEAF_1_ECX_DTES64 | LEAF_1_ECX_DS_CPL);
	value[2] |= found.dtes64 ? LEAF_1_ECX_DTES64 : 0;
	value[2] |= found.ds_cpl ? LEAF_1_ECX_DS_CPL : 0;
	value[3] &= ~(uint32_t)LEAF_1_EDX_DS;
	value[3] |= found.ds ? LEAF_1_EDX_DS : 0;
}

void ds_cr3(struct vcpu *vcpu)
{
	ds_note(vcpu, DS_AT_MOV_CR3);
}

void ds_exit(struct vcpu *vcpu)
{
	ds_note(vcpu, DS_AT_EXIT);
}
