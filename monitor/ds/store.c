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
	if (rules->threshold(vcpu, field))
		rules->interrupt(vcpu);
}

/*
 * The same for most records, in a third of the time: with room for this one and another, and the
 * threshold further away, none of the rules has anything to say. False: nothing was done.
 */
static inline bool store_in_between(struct vcpu *vcpu, uint64_t from, uint64_t to)
{
	uint64_t index, maximum, threshold;
	uint8_t *area, *slot;

	ds_refresh(vcpu);
	area = ds_known(&vcpu->ds.area, vcpu->ds.ds_area, BTS_FIELDS * FIELD_BYTES);
	if (!area)
		return false;
	index = ds_get(area, BTS_INDEX);
	maximum = ds_get(area, BTS_MAXIMUM);
	threshold = ds_get(area, BTS_THRESHOLD);
	if (index >= maximum || maximum - index <= 2 * RECORD_BYTES || index >= threshold ||
	    threshold - index <= RECORD_BYTES)
		return false;
	slot = ds_known(&vcpu->ds.buffer, index, RECORD_BYTES);
	if (!slot)
		return false;
	ds_put(slot, 0, from);
	ds_put(slot, 1, to);
	ds_put(slot, 2, 0);
	ds_put(area, BTS_INDEX, index + RECORD_BYTES);
	return true;
}

void ds_choose_path(struct vcpu *vcpu)
{
	const struct ds_silicon *ds = &vcpu->silicon->ds;
	bool plain = ds->clean && !vcpu->ds.skid && ds->behaviour.predicted == DS_PREDICTED_CLEAR;

	vcpu->ds.fast_path[0] = plain && !(vcpu->debugctl & ds_layout_of(vcpu)->off_os);
	vcpu->ds.fast_path[1] = plain && !(vcpu->debugctl & ds_layout_of(vcpu)->off_usr);
}

static void take(struct vcpu *vcpu, const struct branch *branch)
{
	ds_skid(vcpu);
	if (ds_rules_of(vcpu)->filter(vcpu, branch))
		ds_rules_of(vcpu)->store(vcpu, branch);
}

static __attribute__((noinline)) void
take_instruction(struct vcpu *vcpu, uint64_t from, uint64_t to, unsigned from_cpl, unsigned to_cpl)
{
	take(vcpu,
	     &(struct branch){.from = from, .to = to, .from_cpl = from_cpl, .to_cpl = to_cpl});
}

void ds_branch(struct vcpu *vcpu, uint64_t from, uint64_t to, unsigned from_cpl, unsigned to_cpl)
{
	if (from_cpl == to_cpl && vcpu->ds.fast_path[to_cpl > 0] &&
	    store_in_between(vcpu, from, to))
		return;
	take_instruction(vcpu, from, to, from_cpl, to_cpl);
}

void ds_event(struct vcpu *vcpu, const struct branch *event)
{
	ds_rules_of(vcpu)->event(vcpu, event);
	if (ds_tracing(vcpu))
		take(vcpu, event);
}
