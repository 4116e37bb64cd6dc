/* SPDX-License-Identifier: MIT */
/*
 * BTS as the SDM describes it (Vol 3, 17.4.4 to 17.4.9), for a processor with DTES64 and DS-CPL.
 * Where the manual is silent, struct ds_behaviour decides, and beyond it: a record whose DS area
 * or buffer is not mapped writable for the supervisor is dropped; an index outside the buffer is
 * used as it stands as long as there is room below the absolute maximum.
 */
#include "monitor/ds/behaviour.h"
#include "monitor/ds/ds.h"
#include "monitor/ds/memory.h"
#include "monitor/vcpu.h"

enum { MSR_DEBUGCTL = 0x1d9, MSR_DS_AREA = 0x600 };

/* IA32_DEBUGCTL: SDM Vol 3, 17.4.1, and table 35-2. */
enum {
	DEBUGCTL_TR = 1 << 6,
	DEBUGCTL_BTS = 1 << 7,
	DEBUGCTL_BTINT = 1 << 8,
	DEBUGCTL_BTS_OFF_OS = 1 << 9,
	DEBUGCTL_BTS_OFF_USR = 1 << 10,
	DEBUGCTL_WRITABLE = DS_DEBUGCTL_LBR | DS_DEBUGCTL_BTF | DEBUGCTL_TR | DEBUGCTL_BTS |
			    DEBUGCTL_BTINT | DEBUGCTL_BTS_OFF_OS | DEBUGCTL_BTS_OFF_USR,
};

/* DS buffer management area, 64-bit format: SDM Vol 3, 17.4.9.2. */
enum { BTS_BASE, BTS_INDEX, BTS_MAXIMUM, BTS_THRESHOLD, BTS_FIELDS };
enum { FIELD_BYTES = 8, RECORD_BYTES = 24 };

void ds_reset(struct vcpu *vcpu, const struct ds_behaviour *behaviour)
{
	vcpu->ds.debugctl = 0;
	vcpu->ds.ds_area = 0;
	vcpu->ds.behaviour = behaviour;
	ds_forget(vcpu);
}

bool ds_tracing(const struct vcpu *vcpu)
{
	return (~vcpu->ds.debugctl & (DEBUGCTL_TR | DEBUGCTL_BTS)) == 0;
}

/* SDM Vol 3, table 17-6 "CPL-Qualified Branch Trace Store Encodings". */
static bool filtered(const struct vcpu *vcpu, unsigned from_cpl, unsigned to_cpl)
{
	bool by_source = vcpu->ds.behaviour->filter == DS_FILTER_BY_SOURCE;
	unsigned cpl = by_source ? from_cpl : to_cpl;

	return vcpu->ds.debugctl & (cpl ? DEBUGCTL_BTS_OFF_USR : DEBUGCTL_BTS_OFF_OS);
}

static bool has_room(const struct ds_behaviour *behaviour, uint64_t index, uint64_t maximum)
{
	uint64_t least = behaviour->room == DS_ROOM_WHOLE_RECORD ? RECORD_BYTES : 1;

	return maximum >= least && index <= maximum - least;
}

/* False: this record is lost. */
static bool make_room(const struct vcpu *vcpu, uint64_t field[BTS_FIELDS])
{
	const struct ds_behaviour *behaviour = vcpu->ds.behaviour;
	bool circular = !(vcpu->ds.debugctl & DEBUGCTL_BTINT);

	if (has_room(behaviour, field[BTS_INDEX], field[BTS_MAXIMUM]))
		return true;
	if (!circular && behaviour->full == DS_FULL_WRITE)
		return true;
	if (!circular && behaviour->full == DS_FULL_DROP)
		return false;
	field[BTS_INDEX] = field[BTS_BASE];
	return has_room(behaviour, field[BTS_INDEX], field[BTS_MAXIMUM]);
}

static uint64_t advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	const struct ds_behaviour *behaviour = vcpu->ds.behaviour;
	bool circular = !(vcpu->ds.debugctl & DEBUGCTL_BTINT);
	uint64_t next = field[BTS_INDEX] + RECORD_BYTES;

	if (circular && behaviour->wrap == DS_WRAP_AFTER_INCREMENT &&
	    !has_room(behaviour, next, field[BTS_MAXIMUM]))
		return field[BTS_BASE];
	return next;
}

/* The record was stored at `index`. */
static bool wants_interrupt(const struct vcpu *vcpu, uint64_t index, uint64_t threshold)
{
	const struct ds_behaviour *behaviour = vcpu->ds.behaviour;
	uint64_t before = behaviour->compare_before_increment ? index - RECORD_BYTES : index;
	uint64_t after = before + RECORD_BYTES;

	if (!(vcpu->ds.debugctl & DEBUGCTL_BTINT) && !behaviour->interrupt_when_circular)
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

/* By the rules above. No predicted bit: Core microarchitecture and later do not report it
   (17.4.9.2). */
static void store(struct vcpu *vcpu, uint64_t from, uint64_t to)
{
	const uint64_t record[RECORD_BYTES / 8] = {from, to, 0};
	uint64_t area = vcpu->ds.ds_area, field[BTS_FIELDS], next;

	if (!ds_load(vcpu, &vcpu->ds.area, area, field, BTS_FIELDS) || !make_room(vcpu, field) ||
	    !ds_store(vcpu, &vcpu->ds.buffer, field[BTS_INDEX], record, RECORD_BYTES / 8))
		return;
	next = advance(vcpu, field);
	ds_store(vcpu, &vcpu->ds.area, area + BTS_INDEX * FIELD_BYTES, &next, 1);
	if (wants_interrupt(vcpu, field[BTS_INDEX], field[BTS_THRESHOLD]))
		platform_performance_interrupt(vcpu);
}

/*
 * The same for most records, in a third of the time: with room for this one and another, and the
 * threshold further away, none of the rules has anything to say. False: nothing was done.
 */
static inline bool store_in_between(struct vcpu *vcpu, uint64_t from, uint64_t to)
{
	uint8_t *area = ds_known(&vcpu->ds.area, vcpu->ds.ds_area, BTS_FIELDS * FIELD_BYTES);
	uint64_t index, maximum, threshold;
	uint8_t *slot;

	if (!area)
		return false;
	index = ds_get(area, BTS_INDEX);
	maximum = ds_get(area, BTS_MAXIMUM);
	threshold = ds_get(area, BTS_THRESHOLD);
	if (index >= maximum || maximum - index < 2 * RECORD_BYTES || index >= threshold ||
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

void ds_branch(struct vcpu *vcpu, uint64_t from, uint64_t to, unsigned from_cpl, unsigned to_cpl)
{
	if (!ds_tracing(vcpu) || filtered(vcpu, from_cpl, to_cpl))
		return;
	ds_refresh(vcpu);
	if (!store_in_between(vcpu, from, to))
		store(vcpu, from, to);
}

bool ds_read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	switch (index) {
	case MSR_DEBUGCTL:
		*value = vcpu->ds.debugctl;
		return true;
	case MSR_DS_AREA:
		*value = vcpu->ds.ds_area;
		return true;
	default:
		return false;
	}
}

/* For the 48-bit linear addresses of a processor without LA57. */
static bool is_canonical(uint64_t linear)
{
	return (uint64_t)((int64_t)(linear << 16) >> 16) == linear;
}

bool ds_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	switch (index) {
	case MSR_DEBUGCTL:
		if (value & ~(uint64_t)DEBUGCTL_WRITABLE)
			return false;
		vcpu->ds.debugctl = value;
		return true;
	case MSR_DS_AREA:
		if (!is_canonical(value))
			return false;
		vcpu->ds.ds_area = value;
		return true;
	default:
		return false;
	}
}
