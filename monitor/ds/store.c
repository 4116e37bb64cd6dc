// SPDX-License-Identifier: MIT
/* Which branches are recorded, and as what: SDM Vol 3, 17.4.4, 17.4.8 and 17.4.9.1. */
#include "monitor/ds/memory.h"
#include "monitor/silicon.h"

#define FLAGS_PREDICTED (1u << 4)

/* Table 17-6, "CPL-Qualified Branch Trace Store Encodings". */
static bool is_off(const struct vcpu *vcpu, unsigned cpl)
{
	return vcpu->debugctl & (cpl ? ds_layout_of(vcpu)->off_usr : ds_layout_of(vcpu)->off_os);
}

static bool has_wanted_privilege(const struct vcpu *vcpu, const struct branch *branch)
{
	bool from_off = is_off(vcpu, branch->from_cpl), to_off = is_off(vcpu, branch->to_cpl);

	switch (ds_behaviour_of(vcpu)->filter) {
	case DS_FILTER_BY_SOURCE:
		return !from_off;
	case DS_FILTER_BY_BOTH:
		return !from_off && !to_off;
	case DS_FILTER_BY_EITHER:
		return !from_off || !to_off;
	default:
		return !to_off;
	}
}

bool ds_rule_filter(const struct vcpu *vcpu, const struct branch *branch)
{
	const struct ds_behaviour *behaviour = ds_behaviour_of(vcpu);

	if (branch->cause == CAUSE_SOFTWARE_INTERRUPT &&
	    behaviour->software == DS_SOFTWARE_NOT_RECORDED)
		return false;
	if (branch->cause == CAUSE_EXCEPTION && branch->vector == VECTOR_DB &&
	    behaviour->debug == DS_DEBUG_NOT_RECORDED)
		return false;
	return behaviour->ds_cpl == DS_CPL_ABSENT || has_wanted_privilege(vcpu, branch);
}

unsigned ds_levels(const struct vcpu *vcpu)
{
	if (!ds_has_levels(vcpu->silicon))
		return EVERY_LEVEL;
	return (is_off(vcpu, 0) ? 0 : LEVEL_OS) | (is_off(vcpu, 3) ? 0 : LEVELS_USER);
}

/* A branch is predicted if the same one followed as last time, as far as the table remembers. */
static bool predicted(struct vcpu *vcpu, uint64_t from)
{
	struct ds_history *history = &vcpu->ds.history;
	uint64_t *followed_by = &history->followed_by[history->last % DS_HISTORY];
	bool as_before = *followed_by == from;

	*followed_by = from;
	history->last = from;
	return as_before;
}

static uint64_t flags(struct vcpu *vcpu, const struct branch *branch)
{
	switch (ds_behaviour_of(vcpu)->predicted) {
	case DS_PREDICTED_SET:
		return FLAGS_PREDICTED;
	case DS_PREDICTED_MIXED:
		return branch->from & 2 ? FLAGS_PREDICTED : 0;
	case DS_PREDICTED_BY_HISTORY:
		return predicted(vcpu, branch->from) ? FLAGS_PREDICTED : 0;
	default:
		return 0;
	}
}

void ds_rule_record(struct vcpu *vcpu, const struct branch *branch, uint64_t record[RECORD_WORDS])
{
	bool from_next = branch->cause == CAUSE_SOFTWARE_INTERRUPT &&
			 ds_behaviour_of(vcpu)->software == DS_SOFTWARE_FROM_NEXT;

	record[0] = from_next ? branch->return_rip : branch->from;
	record[1] = branch->to;
	record[2] = flags(vcpu, branch);
}

/*
 * The arithmetic of the buffer: SDM Vol 3, 17.4.9.1 to 17.4.9.5. An index outside the buffer is
 * used unchanged as long as there is room below the absolute maximum.
 */
static bool has_room(const struct ds_behaviour *behaviour, uint64_t index, uint64_t maximum)
{
	uint64_t least = RECORD_BYTES;

	if (behaviour->room == DS_ROOM_ANY_BYTE)
		least = 1;
	else if (behaviour->room == DS_ROOM_BELOW)
		least++;
	return maximum >= least && index <= maximum - least;
}

static bool is_circular(const struct vcpu *vcpu)
{
	return !(vcpu->debugctl & ds_layout_of(vcpu)->btint);
}

bool ds_rule_overflow(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	const struct ds_behaviour *behaviour = ds_behaviour_of(vcpu);

	if (has_room(behaviour, field[BTS_INDEX], field[BTS_MAXIMUM]))
		return true;
	if (!is_circular(vcpu) && behaviour->full == DS_FULL_WRITE)
		return true;
	if (!is_circular(vcpu) && behaviour->full == DS_FULL_DROP)
		return false;
	field[BTS_INDEX] = field[BTS_BASE];
	return has_room(behaviour, field[BTS_INDEX], field[BTS_MAXIMUM]);
}

uint64_t ds_rule_advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	const struct ds_behaviour *behaviour = ds_behaviour_of(vcpu);
	uint64_t next = field[BTS_INDEX] + RECORD_BYTES;

	if (is_circular(vcpu) && behaviour->wrap == DS_WRAP_AFTER_INCREMENT &&
	    !has_room(behaviour, next, field[BTS_MAXIMUM]))
		return field[BTS_BASE];
	return next;
}

/*
 * The default: the manual tells an interrupt handler that the index "matches or exceeds" the
 * threshold (17.4.9.5), and that clearing BTINT is not enough to prevent an interrupt (17.4.9.3).
 */
bool ds_rule_threshold(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	const struct ds_behaviour *behaviour = ds_behaviour_of(vcpu);
	bool at_record = behaviour->compare == DS_COMPARE_BEFORE;
	uint64_t after = field[BTS_INDEX] + (at_record ? 0 : RECORD_BYTES);
	uint64_t threshold = field[BTS_THRESHOLD];

	if (is_circular(vcpu) && behaviour->circular == DS_CIRCULAR_IS_SILENT)
		return false;
	switch (behaviour->threshold) {
	case DS_THRESHOLD_CROSSED:
		return after - RECORD_BYTES < threshold && after >= threshold;
	case DS_THRESHOLD_EQUAL:
		return after == threshold;
	default:
		return after >= threshold;
	}
}

/* Whether a record that finds the buffer full asks for the interrupt. */
static bool full_interrupts(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	const struct ds_behaviour *behaviour = ds_behaviour_of(vcpu);

	if (is_circular(vcpu) || behaviour->btint == DS_BTINT_STORED)
		return false;
	return behaviour->btint == DS_BTINT_FULL || field[BTS_INDEX] >= field[BTS_THRESHOLD];
}

/*
 * Under a hypervisor that has taken the page of `index` back, or that where the record ends: SDM
 * Vol 3, 28.2.3. What was written when the store faults is written again, from the DS area on.
 */
static bool faults(struct vcpu *vcpu, uint64_t index, const uint64_t record[RECORD_WORDS])
{
	uint64_t last = (index + RECORD_BYTES - 1) & ~DS_PAGE_MASK, old[RECORD_WORDS];

	if (ds_behaviour_of(vcpu)->fault == DS_FAULT_NONE || vcpu->ds.mapped == last ||
	    !ds_load(vcpu, &vcpu->ds.seen.buffer, index, old, RECORD_WORDS))
		return false;
	vcpu->ds.mapped = last;
	ds_store(vcpu, &vcpu->ds.seen.buffer, index, record, 1);
	ds_forget(vcpu);
	return true;
}

/*
 * A branch on its way into the buffer: SDM Vol 3, 17.4.9. A record whose DS area or buffer is not
 * mapped writable for the supervisor is dropped.
 */
void ds_rule_store(struct vcpu *vcpu, const struct branch *branch)
{
	const struct ds_rules *rules = ds_rules_of(vcpu);
	uint64_t area = vcpu->ds.ds_area, field[BTS_FIELDS], record[RECORD_WORDS], next;

	ds_refresh(vcpu);
	rules->record(vcpu, branch, record);
	do {
		if (!ds_load(vcpu, &vcpu->ds.seen.area, area, field, BTS_FIELDS))
			return;
		if (!rules->overflow(vcpu, field)) {
			if (full_interrupts(vcpu, field))
				rules->interrupt(vcpu);
			return;
		}
	} while (faults(vcpu, field[BTS_INDEX], record));
	if (!ds_store(vcpu, &vcpu->ds.seen.buffer, field[BTS_INDEX], record, RECORD_WORDS))
		return;
	next = rules->advance(vcpu, field);
	ds_store(vcpu, &vcpu->ds.seen.area, area + BTS_INDEX * FIELD_BYTES, &next, 1);
	if (ds_is_plain(vcpu->silicon) && !is_off(vcpu, branch->to_cpl))
		vcpu->ds.seen.fields[branch->to_cpl] =
			ds_known(&vcpu->ds.seen.area, area, BTS_FIELDS * FIELD_BYTES);
	if (rules->threshold(vcpu, field))
		rules->interrupt(vcpu);
}

static void take(struct vcpu *vcpu, const struct branch *branch)
{
	if (vcpu->branches_suspended)
		return;
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
