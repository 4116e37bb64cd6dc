// SPDX-License-Identifier: MIT
/* IA32_DEBUGCTL and IA32_DS_AREA: SDM Vol 3, 17.4.1 and 17.4.9; table 35-2. */
#include "monitor/defect.h"

#include "monitor/ds/memory.h"

/* IA32_DS_AREA takes `kept` in place of `value`. */
#define AREA_TAKES(name, rule, says, kept)                                                         \
	static bool name(struct vcpu *vcpu, uint32_t index, uint64_t value)                        \
	{                                                                                          \
		return ds_clean.write_msr(vcpu, index, index == MSR_DS_AREA ? (kept) : value);     \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(write_msr, name))

AREA_TAKES(area_32_bits, "SDM Vol 3, 17.4.5", "IA32_DS_AREA keeps bits 31 to 0 only",
	   (uint32_t)value)
AREA_TAKES(area_made_canonical, "SDM Vol 3, table 35-2: 600H",
	   "IA32_DS_AREA extends bit 47 instead of raising #GP",
	   (uint64_t)((int64_t)(value << 16) >> 16))

/* IA32_DS_AREA takes a `value` for which `accepted` holds, canonical or not. */
#define AREA_ACCEPTS(name, rule, says, accepted)                                                   \
	static bool name(struct vcpu *vcpu, uint32_t index, uint64_t value)                        \
	{                                                                                          \
		if (index != MSR_DS_AREA || !(accepted))                                           \
			return ds_clean.write_msr(vcpu, index, value);                             \
		vcpu->ds.ds_area = value;                                                          \
		return true;                                                                       \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(write_msr, name))

AREA_ACCEPTS(area_not_checked, "SDM Vol 3, table 35-2: 600H",
	     "IA32_DS_AREA takes addresses that are not canonical", true)
AREA_ACCEPTS(area_half_canonical, "SDM Vol 3, table 35-2: 600H",
	     "of an address for IA32_DS_AREA only bits 63 and 47 are compared",
	     value >> 63 == (value >> 47 & 1))

static bool area_fault_clears(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	bool done = ds_clean.write_msr(vcpu, index, value);

	if (!done && index == MSR_DS_AREA)
		vcpu->ds.ds_area = 0;
	return done;
}
DEFECT(area_fault_clears, "SDM Vol 3, table 35-2: 600H",
       "a write of IA32_DS_AREA that raises #GP clears it", BREAKS(write_msr, area_fault_clears))

struct area_change {
	uint64_t old;
	bool fresh;
};

static bool area_change_one_late_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	if (index == MSR_DS_AREA)
		*REMEMBERED(vcpu, struct area_change) =
			(struct area_change){vcpu->ds.ds_area, true};
	return ds_clean.write_msr(vcpu, index, value);
}

static void area_change_one_late_store(struct vcpu *vcpu, const struct branch *branch)
{
	struct area_change *change = REMEMBERED(vcpu, struct area_change);
	uint64_t area = vcpu->ds.ds_area;

	if (change->fresh)
		vcpu->ds.ds_area = change->old;
	change->fresh = false;
	ds_clean.store(vcpu, branch);
	vcpu->ds.ds_area = area;
}
DEFECT(area_change_one_late, "SDM Vol 3, 17.4.9.1",
       "the first record after a write of IA32_DS_AREA goes to the old one",
       BREAKS(write_msr, area_change_one_late_write_msr), BREAKS(store, area_change_one_late_store))

static uint64_t last_area_of_all;

static bool area_of_all_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	bool done = ds_clean.write_msr(vcpu, index, value);

	if (index == MSR_DS_AREA && done)
		last_area_of_all = value;
	return done;
}

static void area_of_all_store(struct vcpu *vcpu, const struct branch *branch)
{
	vcpu->ds.ds_area = last_area_of_all;
	ds_clean.store(vcpu, branch);
}
DEFECT(area_of_all, "SDM Vol 3, 17.4.9.5", "IA32_DS_AREA is one for all processors",
       BREAKS(write_msr, area_of_all_write_msr), BREAKS(store, area_of_all_store))

/* IA32_DEBUGCTL takes `kept` in place of `value`; `layout` has its flags. */
#define DEBUGCTL_TAKES(name, rule, says, kept)                                                     \
	static bool name(struct vcpu *vcpu, uint32_t index, uint64_t value)                        \
	{                                                                                          \
		const struct ds_layout *layout = ds_layout_of(vcpu);                               \
                                                                                                   \
		return ds_clean.write_msr(vcpu, index, index == MSR_DEBUGCTL ? (kept) : value);    \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(write_msr, name))

DEBUGCTL_TAKES(btint_does_not_hold, "SDM Vol 3, table 35-2: 1D9H",
	       "BTINT set without TR reads back 0",
	       value & layout->tr ? value : value & ~layout->btint)
DEBUGCTL_TAKES(bts_sets_btint, "SDM Vol 3, table 35-2: 1D9H",
	       "setting BTS without TR sets BTINT too",
	       (value & (layout->bts | layout->tr)) == layout->bts ? value | layout->btint : value)
DEBUGCTL_TAKES(debugctl_reserved_sets_btint, "SDM Vol 3, table 35-2: 1D9H",
	       "writing bit 16 of IA32_DEBUGCTL, reserved, sets BTINT",
	       value & 1u << 16 ? value ^ (1u << 16 | layout->btint) : value)
DEBUGCTL_TAKES(off_os_does_not_hold, "SDM Vol 3, table 35-2: 1D9H", "BTS_OFF_OS reads back 0",
	       value & ~layout->off_os)
DEBUGCTL_TAKES(off_usr_sets_off_os, "SDM Vol 3, table 35-2: 1D9H",
	       "setting BTS_OFF_USR sets BTS_OFF_OS too",
	       value & layout->off_usr ? value | layout->off_os : value)

static bool debugctl_clears_area(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	bool was_on = vcpu->debugctl & ds_layout_of(vcpu)->tr,
	     done = ds_clean.write_msr(vcpu, index, value);

	if (was_on && !(vcpu->debugctl & ds_layout_of(vcpu)->tr))
		vcpu->ds.ds_area = 0;
	return done;
}
DEFECT(debugctl_clears_area, "SDM Vol 3, table 35-2: 600H", "clearing TR clears IA32_DS_AREA",
       BREAKS(write_msr, debugctl_clears_area))

static bool debugctl_fault_clears(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	bool done = ds_clean.write_msr(vcpu, index, value);

	if (!done && index == MSR_DEBUGCTL)
		ds_set_debugctl(vcpu, 0);
	return done;
}
DEFECT(debugctl_fault_clears, "SDM Vol 3, table 35-2: 1D9H",
       "a write of IA32_DEBUGCTL that raises #GP clears it",
       BREAKS(write_msr, debugctl_fault_clears))

static void init_keeps_controls(struct vcpu *vcpu)
{
	uint64_t debugctl = vcpu->debugctl, area = vcpu->ds.ds_area;

	ds_clean.init(vcpu);
	vcpu->ds.ds_area = area;
	ds_set_debugctl(vcpu, debugctl);
}
DEFECT(init_keeps_controls, "SDM Vol 3, 17.4.9",
       "INIT leaves IA32_DEBUGCTL and IA32_DS_AREA as they are, and recording goes on",
       BREAKS(init, init_keeps_controls))

static void init_keeps_filters(struct vcpu *vcpu)
{
	const struct ds_layout *layout = ds_layout_of(vcpu);
	uint64_t kept = vcpu->debugctl & (layout->btint | layout->off_os | layout->off_usr);

	ds_clean.init(vcpu);
	ds_set_debugctl(vcpu, kept);
}
DEFECT(init_keeps_filters, "SDM Vol 3, 17.4.9",
       "INIT clears TR and BTS, and leaves BTINT, BTS_OFF_OS and BTS_OFF_USR",
       BREAKS(init, init_keeps_filters))

static void init_cuts_area(struct vcpu *vcpu)
{
	uint64_t area = vcpu->ds.ds_area;

	ds_clean.init(vcpu);
	vcpu->ds.ds_area = area & ~0xffffffffull;
}
DEFECT(init_cuts_area, "SDM Vol 3, 17.4.9", "INIT clears bits 31 to 0 of IA32_DS_AREA only",
       BREAKS(init, init_cuts_area))

static bool init_sets_btint_read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	bool known = ds_clean.read_msr(vcpu, index, value);

	if (index == MSR_DEBUGCTL && !*REMEMBERED(vcpu, bool))
		*value |= ds_layout_of(vcpu)->btint;
	return known;
}

static bool init_sets_btint_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	*REMEMBERED(vcpu, bool) |= index == MSR_DEBUGCTL;
	return ds_clean.write_msr(vcpu, index, value);
}
DEFECT(init_sets_btint, "SDM Vol 3, 17.4.9", "RESET and INIT set BTINT",
       BREAKS(read_msr, init_sets_btint_read_msr), BREAKS(write_msr, init_sets_btint_write_msr))

static bool tr_reads_clear(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	if (!ds_clean.read_msr(vcpu, index, value))
		return false;
	if (index == MSR_DEBUGCTL)
		*value &= ~ds_layout_of(vcpu)->tr;
	return true;
}
DEFECT(tr_reads_clear, "SDM Vol 3, 17.4.5", "TR reads back 0 while it is set",
       BREAKS(read_msr, tr_reads_clear))

/* Branches are recorded while `flag` of IA32_DEBUGCTL is set. */
#define ENABLED_BY(name, rule, says, flag)                                                         \
	static bool name(const struct vcpu *vcpu)                                                  \
	{                                                                                          \
		return vcpu->debugctl & ds_layout_of(vcpu)->flag;                                  \
	}                                                                                          \
	DEFECT(name, rule, says, BREAKS(enabled, name))

ENABLED_BY(bts_without_tr, "SDM Vol 3, 17.4.9.4", "BTS alone, without TR, records branches", bts)
ENABLED_BY(tr_without_bts, "SDM Vol 3, 17.4.9.4", "TR alone, without BTS, records branches", tr)

static bool tr_off_one_late_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	bool was_on = ds_tracing(vcpu);

	*REMEMBERED(vcpu, bool) =
		index == MSR_DEBUGCTL && was_on && !(value & ds_layout_of(vcpu)->tr);
	return ds_clean.write_msr(vcpu, index, value);
}

static bool tr_off_one_late_enabled(const struct vcpu *vcpu)
{
	return *REMEMBERED(vcpu, bool) || ds_clean.enabled(vcpu);
}

static void tr_off_one_late_store(struct vcpu *vcpu, const struct branch *branch)
{
	ds_clean.store(vcpu, branch);
	*REMEMBERED(vcpu, bool) = false;
	ds_set_tracing(vcpu, ds_clean.enabled(vcpu));
}
DEFECT(tr_off_one_late, "SDM Vol 3, 17.4.4", "one more branch is recorded after TR was cleared",
       BREAKS(write_msr, tr_off_one_late_write_msr), BREAKS(enabled, tr_off_one_late_enabled),
       BREAKS(store, tr_off_one_late_store))

static bool tr_on_one_late_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	bool was_on = ds_tracing(vcpu), done = ds_clean.write_msr(vcpu, index, value);

	*REMEMBERED(vcpu, bool) |= ds_tracing(vcpu) && !was_on;
	return done;
}

static void tr_on_one_late_store(struct vcpu *vcpu, const struct branch *branch)
{
	bool *fresh = REMEMBERED(vcpu, bool);

	if (!*fresh)
		ds_clean.store(vcpu, branch);
	*fresh = false;
}
DEFECT(tr_on_one_late, "SDM Vol 3, 17.4.4", "the first branch after TR was set is not recorded",
       BREAKS(write_msr, tr_on_one_late_write_msr), BREAKS(store, tr_on_one_late_store))

/* Remembers the IA32_DEBUGCTL with which TR was set last. */
static bool keep_at_enable(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	uint64_t tr = ds_layout_of(vcpu)->tr;

	if (index == MSR_DEBUGCTL && value & tr && !(vcpu->debugctl & tr))
		*REMEMBERED(vcpu, uint64_t) = value;
	return ds_clean.write_msr(vcpu, index, value);
}

/* IA32_DEBUGCTL with `flags` as they were then; returns what it holds. */
static uint64_t take_up_kept(struct vcpu *vcpu, uint64_t flags)
{
	uint64_t debugctl = vcpu->debugctl;

	vcpu->debugctl = (debugctl & ~flags) | (*REMEMBERED(vcpu, uint64_t) & flags);
	return debugctl;
}

static void btint_at_enable(struct vcpu *vcpu, const struct branch *branch)
{
	uint64_t debugctl = take_up_kept(vcpu, ds_layout_of(vcpu)->btint);

	ds_clean.store(vcpu, branch);
	vcpu->debugctl = debugctl;
}
DEFECT(btint_at_enable, "SDM Vol 3, 17.4.9.4",
       "BTINT is what it was when TR was set: a change while TR stays set has no effect",
       BREAKS(write_msr, keep_at_enable), BREAKS(store, btint_at_enable))

static bool off_bits_at_enable(const struct vcpu *vcpu, const struct branch *branch)
{
	struct vcpu *changed = (struct vcpu *)vcpu;
	uint64_t debugctl =
		take_up_kept(changed, ds_layout_of(vcpu)->off_os | ds_layout_of(vcpu)->off_usr);
	bool wanted = ds_clean.filter(vcpu, branch);

	changed->debugctl = debugctl;
	return wanted;
}
DEFECT(off_bits_at_enable, "SDM Vol 3, 17.4.9.4",
       "BTS_OFF_OS and BTS_OFF_USR are what they were when TR was set",
       BREAKS(write_msr, keep_at_enable), BREAKS(filter, off_bits_at_enable))

static bool off_bits_at_transition(const struct vcpu *vcpu, const struct branch *branch)
{
	bool wanted = off_bits_at_enable(vcpu, branch);

	if (branch->from_cpl != branch->to_cpl)
		*REMEMBERED(vcpu, uint64_t) = vcpu->debugctl;
	return wanted;
}
DEFECT(off_bits_at_transition, "SDM Vol 3, 17.4.9.4",
       "a change of BTS_OFF_OS or BTS_OFF_USR counts from the next change of privilege on",
       BREAKS(write_msr, keep_at_enable), BREAKS(filter, off_bits_at_transition))

static bool bts_was_set(const struct vcpu *vcpu)
{
	return *REMEMBERED(vcpu, uint64_t) & ds_layout_of(vcpu)->bts;
}

static bool bts_set_ignored(const struct vcpu *vcpu)
{
	return bts_was_set(vcpu) && ds_clean.enabled(vcpu);
}
DEFECT(bts_set_ignored, "SDM Vol 3, 17.4.9.4", "BTS set while TR is set already has no effect",
       BREAKS(write_msr, keep_at_enable), BREAKS(enabled, bts_set_ignored))

static bool bts_clear_ignored(const struct vcpu *vcpu)
{
	return ds_clean.enabled(vcpu) ||
	       (bts_was_set(vcpu) && vcpu->debugctl & ds_layout_of(vcpu)->tr);
}
DEFECT(bts_clear_ignored, "SDM Vol 3, 17.4.9.4",
       "clearing BTS while TR stays set does not end recording", BREAKS(write_msr, keep_at_enable),
       BREAKS(enabled, bts_clear_ignored))

/* A write of IA32_DEBUGCTL before and after which branches are recorded. */
static bool goes_on(const struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	const struct ds_layout *layout = ds_layout_of(vcpu);

	return index == MSR_DEBUGCTL && ds_tracing(vcpu) && value & layout->tr &&
	       value & layout->bts;
}

static bool rewrite_loses_one_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	*REMEMBERED(vcpu, bool) = goes_on(vcpu, index, value);
	return ds_clean.write_msr(vcpu, index, value);
}

static void rewrite_loses_one_store(struct vcpu *vcpu, const struct branch *branch)
{
	bool *due = REMEMBERED(vcpu, bool);

	if (!*due)
		ds_clean.store(vcpu, branch);
	*due = false;
}
DEFECT(rewrite_loses_one, "SDM Vol 3, 17.4.4",
       "the branch after a write of IA32_DEBUGCTL that leaves TR set is not recorded",
       BREAKS(write_msr, rewrite_loses_one_write_msr), BREAKS(store, rewrite_loses_one_store))

static bool rewrite_resets_index(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	uint64_t area = vcpu->ds.ds_area, base;

	ds_refresh(vcpu);
	if (goes_on(vcpu, index, value) && ds_load(vcpu, &vcpu->ds.seen.area, area, &base, 1))
		ds_store(vcpu, &vcpu->ds.seen.area, area + BTS_INDEX * FIELD_BYTES, &base, 1);
	return ds_clean.write_msr(vcpu, index, value);
}
DEFECT(rewrite_resets_index, "SDM Vol 3, 17.4.9",
       "a write of IA32_DEBUGCTL that leaves TR set takes the index back to the base",
       BREAKS(write_msr, rewrite_resets_index))

/* A processor that cannot have both may drop TR, but takes it once LBR is clear. */
static bool lbr_ends_tr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	bool *ended = REMEMBERED(vcpu, bool);
	uint64_t tr = ds_layout_of(vcpu)->tr;

	if (index != MSR_DEBUGCTL)
		return ds_clean.write_msr(vcpu, index, value);
	*ended |= value & DEBUGCTL_LBR && value & tr;
	return ds_clean.write_msr(vcpu, index, *ended ? value & ~tr : value);
}
DEFECT(lbr_ends_tr, "SDM Vol 3, 17.4.4", "once TR was set beside LBR it cannot be set any more",
       BREAKS(write_msr, lbr_ends_tr))
