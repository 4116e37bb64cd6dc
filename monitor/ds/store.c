/* SPDX-License-Identifier: MIT */
/*
 * A branch on its way into the buffer: SDM Vol 3, 17.4.9. A record whose DS area or buffer is not
 * mapped writable for the supervisor is dropped.
 */
#include "monitor/ds/memory.h"
#include "monitor/silicon.h"

void ds_rule_store(struct vcpu *vcpu, const struct branch *branch)
{
	const struct ds_rules *rules = ds_rules_of(vcpu);
	uint64_t area = vcpu->ds.ds_area, field[BTS_FIELDS], record[RECORD_WORDS], next;

	ds_refresh(vcpu);
	rules->record(vcpu, branch, record);
	if (!ds_load(vcpu, &vcpu->ds.area, area, field, BTS_FIELDS) ||
	    !rules->overflow(vcpu, field) ||
	    !ds_store(vcpu, &vcpu->ds.buffer, field[BTS_INDEX], record, RECORD_WORDS))
		return;
	next = rules->advance(vcpu, field);
	ds_store(vcpu, &vcpu->ds.area, area + BTS_INDEX * FIELD_BYTES, &next, 1);
	vcpu->ds.fields = ds_known(&vcpu->ds.area, area, BTS_FIELDS * FIELD_BYTES);
	if (rules->threshold(vcpu, field))
		rules->interrupt(vcpu);
}

void ds_choose_path(struct vcpu *vcpu)
{
	const struct ds_silicon *ds = &vcpu->silicon->ds;
	bool plain = ds->clean && !vcpu->ds.skid && ds->behaviour.predicted == DS_PREDICTED_CLEAR;

	vcpu->ds.fields = NULL;
	vcpu->ds.fast_path[0] = plain && !(vcpu->debugctl & ds_layout_of(vcpu)->off_os);
	for (unsigned cpl = 1; cpl <= 3; cpl++)
		vcpu->ds.fast_path[cpl] = plain && !(vcpu->debugctl & ds_layout_of(vcpu)->off_usr);
}

static void take(struct vcpu *vcpu, const struct branch *branch)
{
	ds_skid(vcpu);
	if (ds_rules_of(vcpu)->filter(vcpu, branch))
		ds_rules_of(vcpu)->store(vcpu, branch);
}

void ds_branch(struct vcpu *vcpu, uint64_t from, uint64_t to, unsigned from_cpl, unsigned to_cpl)
{
	take(vcpu,
	     &(struct branch){.from = from, .to = to, .from_cpl = from_cpl, .to_cpl = to_cpl});
}

void ds_event(struct vcpu *vcpu, const struct branch *event)
{
	ds_rules_of(vcpu)->event(vcpu, event);
	if (ds_tracing(vcpu))
		take(vcpu, event);
}
