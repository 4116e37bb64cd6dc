/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic of the buffer: SDM Vol 3, 17.4.9.1 to 17.4.9.5. An index outside the buffer is
 * used as it stands as long as there is room below the absolute maximum.
 */
#include "monitor/silicon.h"

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
 * The default: an interrupt handler is told that the index "matches or exceeds" the threshold
 * (17.4.9.5), and that clearing BTINT is not enough to prevent an interrupt (17.4.9.3).
 */
bool ds_rule_threshold(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	const struct ds_behaviour *behaviour = ds_behaviour_of(vcpu);
	bool at_record = behaviour->compare == DS_COMPARE_BEFORE;
	uint64_t before = field[BTS_INDEX] - (at_record ? RECORD_BYTES : 0);
	uint64_t after = before + RECORD_BYTES, threshold = field[BTS_THRESHOLD];

	if (is_circular(vcpu) && behaviour->circular == DS_CIRCULAR_IS_SILENT)
		return false;
	switch (behaviour->threshold) {
	case DS_THRESHOLD_CROSSED:
		return before < threshold && after >= threshold;
	case DS_THRESHOLD_EQUAL:
		return after == threshold;
	default:
		return after >= threshold;
	}
}
