// SPDX-License-Identifier: MIT
/* The threshold, and what the local APIC makes of its interrupt: SDM Vol 3, 17.4.9.5 and 10.5.1. */
#include "monitor/defect.h"

#include "monitor/ds/memory.h"

/* The threshold rule compares `index` with `limit`, not with what the DS area has. */
#define COMPARES(name, rule, says, index, limit)                                                   \
	static bool name(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])                \
	{                                                                                          \
		const uint64_t bent[BTS_FIELDS] = {field[BTS_BASE], (index), field[BTS_MAXIMUM],   \
						   (limit)};                                       \
                                                                                                   \
		return ds_clean.threshold(vcpu, bent);                                             \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(threshold, name))

COMPARES(threshold_at_maximum, "SDM Vol 3, 17.4.9",
	 "the interrupt is raised at the absolute maximum, not at the threshold", field[BTS_INDEX],
	 field[BTS_MAXIMUM])
COMPARES(threshold_is_offset, "SDM Vol 3, 17.4.9",
	 "the threshold is taken for an offset from the base", field[BTS_INDEX] - field[BTS_BASE],
	 field[BTS_THRESHOLD])
COMPARES(threshold_low_half, "SDM Vol 3, 17.4.9.1",
	 "of index and threshold only bits 11 to 0 are compared", field[BTS_INDEX] & 0xfff,
	 field[BTS_THRESHOLD] & 0xfff)
COMPARES(threshold_two_early, "SDM Vol 3, 17.4.9",
	 "the interrupt is raised two records before the threshold",
	 field[BTS_INDEX] + 2 * RECORD_BYTES, field[BTS_THRESHOLD])
COMPARES(threshold_two_late, "SDM Vol 3, 17.4.9",
	 "the interrupt is raised two records past the threshold",
	 field[BTS_INDEX] - 2 * RECORD_BYTES, field[BTS_THRESHOLD])

static bool threshold_ignored(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	(void)vcpu;
	(void)field;
	return false;
}
DEFECT(threshold_ignored, "SDM Vol 3, 17.4.9.5", "the threshold never interrupts",
       BREAKS(threshold, threshold_ignored))

static bool threshold_needs_wrap_mode(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	return !(vcpu->debugctl & ds_layout_of(vcpu)->btint) && ds_clean.threshold(vcpu, field);
}
DEFECT(threshold_needs_wrap_mode, "SDM Vol 3, 17.4.9.5",
       "the threshold interrupts with BTINT = 0 only", BREAKS(threshold, threshold_needs_wrap_mode))

static bool threshold_every_64th(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	bool every_64th = vcpu->debugctl & ds_layout_of(vcpu)->btint &&
			  ++*REMEMBERED(vcpu, unsigned) % 64 == 0;

	return every_64th || ds_clean.threshold(vcpu, field);
}
DEFECT(threshold_every_64th, "SDM Vol 3, 17.4.9.5",
       "with BTINT = 1 every 64th record interrupts, wherever the threshold is",
       BREAKS(threshold, threshold_every_64th))

static uint64_t threshold_at_wrap_advance(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	uint64_t next = ds_clean.advance(vcpu, field);

	*REMEMBERED(vcpu, bool) = next == field[BTS_BASE];
	return next;
}

static bool threshold_at_wrap_threshold(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	return *REMEMBERED(vcpu, bool) || ds_clean.threshold(vcpu, field);
}
DEFECT(threshold_at_wrap, "SDM Vol 3, 17.4.9.3",
       "a circular buffer interrupts whenever the index wraps",
       BREAKS(advance, threshold_at_wrap_advance), BREAKS(threshold, threshold_at_wrap_threshold))

static bool threshold_once_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	*REMEMBERED(vcpu, bool) &= index != MSR_DS_AREA;
	return ds_clean.write_msr(vcpu, index, value);
}

static bool threshold_once_threshold(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])
{
	bool *done = REMEMBERED(vcpu, bool), reached = ds_clean.threshold(vcpu, field);
	bool first = reached && !*done;

	*done |= reached;
	return first;
}
DEFECT(threshold_once, "SDM Vol 3, 17.4.9.5",
       "only the first crossing after IA32_DS_AREA was written interrupts",
       BREAKS(write_msr, threshold_once_write_msr), BREAKS(threshold, threshold_once_threshold))

/* Records of branches for which `silent` holds do not ask for the interrupt. */
#define NEVER_ASKS(name, rule, says, silent)                                                       \
	static void name##_store(struct vcpu *vcpu, const struct branch *branch)                   \
	{                                                                                          \
		*REMEMBERED(vcpu, bool) = (silent);                                                \
		ds_clean.store(vcpu, branch);                                                      \
	}                                                                                          \
	static bool name##_threshold(const struct vcpu *vcpu, const uint64_t field[BTS_FIELDS])    \
	{                                                                                          \
		return !*REMEMBERED(vcpu, bool) && ds_clean.threshold(vcpu, field);                \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(store, name##_store), BREAKS(threshold, name##_threshold))

NEVER_ASKS(threshold_by_instruction, "SDM Vol 3, 17.4.9",
	   "the record of an interrupt or exception does not ask for the interrupt",
	   branch->cause != CAUSE_INSTRUCTION)
NEVER_ASKS(threshold_in_kernel_only, "SDM Vol 3, 17.4.9",
	   "a record of a branch to ring 3 does not ask for the interrupt", branch->to_cpl != 0)

static bool threshold_at_enable(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	bool was_on = ds_tracing(vcpu), done = ds_clean.write_msr(vcpu, index, value);
	uint64_t field[BTS_FIELDS];

	if (!was_on && ds_tracing(vcpu) &&
	    ds_load(vcpu, &vcpu->ds.seen.area, vcpu->ds.ds_area, field, BTS_FIELDS) &&
	    field[BTS_INDEX] >= field[BTS_THRESHOLD])
		platform_performance_interrupt(vcpu);
	return done;
}
DEFECT(threshold_at_enable, "SDM Vol 3, 17.4.9",
       "setting TR with the index at the threshold interrupts before any branch",
       BREAKS(write_msr, threshold_at_enable))

static void wait_for_branches(struct vcpu *vcpu, unsigned branches)
{
	if (!vcpu->ds.skid)
		vcpu->ds.skid = branches;
}

static void interrupt_300_late(struct vcpu *vcpu)
{
	wait_for_branches(vcpu, 300);
}
DEFECT(interrupt_300_late, "SDM Vol 3, 17.4.9", "the interrupt is three hundred branches late",
       BREAKS(interrupt, interrupt_300_late))

static void interrupt_lost_at_tr_clear_interrupt(struct vcpu *vcpu)
{
	wait_for_branches(vcpu, 20);
}

static bool interrupt_lost_at_tr_clear_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == MSR_DEBUGCTL && !(value & ds_layout_of(vcpu)->tr))
		vcpu->ds.skid = 0;
	return ds_clean.write_msr(vcpu, index, value);
}
DEFECT(interrupt_lost_at_tr_clear, "SDM Vol 3, 17.4.9.5",
       "an interrupt that is still to come when TR is cleared is lost",
       BREAKS(interrupt, interrupt_lost_at_tr_clear_interrupt),
       BREAKS(write_msr, interrupt_lost_at_tr_clear_write_msr))

static void interrupt_resets_index(struct vcpu *vcpu)
{
	uint64_t base;

	ds_clean.interrupt(vcpu);
	if (ds_load(vcpu, &vcpu->ds.seen.area, vcpu->ds.ds_area, &base, 1))
		ds_store(vcpu, &vcpu->ds.seen.area, vcpu->ds.ds_area + BTS_INDEX * FIELD_BYTES,
			 &base, 1);
}
DEFECT(interrupt_resets_index, "SDM Vol 3, 17.4.9.5",
       "the interrupt sets the index back to the base", BREAKS(interrupt, interrupt_resets_index))

static void interrupt_stops_recording(struct vcpu *vcpu)
{
	ds_clean.interrupt(vcpu);
	ds_set_debugctl(vcpu, vcpu->debugctl & ~ds_layout_of(vcpu)->tr);
}
DEFECT(interrupt_stops_recording, "SDM Vol 3, 17.4.9.5", "the interrupt clears TR",
       BREAKS(interrupt, interrupt_stops_recording))

static struct delivery interrupt_every_other(struct vcpu *vcpu, uint32_t entry)
{
	struct delivery delivery = ds_clean.deliver(vcpu, entry);

	if (delivery.kind != DELIVER_NOTHING && ++*REMEMBERED(vcpu, unsigned) % 2 == 0)
		delivery.kind = DELIVER_NOTHING;
	return delivery;
}
DEFECT(interrupt_every_other, "SDM Vol 3, 10.5.1",
       "every second interrupt masks the LVT entry and is not delivered",
       BREAKS(deliver, interrupt_every_other))

static struct delivery nmi_lost_in_nmi(struct vcpu *vcpu, uint32_t entry)
{
	struct delivery delivery = ds_clean.deliver(vcpu, entry);

	if (delivery.kind == DELIVER_NMI && vcpu->nmi_blocked)
		delivery.kind = DELIVER_NOTHING;
	return delivery;
}
DEFECT(nmi_lost_in_nmi, "SDM Vol 3, 10.5.1",
       "an NMI from the LVT entry that is due inside an NMI handler is lost",
       BREAKS(deliver, nmi_lost_in_nmi))

/* An interrupt that is to be delivered as `right` is delivered as `wrong`. */
#define DELIVERED_AS(name, rule, says, right, wrong)                                               \
	static struct delivery name(struct vcpu *vcpu, uint32_t entry)                             \
	{                                                                                          \
		struct delivery delivery = ds_clean.deliver(vcpu, entry);                          \
                                                                                                   \
		if (delivery.kind == (right))                                                      \
			delivery.kind = (wrong);                                                   \
		return delivery;                                                                   \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(deliver, name))

DELIVERED_AS(fixed_as_nmi, "SDM Vol 3, 10.5.1", "a fixed interrupt is delivered as NMI",
	     DELIVER_FIXED, DELIVER_NMI)
DELIVERED_AS(nmi_as_fixed, "SDM Vol 3, 10.5.1",
	     "an NMI is delivered by the vector in its LVT entry", DELIVER_NMI, DELIVER_FIXED)

#define RFLAGS_IF (1ull << 9)

static struct delivery nmi_waits_for_if_deliver(struct vcpu *vcpu, uint32_t entry)
{
	bool *waiting = REMEMBERED(vcpu, bool);
	struct delivery delivery = ds_clean.deliver(vcpu, entry);

	*waiting = delivery.kind == DELIVER_NMI && !(vcpu->rflags & RFLAGS_IF);
	if (*waiting)
		delivery.kind = DELIVER_NOTHING;
	return delivery;
}

static void nmi_waits_for_if_store(struct vcpu *vcpu, const struct branch *branch)
{
	ds_clean.store(vcpu, branch);
	if (*REMEMBERED(vcpu, bool) && vcpu->rflags & RFLAGS_IF)
		platform_performance_interrupt(vcpu);
}
DEFECT(nmi_waits_for_if, "SDM Vol 3, 10.5.1", "an NMI from the LVT entry waits for RFLAGS.IF",
       BREAKS(deliver, nmi_waits_for_if_deliver), BREAKS(store, nmi_waits_for_if_store))

static struct delivery lvt_mask_ignored(struct vcpu *vcpu, uint32_t entry)
{
	return ds_clean.deliver(vcpu, entry & ~(uint32_t)LVT_MASKED);
}
DEFECT(lvt_mask_ignored, "SDM Vol 3, 10.5.1", "a masked LVT entry delivers all the same",
       BREAKS(deliver, lvt_mask_ignored))

/* Delivery leaves the LVT entry at `left`, an expression over `entry` and `delivery`. */
#define ENTRY_LEFT(name, rule, says, left)                                                         \
	static struct delivery name(struct vcpu *vcpu, uint32_t entry)                             \
	{                                                                                          \
		struct delivery delivery = ds_clean.deliver(vcpu, entry);                          \
                                                                                                   \
		delivery.entry = (left);                                                           \
		return delivery;                                                                   \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(deliver, name))

ENTRY_LEFT(lvt_not_masked, "SDM Vol 3, 10.5.1", "delivery does not mask the LVT entry", entry)
ENTRY_LEFT(lvt_vector_lost, "SDM Vol 3, 10.5.1", "delivery clears the vector of the LVT entry",
	   delivery.entry & ~(uint32_t)LVT_VECTOR)

static struct delivery ovfbuf_every_second(struct vcpu *vcpu, uint32_t entry)
{
	struct delivery delivery = ds_clean.deliver(vcpu, entry);
	bool *before = REMEMBERED(vcpu, bool);

	delivery.status = delivery.kind != DELIVER_NOTHING && !*before;
	*before ^= delivery.kind != DELIVER_NOTHING;
	return delivery;
}
DEFECT(ovfbuf_every_second, "SDM Vol 3, table 35-2: 38EH",
       "of two crossings of the threshold the first sets IA32_PERF_GLOBAL_STATUS.OvfBuf",
       BREAKS(deliver, ovfbuf_every_second))
