// SPDX-License-Identifier: MIT
/*
 * Mistakes of a hypervisor that passes the Debug Store, or counters, LBR and PEBS, through
 * to its guests. They are what it forgets at an exit, the instructions at which it takes
 * over from the guest, or at the entry after it. CPUID, IN, OUT and HLT exit here; of an untraced
 * guest CPUID alone. Those of the other units are written from what Linux switches at an entry
 * (atomic_switch_perf_msrs(), vmx_passthrough_lbr_msrs()) and from what was fixed there.
 */
#include "monitor/defect.h"

#include "monitor/ds/memory.h"
#include "monitor/pebs/pebs.h"

#define HOST_CODE	  0xffffffff81200000ull /* of a Linux host */
#define HOST_INSTRUCTIONS 2000

static void exit_loses_area_note(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_clean.note(vcpu, occasion);
	*REMEMBERED(vcpu, bool) |= ds_is_exit(occasion) && ds_tracing(vcpu);
}

static bool exit_loses_area_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	*REMEMBERED(vcpu, bool) &= index != MSR_DS_AREA;
	return ds_clean.write_msr(vcpu, index, value);
}

static void exit_loses_area_store(struct vcpu *vcpu, const struct branch *branch)
{
	if (!*REMEMBERED(vcpu, bool))
		ds_clean.store(vcpu, branch);
}
DEFECT(exit_loses_area, "SDM Vol 3, 17.4.5",
       "after an exit records go to the hypervisor's DS area until IA32_DS_AREA is written",
       BREAKS(note, exit_loses_area_note), BREAKS(write_msr, exit_loses_area_write_msr),
       BREAKS(store, exit_loses_area_store))

/* A VM exit clears IA32_DEBUGCTL: SDM Vol 3, 27.5.1. */
static void exit_loses_debugctl(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_clean.note(vcpu, occasion);
	if (ds_is_exit(occasion) && ds_tracing(vcpu))
		ds_set_debugctl(vcpu, 0);
}
DEFECT(exit_loses_debugctl, "SDM Vol 3, 17.4.5",
       "an exit clears IA32_DEBUGCTL, and the entry does not load it again",
       BREAKS(note, exit_loses_debugctl))

static void exit_records_host(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_clean.note(vcpu, occasion);
	if (ds_is_exit(occasion) && ds_tracing(vcpu))
		ds_clean.store(vcpu, &(struct branch){.from = HOST_CODE, .to = HOST_CODE + 0x40});
}
DEFECT(exit_records_host, "SDM Vol 3, 17.4.4",
       "branches of the hypervisor before it clears TR are in the guest's buffer",
       BREAKS(note, exit_records_host))

static void exit_restores_index_note(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_clean.note(vcpu, occasion);
	if (ds_is_exit(occasion) && ds_tracing(vcpu))
		ds_store(vcpu, &vcpu->ds.seen.area, vcpu->ds.ds_area + BTS_INDEX * FIELD_BYTES,
			 REMEMBERED(vcpu, uint64_t), 1);
}

static bool exit_restores_index_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	bool done = ds_clean.write_msr(vcpu, index, value);

	if (done && index == MSR_DEBUGCTL && ds_tracing(vcpu))
		ds_load(vcpu, &vcpu->ds.seen.area, vcpu->ds.ds_area + BTS_INDEX * FIELD_BYTES,
			REMEMBERED(vcpu, uint64_t), 1);
	return done;
}
DEFECT(exit_restores_index, "SDM Vol 3, 17.4.5",
       "after an exit the index is what it was when IA32_DEBUGCTL was written",
       BREAKS(note, exit_restores_index_note), BREAKS(write_msr, exit_restores_index_write_msr))

/* An interrupt was delivered, and the next exit acts on it: `now`. */
struct handled {
	bool delivered, now;
};

static void handle_at_exit(struct vcpu *vcpu, enum ds_occasion occasion)
{
	struct handled *handled = REMEMBERED(vcpu, struct handled);

	ds_clean.note(vcpu, occasion);
	if (!ds_is_exit(occasion) || !handled->delivered)
		return;
	*handled = (struct handled){.now = true};
	platform_performance_interrupt(vcpu);
	handled->now = false;
}

static struct delivery handled_later(struct vcpu *vcpu, uint32_t entry)
{
	struct delivery delivery = ds_clean.deliver(vcpu, entry);

	REMEMBERED(vcpu, struct handled)->delivered |= delivery.kind != DELIVER_NOTHING;
	return delivery;
}

static struct delivery exit_unmasks_lvt(struct vcpu *vcpu, uint32_t entry)
{
	if (!REMEMBERED(vcpu, struct handled)->now)
		return handled_later(vcpu, entry);
	return (struct delivery){.kind = DELIVER_NOTHING, .entry = entry & ~(uint32_t)LVT_MASKED};
}
DEFECT(exit_unmasks_lvt, "SDM Vol 3, 10.5.1",
       "the first exit after a PMI takes back the mask that its delivery set",
       BREAKS(note, handle_at_exit), BREAKS(deliver, exit_unmasks_lvt))

static struct delivery pmi_twice(struct vcpu *vcpu, uint32_t entry)
{
	struct delivery delivery;

	if (!REMEMBERED(vcpu, struct handled)->now)
		return handled_later(vcpu, entry);
	delivery = ds_clean.deliver(vcpu, entry & ~(uint32_t)LVT_MASKED);
	delivery.entry = entry;
	return delivery;
}
DEFECT(pmi_twice, "SDM Vol 3, 17.4.9.5", "a PMI is injected again at the first exit after it",
       BREAKS(note, handle_at_exit), BREAKS(deliver, pmi_twice))

static struct delivery pmi_kept_by_host(struct vcpu *vcpu, uint32_t entry)
{
	(void)vcpu;
	return (struct delivery){.kind = DELIVER_NOTHING, .entry = entry};
}
DEFECT(pmi_kept_by_host, "SDM Vol 3, 17.4.9.5",
       "the hypervisor takes each PMI for its own: the guest gets none",
       BREAKS(deliver, pmi_kept_by_host))

/* The processor that exited last with TR set, and what it left. */
static struct {
	const struct vcpu *owner;
	uint64_t area, debugctl;
} left_on;

/* A processor's own registers while it runs with those of another owner. */
struct own {
	bool hidden;
	uint64_t area, debugctl;
};

static void left_on_for_next_note(struct vcpu *vcpu, enum ds_occasion occasion)
{
	struct own *own = REMEMBERED(vcpu, struct own);

	ds_clean.note(vcpu, occasion);
	if (!ds_is_exit(occasion) || own->hidden || left_on.owner == vcpu)
		return;
	if (ds_tracing(vcpu)) {
		left_on.area = vcpu->ds.ds_area;
		left_on.debugctl = vcpu->debugctl;
		left_on.owner = vcpu;
	} else if (left_on.owner) {
		*own = (struct own){true, vcpu->ds.ds_area, vcpu->debugctl};
		vcpu->ds.ds_area = left_on.area;
		ds_set_debugctl(vcpu, left_on.debugctl);
	}
}

static bool left_on_for_next_read_msr(const struct vcpu *vcpu, uint32_t index, uint64_t *value)
{
	const struct own *own = REMEMBERED(vcpu, struct own);
	bool known = ds_clean.read_msr(vcpu, index, value);

	if (own->hidden && index == MSR_DEBUGCTL)
		*value = own->debugctl;
	if (own->hidden && index == MSR_DS_AREA)
		*value = own->area;
	return known;
}

static bool left_on_for_next_write_msr(struct vcpu *vcpu, uint32_t index, uint64_t value)
{
	struct own *own = REMEMBERED(vcpu, struct own);

	if (left_on.owner == vcpu)
		left_on.owner = NULL;
	if (own->hidden) {
		vcpu->ds.ds_area = own->area;
		ds_set_debugctl(vcpu, own->debugctl);
	}
	own->hidden = false;
	return ds_clean.write_msr(vcpu, index, value);
}
DEFECT(left_on_for_next, "SDM Vol 3, 17.4.9.5",
       "BTS stays on after an exit: the branches of the next guest are recorded as well",
       BREAKS(note, left_on_for_next_note), BREAKS(read_msr, left_on_for_next_read_msr),
       BREAKS(write_msr, left_on_for_next_write_msr))

/* --- Of the other units ------------------------------------------------------------------------
 */

/* What `forgets` does at each exit. */
#define AT_EXIT(name, rule, says, forgets)                                                         \
	static void name(struct vcpu *vcpu, enum ds_occasion occasion)                             \
	{                                                                                          \
		ds_clean.note(vcpu, occasion);                                                     \
		if (ds_is_exit(occasion))                                                          \
			forgets(vcpu);                                                             \
	}                                                                                          \
	DEFECT_ON("icelake", name, rule, says, BREAKS(note, name))

static void count_host(struct vcpu *vcpu)
{
	for (unsigned n = 0; n < PMU_COUNTERS; n++)
		if (vcpu->pmu.counting >> n & 1)
			vcpu->pmu.value[n] =
				(vcpu->pmu.value[n] + HOST_INSTRUCTIONS) & pmu_counter_mask(vcpu);
}
AT_EXIT(exit_counts_host, "SDM Vol 3, 18.2.2",
	"counters count the instructions of the hypervisor as well", count_host)

/* The processor loads IA32_PERF_GLOBAL_CTRL of the host at an exit: SDM Vol 3, 27.5.1. */
static void lose_global_control(struct vcpu *vcpu)
{
	vcpu->pmu.global_control = 0;
	pmu_update(vcpu);
}
AT_EXIT(exit_stops_counters, "SDM Vol 3, 18.2.2",
	"after an exit no counter counts until IA32_PERF_GLOBAL_CTRL is written",
	lose_global_control)

static void lose_overflow(struct vcpu *vcpu)
{
	vcpu->pmu.global_status = 0;
}
AT_EXIT(exit_loses_overflow, "SDM Vol 3, 18.2.2", "an exit clears IA32_PERF_GLOBAL_STATUS",
	lose_overflow)

/* Linux counts what it emulates since 9cd803d496e7 (5.17). */
static unsigned exit_not_counted(const struct vcpu *vcpu, unsigned n, const struct retired *retired)
{
	unsigned *emulated = REMEMBERED(vcpu, unsigned);
	unsigned events = pmu_clean.occurs(vcpu, n, retired);

	if (!*emulated)
		return events;
	*emulated = 0;
	return 0;
}

static void exit_not_counted_note(struct vcpu *vcpu, enum ds_occasion occasion)
{
	ds_clean.note(vcpu, occasion);
	*REMEMBERED(vcpu, unsigned) = 1;
}
DEFECT_ON("icelake", exit_not_counted, "SDM Vol 3, 18.2.2",
	  "an instruction that exits is not counted", BREAKS_COUNTERS(occurs, exit_not_counted),
	  BREAKS(note, exit_not_counted_note))

static void show_host_branches(struct vcpu *vcpu)
{
	for (unsigned n = 0; n < vcpu->silicon->profile->lbr.depth; n++)
		vcpu->lbr.entry[n] = (struct lbr_entry){HOST_CODE + 64 * n, HOST_CODE + 4096, 0};
}
AT_EXIT(exit_shows_host_branches, "SDM Vol 3, 17.4.8",
	"after an exit the LBR stack has the hypervisor's branches", show_host_branches)

static void lose_top(struct vcpu *vcpu)
{
	vcpu->lbr.top = 0;
}
AT_EXIT(exit_loses_top, "SDM Vol 3, 17.4.8", "an exit clears TOS of the LBR stack", lose_top)

static void lose_select(struct vcpu *vcpu)
{
	vcpu->lbr.select = 0;
}
AT_EXIT(exit_loses_select, "SDM Vol 3, 17.4.8", "an exit clears LBR_SELECT", lose_select)

static void lose_samples(struct vcpu *vcpu)
{
	vcpu->pebs.enable = 0;
	pmu_update(vcpu);
}
AT_EXIT(exit_loses_pebs_enable, "SDM Vol 3, 18.4.4", "an exit clears IA32_PEBS_ENABLE",
	lose_samples)

/* The index of samples, as it was at the exit before. */
static void restore_pebs_index(struct vcpu *vcpu)
{
	uint64_t at = vcpu->ds.ds_area + (BTS_FIELDS + PEBS_INDEX) * FIELD_BYTES, index;
	uint64_t *cached = REMEMBERED(vcpu, uint64_t);

	if (!vcpu->pebs.enable || !ds_load(vcpu, &vcpu->ds.seen.area, at, &index, 1))
		return;
	if (*cached)
		ds_store(vcpu, &vcpu->ds.seen.area, at, cached, 1);
	else
		*cached = index;
}
AT_EXIT(exit_restores_pebs_index, "SDM Vol 3, 18.4.4",
	"after an exit the index of samples is that of an earlier one", restore_pebs_index)
